#include "cli/run_report.h"
#include "cli/saving.h"
#include "base/num.h"
#include "cli/kernels.h"
#include "cli/print.h"
#include <math.h>
#include <stdlib.h>

const char *run_report_number(char number[TEXT_NUMBER_BYTES], double value)
{
    return isfinite(value) ? text_double(number, value) : "null";
}

static void breakdown_json(const struct cli *cli, const char *key, const struct program *program,
                           const struct timeline *timeline, int rank_index)
{
    int64_t ns[TIME_KIND_COUNT];
    timeline_breakdown(program, timeline, rank_index, ns);
    fprintf(cli->out, ", \"%s\": {", key);
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        fprintf(cli->out, "%s\"%s\": %.9g", k ? ", " : "", time_kind_names[k], (double)ns[k] * 1e-9);
    fprintf(cli->out, "}");
}

/* Of a rank, and of its stage in the simulation. */
static void both_breakdowns_json(const struct cli *cli, const struct program *program, const struct timeline *measured,
                                 const struct timeline *predicted, int rank_index)
{
    breakdown_json(cli, "breakdown_s", program, measured, rank_index);
    breakdown_json(cli, "predicted_breakdown_s", program, predicted, measured->ranks[rank_index].stage);
}

/* Of the rank that ended last, and of all. */
static bool breakdowns_json(const struct cli *cli, const struct program *program, const struct timeline *measured,
                            const struct timeline *predicted, struct error *err)
{
    bool ok = true;
    int last = timeline_last_rank(measured);
    fprintf(cli->out, ", \"breakdown_rank\": %d, \"breakdown_stage\": %d, \"timeline_step_s\": %.9g",
            measured->ranks[last].rank, measured->ranks[last].stage, (double)measured->step_ns * 1e-9);
    both_breakdowns_json(cli, program, measured, predicted, last);
    fprintf(cli->out, ", \"ranks\": [");
    for (int r = 0; r < measured->rank_count; r++) {
        fprintf(cli->out, "%s{\"rank\": %d, \"stage\": %d", r ? ", " : "", measured->ranks[r].rank,
                measured->ranks[r].stage);
        both_breakdowns_json(cli, program, measured, predicted, r);
        ok = ok && kernels_json(cli, program, measured, r, err);
        fprintf(cli->out, "}");
    }
    fprintf(cli->out, "]");
    return ok;
}

/* By rank: how many times as long as predicted it computed in the step; 0: nothing was predicted. */
static double slowness(const struct program *program, const struct timeline *measured, const struct timeline *predicted,
                       int rank_index)
{
    int64_t took[TIME_KIND_COUNT], expected[TIME_KIND_COUNT];
    timeline_breakdown(program, measured, rank_index, took);
    timeline_breakdown(program, predicted, measured->ranks[rank_index].stage, expected);
    return expected[TIME_COMPUTE] > 0 ? (double)took[TIME_COMPUTE] / (double)expected[TIME_COMPUTE] : 0;
}

int run_report_straggler(const struct program *program, const struct timeline *measured,
                         const struct timeline *predicted, double *factor)
{
    int count = measured->rank_count, slowest = 0;
    double *all = calloc((size_t)count + 1, sizeof *all), most = 0;
    *factor = 0;
    if (!all)
        return -1; /* a remark that can be missed */
    for (int r = 0; r < count; r++) {
        all[r] = slowness(program, measured, predicted, r);
        if (all[r] > most)
            most = all[r], slowest = r;
    }
    qsort(all, (size_t)count, sizeof *all, compare_doubles);
    double median = all[(count - 1) / 2]; /* of an even number the lower one: of two ranks the other */
    free(all);
    *factor = median > 0 ? most / median : 0;
    return *factor >= STRAGGLER_FACTOR ? measured->ranks[slowest].rank : -1;
}

/* What the run used of each rank's arena, and what is laid out. */
static void bytes_json(const struct cli *cli, const struct program *program, const struct run_summary *s, bool host)
{
    const int64_t *used = host ? s->host_peak_bytes : s->peak_bytes;
    fprintf(cli->out, ", \"%speak_bytes\": [", host ? "host_" : "");
    for (int r = 0; used && r < s->rank_count; r++)
        fprintf(cli->out, "%s%lld", r ? ", " : "", (long long)used[r]);
    fprintf(cli->out, "], \"predicted_%speak_bytes\": [", host ? "host_" : "");
    for (int r = 0; r < s->rank_count; r++) {
        const struct stage_program *stage = &program->stages[plan_stage_of_rank(program->plan, r)];
        fprintf(cli->out, "%s%lld", r ? ", " : "", (long long)(host ? stage->host_bytes : stage->arena_bytes));
    }
    fprintf(cli->out, "]");
}

/* Of each rank whose device has memory of its own: what it had beside the arena, and what a profile let expect. */
static void outside_json(const struct cli *cli, const struct facts *facts, const struct run_summary *s)
{
    bool any = false;
    for (int r = 0; s->outside && r < s->rank_count; r++) {
        const struct memory_outside *o = &s->outside[r];
        if (o->bytes < 0)
            continue;
        fprintf(cli->out,
                "%s{\"rank\": %d, \"memory_outside_arena_bytes\": %lld, \"predicted_outside_arena_bytes\": %lld",
                any ? ", " : ", \"outside_arena\": [", r, (long long)o->bytes,
                (long long)facts_outside_arena_bytes(facts, cluster_type(facts->cluster, r)));
        for (int i = 0; i < MEMORY_PART_COUNT; i++)
            fprintf(cli->out, ", \"%s\": %lld", memory_part_info[i].key, (long long)o->part[i]);
        fprintf(cli->out, ", \"memory_rest_bytes\": %lld}", (long long)memory_rest_bytes(o));
        any = true;
    }
    fprintf(cli->out, "%s", any ? "]" : "");
}

