/* Measures what plans need on this machine. */
#include "cli/inputs.h"
#include "cli/measuring.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "executor/gpu/nccl_environment.h"
#include "base/text.h"
#include "profiler/profiler.h"
#include "profiler/resident.h"
#include <stdlib.h>
#include <string.h>

struct profile_arguments {
    const char *backend, *transport, *device, *dtype, *output;
    int64_t ranks, sequence, batch;
    double time_limit_s;
    struct text_list existing, dims;
    bool json, share_gpus;
};
static const struct profile_arguments defaults = {
    .backend = "cpu", .transport = "threads", .ranks = 1, .batch = 8, .time_limit_s = 60
};
#define AT(field) offsetof(struct profile_arguments, field)
static const struct option options[] = {
    RANKS_OPTION(AT(ranks), 4096, "ranks of the plans to come, all on this machine (1)"),
    INT_OPTION("seq", AT(sequence), "TOKENS", 1, 1e9, "tokens per sequence; the model's own if absent"),
    INT_OPTION("batch", AT(batch), "SEQUENCES", 1, 1e6, "sequences per step over all ranks (8)"),
    TEXT_OPTION("backend", AT(backend), "NAME", "what computes: cpu (default) or cuda"),
    TEXT_OPTION("dtype", AT(dtype), "NAME", "of the computations: fp32, or bf16 on a GPU (its default)"),
    TEXT_OPTION("transport", AT(transport), "NAME",
                "threads (default), tcp, mpi, or nccl between GPUs: with the last three -n starts the processes"),
    FLAG_OPTION("share-gpus", AT(share_gpus), "with --transport nccl: ranks may share a GPU (slow: for tests)"),
    TEXT_OPTION("device", AT(device), "NAME",
                "device type of the cluster that this machine is; needed where a cluster has several"),
    LIST_OPTION("profile", AT(existing), "FILE",
                "measurements to complete: what they hold for this machine is kept; may be repeated"),
    LIST_OPTION("dimension", AT(dims), "NAME",
                "plans to come also split layers along it (cleave dimensions): cp-ring, ep; may be repeated"),
    DOUBLE_OPTION("time-limit", AT(time_limit_s), "SECONDS", 1, 1e6, "aimed at (60); more time, smaller spreads"),
    OUTPUT_OPTION(AT(output), "the profile"),
    FLAG_OPTION("json", AT(json), "prints the profile"),
};

/* The ranks of a measurement compute for long between two words. */
enum { MEETING_TIMEOUT_S = 600 };

/* ---- the summary ---- */
static void print_widest(const struct cli *cli, const struct profile *profile)
{
    enum { SHOWN = 3 };
    char number[TEXT_NUMBER_BYTES];
    double below = 1e300;
    for (int shown = 0; shown < SHOWN; shown++) { /* by share of the spread in time: a wide small number does no harm */
        const struct compute_entry *widest = NULL;
        double most = -1;
        for (int i = 0; i < profile->compute_count; i++) {
            double weight = profile->compute[i].m.spread * (double)profile->compute[i].m.ns;
            if (weight > most && weight < below)
                most = weight, widest = &profile->compute[i];
        }
        if (!widest)
            return;
        below = most;
        fprintf(cli->talk, "%s%-58s %10s  spread %4.1f %%  %d samples\n",
                shown ? "                 " : "  widest spreads ", widest->work, text_duration_ns(number, widest->m.ns),
                100 * widest->m.spread, widest->m.repeats);
    }
}

static void print_curve(const struct cli *cli, const struct collective_curve *c)
{
    char latency[TEXT_NUMBER_BYTES], rate[TEXT_NUMBER_BYTES];
    fprintf(cli->talk, "  %-15s %d x %d ranks  latency %10s  rate %12s  fit within %3.0f %%\n", c->op, c->concurrent,
            c->ranks, text_duration_ns(latency, (int64_t)c->latency_ns), text_rate(rate, c->bytes_per_s, "B/s"),
            100 * c->error);
}

