#include "profiler/device_times.h"
#include "base/num.h"
#include "host/clock.h"
#include "profiler/resident.h"
#include "profiler/rig.h"
#include "profiler/samples.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WARM_UP_STEPS = 2, MIN_STEPS = 3, MAX_STEPS = 60, SMALL_REPEATS = 8, COPY_REPEATS = 3, OPERANDS = 3 };

/* What an instruction's span is a sample of: one of these, or a product from PRODUCTS_FROM on. */
enum { NOTHING = -1, EMPTY, TINY, COPY, PRODUCTS_FROM };

struct timing {
    const struct device_times_options *o;
    struct rig *rig;
    int *what; /* by instruction */
    struct samples samples;
    int64_t end_ns, steps;
    struct error error;
};

/* ---- the program ---- */

static void expect(struct timing *t, int what)
{
    t->what[t->rig->program->stages[0].instr_count - 1] = what;
}

/* Axes row, k, column as of square_product(); which of them m, n and k are depends on the phase. */
static struct segment segment_of(const struct product *p)
{
    const int64_t sizes[][3] = { [PHASE_FORWARD] = { p->m, p->k, p->n },
                                 [PHASE_BACKWARD_INPUT] = { p->m, p->n, p->k },
                                 [PHASE_BACKWARD_WEIGHT] = { p->k, p->m, p->n } };
    struct segment segment = square_product(1);
    for (int axis = 0; axis < 3; axis++)
        segment.axes[axis].size = sizes[p->phase][axis];
    return segment;
}

/* A matrix of the sizes of two axes; what is read stays random, since all that is written lies on a side of its own. */
static int matrix(struct rig *rig, const struct segment *segment, int rows, int columns, enum rig_side side,
                  int64_t element)
{
    int tensor = rig_tensor(rig, segment->axes[rows].size, segment->axes[columns].size);
    int id = rig_buffer(rig, 0, tensor, LAYOUT_REPLICATED, 0, side);
    struct buffer *buffer = &rig->program->buffers[id];
    buffer->bytes = buffer_holds(buffer) * element;
    buffer->element_bytes = (uint8_t)element;
    return id;
}

static void add_product(struct timing *t, int index, enum dtype dtype)
{
    enum { ROW, FOLD, COLUMN };
    struct rig *rig = t->rig;
    const enum phase phase = t->o->products[index].phase;
    const bool forward = phase == PHASE_FORWARD, of_weight = phase == PHASE_BACKWARD_WEIGHT;
    const int64_t value = element_bytes(dtype, ELEMENT_ACTIVATION);
    struct segment *segment = &rig->graph->segments[index];
    *segment = segment_of(&t->o->products[index]);
    struct assignment *a = &rig->program->assignments[index];
    memset(a->axis, AXIS_UNSPLIT, sizeof a->axis);
    a->ring_atom = a->slice_axis = -1;
    a->slices = 1;
    int in = matrix(rig, segment, ROW, FOLD, phase == PHASE_BACKWARD_INPUT ? RIG_DESTINATION : RIG_SOURCE, value);
    int weight = matrix(rig, segment, COLUMN, FOLD, of_weight ? RIG_DESTINATION : RIG_SECOND_SOURCE,
                        of_weight ? gradient_bytes_per_element(dtype) : weight_bytes_per_element(dtype));
    int out = matrix(rig, segment, ROW, COLUMN,
                     forward     ? RIG_DESTINATION
                     : of_weight ? RIG_SECOND_SOURCE
                                 : RIG_SOURCE,
                     value);
    struct instr *instr = rig_instr(rig, 0, OP_COMPUTE, LANE_COMPUTE, -1, -1, -1);
    instr->phase = phase;
    instr->segment = index;
    instr->first = true;
    struct operand_table table = program_no_operands;
    table.buffer[phase == PHASE_BACKWARD_INPUT ? ROLE_GRADIENT_IN : ROLE_IN][0] = in;
    table.buffer[of_weight ? ROLE_GRADIENT_WEIGHT : ROLE_WEIGHT][0] = weight;
    table.buffer[forward ? ROLE_OUT : ROLE_GRADIENT_OUT][0] = out;
    rig_operands(rig, instr, &table);
    instr->define = 1;
    expect(t, PRODUCTS_FROM + index);
}

/* Of one side as random weights: before the first step these fill the bytes in which operands lie. */
static void fill_side(struct rig *rig, enum rig_side side, int64_t element)
{
    enum { ROW = 1024 };
    int tensor = rig_tensor(rig, max_i64(1, rig->top_bytes[side] / element / ROW), ROW);
    rig->graph->weights[tensor].init = INIT_NORMAL;
    rig->graph->weights[tensor].init_std = 1;
    int id = rig_buffer(rig, 0, tensor, LAYOUT_REPLICATED, 0, side);
    struct buffer *buffer = &rig->program->buffers[id];
    buffer->kind = BUFFER_WEIGHT;
    buffer->bytes = buffer_holds(buffer) * element;
    buffer->element_bytes = (uint8_t)element;
}

static void add_small(struct timing *t)
{
    struct rig *rig = t->rig;
    int one = rig_tensor(rig, 1, 1), from = rig_buffer(rig, 0, one, LAYOUT_REPLICATED, 0, RIG_APART),
        to = rig_buffer(rig, 0, one, LAYOUT_REPLICATED, 0, RIG_APART);
    for (int i = 0; i < SMALL_REPEATS; i++) {
        rig_instr(rig, 0, OP_ZERO, LANE_COMPUTE, -1, -1, -1);
        expect(t, EMPTY);
    }
    for (int i = 0; i < SMALL_REPEATS; i++) {
        rig_instr(rig, 0, OP_ADD, LANE_COMPUTE, -1, from, to);
        expect(t, TINY);
    }
}

