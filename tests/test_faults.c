/* At random instructions of random plans a rank dies, fails, hangs or loses a message. All ranks end, the exit code is
 * 1, the message names ranks with what they did last, no process and no file is left behind, and a checkpoint that is
 * there is whole. Fifty trials of each transport. CLEAVE_FAULT_SEED: only the trial of this number, to replay one.
 *
 * Each trial is a process, which starts its ranks as `cleave run -n` does. Most of a trial is waiting, so that several
 * run side by side. Until its deed is done the ranks tell that they are well, so that patience begins with it. */
#define _GNU_SOURCE
#include "tests/combinations.h"
#include "tests/started_ranks.h"
#include "base/text.h"
#include "executor/backends.h"
#include "executor/checkpoint/folder.h"
#include "executor/launch.h"
#include "executor/run.h"
#include "planner/program/geometry.h"
#include "tests/random_numbers.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { TRIALS = 50, STEPS = 3, SIDE_BY_SIDE = 12, TRIAL_RANKS = 4, PATH_BYTES = 4096, BEAT_NS = 100000000 };
static const double PATIENCE_S = 1, LONG_S = 120; /* LONG_S: not how such a run should end */

enum deed { DEED_END, DEED_HANG, DEED_LOSE }; /* END: the process is killed; on threads the instruction fails */
struct trial {
    struct combination_graphs graphs;
    struct combination plan_rows;
    struct plan *plan;
    struct program *program;
    enum deed deed;
    int rank, instr; /* of the rank's stage */
    int64_t step;    /* from 0 */
    /* while it runs */
    bool threads;
    const char *folder;
    struct status *status;
    int beating; /* the rank that this process tells of */
};

/* ---- what happens where ---- */
static struct combination small_combination(uint64_t *state)
{
    struct combination c;
    for (int column = 0; column < COLUMN_COUNT; column++)
        c.row[column] = (int)draw(state, (uint64_t)row_count((enum column)column));
    return c;
}

/* Few ranks that can compute. */
static void draw_plan(struct trial *t, uint64_t *state)
{
    for (;;) {
        struct error error = { 0 };
        t->plan_rows = small_combination(state);
        if (t->plan_rows.row[COLUMN_MODEL] == COMBINATION_OPAQUE ||
            t->plan_rows.row[COLUMN_MODEL] == COMBINATION_PLANNED ||
            combination_verdict(&t->graphs, &t->plan_rows, &error) != PLAN_LEGAL)
            continue;
        t->plan = combination_plan(&t->graphs, &t->plan_rows);
        if (t->plan->rank_count <= TRIAL_RANKS)
            return;
        plan_free(t->plan);
    }
}

/* Others wait for what it brings. A RECEIVE that is left out is not a lost message. */
static bool brings_something(const struct program *program, int stage, const struct instr *instr)
{
    return instr->op == OP_SEND || (instr->op == OP_NORM_REDUCE && program->plan->rank_count > 1) ||
           (op_info[instr->op].collective && instr->op != OP_NORM_REDUCE &&
            geometry_group_size(program->plan, stage, instr->atoms) > 1);
}

/* An instruction of every step; where a message is to be lost, of the next one that brings something. */
static void draw_place(struct trial *t, uint64_t *state)
{
    t->rank = (int)draw(state, (uint64_t)t->plan->rank_count);
    t->step = (int64_t)draw(state, STEPS);
    int stage = plan_stage_of_rank(t->plan, t->rank);
    const struct stage_program *list = &t->program->stages[stage];
    int first = program_opening_count(list), count = list->instr_count - first;
    t->instr = first + (int)draw(state, (uint64_t)count);
    for (int i = 0; t->deed == DEED_LOSE && i < count; i++) {
        int instr = first + (t->instr - first + i) % count;
        if (brings_something(t->program, stage, &list->instrs[instr])) {
            t->instr = instr;
            return;
        }
    }
    if (t->deed == DEED_LOSE)
        t->deed = DEED_END;
}

static void trial_open(struct trial *t, uint64_t seed)
{
    uint64_t state = seed * 1000003;
    struct error error = { 0 };
    memset(t, 0, sizeof *t);
    combination_graphs_open(&t->graphs);
    draw_plan(t, &state);
    t->program = tiny_lower(t->graphs.of[t->plan_rows.row[COLUMN_MODEL]], t->plan, &error);
    if (!t->program)
        abort();
    uint64_t deed = draw(&state, 5);
    t->deed = deed < 3 ? DEED_END : deed == 3 ? DEED_HANG : DEED_LOSE;
    draw_place(t, &state);
}

