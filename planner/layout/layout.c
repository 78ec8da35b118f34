/* The one memory layout. Per stage and memory, the device's and the host's: what persists lies at the bottom, then the
 * workspace of COMPUTE (the device's), then everything else by lifetime in program order. A buffer lives from the
 * instruction that defines it to the last that touches it, on whatever lane, and what a data-parallel transfer reads a
 * little longer (lives.h). */
#include "base/num.h"
#include "models/quantized.h"
#include "planner/layout/layout.h"
#include "planner/program/access.h"
#include "planner/program/by_stage.h"
#include "planner/program/geometry.h"
#include "planner/layout/lives.h"
#include "planner/layout/order.h"
#include "planner/layout/place.h"
#include <stdlib.h>
#include <string.h>

/* ---- lifetimes ---- */
/* Joins buffers that work in place. all: (buffers) whose bytes each takes over, -1 none; transfers: only what transfers
 * take over. What is joined lives at no moment beside itself, so no more is alive at once than of things apart. */
static void join_in_place(const struct program *program, const struct life *lives, int *all, int *transfers)
{
    for (int b = 0; b < program->buffer_count; b++)
        all[b] = transfers[b] = -1;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            struct access into;
            for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &into);) {
                int source = into.writes ? lives_taken_over(program, lives, s, i, into.slot) : -1;
                if (source < 0 || all[into.buffer] >= 0)
                    continue;
                all[into.buffer] = source;
                if (instr->op != OP_COMPUTE)
                    transfers[into.buffer] = source;
            }
        }
}

static int root_of(const int *joined, int buffer)
{
    while (joined[buffer] >= 0)
        buffer = joined[buffer];
    return buffer;
}

/* ---- offsets ---- */
struct lifetimes {
    struct life *lives;   /* (buffers) */
    int *all, *transfers; /* join_in_place() */
    int *joined;          /* the one of the two that is tried */
    struct place_item *items;
    int *item_of;              /* (buffers) the item that holds it */
    int (*asked)[PHASE_COUNT]; /* scratch_of() */
    bool bound_only;           /* no offsets, but the fewest bytes that any would take */
    int64_t looks;             /* of place_items() */
    const int64_t *enough;     /* (stages) struct layout_ask */
    int64_t least_room;        /* what the fullest stage with offsets leaves of what is enough */
    struct by_stage by_stage;
};

static bool stack_persistent(struct program *program, int stage, bool host, const struct by_stage *by_stage,
                             int64_t *top, struct error *err)
{
    for (int k = by_stage->first[stage]; k < by_stage->first[stage + 1]; k++) {
        struct buffer *buffer = &program->buffers[by_stage->buffer[k]];
        if (!buffer->persistent || buffer->host != host)
            continue;
        buffer->offset = *top;
        if (!add_i64(top, *top, round_up(buffer->bytes, ARENA_ALIGNMENT_BYTES)))
            return fail(err, "layout: the weights and states of stage %d do not fit in 63 bits of bytes", stage);
    }
    return true;
}

/* Gives the ZeRO stage of the first layer that has the weight. */
static int zero_of_weight(const struct program *program, int weight)
{
    for (int i = 0; i < program->graph->segment_count; i++) {
        const struct segment *segment = &program->graph->segments[i];
        for (int w = 0; w < segment->weight_count; w++)
            if (segment->weight[w].id == weight)
                return plan_layer_zero_of(&program->plan->layers[segment->layer], segment);
    }
    return 0;
}

int64_t layout_copy_bytes(const struct program *program, const struct buffer *buffer)
{
    const struct keeping *keeping = &program->graph->keeping;
    enum dtype dtype = program->plan->dtype;
    int64_t each = buffer->kind == BUFFER_WEIGHT && dtype == DTYPE_BF16  ? keeping->bf16_gradient_bytes
                   : buffer->kind == BUFFER_STATE && dtype == DTYPE_FP16 ? keeping->fp16_step_bytes
                   : buffer->kind == BUFFER_STATE && dtype == DTYPE_BF16 ? keeping->bf16_state_gradient_bytes
                                                                         : 0;
    bool of_zero = !(buffer->kind == BUFFER_STATE && dtype == DTYPE_BF16);
    if (each == 0 || !buffer->persistent || buffer->host || program->graph->weights[buffer->id].frozen ||
        (of_zero && zero_of_weight(program, buffer->id) == 0))
        return 0;
    /* beside a state stands its gradient, whose elements have no scales among them */
    return buffer_holds(buffer->kind == BUFFER_STATE ? buffer - 1 : buffer) * each;
}

