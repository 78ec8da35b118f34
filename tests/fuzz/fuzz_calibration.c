/* Any bytes as a calibration: refused with a message, or speeds within their limits, and the same when it is written
 * and read again. */
#include "cli/calibration.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct calibration calibration = { 0 }, again = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    bool is = calibration_is((const char *)data, size);
    if (!calibration_read(&calibration, &arena, "fuzz", (const char *)data, size, &err)) {
        if (err.kind != ERROR_INPUT || strncmp(err.message, "fuzz:", 5) != 0)
            abort();
        arena_free(&arena);
        return 0;
    }
    size_t length = 0;
    char *text = calibration_write(&calibration, &length);
    if (!is || !text || !calibration_read(&again, &arena, "again", text, length, &err) ||
        again.count != calibration.count)
        abort();
    for (int i = 0; i < calibration.count; i++)
        for (int k = 0; k < MECHANISM_COUNT; k++)
            if (!(calibration.corrections[i].speed[k] >= LEAST_SPEED &&
                  calibration.corrections[i].speed[k] <= MOST_SPEED) ||
                calibration.corrections[i].speed[k] != again.corrections[i].speed[k])
                abort();
    free(text);
    arena_free(&arena);
    return 0;
}
