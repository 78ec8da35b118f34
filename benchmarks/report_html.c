/* One offline HTML file: nothing is fetched, everything that came from outside is escaped, tables and figures need no
 * JavaScript. The script in it is its own, named by its hash, so that no other runs. */
#include "base/num.h"
#include "base/sha256.h"
#include "benchmarks/chart_draw.h"
#include "benchmarks/report_page.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Of all timelines together, so that the file stays small. */
enum { TIMELINES_BYTES = 420000, RAW_RANKS = 2048 };
struct room {
    size_t bytes;
    int timelines; /* that are still to come */
};

static void paragraph(struct text *out, const char *class, const char *words)
{
    text_printf(out, "<p class=\"%s\">", class);
    chart_escape(out, words);
    text_add(out, "</p>\n");
}

static void cell(struct text *out, const char *words)
{
    text_add(out, "<td>");
    chart_escape(out, words);
    text_add(out, "</td>");
}

/* With the value by which its column sorts; NaN: it comes last. */
static void value_cell(struct text *out, double value, const char *words)
{
    if (isnan(value))
        text_add(out, "<td>");
    else
        text_printf(out, "<td data-v=\"%.9g\">", value);
    chart_escape(out, isnan(value) ? "-" : words);
    text_add(out, "</td>");
}

static void percent_cell(struct text *out, double share, const char *format)
{
    char words[32];
    snprintf(words, sizeof words, format, 100 * share);
    value_cell(out, share, words);
}

static bool any_measured(const struct report *report)
{
    return !isnan(report_mean_error(report));
}

static const char *unit_of(const struct report *report)
{
    return report->unit ? report->unit : "tokens";
}

/* ---- the ranking ---- */
struct ranking_columns {
    bool measured, mfu;
    const struct report_plan *best;
};

static void memory_cell(struct text *out, const struct report *report, const struct report_plan *plan)
{
    char words[96], number[TEXT_NUMBER_BYTES], limit[TEXT_NUMBER_BYTES];
    int64_t bytes = chart_most_bytes(plan->predicted_peak_bytes, plan->rank_count);
    snprintf(words, sizeof words, "%s of %s", text_bytes(number, bytes),
             text_bytes(limit, chart_available_bytes(report, plan)));
    text_printf(out, "<td data-v=\"%lld\"%s>", (long long)bytes, report_fits(plan) ? "" : " class=\"bad\"");
    chart_escape(out, words);
    text_add(out, report_fits(plan) ? "</td>" : "<br>does not fit</td>");
}

static void plan_row(struct text *out, const struct report *report, const struct report_plan *plan, int place,
                     const struct ranking_columns *columns)
{
    char number[TEXT_NUMBER_BYTES], words[64];
    bool failed = plan->failure != NULL;
    int64_t step = report_step_ns(plan);
    double tokens_per_s = plan->tokens_per_step / ((double)max_i64(1, step) * 1e-9);
    text_printf(out, "<tr%s><td data-v=\"%d\"><b class=\"place\">%d</b></td><th scope=\"row\" data-v=\"%d\">",
                plan->chosen ? " class=\"chosen\"" : "", place, place, place);
    text_printf(out, "<a href=\"#plan-%d\">", place);
    chart_escape(out, plan->name);
    text_printf(out, "</a><br><span class=\"%s\">", failed ? "bad" : "soft");
    chart_escape(out, failed ? plan->failure : plan->description);
    text_add(out, "</span></th>");
    value_cell(out, failed ? NAN : (double)plan->predicted_step_ns, text_duration_ns(number, plan->predicted_step_ns));
    if (columns->measured) {
        snprintf(words, sizeof words, "%s \xc2\xb1 %.1f %%", text_duration_ns(number, plan->measured_step_ns),
                 50 * plan->measured_spread);
        value_cell(out, plan->measured_step_ns ? (double)plan->measured_step_ns : NAN, words);
        percent_cell(out, report_error(plan), "%+.1f %%");
    }
    percent_cell(out, failed ? NAN : report_times_as_long(plan, columns->best) - 1, "%+.1f %%");
    snprintf(words, sizeof words, "%.1f", tokens_per_s);
    value_cell(out, failed ? NAN : tokens_per_s,
               tokens_per_s < 100 ? words : text_count(number, llround(tokens_per_s)));
    if (columns->mfu)
        percent_cell(out, plan->prediction && plan->prediction->mfu > 0 ? plan->prediction->mfu : NAN, "%.1f %%");
    if (failed || !plan->predicted_peak_bytes)
        value_cell(out, NAN, "-");
    else
        memory_cell(out, report, plan);
    if (columns->measured) {
        int64_t bytes = chart_most_bytes(plan->measured_peak_bytes, plan->rank_count);
        value_cell(out, plan->measured_peak_bytes ? (double)bytes : NAN, text_bytes(number, bytes));
    }
    text_add(out, "</tr>\n");
}

