/* The best cut under one cap: a dynamic program over (stage, first layer, end) with bounds of the stages, in the band
 * that the cap leaves; then the stages on the best cut are solved, until the best cut is of solved stages only. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"
#include <string.h>

/* A first bound asks so many stages of a cut: where these, which keep most micro-batches, fit as well as the sweep has
 * it, those behind them do. Of 660 first bounds of llama-3-405b on 2048x8 h100-sxm that asked all stages took half of
 * all knapsacks. */
enum { FIRST_STAGES = 4 };

/* Finds each stage's first layers, an interval: whatever holds a stage that is too long is too long as well. */
static bool set_band_of_stages(struct solver *s)
{
    int reach = 0, need = s->layers;
    for (int k = 0; k <= s->stages; k++) {
        s->cutting.first_to[k] = reach = (int)min_i64(reach, s->layers - (s->stages - k));
        while (k < s->stages && reach < s->layers && !stage_too_long(s, s->level[k], s->cutting.first_to[k], reach + 1))
            reach++;
    }
    for (int k = s->stages; k >= 0; k--) {
        s->cutting.first_from[k] = (int)max_i64(need, k);
        while (k > 0 && need > k - 1 && !stage_too_long(s, s->level[k - 1], need - 1, s->cutting.first_from[k]))
            need--;
    }
    const int *cut = s->problem->chain->cut;
    bool reached = s->cutting.first_from[0] == 0 && s->cutting.first_to[s->stages] == s->layers;
    for (int k = 1; cut && k < s->stages; k++) {
        reached = reached && s->cutting.first_from[k] <= cut[k] && cut[k] <= s->cutting.first_to[k];
        s->cutting.first_from[k] = s->cutting.first_to[k] = cut[k];
    }
    return reached;
}

/* Finds the farthest end of a stage that begins at `first`, which is quick where `near` is near it. */
static int farthest_end(const struct solver *s, int level, int first, int near)
{
    int end = max_int(near, first);
    while (end > first && stage_too_long(s, level, first, end))
        end--;
    while (end < s->layers && !stage_too_long(s, level, first, end + 1))
        end++;
    return end;
}

/* Finds the farthest place that each row's meshes get to. */
static void reach_forward(struct solver *s)
{
    for (int shape = 0; shape < s->shape_count; shape++)
        s->cutting.near[shape] = 0;
    for (int row = 0; row + 1 < s->row_count; row++)
        for (int shape = 0; shape < s->shape_count && s->cutting.first_to[row] >= 0; shape++) {
            int after = row_after(s, row, shape), level = s->level[row * s->shape_count + shape];
            if (after < 0)
                continue;
            s->cutting.near[shape] = farthest_end(s, level, s->cutting.first_to[row], s->cutting.near[shape]);
            s->cutting.first_to[after] = (int)max_i64(s->cutting.first_to[after], s->cutting.near[shape]);
        }
}

/* Finds the earliest place from which on the meshes that each row leaves are enough. */
static void reach_backward(struct solver *s)
{
    for (int shape = 0; shape < s->shape_count; shape++)
        s->cutting.near[shape] = s->layers;
    for (int row = s->row_count - 2; row >= 0; row--)
        for (int shape = 0; shape < s->shape_count; shape++) {
            int after = row_after(s, row, shape), level = s->level[row * s->shape_count + shape];
            if (after < 0 || s->cutting.first_from[after] > s->layers ||
                s->cutting.first_from[after] > s->cutting.first_to[after])
                continue;
            int end = s->cutting.first_from[after], first = (int)min_i64(s->cutting.near[shape], end);
            while (first < end && stage_too_long(s, level, first, end))
                first++;
            while (first > 0 && !stage_too_long(s, level, first - 1, end))
                first--;
            s->cutting.near[shape] = first;
            s->cutting.first_from[row] = (int)min_i64(s->cutting.first_from[row], s->cutting.near[shape]);
        }
}

/* Finds the first layers over all ways to deal out meshes: nearly none where the cap is near the least that it can be.
 * Rows that nothing leads to, or from, have none. A stage may be too long with the next layer alone where one that
 * begins earlier is not, so that not every stage need get on. */
