#include "planner/estimate/assemble.h"
#include "base/num.h"
#include <string.h>

static void set_piece(struct plan *plan, int piece, int first, int end, const struct config *config)
{
    int stage = config_stage(config, piece);
    schedule_set_piece(plan, piece, (struct layer_range){ first, end - first });
    plan->stages[stage].first_rank = config_first_rank(config, stage);
    memcpy(plan->stages[stage].atom, config->mesh.size, sizeof config->mesh.size);
}

/* Sets a stage of replicas from the plan's stage `at` on, and gives their number. Its meshes lie one after another,
 * those of stages in their order or in the other one. */
static int set_replicas(struct plan *plan, int at, int replicas, int first, int end, const struct config *config)
{
    int first_rank = config_rank_at(config, at, replicas);
    for (int turn = 0; turn < replicas; turn++) {
        struct plan_stage *stage = &plan->stages[at + turn];
        plan_set_chunk(plan, at + turn, 0, (struct layer_range){ first, end - first });
        stage->turn = turn;
        stage->first_rank = first_rank + turn * mesh_ranks(&config->mesh);
        memcpy(stage->atom, config->mesh.size, sizeof config->mesh.size);
    }
    return replicas;
}

struct plan *assemble_config(const struct space *space, const struct config *config, const struct graph *graph)
{
    struct plan *plan = plan_new(config_meshes(config), graph->layer_count);
    if (!plan || !plan_set_chunks(plan, config_chunks(config))) {
        plan_free(plan);
        return NULL;
    }
    plan->batch = space->batch;
    plan->sequence = graph->sequence;
    plan->vocab_multiple = config_vocab_multiple(config, graph);
    plan->dtype = space->dtype;
    plan->optimizer = space->optimizer;
    plan->schedule = config->schedule;
    plan->micro_batch_count = config->micro_batch_count;
    plan->extra_in_flight = config->extra;
    plan->atom_count = config->mesh.atom_count;
    plan->bucket_bytes = config->bucket_bytes;
    plan->prefetch = config->prefetch;
    plan->loss_chunks = config_loss_chunks(config);
    plan->clip_norm = space->clip_norm;
    plan->whole_blocks = graph->whole_blocks;
    plan->rank_count = config_meshes(config) * mesh_ranks(&config->mesh);
    for (int l = 0; l < graph->layer_count; l++)
        memcpy(plan->layers[l].dim, config->mesh.dim, sizeof config->mesh.dim);
    int pieces = config->meshes > 0 ? 0 : config_pieces(config);
    const int *cut = space->cut.count == pieces ? space->cut.first : NULL;
    for (int k = 0, first = 0; k < pieces; k++) {
        int end = cut && k + 1 < pieces ? cut[k + 1] : (int)((int64_t)graph->layer_count * (k + 1) / pieces);
        set_piece(plan, k, first, end, config);
        first = end;
    }
    return plan;
}

/* Gives the strategy whose next copy comes first: (taken + 1/2) / count is least; ties go to the larger count. */
static int next_strategy(const int *count, const int *taken, int strategies)
{
    int pick = -1;
    for (int i = 0; i < strategies; i++) {
        if (taken[i] >= count[i])
            continue;
        int64_t mine = (2 * (int64_t)taken[i] + 1) * (pick < 0 ? 1 : count[pick]);
        int64_t best = pick < 0 ? 0 : (2 * (int64_t)taken[pick] + 1) * count[i];
        if (pick < 0 || mine < best || (mine == best && count[i] > count[pick]))
            pick = i;
    }
    return pick;
}

/* Gives the layers at the places from `first` on their strategies; the plan's order says which layers these are. */
static void assign_layers(struct plan *plan, int first, int end, const int *order, const struct chain *chain,
                          const struct price_table *table, const struct layer_count *counts, int *count, int *taken)
{
    int strategies = table->strategy_count;
    size_t block = (size_t)(table->class_count * strategies);
    memset(count, 0, block * sizeof *count);
    memset(taken, 0, block * sizeof *taken);
    for (; counts->count > 0; counts++)
        count[counts->at] = counts->count;
    for (int l = first; l < end; l++) {
        int base = chain->class_of[order[l]] * strategies, pick = next_strategy(&count[base], &taken[base], strategies);
        if (pick < 0)
            continue; /* the counts of a class sum up to its layers */
        taken[base + pick]++;
        plan->layers[l] = table->strategies[pick].layer;
    }
}

