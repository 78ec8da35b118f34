/* The simulation judges: first the best of each family while it may still win, then what the budget allows. Candidates
 * are simulated in waves, whose members do not depend on each other's outcome. */
#include "base/num.h"
#include "planner/search/search_parts.h"
#include <string.h>

/* JUDGED_FAMILIES: the best of so many (stages, tensor degree) is simulated while it may still win. judge_budget:
 * layers times micro-batches that are simulated instruction by instruction before the best plans are settled. */
enum {
    JUDGED_FAMILIES = 4,
    WAVE = 4,
    MAX_SHRINKS = 6,
    LATE_JUDGED = 2, /* when time is over and there is no plan, so many more are judged */
    SHRUNK_GAP_PPM = 1000
};
static const int64_t judge_budget = 2000;

/* plan_check wants the graph with the plan's own vocabulary padding. */
bool search_estimate(const struct run *run, const struct plan *plan, const struct price_table *table,
                     struct estimate **out, struct error *err)
{
    struct graph *graph = NULL;
    bool good =
        graph_build(&graph, run->bench.model, plan->batch, plan->sequence, plan->vocab_multiple, err) &&
        plan_check(plan, graph, err) &&
        estimate_plan_steady(out, run->bench.model, graph, plan, &run->bench.chain, table, run->bench.facts, err);
    graph_free(graph);
    return good;
}

static bool is_listed(const struct search_result *result, const struct plan *plan)
{
    for (int i = 0; i < result->plan_count; i++)
        if (plan_hash(result->plans[i].plan) == plan_hash(plan))
            return true;
    return false;
}

static void insert_plan(struct run *run, struct candidate *c, struct estimate *estimate)
{
    struct search_result *result = run->result;
    plan_join_atoms(c->plan); /* where no layer made use of groups of shards */
    int place = result->plan_count, top = (int)max_i64(run->options->top, 1);
    while (place > 0 && result->plans[place - 1].estimate->prediction.step_ns > estimate->prediction.step_ns)
        place--;
    if (place == top || is_listed(result, c->plan)) {
        estimate_free(estimate);
        return;
    }
    if (result->plan_count == top) {
        struct search_plan *last = &result->plans[--result->plan_count];
        plan_free(last->plan);
        estimate_free(last->estimate);
    }
    memmove(&result->plans[place + 1], &result->plans[place],
            (size_t)(result->plan_count - place) * sizeof *result->plans);
    result->plans[place] =
        (struct search_plan){ c->plan, run->configs[c->config], c->solution.step_ns, c->ranked_ns, estimate };
    result->plan_count++;
    c->plan = NULL; /* handed over */
}

/* The formula may promise bytes that the layout does not keep: then less is promised, and the configuration solved
 * anew. The candidate is judged for good when that has no plan. */
static bool shrink(struct run *run, struct candidate *c, const struct prediction *p)
{
    struct partition_problem problem;
    struct partition_result result;
    int64_t permille = 1005;
    for (int k = 0; k < p->stage_count; k++)
        permille = max_i64(permille, (int64_t)((double)p->peak_bytes[k] / (double)p->available_bytes[k] * 1000) + 1);
    c->capacity_bytes = c->capacity_bytes / permille * 1000;
    c->judged = true;
    if (++c->shrinks > MAX_SHRINKS)
        return true;
    if (!search_problem(run, c->config, c->table, c->capacity_bytes, &problem))
        return false;
    problem.gap_ppm = max_i64(problem.gap_ppm, SHRUNK_GAP_PPM);
    if (run->result->plan_count == 0)
        problem.stops = NULL; /* short, and without it there may be no answer at all */
    if (!partition_solve(&problem, &run->arena, &result, run->err))
        return false;
    if (result.plan_count == 0)
        return true;
    plan_free(c->plan);
    c->solution = result.plans[0];
    c->judged = false;
    return search_make_plan(run, c);
}

