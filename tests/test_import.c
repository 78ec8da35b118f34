/* Foreign model descriptions. */
#include "models/kinds/layers.h"
#include "tests/model_files.h"

static struct model *import(const char *text)
{
    struct error err = { 0 };
    struct model *model = NULL;
    const char *foreign = NULL;
    ck_assert_msg(model_read(&model, "config.json", text, strlen(text), &foreign, &err), "%s", err.message);
    ck_assert_str_eq(foreign, "huggingface");
    return model;
}

/* Both say the same, byte for byte. */
static void same_as_zoo(const char *config, const char *name)
{
    size_t length, other;
    struct model *model = import(config), *native = model_of_zoo(name);
    char *a = model_write(model, &length), *b = model_write(native, &other);
    ck_assert_str_eq(a, b);
    ck_assert_uint_eq(length, other);
    ck_assert(model->hash == native->hash);
    free(a);
    free(b);
    model_free(model);
    model_free(native);
}

START_TEST(gpt2_is_the_native_gpt2)
{
    same_as_zoo(
        "{\"model_type\":\"gpt2\",\"activation_function\":\"gelu_new\",\"architectures\":[\"GPT2LMHeadModel\"],"
        "\"attn_pdrop\":0.1,\"bos_token_id\":50256,\"initializer_range\":0.02,\"layer_norm_epsilon\":1e-05,\"n_ctx\":"
        "1024,"
        "\"n_embd\":768,\"n_head\":12,\"n_layer\":12,\"n_positions\":1024,\"n_inner\":null,\"vocab_size\":50257}",
        "gpt2");
}
END_TEST

/* attribute_map of transformers 5.23: GPT2Config and T5Config read these names alone. */
START_TEST(other_names_of_a_key_say_the_same)
{
    same_as_zoo("{\"model_type\":\"gpt2\",\"hidden_size\":768,\"num_attention_heads\":12,\"num_hidden_layers\":12,"
                "\"max_position_embeddings\":1024,\"vocab_size\":50257}",
                "gpt2");
    same_as_zoo(
        "{\"model_type\":\"gpt2\",\"hidden_size\":768,\"n_embd\":768.0,\"num_attention_heads\":12,\"n_head\":12,"
        "\"num_hidden_layers\":12,\"n_layer\":null,\"max_position_embeddings\":1024,\"n_ctx\":1024,"
        "\"vocab_size\":50257,\"architectures\":null}",
        "gpt2");
    same_as_zoo(
        "{\"_name_or_path\":\"t5-small\",\"model_type\":\"t5\",\"architectures\":[\"T5Model\",\"T5EncoderModel\"],"
        "\"d_ff\":2048,\"head_dim\":64,\"hidden_size\":512,\"num_attention_heads\":8,\"num_hidden_layers\":6,"
        "\"num_decoder_layers\":6,\"vocab_size\":32128}",
        "t5-small");
}
END_TEST

START_TEST(llama_is_the_native_llama)
{
    same_as_zoo(
        "{\"_name_or_path\":\"llama-2-7b\",\"architectures\":[\"LLaMAForCausalLM\"],"
        "\"model_type\":\"llama\",\"hidden_act\":\"silu\",\"hidden_size\":4096,"
        "\"initializer_range\":0.02,\"intermediate_size\":11008,\"max_position_embeddings\":4096,\"num_attention_"
        "heads\":32,"
        "\"num_hidden_layers\":32,\"num_key_value_heads\":null,\"rms_norm_eps\":1e-05,\"rope_scaling\":null,"
        "\"tie_word_embeddings\":false,\"torch_dtype\":\"float16\",\"vocab_size\":32000}",
        "llama-2-7b");
    same_as_zoo(
        "{\"_name_or_path\":\"llama-3-70b\",\"model_type\":\"llama\",\"attention_bias\":false,\"hidden_act\":\"silu\","
        "\"hidden_size\":8192,\"intermediate_size\":28672,\"max_position_embeddings\":8192,\"num_attention_heads\":64,"
        "\"num_hidden_layers\":80,\"num_key_value_heads\":8,\"rms_norm_eps\":1e-05,"
        "\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500000.0},\"vocab_size\":128256}",
        "llama-3-70b");
}
END_TEST

