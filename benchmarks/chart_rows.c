/* Figures of one row per plan: step times with their ranges, what a step is spent on, what memory holds. */
#include "benchmarks/chart_draw.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WORDS_BYTES = 160 };

/* ---- step times ---- */
/* Where the true step may lie, by what is known of such predictions. False: nothing is. */
static bool range_of(const struct report_plan *plan, double *low_ns, double *high_ns)
{
    const struct prediction *p = plan->prediction;
    if (!p || p->accuracy.runs < 2 || p->accuracy.low <= -1 || plan->failure)
        return false;
    *low_ns = (double)plan->predicted_step_ns / (1 + p->accuracy.high);
    *high_ns = (double)plan->predicted_step_ns / (1 + p->accuracy.low);
    return true;
}

static double spread_ns(const struct report_plan *plan)
{
    return plan->measured_spread / 2 * (double)plan->measured_step_ns;
}

static double longest_ns(const struct report *report)
{
    double most = 1, low, high;
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[i];
        if (plan->failure)
            continue;
        most = fmax(most, (double)plan->predicted_step_ns);
        most = fmax(most, (double)plan->measured_step_ns + spread_ns(plan));
        if (range_of(plan, &low, &high))
            most = fmax(most, high);
    }
    return most * 1.02;
}

static void step_words(char out[WORDS_BYTES], const struct report_plan *plan)
{
    char number[TEXT_NUMBER_BYTES];
    double low, high;
    int length = snprintf(out, WORDS_BYTES, "%s", text_duration_ns(number, plan->predicted_step_ns));
    if (plan->measured_step_ns)
        snprintf(out + length, WORDS_BYTES - (size_t)length, ", measured %s",
                 text_duration_ns(number, plan->measured_step_ns));
    else if (range_of(plan, &low, &high)) {
        struct scale unit = axis_of_ns(0, (double)plan->predicted_step_ns);
        snprintf(out + length, WORDS_BYTES - (size_t)length, " (%.3g to %.3g)", low / unit.per_unit,
                 high / unit.per_unit);
    }
}

static void step_marks(struct text *out, const struct scale *axis, const struct report_plan *plan)
{
    char words[WORDS_BYTES], number[TEXT_NUMBER_BYTES];
    double low, high, spread = spread_ns(plan), measured = (double)plan->measured_step_ns;
    if (range_of(plan, &low, &high)) {
        snprintf(words, sizeof words, "%.1f %% of %lld published runs lay in this range",
                 plan->prediction->accuracy.runs < 10 ? 100.0 : 80.0, (long long)plan->prediction->accuracy.runs);
        draw_segment(out, "range", axis_place(axis, low), axis_place(axis, high), words);
    }
    snprintf(words, sizeof words, "predicted: %s", text_duration_ns(number, plan->predicted_step_ns));
    draw_mark(out, "dot", axis_place(axis, (double)plan->predicted_step_ns), words);
    if (!plan->measured_step_ns)
        return;
    draw_segment(out, "whisker", axis_place(axis, measured - spread), axis_place(axis, measured + spread), NULL);
    snprintf(words, sizeof words, "measured: %s \xc2\xb1 %.1f %%", text_duration_ns(number, plan->measured_step_ns),
             50 * plan->measured_spread);
    draw_mark(out, "measured", axis_place(axis, measured), words);
}

bool chart_has_ranges(const struct report *report)
{
    double low, high;
    for (int i = 0; i < report->plan_count; i++)
        if (range_of(&report->plans[i], &low, &high))
            return true;
    return false;
}

static bool any_measured(const struct report *report)
{
    for (int i = 0; i < report->plan_count; i++)
        if (report->plans[i].measured_step_ns && !report->plans[i].failure)
            return true;
    return false;
}

void chart_steps(struct text *out, const struct report *report, const int *order)
{
    struct scale axis = axis_of_ns(0, longest_ns(report));
    struct text alt = { 0 };
    char words[WORDS_BYTES];
    text_add(&alt, "Step time of each plan. ");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        step_words(words, plan);
        text_printf(&alt, "%s: %s. ", plan->name, plan->failure ? "failed" : words);
    }
    draw_legend_open(out);
    draw_legend_item(out, "dot", "predicted");
    if (chart_has_ranges(report))
        draw_legend_item(out, "range", "where published runs of the same kind lay");
    if (any_measured(report)) {
        draw_legend_item(out, "measured", "measured, median");
        draw_legend_item(out, "whisker", "half of the steps");
    }
    draw_legend_close(out);
    draw_rows_open(out, &axis, alt.data);
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (plan->failure)
            continue;
        draw_row_open(out, i + 1, plan->name);
        step_marks(out, &axis, plan);
        step_words(words, plan);
        draw_row_close(out, words);
    }
    draw_rows_close(out, &axis);
    text_free(&alt);
}

