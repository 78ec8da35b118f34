/* Fits speeds of mechanisms to measured steps: what `calibrate` makes a calibration of. Knows no files and no models.
 */
#ifndef CLEAVE_CLI_CALIBRATE_FIT_H
#define CLEAVE_CLI_CALIBRATE_FIT_H
#include "base/arena.h"
#include "base/error.h"
#include "cli/calibration.h"

/* A measured step beside what is predicted of it with the speeds as they are now. Its speeds are products of two
 * holders': of its device and of its framework. */
struct fit_sample {
    int holder[2];
    const char *group;             /* left out together; NULL: never */
    double log_ratio;              /* log(measured / predicted) */
    double slope[MECHANISM_COUNT]; /* of the log of the predicted step by the log of a speed: 0 to -1 */
};
/* What the speeds are: logs, (holder_count, MECHANISM_COUNT). */
struct fit {
    int holder_count;
    double *log_speed;
};
/**
 * The speeds that are likeliest given the samples, in the linear model about `at`: |error| counts as in Huber's loss,
 * and each log speed has a normal prior about 0 with a spread by mechanism, so that what no sample speaks of stays 1;
 * kernels' have a common part beside, which may be large. The unit of errors is what samples of one device and
 * framework scatter about their common offset once speeds explain what they can, .02 at least: a single sample, or some
 * that are off alike, are explained. Speeds keep within LEAST_SPEED and MOST_SPEED. left_out: samples of this group
 * have no say; NULL: all have. Fails only for want of memory.
 */
bool fit_solve(struct fit *out, const struct fit *at, const struct fit_sample *samples, int count, const char *left_out,
               struct arena *arena, struct error *err);
/* predicted / measured - 1 of the sample with these speeds, in the linear model about `at`. */
double fit_error(const struct fit *speeds, const struct fit *at, const struct fit_sample *sample);
#endif
