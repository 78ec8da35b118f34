/* Host memory as a second arena behind two lanes of copies.
 *
 * Activations: once a stage is lowered, its list says who reads what. A value that backward reads at least three visits
 * of layers after its last reader forward is copied out behind that visit and copied in one visit ahead; less would
 * free nothing. So recomputation, conversions and rings need no rule of their own: what is not read is not copied, and
 * what is computed again stays where it was. Values that cross the border of a step (asynchronous schedules) stay too.
 *
 * The optimizer's state lives on the host; each update has it fetched ahead and returned behind (Ren et al. 2021,
 * ZeRO-Offload, but the update itself runs on the device).
 *
 * Weights likewise, or the shards that a rank holds of them: whoever reads them in a visit, kernel or gather, finds a
 * copy that was fetched one visit ahead, and what the update made of its copy is returned (Rajbhandari et al. 2021,
 * ZeRO-Infinity). A copy that visits want so soon again that nothing would be freed stays for these. */
#include "base/num.h"
#include "planner/layout/lives.h"
#include "planner/lower/lower_emit.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include <string.h>

/* ---- visits ---- */
/* Visits of the compute lane, in order. */
struct visits {
    int *of;     /* (instrs) the one that has begun when the instruction is reached */
    int *border; /* (visits) the instruction with which it begins */
    int count;
};

static bool number_visits(struct lowering *l, struct visits *v)
{
    const struct stage_program *list = &l->program->stages[l->stage];
    const struct instr *inside = NULL;
    *v = (struct visits){ .of = arena_alloc(&l->scratch, (size_t)list->instr_count, sizeof *v->of),
                          .border = arena_alloc(&l->scratch, (size_t)list->instr_count, sizeof *v->border) };
    if (!v->of || !v->border)
        return lower_memory(l);
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        if (instr->lane == LANE_COMPUTE) {
            if (!inside || !lives_same_visit(inside, instr))
                v->border[v->count++] = i;
            inside = instr;
        }
        v->of[i] = max_int(v->count - 1, 0);
    }
    return true;
}

/* Takes the stage's list, to be written again with so many instructions more; returns how long it was. */
static int take_list(struct lowering *l, int more, struct instr **old)
{
    struct stage_program *list = &l->program->stages[l->stage];
    int count = list->instr_count;
    *old = arena_alloc(&l->growing, (size_t)count, sizeof **old);
    if (!*old || !lower_room(l, more, 0, 0, 0)) {
        lower_memory(l);
        return 0;
    }
    memcpy(*old, list->instrs, (size_t)count * sizeof **old);
    list->instr_count = list->repeated_count = 0;
    return count;
}

/* True when a layer of the stage keeps that on the host. */
static bool any_offloads(const struct lowering *l, enum offload what)
{
    for (int c = 0; c < l->here.chunk_count; c++)
        for (int s = l->here.chunks[c].first; s < l->here.chunks[c].end; s++)
            if (plan_layer_offloads(&l->plan->layers[l->graph->segments[s].layer], what))
                return true;
    return false;
}

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
    struct trip *trip; /* (buffers) */
    struct visits visits;
    int *leaving, *coming; /* (visits) heads of the lists of buffers that are copied before it; -1 none */
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

