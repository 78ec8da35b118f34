/* What lies in host memory changes no bit of what is computed: every run is held against the same plan without. And
 * what it saves, what it costs, and what it needs. */
#define _POSIX_C_SOURCE 200809L
#include "tests/check.h"
#include "base/num.h"
#include "host/catalogue.h"
#include "planner/program/geometry.h"
#include "planner/sim/simulate.h"
#include "tests/recorded_run.h"
#include <time.h>

/* ---- runs ---- */
/* Of host memory all is used that is laid out, but for what aligns buffers and the 2 % that tests/test_layout.c allows.
 */
static void fills_host_arena(const struct program *program, int stage, int64_t touched_bytes)
{
    int64_t host_bytes = program->stages[stage].host_bytes, gaps_bytes = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->stage == stage && buffer->host)
            gaps_bytes += round_up(buffer->bytes, ARENA_ALIGNMENT_BYTES) - buffer->bytes;
    }
    ck_assert_int_le(touched_bytes, host_bytes);
    ck_assert_int_ge(touched_bytes, host_bytes - gaps_bytes - host_bytes / 50);
}

static struct record *run(const struct program *program, const struct facts *facts, bool over_tcp)
{
    struct record *record = run_recorded(program, facts, over_tcp);
    for (int r = 0; r < program->plan->rank_count; r++)
        fills_host_arena(program, plan_stage_of_rank(program->plan, r), record->host_peak_bytes[r]);
    return record;
}

static struct program *lower(const struct graph *graph, const struct tiny_choice *choice, enum offload offload)
{
    struct tiny_choice own = *choice;
    struct error err = { 0 };
    own.offload = offload;
    struct plan *plan = tiny_plan(graph, &own);
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    struct program *program = tiny_lower(graph, plan, &err);
    ck_assert_msg(program != NULL, "%s", err.message);
    return program;
}

static void close_program(struct program *program)
{
    struct plan *plan = (struct plan *)(uintptr_t)program->plan; /* made in lower() */
    program_free(program);
    plan_free(plan);
}

static const struct tiny_choice choices[] = {
    { .dp = 1, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 2, .tp = 2, .pp = 2, .micro = 4, .tp_dim = DIM_tp_sp, .clip = 1, .zero = 1 },
    { .dp = 2, .tp = 1, .pp = 3, .micro = 4, .tp_dim = DIM_tp, .zero = 2, .recompute = RECOMPUTE_FULL },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 2, .tp_dim = DIM_cp_ring, .clip = 1, .zero = 3, .prefetch = 1, .slices = 2 },
    { .dp = 2, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .named = "interleaved", .chunks = 2 },
    { .dp = 1, .tp = 2, .pp = 3, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "zb-h1", .recompute = 1 },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "chimera", .chunks = 2 },
    { .dp = 1, .tp = 1, .pp = 3, .micro = 8, .tp_dim = DIM_tp, .clip = 1, .turns = { 2, 1, 1 } },
};
enum { CHOICES = sizeof choices / sizeof *choices };

/* Every tiny model and choice, on threads; over sockets in turn. */
START_TEST(offloaded_runs_are_bitwise_the_same)
{
    char name[128];
    for (int c = 0; c < CHOICES; c++) {
        if (!in_share((uint64_t)(c + _i)))
            continue;
        struct graph *graph = tiny_graph(tiny_models[_i]);
        graph->keeping.state_takes_gradients = (c + _i) / 2 % 2;
        struct program *without = lower(graph, &choices[c], OFFLOAD_NONE);
        struct record *plain = run(without, NULL, false);
        for (int offload = OFFLOAD_ACTIVATIONS + (c + _i) % 2; offload < OFFLOAD_COUNT; offload++) {
            struct program *with = lower(graph, &choices[c], (enum offload)offload);
            struct record *record = run(with, NULL, (c + offload + _i) % 8 == 0);
            snprintf(name, sizeof name, "%s, choice %d, offload %s%s", graph->model_name, c, offload_names[offload],
                     graph->keeping.state_takes_gradients ? ", gradients with the state" : "");
            check_same_record(plain, record, name);
            record_free(record);
            close_program(with);
        }
        record_free(plain);
        close_program(without);
        graph_free(graph);
    }
}
END_TEST

/* ---- bytes ---- */
static int64_t bytes_of(const struct program *program, int stage, enum buffer_kind kind, bool host)
{
    int64_t sum = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->stage == stage && buffer->kind == kind && buffer->host == host)
            sum += round_up(buffer->bytes, ARENA_ALIGNMENT_BYTES);
    }
    return sum;
}

