/* Ranks as processes: the same losses as threads to the last bit; a rank that dies or hangs ends all, by name. The
 * program starts itself under mpirun; where the module or mpirun is absent, it says so and tests the rest. */
#define _POSIX_C_SOURCE 200809L
#include "tests/combinations.h"
#include "tests/random_numbers.h"
#include "tests/started_ranks.h"
#include "executor/backends.h"
#include "executor/kernel.h"
#include "executor/launch.h"
#include "executor/run.h"
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

enum { STEPS = 4, PATH_BYTES = 4096 };
static const struct tiny_choice choices[] = {
    { .dp = 2, .tp = 1, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .zero = 1, .bucket = 1 << 14 },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "interleaved", .chunks = 2 },
    { .dp = 1, .tp = 1, .pp = 3, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "zb-h2" },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .turns = { 3, 1 } },
    { .dp = 1, .tp = 1, .pp = 4, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .named = "chimera", .chunks = 2 },
    { .dp = 4, .tp = 1, .pp = 1, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .bucket = 1 << 14, .server = true },
};
/* Beyond these choices, of the covering array so many combinations. */
enum { CHOICES = sizeof choices / sizeof *choices, SAMPLED = 4 };

struct trial {
    const char *deed; /* what rank 2 does in its third step: "nothing", "die", "hang" */
    int rank;
    FILE *out;
};

static void on_step(void *context, const struct run_step *step)
{
    struct trial *trial = context;
    if (trial->out)
        fprintf(trial->out, "%a\n", step->loss);
}

static void on_gradient(void *context, int64_t step, int rank, int buffer, const void *data)
{
    struct trial *trial = context;
    (void)buffer, (void)data;
    if (rank != 2 || step != 2)
        return;
    if (strcmp(trial->deed, "die") == 0)
        raise(SIGKILL);
    while (strcmp(trial->deed, "hang") == 0)
        pause();
}

