/* When a stage posts its receives. A send ends only together with its receive, and both lanes keep their order, so a
 * receive that is posted too late can make two stages wait for each other.
 *
 * Plain pipelines post what an action reads when it begins: that never stalls (tests) and takes the least memory. With
 * chunks, turns, split backward passes or values that skip stages messages overtake each other. There receives are
 * posted in the order in which an ideal run of the schedule (clock.h) sends them, each before the action during which
 * it is sent. Then the messages in the order of that clock, ties by sender, are one order in which all can happen:
 * before each of them all that its two ends wait for has happened, since that ended earlier. */
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_values.h"
#include <stdlib.h>

int lower_stage_at_hand(const struct lowering *l, int layer)
{
    return plan_stage_of_copy(l->plan, layer, l->here.copy);
}

int lower_peer_of(const struct lowering *l, int stage, int micro)
{
    return stage + micro % plan_stage_turns(l->plan, stage);
}

static const struct crossing *crossing_of(const struct lowering *l, bool gradient, int index)
{
    return gradient ? &l->crossings.leaving[index] : &l->crossings.entering[index];
}

static int *received(const struct lowering *l, bool gradient, int index, int micro)
{
    return &l->crossings.received[(gradient ? l->crossings.entering_count + index : index) * l->micro_count + micro];
}

/* Posts a receive: a forward value lands in a version that is nobody's yet, and so does a gradient. */
static int post(struct lowering *l, bool gradient, int index, int micro)
{
    const struct crossing *crossing = crossing_of(l, gradient, index);
    int copy = l->here.copy;
    l->here.copy = micro % l->here.copies; /* not that of the action before which it is posted */
    const struct segment_range *chunk = &l->here.chunks[crossing->chunk];
    struct site site = { .phase = gradient ? PHASE_BACKWARD_INPUT : PHASE_FORWARD,
                         .layer = l->graph->segments[gradient ? chunk->end - 1 : chunk->first].layer,
                         .micro = micro };
    struct layout_pair layouts = lower_sent_layouts(l, crossing->value);
    int buffer =
        lower_add_version(l, gradient, crossing->value, micro, gradient ? &layouts.gradient : &layouts.forward);
    l->here.copy = copy;
    emit_receive(l, gradient ? MESSAGE_GRADIENT : MESSAGE_VALUE, crossing->value, micro,
                 lower_peer_of(l, crossing->stage, micro), buffer, &site);
    return buffer;
}

int lower_arrived(struct lowering *l, bool gradient, int index, int micro)
{
    int early = gradient ? -1 : steady_received(l, index, micro);
    if (early >= 0)
        return early;
    return l->crossings.clock.stages ? *received(l, gradient, index, micro) : post(l, gradient, index, micro);
}

/* ---- early ---- */
static int layer_chunk(const struct plan *plan, int stage, int layer)
{
    int chunk = plan->chunk_count - 1;
    while (chunk > 0) {
        struct layer_range range = plan_stage_chunk(plan, stage, chunk);
        if (layer >= range.first && layer < range.first + range.count)
            break;
        chunk--;
    }
    return chunk;
}

/* Gives the chunk of the other stage whose pass sends the message: the producer's, or of those that read the value the
 * first, which runs backward last. */
static int sending_chunk(const struct lowering *l, const struct crossing *crossing, bool gradient)
{
    const struct value *value = &l->graph->values[crossing->value];
    int first = l->plan->chunk_count - 1;
    if (!gradient)
        return layer_chunk(l->plan, crossing->stage, l->graph->segments[value->producer].layer);
    for (int slot = l->known.reader_head[crossing->value]; slot >= 0; slot = l->known.reader_next[slot]) {
        int layer = l->graph->segments[slot / MAX_OPERANDS].layer;
        int chunk = layer_chunk(l->plan, crossing->stage, layer);
        if (lower_stage_at_hand(l, layer) == crossing->stage && chunk < first)
            first = chunk;
    }
    return first;
}

static void add_arrivals(struct lowering *l, bool gradient, int index)
{
    const struct crossing *crossing = crossing_of(l, gradient, index);
    if (crossing->stage < 0 || (gradient && !graph_needs_gradient(l->graph, crossing->value)))
        return;
    l->here.copy = crossing->chunk % l->here.copies;
    int chunk = sending_chunk(l, crossing, gradient), turns = plan_stage_turns(l->plan, l->here.position);
    for (int micro = l->stage - l->here.position + l->here.copy; micro < l->micro_count;
         micro += turns * l->here.copies) {
        int from = lower_peer_of(l, crossing->stage, micro);
        l->crossings.arrivals[l->crossings.arrival_count++] =
            (struct arrival){ .sent = { .time = clock_end(&l->crossings.clock, l->plan, from, chunk, micro, gradient),
                                        .from = from,
                                        .rank = crossing->value },
                              .index = index,
                              .micro = micro,
                              .gradient = gradient };
    }
}

static int compare_arrivals(const void *left, const void *right)
{
    const struct arrival *a = left, *b = right;
    return clock_compare_messages(&a->sent, &b->sent);
}

bool lower_list_arrivals(struct lowering *l)
{
    if (!l->crossings.clock.stages)
        return true;
    size_t count = (size_t)(l->crossings.entering_count + l->crossings.leaving_count) * (size_t)l->micro_count;
    l->crossings.arrivals = arena_alloc(&l->growing, count, sizeof *l->crossings.arrivals);
    l->crossings.received = arena_alloc(&l->growing, count, sizeof *l->crossings.received);
    l->crossings.arrival_count = l->crossings.posted_count = 0;
    if (!l->crossings.arrivals || !l->crossings.received)
        return lower_memory(l);
    for (int i = 0; i < l->crossings.entering_count; i++)
        add_arrivals(l, false, i);
    for (int i = 0; i < l->crossings.leaving_count; i++)
        add_arrivals(l, true, i);
    qsort(l->crossings.arrivals, (size_t)l->crossings.arrival_count, sizeof *l->crossings.arrivals, compare_arrivals);
    return true;
}

void lower_post_arrivals(struct lowering *l, int action)
{
    for (; l->crossings.clock.stages && l->crossings.posted_count < l->crossings.arrival_count && !l->failed;
         l->crossings.posted_count++) {
        const struct arrival *next = &l->crossings.arrivals[l->crossings.posted_count];
        if (!clock_posts_before(&l->crossings.clock, l->stage, action, &next->sent))
            break;
        *received(l, next->gradient, next->index, next->micro) = post(l, next->gradient, next->index, next->micro);
    }
}
