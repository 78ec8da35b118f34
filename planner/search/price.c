/* Prices by lowering. The folded model, each block twice, is lowered in one stage with two micro-batches; every layer's
 * share of the program is its price. What the search adds up is therefore what lowering, layout and cost say, and
 * nothing is written twice.
 *
 * Compute path: instructions of the compute and tp lanes on a clock of their own, other lanes taking no time; a layer's
 * price is by how much it moves the clock forward in the first micro-batch. dp lane: sums; a bucket is shared out over
 * its weights by bytes. What the second micro-batch has beyond the first happens once per step. */
#include "planner/search/price.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/program/lives.h"
#include "planner/program/schedule.h"
#include <stdlib.h>
#include <string.h>

enum { PRICED_MICRO_BATCHES = 2 };

/* One lowered strategy, taken apart. */
struct sample {
    const struct graph *graph;
    const struct plan *plan;
    const struct facts *facts;
    struct program *program;
    const int *weight_layer;      /* (weights) first layer that uses it */
    struct layer_price *by_layer; /* (layers) */
    int64_t *once_ns;             /* (layers) reductions of the second micro-batch and after */
    struct arena arena;
};

/* Each block at most `copies` times. */
static struct model folded_model(const struct model *model, struct model_block *blocks, int copies)
{
    struct model folded = *model;
    for (int b = 0; b < model->block_count; b++) {
        blocks[b] = model->blocks[b];
        blocks[b].count = (int)min_i64(copies, blocks[b].count);
    }
    folded.blocks = blocks;
    return folded;
}

/* Two copies give a layer its like before and behind it; for a bound one is enough, unless a class appears only in the
 * second. */
static bool folded_graph(struct graph **out, const struct model *model, struct model_block *blocks, int class_count,
                         int64_t sequence, const struct price_key *key, struct error *err)
{
    int64_t batch = PRICED_MICRO_BATCHES * key->data * key->micro;
    for (int copies = key->bound_only ? 1 : 2; copies <= 2; copies++) {
        struct model folded = folded_model(model, blocks, copies);
        struct graph *graph = NULL;
        if (!graph_build(&graph, &folded, batch, sequence, key->vocab_multiple, err))
            return false;
        if (graph->class_count == class_count) {
            *out = graph;
            return true;
        }
        graph_free(graph);
    }
    return fail_kind(err, ERROR_BUG, "search: the folded model does not have all %d classes of layers", class_count);
}

static struct plan *make_plan(const struct graph *graph, int stages, enum dtype dtype, const struct price_key *key,
                              int64_t bucket_bytes, struct strategy strategy)
{
    struct plan *plan = plan_new(stages, graph->layer_count);
    if (!plan)
        return NULL;
    plan->batch = graph->batch;
    plan->sequence = graph->sequence;
    plan->vocab_multiple = key->vocab_multiple;
    plan->dtype = dtype;
    plan->micro_batch_count = PRICED_MICRO_BATCHES;
    plan->atom_count = 2;
    plan->prefetch = key->prefetch;
    plan->bucket_bytes = bucket_bytes;
    plan->rank_count = stages * key->tensor * key->data;
    for (int s = 0; s < stages; s++)
        plan->stages[s] = (struct plan_stage){ .first_layer = s,
                                               .layer_count = s + 1 < stages ? 1 : graph->layer_count - s,
                                               .first_rank = s * key->tensor * key->data,
                                               .atom = { key->data, key->tensor, 1, 1 } };
    for (int l = 0; l < graph->layer_count; l++) {
        plan->layers[l].dim[0] = DIM_dp;
        plan->layers[l].dim[1] = (int8_t)key->tensor_dimension;
        plan->layers[l].zero = strategy.zero;
        plan->layers[l].recompute = strategy.recompute;
    }
    return plan;
}

/* ---- time ---- */

static int layer_of(const struct sample *s, const struct instr *instr)
{
    return instr->layer >= 0 && instr->layer < s->graph->layer_count ? instr->layer : 0;
}

static bool on_path(const struct instr *instr)
{
    return instr->lane == LANE_COMPUTE || instr->lane == LANE_TP;
}

static bool is_forward(const struct instr *instr)
{
    return instr->phase == PHASE_FORWARD && !instr->again;
}

