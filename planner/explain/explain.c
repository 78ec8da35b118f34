#include "planner/explain/explain.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/estimate/effort.h"
#include "planner/space/choice.h"
#include <stdlib.h>
#include <string.h>

static const unsigned light_skip = 1u << PART_FAMILIES | 1u << PART_CLIMB;
enum { OWN_RATES = 1 }; /* the number of the explainer's facts on its shelf */

void explainer_open(struct explainer *out, const struct model *model, const struct facts *facts,
                    const struct search_options *options)
{
    *out = (struct explainer){ .model = model, .facts = facts, .options = *options, .timed_limit = TIMED_LIMIT };
    out->options.top = 1;
    out->options.paced = true;
    out->options.no_advice = true;
    price_shelf_open(&out->prices);
    pace_shelf_open(&out->paces);
    if (options->calls.now_ns)
        out->start_ns = options->calls.now_ns(options->calls.self);
}

void explainer_close(struct explainer *e)
{
    for (int i = 0; i < e->account_count; i++)
        account_free(&e->accounts[i]);
    for (int i = 0; i < e->known_count; i++)
        explained_free(e->known[i].explained);
    for (int i = 0; i < e->simulated_count; i++)
        plan_free(e->simulated[i].plan);
    price_shelf_close(&e->prices);
    pace_shelf_close(&e->paces);
    arena_free(&e->arena);
}

bool explainer_ends(struct explainer *e)
{
    e->ended = e->ended || search_time_left(&e->options, e->start_ns) == 0;
    return e->ended;
}

/* ---- plans, lowered once ---- */

/* Finds the plan's place in the store; -1: it is not there. */
static int find_known(const struct explainer *e, const struct plan *plan)
{
    for (int i = 0; i < e->known_count; i++) {
        const struct plan *own = e->known[i].explained->plan;
        if (own->layer_count == plan->layer_count && own->batch == plan->batch && own->sequence == plan->sequence &&
            plan_hash(own) == plan_hash(plan))
            return i;
    }
    return -1;
}

bool explainer_plan(struct explainer *e, const struct plan *plan, const struct explained **out, struct error *err)
{
    int at = find_known(e, plan);
    if (at < 0) {
        struct known_plan *known = arena_more(&e->arena, e->known, e->known_count, &e->known_capacity, sizeof *known);
        if (!known)
            return fail_memory(err);
        e->known = known;
        at = e->known_count;
        known[at] = (struct known_plan){ .own.kind = SOLUTION_ENDED };
        if (!explained_open(&known[at].explained, e->model, plan, err))
            return false;
        e->known_count++;
    }
    *out = e->known[at].explained;
    return true;
}

static void note_own(struct explainer *e, const struct explained *explained, const struct solution *own)
{
    struct known_plan *known = &e->known[find_known(e, explained->plan)];
    if (!known->own.timed)
        known->own = *own;
}

bool explainer_is_dear(const struct explained *explained)
{
    return estimate_shortens(explained->plan);
}

/* Counts what is lowered of it to time it. */
static int64_t work_of(const struct plan *plan)
{
    int micro_batches = plan->micro_batch_count;
    if (estimate_shortens(plan))
        micro_batches = (int)min_i64(micro_batches, 2 * estimate_settled_micro_batches(plan));
    return (int64_t)plan->layer_count * micro_batches;
}

/* One plan, lowered, that is accounted for under several facts. */
struct opening {
    struct explained *explained;
    const struct facts *const *facts;
    struct account *out;
    struct error *errors;
    int first;
};

static void open_account(void *context, int index)
{
    const struct opening *o = context;
    index += o->first;
    account_open(&o->out[index], o->explained, o->facts[index], &o->errors[index]);
}

bool explainer_accounts(struct explainer *e, const struct explained *explained, const struct facts *const *facts,
                        int count, struct account *out, struct error *err)
{
    struct opening opening = { e->known[find_known(e, explained->plan)].explained, facts, out,
                               arena_alloc(&e->arena, (size_t)count, sizeof *opening.errors), 0 };
    memset(out, 0, (size_t)count * sizeof *out);
    bool good = (opening.errors || fail_memory(err)) && explained_lower(opening.explained, &e->paces, err);
    if (good) {
        open_account(&opening, 0); /* it completes what the plan keeps of its programs, which the others only read */
        opening.first = 1;
        if (out[0].stage_count > 0)
            workers_each(&e->options.calls.workers, count - 1, open_account, &opening);
    }
    explained_drop(opening.explained, &e->paces);
    for (int i = 0; i < count; i++) { /* what was opened is closed with the explainer */
        struct account *accounts =
            arena_more(&e->arena, e->accounts, e->account_count, &e->account_capacity, sizeof *accounts);
        if (good && out[i].stage_count == 0)
            good = fail_with(err, &opening.errors[i]);
        if (!accounts) {
            account_free(&out[i]);
            good = fail_memory(err);
            continue;
        }
        e->accounts = accounts;
        accounts[e->account_count++] = out[i];
    }
    e->timed_limit = max_i64(e->timed_limit, 2 * work_of(explained->plan));
    return good;
}

