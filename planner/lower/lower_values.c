/* Forward values, made on demand. */
#include "planner/lower/lower_values.h"
#include "planner/lower/convert.h"
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_weights.h"
#include <string.h>

int lower_chunk_of(const struct lowering *l, int segment)
{
    for (int c = 0; c < l->here.chunk_count; c++) {
        bool at_hand = l->here.copies == 1 || c == l->here.copy;
        if (at_hand && segment >= l->here.chunks[c].first && segment < l->here.chunks[c].end)
            return c;
    }
    return -1;
}

bool lower_made_here(const struct lowering *l, int value)
{
    return lower_chunk_of(l, l->graph->values[value].producer) >= 0;
}

/* Gives the first segment of the stage that reads the value, and the operand; -1: none. */
static int first_reader(const struct lowering *l, int value, int *index)
{
    for (int slot = l->known.reader_head[value]; slot >= 0; slot = l->known.reader_next[slot]) {
        int segment = slot / MAX_OPERANDS;
        if (lower_chunk_of(l, segment) >= 0) {
            *index = slot % MAX_OPERANDS;
            return segment;
        }
    }
    return -1;
}

/* Gives the layouts of its producer here, or of its first reader: whole, even where it comes in parts. */
static struct layout_pair whole_layouts(const struct lowering *l, int value)
{
    const struct value *v = &l->graph->values[value];
    int index = 0;
    if (lower_made_here(l, value)) {
        const struct segment *s = &l->graph->segments[v->producer];
        while (index < s->out_count - 1 && s->out[index].id != value)
            index++;
        return recipe_of(l, v->producer)->out[index];
    }
    int reader = v->input ? -1 : first_reader(l, value, &index);
    if (reader < 0)
        return (struct layout_pair){ 0 };
    struct layout_pair landing = recipe_of(l, reader)->in[index];
    for (int i = 0; i < MAX_ATOMS; i++) { /* sums are complete before a value or its gradient crosses */
        if (landing.forward.kind[i] == LAYOUT_PARTIAL)
            landing.forward.kind[i] = LAYOUT_REPLICATED;
        if (landing.forward.kind[i] == LAYOUT_REPLICATED)
            landing.gradient.kind[i] = LAYOUT_REPLICATED;
    }
    return landing;
}

/* Shares out what ranks hold alike, by the first dimension that can be, each rank's block inside those of others. */
static void scatter(const struct lowering *l, int value, struct layout *layout)
{
    const struct value *v = &l->graph->values[value];
    const int *size = l->plan->stages[l->stage].atom;
    for (int i = 0, dim; i < MAX_ATOMS; i++) {
        for (dim = 0; dim < v->dim_count && size[i] > 1 && layout->kind[i] == LAYOUT_REPLICATED; dim++) {
            int64_t left = recipe_value_extent(l->plan, v, dim);
            int order = 0;
            for (int k = 0; k < MAX_ATOMS; k++)
                if (layout->kind[k] == LAYOUT_SHARDED && layout->dim[k] == dim) {
                    left /= size[k];
                    order = max_int(order, layout->order[k] + 1);
                }
            if (left % size[i] != 0 || order == MAX_ATOMS)
                continue;
            layout->kind[i] = LAYOUT_SHARDED;
            layout->dim[i] = (uint8_t)dim;
            layout->order[i] = (uint8_t)order;
        }
    }
}

struct layout_pair lower_base_layouts(const struct lowering *l, int value)
{
    struct layout_pair pair = whole_layouts(l, value);
    if (!l->graph->values[value].input && !lower_made_here(l, value))
        pair.forward = lower_sent_layouts(l, value).forward;
    return pair;
}

struct layout_pair lower_sent_layouts(const struct lowering *l, int value)
{
    struct layout_pair pair = whole_layouts(l, value);
    for (int i = 0; i < MAX_ATOMS; i++)
        if (pair.forward.kind[i] == LAYOUT_PARTIAL)
            pair.forward.kind[i] = LAYOUT_REPLICATED;
    if (l->graph->keeping.scatters_messages) {
        scatter(l, value, &pair.forward);
        scatter(l, value, &pair.gradient);
    }
    return pair;
}