static bool set_band_of_turns(struct solver *s)
{
    int final = s->row_count - 1;
    for (int row = 0; row <= final; row++) {
        s->cutting.first_to[row] = row == 0 ? 0 : -1;
        s->cutting.first_from[row] = row == final ? s->layers : s->layers + 1;
    }
    reach_forward(s);
    reach_backward(s);
    return s->cutting.first_from[0] == 0 && s->cutting.first_to[final] == s->layers;
}

/* What is best from a place on. */
struct best {
    int64_t ns, high_ns;
    int shape, end;
};

/* Takes a stage that ends there, if it is better; ties go to the smaller maximum Y. rest: the least behind it, its own
 * cuts included. */
static bool try_end(struct solver *s, const struct leg *leg, int first, int end, int64_t rest, struct best *best)
{
    const struct cell *cell = stage_cell(s, leg->level, first, end);
    if (!cell)
        return fail_memory(s->err);
    if (cell->lower == INT64_MAX || cell->lower + rest > best->ns)
        return true;
    int64_t total = cell->lower + rest,
            high = cell->solution >= 0 ? record_high_ns(s, &cell->records[cell->solution]) : s->cap_ns;
    high = max_i64(high, s->cutting.best_high[spot_index(s, leg->after, end)]);
    if (total < best->ns || high < best->high_ns)
        *best = (struct best){ total, high, leg->shape, end };
    return true;
}

/* Gives farthest_end(), which rows of one level share and which is near that of others. */
static int reach_from(struct solver *s, const struct leg *leg, int first)
{
    struct stage_reach *reach = &s->cutting.reach[leg->shape * s->places + first];
    int near = reach->pass > 0 || first == 0 ? reach->end : reach[-1].end;
    if (reach->pass != s->result->passes || reach->level != leg->level)
        *reach = (struct stage_reach){ s->result->passes, leg->level, farthest_end(s, leg->level, first, near) };
    return reach->end;
}

/* Under one cap a stage with a dead one's layers and more is dead, too: a model that hardly fits had a sweep for each
 * of its stages before. */
static bool note_dead(struct solver *s, const struct stage_spot *at)
{
    struct stage_level *level = &s->levels[at->level];
    bool known = level->dead_end && level->dead_cap_ns == s->cap_ns;
    if (s->problem->chain->branches) /* places are no layers */
        return true;
    if (!level->dead_end && !(level->dead_end = arena_alloc(s->arena, (size_t)s->places, sizeof *level->dead_end)))
        return fail_memory(s->err);
    for (int first = 0; first < s->places; first++)
        if (!known || (first <= at->first && at->end < level->dead_end[first]))
            level->dead_end[first] = first <= at->first ? at->end : INT32_MAX;
    level->dead_cap_ns = s->cap_ns;
    return true;
}

/* Tries all ends that the cap allows of a stage: most are longer than the best before anything is known of their stage
 * but its layers' least. Before one of the level is solved, all have the same maximum Y, and no tie is better. */
static bool try_ends(struct solver *s, const struct leg *leg, int first, struct best *best)
{
    const struct stage_level *level = &s->levels[leg->level];
    const int64_t *path_ns = level->path_ns, *rest_ns = &s->cutting.best_ns[spot_index(s, leg->after, 0)];
    bool ties = level->solved;
    int end = (int)max_i64(first + 1, leg->first_end), last = leg->last_end;
    if (end <= last)
        last = (int)min_i64(last, reach_from(s, leg, first));
    if (level->dead_end && level->dead_cap_ns == s->cap_ns && !chain_holds_both(s->problem->chain, first, last))
        last = (int)min_i64(last, level->dead_end[first] - 1); /* with both layers of a weight it may need less */
    for (; end <= last; end++) {
        if (rest_ns[end] == INT64_MAX)
            continue;
        int64_t rest = rest_ns[end] + leg->cut_ns * ((first > 0) + (end < s->last)),
                least = path_ns[end] - path_ns[first] + rest;
        if ((least < best->ns || (ties && least == best->ns)) &&
            !stage_is_above(s, leg->level, first, end, best->ns - rest) && !try_end(s, leg, first, end, rest, best))
            return false;
    }
    return true;
}

