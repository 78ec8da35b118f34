#include "planner/search/explain_several.h"
#include "base/num.h"
#include "planner/search/explain.h"
#include "planner/search/space_choice.h"
#include <stdlib.h>
#include <string.h>

static bool out_of_memory(struct error *err)
{
    return fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
}

/* ---- more than trifles ---- */

/* How many layers of a class took a decision: of one plan, less those of the other. */
struct tally {
    int class_index, count;
    struct plan_layer decision;
};

static void count_layer(struct tally *tallies, int *tally_count, int class_index, const struct plan_layer *decision,
                        int sign)
{
    int i = 0;
    while (i < *tally_count &&
           (tallies[i].class_index != class_index || !plan_layer_equal(&tallies[i].decision, decision)))
        i++;
    if (i == *tally_count)
        tallies[(*tally_count)++] = (struct tally){ .class_index = class_index, .decision = *decision };
    tallies[i].count += sign;
}

/* Layers decided otherwise, when layers of a class may be swapped. tallies: (2 layers). */
static int differing_layers(const struct graph *graph, const struct plan *a, const struct plan *b,
                            struct tally *tallies)
{
    int count = 0, more = 0;
    for (int l = 0; l < a->layer_count; l++) {
        count_layer(tallies, &count, graph->layers[plan_layer_at(a, l)].class_index, &a->layers[l], 1);
        count_layer(tallies, &count, graph->layers[plan_layer_at(b, l)].class_index, &b->layers[l], -1);
    }
    for (int i = 0; i < count; i++)
        more += tallies[i].count > 0 ? tallies[i].count : 0;
    return more;
}

/* Layers that stand on another stage, whatever the orders. */
static int layers_elsewhere(const struct plan *a, const struct plan *b)
{
    int moved = 0;
    for (int p = 0; p < a->layer_count; p++) {
        int q = 0;
        while (plan_layer_at(b, q) != plan_layer_at(a, p))
            q++;
        moved += stage_of_layer(a, p) != stage_of_layer(b, q);
    }
    return moved;
}

static bool shapes_differ(const struct plan *a, const struct plan *b)
{
    int moved = 0;
    if (a->stage_count != b->stage_count || a->schedule != b->schedule || a->batch != b->batch ||
        a->micro_batch_count != b->micro_batch_count || a->atom_count != b->atom_count ||
        a->layer_count != b->layer_count || a->chunk_count != b->chunk_count)
        return true;
    for (int s = 0; s < a->stage_count; s++) {
        for (int chunk = 0; chunk < a->chunk_count; chunk++)
            moved += abs(stage_chunk(a, s, chunk).first - stage_chunk(b, s, chunk).first);
        if (a->stages[s].turn != b->stages[s].turn || a->stages[s].first_rank != b->stages[s].first_rank ||
            memcmp(a->stages[s].atom, b->stages[s].atom, (size_t)a->atom_count * sizeof *a->stages[s].atom) != 0)
            return true;
    }
    if (a->order || b->order)
        moved = layers_elsewhere(a, b);
    return 10 * moved >= a->layer_count;
}

bool plans_distinct(const struct graph *graph, const struct plan *a, const struct plan *b, bool *out, struct error *err)
{
    *out = shapes_differ(a, b);
    if (*out)
        return true;
    struct tally *tallies = malloc(2 * (size_t)a->layer_count * sizeof *tallies);
    if (!tallies)
        return out_of_memory(err);
    *out = 10 * differing_layers(graph, a, b, tallies) >= a->layer_count;
    free(tallies);
    return true;
}

/* ---- the ranking ---- */

static void free_plan(struct search_plan *plan)
{
    plan_free(plan->plan);
    estimate_free(plan->estimate);
}

void ranking_free(struct ranking *ranking)
{
    for (int i = 0; i < ranking->count; i++)
        free_plan(&ranking->plans[i]);
    free(ranking->plans);
    *ranking = (struct ranking){ 0 };
}

static int64_t step_of(const struct search_plan *plan)
{
    return plan->estimate->prediction.step_ns;
}

/* Takes the plan over, by step; behind plans of equal step, so that what came first stays first. */
static bool insert(struct ranking *r, struct search_plan *found, struct error *err)
{
    if (r->count == r->capacity) {
        int capacity = r->capacity ? 2 * r->capacity : 32;
        struct search_plan *grown = realloc(r->plans, (size_t)capacity * sizeof *grown);
        if (!grown)
            return out_of_memory(err);
        r->plans = grown;
        r->capacity = capacity;
    }
    int place = r->count++;
    for (; place > 0 && step_of(&r->plans[place - 1]) > step_of(found); place--)
        r->plans[place] = r->plans[place - 1];
    r->plans[place] = *found;
    found->plan = NULL;
    found->estimate = NULL;
    return true;
}

