/* What is computed again is what was forgotten: losses and weights of every kind of recomputation, also of kinds that
 * differ by layer and with operators that are excepted, are those of none to the last bit. */
#include "tests/check.h"
#include "tests/recorded_run.h"

enum { MIXED = RECOMPUTE_COUNT, WAYS = MIXED + RECOMPUTE_COUNT };

/* One kind for all layers, or by turns, beginning with each of them. */
static int recompute_of(int way, int layer)
{
    return way < MIXED ? way : (way - MIXED + layer) % RECOMPUTE_COUNT;
}

static const char *way_name(int way)
{
    static const char *const mixed[] = { "none, selective, full, block by turns",
                                         "selective, full, block, none by turns",
                                         "full, block, none, selective by turns",
                                         "block, none, selective, full by turns" };
    return way < MIXED ? recompute_names[way] : mixed[way - MIXED];
}

static const struct tiny_choice choices[] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 4, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 1, .bucket = 1 << 12 },
    { .dp = 1, .tp = 4, .pp = 1, .micro = 2, .tp_dim = DIM_tp },
    { .dp = 1, .tp = 1, .pp = 4, .micro = 4, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 2 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_cp_ring, .clip = 1, .zero = 3, .prefetch = 1, .slices = 2 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_ep, .clip = 1 }, /* models with experts only */
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .named = "interleaved", .chunks = 2 },
    { .dp = 1, .tp = 2, .pp = 3, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "zb-h1" },
    { .dp = 1, .tp = 1, .pp = 3, .micro = 8, .tp_dim = DIM_tp, .clip = 1, .turns = { 2, 1, 1 } },
};
enum { CHOICES = sizeof choices / sizeof *choices };

/* The plan and what it means; the caller frees both. Excepted: of each layer other operators. */
static struct program *lower(const struct graph *graph, const struct tiny_choice *choice, int way, bool excepted,
                             struct plan **plan)
{
    struct error err = { 0 };
    *plan = tiny_plan(graph, choice);
    for (int l = 0; l < graph->layer_count; l++) {
        (*plan)->layers[l].recompute = (int8_t)recompute_of(way, l);
        (*plan)->layers[l].excepted = excepted ? mix64((uint64_t)(64 * way + l)) & (uint64_t)OPERATORS_EVERY : 0;
    }
    ck_assert_msg(plan_check(*plan, graph, &err), "%s", err.message);
    struct program *program = tiny_lower(graph, *plan, &err);
    ck_assert_msg(program != NULL, "%s, recompute %s%s: %s", graph->model_name, way_name(way),
                  excepted ? " but of some operators" : "", err.message);
    return program;
}

static int again_count(const struct program *program)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++)
            count += program->stages[s].instrs[i].op == OP_COMPUTE && program->stages[s].instrs[i].again;
    return count;
}

/* Selectively, only of attention; by blocks, only of what repeats. */
static bool forgets(const struct graph *graph, int way)
{
    for (int i = 0; i < graph->segment_count; i++) {
        const struct segment *s = &graph->segments[i];
        int recompute = recompute_of(way, s->layer);
        if ((recompute == RECOMPUTE_BLOCK && graph->layers[s->layer].block >= 0) || recompute == RECOMPUTE_FULL ||
            (recompute == RECOMPUTE_SELECTIVE && kernel_facts[s->kernel].cheap))
            return true;
    }
    return false;
}

static void check_way(const struct graph *graph, int choice, int way, bool excepted, const struct record *plain)
{
    char name[160];
    struct plan *plan;
    struct program *program = lower(graph, &choices[choice], way, excepted, &plan);
    struct record *record = run_recorded(program, NULL, false);
    snprintf(name, sizeof name, "%s, choice %d, recompute %s%s", graph->model_name, choice, way_name(way),
             excepted ? " but of some operators" : "");
    if (!excepted)
        ck_assert_msg((again_count(program) > 0) == forgets(graph, way), "%s: %d instructions again", name,
                      again_count(program));
    check_same_record(plain, record, name);
    record_free(record);
    program_free(program);
    plan_free(plan);
}

