/* Offsets: nothing that lives together overlaps, and the arena is close to what must live at once. */
#include "tests/check.h"
#include "base/num.h"
#include "planner/layout/layout.h"
#include "planner/program/access.h"
#include "planner/layout/lives.h"
#include "planner/layout/place_work.h"
#include "planner/sim/simulate.h"
#include "tests/hand_program.h"
#include "tests/lowered_program.h"

static int64_t random_below(uint64_t *state, int64_t limit)
{
    *state = mix64(*state + 1);
    return (int64_t)(*state % (uint64_t)limit);
}

static void check_apart(const struct place_item *items, int count, int64_t total)
{
    for (int i = 0; i < count; i++) {
        ck_assert_int_ge(items[i].offset, 0);
        ck_assert_int_le(items[i].offset + items[i].bytes, total);
        for (int k = 0; k < i; k++) {
            bool together = items[i].first <= items[k].last && items[k].first <= items[i].last;
            bool overlap = items[i].offset < items[k].offset + items[k].bytes &&
                           items[k].offset < items[i].offset + items[i].bytes;
            ck_assert_msg(!together || !overlap, "items %d and %d overlap", i, k);
        }
    }
}

static int64_t twin_bound(const struct place_item *items, int count, int span)
{
    int64_t most = 0;
    for (int t = 0; t < span; t++) {
        int64_t live = 0;
        for (int i = 0; i < count; i++)
            live += items[i].first <= t && t <= items[i].last ? items[i].bytes : 0;
        most = max_i64(most, live);
    }
    return most;
}

static int64_t same_thing(const void *self, const struct place_item *item)
{
    (void)self;
    (void)item;
    return 0;
}
static const struct place_things one_thing = { same_thing, NULL };
static const struct place_effort thorough = { .looks = PLACE_LOOKS };

START_TEST(random_items_stay_apart)
{
    uint64_t state = 7;
    for (int round = 0; round < 200; round++) {
        struct place_item items[60] = { 0 };
        int count = 1 + (int)random_below(&state, 60);
        int64_t total, bound;
        for (int i = 0; i < count; i++) {
            items[i].first = (int)random_below(&state, 90);
            items[i].last = items[i].first + (int)random_below(&state, 100 - items[i].first);
            items[i].bytes = 64 * random_below(&state, 20);
        }
        ck_assert(place_items(items, count, &one_thing, &thorough, &total, NULL) &&
                  place_bound(items, count, &bound, NULL));
        ck_assert_int_eq(bound, twin_bound(items, count, 100));
        ck_assert_int_ge(total, bound);
        check_apart(items, count, total);
    }
}
END_TEST

static int by_address(const void *a, const void *b)
{
    const struct gap *x = a, *y = b;
    return (x->low > y->low) - (x->low < y->low);
}

/* The tightest gap between what is placed already and lives beside the item, else on top: looks at all of them. */
static int64_t twin_gap(struct place_work *w, int turn)
{
    const struct place_item *item = &w->items[w->order[turn].item];
    int64_t top = 0, best = -1, best_size = INT64_MAX;
    int count = 0;
    for (int i = 0; i < turn; i++) {
        const struct place_item *other = &w->items[w->order[i].item];
        int64_t low = w->offset[w->order[i].item];
        if (other->first <= item->last && other->last >= item->first)
            w->beside[count++] = (struct gap){ low, low + other->bytes };
    }
    qsort(w->beside, (size_t)count, sizeof *w->beside, by_address);
    for (int i = 0; i < count; top = max_i64(top, w->beside[i++].high)) {
        int64_t size = w->beside[i].low - top;
        if (size >= item->bytes && size < best_size) {
            best = top;
            best_size = size;
        }
    }
    return best >= 0 ? best : top;
}

