/* Which programs to run so that all computations of a batch's plans occur in them. */
#include "executor/kernel.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/space/space.h"
#include "planner/verify/verify.h"
#include "profiler/compute.h"
#include <stdlib.h>

static int64_t vocab_multiple(int64_t vocab_size, int tensor)
{
    return space_vocab_multiple(&(struct graph){ .vocab_size = vocab_size }, tensor);
}

/* ---- one case ---- */
static struct plan *case_plan(const struct graph *graph, int rank_count, enum dtype dtype, const struct compute_case *c)
{
    struct plan *plan = plan_new(1, graph->layer_count);
    if (!plan)
        return NULL;
    plan->batch = graph->batch, plan->sequence = graph->sequence;
    plan->vocab_multiple = vocab_multiple(graph->vocab_size, c->tensor);
    plan->dtype = dtype;
    plan->schedule = c->schedule;
    plan->micro_batch_count = c->micro_count;
    plan->atom_count = 2;
    plan->clip_norm = 1;
    plan->rank_count = rank_count;
    plan->stages[0].layer_count = graph->layer_count;
    plan->stages[0].atom[0] = rank_count / c->tensor;
    plan->stages[0].atom[1] = c->tensor;
    for (int l = 0; l < graph->layer_count; l++)
        plan->layers[l].dim[1] = (int8_t)c->dimension;
    return plan;
}

static void serialise(struct program *program)
{
    struct stage_program *stage = &program->stages[0];
    for (int i = 0; i < stage->instr_count; i++)
        stage->instrs[i].lane = LANE_COMPUTE;
}

/* An expert's work depends on what is sent to it, which the cost model takes to be even. */
static void route_evenly(struct graph *graph)
{
    for (int i = 0; i < graph->segment_count; i++)
        graph->segments[i].arguments.evenly = graph->segments[i].kernel == KERNEL_ROUTE;
}

bool case_open(struct case_program *out, const struct model *shortened, int64_t sequence, int rank_count,
               enum dtype dtype, const struct compute_case *c, struct error *err)
{
    struct case_program made = { 0 };
    int64_t batch = c->micro * c->micro_count * (dimensions[c->dimension]->splits_batch ? c->tensor : 1);
    bool ok =
        graph_build(&made.graph, shortened, batch, sequence, vocab_multiple(shortened->vocab_size, c->tensor), err);
    if (ok)
        route_evenly(made.graph);
    if (ok && !(made.plan = case_plan(made.graph, rank_count, dtype, c)))
        ok = fail_kind(err, ERROR_ENVIRONMENT, "no memory for a plan");
    ok = ok && plan_check(made.plan, made.graph, err) && lower_program(&made.program, made.graph, made.plan, err) &&
         layout_program(made.program, err) && verify_program(made.program, err);
    if (!ok) {
        case_close(&made);
        return false;
    }
    serialise(made.program);
    *out = made;
    return true;
}

void case_close(struct case_program *program)
{
    program_free(program->program);
    plan_free(program->plan);
    graph_free(program->graph);
    *program = (struct case_program){ 0 };
}

/* ---- all cases ---- */
/* The dimensions along which tensor ranks may share one sequence's work, and those asked for. */
static bool is_offered(const struct graph *graph, int tensor, int d, const bool *dims)
{
    if (tensor == 1)
        return d == DIM_none;
    if (dims && dims[d])
        return true;
    return d != DIM_none && dimensions[d]->lane == LANE_TP && !dimensions[d]->splits_batch &&
           legal_tensor(graph, tensor) && (d != DIM_tp_sp || graph->sequence % tensor == 0);
}

/* Plans hold batch = micro x data ranks x micro-batches: any divisor of the batch may be a micro-batch. Large ones are
 * few in a step, so that their weight gradients are mostly written; small ones are mostly added to what the one before
 * left. */
static int cases_of_micro(struct compute_case *out, const struct graph *graph, int rank_count, int64_t batch,
                          int64_t micro, const bool *dims)
{
    int count = 0;
    for (int tensor = 1; tensor <= rank_count; tensor++)
        for (int d = 0; rank_count % tensor == 0 && d < DIM_COUNT; d++)
            if (is_offered(graph, tensor, d, dims))
                out[count++] = (struct compute_case){
                    .tensor = tensor, .dimension = d, .micro = micro, .micro_count = micro * 4 <= batch ? 2 : 1
                };
    return count;
}

/* A schedule with two versions of the weights however few stages there are. */
static int schedule_with_versions(void)
{
    struct schedule_place place = schedule_place_even(1, 0, 1, 0);
    int s = 0;
    while (schedules[s] && !(schedules[s]->versions && schedules[s]->versions(&place) > 1))
        s++;
    return schedules[s] ? s : 0;
}

bool compute_cases(struct compute_case **out, int *count, const struct graph *graph, int rank_count, int64_t batch,
                   const bool *dims, struct error *err)
{
    int64_t divisors = 0;
    for (int64_t b = 1; b <= batch; b++)
        divisors += batch % b == 0;
    struct compute_case *cases = calloc((size_t)divisors * (size_t)rank_count * DIM_COUNT + 1, sizeof *cases);
    if (!cases)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the configurations to measure");
    int made = 0, versions = schedule_with_versions();
    for (int64_t b = 1; b <= batch; b++)
        if (batch % b == 0) {
            made += cases_of_micro(cases + made, graph, rank_count, batch, b, dims);
            if (b == 1)
                cases[made++] = (struct compute_case){
                    .tensor = 1, .dimension = DIM_none, .micro = 1, .micro_count = 1, .schedule = versions
                };
        }
    *out = cases;
    *count = made;
    return true;
}
