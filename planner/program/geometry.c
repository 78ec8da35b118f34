#include "planner/program/geometry.h"
#include "base/num.h"
#include "models/quantized.h"
#include "planner/program/recipe.h"
#include <string.h>

/* ---- blocks ---- */
static struct block whole_block(const struct program *program, const struct buffer *buffer)
{
    struct block block;
    memset(&block, 0, sizeof block);
    if (buffer->id < 0) { /* a scalar */
        block.dim_count = 1;
        block.count[0] = 1;
    } else if (buffer->is_weight) {
        const struct weight *weight = &program->graph->weights[buffer->id];
        block.dim_count = weight->dim_count;
        memcpy(block.count, weight->size, sizeof block.count);
    } else {
        const struct value *value = &program->graph->values[buffer->id];
        block.dim_count = value->dim_count;
        for (int i = 0; i < value->dim_count; i++) {
            block.count[i] = recipe_value_extent(program->plan, value, i);
            if (value->tag[i] == TAG_BATCH)
                block.low[i] = block.count[i] * buffer->micro;
        }
    }
    return block;
}

/* Gives the coordinate of the rank along the atom, `back` steps back on a ring. */
static int64_t ring_coordinate(const struct plan *plan, int stage, int local_rank, int atom, int back)
{
    int size = plan->stages[stage].atom[atom];
    return ((plan_atom_coordinate(plan, stage, local_rank, atom) - back) % size + size) % size;
}

struct block buffer_block(const struct program *program, const struct buffer *buffer, int local_rank)
{
    struct block block = whole_block(program, buffer);
    const struct layout *layout = &buffer->layout;
    for (int order = 0; order < MAX_ATOMS; order++) {
        for (int atom = 0; atom < MAX_ATOMS; atom++) {
            if (layout->kind[atom] != LAYOUT_SHARDED || layout->order[atom] != order)
                continue;
            int dim = layout->dim[atom];
            int back = atom == buffer->ring_atom ? buffer->ring_round : 0;
            block.count[dim] /= program->plan->stages[buffer->stage].atom[atom];
            block.low[dim] += block.count[dim] * ring_coordinate(program->plan, buffer->stage, local_rank, atom, back);
        }
    }
    if (buffer->part_count > 1) {
        block.count[buffer->part_dim] /= buffer->part_count;
        block.low[buffer->part_dim] += block.count[buffer->part_dim] * buffer->part;
    }
    return block;
}

int64_t block_elements(const struct block *block)
{
    int64_t elements = 1;
    for (int i = 0; i < block->dim_count; i++)
        elements *= block->count[i];
    return elements;
}

int64_t buffer_elements(const struct program *program, const struct buffer *buffer)
{
    const int *atom = program->plan->stages[buffer->stage].atom;
    const struct layout *layout = &buffer->layout;
    const struct value *value = buffer->is_weight || buffer->id < 0 ? NULL : &program->graph->values[buffer->id];
    const struct weight *weight = buffer->is_weight ? &program->graph->weights[buffer->id] : NULL;
    const int64_t *size = weight ? weight->size : value ? value->size : NULL;
    int dim_count = weight ? weight->dim_count : value ? value->dim_count : 0;
    int64_t elements = 1, shards = 1, pieces = 1, pad = 1;
    for (int i = 0; i < dim_count; i++) {
        elements *= size[i];
        shards *= value && value->tag[i] == TAG_BATCH ? program->plan->micro_batch_count : 1;
    }
    for (int i = 0; i < MAX_ATOMS; i++) {
        shards *= layout->kind[i] == LAYOUT_SHARDED ? atom[i] : 1;
        pieces *= layout->kind[i] == LAYOUT_FLAT ? atom[i] : 1;
        pad *= buffer->padded >> i & 1 ? atom[i] : 1;
    }
    shards *= max_int(buffer->part_count, 1);
    elements = shards > 1 ? elements / shards : elements; /* what splits a dim divides it */
    elements = pieces > 1 ? ceil_div(elements, pieces) : elements;
    return weight && pieces == 1 && pad > 1 ? round_up(elements, pad) : elements;
}

