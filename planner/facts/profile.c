/* A profile in memory: order, checks, nearest shapes. */
#include "planner/facts/profile.h"
#include "base/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- signatures: a work name without its extents ---- */

/* The name is cut into words: a word of one letter, digits and at most one mark is an axis; "kv4" scales with the
 * heads. */
struct work_shape {
    uint64_t signature;
    int axis_count;
    int64_t extents[MAX_AXES];
};
struct profile_shape { /* of a compute entry */
    struct work_shape shape;
    int entry;
};

static bool read_axis(const char *word, size_t length, int64_t *extent)
{
    size_t i = 1;
    int64_t value = 0;
    while (i < length && word[i] >= '0' && word[i] <= '9' && value < INT64_MAX / 16)
        value = value * 10 + (word[i++] - '0');
    bool marked = i + 1 == length && strchr("+^~", word[i]);
    if (i < 2 || (i != length && !marked) || word[0] < 'a' || word[0] > 'z')
        return false;
    *extent = value;
    return true;
}

static struct work_shape work_shape(const char *work)
{
    struct work_shape shape = { .signature = HASH_START };
    bool first = true;
    while (*work) {
        size_t length = strcspn(work, " ");
        int64_t extent;
        if (!first && shape.axis_count < MAX_AXES && read_axis(work, length, &extent)) {
            shape.extents[shape.axis_count++] = extent;
            char last = work[length - 1];
            shape.signature = hash_i64(hash_i64(shape.signature, work[0]), last < '0' || last > '9' ? last : 0);
        } else if (!first && length > 2 && strncmp(work, "kv", 2) == 0) {
            shape.signature = hash_string(shape.signature, "kv");
        } else {
            shape.signature = hash_i64(hash_bytes(shape.signature, work, length), ' ');
        }
        work += length;
        work += *work == ' ';
        first = false;
    }
    shape.signature = mix64(shape.signature);
    return shape;
}

static double log_ratio(double a, double b)
{
    return a > 0 && b > 0 ? fabs(log2(a / b)) : a == b ? 0 : 64;
}

/* ---- building ---- */

static int compare_compute(const void *a, const void *b)
{
    const struct compute_entry *x = a, *y = b;
    int order = strcmp(x->work, y->work);
    return order ? order : (x->loaded > y->loaded) - (x->loaded < y->loaded);
}

static int compare_linear(const void *a, const void *b)
{
    const struct linear_entry *x = a, *y = b;
    int order = strcmp(x->work, y->work);
    return order ? order : (x->loaded > y->loaded) - (x->loaded < y->loaded);
}

static int compare_curve(const void *a, const void *b)
{
    const struct collective_curve *x = a, *y = b;
    int order = strcmp(x->op, y->op);
    order = order ? order : (x->ranks > y->ranks) - (x->ranks < y->ranks);
    order = order ? order : (x->level > y->level) - (x->level < y->level);
    return order ? order : (x->concurrent > y->concurrent) - (x->concurrent < y->concurrent);
}

