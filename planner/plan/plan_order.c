/* The order of a plan's layers, where it is not the file's. */
#include "planner/plan/plan.h"
#include <string.h>

bool plan_set_order(struct plan *plan, const int *order)
{
    bool files = true;
    for (int p = 0; p < plan->layer_count; p++)
        files = files && order[p] == p;
    plan->order = files ? NULL : arena_alloc(&plan->arena, (size_t)plan->layer_count, sizeof *plan->order);
    if (plan->order)
        memcpy(plan->order, order, (size_t)plan->layer_count * sizeof *plan->order);
    return files || plan->order;
}

bool plan_graph_at(struct graph **out, const char **key, const struct model *model, const struct plan *plan,
                   struct error *err)
{
    struct graph *graph = NULL;
    bool shared = !plan->order;
    *key = "sequence";
    if (!(shared ? graph_take : graph_build)(&graph, model, plan->batch, plan->sequence, plan->vocab_multiple, err))
        return false;
    *key = "order";
    if (!shared && plan->layer_count == graph->layer_count && !graph_reorder(graph, plan->order, err)) {
        graph_free(graph);
        return false;
    }
    *out = graph;
    return true;
}

bool plan_graph(struct graph **out, const struct model *model, const struct plan *plan, struct error *err)
{
    const char *key;
    return plan_graph_at(out, &key, model, plan, err);
}