static void trial_close(struct trial *t)
{
    program_free(t->program);
    plan_free(t->plan);
    combination_graphs_close(&t->graphs);
}

/* ---- in a process that has ranks ---- */
/* A file that says to all processes of a trial that its deed is done. */
static void done_path(const struct trial *t, char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "%s/done", t->folder);
}

static void *beat(void *argument)
{
    struct trial *t = argument;
    char path[PATH_BYTES];
    done_path(t, path);
    for (const struct timespec nap = { 0, BEAT_NS }; access(path, F_OK) != 0; nanosleep(&nap, NULL))
        status_beat(t->status, t->beating);
    return NULL;
}

static void mark_done(const struct trial *t)
{
    char path[PATH_BYTES];
    done_path(t, path);
    int file = open(path, O_CREAT | O_WRONLY, 0600);
    if (file >= 0)
        close(file);
}

static enum instr_fate on_instr(void *context, int64_t step, int rank, int instr, struct error *err)
{
    const struct trial *t = context;
    if (rank != t->rank || step != t->step || instr != t->instr)
        return INSTR_RUNS;
    mark_done(t);
    if (t->deed == DEED_LOSE)
        return INSTR_LOST;
    if (t->deed == DEED_END && t->threads) {
        fail_kind(err, ERROR_ENVIRONMENT, "the device broke");
        return INSTR_FAILS;
    }
    if (t->deed == DEED_END)
        raise(SIGKILL);
    for (;;)
        pause();
}

static void on_stuck(void *context, const struct error *error)
{
    (void)context;
    fprintf(stderr, "error: %s\n", error->message);
    _exit(error->kind);
}

static bool run_ranks(struct trial *t, const char *transport, const char *modules, const struct meeting *meeting,
                      const char *resume, struct error *err)
{
    char checkpoint[PATH_BYTES];
    struct run_options options = run_options_default();
    const struct transport_options how = { .module_dir = modules, .meeting = meeting };
    snprintf(checkpoint, sizeof checkpoint, "%s/checkpoint", t->folder);
    options.step_count = resume ? STEPS + 1 : STEPS;
    options.timeout_s = resume ? LONG_S : PATIENCE_S;
    options.resume_dir = resume;
    if (!resume) {
        options.status = t->status, options.context = t;
        options.on_instr = on_instr, options.on_stuck = on_stuck;
        options.checkpoint_dir = checkpoint, options.checkpoint_every = 1;
    }
    return run_started(t->program, t->plan->rank_count, transport, &how, options, err);
}

/* test_faults rank TRANSPORT SEED FOLDER MODULES; for threads all ranks. */
static int rank_main(struct trial *t, char **argv)
{
    struct error error = { 0 };
    struct launch launch = { .rank = 0 };
    struct meeting meeting;
    pthread_t beater;
    bool tcp = strcmp(argv[2], "tcp") == 0;
    t->threads = strcmp(argv[2], "threads") == 0;
    bool ok = (t->threads || launch_detect(&launch, environment, &error)) &&
              (!tcp || launch_meeting(&meeting, &launch, LONG_S, environment, &error)) &&
              status_open(&t->status, getenv(LAUNCH_STATUS_VARIABLE), t->plan->rank_count, &error);
    t->beating = launch.rank;
    ok = ok && pthread_create(&beater, NULL, beat, t) == 0 &&
         run_ranks(t, argv[2], argv[5], tcp ? &meeting : NULL, NULL, &error);
    if (ok)
        return EXIT_SUCCESS;
    fprintf(stderr, "error: %s\n", error.message);
    _exit(error.kind); /* a stuck lane cannot be joined */
}

/* test_faults trial TRANSPORT SEED FOLDER MODULES */
static int trial_main(struct trial *t, char **argv)
{
    char rank[] = "rank";
    enum transport_start start;
    struct error error = { 0 };
    argv[1] = rank;
    if (!transport_start(argv[2], &start, &error) || start == START_THREADS)
        return rank_main(t, argv);
    struct launch_local local = { .arguments = (const char *const *)argv,
                                  .rank_count = t->plan->rank_count,
                                  .start = start,
                                  .program = t->program,
                                  .timeout_s = LONG_S };
    if (launch_run(&local, &error))
        return EXIT_SUCCESS;
    fprintf(stderr, "error: %s\n", error.message);
    trial_close(t);
    return error.kind;
}

