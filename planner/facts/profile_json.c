/* The profile's file. The tables are the format; writing follows the same keys in the same order. */
#include "base/json.h"
#include "planner/facts/profile.h"
#include <stddef.h>
#include <string.h>

/* The tables fill this; files hold 64-bit integers, the structs narrower ones. */
struct profile_text {
    struct profile profile;
    const char *format;
    int64_t version, reference_ranks;
    const struct json *compute, *linear, *curves, *tuned;
};
struct entry_text {
    const char *work;
    int64_t loaded, ns, repeats;
    double spread;
    int origin;
};
struct linear_text {
    struct linear_entry entry;
    int64_t loaded;
    int origin;
};
struct curve_text {
    struct collective_curve curve;
    int64_t ranks, concurrent, level;
    const struct json *points;
};
struct point_text {
    int64_t bytes, ns, repeats;
    double spread;
    int origin;
};

#define PROFILE_FORMAT "cleave-profile"
enum { PROFILE_VERSION = 1, SMALL_MAX = 1 << 30 };
#define MEMORY_DEVICE "of these bytes"
#define MEMORY_HOST "beside these bytes"
#define PROFILE_AT(member) offsetof(struct profile_text, profile.member)
#define NS_LIMITS .min = 0, .max = (double)MAX_TIME_NS

