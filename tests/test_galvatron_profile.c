/* A profile made of Galvatron's measurements says of whole layers and collectives what was measured. */
#include "planner/cost/cost_group.h"
#include "planner/lower/lower.h"
#include "planner/space/space.h"
#include "profiler/from_galvatron.h"
#include "tests/fact_files.h"
#include "tests/galvatron_files.h"
#include "tests/model_files.h"

struct made {
    struct arena arena;
    struct galvatron_profile peer;
    struct model *model;
    struct cluster *cluster;
    struct profile *profile;
};

static void make(struct made *m)
{
    struct error err = { 0 };
    *m = (struct made){ 0 };
    galvatron_open_profile(&m->peer, &m->arena);
    m->model = model_of_zoo("llama-2-7b");
    m->cluster = cluster_open("1x8:a100-sxm-80");
    ck_assert_msg(profile_from_galvatron(&m->profile, &m->peer, m->model, m->cluster, &err), "%s", err.message);
}

static void made_free(struct made *m)
{
    profile_free(m->profile);
    cluster_free(m->cluster);
    model_free(m->model);
    arena_free(&m->arena);
}

/* Milliseconds of the computations of a step of the whole model on one device, by whether the model repeats the layer
 * (32 blocks of two layers behind the embedding) and whether they are of the backward pass. */
static void add_up(const struct made *m, int64_t samples, double out[2][2])
{
    struct error err = { 0 };
    struct program *program = NULL;
    struct graph *graph = graph_of(m->model, samples, m->peer.sequence, 128);
    struct plan *plan = plan_new(1, graph->layer_count);
    struct facts facts = { .cluster = m->cluster, .profile = m->profile };
    plan->batch = samples, plan->sequence = m->peer.sequence, plan->vocab_multiple = 128, plan->dtype = DTYPE_BF16;
    plan->micro_batch_count = plan->atom_count = plan->rank_count = 1;
    plan->stages[0].layer_count = graph->layer_count;
    ck_assert_msg(plan_check(plan, graph, &err) && lower_program(&program, graph, plan, &err), "%s", err.message);
    for (int i = 0; i < program->stages[0].instr_count; i++) {
        const struct instr *instr = &program->stages[0].instrs[i];
        if (instr->op != OP_COMPUTE)
            continue;
        int layer = graph->segments[instr->segment].layer;
        struct cost cost = cost_instr(&facts, program, 0, instr);
        ck_assert_int_eq(cost.origin, ORIGIN_FITTED);
        ck_assert(!cost.extrapolated);
        out[layer >= 1 && layer <= 64][instr->phase != PHASE_FORWARD] += (double)cost.ns / 1e6;
    }
    program_free(program);
    plan_free(plan);
    graph_free(graph);
}

START_TEST(layers_take_what_was_measured)
{
    struct made m;
    make(&m);
    for (int i = 0; i < m.peer.layer.count; i += 5) {
        double ms[2][2] = { { 0 } }, layers = 32 * m.peer.layer.ms[i], others = m.peer.other.ms[i];
        add_up(&m, (int64_t)m.peer.layer.size[i], ms);
        CHECK_NEAR(ms[1][0], layers, 1e-5 * layers);
        CHECK_NEAR(ms[1][1], 2 * layers, 1e-5 * layers);
        CHECK_NEAR(ms[0][0], others, 1e-5 * others);
        CHECK_NEAR(ms[0][1], 2 * others, 1e-5 * others);
    }
    made_free(&m);
}
END_TEST

