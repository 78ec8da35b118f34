#include "planner/program/clock.h"
#include "base/num.h"
#include "models/graph.h"
#include <string.h>

struct action *clock_actions(const struct plan *plan, int stage, int *count, struct arena *arena)
{
    const struct schedule *schedule = schedules[plan->schedule];
    struct schedule_place place = schedule_place_of(plan, stage);
    int turn = plan->stages[stage].turn, turns = plan_stage_turns(plan, stage);
    *count = schedule->order(&place, NULL);
    struct action *actions = arena_alloc(arena, (size_t)*count, sizeof *actions);
    if (!actions)
        return NULL;
    schedule->order(&place, actions);
    for (int i = 0; i < *count; i++)
        actions[i].micro = actions[i].micro * turns + turn;
    return actions;
}

static int64_t *entry(const struct clock *clock, const struct plan *plan, int piece, int micro, bool backward)
{
    return &(backward ? clock->backward_end
                      : clock->forward_end)[(size_t)piece * (size_t)plan->micro_batch_count + (size_t)micro];
}

static int piece_of(const struct clock *clock, const struct plan *plan, int stage, int chunk)
{
    return schedule_piece(schedules[plan->schedule], clock->positions, clock->position[stage], chunk);
}

int64_t clock_end(const struct clock *clock, const struct plan *plan, int stage, int chunk, int micro, bool backward)
{
    return *entry(clock, plan, piece_of(clock, plan, stage, chunk), micro, backward);
}

static double layer_flops(const struct graph *graph, int layer)
{
    const struct graph_layer *own = &graph->layers[layer];
    double flops = 0;
    for (int s = own->first_segment; s < own->first_segment + own->segment_count; s++) {
        int64_t extents[MAX_AXES] = { 0 };
        for (int i = 0; i < graph->segments[s].axis_count; i++)
            extents[i] = graph->segments[s].axes[i].size;
        flops += (double)segment_flops(&graph->segments[s], PHASE_FORWARD, extents);
    }
    return flops;
}

int *clock_work(const struct graph *graph, const int *order, struct arena *arena)
{
    enum { HUNDRED = 100 };
    double sum = 0;
    int count = graph->layer_count, *work = arena_alloc(arena, (size_t)count, sizeof *work);
    for (int l = 0; l < count; l++)
        sum += layer_flops(graph, l);
    for (int l = 0; work && l < count && sum > 0; l++)
        work[l] = (int)(HUNDRED * layer_flops(graph, order ? order[l] : l) * count / sum);
    return work;
}

static int64_t duration(const struct plan *plan, const struct chunk_clock *chunk, const struct action *action)
{
    return action->kind == ACTION_BACKWARD && !schedules[plan->schedule]->equal_passes ? 2 * chunk->work : chunk->work;
}

/* Gives when what the action reads is there: 0 without a neighbour before it, -1 not yet. */
static int64_t ready(const struct clock *clock, const struct plan *plan, const struct chunk_clock *chunk,
                     const struct action *action)
{
    if (action->kind == ACTION_FORWARD)
        return chunk->first ? 0 : *entry(clock, plan, chunk->piece - 1, action->micro, false);
    if (action->kind == ACTION_BACKWARD_WEIGHT || chunk->last)
        return 0;
    return *entry(clock, plan, chunk->piece + 1, action->micro, true);
}

bool clock_pairs(const struct plan *plan, const struct action *forward, const struct action *backward)
{
    const struct schedule *schedule = schedules[plan->schedule];
    return plan->extra_in_flight > 0 && !schedule->splits && !schedule->asynchronous && plan_copies(plan) == 1 &&
           (plan->stage_count == 1 || plan->chunk_count > 1) && forward->kind == ACTION_FORWARD &&
           backward->kind == ACTION_BACKWARD && forward->micro != backward->micro;
}

/* Both begin once both can and end together; that the forward pass does so a little earlier keeps the order of what
 * they send. */
