/* Prices: that a resized program gives what lowering gives, over the zoo. */
#include "planner/tables/least.h"
#include "planner/estimate/assemble.h"
#include "planner/space/config_name.h"
#include "planner/estimate/estimate.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/price/sample_parts.h"
#include "planner/sim/simulate.h"
#include "tests/check.h"
#include "tests/price_world.h"
#include "tests/simulated_step.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct field {
    const char *name;
    size_t offset;
} fields[] = {
    { "forward", offsetof(struct layer_price, forward_ns) },
    { "backward", offsetof(struct layer_price, backward_ns) },
    { "wait", offsetof(struct layer_price, wait_ns) },
    { "gather forward", offsetof(struct layer_price, gather_forward_ns) },
    { "gather backward", offsetof(struct layer_price, gather_backward_ns) },
    { "gather once", offsetof(struct layer_price, gather_once_ns) },
    { "rest of forward", offsetof(struct layer_price, rest_forward_ns) },
    { "rest of backward", offsetof(struct layer_price, rest_backward_ns) },
    { "reduce", offsetof(struct layer_price, reduce_ns) },
    { "reduce last", offsetof(struct layer_price, reduce_last_ns) },
    { "step", offsetof(struct layer_price, step_ns) },
    { "first gradient", offsetof(struct layer_price, gradient_ns) },
    { "longest reduction", offsetof(struct layer_price, reduce_tail_ns) },
    { "weights", offsetof(struct layer_price, weight_bytes) },
    { "tied", offsetof(struct layer_price, tied_bytes) },
    { "tied gradient", offsetof(struct layer_price, tied_gradient_bytes) },
    { "tied gather forward", offsetof(struct layer_price, tied_gather_forward_ns) },
    { "tied gather backward", offsetof(struct layer_price, tied_gather_backward_ns) },
    { "tied gather once", offsetof(struct layer_price, tied_gather_once_ns) },
    { "tied reduce", offsetof(struct layer_price, tied_reduce_ns) },
    { "saved", offsetof(struct layer_price, saved_bytes) },
    { "freed", offsetof(struct layer_price, freed_bytes) },
    { "transient", offsetof(struct layer_price, transient_bytes) },
};
enum { FIELDS = sizeof fields / sizeof *fields };

static int64_t field_of(const struct layer_price *price, int field)
{
    return *(const int64_t *)(const void *)((const char *)price + fields[field].offset);
}

static void same_tables(const struct price_table *a, const struct price_table *b, const char *what)
{
    ck_assert_int_eq(a->strategy_count, b->strategy_count);
    for (int c = 0; c < a->class_count; c++)
        for (int i = 0; i < a->strategy_count; i++)
            for (int f = 0; f < FIELDS; f++) {
                int64_t x = field_of(price_at(a, c, i), f), y = field_of(price_at(b, c, i), f);
                ck_assert_msg(x == y, "%s, class %d, strategy %d: %s %lld, lowered anew %lld", what, c, i,
                              fields[f].name, (long long)x, (long long)y);
            }
    ck_assert_msg(a->send_ns == b->send_ns && a->base_bytes == b->base_bytes, "%s: send or workspace", what);
}

/* The pieces of several threads, the last first. */
static void backwards(void *self, int count, void (*body)(void *context, int index), void *context)
{
    (void)self;
    for (int i = count - 1; i >= 0; i--)
        body(context, i);
}

/* Prices what the next configurations ask for at once. */
static int price_next(struct workbench *bench, const struct world *w, int first, int stride)
{
    struct ahead ahead;
    ck_assert(ahead_open(&ahead, bench));
    for (int i = first; i < w->config_count && i < first + 8 * stride; i += stride) {
        ahead_table(&ahead, &w->configs[i], i % 3 == 0);
        least_ahead(&ahead, &w->configs[i]);
    }
    int count = ahead.count;
    ahead_price(&ahead);
    return count;
}

/* Every few configurations, of shares half as many, priced by one book that grows, by a book of their own, and by one
 * that has little room and is asked ahead. */
