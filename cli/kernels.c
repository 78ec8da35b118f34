#include "cli/kernels.h"
#include "base/text.h"
#include "executor/activity.h"
#include <inttypes.h>

/* A lane of which nothing ran and nothing should have. */
static bool is_silent(const struct lane_overlap *o)
{
    return o->ran_ns == 0 && o->spans_ns == 0;
}

static double percent(int64_t part_ns, int64_t whole_ns)
{
    return whole_ns > 0 ? 100 * (double)part_ns / (double)whole_ns : 0;
}

static void print_lane(const struct cli *cli, int lane, const struct lane_overlap *o)
{
    char ran[TEXT_NUMBER_BYTES], spans[TEXT_NUMBER_BYTES], exposed[TEXT_NUMBER_BYTES];
    char alone[TEXT_NUMBER_BYTES], early[TEXT_NUMBER_BYTES], without[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "  %-9s kernels %s, %.0f %% of it beside other lanes'; by events %s, %.0f %%\n", lane_names[lane],
            text_duration_ns(ran, o->ran_ns), percent(o->ran_beside_ns, o->ran_ns),
            text_duration_ns(spans, o->spans_ns), percent(o->spans_beside_ns, o->spans_ns));
    if (lane != LANE_COMPUTE)
        fprintf(cli->out,
                "  %-9s exposed %s: %s kernels of it alone, %s kernels before the last partner came, %s no kernel\n",
                "", text_duration_ns(exposed, o->alone_ns + o->early_ns + o->without_ns),
                text_duration_ns(alone, o->alone_ns), text_duration_ns(early, o->early_ns),
                text_duration_ns(without, o->without_ns));
}

/* What the sums above lack, or cannot place. */
static void print_doubts(const struct cli *cli, const struct rank_activity *a)
{
    const struct activity_counts *c = &a->counts;
    const int64_t elsewhere = activity_elsewhere(a), between = activity_between(a);
    char error[TEXT_NUMBER_BYTES];
    if (c->dropped > 0 || c->untimed > 0)
        fprintf(cli->out, "  missing   %" PRId64 " records were dropped, %" PRId64 " have no times: sums are too low\n",
                c->dropped, c->untimed);
    if (elsewhere > 0 || between > 0)
        fprintf(cli->out,
                "  unplaced  %" PRId64 " on streams of no lane, %" PRId64
                " in the time of no instruction of their lane\n",
                elsewhere, between);
    if (c->clock_error_ns > 0)
        fprintf(cli->out, "  clocks    agree within %s\n", text_duration_ns(error, c->clock_error_ns));
}

bool kernels_print(const struct cli *cli, const struct program *program, const struct timeline *timeline,
                   struct error *err)
{
    const int last = timeline_last_rank(timeline);
    const struct rank_activity *a = &timeline->ranks[last].activity;
    struct activity_overlap overlap;
    char idle[TEXT_NUMBER_BYTES], step[TEXT_NUMBER_BYTES];
    if (!a->counts.recorded)
        return true;
    if (!activity_overlap(&overlap, program, timeline, last, err))
        return false;
    fprintf(cli->out,
            "rank %d, which ended last: %" PRId64 " kernels, %" PRId64 " copies, %" PRId64
            " fills; of the step's %s nothing ran for %s\n",
            timeline->ranks[last].rank, activity_of_kind(a, ACTIVITY_KERNEL), activity_of_kind(a, ACTIVITY_COPY),
            activity_of_kind(a, ACTIVITY_FILL), text_duration_ns(step, timeline->step_ns),
            text_duration_ns(idle, overlap.idle_ns));
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (!is_silent(&overlap.lane[lane]))
            print_lane(cli, lane, &overlap.lane[lane]);
    print_doubts(cli, a);
    return true;
}

/* ---- JSON ---- */
static void put_s(const struct cli *cli, const char *key, int64_t ns)
{
    fprintf(cli->out, ", \"%s\": %.9g", key, (double)ns * 1e-9);
}

static void lane_json(const struct cli *cli, int lane, const struct lane_overlap *o, bool first)
{
    fprintf(cli->out, "%s\"%s\": {\"ran_s\": %.9g", first ? "" : ", ", lane_names[lane], (double)o->ran_ns * 1e-9);
    put_s(cli, "ran_beside_s", o->ran_beside_ns);
    put_s(cli, "events_s", o->spans_ns);
    put_s(cli, "events_beside_s", o->spans_beside_ns);
    if (lane != LANE_COMPUTE) {
        put_s(cli, "exposed_alone_s", o->alone_ns);
        put_s(cli, "exposed_before_partner_s", o->early_ns);
        put_s(cli, "exposed_without_kernel_s", o->without_ns);
    }
    fprintf(cli->out, "}");
}

bool kernels_json(const struct cli *cli, const struct program *program, const struct timeline *timeline, int rank_index,
                  struct error *err)
{
    const struct rank_activity *a = &timeline->ranks[rank_index].activity;
    struct activity_overlap overlap;
    bool first = true;
    if (!a->counts.recorded)
        return true;
    if (!activity_overlap(&overlap, program, timeline, rank_index, err))
        return false;
    fprintf(cli->out,
            ", \"kernels\": {\"kernels\": %" PRId64 ", \"copies\": %" PRId64 ", \"fills\": %" PRId64
            ", \"dropped\": %" PRId64 ", \"untimed\": %" PRId64 ", \"of_no_lane\": %" PRId64
            ", \"of_no_instruction\": %" PRId64,
            activity_of_kind(a, ACTIVITY_KERNEL), activity_of_kind(a, ACTIVITY_COPY),
            activity_of_kind(a, ACTIVITY_FILL), a->counts.dropped, a->counts.untimed, activity_elsewhere(a),
            activity_between(a));
    put_s(cli, "clock_error_s", a->counts.clock_error_ns);
    put_s(cli, "idle_s", overlap.idle_ns);
    fprintf(cli->out, ", \"lanes\": {");
    for (int lane = 0; lane < LANE_COUNT; lane++)
        if (!is_silent(&overlap.lane[lane])) {
            lane_json(cli, lane, &overlap.lane[lane], first);
            first = false;
        }
    fprintf(cli->out, "}}");
    return true;
}