static bool advance_both(const struct clock *clock, const struct plan *plan, const struct stage_clock *s, int *next)
{
    const struct action *forward = &s->actions[*next], *backward = forward + 1;
    const struct chunk_clock *first = &s->chunks[forward->chunk], *second = &s->chunks[backward->chunk];
    int64_t from = ready(clock, plan, first, forward), other = ready(clock, plan, second, backward);
    if (from < 0 || other < 0)
        return false;
    int64_t begin = max_i64(max_i64(from, other), *next > 0 ? s->end[*next - 1] : 0),
            end = begin + duration(plan, first, forward) + duration(plan, second, backward);
    s->end[*next] = s->end[*next + 1] = end;
    *entry(clock, plan, first->piece, forward->micro, false) = end - 1;
    *entry(clock, plan, second->piece, backward->micro, true) = end;
    ++*next;
    return true;
}

/* Advances as far as the stage comes; true when it moved. */
static bool advance(const struct clock *clock, const struct plan *plan, bool together, int stage, int *next)
{
    const struct stage_clock *s = &clock->stages[stage];
    int start = *next;
    for (; *next < s->count; ++*next) {
        if (together && *next + 1 < s->count && clock_pairs(plan, &s->actions[*next], &s->actions[*next + 1])) {
            if (!advance_both(clock, plan, s, next))
                break;
            continue;
        }
        const struct action *action = &s->actions[*next];
        const struct chunk_clock *chunk = &s->chunks[action->chunk];
        int64_t from = ready(clock, plan, chunk, action), before = *next > 0 ? s->end[*next - 1] : 0;
        if (from < 0)
            break;
        s->end[*next] = max_i64(from, before) + duration(plan, chunk, action);
        if (action->kind != ACTION_BACKWARD_WEIGHT)
            *entry(clock, plan, chunk->piece, action->micro, action->kind != ACTION_FORWARD) = s->end[*next];
    }
    return *next > start;
}

static bool open_chunks(struct clock *clock, const struct plan *plan, const int *work, int stage, struct arena *arena)
{
    const struct schedule *schedule = schedules[plan->schedule];
    struct stage_clock *s = &clock->stages[stage];
    int pieces = schedule_pieces(schedule, clock->positions, plan->chunk_count);
    s->chunks = arena_alloc(arena, (size_t)plan->chunk_count, sizeof *s->chunks);
    for (int c = 0; s->chunks && c < plan->chunk_count; c++) {
        int piece = piece_of(clock, plan, stage, c);
        struct layer_range layers = plan_stage_chunk(plan, stage, c);
        struct chunk_clock chunk = { piece, piece % pieces == 0, piece % pieces == pieces - 1, 1 };
        for (int l = layers.first; plan->clock == CLOCK_WORK && l < layers.first + layers.count; l++)
            chunk.work += work[l];
        s->chunks[c] = chunk;
    }
    return s->chunks != NULL;
}

static bool open_clock(struct clock *clock, const struct plan *plan, const int *work, struct arena *arena)
{
    size_t stages = (size_t)plan->stage_count;
    clock->stages = arena_alloc(arena, stages, sizeof *clock->stages);
    clock->position = arena_alloc(arena, stages, sizeof *clock->position);
    for (int s = 0; clock->stages && clock->position && s < plan->stage_count; s++) {
        struct stage_clock *stage = &clock->stages[s];
        clock->positions += plan->stages[s].turn == 0;
        clock->position[s] = clock->positions - 1;
        stage->actions = clock_actions(plan, s, &stage->count, arena);
        stage->end = arena_alloc(arena, (size_t)stage->count, sizeof *stage->end);
        if (!stage->actions || !stage->end)
            return false;
    }
    for (int s = 0; clock->stages && clock->position && s < plan->stage_count; s++)
        if (!open_chunks(clock, plan, work, s, arena))
            return false;
    size_t entries = (size_t)clock->positions * (size_t)plan->chunk_count * (size_t)plan->micro_batch_count;
    clock->forward_end = arena_alloc(arena, entries, sizeof *clock->forward_end);
    clock->backward_end = arena_alloc(arena, entries, sizeof *clock->backward_end);
    if (!clock->stages || !clock->position || !clock->forward_end || !clock->backward_end)
        return false;
    memset(clock->forward_end, -1, entries * sizeof *clock->forward_end);
    memset(clock->backward_end, -1, entries * sizeof *clock->backward_end);
    return true;
}

