/* Backward passes of one segment. */
#include "planner/lower/convert.h"
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_values.h"
#include "planner/lower/lower_weights.h"
#include <string.h>

/* Adds a gradient version to the live base version. Slices accumulate themselves; what collectives give is added. */
static void add_to_base(struct lowering *l, int version, int base, const struct site *site)
{
    struct conversion path[MAX_CONVERSIONS];
    const struct layout to = buffer_at(l, base)->layout;
    int count = lower_path_between(l, version, &to, path);
    if (count > 0 && path[count - 1].op == OP_SLICE) {
        struct layout before = count > 1 ? path[count - 2].to : buffer_at(l, version)->layout;
        int cut = count > 1 ? lower_convert_buffer(l, version, &before, BUFFER_TEMPORARY, l->in_place, site) : version;
        struct instr *instr = emit_pair(l, OP_SLICE, LANE_COMPUTE, site, cut, base);
        instr->accumulate = true;
        instr->atoms = path[count - 1].atoms;
        return;
    }
    int like = lower_convert_buffer(l, version, &to, BUFFER_TEMPORARY, l->in_place, site);
    emit_pair(l, OP_ADD, LANE_COMPUTE, site, like, base)->accumulate = true;
}

int lower_settle(struct lowering *l, int value, const struct site *site)
{
    struct layout layout = lower_base_layouts(l, value).gradient;
    int base = l->failed ? -1 : lower_find_version(l, true, value, site->micro, &layout), next;
    for (int i = l->failed ? -1 : lower_first_version(l, true, value, site->micro); i >= 0 && !l->failed; i = next) {
        next = note_of(l, i)->next;
        if (!note_of(l, i)->live || i == base)
            continue;
        lower_set_live(l, i, false);
        if (base >= 0) {
            add_to_base(l, i, base, site);
        } else {
            base = lower_convert_buffer(l, i, &layout, BUFFER_VALUE_GRADIENT, l->in_place, site);
            lower_set_live(l, base, true);
        }
    }
    return base;
}

/* Does one pass of the segment over its range write the whole of the operand's block? Not where a dim follows no axis,
 * nor where ranks that split an axis hold the same block. */
static bool covered(const struct lowering *l, int segment, const struct operand *operand, const int64_t *size,
                    int dim_count, const struct layout *layout)
{
    const struct segment *s = &l->graph->segments[segment];
    const struct assignment *assignment = assignment_of(l, segment);
    for (int dim = 0; dim < dim_count && s->kernel != KERNEL_OPAQUE; dim++) {
        if (size[dim] <= 1)
            continue;
        if (operand->axis[dim] < 0)
            return false;
        for (int atom = 0; atom < MAX_ATOMS; atom++) {
            bool split = layout->kind[atom] == LAYOUT_SHARDED && layout->dim[atom] == dim;
            if (assignment->axis[atom] == operand->axis[dim] && !split)
                return false;
        }
    }
    return true;
}

static void zero(struct lowering *l, int buffer, const struct site *site)
{
    emit_pair(l, OP_ZERO, LANE_COMPUTE, site, -1, buffer);
}

struct backward { /* one segment's pass over one micro-batch */
    struct lowering *l;
    int segment, rounds, first, end; /* of the rounds those that are run: all, or the walk's chunk */
    const struct segment *s;
    const struct segment_recipe *recipe;
    const struct assignment *assignment;
    struct site site;
    int in[MAX_OPERANDS], out[MAX_OPERANDS], gradient_in[MAX_OPERANDS], gradient_out[MAX_OPERANDS];
    bool defines[MAX_OPERANDS]; /* nothing was added to the input gradient before */
    bool streams[MAX_OPERANDS];
    int travelling[MAX_OPERANDS]; /* gradient that rotates with its operand; it sets out empty, or the local one would
                                     count twice */
    bool cleared[MAX_OPERANDS];   /* the travelling gradient was zeroed: a pass writes only a part of it */
};

