#define _POSIX_C_SOURCE 200809L
#include "executor/checkpoint.h"
#include "base/json.h"
#include "base/num.h"
#include "executor/checkpoint_parts.h"
#include "host/file.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool io_fail(struct error *err, const char *what, const char *path)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: cannot %s %s: %s%s", what, path, strerror(errno),
                     file_write_hint(errno));
}

static bool path_of(char out[CHECKPOINT_PATH_BYTES], const char *dir, const char *name, struct error *err)
{
    int length = snprintf(out, CHECKPOINT_PATH_BYTES, "%s/%s", dir, name);
    return length < CHECKPOINT_PATH_BYTES || fail_kind(err, ERROR_INPUT, "checkpoint: the path %s is too long", dir);
}

static void file_name(char out[CHECKPOINT_NAME_BYTES], int64_t step, int rank)
{
    snprintf(out, CHECKPOINT_NAME_BYTES, "step-%" PRId64 ".rank-%d.safetensors", step, rank);
}

struct piece_bytes {
    const void *data;
    size_t bytes;
};

#define TEMPORARY ".tmp"

/* Tells whether it is the temporary name of a rank's file, to the letter. */
static bool is_temporary(const char *name, int *rank)
{
    char same[CHECKPOINT_NAME_BYTES];
    int64_t step;
    if (sscanf(name, "step-%18" SCNd64 ".rank-%9d", &step, rank) != 2 || step <= 0)
        return false;
    file_name(same, step, *rank);
    size_t length = strlen(same);
    return strncmp(name, same, length) == 0 && strcmp(name + length, TEMPORARY) == 0;
}

/* What runs that were killed had not finished to write. Every rank looks for its own, rank 0 for those that only a
 * larger run had, and for the manifest's. */
static void clear_unfinished(const struct rank *rank, const char *dir)
{
    DIR *folder = opendir(dir);
    for (const struct dirent *entry; folder && (entry = readdir(folder));) {
        int of = -1;
        bool temporary = is_temporary(entry->d_name, &of);
        bool mine = of == rank->rank || (rank->rank == 0 && of >= rank->program->plan->rank_count);
        if ((temporary && mine) || (rank->rank == 0 && file_is_unfinished(entry->d_name, CHECKPOINT_MANIFEST)))
            unlinkat(dirfd(folder), entry->d_name, 0);
    }
    if (folder)
        closedir(folder);
}

/* All pieces one after another into path, by way of a temporary name. */
static bool write_file(const char *path, const struct piece_bytes *pieces, int count, struct error *err)
{
    char temporary[CHECKPOINT_PATH_BYTES + 8];
    snprintf(temporary, sizeof temporary, "%s" TEMPORARY, path);
    FILE *file = fopen(temporary, "wb");
    if (!file)
        return io_fail(err, "create", temporary);
    bool ok = true;
    for (int i = 0; ok && i < count; i++)
        ok = pieces[i].bytes == 0 || fwrite(pieces[i].data, 1, pieces[i].bytes, file) == pieces[i].bytes;
    ok = ok && fflush(file) == 0 && fsync(fileno(file)) == 0;
    if (!ok)
        io_fail(err, "write", temporary);
    if (fclose(file) != 0 && ok)
        ok = io_fail(err, "write", temporary);
    if (ok && rename(temporary, path) != 0)
        ok = io_fail(err, "rename", temporary);
    if (!ok)
        unlink(temporary);
    return ok;
}

/* ---- a rank's file ---- */
struct rank_file {
    struct arena arena;
    struct tensor *tensors;
    struct tensor_note *notes;
    struct piece_bytes *pieces; /* the header first */
    int count;
};

