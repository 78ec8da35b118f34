#include "cli/calibrate_fit.h"
#include "base/num.h"
#include "cli/cholesky.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double priors[MECHANISM_COUNT] = {
#define MECHANISM(id, key, spread, doc) spread,
    MECHANISMS
#undef MECHANISM
};
/* What slows all kernels alike, such as a clock or what else runs, is likelier than that one kind of them is so much
 * slower than the others: the scale of that common part, whose prior is Cauchy's, since it is next to nothing or any.
 */
#define COMMON .05
static const bool is_kernel[MECHANISM_COUNT] = {
    [MECHANISM_PRODUCTS] = true, [MECHANISM_ATTENTION] = true, [MECHANISM_ELEMENTWISE] = true
};
#define LEAST_NOISE .02                 /* of a log step: runs of one configuration differ by so much */
#define HUBER 1.345                     /* in units of the noise: 95 % efficient where errors are normal */
#define PINNED 1e9                      /* the weight of a speed's bound, once it was passed */
enum { REWEIGHTINGS = 30, EXACT = 15 }; /* in the first of them noise is the least: speeds explain what they can */

/* log(measured / predicted) that the speeds leave. */
static double residual(const struct fit *speeds, const struct fit *at, const struct fit_sample *s)
{
    double left = s->log_ratio;
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < MECHANISM_COUNT; k++) {
            int i = s->holder[h] * MECHANISM_COUNT + k;
            left -= s->slope[k] * (speeds->log_speed[i] - at->log_speed[i]);
        }
    return left;
}

double fit_error(const struct fit *speeds, const struct fit *at, const struct fit_sample *sample)
{
    return expm1(-residual(speeds, at, sample));
}

/* Adds a sample to the normal equations: weight * (target - slope . x)^2. */
static void add_sample(double *m, double *b, int n, const struct fit *at, const struct fit_sample *s, double weight)
{
    double target = s->log_ratio;
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < MECHANISM_COUNT; k++)
            target += s->slope[k] * at->log_speed[s->holder[h] * MECHANISM_COUNT + k];
    for (int h = 0; h < 2; h++)
        for (int k = 0; k < MECHANISM_COUNT; k++) {
            int row = s->holder[h] * MECHANISM_COUNT + k;
            b[row] += weight * s->slope[k] * target;
            for (int g = 0; g < 2; g++)
                for (int l = 0; l < MECHANISM_COUNT; l++)
                    m[row * n + s->holder[g] * MECHANISM_COUNT + l] += weight * s->slope[k] * s->slope[l];
        }
}

/* Adds what is known before anything is measured: of each holder the inverse of the covariance, by the formula of
 * Sherman and Morrison. The common part's variance is what a normal prior needs to weigh it as Cauchy's does where it
 * stands, at the mean of the kernels' speeds. */
static void add_priors(double *m, const struct fit *speeds)
{
    int n = speeds->holder_count * MECHANISM_COUNT;
    double precision[MECHANISM_COUNT], sum = 0;
    for (int k = 0; k < MECHANISM_COUNT; k++) {
        precision[k] = 1 / (priors[k] * priors[k]);
        sum += is_kernel[k] ? precision[k] : 0;
    }
    for (int first = 0; first < n; first += MECHANISM_COUNT) {
        double mean = 0;
        for (int k = 0; k < MECHANISM_COUNT; k++)
            mean += is_kernel[k] ? precision[k] * speeds->log_speed[first + k] / sum : 0;
        double variance = (COMMON * COMMON + mean * mean) / 2, scale = variance / (1 + variance * sum);
        for (int k = 0; k < MECHANISM_COUNT; k++) {
            m[(first + k) * n + first + k] += precision[k];
            for (int l = 0; l < MECHANISM_COUNT && is_kernel[k]; l++)
                m[(first + k) * n + first + l] -= is_kernel[l] ? scale * precision[k] * precision[l] : 0;
        }
    }
}

