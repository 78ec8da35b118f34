/* Clusters of several device types: what costs, memory, profiles and the simulator make of them. */
#include "planner/cost/cost_group.h"
#include "planner/lower/lower.h"
#include "planner/sim/simulate.h"
#include "tests/fact_files.h"
#include "tests/lowered_program.h"
#include "tests/pipeline_shape.h"

/* A device of round numbers. scale: how many times faster it is than the slowest, in everything. */
struct device_numbers {
    const char *name;
    double scale;
    int64_t launch_ns, collective_launch_ns, link_latency_ns, nic_latency_ns;
    double link_bytes_per_s, nic_bytes_per_s;
    int64_t memory_bytes;
};
static const struct device_numbers slow = { "slow", 1, 0, 1000, 500, 3000, 1e9, 1e8, INT64_C(4) << 30 };

static char *device_text(char out[1024], const struct device_numbers *d)
{
    snprintf(out, 1024,
             "{\"name\": \"%s\", \"description\": \"d\", \"source\": \"s\", \"matmul_flops_per_s\": {\"fp32\": %g}, "
             "\"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, "
             "\"attention_backward_efficiency\": 0.25, \"vector_flops_per_s\": %g, \"memory_bytes_per_s\": %g, "
             "\"memory_bytes\": %lld, \"launch_ns\": %lld, \"collective_launch_ns\": %lld, "
             "\"link_bytes_per_s\": %g, \"link_latency_ns\": %lld, \"nic_bytes_per_s\": %g, \"nic_latency_ns\": %lld, "
             "\"host_bytes_per_s\": 1e9}",
             d->name, 1e10 * d->scale, 1e10 * d->scale, 1e10 * d->scale, (long long)d->memory_bytes,
             (long long)d->launch_ns, (long long)d->collective_launch_ns, d->link_bytes_per_s,
             (long long)d->link_latency_ns, d->nic_bytes_per_s, (long long)d->nic_latency_ns);
    return out;
}

struct group_numbers {
    const struct device_numbers *device;
    int nodes, per_node;
};

static struct cluster *cluster_of(const struct group_numbers *groups, int count)
{
    struct text text = { 0 };
    char device[1024];
    text_add(&text, "{\"groups\": [");
    for (int g = 0; g < count; g++)
        text_printf(&text, "%s{\"device\": %s, \"levels\": [{\"fanout\": %d}, {\"fanout\": %d}]}", g ? ", " : "",
                    device_text(device, groups[g].device), groups[g].per_node, groups[g].nodes);
    text_add(&text, "]}");
    struct cluster *cluster = cluster_open(text.data);
    text_free(&text);
    return cluster;
}

static const enum op collectives[] = { OP_ALL_REDUCE,   OP_ALL_GATHER, OP_REDUCE_SCATTER, OP_ALL_TO_ALL,
                                       OP_REDISTRIBUTE, OP_SHIFT,      OP_REDUCE,         OP_BROADCAST };
enum { COLLECTIVES = sizeof collectives / sizeof *collectives };

/* ---- types that differ in name alone: everything must be as on one type, to the nanosecond ---- */

static struct cluster *twins(const char *second)
{
    struct device_numbers twin = slow;
    twin.name = second;
    const struct group_numbers groups[] = { { &slow, 2, 4 }, { &twin, 1, 4 }, { &slow, 1, 4 } };
    return cluster_of(groups, 3);
}

START_TEST(twins_cost_what_one_type_costs)
{
    struct cluster *one = twins("slow"), *two = twins("twin");
    struct facts a = { .cluster = one }, b = { .cluster = two };
    ck_assert_int_eq(one->type_count, 1);
    ck_assert(two->type_count == 2 && two->group_count == 3);
    for (int ranks = 2; ranks <= 16; ranks *= 2)
        for (int stride = 1; ranks * stride <= 16; stride *= 2)
            for (int first = 0; first + (ranks - 1) * stride < 16; first += 4)
                for (int i = 0; i < COLLECTIVES; i++)
                    for (int64_t bytes = 64; bytes < INT64_C(1) << 32; bytes *= 64)
                        ck_assert_msg(cost_collective(&a, collectives[i], bytes, ranks, first, stride, 2).ns ==
                                          cost_collective(&b, collectives[i], bytes, ranks, first, stride, 2).ns,
                                      "%s of %d ranks from %d, stride %d, %lld bytes", op_info[collectives[i]].name,
                                      ranks, first, stride, (long long)bytes);
    for (int from = 0; from < 16; from++)
        for (int to = 0; to < 16; to++)
            ck_assert_int_eq(cost_message(&a, 12345, from, to, 1, 1).ns, cost_message(&b, 12345, from, to, 1, 1).ns);
    cluster_free(one);
    cluster_free(two);
}
END_TEST

