/* Figures of two axes: lines and steps are stretched with the page, dots and words are not. */
#include "benchmarks/chart_draw.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* Places are per cent from the left and from the top. */
struct plot {
    struct text lines, marks;
    int label_count;
    double label_x[2 * REPORT_MAX_PLANS], label_y[2 * REPORT_MAX_PLANS];
};

static void begin_line(struct plot *plot, const char *class)
{
    text_printf(&plot->lines, "<path class=\"%s\" d=\"", class);
}

static void line_to(struct plot *plot, bool first, double x, double y)
{
    text_printf(&plot->lines, "%s%.2f %.2f", first ? "M" : "L", x, y);
}

static void end_line(struct plot *plot)
{
    text_add(&plot->lines, "\"/>");
}

static void dot(struct plot *plot, const char *class, double x, double y, const char *title)
{
    text_printf(&plot->marks, "<i class=\"%s\" style=\"left:%.2f%%;top:%.2f%%\"", class, x, y);
    draw_attribute(&plot->marks, "title", title);
    text_add(&plot->marks, "></i>");
}

/* Beside its dot where no other label is near. */
static void label(struct plot *plot, double x, double y, const char *class, const char *words)
{
    static const struct {
        const char *side;
        double x, y;
    } sides[] = { { "right", 2.2, 0 }, { "above", 0, -6 }, { "below", 0, 6 }, { "left", -2.2, 0 } };
    size_t best = 0;
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++) {
        bool is_free = x + sides[i].x > 0 && x + sides[i].x < 100 && y + sides[i].y > 0 && y + sides[i].y < 100;
        for (int k = 0; k < plot->label_count && is_free; k++)
            is_free = fabs(plot->label_x[k] - x - sides[i].x) > 2 || fabs(plot->label_y[k] - y - sides[i].y) > 5;
        if (is_free) {
            best = i;
            break;
        }
    }
    if (plot->label_count < 2 * REPORT_MAX_PLANS) {
        plot->label_x[plot->label_count] = x + sides[best].x;
        plot->label_y[plot->label_count++] = y + sides[best].y;
    }
    text_printf(&plot->marks, "<b class=\"%s %s\" style=\"left:%.2f%%;top:%.2f%%\">", class, sides[best].side, x, y);
    chart_escape(&plot->marks, words);
    text_add(&plot->marks, "</b>");
}

static void tick(struct plot *plot, bool across, double at, const char *words)
{
    begin_line(plot, "grid");
    line_to(plot, true, across ? at : 0, across ? 0 : at);
    line_to(plot, false, across ? at : 100, across ? 100 : at);
    end_line(plot);
    text_printf(&plot->marks, "<span class=\"%s\" style=\"%s:%.2f%%\">%s</span>", across ? "xt" : "yt",
                across ? "left" : "top", at, words);
}

static void ticks(struct plot *plot, bool across, const struct scale *axis)
{
    char words[48];
    for (double at = axis_first(axis); at <= axis->most * (1 + 1e-9); at += axis->step) {
        double place = 100 * (at - axis->least) / (axis->most - axis->least);
        axis_words(words, axis, fabs(at) < axis->step / 2 ? 0 : at);
        tick(plot, across, across ? place : 100 - place, words);
    }
}

static void hand_out(struct text *out, struct plot *plot, const char *alt, const char *across, const char *up)
{
    text_printf(out, "<div class=\"plot\" role=\"img\"");
    draw_attribute(out, "aria-label", alt);
    text_printf(
        out,
        "><span class=\"up\">%s</span><div class=\"field\"><svg viewBox=\"0 0 100 100\" "
        "preserveAspectRatio=\"none\" aria-hidden=\"true\">%s</svg>%s</div><span class=\"across\">%s</span></div>\n",
        up, plot->lines.data ? plot->lines.data : "", plot->marks.data ? plot->marks.data : "", across);
    text_free(&plot->lines);
    text_free(&plot->marks);
}

/* ---- step against memory ---- */
struct spot {
    double step_ns, bytes;
};

static struct spot spot_of(const struct report_plan *plan)
{
    return (struct spot){ (double)report_step_ns(plan),
                          (double)chart_most_bytes(plan->predicted_peak_bytes, plan->rank_count) };
}

static bool is_drawn(const struct report_plan *plan)
{
    return !plan->failure && plan->predicted_peak_bytes && report_step_ns(plan) > 0;
}

/* Whether one of the plans is no worse in both and better in one. */
static bool is_beaten(const struct report *report, const struct spot *own)
{
    for (int i = 0; i < report->plan_count; i++) {
        struct spot other = spot_of(&report->plans[i]);
        if (is_drawn(&report->plans[i]) && report_fits(&report->plans[i]) && other.step_ns <= own->step_ns &&
            other.bytes <= own->bytes && (other.step_ns < own->step_ns || other.bytes < own->bytes))
            return true;
    }
    return false;
}

