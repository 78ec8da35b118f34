/* Prediction of a further token: its own weights, the tables that it shares, its work, and the gradient that the trunk
 * gets of it. */
#include "models/whole_blocks.h"
#include "planner/estimate/estimate.h"
#include "tests/model_files.h"

#define AHEAD(tied, further)                                                                                           \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"m\", \"sequence\": 16, \"hidden\": 32, "               \
    "\"vocab_size\": 100, \"tied_embedding\": " tied ", \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 2, "      \
    "\"layers\": [{\"kind\": \"mlp\", \"name\": \"trunk\", \"inner\": 48, \"activation\": \"swiglu\", \"norm\": "      \
    "\"rms_norm\"}]}, " further "{\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"
#define FURTHER                                                                                                        \
    "{\"kind\": \"multi_token\", \"norm\": \"rms_norm\"}, {\"kind\": \"mlp\", \"name\": \"ahead\", \"inner\": 48, "    \
    "\"activation\": \"swiglu\", \"norm\": \"rms_norm\"}, {\"kind\": \"multi_token_loss\", \"inputs\": [\"trunk\", "   \
    "\"ahead\"], \"weight\": 0.3, \"norm\": \"rms_norm\"}, "
enum { HIDDEN = 32, INNER = 48, VOCABULARY = 100, TOKENS = 16 };

static struct graph *graph_of_batch(const char *text, int batch)
{
    struct model *model = model_of_text(text);
    struct graph *graph;
    struct error err = { 0 };
    ck_assert_msg(graph_build(&graph, model, batch, 0, 1, &err), "%s", err.message);
    model_free(model);
    return graph;
}

/* Of the layer's segment of this name the first weight. */
static int table_of(const struct graph *graph, const char *kind, const char *name)
{
    for (int i = 0; i < graph->segment_count; i++)
        if (strcmp(graph->segments[i].name, name) == 0 &&
            strcmp(graph->layers[graph->segments[i].layer].kind, kind) == 0)
            return graph->segments[i].weight[0].id;
    ck_abort_msg("no segment %s of %s", name, kind);
    return -1;
}

/* A matrix of two hidden widths, three norms and a block: DeepSeek-V3's further 11.6 thousand million. */
START_TEST(tables_are_the_models_own)
{
    for (int tied = 0; tied < 2; tied++) {
        struct graph *plain = graph_of_batch(tied ? AHEAD("true", "") : AHEAD("false", ""), 1),
                     *further = graph_of_batch(tied ? AHEAD("true", FURTHER) : AHEAD("false", FURTHER), 1);
        const int64_t block = 3 * HIDDEN * INNER + HIDDEN;
        ck_assert_int_eq(graph_parameter_count(further) - graph_parameter_count(plain),
                         2 * HIDDEN * HIDDEN + 3 * HIDDEN + block);
        int embedding = table_of(further, "embedding", "embed"), head = table_of(further, "head", "logits");
        ck_assert_int_eq(table_of(further, "multi_token", "embed"), embedding);
        ck_assert_int_eq(table_of(further, "multi_token_loss", "logits"), head);
        ck_assert_int_eq(embedding == head, tied);
        graph_free(plain);
        graph_free(further);
    }
}
END_TEST

START_TEST(work_is_a_block_and_a_head_more)
{
    const int batch = 3;
    struct graph *plain = graph_of_batch(AHEAD("false", ""), batch),
                 *further = graph_of_batch(AHEAD("false", FURTHER), batch);
    const double products = 2 * HIDDEN * HIDDEN + 3 * HIDDEN * INNER + HIDDEN * VOCABULARY;
    CHECK_NEAR(estimate_model_flops(further) - estimate_model_flops(plain), 6.0 * batch * TOKENS * products, 1e-6);
    graph_free(plain);
    graph_free(further);
}
END_TEST

START_TEST(contradictions_are_refused)
{
    check_refused("{\"format\":\"cleave-model\",\"version\":1,\"name\":\"m\",\"sequence\":8,\"hidden\":16,"
                  "\"vocab_size\":9,\"layers\":[{\"kind\":\"embedding\"},@{\"kind\":\"multi_token_loss\",\"norm\":"
                  "\"none\"},{\"kind\":\"head\",\"norm\":\"none\"},{\"kind\":\"loss\"}]}",
                  "layers[1]: ");
}
END_TEST

/* What frameworks cut between: the block that predicts is one with what joins it to the trunk; its loss is the head's.
 */
START_TEST(blocks_are_taken_whole)
{
    static const char *const kinds[] = { "embedding", "mlp", "mlp", "multi_token", "head" };
    struct model *model = model_of_text(AHEAD("false", FURTHER));
    struct error err = { 0 };
    model->whole_blocks = true;
    struct graph *graph = NULL;
    ck_assert_msg(graph_take(&graph, model, 1, 0, 1, &err), "%s", err.message);
    ck_assert_int_eq(graph->layer_count, 5);
    for (int l = 0; l < 5; l++) {
        ck_assert_str_eq(graph->layers[l].kind, kinds[l]);
        ck_assert_int_eq(graph_layer_predicts_further(graph, l), l == 3);
        ck_assert_int_eq(graph->layers[l].block >= 0, l > 0 && l < 4);
    }
    ck_assert_int_eq(graph->layers[3].input_layers[0], 2);
    ck_assert_int_eq(graph->layers[4].input_count, 2);
    graph_free(graph);
    model_free(model);
}
END_TEST

static Suite *multi_token_suite(void)
{
    Suite *suite = suite_create("multi_token");
    CHECK_ADD(suite, tables_are_the_models_own);
    CHECK_ADD(suite, work_is_a_block_and_a_head_more);
    CHECK_ADD(suite, blocks_are_taken_whole);
    CHECK_ADD(suite, contradictions_are_refused);
    return suite;
}

CHECK_MAIN(multi_token_suite)