bool explainer_account(struct explainer *e, const struct explained *explained, const struct facts *facts,
                       struct account *out, struct error *err)
{
    return explainer_accounts(e, explained, &facts, 1, out, err);
}

struct solution explainer_timed(const struct explained *explained, const struct account *account)
{
    struct solution s = { .kind = SOLUTION_PLAN,
                          .explained = explained,
                          .step_ns = account->step_ns,
                          .peak_bytes = explained_peak_bytes(explained),
                          .timed = true };
    memcpy(s.time_ns, account->time_ns[account->last_stage], sizeof s.time_ns);
    return s;
}

/* ---- solving ---- */

struct space explain_space(const struct plan *plan)
{
    struct space space = space_default(plan->batch, plan->sequence, plan->dtype);
    space_set_bucket_bytes(&space, plan->bucket_bytes);
    space.optimizer = plan->optimizer;
    space.clip_norm = plan->clip_norm;
    return space;
}

static bool impossible(struct explainer *e, const char *why, struct solution *out, struct error *err)
{
    out->kind = SOLUTION_NONE;
    out->why = arena_strdup(&e->arena, strncmp(why, "plan: ", 6) ? why : why + 6);
    return out->why || fail_memory(err);
}

static bool nothing(struct explainer *e, const struct error *why, struct solution *out, struct error *err)
{
    if (why->kind == ERROR_ENVIRONMENT && explainer_ends(e)) {
        out->kind = SOLUTION_ENDED;
        return true;
    }
    if (why->kind != ERROR_INPUT)
        return fail_with(err, why);
    return impossible(e, why->message, out, err);
}

/* Makes a solution of a prediction. paced: by a search of the explainer's. */
static struct solution predicted(const struct explained *explained, const struct prediction *p, bool paced)
{
    struct solution s = { .kind = SOLUTION_PLAN,
                          .explained = explained,
                          .step_ns = p->step_ns,
                          .peak_bytes = estimate_peak_bytes(p),
                          .timed = paced || p->micro_batches_simulated == 0 };
    memcpy(s.time_ns, p->breakdown_ns, sizeof s.time_ns);
    return s;
}

/* Takes what a search under the explainer's facts has found as known, and what it has simulated passes over. */
static bool take_result(struct explainer *e, struct search_result *result, bool paced, struct error *err)
{
    for (int i = 0; i < result->plan_count; i++) {
        const struct search_plan *plan = &result->plans[i];
        const struct explained *explained = NULL;
        if (!explainer_plan(e, plan->plan, &explained, err))
            return false;
        struct solution own = predicted(explained, &plan->estimate->prediction, paced);
        note_own(e, explained, &own);
        e->known[find_known(e, plan->plan)].formula_ns = plan->formula_ns;
    }
    for (int i = 0; i < result->simulated_count; i++) {
        struct simulated_plan *simulated =
            arena_more(&e->arena, e->simulated, e->simulated_count, &e->simulated_capacity, sizeof *simulated);
        if (!simulated)
            return fail_memory(err);
        e->simulated = simulated;
        simulated[e->simulated_count++] = result->simulated[i];
        result->simulated[i].plan = NULL;
    }
    return true;
}

/* Gives options of a search in the space, in the time that is left. */
static struct search_options options_in(struct explainer *e, const struct space *space)
{
    struct search_options options = e->options;
    options.space = *space;
    options.time_limit_ns = e->options.time_limit_ns > 0 ? max_i64(1, search_time_left(&e->options, e->start_ns)) : 0;
    options.prices = &e->prices;
    options.paces = &e->paces;
    return options;
}

/* Queries that run together: by itself a search has all threads, several share them out. None tells how far it is. */
struct queries {
    struct explainer *e;
    struct query *list;
    int count;
    bool listed;
    int order[MOST_QUERIES]; /* in which they are begun */
};