bool block_intersect(const struct block *want, const struct block *have, struct block *out)
{
    struct block both;
    memset(&both, 0, sizeof both);
    both.dim_count = want->dim_count;
    for (int i = 0; i < want->dim_count; i++) {
        both.low[i] = max_i64(want->low[i], have->low[i]);
        both.count[i] = min_i64(want->low[i] + want->count[i], have->low[i] + have->count[i]) - both.low[i];
        if (both.count[i] <= 0)
            return false;
    }
    *out = both;
    return true;
}

/* Gives the rank's place among the coordinates of the mask's atoms (the last is the innermost), and their number. */
static int place_in(const struct plan *plan, int stage, unsigned mask, int local_rank, int *count)
{
    int place = 0, total = 1;
    for (int atom = 0; atom < MAX_ATOMS; atom++) {
        if (mask >> atom & 1) {
            place = place * plan->stages[stage].atom[atom] + plan_atom_coordinate(plan, stage, local_rank, atom);
            total *= plan->stages[stage].atom[atom];
        }
    }
    *count = total;
    return place;
}

void geometry_flat_piece(const struct program *program, const struct buffer *buffer, int local_rank, int *index,
                         int *count)
{
    *index = place_in(program->plan, buffer->stage, layout_atoms(&buffer->layout, LAYOUT_FLAT), local_rank, count);
}

/* ---- ranges ---- */
void instr_range(const struct program *program, int stage, const struct instr *instr, int local_rank,
                 int64_t low[MAX_AXES], int64_t high[MAX_AXES])
{
    const struct segment *segment = &program->graph->segments[instr->segment];
    const struct assignment *assignment = &program->assignments[instr->segment];
    for (int i = 0; i < segment->axis_count; i++) {
        const struct axis *axis = &segment->axes[i];
        int64_t extent = recipe_axis_extent(program->plan, axis),
                start = axis->tag == TAG_BATCH ? instr->micro * extent : 0;
        for (int order = 0; order < MAX_ATOMS; order++) {
            for (int atom = 0; atom < MAX_ATOMS; atom++) {
                bool ring = assignment->ring_atom == atom && axis->tag == TAG_KEY;
                if (recipe_split_order(axis->tag, atom) != order || (assignment->axis[atom] != i && !ring))
                    continue;
                extent /= program->plan->stages[stage].atom[atom];
                start += extent * ring_coordinate(program->plan, stage, local_rank, atom, ring ? instr->round : 0);
            }
        }
        if (assignment->slice_axis == i) {
            extent /= assignment->slices;
            start += extent * instr->round;
        }
        low[i] = start;
        high[i] = start + extent;
    }
}

void instr_extents(const struct program *program, int stage, const struct instr *instr, int64_t extents[MAX_AXES])
{
    const struct segment *segment = &program->graph->segments[instr->segment];
    const struct assignment *assignment = &program->assignments[instr->segment];
    const int *atom = program->plan->stages[stage].atom;
    for (int i = 0; i < MAX_AXES; i++) {
        extents[i] = 0;
        if (i >= segment->axis_count)
            continue;
        extents[i] = recipe_axis_extent(program->plan, &segment->axes[i]);
        for (int k = 0; k < MAX_ATOMS; k++) {
            bool ring = assignment->ring_atom == k && segment->axes[i].tag == TAG_KEY;
            if (assignment->axis[k] == i || ring)
                extents[i] /= atom[k];
        }
        if (assignment->slice_axis == i)
            extents[i] /= assignment->slices;
    }
}

/* ---- groups ---- */
int geometry_group_size(const struct plan *plan, int stage, unsigned atoms)
{
    int size = 1;
    for (int atom = 0; atom < MAX_ATOMS; atom++) {
        if (atoms >> atom & 1)
            size *= plan->stages[stage].atom[atom];
    }
    return size;
}

int geometry_group_members(const struct plan *plan, int stage, unsigned atoms, int local_rank, int *members, int *place)
{
    const int *size = plan->stages[stage].atom;
    int stride[MAX_ATOMS], first = local_rank, count, inner = 1;
    for (int atom = MAX_ATOMS - 1; atom >= 0; atom--) {
        stride[atom] = inner;
        inner *= size[atom];
        if (atoms >> atom & 1)
            first -= plan_atom_coordinate(plan, stage, local_rank, atom) * stride[atom];
    }
    *place = place_in(plan, stage, atoms, local_rank, &count);
    for (int i = 0; i < count; i++) {
        int rest = i, member = first;
        for (int atom = MAX_ATOMS - 1; atom >= 0; atom--) {
            if (atoms >> atom & 1) {
                member += rest % size[atom] * stride[atom];
                rest /= size[atom];
            }
        }
        members[i] = member;
    }
    return count;
}

