#include "targets/uniform.h"
#include "base/num.h"
#include "planner/estimate/pace_shelf.h"
#include "planner/price/shelf.h"
#include "planner/program/schedule.h"
#include <stdlib.h>

enum { SOME_PLANS = 8 }; /* of a combination, of which one shall keep the demand */

/* The choice's values in the order in which they are tried: what is allowed, or all that there are. */
static struct allowed values_of(const struct space *space, enum space_choice choice)
{
    struct allowed values = space->range[choice];
    if (values.count == 0)
        for (int64_t v = choice_facts[choice].least; v <= choice_facts[choice].most && values.count < SPACE_VALUES; v++)
            values.values[values.count++] = v;
    return values;
}

/* One value of each choice of layers. */
struct combination {
    int number;
    int tried;   /* its place in the choice's list; -1: it has none yet */
    bool shards; /* weights: what these wait for the closed form does not see */
    bool glanced;
    bool unfit;         /* what led by the closed form did not fit, */
    bool misled;        /* or takes much longer than that says */
    int thrift;         /* what is kept of activations and held of weights falls with it */
    int64_t formula_ns; /* of its best plan by the closed form; 0: none that fits, or none that is of use */
};

/* The combination with that number; false: there are no more. */
static bool combine(const struct space *space, int number, struct space *out)
{
    *out = *space;
    for (int c = LISTED_CHOICES; c < CHOICE_COUNT; c++) {
        struct allowed values = values_of(space, (enum space_choice)c);
        out->range[c] = allowed_only(values.values[number % values.count]);
        number /= values.count;
    }
    return number == 0;
}

/* What is computed again goes before what is in shards; what is kept on the host is not counted. */
static int thrift_of(const struct space *space)
{
    uint64_t set = (uint64_t)space->excepted.values[0];
    int excepted = count_bits((uint32_t)set) + count_bits((uint32_t)(set >> 32));
    bool kept = space->recompute.values[0] == RECOMPUTE_NONE;
    return 8 * (kept ? excepted : 64 - excepted) + 2 * (int)space->zero.values[0] +
           (space->offload.values[0] == OFFLOAD_NONE);
}

static int first_kept(const struct search_result *result, const struct uniform_demand *demand)
{
    int at = 0;
    while (at < result->plan_count && demand->keeps && !demand->keeps(demand->self, result->plans[at].plan))
        at++;
    return result->feasible && at < result->plan_count ? at : -1;
}

/* The plan becomes the first; those before it go. */
static void drop_plans(struct search_result *result, int count)
{
    struct plan **best = &result->certificate.best_plan;
    for (int i = 0; i < count; i++) {
        if (i == 0 && !*best)
            *best = result->plans[i].plan; /* whose formula is best_ns */
        else
            plan_free(result->plans[i].plan);
        estimate_free(result->plans[i].estimate);
    }
    for (int i = count; i < result->plan_count; i++)
        result->plans[i - count] = result->plans[i];
    result->plan_count -= count;
}

/* Of two searches that found nothing, the one that lacks less. */
static bool is_nearer(const struct search_result *a, const struct search_result *b)
{
    return !b || (!a->why && (b->why || search_missing_bytes(a) < search_missing_bytes(b)));
}

enum effort {
    EFFORT_FORMULA, /* what the closed form finds, which nobody judges */
    EFFORT_GLANCE,  /* which tells whether it may be the shortest */
    EFFORT_BEYOND,  /* that of schedules which the closed form does not bound */
    EFFORT_WHOLE
};
struct uniform_trial {
    const struct model *model;
    const struct facts *facts;
    const struct search_options *options; /* the caller's */
    const struct uniform_demand *demand;
    bool advises; /* what is nearest of all combinations is looked for, and what would fit */
    int64_t start_ns;
    int64_t best_ns;         /* of the shortest plan so far, or what it has to be below; 0: none */
    int64_t formula_ns;      /* the least by the closed form of what shards no weights; 0: none, or that misled */
    struct search_peer peer; /* of the shortest plan, which was glanced at with this treatment: */
    struct space peer_space;
    struct search_known known; /* that plan, for the search of the whole combination */
    struct combination list[UNIFORM_TRIES];
    int count;
    struct price_shelf prices;
    struct pace_shelf paces;
    int64_t unfit_ns;            /* search_result's */
    struct search_result *whole; /* of the best combination, where a glance did not do; NULL: it did */
    int whole_kept;
    struct search_result *nearest; /* of those with nothing that fits the one that lacks least */
};