/* Lists of few items and of many, which know spans of time of other lengths; long lives among short ones. */
START_TEST(lists_find_the_tightest_gap)
{
    int count = _i ? FEW_ITEMS + 200 : 150, end = 4 * count;
    struct place_item *items = calloc((size_t)count, sizeof *items);
    uint64_t state = 11;
    struct place_work w;
    for (int i = 0; i < count; i++) {
        int most = i % 20 ? end / 400 : end / 2;
        items[i].first = (int)random_below(&state, end - most);
        items[i].last = items[i].first + (int)random_below(&state, most);
        items[i].bytes = 64 * (1 + random_below(&state, i % 3 ? 4 : 40));
    }
    ck_assert(place_work_open(&w, items, count) && place_lists_open(&w));
    for (int i = 0; i < count; i++) /* any order does */
        w.order[i] = (struct ranked){ .item = (int)((int64_t)i * 7919 % count) };
    place_lists_clear(&w);
    for (int turn = 0; turn < count; turn++) {
        int item = w.order[turn].item;
        w.offset[item] = place_lists_gap(&w, item);
        ck_assert_int_eq(w.offset[item], twin_gap(&w, turn));
        place_lists_add(&w, turn);
    }
    ck_assert(!w.failed);
    arena_free(&w.arena);
    free(items);
}
END_TEST

/* Lifetimes that nest like brackets, as forward and backward make them, pack perfectly. */
START_TEST(nested_lifetimes_pack_perfectly)
{
    struct place_item items[50];
    int64_t total, bound;
    for (int i = 0; i < 50; i++)
        items[i] = (struct place_item){ .bytes = 64 * (1 + i % 7), .first = i, .last = 99 - i };
    ck_assert(place_items(items, 50, &one_thing, &thorough, &total, NULL) && place_bound(items, 50, &bound, NULL));
    ck_assert_int_eq(total, bound);
}
END_TEST

START_TEST(long_lists_are_placed_in_time)
{
    enum { MANY = 100000 };
    struct place_item *items = calloc(MANY, sizeof *items);
    uint64_t state = 3;
    int64_t total, bound;
    for (int i = 0; i < MANY; i++) {
        items[i].first = i;
        items[i].last = i + 1 + (int)random_below(&state, i % 10 ? 10 : 400);
        items[i].bytes = 64 * (1 + random_below(&state, 8));
    }
    ck_assert(place_items(items, MANY, &one_thing, &thorough, &total, NULL) && place_bound(items, MANY, &bound, NULL));
    ck_assert_int_le(total, bound + bound / 10);
    free(items);
}
END_TEST

START_TEST(sizes_beyond_63_bits_are_refused)
{
    struct place_item items[2] = { { .bytes = INT64_MAX - 63 }, { .bytes = INT64_MAX - 63, .first = 1, .last = 1 } };
    struct error err = { 0 };
    int64_t total = 5;
    ck_assert(!place_items(items, 2, &one_thing, &thorough, &total, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "63 bits"));
    ck_assert_int_eq(total, 5);
}
END_TEST

/* Of how many inputs the gradients need no bytes of their own, on one rank. */
static int written_over(const struct program *program, const struct instr *instr)
{
    if (instr->op != OP_COMPUTE || instr->phase != PHASE_BACKWARD_INPUT)
        return 0;
    enum kernel kernel = program->graph->segments[instr->segment].kernel;
    return kernel == KERNEL_SWIGLU ? 2 : kernel == KERNEL_SUM_EXP;
}

/* Bytes that are kept at once in program order: from each buffer's first use to its last, or as long as they are its
 * own. in_place: loss and gated units write gradients over what they read. */
static int64_t live_bytes(const struct program *program, int stage, bool held, bool host, bool in_place)
{
    const struct stage_program *list = &program->stages[stage];
    int64_t *change = calloc((size_t)list->instr_count + 2, sizeof *change), live = 0, most = 0;
    struct life *lives = calloc((size_t)program->buffer_count, sizeof *lives);
    ck_assert(lives_find(program, lives, NULL));
    for (int b = 0; b < program->buffer_count; b++) {
        if (program->buffers[b].stage != stage || program->buffers[b].persistent || lives[b].first < 0 ||
            program->buffers[b].host != host)
            continue;
        change[held ? lives[b].since : lives[b].first] += round_up(program->buffers[b].bytes, 64);
        change[(held ? lives[b].held : lives[b].last) + 1] -= round_up(program->buffers[b].bytes, 64);
    }
    for (int i = 0; in_place && i < list->instr_count; i++)
        for (int k = 0; k < written_over(program, &list->instrs[i]); k++) {
            int gradient = instr_operand(program, &list->instrs[i], ROLE_GRADIENT_IN, k),
                input = instr_operand(program, &list->instrs[i], ROLE_IN, k);
            ck_assert(lives[gradient].first == i && lives[input].last == i);
            change[i] -= round_up(program->buffers[gradient].bytes, 64);
            change[i + 1] += round_up(program->buffers[gradient].bytes, 64);
        }
    for (int i = 0; i < list->instr_count; i++) {
        live += change[i];
        most = max_i64(most, live);
    }
    free(lives);
    free(change);
    return most;
}