/* Of the rank that has most. */
static void outside_text(const struct cli *cli, const struct run_summary *s)
{
    const struct memory_outside *most = NULL;
    for (int r = 0; s->outside && r < s->rank_count; r++)
        if (s->outside[r].bytes > (most ? most->bytes : -1))
            most = &s->outside[r];
    if (!most)
        return;
    char number[TEXT_NUMBER_BYTES];
    struct text parts = { 0 };
    memory_describe(&parts, most);
    fprintf(cli->out, "beside it on the device at most %s: %s\n", text_bytes(number, most->bytes),
            parts.data ? parts.data : "");
    text_free(&parts);
}

static bool offloads(const struct program *program)
{
    bool any = false;
    for (int s = 0; s < program->stage_count; s++)
        any = any || program->stages[s].host_bytes > 0;
    return any;
}

static void notes_json(const struct cli *cli, const struct report_step *report)
{
    for (int i = 0; i < report->note_count; i++) {
        struct json_writer w = { .depth = 0 };
        json_write_string(&w, report->note[i]);
        fprintf(cli->out, "%s%s", i > 0 ? ", " : ", \"notes\": [", w.text.data ? w.text.data : "null");
        text_free(&w.text);
    }
    fprintf(cli->out, "%s", report->note_count > 0 ? "]" : "");
}

bool run_report_json(const struct cli *cli, const struct facts *facts, const struct program *program,
                     const struct run_summary *s, const struct timeline *predicted, const struct report_step *report,
                     bool poisoned, struct error *err)
{
    char first[TEXT_NUMBER_BYTES], last[TEXT_NUMBER_BYTES];
    int64_t predicted_ns = predicted->step_ns;
    fprintf(cli->out,
            "{\"summary\": {\"step_s_median\": %.9g, \"predicted_step_s\": %.9g, \"error\": %.4g, \"first_loss\": %s, "
            "\"last_loss\": %s",
            (double)s->step_ns_median * 1e-9, (double)predicted_ns * 1e-9,
            (double)(predicted_ns - s->step_ns_median) / (double)s->step_ns_median,
            run_report_number(first, s->first_loss), run_report_number(last, s->last_loss));
    if (s->choices > 0)
        fprintf(cli->out, ", \"dropped_choices\": %.4g", (double)s->dropped / (double)s->choices);
    bytes_json(cli, program, s, false);
    if (offloads(program))
        bytes_json(cli, program, s, true);
    outside_json(cli, facts, s);
    saving_json(cli, &s->saves);
    if (poisoned && report->heap_first >= 0)
        fprintf(cli->out, ", \"allocated_bytes\": %lld", (long long)(report->heap_last - report->heap_first));
    notes_json(cli, report);
    double factor = 0;
    int straggler = s->timeline ? run_report_straggler(program, s->timeline, predicted, &factor) : -1;
    if (straggler >= 0)
        fprintf(cli->out, ", \"straggler\": {\"rank\": %d, \"factor\": %.3g}", straggler, factor);
    bool ok = !s->timeline || breakdowns_json(cli, program, s->timeline, predicted, err);
    fprintf(cli->out, "}}\n");
    return ok;
}

void run_report_text(const struct cli *cli, const struct program *program, const struct run_summary *s,
                     const struct timeline *predicted, bool measured)
{
    const int64_t predicted_ns = predicted->step_ns;
    char a[TEXT_NUMBER_BYTES], b[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "median step %s, predicted %s (%s): error %+.1f %%\n", text_duration_ns(a, s->step_ns_median),
            text_duration_ns(b, predicted_ns), measured ? "from measurements" : "analytic: no profile",
            100 * (double)(predicted_ns - s->step_ns_median) / (double)s->step_ns_median);
    int64_t most = 0;
    for (int stage = 0; stage < program->stage_count; stage++)
        most = max_i64(most, program->stages[stage].arena_bytes);
    fprintf(cli->out, "memory per rank: at most %s, exactly as laid out by the plan\n", text_bytes(a, most));
    outside_text(cli, s);
    saving_text(cli, &s->saves);
    double factor = 0;
    int straggler = s->timeline ? run_report_straggler(program, s->timeline, predicted, &factor) : -1;
    if (straggler >= 0)
        fprintf(
            cli->out,
            "straggler: rank %d computed for %.3g times as long in the last step as the median rank, beside what was "
            "predicted of each: is its device slow, or busy with something else?\n",
            straggler, factor);
    if (s->dropped > 0)
        fprintf(cli->out,
                "experts: %.1f %% of the choices found no slot and were dropped; the prediction counts none\n",
                100 * (double)s->dropped / (double)s->choices);
}

void run_report_poison(const struct cli *cli, const struct program *program, const struct run_summary *s,
                       const struct report_step *report)
{
    char touched[TEXT_NUMBER_BYTES], laid_out[TEXT_NUMBER_BYTES];
    for (int r = 0; s->peak_bytes && r < s->rank_count; r++)
        fprintf(cli->talk, "rank %d touched %s of the %s laid out\n", r, text_bytes(touched, s->peak_bytes[r]),
                text_bytes(laid_out, program->stages[plan_stage_of_rank(program->plan, r)].arena_bytes));
    if (report->heap_first >= 0)
        fprintf(cli->talk, "allocated outside the arenas between the first and the last step: %lld bytes\n",
                (long long)(report->heap_last - report->heap_first));
}