/* A staircase: with so much memory, no step of these is shorter. By memory, largest first. */
static void staircase(struct plot *plot, const struct spot *spots, int count, const struct scale *x,
                      const struct scale *y, const char *class)
{
    if (count == 0)
        return;
    begin_line(plot, class);
    for (int i = 0; i < count; i++) {
        double across = axis_place(x, spots[i].bytes), down = 100 - axis_place(y, spots[i].step_ns);
        if (i == 0)
            line_to(plot, true, 100, down);
        else
            line_to(plot, false, axis_place(x, spots[i - 1].bytes), down);
        line_to(plot, false, across, down);
    }
    line_to(plot, false, axis_place(x, spots[count - 1].bytes), 0);
    end_line(plot);
}

static void limits_of(const struct report *report, struct spot *least, struct spot *most)
{
    *least = (struct spot){ INFINITY, INFINITY };
    *most = (struct spot){ 1, 1 };
    for (int i = 0; i < report->plan_count + report->frontier_count; i++) {
        bool own = i < report->plan_count;
        const struct report_point *point = own ? NULL : &report->frontier[i - report->plan_count];
        if (own && !is_drawn(&report->plans[i]))
            continue;
        struct spot spot =
            own ? spot_of(&report->plans[i]) : (struct spot){ (double)point->step_ns, (double)point->peak_bytes };
        least->step_ns = fmin(least->step_ns, spot.step_ns);
        least->bytes = fmin(least->bytes, spot.bytes);
        most->step_ns = fmax(most->step_ns, spot.step_ns);
        most->bytes = fmax(most->bytes, spot.bytes);
    }
}

/* The frontier of the plans alone, shortest first: they come in their order. */
static int own_frontier(struct spot out[REPORT_MAX_PLANS], const struct report *report, const int *order)
{
    int count = 0;
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        struct spot spot = spot_of(plan);
        if (is_drawn(plan) && report_fits(plan) && !is_beaten(report, &spot) &&
            (count == 0 || spot.bytes < out[count - 1].bytes))
            out[count++] = spot;
    }
    return count;
}

void chart_tradeoff(struct text *out, const struct report *report, const int *order)
{
    struct plot plot = { 0 };
    struct spot least, most, own[REPORT_MAX_PLANS], searched[128];
    struct text alt = { 0 };
    char words[192], step[TEXT_NUMBER_BYTES], bytes[TEXT_NUMBER_BYTES], place[16];
    limits_of(report, &least, &most);
    if (!isfinite(least.bytes))
        return;
    int64_t limit = chart_available_bytes(report, &report->plans[order[0]]);
    double widest = limit > 0 && (double)limit < 2 * most.bytes ? fmax(most.bytes, (double)limit) : most.bytes;
    struct scale x = axis_of_bytes(0, 1.06 * widest), y = axis_of_ns(0, 1.1 * most.step_ns);
    ticks(&plot, true, &x);
    ticks(&plot, false, &y);
    if (limit > 0 && axis_place(&x, (double)limit) < 100) {
        begin_line(&plot, "limit");
        line_to(&plot, true, axis_place(&x, (double)limit), 0);
        line_to(&plot, false, axis_place(&x, (double)limit), 100);
        end_line(&plot);
    }
    int searched_count = (int)min_i64(report->frontier_count, 128);
    for (int i = 0; i < searched_count; i++) {
        const struct report_point *p = &report->frontier[i];
        searched[i] = (struct spot){ (double)p->step_ns, (double)p->peak_bytes };
        snprintf(words, sizeof words, "%s, %s: %s", text_duration_ns(step, p->step_ns),
                 text_bytes(bytes, p->peak_bytes), p->words ? p->words : "");
        dot(&plot, "small", axis_place(&x, searched[i].bytes), 100 - axis_place(&y, searched[i].step_ns), words);
    }
    staircase(&plot, searched, searched_count, &x, &y, "frontier");
    if (searched_count == 0)
        staircase(&plot, own, own_frontier(own, report, order), &x, &y, "frontier");
    text_add(&alt, "Step time against peak memory. ");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (!is_drawn(plan))
            continue;
        struct spot spot = spot_of(plan);
        snprintf(words, sizeof words, "%s: %s, %s%s", plan->name, text_duration_ns(step, (int64_t)spot.step_ns),
                 text_bytes(bytes, (int64_t)spot.bytes), is_beaten(report, &spot) ? "" : ", none is better in both");
        snprintf(place, sizeof place, "%d", i + 1);
        dot(&plot, is_beaten(report, &spot) ? "spot beaten" : "spot", axis_place(&x, spot.bytes),
            100 - axis_place(&y, spot.step_ns), words);
        label(&plot, axis_place(&x, spot.bytes), 100 - axis_place(&y, spot.step_ns), "tag", place);
        text_printf(&alt, "%s. ", words);
    }
    if (searched_count > 0)
        text_printf(&alt, "%d plans were searched with ever less memory, down to %s.", searched_count,
                    text_bytes(bytes, report->frontier[searched_count - 1].peak_bytes));
    hand_out(out, &plot, alt.data, "peak memory of the fullest device", "step time");
    text_free(&alt);
}