static void head(struct text *out, const char *words)
{
    text_printf(out, "<th scope=\"col\">%s</th>", words);
}

static void plan_table(struct text *out, const struct report *report, const int *order)
{
    const struct report_plan *best = &report->plans[order[0]];
    struct ranking_columns columns = { any_measured(report), false, best };
    for (int i = 0; i < report->plan_count; i++)
        columns.mfu |= report->plans[i].prediction && report->plans[i].prediction->mfu > 0;
    text_add(out, "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"plans\"><table "
                  "class=\"plans\"><thead><tr>");
    head(out, "place");
    head(out, "plan");
    head(out, "predicted step");
    if (columns.measured) {
        head(out, "measured step");
        head(out, "prediction error");
    }
    head(out, report_is_same_work(report) ? "against the fastest" : "time for equal work, against the first");
    text_printf(out, "<th scope=\"col\">%s/s</th>", unit_of(report));
    if (columns.mfu)
        head(out, "MFU");
    head(out, "predicted peak memory");
    if (columns.measured)
        head(out, "measured peak memory");
    text_add(out, "</tr></thead><tbody>\n");
    for (int i = 0; i < report->plan_count; i++)
        plan_row(out, report, &report->plans[order[i]], i + 1, &columns);
    text_add(out, "</tbody></table></div>\n");
    if (columns.measured)
        paragraph(out, "soft", "Measured: median \xc2\xb1 half of the interquartile range.");
    if (columns.mfu)
        paragraph(out, "soft",
                  "MFU: floating-point operations that the model needs, of what the devices could do at their peak. "
                  "Memory: of the "
                  "fullest device, of what it has for plans.");
}

/* ---- exposed communication, instructions ---- */
static void exposed_table(struct text *out, const struct report *report, const int *order)
{
    char number[TEXT_NUMBER_BYTES];
    bool measured = any_measured(report);
    text_printf(out,
                "<div class=\"wide\"><table><thead><tr><th scope=\"col\">exposed communication</th><th "
                "scope=\"col\">predicted</th><th scope=\"col\">of the step</th>%s</tr></thead><tbody>\n",
                measured ? "<th scope=\"col\">measured</th><th scope=\"col\">difference, of the step</th>" : "");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (plan->failure)
            continue;
        int64_t exposed_ns = report_exposed_ns(plan->predicted_breakdown_ns);
        text_printf(out, "<tr%s><td><b class=\"place\">%d</b> ", plan->chosen ? " class=\"chosen\"" : "", i + 1);
        chart_escape(out, plan->name);
        text_add(out, "</td>");
        cell(out, text_duration_ns(number, exposed_ns));
        percent_cell(out, (double)exposed_ns / (double)max_i64(1, plan->predicted_step_ns), "%.1f %%");
        if (measured) {
            cell(out, plan->measured ? text_duration_ns(number, report_exposed_ns(plan->measured_breakdown_ns)) : "-");
            percent_cell(out, report_exposed_error(plan), "%+.1f %%");
        }
        text_add(out, "</tr>\n");
    }
    text_add(out, "</tbody></table></div>\n");
    paragraph(
        out, "soft",
        measured
            ? "Exposed: the slowest rank communicates, or copies to host memory, and computes nothing meanwhile. What "
              "is "
              "measured here is the timeline of one step, the last one of the run where that is nearest to the median, "
              "which the table above has: on an unsteady machine they differ."
            : "Exposed: the slowest rank communicates, or copies to host memory, and computes nothing meanwhile.");
}

