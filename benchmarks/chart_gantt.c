/* Timelines. All bars of one colour on one rank are one path; bars that repeat are its dashes, so that a step of
 * hundreds of micro-batches on dozens of stages is drawn whole in some ten kilobytes. The page's script zooms by moving
 * the view box and reads the paths back for what it says of a bar. */
#include "benchmarks/chart_draw.h"
#include "base/num.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum colour {
    FORWARD,
    BACKWARD,
    AGAIN,
    OPTIMIZER,
    COMPUTE_COLOURS,
    TENSOR = COMPUTE_COLOURS,
    CONTEXT,
    EXPERT,
    DATA,
    PIPELINE,
    HOST,
    COLOURS
};
static const char *const colour_words[COLOURS] = {
    [FORWARD] = "forward",
    [BACKWARD] = "backward",
    [AGAIN] = "recomputation",
    [OPTIMIZER] = "optimizer",
    [TENSOR] = "tensor-parallel transfers",
    [CONTEXT] = "context-parallel transfers",
    [EXPERT] = "expert-parallel transfers",
    [DATA] = "data-parallel transfers",
    [PIPELINE] = "pipeline transfers",
    [HOST] = "copies to and from the host",
};

static enum colour colour_of(const struct instr *instr)
{
    switch (timeline_kind(instr)) {
    case TIME_TP:
        return TENSOR;
    case TIME_CP:
        return CONTEXT;
    case TIME_EP:
        return EXPERT;
    case TIME_DP:
        return DATA;
    case TIME_PP:
        return PIPELINE;
    case TIME_HOST:
        return HOST;
    case TIME_OPTIMIZER:
        return OPTIMIZER;
    case TIME_COMPUTE:
    case TIME_RECOMPUTE:
    case TIME_BUBBLE:
    case TIME_ISSUE:
    case TIME_KIND_COUNT:
        break;
    }
    return instr->again ? AGAIN : instr_is_forward(instr) ? FORWARD : BACKWARD;
}

/* What becomes one bar: an instruction, a layer's part of a pass, or a whole pass of a micro-batch, as far as less than
 * GAP_SHARE of the figure lies between; of many micro-batches only passes. */
enum grain { GRAIN_INSTR, GRAIN_LAYER, GRAIN_PASS, GRAIN_COUNT };
static const char *const grain_words[GRAIN_COUNT] = { "an instruction", "a layer", "a pass of a micro-batch" };
enum { UNITS = 100000, GAP_SHARE = 1500, MOST_PERIOD = 64, LEAST_REPEATS = 4, MANY_MICROS = 8 };

struct piece {
    int64_t from_ns, to_ns;
    enum colour colour;
    int micro, layer;
};
struct pieces {
    int count;
    struct piece *list; /* room for all spans of a rank */
};

static bool joins(const struct piece *a, const struct piece *b, enum grain grain, int64_t gap_ns)
{
    return grain != GRAIN_INSTR && a->colour == b->colour && a->micro == b->micro &&
           (grain == GRAIN_PASS || a->layer == b->layer) && b->from_ns - a->to_ns <= gap_ns;
}

static int by_start(const void *a, const void *b)
{
    const struct piece *x = a, *y = b;
    return x->from_ns != y->from_ns ? (x->from_ns > y->from_ns) - (x->from_ns < y->from_ns)
                                    : (x->layer > y->layer) - (x->layer < y->layer);
}

/* What runs on two lanes at once becomes one bar. */
static void unite(struct pieces *p)
{
    int kept = 0;
    qsort(p->list, (size_t)p->count, sizeof *p->list, by_start);
    for (int i = 0; i < p->count; i++)
        if (kept > 0 && p->list[i].from_ns < p->list[kept - 1].to_ns)
            p->list[kept - 1].to_ns = max_i64(p->list[kept - 1].to_ns, p->list[i].to_ns);
        else
            p->list[kept++] = p->list[i];
    p->count = kept;
}

