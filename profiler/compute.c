#include "profiler/compute.h"
#include "base/num.h"
#include "host/clock.h"
#include "planner/program/geometry.h"
#include "profiler/resident.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Enough is when the works that make SETTLED_SHARE of the time are known to SETTLED_ERROR. */
static const double SETTLED_SHARE = 0.95, SETTLED_ERROR = 0.02;
enum { WARM_UP_STEPS = 1, MIN_STEPS = 3, MAX_STEPS = 60, LEAST_STEPS = 2, MOST_WARM_UP_STEPS = 1000 };
static const int64_t WARM_UP_NS = 200000000;  /* of steps on a device: its first ones run at clocks that do not last */
static const double WARM_UP_PART = 0.25;      /* of the case's budget at most */
static const double FIRST_FLOPS_PER_S = 2e10; /* until a case has run */
static const double OVERRUN = 0.5;            /* of the budget, rather than to leave a configuration out */

struct running {
    struct compute_result *result;
    const struct program *program;
    struct harvest harvest; /* of this case */
    bool elsewhere;         /* arenas are not in this process's memory; crew_run_and_weigh() tells */
    int local_count, steps;
    int64_t start_ns, warm_ns; /* when the run began, when its warm-up was over */
    int64_t first_ns;          /* when its first step was over */
    int64_t end_ns;            /* the budget's */
    double step_s;             /* of the steps after the warm-up */
    struct error error;
};

/* The first step loads and chooses what later ones find. */
static bool warms_up(const struct running *r, int64_t step, int64_t now)
{
    int64_t part_ns = (int64_t)(WARM_UP_PART * (double)(r->end_ns - r->start_ns));
    return step <= WARM_UP_STEPS ||
           (r->elsewhere && step <= MOST_WARM_UP_STEPS && now - r->first_ns < min_i64(WARM_UP_NS, part_ns));
}

static bool on_timeline(void *context, int64_t step, const struct timeline *timeline)
{
    struct running *r = context;
    int64_t now = clock_now_ns();
    if (step <= WARM_UP_STEPS)
        r->first_ns = now;
    if (r->steps == 0 && warms_up(r, step, now)) {
        r->warm_ns = now;
        return true;
    }
    r->steps++;
    if (!harvest_timeline(&r->harvest, r->program, timeline, &r->error))
        return false;
    int64_t step_ns = (now - r->warm_ns) / r->steps;
    r->step_s = (double)step_ns / 1e9;
    int64_t outside = (resident_bytes() - r->local_count * r->program->stages[0].arena_bytes) / r->local_count;
    if (!r->elsewhere)
        r->result->outside.bytes = max_i64(r->result->outside.bytes, max_i64(0, outside));
    if (r->steps < LEAST_STEPS || (r->steps < MIN_STEPS && now + step_ns < r->end_ns))
        return true;
    return r->steps < MAX_STEPS && now + step_ns < r->end_ns &&
           !samples_settled(&r->harvest.compute, &r->result->harvest.compute, SETTLED_SHARE, SETTLED_ERROR);
}

/* Computations of the case that are in neither the existing profile nor the samples. */
static int unknown_count(const struct program *program, const struct profile *existing, int loaded,
                         const struct samples *samples)
{
    int count = 0;
    char name[WORK_NAME_BYTES];
    for (int i = 0; i < program->stages[0].instr_count; i++) {
        const struct instr *instr = &program->stages[0].instrs[i];
        if (instr->op != OP_COMPUTE)
            continue;
        harvest_work_name(program, 0, instr, name);
        count += !samples_peek(samples, name) && !(existing && profile_compute(existing, name, loaded));
    }
    return count;
}

static double step_flops(const struct program *program)
{
    double sum = 0;
    for (int i = 0; i < program->stages[0].instr_count; i++) {
        const struct instr *instr = &program->stages[0].instrs[i];
        if (instr->op != OP_COMPUTE)
            continue;
        const struct segment *segment = &program->graph->segments[instr->segment];
        int64_t low[MAX_AXES], high[MAX_AXES], extents[MAX_AXES] = { 0 };
        instr_range(program, 0, instr, 0, low, high);
        for (int a = 0; a < segment->axis_count; a++)
            extents[a] = high[a] - low[a];
        sum += (double)segment_flops(segment, instr->phase, extents);
    }
    return sum;
}