static void join_table(struct text *out, const struct report_plan *plan)
{
    struct report_op ops[REPORT_MAX_OPS];
    char number[TEXT_NUMBER_BYTES];
    int count = report_join(plan, ops);
    text_printf(out,
                "<div class=\"wide\"><table><thead><tr><th scope=\"col\">instruction</th><th "
                "scope=\"col\">predicted per rank</th>%s</tr></thead><tbody>\n",
                plan->measured ? "<th scope=\"col\">measured per rank</th><th scope=\"col\">error</th>" : "");
    for (int i = 0; i < count; i++) {
        text_add(out, "<tr>");
        cell(out, ops[i].name);
        cell(out, text_duration_ns(number, ops[i].predicted_ns));
        if (plan->measured) {
            cell(out, text_duration_ns(number, ops[i].measured_ns));
            percent_cell(out,
                         ops[i].measured_ns
                             ? (double)(ops[i].predicted_ns - ops[i].measured_ns) / (double)ops[i].measured_ns
                             : NAN,
                         "%+.1f %%");
        }
        text_add(out, "</tr>\n");
    }
    text_add(out, "</tbody></table></div>\n");
}

/* ---- one plan ---- */
static void pairs_table(struct text *out, const char *const (*pairs)[2])
{
    text_add(out, "<div class=\"wide\"><table class=\"origin\"><tbody>\n");
    for (int i = 0; pairs && pairs[i][0]; i++) {
        if (!pairs[i][1])
            continue;
        text_add(out, "<tr>");
        cell(out, pairs[i][0]);
        cell(out, pairs[i][1]);
        text_add(out, "</tr>\n");
    }
    text_add(out, "</tbody></table></div>\n");
}

/* An equal share of what is left, of which simple ones need little. */
static void timeline(struct text *out, const struct report_plan *plan, const struct timeline *timeline, int64_t span_ns,
                     const char *title, struct room *room)
{
    size_t before = out->length;
    chart_gantt(out, plan->program, timeline, span_ns, title, room->bytes / (size_t)max_i64(1, room->timelines));
    room->bytes -= out->length - before < room->bytes ? out->length - before : room->bytes;
    room->timelines--;
}

static void plan_timelines(struct text *out, const struct report_plan *plan, int64_t span_ns, struct room *room)
{
    char title[256], number[TEXT_NUMBER_BYTES];
    text_add(out, "<h4>Timeline</h4>\n");
    if (plan->measured)
        paragraph(out, "soft", "predicted");
    snprintf(title, sizeof title, "%s, predicted", plan->name);
    timeline(out, plan, plan->predicted, span_ns, title, room);
    if (plan->measured) {
        text_printf(out, "<p class=\"soft\">measured: one step of %s</p>\n",
                    text_duration_ns(number, plan->measured->step_ns));
        snprintf(title, sizeof title, "%s, measured", plan->name);
        timeline(out, plan, plan->measured, span_ns, title, room);
    }
    text_add(out, "<h4>A closer look at the slowest stage</h4>\n");
    chart_closeup(out, plan->program, plan->predicted);
}

static void plan_details(struct text *out, const struct report_plan *plan, int place, int64_t span_ns,
                         struct room *room)
{
    text_printf(out, "<details class=\"plan\" id=\"plan-%d\"%s><summary><h3><b class=\"place\">%d</b> ", place,
                place == 1 ? " open" : "", place);
    chart_escape(out, plan->name);
    text_add(out, "</h3></summary>\n");
    paragraph(out, plan->failure ? "bad" : "soft", plan->failure ? plan->failure : plan->description);
    if (plan->plan && plan->cluster) {
        text_add(out, "<h4>Where its stages are</h4>\n");
        chart_places(out, plan);
    }
    if (plan->memory && !plan->failure) {
        text_add(out, "<h4>Stages</h4>\n");
        chart_stages(out, plan);
    }
    if (plan->program && plan->predicted && !plan->failure) {
        plan_timelines(out, plan, span_ns, room);
        text_add(out, "<details><summary><h4>What each kind of instruction takes</h4></summary>\n");
        join_table(out, plan);
        text_add(out, "</details>\n");
    }
    if (plan->origin) {
        text_add(out, "<h4>Where its numbers come from</h4>\n");
        pairs_table(out, plan->origin);
    }
    text_add(out, "</details>\n");
}

/* ---- the top ---- */
static void tile(struct text *out, const char *value, const char *name)
{
    text_add(out, "<div><dt>");
    chart_escape(out, name);
    text_add(out, "</dt><dd>");
    chart_escape(out, value);
    text_add(out, "</dd></div>");
}

