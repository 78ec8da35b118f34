/* Any bytes as a file of chosen algorithms: refused with a message, or read, written and read again as the same. */
#include "executor/gpu/choices.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gpu_choices first = { 0 }, second = { 0 };
    struct error err = { 0 };
    size_t length = 0;
    if (!gpu_choices_read(&first, "fuzz", (const char *)data, size, "toy GPU", &err)) {
        must(err.kind == ERROR_INPUT && err.message[0] != '\0' && first.choice == NULL);
        return 0;
    }
    char *text = gpu_choices_write(&first, "toy GPU", &length);
    must(text && gpu_choices_read(&second, "again", text, length, "toy GPU", &err) && second.count == first.count &&
         memcmp(first.choice, second.choice, (size_t)first.count * sizeof *first.choice) == 0);
    free(text);
    gpu_choices_free(&first);
    gpu_choices_free(&second);
    return 0;
}
