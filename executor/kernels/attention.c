/* q (b,t,n,d), o (b,t,n,w), log-sum-exp lse (b,t,n), k (b,s,kv,d), v (b,s,kv,w): query head i reads key head i *
 * kv_heads / heads; biases (r,n); sinks (n). A tile is up to ATTENTION_TILE_ROWS rows of t of one (b,n): its scores,
 * their gradients ds and probabilities p are (rows,keys), its share of o is (rows,w).
 *
 * Softmax attention in tiles of query rows, so that only a strip of scores exists (after Dao et al. 2022; a strip spans
 * all keys of the call, which fits the second-level cache at usual lengths). Keys above the diagonal, or before the
 * window of the tile's first row, are never computed outside of the tiles that they cross. Rounds over keys fold by
 * log-sum-exp. */
#include "base/num.h"
#include "executor/kernels/elements.h"
#include "executor/kernels/primitives.h"
#include <string.h>

enum { AXIS_B, AXIS_T, AXIS_N, AXIS_D };

struct core {
    const struct kernel_call *call;
    int axis[4]; /* of b, t, n, d */
    int key_axis;
    int64_t width, value_width; /* d, w */
    int64_t t_low, t_high, s_low, s_high;
    int64_t ahead; /* of the first query before the first key, less t_low - s_low */
    real scale;
    int32_t *bucket; /* of key - query, from the smallest difference on; NULL: no biases */
};

/* One tile: rows of one sequence and head, and the keys from s on that any of them sees. Line strides are those of t
 * and s. */
struct tile {
    int64_t b, t, n, kv, rows, s, keys;
};

static struct core core_of(const struct kernel_call *call)
{
    const struct segment *segment = call->segment;
    struct core core = { .call = call, .key_axis = segment->in[1].axis[1], .scale = (real)segment->arguments.scale };
    for (int dim = 0; dim < 4; dim++)
        core.axis[dim] = segment->in[0].axis[dim];
    core.width = call->high[core.axis[AXIS_D]] - call->low[core.axis[AXIS_D]];
    const int value_axis = segment->in[2].axis[3];
    core.value_width = call->high[value_axis] - call->low[value_axis];
    core.t_low = call->low[core.axis[AXIS_T]], core.t_high = call->high[core.axis[AXIS_T]];
    core.s_low = call->low[core.key_axis], core.s_high = call->high[core.key_axis];
    core.ahead = call->shift[core.axis[AXIS_T]] - call->shift[core.key_axis];
    return core;
}

static int64_t widest(const struct core *core)
{
    return core->width > core->value_width ? core->width : core->value_width;
}

/* The list of buckets lies behind the tiles in the workspace. */
static void list_buckets(struct core *core)
{
    int64_t keys = core->s_high - core->s_low;
    core->bucket = (int32_t *)(core->call->scratch + 2 * ATTENTION_TILE_ROWS * (keys + widest(core)));
    for (int64_t i = 0; i < keys + core->t_high - core->t_low - 1; i++)
        core->bucket[i] =
            (int32_t)relative_bucket(&core->call->segment->arguments, core->t_high - 1 + core->ahead, core->s_low + i);
}

static int64_t kv_head(const struct core *core, int64_t n)
{
    return n * core->call->segment->arguments.kv_heads / core->call->segment->axes[core->axis[AXIS_N]].size;
}

/* Keys of the range that the query at t sees, as far as its window or it itself reaches. */
static int64_t visible(const struct core *core, int64_t t)
{
    const struct kernel_arguments *arguments = &core->call->segment->arguments;
    int64_t all = core->s_high - core->s_low, behind = arguments->causal ? 0 : arguments->sliding_window / 2,
            seen = t + core->ahead + 1 + behind - core->s_low;
    if ((!arguments->causal && arguments->sliding_window <= 0) || seen > all)
        return all;
    return seen > 0 ? seen : 0;
}

