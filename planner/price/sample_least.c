/* What every program has to do at least, whatever stands around the layer: for bounds of the simulated step. */
#include "base/num.h"
#include "planner/program/loss_walk.h"
#include "planner/price/sample_parts.h"

static void add_kernel(struct sample *s, const struct instr *instr, int64_t ns)
{
    struct layer_price *price = &s->by_layer[sample_layer_of(s, instr)];
    const struct segment *segment = &s->graph->segments[instr->segment];
    if (instr->again)
        price->least.again_ns += ns;
    else if (instr->late ||
             segment_is_walked(segment, &s->program->assignments[instr->segment])) /* all by one action */
        price->least.input_ns += ns;
    else if (instr->phase == PHASE_FORWARD)
        price->least.forward_ns += ns;
    else if (instr->phase == PHASE_BACKWARD_INPUT)
        price->least.input_ns += ns;
    else if (instr->phase == PHASE_BACKWARD_WEIGHT)
        price->least.weight_ns += ns;
}

static bool is_on_the_way(const struct instr *instr)
{
    return instr->lane == LANE_TP || instr->lane == LANE_CP || instr->lane == LANE_EP;
}

/* How long after the last kernel the transfers are done at the earliest that the instruction waits for, of those that
 * wait for this kernel themselves; -1: it waits for none. since: when each is done, -1: of another kernel. */
static int64_t done_after(const struct stage_program *list, const struct instr *instr, int last, const int64_t *since)
{
    int64_t latest = -1;
    for (int k = 0; k < instr->wait_count; k++) {
        int wait = list->waits[instr->wait_first + k];
        latest = max_i64(latest, wait == last ? 0 : since[wait]);
    }
    return latest;
}

/* Before the kernel, behind the one that is the last so far; -1: it is the first. */
static void note_gap(struct sample *s, const struct instr *instr, int last, int64_t gap_ns)
{
    const struct instr *before = last < 0 ? NULL : &s->program->stages[0].instrs[last];
    int layer = sample_path_layer_of(s, instr);
    struct least_price *least = &s->by_layer[layer].least;
    bool forward = instr_is_forward(instr);
    bool inner = before && sample_path_layer_of(s, before) == layer && instr_is_forward(before) == forward;
    *(inner ? &least->gap_ns : forward ? &least->enter_gap_ns : &least->return_gap_ns) += gap_ns;
}

/* Time in which the compute lane can do nothing: between a kernel and the very next, where this one waits for
 * transfers that wait for that one. */
static void add_gaps(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t *since = s->finish;
    int last = -1;
    for (int i = 0; i < list->instr_count; i++)
        since[i] = -1;
    for (int k = 0, newest = 0; k < s->list_count; k++) {
        int i = s->listed[k];
        const struct instr *instr = &list->instrs[i];
        if (instr->micro != 0)
            continue;
        if (is_on_the_way(instr)) {
            int64_t begins = last < 0 ? -1 : done_after(list, instr, last, since);
            since[i] = begins < 0 ? -1 : begins + s->duration[i];
        } else if (instr->lane == LANE_COMPUTE) {
            int64_t gap = last < 0 ? 0 : done_after(list, instr, last, since);
            note_gap(s, instr, last, max_i64(gap, 0));
            for (; newest <= k; newest++)
                since[s->listed[newest]] = -1;
            last = i;
        }
    }
}

/* Whether the layer shares a weight with another: on a stage of its own its transfers are put together otherwise. */
static bool shares_weights(const struct sample *s, int layer)
{
    for (int t = 0; t < s->tie_count; t++)
        if (s->ties[t].layer == layer || s->weight_layer[s->program->buffers[s->ties[t].buffer].id] == layer)
            return true;
    return false;
}

int64_t sample_least_transfer_ns(const struct sample *s, const struct facts *facts, const struct instr *instr,
                                 int64_t ns)
{
    int64_t bytes = 0;
    if (instr->lane == LANE_DP && instr->phase != PHASE_STEP && !shares_weights(s, sample_layer_of(s, instr)))
        return ns; /* of a pass: no other layer's are in it */
    if (facts->profile || !op_info[instr->op].collective || instr->lane != LANE_DP)
        return 0;
    const struct pair *pair = &s->program->pairs[instr->pair_first];
    if (instr->pair_count == 1 && pair->source >= 0 && pair->destination >= 0)
        bytes = max_i64(s->program->buffers[pair->source].bytes, s->program->buffers[pair->destination].bytes);
    return bytes > 0 && bytes >= s->plan->bucket_bytes ? ns : cost_stream_ns(facts, s->program, 0, instr);
}

int64_t sample_joined_ns(const struct sample *s, const struct facts *facts, const struct instr *instr, int64_t ns)
{
    if (instr->lane != LANE_DP || instr->phase == PHASE_STEP)
        return 0;
    return facts->profile ? ns : ns - min_i64(ns, cost_stream_ns(facts, s->program, 0, instr));
}

/* What ZeRO-3 gathers is given up at the end of the pass for which it was first asked: each pass gathers anew where
 * gathers run fewer layers ahead than there are. */
void sample_add_lane(struct layer_price *price, const int64_t *into, int64_t least_ns)
{
    bool each = into == &price->gather_forward_ns || into == &price->gather_backward_ns || into == &price->reduce_ns;
    *(each ? &price->least.lane_micro_ns : &price->least.lane_once_ns) += least_ns;
    price->least.refresh_ns += into == &price->step_ns ? least_ns : 0;
}

void sample_price_least(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int k = 0; k < s->list_count; k++) {
        const struct instr *instr = &list->instrs[s->listed[k]];
        if (instr->op == OP_COMPUTE)
            add_kernel(s, instr, s->duration[s->listed[k]]);
        else if (instr->lane == LANE_COMPUTE && (instr->op == OP_UPDATE || instr->op == OP_NORM))
            s->by_layer[sample_path_layer_of(s, instr)].least.update_ns += s->duration[s->listed[k]];
    }
    add_gaps(s);
}