static void tiles(struct text *out, const struct report *report, const int *order)
{
    const struct report_plan *best = &report->plans[order[0]];
    char number[TEXT_NUMBER_BYTES], words[96], limit[TEXT_NUMBER_BYTES];
    int64_t step = report_step_ns(best);
    double error = report_mean_error(report);
    text_add(out, "<dl class=\"tiles\">");
    snprintf(words, sizeof words, "step of the %s, %s", report_is_same_work(report) ? "fastest" : "first",
             best->measured_step_ns ? "measured" : "predicted");
    tile(out, text_duration_ns(number, step), words);
    double tokens_per_s = best->tokens_per_step / ((double)max_i64(1, step) * 1e-9) / best->rank_count;
    snprintf(words, sizeof words, "%s/s per device", unit_of(report));
    tile(out, text_count(number, llround(tokens_per_s)), words);
    if (best->prediction && best->prediction->mfu > 0) {
        snprintf(words, sizeof words, "%.1f %%", 100 * best->prediction->mfu);
        tile(out, words, "of the peak's operations (MFU)");
    }
    if (best->predicted_peak_bytes) {
        snprintf(words, sizeof words, "%s of %s",
                 text_bytes(number, chart_most_bytes(best->predicted_peak_bytes, best->rank_count)),
                 text_bytes(limit, chart_available_bytes(report, best)));
        tile(out, words, "its fullest device");
    }
    if (!isnan(error)) {
        snprintf(words, sizeof words, "%.1f %%", 100 * error);
        tile(out, words, "mean error of the predictions");
    }
    text_add(out, "</dl>\n");
}

/* What the comparison says, in a sentence. */
static void lead(struct text *out, const struct report *report, const int *order)
{
    const struct report_plan *best = &report->plans[order[0]];
    char number[TEXT_NUMBER_BYTES];
    text_add(out, "<p class=\"lead\">");
    if (best->failure) {
        text_add(out, "None of the plans can be run.</p>\n");
        return;
    }
    if (!report_fits(best))
        text_add(out, "None of the plans fits. ");
    text_add(out, "<strong>");
    chart_escape(out, best->name);
    if (report_is_same_work(report)) {
        text_printf(out, "</strong> is %s: a step takes %s", report->plan_count > 1 ? "the fastest" : "the only plan",
                    text_duration_ns(number, report_step_ns(best)));
    } else {
        double each_s = best->tokens_per_step / ((double)max_i64(1, report_step_ns(best)) * 1e-9);
        text_printf(out, "</strong> has most %s/s, %s", unit_of(report), text_count(number, llround(each_s)));
        text_printf(out, " in steps of %s", text_duration_ns(number, report_step_ns(best)));
    }
    const struct report_plan *next = report->plan_count > 1 ? &report->plans[order[1]] : NULL;
    if (next && !next->failure && report_fits(next) == report_fits(best)) {
        double less = 1 - report_times_as_long(best, next);
        if (!report_is_same_work(report))
            draw_words(out, ", %.1f %% more than %s (the plans' steps are not of the same work)",
                       100 * less / (1 - less), next->name);
        else if (less < .0005)
            draw_words(out, ", as that of %s does", next->name);
        else
            draw_words(out, ", %.1f %% less than that of %s", 100 * less, next->name);
    }
    for (int i = 1; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (plan->chosen && !plan->failure && report_fits(plan))
            draw_words(out, "; %s is in place %d of %d", plan->name, i + 1, report->plan_count);
        else if (plan->chosen && !plan->failure)
            draw_words(out, "; %s does not fit", plan->name);
    }
    text_add(out, ".</p>\n");
}

/* Raw data for re-use. "<" is written as \u003c, so that no content can end the element, and white space between values
 * is left out. */
static void raw_data(struct text *out, const struct report *report)
{
    struct text json = { 0 };
    bool inside = false;
    report_json(report, RAW_RANKS, &json);
    text_add(out, "<script type=\"application/json\" id=\"cleave-comparison\">");
    for (size_t i = 0; i < json.length; i++) {
        char c = json.data[i];
        if (inside && c == '\\') {
            text_add_bytes(out, &json.data[i++], 2);
            continue;
        }
        inside ^= c == '"';
        if (c == '<')
            text_add(out, "\\u003c");
        else if (inside || (c != ' ' && c != '\n'))
            text_add_bytes(out, &c, 1);
    }
    text_add(out, "</script>\n");
    out->failed |= json.failed;
    text_free(&json);
}

