/* The plan that the judge found best, and others that are expected to come near it, improved by the judge itself: cuts
 * moved, strategies of a piece or of all changed, and the same cuts and strategies under configurations that
 * differ in one thing. The walk that ranks plans is off by a few percent, much alike for plans that differ in so
 * little, and had its say in what it moved before; so here only the simulation decides. */
#include "planner/estimate/effort.h"
#include "planner/pool/moves.h"
#include "planner/pool/pool_parts.h"

/* Keeps the candidate where it may win, and is new still; its plan is taken over or freed. */
static bool consider(struct run *run, struct candidate *c, int64_t most_ns, int *kept)
{
    c->judged = c->simulated = c->roomy = c->polished = false;
    c->simulated_ns = c->beaten_ns = 0;
    c->shrinks = 0;
    if (c->ranked_ns <= most_ns && rank_is_new(run, *kept, c))
        return rank_keep(run, c, kept);
    plan_free(c->plan);
    return true;
}

/* True when the two differ in one thing: the mesh, with what follows from it, the size of micro-batches, the schedule
 * with what is in flight, or prefetch. */
static bool is_near(const struct config *a, const struct config *b)
{
    bool mesh = mesh_equal(&a->mesh, &b->mesh);
    int differ = !mesh + (a->micro != b->micro && (mesh || a->micro_batch_count != b->micro_batch_count)) +
                 (a->schedule != b->schedule || a->extra != b->extra) + (a->prefetch != b->prefetch);
    return differ == 1 && b->meshes == 0 && a->bucket_bytes == b->bucket_bytes && a->order.index == b->order.index &&
           config_loss_chunks(a) == config_loss_chunks(b);
}

/* One round of polishing: those neighbours of a plan become candidates of which the walk says no more than most_ns. */
struct round {
    const struct candidate *from;
    int64_t most_ns, visits_left;
    int kept;
};

/* Makes the next few neighbours from *at on, by moves of a kind or, where it is NULL, under near configurations that
 * could be simulated shorter than the best plan, that have plans and that the walk may look at; it does not rank them.
 * *at is -1 when there are no more. */
static bool make_next(struct run *run, struct round *round, const struct move_kind *kind, int *at,
                      struct candidate *made, int *count)
{
    const struct candidate *from = round->from;
    int most = workers_at_once(&run->options->calls.workers);
    int all = kind ? kind->count(run, from) : run->config_count + run->unbounded_count;
    int64_t visits = (int64_t)from->plan->micro_batch_count * from->plan->layer_count;
    for (*count = 0; *at < all && *count < most; ++*at) {
        struct candidate *next = &made[*count];
        if (!kind &&
            !(is_near(&run->configs[from->config], &run->configs[*at]) && run->busy_ns[*at] < run_best_step_ns(run)))
            continue;
        if ((round->visits_left -= visits) < 0)
            break;
        if (!(kind ? kind->make(run, from, *at, round->kept, next) : moves_config(run, from, *at, round->kept, next))) {
            while (--*count >= 0)
                plan_free(made[*count].plan);
            return false;
        }
        *count += next->plan != NULL;
    }
    *at = *count < most ? -1 : *at;
    return true;
}

static bool look_around(struct run *run, struct round *round, const struct move_kind *kind)
{
    for (int at = 0, count; at >= 0 && !run_stops(run);) {
        struct candidate made[WORKERS_MOST_AT_ONCE];
        if (!make_next(run, round, kind, &at, made, &count) || !rank_moved(run, made, count, round->most_ns))
            return false;
        bool good = true;
        for (int i = 0; i < count; i++)
            if (good)
                good = consider(run, &made[i], round->most_ns, &round->kept);
            else
                plan_free(made[i].plan);
        if (!good)
            return false;
    }
    return true;
}

/* Gives the candidate that became the best plan; NULL where that is another search's. */
static struct candidate *find_best(const struct run *run)
{
    const struct search_plan *best = &run->result->plans[0];
    for (int i = 0; i < run->candidate_count; i++) {
        struct candidate *c = &run->candidates[i];
        if (c->simulated && c->simulated_ns == best->estimate->prediction.step_ns &&
            config_equal_but(&run->configs[c->config], &best->config, 0))
            return c;
    }
    return NULL;
}

static bool has_neighbours(const struct run *run, const struct candidate *c)
{
    return !c->polished && rank_has_pieces(run, c);
}

static bool was_polished(const struct run *run, const struct candidate *like)
{
    int polished = 0;
    for (int i = 0; i < run->candidate_count; i++)
        polished += run->candidates[i].polished && run->candidates[i].config == like->config;
    return polished >= POLISH_ALIKE;
}

/* Gives the best plan while it has neighbours to try; else, of judged plans of whose configurations not enough were
 * polished, the one that comes nearest to it; NULL where none is near. */
static struct candidate *find_next(const struct run *run)
{
    struct candidate *best = find_best(run), *next = NULL;
    int64_t best_ns = run_best_step_ns(run);
    int64_t least_ns = best_ns + best_ns / 100 * POLISH_NEAR_PERCENT;
    if (best && has_neighbours(run, best))
        return best;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        struct candidate *c = &run->candidates[i];
        if (!c->simulated || !has_neighbours(run, c) || judge_expected_ns(run, c) >= least_ns || was_polished(run, c))
            continue;
        next = c;
        least_ns = judge_expected_ns(run, c);
    }
    return next;
}

/* Makes candidates of the plan's neighbours, as far as the walk lets them win. *found: there are some. */
static bool find_neighbours(struct run *run, const struct candidate *like, bool *found)
{
    const struct candidate from = *like; /* candidates move */
    int before = (int)run->result->certificate.ranked;
    struct round round = { .from = &from,
                           .most_ns = from.ranked_ns + from.ranked_ns / 100 * POLISH_NEAR_PERCENT,
                           .kept = before };
    for (int i = 0; i < before; i++)
        run->candidates[i].judged = true; /* they had their turn */
    const struct move_kind *const kinds[] = { &moves_by_steps, &moves_by_blocks, &moves_by_jumps, &moves_by_strategies,
                                              NULL };
    bool good = true;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && good; i++) {
        round.visits_left = POLISH_VISITS;
        good = look_around(run, &round, kinds[i]);
    }
    *found = round.kept > before;
    rank_sort(run, round.kept);
    return good;
}

bool polish_best(struct run *run)
{
    if (run->result->plan_count == 0 || run->options->keep_all)
        return true;
    int64_t spent = 0;
    while (!run_stops(run)) {
        struct candidate *next = find_next(run);
        bool found;
        if (!next)
            return true;
        next->polished = true;
        if (!find_neighbours(run, next, &found) || (found && !judge_better(run, &spent, &found)))
            return false;
    }
    return true;
}
