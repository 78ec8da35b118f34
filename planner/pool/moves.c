/* A candidate's plan changed a little: cuts moved by a layer, one to another place, strategies of a piece or of all,
 * another configuration with the same cuts and strategies. Strategies keep their places. */
#include "models/model.h"
#include "planner/program/schedule.h"
#include "planner/estimate/assemble.h"
#include "planner/pool/moves.h"
#include "planner/pool/pool_parts.h"
#include <stdlib.h>
#include <string.h>

/* Counts what the plan's stages hold, and what the formula says of it: INT64_MAX when it does not fit by that. */
static bool count_plan(struct run *run, struct candidate *c)
{
    const struct plan *plan = c->plan;
    const struct chain *chain = &run->bench.chain;
    const struct config *config = &run->configs[c->config];
    int strategies = c->table->strategy_count, block = c->table->class_count * strategies,
        pieces = config_pieces(config);
    struct partition_plan solution = { .first_layer = arena_alloc(&run->arena, (size_t)pieces, sizeof(int)) };
    int *count = calloc((size_t)pieces * (size_t)block, sizeof *count);
    bool good = solution.first_layer && count;
    for (int l = 0, k = 0, place = 0; good && l < plan->layer_count; l++) {
        int layer = plan_layer_at(plan, l), pick = price_strategy(c->table, &plan->layers[l]);
        if (k + 1 < pieces && rank_piece(config, plan, k + 1).first == l)
            solution.first_layer[++k] = place;
        count[k * block + chain->class_of[layer] * strategies + pick]++;
        place = chain_extend(chain, place, layer);
    }
    good = good && partition_set_counts(&solution, &run->arena, count, pieces, block);
    free(count);
    c->solution = solution;
    return good ? rank_formula(run, c, c->capacity_bytes, &c->solution.step_ns) : fail_memory(run->err);
}

/* Copies the candidate, whose plan is then *out's own. */
static bool copy(struct run *run, const struct candidate *from, struct candidate *out)
{
    *out = *from;
    out->plan = plan_copy(from->plan);
    return out->plan || fail_memory(run->err);
}

/* Leaves *out its plan if it was changed, is not among the first `kept`, and fits by the formula; else frees it. */
static bool finish(struct run *run, bool changed, int kept, struct candidate *out)
{
    bool good = true, wanted = changed;
    if (wanted) {
        out->plan_hash = rank_plan_hash(out->plan);
        wanted = rank_is_new(run, kept, out);
    }
    if (wanted)
        good = count_plan(run, out);
    if (!good || !wanted || out->solution.step_ns == INT64_MAX) {
        plan_free(out->plan);
        out->plan = NULL;
    }
    return good;
}

/* ---- cuts ---- */

int cut_move_steps(const struct config *config)
{
    int cuts = config_pieces(config) - 1;
    return cuts * (cuts + 1);
}

struct cut_move cut_move_step(const struct config *config, int index)
{
    int places = config_pieces(config) - 1, width = 1, place = index / 2;
    for (; place >= places; place -= places--)
        width++;
    return (struct cut_move){ place + 1, place + width, index % 2 == 0 ? -1 : 1 };
}

static int piece_at(const struct config *config, const struct plan *plan, int place)
{
    int piece = config_pieces(config) - 1;
    while (rank_piece(config, plan, piece).first > place)
        piece--;
    return piece;
}

int cut_move_jumps(const struct plan *plan)
{
    return 2 * plan->layer_count;
}

struct cut_move cut_move_jump(const struct config *config, const struct plan *plan, int index)
{
    int place = index / 2, cut = piece_at(config, plan, place) + index % 2;
    if (cut == 0 || cut == config_pieces(config))
        return (struct cut_move){ 1, 1, 0 };
    return (struct cut_move){ cut, cut, place - rank_piece(config, plan, cut).first };
}

/* Moves the cuts. False when a piece would have no layer left, or when nothing moves. */
static bool shift_cuts(const struct config *config, struct plan *plan, const struct cut_move *move)
{
    for (int piece = move->first - 1; piece <= move->last; piece++) {
        struct layer_range layers = rank_piece(config, plan, piece);
        layers.first += piece >= move->first ? move->by : 0;
        layers.count += piece == move->first - 1 ? move->by : piece == move->last ? -move->by : 0;
        if (layers.count <= 0)
            return false;
        schedule_set_piece(plan, piece, layers);
    }
    return move->by != 0;
}

bool moves_cuts(struct run *run, const struct candidate *from, const struct cut_move *move, int kept,
                struct candidate *out)
{
    return copy(run, from, out) &&
           finish(run, !run->bench.chain.cut && shift_cuts(&run->configs[from->config], out->plan, move), kept, out);
}

