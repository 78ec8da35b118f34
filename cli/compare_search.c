/* What a report asks of the search beside the plans: less memory, fewer and more devices. */
#include "cli/aim.h"
#include "cli/compare_job.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "formats/plan_file.h"
#include "planner/explain/explain.h"
#include <stdlib.h>
#include <string.h>

static bool set_point(struct report_point *out, int devices, int64_t step_ns, int64_t peak_bytes,
                      const struct plan *plan, const struct graph *graph, struct error *err)
{
    char line[PRINT_LINE_BYTES];
    print_plan_line(plan, graph, line);
    *out = (struct report_point){ devices, step_ns, peak_bytes, strdup(line) };
    return out->words || fail_memory(err);
}

static bool search_frontier(struct job *job, const struct search_options *options, struct aim *aim, struct error *err)
{
    const struct inputs *in = job->inputs[0];
    struct explainer explainer;
    struct frontier frontier;
    explainer_open(&explainer, in->model, &in->facts, options);
    explainer.search = aim->target ? aim_explain : NULL;
    explainer.searcher = aim;
    bool good = explain_memory_frontier(&explainer, &frontier, err);
    if (good && frontier.count > 0) {
        job->frontier = calloc((size_t)frontier.count, sizeof *job->frontier);
        good = job->frontier || fail_memory(err);
    }
    for (int i = 0; good && i < frontier.count; i++) {
        const struct point *at = &frontier.points[i];
        good = set_point(&job->frontier[job->frontier_count++], at->devices, at->step_ns, at->peak_bytes,
                         at->solution.explained->plan, at->solution.explained->graph, err);
    }
    explainer_close(&explainer);
    return good;
}

/* Of the cluster: so many times its devices. False: they do not divide so, or would be too many. */
static bool open_part(struct varied *out, const struct facts *facts, int times, int parts)
{
    struct variation v = variation_none();
    struct error none = { 0 };
    int units = variation_units(facts->cluster), of_unit = variation_unit_devices(facts->cluster, 0);
    v.times = times;
    if (parts > 1 && units % parts == 0) {
        v.units = units / parts;
    } else if (parts > 1) { /* of one unit some devices */
        if (facts->cluster->type_count > 1 || units * of_unit % parts != 0 || units * of_unit / parts > of_unit)
            return false;
        v.units = 1;
        v.devices = units * of_unit / parts;
    }
    return varied_open(out, facts, &v, &none);
}

static bool add_scaled(struct job *job, const struct varied *varied, struct search_options *options, struct aim *aim,
                       struct error *err)
{
    const struct inputs *in = job->inputs[0];
    struct search_result *result = NULL;
    struct graph *graph = NULL;
    struct error why = { 0 };
    struct report_point *point = &job->scaling[job->scaling_count];
    int devices = varied->cluster->device_count;
    bool good = true, found = aim->target ? aim_explain(aim, &result, &varied->facts, options, &why)
                                          : search_run(&result, in->model, &varied->facts, options, &why);
    found = found && result->feasible;
    *point = (struct report_point){ .devices = devices };
    job->scaling_count++;
    if (found) {
        const struct search_plan *best = &result->plans[0];
        good = plan_graph(&graph, in->model, best->plan, err) &&
               set_point(point, devices, best->estimate->prediction.step_ns,
                         estimate_peak_bytes(&best->estimate->prediction), best->plan, graph, err);
        graph_free(graph);
    } else if (why.kind == ERROR_ENVIRONMENT || why.kind == ERROR_BUG) {
        good = fail_with(err, &why);
    }
    search_result_free(result);
    return good;
}

static bool search_scaling(struct job *job, struct search_options *options, struct aim *aim, struct error *err)
{
    static const struct {
        int times, parts;
    } sizes[] = { { 1, 4 }, { 1, 2 }, { 1, 1 }, { 2, 1 }, { 4, 1 } };
    enum { SIZES = sizeof sizes / sizeof *sizes };
    job->scaling = calloc(SIZES, sizeof *job->scaling);
    if (!job->scaling)
        return fail_memory(err);
    options->no_advice = true;
    for (int i = 0; i < SIZES; i++) {
        struct varied varied;
        if (!open_part(&varied, &job->inputs[0]->facts, sizes[i].times, sizes[i].parts))
            continue;
        bool good = add_scaled(job, &varied, options, aim, err);
        varied_free(&varied);
        if (!good)
            return false;
    }
    return true;
}

/* Beside a plan that was made for a target others are sought that it can be told, too, unless the user asks for any. */
static bool take_target(struct aim *aim, struct space *space, const struct job *job, struct error *err)
{
    const char *asked = job->a->space.target,
               *own = aim->in->plan_file ? aim->in->plan_file->context.target : aim->in->context.target;
    if (asked && strcmp(asked, "none") != 0 && (!own || strcmp(asked, own) != 0))
        return fail(err, "--target %s: the plan that was given first was made for %s: expected none, or that", asked,
                    own ? own : "no target");
    if (!own || (asked && strcmp(asked, "none") == 0))
        return true;
    if (!aim_target(&aim->target, "--target", own, err) || !aim_restrict(space, aim->in, aim->target, err))
        return error_within(err, "searched for %s, as the plan that was given first (any other: --target none)", own);
    fprintf(job->cli->talk,
            "note: what is searched for is such that %s (%s) can be told it, as the plan that was given first; any: "
            "--target none\n",
            aim->target->name, aim->target->release);
    return true;
}

bool compare_search(struct job *job, struct error *err)
{
    const struct compare_arguments *a = job->a;
    struct progress progress;
    struct space space = job->space;
    struct inputs *in = job->inputs[0];
    struct aim aim = { .in = in };
    if (!a->pareto && !a->scaling)
        return true;
    if (!a->automatic) {
        space = explain_space(job->comparison.entries[0].plan);
        if (!take_target(&aim, &space, job, err))
            return false;
        struct space_options own = a->space;
        own.reserve = NULL; /* the plan's, which was read with it */
        if (!space_apply(in, &space, &own, err))
            return false;
        space_as_run(&space, in);
    }
    struct search_options options = space_search_options(&a->space, &space);
    progress_begin(&progress, job->cli, "compare");
    progress_watch(&progress, &options);
    bool good = (!a->pareto || search_frontier(job, &options, &aim, err)) &&
                (!a->scaling || search_scaling(job, &options, &aim, err));
    progress_clear(&progress);
    return good;
}
