#include "base/num.h"
#include "cli/accuracy.h"
#include "cli/validation.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the file ---- */
struct accuracy_text {
    const char *format, *source;
    int64_t version;
    const struct json *entries;
};
#define AT(member) offsetof(struct accuracy_text, member)
static const struct json_field accuracy_table[] = {
    { "format", FIELD_STRING, AT(format), .required = true, .doc = "\"" ACCURACY_FORMAT "\"" },
    { "version", FIELD_INT, AT(version), .required = true, .min = ACCURACY_VERSION, .max = ACCURACY_VERSION,
      .doc = "1" },
    { "source", FIELD_STRING, AT(source), .required = true, .doc = "the command that wrote it, and the runs" },
    { "entries", FIELD_NODE, AT(entries), .required = true, .doc = "by framework, device and dtype" },
};
#undef AT
#define AT(member) offsetof(struct accuracy_entry, member)
#define ERROR_RANGE .min = -1, .max = 1e6
static const struct json_field entry_table[] = {
    { "framework", FIELD_STRING, AT(framework), .required = true, .doc = "what ran: a framework of the catalogue" },
    { "device", FIELD_STRING, AT(device), .required = true, .doc = "on which device of the catalogue" },
    { "dtype", FIELD_STRING, AT(dtype), .required = true, .doc = "in which type" },
    { "experts", FIELD_BOOL, AT(experts), .required = true, .doc = "the models are mixtures of experts" },
    { "rows", FIELD_INT, AT(rows), .required = true, .min = 1, .max = 1e9, .doc = "runs" },
    { "most_devices", FIELD_INT, AT(most_devices), .required = true, .min = 1, .max = 1e9,
      .doc = "devices of the largest of them" },
    { "median", FIELD_DOUBLE, AT(median), .required = true, ERROR_RANGE,
      .doc = "of predicted / measured - 1 of their steps" },
    { "low", FIELD_DOUBLE, AT(low), .required = true, ERROR_RANGE,
      .doc = "a tenth of them has less; of fewer than 10 runs the least" },
    { "high", FIELD_DOUBLE, AT(high), .required = true, ERROR_RANGE, .doc = "a tenth has more; likewise" },
};
#undef AT
#define COUNT(array) (sizeof(array) / sizeof *(array))

const struct json_format accuracy_formats[] = {
    JSON_FORMAT("accuracy", accuracy_table,
                "Part of `planner/facts/accuracy.json`, which `cleave validate --accuracy` writes."),
    JSON_FORMAT("accuracy.entry", entry_table,
                "Part of `planner/facts/accuracy.json`, which `cleave validate --accuracy` writes."),
    { 0 },
};

static bool same_entry(const struct accuracy_entry *a, const struct accuracy_entry *b)
{
    return a->experts == b->experts && !strcmp(a->framework, b->framework) && !strcmp(a->device, b->device) &&
           !strcmp(a->dtype, b->dtype);
}

static bool read_entries(struct accuracy *out, struct arena *arena, const struct json *list, struct error *err)
{
    if (json_type(list) != JSON_ARRAY || json_count(list) > ACCURACY_MOST)
        return json_fail(list, err, "expected an array of at most %d entries", ACCURACY_MOST);
    out->entries = arena_alloc(arena, (size_t)json_count(list) + 1, sizeof *out->entries);
    if (!out->entries)
        return fail_memory(err);
    for (int i = 0; i < json_count(list); i++) {
        struct accuracy_entry *own = &out->entries[i];
        const struct json *at = json_at(list, i);
        if (!json_read_fields(at, entry_table, COUNT(entry_table), own, arena, err))
            return false;
        if (!(own->low <= own->median && own->median <= own->high))
            return json_fail(at, err, "expected low <= median <= high, found %g, %g and %g", own->low, own->median,
                             own->high);
        for (int k = 0; k < i; k++)
            if (same_entry(&out->entries[k], own))
                return json_fail(at, err, "expected one entry of %s on %s in %s, found two", own->framework,
                                 own->device, own->dtype);
        out->count++;
    }
    return true;
}

bool accuracy_read(struct accuracy *out, struct arena *arena, const char *name, const char *text, size_t length,
                   struct error *err)
{
    struct accuracy accuracy = { 0 };
    struct accuracy_text t = { 0 };
    struct json_doc *doc;
    if (!json_parse(&doc, name, text, length, err))
        return false;
    bool good = json_check_format(json_root(doc), ACCURACY_FORMAT, err) &&
                json_read_fields(json_root(doc), accuracy_table, COUNT(accuracy_table), &t, arena, err) &&
                read_entries(&accuracy, arena, t.entries, err);
    json_free(doc);
    accuracy.source = t.source;
    if (good)
        *out = accuracy;
    return good;
}

char *accuracy_write(const struct accuracy *accuracy, size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, ACCURACY_FORMAT, ACCURACY_VERSION);
    json_put_string(&w, "source", accuracy->source);
    json_write_key(&w, "entries");
    json_begin_array(&w);
    for (int i = 0; i < accuracy->count; i++) {
        const struct accuracy_entry *own = &accuracy->entries[i];
        json_begin_object(&w);
        json_put_string(&w, "framework", own->framework);
        json_put_string(&w, "device", own->device);
        json_put_string(&w, "dtype", own->dtype);
        json_put_bool(&w, "experts", own->experts);
        json_put_int(&w, "rows", own->rows);
        json_put_int(&w, "most_devices", own->most_devices);
        json_put_double(&w, "median", own->median);
        json_put_double(&w, "low", own->low);
        json_put_double(&w, "high", own->high);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    return json_finish(&w, length);
}