static int compare_point(const void *a, const void *b)
{
    const struct collective_point *x = a, *y = b;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static bool good(double value, double min)
{
    return isfinite(value) && value >= min;
}

static bool check_measurement(const struct measurement *m, const char *what, struct error *err)
{
    if (m->ns >= 0 && good(m->spread, 0) && m->repeats >= 0)
        return true;
    return fail_kind(err, ERROR_INPUT, "profile: %s: expected non-negative ns, spread and repeats, found %lld, %g, %d",
                     what, (long long)m->ns, m->spread, m->repeats);
}

static bool check_compute(struct profile *p, struct error *err)
{
    if (p->compute_count > 1)
        qsort(p->compute, (size_t)p->compute_count, sizeof *p->compute, compare_compute);
    for (int i = 0; i < p->compute_count; i++) {
        const struct compute_entry *e = &p->compute[i];
        if (e->loaded < 1)
            return fail_kind(err, ERROR_INPUT, "profile: compute \"%s\": expected loaded at least 1, found %d", e->work,
                             e->loaded);
        if (i > 0 && compare_compute(e - 1, e) == 0)
            return fail_kind(err, ERROR_INPUT, "profile: compute \"%s\" at loaded %d: expected one entry, found two",
                             e->work, e->loaded);
        if (!check_measurement(&e->m, e->work, err))
            return false;
    }
    return true;
}

static bool check_linear(struct profile *p, struct error *err)
{
    if (p->linear_count > 1)
        qsort(p->linear, (size_t)p->linear_count, sizeof *p->linear, compare_linear);
    for (int i = 0; i < p->linear_count; i++) {
        const struct linear_entry *e = &p->linear[i];
        if (e->loaded < 1 || !good(e->fixed_ns, 0) || !good(e->ns_per_unit, 0) || !good(e->error, 0) ||
            e->min_units < 0 || e->max_units < e->min_units)
            return fail_kind(
                err, ERROR_INPUT,
                "profile: linear \"%s\": expected loaded at least 1, non-negative times and min_units <= max_units",
                e->work);
        if (i > 0 && compare_linear(e - 1, e) == 0)
            return fail_kind(err, ERROR_INPUT, "profile: linear \"%s\" at loaded %d: expected one entry, found two",
                             e->work, e->loaded);
    }
    return true;
}

static bool check_curve(struct collective_curve *c, struct error *err)
{
    if (c->ranks < 2 || c->concurrent < 1 || !is_index(c->level, MAX_LEVELS))
        return fail_kind(err, ERROR_INPUT,
                         "profile: curve \"%s\": expected ranks at least 2, concurrent at least 1 and level below %d",
                         c->op, (int)MAX_LEVELS);
    if (!good(c->latency_ns, 0) || !good(c->bytes_per_s, 0) || !good(c->error, 0))
        return fail_kind(err, ERROR_INPUT, "profile: curve \"%s\": expected a non-negative fit", c->op);
    if (c->point_count < 1 && c->bytes_per_s <= 0)
        return fail_kind(err, ERROR_INPUT, "profile: curve \"%s\": expected points or a fit, found neither", c->op);
    if (c->point_count > 1)
        qsort(c->points, (size_t)c->point_count, sizeof *c->points, compare_point);
    for (int i = 0; i < c->point_count; i++) {
        if (c->points[i].bytes < 1 || (i > 0 && c->points[i].bytes == c->points[i - 1].bytes))
            return fail_kind(err, ERROR_INPUT,
                             "profile: curve \"%s\": expected positive and different bytes, found %lld", c->op,
                             (long long)c->points[i].bytes);
        if (!check_measurement(&c->points[i].m, c->op, err))
            return false;
    }
    return true;
}

static bool check_curves(struct profile *p, struct error *err)
{
    if (p->curve_count > 1)
        qsort(p->curves, (size_t)p->curve_count, sizeof *p->curves, compare_curve);
    for (int i = 0; i < p->curve_count; i++) {
        if (!check_curve(&p->curves[i], err))
            return false;
        if (i > 0 && compare_curve(&p->curves[i - 1], &p->curves[i]) == 0)
            return fail_kind(err, ERROR_INPUT, "profile: curve \"%s\" of %d ranks: expected one entry, found two",
                             p->curves[i].op, p->curves[i].ranks);
    }
    return true;
}

static int compare_shape(const void *a, const void *b)
{
    const struct profile_shape *x = a, *y = b;
    int order = (x->shape.signature > y->shape.signature) - (x->shape.signature < y->shape.signature);
    return order ? order : x->entry - y->entry;
}

/* Lists shapes by signature, so that the nearest one is found without a walk over the whole profile. */
static bool list_shapes(struct profile *p, struct error *err)
{
    p->shapes = arena_alloc(&p->arena, (size_t)p->compute_count, sizeof *p->shapes);
    if (!p->shapes)
        return fail_memory(err);
    for (int i = 0; i < p->compute_count; i++)
        p->shapes[i] = (struct profile_shape){ work_shape(p->compute[i].work), i };
    if (p->compute_count > 1)
        qsort(p->shapes, (size_t)p->compute_count, sizeof *p->shapes, compare_shape);
    return true;
}

bool profile_finish(struct profile *p, struct error *err)
{
    const char **texts[] = { &p->machine, &p->backend, &p->transport,   &p->software,
                             &p->created, &p->device,  &p->tuned_device };
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        if (!*texts[i])
            *texts[i] = "";
    if (!good(p->compute_under_communication, 1) || !good(p->communication_under_compute, 1))
        return fail_kind(err, ERROR_INPUT, "profile: expected interference factors of at least 1, found %g and %g",
                         p->compute_under_communication, p->communication_under_compute);
    if (!good(p->compute_under_communication_spread, 0) || !good(p->communication_under_compute_spread, 0))
        return fail_kind(err, ERROR_INPUT, "profile: expected spreads of at least 0, found %g and %g",
                         p->compute_under_communication_spread, p->communication_under_compute_spread);
    if (p->memory_outside_arena_bytes < 0)
        return fail_kind(err, ERROR_INPUT, "profile: expected memory_outside_arena_bytes at least 0, found %lld",
                         (long long)p->memory_outside_arena_bytes);
    if (p->instruction_ns < 0 || p->instruction_ns > MAX_TIME_NS)
        return fail_kind(err, ERROR_INPUT, "profile: expected instruction_ns from 0 to %lld, found %lld",
                         (long long)MAX_TIME_NS, (long long)p->instruction_ns);
    if (p->reference_ns < 0 || p->reference_ns > MAX_TIME_NS)
        return fail_kind(err, ERROR_INPUT, "profile: expected reference_ns from 0 to %lld, found %lld",
                         (long long)MAX_TIME_NS, (long long)p->reference_ns);
    if (!check_compute(p, err) || !check_linear(p, err) || !check_curves(p, err) || !list_shapes(p, err))
        return false;
    size_t length;
    char *text = profile_write(p, &length);
    if (!text)
        return fail_memory(err);
    p->hash = hash_bytes(HASH_START, text, length);
    free(text);
    return true;
}

void profile_free(struct profile *profile)
{
    if (!profile)
        return;
    arena_free(&profile->arena);
    free(profile);
}

struct profile *profile_new(void)
{
    struct profile *profile = calloc(1, sizeof *profile);
    if (profile)
        profile->compute_under_communication = profile->communication_under_compute = 1;
    return profile;
}

/* ---- questions ---- */

const struct compute_entry *profile_compute(const struct profile *p, const char *work, int loaded)
{
    const struct compute_entry like = { .work = work, .loaded = loaded };
    return p->compute_count ? bsearch(&like, p->compute, (size_t)p->compute_count, sizeof like, compare_compute) : NULL;
}

const struct linear_entry *profile_linear(const struct profile *p, const char *work, int loaded)
{
    const struct linear_entry like = { .work = work, .loaded = loaded };
    return p->linear_count ? bsearch(&like, p->linear, (size_t)p->linear_count, sizeof like, compare_linear) : NULL;
}

const struct collective_curve *profile_curve(const struct profile *p, const char *op, int ranks, int concurrent,
                                             int level)
{
    const struct collective_curve like = { .op = op, .ranks = ranks, .concurrent = concurrent, .level = level };
    return p->curve_count ? bsearch(&like, p->curves, (size_t)p->curve_count, sizeof like, compare_curve) : NULL;
}

const struct compute_entry *profile_compute_nearest(const struct profile *p, const char *work, int loaded,
                                                    int64_t extents[MAX_AXES])
{
    struct work_shape want = work_shape(work);
    const struct compute_entry *best = NULL;
    double best_distance = INFINITY;
    int at;
    BISECT(at, p->compute_count, i, p->shapes[i].shape.signature < want.signature);
    for (; at < p->compute_count && p->shapes[at].shape.signature == want.signature; at++) {
        const struct work_shape *shape = &p->shapes[at].shape;
        const struct compute_entry *e = &p->compute[p->shapes[at].entry];
        double sum = 0;
        for (int i = 0; i < want.axis_count; i++)
            sum += log_ratio((double)want.extents[i], (double)shape->extents[i]);
        double distance = sum + log_ratio(loaded, e->loaded);
        if (shape->axis_count == want.axis_count && distance < best_distance) {
            best = e;
            best_distance = distance;
            memcpy(extents, shape->extents, sizeof shape->extents);
        }
    }
    return best;
}

const struct linear_entry *profile_linear_nearest(const struct profile *p, const char *work, int loaded)
{
    const struct linear_entry *best = NULL;
    for (int i = 0; i < p->linear_count; i++) {
        const struct linear_entry *e = &p->linear[i];
        if (strcmp(e->work, work) == 0 && (!best || log_ratio(loaded, e->loaded) < log_ratio(loaded, best->loaded)))
            best = e;
    }
    return best;
}

const struct collective_curve *profile_curve_nearest(const struct profile *p, const char *op, int ranks, int concurrent,
                                                     int level)
{
    const struct collective_curve *best = NULL;
    double best_distance = INFINITY;
    for (int i = 0; i < p->curve_count; i++) {
        const struct collective_curve *c = &p->curves[i];
        double distance = log_ratio(ranks, c->ranks) + log_ratio(concurrent, c->concurrent);
        if (c->level == level && strcmp(c->op, op) == 0 && distance < best_distance) {
            best = c;
            best_distance = distance;
        }
    }
    return best;
}

/* Gives times beyond the points: without a fit at the rate of the end point; the fit never undercuts what a smaller
 * message took, nor exceeds what a larger did. */
static double beyond_ns(const struct collective_curve *c, double bytes)
{
    const struct collective_point *first = c->points, *last = c->point_count ? c->points + c->point_count - 1 : NULL;
    double fit = c->bytes_per_s > 0 ? c->latency_ns + bytes / c->bytes_per_s * 1e9 : 0;
    if (!last)
        return fit;
    if (bytes < (double)first->bytes) {
        double ns = c->bytes_per_s > 0 ? fit : (double)first->m.ns;
        return fmin(ns, (double)first->m.ns);
    }
    double ns = c->bytes_per_s > 0 ? fit : (double)last->m.ns * bytes / (double)last->bytes;
    return fmax(ns, (double)last->m.ns);
}

int64_t collective_curve_ns(const struct collective_curve *c, int64_t bytes, bool *extrapolated)
{
    *extrapolated = c->point_count == 0 || bytes < c->points[0].bytes || bytes > c->points[c->point_count - 1].bytes;
    if (*extrapolated) {
        double ns = beyond_ns(c, (double)max_i64(bytes, 0));
        return ns < (double)MAX_TIME_NS ? llround(ns) : MAX_TIME_NS;
    }
    int low = 0, high = c->point_count - 1; /* points[low].bytes <= bytes <= points[high].bytes */
    while (high - low > 1) {
        int middle = low + (high - low) / 2;
        *(c->points[middle].bytes <= bytes ? &low : &high) = middle;
    }
    const struct collective_point *a = &c->points[low], *b = &c->points[high];
    if (low == high || bytes == a->bytes)
        return a->m.ns;
    if (bytes == b->bytes)
        return b->m.ns;
    double share = log((double)bytes / (double)a->bytes) / log((double)b->bytes / (double)a->bytes);
    double from = log(a->m.ns > 0 ? (double)a->m.ns : 1), to = log(b->m.ns > 0 ? (double)b->m.ns : 1);
    return llround(exp(from + share * (to - from)));
}
