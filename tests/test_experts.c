/* A mixture of experts, kernel by kernel as its segments say, against one written per token: the layer's output, and
 * its gradients against differences of that output and of the auxiliary loss. Built for float and for double. */
#include "base/num.h"
#include "check.h"
#include "executor/kernel.h"
#include "models/model.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef CLEAVE_TEST_GPU
#include "tests/gpu_primitives.h"
/* The last of the sets: a GPU, or an emulated one whose teams have several threads. */
static kernel_function *kernel_on_gpu(enum kernel kernel, enum phase phase)
{
    const struct primitives *set = NULL;
    for (int i = 0; gpu_primitives_at(i); i++)
        set = gpu_primitives_at(i);
    return set ? set->kernel[kernel][phase] : NULL;
}
#define kernel_find kernel_on_gpu
#endif

#ifdef CLEAVE_REAL_DOUBLE
static const double forward_tolerance = 1e-12, backward_tolerance = 1e-7;
#else
static const double forward_tolerance = 2e-6, backward_tolerance = 2e-4;
#endif

enum { BATCH = 2, TOKENS = 8, HIDDEN = 6, INNER = 5, LAYER = 1 };

struct variant {
    int experts, choices, group, shared; /* group 0: the sequence */
    const char *activation, *gates;
    double capacity_factor, gate_scale, balance;
    bool biases, correction, shared_gate;
    int groups, chosen; /* of experts */
};
static const struct variant variants[] = {
    { 4, 2, 4, 0, "swiglu", "softmax_of_chosen", 1, 1, .balance = 0.3 },
    { 4, 2, 8, 3, "gelu", "softmax_of_all", 0.6, 2.5, .balance = 0.2 },
    { 5, 3, 2, 4, "swiglu", "softmax_of_all", 9, 1, .balance = 0.1 },
    { 3, 1, 0, 0, "gelu", "softmax_of_all", 1.25, 1, .balance = 0.4 },
    { 1, 1, 4, 0, "swiglu", "softmax_of_chosen", 1, 0.5, .balance = 0.1 },
    { 7, 7, 0, 2, "relu", "softmax_of_chosen", 1, 1, .balance = 0 },
#ifndef CLEAVE_TEST_GPU
    { 6, 3, 4, 3, "swiglu", "sigmoid_of_chosen", 1.2, 2.5, 0.3, .correction = true },
    { 4, 2, 0, 2, "swiglu", "softmax_of_chosen", 9, 1, 0.3, .shared_gate = true },
    { 5, 2, 4, 0, "swiglu_clamped", "softmax_of_chosen", 1, 1, 0, .biases = true },
    { 4, 1, 0, 3, "swiglu", "sigmoid", 1, 1, 0.2, .biases = true, .shared_gate = true },
    { 8, 3, 0, 2, "gelu", "sigmoid_of_chosen", 2, 1, 0.1, .correction = true, .groups = 4, .chosen = 2 },
    { 6, 2, 4, 0, "swiglu", "softmax_of_all", 2, 1, 0.1, .groups = 3, .chosen = 1 },
#endif
};
enum { VARIANTS = sizeof variants / sizeof *variants };

/* ---- the layer as the project runs it ---- */
struct run {
    struct graph *graph;
    const struct segment *segments; /* of the layer */
    int segment_count;
    double *value[64], *gradient[64]; /* whole tensors; what kernels see are copies in their own type */
    double *weight[64], *weight_gradient[64];
    uint64_t random;
    int64_t overflow;
};

static double draw(struct run *run)
{
    return (double)(int64_t)(mix64(++run->random) >> 44) / (1 << 19) - 1;
}

static int64_t value_elements(const struct run *run, int value)
{
    int64_t count = 1;
    for (int d = 0; d < run->graph->values[value].dim_count; d++)
        count *= run->graph->values[value].size[d];
    return count;
}

static const char *truth(bool value)
{
    return value ? "true" : "false";
}

