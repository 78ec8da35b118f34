/* Every kernel and phase, on every instruction set the processor has, against naive loops in double: ranges inside
 * larger blocks, overwrite and accumulate, one call and two rounds. A backward phase is held against differences of the
 * naive forward. Built for float and for double; on a GPU float is followed by bf16. Small blocks are compared element
 * by element, large ones by norms as well: |found - expected| / |expected|. */
#include "executor/kernels/bf16.h"
#include "tests/kernel_fixture.h"
#ifdef CLEAVE_TEST_GPU
#include "tests/gpu_module.h"
#include "tests/gpu_primitives.h"
#define primitives_at gpu_primitives_at
enum { FORWARD_SEEDS = 18, BACKWARD_SEEDS = 12, LONG_SEEDS = 3 }; /* each call starts threads */
#else
enum { FORWARD_SEEDS = 60, BACKWARD_SEEDS = 40, LONG_SEEDS = 8 };
#endif

#ifdef CLEAVE_REAL_DOUBLE
static const double forward_tolerance = 1e-11, backward_tolerance = 1e-6, norm_tolerance = 1e-8;
#else
static const double forward_tolerance = 2e-5, backward_tolerance = 1e-4, norm_tolerance = 1e-5;
#endif
static const double half_tolerance = 1e-2;

static bool on_real_gpu(void)
{
#ifdef CLEAVE_TEST_GPU
    return gpu_module_path() != NULL;
#else
    return false;
#endif
}

/* The distance between seeds that are tried: an emulated GPU has few in bf16. */
static uint64_t seed_stride(bool half)
{
    return (uint64_t)share_stride() * (half && !on_real_gpu() ? 6 : 1);
}

/* The next set: those in full precision, then, with *half, those in bf16. */
static const struct primitives *set_at(int index, bool *half)
{
    int full = 0;
    *half = false;
    for (const struct primitives *set; (set = primitives_at(full)); full++)
        if (full == index)
            return set;
#if defined CLEAVE_TEST_GPU && !defined CLEAVE_REAL_DOUBLE
    *half = true;
    return gpu_primitives_half_at(index - full);
#else
    return NULL;
#endif
}

static double product_scale(const struct fixture *f)
{
    return f->segment.arguments.scale > 0 ? f->segment.arguments.scale : 1;
}

