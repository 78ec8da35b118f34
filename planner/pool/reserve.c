/* Memory that the layout needs beyond what the formula counts, charged to the stages that lack it: a table whose stages
 * keep that much more for themselves, so that its solutions leave as much free there and nothing elsewhere. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/pool/pool_parts.h"

/* Gives the table of the piece with so many bytes less, which is that of an earlier piece where both are the same. */
static const struct price_table *table_of_piece(struct arena *arena, const struct price_table *from,
                                                const struct price_table **pieces, int piece, int64_t bytes)
{
    const struct price_table *own = price_of_stage(from, piece);
    for (int k = 0; k < piece; k++)
        if (price_of_stage(from, k) == own && pieces[k]->base_bytes == own->base_bytes + bytes)
            return pieces[k];
    if (bytes == 0)
        return own;
    struct price_table *more = price_with_stages(arena, own, NULL);
    if (more)
        more->base_bytes += bytes;
    return more;
}

bool reserve_set(struct run *run, struct candidate *c, const int64_t *reserve_bytes)
{
    const struct config *config = &run->configs[c->config];
    int count = config_pieces(config);
    c->reserve_bytes = reserve_bytes;
    c->reserve_table = NULL;
    if (!reserve_bytes)
        return true;
    const struct price_table **pieces = arena_alloc(&run->arena, (size_t)count, sizeof *pieces);
    if (!pieces)
        return fail_memory(run->err);
    for (int k = 0; k < count; k++) {
        int64_t bytes = ceil_div(reserve_bytes[config_stage(config, k)], config_chunks(config));
        if (!(pieces[k] = table_of_piece(&run->arena, c->table, pieces, k, bytes)))
            return fail_memory(run->err);
    }
    c->reserve_table = price_with_stages(&run->arena, c->table, pieces);
    return c->reserve_table || fail_memory(run->err);
}

bool reserve_problem(struct run *run, const struct candidate *c, int64_t capacity_bytes, struct partition_problem *out)
{
    return run_problem(run, c->config, c->reserve_table ? c->reserve_table : c->table, capacity_bytes, out);
}

/* Takes more and more from the stages that lack room, until the formula does not let the same plan pass again. */
static bool tighten_stages(struct run *run, struct candidate *c, const struct prediction *p)
{
    struct candidate tight = *c;
    int64_t step_ns = 0;
    for (int times = 1; step_ns < INT64_MAX; times++) {
        int64_t *reserve_bytes = arena_alloc(&run->arena, (size_t)p->stage_count, sizeof *reserve_bytes);
        if (!reserve_bytes)
            return fail_memory(run->err);
        for (int k = 0; k < p->stage_count; k++) { /* so many times what the stage lacks */
            int64_t step = p->available_bytes[k] / RESERVE_STEPS + 1,
                    lack = round_up(max_i64(0, p->peak_bytes[k] - p->available_bytes[k]), step);
            reserve_bytes[k] = (c->reserve_bytes ? c->reserve_bytes[k] : 0) + times * lack;
        }
        if (!reserve_set(run, &tight, reserve_bytes) || !rank_formula(run, &tight, c->capacity_bytes, &step_ns))
            return false;
    }
    *c = tight;
    return true;
}

bool reserve_evenly(struct run *run, struct candidate *c, const struct prediction *p)
{
    int64_t permille = 1005, step_ns = 0;
    for (int k = 0; k < p->stage_count; k++)
        permille = max_i64(permille, (int64_t)((double)p->peak_bytes[k] / (double)p->available_bytes[k] * 1000) + 1);
    c->capacity_bytes = c->capacity_bytes / permille * 1000;
    for (;; c->capacity_bytes -= c->capacity_bytes / SHRINK_SHARE + 1) {
        if (!rank_formula(run, c, c->capacity_bytes, &step_ns))
            return false;
        if (step_ns == INT64_MAX)
            return true;
    }
}

bool reserve_more(struct run *run, struct candidate *c, const struct prediction *p)
{
    bool by_stage = run->configs[c->config].meshes == 0; /* else which stage has which meshes is decided with the cut */
    return (by_stage ? tighten_stages : reserve_evenly)(run, c, p);
}
