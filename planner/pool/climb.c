/* Plans that lead by rank are improved by the walk: other cuts, and which of like layers takes which strategy. The
 * formula knows neither the links at a cut nor what crosses it, nor that order. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/pool/moves.h"
#include "planner/pool/pool_parts.h"
#include <math.h>

/* ---- cuts ---- */

/* Tries `count` moves from the one at `at` on, in a circle of `all`, and ranks their plans together. A move that leads
 * nowhere has no plan. */
static bool try_moves(struct run *run, const struct candidate *c, const struct move_kind *kind, int at, int all,
                      int count, int kept, struct candidate *tried)
{
    struct candidate ranked[WORKERS_MOST_AT_ONCE];
    int place[WORKERS_MOST_AT_ONCE], plans = 0;
    for (int i = 0; i < count; i++) {
        if (!kind->make(run, c, (at + i) % all, kept, &tried[i])) {
            for (int k = 0; k < i; k++)
                plan_free(tried[k].plan);
            return false;
        }
        place[plans] = i;
        if (tried[i].plan)
            ranked[plans++] = tried[i];
    }
    if (!rank_moved(run, ranked, plans, c->ranked_ns))
        return false;
    for (int i = 0; i < plans; i++)
        tried[place[i]] = ranked[i];
    return true;
}

/* Counts the layers that a walk visits, which is what the walk costs. */
static int64_t visits_of(const struct plan *plan)
{
    return (int64_t)plan->micro_batch_count * plan->layer_count;
}

/* Makes moves of a kind, one after the other, as long as the walk says that it helps. *c has a plan of its own. Several
 * are tried at once; those behind one that helps were in vain. */
static bool descend(struct run *run, struct candidate *c, const struct move_kind *kind, int kept, int64_t *visits)
{
    int64_t each = visits_of(c->plan);
    int all = kind->count(run, c);
    for (int still = 0, at = 0; still < all && *visits >= each;) {
        struct candidate tried[WORKERS_MOST_AT_ONCE];
        int count = (int)min_i64(workers_at_once(&run->options->calls.workers), min_i64(all - still, *visits / each));
        bool better = false;
        if (!try_moves(run, c, kind, at, all, count, kept, tried))
            return false;
        for (int i = 0; i < count; i++) {
            if (better) {
                plan_free(tried[i].plan);
                continue;
            }
            struct candidate *moved = &tried[i];
            better = moved->plan && moved->ranked_ns < c->ranked_ns;
            plan_free(better ? c->plan : moved->plan);
            *c = better ? *moved : *c;
            *visits -= each;
            still = better ? 0 : still + 1;
            at = better && kind->again ? at : (at + 1) % all;
        }
    }
    return true;
}

static bool may_change(const struct run *run, const struct candidate *c)
{
    (void)run;
    return c->table->strategy_count > 1;
}

/* True when other cuts may be better: they are not where walk and formula say the same of a schedule that it bounds. */
static bool may_move(const struct run *run, const struct candidate *c)
{
    int64_t off_ns = c->ranked_ns - c->solution.step_ns;
    return c->plan->stage_count > 1 && (max_i64(off_ns, -off_ns) > c->solution.step_ns / 100 * CLIMB_ALIKE_PERCENT ||
                                        !config_is_bounded(&run->configs[c->config]));
}

static bool may_jump(const struct run *run, const struct candidate *c)
{
    return moves_by_jumps.count(run, c) > 0 && may_move(run, c);
}

/* ---- leaders ---- */
struct climb {
    bool (*may)(const struct run *run, const struct candidate *c);
    const struct move_kind *kind;
    bool then_steps; /* by these afterwards */
};

/* True when enough candidates of the configuration have climbed: one, or a few where the formula does not bound it and
 * the model is small, since there cuts say more than the formula does. Beside it prefetch and what is in flight make no
 * other configuration. */
static bool has_climbed(const struct run *run, const struct candidate *climbed, int count, const struct candidate *c)
{
    const struct config *own = &run->configs[c->config];
    int alike = 0;
    for (int i = 0; i < count; i++) {
        const struct config *other = &run->configs[climbed[i].config];
        bool bounded = config_is_bounded(own) || config_is_bounded(other);
        alike += config_equal_but(own, other, bounded ? 0 : BUT_PREFETCH | BUT_EXTRA);
    }
    return alike >= (!config_is_bounded(own) && run_is_small(run) ? CLIMB_ALIKE : 1);
}

/* Lets leaders climb. A plan whose walk is dear does not where it would not lead even with as small a share of its step
 * left as climbing left of another's, or may leave. */
static bool improve_leaders(struct run *run, int first_config, const struct climb *climb)
{
    struct candidate climbed[CLIMB_SMALL_LEADERS];
    int kept = (int)run->result->certificate.ranked, ranked = kept, count = 0;
    int most = run_is_small(run) ? CLIMB_SMALL_LEADERS : CLIMB_LEADERS;
    int64_t left = CLIMB_LEADERS * CLIMB_EACH, best_ns = INT64_MAX; /* by the walk, of plans that nobody has judged */
    for (int i = 0; i < ranked; i++)
        if (!run->candidates[i].judged)
            best_ns = min_i64(best_ns, run->candidates[i].ranked_ns);
    double least_share = 1 - CLIMB_PERMILLE / 1e3;
    for (int i = 0; i < ranked && count < most && left > 0 && !run_stops(run); i++) {
        struct candidate c = run->candidates[i];
        if (c.config < first_config || c.judged || !rank_has_pieces(run, &c) || !climb->may(run, &c) ||
            has_climbed(run, climbed, count, &c) ||
            (visits_of(c.plan) > CLIMB_DEAR && (double)c.ranked_ns * least_share > (double)best_ns))
            continue;
        climbed[count++] = c;
        c.plan = plan_copy(c.plan);
        if (!c.plan)
            return fail_memory(run->err);
        int64_t given = min_i64(left, CLIMB_EACH), visits = given;
        if (!descend(run, &c, climb->kind, kept, &visits) ||
            (climb->then_steps && !descend(run, &c, &moves_by_steps, kept, &visits))) {
            plan_free(c.plan);
            return false;
        }
        left -= given - visits;
        best_ns = min_i64(best_ns, c.ranked_ns);
        double share = (double)c.ranked_ns / (double)run->candidates[i].ranked_ns;
        least_share = fmin(least_share, share);
        if (c.ranked_ns == run->candidates[i].ranked_ns)
            plan_free(c.plan);
        else if (!rank_keep(run, &c, &kept))
            return false;
    }
    rank_sort(run, kept);
    return true;
}

bool climb_from(struct run *run, int first_config)
{
    static const struct climb climbs[] = { { may_change, &moves_by_strategies, false },
                                           { may_move, &moves_by_steps, false },
                                           { may_jump, &moves_by_jumps, true } };
    for (size_t i = 0; i < sizeof climbs / sizeof *climbs; i++)
        if (!improve_leaders(run, first_config, &climbs[i]))
            return false;
    return true;
}

bool climb_all(struct run *run)
{
    return climb_from(run, 0);
}
