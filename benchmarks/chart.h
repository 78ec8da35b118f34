/* Figures, drawn by the program: readable without JavaScript, in light and dark, on paper and on a phone. Each says in
 * words what it shows. What figures are made of stands in chart_draw.h, the page around them in report_html.c. */
#ifndef CLEAVE_BENCHMARKS_CHART_H
#define CLEAVE_BENCHMARKS_CHART_H
#include "benchmarks/report.h"

/* Text made safe for HTML and SVG, attributes included. */
void chart_escape(struct text *out, const char *raw);

/* ---- one row per plan (chart_rows.c); order: report_order() ---- */
/* Predicted step with the range in which published runs of its kind lay, measured step with its spread. */
void chart_steps(struct text *out, const struct report *report, const int *order);
bool chart_has_ranges(const struct report *report); /* whether any plan has such a range */
/* Stacked step time by what it is spent on, predicted above measured. */
void chart_breakdown(struct text *out, const struct report *report, const int *order);
/* Peak memory by what it holds, of the stage that has least room, against the limit. */
void chart_memory(struct text *out, const struct report *report, const int *order);
/* Usable bytes of a device of that stage. */
int64_t chart_available_bytes(const struct report *report, const struct report_plan *plan);
int64_t chart_most_bytes(const int64_t *bytes, int count); /* 0 of none */
/* A track of its own, for tables: values on a scale; class 't' and time kinds or 'm' and memory kinds. words: of their
 * titles; NULL: none. */
void chart_small_stack(struct text *out, const int64_t *values, int count, int64_t scale, char class,
                       const char *const *words, char *(*number_of)(char out[TEXT_NUMBER_BYTES], int64_t value));

/* ---- two axes (chart_plot.c) ---- */
/* Step time against memory: the plans, and what was searched beside them. */
void chart_tradeoff(struct text *out, const struct report *report, const int *order);
/* Step time against devices, with the line of equal work. */
void chart_scaling(struct text *out, const struct report *report);
/* Loss by step of all plans that ran. */
void chart_loss(struct text *out, const struct report *report, const int *order);
/* A point of a series, in what both axes have: seconds. */
struct chart_point {
    double measured_s, predicted_s;
    int series;
    const char *title;
};
/* A file of its own: predicted against measured on logarithmic axes, with the line of equality and the band of 10 %
 * around it; colour and shape by series, whose names stand beside in their order. */
void chart_log_scatter(struct text *out, const struct chart_point *points, int count, const char *const *series,
                       int series_count);

/* ---- one plan ---- */
/* One timeline: rows are ranks, with their lanes. `span_ns`: the common time axis of all timelines. Bars are of
 * instructions, layers or whole passes, and of as many ranks, as `budget` bytes allow. */
void chart_gantt(struct text *out, const struct program *program, const struct timeline *timeline, int64_t span_ns,
                 const char *title, size_t budget);
/* All lanes of the slowest rank for a while in the middle of the step, instruction by instruction. */
void chart_closeup(struct text *out, const struct program *program, const struct timeline *timeline);
/* Nodes and devices with the stages that they hold, and which links groups of ranks use. */
void chart_places(struct text *out, const struct report_plan *plan);
/* A table of stages: where they are, what they hold, how busy they are. */
void chart_stages(struct text *out, const struct report_plan *plan);
#endif