static void read_values(struct backward *b, unsigned in_mask, unsigned out_mask)
{
    struct site site = b->site;
    site.again = true; /* whatever has to be made for it is made again */
    for (int i = 0; i < b->s->out_count; i++) {
        b->out[i] = -1;
        if (out_mask >> i & 1) /* after its fold */
            b->out[i] = lower_materialize(b->l, b->s->out[i].id, &b->recipe->out[i].forward, &site);
    }
    for (int i = 0; i < b->s->in_count; i++) {
        b->in[i] = -1;
        if (in_mask >> i & 1)
            b->in[i] = lower_materialize(b->l, b->s->in[i].id, &b->recipe->in[i].forward, &site);
    }
}

static void open_gradients(struct backward *b)
{
    struct lowering *l = b->l;
    for (int i = 0; i < b->s->in_count && !l->failed; i++) {
        int value = b->s->in[i].id;
        const struct value *v = &l->graph->values[value];
        const struct layout *layout = &b->recipe->in[i].gradient;
        b->gradient_in[i] = b->travelling[i] = -1;
        b->defines[i] = false;
        b->streams[i] = recipe_operand_streams(b->s, b->assignment, &b->s->in[i]);
        if (!v->differentiable || !graph_needs_gradient(l->graph, value))
            continue;
        int buffer = lower_find_version(l, true, value, b->site.micro, layout);
        b->defines[i] = buffer < 0 || (b->first > 0 && b->segment == l->walk.first && l->walk.defines >> i & 1);
        if (buffer < 0)
            buffer = lower_add_version(l, true, value, b->site.micro, layout);
        b->gradient_in[i] = buffer;
        if (b->streams[i])
            continue;
        lower_set_live(l, buffer, true);
        if (b->defines[i] && !covered(l, b->segment, &b->s->in[i], v->size, v->dim_count, layout)) {
            zero(l, buffer, &b->site);
            b->defines[i] = false;
        }
    }
    if (b->segment != l->walk.first || b->first > 0)
        return; /* the product's chunks after the first write beside it */
    l->walk.defines = 0;
    for (int i = 0; i < b->s->in_count; i++)
        l->walk.defines |= (unsigned)b->defines[i] << i;
}

/* A segment may read one value twice (a sum of a value with itself): neither operand alone may define the gradient. */
static void open_twins(struct backward *b)
{
    for (int i = 1; i < b->s->in_count && !b->l->failed; i++)
        for (int k = 0; k < i; k++) {
            bool twins = b->gradient_in[i] >= 0 && b->gradient_in[i] == b->gradient_in[k];
            if (twins && b->defines[k]) {
                zero(b->l, b->gradient_in[k], &b->site);
                b->defines[k] = false;
            }
        }
}

/* Gives all that it reads but weights; the rest is absent. */
static struct operand_table operands_read(const struct backward *b)
{
    struct operand_table table = program_no_operands;
    memcpy(table.buffer[ROLE_IN], b->in, sizeof(int) * (size_t)b->s->in_count);
    for (int i = 0; i < b->s->out_count; i++) {
        table.buffer[ROLE_OUT][i] = b->out[i];
        table.buffer[ROLE_GRADIENT_OUT][i] = b->gradient_out[i];
    }
    return table;
}

static void shift(struct backward *b, int from, int to)
{
    unsigned atoms = 1u << b->assignment->ring_atom;
    emit_pair(b->l, OP_SHIFT, lower_atom_lane(b->l, b->site.layer, atoms, false), &b->site, from, to)->atoms = atoms;
}

