/* Starting all ranks on this host: by mpirun, or one process each, which then meet at a socket that this process has
 * opened for rank 0. They form one process group, so that nobody is left behind. */
#define _GNU_SOURCE
#include "base/text.h"
#include "executor/launch.h"
#include "executor/status.h"
#include "host/clock.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    LOOK_NS = 50000000,
    FEW_LOOKS = 10,
    GRACE_LOOKS = 60,
    LAUNCH_SLACK_S = 2,
    GRACE_SLACK_S = 1,
    FAREWELL_S = 5,
    NUMBER_BYTES = 16
};
#define MEETING_HOST "127.0.0.1"

/* By which a rank knows its launcher's number. */
#define LAUNCHER_VARIABLE "CLEAVE_LAUNCHER"

/* All that is started and how it went. */
struct team {
    const struct launch_local *launch;
    struct status *status; /* NULL: none */
    const char *page;
    pid_t *children; /* 0: has ended */
    int child_count, alive;
    pid_t group, launcher;
    int result; /* of waitpid(), of the first child that did not end well; else 0 */
    /* of a meeting */
    int listener, port;
    char token[TOKEN_BYTES];
};

/* ---- in a child ---- */
static void set_number(const char *name, int value)
{
    char text[NUMBER_BYTES];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

/* Settings that let Open MPI run many ranks on few cores, also as root; other launchers ignore them. */
static void prepare_mpirun(void)
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
}

static void prepare_rank(const struct team *team, int rank)
{
    set_number("RANK", rank);
    set_number("LOCAL_RANK", rank);
    set_number("WORLD_SIZE", team->child_count);
    set_number("LOCAL_WORLD_SIZE", team->child_count);
    setenv("MASTER_ADDR", MEETING_HOST, 1);
    set_number("CLEAVE_MASTER_PORT", team->port);
    set_number(LAUNCHER_VARIABLE, (int)team->launcher);
    setenv("CLEAVE_JOB_TOKEN", team->token, 1);
    if (rank == 0) {
        set_number("CLEAVE_LISTENER", team->listener);
        fcntl(team->listener, F_SETFD, 0);
    }
}

static void run_child(const struct team *team, int index, const char *const *arguments)
{
    setpgid(0, team->group);
    /* A launcher that is killed outright takes its ranks along. A rank that is stopped hears only what continues it. */
    prctl(PR_SET_PDEATHSIG, team->launch->start == START_LIBRARY ? SIGTERM : SIGCONT);
    if (team->page)
        setenv(LAUNCH_STATUS_VARIABLE, team->page, 1);
    if (team->launch->start == START_LIBRARY)
        prepare_mpirun();
    else
        prepare_rank(team, index);
    execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    _exit(errno == ENOENT ? 127 : 126);
}

static volatile pid_t followed; /* the launcher, for a signal handler */

static void look_after_launcher(int number)
{
    (void)number;
    if (getppid() != followed)
        raise(SIGTERM);
}

void launch_follow(launch_environment *environment)
{
    const struct sigaction action = { .sa_handler = look_after_launcher, .sa_flags = (int)SA_RESTART };
    const char *launcher = environment(LAUNCHER_VARIABLE);
    if (!launcher)
        return;
    followed = (pid_t)atoi(launcher);
    sigaction(SIGCONT, &action, NULL);
    look_after_launcher(SIGCONT); /* it may have ended before this process could hear of it */
}

/* ---- starting ---- */
/* `mpirun -n RANKS` before the arguments, or nothing. */
static const char **child_arguments(const struct launch_local *launch, char count[NUMBER_BYTES])
{
    size_t own = 0, n = 0;
    while (launch->arguments[own])
        own++;
    const char **out = calloc(own + 4, sizeof *out);
    if (!out)
        return NULL;
    snprintf(count, NUMBER_BYTES, "%d", launch->rank_count);
    if (launch->start == START_LIBRARY) {
        out[n++] = "mpirun";
        out[n++] = "-n";
        out[n++] = count;
    }
    memcpy(out + n, launch->arguments, own * sizeof *out);
    return out;
}

static bool prepare_meeting(struct team *team, struct error *err)
{
    char host[SOCKET_HOST_BYTES];
    if (!token_make(team->token, err))
        return false;
    team->listener = socket_listen(MEETING_HOST, 0, err);
    return team->listener >= 0 &&
           (socket_own_address(team->listener, host, &team->port) ||
            fail_kind(err, ERROR_ENVIRONMENT, "the system does not tell the port where the ranks meet"));
}

static void stop_listening(struct team *team)
{
    if (team->listener >= 0)
        close(team->listener);
    team->listener = -1;
}

/* looks: how often it is seen whether they have ended, before they are made to. */
static void end_all(struct team *team, int looks)
{
    int result;
    kill(-team->group, SIGTERM);
    for (int i = 0; i < looks && team->alive > 0; i++) {
        for (pid_t ended; (ended = waitpid(-team->group, &result, WNOHANG)) > 0;)
            team->alive--;
        if (team->alive > 0)
            clock_sleep_until_ns(clock_now_ns() + LOOK_NS);
    }
    kill(-team->group, SIGKILL); /* whoever is left of the group */
    while (team->alive > 0 && (waitpid(-team->group, &result, 0) > 0 || errno == EINTR))
        team->alive--;
}

