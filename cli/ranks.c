#include "cli/ranks.h"
#include <stdlib.h>

bool ranks_launch(const struct cli *cli, const char *transport, int rank_count, const struct launch_local *local,
                  struct error *err)
{
    enum transport_start start;
    const char **arguments = calloc((size_t)cli->argument_count + 1, sizeof *arguments);
    if (!arguments)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    arguments[0] = cli->program;
    for (int i = 1; i < cli->argument_count; i++)
        arguments[i] = cli->arguments[i];
    bool ok = transport_start(transport, &start, err) && transport_available(transport, cli->module_dir, err);
    struct launch_local all = *local;
    all.arguments = arguments, all.rank_count = rank_count, all.start = start;
    ok = ok && launch_run(&all, err);
    free(arguments);
    return ok;
}

bool ranks_meeting(struct transport_options *options, struct meeting *meeting, const struct cli *cli,
                   const char *transport, const struct launch *launch, double timeout_s, struct error *err)
{
    enum transport_start start;
    if (!transport_start(transport, &start, err))
        return false;
    if (start != START_MEETING || !launch->launcher)
        return true;
    options->meeting = meeting;
    return launch_meeting(meeting, launch, timeout_s, cli->environment, err);
}

bool ranks_watch(struct transport_options *options, struct meeting *meeting, const struct cli *cli,
                 const struct launch *launch, double timeout_s, struct error *err)
{
    if (!launch->launcher || cli->environment(LAUNCH_STATUS_VARIABLE))
        return true;
    options->watch = meeting;
    return launch_watch(meeting, launch, timeout_s, cli->environment, err);
}
