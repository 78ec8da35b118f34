/* What a plan's step takes by the simulation. */
#ifndef CLEAVE_TESTS_SIMULATED_STEP_H
#define CLEAVE_TESTS_SIMULATED_STEP_H
#include "tests/check.h"
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/program/program.h"
#include "planner/sim/simulate.h"
#include "planner/verify/verify.h"

/* The test fails where the plan does not lower, or the verifier refuses its program; what: begins the message. */
static inline int64_t simulated_step_ns(const char *what, const struct model *model, const struct plan *plan,
                                        const struct facts *facts)
{
    struct graph *graph = NULL;
    struct program *program = NULL;
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(plan_graph(&graph, model, plan, &err) && plan_check(plan, graph, &err) &&
                      lower_program(&program, graph, plan, &err) && layout_program(program, &err) &&
                      verify_program(program, &err) && simulate(&timeline, facts, program, &err),
                  "%s: %s", what, err.message);
    int64_t ns = timeline->step_ns;
    timeline_free(timeline);
    program_free(program);
    graph_free(graph);
    return ns;
}
#endif
