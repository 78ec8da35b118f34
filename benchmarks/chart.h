/* Figures as SVG, drawn by the program: readable without JavaScript, in light and dark. */
#ifndef CLEAVE_BENCHMARKS_CHART_H
#define CLEAVE_BENCHMARKS_CHART_H
#include "benchmarks/report.h"

/* Text made safe for HTML and SVG, attributes included. */
void chart_escape(struct text *out, const char *raw);
/* Stacked step time, predicted above measured, one pair of bars per plan. */
void chart_breakdown(struct text *out, const struct report *report, const int *order);
/* Peak memory per rank against the limit, predicted and measured. */
void chart_memory(struct text *out, const struct report *report, const int *order);
/* Predicted against measured step time with the line of equality. */
void chart_scatter(struct text *out, const struct report *report);
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
/* Pipeline Gantt of one timeline: rows are ranks and lanes. `span_ns`: the common time axis of all Gantts. */
void chart_gantt(struct text *out, const struct program *program, const struct timeline *timeline, int64_t span_ns,
                 const char *title);
/* Loss by step of all plans that ran. */
void chart_loss(struct text *out, const struct report *report, const int *order);
/* The styles that the figures use. */
extern const char *const chart_style;
#endif