static void run_open(struct run *run, const struct variant *v)
{
    char json[1024];
    struct model *model;
    struct error error = { 0 };
    *run = (struct run){ .random = (uint64_t)(v->experts * 100 + v->group) };
    snprintf(json, sizeof json,
             "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"m\", \"sequence\": %d, \"hidden\": %d, "
             "\"vocab_size\": 9, \"layers\": [{\"kind\": \"embedding\"}, {\"kind\": \"moe\", \"experts\": %d, "
             "\"choices\": %d, \"inner\": %d, \"shared_inner\": %d, \"group\": %d, \"activation\": \"%s\", \"gates\": "
             "\"%s\", \"capacity_factor\": %g, \"gate_scale\": %g, \"balance_loss\": %g, \"router_bias\": %s, "
             "\"expert_bias\": %s, \"router_correction\": %s, \"shared_gate\": %s, \"expert_groups\": %d, "
             "\"chosen_groups\": %d, \"norm\": \"none\"}, "
             "{\"kind\": \"head\", \"norm\": \"none\"}, {\"kind\": \"loss\"}]}",
             TOKENS, HIDDEN, v->experts, v->choices, INNER, v->shared, v->group, v->activation, v->gates,
             v->capacity_factor, v->gate_scale, v->balance, truth(v->biases), truth(v->biases), truth(v->correction),
             truth(v->shared_gate), v->groups, v->chosen);
    ck_assert_msg(model_read(&model, "m", json, strlen(json), NULL, &error), "%s", error.message);
    ck_assert_msg(graph_build(&run->graph, model, BATCH, 0, 1, &error), "%s", error.message);
    model_free(model);
    run->segments = &run->graph->segments[run->graph->layers[LAYER].first_segment];
    run->segment_count = run->graph->layers[LAYER].segment_count;
    for (int i = 0; i < run->graph->value_count; i++) {
        run->value[i] = calloc((size_t)value_elements(run, i), sizeof(double));
        run->gradient[i] = calloc((size_t)value_elements(run, i), sizeof(double));
    }
    for (int i = 0; i < run->graph->weight_count; i++) {
        run->weight[i] = calloc((size_t)weight_elements(&run->graph->weights[i]), sizeof(double));
        run->weight_gradient[i] = calloc((size_t)weight_elements(&run->graph->weights[i]), sizeof(double));
        for (int64_t j = 0; j < weight_elements(&run->graph->weights[i]); j++)
            run->weight[i][j] = draw(run);
    }
    int in = run->graph->layers[0].output_value, out = run->graph->layers[LAYER].output_value;
    for (int64_t j = 0; j < value_elements(run, in); j++)
        run->value[in][j] = draw(run);
    for (int64_t j = 0; j < value_elements(run, out); j++)
        run->gradient[out][j] = draw(run);
}

static void run_close(struct run *run)
{
    for (int i = 0; i < run->graph->value_count; i++)
        free(run->value[i]), free(run->gradient[i]);
    for (int i = 0; i < run->graph->weight_count; i++)
        free(run->weight[i]), free(run->weight_gradient[i]);
    graph_free(run->graph);
}

static double *tensor_of(const struct run *run, const struct segment *s, enum role role, int i, int64_t *count,
                         bool *index)
{
    bool weight = role == ROLE_WEIGHT || role == ROLE_GRADIENT_WEIGHT;
    bool in = role == ROLE_IN || role == ROLE_GRADIENT_IN;
    int n = weight ? s->weight_count : in ? s->in_count : s->out_count;
    if (i >= n)
        return NULL;
    int id = weight ? s->weight[i].id : in ? s->in[i].id : s->out[i].id;
    *count = weight ? weight_elements(&run->graph->weights[id]) : value_elements(run, id);
    *index = !weight && run->graph->values[id].element == ELEMENT_INDEX;
    bool gradient = role == ROLE_GRADIENT_IN || role == ROLE_GRADIENT_OUT || role == ROLE_GRADIENT_WEIGHT;
    if (gradient && !weight && !run->graph->values[id].differentiable)
        return NULL;
    return weight ? (gradient ? run->weight_gradient : run->weight)[id] : (gradient ? run->gradient : run->value)[id];
}

