/* Prices one configuration that the user names. */
#include "cli/given.h"
#include "cli/print.h"
#include "host/heap.h"
#include <stdio.h>
#include <stdlib.h>

/* Of each choice what its option says, in the member of its kind. */
struct estimate_arguments {
    struct space_options space;
    const char *output, *stages, *word[CHOICE_COUNT];
    int64_t number[CHOICE_COUNT]; /* UNSAID: the option was not given */
    bool json, reversed, flag[CHOICE_COUNT];
};
enum { UNSAID = -1 };
static const struct estimate_arguments defaults = {
    .space.gap = DEFAULT_GAP,
    .number = {
#define CHOICE(id, ...) [CHOICE_##id] = UNSAID,
#include "planner/space/choices.def"
#undef CHOICE
    },
};
#define AT(field) offsetof(struct estimate_arguments, field)
#define MANY 1000000000
#define OPTION_OF_NUMBER(id, name, least, most, value, doc) INT_OPTION(name, AT(number[id]), value, least, most, doc)
#define OPTION_OF_FLAG(id, name, least, most, value, doc) FLAG_OPTION(name, AT(flag[id]), doc)
#define OPTION_OF_NAME(id, name, least, most, value, doc) TEXT_OPTION(name, AT(word[id]), value, doc)
#define OPTION_OF_TRUTH OPTION_OF_NAME
#define OPTION_OF_BYTES OPTION_OF_NAME
#define OPTION_OF_OPERATORS OPTION_OF_NAME
static const struct option options[] = {
#define CHOICE(id, member, name, scope, kind, least, most, usual, by_default, value, doc)                              \
    OPTION_OF_##kind(CHOICE_##id, name, least, most, value, doc),
#include "planner/space/choices.def"
#undef CHOICE
    FLAG_OPTION("reversed", AT(reversed), "the pipeline begins on the cluster's last devices: other types come first"),
    TEXT_OPTION(
        "stages", AT(stages), "CUTS",
        "blocks by stage, such as 5,6,6,4, or a layout of E, t, L and '|' as Megatron-LM has it (as many each)"),
    FIX_OPTION(AT(space.fix)),
    OUTPUT_OPTION(AT(output), "the plan file"),
    FLAG_OPTION("json", AT(json), "the plan file on standard output"),
    JOB_OPTIONS(struct estimate_arguments, space),
};

/* What the option of the choice says; UNSAID: nothing. */
static bool read_option(int64_t *out, const struct estimate_arguments *a, enum space_choice choice, struct error *err)
{
    char where[64];
    snprintf(where, sizeof where, "--%s", choice_facts[choice].name);
    *out = a->flag[choice] ? 1 : a->number[choice];
    return !a->word[choice] || space_value(where, choice, a->word[choice], out, err);
}

/* What --fix and options say. */
static bool read_said(struct space *said, const struct estimate_arguments *a, struct error *err)
{
    if (!given_fixed(said, &a->space.fix, err))
        return false;
    for (int i = 0; i < CHOICE_COUNT; i++) {
        const char *name = choice_facts[i].name;
        int64_t value;
        if (!read_option(&value, a, (enum space_choice)i, err))
            return false;
        if (value != UNSAID && said->range[i].count > 0)
            return fail(err, "--fix: %s is given by --%s, too; leave one of them out", name, name);
        if (value != UNSAID)
            said->range[i] = allowed_only(value);
    }
    return true;
}

static bool price(struct plan **plan, struct estimate **estimate, struct inputs *in, const struct estimate_arguments *a,
                  const char *model, struct error *err)
{
    struct space space, said;
    struct stage_cuts cuts;
    if (!space_inputs(in, &space, model, &a->space, err) || !read_said(&said, a, err) ||
        (a->stages && !stage_cuts_read(&cuts, &in->arena, a->stages, err)))
        return false;
    struct search_options search = space_search_options(&a->space, &space);
    return given_plan(plan, in, &search, &said, a->stages ? &cuts : NULL, a->space.clip != NULL, a->reversed, err) &&
           given_estimate(estimate, in, *plan, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct estimate_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    size_t length = 0;
    (void)operand_count;
    heap_expect_much();
    if (!inputs_can_write(a->output, err) || !price(&plan, &estimate, &in, a, operands[0], err))
        goto cleanup;
    in.context.cleave = CLEAVE_VERSION;
    if (a->output || a->json) {
        char *text = plan_json_write(plan, &estimate->prediction, &in.context, &length);
        bool ok = (!a->output || inputs_write(cli, a->output, text, length, err)) &&
                  (!a->json || inputs_write(cli, NULL, text, length, err));
        free(text);
        if (!ok)
            goto cleanup;
    }
    if (!a->json && !inputs_is_stdout(a->output)) {
        print_plan(cli, plan, in.graph);
        print_placement(cli, plan, in.cluster);
        print_prediction(cli, &estimate->prediction, in.graph);
        if (!inputs_soon_verified(plan))
            inputs_say_unverified(cli, a->output);
    }
cleanup:
    estimate_free(estimate);
    plan_free(plan);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_estimate = {
    .name = "estimate",
    .summary = "prices one given configuration",
    .usage = "MODEL --cluster CLUSTER --batch N --micro-batch N [--tp N --pp N --dp N --zero 0..3 ...] [--fix "
             "KEY=VALUE,...]",
    .examples =
        "  cleave estimate gpt3-175b --cluster 128x8:a100-sxm-80 --batch 1536 --micro-batch 1 --tp 8 --pp 16 "
        "--recompute full\n"
        "  cleave estimate gpt2 --cluster 1x8:a100-sxm-80 --batch 64 --fix 'micro-batch=8,layer[0-11].zero=3'\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct estimate_arguments),
    .defaults = &defaults,
    .run = run,
};
