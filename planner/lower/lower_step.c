/* Buckets, and the step: sums over stages, the norm, the update. */
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_weights.h"
#include <string.h>

/* ---- buckets ---- */
static void flush_one(struct lowering *l, struct bucket *bucket)
{
    if (bucket->count == 0 || l->failed)
        return;
    struct instr *instr = emit(l, bucket->op, bucket->lane, &bucket->site);
    instr->atoms = bucket->atoms;
    instr->accumulate = bucket->accumulate;
    instr->fold = bucket->op == OP_ALL_GATHER || bucket->op == OP_BROADCAST ? FOLD_NONE : FOLD_SUM;
    instr->pair_count = bucket->count;
    for (int i = 0; i < bucket->count; i++) {
        int pair = lower_add_pair(l, bucket->pairs[i].source, bucket->pairs[i].destination);
        if (i == 0)
            instr->pair_first = pair;
    }
    bucket->count = 0;
    bucket->bytes = 0;
}

void bucket_flush(struct lowering *l, bool step)
{
    for (int i = 0; i < MAX_BUCKETS; i++) {
        if (step || l->weights.buckets[i].site.phase != PHASE_STEP)
            flush_one(l, &l->weights.buckets[i]);
    }
}

static struct bucket *bucket_for(struct lowering *l, const struct bucket *like)
{
    struct bucket *unused = NULL;
    for (int i = 0; i < MAX_BUCKETS; i++) {
        struct bucket *b = &l->weights.buckets[i];
        bool same =
            b->op == like->op && b->atoms == like->atoms && b->lane == like->lane && b->accumulate == like->accumulate;
        if (b->count && same && b->site.phase == like->site.phase)
            return b;
        if (!b->count && !unused)
            unused = b;
    }
    if (!unused) {
        bucket_flush(l, true);
        unused = &l->weights.buckets[0];
    }
    struct pair *pairs = unused->pairs;
    int capacity = unused->capacity;
    *unused = *like;
    unused->pairs = pairs;
    unused->capacity = capacity;
    return unused;
}

void bucket_add(struct lowering *l, enum op op, unsigned atoms, enum lane lane, bool accumulate,
                const struct site *site, int source, int destination)
{
    struct bucket like = { .op = op, .atoms = atoms, .lane = lane, .accumulate = accumulate, .site = *site };
    if (l->failed)
        return;
    /* a second reduction into the same accumulator stays behind the first */
    for (int i = 0; i < MAX_BUCKETS; i++) {
        bool waits = false;
        for (int k = 0; k < l->weights.buckets[i].count; k++)
            waits |= l->weights.buckets[i].pairs[k].destination == destination;
        if (waits)
            flush_one(l, &l->weights.buckets[i]);
    }
    struct bucket *bucket = bucket_for(l, &like);
    if (!lower_grow(l, &l->scratch, (void **)&bucket->pairs, bucket->count, &bucket->capacity, sizeof *bucket->pairs))
        return;
    bucket->pairs[bucket->count++] = (struct pair){ source, destination };
    int64_t from = buffer_at(l, source)->bytes, to = buffer_at(l, destination)->bytes;
    bucket->bytes += max_i64(from, to);
    if (bucket->bytes >= l->plan->bucket_bytes)
        flush_one(l, bucket);
}

/* ---- copies of a weight on several stages ---- */
/* Lists the stages that hold the weight, ascending. */
static int holders(struct lowering *l, int weight, int stages[MAX_HOLDERS])
{
    int count = 0;
    for (int slot = l->known.use_head[weight]; slot >= 0 && !l->failed; slot = l->known.use_next[slot]) {
        for (int copy = 0; copy < l->here.copies; copy++) {
            /* replicas that take turns hold one each */
            int stage = plan_stage_of_copy(l->plan, l->graph->segments[slot / MAX_OPERANDS].layer, copy),
                turns = plan_stage_turns(l->plan, stage);
            for (int turn = 0; turn < turns && !l->failed; turn++) {
                if (plan_add_stages(stages, &count, MAX_HOLDERS, stage + turn))
                    continue;
                l->failed = true;
                fail(l->err, "weight %s is used on more than %d stages: put its layers on fewer stages",
                     l->graph->weights[weight].name, MAX_HOLDERS);
            }
        }
    }
    return count;
}

/* Gives the first use on a stage, which says how the weight is stored there; -1: none. */
static int first_slot(const struct lowering *l, int weight, int stage)
{
    for (int c = 0; c < l->plan->chunk_count; c++) {
        struct layer_range range = plan_stage_chunk(l->plan, stage, c);
        for (int slot = l->known.use_head[weight]; slot >= 0; slot = l->known.use_next[slot]) {
            int layer = l->graph->segments[slot / MAX_OPERANDS].layer;
            if (layer >= range.first && layer < range.first + range.count)
                return slot;
        }
    }
    return -1;
}

