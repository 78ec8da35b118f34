/* At the end of a step each replica sends its gradients to all others of its stage and gets theirs, part by part
 * (planner/lower/lower_step.c). Such a message costs what it does where the stage begins at rank 0, and on a cluster
 * of several types at the first place that has the stage's: by how many of the other replicas lie within a node, and
 * how many without. The sums that replicas then make are left to the judge. Micro-batches go round, so that a stage on
 * several types waits for the slowest. */
#include "planner/tables/turns.h"
#include "base/num.h"
#include "planner/plan/plan.h"
#include "planner/tables/types.h"

/* ---- the exchange ---- */

/* Messages over one level of links, which are all alike. */
struct turns_reach {
    int peer, count;
};

/* Lists at which levels the first replica reaches the others; returns how many levels these are. */
static int list_reaches(const struct cluster *cluster, const struct plan *plan, struct turns_reach out[MAX_LEVELS])
{
    int count = 0, last = -1;
    for (int peer = 1; peer < plan->stage_count; peer++) {
        int level = cluster_level(cluster, plan->stages[0].first_rank, plan->stages[peer].first_rank);
        if (level != last)
            out[count++] = (struct turns_reach){ .peer = peer };
        out[count - 1].count++;
        last = level;
    }
    return count;
}

/* ---- tables ---- */

/* The table of a configuration in the making. */
struct turns_making {
    struct workbench *bench;
    const struct config *config;
    bool refused;
    int made_count;
    struct made {
        const struct price_table *from, *table;
        int shape;
    } * made; /* (meshes * shape_count) */
    struct error *err;
};

/* Makes the table of a stage with so many meshes before it in the pipeline, once for equal types: at the first such
 * place. m->refused: lowering refused it. */
static bool table_at(struct turns_making *m, int before, int shape, const struct price_table **out)
{
    struct workbench *bench = m->bench;
    const struct config *c = m->config;
    int ranks = mesh_ranks(&c->mesh), replicas = c->turns[shape], first = config_rank_at(c, before, replicas);
    bool typed = bench->type_facts != NULL;
    unsigned types = typed ? cluster_types(bench->facts->cluster, first, replicas * ranks) : 1;
    const struct price_table *from = NULL;
    bool good = types_stage_table(bench, c, types, false, &from, m->err);
    m->refused = m->refused || (good && !from);
    if (!good || m->refused)
        return good;
    for (int i = 0; i < m->made_count; i++)
        if (m->made[i].from == from && m->made[i].shape == shape) {
            *out = m->made[i].table;
            return true;
        }
    struct price_table *table = price_copy_table(&bench->arena, from);
    struct plan *plan = plan_new(replicas, 1);
    if (!table || !plan) {
        plan_free(plan);
        return fail_memory(m->err);
    }
    mesh_set_stages(&c->mesh, typed ? first / ranks : 0, plan);
    struct turns_reach reach[MAX_LEVELS];
    int reaches = list_reaches(bench->facts->cluster, plan, reach);
    for (int i = 0; i < table->class_count * table->strategy_count; i++) {
        struct layer_price *price = &table->prices[i];
        for (int r = 0; r < reaches && price->exchange_parts > 0; r++) {
            int64_t each = ceil_div(price->exchange_bytes, price->exchange_parts),
                    ns = cost_between_stages(bench->facts, plan, 0, reach[r].peer, each).ns;
            price->step_ns += reach[r].count * price->exchange_parts * ns;
        }
    }
    plan_free(plan);
    m->made[m->made_count++] = (struct made){ from, table, shape };
    *out = table;
    return true;
}

/* Gives a table of which every number is the least of those for a shape, or for any (-1). NULL when out of memory. */
static struct price_table *least_of(struct turns_making *m, int shape)
{
    struct price_table *least = NULL;
    for (int i = 0; i < m->made_count; i++) {
        bool counts = shape < 0 || m->made[i].shape == shape;
        if (counts && !price_join_table(&least, &m->bench->arena, m->made[i].table, false))
            return NULL;
    }
    return least;
}

/* Makes the table, of which every number is the least of all that stages may have; with by_turns, and by_place on
 * several types. *out is NULL where lowering refuses it. */
static bool make(struct turns_making *m, const struct price_table **out)
{
    const struct config *c = m->config;
    struct arena *arena = &m->bench->arena;
    bool typed = m->bench->type_facts != NULL;
    size_t places = (size_t)(c->meshes * c->shape_count);
    const struct price_table **by_place = arena_alloc(arena, places, sizeof *by_place),
                             **by_turns = arena_alloc(arena, (size_t)c->shape_count, sizeof *by_turns);
    m->made = arena_alloc(arena, places, sizeof *m->made);
    *out = NULL;
    if (arena_failed(arena))
        return fail_memory(m->err);
    for (int shape = 0; shape < c->shape_count; shape++)
        for (int before = 0; before < (typed ? c->meshes : 1) && before + c->turns[shape] <= c->meshes && !m->refused;
             before++)
            if (!table_at(m, before, shape, &by_place[before * c->shape_count + shape]))
                return false;
    if (m->refused)
        return true;
    struct price_table *table = least_of(m, -1);
    for (int shape = 0; shape < c->shape_count; shape++)
        if (!(by_turns[shape] = typed ? least_of(m, shape) : by_place[shape]))
            return fail_memory(m->err);
    if (!table)
        return fail_memory(m->err);
    table->shape_count = c->shape_count;
    table->turns = c->turns;
    table->by_turns = by_turns;
    table->by_place = typed ? by_place : NULL;
    table->mesh_ranks = mesh_ranks(&c->mesh);
    table->mesh_count = c->meshes;
    table->reversed = c->order.index == REVERSED_ORDER;
    *out = table;
    return true;
}

bool turns_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                 struct error *err)
{
    const struct price_table *from = NULL;
    *out = NULL;
    if (bound_only)
        return bench->type_facts ? types_least_table(bench, config, out, err)
                                 : workbench_type_table(bench, config, 0, 0, true, out, err);
    if (!workbench_type_table(bench, config, 0, 0, false, &from, err))
        return false;
    if (!from)
        return true;
    /* Prices of one mesh on the first type have the micro-batch in them, and with it the numbers of replicas. */
    const int64_t key[] = { MADE_TURNS, (intptr_t)from, config->order.index };
    bool known;
    const struct price_table **made = memo_place(&bench->made, key, sizeof key / sizeof *key, sizeof *made, &known);
    if (!made)
        return fail_memory(err);
    struct turns_making making = { .bench = bench, .config = config, .err = err };
    if (!known && !make(&making, made))
        return false;
    *out = *made;
    return true;
}

/* ---- in flight ---- */

int *turns_in_flight(struct arena *arena, const struct config *config)
{
    const struct schedule *schedule = schedules[config->schedule];
    int count = config->shape_count,
        *in_flight = arena_alloc(arena, ((size_t)config->meshes + 1) * (size_t)count, sizeof *in_flight);
    for (int i = 0; in_flight && i < count; i++)
        for (int left = 1; left <= config->meshes; left++) {
            struct schedule_place place = {
                .chunks = 1,
                .micro_count = micro_batches_in_turn(config->micro_batch_count, config->turns[i]),
                .ahead = (int)ceil_div(left, config->turns[i]),
            };
            if (schedule->in_flight)
                in_flight[left * count + i] = schedule->in_flight(&place);
            else if (!schedule_find_held(schedule, &place, &in_flight[left * count + i]))
                return NULL;
        }
    return in_flight;
}
