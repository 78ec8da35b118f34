/* Why this plan and not another; or, where nothing fits, why not, and what would do. */
#include "cli/explanation.h"
#include "cli/aim.h"
#include "cli/progress.h"
#include "cli/space_options.h"
#include "cli/stages.h"
#include "cli/widening.h"
#include "planner/space/wider.h"
#include "formats/plan_file.h"
#include "host/heap.h"
#include "formats/claim_read.h"
#include "planner/search/kept.h"
#include "planner/space/choice.h"
#include <string.h>
#include <unistd.h>

struct explain_arguments {
    struct space_options space;
    struct text_list versus, parts;
    const char *model;
    int64_t draws, seed;
    bool json;
};
static const struct explain_arguments defaults = { .space.gap = DEFAULT_GAP, .draws = 6, .seed = 1 };
#define AT(field) offsetof(struct explain_arguments, field)
static const struct option options[] = {
    LIST_OPTION("versus", AT(versus), "KEY=VALUE,...",
                "holds the plan against the best one of these choices, such as tp=8,pp=4; may be repeated"),
    LIST_OPTION("part", AT(parts), "NAME",
                "only this part beside the items: versus, alternatives, what-if or "
                "robustness; may be repeated (all)"),
    INT_OPTION("draws", AT(draws), "N", 1, 1000, "draws of noise for each amount, 5 and 20 % (6)"),
    INT_OPTION("seed", AT(seed), "N", 0, NO_LIMIT, "of the noise (1)"),
    FLAG_OPTION("json", AT(json), "one JSON object (cleave schema explanation)"),
    TEXT_OPTION("model", AT(model), "MODEL", "the plan's model, if it is no longer where the plan file says"),
    JOB_OPTIONS(struct explain_arguments, space),
    SEARCH_OPTIONS(struct explain_arguments, space),
    TEXT_OPTION("target", AT(space.target), "TARGET",
                "other plans are such that its release can be told; none: of a plan that was made for one, any"),
};

struct explaining {
    const struct cli *cli;
    const struct explain_arguments *a;
    struct space_options space; /* the arguments', whose target names one or is NULL */
    struct inputs in;
    struct aim aim; /* with a target */
    struct explainer explainer;
    struct explained *whole; /* the plan, as x's account has it */
    struct explanation x;
    struct progress progress;
    const char *what; /* is asked now */
};

static void show_asked(void *self, int answered, int count, int64_t best_ns)
{
    struct explaining *g = self;
    (void)best_ns;
    progress_say(&g->progress, "%s, %d of %d", g->what, answered, count);
}

/* Whether the part that has just been answered is to be printed: JSON is one document, at the end. What is printed
 * shows at once. */
static bool prints(struct explaining *g)
{
    progress_clear(&g->progress);
    return !g->a->json;
}

static void asks(struct explaining *g, const char *what)
{
    fflush(g->cli->out);
    g->what = what;
    progress_say(&g->progress, "%s", what);
}

static bool choose_parts(const struct explain_arguments *a, bool asked[PART_COUNT], struct error *err)
{
    for (int i = 0; i < PART_COUNT; i++)
        asked[i] = a->parts.count == 0;
    for (int i = 0; i < a->parts.count; i++) {
        int part = 0;
        if (!inputs_word("--part", a->parts.item[i], explain_parts, &part, err))
            return false;
        asked[part] = true;
    }
    return true;
}

/* What is missing of the plan to reproduce its facts: the file is there, but not what it was made with. */
static bool same_profile(const struct inputs *in, const char *path, struct error *err)
{
    const struct plan_origin *made = &in->plan_file->context.profile, *now = &in->context.profile;
    if (!made->source)
        return true;
    return made->hash == now->hash ||
           fail(
               err,
               "%s: the profile %s is not the one that the plan was made with (hash %016llx, found %016llx); give that "
               "one with --profile",
               path, now->source, (unsigned long long)made->hash, (unsigned long long)now->hash);
}

/* A batch is given for a model, and with it a cluster. */
static bool is_no_plan(struct explaining *g, const char *path, struct error *err)
{
    const struct space_options *o = &g->a->space;
    return !o->batch || o->cluster || !inputs_names_plan(&g->in, path) ||
           fail(err,
                "--batch belongs to a model; %s is a plan, which has its own (another batch: cleave plan MODEL "
                "--cluster CLUSTER --batch %lld; explain a model: give --cluster too)",
                path, (long long)o->batch);
}