static void set_view(struct view *view, const struct run *run, const struct segment *s, enum role role, int i)
{
    bool weight = role == ROLE_WEIGHT || role == ROLE_GRADIENT_WEIGHT;
    int id = weight ? s->weight[i].id : role == ROLE_IN || role == ROLE_GRADIENT_IN ? s->in[i].id : s->out[i].id;
    view->dim_count = weight ? run->graph->weights[id].dim_count : run->graph->values[id].dim_count;
    memcpy(view->count, weight ? run->graph->weights[id].size : run->graph->values[id].size, sizeof view->count);
}

/* Runs one phase of a segment; unwritten slots of outputs hold NaN before. halves: the first axis in two calls. */
static void run_segment(struct run *run, const struct segment *s, enum phase phase, bool halves)
{
    kernel_function *kernel = kernel_find(s->kernel, phase);
    struct kernel_call call = {
        .segment = s, .phase = phase, .first = true, .overflow = &run->overflow, .loss_scale = 1
    };
    int64_t extents[MAX_AXES] = { 0 };
    for (int a = 0; a < s->axis_count; a++)
        extents[a] = s->axes[a].size;
    call.scratch = calloc((size_t)(segment_scratch_elements(run->graph, s, phase, extents) + 1), sizeof(real));
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            int64_t count;
            bool index;
            const double *from = tensor_of(run, s, (enum role)role, i, &count, &index);
            if (!from)
                continue;
            set_view(&call.operand[role][i], run, s, (enum role)role, i);
            call.operand[role][i].data = calloc((size_t)count, sizeof(double));
            for (int64_t j = 0; j < count; j++)
                if (index)
                    ((int32_t *)call.operand[role][i].data)[j] = (int32_t)from[j];
                else
                    ((real *)call.operand[role][i].data)[j] =
                        role == ROLE_OUT && phase == PHASE_FORWARD ? (real)NAN : (real)from[j];
        }
    for (int half = 0; kernel && half < 1 + halves; half++) {
        memset(call.low, 0, sizeof call.low);
        memcpy(call.high, extents, sizeof call.high);
        if (halves)
            *(half ? &call.low[0] : &call.high[0]) = extents[0] / 2;
        kernel(&call);
    }
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            int64_t count;
            bool index, written = phase == PHASE_FORWARD          ? role == ROLE_OUT
                                  : phase == PHASE_BACKWARD_INPUT ? role == ROLE_GRADIENT_IN
                                                                  : role == ROLE_GRADIENT_WEIGHT;
            double *to = tensor_of(run, s, (enum role)role, i, &count, &index);
            for (int64_t j = 0; to && written && j < count; j++)
                to[j] = index ? ((int32_t *)call.operand[role][i].data)[j]
                              : (double)((real *)call.operand[role][i].data)[j];
            free(call.operand[role][i].data);
        }
    free(call.scratch);
}

static void run_forward(struct run *run, bool halves)
{
    for (int i = 0; i < run->segment_count; i++)
        run_segment(run, &run->segments[i], PHASE_FORWARD, halves);
}

static void run_backward(struct run *run)
{
    for (int i = run->segment_count - 1; i >= 0; i--) {
        run_segment(run, &run->segments[i], PHASE_BACKWARD_WEIGHT, false);
        run_segment(run, &run->segments[i], PHASE_BACKWARD_INPUT, false);
    }
}

/* ---- the same per token ---- */
static const double *weight_named(const struct run *run, const char *name)
{
    char full[64];
    snprintf(full, sizeof full, "1.moe.%s", name);
    for (int i = 0; i < run->graph->weight_count; i++)
        if (strcmp(run->graph->weights[i].name, full) == 0)
            return run->weight[i];
    return NULL;
}

static double activation(const char *name, double gate, double up)
{
    if (strcmp(name, "swiglu") == 0)
        return gate / (1 + exp(-gate)) * up;
    if (strcmp(name, "swiglu_clamped") == 0) {
        gate = fmin(gate, 7), up = fmax(fmin(up, 7), -7);
        return gate / (1 + exp(-1.702 * gate)) * (up + 1);
    }
    if (strcmp(name, "relu") == 0)
        return fmax(up, 0);
    return 0.5 * up * (1 + tanh(sqrt(2 / acos(-1)) * (up + 0.044715 * up * up * up)));
}

