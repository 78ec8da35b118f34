/* At the end of a step each replica sends its gradients to all others of its stage and gets theirs, part by part
 * (planner/program/lower_step.c). Such a message costs what it does where the stage begins at rank 0: by how many of
 * the other replicas lie within a node, and how many without. The sums that replicas then make are left to the judge.
 */
#include "planner/search/turns.h"
#include "base/num.h"
#include "planner/plan/plan.h"
#include <string.h>

/* Tables of one table, for so many numbers of replicas. */
struct turned {
    struct turned *next;
    const struct price_table *from, *table;
    int count;
};

/* ---- the exchange ---- */

/* Messages over one level of links, all alike. */
struct reach {
    int peer, count;
};

/* Of the first replica to the others, by level; their number. */
static int list_reaches(const struct cluster *cluster, int replicas, int ranks, struct reach out[MAX_LEVELS])
{
    int count = 0, last = -1;
    for (int peer = 1; peer < replicas; peer++) {
        int level = cluster_level(cluster, 0, peer * ranks);
        if (level != last)
            out[count++] = (struct reach){ .peer = peer };
        out[count - 1].count++;
        last = level;
    }
    return count;
}

static struct plan *stage_of_replicas(const struct mesh *mesh, int replicas)
{
    struct plan *plan = plan_new(replicas, 1);
    for (int k = 0; plan && k < replicas; k++) {
        plan->stages[k].first_rank = k * mesh_ranks(mesh);
        memcpy(plan->stages[k].atom, mesh->size, sizeof mesh->size);
    }
    if (plan) {
        plan->rank_count = replicas * mesh_ranks(mesh);
        plan->atom_count = mesh->atom_count;
    }
    return plan;
}

static void add_exchange(const struct facts *facts, const struct plan *plan, struct price_table *table)
{
    struct reach reach[MAX_LEVELS];
    int reaches = list_reaches(facts->cluster, plan->stage_count, stage_rank_count(plan, 0), reach);
    for (int i = 0; i < table->class_count * table->strategy_count; i++) {
        struct layer_price *price = &table->prices[i];
        for (int r = 0; r < reaches && price->exchange_parts > 0; r++) {
            int64_t each = ceil_div(price->exchange_bytes, price->exchange_parts),
                    ns = cost_between_stages(facts, plan, 0, reach[r].peer, each).ns;
            price->step_ns += reach[r].count * price->exchange_parts * ns;
        }
    }
}

/* ---- tables ---- */

static struct price_table *make_tables(struct workbench *bench, const struct config *config,
                                       const struct price_table *from)
{
    struct price_table *table = price_copy_table(&bench->arena, from);
    const struct price_table **by_turns = arena_alloc(&bench->arena, (size_t)config->turn_count, sizeof *by_turns);
    if (!table || !by_turns)
        return NULL;
    for (int i = 0; i < config->turn_count; i++) {
        struct price_table *own = price_copy_table(&bench->arena, from);
        struct plan *plan = stage_of_replicas(&config->mesh, config->turns[i]);
        by_turns[i] = own;
        if (own && plan)
            add_exchange(bench->facts, plan, own);
        plan_free(plan);
        if (!own || !plan)
            return NULL;
    }
    table->turn_count = config->turn_count;
    table->turns = config->turns;
    table->by_turns = by_turns;
    return table;
}

bool turns_table(struct workbench *bench, const struct config *config, const struct price_table **table,
                 struct error *err)
{
    for (const struct turned *t = bench->turned; t; t = t->next)
        if (t->from == *table && t->count == config->turn_count) {
            *table = t->table;
            return true;
        }
    struct turned *made = arena_alloc(&bench->arena, 1, sizeof *made);
    if (made)
        *made = (struct turned){ bench->turned, *table, make_tables(bench, config, *table), config->turn_count };
    if (!made || !made->table)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for replicas in turn");
    bench->turned = made;
    *table = made->table;
    return true;
}

/* ---- in flight ---- */

int *turns_in_flight(struct arena *arena, const struct config *config)
{
    const struct schedule *schedule = schedules[config->schedule];
    int count = config->turn_count,
        *in_flight = arena_alloc(arena, ((size_t)config->meshes + 1) * (size_t)count, sizeof *in_flight);
    for (int i = 0; in_flight && i < count; i++)
        for (int left = 1; left <= config->meshes; left++) {
            struct schedule_place place = {
                .chunks = 1,
                .micro_count = micro_batches_in_turn(config->micro_batch_count, config->turns[i]),
                .ahead = (int)ceil_div(left, config->turns[i]),
            };
            in_flight[left * count + i] =
                schedule->in_flight ? schedule->in_flight(&place) : schedule_held(schedule, &place);
        }
    return in_flight;
}
