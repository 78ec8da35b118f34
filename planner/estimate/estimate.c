/* A plan's step by its program: lowered, laid out and simulated as it stands. What few micro-batches tell of many
 * stands in estimate_few.c. */
#include "planner/estimate/effort.h"
#include "planner/estimate/estimate_parts.h"
#include "base/num.h"
#include "planner/cost/cost.h"
#include "planner/layout/layout.h"
#include "planner/layout/lives.h"
#include "planner/lower/lower.h"
#include <stdlib.h>

/* Gives extents of the whole step, without the vocabulary's padding, whose work nobody asked for. */
static void whole_extents(const struct graph *graph, const struct segment *segment, int64_t extents[MAX_AXES])
{
    for (int i = 0; i < MAX_AXES; i++) {
        extents[i] = i < segment->axis_count ? segment->axes[i].size : 1;
        if (i < segment->axis_count && segment->axes[i].tag == TAG_VOCAB)
            extents[i] = graph->vocab_size;
    }
}

double estimate_model_flops(const struct graph *graph)
{
    double flops = 0; /* a step of a thousand billion parameters has more than 2^63 */
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        const struct kernel_facts *does = &kernel_facts[segment->kernel];
        int64_t extents[MAX_AXES];
        if (!does->multiplies && !does->attends && !does->scans)
            continue;
        whole_extents(graph, segment, extents);
        bool input_gradient = false, weight_gradient = false;
        for (int i = 0; i < segment->in_count; i++)
            input_gradient = input_gradient || graph_needs_gradient(graph, segment->in[i].id);
        for (int i = 0; i < segment->weight_count; i++)
            weight_gradient = weight_gradient || !graph->weights[segment->weight[i].id].frozen;
        double forward = (double)segment_flops(segment, PHASE_FORWARD, extents);
        flops += forward;
        bool attends = kernel_facts[segment->kernel].attends || kernel_facts[segment->kernel].scans;
        if (input_gradient) /* attention makes scores again, a scan its states: not work of the model */
            flops += attends ? 2 * forward : (double)segment_flops(segment, PHASE_BACKWARD_INPUT, extents);
        if (weight_gradient && !attends)
            flops += (double)segment_flops(segment, PHASE_BACKWARD_WEIGHT, extents);
    }
    return flops;
}

struct estimate *estimate_new(int stage_count)
{
    struct estimate *estimate = calloc(1, sizeof *estimate);
    if (!estimate)
        return NULL;
    struct prediction *p = &estimate->prediction;
    p->stage_count = stage_count;
    p->breakdown_count = TIME_KIND_COUNT;
    p->breakdown_names = time_kind_names;
    p->peak_bytes = arena_alloc(&estimate->arena, (size_t)stage_count, sizeof *p->peak_bytes);
    p->available_bytes = arena_alloc(&estimate->arena, (size_t)stage_count, sizeof *p->available_bytes);
    p->breakdown_ns = arena_alloc(&estimate->arena, TIME_KIND_COUNT, sizeof *p->breakdown_ns);
    p->host_bytes = arena_alloc(&estimate->arena, (size_t)stage_count, sizeof *p->host_bytes);
    if (!arena_failed(&estimate->arena))
        return estimate;
    estimate_free(estimate);
    return NULL;
}

int64_t estimate_peak_bytes(const struct prediction *p)
{
    int64_t peak = 0;
    for (int s = 0; s < p->stage_count; s++)
        peak = max_i64(peak, p->peak_bytes[s]);
    return peak;
}

void estimate_free(struct estimate *estimate)
{
    if (!estimate)
        return;
    arena_free(&estimate->arena);
    free(estimate);
}

/* Finds where the step's costs come from: without a profile all are analytic; with one, the first micro-batch already
 * has every kind of work that the step has. */
void estimate_find_origins(struct prediction *p, const struct program *program, const struct facts *facts)
{
    if (!facts->profile) {
        p->analytic = true;
        return;
    }
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            if (instr->micro > 0)
                continue;
            struct cost cost = cost_instr(facts, program, s, instr);
            if (cost.ns > 0) {
                p->analytic |= cost.origin == ORIGIN_ANALYTIC;
                p->measured |= cost.origin != ORIGIN_ANALYTIC;
                p->extrapolated |= cost.extrapolated;
            }
        }
}

