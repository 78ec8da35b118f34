/* What a sample's instructions take. The kernels of layers of one class cost the same, of whatever size they are, and
 * so do collectives of as many bytes: each is priced once. */
#include "planner/price/sample_parts.h"
#include "base/num.h"
#include "planner/program/loss_walk.h"

/* True when the operand is a gradient that the first micro-batch leaves for those behind it. */
static bool stays(const struct program *program, int buffer)
{
    return buffer >= 0 && program->buffers[buffer].is_weight && program->buffers[buffer].persistent;
}

/* Tells which operands stay, by bits as in instr.operands. */
static int64_t staying(const struct program *program, const struct instr *instr)
{
    int64_t mask = 0;
    for (int k = 0; k < OPERAND_SLOTS; k++)
        if (stays(program, instr_operand(program, instr, (enum role)(k / MAX_OPERANDS), k % MAX_OPERANDS)))
            mask |= INT64_C(1) << k;
    return mask;
}

/* Hashes what costs_alike() compares. */
static uint64_t kernel_of(const struct sample *s, const struct instr *instr)
{
    const struct graph_layer *layer = &s->graph->layers[s->graph->segments[instr->segment].layer];
    const struct assignment *split = &s->program->assignments[instr->segment];
    const int64_t words[] = { layer->class_index, instr->segment - layer->first_segment,
                              instr->phase,       instr->define,
                              instr->operands,    staying(s->program, instr) };
    return hash_bytes(hash_words(HASH_START, words, sizeof words / sizeof *words), split, sizeof *split) | 1;
}

static bool costs_alike(const struct sample *s, const struct instr *a, const struct instr *b)
{
    return cost_same_kernel(s->program, a, b) && staying(s->program, a) == staying(s->program, b);
}

bool sample_list_alike(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    struct arena scratch = { 0 };
    int *newest = arena_alloc(&scratch, (size_t)s->graph->class_count, sizeof *newest); /* 1 + of the class; 0: none */
    int *before = arena_alloc(&scratch, (size_t)list->instr_count, sizeof *before);     /* the same, of its class */
    s->like = arena_alloc(&s->arena, (size_t)list->instr_count, sizeof *s->like);
    s->kernel = arena_alloc(&s->arena, (size_t)list->instr_count, sizeof *s->kernel);
    bool good = newest && before && s->like && s->kernel;
    for (int k = 0; good && k < s->list_count; k++) {
        int i = s->listed[k];
        const struct instr *instr = &list->instrs[i];
        s->like[i] = i;
        if (instr->op != OP_COMPUTE)
            continue;
        int *last = &newest[s->graph->layers[s->graph->segments[instr->segment].layer].class_index], other = *last;
        while (other > 0 && !costs_alike(s, instr, &list->instrs[other - 1]))
            other = before[other - 1];
        if (other > 0) {
            s->like[i] = other - 1;
            continue;
        }
        before[i] = *last;
        *last = i + 1;
        s->kernel[i] = kernel_of(s, instr);
    }
    arena_free(&scratch);
    return good;
}

/* Sets what a kernel's cost depends on beside itself: sizes of one rank, which are the same for any number of ranks
 * that have sequences of their own. Groups of ranks are those of the whole mesh. */
static void set_sizes(const struct sample *s, const struct facts *facts, struct kernel_costs *known)
{
    const struct mesh *mesh = &s->shape.mesh;
    const int *size = s->plan->stages[0].atom;
    int64_t own = s->graph->batch / s->shape.micro_batches;
    if (known->facts != facts)
        *known = (struct kernel_costs){ .facts = facts };
    known->of_rank = known->of_mesh = hash_i64(HASH_START, s->shape.vocab_multiple);
    for (int i = 0; i < mesh->atom_count; i++) {
        bool deals = dimension_deals_batch(dimensions[s->shape.layer.dim[i]]);
        own = deals ? own / size[i] : own;
        known->of_rank = hash_i64(known->of_rank, deals ? 0 : size[i]);
        known->of_mesh = hash_i64(known->of_mesh, size[i]);
    }
    known->of_rank = hash_i64(known->of_rank, own);
    known->of_mesh = hash_i64(hash_i64(known->of_mesh, s->plan->stage_count), s->plan->stages[0].first_rank);
}