/* Makes the lists of borders; returns the number of values that travel. */
static int plan_trips(struct trips *t)
{
    const struct plan *plan = t->l->plan;
    int count = 0;
    for (int i = t->buffer_count - 1; i >= 0; i--) {
        struct trip *trip = &t->trip[i];
        bool travels = !trip->stays && trip->layer >= 0 && trip->last >= 0 && trip->first >= 0 &&
                       plan_layer_offloads(&plan->layers[trip->layer], OFFLOAD_ACTIVATIONS);
        int leaves = travels ? t->visits.of[trip->last] + 1 : 0, comes = travels ? t->visits.of[trip->first] - 1 : 0;
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
    const int *border = t->visits.border;
    struct instr *old;
    int old_count = take_list(l, 2 * count, &old), visit = 0;
    for (int i = 0; i < old_count && !l->failed; i++) {
        if (visit < t->visits.count && border[visit] == i) {
            if (visit > 0)
                copy_values(t, OP_OFFLOAD, t->leaving[visit], old[border[visit - 1]].layer);
            if (visit + 1 < t->visits.count)
                copy_values(t, OP_FETCH, t->coming[visit], old[border[visit + 1]].layer);
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
    if (l->failed || !any_offloads(l, OFFLOAD_ACTIVATIONS) || !number_visits(l, &t.visits))
        return;
    t.trip = arena_alloc(&l->scratch, (size_t)t.buffer_count, sizeof *t.trip);
    t.leaving = arena_alloc(&l->scratch, (size_t)t.visits.count, sizeof *t.leaving);
    t.coming = arena_alloc(&l->scratch, (size_t)t.visits.count, sizeof *t.coming);
    if (arena_failed(&l->scratch)) {
        lower_memory(l);
        return;
    }
    for (int v = 0; v < t.visits.count; v++)
        t.leaving[v] = t.coming[v] = -1;
    struct access access;
    for (int i = 0; i < t.buffer_count; i++)
        t.trip[i] = (struct trip){ -1, -1, -1, false, -1, -1, -1, -1 };
    for (int i = 0; i < list->instr_count; i++)
        for (int slot = 0; slot < access_slots(&list->instrs[i]); slot++)
            if (access_at(t.l->program, &list->instrs[i], slot, &access))
                note_access(&t, &list->instrs[i], i, &access);
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
    if (state < 0 || !buffer_at(l, state)->host || l->failed)
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

/* ---- weights ---- */
/* One time that a weight is on the device: whoever touches it from one instruction to another finds the copy. */
struct stay {
    int stored, copy;         /* buffers */
    int fetched, first, last; /* instructions: before which it is fetched; the first and last that touch it */
    int next;                 /* of the same weight; -1: none */
    bool changed;             /* by the update, and so returned */
};
struct stays {
    struct lowering *l;
    struct visits visits;
    struct stay *list; /* in the order in which they begin */
    int count, capacity;
    int *at; /* (the stage's buffers) of stored weights: the stay at hand; -1: none yet */
};

static bool is_stored_away(const struct lowering *l, int buffer)
{
    return buffer_at(l, buffer)->host && buffer_at(l, buffer)->kind == BUFFER_WEIGHT;
}

/* True when the copy is worth keeping until then: the step's updates and their gathers are far apart, but none may find
 * what was there before the other; and what is fetched again one visit ahead would be free for no visit. */
static bool stays_until(const struct stays *s, const struct stay *stay, int index)
{
    const struct instr *instrs = s->l->program->stages[s->l->stage].instrs;
    return (instrs[stay->first].phase == PHASE_STEP && instrs[index].phase == PHASE_STEP) ||
           s->visits.of[index] <= s->visits.of[stay->last] + 2;
}

static void list_stays(struct stays *s)
{
    struct lowering *l = s->l;
    const struct stage_program *list = &l->program->stages[l->stage];
    struct access access;
    for (int i = 0; i < list->instr_count; i++)
        for (struct access_walk walk = access_walk(l->program, &list->instrs[i]); access_next(&walk, &access);) {
            if (!is_stored_away(l, access.buffer))
                continue;
            int *at = &s->at[access.buffer - l->made.first_buffer], before = *at;
            if (before < 0 || !stays_until(s, &s->list[before], i)) {
                if (!lower_grow(l, &l->scratch, (void **)&s->list, s->count, &s->capacity, sizeof *s->list))
                    return;
                if (before >= 0)
                    s->list[before].next = s->count;
                int visit = s->visits.of[i];
                s->list[s->count] = (struct stay){ .stored = access.buffer,
                                                   .fetched = visit > 0 ? s->visits.border[visit - 1] : 0,
                                                   .first = i,
                                                   .next = -1 };
                *at = s->count++;
            }
            s->list[*at].last = i;
            s->list[*at].changed |= access.writes;
        }
}

/* Fetches what is due before the instruction, those together that one visit wants; *next: the first that is not yet. */
static void fetch_weights(struct stays *s, const struct instr *old, int index, int *next)
{
    struct lowering *l = s->l;
    struct instr *instr = NULL;
    for (; *next < s->count && s->list[*next].fetched <= index && !l->failed; ++*next) {
        struct stay *stay = &s->list[*next];
        const struct instr *first = &old[stay->first];
        struct site site = { .phase = first->phase == PHASE_STEP ? PHASE_STEP
                                      : instr_is_forward(first)  ? PHASE_FORWARD
                                                                 : PHASE_BACKWARD_INPUT,
                             .layer = first->layer,
                             .micro = first->micro };
        struct buffer use = *buffer_at(l, stay->stored);
        use.kind = BUFFER_WEIGHT_USE;
        use.host = use.persistent = false;
        stay->copy = lower_add_buffer(l, use);
        int pair = lower_add_pair(l, stay->stored, stay->copy);
        if (!instr || instr->layer != site.layer || instr->micro != site.micro || instr->phase != site.phase) {
            instr = emit(l, OP_FETCH, LANE_COPY_IN, &site);
            instr->pair_first = pair;
        }
        instr->pair_count++;
    }
}

/* Writes the instruction again, by the names of the copies, and returns those of which it was the last to touch what
 * has changed. */
static void use_copies(struct stays *s, struct instr *old, int index)
{
    struct lowering *l = s->l;
    struct stage_program *list = &l->program->stages[l->stage];
    struct site site = { .phase = PHASE_STEP, .layer = old[index].layer, .micro = old[index].micro };
    struct instr *back = NULL;
    struct access access;
    list->instrs[list->instr_count++] = old[index];
    for (int slot = 0; slot < access_slots(&old[index]) && !l->failed; slot++) {
        if (!access_at(l->program, &old[index], slot, &access) || !is_stored_away(l, access.buffer))
            continue;
        int *at = &s->at[access.buffer - l->made.first_buffer];
        if (s->list[*at].last < index)
            *at = s->list[*at].next;
        struct stay *stay = &s->list[*at];
        *access_place(l->program, &old[index], slot) = stay->copy;
        if (stay->last > index || !stay->changed)
            continue;
        stay->changed = false;
        int pair = lower_add_pair(l, stay->copy, stay->stored);
        if (!back) {
            back = emit(l, OP_OFFLOAD, LANE_COPY_OUT, &site);
            back->pair_first = pair;
        }
        back->pair_count++;
    }
}

void offload_weights(struct lowering *l)
{
    struct stays s = { .l = l };
    if (l->failed || !any_offloads(l, OFFLOAD_PARAMETERS) || !number_visits(l, &s.visits))
        return;
    int buffers = l->program->buffer_count - l->made.first_buffer, next = 0;
    struct instr *old;
    s.at = arena_alloc(&l->scratch, (size_t)buffers, sizeof *s.at);
    if (!s.at) {
        lower_memory(l);
        return;
    }
    memset(s.at, -1, (size_t)buffers * sizeof *s.at);
    list_stays(&s);
    for (int i = s.count - 1; i >= 0; i--)
        s.at[s.list[i].stored - l->made.first_buffer] = i;
    int old_count = l->failed ? 0 : take_list(l, 2 * s.count, &old);
    for (int i = 0; i < old_count && !l->failed; i++) {
        fetch_weights(&s, old, i, &next);
        use_copies(&s, old, i);
    }
}
