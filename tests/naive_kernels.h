/* What each kernel computes, as loops over whole tensors in double, and the shapes on which kernels are held to that.
 */
#ifndef CLEAVE_TESTS_NAIVE_KERNELS_H
#define CLEAVE_TESTS_NAIVE_KERNELS_H
#include "tests/kernel_fixture.h"
#include <math.h>

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
        EACH(h, 2) OUT(0, b, t, h) = k >= f->low[3] && k < f->high[3] ? product_scale(f) * WEIGHT(0, k, h) : 0;
    }
}
static void naive_add_position(struct fixture *f)
{
    EACH(b, 0)
    EACH(t, 1)
    EACH(h, 2) OUT(0, b, t, h) = IN(0, b, t, h) + WEIGHT(0, f->segment.arguments.one_row ? 0 : t, h);
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
        EACH(h, 2)
        OUT(0, b, t, h) =
            (IN(0, b, t, h) - mean) * rstd * WEIGHT(0, h) + (f->segment.weight_count > 1 ? WEIGHT(1, h) : 0);
        OUT(1, b, t) = mean;
        OUT(2, b, t) = rstd;
    }
}
/* btnd, over d, with a weight for each head or one for all; layer norm where there is a mean. */
static void naive_head_norm(struct fixture *f)
{
    const int rstd_out = f->segment.out_count - 1;
    EACH(b, 0) EACH(t, 1) EACH(n, 2)
    {
        double mean = 0, variance = 0, width = (double)f->size['d'];
        EACH(d, 3) mean += rstd_out == 2 ? IN(0, b, t, n, d) / width : 0;
        EACH(d, 3) variance += pow(IN(0, b, t, n, d) - mean, 2) / width;
        double rstd = 1 / sqrt(variance + f->segment.arguments.epsilon);
        EACH(d, 3)
        OUT(0, b, t, n, d) = (IN(0, b, t, n, d) - mean) * rstd *
                             (f->tensor[ROLE_WEIGHT][0].dim_count > 1 ? WEIGHT(0, n, d) : WEIGHT(0, d));
        if (rstd_out == 2)
            OUT(1, b, t, n) = mean;
        OUT(rstd_out, b, t, n) = rstd;
    }
}
#ifndef CLEAVE_TEST_GPU
static void naive_whole_norm(struct fixture *f) /* btnd, over n and d */
{
    EACH(b, 0) EACH(t, 1)
    {
        double square = 0;
        EACH(n, 2) EACH(d, 3) square += pow(IN(0, b, t, n, d), 2) / (double)(f->size['n'] * f->size['d']);
        double rstd = 1 / sqrt(square + f->segment.arguments.epsilon);
        EACH(n, 2) EACH(d, 3) OUT(0, b, t, n, d) = IN(0, b, t, n, d) * rstd * WEIGHT(0, n, d);
        OUT(1, b, t) = rstd;
    }
}
#endif
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
/* As in the reference code of Press et al.: for heads that are no power of two, every other slope of twice as many as
 * the power below has. */