/* ---- all cases ---- */
struct measuring {
    const struct crew *crew;
    const struct compute_options *o;
    struct compute_result *result;
    struct model shortened;
    struct data data;
    struct compute_case *cases;
    int case_count;
    int64_t end_ns;
    double flops_per_s, ran_flops, ran_s;
    double left_flops; /* of one step of every case that is still to come, this one included */
};

/* What the leader says of a case. */
struct verdict {
    bool needed, fits;
    int64_t budget_ns;
};

/* What only the case with versions of the weights shows. */
static bool shows_update(const struct measuring *m, const struct compute_case *c)
{
    return c->schedule > 0 && harvest_linear_reach(&m->result->harvest.linear, WORK_UPDATE_APART) < 0 &&
           !(m->o->existing && profile_linear(m->o->existing, WORK_UPDATE_APART, m->crew->rank_count));
}

/* Time is divided by work, so that every case has about as many steps; each has at least the warm-up and LEAST_STEPS.
 */
static struct verdict judge(const struct measuring *m, const struct compute_case *c, const struct program *program)
{
    struct verdict v = { .fits = true };
    v.needed = unknown_count(program, m->o->existing, m->crew->rank_count, &m->result->harvest.compute) > 0 ||
               shows_update(m, c);
    double left_s = (double)(m->end_ns - clock_now_ns()) / 1e9;
    double share_s = fmax(0, left_s) * c->flops / fmax(m->left_flops, 1);
    double step_s = c->flops / m->flops_per_s;
    int64_t arenas = program->stages[0].arena_bytes * m->crew->local_count;
    v.fits = (m->o->memory_limit_bytes == 0 || arenas <= m->o->memory_limit_bytes) &&
             (c->micro == 1 || step_s * (WARM_UP_STEPS + LEAST_STEPS) <= left_s + OVERRUN * m->o->budget_s);
    v.budget_ns = (int64_t)(share_s * 1e9);
    return v;
}

static bool run_case(struct measuring *m, const struct compute_case *c, const struct program *program,
                     int64_t budget_ns, struct error *err)
{
    int64_t now = clock_now_ns();
    struct running running = { .result = m->result,
                               .program = program,
                               .elsewhere = m->crew->device != NULL,
                               .local_count = m->crew->local_count,
                               .start_ns = now,
                               .end_ns = now + budget_ns };
    bool ok = crew_run_and_weigh(m->crew, program, &m->data, MAX_STEPS + MOST_WARM_UP_STEPS, on_timeline, &running,
                                 &m->result->outside, err);
    if (ok && running.error.kind)
        ok = fail_kind(err, running.error.kind, "%s", running.error.message);
    ok = ok && samples_merge(&m->result->harvest.compute, &running.harvest.compute, err) &&
         samples_merge(&m->result->harvest.linear, &running.harvest.linear, err);
    harvest_free(&running.harvest);
    m->ran_flops += c->flops * running.steps;
    m->ran_s += running.step_s * running.steps;
    if (m->ran_s > 0 && m->ran_flops > 0)
        m->flops_per_s = m->ran_flops / m->ran_s;
    m->result->run_count++;
    return ok;
}

static bool measure_case(struct measuring *m, int index, struct error *err)
{
    const struct compute_case *c = &m->cases[index];
    struct case_program made;
    if (!case_open(&made, &m->shortened, m->o->sequence, m->crew->rank_count, m->crew->dtype, c, err))
        return false;
    struct verdict v = judge(m, c, made.program);
    char what[96];
    snprintf(what, sizeof what, "compute: %lld x %lld tokens, %s %d", (long long)c->micro, (long long)m->o->sequence,
             dimensions[c->dimension]->name, c->tensor);
    if (m->o->on_progress)
        m->o->on_progress(m->o->context, what, index, m->case_count);
    bool ok = crew_agree(m->crew, &v, sizeof v, err);
    if (ok && !v.needed) {
        m->result->known_count++;
    } else if (ok && !v.fits) {
        m->result->dropped_count++;
        if (m->result->dropped_micro == 0 || c->micro < m->result->dropped_micro)
            m->result->dropped_micro = c->micro;
    } else if (ok) {
        ok = run_case(m, c, made.program, v.budget_ns, err);
    }
    m->left_flops -= c->flops;
    case_close(&made);
    return ok;
}

