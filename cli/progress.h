/* One line on a terminal that says how far a command has come, where it takes long. */
#ifndef CLEAVE_CLI_PROGRESS_H
#define CLEAVE_CLI_PROGRESS_H
#include "cli/verb.h"
#include "planner/pool/answer.h"

/* Silent for the first two seconds, and where nobody watches: cli->talk is no terminal. */
struct progress {
    const struct cli *cli;
    const char *verb; /* "cleave VERB: ..." */
    int64_t begun_ns, shown_ns;
    bool shown; /* the line stands there */
};
void progress_begin(struct progress *progress, const struct cli *cli, const char *verb);
/* Replaces the line, ten times a second at most. */
void progress_say(struct progress *progress, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Clears it, before anything else is written to the terminal; what comes later shows again. */
void progress_clear(struct progress *progress);
/* Shows how far the search has come that these are the options of. */
void progress_watch(struct progress *progress, struct search_options *options);
#endif
