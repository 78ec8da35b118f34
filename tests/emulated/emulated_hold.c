#include "host/clock.h"
#include "tests/emulated/emulated.h"
#include <stdatomic.h>
#include <stdlib.h>

struct held {
    const gpu_gate *gate;
    int32_t number;
    int64_t most_ns;
};

static void wait_at_gate(void *context)
{
    enum { NAP_NS = 50000 };
    struct held *held = context;
    const int64_t start_ns = clock_now_ns();
    int64_t now_ns = start_ns;
    while (atomic_load(held->gate) < held->number && now_ns - start_ns < held->most_ns) {
        clock_sleep_until_ns(now_ns + NAP_NS);
        now_ns = clock_now_ns();
    }
    free(held);
}

bool emulated_hold(void *self, void *stream, const gpu_gate *gate, int32_t number, int64_t most_ns, struct error *err)
{
    struct held *held = malloc(sizeof *held);
    (void)self;
    if (!held)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a stream that is held");
    *held = (struct held){ gate, number, most_ns };
    return gpu_emulated_call(stream, wait_at_gate, NULL, held, err);
}
