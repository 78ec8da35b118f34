/* Buffers, versions, instructions, conversions and messages: the vocabulary in which lowering speaks. */
#include "planner/lower/lower_emit.h"
#include "base/num.h"
#include "planner/lower/convert.h"
#include "planner/program/geometry.h"
#include "planner/program/loss_walk.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>

bool lower_memory(struct lowering *l)
{
    l->failed = true;
    return fail_kind(l->err, ERROR_ENVIRONMENT, "out of memory while lowering a plan of %d layers",
                     l->plan->layer_count);
}

bool lower_grow(struct lowering *l, struct arena *arena, void **array, int count, int *capacity, size_t size)
{
    if (l->failed)
        return false;
    void *larger = arena_more(arena, *array, count, capacity, size);
    if (!larger)
        return lower_memory(l);
    *array = larger;
    return true;
}

/* Grows arrays with something for each micro-batch of the whole plan, whose smaller forms an arena would keep. */
static bool grow_large(struct lowering *l, void **array, int64_t count, int *capacity, size_t size)
{
    if (l->failed)
        return false;
    if (count <= *capacity)
        return true;
    int64_t wanted = max_i64(max_i64(count, 2 * (int64_t)*capacity), 32);
    void *larger = wanted <= INT_MAX ? realloc(*array, (size_t)wanted * size) : NULL;
    if (!larger)
        return lower_memory(l);
    *array = larger;
    *capacity = (int)wanted;
    return true;
}

bool lower_room(struct lowering *l, int64_t instrs, int64_t buffers, int64_t pairs, int64_t operands)
{
    struct stage_program *stage = &l->program->stages[l->stage];
    struct lowering_made *m = &l->made;
    bool good =
        grow_large(l, (void **)&m->instrs, stage->instr_count + instrs, &m->instr_capacity, sizeof *m->instrs) &&
        grow_large(l, (void **)&m->notes, l->program->buffer_count - m->first_buffer + buffers, &m->note_capacity,
                   sizeof *m->notes) &&
        lower_lasting_room(l, buffers, pairs, operands);
    stage->instrs = m->instrs;
    return good;
}

bool lower_lasting_room(struct lowering *l, int64_t buffers, int64_t pairs, int64_t operands)
{
    struct program *program = l->program;
    struct lowering_made *m = &l->made;
    return grow_large(l, (void **)&program->buffers, program->buffer_count + buffers, &m->buffer_capacity,
                      sizeof *program->buffers) &&
           grow_large(l, (void **)&program->pairs, program->pair_count + pairs, &m->pair_capacity,
                      sizeof *program->pairs) &&
           grow_large(l, (void **)&program->operands, program->operand_count + operands, &m->operand_capacity,
                      sizeof *program->operands);
}

/* ---- instructions ---- */
struct instr *emit(struct lowering *l, enum op op, enum lane lane, const struct site *site)
{
    struct stage_program *stage = &l->program->stages[l->stage];
    struct instr *instr = &l->made.spare;
    if (grow_large(l, (void **)&l->made.instrs, stage->instr_count + 1, &l->made.instr_capacity,
                   sizeof *l->made.instrs)) {
        stage->instrs = l->made.instrs;
        instr = &stage->instrs[stage->instr_count++];
    }
    memset(instr, 0, sizeof *instr);
    instr->op = op;
    instr->lane = lane;
    instr->phase = site->phase;
    instr->part = l->steady.part;
    instr->again = site->again;
    instr->late = site->late;
    instr->layer = site->layer;
    instr->micro = site->micro;
    instr->segment = instr->peer_stage = instr->tag = -1;
    return instr;
}

void lower_set_operands(struct lowering *l, struct instr *instr, const struct operand_table *table)
{
    struct program *program = l->program;
    int first = program->operand_count;
    if (grow_large(l, (void **)&program->operands, first + OPERAND_SLOTS, &l->made.operand_capacity,
                   sizeof *program->operands))
        program->operand_count += instr_pack(instr, table, first, &program->operands[first]);
}

int lower_add_pair(struct lowering *l, int source, int destination)
{
    struct program *program = l->program;
    if (!grow_large(l, (void **)&program->pairs, program->pair_count + 1, &l->made.pair_capacity,
                    sizeof *program->pairs))
        return 0;
    program->pairs[program->pair_count] = (struct pair){ source, destination };
    return program->pair_count++;
}

