/* The rows of files of measured runs, each with what is predicted of it: for `validate` and `calibrate`. */
#ifndef CLEAVE_CLI_MEASURED_ROWS_H
#define CLEAVE_CLI_MEASURED_ROWS_H
#include "cli/inputs.h"
#include "cli/validation.h"
#include <pthread.h>

enum { MEASURED_MOST_FILES = 64 };
struct measured_rows {
    /* What is asked, filled in before anything is read. */
    const struct cli *cli;
    const char *by;                   /* the column that rows are grouped by */
    const char *framework;            /* instead of what rows name; NULL: that */
    const struct text_list *profiles; /* NULL: none. A calibration corrects the rows that it speaks of */
    double limit_s;                   /* a row whose prediction takes longer is skipped; 0: none is */
    int jobs;                         /* threads; processes where there is a limit */

    struct inputs in; /* its catalogue is that of all rows */
    struct csv *files[MEASURED_MOST_FILES];
    int file_count, count, capacity;
    struct validated_row *rows;      /* (count) */
    struct validated_row **distinct; /* (distinct_count) of which different things are asked */
    int distinct_count;
    pthread_mutex_t reading; /* cJSON has one place for all threads where it notes errors */
};
#define MEASURED_ROWS(cli_, by_, jobs_)                                                                                \
    {                                                                                                                  \
        .cli = (cli_), .by = (by_), .jobs = (jobs_), .in = { .cli = (cli_) }, .reading = PTHREAD_MUTEX_INITIALIZER     \
    }
/* Reads a file more, and the device catalogue. */
bool measured_rows_read(struct measured_rows *m, const char *path, struct error *err);
/* What is to be asked of the rows: `distinct` of them, `alike` of the others, skips. */
bool measured_rows_ask(struct measured_rows *m, struct error *err);
/**
 * Predicts each row as `cleave estimate` would, a progress line under the name of the verb. What is wrong with a row
 * is a reason to skip it; fails where the machine or the program is.
 */
bool measured_rows_predict(struct measured_rows *m, const char *verb, struct error *err);
struct row_price {
    int64_t step_ns, peak_bytes; /* with a calibration the step that runs like it say */
    bool fits;
    struct run_shape shape; /* its texts are the row's */
    double least_s;         /* seconds that the model's own work takes at the devices' peak; 0: no peak is known */
};
/* What of a row that is asked `cleave estimate` says, also with a calibration; NULL: without. Several threads may. */
bool measured_row_price(struct row_price *out, struct measured_rows *m, const struct validated_row *row,
                        const struct calibration *trial, struct error *err);
/* Refuses a measured step that is shorter than what the model's work takes at the peak of as many devices. name: the
 * log, or the file and its row. */
bool measured_step_possible(const char *name, double step_s, double least_s, int64_t device_count, const char *device,
                            struct error *err);
/* Of a predicted step; 0: no peak is known. */
double measured_least_s(const struct prediction *prediction);
void measured_rows_free(struct measured_rows *m);
#endif
