/* What the verbs share whose ranks can be processes. */
#ifndef CLEAVE_CLI_RANKS_H
#define CLEAVE_CLI_RANKS_H
#include "cli/verb.h"
#include "executor/launch.h"

/* Starts this same command once per rank and waits: what is not about it is set in *local (program, timeout_s, grace_s,
 * end). */
bool ranks_launch(const struct cli *cli, const char *transport, int rank_count, const struct launch_local *local,
                  struct error *err);
/* Sets options->meeting, in *meeting, where the transport needs one and a launcher is around this process. */
bool ranks_meeting(struct transport_options *options, struct meeting *meeting, const struct cli *cli,
                   const char *transport, const struct launch *launch, double timeout_s, struct error *err);
/* The same for options->watch. Where a local launch shares a status page nothing else is needed. */
bool ranks_watch(struct transport_options *options, struct meeting *meeting, const struct cli *cli,
                 const struct launch *launch, double timeout_s, struct error *err);
#endif
