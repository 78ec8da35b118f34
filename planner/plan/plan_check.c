/* What makes a plan illegal for a graph: plan_check(). Messages name the place, what was expected, what was found. */
#include "base/num.h"
#include "planner/plan/plan.h"
#include "planner/program/schedule.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Checks that a replica that takes turns is its predecessor once more. */
static bool check_turn(const struct plan *plan, int s, struct error *err)
{
    const struct plan_stage *stage = &plan->stages[s], *before = stage - 1;
    if (plan->chunk_count > 1)
        return fail(err,
                    "plan: stage %d: schedule %s runs several chunks per stage, found replicas that take turns; split "
                    "the batch (dp) instead",
                    s, schedules[plan->schedule]->name);
    if (s == 0 || stage->turn != before->turn + 1 || stage->first_layer != before->first_layer ||
        stage->layer_count != before->layer_count || memcmp(stage->atom, before->atom, sizeof stage->atom) != 0 ||
        stage->first_rank != plan_stage_next_rank(plan, s))
        return fail(err,
                    "plan: stage %d: expected replica %d to follow its like with equal layers and atoms, on the "
                    "next ranks",
                    s, stage->turn);
    return true;
}

/* Checks one round of chunks, which begins at *layer. */
static bool check_round(const struct plan *plan, int chunk, int *layer, struct error *err)
{
    for (int i = 0; i < plan->stage_count; i++) {
        int s = schedule_stage(schedules[plan->schedule], plan->stage_count, chunk * plan->stage_count + i);
        struct layer_range range = plan_stage_chunk(plan, s, chunk);
        if (plan->stages[s].turn != 0) {
            if (!check_turn(plan, s, err))
                return false;
            continue;
        }
        if (range.first != *layer || range.count < 1 || range.count > plan->layer_count - *layer)
            return fail(err,
                        "plan: stage %d: expected chunk %d of it to begin at layer %d and to hold 1 to %d layers, "
                        "found %d layers from %d",
                        s, chunk, *layer, plan->layer_count - *layer, range.count, range.first);
        *layer += range.count;
    }
    return true;
}

/* Checks that both ends of a copy's stage, which compute the same and exchange gradients, are equal. */
static bool check_copies(const struct plan *plan, struct error *err)
{
    const struct schedule *schedule = schedules[plan->schedule];
    int stages = plan->stage_count, pieces = schedule_pieces(schedule, stages, plan->chunk_count);
    for (int k = pieces; k < stages * plan->chunk_count; k++) {
        int s = schedule_stage(schedule, stages, k), first = schedule_stage(schedule, stages, k % pieces);
        if (plan_stage_chunk(plan, s, k / stages).count != plan_stage_chunk(plan, first, 0).count ||
            memcmp(plan->stages[s].atom, plan->stages[first].atom, sizeof plan->stages[s].atom) != 0)
            return fail(err,
                        "plan: stage %d: schedule %s runs on it what stage %d runs: expected equal layers and atoms", s,
                        schedule->name, first);
    }
    return true;
}

/* Checks that pieces lie on the stages as the schedule says, in the order of the model, in each copy of it. */
static bool check_layers(const struct plan *plan, struct error *err)
{
    int layer = 0, copies = plan_copies(plan);
    for (int c = 0; c < plan->chunk_count; c++) {
        if (!check_round(plan, c, &layer, err))
            return false;
        if (layer != plan->layer_count && (copies > 1 || c == plan->chunk_count - 1))
            return fail(err, "plan: the stages hold %d layers, but there are %d", layer, plan->layer_count);
        layer = copies > 1 ? 0 : layer;
    }
    return copies == 1 || check_copies(plan, err);
}

/* Gives the stage, other than s, that holds one of its ranks; -1: none does. */
static int rival(const struct plan *plan, int s)
{
    int first = plan->stages[s].first_rank, end = first + plan_stage_rank_count(plan, s);
    for (int t = 0; t < plan->stage_count; t++) {
        int other = plan->stages[t].first_rank;
        if (t != s && other < end && first - other < plan_stage_rank_count(plan, t))
            return t;
    }
    return -1;
}