/* A plan that was made for a target is explained among those that the target can be told, unless the user asks for any.
 */
static bool take_target(struct explaining *g, const char *path, struct error *err)
{
    const char *own = g->in.plan_file->context.target, *asked = g->a->space.target;
    if (asked && g->space.target && (!own || strcmp(asked, own) != 0))
        return fail(err,
                    "--target %s: %s is a plan that was made for %s%s; --target belongs to a model, or is none: any "
                    "other plan",
                    asked, path, own ? "" : "no target", own ? own : "");
    g->space.target = asked ? g->space.target : own;
    return true;
}

/* Adds what is not there yet; whether there was such. Of a choice that is free everything is there. */
static bool add_values(struct allowed *into, const struct allowed *more)
{
    bool added = false;
    for (int i = 0; into->count > 0 && i < more->count && into->count < SPACE_VALUES; i++)
        if (!allowed_has(into, more->values[i])) {
            into->values[into->count++] = more->values[i];
            added = true;
        }
    return added;
}

/* Other plans than one of a widened space are sought where it was found, too, unless the user says otherwise. */
static void take_widened(const struct explaining *g, struct space *space)
{
    const struct plan_file *file = g->in.plan_file;
    uint64_t widened = widening_read(file->search);
    struct claim claim = { 0 };
    struct error why = { 0 };
    if (!file->certificate || !claim_read(&claim, file->certificate, space, &why))
        widened = 0;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        if (widened >> choice & 1 && g->x.target && choice >= LISTED_CHOICES) /* the plan's own alone is claimed */
            add_values(&space->range[choice], &claim.space.range[choice]);
        else if (widened >> choice & 1)
            space->range[choice] = claim.space.range[choice];
    claim_free(&claim);
}

static bool read_plan(struct explaining *g, const char *path, struct space *space, const struct plan **plan,
                      struct error *err)
{
    const struct space_options *o = &g->a->space;
    if (access(path, R_OK) != 0 && strcmp(path, "-") != 0 && !strchr(path, '/') && !strstr(path, ".json"))
        return fail(err,
                    "%s: no such plan file; to explain the plan for a model, give --cluster and --batch as to "
                    "cleave plan",
                    path);
    if (!space_beside_plan(o, path, "explain a model: give --batch too", err))
        return false;
    if (!inputs_plan(&g->in, path, g->a->model, o->cluster, &o->profiles, err) ||
        !inputs_has_profile(&g->in, path, err) || (o->profiles.count == 0 && !same_profile(&g->in, path, err)))
        return false;
    *plan = g->in.plan_file->plan;
    *space = explain_space(*plan);
    if (!take_target(g, path, err) ||
        (g->space.target && !aim_target(&g->x.target, "--target", g->space.target, err)) ||
        (g->x.target && !aim_restrict(space, &g->in, g->x.target, err)))
        return false;
    take_widened(g, space);
    if (!space_apply(&g->in, space, o, err))
        return false;
    space_as_run(space, &g->in);
    return true;
}

/* ---- what the plan could choose from besides ---- */

/* Values that the choice may take in the space; where all may that need no name, those of schedules, else none. */
static struct allowed values_of(const struct space *space, enum space_choice choice)
{
    struct space copy = *space;
    struct allowed values = copy.range[choice];
    for (int i = 0; values.count < SPACE_VALUES && choice == CHOICE_SCHEDULE && space->schedule.count == 0; i++) {
        if (!schedules[i])
            break;
        if (!schedules[i]->asynchronous)
            values.values[values.count++] = i;
    }
    return values;
}

/* As --space takes them: choices for which the plan's own space has values that the default one has not, with those of
 * both and of the space given. Nothing when the latter has them all. */
static void list_missing(struct text *out, const struct space *own, const struct space *space)
{
    struct space free_space = space_default(space->batch, space->sequence, space->dtype);
    bool missing = false;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum space_choice choice = (enum space_choice)i;
        struct allowed all = values_of(&free_space, choice), given = values_of(space, choice),
                       wanted = values_of(own, choice);
        if ((choice == CHOICE_BUCKET && wanted.count == 1) || !add_values(&all, &wanted)) /* both have the plan's own */
            continue;
        missing = add_values(&given, &wanted) || missing;
        add_values(&all, &given);
        space_write_values(out, choice, &all);
    }
    if (!missing)
        text_free(out);
}

