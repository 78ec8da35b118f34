/* Any bytes as the text of a program, and as a list of edits to a good one. What is accepted prints itself, and verify,
 * layout's order and the simulator's pairing say yes or no without harm. */
#include "formats/program_text.h"
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/program/program.h"
#include "planner/program/schedule.h"
#include "planner/verify/verify.h"
#include "tests/program_parse.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char model_text[] =
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"fuzz\", \"sequence\": 4, \"layers\": ["
    "{\"kind\": \"opaque\", \"name\": \"first\", \"forward_us\": 1, \"backward_us\": 2, \"parameters\": 40, "
    "\"activation_elements\": 8, "
    "\"saved_elements\": 8}, {\"kind\": \"opaque\", \"name\": \"last\", \"forward_us\": 1, \"backward_us\": 2, "
    "\"parameters\": 24, "
    "\"activation_elements\": 8, \"saved_elements\": 8}]}";

static void must(bool holds)
{
    if (!holds)
        abort();
}

struct base {
    struct model *model;
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

/* Two stages of two ranks, two micro-batches, ZeRO-3: sends, receives, gathers, scatters, a norm. */
static struct base open_base(void)
{
    struct base b = { 0 };
    must(model_read(&b.model, "fuzz", model_text, sizeof model_text - 1, NULL, NULL));
    must(graph_build(&b.graph, b.model, 4, 0, 128, NULL));
    b.plan = plan_new(2, 2);
    must(b.plan != NULL);
    b.plan->batch = 4;
    b.plan->sequence = b.graph->sequence;
    b.plan->vocab_multiple = 128;
    b.plan->schedule = schedule_find("1f1b");
    b.plan->micro_batch_count = 2;
    b.plan->atom_count = 1;
    b.plan->rank_count = 4;
    b.plan->clip_norm = 1;
    for (int i = 0; i < 2; i++) {
        b.plan->stages[i].first_layer = i;
        b.plan->stages[i].layer_count = 1;
        b.plan->stages[i].first_rank = 2 * i;
        b.plan->stages[i].atom[0] = 2;
        b.plan->layers[i].dim[0] = DIM_dp;
        b.plan->layers[i].zero = 3;
    }
    must(plan_check(b.plan, b.graph, NULL) && lower_program(&b.program, b.graph, b.plan, NULL) &&
         layout_program(b.program, NULL));
    return b;
}

static void close_base(struct base *b)
{
    program_free(b->program);
    plan_free(b->plan);
    graph_free(b->graph);
    model_free(b->model);
}

static void try_text(const struct base *b, const char *bytes, size_t size)
{
    struct program *program = NULL;
    struct text printed = { 0 };
    struct error err = { 0 };
    if (!program_parse(&program, b->graph, b->plan, "fuzz", bytes, size, &err)) {
        must(err.kind != ERROR_NONE && !program);
        return;
    }
    program_print(program, &printed);
    must(!printed.failed && printed.length == size && !memcmp(printed.data, bytes, size));
    if (verify_program(program, &err))
        must(layout_program(program, &err) && verify_program(program, &err));
    text_free(&printed);
    program_free(program);
}

/* Each three bytes of the input: a place, in 65536ths of the text, and the character that comes there. */
static void edit(char *text, size_t length, const uint8_t *data, size_t size)
{
    static const char characters[] = "0123456789-= \nRSPF.,";
    for (size_t i = 0; i + 2 < size && i < 30; i += 3) {
        size_t place = ((size_t)data[i] << 8 | data[i + 1]) * length >> 16;
        text[place] = data[i + 2] < 200 ? characters[data[i + 2] % (sizeof characters - 1)] : (char)data[i + 2];
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct base base = open_base();
    struct text text = { 0 };
    program_print(base.program, &text);
    must(!text.failed);
    try_text(&base, text.data, text.length);
    try_text(&base, (const char *)data, size);
    edit(text.data, text.length, data, size);
    try_text(&base, text.data, text.length);
    text_free(&text);
    close_base(&base);
    return 0;
}
