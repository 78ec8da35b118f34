/* The plan that the judge found best, and others that are expected to come near it, improved by the judge itself: cuts
 * moved by a layer, and their cuts and counts of strategies, spread evenly, under schedules alike. The walk that ranks
 * plans is off by a few percent, much alike for plans that differ in so little, and had its say in what it moved
 * before; so here only the simulation decides. */
#include "base/num.h"
#include "planner/search/search_parts.h"

/* NEAR_PERCENT: what the walk finds so much longer than the best is not simulated. WALK_VISITS: of layers by the walk
 * in a round. ROUNDS: so many plans have their neighbours looked at. */
enum { NEAR_PERCENT = 3, WALK_VISITS = 1 << 18, ROUNDS = 12 };

/* Keeps the candidate where it may win; its plan is taken over or freed. */
static bool consider(struct run *run, struct candidate *c, int64_t most_ns, int *kept)
{
    c->judged = c->heard = c->roomy = c->polished = false;
    c->simulated_ns = 0;
    c->shrinks = 0;
    if (c->ranked_ns <= most_ns)
        return search_keep(run, c, kept);
    plan_free(c->plan);
    return true;
}

static bool move_cuts(struct run *run, const struct candidate *best, int64_t most_ns, int *kept)
{
    int cuts = config_pieces(&run->configs[best->config]) - 1;
    int64_t each = (int64_t)best->plan->micro_batch_count * best->plan->layer_count, visits = WALK_VISITS;
    struct cut_move move = { 1, 1, -1 };
    for (int i = 0; i < cuts * (cuts + 1) && (visits -= each) >= 0; i++, cut_move_next(&move, cuts)) {
        struct candidate moved;
        if (!search_move_cuts(run, best, &move, *kept, &moved) || (moved.plan && !consider(run, &moved, most_ns, kept)))
            return false;
    }
    return true;
}

/* What is in flight beyond the schedule's own, and schedules of which layers have the same prices. */
static bool change_schedule(struct run *run, const struct candidate *best, int64_t most_ns, int *kept)
{
    const struct config *own = &run->configs[best->config];
    const struct price_table *table = NULL; /* of which the best one's may be a part */
    if (!workbench_table(&run->bench, own, false, &table, run->err))
        return false;
    for (int i = 0; i < run->config_count + run->beside_count && !search_stops(run); i++) {
        struct candidate c = *best;
        int64_t step_ns = INT64_MAX;
        c.config = i;
        c.plan = NULL;
        if (i == best->config || config_pieces(&run->configs[i]) != config_pieces(own) ||
            !config_equal_but(&run->configs[i], own, BUT_EXTRA | BUT_SCHEDULE))
            continue;
        if (!workbench_table(&run->bench, &run->configs[i], false, &c.table, run->err))
            return false;
        if (c.table != table)
            continue;
        c.table = best->table;
        if (!search_tighten(run, &c, best->kept_bytes) || !search_evaluate(run, &c, c.capacity_bytes, &step_ns))
            return false;
        c.solution.step_ns = step_ns;
        if (step_ns == INT64_MAX)
            continue;
        if (!search_make_plan(run, &c))
            return false;
        if (!search_is_new(run, *kept, &c))
            plan_free(c.plan);
        else if (!consider(run, &c, most_ns, kept))
            return false;
    }
    return true;
}

/* The candidate that became the best plan; NULL: it is another search's. */
static struct candidate *find_best(const struct run *run)
{
    const struct search_plan *best = &run->result->plans[0];
    for (int i = 0; i < run->candidate_count; i++) {
        struct candidate *c = &run->candidates[i];
        if (c->heard && c->simulated_ns == best->estimate->prediction.step_ns &&
            config_equal_but(&run->configs[c->config], &best->config, 0))
            return c;
    }
    return NULL;
}

static bool has_neighbours(const struct run *run, const struct candidate *c)
{
    return !c->polished && run->configs[c->config].stages > 1 && search_has_pieces(run, c);
}

static bool was_polished(const struct run *run, const struct candidate *like)
{
    for (int i = 0; i < run->candidate_count; i++)
        if (run->candidates[i].polished && search_leads_alike(run, run->candidates[i].config, like->config))
            return true;
    return false;
}

/* The best plan; else of each other configuration that was judged the one that comes nearest to it; NULL: none is near.
 */
static struct candidate *find_next(const struct run *run)
{
    struct candidate *best = find_best(run), *next = NULL;
    int64_t best_ns = run->result->plans[0].estimate->prediction.step_ns;
    int64_t least_ns = best_ns + best_ns / 100 * NEAR_PERCENT;
    if (best && has_neighbours(run, best))
        return best;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        struct candidate *c = &run->candidates[i];
        if (!c->heard || !has_neighbours(run, c) || search_expected_ns(run, c) >= least_ns || was_polished(run, c))
            continue;
        next = c;
        least_ns = search_expected_ns(run, c);
    }
    return next;
}

/* The plan's neighbours, as far as the walk lets them win. *found: there are some. */
static bool find_neighbours(struct run *run, const struct candidate *like, bool *found)
{
    const struct candidate from = *like; /* candidates move */
    int kept = (int)run->result->certificate.ranked, before = kept;
    for (int i = 0; i < kept; i++)
        run->candidates[i].judged = true; /* they had their turn */
    int64_t most_ns = from.ranked_ns + from.ranked_ns / 100 * NEAR_PERCENT;
    bool good = move_cuts(run, &from, most_ns, &kept) && change_schedule(run, &from, most_ns, &kept);
    *found = kept > before;
    search_sort_ranked(run, kept);
    return good;
}

bool search_polish(struct run *run)
{
    int64_t spent = 0;
    if (run->result->plan_count == 0 || run->options->keep_all)
        return true;
    for (int round = 0; round < ROUNDS && !search_stops(run); round++) {
        struct candidate *next = find_next(run);
        bool found;
        if (!next)
            return true;
        next->polished = true;
        if (!find_neighbours(run, next, &found) || (found && !search_judge_better(run, &spent, &found)))
            return false;
    }
    return true;
}
