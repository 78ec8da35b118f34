/* The native format: reading, writing, refusing. */
#include "models/kinds/layers.h"
#include "models/model_make.h"
#include "tests/model_files.h"
#include "tests/zoo_models.h"

START_TEST(writing_and_reading_change_no_byte)
{
    for (int m = 0; m < ZOO; m++) {
        size_t length, again;
        struct model *model = model_of_zoo(zoo[m].name);
        char *text = model_write(model, &length);
        struct model *copy = model_of_text(text);
        char *second = model_write(copy, &again);
        ck_assert_uint_eq(length, again);
        ck_assert_mem_eq(text, second, length);
        ck_assert(model->hash == copy->hash);
        free(text);
        free(second);
        model_free(model);
        model_free(copy);
    }
}
END_TEST

START_TEST(one_copy_is_a_plain_layer)
{
    struct model *plain = model_of_text(BODY(ATTENTION()));
    struct model *repeat = model_of_text(BODY("{\"repeat\":1,\"layers\":[" ATTENTION() "]}"));
    struct model *twice = model_of_text(BODY("{\"repeat\":2,\"layers\":[" ATTENTION() "]}"));
    ck_assert(plain->hash == repeat->hash);
    ck_assert(plain->hash != twice->hash);
    ck_assert_int_eq(plain->block_count, 1);
    ck_assert_int_eq(twice->block_count, 3);
    ck_assert_int_eq(model_unfolded_count(twice), 5);
    ck_assert_ptr_eq(model_unfolded_layer(twice, 1), model_unfolded_layer(twice, 2));
    ck_assert_ptr_null(model_unfolded_layer(twice, 5));
    model_free(plain);
    model_free(repeat);
    model_free(twice);
}
END_TEST

#define HEAD "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"sequence\":8,"
#define SIZES "\"hidden\":16,\"vocab_size\":10,"