/* All of a rank, by colour and within one in the order of their lanes. */
static void collect(struct pieces out[COLOURS], const struct program *program, const struct rank_timeline *rank,
                    enum grain grain, int64_t gap_ns)
{
    enum colour last[LANE_COUNT];
    for (int c = 0; c < COLOURS; c++)
        out[c].count = 0;
    for (int lane = 0; lane < LANE_COUNT; lane++)
        last[lane] = COLOURS;
    for (int s = 0; s < rank->span_count; s++) {
        const struct span *span = &rank->spans[s];
        const struct instr *instr = &program->stages[rank->stage].instrs[s];
        if (span->finish_ns <= span->start_ns)
            continue;
        struct piece own = { span->start_ns, span->finish_ns, colour_of(instr), instr->micro, instr->layer };
        struct pieces *p = &out[own.colour];
        struct piece *before = last[instr->lane] == own.colour ? &p->list[p->count - 1] : NULL;
        if (before && joins(before, &own, grain, gap_ns))
            before->to_ns = max_i64(before->to_ns, own.to_ns);
        else
            p->list[p->count++] = own;
        last[instr->lane] = own.colour;
    }
    unite(&out[PIPELINE]);
    unite(&out[HOST]);
}

/* ---- paths ---- */
static void number(struct text *out, double value)
{
    char words[32];
    int length = snprintf(words, sizeof words, "%.2f", value);
    while (words[length - 1] == '0')
        length--;
    text_add_bytes(out, words, (size_t)(length - (words[length - 1] == '.')));
}

static double unit_of(int64_t ns, int64_t span_ns)
{
    return (double)ns * UNITS / (double)span_ns;
}

/* How often the pieces from `at` on repeat after each `period` of them, at equal distances. */
static int repeats(const struct pieces *p, int at, int period, int64_t slack_ns)
{
    if (at + 2 * period > p->count)
        return 1;
    const struct piece *first = &p->list[at];
    int64_t distance = first[period].from_ns - first->from_ns;
    if (first[period - 1].to_ns > first[period].from_ns)
        return 1;
    for (int i = period; at + i < p->count; i++) {
        const struct piece *a = &first[i % period], *b = &first[i];
        int64_t moved = b->from_ns - a->from_ns - distance * (i / period);
        if (llabs(moved) > slack_ns || llabs(b->to_ns - b->from_ns - a->to_ns + a->from_ns) > slack_ns)
            return i / period;
    }
    return (p->count - at) / period;
}

/* How many pieces from `at` on are of its micro-batch. */
static int same_micros(const struct pieces *p, int at, int to)
{
    int count = 1;
    while (at + count < to && p->list[at + count].micro == p->list[at].micro)
        count++;
    return count;
}

/* "0-7*2 4": micro-batches of the pieces, from 0 to 7 twice each, then 4. */
static void micros(struct text *out, const struct pieces *p, int from, int to)
{
    text_add(out, " data-m=\"");
    for (int i = from, next; i < to; i = next) {
        int times = same_micros(p, i, to), last = p->list[i].micro;
        next = i + times;
        while (next < to && p->list[next].micro == last + 1 && same_micros(p, next, to) == times) {
            next += times;
            last++;
        }
        text_printf(out, "%s%d", i > from ? " " : "", p->list[i].micro);
        if (last > p->list[i].micro)
            text_printf(out, "-%d", last);
        if (times > 1)
            text_printf(out, "*%d", times);
    }
    text_add(out, "\"");
}

static void close_path(struct text *out, const struct pieces *p, int from, int to)
{
    if (p->list[from].colour < COMPUTE_COLOURS && p->list[from].colour != OPTIMIZER)
        micros(out, p, from, to);
    text_add(out, "/>");
}

static void plain_path(struct text *out, const struct pieces *p, int from, int to, int y, int64_t span_ns)
{
    int64_t end = 0;
    text_printf(out, "<path d=\"");
    for (int i = from; i < to; i++) {
        int64_t start = llround(unit_of(p->list[i].from_ns, span_ns)),
                finish = llround(unit_of(p->list[i].to_ns, span_ns));
        finish = finish > start ? finish : start + 1;
        if (i == from)
            text_printf(out, "M%lld %d", (long long)start, y);
        else
            text_printf(out, "m%lld 0", (long long)(start - end));
        text_printf(out, "h%lld", (long long)(finish - start));
        end = finish;
    }
    text_add(out, "\"");
    close_path(out, p, from, to);
}

