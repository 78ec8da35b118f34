/* What a calibration came to, and how it is told. */
#ifndef CLEAVE_CLI_CALIBRATED_H
#define CLEAVE_CLI_CALIBRATED_H
#include "cli/calibration.h"
#include "cli/verb.h"

/* Of |predicted / measured - 1|. */
struct fit_errors {
    double mean, median;
};
struct calibrated {
    int run_count;
    struct fit_errors before, after;
    struct fit_errors like;               /* of each run with the corrections, by what all others left */
    const struct text_list *held_by;      /* columns: rows that say the same are held out together, by each column */
    struct fit_errors held_out[MAX_LIST]; /* by column: with what all other rows say */
    int group_count[MAX_LIST];
    struct {
        const char *name;               /* a log's or a row's */
        double measured_s, corrected_s; /* its step, and what is predicted of it with the corrections */
    } worst;                            /* of the runs */
    double *least, *most; /* by correction and mechanism, of the first column's groups held out; NULL: of none */
    struct calibration calibration;
};
/* Says where half of the runs are further off than corrections should leave them, and what else it can be. */
void calibrated_note(FILE *out, const struct calibrated *found);
void calibrated_print(FILE *out, const struct calibrated *found);
bool calibrated_write_json(const struct cli *cli, const struct calibrated *found, struct error *err);
#endif