/* And those before its window. */
static int64_t forgotten(const struct core *core, int64_t t)
{
    const struct kernel_arguments *arguments = &core->call->segment->arguments;
    int64_t window = arguments->causal ? arguments->sliding_window : arguments->sliding_window / 2 + 1,
            seen = t + core->ahead + 1 - core->s_low, all = core->s_high - core->s_low, before = seen - window;
    return arguments->sliding_window <= 0 || before < 0 ? 0 : before < all ? before : all;
}

/* Element (b, line, n, 0) of an operand whose dims are (b, line, n, d), or (b, line, n) for the log-sum-exp. */
static real *place(const struct view *view, int64_t b, int64_t line, int64_t n)
{
    int64_t offset = ((b - view->low[0]) * view->count[1] + line - view->low[1]) * view->count[2] + n - view->low[2];
    return (real *)view->data + offset * (view->dim_count > 3 ? view->count[3] : 1);
}

static int64_t line_stride(const struct view *view)
{
    return view->count[2] * (view->dim_count > 3 ? view->count[3] : 1);
}

/* Buckets of the keys of the range as the query at t sees them, and where the table (or its gradient) holds a head. */
static const int32_t *buckets_of(const struct core *core, int64_t t)
{
    return core->bucket + core->t_high - 1 - t;
}

static real *bias_of(const struct view *table, int64_t n)
{
    return (real *)table->data + n - table->low[1] - table->low[0] * table->count[1];
}

static void add_biases(const struct core *core, const struct tile *tile, real *scores)
{
    const struct view *table = &core->call->operand[ROLE_WEIGHT][0];
    if (!core->bucket)
        return;
    const real *bias = bias_of(table, tile->n);
    for (int64_t row = 0; row < tile->rows; row++) {
        const int32_t *bucket = buckets_of(core, tile->t + row);
        for (int64_t i = 0; i < tile->keys; i++)
            scores[row * tile->keys + i] += bias[bucket[i] * table->count[1]];
    }
}

static void lower_by_distance(const struct core *core, const struct tile *tile, real *scores)
{
    const struct segment *segment = core->call->segment;
    const real slope = (real)alibi_slope(tile->n, segment->axes[core->axis[AXIS_N]].size);
    for (int64_t row = 0; row < tile->rows; row++) {
        const int64_t distance = tile->t + row + core->ahead - tile->s; /* to the first key */
#pragma omp simd
        for (int64_t i = 0; i < tile->keys; i++)
            scores[row * tile->keys + i] -= slope * (real)(distance > i ? distance - i : i - distance);
    }
}

/* What is done to scores before they are masked. */
static void change_scores(const struct core *core, const struct tile *tile, real *scores)
{
    const struct kernel_arguments *arguments = &core->call->segment->arguments;
    const real cap = (real)arguments->score_cap;
    add_biases(core, tile, scores);
    if (arguments->alibi)
        lower_by_distance(core, tile, scores);
    if (cap > 0) {
#pragma omp simd
        for (int64_t i = 0; i < tile->rows * tile->keys; i++)
            scores[i] = soft_cap(scores[i], cap);
    }
}

typedef void tile_function(const struct core *core, const struct tile *tile);

static void each_tile(const struct core *core, tile_function *function)
{
    const struct kernel_call *call = core->call;
    for (int64_t b = call->low[core->axis[AXIS_B]]; b < call->high[core->axis[AXIS_B]]; b++)
        for (int64_t n = call->low[core->axis[AXIS_N]]; n < call->high[core->axis[AXIS_N]]; n++)
            for (int64_t t = core->t_low; t < core->t_high; t += ATTENTION_TILE_ROWS) {
                int64_t left = core->t_high - t;
                struct tile tile = { .b = b,
                                     .t = t,
                                     .n = n,
                                     .kv = kv_head(core, n),
                                     .rows = left < ATTENTION_TILE_ROWS ? left : ATTENTION_TILE_ROWS };
                tile.s = core->s_low + forgotten(core, t);
                tile.keys = visible(core, t + tile.rows - 1) - (tile.s - core->s_low);
                tile.keys = tile.keys > 0 ? tile.keys : 0;
                function(core, &tile);
            }
}