/* ---- the trials ---- */
struct started {
    pid_t process;
    uint64_t seed;
    char folder[64];
    int result; /* of waitpid() */
};

static void start_trial(struct started *s, const char *transport, uint64_t seed)
{
    char number[24], output[PATH_BYTES];
    s->seed = seed;
    snprintf(s->folder, sizeof s->folder, "/tmp/cleave-fault-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(s->folder));
    snprintf(number, sizeof number, "%llu", (unsigned long long)seed);
    snprintf(output, sizeof output, "%s/output", s->folder);
    s->process = fork();
    ck_assert_int_ge(s->process, 0);
    if (s->process > 0)
        return;
    int file = open(output, O_CREAT | O_WRONLY | O_APPEND, 0600);
    dup2(file, STDOUT_FILENO), dup2(file, STDERR_FILENO);
    close(file);
    setenv("TMPDIR", s->folder, 1);
    execl(self, self, "trial", transport, number, s->folder, module_dir, (char *)NULL);
    _exit(127);
}

static char *read_output(const struct started *s)
{
    char path[PATH_BYTES];
    char *text = calloc(1, 1 << 20);
    snprintf(path, sizeof path, "%s/output", s->folder);
    FILE *file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert(fread(text, 1, (1 << 20) - 1, file) > 0 || s->result == 0);
    fclose(file);
    return text;
}

/* Whether the text has the rank with the step that the deed was in, and an instruction. Its other lanes may have begun
 * later ones. */
static bool names_place(const char *text, const struct trial *t)
{
    char rank[48], place[48];
    snprintf(rank, sizeof rank, "rank %d (stage %d", t->rank, plan_stage_of_rank(t->plan, t->rank));
    snprintf(place, sizeof place, "): step %lld, instruction ", (long long)t->step + 1);
    for (const char *at = text; (at = strstr(at, rank)); at++) {
        const char *end = strchr(at, ')');
        if (end && strncmp(end, place, strlen(place)) == 0)
            return true;
    }
    return false;
}

/* Where a rank failed: in no other instruction. */
static bool names_failure(const char *text, const struct trial *t)
{
    const struct instr *instr = &t->program->stages[plan_stage_of_rank(t->plan, t->rank)].instrs[t->instr];
    char where[128];
    snprintf(where, sizeof where, "error: rank %d: step %lld, instruction %d %s: the device broke", t->rank,
             (long long)t->step + 1, t->instr, op_info[instr->op].name);
    return strstr(text, where) != NULL;
}

/* Where any rank waited. */
static bool names_waiting(const char *text)
{
    const char *instruction = strstr(text, ", instruction ");
    return instruction && strstr(text, "rank ") && strstr(text, "rank ") < instruction && strstr(text, ": step ");
}

static const char *expected_cause(const struct trial *t, bool threads, char cause[64])
{
    if (t->deed == DEED_HANG)
        snprintf(cause, 64, "no rank made progress for %g s (--timeout): ", PATIENCE_S);
    else if (t->deed == DEED_END && !threads)
        snprintf(cause, 64, "last seen: ");
    else
        snprintf(cause, 64, "error: ");
    return cause;
}

/* A whole checkpoint, or none: it can be resumed. Whether there was one. */
static bool check_checkpoint(struct trial *t, const char *name, const struct started *s)
{
    char folder[PATH_BYTES];
    struct error error = { 0 };
    snprintf(folder, sizeof folder, "%s/checkpoint", s->folder);
    t->folder = s->folder;
    if (checkpoint_is_empty(folder))
        return false;
    ck_assert_msg(run_ranks(t, "threads", NULL, NULL, folder, &error), "%s: %s", name, error.message);
    return true;
}

/* Of a trial's folder all is known: what it said, that it was done, its checkpoint. Removes it. */
static void check_folder(const char *name, const struct started *s)
{
    char command[128];
    DIR *folder = opendir(s->folder);
    ck_assert_ptr_nonnull(folder);
    for (const struct dirent *entry; (entry = readdir(folder));)
        ck_assert_msg(entry->d_name[0] == '.' || strcmp(entry->d_name, "output") == 0 ||
                          strcmp(entry->d_name, "done") == 0 || strcmp(entry->d_name, "checkpoint") == 0 ||
                          strncmp(entry->d_name, "ompi.", 5) == 0 || /* MPI's own, which it may not outlive */
                          strncmp(entry->d_name, "pmix", 4) == 0,
                      "%s: %s/%s is left behind", name, s->folder, entry->d_name);
    closedir(folder);
    snprintf(command, sizeof command, "rm -rf '%s'", s->folder);
    ck_assert_int_eq(system(command), 0);
}

/* Any process that was started for the trial: its folder is in its arguments. */
static pid_t process_of(const char *folder)
{
    DIR *processes = opendir("/proc");
    pid_t found = 0;
    for (const struct dirent *entry; !found && (entry = readdir(processes));) {
        char path[PATH_BYTES], words[PATH_BYTES];
        snprintf(path, sizeof path, "/proc/%s/cmdline", entry->d_name);
        FILE *file = entry->d_name[0] >= '0' && entry->d_name[0] <= '9' ? fopen(path, "r") : NULL;
        size_t length = file ? fread(words, 1, sizeof words, file) : 0;
        if (memmem(words, length, folder, strlen(folder)))
            found = atoi(entry->d_name);
        if (file)
            fclose(file);
    }
    closedir(processes);
    return found;
}

/* Whether there was a checkpoint. */
static bool check_trial(const struct started *s, const char *transport)
{
    static const char *const deeds[] = { "ends", "hangs", "loses a message" };
    struct trial t;
    char name[256], cause[64];
    trial_open(&t, s->seed);
    bool threads = strcmp(transport, "threads") == 0;
    char *text = read_output(s);
    snprintf(name, sizeof name, "%s, seed %llu: rank %d of %d %s in step %lld at instruction %d", transport,
             (unsigned long long)s->seed, t.rank, t.plan->rank_count, deeds[t.deed], (long long)t.step + 1, t.instr);
    ck_assert_msg(WIFEXITED(s->result) && WEXITSTATUS(s->result) == ERROR_ENVIRONMENT, "%s: result %x: %s", name,
                  s->result, text);
    ck_assert_msg(strstr(text, expected_cause(&t, threads, cause)) != NULL, "%s: expected %s: %s", name, cause, text);
    bool named = t.deed == DEED_LOSE             ? names_waiting(text)
                 : t.deed == DEED_END && threads ? names_failure(text, &t)
                                                 : names_place(text, &t);
    ck_assert_msg(named, "%s: %s", name, text);
    ck_assert_msg(process_of(s->folder) == 0, "%s: process %d is left behind", name, (int)process_of(s->folder));
    bool saved = check_checkpoint(&t, name, s);
    check_folder(name, s);
    free(text);
    trial_close(&t);
    return saved;
}

/* Waits for one of them and looks at it. Whether it left a checkpoint. */
static bool finish_one(struct started *all, int count, const char *transport)
{
    int result;
    pid_t ended = waitpid(-1, &result, 0);
    for (int i = 0; i < count; i++)
        if (all[i].process == ended) {
            all[i].result = result;
            return check_trial(&all[i], transport);
        }
    return false;
}

static const char *const transports[] = { "threads", "tcp", "mpi" };

START_TEST(faults_end_all_ranks_and_are_described)
{
    struct started all[TRIALS];
    const char *only = getenv("CLEAVE_FAULT_SEED");
    int count = 0, running = 0, saved = 0;
    for (int n = 0; n < TRIALS; n++) {
        uint64_t seed = (uint64_t)(n * 3 + _i);
        if (only ? seed != strtoull(only, NULL, 10) : !in_share((uint64_t)n))
            continue;
        if (running == SIDE_BY_SIDE) {
            saved += finish_one(all, count, transports[_i]);
            running--;
        }
        start_trial(&all[count++], transports[_i], seed);
        running++;
    }
    for (; running > 0; running--)
        saved += finish_one(all, count, transports[_i]);
    ck_assert(saved > 0 || only || share_stride() > 1);
}
END_TEST

static Suite *faults_suite(void)
{
    struct error error = { 0 };
    int usable = 3;
    if (!transport_available("mpi", module_dir, &error) || system("command -v mpirun >/dev/null") != 0) {
        fprintf(stderr, "skipped: %s\n", error.kind != ERROR_NONE ? error.message : "mpirun is not installed");
        usable = 2;
    }
    Suite *suite = suite_create("faults");
    CHECK_ADD_LOOP(suite, faults_end_all_ranks_and_are_described, usable);
    return suite;
}

int main(int argc, char **argv)
{
    find_self();
    if (argc == 6) {
        struct trial trial;
        trial_open(&trial, strtoull(argv[3], NULL, 10));
        trial.folder = argv[4];
        return strcmp(argv[1], "rank") == 0 ? rank_main(&trial, argv) : trial_main(&trial, argv);
    }
    SRunner *runner = srunner_create(faults_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
