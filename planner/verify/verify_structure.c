#include "base/num.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include "planner/program/recipe.h"
#include "planner/verify/verify_parts.h"
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>

bool verify_fail(const struct program *program, int stage, int index, struct error *err, const char *format, ...)
{
    char message[512], name[INSTR_NAME_BYTES];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    int first = program->plan->stages[stage].first_rank;
    return fail_kind(err, ERROR_BUG, "%s of ranks %d to %d: %s", instr_name(name, program, stage, index), first,
                     first + plan_stage_rank_count(program->plan, stage) - 1, message);
}

/* A number, and the range in which it has to be. */
struct number {
    const char *name;
    int64_t value, least, below;
};

static bool check_numbers(const struct number *numbers, size_t count, const char *of, int index, struct error *err)
{
    for (const struct number *n = numbers; n < numbers + count; n++)
        if (n->value < n->least || n->value >= n->below)
            return fail_kind(err, ERROR_BUG, "%s %d: %s %lld, expected it in [%lld, %lld)", of, index, n->name,
                             (long long)n->value, (long long)n->least, (long long)n->below);
    return true;
}

/* True when the versions of a weight are neighbours, in order, and alike. */
static bool versions_fit(const struct program *program, int b)
{
    const struct buffer *buffer = &program->buffers[b];
    int first = b - buffer->version, count = buffer->version_count;
    if (buffer->version == 0 && count <= 1)
        return true;
    bool fit = buffer->kind == BUFFER_WEIGHT && is_index(buffer->version, count) && first >= 0 &&
               first <= program->buffer_count - count;
    for (int v = 0; fit && v < count; v++) {
        const struct buffer *other = &program->buffers[first + v];
        fit = buffer_alike(other, buffer) && other->version == v && other->version_count == count;
    }
    return fit;
}

static bool check_buffer(const struct program *program, int b, struct error *err)
{
    const struct buffer *buffer = &program->buffers[b];
    int ids = buffer->is_weight ? program->graph->weight_count : program->graph->value_count;
    bool scalar = buffer->kind == BUFFER_SCALAR;
    const struct number numbers[] = {
        { "kind", buffer->kind, 0, BUFFER_KIND_COUNT },
        { "stage", buffer->stage, 0, program->stage_count },
        { buffer->is_weight ? "weight" : "value", buffer->id, scalar ? -1 : 0, scalar ? 0 : ids },
        { "micro-batch", buffer->micro, -1, program->plan->micro_batch_count },
        { "part", buffer->part, 0, buffer->part_count },
        { "dim of parts", buffer->part_dim, 0, MAX_DIMS },
        { "atom of the ring", buffer->ring_atom, 0, MAX_ATOMS },
        { "round of the ring", buffer->ring_round, 0, INT_MAX },
        { "1 + what it wraps is", buffer->wraps, 0, program->buffer_count + 1 },
        { "bytes of an element", buffer->element_bytes, 1, UINT8_MAX + 1 },
        { "bytes", buffer->bytes, 0, INT64_MAX },
    };
    if (!check_numbers(numbers, sizeof numbers / sizeof *numbers, "buffer", b, err))
        return false;
    const struct buffer *wrapped = buffer->wraps > 0 ? &program->buffers[buffer->wraps - 1] : buffer;
    if (!versions_fit(program, b) || wrapped->stage != buffer->stage || wrapped->bytes != buffer->bytes)
        return fail_kind(err, ERROR_BUG, "buffer %d: version %d of %d, wraps %d", b, buffer->version,
                         buffer->version_count, buffer->wraps - 1);
    for (int atom = 0; atom < MAX_ATOMS; atom++) {
        const struct number layout[] = {
            { "layout kind", buffer->layout.kind[atom], 0, LAYOUT_ROOT + 1 },
            { "layout dim", buffer->layout.dim[atom], 0, MAX_DIMS },
            { "layout order", buffer->layout.order[atom], 0, MAX_ATOMS },
        };
        if (!check_numbers(layout, sizeof layout / sizeof *layout, "buffer", b, err))
            return false;
    }
    return true;
}

static bool check_assignment(const struct program *program, int segment, struct error *err)
{
    const struct assignment *a = &program->assignments[segment];
    int axes = program->graph->segments[segment].axis_count;
    struct number numbers[MAX_ATOMS + 3] = {
        { "atom of the ring", a->ring_atom, -1, MAX_ATOMS },
        { "sliced axis", a->slice_axis, -1, axes },
        { "slices", a->slices, 1, INT_MAX },
    };
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        numbers[3 + atom] = (struct number){ "axis of an atom", a->axis[atom], AXIS_PASS, axes };
    return check_numbers(numbers, MAX_ATOMS + 3, "the assignment of segment", segment, err);
}