/* What a weight's transfer serves is its layer; of a bucket each weight pays its share. kind: where the share goes. */
enum share_kind { SHARE_GATHER_FORWARD, SHARE_GATHER_BACKWARD, SHARE_REDUCE, SHARE_ONCE, SHARE_STEP };
static void add_share(struct sample *s, int layer, enum share_kind kind, int64_t ns)
{
    struct layer_price *price = &s->by_layer[layer];
    switch (kind) {
    case SHARE_GATHER_FORWARD:
        price->gather_forward_ns += ns;
        break;
    case SHARE_GATHER_BACKWARD:
        price->gather_backward_ns += ns;
        break;
    case SHARE_REDUCE:
        price->reduce_ns += ns;
        break;
    case SHARE_ONCE:
        s->once_ns[layer] += ns;
        break;
    case SHARE_STEP:
        price->step_ns += ns;
        break;
    }
}

static int pair_layer(const struct sample *s, const struct instr *instr, int pair, int64_t *bytes)
{
    const struct pair *p = &s->program->pairs[instr->pair_first + pair];
    const struct buffer *buffer = &s->program->buffers[p->destination >= 0 ? p->destination : p->source];
    *bytes = max_i64(buffer->bytes, 1);
    return buffer->is_weight ? s->weight_layer[buffer->id] : layer_of(s, instr);
}

static void share_out(struct sample *s, const struct instr *instr, enum share_kind kind, int64_t ns)
{
    int64_t total = 0, bytes = 0;
    for (int i = 0; i < instr->pair_count; i++) {
        pair_layer(s, instr, i, &bytes);
        total += bytes;
    }
    for (int i = 0; i < instr->pair_count; i++) {
        int layer = pair_layer(s, instr, i, &bytes);
        add_share(s, layer, kind,
                  instr->pair_count == 1 ? ns : (int64_t)((double)ns * (double)bytes / (double)total + 0.5));
    }
}

static void price_transfer(struct sample *s, const struct instr *instr, int64_t ns)
{
    if (instr->op != OP_ALL_GATHER)
        share_out(s, instr, instr->micro == 0 && instr->phase != PHASE_STEP ? SHARE_REDUCE : SHARE_ONCE, ns);
    else if (instr->phase == PHASE_STEP)
        share_out(s, instr, SHARE_STEP, ns);
    else if (instr->micro == 0)
        share_out(s, instr, is_forward(instr) ? SHARE_GATHER_FORWARD : SHARE_GATHER_BACKWARD, ns);
}

static bool reduces_each_time(const struct instr *instr)
{
    return instr->lane == LANE_DP && instr->op != OP_ALL_GATHER && instr->micro >= 0 && instr->phase != PHASE_STEP;
}

/* Walks the list on a clock on which only compute and tp take time, and reductions too if asked: what a layer moves the
 * clock by is its path. Layout lets one gradient's bytes serve the next, so backward may have to wait for reductions;
 * the waits say so. */
static bool walk(struct sample *s, const int64_t *duration, bool reductions)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t *finish = arena_alloc(&s->arena, (size_t)list->instr_count, sizeof *finish), lane[LANE_COUNT] = { 0 },
            clock = 0;
    for (int i = 0; finish && i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        int64_t ns = duration[i], start = lane[instr->lane];
        for (int w = 0; w < instr->wait_count; w++)
            start = max_i64(start, finish[list->waits[instr->wait_first + w]]);
        finish[i] = lane[instr->lane] = start + (on_path(instr) || (reductions && reduces_each_time(instr)) ? ns : 0);
        if (!on_path(instr)) {
            if (!reductions)
                price_transfer(s, instr, ns);
            continue;
        }
        int64_t moved = max_i64(0, finish[i] - clock);
        clock += moved;
        struct layer_price *price = &s->by_layer[layer_of(s, instr)];
        bool step = instr->phase == PHASE_STEP || instr->micro < 0,
             forward = !step && instr->micro == 0 && is_forward(instr);
        if (step && !reductions)
            price->step_ns += moved;
        else if (forward && !reductions)
            price->forward_ns += moved;
        else if (!step && !forward && instr->micro == 0 && reductions)
            price->backward_ns += moved;
    }
    return finish != NULL;
}

