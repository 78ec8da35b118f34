#include "cli/aim.h"
#include "base/text.h"
#include "cli/print.h"
#include "planner/cost/cost.h"
#include "planner/estimate/estimate.h"
#include "planner/space/choice.h"
#include "planner/space/wider.h"
#include <stdio.h>
#include <string.h>

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

static bool takes_model(const struct target *target, const struct launch *launch, const struct launch_context *context)
{
    for (const struct target_rule *rule = target->rules; rule->name; rule++)
        if (strcmp(rule->name, "model") == 0 && !rule->holds(launch, context))
            return false;
    return true;
}

static bool keeps_rule(const struct target *target, const struct target_rule *rule, const struct launch *launch,
                       const struct launch_context *context, struct error *err)
{
    struct text detail = { 0 }, others = { 0 }; /* the targets that take a model which this one does not */
    if (rule->holds(launch, context))
        return true;
    if (memory_has_fallen_short()) /* it may hold */
        return fail_memory(err);
    if (rule->detail)
        rule->detail(&detail, launch, context);
    for (int i = 0; targets[i] && strcmp(rule->name, "model") == 0; i++)
        if (takes_model(targets[i], launch, context))
            text_printf(&others, "%s%s", others.data ? ", " : "; the model is one for --target ", targets[i]->name);
    fail(err, "%s (%s) cannot be told this: rule %s requires that %s%s%s (%s)%s", target->name, target->release,
         rule->name, rule->text, detail.data ? "; found: " : "", detail.data ? detail.data : "", rule->source,
         others.data ? others.data : "");
    text_free(&detail);
    text_free(&others);
    return false;
}

static bool keeps_rules(const struct target *target, const struct launch *launch, const struct launch_context *context,
                        struct error *err)
{
    const struct target_rule *rule = target_broken_rule(target, launch, context);
    return !rule || keeps_rule(target, rule, launch, context, err);
}

/* Gradients in the precision that they have anyway are not something to be told. */
static void take_usual_gradients(struct optimizer *optimizer, const struct graph *graph, enum dtype dtype)
{
    struct optimizer usual = *optimizer;
    usual.gradients = GRADIENTS_USUAL;
    const int narrow = graph->keeping.narrow_gradients; /* of as many bytes there is one precision beside a dtype */
    if (optimizer_gradient_bytes(optimizer, narrow, dtype) == optimizer_gradient_bytes(&usual, narrow, dtype))
        *optimizer = usual;
}

static struct launch_context context_on(const struct inputs *in, const struct cluster *cluster)
{
    struct launch_context context = { .model = in->model,
                                      .graph = in->graph,
                                      .devices_per_node = cluster_node_size(cluster),
                                      .device_count = cluster->device_count,
                                      .device_name = cluster->types[0].device.name };
    for (int t = 0; t < cluster->type_count; t++)
        context.nodes_differ |= cluster->types[t].levels[0].fanout != context.devices_per_node;
    return context;
}

/* A launch of data ranks alone. */
static struct launch plain_launch(const struct space *space, const struct launch_context *context)
{
    struct launch plain = launch_plain;
    plain.data = context->device_count;
    plain.batch = space->batch;
    plain.sequence = context->graph->sequence;
    plain.dtype = space->dtype;
    plain.optimizer = space->optimizer;
    return plain;
}

bool aim_takes_dtype(const struct target *target, enum dtype dtype)
{
    struct launch plain = launch_plain;
    plain.dtype = dtype;
    for (const struct target_rule *rule = target->rules; rule->name; rule++)
        if (strcmp(rule->name, "dtype") == 0)
            return rule->holds(&plain, NULL);
    return true;
}

bool aim_restrict(struct space *space, struct inputs *in, const struct target *target, struct error *err)
{
    struct graph *graph = NULL;
    in->model->whole_blocks = true;
    if (!graph_take(&graph, in->model, space->batch, space->sequence, 1, err))
        return false;
    target->allow(space, graph);
    space_keep_weights(space);
    take_usual_gradients(&space->optimizer, graph, space->dtype);
    struct launch_context context = context_on(in, in->cluster);
    context.graph = graph;
    const struct launch plain = plain_launch(space, &context);
    /* These rules hold or not whatever plan is chosen, so that a job that breaks one needs no search. */
    static const char *const asked_first[] = { "model", "optimizer", "nodes", "dtype" };
    bool good = true;
    for (const struct target_rule *rule = target->rules; rule->name && good; rule++)
        for (size_t i = 0; i < sizeof asked_first / sizeof *asked_first && good; i++)
            good = strcmp(rule->name, asked_first[i]) != 0 || keeps_rule(target, rule, &plain, &context, err);
    graph_free(graph);
    return good;
}

