#define _GNU_SOURCE
#include "cli/saving.h"
#include "cli/amounts.h"
#include "executor/checkpoint/folder.h"
#include "executor/launch.h"
#include "host/clock.h"
#include "host/file.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int asked_to_end; /* a signal handler has no other way to say so */
static _Atomic int64_t asked_ns;

/* Nobody reads what the run says: it need not go on, and what it has come to is kept. */
static void on_unread(int number)
{
    int64_t first_ns = 0;
    (void)number;
    atomic_compare_exchange_strong(&asked_ns, &first_ns, clock_now_ns());
    atomic_store(&asked_to_end, 1);
}

/* One request may come as several signals: `timeout` sends its own to the process and to its group. A later one ends
 * the program. */
static void on_end(int number)
{
    int64_t first_ns = 0, now_ns = clock_now_ns();
    if (atomic_compare_exchange_strong(&asked_ns, &first_ns, now_ns)) {
        atomic_store(&asked_to_end, 1);
    } else if (now_ns - first_ns > ONE_REQUEST_NS) {
        signal(number, SIG_DFL);
        raise(number);
    }
}

static sigset_t caught_signals(void)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGUSR1);
    sigaddset(&set, SIGHUP);
    return set;
}

/* What nohup and shells have a process ignore it goes on to ignore. */
static void catch_signal(int number, void (*handler)(int number))
{
    const struct sigaction action = { .sa_handler = handler, .sa_flags = (int)SA_RESTART };
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void saving_catch_signals(void)
{
    catch_signal(SIGTERM, on_end);
    catch_signal(SIGUSR1, on_end);
    catch_signal(SIGHUP, on_end);
    catch_signal(SIGPIPE, on_unread);
    const sigset_t caught = caught_signals();
    sigprocmask(SIG_UNBLOCK, &caught, NULL); /* the launcher has started this rank with them blocked */
}

/* ---- what the options say ---- */
/* "40": steps; "90s", "10m", "2h": a time. */
static bool read_every(const char *text, int64_t *steps, double *seconds, struct error *err)
{
    const size_t length = strlen(text);
    struct error none = { 0 };
    double number;
    *steps = 0, *seconds = 0;
    if (length > 0 && isalpha((unsigned char)text[length - 1]) && amount_duration_s(&number, "--every", text, &none) &&
        number < 1e9) {
        *seconds = number;
        return true;
    }
    if (!text_read_double(text, length, &number) || number < 0 || number > 1e15 || number != floor(number))
        return fail(err, "--every: expected steps, or a time as 90s, 10m or 2h, found \"%s\"", text);
    *steps = (int64_t)number;
    return true;
}

/* So that a job that is queued again can be the same command from its first time on. */
bool saving_begins(const struct saving_arguments *s)
{
    return !s->resume ||
           (s->checkpoint && file_same_place(s->resume, s->checkpoint) && checkpoint_is_empty(s->checkpoint));
}

bool saving_graces(const struct saving_arguments *s)
{
    return s->checkpoint && s->grace_s != 0;
}

static double grace_s(const struct saving_arguments *s)
{
    return !saving_graces(s) ? 0 : s->grace_s < 0 ? GRACE_S : s->grace_s;
}

bool saving_set(struct run_options *o, const struct saving_arguments *s, struct error *err)
{
    o->checkpoint_dir = s->checkpoint;
    o->checkpoint_keep = s->keep;
    o->checkpoint_overwrite = s->overwrite;
    o->resume_dir = s->resume;
    o->resume_begins = s->resume && saving_begins(s);
    o->grace_s = grace_s(s);
    o->asked_to_end = saving_graces(s) ? &asked_to_end : NULL;
    return !s->every || read_every(s->every, &o->checkpoint_every, &o->checkpoint_every_s, err);
}

bool saving_check(const struct saving_arguments *s, const struct run_options *options, const struct program *program,
                  bool owns, bool *made, struct error *err)
{
    struct checkpoint_folder *folder = NULL;
    const char *without = s->every                       ? "--every"
                          : s->overwrite                 ? "--overwrite"
                          : s->restarts > 0              ? "--restarts"
                          : s->keep > 0                  ? "--keep"
                          : s->grace_s != GRACE_NOT_SAID ? "--grace"
                                                         : NULL;
    if (s->resume && !s->resume[0])
        return fail(err, "--resume: expected a folder, found \"\"");
    if (!s->checkpoint)
        return !without || fail(err, "%s is about saving: give --checkpoint DIR, too", without);
    if (!file_check_folder(s->checkpoint, made, err))
        return false;
    bool ok = !owns || checkpoint_folder_open(&folder, program, options, err);
    checkpoint_folder_close(folder);
    return ok; /* a folder that another run has locked meanwhile is that run's, whoever made it */
}

/* ---- on fewer ranks ---- */
/* The device of "1x4:cpu"; NULL: it is not such a cluster. */
static const char *device_of_one_host(const char *cluster)
{
    size_t digits = cluster && strncmp(cluster, "1x", 2) == 0 ? strspn(cluster + 2, "0123456789") : 0;
    return digits > 0 && cluster[2 + digits] == ':' ? cluster + 2 + digits + 1 : NULL;
}

static bool check_shrink(const struct saving_arguments *s, const struct inputs *in, const struct source_options *source,
                         struct error *err)
{
    const struct plan_context *context = &in->plan_file->context;
    if (s->restarts == 0)
        return fail(err, "--shrink: what begins anew on fewer ranks are restarts: give --restarts N, too");
    if (source->cluster || !device_of_one_host(context->cluster.source))
        return fail(err, "--shrink: expected a plan for one host's devices of one type, \"1x4:DEVICE\", found %s",
                    source->cluster ? source->cluster : context->cluster.source);
    return !context->framework.source ||
           fail(err, "--shrink: expected a plan of cleave's own, found one for %s", context->framework.source);
}

/* Runs `cleave plan` for so many ranks; its talk goes nowhere. False: there is no plan, or no process. */
static bool make_plan(const struct cli *cli, const struct saved_job *job, const char *path, int ranks)
{
    const struct plan *plan = job->program->plan;
    const struct plan_context *context = &job->inputs->plan_file->context;
    char cluster[CHECKPOINT_NAME_BYTES], batch[TEXT_NUMBER_BYTES], sequence[TEXT_NUMBER_BYTES];
    snprintf(cluster, sizeof cluster, "1x%d:%s", ranks, device_of_one_host(context->cluster.source));
    snprintf(batch, sizeof batch, "%lld", (long long)plan->batch);
    snprintf(sequence, sizeof sequence, "%lld", (long long)plan->sequence);
    const char *words[16 + 2 * MAX_LIST] = { cli->program,
                                             "plan",
                                             job->source->model ? job->source->model : context->model.source,
                                             "--cluster",
                                             cluster,
                                             "--batch",
                                             batch,
                                             "--seq",
                                             sequence,
                                             "--dtype",
                                             dtype_names[plan->dtype],
                                             "-o",
                                             path };
    int count = 13, result;
    for (int i = 0; i < job->source->profiles.count; i++) {
        words[count++] = "--profile";
        words[count++] = job->source->profiles.item[i];
    }
    pid_t child = fork();
    if (child == 0) {
        int nowhere = open("/dev/null", O_WRONLY);
        dup2(nowhere, STDOUT_FILENO), dup2(nowhere, STDERR_FILENO);
        execv(cli->program, (char *const *)(uintptr_t)words);
        _exit(127);
    }
    while (child > 0 && waitpid(child, &result, 0) < 0)
        if (errno != EINTR)
            return false;
    return child > 0 && WIFEXITED(result) && WEXITSTATUS(result) == 0;
}

struct smaller {
    struct inputs inputs;
    struct program *program; /* NULL: the job has not shrunk */
    char path[CHECKPOINT_PATH_BYTES];
    char before[CHECKPOINT_NAME_BYTES]; /* the newest save when the job came; "": none */
};

static void free_smaller(struct smaller *smaller)
{
    program_free(smaller->program);
    inputs_free(&smaller->inputs);
    smaller->program = NULL;
}

/* The best plan for one rank less, or for as many as there is one for. */
static bool shrink(struct smaller *smaller, const struct cli *cli, const struct saving_arguments *s,
                   const struct saved_job *job, struct error *err)
{
    int ranks = (smaller->program ? smaller->program : job->program)->plan->rank_count - 1;
    free_smaller(smaller);
    smaller->inputs = (struct inputs){ .cli = cli };
    for (; ranks > 0; ranks--) {
        snprintf(smaller->path, sizeof smaller->path, "%s/plan-of-%d.json", s->checkpoint, ranks);
        if (make_plan(cli, job, smaller->path, ranks))
            return inputs_plan(&smaller->inputs, smaller->path, job->source->model, NULL, &job->source->profiles,
                               err) &&
                   inputs_program(&smaller->program, smaller->inputs.plan_file->plan, smaller->inputs.graph, err);
    }
    return fail_kind(err, ERROR_INFEASIBLE, "--shrink: there is no plan for fewer ranks");
}

/* ---- beginning anew ---- */
bool saving_check_restarts(const struct saving_arguments *s, const struct launch *launch, enum transport_start start,
                           bool ours, const struct inputs *inputs, const struct source_options *source,
                           struct error *err)
{
    if (ours)
        return true;
    if (s->shrink && !check_shrink(s, inputs, source, err))
        return false;
    if (s->restarts == 0)
        return true;
    if (start == START_THREADS)
        return fail(err, "--restarts: ranks that are threads die with this process: give --transport tcp, mpi or nccl");
    return !launch->launcher || fail(err,
                                     "--restarts: %s started the ranks: let it start them again, from the newest save "
                                     "with --resume %s",
                                     launch->launcher, s->checkpoint ? s->checkpoint : "DIR");
}

/* Whether the word is an option of this name; *words: how many words it is, with its value. A short name's value may
 * stand in the same word, as in -n2. */
static bool is_option(const char *word, const char *name, int *words)
{
    size_t length = strlen(name);
    if (strncmp(word, name, length) != 0)
        return false;
    *words = word[length] == '\0' ? 2 : 1;
    return word[length] == '\0' || word[length] == '=' || name[1] != '-';
}

/* The command once more, but from the newest save in the folder, if there is one, and by another plan, if one is given.
 * The caller frees the array. */
static char **arguments_again(const struct cli *cli, const char *folder, const char *old_plan, const char *new_plan,
                              int *count)
{
    static char resume[] = "--resume";
    char **out = calloc((size_t)cli->argument_count + 3, sizeof *out);
    int n = 0, words;
    for (int i = 0; out && i < cli->argument_count; i++) {
        char *word = cli->arguments[i];
        if (folder && i == 2) { /* behind the verb: what follows "--" are operands */
            out[n++] = resume;
            out[n++] = (char *)(uintptr_t)folder;
        }
        if ((folder && is_option(word, "--resume", &words)) ||
            (new_plan && (is_option(word, "--ranks", &words) || is_option(word, "-n", &words))))
            i += words - 1;
        else if (new_plan && strcmp(word, old_plan) == 0)
            out[n++] = (char *)(uintptr_t)new_plan;
        else if (!folder || strcmp(word, "--overwrite") != 0)
            out[n++] = word;
    }
    *count = n;
    return out;
}

/* Whether there would be any use in the same again: not after a mistake of the user's or ours, nor when the run was
 * asked to end. */
static bool may_restart(const struct launch_end *end)
{
    return end->signal == 0 && (end->code == 0 || end->code == ERROR_ENVIRONMENT || end->code > 128);
}

static bool launch_once(const struct cli *cli, const struct saving_arguments *s, const struct saved_job *job,
                        const struct program *program, struct launch_end *end, struct error *err)
{
    *end = (struct launch_end){ .dead = -1 };
    const struct launch_local local = {
        .program = program, .timeout_s = job->timeout_s, .grace_s = grace_s(s), .end = end
    };
    const sigset_t caught = caught_signals();
    sigset_t before;
    sigprocmask(SIG_BLOCK, &caught, &before);
    if (atomic_load(&asked_to_end) != 0)
        raise(SIGTERM); /* once more, for the launcher, which waits for signals and passes them on */
    bool ok = ranks_launch(cli, job->transport, program->plan->rank_count, &local, err);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return ok;
}

/* The same job from the newest save; where a rank died, on fewer ranks if it may shrink. */
static bool launch_again(const struct cli *cli, const struct saving_arguments *s, const struct saved_job *job,
                         struct smaller *smaller, struct launch_end *end, int64_t restart, struct error *err)
{
    char name[CHECKPOINT_NAME_BYTES], ranks[TEXT_NUMBER_BYTES] = "";
    struct error none = { 0 };
    if (s->shrink && end->dead >= 0) {
        if (!shrink(smaller, cli, s, job, err))
            return false;
        text_number_of(ranks, smaller->program->plan->rank_count, "rank");
    }
    bool saved = checkpoint_newest(s->checkpoint, name, &none) && strcmp(name, smaller->before) != 0;
    fprintf(cli->talk, "note: restart %lld of %lld%s%s, from %s%s%s\n", (long long)restart, (long long)s->restarts,
            ranks[0] ? " on " : "", ranks,
            saved              ? s->checkpoint
            : saving_begins(s) ? "the beginning: nothing was saved"
                               : s->resume,
            saved ? "/" : "", saved ? name : "");
    struct cli again = *cli;
    again.arguments = arguments_again(cli, saved ? s->checkpoint : NULL, job->plan_path,
                                      smaller->program ? smaller->path : NULL, &again.argument_count);
    bool ok = again.arguments
                  ? launch_once(&again, s, job, smaller->program ? smaller->program : job->program, end, err)
                  : fail_memory(err);
    free(again.arguments);
    return ok;
}

int saving_launch(const struct cli *cli, const struct saving_arguments *s, const struct saved_job *job,
                  struct error *err)
{
    struct smaller smaller = { .program = NULL };
    struct launch_end end;
    struct error cause = { 0 }, none = { 0 };
    if (!s->checkpoint || !checkpoint_newest(s->checkpoint, smaller.before, &none))
        smaller.before[0] = '\0';
    bool ok = launch_once(cli, s, job, job->program, &end, &cause);
    for (int64_t restart = 1; !ok && restart <= s->restarts && cause.kind == ERROR_ENVIRONMENT && may_restart(&end) &&
                              atomic_load(&asked_to_end) == 0;
         restart++) {
        fprintf(cli->talk, "error: %s\n", cause.message);
        cause = (struct error){ 0 };
        ok = launch_again(cli, s, job, &smaller, &end, restart, &cause);
    }
    free_smaller(&smaller);
    if (ok || end.code == LAUNCH_CODE_REQUEUE || end.code == ERROR_INPUT)
        return ok ? ERROR_NONE : end.code; /* a rank has said why */
    fail_with(err, &cause);
    return (int)cause.kind;
}

int saving_tell_end(const struct cli *cli, const struct saving_arguments *s, int64_t step)
{
    fprintf(cli->talk, "note: asked to end by a signal: saved step %lld in %s: go on with --resume %s\n",
            (long long)step, s->checkpoint, s->checkpoint);
    return LAUNCH_CODE_REQUEUE;
}

bool saving_all_done(const struct cli *cli, const struct saving_arguments *s, int64_t steps, int64_t saved_step,
                     const char *unwritten, struct error *err)
{
    if (saved_step > steps || unwritten)
        return fail(err, "the checkpoint in %s is of step %lld already%s%s: give --steps above it", s->resume,
                    (long long)saved_step, unwritten ? ", and no step is left that could write --" : "",
                    unwritten ? unwritten : "");
    fprintf(cli->talk, "note: nothing is left to do: %s has the save of step %lld, the last of --steps %lld\n",
            s->resume, (long long)saved_step, (long long)steps);
    return true;
}

void saving_json(const struct cli *cli, const struct save_times *saves)
{
    if (saves->count > 0)
        fprintf(cli->out, ", \"saves\": {\"count\": %lld, \"save_s\": %.9g, \"wait_s\": %.9g}", (long long)saves->count,
                (double)saves->save_ns * 1e-9 / (double)saves->count,
                (double)saves->wait_ns * 1e-9 / (double)saves->count);
}

void saving_text(const struct cli *cli, const struct save_times *saves)
{
    char number[TEXT_NUMBER_BYTES], save[TEXT_NUMBER_BYTES], wait[TEXT_NUMBER_BYTES];
    if (saves->count > 0)
        fprintf(cli->out, "%s of %s each, of which the steps waited %s\n", text_number_of(number, saves->count, "save"),
                text_duration_ns(save, saves->save_ns / saves->count),
                text_duration_ns(wait, saves->wait_ns / saves->count));
}
