/* Launches as Megatron-Core's settings, both ways. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "targets/megatron.h"
#include <stdio.h>
#include <string.h>

/* ---- recomputation ---- */

/* Operators that a module of --recompute-modules makes (transformer_config.py, recompute_modules, and where each is
 * checkpointed). Those that hold others come first. */
static const struct {
    const char *name, *operators;
    bool latent; /* only of latent attention */
} modules[] = {
    { "moe", "dispatch+expert_gate+expert_up+expert_act+expert_down+shared_gate+shared_up+shared_act", false },
    { "mlp", "gate+up+act", false },
    { "core_attn", "core", false },
    { "layernorm", "norm", false },
    { "mla_up_proj", "q+k+v+rope_q+join_k", true },
    { "moe_act", "expert_act", false },
    { "shared_experts", "shared_gate+shared_up+shared_act", false },
};
enum { MODULES = sizeof modules / sizeof *modules };

static uint64_t module_operators(int i)
{
    uint64_t set = 0;
    operators_read(&set, modules[i].operators);
    return set;
}

uint64_t megatron_graph_operators(const struct graph *graph)
{
    uint64_t set = 0;
    for (int i = 0; i < graph->layer_count; i++)
        set |= graph_layer_operators(graph, i);
    return set;
}

static uint64_t one_operator(const char *name)
{
    return operator_set(name, (int)strlen(name));
}

bool megatron_modules(struct text *out, uint64_t operators, const struct launch_context *context)
{
    uint64_t has = context->graph ? megatron_graph_operators(context->graph) : (uint64_t)OPERATORS_EVERY, covered = 0;
    bool latent = context->graph && (has & one_operator("kv_down"));
    for (int i = 0; i < MODULES; i++) {
        uint64_t set = module_operators(i) & has;
        if ((modules[i].latent && !latent) || !set || (set & ~operators) || !(set & ~covered))
            continue;
        if (out)
            text_printf(out, "%s%s", covered ? " " : "", modules[i].name);
        covered |= set;
    }
    return covered == (operators & has);
}

/* Adds the operators of modules joined by blanks. */
static bool read_modules(uint64_t *out, const char *words, struct error *err)
{
    for (const char *p = words; *p;) {
        int length = (int)strcspn(p, " "), found = -1;
        for (int i = 0; i < MODULES; i++)
            if ((int)strlen(modules[i].name) == length && strncmp(modules[i].name, p, (size_t)length) == 0)
                found = i;
        if (found < 0 && length > 0)
            return fail(err,
                        "--recompute-modules: expected core_attn, layernorm, mla_up_proj, mlp, moe, moe_act or "
                        "shared_experts, found \"%.*s\"",
                        min_int(length, 64), p);
        *out |= found >= 0 ? module_operators(found) : 0;
        p += length + (p[length] == ' ');
    }
    return true;
}

/* ---- out ---- */

static int64_t gradient_bytes(const struct launch *launch, const struct megatron_args *args)
{
    return optimizer_gradient_bytes(&launch->optimizer, args->narrow_gradients ? NARROW_ALL : NARROW_FP16,
                                    launch->dtype);
}

static void set_optimizer(struct megatron_args *args, const struct launch *launch)
{
    const struct optimizer *o = &launch->optimizer;
    bool aware = megatron_is_precision_aware(o), narrow = o->gradients == GRADIENTS_BF16;
    args->optimizer = o->rule == OPTIMIZER_ADAMW ? "adam" : o->rule == OPTIMIZER_MUON ? "muon" : "sgd";
    args->muon_pieces = o->rule == OPTIMIZER_MUON ? "blockwise" : NULL; /* each rank its piece of a matrix */
    args->momentum = o->rule == OPTIMIZER_SGD ? 0 : megatron_defaults.momentum;
    args->precision_aware = args->precision_aware || aware;
    args->first_moment = args->second_moment = optimizer_moment_names[o->moments];
    args->main_weights = o->master == MASTER_FP16 ? "fp16" : "fp32";
    args->main_gradients = aware && narrow ? "bf16" : "fp32";
    args->narrow_gradients = args->narrow_gradients || narrow;
    args->wide_gradients = o->gradients == GRADIENTS_FP32;
}