/* The stages are as long as the plan together, so their ranks tile it when none leaves it and none meets another. Those
 * that follow each other from rank 0 on need no closer look. */
static bool check_ranks(const struct plan *plan, struct error *err)
{
    bool in_order = true;
    for (int s = 0; s < plan->stage_count; s++) {
        int first = plan->stages[s].first_rank, ranks = plan_stage_rank_count(plan, s);
        if (first < 0 || first > plan->rank_count - ranks)
            return fail(err, "plan: stage %d: expected its ranks to begin at 0 to %d, found %d", s,
                        plan->rank_count - ranks, first);
        in_order = in_order && first == plan_stage_next_rank(plan, s);
    }
    for (int s = 0; !in_order && s < plan->stage_count; s++)
        if (rival(plan, s) >= 0)
            return fail(err, "plan: stage %d: expected ranks of its own, found rank %d on, which stage %d has too", s,
                        plan->stages[s].first_rank, rival(plan, s));
    return true;
}

static bool check_stages(const struct plan *plan, struct error *err)
{
    int64_t rank = 0;
    if (plan->stage_count < 1)
        return fail(err, "plan: expected at least one stage, found %d", plan->stage_count);
    if (plan->chunk_count < 1 || plan->chunk_count > PLAN_MAX_CHUNKS)
        return fail(err, "plan: interleave: expected 1 to %d chunks per stage, found %d", PLAN_MAX_CHUNKS,
                    plan->chunk_count);
    if (plan->atom_count < 1 || plan->atom_count > MAX_ATOMS)
        return fail(err, "plan: expected 1 to %d mesh atoms, found %d", MAX_ATOMS, plan->atom_count);
    if (!check_layers(plan, err))
        return false;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        int64_t ranks = 1;
        for (int i = 0; i < MAX_ATOMS; i++) {
            if (stage->atom[i] < 1 || (i >= plan->atom_count && stage->atom[i] != 1))
                return fail(
                    err,
                    "plan: stage %d: atom %d: expected a size of at least 1 (exactly 1 beyond the plan's %d atoms), "
                    "found %d",
                    s, i, plan->atom_count, stage->atom[i]);
            if (!mul_i64(&ranks, ranks, stage->atom[i]) || ranks > INT_MAX)
                return fail(err, "plan: stage %d: the product of its atoms exceeds %d ranks", s, INT_MAX);
        }
        rank += ranks;
    }
    if (rank != plan->rank_count)
        return fail(err, "plan: the stages hold %lld ranks, but the plan has %d", (long long)rank, plan->rank_count);
    return check_ranks(plan, err);
}

/* A decision that is a number, and its range; with most INT64_MAX that has no end. */
struct decided_number {
    const char *name;
    int64_t value, least, most;
};

/* Checks ranges; layer: whose they are; -1: the plan's. */
static bool check_ranges(const struct decided_number *numbers, size_t count, int layer, struct error *err)
{
    char of[32] = "";
    if (layer >= 0)
        snprintf(of, sizeof of, "layer %d: ", layer);
    for (const struct decided_number *n = numbers; n < numbers + count; n++) {
        if (n->value < n->least && n->most == INT64_MAX)
            return fail(err, "plan: %s%s: expected %lld or more, found %lld", of, n->name, (long long)n->least,
                        (long long)n->value);
        if (n->value < n->least || n->value > n->most)
            return fail(err, "plan: %s%s: expected %lld to %lld, found %lld", of, n->name, (long long)n->least,
                        (long long)n->most, (long long)n->value);
    }
    return true;
}

