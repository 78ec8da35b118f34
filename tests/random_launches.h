/* Launches that nobody chose, some of which a target's rules allow: what has no effect is said in one way. */
#ifndef CLEAVE_TESTS_RANDOM_LAUNCHES_H
#define CLEAVE_TESTS_RANDOM_LAUNCHES_H
#include "models/layer_kind.h"
#include "models/operators.h"
#include "planner/program/schedule.h"
#include "targets/decoder.h"
#include "targets/megatron.h"
#include "targets/target.h"
#include "tests/model_files.h"
#include "tests/random_numbers.h"

/* A small model of DeepSeek-V3's kind, with two blocks that predict further tokens: no file of the zoo has any. */
#define LATENT_BLOCK(network)                                                                                          \
    "{\"kind\":\"latent_attention\",\"heads\":16,\"query_rank\":64,\"kv_rank\":32,\"plain_dim\":16,\"rope_dim\":8,"    \
    "\"value_dim\":16,\"rope_base\":10000,\"norm\":\"rms_norm\"},"                                                     \
    "{\"kind\":" network ",\"activation\":\"swiglu\",\"norm\":\"rms_norm\""
#define SOME_EXPERTS                                                                                                   \
    "\"moe\",\"experts\":16,\"choices\":4,\"inner\":64,\"shared_inner\":64,\"gates\":\"sigmoid_of_chosen\","           \
    "\"router_correction\":true,\"gate_scale\":2.5,\"dropless\":true"
#define FURTHER_LAYERS(passed, before, block, loss)                                                                    \
    "{\"kind\":\"multi_token\",\"norm\":\"rms_norm\",\"inputs\":[\"" before                                            \
    "\"]}," LATENT_BLOCK(SOME_EXPERTS) ",\"name\":\"" block "\"},{\"kind\":\"multi_token_loss\",\"name\":\"" loss      \
                                       "\",\"weight\":0.15,\"norm\":"                                                  \
                                       "\"rms_norm\",\"inputs\":[\"" passed "\",\"" block "\"]},"
/* clang-format off */
static const char further_model[] =
    "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"further\",\"sequence\":4096,\"hidden\":256,\"vocab_size\":32000,"
    "\"layers\":[{\"kind\":\"embedding\"},"
    "{\"repeat\":2,\"layers\":[" LATENT_BLOCK("\"mlp\",\"inner\":512") "}]},"
    "{\"repeat\":14,\"layers\":[" LATENT_BLOCK(SOME_EXPERTS) ",\"name\":\"trunk\"}]},"
    FURTHER_LAYERS("trunk", "trunk", "ahead1", "pass1")
    FURTHER_LAYERS("pass1", "ahead1", "ahead2", "pass2")
    "{\"kind\":\"head\",\"norm\":\"rms_norm\"},{\"kind\":\"loss\"}]}";
/* clang-format on */

/* "further", or one of the zoo. */
static inline struct model *model_of_name(const char *name)
{
    return strcmp(name, "further") == 0 ? model_of_text(further_model) : model_of_zoo(name);
}

