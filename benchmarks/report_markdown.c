#include "benchmarks/report.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Pipes and line ends would break the table. */
static void safe(struct text *out, const char *raw)
{
    size_t step, left = raw ? strlen(raw) : 0;
    for (const char *p = raw; left > 0; p += step, left -= step) {
        step = text_shown(p, left);
        if (*p == '|' || *p == '\\' || *p == '<' || *p == '`')
            text_printf(out, "\\%c", *p);
        else if (*p == '\n')
            text_add(out, " ");
        else
            text_add_shown(out, p, step ? step : 1);
        step = step ? step : 1;
    }
}

static void row(struct text *out, const struct report_plan *plan, const struct report_plan *best)
{
    char number[TEXT_NUMBER_BYTES];
    int64_t memory = 0, measured_memory = 0;
    for (int r = 0; r < plan->rank_count; r++) {
        memory = plan->predicted_peak_bytes ? max_i64(memory, plan->predicted_peak_bytes[r]) : 0;
        measured_memory = plan->measured_peak_bytes ? max_i64(measured_memory, plan->measured_peak_bytes[r]) : 0;
    }
    text_add(out, plan->chosen ? "| **" : "| ");
    safe(out, plan->name);
    text_add(out, plan->chosen ? "** | " : " | ");
    safe(out, plan->failure ? plan->failure : plan->description);
    if (plan->failure) {
        text_add(out, " | - | - | - | - | - | - | - | - |\n");
        return;
    }
    text_printf(out, " | %s", text_duration_ns(number, plan->predicted_step_ns));
    if (plan->measured_step_ns)
        text_printf(out, " | %s \xc2\xb1 %.1f %% | %+.1f %%", text_duration_ns(number, plan->measured_step_ns),
                    50 * plan->measured_spread, 100 * report_error(plan));
    else
        text_add(out, " | - | -");
    text_printf(out, " | %+.1f %% | %s", 100 * (report_times_as_long(plan, best) - 1), text_bytes(number, memory));
    text_add(out, report_fits(plan) ? "" : " (does not fit)");
    text_printf(out, " | %s", measured_memory ? text_bytes(number, measured_memory) : "-");
    text_printf(out, " | %s", text_duration_ns(number, report_exposed_ns(plan->predicted_breakdown_ns)));
    text_printf(out, " | %s |\n",
                plan->measured ? text_duration_ns(number, report_exposed_ns(plan->measured_breakdown_ns)) : "-");
}

static void points(struct text *out, const char *title, const struct report_point *list, int count)
{
    char number[TEXT_NUMBER_BYTES];
    if (count == 0)
        return;
    text_printf(out, "\n## %s\n\n| devices | step | peak memory | plan |\n|---:|---:|---:|---|\n", title);
    for (int i = 0; i < count; i++) {
        text_printf(out, "| %s | ", text_count(number, list[i].devices));
        if (!list[i].words) {
            text_add(out, "- | - | nothing fits |\n");
            continue;
        }
        text_printf(out, "%s | ", text_duration_ns(number, list[i].step_ns));
        text_printf(out, "%s | ", text_bytes(number, list[i].peak_bytes));
        safe(out, list[i].words);
        text_add(out, " |\n");
    }
}

void report_markdown(const struct report *report, struct text *out)
{
    int order[REPORT_MAX_PLANS];
    double error = report_mean_error(report);
    report_order(report, order);
    const struct report_plan *best = &report->plans[order[0]];
    text_add(out, "# ");
    safe(out, report->title);
    text_add(out, "\n\n");
    safe(out, report->model);
    text_add(out, " on ");
    safe(out, report->cluster);
    text_printf(out,
                "\n\n| plan | what | predicted step | measured step | error | %s | predicted peak | measured peak | "
                "predicted exposed communication | measured exposed communication |\n"
                "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|\n",
                report_is_same_work(report) ? "against the fastest" : "time for equal work, against the first");
    for (int i = 0; i < report->plan_count; i++)
        row(out, &report->plans[order[i]], best);
    if (!isnan(error))
        text_printf(
            out,
            "\nMean absolute error of the predicted step times: %.1f %%. Measured: median \xc2\xb1 half of the "
            "interquartile range. Exposed communication: the slowest rank computes nothing meanwhile; measured: in "
            "the timeline of one step.\n",
            100 * error);
    points(out, "Step against memory, searched", report->frontier, report->frontier_count);
    points(out, "Step against devices, searched", report->scaling, report->scaling_count);
    text_add(out, "\n## Where the numbers come from\n\n");
    for (int i = 0; report->provenance && report->provenance[i][0]; i++) {
        text_add(out, "- ");
        safe(out, report->provenance[i][0]);
        text_add(out, ": ");
        safe(out, report->provenance[i][1]);
        text_add(out, "\n");
    }
    for (int i = 0; report->notes && report->notes[i]; i++) {
        text_add(out, "- ");
        safe(out, report->notes[i]);
        text_add(out, "\n");
    }
}