static void origin(struct text *out, const struct report *report)
{
    text_add(out, "<h2 id=\"origin\">Where the numbers come from</h2>\n");
    paragraph(out, "soft", "Of this comparison; what each plan is priced by stands with the plan.");
    pairs_table(out, report->provenance);
    paragraph(out, "soft",
              "The raw data are in this file, as JSON in the element cleave-comparison: all that the tables show, "
              "every step of "
              "every run, and the plan files.");
}

static bool has_losses(const struct report *report)
{
    for (int i = 0; i < report->plan_count; i++)
        if (report->plans[i].losses)
            return true;
    return false;
}

static void scaling_table(struct text *out, const struct report *report)
{
    const struct report_point *base = NULL;
    char number[TEXT_NUMBER_BYTES];
    text_add(
        out,
        "<div class=\"wide\"><table class=\"scaling\"><thead><tr><th scope=\"col\">devices</th><th "
        "scope=\"col\">step</th><th "
        "scope=\"col\">times as fast</th><th scope=\"col\">of equal work</th><th scope=\"col\">peak memory</th><th "
        "scope=\"col\">the best plan</th></tr></thead><tbody>\n");
    for (int i = 0; i < report->scaling_count; i++) {
        const struct report_point *p = &report->scaling[i];
        text_printf(out, "<tr><td>%s</td>", text_count(number, p->devices));
        if (!p->words) {
            text_add(out, "<td colspan=\"5\">nothing fits</td></tr>\n");
            continue;
        }
        base = base ? base : p;
        double faster = (double)base->step_ns / (double)p->step_ns;
        cell(out, text_duration_ns(number, p->step_ns));
        text_printf(out, "<td>%.2f</td><td>%.0f %%</td>", faster, 100 * faster * base->devices / p->devices);
        cell(out, text_bytes(number, p->peak_bytes));
        cell(out, p->words);
        text_add(out, "</tr>\n");
    }
    text_add(out, "</tbody></table></div>\n");
}

static void figures(struct text *out, const struct report *report, const int *order)
{
    text_add(out, "<h2 id=\"steps\">Step time, predicted against measured</h2>\n");
    if (!any_measured(report))
        paragraph(out, "soft", "None of these plans was run here: what is measured is missing.");
    chart_steps(out, report, order);
    paragraph(
        out, "soft",
        chart_has_ranges(report)
            ? "The range of a prediction: where steps lay that were published of the same framework, device and number "
              "format, beside what this program predicts of them; four of five of them where there are ten or more."
            : "No range is drawn: no published runs of the same framework, device and number format were held against "
              "such predictions.");
    text_add(out, "<h2 id=\"time\">What a step is spent on</h2>\n<p class=\"soft\">Of the rank that ends last.</p>\n");
    chart_breakdown(out, report, order);
    exposed_table(out, report, order);
    text_add(
        out,
        "<h2 id=\"memory\">Peak memory per rank</h2>\n<p class=\"soft\">Of the stage with least room left, when most "
        "bytes live. A red mark: what a device has for plans.</p>\n");
    chart_memory(out, report, order);
    text_add(out, "<h2 id=\"tradeoff\">Time against memory</h2>\n");
    paragraph(
        out, "soft",
        report->frontier_count > 0
            ? "Numbered: the plans. Small dots: what a search finds with ever less memory; below and left of the line "
              "nothing was found. A red line: what a device has."
            : "Numbered: the plans; none of them lies below and left of the line. A red line: what a device has. The "
              "option pareto adds what a search finds.");
    chart_tradeoff(out, report, order);
    if (report->scaling_count > 0) {
        text_add(
            out,
            "<h2 id=\"scaling\">More and fewer devices</h2>\n<p class=\"soft\">The best plan that a search finds for "
            "the same batch; dashed: the same work per device at the same speed. Both axes are logarithmic.</p>\n");
        chart_scaling(out, report);
        scaling_table(out, report);
    }
    if (any_measured(report) && has_losses(report)) {
        text_add(out, "<h2 id=\"loss\">Training loss</h2>\n");
        chart_loss(out, report, order);
    }
}

