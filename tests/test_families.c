/* Of every family of configurations (stages, tensor degree) the search knows the best, not the first. */
#include "models/model.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include "tests/toy_world.h"
#include <string.h>

/* Two nodes of four, a slow shared network, and memory that not every configuration fits: of the family that wins,
 * those that do not fit, or that differ in trifles, have the lowest first bounds. */
static struct world tight_world(void)
{
    static const char model[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"wide\", \"sequence\": 64, \"hidden\": 512, "
        "\"vocab_size\": 1024, \"tied_embedding\": false, \"layers\": [{\"kind\": \"embedding\", "
        "\"learned_positions\": 64}, {\"kind\": \"attention\", \"heads\": 8, \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"mlp\", \"inner\": 2048, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}";
    static const char cluster[] =
        "{\"format\": \"cleave-cluster\", \"version\": 1, \"name\": \"slow\", \"device\": {\"name\": \"slow\", "
        "\"description\": \"slow\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"fp32\": 5.3333e9}, "
        "\"matmul_efficiency\": 0.8, \"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.4, "
        "\"matmul_tile\": 16, \"compute_units\": 1, \"vector_flops_per_s\": 6.6667e8, \"memory_bytes_per_s\": "
        "6.6667e8, \"memory_efficiency\": 0.8, \"memory_bytes\": 27262976, \"reserve_bytes\": 0, \"launch_ns\": "
        "3000000, \"collective_launch_ns\": 3000000, \"devices_per_node\": 4, \"link_bytes_per_s\": 8e7, "
        "\"link_latency_ns\": 200000, \"nic_bytes_per_s\": 6e7, \"nic_latency_ns\": 500000, \"nic_shared\": true}, "
        "\"levels\": [{\"name\": \"node\", \"fanout\": 4, \"bytes_per_s\": 8e7, \"efficiency\": 0.9, \"latency_ns\": "
        "300000}, {\"name\": \"cluster\", \"fanout\": 2, \"bytes_per_s\": 1.33333e7, \"efficiency\": 0.9, "
        "\"latency_ns\": 750000, \"shared\": true}]}";
    struct world world = { 0 };
    struct error err = { 0 };
    ck_assert_msg(model_read(&world.model, "wide", model, strlen(model), NULL, &err) &&
                      cluster_read(&world.cluster, "slow", cluster, strlen(cluster), NULL, 0, &err),
                  "%s", err.message);
    world.facts = (struct facts){ .cluster = world.cluster };
    return world;
}

/* A restricted search, which solves and simulates more of what it is left, is at most 2 % better. Without clipping and
 * with it. */
START_TEST(families_are_known_by_their_best)
{
    if (!in_share((uint64_t)_i))
        return;
    struct world world = tight_world();
    struct search_options options = { .space = space_default(16, 0, DTYPE_FP32), .top = 1, .no_advice = true };
    options.space.clip_norm = _i;
    options.space.shard_group = (struct allowed){ 3, { 0, 2, 4 } };
    options.space.recompute = (struct allowed){ 3, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL } };
    struct search_result *whole = run_search(&world, &options);
    ck_assert(whole->feasible);
    int64_t found_ns = whole->plans[0].estimate->prediction.step_ns;
    for (int i = 0; i < 8; i += small_share() ? 2 : 1) { /* all of 1, 2, 4 but 4 by 4, which are too many devices */
        int stages = 1 << i / 3, tensor = 1 << i % 3;
        options.space.stages = (struct allowed){ 1, { stages } };
        options.space.tensor = (struct allowed){ 1, { tensor } };
        struct search_result *part = run_search(&world, &options);
        int64_t step_ns = part->feasible ? part->plans[0].estimate->prediction.step_ns : INT64_MAX / 2;
        ck_assert_msg(found_ns <= step_ns + step_ns / 50, "%d stages, %d tensor-parallel: %lld ns, all: %lld ns",
                      stages, tensor, (long long)step_ns, (long long)found_ns);
        search_result_free(part);
    }
    search_result_free(whole);
    world_close(&world);
}
END_TEST

static Suite *families_suite(void)
{
    Suite *suite = suite_create("families");
    CHECK_ADD_LOOP(suite, families_are_known_by_their_best, 2);
    return suite;
}

CHECK_MAIN(families_suite)
