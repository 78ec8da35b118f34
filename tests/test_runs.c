/* Calls over tokens that are stored out of order: their parts meet every pair that sees each other, begin each result
 * once and before they add to it, and leave out what sees nothing. */
#include "executor/kernels/loops.h"
#include "executor/kernels/runs.h"
#include "executor/kernels/token_order.h"
#include "tests/check.h"
#include <string.h>

enum { MOST_PARTS = 5, BLOCK = 2, MOST_TOKENS = 2 * MOST_PARTS * BLOCK, T = 0, S = 1 };

struct seen {
    int64_t size, parts;
    int met[MOST_TOKENS][MOST_TOKENS];                     /* (query, key), by position */
    bool query_begun[MOST_TOKENS], key_begun[MOST_TOKENS]; /* by place */
    bool is_first;
    int64_t area;
};

/* Attention's: in q (t), k (s); out o (t). The key side's gradient is written by the backward phase. */
static struct segment core_segment(int64_t size)
{
    struct segment segment = {
        .name = "core", .kernel = KERNEL_ATTENTION, .axis_count = 2, .in_count = 2, .out_count = 1
    };
    segment.axes[T] = (struct axis){ .tag = TAG_SEQUENCE, .size = size };
    segment.axes[S] = (struct axis){ .tag = TAG_KEY, .size = size };
    memset(segment.in, -1, sizeof segment.in);
    memset(segment.out, -1, sizeof segment.out);
    segment.in[0].axis[0] = segment.out[0].axis[0] = T;
    segment.in[1].axis[0] = S;
    segment.arguments.causal = true;
    return segment;
}

static void begin_range(bool *begun, int64_t low, int64_t high, bool begins)
{
    for (int64_t i = low; i < high; i++) {
        ck_assert(begun[i] != begins); /* once, and before anything is added */
        begun[i] = true;
    }
}

static bool note(void *context, const struct kernel_call *part)
{
    struct seen *seen = context;
    bool backward = part->phase == PHASE_BACKWARD_INPUT;
    if (seen->is_first || backward)
        begin_range(seen->query_begun, part->low[T], part->high[T],
                    backward ? begins(part, ROLE_GRADIENT_IN, 0) : begins(part, ROLE_OUT, 0));
    if (backward)
        begin_range(seen->key_begun, part->low[S], part->high[S], begins(part, ROLE_GRADIENT_IN, 1));
    for (int64_t t = part->low[T]; t < part->high[T]; t++)
        for (int64_t s = part->low[S]; s < part->high[S]; s++) {
            ck_assert_int_eq(t + part->shift[T], token_position(t, seen->size, seen->parts));
            ck_assert_int_eq(s + part->shift[S], token_position(s, seen->size, seen->parts));
            seen->met[t + part->shift[T]][s + part->shift[S]]++;
        }
    seen->area += (part->high[T] - part->low[T]) * (part->high[S] - part->low[S]);
    return true;
}

static void check_call(int64_t parts, int64_t query_rank, int64_t key_rank, enum phase phase, bool first)
{
    struct seen seen = { .size = 2 * parts * BLOCK, .parts = parts, .is_first = first };
    struct segment segment = core_segment(seen.size);
    const int64_t each = seen.size / parts;
    char data;
    struct kernel_call call = { .segment = &segment, .phase = phase, .token_parts = parts };
    call.low[T] = query_rank * each, call.high[T] = call.low[T] + each;
    call.low[S] = key_rank * each, call.high[S] = call.low[S] + each;
    call.operand[ROLE_OUT][0].data = call.operand[ROLE_GRADIENT_IN][0].data = call.operand[ROLE_GRADIENT_IN][1].data =
        &data;
    if (phase == PHASE_FORWARD)
        call.first = first;
    else
        call.define[ROLE_GRADIENT_IN] = 3;
    ck_assert(kernel_each_run(&call, note, &seen));
    for (int64_t t = call.low[T]; t < call.high[T]; t++)
        for (int64_t s = call.low[S]; s < call.high[S]; s++) {
            int64_t query = token_position(t, seen.size, parts), key = token_position(s, seen.size, parts);
            ck_assert_int_le(seen.met[query][key], 1);
            ck_assert(seen.met[query][key] == 1 || key > query);
        }
    for (int64_t i = 0; i < each; i++) {
        ck_assert(!(first || phase != PHASE_FORWARD) || seen.query_begun[call.low[T] + i]);
        ck_assert(phase == PHASE_FORWARD || seen.key_begun[call.low[S] + i]);
    }
    if (phase == PHASE_FORWARD && !first) /* nothing begins: two of four pairs of blocks, three of a rank's own */
        ck_assert_int_eq(seen.area, (query_rank == key_rank ? 3 : 2) * BLOCK * BLOCK);
}

START_TEST(parts_meet_all_that_see_each_other)
{
    for (int64_t parts = 2; parts <= MOST_PARTS; parts++)
        for (int64_t query = 0; query < parts; query++)
            for (int64_t key = 0; key < parts; key++) {
                check_call(parts, query, key, PHASE_FORWARD, true);
                check_call(parts, query, key, PHASE_FORWARD, false);
                check_call(parts, query, key, PHASE_BACKWARD_INPUT, true);
            }
}
END_TEST

static bool stop(void *context, const struct kernel_call *part)
{
    (void)part;
    return --*(int *)context > 0;
}

START_TEST(a_failure_ends_it)
{
    struct segment segment = core_segment(8);
    struct kernel_call call = { .segment = &segment, .first = true, .token_parts = 2, .high = { 8, 8 } };
    int left = 3;
    ck_assert(!kernel_each_run(&call, stop, &left));
    ck_assert_int_eq(left, 0);
}
END_TEST

START_TEST(tokens_in_order_are_one_call)
{
    struct segment segment = core_segment(8);
    struct kernel_call call = { .segment = &segment, .first = true, .high = { 8, 8 } };
    int left = 2;
    ck_assert(kernel_each_run(&call, stop, &left));
    ck_assert_int_eq(left, 1);
}
END_TEST

static Suite *runs_suite(void)
{
    Suite *suite = suite_create("runs");
    CHECK_ADD(suite, parts_meet_all_that_see_each_other);
    CHECK_ADD(suite, a_failure_ends_it);
    CHECK_ADD(suite, tokens_in_order_are_one_call);
    return suite;
}
CHECK_MAIN(runs_suite)
