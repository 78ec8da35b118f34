/* Host memory as a second arena behind two lanes of copies.
 *
 * Activations: once a stage is lowered, its list says who reads what. A value that backward reads at least three visits
 * of layers after its last reader forward is copied out behind that visit and copied in one visit ahead; less would
 * free nothing. So recomputation, conversions and rings need no rule of their own: what is not read is not copied, and
 * what is computed again stays where it was. Values that cross the border of a step (asynchronous schedules) stay too.
 *
 * The optimizer's state lives on the host; each update has it fetched ahead and returned behind (Ren et al. 2021,
 * ZeRO-Offload, but the update itself runs on the device). */
#include "base/num.h"
#include "planner/layout/lives.h"
#include "planner/lower/lower_emit.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include <string.h>

/* ---- activations ---- */
struct trip {
    int layer;       /* of the first kernel that touches the value, -1: none does */
    int last, first; /* instructions: the last access forward, the first backward; -1: none */
    bool stays;
    int away, back;              /* the buffers that stand for it, on the host and then on the device; -1: not yet */
    int next_leaving, next_back; /* of those of one border; -1: none */
};
struct trips {
    struct lowering *l;
    int first_buffer, buffer_count;
    struct trip *trip;     /* (buffers) */
    int *visit_of;         /* (instrs) visits of the compute lane, in order */
    int *border;           /* (visits) the instruction with which it begins */
    int *leaving, *coming; /* (visits) heads of the lists of buffers that are copied before it; -1 none */
    int visit_count;
};

static struct trip *trip_of(const struct trips *t, int buffer)
{
    int index = buffer - t->first_buffer;
    return is_index(index, t->buffer_count) ? &t->trip[index] : NULL;
}

static void note_access(const struct trips *t, const struct instr *instr, int index, const struct access *access)
{
    struct trip *trip = trip_of(t, access->buffer);
    const struct buffer *buffer = buffer_at(t->l, access->buffer);
    if (!trip || buffer->kind != BUFFER_VALUE || buffer->persistent || buffer->micro < 0)
        return;
    bool forward = instr_is_forward(instr);
    trip->stays |= instr->part != STEP_OWN || (forward ? trip->first >= 0 : access->writes);
    if (trip->layer < 0 && instr->op == OP_COMPUTE)
        trip->layer = instr->layer;
    if (forward)
        trip->last = index;
    else if (trip->first < 0)
        trip->first = index;
}

static void number_visits(struct trips *t, const struct stage_program *list)
{
    const struct instr *inside = NULL;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        if (instr->lane == LANE_COMPUTE) {
            if (!inside || !lives_same_visit(inside, instr)) {
                t->leaving[t->visit_count] = t->coming[t->visit_count] = -1;
                t->border[t->visit_count++] = i;
            }
            inside = instr;
        }
        t->visit_of[i] = t->visit_count > 0 ? t->visit_count - 1 : 0;
    }
}

/* Makes the lists of borders; returns the number of values that travel. */
static int plan_trips(struct trips *t)
{
    const struct plan *plan = t->l->plan;
    int count = 0;
    for (int i = t->buffer_count - 1; i >= 0; i--) {
        struct trip *trip = &t->trip[i];
        bool travels = !trip->stays && trip->layer >= 0 && trip->last >= 0 && trip->first >= 0 &&
                       plan_layer_offloads_activations(&plan->layers[trip->layer]);
        int leaves = travels ? t->visit_of[trip->last] + 1 : 0, comes = travels ? t->visit_of[trip->first] - 1 : 0;
        if (comes <= leaves) {
            trip->first = -1;
            continue;
        }
        trip->next_leaving = t->leaving[leaves];
        t->leaving[leaves] = t->first_buffer + i;
        trip->next_back = t->coming[comes];
        t->coming[comes] = t->first_buffer + i;
        count++;
    }
    return count;
}

/* Copies all values of a border that are of one micro-batch at once. */
static void copy_values(const struct trips *t, enum op op, int head, int layer)
{
    struct lowering *l = t->l;
    bool out = op == OP_OFFLOAD;
    struct instr *instr = NULL;
    for (int b = head; b >= 0 && !l->failed; b = out ? trip_of(t, b)->next_leaving : trip_of(t, b)->next_back) {
        struct trip *trip = trip_of(t, b);
        int micro = buffer_at(l, b)->micro, *made = out ? &trip->away : &trip->back;
        struct site site = { .phase = out ? PHASE_FORWARD : PHASE_BACKWARD_INPUT, .layer = layer, .micro = micro };
        struct buffer like = *buffer_at(l, b);
        like.host = out;
        *made = lower_add_buffer(l, like);
        int pair = lower_add_pair(l, out ? b : trip->away, *made);
        if (!instr || instr->micro != micro) {
            instr = emit(l, op, out ? LANE_COPY_OUT : LANE_COPY_IN, &site);
            instr->pair_first = pair;
        }
        instr->pair_count++;
    }
}

