/* The one memory layout. Per stage and memory, the device's and the host's: what persists lies at the bottom, then the
 * workspace of COMPUTE (the device's), then everything else by lifetime in program order. A buffer lives from the
 * instruction that defines it to the last that touches it, on whatever lane, and what a data-parallel transfer reads a
 * little longer (lives.h). */
#include "base/num.h"
#include "planner/program/access.h"
#include "planner/program/by_stage.h"
#include "planner/program/geometry.h"
#include "planner/program/lives.h"
#include "planner/program/order.h"
#include "planner/program/place.h"
#include <stdlib.h>
#include <string.h>

/* ---- lifetimes ---- */
/* all: (buffers) the buffer whose bytes each takes over in place, -1 none; transfers: only what transfers take over. */
static void join_in_place(const struct program *program, const struct life *lives, int *all, int *transfers)
{
    for (int b = 0; b < program->buffer_count; b++)
        all[b] = transfers[b] = -1;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            struct access into;
            for (int slot = -1; (slot = access_after(program, instr, slot, &into)) >= 0;) {
                int source = into.writes ? lives_taken_over(program, lives, s, i, slot) : -1;
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
    int *item_of; /* (buffers) the item that holds it */
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

int64_t instr_scratch_elements(const struct program *program, int stage, const struct instr *instr)
{
    int64_t extents[MAX_AXES];
    instr_extents(program, stage, instr, extents);
    return segment_scratch_elements(program->graph, &program->graph->segments[instr->segment], instr->phase, extents);
}

static bool scratch_of(const struct program *program, int stage, int64_t *bytes, struct error *err)
{
    const struct stage_program *list = &program->stages[stage];
    int64_t most = 0;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        if (instr->op == OP_COMPUTE && instr->segment >= 0)
            most = max_i64(most, instr_scratch_elements(program, stage, instr));
    }
    if (!mul_i64(bytes, most, element_bytes(program->plan->dtype, ELEMENT_STATISTIC)))
        return fail(err, "layout: the workspace of stage %d does not fit in 63 bits of bytes", stage);
    return true;
}

/* What a buffer is, whatever the micro-batch, and what makes it. */
static int64_t thing_of(const struct program *program, const struct buffer *b, const struct life *life)
{
    const struct instr *maker = &program->stages[b->stage].instrs[life->first < 0 ? 0 : life->first];
    const int64_t facts[] = { b->kind,     b->is_weight, b->id,          b->ring_round, b->ring_atom,
                              b->part,     b->version,   maker->op,      maker->phase,  maker->lane,
                              maker->part, maker->layer, maker->segment, maker->again,  maker->late };
    return (int64_t)(hash_bytes(HASH_START, facts, sizeof facts) >> 1);
}

/* The temporary buffers of a stage in one memory as items. What nobody touches gets a
 * place too, at the first moment: every offset lies in the arena. */
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
                                                   .first = since < 0 ? 0 : since,
                                                   .last = held < 0 ? 0 : held,
                                                   .held = held > t->lives[b].last,
                                                   .alike = thing_of(program, buffer, &t->lives[b]) };
            t->item_of[b] = count++;
        }
    }
    for (int k = from; k < to; k++) {
        int b = t->by_stage.buffer[k];
        if (t->joined[b] < 0 || program->buffers[b].host != host)
            continue;
        struct place_item *item = &t->items[t->item_of[root_of(t->joined, b)]];
        item->last = item->last > t->lives[b].held ? item->last : t->lives[b].held;
    }
    return count;
}

/* What the next step reads has the bytes under which it reads it, until the list ends. True where it does read it: the
 * life of the opening's buffer goes on behind the opening. */
static bool wraps(const struct program *program, int buffer, int opening, const struct life *lives)
{
    int as = program->buffers[buffer].wraps - 1;
    return as >= 0 && lives[as].first >= 0 && lives[as].first < opening && lives[as].last >= opening;
}