static void print_linear(const struct cli *cli, const struct linear_entry *e)
{
    char fixed[TEXT_NUMBER_BYTES];
    fprintf(cli->talk, "  %-15s fixed %10s  %.4g ns per element  fit within %3.0f %%\n", e->work,
            text_duration_ns(fixed, (int64_t)e->fixed_ns), e->ns_per_unit, 100 * e->error);
}

static void print_memory(const struct cli *cli, const struct profile *p)
{
    struct memory_outside outside = { .bytes = p->memory_outside_arena_bytes };
    struct text parts = { 0 };
    char number[TEXT_NUMBER_BYTES];
    bool known = false;
    for (int i = 0; i < MEMORY_PART_COUNT; i++)
        known = (outside.part[i] = p->memory_part_bytes[i]) > 0 || known;
    memory_describe(&parts, &outside);
    fprintf(cli->talk, "  memory outside the arena: %s per rank%s%s\n", text_bytes(number, outside.bytes),
            known ? ": " : "", known && parts.data ? parts.data : "");
    text_free(&parts);
}

static void print_summary(const struct cli *cli, const struct profile *p, const struct profiler_report *r)
{
    char before[TEXT_NUMBER_BYTES], after[TEXT_NUMBER_BYTES];
    fprintf(cli->talk, "%s\n  %s\n", p->machine, p->software);
    fprintf(
        cli->talk,
        "  %d computations, %d kinds of work in memory, %d curves in %.1f s (%d configurations run, %d not needed)\n",
        p->compute_count, p->linear_count, p->curve_count, r->seconds, r->case_count, r->known_case_count);
    for (int i = 0; i < p->curve_count; i++)
        print_curve(cli, &p->curves[i]);
    for (int i = 0; i < p->linear_count; i++)
        print_linear(cli, &p->linear[i]);
    print_widest(cli, p);
    fprintf(cli->talk,
            "  side by side: compute takes %.2f times as long, spread %.1f %%, %d samples; communication %.2f times, "
            "spread %.1f %%, %d samples\n",
            p->compute_under_communication, 100 * p->compute_under_communication_spread, r->compute_samples,
            p->communication_under_compute, 100 * p->communication_under_compute_spread, r->communication_samples);
    print_memory(cli, p);
    if (p->tuned.count > 0)
        fprintf(cli->talk,
                "  algorithms of %d shapes of matrix products: runs of plans with this profile begin with them\n",
                p->tuned.count);
    if (r->factors_assumed)
        fprintf(
            cli->talk,
            "note: no transfer ended beside a computation: how they slow each other down is assumed, not measured\n");
    if (r->dropped_case_count)
        fprintf(cli->talk,
                "note: %d configurations from micro-batches of %lld sequences on were left out for time or memory; "
                "plans with them "
                "are scaled from smaller ones: give more --time-limit\n",
                r->dropped_case_count, (long long)r->dropped_micro);
    if (r->existing_refused)
        fprintf(cli->talk, "note: --profile was of no use: %s\n", r->existing_refused);
    if (profiler_unsteady(r))
        fprintf(cli->talk,
                "note: the machine was not steady: a product of %d^3 took %s before and %s after, and got %.0f %% of a "
                "core; measure again when "
                "nothing else runs\n",
                REFERENCE_EDGE, text_duration_ns(before, r->reference_before_ns),
                text_duration_ns(after, r->reference_after_ns), 100 * r->processor_share);
}

/* ---- the verb ---- */
static bool write_out(const struct cli *cli, const struct profile_arguments *a, const struct profile *profile,
                      struct error *err)
{
    size_t length = 0;
    char *text = profile_write(profile, &length);
    bool ok = (!a->output || inputs_write(cli, a->output, text, length, err)) &&
              (!a->json || inputs_write(cli, NULL, text, length, err));
    free(text);
    return ok;
}