/* ---- transfers between stages ---- */
static bool at_root(const struct program *program, const struct buffer *buffer, int local_rank)
{
    int count;
    return place_in(program->plan, buffer->stage, layout_atoms(&buffer->layout, LAYOUT_ROOT), local_rank, &count) == 0;
}

bool geometry_transfer_block(const struct program *program, const struct pair *pair, int sender_local_rank,
                             int receiver_local_rank, struct block *out)
{
    const struct buffer *from = &program->buffers[pair->source], *to = &program->buffers[pair->destination];
    int copies, alike, others;
    if (!at_root(program, from, sender_local_rank) || !at_root(program, to, receiver_local_rank))
        return false;
    int copy = place_in(program->plan, from->stage, layout_atoms(&from->layout, LAYOUT_REPLICATED), sender_local_rank,
                        &copies);
    int among =
        place_in(program->plan, to->stage, layout_atoms(&to->layout, LAYOUT_REPLICATED), receiver_local_rank, &alike);
    int piece =
        place_in(program->plan, to->stage, layout_atoms(&to->layout, LAYOUT_SHARDED), receiver_local_rank, &others);
    /* receivers, numbered with equal ones next to each other, take the sender's copies in turn */
    if ((among + piece * alike) % copies != copy)
        return false;
    struct block want = buffer_block(program, to, receiver_local_rank),
                 have = buffer_block(program, from, sender_local_rank);
    return block_intersect(&want, &have, out);
}

/* True when both ends cut the value alike, so that each rank sends to its like alone. */
static bool cut_alike(const struct program *program, const struct buffer *from, const struct buffer *to)
{
    const struct plan_stage *here = &program->plan->stages[from->stage], *there = &program->plan->stages[to->stage];
    return !memcmp(here->atom, there->atom, sizeof here->atom) &&
           !memcmp(&from->layout, &to->layout, sizeof to->layout) && !layout_atoms(&from->layout, LAYOUT_ROOT) &&
           !layout_atoms(&from->layout, LAYOUT_PARTIAL) && from->part_count <= 1 && to->part_count <= 1 &&
           from->ring_round == to->ring_round;
}

/* Gives what local rank 0 sends: copy 0 of the first block serves receiver 0 and so is never idle. */
static int64_t sent_bytes(const struct program *program, const struct pair *pair)
{
    const struct buffer *from = &program->buffers[pair->source], *to = &program->buffers[pair->destination];
    int64_t elements = 0;
    if (from->bytes == 0)
        return 0;
    if (layout_atoms(&from->layout, LAYOUT_FLAT)) /* equal shards on equal meshes: each goes to its like */
        return from->bytes;
    int receivers = cut_alike(program, from, to) ? 1 : plan_stage_rank_count(program->plan, to->stage);
    for (int i = 0; i < receivers; i++) {
        struct block block;
        if (geometry_transfer_block(program, pair, 0, i, &block))
            elements += block_elements(&block);
    }
    return elements * from->element_bytes;
}

int64_t op_wire_bytes(enum op op, int64_t bytes, int64_t ranks)
{
    switch (op_info[op].traffic) {
    case TRAFFIC_REDUCE:
        return bytes > INT64_MAX / 2 ? INT64_MAX : 2 * bytes - ceil_div(2 * bytes, ranks);
    case TRAFFIC_RING:
    case TRAFFIC_EXCHANGE:
        return bytes - ceil_div(bytes, ranks);
    case TRAFFIC_ROOT:
        return mul_i64(&bytes, bytes, ranks - 1) ? bytes : INT64_MAX;
    case TRAFFIC_SHIFT:
        return ranks > 1 ? bytes : 0;
    case TRAFFIC_MESSAGE:
        return bytes;
    case TRAFFIC_KERNEL:
    case TRAFFIC_LOCAL:
    case TRAFFIC_HOST: /* stays inside the rank's host */
        break;
    }
    return 0;
}

