/* What somebody may hand an importer that is wrong: tests/hostile.txt has a case for each, and what must be said of it.
 * None is accepted, none ends the process. And what others' tools decided, which is right. */
#include "executor/safetensors.h"
#include "models/model.h"
#include "models/operators.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/target.h"
#include "tests/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char llama[] =
    "{\"model_type\":\"llama\",\"hidden_size\":64,\"intermediate_size\":128,\"max_position_embeddings\":32,"
    "\"num_attention_heads\":4,\"num_hidden_layers\":2,\"vocab_size\":256}";

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    char *text = malloc(1 << 20);
    size_t length = fread(text, 1, (1 << 20) - 1, file);
    text[length] = '\0';
    fclose(file);
    return text;
}

/* With {{N*TEXT}} as N times the text. */
static struct text expand(const char *from, const char *end)
{
    struct text out = { 0 };
    while (from < end) {
        char *star = NULL;
        long count = strncmp(from, "{{", 2) == 0 ? strtol(from + 2, &star, 10) : 0;
        const char *close = count > 0 && *star == '*' ? strstr(star, "}}") : NULL;
        if (!close) {
            text_printf(&out, "%c", *from++);
            continue;
        }
        for (long i = 0; i < count; i++)
            text_printf(&out, "%.*s", (int)(close - star - 1), star + 1);
        from = close + 2;
    }
    return out;
}

/* Whether it was accepted. */
static bool offer(const char *kind, const char *text, struct error *err)
{
    struct arena arena = { 0 };
    struct model *model = NULL;
    size_t length = strlen(text);
    bool accepted = false;
    if (strcmp(kind, "config") == 0 || strcmp(kind, "adapter") == 0) {
        bool adapter = strcmp(kind, "adapter") == 0;
        struct model_reading reading = { .adapter = adapter ? text : NULL,
                                         .adapter_length = length,
                                         .adapter_name = "hostile" };
        accepted =
            model_read_as(&model, "hostile", adapter ? llama : text, adapter ? strlen(llama) : length, &reading, err);
        model_free(model);
    } else if (strcmp(kind, "safetensors") == 0) {
        struct safetensors *file = NULL;
        accepted =
            safetensors_parse(&file, "hostile", text, length, SAFETENSORS_LENGTH_BYTES + (int64_t)length + 64, err);
        safetensors_free(file);
    } else {
        char target[32], name[64];
        snprintf(target, sizeof target, "%.*s", (int)strcspn(kind, "."), kind);
        snprintf(name, sizeof name, "hostile%s", strchr(kind, '.') ? strchr(kind, '.') : "");
        const struct target *source = launch_source_find(target);
        ck_assert_msg(source && source->read, "%s", target);
        struct launch_read read = { 0 };
        accepted = source->read(&read, &arena, name, text, length, err);
        model_free(read.model);
    }
    arena_free(&arena);
    return accepted;
}

START_TEST(what_is_wrong_is_refused_and_said)
{
    char *all = read_file(TEST_SOURCE_DIR "/hostile.txt");
    const char *end = all + strlen(all);
    int count = 0, wrong = 0;
    char *at = strstr(all, "\n%% ");
    while (at) {
        char kind[32], *line = at + 4, *next = strstr(line, "\n%% "), *body = strchr(line, '\n') + 1;
        char *bar = strstr(line, " | ");
        ck_assert_ptr_nonnull(bar);
        snprintf(kind, sizeof kind, "%.*s", (int)(bar - line), line);
        struct text text = expand(body, next ? next : end);
        struct error err = { 0 };
        char *expected = bar + 3;
        body[-1] = '\0';
        if (offer(kind, text.data ? text.data : "", &err)) {
            fprintf(stderr, "%s accepted: %.200s\n", kind, text.data);
            wrong++;
        } else if (!strstr(err.message, expected) || err.kind != ERROR_INPUT || !strstr(err.message, "hostile")) {
            fprintf(stderr, "%s: %.120s\n  says      %s\n  expected  %s\n", kind, text.data ? text.data : "",
                    err.message, expected);
            wrong++;
        }
        text_free(&text);
        count++;
        at = next;
    }
    free(all);
    ck_assert_int_eq(wrong, 0);
    ck_assert_int_ge(count, 100);
    printf("trials: launches and models that are refused: %d\n", count);
}
END_TEST

static struct launch_read read_source(const char *name, const char *text, struct arena *arena)
{
    struct launch_read read = { 0 };
    struct error err = { 0 };
    ck_assert_msg(launch_source_find(name)->read(&read, arena, "s.json", text, strlen(text), &err), "%s", err.message);
    return read;
}

/* The strategy that is published with it for Llama 2 7B, shortened to four layers; and one with Ulysses and a pipeline.
 */
