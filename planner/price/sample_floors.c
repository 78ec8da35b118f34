/* Floors: the path of a micro-batch of one sequence, stretched. A kernel takes no less than for one sequence, and no
 * less than being started and its operations at the best rate; a transfer no less than its bytes as a part of a very
 * large one. */
#include "base/num.h"
#include "planner/program/recipe.h"
#include "planner/price/sample_parts.h"

#define ROUNDED 0.999999 /* sums of doubles */

static bool open_arrays(struct sample *s)
{
    size_t count = (size_t)s->program->stages[0].instr_count;
    if (!s->first_ns) {
        s->first_ns = arena_alloc(&s->arena, count, sizeof *s->first_ns);
        s->launch_ns = arena_alloc(&s->arena, count, sizeof *s->launch_ns);
        s->more_ns = arena_alloc(&s->arena, count, sizeof *s->more_ns);
    }
    return s->first_ns && s->launch_ns && s->more_ns;
}

/* The operations of a segment are those of all ranks, and of all its rounds: around a ring these differ. */
static double kernel_ns(const struct sample *s, const struct facts *facts, const struct instr *instr,
                        int64_t *launch_ns)
{
    const struct assignment *assignment = &s->program->assignments[instr->segment];
    int rounds = segment_rounds(s->plan, s->graph, assignment, instr->segment);
    double all_ns;
    cost_kernel_floor(facts, 0, &s->graph->segments[instr->segment], instr->phase, s->plan->dtype, launch_ns, &all_ns);
    *launch_ns = max_i64(*launch_ns - 1, 0); /* durations are rounded one by one */
    return assignment->ring_atom >= 0 ? 0 : all_ns / ((double)s->plan->rank_count * rounds) * ROUNDED;
}

bool sample_open_floors(struct sample *s, const struct facts *facts)
{
    const struct stage_program *list = &s->program->stages[0];
    if (!open_arrays(s))
        return false;
    sample_price_instrs(s, facts, NULL, true);
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k];
        const struct instr *instr = &list->instrs[i];
        bool step = instr->phase == PHASE_STEP;
        s->first_ns[i] = s->duration[i];
        s->launch_ns[i] = 0;
        s->more_ns[i] = 0;
        if (instr->op == OP_COMPUTE && !step)
            s->more_ns[i] = kernel_ns(s, facts, instr, &s->launch_ns[i]);
        else if (sample_on_path(instr) && !step && op_info[instr->op].collective)
            s->more_ns[i] = (double)cost_stream_ns(facts, s->program, 0, instr);
    }
    return true;
}

const struct layer_price *sample_floors(struct sample *s, int64_t micro)
{
    sample_forget_prices(s);
    for (int k = 0; k < s->list_count; k++) {
        int i = s->listed[k];
        s->duration[i] = max_i64(s->first_ns[i], s->launch_ns[i] + (int64_t)(s->more_ns[i] * (double)micro));
    }
    sample_price_path(s);
    return s->by_layer;
}