/* out(rows, keys) = alpha * lines of `queries` times lines of `keys`, transposed: scores, and gradients of
 * probabilities. */
static void line_products(const struct tile *tile, const struct view *queries, const struct view *keys, int64_t width,
                          real alpha, real *out)
{
    gemm_run(&(struct gemm){ .m = tile->rows,
                             .n = tile->keys,
                             .k = width,
                             .a = place(queries, tile->b, tile->t, tile->n),
                             .a_m = line_stride(queries),
                             .a_k = 1,
                             .b = place(keys, tile->b, tile->s, tile->kv),
                             .b_k = 1,
                             .b_n = line_stride(keys),
                             .c = out,
                             .c_m = tile->keys,
                             .c_n = 1,
                             .alpha = alpha });
}

/* out(rows, width) = weights(rows, keys) times lines of `keys`. */
static void weighted_lines(const struct tile *tile, const real *weights, const struct view *keys, int64_t width,
                           real alpha, real *out, int64_t out_stride, bool accumulate)
{
    gemm_run(&(struct gemm){ .m = tile->rows,
                             .n = width,
                             .k = tile->keys,
                             .a = weights,
                             .a_m = tile->keys,
                             .a_k = 1,
                             .b = place(keys, tile->b, tile->s, tile->kv),
                             .b_k = line_stride(keys),
                             .b_n = 1,
                             .c = out,
                             .c_m = out_stride,
                             .c_n = 1,
                             .alpha = alpha,
                             .accumulate = accumulate });
}

/* Lines of a key-side gradient += weights(rows, keys), transposed, times lines of `queries`. */
static void scatter_lines(const struct tile *tile, const real *weights, const struct view *queries, int64_t width,
                          real alpha, const struct view *gradient)
{
    gemm_run(&(struct gemm){ .m = tile->keys,
                             .n = width,
                             .k = tile->rows,
                             .a = weights,
                             .a_m = 1,
                             .a_k = tile->keys,
                             .b = place(queries, tile->b, tile->t, tile->n),
                             .b_k = line_stride(queries),
                             .b_n = 1,
                             .c = place(gradient, tile->b, tile->s, tile->kv),
                             .c_m = line_stride(gradient),
                             .c_n = 1,
                             .alpha = alpha,
                             .accumulate = true });
}

/* Keys of the tile that a row sees: those from `from` to `to`. */
struct sight {
    int64_t from, to;
};

static struct sight sight_of(const struct core *core, const struct tile *tile, int64_t row)
{
    int64_t before = tile->s - core->s_low;
    struct sight sight = { forgotten(core, tile->t + row) - before, visible(core, tile->t + row) - before };
    return sight.from < sight.to ? sight : (struct sight){ 0, 0 };
}

/* Hides the keys that are not seen, up to a whole number of vectors (or the end of the row), so that loops over the
 * result have no scalar tail; what lies beyond becomes 0 at once. Returns where to stop. */
static int64_t hide(real *row, struct sight sight, int64_t count)
{
    int64_t seen = sight.to, stop = min_i64(round_up(seen, 16), count);
    for (int64_t i = 0; i < sight.from; i++)
        row[i] = -INFINITY;
    for (int64_t i = seen; i < stop; i++)
        row[i] = -INFINITY;
    memset(row + stop, 0, (size_t)(count - stop) * sizeof *row);
    return stop;
}

/* Turns a row of scores into exp(score - max), hidden keys into 0; gives the max and the sum. */
static real soften(real *row, struct sight sight, int64_t count, real *max_out)
{
    real max = -INFINITY, sum = 0;
    int64_t stop = hide(row, sight, count);
#pragma omp simd reduction(max : max)
    for (int64_t i = 0; i < stop; i++)
        max = row[i] > max ? row[i] : max;
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < stop; i++) {
        row[i] = real_exp(row[i] - max);
        sum += row[i];
    }
    *max_out = max;
    return sum;
}