/* Fills in what the report says of the step beside its time: of how many micro-batches it is; tokens of the batch,
 * model FLOPs over the dense peak of all devices. Processor cores have an assumed one, which they may exceed. */
void estimate_fill_rates(struct estimate *estimate, const struct graph *graph, const struct plan *plan,
                         const struct facts *facts)
{
    struct prediction *p = &estimate->prediction;
    double step_s = (double)p->step_ns / 1e9, peak = 0; /* of all devices */
    bool has_peak = true;
    for (int type = 0; type < facts->cluster->type_count; type++) {
        has_peak = has_peak && !facts->cluster->types[type].device.shared_host;
        peak += facts->cluster->types[type].device.matmul_flops_per_s[plan->dtype] *
                cluster_ranks_of(facts->cluster, type, 0, plan->rank_count);
    }
    p->micro_batches_simulated =
        estimate->micro_batches_simulated < plan->micro_batch_count ? estimate->micro_batches_simulated : 0;
    estimate->model_flops = estimate_model_flops(graph);
    if (p->step_ns <= 0)
        return;
    p->tokens_per_s_per_device = (double)graph->batch * (double)graph->sequence / step_s / plan->rank_count;
    if (has_peak && peak > 0)
        p->mfu = estimate->model_flops / step_s / peak;
}

int64_t estimate_stage_effort(int64_t instr_count)
{
    return instr_count + mul_div_i64(instr_count, instr_count, QUADRATIC, INT64_C(1) << 48);
}

/* Finds the stage that computes longest, and how long nothing runs there. */
static void find_idle(struct estimate *estimate, const struct program *program, const struct timeline *timeline)
{
    int64_t most_ns = -1, ns[TIME_KIND_COUNT];
    int busiest = 0;
    for (int r = 0; r < timeline->rank_count; r++) {
        const struct rank_timeline *rank = &timeline->ranks[r];
        int64_t busy_ns = 0;
        for (int i = 0; i < rank->span_count; i++)
            if (program->stages[rank->stage].instrs[i].lane == LANE_COMPUTE)
                busy_ns += rank->spans[i].finish_ns - rank->spans[i].start_ns;
        busiest = busy_ns > most_ns ? r : busiest;
        most_ns = max_i64(most_ns, busy_ns);
    }
    estimate->busiest = timeline->ranks[busiest].stage;
    timeline_breakdown(program, timeline, busiest, ns);
    estimate->apart_idle_ns = ns[TIME_BUBBLE];
}

/* Tells whether the program takes at least so long already before layout has made its bytes wait for each other, since
 * simulating is cheaper than layout. */
static bool is_beaten(struct estimate *estimate, const struct program *program, const struct durations *durations,
                      const struct judging *judging, int64_t worth_ns, struct error *err)
{
    struct timeline *timeline = NULL;
    if (worth_ns == INT64_MAX && !judging->shortened)
        return true;
    if (!simulate_with(&timeline, durations, program, err))
        return false;
    estimate->apart_ns = timeline->step_ns;
    estimate->beaten =
        timeline->step_ns + estimate_least_further_ns(program->plan, judging, timeline->step_ns) >= worth_ns;
    if (judging->shortened && (!estimate->beaten || worth_ns == 0))
        find_idle(estimate, program, timeline);
    timeline_free(timeline);
    return true;
}

void estimate_fill_step(struct estimate *estimate, const struct program *program, const struct timeline *timeline,
                        const struct facts *facts)
{
    estimate_find_origins(&estimate->prediction, program, facts);
    estimate->prediction.step_ns = timeline->step_ns;
    timeline_breakdown(program, timeline, timeline_last_rank(timeline), estimate->prediction.breakdown_ns);
}

void estimate_note_length(struct estimate *estimate, const struct program *program)
{
    estimate->effort = 0;
    for (int s = 0; s < program->stage_count; s++)
        estimate->effort += estimate_stage_effort(program->stages[s].instr_count);
    estimate->micro_batches_simulated = program->plan->micro_batch_count;
    estimate->program_instrs = program_instrs(program);
}

