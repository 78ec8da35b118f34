/* Frozen matrices in few bits: what they take, against bitsandbytes' own arithmetic, on ranks that share them out and
 * on such that do not; what expanding them costs; who refuses them. */
#include "models/quantized.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/cost/cost.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/program/recipe.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/lowered_program.h"
#include "tests/model_files.h"
#include "tests/tiny_models.h"
#include <math.h>

/* bitsandbytes/functional.py, quantize_4bit(): two elements a byte, an fp32 scale for each 64 of them; with nested
 * statistics a byte for each, and an fp32 scale for each 256 of these. int8_vectorwise_quant(): an fp32 scale a row. */
START_TEST(bytes_are_those_of_bitsandbytes)
{
    static const struct {
        enum quantized form;
        int64_t bytes, scales;
    } want[] = { { QUANTIZED_NONE, 2 * 4096 * 11008, 0 },
                 { QUANTIZED_NF4, 4096 * 11008 / 2, 4096 * 11008 / 64 * 4 },
                 { QUANTIZED_NF4_DOUBLE, 4096 * 11008 / 2, 4096 * 11008 / 64 + 4096 * 11008 / 64 / 256 * 4 },
                 { QUANTIZED_INT4, 4096 * 11008 / 2, 4096 * 11008 / 128 * 3 },
                 { QUANTIZED_INT8, 4096 * 11008, 11008 * 4 } };
    ck_assert_int_eq(sizeof want / sizeof *want, QUANTIZED_COUNT);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        const struct weight weight = { .dim_count = 2,
                                       .size = { 4096, 11008 },
                                       .column_dims = 1, /* what a row has one of each */
                                       .row_dims = 2,
                                       .frozen = true,
                                       .quantized = want[i].form };
        ck_assert_int_eq(weight_bytes(&weight, DTYPE_BF16, 4096 * 11008), want[i].bytes);
        ck_assert_int_eq(weight_scale_bytes(&weight, 4096 * 11008), want[i].scales);
        ck_assert_int_eq(weight_bytes(&weight, DTYPE_BF16, 3),
                         want[i].form ? ceil_div(want[i].bytes * 3, 4096 * 11008) : 6);
    }
}
END_TEST

static int64_t stored_bytes(const struct program *program, enum buffer_kind kind, bool quantized)
{
    int64_t bytes = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->kind == kind && (program->graph->weights[buffer->id].quantized != QUANTIZED_NONE) == quantized)
            bytes += buffer->bytes;
    }
    return bytes;
}

/* Of 70B all matrices of blocks are in 4 bits: embedding, head and norms are not, nor are adapters. Ranks of ZeRO-3
 * share out the elements, and each has all scales, as FSDP leaves them with the module. */
START_TEST(ranks_share_elements_and_have_all_scales)
{
    enum { RANKS = 8 };
    const int64_t block = 8192 * (2 * 8192 + 2 * 1024 + 3 * 28672), matrices = 80 * block;
    const int64_t others = 2 * 32000 * 8192 + 161 * 8192, adapters = 744488960;
    for (int n = 0; n < 8; n++) {
        const int zero = n % 4, hosts = n / 4, part = zero == 3 ? RANKS : 1;
        struct strategy s = {
            "", "llama-2-70b-qlora", "1f1b", 1, { RANKS, 1 }, { "dp", "none" }, 1, zero, 0, 1, 0, 0, 0
        };
        struct lowered l = lowered_open(&s);
        struct error err = { 0 };
        l.plan->dtype = DTYPE_BF16;
        for (int layer = 0; layer < l.graph->layer_count; layer++)
            l.plan->layers[layer].offload = hosts ? OFFLOAD_PARAMETERS : OFFLOAD_NONE;
        ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s", err.message);
        const int64_t scales = matrices / 64 + matrices / 64 / 256 * 4;
        ck_assert_int_eq(stored_bytes(l.program, BUFFER_WEIGHT, true), matrices / 2 / part + scales);
        ck_assert_int_eq(stored_bytes(l.program, BUFFER_WEIGHT, false), 2 * (others + adapters) / part);
        int gathered = 0, fetched = 0;
        for (int i = 0; i < l.program->buffer_count; i++) { /* gathered without scales, fetched with them */
            const struct buffer *buffer = &l.program->buffers[i];
            const struct weight *weight = buffer->is_weight ? &l.graph->weights[buffer->id] : NULL;
            if (buffer->kind != BUFFER_WEIGHT_USE || !weight->quantized)
                continue;
            bool whole = zero == 3 && !layout_atoms(&buffer->layout, LAYOUT_FLAT);
            const int64_t elements = weight_elements(weight);
            gathered += whole;
            fetched += !whole;
            ck_assert_int_eq(buffer->bytes,
                             whole ? elements / 2 : elements / 2 / part + weight_scale_bytes(weight, elements));
        }
        ck_assert(zero == 3 ? gathered >= 80 * 7 : gathered == 0);
        ck_assert(hosts ? fetched >= 80 * 7 : fetched == 0);
        ck_assert(layout_program(l.program, &err));
        ck_assert_msg(verify_program(l.program, &err), "%s", err.message);
        lowered_free(&l);
    }
}
END_TEST

