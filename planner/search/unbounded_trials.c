/* What the judge found best is tried with schedules that the closed form does not bound: most differ from others in how
 * long stages idle, little in which degrees and strategies are good. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/program/clock.h"
#include "planner/search/propose_parts.h"
#include <stdlib.h>
#include <string.h>

/* A configuration to be tried with what is known of a leader. */
struct proposal {
    int config, leader;
    double step_ns; /* about what it would take */
};
struct stretch {
    struct clock_shape shape;
    double value; /* clock_stretch() */
};
struct trial {
    struct run *run;
    struct candidate leaders[TRIAL_SMALL_LEADERS];
    int leader_count, first; /* first: of the candidates that are added */
    int64_t below_ns;
    struct proposal *proposals; /* (proposal_count) */
    int proposal_count, proposal_capacity;
    struct stretch *stretches; /* (stretch_count) of what was met */
    int stretch_count, stretch_capacity;
};

/* Orders candidates by what the judge says, and those that it has not seen by rank. */
static int64_t step_of(const struct candidate *c)
{
    return c->simulated_ns > 0 ? c->simulated_ns : c->ranked_ns;
}

/* Who differs from a leader in schedule and prefetch alone leads to the same. */
static bool may_lead(const struct run *run, const struct trial *t, const struct candidate *c, bool small)
{
    const struct config *config = &run->configs[c->config];
    int family = 0;
    bool takes_others = unbounded_is_usual(config) || config->meshes > 0;
    if (c->is_far || !takes_others || step_of(c) >= run_with_idle_ns(config, t->below_ns))
        return false;
    for (int i = 0; i < t->leader_count; i++) {
        const struct config *leader = &run->configs[t->leaders[i].config];
        if (config_equal_but(leader, config, BUT_SCHEDULE | BUT_PREFETCH))
            return false;
        family += run_is_akin(run, leader, config);
    }
    return family == 0 || (small && family < TRIAL_SMALL_FAMILY);
}

/* Leaders are the configurations of the least step that could win, not too many of a family. */
static void find_leaders(const struct run *run, struct trial *t)
{
    bool small = run_is_small(run);
    int most = small ? TRIAL_SMALL_LEADERS : TRIAL_LEADERS;
    while (t->leader_count < most) {
        const struct candidate *next = NULL;
        for (int i = 0; i < run->result->certificate.ranked; i++) {
            const struct candidate *c = &run->candidates[i];
            if ((!next || step_of(c) < step_of(next)) && may_lead(run, t, c, small))
                next = c;
        }
        if (!next)
            return;
        t->leaders[t->leader_count++] = *next;
    }
}

/* True when the two differ in the schedule and at most in twice the micro-batch: who idles less needs fewer. */
static bool is_akin(const struct config *config, const struct config *leader)
{
    return config->stages == leader->stages && mesh_equal(&config->mesh, &leader->mesh) &&
           config->meshes == leader->meshes && config->shape_count == leader->shape_count &&
           (config->shape_count == 0 ||
            !memcmp(config->turns, leader->turns, (size_t)config->shape_count * sizeof *config->turns)) &&
           config->prefetch == leader->prefetch && config->bucket_bytes == leader->bucket_bytes &&
           (config->order.index == leader->order.index || joined_ends_are(config)) &&
           (config->micro == leader->micro || config->micro == 2 * leader->micro ||
            2 * config->micro == leader->micro);
}

/* Takes the other's solution under the schedule of c; *fits tells whether it has room for it. */
static bool adopt(struct run *run, const struct candidate *from, struct candidate *c, bool *fits)
{
    *fits = false;
    if (c->table != from->table ||
        config_pieces(&run->configs[c->config]) != config_pieces(&run->configs[from->config]))
        return true;
    c->solution = from->solution;
    if (!rank_formula(run, c, c->capacity_bytes, &c->solution.step_ns))
        return false;
    *fits = c->solution.step_ns < INT64_MAX;
    return !*fits || run_add_candidate(run, c);
}

/* Gives the candidate the solution of the leader, or where that does not fit one found for another schedule. */
static bool adopt_any(struct run *run, const struct candidate *leader, struct candidate *c, bool *fits)
{
    if (!adopt(run, leader, c, fits))
        return false;
    for (int i = 0, count = run->candidate_count; i < count && !*fits; i++) {
        struct candidate from = run->candidates[i];
        if (from.origin == run->part && !adopt(run, &from, c, fits))
            return false;
    }
    return true;
}