static void dashed_path(struct text *out, const struct pieces *p, int at, int period, int count, int y, int64_t span_ns)
{
    const struct piece *first = &p->list[at];
    int64_t distance_ns = first[period].from_ns - first->from_ns, end_ns = first[period - 1].to_ns;
    text_add(out, "<path d=\"M");
    number(out, unit_of(first->from_ns, span_ns));
    text_printf(out, " %dh", y);
    number(out, unit_of(distance_ns * (count - 1) + end_ns - first->from_ns, span_ns));
    text_add(out, "\" stroke-dasharray=\"");
    for (int i = 0; i < period; i++) {
        number(out, fmax(.3, unit_of(first[i].to_ns - first[i].from_ns, span_ns)));
        text_add(out, " ");
        number(out, unit_of(first[i + 1].from_ns - first[i].to_ns, span_ns));
        text_add(out, i + 1 < period ? " " : "\"");
    }
    close_path(out, p, at, at + period * count);
}

static void draw_pieces(struct text *out, const struct pieces *p, int y, int64_t span_ns)
{
    int64_t slack_ns = span_ns / UNITS;
    int plain = 0, at = 0;
    while (at < p->count) {
        int best = 0, covered = 0;
        for (int period = 1; period <= MOST_PERIOD && at + LEAST_REPEATS * period <= p->count; period++) {
            int count = repeats(p, at, period, slack_ns);
            if (count >= LEAST_REPEATS && count * period > covered + covered / 4 + period) {
                best = period;
                covered = count * period;
            }
        }
        if (covered < 8 + best) {
            at++;
            continue;
        }
        if (at > plain)
            plain_path(out, p, plain, at, y, span_ns);
        dashed_path(out, p, at, best, covered / best, y, span_ns);
        at = plain = at + covered;
    }
    if (at > plain)
        plain_path(out, p, plain, at, y, span_ns);
}

/* ---- the figure ---- */
struct gantt {
    const struct program *program;
    const struct timeline *timeline;
    int64_t span_ns;
    int tall, slim; /* pixels of a row of computation, and of one of transfers */
    bool has[COLOURS];
};

static void rank_name(char out[48], const struct gantt *g, const struct rank_timeline *rank)
{
    const struct plan *plan = g->program->plan;
    if (g->timeline->rank_count == plan->rank_count)
        snprintf(out, 48, plan->stage_count > 1 ? "rank %d, stage %d" : "rank %d", rank->rank, rank->stage);
    else
        snprintf(out, 48, "stage %d", rank->stage);
}

static void draw_rank(struct text *rows, struct gantt *g, const struct pieces pieces[COLOURS], int *y)
{
    for (int c = 0; c < COLOURS; c++) {
        bool computes = c < COMPUTE_COLOURS;
        int size = computes ? g->tall : g->slim;
        g->has[c] |= pieces[c].count > 0;
        if (pieces[c].count > 0) {
            text_printf(rows, "<g class=\"g%d\" stroke-width=\"%d\">", c, 2 * size);
            draw_pieces(rows, &pieces[c], 2 * *y + size, g->span_ns);
            text_add(rows, "</g>");
        }
        if (c + 1 == COMPUTE_COLOURS || (!computes && pieces[c].count > 0))
            *y += size + 1;
    }
    *y += 3;
}

/* Rows of every stride-th rank, until they are longer than `most` bytes; names get their heights. False: out of memory.
 */
static bool draw_ranks(struct text *rows, struct text *names, int *height, struct gantt *g, enum grain grain,
                       int stride, size_t most)
{
    struct pieces pieces[COLOURS] = { 0 };
    int y = 1, spans = 1;
    for (int r = 0; r < g->timeline->rank_count; r++)
        spans = (int)max_i64(spans, g->timeline->ranks[r].span_count);
    struct piece *all = calloc((size_t)spans * COLOURS, sizeof *all);
    for (int c = 0; all && c < COLOURS; c++)
        pieces[c].list = &all[(size_t)c * (size_t)spans];
    for (int r = 0; all && r < g->timeline->rank_count && rows->length <= most; r += stride) {
        const struct rank_timeline *rank = &g->timeline->ranks[r];
        char name[48];
        int from = y;
        collect(pieces, g->program, rank, grain, g->span_ns / GAP_SHARE);
        draw_rank(rows, g, pieces, &y);
        rank_name(name, g, rank);
        text_printf(names, "<span style=\"height:%dpx\">%s</span>", y - from, name);
    }
    *height = y;
    free(all);
    return all != NULL;
}

