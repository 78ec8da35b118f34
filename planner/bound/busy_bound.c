#include "planner/bound/busy_bound.h"
#include "base/num.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_LINES = 3 };

/* One of the inequalities: head[first layer] + m (sum of the stage's work) - stage * off. */
struct line {
    bool weights;  /* work counts the weights' gradients */
    int64_t *head; /* (layers + 1) never falls, nor rises by more than the layer's own work where cuts are looked at */
    int64_t off_ns;
};
/* Sums over the layers before, on devices of one table. */
struct busy_work {
    const struct price_table *table;
    int64_t *sum[2]; /* [with weights' gradients] (layers + 1) */
};
struct busy {
    const struct busy_problem *p;
    struct arena arena;
    const struct price_table *table; /* that it was made for, */
    bool asynchronous, has_lines;    /* and how */
    int layers;
    int64_t micro_batches, most_ns;
    struct least_price *least; /* (classes) by the table of all stages */
    struct busy_work lowest;   /* by that table */
    int work_count, *work_of;  /* (stages) of works; NULL: all have the lowest */
    struct busy_work *works;
    int line_count;
    struct line line[MOST_LINES];
};

struct busy_problem busy_problem_of(const struct chain *chain, const struct config *config,
                                    const struct price_table *table)
{
    return (struct busy_problem){ .chain = chain,
                                  .table = table,
                                  .stages = config_meshes(config),
                                  .several = config->meshes > 0,
                                  .chunks = config_chunks(config),
                                  .micro_batches = config->micro_batch_count,
                                  .splits = schedules[config->schedule]->splits,
                                  .asynchronous = schedules[config->schedule]->asynchronous,
                                  .copies = schedules[config->schedule]->copies };
}

/* ---- work ---- */

static bool add_up(struct busy *b, const struct price_table *table, struct busy_work *out)
{
    const struct chain *chain = b->p->chain;
    struct least_price *least = arena_alloc(&b->arena, (size_t)chain->class_count, sizeof *least);
    *out = (struct busy_work){ .table = table };
    for (int weights = 0; weights < 2; weights++)
        out->sum[weights] = arena_alloc(&b->arena, (size_t)b->layers + 1, sizeof **out->sum);
    if (!least || !out->sum[0] || !out->sum[1])
        return false;
    for (int c = 0; c < chain->class_count; c++)
        least[c] = price_least(table, c, b->most_ns);
    for (int l = 0; l < b->layers; l++) {
        const struct least_price *of = &least[chain->class_of[l]];
        out->sum[0][l + 1] = out->sum[0][l] + of->forward_ns + of->input_ns;
        out->sum[1][l + 1] = out->sum[1][l] + of->forward_ns + of->input_ns + of->weight_ns;
    }
    if (table == b->p->table)
        b->least = least;
    return true;
}

static bool list_works(struct busy *b)
{
    if (!add_up(b, b->p->table, &b->lowest) || !price_is_by_stage(b->p->table))
        return b->least != NULL;
    b->works = arena_alloc(&b->arena, (size_t)b->p->stages, sizeof *b->works);
    b->work_of = arena_alloc(&b->arena, (size_t)b->p->stages, sizeof *b->work_of);
    if (!b->works || !b->work_of)
        return false;
    for (int k = 0; k < b->p->stages; k++) {
        const struct price_table *table = price_of_stage(b->p->table, k);
        int *at = &b->work_of[k];
        while (*at < b->work_count && b->works[*at].table != table)
            ++*at;
        if (*at < b->work_count)
            continue;
        if (table == b->p->table)
            b->works[b->work_count] = b->lowest;
        else if (!add_up(b, table, &b->works[b->work_count]))
            return false;
        b->work_count++;
    }
    return true;
}

/* ---- heads ---- */

static int input_count(const struct chain *chain, int layer)
{
    return chain->graph ? chain->graph->layers[layer].input_count : layer > 0;
}

static int input_layer(const struct chain *chain, int layer, int i)
{
    return chain->graph ? chain->graph->layers[layer].input_layers[i] : layer - 1;
}