static bool in_stage(const struct program *program, int buffer, int stage)
{
    return is_index(buffer, program->buffer_count) && program->buffers[buffer].stage == stage;
}

static bool check_waits(const struct program *program, int stage, int index, struct error *err)
{
    const struct stage_program *list = &program->stages[stage];
    const struct instr *instr = &list->instrs[index];
    if (instr->wait_first < 0 || instr->wait_count > list->wait_count - instr->wait_first)
        return verify_fail(program, stage, index, err, "its waits [%d, +%d) lie outside the stage's %d",
                           instr->wait_first, instr->wait_count, list->wait_count);
    for (int k = 0; k < instr->wait_count; k++) {
        int wait = list->waits[instr->wait_first + k];
        if (!is_index(wait, index))
            return verify_fail(program, stage, index, err, "waits for instr %d, which is not earlier in the list",
                               wait);
        if (list->instrs[wait].lane == instr->lane)
            return verify_fail(program, stage, index, err,
                               "waits for instr %d of its own lane (%s), which orders them already", wait,
                               lane_names[instr->lane]);
    }
    return true;
}

enum family {
    FAMILY_VALUE,
    FAMILY_VALUE_GRADIENT,
    FAMILY_WEIGHT,
    FAMILY_GRADIENT,
    FAMILY_STATE, /* stands beside its gradient, and is named where it is fetched from the host */
    FAMILY_SCALAR,
    FAMILY_ANYTHING
};
static const enum family family_of[BUFFER_KIND_COUNT] = {
#define BUFFER(id, name, holds) [BUFFER_##id] = FAMILY_##holds,
#include "planner/program/buffers.def"
#undef BUFFER
};

static bool same_family(enum family a, enum family b)
{
    return a == b || a == FAMILY_ANYTHING || b == FAMILY_ANYTHING;
}

/* Gives what a role asks for: which of the graph's operands, of what kinds. */
static const struct operand *graph_operand(const struct segment *segment, enum role role, int place)
{
    switch (role) {
#define ROLE(id, name, list, holds, weight)                                                                            \
    case ROLE_##id:                                                                                                    \
        return place < segment->list##_count ? &segment->list[place] : NULL;
#include "planner/program/roles.def"
#undef ROLE
    case ROLE_COUNT:
        break;
    }
    return NULL;
}
static const struct {
    enum family holds;
    bool is_weight;
} role_wants[ROLE_COUNT] = {
#define ROLE(id, name, list, holds, weight) [ROLE_##id] = { FAMILY_##holds, weight },
#include "planner/program/roles.def"
#undef ROLE
};

static bool check_operand(const struct program *program, int stage, int index, enum role role, int place,
                          struct error *err)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    int b = instr_operand(program, instr, role, place);
    if (b == -1)
        return true;
    const struct operand *operand = graph_operand(&program->graph->segments[instr->segment], role, place);
    if (!operand || !in_stage(program, b, stage))
        return verify_fail(program, stage, index, err,
                           "operand %s %d is buffer %d, which is not there or not of this stage", role_names[role],
                           place, b);
    const struct buffer *buffer = &program->buffers[b];
    bool weight = role_wants[role].is_weight;
    if (buffer->is_weight != weight || buffer->id != operand->id || buffer->host ||
        !same_family(family_of[buffer->kind], role_wants[role].holds))
        return verify_fail(program, stage, index, err, "operand %s %d should hold %s %d, but buffer %d does not",
                           role_names[role], place, weight ? "weight" : "value", operand->id, b);
    if (buffer->micro != -1 && buffer->micro != instr->micro)
        return verify_fail(program, stage, index, err, "operand %s %d is buffer %d of micro-batch %d", role_names[role],
                           place, b, buffer->micro);
    if (weight && buffer->part_count > 1 && buffer->part != instr->round)
        return verify_fail(program, stage, index, err,
                           "operand %s %d is part %d of weight %s, expected that of round %d", role_names[role], place,
                           buffer->part, program->graph->weights[buffer->id].name, instr->round);
    if (buffer->kind != BUFFER_WEIGHT)
        return true;
    int count = max_int(buffer->version_count, 1),
        version = schedule_version(program->plan, stage, instr->micro, instr->part) % count;
    if (buffer->version != (version + count) % count)
        return verify_fail(program, stage, index, err, "operand %s %d is version %d of weight %s, expected %d of %d",
                           role_names[role], place, buffer->version, program->graph->weights[buffer->id].name,
                           (version + count) % count, count);
    return true;
}