/* The host's arena is the states or the weights, exactly; what persists on the device is less by as much. */
START_TEST(states_and_weights_leave_the_device)
{
    for (int c = 0; c < CHOICES; c++) {
        struct graph *graph = tiny_graph(tiny_models[0]);
        enum offload what = _i ? OFFLOAD_PARAMETERS : OFFLOAD_OPTIMIZER;
        struct program *without = lower(graph, &choices[c], OFFLOAD_NONE), *with = lower(graph, &choices[c], what);
        for (int s = 0; s < without->stage_count; s++) {
            int64_t bytes = bytes_of(without, s, _i ? BUFFER_WEIGHT : BUFFER_STATE, false);
            ck_assert_int_gt(bytes, 0);
            ck_assert_int_eq(without->stages[s].host_bytes, 0);
            ck_assert_int_eq(with->stages[s].host_bytes, bytes);
            ck_assert_int_eq(with->stages[s].persistent_bytes, without->stages[s].persistent_bytes - bytes);
        }
        close_program(without), close_program(with);
        graph_free(graph);
    }
}
END_TEST

/* A model of many equal layers holds activations of all of them without; with, of the few near the turn. Its blocks
 * doubled, the first grows by what one block holds and the second does not. */
static int64_t arena_of(int blocks, enum offload offload, int64_t *host_bytes)
{
    char text[1024];
    snprintf(text, sizeof text,
             "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"deep\", \"sequence\": 16, \"hidden\": 32, "
             "\"vocab_size\": 64, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": %d, \"layers\": ["
             "{\"kind\": \"mlp\", \"inner\": 256, \"activation\": \"relu\", "
             "\"norm\": \"rms_norm\"}]}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}",
             blocks);
    struct graph *graph = tiny_graph(text);
    struct program *program =
        lower(graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 1, .micro = 1, .tp_dim = DIM_tp }, offload);
    int64_t bytes = program->stages[0].arena_bytes - program->stages[0].persistent_bytes;
    *host_bytes = program->stages[0].host_bytes;
    close_program(program);
    graph_free(graph);
    return bytes;
}

/* Gradients go with the state where the framework's do, unless they are reduced in buckets. */
START_TEST(gradients_go_with_the_state)
{
    for (int c = 0; c < CHOICES; c++) {
        struct graph *graph = tiny_graph(tiny_models[0]);
        graph->keeping.state_takes_gradients = true;
        struct program *without = lower(graph, &choices[c], OFFLOAD_NONE),
                       *with = lower(graph, &choices[c], OFFLOAD_OPTIMIZER);
        bool in_buckets = choices[c].dp > 1 && choices[c].zero < 2;
        for (int s = 0; s < without->stage_count; s++) {
            int64_t state_bytes = bytes_of(without, s, BUFFER_STATE, false), host_bytes = with->stages[s].host_bytes,
                    gradient_bytes = bytes_of(without, s, BUFFER_GRADIENT, false);
            ck_assert_int_ge(host_bytes, state_bytes + (in_buckets ? 0 : 1));
            ck_assert_int_le(host_bytes, state_bytes + (in_buckets ? 0 : gradient_bytes));
            ck_assert_int_eq(with->stages[s].persistent_bytes, without->stages[s].persistent_bytes - host_bytes);
        }
        close_program(without), close_program(with);
        graph_free(graph);
    }
}
END_TEST

START_TEST(activations_leave_the_device)
{
    int64_t none, few, many;
    int64_t kept = arena_of(16, OFFLOAD_NONE, &none) - arena_of(8, OFFLOAD_NONE, &none);
    int64_t small = arena_of(8, OFFLOAD_ACTIVATIONS, &few), large = arena_of(16, OFFLOAD_ACTIVATIONS, &many);
    ck_assert_int_eq(none, 0);
    ck_assert_int_gt(kept, 0);
    ck_assert_int_eq(large, small);
    ck_assert_int_eq(many - few, kept); /* each byte that is not here is there */
}
END_TEST

/* The weights of few layers are on the device, however many a model has, and those of all on the host. */
START_TEST(weights_leave_the_device_between_uses)
{
    int64_t few, many, few_away, many_away;
    int64_t small = arena_of(8, OFFLOAD_BOTH, &few), large = arena_of(16, OFFLOAD_BOTH, &many);
    int64_t small_away = arena_of(8, OFFLOAD_ALL, &few_away), large_away = arena_of(16, OFFLOAD_ALL, &many_away);
    ck_assert_int_eq(large, small);
    ck_assert_int_eq(large_away, small_away);
    ck_assert_int_gt(many_away - few_away, many - few);
}
END_TEST

/* ---- time ---- */
static struct cluster *cluster_open(const char *form)
{
    struct catalogue *catalogue = NULL;
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    ck_assert_msg(catalogue_read(&catalogue, SOURCE_ROOT "/planner/facts/devices", &err) &&
                      cluster_read(&cluster, form, form, strlen(form), catalogue->entries, catalogue->count, &err),
                  "%s", err.message);
    catalogue_free(catalogue);
    return cluster;
}

