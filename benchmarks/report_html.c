/* One offline HTML file: nothing is fetched, everything that came from outside is escaped, tables and figures need no
 * JavaScript. */
#include "benchmarks/chart.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static const char *const style =
    "body{background:var(--page);color:var(--ink);font:15px/1.5 system-ui,sans-serif;max-width:960px;margin:2em "
    "auto;padding:0 1em}"
    "h1{font-size:1.6em;margin-bottom:.2em}h2{font-size:1.15em;margin-top:2em;border-bottom:1px solid var(--line)}"
    "table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}th,td{padding:.3em "
    ".6em;text-align:right;border-bottom:1px solid "
    "var(--line)}th:first-child,td:first-child{text-align:left}tr.chosen td{font-weight:600}.soft{color:var(--soft)}"
    ".wide{overflow-x:auto}.wide td:first-child{min-width:15em}.name{white-space:nowrap}details{margin:.6em "
    "0}summary{cursor:pointer}pre{background:var(--panel);padding:.8em;overflow-x:auto;font-size:12px}"
    ".big{display:flex;gap:2em;flex-wrap:wrap}.big div{background:var(--panel);padding:.6em 1em;border-radius:6px}.big "
    "b{display:block;font-size:1.4em}"
    "@media print{details{display:block}body{max-width:none}}";

static void cell(struct text *out, const char *words)
{
    text_add(out, "<td>");
    chart_escape(out, words);
    text_add(out, "</td>");
}

static void cell_error(struct text *out, double error)
{
    char words[32] = "-";
    if (!isnan(error))
        snprintf(words, sizeof words, "%+.1f %%", 100 * error);
    cell(out, words);
}

static int64_t most(const int64_t *bytes, int count)
{
    int64_t largest = 0;
    for (int i = 0; i < count && bytes; i++)
        largest = max_i64(largest, bytes[i]);
    return largest;
}

static void plan_row(struct text *out, const struct report_plan *plan, int64_t best_ns)
{
    char number[TEXT_NUMBER_BYTES], words[64];
    int64_t step = plan->measured_step_ns ? plan->measured_step_ns : plan->predicted_step_ns;
    text_printf(out, "<tr%s><td><span class=\"name\">", plan->chosen ? " class=\"chosen\"" : "");
    chart_escape(out, plan->name);
    text_add(out, "</span><br><span class=\"soft\">");
    chart_escape(out, plan->failure ? plan->failure : plan->description);
    text_add(out, "</span></td>");
    cell(out, plan->failure ? "-" : text_duration_ns(number, plan->predicted_step_ns));
    if (plan->measured_step_ns)
        snprintf(words, sizeof words, "%s \xc2\xb1 %.1f %%", text_duration_ns(number, plan->measured_step_ns),
                 50 * plan->measured_spread);
    cell(out, plan->measured_step_ns ? words : "-");
    cell_error(out, report_error(plan));
    snprintf(words, sizeof words, "%+.1f %%", 100 * ((double)step / (double)best_ns - 1));
    cell(out, plan->failure ? "-" : words);
    snprintf(words, sizeof words, "%.0f", plan->tokens_per_step / ((double)step * 1e-9));
    cell(out, plan->failure ? "-" : words);
    cell(out,
         plan->predicted_peak_bytes ? text_bytes(number, most(plan->predicted_peak_bytes, plan->rank_count)) : "-");
    cell(out, plan->measured_peak_bytes ? text_bytes(number, most(plan->measured_peak_bytes, plan->rank_count)) : "-");
    text_add(out, "</tr>\n");
}

