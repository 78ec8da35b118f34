/* Waiting is taken out of transfers: spans of a measured timeline begin when the last partner came, and nothing else
 * changes. */
#include "tests/check.h"
#include "tests/lowered_program.h"
#include "planner/program/geometry.h"
#include "executor/settle.h"

/* A timeline in which instruction i of rank r runs from 1000 i + 100 r to 1000 i + 900. */
static struct timeline *staggered(const struct program *program)
{
    const struct plan *plan = program->plan;
    struct timeline *t = calloc(1, sizeof *t);
    t->origin = TIMELINE_MEASURED;
    t->rank_count = plan->rank_count;
    t->ranks = arena_alloc(&t->arena, (size_t)plan->rank_count, sizeof *t->ranks);
    for (int r = 0; r < plan->rank_count; r++) {
        int stage = plan_stage_of_rank(plan, r), count = program->stages[stage].instr_count;
        t->ranks[r] = (struct rank_timeline){ .rank = r, .stage = stage, .span_count = count };
        t->ranks[r].spans = arena_alloc(&t->arena, (size_t)count, sizeof(struct span));
        for (int i = 0; i < count; i++)
            t->ranks[r].spans[i] = (struct span){ 1000 * i + 100 * r, 1000 * i + 900 };
    }
    return t;
}

static void check_strategy(int index)
{
    struct lowered l = lowered_program(&strategies[index]);
    struct timeline *t = staggered(l.program);
    struct error err = { 0 };
    ck_assert_msg(timeline_settle(l.program, t, &err), "%s: %s", strategies[index].name, err.message);
    for (int r = 0; r < t->rank_count; r++)
        for (int i = 0; i < t->ranks[r].span_count; i++) {
            const struct rank_timeline *rank = &t->ranks[r];
            const struct instr *instr = &l.program->stages[rank->stage].instrs[i];
            int64_t start = rank->spans[i].start_ns, own = 1000 * i + 100 * r, want = own;
            ck_assert_msg(rank->spans[i].finish_ns == 1000 * i + 900, "finish moved");
            if (op_info[instr->op].collective &&
                instr->op != OP_NORM_REDUCE) { /* the group's last member has the highest rank */
                int members[64], place, first = l.plan->stages[rank->stage].first_rank;
                int count = geometry_group_members(l.plan, rank->stage, instr->atoms, r - first, members, &place);
                want = 1000 * i + 100 * (first + members[count - 1]);
            }
            if (instr->op == OP_SEND || instr->op == OP_RECEIVE || instr->op == OP_NORM_REDUCE)
                ck_assert_msg(start >= own && start <= rank->spans[i].finish_ns, "%s: rank %d instr %d begins at %lld",
                              strategies[index].name, r, i, (long long)start);
            else
                ck_assert_msg(start == want, "%s: rank %d instr %d begins at %lld, expected %lld",
                              strategies[index].name, r, i, (long long)start, (long long)want);
        }
    timeline_free(t);
    lowered_free(&l);
}

START_TEST(every_strategy)
{
    for (int i = 0; i < STRATEGY_COUNT; i++)
        check_strategy(i);
}
END_TEST

/* Two stages, one rank each: the receiver came first, so its span begins when the sender did. */
START_TEST(receiver_waits_for_sender)
{
    struct lowered l = lowered_program(&strategies[10]);
    struct timeline *t = staggered(l.program);
    struct error err = { 0 };
    const struct stage_program *first = &l.program->stages[0], *second = &l.program->stages[1];
    int send = -1, receive = -1;
    for (int i = 0; i < first->instr_count && send < 0; i++)
        send = first->instrs[i].op == OP_SEND ? i : -1;
    for (int i = 0; i < second->instr_count && receive < 0; i++)
        receive = second->instrs[i].op == OP_RECEIVE && second->instrs[i].tag == first->instrs[send].tag ? i : -1;
    ck_assert_int_ge(receive, 0);
    t->ranks[0].spans[send].start_ns = 5000000;
    t->ranks[0].spans[send].finish_ns = 6000000;
    t->ranks[1].spans[receive] = (struct span){ 1000, 6000000 };
    ck_assert_msg(timeline_settle(l.program, t, &err), "%s", err.message);
    ck_assert_int_eq(t->ranks[1].spans[receive].start_ns, 5000000);
    ck_assert_int_eq(t->ranks[0].spans[send].start_ns, 5000000);
    timeline_free(t);
    lowered_free(&l);
}
END_TEST

static Suite *settle_suite(void)
{
    Suite *suite = suite_create("settle");
    TCase *tests = tcase_create("settle");
    tcase_add_test(tests, every_strategy);
    tcase_add_test(tests, receiver_waits_for_sender);
    suite_add_tcase(suite, tests);
    return suite;
}
CHECK_MAIN(settle_suite)