static bool price_times(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t *duration = arena_alloc(&s->arena, (size_t)list->instr_count, sizeof *duration);
    for (int i = 0; duration && i < list->instr_count;
         i++) /* the norm's exchange is over all ranks of the plan, not of this program */
        duration[i] =
            list->instrs[i].op == OP_NORM_REDUCE ? 0 : cost_instr_ns(s->facts, s->program, 0, &list->instrs[i]);
    if (!duration || !walk(s, duration, false) || !walk(s, duration, true))
        return false;
    for (int l = 0; l < s->graph->layer_count; l++)
        s->by_layer[l].reduce_last_ns = max_i64(0, s->once_ns[l] - s->by_layer[l].reduce_ns);
    return true;
}

/* ---- memory ---- */

/* In-place reductions: the destination takes over the source's very bytes, which must not count twice. */
static void skip_taken_over(const struct sample *s, struct life *lives)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int i = 0; i < list->instr_count; i++)
        for (int k = 0; k < list->instrs[i].pair_count; k++) {
            const struct pair *pair = &s->program->pairs[list->instrs[i].pair_first + k];
            if (pair->source < 0 || pair->destination < 0 || pair->source == pair->destination)
                continue;
            const struct buffer *a = &s->program->buffers[pair->source], *b = &s->program->buffers[pair->destination];
            if (a->offset == b->offset && lives[pair->source].last == i && lives[pair->destination].first == i &&
                lives[pair->destination].last > i) {
                lives[pair->destination].first = i + 1;
                lives[pair->destination].held =
                    (int)max_i64(lives[pair->destination].held, lives[pair->source].held);
                lives[pair->source].held = i;
            }
        }
}

static int first_backward(const struct stage_program *list)
{
    int i = 0;
    while (i < list->instr_count &&
           !(list->instrs[i].micro == 0 && (list->instrs[i].phase != PHASE_FORWARD || list->instrs[i].again)))
        i++;
    return i;
}

static void price_persistent(struct sample *s)
{
    for (int b = 0; b < s->program->buffer_count; b++) {
        const struct buffer *buffer = &s->program->buffers[b];
        if (!buffer->persistent || !buffer->is_weight)
            continue;
        int first = s->weight_layer[buffer->id];
        s->by_layer[first].weight_bytes += buffer->bytes;
        for (int segment = 0; segment < s->graph->segment_count; segment++) {
            const struct segment *user = &s->graph->segments[segment];
            for (int i = 0; i < user->weight_count; i++)
                if (user->weight[i].id == buffer->id && user->layer != first)
                    s->by_layer[user->layer].tied_bytes += buffer->bytes;
        }
    }
}

/* saved: alive when the first micro-batch turns around; the rest of what lives at an instruction is transient. */
static bool price_temporary(struct sample *s, struct error *err)
{
    const struct stage_program *list = &s->program->stages[0];
    struct life *lives = arena_alloc(&s->arena, (size_t)s->program->buffer_count, sizeof *lives);
    int64_t *change = arena_alloc(&s->arena, (size_t)list->instr_count + 2, sizeof *change), alive = 0;
    int turn = first_backward(list);
    if (!lives || !change)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory while pricing layers");
    if (!program_lives(s->program, lives, err))
        return false;
    skip_taken_over(s, lives);
    for (int b = 0; b < s->program->buffer_count; b++) {
        const struct buffer *buffer = &s->program->buffers[b];
        struct life life = lives[b];
        if (buffer->persistent || life.first < 0)
            continue;
        if (!buffer->is_weight && life.first < turn && life.last >= turn) {
            s->by_layer[layer_of(s, &list->instrs[life.first])].saved_bytes += buffer->bytes;
            continue;
        }
        change[life.first] += buffer->bytes;
        change[life.held + 1] -= buffer->bytes;
    }
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        alive += change[i];
        struct layer_price *price = &s->by_layer[layer_of(s, instr)];
        if (instr->micro == 0)
            price->transient_bytes = max_i64(price->transient_bytes, alive);
    }
    return true;
}

/* ---- the table ---- */

static bool sample_arrays(struct sample *s)
{
    size_t layers = (size_t)s->graph->layer_count;
    s->by_layer = arena_alloc(&s->arena, layers, sizeof *s->by_layer);
    s->once_ns = arena_alloc(&s->arena, layers, sizeof *s->once_ns);
    return s->by_layer && s->once_ns;
}