enum { ONE_BUCKET_BITS = 40 }; /* of everything: reduced when the backward pass has ended */

/* Whether it is of the catalogue's NVIDIA devices before Blackwell. */
static bool is_before_blackwell(const char *device)
{
    static const char *const names[] = { "v100-", "a10", "l4", "h100-", "h200-", "gh200-", "rtx3", "rtx4", NULL };
    for (const char *const *name = names; device && *name; name++)
        if (strncmp(device, *name, strlen(*name)) == 0)
            return true;
    return false;
}

static bool is_blackwell(const char *device)
{
    return device && (strstr(device, "b100") || strstr(device, "b200") || strstr(device, "b300"));
}

static void set_dtype(struct megatron_args *args, const struct launch *launch, const struct launch_context *context)
{
    args->fp16 = launch->dtype == DTYPE_FP16;
    args->bf16 = launch->dtype == DTYPE_BF16 || launch->dtype == DTYPE_FP8 || launch->dtype == DTYPE_NVFP4;
    if (launch->dtype == DTYPE_FP8) {
        args->fp8 = "hybrid";
        args->fp8_recipe = is_blackwell(context->device_name) ? "mxfp8" : "tensorwise";
    }
    if (launch->dtype == DTYPE_NVFP4)
        args->fp4 = "e2m1";
    args->pad_routing = args->experts > 0 && (args->fp8 || args->fp4);
}

static void set_recomputation(struct megatron_args *args, struct arena *arena, const struct launch *launch,
                              const struct launch_context *context)
{
    struct text words = { 0 };
    if (launch->recompute == RECOMPUTE_BLOCK) {
        args->granularity = "full";
        args->method = launch->recompute_first > 0 ? "block" : "uniform";
        args->recompute_layers = max_i64(1, launch->recompute_first);
    } else if (launch->excepted && megatron_modules(&words, launch->excepted, context) && words.length > 0) {
        args->granularity = "selective";
        args->modules = arena_strdup(arena, words.data);
    }
    text_free(&words);
}

static void set_layout(struct megatron_args *args, struct arena *arena, const struct launch *launch)
{
    struct text words = { 0 };
    int pieces = (int)(launch->pipeline * max_i64(1, launch->chunks));
    int *even = arena_alloc(arena, (size_t)pieces, sizeof *even);
    for (int i = 0; even && i < pieces; i++)
        even[i] = (int)(args->layers / pieces);
    const struct megatron_layout layout = { pieces, launch->further, launch->further_piece,
                                            launch->piece_blocks ? launch->piece_blocks : even };
    if (layout.piece_blocks)
        megatron_put_layout(&words, &layout);
    args->layout = words.length > 0 ? arena_strdup(arena, words.data) : NULL;
    text_free(&words);
}

void megatron_of_launch(struct megatron_args *args, struct arena *arena, const struct launch *launch,
                        const struct launch_context *context)
{
    struct text why = { 0 };
    if (context->model)
        megatron_of_model(args, arena, &why, context->model);
    text_free(&why);
    args->tensor = launch->tensor;
    args->sequence_parallel = launch->sequence_parallel && launch->tensor > 1;
    args->pipeline = launch->pipeline;
    args->context = launch->context;
    args->context_type = launch->context == 1                          ? "p2p"
                         : launch->context_dimension == DIM_cp_gather  ? "all_gather"
                         : launch->context_dimension == DIM_cp_ulysses ? "a2a"
                                                                       : "p2p";
    args->expert = launch->expert;
    args->expert_tensor = args->experts == 0 || launch->tensor == 1 ? 0 : launch->experts_whole ? 1 : launch->tensor;
    if (launch->pipeline > 1)
        set_layout(args, arena, launch);
    args->group = launch->chunk_group;
    args->sharded_optimizer = launch->zero == 1 || launch->offload == OFFLOAD_OPTIMIZER || /* which need it */
                              megatron_is_precision_aware(&launch->optimizer);
    args->instances =
        launch->shard_group > 0 && launch->shard_group < launch->data ? launch->data / launch->shard_group : 1;
    args->overlap_reduce = launch->bucket_bytes < INT64_C(1) << ONE_BUCKET_BITS;
    args->overlap_gather = args->overlap_reduce && args->sharded_optimizer;
    args->bucket = args->overlap_reduce ? max_i64(1, launch->bucket_bytes / gradient_bytes(launch, args)) : 0;
    set_recomputation(args, arena, launch, context);
    args->optimizer_offload = launch->offload == OFFLOAD_OPTIMIZER;
    args->precision_aware = args->optimizer_offload;
    args->sequence = launch->sequence;
    if (strcmp(args->position, "learned_absolute") != 0) /* else its table's rows */
        args->positions = max_i64(args->positions, launch->sequence);
    args->micro_batch = launch->micro_batch;
    args->global_batch = launch->batch;
    args->clip = launch->clip_norm;
    set_optimizer(args, launch);
    set_dtype(args, launch, context);
}