/* Adds scale times the network of widths HIDDEN, inner, HIDDEN on x. */
static void add_network(const struct run *run, const struct variant *v, const char *prefix, int expert, int inner,
                        double scale, const double *x, double *y)
{
    char name[3][32];
    const double *matrix[3], *bias[3];
    for (int m = 0; m < 3; m++) {
        static const char *const parts[] = { "gate", "up", "down" };
        snprintf(name[m], sizeof name[m], "%s_%s_bias", prefix, parts[m]);
        bias[m] = weight_named(run, name[m]);
        bias[m] = bias[m] ? bias[m] + expert * (m == 2 ? HIDDEN : inner) : NULL;
        snprintf(name[m], sizeof name[m], "%s_%s", prefix, parts[m]);
        matrix[m] = weight_named(run, name[m]);
        matrix[m] = matrix[m] ? matrix[m] + (int64_t)expert * HIDDEN * inner : NULL;
    }
    for (int f = 0; f < inner; f++) {
        double gate = bias[0] ? bias[0][f] : 0, up = bias[1] ? bias[1][f] : 0;
        for (int h = 0; h < HIDDEN; h++) {
            gate += matrix[0] ? x[h] * matrix[0][h * inner + f] : 0;
            up += x[h] * matrix[1][h * inner + f];
        }
        for (int h = 0; h < HIDDEN; h++)
            y[h] += scale * activation(v->activation, gate, up) * matrix[2][f * HIDDEN + h];
    }
    for (int h = 0; h < HIDDEN && bias[2]; h++)
        y[h] += scale * bias[2][h];
}

struct answer {
    double out[BATCH][TOKENS][HIDDEN], balance; /* balance: mean over groups, without its weight */
    int dropped;
};

/* Experts of groups that the token does not take fall behind all others. */
static void drop_groups(const struct variant *v, double *scores)
{
    double best[8];
    int size = v->experts / (v->groups ? v->groups : 1);
    for (int g = 0; g < v->groups; g++) {
        best[g] = -9;
        for (int e = g * size; e < (g + 1) * size; e++)
            for (int other = g * size; other < e; other++)
                best[g] = fmax(best[g], strstr(v->gates, "sigmoid") ? scores[e] + scores[other]
                                                                    : fmax(scores[e], scores[other]));
    }
    for (int g = 0; g < v->groups; g++) {
        int before = 0;
        for (int other = 0; other < v->groups; other++)
            before += best[other] > best[g];
        for (int e = g * size; before >= v->chosen && e < (g + 1) * size; e++)
            scores[e] = -9;
    }
}

static int rank_of(const double *logits, int experts, int e) /* how many come before */
{
    int rank = 0;
    for (int other = 0; other < experts; other++)
        rank += logits[other] > logits[e] || (logits[other] == logits[e] && other < e);
    return rank;
}