static void legend_of(struct text *out, const bool has[COLOURS])
{
    draw_legend_open(out);
    for (int c = 0; c < COLOURS; c++) {
        char class[16];
        snprintf(class, sizeof class, "g%d", c);
        if (has[c])
            draw_legend_item(out, class, colour_words[c]);
    }
    draw_legend_close(out);
}

static void gantt_frame(struct text *out, const struct gantt *g, const struct text *rows, const struct text *names,
                        int height, const char *title)
{
    struct scale axis = axis_of_ns(0, (double)g->span_ns);
    legend_of(out, g->has);
    text_printf(out, "<div class=\"gantt\" data-ns=\"%lld\" data-units=\"%d\"", (long long)g->span_ns, UNITS);
    draw_attribute(out, "data-name", title);
    text_add(out, "><div class=\"tools\"></div><div class=\"lanes\"><div class=\"names\">");
    text_add(out, names->data ? names->data : "");
    text_printf(out,
                "</div><div class=\"field\"><svg viewBox=\"0 0 %d %d\" preserveAspectRatio=\"none\" height=\"%d\" "
                "role=\"img\"",
                UNITS, 2 * height, height);
    draw_attribute(out, "aria-label", title);
    text_printf(out, ">%s</svg><div class=\"over\"></div><div class=\"ticks\">", rows->data ? rows->data : "");
    draw_ticks(out, &axis);
    text_add(out, "</div></div></div></div>\n");
}

void chart_gantt(struct text *out, const struct program *program, const struct timeline *timeline, int64_t span_ns,
                 const char *title, size_t budget)
{
    struct gantt g = { program, timeline, max_i64(1, span_ns), .tall = 14, .slim = 4 };
    int grain = program->plan->micro_batch_count < MANY_MICROS ? GRAIN_INSTR : GRAIN_PASS, stride = 1, height = 0;
    if (timeline->rank_count > 8)
        g.tall = 9, g.slim = 3;
    for (;; grain + 1 < GRAIN_COUNT ? grain++ : (stride *= 2)) {
        struct text rows = { 0 }, names = { 0 };
        bool last = stride >= timeline->rank_count && grain + 1 == GRAIN_COUNT;
        bool drawn = draw_ranks(&rows, &names, &height, &g, (enum grain)grain, stride, last ? SIZE_MAX : budget);
        if (!drawn || rows.failed || names.failed)
            out->failed = true;
        else if (rows.length <= budget || last) {
            char words[320], number_words[TEXT_NUMBER_BYTES];
            snprintf(words, sizeof words, "%s: timeline of %d rows, a step of %s", title,
                     (timeline->rank_count + stride - 1) / stride, text_duration_ns(number_words, timeline->step_ns));
            gantt_frame(out, &g, &rows, &names, height, words);
            text_printf(out, "<p class=\"soft\">A bar is %s%s", grain_words[grain],
                        grain == GRAIN_INSTR ? "" : ", with what it waits for in between where that is short");
            if (stride > 1)
                text_printf(out, "; of %d rows one in %d is drawn", timeline->rank_count, stride);
            text_add(out, ".</p>\n");
            last = true;
        }
        text_free(&rows);
        text_free(&names);
        if (out->failed || last)
            return;
    }
}

/* ---- closer ---- */
enum { MOST_SPANS = 140 };

static const char *instr_words(const struct program *program, const struct instr *instr)
{
    return instr->op == OP_COMPUTE ? kernel_facts[program->graph->segments[instr->segment].kernel].name
                                   : op_info[instr->op].name;
}

