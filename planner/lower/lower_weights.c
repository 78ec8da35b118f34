/* Weights: storage, use and gradient are three layouts; all of ZeRO is a flat shard in one or more of them.
 *
 *   stage   stored          gathered for use             gradient to its shard      unreduced gradient
 *   0       as used         -                            - (all-reduce at last)     is the gradient itself
 *   1       as used         after the update             at last                    whole, over the step
 *   2       as used         after the update             each micro-batch           whole, while its layer runs
 *   3       shard           each forward and backward    each micro-batch           whole, while its layer runs
 *
 * Where a layer of stage 3 keeps what it gathered (enum reshard), it is gathered for its first use of the step and
 * lives until its last.
 *
 * Operators that a layer replicates are of stage 0, whatever the layer's is.
 *
 * A parameter server is a fifth row: stored as used, reduced at last to the first rank, which updates and broadcasts.
 *
 * "At last" is after the last contribution of the last micro-batch. Rajbhandari et al. 2020 (ZeRO), Zhao et al. 2023
 * (FSDP). */
#include "planner/lower/lower_weights.h"
#include "planner/lower/convert.h"
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_values.h"
#include <string.h>

static const struct layout_pair *use_layouts(const struct lowering *l, int weight)
{
    const struct stage_weight *w = &l->weights.of[weight];
    return &recipe_of(l, w->segment)->weight[w->index];
}

static bool same_layouts(const struct layout_pair *a, const struct layout_pair *b)
{
    return layout_equal(&a->forward, &b->forward) && layout_equal(&a->gradient, &b->gradient);
}

static struct layout with_kind(struct layout layout, unsigned atoms, enum layout_kind kind)
{
    for (int i = 0; i < MAX_ATOMS; i++) {
        if (atoms >> i & 1)
            layout.kind[i] = (uint8_t)kind;
    }
    return layout;
}

/* ---- storage ---- */
/* Gives ZeRO's atoms: all ranks hold the same weight, each has a part of its gradient, and the dimension allows it. */
static unsigned shard_atoms(const struct lowering *l, int segment, int index)
{
    const struct layout_pair *use = &recipe_of(l, segment)->weight[index];
    const struct segment *s = &l->graph->segments[segment];
    const struct plan_layer *layer = &l->plan->layers[s->layer];
    unsigned replicas = layout_atoms(&use->forward, LAYOUT_REPLICATED) & layout_atoms(&use->gradient, LAYOUT_PARTIAL),
             shard = 0;
    for (int i = 0; i < MAX_ATOMS && plan_layer_zero_of(layer, s) > 0; i++) {
        if ((replicas >> i & 1) && dimensions[layer->dim[i]]->shard)
            shard |= 1u << i;
    }
    return shard;
}

/* Gives atoms whose first rank updates for all; none splits the weight, since a server deals out the batch alone. */
static unsigned server_atoms(const struct lowering *l, int segment, int index)
{
    const struct layout_pair *use = &recipe_of(l, segment)->weight[index];
    const struct plan_layer *layer = &l->plan->layers[l->graph->segments[segment].layer];
    unsigned server = 0;
    for (int i = 0; i < MAX_ATOMS; i++)
        if (dimensions[layer->dim[i]]->server)
            server |= layout_atoms(&use->gradient, LAYOUT_PARTIAL) & 1u << i;
    return server;
}

struct layout lower_reduced_layout(const struct lowering *l, int segment, int index)
{
    struct layout layout =
        with_kind(recipe_of(l, segment)->weight[index].gradient, shard_atoms(l, segment, index), LAYOUT_FLAT);
    layout = with_kind(layout, server_atoms(l, segment, index), LAYOUT_ROOT);
    return with_kind(layout, layout_atoms(&layout, LAYOUT_PARTIAL), LAYOUT_REPLICATED);
}

static void describe_weight(struct lowering *l, int weight, int segment, int index)
{
    struct stage_weight *w = &l->weights.of[weight];
    const struct segment *s = &l->graph->segments[segment];
    const struct layout_pair *use = &recipe_of(l, segment)->weight[index];
    *w = (struct stage_weight){
        .segment = segment, .index = index, .part_count = 1, .zero = plan_layer_zero_of(&l->plan->layers[s->layer], s)
    };
    w->shard = shard_atoms(l, segment, index);
    w->server = server_atoms(l, segment, index);
    w->rest = layout_atoms(&use->gradient, LAYOUT_PARTIAL) & ~w->shard & ~w->server;
    int dim = recipe_sliced_dim(assignment_of(l, segment), &s->weight[index], l->graph->weights[weight].dim_count);
    if (dim >= 0 &&
        l->known.use_count[weight] == 1) { /* several uses may cut it differently: such a weight is stored whole */
        w->part_dim = dim;
        w->part_count = assignment_of(l, segment)->slices;
    }
}

