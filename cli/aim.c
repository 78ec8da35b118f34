#include "cli/aim.h"
#include "cli/print.h"
#include "planner/estimate/estimate.h"
#include "planner/space/choice.h"
#include <stdio.h>

bool aim_target(const struct target **out, const char *option, const char *name, struct error *err)
{
    struct text names = { 0 };
    *out = target_find(name);
    if (*out)
        return true;
    for (int i = 0; targets[i]; i++)
        text_printf(&names, "%s%s", i > 0 ? ", " : "", targets[i]->name);
    fail(err, "%s: expected one of %s; found '%s'", option, names.data ? names.data : "none", name);
    text_free(&names);
    return false;
}

bool aim_restrict(struct space *space, struct inputs *in, const struct target *target, struct error *err)
{
    struct graph *graph = NULL;
    in->model->whole_blocks = true;
    if (!graph_take(&graph, in->model, space->batch, space->sequence, 1, err))
        return false;
    target->allow(space, graph);
    graph_free(graph);
    return true;
}

struct launch_context aim_context(const struct inputs *in)
{
    return (struct launch_context){ .model = in->model,
                                    .graph = in->graph,
                                    .devices_per_node = cluster_node_size(in->cluster),
                                    .device_count = in->cluster->device_count,
                                    .device_name = in->cluster->types[0].device.name };
}

void aim_predicted(struct launch_context *context, const struct inputs *in)
{
    context->step_ns = in->plan_file->predicted_step_ns;
    context->stage_count = in->plan_file->predicted_stages;
    context->peak_bytes = in->plan_file->predicted_peak_bytes;
}

static bool broken(const struct target *target, const struct target_rule *rule, struct error *err)
{
    return fail(err, "%s (%s) cannot be told this plan: rule %s: %s (%s)", target->name, target->release, rule->name,
                rule->text, rule->source);
}

bool aim_launch(struct launch *out, struct inputs *in, const struct target *target, const struct plan *plan,
                struct error *err)
{
    struct launch_context context = aim_context(in);
    if (!launch_of_plan(out, &in->arena, plan, in->graph, err))
        return false;
    const struct target_rule *rule = target_broken_rule(target, out, &context);
    return !rule || broken(target, rule, err);
}

struct keeper {
    struct inputs *in;
    const struct target *target;
    struct launch_context context;
};

/* Whether the target can be told the plan. */
static bool keeps(void *self, const struct plan *plan)
{
    struct keeper *k = self;
    struct graph *graph = NULL;
    struct launch launch;
    if (!plan_graph(&graph, k->in->model, plan, NULL))
        return false;
    k->context.graph = graph;
    bool good = launch_of_plan(&launch, &k->in->arena, plan, graph, NULL) &&
                !target_broken_rule(k->target, &launch, &k->context);
    graph_free(graph);
    return good;
}

bool aim_search(struct search_result **out, struct uniform_choice *choice, struct inputs *in,
                const struct target *target, const struct search_options *options, struct error *err)
{
    struct keeper keeper = { .in = in, .target = target, .context = aim_context(in) };
    return search_uniform(out, choice, in->model, &in->facts, options, keeps, &keeper, err);
}

static void say_tries(const struct cli *cli, const struct target *target, const struct uniform_choice *choice)
{
    char number[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "%s (%s) treats all blocks alike:\n", target->name, target->release);
    for (int i = 0; i < choice->try_count; i++) {
        const struct uniform_try *tried = &choice->tries[i];
        fprintf(cli->out, "  ZeRO %lld, recompute %s%s%s: %s%s\n", (long long)tried->zero,
                recompute_names[tried->recompute], tried->offload ? ", offload " : "",
                tried->offload ? offload_names[tried->offload] : "",
                tried->step_ns > 0 ? text_duration_ns(number, tried->step_ns) : "nothing shorter fits",
                i == choice->best ? " *" : "");
    }
}

/* The optimum of the space without the target's limits, under the same framework's prices. */
static bool say_cost(const struct cli *cli, struct inputs *in, const struct search_options *options, int64_t step_ns,
                     struct error *err)
{
    struct search_result *result = NULL;
    char number[TEXT_NUMBER_BYTES];
    struct search_options free_of = *options;
    struct space usual = space_default(options->space.batch, options->space.sequence, options->space.dtype);
    usual.clip_norm = options->space.clip_norm;
    usual.bucket_bytes = options->space.bucket_bytes;
    free_of.space = usual;
    free_of.top = 1;
    free_of.paced = true;
    free_of.no_advice = true;
    space_as_run(&free_of.space, in);
    in->model->whole_blocks = false;
    bool good = search_run(&result, in->model, &in->facts, &free_of, err);
    in->model->whole_blocks = true;
    if (good && result->feasible) {
        int64_t free_ns = result->plans[0].estimate->prediction.step_ns;
        fprintf(cli->out, "its limits cost %.1f %%: without them %s\n", 100 * ((double)step_ns / (double)free_ns - 1),
                text_duration_ns(number, free_ns));
    }
    search_result_free(result);
    return good;
}

bool aim_say(const struct cli *cli, struct inputs *in, const struct target *target, const struct uniform_choice *choice,
             const struct search_options *options, int64_t step_ns, const char *path, struct error *err)
{
    say_tries(cli, target, choice);
    if (!say_cost(cli, in, options, step_ns, err))
        return false;
    fprintf(cli->talk, "next: cleave export %s --to %s -o DIR\n", path ? path : "PLAN (write one with -o)",
            target->short_name);
    return true;
}
