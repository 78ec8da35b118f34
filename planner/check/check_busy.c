#include "planner/check/check_busy.h"
#include "base/num.h"

struct busy_check {
    const struct chain *chain;
    const struct config *config;
    const struct price_table *table;
    const struct orders *orders; /* NULL: layers in one order */
    int layers;
    int64_t most_ns;                            /* that is counted of a kernel */
    int64_t micro_batches, bound_ns, weight_ns; /* the largest weight's gradient of any layer */
    bool in_turn; /* a chain in which each layer's weights' gradients follow its inputs': nothing is put off */
    struct least_price *kernels; /* (layers) by the table of all stages */
    int64_t *before, *after; /* (layers + 1) of a stage that begins here or later: what runs first, what must follow */
    int64_t *ahead;          /* (layers + 1) all kernels of the layers before, there and back */
    int64_t *sum;            /* (layers + 1) forward and input, of the present stage's table */
    int64_t *weights;        /* (layers + 1) weights' gradients */
};

static void sum_up(struct busy_check *b, const struct price_table *table)
{
    for (int l = 0; l < b->layers; l++) {
        int class_index = b->chain->class_of[l];
        struct least_price k = price_least(table, class_index, b->most_ns);
        b->sum[l + 1] = b->sum[l] + k.forward_ns + k.input_ns;
        b->weights[l + 1] = b->weights[l] + k.weight_ns;
    }
}

/* ---- before and after ---- */

/* Finds the earliest begin of a layer and the least time from its last gradient on, over the layers that it reads. */
static void reach_layer(struct busy_check *b, int l, int64_t *end)
{
    const struct graph_layer *layer = b->chain->graph ? &b->chain->graph->layers[l] : NULL;
    int64_t first = INT64_MAX, last = 0, follows = INT64_MAX;
    for (int i = 0; i < (layer ? layer->input_count : l > 0); i++) {
        int from = layer ? layer->input_layers[i] : l - 1;
        b->in_turn = b->in_turn && from == l - 1 && (!layer || layer->input_count == 1);
        first = min_i64(first, end[from]);
        last = max_i64(last, end[from]);
        follows = min_i64(follows, b->after[from] + b->kernels[from].input_ns);
    }
    b->in_turn = b->in_turn && (l == 0 || first < INT64_MAX);
    b->before[l] = first == INT64_MAX ? 0 : first;
    b->after[l] = follows == INT64_MAX ? 0 : follows;
    end[l] = max_i64(b->before[l] + b->kernels[l].forward_ns, last);
}

/* Takes, over the layers that can be the first behind so many, the least of what was found of each. */
static bool settle_orders(const struct busy_check *b, int64_t *of_layer, struct arena *arena)
{
    int64_t *least = arena_alloc(arena, (size_t)b->layers + 1, sizeof *least);
    for (int count = 0; least && count < b->layers; count++) {
        least[count] = INT64_MAX;
        for (int l = 0; l < b->layers; l++)
            if (b->orders->most_before[l] >= count)
                least[count] = min_i64(least[count], of_layer[l]);
    }
    for (int count = 0; least && count < b->layers; count++)
        of_layer[count] = least[count];
    return least != NULL;
}

static bool find_ends(struct busy_check *b, struct arena *arena)
{
    if (schedules[b->config->schedule]->asynchronous)
        return true; /* steps run into each other: nothing runs first, nothing must follow */
    int64_t *end = arena_alloc(arena, (size_t)b->layers + 1, sizeof *end);
    b->in_turn = !schedules[b->config->schedule]->splits && config_chunks(b->config) == 1;
    for (int l = 0; end && l < b->layers; l++)
        reach_layer(b, l, end);
    if (end && b->orders)
        return settle_orders(b, b->before, arena) && settle_orders(b, b->after, arena);
    /* a stage's first kernel and its last may be of any layers from here on */
    for (int l = b->layers - 2; end && l >= 0; l--) {
        b->before[l] = min_i64(b->before[l], b->before[l + 1]);
        b->after[l] = min_i64(b->after[l], b->after[l + 1]);
    }
    return end != NULL;
}

/* ---- cuts ---- */

