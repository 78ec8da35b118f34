/* Reading by global coordinates: each rank opens all headers and reads the tensors that hold something of its own. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "executor/checkpoint/read.h"
#include "executor/checkpoint/folder.h"
#include "executor/checkpoint/parts.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct source { /* one rank's file */
    int file;
    char path[CHECKPOINT_PATH_BYTES];
    struct safetensors *header;
    bool *taken; /* (header->count): this rank has read the tensor, and so it is whole */
};
struct checkpoint {
    struct manifest manifest;
    int count; /* of sources that were opened */
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

/* The label is what the manifest says: a file of another save would not have it. */
static bool check_label(const struct source *source, const struct checkpoint_label *label, int rank, struct error *err)
{
    char expected[CHECKPOINT_LABEL_BYTES];
    const char *found = safetensors_note(source->header, CHECKPOINT_LABEL_KEY);
    checkpoint_label_print(label, rank, expected);
    return (found && strcmp(found, expected) == 0) ||
           fail_kind(err, ERROR_INPUT,
                     "%s: expected a file of %s, as the manifest says, found %.200s: " CHECKPOINT_WHOLE_ONE,
                     source->path, expected, found ? found : "none");
}

static bool read_header(struct source *source, const struct file_record *record, struct error *err)
{
    unsigned char start[SAFETENSORS_LENGTH_BYTES];
    struct stat status;
    size_t length;
    source->file = open(source->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe is not waited for */
    if (source->file < 0 || fstat(source->file, &status) != 0)
        return fail_kind(err, ERROR_INPUT, "%s: cannot read it: %s: " CHECKPOINT_WHOLE_ONE, source->path,
                         strerror(errno));
    if (status.st_size != record->bytes)
        return fail_kind(err, ERROR_INPUT,
                         "%s: expected %lld bytes as the manifest says, found %lld: " CHECKPOINT_WHOLE_ONE,
                         source->path, (long long)record->bytes, (long long)status.st_size);
    if (!read_at(source->file, source->path, start, sizeof start, 0, err) ||
        !safetensors_header_bytes(&length, source->path, start, record->bytes, err))
        return false;
    char *header = malloc(length + sizeof start);
    if (!header)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: no memory for its header", source->path);
    bool ok = read_at(source->file, source->path, header, length + sizeof start, 0, err);
    if (ok && hash_bytes(HASH_START, header, length + sizeof start) != record->header_hash)
        ok =
            fail_kind(err, ERROR_INPUT,
                      "%s: the header's checksum differs from the manifest: the file is damaged: " CHECKPOINT_WHOLE_ONE,
                      source->path);
    ok = ok && safetensors_parse(&source->header, source->path, header + sizeof start, length, record->bytes, err);
    free(header);
    return ok;
}

static bool open_source(struct source *source, const char *folder, const struct manifest *manifest, int rank,
                        struct error *err)
{
    char name[CHECKPOINT_NAME_BYTES];
    checkpoint_file_name(name, rank);
    if (!checkpoint_path(source->path, folder, name, err) || !read_header(source, &manifest->records[rank], err) ||
        !check_label(source, &manifest->label, rank, err))
        return false;
    source->taken = calloc((size_t)source->header->count + 1, sizeof *source->taken);
    return source->taken || fail_memory(err);
}

/* The name is for people: two models may share it. */
static bool check_run(const struct manifest *manifest, const struct rank *rank, struct error *err)
{
    const struct json *root = json_root(manifest->doc);
    const struct graph *graph = rank->program->graph;
    const struct checkpoint_label *l = &manifest->label;
    if (l->model_hash != graph->model_hash)
        return json_fail(json_member(root, "model_hash"), err,
                         "expected a checkpoint of the plan's model, %s (hash %016" PRIx64
                         "), found one of %s (hash %016" PRIx64
                         "): run a plan for that model, or give --resume a checkpoint of this one",
                         graph->model_name, graph->model_hash, manifest->model, l->model_hash);
    if (l->seed != rank->options->seed)
        return json_fail(json_member(root, "seed"), err,
                         "expected the seed of this run (%" PRIu64 "), found %" PRIu64
                         ": data would differ; run with --seed %" PRIu64,
                         rank->options->seed, l->seed, l->seed);
    return true;
}

#define BEGINS "-" /* in place of a save's name */
enum { MOST_CHOICES = 50 };

/* Rank 0 chooses, so that all read the same one, or none. */
static bool choose(const struct rank *rank, const char *dir, char name[CHECKPOINT_NAME_BYTES], struct error *err)
{
    const struct transport *t = rank->transport;
    if (t->rank > 0)
        return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, 0, name, CHECKPOINT_NAME_BYTES, err);
    memset(name, 0, CHECKPOINT_NAME_BYTES);
    bool ok = true;
    if (rank->options->resume_begins)
        strcpy(name, BEGINS);
    else
        ok = checkpoint_newest(dir, name, err);
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = t->exchange(t->self, LANE_COMPUTE, r, name, CHECKPOINT_NAME_BYTES, -1, NULL, 0, err);
    name[CHECKPOINT_NAME_BYTES - 1] = '\0';
    return ok;
}

static void close_checkpoint(struct checkpoint *checkpoint)
{
    manifest_free(&checkpoint->manifest);
    for (int s = 0; s < checkpoint->count; s++) {
        safetensors_free(checkpoint->sources[s].header);
        free(checkpoint->sources[s].taken);
        if (checkpoint->sources[s].file >= 0)
            close(checkpoint->sources[s].file);
    }
    free(checkpoint->sources);
    *checkpoint = (struct checkpoint){ 0 };
}

static bool open_save(struct checkpoint *out, const struct rank *rank, const char *dir, const char *name,
                      struct error *err)
{
    char folder[CHECKPOINT_PATH_BYTES];
    if (!checkpoint_path(folder, dir, name, err) || !manifest_read(&out->manifest, folder, err) ||
        !check_run(&out->manifest, rank, err))
        return false;
    const int count = out->manifest.label.file_count;
    out->sources = calloc((size_t)count, sizeof *out->sources);
    if (!out->sources)
        return fail_memory(err);
    for (int i = 0; i < count; i++) {
        out->sources[i].file = -1;
        out->count = i + 1;
        if (!open_source(&out->sources[i], folder, &out->manifest, i, err))
            return false;
    }
    return true;
}

/* Whether every rank has it open; a rank for which it is not there in any way has failed instead of asking. */
static bool all_have_opened(const struct rank *rank, bool mine, bool *all, struct error *err)
{
    const struct transport *t = rank->transport;
    char opened = (char)mine, theirs;
    bool ok = true;
    for (int r = 1; ok && t->rank == 0 && r < t->rank_count; r++) {
        ok = t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, r, &theirs, 1, err);
        opened = (char)(ok && opened && theirs);
    }
    for (int r = 1; ok && t->rank == 0 && r < t->rank_count; r++)
        ok = t->exchange(t->self, LANE_COMPUTE, r, &opened, 1, -1, NULL, 0, err);
    if (t->rank > 0)
        ok = t->exchange(t->self, LANE_COMPUTE, 0, &opened, 1, -1, NULL, 0, err) &&
             t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, 0, &opened, 1, err);
    *all = opened != 0;
    return ok;
}