/* ---- in ---- */

static bool set_pieces(struct launch *l, struct arena *arena, const struct megatron_args *a, const char *name,
                       struct error *err)
{
    int64_t pieces = l->pipeline * l->chunks, layers = a->layers,
            counted = layers + a->embedding_counts + a->loss_counts;
    if (a->layers == 0)
        return true;
    if (pieces > 1 << 14)
        return fail(err, "%s: expected at most 16384 stages in all, found %lld", name, (long long)pieces);
    int *blocks = arena_alloc(arena, (size_t)pieces, sizeof *blocks);
    if (!blocks)
        return fail_memory(err);
    int64_t middle = l->pipeline - (a->first_layers > 0) - (a->last_layers > 0);
    int64_t left = counted - a->first_layers - a->last_layers;
    if (left < 0 || (middle == 0 && left > 0) || (middle > 0 && (left % middle != 0 || left == 0)))
        return fail(err,
                    "%s: Megatron-LM refuses it: the layers (with embedding and loss, where these count) are divided "
                    "evenly by the pipeline stages, first and last ones aside where these are given; found: %lld "
                    "layers and %lld stages (layout)",
                    name, (long long)left, (long long)middle);
    for (int64_t i = 0; i < pieces; i++) {
        int64_t stage = i % l->pipeline, own = middle > 0 ? left / middle : 0;
        own = stage == 0 && a->first_layers > 0                ? a->first_layers
              : stage == l->pipeline - 1 && a->last_layers > 0 ? a->last_layers
                                                               : own;
        if (own % l->chunks != 0)
            return megatron_refuse(err, name, "layout",
                                   "the virtual stages divide the layers of each pipeline stage evenly");
        blocks[i] = (int)(own / l->chunks) - (i == 0 && a->embedding_counts) - (i == pieces - 1 && a->loss_counts);
        if (blocks[i] < 0)
            return megatron_refuse(err, name, "layout",
                                   "the first and the last stage have layers beside embedding and loss");
    }
    l->piece_blocks = blocks;
    l->piece_count = (int)pieces;
    return true;
}

