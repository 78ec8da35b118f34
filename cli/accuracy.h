/* How far predictions were off of published runs, by framework, device and dtype: a fact beside each price.
 *
 * planner/facts/accuracy.json is written by `cleave validate ... --accuracy FILE`. */
#ifndef CLEAVE_CLI_ACCURACY_H
#define CLEAVE_CLI_ACCURACY_H
#include "base/json.h"

struct validated_row;
/* Runs of one framework on one device in one dtype, of models with or without mixtures of experts. Errors are
 * predicted / measured - 1 of their steps. */
struct accuracy_entry {
    const char *framework, *device, *dtype;
    bool experts;
    int64_t rows, most_devices;
    double median, low, high; /* low and high: four of five runs lie between; of fewer than ACCURACY_MANY all do */
};
struct accuracy {
    const char *source; /* which runs, for people */
    int count;
    struct accuracy_entry *entries; /* (count) */
};
enum { ACCURACY_MANY = 10, ACCURACY_MOST = 1024 };
#define ACCURACY_FORMAT "cleave-accuracy"
enum { ACCURACY_VERSION = 1 };

/* All in the arena. Refused with place and reason: what is no such file, two entries of the same, a range that is none
 * or does not hold the median. */
bool accuracy_read(struct accuracy *out, struct arena *arena, const char *name, const char *text, size_t length,
                   struct error *err);
/* The index-th field table of the format and its name; NULL past the last. For `cleave schema`. */
extern const struct json_format accuracy_formats[];
/* What rows say that were predicted: of those whose step counts and whose framework is in the catalogue. In the
 * arena. */
bool accuracy_of_rows(struct accuracy *out, struct arena *arena, const struct validated_row *rows, int count,
                      struct error *err);
char *accuracy_write(const struct accuracy *accuracy, size_t *length); /* deterministic; caller frees */

/* What is asked for: a job's framework, device ("" : of several types), dtype, size. */
struct accuracy_question {
    const char *framework, *device, *dtype;
    bool experts;
    int devices;
};
/* One sentence without its period: how far such runs were off, or that none is known and what of it is covered.
 * *entry: what it speaks of, NULL: nothing. */
void accuracy_tell(struct text *out, const struct accuracy_entry **entry, const struct accuracy *accuracy,
                   const struct accuracy_question *question);
#endif