struct world {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

/* A legal plan, drawn: all that tests/test_combinations.c runs are dear to list in each rank. */
static void open_sampled(struct world *w, int number)
{
    struct combination_graphs graphs;
    struct combination c;
    struct error error;
    uint64_t state = (uint64_t)number << 32;
    combination_graphs_open(&graphs);
    do {
        for (int column = 0; column < COLUMN_COUNT; column++)
            c.row[column] = (int)draw(&state, (uint64_t)row_count((enum column)column));
        error = (struct error){ 0 };
    } while (c.row[COLUMN_MODEL] == COMBINATION_OPAQUE || c.row[COLUMN_MODEL] == COMBINATION_PLANNED ||
             combination_verdict(&graphs, &c, &error) != PLAN_LEGAL);
    w->graph = tiny_graph(combination_model(c.row[COLUMN_MODEL]));
    w->plan = combination_plan(&graphs, &c);
    combination_graphs_close(&graphs);
}

static bool world_open(struct world *w, int choice, struct error *err)
{
    if (choice < CHOICES) {
        w->graph = tiny_graph(tiny_models[0]);
        w->plan = tiny_plan(w->graph, &choices[choice]);
    } else {
        open_sampled(w, choice - CHOICES);
    }
    w->program = tiny_lower(w->graph, w->plan, err);
    return w->program != NULL;
}

static void world_close(struct world *w)
{
    program_free(w->program);
    plan_free(w->plan);
    graph_free(w->graph);
}

static bool run_world(const struct world *w, const char *transport, const char *modules, const struct meeting *meeting,
                      struct status *status, struct trial *trial, struct error *err)
{
    struct run_options options = run_options_default();
    const struct transport_options how = { .module_dir = modules, .meeting = meeting };
    options.step_count = STEPS, options.timeout_s = 2, options.status = status;
    options.context = trial, options.on_step = on_step, options.on_gradient = on_gradient;
    return run_started(w->program, w->plan->rank_count, transport, &how, options, err);
}

/* test_launch rank MODULE_DIR OUT DEED TRANSPORT CHOICE */
static int rank_main(char **argv)
{
    struct world w = { 0 };
    struct status *status = NULL;
    struct error error = { 0 };
    struct launch launch;
    struct meeting meeting;
    bool tcp = strcmp(argv[5], "tcp") == 0;
    bool ok = launch_detect(&launch, environment, &error) &&
              (!tcp || launch_meeting(&meeting, &launch, 2, environment, &error));
    struct trial trial = { .deed = argv[4], .rank = launch.rank };
    trial.out = trial.rank == 0 ? fopen(argv[3], "w") : NULL;
    ok = ok && world_open(&w, atoi(argv[6]), &error) &&
         status_open(&status, getenv(LAUNCH_STATUS_VARIABLE), w.plan->rank_count, &error) &&
         run_world(&w, argv[5], argv[2], tcp ? &meeting : NULL, status, &trial, &error);
    if (trial.out)
        fclose(trial.out);
    if (!ok) {
        fprintf(stderr, "rank %d: %s\n", trial.rank, error.message);
        _exit(EXIT_FAILURE); /* a stuck lane cannot be joined */
    }
    status_close(status);
    world_close(&w);
    return EXIT_SUCCESS;
}

static bool launch(const struct world *w, int choice, const char *out, const char *deed, const char *transport,
                   struct error *err)
{
    char number[16];
    const char *const arguments[] = { self, "rank", module_dir, out, deed, transport, number, NULL };
    snprintf(number, sizeof number, "%d", choice);
    struct launch_local local = {
        .arguments = arguments, .rank_count = w->plan->rank_count, .program = w->program, .timeout_s = 4
    };
    return transport_start(transport, &local.start, err) && launch_run(&local, err);
}

/* The transports whose ranks are processes and that can be used here. */
static const char *const transports[] = { "tcp", "mpi" };
static int transport_count = 1;
/* Slow processes of very many ranks might wait for each other too long. */
static int case_count = CHOICES + SAMPLED;

static void read_lines(FILE *file, double losses[STEPS], int *count)
{
    *count = 0;
    rewind(file);
    while (*count < STEPS && fscanf(file, "%la", &losses[*count]) == 1)
        ++*count;
}

START_TEST(processes_equal_threads)
{
    struct world w = { 0 };
    struct error error = { 0 };
    char path[PATH_BYTES];
    snprintf(path, sizeof path, "/tmp/cleave-ranks-%ld", (long)getpid());
    int choice = _i % case_count;
    ck_assert_msg(world_open(&w, choice, &error), "%s", error.message);
    struct trial trial = { .deed = "nothing", .out = tmpfile() };
    ck_assert_msg(run_world(&w, "threads", NULL, NULL, NULL, &trial, &error), "%s", error.message);
    ck_assert_msg(launch(&w, choice, path, "nothing", transports[_i / case_count], &error), "%s", error.message);
    double by_threads[STEPS], by_processes[STEPS];
    int threads, processes;
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    read_lines(trial.out, by_threads, &threads);
    read_lines(file, by_processes, &processes);
    ck_assert(threads == STEPS && processes == STEPS);
    for (int s = 0; s < STEPS; s++)
        CHECK_NEAR(by_processes[s], by_threads[s], 0);
    fclose(file);
    fclose(trial.out);
    unlink(path);
    world_close(&w);
}
END_TEST

START_TEST(dead_and_hanging_ranks_end_all)
{
    static const char *const deeds[] = { "die", "hang" };
    for (int d = 0; d < 2; d++) {
        struct world w = { 0 };
        struct error error = { 0 };
        ck_assert_msg(world_open(&w, 0, &error), "%s", error.message);
        ck_assert(!launch(&w, 0, "/dev/null", deeds[d], transports[_i], &error));
        const char *rank = strstr(error.message, "rank 2 (stage 1");
        ck_assert_msg(rank && strstr(rank, "): step 3, instruction") != NULL, "%s", error.message);
        world_close(&w);
    }
}
END_TEST

/* One that fails before the others have met it: whoever waits for it without an end is ended. */
START_TEST(nobody_waits_for_one_that_failed)
{
    static const char script[] = "[ $RANK = 0 ] && exit 3; sleep 1000000";
    const char *const arguments[] = { "/bin/sh", "-c", script, NULL };
    const struct launch_local local = { .arguments = arguments, .rank_count = 3, .start = START_MEETING };
    struct error error = { 0 };
    ck_assert(!launch_run(&local, &error));
    ck_assert_ptr_nonnull(strstr(error.message, "the run failed with code 3"));
}
END_TEST

/* ---- launchers' variables ---- */
static const char *torchrun(const char *name)
{
    return strcmp(name, "RANK") == 0         ? "3"
           : strcmp(name, "WORLD_SIZE") == 0 ? "8"
           : strcmp(name, "LOCAL_RANK") == 0 ? "1"
                                             : NULL;
}
static const char *open_mpi(const char *name)
{
    return strcmp(name, "OMPI_COMM_WORLD_RANK") == 0 ? "0" : strcmp(name, "OMPI_COMM_WORLD_SIZE") == 0 ? "4" : NULL;
}
static const char *half(const char *name)
{
    return strcmp(name, "RANK") == 0 ? "3" : NULL;
}
static const char *nothing(const char *name)
{
    (void)name;
    return NULL;
}

START_TEST(launchers_are_recognised)
{
    struct launch launch;
    struct error error = { 0 };
    ck_assert(launch_detect(&launch, torchrun, &error));
    ck_assert(strcmp(launch.launcher, "torchrun") == 0 && launch.rank == 3 && launch.rank_count == 8 &&
              launch.local_rank == 1);
    ck_assert(!launch_check(&launch, 4, &error));
    ck_assert_str_eq(error.message, "the plan is for 4 ranks, torchrun started 8 processes: start 4");
    error = (struct error){ 0 };
    ck_assert(launch_detect(&launch, open_mpi, &error) && launch.rank == 0 && launch.rank_count == 4 &&
              launch_check(&launch, 4, &error));
    ck_assert(launch_detect(&launch, nothing, &error) && !launch.launcher && launch_check(&launch, 4, &error));
    ck_assert(!launch_detect(&launch, half, &error));
    ck_assert_str_eq(error.message, "the launcher's variable WORLD_SIZE: expected a number, found none");
}
END_TEST

static void add_for_each_transport(Suite *suite, const TTest *test, int cases)
{
    TCase *tcase = tcase_create(test->name);
    tcase_set_timeout(tcase, 0);
    tcase_add_loop_test(tcase, test, 0, transport_count * cases);
    suite_add_tcase(suite, tcase);
}

static Suite *launch_suite(void)
{
    struct error error = { 0 };
    Suite *suite = suite_create("launch");
    if (share_stride() > 1)
        case_count = CHOICES;
    CHECK_ADD(suite, launchers_are_recognised);
    CHECK_ADD(suite, nobody_waits_for_one_that_failed);
    if (transport_available("mpi", module_dir, &error) && system("command -v mpirun >/dev/null") == 0)
        transport_count = 2;
    else
        fprintf(stderr, "skipped: %s\n", error.kind != ERROR_NONE ? error.message : "mpirun is not installed");
    add_for_each_transport(suite, processes_equal_threads, case_count);
    add_for_each_transport(suite, dead_and_hanging_ranks_end_all, 1);
    return suite;
}

int main(int argc, char **argv)
{
    if (argc == 7 && strcmp(argv[1], "rank") == 0)
        return rank_main(argv);
    find_self();
    SRunner *runner = srunner_create(launch_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