struct launch_context aim_context(const struct inputs *in)
{
    return context_on(in, in->cluster);
}

bool aim_predicted(struct launch_context *context, struct inputs *in, struct error *err)
{
    int stages = in->plan_file->predicted_stages;
    int64_t *available = arena_alloc(&in->arena, (size_t)stages + 1, sizeof *available);
    if (!available)
        return fail_memory(err);
    for (int s = 0; s < stages; s++)
        available[s] = cost_stage_available_bytes(&in->facts, in->plan_file->plan, s);
    context->available_bytes = available;
    context->step_ns = in->plan_file->predicted_step_ns;
    context->framework = in->facts.framework ? in->facts.framework->name : NULL;
    context->stage_count = stages;
    context->peak_bytes = in->plan_file->predicted_peak_bytes;
    return true;
}

bool aim_check(const struct inputs *in, const struct target *target, const struct launch *launch,
               const char *const *beyond, struct error *err)
{
    struct launch_context context = aim_context(in);
    context.beyond = beyond;
    return keeps_rules(target, launch, &context, err);
}

bool aim_launch(struct launch *out, struct inputs *in, const struct target *target, const struct plan *plan,
                struct error *err)
{
    return launch_of_plan(out, &in->arena, plan, in->graph, err) && aim_check(in, target, out, NULL, err);
}

struct keeper {
    const struct model *model;
    const struct target *target;
    struct arena arena; /* of launches */
    struct launch_context context;
    struct error why; /* of the first plan that the target could not be told */
    const struct aim *aim;
    const struct search_options *options; /* of the whole search */
};

/* Whether the target can be told the plan. */
static bool keeps(void *self, const struct plan *plan)
{
    struct keeper *k = self;
    struct graph *graph = NULL;
    struct launch launch;
    if (!plan_graph(&graph, k->model, plan, NULL))
        return false;
    struct launch_context context = k->context;
    context.graph = graph;
    bool good =
        launch_of_plan(&launch, &k->arena, plan, graph, &k->why) && keeps_rules(k->target, &launch, &context, &k->why);
    graph_free(graph);
    return good;
}

static bool treats(void *self, const struct space *space)
{
    const struct keeper *k = self;
    return target_treats(k->target, space, &k->context);
}

static void narrows(void *self, struct space *space)
{
    const struct keeper *k = self;
    if (k->target->narrow)
        k->target->narrow(space);
}

/* Of further plans, and of those that were simulated on the way, it leaves what the target can be told. */
static void drop_others(struct search_result *result, struct keeper *keeper)
{
    int kept = 0, kept_plans = result->plan_count > 0; /* the best is told */
    for (int i = kept_plans; i < result->plan_count; i++)
        if (keeps(keeper, result->plans[i].plan)) {
            result->plans[kept_plans++] = result->plans[i];
        } else {
            plan_free(result->plans[i].plan);
            estimate_free(result->plans[i].estimate);
        }
    result->plan_count = kept_plans;
    for (int i = 0; i < result->simulated_count; i++)
        if (keeps(keeper, result->simulated[i].plan))
            result->simulated[kept++] = result->simulated[i];
        else
            plan_free(result->simulated[i].plan);
    result->simulated_count = kept;
}

/* Launches that are like a plain one but for three of its settings, as most rules are about no more. */
struct probe {
    const struct keeper *keeper;
    struct launch plain;
    struct space all; /* what the target has */
    int count;
    struct setting_of_choice {
        enum space_choice choice;
        int64_t value;
    } settings[CHOICE_COUNT * SPACE_VALUES];
};

static void probe_open(struct probe *probe, const struct keeper *keeper, const struct space *space)
{
    probe->keeper = keeper;
    probe->plain = plain_launch(space, &keeper->context);
    probe->all = space_default(space->batch, space->sequence, space->dtype);
    probe->all.optimizer = space->optimizer;
    probe->count = 0;
    keeper->target->allow(&probe->all, keeper->context.graph);
    for (enum space_choice c = 0; c < CHOICE_COUNT; c++) {
        const int64_t least = choice_facts[c].least;
        const struct allowed open = { 2, { least, least + 1 } }, *known = &probe->all.range[c];
        known = known->count > 0 ? known : &open;
        if (launch_set_choice(&probe->plain, c, known->values[0]))
            for (int i = 1; i < known->count; i++)
                probe->settings[probe->count++] = (struct setting_of_choice){ c, known->values[i] };
    }
}

/* True when the launch keeps all rules. What degrees leave of the devices are data ranks, and a micro-batch is of one
 * sequence or of all that a rank has. */
