/* Softmax attention for any head size, one row at a time: a reference to hold faster kernels against, and what runs
 * where there is none. Sums over keys in chunks with a running maximum (Milakov & Gimelshein 2018). No atomics:
 * gradients of keys are summed by the team that owns the key.
 *
 * Queries are (b, t, n), keys (b, s, kv); strides 0, 1, 2 of a spot are those of its three. The element of the head dim
 * has stride 1. All positions count from the low corner of the range. */
#ifndef CLEAVE_EXECUTOR_GPU_BODIES_ATTENTION_H
#define CLEAVE_EXECUTOR_GPU_BODIES_ATTENTION_H
#include "executor/gpu/kinds.h"
#include "executor/gpu/team.h"

GPU_BODY inline int64_t attention_kv(const struct gpu_work *w, int64_t n)
{
    return (w->integer[ATTENTION_N_LOW] + n) * w->integer[ATTENTION_KV_ALL] / w->integer[ATTENTION_N_ALL] -
           w->integer[ATTENTION_KV_LOW];
}

GPU_BODY inline int64_t attention_at(const struct gpu_spot *spot, int64_t b, int64_t line, int64_t head)
{
    return b * spot->stride[0] + line * spot->stride[1] + head * spot->stride[2];
}

/* Keys that the query at t sees. */
GPU_BODY inline int64_t attention_seen(const struct gpu_work *w, int64_t t)
{
    int64_t all = w->integer[ATTENTION_KEYS], seen = t + 1 + w->integer[ATTENTION_AHEAD];
    if (!w->integer[ATTENTION_CAUSAL] || seen > all)
        return all;
    return seen > 0 ? seen : 0;
}

GPU_BODY inline int32_t attention_bucket(const struct gpu_work *w, int64_t t, int64_t s)
{
    return spot_index(&w->spot[ATTENTION_BUCKETS], s - t + w->integer[ATTENTION_ORIGIN]);
}

GPU_BODY inline real attention_bias(const struct gpu_work *w, int64_t t, int64_t s, int64_t n)
{
    const struct gpu_spot *table = &w->spot[ATTENTION_TABLE];
    if (!table->data)
        return 0;
    return spot_get(table, attention_bucket(w, t, s) * table->stride[0] + n * table->stride[1]);
}

/* x in fast memory, y in an operand. */
GPU_BODY inline real attention_dot(const real *x, const struct gpu_spot *y, int64_t y_at, int64_t width)
{
    real sum = 0;
    for (int64_t d = 0; d < width; d++)
        sum += x[d] * spot_get(y, y_at + d);
    return sum;
}

GPU_BODY inline void attention_load(const struct team *team, real *to, const struct gpu_spot *from, int64_t at,
                                    int64_t width)
{
    TEAM_LINE(d, width) to[d] = spot_get(from, at + d);
}

/* What a round adds to a row: o = o keep + part take, and the new log-sum-exp. */
struct attention_fold {
    real keep, take, lse;
};

GPU_BODY inline struct attention_fold attention_fold_of(real old_lse, bool begin, real sum, real max)
{
    struct attention_fold fold;
    fold.keep = begin ? 0 : 1, fold.take = 0, fold.lse = begin ? -(real)INFINITY : old_lse;
    if (sum == 0) /* nothing visible in this round */
        return fold;
    real part = max + real_log(sum);
    fold.keep = 0, fold.take = 1 / sum, fold.lse = part;
    if (begin || old_lse == -(real)INFINITY)
        return fold;
    real high = part > old_lse ? part : old_lse;
    fold.lse = high + real_log(real_exp(part - high) + real_exp(old_lse - high));
    fold.keep = real_exp(old_lse - fold.lse);
    fold.take = real_exp(part - fold.lse) / sum;
    return fold;
}

