/* What a simulation would say of a candidate, by its walk and what was simulated of its like. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/pool/pool_parts.h"

int64_t judge_simulated_ns(const struct candidate *c)
{
    return c->simulated_ns > 0 ? c->simulated_ns : c->beaten_ns;
}

/* How alike two candidates are in what the walk gets wrong: 0 not, 2 the same configuration. */
static int likeness(const struct run *run, const struct candidate *a, const struct candidate *b)
{
    const struct config *x = &run->configs[a->config], *y = &run->configs[b->config];
    if (x->schedule != y->schedule || !run_same_family(run, a->config, b->config))
        return 0;
    return a->config != b->config ? 1 : 2;
}

/* The candidate's walk, off as it was off for one that was simulated. */
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
        int alike = other->judged ? likeness(run, other, c) : 0;
        met = met || alike == 2;
        if (alike > 0 && judge_simulated_ns(other) > 0 && (!like || alike > likeness(run, like, c)))
            like = other;
    }
    double ns = (double)c->ranked_ns;
    if (like && like->ranked_ns > 0)
        ns = scaled_ns(c, like);
    return (int64_t)ns - (met ? 0 : c->ranked_ns / 100 * DOUBT_PERCENT);
}

/* By how much the walk was off more for one than for another of the candidates with the schedule that were simulated;
 * 1: too few were. */
static double spread_of(const struct run *run, int schedule)
{
    double least = 0, most = 0;
    int count = 0;
    for (int i = 0; i < run->candidate_count; i++) {
        const struct candidate *c = &run->candidates[i];
        if (c->simulated_ns <= 0 || c->ranked_ns <= 0 || run->configs[c->config].schedule != schedule)
            continue;
        double off = (double)c->simulated_ns / (double)c->ranked_ns;
        least = count == 0 || off < least ? off : least;
        most = off > most ? off : most;
        count++;
    }
    return count < SPREAD_OF ? 1 : most / least - 1;
}

/* So far may the walk be off for a plan beside what it was off for one that was simulated: less is worth a look where
 * looks are dear. */
static double doubt_of(const struct run *run, const struct candidate *simulated, bool kin)
{
    if (simulated->effort > JUDGE_BUDGET)
        return 0;
    if (simulated->effort > JUDGED_DEAR)
        return kin ? 0 : DEAR_PERMILLE / 1e3;
    double usual = (kin ? KIN_PERMILLE : OTHER_PERMILLE) / 1e3;
    double spread = run_is_small(run) ? spread_of(run, run->configs[simulated->config].schedule) : 0;
    return usual > spread ? usual : spread;
}

/* What was simulated says that the candidate is not shorter than the incumbent: a plan that differs in what decides
 * nothing, such as how a layer without weights shards them, takes as long by the walk to the nanosecond, and the walk
 * is off alike for plans of one schedule; of small models so much as it was seen to be. */
bool judge_cannot_win(const struct run *run, const struct candidate *c)
{
    int64_t least_ns = INT64_MAX;
    int nearest = -1;
    int64_t soon = run_is_small(run) ? SOON_JUDGED : 0;
    if (run->options->top > 1 || run->options->keep_all)
        return false;
    for (int i = 0; i < run->candidate_count; i++) {
        const struct candidate *other = &run->candidates[i];
        const struct config *x = &run->configs[other->config], *y = &run->configs[c->config];
        if (!other->simulated || other->simulated_ns <= 0 || other->ranked_ns <= 0 || x->schedule != y->schedule ||
            other->effort < soon)
            continue;
        if (!run_is_small(run) && other->ranked_ns == c->ranked_ns && config_equal_but(x, y, BUT_PREFETCH | BUT_EXTRA))
            return true;
        bool kin = run_same_family(run, other->config, c->config);
        if (kin < nearest)
            continue;
        double ns = scaled_ns(c, other) * (1 - doubt_of(run, other, kin));
        least_ns = min_i64(kin > nearest ? INT64_MAX : least_ns, (int64_t)ns);
        nearest = kin;
    }
    return nearest >= 0 && least_ns >= run_best_step_ns(run);
}
