/* What a target can be told in place of a plan that it cannot. */
#include "cli/aim.h"
#include "cli/print.h"
#include "formats/plan_file.h"
#include "planner/program/schedule.h"
#include <string.h>
#include <unistd.h>

/* Of all dimensions whose names begin so, in the middle of the first stage. */
static int64_t degree_of(const struct plan *plan, const char *begin)
{
    const struct plan_stage *stage = &plan->stages[0];
    const struct plan_layer *layer = &plan->layers[stage->first_layer + stage->layer_count / 2];
    int64_t degree = 1;
    for (int a = 0; a < plan->atom_count; a++)
        if (strncmp(dimensions[layer->dim[a]]->name, begin, strlen(begin)) == 0)
            degree *= stage->atom[a];
    return degree;
}

/* What the other plan has in common with this one, from much to little. */
static void common(struct text *out, const struct plan *plan, int try)
{
    text_printf(out, "pp=%d,tp=%lld", schedule_place_of(plan, 0).stages, (long long)degree_of(plan, "tp"));
    if (try == 0)
        text_printf(out, ",cp=%lld,micro-batch=%lld", (long long)degree_of(plan, "cp"),
                    (long long)plan_micro_batch_size(plan));
}

/* The best that the target can be told with that in common; NULL: there is none. *refused: whether no plan of the job
 * can be, and why. */
static struct search_result *look(struct inputs *in, const struct target *target, const char *fixed, bool *refused,
                                  struct error *why)
{
    enum { SECONDS = 4 }; /* this is help beside a refusal, and such searches took 0.05 to 1.5 s of processor */
    const struct plan *plan = in->plan_file->plan;
    const struct space_options job = { .gap = DEFAULT_GAP, .time_limit_s = SECONDS, .jobs = 1 };
    struct space space = space_default(plan->batch, plan->sequence, plan->dtype);
    struct search_result *result = NULL;
    struct uniform_choice choice;
    space.optimizer = plan->optimizer;
    space.clip_norm = plan->clip_norm;
    space_usual_bucket(&space, in);
    bool restricted = aim_restrict(&space, in, target, why);
    *refused = !restricted && why->kind != ERROR_ENVIRONMENT;
    if (!restricted || (*fixed && !space_restrict(&space, "--fix", fixed, why)))
        return NULL;
    space_as_run(&space, in);
    struct search_options search = space_search_options(&job, &space);
    search.no_advice = true;
    if (aim_search(&result, &choice, in, target, &search, NULL, why) && result->feasible)
        return result;
    search_result_free(result);
    return NULL;
}

/* Gives the plan's model as it can be typed. Of a launch that describes its own the plan has a name, and no file. */
static const char *typed_model(struct inputs *in)
{
    const char *source = in->plan_file->context.model.source, *names[256];
    size_t count = inputs_names(in, "models/zoo", names, 256);
    for (size_t i = 0; source && i < count; i++)
        if (strcmp(names[i], source) == 0)
            return source;
    return source && access(source, R_OK) == 0 ? source : "MODEL";
}

/* Out of memory says nothing: there is a plan without it. */
static void say_command(const struct cli *cli, struct inputs *in, const struct target *target, const char *fixed)
{
    const struct plan_context *context = &in->plan_file->context;
    const struct plan *plan = in->plan_file->plan;
    const struct space usual = space_default(plan->batch, plan->sequence, plan->dtype);
    struct text text = { 0 };
    text_add(&text, "  cleave plan ");
    text_add_argument(&text, typed_model(in));
    text_add(&text, " --cluster ");
    text_add_argument(&text, context->cluster.source ? context->cluster.source : "CLUSTER");
    text_printf(&text, " --batch %lld --seq %lld --dtype %s --target %s", (long long)plan->batch,
                (long long)plan->sequence, dtype_names[plan->dtype], target->name);
    for (int i = 0; i < OPTIMIZER_PARTS; i++)
        if (plan->optimizer.part[i] > 0)
            text_printf(&text, " --%s %s", optimizer_parts[i].option,
                        optimizer_parts[i].names[plan->optimizer.part[i]]);
    if (plan->clip_norm != usual.clip_norm)
        text_printf(&text, " --clip %.17g", plan->clip_norm);
    if (context->profile.source) {
        text_add(&text, " --profile ");
        text_add_argument(&text, context->profile.source);
    }
    if (!text.failed)
        fprintf(cli->talk, "%s%s%s -o PLAN\n", text.data, *fixed ? " --fix " : "", fixed);
    text_free(&text);
}

void aim_say_nearest(const struct cli *cli, struct inputs *in, const struct target *target)
{
    enum { TRIES = 3 };
    char line[PRINT_LINE_BYTES], number[TEXT_NUMBER_BYTES];
    struct error why = { 0 };
    if (!inputs_framework(in, target->framework, &why))
        return;
    bool found = false, refused = false;
    for (int i = 0; i < TRIES && !found; i++) {
        struct text text = { 0 };
        if (i + 1 < TRIES)
            common(&text, in->plan_file->plan, i);
        const char *fixed = text.data ? text.data : "";
        struct search_result *result = text.failed ? NULL : look(in, target, fixed, &refused, &why);
        struct graph *graph = NULL;
        found = result && plan_graph(&graph, in->model, result->plans[0].plan, &why);
        if (found) {
            print_plan_line(result->plans[0].plan, graph, line);
            fprintf(cli->talk, "nearest that %s can be told: %s; a step of %s by its prices\n", target->name, line,
                    text_duration_ns(number, result->plans[0].estimate->prediction.step_ns));
            say_command(cli, in, target, fixed);
        }
        graph_free(graph);
        search_result_free(result);
        text_free(&text);
    }
    if (refused) {
        fprintf(cli->talk, "nor any other plan of this job: %s\n", why.message);
    } else if (!found) { /* which widens where nothing fits */
        fprintf(cli->talk, "a plan that %s can be told:\n", target->name);
        say_command(cli, in, target, "");
    }
}
