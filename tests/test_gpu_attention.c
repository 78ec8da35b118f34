/* Attention in bf16 on a GPU, forward and backward, against whole score matrices in double: by the device's library
 * where it takes the shape, else by the kernels. Errors are of norms: |got - want| / |want| over each operand. */
#include "base/num.h"
#include "check.h"
#include "executor/gpu/issue.h"
#include "executor/kernels/bf16.h"
#include "tests/emulated/emulated.h"
#include "tests/gpu_module.h"
#include <stdio.h>
#include <string.h>

static const double half_tolerance = 1e-2, lse_tolerance = 1e-3;

struct shape {
    int64_t batches, rows, keys, heads, kv_heads, width;
    bool causal, deterministic;
};
static const struct shape small_shapes[] = {
    { 2, 7, 7, 2, 2, 8, true, false },  { 1, 9, 5, 4, 2, 8, false, false }, { 2, 6, 6, 6, 2, 16, true, true },
    { 1, 1, 4, 3, 1, 8, true, false },  /* sees all keys only if it stands at the end: here it sees one */
    { 1, 5, 5, 2, 2, 6, true, false },  /* no library takes heads of 12 bytes */
    { 1, 3, 3, 1, 1, 40, true, false }, /* the emulated one has none so wide */
};
/* What is said of them where there is a library: why the own kernel serves; NULL: nothing. */
static const char *const small_notes[] = {
    NULL, NULL, NULL, "part of a causal mask", "whole 16 bytes", "more than 32"
};
_Static_assert(sizeof small_notes / sizeof *small_notes == sizeof small_shapes / sizeof *small_shapes, "one for each");
/* Where threads of a processor would take minutes. */
static const struct shape large_shapes[] = {
    { 2, 512, 512, 12, 12, 64, true, false },   { 1, 384, 384, 8, 2, 128, true, false },
    { 1, 256, 320, 4, 4, 96, false, false },    { 2, 200, 200, 4, 1, 64, true, true },
    { 1, 256, 256, 2, 2, 256, true, false },    { 1, 130, 130, 3, 3, 40, false, true },
    { 1, 1024, 1024, 16, 16, 128, true, true },
};

enum { Q, K, V, OUT, LSE, OUT_GRADIENT, Q_GRADIENT, K_GRADIENT, V_GRADIENT, OPERANDS };
struct problem {
    struct shape shape;
    struct segment segment;
    int64_t elements[OPERANDS];
    double *want[OPERANDS];
    void *device[OPERANDS];
};

static struct problem *problem; /* of the running case */

static double *row_of(int operand, int64_t b, int64_t line, int64_t head)
{
    const struct shape *s = &problem->shape;
    bool by_key = operand == K || operand == V || operand == K_GRADIENT || operand == V_GRADIENT;
    int64_t lines = by_key ? s->keys : s->rows, heads = by_key ? s->kv_heads : s->heads;
    return problem->want[operand] + ((b * lines + line) * heads + head) * (operand == LSE ? 1 : s->width);
}

static double dot(const double *x, const double *y)
{
    double sum = 0;
    for (int64_t d = 0; d < problem->shape.width; d++)
        sum += x[d] * y[d];
    return sum;
}

static void add(double *to, double factor, const double *x)
{
    for (int64_t d = 0; d < problem->shape.width; d++)
        to[d] += factor * x[d];
}

/* One query: its row of scores is a whole array. */
static void query(int64_t b, int64_t t, int64_t n, double *p)
{
    const struct shape *s = &problem->shape;
    const int64_t m = n * s->kv_heads / s->heads, seen = s->causal ? min_i64(t + 1, s->keys) : s->keys;
    const double scale = problem->segment.arguments.scale;
    double sum = 0;
    for (int64_t k = 0; k < seen; k++)
        sum += p[k] = exp(scale * dot(row_of(Q, b, t, n), row_of(K, b, k, m)));
    *row_of(LSE, b, t, n) = log(sum);
    for (int64_t k = 0; k < seen; k++)
        add(row_of(OUT, b, t, n), p[k] /= sum, row_of(V, b, k, m));
    const double *pull = row_of(OUT_GRADIENT, b, t, n);
    double all = dot(pull, row_of(OUT, b, t, n));
    for (int64_t k = 0; k < seen; k++) {
        double slope = scale * p[k] * (dot(pull, row_of(V, b, k, m)) - all);
        add(row_of(Q_GRADIENT, b, t, n), slope, row_of(K, b, k, m));
        add(row_of(K_GRADIENT, b, k, m), slope, row_of(Q, b, t, n));
        add(row_of(V_GRADIENT, b, k, m), p[k], pull);
    }
}

