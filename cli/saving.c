#define _GNU_SOURCE
#include "cli/saving.h"
#include "executor/checkpoint/folder.h"
#include "host/file.h"
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

static volatile sig_atomic_t asked_to_end; /* a signal handler has no other way to say so */

static void on_end(int signal)
{
    (void)signal;
    asked_to_end = 1;
}

void saving_catch_signals(void)
{
    const struct sigaction action = { .sa_handler = on_end, .sa_flags = (int)SA_RESETHAND | SA_RESTART };
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGUSR1, &action, NULL);
}

/* ---- what the options say ---- */
/* "40": steps; "90s", "10m", "2h": a time. */
static bool read_every(const char *text, int64_t *steps, double *seconds, struct error *err)
{
    static const struct {
        char unit;
        double seconds;
    } units[] = { { 's', 1 }, { 'm', 60 }, { 'h', 3600 } };
    size_t length = strlen(text);
    double number;
    *steps = 0, *seconds = 0;
    for (size_t u = 0; u < sizeof units / sizeof *units; u++)
        if (length > 1 && text[length - 1] == units[u].unit && text_read_double(text, length - 1, &number) &&
            number > 0 && number * units[u].seconds < 1e9) {
            *seconds = number * units[u].seconds;
            return true;
        }
    if (!text_read_double(text, length, &number) || number < 0 || number > 1e15 || number != floor(number))
        return fail(err, "--every: expected steps, or a time as 90s, 10m or 2h, found \"%s\"", text);
    *steps = (int64_t)number;
    return true;
}

bool saving_set(struct run_options *o, const struct saving_arguments *s, struct error *err)
{
    o->checkpoint_dir = s->checkpoint;
    o->checkpoint_keep = s->keep;
    o->checkpoint_overwrite = s->overwrite;
    o->resume_dir = s->resume;
    o->grace_s = s->grace_s;
    o->asked_to_end = s->checkpoint && s->grace_s > 0 ? &asked_to_end : NULL;
    return !s->every || read_every(s->every, &o->checkpoint_every, &o->checkpoint_every_s, err);
}

bool saving_check(const struct saving_arguments *s, const struct run_options *options, const struct program *program,
                  bool owns, bool *made, struct error *err)
{
    struct checkpoint_folder *folder = NULL;
    const char *without = s->every ? "--every" : s->overwrite ? "--overwrite" : s->restarts > 0 ? "--restarts" : NULL;
    if (!s->checkpoint)
        return !without || fail(err, "%s is about saving: give --checkpoint DIR, too", without);
    if (!file_check_folder(s->checkpoint, made, err))
        return false;
    bool ok = !owns || checkpoint_folder_open(&folder, program, options, err);
    checkpoint_folder_close(folder);
    if (!ok && *made)
        file_remove_empty_folder(s->checkpoint);
    return ok;
}

/* ---- beginning anew ---- */
bool saving_check_restarts(const struct saving_arguments *s, const struct launch *launch, enum transport_start start,
                           bool ours, struct error *err)
{
    if (s->restarts == 0 || ours)
        return true;
    if (start == START_THREADS)
        return fail(err, "--restarts: ranks that are threads die with this process: give --transport tcp, mpi or nccl");
    return !launch->launcher || fail(err,
                                     "--restarts: %s started the ranks: let it start them again, from the newest save "
                                     "with --resume %s",
                                     launch->launcher, s->checkpoint ? s->checkpoint : "DIR");
}

/* The command once more, but from the newest save in the folder. The caller frees the array. */
static char **arguments_again(const struct cli *cli, const char *folder, int *count)
{
    static char resume[] = "--resume";
    char **out = calloc((size_t)cli->argument_count + 3, sizeof *out);
    int n = 0;
    for (int i = 0; out && i < cli->argument_count; i++) {
        char *word = cli->arguments[i];
        if (strcmp(word, "--resume") == 0)
            i++;
        else if (strncmp(word, "--resume=", 9) != 0 && strcmp(word, "--overwrite") != 0)
            out[n++] = word;
    }
    if (out) {
        out[n++] = resume;
        out[n++] = (char *)(uintptr_t)folder;
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

int saving_launch(const struct cli *cli, const struct saving_arguments *s, const char *transport,
                  const struct program *program, double timeout_s, struct error *err)
{
    struct launch_end end = { .dead = -1 };
    const struct launch_local local = {
        .program = program, .timeout_s = timeout_s, .grace_s = s->checkpoint ? s->grace_s : 0, .end = &end
    };
    const int rank_count = program->plan->rank_count;
    struct cli again = *cli;
    char **arguments = NULL;
    struct error cause = { 0 };
    bool ok = ranks_launch(cli, transport, rank_count, &local, &cause);
    for (int64_t restart = 1; !ok && restart <= s->restarts && may_restart(&end); restart++) {
        char name[CHECKPOINT_NAME_BYTES];
        struct error none = { 0 };
        bool saved = checkpoint_newest(s->checkpoint, name, &none);
        fprintf(cli->talk, "error: %s\nnote: restart %lld of %lld, from %s%s%s\n", cause.message, (long long)restart,
                (long long)s->restarts, saved ? s->checkpoint : "the beginning: nothing was saved", saved ? "/" : "",
                saved ? name : "");
        if (saved && !arguments) {
            arguments = arguments_again(cli, s->checkpoint, &again.argument_count);
            again.arguments = arguments;
        }
        cause = (struct error){ 0 };
        end = (struct launch_end){ .dead = -1 };
        ok = saved && !arguments ? fail_memory(&cause) : ranks_launch(&again, transport, rank_count, &local, &cause);
    }
    free(arguments);
    if (!ok && end.code == LAUNCH_CODE_REQUEUE)
        return LAUNCH_CODE_REQUEUE; /* rank 0 has said so */
    return ok ? ERROR_NONE : (fail_kind(err, cause.kind, "%s", cause.message), (int)cause.kind);
}

int saving_tell_end(const struct cli *cli, const struct saving_arguments *s, int64_t step)
{
    fprintf(cli->talk, "note: asked to end by a signal: saved step %lld in %s: go on with --resume %s\n",
            (long long)step, s->checkpoint, s->checkpoint);
    return LAUNCH_CODE_REQUEUE;
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
