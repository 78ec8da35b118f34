/* Times every CPU kernel inside one unsharded training step: which share is matrix products, what the rest costs, and
 * how far the step is from its floating-point operations at the rate of a large matrix product.
 *
 *   kernel_speed model.json batch sequence steps
 *
 * Run with one BLAS thread (OPENBLAS_NUM_THREADS=1). Prints the median step and times by kernel and phase of that step.
 */
#define _GNU_SOURCE
#include "base/num.h"
#include "executor/kernel.h"
#include "models/model.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

struct work { /* one kernel and phase */
    double time_s, flops;
    int calls;
};

struct step {
    struct work work[KERNEL_COUNT + 1][PHASE_COUNT]; /* the last row: square sum (FORWARD) and AdamW (STEP) */
    double total_s, loss;
};

struct trainer {
    const struct graph *graph;
    void **value;
    real **value_gradient, **weight, **weight_gradient, **state;
    bool *touched_value, *touched_weight; /* gradients that have begun in this step */
    real *scratch;
};

/* Processor time of this thread: what else runs on the machine does not count (its use of caches and memory does). */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int64_t product(const int64_t *size, int count)
{
    int64_t result = 1;
    for (int i = 0; i < count; i++)
        result *= size[i];
    return result;
}

/* Large arrays lie on huge pages where the system grants them, as a run's arena should: the strides of matrix products
 * cross more small pages than a processor remembers. */
static void *zeros(int64_t count, size_t bytes)
{
    enum { HUGE_PAGE = 1 << 21 };
    void *out = NULL;
    size_t size = ((size_t)count + 1) * bytes;
    if (posix_memalign(&out, size < HUGE_PAGE ? 64 : HUGE_PAGE, size) != 0) {
        fprintf(stderr, "out of memory: choose a smaller batch\n");
        exit(1);
    }
#ifdef MADV_HUGEPAGE
    if (size >= HUGE_PAGE)
        madvise(out, size, MADV_HUGEPAGE);
#endif
    memset(out, 0, size);
    return out;
}

/* ---- one call: whole operands ---- */
static struct view value_view(const struct graph *graph, int id, void *data)
{
    struct view view = { .data = data, .dim_count = graph->values[id].dim_count };
    memcpy(view.count, graph->values[id].size, sizeof view.count);
    return view;
}

static struct view weight_view(const struct graph *graph, int id, void *data)
{
    struct view view = { .data = data, .dim_count = graph->weights[id].dim_count };
    memcpy(view.count, graph->weights[id].size, sizeof view.count);
    return view;
}

/* The bit that says: this operand's gradient begins; from then on it has begun. */
static unsigned begin_bit(bool *touched, int id, int index)
{
    unsigned bit = touched[id] ? 0 : 1U << index;
    touched[id] = true;
    return bit;
}

static void add_gradients(struct trainer *t, const struct segment *s, struct kernel_call *call)
{
    const struct graph *graph = t->graph;
    unsigned define_in = 0, define_weight = 0;
    if (graph->values[s->out[0].id].differentiable)
        call->operand[ROLE_GRADIENT_OUT][0] = value_view(graph, s->out[0].id, t->value_gradient[s->out[0].id]);
    for (int i = 0; call->phase == PHASE_BACKWARD_INPUT && i < s->in_count; i++)
        if (graph->values[s->in[i].id].differentiable && graph_needs_gradient(graph, s->in[i].id)) {
            call->operand[ROLE_GRADIENT_IN][i] = value_view(graph, s->in[i].id, t->value_gradient[s->in[i].id]);
            define_in |= begin_bit(t->touched_value, s->in[i].id, i);
        }
    for (int i = 0; call->phase == PHASE_BACKWARD_WEIGHT && i < s->weight_count; i++) {
        call->operand[ROLE_GRADIENT_WEIGHT][i] =
            weight_view(graph, s->weight[i].id, t->weight_gradient[s->weight[i].id]);
        define_weight |= begin_bit(t->touched_weight, s->weight[i].id, i);
    }
    call->define[ROLE_GRADIENT_IN] = (uint8_t)define_in;
    call->define[ROLE_GRADIENT_WEIGHT] = (uint8_t)define_weight;
}