#define LLAMA(more)                                                                                                    \
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"           \
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256" more "}"

static int64_t parameters(const char *config)
{
    struct model *model = import(config);
    struct graph *graph = graph_of(model, 1, 0, 128);
    int64_t count = graph_parameter_count(graph);
    graph_free(graph);
    model_free(model);
    return count;
}

START_TEST(a_head_may_be_wider_than_its_share)
{
    const int64_t h = 64, f = 128, v = 256;
    int64_t rest = 2 * (3 * h * f + 2 * h) + h + v * h;
    ck_assert_int_eq(parameters(LLAMA()), rest + v * h + 2 * 4 * h * h);
    /* q: h x 4 x 32, k and v: h x 2 x 32, proj: 4 x 32 x h */
    ck_assert_int_eq(parameters(LLAMA(",\"head_dim\":32,\"num_key_value_heads\":2")),
                     rest + v * h + 2 * h * 32 * (4 + 2 + 2 + 4));
    ck_assert_int_eq(parameters(LLAMA(",\"tie_word_embeddings\":true")), rest + 2 * 4 * h * h);
    ck_assert_int_eq(parameters(LLAMA(",\"attention_bias\":true")), rest + v * h + 2 * 4 * h * h + 2 * 4 * h);
    ck_assert_int_eq(parameters(LLAMA(",\"mlp_bias\":true")), rest + v * h + 2 * 4 * h * h + 2 * (2 * f + h));
}
END_TEST

START_TEST(relatives_differ_where_they_should)
{
    struct model *qwen =
        import("{\"model_type\":\"qwen2\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
               "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256,\"use_sliding_window\":false,"
               "\"sliding_window\":16}");
    const struct attention_layer *attention = model_unfolded_layer(qwen, 1)->fields;
    ck_assert(attention->qkv_bias && !attention->output_bias);
    ck_assert_int_eq(attention->kv_heads, 4);
    model_free(qwen);
    struct model *mistral =
        import("{\"model_type\":\"mistral\",\"hidden_size\":64,\"intermediate_size\":128,\"vocab_size\":256,"
               "\"max_position_embeddings\":32,\"num_attention_heads\":16,\"num_hidden_layers\":2,"
               "\"sliding_window\":32,\"rope_theta\":1000000.0}");
    attention = model_unfolded_layer(mistral, 1)->fields;
    ck_assert_int_eq(attention->kv_heads, 8);
    CHECK_NEAR(attention->rope_base, 1e6, 0);
    ck_assert_str_eq(mistral->name, "mistral");
    model_free(mistral);
}
END_TEST

/* The keys of the published files that say something about the model. */
static int64_t t5(int width, int blocks, int heads, int inner, const char *more)
{
    char text[512];
    snprintf(text, sizeof text,
             "{\"model_type\":\"t5\",\"d_model\":%d,\"num_layers\":%d,\"num_heads\":%d,\"d_kv\":64,\"d_ff\":%d,"
             "\"vocab_size\":32128,\"n_positions\":512,\"relative_attention_num_buckets\":32,\"dropout_rate\":0.1%s}",
             width, blocks, heads, inner, more);
    return parameters(text);
}

START_TEST(t5_has_the_published_parameters)
{
    ck_assert_int_eq(t5(512, 6, 8, 2048, ""), 60506624);
    ck_assert_int_eq(t5(768, 12, 12, 3072, ""), 222903552);
    ck_assert_int_eq(t5(1024, 24, 16, 4096, ""), 737668096);
    /* The paper's repository counts a table of the head's own. */
    ck_assert_int_eq(t5(512, 6, 8, 2048, ",\"tie_word_embeddings\":false"), 76956160);
    ck_assert_int_eq(t5(768, 12, 12, 3072, ",\"tie_word_embeddings\":false"), 247577856);
    ck_assert_int_eq(t5(1024, 24, 16, 4096, ",\"tie_word_embeddings\":false"), 770567168);
    /* Version 1.1, small. */
    ck_assert_int_eq(t5(512, 8, 6, 1024, ",\"tie_word_embeddings\":false,\"feed_forward_proj\":\"gated-gelu\""),
                     76961152);
}
END_TEST