/* ---- what a step is spent on ---- */
static int64_t sum(const int64_t *values, int count)
{
    int64_t total = 0;
    for (int i = 0; i < count; i++)
        total += values[i];
    return total;
}

/* With kinds' names in `words`, classes "t0", ... or "m0", ...; scale 1: ns or bytes of the axis. */
static void stack(struct text *out, const struct scale *axis, const int64_t *values, int count, char class,
                  const char *const *words, char *(*number_of)(char out[TEXT_NUMBER_BYTES], int64_t value))
{
    int64_t at = 0;
    for (int k = 0; k < count; k++) {
        char name[16], title[WORDS_BYTES], number[TEXT_NUMBER_BYTES];
        snprintf(name, sizeof name, "%c%d", class, k);
        snprintf(title, sizeof title, "%s: %s", words[k], number_of(number, values[k]));
        draw_segment(out, name, axis_place(axis, (double)at), axis_place(axis, (double)(at + values[k])), title);
        at += values[k];
    }
}

static void tell_stack(struct text *alt, const int64_t *values, int count, const char *const *words,
                       char *(*number_of)(char out[TEXT_NUMBER_BYTES], int64_t value))
{
    char number[TEXT_NUMBER_BYTES];
    for (int k = 0, met = 0; k < count; k++)
        if (values[k] > 0)
            text_printf(alt, "%s%s %s", met++ ? ", " : "", words[k], number_of(number, values[k]));
    text_add(alt, ". ");
}

/* Of the kinds that any of the plans has. */
static void legend_of(struct text *out, const bool *has, int count, char class, const char *const *words)
{
    draw_legend_open(out);
    for (int k = 0; k < count; k++) {
        char name[16];
        snprintf(name, sizeof name, "%c%d", class, k);
        if (has[k])
            draw_legend_item(out, name, words[k]);
    }
    draw_legend_close(out);
}

static void time_row(struct text *out, const struct scale *axis, int place, const char *name,
                     const int64_t ns[TIME_KIND_COUNT], const char *what)
{
    char number[TEXT_NUMBER_BYTES], words[WORDS_BYTES];
    draw_row_open(out, place, name);
    stack(out, axis, ns, TIME_KIND_COUNT, 't', time_kind_words, text_duration_ns);
    snprintf(words, sizeof words, "%s%s", what, text_duration_ns(number, sum(ns, TIME_KIND_COUNT)));
    draw_row_close(out, words);
}

void chart_breakdown(struct text *out, const struct report *report, const int *order)
{
    int64_t most = 1;
    bool has[TIME_KIND_COUNT] = { false }, measured = false;
    struct text alt = { 0 };
    text_add(&alt, "What the slowest rank spends a step on. ");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        most = max_i64(most, sum(plan->predicted_breakdown_ns, TIME_KIND_COUNT));
        most = max_i64(most, sum(plan->measured_breakdown_ns, TIME_KIND_COUNT));
        measured |= plan->measured != NULL;
        for (int k = 0; k < TIME_KIND_COUNT; k++)
            has[k] |= plan->predicted_breakdown_ns[k] > 0 || plan->measured_breakdown_ns[k] > 0;
        text_printf(&alt, "%s: ", plan->name);
        tell_stack(&alt, plan->predicted_breakdown_ns, TIME_KIND_COUNT, time_kind_words, text_duration_ns);
    }
    struct scale axis = axis_of_ns(0, (double)most);
    legend_of(out, has, TIME_KIND_COUNT, 't', time_kind_words);
    draw_rows_open(out, &axis, alt.data);
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        if (plan->failure)
            continue;
        time_row(out, &axis, i + 1, plan->name, plan->predicted_breakdown_ns, measured ? "predicted: " : "");
        if (plan->measured)
            time_row(out, &axis, 0, "measured", plan->measured_breakdown_ns, "one step's timeline: ");
    }
    draw_rows_close(out, &axis);
    text_free(&alt);
}

/* ---- memory ---- */
int64_t chart_available_bytes(const struct report *report, const struct report_plan *plan)
{
    return plan->prediction ? plan->prediction->available_bytes[plan->prediction->fullest_stage]
                            : report->memory_limit_bytes;
}

int64_t chart_most_bytes(const int64_t *bytes, int count)
{
    int64_t most = 0;
    for (int i = 0; i < count && bytes; i++)
        most = max_i64(most, bytes[i]);
    return most;
}