struct instr *emit_pair(struct lowering *l, enum op op, enum lane lane, const struct site *site, int source,
                        int destination)
{
    struct instr *instr = emit(l, op, lane, site);
    instr->pair_first = lower_add_pair(l, source, destination);
    instr->pair_count = 1;
    return instr;
}

enum lane lower_atom_lane(const struct lowering *l, int layer, unsigned atoms, bool weight)
{
    const struct plan_layer *choice = &l->plan->layers[layer];
    enum lane lane = LANE_TP;
    for (int i = 0; i < MAX_ATOMS; i++) { /* the innermost atom decides */
        if (!(atoms >> i & 1))
            continue;
        if (choice->dim[i] != DIM_none)
            lane = dimensions[choice->dim[i]]->lane;
        if (weight && dimensions[choice->dim[i]]->shard)
            return LANE_DP;
    }
    return lane;
}

/* ---- buffers ---- */
static int64_t element_size(const struct lowering *l, const struct buffer *buffer)
{
    enum dtype dtype = l->plan->dtype;
    switch (buffer->kind) {
    case BUFFER_VALUE:
    case BUFFER_VALUE_GRADIENT:
        return value_bytes_per_element(l->graph, buffer->id, dtype, buffer->kind == BUFFER_VALUE_GRADIENT);
    case BUFFER_WEIGHT:
    case BUFFER_WEIGHT_USE:
        return weight_bytes_per_element(dtype);
    case BUFFER_WEIGHT_GRADIENT:
    case BUFFER_GRADIENT:
        return optimizer_gradient_bytes(&l->plan->optimizer, l->graph->keeping.narrow_gradients, dtype);
    case BUFFER_STATE:
    case BUFFER_STATE_USE:
        return optimizer_bytes_per_element(&l->plan->optimizer, dtype, &l->graph->weights[buffer->id]);
    case BUFFER_SCALAR:
        return element_bytes(dtype, ELEMENT_STATISTIC);
    case BUFFER_TEMPORARY:
    case BUFFER_KIND_COUNT:
        break;
    }
    return 0;
}

/* A temporary keeps the element size that it was given. What is made like a gradient that is reduced in place has bytes
 * of its own. */
int lower_add_buffer(struct lowering *l, struct buffer buffer)
{
    struct program *program = l->program;
    int reused = steady_reuse(l, &buffer);
    if (!grow_large(l, (void **)&program->buffers, program->buffer_count + 1, &l->made.buffer_capacity,
                    sizeof *program->buffers) ||
        !grow_large(l, (void **)&l->made.notes, program->buffer_count - l->made.first_buffer + 1,
                    &l->made.note_capacity, sizeof *l->made.notes))
        return 0;
    int number = reused >= 0 ? reused : program->buffer_count;
    if (buffer.kind != BUFFER_TEMPORARY)
        buffer.element_bytes = (uint8_t)element_size(l, &buffer);
    buffer.in_place = buffer.in_place && buffer.kind == BUFFER_GRADIENT;
    buffer.stage = l->stage;
    buffer.offset = -1;
    if (buffer.is_weight) { /* what nobody updates is never gathered in place */
        const struct stage_weight *w = &l->weights.of[buffer.id];
        buffer.padded = (uint8_t)(l->graph->weights[buffer.id].frozen && w->zero < 3 ? 0 : w->shard);
    }
    buffer.bytes = buffer_bytes_of(program, &buffer, buffer_elements(program, &buffer));
    program->buffers[number] = buffer;
    *note_of(l, number) = (struct version_note){ .next = -1, .as = number };
    program->buffer_count += reused < 0;
    steady_note(l, number);
    return number;
}

/* ---- versions ---- */
int *lower_version_head(const struct lowering *l, bool gradient, int value, int micro)
{
    return &l->made.version_head[gradient][value * l->micro_count + micro];
}

/* Values and their gradients have versions; other buffers are in no list. */
static void link_version(struct lowering *l, int buffer)
{
    const struct buffer *b = buffer_at(l, buffer);
    bool gradient = b->kind == BUFFER_VALUE_GRADIENT;
    if (!gradient && b->kind != BUFFER_VALUE)
        return;
    int *head = lower_version_head(l, gradient, b->id, b->micro);
    note_of(l, buffer)->next = *head;
    *head = buffer;
}

