/* Models of today, described by their layers, have the parameters that are published of them, to the last one. */
#include "models/graph.h"
#include "models/model.h"
#include "tests/check.h"
#include <string.h>

#define MODEL(sequence, hidden, vocab, tied)                                                                           \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"counted\", \"sequence\": " sequence                    \
    ", \"hidden\": " hidden ", \"vocab_size\": " vocab ", \"tied_embedding\": " tied ", \"layers\": ["
#define EMBEDDING "{\"kind\": \"embedding\"}, "
#define REPEAT(blocks, layers) "{\"repeat\": " blocks ", \"layers\": [" layers "]}, "
#define HEAD(norm) "{\"kind\": \"head\", \"norm\": \"" norm "\"}, {\"kind\": \"loss\"}]}"
#define ATTENTION(heads, more) "{\"kind\": \"attention\", \"heads\": " heads ", " more "}, "
#define MLP(inner, activation, more)                                                                                   \
    "{\"kind\": \"mlp\", \"inner\": " inner ", \"activation\": \"" activation "\", " more "}"
#define RMS "\"norm\": \"rms_norm\""
#define SANDWICH RMS ", \"output_norm\": \"rms_norm\""
#define BEHIND "\"norm\": \"none\", \"output_norm\": \"rms_norm\""
#define BERT_BODY                                                                                                      \
    "{\"kind\": \"embedding\", \"learned_positions\": 512, \"token_types\": 2, \"norm\": \"layer_norm\"}, " REPEAT(    \
        "12",                                                                                                          \
        ATTENTION("12", "\"causal\": false, \"qkv_bias\": true, \"output_bias\": true, \"norm\": \"layer_norm\", "     \
                        "\"post_norm\": true")                                                                         \
            MLP("3072", "gelu_erf", "\"bias\": true, \"norm\": \"layer_norm\", \"post_norm\": true"))

/* The counts are those of the checkpoints on the Hugging Face hub, each shared table once. */
static const struct {
    const char *name, *text;
    int64_t parameters;
} counted[] = {
    { "gemma-2-9b",
      MODEL("8192", "3584", "256000", "true") "{\"kind\": \"embedding\", \"scale\": 59.867}, " REPEAT(
          "42",
          ATTENTION("16", "\"kv_heads\": 8, \"head_dim\": 256, \"rope_base\": 10000, \"score_cap\": 50, " SANDWICH)
              MLP("14336", "geglu", SANDWICH)) HEAD("rms_norm"),
      9241705984 },
    { "gemma-2-2b",
      MODEL("8192", "2304", "256000", "true") EMBEDDING REPEAT(
          "26", ATTENTION("8", "\"kv_heads\": 4, \"head_dim\": 256, \"rope_base\": 10000, \"score_cap\": 50, " SANDWICH)
                    MLP("9216", "geglu", SANDWICH)) HEAD("rms_norm"),
      2614341888 },
    { "Qwen3-8B",
      MODEL("4096", "4096", "151936", "false") EMBEDDING REPEAT(
          "36", ATTENTION("32", "\"kv_heads\": 8, \"head_dim\": 128, \"rope_base\": 1e6, \"qk_norm\": \"head\", " RMS)
                    MLP("12288", "swiglu", RMS)) HEAD("rms_norm"),
      8190735360 },
    { "OLMo-2-1124-7B",
      MODEL("4096", "4096", "100352", "false")
          EMBEDDING REPEAT("32", ATTENTION("32", "\"rope_base\": 500000, \"qk_norm\": \"whole\", " BEHIND)
                                     MLP("11008", "swiglu", BEHIND)) HEAD("rms_norm"),
      7298617344 },
    { "bert-base-uncased, masked tokens",
      MODEL("512", "768", "30522", "true") BERT_BODY
      "{\"kind\": \"head\", \"norm\": \"none\", \"transform\": true, \"bias\": true}, {\"kind\": \"loss\"}]}",
      109514298 },
    { "bert-base-uncased, two classes",
      MODEL("512", "768", "30522", "false") BERT_BODY
      "{\"kind\": \"pool\", \"pool\": \"first\"}, {\"kind\": \"head\", \"norm\": \"none\", \"transform\": true, "
      "\"transform_activation\": \"tanh\", \"transform_norm\": \"none\", \"classes\": 2, \"bias\": true}, "
      "{\"kind\": \"loss\"}]}",
      109483778 },
    { "falcon-7b, a shared table",
      MODEL("2048", "4544", "65024", "true") EMBEDDING REPEAT(
          "32", "{\"kind\": \"norm\", \"name\": \"in\", \"norm\": \"layer_norm\"}, " ATTENTION(
                    "71", "\"name\": \"side\", \"kv_heads\": 1, \"head_dim\": 64, \"rope_base\": 10000, \"residual\": "
                          "false, \"norm\": \"none\"") MLP("18176", "gelu_erf",
                                                           "\"inputs\": [\"in\"], \"residual\": false, \"norm\": "
                                                           "\"none\"") ", {\"kind\": \"add\", \"inputs\": [\"entry\", "
                                                                       "\"side\", \"mlp\"]}") HEAD("layer_norm"),
      6921720704 },
};

START_TEST(counts_are_the_published_ones)
{
    struct model *model;
    struct graph *graph;
    struct error err = { 0 };
    ck_assert_msg(model_read(&model, counted[_i].name, counted[_i].text, strlen(counted[_i].text), NULL, &err), "%s",
                  err.message);
    ck_assert_msg(graph_build(&graph, model, 1, 0, 1, &err), "%s", err.message);
    ck_assert_int_eq(graph_parameter_count(graph), counted[_i].parameters);
    /* What tells sequences apart is planned; labels of such are one for each sequence. */
    const bool classes = strstr(counted[_i].text, "classes") != NULL;
    ck_assert_int_eq(graph->planned_layer != NULL, classes);
    ck_assert_int_eq(graph->values[graph->labels_value].size[1], classes ? 1 : graph->sequence);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* Press et al. 2022: 8 heads have 1/2, 1/4 ... 1/256; of twelve, four more between the first of these. */
START_TEST(slopes_are_a_geometric_sequence)
{
    for (int head = 0; head < 8; head++) {
        CHECK_NEAR(alibi_slope(head, 8), 1.0 / (2 << head), 1e-12);
        CHECK_NEAR(alibi_slope(head, 12), 1.0 / (2 << head), 1e-12);
    }
    for (int head = 8; head < 12; head++)
        CHECK_NEAR(alibi_slope(head, 12), alibi_slope(2 * (head - 8), 16), 1e-12);
}
END_TEST

static Suite *layer_counts_suite(void)
{
    Suite *suite = suite_create("layer_counts");
    CHECK_ADD_LOOP(suite, counts_are_the_published_ones, (int)(sizeof counted / sizeof *counted));
    CHECK_ADD(suite, slopes_are_a_geometric_sequence);
    return suite;
}

CHECK_MAIN(layer_counts_suite)