/* True when shards of one weight on all its stages are the same pieces: then they can be exchanged as they are. */
static bool same_shards(const struct lowering *l, int weight, const int *stages, int count)
{
    const struct stage_weight *w = &l->weights.of[weight];
    const struct layout own = lower_reduced_layout(l, w->segment, w->index);
    for (int i = 0; i < count; i++) {
        int slot = first_slot(l, weight, stages[i]);
        const struct layout layout = lower_reduced_layout(l, slot / MAX_OPERANDS, slot % MAX_OPERANDS);
        if (!layout_equal(&layout, &own) ||
            memcmp(l->plan->stages[stages[i]].atom, l->plan->stages[l->stage].atom, sizeof(int[MAX_ATOMS])) != 0)
            return false;
    }
    return true;
}

/* Makes a buffer like the gradient, flat shards made whole if need be. */
static int gradient_copy(struct lowering *l, int gradient, bool whole)
{
    struct buffer buffer = *buffer_at(l, gradient);
    buffer.kind = BUFFER_TEMPORARY;
    buffer.persistent = false;
    for (int i = 0; i < MAX_ATOMS && whole; i++) {
        if (buffer.layout.kind[i] == LAYOUT_FLAT)
            buffer.layout.kind[i] = LAYOUT_REPLICATED;
    }
    return lower_add_buffer(l, buffer);
}

static void add_copy(struct lowering *l, int from, int to, const struct site *site)
{
    unsigned cut =
        layout_atoms(&buffer_at(l, to)->layout, LAYOUT_FLAT) & ~layout_atoms(&buffer_at(l, from)->layout, LAYOUT_FLAT);
    struct instr *instr = emit_pair(l, cut ? OP_SLICE : OP_ADD, LANE_COMPUTE, site, from, to);
    instr->accumulate = true;
    instr->atoms = cut;
}

/* Adds all copies: each adds the same originals in the order of stages, so that they stay equal bit by bit: first those
 * before its own, then that sum and its own, then the rest. */
static void sum_copies(struct lowering *l, int number, const int *stages, int count)
{
    const struct weight_part part = l->weights.parts[number];
    const struct stage_weight *w = &l->weights.of[part.weight];
    struct site site = { .phase = PHASE_STEP, .layer = l->graph->segments[w->segment].layer, .micro = -1 };
    int original[MAX_HOLDERS], own = part.gradient;
    bool whole = !same_shards(l, part.weight, stages, count);
    if (w->shard && whole) {
        own = gradient_copy(l, part.gradient, true);
        emit_pair(l, OP_ALL_GATHER, lower_atom_lane(l, site.layer, w->shard, true), &site, part.gradient, own)->atoms =
            w->shard;
    }
    for (int i = 0; i < count && !l->failed; i++) {
        original[i] = own;
        if (stages[i] == l->stage)
            continue;
        original[i] = gradient_copy(l, part.gradient, whole);
        emit_receive(l, MESSAGE_WEIGHT, part.weight, number - w->first_part, stages[i], original[i], &site);
        lower_queue_send(l, MESSAGE_WEIGHT, part.weight, number - w->first_part, stages[i], own, &site);
    }
    emit_sends(l);
    if (l->failed)
        return;
    int before = -1, i = 0; /* the sum of those before this stage's */
    for (; i < count && stages[i] != l->stage && !l->failed; i++) {
        if (before < 0)
            before = original[i];
        else
            emit_pair(l, OP_ADD, LANE_COMPUTE, &site, original[i], before)->accumulate = true;
    }
    if (before >= 0)
        add_copy(l, before, part.gradient, &site);
    for (i++; i < count && !l->failed; i++)
        add_copy(l, original[i], part.gradient, &site);
}

/* ---- the norm ---- */
static int emit_norm(struct lowering *l)
{
    struct site site = { .phase = PHASE_STEP, .layer = -1, .micro = -1 };
    int scalar = lower_add_buffer(l, (struct buffer){ .kind = BUFFER_SCALAR, .id = -1, .micro = -1, .part_count = 1 });
    emit_pair(l, OP_ZERO, LANE_COMPUTE, &site, -1, scalar);
    for (int i = 0; i < l->weights.reduced_count && !l->failed; i++) {
        const struct weight_part *part = &l->weights.parts[l->weights.reduced[i]];
        int stages[MAX_HOLDERS], count = holders(l, part->weight, stages);
        if (!count || stages[0] != l->stage)
            continue;
        site.layer = l->graph->segments[l->weights.of[part->weight].segment].layer;
        emit_pair(l, OP_NORM, LANE_COMPUTE, &site, part->gradient, scalar);
    }
    site.layer = -1;
    struct instr *instr = emit_pair(l, OP_NORM_REDUCE, LANE_DP, &site, scalar, scalar);
    instr->atoms = (1u << MAX_ATOMS) - 1;
    instr->fold = FOLD_SUM;
    return scalar;
}