static void run_query(void *context, int index)
{
    const struct queries *all = context;
    struct query *query = &all->list[all->order[index]];
    if (search_time_left(&all->e->options, all->e->start_ns) == 0 || (query->larger && query->larger->unfit))
        return;
    struct search_options options = options_in(all->e, &query->space);
    if (query->light) {
        options.skip |= light_skip;
        options.rank_count = LIGHT_RANKED;
        options.any_plan = true;
        options.worth_ns = query->worth_ns;
        options.rival = query->rival;
        options.leaders = query->leaders;
        options.leader_count = query->leader_count;
        if (query->near && all->e->near_count > 0) {
            options.among = all->e->near;
            options.among_count = all->e->near_count;
        }
    }
    options.rates = query->same_prices || query->facts == all->e->facts ? OWN_RATES : 0;
    if (all->listed)
        options.calls.progress = NULL;
    if (all->count > 1)
        options.calls.workers = (struct workers){ 0 };
    options.calls.spent_ns = NULL;
    query->asked = true;
    const struct explainer *e = all->e;
    if (!(e->search ? e->search(e->searcher, &query->result, query->facts, &options, &query->error)
                    : search_run(&query->result, e->model, query->facts, &options, &query->error)))
        query->result = NULL;
}

static void ask(struct explainer *e, struct query *queries, int count, bool listed)
{
    struct queries all = { e, queries, count, listed, { 0 } };
    int begun = 0; /* long searches first, so that no thread is left alone with one */
    for (int near = 0; near <= 1; near++)
        for (int i = 0; i < count; i++)
            if (queries[i].near == near)
                all.order[begun++] = i;
    workers_each(&e->options.calls.workers, count, run_query, &all);
}

static bool take_result_of(struct explainer *e, struct query *query, struct solution *out, struct error *err)
{
    struct search_result *result = query->result;
    *out = (struct solution){ .kind = SOLUTION_ENDED };
    e->ended = e->ended || !query->asked;
    if (!query->asked)
        return true;
    if (!result)
        return nothing(e, &query->error, out, err);
    bool good = !result->why || impossible(e, result->why, out, err);
    out->kind = result->why ? SOLUTION_NONE : SOLUTION_NO_MEMORY;
    if (result->feasible) {
        const struct explained *explained = NULL;
        good = explainer_plan(e, result->plans[0].plan, &explained, err);
        *out = predicted(explained, &result->plans[0].estimate->prediction, true);
    }
    return good && (query->facts != e->facts || take_result(e, result, true, err));
}

static bool take_near(struct explainer *e, const struct search_result *result, struct error *err)
{
    e->near = arena_alloc(&e->arena, (size_t)result->near_count + 1, sizeof *e->near);
    if (!e->near)
        return fail_memory(err);
    e->near_count = result->near_count;
    if (result->near_count > 0) /* a search that time ended has no list */
        memcpy(e->near, result->near, (size_t)result->near_count * sizeof *e->near);
    return true;
}

static bool take_found(struct explainer *e, struct query *query, struct solution *out, struct error *err)
{
    bool falls = query->larger && query->larger->unfit, good = true;
    if (falls)
        *out = (struct solution){ .kind = SOLUTION_NO_MEMORY };
    else
        good = take_result_of(e, query, out, err);
    query->unfit = out->kind == SOLUTION_NO_MEMORY;
    search_result_free(query->result);
    query->result = NULL;
    return good;
}

bool explainer_solve(struct explainer *e, const struct space *space, const struct facts *facts, struct solution *out,
                     struct error *err)
{
    struct query query = { .space = *space, .facts = facts };
    ask(e, &query, 1, false);
    return take_found(e, &query, out, err);
}

bool explainer_look(struct explainer *e, const struct space *space, const struct facts *facts, struct solution *out,
                    struct error *err)
{
    struct query query = { .space = *space, .facts = facts, .light = true };
    ask(e, &query, 1, false);
    return take_found(e, &query, out, err);
}

bool explainer_glance(struct explainer *e, const struct space *space, const struct facts *facts, struct solution *out,
                      struct error *err)
{
    struct search_options options = e->options;
    struct space plain = *space;
    if (space_is_default(space, CHOICE_SCHEDULE) && space_is_default(space, CHOICE_INTERLEAVE) &&
        space_is_default(space, CHOICE_EXTRA)) {
        plain.schedule = (struct allowed){ 1, { 0 } };
        plain.extra = (struct allowed){ 1, { 0 } };
    }
    e->options.rank_count = GLANCE_RANKED;
    e->options.gap_ppm = max_i64(e->options.gap_ppm, GLANCE_GAP_PPM);
    bool good = explainer_solve(e, &plain, facts, out, err);
    e->options = options;
    return good;
}