static int64_t step_on(const struct cluster *cluster, struct program *program)
{
    struct facts facts = { .cluster = cluster };
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate(&timeline, &facts, program, &err), "%s", err.message);
    int64_t step_ns = timeline->step_ns;
    timeline_free(timeline);
    return step_ns;
}

/* Groups of two nodes of two, as many as the plan has stages and one more. */
static struct cluster *alternating(const struct device_numbers *even, const struct device_numbers *odd)
{
    const struct group_numbers groups[] = { { even, 1, 2 }, { odd, 1, 2 }, { even, 1, 2 }, { odd, 2, 2 } };
    return cluster_of(groups, 4);
}

START_TEST(twins_take_the_same_step)
{
    struct lowered l = lowered_program(&strategies[_i]);
    struct device_numbers twin = slow;
    twin.name = "twin";
    struct cluster *one = alternating(&slow, &slow), *two = alternating(&slow, &twin);
    ck_assert(one->group_count == 1 && two->group_count == 4);
    ck_assert_int_eq(step_on(one, l.program), step_on(two, l.program));
    cluster_free(one);
    cluster_free(two);
    lowered_free(&l);
}
END_TEST

/* ---- the slower decides, and only it ---- */

/* Simulated order is fixed, so that nothing that becomes faster can make the step longer. */
START_TEST(faster_types_never_make_a_step_longer)
{
    for (int turn = 0; turn < strategies[_i].stages; turn++) {
        struct lowered l = lowered_open(&strategies[_i]);
        struct error err = { 0 };
        turn_stages(l.plan, turn);
        ck_assert_msg(plan_check(l.plan, l.graph, &err) && lower_program(&l.program, l.graph, l.plan, &err), "%s",
                      err.message);
        struct device_numbers better[] = { slow, slow, slow, slow, slow };
        better[1].scale = 3;
        better[2].link_bytes_per_s *= 3;
        better[3].nic_bytes_per_s *= 3, better[3].nic_latency_ns /= 3;
        better[4].collective_launch_ns = 0, better[4].link_latency_ns = 0;
        struct cluster *all = alternating(&slow, &slow);
        int64_t slowest = step_on(all, l.program);
        for (int k = 0; k < 5; k++) {
            better[k].name = "better";
            struct cluster *some = alternating(&slow, &better[k]), *others = alternating(&better[k], &slow),
                           *every = alternating(&better[k], &better[k]);
            int64_t one = step_on(some, l.program), other = step_on(others, l.program),
                    best = step_on(every, l.program);
            ck_assert_msg(best <= one && best <= other && one <= slowest && other <= slowest,
                          "%s, turned by %d, change %d: %lld, %lld, %lld, %lld ns", strategies[_i].name, turn, k,
                          (long long)best, (long long)one, (long long)other, (long long)slowest);
            cluster_free(some);
            cluster_free(others);
            cluster_free(every);
        }
        cluster_free(all);
        lowered_free(&l);
    }
}
END_TEST

START_TEST(messages_take_the_slower_end)
{
    struct device_numbers fast = { "fast", 4, 0, 200, 50, 9000, 8e9, 4e8, INT64_C(8) << 30 };
    const struct group_numbers groups[] = { { &fast, 2, 4 }, { &slow, 2, 2 } };
    struct cluster *c = cluster_of(groups, 2);
    struct facts facts = { .cluster = c };
    /* the slow one's start and rate, the fast one's latency, which is longer; either way round */
    CHECK_NEAR((double)cost_message(&facts, 1000000, 0, 8, 1, 1).ns, 1000 + 9000 + 1e6 / 1e8 * 1e9, 1);
    ck_assert_int_eq(cost_message(&facts, 1000000, 8, 0, 1, 1).ns, cost_message(&facts, 1000000, 0, 8, 1, 1).ns);
    CHECK_NEAR((double)cost_message(&facts, 1000000, 0, 4, 1, 1).ns, 200 + 9000 + 1e6 / 4e8 * 1e9, 1); /* fast alone */
    CHECK_NEAR((double)cost_message(&facts, 1000000, 8, 10, 1, 1).ns, 1000 + 3000 + 1e6 / 1e8 * 1e9, 1);
    /* all twelve: 6 hops inside fast nodes, 2 inside slow ones, 1 between nodes of each type, 1 between the types; the
     * slow nodes' network has two links side by side, the fast ones' four */
    double hops = 6 * 50 + 2 * 500 + 9000 + 3000 + 9000, wire = 11.0 / 12 * 1200000;
    CHECK_NEAR((double)cost_collective(&facts, OP_ALL_GATHER, 1200000, 12, 0, 1, 1).ns,
               1000 + hops + wire / (2 * 1e8) * 1e9, 1);
    /* one of each node: nothing passes inside */
    CHECK_NEAR((double)cost_collective(&facts, OP_ALL_GATHER, 1200000, 2, 4, 4, 1).ns, 1000 + 9000 + 600000 / 1e8 * 1e9,
               1);
    /* everybody with everybody: a slow rank has 1 neighbour inside, 2 more of its type outside, 8 of the other */
    CHECK_NEAR((double)cost_collective(&facts, OP_ALL_TO_ALL, 1200000, 12, 0, 1, 1).ns,
               1000 + fmax(500 + 2 * 3000 + 8 * 9000 + wire * 10 / 11 / 1e8 * 1e9,
                           3 * 50 + 4 * 9000 + 4 * 9000 + wire * 8 / 11 / 4e8 * 1e9),
               2);
    cluster_free(c);
}
END_TEST