/* True when the value is read outside its layer. */
static bool value_leaves(const struct lowering *l, int value)
{
    int producer = l->graph->values[value].producer;
    int layer = producer < 0 ? -1 : l->graph->segments[producer].layer;
    if (value == l->graph->loss_value || (layer >= 0 && l->graph->layers[layer].output_value == value))
        return true;
    for (int slot = l->known.reader_head[value]; slot >= 0; slot = l->known.reader_next[slot]) {
        if (l->graph->segments[slot / MAX_OPERANDS].layer != layer)
            return true;
    }
    return false;
}

/* Gives the live version from which the wanted layout is cheapest; the base version on ties; -1 when none lives. */
static int best_source(const struct lowering *l, int value, int micro, const struct layout *base,
                       const struct layout *wanted)
{
    int best = -1, best_price = 0;
    for (int i = lower_first_version(l, false, value, micro); i >= 0; i = note_of(l, i)->next) {
        struct conversion path[MAX_CONVERSIONS];
        if (!note_of(l, i)->live)
            continue;
        int count = lower_path_between(l, i, wanted, path), price = 2 * conversion_price(path, count);
        if (count < 0)
            continue;
        price += !layout_equal(&buffer_at(l, i)->layout, base);
        if (best < 0 || price < best_price) {
            best = i;
            best_price = price;
        }
    }
    return best;
}

int lower_materialize(struct lowering *l, int value, const struct layout *layout, const struct site *site)
{
    if (l->failed)
        return -1;
    int buffer = lower_find_version(l, false, value, site->micro, layout);
    if (buffer >= 0)
        return buffer;
    if (l->graph->values[value].input) { /* the loader gives any block */
        buffer = lower_add_version(l, false, value, site->micro, layout);
        emit_pair(l, OP_LOAD, LANE_COMPUTE, site, -1, buffer);
        lower_set_live(l, buffer, true);
        return buffer;
    }
    struct layout base = lower_base_layouts(l, value).forward;
    int source = best_source(l, value, site->micro, &base, layout);
    if (source < 0 && lower_made_here(l, value)) {
        struct site forward = *site;
        forward.phase = PHASE_FORWARD;
        forward.layer = l->graph->segments[l->graph->values[value].producer].layer;
        lower_forward_segment(l, l->graph->values[value].producer, &forward);
        source = lower_find_version(l, false, value, site->micro, &base);
    } else if (source < 0) { /* what was received stays alive */
        l->failed = true;
        fail_kind(l->err, ERROR_BUG, "value %s is used on stage %d before it arrives", l->graph->values[value].name,
                  l->stage);
    }
    if (l->failed || source < 0 || layout_equal(&buffer_at(l, source)->layout, layout))
        return source;
    buffer = lower_convert_buffer(l, source, layout, BUFFER_VALUE, l->in_place, site);
    lower_set_live(l, buffer, true);
    return buffer;
}

int lower_ring_buffer(struct lowering *l, int buffer, int round, int atom, enum buffer_kind kind)
{
    if (l->failed)
        return buffer;
    struct buffer next = *buffer_at(l, buffer);
    next.kind = kind;
    next.ring_round = round;
    next.ring_atom = atom;
    next.persistent = false;
    return lower_add_buffer(l, next);
}

/* Hands the rotating operands on. */
static void rotate(struct lowering *l, int segment, int round, int in[MAX_OPERANDS], const struct site *site)
{
    const struct segment *s = &l->graph->segments[segment];
    const struct assignment *assignment = assignment_of(l, segment);
    for (int i = 0; i < s->in_count; i++) {
        if (!recipe_operand_streams(s, assignment, &s->in[i]))
            continue;
        int next = lower_ring_buffer(l, in[i], round + 1, assignment->ring_atom, BUFFER_VALUE);
        unsigned atoms = 1u << assignment->ring_atom;
        emit_pair(l, OP_SHIFT, lower_atom_lane(l, site->layer, atoms, false), site, in[i], next)->atoms = atoms;
        in[i] = next;
    }
}