/* Layers of one class differ only at the ends of the chain: the dearer one speaks for all. */
static void merge_price(struct layer_price *into, const struct layer_price *p)
{
    *into = (struct layer_price){
        .forward_ns = max_i64(into->forward_ns, p->forward_ns),
        .backward_ns = max_i64(into->backward_ns, p->backward_ns),
        .gather_forward_ns = max_i64(into->gather_forward_ns, p->gather_forward_ns),
        .gather_backward_ns = max_i64(into->gather_backward_ns, p->gather_backward_ns),
        .reduce_ns = max_i64(into->reduce_ns, p->reduce_ns),
        .reduce_last_ns = max_i64(into->reduce_last_ns, p->reduce_last_ns),
        .step_ns = max_i64(into->step_ns, p->step_ns),
        .weight_bytes = max_i64(into->weight_bytes, p->weight_bytes),
        .tied_bytes = max_i64(into->tied_bytes, p->tied_bytes),
        .saved_bytes = max_i64(into->saved_bytes, p->saved_bytes),
        .transient_bytes = max_i64(into->transient_bytes, p->transient_bytes),
    };
}

/* Gathers at the place of use stand on the compute path: nothing hides them. */
static struct layer_price without_prefetch(struct layer_price p)
{
    p.forward_ns += p.gather_forward_ns;
    p.backward_ns += p.gather_backward_ns;
    p.gather_forward_ns = p.gather_backward_ns = 0;
    return p;
}

static bool price_strategy(struct sample *s, struct price_table *table, struct layer_price *prices,
                           const struct price_key *key, struct error *err)
{
    bool good =
        program_lower(&s->program, s->graph, s->plan, err) &&
        (key->bound_only || program_layout_quick(s->program, err));
    if (good && !(sample_arrays(s) && price_times(s)))
        good = fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory while pricing layers");
    good = good && (key->bound_only || price_temporary(s, err));
    if (good) {
        price_persistent(s);
        table->base_bytes = max_i64(table->base_bytes, s->program->stages[0].scratch_bytes);
        for (int l = 0; l < s->graph->layer_count; l++) {
            struct layer_price price = key->prefetch > 0 ? s->by_layer[l] : without_prefetch(s->by_layer[l]);
            merge_price(&prices[s->graph->layers[l].class_index], &price);
        }
    }
    program_free(s->program);
    arena_free(&s->arena);
    return good;
}

/* The first layer's output, sent to a second stage by the same lowering. */
static bool price_send(struct price_table *table, const struct graph *graph, enum dtype dtype,
                       const struct price_key *key, int64_t bucket_bytes, const struct facts *facts, struct error *err)
{
    if (key->bound_only || key->without_send || graph->layer_count < 2 ||
        2 * key->tensor * key->data > facts->cluster->device_count)
        return true;
    struct program *program = NULL;
    struct plan *plan = make_plan(graph, 2, dtype, key, bucket_bytes, (struct strategy){ 0, RECOMPUTE_NONE });
    bool good = plan ? plan_check(plan, graph, err) && program_lower(&program, graph, plan, err)
                     : fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int i = 0; good && i < program->stages[0].instr_count; i++) {
        const struct instr *instr = &program->stages[0].instrs[i];
        if (instr->op == OP_SEND && instr->micro == 0)
            table->send_ns += cost_instr_ns(facts, program, 0, instr);
    }
    program_free(program);
    plan_free(plan);
    return good;
}

static int *weight_layers(const struct graph *graph, struct arena *arena)
{
    int *layer = arena_alloc(arena, (size_t)graph->weight_count, sizeof *layer);
    for (int s = graph->segment_count - 1; layer && s >= 0; s--)
        for (int i = 0; i < graph->segments[s].weight_count; i++)
            layer[graph->segments[s].weight[i].id] = graph->segments[s].layer;
    return layer;
}

/* What ZeRO changes and what recomputation changes are added up: fewer programs, exact where they do not meet in one
 * kernel. */
static int64_t both(int64_t zero, int64_t recompute, int64_t neither)
{
    return max_i64(0, zero + recompute - neither);
}

