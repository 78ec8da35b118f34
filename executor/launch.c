#define _GNU_SOURCE
#include "executor/launch.h"
#include "base/text.h"
#include "executor/status.h"
#include "host/clock.h"
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- who am I ---- */
static const struct launcher {
    const char *name, *rank, *count, *local;
} launchers[] = {
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK" },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK" },
    { "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID" },
    { "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID" },
};

static bool read_int(const char *name, const char *text, int *out, struct error *err)
{
    char *end;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || value < 0 || value > INT_MAX)
        return fail_kind(err, ERROR_INPUT, "the launcher's variable %s: expected a number, found %s", name,
                         text ? text : "none");
    *out = (int)value;
    return true;
}

bool launch_detect(struct launch *out, const char *(*environment)(const char *name), struct error *err)
{
    struct launch launch = { .rank_count = 1, .local_rank = -1 };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !launch.launcher; i++) {
        const struct launcher *l = &launchers[i];
        if (!environment(l->rank))
            continue;
        const char *local = environment(l->local);
        launch.launcher = l->name;
        if (!read_int(l->rank, environment(l->rank), &launch.rank, err) ||
            !read_int(l->count, environment(l->count), &launch.rank_count, err) ||
            (local && !read_int(l->local, local, &launch.local_rank, err)))
            return false;
        if (launch.rank >= launch.rank_count)
            return fail_kind(err, ERROR_INPUT, "the launcher's variable %s: expected a rank below %s=%d, found %d",
                             l->rank, l->count, launch.rank_count, launch.rank);
    }
    *out = launch;
    return true;
}

bool launch_check(const struct launch *launch, int plan_ranks, struct error *err)
{
    return !launch->launcher || launch->rank_count == plan_ranks ||
           fail_kind(err, ERROR_INPUT, "the plan is for %d ranks, %s started %d processes: start %d", plan_ranks,
                     launch->launcher, launch->rank_count, plan_ranks);
}

/* ---- mpirun ---- */
enum { LOOK_NS = 50000000, GRACE_LOOKS = 60, LAUNCH_SLACK_S = 2 };

/* In the child: settings that let Open MPI run many ranks on few cores, also as root; other launchers ignore them. */
static void run_child(const char **arguments, const char *page)
{
    static const char *const settings[][2] = {
        { "OMPI_ALLOW_RUN_AS_ROOT", "1" },
        { "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1" },
        { "OMPI_MCA_rmaps_base_oversubscribe", "1" },
        { "OMPI_MCA_hwloc_base_binding_policy", "none" },
        { "OMPI_MCA_mpi_yield_when_idle", "1" },
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        setenv(settings[i][0], settings[i][1], 0);
    setenv(LAUNCH_STATUS_VARIABLE, page, 1);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a launcher that is killed outright takes its ranks along */
    execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(errno == ENOENT ? 127 : 126);
}

static const char **child_arguments(const struct launch_local *launch, char count[16])
{
    size_t own = 0, n = 0;
    while (launch->arguments[own])
        own++;
    const char **out = calloc(own + 4, sizeof *out);
    if (!out)
        return NULL;
    snprintf(count, 16, "%d", launch->program->plan->rank_count);
    out[n++] = "mpirun";
    out[n++] = "-n";
    out[n++] = count;
    memcpy(out + n, launch->arguments, own * sizeof *out);
    return out;
}

static void end_all(pid_t child)
{
    kill(-child, SIGTERM);
    for (int i = 0; i < GRACE_LOOKS && kill(-child, 0) == 0; i++) {
        int result;
        if (waitpid(child, &result, WNOHANG) == child)
            break;
        clock_sleep_until_ns(clock_now_ns() + LOOK_NS);
    }
    kill(-child, SIGKILL); /* whoever is left of the group */
}

/* Ctrl-C and a request to end reach the launcher alone: it passes them on. They are blocked while it waits. */
static sigset_t end_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    return set;
}

/* Why the launcher ended the ranks. */
struct verdict {
    int dead;   /* the first rank that was seen to be gone, or -1 */
    bool stuck; /* nobody moved */
    int signal; /* that asked the launcher to end, or 0 */
};

/* Waits for mpirun and watches the page meanwhile. The processes have their own watchdogs, which speak first: this one
 * is later by a slack. */
