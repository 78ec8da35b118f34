/* Any bytes as a plan file: never crashes; what is accepted is written and read again as the same plan; and what is a
 * legal plan of a small model, too, becomes a program that verify accepts or is refused with a reason. */
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "formats/plan_file.h"
#include "planner/program/program.h"
#include "planner/verify/verify.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The models of corpus/plan_tiny.json, and of plan_towers.json, which has an order of its own. */
static const char tiny_text[] =
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"tiny\", \"sequence\": 8, \"hidden\": 32, "
    "\"vocab_size\": 60, \"tied_embedding\": true, \"layers\": [{\"kind\": \"embedding\", \"learned_positions\": 8}, "
    "{\"repeat\": 2, \"layers\": [{\"kind\": \"attention\", \"heads\": 4, \"qkv_bias\": true, \"norm\": "
    "\"layer_norm\"}, {\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}]}, "
    "{\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}";
static const char towers_text[] =
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"towers\", \"sequence\": 8, \"hidden\": 32, "
    "\"vocab_size\": 60, \"layers\": [{\"kind\": \"embedding\", \"name\": \"left\", \"stream\": \"source\"}, "
    "{\"kind\": \"mlp\", \"name\": \"wide\", \"inner\": 64, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, "
    "{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": [{\"kind\": \"mlp\", \"name\": \"narrow\", \"inner\": 32, "
    "\"activation\": \"gelu\", \"norm\": \"layer_norm\"}]}, {\"kind\": \"concat\", \"inputs\": [\"wide\", "
    "\"narrow\"]}, {\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}";
enum { TOWERS_LAYERS = 8 };

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void lower(const struct plan *plan, const struct graph *graph)
{
    struct program *program = NULL;
    struct error err = { 0 };
    if (!lower_program(&program, graph, plan, &err)) {
        must(err.kind != ERROR_NONE && err.kind != ERROR_BUG && !program);
        return;
    }
    must(layout_program(program, &err) && verify_program(program, &err));
    program_free(program);
}

/* Programs grow with these: small ones only, so that many are tried. */
static bool is_small(const struct plan *plan)
{
    bool small = plan->rank_count <= 64 && plan->micro_batch_count <= 8;
    for (int i = 0; i < plan->layer_count; i++)
        small = small && plan->layers[i].slices <= 8;
    return small;
}

static void use(const struct plan *plan)
{
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct error err = { 0 };
    const char *text = plan->layer_count == TOWERS_LAYERS ? towers_text : tiny_text;
    must(model_read(&model, "tiny", text, strlen(text), NULL, &err));
    if (plan_graph(&graph, model, plan, &err) && plan_check(plan, graph, &err) && is_small(plan))
        lower(plan, graph);
    graph_free(graph);
    model_free(model);
}

/* What a plan holds of its model is read there as in a file of its own. */
static void use_description(const struct json *description)
{
    struct model *model = NULL;
    struct json_doc *again = NULL;
    struct error err = { 0 };
    if (!description)
        return;
    if (!model_read_value(&model, description, &err)) {
        must(err.kind != ERROR_NONE && !model);
        return;
    }
    must(model_document(&again, model, &err));
    json_free(again);
    model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_file *file = NULL, *again = NULL;
    struct error err = { 0 };
    size_t length = 0;
    if (!plan_json_read(&file, "fuzz", (const char *)data, size, &err)) {
        must(err.kind != ERROR_NONE && !file);
        return 0;
    }
    char *text = plan_json_write(file->plan, NULL, &file->context, &length);
    must(text && plan_json_read(&again, "written", text, length, &err) &&
         plan_hash(again->plan) == plan_hash(file->plan));
    use(file->plan);
    use_description(file->context.model.description);
    free(text);
    plan_file_free(again);
    plan_file_free(file);
    return 0;
}