/* ---- the update ---- */
static void update(struct lowering *l, int number, int scalar, int micro, int fetched)
{
    const struct weight_part part = l->weights.parts[number];
    const struct stage_weight *w = &l->weights.of[part.weight];
    struct site site = { .phase = PHASE_STEP, .layer = l->graph->segments[w->segment].layer, .micro = micro };
    int newest = max_int(micro, 0); /* as many updates as micro-batches before it */
    int made = lower_part_version(&part, newest + 1);
    struct instr *instr = emit_pair(l, OP_UPDATE, LANE_COMPUTE, &site, part.gradient, made);
    const struct pair beside[] = { { part.version_count > 1 ? lower_part_version(&part, newest) : -1, -1 },
                                   { fetched, fetched },
                                   { scalar, -1 } };
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        if (beside[i].source < 0)
            continue;
        lower_add_pair(l, beside[i].source, beside[i].destination);
        instr->pair_count++;
    }
    lower_return_state(l, number, fetched, micro);
    if (w->shard && w->zero < 3)
        bucket_add(l, OP_ALL_GATHER, w->shard, lower_atom_lane(l, site.layer, w->shard, true), false, &site,
                   part.stored, part.stored);
    if (w->server)
        bucket_add(l, OP_BROADCAST, w->server, lower_atom_lane(l, site.layer, w->server, true), false, &site, made,
                   made);
    if (buffer_at(l, part.stored)->host) /* until it is handed out it could not go back there */
        bucket_flush(l, true);
}

/* Updates all parts. Offloaded states are fetched ahead: one is used while the next come and the last goes. */
static void update_all(struct lowering *l, int scalar, int micro)
{
    enum { STATES_AHEAD = 2 };
    int *fetched = arena_alloc(&l->scratch, (size_t)l->weights.reduced_count, sizeof *fetched);
    if (!fetched) {
        lower_memory(l);
        return;
    }
    for (int i = 0, next = 0; i < l->weights.reduced_count && !l->failed; i++) {
        for (; next < l->weights.reduced_count && next <= i + STATES_AHEAD && !l->failed; next++)
            fetched[next] = lower_fetch_state(l, l->weights.reduced[next], micro);
        update(l, l->weights.reduced[i], scalar, micro, fetched[i]);
    }
}

void lower_step(struct lowering *l, int micro)
{
    int scalar = -1;
    bucket_flush(l, true);
    /* a sharded gradient may still be partial over other atoms */
    for (int i = 0; i < l->weights.reduced_count && !l->failed; i++) {
        const struct stage_weight *w = &l->weights.of[l->weights.parts[l->weights.reduced[i]].weight];
        struct site site = { .phase = PHASE_STEP, .layer = l->graph->segments[w->segment].layer, .micro = -1 };
        if (w->shard)
            lower_reduce_unsharded(l, l->weights.reduced[i], &site);
    }
    bucket_flush(l, true);
    for (int i = 0; i < l->weights.foreign_count && !l->failed; i++) {
        struct site site = { .phase = PHASE_STEP, .layer = l->weights.foreign[i].layer, .micro = -1 };
        int gradient = l->weights.parts[l->weights.foreign[i].part].gradient;
        struct layout layout = buffer_at(l, gradient)->layout;
        int like = lower_convert_buffer(l, l->weights.foreign[i].buffer, &layout, BUFFER_TEMPORARY, true, &site);
        emit_pair(l, OP_ADD, LANE_COMPUTE, &site, like, gradient)->accumulate = true;
    }
    /* they go by number, not in the order of first use: stages must agree on which weight's copies come first */
    for (int weight = 0; weight < l->graph->weight_count && !l->failed; weight++) {
        const struct stage_weight *w = &l->weights.of[weight];
        int stages[MAX_HOLDERS], count;
        if (w->segment < 0 || l->graph->weights[weight].frozen)
            continue;
        count = holders(l, weight, stages);
        for (int part = 0; part < w->part_count && count > 1; part++)
            sum_copies(l, w->first_part + part, stages, count);
    }
    if (l->plan->clip_norm > 0)
        scalar = emit_norm(l);
    update_all(l, scalar, micro);
    bucket_flush(l, true);
}
