#include "benchmarks/chart.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

const char *const chart_style =
    ":root{color-scheme:light "
    "dark;--ink:#1c1e21;--soft:#5c6370;--line:#d4d7dd;--page:#ffffff;--panel:#f6f7f9;--mark:#0b66c3;"
    "--t0:#3b76c4;--t1:#8fb4e3;--t2:#d9822b;--t3:#c23030;--t4:#8f398f;--t5:#b07d2b;--t6:#238551;--t7:#c5cbd3;--t8:#"
    "7961db;--t9:#5c8a8a}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e6e8eb;--soft:#9aa3b0;--line:#3a3f47;--page:#16181c;--panel:#"
    "1f2227;--mark:#6cb2ff;"
    "--t0:#5b93dd;--t1:#3e5f8a;--t2:#ec9a3c;--t3:#e76a6e;--t4:#bd6bbd;--t5:#d1a35b;--t6:#4fb37f;--t7:#454b54;--t8:#"
    "9d8bf0;--t9:#7fb5b5}}"
    "svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}svg "
    ".grid{stroke:var(--line);stroke-width:1}"
    "svg .limit{stroke:var(--t3);stroke-width:2;stroke-dasharray:5 3}svg .dot{fill:var(--mark)}svg "
    ".trace{fill:none;stroke-width:1.6}";

void chart_escape(struct text *out, const char *raw)
{
    for (const char *p = raw ? raw : ""; *p; p++)
        switch (*p) {
        case '<':
            text_add(out, "&lt;");
            break;
        case '>':
            text_add(out, "&gt;");
            break;
        case '&':
            text_add(out, "&amp;");
            break;
        case '"':
            text_add(out, "&quot;");
            break;
        case '\'':
            text_add(out, "&#39;");
            break;
        default:
            text_add_bytes(out, p, 1);
        }
}

enum { WIDTH = 900, LABEL = 190, PLOT = WIDTH - LABEL - 140 };

static void open_svg(struct text *out, int height, const char *label)
{
    text_printf(
        out,
        "<svg role=\"img\" viewBox=\"0 0 %d %d\" width=\"100%%\" xmlns=\"http://www.w3.org/2000/svg\" aria-label=\"",
        WIDTH, height);
    chart_escape(out, label);
    text_add(out, "\"><title>");
    chart_escape(out, label);
    text_add(out, "</title>");
}

static void bar(struct text *out, double x, double y, double width, double height, const char *fill, const char *title)
{
    if (width <= 0)
        return;
    text_printf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%.1f\" style=\"fill:%s\"><title>", x, y,
                width, height, fill);
    chart_escape(out, title);
    text_add(out, "</title></rect>");
}

static void label(struct text *out, double x, double y, const char *anchor, const char *class, const char *words)
{
    text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    chart_escape(out, words);
    text_add(out, "</text>");
}

/* A name that does not fit the label column ends in an ellipsis. */
static void short_label(struct text *out, double x, double y, const char *words)
{
    char cut[64];
    snprintf(cut, sizeof cut, "%s", words);
    if (strlen(words) > 28)
        memcpy(cut + 26, "...", 4);
    label(out, x, y, "end", "", cut);
}

static void fill_of(char out[16], int kind)
{
    snprintf(out, 16, "var(--t%d)", kind % 10);
}

/* Where the next one begins. */
static int legend_item(struct text *out, int x, int y, const char *fill, const char *name)
{
    bar(out, x, y, 10, 10, fill, name);
    label(out, x + 14, y + 9, "start", "soft", name);
    return x + 24 + 7 * (int)strlen(name);
}

static void legend(struct text *out, int y)
{
    int x = LABEL;
    for (int k = 0; k < TIME_KIND_COUNT; k++) {
        char fill[16];
        fill_of(fill, k);
        x = legend_item(out, x, y, fill, time_kind_names[k]);
    }
}