static void plan_table(struct text *out, const struct report *report, const int *order)
{
    const struct report_plan *best = &report->plans[order[0]];
    int64_t best_ns = max_i64(1, best->measured_step_ns ? best->measured_step_ns : best->predicted_step_ns);
    text_add(
        out,
        "<div class=\"wide\"><table><thead><tr><th>plan</th><th>predicted step</th><th>measured "
        "step</th><th>prediction error</th><th>against the fastest</th><th>tokens/s</th><th>predicted peak memory</th>"
        "<th>measured peak memory</th></tr></thead><tbody>\n");
    for (int i = 0; i < report->plan_count; i++)
        plan_row(out, &report->plans[order[i]], best_ns);
    text_add(
        out,
        "</tbody></table></div>\n<p class=\"soft\">Measured: median \xc2\xb1 half of the interquartile range.</p>\n");
}

static void exposed_table(struct text *out, const struct report *report, const int *order)
{
    char number[TEXT_NUMBER_BYTES];
    text_add(out,
             "<table><thead><tr><th>exposed communication</th><th>predicted</th><th>measured</th><th>difference, of "
             "the step</th></tr></thead><tbody>\n");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (plan->failure)
            continue;
        text_add(out, plan->chosen ? "<tr class=\"chosen\">" : "<tr>");
        cell(out, plan->name);
        cell(out, text_duration_ns(number, report_exposed_ns(plan->predicted_breakdown_ns)));
        cell(out, plan->measured ? text_duration_ns(number, report_exposed_ns(plan->measured_breakdown_ns)) : "-");
        cell_error(out, report_exposed_error(plan));
        text_add(out, "</tr>\n");
    }
    text_add(out,
             "</tbody></table>\n<p class=\"soft\">Exposed: the slowest rank communicates, or copies to host memory, "
             "and computes nothing meanwhile. What is measured here is the timeline of one step, the last one of the "
             "run where that is nearest to the median, which the table above has: on an unsteady machine they "
             "differ.</p>\n");
}

static void join_table(struct text *out, const struct report_plan *plan)
{
    struct report_op ops[REPORT_MAX_OPS];
    char number[TEXT_NUMBER_BYTES];
    int count = report_join(plan, ops);
    text_add(out, "<table><thead><tr><th>instruction</th><th>predicted per rank</th><th>measured per "
                  "rank</th><th>error</th></tr></thead><tbody>\n");
    for (int i = 0; i < count; i++) {
        text_add(out, "<tr>");
        cell(out, ops[i].name);
        cell(out, text_duration_ns(number, ops[i].predicted_ns));
        cell(out, plan->measured ? text_duration_ns(number, ops[i].measured_ns) : "-");
        cell_error(out, ops[i].measured_ns
                            ? (double)(ops[i].predicted_ns - ops[i].measured_ns) / (double)ops[i].measured_ns
                            : NAN);
        text_add(out, "</tr>\n");
    }
    text_add(out, "</tbody></table>\n");
}

static void plan_details(struct text *out, const struct report_plan *plan, int64_t span_ns, bool open)
{
    char title[256];
    if (!plan->program || plan->failure)
        return;
    text_printf(out, "<details%s><summary>", open ? " open" : "");
    chart_escape(out, plan->name);
    text_add(out, "</summary>\n");
    snprintf(title, sizeof title, "%s, predicted", plan->name);
    text_add(out, "<p class=\"soft\">predicted</p>\n");
    if (plan->predicted)
        chart_gantt(out, plan->program, plan->predicted, span_ns, title);
    if (plan->measured) {
        snprintf(title, sizeof title, "%s, measured", plan->name);
        char number[TEXT_NUMBER_BYTES];
        text_printf(out, "<p class=\"soft\">measured: one step of %s</p>\n",
                    text_duration_ns(number, plan->measured->step_ns));
        chart_gantt(out, plan->program, plan->measured, span_ns, title);
    }
    join_table(out, plan);
    text_add(out, "</details>\n");
}