/* Operands go on; their gradients go on beside them and come home after as many steps as there are ranks. */
static void rotate(struct backward *b, int round)
{
    struct lowering *l = b->l;
    int atom = b->assignment->ring_atom;
    bool last = round == b->rounds - 1;
    for (int i = 0; i < b->s->in_count && !l->failed; i++) {
        if (!b->streams[i])
            continue;
        if (!last && b->in[i] >= 0) {
            int next = lower_ring_buffer(l, b->in[i], round + 1, atom, BUFFER_VALUE);
            shift(b, b->in[i], next);
            b->in[i] = next;
        }
        if (b->gradient_in[i] < 0)
            continue;
        if (last && b->defines[i]) {
            shift(b, b->travelling[i], b->gradient_in[i]);
            lower_set_live(l, b->gradient_in[i], true);
            continue;
        }
        int next = lower_ring_buffer(l, b->gradient_in[i], last ? 0 : round + 1, atom,
                                     last ? BUFFER_TEMPORARY : BUFFER_VALUE_GRADIENT);
        shift(b, b->travelling[i], next);
        if (last)
            emit_pair(l, OP_ADD, LANE_COMPUTE, &b->site, next, b->gradient_in[i])->accumulate = true;
        b->travelling[i] = next;
    }
}

static void open_travelling(struct backward *b)
{
    struct lowering *l = b->l;
    for (int i = 0; i < b->s->in_count && !l->failed; i++) {
        const struct value *v = &l->graph->values[b->s->in[i].id];
        if (!b->streams[i] || b->gradient_in[i] < 0)
            continue;
        b->travelling[i] = lower_ring_buffer(l, b->gradient_in[i], 0, b->assignment->ring_atom, BUFFER_VALUE_GRADIENT);
        b->cleared[i] = !covered(l, b->segment, &b->s->in[i], v->size, v->dim_count, &b->recipe->in[i].gradient);
        if (b->cleared[i])
            zero(l, b->travelling[i], &b->site);
    }
}

static void input_phase(struct backward *b)
{
    struct lowering *l = b->l;
    const struct kernel_facts *k = &kernel_facts[b->s->kernel];
    b->site.phase = PHASE_BACKWARD_INPUT;
    read_values(b, segment_input_reads_in(l->graph, b->s), k->input_reads_out);
    open_gradients(b);
    open_twins(b);
    open_travelling(b);
    for (int round = b->first; round < b->end && !l->failed; round++) {
        struct operand_table table = operands_read(b);
        for (int i = 0; i < b->s->weight_count; i++)
            table.buffer[ROLE_WEIGHT][i] =
                k->input_reads_weight >> i & 1 ? lower_use_weight(l, b->segment, i, round, &b->site) : -1;
        struct instr *instr = emit(l, OP_COMPUTE, LANE_COMPUTE, &b->site);
        instr->segment = b->segment;
        instr->round = round;
        instr->first = round == 0;
        for (int i = 0; i < b->s->in_count; i++) {
            table.buffer[ROLE_GRADIENT_IN][i] = b->streams[i] ? b->travelling[i] : b->gradient_in[i];
            int dim_count = l->graph->values[b->s->in[i].id].dim_count;
            bool own_part = recipe_sliced_dim(b->assignment, &b->s->in[i], dim_count) >= 0;
            bool define = b->streams[i] ? round == 0 && !b->cleared[i] : b->defines[i] && (round == 0 || own_part);
            if (define && b->gradient_in[i] >= 0)
                instr->define |= (uint8_t)(1u << i);
        }
        lower_set_operands(l, instr, &table);
        if (b->assignment->ring_atom >= 0)
            rotate(b, round);
        if (b->rounds > 1)
            lower_release(l, true);
    }
}

