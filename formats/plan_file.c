/* Around the decisions (formats/plan_json_decisions.c). */
#include "formats/plan_file.h"
#include "formats/plan_json_parts.h"
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct file_fields {
    const char *format;
    int64_t version;
    const struct json *decisions, *predicted, *context, *search, *certificate, *top, *frontier, *batches, *cost,
        *objective, *remarks, *launch;
};
#define PART(name, doc_)                                                                                               \
    {                                                                                                                  \
        .key = #name, .type = FIELD_NODE, .offset = offsetof(struct file_fields, name), .doc = doc_                    \
    }
static const struct json_field file_fields[] = {
    { "format", FIELD_STRING, offsetof(struct file_fields, format), .required = true, .doc = "\"" PLAN_FORMAT "\"." },
    { "version", FIELD_INT, offsetof(struct file_fields, version), .required = true, .doc = "1." },
    { "decisions", FIELD_NODE, offsetof(struct file_fields, decisions), .required = true, .doc = "The plan." },
    PART(predicted, "What was predicted of it."),
    PART(search,
         "How it was searched for: {ended, candidates, ranked, judged, rejected, widened}. ended: by a time limit or "
         "an interruption; plans that the formula proposed, that the pipeline ranked, that were simulated, and that "
         "did not fit after layout; the choices by which the space became wider, since nothing fitted without: absent "
         "where something did."),
    PART(certificate, "How good it is proven to be."),
    PART(top, "The best plans that differ in more than trifles, this one first: [{step_s, peak_bytes, plan}]."),
    PART(frontier, "Step against memory or devices: [{step_s, peak_bytes, devices, cluster, dollars_per_step, plan}]."),
    PART(batches, "With --batch auto, all that were tried, in that order: [{batch, step_s}]; no step_s: nothing fits."),
    PART(cost, "With --price, of all devices: {dollars_per_hour, dollars_per_step, dollars_per_1e9_tokens, watts, "
               "kwh_per_step, kwh_per_1e9_tokens}; what is not known is absent."),
    PART(
        objective,
        "With --objective cost or memory, the searches made: {name, ended, tried: [{cluster, devices, available_bytes, "
        "step_s, bound_s, dollars_per_step}]}; no step_s: nothing fits; no bound_s: the formula proves nothing."),
    PART(remarks, "What one should know before it is launched: [{kind, text}]."),
    PART(launch, "Of estimate --from: {target, release, not_understood, changes_tried, pairs_tried, changes: [{change, "
                 "step_s}]}: "
                 "the single changes of the launch that make it shorter, or fit, the best first; where none of them "
                 "does, two at "
                 "once."),
    PART(context, "What it was made from."),
};

struct origin_fields {
    const char *source, *name, *hash;
    const struct json *description;
};
static const struct json_field origin_fields[] = {
    { .key = "source",
      .type = FIELD_STRING,
      .offset = offsetof(struct origin_fields, source),
      .required = true,
      .doc = "What was given: a path, a short form, options." },
    { .key = "name", .type = FIELD_STRING, .offset = offsetof(struct origin_fields, name), .doc = "Its own name." },
    { .key = "hash",
      .type = FIELD_STRING,
      .offset = offsetof(struct origin_fields, hash),
      .required = true,
      .doc = "Of its canonical content, 16 hexadecimal digits." },
    { .key = "description",
      .type = FIELD_NODE,
      .offset = offsetof(struct origin_fields, description),
      .doc = "Of the model: its native description, which is what the plan is used with; absent in older files, whose "
             "source is read." },
};

static bool read_hash(const struct json *at, const char *text, uint64_t *out, struct error *err)
{
    uint64_t hash = 0;
    size_t i = 0;
    for (; i < 16 && text[i]; i++) {
        const char *digits = "0123456789abcdef", *digit = strchr(digits, text[i]);
        if (!digit)
            break;
        hash = hash * 16 + (uint64_t)(digit - digits);
    }
    if (i != 16 || text[16])
        return json_fail(at, err, "expected 16 hexadecimal digits in small letters, found \"%s\"", text);
    *out = hash;
    return true;
}

static bool read_origin(const struct json *at, struct arena *arena, struct plan_origin *out, struct error *err)
{
    struct origin_fields in = { 0 };
    if (!at || json_type(at) == JSON_NULL)
        return true;
    if (!READ_FIELDS(at, origin_fields, &in, arena, err) ||
        !read_hash(json_member(at, "hash"), in.hash, &out->hash, err))
        return false;
    out->source = in.source;
    out->name = in.name;
    out->description = in.description;
    return true;
}

struct context_fields {
    const struct json *model, *cluster, *profile, *framework, *options;
    const char *target, *reserve, *cleave;
};
#define CONTEXT(name, doc_)                                                                                            \
    {                                                                                                                  \
        .key = #name, .type = FIELD_NODE, .offset = offsetof(struct context_fields, name), .doc = doc_                 \
    }
static const struct json_field context_fields[] = {
    CONTEXT(model, "Model the plan was made for."),
    CONTEXT(cluster, "Cluster the plan was made for."),
    CONTEXT(profile, "Profile the plan was made with, or null."),
    CONTEXT(framework, "Framework that is to run the plan; absent: cleave itself."),
    { .key = "target",
      .type = FIELD_STRING,
      .offset = offsetof(struct context_fields, target),
      .doc = "Target whose release can be told the plan, as --target has it; absent: it was made for none." },
    CONTEXT(options, "Options of the search, or null."),
    { .key = "reserve",
      .type = FIELD_STRING,
      .offset = offsetof(struct context_fields, reserve),
      .doc = "Memory of each device that plans had to leave free, as --reserve has it; absent: the devices' own." },
    { .key = "cleave",
      .type = FIELD_STRING,
      .offset = offsetof(struct context_fields, cleave),
      .doc = "Version that wrote the file." },
};

