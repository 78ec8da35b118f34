/* The plain data of a plan and the questions asked of it; what makes one illegal is in plan_check.c. */
#include "planner/plan/plan.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include <stdlib.h>
#include <string.h>

const char *const plan_clock_names[CLOCK_COUNT + 1] = { "even", "work", NULL };
const char *const recompute_names[RECOMPUTE_COUNT + 1] = { "none", "selective", "full", "block", NULL };
const char *const offload_names[OFFLOAD_COUNT + 1] = {
    "none", "activations", "optimizer", "both", "parameters", "activations+parameters", "optimizer+parameters",
    "all",  NULL
};
const char *const reshard_names[RESHARD_COUNT + 1] = { "true", "false", NULL };

int plan_stage_rank_count(const struct plan *plan, int stage)
{
    int ranks = 1;
    for (int i = 0; i < MAX_ATOMS; i++)
        ranks *= plan->stages[stage].atom[i];
    return ranks;
}

int plan_stage_next_rank(const struct plan *plan, int stage)
{
    return stage > 0 ? plan->stages[stage - 1].first_rank + plan_stage_rank_count(plan, stage - 1) : 0;
}

static bool has_rank(const struct plan *plan, int stage, int rank)
{
    int first = plan->stages[stage].first_rank;
    return rank >= first && rank - first < plan_stage_rank_count(plan, stage);
}

/* Stages are ordered mostly by rank, and in their first chunks by layer, so both questions are a binary search for the
 * last stage that does not begin later. */
int plan_stage_of_rank(const struct plan *plan, int rank)
{
    int behind;
    BISECT(behind, plan->stage_count, at, plan->stages[at].first_rank <= rank);
    int last = max_int(behind - 1, 0);
    for (int stage = 0; !has_rank(plan, last, rank) && stage < plan->stage_count; stage++)
        if (has_rank(plan, stage, rank)) /* they are in another order */
            return stage;
    return last;
}

int plan_copies(const struct plan *plan)
{
    return schedules[plan->schedule]->copies ? plan->chunk_count : 1;
}

static bool range_holds(struct layer_range range, int layer)
{
    return layer >= range.first && layer < range.first + range.count;
}

int plan_stage_of_copy(const struct plan *plan, int layer, int copy)
{
    int stage = 0;
    if (copy == 0)
        return plan_stage_of_layer(plan, layer);
    while (stage < plan->stage_count - 1 && !range_holds(plan_stage_chunk(plan, stage, copy), layer))
        stage++;
    return stage;
}

int plan_stage_of_layer(const struct plan *plan, int layer)
{
    if (plan->chunk_count > 1 && plan_copies(plan) == 1) {
        int stage = 0;
        while (stage < plan->stage_count - 1 && !plan_stage_holds(plan, stage, layer))
            stage++;
        return stage;
    }
    int behind;
    BISECT(behind, plan->stage_count, at, plan->stages[at].first_layer <= layer);
    int last = max_int(behind - 1, 0);
    return last - plan->stages[last].turn;
}

int plan_stage_turns(const struct plan *plan, int stage)
{
    int first = stage - plan->stages[stage].turn, end = first + 1;
    while (end < plan->stage_count && plan->stages[end].turn > 0)
        end++;
    return end - first;
}

int plan_stage_of_work(const struct plan *plan, int layer, int micro)
{
    int stage = plan_stage_of_copy(plan, layer, micro % plan_copies(plan));
    return stage + micro % plan_stage_turns(plan, stage);
}

int64_t plan_micro_batch_size(const struct plan *plan)
{
    int64_t size = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        const struct plan_layer *layer = &plan->layers[stage->first_layer + stage->layer_count / 2];
        int64_t own = plan->batch / plan->micro_batch_count, pieces = 1;
        for (int a = 0; a < plan->atom_count; a++)
            pieces *= dimensions[layer->dim[a]]->splits_batch ? stage->atom[a] : 1;
        if (plan->batch % plan->micro_batch_count != 0 || own % pieces != 0 || (s > 0 && own / pieces != size))
            return 0;
        size = own / pieces;
    }
    return size;
}

int plan_stage_micro_batches(const struct plan *plan, int stage)
{
    int turns = plan_stage_turns(plan, stage);
    return (plan->micro_batch_count - plan->stages[stage].turn + turns - 1) / turns;
}

struct layer_range plan_stage_chunk(const struct plan *plan, int stage, int chunk)
{
    if (chunk > 0)
        return plan->later_chunks[(chunk - 1) * plan->stage_count + stage];
    return (struct layer_range){ plan->stages[stage].first_layer, plan->stages[stage].layer_count };
}

bool plan_add_stages(int *stages, int *count, int most, int stage)
{
    int at = *count;
    while (at > 0 && stages[at - 1] >= stage)
        at--;
    if (at < *count && stages[at] == stage)
        return true;
    if (*count == most)
        return false;
    memmove(&stages[at + 1], &stages[at], (size_t)(*count - at) * sizeof *stages);
    stages[at] = stage;
    ++*count;
    return true;
}