/* Leaves *out empty where the run begins. Where another run saves in the folder, the newest save may go as soon as it
 * has been chosen, because there is a newer one: then that is chosen. What is open stays readable. */
static bool open_checkpoint(struct checkpoint *out, const struct rank *rank, const char *dir, struct error *err)
{
    for (int choices = 0; choices < MOST_CHOICES; choices++) {
        char name[CHECKPOINT_NAME_BYTES], newest[CHECKPOINT_NAME_BYTES];
        struct error why = { 0 };
        if (!choose(rank, dir, name, err))
            return false;
        if (strcmp(name, BEGINS) == 0)
            return rank->options->resume_begins ||
                   fail_kind(err, ERROR_INPUT,
                             "checkpoint: rank 0 finds none in %s, and rank %d one: all ranks must see the same folder",
                             dir, rank->rank);
        bool opened = open_save(out, rank, dir, name, &why), all;
        if (!opened && (!checkpoint_newest(dir, newest, &why) || strcmp(newest, name) == 0))
            return fail_with(err, &why);
        if (!all_have_opened(rank, opened, &all, err))
            return false;
        if (all)
            return true;
        close_checkpoint(out);
    }
    return fail_kind(err, ERROR_INPUT,
                     "checkpoint: another run saves in %s more often than its newest save can be opened: end it, or "
                     "have it save less often, or give --resume one of the saves in it",
                     dir);
}