static bool updates_each(const struct lowering *l)
{
    return schedules[l->plan->schedule]->updates_each;
}

/* Counts the backward passes whose gradients one update takes. */
static int contributions_due(const struct lowering *l, const struct stage_weight *w)
{
    return w->contributions * (updates_each(l) ? 1 : l->here.micro_count / l->here.copies);
}

static void store_part(struct lowering *l, int weight, int number)
{
    const struct stage_weight *w = &l->weights.of[weight];
    const struct layout_pair *use = use_layouts(l, weight);
    const struct plan_layer *layer = &l->plan->layers[l->graph->segments[w->segment].layer];
    struct buffer buffer = { .kind = BUFFER_WEIGHT,
                             .host = plan_layer_offloads(layer, OFFLOAD_PARAMETERS),
                             .is_weight = true,
                             .persistent = true,
                             .id = weight,
                             .micro = -1,
                             .part = number,
                             .part_count = w->part_count,
                             .part_dim = w->part_dim };
    if (!lower_grow(l, &l->scratch, (void **)&l->weights.parts, l->weights.part_count, &l->weights.part_capacity,
                    sizeof *l->weights.parts))
        return;
    struct weight_part *part = &l->weights.parts[l->weights.part_count++];
    bool frozen = l->graph->weights[weight].frozen;
    *part = (struct weight_part){ .weight = weight,
                                  .gradient = -1,
                                  .full = -1,
                                  .version_count = frozen ? 1 : schedule_versions(l->plan, l->stage),
                                  .left = contributions_due(l, w) };
    buffer.layout = w->zero >= 3 ? with_kind(use->forward, w->shard, LAYOUT_FLAT) : use->forward;
    buffer.version_count = part->version_count;
    part->stored = lower_add_buffer(l, buffer);
    for (buffer.version = 1; buffer.version < part->version_count; buffer.version++)
        lower_add_buffer(l, buffer);
    buffer.version = buffer.version_count = 0;
    /* what is reduced in buckets would be there all the time that these take to fill */
    bool reduced = w->rest || w->server || (w->shard && w->zero < 2);
    buffer.host = !reduced && plan_layer_offloads(layer, OFFLOAD_OPTIMIZER) &&
                  (plan_layer_offloads(layer, OFFLOAD_PARAMETERS) || l->graph->keeping.state_takes_gradients);
    if (frozen)
        return;
    buffer.layout = lower_reduced_layout(l, w->segment, w->index);
    buffer.kind = BUFFER_GRADIENT;
    buffer.in_place =
        w->zero == 1 && w->shard && !buffer.host && keeping_reduces_in_place(&l->graph->keeping) &&
        optimizer_gradient_bytes(&l->plan->optimizer, l->graph->keeping.narrow_gradients, l->plan->dtype) == 4;
    buffer.persistent = !buffer.in_place;
    part->gradient = lower_add_buffer(l, buffer);
    buffer.persistent = true;
    if (optimizer_bytes_per_element(&l->plan->optimizer, l->plan->dtype, &l->graph->weights[weight]) == 0)
        return;
    buffer.kind = BUFFER_STATE; /* right behind its gradient: geometry_state_buffer() */
    buffer.host = plan_layer_offloads(layer, OFFLOAD_OPTIMIZER);
    lower_add_buffer(l, buffer);
}

static void collect_segment(struct lowering *l, int segment)
{
    const struct segment *s = &l->graph->segments[segment];
    for (int i = 0; i < s->weight_count; i++) {
        int weight = s->weight[i].id;
        if (l->weights.of[weight].segment < 0) {
            describe_weight(l, weight, segment, i);
            l->weights.list[l->weights.count++] = weight;
        }
        bool writes = kernel_facts[s->kernel].has_backward_weight && !l->graph->weights[weight].frozen;
        if (writes && same_layouts(&recipe_of(l, segment)->weight[i], use_layouts(l, weight)))
            l->weights.of[weight].contributions++;
    }
}

