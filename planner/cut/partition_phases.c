/* The step has two maxima where all forward passes come before all backward ones: X over the forward passes, and what
 * the ends have beyond it. For any range of X, plans with X in it have
 *
 *   T >= sum C + ... + max_k max( from + (m-1) B_k + ..., lane )         and (m-1) F_k <= to
 *
 * which is one maximum again, under one cap more, and solved like any other. What the shortest plan by that measure
 * lacks is no more than its X lies above `from`. So the range with the least bound is cut at its X until none is left
 * whose bound is below the best plan. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"

enum { MOST_SPANS = 256 }; /* solved; then the bound so far */

struct phase_part {
    struct forward_span span;
    int64_t bound_ns; /* INT64_MAX: nothing is left of it */
};
struct phases {
    int count;
    struct phase_part at[2 + 3 * MOST_SPANS];
    int64_t floor_ns; /* of what cannot be cut further */
    int64_t rest_ns;  /* least_passes_ns() of backward ones */
};

/* Gives the least passes of the longest stage, which is no shorter than the mean; with turns mean_of_turns(). */
static int64_t least_passes_ns(const struct partition_problem *problem, bool forward)
{
    const struct price_table *table = problem->table;
    int64_t sum = 0;
    for (int l = 0; l < problem->chain->layer_count; l++) {
        int64_t least = INT64_MAX;
        for (int i = 0; i < table->strategy_count; i++) {
            const struct layer_price *price = price_at(table, problem->chain->class_of[l], i);
            least = min_i64(least, forward ? price->forward_ns : price->backward_ns);
        }
        sum += least;
    }
    if (problem->mesh_count > 0)
        return mean_of_turns(problem, sum, 0);
    return (problem->micro_batch_count - 1) * ceil_div(sum, problem->stage_count);
}

static void add_part(struct phases *p, int64_t from_ns, int64_t to_ns, int64_t bound_ns)
{
    if (from_ns <= to_ns)
        p->at[p->count++] = (struct phase_part){ { true, from_ns, to_ns, p->rest_ns }, bound_ns };
}

/* Cuts the part at X of its shortest plan, which from there on is measured as it is; what lies `open_ns` and more above
 * its beginning is likely to be ruled out at once. */
static void cut_part(struct phases *p, struct phase_part part, int64_t forward_ns, int64_t open_ns)
{
    int64_t from = part.span.from_ns, near = min_i64(forward_ns, from + open_ns);
    if (forward_ns <= from) { /* limits of the knapsacks keep its bound low */
        p->floor_ns = min_i64(p->floor_ns, part.bound_ns);
        return;
    }
    add_part(p, from, near - 1, part.bound_ns);
    add_part(p, near, forward_ns - 1, part.bound_ns);
    add_part(p, forward_ns, part.span.to_ns, part.bound_ns);
}

static bool close_parts(struct phases *p, const struct partition_problem *problem, struct arena *arena,
                        struct partition_result *result, int64_t *bound_ns, struct error *err)
{
    for (int solved = 0;; solved++) {
        struct phase_part *part = NULL; /* the least */
        for (int i = 0; i < p->count; i++)
            part = !part || p->at[i].bound_ns < part->bound_ns ? &p->at[i] : part;
        *bound_ns = min_i64(p->floor_ns, part ? part->bound_ns : INT64_MAX);
        if (!part || good_enough(problem, result, part->bound_ns) || solved == MOST_SPANS)
            return true;
        struct partition_problem shorter = *problem;
        struct solved_span span;
        shorter.below_ns = best_known_ns(problem, result);
        if (!partition_span(&shorter, part->span, arena, result, &span, err))
            return false;
        if (span.stopped)
            return true;
        part->bound_ns = max_i64(part->bound_ns, span.bound_ns);
        if (good_enough(problem, result, part->bound_ns))
            continue;
        struct phase_part taken = *part;
        int64_t best = best_known_ns(problem, result);
        part->bound_ns = INT64_MAX;
        cut_part(p, taken, span.forward_ns, best - taken.bound_ns);
    }
}

bool phases_solve(const struct partition_problem *problem, struct arena *arena, struct partition_result *result,
                  const struct solved_span *all, struct error *err)
{
    bool ruled_out = result->ruled_out;
    int64_t bound_ns = all->bound_ns, least = least_passes_ns(problem, true), cut = max_i64(least, all->forward_ns);
    if (result->no_memory || best_known_ns(problem, result) == INT64_MAX || good_enough(problem, result, bound_ns))
        return true;
    struct phases p = { .floor_ns = INT64_MAX, .rest_ns = least_passes_ns(problem, false) };
    add_part(&p, least, cut - 1, bound_ns);
    add_part(&p, cut, INT64_MAX, bound_ns);
    if (!close_parts(&p, problem, arena, result, &bound_ns, err))
        return false;
    result->bound_ns = min_i64(bound_ns, best_known_ns(problem, result));
    result->ruled_out = ruled_out;
    return true;
}
