/* What figures are made of: rows of bars that flow with the page, axes, legends. For the files of figures alone. */
#ifndef CLEAVE_BENCHMARKS_CHART_DRAW_H
#define CLEAVE_BENCHMARKS_CHART_DRAW_H
#include "benchmarks/chart.h"

/* From `least` to `most` of a unit, with a tick at each multiple of `step`. */
struct scale {
    double least, most, step; /* in the unit */
    double per_unit;          /* ns or bytes */
    const char *unit;
};
struct scale axis_of_ns(double least_ns, double most_ns);
struct scale axis_of_bytes(double least_bytes, double most_bytes);
double axis_place(const struct scale *axis, double value); /* per cent of its length, of a value in ns or bytes */
/* The first tick; and the words of one, "2.5 s". */
double axis_first(const struct scale *axis);
void axis_words(char out[48], const struct scale *axis, double at);
/* Beneath something that is as wide. */
void draw_ticks(struct text *out, const struct scale *axis);

/* A figure whose rows are a name, a track and words: opened, filled with draw_row() and what lies on its track, closed.
 * words: what it shows, for those who do not see it. */
void draw_rows_open(struct text *out, const struct scale *axis, const char *words);
void draw_row_open(struct text *out, int place, const char *name);
/* From and to in per cent of the track; title may be NULL. */
void draw_segment(struct text *out, const char *class, double from, double to, const char *title);
void draw_mark(struct text *out, const char *class, double at, const char *title);
void draw_row_close(struct text *out, const char *words);
void draw_rows_close(struct text *out, const struct scale *axis);

void draw_legend_open(struct text *out);
void draw_legend_item(struct text *out, const char *class, const char *name);
void draw_legend_close(struct text *out);
/* Adds text that is escaped. */
void draw_words(struct text *out, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* An attribute's value, escaped. */
void draw_attribute(struct text *out, const char *name, const char *value);
extern const char *const time_kind_words[TIME_KIND_COUNT];
extern const char *const memory_kind_words[MEMORY_KIND_COUNT];
#endif