/* As --space takes them: choices of which the plan had less than there is now. */
static void list_narrower(struct text *out, const struct space *own, const struct space *space)
{
    for (int i = 0; i < CHOICE_COUNT; i++) {
        enum space_choice choice = (enum space_choice)i;
        struct allowed given = values_of(space, choice), had = values_of(own, choice);
        bool more = had.count > 0 && given.count == 0;
        for (int k = 0; had.count > 0 && k < given.count; k++)
            more = more || !allowed_has(&had, given.values[k]);
        if (more)
            space_write_values(out, choice, &had);
    }
}

static void note_narrower(const struct explaining *g, const struct space *own, const struct space *space)
{
    struct text text = { 0 }, cut = { 0 };
    bool ruled = own->rule_count > space->rule_count;
    list_narrower(&text, own, space);
    if (own->cut.count > 0 && space->cut.count == 0 && g->in.graph)
        stage_cuts_write(&cut, &own->cut, g->in.graph);
    if (text.length > 0 || cut.length > 0 || ruled)
        fprintf(g->cli->talk,
                "note: the plan was chosen from less than other plans are sought in now, so that they may be shorter "
                "for that alone: %s%s%s%s%s%s seeks them where it was chosen\n",
                text.length > 0 ? "--space " : "", text.length > 0 ? text.data : "",
                cut.length > 0 ? " --stages '" : "", cut.length > 0 ? cut.data : "", cut.length > 0 ? "'" : "",
                !ruled            ? ""
                : text.length > 0 ? " with its rules for layers"
                                  : "--fix with its rules for layers");
    text_free(&cut);
    text_free(&text);
}

/* Answers are of the space given, which need not be what the plan was chosen from. */
static void note_missing(const struct explaining *g, const struct space *space)
{
    const struct plan_file *file = g->in.plan_file;
    struct space fixed = explain_space(file->plan);
    struct space sought = *space;
    struct claim claim = { 0 };
    struct text text = { 0 };
    struct error why = { 0 };
    if (file->certificate && claim_read(&claim, file->certificate, &fixed, &why)) {
        if (g->x.target) /* the claim is of one way to treat blocks, and of what goes with it */
            memcpy(&sought.range[LISTED_CHOICES], &claim.space.range[LISTED_CHOICES],
                   (CHOICE_COUNT - LISTED_CHOICES) * sizeof *sought.range);
        if (g->x.target && g->x.target->narrow)
            g->x.target->narrow(&sought);
        list_missing(&text, &claim.space, &sought);
        note_narrower(g, &claim.space, &sought);
    }
    if (text.length > 0)
        fprintf(g->cli->talk,
                "note: the plan was chosen from more than other plans are sought in now: --space %s looks there, too, "
                "and takes longer\n",
                text.data);
    text_free(&text);
    claim_free(&claim);
}

/* What does not parse is told before anything is computed. */
static bool check_versus(const struct text_list *versus, const struct space *space, struct error *err)
{
    for (int i = 0; i < versus->count; i++) {
        struct space copy = *space;
        if (!space_restrict(&copy, "--versus", versus->item[i], err))
            return false;
    }
    return true;
}

static bool explain_versus(struct explaining *g, struct error *err)
{
    struct explanation *x = &g->x;
    for (int i = 0; i < g->a->versus.count && !explainer_ends(&g->explainer); i++) {
        struct space space = g->explainer.options.space;
        struct alternative *v = &x->versus[x->versus_count];
        v->kind = g->a->versus.item[i];
        asks(g, v->kind);
        if (!space_restrict(&space, "--versus", v->kind, err) ||
            !explainer_solve(&g->explainer, &space, g->explainer.facts, &v->solution, err) ||
            (v->solution.kind == SOLUTION_NO_MEMORY &&
             !explain_missing(&g->explainer, &space, g->explainer.facts, &v->solution.missing_bytes, err)))
            return false;
        if (prints(g))
            explanation_print_versus(g->cli, x, x->versus_count);
        x->versus_count++;
    }
    return true;
}

