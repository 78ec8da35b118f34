/* Any bytes as a plan file: never crashes, and what is accepted is written and read again as the same plan. */
#include "planner/plan/plan_json.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct plan_file *file = NULL, *again = NULL;
    struct error err = { 0 };
    size_t length = 0;
    if (!plan_json_read(&file, "fuzz", (const char *)data, size, &err)) {
        if (err.kind == ERROR_NONE || file)
            abort();
        return 0;
    }
    char *text = plan_json_write(file->plan, NULL, &file->context, &length);
    if (text &&
        (!plan_json_read(&again, "written", text, length, &err) || plan_hash(again->plan) != plan_hash(file->plan)))
        abort();
    free(text);
    plan_file_free(again);
    plan_file_free(file);
    return 0;
}