/* Emits one round; in: the operands' blocks of this round. */
static void forward_round(struct lowering *l, int segment, int round, const int in[MAX_OPERANDS],
                          const int out[MAX_OPERANDS], const struct site *site)
{
    const struct segment *s = &l->graph->segments[segment];
    struct operand_table table = program_no_operands;
    for (int i = 0; i < s->weight_count; i++)
        table.buffer[ROLE_WEIGHT][i] = lower_use_weight(l, segment, i, round, site);
    struct instr *instr = emit(l, OP_COMPUTE, LANE_COMPUTE, site);
    instr->segment = segment;
    instr->round = round;
    instr->first = round == 0;
    memcpy(table.buffer[ROLE_IN], in, sizeof(int) * (size_t)s->in_count);
    memcpy(table.buffer[ROLE_OUT], out, sizeof(int) * (size_t)s->out_count);
    lower_set_operands(l, instr, &table);
    for (int i = 0; i < s->out_count; i++) {
        bool own_part =
            recipe_sliced_dim(assignment_of(l, segment), &s->out[i], l->graph->values[s->out[i].id].dim_count) >= 0;
        if (round == 0 || own_part)
            instr->define |= (uint8_t)(1u << i);
    }
}

void lower_forward_segment(struct lowering *l, int segment, const struct site *site)
{
    const struct segment *s = &l->graph->segments[segment];
    const struct segment_recipe *recipe = recipe_of(l, segment);
    int in[MAX_OPERANDS], out[MAX_OPERANDS];
    bool had[MAX_OPERANDS]; /* an older version lives: the new one is nobody's */
    bool walked = lower_is_walked(l, segment);
    int rounds = recipe_segment_rounds(l->plan, l->graph, assignment_of(l, segment), segment),
        round = walked ? l->walk.round : 0, end = walked ? round + 1 : rounds;
    for (int i = 0; i < s->in_count; i++)
        in[i] = lower_materialize(l, s->in[i].id, &recipe->in[i].forward, site);
    for (int i = 0; i < s->out_count; i++) {
        int old = lower_find_version(l, false, s->out[i].id, site->micro, &recipe->out[i].forward);
        bool adds = walked && old >= 0; /* a sum over chunks */
        had[i] = old >= 0 && !adds;
        out[i] = adds ? old : lower_add_version(l, false, s->out[i].id, site->micro, &recipe->out[i].forward);
    }
    for (; round < end && !l->failed; round++) {
        forward_round(l, segment, round, in, out, site);
        if (assignment_of(l, segment)->ring_atom >= 0 && round < rounds - 1)
            rotate(l, segment, round, in, site);
        if (rounds > 1)
            lower_release(l, true);
    }
    for (int i = 0; i < s->out_count; i++)
        lower_set_live(l, out[i], !had[i]);
}

/* ---- recomputation ---- */
/* Gives how a layer recomputes; what does not repeat is in no block. */
static enum recompute mode_of(const struct lowering *l, int layer)
{
    enum recompute mode = (enum recompute)l->plan->layers[layer].recompute;
    return mode == RECOMPUTE_BLOCK && l->graph->layers[layer].block < 0 ? RECOMPUTE_NONE : mode;
}

static bool recomputes_block(const struct lowering *l, int layer)
{
    return mode_of(l, layer) == RECOMPUTE_BLOCK;
}

bool lower_follows_in_block(const struct lowering *l, int layer)
{
    const struct graph_layer *layers = l->graph->layers;
    return layer > 0 && layer < l->graph->layer_count && layers[layer - 1].block == layers[layer].block &&
           recomputes_block(l, layer) && recomputes_block(l, layer - 1) &&
           lower_chunk_of(l, layers[layer - 1].first_segment) == lower_chunk_of(l, layers[layer].first_segment);
}

/* True when all that read the value compute it again with their block: layers of its own copy of the block, in the same
 * chunk of this stage. */
static bool stays_in_block(const struct lowering *l, int layer, int value)
{
    int chunk = lower_chunk_of(l, l->graph->layers[layer].first_segment);
    bool read = false;
    for (int slot = l->known.reader_head[value]; slot >= 0; slot = l->known.reader_next[slot]) {
        int reader = slot / MAX_OPERANDS, other = l->graph->segments[reader].layer;
        if (l->graph->layers[other].block != l->graph->layers[layer].block || !recomputes_block(l, other) ||
            lower_chunk_of(l, reader) != chunk)
            return false;
        read = true;
    }
    return read;
}

/* True when the layer's mode does not hold for the segment. Where there is no block to compute again all is kept. */
static bool is_excepted(const struct lowering *l, int segment)
{
    const struct segment *s = &l->graph->segments[segment];
    const struct plan_layer *layer = &l->plan->layers[s->layer];
    return layer->excepted & s->operators && mode_of(l, s->layer) == (enum recompute)layer->recompute;
}