static int64_t pair_wire_bytes(const struct program *program, const struct instr *instr, const struct pair *pair,
                               int64_t ranks)
{
    int64_t from = pair->source >= 0 ? program->buffers[pair->source].bytes : 0;
    int64_t to = pair->destination >= 0 ? program->buffers[pair->destination].bytes : 0;
    if (instr->op == OP_SEND)
        return sent_bytes(program, pair);
    if (instr->op == OP_REDISTRIBUTE)
        return op_wire_bytes(instr->op, max_i64(from, to), ranks);
    return op_wire_bytes(instr->op, instr->op == OP_ALL_GATHER || instr->op == OP_RECEIVE ? to : from, ranks);
}

int64_t instr_wire_bytes(const struct program *program, int stage, const struct instr *instr)
{
    int64_t ranks = instr->op == OP_NORM_REDUCE ? program->plan->rank_count
                                                : geometry_group_size(program->plan, stage, instr->atoms),
            bytes = 0;
    for (int i = 0; i < instr->pair_count; i++)
        bytes += pair_wire_bytes(program, instr, &program->pairs[instr->pair_first + i], ranks);
    return bytes;
}

/* ---- who counts, what belongs together ---- */
bool geometry_rank_counts(const struct program *program, const struct buffer *buffer, int local_rank)
{
    for (int atom = 0; atom < MAX_ATOMS; atom++) {
        if (buffer->layout.kind[atom] == LAYOUT_REPLICATED &&
            plan_atom_coordinate(program->plan, buffer->stage, local_rank, atom) != 0)
            return false;
    }
    return at_root(program, buffer, local_rank);
}

bool geometry_rank_updates(const struct program *program, const struct instr *instr, int local_rank)
{
    return at_root(program, &program->buffers[program->pairs[instr->pair_first].source], local_rank);
}

bool geometry_norm_counts(const struct program *program, int stage, const struct pair *pair, int local_rank)
{
    const struct buffer *gradient = &program->buffers[pair->source];
    return gradient->stage == stage && geometry_rank_counts(program, gradient, local_rank);
}

/* Scales of a quantized weight are whole on every rank that has a part of it (bitsandbytes keeps them with the module,
 * nn/modules.py, Params4bit), so that its elements alone are gathered. They travel with what lies on the host. What is
 * gathered of shards is padded to them; a frozen weight that is whole is not. */
static int64_t scale_bytes(const struct program *program, const struct buffer *buffer, int64_t elements)
{
    bool flat = layout_atoms(&buffer->layout, LAYOUT_FLAT) != 0,
         stored = buffer->kind == BUFFER_WEIGHT && !buffer->host;
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        elements *= buffer->layout.kind[atom] == LAYOUT_FLAT ? program->plan->stages[buffer->stage].atom[atom] : 1;
    return flat || stored || !buffer->padded ? weight_scale_bytes(&program->graph->weights[buffer->id], elements) : 0;
}

int64_t buffer_bytes_of(const struct program *program, const struct buffer *buffer, int64_t elements)
{
    if (buffer->kind == BUFFER_WEIGHT || buffer->kind == BUFFER_WEIGHT_USE)
        return weight_bytes(&program->graph->weights[buffer->id], program->plan->dtype, elements) +
               scale_bytes(program, buffer, elements);
    bool state = buffer->kind == BUFFER_STATE || buffer->kind == BUFFER_STATE_USE;
    return state ? optimizer_state_bytes(&program->plan->optimizer, program->plan->dtype,
                                         &program->graph->weights[buffer->id], elements)
                 : elements * buffer->element_bytes;
}

int geometry_state_buffer(const struct program *program, int gradient_buffer)
{
    int next = gradient_buffer + 1;
    bool more = program->buffers[gradient_buffer].kind == BUFFER_GRADIENT && next < program->buffer_count;
    return more && program->buffers[next].kind == BUFFER_STATE ? next : -1;
}

const struct buffer *buffer_version_at(const struct buffer *buffer, int64_t updates)
{
    if (buffer->version_count <= 1)
        return buffer;
    return buffer + (buffer->version + updates) % buffer->version_count - buffer->version;
}
