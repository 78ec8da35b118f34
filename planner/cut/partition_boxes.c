/* Where all forward passes come before all backward ones, plans are first taken apart by both maxima: X over the
 * forward passes, and R, the longer end behind it, each within a range. Of the plans in such a box
 *
 *   T >= S + least X + least R
 *
 * with S the least sum of C that relaxations allow under the largest X and R and any lane that still makes a shorter
 * plan. The box with the least bound is halved along its longer side, and only the S of the lower half is new. What was
 * learnt about stages is known in all boxes. */
#include "base/num.h"
#include "planner/cut/partition_parts.h"

/* A box whose sides are less than one part in so many of the step is left to partition_phases.c, which also solves
 * stages to the end. */
enum { FINE = 4096 };

struct boxes_solver {
    struct partition_problem shorter; /* than the best plan so far */
    struct solver s;
    struct box_list *boxes;
    int64_t floor_ns;
};

static int64_t bound_of(const struct boxes_solver *b, const struct box *box)
{
    if (box->sum_ns == INT64_MAX)
        return INT64_MAX;
    return max_i64(b->floor_ns, stage_once_ns(&b->shorter) + box->sum_ns + box->from_ns + box->above_ns + 1);
}

/* Without what is no shorter than the best plan whatever else. */
static void shrink(const struct boxes_solver *b, struct box *box)
{
    if (box->sum_ns == INT64_MAX)
        return;
    int64_t room_ns = b->shorter.below_ns - stage_once_ns(&b->shorter) - box->sum_ns - 1;
    box->to_ns = min_i64(box->to_ns, room_ns - box->above_ns - 1);
    box->most_ns = min_i64(box->most_ns, room_ns - box->from_ns);
    if (box->to_ns < box->from_ns || box->most_ns <= box->above_ns)
        box->sum_ns = INT64_MAX;
}

/* The sum of C in the box, and its plan where it is the shortest. */
static bool look(struct boxes_solver *b, struct box *box)
{
    struct solver *s = &b->s;
    struct partition_result *result = s->result;
    int64_t sum = 0, lane_ns = b->shorter.below_ns - stage_once_ns(&b->shorter) - s->least_ns - 1;
    s->span = (struct forward_span){ true, lane_ns - box->most_ns, box->to_ns, 0 };
    if (!solver_try_cap(s, lane_ns, gap_ns(&b->shorter, b->shorter.below_ns) / 4, &sum))
        return false;
    box->sum_ns = max_i64(box->sum_ns, sum);
    b->shorter.below_ns = best_known_ns(&b->shorter, result);
    return true;
}

static struct box *least_box(const struct boxes_solver *b)
{
    struct box *least = &b->boxes->at[0];
    for (int i = 0; i < b->boxes->count; i++) {
        struct box *box = &b->boxes->at[i];
        shrink(b, box);
        box->bound_ns = bound_of(b, box);
        least = box->bound_ns < least->bound_ns ? box : least;
    }
    return least;
}

static bool halve(struct boxes_solver *b, struct box *upper)
{
    struct box *lower = &b->boxes->at[b->boxes->count++];
    *lower = *upper;
    if (upper->to_ns - upper->from_ns > upper->most_ns - upper->above_ns) {
        lower->to_ns = upper->from_ns + (upper->to_ns - upper->from_ns) / 2;
        upper->from_ns = lower->to_ns + 1;
    } else {
        lower->most_ns = upper->above_ns + (upper->most_ns - upper->above_ns + 1) / 2;
        upper->above_ns = lower->most_ns;
    }
    return look(b, lower);
}

/* Whether there is nothing more to be had from boxes. */
static bool is_done(const struct boxes_solver *b, const struct box *least)
{
    int64_t fine_ns = b->shorter.below_ns / FINE;
    return b->s.stopped || b->boxes->count == MOST_BOXES || good_enough(&b->shorter, b->s.result, least->bound_ns) ||
           max_i64(least->to_ns - least->from_ns, least->most_ns - least->above_ns) <= fine_ns;
}

bool solve_boxes(const struct partition_problem *problem, struct arena *arena, struct partition_result *result,
                 const struct box *all, struct box_list *out, struct error *err)
{
    struct arena scratch = { 0 };
    struct boxes_solver b = { .shorter = *problem, .boxes = out, .floor_ns = all->bound_ns };
    b.shorter.below_ns = best_known_ns(problem, result);
    b.s = solver_of(&b.shorter, &scratch, result, err);
    b.s.kept = arena;
    b.s.span.apart = true;
    bool good = solver_start(&b.s);
    out->count = 1;
    out->at[0] = *all;
    out->at[0].sum_ns = b.s.least_ns;
    for (struct box *least = least_box(&b); good && !is_done(&b, least); least = least_box(&b))
        good = halve(&b, least);
    solver_close(&b.s);
    return good;
}
