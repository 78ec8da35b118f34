/* Plans: questions about meshes and shapes, and what plan_check refuses. */
#include "tests/small_plans.h"
#include <limits.h>
#include <string.h>

START_TEST(mesh_questions)
{
    struct plan *plan = small_plan(8);
    ck_assert_int_eq(plan_stage_rank_count(plan, 0), 4);
    for (int r = 0; r < 8; r++)
        ck_assert_int_eq(plan_stage_of_rank(plan, r), r / 4);
    for (int l = 0; l < 7; l++)
        ck_assert_int_eq(plan_stage_of_layer(plan, l), l < 3 ? 0 : 1);
    for (int r = 0; r < 4; r++) { /* the last atom is the innermost */
        ck_assert_int_eq(plan_atom_coordinate(plan, 0, r, 0), r / 2);
        ck_assert_int_eq(plan_atom_coordinate(plan, 0, r, 1), r % 2);
        ck_assert_int_eq(plan_atom_coordinate(plan, 0, r, 2), 0);
    }
    struct plan *copy = plan_copy(plan);
    ck_assert(plan_hash(copy) == plan_hash(plan));
    copy->layers[6].slices = 2;
    ck_assert(plan_hash(copy) != plan_hash(plan));
    plan_free(copy);
    plan_free(plan);
}
END_TEST

static void expect_refusal(const struct plan *plan, const struct graph *graph, const char *part)
{
    struct error err = { 0 };
    ck_assert_msg(!plan_check(plan, graph, &err), "accepted, expected: %s", part);
    ck_assert_msg(strstr(err.message, part) != NULL, "message \"%s\" lacks \"%s\"", err.message, part);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
}

/* Which decision plan_check_at() names for a plan that it refuses. */
static void expect_key(struct plan *plan, const struct graph *graph, const char *key)
{
    const char *found = NULL;
    struct error err = { 0 };
    ck_assert(!plan_check_at(&found, plan, graph, &err));
    ck_assert_msg(strcmp(found, key) == 0, "%s is said to be about \"%s\", expected \"%s\"", err.message, found, key);
    plan_free(plan);
}

START_TEST(refusals_name_the_decision)
{
    struct graph *graph = small_graph(8, 4);
#define CONCERNS(change, key)                                                                                          \
    do {                                                                                                               \
        struct plan *bad = small_plan(8);                                                                              \
        bad->change;                                                                                                   \
        expect_key(bad, graph, key);                                                                                   \
    } while (0)
    CONCERNS(layer_count = 6, "layers");
    CONCERNS(stages[1].first_rank = 3, "stages");
    CONCERNS(layers[3].zero = 4, "layers");
    CONCERNS(micro_batch_count = 3, "batch");
    CONCERNS(schedule = schedule_find("interleaved"), "schedule");
    CONCERNS(schedule = schedule_find("pipedream"), "schedule");
    struct plan *clipped = small_plan(8);
    clipped->schedule = schedule_find("pipedream"), clipped->clip_norm = 1;
    expect_key(clipped, graph, "clip_norm");
    graph_free(graph);
}
END_TEST