/* Of the script, as its policy names it. */
static void add_script_hash(struct text *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    struct sha256 hash;
    unsigned char bytes[SHA256_BYTES + 1] = { 0 };
    sha256_begin(&hash);
    for (int i = 0; report_script[i]; i++) {
        sha256_add(&hash, report_script[i], strlen(report_script[i]));
        sha256_add(&hash, "\n", 1);
    }
    sha256_end(&hash, bytes);
    for (int i = 0; i < SHA256_BYTES; i += 3) { /* 32 bytes: the last group has two, and one padding character */
        unsigned group =
            (unsigned)bytes[i] << 16 | (unsigned)bytes[i + 1] << 8 | (i + 2 < SHA256_BYTES ? bytes[i + 2] : 0u);
        char four[4] = { digits[group >> 18 & 63], digits[group >> 12 & 63], digits[group >> 6 & 63],
                         i + 2 < SHA256_BYTES ? digits[group & 63] : '=' };
        text_add_bytes(out, four, 4);
    }
}

static void lines(struct text *out, const char *const *list)
{
    for (int i = 0; list[i]; i++) {
        text_add(out, list[i]);
        text_add(out, "\n");
    }
}

static void page_head(struct text *out, const struct report *report)
{
    text_add(out,
             "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
             "content=\"width=device-width, initial-scale=1\"><meta name=\"color-scheme\" content=\"light dark\">\n"
             "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src "
             "'unsafe-inline'; script-src 'sha256-");
    add_script_hash(out);
    text_add(out, "'\">\n<title>");
    chart_escape(out, report->title);
    text_add(out, "</title>\n<style>\n");
    lines(out, report_style);
    text_add(out, "</style></head><body>\n<header><p class=\"soft\">");
    chart_escape(out, report->model);
    text_add(out, " on ");
    chart_escape(out, report->cluster);
    text_add(out, "</p>\n<h1>");
    chart_escape(out, report->title);
    text_add(out, "</h1>\n");
}

static void navigation(struct text *out, const struct report *report)
{
    static const char *const links[][2] = { { "plans", "Plans" },
                                            { "steps", "Step time" },
                                            { "time", "What it is spent on" },
                                            { "memory", "Memory" },
                                            { "tradeoff", "Time against memory" },
                                            { "scaling", "Devices" },
                                            { "each", "Each plan" },
                                            { "origin", "Origin" } };
    text_add(out, "<nav aria-label=\"sections\"><ul>");
    for (size_t i = 0; i < sizeof links / sizeof *links; i++)
        if (strcmp(links[i][0], "scaling") != 0 || report->scaling_count > 0)
            text_printf(out, "<li><a href=\"#%s\">%s</a></li>", links[i][0], links[i][1]);
    text_add(out, "</ul></nav></header>\n<main>\n");
}

void report_html(const struct report *report, struct text *out)
{
    int order[REPORT_MAX_PLANS];
    struct room room = { TIMELINES_BYTES, 0 };
    int64_t span_ns = 1;
    report_order(report, order);
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[i];
        room.timelines += (plan->predicted != NULL) + (plan->measured != NULL);
        span_ns = max_i64(span_ns, max_i64(plan->predicted_step_ns, plan->measured ? plan->measured->step_ns : 0));
    }
    page_head(out, report);
    lead(out, report, order);
    for (int i = 0; report->notes && report->notes[i]; i++)
        paragraph(out, "note", report->notes[i]);
    tiles(out, report, order);
    navigation(out, report);
    if (report_is_same_work(report))
        text_add(out, "<h2 id=\"plans\">Plans, fastest first</h2>\n");
    else
        text_printf(out, "<h2 id=\"plans\">Plans, most %s/s first</h2>\n", unit_of(report));
    plan_table(out, report, order);
    figures(out, report, order);
    text_add(
        out,
        "<h2 id=\"each\">Each plan</h2>\n<p class=\"soft\">All timelines are on one time axis; rows are stages, or "
        "ranks where those were measured, with their transfers beneath.</p>\n");
    for (int i = 0; i < report->plan_count; i++)
        plan_details(out, &report->plans[order[i]], i + 1, span_ns, &room);
    origin(out, report);
    text_add(out, "</main>\n");
    raw_data(out, report);
    text_add(out, "<script>");
    lines(out, report_script);
    text_add(out, "</script>\n</body></html>\n");
}