/* shared: query, part (width each), probabilities (threads). number 0: scale. OUT and LSE fold over rounds. */
GPU_BODY void gpu_attention(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *k = &work->spot[ATTENTION_K], *v = &work->spot[ATTENTION_V],
                          *out = &work->spot[ATTENTION_OUT], *lse = &work->spot[ATTENTION_LSE];
    const int64_t width = work->integer[ATTENTION_WIDTH], rows = work->integer[ATTENTION_ROWS],
                  heads = work->integer[ATTENTION_HEADS];
    const real scale = (real)work->number[0];
    real *query = team->shared, *part = query + width, *p = part + width;
    TEAM_ROWS(row, work->integer[ATTENTION_BATCHES] * heads * rows)
    {
        int64_t t = row % rows, n = row / rows % heads, b = row / rows / heads, kv = attention_kv(work, n);
        int64_t seen = attention_seen(work, t);
        const struct gpu_spot *q = &work->spot[ATTENTION_Q];
        attention_load(team, query, q, attention_at(q, b, t, n), width);
        TEAM_LINE(d, width) part[d] = 0;
        team_meet(team);
        real max = -(real)INFINITY, sum = 0;
        for (int64_t low = 0; low < seen; low += team->threads) {
            int64_t s = low + team->thread, chunk = seen - low < team->threads ? seen - low : team->threads;
            real score = -(real)INFINITY;
            if (s < seen)
                score =
                    scale * attention_dot(query, k, attention_at(k, b, s, kv), width) + attention_bias(work, t, s, n);
            real high = (real)team_max(team, (double)score);
            high = max > high ? max : high;
            p[team->thread] = s < seen ? real_exp(score - high) : 0;
            real chunk_sum = (real)team_sum(team, (double)p[team->thread]);
            real keep = max == -(real)INFINITY ? 0 : real_exp(max - high);
            TEAM_LINE(d, width)
            {
                real x = part[d] * keep;
                for (int64_t j = 0; j < chunk; j++)
                    x += p[j] * spot_get(v, attention_at(v, b, low + j, kv) + d);
                part[d] = x;
            }
            sum = sum * keep + chunk_sum;
            max = high;
            team_meet(team); /* before the next chunk overwrites p */
        }
        int64_t lse_at = attention_at(lse, b, t, n), out_at = attention_at(out, b, t, n);
        struct attention_fold fold = attention_fold_of(out->begin ? 0 : spot_get(lse, lse_at), out->begin, sum, max);
        TEAM_LINE(d, width)
        {
            real old = out->begin ? 0 : spot_get(out, out_at + d) * fold.keep;
            spot_set(out, out_at + d, old + part[d] * fold.take);
        }
        team_meet(team); /* all have read the old log-sum-exp */
        if (team->thread == 0)
            spot_set(lse, lse_at, fold.lse);
    }
}

/* What going back needs of a pair: its probability, and the gradient of its score before the scale. */
struct attention_pair {
    real p, slope;
};

/* dots: of query and key, of dO and value, of dO and O. */
GPU_BODY inline struct attention_pair attention_pair_of(const struct gpu_work *w, int64_t t, int64_t s, int64_t n,
                                                        real lse, real query_key, real gradient_value, real dot)
{
    struct attention_pair pair;
    pair.p = real_exp((real)w->number[0] * query_key + attention_bias(w, t, s, n) - lse);
    pair.slope = pair.p * (gradient_value - dot);
    return pair;
}