int64_t layout_scratch_elements(const struct program *program, int stage, const struct instr *instr)
{
    int64_t extents[MAX_AXES];
    instr_extents(program, stage, instr, extents);
    const struct segment *segment = &program->graph->segments[instr->segment];
    int64_t expanded = segment_expanded_bytes(segment, instr->phase, program->plan->dtype, extents);
    return max_i64(segment_scratch_elements(program->graph, segment, instr->phase, extents),
                   ceil_div(expanded, element_bytes(program->plan->dtype, ELEMENT_STATISTIC)));
}

/* Finds the largest workspace; asked: (segments) 1 + the last stage that asked, by phase: micro-batches are alike. */
static bool scratch_of(const struct program *program, int stage, int (*asked)[PHASE_COUNT], int64_t *bytes,
                       struct error *err)
{
    const struct stage_program *list = &program->stages[stage];
    int64_t most = 0;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        if (instr->op != OP_COMPUTE || instr->segment < 0 || asked[instr->segment][instr->phase] == stage + 1)
            continue;
        asked[instr->segment][instr->phase] = stage + 1;
        most = max_i64(most, layout_scratch_elements(program, stage, instr));
    }
    if (!mul_i64(bytes, most, element_bytes(program->plan->dtype, ELEMENT_STATISTIC)))
        return fail(err, "layout: the workspace of stage %d does not fit in 63 bits of bytes", stage);
    return true;
}

/* Tells what a buffer is, whatever the micro-batch, and what makes it. */
struct thing_maker {
    const struct program *program;
    const struct life *lives;
};

static int64_t thing_of(const void *self, const struct place_item *item)
{
    const struct thing_maker *t = self;
    const struct buffer *b = &t->program->buffers[item->owner];
    const struct life *life = &t->lives[item->owner];
    const struct instr *maker = &t->program->stages[b->stage].instrs[max_int(life->first, 0)];
    const int64_t facts[] = { b->kind,     b->is_weight, b->id,          b->ring_round, b->ring_atom,
                              b->part,     b->version,   maker->op,      maker->phase,  maker->lane,
                              maker->part, maker->layer, maker->segment, maker->again,  maker->late };
    return (int64_t)(hash_words(HASH_START, facts, sizeof facts / sizeof *facts) >> 1);
}

/* Collects the temporary buffers of a stage in one memory as items. What nobody touches gets a place too, at the first
 * moment, so that every offset lies in the arena. */
static int collect_items(const struct program *program, int stage, bool host, const struct lifetimes *t)
{
    int count = 0, from = t->by_stage.first[stage], to = t->by_stage.first[stage + 1];
    for (int k = from; k < to; k++) {
        int b = t->by_stage.buffer[k];
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->host != host)
            continue;
        t->item_of[b] = -1;
        if (!buffer->persistent && t->joined[b] < 0) {
            int64_t bytes = round_up(buffer->bytes, ARENA_ALIGNMENT_BYTES);
            int since = t->lives[b].since, held = t->lives[b].held;
            t->items[count] = (struct place_item){ .bytes = bytes,
                                                   .first = max_int(since, 0),
                                                   .last = max_int(held, 0),
                                                   .owner = b,
                                                   .held = held > t->lives[b].last };
            t->item_of[b] = count++;
        }
    }
    for (int k = from; k < to; k++) {
        int b = t->by_stage.buffer[k];
        if (t->joined[b] < 0 || program->buffers[b].host != host || program->buffers[b].in_place)
            continue;
        struct place_item *item = &t->items[t->item_of[root_of(t->joined, b)]];
        item->last = max_int(item->last, t->lives[b].held);
    }
    return count;
}