/* Writes the list again, with the copies at the borders. */
static void insert_copies(struct trips *t, int count)
{
    struct lowering *l = t->l;
    struct stage_program *list = &l->program->stages[l->stage];
    int old_count = list->instr_count, visit = 0;
    struct instr *old = arena_alloc(&l->growing, (size_t)old_count, sizeof *old);
    if (!old || !lower_room(l, 2 * count, 0, 0, 0)) {
        lower_memory(l);
        return;
    }
    memcpy(old, list->instrs, (size_t)old_count * sizeof *old);
    list->instr_count = list->repeated_count = 0;
    for (int i = 0; i < old_count && !l->failed; i++) {
        if (visit < t->visit_count && t->border[visit] == i) {
            if (visit > 0)
                copy_values(t, OP_OFFLOAD, t->leaving[visit], old[t->border[visit - 1]].layer);
            if (visit + 1 < t->visit_count)
                copy_values(t, OP_FETCH, t->coming[visit], old[t->border[visit + 1]].layer);
            visit++;
        }
        struct instr *copy = &list->instrs[list->instr_count++];
        *copy = old[i];
        struct access access;
        for (int slot = 0; slot < access_slots(copy); slot++) {
            const struct trip *trip = access_at(t->l->program, copy, slot, &access) ? trip_of(t, access.buffer) : NULL;
            if (trip && trip->back >= 0 && i >= trip->first)
                *access_place(t->l->program, copy, slot) = trip->back;
        }
    }
}

void offload_activations(struct lowering *l)
{
    const struct stage_program *list = &l->program->stages[l->stage];
    struct trips t = { .l = l,
                       .first_buffer = l->made.first_buffer,
                       .buffer_count = l->program->buffer_count - l->made.first_buffer };
    bool any = false;
    for (int c = 0; c < l->here.chunk_count; c++)
        for (int s = l->here.chunks[c].first; s < l->here.chunks[c].end; s++)
            any |= plan_layer_offloads_activations(&l->plan->layers[l->graph->segments[s].layer]);
    if (l->failed || !any)
        return;
    size_t instrs = (size_t)list->instr_count;
    t.trip = arena_alloc(&l->scratch, (size_t)t.buffer_count, sizeof *t.trip);
    t.visit_of = arena_alloc(&l->scratch, instrs, sizeof *t.visit_of);
    t.border = arena_alloc(&l->scratch, instrs, sizeof *t.border);
    t.leaving = arena_alloc(&l->scratch, instrs, sizeof *t.leaving);
    t.coming = arena_alloc(&l->scratch, instrs, sizeof *t.coming);
    if (arena_failed(&l->scratch)) {
        lower_memory(l);
        return;
    }
    struct access access;
    for (int i = 0; i < t.buffer_count; i++)
        t.trip[i] = (struct trip){ -1, -1, -1, false, -1, -1, -1, -1 };
    for (int i = 0; i < list->instr_count; i++)
        for (int slot = 0; slot < access_slots(&list->instrs[i]); slot++)
            if (access_at(t.l->program, &list->instrs[i], slot, &access))
                note_access(&t, &list->instrs[i], i, &access);
    number_visits(&t, list);
    int count = plan_trips(&t);
    if (count > 0)
        insert_copies(&t, count);
}

/* ---- the optimizer's state ---- */
static struct site step_site(const struct lowering *l, const struct weight_part *part, int micro)
{
    return (struct site){ .phase = PHASE_STEP,
                          .layer = l->graph->segments[l->weights.of[part->weight].segment].layer,
                          .micro = micro };
}

int lower_fetch_state(struct lowering *l, int number, int micro)
{
    const struct weight_part *part = &l->weights.parts[number];
    struct site site = step_site(l, part, micro);
    int state = geometry_state_buffer(l->program, part->gradient);
    if (!l->weights.of[part->weight].offload || state < 0 || l->failed)
        return -1;
    struct buffer use = *buffer_at(l, state);
    use.kind = BUFFER_STATE_USE;
    use.host = use.persistent = false;
    int fetched = lower_add_buffer(l, use);
    emit_pair(l, OP_FETCH, LANE_COPY_IN, &site, state, fetched);
    return fetched;
}

void lower_return_state(struct lowering *l, int number, int fetched, int micro)
{
    struct site site = step_site(l, &l->weights.parts[number], micro);
    if (fetched >= 0)
        emit_pair(l, OP_OFFLOAD, LANE_COPY_OUT, &site, fetched,
                  geometry_state_buffer(l->program, l->weights.parts[number].gradient));
}