void lower_collect_weights(struct lowering *l)
{
    for (int i = 0; i < l->weights.count; i++)
        l->weights.of[l->weights.list[i]].segment = -1;
    l->weights.count = l->weights.part_count = l->weights.use_count = l->weights.foreign_count =
        l->weights.reduced_count = 0;
    for (int c = 0; c < l->here.chunk_count; c++) {
        for (int segment = l->here.chunks[c].first; segment < l->here.chunks[c].end; segment++)
            collect_segment(l, segment);
    }
    for (int i = 0; i < l->weights.count && !l->failed; i++) {
        struct stage_weight *w = &l->weights.of[l->weights.list[i]];
        w->first_part = l->weights.part_count;
        for (int part = 0; part < w->part_count; part++)
            store_part(l, l->weights.list[i], part);
    }
}

int lower_part_version(const struct weight_part *part, int version)
{
    int count = part->version_count;
    return part->stored + (version % count + count) % count;
}

/* ---- use ---- */
static struct weight_use *find_use(const struct lowering *l, int weight, int part, const struct layout *layout)
{
    for (int i = 0; i < l->weights.use_count; i++) {
        struct weight_use *use = &l->weights.uses[i];
        if (use->weight == weight && use->part == part && layout_equal(&use->layout, layout))
            return use;
    }
    return NULL;
}

/* Gathers a weight; ahead of time, gathers of a layer may share one transfer. */
static int gather(struct lowering *l, int stored, const struct layout *layout, bool ahead, const struct site *site)
{
    struct conversion path[MAX_CONVERSIONS];
    int count = lower_path_between(l, stored, layout, path);
    if (!ahead || count != 1 || path[0].op != OP_ALL_GATHER)
        return lower_convert_buffer(l, stored, layout, BUFFER_WEIGHT_USE, false, site);
    int whole = lower_add_buffer_like(l, stored, layout, BUFFER_WEIGHT_USE);
    bucket_add(l, OP_ALL_GATHER, path[0].atoms, lower_atom_lane(l, site->layer, path[0].atoms, true), false, site,
               stored, whole);
    return whole;
}

static int obtain(struct lowering *l, int segment, int index, int round, int visit, const struct site *site)
{
    int weight = l->graph->segments[segment].weight[index].id;
    const struct stage_weight *w = &l->weights.of[weight];
    const struct layout *layout = &recipe_of(l, segment)->weight[index].forward;
    int part = w->part_count > 1 ? round : 0;
    if (l->failed)
        return -1;
    int stored = lower_part_version(&l->weights.parts[w->first_part + part], l->steady.version);
    if (layout_equal(layout, &buffer_at(l, stored)->layout))
        return stored;
    /* a weight may stay gathered since no update lies between one use of a step and the next */
    bool kept =
        w->zero >= 3 && w->shard && plan_layer_keeps_gathered(&l->plan->layers[l->graph->segments[segment].layer]);
    struct weight_use *live = find_use(l, weight, part, layout);
    if (live) {
        live->kept |= kept;
        return live->buffer;
    }
    if (!lower_grow(l, &l->scratch, (void **)&l->weights.uses, l->weights.use_count, &l->weights.use_capacity,
                    sizeof *l->weights.uses))
        return -1;
    int buffer = gather(l, stored, layout, visit > l->visits.at, site);
    l->weights.uses[l->weights.use_count++] = (struct weight_use){
        .weight = weight, .part = part, .buffer = buffer, .visit = visit, .kept = kept, .layout = *layout
    };
    return buffer;
}

int lower_use_weight(struct lowering *l, int segment, int index, int round, const struct site *site)
{
    return obtain(l, segment, index, round, l->visits.at, site);
}

void lower_release(struct lowering *l, bool parts)
{
    int kept = 0;
    for (int i = 0; i < l->weights.use_count; i++) {
        const struct weight_use *use = &l->weights.uses[i];
        if (use->kept || (parts ? l->weights.of[use->weight].part_count == 1 : use->visit > l->visits.at))
            l->weights.uses[kept++] = *use;
    }
    l->weights.use_count = kept;
}

