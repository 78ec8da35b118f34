#include "cli/calibration.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

const char *const mechanism_names[MECHANISM_COUNT + 1] = {
#define MECHANISM(id, key, spread, doc) key,
    MECHANISMS
#undef MECHANISM
};

struct calibration_text {
    const char *format, *source;
    int64_t version;
    double error_before, error_after;
    const struct json *corrections, *runs;
};
#define AT(member) offsetof(struct calibration_text, member)
static const struct json_field calibration_table[] = {
    { "format", FIELD_STRING, AT(format), .required = true, .doc = "\"" CALIBRATION_FORMAT "\"" },
    { "version", FIELD_INT, AT(version), .required = true, .min = CALIBRATION_VERSION, .max = CALIBRATION_VERSION,
      .doc = "1" },
    { "source", FIELD_STRING, AT(source), .doc = "the runs that it was fitted to, for people" },
    { "error_before", FIELD_DOUBLE, AT(error_before),
      .doc = "median of |predicted / measured - 1| of these runs' steps without the corrections" },
    { "error_after", FIELD_DOUBLE, AT(error_after), .doc = "and with them" },
    { "corrections", FIELD_NODE, AT(corrections), .required = true, .doc = "the corrections" },
    { "runs", FIELD_NODE, AT(runs),
      .doc = "what they leave of each run, by which jobs like it are told; absent: of none" },
};
#undef AT
#define AT(member) offsetof(struct correction, member)
static const struct json_field correction_table[] = {
    { "device", FIELD_STRING, AT(device), .doc = "of this device of the catalogue alone; absent: of any" },
    { "framework", FIELD_STRING, AT(framework), .doc = "under this framework alone; absent: under any" },
    { "rows", FIELD_INT, AT(rows), .doc = "runs that it was fitted to" },
#define MECHANISM(id, key, spread, doc_)                                                                               \
    { key,                                                                                                             \
      FIELD_DOUBLE,                                                                                                    \
      AT(speed) + MECHANISM_##id * sizeof(double),                                                                     \
      .min = LEAST_SPEED,                                                                                              \
      .max = MOST_SPEED,                                                                                               \
      .doc = "speed, as a share of what is predicted without, of " doc_ "; absent: 1" },
    MECHANISMS
#undef MECHANISM
    { "memory_bytes", FIELD_INT, AT(memory_bytes), .doc = "that a device needs beside what is predicted; absent: 0" },
};
#undef AT
#define COUNT(array) (sizeof(array) / sizeof *(array))

const struct json_format calibration_formats[] = {
    JSON_FORMAT("calibration", calibration_table,
                "Part of what `cleave calibrate` writes, and `--profile` takes beside profiles."),
    JSON_FORMAT("calibration.correction", correction_table,
                "Part of what `cleave calibrate` writes, and `--profile` takes beside profiles."),
    { 0 },
};

bool calibration_is(const char *text, size_t length)
{
    struct json_doc *doc = NULL;
    struct error none = { 0 };
    const char *format = "";
    bool is = json_parse(&doc, "", text, length, &none) && json_member(json_root(doc), "format") &&
              json_string(json_member(json_root(doc), "format"), &format, &none) && !strcmp(format, CALIBRATION_FORMAT);
    json_free(doc);
    return is;
}

static bool read_corrections(struct calibration *c, struct arena *arena, const struct json *list, struct error *err)
{
    if (json_type(list) != JSON_ARRAY || json_count(list) < 1 || json_count(list) > CALIBRATION_MOST)
        return json_fail(list, err, "expected 1 to %d corrections", CALIBRATION_MOST);
    c->corrections = arena_alloc(arena, (size_t)json_count(list), sizeof *c->corrections);
    if (!c->corrections)
        return fail_memory(err);
    for (int i = 0; i < json_count(list); i++) {
        struct correction *own = &c->corrections[i];
        *own = (struct correction){ .device = "", .framework = "" };
        for (int k = 0; k < MECHANISM_COUNT; k++)
            own->speed[k] = 1;
        if (!json_read_fields(json_at(list, i), correction_table, COUNT(correction_table), own, arena, err))
            return false;
        for (int k = 0; k < i; k++)
            if (!strcmp(c->corrections[k].device, own->device) && !strcmp(c->corrections[k].framework, own->framework))
                return json_fail(json_at(list, i), err,
                                 "expected one correction of device '%s' and framework '%s', found two", own->device,
                                 own->framework);
        c->count++;
    }
    return true;
}