bool plan_stage_holds(const struct plan *plan, int stage, int layer)
{
    bool holds = false;
    for (int c = 0; c < plan->chunk_count; c++)
        holds |= range_holds(plan_stage_chunk(plan, stage, c), layer);
    return holds;
}

int plan_atom_coordinate(const struct plan *plan, int stage, int local_rank, int atom)
{
    const int *size = plan->stages[stage].atom;
    int inner = 1;
    for (int i = MAX_ATOMS - 1; i > atom; i--)
        inner *= size[i];
    return local_rank / inner % size[atom];
}

void plan_join_atoms(struct plan *plan)
{
    for (int atom = plan->atom_count - 2; atom >= 0; atom--) {
        bool alike = true; /* sequences are dealt out alike over the two atoms or over their product */
        for (int l = 0; alike && l < plan->layer_count; l++) {
            const int8_t *dim = plan->layers[l].dim;
            alike = dim[atom] == dim[atom + 1] && dimensions[dim[atom]]->splits_batch;
        }
        if (!alike)
            continue;
        for (int s = 0; s < plan->stage_count; s++)
            plan->stages[s].atom[atom + 1] *= plan->stages[s].atom[atom];
        plan->atom_count--;
        for (int i = atom; i < MAX_ATOMS; i++) {
            bool last = i == MAX_ATOMS - 1;
            for (int s = 0; s < plan->stage_count; s++)
                plan->stages[s].atom[i] = last ? 1 : plan->stages[s].atom[i + 1];
            for (int l = 0; l < plan->layer_count; l++)
                plan->layers[l].dim[i] = last ? DIM_none : plan->layers[l].dim[i + 1];
        }
    }
}

bool plan_split_atoms(struct plan *plan, int atom_count, const int *size)
{
    int from[MAX_ATOMS] = { 0 }, made = 0;
    for (int atom = 0; atom < plan->atom_count; atom++) {
        int64_t product = 1;
        do {
            if (made == atom_count)
                return false;
            product *= size[made];
            from[made++] = atom;
        } while (product < plan->stages[0].atom[atom]);
        for (int s = 0; s < plan->stage_count; s++)
            if (plan->stages[s].atom[atom] != product)
                return false;
    }
    if (made != atom_count)
        return false;
    plan->atom_count = atom_count;
    for (int s = 0; s < plan->stage_count; s++)
        memcpy(plan->stages[s].atom, size, sizeof *size * (size_t)atom_count);
    for (int l = 0; l < plan->layer_count; l++) {
        struct plan_layer joined = plan->layers[l];
        for (int atom = 0; atom < atom_count; atom++)
            plan->layers[l].dim[atom] = joined.dim[from[atom]];
    }
    return true;
}