static inline struct launch random_launch(uint64_t *state, struct arena *arena, const struct model *model)
{
    static const char *const modules[] = { "none",   "core",       "norm", "gate+up+act", "norm+gate+up+act",
                                           "up+act", "core+up+act" };
    static const int contexts[] = { DIM_cp_ring, DIM_cp_gather, DIM_cp_ulysses };
    static const enum dtype dtypes[] = { DTYPE_BF16, DTYPE_BF16, DTYPE_FP16, DTYPE_FP32, DTYPE_FP8, DTYPE_NVFP4 };
    struct launch l = launch_plain;
    int64_t blocks = megatron_blocks(model);
    l.tensor = INT64_C(1) << draw(state, 4);
    l.sequence_parallel = l.tensor > 1 && draw(state, 3) > 0;
    l.context = INT64_C(1) << draw(state, 2);
    l.context_dimension = contexts[draw(state, 3)];
    l.pipeline = INT64_C(1) << draw(state, 4);
    l.chunks = l.pipeline > 1 && draw(state, 2) ? 2 + (int64_t)draw(state, 3) : 1;
    l.schedule = l.chunks > 1 ? SCHEDULE_interleaved : SCHEDULE_one_f_one_b;
    l.data = INT64_C(1) << draw(state, 5);
    l.expert = INT64_C(1) << draw(state, 4);
    l.experts_whole = l.expert > 1 && l.sequence_parallel && draw(state, 2);
    l.micro_batch = 1 + (int64_t)draw(state, 3);
    int64_t count = (l.chunks > 1 ? l.pipeline : 1) * (1 + (int64_t)draw(state, 6));
    if (l.chunks > 1 && draw(state, 3) == 0) {
        count += 1 + (int64_t)draw(state, 5);
        int group = schedule_least_group((int)l.pipeline, (int)count);
        l.chunk_group = group > l.pipeline ? group : 0;
    }
    l.batch = l.micro_batch * l.data * count;
    l.sequence = 1024 << draw(state, 3);
    l.dtype = dtypes[draw(state, sizeof dtypes / sizeof *dtypes)];
    l.zero = (int64_t)draw(state, 2);
    l.shard_group = l.zero && l.data > 1 && draw(state, 4) == 0 ? l.data / 2 : 0;
    l.recompute = draw(state, 3) == 0 ? RECOMPUTE_BLOCK : RECOMPUTE_NONE;
    if (l.recompute == RECOMPUTE_NONE)
        operators_read(&l.excepted, modules[draw(state, sizeof modules / sizeof *modules)]);
    l.offload = l.zero && draw(state, 5) == 0 ? OFFLOAD_OPTIMIZER : OFFLOAD_NONE;
    l.bucket_bytes = draw(state, 5) == 0   ? INT64_C(1) << 40
                     : draw(state, 5) == 0 ? 0
                                           : (int64_t)(1 + draw(state, 1000)) * 40000;
    if (l.context == 1)
        l.context_dimension = launch_plain.context_dimension;
    if (l.data * l.context == 1)
        l.zero = l.shard_group = 0;
    l.clip_norm = draw(state, 3) == 0 ? 0 : 1;
    int pieces = (int)(l.pipeline * l.chunks);
    int *each = arena_alloc(arena, (size_t)pieces, sizeof *each);
    for (int64_t b = 0; b < blocks; b++)
        each[draw(state, 2) ? b % pieces : (int64_t)draw(state, (uint64_t)pieces)]++;
    l.further = decoder_further(model);
    l.further_piece = l.further > 0 ? pieces - 1 : 0;
    l.piece_count = l.pipeline > 1 ? pieces : 0;
    l.piece_blocks = l.pipeline > 1 ? each : NULL;
    int64_t most = launch_most_blocks(&l, blocks);
    if (l.recompute == RECOMPUTE_BLOCK && most > 1 && draw(state, 2))
        l.recompute_first = 1 + (int64_t)draw(state, (uint64_t)most - (l.further == 0));
    struct optimizer optimizer = { .rule = (int)draw(state, OPTIMIZER_COUNT),
                                   .moments = (int)draw(state, MOMENTS_COUNT),
                                   .master = (int)draw(state, MASTER_COUNT),
                                   .gradients = (int)draw(state, GRADIENTS_COUNT) };
    const char *key;
    struct error why = { 0 };
    if (draw(state, 2) && optimizer_check(&key, &optimizer, l.dtype, &why))
        l.optimizer = optimizer;
    return l;
}

static inline uint64_t graph_operators(const struct graph *graph)
{
    uint64_t set = 0;
    for (int i = 0; i < graph->layer_count; i++)
        set |= graph_layer_operators(graph, i);
    return set;
}

#endif