/* A team per query. shared: query, dO, gradient (width each), slopes (threads). */
GPU_BODY void gpu_attention_query_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *q = &work->spot[ATTENTION_Q], *k = &work->spot[ATTENTION_K], *v = &work->spot[ATTENTION_V],
                          *out = &work->spot[ATTENTION_OUT], *lse_in = &work->spot[ATTENTION_LSE],
                          *dout = &work->spot[ATTENTION_OUT_GRADIENT], *dq = &work->spot[ATTENTION_Q_GRADIENT];
    const int64_t width = work->integer[ATTENTION_WIDTH], rows = work->integer[ATTENTION_ROWS],
                  heads = work->integer[ATTENTION_HEADS];
    real *query = team->shared, *pull = query + width, *gradient = pull + width, *slopes = gradient + width;
    TEAM_ROWS(row, work->integer[ATTENTION_BATCHES] * heads * rows)
    {
        int64_t t = row % rows, n = row / rows % heads, b = row / rows / heads, kv = attention_kv(work, n);
        int64_t seen = attention_seen(work, t), out_at = attention_at(out, b, t, n);
        attention_load(team, query, q, attention_at(q, b, t, n), width);
        attention_load(team, pull, dout, attention_at(dout, b, t, n), width);
        TEAM_LINE(d, width) gradient[d] = 0;
        double dot = 0;
        TEAM_LINE(d, width) dot += (double)pull[d] * (double)spot_get(out, out_at + d);
        dot = team_sum(team, dot); /* which also makes query and dO visible */
        real lse = spot_get(lse_in, attention_at(lse_in, b, t, n));
        for (int64_t low = 0; low < seen; low += team->threads) {
            int64_t s = low + team->thread, chunk = seen - low < team->threads ? seen - low : team->threads;
            if (s < seen)
                slopes[team->thread] =
                    attention_pair_of(work, t, s, n, lse, attention_dot(query, k, attention_at(k, b, s, kv), width),
                                      attention_dot(pull, v, attention_at(v, b, s, kv), width), (real)dot)
                        .slope;
            team_meet(team);
            TEAM_LINE(d, width)
            {
                for (int64_t j = 0; j < chunk; j++)
                    gradient[d] += slopes[j] * spot_get(k, attention_at(k, b, low + j, kv) + d);
            }
            team_meet(team); /* before the next chunk overwrites the slopes */
        }
        int64_t to = attention_at(dq, b, t, n);
        TEAM_LINE(d, width) spot_put(dq, to + d, (real)work->number[0] * gradient[d]);
        team_meet(team); /* before the next row overwrites the query */
    }
}

/* The dot of dO and O of one query, by one thread. */
GPU_BODY inline real attention_out_dot(const struct gpu_work *w, int64_t b, int64_t t, int64_t n)
{
    const struct gpu_spot *out = &w->spot[ATTENTION_OUT], *dout = &w->spot[ATTENTION_OUT_GRADIENT];
    int64_t out_at = attention_at(out, b, t, n), dout_at = attention_at(dout, b, t, n);
    real sum = 0;
    for (int64_t d = 0; d < w->integer[ATTENTION_WIDTH]; d++)
        sum += spot_get(dout, dout_at + d) * spot_get(out, out_at + d);
    return sum;
}

/* A team per key: sums over the queries that see it, of all heads that read it. number 1: key heads of the range.
 * shared: key, value, their gradients (width each), probabilities, slopes (threads each). */