/* words: behind the bar, before its whole time. */
static void stack(struct text *out, int y, int height, const int64_t ns[TIME_KIND_COUNT], int64_t scale_ns,
                  const char *what, const char *words)
{
    enum { SHORT_PLOT = PLOT - 60 }; /* the words are longer than those behind other bars */
    double x = LABEL;
    int64_t total = 0;
    char number[TEXT_NUMBER_BYTES];
    for (int k = 0; k < TIME_KIND_COUNT; k++) {
        char fill[16], title[128];
        double width = (double)ns[k] / (double)scale_ns * SHORT_PLOT;
        fill_of(fill, k);
        snprintf(title, sizeof title, "%s %s: %s", what, time_kind_names[k], text_duration_ns(number, ns[k]));
        bar(out, x, y, width, height, fill, title);
        x += width;
        total += ns[k];
    }
    char line[96];
    snprintf(line, sizeof line, "%s: %s", words, text_duration_ns(number, total));
    label(out, x + 6, y + height - 3, "start", "soft", line);
}

static int64_t sum(const int64_t ns[TIME_KIND_COUNT])
{
    int64_t total = 0;
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        total += ns[k];
    return total;
}

void chart_breakdown(struct text *out, const struct report *report, const int *order)
{
    int64_t scale = 1;
    for (int i = 0; i < report->plan_count; i++)
        scale = max_i64(
            scale, max_i64(sum(report->plans[i].predicted_breakdown_ns), sum(report->plans[i].measured_breakdown_ns)));
    open_svg(out, 34 + 44 * report->plan_count, "Step time by what it is spent on, predicted above measured");
    legend(out, 4);
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        int y = 30 + 44 * i;
        short_label(out, LABEL - 8, y + 20, plan->name);
        if (plan->failure) {
            label(out, LABEL, y + 20, "start", "soft", plan->failure);
            continue;
        }
        stack(out, y, 16, plan->predicted_breakdown_ns, scale, "predicted", "predicted");
        if (plan->measured)
            stack(out, y + 18, 16, plan->measured_breakdown_ns, scale, "measured", "one step's timeline");
    }
    text_add(out, "</svg>\n");
}

static int64_t largest(const int64_t *bytes, int count)
{
    int64_t most = 0;
    for (int i = 0; i < count && bytes; i++)
        most = max_i64(most, bytes[i]);
    return most;
}

static void memory_bar(struct text *out, double y, int64_t bytes, int64_t scale, const char *fill, int rank,
                       const char *what)
{
    char number[TEXT_NUMBER_BYTES], words[128];
    snprintf(words, sizeof words, "rank %d, %s: %s", rank, what, text_bytes(number, bytes));
    bar(out, LABEL, y, (double)bytes / (double)scale * PLOT, 7, fill, words);
}

/* Behind the bars of a plan's first rank: predicted, measured. */
static void memory_label(struct text *out, double y, int64_t predicted, int64_t measured, int64_t scale)
{
    char number[TEXT_NUMBER_BYTES], words[128];
    int length = snprintf(words, sizeof words, "%s", text_bytes(number, predicted));
    if (measured > 0)
        snprintf(words + length, sizeof words - (size_t)length, ", %s", text_bytes(number, measured));
    label(out, LABEL + (double)max_i64(predicted, measured) / (double)scale * PLOT + 6, y + 11, "start", "soft", words);
}

