#include "base/num.h"
#include "cli/weights_check.h"
#include "executor/hf_index.h"
#include "executor/safetensors.h"
#include "models/import/hf_tensors.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BLOCKS = 10000 };
struct weights {
    int64_t outside, block[MOST_BLOCKS]; /* parameters */
    int block_count, tensor_count;
};

/* The first part of the name that is a number; -1: none. */
static int block_of(const char *name)
{
    for (const char *at = name; at; at = strchr(at, '.') ? strchr(at, '.') + 1 : NULL) {
        size_t digits = strspn(at, "0123456789");
        if (digits > 0 && digits < 6 && (at[digits] == '.' || at[digits] == '\0'))
            return atoi(at);
    }
    return -1;
}

static bool count_tensors(struct weights *w, const struct safetensors *file, const char *path, struct error *err)
{
    for (int i = 0; i < file->count; i++) {
        const struct tensor *t = &file->tensors[i];
        int block = block_of(t->name);
        int64_t count = 1;
        if (hf_is_buffer(t->name))
            continue;
        for (int d = 0; d < t->dim_count; d++)
            count *= t->shape[d];
        if (block >= MOST_BLOCKS)
            return fail_kind(err, ERROR_INPUT, "%s: %s: expected a block below %d", path, t->name, MOST_BLOCKS);
        *(block < 0 ? &w->outside : &w->block[block]) += count;
        w->block_count = block >= w->block_count ? block + 1 : w->block_count;
        w->tensor_count++;
    }
    return true;
}

/* Fewer where the file ends, or cannot be read. */
static bool read_bytes(int file, void *out, size_t bytes)
{
    size_t done = 0;
    ssize_t got = 1;
    while (done < bytes && (got > 0 || (got < 0 && errno == EINTR))) {
        got = read(file, (char *)out + done, bytes - done);
        done += got > 0 ? (size_t)got : 0;
    }
    return done == bytes;
}

static bool read_header(struct weights *w, const char *path, struct error *err)
{
    unsigned char start[SAFETENSORS_LENGTH_BYTES];
    struct safetensors *file = NULL;
    struct stat status;
    size_t bytes = 0;
    char *header = NULL;
    int in = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe in its place would wait for ever */
    bool there = in >= 0 && fstat(in, &status) == 0 && read_bytes(in, start, sizeof start);
    bool ok = there && safetensors_header_bytes(&bytes, path, start, status.st_size, err);
    if (ok && !(header = malloc(bytes + 1)))
        ok = fail_memory(err);
    else if (ok)
        there = read_bytes(in, header, bytes);
    if (!there)
        ok = fail_kind(err, ERROR_INPUT, "%s: cannot read the header of a safetensors file", path);
    ok = ok && safetensors_parse(&file, path, header, bytes, status.st_size, err) && count_tensors(w, file, path, err);
    if (in >= 0)
        close(in);
    safetensors_free(file);
    free(header);
    return ok;
}

/* Each file that the index names. */
static bool read_indexed(struct inputs *in, struct weights *w, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/'), *text;
    struct hf_index *index = NULL;
    size_t length;
    bool ok = inputs_text(in, path, &text, &length, err) && hf_index_parse(&index, path, text, length, err);
    for (int i = 0; ok && i < index->file_count; i++) {
        struct text name = { 0 };
        text_printf(&name, "%.*s%s", slash ? (int)(slash + 1 - path) : 0, path, index->files[i]);
        ok = name.failed ? fail_memory(err) : read_header(w, name.data, err);
        text_free(&name);
    }
    hf_index_free(index);
    return ok;
}

static int64_t elements(const struct weight *weight)
{
    int64_t count = weight->valid_rows;
    for (int d = 1; d < weight->dim_count; d++)
        count *= weight->size[d];
    return count;
}

/* Parameters of each layer, by the prefixes of their weights' names; those that layers share count for none. */
static int64_t count_layers(const struct graph *graph, int64_t *layers)
{
    int64_t total = 0;
    for (int i = 0; i < graph->weight_count; i++) {
        const struct weight *weight = &graph->weights[i];
        int layer = strspn(weight->name, "0123456789") ? atoi(weight->name) : -1;
        if (is_index(layer, graph->layer_count))
            layers[layer] += elements(weight);
        total += elements(weight);
    }
    return total;
}

/* Each block of the file is one or more layers in order, behind the one that reads the tokens. */
static bool compare(const struct weights *w, const int64_t *layers, int layer_count, int64_t total, const char *path,
                    struct error *err)
{
    int64_t found = w->outside, rest = total;
    int layer = 1;
    for (int b = 0; b < w->block_count; b++)
        found += w->block[b];
    if (found == total)
        return true;
    for (int b = 0; b < w->block_count; b++) {
        int64_t own = 0;
        while (layer < layer_count && own < w->block[b])
            own += layers[layer++];
        if (own != w->block[b])
            return fail_kind(err, ERROR_INPUT,
                             "%s has %lld parameters, the model %lld; the first difference is in block %d: %lld there, "
                             "%lld in the model",
                             path, (long long)found, (long long)total, b, (long long)w->block[b], (long long)own);
        rest -= own;
    }
    return fail_kind(
        err, ERROR_INPUT,
        "%s has %lld parameters, the model %lld; the blocks are alike, beside them are %lld there, %lld in the "
        "model (embedding, head and their norms)",
        path, (long long)found, (long long)total, (long long)w->outside, (long long)rest);
}

bool weights_check(struct inputs *in, const struct graph *graph, const char *path, struct error *err)
{
    struct weights *w = arena_alloc(&in->arena, 1, sizeof *w);
    int64_t *layers = arena_alloc(&in->arena, (size_t)graph->layer_count, sizeof *layers);
    const size_t length = strlen(path);
    if (!w || !layers)
        return fail_memory(err);
    const bool is_json = length > 5 && strcmp(path + length - 5, ".json") == 0;
    if (!(is_json ? read_indexed(in, w, path, err) : read_header(w, path, err)))
        return false;
    if (!compare(w, layers, graph->layer_count, count_layers(graph, layers), path, err))
        return false;
    fprintf(in->cli->talk, "%s: the same number of parameters in %d tensors\n", path, w->tensor_count);
    return true;
}
