#include "planner/explain/explain_several.h"
#include "planner/estimate/effort.h"
#include "planner/space/choice.h"
#include <stdlib.h>
#include <string.h>

/* ---- more than trifles ---- */

/* How many layers of a class took a decision: of one plan, less those of the other. */
struct tally {
    int class_index, count;
    struct plan_layer decision;
};

static void count_layer(struct tally *tallies, int *tally_count, const struct graph *graph, const struct plan *plan,
                        int place, int sign)
{
    int i = 0, class_index = graph->layers[plan_layer_at(plan, place)].class_index;
    struct plan_layer decision = plan->layers[place];
    decision.zero = (int8_t)plan_zero_on(plan, &plan->stages[plan_stage_of_layer(plan, place)], place);
    while (i < *tally_count &&
           (tallies[i].class_index != class_index || !plan_layer_equal(&tallies[i].decision, &decision)))
        i++;
    if (i == *tally_count)
        tallies[(*tally_count)++] = (struct tally){ .class_index = class_index, .decision = decision };
    tallies[i].count += sign;
}

/* Counts layers decided otherwise, when layers of a class may be swapped. tallies: (2 layers). */
static int differing_layers(const struct graph *graph, const struct plan *a, const struct plan *b,
                            struct tally *tallies)
{
    int count = 0, more = 0;
    for (int l = 0; l < a->layer_count; l++) {
        count_layer(tallies, &count, graph, a, l, 1);
        count_layer(tallies, &count, graph, b, l, -1);
    }
    for (int i = 0; i < count; i++)
        more += max_int(tallies[i].count, 0);
    return more;
}

/* Counts layers that stand on another stage, whatever the orders. */
static int layers_elsewhere(const struct plan *a, const struct plan *b)
{
    int moved = 0;
    for (int p = 0; p < a->layer_count; p++) {
        int q = 0;
        while (plan_layer_at(b, q) != plan_layer_at(a, p))
            q++;
        moved += plan_stage_of_layer(a, p) != plan_stage_of_layer(b, q);
    }
    return moved;
}

static bool shapes_differ(const struct plan *a, const struct plan *b)
{
    const int64_t numbers[][2] = { { a->stage_count, b->stage_count },
                                   { a->schedule, b->schedule },
                                   { a->batch, b->batch },
                                   { a->micro_batch_count, b->micro_batch_count },
                                   { a->atom_count, b->atom_count },
                                   { a->layer_count, b->layer_count },
                                   { a->chunk_count, b->chunk_count } };
    if (!pairs_equal(numbers, sizeof numbers / sizeof *numbers))
        return true;
    for (int s = 0; s < a->stage_count; s++)
        if (a->stages[s].turn != b->stages[s].turn || a->stages[s].first_rank != b->stages[s].first_rank ||
            memcmp(a->stages[s].atom, b->stages[s].atom, (size_t)a->atom_count * sizeof *a->stages[s].atom) != 0)
            return true;
    return DISTINCT_SHARE * layers_elsewhere(a, b) >= a->layer_count;
}

bool several_distinct(const struct graph *graph, const struct plan *a, const struct plan *b, bool *out,
                      struct error *err)
{
    *out = shapes_differ(a, b);
    if (*out)
        return true;
    struct tally *tallies = malloc(2 * (size_t)a->layer_count * sizeof *tallies);
    if (!tallies)
        return fail_memory(err);
    *out = DISTINCT_SHARE * differing_layers(graph, a, b, tallies) >= a->layer_count;
    free(tallies);
    return true;
}

/* ---- the ranking ---- */

void ranking_free(struct ranking *ranking)
{
    for (int i = 0; i < ranking->count; i++) {
        plan_free(ranking->plans[i].plan);
        estimate_free(ranking->plans[i].estimate);
    }
    free(ranking->plans);
    *ranking = (struct ranking){ 0 };
}

struct ranked_plan {
    int known; /* index in the explainer's store */
    int64_t step_ns;
};
struct shortlist {
    struct explainer *e;
    const struct graph *graph; /* of the model, for its classes */
    int wanted, seen;          /* seen: of the store */
    int fit_count, capacity, count;
    struct ranked_plan *fit;  /* (fit_count) all that fit, by step; behind plans of equal step what came later */
    struct ranked_plan *list; /* (count), at most `wanted` of them: each distinct from all before it */
    struct error *err;
};

static const struct plan *plan_of(const struct shortlist *s, const struct ranked_plan *ranked)
{
    return s->e->known[ranked->known].explained->plan;
}

/* Tells whether the plan is distinct from all in the list that take no longer. */
static bool is_new(const struct shortlist *s, const struct plan *plan, int64_t step_ns, bool *out)
{
    *out = true;
    for (int i = 0; i < s->count && *out && s->list[i].step_ns <= step_ns; i++)
        if (!several_distinct(s->graph, plan_of(s, &s->list[i]), plan, out, s->err))
            return false;
    return true;
}

static bool add_fit(struct shortlist *s, int known, int64_t step_ns)
{
    struct ranked_plan *fit = arena_more(&s->e->arena, s->fit, s->fit_count, &s->capacity, sizeof *fit);
    if (!fit)
        return fail_memory(s->err);
    s->fit = fit;
    int place = s->fit_count++;
    for (; place > 0 && s->fit[place - 1].step_ns > step_ns; place--)
        s->fit[place] = s->fit[place - 1];
    s->fit[place] = (struct ranked_plan){ known, step_ns };
    return true;
}