/* The largest matrix lies expanded beside everything else while its product runs; a mixture's experts take turns. */
START_TEST(one_matrix_lies_expanded)
{
    struct strategy s = { "", "llama-2-70b-qlora", "1f1b", 1, { 2, 1 }, { "tp", "none" }, 1, 0, 0, 1, 0, 0, 0 };
    struct lowered l = lowered_open(&s);
    struct error err = { 0 };
    l.plan->dtype = DTYPE_BF16;
    ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s", err.message);
    int64_t most = 0;
    for (int i = 0; i < l.program->stages[0].instr_count; i++) {
        const struct instr *instr = &l.program->stages[0].instrs[i];
        if (instr->op == OP_COMPUTE && l.graph->segments[instr->segment].arguments.quantized)
            most = max_i64(most, 4 * layout_scratch_elements(l.program, 0, instr));
    }
    ck_assert_int_eq(most, 2 * 8192 * 28672 / 2);
    lowered_free(&l);
    static const char text[] = TINY_HEAD(
        "experts", "false") "{\"kind\": \"embedding\", \"frozen\": true}, "
                            "{\"kind\": \"attention\", \"heads\": 4, \"norm\": \"rms_norm\", \"frozen\": true, "
                            "\"lora_r\": 2, \"target_modules\": [\"q_proj\"]}, "
                            "{\"kind\": \"moe\", \"experts\": 4, \"choices\": 2, \"inner\": 16, \"activation\": "
                            "\"swiglu\", \"norm\": \"rms_norm\", \"frozen\": true, \"quantized\": \"nf4\"}, "
                            "{\"kind\": \"head\", \"norm\": \"rms_norm\", \"frozen\": true}, {\"kind\": "
                            "\"loss\"}]}";
    struct graph *graph = tiny_graph(text);
    int experts = 0;
    for (int i = 0; i < graph->segment_count; i++) {
        const struct segment *segment = &graph->segments[i];
        int64_t extents[MAX_AXES];
        for (int axis = 0; axis < segment->axis_count; axis++)
            extents[axis] = segment->axes[axis].size;
        if (!segment->arguments.quantized || segment_axis(segment, TAG_EXPERT) < 0)
            continue;
        experts++;
        ck_assert_int_eq(segment_expanded_bytes(segment, PHASE_FORWARD, DTYPE_BF16, extents), 2 * 32 * 16);
        ck_assert_int_eq(segment_expansion(segment, PHASE_FORWARD, DTYPE_BF16, extents).bytes, 4 * 32 * 16 * 5 / 2);
        ck_assert_int_eq(segment_expansion(segment, PHASE_BACKWARD_WEIGHT, DTYPE_BF16, extents).bytes, 0);
    }
    ck_assert_int_eq(experts, 3);
    graph_free(graph);
}
END_TEST

/* Expanding is a pass over memory on devices whose vector units are fast, and takes them on the others: bitsandbytes'
 * pull request 1747 made the kernel up to twice as fast on A100 and H100, and for large matrices not on RTX 4090 or L4.
 * It costs what it costs, whatever the tokens. */