static int watch_child(const struct launch_local *launch, const struct status *status, pid_t child,
                       struct verdict *verdict)
{
    const struct timespec look = { 0, LOOK_NS };
    sigset_t ends = end_signals();
    uint64_t progress = 0;
    int64_t since_ns = clock_now_ns();
    int result = 0;
    *verdict = (struct verdict){ .dead = -1 };
    for (;;) {
        pid_t ended = waitpid(child, &result, WNOHANG);
        if (ended == child || (ended < 0 && errno != EINTR))
            return result;
        if (verdict->dead < 0)
            verdict->dead = status_dead_rank(status);
        uint64_t now = status_progress(status);
        if (now != progress)
            progress = now, since_ns = clock_now_ns();
        int signal = sigtimedwait(&ends, NULL, &look);
        verdict->signal = signal > 0 ? signal : 0;
        verdict->stuck = launch->timeout_s > 0 &&
                         (double)(clock_now_ns() - since_ns) > (launch->timeout_s + LAUNCH_SLACK_S) * 1e9;
        if (verdict->signal || verdict->stuck) {
            end_all(child);
            waitpid(child, &result, 0);
            return -1;
        }
    }
}

static bool explain(const struct launch_local *launch, const struct status *status, int result,
                    const struct verdict *verdict, struct error *err)
{
    if (WIFEXITED(result) && WEXITSTATUS(result) == 127)
        return fail_kind(err, ERROR_ENVIRONMENT, "mpirun is not installed: install an MPI, or use --transport threads");
    struct text text = { 0 };
    status_describe(status, launch->program, &text);
    const char *where = text.data ? text.data : "all ranks had finished or none had begun";
    if (verdict->signal)
        fail_kind(err, ERROR_ENVIRONMENT, "ended by signal %d; last seen: %s", verdict->signal, where);
    else if (verdict->stuck)
        fail_kind(err, ERROR_ENVIRONMENT, "no rank made progress for %g s (--timeout): %s", launch->timeout_s, where);
    else if (verdict->dead >= 0)
        fail_kind(err, ERROR_ENVIRONMENT, "rank %d died; last seen: %s", verdict->dead, where);
    else if (WIFSIGNALED(result))
        fail_kind(err, ERROR_ENVIRONMENT, "mpirun was ended by signal %d; last seen: %s", WTERMSIG(result), where);
    else
        fail_kind(err, ERROR_ENVIRONMENT, "the run failed with code %d; last seen: %s", WEXITSTATUS(result), where);
    text_free(&text);
    return false;
}

bool launch_run(const struct launch_local *launch, struct error *err)
{
    char page[PATH_MAX], count[16];
    struct status *status = NULL;
    if (snprintf(page, sizeof page, "%s/cleave-status-XXXXXX", launch->page_dir ? launch->page_dir : "/dev/shm") >=
        (int)sizeof page)
        return fail_kind(err, ERROR_INPUT, "the status page's path is too long");
    int file = mkstemp(page);
    if (file < 0)
        return fail_kind(err, ERROR_ENVIRONMENT, "cannot create the status page %s: %s", page, strerror(errno));
    close(file);
    const char **arguments = child_arguments(launch, count);
    bool ok = (arguments || fail_kind(err, ERROR_ENVIRONMENT, "out of memory")) &&
              status_open(&status, page, launch->program->plan->rank_count, err);
    if (ok) {
        sigset_t ends = end_signals(), before;
        sigprocmask(SIG_BLOCK, &ends, &before);
        pid_t child = fork();
        if (child == 0) {
            sigprocmask(SIG_SETMASK, &before, NULL);
            run_child(arguments, page);
        }
        int result = 0;
        struct verdict verdict = { .dead = -1 };
        if (child < 0)
            ok = fail_kind(err, ERROR_ENVIRONMENT, "cannot start mpirun: %s", strerror(errno));
        else
            result = watch_child(launch, status, child, &verdict);
        sigprocmask(SIG_SETMASK, &before, NULL);
        if (ok && (verdict.stuck || verdict.signal || !WIFEXITED(result) || WEXITSTATUS(result) != 0))
            ok = explain(launch, status, result, &verdict, err);
    }
    status_close(status);
    free(arguments);
    unlink(page);
    return ok;
}