/* Finds when the first kernel of each layer can begin: none of its kernels runs before one of its inputs is there, and
 * its output is there only after all of them. */
static void find_begins(const struct busy *b, int64_t *begin, int64_t *end)
{
    for (int l = 0; l < b->layers; l++) {
        int64_t first = INT64_MAX, last = 0;
        for (int i = 0; i < input_count(b->p->chain, l); i++) {
            first = min_i64(first, end[input_layer(b->p->chain, l, i)]);
            last = max_i64(last, end[input_layer(b->p->chain, l, i)]);
        }
        begin[l] = first == INT64_MAX ? 0 : first;
        end[l] = max_i64(begin[l] + b->least[b->p->chain->class_of[l]].forward_ns, last);
    }
}

/* Finds what must follow a layer's last kernel by input, which made the gradient of one of its inputs. */
static void find_drains(const struct busy *b, int64_t *drain)
{
    for (int l = 0; l < b->layers; l++) {
        int64_t least = INT64_MAX;
        for (int i = 0; i < input_count(b->p->chain, l); i++) {
            int from = input_layer(b->p->chain, l, i);
            least = min_i64(least, drain[from] + b->least[b->p->chain->class_of[from]].input_ns);
        }
        drain[l] = least == INT64_MAX ? 0 : least;
    }
}

/* Marks the layer and all that cannot do without it, and counts them. */
static int layers_behind(const struct busy *b, int layer, bool *behind)
{
    int count = 0;
    for (int l = 0; l < b->layers; l++) {
        behind[l] = l == layer;
        for (int i = 0; i < input_count(b->p->chain, l); i++)
            behind[l] = behind[l] || behind[input_layer(b->p->chain, l, i)];
        count += behind[l];
    }
    return count;
}

/* Gives the least value of layers that need not be among so many that come first, in any order: (layers + 1). */
static bool least_behind(struct busy *b, const int64_t *value, int64_t *least)
{
    bool *behind = arena_alloc(&b->arena, (size_t)b->layers, sizeof *behind);
    for (int l = 0; l <= b->layers; l++)
        least[l] = INT64_MAX;
    for (int l = 0; behind && l < b->layers; l++) {
        int most_before = b->layers - layers_behind(b, l, behind);
        least[most_before] = min_i64(least[most_before], value[l]);
    }
    for (int l = b->layers - 2; l >= 0; l--) /* behind all layers but the last there is that one */
        least[l] = min_i64(least[l], least[l + 1]);
    least[b->layers] = least[b->layers - 1];
    return behind != NULL;
}

/* Lowers each value to the least from there on, since the stage's first layer may be any of these. */
static void least_from(int64_t *value, int layers)
{
    for (int l = layers - 2; l >= 0; l--)
        value[l] = min_i64(value[l], value[l + 1]);
}

/* Sets a head from the values, which grows no faster than work. */
static void settle_head(const struct busy *b, struct line *line, const int64_t *value)
{
    const int64_t *work = b->lowest.sum[line->weights];
    memcpy(line->head, value, (size_t)b->layers * sizeof *line->head);
    line->head[b->layers] = line->head[b->layers - 1];
    for (int l = 0; l < b->layers; l++)
        line->head[l + 1] = min_i64(line->head[l + 1], line->head[l] + work[l + 1] - work[l]);
}

/* Sets heads and drains of stages of a model with branches, where first and last layer may be of two branches. */
static bool settle_branches(struct busy *b, const int64_t *begin, const int64_t *drain)
{
    if (!least_behind(b, drain, b->line[0].head))
        return false;
    memcpy(b->line[1].head, b->line[0].head, ((size_t)b->layers + 1) * sizeof *b->line[1].head);
    if (!least_behind(b, begin, b->line[0].head))
        return false;
    for (int l = 0; l <= b->layers; l++)
        b->line[1].head[l] += b->line[0].head[l];
    return true;
}

static int64_t most_weight_ns(const struct busy *b, const struct price_table *table)
{
    int64_t most = 0;
    for (int i = 0; i < table->class_count * table->strategy_count; i++)
        most = max_i64(most, table->prices[i].least_weight_ns);
    return min_i64(most, b->most_ns);
}