int lower_add_version(struct lowering *l, bool gradient, int value, int micro, const struct layout *layout)
{
    struct buffer version = { .kind = gradient ? BUFFER_VALUE_GRADIENT : BUFFER_VALUE,
                              .id = value,
                              .micro = micro,
                              .part_count = 1,
                              .layout = *layout };
    int dim = loss_walk_dim(l->graph, l->program->assignments, value);
    if (dim >= 0) {
        version.part = l->walk.round;
        version.part_count = assignment_of(l, l->graph->values[value].producer)->slices;
        version.part_dim = dim;
    }
    int buffer = lower_add_buffer(l, version);
    if (!l->failed)
        link_version(l, buffer);
    return buffer;
}

void lower_forget_versions(struct lowering *l)
{
    for (int b = l->made.first_buffer; b < l->program->buffer_count; b++) {
        const struct buffer *buffer = buffer_at(l, b);
        if (!buffer->is_weight && buffer->id >= 0 && buffer->micro >= 0)
            *lower_version_head(l, false, buffer->id, buffer->micro) =
                *lower_version_head(l, true, buffer->id, buffer->micro) = -1;
    }
}

int lower_find_version(const struct lowering *l, bool gradient, int value, int micro, const struct layout *layout)
{
    for (int i = lower_first_version(l, gradient, value, micro); i >= 0; i = note_of(l, i)->next) {
        if (note_of(l, i)->live && layout_equal(&buffer_at(l, i)->layout, layout))
            return i;
    }
    return -1;
}

void lower_set_live(struct lowering *l, int buffer, bool live)
{
    if (!l->failed)
        note_of(l, buffer)->live = live;
}

/* ---- conversions ---- */
int lower_path_between(const struct lowering *l, int source, const struct layout *to,
                       struct conversion path[MAX_CONVERSIONS])
{
    const struct buffer *from = buffer_at(l, source);
    int dim_count = from->is_weight ? l->graph->weights[from->id].dim_count : l->graph->values[from->id].dim_count;
    int64_t extent[MAX_DIMS] = { 0 };
    for (int i = 0; i < dim_count; i++) {
        extent[i] = from->is_weight ? l->graph->weights[from->id].size[i]
                                    : recipe_value_extent(l->plan, &l->graph->values[from->id], i);
        if (from->part_count > 1 && from->part_dim == i)
            extent[i] /= from->part_count;
    }
    return conversion_path(l->plan->stages[l->stage].atom, extent, &from->layout, to, path);
}

int lower_add_buffer_like(struct lowering *l, int source, const struct layout *layout, enum buffer_kind kind)
{
    struct buffer next = *buffer_at(l, source);
    next.kind = kind;
    next.layout = *layout;
    next.persistent = next.host = false;
    next.version = next.version_count = 0;
    return lower_add_buffer(l, next);
}

int lower_convert_buffer(struct lowering *l, int source, const struct layout *to, enum buffer_kind kind, bool consume,
                         const struct site *site)
{
    struct conversion path[MAX_CONVERSIONS];
    int count = l->failed ? 0 : lower_path_between(l, source, to, path), now = source;
    bool is_value = !l->failed && buffer_at(l, source)->kind == BUFFER_VALUE;
    enum fold fold = is_value ? l->graph->values[buffer_at(l, source)->id].partial : FOLD_SUM;
    if (count < 0) {
        l->failed = true;
        fail_kind(l->err, ERROR_BUG, "no conversion between two layouts of buffer %d (layer %d)", source, site->layer);
        return source;
    }
    for (int i = 0; i < count && !l->failed; i++) {
        bool in_place = path[i].op == OP_ALL_REDUCE && (consume || now != source), last = i == count - 1;
        int next = now;
        if (in_place) {
            buffer_at(l, now)->layout = path[i].to;
        } else {
            next = lower_add_buffer_like(l, now, &path[i].to, last ? kind : BUFFER_TEMPORARY);
            if (!l->failed && last)
                link_version(l, next);
        }
        bool sums = path[i].op == OP_ALL_REDUCE || path[i].op == OP_REDUCE || path[i].op == OP_REDUCE_SCATTER ||
                    path[i].op == OP_REDISTRIBUTE;
        enum lane lane = path[i].op == OP_SLICE
                             ? LANE_COMPUTE
                             : lower_atom_lane(l, site->layer, path[i].atoms, buffer_at(l, source)->is_weight);
        struct instr *instr = emit_pair(l, path[i].op, lane, site, now, next);
        instr->atoms = path[i].atoms;
        instr->fold = sums ? fold : FOLD_NONE;
        now = next;
    }
    if (!l->failed && buffer_at(l, now)->kind == BUFFER_TEMPORARY &&
        kind != BUFFER_TEMPORARY) { /* ended by an all-reduce in place */
        buffer_at(l, now)->kind = kind;
        link_version(l, now);
    }
    return now;
}