START_TEST(collectives_take_what_was_measured)
{
    struct made m;
    make(&m);
    struct facts facts = { .cluster = m.cluster, .profile = m.profile };
    const int64_t mb = 1 << 20;
    struct cost cost = cost_collective(&facts, OP_ALL_REDUCE, 128 * mb, 8, 0, 1, 1);
    CHECK_NEAR((double)cost.ns, 1.2826e6, 1);
    ck_assert_int_eq(cost.origin, ORIGIN_MEASURED);
    CHECK_NEAR((double)cost_collective(&facts, OP_ALL_TO_ALL, 16 * mb, 4, 0, 2, 2).ns, .1514e6, 1);
    cost = cost_collective(&facts, OP_ALL_GATHER, 128 * mb, 8, 0, 1, 1);
    CHECK_NEAR((double)cost.ns, 1.2826e6 / 2, 1);
    ck_assert_int_eq(cost.origin, ORIGIN_FITTED);
    CHECK_NEAR((double)cost_collective(&facts, OP_REDUCE_SCATTER, 64 * mb, 2, 0, 4, 4).ns, .3924e6 / 2, 1);
    CHECK_NEAR((double)cost_message(&facts, 1024 * mb, 0, 5, 1, 1).ns, 1024 / 163.671 * 1e6, 1);
    CHECK_NEAR(m.profile->compute_under_communication, 1.125552573612729, 0);
    ck_assert_int_eq(facts_available_bytes(&facts, 0),
                     m.cluster->types[0].device.memory_bytes - m.cluster->types[0].device.reserve_bytes);
    made_free(&m);
}
END_TEST

START_TEST(degrees_without_times_take_the_rate)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_profile peer;
    struct profile *profile = NULL;
    galvatron_open_profile(&peer, &arena);
    peer.allreduce[3].count = 0;
    struct model *model = model_of_zoo("llama-2-7b");
    struct cluster *cluster = cluster_open("1x8:a100-sxm-80");
    ck_assert_msg(profile_from_galvatron(&profile, &peer, model, cluster, &err), "%s", err.message);
    struct facts facts = { .cluster = cluster, .profile = profile };
    /* 2 (d - 1) / d of 512 MB at 154.203 GB/s, in Galvatron's units */
    CHECK_NEAR((double)cost_collective(&facts, OP_ALL_REDUCE, 512 << 20, 8, 0, 1, 1).ns, 1.75 * 512 / 154.203 * 1e6,
               1e-4 * 5.8e6);
    profile_free(profile);
    cluster_free(cluster);
    model_free(model);
    arena_free(&arena);
}
END_TEST

START_TEST(the_file_reads_back)
{
    struct made m;
    struct error err = { 0 };
    struct profile *again = NULL;
    size_t length;
    make(&m);
    char *text = profile_write(m.profile, &length);
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(profile_read(&again, "p.json", text, length, &err), "%s", err.message);
    ck_assert(again->hash == m.profile->hash && again->curve_count == m.profile->curve_count);
    profile_free(again);
    free(text);
    made_free(&m);
}
END_TEST

START_TEST(what_cannot_be_is_refused)
{
    struct made m;
    struct error err = { 0 };
    struct profile *profile = NULL;
    make(&m);
    struct cluster *old = cluster_open("1x8:v100-sxm2-16");
    ck_assert(!profile_from_galvatron(&profile, &m.peer, m.model, old, &err));
    ck_assert_str_eq(err.message, "galvatron: expected a device that computes in bf16, found v100-sxm2-16");
    err = (struct error){ 0 };
    m.peer.other.ms_per_unit = m.peer.other.fixed_ms = 0;
    m.peer.other.count = 0;
    ck_assert(!profile_from_galvatron(&profile, &m.peer, m.model, m.cluster, &err));
    ck_assert_str_eq(err.message, "galvatron: the measured embedding and head leave no time for the model's forward");
    cluster_free(old);
    made_free(&m);
}
END_TEST

static Suite *galvatron_profile(void)
{
    Suite *s = suite_create("galvatron_profile");
    CHECK_ADD(s, layers_take_what_was_measured);
    CHECK_ADD(s, collectives_take_what_was_measured);
    CHECK_ADD(s, degrees_without_times_take_the_rate);
    CHECK_ADD(s, the_file_reads_back);
    CHECK_ADD(s, what_cannot_be_is_refused);
    return s;
}

CHECK_MAIN(galvatron_profile)
