/* calculon's execution (Isaev et al. 2023, github.com/calculon-ai/calculon): the JSON that it prices. Read, not
 * written: nothing is launched with it. */
#include "base/num.h"
#include "models/operators.h"
#include "planner/program/schedule.h"
#include "planner/space/space.h"
#include "targets/settings.h"
#include "targets/target.h"
#include <string.h>

static bool required(struct settings *settings, const char *key, int64_t most, int64_t *out, struct error *err)
{
    bool said;
    return settings_int(settings, key, 1, most, out, &said, err) &&
           (said ||
            fail(err, "%s:1:1: expected the key \"%s\", which an execution of calculon has", settings->name, key));
}

/* A contradiction that calculon's own Execution refuses. */
static bool refuse(const struct settings *settings, struct error *err, const char *what)
{
    return fail(err, "%s: %s (calculon/llm/llm.py, Llm.Execution)", settings->name, what);
}

static bool read_degrees(struct launch_read *out, struct settings *settings, struct error *err)
{
    struct launch *l = &out->launch;
    int64_t others, all;
    if (!required(settings, "num_procs", MOST_DEGREE, &out->devices, err) ||
        !required(settings, "tensor_par", MOST_DEGREE, &l->tensor, err) ||
        !required(settings, "pipeline_par", MOST_DEGREE, &l->pipeline, err) ||
        !required(settings, "data_par", MOST_DEGREE, &l->data, err) ||
        !required(settings, "batch_size", MOST_COUNT, &l->batch, err) ||
        !required(settings, "microbatch_size", MOST_COUNT, &l->micro_batch, err) ||
        !settings_int(settings, "pipeline_interleaving", 1, MOST_DEGREE, &l->chunks, NULL, err))
        return false;
    if (!mul_i64(&others, l->tensor, l->pipeline) || !mul_i64(&all, others, l->data) || all != out->devices)
        return fail(err,
                    "%s: tensor_par %lld x pipeline_par %lld x data_par %lld are not the %lld of num_procs "
                    "(calculon/llm/llm.py, Llm.Execution)",
                    settings->name, (long long)l->tensor, (long long)l->pipeline, (long long)l->data,
                    (long long)out->devices);
    if (l->batch % l->data != 0 || l->batch / l->data % l->micro_batch != 0)
        return fail(err,
                    "%s: batch_size %lld: expected a multiple of data_par %lld x microbatch_size %lld "
                    "(calculon/llm/llm.py, Llm.Execution)",
                    settings->name, (long long)l->batch, (long long)l->data, (long long)l->micro_batch);
    if (l->chunks > 1 && l->pipeline == 1)
        return refuse(settings, err, "pipeline_interleaving: expected 1 where pipeline_par is 1");
    l->schedule = schedule_find(l->chunks > 1 ? "interleaved" : "1f1b");
    out->says_data = out->says_batch = true;
    return true;
}

static bool read_type(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const types[] = { "bfloat16", "float16", "float32", NULL };
    static const enum dtype dtypes[] = { DTYPE_BF16, DTYPE_FP16, DTYPE_FP32 };
    int type = 0;
    if (!settings_word(settings, "datatype", types, &type, &out->says_dtype, err))
        return false;
    out->launch.dtype = dtypes[type];
    return true;
}

/* What of activations is computed again, and what is shared out. */
static bool read_memory(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const again[] = { "none", "attn_only", "full", NULL }, *const sums[] = { "ar", "p2p_rs_ag",
                                                                                                "rs_ag", NULL };
    enum { ATTENTION_ONLY = 1, ALL = 2, WITH_SEQUENCE = 2 };
    struct launch *l = &out->launch;
    int recompute = 0, sum = 0;
    bool shards = false, gathers = false, training = true, weights = false, activations = false, state = false;
    const struct settings_option options[] = {
        { "activation_recompute", .word = &recompute, .words = again },
        { "tensor_par_comm_type", .word = &sum, .words = sums },
        { "optimizer_sharding", .flag = &shards },
        { "seq_par_ag_redo", .flag = &gathers },
        { "training", .flag = &training },
        { "weight_offload", .flag = &weights },
        { "activations_offload", .flag = &activations },
        { "optimizer_offload", .flag = &state },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    if (!training)
        return refuse(settings, err, "training: false: inference cannot be priced here");
    if (shards && l->data == 1)
        return refuse(settings, err, "optimizer_sharding: expected data_par above 1");
    if (gathers && (sum != WITH_SEQUENCE || recompute == ALL))
        return refuse(settings, err,
                      "seq_par_ag_redo: expected tensor_par_comm_type rs_ag, and not all computed again");
    l->recompute = recompute == ALL ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    l->excepted = recompute == ATTENTION_ONLY ? operator_set("core", 4) : 0;
    l->sequence_parallel = sum == WITH_SEQUENCE && l->tensor > 1;
    l->zero = shards ? 1 : 0;
    l->offload =
        (activations ? OFFLOAD_ACTIVATIONS : 0) | (state ? OFFLOAD_OPTIMIZER : 0) | (weights ? OFFLOAD_PARAMETERS : 0);
    return true;
}

/* What else it refuses; the rest says how fast something is, which the price takes from facts. */
static bool read_rest(struct launch_read *out, struct settings *settings, struct error *err)
{
    static const char *const overlaps[] = { "none", "ring", "pipe", NULL }, *const heads[] = { "multihead",
                                                                                               "multiquery", NULL };
    static const char *const ignored[] = { "tensor_par_net", "pipeline_par_net", "data_par_net", "fused_activation",
                                           NULL };
    const struct launch *l = &out->launch;
    int overlap = 0, kind = 0;
    bool overlapped = false;
    for (int i = 0; i < settings->count; i++) /* what is priced as it stands there is taken, the rest is listed */
        if (strcmp(settings->list[i].key, "tensor_par_overlap") == 0 ||
            strcmp(settings->list[i].key, "data_par_overlap") == 0)
            out->ignored_count++;
    const struct settings_option options[] = {
        { "tensor_par_overlap", .word = &overlap, .words = overlaps },
        { "attention_type", .word = &kind, .words = heads },
        { "data_par_overlap", .flag = &overlapped },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    if (overlap > 0 && l->tensor == 1)
        return refuse(settings, err, "tensor_par_overlap: expected tensor_par above 1");
    if (overlapped && l->data == 1)
        return refuse(settings, err, "data_par_overlap: expected data_par above 1");
    out->ignored_count += settings_take_all(settings, ignored);
    return true;
}

static bool read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                 struct error *err)
{
    struct settings settings = { .arena = arena, .name = name };
    launch_read_begin(out);
    out->launch.clip_norm = 0;
    return settings_read_json(&settings, text, length, err) && read_degrees(out, &settings, err) &&
           read_type(out, &settings, err) && read_memory(out, &settings, err) && read_rest(out, &settings, err) &&
           (settings_left(&settings, &out->unknown_count, &out->unknown) || fail_memory(err));
}

static const struct target_rule rules[] = { { 0 } };
extern const struct target target_calculon;
const struct target target_calculon = {
    .name = "calculon",
    .short_name = "calculon",
    .release = "calculon 2026",
    .doc =
        "an execution of calculon: JSON with num_procs, tensor_par, pipeline_par, data_par; its application is --model",
    .rules = rules,
    .read = read,
};