START_TEST(t5_is_the_native_t5)
{
    same_as_zoo(
        "{\"_name_or_path\":\"t5-small\",\"model_type\":\"t5\",\"architectures\":[\"T5ForConditionalGeneration\"],"
        "\"d_ff\":2048,\"d_kv\":64,\"d_model\":512,\"is_encoder_decoder\":true,\"layer_norm_epsilon\":1e-06,"
        "\"n_positions\":512,\"num_heads\":8,\"num_layers\":6,\"relative_attention_num_buckets\":32,"
        "\"vocab_size\":32128}",
        "t5-small");
}
END_TEST

#define NEOX(more)                                                                                                     \
    "{\"model_type\":\"gpt_neox\",\"hidden_size\":64,\"intermediate_size\":256,\"max_position_embeddings\":32,"        \
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256" more "}"

/* Counts without the two tables of tokens, from the model cards. */
START_TEST(pythia_has_the_published_parameters)
{
    static const struct {
        int width, blocks, heads;
        int64_t parameters;
    } published[] = { { 512, 6, 8, 18915328 },    { 768, 12, 12, 85056000 },    { 1024, 24, 16, 302311424 },
                      { 2048, 16, 8, 805736448 }, { 2048, 24, 16, 1208602624 }, { 2560, 32, 32, 2517652480 } };
    for (size_t i = 0; i < sizeof published / sizeof *published; i++) {
        char text[512];
        int width = published[i].width;
        snprintf(text, sizeof text,
                 "{\"model_type\":\"gpt_neox\",\"hidden_act\":\"gelu\",\"hidden_size\":%d,\"intermediate_size\":%d,"
                 "\"layer_norm_eps\":1e-05,\"max_position_embeddings\":2048,\"num_attention_heads\":%d,"
                 "\"num_hidden_layers\":%d,\"rotary_emb_base\":10000,\"rotary_pct\":0.25,\"tie_word_embeddings\":false,"
                 "\"use_parallel_residual\":true,\"vocab_size\":50304}",
                 width, 4 * width, published[i].heads, published[i].blocks);
        ck_assert_int_eq(parameters(text), published[i].parameters + 2 * 50304 * (int64_t)width);
    }
    same_as_zoo(
        "{\"_name_or_path\":\"pythia-410m\",\"model_type\":\"gpt_neox\",\"hidden_act\":\"gelu\",\"hidden_size\":1024,"
        "\"intermediate_size\":4096,\"max_position_embeddings\":2048,\"num_attention_heads\":16,"
        "\"num_hidden_layers\":24,\"rotary_pct\":0.25,\"vocab_size\":50304}",
        "pythia-410m");
}
END_TEST

/* google/vit-base-patch16-224: torchvision's vit_b_16 but for the norms' epsilon. */
START_TEST(vit_has_the_published_size)
{
    char text[32768] = "{\"_name_or_path\":\"vit\",\"model_type\":\"vit\",\"num_hidden_layers\":12,\"id2label\":{";
    for (int i = 0; i < 1000; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "%s\"%d\":\"class %d\"", i ? "," : "", i, i);
    snprintf(text + strlen(text), sizeof text - strlen(text), "},\"layer_norm_eps\":1e-6}");
    ck_assert_int_eq(parameters(text), 86567656);
    struct model *model = import(text), *zoo = model_of_zoo("vit-base-16");
    ck_assert_int_eq(model_unfolded_count(model), model_unfolded_count(zoo));
    for (int i = 0; i < model_unfolded_count(zoo); i++) {
        const struct layer *a = model_unfolded_layer(model, i), *b = model_unfolded_layer(zoo, i);
        ck_assert(a->kind == b->kind && layer_fields_equal(a->kind, a->fields, b->fields));
    }
    ck_assert(model->image_size == 224 && model->image_channels == 3 && model->vocab_size == 1000);
    model_free(model);
    model_free(zoo);
}
END_TEST

