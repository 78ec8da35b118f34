#include "planner/bound/passes.h"

enum { DIRECTIONS = 2 };

static struct schedule_place place_on(const struct config *config, int stage)
{
    struct schedule_place place = schedule_place_even(config->stages, stage, config->micro_batch_count, config->extra);
    place.chunks = config_chunks(config);
    return place;
}

int64_t passes_count(const struct config *config)
{
    int64_t count = 0;
    for (int k = 0; k < config->stages; k++) {
        struct schedule_place place = place_on(config, k);
        count += schedules[config->schedule]->order(&place, NULL);
    }
    return count;
}

static bool list_stage(struct passes *p, const struct config *config, int stage, struct arena *arena)
{
    const struct schedule *schedule = schedules[config->schedule];
    struct schedule_place place = place_on(config, stage);
    int count = schedule->order(&place, NULL);
    struct action *actions = arena_alloc(arena, (size_t)count, sizeof *actions);
    if (!actions)
        return false;
    schedule->order(&place, actions);
    for (int i = 0; i < count; i++)
        p->pass[p->count + i] = (struct pass){
            .kind = actions[i].kind,
            .stage = stage,
            .piece = schedule_piece(schedule, config->stages, stage, actions[i].chunk) % p->pieces,
            .micro = actions[i].micro,
            .before = i > 0 ? p->count + i - 1 : -1,
            .from = -1,
        };
    p->count += count;
    p->first[stage + 1] = p->count;
    return true;
}

/* Who hands each pass its input. */
static bool join(struct passes *p, int micro_batches, struct arena *arena)
{
    int *maker = arena_alloc(arena, (size_t)p->pieces * (size_t)micro_batches, DIRECTIONS * sizeof *maker);
    for (int i = 0; maker && i < p->count; i++) {
        const struct pass *pass = &p->pass[i];
        if (pass->kind == ACTION_FORWARD || pass_is_input(pass))
            maker[(pass->piece * micro_batches + pass->micro) * DIRECTIONS + pass_is_input(pass)] = i;
    }
    for (int i = 0; maker && i < p->count; i++) {
        struct pass *pass = &p->pass[i];
        int piece = pass->piece + (pass_is_input(pass) ? 1 : -1);
        if (pass->kind != ACTION_BACKWARD_WEIGHT && piece >= 0 && piece < p->pieces)
            pass->from = maker[(piece * micro_batches + pass->micro) * DIRECTIONS + pass_is_input(pass)];
    }
    return maker != NULL;
}

static bool sort(struct passes *p, struct arena *arena)
{
    int *missing = arena_alloc(arena, (size_t)p->count, sizeof *missing), sorted = 0;
    int *reader = arena_alloc(arena, (size_t)p->count, sizeof *reader); /* 1 + who waits for its message */
    p->sorted = arena_alloc(arena, (size_t)p->count, sizeof *p->sorted);
    if (!missing || !reader || !p->sorted)
        return false;
    for (int i = 0; i < p->count; i++) {
        missing[i] = (p->pass[i].before >= 0) + (p->pass[i].from >= 0);
        if (p->pass[i].from >= 0)
            reader[p->pass[i].from] = i + 1;
        if (missing[i] == 0)
            p->sorted[sorted++] = i;
    }
    for (int k = 0; k < sorted; k++) {
        int i = p->sorted[k], next = i + 1;
        if (next < p->count && p->pass[next].before == i && --missing[next] == 0)
            p->sorted[sorted++] = next;
        if (reader[i] > 0 && --missing[reader[i] - 1] == 0)
            p->sorted[sorted++] = reader[i] - 1;
    }
    return sorted == p->count; /* else the order could not run */
}

bool passes_list(struct passes *out, const struct config *config, struct arena *arena)
{
    *out = (struct passes){ .stages = config->stages, .pieces = config_pieces(config) };
    out->first = arena_alloc(arena, (size_t)config->stages + 1, sizeof *out->first);
    out->pass = arena_alloc(arena, (size_t)passes_count(config), sizeof *out->pass);
    for (int k = 0; out->first && out->pass && k < config->stages; k++)
        if (!list_stage(out, config, k, arena))
            return false;
    return out->first && out->pass && join(out, config->micro_batch_count, arena) && sort(out, arena);
}