enum { MEMORY_RANKS = 8 }; /* more ranks are alike: the table has all */
static const char predicted_fill[] = "var(--t0)", measured_fill[] = "var(--t6)";
void chart_memory(struct text *out, const struct report *report, const int *order)
{
    int64_t most = 1, limit = report->memory_limit_bytes;
    int height = 24;
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[i];
        most = max_i64(most, max_i64(largest(plan->predicted_peak_bytes, plan->rank_count),
                                     largest(plan->measured_peak_bytes, plan->rank_count)));
        height += 14 + 18 * (int)min_i64(plan->rank_count, MEMORY_RANKS);
    }
    bool near = limit > 0 && limit < 3 * most; /* a far limit would squeeze the bars: it is said in words */
    int64_t scale = near ? max_i64(most, limit) : most;
    open_svg(out, height, "Peak memory per rank against the limit, predicted above measured");
    int after = legend_item(out, legend_item(out, LABEL, 2, predicted_fill, "predicted"), 2, measured_fill, "measured");
    double y = 20;
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        short_label(out, LABEL - 8, y + 12, plan->name);
        for (int r = 0; r < plan->rank_count && r < MEMORY_RANKS; r++, y += 18) {
            if (plan->predicted_peak_bytes)
                memory_bar(out, y, plan->predicted_peak_bytes[r], scale, predicted_fill, r, "predicted");
            if (plan->measured_peak_bytes)
                memory_bar(out, y + 8, plan->measured_peak_bytes[r], scale, measured_fill, r, "measured");
            if (r == 0 && plan->predicted_peak_bytes)
                memory_label(out, y, plan->predicted_peak_bytes[0],
                             plan->measured_peak_bytes ? plan->measured_peak_bytes[0] : 0, scale);
        }
        y += 14;
    }
    char number[TEXT_NUMBER_BYTES], words[96];
    snprintf(words, sizeof words, "limit %s per rank", text_bytes(number, limit));
    if (near) {
        double x = LABEL + (double)limit / (double)scale * PLOT;
        text_printf(out, "<line class=\"limit\" x1=\"%.1f\" x2=\"%.1f\" y1=\"16\" y2=\"%d\"/>", x, x, height);
        label(out, x, 11, "end", "soft", words);
    } else if (limit > 0)
        label(out, after + 10, 11, "start", "soft", words);
    text_add(out, "</svg>\n");
}

void chart_scatter(struct text *out, const struct report *report)
{
    enum { SIDE = 320, LEFT = 80, TOP = 10 };
    int64_t most = 1;
    char number[TEXT_NUMBER_BYTES], words[160];
    for (int i = 0; i < report->plan_count; i++)
        if (report->plans[i].measured_step_ns)
            most = max_i64(most, max_i64(report->plans[i].predicted_step_ns, report->plans[i].measured_step_ns));
    double scale = SIDE / (1.1 * (double)most);
    open_svg(out, SIDE + 60, "Predicted against measured step time; on the line they agree");
    for (int tick = 0; tick <= 4; tick++) {
        double at = SIDE * tick / 4.0;
        int64_t ns = (int64_t)(at / scale);
        text_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, LEFT + SIDE,
                    TOP + SIDE - at, TOP + SIDE - at);
        text_printf(out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", LEFT + at, LEFT + at,
                    TOP, TOP + SIDE);
        label(out, LEFT - 6, TOP + SIDE - at + 4, "end", "soft", text_duration_ns(number, ns));
        label(out, LEFT + at, TOP + SIDE + 16, "middle", "soft", number);
    }
    text_printf(out, "<line x1=\"%d\" y1=\"%d\" x2=\"%d\" y2=\"%d\" style=\"stroke:var(--soft)\"/>", LEFT, TOP + SIDE,
                LEFT + SIDE, TOP);
    label(out, LEFT + SIDE / 2.0, TOP + SIDE + 36, "middle", "", "measured step");
    text_printf(out, "<text transform=\"translate(14 %d) rotate(-90)\" text-anchor=\"middle\">predicted step</text>",
                TOP + SIDE / 2);
    int row = 0;
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[i];
        if (!plan->measured_step_ns || plan->failure)
            continue;
        double x = LEFT + (double)plan->measured_step_ns * scale,
               y = TOP + SIDE - (double)plan->predicted_step_ns * scale;
        snprintf(words, sizeof words, "%d  %s: %+.1f %%", row + 1, plan->name, 100 * report_error(plan));
        text_printf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"><title>", x, y);
        chart_escape(out, words);
        text_add(out, "</title></circle>");
        snprintf(number, sizeof number, "%d", row + 1);
        label(out, x + 8, y - 6 + 12 * (row % 2), "start", "", number);
        label(out, LEFT + SIDE + 40, TOP + 20 + 20 * row++, "start", "", words);
    }
    text_add(out, "</svg>\n");
}

