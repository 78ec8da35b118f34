/* Hugging Face configurations: how large the models are, and what is assumed, folded and adapted. */
#include "models/kinds/layers.h"
#include "tests/hf_counts.h"
#include "tests/hf_near_counts.h"
#include "tests/hf_small_counts.h"
#include "tests/model_files.h"
#include <math.h>

#define LLAMA(more)                                                                                                    \
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"           \
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256" more "}"
#define NEOX(more)                                                                                                     \
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":64,\"intermediate_size\":256,\"max_position_embeddings\":32,"        \
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256" more "}"

static struct model *import_as(const char *text, const char *name, struct model_reading *reading)
{
    struct error err = { 0 };
    struct model *model = NULL;
    ck_assert_msg(model_read_as(&model, name, text, strlen(text), reading, &err), "%s", err.message);
    return model;
}

START_TEST(counts_are_those_of_the_library)
{
    for (size_t i = 0; i < sizeof hf_counts / sizeof *hf_counts; i++) {
        struct model *model = import_as(hf_counts[i].config, "c.json", NULL);
        struct graph *graph = graph_of(model, 1, 1, 1);
        ck_assert_msg(graph_parameter_count(graph) == hf_counts[i].parameters, "%lld parameters, expected %lld: %s",
                      (long long)graph_parameter_count(graph), (long long)hf_counts[i].parameters, hf_counts[i].config);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

START_TEST(counts_of_small_ones_are_those_of_the_library)
{
    for (size_t i = 0; i < sizeof hf_small_counts / sizeof *hf_small_counts; i++) {
        struct model *model = import_as(hf_small_counts[i].config, "c.json", NULL);
        struct graph *graph = graph_of(model, 1, 1, 1);
        int64_t wanted = hf_small_counts[i].parameters;
        ck_assert_msg(graph_parameter_count(graph) == wanted || graph_trainable_count(graph) == wanted,
                      "%lld parameters, expected %lld: %s", (long long)graph_parameter_count(graph), (long long)wanted,
                      hf_small_counts[i].config);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

START_TEST(counts_of_what_is_planned_otherwise_are_near_those_of_the_library)
{
    for (size_t i = 0; i < sizeof hf_near_counts / sizeof *hf_near_counts; i++) {
        struct model *model = import_as(hf_near_counts[i].config, "c.json", NULL);
        struct graph *graph = graph_of(model, 1, 1, 1);
        double wanted = (double)hf_near_counts[i].parameters, found = (double)graph_parameter_count(graph);
        ck_assert_msg(fabs(found / wanted - 1) < 1e-3, "%.0f parameters, expected %.0f: %s", found, wanted,
                      hf_near_counts[i].config);
        ck_assert_msg(graph_parameter_count(graph) == hf_near_counts[i].planned,
                      "%lld parameters, %lld were planned: %s", (long long)graph_parameter_count(graph),
                      (long long)hf_near_counts[i].planned, hf_near_counts[i].config);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

/* ALBERT's blocks have one set of weights, whatever their number. */
START_TEST(shared_blocks_count_once)
{
    static const char config[] = "{\"model_type\":\"albert\",\"hidden_size\":64,\"intermediate_size\":128,"
                                 "\"num_attention_heads\":4,\"vocab_size\":256,\"embedding_size\":16,"
                                 "\"max_position_embeddings\":32,\"num_hidden_layers\":%d,\"num_hidden_groups\":%d}";
    int64_t count[3];
    const int blocks[] = { 2, 6, 6 }, groups[] = { 1, 1, 2 };
    for (int i = 0; i < 3; i++) {
        char text[512];
        snprintf(text, sizeof text, config, blocks[i], groups[i]);
        struct model *model = import_as(text, "c.json", NULL);
        struct graph *graph = graph_of(model, 1, 1, 1);
        count[i] = graph_parameter_count(graph);
        ck_assert_ptr_nonnull(graph->planned_layer);
        graph_free(graph);
        model_free(model);
    }
    ck_assert_int_eq(count[0], count[1]);
    /* Four square matrices, two of the network, their biases and two norms. */
    ck_assert_int_eq(count[2] - count[1], 4 * 64 * 64 + 2 * 64 * 128 + 4 * 64 + 128 + 64 + 4 * 64);
}
END_TEST

START_TEST(what_the_file_lacks_is_assumed_and_said)
{
    struct text notes = { 0 };
    struct model_reading reading = { .notes = &notes };
    static const char bare[] = "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,"
                               "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256}";
    struct model *model = import_as(bare, "c.json", &reading);
    ck_assert_int_eq(model->sequence, 2048);
    ck_assert_ptr_nonnull(strstr(notes.data, "note: the file says no max_position_embeddings: sequences of 2048"));
    model_free(model);
    reading.sequence = 512;
    model = import_as(bare, "c.json", &reading);
    ck_assert_int_eq(model->sequence, 512);
    model_free(model);
    reading = (struct model_reading){ .notes = &notes, .as = "llama" };
    model =
        import_as("{\"model_type\":\"zebra\",\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4,"
                  "\"num_hidden_layers\":2,\"vocab_size\":256,\"max_position_embeddings\":32}",
                  "c.json", &reading);
    ck_assert_ptr_nonnull(strstr(notes.data, "note: read as llama, as --as says"));
    model_free(model);
    reading.as = NULL;
    model = import_as("{\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4,\"type_vocab_size\":1,"
                      "\"num_hidden_layers\":2,\"vocab_size\":256,\"max_position_embeddings\":34}",
                      "old/roberta-base/config.json", &reading);
    ck_assert_ptr_nonnull(strstr(notes.data, "neither model_type nor architectures: read as roberta, after its name"));
    ck_assert_int_eq(model->sequence, 32);
    model_free(model);
    static const char gpt2[] =
        "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_head\":4,\"n_layer\":2,\"n_positions\":32,\"vocab_size\":256}";
    struct {
        struct model_reading reading;
        const char *message;
    } wrong[] = {
        { { .sequence = 64 }, "c.json:1:71: n_positions: expected a sequence of at most the file's 32 learned" },
        { { .as = "zebra" }, "c.json:1:1: no family of this importer has the model_type \"zebra\"" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct error err = { 0 };
        ck_assert(!model_read_as(&model, "c.json", gpt2, strlen(gpt2), &wrong[i].reading, &err));
        ck_assert_msg(strncmp(err.message, wrong[i].message, strlen(wrong[i].message)) == 0, "%s", err.message);
    }
    text_free(&notes);
}
END_TEST

/* What a maker's own file holds tells more than its name; boxes that are not planned are said. */
START_TEST(files_of_makers_are_known_by_their_keys)
{
    static const struct {
        const char *name, *config, *note;
        int64_t count;
    } cases[] = {
        { "llama-3-8b.json",
          "{\"dim\":4096,\"ffn_dim_multiplier\":1.3,\"multiple_of\":1024,\"n_heads\":32,\"n_kv_heads\":8,"
          "\"n_layers\":32,\"norm_eps\":1e-05,\"vocab_size\":128256,\"rope_theta\":500000.0}",
          "read as llama_params, after its keys", 8030261248 },
        { "mamba2.json",
          "{\"d_model\":768,\"n_layer\":24,\"vocab_size\":50277,\"ssm_cfg\":{\"layer\":\"Mamba1\"},"
          "\"pad_vocab_size_multiple\":8}",
          "read as mamba_ssm, after its keys", 129135360 },
        { "mistral.json",
          "{\"dim\":4096,\"hidden_dim\":14336,\"n_heads\":32,\"n_kv_heads\":8,\"n_layers\":32,"
          "\"vocab_size\":32000,\"vision_encoder\":{\"hidden_size\":1024}}",
          "left out: what the file says under vision_encoder", 7241732096 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text notes = { 0 };
        struct model_reading reading = { .notes = &notes };
        struct model *model = import_as(cases[i].config, cases[i].name, &reading);
        struct graph *graph = graph_of(model, 1, 8, 1);
        ck_assert_int_eq(graph_parameter_count(graph), cases[i].count);
        ck_assert_msg(strstr(notes.data, cases[i].note) != NULL, "%s", notes.data);
        graph_free(graph);
        model_free(model);
        text_free(&notes);
    }
}
END_TEST

#define SMALL(type, more)                                                                                              \
    "{\"model_type\":\"" type "\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":512,"       \
    "\"num_attention_heads\":4,\"num_hidden_layers\":2" more "}"

#define GLOBAL(heads)                                                                                                  \
    ",\"vocab_size\":256,\"num_key_value_heads\":2,\"head_dim\":16,\"global_head_dim\":64,\"attention_k_eq_v\":true,"  \
    "\"num_global_key_value_heads\":" #heads
#define OLMO(more)                                                                                                     \
    "{\"model_type\":\"hf_olmo\",\"d_model\":64,\"n_layers\":2,\"n_heads\":4,\"mlp_hidden_size\":256,"                 \
    "\"max_sequence_length\":32,\"vocab_size\":256,\"embedding_size\":256," more "}"

#define DINO(class)                                                                                                    \
    "{\"model_type\":\"dinov2\",\"architectures\":[\"" class "\"],\"hidden_size\":64,\"num_attention_heads\":4,\"num_" \
                                                             "hidden_layers\":2,\"id2label\":{\"0\":\"all\"}}"

/* What a note says must be so of this file. A model of sound has 4,267,264 weights before its blocks (wav2vec 2.0's
 * convolutions: 4,200,448; to the width of the blocks: 33,856; over positions: 32,960), the table of tokens and the
 * single neuron that stand there have 262,144 x 64 and 2 x 64. */
START_TEST(notes_are_of_the_file)
{
    static const struct {
        const char *config, *said, *unsaid; /* or NULL */
    } cases[] = {
        { SMALL("wav2vec2", ",\"vocab_size\":262144"),
          "with a table of tokens, about 12510080 weights more than the file's model has", NULL },
        { SMALL("wav2vec2", ",\"vocab_size\":32"), NULL, "a table of tokens, about" },
        { SMALL("big_bird", ",\"vocab_size\":256,\"attention_type\":\"original_full\""), "pooled token's matrix",
          "a window" },
        { SMALL("gemma4_text", GLOBAL(2)), "their 2 heads are planned as half as many, with values of their own",
          "the file's model has not" },
        { SMALL("gemma4_text", GLOBAL(1)), "4096 weights a block that the file's model has not", NULL },
        { OLMO("\"layer_norm_with_affine\":false"), "planned with 320 weights of norms", NULL },
        { OLMO("\"layer_norm_with_affine\":true"), NULL, "norms have no weights" },
        { OLMO("\"layer_norm_type\":\"rms\""), NULL, "norms have no weights" },
        { "{\"model_type\":\"clip\",\"vision_config\":{},\"text_config\":{\"hidden_size\":65537}}",
          "the tower of text, whose parameters are not counted", NULL },
        { "{\"model_type\":\"llava\",\"vision_config\":{\"model_type\":\"clip_vision_model\",\"hidden_size\":65537},"
          "\"text_config\":" SMALL("llama", ",\"vocab_size\":256") "}",
          "the vision tower (clip_vision_model), whose parameters are not counted", NULL },
        { SMALL("big_bird", ",\"vocab_size\":256"), "a window of as many tokens (512)", NULL },
        { DINO("Dinov2ForImageClassification"), "reads of the patches' mean, 64 weights", NULL },
        { DINO("Dinov2Model"), "scales of what layers give, 128 weights a block", "the patches' mean" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text notes = { 0 };
        struct model_reading reading = { .notes = &notes };
        model_free(import_as(cases[i].config, "c.json", &reading));
        const char *all = notes.data ? notes.data : "";
        ck_assert_msg(!cases[i].said || strstr(all, cases[i].said), "%s: %s", cases[i].config, all);
        ck_assert_msg(!cases[i].unsaid || !strstr(all, cases[i].unsaid), "%s: %s", cases[i].config, all);
        text_free(&notes);
    }
}
END_TEST

static int64_t counted(const char *format, int blocks, int further, bool with)
{
    char text[640];
    struct model_reading reading = { .multi_token = with };
    snprintf(text, sizeof text, format, blocks, further);
    struct model *model = import_as(text, "c.json", &reading);
    struct graph *graph = graph_of(model, 1, 8, 1);
    int64_t count = graph_parameter_count(graph);
    graph_free(graph);
    model_free(model);
    return count;
}

/* Each further token: one more block, a matrix of two widths to one, three norms; embedding and head are the model's
 * (DeepSeek-AI 2024, section 2.2). */
START_TEST(further_tokens_are_predicted_where_it_is_asked)
{
    static const char latent[] = "{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"intermediate_size\":96,"
                                 "\"moe_intermediate_size\":32,\"num_attention_heads\":4,\"num_hidden_layers\":%d,"
                                 "\"vocab_size\":256,\"first_k_dense_replace\":1,\"n_routed_experts\":4,"
                                 "\"n_shared_experts\":1,\"num_experts_per_tok\":2,\"kv_lora_rank\":16,"
                                 "\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,\"v_head_dim\":8,"
                                 "\"num_nextn_predict_layers\":%d}",
                      plain[] = "{\"model_type\":\"glm4_moe\",\"hidden_size\":64,\"intermediate_size\":96,"
                                "\"moe_intermediate_size\":32,\"num_attention_heads\":4,\"num_hidden_layers\":%d,"
                                "\"vocab_size\":256,\"n_routed_experts\":4,\"num_experts_per_tok\":2,"
                                "\"num_nextn_predict_layers\":%d}";
    const char *const files[] = { latent, plain };
    for (int i = 0; i < 2; i++) {
        int64_t own = counted(files[i], 3, 2, false), block = counted(files[i], 4, 2, false) - own;
        ck_assert_int_eq(counted(files[i], 3, 1, true) - own, block + 2 * 64 * 64 + 3 * 64);
        ck_assert_int_eq(counted(files[i], 3, 2, true) - own, 2 * (block + 2 * 64 * 64 + 3 * 64));
    }
    struct model_reading reading = { .multi_token = true };
    struct model *model = NULL;
    struct error err = { 0 };
    ck_assert(!model_read_as(&model, "c.json", LLAMA(), strlen(LLAMA()), &reading, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected a file that names blocks for further tokens"));
}
END_TEST

static int64_t trained(const char *config, const char *adapter)
{
    struct model_reading reading = { .adapter = adapter, .adapter_length = strlen(adapter), .adapter_name = "a.json" };
    struct model *model = import_as(config, "c.json", &reading);
    struct graph *graph = graph_of(model, 1, 0, 1);
    int64_t count = graph_trainable_count(graph);
    graph_free(graph);
    model_free(model);
    return count;
}

/* Two factors of rank 4 for each matrix: rows and columns together times the rank. */
START_TEST(adapters_are_those_of_peft)
{
    const int64_t h = 64, f = 128, r = 4;
    ck_assert_int_eq(trained(LLAMA(), "{\"r\":4,\"target_modules\":[\"q_proj\",\"v_proj\"]}"), 2 * 2 * 2 * h * r);
    ck_assert_int_eq(
        trained(LLAMA(), "{\"r\":4,\"lora_alpha\":16,\"target_modules\":\"all-linear\",\"bias\":\"none\"}"),
        2 * (4 * 2 * h * r + 3 * (h + f) * r));
    ck_assert_int_eq(trained(NEOX(""), "{\"r\":4,\"target_modules\":[\"query_key_value\"]}"), 2 * 3 * 2 * h * r);
    static const char mixtral[] =
        "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256,\"num_local_experts\":4}";
    ck_assert_int_eq(trained(mixtral, "{\"r\":4,\"target_modules\":[\"q_proj\",\"gate_proj\"]}"), 2 * 2 * h * r);
    static const char olmo[] =
        "{\"model_type\":\"olmo\",\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":4,"
        "\"num_hidden_layers\":2,\"vocab_size\":256}";
    ck_assert_int_eq(trained(olmo, "{\"r\":4,\"target_modules\":\"all-linear\"}"),
                     2 * (4 * 2 * h * r + 3 * (h + f) * r));
    static const struct {
        const char *adapter, *message;
    } wrong[] = {
        { "{\"r\":4}", "a.json:1:1: expected the key \"target_modules\"" },
        { "{\"r\":4,\"target_modules\":[\"lm_head\"]}",
          "a.json:1:26: target_modules[0]: expected the name of a matrix" },
        { "{\"r\":4,\"target_modules\":[]}", "a.json:1:25: target_modules: expected at least one matrix" },
        { "{\"r\":0,\"target_modules\":[\"q_proj\"]}", "a.json:1:6: r: " },
        { "{\"target_modules\":[\"q_proj\"],\"use_dora\":true}", "a.json:1:41: use_dora: only false is supported" },
        { "{\"target_modules\":[\"q_proj\"],\"peft_type\":\"IA3\"}", "a.json:1:42: peft_type: expected only \"LORA\"" },
        { "[]", "a.json:1:1: expected an object" },
        { "{\"target_modules\":[\"q_proj\"],\"use_rslora\":1}", "a.json:1:43: use_rslora: expected true or false" },
        { "{\"target_modules\":[\"query_key_value\"]}",
          "a.json:1:19: target_modules: expected the name of a matrix that" },
        { "{\"target_modules\":[\"q_proj\"],\"init_lora_weights\":\"pissa\"}",
          "a.json:1:50: init_lora_weights: expected" },
        { "{\"target_modules\":[\"q_proj\"],\"init_lora_weights\":false}",
          "a.json:1:50: init_lora_weights: only true" },
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct model_reading reading = { .adapter = wrong[i].adapter,
                                         .adapter_length = strlen(wrong[i].adapter),
                                         .adapter_name = "a.json" };
        struct model *model = NULL;
        struct error err = { 0 };
        ck_assert(!model_read_as(&model, "c.json", LLAMA(), strlen(LLAMA()), &reading, &err));
        ck_assert_msg(strncmp(err.message, wrong[i].message, strlen(wrong[i].message)) == 0, "%s, not %s", err.message,
                      wrong[i].message);
    }
}
END_TEST

/* PEFT goes by names alone: of matrices that are called so, and are planned frozen, the notes tell. */
START_TEST(adapters_that_are_not_planned_are_noted)
{
    static const char deepseek[] =
        "{\"model_type\":\"deepseek_v3\",\"hidden_size\":64,\"num_hidden_layers\":4,\"num_attention_heads\":4,"
        "\"num_key_value_heads\":4,\"intermediate_size\":128,\"moe_intermediate_size\":32,\"n_routed_experts\":4,"
        "\"n_shared_experts\":1,\"num_experts_per_tok\":2,\"first_k_dense_replace\":1,\"q_lora_rank\":16,"
        "\"kv_lora_rank\":16,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":8,\"v_head_dim\":16,\"n_group\":1,"
        "\"topk_group\":1,\"vocab_size\":256,\"max_position_embeddings\":64,\"hidden_act\":\"silu\"}";
    static const char end[] =
        " blocks have no adapters here; PEFT gives one to each of their matrices that is called so";
    static const struct {
        const char *adapter, *notes[2];
    } cases[] = {
        { "{\"r\":4,\"target_modules\":[\"o_proj\",\"gate_proj\",\"up_proj\"]}",
          { "o_proj: the latent attention of 4", "gate_proj, up_proj: the shared experts of 3" } },
        { "{\"r\":4,\"target_modules\":\"all-linear\"}",
          { "all-linear: the latent attention of 4", "all-linear: the shared experts of 3" } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text notes = { 0 };
        struct model_reading reading = { .adapter = cases[i].adapter,
                                         .adapter_length = strlen(cases[i].adapter),
                                         .adapter_name = "a.json",
                                         .notes = &notes };
        model_free(import_as(deepseek, "c.json", &reading));
        for (int k = 0; k < 2; k++) {
            char note[256];
            snprintf(note, sizeof note, "%s%s", cases[i].notes[k], end);
            ck_assert_msg(strstr(notes.data, note) != NULL, "%s lacks %s", notes.data, note);
        }
        text_free(&notes);
    }
    static const char alone[] = "{\"target_modules\":[\"o_proj\"]}";
    struct model_reading reading = { .adapter = alone, .adapter_length = strlen(alone), .adapter_name = "a.json" };
    struct model *model = NULL;
    struct error err = { 0 };
    ck_assert(!model_read_as(&model, "c.json", deepseek, strlen(deepseek), &reading, &err));
    ck_assert_ptr_nonnull(strstr(err.message, "expected a matrix of softmax attention or of a dense network"));
}
END_TEST

/* What of an adapter changes no work is kept for launches, and names are those of the model's file; rslora is a scale.
 */
START_TEST(adapters_keep_what_launches_say)
{
    static const struct {
        const char *config, *adapter, *modules, *init;
        double dropout, alpha;
    } cases[] = {
        { LLAMA(),
          "{\"r\":4,\"lora_alpha\":16,\"use_rslora\":true,\"lora_dropout\":0.1,\"target_modules\":\"all-linear\"}",
          NULL, NULL, 0.1, 32 },
        { LLAMA(), "{\"target_modules\":[\"q_proj\",\"query_key_value\"],\"init_lora_weights\":true}", NULL, NULL, 0,
          8 },
        { NEOX(""), "{\"target_modules\":[\"query_key_value\",\"dense\"],\"init_lora_weights\":\"gaussian\"}",
          "query_key_value,dense", "gaussian", 0, 8 },
        { NEOX(""), "{\"target_modules\":\"all-linear\"}", "dense,query_key_value,dense_h_to_4h,dense_4h_to_h", NULL, 0,
          8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model_reading reading = { .adapter = cases[i].adapter,
                                         .adapter_length = strlen(cases[i].adapter),
                                         .adapter_name = "a.json" };
        struct model *model = import_as(cases[i].config, "c.json", &reading);
        const struct model_left_out *left = &model->left_out;
        const char *got[] = { left->adapter_modules, left->adapter_init },
                   *want[] = { cases[i].modules, cases[i].init };
        for (int k = 0; k < 2; k++)
            ck_assert_msg(!got[k] == !want[k] && (!got[k] || strcmp(got[k], want[k]) == 0), "%zu: %s, not %s", i,
                          got[k] ? got[k] : "none", want[k] ? want[k] : "none");
        CHECK_NEAR(left->adapter_dropout, cases[i].dropout, 0);
        const struct attention_layer *attention = model_unfolded_layer(model, 1)->fields;
        CHECK_NEAR(attention->lora.alpha, cases[i].alpha, 0);
        model_free(model);
    }
}
END_TEST

/* Python writes what is no JSON; in a file of ours it stays an error. */
START_TEST(infinity_is_read_in_foreign_files_alone)
{
    struct text notes = { 0 };
    struct model_reading reading = { .notes = &notes };
    struct model *model =
        import_as(LLAMA(",\"a\":[0,Infinity,-Infinity,NaN],\"b\":\"NaN \\\" Infinity\""), "c.json", &reading);
    ck_assert_ptr_nonnull(strstr(notes.data, "Python's NaN or Infinity"));
    model_free(model);
    check_refused(LLAMA(",\"head_dim\":@NaN"), "head_dim: expected an integer, found an array");
    check_refused("{\"format\":\"cleave-model\",\"a\":@NaN}", "");
    text_free(&notes);
}
END_TEST

/* A window binds where it is shorter than the sequence. */
START_TEST(windows_bind_where_they_are_short)
{
    static const struct {
        const char *config;
        int64_t windows[6];
    } cases[] = {
        { "{\"model_type\":\"mistral\",\"sliding_window\":16,", { 16, 16, 16, 16, 16, 16 } },
        { "{\"model_type\":\"mistral\",\"sliding_window\":32,", { 0 } },
        { "{\"model_type\":\"qwen2\",\"sliding_window\":16,\"use_sliding_window\":false,", { 0 } },
        { "{\"model_type\":\"qwen2\",\"sliding_window\":16,\"use_sliding_window\":true,\"max_window_layers\":4,",
          { 0, 0, 0, 0, 16, 16 } },
        { "{\"model_type\":\"gemma2\",\"sliding_window\":16,", { 16, 0, 16, 0, 16, 0 } },
        { "{\"model_type\":\"cohere2\",\"sliding_window\":16,", { 16, 16, 16, 0, 16, 16 } },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[512];
        int found = 0;
        snprintf(text, sizeof text,
                 "%s\"hidden_size\":64,\"intermediate_size\":128,\"num_attention_heads\":8,\"vocab_size\":256,"
                 "\"num_hidden_layers\":6,\"max_position_embeddings\":32}",
                 cases[i].config);
        struct model *model = import_as(text, "c.json", NULL);
        for (int k = 0; k < model_unfolded_count(model); k++) {
            const struct layer *layer = model_unfolded_layer(model, k);
            if (strcmp(layer->kind->name, "attention") == 0)
                ck_assert_int_eq(((const struct attention_layer *)layer->fields)->sliding_window,
                                 cases[i].windows[found++]);
        }
        ck_assert_int_eq(found, 6);
        model_free(model);
    }
}
END_TEST

/* Six blocks of a period of three are one repeat of three blocks, twice. */
START_TEST(blocks_that_repeat_are_folded)
{
    struct model *model = import_as(
        "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
        "\"num_attention_heads\":4,\"num_hidden_layers\":7,\"vocab_size\":256,\"sliding_window\":8,"
        "\"layer_types\":[\"sliding_attention\",\"sliding_attention\",\"full_attention\",\"sliding_attention\","
        "\"sliding_attention\",\"full_attention\",\"sliding_attention\"]}",
        "c.json", NULL);
    ck_assert_int_eq(model->block_count, 3);
    ck_assert(model->blocks[1].count == 2 && model->blocks[1].layer_count == 6);
    ck_assert_int_eq(model_unfolded_count(model), 1 + 7 * 2 + 2);
    model_free(model);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("hf");
    CHECK_ADD(s, counts_are_those_of_the_library);
    CHECK_ADD(s, counts_of_small_ones_are_those_of_the_library);
    CHECK_ADD(s, counts_of_what_is_planned_otherwise_are_near_those_of_the_library);
    CHECK_ADD(s, shared_blocks_count_once);
    CHECK_ADD(s, what_the_file_lacks_is_assumed_and_said);
    CHECK_ADD(s, files_of_makers_are_known_by_their_keys);
    CHECK_ADD(s, notes_are_of_the_file);
    CHECK_ADD(s, further_tokens_are_predicted_where_it_is_asked);
    CHECK_ADD(s, adapters_that_are_not_planned_are_noted);
    CHECK_ADD(s, adapters_are_those_of_peft);
    CHECK_ADD(s, adapters_keep_what_launches_say);
    CHECK_ADD(s, infinity_is_read_in_foreign_files_alone);
    CHECK_ADD(s, windows_bind_where_they_are_short);
    CHECK_ADD(s, blocks_that_repeat_are_folded);
    return s;
}

CHECK_MAIN(suite)