/* Joins what the next step reads with the buffer under whose name it reads it, until the list ends. */
static void join_wrapped(const struct program *program, int stage, const struct lifetimes *t)
{
    const struct stage_program *list = &program->stages[stage];
    int opening = program_opening_count(list);
    for (int b = 0; opening && b < program->buffer_count; b++) {
        if (program->buffers[b].stage != stage || !lives_wrap(program, t->lives, b))
            continue;
        int root = root_of(t->joined, b), as = root_of(t->joined, program->buffers[b].wraps - 1);
        struct place_item *item = &t->items[t->item_of[root]], *into = &t->items[t->item_of[as]];
        into->again_first = item->first;
        into->again_last = list->instr_count - 1;
        item->bytes = 0; /* nobody's: it lies where the other does */
        item->first = item->last = 0;
        t->item_of[root] = t->item_of[as];
    }
}

/* Gives offsets, behind `top`, to what does not persist. */
static void give_offsets(struct program *program, int stage, bool host, const struct lifetimes *t, int64_t top)
{
    for (int k = t->by_stage.first[stage]; k < t->by_stage.first[stage + 1]; k++) {
        int b = t->by_stage.buffer[k];
        struct buffer *buffer = &program->buffers[b];
        int root = root_of(t->joined, b);
        if (!buffer->persistent && buffer->host == host)
            buffer->offset = program->buffers[root].persistent ? program->buffers[root].offset
                                                               : top + t->items[t->item_of[root]].offset;
    }
}

static int list_items(const struct program *program, int stage, bool host, const struct lifetimes *t)
{
    int count = collect_items(program, stage, host, t);
    if (!host)
        join_wrapped(program, stage, t);
    return count;
}

static bool kernels_join(const struct lifetimes *t, int stage)
{
    for (int k = t->by_stage.first[stage]; k < t->by_stage.first[stage + 1]; k++)
        if (t->all[t->by_stage.buffer[k]] != t->transfers[t->by_stage.buffer[k]])
            return true;
    return false;
}

/* Places temporary buffers, no better than they need: a stage that leaves as much room as the fullest before it takes
 * what that one takes. What is joined lives longer and packs worse: where it packs badly, and not well enough for
 * whoever asks, the same things are placed apart as well. live: bytes that live at once of what got the offsets. */
static bool place_temporaries(struct program *program, int stage, bool host, struct lifetimes *t, int64_t top,
                              int64_t *total, int64_t *live, struct error *err)
{
    const struct thing_maker maker = { program, t->lives };
    const struct place_things things = { thing_of, &maker };
    const int64_t enough = t->enough && !host ? max_i64(t->enough[stage] - top, 0) : 0;
    const struct place_effort effort = { t->looks, enough, max_i64(enough - t->least_room, 0) };
    int64_t apart, bound;
    t->joined = t->all;
    int count = list_items(program, stage, host, t);
    if (!place_bound(t->items, count, live, err))
        return false;
    *total = *live;
    if (t->bound_only)
        return true;
    if (!place_items(t->items, count, &things, &effort, total, err))
        return false;
    give_offsets(program, stage, host, t, top);
    if (host || *total <= max_i64(*live + *live / PLACE_FAIR, effort.enough) || !kernels_join(t, stage))
        return true;
    t->joined = t->transfers;
    count = list_items(program, stage, host, t);
    if (!place_bound(t->items, count, &bound, err) ||
        (bound < *total && !place_items(t->items, count, &things, &effort, &apart, err)))
        return false;
    if (bound < *total && apart < *total) {
        *total = apart;
        *live = bound;
        give_offsets(program, stage, host, t, top);
    }
    return true;
}

static bool place_stage(struct program *program, int stage, struct lifetimes *t, struct error *err)
{
    struct stage_program *list = &program->stages[stage];
    int64_t top = 0, total = 0, live = 0;
    if (!stack_persistent(program, stage, false, &t->by_stage, &top, err))
        return false;
    list->persistent_bytes = top;
    int64_t copies = 0; /* they lie behind what is persistent */
    for (int k = t->by_stage.first[stage]; k < t->by_stage.first[stage + 1]; k++)
        copies += layout_copy_bytes(program, &program->buffers[t->by_stage.buffer[k]]);
    bool fits = add_i64(&top, top, round_up(copies, ARENA_ALIGNMENT_BYTES));
    list->scratch_offset = top;
    if (!scratch_of(program, stage, t->asked, &list->scratch_bytes, err))
        return false;
    if (!fits || !add_i64(&top, top, round_up(list->scratch_bytes, ARENA_ALIGNMENT_BYTES)) ||
        !place_temporaries(program, stage, false, t, top, &total, &live, err) ||
        !add_i64(&list->arena_bytes, top, total) || !add_i64(&list->good_bytes, top, place_good_bytes(live)))
        return fail(err, "layout: the arena of stage %d does not fit in 63 bits of bytes", stage);
    return true;
}

