/* Times of collectives that nccl-tests measured: its text or its JSON. */
#ifndef CLEAVE_PROFILER_NCCL_TESTS_H
#define CLEAVE_PROFILER_NCCL_TESTS_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { NCCL_ROWS = 256, NCCL_RANKS = 4096, NCCL_NAME_BYTES = 64 };

/* Of one run of one collective, out of place. */
struct nccl_tests {
    const char *name;             /* of the file; borrowed */
    int ranks, hosts;             /* as many ranks on every host */
    char device[NCCL_NAME_BYTES]; /* what the driver calls rank 0's; empty: the file does not say */
    int passes;                   /* around a ring: 2 of an all-reduce; 1 of a gather, a reduce-scatter and an
                                     all-to-all */
    int row_count;                /* at least 2 */
    struct nccl_row {
        double bytes, ns; /* size of the whole, as the table has it */
    } row[NCCL_ROWS];
};
/* Reads either form. Columns of the text are found by their names. The collective is told by the ratio of bus to
 * algorithm bandwidth in the last row: 2 (n - 1) / n with an operation is an all-reduce, (n - 1) / n one of one pass;
 * collectives with a root and messages are refused. Of the JSON only sizes, times, rates and the hosts of the ranks are
 * looked at, never the environment. name: of the file, for messages. */
bool nccl_tests_read(struct nccl_tests *out, const char *name, const char *text, size_t length, struct error *err);
/* Bytes that every rank sends around the ring for `bytes` of the table: what bus bandwidth counts. */
double nccl_tests_bus_bytes(const struct nccl_tests *tests, double bytes);
#endif