/* Every tiny model and choice, on threads; a share has of each model every second way. */
START_TEST(recomputed_runs_are_bitwise_the_same)
{
    for (int c = 0; c < CHOICES; c++) {
        if (!in_share((uint64_t)(c + _i)) || (choices[c].tp_dim == DIM_ep && _i != TINY_MIXTURE))
            continue;
        struct graph *graph = tiny_graph(tiny_models[_i]);
        struct plan *plan;
        struct program *program = lower(graph, &choices[c], RECOMPUTE_NONE, false, &plan);
        struct record *plain = run_recorded(program, NULL, false);
        ck_assert_int_eq(again_count(program), 0);
        for (int way = RECOMPUTE_NONE + 1; way < WAYS; way++)
            if (in_turn(way + _i, 2))
                check_way(graph, c, way, false, plain);
        for (int way = RECOMPUTE_NONE; way < WAYS; way++)
            if (in_turn(way + _i, 2))
                check_way(graph, c, way, true, plain);
        graph->keeping.repeats_what_is_read = true;
        for (int way = RECOMPUTE_BLOCK; way < WAYS; way++)
            if (in_turn(way + _i, 2))
                check_way(graph, c, way, false, plain);
        record_free(plain);
        program_free(program);
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

static int regathered(const struct program *program)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++)
            count += program->stages[s].instrs[i].op == OP_ALL_GATHER && program->stages[s].instrs[i].again;
    return count;
}

static int64_t sent_bytes(const struct program *program)
{
    int64_t bytes = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            if (instr->op != OP_SEND)
                continue;
            const struct buffer *source = &program->buffers[program->pairs[instr->pair_first].source];
            bytes += source->is_weight ? 0 : source->bytes;
        }
    return bytes;
}

