#include "cli/remarks.h"
#include "planner/plan/dim.h"
#include "targets/decoder.h"

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

/* Of models without blocks nothing is said. */
static void remark_stages(FILE *out, const struct graph *graph, const struct plan *plan)
{
    bool any = false;
    for (int l = 0; l < graph->layer_count; l++)
        any = any || graph->layers[l].block >= 0;
    for (int s = 0; any && s < plan->stage_count; s++) {
        bool has = false;
        for (int l = 0; l < plan->layer_count; l++)
            has = has || (graph->layers[l].block >= 0 && plan_stage_holds(plan, s, l));
        if (!has)
            fprintf(out, "note: stage %d has no block of the model, only what stands beside them\n", s);
    }
}

void remarks_print(FILE *out, const struct model *model, const struct graph *graph, const struct plan *plan)
{
    remark_heads(out, model, graph, plan);
    remark_stages(out, graph, plan);
}