static double naive_slope(int64_t head, int64_t heads)
{
    int64_t below = (int64_t)pow(2, floor(log2((double)heads)));
    if (head < below)
        return pow(pow(2, -pow(2, -(log2((double)below) - 3))), (double)(head + 1));
    return naive_slope(2 * (head - below), 2 * below);
}
static double score(struct fixture *f, int64_t b, int64_t t, int64_t s, int64_t n, int64_t m)
{
    double sum = 0;
    EACH(d, 4) sum += IN(0, b, t, n, d) * IN(1, b, s, m, d);
    const struct kernel_arguments *a = &f->segment.arguments;
    sum *= a->scale;
    if (f->segment.kernel == KERNEL_BIASED_ATTENTION)
        sum += WEIGHT(0, naive_bucket(f, s - t), n);
    if (a->alibi)
        sum -= naive_slope(n, f->size['n']) * (double)llabs(t - s);
    return a->score_cap > 0 ? a->score_cap * tanh(sum / a->score_cap) : sum;
}
static bool attends_to(const struct fixture *f, int64_t t, int64_t s)
{
    const struct kernel_arguments *a = &f->segment.arguments;
    if (a->sliding_window > 0 && !a->causal)
        return llabs(t - s) <= a->sliding_window / 2;
    return (!a->causal || s <= t) && (a->sliding_window == 0 || t - s < a->sliding_window);
}
static void naive_attention(struct fixture *f) /* bts~nd, or bts~ndw */
{
    const int values = f->segment.in[2].axis[3];
    EACH(b, 0) EACH(t, 1) EACH(n, 3)
    {
        int64_t m = n * f->segment.arguments.kv_heads / f->size['n'];
        double sum = f->segment.kernel == KERNEL_SINK_ATTENTION ? exp(WEIGHT(0, n)) : 0;
        EACH(s, 2) if (attends_to(f, t, s)) sum += exp(score(f, b, t, s, n, m));
        EACH(d, values) OUT(0, b, t, n, d) = 0;
        EACH(s, 2) if (attends_to(f, t, s))
        {
            double p = exp(score(f, b, t, s, n, m)) / sum;
            EACH(d, values) OUT(0, b, t, n, d) += p * IN(2, b, s, m, d);
        }
        OUT(1, b, t, n) = log(sum);
    }
}
static void naive_join(struct fixture *f) /* btnd */
{
    EACH(b, 0)
    EACH(t, 1)
    EACH(n, 2) EACH(d, 3) OUT(0, b, t, n, d) = d < f->size['y'] ? IN(0, b, t, 0, d) : IN(1, b, t, n, d - f->size['y']);
}
static void naive_residual(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(h, 2)
    {
        double sum = f->segment.weight_count ? WEIGHT(0, h) : 0;
        for (int i = 0; i < f->segment.in_count; i++)
            sum += (i > 0 ? product_scale(f) : 1) * IN(i, b, t, h);
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
static void naive_squared_relu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = pow(fmax(IN(0, b, t, i), 0), 2);
}
static void naive_quick_gelu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = IN(0, b, t, i) / (1 + exp(-1.702 * IN(0, b, t, i)));
}
static void naive_silu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = IN(0, b, t, i) / (1 + exp(-IN(0, b, t, i)));
}
static void naive_soft_cap(struct fixture *f)
{
    double cap = f->segment.arguments.score_cap;
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = cap * tanh(IN(0, b, t, i) / cap);
}
static void naive_geglu_erf(struct fixture *f)
{
    EACH(b, 0)
    EACH(t, 1)
    EACH(i, 2) OUT(0, b, t, i) = 0.5 * IN(0, b, t, i) * (1 + erf(IN(0, b, t, i) / sqrt(2))) * IN(1, b, t, i);
}
static void naive_sigmoid_gate(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2) OUT(0, b, t, i) = IN(0, b, t, i) / (1 + exp(-IN(1, b, t, i)));
}
static void naive_geglu(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(i, 2)
    {
        double x = IN(0, b, t, i);
        OUT(0, b, t, i) = 0.5 * x * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))) * IN(1, b, t, i);
    }
}
static void naive_swiglu_clamped(struct fixture *f)
{
    const double limit = f->segment.arguments.limit;
    EACH(b, 0) EACH(t, 1) EACH(i, 2)
    {
        double gate = fmin(IN(0, b, t, i), limit), up = fmax(fmin(IN(1, b, t, i), limit), -limit);
        OUT(0, b, t, i) = gate / (1 + exp(-1.702 * gate)) * (up + 1);
    }
}
static void naive_token_gate(struct fixture *f)
{
    EACH(b, 0) EACH(t, 1) EACH(h, 2) OUT(0, b, t, h) = IN(0, b, t, h) / (1 + exp(-IN(1, b, t, 0)));
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
    { "layer_norm without bias",
      KERNEL_LAYER_NORM,
      "bth+!",
      { "bth" },
      { "h" },
      { "bth", "bt", "bt" },
      1,
      naive_layer_norm,
      0 },
    { "head_norm", KERNEL_RMS_NORM, "btnd!", { "btnd" }, { "d" }, { "btnd", "btn" }, 1, naive_head_norm, 0 },
    { "scaled_embed", KERNEL_EMBED, "bthv+", { "#bt" }, { "vh" }, { "bth" }, 0, naive_embed, 0 },
    { "add_type", KERNEL_ADD_POSITION, "bth", { "bth" }, { "ph" }, { "bth" }, 1, naive_add_position, 0 },
    { "scaled_residual",
      KERNEL_RESIDUAL,
      "bth",
      { "bth", "bth", "bth", "bth" },
      { 0 },
      { "bth" },
      15,
      naive_residual,
      4 },
#ifndef CLEAVE_TEST_GPU
    { "each_head_norm",
      KERNEL_LAYER_NORM,
      "btnd!",
      { "btnd" },
      { "nd" },
      { "btnd", "btn", "btn" },
      1,
      naive_head_norm,
      0 },
    { "whole_norm", KERNEL_RMS_NORM, "btn!d!", { "btnd" }, { "nd" }, { "btnd", "bt" }, 1, naive_whole_norm, 0 },
    { "capped_attention",
      KERNEL_ATTENTION,
      "bts~nd!",
      { "btnd", "bsmd", "bsmd" },
      { 0 },
      { "btnd", "btn" },
      7,
      naive_attention,
      0 },
    { "alibi_attention",
      KERNEL_ATTENTION,
      "bts~nd!",
      { "btnd", "bsmd", "bsmd" },
      { 0 },
      { "btnd", "btn" },
      7,
      naive_attention,
      0 },
#endif
    { "sink_attention",
      KERNEL_SINK_ATTENTION,
      "bts~nd!",
      { "btnd", "bsmd", "bsmd" },
      { "n" },
      { "btnd", "btn" },
      7,
      naive_attention,
      0 },
    { "quick_gelu", KERNEL_QUICK_GELU, "btf", { "btf" }, { 0 }, { "btf" }, 1, naive_quick_gelu, 0 },
    { "silu", KERNEL_SILU, "btf", { "btf" }, { 0 }, { "btf" }, 1, naive_silu, 0 },
    { "soft_cap", KERNEL_SOFT_CAP, "btv", { "btv" }, { 0 }, { "btv" }, 1, naive_soft_cap, 0 },
    { "geglu_erf", KERNEL_GEGLU_ERF, "btf", { "btf", "btf" }, { 0 }, { "btf" }, 3, naive_geglu_erf, 0 },
    { "sigmoid_gate", KERNEL_SIGMOID_GATE, "btf", { "btf", "btf" }, { 0 }, { "btf" }, 3, naive_sigmoid_gate, 0 },
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
    { "squared_relu", KERNEL_SQUARED_RELU, "btf", { "~btf" }, { 0 }, { "btf" }, 1, naive_squared_relu, 0 },
    { "join", KERNEL_JOIN, "btnd!", { "bt1y", "btnx" }, { 0 }, { "btnd" }, 3, naive_join, 0 },
#ifndef CLEAVE_TEST_GPU
    { "sliding_attention",
      KERNEL_ATTENTION,
      "bts~nd!",
      { "btnd", "bsmd", "bsmd" },
      { 0 },
      { "btnd", "btn" },
      7,
      naive_attention,
      0 },
    { "latent_attention",
      KERNEL_ATTENTION,
      "bts~nd!w!",
      { "btnd", "bsmd", "bsmw" },
      { 0 },
      { "btnw", "btn" },
      7,
      naive_attention,
      0 },
#endif
    { "geglu", KERNEL_GEGLU, "btf", { "btf", "btf" }, { 0 }, { "btf" }, 3, naive_geglu, 0 },
    { "swiglu_clamped",
      KERNEL_CLAMPED,
      "btf",
      { "=btf", "=btf" },
      { 0 },
      { "btf" },
      3,
      naive_swiglu_clamped,
      0 },
    { "token_gate", KERNEL_TOKEN_GATE, "bth", { "bth", "bt1" }, { 0 }, { "bth" }, 3, naive_token_gate, 0 },
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
#endif