static bool read_runs(struct calibration *c, struct arena *arena, const struct json *list, struct error *err)
{
    if (json_type(list) != JSON_ARRAY || json_count(list) < 1 || json_count(list) > LIKE_RUNS_MOST)
        return json_fail(list, err, "expected 1 to %d runs", LIKE_RUNS_MOST);
    c->runs = arena_alloc(arena, (size_t)json_count(list), sizeof *c->runs);
    if (!c->runs)
        return fail_memory(err);
    for (; c->run_count < json_count(list); c->run_count++) {
        struct like_run *own = &c->runs[c->run_count];
        *own = (struct like_run){ .left = 0 };
        for (int i = 0; i < RUN_SIZE_COUNT; i++)
            own->shape.size[i] = 1;
        if (!json_read_fields(json_at(list, c->run_count), like_run_formats->fields, like_run_formats->count, own,
                              arena, err))
            return false;
    }
    return like_runs_solve(c->runs, c->run_count, NULL, err);
}

bool calibration_read(struct calibration *out, struct arena *arena, const char *name, const char *text, size_t length,
                      struct error *err)
{
    struct calibration c = { .hash = hash_bytes(HASH_START, text, length) };
    struct calibration_text t = { .source = "" };
    struct json_doc *doc;
    if (!json_parse(&doc, name, text, length, err))
        return false;
    bool good = json_check_format(json_root(doc), CALIBRATION_FORMAT, err) &&
                json_read_fields(json_root(doc), calibration_table, COUNT(calibration_table), &t, arena, err) &&
                read_corrections(&c, arena, t.corrections, err) && (!t.runs || read_runs(&c, arena, t.runs, err));
    json_free(doc);
    c.source = t.source;
    c.error_before = t.error_before;
    c.error_after = t.error_after;
    if (good)
        *out = c;
    return good;
}

char *calibration_write(const struct calibration *c, size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, CALIBRATION_FORMAT, CALIBRATION_VERSION);
    json_put_string(&w, "source", c->source);
    json_put_double(&w, "error_before", c->error_before);
    json_put_double(&w, "error_after", c->error_after);
    json_write_key(&w, "corrections");
    json_begin_array(&w);
    for (int i = 0; i < c->count; i++) {
        const struct correction *own = &c->corrections[i];
        json_begin_object(&w);
        if (*own->device)
            json_put_string(&w, "device", own->device);
        if (*own->framework)
            json_put_string(&w, "framework", own->framework);
        json_put_int(&w, "rows", own->rows);
        for (int k = 0; k < MECHANISM_COUNT; k++)
            if (own->speed[k] != 1)
                json_put_double(&w, mechanism_names[k], own->speed[k]);
        if (own->memory_bytes > 0)
            json_put_int(&w, "memory_bytes", own->memory_bytes);
        json_end_object(&w);
    }
    json_end_array(&w);
    if (c->run_count > 0) {
        json_write_key(&w, "runs");
        json_begin_array(&w);
        for (int i = 0; i < c->run_count; i++)
            like_run_write(&w, &c->runs[i]);
        json_end_array(&w);
    }
    json_end_object(&w);
    return json_finish(&w, length);
}

/* What the corrections say together of a device under the framework; rows: of how many runs, 0: nothing. */
static struct correction correction_of(const struct calibration *c, const char *device, const char *framework)
{
    struct correction all = { .device = device, .framework = framework };
    for (int k = 0; k < MECHANISM_COUNT; k++)
        all.speed[k] = 1;
    for (int i = 0; i < c->count; i++) {
        const struct correction *own = &c->corrections[i];
        if ((*own->device && strcmp(own->device, device)) || (*own->framework && strcmp(own->framework, framework)))
            continue;
        for (int k = 0; k < MECHANISM_COUNT; k++)
            all.speed[k] *= own->speed[k];
        all.memory_bytes = max_i64(all.memory_bytes, own->memory_bytes);
        all.rows += max_i64(own->rows, 1);
    }
    return all;
}