START_TEST(check_refuses)
{
    struct graph *graph = small_graph(8, 4);
    struct plan *plan = small_plan(8);
    struct error err = { 0 };
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
#define REFUSED(field, value, part)                                                                                    \
    do {                                                                                                               \
        struct plan *bad = small_plan(8);                                                                              \
        bad->field = value;                                                                                            \
        expect_refusal(bad, graph, part);                                                                              \
        plan_free(bad);                                                                                                \
    } while (0)
    REFUSED(stages[1].first_layer, 2, "stage 1");
    REFUSED(stages[1].layer_count, 5, "stage 1");
    REFUSED(stages[1].layer_count, 3, "hold 6 layers");
    REFUSED(stages[0].layer_count, 0, "stage 0");
    REFUSED(stages[1].first_rank, 5, "stage 1: expected its ranks to begin at 0 to 4, found 5");
    REFUSED(stages[0].first_rank, -1, "stage 0: expected its ranks to begin at 0 to 4, found -1");
    REFUSED(stages[1].first_rank, 3, "stage 0: expected ranks of its own, found rank 0 on, which stage 1 has too");
    REFUSED(stages[1].first_rank, 0, "stage 0: expected ranks of its own");
    REFUSED(stages[0].atom[1], 0, "atom 1");
    REFUSED(stages[0].atom[2], 2, "atom 2");
    REFUSED(rank_count, 9, "8 ranks");
    REFUSED(atom_count, 0, "mesh atoms");
    REFUSED(micro_batch_count, 0, "micro-batch");
    REFUSED(micro_batch_count, PLAN_MAX_MICRO_BATCHES + 1, "larger micro-batches make fewer");
    REFUSED(extra_in_flight, -1, "extra_in_flight");
    REFUSED(extra_in_flight, INT_MAX, "extra_in_flight");
    REFUSED(bucket_bytes, -1, "bucket_bytes");
    REFUSED(prefetch, -1, "prefetch");
    REFUSED(prefetch, INT_MAX, "prefetch");
    REFUSED(clock, -1, "clock");
    REFUSED(clock, CLOCK_COUNT, "clock");
    REFUSED(loss_chunks, 0, "loss_chunks");
    REFUSED(loss_chunks, PLAN_MAX_LOSS_CHUNKS + 1, "loss_chunks");
    REFUSED(clip_norm, NAN, "clip_norm");
    REFUSED(schedule, 99, "schedule");
    REFUSED(dtype, DTYPE_COUNT, "dtype");
    REFUSED(layers[3].dim[0], DIM_COUNT, "layer 3");
    REFUSED(layers[3].dim[3], DIM_dp, "layer 3");
    REFUSED(layers[3].zero, 4, "zero");
    REFUSED(layers[3].recompute, -1, "recompute");
    REFUSED(layers[3].reshard, RESHARD_COUNT, "reshard");
    REFUSED(layers[3].slices, 0, "slices");
    REFUSED(batch, 16, "batch of 16");
    REFUSED(vocab_multiple, 128, "vocabulary");
    REFUSED(layer_count, 6, "6 layers");
    plan_free(plan);
    graph_free(graph);
}
END_TEST

START_TEST(check_names_the_nearest_batches)
{
    struct graph *graph = small_graph(20, 4), *tiny = small_graph(3, 4);
    struct plan *plan = small_plan(20);
    expect_refusal(plan, graph, "sizes are 16 and 24");
    plan->batch = 3;
    expect_refusal(plan, tiny, "size is 8");
    plan_free(plan);
    graph_free(graph);
    graph_free(tiny);
}
END_TEST

START_TEST(shapes_answer_questions)
{
    struct plan *plan = shaped_plan(&turning, "1f1b"); /* layers 0-2 on stages 0, 1, 2; 3-6 on 3, 4 */
    for (int s = 0; s < 5; s++) {
        ck_assert_int_eq(plan_stage_turns(plan, s), s < 3 ? 3 : 2);
        ck_assert_int_eq(plan_stage_of_rank(plan, s), s);
    }
    for (int l = 0; l < 7; l++) {
        ck_assert_int_eq(plan_stage_of_layer(plan, l), l < 3 ? 0 : 3);
        for (int micro = 0; micro < 6; micro++)
            ck_assert_int_eq(plan_stage_of_work(plan, l, micro), l < 3 ? micro % 3 : 3 + micro % 2);
    }
    ck_assert_int_eq(plan_stage_micro_batches(plan, 0), 2);
    ck_assert_int_eq(plan_stage_micro_batches(plan, 1), 1);
    ck_assert_int_eq(plan_stage_micro_batches(plan, 4), 2);
    plan_free(plan);
    plan = shaped_plan(&interleaving, "interleaved");
    for (int l = 0, last = 0; l < 7; l++) { /* 0, 1, 2, 3, 4, 5-6 */
        last = l < 6 ? l % 2 : 1;
        ck_assert_int_eq(plan_stage_of_layer(plan, l), last);
        ck_assert(plan_stage_holds(plan, last, l) && !plan_stage_holds(plan, 1 - last, l));
    }
    struct plan *copy = plan_copy(plan);
    ck_assert(plan_hash(copy) == plan_hash(plan));
    plan_set_chunk(copy, 0, 2, (struct layer_range){ 4, 2 });
    ck_assert(plan_hash(copy) != plan_hash(plan));
    plan_free(copy);
    plan_free(plan);
    plan = shaped_plan(&copied, "chimera"); /* 0, 1-2, 3-4, 5-6, and the other way round */
    ck_assert_int_eq(plan_copies(plan), 2);
    for (int l = 0; l < 7; l++)
        for (int micro = 0; micro < 4; micro++) {
            int first = (l + 1) / 2, here = micro % 2 ? 3 - first : first;
            ck_assert_int_eq(plan_stage_of_layer(plan, l), first);
            ck_assert_int_eq(plan_stage_of_work(plan, l, micro), here);
            for (int stage = 0; stage < 4; stage++)
                ck_assert_int_eq(plan_stage_holds(plan, stage, l), stage == first || stage == 3 - first);
        }
    plan_free(plan);
}
END_TEST