static bool read_context(const struct json *at, struct plan_file *file, struct error *err)
{
    struct context_fields in = { 0 };
    struct plan_context *context = &file->context;
    if (!at)
        return true;
    if (!READ_FIELDS(at, context_fields, &in, &file->arena, err))
        return false;
    context->cleave = in.cleave;
    context->target = in.target;
    context->reserve = in.reserve;
    return read_origin(in.model, &file->arena, &context->model, err) &&
           read_origin(in.cluster, &file->arena, &context->cluster, err) &&
           read_origin(in.profile, &file->arena, &context->profile, err) &&
           read_origin(in.framework, &file->arena, &context->framework, err) &&
           read_origin(in.options, &file->arena, &context->options, err);
}

/* Of the predictions only what a run is held against; the rest is for people. */
static bool read_predicted(const struct json *at, struct plan_file *file, struct error *err)
{
    double step_s = 0;
    const struct json *step = at ? json_member(at, "step_s") : NULL, *peak = at ? json_member(at, "peak_bytes") : NULL;
    if (at && json_type(at) != JSON_OBJECT)
        return json_fail(at, err, "expected an object, found %s", json_type_name(json_type(at)));
    if (step && !json_double(step, 0, 9e9, &step_s, err))
        return false;
    file->predicted_step_ns = (int64_t)(step_s * 1e9 + 0.5);
    if (!peak)
        return true;
    if (!plan_need_array(peak, file->plan->stage_count, file->plan->stage_count, "peaks, one per stage", err))
        return false;
    file->predicted_stages = file->plan->stage_count;
    file->predicted_peak_bytes =
        arena_alloc(&file->arena, (size_t)file->predicted_stages, sizeof *file->predicted_peak_bytes);
    if (!file->predicted_peak_bytes)
        return fail_memory(err);
    for (int s = 0; s < file->predicted_stages; s++)
        if (!json_int(json_at(peak, s), 0, INT64_MAX, &file->predicted_peak_bytes[s], err))
            return false;
    return true;
}

static bool read_file(const struct json *root, struct plan_file *file, struct error *err)
{
    struct file_fields in = { 0 };
    if (!json_check_format(root, PLAN_FORMAT, err) || !READ_FIELDS(root, file_fields, &in, &file->arena, err))
        return false;
    if (in.version != PLAN_FORMAT_VERSION)
        return json_fail(json_member(root, "version"), err,
                         "expected version %d, found %lld; this cleave cannot read it", PLAN_FORMAT_VERSION,
                         (long long)in.version);
    file->search = in.search;
    file->certificate = in.certificate;
    file->predicted = in.predicted;
    return plan_json_read_decisions(&file->plan, in.decisions, err) && read_predicted(in.predicted, file, err) &&
           read_context(in.context, file, err);
}

bool plan_json_read(struct plan_file **out, const char *name, const char *text, size_t length, struct error *err)
{
    struct json_doc *doc = NULL;
    struct plan_file *file = calloc(1, sizeof *file);
    if (!file)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    bool good = json_parse(&doc, name, text, length, err) && read_file(json_root(doc), file, err);
    file->document = doc;
    if (!good) {
        plan_file_free(file);
        return false;
    }
    *out = file;
    return true;
}

char *plan_file_write(const struct plan_file *file, size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_object(&w);
    plan_json_put(&w, file->plan, NULL, json_root(file->document), &file->context);
    if (file->search) {
        json_write_key(&w, "search");
        json_write_value(&w, file->search);
    }
    if (file->certificate) {
        json_write_key(&w, "certificate");
        json_write_value(&w, file->certificate);
    }
    json_write_free_members(&w, json_root(file->document));
    json_end_object(&w);
    return json_finish(&w, length);
}

void plan_file_free(struct plan_file *file)
{
    if (!file)
        return;
    plan_free(file->plan);
    json_free(file->document);
    arena_free(&file->arena);
    free(file);
}

const struct json_format plan_formats[] = {
    JSON_FORMAT("plan", file_fields, "Part of a plan file."),
    JSON_FORMAT("plan.origin", origin_fields, "Part of a plan file."),
    { 0 },
};

static bool same_origin(const char *what, const struct json *at, const struct plan_origin *file,
                        const struct plan_origin *now, const char *advice, struct error *err)
{
    if (!file->source || !now->source || file->hash == now->hash)
        return true;
    fail(err, "plan: it was made for %s %s%s%s%s (hash %016" PRIx64 "), but %s has hash %016" PRIx64 "; %s", what,
         file->source, file->name ? " (" : "", file->name ? file->name : "", file->name ? ")" : "", file->hash,
         now->source, now->hash, advice);
    return at && json_error_within(json_member(at, what), err);
}

bool plan_context_check(const struct plan_context *file, const struct json *at, const struct plan_context *now,
                        struct error *err)
{
    return same_origin("model", at, &file->model, &now->model,
                       "give the model it names, or plan anew: cleave plan MODEL --cluster CLUSTER -o plan.json",
                       err) &&
           same_origin("cluster", at, &file->cluster, &now->cluster,
                       "leave out --cluster to use the plan's own, or plan anew for this cluster: cleave plan MODEL "
                       "--cluster CLUSTER",
                       err) &&
           same_origin("profile", at, &file->profile, &now->profile,
                       "leave out --profile to use the plan's own, or plan anew: cleave plan MODEL --profile FILE",
                       err) &&
           same_origin("framework", at, &file->framework, &now->framework,
                       "plan anew: cleave plan MODEL --framework NAME", err);
}