struct plan *assemble_partition(const struct space *space, const struct config *config, const struct graph *graph,
                                const struct chain *chain, const struct price_table *table,
                                const struct partition_plan *solution)
{
    struct arena scratch = { 0 };
    int block = table->class_count * table->strategy_count, end = 0,
        *count = arena_alloc(&scratch, (size_t)block, sizeof *count),
        *taken = arena_alloc(&scratch, (size_t)block, sizeof *taken),
        *order = arena_alloc(&scratch, (size_t)graph->layer_count, sizeof *order);
    struct plan *plan = arena_failed(&scratch) ? NULL : assemble_config(space, config, graph);
    int pieces = solution->shape ? solution->stage_count : config_pieces(config), at = 0;
    for (int k = 0; plan && k < pieces; k++) {
        int first = end;
        end += chain_list(chain, solution->first_layer[k],
                          k + 1 < pieces ? solution->first_layer[k + 1] : chain_last(chain), &order[first]);
        const struct price_table *own = solution->shape ? price_of_shape(table, solution->shape[k]) : table;
        if (solution->shape)
            at += set_replicas(plan, at, config->turns[solution->shape[k]], first, end, config);
        else
            set_piece(plan, k, first, end, config);
        assign_layers(plan, first, end, order, chain, own, solution->counts[k], count, taken);
    }
    if (plan && !plan_set_order(plan, order)) {
        plan_free(plan);
        plan = NULL;
    }
    arena_free(&scratch);
    return plan;
}

/* Counts the stages that greedy filling up to `most` needs, when each later stage must still get a layer. */
static int fill_stages(const int64_t *weight, int stride, int layer_count, int stage_count, int64_t most, int *first)
{
    int stage = 0;
    int64_t here = 0;
    first[0] = 0;
    for (int l = 0; l < layer_count; l++) {
        bool must_open = l > first[stage] && layer_count - l <= stage_count - 1 - stage;
        if (l > first[stage] && (here + weight[stage * stride + l] > most || must_open)) {
            if (++stage == stage_count)
                return stage_count + 1;
            first[stage] = l;
            here = 0;
        }
        here += weight[stage * stride + l];
        if (here > most)
            return stage_count + 1;
    }
    return stage + 1;
}

void assemble_balance(const int64_t *weight, int stride, int layer_count, int stage_count, int *first)
{
    int64_t low = 0, high = 0;
    for (int i = 0; i < (stride > 0 ? stage_count : 1) * layer_count; i++)
        high += weight[i];
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (fill_stages(weight, stride, layer_count, stage_count, middle, first) <= stage_count)
            high = middle;
        else
            low = middle + 1;
    }
    fill_stages(weight, stride, layer_count, stage_count, low, first);
}

static int64_t kept_bytes(const struct layer_price *p, int64_t in_flight)
{
    return p->weight_bytes + p->tied_bytes + in_flight * p->saved_bytes - p->freed_bytes;
}

/* Gives the strategy that keeps least of those that need no more than so much in passing; -1 where none does. */
static int thriftiest(const struct price_table *table, int class_index, int64_t in_flight, int64_t most_passing_bytes)
{
    const struct layer_price *best = NULL;
    int pick = -1;
    for (int i = 0; i < table->strategy_count; i++) {
        const struct layer_price *p = price_at(table, class_index, i);
        if (p->transient_bytes > most_passing_bytes)
            continue;
        int64_t more = best ? kept_bytes(p, in_flight) - kept_bytes(best, in_flight) : -1;
        if (more > 0 || (more == 0 && p->transient_bytes >= best->transient_bytes))
            continue;
        best = p;
        pick = i;
    }
    return pick;
}