/* Lists the ways to go on from the row into legs, (turns), and gives their number. */
static int list_legs(const struct solver *s, int row, struct leg *legs)
{
    int count = 0;
    for (int shape = 0; shape < s->shape_count; shape++) {
        int after = row_after(s, row, shape);
        if (after >= 0)
            legs[count++] = (struct leg){ shape,
                                          after,
                                          s->level[row * s->shape_count + shape],
                                          s->cutting.first_from[after],
                                          s->cutting.first_to[after],
                                          level_end_ns(s->problem, row_meshes(s, row), shape) };
    }
    return count;
}

/* Finds the least sum of C from `first` on in all stages from the row on; ties go to the smaller maximum Y. */
static bool best_from(struct solver *s, const struct leg *legs, int count, int row, int first)
{
    size_t at = spot_index(s, row, first);
    struct best best = { .ns = INT64_MAX, .high_ns = INT64_MAX };
    for (int i = 0; i < count; i++)
        if (!try_ends(s, &legs[i], first, &best))
            return false;
    s->cutting.best_ns[at] = best.ns;
    s->cutting.best_high[at] = best.high_ns;
    s->cutting.end[at] = best.end;
    s->cutting.shape[at] = (int8_t)best.shape;
    return true;
}

/* Finds the least sum of C of all stages under the present cap, as far as is proven (INT64_MAX: nothing fits); its cut
 * is in s->cutting.end. */
static bool cut_sweep(struct solver *s, int64_t *sum)
{
    int final = s->row_count - 1;
    *sum = INT64_MAX;
    s->result->passes++;
    if (s->problem->chain->branches)
        return ideals_sweep(s, sum);
    if (!(s->problem->mesh_count > 0 ? set_band_of_turns(s) : set_band_of_stages(s)))
        return true;
    s->cutting.best_ns[spot_index(s, final, s->last)] = 0;
    s->cutting.best_high[spot_index(s, final, s->last)] = INT64_MIN;
    for (int row = final - 1; row >= 0; row--) {
        int count = list_legs(s, row, s->cutting.legs);
        for (int first = s->cutting.first_from[row]; first <= s->cutting.first_to[row]; first++)
            if (!best_from(s, s->cutting.legs, count, row, first))
                return false;
    }
    *sum = s->cutting.best_ns[spot_index(s, 0, 0)];
    return true;
}

/* Relaxes a stage that was not yet, or else spends the effort on it. */
static bool refine_stage(struct solver *s, const struct stage_spot *at, enum effort effort, int64_t *raised)
{
    struct cell *cell = stage_cell(s, at->level, at->first, at->end);
    int64_t before = cell->lower;
    bool relax = stage_open(s, cell, EFFORT_RELAX);
    if (!stage_open(s, cell, effort))
        return true;
    if (!stage_solve(s, at->level, at->first, at->end, relax ? EFFORT_RELAX : effort))
        return false;
    if (cell->lower == INT64_MAX || (relax && stage_open(s, cell, effort)))
        *raised = INT64_MAX;
    else if (*raised < INT64_MAX)
        *raised += cell->lower - before;
    return true;
}

bool cut_refine(struct solver *s, enum effort effort, int64_t slack_ns, int64_t *sum)
{
    for (int64_t raised = INT64_MAX; raised > slack_ns && !s->stopped;) {
        if (!cut_sweep(s, sum))
            return false;
        raised = 0;
        if (*sum == INT64_MAX)
            return true;
        bool dead = false; /* one of its stages does not fit: there is no plan with this cut */
        for (struct stage_spot at = cut_first(s); !spot_ends(s, &at) && !dead; at = cut_next(s, at)) {
            if (s->problem->bound_only && s->problem->halves == 0 && at.stage == FIRST_STAGES && raised == 0)
                break;
            if (!refine_stage(s, &at, effort, &raised))
                return false;
            dead = stage_cell(s, at.level, at.first, at.end)->lower == INT64_MAX;
            raised = dead ? INT64_MAX : raised;
            if (dead && !note_dead(s, &at))
                return false;
        }
    }
    return true;
}