/* Parts of a group, counted one by one. */
START_TEST(parts_by_brute_force)
{
    struct device_numbers fast = slow;
    fast.name = "fast", fast.scale = 2;
    const struct group_numbers groups[] = { { &slow, 2, 3 }, { &fast, 1, 4 }, { &slow, 1, 3 }, { &fast, 2, 4 } };
    struct cluster *c = cluster_of(groups, 4);
    for (int stride = 1; stride <= 8; stride++)
        for (int first = 0; first < 21; first++)
            for (int ranks = 1; first + (ranks - 1) * stride < 21; ranks++) {
                struct group g = group_regular(c, ranks, first, stride, 1);
                int count[2] = { 0 }, units[2] = { 0 };
                bool seen[21] = { false };
                for (int i = 0; i < ranks; i++) {
                    int rank = first + i * stride, type = cluster_type(c, rank), node = cluster_unit_of(c, rank, 0);
                    count[type]++;
                    units[type] += !seen[node];
                    seen[node] = true;
                }
                ck_assert_int_eq(g.part_count, (count[0] > 0) + (count[1] > 0));
                ck_assert_int_eq(g.level, cluster_level(c, first, first + (ranks - 1) * stride));
                for (int i = 0; i < g.part_count; i++) {
                    ck_assert_int_eq(g.part[i].ranks, count[g.part[i].type]);
                    ck_assert_int_eq(g.part[i].units[0], units[g.part[i].type]);
                    ck_assert_int_eq(g.part[i].units[g.level], 1);
                }
            }
    cluster_free(c);
}
END_TEST

/* A stage across two types takes the time of the slower and the memory of the smaller; each rank alone its own. */
START_TEST(stages_across_types)
{
    struct device_numbers fast = slow;
    fast.name = "fast", fast.scale = 2, fast.memory_bytes /= 2;
    struct lowered l = lowered_program(&strategies[9]); /* four ranks in one stage */
    const struct group_numbers mixed[] = { { &slow, 1, 2 }, { &fast, 1, 2 } }, only_slow[] = { { &slow, 2, 2 } },
                               only_fast[] = { { &fast, 2, 2 } };
    struct cluster *c = cluster_of(mixed, 2), *s = cluster_of(only_slow, 1), *f = cluster_of(only_fast, 1);
    struct facts facts = { .cluster = c }, slow_facts = { .cluster = s }, fast_facts = { .cluster = f };
    bool differs = false;
    ck_assert_uint_eq(cost_stage_types(&facts, l.plan, 0), 3);
    for (int i = 0; i < l.program->stages[0].instr_count; i++) {
        const struct instr *instr = &l.program->stages[0].instrs[i];
        int64_t one = cost_instr_ns(&slow_facts, l.program, 0, instr),
                other = cost_instr_ns(&fast_facts, l.program, 0, instr);
        ck_assert_int_eq(cost_instr_ns(&facts, l.program, 0, instr), one > other ? one : other);
        if (instr->lane != LANE_COMPUTE)
            continue;
        differs = differs || one > other;
        ck_assert_int_eq(cost_instr_rank_ns(&facts, l.program, 0, instr, 1), one);
        ck_assert_int_eq(cost_instr_rank_ns(&facts, l.program, 0, instr, 2), other);
    }
    ck_assert(differs);
    ck_assert_int_eq(cost_stage_available_bytes(&facts, l.plan, 0), fast.memory_bytes);
    ck_assert_int_eq(cost_stage_available_bytes(&slow_facts, l.plan, 0), slow.memory_bytes);
    cluster_free(c);
    cluster_free(s);
    cluster_free(f);
    lowered_free(&l);
}
END_TEST

