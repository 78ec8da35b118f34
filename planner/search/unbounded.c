/* Schedules that the closed form does not bound (space_configs_unbounded()). What they have to do at least belongs to
 * the bound of the simulated step; and what the judge found best is tried with them too: most differ from others in how
 * long stages idle, little in which degrees and strategies are good. */
#include "base/num.h"
#include "planner/search/propose_parts.h"
#include <string.h>

bool unbounded_list(struct run *run)
{
    struct config *all = run->configs;
    int count = run->config_count, own = count, leaders = run->options->leader_count;
    if (own == 0 || !space_configs_unbounded(&all, &count, &run->arena, run->space, run->bench.graph,
                                             run->bench.facts->cluster, run->err))
        return own == 0;
    if (count == own)
        return true;
    int64_t *busy_ns = arena_alloc(&run->arena, (size_t)count, sizeof *busy_ns);
    int capacity = count;
    for (int i = 0; i < leaders && all; i++) { /* behind all others; of the list they are no part */
        if ((all = arena_more(&run->arena, all, count + i, &capacity, sizeof *all)))
            all[count + i] = run->options->leaders[i];
    }
    if (!all || !busy_ns)
        return fail_memory(run->err);
    memcpy(busy_ns, run->busy_ns, (size_t)own * sizeof *busy_ns);
    run->configs = all;
    run->busy_ns = busy_ns;
    run->unbounded_count = count - own;
    return true;
}

bool unbounded_works_alike(const struct config *a, const struct config *b)
{
    const struct schedule *x = schedules[a->schedule], *y = schedules[b->schedule];
    return config_equal_but(a, b, BUT_PREFETCH | BUT_EXTRA | BUT_SCHEDULE) && x->splits == y->splits &&
           x->copies == y->copies;
}

static bool bound_one(struct run *run, int index, struct busy *busy)
{
    const struct config *config = &run->configs[index];
    const struct price_table *table = NULL;
    run->busy_ns[index] = INT64_MAX;
    if (index > run->config_count && unbounded_works_alike(config, config - 1)) {
        run->busy_ns[index] = run->busy_ns[index - 1];
        return true;
    }
    return workbench_table(&run->bench, config, true, &table, run->err) &&
           (!table ||
            first_bounds_simulation(run, index, table, run_best_step_ns(run), busy)); /* nobody asks for more */
}

bool unbounded_bound(struct run *run)
{
    if (run_stops(run) && run->unbounded_count > 0) { /* then nothing is known of them */
        run->unbounded_count = 0;
        run->unbounded_unseen = true;
    }
    struct busy *busy = busy_new();
    bool good = busy != NULL || fail_memory(run->err);
    for (int i = 0; i < run->unbounded_count && good; i++)
        good = bound_one(run, run->config_count + i, busy);
    busy_free(busy);
    run->unbounded_bounded = good;
    return good;
}

/* Enters their hashes behind what the certificate says of the others, in the order in which its checker lists them. */
bool unbounded_enter(struct run *run)
{
    struct certificate *c = &run->result->certificate;
    if (!run->unbounded_bounded)
        return true;
    c->unbounded = run->unbounded_count;
    if (run->unbounded_unseen)
        c->simulated_bound_ns = 0;
    const struct price_table *table = NULL;
    for (int i = run->config_count; i < run->config_count + run->unbounded_count; i++) {
        const struct config *config = &run->configs[i];
        bool same = i > run->config_count && config_equal_but(config, config - 1, BUT_PREFETCH | BUT_EXTRA);
        if (!same && !workbench_table(&run->bench, config, true, &table, run->err))
            return false;
        certificate_hash_add(&c->hash, config, table);
        c->simulated_bound_ns = min_i64(c->simulated_bound_ns, run->busy_ns[i]);
    }
    return true;
}