START_TEST(branches_run_side_by_side)
{
    struct model *model = import(NEOX(",\"rotary_pct\":0.5"));
    const struct attention_layer *attention = model_unfolded_layer(model, 1)->fields;
    ck_assert_int_eq(attention->rope_dim, 8);
    ck_assert(!attention->residual);
    ck_assert_int_eq(model_unfolded_count(model), 1 + 2 * 3 + 2);
    model_free(model);
    model = import(
        NEOX(",\"use_parallel_residual\":false,\"rope_parameters\":{\"rope_type\":\"default\",\"rope_theta\":500,"
             "\"partial_rotary_factor\":1}"));
    attention = model_unfolded_layer(model, 1)->fields;
    ck_assert(attention->residual && attention->rope_dim == 0);
    CHECK_NEAR(attention->rope_base, 500, 0);
    ck_assert_int_eq(model_unfolded_count(model), 1 + 2 * 2 + 2);
    model_free(model);
    model = import(
        "{\"model_type\":\"gpt_neox\",\"hidden_size\":64,\"intermediate_size\":256,\"max_position_embeddings\":32,"
        "\"num_attention_heads\":4,\"num_hidden_layers\":1,\"vocab_size\":256}"); /* a repeat of one copy */
    ck_assert_int_eq(model_unfolded_count(model), 1 + 3 + 2);
    int inputs[MAX_LAYER_INPUTS];
    ck_assert_int_eq(model_unfolded_inputs(model, 3, inputs), 3);
    ck_assert(inputs[0] == 0 && inputs[1] == 1 && inputs[2] == 2);
    model_free(model);
}
END_TEST

START_TEST(stretched_rotation_is_read)
{
    struct model *model =
        import(LLAMA(",\"rope_theta\":500000.0,\"rope_scaling\":{\"factor\":8.0,\"low_freq_factor\":1.0,"
                     "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":8192,"
                     "\"rope_type\":\"llama3\"}"));
    const struct attention_layer *attention = model_unfolded_layer(model, 1)->fields;
    ck_assert(attention->rope_factor == 8 && attention->rope_low == 1 && attention->rope_high == 4);
    ck_assert_int_eq(attention->rope_original, 8192);
    CHECK_NEAR(attention->rope_base, 500000, 0);
    model_free(model);
}
END_TEST

/* What no layer says of positions stands beside the layers, also in what is written of them. */
START_TEST(test_what_is_left_out_is_kept)
{
    struct model *model = import(LLAMA(",\"num_nextn_predict_layers\":1,\"rope_scaling\":{\"rope_type\":\"yarn\","
                                       "\"factor\":4.0,\"original_max_position_embeddings\":32768,\"mscale\":0.7,"
                                       "\"mscale_all_dim\":0.6,\"truncate\":false}")),
                 *copy = NULL;
    struct error err = { 0 };
    size_t length;
    char *text = model_write(model, &length);
    ck_assert_msg(model_read(&copy, "copy", text, length, NULL, &err), "%s", err.message);
    const struct model_left_out *left[] = { &model->left_out, &copy->left_out };
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(left[i]->positions, "yarn");
        ck_assert(left[i]->factor == 4 && left[i]->original == 32768 && left[i]->beta_fast == 32);
        ck_assert(left[i]->beta_slow == 1 && left[i]->mscale == .7 && left[i]->mscale_all_dim == .6 && left[i]->exact);
        ck_assert_int_eq(left[i]->further_blocks, 1);
    }
    free(text);
    model_free(copy);
    model_free(model);
    /* a given attention_factor is the mscale that gives it, whatever else is said */
    static const struct {
        const char *box;
        double factor;
    } given[] = { { "1.1,\"mscale\":0.7", 1.1 },
                  { "1.25,\"mscale\":0.7,\"mscale_all_dim\":0.6", 1.25 },
                  { "1.0", 1 },
                  { "0.5", 0.5 } };
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        char json[1024];
        snprintf(json, sizeof json,
                 LLAMA(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4.0,\"attention_factor\":%s}"),
                 given[i].box);
        model = import(json);
        text = model_write(model, &length);
        ck_assert_msg(model_read(&copy, "copy", text, length, NULL, &err), "%s", err.message);
        const struct model_left_out *kept = &copy->left_out;
        CHECK_NEAR((1 + .1 * kept->mscale * log(4)) / (1 + .1 * kept->mscale_all_dim * log(4)), given[i].factor, 1e-9);
        free(text);
        model_free(copy);
        model_free(model);
    }
    /* by a factor of 1 no mscale gives one; 1 needs none */
    struct text notes = { 0 };
    struct model_reading reading = { .notes = &notes };
    static const char alone[] = "no setting of a launch says attention_factor 1.1 of yarn with factor 1";
    const char *ones[] = { LLAMA(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":1.0,\"attention_factor\":1}"),
                           LLAMA(
                               ",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":1.0,\"attention_factor\":1.1}") };
    for (int i = 0; i < 2; i++) {
        model = NULL;
        ck_assert_msg(model_read_as(&model, "c.json", ones[i], strlen(ones[i]), &reading, &err), "%s", err.message);
        ck_assert_int_eq(notes.data && strstr(notes.data, alone), i);
        model_free(model);
    }
    text_free(&notes);
    model = import(LLAMA(""));
    text = model_write(model, &length);
    ck_assert_ptr_null(strstr(text, "left_out"));
    free(text);
    model_free(model);
}
END_TEST