static void run_segment(struct trainer *t, const struct segment *s, enum phase phase, struct step *step)
{
    const struct graph *graph = t->graph;
    kernel_function *kernel = kernel_find(s->kernel, phase);
    if (!kernel)
        return;
    struct kernel_call call = { .segment = s, .phase = phase, .first = true, .scratch = t->scratch };
    int64_t extents[MAX_AXES] = { 0 };
    for (int i = 0; i < s->axis_count; i++)
        extents[i] = call.high[i] = s->axes[i].size;
    for (int i = 0; i < s->in_count; i++)
        call.operand[ROLE_IN][i] = value_view(graph, s->in[i].id, t->value[s->in[i].id]);
    for (int i = 0; i < s->out_count; i++)
        call.operand[ROLE_OUT][i] = value_view(graph, s->out[i].id, t->value[s->out[i].id]);
    for (int i = 0; i < s->weight_count; i++)
        call.operand[ROLE_WEIGHT][i] = weight_view(graph, s->weight[i].id, t->weight[s->weight[i].id]);
    if (phase != PHASE_FORWARD)
        add_gradients(t, s, &call);
    struct work *work = &step->work[s->kernel][phase];
    double start_s = now_s();
    kernel(&call);
    work->time_s += now_s() - start_s;
    work->flops += (double)segment_flops(s, phase, extents);
    work->calls++;
}

/* ---- one step ---- */
static void update(struct trainer *t, int64_t number, struct step *step)
{
    const struct graph *graph = t->graph;
    struct adamw options = {
        .learning_rate = 3e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .step = number
    };
    double start_s = now_s(), square = 0;
    for (int w = 0; w < graph->weight_count; w++)
        square +=
            kernel_square_sum(t->weight_gradient[w], product(graph->weights[w].size, graph->weights[w].dim_count));
    double middle_s = now_s();
    options.gradient_scale = square > 1 ? 1 / square : 1;
    for (int w = 0; w < graph->weight_count; w++)
        kernel_adamw(t->weight[w], t->weight[w], t->weight_gradient[w], t->state[w],
                     product(graph->weights[w].size, graph->weights[w].dim_count), &options);
    step->work[KERNEL_COUNT][PHASE_FORWARD].time_s = middle_s - start_s;
    step->work[KERNEL_COUNT][PHASE_STEP].time_s = now_s() - middle_s;
}

static void run_step(struct trainer *t, int64_t number, struct step *step)
{
    const struct graph *graph = t->graph;
    *step = (struct step){ 0 };
    memset(t->touched_value, 0, (size_t)graph->value_count);
    memset(t->touched_weight, 0, (size_t)graph->weight_count);
    double start_s = now_s();
    for (int s = 0; s < graph->segment_count; s++)
        run_segment(t, &graph->segments[s], PHASE_FORWARD, step);
    *t->value_gradient[graph->loss_value] = 1;
    for (int s = graph->segment_count - 1; s >= 0; s--) {
        run_segment(t, &graph->segments[s], PHASE_BACKWARD_WEIGHT, step);
        run_segment(t, &graph->segments[s], PHASE_BACKWARD_INPUT, step);
    }
    update(t, number, step);
    step->total_s = now_s() - start_s;
    step->loss = (double)*(real *)t->value[graph->loss_value];
}