/* The closed form says up to one part in DOUBT_SHARE more than the simulation (of 1f1b with 64 stages, whose messages
 * it all counts), not always as much, and of what shards weights less. */
enum { DOUBT_SHARE = 20, ALIKE_SHARE = 16, MISLED_SHARE = 4, KIN_SHARE = 8 };

static int64_t below_best_ns(const struct uniform_trial *t)
{
    return t->best_ns > 0 ? t->best_ns + t->best_ns / DOUBT_SHARE : INT64_MAX;
}

static int64_t below_formula_ns(const struct uniform_trial *t)
{
    return t->formula_ns > 0 ? t->formula_ns + t->formula_ns / ALIKE_SHARE : INT64_MAX;
}

/* What the closed form finds longer cannot be the shortest plan; INT64_MAX: nobody knows. */
static int64_t below_ns(const struct uniform_trial *t)
{
    return min_i64(below_best_ns(t), below_formula_ns(t));
}

/* The walk is off alike for both: gathers of weights and transfers to the host wait for what it does not see. */
static bool is_walked_alike(const struct space *a, const struct space *b)
{
    return a->zero.values[0] < 3 && b->zero.values[0] < 3 && a->offload.values[0] == b->offload.values[0];
}

/* One combination. *out NULL: nothing can have it, or no time is left. *kept: the first plan that keeps the demand, -1
 * none. */
static bool try_one(struct uniform_trial *t, const struct space *space, enum effort effort, int top,
                    struct search_result **out, int *kept, struct error *err)
{
    enum { LIGHT_RANKED = 16 };
    struct search_options own = *t->options;
    struct error why = { 0 };
    *out = NULL;
    *kept = -1;
    own.space = *space;
    if (!own.rates) { /* else the caller keeps them, for this search and others */
        own.prices = &t->prices;
        own.rates = 1;
    }
    if (!own.paces)
        own.paces = &t->paces;
    own.paced = true; /* as whoever reads the launch prices it, but for uneven pipelines, too */
    own.told = effort == EFFORT_WHOLE && !t->options->paced; /* who asks for that is told less */
    own.top = top;
    own.no_advice = !t->advises;
    own.time_limit_ns = t->options->time_limit_ns > 0 ? search_time_left(t->options, t->start_ns) : 0;
    if (t->options->time_limit_ns > 0 && own.time_limit_ns == 0)
        return true;
    own.known = effort == EFFORT_WHOLE ? &t->known : NULL;
    if (effort != EFFORT_WHOLE) {
        own.skip |= 1u << PART_FAMILIES | 1u << PART_CLIMB;
        own.rank_count = LIGHT_RANKED;
        own.any_plan = true;
        own.worth_ns = t->best_ns;
        own.rival = own.worth_ns == t->options->worth_ns ? own.rival : NULL;
        own.below_ns = effort != EFFORT_BEYOND && below_ns(t) < INT64_MAX ? below_ns(t) : 0;
        own.peer = t->peer.ranked_ns > 0 && is_walked_alike(&t->peer_space, space) ? &t->peer : NULL;
        own.unjudged = effort == EFFORT_FORMULA;
        own.thrifty = own.unjudged || own.below_ns > 0;
    }
    if (!search_run(out, t->model, t->facts, &own, &why)) {
        if (why.kind == ERROR_INPUT || (why.ended && t->options->time_limit_ns > 0))
            return true; /* a combination that nothing can have, or time was over before there was a plan */
        *err = why;
        return false;
    }
    *kept = first_kept(*out, t->demand);
    return true;
}

/* One combination with all that a search does, in place of *out: so many plans, and more where none of them keeps the
 * demand. */
static bool try_whole(struct uniform_trial *t, const struct space *space, int top, struct search_result **out,
                      int *kept, struct error *err)
{
    search_result_free(*out);
    if (!try_one(t, space, EFFORT_WHOLE, top, out, kept, err))
        return false;
    return *kept >= 0 || top >= SOME_PLANS || !*out || !(*out)->feasible ||
           try_whole(t, space, SOME_PLANS, out, kept, err);
}

/* The thriftiest comes first; what shards weights comes last: its proof takes longest, and ends early where it has to
 * be below what the closed form says of the others. */
static bool is_before(const struct combination *a, const struct combination *b)
{
    return a->shards != b->shards ? b->shards : a->thrift > b->thrift;
}