/* ---- naive forwards: over the fixture's range, adding nothing to what out held (outs are cleared before) ---- */
static void naive_linear(struct fixture *f) /* bth+f */
{
    EACH(b, 0) EACH(t, 1) EACH(o, 3)
    {
        double sum = f->segment.weight_count > 1 ? WEIGHT(1, o) : 0;
        EACH(h, 2) sum += product_scale(f) * IN(0, b, t, h) * WEIGHT(0, h, o);
        OUT(0, b, t, o) = sum;
    }
}
static void naive_head(struct fixture *f) /* bth+v, table v h */
{
    EACH(b, 0) EACH(t, 1) EACH(v, 3)
    {
        double sum = 0;
        EACH(h, 2) sum += product_scale(f) * IN(0, b, t, h) * WEIGHT(0, v, h);
        OUT(0, b, t, v) = sum;
    }
}
static void naive_project(struct fixture *f) /* bth+nd */
{
    EACH(b, 0) EACH(t, 1) EACH(n, 3) EACH(d, 4)
    {
        double sum = f->segment.weight_count > 1 ? WEIGHT(1, n, d) : 0;
        EACH(h, 2) sum += product_scale(f) * IN(0, b, t, h) * WEIGHT(0, h, n, d);
        OUT(0, b, t, n, d) = sum;
    }
}
static void naive_output(struct fixture *f) /* btn+d+h */
{
    EACH(b, 0) EACH(t, 1) EACH(h, 4)
    {
        double sum = 0;
        EACH(n, 2) EACH(d, 3) sum += product_scale(f) * IN(0, b, t, n, d) * WEIGHT(0, n, d, h);
        OUT(0, b, t, h) = sum;
    }
}
static void naive_experts(struct fixture *f) /* ebth+f */
{
    EACH(e, 0) EACH(b, 1) EACH(t, 2) EACH(o, 4)
    {
        double sum = 0;
        EACH(h, 3) sum += product_scale(f) * IN(0, e, b, t, h) * WEIGHT(0, e, h, o);
        OUT(0, e, b, t, o) = sum;
    }
}
static void naive_inner_experts(struct fixture *f) /* bth+fe, experts innermost: no stride is 1 */
{
    EACH(b, 0) EACH(t, 1) EACH(o, 3) EACH(e, 4)
    {
        double sum = 0;
        EACH(h, 2) sum += product_scale(f) * IN(0, b, t, h, e) * WEIGHT(0, h, o, e);
        OUT(0, b, t, o, e) = sum;
    }
}
static void naive_embed(struct fixture *f) /* bthv+ */
{
    EACH(b, 0) EACH(t, 1)
    {
        int64_t k = (int64_t)IN(0, b, t);
        EACH(h, 2) OUT(0, b, t, h) = k >= f->low[3] && k < f->high[3] ? WEIGHT(0, k, h) : 0;
    }
}
static void naive_add_position(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(h, 2) OUT(0, b, t, h) = IN(0, b, t, h) + WEIGHT(0, t, h);
}
static void naive_layer_norm(struct fixture *f)
{
    double n = (double)f->size['h'];
    EACH(b, 0) EACH(t, 1)
    {
        double mean = 0, variance = 0;
        EACH(h, 2) mean += IN(0, b, t, h) / n;
        EACH(h, 2) variance += pow(IN(0, b, t, h) - mean, 2) / n;
        double rstd = 1 / sqrt(variance + f->segment.arguments.epsilon);
        EACH(h, 2) OUT(0, b, t, h) = (IN(0, b, t, h) - mean) * rstd * WEIGHT(0, h) + WEIGHT(1, h);
        OUT(1, b, t) = mean;
        OUT(2, b, t) = rstd;
    }
}
static void naive_rms_norm(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1)
    {
        double square = 0;
        EACH(h, 2) square += pow(IN(0, b, t, h), 2) / (double)f->size['h'];
        double rstd = 1 / sqrt(square + f->segment.arguments.epsilon);
        EACH(h, 2) OUT(0, b, t, h) = IN(0, b, t, h) * rstd * WEIGHT(0, h);
        OUT(1, b, t) = rstd;
    }
}
static void naive_rope(struct fixture *f) /* btnd */
{
    const struct kernel_arguments *a = &f->segment.arguments;
    int64_t half = (a->rope_dim ? a->rope_dim : f->size['d']) / 2;
    EACH(b, 0)
    EACH(t, 1) EACH(n, 2) for (int64_t i = 2 * half; i < f->size['d']; i++) OUT(0, b, t, n, i) = IN(0, b, t, n, i);
    EACH(b, 0) EACH(t, 1) EACH(n, 2) for (int64_t i = 0; i < half; i++)
    {
        double frequency = pow(a->rope_base, -(double)i / (double)half), wave = 2 * acos(-1) / frequency;
        /* as written in transformers' _compute_llama3_parameters */
        double smooth = (a->rope_original / wave - a->rope_low) / (a->rope_high - a->rope_low);
        if (a->rope_factor > 0 && wave > a->rope_original / a->rope_low)
            frequency /= a->rope_factor;
        else if (a->rope_factor > 0 && wave >= a->rope_original / a->rope_high)
            frequency = (1 - smooth) * frequency / a->rope_factor + smooth * frequency;
        double angle = (double)t * frequency;
        double x = IN(0, b, t, n, i), y = IN(0, b, t, n, half + i);
        OUT(0, b, t, n, i) = x * cos(angle) - y * sin(angle);
        OUT(0, b, t, n, half + i) = y * cos(angle) + x * sin(angle);
    }
}
/* ---- images: pixel y * columns + x ---- */
/* The point (y, x) of the window of output position t; false outside the image. */
static bool naive_point(const struct window *w, int64_t t, int64_t y, int64_t x, int64_t *pixel)
{
    int64_t row = t / w->out_columns * w->stride + y - w->padding,
            column = t % w->out_columns * w->stride + x - w->padding;
    *pixel = row * w->columns + column;
    return row >= 0 && row < w->rows && column >= 0 && column < w->columns;
}
static void naive_conv(struct fixture *f) /* bth+k+g */
{
    const struct window *w = &f->segment.arguments.window;
    EACH(b, 0) EACH(t, 1) EACH(g, 4)
    {
        double sum = f->segment.weight_count > 1 ? WEIGHT(1, g) : 0;
        for (int64_t y = 0, pixel; y < w->height; y++)
            for (int64_t x = 0; x < w->width; x++)
                if (naive_point(w, t, y, x, &pixel))
                    EACH(h, 2) sum += IN(0, b, pixel, h) * WEIGHT(0, y * w->width + x, h, g);
        OUT(0, b, t, g) = sum;
    }
}
static void naive_group_norm(struct fixture *f) /* btg */
{
    int64_t width = f->size['g'] / f->size['j'];
    double n = (double)(width * f->size['t']);
    EACH(b, 0) for (int64_t j = f->low[2] / width; j < f->high[2] / width; j++)
    {
        double mean = 0, variance = 0;
        EACH(t, 1) for (int64_t g = j * width; g < (j + 1) * width; g++) mean += IN(0, b, t, g) / n;
        EACH(t, 1) for (int64_t g = j * width; g < (j + 1) * width; g++) variance += pow(IN(0, b, t, g) - mean, 2) / n;
        double rstd = 1 / sqrt(variance + f->segment.arguments.epsilon);
        EACH(t, 1)
        for (int64_t g = j * width; g < (j + 1) * width; g++)
            OUT(0, b, t, g) = (IN(0, b, t, g) - mean) * rstd * WEIGHT(0, g) + WEIGHT(1, g);
        OUT(1, b, j) = mean;
        OUT(2, b, j) = rstd;
    }
}
static void naive_pool(struct fixture *f, bool greatest) /* btg */
{
    const struct window *w = &f->segment.arguments.window;
    EACH(b, 0) EACH(t, 1) EACH(g, 2)
    {
        double sum = 0, most = -INFINITY;
        for (int64_t y = 0, pixel; y < w->height; y++)
            for (int64_t x = 0; x < w->width; x++)
                if (naive_point(w, t, y, x, &pixel)) {
                    sum += IN(0, b, pixel, g);
                    most = fmax(most, IN(0, b, pixel, g));
                }
        OUT(0, b, t, g) = greatest ? most : sum / (double)(w->height * w->width);
    }
}
static void naive_max_pool(struct fixture *f)
{
    naive_pool(f, true);
}
static void naive_average_pool(struct fixture *f)
{
    naive_pool(f, false);
}
static void naive_class_token(struct fixture *f) /* bth */
{
    EACH(b, 0) EACH(t, 1) EACH(h, 2) OUT(0, b, t, h) = t == 0 ? WEIGHT(0, h) : IN(0, b, t - 1, h);
}