static bool set_stages(struct launch *l, struct arena *arena, const struct megatron_args *a, const char *name,
                       struct error *err)
{
    int64_t counted = a->layers + a->embedding_counts + a->loss_counts;
    l->chunks = 1;
    if (a->layout) {
        struct megatron_layout layout;
        int64_t sum = 0;
        if (!megatron_read_layout(&layout, arena, a->layout, err))
            return error_within(err, "%s", name);
        const int *blocks = layout.piece_blocks, pieces = layout.piece_count;
        if (pieces % l->pipeline != 0)
            return megatron_refuse(err, name, "layout",
                                   "the layout's stages are a multiple of --pipeline-model-parallel-size");
        for (int i = 0; i < pieces; i++)
            sum += blocks[i];
        if (a->layers > 0 && sum != a->layers)
            return fail(err, "%s: Megatron-LM refuses it: the layout has %lld layers, --num-layers says %lld (layout)",
                        name, (long long)sum, (long long)a->layers);
        if (layout.further != a->further)
            return megatron_refuse(err, name, "mtp", "the layout has an m for each of --mtp-num-layers");
        l->further_piece = layout.further_piece;
        l->chunks = pieces / l->pipeline;
        l->piece_blocks = blocks;
        l->piece_count = pieces;
    } else {
        if (a->chunks > 0)
            l->chunks = a->chunks;
        else if (a->chunk_layers > 0 && a->layers > 0) {
            if (counted % l->pipeline != 0 || counted / l->pipeline % a->chunk_layers != 0)
                return megatron_refuse(
                    err, name, "layout",
                    "the pipeline stages divide the layers evenly, and --num-layers-per-virtual-pipeline-stage "
                    "those of a stage");
            l->chunks = counted / l->pipeline / a->chunk_layers;
        }
        if (l->chunks > 1 << 14 || !set_pieces(l, arena, a, name, err))
            return fail(err, "%s: expected at most 16384 virtual stages", name);
        l->further_piece = a->further > 0 ? (int)(l->pipeline * l->chunks) - 1 : 0;
    }
    l->further = (int)a->further;
    if (l->pipeline == 1 && l->chunks == 1) {
        l->piece_blocks = NULL;
        l->piece_count = 0;
    }
    l->schedule = l->chunks > 1 ? SCHEDULE_interleaved : SCHEDULE_one_f_one_b;
    if (l->chunks > 1 && l->pipeline <= (a->overlap_messages ? 1 : 2))
        return megatron_refuse(err, name, "interleaved-needs-stages",
                               "virtual stages need more than 1 pipeline stage, and more than 2 with "
                               "--no-overlap-p2p-communication");
    return true;
}

static bool say_unknown(struct launch_read *out, struct arena *arena, const char *what, struct error *err)
{
    return launch_read_add_unknown(out, arena, what, strlen(what), err);
}

static bool word_among(int *out, const char *option, const char *word, const char *const *names, const char *at,
                       struct error *err)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(word, names[i]) == 0) {
            *out = i;
            return true;
        }
    return fail(err, "%s: %s: found \"%.64s\", which is not planned", at, option, word);
}

/* Rules of what is written, which Megatron-FSDP goes beyond. */
static const char *const beyond[] = { "zero", "optimizer-instances", NULL };

/* Of Megatron-FSDP, whose strategy means nothing without it, and which gathers and reduces what it shards layer by
 * layer (megatron_fsdp.py, fsdp_unit_modules). */
static bool set_sharding(struct launch_read *out, struct arena *arena, const struct megatron_args *a, const char *name,
                         struct error *err)
{
    struct launch *l = &out->launch;
    char idle[192];
    static const char *const strategies[] = { "no_shard", "optim", "optim_grads", "optim_grads_params", NULL };
    int zero = a->sharded_optimizer;
    if (a->fsdp && !word_among(&zero, "--data-parallel-sharding-strategy", a->sharding, strategies, name, err))
        return false;
    snprintf(idle, sizeof idle, "--data-parallel-sharding-strategy %.64s (nothing without --use-megatron-fsdp)",
             a->sharding);
    if (!a->fsdp && strcmp(a->sharding, strategies[0]) != 0 && !say_unknown(out, arena, idle, err))
        return false;
    out->beyond = zero > 1 ? beyond : NULL;
    l->zero = zero;
    l->shard_group = zero > 0 ? l->shard_group : 0;
    if (zero == 3)
        l->bucket_bytes = INT64_C(1) << ONE_BUCKET_BITS;
    return true;
}