/* ---- closed form: two stages on two types ---- */

/* Nanoseconds of one micro-batch's forward or backward work on a stage. */
static int64_t stage_ns(const struct facts *facts, const struct program *program, int stage, bool forward)
{
    int64_t sum = 0;
    for (int i = 0; i < program->stages[stage].instr_count; i++) {
        const struct instr *instr = &program->stages[stage].instrs[i];
        bool first = instr->phase == PHASE_FORWARD && !instr->again;
        if (instr->lane == LANE_COMPUTE && instr->micro == 1 && instr->phase != PHASE_STEP && first == forward)
            sum += cost_instr_ns(facts, program, stage, instr);
    }
    return sum;
}

static int64_t update_ns(const struct facts *facts, const struct program *program, int stage)
{
    int64_t sum = 0;
    for (int i = 0; i < program->stages[stage].instr_count; i++) {
        const struct instr *instr = &program->stages[stage].instrs[i];
        if (instr->lane == LANE_COMPUTE && (instr->micro < 0 || instr->phase == PHASE_STEP))
            sum += cost_instr_ns(facts, program, stage, instr);
    }
    return sum;
}

/* GPipe without communication: forward fills and empties the pipeline at the pace of the slower stage, and so does
 * backward; the first stage ends last and updates. */
START_TEST(two_types_in_two_stages)
{
    static const struct strategy gpipe = {
        "gpipe", "tiny-llama", "gpipe", 2, { 1, 1 }, { "none", "none" }, 6, 0, 0, 1, 0, 0, 0
    };
    struct device_numbers still = slow, fast;
    still.collective_launch_ns = still.link_latency_ns = still.nic_latency_ns = 0;
    still.nic_bytes_per_s = still.link_bytes_per_s = 1e20;
    fast = still;
    fast.name = "fast", fast.scale = 2;
    const struct group_numbers fast_first[] = { { &fast, 1, 1 }, { &still, 1, 1 } },
                               slow_first[] = { { &still, 1, 1 }, { &fast, 1, 1 } }, both[] = { { &still, 2, 1 } };
    int64_t homogeneous[2][2];
    for (int turn = 0; turn < 3; turn++) {
        struct lowered l = lowered_open(&gpipe);
        struct error err = { 0 };
        turn_stages(l.plan, turn == 2);
        ck_assert_msg(plan_check(l.plan, l.graph, &err) && lower_program(&l.program, l.graph, l.plan, &err), "%s",
                      err.message);
        struct cluster *c = cluster_of(turn == 0 ? both : turn == 1 ? fast_first : slow_first, turn == 0 ? 1 : 2);
        struct facts facts = { .cluster = c };
        int64_t f[2], b[2], m = l.plan->micro_batch_count;
        for (int s = 0; s < 2; s++) {
            f[s] = stage_ns(&facts, l.program, s, true);
            b[s] = stage_ns(&facts, l.program, s, false);
            if (turn == 0)
                homogeneous[s][0] = f[s], homogeneous[s][1] = b[s];
        }
        if (turn > 0) { /* either way the first stage is on the fast one: twice as fast as it was */
            CHECK_NEAR((double)f[0], (double)homogeneous[0][0] / 2, 1e-3 * (double)f[0]);
            CHECK_NEAR((double)b[0], (double)homogeneous[0][1] / 2, 1e-3 * (double)b[0]);
            ck_assert_int_eq(f[1], homogeneous[1][0]);
            ck_assert_int_eq(b[1], homogeneous[1][1]);
        }
        int64_t want = f[0] + f[1] + b[0] + b[1] +
                       (m - 1) * ((f[0] > f[1] ? f[0] : f[1]) + (b[0] > b[1] ? b[0] : b[1])) +
                       update_ns(&facts, l.program, 0);
        CHECK_NEAR((double)step_on(c, l.program), (double)want, 0.01 * (double)want);
        cluster_free(c);
        lowered_free(&l);
    }
}
END_TEST

/* ---- profiles ---- */