/* Which combinations there are, in that order. */
static void list_combinations(struct uniform_trial *t)
{
    struct combination *list = t->list;
    struct space space;
    int count = 0;
    for (int number = 0; count < UNIFORM_TRIES && combine(&t->options->space, number, &space); number++) {
        if (space_layers_idle(&space) || (t->demand->treats && !t->demand->treats(t->demand->self, &space)))
            continue;
        struct combination own = {
            .number = number, .tried = -1, .shards = space.zero.values[0] >= 3, .thrift = thrift_of(&space)
        };
        int place = count++;
        for (; place > 0 && is_before(&own, &list[place - 1]); place--)
            list[place] = list[place - 1];
        list[place] = own;
    }
    t->count = count;
}

/* Its space, in which the demand may allow less of other choices. */
static void space_of(const struct uniform_trial *t, const struct combination *combination, struct space *out)
{
    combine(&t->options->space, combination->number, out);
    if (t->demand->narrows)
        t->demand->narrows(t->demand->self, out);
}

/* Its place in the choice's list. */
static struct uniform_try *enter(struct uniform_choice *choice, struct combination *combination,
                                 const struct space *space)
{
    if (combination->tried < 0) {
        combination->tried = choice->try_count++;
        for (int c = LISTED_CHOICES; c < CHOICE_COUNT; c++)
            choice->tries[combination->tried].value[c - LISTED_CHOICES] = space->range[c].values[0];
    }
    return &choice->tries[combination->tried];
}

/* A glance at the combination, or, thoroughly, a whole search; the shortest plan's is the choice's best. */
static bool glance(struct uniform_trial *t, struct combination *combination, bool thoroughly,
                   struct uniform_choice *choice, struct error *err)
{
    struct space space;
    struct search_result *result = NULL;
    int kept = -1;
    combination->glanced = true;
    space_of(t, combination, &space);
    bool good = thoroughly || try_one(t, &space, EFFORT_GLANCE, 1, &result, &kept, err);
    /* others of the combination may keep what the demand asks */
    bool whole = good && (thoroughly || (result && kept < 0 && result->feasible));
    good = good && (!whole || try_whole(t, &space, thoroughly ? 1 : SOME_PLANS, &result, &kept, err));
    bool unfit = result && !result->beaten; /* else nothing is found since nothing is worth it */
    combination->unfit = !whole && kept < 0 && (t->best_ns == 0 || unfit) && combination->formula_ns > 0;
    if (!good || !result)
        return good;
    struct uniform_try *tried = enter(choice, combination, &space);
    if (kept >= 0)
        tried->step_ns = result->plans[kept].estimate->prediction.step_ns;
    combination->misled = !whole && kept >= 0 && combination->formula_ns > 0 &&
                          tried->step_ns > combination->formula_ns + combination->formula_ns / MISLED_SHARE;
    if (kept >= 0 && (t->best_ns == 0 || tried->step_ns < t->best_ns)) {
        struct search_plan *plan = &result->plans[kept];
        t->best_ns = tried->step_ns;
        t->peer = (struct search_peer){ plan->config, plan->ranked_ns, tried->step_ns, plan->estimate->effort };
        t->peer_space = space;
        choice->best = combination->tried;
        choice->space = space;
        search_result_free(t->whole);
        bool does = whole || t->options->any_plan; /* where any will do, that of a glance does */
        t->whole = does ? result : NULL;
        t->whole_kept = kept;
        if (!does) {
            estimate_free(t->known.estimate);
            t->known = (struct search_known){ plan_hash(plan->plan), plan->estimate };
            plan->estimate = NULL;
        }
        result = does ? NULL : result;
    }
    if (result && choice->best < 0 && !result->feasible && is_nearer(result, t->nearest)) {
        choice->space = space;
        search_result_free(t->nearest);
        t->nearest = result;
        result = NULL;
    }
    search_result_free(result);
    return true;
}

/* What its closed form says. */
static bool weigh(struct uniform_trial *t, struct combination *combination, struct uniform_choice *choice,
                  struct error *err)
{
    struct space space;
    struct search_result *result = NULL;
    int kept;
    space_of(t, combination, &space);
    bool good = try_one(t, &space, EFFORT_FORMULA, 1, &result, &kept, err);
    if (good && result) {
        combination->formula_ns = result->certificate.best_ns;
        enter(choice, combination, &space)->formula_ns = combination->formula_ns;
        if (!combination->shards && combination->formula_ns > 0 &&
            (t->formula_ns == 0 || combination->formula_ns < t->formula_ns))
            t->formula_ns = combination->formula_ns;
    }
    search_result_free(result);
    return good;
}