/* Adds all plans that are found of a small model, as far as they fit. */
static bool add_found(struct run *run, struct candidate *c, const struct partition_result *result)
{
    int plans = run_is_small(run) ? result->plan_count : (int)min_i64(result->plan_count, 1);
    for (int i = 0; i < plans; i++) {
        int64_t step_ns = 0;
        c->solution = result->plans[i];
        if (!rank_formula(run, c, c->capacity_bytes, &step_ns) || (step_ns < INT64_MAX && !run_add_candidate(run, c)))
            return false;
    }
    return true;
}

/* Solves the candidate's configuration by the closed form; steps of below_ns and longer are of no use. Where chunks do
 * not fit that each have their share of the memory, some may that share it out otherwise: of a small model in any way,
 * of others with a quarter more for some chunks, such as the first, which holds more micro-batches, or the head's. */
static bool solve(struct run *run, struct candidate *c, int64_t below_ns)
{
    struct partition_problem problem;
    struct partition_result result;
    if (!reserve_problem(run, c, c->capacity_bytes, &problem))
        return false;
    problem.gap_ppm = max_i64(problem.gap_ppm, FAMILY_GAP_PPM);
    problem.below_ns = run_with_idle_ns(&run->configs[c->config], below_ns);
    if (!partition_solve(&problem, &run->arena, &result, run->err))
        return false;
    if (result.plan_count == 0 && config_shares_devices(&run->configs[c->config])) {
        problem.capacity_bytes = run_is_small(run) ? c->capacity_bytes : problem.capacity_bytes / 4 * 5;
        if (!partition_solve(&problem, &run->arena, &result, run->err))
            return false;
    }
    return add_found(run, c, &result);
}

/* Gives the candidate the leader's memory, unless their micro-batches differ in size, of which that says nothing. */
static bool promise_as(struct run *run, const struct candidate *leader, struct candidate *c)
{
    if (run->configs[c->config].micro != run->configs[leader->config].micro)
        return true;
    c->capacity_bytes = leader->capacity_bytes;
    return reserve_set(run, c, leader->reserve_bytes);
}

/* Proposes plans of the configuration. leader is NULL where no candidate speaks for it. */
static bool try_config(const struct trial *t, int config, const struct candidate *leader)
{
    struct run *run = t->run;
    struct candidate c = { .config = config, .capacity_bytes = run->capacity_bytes };
    bool fits = false;
    if (!workbench_table(&run->bench, &run->configs[config], false, &c.table, run->err))
        return false;
    if (!c.table)
        return true;
    if (leader && (!promise_as(run, leader, &c) || !adopt_any(run, leader, &c, &fits)))
        return false;
    /* The closed form does not know what it costs to have layers that share a weight on two stages. */
    bool shares = run->bench.chain.tied_first >= 0 && run_is_small(run);
    return (fits && !shares) || solve(run, &c, leader ? t->below_ns : INT64_MAX);
}

/* Passes over candidates of this round with a longer walk than most_ns, as if they were judged. */
static void pass_over(struct run *run, int64_t most_ns)
{
    for (int i = 0; i < run->result->certificate.ranked; i++)
        run->candidates[i].judged |= run->candidates[i].ranked_ns > most_ns;
}

/* Marks all candidates as judged, so that none of them has another turn. */
static void end_turns(struct run *run)
{
    for (int i = 0; i < run->candidate_count; i++)
        run->candidates[i].judged = true;
}

/* Lowers *best_ns to the least step by the walk of the candidates that were proposed here, not judged, and that have
 * room by their prices: of others the judge makes longer plans. */
static bool note_best_walked(struct run *run, int64_t *best_ns)
{
    for (int i = 0; i < run->result->certificate.ranked; i++) {
        const struct candidate *c = &run->candidates[i];
        bool lacks = false;
        if (c->origin != run->part || c->judged || c->ranked_ns >= *best_ns)
            continue;
        if (!judge_lacks_memory(run, c, &lacks))
            return false;
        *best_ns = lacks ? *best_ns : c->ranked_ns;
    }
    return true;
}