/* As written in transformers' T5Attention._relative_position_bucket. */
static int64_t naive_bucket(const struct fixture *f, int64_t relative_position)
{
    int64_t buckets = f->segment.arguments.relative_buckets, bucket = 0;
    if (!f->segment.arguments.causal) {
        buckets /= 2;
        bucket += (relative_position > 0) * buckets;
        relative_position = llabs(relative_position);
    } else {
        relative_position = relative_position < 0 ? -relative_position : 0;
    }
    int64_t exact = buckets / 2;
    if (relative_position < exact)
        return bucket + relative_position;
    int64_t large = exact + (int64_t)(log((double)relative_position / (double)exact) /
                                      log((double)f->segment.arguments.relative_distance / (double)exact) *
                                      (double)(buckets - exact));
    return bucket + (large < buckets - 1 ? large : buckets - 1);
}
static double score(struct fixture *f, int64_t b, int64_t t, int64_t s, int64_t n, int64_t m)
{
    double sum = 0;
    EACH(d, 4) sum += IN(0, b, t, n, d) * IN(1, b, s, m, d);
    return sum * f->segment.arguments.scale + (f->segment.weight_count ? WEIGHT(0, naive_bucket(f, s - t), n) : 0);
}
static void naive_attention(struct fixture *f) /* bts~nd */
{
    EACH(b, 0) EACH(t, 1) EACH(n, 3)
    {
        int64_t m = n * f->segment.arguments.kv_heads / f->size['n'];
        double sum = 0;
        EACH(s, 2) if (!f->segment.arguments.causal || s <= t) sum += exp(score(f, b, t, s, n, m));
        EACH(d, 4) OUT(0, b, t, n, d) = 0;
        EACH(s, 2) if (!f->segment.arguments.causal || s <= t)
        {
            double p = exp(score(f, b, t, s, n, m)) / sum;
            EACH(d, 4) OUT(0, b, t, n, d) += p * IN(2, b, s, m, d);
        }
        OUT(1, b, t, n) = log(sum);
    }
}
static void naive_residual(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(h, 2)
    {
        double sum = f->segment.weight_count ? WEIGHT(0, h) : 0;
        for (int i = 0; i < f->segment.in_count; i++)
            sum += IN(i, b, t, h);
        OUT(0, b, t, h) = sum;
    }
}
static void naive_gelu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2)
    {
        double x = IN(0, b, t, i);
        OUT(0, b, t, i) = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x)));
    }
}
static void naive_gelu_erf(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = 0.5 * IN(0, b, t, i) * (1 + erf(IN(0, b, t, i) / sqrt(2)));
}
static void naive_relu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = fmax(IN(0, b, t, i), 0);
}
static void naive_geglu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2)
    {
        double x = IN(0, b, t, i);
        OUT(0, b, t, i) = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) * IN(1, b, t, i);
    }
}
static void naive_swiglu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = IN(0, b, t, i) / (1 + exp(-IN(0, b, t, i))) * IN(1, b, t, i);
}
static bool is_word(const struct fixture *f, int64_t v)
{
    return v < f->segment.arguments.valid;
}
static void naive_logit_max(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1)
    {
        double max = -INFINITY;
        EACH(v, 2) max = is_word(f, v) ? fmax(max, IN(0, b, t, v)) : max;
        OUT(0, b, t) = max;
    }
}
static void naive_sum_exp(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1)
    {
        double sum = 0;
        EACH(v, 2) sum += is_word(f, v) ? exp(IN(0, b, t, v) - IN(1, b, t)) : 0;
        OUT(0, b, t) = sum;
    }
}
static void naive_pick(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1)
    {
        int64_t k = (int64_t)IN(1, b, t);
        OUT(0, b, t) = k >= f->low[2] && k < f->high[2] ? IN(0, b, t, k) : 0;
    }
}
static void naive_nll(struct fixture *f)
{
    double sum = 0;
    EACH(b, 0)
    EACH(t, 1) if ((int64_t)IN(3, b, t) != -1) sum += (log(IN(0, b, t)) + IN(1, b, t) - IN(2, b, t)) / IN(4, 0);
    OUT(0, 0) = sum;
}