static void solve(void)
{
    const struct shape *s = &problem->shape;
    double *p = calloc((size_t)s->keys, sizeof *p);
    for (int64_t b = 0; b < s->batches; b++)
        for (int64_t n = 0; n < s->heads; n++)
            for (int64_t t = 0; t < s->rows; t++)
                query(b, t, n, p);
    free(p);
}

/* ---- the device's side ---- */
static const struct {
    enum role role;
    int index;
} place_of[OPERANDS] = { { ROLE_IN, 0 },          { ROLE_IN, 1 },          { ROLE_IN, 2 },
                         { ROLE_OUT, 0 },         { ROLE_OUT, 1 },         { ROLE_GRADIENT_OUT, 0 },
                         { ROLE_GRADIENT_IN, 0 }, { ROLE_GRADIENT_IN, 1 }, { ROLE_GRADIENT_IN, 2 } };

static size_t bytes_of(int operand)
{
    return (size_t)problem->elements[operand] * (operand == LSE ? sizeof(real) : sizeof(uint16_t));
}

/* Axes b t s n d, as the layer kind of attention has them. */
static void describe(void)
{
    const struct shape *s = &problem->shape;
    struct segment *segment = &problem->segment;
    const int64_t sizes[] = { s->batches, s->rows, s->keys, s->heads, s->width };
    *segment = (struct segment){
        .kernel = KERNEL_ATTENTION, .name = "attention", .axis_count = 5, .in_count = 3, .out_count = 2
    };
    segment->arguments.causal = s->causal, segment->arguments.kv_heads = s->kv_heads;
    segment->arguments.scale = 1 / sqrt((double)s->width);
    for (int axis = 0; axis < 5; axis++)
        segment->axes[axis] = (struct axis){ .size = sizes[axis], .grain = 1 };
    static const int8_t by_query[] = { 0, 1, 3, 4 }, by_key[] = { 0, 2, -1, 4 };
    memcpy(segment->in[0].axis, by_query, sizeof by_query);
    memcpy(segment->in[1].axis, by_key, sizeof by_key);
    memcpy(segment->in[2].axis, by_key, sizeof by_key);
    memcpy(segment->out[0].axis, by_query, sizeof by_query);
    memcpy(segment->out[1].axis, by_query, 3);
}

static struct kernel_call call_of(enum phase phase)
{
    const struct shape *s = &problem->shape;
    struct kernel_call call = { .segment = &problem->segment, .phase = phase, .first = true };
    for (int axis = 0; axis < 5; axis++)
        call.high[axis] = problem->segment.axes[axis].size;
    for (int i = 0; i < OPERANDS; i++) {
        bool by_key = i == K || i == V || i == K_GRADIENT || i == V_GRADIENT;
        call.operand[place_of[i].role][place_of[i].index] =
            (struct view){ .data = problem->device[i],
                           .dim_count = i == LSE ? 3 : 4,
                           .count = { s->batches, by_key ? s->keys : s->rows, by_key ? s->kv_heads : s->heads,
                                      s->width } };
    }
    call.define[ROLE_GRADIENT_IN] = 7;
    return call;
}

static char noted[1024]; /* the last note; "": none */

static void note(void *context, const char *text)
{
    (void)context;
    snprintf(noted, sizeof noted, "%s", text);
}

static void run(const struct gpu *gpu, void *stream, enum phase phase)
{
    struct error error = { 0 };
    const struct kernel_call call = call_of(phase);
    struct gpu_call g = { .gpu = gpu, .stream = stream, .call = &call, .deterministic = problem->shape.deterministic };
    g.note = note;
    noted[0] = '\0';
    for (int i = 0; i < OPERANDS; i++)
        g.type[place_of[i].role][place_of[i].index] = i == LSE ? GPU_REAL : GPU_BF16;
    ck_assert_msg(gpu_issue(&g, &error) && gpu->finish(gpu->self, stream, &error), "%s", error.message);
}

