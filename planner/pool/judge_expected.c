/* What a simulation would say of a candidate, by its walk and what was simulated of its like. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/pool/pool_parts.h"

int64_t judge_simulated_ns(const struct candidate *c)
{
    return c->simulated_ns > 0 ? c->simulated_ns : c->beaten_ns;
}

/* Tells how alike two candidates are in what the walk gets wrong: they have a schedule in common, and a family. */
enum kinship { STRANGERS, OF_SCHEDULE, KIN };

static enum kinship kinship_of(const struct run *run, const struct candidate *a, const struct candidate *b)
{
    if (run->configs[a->config].schedule != run->configs[b->config].schedule)
        return STRANGERS;
    return run_same_family(run, a->config, b->config) ? KIN : OF_SCHEDULE;
}

/* Scales the candidate's walk by as much as it was off for one that was simulated. */
static double scaled_ns(const struct candidate *c, const struct candidate *like)
{
    return (double)c->ranked_ns * (double)judge_simulated_ns(like) / (double)like->ranked_ns;
}

int64_t judge_expected_ns(const struct run *run, const struct candidate *c)
{
    const struct candidate *like = NULL;
    bool met = false;
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        const struct candidate *other = &run->candidates[i];
        bool same = other->config == c->config, simulated = other->judged && judge_simulated_ns(other) > 0;
        met = met || (same && (simulated || other->shrinks > 0));
        if (simulated && kinship_of(run, other, c) == KIN && (!like || (same && like->config != c->config)))
            like = other;
    }
    double ns = (double)c->ranked_ns;
    if (like && like->ranked_ns > 0)
        ns = scaled_ns(c, like);
    return (int64_t)ns - (met ? 0 : c->ranked_ns / 100 * DOUBT_PERCENT);
}

/* Gives how far the walk may be off for a plan beside what it was off for one that was simulated; it is less where
 * looks are dear, so that fewer are worth one. */
static double doubt_of(const struct candidate *simulated, enum kinship kinship)
{
    static const double usual[] = { [OF_SCHEDULE] = OTHER_PERMILLE / 1e3, [KIN] = KIN_PERMILLE / 1e3 };
    if (simulated->effort > JUDGED_DEAR && kinship == KIN)
        return -KIN_PERMILLE / 1e3;
    if (simulated->effort > JUDGE_BUDGET)
        return 0;
    if (simulated->effort > JUDGED_DEAR && kinship == OF_SCHEDULE)
        return DEAR_PERMILLE / 1e3;
    return usual[kinship];
}

/* Judges by the caller's peer as by one more that was simulated, unless such plans are soon simulated themselves. */
static bool loses_to_peer(const struct run *run, const struct candidate *c)
{
    const struct search_peer *peer = run->options->peer;
    const struct config *config = &run->configs[c->config];
    if (!peer || peer->ranked_ns <= 0 || peer->effort <= JUDGED_DEAR || peer->config.schedule != config->schedule)
        return false;
    double doubt = run_is_akin(run, &peer->config, config) ? -KIN_PERMILLE / 1e3 : DEAR_PERMILLE / 1e3;
    double ns = (double)c->ranked_ns * (double)peer->simulated_ns / (double)peer->ranked_ns;
    return (int64_t)(ns * (1 - doubt)) >= peer->simulated_ns;
}

/* A plan that differs in what decides nothing, such as how a layer without weights shards them, takes as long by the
 * walk to the nanosecond and cannot win. Else the walk is taken to be off alike for plans of one schedule. Plans of
 * small models are soon simulated, all that the budget allows. */
bool judge_cannot_win(const struct run *run, const struct candidate *c)
{
    int64_t least_ns = INT64_MAX;
    int nearest = -1;
    if (run->options->top > 1 || run->options->keep_all)
        return false;
    if (loses_to_peer(run, c))
        return true;
    for (int i = 0; i < run->candidate_count && !run_is_small(run); i++) {
        const struct candidate *other = &run->candidates[i];
        enum kinship kinship = kinship_of(run, other, c);
        bool timed = other->simulated && judge_simulated_ns(other) > 0 && other->ranked_ns > 0;
        if (!timed || kinship == STRANGERS || (int)kinship < nearest)
            continue;
        if (other->ranked_ns == c->ranked_ns &&
            config_equal_but(&run->configs[other->config], &run->configs[c->config], BUT_PREFETCH | BUT_EXTRA))
            return true;
        double ns = scaled_ns(c, other) * (1 - doubt_of(other, kinship));
        least_ns = min_i64((int)kinship > nearest ? INT64_MAX : least_ns, (int64_t)ns);
        nearest = (int)kinship;
    }
    return nearest >= 0 && least_ns >= run_best_step_ns(run);
}
