#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include "planner/program/recipe.h"
#include "planner/verify/verify_parts.h"
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

/* The versions of a weight are neighbours, in order. */
static bool versions_fit(const struct program *program, int b)
{
    const struct buffer *buffer = &program->buffers[b];
    int first = b - buffer->version, count = buffer->version_count;
    if (buffer->version == 0 && count <= 1)
        return true;
    if (buffer->kind != BUFFER_WEIGHT || buffer->version < 0 || buffer->version >= count || first < 0 ||
        first > program->buffer_count - count)
        return false;
    for (int v = 0; v < count; v++) {
        const struct buffer *other = &program->buffers[first + v];
        if (other->kind != BUFFER_WEIGHT || other->id != buffer->id || other->stage != buffer->stage ||
            other->version != v || other->version_count != count || other->bytes != buffer->bytes)
            return false;
    }
    return true;
}

static bool check_buffer(const struct program *program, int b, struct error *err)
{
    const struct buffer *buffer = &program->buffers[b];
    int ids = buffer->is_weight ? program->graph->weight_count : program->graph->value_count;
    bool scalar = buffer->kind == BUFFER_SCALAR;
    if ((unsigned)buffer->kind >= BUFFER_KIND_COUNT || buffer->stage < 0 || buffer->stage >= program->stage_count)
        return fail_kind(err, ERROR_BUG, "buffer %d: kind %d or stage %d does not exist", b, (int)buffer->kind,
                         buffer->stage);
    if (scalar ? buffer->id != -1 : buffer->id < 0 || buffer->id >= ids)
        return fail_kind(err, ERROR_BUG, "buffer %d: there is no %s %d", b, buffer->is_weight ? "weight" : "value",
                         buffer->id);
    if (buffer->micro < -1 || buffer->micro >= program->plan->micro_batch_count)
        return fail_kind(err, ERROR_BUG, "buffer %d: there is no micro-batch %d", b, buffer->micro);
    if (buffer->part_count < 1 || buffer->part < 0 || buffer->part >= buffer->part_count)
        return fail_kind(err, ERROR_BUG, "buffer %d: part %d of %d", b, buffer->part, buffer->part_count);
    if (buffer->part_dim < 0 || buffer->part_dim >= MAX_DIMS || buffer->ring_atom < 0 ||
        buffer->ring_atom >= MAX_ATOMS || buffer->ring_round < 0)
        return fail_kind(err, ERROR_BUG, "buffer %d: part of dim %d, round %d of the ring over atom %d", b,
                         buffer->part_dim, buffer->ring_round, buffer->ring_atom);
    if (!versions_fit(program, b) || buffer->wraps < 0 || buffer->wraps > program->buffer_count ||
        (buffer->wraps && (program->buffers[buffer->wraps - 1].stage != buffer->stage ||
                           program->buffers[buffer->wraps - 1].bytes != buffer->bytes)))
        return fail_kind(err, ERROR_BUG, "buffer %d: version %d of %d, wraps %d", b, buffer->version,
                         buffer->version_count, buffer->wraps - 1);
    if (buffer->element_bytes == 0 || buffer->bytes < 0)
        return fail_kind(err, ERROR_BUG, "buffer %d: elements of %d bytes in %lld bytes", b, buffer->element_bytes,
                         (long long)buffer->bytes);
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        if (buffer->layout.kind[atom] > LAYOUT_ROOT || buffer->layout.dim[atom] >= MAX_DIMS ||
            buffer->layout.order[atom] >= MAX_ATOMS)
            return fail_kind(err, ERROR_BUG, "buffer %d: layout kind %d, dim %d of atom %d", b,
                             buffer->layout.kind[atom], buffer->layout.dim[atom], atom);
    return true;
}

