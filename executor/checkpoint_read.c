/* Reading by global coordinates: each rank opens all headers and reads the tensors that hold something of its own. */
#define _POSIX_C_SOURCE 200809L
#include "base/json.h"
#include "base/num.h"
#include "executor/checkpoint.h"
#include "executor/checkpoint_parts.h"
#include "host/file.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What to do where a file is not what was written. */
#define WHOLE_ONE "give --resume another checkpoint, or copy this one anew from where it is whole"

struct source { /* one rank's file */
    int file;
    char path[CHECKPOINT_PATH_BYTES];
    struct safetensors *header;
};
struct checkpoint {
    int64_t step;
    int count;
    struct source *sources;
};

static bool read_at(int file, const char *path, void *out, size_t bytes, int64_t offset, struct error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = pread(file, (char *)out + done, bytes - done, (off_t)(offset + (int64_t)done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return fail_kind(err, ERROR_INPUT, "%s: expected %zu bytes at %lld, found %s", path, bytes,
                             (long long)offset, got < 0 ? strerror(errno) : "the end of the file");
        done += (size_t)got;
    }
    return true;
}

static bool read_hash(const struct json *object, const char *key, uint64_t *out, struct error *err)
{
    const struct json *member;
    const char *text;
    if (!json_require(object, key, &member, err) || !json_string(member, &text, err))
        return false;
    if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16)
        return json_fail(member, err, "expected 16 hexadecimal digits, found \"%s\"", text);
    *out = strtoull(text, NULL, 16);
    return true;
}

static bool read_header(struct source *source, int64_t bytes, uint64_t hash, struct error *err)
{
    unsigned char start[SAFETENSORS_LENGTH_BYTES];
    struct stat status;
    size_t length;
    source->file = open(source->path, O_RDONLY | O_CLOEXEC);
    if (source->file < 0 || fstat(source->file, &status) != 0)
        return fail_kind(err, ERROR_INPUT, "%s: cannot read it: %s: " WHOLE_ONE, source->path, strerror(errno));
    if (status.st_size != bytes)
        return fail_kind(err, ERROR_INPUT, "%s: expected %lld bytes as the manifest says, found %lld: " WHOLE_ONE,
                         source->path, (long long)bytes, (long long)status.st_size);
    if (!read_at(source->file, source->path, start, sizeof start, 0, err) ||
        !safetensors_header_bytes(&length, source->path, start, bytes, err))
        return false;
    char *header = malloc(length + sizeof start);
    if (!header)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: no memory for its header", source->path);
    bool ok = read_at(source->file, source->path, header, length + sizeof start, 0, err);
    if (ok && hash_bytes(HASH_START, header, length + sizeof start) != hash)
        ok = fail_kind(err, ERROR_INPUT,
                       "%s: the header's checksum differs from the manifest: the file is damaged: " WHOLE_ONE,
                       source->path);
    ok = ok && safetensors_parse(&source->header, source->path, header + sizeof start, length, bytes, err);
    free(header);
    return ok;
}

static bool open_source(struct source *source, const char *dir, const struct json *entry, struct error *err)
{
    const struct json *member;
    const char *name;
    int64_t bytes;
    uint64_t hash;
    if (!json_require(entry, "name", &member, err) || !json_string(member, &name, err))
        return false;
    if (strchr(name, '/') || name[0] == '.')
        return json_fail(member, err, "expected the name of a file beside the manifest, found \"%s\"", name);
    if (!json_require(entry, "bytes", &member, err) || !json_int(member, 0, INT64_MAX, &bytes, err) ||
        !read_hash(entry, "header_hash", &hash, err))
        return false;
    if (snprintf(source->path, sizeof source->path, "%s/%s", dir, name) >= (int)sizeof source->path)
        return json_fail(member, err, "expected a shorter path");
    return read_header(source, bytes, hash, err);
}