#define MIXTRAL(more)                                                                                                  \
    "{\"_name_or_path\":\"mixtral-8x7b\",\"model_type\":\"mixtral\",\"attention_dropout\":0.0,\"hidden_act\":"         \
    "\"silu\","                                                                                                        \
    "\"hidden_size\":4096,\"initializer_range\":0.02,\"intermediate_size\":14336,\"max_position_embeddings\":32768,"   \
    "\"num_attention_heads\":32,\"num_experts_per_tok\":2,\"num_hidden_layers\":32,\"num_key_value_heads\":8,"         \
    "\"num_local_experts\":8,\"rms_norm_eps\":1e-05,\"rope_theta\":1000000.0,\"router_aux_loss_coef\":0.02,"           \
    "\"sliding_window\":null,\"tie_word_embeddings\":false,\"vocab_size\":32000" more "}"
#define DEEPSEEK(more)                                                                                                 \
    "{\"_name_or_path\":\"deepseek-moe-16b\",\"model_type\":\"deepseek\",\"attention_bias\":false,"                    \
    "\"aux_loss_alpha\":0.001,\"first_k_dense_replace\":1,\"hidden_act\":\"silu\",\"hidden_size\":2048,"               \
    "\"initializer_range\":0.02,\"intermediate_size\":10944,\"max_position_embeddings\":4096,"                         \
    "\"moe_intermediate_size\":1408,\"moe_layer_freq\":1,\"n_routed_experts\":64,\"n_shared_experts\":2,"              \
    "\"num_attention_heads\":16,\"num_experts_per_tok\":6,\"num_hidden_layers\":28,\"num_key_value_heads\":16,"        \
    "\"rms_norm_eps\":1e-06,\"rope_theta\":10000,\"scoring_func\":\"softmax\",\"seq_aux\":true,\"vocab_size\":"        \
    "102400" more "}"

START_TEST(mixtures_are_the_native_ones)
{
    same_as_zoo(MIXTRAL(",\"output_router_logits\":true"), "mixtral-8x7b");
    same_as_zoo(DEEPSEEK(",\"norm_topk_prob\":false"), "deepseek-moe-16b");
}
END_TEST

