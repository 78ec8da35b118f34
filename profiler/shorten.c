#include "profiler/shorten.h"
#include "models/layer_kind.h"

bool model_shorten(struct model *out, const struct model *model, struct error *err)
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
    for (int i = 0; i < model->block_count; i++) {
        out->blocks[i] = model->blocks[i];
        out->blocks[i].count = model->blocks[i].count < most ? model->blocks[i].count : most;
    }
    return true;
}