/* The name is for people: two models may share it. */
static bool fail_model(const struct json *root, const struct graph *graph, uint64_t found, struct error *err)
{
    const struct json *member = json_member(root, "model");
    const char *name = "another one";
    if (member)
        json_string(member, &name, NULL);
    return json_fail(json_member(root, "model_hash"), err,
                     "expected a checkpoint of the plan's model, %s (hash %016" PRIx64
                     "), found one of %s (hash %016" PRIx64
                     "): run a plan for that model, or give --resume a checkpoint of this one",
                     graph->model_name, graph->model_hash, name, found);
}

static bool check_manifest(const struct json *root, const struct rank *rank, int64_t *step, struct error *err)
{
    const struct json *member;
    const char *format;
    int64_t version;
    uint64_t model_hash, seed;
    if (!json_require(root, "format", &member, err) || !json_string(member, &format, err))
        return false;
    if (strcmp(format, CHECKPOINT_FORMAT) != 0)
        return json_fail(member, err, "expected \"" CHECKPOINT_FORMAT "\", found \"%s\"", format);
    if (!json_require(root, "version", &member, err) ||
        !json_int(member, CHECKPOINT_VERSION, CHECKPOINT_VERSION, &version, err) ||
        !read_hash(root, "model_hash", &model_hash, err) || !read_hash(root, "seed", &seed, err) ||
        !json_require(root, "step", &member, err) || !json_int(member, 1, INT64_MAX, step, err))
        return false;
    if (model_hash != rank->program->graph->model_hash)
        return fail_model(root, rank->program->graph, model_hash, err);
    if (seed != rank->options->seed)
        return json_fail(json_member(root, "seed"), err,
                         "expected the seed of this run (%" PRIu64 "), found %" PRIu64
                         ": data would differ; run with --seed %" PRIu64,
                         rank->options->seed, seed, seed);
    return true;
}

