/* Asynchronous schedules in the search's integers. Stages differ in how many versions of the weights they keep, so each
 * has a table of its own, as stages on different types of devices have. */
#include "base/num.h"
#include "planner/tables/workbench.h"

/* Gives more bytes than any device has, so that what must not be chosen does not fit. */
static int64_t too_much(const struct workbench *bench)
{
    return facts_most_bytes(bench->facts) + 1;
}

static struct layer_price with_versions(const struct workbench *bench, struct layer_price p, int zero, bool each,
                                        int versions)
{
    p.weight_bytes += (versions - 1) * p.version_bytes + (zero > 0 ? too_much(bench) : 0);
    p.tied_bytes = p.tied_bytes > 0 ? too_much(bench) : 0;
    if (each) { /* every micro-batch waits for its own update */
        p.backward_ns += p.reduce_last_ns + p.step_ns;
        p.reduce_last_ns = p.step_ns = 0;
    }
    return p;
}

static struct price_table *make_table(struct workbench *bench, const struct price_table *from, int schedule,
                                      int versions)
{
    struct price_table *table = price_copy_table(&bench->arena, from);
    if (!table)
        return NULL;
    table->by_stage = NULL;
    for (int i = 0; i < from->class_count * from->strategy_count; i++)
        table->prices[i] = with_versions(bench, from->prices[i], from->strategies[i % from->strategy_count].layer.zero,
                                         schedules[schedule]->updates_each, versions);
    return table;
}

static int versions_of(const struct config *config, int stage)
{
    struct schedule_place place = schedule_place_even(config->stages, stage, config->micro_batch_count, 0);
    return schedules[config->schedule]->versions(&place);
}

/* Makes the tables; that of all stages holds the least of each number, which is that of the fewest versions. */
static struct price_table *make_tables(struct workbench *bench, const struct config *config,
                                       const struct price_table *from)
{
    const struct price_table **stages = arena_alloc(&bench->arena, (size_t)config->stages, sizeof *stages);
    int fewest = versions_of(config, 0);
    for (int k = 0; stages && k < config->stages; k++) {
        int versions = versions_of(config, k);
        fewest = (int)min_i64(fewest, versions);
        bool same =
            k > 0 && versions == versions_of(config, k - 1) && price_of_stage(from, k) == price_of_stage(from, k - 1);
        stages[k] = same ? stages[k - 1] : make_table(bench, price_of_stage(from, k), config->schedule, versions);
        if (!stages[k])
            return NULL;
    }
    struct price_table *table = stages ? make_table(bench, from, config->schedule, fewest) : NULL;
    if (table)
        table->by_stage = stages;
    return table;
}

bool workbench_versions(struct workbench *bench, const struct config *config, const struct price_table **table,
                        struct error *err)
{
    const int64_t key[] = { MADE_VERSIONS, (intptr_t)*table, config->schedule, config->stages };
    bool known;
    const struct price_table **made = memo_place(&bench->made, key, sizeof key / sizeof *key, sizeof *made, &known);
    if (made && !known)
        *made = make_tables(bench, config, *table);
    if (!made || !*made)
        return fail_memory(err);
    *table = *made;
    return true;
}