static bool is_told(struct launch *launch, const struct probe *probe)
{
    launch->data = max_i64(1, probe->plain.data / (launch->tensor * launch->context * launch->pipeline));
    if (launch->micro_batch > 1)
        launch->micro_batch = max_i64(1, launch->batch / launch->data);
    return !target_broken_rule(probe->keeper->target, launch, &probe->keeper->context);
}

/* True when no such launch keeps the rules with this value of the choice, and some do with another; *broken is one of
 * these with the value. */
static bool is_refused(struct launch *broken, const struct probe *probe, enum space_choice choice, int64_t value)
{
    const int none = probe->count;
    bool any = false;
    for (int i = 0; i <= none; i++)
        for (int j = i; j <= none; j++)
            for (int k = j; k <= none; k++) {
                struct launch other = probe->plain, own;
                for (int n = 0; n < 3; n++) {
                    const int at = n == 0 ? i : n == 1 ? j : k;
                    if (at < none)
                        launch_set_choice(&other, probe->settings[at].choice, probe->settings[at].value);
                }
                own = other;
                launch_set_choice(&own, choice, value);
                if (is_told(&own, probe))
                    return false;
                if (!any && is_told(&other, probe)) {
                    *broken = own;
                    any = true;
                }
            }
    return any;
}

/* How a value of the choice is told: by its name, or as a number. */
static const char *value_told(char out[CHOICE_VALUE_BYTES], enum space_choice choice, int64_t value)
{
    const char *word = choice_value_name(out, choice, value);
    if (!word)
        snprintf(out, CHOICE_VALUE_BYTES, "%lld", (long long)value);
    return word ? word : out;
}

static bool refuse_value(const struct keeper *keeper, enum space_choice choice, int64_t value,
                         const struct allowed *known, struct error *err)
{
    char name[CHOICE_VALUE_BYTES];
    struct text text = { 0 };
    text_printf(&text, "%s (%s) cannot be told %s %s", keeper->target->name, keeper->target->release,
                choice_facts[choice].name, value_told(name, choice, value));
    for (int i = 0; i < known->count; i++) {
        const char *before = i + 1 < known->count ? ", " : " or ";
        text_printf(&text, "%s%s", i == 0 ? ": it has " : before, value_told(name, choice, known->values[i]));
    }
    if (text.failed)
        fail_memory(err);
    else
        fail(err, "%s", text.data);
    text_free(&text);
    return false;
}

/* Refuses a space where a choice has only values that no launch of the target has: a search would look at all plans to
 * find that it can be told none. */
static bool some_launch_has(const struct keeper *keeper, const struct space *space, struct error *err)
{
    struct probe probe;
    probe_open(&probe, keeper, space);
    for (enum space_choice c = 0; c < CHOICE_COUNT; c++) {
        const struct allowed *own = &space->range[c], *known = &probe.all.range[c];
        struct launch broken;
        int refused = 0;
        while (known->count > 0 && refused < own->count && !allowed_has(known, own->values[refused]) &&
               (!launch_says(c) || is_refused(&broken, &probe, c, own->values[refused])))
            refused++;
        if (refused > 0 && refused == own->count)
            return launch_says(c) ? keeps_rules(keeper->target, &broken, &keeper->context, err)
                                  : refuse_value(keeper, c, own->values[0], known, err);
    }
    return true;
}

/* What is below the closed form of the shortest plan need not wait for its simulation, which is rarely longer. */
static void begin_look(void *self, int64_t formula_ns)
{
    const struct keeper *keeper = self;
    if (!keeper->aim->look->begun) /* else in a narrower space, where nothing fitted */
        free_look_begin(keeper->aim->look, keeper->aim->in, keeper->options, formula_ns);
}

/* *untold: of the first plan that fits and that the target could not be told. */
static bool search_under(struct search_result **out, struct uniform_choice *choice, const struct aim *aim,
                         const struct facts *facts, const struct search_options *options, struct error *untold,
                         struct error *err)
{
    struct keeper keeper = { .model = aim->in->model,
                             .target = aim->target,
                             .context = context_on(aim->in, facts->cluster),
                             .aim = aim,
                             .options = options };
    struct graph *graph = NULL; /* which operators its blocks have */
    if (!graph_take(&graph, keeper.model, options->space.batch, options->space.sequence, 1, err))
        return false;
    keeper.context.graph = graph;
    const struct uniform_demand demand = {
        .self = &keeper, .treats = treats, .narrows = narrows, .keeps = keeps, .weighed = aim->look ? begin_look : NULL
    };
    bool found = some_launch_has(&keeper, &options->space, err) &&
                 search_uniform(out, choice, keeper.model, facts, options, &demand, err);
    *untold = keeper.why;
    if (found)
        drop_others(*out, &keeper);
    graph_free(graph);
    arena_free(&keeper.arena);
    return found;
}

