/* Any bytes as what nccl-tests prints, text or JSON. What is accepted has ranks on hosts and times of sizes. */
#include "profiler/nccl_tests.h"
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct nccl_tests tests;
    struct error err = { 0 };
    if (!nccl_tests_read(&tests, "fuzz", (const char *)data, size, &err)) {
        must(err.kind == ERROR_INPUT);
        return 0;
    }
    must(tests.ranks >= 2 && tests.hosts >= 1 && tests.ranks % tests.hosts == 0 && tests.row_count >= 2);
    must(tests.passes == 1 || tests.passes == 2);
    for (int i = 0; i < tests.row_count; i++)
        must(tests.row[i].bytes > 0 && tests.row[i].ns > 0 && nccl_tests_bus_bytes(&tests, tests.row[i].bytes) > 0);
    return 0;
}