static bool has_say(const struct fit_sample *sample, const char *left_out)
{
    return !left_out || strcmp(sample->group, left_out) != 0;
}

/* Runs of one device and framework share what is wrong with them: what they scatter about their common offset is noise,
 * and the offset is for speeds to explain. Each such pair's median is the offset and tells no scatter: as many of the
 * smallest are left out. values: room for twice the samples. */
static double noise_of(const struct fit *speeds, const struct fit *at, const struct fit_sample *samples, int count,
                       const char *left_out, double *values)
{
    double *own = values + count;
    int used = 0, pairs = 0;
    for (int i = 0; i < count; i++) {
        const struct fit_sample *s = &samples[i];
        int members = 0;
        bool known = !has_say(s, left_out);
        for (int k = 0; k < count && !known; k++) {
            const struct fit_sample *other = &samples[k];
            if (!has_say(other, left_out) || memcmp(other->holder, s->holder, sizeof s->holder) != 0)
                continue;
            known = k < i;
            own[members++] = residual(speeds, at, other);
        }
        if (known)
            continue;
        double offset = median_of(own, members);
        for (int k = 0; k < members; k++)
            values[used++] = fabs(own[k] - offset);
        pairs++;
    }
    if (used == pairs)
        return LEAST_NOISE;
    qsort(values, (size_t)used, sizeof *values, compare_doubles);
    return fmax(LEAST_NOISE, 1.4826 * values[pairs + (used - pairs) / 2]); /* of a normal distribution's median */
}

/* Keeps speeds that passed their bounds there: others then explain the rest. */
static void pin(double *m, double *b, int n, const double *log_speed, double bound)
{
    for (int i = 0; i < n; i++)
        if (fabs(log_speed[i]) >= bound) {
            m[i * n + i] += PINNED;
            b[i] += PINNED * copysign(bound, log_speed[i]);
        }
}

bool fit_solve(struct fit *out, const struct fit *at, const struct fit_sample *samples, int count, const char *left_out,
               struct arena *arena, struct error *err)
{
    int n = at->holder_count * MECHANISM_COUNT, used = 0;
    double bound = log(MOST_SPEED) / (at->holder_count == 2 ? 2 : 1); /* one device's and one framework's are one */
    struct arena room = { 0 };
    double *m = arena_alloc(&room, (size_t)n * (size_t)n, sizeof *m), *b = arena_alloc(&room, (size_t)n, sizeof *b),
           *values = arena_alloc(&room, 2 * (size_t)count, sizeof *values);
    *out = (struct fit){ at->holder_count, arena_alloc(arena, (size_t)n, sizeof *out->log_speed) };
    if (arena_failed(&room) || !out->log_speed) {
        arena_free(&room);
        return fail_memory(err);
    }
    for (int i = 0; i < count; i++)
        used += has_say(&samples[i], left_out);
    if (used > 0) /* else nobody says anything: the priors' middle */
        memcpy(out->log_speed, at->log_speed, (size_t)n * sizeof *out->log_speed);
    for (int turn = 0; turn < REWEIGHTINGS && used > 0; turn++) {
        double noise = turn < EXACT ? LEAST_NOISE : noise_of(out, at, samples, count, left_out, values);
        memset(m, 0, (size_t)n * (size_t)n * sizeof *m);
        memset(b, 0, (size_t)n * sizeof *b);
        add_priors(m, out);
        for (int i = 0; i < count; i++)
            if (has_say(&samples[i], left_out)) {
                double size = fabs(residual(out, at, &samples[i])) / noise;
                add_sample(m, b, n, at, &samples[i], fmin(1, HUBER / fmax(size, 1e-9)) / (noise * noise));
            }
        if (turn > 0) /* at first what was found about other slopes binds nobody */
            pin(m, b, n, out->log_speed, bound);
        cholesky_factor(m, n);
        cholesky_solve(m, b, n);
        for (int i = 0; i < n; i++)
            out->log_speed[i] = fmin(bound, fmax(-bound, b[i]));
    }
    arena_free(&room);
    return true;
}
