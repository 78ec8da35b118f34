/* The plan that the judge found best, improved by the judge itself: cuts moved by a layer, and its cuts and counts of
 * strategies, spread evenly, under schedules alike. The walk that ranks plans is off by a few percent, much alike
 * for plans that differ in so little, and had its say in what it moved before; so here only the simulation decides. */
#include "base/num.h"
#include "planner/search/search_parts.h"

/* NEAR_PERCENT: what the walk finds so much longer than the best is not simulated. WALK_VISITS: of layers by the walk
 * in a round. ROUNDS: so many times the best may be replaced. */
enum { NEAR_PERCENT = 3, WALK_VISITS = 1 << 18, ROUNDS = 8 };

/* The candidate that became the best plan; NULL: it is another search's. */
static const struct candidate *find_best(const struct run *run)
{
    const struct search_plan *best = &run->result->plans[0];
    for (int i = 0; i < run->candidate_count; i++) {
        const struct candidate *c = &run->candidates[i];
        if (c->heard && c->simulated_ns == best->estimate->prediction.step_ns &&
            config_equal_but(&run->configs[c->config], &best->config, 0))
            return c;
    }
    return NULL;
}

/* Keeps the candidate where it may win; its plan is taken over or freed. */
static bool consider(struct run *run, struct candidate *c, int64_t most_ns, int *kept)
{
    c->judged = c->heard = c->roomy = false;
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
        if (c.table != best->table)
            continue;
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

/* The best plan's neighbours, as far as the walk lets them win. *found: there are some. */
static bool find_neighbours(struct run *run, const struct candidate *like, bool *found)
{
    const struct candidate best = *like; /* candidates move */
    int kept = (int)run->result->certificate.ranked, before = kept;
    for (int i = 0; i < kept; i++)
        run->candidates[i].judged = true; /* they had their turn */
    int64_t most_ns = best.ranked_ns + best.ranked_ns / 100 * NEAR_PERCENT;
    bool good = move_cuts(run, &best, most_ns, &kept) && change_schedule(run, &best, most_ns, &kept);
    *found = kept > before;
    search_sort_ranked(run, kept);
    return good;
}

bool search_polish(struct run *run)
{
    int64_t spent = 0;
    bool better = run->result->plan_count > 0 && !run->options->keep_all;
    for (int round = 0; round < ROUNDS && better && !search_stops(run); round++) {
        const struct candidate *best = find_best(run);
        better = best && run->configs[best->config].stages > 1 && search_has_pieces(run, best);
        if (better && (!find_neighbours(run, best, &better) || (better && !search_judge_better(run, &spent, &better))))
            return false;
    }
    return true;
}