START_TEST(expanding_is_priced)
{
    static const struct {
        const char *device;
        double least, most; /* of the time that its memory needs */
    } devices[] = { { "a100-sxm-40", 1.5, 3.5 }, { "h100-sxm", 1.2, 2.5 }, { "rtx4090", 1, 1 }, { "l4", 1, 1 } };
    const int64_t bytes = 8192 * 28672 / 2 * 5;
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
        double ns[2][2];
        char words[64];
        snprintf(words, sizeof words, "1x1:%s", devices[d].device);
        struct cluster *cluster = cluster_open(words);
        const struct facts facts = { .cluster = cluster };
        for (int quantized = 0; quantized < 2; quantized++)
            for (int tokens = 0; tokens < 2; tokens++) {
                struct model *model = model_of_zoo("llama-2-70b-qlora");
                struct graph *graph = graph_of(model, 1, 2048 << tokens, 128);
                const struct segment *up = NULL;
                for (int i = 0; i < graph->segment_count && !up; i++)
                    up = strcmp(graph->segments[i].name, "up") ? NULL : &graph->segments[i];
                struct segment segment = *up;
                int64_t extents[MAX_AXES];
                for (int axis = 0; axis < segment.axis_count; axis++)
                    extents[axis] = segment.axes[axis].size;
                ck_assert_int_eq(segment.arguments.quantized, QUANTIZED_NF4_DOUBLE);
                segment.arguments.quantized = quantized ? QUANTIZED_NF4_DOUBLE : QUANTIZED_NONE;
                ns[quantized][tokens] =
                    (double)cost_compute(&facts, 0, &segment, PHASE_FORWARD, DTYPE_BF16, extents, 1 << 20).ns;
                graph_free(graph);
                model_free(model);
            }
        const struct device_type *device = &cluster->types[0].device;
        double memory_ns = (double)bytes / device->memory_bytes_per_s / device->memory_efficiency * 1e9,
               own = ns[1][0] - ns[0][0] - (double)device->launch_ns;
        CHECK_NEAR((ns[1][1] - ns[0][1]) / (ns[1][0] - ns[0][0]), 1, 1e-3);
        ck_assert_msg(own > devices[d].least * memory_ns * .999 && own < devices[d].most * memory_ns * 1.001,
                      "%s: %.0f ns, %.0f by its memory", devices[d].device, own, memory_ns);
        cluster_free(cluster);
    }
}
END_TEST

static bool reads(const char *text, struct error *err)
{
    struct model *model = NULL;
    bool good = model_read(&model, "m.json", text, strlen(text), NULL, err);
    model_free(model);
    return good;
}

START_TEST(only_what_is_frozen_is_quantized)
{
    static const struct {
        const char *layers, *says;
    } bad[] = {
        { "{\"kind\": \"embedding\"}, {\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"norm\": "
          "\"rms_norm\", \"quantized\": \"nf4\"}",
          "expected \"frozen\": true beside it" },
        { "{\"kind\": \"embedding\", \"frozen\": true, \"quantized\": \"nf4\"}", "found it in embedding" },
        { "{\"kind\": \"embedding\"}, {\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"norm\": "
          "\"rms_norm\", \"frozen\": true, "
          "\"quantized\": \"nf5\"}",
          "nf4-double" },
    };
    char text[1024];
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct error err = { 0 };
        snprintf(text, sizeof text, "%s%s, {\"kind\": \"head\"}, {\"kind\": \"loss\"}]}", TINY_HEAD("q", "false"),
                 bad[i].layers);
        ck_assert(!reads(text, &err));
        ck_assert_msg(strstr(err.message, bad[i].says) != NULL, "%s", err.message);
    }
    struct model *model = model_of_zoo("llama-2-70b-qlora");
    struct graph *graph = graph_of(model, 1, 128, 128);
    ck_assert_str_eq(graph->planned_layer, "1.attention"); /* no device runs it */
    for (int w = 0; w < graph->weight_count; w++) {
        const struct weight *weight = &graph->weights[w];
        ck_assert_msg(!weight->quantized || (weight->frozen && weight->row_dims && weight->column_dims), "%s",
                      weight->name);
        ck_assert_msg(weight->frozen || strstr(weight->name, "_lora_"), "%s", weight->name);
    }
    graph_free(graph);
    model_free(model);
}
END_TEST

static Suite *quantized_suite(void)
{
    Suite *suite = suite_create("quantized");
    CHECK_ADD(suite, bytes_are_those_of_bitsandbytes);
    CHECK_ADD(suite, ranks_share_elements_and_have_all_scales);
    CHECK_ADD(suite, one_matrix_lies_expanded);
    CHECK_ADD(suite, expanding_is_priced);
    CHECK_ADD(suite, only_what_is_frozen_is_quantized);
    return suite;
}

CHECK_MAIN(quantized_suite)
