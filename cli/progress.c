#include "cli/progress.h"
#include "cli/terminal.h"
#include "host/clock.h"
#include <stdarg.h>

static const int64_t quiet_ns = 2000000000, pause_ns = 100000000;

void progress_begin(struct progress *progress, const struct cli *cli, const char *verb)
{
    *progress = (struct progress){ .cli = cli, .verb = verb, .begun_ns = clock_now_ns() };
}

void progress_say(struct progress *progress, const char *format, ...)
{
    FILE *talk = progress->cli->talk;
    int64_t now_ns = clock_now_ns();
    va_list arguments;
    if (!progress->cli->talk_is_tty || now_ns - progress->begun_ns < quiet_ns ||
        (progress->shown && now_ns - progress->shown_ns < pause_ns))
        return;
    terminal_clear_line(talk);
    fprintf(talk, "cleave %s: ", progress->verb);
    va_start(arguments, format);
    vfprintf(talk, format, arguments);
    va_end(arguments);
    fprintf(talk, " ...");
    fflush(talk);
    progress->shown = true;
    progress->shown_ns = now_ns;
}

void progress_clear(struct progress *progress)
{
    if (progress->shown) {
        terminal_clear_line(progress->cli->talk);
        fflush(progress->cli->talk);
    }
    progress->shown = false;
}

static void show_search(void *self, int solved, int total, int64_t best_ns)
{
    char solved_of[TEXT_NUMBER_BYTES], all[TEXT_NUMBER_BYTES], best[TEXT_NUMBER_BYTES];
    bool found = best_ns < INT64_MAX;
    progress_say(self, "%s of %s configurations solved%s%s", text_count(solved_of, solved), text_count(all, total),
                 found ? ", the best takes " : "", found ? text_duration_ns(best, best_ns) : "");
}

void progress_watch(struct progress *progress, struct search_options *options)
{
    options->calls.progress = show_search;
    options->calls.watcher = progress;
}
