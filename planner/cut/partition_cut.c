/* The best cut under one cap: a dynamic program over (stage, first layer, end) with bounds of the stages, in the band
 * that the cap leaves; then the stages on the best cut are solved, until the best cut is of solved stages only. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"
#include <string.h>

/* A longer stage is too long as well, so the first layers of each stage are an interval. */
static bool set_band_of_stages(struct solver *s)
{
    int reach = 0, need = s->layers;
    for (int k = 0; k <= s->stages; k++) {
        s->first_to[k] = reach = (int)min_i64(reach, s->layers - (s->stages - k));
        while (k < s->stages && reach < s->layers && !stage_too_long(s, s->level[k], s->first_to[k], reach + 1))
            reach++;
    }
    for (int k = s->stages; k >= 0; k--) {
        s->first_from[k] = (int)max_i64(need, k);
        while (k > 0 && need > k - 1 && !stage_too_long(s, s->level[k - 1], need - 1, s->first_from[k]))
            need--;
    }
    return s->first_from[0] == 0 && s->first_to[s->stages] == s->layers;
}

/* The farthest end of a stage that begins at `first`; quick where `near` is near it. */
static int farthest_end(const struct solver *s, int level, int first, int near)
{
    int end = near < first ? first : near;
    while (end > first && stage_too_long(s, level, first, end))
        end--;
    while (end < s->layers && !stage_too_long(s, level, first, end + 1))
        end++;
    return end;
}

static int earliest_first(const struct solver *s, int level, int end, int near)
{
    int first = near > end ? end : near;
    while (first < end && stage_too_long(s, level, first, end))
        first++;
    while (first > 0 && !stage_too_long(s, level, first - 1, end))
        first--;
    return first;
}

/* The farthest place that each row's meshes get to. */
static void reach_forward(struct solver *s)
{
    for (int turn = 0; turn < s->turn_count; turn++)
        s->near[turn] = 0;
    for (int row = 0; row + 1 < s->row_count; row++)
        for (int turn = 0; turn < s->turn_count && s->first_to[row] >= 0; turn++) {
            int after = row_after(s, row, turn), level = s->level[row * s->turn_count + turn];
            if (after < 0)
                continue;
            s->near[turn] = farthest_end(s, level, s->first_to[row], s->near[turn]);
            s->first_to[after] = (int)max_i64(s->first_to[after], s->near[turn]);
        }
}

/* The earliest place from which on those that each row leaves are enough. */
static void reach_backward(struct solver *s)
{
    for (int turn = 0; turn < s->turn_count; turn++)
        s->near[turn] = s->layers;
    for (int row = s->row_count - 2; row >= 0; row--)
        for (int turn = 0; turn < s->turn_count; turn++) {
            int after = row_after(s, row, turn), level = s->level[row * s->turn_count + turn];
            if (after < 0 || s->first_from[after] > s->layers || s->first_from[after] > s->first_to[after])
                continue;
            s->near[turn] = earliest_first(s, level, s->first_from[after], s->near[turn]);
            s->first_from[row] = (int)min_i64(s->first_from[row], s->near[turn]);
        }
}

/* The same over the ways to deal out meshes: nearly none where the cap is near the least that it can be. Rows that
 * nothing leads to, or from, have no first layers. A stage may be too long with the next layer alone where one that
 * begins earlier is not, so that not every stage need get on. */
static bool set_band_of_turns(struct solver *s)
{
    int final = s->row_count - 1;
    for (int row = 0; row <= final; row++) {
        s->first_to[row] = row == 0 ? 0 : -1;
        s->first_from[row] = row == final ? s->layers : s->layers + 1;
    }
    reach_forward(s);
    reach_backward(s);
    return s->first_from[0] == 0 && s->first_to[final] == s->layers;
}

/* What is best from a place on. */
struct best {
    int64_t ns, high_ns;
    int turn, next;
    struct stage_runs runs;
};

/* The least behind a stage, with its own cuts, and the layout with which that begins. */
static int64_t best_behind(const struct solver *s, const struct leg *leg, const struct stage_runs *runs, int *next)
{
    int64_t best = INT64_MAX;
    *next = 0;
    for (int layout = 0; layout < s->layouts; layout++) {
        int64_t rest = s->best_ns[spot_index(s, leg->after, layout, runs->end)];
        if (rest < INT64_MAX && runs->end < s->last)
            rest += stage_cut_ns(s->problem, last_layout(runs), layout);
        if (rest < best)
            *next = layout;
        best = min_i64(best, rest);
    }
    return best == INT64_MAX
               ? best
               : best + stage_ends_ns(s->problem, row_meshes(s, leg->row), leg->turn, runs->first[0], runs->end);
}