/* ---- predicted against measured, over orders of magnitude ---- */
enum { LOG_SIDE = 480, LOG_LEFT = 90, LOG_TOP = 16, LEGEND_ROW = 18 };
/* Literal: whatever shows pictures understands them, and a file on its own has a page of its own. */
static const char *const series_colours[] = { "#1f77b4", "#d9822b", "#2ca02c", "#c23030", "#8961db",
                                              "#7f5539", "#d957a8", "#5c6370", "#a3a300", "#17a2b8" };
enum { COLOURS = sizeof series_colours / sizeof *series_colours };

struct log_axes {
    double least, most; /* log10 of seconds */
};

static double log_place(const struct log_axes *axes, double seconds)
{
    return LOG_SIDE * (log10(seconds) - axes->least) / (axes->most - axes->least);
}

/* A circle, a square, a diamond, a triangle: of colours there are only so many. */
static void mark(struct text *out, double x, double y, int series, const char *title)
{
    static const char *const shapes[] = { "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z", "M-3.5 -3.5h7v7h-7z",
                                          "M0 -5l5 5l-5 5l-5 -5z", "M0 -4.5l4.5 8h-9z" };
    text_printf(out, "<path transform=\"translate(%.1f %.1f)\" d=\"%s\" fill=\"%s\" fill-opacity=\"0.6\"><title>", x, y,
                shapes[series / COLOURS % 4], series_colours[series % COLOURS]);
    chart_escape(out, title);
    text_add(out, "</title></path>\n");
}

static struct log_axes log_axes_of(const struct chart_point *points, int count)
{
    struct log_axes axes = { 0, 1 };
    for (int i = 0; i < count; i++) {
        double least = log10(fmin(points[i].measured_s, points[i].predicted_s)),
               most = log10(fmax(points[i].measured_s, points[i].predicted_s));
        axes.least = i ? fmin(axes.least, least) : least;
        axes.most = i ? fmax(axes.most, most) : most;
    }
    double margin = .03 * (axes.most - axes.least) + .02;
    return (struct log_axes){ axes.least - margin, axes.most + margin };
}

/* Lines at 1, 2 and 5 times powers of ten; where there are many powers, at these alone. */
static void log_grid(struct text *out, const struct log_axes *axes)
{
    char number[TEXT_NUMBER_BYTES];
    bool sparse = axes->most - axes->least > 4;
    for (int power = (int)floor(axes->least); power <= (int)ceil(axes->most); power++)
        for (int step = 1; step <= 5; step += step == 1 ? 1 : 3) {
            double seconds = step * pow(10, power), at = log_place(axes, seconds);
            if (at < 0 || at > LOG_SIDE || (sparse && step > 1))
                continue;
            text_printf(out, "<path class=\"grid\" d=\"M%d %.1fh%dM%.1f %dv%d\"/>\n", LOG_LEFT, LOG_TOP + LOG_SIDE - at,
                        LOG_SIDE, LOG_LEFT + at, LOG_TOP, LOG_SIDE);
            snprintf(number, sizeof number, "%g s", seconds);
            label(out, LOG_LEFT - 6, LOG_TOP + LOG_SIDE - at + 4, "end", "soft", number);
            label(out, LOG_LEFT + at, LOG_TOP + LOG_SIDE + 16, "middle", "soft", number);
        }
}