/* ---- messages between stages ---- */
static int message_of(struct lowering *l, enum message_kind kind, int from, int to, int id, int number)
{
    int64_t key[] = { (int64_t)kind, from, to, id, number };
    bool known;
    if (!grow_large(l, (void **)&l->messages.list, l->messages.count + 1, &l->messages.capacity,
                    sizeof *l->messages.list))
        return -1;
    int *tag = memo_place(&l->messages.tags, key, sizeof key / sizeof *key, sizeof *tag, &known);
    if (!tag) {
        lower_memory(l);
        return -1;
    }
    if (!known) {
        *tag = l->messages.count++;
        l->messages.list[*tag] = (struct message){ .send_pair = -1, .receive_pair = -1 };
    }
    return *tag;
}

void lower_queue_send(struct lowering *l, enum message_kind kind, int id, int number, int peer, int buffer,
                      const struct site *site)
{
    if (lower_grow(l, &l->scratch, (void **)&l->messages.pending, l->messages.pending_count,
                   &l->messages.pending_capacity, sizeof *l->messages.pending))
        l->messages.pending[l->messages.pending_count++] =
            (struct pending){ kind, id, steady_number(l, number), peer, buffer, l->steady.part, *site };
}

static void emit_send(struct lowering *l, const struct pending *p)
{
    int tag = message_of(l, p->kind, l->stage, p->peer, p->id, p->number);
    struct instr *instr = emit_pair(l, OP_SEND, LANE_SEND, &p->site, p->buffer, -1);
    instr->peer_stage = p->peer;
    instr->tag = tag;
    instr->part = p->part;
    if (!l->failed)
        l->messages.list[tag].send_pair = instr->pair_first;
}

void emit_sends(struct lowering *l)
{
    if (l->messages.ordered)
        emit_sends_before(l, INT_MAX);
    for (int i = 0; i < l->messages.pending_count && !l->failed; i++)
        emit_send(l, &l->messages.pending[i]);
    l->messages.pending_count = 0;
}

void emit_sends_before(struct lowering *l, int place)
{
    for (;;) {
        int first = -1, least = place;
        for (int i = 0; i < l->messages.pending_count && !l->failed; i++) {
            const struct pending *p = &l->messages.pending[i];
            int at = p->kind != MESSAGE_WEIGHT ? message_place(l, p->kind, p->peer, p->number) : place;
            if (at < least || (first >= 0 && at == least && p->id < l->messages.pending[first].id)) {
                first = i;
                least = at;
            }
        }
        if (first < 0)
            return;
        emit_send(l, &l->messages.pending[first]);
        memmove(&l->messages.pending[first], &l->messages.pending[first + 1],
                (size_t)(--l->messages.pending_count - first) * sizeof *l->messages.pending);
    }
}

void emit_receive(struct lowering *l, enum message_kind kind, int id, int number, int peer, int buffer,
                  const struct site *site)
{
    int tag = message_of(l, kind, peer, l->stage, id, steady_number(l, number));
    struct instr *instr = emit_pair(l, OP_RECEIVE, LANE_RECEIVE, site, -1, buffer);
    instr->peer_stage = peer;
    instr->tag = tag;
    if (!l->failed)
        l->messages.list[tag].receive_pair = instr->pair_first;
}

bool messages_close(struct lowering *l)
{
    for (int i = 0; i < l->messages.count && !l->failed; i++) {
        const struct message *m = &l->messages.list[i];
        if (m->send_pair < 0 || m->receive_pair < 0) {
            l->failed = true;
            return fail_kind(l->err, ERROR_BUG, "message %d between stages has %s", i,
                             m->send_pair < 0 ? "no sender" : "no receiver");
        }
        struct pair *send = &l->program->pairs[m->send_pair], *receive = &l->program->pairs[m->receive_pair];
        send->destination = receive->destination;
        receive->source = send->source;
    }
    return !l->failed;
}