static void trainer_make(struct trainer *t, const struct graph *graph)
{
    int values = graph->value_count, weights = graph->weight_count;
    int64_t scratch = 0;
    *t = (struct trainer){ .graph = graph,
                           .value = zeros(values, sizeof(void *)),
                           .value_gradient = zeros(values, sizeof(real *)),
                           .weight = zeros(weights, sizeof(real *)),
                           .weight_gradient = zeros(weights, sizeof(real *)),
                           .state = zeros(weights, sizeof(real *)),
                           .touched_value = zeros(values, 1),
                           .touched_weight = zeros(weights, 1) };
    for (int v = 0; v < values; v++) {
        int64_t count = product(graph->values[v].size, graph->values[v].dim_count);
        t->value[v] = zeros(count, sizeof(real));
        t->value_gradient[v] = zeros(count, sizeof(real));
    }
    for (int w = 0; w < weights; w++) {
        const struct weight *weight = &graph->weights[w];
        int64_t count = product(weight->size, weight->dim_count);
        t->weight[w] = zeros(count, sizeof(real));
        t->weight_gradient[w] = zeros(count, sizeof(real));
        t->state[w] = zeros(2 * count, sizeof(real));
        for (int64_t i = 0; i < count; i++) /* speed asks for plausible values only */
            t->weight[w][i] = weight->init == INIT_NORMAL
                                  ? (real)(weight->init_std * ((double)(mix64((uint64_t)i) >> 40) / (1 << 23) - 1))
                                  : (real)(weight->init == INIT_ONE);
    }
    for (int s = 0; s < graph->segment_count; s++) {
        int64_t extents[MAX_AXES] = { 0 };
        for (int i = 0; i < graph->segments[s].axis_count; i++)
            extents[i] = graph->segments[s].axes[i].size;
        for (int phase = 0; phase < PHASE_STEP; phase++) {
            int64_t need = segment_scratch_elements(graph, &graph->segments[s], (enum phase)phase, extents);
            scratch = need > scratch ? need : scratch;
        }
    }
    t->scratch = zeros(scratch, sizeof(real));
    int32_t *tokens = graph->tokens_value < 0 ? NULL : t->value[graph->tokens_value];
    int32_t *labels = t->value[graph->labels_value];
    int64_t count = graph->batch * graph->sequence;
    for (int64_t i = 0; tokens && i < count; i++)
        tokens[i] = (int32_t)(i * 7919 % graph->vocab_size);
    for (int64_t i = 0; i < count; i++)
        labels[i] = (int32_t)((i + 1) * 7919 % graph->vocab_size);
    if (graph->image_value >= 0) {
        const struct value *image = &graph->values[graph->image_value];
        real *pixels = t->value[graph->image_value];
        for (int64_t i = 0; i < product(image->size, image->dim_count); i++)
            pixels[i] = (real)(mix64((uint64_t)i) >> 40) / (1 << 23) - 1;
    }
    *(real *)t->value[graph->count_value] = (real)count;
}

static void trainer_free(struct trainer *t)
{
    for (int v = 0; v < t->graph->value_count; v++)
        free(t->value[v]), free(t->value_gradient[v]);
    for (int w = 0; w < t->graph->weight_count; w++)
        free(t->weight[w]), free(t->weight_gradient[w]), free(t->state[w]);
    free(t->value), free(t->value_gradient), free(t->weight), free(t->weight_gradient), free(t->state);
    free(t->touched_value), free(t->touched_weight), free(t->scratch);
}

/* ---- the yardstick: a product of 1024-square matrices, median of 25 ---- */
static double matrix_rate_flops_per_s(void)
{
    enum { N = 1024, ROUNDS = 25 };
    struct segment s = { .kernel = KERNEL_MATMUL,
                         .axis_count = 3,
                         .in_count = 1,
                         .out_count = 1,
                         .weight_count = 1,
                         .in = { { 0, { 0, 1 } } },
                         .weight = { { 0, { 1, 2 } } },
                         .out = { { 0, { 0, 2 } } } };
    real *data = zeros(3 * N * N, sizeof *data);
    struct kernel_call call = { .segment = &s, .phase = PHASE_FORWARD, .high = { N, N, N }, .first = true };
    enum role roles[] = { ROLE_IN, ROLE_WEIGHT, ROLE_OUT };
    for (int i = 0; i < 3; i++)
        call.operand[roles[i]][0] = (struct view){ .data = data + i * N * N, .dim_count = 2, .count = { N, N } };
    double time_s[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double start_s = now_s();
        kernel_find(KERNEL_MATMUL, PHASE_FORWARD)(&call);
        time_s[round] = now_s() - start_s;
    }
    qsort(time_s, ROUNDS, sizeof *time_s, compare_doubles);
    free(data);
    return 2.0 * N * N * N / time_s[ROUNDS / 2];
}

