/* A GPU made of system threads, for tests: streams run on threads of their own and in no order but that of events;
 * teams run as threads that take turns between barriers (emulated_teams.c). What a missing wait or barrier breaks, it
 * breaks here, and the thread sanitizer, under which teams are system threads with real barriers, says where. */
#ifndef CLEAVE_TESTS_EMULATED_H
#define CLEAVE_TESTS_EMULATED_H
#include "executor/gpu/gpu.h"

enum { EMULATED_THREADS = 64 };
/* threads: of a team, a power of two up to 64, fewer where a kernel has fewer; teams: launched at most. Memory begins
 * as NaN. with_library: matrix products come from `matmul`, which refuses strides that a library would not take; else
 * the device has none. Ends by gpu->close(). */
bool gpu_emulated_open(struct gpu *out, int threads, int teams, bool with_library, struct error *err);
/* Before anything is queued: a stream holds so many tasks, and who queues another one waits, as CUDA does (the
 * library's calls find room: it queues them on a thread of its own). */
void gpu_emulated_bound(const struct gpu *gpu, int tasks);
/* Runs the kernel's body on so many teams, one after another, of so many threads or fewer (EMULATED_THREADS at most).
 */
void emulated_teams(enum gpu_kernel kernel, int threads, int64_t teams, const struct gpu_work *work);
/* gpu.hold. */
bool emulated_hold(void *self, void *stream, const gpu_gate *gate, int32_t number, int64_t most_ns, struct error *err);
/* The stream calls the function in its turn, in a graph as often as that is repeated, and then forget (NULL: nobody
 * needs to hear), once. */
bool gpu_emulated_call(void *stream, void (*function)(void *context), void (*forget)(void *context), void *context,
                       struct error *err);
/* Whether what is queued now is kept for a graph. */
bool gpu_emulated_captures(void *stream);
#endif