/* ---- gathering ahead ---- */
static bool visit_needs(const struct lowering *l, const struct visit *visit, int segment, int index)
{
    const struct kernel_facts *k = &kernel_facts[l->graph->segments[segment].kernel];
    enum action_kind kind = visit->action.kind;
    uint8_t recomputed = l->known.recomputed[segment];
    if (lower_is_walked(l, segment) || lower_is_put_off(l, segment))
        return kind != ACTION_FORWARD && kind != ACTION_BACKWARD_WEIGHT;
    const struct visit *came = visit; /* the visit at which the forward pass of its block runs again */
    while ((kind == ACTION_BACKWARD || kind == ACTION_BACKWARD_INPUT) && came[-1].layer == came->layer + 1 &&
           lower_follows_in_block(l, came->layer + 1))
        came--;
    if (kind == ACTION_FORWARD || (came >= &l->visits.list[l->visits.at] &&
                                   ((recomputed == RECOMPUTED_FOR_INPUT && kind != ACTION_BACKWARD_WEIGHT) ||
                                    (recomputed == RECOMPUTED_FOR_WEIGHT && kind != ACTION_BACKWARD_INPUT))))
        return true;
    bool input =
        kind != ACTION_BACKWARD_WEIGHT && lower_has_input_phase(l, segment) && (k->input_reads_weight >> index & 1);
    return input || (kind != ACTION_BACKWARD_INPUT && lower_has_weight_phase(l, segment) &&
                     (k->weight_reads_weight >> index & 1));
}

static void gather_visit(struct lowering *l, int number)
{
    const struct visit *visit = &l->visits.list[number];
    const struct graph_layer *layer = &l->graph->layers[visit->layer];
    struct site site = { .phase = visit->action.kind == ACTION_FORWARD ? PHASE_FORWARD : PHASE_BACKWARD_INPUT,
                         .layer = visit->layer,
                         .micro = visit->action.micro };
    for (int i = 0; i < layer->segment_count; i++) {
        int segment = layer->first_segment + i;
        const struct segment *s = &l->graph->segments[segment];
        for (int k = 0; k < s->weight_count; k++) {
            if (l->weights.of[s->weight[k].id].part_count == 1 && visit_needs(l, visit, segment, k))
                obtain(l, segment, k, 0, number, &site);
        }
    }
}

void lower_gather_ahead(struct lowering *l)
{
    if (l->plan->prefetch <= 0)
        return;
    if (l->visits.gathered < l->visits.at)
        l->visits.gathered = l->visits.at; /* its own first: lanes are in order */
    for (; l->visits.gathered < l->visits.count && l->visits.gathered <= l->visits.at + l->plan->prefetch;
         l->visits.gathered++) {
        if (l->plan->layers[l->visits.list[l->visits.gathered].layer].zero >= 3)
            gather_visit(l, l->visits.gathered);
    }
    bucket_flush(l, false);
}

/* ---- gradients ---- */
static struct foreign *foreign_gradient(struct lowering *l, int part, const struct layout *layout, int layer)
{
    for (int i = 0; i < l->weights.foreign_count; i++) {
        if (l->weights.foreign[i].part == part &&
            layout_equal(&buffer_at(l, l->weights.foreign[i].buffer)->layout, layout))
            return &l->weights.foreign[i];
    }
    if (!lower_grow(l, &l->scratch, (void **)&l->weights.foreign, l->weights.foreign_count,
                    &l->weights.foreign_capacity, sizeof *l->weights.foreign))
        return NULL;
    struct buffer buffer = *buffer_at(l, l->weights.parts[part].gradient);
    buffer.kind = BUFFER_WEIGHT_GRADIENT;
    buffer.layout = *layout;
    buffer.persistent = !updates_each(l);
    l->weights.foreign[l->weights.foreign_count] =
        (struct foreign){ .part = part, .layer = layer, .buffer = lower_add_buffer(l, buffer) };
    return &l->weights.foreign[l->weights.foreign_count++];
}