/* Ctrl-C and a request to end reach the launcher alone: it passes them on. They are blocked while it waits; what nohup
 * and shells have it ignore would come nevertheless where it is blocked, and is left out. */
static sigset_t end_signals(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGUSR1 };
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        struct sigaction now;
        if (sigaction(signals[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&set, signals[i]);
    }
    return set;
}

/* A child is no longer deaf to what ends it, but for a request that comes before it can save: it lets those through
 * when it can. */
static void hear_in_child(const struct team *team)
{
    sigset_t set = end_signals();
    if (team->launch->grace_s > 0 && team->launch->start == START_MEETING) {
        sigdelset(&set, SIGTERM);
        sigdelset(&set, SIGUSR1);
        sigdelset(&set, SIGHUP);
    }
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static bool start_all(struct team *team, struct error *err)
{
    char count[NUMBER_BYTES];
    const char **arguments = child_arguments(team->launch, count);
    if (!arguments)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    bool ok = true;
    for (int i = 0; ok && i < team->child_count; i++) {
        pid_t child = fork();
        if (child == 0) {
            hear_in_child(team);
            run_child(team, i, arguments);
        }
        if (child < 0) {
            ok = fail_kind(err, ERROR_ENVIRONMENT, "cannot start %s: %s", arguments[0], strerror(errno));
            break;
        }
        if (i == 0)
            team->group = child;
        setpgid(child, team->group); /* here too: whoever comes first */
        team->children[i] = child;
        team->alive++;
    }
    if (!ok && team->alive > 0)
        end_all(team, GRACE_LOOKS);
    free(arguments);
    return ok;
}

/* ---- watching ---- */
/* Why the launcher ended the ranks. */
struct ending {
    int dead;               /* the first rank that was seen to be gone, or -1 */
    bool stuck;             /* nobody moved */
    int signal;             /* that asked the launcher to end, or 0 */
    struct text who, where; /* the dead ranks, and what each rank did last, as they were when the trouble was seen */
};

static void collect_ended(struct team *team, struct ending *verdict)
{
    for (int i = 0; i < team->child_count; i++) {
        int result;
        pid_t ended = team->children[i] ? waitpid(team->children[i], &result, WNOHANG) : 0;
        if (ended == 0 || (ended < 0 && errno == EINTR))
            continue;
        team->children[i] = 0;
        team->alive--;
        bool well = ended > 0 && WIFEXITED(result) && WEXITSTATUS(result) == 0;
        if (!well && !team->result)
            team->result = ended > 0 ? result : -1;
        if (ended > 0 && WIFSIGNALED(result) && verdict->dead < 0 && team->launch->start == START_MEETING)
            verdict->dead = i;
    }
}

static bool passed(int64_t since_ns, double seconds)
{
    return (double)(clock_now_ns() - since_ns) > seconds * 1e9;
}

/* How the ranks are now; once they are ended it cannot be seen any more. */
static void describe(const struct team *team, struct ending *verdict)
{
    if (team->status && !verdict->where.data) {
        if (!verdict->signal)
            status_accuse(team->status, verdict->dead);
        status_describe(team->status, team->launch->program, &verdict->where);
    }
    if (verdict->dead < 0 || verdict->who.data)
        return;
    if (team->status)
        status_describe_dead(team->status, &verdict->who);
    if (!verdict->who.data) /* it had not begun */
        text_printf(&verdict->who, "rank %d died", verdict->dead);
}

/* To the ranks themselves: mpirun would take it as a wish to end them at once. */
static void pass_on(const struct team *team, int signal)
{
    if (team->status && team->launch->start == START_LIBRARY)
        status_signal(team->status, signal);
    else
        kill(-team->group, signal);
}

/* The processes have their own watchdogs, which speak first: this one is later by a slack. Once one has failed, the
 * others have a moment to say so too, and to end: without it a late one would wait for it as long as for a slow one. */
static void watch_all(struct team *team, struct ending *verdict)
{
    const struct timespec look = { 0, LOOK_NS };
    const double timeout_s = team->launch->timeout_s;
    sigset_t ends = end_signals();
    uint64_t progress = 0;
    int64_t since_ns = clock_now_ns(), well_ns = since_ns, asked_ns = 0;
    *verdict = (struct ending){ .dead = -1 };
    for (;;) {
        collect_ended(team, verdict);
        if (verdict->dead < 0 && team->status)
            verdict->dead = status_dead_rank(team->status);
        if (verdict->dead >= 0 || (team->alive == 0 && team->result) ||
            (team->status && status_has_accused(team->status)))
            describe(team, verdict);
        if (team->alive == 0) {
            if (!team->result) /* asked to end, the ranks had done their last step, and all else since */
                verdict->signal = 0;
            return;
        }
        uint64_t now = team->status ? status_progress(team->status) : 0;
        if (now != progress || !team->status) /* without a page only a failure is a sign */
            progress = now, since_ns = clock_now_ns();
        if (!team->result)
            well_ns = clock_now_ns();
        int64_t looked_ns = clock_now_ns();
        int signal = sigtimedwait(&ends, NULL, &look);
        if (passed(looked_ns, 1e-9 * ASLEEP_NS))
            since_ns = well_ns = clock_now_ns();
        if (signal > 0 && asked_ns > 0 && !passed(asked_ns, 1e-9 * ONE_REQUEST_NS) && signal != SIGINT)
            continue;
        bool again = signal > 0 && verdict->signal != 0;
        verdict->signal = signal > 0 ? signal : verdict->signal;
        if (signal > 0 && !again && signal != SIGINT && team->launch->grace_s > 0) {
            asked_ns = clock_now_ns();
            /* whoever signals all processes of a job has signalled the ranks, too: a second one of a kind ends them */
            pass_on(team, signal == SIGUSR1 ? SIGTERM : SIGUSR1);
            continue;
        }
        bool late =
            verdict->signal && (again || asked_ns == 0 || passed(asked_ns, team->launch->grace_s + GRACE_SLACK_S));
        verdict->stuck = timeout_s > 0 && passed(since_ns, timeout_s + LAUNCH_SLACK_S);
        if (late || verdict->stuck || passed(well_ns, FAREWELL_S)) {
            /* ranks that had their time to end by themselves, and have not, hear nothing; mpirun has ranks to end */
            bool deaf = late && asked_ns > 0 && !again && team->launch->start == START_MEETING;
            describe(team, verdict);
            end_all(team, deaf ? FEW_LOOKS : GRACE_LOOKS);
            return;
        }
    }
}

static bool explain(const struct team *team, const struct ending *verdict, struct error *err)
{
    const struct launch_local *launch = team->launch;
    int result = team->result;
    if (WIFEXITED(result) && WEXITSTATUS(result) == 127 && launch->start == START_LIBRARY)
        return fail_kind(err, ERROR_ENVIRONMENT, "mpirun is not installed: install an MPI, or use --transport tcp");
    const char *where = verdict->where.data ? verdict->where.data : "all ranks had finished or none had begun";
    if (WIFEXITED(result) && WEXITSTATUS(result) == LAUNCH_CODE_REQUEUE)
        fail_kind(err, ERROR_ENVIRONMENT, "the run has saved and ended because it was asked to");
    else if (verdict->signal)
        fail_kind(err, ERROR_ENVIRONMENT, "ended by signal %d; last seen: %s", verdict->signal, where);
    else if (verdict->dead >= 0)
        fail_kind(err, ERROR_ENVIRONMENT, "%s; last seen: %s", verdict->who.data, where);
    else if (verdict->stuck)
        fail_kind(err, ERROR_ENVIRONMENT, "no rank made progress for %g s (--timeout): %s", launch->timeout_s, where);
    else if (WIFSIGNALED(result))
        fail_kind(err, ERROR_ENVIRONMENT, "mpirun was ended by signal %d; last seen: %s", WTERMSIG(result), where);
    else
        fail_kind(err, WEXITSTATUS(result) == ERROR_INPUT ? ERROR_INPUT : ERROR_ENVIRONMENT,
                  "the run failed with code %d; last seen: %s", WEXITSTATUS(result), where);
    return false;
}

/* ---- all of it ---- */
static bool run_team(struct team *team, struct error *err)
{
    sigset_t ends = end_signals(), before;
    struct ending verdict = { .dead = -1 };
    sigprocmask(SIG_BLOCK, &ends, &before);
    bool ok = start_all(team, err);
    stop_listening(team); /* rank 0 alone listens: where it is gone nobody is met */
    if (ok)
        watch_all(team, &verdict);
    sigprocmask(SIG_SETMASK, &before, NULL);
    if (team->launch->end)
        *team->launch->end = (struct launch_end){ .code = WIFEXITED(team->result) ? WEXITSTATUS(team->result) : 0,
                                                  .signal = verdict.signal,
                                                  .dead = verdict.dead };
    if (ok && (verdict.stuck || verdict.signal || team->result != 0))
        ok = explain(team, &verdict, err);
    text_free(&verdict.who);
    text_free(&verdict.where);
    return ok;
}

bool launch_run(const struct launch_local *launch, struct error *err)
{
    char page[STATUS_PATH_BYTES];
    struct team team = { .launch = launch,
                         .child_count = launch->start == START_LIBRARY ? 1 : launch->rank_count,
                         .launcher = getpid(),
                         .listener = -1 };
    team.children = calloc((size_t)team.child_count, sizeof *team.children);
    bool ok = team.children || fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d ranks", launch->rank_count);
    ok = ok && (!launch->program || status_share(&team.status, page, launch->rank_count, err));
    team.page = team.status ? page : NULL;
    ok = ok && (launch->start == START_LIBRARY || prepare_meeting(&team, err)) && run_team(&team, err);
    status_close(team.status);
    stop_listening(&team);
    free(team.children);
    return ok;
}