/* o = (exp(lse - new) o + part / sum exp(part_lse - new)), new = log(exp(lse) + exp(part_lse)); a begun o is the part
 * alone. */
static void fold_row(real *o, real *lse, const real *part, int64_t width, real sum, real max, bool begin)
{
    if (sum == 0) { /* nothing visible in this round */
        for (int64_t i = 0; begin && i < width; i++)
            o[i] = 0;
        *lse = begin ? -INFINITY : *lse;
        return;
    }
    real part_lse = max + real_log(sum);
    if (begin || *lse == -INFINITY) {
        for (int64_t i = 0; i < width; i++)
            o[i] = part[i] / sum;
        *lse = part_lse;
        return;
    }
    real high = part_lse > *lse ? part_lse : *lse;
    real together = high + real_log(real_exp(part_lse - high) + real_exp(*lse - high));
    real keep = real_exp(*lse - together), take = real_exp(part_lse - together) / sum;
    for (int64_t i = 0; i < width; i++)
        o[i] = o[i] * keep + part[i] * take;
    *lse = together;
}

static bool has_sinks(const struct core *core)
{
    return core->call->segment->kernel == KERNEL_SINK_ATTENTION;
}

static real *sink_of(const struct view *sinks, int64_t n)
{
    return (real *)sinks->data + n - sinks->low[0];
}

/* As if a key of the sink's score and a value of zeros had been seen before all others. */
static void begin_with_sink(const struct core *core, const struct tile *tile, int64_t row)
{
    const struct view *out = core->call->operand[ROLE_OUT];
    memset(place(&out[0], tile->b, tile->t + row, tile->n), 0, (size_t)core->value_width * sizeof(real));
    *place(&out[1], tile->b, tile->t + row, tile->n) = *sink_of(&core->call->operand[ROLE_WEIGHT][0], tile->n);
}

static void forward_tile(const struct core *core, const struct tile *tile)
{
    const struct kernel_call *call = core->call;
    const struct view *out = &call->operand[ROLE_OUT][0], *lse = &call->operand[ROLE_OUT][1];
    real *scores = call->scratch, *part = scores + ATTENTION_TILE_ROWS * (core->s_high - core->s_low);
    real max[ATTENTION_TILE_ROWS], sum[ATTENTION_TILE_ROWS];
    line_products(tile, &call->operand[ROLE_IN][0], &call->operand[ROLE_IN][1], core->width, core->scale, scores);
    change_scores(core, tile, scores);
    for (int64_t row = 0; row < tile->rows; row++)
        sum[row] = soften(scores + row * tile->keys, sight_of(core, tile, row), tile->keys, &max[row]);
    weighted_lines(tile, scores, &call->operand[ROLE_IN][2], core->value_width, 1, part, core->value_width, false);
    bool begin = begins(call, ROLE_OUT, 0);
    if (begin && has_sinks(core)) {
        for (int64_t row = 0; row < tile->rows; row++)
            begin_with_sink(core, tile, row);
        begin = false;
    }
    for (int64_t row = 0; row < tile->rows; row++)
        fold_row(place(out, tile->b, tile->t + row, tile->n), place(lse, tile->b, tile->t + row, tile->n),
                 part + row * core->value_width, core->value_width, sum[row], max[row], begin);
}

void ISA(attention_forward)(const struct kernel_call *call)
{
    struct core core = core_of(call);
    each_tile(&core, forward_tile);
}

void ISA(biased_attention_forward)(const struct kernel_call *call)
{
    struct core core = core_of(call);
    list_buckets(&core);
    each_tile(&core, forward_tile);
}