static void move(const struct gpu *gpu, void *stream, int operand, bool up)
{
    struct error error = { 0 };
    void *host = calloc(1, bytes_of(operand));
    void *to = up ? problem->device[operand] : host;
    for (int64_t i = 0; up && i < problem->elements[operand]; i++)
        ((uint16_t *)host)[i] = bf16_of_real((real)problem->want[operand][i]);
    ck_assert(gpu->copy(gpu->self, stream, to, up ? host : problem->device[operand], bytes_of(operand), &error) &&
              gpu->finish(gpu->self, stream, &error));
    double error_square = 0, square = 0;
    for (int64_t i = 0; !up && i < problem->elements[operand]; i++) {
        double got = operand == LSE ? (double)((real *)host)[i] : (double)real_of_bf16(((uint16_t *)host)[i]);
        error_square += pow(got - problem->want[operand][i], 2), square += pow(problem->want[operand][i], 2);
    }
    free(host);
    if (!up)
        ck_assert_msg(sqrt(error_square) <= (operand == LSE ? lse_tolerance : half_tolerance) * sqrt(square),
                      "operand %d, %lld x %lld x %lld x %lld heads of %lld: off by %g of its norm", operand,
                      (long long)problem->shape.batches, (long long)problem->shape.rows, (long long)problem->shape.keys,
                      (long long)problem->shape.heads, (long long)problem->shape.width, sqrt(error_square / square));
}

/* ---- cases ---- */
static void make(struct problem *p, const struct shape *s, const struct gpu *gpu)
{
    struct error error = { 0 };
    const int64_t query_elements = s->batches * s->rows * s->heads, key_elements = s->batches * s->keys * s->kv_heads;
    uint64_t random = 1;
    *p = (struct problem){ .shape = *s };
    problem = p;
    for (int i = 0; i < OPERANDS; i++) {
        bool by_key = i == K || i == V || i == K_GRADIENT || i == V_GRADIENT, given = i < OUT || i == OUT_GRADIENT;
        p->elements[i] = (by_key ? key_elements : query_elements) * (i == LSE ? 1 : s->width);
        p->want[i] = calloc((size_t)p->elements[i], sizeof(double));
        p->device[i] = gpu->allocate(gpu->self, bytes_of(i), &error);
        ck_assert_msg(p->want[i] && p->device[i], "%s", error.message);
        for (int64_t j = 0; given && j < p->elements[i]; j++)
            p->want[i][j] =
                (double)real_of_bf16(bf16_of_real((real)(2 * (double)(mix64(++random) >> 11) / (1ull << 52) - 2)));
    }
    describe();
}

static void try_shape(const struct shape *s, const struct gpu *gpu)
{
    struct problem p;
    struct error error = { 0 };
    void *stream = gpu->open_stream(gpu->self, false, &error);
    make(&p, s, gpu);
    solve();
    for (int i = 0; i < OPERANDS; i++)
        if (i < OUT || i == OUT_GRADIENT)
            move(gpu, stream, i, true);
    run(gpu, stream, PHASE_FORWARD);
    move(gpu, stream, OUT, false), move(gpu, stream, LSE, false);
    for (int time = 0; time < 2; time++) { /* the second finds what the first left in workspaces */
        run(gpu, stream, PHASE_BACKWARD_INPUT);
        for (int i = Q_GRADIENT; i <= V_GRADIENT; i++)
            move(gpu, stream, i, false);
    }
    for (int i = 0; i < OPERANDS; i++) {
        free(p.want[i]);
        gpu->release(gpu->self, p.device[i]);
    }
    gpu->close_stream(gpu->self, stream);
}

static void check_note(const struct gpu *gpu, const char *want)
{
    const char *text = gpu->attend ? want : "by own kernels";
    ck_assert_msg(text ? strstr(noted, text) != NULL : noted[0] == '\0', "got %s, expected %s", noted,
                  text ? text : "nothing");
}

/* Every pair of a library and a shape on the emulated device: with one that takes it, and without. */
START_TEST(half_precision_attention)
{
    struct gpu gpu;
    struct error error = { 0 };
    for (int library = 0; library < 2 && !gpu_module_path(); library++) {
        ck_assert(gpu_emulated_open(&gpu, 4, 2, library, &error));
        for (size_t i = 0; i < sizeof small_shapes / sizeof *small_shapes; i++) {
            try_shape(&small_shapes[i], &gpu);
            check_note(&gpu, small_notes[i]);
        }
        gpu.close(gpu.self);
    }
    if (!gpu_module_path())
        return;
    gpu_module_open_or_skip(&gpu, 0);
    for (size_t i = 0; i < sizeof large_shapes / sizeof *large_shapes; i++)
        try_shape(&large_shapes[i], &gpu);
    gpu.close(gpu.self);
}
END_TEST

static Suite *gpu_attention_suite(void)
{
    Suite *suite = suite_create("gpu_attention");
    CHECK_ADD(suite, half_precision_attention);
    return suite;
}

CHECK_MAIN(gpu_attention_suite)