bool cut_polish(struct solver *s)
{
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at) && !s->stopped; at = cut_next(s, at)) {
        const struct cell *cell = stage_cell(s, at.level, at.first, at.end);
        if (stage_open(s, cell, EFFORT_BEAM) && !stage_solve(s, at.level, at.first, at.end, EFFORT_BEAM))
            return false;
    }
    return true;
}

bool cut_solution(struct solver *s, struct spot_choice choice, int64_t *sum, int64_t *high, struct stage_times *times,
                  double *slope)
{
    bool complete = true;
    *sum = 0;
    *high = INT64_MIN;
    *slope = 0;
    *times = (struct stage_times){ INT64_MIN / 4, INT64_MIN / 4, INT64_MIN / 4 };
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at)) {
        const struct cell *cell = stage_cell(s, at.level, at.first, at.end);
        int chosen = at.stage == choice.stage ? choice.record : cell->solution;
        const struct record *record = chosen >= 0 ? &cell->records[chosen] : NULL;
        *slope += cell->tried ? cell->slope : 0;
        complete = complete && record;
        *sum +=
            (record ? record->path : 0) + level_ends_ns(s->problem, row_meshes(s, at.row), at.shape, at.first, at.end);
        *high = max_i64(*high, record ? record_high_ns(s, record) : 0);
        if (record)
            *times = stage_longer(times, &record->times);
    }
    return complete;
}

/* Gives the strategies that the choice takes in a stage of the best cut. */
static const struct layer_count *chosen_counts(struct solver *s, struct spot_choice choice, const struct stage_spot *at)
{
    const struct cell *cell = stage_cell(s, at->level, at->first, at->end);
    return cell->records[at->stage == choice.stage ? choice.record : cell->solution].counts;
}

static bool is_plan(struct solver *s, const struct partition_plan *plan, struct spot_choice choice, int64_t step_ns)
{
    int stages = 0;
    if (plan->step_ns != step_ns)
        return false;
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at), stages++)
        if (at.stage >= plan->stage_count || plan->first_layer[at.stage] != at.first ||
            (plan->shape && plan->shape[at.stage] != at.shape) ||
            !counts_equal(plan->counts[at.stage], chosen_counts(s, choice, &at)))
            return false;
    return stages == plan->stage_count;
}

static bool make_plan(struct solver *s, struct spot_choice choice, struct partition_plan *plan)
{
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at))
        plan->stage_count++;
    size_t stages = (size_t)plan->stage_count;
    plan->first_layer = arena_alloc(s->kept, stages, sizeof *plan->first_layer);
    plan->counts = arena_alloc(s->kept, stages, sizeof *plan->counts);
    if (s->problem->mesh_count > 0)
        plan->shape = arena_alloc(s->kept, stages, sizeof *plan->shape);
    if (arena_failed(s->kept))
        return fail_memory(s->err);
    for (struct stage_spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at)) {
        plan->first_layer[at.stage] = at.first;
        if (plan->shape)
            plan->shape[at.stage] = at.shape;
        plan->counts[at.stage] = counts_copy(s->kept, chosen_counts(s, choice, &at));
        if (!plan->counts[at.stage])
            return fail_memory(s->err);
    }
    return true;
}

bool cut_keep_plan(struct solver *s, struct spot_choice choice, int64_t step_ns)
{
    struct partition_result *result = s->result;
    struct partition_plan plan = { .step_ns = step_ns };
    int place = result->plan_count;
    while (place > 0 && result->plans[place - 1].step_ns > step_ns)
        place--;
    if (place == PARTITION_PLANS)
        return true;
    for (int i = 0; i < result->plan_count; i++)
        if (is_plan(s, &result->plans[i], choice, step_ns))
            return true;
    if (!make_plan(s, choice, &plan))
        return false;
    if (result->plan_count < PARTITION_PLANS)
        result->plan_count++;
    memmove(&result->plans[place + 1], &result->plans[place], (size_t)(result->plan_count - 1 - place) * sizeof plan);
    result->plans[place] = plan;
    result->feasible = true;
    return true;
}