START_TEST(resized_programs_price_like_lowered_ones)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct workbench cramped;
    struct error err = { 0 };
    int compared = 0, ahead = 0;
    if (in->stride == 1) /* how many chunks there are depends on the sizes */
        w.space.loss_chunks = (struct allowed){ 2, { 1, 6 } };
    world_start(&w);
    ck_assert(workbench_open(&cramped, w.model, &w.facts, &w.space, &err));
    cramped.book.sample_room_bytes = 1 << 20; /* of a few samples, so that the others go again and again */
    cramped.book.workers = (struct workers){ .each = backwards, .threads = 3 };
    const int stride = in->stride * (share_stride() > 1 ? 2 : 1);
    for (int i = 0; i < w.config_count; i += stride) {
        if (i % (8 * stride) == 0)
            ahead += price_next(&cramped, &w, i, stride);
        const struct price_table *kept = NULL, *fresh = NULL, *again = NULL;
        struct workbench alone;
        char what[200];
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &kept, &err), "%s", err.message);
        ck_assert(workbench_open(&alone, w.model, &w.facts, &w.space, &err));
        ck_assert_msg(workbench_table(&alone, &w.configs[i], false, &fresh, &err), "%s", err.message);
        ck_assert_int_eq(kept == NULL, fresh == NULL);
        snprintf(what, sizeof what, "%s, tp %d, dp %d, micro %lld", in->model, config_tensor(&w.configs[i]),
                 config_data(&w.configs[i]), (long long)w.configs[i].micro);
        ck_assert_msg(workbench_table(&cramped, &w.configs[i], false, &again, &err), "%s", err.message);
        ck_assert_int_eq(kept == NULL, again == NULL);
        if (kept) {
            same_tables(kept, fresh, what);
            same_tables(kept, again, what);
        }
        compared += kept != NULL;
        workbench_close(&alone);
    }
    ck_assert(compared > 3 && ahead > 0);
    workbench_close(&cramped);
    world_close(&w);
}
END_TEST

/* One micro-batch of twice the sequences, as bounds of ranks that share nothing have it, has the batch of two. */
static int compare_bound(const struct world *w, const struct config *config)
{
    const struct price_table *table = NULL, *known = NULL, *fresh = NULL;
    struct config twice = *config;
    struct workbench bench, alone;
    struct error err = { 0 };
    twice.micro *= 2;
    ck_assert(workbench_open(&bench, w->model, &w->facts, &w->space, &err));
    ck_assert(workbench_open(&alone, w->model, &w->facts, &w->space, &err));
    ck_assert_msg(workbench_table(&bench, config, false, &table, &err), "%s", err.message);
    ck_assert_msg(workbench_table(&bench, &twice, true, &known, &err), "%s", err.message);
    ck_assert_msg(workbench_table(&alone, &twice, true, &fresh, &err), "%s", err.message);
    ck_assert_int_eq(known == NULL, fresh == NULL);
    if (known)
        same_tables(known, fresh, w->model->name);
    workbench_close(&bench);
    workbench_close(&alone);
    return known != NULL;
}

START_TEST(bounds_have_kernels_of_their_own)
{
    int compared = 0;
    for (int n = 0; n < INSTANCES; n++) {
        struct world w = instance_open(&instances[n]);
        int i = 0;
        world_start(&w);
        while (i < w.config_count && (mesh_data(&w.configs[i].mesh) > 1 || w.configs[i].meshes > 0))
            i++;
        compared += i < w.config_count ? compare_bound(&w, &w.configs[i]) : 0;
        world_close(&w);
    }
    ck_assert_int_gt(compared, 3);
}
END_TEST

/* What one kernel costs is what all that are taken to be like it do: prices are the same where each is priced by
 * itself. */
static int compare_alike(struct world *w, const struct price_key *key, const struct strategy *strategy)
{
    struct arena scratch = { 0 };
    struct price_table table;
    struct error err = { 0 };
    ck_assert_msg(price_layers(&table, &scratch, &w->bench.book, key, strategy, 1, &err), "%s", err.message);
    const struct sample_place *place = w->bench.book.places;
    while (place->used < w->bench.book.uses) /* the last asked for */
        place = place->next;
    struct sample *sample = place->sample;
    size_t bytes = (size_t)sample->graph->layer_count * sizeof *sample->by_layer;
    int64_t workspace_bytes = 0;
    int shared = 0;
    struct layer_price *together = arena_alloc(&scratch, bytes, 1);
    ck_assert_ptr_nonnull(together);
    memcpy(together, sample_prices(sample, &w->facts, w->bench.book.kernels[0], 0, true, SAMPLE_WHOLE, &workspace_bytes),
           bytes);
    for (int k = 0; k < sample->list_count; k++) {
        int i = sample->listed[k];
        shared += sample->like[i] != i;
        sample->like[i] = i;
    }
    const struct layer_price *apart = sample_prices(sample, &w->facts, NULL, 0, true, SAMPLE_WHOLE, &workspace_bytes);
    ck_assert_msg(memcmp(together, apart, bytes) == 0,
                  "zero %d, slices %d, recompute %d: another price for kernels that are alike", strategy->layer.zero,
                  strategy->layer.slices, strategy->layer.recompute);
    ck_assert(sample_list_alike(sample));
    arena_free(&scratch);
    return shared;
}