bool explainer_solve_all(struct explainer *e, struct query *queries, int count, answer_function *answer, void *self,
                         struct error *err)
{
    const struct search_calls *calls = &e->options.calls;
    bool good = true;
    int most = workers_at_once(&calls->workers) > 1 ? MOST_QUERIES : 1;
    for (int first = 0; good && first < count && !explainer_ends(e); first += most) {
        int end = first + most < count ? first + most : count;
        if (calls->progress)
            calls->progress(calls->watcher, first, count, INT64_MAX);
        ask(e, &queries[first], end - first, true);
        for (int i = first; i < end; i++) {
            struct solution solution;
            good = good && take_found(e, &queries[i], &solution, err) && answer(self, i, &solution, err);
            search_result_free(queries[i].result); /* where nobody has taken it */
        }
    }
    return good;
}

bool explainer_base(struct explainer *e, struct solution *out, struct error *err)
{
    struct query query = { .space = e->options.space, .facts = e->facts };
    query.light = e->known_count > 0 && explainer_is_dear(e->known[0].explained);
    if (!e->has_base) {
        ask(e, &query, 1, false);
        if ((query.result && !take_near(e, query.result, err)) || !take_found(e, &query, &e->base, err))
            return false;
    }
    e->has_base = e->base.kind != SOLUTION_ENDED;
    *out = e->base;
    return true;
}

bool explainer_judge(struct explainer *e, const struct plan *plan, struct solution *out, struct error *err)
{
    struct account account;
    const struct explained *explained = NULL;
    const struct space *space = &e->options.space;
    bool same_job = plan->batch == space->batch && (space->sequence == 0 || plan->sequence == space->sequence) &&
                    plan->rank_count == e->facts->cluster->device_count;
    int at = find_known(e, plan);
    *out = at < 0 ? (struct solution){ .kind = SOLUTION_ENDED } : e->known[at].own;
    if (out->timed || !same_job || work_of(plan) > e->timed_limit)
        return true;
    if (!explainer_plan(e, plan, &explained, err) || !explainer_account(e, explained, e->facts, &account, err))
        return false;
    *out = (struct solution){ .kind = SOLUTION_NO_MEMORY, .timed = true };
    if (account.fits)
        *out = explainer_timed(explained, &account);
    note_own(e, explained, out);
    return true;
}

bool explainer_start(struct explainer *e, struct search_result *result, struct error *err)
{
    const struct search_plan *first = &result->plans[0];
    const struct explained *explained = NULL;
    if (!take_result(e, result, false, err) || !explainer_plan(e, first->plan, &explained, err) ||
        !explainer_judge(e, first->plan, &e->base, err))
        return false;
    if (e->base.kind != SOLUTION_PLAN) /* the search says that it fits */
        e->base = predicted(explained, &first->estimate->prediction, false);
    e->has_base = true;
    return true;
}

static int compare_simulated(const void *a, const void *b)
{
    const struct simulated_plan *x = a, *y = b;
    return (x->least_ns > y->least_ns) - (x->least_ns < y->least_ns);
}

void explainer_sort_simulated(struct explainer *e)
{
    if (e->simulated_count > 0) /* else there is no array */
        qsort(e->simulated, (size_t)e->simulated_count, sizeof *e->simulated, compare_simulated);
}

bool explainer_judge_simulated(struct explainer *e, const struct simulated_plan *simulated, struct solution *out,
                               struct error *err)
{
    if (!explainer_judge(e, simulated->plan, out, err))
        return false;
    int at = find_known(e, simulated->plan);
    if (at >= 0)
        e->known[at].formula_ns = simulated->formula_ns;
    return true;
}

bool explain_nearest(struct explainer *e, const struct space *space, const struct facts *facts,
                     struct search_result **out, struct error *err)
{
    struct error why = { 0 };
    *out = NULL;
    if (explainer_ends(e))
        return true;
    struct search_options options = options_in(e, space);
    options.nearest_only = true;
    options.paced = false; /* it is asked for its memory alone, and not laid out where it cannot fit */
    return search_run(out, e->model, facts, &options, &why) || why.kind == ERROR_INPUT || fail_with(err, &why);
}

bool explain_missing(struct explainer *e, const struct space *space, const struct facts *facts, int64_t *bytes,
                     struct error *err)
{
    struct search_result *result = NULL;
    if (!explain_nearest(e, space, facts, &result, err))
        return false;
    *bytes = result ? search_missing_bytes(result) : 0;
    search_result_free(result);
    return true;
}