/* Estimates what a stage needs; INT64_MAX where some layer needs more in passing. */
static int64_t needed_bytes(const struct config *config, const struct chain *chain, const struct price_table *table,
                            const int *in_flight, int64_t most_passing_bytes)
{
    int64_t kept = 0, passing = 0;
    for (int c = 0; c < chain->class_count; c++) {
        if (chain->layers_of[c] == 0)
            continue;
        int pick = thriftiest(table, c, in_flight[0], most_passing_bytes);
        if (pick < 0)
            return INT64_MAX;
        const struct layer_price *p = price_at(table, c, pick);
        kept += chain->layers_of[c] * kept_bytes(p, in_flight[0]);
        passing = max_i64(passing, p->transient_bytes);
    }
    return table->base_bytes + kept / config->stages + passing;
}

/* Gives the most that layers may need in passing for which this and what they keep are least: only the latter adds up.
 * Some strategy of all layers needs just that. *bytes: what a stage needs then. */
static int64_t passing_bytes(const struct config *config, const struct chain *chain, const struct price_table *table,
                             const int *in_flight, int64_t *bytes)
{
    int64_t best = INT64_MAX;
    *bytes = INT64_MAX;
    for (int i = 0; i < table->strategy_count; i++) {
        int64_t most = 0;
        for (int c = 0; c < chain->class_count; c++)
            if (chain->layers_of[c] > 0)
                most = max_i64(most, price_at(table, c, i)->transient_bytes);
        int64_t needed = needed_bytes(config, chain, table, in_flight, most);
        best = needed < *bytes ? most : best;
        *bytes = min_i64(*bytes, needed);
    }
    return best;
}

/* Cuts as if every stage held what the first one holds, which has the most in flight. */
static void fill_thrifty(struct partition_plan *solution, int *count, const struct config *config,
                         const struct chain *chain, const struct price_table *table, const int *in_flight,
                         int64_t *weight)
{
    int pieces = config_pieces(config);
    int64_t bytes, passing = passing_bytes(config, chain, table, in_flight, &bytes);
    for (int l = 0; l < chain->layer_count; l++) {
        int class_index = chain->class_of[l], pick = thriftiest(table, class_index, in_flight[0], passing);
        weight[l] = kept_bytes(price_at(table, class_index, pick), in_flight[0]);
    }
    assemble_balance(weight, 0, chain->layer_count, pieces, solution->first_layer);
    for (int k = 0; chain->cut && k < pieces; k++)
        solution->first_layer[k] = chain->cut[k];
    for (int k = 0; k < pieces; k++) {
        int end = k + 1 < pieces ? solution->first_layer[k + 1] : chain->layer_count;
        for (int l = solution->first_layer[k]; l < end; l++) {
            int class_index = chain->class_of[l], pick = thriftiest(table, class_index, in_flight[k], passing);
            count[(k * table->class_count + class_index) * table->strategy_count + pick]++;
        }
    }
    for (int k = 0; k < pieces; k++)
        solution->first_layer[k] = chain_prefix(chain, solution->first_layer[k]);
}

int64_t assemble_thriftiest_bytes(const struct config *config, const struct chain *chain,
                                  const struct price_table *table, const int *in_flight)
{
    int64_t bytes;
    passing_bytes(config, chain, table, in_flight, &bytes);
    return bytes;
}

struct plan *assemble_thriftiest(const struct space *space, const struct config *config, const struct graph *graph,
                                 const struct chain *chain, const struct price_table *table, const int *in_flight)
{
    struct arena scratch = { 0 };
    struct plan *plan = NULL;
    size_t stages = (size_t)config_pieces(config), block = (size_t)(table->class_count * table->strategy_count);
    int64_t *weight = arena_alloc(&scratch, (size_t)chain->layer_count, sizeof *weight);
    int *count = arena_alloc(&scratch, stages * block, sizeof *count);
    struct partition_plan solution = { .first_layer = arena_alloc(&scratch, stages, sizeof(int)) };
    if (!arena_failed(&scratch)) {
        fill_thrifty(&solution, count, config, chain, table, in_flight, weight);
        if (partition_set_counts(&solution, &scratch, count, (int)stages, (int)block))
            plan = assemble_partition(space, config, graph, chain, table, &solution);
    }
    arena_free(&scratch);
    return plan;
}