/* ---- tensors ---- */
/* Reads the bytes and holds each block against its checksum. */
static bool read_blocks(const struct source *source, const struct tensor *tensor, const char *sums, char *out,
                        struct error *err)
{
    for (int64_t at = 0; at < tensor->bytes; at += CHECKPOINT_BLOCK_BYTES) {
        const int64_t bytes = min_i64(CHECKPOINT_BLOCK_BYTES, tensor->bytes - at), block = at / CHECKPOINT_BLOCK_BYTES;
        const int64_t offset = source->header->data_start + tensor->offset + at;
        if (!read_at(source->file, source->path, out + at, (size_t)bytes, offset, err))
            return false;
        if (!place_block_is_whole(sums, block, out + at, (size_t)bytes))
            return fail_kind(err, ERROR_INPUT,
                             "%s: tensor %s is damaged: the checksum of block %lld (bytes %lld to %lld of the file) "
                             "differs: " CHECKPOINT_WHOLE_ONE,
                             source->path, tensor->name, (long long)block, (long long)offset,
                             (long long)(offset + bytes - 1));
    }
    return true;
}

static bool find_place(const struct source *source, const struct tensor *tensor, struct place *place, const char **sums,
                       struct error *err)
{
    const char *note = safetensors_note(source->header, tensor->name);
    return (note && place_parse(note, place, sums) && place_has_sums(*sums, tensor->bytes) &&
            tensor->type == (sizeof(real) == 8 ? TENSOR_F64 : TENSOR_F32) &&
            tensor->bytes == place->count * (int64_t)sizeof(real)) ||
           fail_kind(err, ERROR_INPUT, "%s: tensor %s: expected %s with its place and checksums in the metadata",
                     source->path, tensor->name, sizeof(real) == 8 ? "F64" : "F32");
}

/* The tensor's part of the destination. */
static bool take_tensor(const struct source *source, int index, const struct place *destination, real *to,
                        unsigned char *covered, struct error *err)
{
    const struct tensor *tensor = &source->header->tensors[index];
    struct place place;
    struct block both;
    const char *sums;
    if (!find_place(source, tensor, &place, &sums, err))
        return false;
    if (place.block.dim_count != destination->block.dim_count || place.count == 0 ||
        !block_intersect(&destination->block, &place.block, &both))
        return true;
    real *data = malloc((size_t)tensor->bytes);
    if (!data)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: no memory for tensor %s", source->path, tensor->name);
    bool ok = read_blocks(source, tensor, sums, (char *)data, err);
    if (ok)
        place_copy(destination, to, covered, &place, data, &both);
    source->taken[index] = ok;
    free(data);
    return ok;
}

/* What no rank may need, such as rows that pad, is to be whole as well: each rank looks at its share of the files. */
static bool check_rest(const struct rank *rank, const struct checkpoint *checkpoint, struct error *err)
{
    bool ok = true;
    for (int s = rank->rank; ok && s < checkpoint->count; s += rank->program->plan->rank_count) {
        const struct source *source = &checkpoint->sources[s];
        for (int i = 0; ok && i < source->header->count; i++) {
            const struct tensor *tensor = &source->header->tensors[i];
            struct place place;
            const char *sums;
            char *data = source->taken[i] ? NULL : malloc((size_t)tensor->bytes + 1);
            ok = source->taken[i] || data || fail_memory(err);
            ok = ok && (source->taken[i] || (find_place(source, tensor, &place, &sums, err) &&
                                             read_blocks(source, tensor, sums, data, err)));
            free(data);
            status_beat(rank->options->status, rank->rank);
        }
    }
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
            return fail_kind(
                err, ERROR_INPUT,
                "checkpoint: %s of %s: rank %d finds no value for an element of row %lld: " CHECKPOINT_WHOLE_ONE, what,
                weight->name, rank->rank, (long long)row);
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
                ok = take_tensor(source, i, &place, to, covered, err);
        status_beat(rank->options->status, rank->rank);
    }
    ok = ok && check_covered(rank, &place, covered, quantity_names[quantity], weight, err);
    if (ok && wide)
        checkpoint_round(rank, b, wide, checkpoint->manifest.label.step);
    free(wide);
    free(covered);
    return ok;
}

bool checkpoint_read(struct rank *rank, const char *dir, struct error *err)
{
    struct checkpoint checkpoint = { 0 };
    bool ok = open_checkpoint(&checkpoint, rank, dir, err);
    if (ok && checkpoint.count == 0)
        return true;
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
    ok = ok && check_rest(rank, &checkpoint, err);
    if (ok)
        rank->step = checkpoint.manifest.label.step;
    close_checkpoint(&checkpoint);
    return ok;
}