bool aim_search(struct search_result **out, struct uniform_choice *choice, struct inputs *in,
                const struct target *target, const struct search_options *options, struct free_look *look,
                struct error *err)
{
    struct aim aim = { .in = in, .target = target, .look = look };
    struct error untold = { 0 };
    if (search_under(out, choice, &aim, &in->facts, options, &untold, err)) {
        struct search_result *result = *out;
        if (result->feasible || result->why || result->nearest.plan || !*untold.message)
            return true;
        struct text why = { 0 }; /* some fit; of the others nothing can be said */
        text_printf(&why, "nothing fits that %s can be told; of a plan that fits it cannot be told this: %s",
                    target->name, untold.message);
        result->why = why.failed ? NULL : arena_strdup(&result->arena, why.data);
        text_free(&why);
        return result->why || fail_memory(err);
    }
    if (err->kind == ERROR_INFEASIBLE && *untold.message)
        error_within(err, "%s", untold.message);
    return false;
}

enum { FURTHER_RATES = 2 }; /* the explainer's own facts have the number before it */

bool aim_explain(void *self, struct search_result **out, const struct facts *facts,
                 const struct search_options *options, struct error *err)
{
    struct aim *aim = self;
    struct uniform_choice choice;
    struct error why = { 0 }, untold = { 0 };
    struct search_options own = *options;
    if (own.prices && !own.rates) /* those of its tries are of one number */
        own.rates = FURTHER_RATES + (uint64_t)atomic_fetch_add(&aim->asked, 1);
    bool found = search_under(out, &choice, aim, facts, &own, &untold, &why);
    if (found && ((*out)->feasible || !*untold.message))
        return true;
    if (found || why.kind == ERROR_INFEASIBLE) { /* what fits cannot be told: an answer, not a failure */
        why = *untold.message ? untold : why;
        why.kind = ERROR_INPUT;
    }
    search_result_free(*out);
    *out = NULL;
    return fail_with(err, &why);
}

/* What the try has other than the best one: " recompute block, reshard false". */
static void say_try(FILE *out, const struct uniform_try *tried, const struct uniform_try *best)
{
    char name[CHOICE_VALUE_BYTES];
    const char *before = "";
    for (int at = 0; at < CHOICE_COUNT - LISTED_CHOICES; at++) {
        enum space_choice c = (enum space_choice)(LISTED_CHOICES + at);
        if (tried->value[at] == best->value[at])
            continue;
        fprintf(out, "%s %s %s", before, choice_facts[c].name, value_told(name, c, tried->value[at]));
        before = ",";
    }
}

static int64_t try_ns(const struct uniform_try *tried)
{
    return tried->step_ns ? tried->step_ns : tried->formula_ns;
}

/* The treatments that come next. Of those that are left out by a bound or by memory no time is known. */
static void say_tries(const struct cli *cli, const struct target *target, const struct uniform_choice *choice)
{
    enum { SHOWN = 2 };
    char number[TEXT_NUMBER_BYTES];
    const struct uniform_try *best = &choice->tries[choice->best];
    int64_t last_ns = best->step_ns;
    fprintf(cli->out, "%s (%s) treats all blocks alike; this is the best of %d ways to do so", target->name,
            target->release, choice->try_count);
    for (int shown = 0; shown < SHOWN; shown++) {
        const struct uniform_try *next = NULL;
        for (int i = 0; i < choice->try_count; i++) {
            const struct uniform_try *tried = &choice->tries[i];
            if (try_ns(tried) > last_ns && (!next || try_ns(tried) < try_ns(next)))
                next = tried;
        }
        if (!next)
            break;
        fprintf(cli->out, "%s\n ", shown == 0 ? ", next are" : "");
        say_try(cli->out, next, best);
        fprintf(cli->out, ": %s%s", text_duration_ns(number, try_ns(next)), next->step_ns ? "" : " by the formula");
        last_ns = try_ns(next);
    }
    fprintf(cli->out, "\n");
}

bool aim_say(const struct cli *cli, struct inputs *in, const struct target *target, const struct uniform_choice *choice,
             const struct search_options *options, struct free_look *look, const struct search_plan *best,
             const char *path, bool exported, struct error *err)
{
    say_tries(cli, target, choice);
    const int64_t step_ns = best->estimate->prediction.step_ns;
    if (!free_look_say(look, cli, in, options, step_ns, best->formula_ns > 0 ? best->formula_ns : step_ns, err))
        return false;
    if (!exported)
        fprintf(cli->talk, "next: cleave export %s --to %s -o DIR\n", path ? path : "PLAN (write one with -o)",
                target->short_name);
    return true;
}
