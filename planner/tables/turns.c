/* At the end of a step each replica sends its gradients to all others of its stage and gets theirs, part by part
 * (planner/program/lower_step.c). Such a message costs what it does where the stage begins at rank 0, and on a cluster
 * of several types at the first place that has the stage's: by how many of the other replicas lie within a node, and
 * how many without. The sums that replicas then make are left to the judge. Micro-batches go round, so that a stage on
 * several types waits for the slowest. */
#include "planner/tables/turns.h"
#include "base/num.h"
#include "planner/plan/plan.h"
#include "planner/tables/several.h"
#include "planner/tables/types.h"
#include <string.h>

/* What a table of replicas depends on: prices of one mesh on the cluster's first type, in which the micro-batch and so
 * the numbers of replicas are, and the order of types. */
struct turned {
    struct turned *next;
    const struct price_table *from;
    int order; /* of the groups: its number */
    const struct price_table *table;
};

/* ---- the exchange ---- */

/* Messages over one level of links, all alike. */
struct reach {
    int peer, count;
};

/* Of the first replica to the others, by level; their number. */
static int list_reaches(const struct cluster *cluster, const struct plan *plan, struct reach out[MAX_LEVELS])
{
    int count = 0, last = -1;
    for (int peer = 1; peer < plan->stage_count; peer++) {
        int level = cluster_level(cluster, plan->stages[0].first_rank, plan->stages[peer].first_rank);
        if (level != last)
            out[count++] = (struct reach){ .peer = peer };
        out[count - 1].count++;
        last = level;
    }
    return count;
}

/* From the cluster's mesh `first` on. */
static struct plan *stage_of_replicas(const struct mesh *mesh, int first, int replicas)
{
    struct plan *plan = plan_new(replicas, 1);
    for (int k = 0; plan && k < replicas; k++) {
        plan->stages[k].first_rank = (first + k) * mesh_ranks(mesh);
        memcpy(plan->stages[k].atom, mesh->size, sizeof mesh->size);
    }
    if (plan) {
        plan->rank_count = (first + replicas) * mesh_ranks(mesh);
        plan->atom_count = mesh->atom_count;
    }
    return plan;
}

static void add_exchange(const struct facts *facts, const struct plan *plan, struct price_table *table)
{
    struct reach reach[MAX_LEVELS];
    int reaches = list_reaches(facts->cluster, plan, reach);
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

static struct price_table *own_table(struct several *s, const struct several_place *place,
                                     const struct price_table *from)
{
    const struct config *c = s->config;
    struct price_table *own = price_copy_table(&s->bench->arena, from);
    struct plan *plan = stage_of_replicas(&c->mesh, s->bench->type_facts ? place->first : 0, c->turns[place->turn]);
    if (own && plan)
        add_exchange(s->bench->facts, plan, own);
    bool good = own && plan;
    plan_free(plan);
    return good ? own : NULL;
}

static bool make(struct workbench *bench, const struct config *config, const struct price_table **out,
                 struct error *err)
{
    struct several several = { .bench = bench, .config = config, .own_table = own_table, .err = err };
    return several_table(&several, out);
}

bool turns_table(struct workbench *bench, const struct config *config, bool bound_only, const struct price_table **out,
                 struct error *err)
{
    const struct price_table *from = NULL;
    *out = NULL;
    if (bound_only)
        return bench->type_facts ? types_least_table(bench, config, true, out, err)
                                 : workbench_type_table(bench, config, 0, true, out, err);
    if (!workbench_type_table(bench, config, 0, false, &from, err))
        return false;
    if (!from)
        return true;
    for (const struct turned *t = bench->turned; t; t = t->next)
        if (t->from == from && t->order == config->order.index) {
            *out = t->table;
            return true;
        }
    struct turned *made = arena_alloc(&bench->arena, 1, sizeof *made);
    if (!made)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for replicas in turn");
    if (!make(bench, config, out, err))
        return false;
    *made = (struct turned){ bench->turned, from, config->order.index, *out };
    bench->turned = made;
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