static bool check_assignment(const struct program *program, int segment, struct error *err)
{
    const struct assignment *a = &program->assignments[segment];
    int axes = program->graph->segments[segment].axis_count;
    bool ok =
        a->ring_atom >= -1 && a->ring_atom < MAX_ATOMS && a->slice_axis >= -1 && a->slice_axis < axes && a->slices >= 1;
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        ok = ok && a->axis[atom] >= AXIS_PASS && a->axis[atom] < axes;
    return ok || fail_kind(err, ERROR_BUG, "the assignment of segment %d (%s) names axes or atoms that are not there",
                           segment, program->graph->segments[segment].name);
}

static bool in_stage(const struct program *program, int buffer, int stage)
{
    return buffer >= 0 && buffer < program->buffer_count && program->buffers[buffer].stage == stage;
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
        if (wait < 0 || wait >= index)
            return verify_fail(program, stage, index, err, "waits for instr %d, which is not earlier in the list",
                               wait);
        if (list->instrs[wait].lane == instr->lane)
            return verify_fail(program, stage, index, err,
                               "waits for instr %d of its own lane (%s), which orders them already", wait,
                               lane_names[instr->lane]);
    }
    return true;
}

/* What the place asks for: which graph operand, value or weight, which kinds of buffer. */
static const struct operand *graph_operand(const struct segment *segment, enum role role, int place)
{
    switch (role) {
    case ROLE_IN:
    case ROLE_GRADIENT_IN:
        return place < segment->in_count ? &segment->in[place] : NULL;
    case ROLE_OUT:
    case ROLE_GRADIENT_OUT:
        return place < segment->out_count ? &segment->out[place] : NULL;
    case ROLE_WEIGHT:
    case ROLE_GRADIENT_WEIGHT:
        return place < segment->weight_count ? &segment->weight[place] : NULL;
    case ROLE_COUNT:
        break;
    }
    return NULL;
}

static bool kind_suits(enum buffer_kind kind, enum role role)
{
    switch (role) {
    case ROLE_IN:
    case ROLE_OUT:
        return kind == BUFFER_VALUE || kind == BUFFER_TEMPORARY;
    case ROLE_WEIGHT:
        return kind == BUFFER_WEIGHT || kind == BUFFER_WEIGHT_USE || kind == BUFFER_TEMPORARY;
    case ROLE_GRADIENT_IN:
    case ROLE_GRADIENT_OUT:
        return kind == BUFFER_VALUE_GRADIENT || kind == BUFFER_TEMPORARY;
    case ROLE_GRADIENT_WEIGHT:
        return kind == BUFFER_WEIGHT_GRADIENT || kind == BUFFER_GRADIENT || kind == BUFFER_TEMPORARY;
    case ROLE_COUNT:
        break;
    }
    return false;
}

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
    bool weight = role == ROLE_WEIGHT || role == ROLE_GRADIENT_WEIGHT;
    if (buffer->is_weight != weight || buffer->id != operand->id || !kind_suits(buffer->kind, role) || buffer->host)
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
    int count = buffer->version_count > 1 ? buffer->version_count : 1,
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
    if (instr->segment < 0 || instr->segment >= program->graph->segment_count)
        return verify_fail(program, stage, index, err, "there is no segment %d", instr->segment);
    if (instr->lane != LANE_COMPUTE)
        return verify_fail(program, stage, index, err, "computes on lane %s: the workspace is that of lane compute",
                           lane_names[instr->lane]);
    if (instr->micro < 0 || instr->micro >= program->plan->micro_batch_count || instr->round < 0)
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

enum family {
    FAMILY_VALUE,
    FAMILY_VALUE_GRADIENT,
    FAMILY_WEIGHT,
    FAMILY_GRADIENT,
    FAMILY_STATE,
    FAMILY_SCALAR,
    FAMILY_ANY,
    FAMILY_NONE
};

