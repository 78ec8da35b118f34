#include "profiler/samples.h"
#include "base/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */
static int *slot_of(const struct samples *samples, const char *name)
{
    uint64_t at = mix64(hash_string(HASH_START, name));
    for (;; at++) {
        int *slot = &samples->slots[at & (uint64_t)(samples->slot_count - 1)];
        if (*slot == 0 || strcmp(samples->series[*slot - 1].name, name) == 0)
            return slot;
    }
}

static bool grow(struct samples *samples)
{
    int capacity = samples->capacity ? samples->capacity * 2 : 64;
    struct series *series = realloc(samples->series, (size_t)capacity * sizeof *series);
    if (!series)
        return false;
    samples->series = series;
    int *slots = calloc((size_t)capacity * 2, sizeof *slots);
    if (!slots)
        return false;
    free(samples->slots);
    samples->slots = slots;
    samples->slot_count = capacity * 2;
    samples->capacity = capacity;
    for (int i = 0; i < samples->count; i++)
        *slot_of(samples, series[i].name) = i + 1;
    return true;
}

const struct series *samples_peek(const struct samples *samples, const char *name)
{
    int slot = samples->slot_count ? *slot_of(samples, name) : 0;
    return slot ? &samples->series[slot - 1] : NULL;
}

struct series *samples_find(struct samples *samples, const char *name)
{
    if (samples->count == samples->capacity && !grow(samples))
        return NULL;
    int *slot = slot_of(samples, name);
    if (*slot == 0) {
        size_t size = strlen(name) + 1;
        char *copy = malloc(size);
        if (!copy)
            return NULL;
        memcpy(copy, name, size);
        samples->series[samples->count] = (struct series){ .name = copy };
        *slot = ++samples->count;
    }
    return &samples->series[*slot - 1];
}

bool samples_add(struct samples *samples, const char *name, double ns, struct error *err)
{
    struct series *series = samples_find(samples, name);
    if (series && series->count == series->capacity) {
        int capacity = series->capacity ? series->capacity * 2 : 16;
        double *larger = realloc(series->ns, (size_t)capacity * sizeof *larger);
        if (!larger)
            series = NULL;
        else
            series->ns = larger, series->capacity = capacity;
    }
    if (!series)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the samples of %s", name);
    series->ns[series->count++] = ns;
    series->sorted = false;
    return true;
}

bool samples_merge(struct samples *into, const struct samples *from, struct error *err)
{
    for (int i = 0; i < from->count; i++)
        for (int k = 0; k < from->series[i].count; k++)
            if (!samples_add(into, from->series[i].name, from->series[i].ns[k], err))
                return false;
    return true;
}

void samples_free(struct samples *samples)
{
    for (int i = 0; i < samples->count; i++) {
        free(samples->series[i].name);
        free(samples->series[i].ns);
    }
    free(samples->series);
    free(samples->slots);
    *samples = (struct samples){ 0 };
}

/* ---- statistics ---- */
/* The value below which `share` of the samples lie. */
static double quantile(struct series *series, double share)
{
    if (series->count == 0)
        return 0;
    if (!series->sorted)
        qsort(series->ns, (size_t)series->count, sizeof *series->ns, compare_doubles);
    series->sorted = true;
    double place = share * (series->count - 1);
    int low = (int)place, high = low + 1 < series->count ? low + 1 : low;
    return series->ns[low] + (place - low) * (series->ns[high] - series->ns[low]);
}

double series_median(struct series *series)
{
    return quantile(series, 0.5);
}

double series_spread(struct series *series)
{
    double median = series_median(series);
    return series->count > 1 && median > 0 ? (quantile(series, 0.75) - quantile(series, 0.25)) / median : 0;
}

double series_error(struct series *series)
{
    return series->count < 3 ? (double)INFINITY : 1.25 * series_spread(series) / sqrt(series->count);
}

struct measurement series_measurement(struct series *series)
{
    return (struct measurement){ .ns = llround(series_median(series)),
                                 .spread = series_spread(series),
                                 .repeats = series->count,
                                 .origin = ORIGIN_MEASURED };
}

struct weighed {
    double ns, error;
};

static int compare_weighed(const void *a, const void *b)
{
    double x = ((const struct weighed *)a)->ns, y = ((const struct weighed *)b)->ns;
    return (x < y) - (x > y);
}

bool samples_settled(struct samples *samples, const struct samples *known, double share, double error)
{
    struct weighed *items = calloc((size_t)samples->count + 1, sizeof *items);
    double sum = 0, seen = 0;
    bool settled = items != NULL;
    for (int i = 0; items && i < samples->count; i++) {
        struct series *s = &samples->series[i];
        if (known && samples_peek(known, s->name))
            continue;
        items[i] = (struct weighed){ series_median(s) * s->count, series_error(s) };
        sum += items[i].ns;
    }
    if (items)
        qsort(items, (size_t)samples->count, sizeof *items, compare_weighed);
    for (int i = 0; settled && i < samples->count && seen < share * sum; i++) {
        settled = items[i].error <= error;
        seen += items[i].ns;
    }
    free(items);
    return settled;
}