static bool add_tensor(struct rank_file *file, const struct rank *rank, int b, enum quantity quantity,
                       struct error *err)
{
    const struct buffer *buffer = &rank->program->buffers[b];
    struct place place = checkpoint_place(rank, b);
    real *data = checkpoint_data(rank, b, quantity);
    size_t bytes = (size_t)place.count * sizeof *data;
    if (checkpoint_is_half(rank, b)) {
        data = arena_alloc(&file->arena, (size_t)place.count + 1, sizeof *data);
        if (!data)
            return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
        checkpoint_widen(rank, b, data);
    }
    char name[CHECKPOINT_NAME_BYTES], text[CHECKPOINT_PLACE_BYTES];
    snprintf(name, sizeof name, "%s/%s/%d", quantity_names[quantity], rank->program->graph->weights[buffer->id].name,
             buffer->part);
    place_print(&place, hash_bytes(HASH_START, data, bytes), text);
    struct tensor *tensor = &file->tensors[file->count];
    *tensor = (struct tensor){ .name = arena_strdup(&file->arena, name),
                               .type = sizeof(real) == 8 ? TENSOR_F64 : TENSOR_F32,
                               .dim_count = 1,
                               .shape = { place.count },
                               .bytes = (int64_t)bytes };
    if (place.count == block_elements(&place.block)) { /* whole blocks keep their shape */
        tensor->dim_count = place.block.dim_count;
        memcpy(tensor->shape, place.block.count, sizeof place.block.count);
    }
    file->notes[file->count] = (struct tensor_note){ tensor->name, arena_strdup(&file->arena, text) };
    file->pieces[++file->count] = (struct piece_bytes){ data, bytes };
    return (tensor->name && file->notes[file->count - 1].value) ||
           fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
}

/* Returns by weight the first of the stages that hold it; NULL: out of memory. */
static const int *first_stages(const struct program *program, struct arena *arena)
{
    int *first = arena_alloc(arena, (size_t)program->graph->weight_count, sizeof *first);
    for (int w = 0; first && w < program->graph->weight_count; w++)
        first[w] = program->stage_count;
    for (int b = 0; first && b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->kind == BUFFER_WEIGHT && buffer->stage < first[buffer->id])
            first[buffer->id] = buffer->stage;
    }
    return first;
}

/* One of equal copies is written: on the first stage that holds the weight, on coordinate 0 of every replicated atom.
 */
static bool collect_tensors(struct rank_file *file, const struct rank *rank, struct error *err)
{
    const struct program *program = rank->program;
    size_t most = (size_t)program->buffer_count * QUANTITY_COUNT + 1;
    const int *first_stage = first_stages(program, &file->arena);
    file->tensors = arena_alloc(&file->arena, most, sizeof *file->tensors);
    file->notes = arena_alloc(&file->arena, most, sizeof *file->notes);
    file->pieces = arena_alloc(&file->arena, most, sizeof *file->pieces);
    if (!file->tensors || !file->notes || !file->pieces || !first_stage)
        return fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (!rank_holds(rank, b) || buffer->stage != first_stage[buffer->id] ||
            !geometry_rank_counts(program, buffer, rank->local_rank))
            continue;
        enum quantity first, end;
        checkpoint_quantities(rank, b, &first, &end);
        for (int q = (int)first; q < (int)end; q++)
            if (!add_tensor(file, rank, b, (enum quantity)q, err))
                return false;
    }
    return true;
}

struct file_record {
    int64_t bytes;
    uint64_t header_hash;
};

static bool write_rank(const struct rank *rank, const char *dir, struct file_record *record, struct error *err)
{
    struct rank_file file = { 0 };
    char name[CHECKPOINT_NAME_BYTES], path[CHECKPOINT_PATH_BYTES];
    size_t header_bytes = 0;
    char *header = NULL;
    file_name(name, rank->step + 1, rank->rank);
    bool ok = path_of(path, dir, name, err) && collect_tensors(&file, rank, err);
    if (ok && !(header = safetensors_write(file.tensors, file.count, file.notes, file.count, &header_bytes)))
        ok = fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    if (ok) {
        file.pieces[0] = (struct piece_bytes){ header, header_bytes };
        *record = (struct file_record){ (int64_t)header_bytes, hash_bytes(HASH_START, header, header_bytes) };
        for (int i = 0; i < file.count; i++)
            record->bytes += file.tensors[i].bytes;
        ok = write_file(path, file.pieces, file.count + 1, err);
    }
    free(header);
    arena_free(&file.arena);
    return ok;
}