bool clock_run(struct clock *out, const struct plan *plan, bool together, const int *work, struct arena *arena,
               struct error *err)
{
    struct clock clock = { 0 };
    int *next = arena_alloc(arena, (size_t)plan->stage_count, sizeof *next);
    if (!next || !open_clock(&clock, plan, work, arena))
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for the schedule of %d stages", plan->stage_count);
    for (bool moved = true; moved;) {
        moved = false;
        for (int s = 0; s < plan->stage_count; s++)
            moved |= advance(&clock, plan, together, s, &next[s]);
        for (int s = plan->stage_count - 1; s >= 0; s--)
            moved |= advance(&clock, plan, together, s, &next[s]);
    }
    for (int s = 0; s < plan->stage_count; s++)
        if (next[s] < clock.stages[s].count)
            return fail_kind(err, ERROR_BUG, "schedule %s: stage %d waits for ever at its action %d",
                             schedules[plan->schedule]->name, s, next[s]);
    *out = clock;
    return true;
}

bool clock_stretch(double *out, const struct clock_shape *shape, struct error *err)
{
    enum { FILLS = 3 };
    const struct schedule *schedule = schedules[shape->schedule];
    int few = (int)round_up((int64_t)FILLS * shape->stages * shape->chunks, schedule_unit(schedule, shape->stages));
    struct arena arena = { 0 };
    struct clock clock = { 0 };
    struct plan plan = { .schedule = shape->schedule,
                         .stage_count = shape->stages,
                         .chunk_count = shape->chunks,
                         .micro_batch_count = (int)min_i64(shape->micro_batches, few),
                         .extra_in_flight = shape->extra_in_flight };
    plan.stages = arena_alloc(&arena, (size_t)plan.stage_count, sizeof *plan.stages);
    plan.later_chunks =
        arena_alloc(&arena, (size_t)plan.stage_count * (size_t)plan.chunk_count, sizeof *plan.later_chunks);
    bool good =
        plan.stages && plan.later_chunks ? clock_run(&clock, &plan, false, NULL, &arena, err) : fail_memory(err);
    if (good) {
        int64_t end = 0, busy = 0; /* the last stage's end, and what the stage with the most to do works */
        for (int s = 0; s < plan.stage_count; s++) {
            const struct stage_clock *stage = &clock.stages[s];
            int64_t own = 0;
            for (int i = 0; i < stage->count; i++)
                own += duration(&plan, &stage->chunks[stage->actions[i].chunk], &stage->actions[i]);
            busy = max_i64(busy, own);
            end = max_i64(end, stage->count > 0 ? stage->end[stage->count - 1] : 0);
        }
        double all = (double)busy * shape->micro_batches / plan.micro_batch_count;
        *out = (all + (double)(end - busy)) / all;
    }
    arena_free(&arena);
    return good;
}

bool clock_posts_early(const struct plan *plan)
{
    bool turns = false;
    for (int s = 0; s < plan->stage_count; s++)
        turns |= plan->stages[s].turn > 0;
    return turns || plan->chunk_count > 1 || schedules[plan->schedule]->splits;
}

bool clock_posts_skips(const struct plan *plan)
{
    return !schedules[plan->schedule]->asynchronous && !schedules[plan->schedule]->phases;
}

int clock_compare_messages(const struct clock_message *a, const struct clock_message *b)
{
    if (a->time != b->time)
        return a->time < b->time ? -1 : 1;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return (a->rank > b->rank) - (a->rank < b->rank);
}