START_TEST(kernels_that_are_alike_cost_the_same)
{
    const struct instance *in = &instances[_i];
    if (!in_share((uint64_t)_i))
        return;
    struct world w = instance_open(in);
    struct error err = { 0 };
    int shared = 0;
    world_start(&w);
    for (int i = 0; i < w.config_count; i += in->stride) {
        const struct price_table *table = NULL;
        struct price_key key = workbench_key(&w.bench, &w.configs[i], 0, false);
        key.bound_only = true; /* no sends */
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &table, &err), "%s", err.message);
        for (int k = 0; table && k < table->strategy_count; k++)
            shared += compare_alike(&w, &key, &table->strategies[k]);
    }
    ck_assert_int_gt(shared, 0);
    world_close(&w);
}
END_TEST

/* A plan whose atoms were joined is the same plan: same step, same bytes. */
START_TEST(joined_atoms_make_the_same_plan)
{
    struct world w = world_open("tiny-llama", "2x4:a100-sxm-80", 16);
    struct error err = { 0 };
    int joined = 0;
    free_choices(&w.space);
    world_start(&w);
    for (int i = 0; i < w.config_count; i += 17) {
        struct plan *plan = assemble_config(&w.space, &w.configs[i], w.bench.graph);
        struct graph *graph = graph_of(w.model, plan->batch, plan->sequence, plan->vocab_multiple);
        struct estimate *before = NULL, *after = NULL;
        int atoms = plan->atom_count, count = space_strategies(&w.space, &w.configs[i].mesh, NULL);
        struct strategy *strategies = calloc((size_t)count, sizeof *strategies);
        space_strategies(&w.space, &w.configs[i].mesh, strategies);
        for (int l = 0; l < plan->layer_count; l++)
            plan->layers[l] = strategies[i / 17 * 7 % count].layer;
        ck_assert_msg(estimate_plan(&before, graph, plan, &w.facts, &err), "%s", err.message);
        plan_join_atoms(plan);
        joined += plan->atom_count < atoms;
        ck_assert_msg(plan_check(plan, graph, &err) && estimate_plan(&after, graph, plan, &w.facts, &err), "%s",
                      err.message);
        ck_assert_int_eq(before->prediction.step_ns, after->prediction.step_ns);
        for (int k = 0; k < plan->stage_count; k++)
            ck_assert_int_eq(before->prediction.peak_bytes[k], after->prediction.peak_bytes[k]);
        estimate_free(before);
        estimate_free(after);
        free(strategies);
        graph_free(graph);
        plan_free(plan);
    }
    ck_assert_int_gt(joined, 3);
    world_close(&w);
}
END_TEST

/* ---- gathered weights that stay ---- */

static int64_t whole_weight_bytes(const struct graph *graph, int class_index, enum dtype dtype)
{
    int64_t elements = 0;
    int layer = 0;
    while (graph->layers[layer].class_index != class_index)
        layer++;
    for (int i = 0; i < graph->layers[layer].segment_count; i++) {
        const struct segment *segment = &graph->segments[graph->layers[layer].first_segment + i];
        for (int k = 0; k < segment->weight_count; k++)
            elements += weight_elements(&graph->weights[segment->weight[k].id]);
    }
    return elements * weight_bytes_per_element(dtype);
}

/* Once a step in place of once for each forward pass and again backward, and whole beside the shard; no weight of the
 * model is used by two layers. With prefetch 0 the step is longer by as much. */
