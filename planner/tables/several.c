#include "planner/tables/several.h"
#include "planner/tables/types.h"

static bool out_of_memory(const struct several *s)
{
    return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory for stages of several meshes");
}

/* Meshes that take turns stay what they are; those that share micro-batches act as one. */
static struct config stage_config(const struct config *config, int turn)
{
    return config->spread ? config_of_spread(config, turn) : *config;
}

static struct several_place place_at(const struct several *s, int before, int turn)
{
    const struct config *c = s->config;
    int ranks = mesh_ranks(&c->mesh), first = config_rank_at(c, before, c->turns[turn]);
    bool typed = s->bench->type_facts != NULL;
    return (struct several_place){ turn, first / ranks,
                                   typed ? cluster_types(s->bench->facts->cluster, first, c->turns[turn] * ranks) : 1 };
}

/* Of a stage with so many meshes before it in the pipeline, made once for equal types: there at the first such place.
 * s->refused: there is none. */
static bool table_at(struct several *s, int before, int turn, const struct price_table **out)
{
    struct config stage = stage_config(s->config, turn);
    struct several_place place = place_at(s, before, turn);
    const struct price_table *from = NULL;
    bool good = types_stage_table(s->bench, &stage, place.types, s->bound_only, &from, s->err);
    s->refused = s->refused || (good && !from);
    if (!good || s->refused)
        return good;
    for (int i = 0; i < s->made_count; i++)
        if (s->made[i].from == from && s->made[i].turn == turn) {
            *out = s->made[i].table;
            return true;
        }
    struct price_table *table = s->own_table(s, &place, from);
    if (!table)
        return s->refused || out_of_memory(s);
    s->made[s->made_count++] = (struct made){ from, table, turn };
    *out = table;
    return true;
}

/* Every number the least of those made for a turn, or for any (-1), with the strategies of the mesh that shards most.
 * NULL: out of memory. */
static struct price_table *least_of(struct several *s, int turn)
{
    struct price_table *least = NULL;
    for (int i = 0; i < s->made_count; i++) {
        bool counts = turn < 0 || s->made[i].turn == turn;
        if (counts && !price_join_table(&least, &s->bench->arena, s->made[i].table, false))
            return NULL;
    }
    if (least && turn < 0 && s->widest)
        least->strategies = s->widest->strategies;
    return least;
}

/* By place, in the order of turns. */
static bool make_tables(struct several *s, const struct price_table **by_place)
{
    const struct config *c = s->config;
    int places = s->bench->type_facts ? c->meshes : 1;
    for (int turn = 0; turn < c->turn_count; turn++)
        for (int before = 0; before < places && before + c->turns[turn] <= c->meshes && !s->refused; before++)
            if (!table_at(s, before, turn, &by_place[before * c->turn_count + turn]))
                return false;
    return true;
}

/* What those become that share micro-batches, by turn. false: out of memory. */
static bool list_meshes(const struct several *s, struct price_table *table)
{
    const struct config *c = s->config;
    struct mesh *mesh = c->spread ? arena_alloc(&s->bench->arena, (size_t)c->turn_count, sizeof *mesh) : NULL;
    for (int turn = 0; mesh && turn < c->turn_count; turn++)
        mesh[turn] = stage_config(c, turn).mesh;
    table->turn_mesh = mesh;
    return mesh || !c->spread;
}

bool several_table(struct several *s, const struct price_table **out)
{
    const struct config *c = s->config;
    struct arena *arena = &s->bench->arena;
    size_t places = (size_t)(c->meshes * c->turn_count);
    const struct price_table **by_place = arena_alloc(arena, places, sizeof *by_place),
                             **by_turns = arena_alloc(arena, (size_t)c->turn_count, sizeof *by_turns);
    s->made = arena_alloc(arena, places, sizeof *s->made);
    *out = NULL;
    if (!by_place || !by_turns || !s->made)
        return out_of_memory(s);
    if (!make_tables(s, by_place) || s->refused)
        return s->refused;
    struct price_table *table = least_of(s, -1);
    for (int turn = 0; turn < c->turn_count; turn++)
        if (!(by_turns[turn] = s->bench->type_facts ? least_of(s, turn) : by_place[turn]))
            return out_of_memory(s);
    if (!table || !list_meshes(s, table))
        return out_of_memory(s);
    table->turn_count = c->turn_count;
    table->turns = c->turns;
    table->by_turns = by_turns;
    table->by_place = s->bench->type_facts ? by_place : NULL;
    table->mesh_ranks = mesh_ranks(&c->mesh);
    table->mesh_count = c->meshes;
    table->reversed = c->order.index == REVERSED_ORDER;
    *out = table;
    return true;
}