/* All spans of the rank, by their start; layer: the instruction's index. */
static struct piece *sorted_spans(const struct program *program, const struct rank_timeline *rank, int *count)
{
    struct piece *list = calloc((size_t)rank->span_count + 1, sizeof *list);
    *count = 0;
    for (int s = 0; list && s < rank->span_count; s++) {
        const struct span *span = &rank->spans[s];
        if (span->finish_ns > span->start_ns)
            list[(*count)++] = (struct piece){ span->start_ns, span->finish_ns,
                                               colour_of(&program->stages[rank->stage].instrs[s]), 0, s };
    }
    if (list)
        qsort(list, (size_t)*count, sizeof *list, by_start);
    return list;
}

static void closeup_row(struct text *out, const struct scale *axis, const struct program *program, int stage,
                        const struct piece *list, int count, int64_t start_ns, int row)
{
    bool computes = row < COMPUTE_COLOURS;
    draw_row_open(out, 0, computes ? "computation" : colour_words[row]);
    for (int i = 0; i < count; i++) {
        const struct instr *instr = &program->stages[stage].instrs[list[i].layer];
        char title[160], class[16], number_words[TEXT_NUMBER_BYTES];
        if (computes ? list[i].colour >= COMPUTE_COLOURS : (int)list[i].colour != row)
            continue;
        int length = snprintf(title, sizeof title, "%s, %s", instr_words(program, instr), colour_words[list[i].colour]);
        if (instr->layer >= 0)
            length += snprintf(title + length, sizeof title - (size_t)length, ", layer %d", instr->layer);
        if (instr->micro >= 0)
            length += snprintf(title + length, sizeof title - (size_t)length, ", micro-batch %d", instr->micro);
        snprintf(title + length, sizeof title - (size_t)length, ": %s",
                 text_duration_ns(number_words, list[i].to_ns - list[i].from_ns));
        snprintf(class, sizeof class, "g%d", (int)list[i].colour);
        draw_segment(out, class, axis_place(axis, (double)(list[i].from_ns - start_ns)),
                     axis_place(axis, (double)(list[i].to_ns - start_ns)), title);
    }
    draw_row_close(out, "");
}

void chart_closeup(struct text *out, const struct program *program, const struct timeline *timeline)
{
    const struct rank_timeline *rank = &timeline->ranks[timeline_last_rank(timeline)];
    int count, first;
    struct piece *list = sorted_spans(program, rank, &count);
    if (!list || count < 2) {
        free(list);
        return;
    }
    first = count > MOST_SPANS ? (count - MOST_SPANS) / 2 : 0;
    while (first > 0 && list[first].colour >= COMPUTE_COLOURS)
        first--;
    int shown = (int)min_i64(MOST_SPANS, count - first);
    int64_t start_ns = list[first].from_ns, end_ns = start_ns;
    bool has[COLOURS] = { false };
    for (int i = first; i < first + shown; i++) {
        end_ns = max_i64(end_ns, list[i].colour < COMPUTE_COLOURS ? list[i].to_ns : end_ns);
        has[list[i].colour] = true;
    }
    for (int i = first; i < first + shown; i++)
        list[i].to_ns = min_i64(list[i].to_ns, max_i64(end_ns, list[i].from_ns));
    struct scale axis = axis_of_ns(0, (double)(end_ns - start_ns));
    char words[256], number_words[TEXT_NUMBER_BYTES], moment[TEXT_NUMBER_BYTES];
    snprintf(words, sizeof words, "%d instructions of stage %d, over %s from %s on", shown, rank->stage,
             text_duration_ns(number_words, end_ns - start_ns), text_duration_ns(moment, start_ns));
    legend_of(out, has);
    draw_rows_open(out, &axis, words);
    closeup_row(out, &axis, program, rank->stage, &list[first], shown, start_ns, 0);
    for (int c = COMPUTE_COLOURS; c < COLOURS; c++)
        if (has[c])
            closeup_row(out, &axis, program, rank->stage, &list[first], shown, start_ns, c);
    draw_rows_close(out, &axis);
    text_printf(out, "<p class=\"soft\">%s.</p>\n", words);
    free(list);
}