/* ---- step against devices ---- */
void chart_scaling(struct text *out, const struct report *report)
{
    struct plot plot = { 0 };
    struct text alt = { 0 };
    char words[192], step[TEXT_NUMBER_BYTES], devices[TEXT_NUMBER_BYTES];
    const struct report_point *points = report->scaling, *base = NULL;
    double low = INFINITY, high = 0, low_x = INFINITY, high_x = 0;
    for (int i = 0; i < report->scaling_count; i++) {
        double x = log2(points[i].devices), ns = (double)points[i].step_ns;
        low_x = fmin(low_x, x), high_x = fmax(high_x, x);
        if (!points[i].words)
            continue;
        base = base ? base : &points[i];
        double ideal = (double)base->step_ns * base->devices / points[i].devices;
        low = fmin(low, fmin(ns, ideal)), high = fmax(high, fmax(ns, ideal));
    }
    if (!base)
        return;
    low = log2(low) - .3, high = log2(high) + .3, low_x -= .3, high_x += .3;
    text_add(&alt, "Step time of the best plan by number of devices. ");
    for (int i = 0; i < report->scaling_count; i++)
        tick(&plot, true, 100 * (log2(points[i].devices) - low_x) / (high_x - low_x),
             text_count(devices, points[i].devices));
    for (double ns = pow(10, floor(log10(exp2(low)))); log2(ns) < high; ns *= 10)
        for (int k = 1; k <= 5; k += k == 1 ? 1 : 3)
            if (log2(k * ns) > low && log2(k * ns) < high) {
                struct scale unit = axis_of_ns(0, k * ns);
                axis_words(words, &unit, k * ns / unit.per_unit);
                tick(&plot, false, 100 - 100 * (log2(k * ns) - low) / (high - low), words);
            }
    double ideal_ns = (double)base->step_ns * base->devices;
    begin_line(&plot, "ideal");
    line_to(&plot, true, 0, 100 - 100 * (log2(ideal_ns) - low_x - low) / (high - low));
    line_to(&plot, false, 100, 100 - 100 * (log2(ideal_ns) - high_x - low) / (high - low));
    end_line(&plot);
    begin_line(&plot, "curve");
    bool first = true;
    for (int i = 0; i < report->scaling_count; i++) {
        const struct report_point *p = &points[i];
        if (!p->words) {
            text_printf(&alt, "%d devices: nothing fits. ", p->devices);
            continue;
        }
        double x = 100 * (log2(p->devices) - low_x) / (high_x - low_x),
               y = 100 - 100 * (log2((double)p->step_ns) - low) / (high - low);
        line_to(&plot, first, x, y);
        first = false;
        snprintf(words, sizeof words, "%d devices: %s", p->devices, text_duration_ns(step, p->step_ns));
        text_printf(&alt, "%s. ", words);
        dot(&plot, "spot", x, y, words);
        label(&plot, x, y, "tag plain", step);
    }
    end_line(&plot);
    hand_out(out, &plot, alt.data, "devices", "step time");
    text_free(&alt);
}

/* ---- loss ---- */
void chart_loss(struct text *out, const struct report *report, const int *order)
{
    struct plot plot = { 0 };
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
    for (int at = 0; at <= 4; at++) {
        char number[32];
        snprintf(number, sizeof number, "%.4g", high - (high - low) * at / 4);
        tick(&plot, false, 25.0 * at, number);
    }
    struct scale across = { 1, steps, ceil((steps - 1) / 8.0), 1, "" };
    for (double at = 1; at <= steps; at += across.step) {
        char number[32];
        snprintf(number, sizeof number, "%.0f", at);
        tick(&plot, true, axis_place(&across, at), number);
    }
    draw_legend_open(out);
    for (int i = 0, line = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        char class[24];
        if (!plan->losses)
            continue;
        snprintf(class, sizeof class, "curve c%d", line % 8);
        begin_line(&plot, class);
        for (int s = 0; s < plan->step_count; s++)
            line_to(&plot, s == 0, 100.0 * s / (steps - 1), 100 * (high - plan->losses[s]) / (high - low));
        end_line(&plot);
        snprintf(class, sizeof class, "c%d", line++ % 8);
        draw_legend_item(out, class, plan->name);
    }
    draw_legend_close(out);
    hand_out(out, &plot, "Training loss by step: every plan computes the same", "step", "loss");
}