/* Layers of the block that comes most often. */
static int block_layers(const struct model *model)
{
    const struct model_block *most = model->blocks;
    for (int b = 1; b < model->block_count; b++)
        most = model->blocks[b].count > most->count ? &model->blocks[b] : most;
    return most->layer_count;
}

static int count_steps(const struct run *run, const struct candidate *c)
{
    return run->bench.chain.cut ? 0 : cut_move_steps(&run->configs[c->config]);
}

static bool make_step(struct run *run, const struct candidate *from, int index, int kept, struct candidate *out)
{
    struct cut_move move = cut_move_step(&run->configs[from->config], index);
    return moves_cuts(run, from, &move, kept, out);
}

/* A cut that stands well within blocks stands well one block further, and worse in between. */
static int count_blocks(const struct run *run, const struct candidate *c)
{
    return block_layers(run->bench.model) > 1 ? count_steps(run, c) : 0;
}

static bool make_block(struct run *run, const struct candidate *from, int index, int kept, struct candidate *out)
{
    struct cut_move move = cut_move_step(&run->configs[from->config], index);
    move.by *= block_layers(run->bench.model);
    return moves_cuts(run, from, &move, kept, out);
}

const struct move_kind moves_by_steps = { count_steps, make_step, true };
const struct move_kind moves_by_blocks = { count_blocks, make_block, false };

/* Boyer and Moore's vote (1991) names the only amount that more than half of the layers may hand on. */
bool moves_jump(const struct run *run)
{
    const struct graph *graph = run->bench.graph;
    int64_t usual = 0, count = 0;
    if (run->bench.chain.cut || !run_is_small(run))
        return false;
    if (run->bench.chain.branches)
        return true;
    for (int l = 0; l < graph->layer_count; l++) {
        int64_t own = layer_elements(graph, l);
        usual = count == 0 ? own : usual;
        count += own == usual ? 1 : -1;
    }
    count = 0;
    for (int l = 0; l < graph->layer_count; l++)
        count += layer_elements(graph, l) == usual;
    return 2 * count <= graph->layer_count;
}

/* Counts the jumps that a cut may take, since a better place for it may lie behind worse ones. */
static int count_jumps(const struct run *run, const struct candidate *c)
{
    return moves_jump(run) && c->plan->stage_count > 1 ? cut_move_jumps(c->plan) : 0;
}

static bool make_jump(struct run *run, const struct candidate *from, int index, int kept, struct candidate *out)
{
    struct cut_move move = cut_move_jump(&run->configs[from->config], from->plan, index);
    if (move.by < -1 || move.by > 1)
        return moves_cuts(run, from, &move, kept, out);
    *out = *from; /* it is a step, or none */
    out->plan = NULL;
    return true;
}

const struct move_kind moves_by_jumps = { count_jumps, make_jump, false };

/* ---- orders ---- */

/* Gives each layer its place anew: those between come one place later. */
static void move_layer(struct plan *plan, int from, int to)
{
    int layer = plan->order[from];
    struct plan_layer own = plan->layers[from];
    memmove(&plan->order[to + 1], &plan->order[to], (size_t)(from - to) * sizeof *plan->order);
    memmove(&plan->layers[to + 1], &plan->layers[to], (size_t)(from - to) * sizeof *plan->layers);
    plan->order[to] = layer;
    plan->layers[to] = own;
}

/* True when all that the layer reads is before the place. */
static bool may_stand(const struct graph *graph, const struct plan *plan, int layer, int place)
{
    const struct graph_layer *own = &graph->layers[layer];
    int met = 0;
    for (int l = 0; l < place; l++)
        for (int i = 0; i < own->input_count; i++)
            met += plan_layer_at(plan, l) == own->input_layers[i];
    return met == own->input_count;
}

/* Makes the layer at the place the last of an earlier piece. False when it may not be, or its own would be empty. */
static bool bring_layer(const struct config *config, const struct graph *graph, struct plan *plan, int place, int piece)
{
    struct layer_range target = rank_piece(config, plan, piece);
    int end = target.first + target.count, own = piece_at(config, plan, place);
    if (own <= piece || rank_piece(config, plan, own).count == 1 ||
        !may_stand(graph, plan, plan_layer_at(plan, place), end))
        return false;
    move_layer(plan, place, end);
    for (int k = piece; k <= own; k++) {
        struct layer_range layers = rank_piece(config, plan, k);
        layers.first += k > piece;
        layers.count += (k == piece) - (k == own);
        schedule_set_piece(plan, k, layers);
    }
    return true;
}