static const struct json_field profile_table[] = {
    { "format", FIELD_STRING, offsetof(struct profile_text, format), .required = true,
      .doc = "\"" PROFILE_FORMAT "\"" },
    { "version", FIELD_INT, offsetof(struct profile_text, version), .required = true, .min = PROFILE_VERSION,
      .max = PROFILE_VERSION, .doc = "1" },
    { "machine", FIELD_STRING, PROFILE_AT(machine), .doc = "processor, cores, memory, kernel" },
    { "backend", FIELD_STRING, PROFILE_AT(backend), .doc = "\"cpu\" or \"cuda\"" },
    { "transport", FIELD_STRING, PROFILE_AT(transport), .doc = "\"threads\", \"tcp\", \"mpi\" or \"nccl\"" },
    { "software", FIELD_STRING, PROFILE_AT(software), .doc = "versions of what was measured" },
    { "created", FIELD_STRING, PROFILE_AT(created), .doc = "when, in ISO 8601" },
    { "device", FIELD_STRING, PROFILE_AT(device),
      .doc = "name of the cluster's device type that it was measured on; needed where a cluster has several" },
    { "dtype", FIELD_ENUM, PROFILE_AT(dtype), .required = true, .names = dtype_names, .doc = "of the computations" },
    { "compute_under_communication", FIELD_DOUBLE, PROFILE_AT(compute_under_communication), .min = 1, .max = 1e6,
      .doc = "slow-down of compute while a collective runs beside it" },
    { "communication_under_compute", FIELD_DOUBLE, PROFILE_AT(communication_under_compute), .min = 1, .max = 1e6,
      .doc = "slow-down of a collective while compute runs beside it" },
    { "compute_under_communication_spread", FIELD_DOUBLE, PROFILE_AT(compute_under_communication_spread), .max = 1e6,
      .doc = "interquartile range of the first factor's samples over their median" },
    { "communication_under_compute_spread", FIELD_DOUBLE, PROFILE_AT(communication_under_compute_spread), .max = 1e6,
      .doc = "the same of the second" },
    { "factors_origin", FIELD_ENUM, PROFILE_AT(factors_origin), .names = origin_names,
      .doc = "how both factors came about; absent in older files" },
    { "memory_outside_arena_bytes", FIELD_INT, PROFILE_AT(memory_outside_arena_bytes), .min = 0, .max = 1e15,
      .doc = "context, libraries and transport buffers of one rank" },
#define MEMORY_PART(id, key, place, text)                                                                              \
    {                                                                                                                  \
        key,      FIELD_INT,   PROFILE_AT(memory_part_bytes[MEMORY_##id]),                                             \
        .min = 0, .max = 1e15, .doc = MEMORY_##place " " text                                                          \
    },
#include "planner/facts/memory_parts.def"
    { "memory_origin", FIELD_ENUM, PROFILE_AT(memory_origin), .names = origin_names,
      .doc = "how that number came about; absent in older files" },
    { "instruction_ns", FIELD_INT, PROFILE_AT(instruction_ns), NS_LIMITS,
      .doc =
          "of the time of every computation and work in memory, what the events of a GPU take that time it; plans of "
          "one device, whose steps are not timed so, leave it out" },
    { "reference_ns", FIELD_INT, PROFILE_AT(reference_ns), NS_LIMITS,
      .doc =
          "measured: speed of the processor meanwhile, one product of two 1024 x 1024 matrices on a core, mean of one "
          "before and one after; 0 or absent: not kept" },
    { "reference_ranks", FIELD_INT, offsetof(struct profile_text, reference_ranks), .min = 0, .max = 1e6,
      .doc = "so many such products ran at once, of which the slowest counts, of ranks in processes the first's; 0 or "
             "absent: one" },
    { "compute", FIELD_NODE, offsetof(struct profile_text, compute), .doc = "array: computations" },
    { "linear", FIELD_NODE, offsetof(struct profile_text, linear), .doc = "array: work that is linear in elements" },
    { "collectives", FIELD_NODE, offsetof(struct profile_text, curves),
      .doc = "array: curves of collectives and sends" },
    { "tuned_device", FIELD_STRING, PROFILE_AT(tuned_device),
      .doc = "GPU on which the algorithms below were timed: another one does not take them" },
    { "tuned", FIELD_NODE, offsetof(struct profile_text, tuned),
      .doc = "array: the fastest algorithm of each shape of matrix product, in the library's numbers" },
};
static const struct json_field entry_table[] = {
    { "work", FIELD_STRING, offsetof(struct entry_text, work), .required = true, .doc = "canonical name of the work" },
    { "loaded", FIELD_INT, offsetof(struct entry_text, loaded), .required = true, .min = 1, .max = SMALL_MAX,
      .doc = "ranks that computed on the host at once" },
    { "ns", FIELD_INT, offsetof(struct entry_text, ns), .required = true, NS_LIMITS, .doc = "median" },
    { "spread", FIELD_DOUBLE, offsetof(struct entry_text, spread), .doc = "interquartile range over median" },
    { "repeats", FIELD_INT, offsetof(struct entry_text, repeats), .min = 0, .max = SMALL_MAX, .doc = "number of runs" },
    { "origin", FIELD_ENUM, offsetof(struct entry_text, origin), .names = origin_names,
      .doc = "how the number came about" },
};
static const struct json_field linear_table[] = {
    { "work", FIELD_STRING, offsetof(struct linear_text, entry.work), .required = true,
      .doc =
          "adamw (in place), adamw-apart (from one version of the weights to another), norm, load, zero, add or copy" },
    { "loaded", FIELD_INT, offsetof(struct linear_text, loaded), .required = true, .min = 1, .max = SMALL_MAX,
      .doc = "ranks that worked on the host at once" },
    { "fixed_ns", FIELD_DOUBLE, offsetof(struct linear_text, entry.fixed_ns), .required = true, NS_LIMITS,
      .doc = "at no element" },
    { "ns_per_unit", FIELD_DOUBLE, offsetof(struct linear_text, entry.ns_per_unit), .required = true, NS_LIMITS,
      .doc = "per element" },
    { "min_units", FIELD_INT, offsetof(struct linear_text, entry.min_units), .required = true, .min = 0, .max = 1e15,
      .doc = "fewest elements measured" },
    { "max_units", FIELD_INT, offsetof(struct linear_text, entry.max_units), .required = true, .min = 0, .max = 1e15,
      .doc = "most elements measured" },
    { "error", FIELD_DOUBLE, offsetof(struct linear_text, entry.error), .doc = "largest relative error of the fit" },
    { "origin", FIELD_ENUM, offsetof(struct linear_text, origin), .names = origin_names,
      .doc = "how the numbers came about" },
};
static const struct json_field curve_table[] = {
    { "op", FIELD_STRING, offsetof(struct curve_text, curve.op), .required = true,
      .doc = "all-reduce, all-gather, ..., send" },
    { "ranks", FIELD_INT, offsetof(struct curve_text, ranks), .required = true, .min = 2, .max = MAX_DEVICES,
      .doc = "group size" },
    { "concurrent", FIELD_INT, offsetof(struct curve_text, concurrent), .required = true, .min = 1, .max = MAX_DEVICES,
      .doc = "groups that communicated at once over the level's link" },
    { "level", FIELD_INT, offsetof(struct curve_text, level), .required = true, .min = 0, .max = MAX_LEVELS - 1,
      .doc = "level of the cluster that the group spans; 0: inside a node" },
    { "latency_ns", FIELD_DOUBLE, offsetof(struct curve_text, curve.latency_ns), NS_LIMITS,
      .doc = "fit: time of an empty message" },
    { "bytes_per_s", FIELD_DOUBLE, offsetof(struct curve_text, curve.bytes_per_s), .min = 0, .max = 1e24,
      .doc = "fit: rate of a large one" },
    { "error", FIELD_DOUBLE, offsetof(struct curve_text, curve.error), .doc = "largest relative error of the fit" },
    { "points", FIELD_NODE, offsetof(struct curve_text, points), .doc = "array: what was measured" },
};
static const struct json_field point_table[] = {
    { "bytes", FIELD_INT, offsetof(struct point_text, bytes), .required = true, .min = 1, .max = 1e15,
      .doc = "of the largest buffer on one rank" },
    { "ns", FIELD_INT, offsetof(struct point_text, ns), .required = true, NS_LIMITS, .doc = "median" },
    { "spread", FIELD_DOUBLE, offsetof(struct point_text, spread), .doc = "interquartile range over median" },
    { "repeats", FIELD_INT, offsetof(struct point_text, repeats), .min = 0, .max = SMALL_MAX, .doc = "number of runs" },
    { "origin", FIELD_ENUM, offsetof(struct point_text, origin), .names = origin_names,
      .doc = "how the number came about" },
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

/* Makes room for the elements of an optional array. */
static bool begin_array(const struct json *array, struct arena *arena, size_t size, void *out, int *count,
                        struct error *err)
{
    void *memory = NULL;
    *count = 0;
    if (array && json_type(array) != JSON_ARRAY)
        return json_fail(array, err, "expected an array, found %s", json_type_name(json_type(array)));
    if (array)
        *count = json_count(array);
    memory = arena_alloc(arena, (size_t)*count, size);
    if (!memory)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for %d entries", *count);
    memcpy(out, &memory, sizeof memory);
    return true;
}

static bool read_compute(struct profile *p, const struct json *array, struct error *err)
{
    if (!begin_array(array, &p->arena, sizeof *p->compute, &p->compute, &p->compute_count, err))
        return false;
    for (int i = 0; i < p->compute_count; i++) {
        struct entry_text t = { .origin = ORIGIN_MEASURED };
        if (!json_read_fields(json_at(array, i), entry_table, COUNT(entry_table), &t, &p->arena, err))
            return false;
        p->compute[i] =
            (struct compute_entry){ t.work, (int)t.loaded, { t.ns, t.spread, (int)t.repeats, (enum origin)t.origin } };
    }
    return true;
}

static bool read_linear(struct profile *p, const struct json *array, struct error *err)
{
    if (!begin_array(array, &p->arena, sizeof *p->linear, &p->linear, &p->linear_count, err))
        return false;
    for (int i = 0; i < p->linear_count; i++) {
        struct linear_text t = { .origin = ORIGIN_FITTED };
        const struct json *value = json_at(array, i);
        if (!json_read_fields(value, linear_table, COUNT(linear_table), &t, &p->arena, err))
            return false;
        if (t.entry.max_units < t.entry.min_units)
            return json_fail(json_member(value, "max_units"), err, "expected at least min_units (%lld), found %lld",
                             (long long)t.entry.min_units, (long long)t.entry.max_units);
        t.entry.loaded = (int)t.loaded;
        t.entry.origin = (enum origin)t.origin;
        p->linear[i] = t.entry;
    }
    return true;
}

static bool read_points(struct collective_curve *curve, struct arena *arena, const struct json *array,
                        struct error *err)
{
    if (!begin_array(array, arena, sizeof *curve->points, &curve->points, &curve->point_count, err))
        return false;
    for (int i = 0; i < curve->point_count; i++) {
        struct point_text t = { .origin = ORIGIN_MEASURED };
        const struct json *value = json_at(array, i);
        if (!json_read_fields(value, point_table, COUNT(point_table), &t, NULL, err))
            return false;
        if (i > 0 && t.bytes <= curve->points[i - 1].bytes)
            return json_fail(json_member(value, "bytes"), err, "expected more than the point before (%lld), found %lld",
                             (long long)curve->points[i - 1].bytes, (long long)t.bytes);
        curve->points[i] =
            (struct collective_point){ t.bytes, { t.ns, t.spread, (int)t.repeats, (enum origin)t.origin } };
    }
    return true;
}

static bool read_curves(struct profile *p, const struct json *array, struct error *err)
{
    if (!begin_array(array, &p->arena, sizeof *p->curves, &p->curves, &p->curve_count, err))
        return false;
    for (int i = 0; i < p->curve_count; i++) {
        struct curve_text t = { .ranks = 0 };
        const struct json *value = json_at(array, i);
        if (!json_read_fields(value, curve_table, COUNT(curve_table), &t, &p->arena, err) ||
            !read_points(&t.curve, &p->arena, t.points, err))
            return false;
        if (t.curve.point_count == 0 && t.curve.bytes_per_s <= 0)
            return json_fail(value, err, "expected points or bytes_per_s above 0, found neither");
        t.curve.ranks = (int)t.ranks;
        t.curve.concurrent = (int)t.concurrent;
        t.curve.level = (int)t.level;
        p->curves[i] = t.curve;
    }
    return true;
}

static bool read_root(struct profile *p, const struct json *root, struct error *err)
{
    struct profile_text t = { .profile = *p };
    t.profile.factors_origin = t.profile.memory_origin = PROFILE_UNSAID;
    if (!json_check_format(root, PROFILE_FORMAT, err) ||
        !json_read_fields(root, profile_table, COUNT(profile_table), &t, &p->arena, err))
        return false;
    t.profile.arena = p->arena; /* where its strings are */
    *p = t.profile;
    p->reference_ranks = (int)t.reference_ranks;
    return read_compute(p, t.compute, err) && read_linear(p, t.linear, err) && read_curves(p, t.curves, err) &&
           gpu_choices_from_json(&p->tuned, &p->arena, t.tuned, err);
}

bool profile_read(struct profile **out, const char *name, const char *text, size_t length, struct error *err)
{
    struct json_doc *doc = NULL;
    bool done = false;
    struct profile *profile = profile_new();
    if (!profile)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    if (!json_parse(&doc, name, text, length, err) || !read_root(profile, json_root(doc), err))
        goto cleanup;
    if (!profile_finish(profile, err)) {
        error_within(err, "%s", name);
        goto cleanup;
    }
    *out = profile;
    profile = NULL; /* handed over */
    done = true;
cleanup:
    json_free(doc);
    profile_free(profile);
    return done;
}

/* ---- writing ---- */

static void put_measurement(struct json_writer *w, const struct measurement *m)
{
    json_put_int(w, "ns", m->ns);
    json_put_double(w, "spread", m->spread);
    json_put_int(w, "repeats", m->repeats);
    json_put_string(w, "origin", origin_names[m->origin]);
}

static void put_curve(struct json_writer *w, const struct collective_curve *c)
{
    json_begin_object(w);
    json_put_string(w, "op", c->op);
    json_put_int(w, "ranks", c->ranks);
    json_put_int(w, "concurrent", c->concurrent);
    json_put_int(w, "level", c->level);
    json_put_double(w, "latency_ns", c->latency_ns);
    json_put_double(w, "bytes_per_s", c->bytes_per_s);
    json_put_double(w, "error", c->error);
    json_begin_array_at(w, "points");
    for (int i = 0; i < c->point_count; i++) {
        json_begin_object(w);
        json_put_int(w, "bytes", c->points[i].bytes);
        put_measurement(w, &c->points[i].m);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

/* Puts an empty text where it is unknown. */
static void put_note(struct json_writer *w, const char *key, const char *value)
{
    json_put_string(w, key, value ? value : "");
}

static void put_origin(struct json_writer *w, const char *key, int origin)
{
    if (origin != PROFILE_UNSAID)
        json_put_string(w, key, origin_names[origin]);
}

/* Puts no spread of 0, so that profiles from before spreads were kept stay the same bytes, and so the same hash. */
static void put_spread(struct json_writer *w, const char *key, double spread)
{
    if (spread > 0)
        json_put_double(w, key, spread);
}

static void put_header(struct json_writer *w, const struct profile *p)
{
    json_begin_format(w, PROFILE_FORMAT, PROFILE_VERSION);
    put_note(w, "machine", p->machine);
    put_note(w, "backend", p->backend);
    put_note(w, "transport", p->transport);
    put_note(w, "software", p->software);
    put_note(w, "created", p->created);
    if (p->device && *p->device)
        json_put_string(w, "device", p->device);
    json_put_string(w, "dtype", dtype_names[p->dtype]);
    json_put_double(w, "compute_under_communication", p->compute_under_communication);
    json_put_double(w, "communication_under_compute", p->communication_under_compute);
    put_spread(w, "compute_under_communication_spread", p->compute_under_communication_spread);
    put_spread(w, "communication_under_compute_spread", p->communication_under_compute_spread);
    put_origin(w, "factors_origin", p->factors_origin);
    json_put_int(w, "memory_outside_arena_bytes", p->memory_outside_arena_bytes);
    for (int i = 0; i < MEMORY_PART_COUNT; i++)
        if (p->memory_part_bytes[i] > 0)
            json_put_int(w, memory_part_info[i].key, p->memory_part_bytes[i]);
    put_origin(w, "memory_origin", p->memory_origin);
    if (p->instruction_ns > 0)
        json_put_int(w, "instruction_ns", p->instruction_ns);
    if (p->reference_ns > 0)
        json_put_int(w, "reference_ns", p->reference_ns);
    if (p->reference_ranks > 0)
        json_put_int(w, "reference_ranks", p->reference_ranks);
}

char *profile_write(const struct profile *p, size_t *length)
{
    struct json_writer w = { 0 };
    put_header(&w, p);
    json_begin_array_at(&w, "compute");
    for (int i = 0; i < p->compute_count; i++) {
        json_begin_object(&w);
        json_put_string(&w, "work", p->compute[i].work);
        json_put_int(&w, "loaded", p->compute[i].loaded);
        put_measurement(&w, &p->compute[i].m);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_begin_array_at(&w, "linear");
    for (int i = 0; i < p->linear_count; i++) {
        json_begin_object(&w);
        json_put_string(&w, "work", p->linear[i].work);
        json_put_int(&w, "loaded", p->linear[i].loaded);
        json_put_double(&w, "fixed_ns", p->linear[i].fixed_ns);
        json_put_double(&w, "ns_per_unit", p->linear[i].ns_per_unit);
        json_put_int(&w, "min_units", p->linear[i].min_units);
        json_put_int(&w, "max_units", p->linear[i].max_units);
        json_put_double(&w, "error", p->linear[i].error);
        json_put_string(&w, "origin", origin_names[p->linear[i].origin]);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_begin_array_at(&w, "collectives");
    for (int i = 0; i < p->curve_count; i++)
        put_curve(&w, &p->curves[i]);
    json_end_array(&w);
    if (p->tuned.count > 0) {
        put_note(&w, "tuned_device", p->tuned_device);
        json_write_key(&w, "tuned");
        gpu_choices_to_json(&w, &p->tuned);
    }
    json_end_object(&w);
    return json_finish(&w, length);
}

const struct json_format profile_formats[] = {
    JSON_FORMAT("profile", profile_table, "Part of a profile file."),
    JSON_FORMAT("profile.compute", entry_table, "Part of a profile file."),
    JSON_FORMAT("profile.linear", linear_table, "Part of a profile file."),
    JSON_FORMAT("profile.curve", curve_table, "Part of a profile file."),
    JSON_FORMAT("profile.curve.point", point_table, "Part of a profile file."),
    { 0 },
};