bool plan_layer_equal(const struct plan_layer *a, const struct plan_layer *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool plan_layer_keeps_gathered(const struct plan_layer *layer)
{
    return layer->zero >= 3 && layer->reshard == RESHARD_EACH_STEP;
}

int plan_layer_zero_of(const struct plan_layer *layer, const struct segment *segment)
{
    return layer->replicate & segment->operators ? 0 : layer->zero;
}

int plan_zero_on(const struct plan *plan, const struct plan_stage *stage, int layer)
{
    const struct plan_layer *own = &plan->layers[layer];
    for (int a = 0; a < plan->atom_count; a++)
        if (stage->atom[a] > 1 && dimensions[own->dim[a]]->shard)
            return own->zero;
    return 0;
}

struct plan *plan_new(int stage_count, int layer_count)
{
    struct plan *plan = calloc(1, sizeof *plan);
    if (!plan || stage_count < 0 || layer_count < 0)
        goto failed;
    plan->stages = arena_alloc(&plan->arena, (size_t)stage_count, sizeof *plan->stages);
    plan->layers = arena_alloc(&plan->arena, (size_t)layer_count, sizeof *plan->layers);
    if (!plan->stages || !plan->layers)
        goto failed;
    plan->stage_count = stage_count;
    plan->layer_count = layer_count;
    plan->chunk_count = 1;
    plan->loss_chunks = 1;
    for (int s = 0; s < stage_count; s++)
        for (int i = 0; i < MAX_ATOMS; i++)
            plan->stages[s].atom[i] = 1;
    for (int l = 0; l < layer_count; l++) {
        plan->layers[l].slices = 1;
        for (int i = 0; i < MAX_ATOMS; i++)
            plan->layers[l].dim[i] = DIM_none;
    }
    return plan;
failed:
    plan_free(plan);
    return NULL;
}

bool plan_set_chunks(struct plan *plan, int chunks)
{
    size_t later = (size_t)(chunks - 1) * (size_t)plan->stage_count;
    struct layer_range *room = chunks > 1 ? arena_alloc(&plan->arena, later, sizeof *room) : NULL;
    if (chunks > 1 && !room)
        return false;
    plan->chunk_count = chunks;
    plan->later_chunks = room;
    return true;
}

void plan_set_chunk(struct plan *plan, int stage, int chunk, struct layer_range range)
{
    if (chunk > 0) {
        plan->later_chunks[(chunk - 1) * plan->stage_count + stage] = range;
        return;
    }
    plan->stages[stage].first_layer = range.first;
    plan->stages[stage].layer_count = range.count;
}

struct plan *plan_copy(const struct plan *plan)
{
    struct plan *copy = plan_new(plan->stage_count, plan->layer_count);
    if (!copy || !plan_set_chunks(copy, plan->chunk_count) || (plan->order && !plan_set_order(copy, plan->order))) {
        plan_free(copy);
        return NULL;
    }
    struct plan keep = *copy;
    *copy = *plan;
    copy->arena = keep.arena;
    copy->stages = keep.stages;
    copy->layers = keep.layers;
    copy->later_chunks = keep.later_chunks;
    copy->order = keep.order;
    for (int c = 1; c < plan->chunk_count; c++)
        for (int s = 0; s < plan->stage_count; s++)
            plan_set_chunk(copy, s, c, plan_stage_chunk(plan, s, c));
    memcpy(copy->stages, plan->stages, (size_t)plan->stage_count * sizeof *plan->stages);
    memcpy(copy->layers, plan->layers, (size_t)plan->layer_count * sizeof *plan->layers);
    return copy;
}

void plan_free(struct plan *plan)
{
    if (!plan)
        return;
    arena_free(&plan->arena);
    free(plan);
}

/* Hashes field by field: structs have padding, whose bytes are no decision. */
uint64_t plan_hash(const struct plan *plan)
{
    uint64_t hash = HASH_START;
    const int64_t head[] = {
        plan->batch,        plan->sequence,          plan->vocab_multiple,  (int64_t)plan->dtype,
        plan->schedule,     plan->micro_batch_count, plan->extra_in_flight, plan->atom_count,
        plan->bucket_bytes, plan->prefetch,          plan->stage_count,     plan->layer_count,
        plan->rank_count,
    };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        hash = hash_i64(hash, head[i]);
    hash = hash_bytes(hash, &plan->clip_norm, sizeof plan->clip_norm);
    for (int i = 0; i < OPTIMIZER_PARTS; i++)
        if (plan->optimizer.part[i] != 0)
            hash = hash_i64(hash_string(hash, optimizer_parts[i].key), plan->optimizer.part[i]);
    if (plan->loss_chunks > 1)
        hash = hash_i64(hash_string(hash, "loss_chunks"), plan->loss_chunks);
    if (plan->chunk_group > 0)
        hash = hash_i64(hash_string(hash, "chunk_group"), plan->chunk_group);
    if (plan->whole_blocks)
        hash = hash_string(hash, "whole_blocks");
    if (plan->clock != CLOCK_EVEN)
        hash = hash_i64(hash_string(hash, "clock"), plan->clock);
    for (int s = 0; s < plan->stage_count; s++) {
        const struct plan_stage *stage = &plan->stages[s];
        hash = hash_i64(hash_i64(hash_i64(hash, stage->first_layer), stage->layer_count), stage->first_rank);
        for (int i = 0; i < MAX_ATOMS; i++)
            hash = hash_i64(hash, stage->atom[i]);
        if (stage->turn > 0)
            hash = hash_i64(hash, stage->turn);
        for (int c = 1; c < plan->chunk_count; c++) {
            struct layer_range range = plan_stage_chunk(plan, s, c);
            hash = hash_i64(hash_i64(hash, range.first), range.count);
        }
    }
    for (int l = 0; l < plan->layer_count; l++) {
        const struct plan_layer *layer = &plan->layers[l];
        for (int i = 0; i < MAX_ATOMS; i++)
            hash = hash_i64(hash, layer->dim[i]);
        hash = hash_i64(hash_i64(hash_i64(hash, layer->zero), layer->recompute), layer->slices);
        if (layer->offload != OFFLOAD_NONE)
            hash = hash_i64(hash, layer->offload);
        if (layer->reshard != RESHARD_EACH_PASS)
            hash = hash_i64(hash_string(hash, "reshard"), layer->reshard);
        if (layer->replicate != 0)
            hash = hash_i64(hash_string(hash, "replicate"), layer->replicate);
        if (layer->excepted != 0)
            hash = hash_i64(hash_string(hash, "recompute_except"), (int64_t)layer->excepted);
    }
    for (int p = 0; plan->order && p < plan->layer_count; p++)
        hash = hash_i64(hash, plan->order[p]);
    return hash;
}