static const struct {
    const char *text, *message; /* '@' marks the place; the message's beginning */
} hostile[] = {
    { "@", "" },
    { "@[]", "expected a model" },
    { "@{}", "expected \"format\": \"cleave-model\", or a Hugging Face" },
    { "{\"format\":@\"other\",\"version\":1,\"name\":\"t\",\"sequence\":8,\"layers\":[]}",
      "format: expected \"cleave-model\", found \"other\"" },
    { "{\"format\":\"cleave-model\",\"version\":@2,\"name\":\"t\",\"sequence\":8,\"layers\":[]}", "version: expected" },
    { "{\"format\":\"cleave-model\",\"version\":1,\"name\":@\"\",\"sequence\":8,\"layers\":[]}",
      "name: expected a name" },
    { "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"sequence\":@0,\"layers\":[]}",
      "sequence: expected" },
    { "@{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"layers\":[]}", "" },
    { HEAD "\"hiden\":@16,\"layers\":[]}", "hiden: unknown key, did you mean \"hidden\"?" },
    { HEAD "\"layers\":@7}", "layers: expected an array of layers, found " },
    { HEAD "\"layers\":@[]}", "layers: expected at least one layer" },
    { HEAD "\"layers\":[@3]}", "layers[0]: expected a layer" },
    { HEAD "\"layers\":[@{}]}", "layers[0]: " },
    { HEAD "\"layers\":[{\"kind\":@\"atention\"}]}",
      "layers[0].kind: expected one of embedding, attention, latent_attention, cross_attention, "
      "mlp, moe, state_space, linear_attention, multi_token, multi_token_loss, norm, patches, conv, pool, add, concat, "
      "head, loss, opaque, found "
      "\"atention\"; did you mean "
      "\"attention\"?" },
    { HEAD "\"layers\":[@{\"kind\":\"embedding\"}]}",
      "layers[0]: expected the model's hidden beside its layers: embedding needs it" },
    { HEAD "\"hidden\":16,\"layers\":[@{\"kind\":\"embedding\"}]}",
      "layers[0]: expected the model's vocab_size beside its layers: embedding needs it" },
    { HEAD SIZES "\"layers\":@[{\"kind\":\"loss\"}]}",
      "layers: expected embedding, attention, mlp and the like, head, loss, or opaque layers "
      "only; layer 0 of 1 should be embedding, patches or conv, found loss" },
    { HEAD SIZES "\"layers\":@[{\"kind\":\"embedding\"}]}",
      "layers: expected at least embedding, head and loss, found 1 layers" },
    { HEAD SIZES "\"layers\":@[{\"kind\":\"embedding\"},{\"kind\":\"loss\"}]}",
      "layers: expected at least embedding, head and loss" },
    { HEAD SIZES "\"layers\":@[{\"kind\":\"embedding\"},{\"kind\":\"embedding\"},{\"kind\":\"loss\"}]}",
      "layers: expected embedding, attention, mlp and the like, head, loss" },
    { HEAD SIZES "\"layers\":@[{\"kind\":\"embedding\"},{\"kind\":\"loss\"},{\"kind\":\"head\",\"norm\":\"none\"},"
                 "{\"kind\":\"loss\"}]}",
      "layers: expected embedding, attention, mlp and the like, head, loss, or opaque layers only; layer 1 of 4 should "
      "be attention, mlp or another between embedding and head, found loss" },
    { HEAD SIZES "\"layers\":[@{\"kind\":\"embedding\"},{\"kind\":\"embedding\"},{\"kind\":\"head\",\"norm\":\"none\"},"
                 "{\"kind\":\"loss\"}]}",
      "layers[0]: nobody reads the output of embedding (layer 0 of 4): name it in the \"inputs\"" },
    { BODY("{\"repeat\":2,\"layers\":[@" ATTENTION(",\"name\":\"lost\"") "," ATTENTION(",\"inputs\":[\"entry\"]") "]}"),
      "layers[1].layers[0]: nobody reads the output of lost (layer 1 of 7)" },
    { BODY("{\"kind\":\"add\",\"inputs\":[\"previous\",@\"embeding\"]}"),
      "layers[1].inputs[1]: expected \"previous\", \"entry\" or the name of an earlier layer, found \"embeding\"; did "
      "you "
      "mean \"embedding\"?; a layer reads only what stands before it, so there are no cycles" },
    { BODY("{\"kind\":\"add\",\"name\":\"x\",\"inputs\":[\"previous\",@\"x\"]}"),
      "layers[1].inputs[1]: expected \"previous\"" },
    { BODY("{\"kind\":\"add\",\"inputs\":[\"previous\",@\"later\"]}," ATTENTION(",\"name\":\"later\"")),
      "layers[1].inputs[1]: expected \"previous\", \"entry\" or the name of an earlier layer, found \"later\"" },
    { BODY("{\"kind\":\"add\",\"inputs\":@[\"previous\"]}"),
      "layers[1].inputs: add reads 2 to 4 layers: expected as many names, found 1" },
    { BODY("@{\"kind\":\"add\"}"), "layers[1]: add reads 2 to 4 layers: expected as many names, found 0" },
    { BODY("@{\"kind\":\"cross_attention\",\"heads\":4,\"norm\":\"none\"}"),
      "layers[1]: cross_attention reads 2 layers: expected as many names, found 0" },
    { BODY(ATTENTION(",\"inputs\":@[]")),
      "layers[1].inputs: attention reads 1 layer: expected as many names, found 0" },
    { BODY(ATTENTION(",\"inputs\":@\"previous\"")), "layers[1].inputs: expected an array of layer names, found " },
    { BODY(ATTENTION(",\"inputs\":[@1]")), "layers[1].inputs[0]: " },
    { BODY("{\"kind\":\"add\",\"inputs\":@[\"previous\",\"previous\",\"previous\",\"previous\",\"previous\"]}"),
      "layers[1].inputs: expected at most 4 layer names, found 5" },
    { BODY(ATTENTION(",\"name\":@\"entry\"")), "layers[1].name: expected another name" },
    { BODY(ATTENTION() "," ATTENTION() ",{\"kind\":\"add\",\"inputs\":[\"previous\",@\"attention\"]}"),
      "layers[3].inputs[1]: several layers are called \"attention\"" },
    { BODY("{\"repeat\":2,\"layers\":[" ATTENTION(
          ",\"name\":\"a\"") "]},{\"kind\":\"add\",\"inputs\":[\"previous\",@\"a[2]\"]}"),
      "layers[2].inputs[1]: expected a copy from 0 to 1, found 2" },
    { BODY("{\"repeat\":2,\"layers\":[" ATTENTION(
          ",\"name\":\"a\"") "]},{\"kind\":\"add\",\"inputs\":[\"previous\",@\"a[-1]\"]}"),
      "layers[2].inputs[1]: expected the name alone" },
    { BODY("{\"repeat\":2,\"layers\":[" ATTENTION(
          ",\"name\":\"a\"") "]},{\"kind\":\"add\",\"inputs\":[\"previous\",@\"a[1\"]}"),
      "layers[2].inputs[1]: expected the name alone" },
    { BODY("{\"repeat\":2,\"layers\":[" ATTENTION(
          ",\"name\":\"a\"") ",{\"kind\":\"add\",\"inputs\":[\"previous\",@\"a[copy]\"]}]}"),
      "layers[1].layers[1].inputs[1]: both layers stand in one repeat" },
    { BODY("{\"repeat\":2,\"layers\":[" ATTENTION(
          ",\"name\":\"a\"") "]},{\"repeat\":3,\"layers\":[{\"kind\":\"add\",\"inputs\":"
                             "[\"previous\",@\"a[last-copy]\"]}]}"),
      "layers[2].layers[0].inputs[1]: expected a layer of at least as many copies as this one's 3, found 2" },
    { MODEL("{\"kind\":\"embedding\",\"inputs\":@[\"previous\"]}"), "layers[0].inputs: embedding reads 0 layers" },
    { MODEL("{\"kind\":\"embedding\",\"shared_table\":@true}"),
      "layers[0].shared_table: expected an embedding before this one, found none" },
    { MODEL("{\"kind\":\"attention\",\"heads\":4,\"norm\":\"none\",\"inputs\":[@\"previous\"]}"),
      "layers[0].inputs[0]: expected an earlier layer: there is none" },
    { MODEL(
          "{\"kind\":\"embedding\"},{\"kind\":\"head\",\"norm\":\"none\"},{\"kind\":\"loss\",\"inputs\":[@\"head\"]}"),
      "layers[2].inputs[0]: expected \"previous\": the loss reads the head before it" },
    { MODEL("{\"kind\":\"embedding\"},{\"kind\":\"head\",\"norm\":\"none\"},{\"kind\":\"norm\",\"norm\":\"rms_norm\","
            "\"inputs\":[@\"head\"]}"),
      "layers[2].inputs[0]: expected a layer whose output is (batch, sequence, hidden): head is a head" },
    { BODY("{\"kind\":\"norm\",\"norm\":@\"none\"}"), "layers[1].norm: expected layer_norm or rms_norm" },
    { BODY(ATTENTION(",\"rope_dim\":@2")), "layers[1].rope_dim: expected an even number up to head_dim (4) beside" },
    { BODY(ATTENTION(",\"rope_base\":10,\"rope_dim\":@3")), "layers[1].rope_dim: expected an even number" },
    { BODY(ATTENTION(",\"rope_base\":10,\"rope_factor\":@8")), "layers[1].rope_factor: expected beside it" },
    { BODY(ATTENTION(",\"shared\":@\"a.b\"")), "layers[1].shared: expected 1 to 64 letters" },
    { BODY(ATTENTION(",\"relative_table\":@\"a.b\"")), "layers[1].relative_table: expected 1 to 64 letters" },
    { BODY(ATTENTION(",\"stored_scores\":@true,\"relative_table\":\"a\"")),
      "layers[1].stored_scores: expected no relative_table beside it" },
    { BODY(ATTENTION(",\"kv_heads\":2,\"relative_table\":@\"a\"")),
      "layers[1].relative_table: expected as many key and value heads as heads (4) beside it, found 2" },
    { BODY(ATTENTION(",\"relative_table\":\"a\",\"relative_distance\":@16")),
      "layers[1].relative_distance: expected more than 16, found 16" },
    { BODY(ATTENTION(",\"relative_table\":\"a\"") "," ATTENTION(",\"relative_buckets\":8,\"relative_table\":@\"a\"")),
      "layers[2].relative_table: attention shares the table: expected 4 heads and 32 buckets, not frozen, as there" },
    { BODY(ATTENTION(",\"alibi\":true,\"sinks\":@true")), "layers[1].sinks: expected no alibi beside it" },
    { BODY(ATTENTION(",\"score_cap\":2,\"stored_scores\":@true")),
      "layers[1].stored_scores: expected no score_cap beside it" },
    { BODY(ATTENTION(",\"qk_norm\":\"head\",\"qk_norm_kind\":@\"none\"")),
      "layers[1].qk_norm_kind: expected a norm beside a qk_norm" },
    { BODY(ATTENTION(",\"residual\":false,\"residual_scale\":@2")),
      "layers[1].residual_scale: expected a layer that is added to its input" },
    { BODY("{\"kind\":\"mlp\",\"inner\":8,\"activation\":\"gelu\",\"norm\":\"rms_norm\",\"post_norm\":true,"
           "\"output_norm\":@\"rms_norm\"}"),
      "layers[1].output_norm: expected no post_norm beside it" },
    { BODY(ATTENTION(",\"lora_r\":@4,\"frozen\":true")), "layers[1].lora_r: expected target_modules beside it" },
    { BODY(ATTENTION(",\"lora_r\":@4,\"target_modules\":[\"q_proj\"]")),
      "layers[1].lora_r: expected \"frozen\": true beside it" },
    { BODY(ATTENTION(",\"frozen\":true,\"target_modules\":@[\"q_proj\"]")),
      "layers[1].target_modules: expected a lora_r beside it" },
    { BODY(ATTENTION(",\"frozen\":true,\"lora_r\":4,\"target_modules\":[@\"out_proj\"]")),
      "layers[1].target_modules[0]: expected one of \"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\" (did you mean "
      "\"o_proj\"?)" },
    { BODY(ATTENTION(",\"frozen\":true,\"lora_alpha\":@0")), "layers[1].lora_alpha: expected a number from " },
    { BODY("{\"kind\":\"mlp\",\"inner\":8,\"activation\":\"gelu\",\"norm\":\"none\",\"frozen\":true,\"lora_r\":2,"
           "\"target_modules\":@[\"gate_proj\"]}"),
      "layers[1].target_modules: expected up_proj and down_proj: gelu has no gate" },
    { BODY("@" ATTENTION(",\"rope_base\":10,\"rope_original_positions\":8")), "layers[1]: expected a rope_factor" },
    { HEAD SIZES "\"layers\":[{\"repeat\":2,\"layers\":[@{\"repeat\":2,\"layers\":[]}]}]}",
      "layers[0].layers[0]: repeats do not nest" },
    { HEAD SIZES "\"layers\":[{\"repeat\":2,\"layers\":@[]}]}", "layers[0].layers: expected at least one layer" },
    { HEAD SIZES "\"layers\":[{\"repeat\":2,\"layers\":[@7]}]}", "layers[0].layers[0]: expected an object" },
    { HEAD SIZES "\"layers\":[{\"repeat\":@0,\"layers\":[]}]}", "layers[0].repeat: expected" },
    { HEAD SIZES "\"layers\":[@{\"repeat\":2}]}", "layers[0]: " },
    { HEAD SIZES "\"layers\":[{\"repeat\":10000,\"layers\":[{\"kind\":\"loss\"},@{\"kind\":\"loss\"}]}]}",
      "layers[0].layers[1]: expected at most 10000 layers after unfolding" },
    { HEAD SIZES "\"layers\":[{\"kind\":\"embedding\",\"learned_positions\":@4}]}",
      "layers[0].learned_positions: expected at least the model's sequence (8 tokens), found 4" },
    { HEAD SIZES "\"layers\":[{\"kind\":\"attention\",\"norm\":\"none\",\"heads\":@3}]}",
      "layers[0].heads: expected a divisor of hidden (16), or head_dim beside it, found 3" },
    { HEAD SIZES "\"layers\":[{\"kind\":\"attention\",\"norm\":\"none\",\"heads\":4,\"kv_heads\":@3}]}",
      "layers[0].kv_heads: expected a divisor of heads (4), found 3" },
    { HEAD SIZES
      "\"layers\":[{\"kind\":\"attention\",\"norm\":\"none\",\"heads\":4,\"head_dim\":5,\"rope_base\":@10}]}",
      "layers[0].rope_base: rotary positions turn pairs: expected an even head_dim, found 5" },
    { HEAD SIZES "\"layers\":[{\"kind\":\"attention\",\"norm\":@\"batch\",\"heads\":4}]}", "layers[0].norm: " },
    { HEAD SIZES "\"layers\":[{\"kind\":\"attention\",\"norm\":\"none\",\"heads\":@4.5}]}", "layers[0].heads: " },
    { HEAD SIZES "\"layers\":[{\"kind\":\"attention\",\"norm\":\"none\",\"heads\":@-4}]}", "layers[0].heads: " },
    { HEAD SIZES "\"layers\":[{\"kind\":\"attention\",\"norm\":\"none\",\"heads\":4,\"causal\":@1}]}",
      "layers[0].causal: " },
    { HEAD SIZES "\"layers\":[@{\"kind\":\"mlp\",\"norm\":\"none\",\"activation\":\"gelu\"}]}", "layers[0]: " },
    { HEAD SIZES "\"layers\":[{\"kind\":\"loss\",\"name\":@\"a.b\"}]}", "layers[0].name: expected 1 to 64 letters" },
    { HEAD SIZES "\"layers\":[{\"kind\":\"loss\",\"name\":@\"\"}]}", "layers[0].name: expected 1 to 64 letters" },
    { HEAD "\"layers\":[{\"kind\":\"opaque\",\"forward_us\":1,\"backward_us\":@1e10,\"activation_elements\":1}]}",
      "layers[0].backward_us: " },
    { HEAD SIZES "\"layers\":@[{\"kind\":\"opaque\",\"forward_us\":1,\"backward_us\":1,\"activation_elements\":1},{"
                 "\"kind\":\"loss\"}]}",
      "layers: expected embedding, attention, mlp and the like, head, loss, or opaque layers only; layer 1 of 2 should "
      "be opaque, found loss" },
};

