#define _GNU_SOURCE
#include "cli/inputs.h"
#include "base/num.h"
#include "base/text.h"
#include "formats/plan_file.h"
#include "host/file.h"
#include "models/layer_kind.h"
#include "formats/trace.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/verify/verify.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file's bytes as they were read: a copy would be one more of what may be long. */
struct inputs_text {
    char *data;
    struct inputs_text *next;
};

void inputs_free(struct inputs *in)
{
    plan_file_free(in->plan_file);
    json_free(in->description);
    graph_free(in->graph);
    for (int i = 0; i < in->profile_count; i++)
        profile_free(in->profiles[i]);
    cluster_free(in->cluster);
    model_free(in->model);
    catalogue_free(in->catalogue);
    for (const struct inputs_text *text = in->texts; text; text = text->next)
        free(text->data);
    in->texts = NULL;
    arena_free(&in->arena);
}

bool inputs_text(struct inputs *in, const char *path, const char **text, size_t *length, struct error *err)
{
    struct inputs_text *kept = arena_alloc(&in->arena, 1, sizeof *kept);
    if (!kept)
        return fail_memory(err);
    if (!file_read_limited(&kept->data, length, path, FILE_MAX_TEXT_BYTES, err))
        return false;
    kept->next = in->texts;
    in->texts = kept;
    *text = kept->data;
    return true;
}

bool inputs_word(const char *what, const char *word, const char *const *words, int *out, struct error *err)
{
    struct text list = { 0 };
    for (int i = 0; words[i]; i++) {
        if (!strcmp(words[i], word)) {
            *out = i;
            text_free(&list);
            return true;
        }
        text_printf(&list, "%s%s", i ? ", " : "", words[i]);
    }
    fail(err, "%s: expected one of %s; found '%s'", what, list.data ? list.data : "(none)", word);
    text_free(&list);
    return false;
}

static bool is_json_path(const char *path)
{
    size_t length = strlen(path);
    return length > 5 && !strcmp(path + length - 5, ".json");
}

/* Where descriptions of a kind lie that have names. */
struct collection {
    const char *what, *one_of_it, *folder;
};
static const struct collection zoo = { "model", "a model of the zoo", INPUTS_MODELS };
static const struct collection frameworks = { "framework", "a framework of the catalogue", INPUTS_FRAMEWORKS };

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Names of a folder's files without .json, sorted; at most `most`, in the arena. A folder that cannot be opened has
 * none. */
static size_t file_names(struct inputs *in, const char *dir, const char **names, size_t most)
{
    size_t count = 0;
    DIR *open = opendir(dir);
    if (!open && errno == ENOMEM)
        memory_fell_short();
    for (struct dirent *entry; open && count < most && (entry = readdir(open));) {
        size_t length = strlen(entry->d_name);
        const char *name = is_json_path(entry->d_name) ? arena_strndup(&in->arena, entry->d_name, length - 5) : NULL;
        if (name)
            names[count++] = name;
    }
    if (open)
        closedir(open);
    if (count)
        qsort(names, count, sizeof *names, by_name);
    return count;
}

