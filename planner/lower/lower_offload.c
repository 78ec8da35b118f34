/* Host memory as a second arena behind two lanes of copies.
 *
 * Once a stage is lowered, its list says who touches what, and it is written again with the copies. What lies on the
 * host is fetched one visit of a layer ahead of whoever reads it. A visit that comes within two of the last one finds
 * the copy still there: given away, it would free nothing. So recomputation, conversions and rings need no rule of
 * their own: what is not read is not copied, and what is computed again stays where it was.
 *
 * Activations leave behind their last reader forward and come back for the first backward. Values that cross the border
 * of a step (asynchronous schedules) stay.
 *
 * Weights, or the shards that a rank holds of them, come for each visit that reads them, by a kernel or a gather, and
 * for the update, from which they are returned (Rajbhandari et al. 2021, ZeRO-Infinity).
 * Gradients come for each pass that adds to them but the first, which makes them, and for the update.
 *
 * The optimizer's state lives on the host; each update has it fetched ahead and returned behind (Ren et al. 2021,
 * ZeRO-Offload, but the update itself runs on the device). */
#include "base/num.h"
#include "planner/layout/lives.h"
#include "planner/lower/lower_emit.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include <string.h>

/* ---- activations and weights ---- */
/* One time that a buffer's content is on the device: whoever touches it from one instruction to another finds the copy.
 */
struct stay {
    int buffer, copy;              /* copy: the buffer itself where its content is made there; -1: not yet fetched */
    int first, last;               /* instructions */
    int next;                      /* stay of the same buffer; -1: none */
    int next_coming, next_leaving; /* stays that are copied before the same instruction; -1: none */
    bool changed, made;            /* made: its first access makes the content anew */
};
/* What becomes of one buffer. */
struct journey {
    int first, last; /* its stays; while the list is written again, first: the one at hand; -1: none */
    int away;        /* where it lies on the host; -1: not yet there */
    int layer;       /* of the first kernel that touches a value; -1: none does */
    bool backward, stays;
};
struct journeys {
    struct lowering *l;
    struct journey *of; /* (buffers of the stage, but for copies) */
    int buffer_count;
    struct stay *list;
    int count, capacity;
    struct instr *old; /* the list before */
    int old_count;
    int *visit;            /* (instrs) visits of the compute lane, numbered as they begin */
    int *border;           /* (visits) the instruction with which it begins */
    int *coming, *leaving; /* (instrs + 1) heads of the lists of stays that are copied before it; -1: none */
};

static void number_visits(struct journeys *j)
{
    const struct instr *inside = NULL;
    int count = 0;
    for (int i = 0; i < j->old_count; i++) {
        const struct instr *instr = &j->old[i];
        if (instr->lane == LANE_COMPUTE) {
            if (!inside || !lives_same_visit(inside, instr))
                j->border[count++] = i;
            inside = instr;
        }
        j->visit[i] = max_int(count - 1, 0);
    }
    j->border[count] = j->old_count;
}

/* True when the instruction finds the copy of the journey's last stay. In the step, where updates and gathers of a
 * weight are far apart, none may find what was there before the other. */
static bool finds_copy(const struct journeys *j, const struct journey *journey, int index)
{
    const struct stay *stay = &j->list[journey->last];
    enum buffer_kind kind = buffer_at(j->l, stay->buffer)->kind;
    bool lasts = kind == BUFFER_WEIGHT && j->old[index].phase == PHASE_STEP && j->old[stay->first].phase == PHASE_STEP;
    lasts |= kind == BUFFER_VALUE && (journey->backward || instr_is_forward(&j->old[index]));
    return lasts || j->visit[index] <= j->visit[stay->last] + 2;
}

