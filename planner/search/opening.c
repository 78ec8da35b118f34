/* The first plan of a search whose time is limited, before anything else: whenever that time ends there is a plan, and
 * nobody who has more gets a longer one. It is one near the best of a few configurations spread over the space, and has
 * no say in what is done later. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/search/propose_parts.h"
#include <stdlib.h>

/* Lists the configurations that have a first bound, least bound first. */
static int list_bounded(const struct run *run, struct ordered *list)
{
    int count = 0;
    for (int i = 0; i < run->config_count; i++)
        if (run->is_bounded[i] && run->path_ns[i] < INT64_MAX)
            list[count++] = (struct ordered){ max_i64(run->path_ns[i], run->first_ns[i]), i, false };
    qsort(list, (size_t)count, sizeof *list, first_bounds_compare);
    return count;
}

static bool try_config(struct run *run, int config)
{
    struct job job = { .config = config, .unstoppable = true };
    struct candidate found = { .config = config, .capacity_bytes = run->capacity_bytes };
    if (!propose_solve(run, &job, 1, INT64_MAX, FAMILY_GAP_PPM))
        return false;
    found.table = job.table;
    if (job.result.plan_count == 0)
        return true;
    found.solution = job.result.plans[0];
    return early_judge_of(run, &found, 1);
}

bool opening_find(struct run *run)
{
    static bool (*const kinds[])(struct run * run, const struct ordered *at, bool *out) = { propose_fits_easily,
                                                                                            propose_comfortable };
    if (!early_is_wanted(run))
        return true;
    struct ordered *list = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *list);
    if (!list)
        return fail_memory(run->err);
    int count = list_bounded(run, list), tries = 0;
    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++)
        for (int i = 0; i < count && tries < OPENING_TRIES && !run->early.plan; i++) {
            bool good = false;
            if (!kinds[kind](run, &list[i], &good) || (good && !try_config(run, list[i].index)))
                return false;
            tries += good;
        }
    return true;
}
