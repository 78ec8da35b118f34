#include "cli/remarks.h"
#include "planner/plan/dim.h"
#include "targets/decoder.h"
#include "targets/target.h"
#include <stdlib.h>

/* Ranks that share out the layer's heads. */
static int tensor_ranks(const struct plan *plan, int layer)
{
    const struct plan_stage *stage = &plan->stages[plan_stage_of_layer(plan, layer)];
    int ranks = 1;
    for (int a = 0; a < plan->atom_count; a++)
        if (dimensions[plan->layers[layer].dim[a]]->lane == LANE_TP)
            ranks *= stage->atom[a];
    return ranks;
}

/* Also of a block that began on the stage before. */
static bool has_part(const struct graph *graph, const struct plan *plan, int stage)
{
    for (int l = 0; l < plan->layer_count; l++)
        if (graph->layers[plan_layer_at(plan, l)].block >= 0 && plan_stage_holds(plan, stage, l))
            return true;
    return false;
}

static void remark_heads(FILE *out, const struct model *model, const struct graph *graph, const struct plan *plan)
{
    int64_t heads = decoder_of(model).kv_heads;
    int most = 1;
    for (int l = 0; l < graph->layer_count; l++)
        most = tensor_ranks(plan, l) > most && graph->layers[l].block >= 0 ? tensor_ranks(plan, l) : most;
    if (heads > 0 && most > heads)
        fprintf(out, "note: %d tensor ranks have %lld key and value heads among them: %lld ranks hold each alike\n",
                most, (long long)heads, (long long)(most / heads));
}

/* Blocks of the model that begin on each stage, into (stages). */
static int count_blocks(int *out, const struct graph *graph, const struct plan *plan)
{
    int all = 0, before = -1;
    for (int l = 0; l < plan->layer_count; l++) {
        int block = graph->layers[plan_layer_at(plan, l)].block;
        for (int s = 0; s < plan->stage_count && block >= 0 && block != before; s++)
            out[s] += plan_stage_holds(plan, s, l);
        all += block >= 0 && block != before;
        before = block;
    }
    return all;
}

/* Of models without blocks nothing is said; nor of stages that are as even as their number lets them be. */
static bool remark_stages(FILE *out, const struct graph *graph, const struct plan *plan, struct error *err)
{
    int *blocks = calloc((size_t)plan->stage_count, sizeof *blocks), most = 0, least = 0;
    if (!blocks)
        return fail_memory(err);
    int all = count_blocks(blocks, graph, plan);
    bool empty = false;
    for (int s = 0; s < plan->stage_count && all > 0; s++) {
        most = blocks[s] > blocks[most] ? s : most;
        least = blocks[s] < blocks[least] ? s : least;
        if (blocks[s] == 0 && !has_part(graph, plan, s)) {
            fprintf(out, "note: stage %d has no block of the model, only what stands beside them\n", s);
            empty = true;
        }
    }
    if (!empty && blocks[most] - blocks[least] > (all % plan->stage_count != 0))
        fprintf(out, "note: stages are uneven: stage %d has %d blocks, %d more than stage %d\n", most, blocks[most],
                blocks[most] - blocks[least], least);
    free(blocks);
    return true;
}

/* Of what runs by an allocator, which takes more than is in use. */
static void remark_room(FILE *out, const char *framework, const struct prediction *p)
{
    const struct target *target = framework ? target_of_framework(framework) : NULL;
    char left[TEXT_NUMBER_BYTES], wanted[TEXT_NUMBER_BYTES];
    int s = p->fullest_stage;
    if (!target || !p->fits)
        return;
    int64_t left_bytes = p->available_bytes[s] - p->peak_bytes[s];
    int64_t slack_bytes = (int64_t)(target->slack * (double)p->peak_bytes[s]);
    if (left_bytes < slack_bytes)
        fprintf(out,
                "note: cards of stage %d are fuller than the slack of %s's allocator: %s are left, and it may take %s "
                "(%s); --reserve keeps room\n",
                s, target->name, text_bytes(left, left_bytes), text_bytes(wanted, slack_bytes), target->slack_source);
}

bool remarks_print(FILE *out, const struct inputs *in, const struct plan *plan, const struct prediction *prediction,
                   struct error *err)
{
    remark_heads(out, in->model, in->graph, plan);
    remark_room(out, in->facts.framework ? in->facts.framework->name : NULL, prediction);
    return remark_stages(out, in->graph, plan, err);
}