static void note_access(struct journeys *j, int index, const struct access *access)
{
    struct lowering *l = j->l;
    const struct instr *instr = &j->old[index];
    const struct buffer *buffer = buffer_at(l, access->buffer);
    bool kept = buffer->host && buffer->kind != BUFFER_STATE, forward = instr_is_forward(instr);
    if (!kept && (buffer->kind != BUFFER_VALUE || buffer->persistent || buffer->micro < 0))
        return;
    struct journey *journey = &j->of[access->buffer - l->made.first_buffer];
    if (journey->last < 0 || !finds_copy(j, journey, index)) {
        if (!lower_grow(l, &l->scratch, (void **)&j->list, j->count, &j->capacity, sizeof *j->list))
            return;
        *(journey->last < 0 ? &journey->first : &j->list[journey->last].next) = j->count;
        journey->last = j->count;
        bool made = access->writes && access_renews(l->program, instr, access);
        j->list[j->count++] = (struct stay){ .buffer = access->buffer, .first = index, .next = -1, .made = made };
    }
    j->list[journey->last].last = index;
    j->list[journey->last].changed |= access->writes;
    journey->stays |= instr->part != STEP_OWN || (forward ? journey->backward : access->writes);
    journey->backward |= !forward;
    if (journey->layer < 0 && instr->op == OP_COMPUTE)
        journey->layer = instr->layer;
}

static int add_copy(struct lowering *l, int buffer, bool host)
{
    struct buffer like = *buffer_at(l, buffer);
    like.kind = like.kind == BUFFER_WEIGHT ? BUFFER_WEIGHT_USE : like.kind;
    like.host = host;
    like.persistent = false;
    return lower_add_buffer(l, like);
}

/* Lists what is copied before which instruction. */
static void list_copies(struct journeys *j)
{
    for (int b = j->buffer_count - 1; b >= 0; b--) {
        struct journey *journey = &j->of[b];
        int buffer = j->l->made.first_buffer + b;
        bool kept = buffer_at(j->l, buffer)->is_weight;
        if (!kept && (journey->stays || journey->layer < 0 || journey->first == journey->last ||
                      !plan_layer_offloads(&j->l->plan->layers[journey->layer], OFFLOAD_ACTIVATIONS)))
            journey->first = -1;
        if (kept && journey->first >= 0 && journey->first == journey->last && j->list[journey->first].made) {
            buffer_at(j->l, buffer)->host = false; /* it need not leave the device */
            journey->first = -1;
        }
        journey->away = kept ? buffer : -1;
        for (int n = journey->first; n >= 0; n = j->list[n].next) {
            struct stay *stay = &j->list[n];
            int first = j->visit[stay->first], comes = first > 0 ? j->border[first - 1] : 0,
                leaves = j->border[j->visit[stay->last] + 1];
            bool fetched = kept ? !stay->made : n != journey->first;
            stay->copy = fetched ? -1 : kept ? add_copy(j->l, buffer, false) : buffer;
            if (fetched) {
                stay->next_coming = j->coming[comes];
                j->coming[comes] = n;
            }
            bool wanted = stay->next >= 0 || buffer_at(j->l, buffer)->kind == BUFFER_WEIGHT;
            if (wanted && (stay->changed || !kept)) {
                stay->next_leaving = j->leaving[leaves];
                j->leaving[leaves] = n;
            }
        }
    }
}

/* Copies those together that are of one visit. */
static void copy_stays(struct journeys *j, enum op op, int head)
{
    struct lowering *l = j->l;
    bool out = op == OP_OFFLOAD;
    struct instr *instr = NULL;
    for (int n = head; n >= 0 && !l->failed; n = out ? j->list[n].next_leaving : j->list[n].next_coming) {
        struct stay *stay = &j->list[n];
        const struct instr *of = &j->old[out ? stay->last : stay->first];
        struct site site = { .phase = of->phase == PHASE_STEP ? PHASE_STEP
                                      : instr_is_forward(of)  ? PHASE_FORWARD
                                                              : PHASE_BACKWARD_INPUT,
                             .layer = of->layer,
                             .micro = of->micro };
        int *away = &j->of[stay->buffer - l->made.first_buffer].away, *made = out ? away : &stay->copy;
        if (*made < 0)
            *made = add_copy(l, stay->buffer, out);
        int pair = lower_add_pair(l, out ? stay->copy : *away, *made);
        if (!instr || instr->layer != site.layer || instr->micro != site.micro || instr->phase != site.phase) {
            instr = emit(l, op, out ? LANE_COPY_OUT : LANE_COPY_IN, &site);
            instr->pair_first = pair;
        }
        instr->pair_count++;
    }
}

