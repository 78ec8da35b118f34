#include "executor/hf_export.h"
#include "base/num.h"
#include "executor/checkpoint/parts.h"
#include "executor/hf_output.h"
#include <stdlib.h>

/* Elements of a message, so that a table of billions is never there twice. */
enum { MESSAGE = 1 << 24 };

/* Whether no earlier stage has the weight, too. */
static bool is_first_stage(const struct program *program, const struct buffer *buffer)
{
    for (int b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == BUFFER_WEIGHT && program->buffers[b].id == buffer->id &&
            program->buffers[b].stage < buffer->stage)
            return false;
    return true;
}

/* Of equal copies one is written. */
static bool gives(const struct rank *rank, int b)
{
    const struct program *program = rank->program;
    const struct buffer *buffer = &program->buffers[b];
    enum quantity first, end;
    if (!rank_holds(rank, b) || !hf_folder_has(rank->options->hf_export->like, buffer->id) ||
        !geometry_rank_counts(program, buffer, rank->local_rank) || !is_first_stage(program, buffer))
        return false;
    checkpoint_quantities(rank, b, &first, &end);
    return first == QUANTITY_WEIGHT && first < end;
}

/* A rank's elements, its own or another rank's on rank 0, where data is NULL. */
static bool pass(struct rank *self, const struct rank *of, int b, real *data, struct hf_output *output,
                 struct error *err)
{
    const struct transport *t = self->transport;
    const struct place place = checkpoint_place(of, b);
    real *room = data ? NULL : malloc((size_t)min_i64(MESSAGE, place.count + 1) * sizeof *room);
    bool ok = data || room || fail_memory(err);
    for (int64_t done = 0, count; ok && done < place.count; done += count) {
        count = min_i64(MESSAGE, place.count - done);
        const real *values = data ? data + done : room;
        const size_t bytes = (size_t)count * sizeof *values;
        if (!data)
            ok = t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, of->rank, room, bytes, err);
        else if (t->rank > 0)
            ok = t->exchange(t->self, LANE_COMPUTE, 0, values, bytes, -1, NULL, 0, err);
        if (ok && output)
            hf_folder_put(self->options->hf_export->like, self->program->buffers[b].id, &place.block,
                          place.first + done, count, values, output->data);
        status_beat(self->options->status, self->rank);
    }
    free(room);
    return ok;
}

static bool pass_own(struct rank *rank, int b, struct hf_output *output, struct error *err)
{
    if (!checkpoint_is_half(rank, b))
        return pass(rank, rank, b, checkpoint_data(rank, b, QUANTITY_WEIGHT), output, err);
    real *wide = malloc(((size_t)checkpoint_place(rank, b).count + 1) * sizeof *wide);
    bool ok = wide || fail_memory(err);
    if (ok) {
        checkpoint_widen(rank_data(rank, b), checkpoint_place(rank, b).count, wide);
        ok = pass(rank, rank, b, wide, output, err);
    }
    free(wide);
    return ok;
}

/* What one rank has: it sends, rank 0 receives. */
static bool pass_rank(struct rank *self, int r, struct hf_output *output, struct error *err)
{
    const struct plan *plan = self->program->plan;
    const int stage = plan_stage_of_rank(plan, r);
    const struct rank other = { .program = self->program,
                                .options = self->options,
                                .rank = r,
                                .stage = stage,
                                .local_rank = r - plan->stages[stage].first_rank };
    for (int b = 0; b < self->program->buffer_count; b++)
        if (gives(&other, b) &&
            !(r == self->rank ? pass_own(self, b, output, err) : pass(self, &other, b, NULL, output, err)))
            return false;
    return true;
}

static void beat(void *context)
{
    const struct rank *rank = context;
    status_beat(rank->options->status, rank->rank);
}

bool hf_export_weights(struct rank *rank, struct error *err)
{
    struct hf_output *output = NULL;
    if (rank->rank > 0)
        return pass_rank(rank, rank->rank, NULL, err);
    bool ok = hf_output_open(&output, rank->options->hf_export, err);
    for (int r = 0; ok && r < rank->transport->rank_count; r++)
        ok = pass_rank(rank, r, output, err);
    status_begin_disk(rank->options->status, rank->rank);
    ok = ok && hf_output_finish(output, beat, rank, err);
    status_end_disk(rank->options->status, rank->rank);
    hf_output_free(output);
    return ok;
}