/* Simulates a program that is laid out. kept: gets the step that was simulated; NULL: nobody wants it. */
static bool measure(struct estimate *estimate, struct timeline **kept, const struct program *program,
                    const struct facts *facts, const struct durations *durations, const struct judging *judging,
                    struct error *err)
{
    struct timeline *timeline = NULL;
    if (!estimate_fill_memory(estimate, program, facts, judging, err))
        return false;
    if (!judging->always && !estimate->prediction.fits)
        return true;
    if (!simulate_with(&timeline, durations, program, err))
        return false;
    estimate_fill_step(estimate, program, timeline, facts);
    if (kept)
        *kept = timeline;
    else
        timeline_free(timeline);
    return true;
}

struct fitting {
    struct prediction *prediction;
    const struct facts *facts;
    const struct judging *judging;
};

static bool fits(void *self, const struct program *program)
{
    const struct fitting *f = self;
    estimate_fill_bytes(f->prediction, program, f->facts, f->judging);
    return f->prediction->fits;
}

/* Lays the program out, unless no offsets could make it fit and nobody asks for its time then. Offsets with which it
 * fits are good enough where it stands for more micro-batches, whose bytes are a promise in any case, and of a long one
 * in a search (llama-3-405b in 64 stages is planned in 1.8 s in place of 3.0). */
static bool lay_out_and_measure(struct estimate *estimate, struct program *program, const struct facts *facts,
                                const struct durations *durations, const struct judging *judging, struct error *err)
{
    struct fitting fitting = { &estimate->prediction, facts, judging };
    struct layout_ask ask = { .fits = judging->always ? NULL : fits, .self = &fitting };
    bool placed = false;
    for (int s = 0; s < program->stage_count; s++) /* else all orders of one such stage take a second */
        ask.brief = ask.brief || program->stages[s].instr_count > SETTLE_INSTRS;
    if (judging->shortened || (!judging->always && program_instrs(program) > FEW_INSTRS)) {
        int64_t *enough = arena_alloc(&estimate->arena, (size_t)program->stage_count, sizeof *enough);
        if (!enough)
            return fail_memory(err);
        for (int s = 0; s < program->stage_count; s++)
            enough[s] = estimate_enough_bytes(program, s, facts, judging);
        ask.enough_bytes = enough;
    }
    return lives_split(program, err) && layout_place_and_order(program, &ask, &placed, err) &&
           (!placed || measure(estimate, NULL, program, facts, durations, judging, err));
}

bool estimate_judge(struct estimate **out, const struct graph *graph, const struct plan *plan,
                    const struct facts *facts, const struct judging *judging, int64_t worth_ns, struct error *err)
{
    struct program *program = NULL;
    struct estimate *estimate = estimate_new(plan->stage_count);
    if (!estimate)
        return fail_memory(err);
    struct durations durations; /* layout changes none */
    bool lowered = lower_program(&program, graph, plan, err) && durations_open(&durations, facts, program, err);
    bool good = lowered && is_beaten(estimate, program, &durations, judging, worth_ns, err);
    if (good) {
        estimate_note_length(estimate, program);
        good = estimate->beaten || lay_out_and_measure(estimate, program, facts, &durations, judging, err);
    }
    if (lowered)
        durations_close(&durations);
    program_free(program);
    if (good)
        *out = estimate;
    else
        estimate_free(estimate);
    return good;
}

bool estimate_plan(struct estimate **out, const struct graph *graph, const struct plan *plan, const struct facts *facts,
                   struct error *err)
{
    if (!estimate_judge(out, graph, plan, facts, &(struct judging){ .always = true }, INT64_MAX, err))
        return false;
    estimate_fill_rates(*out, graph, plan, facts);
    return true;
}

bool estimate_timeline(struct estimate **out, struct timeline **timeline, const struct program *program,
                       const struct facts *facts, struct error *err)
{
    struct estimate *estimate = estimate_new(program->stage_count);
    if (!estimate)
        return fail_memory(err);
    estimate_note_length(estimate, program);
    struct durations durations;
    bool priced = durations_open(&durations, facts, program, err);
    bool good =
        priced && measure(estimate, timeline, program, facts, &durations, &(struct judging){ .always = true }, err);
    if (priced)
        durations_close(&durations);
    if (!good) {
        estimate_free(estimate);
        return false;
    }
    estimate_fill_rates(estimate, program->graph, program->plan, facts);
    *out = estimate;
    return true;
}