void chart_log_scatter(struct text *out, const struct chart_point *points, int count, const char *const *series,
                       int series_count)
{
    struct log_axes axes = log_axes_of(points, count);
    int rows = LEGEND_ROW * (series_count + 3), height = LOG_TOP + (int)max_i64(LOG_SIDE, rows) + 50;
    double over = LOG_SIDE * log10(1.1) / (axes.most - axes.least),
           under = LOG_SIDE * log10(0.9) / (axes.most - axes.least), right = LOG_LEFT + LOG_SIDE + 30;
    open_svg(out, height, "Predicted against measured step time; on the line they agree");
    text_printf(out,
                "<style>svg text{fill:#1c1e21;font:12px system-ui,sans-serif}svg .soft{fill:#5c6370}svg "
                ".grid{fill:none;stroke:#d4d7dd}</style>\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n"
                "<clipPath id=\"plot\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/></clipPath>\n",
                WIDTH, height, LOG_LEFT, LOG_TOP, LOG_SIDE, LOG_SIDE);
    text_printf(out,
                "<path clip-path=\"url(#plot)\" d=\"M%d %.1fl%d %dv%.1fl%d %dz\" fill=\"#238551\" "
                "fill-opacity=\"0.18\"/>\n",
                LOG_LEFT, LOG_TOP + LOG_SIDE - over, LOG_SIDE, -LOG_SIDE, over - under, -LOG_SIDE, LOG_SIDE);
    log_grid(out, &axes);
    text_printf(out, "<path d=\"M%d %dl%d %d\" fill=\"none\" stroke=\"#1c1e21\"/>\n", LOG_LEFT, LOG_TOP + LOG_SIDE,
                LOG_SIDE, -LOG_SIDE);
    label(out, LOG_LEFT + LOG_SIDE / 2.0, LOG_TOP + LOG_SIDE + 38, "middle", "", "measured step");
    text_printf(out, "<text transform=\"translate(16 %d) rotate(-90)\" text-anchor=\"middle\">predicted step</text>\n",
                LOG_TOP + LOG_SIDE / 2);
    for (int i = 0; i < count; i++)
        mark(out, LOG_LEFT + log_place(&axes, points[i].measured_s),
             LOG_TOP + LOG_SIDE - log_place(&axes, points[i].predicted_s), points[i].series, points[i].title);
    for (int i = 0; i < series_count; i++) {
        mark(out, right, LOG_TOP + 8 + LEGEND_ROW * i, i, series[i]);
        label(out, right + 12, LOG_TOP + 12 + LEGEND_ROW * i, "start", "", series[i]);
    }
    label(out, right - 6, LOG_TOP + 16 + LEGEND_ROW * (series_count + 1), "start", "soft",
          "below the line: predicted too short");
    label(out, right - 6, LOG_TOP + 16 + LEGEND_ROW * (series_count + 2), "start", "soft", "green: within 10 %");
    text_add(out, "</svg>\n");
}

/* ---- Gantt ---- */
enum { ROW = 14, GANTT_RANKS = 8, GANTT_COLUMNS = PLOT };

/* Forward, backward and recomputation in three shades of the compute colour. */
static void gantt_fill(char out[64], const struct instr *instr)
{
    bool backward =
        instr->lane == LANE_COMPUTE && (instr->phase == PHASE_BACKWARD_INPUT || instr->phase == PHASE_BACKWARD_WEIGHT);
    if (backward && !instr->again)
        snprintf(out, 64, "color-mix(in srgb,var(--t0) 60%%,var(--t6))");
    else
        fill_of(out, timeline_kind(instr));
}

struct run {
    double from, to;
    const struct instr *instr;
    int count;
};

static void flush(struct text *out, const struct run *run, double y)
{
    char fill[64], title[160];
    if (!run->instr)
        return;
    gantt_fill(fill, run->instr);
    snprintf(title, sizeof title, "%s, layer %d, micro-batch %d%s", op_info[run->instr->op].name, run->instr->layer,
             run->instr->micro, run->count > 1 ? " and following" : "");
    bar(out, run->from, y, fmax(run->to - run->from, 0.4), ROW - 3, fill, title);
}

static void gantt_row(struct text *out, const struct program *program, const struct rank_timeline *rank, enum lane lane,
                      int64_t span_ns, double y)
{
    struct run run = { 0 };
    for (int s = 0; s < rank->span_count; s++) { /* neighbours of one colour and micro-batch become one bar */
        const struct span *span = &rank->spans[s];
        const struct instr *instr = &program->stages[rank->stage].instrs[s];
        if (instr->lane != lane || span->finish_ns <= span->start_ns)
            continue;
        double from = LABEL + (double)span->start_ns / (double)span_ns * PLOT,
               to = LABEL + (double)span->finish_ns / (double)span_ns * PLOT;
        bool same = run.instr && run.instr->phase == instr->phase && run.instr->micro == instr->micro &&
                    run.instr->again == instr->again && from - run.to < (double)PLOT / GANTT_COLUMNS;
        if (!same) {
            flush(out, &run, y);
            run = (struct run){ .from = from, .instr = instr };
        }
        run.to = to;
        run.count++;
    }
    flush(out, &run, y);
}