static const struct kernel_case cases[] = {
    { "linear", KERNEL_MATMUL, "bth+f", { "bth" }, { "hf" }, { "btf" }, 1, naive_linear, 0 },
    { "linear_bias", KERNEL_MATMUL, "bth+!f", { "bth" }, { "hf", "f" }, { "btf" }, 1, naive_linear, 0 },
    { "head", KERNEL_MATMUL, "bth+v", { "bth" }, { "vh" }, { "btv" }, 1, naive_head, 0 },
    { "project", KERNEL_MATMUL, "bth+nd", { "bth" }, { "hnd" }, { "btnd" }, 1, naive_project, 0 },
    { "project_bias", KERNEL_MATMUL, "bth+!nd", { "bth" }, { "hnd", "nd" }, { "btnd" }, 1, naive_project, 0 },
    { "output", KERNEL_MATMUL, "btn+d+h", { "btnd" }, { "ndh" }, { "bth" }, 1, naive_output, 0 },
    { "experts", KERNEL_MATMUL, "ebth+f", { "ebth" }, { "ehf" }, { "ebtf" }, 1, naive_experts, 0 },
    { "inner_experts", KERNEL_MATMUL, "bth+fe", { "bthe" }, { "hfe" }, { "btfe" }, 1, naive_inner_experts, 0 },
    { "embed", KERNEL_EMBED, "bthv+", { "#bt" }, { "vh" }, { "bth" }, 0, naive_embed, 0 },
    { "add_position", KERNEL_ADD_POSITION, "bth", { "bth" }, { "ph" }, { "bth" }, 1, naive_add_position, 0 },
    { "layer_norm",
      KERNEL_LAYER_NORM,
      "bth+!",
      { "bth" },
      { "h", "h" },
      { "bth", "bt", "bt" },
      1,
      naive_layer_norm,
      0 },
    { "rms_norm", KERNEL_RMS_NORM, "bth+!", { "bth" }, { "h" }, { "bth", "bt" }, 1, naive_rms_norm, 0 },
    { "rope", KERNEL_ROPE, "btnd!", { "btnd" }, { 0 }, { "btnd" }, 1, naive_rope, 0 },
    { "attention",
      KERNEL_ATTENTION,
      "bts~nd!",
      { "btnd", "bsmd", "bsmd" },
      { 0 },
      { "btnd", "btn" },
      7,
      naive_attention,
      0 },
    { "biased_attention",
      KERNEL_BIASED_ATTENTION,
      "bts~nd!",
      { "btnd", "bsmd", "bsmd" },
      { "rn" },
      { "btnd", "btn" },
      7,
      naive_attention,
      0 },
    { "residual", KERNEL_RESIDUAL, "bth", { "bth", "bth", "bth", "bth" }, { 0 }, { "bth" }, 15, naive_residual, 4 },
    { "residual_bias", KERNEL_RESIDUAL, "bth", { "bth", "bth", "bth" }, { "h" }, { "bth" }, 7, naive_residual, 3 },
    { "gelu", KERNEL_GELU, "btf", { "btf" }, { 0 }, { "btf" }, 1, naive_gelu, 0 },
    { "gelu_erf", KERNEL_GELU_ERF, "btf", { "btf" }, { 0 }, { "btf" }, 1, naive_gelu_erf, 0 },
    { "relu", KERNEL_RELU, "btf", { "~btf" }, { 0 }, { "btf" }, 1, naive_relu, 0 },
    { "geglu", KERNEL_GEGLU, "btf", { "btf", "btf" }, { 0 }, { "btf" }, 3, naive_geglu, 0 },
    { "swiglu", KERNEL_SWIGLU, "btf", { "btf", "btf" }, { 0 }, { "btf" }, 3, naive_swiglu, 0 },
    { "conv", KERNEL_CONV, "bth+!k+!g", { "bih" }, { "khg" }, { "btg" }, 1, naive_conv, 0 },
    { "conv with bias", KERNEL_CONV, "bth+!k+!g", { "bih" }, { "khg", "g" }, { "btg" }, 1, naive_conv, 0 },
    { "group_norm", KERNEL_GROUP_NORM, "bt!g", { "btg" }, { "g", "g" }, { "btg", "bj", "bj" }, 1, naive_group_norm, 0 },
    { "max_pool", KERNEL_MAX_POOL, "btg", { "=big" }, { 0 }, { "btg" }, 1, naive_max_pool, 0 },
    { "average_pool", KERNEL_AVERAGE_POOL, "btg", { "big" }, { 0 }, { "btg" }, 1, naive_average_pool, 0 },
    { "class_token", KERNEL_CLASS_TOKEN, "bth", { "bih" }, { "h" }, { "bth" }, 1, naive_class_token, 0 },
    { "logit_max", KERNEL_LOGIT_MAX, "btv^", { "btv" }, { 0 }, { "bt" }, 0, naive_logit_max, 0 },
    { "sum_exp", KERNEL_SUM_EXP, "btv+", { "btv", "bt" }, { 0 }, { "bt" }, 1, naive_sum_exp, 0 },
    { "pick", KERNEL_PICK, "btv+", { "btv", "#bt" }, { 0 }, { "bt" }, 1, naive_pick, 0 },
    { "nll", KERNEL_NLL, "b+t+", { "+bt", "bt", "bt", "#bt", "+1" }, { 0 }, { "1" }, 5, naive_nll, 0 },
};
enum { CASE_COUNT = sizeof cases / sizeof *cases };

/* sum over the range of out[0] * gradient */
static double objective(struct fixture *f, const struct kernel_case *c)
{
    struct tensor *out = &f->tensor[ROLE_OUT][0], *gradient = &f->tensor[ROLE_GRADIENT_OUT][0];
    double sum = 0;
    int64_t at[MAX_DIMS];
    c->forward(f);
    for (int64_t i = 0; i < out->elements; i++) {
        coordinates(out, i, at);
        if (in_range(f, out, at))
            sum += out->data[i] * gradient->data[i];
    }
    return sum;
}

static void expect_backward(struct fixture *f, const struct kernel_case *c, enum role source, enum role written,
                            bool define)
{
    const double step = 1e-3;
    int64_t at[MAX_DIMS];
    for (int i = 0; i < MAX_OPERANDS; i++) {
        struct tensor *gradient = &f->tensor[written][i], *x = &f->tensor[source][i];
        for (int64_t j = 0; gradient->used && j < gradient->elements; j++) {
            coordinates(gradient, j, at);
            if (!in_range(f, gradient, at))
                continue;
            double was = x->data[j], slope = 0;
            for (int k = 0; k < 4; k++) { /* fourth order: (f(-2) - 8 f(-1) + 8 f(1) - f(2)) / 12 */
                static const double place[] = { -2, -1, 1, 2 }, weight[] = { 1, -8, 8, -1 };
                x->data[j] = was + place[k] * step;
                slope += weight[k] * objective(f, c) / (12 * step);
            }
            x->data[j] = was;
            gradient->data[j] = (define ? 0 : gradient->data[j]) + slope;
        }
    }
    c->forward(f);
}

/* Numbers that bf16 has, so that what differs is the kernels' doing. */
static void round_tensors(struct fixture *f)
{
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            struct tensor *t = &f->tensor[role][i];
            for (int64_t j = 0; t->used && !t->index && j < t->elements; j++)
                t->data[j] = (double)real_of_bf16(bf16_of_real((real)t->data[j]));
        }
}