/* Without output_router_logits transformers adds no auxiliary loss; missing keys mean what its classes say. */
START_TEST(mixtures_differ_where_they_should)
{
    struct model *model = import(MIXTRAL());
    const struct moe_layer *moe = model_unfolded_layer(model, 2)->fields;
    ck_assert(moe->balance == 0 && moe->dropless && moe->gates == GATES_OF_CHOSEN && moe->shared_inner == 0);
    model_free(model);
    model = import("{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":128,"
                   "\"max_position_embeddings\":32,\"num_attention_heads\":8,\"num_hidden_layers\":1,"
                   "\"vocab_size\":256}");
    const struct attention_layer *attention = model_unfolded_layer(model, 1)->fields;
    moe = model_unfolded_layer(model, 2)->fields;
    ck_assert(attention->rope_base == 1e6 && attention->norm_epsilon == 1e-5 && attention->kv_heads == 8);
    ck_assert(moe->experts == 8 && moe->choices == 2 && moe->norm_epsilon == 1e-5);
    model_free(model);
    model = import("{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":128,\"num_experts\":4,"
                   "\"max_position_embeddings\":32,\"num_attention_heads\":8,\"num_hidden_layers\":1,"
                   "\"vocab_size\":256}");
    moe = model_unfolded_layer(model, 2)->fields;
    ck_assert_int_eq(moe->experts, 4);
    model_free(model);
    model = import(DEEPSEEK(",\"norm_topk_prob\":true"));
    ck_assert_str_eq(model_unfolded_layer(model, 2)->kind->name, "mlp");
    moe = model_unfolded_layer(model, 4)->fields;
    ck_assert(moe->gates == GATES_OF_CHOSEN && moe->shared_inner == 2816);
    model_free(model);
}
END_TEST

#define GPT2(more) "{\"model_type\":\"gpt2\",\"n_embd\":64,\"n_layer\":2,\"n_positions\":32,\"vocab_size\":256" more "}"