static int64_t best_step(const struct run *run)
{
    return run->result->plan_count > 0 ? run->result->plans[0].estimate->prediction.step_ns : INT64_MAX;
}

/* ---- one wave ---- */

struct hearing {
    const struct run *run;
    struct candidate *candidate;
    struct estimate *estimate;
    struct error err;
    bool good;
};
struct wave {
    int count;
    struct hearing hearings[WAVE];
};

static void hear(void *context, int index)
{
    struct hearing *h = &((struct wave *)context)->hearings[index];
    h->good = search_estimate(h->run, h->candidate->plan, h->candidate->table, &h->estimate, &h->err);
}

static bool in_wave(const struct run *run, const struct wave *wave, const struct candidate *c, bool family)
{
    for (int i = 0; i < wave->count; i++)
        if (wave->hearings[i].candidate == c ||
            (family && search_same_family(run, wave->hearings[i].candidate->config, c->config)))
            return true;
    return false;
}

static bool family_judged(const struct run *run, const struct candidate *c)
{
    for (int i = 0; i < run->result->certificate.ranked; i++)
        if (run->candidates[i].judged && search_same_family(run, run->candidates[i].config, c->config))
            return true;
    return false;
}

/* The candidate of the best rank that nobody has judged, of a family of its own if asked; NULL: none. */
static struct candidate *next_candidate(struct run *run, const struct wave *wave, bool fresh)
{
    struct candidate *next = NULL;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        struct candidate *c = &run->candidates[i];
        if (!c->judged && (!next || c->ranked_ns < next->ranked_ns) && !in_wave(run, wave, c, fresh) &&
            !(fresh && family_judged(run, c)))
            next = c;
    }
    return next;
}

static void fill_wave(struct run *run, struct wave *wave, int most, bool fresh)
{
    struct candidate *c = NULL;
    while (wave->count < most && (c = next_candidate(run, wave, fresh)) != NULL &&
           !(fresh && c->ranked_ns >= best_step(run)))
        wave->hearings[wave->count++] = (struct hearing){ .run = run, .candidate = c };
}

/* Takes the estimate over. */
static bool settle(struct run *run, struct hearing *h, int64_t *spent)
{
    struct candidate *c = h->candidate;
    struct estimate *estimate = h->estimate;
    run->result->certificate.judged++;
    *spent += (int64_t)c->plan->layer_count * estimate->micro_batches_simulated;
    if (estimate->prediction.fits) {
        c->judged = true;
        insert_plan(run, c, estimate);
        return true;
    }
    run->result->certificate.rejected++;
    bool good = shrink(run, c, &estimate->prediction);
    estimate_free(estimate);
    return good;
}

static bool judge_wave(struct run *run, struct wave *wave, int64_t *spent)
{
    bool good = true;
    search_parallel(run, wave->count, hear, wave);
    for (int i = 0; i < wave->count; i++) {
        struct hearing *h = &wave->hearings[i];
        if (good && !h->good)
            good = fail_kind(run->err, h->err.kind, "%s", h->err.message);
        if (good)
            good = settle(run, h, spent);
        else
            estimate_free(h->estimate);
    }
    return good;
}

bool search_judge(struct run *run)
{
    int64_t spent = 0, top = max_i64(run->options->top, 1);
    for (int families = 0, late = 0;;) {
        struct wave wave = { 0 };
        bool enough = run->result->plan_count >= top, stopped = search_stops(run);
        if (stopped && (enough || run->result->plan_count > 0 || late++ == LATE_JUDGED))
            return true;
        int most = stopped ? 1 : WAVE;
        fill_wave(run, &wave, (int)min_i64(most, JUDGED_FAMILIES - families), true);
        bool fresh = wave.count > 0;
        if (!fresh && (!enough || spent < judge_budget))
            fill_wave(run, &wave, most, false);
        if (wave.count == 0)
            return true;
        if (!judge_wave(run, &wave, &spent))
            return false;
        for (int i = 0; fresh && i < wave.count; i++)
            families += wave.hearings[i].candidate->judged;
    }
}