static bool stretch_of(struct trial *t, const struct config *config, double *out)
{
    struct run *run = t->run;
    struct clock_shape shape = { config->schedule, config->stages, config_chunks(config),
                                 (int)config->micro_batch_count, config->extra };
    for (int i = 0; i < t->stretch_count; i++)
        if (memcmp(&t->stretches[i].shape, &shape, sizeof shape) == 0) {
            *out = t->stretches[i].value;
            return true;
        }
    t->stretches = arena_more(&run->arena, t->stretches, t->stretch_count, &t->stretch_capacity, sizeof *t->stretches);
    if (!t->stretches)
        return fail_memory(run->err);
    t->stretches[t->stretch_count] = (struct stretch){ .shape = shape };
    if (!clock_stretch(&t->stretches[t->stretch_count].value, &shape, run->err))
        return false;
    *out = t->stretches[t->stretch_count++].value;
    return true;
}

static bool add_proposal(struct trial *t, int config, int leader)
{
    const struct candidate *led = &t->leaders[leader];
    struct proposal pair = { config, leader, (double)step_of(led) };
    double own = 1, other = 1;
    if (unbounded_is_usual(&t->run->configs[config]) &&
        (!stretch_of(t, &t->run->configs[config], &own) || !stretch_of(t, &t->run->configs[led->config], &other)))
        return false;
    pair.step_ns *= own / other;
    t->proposals = arena_more(&t->run->arena, t->proposals, t->proposal_count, &t->proposal_capacity, sizeof pair);
    if (!t->proposals)
        return fail_memory(t->run->err);
    t->proposals[t->proposal_count++] = pair;
    return true;
}

static int compare_proposals(const void *a, const void *b)
{
    const struct proposal *x = a, *y = b;
    if (x->step_ns != y->step_ns)
        return x->step_ns < y->step_ns ? -1 : 1;
    return x->leader != y->leader ? x->leader - y->leader : x->config - y->config;
}

/* True when the leader has a proposal that differs only in how much more is in flight: the first of these is tried,
 * since what is near the incumbent is looked at later (polish.c). */
static bool has_like(const struct trial *t, int config, int leader)
{
    const struct config *configs = t->run->configs;
    for (int i = t->proposal_count - 1; i >= 0 && t->proposals[i].leader == leader; i--)
        if (config_equal_but(&configs[t->proposals[i].config], &configs[config], BUT_EXTRA))
            return true;
    return false;
}

/* Lists the leaders' kin that could win, by what the leader takes and how long the schedules let stages idle. */
static bool list_proposals(struct trial *t)
{
    const struct run *run = t->run;
    for (int leader = 0; leader < t->leader_count; leader++)
        for (int i = run->config_count; i < run->config_count + run->unbounded_count; i++)
            if (run->busy_ns[i] < t->below_ns && is_akin(&run->configs[i], &run->configs[t->leaders[leader].config]) &&
                !has_like(t, i, leader) && !add_proposal(t, i, leader))
                return false;
    if (t->proposal_count > 0)
        qsort(t->proposals, (size_t)t->proposal_count, sizeof *t->proposals, compare_proposals);
    return true;
}

/* Tries proposals in waves, each walked at once, until they would take much more than the best that was walked. */
static bool try_proposals(struct trial *t)
{
    struct run *run = t->run;
    int64_t best_ns = t->below_ns;
    if (!list_proposals(t))
        return false;
    int at = 0;
    while (at < t->proposal_count && !run_stops(run)) {
        int before = run->candidate_count, end = (int)min_i64(at + TRIAL_WAVE, t->proposal_count);
        if (t->proposals[at].step_ns > (double)(best_ns + best_ns / TRIAL_NEAR_SHARE))
            break;
        for (; at < end; at++)
            if (!try_config(t, t->proposals[at].config, &t->leaders[t->proposals[at].leader]))
                return false;
        int64_t far_ns = run->bench.chain.tied_first < 0 ? best_ns + best_ns / TRIAL_FAR_SHARE : INT64_MAX;
        if (!rank_more(run, before, far_ns))
            return false;
        pass_over(run, far_ns - 1); /* whose walk was ended early */
        if (!note_best_walked(run, &best_ns))
            return false;
    }
    return true;
}

/* Gives the configuration with joined ends that could win and has the least to do, were it to fill and drain like
 * others; -1 when all were passed. */