/* Whether plans with the stage are no shorter than what is known, since the layers before it take their least, and its
 * C and Y are bounded together. */
static bool skips(struct solver *s, const struct leg *leg, const struct stage_runs *runs, int64_t rest)
{
    if (s->skip_ns == INT64_MAX || s->layouts == 1)
        return false;
    int64_t least = s->least_path_ns[runs->first[0]] + stage_whole_bound(s, leg->level, runs) + rest;
    if (least >= s->skip_ns)
        s->skipped_ns = min_i64(s->skipped_ns, least);
    return least >= s->skip_ns;
}

/* Ties go to the smaller maximum Y. total is no more than the best. */
static void take_better(const struct solver *s, const struct leg *leg, const struct stage_runs *runs, int next,
                        const struct cell *cell, int64_t total, struct best *best)
{
    int64_t high = cell && cell->solution >= 0 ? record_high_ns(s, &cell->records[cell->solution]) : s->cap_ns;
    high = max_i64(high, s->best_high[spot_index(s, leg->after, next, runs->end)]);
    if (total < best->ns || high < best->high_ns)
        *best = (struct best){ total, high, leg->turn, next, *runs };
}

/* A stage of these runs, if it is better. */
static bool try_stage(struct solver *s, const struct leg *leg, const struct stage_runs *runs, struct best *best)
{
    int next = 0;
    int64_t lower = 0, rest = best_behind(s, leg, runs, &next);
    if (rest == INT64_MAX || (best->ns < INT64_MAX && runs_least_path(s, leg->level, runs) + rest > best->ns))
        return true;
    struct cell *cell = NULL;
    int64_t enough = best->ns < INT64_MAX ? best->ns - rest + 1 : INT64_MAX;
    if (!stage_known(s, leg->level, runs, enough, &cell, &lower))
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    if (lower == INT64_MAX)
        return true;
    if (lower + rest <= best->ns && !skips(s, leg, runs, rest))
        take_better(s, leg, runs, next, cell, lower + rest, best);
    return true;
}

/* Whether runs of which the last has no end yet may be the beginning of something better: from where it begins on, any
 * layers take their least. */
static bool may_be_better(const struct solver *s, int level, struct stage_runs runs, const struct best *best)
{
    int from = runs.end = runs.first[runs.count - 1];
    return best->ns == INT64_MAX || runs_least_path(s, level, &runs) + s->least_ns - s->least_path_ns[from] <= best->ns;
}

/* The same of one run; rest: the least behind it, its own cuts included. */
static bool try_end(struct solver *s, const struct leg *leg, int first, int end, int64_t rest, struct best *best)
{
    struct stage_runs runs = stage_run(first, end);
    const struct cell *cell = stage_cell(s, leg->level, &runs);
    if (!cell)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    if (cell->lower < INT64_MAX && cell->lower + rest <= best->ns)
        take_better(s, leg, &runs, 0, cell, cell->lower + rest, best);
    return true;
}

/* farthest_end(), which rows of one level share and those of others are near. */
static int reach_from(struct solver *s, const struct leg *leg, int first)
{
    struct reach *reach = &s->reach[leg->turn * s->places + first];
    int near = reach->pass > 0 || first == 0 ? reach->end : reach[-1].end;
    if (reach->pass != s->result->passes || reach->level != leg->level)
        *reach = (struct reach){ s->result->passes, leg->level, farthest_end(s, leg->level, first, near) };
    return reach->end;
}

/* All ends that the cap allows of a stage, where layers have one layout: most are longer than the best before anything
 * is known of their stage but its layers' least. */
static bool try_ends(struct solver *s, const struct leg *leg, int first, struct best *best)
{
    const int64_t *path_ns = s->own_path_ns[leg->level], *rest_ns = &s->best_ns[spot_index(s, leg->after, 0, 0)];
    int end = (int)max_i64(first + 1, leg->first_end), last = leg->last_end;
    if (end <= last)
        last = (int)min_i64(last, reach_from(s, leg, first));
    for (; end <= last; end++) {
        if (rest_ns[end] == INT64_MAX)
            continue;
        int64_t rest = rest_ns[end] + leg->cut_ns * ((first > 0) + (end < s->last)),
                least = path_ns[end] - path_ns[first] + rest;
        if (least <= best->ns && !try_end(s, leg, first, end, rest, best))
            return false;
    }
    return true;
}