static void add_copies(struct timing *t)
{
    struct rig *rig = t->rig;
    int large = rig_tensor(rig, 1, t->o->copy_elements);
    for (int i = 0; i < COPY_REPEATS; i++) {
        int from = rig_buffer(rig, 0, large, LAYOUT_REPLICATED, 0, RIG_SOURCE),
            to = rig_buffer(rig, 0, large, LAYOUT_REPLICATED, 0, RIG_DESTINATION);
        rig_instr(rig, 0, OP_ADD, LANE_COMPUTE, -1, from, to);
        expect(t, COPY);
    }
}

/* Launches are timed in the middle, where a device has been busy, so that none waits for the host. */
static void add_all(struct timing *t, enum dtype dtype, int64_t cache_bytes)
{
    struct rig *rig = t->rig;
    rig->circle_bytes = cache_bytes;
    rig_empty_caches(rig, 0, -1, cache_bytes);
    for (int i = 0; i < t->o->product_count; i++) {
        if (i == 0 || t->o->products[i].phase != t->o->products[i - 1].phase) {
            add_product(t, i,
                        dtype); /* the first of a form finds its code in no cache, which is no time of the product */
            expect(t, NOTHING);
        }
        add_product(t, i, dtype);
        if (i == t->o->product_count / 2)
            add_small(t);
    }
    if (t->o->product_count == 0)
        add_small(t);
    add_copies(t);
    rig->circle_bytes = 0;
    for (enum rig_side side = RIG_SOURCE; side <= RIG_SECOND_SOURCE; side++)
        fill_side(rig, side, element_bytes(dtype, ELEMENT_ACTIVATION));
    rig_finish(rig);
}

static bool open_rig(struct timing *t, const struct crew *crew, struct error *err)
{
    int products = t->o->product_count, instrs = 2 * products + 2 * SMALL_REPEATS + COPY_REPEATS + 1,
        tensors = 2 * OPERANDS * products + 8;
    if (!rig_new(&t->rig, crew->rank_count, 1, 1, crew->rank_count, tensors, instrs, err))
        return false;
    struct rig *rig = t->rig;
    rig->plan->dtype = crew->dtype;
    rig->graph->segments = arena_alloc(&rig->graph->arena, (size_t)products, sizeof *rig->graph->segments);
    rig->program->assignments = arena_alloc(&rig->program->arena, (size_t)products, sizeof *rig->program->assignments);
    t->what = malloc((size_t)instrs * sizeof *t->what);
    if (!rig->graph->segments || !rig->program->assignments || !t->what)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d products", products);
    for (int i = 0; i < instrs; i++)
        t->what[i] = NOTHING;
    rig->graph->segment_count = products;
    add_all(t, crew->dtype, crew_cache_bytes(crew));
    return true;
}

/* ---- the times ---- */

static void name_of(int what, char out[16])
{
    snprintf(out, 16, "%d", what);
}

static bool take_rank(struct timing *t, const struct rank_timeline *row)
{
    char name[16];
    for (int i = 0; i < row->span_count; i++) {
        const struct span *span = &row->spans[i];
        if (t->what[i] == NOTHING)
            continue;
        name_of(t->what[i], name);
        if (!samples_add(&t->samples, name, (double)(span->finish_ns - span->start_ns), &t->error))
            return false;
    }
    return true;
}

static bool on_step(void *context, int64_t step, const struct timeline *timeline)
{
    struct timing *t = context;
    if (t->o->on_progress)
        t->o->on_progress(t->o->context, "products, copies and launches", (int)step - 1, MAX_STEPS);
    if (step <= WARM_UP_STEPS)
        return true;
    for (int r = 0; r < timeline->rank_count; r++)
        if (!take_rank(t, &timeline->ranks[r]))
            return false;
    t->steps++;
    return t->steps < MIN_STEPS || clock_now_ns() < t->end_ns;
}

static struct measurement measured(struct timing *t, int what)
{
    char name[16];
    name_of(what, name);
    struct series *series = samples_find(&t->samples, name);
    return series ? series_measurement(series) : (struct measurement){ 0 };
}

bool device_times_measure(struct device_times *out, struct measurement *products, const struct crew *crew,
                          const struct device_times_options *options, struct error *err)
{
    struct timing t = { .o = options, .end_ns = clock_now_ns() + (int64_t)(options->budget_s * 1e9) };
    bool ok = open_rig(&t, crew, err) && crew_run(crew, t.rig->program, NULL, MAX_STEPS, on_step, &t, err) &&
              (!t.error.kind || fail_kind(err, t.error.kind, "%s", t.error.message));
    if (ok && crew_leads(crew)) {
        *out = (struct device_times){ .empty = measured(&t, EMPTY),
                                      .tiny = measured(&t, TINY),
                                      .copy = measured(&t, COPY),
                                      .copy_elements = options->copy_elements,
                                      .steps = t.steps };
        for (int i = 0; i < options->product_count; i++)
            products[i] = measured(&t, PRODUCTS_FROM + i);
    }
    samples_free(&t.samples);
    rig_free(t.rig);
    free(t.what);
    return ok;
}

bool device_times_empty(int64_t *ns, const struct crew *crew, struct error *err)
{
    enum { COPY_ELEMENTS = 1 << 10 };
    struct device_times times = { 0 };
    const struct device_times_options options = { .copy_elements = COPY_ELEMENTS };
    if (!device_times_measure(&times, NULL, crew, &options, err))
        return false;
    *ns = times.empty.ns;
    return true;
}