START_TEST(kept_weights_are_gathered_once)
{
    struct world w = world_open("llama-2-7b", "2x4:a100-sxm-80", 32);
    struct error err = { 0 };
    int compared = 0;
    w.space.zero = (struct allowed){ 1, { 3 } };
    w.space.reshard.count = 0;
    w.space.recompute = w.space.tensor = w.space.stages = (struct allowed){ 1, { 1 } };
    world_start(&w);
    for (int i = 0; i < w.config_count; i++) {
        const struct price_table *table = NULL;
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &table, &err) && table, "%s", err.message);
        ck_assert_int_eq(table->strategy_count, RESHARD_COUNT);
        for (int c = 0; c < table->class_count; c++) {
            const struct layer_price *each = price_at(table, c, RESHARD_EACH_PASS),
                                     *kept = price_at(table, c, RESHARD_EACH_STEP);
            bool ahead = w.configs[i].prefetch > 0;
            int64_t once = ahead ? kept->gather_once_ns : kept->step_ns - each->step_ns;
            ck_assert_int_eq(once, ahead ? each->gather_forward_ns : each->forward_ns - kept->forward_ns);
            ck_assert_int_eq(kept->gather_forward_ns + kept->gather_backward_ns, 0);
            ck_assert_int_eq(kept->reduce_ns, each->reduce_ns);
            ck_assert_int_eq(kept->weight_bytes - each->weight_bytes,
                             whole_weight_bytes(w.bench.graph, c, w.space.dtype));
            compared += once > 0;
        }
    }
    ck_assert_int_gt(compared, 8);
    world_close(&w);
}
END_TEST

/* Of three stages of four ranks on nodes of six the second lies on both nodes, and its collectives go between them. */
START_TEST(stages_across_nodes_have_prices_of_their_own)
{
    struct world w = world_open("gpt2", "2x6:a100-sxm-80", 12);
    struct error err = { 0 };
    int compared = 0;
    w.space.tensor = (struct allowed){ 1, { 4 } };
    w.space.stages = (struct allowed){ 1, { 3 } };
    world_start(&w);
    for (int i = 0; i < w.config_count; i++) {
        const struct price_table *table = NULL, *bound = NULL;
        if (config_pieces(&w.configs[i]) != 3)
            continue;
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &table, &err) &&
                          workbench_table(&w.bench, &w.configs[i], true, &bound, &err) && table && bound,
                      "%s", err.message);
        ck_assert(price_is_by_stage(table) && !price_is_by_stage(bound));
        const struct price_table *first = price_of_stage(table, 0), *second = price_of_stage(table, 1);
        same_tables(first, price_of_stage(table, 2), "the first and the last stage");
        for (int c = 0; c < table->class_count; c++)
            for (int k = 0; k < table->strategy_count; k++) {
                int64_t here = price_at(first, c, k)->forward_ns, across = price_at(second, c, k)->forward_ns;
                ck_assert_int_eq(price_at(table, c, k)->forward_ns, here < across ? here : across);
                ck_assert_int_ge(across, here);
                compared += across > 2 * here;
            }
    }
    ck_assert_int_gt(compared, 8);
    world_close(&w);
}
END_TEST

/* Where an embedding is split by vocabulary, the first layer behind it adds up what that leaves; others have none of it
 * to keep. */
START_TEST(each_layer_keeps_its_own_value)
{
    struct world w = world_open("llama-2-7b", "1x4:a100-sxm-80", 32);
    struct error err = { 0 };
    w.space.recompute = (struct allowed){ 1, { RECOMPUTE_FULL } };
    w.space.tensor = (struct allowed){ 1, { 4 } };
    w.space.stages = (struct allowed){ 1, { 1 } };
    world_start(&w);
    ck_assert_int_gt(w.config_count, 0);
    for (int i = 0; i < w.config_count; i++) {
        const struct price_table *table = NULL;
        int parts = mesh_sequence_parallel(&w.configs[i].mesh) ? 4 : 1;
        int64_t value_bytes = w.configs[i].micro * w.bench.graph->sequence * 4096 * 2 / parts;
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &table, &err) && table, "%s", err.message);
        for (int c = 1; c + 2 < table->class_count; c++) /* halves of a block, without head and loss */
            for (int k = 0; k < table->strategy_count; k++)
                ck_assert_int_le(price_at(table, c, k)->saved_bytes, value_bytes);
    }
    world_close(&w);
}
END_TEST

/* ---- memory: what prices promise, against the layout of a plan in which every layer decides so ---- */

/* Of one stage with one micro-batch in flight. */
static int64_t promised_bytes(const struct workbench *bench, const struct price_table *table, int strategy)
{
    int64_t sum = table->base_bytes, transient = 0;
    for (int l = 0; l < bench->chain.layer_count; l++) {
        const struct layer_price *p = price_at(table, bench->chain.class_of[l], strategy);
        sum += p->weight_bytes + p->saved_bytes - p->freed_bytes;
        transient = p->transient_bytes > transient ? p->transient_bytes : transient;
    }
    return sum + transient;
}