static struct profile *measured_on(const char *device, int64_t ns, int64_t outside)
{
    char text[1024];
    struct profile *profile = NULL;
    struct error err = { 0 };
    snprintf(text, sizeof text,
             "{\"format\": \"cleave-profile\", \"version\": 1, \"dtype\": \"fp32\", \"device\": \"%s\", \"linear\": "
             "[{\"work\": \"zero\", \"loaded\": 1, \"fixed_ns\": %lld, \"ns_per_unit\": 0, \"min_units\": 1, "
             "\"max_units\": 1000000000000}], \"memory_outside_arena_bytes\": %lld, \"collectives\": [{\"op\": "
             "\"all-reduce\", \"ranks\": 2, \"concurrent\": 1, \"level\": 1, \"latency_ns\": %lld, \"bytes_per_s\": "
             "1e20}]}",
             device, (long long)ns, (long long)outside, (long long)ns);
    ck_assert_msg(profile_read(&profile, "p.json", text, strlen(text), &err), "%s", err.message);
    return profile;
}

START_TEST(profiles_speak_of_their_device)
{
    struct device_numbers fast = slow;
    fast.name = "fast", fast.scale = 2;
    const struct group_numbers groups[] = { { &slow, 2, 1 }, { &fast, 2, 1 } };
    struct cluster *c = cluster_of(groups, 2);
    struct profile *on_fast = measured_on("fast", 7000, 1 << 20), *on_slow = measured_on("slow", 99000, 2 << 20);
    struct facts facts = { .cluster = c, .profile = on_fast };
    struct error err = { 0 };
    ck_assert_msg(facts_check(&facts, &err), "%s", err.message);
    ck_assert_ptr_null(facts_profile(&facts, 0));
    ck_assert_ptr_eq(facts_profile(&facts, 1), on_fast);
    ck_assert_int_eq(cost_collective(&facts, OP_ALL_REDUCE, 1000, 2, 2, 1, 1).ns, 7000);
    ck_assert(cost_collective(&facts, OP_ALL_REDUCE, 1000, 2, 0, 1, 1).origin == ORIGIN_ANALYTIC);
    ck_assert(cost_collective(&facts, OP_ALL_REDUCE, 1000, 2, 1, 1, 1).origin == ORIGIN_ANALYTIC); /* one of each */
    on_fast->next = on_slow;
    ck_assert_ptr_eq(facts_profile(&facts, 0), on_slow);
    ck_assert_int_eq(cost_collective(&facts, OP_ALL_REDUCE, 1000, 2, 0, 1, 1).ns, 99000);
    ck_assert_int_eq(facts_available_bytes(&facts, 0), slow.memory_bytes - (2 << 20));
    ck_assert_int_eq(facts_available_bytes(&facts, 1), slow.memory_bytes - (1 << 20));
    profile_free(on_fast);
    profile_free(on_slow);
    cluster_free(c);
}
END_TEST

START_TEST(profiles_of_other_devices_are_refused)
{
    struct device_numbers fast = slow;
    fast.name = "fast", fast.scale = 2;
    const struct group_numbers groups[] = { { &slow, 2, 1 }, { &fast, 2, 1 } };
    struct cluster *two = cluster_of(groups, 2), *one = cluster_of(groups, 1);
    struct profile *other = measured_on("other", 1, 0), *nameless = measured_on("", 1, 0);
    struct facts facts = { .cluster = two, .profile = other };
    struct error err = { 0 };
    ck_assert(!facts_check(&facts, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "measured on device other, but cluster --cluster has slow, fast"));
    err = (struct error){ 0 };
    facts.cluster = one;
    ck_assert(!facts_check(&facts, &err));
    err = (struct error){ 0 };
    facts = (struct facts){ .cluster = two, .profile = nameless };
    ck_assert(!facts_check(&facts, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected \"device\""));
    err = (struct error){ 0 };
    facts.cluster = one; /* as profiles always were */
    ck_assert_msg(facts_check(&facts, &err), "%s", err.message);
    ck_assert_ptr_eq(facts_profile(&facts, 0), nameless);
    profile_free(other);
    profile_free(nameless);
    cluster_free(one);
    cluster_free(two);
}
END_TEST

static Suite *types_suite(void)
{
    Suite *suite = suite_create("types");
    TCase *tcase = tcase_create("types");
    tcase_add_test(tcase, twins_cost_what_one_type_costs);
    tcase_add_loop_test(tcase, twins_take_the_same_step, 0, PLAIN_COUNT);
    tcase_add_loop_test(tcase, faster_types_never_make_a_step_longer, 0, PLAIN_COUNT);
    tcase_add_test(tcase, messages_take_the_slower_end);
    tcase_add_test(tcase, parts_by_brute_force);
    tcase_add_test(tcase, stages_across_types);
    tcase_add_test(tcase, two_types_in_two_stages);
    tcase_add_test(tcase, profiles_speak_of_their_device);
    tcase_add_test(tcase, profiles_of_other_devices_are_refused);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(types_suite)
