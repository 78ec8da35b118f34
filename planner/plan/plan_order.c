/* The order of a plan's layers, where it is not the file's. */
#include "planner/plan/plan_json_parts.h"
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

void plan_order_text(struct text *out, const struct plan *plan)
{
    for (int p = 0, count; plan->order && p < plan->layer_count; p += count) {
        int first = plan->order[p];
        for (count = 1; p + count < plan->layer_count && plan->order[p + count] == first + count;)
            count++;
        text_printf(out, "%s%d", p > 0 ? "," : "", first);
        if (count > 1)
            text_printf(out, "-%d", first + count - 1);
    }
}

bool plan_read_range(const char **at, int *first, int *last)
{
    enum { TOO_MANY = 100000000 };
    int *numbers[] = { first, last };
    for (int i = 0; i < 2; i++) {
        int value = 0;
        if (**at < '0' || **at > '9')
            return false;
        for (; **at >= '0' && **at <= '9'; ++*at)
            value = value < TOO_MANY ? value * 10 + (**at - '0') : value;
        *numbers[i] = *last = value;
        if (i > 0 || **at != '-')
            break;
        ++*at;
    }
    return *last >= *first;
}

bool plan_order_read(const struct json *where, const char *text, struct plan *plan, struct error *err)
{
    int *order = arena_alloc(&plan->arena, (size_t)plan->layer_count, sizeof *order), place = 0, first = 0, last = 0;
    bool *seen = arena_alloc(&plan->arena, (size_t)plan->layer_count, sizeof *seen);
    if (!order || !seen)
        return fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory for %d layers", plan->layer_count);
    for (const char *at = text; *at;) {
        if (!plan_read_range(&at, &first, &last) || (*at && (*at++ != ',' || !*at)))
            return json_fail(where, err, "expected ranges of layers such as \"0-3,8-11,4-7\", found \"%s\"", text);
        for (int layer = first; layer <= last; layer++) {
            if (layer >= plan->layer_count || seen[layer])
                return json_fail(where, err, "expected each of the layers 0 to %d once, found layer %d%s",
                                 plan->layer_count - 1, layer, layer < plan->layer_count ? " twice" : "");
            seen[layer] = true;
            order[place++] = layer;
        }
    }
    if (place < plan->layer_count)
        return json_fail(where, err, "expected each of the %d layers once, found %d of them", plan->layer_count, place);
    return plan_set_order(plan, order) || fail_memory(err);
}