/* What shards weights comes last, and what has no plan by the closed form behind it. */
static int compare_formulas(const void *a, const void *b)
{
    const struct combination *x = a, *y = b;
    if ((x->formula_ns == 0) != (y->formula_ns == 0))
        return x->formula_ns == 0 ? 1 : -1;
    if (x->shards != y->shards)
        return x->shards ? 1 : -1;
    if (x->formula_ns != y->formula_ns)
        return x->formula_ns < y->formula_ns ? -1 : 1;
    return x->number - y->number;
}

/* One that was looked at differs in how long gathered weights are kept alone, and is shorter by the closed form, which
 * is off alike for both. */
static bool has_better_like(const struct combination *list, int count, const struct combination *one,
                            const struct uniform_choice *choice)
{
    for (int i = 0; i < count; i++) {
        bool like = list[i].glanced && one->shards && list[i].formula_ns > 0 &&
                    list[i].formula_ns + list[i].formula_ns / DOUBT_SHARE <= one->formula_ns;
        for (int c = LISTED_CHOICES; c < CHOICE_COUNT && like; c++)
            like = c == CHOICE_RESHARD || choice->tries[list[i].tried].value[c - LISTED_CHOICES] ==
                                              choice->tries[one->tried].value[c - LISTED_CHOICES];
        if (like)
            return true;
    }
    return false;
}

/* Weighs what was not, and glances in the order of the closed form at each that may be the shortest after all. blindly:
 * until a plan is found, at all in their own order. Where what leads by the closed form does not fit, and nothing is
 * found that is about as short, others of the combination may be: without that llama-3-405b by accelerate's prices took
 * 366 s a step for 120. So may they where it takes much longer than the closed form says. */
static bool look(struct uniform_trial *t, bool blindly, struct uniform_choice *choice, struct error *err)
{
    struct combination *list = t->list;
    const int count = t->count;
    bool good = true;
    for (int i = 0; i < count && good; i++)
        if (!list[i].glanced && list[i].formula_ns == 0)
            good =
                blindly && choice->best < 0 ? glance(t, &list[i], false, choice, err) : weigh(t, &list[i], choice, err);
    qsort(list, (size_t)count, sizeof *list, compare_formulas);
    if (good && !blindly && t->demand->weighed && count > 0 && list[0].formula_ns > 0)
        t->demand->weighed(t->demand->self, list[0].formula_ns);
    for (int i = 0; i < count && good; i++)
        if (!list[i].glanced && list[i].formula_ns > 0 && list[i].formula_ns < below_ns(t) &&
            !has_better_like(list, count, &list[i], choice))
            good = glance(t, &list[i], false, choice, err);
    for (int i = 0; i < count && good; i++)
        if ((list[i].unfit || list[i].misled) &&
            (t->best_ns == 0 || list[i].formula_ns < t->best_ns - t->best_ns / ALIKE_SHARE)) {
            if (list[i].unfit && (t->unfit_ns == 0 || list[i].formula_ns < t->unfit_ns))
                t->unfit_ns = list[i].formula_ns;
            good = glance(t, &list[i], true, choice, err);
        }
    return good;
}

/* What the closed form says of the others is what each has to be below; where no plan keeps its promise, the shortest
 * plan alone is. */
static bool glance_at_all(struct uniform_trial *t, struct uniform_choice *choice, struct error *err)
{
    list_combinations(t);
    if (!look(t, false, choice, err))
        return false;
    bool kept = choice->best >= 0 && below_best_ns(t) <= below_formula_ns(t);
    bool asked = t->options->worth_ns == 0 || choice->best >= 0; /* else nothing is as short as it should be */
    t->formula_ns = 0;
    return kept || !asked || look(t, true, choice, err);
}

/* Searches other combinations with the stages, schedule and chunks of the plan, where that is a schedule which the
 * closed form does not bound: its stages idle less than that says, by which other combinations may be the shortest.
 * Where one is, its whole search is put in place of *whole. */
