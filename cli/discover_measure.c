#include "cli/discover_measure.h"
#include "cli/inputs.h"
#include "cli/measuring.h"
#include "cli/progress.h"
#include "executor/backends.h"
#include "executor/gpu/learned.h"
#include "host/machine.h"
#include "profiler/device_entry.h"
#include "profiler/resident.h"
#include <stdlib.h>
#include <string.h>

/* Ascending numbers between commas. */
static bool read_sizes(struct device_entry_options *options, const char *text, struct error *err)
{
    const int64_t most = 1 << 20;
    int count = 0;
    for (const char *at = text;; at++) {
        char *end;
        long long size = strtoll(at, &end, 10);
        bool good = end > at && (*end == ',' || *end == '\0') && count < SURFACE_MOST_SIZES && size <= most &&
                    size > (count > 0 ? options->sizes[count - 1] : 0);
        if (!good)
            break;
        options->sizes[count++] = size;
        at = end;
        if (*at == '\0' && count > 1) {
            options->size_count = count;
            return true;
        }
        if (*at == '\0')
            break;
    }
    return fail(err, "--sizes: expected 2 to %d ascending sizes between commas (16,64,256,1024), found \"%s\"",
                (int)SURFACE_MOST_SIZES, text);
}

/* On threads, which share this process's memory: nothing passes between the ranks. */
static bool measure_with(struct device_type *out, struct arena *arena, struct crew *crew,
                         const struct device_entry_options *options, struct error *err)
{
    struct transport_set set = { 0 };
    struct gpu_learned learned;
    const struct transport_options transport = { 0 };
    if (!transports_open(&set, "threads", crew->rank_count, &transport, err))
        return false;
    gpu_learned_open(&learned);
    crew->transports = set.transports, crew->local_count = set.count, crew->learned = &learned;
    bool ok = device_entry_measure(out, arena, crew, options, err);
    gpu_learned_close(&learned);
    transports_close(&set);
    return ok;
}

static bool write_entry(const struct cli *cli, const char *path, const struct device_type *device, struct error *err)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    if (!path)
        return true;
    device_type_write(&w, device);
    char *text = json_finish(&w, &length);
    return inputs_hand_out(cli, path, text, length, err);
}

/* What computes on such a device: the cores of a host are the processor, all others GPUs. */
static const char *backend_of(const struct discover_measure_options *o, const struct device_type *base,
                              struct error *err)
{
    const char *own = base->shared_host ? device_cpu.name : device_cuda.name;
    if (!o->backend || strcmp(o->backend, own) == 0 || !measuring_backend(o->backend, err))
        return err->kind ? NULL : own;
    fail(err, "--backend %s: expected %s, which measures device %s; found another", o->backend, own, base->name);
    return NULL;
}

/* Whether other programs took of the cores what was to be measured. */
static void say_whether_steady(const struct cli *cli, int ranks)
{
    const double steady = 0.95;
    struct reference reference;
    struct error unimportant = { 0 };
    if (reference_measure(&reference, ranks, REFERENCE_SHORT_S, &unimportant) && reference.share < steady)
        fprintf(cli->talk,
                "note: other programs run on this machine: a busy thread gets %.0f %% of a core; measure again when "
                "nothing else runs\n",
                100 * reference.share);
}

bool discover_measure(struct device_type *out, struct arena *arena, const struct cli *cli,
                      const struct discover_measure_options *o, const struct device_type *base, struct error *err)
{
    char software[MEASURING_SOFTWARE_BYTES], machine[2 * HOST_TEXT_BYTES];
    struct text gpu = { 0 };
    struct crew crew = { 0 };
    struct host_machine host;
    struct progress progress;
    const char *backend = backend_of(o, base, err);
    if (!backend || !measuring_device(cli, backend, o->dtype, &crew, &gpu, &(int64_t){ 0 }, err)) {
        text_free(&gpu);
        return false;
    }
    host_machine_read(&host);
    host_machine_text(&host, machine, sizeof machine);
    measuring_software(cli, &crew, software);
    crew.rank_count = crew.device ? 1 : host.cores;
    struct device_entry_options options = { .base = base,
                                            .machine = gpu.data ? gpu.data : machine,
                                            .backend = backend,
                                            .software = software,
                                            .dtype = crew.dtype,
                                            .ranks = crew.rank_count,
                                            .time_limit_s = o->time_limit_s,
                                            .context = &progress,
                                            .on_progress = measuring_progress };
    progress_begin(&progress, cli, "discover");
    device_entry_usual(&options, crew.device != NULL);
    bool ok = (!o->sizes || read_sizes(&options, o->sizes, err)) && measure_with(out, arena, &crew, &options, err);
    progress_clear(&progress);
    ok = ok && write_entry(cli, o->entry, out, err);
    text_free(&gpu);
    if (ok && !crew.device)
        say_whether_steady(cli, crew.rank_count);
    return ok;
}

void discover_say_measured(const struct cli *cli, const struct device_type *d, const struct discover_measure_options *o)
{
    char number[TEXT_NUMBER_BYTES];
    const struct device_measured *m = &d->measured;
    fprintf(cli->talk, "  %s, %s\n", m->machine, m->software);
    fprintf(cli->talk, "  launch %s (spread %.0f %%), memory", text_duration_ns(number, d->launch_ns),
            100 * m->launch_spread);
    fprintf(cli->talk, " %s (%.0f %%), products",
            text_rate(number, d->memory_bytes_per_s * d->memory_efficiency, "B/s"), 100 * m->memory_spread);
    for (int dtype = 0; dtype < DTYPE_COUNT; dtype++)
        if (d->surface_count > 0 ? d->surfaces[0].dtype == dtype : d->matmul_flops_per_s[dtype] > 0)
            fprintf(cli->talk, " %s in %s",
                    text_rate(number, d->matmul_flops_per_s[dtype] * d->matmul_efficiency, "FLOP/s"),
                    dtype_names[dtype]);
    fprintf(cli->talk, ", tiles of %d, %lld steps\n", d->matmul_tile, (long long)m->repeats);
    fprintf(
        cli->talk,
        "  products between those of the grid are predicted to %.0f %% on average by the numbers before, to %.0f %% by "
        "the fitted ones, to %.0f %% with the times of the grid%s\n",
        100 * m->catalogue_error, 100 * m->formula_error, 100 * m->surface_error,
        d->surface_count > 0 ? "" : " (which are left out)");
    if (o->entry)
        fprintf(cli->talk, "  the device alone: %s (a file of the catalogue, or `device` of a cluster)\n", o->entry);
}