static bool set_memory(struct launch_read *out, struct arena *arena, const struct megatron_args *a, const char *name,
                       struct error *err)
{
    struct launch *l = &out->launch;
    bool selective = a->recompute_activations || text_is(a->granularity, "selective");
    l->recompute = RECOMPUTE_NONE;
    l->excepted = 0;
    l->recompute_first = 0;
    if (selective) {
        if (!read_modules(&l->excepted, a->modules ? a->modules : "core_attn", err))
            return error_within(err, "%s", name);
    } else if (a->granularity) {
        l->recompute = RECOMPUTE_BLOCK;
        bool first = strcmp(a->method, "block") == 0; /* of each virtual stage so many */
        int64_t most = a->layers > 0 ? launch_most_blocks(l, a->layers) : INT64_MAX;
        bool kept = a->recompute_layers < most || a->further > 0; /* it has no block method for those */
        l->recompute_first = first && kept ? min_i64(a->recompute_layers, most) : 0;
        if (a->recompute_layers != 1 && !first &&
            !say_unknown(out, arena, "--recompute-num-layers (every block by itself is computed again here)", err))
            return false;
    }
    l->offload = a->optimizer_offload ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    if (a->optimizer_offload && a->offload_fraction < 1 &&
        !say_unknown(out, arena, "--optimizer-offload-fraction (all of the optimizer's state is taken here)", err))
        return false;
    if (!megatron_say_unpriced(out, arena, a, err))
        return false;
    int64_t usual = max_i64(40000000, 1000000 * l->data);
    l->bucket_bytes = !a->overlap_reduce ? INT64_C(1) << ONE_BUCKET_BITS
                      : a->bucket == 1   ? 0
                      : a->bucket > 0    ? min_i64(a->bucket, INT64_C(1) << 37) * gradient_bytes(l, a)
                                         : usual * gradient_bytes(l, a);
    if (!set_sharding(out, arena, a, name, err))
        return false;
    if (out->says_data && l->data * l->context == 1)
        l->zero = 0;
    return true;
}

/* narrow: whether whoever runs it adds up gradients of bf16 weights in bf16 where nothing is said. */
static bool read_optimizer(struct launch_read *out, struct arena *arena, const struct megatron_args *a, bool narrow,
                           const char *name, struct error *err)
{
    struct launch *l = &out->launch;
    struct optimizer *o = &l->optimizer;
    bool adds_narrow = a->narrow_gradients;
    bool muon = strcmp(a->optimizer, "muon") == 0, sgd = strcmp(a->optimizer, "sgd") == 0;
    if (strcmp(a->optimizer, "adam") != 0 && !sgd && !muon)
        return fail(err, "%s: --optimizer: expected adam, sgd or muon, found \"%.64s\"", name, a->optimizer);
    if (sgd || muon)
        o->rule = muon ? OPTIMIZER_MUON : a->momentum > 0 ? OPTIMIZER_MOMENTUM : OPTIMIZER_SGD;
    if (muon && a->tensor > 1 && !text_is(a->muon_pieces, "blockwise") &&
        !say_unknown(out, arena, "--muon-tp-mode (blockwise here: each rank takes its piece of a matrix)", err))
        return false;
    if (a->precision_aware && !a->optimizer_offload) {
        int second = 0;
        if (!word_among(&o->moments, "--exp-avg-dtype", a->first_moment, optimizer_moment_names, name, err) ||
            !word_among(&second, "--exp-avg-sq-dtype", a->second_moment, optimizer_moment_names, name, err))
            return false;
        if (second != o->moments)
            return fail(err, "%s: --exp-avg-dtype %s and --exp-avg-sq-dtype %s: moments are planned in one precision",
                        name, a->first_moment, a->second_moment);
        o->master = strcmp(a->main_weights, "fp16") == 0 ? MASTER_FP16 : megatron_kept_master(l->dtype);
        adds_narrow = adds_narrow || strcmp(a->main_gradients, "bf16") == 0;
    }
    if (l->dtype != DTYPE_FP32)
        o->gradients = a->wide_gradients || (narrow && !adds_narrow)      ? GRADIENTS_FP32
                       : adds_narrow && !narrow && l->dtype != DTYPE_FP16 ? GRADIENTS_BF16
                                                                          : GRADIENTS_USUAL;
    return true;
}