/* Lists anew, with what has become known since. */
static bool list_known(struct shortlist *s)
{
    for (; s->seen < s->e->known_count; s->seen++) {
        struct solution own;
        if (!explainer_judge(s->e, s->e->known[s->seen].explained->plan, &own, s->err) ||
            (own.kind == SOLUTION_PLAN && !add_fit(s, s->seen, own.step_ns)))
            return false;
    }
    s->count = 0;
    for (int i = 0; i < s->fit_count && s->count < s->wanted; i++) {
        bool distinct;
        if (!is_new(s, plan_of(s, &s->fit[i]), INT64_MAX, &distinct))
            return false;
        if (distinct)
            s->list[s->count++] = s->fit[i];
    }
    return true;
}

/* Lists what searches have simulated on their way, as far as it may be one of those wanted. */
static bool list_simulated(struct shortlist *s)
{
    explainer_sort_simulated(s->e);
    for (int i = 0; i < s->e->simulated_count && !explainer_ends(s->e); i++) {
        const struct simulated_plan *simulated = &s->e->simulated[i];
        struct solution own;
        bool distinct;
        if (s->count == s->wanted && simulated->least_ns >= s->list[s->count - 1].step_ns)
            return true;
        if (!is_new(s, simulated->plan, simulated->least_ns, &distinct) ||
            (distinct && !(explainer_judge_simulated(s->e, simulated, &own, s->err) && list_known(s))))
            return false;
    }
    return true;
}

/* Searches once for each legal value of the choice, until there are enough plans. */
static bool widen(struct shortlist *s, enum space_choice choice, int64_t n, int64_t most)
{
    for (int64_t value = 1; value <= n && value <= most && s->count < s->wanted; value++) {
        struct space space = s->e->options.space;
        struct allowed *allowed = &space.range[choice];
        struct solution found;
        if (n % value != 0 || !allowed_has(allowed, value))
            continue;
        *allowed = (struct allowed){ 1, { value } };
        if (!explainer_solve(s->e, &space, s->e->facts, &found, s->err) || !list_known(s))
            return false;
    }
    return true;
}

static bool list_all(struct shortlist *s)
{
    struct explainer *e = s->e;
    struct alternatives alternatives;
    int devices = e->facts->cluster->device_count;
    return list_known(s) && widen(s, CHOICE_PP, devices, devices) &&
           widen(s, CHOICE_TP, devices, cluster_node_size(e->facts->cluster)) &&
           widen(s, CHOICE_MICRO, e->options.space.batch, e->options.space.batch) &&
           explain_alternatives(e, e->base.explained, &alternatives, s->err) && list_known(s) && list_simulated(s);
}

/* Inserts by the estimates, which may differ a little from what the store has. */
static void insert(struct ranking *r, const struct search_plan *plan)
{
    int place = r->count++;
    for (; place > 0 && r->plans[place - 1].estimate->prediction.step_ns > plan->estimate->prediction.step_ns; place--)
        r->plans[place] = r->plans[place - 1];
    r->plans[place] = *plan;
}

/* Takes the plan over. */
static void take(struct ranking *r, struct search_result *first, int index)
{
    insert(r, &first->plans[index]);
    first->plans[index] = (struct search_plan){ 0 };
}

/* Makes a copy with an estimate of its own. */
static bool copy_known(struct ranking *r, const struct explainer *e, const struct known_plan *known, struct error *err)
{
    struct search_plan plan = { .plan = plan_copy(known->explained->plan), .formula_ns = known->formula_ns };
    const struct graph *graph = known->explained->graph;
    if (!plan.plan)
        return fail_memory(err);
    if (known->own.timed ? !estimate_plan(&plan.estimate, graph, plan.plan, e->facts, err)
                         : !estimate_plan_periodic(&plan.estimate, e->model, graph, plan.plan, e->facts, err)) {
        plan_free(plan.plan);
        return false;
    }
    insert(r, &plan);
    return true;
}

/* Fills the ranking; what is the first search's own has its estimate already. */
static bool fill(struct ranking *r, struct search_result *first, const struct shortlist *s)
{
    for (int i = 0; i < s->count; i++) {
        const struct known_plan *known = &s->e->known[s->list[i].known];
        int own = 0;
        while (own < first->plan_count &&
               (!first->plans[own].plan || plan_hash(first->plans[own].plan) != plan_hash(known->explained->plan)))
            own++;
        if (own < first->plan_count)
            take(r, first, own);
        else if (!copy_known(r, s->e, known, s->err))
            return false;
    }
    if (r->count == 0)
        take(r, first, 0);
    return true;
}

static bool build(struct ranking *out, struct search_result *first, struct explainer *e, int wanted, struct error *err)
{
    struct shortlist s = { .e = e, .wanted = wanted, .err = err };
    struct graph *graph = NULL;
    if (!graph_build(&graph, e->model, e->options.space.batch, e->options.space.sequence, 1, err))
        return false;
    s.graph = graph;
    s.list = calloc((size_t)wanted, sizeof *s.list);
    bool good = s.list ? list_all(&s) && fill(out, first, &s) : fail_memory(err);
    graph_free(graph);
    free(s.list);
    return good;
}

bool ranking_build(struct ranking *out, struct search_result *first, struct explainer *e, int wanted, struct error *err)
{
    *out = (struct ranking){ .plans = calloc((size_t)wanted, sizeof *out->plans) };
    if (!out->plans)
        return fail_memory(err);
    if (wanted == 1)
        take(out, first, 0);
    else if (!build(out, first, e, wanted, err)) {
        ranking_free(out);
        return false;
    }
    out->complete = !first->certificate.ended && !e->ended;
    return true;
}