START_TEST(strategies_of_galvatron_are_read)
{
    struct arena arena = { 0 };
    struct launch_read r = read_source(
        "galvatron",
        "{\"pp_deg\": 1, \"tp_sizes_enc\": \"1,1,1,1\", \"tp_consecutive_flags\": \"1,1,1,1\", \"dp_types_enc\": "
        "\"1,1,0,1\", \"use_sp\": \"0,0,0,0\", \"checkpoint\": \"1,1,1,0\", \"global_bsz\": 16, \"chunks\": 1, "
        "\"pp_division\": \"4\", \"pipeline_type\": \"pipedream_flush\", \"default_dp_type\": \"zero2\", \"vtp\": 2, "
        "\"vsp\": 1, \"embed_sdp\": 1}",
        &arena);
    const struct launch *l = &r.launch;
    ck_assert(l->tensor == 1 && l->context == 1 && l->pipeline == 1 && !l->sequence_parallel && l->batch == 16);
    ck_assert(r.says_batch && !r.says_data && r.micro_batches == 1 && r.block_count == 4 && r.ends_zero == 3);
    ck_assert(r.blocks[0].zero == 3 && r.blocks[2].zero == 2 && r.blocks[3].zero == 3);
    ck_assert(r.blocks[2].recompute == RECOMPUTE_BLOCK && r.blocks[3].recompute == RECOMPUTE_NONE);
    ck_assert_int_eq(r.unknown_count, 2);
    ck_assert_str_eq(r.unknown[0], "vtp = 2");
    ck_assert_str_eq(r.unknown[1], "vsp = 1");
    r = read_source("galvatron",
                    "{\"pp_deg\": 2, \"tp_sizes_enc\": \"4,4,4\", \"tp_consecutive_flags\": \"1,1,1\", "
                    "\"dp_types_enc\": \"0,0,0\", \"use_sp\": \"1,1,1\", \"global_bsz\": 64, \"chunks\": 8, "
                    "\"pipeline_type\": \"gpipe\", \"default_dp_type\": \"ddp\", \"vtp\": 4, \"vsp\": 1}",
                    &arena);
    ck_assert(l->tensor == 1 && l->context == 4 && l->context_dimension == DIM_cp_ulysses && l->pipeline == 2);
    ck_assert(l->piece_count == 2 && l->piece_blocks[0] == 1 && l->piece_blocks[1] == 2 && r.unknown_count == 0);
    ck_assert(l->schedule == schedule_find("gpipe") && r.blocks[1].zero == 0 && r.micro_batches == 8);
    arena_free(&arena);
}
END_TEST

/* One of the executions that it is held against (Korthikanti et al. 2022, table 5), and one with all switches. */
START_TEST(executions_of_calculon_are_read)
{
    struct arena arena = { 0 };
    struct launch_read r = read_source(
        "calculon",
        "{\"num_procs\": 64, \"tensor_par\": 8, \"pipeline_par\": 8, \"data_par\": 1, \"tensor_par_net\": 0, "
        "\"pipeline_par_net\": 1, \"data_par_net\": 1, \"batch_size\": 64, \"microbatch_size\": 1, \"datatype\": "
        "\"float16\", \"fused_activation\": false, \"attention_type\": \"multihead\", \"activation_recompute\": "
        "\"attn_only\", \"pipeline_interleaving\": 3, \"optimizer_sharding\": false, \"tensor_par_comm_type\": "
        "\"rs_ag\", \"tensor_par_overlap\": \"none\", \"seq_par_ag_redo\": true, \"data_par_overlap\": false, "
        "\"weight_offload\": false, \"activations_offload\": false, \"optimizer_offload\": false, \"training\": true}",
        &arena);
    const struct launch *l = &r.launch;
    ck_assert(l->tensor == 8 && l->pipeline == 8 && l->data == 1 && r.devices == 64 && l->batch == 64);
    ck_assert(l->micro_batch == 1 && l->chunks == 3 && l->schedule == schedule_find("interleaved"));
    ck_assert(l->dtype == DTYPE_FP16 && l->sequence_parallel && l->zero == 0 && l->recompute == RECOMPUTE_NONE);
    ck_assert(l->excepted == operator_set("core", 4) && l->offload == OFFLOAD_NONE && r.unknown_count == 0);
    r = read_source("calculon",
                    "{\"num_procs\": 16, \"tensor_par\": 2, \"pipeline_par\": 2, \"data_par\": 4, \"batch_size\": 32, "
                    "\"microbatch_size\": 2, \"datatype\": \"bfloat16\", \"activation_recompute\": \"full\", "
                    "\"optimizer_sharding\": true, \"tensor_par_comm_type\": \"ar\", \"activations_offload\": true, "
                    "\"optimizer_offload\": true, \"training\": true, \"speed\": 9}",
                    &arena);
    ck_assert(!l->sequence_parallel && l->zero == 1 && l->recompute == RECOMPUTE_BLOCK && l->offload == OFFLOAD_BOTH);
    ck_assert_int_eq(r.unknown_count, 1);
    ck_assert_str_eq(r.unknown[0], "speed = 9");
    arena_free(&arena);
}
END_TEST

/* As calculon counts them (Llm.Application.num_parameters), and the norm before the logits. */
START_TEST(applications_of_calculon_are_models)
{
    static const char gpt3[] = "{\"hidden\": 12288, \"feedforward\": 49152, \"seq_size\": 2048, \"attn_heads\": 96, "
                               "\"attn_size\": 128, \"num_blocks\": 96}";
    const int64_t h = 12288, f = 49152, all = 96 * 128;
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert_msg(model_read(&model, "gpt3.json", gpt3, strlen(gpt3), NULL, &err), "%s", err.message);
    ck_assert_msg(graph_build(&graph, model, 1, 1, 1, &err), "%s", err.message);
    ck_assert_int_eq(graph_parameter_count(graph),
                     96 * (2 * h * f + 4 * h * all + h + f + 3 * all + h + 4 * h) + (51200 + 2048) * h + 2 * h);
    ck_assert_int_eq(model->sequence, 2048);
    graph_free(graph);
    model_free(model);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("hostile");
    CHECK_ADD(s, what_is_wrong_is_refused_and_said);
    CHECK_ADD(s, strategies_of_galvatron_are_read);
    CHECK_ADD(s, executions_of_calculon_are_read);
    CHECK_ADD(s, applications_of_calculon_are_models);
    return s;
}

CHECK_MAIN(suite)