static bool is_regular(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

size_t inputs_names(struct inputs *in, const char *folder, const char **names, size_t most)
{
    struct text path = { 0 };
    text_printf(&path, "%s/%s", in->cli->data_dir, folder);
    size_t count = path.failed ? 0 : file_names(in, path.data, names, most);
    text_free(&path);
    return count;
}

/* The file behind a name. */
static bool named_file(struct inputs *in, const struct collection *of, const char *name, const char **out,
                       struct error *err)
{
    if (!strcmp(name, "-") || strchr(name, '/') || is_json_path(name) || is_regular(name)) {
        *out = name;
        return true;
    }
    const char *names[256], *dir = NULL;
    struct text path = { 0 };
    text_printf(&path, "%s/%s", in->cli->data_dir, of->folder);
    dir = path.failed ? NULL : arena_strdup(&in->arena, path.data);
    text_printf(&path, "/%s.json", name);
    *out = path.failed ? NULL : arena_strdup(&in->arena, path.data);
    text_free(&path);
    if (!dir || !*out)
        return fail_memory(err);
    if (access(*out, R_OK) == 0)
        return true;
    size_t count = file_names(in, dir, names, 256);
    const char *near = text_nearest(name, names, count);
    if (near)
        return fail(err, "%s '%s': neither a file nor %s; did you mean %s?", of->what, name, of->one_of_it, near);
    struct text list = { 0 };
    for (size_t i = 0; i < count; i++)
        text_printf(&list, " %s", names[i]);
    fail(err, "%s '%s': neither a file nor %s (%s), which has:%s", of->what, name, of->one_of_it, dir,
         list.data ? list.data : " nothing");
    text_free(&list);
    return false;
}

/* The model that was read is what plans are made for, wherever their files come to lie. */
static bool keep_model(struct inputs *in, const char *source, struct error *err)
{
    if (!model_document(&in->description, in->model, err))
        return false;
    in->context.model = (struct plan_origin){
        .source = source, .name = in->model->name, .hash = in->model->hash, .description = json_root(in->description)
    };
    return true;
}

/* Takes the adapters that lie in the folder of a model's file, unless others were named. */
static bool take_adapters_beside(struct inputs *in, const char *path, struct error *err)
{
    const char *slash = strrchr(path, '/');
    struct text beside = { 0 };
    text_printf(&beside, "%.*sadapter_config.json", slash ? (int)(slash + 1 - path) : 0, path);
    bool short_of_memory = beside.failed, is_there = !short_of_memory && access(beside.data, R_OK) == 0;
    in->reading.adapter_name = is_there ? arena_strdup(&in->arena, beside.data) : NULL;
    text_free(&beside);
    if (short_of_memory)
        return fail_memory(err);
    return !is_there || (in->reading.adapter_name ? inputs_text(in, in->reading.adapter_name, &in->reading.adapter,
                                                                &in->reading.adapter_length, err)
                                                  : fail_memory(err));
}

bool inputs_model(struct inputs *in, const char *name, struct error *err)
{
    bool is_json = name[0] == '{';
    const char *path = "model", *text = name;
    size_t length = strlen(name);
    struct text notes = { 0 };
    bool named = in->reading.adapter != NULL;
    if (!is_json && !(name = inputs_model_path(in, name, err)))
        return false;
    if (!is_json && (!named_file(in, &zoo, name, &path, err) || !inputs_text(in, path, &text, &length, err) ||
                     (!named && !take_adapters_beside(in, path, err))))
        return false;
    in->reading.notes = &notes;
    bool ok = model_read_as(&in->model, path, text, length, &in->reading, err);
    if (ok && !in->silent && !named && in->reading.adapter && in->reading.foreign)
        fprintf(in->cli->talk, "note: with the adapters of %s, which lies beside it\n", in->reading.adapter_name);
    if (ok && !in->silent && notes.data)
        fputs(notes.data, in->cli->talk);
    text_free(&notes);
    in->reading.notes = NULL;
    in->reading.adapter = named ? in->reading.adapter : NULL; /* of this model's folder */
    if (!ok)
        return false;
    return keep_model(in, is_json ? in->model->name : name, err);
}

/* The file's name without folders and ending; NULL: out of memory. */
static const char *bare_name(struct inputs *in, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    return arena_strndup(&in->arena, name, strlen(name) - (is_json_path(name) ? strlen(".json") : 0));
}

static bool read_framework(struct inputs *in, const char *name, const struct framework *like, struct framework *out,
                           struct error *err)
{
    const char *path, *text;
    size_t length;
    if (!named_file(in, &frameworks, name, &path, err) || !inputs_text(in, path, &text, &length, err) ||
        !framework_read(out, &in->arena, path, text, length, like, err))
        return false;
    return strcmp(out->name, path) || (out->name = bare_name(in, path)) || fail_memory(err);
}

bool inputs_framework(struct inputs *in, const char *name, struct error *err)
{
    struct framework base = { 0 };
    if (!strcmp(name, "cleave"))
        return true;
    if (!read_framework(in, name, NULL, &in->framework, err))
        return false;
    if (in->framework.like && (!read_framework(in, in->framework.like, NULL, &base, err) ||
                               !read_framework(in, name, &base, &in->framework, err)))
        return false;
    if (base.like)
        return fail(err, "%s: \"like\" names %s, which itself is like %s; name that one", name, base.name, base.like);
    if (!model_keep(in->model, in->framework.stores_scores, in->framework.loss_keeps_fp32))
        return fail_memory(err);
    in->model->keeping = in->framework.keeping;
    in->model->keeping.takes_any_load = in->runs;
    in->facts.framework = &in->framework;
    in->context.framework =
        (struct plan_origin){ .source = name, .name = in->framework.name, .hash = in->framework.hash };
    return true;
}

bool inputs_catalogue(struct inputs *in, struct error *err)
{
    struct text dir = { 0 };
    text_printf(&dir, "%s/planner/facts/devices", in->cli->data_dir);
    bool ok = in->catalogue || (dir.failed ? fail_memory(err) : catalogue_read(&in->catalogue, dir.data, err));
    text_free(&dir);
    return ok;
}

bool inputs_cluster(struct inputs *in, const char *text, struct error *err)
{
    const char *json = text;
    size_t length = strlen(text);
    bool is_file = !strcmp(text, "-") || is_json_path(text);
    if (!inputs_catalogue(in, err) || (is_file && !inputs_text(in, text, &json, &length, err)) ||
        !cluster_read(&in->cluster, text[0] == '{' ? "cluster" : text, json, length, in->catalogue->entries,
                      in->catalogue->count, err))
        return false;
    in->facts.cluster = in->cluster;
    in->context.cluster = (struct plan_origin){ .source = text, .name = in->cluster->name, .hash = in->cluster->hash };
    return true;
}

/* What of the same device was read before, or a free place at the end. */
static struct profile **profile_place(struct inputs *in, const struct profile *more)
{
    for (int i = 0; i < in->profile_count; i++)
        if (!in->cluster || in->cluster->type_count == 1 || !strcmp(in->profiles[i]->device, more->device))
            return &in->profiles[i];
    return &in->profiles[in->profile_count++]; /* one per type at most: others are refused before */
}

/* Facts and context of all profiles and calibrations read so far. */
static bool link_profiles(struct inputs *in, const char *path, struct error *err)
{
    struct plan_origin *origin = &in->context.profile;
    struct text paths = { 0 };
    text_printf(&paths, "%s%s%s", origin->source ? origin->source : "", origin->source ? "," : "", path);
    const char *source = paths.failed ? NULL : arena_strdup(&in->arena, paths.data);
    text_free(&paths);
    if (!source)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    in->facts.profile = in->profile = in->profiles[0];
    *origin = in->profile
                  ? (struct plan_origin){ .source = source, .name = in->profile->machine, .hash = in->profile->hash }
                  : (struct plan_origin){ .source = source, .name = "calibration", .hash = HASH_START };
    for (int i = 1; i < in->profile_count; i++) {
        in->profiles[i - 1]->next = in->profiles[i];
        origin->hash = hash_i64(origin->hash, (int64_t)in->profiles[i]->hash);
    }
    for (int i = 0; i < in->calibration_count; i++)
        origin->hash = hash_i64(origin->hash, (int64_t)in->calibrations[i].hash);
    return true;
}

static bool add_calibration(struct inputs *in, const char *path, const char *text, size_t length, struct error *err)
{
    if (in->calibration_count == MAX_CALIBRATIONS)
        return fail(err, "--profile: expected at most %d calibrations, found more", MAX_CALIBRATIONS);
    return calibration_read(&in->calibrations[in->calibration_count++], &in->arena, path, text, length, err) &&
           link_profiles(in, path, err);
}

static bool add_profile(struct inputs *in, const char *path, struct error *err)
{
    const char *text;
    size_t length;
    struct profile *more = NULL, *merged = NULL;
    if (!inputs_text(in, path, &text, &length, err))
        return false;
    if (calibration_is(text, length))
        return add_calibration(in, path, text, length, err);
    if (!profile_read(&more, path, text, length, err))
        return false;
    struct facts facts = { .cluster = in->cluster, .profile = more };
    bool ok = !in->cluster || facts_check(&facts, err) || error_within(err, "%s", path);
    struct profile **place = ok ? profile_place(in, more) : NULL;
    ok = ok && profile_merge(&merged, *place, more, err);
    profile_free(more);
    if (!place || !ok) {
        in->profile_count -= place && !*place;
        return false;
    }
    profile_free(*place);
    *place = merged;
    return link_profiles(in, path, err);
}

bool inputs_correct(struct inputs *in, struct error *err)
{
    struct framework *framework = in->facts.framework ? &in->framework : NULL;
    for (int i = 0; i < in->calibration_count; i++) {
        const struct calibration *own = &in->calibrations[i];
        if (calibration_apply(own, in->cluster, framework) || in->corrects_some)
            continue;
        calibration_refuse(own, in->cluster, framework, err);
        return error_within(err, "--profile %s", in->context.profile.source);
    }
    return true;
}

bool inputs_profiles(struct inputs *in, const struct text_list *paths, struct error *err)
{
    for (int i = 0; paths && i < paths->count; i++)
        if (!add_profile(in, paths->item[i], err))
            return false;
    return true;
}

bool inputs_profiles_named(struct inputs *in, const char *paths, struct error *err)
{
    if (access(paths, R_OK) == 0)
        return add_profile(in, paths, err);
    char *copy = arena_strdup(&in->arena, paths), *rest = NULL;
    bool ok = copy != NULL || fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    for (char *path = copy ? strtok_r(copy, ",", &rest) : NULL; ok && path; path = strtok_r(NULL, ",", &rest))
        ok = access(path, R_OK) != 0 || add_profile(in, path, err);
    return ok;
}

/* Whether what was decided fits the model and the cluster. */
static bool check_decisions(struct inputs *in, struct error *err)
{
    const struct json *decisions = json_member(json_root(in->plan_file->document), "decisions");
    const struct plan *plan = in->plan_file->plan;
    const char *key = NULL;
    in->model->whole_blocks = plan->whole_blocks;
    if (!plan_graph_at(&in->graph, &key, in->model, plan, err) || !plan_check_at(&key, plan, in->graph, err))
        return json_error_within(json_at_key(decisions, key), err);
    return plan->rank_count == in->cluster->device_count ||
           json_fail(json_member(decisions, "stages"), err,
                     "the plan is for %d devices, the cluster %s has %d: give --cluster one of as many, or plan anew",
                     plan->rank_count, in->cluster->name, in->cluster->device_count);
}

bool inputs_reserve(struct inputs *in, const char *text, struct error *err)
{
    enum { LEAST_RESERVE = 1 << 10 }; /* bytes that somebody may mean who names no unit */
    size_t length = strlen(text);
    int64_t bytes = 0;
    double share = 0;
    bool percent = length > 0 && text[length - 1] == '%';
    if (percent ? !text_read_double(text, length - 1, &share) || !(share >= 0 && share < 100)
                : !text_read_bytes(text, &bytes))
        return fail(err, "--reserve: expected bytes or a percentage below 100%%, such as 2GiB, 2GB or 5%%, found '%s'",
                    text);
    if (!percent && text_read_double(text, length, &share) && share > 0 && share < LEAST_RESERVE)
        return fail(err, "--reserve: %s without a unit would be so many bytes: type %sGiB, %sGB, %s%% or %sB", text,
                    text, text, text, text);
    in->context.reserve = text;
    return cluster_set_reserve(in->cluster, bytes, percent ? share : -1) ||
           fail(err, "--reserve: %s leaves nothing of the device's memory", text);
}

/* What is there and has no path, as a pipe behind /dev/stdin, lies in no folder. */
static bool is_elsewhere(const char *path, const char *folder, size_t length)
{
    char *own = realpath(path, NULL);
    bool elsewhere = own ? length == 0 || strncmp(own, folder, length) != 0 : access(path, F_OK) == 0;
    free(own);
    return elsewhere || strcmp(path, "-") == 0;
}

bool inputs_are_elsewhere(const char *paths, const char *file)
{
    char *copy = strdup(paths), *other = realpath(file, NULL), *slash = other ? strrchr(other, '/') : NULL,
         *rest = copy;
    size_t length = slash ? (size_t)(slash - other) + 1 : 0;
    bool elsewhere = !copy || is_elsewhere(paths, other, length); /* a path may have a comma: who reads it tries that */
    for (char *path; !elsewhere && (path = strsep(&rest, ","));)
        elsewhere = is_elsewhere(path, other, length);
    free(copy);
    free(other);
    return elsewhere;
}

/* A name that stands in the plan file (under the key of its context), or that was given in its place. What a stranger's
 * plan finds elsewhere is not quoted. */
static bool fail_source(const struct inputs *in, const char *path, const char *given, const char *key,
                        const char *source, struct error *err)
{
    const struct json *at = json_member(json_root(in->plan_file->document), "context");
    if (!given && err->kind == ERROR_INPUT && inputs_are_elsewhere(source, path)) {
        *err = (struct error){ 0 };
        fail(err, "%s is not in the plan's folder, and it cannot be taken: read it by itself to see why", source);
    }
    return given ? error_within(err, "%s", path) : json_error_within(json_member(at, key), err);
}

bool inputs_names_plan(struct inputs *in, const char *path)
{
    struct error none = { 0 };
    struct plan_file *file = NULL;
    const char *text;
    size_t length;
    bool is_plan = is_json_path(path) && inputs_text(in, path, &text, &length, &none) &&
                   plan_json_read(&file, path, text, length, &none);
    plan_file_free(file);
    return is_plan;
}

/* The model given, else the plan's own description, else what the file names: a stranger's plan must not make this
 * read, and quote in its messages, what lies elsewhere. */
static bool plan_model(struct inputs *in, const char *path, const char *given, struct error *err)
{
    const struct plan_origin *own = &in->plan_file->context.model;
    if (!given && own->description)
        return model_read_value(&in->model, own->description, err) && keep_model(in, own->source, err);
    if (!given && inputs_are_elsewhere(own->source, path))
        fail(err, "the plan does not describe its model, and names one that is not in its folder: give --model %s",
             strcmp(own->source, "-") ? own->source : "MODEL");
    else if (inputs_model(in, given ? given : own->source, err))
        return true;
    return fail_source(in, path, given, "model", "", err);
}

bool inputs_plan(struct inputs *in, const char *path, const char *model, const char *cluster,
                 const struct text_list *profiles, struct error *err)
{
    const char *text;
    size_t length;
    if (strcmp(path, "-") != 0 && !is_json_path(path) && access(path, F_OK) != 0)
        return fail(err, "%s: expected a plan file, found no file; `cleave plan MODEL ... -o plan.json` makes one",
                    path);
    if (!inputs_text(in, path, &text, &length, err) || !plan_json_read(&in->plan_file, path, text, length, err))
        return false;
    const struct plan_context *context = &in->plan_file->context;
    const char *own_model = context->model.source, *own_cluster = context->cluster.source;
    if (!(model || own_model) || !(cluster || own_cluster))
        return fail(err, "%s: the plan does not name its %s: give --%s", path, model || own_model ? "cluster" : "model",
                    model || own_model ? "cluster" : "model");
    if (!plan_model(in, path, model, err))
        return false;
    in->model->keeping.takes_any_load = in->runs; /* again where a framework is read, whose keeping replaces this */
    if (!inputs_cluster(in, cluster ? cluster : own_cluster, err))
        return fail_source(in, path, cluster, "cluster", own_cluster, err);
    if (!inputs_profiles(in, profiles, err))
        return error_within(err, "%s", path);
    if (!in->context.profile.source && context->profile.source &&
        !inputs_profiles_named(in, context->profile.source, err))
        return fail_source(in, path, NULL, "profile", context->profile.source, err);
    if (context->framework.source && !inputs_framework(in, context->framework.source, err))
        return fail_source(in, path, NULL, "framework", context->framework.source, err);
    if (!inputs_correct(in, err))
        return error_within(err, "%s", path);
    struct plan_context now = in->context;
    if (!profiles || profiles->count == 0)
        now.profile.source = NULL; /* measured again since: predictions may differ, decisions stand */
    if (!model && context->model.description)
        now.model.source = "the description beside it";
    const struct json *at = json_member(json_root(in->plan_file->document), "context");
    if (!plan_context_check(context, at, &now, err))
        return false;
    if (context->reserve && !inputs_reserve(in, context->reserve, err))
        return fail_source(in, path, NULL, "reserve", "", err);
    return check_decisions(in, err);
}

bool inputs_write(const struct cli *cli, const char *path, const char *data, size_t length, struct error *err)
{
    if (!data)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (path && strcmp(path, "-"))
        return file_write(path, data, length, err);
    if (fwrite(data, 1, length, cli->out) != length)
        return fail_kind(err, ERROR_ENVIRONMENT, "cannot write to standard output");
    return true;
}

bool inputs_can_write(const char *path, struct error *err)
{
    return !path || inputs_is_stdout(path) || file_check_writable(path, err);
}

bool inputs_is_stdout(const char *path)
{
    return path && !strcmp(path, "-");
}

bool inputs_has_profile(const struct inputs *in, const char *path, struct error *err)
{
    const struct plan_origin *made = &in->plan_file->context.profile;
    return !made->source || in->context.profile.source ||
           fail(err, "%s: the plan was made with the profile %s, which cannot be read; give it with --profile", path,
                made->source);
}

bool inputs_hand_out(const struct cli *cli, const char *path, char *data, size_t length, struct error *err)
{
    bool ok = inputs_write(cli, path, data, length, err);
    free(data);
    return ok;
}

bool inputs_hand_out_json(const struct cli *cli, const char *path, struct json_writer *w, struct error *err)
{
    size_t length = 0;
    char *text = json_finish(w, &length);
    return inputs_hand_out(cli, path, text, length, err);
}

bool inputs_hand_out_text(const struct cli *cli, const char *path, struct text *text, struct error *err)
{
    bool ok = inputs_write(cli, path, text->failed ? NULL : text->data, text->length, err);
    text_free(text);
    return ok;
}

bool inputs_write_trace(const struct cli *cli, const char *path, const struct program *program,
                        const struct timeline *timeline, struct error *err)
{
    size_t length = 0;
    char *trace = trace_write(program, timeline, &length);
    return inputs_hand_out(cli, path, trace, length, err);
}

bool inputs_program(struct program **out, const struct plan *plan, const struct graph *graph, struct error *err)
{
    struct program *program = NULL;
    if (!lower_program(&program, graph, plan, err) || !layout_program(program, err) || !verify_program(program, err)) {
        program_free(program);
        return false;
    }
    *out = program;
    return true;
}

/* Passes of a layer over a micro-batch: GPT-2 with 32 of them (864 passes) took 90 ms of processor time, a 7B model
 * with 8 (528) 30 ms, lowering, layout and verification together (three runs each on two shared cores). */
enum { VERIFY_PASSES = 400 };

bool inputs_soon_verified(const struct plan *plan)
{
    return (int64_t)plan->layer_count * plan->micro_batch_count <= VERIFY_PASSES;
}

bool inputs_verify(bool *verified, const struct plan *plan, const struct graph *graph, struct error *err)
{
    struct program *program = NULL;
    *verified = inputs_soon_verified(plan);
    if (!*verified)
        return true;
    bool ok = inputs_program(&program, plan, graph, err);
    program_free(program);
    return ok;
}

void inputs_say_unverified(const struct cli *cli, const char *path)
{
    fprintf(cli->talk, "its program is too long to verify in passing; cleave simulate %s and cleave run do it\n",
            path ? path : "PLAN");
}
