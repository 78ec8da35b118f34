/* Which arguments have no price, and which Megatron-LM refuses, and says so before any rank trains
 * (megatron/training/arguments.py, validate_args; megatron/core/transformer/transformer_config.py and
 * megatron/core/optimizer/optimizer_config.py,
 * __post_init__). */
#include "base/num.h"
#include "targets/megatron.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool megatron_refuse(struct error *err, const char *name, const char *rule, const char *text)
{
    return fail(err, "%s: Megatron-LM refuses it: %s (%s)", name, text, rule);
}

bool megatron_check_divisors(const struct launch_read *out, const struct megatron_args *a, const char *name,
                             struct error *err)
{
    const int64_t degrees[] = { a->tensor, a->context, a->pipeline, a->expert, a->instances };
    double all = (double)a->tensor * (double)a->context * (double)a->pipeline;
    for (size_t i = 0; i < sizeof degrees / sizeof *degrees; i++)
        if (degrees[i] < 1 || degrees[i] > 1 << 20 || all > 1 << 24)
            return fail(err, "%s: expected parallel degrees from 1 to 2^20, of 2^24 ranks at most, found %lld", name,
                        (long long)degrees[i]);
    int64_t ranks = a->tensor * a->context * a->pipeline;
    int64_t devices = out->devices > 0 ? max_i64(out->devices, out->cluster_devices) : 0;
    if (devices % ranks != 0)
        return fail(err,
                    "%s: Megatron-LM refuses it: %lld devices are no multiple of tensor x context x pipeline = %lld "
                    "(ranks-are-devices)",
                    name, (long long)devices, (long long)ranks);
    if (a->heads % a->tensor != 0)
        return fail(err,
                    "%s: Megatron-LM refuses it: expected that the tensor degree %lld divides the attention heads %lld "
                    "(tp-divides-heads; megatron/core/transformer/transformer_config.py, "
                    "TransformerConfig.__post_init__)",
                    name, (long long)a->tensor, (long long)a->heads);
    if (a->context > 1 && a->sequence % (2 * a->context) != 0)
        return fail(err,
                    "%s: Megatron-LM refuses it: expected that the sequence %lld is a multiple of twice the context "
                    "degree %lld (cp-divides-sequence; megatron/training/arguments.py, validate_args)",
                    name, (long long)a->sequence, (long long)a->context);
    return true;
}

/* Whether the optimizer keeps anything in less than 32 bit. */
static bool has_narrow_state(const struct megatron_args *a)
{
    const char *const kept[] = { a->first_moment, a->second_moment, a->main_weights, a->main_gradients };
    bool narrow = false;
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        narrow = narrow || strcmp(kept[i], "fp32") != 0;
    return narrow;
}

static bool is_among(const char *word, const char *const *names)
{
    while (*names && strcmp(word, *names) != 0)
        names++;
    return *names != NULL;
}