/* The stages' arenas as they were when it was asked; others are told not to fit. */
struct asked {
    struct stage_program *stages;
    bool fits;
};

static bool note_arenas(void *self, const struct program *program)
{
    struct asked *asked = self;
    memcpy(asked->stages, program->stages, (size_t)program->stage_count * sizeof *asked->stages);
    return asked->fits;
}

/* What the judge refuses by without a layout: no arena is smaller, and none that is laid out well much larger. */
START_TEST(bounds_of_arenas_are_below_them)
{
    struct lowered l = lowered_program(&strategies[_i]), bound = lowered_program(&strategies[_i]),
                   refused = lowered_program(&strategies[_i]);
    struct error err = { 0 };
    struct asked asked = { calloc((size_t)l.program->stage_count, sizeof *asked.stages), false };
    const struct layout_ask ask = { .fits = note_arenas, .self = &asked };
    bool placed = true;
    ck_assert_msg(layout_program(l.program, &err), "%s", err.message);
    ck_assert(lives_split(refused.program, &err) && lives_split(bound.program, &err));
    ck_assert(layout_place_and_order(refused.program, &ask, &placed, &err) && !placed);
    asked.fits = true;
    ck_assert(layout_place_and_order(bound.program, &ask, &placed, &err) && placed);
    for (int s = 0; s < l.program->stage_count; s++) {
        const struct stage_program *stage = &l.program->stages[s], *least = &asked.stages[s];
        ck_assert_msg(least->arena_bytes <= stage->arena_bytes && least->host_bytes <= stage->host_bytes,
                      "%s, stage %d: %lld and %lld bytes, laid out %lld and %lld", strategies[_i].name, s,
                      (long long)least->arena_bytes, (long long)least->host_bytes, (long long)stage->arena_bytes,
                      (long long)stage->host_bytes);
        ck_assert_msg(stage->arena_bytes <= least->arena_bytes + least->arena_bytes / 50,
                      "%s, stage %d: %lld bytes, at least %lld", strategies[_i].name, s, (long long)stage->arena_bytes,
                      (long long)least->arena_bytes);
        ck_assert_int_eq(least->persistent_bytes, stage->persistent_bytes);
    }
    for (int b = 0; b < l.program->buffer_count; b++)
        ck_assert_int_eq(bound.program->buffers[b].offset, l.program->buffers[b].offset);
    free(asked.stages);
    lowered_free(&refused);
    lowered_free(&bound);
    lowered_free(&l);
}
END_TEST

START_TEST(lowered_arenas_are_tight)
{
    struct lowered l = lowered_program(&strategies[_i]);
    struct error err = { 0 };
    ck_assert_msg(layout_program(l.program, &err), "%s", err.message);
    for (int s = 0; s < l.program->stage_count; s++) {
        const struct stage_program *stage = &l.program->stages[s];
        int64_t temporary = stage->arena_bytes - stage->persistent_bytes - round_up(stage->scratch_bytes, 64);
        int64_t live = live_bytes(l.program, s, true, false, false), away = live_bytes(l.program, s, true, true, false);
        for (int b = 0; b < l.program->buffer_count; b++)
            if (l.program->buffers[b].stage == s && l.program->buffers[b].host && l.program->buffers[b].persistent)
                away += round_up(l.program->buffers[b].bytes, 64);
        ck_assert_msg(stage->host_bytes >= away && stage->host_bytes <= away + away / 50,
                      "%s, stage %d: %lld bytes of host memory for %lld", strategies[_i].name, s,
                      (long long)stage->host_bytes, (long long)away);
        ck_assert_msg(temporary <= live + live / 50, "%s, stage %d: %lld bytes for %lld alive", strategies[_i].name, s,
                      (long long)temporary, (long long)live);
    }
    for (int b = 0; b < l.program->buffer_count; b++)
        ck_assert_int_eq(l.program->buffers[b].offset % 64, 0);
    lowered_free(&l);
}
END_TEST

