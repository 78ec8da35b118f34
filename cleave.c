/* The embedding interface over the planner. */
#include "cleave.h"
#include "formats/plan_json.h"
#include "models/model.h"
#include "planner/search/search.h"
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

struct work {
    struct model *model;
    struct cluster *cluster;
    struct profile *profile;
    struct facts facts;
    struct search_result *result;
};

static bool read_cluster(struct work *w, const struct cleave_request *r, struct error *err)
{
    struct catalogue_entry *catalogue = calloc((size_t)r->device_count + 1, sizeof *catalogue);
    if (!catalogue)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    for (int i = 0; i < r->device_count; i++)
        catalogue[i] = (struct catalogue_entry){ r->devices[i].name, r->devices[i].json, r->devices[i].length };
    bool ok = cluster_read(&w->cluster, "cluster", r->cluster, strlen(r->cluster), catalogue, r->device_count, err);
    free(catalogue);
    w->facts.cluster = w->cluster;
    return ok;
}

static bool read_dtype(enum dtype *out, const char *name, const struct cluster *cluster, struct error *err)
{
    *out = DTYPE_BF16;
    for (int i = 0; name && i < DTYPE_COUNT; i++)
        if (!strcmp(dtype_names[i], name)) {
            *out = (enum dtype)i;
            return cluster_check_dtype(cluster, *out, err);
        }
    return name ? fail(err, "dtype: expected bf16, fp16, fp32, fp64 or fp8, found '%s'", name)
                : cluster_check_dtype(cluster, *out, err);
}

static bool search(struct work *w, const struct cleave_request *r, struct error *err)
{
    enum dtype dtype;
    if (!r->model || !r->cluster || r->batch < 1)
        return fail(err, "request: model, cluster and a positive batch are required");
    if (!model_read(&w->model, r->model_name ? r->model_name : "model", r->model, r->model_length, NULL, err) ||
        !read_cluster(w, r, err) ||
        (r->profile && !profile_read(&w->profile, "profile", r->profile, r->profile_length, err)) ||
        !read_dtype(&dtype, r->dtype, w->cluster, err))
        return false;
    w->facts.profile = w->profile;
    if (!facts_check(&w->facts, err))
        return false;
    struct search_options options = { .space = space_default(r->batch, r->sequence, dtype), .top = 1 };
    return search_run(&w->result, w->model, &w->facts, &options, err) &&
           (w->result->feasible || search_infeasible(w->result, &options.space, err));
}

static bool write_answer(struct cleave_answer *answer, const struct work *w, const struct cleave_request *r,
                         struct error *err)
{
    const struct prediction *prediction = &w->result->plans[0].estimate->prediction;
    struct json_doc *description = NULL;
    if (!model_document(&description, w->model, err))
        return false;
    struct plan_context context = { .model = { r->model_name, w->model->name, w->model->hash, json_root(description) },
                                    .cluster = { r->cluster, w->cluster->name, w->cluster->hash },
                                    .cleave = CLEAVE_VERSION };
    if (w->profile)
        context.profile = (struct plan_origin){ "profile", w->profile->machine, w->profile->hash, NULL };
    answer->plan = plan_json_write(w->result->plans[0].plan, prediction, &context, &answer->plan_length);
    json_free(description);
    answer->step_s = (double)prediction->step_ns * 1e-9;
    return answer->plan || fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
}

EXPORT int cleave_plan(const struct cleave_request *request, struct cleave_answer *answer)
{
    struct work w = { 0 };
    struct error err = { 0 };
    *answer = (struct cleave_answer){ 0 };
    if (!search(&w, request, &err) || !write_answer(answer, &w, request, &err))
        memcpy(answer->message, err.message, sizeof answer->message);
    search_result_free(w.result);
    profile_free(w.profile);
    cluster_free(w.cluster);
    model_free(w.model);
    return (int)err.kind;
}

EXPORT void cleave_answer_free(struct cleave_answer *answer)
{
    free(answer->plan);
    *answer = (struct cleave_answer){ 0 };
}

EXPORT const char *cleave_version(void)
{
    return CLEAVE_VERSION;
}