static bool check_compute(const struct program *program, int stage, int index, struct error *err)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    if (!is_index(instr->segment, program->graph->segment_count))
        return verify_fail(program, stage, index, err, "there is no segment %d", instr->segment);
    if (instr->lane != LANE_COMPUTE)
        return verify_fail(program, stage, index, err, "computes on lane %s: the workspace is that of lane compute",
                           lane_names[instr->lane]);
    if (!is_index(instr->micro, program->plan->micro_batch_count) || instr->round < 0)
        return verify_fail(program, stage, index, err, "micro-batch %d, round %d do not exist", instr->micro,
                           instr->round);
    if (plan_stage_of_work(program->plan, program->graph->segments[instr->segment].layer, instr->micro) != stage)
        return verify_fail(program, stage, index, err, "segment %d of micro-batch %d belongs to another stage",
                           instr->segment, instr->micro);
    for (uint32_t left = instr->operands; left; left &= left - 1) {
        int slot = __builtin_ctz(left);
        if (!check_operand(program, stage, index, (enum role)(slot / MAX_OPERANDS), slot % MAX_OPERANDS, err))
            return false;
    }
    return true;
}

/* Copies alone touch the host's arena, each from the one side to the other. */
static bool check_memory(const struct program *program, int stage, int index, const struct pair *pair,
                         struct error *err)
{
    enum op op = program->stages[stage].instrs[index].op;
    const int ends[] = { pair->source, pair->destination };
    for (int end = 0; end < 2; end++) {
        bool wanted = op == OP_OFFLOAD ? end == 1 : op == OP_FETCH ? end == 0 : false;
        if (ends[end] >= 0 && program->buffers[ends[end]].host != wanted)
            return verify_fail(program, stage, index, err, "buffer %d lies %s, expected it %s", ends[end],
                               wanted ? "on the device" : "in host memory",
                               wanted ? "in host memory" : "on the device");
    }
    return true;
}

/* True when a conversion moves one thing between layouts; a sum over micro-batches may end in a buffer of none. */
static bool same_content(const struct instr *instr, const struct buffer *source, const struct buffer *destination)
{
    enum family from = family_of[source->kind], to = family_of[destination->kind];
    bool state = from == FAMILY_STATE || to == FAMILY_STATE;
    if (instr->op == OP_NORM)
        return source->kind == BUFFER_GRADIENT && to == FAMILY_SCALAR;
    if (source->is_weight != destination->is_weight || source->id != destination->id ||
        (source->micro != destination->micro && min_int(source->micro, destination->micro) != -1))
        return false;
    if (instr->op == OP_UPDATE)
        return source->kind == BUFFER_GRADIENT && to == FAMILY_WEIGHT;
    if (op_info[instr->op].traffic == TRAFFIC_HOST) { /* such a copy changes nothing of the form */
        struct buffer moved = *source;
        moved.kind = destination->kind;
        moved.host = destination->host;
        return source->micro == destination->micro && buffer_alike(&moved, destination) && from == to;
    }
    if (instr->op == OP_NORM_REDUCE)
        return from == FAMILY_SCALAR && to == FAMILY_SCALAR;
    return !state && same_family(from, to);
}

/* True for the norm, the state that was fetched, or another version of the weight that is updated. */
static bool suits_update(const struct program *program, const struct instr *instr, const struct pair *pair)
{
    int updated = program->pairs[instr->pair_first].destination;
    const struct buffer *b = &program->buffers[pair->source], *weight = &program->buffers[max_int(updated, 0)];
    bool own = is_index(updated, program->buffer_count) && b->id == weight->id;
    if (b->kind == BUFFER_STATE_USE)
        return own && pair->destination == pair->source;
    bool version = own && b->kind == BUFFER_WEIGHT && b != weight && b->version_count == weight->version_count;
    return pair->destination == -1 && (version || b->kind == BUFFER_SCALAR);
}

/* Checks that an update finds its state on the device. */
static bool check_state(const struct program *program, int stage, int index, struct error *err)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    int gradient = program->pairs[instr->pair_first].source, state = geometry_state_buffer(program, gradient);
    if (state < 0 || !program->buffers[state].host || access_update_state(program, instr) >= 0)
        return true;
    return verify_fail(program, stage, index, err, "its state, buffer %d, lies in host memory and is not fetched",
                       state);
}