/* All ends of the last run that the cap allows, and behind each of them all runs that may follow. */
static bool try_runs(struct solver *s, const struct leg *leg, struct stage_runs runs, struct best *best)
{
    int first = runs.first[0], begin = runs.first[runs.count - 1];
    bool last = runs.count == s->problem->table->run_count;
    runs.end = (int)max_i64(begin + 1, last ? leg->first_end : 0);
    for (; runs.end <= leg->last_end; runs.end++) {
        struct stage_runs more = runs;
        if (stage_too_long(s, leg->level, first, runs.end))
            break;
        if (runs.end >= leg->first_end && stage_runs_legal(s->problem->chain, &runs) && !try_stage(s, leg, &runs, best))
            return false;
        if (last)
            continue;
        more.first[more.count++] = runs.end;
        for (int layout = 0; layout < s->layouts; layout++) {
            more.layout[more.count - 1] = (int8_t)layout;
            if (layout != last_layout(&runs) && may_be_better(s, leg->level, more, best) &&
                !try_runs(s, leg, more, best))
                return false;
        }
    }
    return true;
}

/* The ways to go on from the row, to legs, (turns); the number of them. */
static int list_legs(const struct solver *s, int row, struct leg *legs)
{
    int count = 0;
    for (int turn = 0; turn < s->turn_count; turn++) {
        int after = row_after(s, row, turn);
        if (after >= 0)
            legs[count++] = (struct leg){ row,
                                          turn,
                                          after,
                                          s->level[row * s->turn_count + turn],
                                          s->first_from[after],
                                          s->first_to[after],
                                          stage_end_ns(s->problem, row_meshes(s, row), turn) };
    }
    return count;
}

/* Least sum of C from `first` on in all stages from the row on; ties go to the smaller maximum Y. */
static bool best_from(struct solver *s, const struct leg *legs, int count, int row, int layout, int first)
{
    size_t at = spot_index(s, row, layout, first);
    struct stage_runs runs = stage_run(first, first);
    struct best best = { .ns = INT64_MAX, .high_ns = INT64_MAX };
    runs.layout[0] = (int8_t)layout;
    for (int i = 0; i < count; i++)
        if (!(s->layouts == 1 ? try_ends(s, &legs[i], first, &best) : try_runs(s, &legs[i], runs, &best)))
            return false;
    s->best_ns[at] = best.ns;
    s->best_high[at] = best.high_ns;
    s->cut[at] = best.runs.end;
    s->cut_turn[at] = (int8_t)best.turn;
    if (s->layouts > 1) {
        s->cut_runs[at] = best.runs;
        s->cut_next[at] = (int8_t)best.next;
    }
    return true;
}

bool cut_sweep(struct solver *s, int64_t *sum)
{
    int final = s->row_count - 1;
    *sum = INT64_MAX;
    s->result->passes++;
    if (s->problem->chain->branches)
        return ideals_sweep(s, sum);
    if (!(s->problem->mesh_count > 0 ? set_band_of_turns(s) : set_band_of_stages(s)))
        return true;
    for (int layout = 0; layout < s->layouts; layout++) {
        s->best_ns[spot_index(s, final, layout, s->last)] = 0;
        s->best_high[spot_index(s, final, layout, s->last)] = INT64_MIN;
    }
    for (int row = final - 1; row >= 0; row--) {
        int count = list_legs(s, row, s->legs);
        for (int first = s->first_from[row]; first <= s->first_to[row]; first++)
            for (int layout = 0; layout < s->layouts; layout++)
                if (!best_from(s, s->legs, count, row, layout, first))
                    return false;
    }
    for (int layout = 0; layout < s->layouts; layout++)
        *sum = min_i64(*sum, s->best_ns[spot_index(s, 0, layout, 0)]);
    return true;
}