static void scale_type(struct node_type *type, int level_count, const struct correction *by)
{
    struct device_type *device = &type->device;
    double fp8 = device->fp8_matmul_efficiency > 0 ? device->fp8_matmul_efficiency : device->matmul_efficiency;
    device->fp8_matmul_efficiency = fp8 * by->speed[MECHANISM_PRODUCTS] * by->speed[MECHANISM_FP8_PRODUCTS];
    device->matmul_efficiency *= by->speed[MECHANISM_PRODUCTS];
    device->attention_forward_efficiency *= by->speed[MECHANISM_ATTENTION];
    device->attention_backward_efficiency *= by->speed[MECHANISM_ATTENTION];
    device->flash2_flops_per_s *= by->speed[MECHANISM_ATTENTION];
    device->memory_efficiency *= by->speed[MECHANISM_ELEMENTWISE];
    device->link_efficiency *= by->speed[MECHANISM_LINKS];
    device->link_pass_bytes_per_s *= by->speed[MECHANISM_LINKS];
    device->nic_efficiency *= by->speed[MECHANISM_NETWORK];
    for (int i = 0; i < level_count; i++)
        type->levels[i].efficiency *= by->speed[i > 0 ? MECHANISM_NETWORK : MECHANISM_LINKS];
    type->memory_bytes -= by->memory_bytes;
}

bool calibration_apply(const struct calibration *c, struct cluster *cluster, struct framework *framework)
{
    struct correction by[MAX_TYPES];
    const char *name = framework ? framework->name : "cleave";
    bool any = false;
    double host = 1, attention = 1; /* one host and one cap for all: what the types say, in the geometric mean */
    for (int t = 0; t < cluster->type_count; t++) {
        by[t] = correction_of(c, cluster->types[t].device.name, name);
        any = any || by[t].rows > 0;
        host *= pow(by[t].speed[MECHANISM_HOST], 1.0 / cluster->type_count);
        attention *= pow(by[t].speed[MECHANISM_ATTENTION], 1.0 / cluster->type_count);
        if (by[t].memory_bytes >= cluster->types[t].memory_bytes)
            return false;
    }
    for (int t = 0; t < cluster->type_count && any; t++)
        scale_type(&cluster->types[t], cluster->level_count, &by[t]);
    if (framework && any) {
        framework->issue_kernel_ns = llround((double)framework->issue_kernel_ns / host);
        framework->issue_transfer_ns = llround((double)framework->issue_transfer_ns / host);
        framework->attention_flops_per_s *= attention;
    }
    return any;
}

bool calibration_refuse(const struct calibration *c, const struct cluster *cluster, const struct framework *framework,
                        struct error *err)
{
    const struct correction *first = &c->corrections[0];
    const char *own = framework ? framework->name : "cleave", *other = NULL; /* for which one holds of a device here */
    struct text give = { 0 };
    for (int i = 0; i < c->count * cluster->type_count && !other; i++) {
        const struct correction *one = &c->corrections[i / cluster->type_count];
        const char *device = cluster->types[i % cluster->type_count].device.name;
        if (*one->framework && strcmp(one->framework, own) != 0 && (!*one->device || strcmp(one->device, device) == 0))
            other = one->framework;
    }
    if (other)
        text_printf(&give, "give --framework %s, which it was made for, ", other);
    fail(err,
         "expected a correction of %s under %s, found %d of others, the first of %s under %s; %sleave it out, or "
         "make one: cleave calibrate",
         cluster->types[0].device.name, own, c->count, *first->device ? first->device : "any device",
         *first->framework ? first->framework : "any framework", give.data ? give.data : "");
    text_free(&give);
    return false;
}

int64_t calibration_step_ns(const struct calibration *calibrations, int count, const struct run_shape *job,
                            int64_t step_ns, int *alike)
{
    double left = 0;
    *alike = 0;
    for (int i = 0; i < count; i++) {
        int more;
        left += like_runs_say(calibrations[i].runs, calibrations[i].run_count, job, &more);
        *alike += more;
    }
    return llround((double)step_ns * exp(left));
}
