/* What a sample's instructions take. The kernels of layers of one class cost the same, of whatever size they are: each
 * is priced once. */
#include "planner/search/sample_parts.h"
#include "base/num.h"
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
    bool good = newest && before && s->like;
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
    }
    arena_free(&scratch);
    return good;
}

/* Of what stands on the path no more than it takes by any strategy. */
static int64_t least_ns(const struct sample *s, const struct facts *facts, const struct instr *instr)
{
    if (instr->phase == PHASE_STEP)
        return cost_launch_ns(facts, s->program, 0, instr);
    return sample_on_path(instr) ? cost_instr_ns(facts, s->program, 0, instr) : 0;
}

void sample_price_instrs(struct sample *s, const struct facts *facts, bool path_only)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k], like = s->like[i];
        const struct instr *instr = &list->instrs[i];
        s->duration[i] = like < i    ? s->duration[like]
                         : path_only ? least_ns(s, facts, instr)
                                     : cost_instr_ns(facts, s->program, 0, instr);
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
        int64_t first_ns = s->duration[i];
        s->duration[i] = like < i ? s->duration[like] : adding_ns(s, facts, instr, first_ns);
        s->by_layer[sample_layer_of(s, instr)].least.adding_ns +=
            s->duration[i] > first_ns ? s->duration[i] - first_ns : 0;
    }
}
