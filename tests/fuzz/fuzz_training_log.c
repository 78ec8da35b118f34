/* Any bytes as what a training program printed: refused with a message, or positive steps of one kind. */
#include "cli/training_log.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct training_log log = { 0 };
    struct error err = { 0 };
    if (!training_log_read(&log, "fuzz", (const char *)data, size, &err)) {
        if (err.kind != ERROR_INPUT || strncmp(err.message, "fuzz:", 5) != 0)
            abort();
        return 0;
    }
    double step_s = training_log_step_s(&log, 8, 128, 2);
    int told = (log.step_s > 0) + (log.tokens_per_s > 0) + (log.samples_per_s > 0);
    if (log.step_count < 1 || told != 1 || !(step_s >= 0) || isnan(step_s) || log.peak_bytes < 0 || log.batch < 0)
        abort();
    return 0;
}