static const struct {
    const char *text, *message; /* '@' marks the place; the message's beginning */
} refused[] = {
    { "{\"model_type\":@\"lama\"}",
      "model_type: no family of this importer has the model_type \"lama\"; the nearest is "
      "llama: cleave import FILE --as llama reads it as a LlamaForCausalLM, that is with RMS norms, a "
      "gated network and rotary positions; or describe" },
    { "@{\"model_type\":\"bloom\"}", "expected the key \"hidden_size\"" },
    { "@{\"model_type\":\"t5\"}", "expected the key \"d_model\"" },
    { "{\"model_type\":\"t5\",\"is_encoder_decoder\":@false}", "is_encoder_decoder: only true is supported" },
    { "{\"model_type\":\"t5\",\"d_model\":8,\"num_layers\":1,\"num_heads\":2,\"d_kv\":4,\"d_ff\":8,\"vocab_size\":9,"
      "\"feed_forward_proj\":@\"gated-silu\"}",
      "feed_forward_proj: expected a supported word such as \"relu\", found \"gated-silu\"" },
    { "{\"model_type\":\"t5\",\"d_model\":8,\"num_layers\":1,\"num_heads\":2,\"d_kv\":4,\"d_ff\":8,\"vocab_size\":9,"
      "\"relative_attention_max_distance\":@16}",
      "relative_attention_max_distance: expected at least 4 buckets" },
    { NEOX(",\"hidden_act\":@\"Si lu\""), "hidden_act: expected the name of an activation such as \"gelu\"" },
    { NEOX(",\"rotary_pct\":@0.2"), "rotary_pct: rotary positions turn pairs: expected an even part of 16" },
    { "{\"model_type\":@3}", "model_type: " },
    { "{\"model_type\":\"nemotron-nas\",\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
      "\"vocab_size\":256,\"block_configs\":@null}",
      "block_configs: expected a value, found null" },
    { "{\"model_type\":\"kimi_linear\",\"hidden_size\":64,\"num_hidden_layers\":3,\"num_attention_heads\":4,"
      "\"vocab_size\":256,\"intermediate_size\":96,\"kv_lora_rank\":@null}",
      "kv_lora_rank: expected a value, found null" },
    { "@" GPT2(), "expected the key \"n_head\"" },
    { GPT2(",\"n_head\":@null"), "n_head: " },
    { GPT2(",\"n_head\":@0"), "n_head: " },
    { GPT2(",\"n_head\":@5"), "n_head: expected a divisor of the hidden size (64), found 5" },
    { GPT2(",\"n_head\":4,\"scale_attn_by_inverse_layer_idx\":@true"),
      "scale_attn_by_inverse_layer_idx: only false is supported" },
    { GPT2(",\"n_head\":4,\"add_cross_attention\":@\"no\""), "add_cross_attention: " },
    { GPT2(",\"n_head\":4,\"tie_word_embeddings\":@1"), "tie_word_embeddings: " },
    { GPT2(",\"n_head\":4,\"hidden_size\":@128"),
      "hidden_size: expected the value of n_embd, for which it is another name (64 at line 1, column 31), found 128: "
      "leave out the one that is wrong" },
    { GPT2(",\"n_head\":4,\"num_hidden_layers\":@7"), "num_hidden_layers: expected the value of n_layer, " },
    { "{\"num_attention_heads\":@2,\n\"n_head\":4,\"model_type\":\"gpt2\"}",
      "num_attention_heads: expected the value of n_head, for which it is another name (4 at line 2, column 10), found "
      "2" },
    { GPT2(",\"n_head\":4,\"max_position_embeddings\":@33"),
      "max_position_embeddings: expected the value of n_positions" },
    { GPT2(",\"n_head\":4,\"n_ctx\":@31.5"), "n_ctx: expected the value of n_positions, " },
    { "{\"model_type\":\"gpt2\",\"n_ctx\":@9,\"max_position_embeddings\":8}",
      "n_ctx: expected the value of max_position_embeddings, " },
    { GPT2(",\"n_head\":4,\"hidden_size\":@\"64\""), "hidden_size: expected a number, found \"64\"" },
    { GPT2(",\"num_attention_heads\":@5"), "num_attention_heads: expected a divisor of the hidden size (64), found 5" },
    { "{\"model_type\":\"t5\",\"d_model\":8,\"hidden_size\":@16}", "hidden_size: expected the value of d_model, " },
    { "{\"model_type\":\"t5\",\"num_layers\":8,\"num_hidden_layers\":@9}",
      "num_hidden_layers: expected the value of num_layers, " },
    { "{\"model_type\":\"t5\",\"num_heads\":8,\"num_attention_heads\":@9}",
      "num_attention_heads: expected the value of num_heads, " },
    { "{\"model_type\":\"t5\",\"d_kv\":8,\"head_dim\":@9}", "head_dim: expected the value of d_kv, " },
    { "@{\"model_type\":\"t5\",\"d_model\":8,\"num_hidden_layers\":1,\"num_heads\":2,\"d_kv\":4,\"d_ff\":8,"
      "\"vocab_size\":9}",
      "expected the key \"num_decoder_layers\"" },
    { MIXTRAL(",\"num_experts\":@4"), "num_experts: expected the value of num_local_experts, " },
    { "{\"model_type\":\"gpt2\",\"architectures\":[@\"LlamaForCausalLM\"]}",
      "architectures[0]: expected a class of the model_type (\"gpt2\" at line 1, column 15) such as GPT2LMHeadModel, "
      "found \"LlamaForCausalLM\": correct the one that is wrong" },
    { "{\"model_type\":\"qwen2\",\"architectures\":[\"Qwen2ForCausalLM\",@\"Qwen2MoeForCausalLM\"]}",
      "architectures[1]: expected a class of the model_type" },
    { "{\"model_type\":\"gpt2\",\"architectures\":@\"GPT2LMHeadModel\"}",
      "architectures: expected an array of names of classes, found a string" },
    { "{\"model_type\":\"gpt2\",\"architectures\":[@3]}", "architectures[0]: expected a string, found 3" },
    { "{\"model_type\":\"mixtral\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
      "\"num_attention_heads\":8,\"num_hidden_layers\":1,\"vocab_size\":256,\"num_experts_per_tok\":@9}",
      "num_experts_per_tok: expected at most 64 of the model's 8 experts, found 9" },
    { "{\"model_type\":\"deepseek\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
      "\"num_attention_heads\":8,\"num_hidden_layers\":1,\"vocab_size\":256,\"n_routed_experts\":4,"
      "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"first_k_dense_replace\":@1}",
      "first_k_dense_replace: expected fewer than num_hidden_layers (1), found 1" },
    { "{\"model_type\":\"deepseek\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
      "\"num_attention_heads\":8,\"num_hidden_layers\":1,\"vocab_size\":256,\"n_routed_experts\":4,"
      "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32,\"n_shared_experts\":@268435456}",
      "n_shared_experts: expected shared experts of at most 268435456 neurons together, found 268435456 times 32" },
    { "{\"model_type\":\"deepseek\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
      "\"num_attention_heads\":8,\"num_hidden_layers\":1,\"vocab_size\":256,\"n_routed_experts\":@65537,"
      "\"num_experts_per_tok\":2,\"moe_intermediate_size\":32}",
      "n_routed_experts: expected at most 65536 experts, found 65537" },
    { LLAMA(",\"num_key_value_heads\":@3"),
      "num_key_value_heads: expected a divisor of num_attention_heads (4), found 3" },
    { LLAMA(",\"head_dim\":@5"), "head_dim: rotary positions turn pairs" },
    { LLAMA(",\"head_dim\":@true"), "head_dim: " },
    { LLAMA(",\"rope_theta\":@0"), "rope_theta: expected a positive base" },
    { LLAMA(",\"rope_parameters\":@{\"rope_type\":\"llama3\"}"), "rope_parameters: expected the key \"factor\"" },
    { LLAMA(",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8,\"low_freq_factor\":4,\"high_freq_factor\":@3,"
            "\"original_max_position_embeddings\":8192}"),
      "rope_scaling.high_freq_factor: expected at least low_freq_factor (4), found 3" },
    { LLAMA(",\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":4,\"beta_fast\":@true}"),
      "rope_scaling.beta_fast: expected a number" },
    { LLAMA(",\"rope_scaling\":@[]"), "rope_scaling: expected an object or null" },
    { LLAMA(",\"partial_rotary_factor\":@0.2"), "partial_rotary_factor: rotary positions turn pairs" },
    { LLAMA(",\"layer_types\":@[\"full_attention\"]"),
      "layer_types: expected as many entries as num_hidden_layers (2)" },
    { LLAMA(",\"layer_types\":[\"full_attention\",@\"rwkv\"]"), "layer_types[1]: expected \"full_attention\"" },
    { LLAMA(",\"layer_types\":[\"full_attention\",@\"sliding_attention\"]"),
      "layer_types[1]: expected a sliding_window beside it" },
    { LLAMA(",\"text_config\":@3"), "text_config: expected an object, found a number" },
};

