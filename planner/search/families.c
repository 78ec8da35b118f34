/* Candidates for the judge from families (stages, tensor degree) of configurations that have none: the formula does not
 * see all that the simulation does, so the best of each whose bound is not too far away is looked at as well. In a
 * large model a family has one data degree, since of two that are as long by the formula the walk may prefer either. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/search/propose_parts.h"
#include <string.h>

static bool are_family(const struct run *run, int config, int other)
{
    return run_same_family(run, config, other) &&
           (run_is_small(run) || config_data(&run->configs[config]) == config_data(&run->configs[other]));
}

/* True when there is a candidate of the configuration, or of any in its family. */
static bool has_candidate(const struct run *run, int config, bool of_family)
{
    for (int i = 0; i < run->candidate_count; i++)
        if (of_family ? are_family(run, run->candidates[i].config, config) : run->candidates[i].config == config)
            return true;
    return false;
}

/* What solving for families still has to try, and the limits beyond which a plan is not worth a try. */
struct families {
    struct queue queue;
    int64_t below_ns;  /* only plans that are shorter by the formula are of use */
    int64_t walked_ns; /* the shortest that was walked: what is longer by the formula alone hardly wins */
    bool rough;        /* a plan near its family's best will do, and one */
    int *of;           /* (configurations) number of the family, ascending as they are met */
    int count;
    int *tries;                  /* (count) solved for each family, those apart in prefetch counted once */
    bool *solved;                /* (configurations) here, not by the proof */
    bool *stepped;               /* (count) in this round */
    struct job *jobs;            /* (count) of this round */
    int tries_each;              /* of a family at most */
    int solves_left, looks_left; /* looks: relaxations */
};

/* True when there are so many configurations that only what promises to win is looked at. */
static bool has_many(const struct run *run)
{
    return run->config_count > FAMILY_ALL;
}

/* Gives the length from which plans are of no use, however little another schedule spends on filling and draining. */
static int64_t limit_of(const struct run *run, const struct families *f, int config)
{
    return has_many(run) ? min_i64(f->below_ns, run_with_idle_ns(&run->configs[config], f->walked_ns)) : f->below_ns;
}

/* Keeps the first plan of the job under another configuration of as many strategies. *fits: it has room for it. */
static bool keep_under(struct run *run, const struct job *job, int config, bool *fits)
{
    const struct price_table *table = NULL;
    *fits = false;
    if (!workbench_table(&run->bench, &run->configs[config], false, &table, run->err))
        return false;
    if (!table || table->strategy_count != job->table->strategy_count)
        return true;
    struct candidate other = { .config = config,
                               .table = table,
                               .solution = job->result.plans[0],
                               .capacity_bytes = run->capacity_bytes,
                               .rough = true };
    if (!rank_formula(run, &other, run->capacity_bytes, &other.solution.step_ns))
        return false;
    *fits = other.solution.step_ns < INT64_MAX;
    return !*fits || run_add_candidate(run, &other);
}

/* Keeps the job's best plan also with smaller and larger micro-batches, as far as it fits, since the formula errs most
 * in what filling a pipeline costs. Without it vgg-16 on 4x8 a100-sxm-80 took 13 % longer with a batch of 32: in the
 * family that leads by the walk only one number of micro-batches was solved. */
static bool keep_with_others(struct run *run, const struct families *f, const struct job *job)
{
    const struct config *own = &run->configs[job->config];
    if (job->result.plan_count == 0 || own->meshes > 0)
        return true;
    for (int by = -1; by <= 1; by += 2) {
        bool fits = true;
        for (int i = job->config + by; i >= 0 && i < run->config_count && fits; i += by)
            if (config_equal_but(&run->configs[i], own, BUT_MICRO) && !has_candidate(run, i, false)) {
                fits = run->first_ns[i] < limit_of(run, f, i);
                if (fits && !keep_under(run, job, i, &fits))
                    return false;
            }
    }
    return true;
}