static void print_step(const struct step *step, double rate)
{
    double flops = 0, products_s = 0;
    printf("%-14s %-15s %6s %10s %7s %9s\n", "kernel", "phase", "calls", "ms", "share", "GFLOP/s");
    for (int k = 0; k <= KERNEL_COUNT; k++)
        for (int p = 0; p < PHASE_COUNT; p++) {
            const struct work *w = &step->work[k][p];
            const char *name = k < KERNEL_COUNT ? kernel_facts[k].name : p == PHASE_STEP ? "adamw" : "square_sum";
            if (w->time_s == 0)
                continue;
            printf("%-14s %-15s %6d %10.3f %6.1f%% %9.1f\n", name, k < KERNEL_COUNT ? phase_names[p] : "", w->calls,
                   1e3 * w->time_s, 100 * w->time_s / step->total_s, w->flops / w->time_s / 1e9);
            flops += k < KERNEL_COUNT && (kernel_facts[k].multiplies || kernel_facts[k].attends) ? w->flops : 0;
            products_s += k < KERNEL_COUNT && kernel_facts[k].multiplies ? w->time_s : 0;
        }
    printf("step %.1f ms, of which matmul %.1f ms; loss %.4f\n", 1e3 * step->total_s, 1e3 * products_s, step->loss);
    printf("%.1f GFLOP in matmul and attention at %.1f GFLOP/s (1024-square product): %.1f ms; the step takes %.3f "
           "times that\n",
           flops / 1e9, rate / 1e9, 1e3 * flops / rate, step->total_s * rate / flops);
}

static int by_time(const void *a, const void *b)
{
    return compare_doubles(&((const struct step *)a)->total_s, &((const struct step *)b)->total_s);
}

static char *read_text(const char *path, size_t *length)
{
    FILE *file = fopen(path, "rb");
    char *text = file ? malloc(1 << 20) : NULL;
    *length = text ? fread(text, 1, 1 << 20, file) : 0;
    if (file)
        fclose(file);
    return text;
}

int main(int argc, char **argv)
{
    struct error err = { 0 };
    struct model *model = NULL;
    struct graph *graph = NULL;
    size_t length;
    if (argc != 5) {
        fprintf(stderr, "usage: kernel_speed model.json batch sequence steps\n");
        return 2;
    }
    char *text = read_text(argv[1], &length);
    int steps = atoi(argv[4]);
    if (!text || steps < 1) {
        fprintf(stderr, "kernel_speed: cannot read %s, or steps is below 1\n", argv[1]);
        return 2;
    }
    if (!model_read(&model, argv[1], text, length, NULL, &err) ||
        !graph_build(&graph, model, atoll(argv[2]), atoll(argv[3]), 128, &err)) {
        fprintf(stderr, "kernel_speed: %s\n", err.message);
        return 2;
    }
    struct trainer trainer;
    trainer_make(&trainer, graph);
    struct step *runs = zeros(steps, sizeof *runs), warm;
    run_step(&trainer, 1, &warm);
    double rate = matrix_rate_flops_per_s();
    for (int i = 0; i < steps; i++)
        run_step(&trainer, i + 2, &runs[i]);
    qsort(runs, (size_t)steps, sizeof *runs, by_time);
    print_step(&runs[steps / 2], rate);
    printf("fastest %.1f ms, slowest %.1f ms of %d steps\n", 1e3 * runs[0].total_s, 1e3 * runs[steps - 1].total_s,
           steps);
    free(runs);
    trainer_free(&trainer);
    graph_free(graph);
    model_free(model);
    free(text);
    return 0;
}
