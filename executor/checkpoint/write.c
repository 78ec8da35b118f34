#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "executor/checkpoint/checkpoint.h"
#include "executor/checkpoint/folder.h"
#include "executor/checkpoint/parts.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- a rank's file ---- */
struct rank_file {
    struct arena arena;
    const struct rank *rank;
    struct tensor *tensors;
    struct tensor_note *notes; /* the label, then a tensor's place each */
    const void **data;
    int count;
};

static bool add_tensor(struct rank_file *file, int b, enum quantity quantity, struct error *err)
{
    const struct rank *rank = file->rank;
    const struct buffer *buffer = &rank->program->buffers[b];
    struct place place = checkpoint_place(rank, b);
    real *data = checkpoint_data(rank, b, quantity);
    size_t bytes = (size_t)place.count * sizeof *data;
    if (checkpoint_is_half(rank, b)) {
        data = arena_alloc(&file->arena, (size_t)place.count + 1, sizeof *data);
        if (!data)
            return fail_memory(err);
        checkpoint_widen(rank, b, data);
    }
    char name[CHECKPOINT_NAME_BYTES];
    struct text text = { 0 };
    snprintf(name, sizeof name, "%s/%s/%d", quantity_names[quantity], rank->program->graph->weights[buffer->id].name,
             buffer->part);
    place_print(&text, &place, data, bytes);
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
    file->data[file->count++] = data;
    struct tensor_note *note = &file->notes[file->count];
    *note = (struct tensor_note){ tensor->name, text.failed ? NULL : arena_strdup(&file->arena, text.data) };
    text_free(&text);
    return (tensor->name && note->value) || fail_memory(err);
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
static bool collect_tensors(struct rank_file *file, struct error *err)
{
    const struct rank *rank = file->rank;
    const struct program *program = rank->program;
    size_t most = (size_t)program->buffer_count * QUANTITY_COUNT + 1;
    const int *first_stage = first_stages(program, &file->arena);
    file->tensors = arena_alloc(&file->arena, most, sizeof *file->tensors);
    file->notes = arena_alloc(&file->arena, most, sizeof *file->notes);
    file->data = arena_alloc(&file->arena, most, sizeof *file->data);
    if (!file->tensors || !file->notes || !file->data || !first_stage)
        return fail_memory(err);
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (!rank_holds(rank, b) || buffer->stage != first_stage[buffer->id] ||
            !geometry_rank_counts(program, buffer, rank->local_rank))
            continue;
        enum quantity first, end;
        checkpoint_quantities(rank, b, &first, &end);
        for (int q = (int)first; q < (int)end; q++)
            if (!add_tensor(file, b, (enum quantity)q, err))
                return false;
    }
    return true;
}

static bool write_all(int file, const char *name, const void *data, size_t bytes, struct error *err)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t put = write(file, (const char *)data + done, bytes - done);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return checkpoint_io_fail(err, "write", name);
        done += (size_t)put;
    }
    return true;
}

/* The header and all tensors one after another into a new file of the folder, and to the disk. */
static bool write_file(const struct rank_file *file, int folder, const char *name, const char *header,
                       size_t header_bytes, struct error *err)
{
    int out = checkpoint_file_create(folder, name, err);
    if (out < 0)
        return false;
    bool ok = write_all(out, name, header, header_bytes, err);
    for (int i = 0; ok && i < file->count; i++)
        ok = write_all(out, name, file->data[i], (size_t)file->tensors[i].bytes, err);
    ok = ok && (fsync(out) == 0 || checkpoint_io_fail(err, "bring to the disk", name));
    if (close(out) != 0 && ok) /* where a network file system reports a full disk */
        ok = checkpoint_io_fail(err, "write", name);
    if (!ok)
        unlinkat(folder, name, 0);
    return ok;
}

static bool write_rank(const struct rank *rank, int folder, const struct checkpoint_label *label,
                       struct file_record *record, struct error *err)
{
    struct rank_file file = { .rank = rank };
    char name[CHECKPOINT_NAME_BYTES], text[CHECKPOINT_LABEL_BYTES];
    size_t header_bytes = 0;
    char *header = NULL;
    checkpoint_file_name(name, rank->rank);
    checkpoint_label_print(label, rank->rank, text);
    bool ok = collect_tensors(&file, err);
    if (ok) {
        file.notes[0] = (struct tensor_note){ CHECKPOINT_LABEL_KEY, text };
        header = safetensors_write(file.tensors, file.count, file.notes, file.count + 1, &header_bytes);
        ok = header || fail_memory(err);
    }
    if (ok) {
        *record = (struct file_record){ (int64_t)header_bytes, hash_bytes(HASH_START, header, header_bytes) };
        for (int i = 0; i < file.count; i++)
            record->bytes += file.tensors[i].bytes;
        ok = write_file(&file, folder, name, header, header_bytes, err);
    }
    free(header);
    arena_free(&file.arena);
    return ok;
}

/* ---- together ---- */
static bool send_to(const struct transport *t, int rank, const void *data, size_t bytes, struct error *err)
{
    return t->exchange(t->self, LANE_COMPUTE, rank, data, bytes, -1, NULL, 0, err);
}

static bool receive_from(const struct transport *t, int rank, void *data, size_t bytes, struct error *err)
{
    return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, rank, data, bytes, err);
}

/* Rank 0 begins a save and tells the others its number. */
static bool begin(const struct rank *rank, struct checkpoint_folder *folder, int64_t *save, struct error *err)
{
    const struct transport *t = rank->transport;
    if (t->rank > 0)
        return receive_from(t, 0, save, sizeof *save, err);
    bool ok = checkpoint_folder_begin(folder, rank->step + 1, save, err);
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = send_to(t, r, save, sizeof *save, err);
    return ok;
}

/* Rank 0 hears what every rank has written, commits, and says so. */
static bool commit(const struct rank *rank, struct checkpoint_folder *folder, const struct checkpoint_label *label,
                   const struct file_record *own, struct error *err)
{
    const struct transport *t = rank->transport;
    unsigned char done = 1;
    if (t->rank > 0)
        return send_to(t, 0, own, sizeof *own, err) && receive_from(t, 0, &done, sizeof done, err);
    struct file_record *records = calloc((size_t)t->rank_count, sizeof *records);
    bool ok = records || fail_memory(err);
    if (ok)
        records[0] = *own;
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = receive_from(t, r, &records[r], sizeof *records, err);
    ok = ok && checkpoint_folder_commit(folder, label, rank->program->graph->model_name, records, err);
    for (int r = 1; ok && r < t->rank_count; r++)
        ok = send_to(t, r, &done, sizeof done, err);
    free(records);
    return ok;
}

bool checkpoint_write(struct rank *rank, struct checkpoint_folder *folder, struct error *err)
{
    const struct program *program = rank->program;
    struct checkpoint_label label = { .step = rank->step + 1,
                                      .seed = rank->options->seed,
                                      .model_hash = program->graph->model_hash,
                                      .plan_hash = plan_hash(program->plan),
                                      .file_count = program->plan->rank_count };
    struct file_record own = { 0 };
    if (!begin(rank, folder, &label.save, err))
        return false;
    int save = checkpoint_save_open(rank->options->checkpoint_dir, label.step, label.save, err);
    bool ok = save >= 0 && write_rank(rank, save, &label, &own, err);
    if (save >= 0)
        close(save);
    return ok && commit(rank, folder, &label, &own, err);
}