static bool check_numbers(const struct plan *plan, struct error *err)
{
    int schedule_count = 0;
    while (schedules[schedule_count])
        schedule_count++;
    const struct decided_number numbers[] = {
        { "extra_in_flight", plan->extra_in_flight, 0, PLAN_MAX_MICRO_BATCHES },
        { "bucket_bytes", plan->bucket_bytes, 0, INT64_MAX },
        { "prefetch", plan->prefetch, 0, PLAN_MAX_PREFETCH },
        { "loss_chunks", plan->loss_chunks, 1, PLAN_MAX_LOSS_CHUNKS },
        { "clock", plan->clock, 0, CLOCK_COUNT - 1 },
        { "dtype", (int)plan->dtype, 0, DTYPE_COUNT - 1 },
        { "schedule", plan->schedule, 0, schedule_count - 1 },
    };
    if (plan->micro_batch_count < 1 || plan->micro_batch_count > PLAN_MAX_MICRO_BATCHES)
        return fail(err, "plan: expected 1 to %d micro-batches, found %d; larger micro-batches make fewer",
                    PLAN_MAX_MICRO_BATCHES, plan->micro_batch_count);
    if (!isfinite(plan->clip_norm) || plan->clip_norm < 0)
        return fail(err, "plan: clip_norm: expected 0 (off) or a positive finite number, found %g", plan->clip_norm);
    return check_ranges(numbers, sizeof numbers / sizeof *numbers, -1, err);
}

static bool check_layer(const struct plan *plan, int index, struct error *err)
{
    const struct plan_layer *layer = &plan->layers[index];
    const struct decided_number numbers[] = {
        { "zero", layer->zero, 0, 3 },
        { "recompute", layer->recompute, 0, RECOMPUTE_COUNT - 1 },
        { "offload", layer->offload, 0, OFFLOAD_COUNT - 1 },
        { "reshard", layer->reshard, 0, RESHARD_COUNT - 1 },
        { "slices", layer->slices, 1, INT64_MAX },
    };
    for (int i = 0; i < MAX_ATOMS; i++)
        if (!is_index(layer->dim[i], i < plan->atom_count ? DIM_COUNT : DIM_none + 1))
            return fail(
                err,
                "plan: layer %d: atom %d: expected a dimension 0 to %d (none beyond the plan's %d atoms), found %d",
                index, i, DIM_COUNT - 1, plan->atom_count, layer->dim[i]);
    return check_ranges(numbers, sizeof numbers / sizeof *numbers, index, err);
}

/* Gives in *unit the smallest batch that divides: sequences of a micro-batch are dealt out over the batch-splitting
 * atoms of every layer. */
static bool batch_unit(const struct plan *plan, int64_t *unit)
{
    int64_t split = 1;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        for (int c = 0; c < plan->chunk_count; c++) {
            struct layer_range range = plan_stage_chunk(plan, s, c);
            for (int l = range.first; l < range.first + range.count; l++) {
                int64_t here = 1;
                for (int i = 0; i < plan->atom_count; i++)
                    if (dimensions[plan->layers[l].dim[i]]->splits_batch)
                        here *= stage->atom[i]; /* at most the stage's rank count, checked before */
                if (!mul_i64(&split, split / common_divisor(split, here), here))
                    return false;
            }
        }
    }
    return mul_i64(unit, split, plan->micro_batch_count);
}

static bool check_batch(const struct plan *plan, struct error *err)
{
    int64_t unit = 0;
    if (plan->batch < 1)
        return fail(err, "plan: batch: expected at least one sequence, found %lld", (long long)plan->batch);
    if (!batch_unit(plan, &unit))
        return fail(err,
                    "plan: no batch is a multiple of the micro-batches and of every layer's batch-splitting ranks");
    if (plan->batch % unit == 0)
        return true;
    int64_t below = plan->batch / unit * unit, above = round_up(plan->batch, unit);
    if (below == 0)
        return fail(
            err,
            "plan: batch %lld: expected a multiple of %lld (%d micro-batches times %lld ranks that split the batch); "
            "the nearest valid size is %lld",
            (long long)plan->batch, (long long)unit, plan->micro_batch_count,
            (long long)(unit / plan->micro_batch_count), (long long)above);
    return fail(
        err,
        "plan: batch %lld: expected a multiple of %lld (%d micro-batches times %lld ranks that split the batch); the "
        "nearest valid sizes are %lld and %lld",
        (long long)plan->batch, (long long)unit, plan->micro_batch_count, (long long)(unit / plan->micro_batch_count),
        (long long)below, (long long)above);
}