static enum family family_of(enum buffer_kind kind)
{
    switch (kind) {
    case BUFFER_VALUE:
        return FAMILY_VALUE;
    case BUFFER_VALUE_GRADIENT:
        return FAMILY_VALUE_GRADIENT;
    case BUFFER_WEIGHT:
    case BUFFER_WEIGHT_USE:
        return FAMILY_WEIGHT;
    case BUFFER_WEIGHT_GRADIENT:
    case BUFFER_GRADIENT:
        return FAMILY_GRADIENT;
    case BUFFER_SCALAR:
        return FAMILY_SCALAR;
    case BUFFER_TEMPORARY:
        return FAMILY_ANY;
    case BUFFER_STATE: /* stands beside its gradient, and is named where it is fetched from the host */
    case BUFFER_STATE_USE:
        return FAMILY_STATE;
    case BUFFER_KIND_COUNT:
        break;
    }
    return FAMILY_NONE;
}

static bool moves_to_host(enum op op)
{
    return op == OP_OFFLOAD || op == OP_FETCH;
}

/* A copy to or from the host changes nothing. */
static bool same_form(const struct buffer *a, const struct buffer *b)
{
    return layout_equal(&a->layout, &b->layout) && a->bytes == b->bytes && a->micro == b->micro &&
           a->ring_round == b->ring_round && a->ring_atom == b->ring_atom && a->part == b->part &&
           a->part_count == b->part_count && a->part_dim == b->part_dim;
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

/* A conversion moves one thing from layout to layout; a sum over micro-batches may end in a buffer of none. */
static bool same_content(const struct instr *instr, const struct buffer *source, const struct buffer *destination)
{
    enum family from = family_of(source->kind), to = family_of(destination->kind);
    if (instr->op == OP_NORM)
        return source->kind == BUFFER_GRADIENT && to == FAMILY_SCALAR;
    if (source->is_weight != destination->is_weight || source->id != destination->id)
        return false;
    if (source->micro != destination->micro && source->micro != -1 && destination->micro != -1)
        return false;
    if (instr->op == OP_UPDATE)
        return source->kind == BUFFER_GRADIENT && destination->kind == BUFFER_WEIGHT;
    if (from == FAMILY_STATE || to == FAMILY_STATE)
        return from == to && moves_to_host(instr->op) && same_form(source, destination);
    if (moves_to_host(instr->op))
        return source->kind == destination->kind && same_form(source, destination);
    if (instr->op == OP_NORM_REDUCE)
        return from == FAMILY_SCALAR && to == FAMILY_SCALAR;
    return from != FAMILY_NONE && to != FAMILY_NONE && (from == to || from == FAMILY_ANY || to == FAMILY_ANY);
}

/* The norm, the state that was fetched, or another version of the weight that is updated. */
static bool suits_update(const struct program *program, const struct instr *instr, const struct pair *pair)
{
    const struct buffer *b = &program->buffers[pair->source];
    int weight = program->pairs[instr->pair_first].destination;
    if (b->kind == BUFFER_STATE_USE)
        return pair->destination == pair->source && weight >= 0 && weight < program->buffer_count &&
               b->id == program->buffers[weight].id;
    if (pair->destination != -1)
        return false;
    if (b->kind == BUFFER_SCALAR)
        return true;
    return b->kind == BUFFER_WEIGHT && weight >= 0 && weight < program->buffer_count && weight != pair->source &&
           b->id == program->buffers[weight].id && b->version_count == program->buffers[weight].version_count;
}

/* An update finds its state on the device. */
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
        if ((source && !in_stage(program, pair->source, from)) || (!source && pair->source != -1))
            return verify_fail(program, stage, index, err, "source buffer %d is not there or not of stage %d",
                               pair->source, from);
        if ((destination && !in_stage(program, pair->destination, to)) || (!destination && pair->destination != -1))
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
    bool transfer = instr->op == OP_SEND || instr->op == OP_RECEIVE;
    bool group = op_info[instr->op].collective && instr->op != OP_NORM_REDUCE;
    enum lane lane = instr->op == OP_SEND      ? LANE_SEND
                     : instr->op == OP_RECEIVE ? LANE_RECEIVE
                     : instr->op == OP_OFFLOAD ? LANE_COPY_OUT
                     : instr->op == OP_FETCH   ? LANE_COPY_IN
                                               : instr->lane;
    if (transfer && (instr->peer_stage < 0 || instr->peer_stage >= program->stage_count || instr->peer_stage == stage))
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