bool megatron_check(const struct megatron_args *a, const char *name, struct error *err)
{
    static const char *const formats[] = { "e4m3", "hybrid", NULL };
    static const char *const recipes[] = { "blockwise", "custom", "delayed", "mxfp8", "tensorwise", NULL };
    static const char *const dispatchers[] = { "allgather", "alltoall", "flex", NULL };
    if (a->experts > 0 && (a->expert_choices < 1 || a->expert_choices > a->experts))
        return fail(err, "%s: --moe-router-topk: expected 1 to %lld, the experts, found %lld", name,
                    (long long)a->experts, (long long)a->expert_choices);
    bool full = text_is(a->granularity, "full"), selective = text_is(a->granularity, "selective");
    bool ends = a->first_layers || a->last_layers, counts = a->embedding_counts || a->loss_counts;
    const struct {
        bool refused;
        const char *rule, *text;
    } rows[] = {
        { (a->chunk_layers > 0) + (a->chunks > 0) + (a->layout != NULL) > 1, "one-layout",
          "no more than one of --num-layers-per-virtual-pipeline-stage, --num-virtual-stages-per-pipeline-rank and "
          "--pipeline-model-parallel-layout may be given" },
        { a->layout && (ends || counts), "one-layout",
          "--pipeline-model-parallel-layout goes with no other argument that splits layers over stages" },
        { ends && counts, "one-layout",
          "--decoder-first-pipeline-num-layers and --decoder-last-pipeline-num-layers do not go with "
          "--account-for-embedding-in-pipeline-split and --account-for-loss-in-pipeline-split" },
        { a->chunk_layers && ends, "one-layout",
          "an uneven split takes --num-virtual-stages-per-pipeline-rank, not "
          "--num-layers-per-virtual-pipeline-stage" },
        { a->granularity && !full && !selective, "recompute", "--recompute-granularity is full or selective" },
        { full && (!a->method || !a->recompute_layers), "recompute",
          "--recompute-granularity full needs --recompute-method (uniform or block) and --recompute-num-layers" },
        { a->method && !text_is(a->method, "uniform") && !text_is(a->method, "block"), "recompute",
          "--recompute-method is uniform or block" },
        { (selective || a->recompute_activations) && (a->method || a->recompute_layers), "recompute",
          "selective recomputation goes without --recompute-method and --recompute-num-layers" },
        { a->distribute_saved && (!full || a->tensor == 1 || a->sequence_parallel), "recompute",
          "--distribute-saved-activations needs full recomputation and tensor parallelism without sequence "
          "parallelism" },
        { a->modules && strstr(a->modules, "mla_up_proj") && !a->latent, "recompute",
          "mla_up_proj is of --multi-latent-attention" },
        { a->modules && strstr(a->modules, "moe_act") && !a->grouped_gemm, "recompute",
          "moe_act needs --moe-grouped-gemm" },
        { a->overlap_gather && ((!a->sharded_optimizer && !a->fsdp) || !a->overlap_reduce), "overlap",
          "--overlap-param-gather needs --use-distributed-optimizer and --overlap-grad-reduce" },
        { a->optimizer_offload && !a->precision_aware, "offload",
          "--optimizer-cpu-offload needs --use-precision-aware-optimizer" },
        { a->precision_aware && !a->sharded_optimizer, "offload",
          "--use-precision-aware-optimizer needs --use-distributed-optimizer" },
        { !a->precision_aware && has_narrow_state(a), "optimizer",
          "--exp-avg-dtype, --exp-avg-sq-dtype, --main-params-dtype and --main-grads-dtype are fp32 without "
          "--use-precision-aware-optimizer" },
        { a->bf16 && a->fp16, "dtype", "--bf16 and --fp16 exclude each other" },
        { a->fp8 && a->fp4, "dtype", "--fp8-format and --fp4-format exclude each other" },
        { a->fp8 && !is_among(a->fp8, formats), "dtype", "--fp8-format is e4m3 or hybrid" },
        { a->fp8 && !is_among(a->fp8_recipe, recipes), "dtype",
          "--fp8-recipe is blockwise, custom, delayed, mxfp8 or tensorwise" },
        { !is_among(a->dispatcher, dispatchers), "experts",
          "--moe-token-dispatcher-type is allgather, alltoall or flex" },
        { a->padded_capacity && !(a->capacity > 0), "experts",
          "--moe-pad-expert-input-to-capacity needs --moe-expert-capacity-factor" },
        { a->latent && a->grouped_query, "attention",
          "--group-query-attention and --multi-latent-attention exclude each other" },
        { a->grouped_query && a->query_groups > 0 && a->heads % a->query_groups != 0, "attention",
          "--num-attention-heads is a multiple of --num-query-groups" },
        { a->expert > 1 && a->experts == 0 && a->layers > 0, "ep-divides-experts",
          "--expert-model-parallel-size needs --num-experts" },
        { a->experts > 0 && a->linear_bias && (a->expert_tensor ? a->expert_tensor : a->tensor) > 1, "experts-bias",
          "experts with biases are not shared out by a tensor degree" },
        { a->experts > 0 && a->expert_choices == 1 && !a->gates_before && text_is(a->score, "softmax") &&
              !text_is(a->balancing, "sinkhorn"),
          "experts-gates", "--moe-router-topk 1 needs --moe-router-pre-softmax" },
        { a->expert_bias && text_is(a->score, "softmax"), "experts-gates",
          "--moe-router-enable-expert-bias needs --moe-router-score-function sigmoid" },
        { a->chosen_groups > 0 && (a->expert_groups == 0 || a->experts % a->expert_groups != 0), "experts-groups",
          "--moe-router-group-topk needs --moe-router-num-groups, which divides --num-experts" },
        { a->sequence > 0 && a->positions > 0 && a->positions < a->sequence, "positions",
          "--max-position-embeddings is at least --seq-length" },
        { a->heads && a->hidden % a->heads != 0 && !a->kv_channels && !a->latent, "attention",
          "--hidden-size is a multiple of --num-attention-heads, or --kv-channels is given" },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].refused)
            return megatron_refuse(err, name, rows[i].rule, rows[i].text);
    return true;
}

