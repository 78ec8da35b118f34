/* The best cut under one cap: a dynamic program over (stage, first layer, end) with bounds of the stages, in the band
 * that the cap leaves; then the stages on the best cut are solved, until the best cut is of solved stages only. */
#include "base/num.h"
#include "planner/search/partition_parts.h"
#include <string.h>

/* A longer stage is too long as well, so the first layers of each stage are an interval. */
static bool set_band(struct solver *s)
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

/* Least sum of C from `first` on in stages `stage`..P-1; ties go to the smaller maximum Y. */
static bool best_from(struct solver *s, int stage, int first)
{
    int width = s->layers + 1, level = s->level[stage];
    int64_t best = INT64_MAX, best_high = INT64_MAX;
    for (int end = (int)max_i64(first + 1, s->first_from[stage + 1]); end <= s->first_to[stage + 1]; end++) {
        if (stage_too_long(s, level, first, end))
            break;
        int64_t rest = s->best_ns[(stage + 1) * width + end];
        if (rest == INT64_MAX || (best < INT64_MAX && s->least_path_ns[end] - s->least_path_ns[first] + rest > best))
            continue;
        const struct cell *cell = stage_cell(s, level, first, end);
        if (!cell)
            return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
        if (cell->lower == INT64_MAX)
            continue;
        int64_t total = cell->lower + rest;
        int64_t high = max_i64(cell->solution >= 0 ? cell->records[cell->solution].high : s->cap_ns,
                               s->best_high[(stage + 1) * width + end]);
        if (total < best || (total == best && high < best_high)) {
            best = total;
            best_high = high;
            s->cut[stage * width + first] = end;
        }
    }
    s->best_ns[stage * width + first] = best;
    s->best_high[stage * width + first] = best_high;
    return true;
}

bool cut_sweep(struct solver *s, int64_t *sum)
{
    int width = s->layers + 1;
    *sum = INT64_MAX;
    s->result->passes++;
    if (!set_band(s))
        return true;
    s->best_ns[s->stages * width + s->layers] = 0;
    s->best_high[s->stages * width + s->layers] = INT64_MIN;
    for (int stage = s->stages - 1; stage >= 0; stage--)
        for (int first = s->first_from[stage]; first <= s->first_to[stage]; first++)
            if (!best_from(s, stage, first))
                return false;
    *sum = s->best_ns[0];
    return true;
}

/* Relaxes a stage that was not yet, or else spends the effort on it. */
static bool refine_stage(struct solver *s, int stage, int first, int end, enum effort effort, int64_t *raised)
{
    int level = s->level[stage];
    struct cell *cell = stage_cell(s, level, first, end);
    int64_t before = cell->lower;
    bool relax = stage_open(s, cell, EFFORT_RELAX);
    if (!stage_open(s, cell, effort))
        return true;
    if (!stage_solve(s, level, first, end, relax ? EFFORT_RELAX : effort))
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
        for (int stage = 0, first = 0; *sum < INT64_MAX && stage < s->stages; stage++) {
            int end = s->cut[stage * (s->layers + 1) + first];
            if (!refine_stage(s, stage, first, end, effort, &raised))
                return false;
            first = end;
        }
    }
    return true;
}

bool cut_polish(struct solver *s)
{
    for (int stage = 0, first = 0; stage < s->stages && !s->stopped; stage++) {
        int end = s->cut[stage * (s->layers + 1) + first], level = s->level[stage];
        const struct cell *cell = stage_cell(s, level, first, end);
        if (stage_open(s, cell, EFFORT_BEAM) && !stage_solve(s, level, first, end, EFFORT_BEAM))
            return false;
        first = end;
    }
    return true;
}

bool cut_solution(struct solver *s, struct choice choice, int64_t *sum, int64_t *high, double *slope)
{
    bool complete = true;
    *sum = 0;
    *high = INT64_MIN;
    *slope = 0;
    for (int stage = 0, first = 0; stage < s->stages; stage++) {
        int end = s->cut[stage * (s->layers + 1) + first];
        const struct cell *cell = stage_cell(s, s->level[stage], first, end);
        int chosen = stage == choice.stage ? choice.record : cell->solution;
        const struct record *record = chosen >= 0 ? &cell->records[chosen] : NULL;
        *slope += cell->tried ? cell->slope : 0;
        complete = complete && record;
        *sum += record ? record->path : 0;
        *high = max_i64(*high, record ? record->high : 0);
        first = end;
    }
    return complete;
}

static bool same_plan(const struct solver *s, const struct partition_plan *a, const struct partition_plan *b)
{
    size_t stages = (size_t)s->stages, block = (size_t)(s->classes * s->strategies);
    return a->step_ns == b->step_ns && !memcmp(a->first_layer, b->first_layer, stages * sizeof *a->first_layer) &&
           !memcmp(a->count, b->count, stages * block * sizeof *a->count);
}

bool cut_keep_plan(struct solver *s, struct choice choice, int64_t step_ns)
{
    struct partition_result *result = s->result;
    size_t block = (size_t)(s->classes * s->strategies);
    int place = result->plan_count;
    while (place > 0 && result->plans[place - 1].step_ns > step_ns)
        place--;
    if (place == PARTITION_PLANS)
        return true;
    struct partition_plan plan = { .step_ns = step_ns };
    plan.first_layer = arena_alloc(s->kept, (size_t)s->stages, sizeof *plan.first_layer);
    plan.count = arena_alloc(s->kept, (size_t)s->stages * block, sizeof *plan.count);
    if (!plan.first_layer || !plan.count)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int stage = 0, first = 0; stage < s->stages; stage++) {
        int end = s->cut[stage * (s->layers + 1) + first];
        const struct cell *cell = stage_cell(s, s->level[stage], first, end);
        int chosen = stage == choice.stage ? choice.record : cell->solution;
        plan.first_layer[stage] = first;
        memcpy(&plan.count[(size_t)stage * block], cell->records[chosen].count, block * sizeof *plan.count);
        first = end;
    }
    for (int i = 0; i < result->plan_count; i++)
        if (same_plan(s, &result->plans[i], &plan))
            return true;
    if (result->plan_count < PARTITION_PLANS)
        result->plan_count++;
    memmove(&result->plans[place + 1], &result->plans[place], (size_t)(result->plan_count - 1 - place) * sizeof plan);
    result->plans[place] = plan;
    result->feasible = true;
    return true;
}