/* Refuses replicas that would have no micro-batch. */
static bool check_turns(const struct plan *plan, struct error *err)
{
    for (int s = 0; s < plan->stage_count; s++)
        if (plan_stage_turns(plan, s) > plan->micro_batch_count)
            return fail(err,
                        "plan: stage %d: %d replicas take turns over %d micro-batches; expected at most %d turns, or "
                        "at least %d micro-batches",
                        s, plan_stage_turns(plan, s), plan->micro_batch_count, plan->micro_batch_count,
                        plan_stage_turns(plan, s));
    return true;
}

static bool check_chunks(const struct plan *plan, struct error *err)
{
    const struct schedule *schedule = schedules[plan->schedule];
    if ((plan->chunk_count > 1) != schedule->interleaves)
        return fail(err, "plan: schedule %s runs %s per stage, found interleave %d%s", schedule->name,
                    schedule->interleaves ? "several chunks" : "one chunk", plan->chunk_count,
                    schedule->interleaves ? "; give 2 or more" : "; schedule interleaved runs several");
    return true;
}

static bool check_micro_batches(const struct plan *plan, struct error *err)
{
    const struct schedule *schedule = schedules[plan->schedule];
    int micros = plan->micro_batch_count, stages = plan->stage_count, unit = schedule_unit(schedule, stages),
        below = micros / unit * unit;
    if (plan->chunk_group > 0 && !(schedule->grouped && schedule_group_legal(unit, micros, plan->chunk_group)))
        return fail(
            err,
            "plan: groups of %d micro-batches: schedule %s takes %s%d to %d of %d micro-batches, and of what is "
            "left over none or as many as the %d stages; the least is %d",
            plan->chunk_group, schedule->name, schedule->grouped ? "" : "none; interleaved takes ", stages, micros,
            micros, stages, schedule_least_group(stages, micros));
    if (schedule->grouped)
        return micros >= unit ||
               fail(err, "plan: schedule %s: expected at least as many micro-batches as the %d stages, found %d",
                    schedule->name, unit, micros);
    if (below != micros)
        return fail(err,
                    "plan: schedule %s: expected the micro-batches to be a multiple of the %d %s, found %d; the "
                    "nearest valid numbers are %d and %d",
                    schedule->name, unit, schedule->by_stages ? "stages" : "copies of the model", micros,
                    below > 0 ? below : unit, below + unit);
    return true;
}

static bool check_graph(const struct plan *plan, const struct graph *graph, struct error *err)
{
    if (plan->layer_count != graph->layer_count)
        return fail(err, "plan: it decides %d layers, but model %s has %d", plan->layer_count, graph->model_name,
                    graph->layer_count);
    for (int p = 0; p < plan->layer_count; p++)
        if (plan_layer_at(plan, p) != (graph->order ? graph->order[p] : p))
            return fail_kind(err, ERROR_BUG, "plan: the graph has its layers in another order than the plan");
    if (plan->batch != graph->batch || plan->sequence != graph->sequence)
        return fail(err, "plan: it is for a batch of %lld sequences of %lld tokens, but the graph is of %lld of %lld",
                    (long long)plan->batch, (long long)plan->sequence, (long long)graph->batch,
                    (long long)graph->sequence);
    if (plan->vocab_multiple < 1)
        return fail(err, "plan: vocab_multiple: expected at least 1, found %lld", (long long)plan->vocab_multiple);
    if (graph->vocab_padded != round_up(graph->vocab_size, plan->vocab_multiple))
        return fail(err, "plan: it pads the vocabulary of %lld to a multiple of %lld, but the graph has %lld rows",
                    (long long)graph->vocab_size, (long long)plan->vocab_multiple, (long long)graph->vocab_padded);
    return true;
}

/* Copies of a weight on several stages are summed at each update, and a value that skips a stage arrives there at
 * another time than what the stages between make of it: both would make stages wait for each other at every update. */
