/* NCCL between emulated GPUs of one process, for tests: calls run on the streams, wait there until the other members
 * have come to the same call, and see what streams see: a wait that is missing breaks them. All sums are in the order
 * of the members. */
#ifndef CLEAVE_TESTS_EMULATED_NCCL_H
#define CLEAVE_TESTS_EMULATED_NCCL_H
#include "executor/gpu/nccl.h"

struct emulated_nccl; /* what the ranks of one run share */
bool emulated_nccl_new(struct emulated_nccl **out, int rank_count, struct error *err);
void emulated_nccl_free(struct emulated_nccl *shared); /* after all ranks have closed theirs */
/* The table of one rank. gpu: its memory alone may be lent that the table allocates there; NULL: any. */
struct gpu;
bool emulated_nccl_open(struct nccl *out, struct emulated_nccl *shared, const struct gpu *gpu, int rank,
                        struct error *err);

/* What becomes of a call: it is refused; it is taken, and its communicator says later that it has failed; it does not
 * return; it returns and stays in progress; it is under way and does not end on the device. */
enum call_fate { CALL_REFUSED, CALL_FAILS_LATER, CALL_HANGS, CALL_STAYS, CALL_NEVER_ENDS, CALL_FATE_COUNT };
/* Of the functions of the library, all but state(), lend() and abort(), the rank's call of this number, from 0 for the
 * next one, or the first one after it that can, has this fate. */
void emulated_nccl_break(struct emulated_nccl *shared, int rank, int call, enum call_fate fate);
/* The function that it was; NULL: there were not so many calls. */
const char *emulated_nccl_broken(const struct emulated_nccl *shared);
/* What hangs returns; from any thread. */
void emulated_nccl_release(struct emulated_nccl *shared);

/* The calls of a rank in the order in which they were begun, whatever the communicator: as text, "0 all-gather of 4;"
 * the number being that of the split that made the communicator. */
const char *emulated_nccl_order(const struct emulated_nccl *shared, int rank);
/* After the run, what no library would bear: members that called different things, calls of one rank that interleaved,
 * memory that was not lent or that no other device could reach, members that left alone, communicators that were kept;
 * NULL: none. */
const char *emulated_nccl_misuse(const struct emulated_nccl *shared);
#endif