static bool forgotten(const struct lowering *l, int segment, int value)
{
    const struct segment *s = &l->graph->segments[segment];
    enum recompute mode = mode_of(l, s->layer);
    bool excepted = is_excepted(l, segment);
    if (value_leaves(l, value))
        return !excepted && mode == RECOMPUTE_BLOCK && stays_in_block(l, s->layer, value);
    return (mode >= RECOMPUTE_FULL || (mode == RECOMPUTE_SELECTIVE && kernel_facts[s->kernel].cheap)) != excepted;
}

bool lower_is_put_off(const struct lowering *l, int segment)
{
    const struct segment *s = &l->graph->segments[segment];
    bool read = false;
    for (int i = 0; i < s->out_count; i++) {
        if (!forgotten(l, segment, s->out[i].id))
            return false;
        for (int slot = l->known.reader_head[s->out[i].id]; slot >= 0; slot = l->known.reader_next[slot]) {
            if (!lower_is_walked(l, slot / MAX_OPERANDS) && !lower_is_put_off(l, slot / MAX_OPERANDS))
                return false;
            read = true;
        }
    }
    return read && !lower_is_walked(l, segment);
}

static bool is_gathered(const struct lowering *l, int source, const struct layout *layout)
{
    struct conversion path[MAX_CONVERSIONS];
    int count = source < 0 ? 0 : lower_path_between(l, source, layout, path), gathers = 0;
    for (int i = 0; i < count; i++)
        gathers += path[i].op == OP_ALL_GATHER;
    return count > 0 && gathers == count;
}

/* Forgets versions that a collective made and can make again, unless the value itself would have to be summed again:
 * those of what is computed again, or else where the framework does so what ranks gathered of pieces that they keep;
 * but not parts of what nobody has read yet. */
static void forget_derived(struct lowering *l, int value, int micro, enum recompute mode)
{
    struct layout base = whole_layouts(l, value).forward;
    bool all = mode >= RECOMPUTE_FULL;
    if ((!all && !l->graph->keeping.gathers_again) || layout_atoms(&base, LAYOUT_PARTIAL))
        return;
    int own = lower_find_version(l, false, value, micro, &base);
    for (int i = own < 0 ? -1 : lower_first_version(l, false, value, micro); i >= 0; i = note_of(l, i)->next) {
        const struct layout *layout = &buffer_at(l, i)->layout;
        if (!layout_equal(layout, &base) && (all || is_gathered(l, own, layout)))
            note_of(l, i)->live = false;
    }
}

void lower_forget_values(struct lowering *l, const struct action *action)
{
    int micro = action->micro;
    const struct segment_range *chunk = &l->here.chunks[action->chunk];
    for (int segment = chunk->first; segment < chunk->end && !l->failed; segment++) {
        const struct segment *s = &l->graph->segments[segment];
        enum recompute mode = mode_of(l, s->layer);
        for (int o = 0; o < s->out_count; o++) {
            if (forgotten(l, segment, s->out[o].id)) {
                for (int i = lower_first_version(l, false, s->out[o].id, micro); i >= 0; i = note_of(l, i)->next)
                    note_of(l, i)->live = false;
            } else if (s->out[o].id != l->graph->loss_value) {
                forget_derived(l, s->out[o].id, micro, mode);
            }
        }
    }
    for (int i = 0; i < l->crossings.entering_count && !l->failed; i++) {
        int index, reader = first_reader(l, l->crossings.entering[i].value, &index);
        if (l->crossings.entering[i].chunk == action->chunk)
            forget_derived(l, l->crossings.entering[i].value, micro, mode_of(l, l->graph->segments[reader].layer));
    }
}

/* Gives the first segment of a layer that runs again since what it makes was forgotten; -1: none was. found: it is
 * known which do. */
static int first_again(const struct lowering *l, int layer, bool found)
{
    const struct graph_layer *own = &l->graph->layers[layer];
    for (int i = own->first_segment; i < own->first_segment + own->segment_count; i++)
        if (!is_excepted(l, i) && forgotten(l, i, l->graph->segments[i].out[0].id) &&
            (!found || l->known.recomputed[i] != RECOMPUTED_NEVER))
            return i;
    return -1;
}