static bool read_dims(bool out[DIM_COUNT], const struct text_list *names, struct error *err)
{
    const char *words[DIM_COUNT + 1] = { NULL };
    for (int d = 0; d < DIM_COUNT; d++)
        words[d] = dimensions[d]->name;
    for (int i = 0; i < names->count; i++) {
        int d;
        if (!inputs_word("--dimension", names->item[i], words, &d, err))
            return false;
        out[d] = d != DIM_none;
    }
    return true;
}

static void measure(const struct cli *cli, const struct profile_arguments *a, const struct inputs *in,
                    const struct launch *launch, struct error *err)
{
    char software[MEASURING_SOFTWARE_BYTES];
    struct text machine = { 0 };
    struct transport_set set = { 0 };
    struct profile *profile = NULL;
    struct profiler_report report;
    struct progress progress;
    struct meeting meeting;
    struct transport_options transport = { .module_dir = cli->module_dir };
    if (transport_of_devices(a->transport))
        nccl_set_environment(launch->rank, a->share_gpus, launch->local_count == launch->rank_count);
    if (!ranks_meeting(&transport, &meeting, cli, a->transport, launch, MEETING_TIMEOUT_S, err) ||
        !transports_open(&set, a->transport, (int)a->ranks, &transport, err))
        return;
    struct crew crew = {
        .transports = set.transports, .local_count = set.count, .rank_count = (int)a->ranks, .share_gpus = a->share_gpus
    };
    struct profiler_options o = { .model = in->model,
                                  .sequence = a->sequence ? a->sequence : in->model->sequence,
                                  .batch = a->batch,
                                  .backend = a->backend,
                                  .software = software,
                                  .existing = in->profile,
                                  .time_limit_s = a->time_limit_s,
                                  .context = &progress,
                                  .on_progress = set.transports[0].rank == 0 ? measuring_progress : NULL };
    bool measured = read_dims(o.dims, &a->dims, err) &&
                    measuring_device(cli, a->backend, a->dtype, &crew, &machine, &o.memory_bytes, err);
    if (measured) {
        o.machine = machine.data;
        progress_begin(&progress, cli, "profile");
        measuring_software(cli, &crew, software);
        measured = profiler_measure(&profile, &report, &crew, &o, err) && profile;
        progress_clear(&progress);
    }
    if (measured && a->device)
        profile->device = a->device;
    if (measured && write_out(cli, a, profile, err))
        print_summary(cli, profile, &report);
    profile_free(profile);
    text_free(&machine);
    transports_close(&set);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct profile_arguments *a = given;
    struct inputs in = { .cli = cli, .reading.length_given = a->sequence > 0 };
    struct launch launch;
    enum transport_start start;
    (void)operand_count;
    const struct device *device = measuring_backend(a->backend, err);
    launch_follow(cli->environment);
    if (!device || !transport_start(a->transport, &start, err) || !launch_detect(&launch, cli->environment, err))
        return ERROR_INPUT;
    if (!inputs_can_write(a->output, err))
        return ERROR_INPUT;
    if (transport_of_devices(a->transport) && !device->transfer)
        fail(err, "--transport %s moves what lies in GPUs, and --backend %s has none: give --backend cuda",
             a->transport, a->backend);
    else if (!a->output && !a->json)
        fail(err, "where to? give -o profile.json or --json");
    else if (inputs_model(&in, operands[0], err) && inputs_profiles(&in, &a->existing, err)) {
        if (!launch.launcher && start != START_THREADS)
            ranks_launch(cli, a->transport, (int)a->ranks, &(struct launch_local){ .rank_count = 0 }, err);
        else if (start == START_THREADS || launch_check(&launch, (int)a->ranks, err))
            measure(cli, a, &in, &launch, err);
    }
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_profile = {
    .name = "profile",
    .summary = "measures on this machine what plans need",
    .usage = "MODEL -n RANKS --batch SEQUENCES -o profile.json [options]",
    .examples = "  cleave profile gpt2 -n 2 --seq 64 --batch 8 -o profile.json\n"
                "  cleave plan gpt2 --cluster 1x2:cpu --seq 64 --batch 8 --profile profile.json -o plan.json\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct profile_arguments),
    .defaults = &defaults,
    .run = run,
};