/* Puts the names of copies into the instruction. */
static void use_copies(struct journeys *j, int index)
{
    struct program *program = j->l->program;
    struct access access;
    for (int slot = 0; slot < access_slots(&j->old[index]); slot++) {
        if (!access_at(program, &j->old[index], slot, &access) ||
            !is_index(access.buffer - j->l->made.first_buffer, j->buffer_count))
            continue;
        int *at = &j->of[access.buffer - j->l->made.first_buffer].first;
        if (*at >= 0 && j->list[*at].last < index)
            *at = j->list[*at].next;
        if (*at >= 0)
            *access_place(program, &j->old[index], slot) = j->list[*at].copy;
    }
}

static bool open_journeys(struct journeys *j)
{
    struct lowering *l = j->l;
    const struct stage_program *list = &l->program->stages[l->stage];
    size_t instrs = (size_t)list->instr_count;
    j->old_count = list->instr_count;
    j->buffer_count = l->program->buffer_count - l->made.first_buffer;
    j->of = arena_alloc(&l->scratch, (size_t)j->buffer_count, sizeof *j->of);
    j->old = arena_alloc(&l->growing, instrs, sizeof *j->old);
    j->visit = arena_alloc(&l->scratch, instrs, sizeof *j->visit);
    j->border = arena_alloc(&l->scratch, instrs + 1, sizeof *j->border);
    j->coming = arena_alloc(&l->scratch, instrs + 1, sizeof *j->coming);
    j->leaving = arena_alloc(&l->scratch, instrs + 1, sizeof *j->leaving);
    if (arena_failed(&l->scratch) || !j->old)
        return lower_memory(l);
    memcpy(j->old, list->instrs, instrs * sizeof *j->old);
    for (int i = 0; i <= j->old_count; i++)
        j->coming[i] = j->leaving[i] = -1;
    for (int b = 0; b < j->buffer_count; b++)
        j->of[b] = (struct journey){ -1, -1, -1, -1, false, false };
    return true;
}

void offload_between_uses(struct lowering *l)
{
    struct stage_program *list = &l->program->stages[l->stage];
    struct journeys j = { .l = l };
    struct access access;
    bool any = false;
    for (int c = 0; c < l->here.chunk_count; c++)
        for (int s = l->here.chunks[c].first; s < l->here.chunks[c].end; s++)
            any |= l->plan->layers[l->graph->segments[s].layer].offload != OFFLOAD_NONE;
    if (l->failed || !any || !open_journeys(&j))
        return;
    number_visits(&j);
    for (int i = 0; i < j.old_count && !l->failed; i++)
        for (int slot = 0; slot < access_slots(&j.old[i]); slot++)
            if (access_at(l->program, &j.old[i], slot, &access))
                note_access(&j, i, &access);
    list_copies(&j);
    if (l->failed || !lower_room(l, 2 * j.count, 0, 0, 0))
        return;
    list->instr_count = list->repeated_count = 0;
    for (int i = 0; i <= j.old_count && !l->failed; i++) {
        copy_stays(&j, OP_OFFLOAD, j.leaving[i]);
        copy_stays(&j, OP_FETCH, j.coming[i]);
        if (i == j.old_count)
            break;
        use_copies(&j, i);
        list->instrs[list->instr_count++] = j.old[i];
    }
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