START_TEST(what_cannot_be_said_is_refused_where_it_stands)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refused(refused[i].text, refused[i].message);
}
END_TEST

START_TEST(native_models_are_not_foreign)
{
    static const char text[] =
        "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"sequence\":1,\"layers\":[{\"kind\":\"opaque\","
        "\"forward_us\":1,\"backward_us\":2,\"activation_elements\":3}]}";
    const char *foreign = "unset";
    struct model *model = NULL;
    struct error err = { 0 };
    ck_assert_msg(model_read(&model, "m", text, strlen(text), &foreign, &err), "%s", err.message);
    ck_assert_ptr_null(foreign);
    ck_assert(model->opaque);
    model_free(model);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("import");
    CHECK_ADD(s, gpt2_is_the_native_gpt2);
    CHECK_ADD(s, other_names_of_a_key_say_the_same);
    CHECK_ADD(s, llama_is_the_native_llama);
    CHECK_ADD(s, a_head_may_be_wider_than_its_share);
    CHECK_ADD(s, relatives_differ_where_they_should);
    CHECK_ADD(s, t5_has_the_published_parameters);
    CHECK_ADD(s, t5_is_the_native_t5);
    CHECK_ADD(s, pythia_has_the_published_parameters);
    CHECK_ADD(s, mixtures_are_the_native_ones);
    CHECK_ADD(s, mixtures_differ_where_they_should);
    CHECK_ADD(s, vit_has_the_published_size);
    CHECK_ADD(s, branches_run_side_by_side);
    CHECK_ADD(s, stretched_rotation_is_read);
    CHECK_ADD(s, test_what_is_left_out_is_kept);
    CHECK_ADD(s, what_cannot_be_said_is_refused_where_it_stands);
    CHECK_ADD(s, native_models_are_not_foreign);
    return s;
}

CHECK_MAIN(suite)
