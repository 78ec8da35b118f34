/* The only place that reads argv, the environment and the terminal. */
#define _GNU_SOURCE /* pthread_setattr_default_np */
#include "cli/setup.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "base/text.h"
#include "host/file.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#define VERB(symbol) extern const struct verb verb_##symbol;
#include "cli/verbs.def"
#undef VERB
const struct verb *const verbs[] = {
#define VERB(symbol) &verb_##symbol,
#include "cli/verbs.def"
#undef VERB
    NULL
};

static const char *environment(const char *name)
{
    return getenv(name);
}

static void help(FILE *out)
{
    fprintf(out, "cleave plans how to train a neural network over many devices, and runs that very plan.\n\nusage: "
                 "cleave VERB [options]\n\n");
    for (int i = 0; verbs[i]; i++)
        fprintf(out, "  %-10s %s\n", verbs[i]->name, verbs[i]->summary);
    fprintf(out,
            "\n  cleave VERB --help   shows a verb's options and examples\n"
            "  cleave --version     version and what was found at build time\n"
            "  cleave --completion bash|zsh|fish, cleave --man-page [VERB]: what an installation puts in its place\n\n"
            "start here: cleave plan gpt2 --cluster 1x8:a100-sxm-80 --batch 64\n");
}

static const struct verb *find(const char *name)
{
    for (int i = 0; verbs[i]; i++)
        if (!strcmp(verbs[i]->name, name))
            return verbs[i];
    return NULL;
}

static int unknown_verb(FILE *talk, const char *name)
{
    const char *names[64];
    size_t count = 0;
    for (; count < 64 && verbs[count]; count++)
        names[count] = verbs[count]->name;
    const char *near = text_nearest(name, names, count);
    struct error err = { 0 };
    if (name[0] == '-')
        fail(&err, "unknown option %s; options follow the verb: cleave VERB %s; see cleave --help", name, name);
    else if (near)
        fail(&err, "unknown verb '%s'; did you mean '%s'?", name, near);
    else
        fail(&err, "unknown verb '%s'; cleave --help lists them", name);
    fprintf(talk, "cleave: %s\n", err.message);
    return ERROR_INPUT;
}

/* The exit code of a program whose output has to arrive. */
static int end_output(FILE *out, FILE *talk, int code)
{
    bool written = !fflush(out) && !ferror(out);
    if (!written)
        fprintf(talk, "error: cannot write to standard output\n");
    if (memory_has_fallen_short() && code == ERROR_NONE)
        fprintf(talk, "error: out of memory: what is printed above may be cut\n");
    return memory_has_fallen_short() || (!written && !code) ? ERROR_ENVIRONMENT : code;
}

static int run_verb(const struct verb *verb, const struct cli *cli, int argc, char **argv)
{
    struct error err = { 0 };
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            options_help(verb, cli->out);
            return end_output(cli->out, cli->talk, ERROR_NONE);
        }
    void *options = calloc(1, verb->options_bytes + 1);
    const char **operands = calloc((size_t)argc + 1, sizeof *operands);
    int operand_count = 0, code = ERROR_ENVIRONMENT;
    if (!options || !operands)
        fail_kind(&err, ERROR_ENVIRONMENT, "out of memory");
    else if (options_parse(verb, argc, argv, options, operands, &operand_count, &err))
        code = verb->run(cli, options, operands, operand_count, &err);
    if (err.kind != ERROR_NONE) {
        fprintf(cli->talk, "%s%s\n", strncmp(err.message, "cleave", 6) ? "error: " : "", err.message);
        code = (int)err.kind;
        if (memory_has_fallen_short() && !strstr(err.message, "memory"))
            fprintf(cli->talk, "error: out of memory: what is said above may be due to that\n");
    }
    free(options);
    free(operands);
    return end_output(cli->out, cli->talk, code);
}

static int write_completion(const struct cli *cli, const char *shell)
{
    struct error err = { 0 };
    if (!completion_write(cli, shell, &err))
        fprintf(cli->talk, "%s\n", err.message);
    return end_output(cli->out, cli->talk, (int)err.kind);
}

enum { LEAST_STACK_KIB = 4096, USUAL_STACK_KIB = 8192 };

/* Threads would have stacks as large as the limit, for which there is no room where somebody has raised it. */
static void set_thread_stacks(void)
{
    pthread_attr_t usual;
    if (pthread_attr_init(&usual) != 0)
        return;
    if (pthread_attr_setstacksize(&usual, (size_t)USUAL_STACK_KIB << 10) == 0)
        pthread_setattr_default_np(&usual);
    pthread_attr_destroy(&usual);
}

/* A search keeps what it has found on the stack, 1.4 MB of it: whoever has less would end by a signal. */
static bool stack_suffices(FILE *talk)
{
    struct rlimit stack;
    if (getrlimit(RLIMIT_STACK, &stack) != 0 || stack.rlim_cur == RLIM_INFINITY ||
        stack.rlim_cur >> 10 >= LEAST_STACK_KIB)
        return true;
    fprintf(talk, "error: expected a stack of %d KiB, found a limit of %llu KiB: type ulimit -s %d\n", LEAST_STACK_KIB,
            (unsigned long long)stack.rlim_cur >> 10, USUAL_STACK_KIB);
    return false;
}

int main(int argc, char **argv)
{
    file_open_standard();
    file_ignore_size_signal();
    /* all that is said passes here, so that no verb can forget what files may hold */
    FILE *out = terminal_open(STDOUT_FILENO), *talk = terminal_open(STDERR_FILENO);
    if (!out || !talk) {
        fprintf(stderr, "error: out of memory\n");
        return ERROR_ENVIRONMENT;
    }
    if (!stack_suffices(talk))
        return ERROR_ENVIRONMENT;
    set_thread_stacks();
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || (!strcmp(argv[1], "help") && argc == 2)) {
        help(argc < 2 ? talk : out);
        return argc < 2 ? ERROR_INPUT : end_output(out, talk, ERROR_NONE);
    }
    if (!strcmp(argv[1], "--version")) {
        setup_print_version(out);
        return end_output(out, talk, ERROR_NONE);
    }
    bool help_verb = !strcmp(argv[1], "help"), man_page = !strcmp(argv[1], "--man-page"),
         completion = !strcmp(argv[1], "--completion");
    const char *name = argv[help_verb || man_page ? 2 : 1];
    const struct verb *verb = name && !completion ? find(name) : NULL;
    if (!verb && name && !completion)
        return unknown_verb(talk, name);
    if (help_verb || man_page) {
        if (help_verb)
            options_help(verb, out);
        else
            man_page_write(out, verb);
        return end_output(out, talk, ERROR_NONE);
    }
    struct cli cli = { .out = out,
                       .talk = talk,
                       .out_is_tty = isatty(STDOUT_FILENO),
                       .talk_is_tty = isatty(STDERR_FILENO),
                       .argument_count = argc,
                       .arguments = argv,
                       .environment = environment };
    struct setup setup;
    int code = ERROR_ENVIRONMENT;
    if (!setup_find(&setup, &cli))
        fprintf(talk, "error: out of memory\n");
    else
        code =
            completion ? write_completion(&cli, argc > 2 ? argv[2] : "bash") : run_verb(verb, &cli, argc - 2, argv + 2);
    setup_free(&setup);
    return code;
}