static bool read_manifest(struct checkpoint *out, const struct rank *rank, const char *dir, struct error *err)
{
    char path[CHECKPOINT_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/" CHECKPOINT_MANIFEST, dir) >= (int)sizeof path)
        return fail_kind(err, ERROR_INPUT, "checkpoint: the path %s is too long", dir);
    char *text = NULL;
    size_t length;
    struct json_doc *doc = NULL;
    const struct json *files;
    bool ok = file_read(&text, &length, path, err) && json_parse(&doc, path, text, length, err) &&
              check_manifest(json_root(doc), rank, &out->step, err) &&
              json_require(json_root(doc), "files", &files, err);
    if (ok && json_type(files) != JSON_ARRAY)
        ok = json_fail(files, err, "expected an array of files, found %s", json_type_name(json_type(files)));
    if (ok && !(out->sources = calloc((size_t)json_count(files) + 1, sizeof *out->sources)))
        ok = fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    for (int i = 0; ok && i < json_count(files); i++) {
        out->sources[i].file = -1;
        out->count = i + 1;
        ok = open_source(&out->sources[i], dir, json_at(files, i), err);
    }
    json_free(doc);
    free(text);
    return ok;
}

/* The tensor's part of the destination. */
static bool take_tensor(const struct source *source, const struct tensor *tensor, const struct place *destination,
                        real *to, unsigned char *covered, struct error *err)
{
    struct place place;
    uint64_t hash;
    struct block both;
    const char *note = safetensors_note(source->header, tensor->name);
    if (!note || !place_parse(note, &place, &hash) || tensor->type != (sizeof(real) == 8 ? TENSOR_F64 : TENSOR_F32) ||
        tensor->bytes != place.count * (int64_t)sizeof(real))
        return fail_kind(err, ERROR_INPUT, "%s: tensor %s: expected %s with its place in the metadata", source->path,
                         tensor->name, sizeof(real) == 8 ? "F64" : "F32");
    if (place.block.dim_count != destination->block.dim_count || place.count == 0 ||
        !block_intersect(&destination->block, &place.block, &both))
        return true;
    real *data = malloc((size_t)tensor->bytes);
    if (!data)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: no memory for tensor %s", source->path, tensor->name);
    bool ok = read_at(source->file, source->path, data, (size_t)tensor->bytes,
                      source->header->data_start + tensor->offset, err);
    if (ok && hash_bytes(HASH_START, data, (size_t)tensor->bytes) != hash)
        ok = fail_kind(err, ERROR_INPUT, "%s: tensor %s is damaged: its checksum differs: " WHOLE_ONE, source->path,
                       tensor->name);
    if (ok)
        place_copy(destination, to, covered, &place, data);
    free(data);
    return ok;
}

/* Padded rows (beyond valid_rows of dim 0) depend on the plan and are 0. */
static bool check_covered(const struct rank *rank, const struct place *place, const unsigned char *covered,
                          const char *what, const struct weight *weight, struct error *err)
{
    int64_t row_elements = 1;
    for (int d = 1; d < place->block.dim_count; d++)
        row_elements *= place->block.count[d];
    for (int64_t i = 0; i < place->count; i++) {
        int64_t row = place->block.low[0] + (place->first + i) / row_elements;
        if (!covered[i] && row < weight->valid_rows)
            return fail_kind(err, ERROR_INPUT,
                             "checkpoint: %s of %s: rank %d finds no value for an element of row %lld: " WHOLE_ONE,
                             what, weight->name, rank->rank, (long long)row);
    }
    return true;
}

static bool read_quantity(const struct rank *rank, const struct checkpoint *checkpoint, int b, enum quantity quantity,
                          struct error *err)
{
    const struct weight *weight = &rank->program->graph->weights[rank->program->buffers[b].id];
    struct place place = checkpoint_place(rank, b);
    real *wide = checkpoint_is_half(rank, b) ? malloc(((size_t)place.count + 1) * sizeof *wide) : NULL;
    real *to = wide ? wide : checkpoint_data(rank, b, quantity);
    unsigned char *covered = calloc((size_t)place.count + 1, 1);
    char prefix[CHECKPOINT_NAME_BYTES];
    int length = snprintf(prefix, sizeof prefix, "%s/%s/", quantity_names[quantity], weight->name);
    bool ok = (covered && (wide || !checkpoint_is_half(rank, b))) ||
              fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    if (ok)
        memset(to, 0, (size_t)place.count * sizeof *to);
    for (int s = 0; ok && s < checkpoint->count; s++) {
        const struct source *source = &checkpoint->sources[s];
        for (int i = 0; ok && i < source->header->count; i++)
            if (strncmp(source->header->tensors[i].name, prefix, (size_t)length) == 0)
                ok = take_tensor(source, &source->header->tensors[i], &place, to, covered, err);
        status_beat(rank->options->status, rank->rank);
    }
    ok = ok && check_covered(rank, &place, covered, quantity_names[quantity], weight, err);
    if (ok && wide)
        checkpoint_round(rank, b, wide, checkpoint->step);
    free(wide);
    free(covered);
    return ok;
}

bool checkpoint_read(struct rank *rank, const char *dir, struct error *err)
{
    struct checkpoint checkpoint = { 0 };
    bool ok = read_manifest(&checkpoint, rank, dir, err);
    for (int b = 0; ok && b < rank->program->buffer_count; b++) {
        const struct buffer *buffer = &rank->program->buffers[b];
        if (buffer->stage != rank->stage || !(buffer->kind == BUFFER_WEIGHT || buffer->kind == BUFFER_STATE))
            continue;
        enum quantity first, end;
        checkpoint_quantities(rank, b, &first, &end);
        if (checkpoint_is_half(rank, b)) /* from the same tensors as the state's copy, or its own */
            end = QUANTITY_MOMENT1;
        for (int q = (int)first; ok && q < (int)end; q++)
            ok = read_quantity(rank, &checkpoint, b, (enum quantity)q, err);
    }
    if (ok)
        rank->step = checkpoint.step;
    for (int s = 0; s < checkpoint.count; s++) {
        safetensors_free(checkpoint.sources[s].header);
        if (checkpoint.sources[s].file >= 0)
            close(checkpoint.sources[s].file);
    }
    free(checkpoint.sources);
    return ok;
}
