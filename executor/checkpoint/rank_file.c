#define _POSIX_C_SOURCE 200809L
#include "executor/checkpoint/rank_file.h"
#include "base/num.h"
#include "executor/checkpoint/folder.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- collecting ---- */
static bool add_tensor(struct rank_file *file, int b, enum quantity quantity, struct error *err)
{
    const struct rank *rank = file->rank;
    const struct buffer *buffer = &rank->program->buffers[b];
    struct place place = checkpoint_place(rank, b);
    char name[CHECKPOINT_NAME_BYTES];
    snprintf(name, sizeof name, "%s/%s/%d", quantity_names[quantity], rank->program->graph->weights[buffer->id].name,
             buffer->part);
    struct tensor *tensor = &file->tensors[file->count];
    *tensor = (struct tensor){ .name = arena_strdup(&file->arena, name),
                               .type = sizeof(real) == 8 ? TENSOR_F64 : TENSOR_F32,
                               .dim_count = 1,
                               .shape = { place.count },
                               .bytes = place.count * (int64_t)sizeof(real) };
    if (place.count == block_elements(&place.block)) { /* whole blocks keep their shape */
        tensor->dim_count = place.block.dim_count;
        memcpy(tensor->shape, place.block.count, sizeof place.block.count);
    }
    file->places[file->count] = place;
    file->buffers[file->count] = b;
    file->data[file->count++] =
        checkpoint_is_half(rank, b) ? (const void *)rank_data(rank, b) : checkpoint_data(rank, b, quantity);
    file->bytes += tensor->bytes;
    return tensor->name || fail_memory(err);
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
bool rank_file_collect(struct rank_file *file, const struct rank *rank, struct error *err)
{
    const struct program *program = rank->program;
    size_t most = (size_t)program->buffer_count * QUANTITY_COUNT + 1;
    *file = (struct rank_file){ .rank = rank };
    const int *first_stage = first_stages(program, &file->arena);
    file->tensors = arena_alloc(&file->arena, most, sizeof *file->tensors);
    file->places = arena_alloc(&file->arena, most, sizeof *file->places);
    file->buffers = arena_alloc(&file->arena, most, sizeof *file->buffers);
    file->data = arena_alloc(&file->arena, most, sizeof *file->data);
    if (!file->tensors || !file->places || !file->buffers || !file->data || !first_stage)
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

void rank_file_free(struct rank_file *file)
{
    arena_free(&file->arena);
    *file = (struct rank_file){ .rank = NULL };
}

/* Of a weight of 16 bits, which lies at data. */
static void widen(const struct rank_file *file, int tensor, void *to)
{
    checkpoint_widen(file->data[tensor], file->places[tensor].count, to);
}

void rank_file_copy(struct rank_file *file, unsigned char *room)
{
    for (int i = 0; i < file->count; i++) {
        if (checkpoint_is_half(file->rank, file->buffers[i]))
            widen(file, i, room);
        else
            memcpy(room, file->data[i], (size_t)file->tensors[i].bytes);
        file->buffers[i] = -1; /* what is read from now on is of full precision */
        file->data[i] = room;
        room += file->tensors[i].bytes;
    }
}

/* ---- writing ---- */
static bool widen_in_place(struct rank_file *file, struct error *err)
{
    bool ok = true;
    for (int i = 0; i < file->count && ok; i++) {
        if (file->buffers[i] < 0 || !checkpoint_is_half(file->rank, file->buffers[i]))
            continue;
        real *wide = arena_alloc(&file->arena, (size_t)file->places[i].count + 1, sizeof *wide);
        if ((ok = wide != NULL)) {
            widen(file, i, wide);
            file->data[i] = wide;
        }
    }
    return ok || fail_memory(err);
}

/* The label, then each tensor's place and checksums. NULL: out of memory. */
static struct tensor_note *make_notes(struct rank_file *file, const struct checkpoint_label *label)
{
    char text[CHECKPOINT_LABEL_BYTES];
    struct tensor_note *notes = arena_alloc(&file->arena, (size_t)file->count + 1, sizeof *notes);
    checkpoint_label_print(label, file->rank->rank, text);
    bool ok =
        notes && (notes[0] = (struct tensor_note){ CHECKPOINT_LABEL_KEY, arena_strdup(&file->arena, text) }).value;
    for (int i = 0; ok && i < file->count; i++) {
        struct text place = { 0 };
        place_print(&place, &file->places[i], file->data[i], (size_t)file->tensors[i].bytes);
        const char *value = place.failed ? NULL : arena_strdup(&file->arena, place.data);
        notes[i + 1] = (struct tensor_note){ file->tensors[i].name, value };
        ok = value != NULL;
        text_free(&place);
    }
    return ok ? notes : NULL;
}

/* Bytes between two signs of life. They are on the disk before the next: what the system takes in at once it may write
 * for minutes when the file is to be whole. */
enum { STRETCH = 1 << 26 };

static bool write_all(const struct rank *rank, int file, const char *name, const void *data, size_t bytes,
                      struct error *err)
{
    size_t synced = 0;
    for (size_t done = 0; done < bytes;) {
        ssize_t put = write(file, (const char *)data + done, bytes - done < STRETCH ? bytes - done : STRETCH);
        if (put < 0 && errno == EINTR)
            continue;
        done += put > 0 ? (size_t)put : 0;
        bool stretch = done - synced >= STRETCH;
        if (put < 0 || (stretch && fdatasync(file) != 0))
            return checkpoint_io_fail(err, put < 0 ? "write" : "bring to the disk", name);
        if (stretch) {
            synced = done;
            status_beat(rank->options->status, rank->rank);
        }
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
    bool ok = write_all(file->rank, out, name, header, header_bytes, err);
    for (int i = 0; ok && i < file->count; i++) {
        ok = write_all(file->rank, out, name, file->data[i], (size_t)file->tensors[i].bytes, err);
        status_beat(file->rank->options->status, file->rank->rank);
    }
    ok = ok && (fsync(out) == 0 || checkpoint_io_fail(err, "bring to the disk", name));
    if (close(out) != 0 && ok) /* where a network file system reports a full disk */
        ok = checkpoint_io_fail(err, "write", name);
    if (!ok)
        unlinkat(folder, name, 0);
    return ok;
}

bool rank_file_write(struct rank_file *file, int folder, const struct checkpoint_label *label,
                     struct file_record *record, struct error *err)
{
    char name[CHECKPOINT_NAME_BYTES];
    size_t header_bytes;
    if (!widen_in_place(file, err))
        return false;
    checkpoint_file_name(name, file->rank->rank);
    const struct tensor_note *notes = make_notes(file, label);
    char *header = notes ? safetensors_write(file->tensors, file->count, notes, file->count + 1, &header_bytes) : NULL;
    if (!header)
        return fail_memory(err);
    *record = (struct file_record){ (int64_t)header_bytes + file->bytes, hash_bytes(HASH_START, header, header_bytes) };
    bool ok = write_file(file, folder, name, header, header_bytes, err);
    free(header);
    return ok;
}
