#include "base/num.h"
#include "profiler/shorten.h"
#include "models/graph.h"
#include "models/layer_kind.h"

/* Every block at most so many times; the largest number of times that is left out. */
static int repeat_blocks(struct model *out, const struct model *model, int most)
{
    int left = 0;
    for (int i = 0; i < model->block_count; i++) {
        int count = model->blocks[i].count;
        out->blocks[i] = model->blocks[i];
        out->blocks[i].count = min_int(count, most);
        left = count - most > left ? count - most : left;
    }
    return left;
}

static bool count_parameters(const struct model *model, int64_t *count, struct error *err)
{
    struct graph *graph = NULL;
    if (!graph_build(&graph, model, 1, 0, 1, err))
        return false;
    *count = graph_parameter_count(graph);
    graph_free(graph);
    return true;
}

bool model_shorten(struct model *out, const struct model *model, int64_t least_parameters, struct error *err)
{
    int most = 1;
    for (int i = 0; i < model->layer_count; i++)
        if (((const struct layer_head *)model->layers[i].fields)->frozen)
            most = 2;
    *out = *model;
    out->arena = (struct arena){ 0 };
    out->blocks = arena_alloc(&out->arena, (size_t)model->block_count, sizeof *out->blocks);
    if (!out->blocks)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a shortened model");
    for (int64_t parameters = 0; repeat_blocks(out, model, most) > 0 && least_parameters > 0; most++) {
        if (!count_parameters(out, &parameters, err)) {
            arena_free(&out->arena);
            return false;
        }
        if (parameters >= least_parameters)
            break;
    }
    return true;
}