static void load_blocks(struct fixture *f)
{
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++)
            load_block(&f->tensor[role][i]);
}

/* An axis for two rounds, or -1. */
static int draw_split(struct fixture *f)
{
    int split = (int)draw_in(&f->random, -1, f->segment.axis_count - 1);
    return split >= 0 && f->segment.axes[split].fixed ? -1 : split;
}

/* ---- norms ---- */
struct difference {
    double error, norm; /* squared */
};

static void add_difference(struct difference *d, double got, double want)
{
    if (got == want && isinf(want)) /* the largest of none */
        return;
    d->error += (got - want) * (got - want);
    d->norm += want * want;
}

static void check_difference(const struct difference *d, const struct fixture *f, enum phase phase, bool half,
                             const char *isa, enum role role, int index)
{
    ck_assert_msg(sqrt(d->error) <= (half ? half_tolerance : norm_tolerance) * sqrt(d->norm),
                  "%s phase %d (%s%s): role %d operand %d differs by %.3g of its norm", f->segment.name, (int)phase,
                  isa, half ? ", bf16" : "", (int)role, index, sqrt(d->error / d->norm));
}

static void check_norm(const struct fixture *f, const struct tensor *t, enum phase phase, bool half, const char *isa,
                       enum role role, int index)
{
    struct difference d = { 0 };
    int64_t at[MAX_DIMS];
    for (int64_t i = 0; i < t->elements; i++) {
        coordinates(t, i, at);
        if (in_range(f, t, at) && block_place(t, at) >= 0) /* a table of positions may hold more than its block */
            add_difference(&d, (double)((real *)t->block)[block_place(t, at)], t->data[i]);
    }
    check_difference(&d, f, phase, half, isa, role, index);
}

static void test_forward(const struct kernel_case *c, uint64_t seed, bool large, const struct primitives *set,
                         bool half)
{
    struct fixture f;
    fixture_make(&f, c, seed, large, seed % 5 == 0);
    f.tolerance = half ? half_tolerance : forward_tolerance;
    if (half)
        round_tensors(&f);
    load_blocks(&f);
    int split = draw_split(&f);
    run_phase(&f, PHASE_FORWARD, set->kernel[c->kernel][PHASE_FORWARD], ROLE_OUT, true, split);
    c->forward(&f);
    for (int i = 0; i < f.segment.out_count; i++) {
        check_block(&f, &f.tensor[ROLE_OUT][i], PHASE_FORWARD, set->isa, ROLE_OUT, i);
        if (large)
            check_norm(&f, &f.tensor[ROLE_OUT][i], PHASE_FORWARD, half, set->isa, ROLE_OUT, i);
    }
    fixture_free(&f);
}

static void test_backward(const struct kernel_case *c, uint64_t seed, enum phase phase, const struct primitives *set,
                          bool half)
{
    enum role source = phase == PHASE_BACKWARD_INPUT ? ROLE_IN : ROLE_WEIGHT;
    enum role written = phase == PHASE_BACKWARD_INPUT ? ROLE_GRADIENT_IN : ROLE_GRADIENT_WEIGHT;
    struct fixture f;
    /* attention whole: the log-sum-exp that is saved is that of all keys */
    fixture_make(&f, c, seed, false, kernel_facts[c->kernel].attends || seed % 5 == 0);
    f.tolerance = half ? half_tolerance : backward_tolerance;
    bool define = draw(&f.random) % 2;
    copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
    int count = phase == PHASE_BACKWARD_INPUT ? f.segment.in_count : f.segment.weight_count;
    for (int i = 0; i < count; i++)
        if ((source == ROLE_WEIGHT || c->differentiable >> i & 1) &&
            draw(&f.random) % 8) /* now and then one is not asked for */
            copy_tensor(&f, written, i, &f.tensor[source][i]);
    if (half)
        round_tensors(&f);
    c->forward(&f); /* backward may read outputs */
    load_blocks(&f);
    int split = draw_split(&f);
    run_phase(&f, phase, set->kernel[c->kernel][phase], written, define, split);
    expect_backward(&f, c, source, written, define);
    for (int i = 0; i < count; i++)
        if (f.tensor[written][i].used)
            check_block(&f, &f.tensor[written][i], phase, set->isa, written, i);
    fixture_free(&f);
}

/* Gradients where the inputs are, as many of them as may be; elements out of range stay those of the inputs. */
static void write_over_inputs(struct fixture *f)
{
    int count = 0;
    for (int i = 0; i < f->segment.in_count; i++) {
        struct tensor *gradient = &f->tensor[ROLE_GRADIENT_IN][i];
        const struct tensor *input = &f->tensor[ROLE_IN][i];
        if (!gradient->used || !(kernel_facts[f->segment.kernel].overwrites_in >> i & 1))
            continue;
        free(gradient->block);
        gradient->block = input->block;
        memcpy(gradient->data, input->data, (size_t)input->elements * sizeof *input->data);
        count++;
    }
    ck_assert_int_gt(count, 0);
}

