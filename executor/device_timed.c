/* Waits for the time that the cost functions give for the rank's own type of device, by absolute deadline, instead of
 * computing: any plan's communication is replayed for real, for models without mathematics, at more ranks than cores.
 */
#include "executor/device.h"
#include "executor/rank.h"
#include "host/clock.h"

enum { BEAT_NS = 1000000000 }; /* long waits say once a second that they are not stuck */

static bool execute(struct rank *rank, const struct instr *instr, struct span *span, struct error *err)
{
    if (!rank->options->facts)
        return fail_kind(err, ERROR_BUG, "the timed device needs facts to know durations");
    if (instr->op == OP_UPDATE && !geometry_rank_updates(rank->program, instr, rank->local_rank))
        return true;
    int64_t finish_ns =
        span->start_ns + cost_instr_rank_ns(rank->options->facts, rank->program, rank->stage, instr, rank->rank);
    for (int64_t now = clock_now_ns(); now < finish_ns; now = clock_now_ns()) {
        clock_sleep_until_ns(finish_ns - now > BEAT_NS ? now + BEAT_NS : finish_ns);
        status_beat(rank->options->status, rank->rank);
    }
    span->finish_ns = finish_ns;
    return true;
}

const struct device device_timed = { .name = "timed", .execute = execute, .computes = false };
