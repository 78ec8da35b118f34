#include "formats/trace.h"
#include "base/json.h"
#include "planner/program/geometry.h"
#include <stdio.h>

static void begin_event(struct json_writer *w, const char *name, const char *kind, int rank)
{
    json_begin_object(w);
    json_put_string(w, "name", name);
    json_put_string(w, "ph", kind);
    json_put_int(w, "pid", rank);
}

/* Metadata events name processes and threads and fix their order (place, where there is no name). tid -1: of the
 * process. */
static void name_event(struct json_writer *w, const char *what, int rank, int tid, const char *name, int place)
{
    begin_event(w, what, "M", rank);
    if (tid >= 0) {
        json_put_int(w, "tid", tid);
    }
    json_write_key(w, "args");
    json_begin_object(w);
    json_write_key(w, name ? "name" : "sort_index");
    if (name)
        json_write_string(w, name);
    else
        json_write_int(w, place);
    json_end_object(w);
    json_end_object(w);
}

/* Threads: a lane's instructions, and what ran for them, which lies beneath. */
static int activity_tid(int lane)
{
    return LANE_COUNT + lane;
}

static void name_thread(struct json_writer *w, int rank, int tid, const char *name, int place)
{
    name_event(w, "thread_name", rank, tid, name, 0);
    name_event(w, "thread_sort_index", rank, tid, NULL, place);
}

static void name_activity(struct json_writer *w, const struct rank_timeline *rank, int lane)
{
    char name[64];
    bool used = false;
    for (int64_t i = 0; i < rank->activity.counts.count && !used; i++)
        used = rank->activity.list[i].lane == lane;
    snprintf(name, sizeof name, "%s kernels", lane == ACTIVITY_ELSEWHERE ? "other" : lane_names[lane]);
    if (used)
        name_thread(w, rank->rank, activity_tid(lane), name, 2 * lane + 1);
}

static void name_rank(struct json_writer *w, const struct stage_program *list, const struct rank_timeline *rank)
{
    char name[64];
    snprintf(name, sizeof name, "rank %d (stage %d)", rank->rank, rank->stage);
    name_event(w, "process_name", rank->rank, -1, name, 0);
    name_event(w, "process_sort_index", rank->rank, -1, NULL, rank->rank);
    for (int lane = 0; lane < ACTIVITY_LANE_COUNT; lane++) {
        bool used = false;
        for (int i = 0; i < rank->span_count && !used; i++)
            used = (int)list->instrs[i].lane == lane;
        if (used)
            name_thread(w, rank->rank, lane, lane_names[lane], 2 * lane);
        name_activity(w, rank, lane);
    }
}

static void event_name(char *out, size_t size, const struct graph *graph, const struct instr *instr)
{
    const char *layer = instr->layer >= 0 ? graph->layers[instr->layer].name : "";
    if (instr->op == OP_COMPUTE && instr->segment >= 0)
        snprintf(out, size, "%s%s.%s %s", instr->again ? "again " : "", layer, graph->segments[instr->segment].name,
                 phase_names[instr->phase]);
    else
        snprintf(out, size, "%s%s%s", op_info[instr->op].name, *layer ? " " : "", layer);
}

static void write_span(struct json_writer *w, const struct program *program, const struct rank_timeline *rank,
                       int index)
{
    const struct instr *instr = &program->stages[rank->stage].instrs[index];
    const struct span *span = &rank->spans[index];
    char name[256];
    event_name(name, sizeof name, program->graph, instr);
    begin_event(w, name, "X", rank->rank);
    json_put_int(w, "tid", (int64_t)instr->lane);
    json_put_string(w, "cat", op_info[instr->op].name);
    json_put_double(w, "ts", (double)span->start_ns / 1e3);
    json_put_double(w, "dur", (double)(span->finish_ns - span->start_ns) / 1e3);
    json_write_key(w, "args");
    json_begin_object(w);
    json_put_int(w, "instr", index);
    if (instr->micro >= 0)
        json_put_int(w, "micro_batch", instr->micro);
    if (instr->op == OP_COMPUTE)
        json_put_int(w, "round", instr->round);
    if (op_info[instr->op].collective || instr->op == OP_SEND)
        json_put_int(w, "wire_bytes", instr_wire_bytes(program, rank->stage, instr));
    if (instr->peer_stage >= 0)
        json_put_int(w, "peer_stage", instr->peer_stage);
    json_end_object(w);
    json_end_object(w);
}

static void write_activity(struct json_writer *w, const struct program *program, const struct rank_timeline *rank,
                           const struct activity *a)
{
    begin_event(w, a->name, "X", rank->rank);
    json_put_int(w, "tid", activity_tid(a->lane));
    json_put_string(w, "cat", activity_kind_names[a->kind]);
    json_put_double(w, "ts", (double)a->start_ns / 1e3);
    json_put_double(w, "dur", (double)(a->finish_ns - a->start_ns) / 1e3);
    if (a->instr >= 0) {
        char name[256];
        event_name(name, sizeof name, program->graph, &program->stages[rank->stage].instrs[a->instr]);
        json_write_key(w, "args");
        json_begin_object(w);
        json_put_int(w, "of_instr", a->instr);
        json_put_string(w, "of", name);
        json_end_object(w);
    }
    json_end_object(w);
}

char *trace_write(const struct program *program, const struct timeline *timeline, size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_object(&w);
    json_put_string(&w, "displayTimeUnit", "ns");
    json_write_key(&w, "otherData");
    json_begin_object(&w);
    json_put_string(&w, "model", program->graph->model_name);
    json_put_string(&w, "origin", timeline->origin == TIMELINE_SIMULATED ? "simulated" : "measured");
    json_put_int(&w, "step_ns", timeline->step_ns);
    json_end_object(&w);
    json_write_key(&w, "traceEvents");
    json_begin_array(&w);
    for (int i = 0; i < timeline->rank_count; i++) {
        const struct rank_timeline *rank = &timeline->ranks[i];
        name_rank(&w, &program->stages[rank->stage], rank);
        for (int k = 0; k < rank->span_count; k++)
            write_span(&w, program, rank, k);
        for (int64_t k = 0; k < rank->activity.counts.count; k++)
            write_activity(&w, program, rank, &rank->activity.list[k]);
    }
    json_end_array(&w);
    json_end_object(&w);
    return json_finish(&w, length);
}