/* What the word says last of the flag, "" where it stands alone; NULL: the flag is not given. */
static const char *said(const char *const *words, int count, const char *flag)
{
    size_t length = strlen(flag);
    const char *value = NULL;
    for (int i = 0; i < count; i++)
        if (strncmp(words[i], flag, length) == 0 && (words[i][length] == '=' || !words[i][length]))
            value = words[i][length] == '='                   ? words[i] + length + 1
                    : i + 1 < count && words[i + 1][0] != '-' ? words[i + 1]
                                                              : "";
    return value;
}

bool megatron_check_overlap(const struct megatron_args *a, int64_t chunks, const char *name, struct error *err)
{
    static const char rule[] = "overlap; megatron/core/transformer/transformer_config.py, __post_init__";
    const char *moe = a->modules ? strstr(a->modules, "moe") : NULL;
    while (moe && (moe[3] == '_' || (moe > a->modules && moe[-1] != ' ')))
        moe = strstr(moe + 1, "moe");
    const struct {
        bool refused;
        const char *text;
    } rows[] = {
        { a->pipeline > 1 && chunks == 1,
          "--overlap-moe-expert-parallel-comm needs virtual pipeline stages where --pipeline-model-parallel-size is "
          "above 1, such as --num-virtual-stages-per-pipeline-rank 2" },
        { a->expert == 1, "--overlap-moe-expert-parallel-comm needs --expert-model-parallel-size above 1" },
        { text_is(a->dispatcher, "allgather"),
          "--overlap-moe-expert-parallel-comm needs --moe-token-dispatcher-type alltoall or flex" },
        { text_is(a->granularity, "full") || a->method || a->recompute_layers,
          "--overlap-moe-expert-parallel-comm goes without full recomputation, --recompute-method and "
          "--recompute-num-layers" },
        { moe != NULL, "--overlap-moe-expert-parallel-comm goes without moe among --recompute-modules" },
        { !a->bf16 && !a->fp16, "--overlap-moe-expert-parallel-comm needs --bf16 or --fp16" },
        { a->further > 1, "--overlap-moe-expert-parallel-comm goes with --mtp-num-layers 1 at most" },
    };
    for (size_t i = 0; a->overlap_experts && i < sizeof rows / sizeof *rows; i++)
        if (rows[i].refused)
            return megatron_refuse(err, name, rule, rows[i].text);
    return true;
}