static int64_t stage_arena_bytes(const struct world *w, const struct config *config, const struct strategy *strategy)
{
    struct error err = { 0 };
    struct program *program = NULL;
    struct plan *plan = assemble_config(&w->space, config, w->bench.graph);
    struct graph *graph = graph_of(w->model, plan->batch, plan->sequence, plan->vocab_multiple);
    for (int l = 0; l < plan->layer_count; l++)
        plan->layers[l] = strategy->layer;
    ck_assert_msg(plan_check(plan, graph, &err) && lower_program(&program, graph, plan, &err) &&
                      layout_program(program, &err),
                  "%s", err.message);
    int64_t bytes = program->stages[0].arena_bytes;
    program_free(program);
    plan_free(plan);
    graph_free(graph);
    return bytes;
}

/* A search that promised less than a plan needs would have its plans refused by the layout. Small models: what is
 * rounded up to cache lines counts there, and the ends of the chain. */
START_TEST(layouts_keep_what_prices_promise)
{
    static const char *const models[] = { "gpt2", "tiny-llama", "tiny-gpt" };
    double least = 10, most = 0;
    struct world w = world_open(models[_i], "2x4:a100-sxm-80", 32);
    struct error err = { 0 };
    free_choices(&w.space);
    w.model->keeping.state_takes_gradients = true;
    if (_i == 0) { /* what is fetched, and gradients beside chunks, pack worse where a layer has few buffers, so not
                    * with all of it recomputed */
        w.space.offload = (struct allowed){ 4, { OFFLOAD_NONE, OFFLOAD_BOTH, OFFLOAD_PARAMETERS, OFFLOAD_ALL } };
        w.space.loss_chunks = (struct allowed){ 2, { 1, 4 } };
        w.space.recompute = (struct allowed){ 2, { RECOMPUTE_NONE, RECOMPUTE_SELECTIVE } };
    }
    w.space.stages = (struct allowed){ 1, { 1 } };
    w.space.micro = (struct allowed){ 1, { 2 } };
    world_start(&w);
    for (int i = 0; i < w.config_count; i += (_i == 0 ? 7 : 3) * share_stride()) {
        const struct price_table *table = NULL;
        ck_assert_msg(workbench_table(&w.bench, &w.configs[i], false, &table, &err), "%s", err.message);
        for (int s = i % 5; table && s < table->strategy_count; s += 5) {
            int64_t promised = promised_bytes(&w.bench, table, s);
            int64_t arena = stage_arena_bytes(&w, &w.configs[i], &table->strategies[s]);
            double share = (double)promised / (double)arena;
            const struct plan_layer *layer = &table->strategies[s].layer;
            least = share < least ? share : least;
            most = share > most ? share : most;
            /* where weights lie on the host little is left, and what a bucket of gradients holds is more of it */
            ck_assert_msg(share >= (layer->offload >= OFFLOAD_PARAMETERS ? 0.85 : 0.93) && share < 1.35,
                          "%s, tp %d cp %d dp %d, zero %d recompute %d offload %d reshard %d slices %d loss in %d: "
                          "promised %lld, arena %lld",
                          models[_i], config_tensor(&w.configs[i]),
                          mesh_ranks(&w.configs[i].mesh) / (config_tensor(&w.configs[i]) * config_data(&w.configs[i])),
                          config_data(&w.configs[i]), layer->zero, layer->recompute, layer->offload, layer->reshard,
                          layer->slices, w.configs[i].loss_chunks, (long long)promised, (long long)arena);
        }
    }
    printf("%s: promised over arena %.3f to %.3f\n", models[_i], least, most);
    world_close(&w);
}
END_TEST

static Suite *price_suite(void)
{
    Suite *suite = suite_create("price");
    TCase *tcase = tcase_create("zoo");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, resized_programs_price_like_lowered_ones, 0, INSTANCES);
    tcase_add_loop_test(tcase, kernels_that_are_alike_cost_the_same, 0, INSTANCES);
    tcase_add_test(tcase, joined_atoms_make_the_same_plan);
    tcase_add_loop_test(tcase, layouts_keep_what_prices_promise, 0, 3);
    suite_add_tcase(suite, tcase);
    CHECK_ADD(suite, bounds_have_kernels_of_their_own);
    CHECK_ADD(suite, kept_weights_are_gathered_once);
    CHECK_ADD(suite, stages_across_nodes_have_prices_of_their_own);
    CHECK_ADD(suite, each_layer_keeps_its_own_value);
    return suite;
}

CHECK_MAIN(price_suite)