static bool explain_others(struct explaining *g, struct error *err)
{
    asks(g, "other plans");
    if (!explain_alternatives(&g->explainer, g->x.plan, &g->x.alternatives, err))
        return false;
    if (prints(g))
        explanation_print_alternatives(g->cli, &g->x);
    return true;
}

static void print_answer(void *self, const struct what_ifs *so_far)
{
    struct explaining *g = self;
    if (!prints(g))
        return;
    explanation_print_what_if(g->cli, so_far, so_far->count - 1);
    fflush(g->cli->out);
}

static bool explain_facts(struct explaining *g, struct error *err)
{
    asks(g, "other facts");
    if (!explain_what_ifs(&g->explainer, g->x.plan, &g->x.what_ifs, print_answer, g, err))
        return false;
    if (prints(g))
        explanation_print_binding(g->cli, &g->x);
    return true;
}

static void print_regret(void *self, int amount)
{
    struct explaining *g = self;
    if (!prints(g))
        return;
    explanation_print_regret(g->cli, &g->x, amount);
    fflush(g->cli->out);
}

static bool explain_noise(struct explaining *g, struct error *err)
{
    static const double amounts[MAX_NOISES] = { 0.05, 0.2 }; /* what lies between is between */
    asks(g, "robustness");
    if (!explain_regrets(&g->explainer, g->x.plan, amounts, MAX_NOISES, (int)g->a->draws, (uint64_t)g->a->seed,
                         g->x.regrets, print_regret, g, err))
        return false;
    for (int i = 0; i < MAX_NOISES; i++) /* fewer where time is over */
        g->x.regret_count += g->x.regrets[i].draws > 0;
    return true;
}

/* The account that is shown is what `plan` and `simulate` say of the plan; that which is compared, what explain says of
 * others. */
static bool take_apart(struct explaining *g, const struct plan *plan, struct error *err)
{
    struct explainer *e = &g->explainer;
    if (!explainer_plan(e, plan, &g->x.plan, err) || !explainer_account(e, g->x.plan, e->facts, &g->x.alike, err) ||
        !explained_open(&g->whole, e->model, plan, err))
        return false;
    g->whole->whole = true;
    return explained_lower(g->whole, NULL, err) && account_open(&g->x.account, g->whole, e->facts, err);
}

static bool explain_all(struct explaining *g, const struct plan *plan, struct error *err)
{
    struct explanation *x = &g->x;
    asks(g, "items");
    if (!take_apart(g, plan, err))
        return false;
    x->choice = choice_of(x->plan->plan, x->plan->graph);
    if (prints(g))
        explanation_print_items(g->cli, x);
    if ((x->asked[PART_VERSUS] && !explain_versus(g, err)) ||
        (x->asked[PART_ALTERNATIVES] && !explain_others(g, err)) ||
        (x->asked[PART_WHAT_IF] && !explain_facts(g, err)) || (x->asked[PART_ROBUSTNESS] && !explain_noise(g, err)))
        return false;
    x->complete = !g->explainer.ended;
    if (!prints(g))
        return explanation_write(g->cli, x, err);
    explanation_print_end(g->cli, x);
    return true;
}

/* Says why there is no plan; the exit code is that of nothing fits. */
static bool explain_nothing(struct explaining *g, struct error *err)
{
    struct conflict conflict;
    asks(g, "what would do");
    if (!explain_conflict(&g->explainer, &conflict, err))
        return false;
    progress_clear(&g->progress);
    if (!conflict.exists)
        return fail_kind(err, ERROR_ENVIRONMENT, "explain: ended before a plan was found; give it more --time-limit");
    if (g->a->json ? !conflict_write(g->cli, &conflict, err)
                   : (conflict_print(g->cli->out, &g->explainer, &conflict), 0))
        return false;
    return fail_kind(err, ERROR_INFEASIBLE, "nothing fits");
}

static bool search_as_asked(void *self, struct search_options *search, struct search_result **out, struct error *err)
{
    struct explaining *g = self;
    struct uniform_choice choice;
    return g->x.target ? aim_search(out, &choice, &g->in, g->x.target, search, NULL, err)
                       : search_run(out, g->in.model, &g->in.facts, search, err);
}

/* Nothing fits in the usual space, or a wider one may have a much shorter plan: that, as `cleave plan` takes it; what
 * excludes each other there is asked of the usual one. */