static bool place_host(struct program *program, int stage, struct lifetimes *t, struct error *err)
{
    struct stage_program *list = &program->stages[stage];
    int64_t top = 0, total = 0, live = 0;
    if (!stack_persistent(program, stage, true, &t->by_stage, &top, err) ||
        !place_temporaries(program, stage, true, t, top, &total, &live, err))
        return false;
    list->host_persistent_bytes = top;
    if (!add_i64(&list->host_bytes, top, total) || !add_i64(&list->good_host_bytes, top, place_good_bytes(live)))
        return fail(err, "layout: the host's arena of stage %d does not fit in 63 bits of bytes", stage);
    return true;
}

static bool place_stages(struct program *program, struct lifetimes *t, struct error *err)
{
    memset(t->asked, 0, (size_t)program->graph->segment_count * sizeof *t->asked);
    t->least_room = INT64_MAX;
    for (int s = 0; s < program->stage_count; s++) {
        if (!place_stage(program, s, t, err) || !place_host(program, s, t, err))
            return false;
        if (t->enough)
            t->least_room = min_i64(t->least_room, max_i64(0, t->enough[s] - program->stages[s].arena_bytes));
    }
    return true;
}

bool layout_place(struct program *program, const struct layout_ask *ask, bool *placed, struct error *err)
{
    size_t count = (size_t)program->buffer_count + 1;
    struct arena scratch = { 0 };
    struct lifetimes t = { .lives = malloc(count * sizeof *t.lives),
                           .all = malloc(count * sizeof *t.all),
                           .transfers = malloc(count * sizeof *t.transfers),
                           .items = malloc(count * sizeof *t.items),
                           .item_of = malloc(count * sizeof *t.item_of),
                           .looks = ask && ask->brief ? PLACE_FEW_LOOKS : PLACE_LOOKS,
                           .enough = ask ? ask->enough_bytes : NULL,
                           .bound_only = ask && ask->fits };
    t.asked = arena_alloc(&scratch, (size_t)program->graph->segment_count, sizeof *t.asked);
    bool ok = (t.lives && t.all && t.transfers && t.items && t.item_of && t.asked &&
               by_stage_build(&t.by_stage, &scratch, program)) ||
              fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d buffers", program->buffer_count);
    ok = ok && lives_find(program, t.lives, err);
    if (ok)
        join_in_place(program, t.lives, t.all, t.transfers);
    ok = ok && place_stages(program, &t, err);
    bool asks = t.bound_only, wanted = !asks || (ok && ask->fits(ask->self, program));
    if (ok && asks && wanted) {
        t.bound_only = false;
        ok = place_stages(program, &t, err);
    }
    if (ok && placed)
        *placed = wanted;
    free(t.lives);
    free(t.all);
    free(t.transfers);
    free(t.items);
    free(t.item_of);
    arena_free(&scratch);
    return ok;
}

/* ---- waits that reuse of bytes needs ---- */
struct extra {
    int stage, later, earlier;
};
struct extras {
    struct extra *list;
    int count, capacity;
};

static enum order_answer add_wait(void *self, const struct hazard *hazard)
{
    struct extras *extras = self;
    if (hazard->kind != HAZARD_REUSE_EARLY)
        return ORDER_IGNORE; /* lowering's own order is verify's matter */
    if (extras->count == extras->capacity) {
        int capacity = extras->capacity ? 2 * extras->capacity : 256;
        struct extra *grown = realloc(extras->list, (size_t)capacity * sizeof *grown);
        if (!grown)
            return ORDER_STOP;
        extras->list = grown;
        extras->capacity = capacity;
    }
    extras->list[extras->count++] = (struct extra){ hazard->stage, hazard->later, hazard->earlier };
    return ORDER_WAIT;
}