static bool set_data(struct launch_read *out, const struct megatron_args *a, const char *name, struct error *err)
{
    struct launch *l = &out->launch;
    int64_t ranks = l->tensor * l->context * l->pipeline;
    int64_t devices = out->devices > 0 ? max_i64(out->devices, out->cluster_devices) : 0;
    out->says_data = devices > 0;
    l->data = 0;
    if (out->says_data)
        l->data = devices / ranks;
    out->says_batch = a->global_batch > 0 || (out->says_data && a->micro_batch > 0);
    l->batch = a->global_batch > 0 ? a->global_batch : a->micro_batch * l->data;
    l->micro_batch = max_i64(1, a->micro_batch);
    int64_t data = l->data > 0 ? l->data : out->cluster_devices / ranks; /* unsaid, it is what the cluster has */
    if (a->instances > 1 && data > 0) {
        if (data * l->context % a->instances != 0)
            return megatron_refuse(err, name, "optimizer-instances",
                                   "--num-distributed-optimizer-instances divides the data- and context-parallel "
                                   "ranks");
        if (data % a->instances != 0)
            return fail(err,
                        "%s: --num-distributed-optimizer-instances %lld: groups of shards that part the %lld ranks of "
                        "context parallelism are not planned: expected a divisor of the %lld data-parallel ranks, or 1",
                        name, (long long)a->instances, (long long)l->context, (long long)data);
        l->shard_group = a->sharded_optimizer || a->fsdp ? data / a->instances : 0;
    }
    return true;
}

/* What the model lacks is not computed again. */
static bool mask_operators(struct launch_read *out, struct error *err)
{
    struct graph *graph = NULL;
    if (!out->model || !out->launch.excepted)
        return true;
    if (!graph_take(&graph, out->model, 1, 0, 128, err))
        return false;
    out->launch.excepted &= megatron_graph_operators(graph);
    graph_free(graph);
    return true;
}

static bool check_rules(const struct launch_read *out, const char *name, struct error *err)
{
    struct launch_context context = { .model = out->model };
    for (const struct target_rule *rule = megatron_rules; rule->name; rule++)
        if (strcmp(rule->name, "model") != 0 && strcmp(rule->name, "recompute-modules") != 0 &&
            target_asks(rule, out->beyond) && !rule->holds(&out->launch, &context)) {
            struct text found = { 0 };
            if (rule->detail)
                rule->detail(&found, &out->launch, &context);
            fail(err, "%s: Megatron-LM refuses it: expected that %s%s%s (%s; %s)", name, rule->text,
                 found.data ? "; found: " : "", found.data ? found.data : "", rule->name, rule->source);
            text_free(&found);
            return false;
        }
    return true;
}

static bool set_degrees(struct launch *l, const struct megatron_args *a, const char *name, struct error *err)
{
    l->tensor = a->tensor;
    l->context = a->context;
    l->pipeline = a->pipeline;
    l->expert = a->expert;
    l->experts_whole =
        a->tensor > 1 && a->expert_tensor == 1 && a->expert > 1 && a->expert % (a->tensor * a->context) == 0;
    l->sequence_parallel = a->sequence_parallel && a->tensor > 1;
    if (a->expert > 1 && a->expert % a->context != 0)
        return fail(
            err,
            "%s: --expert-model-parallel-size %lld shares out experts over a part of %lld context-parallel ranks: "
            "expected a multiple, or 1, else it cannot be priced",
            name, (long long)a->expert, (long long)a->context);
    if (a->experts > 0 && a->expert_tensor > 0 && a->expert_tensor != a->tensor && !l->experts_whole)
        return fail(err,
                    "%s: --expert-tensor-parallel-size %lld beside --tensor-model-parallel-size %lld and "
                    "--expert-model-parallel-size %lld: expected %lld, or 1 with experts shared out over a multiple of "
                    "tensor x context = %lld ranks, else it cannot be priced",
                    name, (long long)a->expert_tensor, (long long)a->tensor, (long long)a->expert, (long long)a->tensor,
                    (long long)(a->tensor * a->context));
    if (strcmp(a->context_type, "p2p") == 0)
        l->context_dimension = DIM_cp_ring;
    else if (strcmp(a->context_type, "all_gather") == 0 || strcmp(a->context_type, "allgather") == 0)
        l->context_dimension = DIM_cp_gather;
    else if (strcmp(a->context_type, "a2a") == 0)
        l->context_dimension = DIM_cp_ulysses;
    else
        return fail(err,
                    "%s: --cp-comm-type: expected p2p, all_gather or a2a (a2a+p2p is not planned), found \"%.64s\"",
                    name, a->context_type);
    if (a->context == 1)
        l->context_dimension = launch_plain.context_dimension;
    return true;
}