/* The configurations, and data that all of them run on. */
static bool list_cases(struct measuring *m, struct error *err)
{
    struct graph *graph;
    if (!graph_build(&graph, &m->shortened, 1, m->o->sequence, 1, err))
        return false;
    bool ok = compute_cases(&m->cases, &m->case_count, graph, m->crew->rank_count, m->o->batch, m->o->dims, err) &&
              data_synthetic(&m->data, sample_shape_of(graph), 1, err);
    graph_free(graph);
    return ok;
}

static void drop_case(struct measuring *m, int index)
{
    memmove(&m->cases[index], &m->cases[index + 1], (size_t)(--m->case_count - index) * sizeof *m->cases);
}

/* Work grows with the micro-batch: where one cannot be counted, none of the larger ones can. */
static bool weigh_cases(struct measuring *m, struct error *err)
{
    for (int i = 0; i < m->case_count; i++) {
        struct case_program made;
        struct error error = { 0 };
        bool versions = m->cases[i].schedule > 0; /* which GPUs do not keep, and some models do not know */
        bool opened =
            !(versions && m->crew->device) &&
            case_open(&made, &m->shortened, m->o->sequence, m->crew->rank_count, m->crew->dtype, &m->cases[i], &error);
        if (!opened && versions) {
            drop_case(m, i--);
            continue;
        }
        if (!opened) {
            if (m->cases[i].micro == 1)
                return fail_kind(err, error.kind, "%s", error.message);
            m->result->dropped_count = m->case_count - i;
            m->result->dropped_micro = m->cases[i].micro;
            m->case_count = i;
            return true;
        }
        m->cases[i].flops = step_flops(made.program);
        m->left_flops += m->cases[i].flops;
        case_close(&made);
    }
    return true;
}

/* So many that a step passes over twice what the processor's caches hold: then a layer's weights come from memory, as
 * in training the whole model. A fraction of the memory allowed at most. */
static int64_t least_parameters(const struct measuring *m)
{
    enum { PART = 4 };
    enum dtype dtype = m->crew->dtype;
    int64_t each =
        weight_bytes_per_element(dtype) + gradient_bytes_per_element(dtype) + optimizer_bytes_per_element(&(struct optimizer){ 0 }, dtype, NULL);
    int64_t bytes = m->crew->device ? 0 : 2 * crew_cache_bytes(m->crew), limit = m->o->memory_limit_bytes;
    if (limit > 0)
        bytes = min_i64(bytes, limit / PART / m->crew->local_count);
    return bytes / each;
}

static bool shorten(struct measuring *m, struct error *err)
{
    int64_t least = least_parameters(m);
    return crew_agree(m->crew, &least, sizeof least, err) && model_shorten(&m->shortened, m->o->model, least, err);
}

bool compute_measure(struct compute_result *out, const struct crew *crew, const struct compute_options *options,
                     struct error *err)
{
    struct compute_result result = { .outside.bytes = -1 };
    struct measuring m = { .crew = crew,
                           .o = options,
                           .result = &result,
                           .flops_per_s = FIRST_FLOPS_PER_S,
                           .end_ns = clock_now_ns() + (int64_t)(options->budget_s * 1e9) };
    bool ok = shorten(&m, err) && list_cases(&m, err) && weigh_cases(&m, err);
    for (int i = 0; ok && i < m.case_count; i++)
        ok = measure_case(&m, i, err);
    free(m.cases);
    data_free(&m.data);
    arena_free(&m.shortened.arena);
    if (ok)
        *out = result;
    else
        harvest_free(&result.harvest);
    return ok;
}