struct reached {
    int last[LANE_COUNT];
}; /* of each lane the last instruction, counted from 1, that has finished; 0 none */

static void merge_reached(struct reached *into, const struct reached *from)
{
    for (int lane = 0; lane < LANE_COUNT; lane++)
        into->last[lane] = max_int(into->last[lane], from->last[lane]);
}

/* Keeps waits that neither the lane nor a later one implies; returns their number. before: what the lane reached. */
static int keep_needed(const struct stage_program *list, struct reached *reached, int index,
                       const struct reached *before, int *waits, int count)
{
    int kept = 0;
    reached[index] = *before;
    /* the latest come first; they are few, a handful for each lane at most */
    for (int i = 1; i < count; i++) {
        int wait = waits[i], at = i;
        for (; at > 0 && waits[at - 1] < wait; at--)
            waits[at] = waits[at - 1];
        waits[at] = wait;
    }
    for (int k = 0; k < count; k++) {
        int wait = waits[k];
        if (wait + 1 <= reached[index].last[list->instrs[wait].lane])
            continue;
        merge_reached(&reached[index], &reached[wait]);
        waits[kept++] = wait;
    }
    reached[index].last[list->instrs[index].lane] = index + 1;
    return kept;
}

/* Merges lowering's waits with the extra ones of the stage, and drops those that others imply. */
static bool merge_stage(struct program *program, struct stage_program *list, const struct extra *extra, int extra_count)
{
    int count = 0;
    for (int i = 0; i < list->instr_count; i++)
        count += list->instrs[i].wait_count;
    int *waits = malloc((size_t)(count + extra_count + 1) * sizeof *waits);
    struct reached *reached = calloc((size_t)list->instr_count + 1, sizeof *reached), lanes[LANE_COUNT];
    for (int lane = 0; lane < LANE_COUNT; lane++)
        lanes[lane] = (struct reached){ { 0 } };
    count = 0;
    for (int i = 0; waits && reached && i < list->instr_count; i++) {
        struct instr *instr = &list->instrs[i];
        int first = count;
        for (int k = 0; k < instr->wait_count; k++)
            waits[count++] = list->waits[instr->wait_first + k];
        for (; extra_count && extra->later == i; extra++, extra_count--)
            waits[count++] = extra->earlier;
        count = first + keep_needed(list, reached, i, &lanes[instr->lane], &waits[first], count - first);
        lanes[instr->lane] = reached[i];
        instr->wait_first = first;
        instr->wait_count = count - first;
    }
    int *kept = list->waits; /* where there is room for them; NULL: there were none */
    if (count > list->wait_count)
        kept = arena_alloc(&program->arena, (size_t)count, sizeof *kept);
    bool ok = waits && reached && (kept || count == 0);
    if (ok && count > 0)
        memcpy(kept, waits, (size_t)count * sizeof *kept);
    if (ok) {
        list->waits = kept;
        list->wait_count = count;
    }
    free(waits);
    free(reached);
    return ok;
}

/* Merges the waits of all stages; the walk reports them in the order of stages and instructions. */
static bool merge_waits(struct program *program, const struct extras *extras)
{
    for (int s = 0, at = 0; s < program->stage_count; s++) {
        int first = at;
        while (at < extras->count && extras->list[at].stage == s)
            at++;
        if (!merge_stage(program, &program->stages[s], extras->count ? &extras->list[first] : NULL, at - first))
            return false;
    }
    return true;
}

static bool order_reuse(struct program *program, struct error *err)
{
    struct extras extras = { 0 };
    bool ok = order_walk(program, add_wait, &extras, err) && merge_waits(program, &extras);
    if (!ok)
        fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for waits");
    free(extras.list);
    return ok;
}

bool layout_program(struct program *program, struct error *err)
{
    return lives_split(program, err) && layout_place_and_order(program, NULL, NULL, err);
}

bool layout_place_and_order(struct program *program, const struct layout_ask *ask, bool *placed, struct error *err)
{
    bool fits = true;
    if (!layout_place(program, ask, &fits, err) || (fits && !order_reuse(program, err)))
        return false;
    if (placed)
        *placed = fits;
    return true;
}