static bool check_pairs(const struct program *program, int stage, int index, struct error *err)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    int from = instr->op == OP_RECEIVE ? instr->peer_stage : stage,
        to = instr->op == OP_SEND ? instr->peer_stage : stage;
    bool source = op_info[instr->op].reads_source || instr->op == OP_RECEIVE;
    bool destination = op_info[instr->op].writes_destination || instr->op == OP_SEND;
    if (instr->pair_count < 1 || instr->pair_first < 0 || instr->pair_count > program->pair_count - instr->pair_first)
        return verify_fail(program, stage, index, err, "its pairs [%d, +%d) lie outside the program's %d",
                           instr->pair_first, instr->pair_count, program->pair_count);
    for (int k = 0; k < instr->pair_count; k++) {
        const struct pair *pair = &program->pairs[instr->pair_first + k];
        bool beside = instr->op == OP_UPDATE && k > 0; /* what the update works with */
        if (beside && in_stage(program, pair->source, stage) && suits_update(program, instr, pair))
            continue;
        if (source ? !in_stage(program, pair->source, from) : pair->source != -1)
            return verify_fail(program, stage, index, err, "source buffer %d is not there or not of stage %d",
                               pair->source, from);
        if (destination ? !in_stage(program, pair->destination, to) : pair->destination != -1)
            return verify_fail(program, stage, index, err, "destination buffer %d is not there or not of stage %d",
                               pair->destination, to);
        if (source && destination &&
            !same_content(instr, &program->buffers[pair->source], &program->buffers[pair->destination]))
            return verify_fail(program, stage, index, err, "buffers %d and %d do not hold the same thing", pair->source,
                               pair->destination);
        if (!check_memory(program, stage, index, pair, err))
            return false;
    }
    return instr->op != OP_UPDATE || check_state(program, stage, index, err);
}

static bool check_group(const struct program *program, int stage, int index, struct error *err)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    static const struct {
        enum op op;
        enum lane lane;
    } own_lanes[] = {
        { OP_SEND, LANE_SEND },
        { OP_RECEIVE, LANE_RECEIVE },
        { OP_OFFLOAD, LANE_COPY_OUT },
        { OP_FETCH, LANE_COPY_IN },
    };
    enum lane lane = instr->lane;
    for (size_t i = 0; i < sizeof own_lanes / sizeof *own_lanes; i++)
        lane = instr->op == own_lanes[i].op ? own_lanes[i].lane : lane;
    bool transfer = op_info[instr->op].traffic == TRAFFIC_MESSAGE;
    bool group = op_info[instr->op].collective && instr->op != OP_NORM_REDUCE;
    if (transfer && (!is_index(instr->peer_stage, program->stage_count) || instr->peer_stage == stage))
        return verify_fail(program, stage, index, err, "there is no peer stage %d", instr->peer_stage);
    if (!transfer && (instr->peer_stage != -1 || instr->tag != -1))
        return verify_fail(program, stage, index, err, "has peer stage %d and tag %d, but stays inside its stage",
                           instr->peer_stage, instr->tag);
    if (lane != instr->lane)
        return verify_fail(program, stage, index, err, "runs on lane %s, not on %s", lane_names[instr->lane],
                           lane_names[lane]);
    if (instr->accumulate && (instr->op == OP_REDUCE || instr->op == OP_BROADCAST))
        return verify_fail(program, stage, index, err, "adds to what is there; expected it to overwrite");
    if (group && (!instr->atoms || instr->atoms >> MAX_ATOMS))
        return verify_fail(program, stage, index, err, "there is no group over the atoms %#x", instr->atoms);
    return true;
}

static bool check_instr(const struct program *program, int stage, int index, struct error *err)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    if ((unsigned)instr->op >= OP_COUNT || (unsigned)instr->lane >= LANE_COUNT || (unsigned)instr->phase >= PHASE_COUNT)
        return fail_kind(err, ERROR_BUG, "stage %d instr %d: op %d, phase %d or lane %d does not exist", stage, index,
                         (int)instr->op, (int)instr->phase, (int)instr->lane);
    if (instr->layer < -1 || instr->layer >= program->graph->layer_count)
        return fail_kind(err, ERROR_BUG, "stage %d instr %d: there is no layer %d", stage, index, instr->layer);
    if (instr->op != OP_COMPUTE && !check_pairs(program, stage, index, err))
        return false;
    if (instr->op == OP_COMPUTE && !check_compute(program, stage, index, err))
        return false;
    return check_group(program, stage, index, err) && check_waits(program, stage, index, err);
}

bool verify_structure(const struct program *program, struct error *err)
{
    if (program->stage_count != program->plan->stage_count)
        return fail_kind(err, ERROR_BUG, "the program has %d stages, its plan %d", program->stage_count,
                         program->plan->stage_count);
    for (int i = 0; i < program->graph->segment_count; i++)
        if (!check_assignment(program, i, err))
            return false;
    for (int b = 0; b < program->buffer_count; b++)
        if (!check_buffer(program, b, err))
            return false;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++)
            if (!check_instr(program, s, i, err))
                return false;
    return true;
}