static bool lane_used(const struct program *program, const struct rank_timeline *rank, enum lane lane)
{
    for (int s = 0; s < rank->span_count; s++)
        if (program->stages[rank->stage].instrs[s].lane == lane && rank->spans[s].finish_ns > rank->spans[s].start_ns)
            return true;
    return false;
}

void chart_gantt(struct text *out, const struct program *program, const struct timeline *timeline, int64_t span_ns,
                 const char *title)
{
    struct text rows = { 0 };
    double y = 4;
    for (int r = 0; r < timeline->rank_count && r < GANTT_RANKS; r++, y += 6)
        for (int lane = 0; lane < LANE_COUNT; lane++) {
            const struct rank_timeline *rank = &timeline->ranks[r];
            char words[64];
            if (!lane_used(program, rank, (enum lane)lane))
                continue;
            snprintf(words, sizeof words, "rank %d %s", rank->rank, lane_names[lane]);
            label(&rows, LABEL - 8, y + 10, "end", "soft", words);
            gantt_row(&rows, program, rank, (enum lane)lane, span_ns, y);
            y += ROW;
        }
    char number[TEXT_NUMBER_BYTES];
    open_svg(out, (int)y + 22, title);
    text_add(out, rows.data ? rows.data : "");
    for (int tick = 0; tick <= 4; tick++) {
        double x = LABEL + PLOT * tick / 4.0;
        text_printf(out, "<line class=\"grid\" x1=\"%.1f\" x2=\"%.1f\" y1=\"0\" y2=\"%.0f\" opacity=\"0.5\"/>", x, x,
                    y);
        label(out, x, y + 14, "middle", "soft", text_duration_ns(number, span_ns * tick / 4));
    }
    text_add(out, "</svg>\n");
    text_free(&rows);
}

void chart_loss(struct text *out, const struct report *report, const int *order)
{
    enum { HEIGHT = 240, TOP = 10 };
    double low = INFINITY, high = -INFINITY;
    int steps = 2;
    for (int i = 0; i < report->plan_count; i++)
        for (int s = 0; report->plans[i].losses && s < report->plans[i].step_count; s++) {
            low = fmin(low, report->plans[i].losses[s]);
            high = fmax(high, report->plans[i].losses[s]);
            steps = steps > report->plans[i].step_count ? steps : report->plans[i].step_count;
        }
    if (!(low < high))
        return;
    open_svg(out, HEIGHT + 50, "Training loss by step: every plan computes the same");
    for (int tick = 0; tick <= 4; tick++) {
        double y = TOP + HEIGHT * tick / 4.0;
        char number[32];
        snprintf(number, sizeof number, "%.2f", high - (high - low) * tick / 4);
        text_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LABEL, LABEL + PLOT, y,
                    y);
        label(out, LABEL - 6, y + 4, "end", "soft", number);
    }
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (!plan->losses)
            continue;
        char fill[16];
        fill_of(fill, i);
        text_printf(out, "<polyline class=\"trace\" style=\"stroke:%s\" points=\"", fill);
        for (int s = 0; s < plan->step_count; s++)
            text_printf(out, "%.1f,%.1f ", LABEL + PLOT * (double)s / (steps - 1),
                        TOP + (high - plan->losses[s]) / (high - low) * HEIGHT);
        text_add(out, "\"><title>");
        chart_escape(out, plan->name);
        text_add(out, "</title></polyline>");
    }
    label(out, LABEL + PLOT / 2.0, HEIGHT + 36, "middle", "soft", "step");
    text_add(out, "</svg>\n");
}
