#include "planner/search/several.h"
#include "planner/search/types.h"

static bool out_of_memory(const struct several *s)
{
    return fail_kind(s->err, ERROR_ENVIRONMENT, "search: out of memory for stages of several meshes");
}

static int first_mesh(const struct config *c, int before, int turn)
{
    return c->reversed ? c->meshes - before - c->turns[turn] : before;
}

/* Of a stage with so many meshes before it in the pipeline, made once for equal types: there at the first such place.
 * s->refused: there is none. */
static bool table_at(struct several *s, int before, int turn, const struct price_table **out)
{
    struct config stage = s->stage_config(s->config, turn);
    const struct price_table *from = NULL;
    int ranks = mesh_ranks(&s->config->mesh), first = first_mesh(s->config, before, turn);
    bool typed = s->bench->type_facts != NULL;
    unsigned types = typed ? cluster_types(s->bench->facts->cluster, first * ranks, s->config->turns[turn] * ranks) : 1;
    bool good = typed ? types_stage_table(s->bench, &stage, types, s->bound_only, &from, s->err)
                      : workbench_type_table(s->bench, &stage, 0, s->bound_only, &from, s->err);
    s->refused = s->refused || (good && !from);
    if (!good || s->refused)
        return good;
    for (int i = 0; i < s->made_count; i++)
        if (s->made[i].from == from && s->made[i].turn == turn) {
            *out = s->made[i].table;
            return true;
        }
    struct price_table *table = s->own_table(s, turn, first, from);
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
        if (turn >= 0 && s->made[i].turn != turn)
            continue;
        if (least)
            price_merge_tables(least, s->made[i].table, false);
        else if (!(least = price_copy_table(&s->bench->arena, s->made[i].table)))
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

/* Of such stages, where their meshes share each micro-batch. */
static struct mesh *list_meshes(struct several *s)
{
    struct mesh *mesh = arena_alloc(&s->bench->arena, (size_t)s->config->turn_count, sizeof *mesh);
    for (int turn = 0; mesh && turn < s->config->turn_count; turn++)
        mesh[turn] = s->stage_config(s->config, turn).mesh;
    return mesh;
}

bool several_table(struct several *s, const struct price_table **out)
{
    const struct config *c = s->config;
    struct arena *arena = &s->bench->arena;
    size_t places = (size_t)(c->meshes * c->turn_count);
    const struct price_table **by_place = arena_alloc(arena, places, sizeof *by_place),
                             **by_turns = arena_alloc(arena, (size_t)c->turn_count, sizeof *by_turns);
    struct mesh *mesh = list_meshes(s);
    s->made = arena_alloc(arena, places, sizeof *s->made);
    *out = NULL;
    if (!by_place || !by_turns || !s->made || !mesh)
        return out_of_memory(s);
    if (!make_tables(s, by_place) || s->refused)
        return s->refused;
    struct price_table *table = least_of(s, -1);
    for (int turn = 0; turn < c->turn_count; turn++)
        if (!(by_turns[turn] = s->bench->type_facts ? least_of(s, turn) : by_place[turn]))
            return out_of_memory(s);
    if (!table)
        return out_of_memory(s);
    table->turn_count = c->turn_count;
    table->turns = c->turns;
    table->by_turns = by_turns;
    table->by_place = s->bench->type_facts ? by_place : NULL;
    table->turn_mesh = c->spread ? mesh : NULL;
    table->mesh_ranks = mesh_ranks(&c->mesh);
    table->mesh_count = c->meshes;
    table->reversed = c->reversed;
    *out = table;
    return true;
}
