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
#define LEAST_NOISE .02 /* of a log step: runs of one configuration differ by so much */
#define HUBER 1.345     /* in units of the noise: 95 % efficient where errors are normal */
enum { REWEIGHTINGS = 30 };

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

bool fit_solve(struct fit *out, const struct fit *at, const struct fit_sample *samples, int count, const char *left_out,
               struct arena *arena, struct error *err)
{
    int n = at->holder_count * MECHANISM_COUNT;
    struct arena room = { 0 };
    double *m = arena_alloc(&room, (size_t)n * (size_t)n, sizeof *m),
           *sizes = arena_alloc(&room, (size_t)count, sizeof *sizes);
    *out = (struct fit){ at->holder_count, arena_alloc(arena, (size_t)n, sizeof *out->log_speed) };
    if (arena_failed(&room) || !out->log_speed) {
        arena_free(&room);
        return fail_memory(err);
    }
    memcpy(out->log_speed, at->log_speed, (size_t)n * sizeof *out->log_speed);
    for (int turn = 0; turn < REWEIGHTINGS; turn++) {
        int used = 0;
        for (int i = 0; i < count; i++)
            if (!left_out || strcmp(samples[i].group, left_out))
                sizes[used++] = fabs(residual(out, at, &samples[i]));
        if (used == 0) { /* nobody says anything: the priors' middle */
            memset(out->log_speed, 0, (size_t)n * sizeof *out->log_speed);
            break;
        }
        qsort(sizes, (size_t)used, sizeof *sizes, compare_doubles);
        double noise = fmax(LEAST_NOISE, 1.4826 * sizes[used / 2]); /* of a normal distribution's median of |error| */
        memset(m, 0, (size_t)n * (size_t)n * sizeof *m);
        double *b = arena_alloc(&room, (size_t)n, sizeof *b);
        if (!b)
            break;
        for (int i = 0; i < n; i++)
            m[i * n + i] = 1 / (priors[i % MECHANISM_COUNT] * priors[i % MECHANISM_COUNT]);
        for (int i = 0; i < count; i++)
            if (!left_out || strcmp(samples[i].group, left_out)) {
                double size = fabs(residual(out, at, &samples[i])) / noise;
                add_sample(m, b, n, at, &samples[i], fmin(1, HUBER / fmax(size, 1e-9)) / (noise * noise));
            }
        cholesky_factor(m, n);
        cholesky_solve(m, b, n);
        memcpy(out->log_speed, b, (size_t)n * sizeof *b);
    }
    bool good = !arena_failed(&room) || fail_memory(err);
    arena_free(&room);
    return good;
}