static bool make_heads(struct busy *b)
{
    size_t count = (size_t)b->layers + 1;
    int64_t *begin = arena_alloc(&b->arena, count, sizeof *begin), *end = arena_alloc(&b->arena, count, sizeof *end),
            *drain = arena_alloc(&b->arena, count, sizeof *drain);
    for (int i = 0; i < MOST_LINES; i++)
        b->line[i].head = arena_alloc(&b->arena, count, sizeof *b->line[i].head);
    if (arena_failed(&b->arena))
        return false;
    find_begins(b, begin, end);
    find_drains(b, drain);
    b->line[0].weights = true;
    if (b->p->asynchronous)
        return true; /* one line, whose head stays 0 */
    if (b->p->chain->branches)
        return settle_branches(b, begin, drain);
    least_from(begin, b->layers);
    least_from(drain, b->layers); /* apart: with branches a stage may begin with one layer and drain with another */
    settle_head(b, &b->line[0], begin);
    for (int l = 0; l < b->layers; l++)
        drain[l] += begin[l];
    settle_head(b, &b->line[1], drain);
    b->line[2].weights = true;
    memcpy(b->line[2].head, b->lowest.sum[1], count * sizeof *b->line[2].head);
    b->line[2].off_ns = most_weight_ns(b, b->p->table);
    for (int i = 0; i < b->work_count; i++)
        b->line[2].off_ns = max_i64(b->line[2].off_ns, most_weight_ns(b, b->works[i].table));
    return true;
}

static bool make_lines(struct busy *b, struct error *err)
{
    const struct graph *graph = b->p->chain->graph;
    bool later = b->p->chain->branches || (graph && !graph_is_chain(graph)) || b->p->splits || b->p->chunks > 1;
    if (!b->has_lines && !make_heads(b))
        return fail_memory(err);
    b->has_lines = true;
    b->line_count = b->p->asynchronous ? 1 : later ? 2 : 3;
    return true;
}

/* ---- cuts ---- */

/* Bounds the longest stage by the mean over stages. A stage begins at its own number of layers, or later; with a second
 * copy the other way round at the number of stages behind it, if those are fewer. */
static int64_t mean_bound(const struct busy *b, const struct line *line)
{
    int64_t sum = b->p->micro_batches * b->lowest.sum[line->weights][b->layers];
    for (int k = 0; k < b->p->stages; k++) {
        int64_t before = b->p->copies ? min_i64(k, b->p->stages - 1 - k) : k;
        sum += line->head[min_i64(before, b->layers)] - k * line->off_ns;
    }
    return ceil_div(sum, b->p->stages);
}

/* Gives when a stage of these layers ends at the earliest, by all lines. */
static int64_t end_ns(const struct busy *b, int stage, int first, int end)
{
    const struct busy_work *work = b->work_of ? &b->works[b->work_of[stage]] : &b->lowest;
    int64_t latest_ns = 0;
    for (int i = 0; i < b->line_count; i++) {
        const struct line *line = &b->line[i];
        const int64_t *sum = work->sum[line->weights];
        latest_ns = max_i64(latest_ns,
                            line->head[first] - stage * line->off_ns + b->p->micro_batches * (sum[end] - sum[first]));
    }
    return latest_ns;
}

/* Gives the latest end of a stage that begins at `first` and, by all lines, ends by step_ns. */
static int latest_end(const struct busy *b, int stage, int first, int64_t step_ns)
{
    const struct busy_work *work = b->work_of ? &b->works[b->work_of[stage]] : &b->lowest;
    int end = b->layers;
    for (int i = 0; i < b->line_count; i++) {
        const struct line *line = &b->line[i];
        const int64_t *sum = work->sum[line->weights];
        int64_t room = step_ns + stage * line->off_ns - line->head[first];
        int64_t most = room < 0 ? -1 : sum[first] + room / b->p->micro_batches;
        int at = first;
        while (at < end && sum[at + 1] <= most)
            at++;
        end = at;
    }
    return end;
}

