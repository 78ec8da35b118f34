/* Bytes of a lowered sample, layer by layer. */
#include "planner/price/sample_parts.h"
#include "base/num.h"
#include "planner/layout/layout.h"
#include "planner/layout/lives.h"
#include "planner/program/access.h"
#include <string.h>

/* ---- what is there beyond one micro-batch ---- */

static void list_kept(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    struct access access;
    for (int b = 0; b < s->program->buffer_count; b++)
        s->kept_layer[b] = -1;
    for (int i = 0; i < s->end && plan_layer_keeps_gathered(&s->shape.layer); i++) {
        for (struct access_walk walk = access_walk(s->program, &list->instrs[i]);
             list->instrs[i].op == OP_COMPUTE && access_next(&walk, &access);) {
            /* it is gathered before the end of the first micro-batch and read by the second */
            const struct life *life = &s->lives[access.buffer];
            if (s->kept_layer[access.buffer] < 0 && s->program->buffers[access.buffer].kind == BUFFER_WEIGHT_USE &&
                is_index(life->first, s->end) && life->last >= s->end)
                s->kept_layer[access.buffer] = sample_layer_of(s, &list->instrs[i]);
        }
    }
}

/* True when the layer has a gathered copy of its own, in a layout of its own. */
static bool keeps_own(const struct sample *s, int weight, int layer)
{
    for (int b = 0; b < s->program->buffer_count; b++)
        if (s->kept_layer[b] == layer && s->program->buffers[b].id == weight)
            return true;
    return false;
}

/* Lists the buffers that hold a weight which a later layer uses too, or only counts them. */
static int list_ties_of(const struct sample *s, int weight, int layer, struct tie *ties)
{
    int count = 0;
    bool own = keeps_own(s, weight, layer);
    for (int b = 0; b < s->program->buffer_count; b++) {
        const struct buffer *buffer = &s->program->buffers[b];
        bool holds = buffer->persistent && !buffer->host, keeps = !own && s->kept_layer[b] >= 0;
        if (!buffer->is_weight || buffer->id != weight || !(holds || keeps))
            continue;
        if (ties)
            ties[count] = (struct tie){ b, layer };
        count++;
    }
    return count;
}

/* Lists later users of weights, or only counts them. Few weights have any. */
static int list_ties(const struct sample *s, struct tie *ties)
{
    int count = 0;
    for (int i = 0; i < s->graph->segment_count; i++) {
        const struct segment *user = &s->graph->segments[i];
        for (int k = 0; k < user->weight_count; k++)
            if (user->layer != s->weight_layer[user->weight[k].id])
                count += list_ties_of(s, user->weight[k].id, user->layer, ties ? &ties[count] : NULL);
    }
    return count;
}

bool sample_list_kept(struct sample *s)
{
    list_kept(s);
    s->tie_count = list_ties(s, NULL);
    s->ties = arena_alloc(&s->arena, (size_t)s->tie_count, sizeof *s->ties);
    if (!s->ties)
        return false;
    list_ties(s, s->ties);
    return true;
}

static void price_persistent(struct sample *s)
{
    for (int k = 0; k < s->sized_count; k++) {
        const struct buffer *buffer = &s->program->buffers[s->sized[k]];
        if (!buffer->persistent || !buffer->is_weight || buffer->host)
            continue;
        struct layer_price *price = &s->by_layer[s->weight_layer[buffer->id]];
        price->weight_bytes += buffer->bytes;
        if (buffer->kind == BUFFER_WEIGHT && !s->program->graph->weights[buffer->id].frozen)
            price->version_bytes += buffer->bytes;
    }
    for (int k = 0; k < s->tie_count; k++)
        s->by_layer[s->ties[k].layer].tied_bytes += s->program->buffers[s->ties[k].buffer].bytes;
}

/* Prices what replicas exchange: the gradients that are left for the update. */
static void price_exchange(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int k = 0; k < s->list_count; k++) {
        const struct instr *instr = &list->instrs[s->listed[k]];
        if (instr->op != OP_UPDATE)
            continue;
        const struct pair *pair = &s->program->pairs[instr->pair_first];
        const struct buffer *gradient = &s->program->buffers[pair->source];
        struct layer_price *price = &s->by_layer[s->weight_layer[gradient->id]];
        price->exchange_bytes += gradient->bytes;
        price->exchange_parts++;
        bool tied = false;
        for (int t = 0; t < s->tie_count; t++)
            if (s->ties[t].buffer == pair->source) {
                s->by_layer[s->ties[t].layer].tied_gradient_bytes += gradient->bytes;
                tied = true;
            }
        price->tied_gradient_bytes += tied ? gradient->bytes : 0;
    }
}

