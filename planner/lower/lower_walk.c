/* The loss in chunks of tokens: what loss_walk.h says, as instructions. */
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_values.h"
#include "planner/program/loss_walk.h"

void lower_find_walk(struct lowering *l)
{
    l->walk.first = l->walk.end = l->graph->segment_count;
    while (l->walk.first > 0 &&
           segment_is_walked(&l->graph->segments[l->walk.first - 1], assignment_of(l, l->walk.first - 1)))
        l->walk.first--;
}

bool lower_is_walked(const struct lowering *l, int segment)
{
    return segment >= l->walk.first && segment < l->walk.end;
}

/* Makes the product's inputs whole: they were made forward, or are made again. */
static void make_inputs(struct lowering *l, int micro)
{
    const struct segment *product = &l->graph->segments[l->walk.first];
    struct site late = { .phase = PHASE_FORWARD, .late = true, .layer = product->layer, .micro = micro },
                site = { .phase = PHASE_BACKWARD_INPUT, .again = true, .layer = product->layer, .micro = micro };
    for (int s = l->graph->layers[product->layer].first_segment; s < l->walk.first && !l->failed; s++)
        if (lower_is_put_off(l, s))
            lower_forward_segment(l, s, &late);
    for (int i = 0; i < product->in_count; i++)
        lower_materialize(l, product->in[i].id, &recipe_of(l, l->walk.first)->in[i].forward, &site);
}

/* Forgets all of the chunk but the loss, which goes on to be added up. */
static void forget_chunk(struct lowering *l, int micro)
{
    for (int s = l->walk.first; s < l->walk.end && !l->failed; s++)
        for (int k = 0; k < l->graph->segments[s].out_count; k++) {
            int value = l->graph->segments[s].out[k].id;
            for (int gradient = 0; gradient < 2 && value != l->graph->loss_value; gradient++)
                for (int i = lower_first_version(l, gradient, value, micro); i >= 0; i = note_of(l, i)->next)
                    note_of(l, i)->live = false;
        }
}

static void walk_chunk(struct lowering *l, int micro)
{
    for (int s = l->walk.first; s < l->walk.end && !l->failed; s++) {
        struct site site = {
            .phase = PHASE_FORWARD, .late = true, .layer = l->graph->segments[s].layer, .micro = micro
        };
        lower_forward_segment(l, s, &site);
    }
    for (int s = l->walk.end - 1; s >= l->walk.first && !l->failed; s--)
        backward_segment(l, s, micro, true, true);
    forget_chunk(l, micro);
}

void walk_loss(struct lowering *l, int micro)
{
    int rounds = assignment_of(l, l->walk.first)->slices;
    make_inputs(l, micro);
    for (l->walk.round = 0; l->walk.round < rounds && !l->failed; l->walk.round++)
        walk_chunk(l, micro);
    struct layout layout = lower_base_layouts(l, l->graph->loss_value).forward;
    int loss = l->failed ? -1 : lower_find_version(l, false, l->graph->loss_value, micro, &layout);
    if (loss >= 0)
        buffer_at(l, loss)->persistent = true;
}
