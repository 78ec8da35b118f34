#include "profiler/harvest.h"
#include "planner/cost/cost.h"
#include "planner/program/geometry.h"
#include "profiler/fit.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const linear_works[] = { WORK_UPDATE, WORK_UPDATE_APART, "add", "copy", "load", "norm", "zero", NULL };

void harvest_free(struct harvest *harvest)
{
    samples_free(&harvest->compute);
    samples_free(&harvest->linear);
}

void harvest_work_name(const struct program *program, int stage, const struct instr *instr, char out[WORK_NAME_BYTES])
{
    const struct segment *segment = &program->graph->segments[instr->segment];
    int64_t low[MAX_AXES], high[MAX_AXES], extents[MAX_AXES] = { 0 };
    instr_range(program, stage, instr, 0, low, high);
    for (int i = 0; i < segment->axis_count; i++)
        extents[i] = high[i] - low[i];
    segment_work_name(segment, instr->phase, extents, out);
}

/* Of ranks with equal gradients only one adds; the others return at once, which is no time of the work. */
static bool works(const struct program *program, const struct rank_timeline *row, const struct instr *instr)
{
    int local_rank = row->rank - program->plan->stages[row->stage].first_rank;
    bool all = true;
    for (int i = 0; instr->op == OP_NORM && i < instr->pair_count; i++)
        all &= geometry_norm_counts(program, row->stage, &program->pairs[instr->pair_first + i], local_rank);
    return all;
}

/* One instruction may do several pairs; its time is that many fixed parts and the sum of the elements. */
static bool add_linear(struct harvest *harvest, const struct program *program, const struct instr *instr, double ns,
                       struct error *err)
{
    int64_t sum = 0;
    const char *work = "";
    for (int i = 0; i < instr->pair_count; i++) {
        int64_t elements, bytes;
        work = cost_local_work(program, instr, &program->pairs[instr->pair_first + i], &elements, &bytes);
        sum += elements;
    }
    char key[64];
    snprintf(key, sizeof key, "%s %d %" PRId64, work, instr->pair_count, sum);
    return *work == 0 || samples_add(&harvest->linear, key, ns, err);
}

static bool harvest_rank(struct harvest *harvest, const struct program *program, const struct rank_timeline *row,
                         struct error *err)
{
    const struct stage_program *list = &program->stages[row->stage];
    char name[WORK_NAME_BYTES];
    for (int i = 0; i < row->span_count; i++) {
        const struct span *span = &row->spans[i];
        const struct instr *instr = &list->instrs[i];
        double ns = (double)(span->finish_ns - span->start_ns);
        if (instr->op == OP_COMPUTE) {
            harvest_work_name(program, row->stage, instr, name);
            if (!samples_add(&harvest->compute, name, ns, err))
                return false;
        } else if (!op_info[instr->op].collective && instr->op != OP_SEND && instr->op != OP_RECEIVE &&
                   works(program, row, instr) && !add_linear(harvest, program, instr, ns, err)) {
            return false;
        }
    }
    return true;
}

bool harvest_timeline(struct harvest *harvest, const struct program *program, const struct timeline *timeline,
                      struct error *err)
{
    for (int r = 0; r < timeline->rank_count; r++)
        if (!harvest_rank(harvest, program, &timeline->ranks[r], err))
            return false;
    return true;
}

/* ---- linear work ---- */
/* Reads "<work> <pairs> <elements>"; false when it is other work. */
static bool read_key(const char *key, const char *work, double *pairs, double *elements)
{
    size_t length = strlen(work);
    if (strncmp(key, work, length) != 0 || key[length] != ' ')
        return false;
    char *end;
    *pairs = (double)strtoll(key + length + 1, &end, 10);
    *elements = (double)strtoll(end + 1, NULL, 10);
    return true;
}

double harvest_linear_reach(const struct samples *linear, const char *work)
{
    double reach = -1, pairs, elements;
    for (int i = 0; i < linear->count; i++)
        if (read_key(linear->series[i].name, work, &pairs, &elements) && elements > reach)
            reach = elements;
    return reach;
}

bool harvest_linear(struct linear_entry *out, struct samples *linear, const char *work, int loaded)
{
    struct fit_point *points = calloc((size_t)linear->count + 1, sizeof *points);
    double min = 0, max = 0;
    int count = 0;
    for (int i = 0; points && i < linear->count; i++) {
        struct fit_point *p = &points[count];
        if (!read_key(linear->series[i].name, work, &p->calls, &p->units))
            continue;
        p->ns = series_median(&linear->series[i]);
        double each = p->units / p->calls;
        min = count == 0 || each < min ? each : min;
        max = each > max ? each : max;
        count++;
    }
    struct fit_line line = { 0 };
    bool found = points && fit_line(&line, points, count);
    free(points);
    if (found)
        *out = (struct linear_entry){ .work = work,
                                      .loaded = loaded,
                                      .fixed_ns = line.fixed_ns,
                                      .ns_per_unit = line.ns_per_unit,
                                      .min_units = (int64_t)min,
                                      .max_units = (int64_t)max,
                                      .error = line.error,
                                      .origin = ORIGIN_FITTED };
    return found;
}
