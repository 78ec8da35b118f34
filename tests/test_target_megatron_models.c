/* Models that Megatron-LM's arguments can say: their sizes come back to the last parameter; what none says is refused.
 */
#include "tests/megatron_launches.h"
#include "tests/target_launches.h"
#include "targets/launch_text.h"

/* Latent attention, first blocks without experts, shared experts, windows in a pattern. */
START_TEST(test_models_that_have_arguments)
{
#define DENSE "{\"kind\":\"mlp\",\"inner\":64,\"activation\":\"swiglu\",\"norm\":\"rms_norm\"}"
#define EXPERTS                                                                                                        \
    "{\"kind\":\"moe\",\"experts\":8,\"choices\":2,\"inner\":16,\"shared_inner\":16,\"activation\":\"swiglu\","        \
    "\"gates\":\"softmax_of_all\",\"gate_scale\":2.5,\"dropless\":true,\"balance_loss\":0.001,\"norm\":\"rms_norm\"}"
#define LATENT(more)                                                                                                   \
    "{\"kind\":\"latent_attention\",\"heads\":4,\"kv_rank\":8,\"plain_dim\":8,\"rope_dim\":4,\"value_dim\":8,"         \
    "\"rope_base\":10000,\"norm\":\"rms_norm\"" more "}"
    static const char *const bodies[] = {
        BODY("{\"repeat\":2,\"layers\":[" LATENT(",\"query_rank\":8") "," DENSE "]},{\"repeat\":4,\"layers\":[" LATENT(
            ",\"query_rank\":8") "," EXPERTS "]}"),
        BODY("{\"repeat\":3,\"layers\":[" LATENT("") "," EXPERTS "]}"),
        BODY(ATTENTION(",\"rope_base\":10000") "," DENSE ",{\"repeat\":3,\"layers\":[" ATTENTION(
            ",\"rope_base\":10000") "," EXPERTS "]}"),
        BODY(ATTENTION(
            ",\"qk_norm\":\"head\",\"rope_base\":10000") ",{\"kind\":\"moe\",\"experts\":8,\"choices\":2,"
                                                         "\"inner\":16,\"shared_inner\":16,\"shared_gate\":true,"
                                                         "\"activation\":\"swiglu\",\"gates\":\"sigmoid_of_chosen\","
                                                         "\"router_correction\":true,\"expert_groups\":4,\"chosen_"
                                                         "groups\":2,\"dropless\":true,\"norm\":\"rms_norm\"}"),
        BODY("{\"repeat\":3,\"layers\":[" ATTENTION(
            ",\"sliding_window\":4,\"rope_base\":10000") "," DENSE "," ATTENTION(",\"rope_base\":10000") "," DENSE
                                                                                                         "]}"),
        BODY(ATTENTION(",\"rope_base\":500000,\"rope_factor\":8,\"rope_low_frequency_factor\":1,"
                       "\"rope_high_frequency_factor\":4,\"rope_original_positions\":8192") "," DENSE),
        BODY(ATTENTION(",\"rope_base\":10000,\"rope_dim\":2,\"qkv_bias\":true") "," DENSE),
        BODY("{\"kind\":\"attention\",\"heads\":4,\"norm\":\"layer_norm\"},{\"kind\":\"mlp\",\"inner\":32,"
             "\"activation\":\"squared_relu\",\"norm\":\"layer_norm\"}"),
    };
    for (size_t i = 0; i < 2 * sizeof bodies / sizeof *bodies; i++) {
        const struct target *target = target_find(both[i % 2].name);
        char body[4096];
        snprintf(body, sizeof body, "%s", bodies[i / 2]);
        const char *norm = strstr(body, "layer_norm") ? "\"layer_norm\"" : "\"rms_norm\"";
        char *head = strstr(body, "\"head\",\"norm\":\"none\""), whole[4200];
        snprintf(whole, sizeof whole, "%.*s\"head\",\"norm\":%s%s", (int)(head - body), body, norm,
                 head + strlen("\"head\",\"norm\":\"none\""));
        struct model *model = model_of_text(whole);
        struct graph *graph = graph_of(model, 1, 8, 128);
        struct launch launch = launch_plain;
        struct launch_files files = { 0 };
        struct launch_read read = { 0 };
        struct arena arena = { 0 };
        struct error err = { 0 };
        launch.batch = 8;
        launch.data = 2;
        launch.sequence = 8;
        launch.bucket_bytes = 400;
        struct launch_context context = { .model = model, .graph = graph };
        const struct target_rule *rule = target_broken_rule(target, &launch, &context);
        struct text why = { 0 };
        if (rule && rule->detail)
            rule->detail(&why, &launch, &context);
        ck_assert_msg(!rule, "%s: %s: %s", whole, rule ? rule->name : "", why.data ? why.data : "");
        ck_assert(target->write(&files, &launch, &context));
        const struct text *text = file_named(&files, both[i % 2].file);
        ck_assert_msg(target->read(&read, &arena, "file", text->data, text->length, &err), "%s\n%s", err.message,
                      text->data);
        ck_assert(launch_equal(&launch, &read.launch));
        ck_assert_msg(read.unknown_count == 0, "%s is not understood", read.unknown[0]);
        /* Megatron-Bridge's providers build all layers alike, without latent attention, unless they are told */
        bool apart = strstr(whole, "latent_attention") || (strstr(whole, "\"moe\"") && strstr(whole, "\"mlp\""));
        ck_assert(!strstr(text->data, "transformer_layer_spec = partial(get_gpt_decoder_block_spec, ") ==
                  !(i % 2 && apart));
        check_model(model, read.model, 8);
        context.model = read.model; /* the arguments say all of what was read */
        ck_assert_ptr_null(target_broken_rule(target, &launch, &context));
        model_free(read.model);
        launch_files_free(&files);
        arena_free(&arena);
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

/* What no argument says is refused by the field's name. */
START_TEST(test_models_that_have_no_arguments)
{
    static const struct {
        const char *body, *words;
    } cases[] = {
        { BODY("{\"kind\":\"attention\",\"heads\":4,\"norm\":\"rms_norm\"},{\"kind\":\"mlp\",\"inner\":32,"
               "\"activation\":\"relu\",\"norm\":\"rms_norm\"}"),
          "activation" },
        { BODY("{\"kind\":\"attention\",\"heads\":4,\"norm\":\"rms_norm\"},{\"kind\":\"mlp\",\"inner\":32,"
               "\"activation\":\"swiglu\",\"norm\":\"layer_norm\"}"),
          "norm of layer mlp" },
        { BODY("{\"kind\":\"attention\",\"heads\":4,\"norm\":\"rms_norm\",\"causal\":false},{\"kind\":\"mlp\","
               "\"inner\":32,\"activation\":\"swiglu\",\"norm\":\"rms_norm\"}"),
          "causal" },
        { BODY("{\"kind\":\"mlp\",\"inner\":32,\"activation\":\"swiglu\",\"norm\":\"rms_norm\"},{\"kind\":\"mlp\","
               "\"inner\":32,\"activation\":\"swiglu\",\"norm\":\"rms_norm\"}"),
          "kind mlp" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct model *model = model_of_text(cases[i].body);
        struct launch launch = launch_plain;
        struct text why = { 0 };
        launch.batch = 1;
        launch.sequence = 8;
        struct launch_context context = { .model = model };
        const struct target_rule *rule = target_broken_rule(megatron(), &launch, &context);
        ck_assert_msg(rule && strcmp(rule->name, "model") == 0, "%s", rule ? rule->name : "accepted");
        rule->detail(&why, &launch, &context);
        ck_assert_msg(strstr(why.data, cases[i].words), "%s: %s", cases[i].words, why.data);
        text_free(&why);
        model_free(model);
    }
}
END_TEST

/* Positions that no layer says are what a user adds: README.md says which settings, as each target spells them. */
START_TEST(test_positions_that_are_left_out)
{
#define YARN                                                                                                           \
    "\"left_out\":{\"positions\":\"yarn\",\"factor\":4,\"original_positions\":32768,\"mscale_all_dim\":0.5,"           \
    "\"further_blocks\":1},\"layers\""
    static const struct {
        const char *target, *body, *words;
    } cases[] = {
        { "megatron-lm", BODY(ATTENTION(",\"rope_base\":10000") "," DENSE),
          "`--position-embedding-type yarn --rotary-scaling-factor 4 --mscale 1 --mscale-all-dim 0.5 "
          "--yarn-original-max-position-embeddings 32768 --yarn-beta-fast 32 --yarn-beta-slow 1`" },
        { "megatron-lm", BODY(LATENT("") "," DENSE),
          "`--rope-type yarn --rotary-scaling-factor 4 --mscale 1 --mscale-all-dim 0.5` in place of `--rope-type "
          "rope`" },
        { "megatron-bridge", BODY(ATTENTION(",\"rope_base\":10000") "," DENSE),
          "cfg.model.yarn_rotary_scaling_factor = 4\n" },
        { "megatron-bridge", BODY(LATENT("") "," DENSE), " cfg.model.original_max_position_embeddings = 32768\n" },
        { "torchtitan", BODY(ATTENTION(",\"rope_base\":10000") "," DENSE), "of type yarn (factor 4), which" },
        { "deepspeed", BODY(ATTENTION(",\"rope_base\":10000") "," DENSE), NULL }, /* it trains config.json itself */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const struct target *target = target_find(cases[i].target);
        struct launch_files files = { 0 };
        struct text words = { 0 };
        const char *body = cases[i].body, *layers = strstr(body, "\"layers\"");
        char whole[4096];
        snprintf(whole, sizeof whole, "%.*s" YARN "%s", (int)(layers - body), body, layers + strlen("\"layers\""));
        struct model *model = model_of_text(whole);
        struct text *readme = launch_files_add(&files, "README.md", false);
        ck_assert(launch_text_left_out(&files, &words, target, model));
        ck_assert_msg(!cases[i].words || strstr(readme->data, cases[i].words), "%s: %s", cases[i].words, readme->data);
        ck_assert(!cases[i].words == !strstr(readme->data, "yarn") && !cases[i].words == !strstr(words.data, "yarn"));
        ck_assert(strstr(readme->data, "1 block that predicts further tokens"));
        text_free(&words);
        launch_files_free(&files);
        model_free(model);
    }
}
END_TEST

#define SIZES                                                                                                          \
    "--num-layers 2 --hidden-size 128 --num-attention-heads 4 --vocab-size 1000 --seq-length 64 "                      \
    "--max-position-embeddings 64 --micro-batch-size 1 "

/* The older name of rotary positions leaves no table of positions; a word has an end. */
START_TEST(test_words)
{
    struct arena arena = { 0 };
    struct launch_read read[2];
    struct error err = { 0 };
    int64_t parameters[2];
    for (int i = 0; i < 2; i++) {
        read[i] = read_text(megatron(), &arena, "args", i ? SIZES "--use-rotary-position-embeddings" : SIZES);
        struct graph *graph = graph_of(read[i].model, 1, 64, 128);
        parameters[i] = graph_parameter_count(graph);
        graph_free(graph);
        model_free(read[i].model);
    }
    ck_assert_int_eq(parameters[0] - parameters[1], 64 * 128);
    static char text[(1 << 16) + 64] = "pretrain_gpt.py --position-embedding-type ";
    size_t length = strlen(text);
    memset(text + length, 'a', (1 << 16) + 1);
    ck_assert(!megatron()->read(&read[0], &arena, "args", text, strlen(text), &err));
    ck_assert_str_eq(err.message, "args: --position-embedding-type: expected at most 65536 letters");
    arena_free(&arena);
}
END_TEST

/* A launch of Megatron-Bridge is for the devices that its launcher or batch job says, else for its recipe's. */
START_TEST(test_devices_of_launches)
{
    const struct target *bridge = target_find("megatron-bridge");
    struct arena arena = { 0 };
    static const struct {
        const char *text;
        int64_t devices;
    } counted[] = {
        { "torchrun --nproc_per_node 8 --nnodes=4 run.py --recipe llama3_8b_pretrain_config\n", 32 },
        { "#SBATCH --nodes=4\n#SBATCH --gres=gpu:h100:8\nsrun python run.py --recipe llama3_8b_pretrain_config\n", 32 },
        { "#SBATCH --nodes=4\nsrun --ntasks-per-node=8 python run.py --recipe llama3_8b_pretrain_config -n 2\n", 32 },
        { "#SBATCH -N 2\n#SBATCH --gres=gpu:8,nvme:1\nsrun python run.py --recipe llama3_8b_pretrain_config\n", 16 },
        { "WORLD_SIZE=16\npython run.py --recipe llama3_8b_pretrain_config\n", 16 },
        { "python run.py --recipe llama3_8b_pretrain_config\n", 2 }, /* its recipe's own */
    };
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++) {
        struct launch_read read = { 0 };
        struct error err = { 0 };
        ck_assert_msg(bridge->read(&read, &arena, "a.sh", counted[i].text, strlen(counted[i].text), &err), "%s",
                      err.message);
        ck_assert_msg(read.devices == counted[i].devices, "%s%lld", counted[i].text, (long long)read.devices);
        model_free(read.model);
    }
    arena_free(&arena);
}
END_TEST

static Suite *target_megatron_models_suite(void)
{
    Suite *suite = suite_create("target_megatron_models");
    CHECK_ADD(suite, test_models_that_have_arguments);
    CHECK_ADD(suite, test_models_that_have_no_arguments);
    CHECK_ADD(suite, test_positions_that_are_left_out);
    CHECK_ADD(suite, test_words);
    CHECK_ADD(suite, test_devices_of_launches);
    return suite;
}
CHECK_MAIN(target_megatron_models_suite)