static bool try_as_scheduled(struct uniform_trial *t, struct uniform_choice *choice, struct search_result **whole,
                             int *kept, struct error *err)
{
    enum { DEAR = 4000000, MUCH_SHARE = 4 }; /* DEAR: effort of a plan like which others take long to simulate */
    const struct search_plan *plan = &(*whole)->plans[*kept];
    const struct config like = plan->config;
    bool shorter = plan->formula_ns - plan->formula_ns / MUCH_SHARE > plan->estimate->prediction.step_ns,
         looks = shorter && !schedules[like.schedule]->bounded && plan->estimate->effort < DEAR;
    const int first = choice->best;
    const int64_t formula_ns = (*whole)->certificate.best_ns, most_ns = formula_ns + formula_ns / KIN_SHARE;
    t->best_ns = plan->estimate->prediction.step_ns;
    for (int i = 0; i < t->count && looks; i++) {
        struct combination *other = &t->list[i];
        struct search_result *result = NULL;
        struct space own, space;
        int place = -1;
        if (other->tried == first || other->formula_ns == 0 || other->formula_ns > most_ns)
            continue;
        space_of(t, other, &space);
        own = space;
        own.schedule = allowed_only(like.schedule);
        own.stages = allowed_only(like.stages);
        own.chunks = allowed_only(config_chunks(&like));
        bool good = try_one(t, &own, EFFORT_BEYOND, 1, &result, &place, err);
        if (good && place >= 0 && result->plans[place].estimate->prediction.step_ns < t->best_ns)
            good = try_whole(t, &space, t->options->top, &result, &place, err);
        if (good && place >= 0 && result->plans[place].estimate->prediction.step_ns < t->best_ns) {
            struct search_result *longer = *whole;
            *whole = result;
            *kept = place;
            result = longer;
            t->best_ns = (*whole)->plans[place].estimate->prediction.step_ns;
            choice->best = other->tried;
            choice->space = space;
        }
        search_result_free(result);
        if (!good)
            return false;
    }
    return true;
}

bool search_uniform(struct search_result **out, struct uniform_choice *choice, const struct model *model,
                    const struct facts *facts, const struct search_options *options,
                    const struct uniform_demand *demand, struct error *err)
{
    struct uniform_trial t = { .model = model, .facts = facts, .options = options, .demand = demand };
    struct search_result *whole = NULL;
    int kept = -1;
    t.start_ns = options->calls.now_ns ? options->calls.now_ns(options->calls.self) : 0;
    *choice = (struct uniform_choice){ .best = -1, .space = options->space };
    *out = NULL;
    t.best_ns = options->worth_ns;
    price_shelf_open(&t.prices);
    pace_shelf_open(&t.paces);
    bool good = glance_at_all(&t, choice, err);
    if (good && t.whole && options->top <= t.whole->plan_count - t.whole_kept) {
        whole = t.whole;
        kept = t.whole_kept;
        t.whole = NULL;
    }
    /* The shortest plan may break the demand, and so may several; that of the glance keeps it. */
    t.best_ns = 0;
    bool looks = choice->best >= 0 && kept < 0;
    good = good && (!looks || try_whole(&t, &choice->space, options->top, &whole, &kept, err));
    if (good && looks && kept < 0) {
        search_result_free(whole);
        good = try_one(&t, &choice->space, EFFORT_GLANCE, options->top, &whole, &kept, err);
    }
    if (good && kept >= 0 && !options->any_plan)
        good = try_as_scheduled(&t, choice, &whole, &kept, err);
    if (good && kept >= 0) {
        drop_plans(whole, kept);
        choice->tries[choice->best].step_ns = whole->plans[0].estimate->prediction.step_ns;
        whole->unfit_ns = t.unfit_ns;
        *out = whole;
    } else if (good && t.nearest) {
        search_result_free(whole);
        whole = NULL;
        t.advises = !options->no_advice && !t.nearest->why;
        good = !t.advises || try_one(&t, &options->space, EFFORT_WHOLE, 1, &whole, &kept, err);
        *out = whole && !whole->feasible ? whole : good ? t.nearest : NULL;
    } else if (good) {
        good = fail_kind(err, ERROR_INFEASIBLE, "no plan was found that can be told to what shall run it");
    }
    if (*out != whole)
        search_result_free(whole);
    if (*out != t.nearest)
        search_result_free(t.nearest);
    search_result_free(t.whole);
    estimate_free(t.known.estimate);
    pace_shelf_close(&t.paces);
    price_shelf_close(&t.prices);
    return good;
}
