/* The order in which tokens are stored where ranks share out a sequence: a permutation after which each rank sees as
 * many keys as any other, whatever round of a ring it is; and which models are stored so. */
#include "planner/lower/lower.h"
#include "executor/kernels/token_order.h"
#include "tests/model_files.h"

enum { MOST_PARTS = 6, BLOCK = 3, MOST_TOKENS = 2 * MOST_PARTS * BLOCK };

START_TEST(it_is_a_permutation)
{
    for (int64_t parts = 1; parts <= MOST_PARTS; parts++) {
        int64_t size = 2 * parts * BLOCK;
        bool met[MOST_TOKENS] = { false };
        for (int64_t stored = 0; stored < size; stored++) {
            int64_t position = token_position(stored, size, parts);
            ck_assert(position >= 0 && position < size && !met[position]);
            met[position] = true;
        }
    }
    for (int64_t stored = 0; stored < 7; stored++) /* one part: any size, as it is */
        ck_assert_int_eq(token_position(stored, 7, 1), stored);
}
END_TEST

/* Within a run positions grow by one. (Where a run ends the next may happen to go on.) */
START_TEST(runs_follow_each_other)
{
    for (int64_t parts = 1; parts <= MOST_PARTS; parts++) {
        int64_t size = 2 * parts * BLOCK, low = 0, runs = 0;
        for (int64_t end; low < size; low = end, runs++) {
            end = token_run_end(low, size, parts);
            ck_assert(end > low && end <= size);
            for (int64_t stored = low + 1; stored < end; stored++)
                ck_assert_int_eq(token_position(stored, size, parts), token_position(stored - 1, size, parts) + 1);
            ck_assert_int_eq(token_run_end(end - 1, size, parts), end);
        }
        ck_assert_int_eq(low, size);
        ck_assert_int_eq(runs, parts > 1 ? 2 * parts : 1);
    }
}
END_TEST

/* Pairs of a query of the one rank and a key of the other that a causal mask lets see each other. */
static int64_t pairs_seen(int64_t query_rank, int64_t key_rank, int64_t size, int64_t parts)
{
    int64_t each = size / parts, seen = 0;
    for (int64_t t = query_rank * each; t < (query_rank + 1) * each; t++)
        for (int64_t s = key_rank * each; s < (key_rank + 1) * each; s++)
            seen += token_position(s, size, parts) <= token_position(t, size, parts);
    return seen;
}

/* Half of all pairs, as the cost model has it, and among a rank's own tokens one more for each of a block. */
START_TEST(all_ranks_see_as_much)
{
    for (int64_t parts = 2; parts <= MOST_PARTS; parts++)
        for (int64_t query = 0; query < parts; query++)
            for (int64_t key = 0; key < parts; key++)
                ck_assert_int_eq(pairs_seen(query, key, 2 * parts * BLOCK, parts),
                                 2 * BLOCK * BLOCK + (query == key ? BLOCK : 0));
}
END_TEST

/* Floating-point operations of the core for one of `parts` parts, against the pairs counted above. */
START_TEST(the_cost_model_counts_these_pairs)
{
    struct model *model = model_of_zoo("tiny-llama");
    struct graph *graph = graph_of(model, 1, 0, 1);
    int64_t cores = 0;
    for (int i = 0; i < graph->segment_count; i++) {
        const struct segment *segment = &graph->segments[i];
        if (!kernel_facts[segment->kernel].attends)
            continue;
        cores++;
        for (int64_t parts = 2; parts <= 4; parts *= 2) {
            int64_t extents[MAX_AXES], others = 4;
            for (int a = 0; a < segment->axis_count; a++) {
                bool split = segment->axes[a].tag == TAG_SEQUENCE || segment->axes[a].tag == TAG_KEY;
                extents[a] = split ? segment->axes[a].size / parts : segment->axes[a].size;
                others *= split ? 1 : extents[a];
            }
            ck_assert_int_eq(segment_flops(segment, PHASE_FORWARD, extents),
                             others * pairs_seen(0, 1, graph->sequence, parts));
        }
    }
    ck_assert_int_eq(cores, 2);
    graph_free(graph);
    model_free(model);
}
END_TEST

static const struct order_case {
    const char *model, *dim;
    int ranks, parts;
} order_cases[] = {
    { "tiny-gpt", "cp-ring", 4, 4 },    { "tiny-llama", "cp-gather", 2, 2 },
    { "tiny-lora", "cp-ring", 2, 2 },   { "tiny-gpt", "cp-ulysses", 4, 1 }, /* heads are split, not queries */
    { "tiny-gpt", "tp+sp", 4, 1 },      { "tiny-gpt", "dp", 4, 1 },
    { "tiny-moe", "cp-ring", 2, 1 },    /* groups of experts are neighbours */
    { "tiny-encdec", "cp-ring", 2, 1 }, /* an encoder looks ahead */
};
enum { ORDER_CASES = sizeof order_cases / sizeof *order_cases };

START_TEST(causal_models_are_stored_so)
{
    const struct order_case *c = &order_cases[_i];
    struct model *model = model_of_zoo(c->model);
    struct graph *graph = graph_of(model, 4, 0, 128);
    struct plan *plan = plan_new(1, graph->layer_count);
    struct program *program = NULL;
    struct error err = { 0 };
    plan->batch = 4, plan->sequence = graph->sequence, plan->vocab_multiple = 128, plan->micro_batch_count = 1;
    plan->rank_count = c->ranks, plan->atom_count = 1;
    plan->stages[0].layer_count = graph->layer_count, plan->stages[0].atom[0] = c->ranks;
    for (int l = 0; l < graph->layer_count; l++)
        plan->layers[l].dim[0] = (int8_t)dimension_find(c->dim);
    ck_assert_msg(plan_check(plan, graph, &err) && lower_program(&program, graph, plan, &err), "%s %s: %s", c->model,
                  c->dim, err.message);
    ck_assert_int_eq(token_parts(program), c->parts);
    program_free(program);
    plan_free(plan);
    graph_free(graph);
    model_free(model);
}
END_TEST

static Suite *token_order_suite(void)
{
    Suite *suite = suite_create("token_order");
    CHECK_ADD(suite, it_is_a_permutation);
    CHECK_ADD(suite, runs_follow_each_other);
    CHECK_ADD(suite, all_ranks_see_as_much);
    CHECK_ADD(suite, the_cost_model_counts_these_pairs);
    CHECK_ADD_LOOP(suite, causal_models_are_stored_so, ORDER_CASES);
    return suite;
}
CHECK_MAIN(token_order_suite)
