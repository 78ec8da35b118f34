/* Any bytes as what is known of predictions' errors: refused with a message, or ranges that hold their medians, and the
 * same when it is written and read again. */
#include "cli/accuracy.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct accuracy accuracy = { 0 }, again = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    if (!accuracy_read(&accuracy, &arena, "fuzz", (const char *)data, size, &err)) {
        if (err.kind != ERROR_INPUT || strncmp(err.message, "fuzz:", 5) != 0)
            abort();
        arena_free(&arena);
        return 0;
    }
    size_t length = 0;
    char *text = accuracy_write(&accuracy, &length);
    if (!text || !accuracy_read(&again, &arena, "again", text, length, &err) || again.count != accuracy.count)
        abort();
    for (int i = 0; i < accuracy.count; i++) {
        const struct accuracy_entry *a = &accuracy.entries[i], *b = &again.entries[i];
        if (!(a->low <= a->median && a->median <= a->high) || a->rows < 1 || a->low != b->low || a->high != b->high ||
            strcmp(a->device, b->device) != 0)
            abort();
    }
    free(text);
    arena_free(&arena);
    return 0;
}
