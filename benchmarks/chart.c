#include "benchmarks/chart_draw.h"
#include "base/num.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

const char *const time_kind_words[TIME_KIND_COUNT] = {
    [TIME_COMPUTE] = "computation",
    [TIME_RECOMPUTE] = "recomputation",
    [TIME_TP] = "tensor-parallel transfers",
    [TIME_DP] = "data-parallel transfers",
    [TIME_CP] = "context-parallel transfers",
    [TIME_EP] = "expert-parallel transfers",
    [TIME_PP] = "pipeline transfers",
    [TIME_BUBBLE] = "idle (bubble)",
    [TIME_OPTIMIZER] = "optimizer",
    [TIME_HOST] = "copies to and from the host",
    [TIME_ISSUE] = "waiting for launches by the host",
};
const char *const memory_kind_words[MEMORY_KIND_COUNT] = {
    [MEMORY_WEIGHTS] = "weights",
    [MEMORY_OPTIMIZER] = "optimizer states",
    [MEMORY_GRADIENTS] = "gradients of weights",
    [MEMORY_ACTIVATIONS] = "activations",
    [MEMORY_LOGITS] = "logits",
    [MEMORY_GATHERED] = "gathered weights and inputs",
    [MEMORY_TRANSIENT] = "gradients of values, transfers",
    [MEMORY_WORKSPACE] = "workspace of kernels",
    [MEMORY_GAPS] = "gaps of the layout",
};

void chart_escape(struct text *out, const char *raw)
{
    static const char *const safe[128] = {
        ['<'] = "&lt;", ['>'] = "&gt;", ['&'] = "&amp;", ['"'] = "&quot;", ['\''] = "&#39;"
    };
    size_t step, left = raw ? strlen(raw) : 0;
    for (const char *p = raw; left > 0; p += step, left -= step) {
        const char *words = (unsigned char)*p < 128 ? safe[(unsigned char)*p] : NULL;
        step = text_shown(p, left);
        step = step ? step : 1;
        if (words)
            text_add(out, words);
        else
            text_add_shown(out, p, step);
    }
}

void draw_words(struct text *out, const char *format, ...)
{
    char words[512];
    va_list list;
    va_start(list, format);
    vsnprintf(words, sizeof words, format, list);
    va_end(list);
    chart_escape(out, words);
}

void draw_attribute(struct text *out, const char *name, const char *value)
{
    text_printf(out, " %s=\"", name);
    chart_escape(out, value);
    text_add(out, "\"");
}

/* ---- axes ---- */
/* About five ticks at multiples of 1, 2 or 5 times a power of ten. */
static double nice_step(double length)
{
    double raw = length / 5, power = pow(10, floor(log10(raw))), share = raw / power;
    return power * (share <= 1 ? 1 : share <= 2 ? 2 : share <= 5 ? 5 : 10);
}

static struct scale axis_in(double least, double most, double per_unit, const char *unit)
{
    struct scale axis = { least / per_unit, fmax(most, least + 1) / per_unit, 1, per_unit, unit };
    axis.step = nice_step(axis.most - axis.least);
    return axis;
}

struct scale axis_of_ns(double least_ns, double most_ns)
{
    return most_ns >= 1e9   ? axis_in(least_ns, most_ns, 1e9, "s")
           : most_ns >= 1e6 ? axis_in(least_ns, most_ns, 1e6, "ms")
           : most_ns >= 1e3 ? axis_in(least_ns, most_ns, 1e3, "us")
                            : axis_in(least_ns, most_ns, 1, "ns");
}

struct scale axis_of_bytes(double least_bytes, double most_bytes)
{
    static const char *const units[] = { "bytes", "KiB", "MiB", "GiB", "TiB" };
    int unit = 0;
    while (unit < 4 && most_bytes >= ldexp(1, 10 * (unit + 1)))
        unit++;
    return axis_in(least_bytes, most_bytes, ldexp(1, 10 * unit), units[unit]);
}