static void test_in_place(const struct kernel_case *c, uint64_t seed, const struct primitives *set, bool half)
{
    struct fixture f;
    fixture_make(&f, c, seed, false, seed % 5 == 0);
    f.tolerance = half ? half_tolerance : backward_tolerance;
    copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
    int unwanted = c->differentiable == 3 ? (int)draw_in(&f.random, -1, 1) : -1; /* of two, one or none */
    for (int i = 0; i < f.segment.in_count; i++)
        if ((c->differentiable >> i & 1) && i != unwanted)
            copy_tensor(&f, ROLE_GRADIENT_IN, i, &f.tensor[ROLE_IN][i]);
    if (half)
        round_tensors(&f);
    write_over_inputs(&f);
    c->forward(&f);
    load_blocks(&f);
    run_phase(&f, PHASE_BACKWARD_INPUT, set->kernel[c->kernel][PHASE_BACKWARD_INPUT], ROLE_GRADIENT_IN, true,
              draw_split(&f));
    expect_backward(&f, c, ROLE_IN, ROLE_GRADIENT_IN, true);
    for (int i = 0; i < f.segment.in_count; i++) {
        struct tensor *gradient = &f.tensor[ROLE_GRADIENT_IN][i];
        if (gradient->used)
            check_block(&f, gradient, PHASE_BACKWARD_INPUT, set->isa, ROLE_GRADIENT_IN, i);
        if (gradient->block == f.tensor[ROLE_IN][i].block)
            gradient->block = NULL;
    }
    fixture_free(&f);
}

/* Where the facts say so, the plan's layout does it (planner/program/layout.c). */
START_TEST(gradients_may_lie_where_inputs_do)
{
    const struct primitives *set;
    bool half;
    for (int isa = 0; kernel_facts[cases[_i].kernel].overwrites_in && (set = set_at(isa, &half)); isa++)
        for (uint64_t seed = 0; seed < BACKWARD_SEEDS; seed += seed_stride(half))
            test_in_place(&cases[_i], seed, set, half);
}
END_TEST

START_TEST(forward_matches_naive_loops)
{
    const struct primitives *set;
    bool half;
    for (int isa = 0; (set = set_at(isa, &half)); isa++)
        for (uint64_t seed = 0; seed < FORWARD_SEEDS; seed += seed_stride(half)) {
            if (!set->kernel[cases[_i].kernel][PHASE_FORWARD]) /* a GPU says so by gpu_computes(); no plan runs there */
                break;
            test_forward(&cases[_i], seed, false, set, half);
            if (seed % 6 == 0)
                test_forward(&cases[_i], 1000 + seed, true, set, half);
        }
}
END_TEST

START_TEST(backward_matches_central_differences)
{
    const struct primitives *set;
    bool half;
    for (int isa = 0; (set = set_at(isa, &half)); isa++)
        for (int phase = PHASE_BACKWARD_INPUT; phase <= PHASE_BACKWARD_WEIGHT; phase++) {
            if (!set->kernel[cases[_i].kernel][phase])
                continue;
            for (uint64_t seed = 0; seed < BACKWARD_SEEDS; seed += seed_stride(half))
                test_backward(&cases[_i], seed, (enum phase)phase, set, half);
        }
}
END_TEST

/* ---- rows longer than a team of threads, vocabularies of thousands ---- */
/* Sizes by letter, hardly any a power of two. Elsewhere than on a real GPU just enough for a loop's second round. */
static void draw_wide_sizes(struct fixture *f, const struct kernel_case *c)
{
    const bool real_gpu = on_real_gpu();
    const bool attends = kernel_facts[c->kernel].attends;
    f->size['b'] = draw_in(&f->random, 1, 2);
    f->size['t'] = f->size['s'] =
        attends ? draw_in(&f->random, 130, real_gpu ? 300 : 140) : draw_in(&f->random, 2, real_gpu ? 12 : 3);
    f->size['p'] = f->size['t'] + draw_in(&f->random, 0, 3);
    f->size['h'] = draw_in(&f->random, 257, real_gpu ? 1100 : 280);
    f->size['f'] = draw_in(&f->random, 257, real_gpu ? 1100 : 280);
    f->size['v'] = draw_in(&f->random, real_gpu ? 6000 : 2049, real_gpu ? 12000 : 2100);
    f->size['e'] = draw_in(&f->random, 2, 3);
    f->size['m'] = draw_in(&f->random, 1, 2);
    f->size['n'] = f->size['m'] * (attends ? 2 : draw_in(&f->random, 3, 6));
    f->size['d'] = attends ? 8 * draw_in(&f->random, 1, real_gpu ? 4 : 2) : 2 * draw_in(&f->random, 33, 64);
    f->size['r'] = 32;
}

static void add_operands(struct fixture *f, enum role role, const char *const *text, struct operand *operands,
                         int *count, const char *letters)
{
    for (*count = 0; *count < MAX_OPERANDS && text[*count]; (*count)++)
        make_tensor(f, &f->tensor[role][*count], &operands[*count], text[*count], letters);
}

/* As fixture_make() but for the sizes. */
static void wide_make(struct fixture *f, const struct kernel_case *c, uint64_t seed, bool whole)
{
    char letters[MAX_AXES];
    int64_t extents[MAX_AXES], scratch = 1;
    struct segment *s = &f->segment;
    *f = (struct fixture){ .random = mix64(seed) };
    draw_wide_sizes(f, c);
    s->name = c->name, s->kernel = c->kernel;
    s->arguments = (struct kernel_arguments){ .epsilon = 1e-3,
                                              .rope_base = 10000,
                                              .scale = 0.3,
                                              .causal = draw(&f->random) % 2,
                                              .relative_buckets = f->size['r'],
                                              .relative_distance = 100,
                                              .kv_heads = kernel_facts[c->kernel].attends ? f->size['m'] : 0,
                                              .valid = f->size['v'] - draw_in(&f->random, 0, 50) };
    make_axes(f, c->axes, letters);
    make_ranges(f, whole);
    add_operands(f, ROLE_IN, c->in, s->in, &s->in_count, letters);
    add_operands(f, ROLE_WEIGHT, c->weight, s->weight, &s->weight_count, letters);
    add_operands(f, ROLE_OUT, c->out, s->out, &s->out_count, letters);
    for (int i = 0; i < MAX_AXES; i++)
        extents[i] = f->high[i] - f->low[i];
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_WEIGHT; phase++)
        scratch = max_i64(scratch, segment_scratch_elements(NULL, s, (enum phase)phase, extents));
    f->scratch = calloc((size_t)scratch, sizeof *f->scratch);
}

