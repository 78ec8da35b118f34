/* Records of what really ran in the last step, beside the events: the library that keeps them slows what it watches, so
 * that the steps before, of which the median is told, go without. */
#include "executor/gpu/device.h"
#include "host/clock.h"
#include "executor/activity.h"
#include <stdio.h>

static void note(const struct rank *rank, const char *why)
{
    char text[ERROR_MESSAGE_BYTES + 96];
    if (!rank->options->on_note)
        return;
    snprintf(text, sizeof text, "kernels are not recorded, and times are those of events alone: %s", why);
    rank->options->on_note(rank->options->context, text);
}

void gpu_watch_open(struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    struct error why = { 0 };
    if (!rank->options->kernels)
        return;
    g->records = g->gpu.watch_ready && g->gpu.watch_ready(g->gpu.self, &why);
    if (!g->records)
        note(rank, g->gpu.watch_ready ? why.message : "the device keeps no records");
}

void gpu_watch_begin(struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    struct error why = { 0 };
    if (!g->records || rank->step + 1 != rank->options->step_count)
        return;
    g->watch = g->gpu.watch_begin(g->gpu.self, g->stream, clock_now_ns, &why);
    if (!g->watch)
        note(rank, why.message);
}

void gpu_watch_end(struct rank *rank, const struct span *spans)
{
    struct gpu_rank *g = rank->device_state;
    struct error why = { 0 };
    void *watch = g->watch;
    if (!watch)
        return;
    g->watch = NULL;
    if (!g->gpu.watch_end(g->gpu.self, watch, &rank->activity, &why)) {
        note(rank, why.message);
        return;
    }
    rank->activity.counts.clock_error_ns += g->origin_error_ns; /* the spans' own */
    activity_attribute(&rank->activity, &rank->program->stages[rank->stage], spans);
}

void gpu_watch_close(struct rank *rank)
{
    struct gpu_rank *g = rank->device_state;
    if (g->watch)
        g->gpu.watch_end(g->gpu.self, g->watch, NULL, NULL);
    g->watch = NULL;
}