/* p = exp(score - lse) and ds = p (dp - o.do), in place of scores and dp; hidden keys 0. */
static void backward_row(real *restrict p, real *restrict ds, struct sight sight, int64_t count, real lse, real dot)
{
    int64_t stop = hide(p, sight, count);
#pragma omp simd
    for (int64_t i = 0; i < stop; i++) {
        p[i] = real_exp(p[i] - lse);
        ds[i] = p[i] * (ds[i] - dot);
    }
    memset(ds + stop, 0, (size_t)(count - stop) * sizeof *ds);
}

/* The same of capped scores, whose slope is 1 - (score / cap)^2. */
static void backward_capped_row(real *restrict p, real *restrict ds, struct sight sight, int64_t count, real lse,
                                real dot, real cap)
{
    int64_t stop = hide(p, sight, count);
#pragma omp simd
    for (int64_t i = 0; i < stop; i++) {
        real part = p[i] / cap;
        part = part < -1 ? -1 : part; /* what is hidden, too */
        p[i] = real_exp(p[i] - lse);
        ds[i] = p[i] * (ds[i] - dot) * (1 - part * part);
    }
    memset(ds + stop, 0, (size_t)(count - stop) * sizeof *ds);
}

/* p and the gradients of the scores, both (rows, keys). */
static void score_gradients(const struct core *core, const struct tile *tile, real *p, real *ds)
{
    const struct kernel_call *call = core->call;
    const struct view *in = call->operand[ROLE_IN], *out = call->operand[ROLE_OUT];
    const struct view *out_gradient = &call->operand[ROLE_GRADIENT_OUT][0];
    const real cap = (real)call->segment->arguments.score_cap;
    line_products(tile, &in[0], &in[1], core->width, core->scale, p);
    change_scores(core, tile, p);
    line_products(tile, out_gradient, &in[2], core->value_width, 1, ds);
    for (int64_t row = 0; row < tile->rows; row++) {
        int64_t t = tile->t + row;
        real dot = dot_product(place(out_gradient, tile->b, t, tile->n), place(&out[0], tile->b, t, tile->n),
                               core->value_width);
        const real lse = *place(&out[1], tile->b, t, tile->n);
        const struct sight sight = sight_of(core, tile, row);
        if (cap > 0)
            backward_capped_row(p + row * tile->keys, ds + row * tile->keys, sight, tile->keys, lse, dot, cap);
        else
            backward_row(p + row * tile->keys, ds + row * tile->keys, sight, tile->keys, lse, dot);
    }
}

static void backward_tile(const struct core *core, const struct tile *tile)
{
    const struct kernel_call *call = core->call;
    const struct view *in = call->operand[ROLE_IN], *gradient = call->operand[ROLE_GRADIENT_IN];
    const struct view *out_gradient = &call->operand[ROLE_GRADIENT_OUT][0];
    real *p = call->scratch, *ds = p + ATTENTION_TILE_ROWS * (core->s_high - core->s_low);
    score_gradients(core, tile, p, ds);
    if (gradient[0].data)
        weighted_lines(tile, ds, &in[1], core->width, core->scale, place(&gradient[0], tile->b, tile->t, tile->n),
                       line_stride(&gradient[0]), !begins(call, ROLE_GRADIENT_IN, 0));
    if (gradient[1].data)
        scatter_lines(tile, ds, &in[0], core->width, core->scale, &gradient[1]);
    if (gradient[2].data)
        scatter_lines(tile, p, out_gradient, core->value_width, 1, &gradient[2]);
}

/* The gradients of keys and values gather over query tiles and heads, so they are cleared once at the start. */
static void clear_keys(const struct core *core, int index)
{
    const struct kernel_call *call = core->call;
    const struct view *view = &call->operand[ROLE_GRADIENT_IN][index];
    int64_t n_low = call->low[core->axis[AXIS_N]], n_high = call->high[core->axis[AXIS_N]];
    if (!view->data || !begins(call, ROLE_GRADIENT_IN, index) || n_low >= n_high)
        return;
    int64_t first = kv_head(core, n_low), heads = kv_head(core, n_high - 1) + 1 - first;
    for (int64_t b = call->low[core->axis[AXIS_B]]; b < call->high[core->axis[AXIS_B]]; b++)
        for (int64_t s = core->s_low; s < core->s_high; s++)
            memset(place(view, b, s, first), 0, (size_t)(heads * view->count[3]) * sizeof(real));
}