/* What is gathered again is what was gathered, whatever else is forgotten; nothing else is computed again for it. */
START_TEST(regathered_runs_are_bitwise_the_same)
{
    for (int c = 0; c < CHOICES; c++) {
        struct tiny_choice choice = choices[c];
        if (choice.tp == 1 || choice.tp_dim == DIM_ep)
            continue;
        choice.tp_dim = c % 2 ? DIM_cp_gather : DIM_tp_sp;
        if (!in_share((uint64_t)(c + _i)))
            continue;
        struct graph *graph = tiny_graph(tiny_models[_i]);
        struct error err = { 0 };
        struct plan *plan = tiny_plan(graph, &choice);
        for (int l = 0; l < plan->layer_count; l++)
            plan->layers[l].recompute = (int8_t)(_i % 2 ? l % 2 * RECOMPUTE_SELECTIVE : RECOMPUTE_NONE);
        if (plan_check(plan, graph, &err)) {
            char name[160];
            struct program *keeps = tiny_lower(graph, plan, &err);
            ck_assert_msg(keeps != NULL, "%s", err.message);
            graph->keeping.gathers_again = true;
            struct program *drops = tiny_lower(graph, plan, &err);
            ck_assert_msg(drops != NULL, "%s", err.message);
            struct record *kept = run_recorded(keeps, NULL, false), *dropped = run_recorded(drops, NULL, false);
            snprintf(name, sizeof name, "%s, choice %d, gathered again", graph->model_name, c);
            check_same_record(kept, dropped, name);
            if (graph->image_value < 0) /* one image model has nothing that is gathered */
                ck_assert_int_gt(regathered(drops), regathered(keeps));
            ck_assert_int_eq(again_count(drops), again_count(keeps));
            record_free(kept);
            record_free(dropped);
            program_free(keeps);
            program_free(drops);
        }
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

/* Passes that take turns at exchanges of tokens do what they do one after the other. */
START_TEST(passes_that_take_turns_are_bitwise_the_same)
{
    static const struct tiny_choice taking[] = {
        { .dp = 1, .tp = 2, .pp = 1, .micro = 4, .tp_dim = DIM_ep, .clip = 1, .zero = 1 },
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_ep, .clip = 1, .named = "interleaved", .chunks = 2 },
    };
    for (size_t c = 0; c < sizeof taking / sizeof *taking; c++) {
        struct graph *graph = tiny_graph(tiny_models[TINY_MIXTURE]);
        struct error err = { 0 };
        struct plan *plan = tiny_plan(graph, &taking[c]);
        int moved = 0;
        plan->extra_in_flight = 1;
        ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
        struct program *apart = tiny_lower(graph, plan, &err);
        ck_assert_msg(apart != NULL, "%s", err.message);
        graph->keeping.overlaps_experts = true;
        struct program *turns = tiny_lower(graph, plan, &err);
        ck_assert_msg(turns != NULL, "%s", err.message);
        for (int s = 0; s < plan->stage_count; s++) {
            ck_assert_int_eq(turns->stages[s].instr_count, apart->stages[s].instr_count);
            for (int i = 0; i < turns->stages[s].instr_count; i++)
                moved += turns->stages[s].instrs[i].phase != apart->stages[s].instrs[i].phase;
        }
        ck_assert_int_gt(moved, 0);
        struct record *one = run_recorded(apart, NULL, false), *other = run_recorded(turns, NULL, false);
        check_same_record(one, other, "passes that take turns");
        record_free(one);
        record_free(other);
        program_free(apart);
        program_free(turns);
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

/* Values and gradients that go to other stages in parts arrive whole, wherever messages overtake each other. */
START_TEST(scattered_messages_are_bitwise_the_same)
{
    static const struct tiny_choice scattering[] = {
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp },
        { .dp = 2, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .zero = 2 },
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .named = "interleaved", .chunks = 2 },
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .named = "zb-h1" },
        { .dp = 1, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .named = "zb-v", .loss_chunks = 2 },
    };
    enum { SCATTERING = sizeof scattering / sizeof *scattering };
    const int every = share_stride() > 16 ? 3 * SCATTERING : small_share() ? SCATTERING : 2;
    for (int c = 0; c < SCATTERING; c++) {
        if (!in_turn(c + _i, every))
            continue;
        struct graph *graph = tiny_graph(tiny_models[_i]);
        struct error err = { 0 };
        struct plan *plan = tiny_plan(graph, &scattering[c]);
        for (int l = 0; l < plan->layer_count; l++)
            plan->layers[l].recompute = (int8_t)((c + _i) / every % 2 ? RECOMPUTE_NONE : RECOMPUTE_FULL);
        if (plan_check(plan, graph, &err)) {
            struct program *whole = tiny_lower(graph, plan, &err);
            ck_assert_msg(whole != NULL, "%s", err.message);
            graph->keeping.scatters_messages = true;
            struct program *parts = tiny_lower(graph, plan, &err);
            ck_assert_msg(parts != NULL, "%s", err.message);
            if (graph->image_value < 0) /* one image model has values that two ranks cannot share out */
                ck_assert_int_eq(2 * sent_bytes(parts), sent_bytes(whole));
            ck_assert_int_lt(sent_bytes(parts), sent_bytes(whole));
            struct record *one = run_recorded(whole, NULL, false), *other = run_recorded(parts, NULL, false);
            check_same_record(one, other, graph->model_name);
            record_free(one);
            record_free(other);
            program_free(whole);
            program_free(parts);
        }
        plan_free(plan);
        graph_free(graph);
    }
}
END_TEST

static Suite *recompute_suite(void)
{
    Suite *suite = suite_create("recompute");
    CHECK_ADD_LOOP(suite, regathered_runs_are_bitwise_the_same, TINY_MODELS);
    CHECK_ADD(suite, passes_that_take_turns_are_bitwise_the_same);
    CHECK_ADD_LOOP(suite, scattered_messages_are_bitwise_the_same, TINY_MODELS);
    CHECK_ADD_LOOP(suite, recomputed_runs_are_bitwise_the_same, TINY_MODELS);
    return suite;
}

CHECK_MAIN(recompute_suite)