/* Of the stage that has least room, or, where nobody has looked, all of the rank that has most. */
static int64_t held_bytes(const struct report_plan *plan)
{
    return plan->memory && plan->prediction ? plan->memory[plan->prediction->fullest_stage].peak_bytes
                                            : chart_most_bytes(plan->predicted_peak_bytes, plan->rank_count);
}

/* A far limit would squeeze the bars: it is said in words. */
static double memory_scale(const struct report *report)
{
    int64_t most = 1, limit = 0;
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[i];
        most = max_i64(most, max_i64(held_bytes(plan), chart_most_bytes(plan->measured_peak_bytes, plan->rank_count)));
        limit = max_i64(limit, chart_available_bytes(report, plan));
    }
    return limit < 3 * most ? 1.02 * (double)max_i64(most, limit) : (double)most;
}

static void memory_row(struct text *out, const struct scale *axis, const struct report *report,
                       const struct report_plan *plan, int place)
{
    char number[TEXT_NUMBER_BYTES], limit[TEXT_NUMBER_BYTES], words[WORDS_BYTES];
    int64_t available = chart_available_bytes(report, plan), bytes = held_bytes(plan);
    draw_row_open(out, place, plan->name);
    if (plan->memory && plan->prediction)
        stack(out, axis, plan->memory[plan->prediction->fullest_stage].bytes, MEMORY_KIND_COUNT, 'm', memory_kind_words,
              text_bytes);
    else
        draw_segment(out, "t0", 0, axis_place(axis, (double)bytes), NULL);
    snprintf(words, sizeof words, "usable: %s", text_bytes(limit, available));
    if (available > 0 && axis_place(axis, (double)available) <= 100)
        draw_mark(out, "limit", axis_place(axis, (double)available), words);
    snprintf(words, sizeof words, "%s of %s%s", text_bytes(number, bytes), text_bytes(limit, available),
             report_fits(plan) ? "" : ": does not fit");
    draw_row_close(out, words);
    if (plan->measured_peak_bytes) {
        int64_t measured = chart_most_bytes(plan->measured_peak_bytes, plan->rank_count);
        draw_row_open(out, 0, "measured");
        draw_segment(out, "touched", 0, axis_place(axis, (double)measured), "measured: bytes that were touched");
        snprintf(words, sizeof words, "%s", text_bytes(number, measured));
        draw_row_close(out, words);
    }
}

void chart_memory(struct text *out, const struct report *report, const int *order)
{
    bool has[MEMORY_KIND_COUNT] = { false };
    struct scale axis = axis_of_bytes(0, memory_scale(report));
    struct text alt = { 0 };
    char number[TEXT_NUMBER_BYTES];
    text_add(&alt, "Peak memory of the device that has least room left, by what it holds. ");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[order[i]];
        text_printf(&alt, "%s: %s%s", plan->name, text_bytes(number, held_bytes(plan)), plan->memory ? ", " : ". ");
        if (!plan->memory || !plan->prediction)
            continue;
        const int64_t *bytes = plan->memory[plan->prediction->fullest_stage].bytes;
        for (int k = 0; k < MEMORY_KIND_COUNT; k++)
            has[k] |= bytes[k] > 0;
        tell_stack(&alt, bytes, MEMORY_KIND_COUNT, memory_kind_words, text_bytes);
    }
    legend_of(out, has, MEMORY_KIND_COUNT, 'm', memory_kind_words);
    draw_rows_open(out, &axis, alt.data);
    for (int i = 0; i < report->plan_count; i++)
        if (!report->plans[order[i]].failure)
            memory_row(out, &axis, report, &report->plans[order[i]], i + 1);
    draw_rows_close(out, &axis);
    text_free(&alt);
}

void chart_small_stack(struct text *out, const int64_t *values, int count, int64_t scale, char class,
                       const char *const *words, char *(*number_of)(char out[TEXT_NUMBER_BYTES], int64_t value))
{
    char number[TEXT_NUMBER_BYTES];
    text_add(out, "<div class=\"small\">");
    for (int k = 0; k < count; k++) {
        double share = 100 * (double)values[k] / (double)max_i64(1, scale);
        if (share < .3)
            continue;
        text_printf(out, "<i class=\"%c%d\" style=\"width:%.1f%%\"", class, k, share);
        if (words)
            text_printf(out, " title=\"%s: %s\"", words[k], number_of(number, values[k]));
        text_add(out, "></i>");
    }
    text_add(out, "</div>");
}
