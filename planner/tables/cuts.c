#include "planner/tables/cuts.h"

/* Gives the table, and those of its stages, with such sends; NULL when out of memory. */
static const struct price_table *with_sends(struct workbench *bench, const struct price_table *from, int64_t send_ns,
                                            int pieces)
{
    const int64_t key[] = { MADE_SENDS, (intptr_t)from, send_ns };
    bool known;
    struct price_table *table = memo_place(&bench->made, key, sizeof key / sizeof *key, sizeof *table, &known);
    if (!table || known)
        return table;
    const struct price_table **stages = arena_alloc(&bench->arena, (size_t)pieces, sizeof *stages);
    if (!stages)
        return NULL;
    *table = *from;
    table->send_ns = send_ns;
    for (int k = 0; from->by_stage && k < pieces; k++)
        if (!(stages[k] = with_sends(bench, from->by_stage[k], send_ns, 0)))
            return NULL;
    table->by_stage = from->by_stage ? stages : NULL;
    return table;
}

bool cuts_table(struct workbench *bench, const struct config *config, const struct price_table **table,
                struct error *err)
{
    if (config->stages < 2 || (*table)->send_bytes == 0)
        return true;
    struct plan *plan = plan_new(config->stages, 1);
    if (plan) {
        mesh_set_stages(&config->mesh, 0, plan);
        int64_t sum = 0;
        int cuts = plan->stage_count - 1;
        for (int k = 0; k <= cuts; k++)
            plan->stages[k].first_rank = config_first_rank(config, k);
        for (int k = 0; k < cuts; k++)
            sum += cost_between_stages(bench->facts, plan, k, k + 1, (*table)->send_bytes).ns;
        *table = with_sends(bench, *table, (sum + cuts / 2) / cuts + (*table)->send_ends_ns, config_pieces(config));
    }
    bool good = plan && *table;
    plan_free(plan);
    return good || fail_memory(err);
}
