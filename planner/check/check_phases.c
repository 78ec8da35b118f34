/* Where all forward passes come before the backward ones all stages wait for the longest forward part X and then for
 * the longest rest. Times that have both passes underestimate that, and settle most bounds. Else plans are taken apart
 * by X: of those in a range the rows say what they would take if X were where it begins. What refutes the bound by its
 * rows does so in truth, or the range is cut at its X. */
#include "planner/check/check_cut_parts.h"

enum { MOST_SPANS = 2000 };

struct forward_range {
    int64_t from_ns, to_ns;
};
struct forward_ranges {
    int count;
    struct forward_range at[2 * MOST_SPANS + 1];
};

/* Copies kinds whose stages are apart or not, of plans with a longest forward part in that range; false: no memory. */
static bool phases_set_kinds(struct cut_problem *problem, struct arena *arena, bool apart, int64_t from_ns,
                             int64_t to_ns)
{
    int kinds = cut_kinds(problem);
    struct stage_kind *own = arena_alloc(arena, (size_t)kinds, sizeof *own);
    for (int k = 0; own && k < kinds; k++) {
        own[k] = problem->stages[k];
        own[k].apart = apart;
        own[k].from_ns = from_ns;
        own[k].to_ns = to_ns;
    }
    problem->stages = own;
    return own != NULL;
}

static bool check_span(const struct cut_problem *problem, bool apart, struct forward_range span, int64_t bound_ns,
                       enum cut_verdict *verdict, struct cut_witness *witness, struct error *err)
{
    struct cut_problem own = *problem;
    struct arena arena = { 0 };
    bool good = phases_set_kinds(&own, &arena, apart, span.from_ns, span.to_ns)
                    ? cut_check_kinds(&own, bound_ns, verdict, witness, err)
                    : fail_memory(err);
    arena_free(&arena);
    return good;
}

static void add_span(struct forward_ranges *spans, int64_t from_ns, int64_t to_ns)
{
    if (from_ns <= to_ns)
        spans->at[spans->count++] = (struct forward_range){ from_ns, to_ns };
}

/* Checks spans; each way on makes at most two spans more. */
static bool check_spans(struct forward_ranges *spans, const struct cut_problem *problem, int64_t bound_ns,
                        enum cut_verdict *verdict, struct cut_witness *witness, struct error *err)
{
    *verdict = CUT_HOLDS;
    for (int checked = 0; spans->count > 0; checked++) {
        enum cut_verdict own = CUT_UNDECIDED;
        struct forward_range span = spans->at[--spans->count];
        if (checked < MOST_SPANS && !check_span(problem, true, span, bound_ns, &own, witness, err))
            return false;
        if (own == CUT_UNDECIDED)
            *verdict = CUT_UNDECIDED;
        if (checked == MOST_SPANS)
            return true;
        if (own != CUT_REFUTED)
            continue;
        if (witness->value_ns < bound_ns) {
            *verdict = CUT_REFUTED;
            return true;
        }
        int64_t forward_ns = witness->forward_ns,
                near_ns = min_i64(forward_ns, span.from_ns + bound_ns - witness->rows_ns);
        add_span(spans, span.from_ns, near_ns - 1);
        add_span(spans, near_ns, forward_ns - 1); /* the same plans are too long there */
        add_span(spans, forward_ns, span.to_ns);
    }
    return true;
}

bool phases_check(const struct cut_problem *problem, int64_t bound_ns, enum cut_verdict *verdict, int64_t *witness_ns,
                  struct error *err)
{
    struct cut_witness witness = { 0 };
    struct forward_ranges spans = { .count = 0 };
    if (!problem->phases) {
        bool good = cut_check_kinds(problem, bound_ns, verdict, &witness, err);
        *witness_ns = witness.value_ns;
        return good;
    }
    if (!check_span(problem, false, (struct forward_range){ 0 }, bound_ns, verdict, &witness, err))
        return false;
    if (*verdict == CUT_HOLDS)
        return true;
    struct forward_range all;
    value_forward_range(problem, bound_ns, &all.from_ns, &all.to_ns);
    add_span(&spans, all.from_ns, all.to_ns);
    bool good = check_spans(&spans, problem, bound_ns, verdict, &witness, err);
    *witness_ns = witness.value_ns;
    return good;
}
