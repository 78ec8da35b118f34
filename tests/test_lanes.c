/* Lanes keep the order of their instructions and what these wait for; one that fails ends the step. */
#include "executor/lanes.h"
#include "tests/check.h"
#include "tests/random_numbers.h"
#include <stdatomic.h>

enum { LANE_INSTRS = 300 };
struct recorder {
    atomic_int order, at[LANE_INSTRS];
    int fail_at;
};

static bool record(void *context, int index, const struct instr *instr, struct span *span, struct error *err)
{
    struct recorder *r = context;
    (void)instr, (void)span;
    if (index == r->fail_at)
        return fail_kind(err, ERROR_ENVIRONMENT, "instruction %d broke", index);
    atomic_store(&r->at[index], atomic_fetch_add(&r->order, 1) + 1);
    return true;
}

static void make_list(struct stage_program *list, struct instr *instrs, int *waits)
{
    static const enum lane lanes[] = { LANE_COMPUTE, LANE_TP, LANE_DP, LANE_SEND };
    uint64_t seed = 5;
    *list = (struct stage_program){ .instr_count = LANE_INSTRS, .instrs = instrs, .waits = waits };
    for (int i = 0; i < LANE_INSTRS; i++) {
        instrs[i] = (struct instr){ .op = OP_ZERO, .lane = lanes[draw(&seed, 4)], .wait_first = list->wait_count };
        for (int k = 0; k < 2 && i > 0; k++)
            waits[list->wait_count++] = (int)draw(&seed, (uint64_t)i);
        instrs[i].wait_count = list->wait_count - instrs[i].wait_first;
    }
}

START_TEST(lanes_keep_order_and_waits)
{
    struct instr instrs[LANE_INSTRS];
    int waits[2 * LANE_INSTRS];
    struct stage_program list;
    struct lanes *lanes;
    struct error error = { 0 };
    make_list(&list, instrs, waits);
    struct recorder r = { .fail_at = -1 };
    ck_assert(lanes_new(&lanes, &list, record, NULL, &r, &error));
    for (int step = 0; step < 20; step++) {
        atomic_store(&r.order, 0);
        lanes_begin_step(lanes, 0);
        for (int i = 0; i < LANE_INSTRS; i++)
            lanes_issue(lanes, i);
        ck_assert(lanes_finish(lanes, &error));
        int last[LANE_COUNT] = { 0 };
        for (int i = 0; i < LANE_INSTRS; i++) {
            int at = atomic_load(&r.at[i]);
            ck_assert_int_gt(at, last[instrs[i].lane]);
            last[instrs[i].lane] = at;
            for (int k = 0; k < instrs[i].wait_count; k++)
                ck_assert_int_lt(atomic_load(&r.at[waits[instrs[i].wait_first + k]]), at);
            ck_assert_int_le(lanes_spans(lanes)[i].start_ns, lanes_spans(lanes)[i].finish_ns);
        }
    }
    lanes_free(lanes);
}
END_TEST

START_TEST(a_failing_lane_ends_the_step)
{
    struct instr instrs[LANE_INSTRS];
    int waits[2 * LANE_INSTRS];
    struct stage_program list;
    struct lanes *lanes;
    struct error error = { 0 };
    make_list(&list, instrs, waits);
    struct recorder r = { .fail_at = LANE_INSTRS / 2 };
    ck_assert(lanes_new(&lanes, &list, record, NULL, &r, &error));
    lanes_begin_step(lanes, 0);
    for (int i = 0; i < LANE_INSTRS; i++)
        lanes_issue(lanes, i);
    ck_assert(!lanes_finish(lanes, &error));
    ck_assert_str_eq(error.message, "instruction 150 broke");
    lanes_free(lanes);
}
END_TEST

static Suite *lanes_suite(void)
{
    Suite *suite = suite_create("lanes");
    CHECK_ADD(suite, lanes_keep_order_and_waits);
    CHECK_ADD(suite, a_failing_lane_ends_the_step);
    return suite;
}

CHECK_MAIN(lanes_suite)