/* As objective(), visiting what lies in the range alone. */
static double range_objective(struct fixture *f, const struct kernel_case *c)
{
    const struct tensor *out = &f->tensor[ROLE_OUT][0], *gradient = &f->tensor[ROLE_GRADIENT_OUT][0];
    int64_t low[MAX_DIMS], high[MAX_DIMS], at[MAX_DIMS];
    double sum = 0;
    int dim;
    for (dim = 0; dim < out->dim_count; dim++) {
        low[dim] = at[dim] = out->axis[dim] < 0 ? 0 : f->low[out->axis[dim]];
        high[dim] = out->axis[dim] < 0 ? out->size[dim] : f->high[out->axis[dim]];
    }
    c->forward(f);
    do {
        int64_t offset = tensor_offset(out, at);
        sum += out->data[offset] * gradient->data[offset];
        for (dim = out->dim_count - 1; dim >= 0 && ++at[dim] == high[dim]; dim--)
            at[dim] = low[dim];
    } while (dim >= 0);
    return sum;
}

/* The derivative by one element of x: along axes that out has, or sums over, nothing but the element's own place
 * depends on it. */
static double slope_at(struct fixture *f, const struct kernel_case *c, const struct tensor *x, int64_t element,
                       const int64_t at[MAX_DIMS])
{
    static const double place[] = { -2, -1, 1, 2 }, weight[] = { 1, -8, 8, -1 };
    const double step = 1e-3, was = x->data[element];
    int64_t low[MAX_AXES], high[MAX_AXES];
    double slope = 0;
    memcpy(low, f->low, sizeof low);
    memcpy(high, f->high, sizeof high);
    for (int dim = 0; dim < x->dim_count; dim++) {
        const int axis = x->axis[dim];
        if (axis < 0 || x->size[dim] != f->segment.axes[axis].size || f->segment.axes[axis].fixed ||
            !(f->segment.axes[axis].fold == FOLD_SUM || has_axis(&f->tensor[ROLE_OUT][0], axis)))
            continue;
        f->low[axis] = at[dim], f->high[axis] = at[dim] + 1;
    }
    for (int k = 0; k < 4; k++) {
        x->data[element] = was + place[k] * step;
        slope += weight[k] * range_objective(f, c) / (12 * step);
    }
    x->data[element] = was;
    memcpy(f->low, low, sizeof low);
    memcpy(f->high, high, sizeof high);
    return slope;
}

/* Some elements of a gradient: drawn ones, of which half are not 0 where the kernel was right to leave most so. */
static void check_some_slopes(struct fixture *f, const struct kernel_case *c, enum phase phase, bool half,
                              const char *isa, int index, bool define)
{
    const bool of_input = phase == PHASE_BACKWARD_INPUT;
    const enum role written = of_input ? ROLE_GRADIENT_IN : ROLE_GRADIENT_WEIGHT;
    enum { SAMPLES = 100 };
    const struct tensor *t = &f->tensor[written][index], *x = &f->tensor[of_input ? ROLE_IN : ROLE_WEIGHT][index];
    struct difference d = { 0 };
    int64_t at[MAX_DIMS];
    int taken = 0;
    for (int64_t tries = 0; taken < SAMPLES && tries < 100000; tries++) {
        int64_t element = draw_in(&f->random, 0, t->elements - 1);
        coordinates(t, element, at);
        if (!in_range(f, t, at) || block_place(t, at) < 0)
            continue;
        double got = (double)((real *)t->block)[block_place(t, at)], old = define ? 0 : t->data[element];
        if (taken >= SAMPLES / 2 && got == old)
            continue;
        add_difference(&d, got, old + slope_at(f, c, x, element, at));
        taken++;
    }
    ck_assert_int_gt(taken, 0);
    check_difference(&d, f, phase, half, isa, written, index);
}

static void test_wide(const struct kernel_case *c, uint64_t seed, enum phase phase, const struct primitives *set,
                      bool half)
{
    const enum role written = phase == PHASE_FORWARD          ? ROLE_OUT
                              : phase == PHASE_BACKWARD_INPUT ? ROLE_GRADIENT_IN
                                                              : ROLE_GRADIENT_WEIGHT;
    const bool backward = phase != PHASE_FORWARD, define = !backward || seed % 3 > 0;
    struct fixture f;
    wide_make(&f, c, seed, seed % 2 == 0);
    int count = phase == PHASE_FORWARD          ? f.segment.out_count
                : phase == PHASE_BACKWARD_INPUT ? f.segment.in_count
                                                : f.segment.weight_count;
    if (backward)
        copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
    for (int i = 0; backward && i < count; i++)
        if (written == ROLE_GRADIENT_WEIGHT || c->differentiable >> i & 1)
            copy_tensor(&f, written, i, &f.tensor[written == ROLE_GRADIENT_IN ? ROLE_IN : ROLE_WEIGHT][i]);
    if (half)
        round_tensors(&f);
    if (backward)
        c->forward(&f);
    load_blocks(&f);
    run_phase(&f, phase, set->kernel[c->kernel][phase], written, define, draw_split(&f));
    if (!backward)
        c->forward(&f);
    for (int i = 0; i < count; i++)
        if (!backward)
            check_norm(&f, &f.tensor[written][i], phase, half, set->isa, written, i);
        else if (f.tensor[written][i].used)
            check_some_slopes(&f, c, phase, half, set->isa, i, define);
    fixture_free(&f);
}