/* Gives the place to which the use's gradient goes, and whether it has been written; NULL after a failure. */
static int *gradient_place(struct lowering *l, int segment, int index, int round, const struct site *site,
                           bool **defined)
{
    int weight = l->graph->segments[segment].weight[index].id;
    const struct stage_weight *w = &l->weights.of[weight];
    const struct layout_pair *use = &recipe_of(l, segment)->weight[index];
    int number = w->first_part + (w->part_count > 1 ? round : 0);
    if (l->failed)
        return NULL;
    struct weight_part *part = &l->weights.parts[number];
    if (!same_layouts(use, use_layouts(l, weight))) {
        struct foreign *foreign = foreign_gradient(l, number, &use->gradient, site->layer);
        *defined = foreign ? &foreign->defined : NULL;
        return foreign ? &foreign->buffer : NULL;
    }
    if (!w->shard) {
        *defined = &part->gradient_defined;
        return &part->gradient;
    }
    if (part->full < 0) {
        struct buffer buffer = *buffer_at(l, part->gradient);
        buffer.kind = BUFFER_WEIGHT_GRADIENT;
        buffer.layout = use->gradient;
        buffer.persistent = w->zero == 1;
        buffer.micro = w->zero == 1 ? -1 : site->micro;
        part->full = lower_add_buffer(l, buffer);
        part->full_defined = false;
    }
    *defined = &part->full_defined;
    return &part->full;
}

int weight_gradient(struct lowering *l, int segment, int index, int round, const struct site *site, bool *define)
{
    const struct operand *operand = &l->graph->segments[segment].weight[index];
    bool own_part =
             recipe_sliced_dim(assignment_of(l, segment), operand, l->graph->weights[operand->id].dim_count) >= 0,
         *defined;
    const int *place = gradient_place(l, segment, index, round, site, &defined);
    if (!place)
        return -1;
    *define = !*defined && (round == 0 || own_part);
    return *place;
}

void lower_reduce_unsharded(struct lowering *l, int number, const struct site *site)
{
    const struct weight_part *part = &l->weights.parts[number];
    const struct stage_weight *w = &l->weights.of[part->weight];
    if (w->rest)
        bucket_add(l, OP_ALL_REDUCE, w->rest, lower_atom_lane(l, site->layer, w->rest, true), false, site,
                   part->gradient, part->gradient);
    if (w->server)
        bucket_add(l, OP_REDUCE, w->server, lower_atom_lane(l, site->layer, w->server, true), false, site,
                   part->gradient, part->gradient);
}

/* Reduces a part for the last time; over atoms that do not shard it is after all shards are there (lower_step). */
static void reduce_last(struct lowering *l, int number, const struct site *site)
{
    const struct weight_part *part = &l->weights.parts[number];
    const struct stage_weight *w = &l->weights.of[part->weight];
    struct site step = { .phase = PHASE_STEP, .layer = site->layer, .micro = -1 };
    if (w->zero == 1 && w->shard)
        bucket_add(l, OP_REDUCE_SCATTER, w->shard, lower_atom_lane(l, site->layer, w->shard, true), false, &step,
                   part->full, part->gradient);
    else if (!w->shard)
        lower_reduce_unsharded(l, number, &step);
    if (lower_grow(l, &l->scratch, (void **)&l->weights.reduced, l->weights.reduced_count, &l->weights.reduced_capacity,
                   sizeof *l->weights.reduced))
        l->weights.reduced[l->weights.reduced_count++] = number;
}

void weight_contributed(struct lowering *l, int segment, int index, int round, const struct site *site)
{
    int weight = l->graph->segments[segment].weight[index].id;
    const struct stage_weight *w = &l->weights.of[weight];
    int rounds = assignment_of(l, segment)->slices, number = w->first_part + (w->part_count > 1 ? round : 0);
    bool *defined;
    if (w->part_count == 1 && round < rounds - 1)
        return;
    const int *place = gradient_place(l, segment, index, round, site, &defined);
    if (!place)
        return;
    *defined = true;
    struct weight_part *part = &l->weights.parts[number];
    if (place != &part->gradient && place != &part->full)
        return; /* foreign: added at the step */
    if (w->shard && w->zero >= 2) {
        bucket_add(l, OP_REDUCE_SCATTER, w->shard, lower_atom_lane(l, site->layer, w->shard, true),
                   part->gradient_defined, site, part->full, part->gradient);
        part->gradient_defined = true;
        part->full = -1;
    }
    if (--part->left == 0)
        reduce_last(l, number, site);
}

void lower_renew_gradients(struct lowering *l)
{
    for (int i = 0; i < l->weights.part_count; i++) {
        struct weight_part *part = &l->weights.parts[i];
        part->left = contributions_due(l, &l->weights.of[part->weight]);
        part->gradient_defined = false;
        part->full = -1;
    }
    l->weights.foreign_count = l->weights.reduced_count = 0;
}
