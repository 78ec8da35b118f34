/* Where the bytes of a plan's fullest stage go, for people. */
#ifndef CLEAVE_CLI_MEMORY_ACCOUNT_H
#define CLEAVE_CLI_MEMORY_ACCOUNT_H
#include "cli/inputs.h"
#include "planner/explain/explain_account.h"

/* Of the stage that has least memory left. The kinds of memory.bytes add up to memory.peak_bytes, what was predicted;
 * usable is what a device of that stage has for them, beside the framework's buffers and the reserve. */
struct memory_account {
    struct stage_memory memory;
    int stage;
    int64_t usable_bytes, buffers_bytes, reserve_bytes;
};
/* Lowers the plan, whose prediction this is. */
bool memory_account_of(struct memory_account *out, const struct inputs *in, const struct plan *plan,
                       const struct prediction *prediction, struct error *err);
/* A line for each kind, or the largest kinds on one line. */
void memory_account_print(const struct cli *cli, const struct memory_account *account, bool whole);
/* That it does not fit, by how much, and what takes most. Returns false. */
bool memory_account_fail(const struct memory_account *account, struct error *err);
#endif