static bool never(void *self, const struct program *program)
{
    (void)self, (void)program;
    return false;
}

bool layout_bound_bytes(struct program *program, struct error *err)
{
    return layout_place(program, &(struct layout_ask){ .fits = never }, NULL, err);
}

/* ---- the waits of any layout ---- */
/* The latest accesses of each lane, counted from 1. */
struct most {
    struct life *lives;    /* (buffers) */
    int *place;            /* (buffers) among those of the stage */
    struct reached *used;  /* (buffers of the stage) by instructions before the one at hand */
    struct reached *given; /* (instructions and one) to all whose bytes are free at the place */
    struct by_stage by_stage;
};

/* Waits for the latest instruction of each lane that touches a buffer whose bytes this one may get: those of whatever
 * is given away before its own life begins, and those that it is written over in place. */
static bool wait_for_most(const struct program *program, int stage, struct most *most, struct extras *extras)
{
    const struct stage_program *list = &program->stages[stage];
    struct access access;
    memset(most->given, 0, ((size_t)list->instr_count + 1) * sizeof *most->given);
    for (int i = 0; i < list->instr_count; i++)
        for (struct access_walk walk = access_walk(program, &list->instrs[i]); access_next(&walk, &access);)
            if (!program->buffers[access.buffer].persistent)
                most->given[most->lives[access.buffer].held + 1].last[list->instrs[i].lane] = i + 1;
    for (int k = most->by_stage.first[stage]; k < most->by_stage.first[stage + 1]; k++) {
        most->place[most->by_stage.buffer[k]] = k - most->by_stage.first[stage];
        most->used[k - most->by_stage.first[stage]] = (struct reached){ { 0 } };
    }
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        struct reached wanted = { { 0 } };
        for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &access);) {
            const struct life *life = &most->lives[access.buffer];
            if (life->first != i || program->buffers[access.buffer].persistent)
                continue;
            int over = access.writes ? lives_taken_over(program, most->lives, stage, i, access.slot) : -1;
            merge_reached(&wanted, &most->given[life->since]);
            if (over >= 0)
                merge_reached(&wanted, &most->used[most->place[over]]);
        }
        for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &access);)
            most->used[most->place[access.buffer]].last[instr->lane] = i + 1;
        merge_reached(&most->given[i + 1], &most->given[i]);
        wanted.last[instr->lane] = 0;
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            struct hazard hazard = { HAZARD_REUSE_EARLY, stage, wanted.last[lane] - 1, i, -1, -1 };
            if (wanted.last[lane] > 0 && add_wait(extras, &hazard) == ORDER_STOP)
                return false;
        }
    }
    return true;
}

bool layout_wait_for_bytes(struct program *program, struct error *err)
{
    struct arena scratch = { 0 };
    struct extras extras = { 0 };
    size_t buffers = (size_t)program->buffer_count + 1, instrs = 0;
    for (int s = 0; s < program->stage_count; s++)
        instrs = (size_t)program->stages[s].instr_count > instrs ? (size_t)program->stages[s].instr_count : instrs;
    struct most most = { .lives = arena_alloc(&scratch, buffers, sizeof *most.lives),
                         .place = arena_alloc(&scratch, buffers, sizeof *most.place),
                         .given = arena_alloc(&scratch, instrs + 1, sizeof *most.given) };
    bool ok = most.lives && most.place && most.given && by_stage_build(&most.by_stage, &scratch, program) &&
              lives_find(program, most.lives, err);
    size_t own = 0;
    for (int s = 0; ok && s < program->stage_count; s++) {
        size_t count = (size_t)(most.by_stage.first[s + 1] - most.by_stage.first[s]);
        own = count > own ? count : own;
    }
    most.used = arena_alloc(&scratch, own + 1, sizeof *most.used);
    ok = ok && most.used;
    for (int s = 0; ok && s < program->stage_count; s++) {
        extras.count = 0;
        ok = wait_for_most(program, s, &most, &extras) &&
             merge_stage(program, &program->stages[s], extras.list, extras.count);
    }
    if (!ok)
        fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for waits");
    free(extras.list);
    arena_free(&scratch);
    return ok;
}