/* How often the compute lane enters another layer between two instructions, or another pass. */
static int entered_between(const struct stage_program *list, bool passes, int from, int to)
{
    const struct instr *last = NULL;
    int entered = 0;
    for (int i = 0; i <= to; i++) {
        const struct instr *instr = &list->instrs[i];
        if (instr->lane != LANE_COMPUTE)
            continue;
        bool forward = instr->phase == PHASE_FORWARD && !instr->again && !instr->late;
        bool same = last && (passes || last->layer == instr->layer) && last->micro == instr->micro &&
                    forward == (last->phase == PHASE_FORWARD && !last->again && !last->late);
        entered += i > from && !same;
        last = instr;
    }
    return entered;
}

/* Before its first use a buffer is there for a transfer that could begin: nothing that it waits for, or that comes
 * before it in its lane, is still to come. */
static void could_begin(const struct stage_program *list, const struct life *life)
{
    const struct instr *first = &list->instrs[life->first];
    int passes = 0, micro = -2;
    ck_assert(first->lane == LANE_TP || first->lane == LANE_CP || first->lane == LANE_EP ||
              first->lane == LANE_RECEIVE);
    for (int w = 0; w < first->wait_count; w++)
        ck_assert_int_lt(list->waits[first->wait_first + w], life->since);
    for (int i = life->since; i < life->first; i++) {
        const struct instr *instr = &list->instrs[i];
        ck_assert(instr->lane != first->lane);
        passes += instr->lane == LANE_COMPUTE && instr->micro != micro;
        micro = instr->lane == LANE_COMPUTE ? instr->micro : micro;
    }
    ck_assert_int_le(passes, 1);
}

/* By reading the list: first and last use, there before only for a transfer that could begin, and held no longer than
 * one layer beyond the last read of a transfer, or one pass beyond a send. */
START_TEST(lives_are_those_of_the_list)
{
    struct lowered l = lowered_program(&strategies[_i]);
    ck_assert(lives_split(l.program, NULL)); /* layout_program() adds waits */
    struct life *lives = calloc((size_t)l.program->buffer_count, sizeof *lives);
    ck_assert(lives_find(l.program, lives, NULL));
    for (int b = 0; b < l.program->buffer_count; b++) {
        const struct stage_program *list = &l.program->stages[l.program->buffers[b].stage];
        int first = -1, last = -1, sent = -1, read = -1;
        struct access access;
        for (int i = 0; i < list->instr_count; i++)
            for (int slot = 0; slot < access_slots(&list->instrs[i]); slot++)
                if (access_at(l.program, &list->instrs[i], slot, &access) && access.buffer == b) {
                    first = first < 0 ? i : first;
                    last = i;
                    enum lane lane = list->instrs[i].lane;
                    bool reads = access.reads && !access.writes;
                    sent = reads && lane == LANE_SEND ? i : sent;
                    read = reads && (lane == LANE_DP || lane == LANE_COPY_OUT) ? i : read;
                }
        ck_assert_int_eq(lives[b].first, first);
        ck_assert_int_eq(lives[b].last, last);
        ck_assert_int_ge(lives[b].held, last);
        ck_assert_int_le(lives[b].since, first);
        if (lives[b].since < first)
            could_begin(list, &lives[b]);
        if (lives[b].held == last)
            continue;
        ck_assert(sent >= 0 || read >= 0);
        ck_assert(sent >= 0 ? entered_between(list, true, sent, lives[b].held) <= 1
                            : entered_between(list, false, read, lives[b].held) <= 1);
    }
    free(lives);
    lowered_free(&l);
}
END_TEST

