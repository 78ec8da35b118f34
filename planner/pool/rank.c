/* What the formula proposed becomes plans, and the pipeline ranks them. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/program/clock.h"
#include "planner/estimate/assemble.h"
#include "planner/estimate/pipeline.h"
#include "planner/pool/moves.h"
#include "planner/pool/pool_parts.h"
#include <stdlib.h>

int rank_compare_formula(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->solution.step_ns != y->solution.step_ns)
        return x->solution.step_ns < y->solution.step_ns ? -1 : 1;
    return (x->config > y->config) - (x->config < y->config);
}

/* Orders the best of every family first, then all by the formula. */
static int compare_place(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    bool first_x = x->place < FAMILY_RANKED, first_y = y->place < FAMILY_RANKED;
    return first_x == first_y ? rank_compare_formula(a, b) : first_x ? -1 : 1;
}

static int compare_ranked(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;
    if (x->ranked_ns != y->ranked_ns)
        return x->ranked_ns < y->ranked_ns ? -1 : 1;
    return rank_compare_formula(a, b);
}

void rank_sort(struct run *run, int kept)
{
    if (kept > 0)
        qsort(run->candidates, (size_t)kept, sizeof *run->candidates, compare_ranked);
    run->result->certificate.candidates = run->candidate_count;
    run->result->certificate.ranked = kept;
}

void rank_settle_prefetch(const struct run *run, struct plan *plan)
{
    const struct space *space = run->bench.space;
    for (int l = 0; l < plan->layer_count; l++)
        if (plan->layers[l].zero == 3)
            return;
    plan->prefetch = space->prefetch.count > 0 ? (int)space->prefetch.values[0] : 1;
}

bool rank_is_new(const struct run *run, int kept, const struct candidate *c)
{
    for (int i = 0; i < kept; i++)
        if (run->candidates[i].plan && run->candidates[i].plan_hash == c->plan_hash)
            return false;
    return true;
}

uint64_t rank_plan_hash(const struct plan *plan)
{
    struct plan even = *plan;
    even.clock = CLOCK_EVEN;
    return plan_hash(&even);
}

static bool walk_by(const struct run *run, const struct candidate *c, enum plan_clock clock, int64_t below_ns,
                    int64_t *step_ns, struct error *err)
{
    c->plan->clock = clock;
    return pipeline_step_ns(step_ns, c->plan, &run->bench.chain, c->table, run->bench.facts, run->orders,
                            c->plan->micro_batch_count, below_ns, err);
}

/* Walks the plan by the clock that makes it shortest; a framework that takes whole blocks posts receives in an order of
 * its own, which nobody can tell it. */
static bool walk(const struct run *run, struct candidate *c, int64_t below_ns, struct error *err)
{
    int64_t step_ns = 0;
    if (!walk_by(run, c, CLOCK_EVEN, below_ns, &c->ranked_ns, err) || c->plan->whole_blocks ||
        !clock_posts_early(c->plan))
        return err->kind == ERROR_NONE;
    if (!walk_by(run, c, CLOCK_WORK, min_i64(below_ns, c->ranked_ns), &step_ns, err))
        return false;
    c->plan->clock = step_ns < c->ranked_ns ? CLOCK_WORK : CLOCK_EVEN;
    c->ranked_ns = min_i64(c->ranked_ns, step_ns);
    return true;
}

bool rank_walk(struct run *run, struct candidate *c)
{
    return walk(run, c, INT64_MAX, run->err);
}

struct walks {
    const struct run *run;
    struct candidate *candidates;
    int64_t below_ns;
    struct error *errors; /* by candidate */
};

static void walk_one(void *context, int index)
{
    const struct walks *walks = context;
    walk(walks->run, &walks->candidates[index], walks->below_ns, &walks->errors[index]);
}

static bool walk_all(struct run *run, struct candidate *candidates, int count, int64_t below_ns)
{
    struct walks walks = { run, candidates, below_ns, calloc((size_t)max_i64(count, 1), sizeof *walks.errors) };
    if (!walks.errors)
        return fail_memory(run->err);
    workers_each(&run->options->calls.workers, count, walk_one, &walks);
    for (int i = 0; i < count && run->err->kind == ERROR_NONE; i++)
        *run->err = walks.errors[i];
    free(walks.errors);
    return run->err->kind == ERROR_NONE;
}

bool rank_moved(struct run *run, struct candidate *moved, int count, int64_t below_ns)
{
    if (walk_all(run, moved, count, below_ns))
        return true;
    for (int i = 0; i < count; i++) {
        plan_free(moved[i].plan);
        moved[i].plan = NULL;
    }
    return false;
}

/* Lets chunks of a device share its memory as they like, since the closed form gives each the same share of it. */
static bool share_devices(struct run *run, struct arena *arena, const struct config *config, int64_t capacity_bytes,
                          struct partition_problem *problem)
{
    int pieces = config_pieces(config), *device_of = arena_alloc(arena, (size_t)pieces, sizeof *device_of);
    problem->held_bytes = arena_alloc(arena, (size_t)config->stages, sizeof *problem->held_bytes);
    if (!device_of || !problem->held_bytes)
        return fail_memory(run->err);
    for (int k = 0; k < pieces; k++)
        device_of[k] = config_stage(config, k);
    problem->device_of = device_of;
    problem->capacity_bytes = capacity_bytes;
    return true;
}

