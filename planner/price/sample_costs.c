/* What a sample's instructions take. The kernels of layers of one class cost the same, of whatever size they are, and so
 * do collectives of as many bytes: each is priced once. */
#include "planner/price/sample_parts.h"
#include "base/num.h"
#include "planner/program/loss_walk.h"
#include <string.h>

/* Whether the operand is a gradient that the first micro-batch leaves for those behind it. */
static bool stays(const struct program *program, int buffer)
{
    return buffer >= 0 && program->buffers[buffer].is_weight && program->buffers[buffer].persistent;
}

static bool same_operands(const struct program *program, const struct instr *a, const struct instr *b)
{
    bool same = a->define == b->define;
    for (int k = 0; same && k < ROLE_COUNT * MAX_OPERANDS; k++) {
        enum role role = (enum role)(k / MAX_OPERANDS);
        int x = instr_operand(program, a, role, k % MAX_OPERANDS),
            y = instr_operand(program, b, role, k % MAX_OPERANDS);
        same = (x >= 0) == (y >= 0) && stays(program, x) == stays(program, y);
    }
    return same;
}

/* By operand as in instr.operands. */
static int64_t staying(const struct program *program, const struct instr *instr)
{
    int64_t mask = 0;
    for (int k = 0; k < OPERAND_SLOTS; k++)
        if (stays(program, instr_operand(program, instr, (enum role)(k / MAX_OPERANDS), k % MAX_OPERANDS)))
            mask |= INT64_C(1) << k;
    return mask;
}

/* By what costs_alike() compares. */
static uint64_t kernel_of(const struct sample *s, const struct instr *instr)
{
    const struct graph_layer *layer = &s->graph->layers[s->graph->segments[instr->segment].layer];
    const struct assignment *split = &s->program->assignments[instr->segment];
    uint64_t hash = hash_i64(hash_i64(HASH_START, layer->class_index), instr->segment - layer->first_segment);
    hash = hash_i64(hash_i64(hash, instr->phase), instr->define);
    hash = hash_i64(hash_i64(hash, instr->operands), staying(s->program, instr));
    return hash_bytes(hash, split, sizeof *split) | 1;
}

/* Phase, kernel, its split and its operands are all that a kernel's cost depends on (cost_compute()). */
static bool costs_alike(const struct sample *s, const struct instr *a, const struct instr *b)
{
    const struct segment *segments = s->graph->segments;
    const struct graph_layer *x = &s->graph->layers[segments[a->segment].layer],
                             *y = &s->graph->layers[segments[b->segment].layer];
    return a->phase == b->phase && a->segment - x->first_segment == b->segment - y->first_segment &&
           !memcmp(&s->program->assignments[a->segment], &s->program->assignments[b->segment],
                   sizeof *s->program->assignments) &&
           same_operands(s->program, a, b);
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

/* For other sizes than those before nothing is known. */
static void forget_others(const struct sample *s, const struct facts *facts, struct kernel_costs *known)
{
    struct mesh mesh = s->shape.mesh;
    memcpy(mesh.size, s->plan->stages[0].atom, sizeof mesh.size);
    if (known->facts == facts && known->graph == s->graph && known->batch == s->graph->batch &&
        known->micro_batches == s->shape.micro_batches && known->vocab_multiple == s->shape.vocab_multiple &&
        mesh_equal(&known->mesh, &mesh))
        return;
    *known = (struct kernel_costs){ .facts = facts,
                                    .graph = s->graph,
                                    .batch = s->graph->batch,
                                    .vocab_multiple = s->shape.vocab_multiple,
                                    .micro_batches = s->shape.micro_batches,
                                    .mesh = mesh };
}

static int64_t instr_ns(const struct sample *s, const struct facts *facts, struct kernel_costs *known, int index)
{
    const struct instr *instr = &s->program->stages[0].instrs[index];
    uint64_t kernel = s->kernel[index] ? s->kernel[index] : cost_collective_key(s->program, 0, instr);
    if (!known || kernel == 0)
        return cost_instr_ns(facts, s->program, 0, instr);
    struct kernel_cost *cost = &known->at[mix64(kernel) % (sizeof known->at / sizeof *known->at)];
    if (cost->kernel != kernel)
        *cost = (struct kernel_cost){ kernel, cost_instr_ns(facts, s->program, 0, instr) };
    return cost->ns;
}

/* Of what stands on the path no more than it takes by any strategy. */
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
        forget_others(s, facts, known);
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k], like = s->like[i];
        s->duration[i] = like < i    ? s->duration[like]
                         : path_only ? least_ns(s, facts, known, i)
                                     : instr_ns(s, facts, known, i);
    }
}

/* Of the micro-batches after the first, which add to the gradients that it left. */
static int64_t adding_ns(const struct sample *s, const struct facts *facts, const struct instr *instr, int64_t own_ns)
{
    struct instr adding = *instr;
    for (int i = 0; i < MAX_OPERANDS; i++)
        if (stays(s->program, instr_operand(s->program, instr, ROLE_GRADIENT_WEIGHT, i)))
            adding.define &= (uint8_t) ~(1u << i);
    return adding.define != instr->define ? cost_instr_ns(facts, s->program, 0, &adding) : own_ns;
}

void sample_price_adding(struct sample *s, const struct facts *facts)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k], like = s->like[i];
        const struct instr *instr = &list->instrs[i];
        if (instr->op != OP_COMPUTE || instr->phase != PHASE_BACKWARD_WEIGHT)
            continue;
        s->duration[i] = like < i ? s->duration[like] : adding_ns(s, facts, instr, s->duration[i]);
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
        /* What the walk of the loss runs, forward too, belongs to its actions, which are backward by input. */
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