static bool check_asynchronous(const struct plan *plan, const struct graph *graph, struct error *err)
{
    const char *name = schedules[plan->schedule]->name;
    int *holder = calloc((size_t)graph->weight_count + 1, sizeof *holder); /* 1 + the stage of the first use */
    bool ok = holder || fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory for %d weights", graph->weight_count);
    for (int l = 0; ok && l < plan->layer_count; l++)
        ok = !plan_layer_offloads(&plan->layers[l], OFFLOAD_PARAMETERS) ||
             fail(err,
                  "plan: layer %d: offload %s: schedule %s keeps versions of the weights, which stay on the device; "
                  "expected none, activations, optimizer or both",
                  l, offload_names[plan->layers[l].offload], name);
    for (int i = 0; ok && i < graph->segment_count; i++) {
        const struct segment *segment = &graph->segments[i];
        int stage = plan_stage_of_layer(plan, segment->layer);
        for (int k = 0; ok && k < segment->in_count; k++) {
            int producer = graph->values[segment->in[k].id].producer,
                from = producer < 0 ? stage : plan_stage_of_layer(plan, graph->segments[producer].layer);
            ok = stage - from <= 1 || fail(err,
                                           "plan: layer %s on stage %d reads a value of stage %d: schedule %s knows "
                                           "values between neighbouring stages only; put fewer stages between them",
                                           graph->layers[segment->layer].name, stage, from, name);
        }
        for (int k = 0; ok && k < segment->weight_count; k++) {
            int *first = &holder[segment->weight[k].id];
            *first = *first ? *first : 1 + stage;
            ok = *first == 1 + stage ||
                 fail(err,
                      "plan: weight %s is used on stages %d and %d: schedule %s updates each stage on its own; use the "
                      "weight on one stage or untie it",
                      graph->weights[segment->weight[k].id].name, *first - 1, stage, name);
        }
    }
    free(holder);
    return ok;
}

/* Refuses clipping between micro-batches: the global norm of one is known when its gradient has come back to the first
 * stage, so the last stage would idle until then before every update. */
static bool check_clipping(const struct plan *plan, struct error *err)
{
    const struct schedule *schedule = schedules[plan->schedule];
    return plan->clip_norm == 0 || !schedule->updates_each ||
           fail(err,
                "plan: clip_norm %g: schedule %s updates after each micro-batch, before the other stages know "
                "their part of the norm; expected 0, or schedule pipedream-2bw",
                plan->clip_norm, schedule->name);
}

static bool check_schedule(const struct plan *plan, const struct graph *graph, struct error *err)
{
    const struct schedule *schedule = schedules[plan->schedule];
    return (!schedule->legal || schedule->legal(plan, err)) &&
           (!schedule->asynchronous || check_asynchronous(plan, graph, err));
}

static bool check_decided(const struct plan *plan, struct error *err)
{
    for (int l = 0; l < plan->layer_count; l++)
        if (!check_layer(plan, l, err))
            return false;
    return true;
}

static bool concerns(const char **key, const char *decision, bool holds)
{
    if (!holds)
        *key = decision;
    return holds;
}

static bool check_optimizer(const char **key, const struct plan *plan, struct error *err)
{
    int most = optimizer_most_zero(&plan->optimizer);
    if (!optimizer_check(key, &plan->optimizer, plan->dtype, err))
        return error_within(err, "plan");
    *key = "optimizer";
    for (int l = 0; l < plan->layer_count; l++)
        if (plan->layers[l].zero > most)
            return optimizer_refuse_zero(&plan->optimizer, err) || error_within(err, "plan: layer %d", l);
    return true;
}

/* Checks in this order, since later ones trust what earlier ones found. */
bool plan_check_at(const char **key, const struct plan *plan, const struct graph *graph, struct error *err)
{
    return concerns(key, "layers", check_graph(plan, graph, err) && check_numbers(plan, err)) &&
           concerns(key, "stages", check_stages(plan, err)) && concerns(key, "layers", check_decided(plan, err)) &&
           concerns(key, "batch", check_batch(plan, err)) && concerns(key, "stages", check_turns(plan, err)) &&
           concerns(key, "schedule", check_chunks(plan, err)) &&
           concerns(key, "micro_batches", check_micro_batches(plan, err)) &&
           concerns(key, "clip_norm", check_clipping(plan, err)) && check_optimizer(key, plan, err) &&
           concerns(key, "schedule", check_schedule(plan, graph, err));
}

bool plan_check(const struct plan *plan, const struct graph *graph, struct error *err)
{
    const char *key;
    return plan_check_at(&key, plan, graph, err);
}