struct layer_price price_combine(const struct layer_price *z, const struct layer_price *r, const struct layer_price *n)
{
    return (struct layer_price){
        .forward_ns = both(z->forward_ns, r->forward_ns, n->forward_ns),
        .backward_ns = both(z->backward_ns, r->backward_ns, n->backward_ns),
        .gather_forward_ns = both(z->gather_forward_ns, r->gather_forward_ns, n->gather_forward_ns),
        .gather_backward_ns = both(z->gather_backward_ns, r->gather_backward_ns, n->gather_backward_ns),
        .reduce_ns = both(z->reduce_ns, r->reduce_ns, n->reduce_ns),
        .reduce_last_ns = both(z->reduce_last_ns, r->reduce_last_ns, n->reduce_last_ns),
        .step_ns = both(z->step_ns, r->step_ns, n->step_ns),
        .weight_bytes = both(z->weight_bytes, r->weight_bytes, n->weight_bytes),
        .tied_bytes = both(z->tied_bytes, r->tied_bytes, n->tied_bytes),
        .saved_bytes = both(z->saved_bytes, r->saved_bytes, n->saved_bytes),
        .transient_bytes = both(z->transient_bytes, r->transient_bytes, n->transient_bytes),
    };
}

struct samples {
    bool known[4][RECOMPUTE_COUNT];
    struct layer_price *prices[4][RECOMPUTE_COUNT];
}; /* (classes) each */

static bool sample_strategy(struct samples *samples, struct price_table *table, const struct graph *graph,
                            enum dtype dtype, int zero, int recompute, const int *weight_layer,
                            const struct price_key *key, int64_t bucket_bytes, const struct facts *facts,
                            struct arena *scratch, struct error *err)
{
    if (samples->known[zero][recompute])
        return true;
    samples->known[zero][recompute] = true;
    samples->prices[zero][recompute] = arena_alloc(scratch, (size_t)table->class_count, sizeof(struct layer_price));
    struct strategy strategy = { (int8_t)zero, (int8_t)recompute };
    struct plan *plan = make_plan(graph, 1, dtype, key, bucket_bytes, strategy);
    struct sample sample = { .graph = graph, .plan = plan, .facts = facts, .weight_layer = weight_layer };
    bool good =
        plan && samples->prices[zero][recompute]
            ? plan_check(plan, graph, err) && price_strategy(&sample, table, samples->prices[zero][recompute], key, err)
            : fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    plan_free(plan);
    return good;
}

static bool price_all(struct price_table *table, const struct graph *graph, enum dtype dtype,
                      const struct price_key *key, int64_t bucket_bytes, const struct facts *facts, struct error *err)
{
    struct arena scratch = { 0 };
    struct samples samples = { 0 };
    int *weight_layer = weight_layers(graph, &scratch);
    bool good = weight_layer || fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    for (int i = 0; good && i < table->strategy_count; i++) {
        int zero = table->strategies[i].zero, recompute = table->strategies[i].recompute;
        good = sample_strategy(&samples, table, graph, dtype, 0, RECOMPUTE_NONE, weight_layer, key, bucket_bytes, facts,
                               &scratch, err) &&
               sample_strategy(&samples, table, graph, dtype, zero, RECOMPUTE_NONE, weight_layer, key, bucket_bytes,
                               facts, &scratch, err) &&
               sample_strategy(&samples, table, graph, dtype, 0, recompute, weight_layer, key, bucket_bytes, facts,
                               &scratch, err);
        for (int c = 0; good && c < table->class_count; c++)
            table->prices[c * table->strategy_count + i] =
                price_combine(&samples.prices[zero][RECOMPUTE_NONE][c], &samples.prices[0][recompute][c],
                              &samples.prices[0][RECOMPUTE_NONE][c]);
    }
    arena_free(&scratch);
    return good && price_send(table, graph, dtype, key, bucket_bytes, facts, err);
}

bool price_layers(struct price_table *out, struct arena *arena, const struct model *model, int class_count,
                  int64_t sequence, enum dtype dtype, const struct price_key *key, const struct strategy *strategies,
                  int strategy_count, int64_t bucket_bytes, const struct facts *facts, struct error *err)
{
    struct price_table table = { .class_count = class_count,
                                 .strategy_count = strategy_count,
                                 .strategies = strategies };
    struct model_block *blocks = arena_alloc(arena, (size_t)model->block_count, sizeof *blocks);
    struct graph *graph = NULL;
    table.prices = arena_alloc(arena, (size_t)(class_count * strategy_count), sizeof *table.prices);
    if (!blocks || !table.prices)
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory for prices");
    bool good = folded_graph(&graph, model, blocks, class_count, sequence, key, err);
    good = good && price_all(&table, graph, dtype, key, bucket_bytes, facts, err);
    graph_free(graph);
    if (good)
        *out = table;
    return good;
}