/* What the settings say of a model that they do not describe whole: but for a vocabulary, or some sizes alone. */
static struct decoder described_sizes(const struct megatron_args *args)
{
    struct error why = { 0 };
    struct megatron_args any = *args;
    any.vocabulary = 1;
    struct model *model = megatron_model(&any, "sizes", &why);
    struct decoder sizes = { .hidden = args->hidden,
                             .blocks = args->layers,
                             .heads = args->heads,
                             .kv_heads = args->grouped_query ? args->query_groups : 0,
                             .head_dim = args->kv_channels,
                             .inner = args->experts > 0 ? 0 : args->ffn,
                             .experts = args->experts };
    if (model)
        sizes = decoder_of(model);
    sizes.vocab_size = args->vocabulary;
    model_free(model);
    return sizes;
}

bool megatron_launch(struct launch_read *out, struct arena *arena, const struct megatron_args *args, bool narrow,
                     const char *name, struct error *err)
{
    struct launch *l = &out->launch;
    *l = launch_plain;
    if (args->layers > 1 << 20)
        return fail(err, "%s: --num-layers: expected at most 2^20, found %lld", name, (long long)args->layers);
    if (args->first_layers > args->layers || args->last_layers > args->layers)
        return fail(err, "%s: expected no more layers on a stage than --num-layers", name);
    if (args->further < 0 || args->further > 16)
        return fail(err, "%s: --mtp-num-layers: expected 0 to 16, found %lld", name, (long long)args->further);
    if (args->sequence > 1 << 27 || args->micro_batch > 1 << 30 || args->global_batch > 1 << 30)
        return fail(err, "%s: expected --seq-length up to 2^27, batches up to 2^30", name);
    if (!megatron_check_divisors(out, args, name, err) || !set_degrees(l, args, name, err) ||
        !megatron_check(args, name, err) || !set_stages(l, arena, args, name, err) ||
        !megatron_check_overlap(args, l->chunks, name, err) || !set_data(out, args, name, err))
        return false;
    l->sequence = args->sequence;
    out->says_sequence = args->sequence > 0;
    l->clip_norm = args->clip;
    l->dtype = args->fp4    ? DTYPE_NVFP4
               : args->fp8  ? DTYPE_FP8
               : args->bf16 ? DTYPE_BF16
               : args->fp16 ? DTYPE_FP16
                            : DTYPE_FP32;
    out->says_dtype = true;
    if (args->fp8 && text_is(args->fp8_recipe, "mxfp8") && is_before_blackwell(out->device_name))
        return fail(err,
                    "%s: fp8 by the recipe mxfp8: expected devices of compute capability 10.0, such as b200-sxm "
                    "(TransformerEngine, check_mxfp8_support), found %s: use tensorwise, delayed or blockwise there",
                    name, out->device_name);
    if (!read_optimizer(out, arena, args, narrow, name, err) || !set_memory(out, arena, args, name, err))
        return false;
    l->chunk_group = l->chunks > 1 && args->group != args->pipeline ? args->group : 0;
    struct megatron_args described = *args;
    described.vocabulary = described.vocabulary > 0 ? described.vocabulary : out->vocabulary;
    out->model = out->other_model ? NULL : megatron_model(&described, "megatron", err);
    if (!out->model && !out->other_model && args->layers > 0 && args->hidden > 0 && args->heads > 0 &&
        described.vocabulary == 0)
        out->lacks = "--vocab-size, which its tokenizer knows";
    if (!out->model && !out->other_model)
        out->sizes = described_sizes(args);
    bool ok = out->model || !err || !err->kind || error_within(err, "%s", name); /* without sizes there is none */
    if (ok && mask_operators(out, err) && check_rules(out, name, err))
        return true;
    model_free(out->model);
    out->model = NULL;
    return false;
}