/* What stages take that end by a moment, and the next moment by which one of them could take another layer. */
struct busy_ends {
    int64_t used_ns, next_ns;
};

/* True when all layers find a stage. Stages that take all they can leave least: heads grow no faster than work. */
static bool can_end_by(const struct busy *b, int64_t step_ns, struct busy_ends *out)
{
    int first = 0;
    *out = (struct busy_ends){ 0, INT64_MAX };
    for (int k = 0; k < b->p->stages && first < b->layers; k++) {
        int end = latest_end(b, k, first, step_ns);
        if (end > first)
            out->used_ns = max_i64(out->used_ns, end_ns(b, k, first, end));
        if (end < b->layers)
            out->next_ns = min_i64(out->next_ns, end_ns(b, k, first, end + 1));
        first = end;
    }
    return first == b->layers;
}

/* Finds the least step by bisection; from below_ns on more need not be known. */
static int64_t least_step(const struct busy *b, int64_t low, int64_t below_ns)
{
    struct busy_ends ends;
    if (b->p->chunks > 1 || b->p->chain->branches || can_end_by(b, low, &ends))
        return low;
    if (below_ns < INT64_MAX && !can_end_by(b, below_ns - 1, &ends))
        return below_ns;
    int64_t high = max_i64(low, 1);
    while (!can_end_by(b, high, &ends))
        high *= 2;
    high = ends.used_ns;
    while (low + 1 < high) { /* low cannot be, high can */
        if (can_end_by(b, low + (high - low) / 2, &ends))
            high = ends.used_ns;
        else
            low = ends.next_ns - 1;
    }
    return high;
}

/* Opens the bound of a problem, and keeps what another one of the same table has made known of its layers. */
static bool busy_open(struct busy *b, const struct busy_problem *problem, struct error *err)
{
    b->p = problem;
    if (b->table == problem->table && b->asynchronous == problem->asynchronous &&
        b->micro_batches == problem->micro_batches && !price_is_by_stage(problem->table))
        return true;
    arena_free(&b->arena);
    *b = (struct busy){ .p = problem,
                        .table = problem->table,
                        .asynchronous = problem->asynchronous,
                        .layers = problem->chain->layer_count,
                        .micro_batches = problem->micro_batches,
                        .most_ns = price_most_least_ns(problem->chain->layer_count, problem->micro_batches) };
    return list_works(b) || fail_memory(err);
}

struct busy *busy_new(void)
{
    return calloc(1, sizeof(struct busy));
}

void busy_free(struct busy *b)
{
    if (b)
        arena_free(&b->arena);
    free(b);
}

static bool find_bound(int64_t *out, struct busy *b, const struct busy_problem *problem, int64_t below_ns,
                       struct error *err)
{
    if (!busy_open(b, problem, err))
        return false;
    *out = ceil_div(problem->micro_batches * b->lowest.sum[1][b->layers], problem->stages);
    if (problem->several || *out >= below_ns)
        return true;
    if (!make_lines(b, err))
        return false;
    for (int i = 0; i < b->line_count; i++)
        *out = max_i64(*out, mean_bound(b, &b->line[i]));
    if (*out < below_ns)
        *out = least_step(b, *out, below_ns);
    return true;
}

bool busy_bound(int64_t *out, const struct busy_problem *problem, int64_t below_ns, struct busy *known,
                struct error *err)
{
    struct busy own = { 0 };
    *out = 0;
    bool good = find_bound(out, known ? known : &own, problem, below_ns, err);
    arena_free(&own.arena);
    return good;
}

bool busy_bound_of_cut(int64_t *out, const struct busy_problem *problem, const int *first_layer, struct error *err)
{
    struct busy b = { 0 };
    bool good = busy_open(&b, problem, err) && make_lines(&b, err);
    *out = 0;
    for (int k = 0; good && k < problem->stages; k++) {
        int first = first_layer[k], end = k + 1 < problem->stages ? first_layer[k + 1] : b.layers;
        if (end > first)
            *out = max_i64(*out, end_ns(&b, k, first, end));
    }
    arena_free(&b.arena);
    return good;
}