static void backward_input(struct core *core)
{
    clear_keys(core, 1);
    clear_keys(core, 2);
    each_tile(core, backward_tile);
}

void ISA(attention_backward_input)(const struct kernel_call *call)
{
    struct core core = core_of(call);
    backward_input(&core);
}

void ISA(biased_attention_backward_input)(const struct kernel_call *call)
{
    struct core core = core_of(call);
    list_buckets(&core);
    backward_input(&core);
}

/* A bias is a term of the score: its gradient is theirs, summed over all pairs of its bucket. */
static void bias_tile(const struct core *core, const struct tile *tile)
{
    const struct view *gradient = &core->call->operand[ROLE_GRADIENT_WEIGHT][0];
    real *p = core->call->scratch, *ds = p + ATTENTION_TILE_ROWS * (core->s_high - core->s_low);
    real *bias = bias_of(gradient, tile->n);
    score_gradients(core, tile, p, ds);
    for (int64_t row = 0; row < tile->rows; row++) {
        const int32_t *bucket = buckets_of(core, tile->t + row);
        for (int64_t i = 0; i < visible(core, tile->t + row); i++)
            bias[bucket[i] * gradient->count[1]] += ds[row * tile->keys + i];
    }
}

/* The table's rows follow no axis: whatever the range, all of a head's rows begin anew. */
static void clear_biases(const struct core *core)
{
    const struct kernel_call *call = core->call;
    const struct view *gradient = &call->operand[ROLE_GRADIENT_WEIGHT][0];
    for (int64_t n = call->low[core->axis[AXIS_N]]; n < call->high[core->axis[AXIS_N]]; n++)
        for (int64_t row = 0; row < gradient->count[0]; row++)
            bias_of(gradient, n)[(gradient->low[0] + row) * gradient->count[1]] = 0;
}

void ISA(biased_attention_backward_weight)(const struct kernel_call *call)
{
    struct core core = core_of(call);
    if (!call->operand[ROLE_GRADIENT_WEIGHT][0].data)
        return;
    list_buckets(&core);
    if (begins(call, ROLE_GRADIENT_WEIGHT, 0))
        clear_biases(&core);
    each_tile(&core, bias_tile);
}

/* The sink's probability is exp(sink - lse), and its value 0: the gradient of its score is -p o.do. */
static void sink_tile(const struct core *core, const struct tile *tile)
{
    const struct kernel_call *call = core->call;
    const struct view *out = call->operand[ROLE_OUT], *out_gradient = &call->operand[ROLE_GRADIENT_OUT][0];
    const real sink = *sink_of(&call->operand[ROLE_WEIGHT][0], tile->n);
    real sum = 0;
    for (int64_t row = 0; row < tile->rows; row++) {
        int64_t t = tile->t + row;
        sum += real_exp(sink - *place(&out[1], tile->b, t, tile->n)) *
               dot_product(place(out_gradient, tile->b, t, tile->n), place(&out[0], tile->b, t, tile->n),
                           core->value_width);
    }
    *sink_of(&call->operand[ROLE_GRADIENT_WEIGHT][0], tile->n) -= sum;
}

/* Of several ranges of keys the first has the sink. */
void ISA(sink_attention_backward_weight)(const struct kernel_call *call)
{
    struct core core = core_of(call);
    if (!call->operand[ROLE_GRADIENT_WEIGHT][0].data)
        return;
    if (begins(call, ROLE_GRADIENT_WEIGHT, 0))
        clear_operand(call, ROLE_GRADIENT_WEIGHT, 0);
    if (core.s_low == 0)
        each_tile(&core, sink_tile);
}