/* ---- from rows ---- */

static int by_entry(const void *a, const void *b)
{
    const struct accuracy_entry *x = a, *y = b;
    int order = strcmp(x->framework, y->framework);
    order = order ? order : strcmp(x->device, y->device);
    order = order ? order : strcmp(x->dtype, y->dtype);
    return order ? order : x->experts - y->experts;
}

/* Between the two sorted values around a share of the way through them. */
static double quantile(const double *sorted, int count, double share)
{
    double at = share * (count - 1);
    int below = (int)at;
    return below + 1 < count ? sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]) : sorted[below];
}

/* Four digits: what a file has of an error, whoever reads it. */
static double rounded(double value)
{
    return round(value * 1e4) / 1e4;
}

static struct accuracy_entry entry_of(const struct validated_row *row)
{
    return (struct accuracy_entry){ .framework = row->asked.framework,
                                    .device = row->asked.device,
                                    .dtype = row->asked.dtype,
                                    .experts = row->run.n_experts != BLANK };
}

bool accuracy_of_rows(struct accuracy *out, struct arena *arena, const struct validated_row *rows, int count,
                      struct error *err)
{
    double *errors = arena_alloc(arena, (size_t)count + 1, sizeof *errors);
    *out = (struct accuracy){ .source = "", .entries = arena_alloc(arena, (size_t)count + 1, sizeof *out->entries) };
    if (!errors || !out->entries)
        return fail_memory(err);
    for (int i = 0; i < count; i++) {
        if (!validated_step(&rows[i]) || !strcmp(rows[i].asked.framework, "cleave"))
            continue;
        struct accuracy_entry own = entry_of(&rows[i]);
        int at = 0;
        while (at < out->count && !same_entry(&out->entries[at], &own))
            at++;
        if (at == out->count)
            out->entries[out->count++] = own;
    }
    if (out->count > 0)
        qsort(out->entries, (size_t)out->count, sizeof *out->entries, by_entry);
    for (int e = 0; e < out->count; e++) {
        struct accuracy_entry *entry = &out->entries[e];
        for (int i = 0; i < count; i++) {
            if (!validated_step(&rows[i]))
                continue;
            struct accuracy_entry own = entry_of(&rows[i]);
            if (!same_entry(entry, &own))
                continue;
            errors[entry->rows++] = validated_step_error(&rows[i]);
            entry->most_devices = max_i64(entry->most_devices, rows[i].run.n_gpus);
        }
        int own_rows = (int)entry->rows;
        double tail = own_rows < ACCURACY_MANY ? 0 : .1;
        qsort(errors, (size_t)own_rows, sizeof *errors, compare_doubles);
        entry->median = rounded(quantile(errors, own_rows, .5));
        entry->low = rounded(quantile(errors, own_rows, tail));
        entry->high = rounded(quantile(errors, own_rows, 1 - tail));
    }
    return true;
}

/* ---- the sentence ---- */

static const char *mixture(bool experts)
{
    return experts ? "mixtures of experts by " : "";
}

/* Of the framework, what there is. */
static void add_covered(struct text *out, const struct accuracy *a, const struct accuracy_question *q)
{
    enum { FEW = 4 };
    int of_framework = 0, listed = 0;
    for (int i = 0; i < a->count; i++)
        of_framework += !strcmp(a->entries[i].framework, q->framework);
    text_printf(out, of_framework ? "; covered are " : ", nor any other of it");
    for (int i = 0; i < a->count; i++) {
        const struct accuracy_entry *e = &a->entries[i];
        if (strcmp(e->framework, q->framework) != 0 || listed++ >= FEW)
            continue;
        text_printf(out, "%s%s in %s%s", listed > 1 ? ", " : "", e->device, e->dtype,
                    e->experts ? " (mixtures of experts)" : "");
    }
    if (listed > FEW)
        text_printf(out, " and %d more", listed - FEW);
}

void accuracy_tell(struct text *out, const struct accuracy_entry **entry, const struct accuracy *a,
                   const struct accuracy_question *q)
{
    const struct accuracy_entry asked = { q->framework, q->device, q->dtype, .experts = q->experts };
    *entry = NULL;
    for (int i = 0; i < a->count; i++)
        if (same_entry(&a->entries[i], &asked))
            *entry = &a->entries[i];
    if (!*entry) {
        text_printf(out, "no published run of %s%s on %s in %s was held against this price", mixture(q->experts),
                    q->framework, *q->device ? q->device : "several types of devices", q->dtype);
        add_covered(out, a, q);
        return;
    }
    const struct accuracy_entry *e = *entry;
    text_printf(out, "%lld %s of %s%s on %s in %s %s predicted with ", (long long)e->rows,
                e->rows == 1 ? "run" : "runs", mixture(e->experts), e->framework, e->device, e->dtype,
                e->rows == 1 ? "was" : "were");
    if (e->rows == 1)
        text_printf(out, "%+.0f %%", 100 * e->median);
    else
        text_printf(out, "%+.0f to %+.0f %%%s", 100 * e->low, 100 * e->high,
                    e->rows < ACCURACY_MANY ? "" : " (80 % of them)");
    if (q->devices > e->most_devices)
        text_printf(out, ", none of them on more than %lld devices", (long long)e->most_devices);
}