static int next_joined(const struct trial *t, const bool *passed)
{
    const struct run *run = t->run;
    int next = -1;
    int64_t least_ns = INT64_MAX;
    for (int i = run->config_count; i < run->config_count + run->unbounded_count; i++) {
        if (passed[i - run->config_count] || run->busy_ns[i] >= t->below_ns || !joined_ends_are(&run->configs[i]))
            continue;
        int64_t ns = run_with_idle_ns(&run->configs[i], run->busy_ns[i]);
        if (ns < least_ns) {
            least_ns = ns;
            next = i;
        }
    }
    return next;
}

static bool try_joined(struct trial *t)
{
    struct run *run = t->run;
    bool *passed = arena_alloc(&run->arena, (size_t)run->unbounded_count, sizeof *passed);
    if (!passed)
        return fail_memory(run->err);
    for (int tried = 0, next; tried < TRIAL_JOINED && (next = next_joined(t, passed)) >= 0 && !run_stops(run);
         tried++) {
        for (int i = 0; i < run->unbounded_count; i++)
            passed[i] |= unbounded_works_alike(&run->configs[run->config_count + i], &run->configs[next]);
        if (!try_config(t, next, NULL))
            return false;
    }
    return true;
}

/* Takes the best plans of the caller's leaders as leaders, as if they had been judged. What the closed form found in
 * the space has its turn with what they lead to. */
static bool solve_leaders(struct trial *t)
{
    struct run *run = t->run;
    int first = run->config_count + run->unbounded_count;
    for (int i = 0; i < run->options->leader_count && !run_stops(run); i++) {
        struct candidate c = { .config = first + i, .capacity_bytes = run->capacity_bytes };
        if (!workbench_table(&run->bench, &run->configs[first + i], false, &c.table, run->err) ||
            (c.table && !solve(run, &c, INT64_MAX)))
            return false;
    }
    if (!rank_more(run, t->first, INT64_MAX))
        return false;
    for (int i = 0; i < run->candidate_count; i++)
        run->candidates[i].judged |= run->candidates[i].config >= first;
    t->below_ns = INT64_MAX / 4; /* any step, and some room above it */
    find_leaders(run, t);
    return true;
}

/* Judges the ranked candidates from `before` on. It passes over those of which the walk says more than most_ns in the
 * end, and those that start more than one part in TRIAL_FAR_SHARE above it. */
static bool judge_new(struct run *run, int before, int64_t most_ns)
{
    if (run->candidate_count == before)
        return true;
    if (!joined_ends_make(run) || !joined_ends_try_all(run))
        return false;
    if (most_ns < INT64_MAX)
        pass_over(run, most_ns + most_ns / TRIAL_FAR_SHARE);
    if (!climb_from(run, run->config_count))
        return false;
    pass_over(run, most_ns);
    return judge_more(run);
}

bool unbounded_try(struct run *run)
{
    struct trial t = { .run = run, .below_ns = INT64_MAX };
    t.first = run->candidate_count;
    if (run->unbounded_count == 0 || run->options->keep_all)
        return true;
    if (run->options->leader_count > 0) {
        if (!solve_leaders(&t))
            return false;
    } else {
        end_turns(run);
        t.below_ns = run_best_step_ns(run);
        if (run->options->told && run->result->plan_count > 0) /* solutions are limited by what the walk says */
            t.below_ns = max_i64(t.below_ns, run->result->plans[0].ranked_ns);
        if (run->result->plan_count > 0)
            find_leaders(run, &t);
    }
    if (t.leader_count > 0 &&
        !(try_proposals(&t) && judge_new(run, t.first, t.below_ns + t.below_ns / TRIAL_DOUBT_SHARE)))
        return false;
    if (run->result->plan_count > 0)
        return true;
    t.first = run->candidate_count;
    end_turns(run);
    for (int i = 0; i < run->unbounded_count && i < TRIAL_BLIND && !run->beyond && !run_stops(run); i++)
        if (!try_config(&t, run->config_count + i, NULL)) /* nobody leads */
            return false;
    return rank_more(run, t.first, INT64_MAX) && judge_new(run, t.first, INT64_MAX);
}

bool unbounded_try_joined(struct run *run)
{
    struct trial t = { .run = run, .first = run->candidate_count };
    if (run->unbounded_count == 0 || run->options->keep_all || run->result->plan_count == 0 ||
        run->bench.chain.tied_first < 0 || !run_is_small(run))
        return true;
    t.below_ns = run->result->plans[0].estimate->prediction.step_ns;
    end_turns(run);
    return try_joined(&t) && rank_more(run, t.first, INT64_MAX) && judge_new(run, t.first, t.below_ns);
}