static void weight_round(struct backward *b, int round)
{
    struct lowering *l = b->l;
    const struct kernel_facts *k = &kernel_facts[b->s->kernel];
    struct operand_table table = operands_read(b);
    int *weight = table.buffer[ROLE_WEIGHT], *gradient = table.buffer[ROLE_GRADIENT_WEIGHT];
    unsigned define = 0;
    for (int i = 0; i < b->s->weight_count && !l->failed; i++) {
        const struct weight *w = &l->graph->weights[b->s->weight[i].id];
        bool defines = false;
        weight[i] = k->weight_reads_weight >> i & 1 ? lower_use_weight(l, b->segment, i, round, &b->site) : -1;
        gradient[i] = w->frozen ? -1 : weight_gradient(l, b->segment, i, round, &b->site, &defines);
        if (gradient[i] < 0 || l->failed)
            continue;
        bool whole = !k->picks_rows &&
                     covered(l, b->segment, &b->s->weight[i], w->size, w->dim_count, &b->recipe->weight[i].gradient);
        bool fresh =
            round == 0 || buffer_at(l, gradient[i])->part_count > 1; /* later rounds write beside earlier ones */
        if (defines && !whole && fresh)
            zero(l, gradient[i], &b->site);
        define |= (unsigned)(defines && whole) << i;
    }
    struct instr *instr = emit(l, OP_COMPUTE, LANE_COMPUTE, &b->site);
    instr->segment = b->segment;
    instr->round = round;
    instr->first = round == 0;
    instr->define = (uint8_t)define;
    lower_set_operands(l, instr, &table);
    for (int i = 0; i < b->s->weight_count; i++) {
        if (gradient[i] >= 0)
            weight_contributed(l, b->segment, i, round, &b->site);
    }
}

static void weight_phase(struct backward *b)
{
    const struct kernel_facts *k = &kernel_facts[b->s->kernel];
    /* operands of a ring carry no weights; were there any, each rank's own block would be the whole work */
    int end = b->assignment->ring_atom >= 0 ? 1 : b->end;
    b->site.phase = PHASE_BACKWARD_WEIGHT;
    read_values(b, k->weight_reads_in, k->weight_reads_out);
    for (int round = b->first; round < end && !b->l->failed; round++) {
        weight_round(b, round);
        if (end > 1)
            lower_release(b->l, true);
    }
}

/* Is there an input whose gradient somebody wants? */
bool lower_has_input_phase(const struct lowering *l, int segment)
{
    const struct segment *s = &l->graph->segments[segment];
    bool wanted = false;
    for (int i = 0; i < s->in_count; i++)
        wanted |= l->graph->values[s->in[i].id].differentiable && graph_needs_gradient(l->graph, s->in[i].id);
    return wanted && kernel_facts[s->kernel].has_backward_input;
}

bool lower_has_weight_phase(const struct lowering *l, int segment)
{
    const struct segment *s = &l->graph->segments[segment];
    bool trains = false;
    for (int i = 0; i < s->weight_count; i++)
        trains |= !l->graph->weights[s->weight[i].id].frozen;
    return trains && kernel_facts[s->kernel].has_backward_weight;
}

void backward_segment(struct lowering *l, int segment, int micro, bool input, bool weight)
{
    const struct segment *s = &l->graph->segments[segment];
    struct backward b = {
        .l = l, .segment = segment, .s = s, .recipe = recipe_of(l, segment), .assignment = assignment_of(l, segment)
    };
    bool any = false;
    b.rounds = b.end = recipe_segment_rounds(l->plan, l->graph, b.assignment, segment);
    if (lower_is_walked(l, segment)) {
        b.first = l->walk.round;
        b.end = b.first + 1;
    }
    b.site = (struct site){ .phase = PHASE_BACKWARD_INPUT, .layer = s->layer, .micro = micro };
    for (int i = 0; i < s->out_count && !l->failed; i++) {
        b.gradient_out[i] = graph_needs_gradient(l->graph, s->out[i].id) ? lower_settle(l, s->out[i].id, &b.site) : -1;
        any |= b.gradient_out[i] >= 0;
    }
    if (any && input && lower_has_input_phase(l, segment) && !l->failed)
        input_phase(&b);
    if (any && weight && lower_has_weight_phase(l, segment) && !l->failed)
        weight_phase(&b);
}