bool rank_formula(struct run *run, const struct candidate *c, int64_t capacity_bytes, int64_t *step_ns)
{
    struct partition_problem problem;
    if (!reserve_problem(run, c, capacity_bytes, &problem))
        return false;
    const struct config *config = &run->configs[c->config];
    struct arena scratch = { 0 };
    bool good = !config_shares_devices(config) || share_devices(run, &scratch, config, capacity_bytes, &problem);
    if (good)
        *step_ns = partition_is_beyond(&problem) ? INT64_MAX : partition_evaluate(&problem, &c->solution);
    arena_free(&scratch);
    return good;
}

struct layer_range rank_piece(const struct config *config, const struct plan *plan, int piece)
{
    return plan_stage_chunk(plan, config_stage(config, piece), piece / config->stages);
}

bool rank_keep(struct run *run, const struct candidate *c, int *kept)
{
    int count = run->candidate_count;
    if (!run_add_candidate(run, c)) {
        plan_free(c->plan);
        return false;
    }
    run->candidates[count] = run->candidates[*kept]; /* plans stay at the front */
    run->candidates[*kept] = *c;
    run->candidates[(*kept)++].origin = run->part;
    return true;
}

bool rank_has_pieces(const struct run *run, const struct candidate *c)
{
    return run->configs[c->config].meshes == 0;
}

static bool make_plan(struct run *run, struct candidate *c)
{
    c->plan = assemble_partition(run->bench.space, &run->configs[c->config], run->bench.graph, &run->bench.chain,
                                 c->table, &c->solution);
    if (!c->plan)
        return fail_memory(run->err);
    rank_settle_prefetch(run, c->plan);
    c->plan_hash = rank_plan_hash(c->plan);
    return true;
}

/* Makes plans of candidates from `first` on, of which the new ones move to *kept and on, until `most` are kept. */
static bool keep_new(struct run *run, int first, int most, int *kept)
{
    for (int i = first; i < run->candidate_count && *kept < most; i++) {
        struct candidate c = run->candidates[i];
        if (!make_plan(run, &c))
            return false;
        if (!rank_is_new(run, *kept, &c)) {
            plan_free(c.plan);
            continue;
        }
        run->candidates[i] = run->candidates[*kept];
        run->candidates[(*kept)++] = c;
    }
    return true;
}

/* Walks the first `count`, best of families and by the formula first; of what is much longer than the best of the first
 * few it finds out no more, unless many plans are asked for. */
static bool walk_ranked(struct run *run, int count)
{
    const struct search_options *options = run->options;
    int first = (int)min_i64(count, RANK_FIRST);
    int64_t best_ns = INT64_MAX;
    if (!walk_all(run, run->candidates, first, INT64_MAX))
        return false;
    for (int i = 0; i < first && options->top <= 1 && !options->keep_all; i++)
        best_ns = min_i64(best_ns, run->candidates[i].ranked_ns);
    int64_t far_ns = best_ns < INT64_MAX && !moves_jump(run) ? best_ns + best_ns / RANK_FAR_SHARE : INT64_MAX;
    if (!walk_all(run, run->candidates + first, count - first, far_ns))
        return false;
    for (int i = first; i < count; i++)
        run->candidates[i].is_far = run->candidates[i].ranked_ns >= far_ns;
    return true;
}

/* Moves candidates that become plans to the front; their number is `ranked` in the certificate. */
bool rank_candidates(struct run *run)
{
    int wanted = run->options->rank_count > 0 ? run->options->rank_count : RANKED, kept = 0;
    qsort(run->candidates, (size_t)run->candidate_count, sizeof *run->candidates, rank_compare_formula);
    for (int i = 0; i < run->candidate_count; i++) {
        int place = 0;
        for (int k = i - 1; k >= 0 && place == 0; k--)
            if (run_same_family(run, run->candidates[k].config, run->candidates[i].config))
                place = run->candidates[k].place + 1;
        run->candidates[i].place = place;
    }
    for (int i = 0; i < run->candidate_count; i++) {
        plan_free(run->candidates[i].plan);
        run->candidates[i].plan = NULL;
    }
    qsort(run->candidates, (size_t)run->candidate_count, sizeof *run->candidates, compare_place);
    if (!keep_new(run, 0, wanted, &kept) || !walk_ranked(run, kept))
        return false;
    rank_sort(run, kept);
    return true;
}

bool rank_more(struct run *run, int first, int64_t below_ns)
{
    int ranked = (int)run->result->certificate.ranked, kept = ranked;
    if (!keep_new(run, first, run->candidate_count, &kept) ||
        !walk_all(run, run->candidates + ranked, kept - ranked, below_ns))
        return false;
    rank_sort(run, kept);
    return true;
}

bool rank_make_plan(struct run *run, struct candidate *c)
{
    if (!make_plan(run, c))
        return false;
    if (rank_walk(run, c))
        return true;
    plan_free(c->plan);
    c->plan = NULL;
    return false;
}

bool rank_make_best(struct run *run, struct candidate *c, const struct partition_result *result)
{
    struct candidate own = *c;
    c->plan = NULL;
    for (int i = 0; i < result->plan_count; i++) {
        own.solution = result->plans[i];
        if (!rank_make_plan(run, &own)) {
            plan_free(c->plan);
            c->plan = NULL;
            return false;
        }
        bool better = !c->plan || own.ranked_ns < c->ranked_ns;
        plan_free(better ? c->plan : own.plan);
        *c = better ? own : *c;
    }
    return true;
}