/* Drops every plan that differs from a better one in trifles only. */
static bool thin(struct ranking *r, const struct graph *graph, struct error *err)
{
    int kept = 0;
    bool good = true;
    for (int i = 0; i < r->count; i++) {
        bool distinct = true;
        for (int k = 0; k < kept && distinct && good; k++)
            good = plans_distinct(graph, r->plans[k].plan, r->plans[i].plan, &distinct, err);
        if (distinct)
            r->plans[kept++] = r->plans[i];
        else
            free_plan(&r->plans[i]);
    }
    r->count = kept;
    return good;
}

static bool add_result(struct ranking *r, struct search_result *result, const struct graph *graph, struct error *err)
{
    for (int i = 0; i < result->plan_count; i++)
        if (!insert(r, &result->plans[i], err))
            return false;
    return thin(r, graph, err);
}

struct widening {
    struct ranking *ranking;
    const struct model *model;
    const struct graph *graph;
    const struct facts *facts;
    struct search_options options; /* with the time limit that was given for everything */
    int64_t start_ns;
    int wanted;
    struct error *err;
};

static bool add_search(struct widening *w, const struct search_options *options)
{
    struct search_result *result = NULL;
    struct error why = { 0 };
    bool good = search_run(&result, w->model, w->facts, options, &why);
    if (!good && why.kind == ERROR_ENVIRONMENT) /* the time is over, or it is memory and the next will tell */
        w->ranking->complete = false;
    else if (!good && why.kind != ERROR_INPUT)
        return fail_kind(w->err, why.kind, "%s", why.message);
    good = !result || add_result(w->ranking, result, w->graph, w->err);
    search_result_free(result);
    return good;
}

/* ---- other configurations ---- */

static bool time_is_over(struct widening *w)
{
    const struct search_calls *calls = &w->options.calls;
    bool over = (calls->cancelled && calls->cancelled(calls->self)) ||
                (w->options.time_limit_ns > 0 && calls->now_ns &&
                 calls->now_ns(calls->self) - w->start_ns >= w->options.time_limit_ns);
    w->ranking->complete = w->ranking->complete && !over;
    return over;
}

/* One search for each legal value of the choice, until there are enough plans. */
static bool widen(struct widening *w, enum space_choice choice, int64_t n, int64_t most)
{
    for (int64_t value = 1; value <= n && value <= most && w->ranking->count < w->wanted; value++) {
        struct search_options options = w->options;
        struct allowed *allowed = space_allowed(&options.space, choice);
        if (n % value != 0 || !allows(allowed, value))
            continue;
        if (time_is_over(w))
            return true;
        *allowed = (struct allowed){ 1, { value } };
        options.top = w->wanted;
        options.no_advice = options.unproven = true;
        options.calls.progress = NULL;
        if (options.time_limit_ns > 0 && options.calls.now_ns)
            options.time_limit_ns -= options.calls.now_ns(options.calls.self) - w->start_ns;
        if (!add_search(w, &options))
            return false;
    }
    return true;
}

bool ranking_build(struct ranking *out, struct search_result *first, const struct model *model,
                   const struct facts *facts, const struct search_options *options, int wanted, struct error *err)
{
    struct ranking ranking = { .complete = !first->certificate.ended };
    struct widening w = {
        .ranking = &ranking, .model = model, .facts = facts, .options = *options, .wanted = wanted, .err = err
    };
    struct graph *graph = NULL;
    int devices = facts->cluster->device_count;
    if (options->calls.now_ns)
        w.start_ns = options->calls.now_ns(options->calls.self);
    if (!graph_build(&graph, model, options->space.batch, options->space.sequence, 1, err))
        return false;
    w.graph = graph;
    bool good = add_result(&ranking, first, graph, err) && widen(&w, SPACE_PP, devices, devices) &&
                widen(&w, SPACE_TP, devices, cluster_node_size(facts->cluster)) &&
                widen(&w, SPACE_MICRO, options->space.batch, options->space.batch);
    graph_free(graph);
    if (!good) {
        ranking_free(&ranking);
        return false;
    }
    for (; ranking.count > wanted; ranking.count--)
        free_plan(&ranking.plans[ranking.count - 1]);
    *out = ranking;
    return true;
}
