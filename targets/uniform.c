#include "targets/uniform.h"
#include "planner/estimate/pace_shelf.h"
#include "planner/price/shelf.h"

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

struct uniform_trial {
    const struct model *model;
    const struct facts *facts;
    const struct search_options *options; /* the caller's */
    const struct uniform_demand *demand;
    bool advises; /* what is nearest of all combinations is looked for, and what would fit */
    int64_t start_ns;
    struct price_shelf prices;
    struct pace_shelf paces;
    struct search_result *whole; /* of the best combination, where a glance did not do; NULL: it did */
    int whole_kept;
};

/* One combination. light: a glance, which tells whether it may be the shortest; worth_ns: no longer one is of use then.
 * *out NULL: nothing can have it, or no time is left. *kept: the first plan that keeps the demand, -1 none. */
static bool try_one(struct uniform_trial *t, const struct space *space, bool light, int64_t worth_ns, int top,
                    struct search_result **out, int *kept, struct error *err)
{
    enum { LIGHT_RANKED = 16 };
    struct search_options own = *t->options;
    struct error why = { 0 };
    *out = NULL;
    *kept = -1;
    own.space = *space;
    own.prices = &t->prices;
    own.paces = &t->paces;
    own.rates = 1;
    own.paced = light; /* what is said of the plan in the end is laid out whole */
    own.top = top;
    own.no_advice = !t->advises;
    own.time_limit_ns = t->options->time_limit_ns > 0 ? search_time_left(t->options, t->start_ns) : 0;
    if (t->options->time_limit_ns > 0 && own.time_limit_ns == 0)
        return true;
    if (light) {
        own.skip |= 1u << PART_FAMILIES | 1u << PART_CLIMB;
        own.rank_count = LIGHT_RANKED;
        own.any_plan = true;
        own.worth_ns = worth_ns;
    }
    if (!search_run(out, t->model, t->facts, &own, &why)) {
        if (why.kind == ERROR_INPUT || (why.kind == ERROR_ENVIRONMENT && t->options->time_limit_ns > 0))
            return true; /* a combination that nothing can have, or time was over before there was a plan */
        *err = why;
        return false;
    }
    *kept = first_kept(*out, t->demand);
    return true;
}

/* A glance at each combination; the shortest plan's is the choice's best. *nearest: of those with nothing that fits the
 * one that lacks least, the caller's. */
static bool glance_at_all(struct uniform_trial *t, struct uniform_choice *choice, struct search_result **nearest,
                          struct error *err)
{
    struct space space;
    int64_t best_ns = 0;
    bool good = true;
    for (int number = 0; good && choice->try_count < UNIFORM_TRIES && combine(&t->options->space, number, &space);
         number++) {
        struct search_result *result = NULL;
        int kept;
        if (space_layers_idle(&space) || (t->demand->treats && !t->demand->treats(t->demand->self, &space)))
            continue;
        good = try_one(t, &space, true, best_ns, 1, &result, &kept, err);
        bool whole = good && result && result->feasible && kept < 0; /* what others of the combination may keep */
        if (whole) {
            search_result_free(result);
            good = try_one(t, &space, false, 0, SOME_PLANS, &result, &kept, err);
        }
        if (!good || !result)
            continue;
        struct uniform_try *tried = &choice->tries[choice->try_count++];
        for (int c = LISTED_CHOICES; c < CHOICE_COUNT; c++)
            tried->value[c - LISTED_CHOICES] = space.range[c].values[0];
        if (kept >= 0)
            tried->step_ns = result->plans[kept].estimate->prediction.step_ns;
        if (kept >= 0 && (best_ns == 0 || tried->step_ns < best_ns)) {
            best_ns = tried->step_ns;
            choice->best = choice->try_count - 1;
            choice->space = space;
            search_result_free(t->whole);
            t->whole = whole ? result : NULL;
            t->whole_kept = kept;
            if (whole)
                continue;
        }
        if (choice->best < 0 && !result->feasible && is_nearer(result, *nearest)) {
            choice->space = space;
            search_result_free(*nearest);
            *nearest = result;
        } else {
            search_result_free(result);
        }
    }
    return good;
}

bool search_uniform(struct search_result **out, struct uniform_choice *choice, const struct model *model,
                    const struct facts *facts, const struct search_options *options,
                    const struct uniform_demand *demand, struct error *err)
{
    struct uniform_trial t = { .model = model, .facts = facts, .options = options, .demand = demand };
    struct search_result *nearest = NULL, *whole = NULL;
    int kept = -1;
    t.start_ns = options->calls.now_ns ? options->calls.now_ns(options->calls.self) : 0;
    *choice = (struct uniform_choice){ .best = -1, .space = options->space };
    *out = NULL;
    price_shelf_open(&t.prices);
    pace_shelf_open(&t.paces);
    bool good = glance_at_all(&t, choice, &nearest, err);
    if (good && t.whole && options->top <= t.whole->plan_count - t.whole_kept) {
        whole = t.whole;
        kept = t.whole_kept;
        t.whole = NULL;
    }
    /* The shortest plan may break the demand, and so may several; that of the glance keeps it. */
    for (int effort = 0; good && choice->best >= 0 && kept < 0 && effort < 3; effort++) {
        search_result_free(whole);
        good = try_one(&t, &choice->space, effort == 2, 0, effort == 1 ? SOME_PLANS : options->top, &whole, &kept, err);
    }
    if (good && kept >= 0) {
        drop_plans(whole, kept);
        choice->tries[choice->best].step_ns = whole->plans[0].estimate->prediction.step_ns;
        *out = whole;
    } else if (good && nearest) {
        search_result_free(whole);
        whole = NULL;
        t.advises = !options->no_advice && !nearest->why;
        good = !t.advises || try_one(&t, &options->space, false, 0, 1, &whole, &kept, err);
        *out = whole && !whole->feasible ? whole : good ? nearest : NULL;
    } else if (good) {
        good = fail_kind(err, ERROR_INFEASIBLE, "no plan was found that can be told to what shall run it");
    }
    if (*out != whole)
        search_result_free(whole);
    if (*out != nearest)
        search_result_free(nearest);
    search_result_free(t.whole);
    pace_shelf_close(&t.paces);
    price_shelf_close(&t.prices);
    return good;
}