/* Attention backward has long_attention_gradients. */
START_TEST(wide_rows_match_by_norm)
{
    const struct kernel_case *c = &cases[_i];
    const struct primitives *set;
    bool half;
    if (!on_real_gpu() && !in_share((uint64_t)_i))
        return;
    for (int isa = 0; !sees(c->kernel) && (set = set_at(isa, &half)); isa++)
        for (int phase = PHASE_FORWARD;
             phase <= (kernel_facts[c->kernel].attends ? PHASE_FORWARD : PHASE_BACKWARD_WEIGHT); phase++)
            for (uint64_t seed = 0; set->kernel[c->kernel][phase] && seed < (on_real_gpu() ? 2 : 1); seed++)
                test_wide(c, 100 * (uint64_t)phase + 10 * (uint64_t)isa + seed, (enum phase)phase, set, half);
}
END_TEST

/* What models/kernel.c promises, the table holds, and nothing more. */
START_TEST(table_agrees_with_kernel_facts)
{
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
        bool math = kernel != KERNEL_OPAQUE;
        ck_assert_int_eq(kernel_find((enum kernel)kernel, PHASE_FORWARD) != NULL, math);
        ck_assert_int_eq(kernel_find((enum kernel)kernel, PHASE_BACKWARD_INPUT) != NULL,
                         math && kernel_facts[kernel].has_backward_input);
        ck_assert_int_eq(kernel_find((enum kernel)kernel, PHASE_BACKWARD_WEIGHT) != NULL,
                         math && kernel_facts[kernel].has_backward_weight);
    }
}
END_TEST

/* Attention backward over several tiles of rows against one built from whole score matrices. */
static void attention_gradients(struct fixture *f)
{
    double *gradient[3];
    for (int i = 0; i < 3; i++) {
        gradient[i] = f->tensor[ROLE_GRADIENT_IN][i].data;
        memset(gradient[i], 0, (size_t)f->tensor[ROLE_GRADIENT_IN][i].elements * sizeof(double));
    }
    EACH(b, 0) EACH(t, 1) EACH(n, 3)
    {
        int64_t m = n * f->segment.arguments.kv_heads / f->size['n'];
        double dot = 0;
        EACH(d, 4) dot += AT(ROLE_GRADIENT_OUT, 0, b, t, n, d) * OUT(0, b, t, n, d);
        EACH(s, 2) if (!f->segment.arguments.causal || s <= t)
        {
            double p = exp(score(f, b, t, s, n, m) - OUT(1, b, t, n)), dp = 0;
            EACH(d, 4) dp += AT(ROLE_GRADIENT_OUT, 0, b, t, n, d) * IN(2, b, s, m, d);
            double ds = p * (dp - dot) * f->segment.arguments.scale;
            EACH(d, 4)
            {
                AT(ROLE_GRADIENT_IN, 0, b, t, n, d) += ds * IN(1, b, s, m, d);
                AT(ROLE_GRADIENT_IN, 1, b, s, m, d) += ds * IN(0, b, t, n, d);
                AT(ROLE_GRADIENT_IN, 2, b, s, m, d) += p * AT(ROLE_GRADIENT_OUT, 0, b, t, n, d);
            }
        }
    }
}

START_TEST(long_attention_gradients)
{
    const struct kernel_case *c = NULL;
    for (int i = 0; i < CASE_COUNT; i++)
        c = cases[i].kernel == KERNEL_ATTENTION ? &cases[i] : c;
    const struct primitives *set;
    bool half;
    for (int isa = 0; (set = set_at(isa, &half)); isa++)
        for (uint64_t seed = 0; seed < LONG_SEEDS; seed++) {
            struct fixture f;
            fixture_make(&f, c, seed, true, true);
            f.tolerance = half ? half_tolerance : forward_tolerance;
            copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
            for (int i = 0; i < 3; i++)
                copy_tensor(&f, ROLE_GRADIENT_IN, i, &f.tensor[ROLE_IN][i]);
            if (half)
                round_tensors(&f);
            c->forward(&f);
            load_blocks(&f);
            run_phase(&f, PHASE_BACKWARD_INPUT, set->kernel[KERNEL_ATTENTION][PHASE_BACKWARD_INPUT], ROLE_GRADIENT_IN,
                      true, (int)(seed % 4));
            attention_gradients(&f);
            for (int i = 0; i < 3; i++) {
                const struct tensor *t = &f.tensor[ROLE_GRADIENT_IN][i];
                check_block(&f, t, PHASE_BACKWARD_INPUT, set->isa, ROLE_GRADIENT_IN, i);
                check_norm(&f, t, PHASE_BACKWARD_INPUT, half, set->isa, ROLE_GRADIENT_IN, i);
            }
            fixture_free(&f);
        }
}
END_TEST

static Suite *kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *cases_of_all = tcase_create("all kernels");
    tcase_set_timeout(cases_of_all, 0);
    tcase_add_loop_test(cases_of_all, forward_matches_naive_loops, 0, CASE_COUNT);
    tcase_add_loop_test(cases_of_all, backward_matches_central_differences, 0, CASE_COUNT);
    tcase_add_loop_test(cases_of_all, gradients_may_lie_where_inputs_do, 0, CASE_COUNT);
    tcase_add_loop_test(cases_of_all, wide_rows_match_by_norm, 0, CASE_COUNT);
    suite_add_tcase(suite, cases_of_all);
    CHECK_ADD(suite, table_agrees_with_kernel_facts);
    CHECK_ADD(suite, long_attention_gradients);
    return suite;
}

CHECK_MAIN(kernels_suite)