static void headline(struct text *out, const struct report *report, const int *order)
{
    char number[TEXT_NUMBER_BYTES];
    double error = report_mean_error(report);
    text_add(out, "<div class=\"big\">");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (!plan->chosen)
            continue;
        int64_t step = plan->measured_step_ns ? plan->measured_step_ns : plan->predicted_step_ns;
        text_printf(out, "<div><b>%s</b>step of cleave's choice, %s</div>", text_duration_ns(number, step),
                    plan->measured_step_ns ? "measured" : "predicted");
        text_printf(out, "<div><b>%d of %d</b>its place among the plans</div>", i + 1, report->plan_count);
    }
    if (!isnan(error))
        text_printf(out, "<div><b>%.1f %%</b>mean error of the predictions</div>", 100 * error);
    text_add(out, "</div>\n");
}

/* Raw data for re-use. "<" is written as \u003c, so that no content can end the element. */
static void raw_data(struct text *out, const struct report *report)
{
    struct text json = { 0 };
    report_json(report, &json);
    text_add(out, "<script type=\"application/json\" id=\"cleave-comparison\">");
    for (size_t i = 0; i < json.length; i++)
        if (json.data[i] == '<')
            text_add(out, "\\u003c");
        else
            text_add_bytes(out, &json.data[i], 1);
    text_add(out, "</script>\n");
    text_free(&json);
}

static void provenance(struct text *out, const struct report *report)
{
    text_add(out, "<h2>Where the numbers come from</h2>\n<table><tbody>\n");
    for (int i = 0; report->provenance && report->provenance[i][0]; i++) {
        text_add(out, "<tr>");
        cell(out, report->provenance[i][0]);
        cell(out, report->provenance[i][1]);
        text_add(out, "</tr>\n");
    }
    text_add(out, "</tbody></table>\n");
    for (int i = 0; report->notes && report->notes[i]; i++) {
        text_add(out, "<p>");
        chart_escape(out, report->notes[i]);
        text_add(out, "</p>\n");
    }
    text_add(out, "<p class=\"soft\">The raw data are in this file, as JSON in the element cleave-comparison: all that "
                  "the tables show, every step of every run, and the plan files.</p>\n");
}

static bool has_losses(const struct report *report)
{
    for (int i = 0; i < report->plan_count; i++)
        if (report->plans[i].losses)
            return true;
    return false;
}

void report_html(const struct report *report, struct text *out)
{
    int order[REPORT_MAX_PLANS];
    int64_t span_ns = 1;
    report_order(report, order);
    for (int i = 0; i < report->plan_count; i++)
        span_ns = max_i64(span_ns, max_i64(report->plans[i].predicted_step_ns,
                                           report->plans[i].measured ? report->plans[i].measured->step_ns : 0));
    text_add(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
                  "content=\"width=device-width\">"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
                  "'unsafe-inline'\"><title>");
    chart_escape(out, report->title);
    text_printf(out, "</title><style>%s%s</style></head><body>\n<h1>", chart_style, style);
    chart_escape(out, report->title);
    text_add(out, "</h1>\n<p class=\"soft\">");
    chart_escape(out, report->model);
    text_add(out, " on ");
    chart_escape(out, report->cluster);
    text_add(out, "</p>\n");
    headline(out, report, order);
    text_add(out, "<h2>Plans, fastest first</h2>\n");
    plan_table(out, report, order);
    text_add(out, "<h2>What a step is spent on</h2>\n");
    chart_breakdown(out, report, order);
    exposed_table(out, report, order);
    text_add(out, "<h2>Peak memory per rank</h2>\n");
    chart_memory(out, report, order);
    if (!isnan(report_mean_error(report))) {
        text_add(out, "<h2>Predicted against measured</h2>\n");
        chart_scatter(out, report);
        if (has_losses(report)) {
            text_add(out, "<h2>Training loss</h2>\n");
            chart_loss(out, report, order);
        }
    }
    text_add(out, "<h2>Timelines</h2>\n<p class=\"soft\">All on one time axis. Rows are ranks and lanes; at most eight "
                  "ranks are drawn.</p>\n");
    for (int i = 0; i < report->plan_count; i++)
        plan_details(out, &report->plans[order[i]], span_ns, i == 0);
    provenance(out, report);
    raw_data(out, report);
    text_add(out, "</body></html>\n");
}