static void answer_group(const struct run *run, const struct variant *v, int b, int first, int group,
                         struct answer *out)
{
    const double *x = run->value[run->graph->layers[0].output_value], *router = weight_named(run, "router");
    const double *bias = weight_named(run, "router_bias"), *correction = weight_named(run, "router_correction"),
                 *scale = weight_named(run, "shared_scale");
    const bool sigmoid = strstr(v->gates, "sigmoid") != NULL;
    double logits[TOKENS][8] = { { 0 } }, share[TOKENS][8], mean[8] = { 0 };
    int taken[8] = { 0 }, chosen[8] = { 0 };
    int most = (int)ceil(v->capacity_factor * v->choices * group / v->experts - 1e-9);
    for (int t = 0; t < group; t++) {
        const double *row = x + (b * TOKENS + first + t) * HIDDEN;
        double all = 0;
        for (int e = 0; e < v->experts; e++) {
            for (int h = 0; h < HIDDEN; h++)
                logits[t][e] += row[h] * router[h * v->experts + e];
            logits[t][e] += bias ? bias[e] : 0;
            share[t][e] = sigmoid ? 1 / (1 + exp(-logits[t][e])) : exp(logits[t][e]);
            all += share[t][e];
        }
        for (int e = 0; e < v->experts; e++) {
            mean[e] += share[t][e] / all / group;
            share[t][e] /= sigmoid ? 1 : all;
            logits[t][e] = share[t][e] + (correction ? correction[e] : 0); /* from here on what is chosen by */
        }
        drop_groups(v, logits[t]);
        memcpy(out->out[b][first + t], row, HIDDEN * sizeof(double));
        double open = 0;
        for (int h = 0; h < HIDDEN; h++)
            open += scale ? row[h] * scale[h] : 0;
        if (v->shared)
            add_network(run, v, "shared", 0, v->shared, scale ? 1 / (1 + exp(-open)) : 1, row, out->out[b][first + t]);
    }
    for (int k = 0; k < v->choices; k++)
        for (int t = 0; t < group; t++) {
            double kept = 0;
            int expert = -1;
            for (int e = 0; e < v->experts; e++) {
                kept += rank_of(logits[t], v->experts, e) < v->choices ? share[t][e] : 0;
                expert = rank_of(logits[t], v->experts, e) == k ? e : expert;
            }
            chosen[expert]++;
            out->dropped += taken[expert] >= most;
            if (taken[expert]++ >= most)
                continue;
            double gate = share[t][expert] * v->gate_scale / (strstr(v->gates, "chosen") ? kept : 1);
            add_network(run, v, "expert", expert, INNER, gate, x + (b * TOKENS + first + t) * HIDDEN,
                        out->out[b][first + t]);
        }
    for (int e = 0; e < v->experts; e++)
        out->balance += v->experts * mean[e] * chosen[e] / (v->choices * group) / (BATCH * TOKENS / group);
}

static struct answer answer_of(const struct run *run, const struct variant *v)
{
    struct answer answer = { .dropped = 0 };
    int group = v->group ? v->group : TOKENS;
    for (int b = 0; b < BATCH; b++)
        for (int first = 0; first < TOKENS; first += group)
            answer_group(run, v, b, first, group, &answer);
    return answer;
}

START_TEST(layer_agrees_token_by_token)
{
    const struct variant *v = &variants[_i];
    int dropped = 0;
    for (uint64_t seed = 0; seed < 10; seed++) {
        struct run run;
        run_open(&run, v);
        run.random += seed * 1000;
        const double *out = run.value[run.graph->layers[LAYER].output_value];
        double *x = run.value[run.graph->layers[0].output_value];
        for (int64_t j = 0; j < BATCH * TOKENS * HIDDEN; j++)
            x[j] = draw(&run);
        run_forward(&run, seed % 2 && v->experts % 2 == 0); /* halves of the batch, of the experts */
        struct answer answer = answer_of(&run, v);
        for (int64_t j = 0; j < BATCH * TOKENS * HIDDEN; j++)
            ck_assert_msg(fabs(out[j] - (&answer.out[0][0][0])[j]) <= forward_tolerance * 20,
                          "element %lld: expected %.15g, found %.15g", (long long)j, (&answer.out[0][0][0])[j], out[j]);
        ck_assert_int_eq(run.overflow, answer.dropped);
        dropped += answer.dropped;
        run_close(&run);
    }
    ck_assert(v->capacity_factor > 1.3 || v->experts == v->choices || dropped > 0);
}
END_TEST

/* What the step's loss would see of the layer: its output against given gradients, and the auxiliary loss. */
static double objective(const struct run *run, const struct variant *v)
{
    struct answer answer = answer_of(run, v);
    const double *gradient = run->gradient[run->graph->layers[LAYER].output_value];
    double sum = v->balance * answer.balance;
    for (int64_t j = 0; j < BATCH * TOKENS * HIDDEN; j++)
        sum += gradient[j] * (&answer.out[0][0][0])[j];
    return sum;
}