/* Walks the first plan of a configuration. *gathers: weights are gathered for its micro-batches. */
static bool note_walk(struct run *run, struct families *f, struct candidate c, bool *gathers)
{
    c.plan = NULL;
    *gathers = false;
    if (!rank_make_plan(run, &c))
        return false;
    f->walked_ns = min_i64(f->walked_ns, c.ranked_ns);
    for (int l = 0; l < c.plan->layer_count; l++)
        *gathers = *gathers || c.plan->layers[l].zero == 3;
    plan_free(c.plan);
    return true;
}

/* Walks the first plan of each configuration that has any. */
static bool note_walks(struct run *run, struct families *f)
{
    for (int i = 0; i < run->candidate_count; i++) {
        bool gathers, first = true;
        for (int k = i - 1; k >= 0 && first; k--)
            first = run->candidates[k].config != run->candidates[i].config;
        if (first && !note_walk(run, f, run->candidates[i], &gathers))
            return false;
    }
    return true;
}

/* Solves also what differs in prefetch alone: by the formula it is as long, and the walk tells them apart by up to 4 %.
 */
static bool solve_prefetches(struct run *run, const struct families *f, const struct job *job)
{
    for (int by = -1; by <= 1; by += 2)
        for (int i = job->config + by; i >= 0 && i < run->config_count &&
                                       config_equal_but(&run->configs[i], &run->configs[job->config], BUT_PREFETCH);
             i += by) {
            struct job other = *job;
            other.config = i;
            other.done = false;
            other.arena = NULL;
            if (!has_candidate(run, i, false) &&
                (!propose_solve(run, &other, 1, f->below_ns, FAMILY_GAP_PPM) || !propose_keep(run, &other, f->rough)))
                return false;
        }
    return true;
}

/* True when one of the two may stand for the other: where any plan of a family will do they have one micro-batch, and
 * differ in trifles; else they differ in prefetch alone, and are many. */
static bool are_alike(const struct run *run, const struct families *f, int config, int other)
{
    const struct config *a = &run->configs[config], *b = &run->configs[other];
    return f->rough ? f->of[config] == f->of[other] && a->micro == b->micro
                    : has_many(run) && config_equal_but(a, b, BUT_PREFETCH);
}

/* Adds the configuration to its family, first[] is one of each, unless one like it is there. */
static void add_to_families(struct families *f, const struct run *run, int *first, const struct ordered *at)
{
    int family = 0;
    while (family < f->count && !are_family(run, first[family], at->index))
        family++;
    if (family == f->count)
        first[f->count++] = at->index;
    f->of[at->index] = family;
    for (int i = 0; i < f->queue.count; i++)
        if (are_alike(run, f, at->index, f->queue.list[i].at.index))
            return;
    f->queue.list[f->queue.count++] = (struct waiting_config){ .at = *at };
    f->queue.early_count++;
}

/* Queues the configurations whose first bounds are low enough, and numbers their families. */
static bool open_families(struct run *run, struct families *f)
{
    size_t configs = (size_t)run->config_count + 1;
    int *first = arena_alloc(&run->arena, configs, sizeof *first); /* (families) a configuration of it */
    f->queue.list = arena_alloc(&run->arena, configs, sizeof *f->queue.list);
    f->of = arena_alloc(&run->arena, configs, sizeof *f->of);
    f->solved = arena_alloc(&run->arena, configs, sizeof *f->solved);
    if (arena_failed(&run->arena))
        return fail_memory(run->err);
    for (int i = 0; i < run->config_count; i++) {
        const struct ordered *at = &run->order[i];
        if (at->bound_ns < limit_of(run, f, at->index))
            add_to_families(f, run, first, at);
    }
    size_t count = (size_t)f->count + 1;
    f->tries = arena_alloc(&run->arena, count, sizeof *f->tries);
    f->stepped = arena_alloc(&run->arena, count, sizeof *f->stepped);
    f->jobs = arena_alloc(&run->arena, count, sizeof *f->jobs);
    return !arena_failed(&run->arena) || fail_memory(run->err);
}

static bool may_look(const struct families *f, const struct waiting_config *at)
{
    return at->known == FIRST && f->looks_left > 0;
}

