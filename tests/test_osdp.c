/* OSDP's problem (Jiang et al. 2023, "OSDP: Optimal Sharded Data Parallel") is a restriction of ours: data parallel
 * only, each operator replicated or sharded (those of a layer alike or apart), a sharded one perhaps in slices of which
 * one is gathered at a time. Its cost of an operator with S bytes of weights on N ranks, latency a and rate B per step
 * of a ring, is
 *
 *   replicated  2 (N - 1) (a + S / (N B))      sharded  3 (N - 1) (a + S / (N B))
 *
 * (two thirds of the latter where backward does not need the weight: ours does not gather it again)
 * and the sum of these is minimised (computing takes the same time either way) while states, activations and the
 * largest gathered slice fit. Here that is priced by ours, and its optimum by enumeration is that of our search. The
 * device computes in no time, so that nothing hides and steps are sums as OSDP has them. */
#include "models/model.h"
#include "planner/search/batch.h"
#include "planner/tables/workbench.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

enum { RANKS = 4, LAYERS = 6, LATENCY_NS = 2000, BYTES_PER_S = 1000000000 };

struct osdp {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct search_options options;
};

static struct model *open_model(void)
{
    static const char text[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"toy\", \"sequence\": 16, \"hidden\": 64, "
        "\"vocab_size\": 512, \"layers\": [{\"kind\": \"embedding\"}, "
        "{\"kind\": \"mlp\", \"inner\": 256, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"mlp\", \"inner\": 768, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"mlp\", \"inner\": 512, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}";
    struct model *model = NULL;
    struct error err = { 0 };
    ck_assert_msg(model_read(&model, "toy", text, sizeof text - 1, NULL, &err), "%s", err.message);
    return model;
}

static void osdp_open(struct osdp *o, int64_t batch, int64_t memory_bytes)
{
    char device[1024];
    static const char form[] = "1x4:toy";
    struct error err = { 0 };
    int length = snprintf(device, sizeof device,
                          "{\"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"fp32\": "
                          "1e24}, \"matmul_efficiency\": 1, \"attention_forward_efficiency\": 1, "
                          "\"attention_backward_efficiency\": 1, \"vector_flops_per_s\": 1e24, "
                          "\"memory_bytes_per_s\": 1e24, \"memory_bytes\": %lld, \"launch_ns\": 0, "
                          "\"link_bytes_per_s\": %d, \"link_latency_ns\": %d, \"nic_bytes_per_s\": 1e10, "
                          "\"nic_latency_ns\": 5000}",
                          (long long)memory_bytes, BYTES_PER_S, LATENCY_NS);
    struct catalogue_entry entry = { "toy", device, (size_t)length };
    *o = (struct osdp){ .model = open_model() };
    ck_assert_msg(cluster_read(&o->cluster, form, form, strlen(form), &entry, 1, &err), "%s", err.message);
    o->facts = (struct facts){ .cluster = o->cluster };
    struct space *space = &o->options.space;
    *space = space_default(batch, 0, DTYPE_FP32);
    space->bucket_bytes = (struct allowed){ 1, { 0 } }; /* one collective per weight */
    space->clip_norm = 0;
    space->stages = space->tensor = (struct allowed){ 1, { 1 } };
    space->micro = (struct allowed){ 1, { batch / RANKS } };
    space->zero = (struct allowed){ 2, { 0, 3 } };
    space->recompute = (struct allowed){ 1, { 0 } };
    space->prefetch = (struct allowed){ 1, { 1 } }; /* what waits for nothing is a sum */
    space->schedule = (struct allowed){ 1, { 0 } };
    space->slices = (struct allowed){ 3, { 1, 2, 4 } };
    space->replicate = (struct allowed){ 3, { 0, 1 << OPERATOR_up, 1 << OPERATOR_down } };
    o->options.top = 1;
}

static void osdp_close(struct osdp *o)
{
    model_free(o->model);
    cluster_free(o->cluster);
}

/* ---- prices ---- */

struct prices {
    struct workbench bench;
    struct arena arena;
    const struct price_table *table;
    struct partition_problem problem;
};

static void prices_open(struct prices *p, const struct osdp *o)
{
    struct config *configs = NULL;
    struct error err = { 0 };
    int count = 0;
    *p = (struct prices){ 0 };
    ck_assert_msg(workbench_open(&p->bench, o->model, &o->facts, &o->options.space, &err), "%s", err.message);
    ck_assert_msg(space_configs(&configs, &count, &p->arena, &o->options.space, p->bench.graph, o->cluster, &err), "%s",
                  err.message);
    ck_assert_int_eq(count, 1);
    ck_assert_msg(workbench_table(&p->bench, configs, false, &p->table, &err), "%s", err.message);
    p->problem = workbench_problem(&p->bench, configs, p->table, workbench_in_flight(&p->arena, configs));
}

static void prices_close(struct prices *p)
{
    workbench_close(&p->bench);
    arena_free(&p->arena);
}

static const struct layer_price *price_of(const struct prices *p, int layer, int strategy)
{
    return price_at(p->table, p->bench.chain.class_of[layer], strategy);
}

static int64_t traffic_ns(const struct layer_price *price)
{
    return price->gather_forward_ns + price->gather_backward_ns + price->reduce_ns + price->reduce_last_ns;
}

/* Whether backward needs the weight: tables of embeddings and biases are not gathered again. */
static bool backward_reads(const struct graph *graph, const struct segment *segment, int weight)
{
    const struct kernel_facts *facts = &kernel_facts[segment->kernel];
    return facts->has_backward_input && graph_needs_gradient(graph, segment->in[0].id) &&
           (facts->input_reads_weight >> weight & 1);
}

struct expected {
    double ns, bytes; /* of a rank, of which weight, gradient and two moments in fp32 are four */
    int count;        /* weights */
};
static struct expected osdp_formula(const struct graph *graph, int layer, const struct plan_layer *choice)
{
    struct expected e = { 0 };
    const struct graph_layer *l = &graph->layers[layer];
    for (int s = l->first_segment; s < l->first_segment + l->segment_count; s++)
        for (int w = 0; w < graph->segments[s].weight_count; w++) {
            const struct weight *weight = &graph->weights[graph->segments[s].weight[w].id];
            double bytes = 4.0 * (double)weight_elements(weight);
            double ring_ns = (RANKS - 1) * (LATENCY_NS + 1e9 * bytes / RANKS / BYTES_PER_S);
            bool sharded = choice->zero == 3 && !(choice->replicate & graph->segments[s].operators);
            e.ns += (sharded && backward_reads(graph, &graph->segments[s], w) ? 3 : 2) * ring_ns;
            e.bytes += sharded ? bytes / RANKS : bytes;
            e.count++;
        }
    return e;
}

START_TEST(operators_cost_what_osdp_says)
{
    struct osdp o;
    struct prices p;
    osdp_open(&o, RANKS, INT64_C(1) << 40);
    prices_open(&p, &o);
    ck_assert_int_eq(p.table->strategy_count, 10); /* replicated; sharded in 1, 2 and 4 slices, all or all but one */
    for (int l = 0; l < LAYERS; l++)
        for (int s = 0; s < p.table->strategy_count; s++) {
            const struct plan_layer *choice = &p.table->strategies[s].layer;
            const struct layer_price *price = price_of(&p, l, s);
            struct expected e = osdp_formula(p.bench.graph, l, choice);
            if (choice->slices == 1) /* slices gather the same bytes in more steps */
                CHECK_NEAR((double)traffic_ns(price), e.ns, 3 * e.count);
            else
                ck_assert((double)traffic_ns(price) >= e.ns - 3 * e.count);
            CHECK_NEAR((double)price->weight_bytes, 4 * e.bytes, 1024 * e.count);
        }
    prices_close(&p);
    osdp_close(&o);
}
END_TEST

/* ---- the optimum ---- */

/* A choice of every layer by OSDP's sums; INT64_MAX when it does not fit. */
static int64_t osdp_cost(const struct prices *p, const int choice[LAYERS], int64_t *need_bytes)
{
    int64_t sum_ns = 0, bytes = p->table->base_bytes, gathered = 0, m = p->problem.micro_batch_count;
    for (int l = 0; l < LAYERS; l++) {
        const struct layer_price *price = price_of(p, l, choice[l]);
        sum_ns += m * (price->gather_forward_ns + price->gather_backward_ns + price->reduce_ns) + price->reduce_last_ns;
        bytes += price->weight_bytes + p->problem.in_flight[0] * price->saved_bytes - price->freed_bytes;
        gathered = price->transient_bytes > gathered ? price->transient_bytes : gathered;
    }
    *need_bytes = bytes + gathered;
    return sum_ns;
}

/* Which choices an enumeration leaves out. */
enum { SLICED = 1, APART = 2 }; /* operators in slices; operators of one layer that are decided differently */

/* All choices of all layers within the bytes. least, most: what any choice needs. */
static int64_t enumerate(const struct prices *p, int64_t capacity_bytes, int without, int64_t *least, int64_t *most)
{
    int strategies = p->table->strategy_count, choice[LAYERS] = { 0 };
    int64_t best = INT64_MAX, need, all = 1;
    *least = INT64_MAX;
    *most = 0;
    for (int l = 0; l < LAYERS; l++)
        all *= strategies;
    for (int64_t n = 0; n < all; n++) {
        bool allowed = true;
        int64_t rest = n;
        for (int l = 0; l < LAYERS; l++, rest /= strategies) {
            choice[l] = (int)(rest % strategies);
            const struct plan_layer *layer = &p->table->strategies[choice[l]].layer;
            allowed &= (!(without & SLICED) || layer->slices == 1) && (!(without & APART) || layer->replicate == 0);
        }
        int64_t ns = osdp_cost(p, choice, &need);
        *least = allowed && need < *least ? need : *least;
        *most = allowed && need > *most ? need : *most;
        best = allowed && need <= capacity_bytes && ns < best ? ns : best;
    }
    return best;
}

static struct search_result *search(const struct osdp *o)
{
    struct search_result *result = NULL;
    struct error err = { 0 };
    ck_assert_msg(search_run(&result, o->model, &o->facts, &o->options, &err), "%s", err.message);
    return result;
}

struct seen {
    int feasible, sliced, apart; /* plans; those that slices, or operators decided apart, made possible or shorter */
    int used_slices, used_apart; /* layers */
};

/* One limit: the search's optimum is that of enumeration. */
static void check_limit(int64_t memory_bytes, struct seen *seen)
{
    struct osdp o;
    struct prices p;
    int64_t least, most;
    osdp_open(&o, RANKS, memory_bytes);
    o.options.space.slices.count = 2;
    prices_open(&p, &o);
    int64_t best = enumerate(&p, p.problem.capacity_bytes, 0, &least, &most);
    int64_t whole = enumerate(&p, p.problem.capacity_bytes, SLICED, &least, &most);
    int64_t alike = enumerate(&p, p.problem.capacity_bytes, APART, &least, &most);
    struct search_result *result = search(&o);
    ck_assert_msg(result->feasible == (best < INT64_MAX), "%lld bytes: search %d, enumeration %lld",
                  (long long)memory_bytes, result->feasible, (long long)best);
    seen->sliced += best < whole;
    seen->apart += best < alike;
    if (result->feasible) {
        int64_t bound = result->certificate.bound_ns;
        ck_assert_msg(result->certificate.proof_gap == 0, "gap %g", result->certificate.proof_gap);
        ck_assert_msg(bound == best, "%lld bytes: search %lld, enumeration %lld", (long long)memory_bytes,
                      (long long)bound, (long long)best);
        for (int l = 0; l < LAYERS; l++) {
            seen->used_slices += best < whole && result->plans[0].plan->layers[l].slices > 1;
            seen->used_apart += best < alike && result->plans[0].plan->layers[l].replicate != 0;
        }
        seen->feasible++;
    }
    search_result_free(result);
    prices_close(&p);
    osdp_close(&o);
}

START_TEST(our_optimum_is_osdps)
{
    enum { LIMITS = 24 };
    struct osdp o;
    struct prices p;
    int64_t least, most;
    struct seen seen = { 0 };
    osdp_open(&o, RANKS, INT64_C(1) << 40);
    o.options.space.slices.count = 2;
    prices_open(&p, &o);
    enumerate(&p, INT64_MAX, 0, &least, &most);
    prices_close(&p);
    osdp_close(&o);
    for (int n = 0; n < LIMITS; n++)
        check_limit(least - 4096 + (most - least + 8192) * n * n / (LIMITS * LIMITS), &seen);
    ck_assert_int_ge(seen.feasible, LIMITS / 2);
    ck_assert_int_lt(seen.feasible, LIMITS);
    ck_assert_int_gt(seen.sliced, 0);
    ck_assert_int_gt(seen.used_slices, 0);
    ck_assert_int_gt(seen.apart, 0);
    ck_assert_int_gt(seen.used_apart, 0);
}
END_TEST

/* ---- the batch ---- */

/* The shortest step by OSDP's sums over all ways to cut the batch into micro-batches; INT64_MAX: nothing fits. */
static int64_t best_of_batch(const struct osdp *o, int64_t batch)
{
    struct config *configs = NULL;
    struct error err = { 0 };
    struct prices p = { 0 };
    struct space space = o->options.space;
    int count = 0;
    int64_t best = INT64_MAX, least, most;
    space.batch = batch;
    ck_assert_msg(workbench_open(&p.bench, o->model, &o->facts, &space, &err), "%s", err.message);
    ck_assert(space_configs(&configs, &count, &p.arena, &space, p.bench.graph, o->cluster, &err));
    for (int i = 0; i < count; i++) {
        ck_assert_msg(workbench_table(&p.bench, &configs[i], false, &p.table, &err), "%s", err.message);
        p.problem = workbench_problem(&p.bench, &configs[i], p.table, workbench_in_flight(&p.arena, &configs[i]));
        int64_t ns = enumerate(&p, p.problem.capacity_bytes, 0, &least, &most);
        best = ns < best ? ns : best;
    }
    prices_close(&p);
    return best;
}

/* OSDP takes the batch with the shortest step, which is the smallest; ours the one with most sequences per second. */
START_TEST(the_batch_is_chosen_by_throughput)
{
    struct osdp o;
    struct batch_choice choice;
    struct search_result *result = NULL;
    struct error err = { 0 };
    double best_rate = 0, smallest_rate = 0, chosen_rate = 0;
    osdp_open(&o, RANKS, 3500000);
    o.options.space.micro = (struct allowed){ 0 };
    o.options.space.replicate.count = 1;
    ck_assert_msg(search_batch(&result, &choice, o.model, &o.facts, &o.options, 64, &err), "%s", err.message);
    for (int i = 0; i < choice.try_count; i++) {
        int64_t batch = choice.tries[i].batch, ns = batch % RANKS ? INT64_MAX : best_of_batch(&o, batch);
        double rate = ns == INT64_MAX ? 0 : 1e9 * (double)batch / (double)ns;
        best_rate = rate > best_rate ? rate : best_rate;
        smallest_rate = batch == RANKS ? rate : smallest_rate;
        chosen_rate = i == choice.best ? rate : chosen_rate;
    }
    ck_assert_int_ge(choice.try_count, 4);
    ck_assert_msg(smallest_rate > 0 && best_rate > 1.5 * smallest_rate, "%g, smallest batch %g", best_rate,
                  smallest_rate);
    ck_assert_msg(chosen_rate >= best_rate * .98, "chosen %g per second, best %g", chosen_rate, best_rate);
    search_result_free(result);
    osdp_close(&o);
}
END_TEST

static Suite *osdp(void)
{
    Suite *s = suite_create("osdp");
    CHECK_ADD(s, operators_cost_what_osdp_says);
    CHECK_ADD(s, our_optimum_is_osdps);
    CHECK_ADD(s, the_batch_is_chosen_by_throughput);
    return s;
}

CHECK_MAIN(osdp)