/* Gives the instruction's cost, remembered under its key; 0: it has none. */
static int64_t known_ns(const struct sample *s, const struct facts *facts, struct kernel_costs *known, uint64_t key,
                        const struct instr *instr)
{
    if (!known || key == 0)
        return cost_instr_ns(facts, s->program, 0, instr);
    key = mix64(key ^ (instr->op == OP_COMPUTE ? known->of_rank : known->of_mesh)) | 1;
    struct kernel_cost *cost = &known->at[(key >> 1) % (sizeof known->at / sizeof *known->at)];
    if (cost->key != key)
        *cost = (struct kernel_cost){ key, cost_instr_ns(facts, s->program, 0, instr) };
    return cost->ns;
}

static int64_t instr_ns(const struct sample *s, const struct facts *facts, struct kernel_costs *known, int index)
{
    const struct instr *instr = &s->program->stages[0].instrs[index];
    uint64_t key = s->kernel[index] ? s->kernel[index] : cost_collective_key(facts, s->program, 0, instr);
    return known_ns(s, facts, known, key, instr);
}

/* Gives what an instruction of the path takes at least, whatever the strategy. */
static int64_t least_ns(const struct sample *s, const struct facts *facts, struct kernel_costs *known, int index)
{
    const struct instr *instr = &s->program->stages[0].instrs[index];
    if (instr->phase == PHASE_STEP)
        return cost_launch_ns(facts, s->program, 0, instr);
    return sample_on_path(instr) ? instr_ns(s, facts, known, index) : 0;
}

void sample_price_instrs(struct sample *s, const struct facts *facts, struct kernel_costs *known, bool path_only)
{
    if (known)
        set_sizes(s, facts, known);
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k], like = s->like[i];
        s->duration[i] = like < i    ? s->duration[like]
                         : path_only ? least_ns(s, facts, known, i)
                                     : instr_ns(s, facts, known, i);
    }
}

/* Gives what it takes in micro-batches after the first, which add to the gradients that it left. */
static int64_t adding_ns(const struct sample *s, const struct facts *facts, struct kernel_costs *known, int index)
{
    const struct instr *instr = &s->program->stages[0].instrs[index];
    struct instr adding = *instr;
    for (int i = 0; i < MAX_OPERANDS; i++)
        if (stays(s->program, instr_operand(s->program, instr, ROLE_GRADIENT_WEIGHT, i)))
            adding.define &= (uint8_t) ~(1u << i);
    return adding.define == instr->define
               ? s->duration[index]
               : known_ns(s, facts, known, hash_i64(s->kernel[index], adding.define), &adding);
}

void sample_price_adding(struct sample *s, const struct facts *facts, struct kernel_costs *known)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k], like = s->like[i];
        const struct instr *instr = &list->instrs[i];
        if (instr->op != OP_COMPUTE || instr->phase != PHASE_BACKWARD_WEIGHT)
            continue;
        s->duration[i] = like < i ? s->duration[like] : adding_ns(s, facts, known, i);
    }
}

void sample_price_kernels(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int k = 0; k < s->list_count; k++) {
        const struct instr *instr = &list->instrs[s->listed[k]];
        struct layer_price *price = &s->by_layer[sample_layer_of(s, instr)];
        if (instr->op != OP_COMPUTE || instr->again)
            continue;
        /* what the walk of the loss runs, forward too, belongs to its actions, which are backward by input */
        bool all_by_input = instr->late || segment_is_walked(&s->graph->segments[instr->segment],
                                                             &s->program->assignments[instr->segment]);
        if (all_by_input || instr->phase == PHASE_BACKWARD_INPUT)
            price->least_input_ns += s->duration[s->listed[k]];
        else if (instr->phase == PHASE_FORWARD)
            price->least_forward_ns += s->duration[s->listed[k]];
        else if (instr->phase == PHASE_BACKWARD_WEIGHT)
            price->least_weight_ns += s->duration[s->listed[k]];
    }
}

bool sample_list_alone(struct sample *s)
{
    int layers = s->graph->layer_count, classes = 0;
    int *members = arena_alloc(&s->arena, (size_t)s->graph->class_count, sizeof *members); /* by class */
    s->alone = arena_alloc(&s->arena, (size_t)layers, sizeof *s->alone);
    if (arena_failed(&s->arena))
        return false;
    for (int l = 0; l < layers; l++)
        classes += members[s->graph->layers[l].class_index]++ == 0;
    for (int l = 0; l < layers; l++)
        s->alone[l] = classes < layers && members[s->graph->layers[l].class_index] == 1;
    return true;
}