bool megatron_check_words(const struct megatron_args *a, const char *const *words, int count, const char *name,
                          struct error *err)
{
#define SAID(flag) said(words, count, flag)
    const char *offloads = SAID("--cpu-offloading-num-layers");
    bool shards = SAID("--use-torch-fsdp2") != NULL, keeps_some = offloads && atoi(offloads) > 0;
    bool early = SAID("--overlap-param-gather-with-optimizer-step") != NULL;
    const struct {
        bool refused;
        const char *rule, *text;
    } rows[] = {
        { SAID("--data-parallel-size"), "arguments",
          "there is no --data-parallel-size: data-parallel ranks are what the other degrees leave of the devices" },
        { a->swiglu && a->squared_relu, "activation", "--swiglu and --squared-relu exclude each other" },
        { SAID("--cross-entropy-loss-fusion") && text_is(SAID("--cross-entropy-fusion-impl"), "te"), "loss",
          "--cross-entropy-fusion-impl te is switched off, as it is not stable: expected native" },
        { strcmp(a->main_weights, "fp32") != 0 && strcmp(a->main_weights, "fp16") != 0, "optimizer",
          "--main-params-dtype is fp32 or fp16" },
        { a->fsdp && !text_is(SAID("--ckpt-format"), "fsdp_dtensor"), "fsdp",
          "--use-megatron-fsdp needs --ckpt-format fsdp_dtensor" },
        { shards && (a->pipeline > 1 || a->expert > 1), "fsdp",
          "--use-torch-fsdp2 goes without pipeline and expert parallelism" },
        { shards && a->sharded_optimizer, "fsdp", "--use-torch-fsdp2 goes without --use-distributed-optimizer" },
        { keeps_some && a->pipeline > 1, "offload", "--cpu-offloading-num-layers goes without pipeline parallelism" },
        { keeps_some && a->granularity, "offload", "--cpu-offloading-num-layers goes without recomputation" },
        { SAID("--tp-comm-overlap") && !(a->sequence_parallel && a->tensor > 1), "overlap",
          "--tp-comm-overlap needs --sequence-parallel" },
        { SAID("--delay-wgrad-compute") && !SAID("--overlap-moe-expert-parallel-comm"), "overlap",
          "--delay-wgrad-compute needs --overlap-moe-expert-parallel-comm" },
        { SAID("--moe-shared-expert-overlap") && a->overlap_experts,
          "overlap; megatron/core/transformer/transformer_config.py, __post_init__",
          "--overlap-moe-expert-parallel-comm goes without --moe-shared-expert-overlap" },
        { SAID("--train-samples") && SAID("--train-iters") && !SAID("--skip-train"), "training",
          "--train-samples and --train-iters exclude each other: the length is in one of them" },
        { early && (!a->overlap_gather || (!a->chunks && !a->chunk_layers && !a->layout)), "overlap",
          "--overlap-param-gather-with-optimizer-step needs --overlap-param-gather and virtual pipeline stages" },
        { SAID("--first-last-layers-bf16") && a->fp8 && text_is(a->fp8_recipe, "delayed"), "dtype",
          "--first-last-layers-bf16 goes without delayed scaling: expected another --fp8-recipe" },
    };
#undef SAID
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].refused)
            return megatron_refuse(err, name, rows[i].rule, rows[i].text);
    return true;
}

bool megatron_say_words(struct launch_read *out, struct arena *arena, const char *const *words, int count,
                        struct error *err)
{
    static const char ramp[] = "--rampup-batch-size (the full batch is priced, as it is when that ends)";
    return !said(words, count, "--rampup-batch-size") ||
           launch_read_add_unknown(out, arena, ramp, sizeof ramp - 1, err);
}

bool megatron_say_unpriced(struct launch_read *out, struct arena *arena, const struct megatron_args *a,
                           struct error *err)
{
    static const char whole[] = "full_iteration";
    static const char flex[] = "--moe-token-dispatcher-type flex (alltoall is priced, but where cleave estimate has "
                               "--framework megatron-core-flex)";
    static const char gathers[] = "--moe-token-dispatcher-type allgather (alltoall is priced: a token is sent to each "
                                  "expert that it chooses, not to each rank of experts)";
    static const char drops[] = "--moe-expert-capacity-factor (without --moe-pad-expert-input-to-capacity no choice is "
                                "taken to be dropped)";
    char graphs[200];
    bool all = a->graph_scope && strstr(a->graph_scope, whole);
    const char *overlap = all ? "--overlap-moe-expert-parallel-comm (priced without, but where cleave estimate has "
                                "--framework megatron-core-graphs-overlap)"
                              : "--overlap-moe-expert-parallel-comm (priced without, but where cleave estimate has "
                                "--framework megatron-core-flex-overlap, which is of DeepEP's dispatcher)";
    snprintf(graphs, sizeof graphs, "--cuda-graph-impl %.40s (priced without graphs%s%s)", a->graphs,
             all ? ", but where cleave estimate has --framework megatron-core-graphs"
                 : ": what the host issues takes less with them",
             all && a->overlap_experts ? "-overlap" : "");
    const struct {
        bool given;
        const char *text;
    } rows[] = {
        { out->launch.expert > 1 && text_is(a->dispatcher, "allgather"), gathers },
        { out->launch.expert > 1 && text_is(a->dispatcher, "flex"), flex },
        { a->overlap_experts, overlap },
        { a->capacity > 0 && !a->padded_capacity, drops },
        { !text_is(a->graphs, "none"), graphs },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].given && !launch_read_add_unknown(out, arena, rows[i].text, strlen(rows[i].text), err))
            return false;
    return true;
}