void lower_forward_again(struct lowering *l, int layer, int micro)
{
    const struct graph_layer *layers = l->graph->layers;
    int first = layer;
    if (!recomputes_block(l, layer) || !graph_needs_gradient(l->graph, layers[layer].output_value))
        return;
    while (lower_follows_in_block(l, first))
        first--;
    for (; first <= layer && !l->failed; first++) {
        struct site site = { .phase = PHASE_FORWARD, .layer = first, .micro = micro, .again = true };
        int probe = first_again(l, first, true), end = layers[first].first_segment + layers[first].segment_count;
        if (probe < 0)
            continue;
        int value = l->graph->segments[probe].out[0].id;
        struct layout base = lower_base_layouts(l, value).forward;
        if (lower_find_version(l, false, value, micro, &base) < 0) /* else it came with a later layer of the block */
            for (int segment = layers[first].first_segment; segment < end; segment++)
                if (!is_excepted(l, segment) && l->known.recomputed[segment] != RECOMPUTED_NEVER)
                    lower_forward_segment(l, segment, &site);
    }
}

static void need(const struct lowering *l, bool *needed, const struct operand *operands, int count, unsigned mask)
{
    for (int i = 0; i < count; i++) {
        if (mask >> i & 1 && lower_made_here(l, operands[i].id))
            needed[operands[i].id] = true;
    }
}

/* Marks what one of the segment's backward passes reads. */
static void need_backward(const struct lowering *l, bool *needed, int segment, enum recomputed pass)
{
    const struct segment *s = &l->graph->segments[segment];
    const struct kernel_facts *k = &kernel_facts[s->kernel];
    if (lower_is_walked(l, segment)) { /* all of it comes with the first pass */
        need(l, needed, s->in, s->in_count, pass == RECOMPUTED_FOR_INPUT ? ~0u : 0);
        return;
    }
    if (pass == RECOMPUTED_FOR_INPUT && lower_has_input_phase(l, segment)) {
        need(l, needed, s->in, s->in_count, segment_input_reads_in(l->graph, s));
        need(l, needed, s->out, s->out_count, k->input_reads_out);
    }
    if (pass == RECOMPUTED_FOR_WEIGHT && lower_has_weight_phase(l, segment)) {
        need(l, needed, s->in, s->in_count, k->weight_reads_in);
        need(l, needed, s->out, s->out_count, k->weight_reads_out);
    }
}

static void need_again(struct lowering *l, bool *needed, int segment, enum recomputed pass)
{
    const struct segment *s = &l->graph->segments[segment];
    uint8_t *recomputed = &l->known.recomputed[segment];
    bool again = pass == RECOMPUTED_FOR_INPUT && recomputes_block(l, s->layer) &&
                 !l->graph->keeping.repeats_what_is_read && !is_excepted(l, segment) &&
                 first_again(l, s->layer, false) >= 0 &&
                 graph_needs_gradient(l->graph, l->graph->layers[s->layer].output_value);
    for (int o = 0; o < s->out_count; o++)
        again |= needed[s->out[o].id] && forgotten(l, segment, s->out[o].id);
    if (again && *recomputed == RECOMPUTED_NEVER)
        *recomputed = (uint8_t)pass;
    if (again)
        need(l, needed, s->in, s->in_count, ~0u);
}

/* Finds what backward asks for, and what making that again asks for: the same walk that lower_materialize() does,
 * without emitting. */
void lower_find_recomputed(struct lowering *l)
{
    bool *needed = arena_alloc(&l->scratch, (size_t)l->graph->value_count, sizeof *needed);
    if (!needed) {
        lower_memory(l);
        return;
    }
    for (int c = 0; c < l->here.chunk_count; c++) {
        for (int i = l->here.chunks[c].first; i < l->here.chunks[c].end; i++)
            l->known.recomputed[i] = RECOMPUTED_NEVER;
    }
    /* what each pass reads beside what those before it read comes first; then, backwards, what that is made of */
    for (enum recomputed pass = RECOMPUTED_FOR_INPUT; pass <= RECOMPUTED_FOR_WEIGHT; pass++) {
        for (int c = 0; c < l->here.chunk_count; c++) {
            l->here.copy = c % l->here.copies;
            for (int i = l->here.chunks[c].first; i < l->here.chunks[c].end; i++)
                need_backward(l, needed, i, pass);
        }
        for (int c = l->here.chunk_count - 1; c >= 0; c--) {
            l->here.copy = c % l->here.copies;
            for (int i = l->here.chunks[c].end - 1; i >= l->here.chunks[c].first; i--)
                need_again(l, needed, i, pass);
        }
    }
}