/* True when the stage can hold the layers [first, end) and yet all be done before the bound. */
static bool fits(const struct busy_check *b, int stage, int first, int end)
{
    int64_t turn = b->micro_batches * (b->sum[end] - b->sum[first]),
            all = turn + b->micro_batches * (b->weights[end] - b->weights[first]);
    return b->before[first] + all < b->bound_ns && b->before[first] + turn + b->after[first] < b->bound_ns &&
           (!b->in_turn || b->ahead[first] + all - stage * b->weight_ns < b->bound_ns);
}

/* True when some cut keeps below the bound. Stages can end behind any number of layers up to `reached`, as one that
 * holds less takes no longer: each stage adds what one that begins at some of these can hold. */
static bool any_cut(struct busy_check *b)
{
    const struct price_table *table = b->table;
    int reached = 0;
    for (int k = 0; k < b->config->stages && reached < b->layers; k++) {
        int begins = reached;
        if (price_of_stage(b->table, k) != table)
            sum_up(b, table = price_of_stage(b->table, k));
        for (int first = begins; first >= 0; first--)
            while (reached < b->layers && fits(b, k, first, reached + 1))
                reached++;
    }
    return reached == b->layers;
}

/* True when all stages together take too long: each begins at its own number of layers or later, as each has one of
 * every stage before; with two copies of the model, whose stages meet from both ends, at that of the nearer end. */
static bool too_much_together(const struct busy_check *b)
{
    bool copies = schedules[b->config->schedule]->copies;
    int64_t all = b->micro_batches * (b->sum[b->layers] + b->weights[b->layers]),
            turn = b->micro_batches * b->sum[b->layers], in_turn = all;
    for (int k = 0; k < b->config->stages && k < b->layers; k++) {
        int begins = copies && 2 * k >= b->config->stages ? b->config->stages - 1 - k : k;
        all += b->before[begins];
        turn += b->before[begins] + b->after[begins];
        in_turn += b->ahead[k] - k * b->weight_ns;
    }
    return ceil_div(max_i64(max_i64(all, turn), b->in_turn ? in_turn : 0), b->config->stages) >= b->bound_ns;
}

static bool busy_open(struct busy_check *b, struct arena *arena)
{
    size_t count = (size_t)b->layers + 1;
    b->kernels = arena_alloc(arena, count, sizeof *b->kernels);
    b->before = arena_alloc(arena, count, sizeof *b->before);
    b->after = arena_alloc(arena, count, sizeof *b->after);
    b->ahead = arena_alloc(arena, count, sizeof *b->ahead);
    b->sum = arena_alloc(arena, count, sizeof *b->sum);
    b->weights = arena_alloc(arena, count, sizeof *b->weights);
    if (arena_failed(arena))
        return false;
    for (int l = 0; l < b->layers; l++)
        b->kernels[l] = price_least(b->table, b->chain->class_of[l], b->most_ns);
    for (int k = 0; k < b->config->stages; k++)
        for (int i = 0; i < b->table->class_count * b->table->strategy_count; i++)
            b->weight_ns = max_i64(b->weight_ns, price_of_stage(b->table, k)->prices[i].least_weight_ns);
    b->weight_ns = min_i64(b->weight_ns, b->most_ns);
    sum_up(b, b->table);
    for (int l = 0; l <= b->layers; l++)
        b->ahead[l] = b->sum[l] + b->weights[l];
    return find_ends(b, arena);
}

bool busy_holds(bool *holds, const struct chain *chain, const struct orders *orders, const struct config *config,
                const struct price_table *table, int64_t bound_ns, struct error *err)
{
    struct arena arena = { 0 };
    struct busy_check b = { .chain = chain,
                            .config = config,
                            .table = table,
                            .orders = orders,
                            .layers = chain->layer_count,
                            .most_ns = price_most_least_ns(chain->layer_count, config->micro_batch_count),
                            .micro_batches = config->micro_batch_count,
                            .bound_ns = bound_ns };
    bool good = busy_open(&b, &arena) || fail_memory(err);
    if (good && config->meshes > 0) /* whoever does it, some mesh does its share of all kernels */
        *holds = bound_ns <= ceil_div(b.micro_batches * b.ahead[b.layers], config->meshes);
    else if (good)
        *holds = bound_ns <= 0 || too_much_together(&b) || (config_chunks(config) == 1 && !orders && !any_cut(&b));
    arena_free(&arena);
    return good;
}