/* Relaxes a stage that was not yet, or else spends the effort on it. */
static bool refine_stage(struct solver *s, const struct spot *at, enum effort effort, int64_t *raised)
{
    struct cell *cell = stage_cell(s, at->level, &at->runs);
    int64_t before = cell->lower;
    bool relax = stage_open(s, cell, EFFORT_RELAX);
    if (!stage_open(s, cell, effort))
        return true;
    if (!stage_solve(s, at->level, &at->runs, relax ? EFFORT_RELAX : effort))
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
        for (struct spot at = cut_first(s); !spot_ends(s, &at) && !dead; at = cut_next(s, at)) {
            if (!refine_stage(s, &at, effort, &raised))
                return false;
            dead = stage_cell(s, at.level, &at.runs)->lower == INT64_MAX;
            raised = dead ? INT64_MAX : raised;
        }
    }
    return true;
}

bool cut_polish(struct solver *s)
{
    for (struct spot at = cut_first(s); !spot_ends(s, &at) && !s->stopped; at = cut_next(s, at)) {
        const struct cell *cell = stage_cell(s, at.level, &at.runs);
        if (stage_open(s, cell, EFFORT_BEAM) && !stage_solve(s, at.level, &at.runs, EFFORT_BEAM))
            return false;
    }
    return true;
}

bool cut_solution(struct solver *s, struct choice choice, int64_t *sum, int64_t *high, struct stage_times *times,
                  double *slope)
{
    bool complete = true;
    int layout = 0; /* of the stage before */
    *sum = 0;
    *high = INT64_MIN;
    *slope = 0;
    *times = (struct stage_times){ INT64_MIN / 4, INT64_MIN / 4, INT64_MIN / 4 };
    for (struct spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at)) {
        const struct cell *cell = stage_cell(s, at.level, &at.runs);
        int chosen = at.stage == choice.stage ? choice.record : cell->solution;
        const struct record *record = chosen >= 0 ? &cell->records[chosen] : NULL;
        *slope += cell->tried ? cell->slope : 0;
        complete = complete && record;
        *sum += (record ? record->path : 0) + spot_cut_ns(s, &at, layout);
        layout = last_layout(&at.runs);
        *high = max_i64(*high, record ? record_high_ns(s, record) : 0);
        if (record)
            *times = stage_longer(times, &record->times);
    }
    return complete;
}

/* The strategies that the choice takes in a stage of the best cut. */
static const struct layer_count *chosen_counts(struct solver *s, struct choice choice, const struct spot *at)
{
    const struct cell *cell = stage_cell(s, at->level, &at->runs);
    return cell->records[at->stage == choice.stage ? choice.record : cell->solution].counts;
}

static bool is_plan(struct solver *s, const struct partition_plan *plan, struct choice choice, int64_t step_ns)
{
    int stages = 0;
    if (plan->step_ns != step_ns)
        return false;
    for (struct spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at), stages++)
        if (at.stage >= plan->stage_count || plan->first_layer[at.stage] != at.runs.first[0] ||
            (plan->turn && plan->turn[at.stage] != at.turn) ||
            (plan->runs && memcmp(&plan->runs[at.stage], &at.runs, sizeof at.runs)) ||
            !counts_equal(plan->counts[at.stage], chosen_counts(s, choice, &at)))
            return false;
    return stages == plan->stage_count;
}

static bool make_plan(struct solver *s, struct choice choice, struct partition_plan *plan)
{
    for (struct spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at))
        plan->stage_count++;
    size_t stages = (size_t)plan->stage_count;
    plan->first_layer = arena_alloc(s->kept, stages, sizeof *plan->first_layer);
    plan->counts = arena_alloc(s->kept, stages, sizeof *plan->counts);
    if (s->problem->mesh_count > 0)
        plan->turn = arena_alloc(s->kept, stages, sizeof *plan->turn);
    if (s->layouts > 1)
        plan->runs = arena_alloc(s->kept, stages, sizeof *plan->runs);
    if (!plan->first_layer || !plan->counts || (s->problem->mesh_count > 0 && !plan->turn) ||
        (s->layouts > 1 && !plan->runs))
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    for (struct spot at = cut_first(s); !spot_ends(s, &at); at = cut_next(s, at)) {
        plan->first_layer[at.stage] = at.runs.first[0];
        if (plan->runs)
            plan->runs[at.stage] = at.runs;
        if (plan->turn)
            plan->turn[at.stage] = at.turn;
        plan->counts[at.stage] = counts_copy(s->kept, chosen_counts(s, choice, &at));
        if (!plan->counts[at.stage])
            return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    }
    return true;
}

bool cut_keep_plan(struct solver *s, struct choice choice, int64_t step_ns)
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