static void check_slopes(const struct run *run, const struct variant *v, const char *name, double *x,
                         const double *gradient, int64_t count)
{
    const double step = 1e-5;
    for (int64_t j = 0; j < count; j++) {
        double was = x[j], slope = 0;
        x[j] = was + step, slope += objective(run, v) / (2 * step);
        x[j] = was - step, slope -= objective(run, v) / (2 * step);
        x[j] = was;
        ck_assert_msg(fabs(gradient[j] - slope) <= backward_tolerance * fmax(10, fabs(slope)),
                      "%s, element %lld: expected %.12g, found %.12g", name, (long long)j, slope, gradient[j]);
    }
}

START_TEST(gradients_match_differences)
{
    const struct variant *v = &variants[_i];
    struct run run;
    run_open(&run, v);
    run_forward(&run, false);
    run_backward(&run);
    int in = run.graph->layers[0].output_value;
    check_slopes(&run, v, "input", run.value[in], run.gradient[in], value_elements(&run, in));
    for (int i = 0; i < run.graph->weight_count; i++)
        if (strncmp(run.graph->weights[i].name, "1.", 2) == 0 && !run.graph->weights[i].frozen)
            check_slopes(&run, v, run.graph->weights[i].name, run.weight[i], run.weight_gradient[i],
                         weight_elements(&run.graph->weights[i]));
    run_close(&run);
}
END_TEST

/* Equal logits: the first experts, and the first tokens get the slots. */
START_TEST(ties_go_to_the_first)
{
    const struct variant v = { 4, 2, 4, 0, "gelu", "softmax_of_chosen", 1, 1, .balance = 0 };
    struct run run;
    run_open(&run, &v);
    memset((void *)weight_named(&run, "router"), 0, sizeof(double) * HIDDEN * 4);
    run_forward(&run, false);
    for (int i = 0; i < run.segment_count; i++)
        if (run.segments[i].kernel == KERNEL_ROUTE) {
            const double *gates = run.value[run.segments[i].out[0].id], *slots = run.value[run.segments[i].out[1].id];
            static const int expected[] = { 0, 2, 1, 3, -1, -2, -1, -2 }; /* two slots each */
            for (int j = 0; j < 8; j++) {
                CHECK_NEAR(gates[j], 0.5, 1e-12);
                ck_assert_int_eq((int)slots[j], expected[j]);
            }
        }
    ck_assert_int_eq(run.overflow, 4 * BATCH * TOKENS / 4);
    run_close(&run);
}
END_TEST

/* Whatever the logits: as the profiler has it. */
START_TEST(experts_in_turn)
{
    const struct variant v = { 4, 2, 4, 0, "gelu", "softmax_of_chosen", 1, 1, .balance = 0 };
    struct run run;
    run_open(&run, &v);
    for (int i = 0; i < run.graph->segment_count; i++)
        run.graph->segments[i].arguments.evenly = run.graph->segments[i].kernel == KERNEL_ROUTE;
    run_forward(&run, false);
    for (int i = 0; i < run.segment_count; i++)
        if (run.segments[i].kernel == KERNEL_ROUTE) {
            const double *gates = run.value[run.segments[i].out[0].id], *slots = run.value[run.segments[i].out[1].id];
            static const int expected[] = { 0, 2, 4, 6, 1, 3, 5, 7 }; /* two slots each */
            for (int j = 0; j < 8; j++)
                ck_assert_int_eq((int)slots[j], expected[j]);
            CHECK_NEAR(gates[0] + gates[1], 1, 1e-6);
        }
    ck_assert_int_eq(run.overflow, 0);
    run_close(&run);
}
END_TEST

static Suite *experts_suite(void)
{
    Suite *suite = suite_create("experts");
    TCase *all = tcase_create("variants");
    tcase_add_loop_test(all, layer_agrees_token_by_token, 0, VARIANTS);
    tcase_add_loop_test(all, gradients_match_differences, 0, VARIANTS);
    suite_add_tcase(suite, all);
    CHECK_ADD(suite, ties_go_to_the_first);
    CHECK_ADD(suite, experts_in_turn);
    return suite;
}

CHECK_MAIN(experts_suite)