START_TEST(shapes_are_checked)
{
    struct graph *graph = small_graph(8, 4);
    struct error err = { 0 };
    struct plan *plan = shaped_plan(&turning, "1f1b");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 2;
    expect_refusal(plan, graph, "3 replicas take turns over 2 micro-batches; expected at most 2 turns");
    plan->micro_batch_count = 4;
    plan->stages[1].turn = 2;
    expect_refusal(plan, graph, "stage 1: expected replica 2");
    plan->stages[1].turn = 1;
    plan->stages[2].atom[0] = 2;
    expect_refusal(plan, graph, "stage 2: expected replica 2");
    plan->stages[2].atom[0] = 1;
    for (int s = 0; s < 5; s++) /* the second stage's replicas first: legal; a replica away from its like: not */
        plan->stages[s].first_rank = s < 3 ? s + 2 : s - 3;
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->stages[1].first_rank = 4, plan->stages[2].first_rank = 3;
    expect_refusal(plan, graph,
                   "stage 1: expected replica 1 to follow its like with equal layers and atoms, on the next ranks");
    plan->stages[0].turn = 1;
    expect_refusal(plan, graph, "stage 0: expected replica 1");
    plan_free(plan);
    plan = shaped_plan(&turning, "interleaved");
    expect_refusal(plan, graph, "interleave 1; give 2 or more");
    plan_free(plan);
    plan = shaped_plan(&interleaving, "interleaved");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 1;
    expect_refusal(plan, graph, "schedule interleaved: expected at least as many micro-batches as the 2 stages, found 1");
    plan->micro_batch_count = 4;
    plan->chunk_group = 3;
    expect_refusal(plan, graph, "groups of 3 micro-batches: schedule interleaved takes 2 to 4 of 4");
    plan->chunk_group = 4;
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->chunk_group = 0;
    plan->schedule = schedule_find("1f1b");
    expect_refusal(plan, graph, "one chunk per stage, found interleave 3");
    plan_set_chunk(plan, 1, 1, (struct layer_range){ 4, 1 });
    expect_refusal(plan, graph, "stage 1: expected chunk 1 of it to begin at layer 3");
    plan_free(plan);
    plan = shaped_plan(&folded, "zb-v"); /* its passes have an order of their own */
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->chunk_group = 2;
    expect_refusal(plan, graph, "groups of 2 micro-batches: schedule zb-v takes none; interleaved takes 2 to 4 of 4");
    plan_free(plan);
    graph_free(graph);
}
END_TEST

/* Both copies are cut alike and lie on equal meshes. */
START_TEST(copies_are_checked)
{
    struct graph *graph = small_graph(8, 4);
    struct error err = { 0 };
    struct plan *plan = shaped_plan(&copied, "chimera");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 2;
    expect_refusal(plan, graph, "multiple of the 4 stages, found 2");
    plan->schedule = schedule_find("dualpipe");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 1;
    expect_refusal(plan, graph, "multiple of the 2 copies of the model, found 1");
    plan->micro_batch_count = 4;
    plan->extra_in_flight = 1;
    expect_refusal(plan, graph, "knows no extra_in_flight");
    plan->extra_in_flight = 0;
    plan_set_chunk(plan, 3, 1, (struct layer_range){ 0, 2 });
    plan_set_chunk(plan, 2, 1, (struct layer_range){ 2, 1 });
    expect_refusal(plan, graph, "stage 3: schedule dualpipe runs on it what stage 0 runs: expected equal layers");
    plan_set_chunk(plan, 3, 1, (struct layer_range){ 0, 1 });
    plan_set_chunk(plan, 2, 1, (struct layer_range){ 1, 2 });
    plan_set_chunk(plan, 0, 1, (struct layer_range){ 5, 1 });
    expect_refusal(plan, graph, "the stages hold 6 layers, but there are 7");
    plan_free(plan);
    struct shape odd = copied;
    odd.stages = 3;
    plan = shaped_plan(&odd, "dualpipe");
    expect_refusal(plan, graph, "even number of stages of 2 chunks each, found 3 of 2");
    plan_free(plan);
    graph_free(graph);
}
END_TEST

static Suite *plan_suite(void)
{
    Suite *suite = suite_create("plan");
    CHECK_ADD(suite, mesh_questions);
    CHECK_ADD(suite, check_refuses);
    CHECK_ADD(suite, refusals_name_the_decision);
    CHECK_ADD(suite, check_names_the_nearest_batches);
    CHECK_ADD(suite, shapes_answer_questions);
    CHECK_ADD(suite, shapes_are_checked);
    CHECK_ADD(suite, copies_are_checked);
    return suite;
}

CHECK_MAIN(plan_suite)