GPU_BODY void gpu_attention_key_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *q = &work->spot[ATTENTION_Q], *k = &work->spot[ATTENTION_K], *v = &work->spot[ATTENTION_V],
                          *lse = &work->spot[ATTENTION_LSE], *dout = &work->spot[ATTENTION_OUT_GRADIENT],
                          *dk = &work->spot[ATTENTION_K_GRADIENT], *dv = &work->spot[ATTENTION_V_GRADIENT];
    const int64_t width = work->integer[ATTENTION_WIDTH], rows = work->integer[ATTENTION_ROWS],
                  keys = work->integer[ATTENTION_KEYS], kv_heads = (int64_t)work->number[1];
    real *key = team->shared, *value = key + width, *key_sum = value + width, *value_sum = key_sum + width,
         *p = value_sum + width, *slopes = p + team->threads;
    TEAM_ROWS(row, work->integer[ATTENTION_BATCHES] * kv_heads * keys)
    {
        int64_t s = row % keys, kv = row / keys % kv_heads, b = row / keys / kv_heads;
        attention_load(team, key, k, attention_at(k, b, s, kv), width);
        attention_load(team, value, v, attention_at(v, b, s, kv), width);
        TEAM_LINE(d, width) key_sum[d] = value_sum[d] = 0;
        team_meet(team);
        for (int64_t n = 0; n < work->integer[ATTENTION_HEADS]; n++) {
            if (attention_kv(work, n) != kv)
                continue;
            for (int64_t low = 0; low < rows; low += team->threads) {
                int64_t t = low + team->thread, chunk = rows - low < team->threads ? rows - low : team->threads;
                p[team->thread] = slopes[team->thread] = 0;
                if (t < rows && s < attention_seen(work, t)) {
                    struct attention_pair pair =
                        attention_pair_of(work, t, s, n, spot_get(lse, attention_at(lse, b, t, n)),
                                          attention_dot(key, q, attention_at(q, b, t, n), width),
                                          attention_dot(value, dout, attention_at(dout, b, t, n), width),
                                          attention_out_dot(work, b, t, n));
                    p[team->thread] = pair.p, slopes[team->thread] = pair.slope;
                }
                team_meet(team);
                TEAM_LINE(d, width)
                {
                    for (int64_t j = 0; j < chunk; j++) {
                        key_sum[d] += slopes[j] * spot_get(q, attention_at(q, b, low + j, n) + d);
                        value_sum[d] += p[j] * spot_get(dout, attention_at(dout, b, low + j, n) + d);
                    }
                }
                team_meet(team); /* before the next chunk overwrites p */
            }
        }
        TEAM_LINE(d, width)
        {
            if (dk->data)
                spot_put(dk, attention_at(dk, b, s, kv) + d, (real)work->number[0] * key_sum[d]);
            if (dv->data)
                spot_put(dv, attention_at(dv, b, s, kv) + d, value_sum[d]);
        }
        team_meet(team); /* before the next key overwrites this one */
    }
}

/* A team per bucket and head: the gradients of the scores of all its pairs. TABLE: biases; spot Q_GRADIENT: their
 * gradient, of the same strides' meaning. number 1: buckets. */
GPU_BODY void gpu_attention_bias_gradient(const struct team *team, const struct gpu_work *work)
{
    const struct gpu_spot *q = &work->spot[ATTENTION_Q], *k = &work->spot[ATTENTION_K], *v = &work->spot[ATTENTION_V],
                          *lse = &work->spot[ATTENTION_LSE], *dout = &work->spot[ATTENTION_OUT_GRADIENT],
                          *to = &work->spot[ATTENTION_Q_GRADIENT];
    const int64_t width = work->integer[ATTENTION_WIDTH], rows = work->integer[ATTENTION_ROWS],
                  keys = work->integer[ATTENTION_KEYS], buckets = (int64_t)work->number[1];
    TEAM_ROWS(row, buckets * work->integer[ATTENTION_HEADS])
    {
        int64_t bucket = row % buckets, n = row / buckets, kv = attention_kv(work, n);
        double sum = 0;
        TEAM_LINE(i, work->integer[ATTENTION_BATCHES] * rows * keys)
        {
            int64_t s = i % keys, t = i / keys % rows, b = i / keys / rows;
            if (s >= attention_seen(work, t) || attention_bucket(work, t, s) != bucket)
                continue;
            int64_t q_at = attention_at(q, b, t, n), k_at = attention_at(k, b, s, kv), v_at = attention_at(v, b, s, kv),
                    dout_at = attention_at(dout, b, t, n);
            real query_key = 0, gradient_value = 0;
            for (int64_t d = 0; d < width; d++) {
                query_key += spot_get(q, q_at + d) * spot_get(k, k_at + d);
                gradient_value += spot_get(dout, dout_at + d) * spot_get(v, v_at + d);
            }
            sum += (double)attention_pair_of(work, t, s, n, spot_get(lse, attention_at(lse, b, t, n)), query_key,
                                             gradient_value, attention_out_dot(work, b, t, n))
                       .slope;
        }
        sum = team_sum(team, sum);
        if (team->thread == 0)
            spot_put(to, bucket * to->stride[0] + n * to->stride[1], (real)sum);
    }
}
#endif