static bool find_widened(struct explaining *g, struct solution *found, struct error *err)
{
    const bool has_plan = found->kind == SOLUTION_PLAN; /* which stands unless there is a shorter one */
    struct error why = { 0 };
    struct explainer *e = &g->explainer;
    struct search_options usual = e->options;
    struct search_result *result = NULL;
    struct widening widening;
    struct space widest;
    usual.no_advice = true;
    progress_watch(&g->progress, &usual);
    usual.time_limit_ns = usual.time_limit_ns > 0 ? max_i64(1, search_time_left(&usual, e->start_ns)) : 0;
    if (!widening_widest(&widest, &g->in, &usual.space, &g->space, err))
        return false;
    struct space light = usual.space;
    if (has_plan && space_lighten(&light, &widest) == CHOICE_COUNT)
        return true;
    if (!search_widened(&result, &widening, g->in.model, &g->in.facts, &usual, &widest, search_as_asked, g, &why))
        return (has_plan && why.ended) || fail_with(err, &why);
    bool good = true, fits = result->feasible;
    if (has_plan && widening.taken == 0) {
        search_result_free(result);
        return true;
    }
    if (fits) {
        e->options.space = widening.space;
        good = explainer_start(e, result, err) && explainer_base(e, found, err);
    }
    if (good && prints(g))
        widening_print(g->cli->out, &widening, fits);
    search_result_free(result);
    return good && (fits || explain_nothing(g, err));
}

/* The plan of a model: what `cleave plan` would choose. */
static bool find_plan(struct explaining *g, struct solution *found, struct error *err)
{
    struct explainer *e = &g->explainer;
    asks(g, "searching");
    if (!explainer_base(e, found, err))
        return false;
    if (found->kind == SOLUTION_ENDED)
        return fail_kind(err, ERROR_ENVIRONMENT, "explain: ended before a plan was found; give it more --time-limit");
    bool widens = found->kind != SOLUTION_PLAN;
    if (!widens && !search_has_large_states(&widens, g->in.model, &g->in.facts, &e->options.space, err))
        return false;
    return !widens || find_widened(g, found, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct explain_arguments *a = given;
    struct explaining g = { .cli = cli, .a = a, .space = a->space, .in = { .cli = cli } };
    struct space space;
    struct solution found = { 0 };
    const struct plan *plan = NULL;
    (void)operand_count;
    heap_expect_much();
    if (a->space.target && strcmp(a->space.target, "none") == 0)
        g.space.target = NULL;
    if (!choose_parts(a, g.x.asked, err) || !is_no_plan(&g, operands[0], err) ||
        !(a->space.batch ? space_inputs(&g.in, &space, operands[0], &g.space, err)
                         : read_plan(&g, operands[0], &space, &plan, err)))
        goto cleanup;
    g.x.target = g.space.target ? target_find(g.space.target) : NULL;
    if (!check_versus(&a->versus, &space, err))
        goto cleanup;
    struct search_options o = space_search_options(&a->space, &space);
    progress_begin(&g.progress, cli, "explain");
    o.calls.progress = show_asked;
    o.calls.watcher = &g;
    explainer_open(&g.explainer, g.in.model, &g.in.facts, &o);
    g.aim.in = &g.in;
    g.aim.target = g.x.target;
    g.explainer.search = g.x.target ? aim_explain : NULL;
    g.explainer.searcher = &g.aim;
    if (plan)
        note_missing(&g, &space);
    if (!plan && find_plan(&g, &found, err))
        plan = found.explained->plan;
    if (plan)
        explain_all(&g, plan, err);
    progress_clear(&g.progress);
    account_free(&g.x.account);
    explained_free(g.whole);
    explainer_close(&g.explainer);
cleanup:
    inputs_free(&g.in);
    return ERROR_NONE;
}

const struct verb verb_explain = {
    .name = "explain",
    .summary = "says why a plan is as it is, or why nothing fits",
    .usage = "PLAN [--versus tp=8,pp=4]   or: MODEL --cluster CLUSTER --batch SEQUENCES [the options of plan]",
    .examples = "  cleave explain plan.json\n"
                "  cleave explain plan.json --versus tp=8,pp=16 --part versus\n"
                "  cleave explain gpt3-175b --cluster 2x8:a100-sxm-80 --batch 1536   why nothing fits\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct explain_arguments),
    .defaults = &defaults,
    .run = run,
};