static int64_t bytes_moved(const struct program *program, const struct instr *instr)
{
    int64_t bytes = 0;
    for (int k = 0; k < instr->pair_count; k++) {
        const struct pair *pair = &program->pairs[instr->pair_first + k];
        int buffer = instr->op == OP_RECEIVE ? pair->destination : pair->source;
        bytes += buffer >= 0 ? round_up(program->buffers[buffer].bytes, 64) : 0;
    }
    return bytes;
}

/* Two layers' gradients, or activations on their way to the host, at most lie beside each other for the sake of
 * overlap, and two transfers of each other lane. */
START_TEST(holding_costs_one_layer_of_gradients)
{
    struct lowered l = lowered_program(&strategies[_i]);
    ck_assert(layout_program(l.program, NULL));
    for (int s = 0; s < l.program->stage_count; s++) {
        int64_t *of_layer = calloc((size_t)l.graph->layer_count, sizeof *of_layer), most = 0,
                in_lane[LANE_COUNT] = { 0 };
        const struct stage_program *list = &l.program->stages[s];
        for (int i = 0; i < list->instr_count; i++) {
            const struct instr *instr = &list->instrs[i];
            if (instr->op != OP_COMPUTE && instr->lane != LANE_DP)
                in_lane[instr->lane] = max_i64(in_lane[instr->lane], bytes_moved(l.program, instr));
            if (instr->micro == 0 && (instr->op == OP_REDUCE_SCATTER || instr->op == OP_OFFLOAD))
                of_layer[instr->layer] += bytes_moved(l.program, instr);
        }
        for (int i = 0; i < l.graph->layer_count; i++)
            most = max_i64(most, of_layer[i]);
        for (int lane = LANE_COMPUTE + 1; lane < LANE_COUNT; lane++)
            most += in_lane[lane];
        ck_assert_int_le(live_bytes(l.program, s, true, false, false),
                         live_bytes(l.program, s, false, false, false) + 2 * most);
        free(of_layer);
    }
    lowered_free(&l);
}
END_TEST

/* ---- reuse leaves communication beside compute ---- */
static const struct strategy overlapping[] = {
    { "zero 2", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 4, 2, 0, 1, 0, 1 << 30, 1 },
    { "zero 2, full recompute", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 4, 2, 2, 1, 0, 1 << 30, 1 },
    { "zero 2, each gradient alone", "tiny-llama", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 3, 2, 0, 1, 0, 0, 0 },
    { "zero 3", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 4, 3, 0, 1, 1, 1 << 30, 1 },
    { "zero 3, full recompute", "tiny-llama", "1f1b", 1, { 4, 1 }, { "dp", "none" }, 4, 3, 2, 1, 1, 1 << 30, 1 },
    { "zero 2, pipeline", "tiny-gpt", "1f1b", 2, { 2, 1 }, { "dp", "none" }, 6, 2, 2, 1, 0, 1 << 30, 1 },
};
enum { OVERLAPPING_COUNT = sizeof overlapping / sizeof *overlapping };

/* No compute of a micro-batch waits for a reduction of the layer just left. */
START_TEST(compute_never_waits_for_the_reduction_before)
{
    struct lowered l = lowered_program(&overlapping[_i]);
    int reductions = 0;
    ck_assert(layout_program(l.program, NULL));
    for (int s = 0; s < l.program->stage_count; s++) {
        const struct stage_program *list = &l.program->stages[s];
        for (int i = 0; i < list->instr_count; i++) {
            const struct instr *instr = &list->instrs[i];
            reductions += instr->lane == LANE_DP && instr->op == OP_REDUCE_SCATTER;
            for (int k = 0; k < instr->wait_count && instr->lane == LANE_COMPUTE && instr->op == OP_COMPUTE; k++) {
                int wait = list->waits[instr->wait_first + k];
                if (list->instrs[wait].lane == LANE_DP && list->instrs[wait].op == OP_REDUCE_SCATTER)
                    ck_assert_msg(entered_between(list, false, wait, i) >= 2, "%s: %d waits for %d",
                                  overlapping[_i].name, i, wait);
            }
        }
    }
    ck_assert_int_gt(reductions, l.graph->layer_count);
    lowered_free(&l);
}
END_TEST