static int64_t step_ns(const struct program *program, const char *form)
{
    struct cluster *cluster = cluster_open(form);
    struct facts facts = { .cluster = cluster };
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate(&timeline, &facts, program, &err), "%s", err.message);
    int64_t ns = timeline->step_ns;
    timeline_free(timeline);
    cluster_free(cluster);
    return ns;
}

/* One way over the link in a step, on a rank of the stage. */
static int64_t moved_bytes(const struct program *program, int stage, enum op op)
{
    int64_t sum = 0;
    for (int i = 0; i < program->stages[stage].instr_count; i++) {
        const struct instr *instr = &program->stages[stage].instrs[i];
        for (int k = 0; instr->op == op && k < instr->pair_count; k++)
            sum += program->buffers[program->pairs[instr->pair_first + k].source].bytes;
    }
    return sum;
}

/* A link without limits hides all but some waits for bytes; a slow one is what the step takes, and never less. */
START_TEST(copies_take_the_links_time)
{
    static const char *const fast = "1x8:cpu@host=1e18,host-latency=0", *const slow = "1x8:cpu@host=1e5,host-latency=0";
    for (int c = 0; c < CHOICES; c++) {
        struct graph *graph = tiny_graph(tiny_models[0]);
        struct program *without = lower(graph, &choices[c], OFFLOAD_NONE),
                       *with = lower(graph, &choices[c], _i ? OFFLOAD_PARAMETERS : OFFLOAD_BOTH);
        int64_t plain = step_ns(without, fast), hidden = step_ns(with, fast), busy = step_ns(with, slow), bytes = 0;
        for (int s = 0; s < with->stage_count; s++)
            for (int out = 0; out < 2; out++)
                bytes = max_i64(bytes, moved_bytes(with, s, out ? OP_OFFLOAD : OP_FETCH));
        int64_t link_ns = bytes * 10000;
        ck_assert_msg(hidden <= plain + plain / 20, "choice %d: %lld ns, without %lld", c, (long long)hidden,
                      (long long)plain);
        ck_assert_msg(busy >= link_ns && busy <= 3 * link_ns, "choice %d: %lld ns, the link alone %lld", c,
                      (long long)busy, (long long)link_ns);
        close_program(without), close_program(with);
        graph_free(graph);
    }
}
END_TEST

/* The processor waits for the stated link: a run lasts at least as long as its copies. */
START_TEST(runs_wait_for_the_link)
{
    struct cluster *cluster = cluster_open("1x1:cpu@host=1e6,host-latency=0");
    struct facts facts = { .cluster = cluster };
    struct graph *graph = tiny_graph(tiny_models[0]);
    struct program *with = lower(graph, &choices[0], OFFLOAD_OPTIMIZER);
    struct timespec before, after;
    clock_gettime(CLOCK_MONOTONIC, &before);
    record_free(run(with, &facts, false));
    clock_gettime(CLOCK_MONOTONIC, &after);
    double seconds = (double)(after.tv_sec - before.tv_sec) + 1e-9 * (double)(after.tv_nsec - before.tv_nsec);
    ck_assert_double_ge(seconds, RECORDED_STEPS * 1e-6 * (double)moved_bytes(with, 0, OP_FETCH));
    close_program(with);
    graph_free(graph);
    cluster_free(cluster);
}
END_TEST

/* ---- refusals ---- */
START_TEST(a_device_without_a_link_is_refused)
{
    struct cluster *cluster = cluster_open("1x8:l40s");
    struct facts facts = { .cluster = cluster };
    cluster->types[0].device.host_bytes_per_s = 0;
    struct graph *graph = tiny_graph(tiny_models[0]);
    struct program *with = lower(graph, &choices[0], OFFLOAD_ACTIVATIONS), *none = lower(graph, &choices[0], 0);
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert(!simulate(&timeline, &facts, with, &err));
    ck_assert_msg(strstr(err.message, "l40s@host=") && strstr(err.message, "offload activations"), "%s", err.message);
    err = (struct error){ 0 };
    ck_assert_msg(simulate(&timeline, &facts, none, &err), "%s", err.message);
    timeline_free(timeline);
    close_program(with), close_program(none);
    graph_free(graph);
    cluster_free(cluster);
}
END_TEST

static Suite *offload_suite(void)
{
    Suite *suite = suite_create("offload");
    TCase *tcase = tcase_create("models");
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, offloaded_runs_are_bitwise_the_same, 0, TINY_MODELS);
    suite_add_tcase(suite, tcase);
    tcase_add_loop_test(tcase, states_and_weights_leave_the_device, 0, 2);
    tcase_add_test(tcase, gradients_go_with_the_state);
    tcase_add_loop_test(tcase, copies_take_the_links_time, 0, 2);
    CHECK_ADD(suite, activations_leave_the_device);
    CHECK_ADD(suite, weights_leave_the_device_between_uses);
    CHECK_ADD(suite, runs_wait_for_the_link);
    CHECK_ADD(suite, a_device_without_a_link_is_refused);
    return suite;
}

CHECK_MAIN(offload_suite)