void sample_list_deferred(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    struct access access;
    for (int b = 0; b < s->program->buffer_count; b++)
        s->deferred_for[b] = -1;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        for (struct access_walk walk = access_walk(s->program, instr);
             instr->phase == PHASE_BACKWARD_WEIGHT && instr->micro == 0 && access_next(&walk, &access);) {
            int first = s->lives[access.buffer].first;
            if (access.reads && s->deferred_for[access.buffer] < 0 && first >= 0 &&
                list->instrs[first].phase != PHASE_BACKWARD_WEIGHT)
                s->deferred_for[access.buffer] = sample_layer_of(s, instr);
        }
    }
}

/* Gives where the visit before the instruction's begins. */
static int visit_before(const struct stage_program *list, int at)
{
    const struct instr *inside = &list->instrs[at];
    for (int borders = 0; at > 0; at--) {
        const struct instr *before = &list->instrs[at - 1];
        if (before->lane != LANE_COMPUTE || lives_same_visit(before, inside))
            continue;
        if (borders++ == 1)
            break;
        inside = before;
    }
    return at;
}

/* Prices temporary bytes. saved: alive when the first micro-batch turns around; the rest of what lives at an
 * instruction is transient, and what is freed before other layers' backward passes is so in that micro-batch. */
static void price_temporary(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t alive = 0;
    memset(s->change, 0, ((size_t)s->end + 1) * sizeof *s->change);
    for (int k = 0; k < s->sized_count; k++) {
        const struct buffer *buffer = &s->program->buffers[s->sized[k]];
        struct life life = s->lives[s->sized[k]];
        if (buffer->persistent || buffer->host || s->kept_layer[s->sized[k]] >= 0 || !is_index(life.first, s->end))
            continue;
        if (s->deferred_for[s->sized[k]] >= 0)
            s->by_layer[s->deferred_for[s->sized[k]]].deferred_bytes += buffer->bytes;
        if (s->within_saved[s->sized[k]])
            continue;
        if (sample_keeps(s, s->sized[k])) {
            struct layer_price *price = &s->by_layer[sample_path_layer_of(s, &list->instrs[life.first])];
            price->saved_bytes += buffer->bytes;
            if (!sample_frees_first(s, s->sized[k]))
                continue;
            price->freed_bytes += buffer->bytes;
        }
        /* a later micro-batch has the gradient fetched one visit ahead, the first one makes it */
        s->change[buffer->kind == BUFFER_GRADIENT ? visit_before(list, life.since) : life.since] += buffer->bytes;
        if (life.held + 1 < s->end)
            s->change[life.held + 1] -= buffer->bytes;
    }
    for (int i = 0; i < s->end; i++) {
        struct layer_price *price = &s->by_layer[sample_layer_of(s, &list->instrs[i])];
        alive += s->change[i];
        if (list->instrs[i].micro == 0)
            price->transient_bytes = max_i64(price->transient_bytes, alive);
    }
}

/* Prices what comes from the host for the step, which lives when no activation does: it counts beyond those. */
static void price_fetched(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t alive = 0;
    memset(s->change, 0, ((size_t)list->instr_count + 1) * sizeof *s->change);
    for (int k = 0; k < s->sized_count; k++) {
        const struct buffer *buffer = &s->program->buffers[s->sized[k]];
        struct life life = s->lives[s->sized[k]];
        const struct instr *first = life.first >= 0 ? &list->instrs[life.first] : NULL;
        if (buffer->host || !first || first->op != OP_FETCH || first->phase != PHASE_STEP)
            continue;
        s->change[life.since] += buffer->bytes;
        s->change[life.held + 1] -= buffer->bytes;
    }
    for (int i = 0; i < list->instr_count; i++) {
        struct layer_price *price = &s->by_layer[sample_layer_of(s, &list->instrs[i])];
        alive += s->change[i];
        price->transient_bytes = max_i64(price->transient_bytes, alive);
    }
}

static int64_t workspace(const struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t most = 0;
    for (int k = 0; k < s->list_count; k++) {
        const struct instr *instr = &list->instrs[s->listed[k]];
        if (instr->op == OP_COMPUTE && s->like[s->listed[k]] == s->listed[k])
            most = max_i64(most, layout_scratch_elements(s->program, 0, instr));
    }
    return most * element_bytes(s->plan->dtype, ELEMENT_STATISTIC);
}

int64_t sample_price_memory(struct sample *s, bool path_only)
{
    price_persistent(s);
    for (int k = 0; k < s->sized_count; k++)
        if (s->kept_layer[s->sized[k]] >= 0)
            s->by_layer[s->kept_layer[s->sized[k]]].weight_bytes += s->program->buffers[s->sized[k]].bytes;
    if (path_only)
        return 0;
    price_temporary(s);
    if (plan_layer_offloads(&s->shape.layer, OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS))
        price_fetched(s);
    price_exchange(s);
    return workspace(s);
}