double axis_place(const struct scale *axis, double value)
{
    return 100 * (value / axis->per_unit - axis->least) / (axis->most - axis->least);
}

double axis_first(const struct scale *axis)
{
    return axis->step * ceil(axis->least / axis->step - 1e-9);
}

void axis_words(char out[48], const struct scale *axis, double at)
{
    snprintf(out, 48, "%.6g %s", at, axis->unit);
}

/* ---- rows ---- */
void draw_rows_open(struct text *out, const struct scale *axis, const char *words)
{
    text_add(out, "<div class=\"rows\" role=\"img\"");
    draw_attribute(out, "aria-label", words);
    text_printf(out, " style=\"--tick:%.2f%%\">\n", 100 * axis->step / (axis->most - axis->least));
}

void draw_row_open(struct text *out, int place, const char *name)
{
    text_printf(out, "<div class=\"who%s\">", place > 0 ? "" : " soft");
    if (place > 0)
        text_printf(out, "<b class=\"place\">%d</b> ", place);
    chart_escape(out, name);
    text_add(out, "</div><div class=\"track\">");
}

void draw_segment(struct text *out, const char *class, double from, double to, const char *title)
{
    if (to <= from)
        return;
    text_printf(out, "<i class=\"%s\" style=\"left:%.2f%%;width:%.2f%%\"", class, from, to - from);
    if (title)
        draw_attribute(out, "title", title);
    text_add(out, "></i>");
}

void draw_mark(struct text *out, const char *class, double at, const char *title)
{
    text_printf(out, "<u class=\"%s\" style=\"left:%.2f%%\"", class, at);
    if (title)
        draw_attribute(out, "title", title);
    text_add(out, "></u>");
}

void draw_row_close(struct text *out, const char *words)
{
    text_add(out, "</div><div class=\"what\">");
    chart_escape(out, words);
    text_add(out, "</div>\n");
}

void draw_ticks(struct text *out, const struct scale *axis)
{
    char words[48];
    for (double at = axis_first(axis); at <= axis->most * (1 + 1e-9); at += axis->step) {
        double place = 100 * (at - axis->least) / (axis->most - axis->least);
        axis_words(words, axis, fabs(at) < axis->step / 2 ? 0 : at);
        text_printf(out, "<span%s style=\"left:%.2f%%\">%s</span>", place > 95 ? " class=\"end\"" : "", place, words);
    }
}

void draw_rows_close(struct text *out, const struct scale *axis)
{
    text_add(out, "<div></div><div class=\"ticks\">");
    draw_ticks(out, axis);
    text_add(out, "</div><div></div></div>\n");
}

void draw_legend_open(struct text *out)
{
    text_add(out, "<ul class=\"legend\" aria-hidden=\"true\">");
}

void draw_legend_item(struct text *out, const char *class, const char *name)
{
    text_printf(out, "<li><i class=\"%s\"></i>", class);
    chart_escape(out, name);
    text_add(out, "</li>");
}

void draw_legend_close(struct text *out)
{
    text_add(out, "</ul>\n");
}

/* ---- predicted against measured, over orders of magnitude ---- */
enum { WIDTH = 900, LOG_SIDE = 480, LOG_LEFT = 90, LOG_TOP = 16, LEGEND_ROW = 18 };

static void label(struct text *out, double x, double y, const char *anchor, const char *class, const char *words)
{
    text_printf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">", x, y, anchor, class);
    chart_escape(out, words);
    text_add(out, "</text>");
}

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
    static const char title[] = "Predicted against measured step time; on the line they agree";
    text_printf(out,
                "<svg role=\"img\" viewBox=\"0 0 %d %d\" width=\"100%%\" xmlns=\"http://www.w3.org/2000/svg\" "
                "aria-label=\"%s\"><title>%s</title>",
                WIDTH, height, title, title);
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