START_TEST(hostile_models_are_refused_where_they_err)
{
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        check_refused(hostile[i].text, hostile[i].message);
}
END_TEST

/* Every allocation of a model fails once; nothing leaks and nothing is accepted. */
START_TEST(short_memory_is_an_error_each_time)
{
    static const struct loss_layer loss = { .head.name = "last" };
    static const struct embedding_layer embedding = { .head.name = "first" };
    static const struct head_layer head = { .norm = NORM_NONE };
    struct json_doc *doc = NULL;
    int failures = 0;
    ck_assert(json_parse(&doc, "d", "{}", 2, NULL));
    const struct json *at = json_root(doc);
    for (int64_t allowed = 1;; allowed++) {
        struct error err = { 0 };
        struct model *model =
            model_new(&(struct model_head){ .name = "m", .sequence = 4, .hidden = 8, .vocab_size = 16 });
        ck_assert_ptr_nonnull(model);
        model->arena.fail_after = allowed;
        bool done = model_add_block(model, 1, at, &err) &&
                    model_add_layer(model, layer_kind_find("embedding"), &embedding, at, &err) &&
                    model_add_layer(model, layer_kind_find("head"), &head, at, &err) &&
                    model_add_layer(model, layer_kind_find("loss"), &loss, at, &err) && model_finish(model, at, &err);
        ck_assert_int_eq(err.kind, done ? ERROR_NONE : ERROR_ENVIRONMENT);
        model_free(model);
        if (done)
            break;
        failures++;
    }
    ck_assert_int_ge(failures, 7);
    json_free(doc);
    model_free(NULL);
    graph_free(NULL);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("model_format");
    CHECK_ADD(s, writing_and_reading_change_no_byte);
    CHECK_ADD(s, one_copy_is_a_plain_layer);
    CHECK_ADD(s, hostile_models_are_refused_where_they_err);
    CHECK_ADD(s, short_memory_is_an_error_each_time);
    return s;
}

CHECK_MAIN(suite)
