/* Any bytes as a framework: refused with a message, or within the limits of its table. */
#include "planner/facts/framework.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct framework framework = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    bool read = framework_read(&framework, &arena, "fuzz", (const char *)data, size, NULL, &err);
    if (read ? !framework.name || !framework.source || framework.passes < 1 || framework.issue_kernel_ns < 0
             : err.kind != ERROR_INPUT || err.message[0] == '\0')
        abort();
    arena_free(&arena);
    return 0;
}