bool moves_join_tied(struct run *run, const struct candidate *from, int kept, struct candidate *out)
{
    const struct config *config = &run->configs[from->config];
    const struct chain *chain = &run->bench.chain;
    bool changed = false;
    int first = -1;
    if (!copy(run, from, out))
        return false;
    /* the plan gets an order of its own, which may be changed, even where it has the file's */
    int *order = arena_alloc(&out->plan->arena, (size_t)out->plan->layer_count, sizeof *order);
    if (!order) {
        plan_free(out->plan);
        return fail_memory(run->err);
    }
    for (int l = 0; l < out->plan->layer_count; l++)
        order[l] = plan_layer_at(out->plan, l);
    out->plan->order = order;
    for (int l = 0; l < out->plan->layer_count && !chain->cut; l++) {
        int layer = out->plan->order[l];
        if (!chain_is_tied(chain, layer))
            continue;
        if (first < 0)
            first = piece_at(config, out->plan, l);
        else if (config_stage(config, piece_at(config, out->plan, l)) != config_stage(config, first))
            changed |= bring_layer(config, chain->graph, out->plan, l, first);
    }
    changed = changed && plan_set_order(out->plan, out->plan->order);
    return finish(run, changed, kept, out);
}

/* ---- strategies ---- */

enum { ZEROS = 4, KINDS = ZEROS + RECOMPUTE_COUNT };

int strategy_move_count(const struct config *config)
{
    int pieces = config_pieces(config);
    return (pieces > 1 ? pieces + 1 : 1) * KINDS;
}

struct strategy_move strategy_move_at(int index)
{
    int kind = index % KINDS;
    bool zero = kind < ZEROS;
    return (struct strategy_move){ index / KINDS - 1, zero ? kind : -1, zero ? -1 : kind - ZEROS };
}

/* Sets the layers' strategies; those without such a one stay as they are. True: any is changed. */
static bool set_strategies(const struct candidate *c, const struct config *config, const struct strategy_move *move)
{
    struct plan *plan = c->plan;
    struct layer_range layers = { 0, plan->layer_count };
    bool changed = false;
    if (move->piece >= 0)
        layers = rank_piece(config, plan, move->piece);
    for (int l = layers.first; l < layers.first + layers.count; l++) {
        struct plan_layer own = plan->layers[l];
        own.zero = (int8_t)(move->zero >= 0 ? move->zero : own.zero);
        own.recompute = (int8_t)(move->recompute >= 0 ? move->recompute : own.recompute);
        if (plan_layer_equal(&own, &plan->layers[l]) || price_strategy(c->table, &own) < 0)
            continue;
        plan->layers[l] = own;
        changed = true;
    }
    return changed;
}

static int count_strategies(const struct run *run, const struct candidate *c)
{
    return strategy_move_count(&run->configs[c->config]);
}

static bool make_strategy(struct run *run, const struct candidate *from, int index, int kept, struct candidate *out)
{
    struct strategy_move move = strategy_move_at(index);
    return copy(run, from, out) && finish(run, set_strategies(out, &run->configs[from->config], &move), kept, out);
}

const struct move_kind moves_by_strategies = { count_strategies, make_strategy, false };

/* ---- configurations ---- */

/* Puts the candidate's layers into the other's order, each in its piece and with its strategy, as far as the mesh lets
 * it. False when there is no such strategy. */
static bool take_layers(const struct run *run, struct candidate *c, const struct candidate *from)
{
    const struct config *config = &run->configs[c->config], *other = &run->configs[from->config];
    for (int k = 0; k < config_pieces(config); k++)
        schedule_set_piece(c->plan, k, rank_piece(other, from->plan, k));
    for (int l = 0; l < c->plan->layer_count; l++) {
        struct plan_layer own = from->plan->layers[l];
        memcpy(own.dim, c->plan->layers[l].dim, sizeof own.dim);
        c->plan->layers[l] = own;
        if (price_strategy(c->table, &own) < 0)
            return false;
    }
    return true;
}

bool moves_config(struct run *run, const struct candidate *from, int config, int kept, struct candidate *out)
{
    *out = *from;
    out->config = config;
    out->plan = NULL;
    if (!workbench_table(&run->bench, &run->configs[config], false, &out->table, run->err))
        return false;
    if (!out->table || config_pieces(&run->configs[config]) != config_pieces(&run->configs[from->config]))
        return true;
    if (!reserve_set(run, out, from->reserve_bytes))
        return false;
    out->plan = assemble_config(run->bench.space, &run->configs[config], run->bench.graph);
    if (!out->plan || (from->plan->order && !plan_set_order(out->plan, from->plan->order))) {
        plan_free(out->plan);
        return fail_memory(run->err);
    }
    bool taken = take_layers(run, out, from);
    rank_settle_prefetch(run, out->plan);
    return finish(run, taken, kept, out);
}