static void join_wrapped(const struct program *program, int stage, const struct lifetimes *t)
{
    const struct stage_program *list = &program->stages[stage];
    int opening = stage_opening_count(list);
    for (int b = 0; opening && b < program->buffer_count; b++) {
        if (program->buffers[b].stage != stage || !wraps(program, b, opening, t->lives))
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

/* Of what does not persist: behind `top`. */
static void give_offsets(struct program *program, int stage, bool host, const struct lifetimes *t, int64_t top)
{
    for (int k = t->by_stage.first[stage]; k < t->by_stage.first[stage + 1]; k++) {
        int b = t->by_stage.buffer[k];
        struct buffer *buffer = &program->buffers[b];
        if (!buffer->persistent && buffer->host == host)
            buffer->offset = top + t->items[t->item_of[root_of(t->joined, b)]].offset;
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

/* Packing lost more than 1/50 of what lives at once. */
static bool packs_badly(const struct lifetimes *t, int count, int64_t total)
{
    int64_t bound;
    return place_bound(t->items, count, &bound, NULL) && total > bound + bound / 50;
}

/* What is joined lives longer and packs worse: where it lowers no peak it may take more than the same things apart. */
static bool place_temporaries(struct program *program, int stage, bool host, struct lifetimes *t, int64_t top,
                              int64_t *total, struct error *err)
{
    int64_t apart, bound;
    t->joined = t->all;
    int count = list_items(program, stage, host, t);
    if (!place_items(t->items, count, total, err))
        return false;
    give_offsets(program, stage, host, t, top);
    if (host || !kernels_join(t, stage) || !packs_badly(t, count, *total))
        return true;
    t->joined = t->transfers;
    count = list_items(program, stage, host, t);
    if (!place_bound(t->items, count, &bound, err) || (bound < *total && !place_items(t->items, count, &apart, err)))
        return false;
    if (bound < *total && apart < *total) {
        *total = apart;
        give_offsets(program, stage, host, t, top);
    }
    return true;
}

static bool place_stage(struct program *program, int stage, struct lifetimes *t, struct error *err)
{
    struct stage_program *list = &program->stages[stage];
    int64_t top = 0, total = 0;
    if (!stack_persistent(program, stage, false, &t->by_stage, &top, err))
        return false;
    list->persistent_bytes = top;
    list->scratch_offset = top;
    if (!scratch_of(program, stage, &list->scratch_bytes, err))
        return false;
    if (!add_i64(&top, top, round_up(list->scratch_bytes, ARENA_ALIGNMENT_BYTES)) ||
        !place_temporaries(program, stage, false, t, top, &total, err) || !add_i64(&list->arena_bytes, top, total))
        return fail(err, "layout: the arena of stage %d does not fit in 63 bits of bytes", stage);
    return true;
}

static bool place_host(struct program *program, int stage, struct lifetimes *t, struct error *err)
{
    struct stage_program *list = &program->stages[stage];
    int64_t top = 0, total = 0;
    if (!stack_persistent(program, stage, true, &t->by_stage, &top, err) ||
        !place_temporaries(program, stage, true, t, top, &total, err))
        return false;
    if (!add_i64(&list->host_bytes, top, total))
        return fail(err, "layout: the host's arena of stage %d does not fit in 63 bits of bytes", stage);
    return true;
}

static bool place_stages(struct program *program, struct error *err)
{
    size_t count = (size_t)program->buffer_count + 1;
    struct arena scratch = { 0 };
    struct lifetimes t = { .lives = malloc(count * sizeof *t.lives),
                           .all = malloc(count * sizeof *t.all),
                           .transfers = malloc(count * sizeof *t.transfers),
                           .items = malloc(count * sizeof *t.items),
                           .item_of = malloc(count * sizeof *t.item_of) };
    bool ok =
        (t.lives && t.all && t.transfers && t.items && t.item_of && by_stage_build(&t.by_stage, &scratch, program)) ||
        fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for %d buffers", program->buffer_count);
    ok = ok && program_lives(program, t.lives, err);
    if (ok)
        join_in_place(program, t.lives, t.all, t.transfers);
    for (int s = 0; ok && s < program->stage_count; s++)
        ok = place_stage(program, s, &t, err) && place_host(program, s, &t, err);
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
    bool failed;
};

static enum order_answer add_wait(void *self, const struct hazard *hazard)
{
    struct extras *extras = self;
    if (hazard->kind != HAZARD_REUSE_EARLY)
        return ORDER_IGNORE; /* lowering's own order is verify's matter */
    if (extras->count == extras->capacity) {
        int capacity = extras->capacity ? 2 * extras->capacity : 256;
        struct extra *grown = realloc(extras->list, (size_t)capacity * sizeof *grown);
        extras->failed |= !grown;
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
        if (from->last[lane] > into->last[lane])
            into->last[lane] = from->last[lane];
}

static int compare_latest(const void *left, const void *right)
{
    int a = *(const int *)left, b = *(const int *)right;
    return a > b ? -1 : a < b;
}

/* Keeps the waits that neither the lane nor a later wait implies; returns their number. before: what the lane has
 * reached. */
static int keep_needed(const struct stage_program *list, struct reached *reached, int index,
                       const struct reached *before, int *waits, int count)
{
    int kept = 0;
    reached[index] = *before;
    if (count)
        qsort(waits, (size_t)count, sizeof *waits, compare_latest);
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

/* Lowering's waits and the extra ones of the stage, without what the others imply. */
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

/* The walk reports in the order of stages and instructions. */
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

bool program_layout(struct program *program, struct error *err)
{
    return program_split_lives(program, err) && place_stages(program, err) && order_reuse(program, err);
}