/* True when one that differs in its prefetch alone was solved: they count as one try. */
static bool has_solved_alike(const struct run *run, const struct families *f, int config)
{
    bool found = false;
    for (int i = max_int(0, config - 2); i <= config + 2 && i < run->config_count; i++)
        found = found || (f->solved[i] && config_equal_but(&run->configs[i], &run->configs[config], BUT_PREFETCH));
    return found;
}

/* Takes one step for every family that may go on: its configuration with the least bound is relaxed, or solved where
 * that was done or no more may be. Gives the number of steps. */
static int step_families(const struct run *run, struct families *f)
{
    int count = 0;
    /* the file's order alone is solved where all orders take long, which are for the proof */
    bool files_order = run->bench.chain.branches && !run_is_small(run);
    memset(f->stepped, 0, (size_t)f->count * sizeof *f->stepped);
    for (int i = 0; i < f->queue.count;) {
        const struct waiting_config *at = &f->queue.list[i];
        int config = at->at.index, family = f->of[config];
        bool steps = !f->stepped[family] && f->tries[family] < f->tries_each &&
                     (may_look(f, at) || f->solves_left > 0) && !(f->rough && has_candidate(run, config, true)) &&
                     at->at.bound_ns < limit_of(run, f, config);
        f->stepped[family] = true;
        if (!steps) {
            i++;
            continue;
        }
        struct waiting_config next = propose_take_out(&f->queue, i);
        bool look = may_look(f, &next);
        f->jobs[count++] = (struct job){ .config = next.at.index,
                                         .bound_ns = next.at.bound_ns,
                                         .below_ns = limit_of(run, f, next.at.index),
                                         .enough_ns = 1,
                                         .queue = &f->queue,
                                         .bound_only = look,
                                         .by_least = look,
                                         .files_order = !look && files_order };
        f->looks_left -= look;
        f->solves_left -= !look;
        f->tries[family] += !look && !has_solved_alike(run, f, next.at.index);
        f->solved[next.at.index] |= !look;
    }
    return count;
}

/* Finds the best of a family by its relaxations, unless any plan of it will do: first bounds know nothing of memory,
 * and are equal where configurations differ in trifles. For the judge, not for the certificate, which learns nothing.
 */
static bool solve_families(struct run *run, struct families *f)
{
    if (!open_families(run, f))
        return false;
    for (int count; !run_stops(run) && (count = step_families(run, f)) > 0;) {
        if (!propose_solve(run, f->jobs, count, f->below_ns, FAMILY_GAP_PPM))
            return false;
        for (struct job *job = f->jobs; job < f->jobs + count; job++) {
            int before = run->candidate_count;
            bool gathers = false;
            if (!propose_keep(run, job, f->rough) ||
                (run->candidate_count > before && !note_walk(run, f, run->candidates[before], &gathers)) ||
                (!f->rough && run->candidate_count > before && !keep_with_others(run, f, job)) ||
                (f->rough && gathers && !solve_prefetches(run, f, job)))
                return false;
            if (job->result.plan_count == 0 && job->arena)
                arena_free(job->arena); /* nobody keeps what lies in it */
            if (propose_is_open(job))
                propose_put_back(job, RELAXED);
        }
    }
    return true;
}

/* Finds each family without a candidate one; of a small model, whose plans are soon judged, several. */
bool families_solve(struct run *run)
{
    struct families families = {
        .walked_ns = INT64_MAX, .rough = !run_is_small(run), .tries_each = FAMILY_TRIES, .solves_left = FAMILY_SOLVES
    };
    if (run->options->keep_all || run->best_ns == INT64_MAX)
        return true;
    families.below_ns = run->best_ns + run->best_ns / 1000 * (families.rough ? FAMILY_PERMILLE : SMALL_PERMILLE);
    if (!families.rough) {
        families.tries_each *= SMALL_MORE;
        families.solves_left *=
            SMALL_MORE * (run->bench.facts->cluster->group_count == MOST_ORDERED_GROUPS ? ORDERS_MORE : 1);
    }
    families.looks_left = families.solves_left * FAMILY_LOOKS;
    return note_walks(run, &families) && solve_families(run, &families);
}