/* Nothing is computed into bytes that are sent before the pass after the send is over. */
START_TEST(compute_never_waits_for_the_send_before)
{
    struct lowered l = lowered_program(&strategies[_i]);
    ck_assert(layout_program(l.program, NULL));
    for (int s = 0; s < l.program->stage_count; s++) {
        const struct stage_program *list = &l.program->stages[s];
        for (int i = 0; i < list->instr_count; i++)
            for (int k = 0; k < list->instrs[i].wait_count && list->instrs[i].lane == LANE_COMPUTE; k++) {
                int wait = list->waits[list->instrs[i].wait_first + k];
                if (list->instrs[wait].lane == LANE_SEND && list->instrs[i].phase != PHASE_STEP)
                    ck_assert_msg(entered_between(list, true, wait, i) >= 2, "%s: stage %d, %d waits for %d",
                                  strategies[_i].name, s, i, wait);
            }
    }
    lowered_free(&l);
}
END_TEST

/* Compute takes 1000; the transfers of a layer take less than its kernels. */
static int64_t short_transfers(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    (void)self;
    (void)program;
    (void)stage;
    if (instr->op == OP_COMPUTE)
        return 1000;
    return instr->lane == LANE_DP && instr->phase != PHASE_STEP ? 150 * instr->pair_count : 0;
}

static int64_t simulated_ns(const struct program *program)
{
    struct durations durations = { .ns = short_transfers };
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate_with(&timeline, &durations, program, &err), "%s", err.message);
    int64_t ns = timeline->step_ns;
    timeline_free(timeline);
    return ns;
}

/* Sharing bytes costs next to no time: the step with the layout's waits is within 2 % of that without. */
START_TEST(reuse_hides_short_transfers)
{
    struct lowered l = lowered_program(&overlapping[_i]);
    int64_t alone = simulated_ns(l.program), shared;
    ck_assert(layout_program(l.program, NULL));
    shared = simulated_ns(l.program);
    ck_assert_msg(shared <= alone + alone / 50, "%s: %lld ns with reuse, %lld without", overlapping[_i].name,
                  (long long)shared, (long long)alone);
    lowered_free(&l);
}
END_TEST

/* Logits and their gradients, and those of gated units, are never there twice, and the arena has room for one. */
START_TEST(gradients_take_the_place_of_inputs)
{
    struct strategy strategy = strategies[0];
    strategy.model = _i ? "tiny-llama" : "tiny-gpt";
    struct lowered l = lowered_program(&strategy);
    ck_assert(layout_program(l.program, NULL));
    const struct stage_program *list = &l.program->stages[0];
    int found = 0;
    for (int i = 0; i < list->instr_count; i++)
        for (int k = 0; k < written_over(l.program, &list->instrs[i]); k++, found++)
            ck_assert_int_eq(l.program->buffers[instr_operand(l.program, &list->instrs[i], ROLE_GRADIENT_IN, k)].offset,
                             l.program->buffers[instr_operand(l.program, &list->instrs[i], ROLE_IN, k)].offset);
    int gated = _i ? 2 * (l.graph->layer_count - 3) / 2 : 0; /* all but embedding, head and loss: attention and these */
    ck_assert_int_eq(found, strategy.micros * (1 + gated));
    int64_t temporary = list->arena_bytes - list->persistent_bytes - round_up(list->scratch_bytes, 64);
    int64_t once = live_bytes(l.program, 0, true, false, true);
    ck_assert_int_lt(once, live_bytes(l.program, 0, true, false, false));
    ck_assert_int_le(temporary, once + once / 200);
    lowered_free(&l);
}
END_TEST

START_TEST(layout_repeats)
{
    struct lowered a = lowered_program(&strategies[_i]), b = lowered_program(&strategies[_i]);
    ck_assert(layout_program(a.program, NULL) && layout_program(b.program, NULL));
    ck_assert_int_eq(a.program->buffer_count, b.program->buffer_count);
    for (int i = 0; i < a.program->buffer_count; i++)
        ck_assert_int_eq(a.program->buffers[i].offset, b.program->buffers[i].offset);
    lowered_free(&a);
    lowered_free(&b);
}
END_TEST

