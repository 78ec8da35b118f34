/* The certificate's records as ranges of the space's enumeration, so that a certificate stays small
 * however many configurations a search leaves. */
#include "planner/search/search_parts.h"
#include <stdlib.h>

/* At 14 bytes each, so many ranges are a small part of a certificate's megabyte. */
enum { MOST_RANGES = 12000 };

static int compare_records(const void *a, const void *b)
{
    const struct config_record *x = a, *y = b;
    return (x->config > y->config) - (x->config < y->config);
}

/* Lets records share a range that come within `gap` of the one before and have its fate; the range spans what lies
 * between them, which has no record. */
static void fold(struct certificate *c, int gap)
{
    struct config_range *open = NULL;
    c->range_count = 0;
    for (int i = 0; i < c->record_count; i++) {
        const struct config_record *record = &c->records[i];
        /* the fates of solved and of left ones hold as well of those between, which their first bound rules out */
        int reach = open && (open->fate == FATE_SOLVED || open->fate == FATE_LEFT) ? gap : 1;
        if (!open || open->fate != record->fate || record->config - open->last > reach) {
            open = &c->ranges[c->range_count++];
            *open = (struct config_range){ record->fate, record->config, record->config };
        }
        open->last = record->config;
    }
}

static void fold_all(struct certificate *c)
{
    fold(c, 1);
    for (int gap = 2; c->range_count > MOST_RANGES && gap < c->configurations; gap *= 2) {
        c->coarse = true;
        fold(c, gap);
    }
}

/* Claims less than is known, which stays true: solved, left, out by memory become left, or solved if none is left. */
static void tell_less_apart(struct certificate *c)
{
    enum config_fate common = FATE_SOLVED;
    for (int i = 0; i < c->record_count; i++)
        if (c->records[i].fate == FATE_LEFT)
            common = FATE_LEFT;
    for (int i = 0; i < c->record_count; i++)
        if (c->records[i].fate != FATE_REFUSED && c->records[i].fate != FATE_UNSEEN)
            c->records[i].fate = common;
}

bool certificate_ranges_make(struct run *run)
{
    struct certificate *c = &run->result->certificate;
    c->ranges = arena_alloc(&run->result->arena, (size_t)c->record_count + 1, sizeof *c->ranges);
    if (!c->ranges)
        return fail_memory(run->err);
    if (c->record_count > 0)
        qsort(c->records, (size_t)c->record_count, sizeof *c->records, compare_records);
    fold_all(c);
    if (c->range_count > MOST_RANGES) {
        tell_less_apart(c);
        fold_all(c);
    }
    int64_t counts[FATE_COUNT] = { 0 };
    c->pruned_bound = c->configurations;
    for (int i = 0; i < c->range_count; i++)
        counts[c->ranges[i].fate] += c->ranges[i].last - c->ranges[i].first + 1;
    for (int fate = 0; fate < FATE_COUNT; fate++)
        c->pruned_bound -= counts[fate];
    c->solved = counts[FATE_SOLVED];
    c->pruned_memory = counts[FATE_MEMORY];
    c->refused = counts[FATE_REFUSED];
    c->left = counts[FATE_LEFT];
    c->unseen = counts[FATE_UNSEEN];
    c->asked_gap_ppm = run->options->gap_ppm;
    c->complete = c->left + c->unseen == 0 && !run->unbounded_unseen &&
                  (c->bound_ns == 0 ||
                   c->best_ns - c->bound_ns <= partition_gap_ns(c->asked_gap_ppm, c->best_ns) + 1); /* rounding */
    return true;
}