/* ---- the manifest ---- */
static void write_hash(struct json_writer *w, const char *key, uint64_t hash)
{
    char text[24];
    snprintf(text, sizeof text, "%016" PRIx64, hash);
    json_put_string(w, key, text);
}

static bool write_manifest(const struct rank *rank, const char *dir, const struct file_record *records,
                           struct error *err)
{
    struct json_writer w = { 0 };
    char path[CHECKPOINT_PATH_BYTES], name[CHECKPOINT_NAME_BYTES];
    json_begin_format(&w, CHECKPOINT_FORMAT, CHECKPOINT_VERSION);
    json_put_int(&w, "step", rank->step + 1);
    json_put_string(&w, "model", rank->program->graph->model_name);
    write_hash(&w, "model_hash", rank->program->graph->model_hash);
    write_hash(&w, "plan_hash", plan_hash(rank->program->plan));
    write_hash(&w, "seed", rank->options->seed);
    json_write_key(&w, "files");
    json_begin_array(&w);
    for (int r = 0; r < rank->program->plan->rank_count; r++) {
        file_name(name, rank->step + 1, r);
        json_begin_object(&w);
        json_put_string(&w, "name", name);
        json_put_int(&w, "bytes", records[r].bytes);
        write_hash(&w, "header_hash", records[r].header_hash);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    size_t length;
    char *text = json_finish(&w, &length);
    bool ok = text || fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    /* The file is on the disk with its name, and so are the ranks' files beside it: from here on the checkpoint is this
     * one. */
    ok = ok && path_of(path, dir, CHECKPOINT_MANIFEST, err) && file_write_durable(path, text, length, err);
    free(text);
    return ok;
}

/* Rank 0 hears what every rank has written, commits, and says so. */
static bool commit(struct rank *rank, const char *dir, const struct file_record *own, struct error *err)
{
    const struct transport *t = rank->transport;
    unsigned char done = 1;
    if (t->rank > 0)
        return t->exchange(t->self, LANE_COMPUTE, 0, own, sizeof *own, -1, NULL, 0, err) &&
               t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, 0, &done, sizeof done, err);
    struct file_record *records = calloc((size_t)t->rank_count, sizeof *records);
    bool ok = records || fail_kind(err, ERROR_ENVIRONMENT, "checkpoint: out of memory");
    if (ok)
        records[0] = *own;
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, r, &records[r], sizeof *records, err);
    ok = ok && write_manifest(rank, dir, records, err);
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = t->exchange(t->self, LANE_COMPUTE, r, &done, sizeof done, -1, NULL, 0, err);
    free(records);
    return ok;
}

bool checkpoint_write(struct rank *rank, const char *dir, struct error *err)
{
    struct file_record own = { 0 };
    char name[CHECKPOINT_NAME_BYTES], path[CHECKPOINT_PATH_BYTES];
    if (mkdir(dir, 0777) != 0 && errno != EEXIST)
        return io_fail(err, "create directory", dir);
    if (rank->checkpoint_step == 0)
        clear_unfinished(rank, dir);
    if (!write_rank(rank, dir, &own, err) || !commit(rank, dir, &own, err))
        return false;
    if (rank->checkpoint_step > 0 && rank->checkpoint_step != rank->step + 1) {
        file_name(name, rank->checkpoint_step, rank->rank);
        if (path_of(path, dir, name, err))
            unlink(path); /* its manifest is gone: nobody misses it */
    }
    rank->checkpoint_step = rank->step + 1;
    return true;
}