/* In flight: 1F1B keeps min(P - stage, m) activations, GPipe m. So do the arenas, but for what is just received or
 * sent, either way. */
START_TEST(arenas_follow_the_schedule)
{
    enum { STAGES = 4, MICROS = 7, ONE = 448 /* 400 bytes, aligned */ };
    struct hand *one = hand_pipeline("1f1b", STAGES, MICROS), *all = hand_pipeline("gpipe", STAGES, MICROS);
    ck_assert(layout_program(one->program, NULL) && layout_program(all->program, NULL));
    for (int s = 1; s < STAGES - 1; s++) {
        int64_t flying = one->program->stages[s].arena_bytes - one->program->stages[s].persistent_bytes;
        int64_t whole = all->program->stages[s].arena_bytes - all->program->stages[s].persistent_bytes;
        ck_assert_int_ge(flying, (STAGES - s) * ONE);
        ck_assert_int_le(flying, (STAGES - s + 4) * ONE);
        ck_assert_int_ge(whole, MICROS * ONE);
        ck_assert_int_le(whole, (MICROS + 4) * ONE);
    }
    hand_free(one);
    hand_free(all);
}
END_TEST

/* A buffer that is defined again after it was read gets a second buffer, so that the time between belongs to others. */
START_TEST(a_second_life_is_another_buffer)
{
    struct hand *h = hand_pipeline("1f1b", 1, 1);
    struct program *p = h->program;
    int value = *hand_value(h, 0, 0, 0), before = p->buffer_count, seen = -1;
    struct stage_program *list = &p->stages[0];
    /* load, forward, seed, ...: load again after the forward pass */
    memmove(&list->instrs[3], &list->instrs[2], (size_t)(list->instr_count - 2) * sizeof *list->instrs);
    list->instrs[2] = list->instrs[0];
    list->instr_count++;
    ck_assert(layout_program(p, NULL));
    for (int i = 0; i < list->instr_count; i++)
        if (list->instrs[i].op == OP_COMPUTE && list->instrs[i].phase == PHASE_BACKWARD_WEIGHT)
            seen = instr_operand(h->program, &list->instrs[i], ROLE_IN, 0);
    ck_assert_int_eq(p->buffer_count, before + 1);
    ck_assert_int_eq(seen, before);
    ck_assert_int_ne(seen, value);
    hand_free(h);
}
END_TEST

static Suite *layout_suite(void)
{
    Suite *suite = suite_create("layout");
    CHECK_ADD(suite, random_items_stay_apart);
    CHECK_ADD_LOOP(suite, lists_find_the_tightest_gap, 2);
    CHECK_ADD(suite, nested_lifetimes_pack_perfectly);
    CHECK_ADD(suite, long_lists_are_placed_in_time);
    CHECK_ADD(suite, sizes_beyond_63_bits_are_refused);
    CHECK_ADD(suite, arenas_follow_the_schedule);
    CHECK_ADD(suite, a_second_life_is_another_buffer);
    TCase *lowered = tcase_create("lowered");
    tcase_set_timeout(lowered, 0);
    tcase_add_loop_test(lowered, lowered_arenas_are_tight, 0, STRATEGY_COUNT);
    tcase_add_loop_test(lowered, bounds_of_arenas_are_below_them, 0, STRATEGY_COUNT);
    tcase_add_loop_test(lowered, lives_are_those_of_the_list, 0, STRATEGY_COUNT);
    tcase_add_loop_test(lowered, holding_costs_one_layer_of_gradients, 0, STRATEGY_COUNT);
    tcase_add_loop_test(lowered, gradients_take_the_place_of_inputs, 0, 2);
    tcase_add_loop_test(lowered, layout_repeats, 0, STRATEGY_COUNT);
    tcase_add_loop_test(lowered, compute_never_waits_for_the_reduction_before, 0, OVERLAPPING_COUNT);
    tcase_add_loop_test(lowered, compute_never_waits_for_the_send_before, 0, STRATEGY_COUNT);
    tcase_add_loop_test(lowered, reuse_hides_short_transfers, 0, OVERLAPPING_COUNT);
    suite_add_tcase(suite, lowered);
    return suite;
}

CHECK_MAIN(layout_suite)
