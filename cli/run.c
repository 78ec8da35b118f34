/* Executes a plan: ranks as threads of this process or as processes that a launcher started. */
#include "cli/hf_weights.h"
#include "cli/inputs.h"
#include "cli/kernels.h"
#include "cli/print.h"
#include "cli/program_options.h"
#include "cli/run_report.h"
#include "cli/saving.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/checkpoint/folder.h"
#include "executor/gpu/nccl_environment.h"
#include "executor/run.h"
#include "host/file.h"
#include "host/machine.h"
#include "planner/sim/simulate.h"
#include "profiler/resident.h"
#include <math.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run_arguments {
    struct source_options source;
    struct saving_arguments saving;
    const char *backend, *transport, *data, *from_hf, *to_hf, *logits, *timeline, *tuned;
    int64_t ranks, steps, seed, warmup, decay_steps, ignored, transfer_sms;
    double learning_rate, floor_rate, timeout_s; /* floor_rate below 0: not given */
    bool json, shape, poison, deterministic, no_graph, graph_ranks, share_gpus, kernels, overwrite_hf;
};
static const struct run_arguments defaults = { .saving = SAVING_DEFAULTS,
                                               .backend = "cpu",
                                               .transport = "threads",
                                               .steps = 10,
                                               .seed = 1,
                                               .learning_rate = 3e-4,
                                               .floor_rate = -1,
                                               .timeout_s = 60,
                                               .ignored = -1 };
#define AT(field) offsetof(struct run_arguments, field)
static const struct option options[] = {
    TEXT_OPTION("backend", AT(backend), "NAME",
                "cpu (default), cuda, or timed: waits for the predicted times, communicates for real"),
    TEXT_OPTION("transport", AT(transport), "NAME", "threads (default), tcp, mpi, or nccl: between GPUs"),
    RANKS_OPTION(AT(ranks), 1 << 20, "must equal the plan's; starts the processes of --transport tcp, mpi and nccl"),
    TEXT_OPTION("data", AT(data), "FILE",
                "training text, byte-level tokens, or images as in CIFAR-10's binary files; without it: synthetic"),
    INT_OPTION("ignore-token", AT(ignored), "N", 0, UINT8_MAX,
               "a token of the data that is no target: padding, a separator"),
    INT_OPTION("steps", AT(steps), "N", 0, 1e12, "training steps (10); 0: none, for --to-hf"),
    INT_OPTION("seed", AT(seed), "N", 0, NO_LIMIT, "of initial weights and data order (1)"),
    DOUBLE_OPTION("learning-rate", AT(learning_rate), "RATE", 0, NO_LIMIT, "peak rate of AdamW (3e-4)"),
    INT_OPTION("warmup", AT(warmup), "STEPS", 0, NO_LIMIT, "linear warm-up of the rate (0)"),
    INT_OPTION("decay-steps", AT(decay_steps), "N", 1, NO_LIMIT,
               "after the warm-up the rate falls as a cosine until step N; without it: constant"),
    DOUBLE_OPTION("floor-rate", AT(floor_rate), "RATE", 0, NO_LIMIT,
                  "with --decay-steps: the rate from step N on (a tenth of --learning-rate)"),
    SAVING_OPTIONS(struct run_arguments, saving),
    TEXT_OPTION(
        "from-hf", AT(from_hf), "DIR",
        "begins with the weights of a Hugging Face checkpoint: model.safetensors or its index, and config.json; with "
        "--resume only its names count"),
    TEXT_OPTION(
        "to-hf", AT(to_hf), "DIR",
        "writes one after the last step: names and types of tensors as in --from-hf, or as the config.json given "
        "by --model has them"),
    FLAG_OPTION("overwrite-hf", AT(overwrite_hf), "--to-hf may replace what lies there"),
    TEXT_OPTION("logits", AT(logits), "FILE",
                "writes the logits of the last step as safetensors; with --transport threads on cpu"),
    TEXT_OPTION("timeline", AT(timeline), "FILE", "measured timeline of the last step as Chrome trace JSON"),
    FLAG_OPTION(
        "kernels", AT(kernels),
        "on a GPU: records what really ran in the last step (by CUPTI), for --timeline, and what it says of overlap"),
    FLAG_OPTION("shape", AT(shape), "delays transfers to the latency and bandwidth of the plan's cluster"),
    FLAG_OPTION("share-gpus", AT(share_gpus), "with --transport nccl: ranks may share a GPU (slow: for tests)"),
    INT_OPTION("transfer-sms", AT(transfer_sms), "COUNT", 1, 64,
               "with --transport nccl: multiprocessors of a GPU that each transfer takes at most; products leave them"),
    FLAG_OPTION("poison", AT(poison), "fills the memory with NaN first and reports the bytes touched"),
    TEXT_OPTION("tuned", AT(tuned), "FILE", "on a GPU: keeps there which algorithms of matrix products were fastest"),
    FLAG_OPTION("no-graph", AT(no_graph), "on a GPU: steps are queued one kernel at a time, never as a graph"),
    FLAG_OPTION(
        "graph-ranks", AT(graph_ranks),
        "with --transport nccl: steps as graphs, transfers among them one behind another (not tried on a card)"),
    FLAG_OPTION("deterministic", AT(deterministic), "on a GPU: the same bits in every run, also where that is slower"),
    DOUBLE_OPTION("timeout", AT(timeout_s), "SECONDS", 0, 1e9, "without progress of any rank the run ends (60)"),
    FLAG_OPTION("json", AT(json), "one JSON line per step, then a summary line"),
    SOURCE_OPTIONS(struct run_arguments, source),
};

static const char *loss_text(char number[TEXT_NUMBER_BYTES], const struct run_step *step)
{
    snprintf(number, TEXT_NUMBER_BYTES, "%.4f", step->loss);
    return step->has_loss ? number : "none";
}

/* Bytes that malloc has handed out, of all threads; -1 where the C library does not say. */
static int64_t heap_bytes(void)
{
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
    struct mallinfo2 info = mallinfo2();
    return (int64_t)(info.uordblks + info.hblkhd);
#else
    return -1;
#endif
}

static void on_step(void *context, const struct run_step *step)
{
    struct report_step *r = context;
    r->heap_last = heap_bytes();
    pthread_mutex_lock(&r->noting);
    progress_clear(&r->progress);
    char number[TEXT_NUMBER_BYTES], loss[TEXT_NUMBER_BYTES];
    if (r->json)
        fprintf(r->cli->out, "{\"step\": %lld, \"loss\": %s, \"step_s\": %.9g, \"tokens_per_s\": %.6g}\n",
                (long long)step->step, run_report_number(loss, step->loss), (double)step->step_ns * 1e-9,
                step->tokens_per_s);
    else
        fprintf(r->cli->out, "step %4lld  loss %8s  %10s  %8.0f %s/s\n", (long long)step->step, loss_text(loss, step),
                text_duration_ns(number, step->step_ns), step->tokens_per_s, r->unit);
    fflush(r->cli->out);
    if (r->cli->out_is_tty)
        progress_begin(&r->progress, r->cli, "run");
    r->step = step->step + 1;
    pthread_mutex_unlock(&r->noting);
    if (r->heap_first == 0) /* what printing allocates once is not the step's */
        r->heap_first = heap_bytes();
}

static void on_wait(void *context)
{
    struct report_step *r = context;
    pthread_mutex_lock(&r->noting);
    if (r->step > r->step_count)
        progress_say(&r->progress, "after the last step");
    else if (r->step > 0)
        progress_say(&r->progress, "step %lld of %lld", (long long)r->step, (long long)r->step_count);
    else
        progress_say(&r->progress, "the first step");
    pthread_mutex_unlock(&r->noting);
}

/* Of what the ranks of this process say, often all the same, each text once. */
static void on_note(void *context, const char *text)
{
    struct report_step *r = context;
    bool known = false;
    pthread_mutex_lock(&r->noting);
    for (int i = 0; i < r->note_count; i++)
        known = known || strcmp(r->note[i], text) == 0;
    if (!known && r->note_count < MOST_NOTES && (r->note[r->note_count] = strdup(text))) {
        r->note_count++;
        progress_clear(&r->progress);
        fprintf(r->cli->talk, "note: %s\n", text);
    }
    pthread_mutex_unlock(&r->noting);
}

static void on_logits(void *context, const struct block *block, int64_t token_parts, const void *data)
{
    struct report_step *r = context;
    logits_take(&r->logits, block, token_parts, data);
}

static void free_notes(struct report_step *report)
{
    while (report->note_count > 0)
        free(report->note[--report->note_count]);
    pthread_mutex_destroy(&report->noting);
}

/* A kernel that never returns cannot be woken: say so and end the process, which ends all ranks. */
static void on_stuck(void *context, const struct error *err)
{
    const struct report_step *r = context;
    fprintf(r->cli->talk, "error: %s\n", err->message);
    fflush(r->cli->talk);
    _exit(ERROR_ENVIRONMENT);
}

static struct run_options settings(const struct run_arguments *a, const struct inputs *in, const struct device *device,
                                   const struct data *data, const struct hf_weights *weights, const char *module_dir,
                                   struct report_step *report)
{
    struct run_options o = run_options_default();
    o.device = device;
    o.module_dir = module_dir;
    o.data = data->bytes ? data : NULL;
    o.facts = &in->facts;
    o.learning_rate = a->learning_rate;
    o.floor_rate = a->floor_rate < 0 ? a->learning_rate / 10 : a->floor_rate;
    o.warmup_steps = a->warmup;
    o.decay_steps = a->decay_steps;
    o.step_count = a->steps;
    o.seed = (uint64_t)a->seed;
    saving_set(&o, &a->saving, NULL); /* what it says was read before */
    o.hf_folder = !o.resume_dir || o.resume_begins ? weights->from : NULL;
    o.hf_export = weights->export.like ? &weights->export : NULL;
    o.on_logits = a->logits ? on_logits : NULL;
    o.timeout_s = a->timeout_s;
    o.poison = a->poison;
    o.no_graph = a->no_graph;
    o.graph_ranks = a->graph_ranks;
    o.kernels = a->kernels;
    o.tuned_path = a->tuned;
    o.deterministic = a->deterministic;
    o.transfer_sms = (int)a->transfer_sms;
    o.context = report;
    o.on_step = on_step;
    o.on_stuck = on_stuck;
    o.on_wait = on_wait;
    o.on_note = on_note;
    return o;
}

static bool read_data(struct data *out, const struct run_arguments *a, const struct inputs *in,
                      const struct device *device, struct error *err)
{
    if (!device->computes)
        return true;
    struct sample_shape shape = sample_shape_of(in->graph);
    return (a->data ? data_from_file(out, a->data, shape, (uint64_t)a->seed, err)
                    : data_synthetic(out, shape, (uint64_t)a->seed, err)) &&
           (a->ignored < 0 || data_ignore(out, a->ignored, err));
}

/* Where the profile says how fast the processor was: whether it still is. */
static void note_speed(const struct cli *cli, const struct inputs *in, const struct device *device)
{
    char note[320];
    struct reference now;
    struct error ignored = { 0 };
    if (device == &device_cpu && in->profile && in->profile->reference_ns > 0 &&
        reference_measure(&now, in->profile->reference_ranks, REFERENCE_SHORT_S, &ignored) &&
        print_speed_change(note, sizeof note, now.ns, in->profile->reference_ns))
        fprintf(cli->talk, "note: %s\n", note);
}

static int execute(const struct cli *cli, const struct run_arguments *a, const struct inputs *in,
                   const struct device *device, const struct program *program, const struct hf_weights *weights,
                   const struct transport_set *set, struct status *page, struct error *err)
{
    struct data data = { 0 };
    struct timeline *predicted = NULL;
    struct run_summary summary = { 0 };
    struct report_step report = { .cli = cli, .unit = print_unit(in->graph), .json = a->json, .step_count = a->steps };
    pthread_mutex_init(&report.noting, NULL);
    progress_begin(&report.progress, cli, "run");
    bool none_left = false;
    bool ok = read_data(&data, a, in, device, err) && simulate(&predicted, &in->facts, program, err) &&
              (!a->logits || logits_open(&report.logits, in->graph, err));
    if (ok) {
        struct run_options o = settings(a, in, device, &data, weights, cli->module_dir, &report);
        o.status = page, o.share_gpus = a->share_gpus;
        o.on_wait = set->transports[0].rank == 0 ? o.on_wait : NULL;
        ok = run_program(&summary, program, set->transports, set->count, &o, err);
        progress_clear(&report.progress);
        none_left = ok && set->transports[0].rank == 0 && a->steps > 0 && summary.last_step < summary.first_step;
        ok = ok && (!none_left || saving_all_done(cli, &a->saving, a->steps, summary.last_step,
                                                  a->logits     ? "logits"
                                                  : a->timeline ? "timeline"
                                                                : NULL,
                                                  err));
    }
    if (ok && a->logits)
        ok = logits_write(&report.logits, a->logits, err);
    if (ok && set->transports[0].rank == 0 && a->to_hf && !summary.asked_to_end)
        fprintf(cli->talk, "wrote the weights %s step %lld to %s\n", a->steps ? "after" : "of",
                (long long)summary.last_step, a->to_hf);
    if (ok && set->transports[0].rank == 0 && a->steps > 0 && !none_left) {
        if (a->json)
            ok = run_report_json(cli, &in->facts, program, &summary, predicted, &report, a->poison, err);
        else
            run_report_text(cli, program, &summary, predicted, in->profile != NULL);
        if (!a->json && summary.timeline)
            ok = kernels_print(cli, program, summary.timeline, err);
        if (a->poison)
            run_report_poison(cli, program, &summary, &report);
        note_speed(cli, in, device);
        ok = ok && (!a->timeline || !summary.timeline ||
                    inputs_write_trace(cli, a->timeline, program, summary.timeline, err));
    }
    const bool ended = summary.asked_to_end && set->transports[0].rank == 0;
    const int64_t last_step = summary.last_step;
    run_summary_free(&summary);
    timeline_free(predicted);
    data_free(&data);
    logits_close(&report.logits);
    free_notes(&report);
    return ok && ended ? saving_tell_end(cli, &a->saving, last_step) : ERROR_NONE;
}

/* Whether this process only starts the ranks: they are processes, and no launcher is around it. */
static bool is_launcher(const struct launch *launch, enum transport_start start)
{
    return !launch->launcher && start != START_THREADS;
}

/* The page that a local launch shares between its ranks; NULL when there is none. */
static bool shared_page(struct status **out, const struct cli *cli, int rank_count, struct error *err)
{
    const char *path = cli->environment(LAUNCH_STATUS_VARIABLE);
    *out = NULL;
    return !path || status_open(out, path, rank_count, err);
}

/* --shape and the timed device imitate the plan's cluster: then ranks may be anywhere. */
static bool imitates(const struct run_arguments *a)
{
    return a->shape || !strcmp(a->backend, "timed");
}

static int run_here(const struct cli *cli, const struct run_arguments *a, const struct inputs *in,
                    const struct launch *launch, const struct device *device, const struct program *program,
                    const struct hf_weights *weights, struct error *err)
{
    struct transport_set set = { 0 };
    struct status *page = NULL;
    int code = ERROR_NONE;
    struct meeting meeting, watch;
    struct transport_options transport = { .module_dir = cli->module_dir, .shape = a->shape ? in->cluster : NULL };
    if (transport_of_devices(a->transport))
        nccl_set_environment(launch->rank, a->share_gpus, launch->local_count == launch->rank_count);
    bool ok = shared_page(&page, cli, program->plan->rank_count, err) &&
              ranks_meeting(&transport, &meeting, cli, a->transport, launch, a->timeout_s, err) &&
              ranks_watch(&transport, &watch, cli, launch, a->timeout_s, err) &&
              transports_open(&set, a->transport, program->plan->rank_count, &transport, err);
    struct rendezvous *rendezvous = ok ? set.transports[0].rendezvous : NULL;
    if (ok && rendezvous && !imitates(a) && !launch_check_hosts(rendezvous, in->cluster, err)) {
        transports_close(&set);
        ok = false;
    }
    if (ok && set.unwatched.kind != ERROR_NONE && set.transports[0].rank == 0)
        fprintf(cli->talk, "note: ranks of other hosts are not watched: %s\n", set.unwatched.message);
    if (ok) {
        code = execute(cli, a, in, device, program, weights, &set, page, err);
        transports_close(&set);
    }
    status_close(page);
    return code;
}

static bool check_nccl(const struct run_arguments *a, const struct device *device, struct error *err)
{
    bool nccl = transport_of_devices(a->transport);
    if (nccl && !device->transfer)
        return fail(err, "--transport %s moves what lies in GPUs, and --backend %s has none: give --backend cuda",
                    a->transport, a->backend);
    const char *option = a->share_gpus         ? "--share-gpus"
                         : a->transfer_sms > 0 ? "--transfer-sms"
                         : a->graph_ranks      ? "--graph-ranks"
                                               : NULL;
    if (a->graph_ranks && a->no_graph)
        return fail(err, "--graph-ranks and --no-graph say the opposite: give one of them");
    if (option && !nccl)
        return fail(err, "%s is for ranks that talk by NCCL: give --transport nccl", option);
    return !a->graph_ranks || a->steps > 2 ||
           fail(err, "--graph-ranks: the first step and the last are no graphs: give --steps 3 or more");
}

static bool check_kernels(const struct run_arguments *a, const struct device *device, struct error *err)
{
    return !a->kernels || device->transfer ||
           fail(err, "--kernels records what GPUs run, and --backend %s has none: give --backend cuda", a->backend);
}

/* What weights come from and go to, and whether there is anything to do. */
static bool check_weights(const struct run_arguments *a, const struct device *device, enum transport_start start,
                          struct error *err)
{
    if (a->overwrite_hf && !a->to_hf)
        return fail(err, "--overwrite-hf is for --to-hf: give that, too");
    if (a->steps == 0 && !a->to_hf)
        return fail(err, "--steps 0 does nothing: give --to-hf, or some steps");
    if (a->steps == 0 && (a->saving.checkpoint || a->logits || a->timeline))
        return fail(err, "--steps 0: nothing runs that --%s could write: give --steps 1 or more",
                    a->saving.checkpoint ? "checkpoint"
                    : a->logits          ? "logits"
                                         : "timeline");
    if ((a->from_hf || a->to_hf) && !device->computes)
        return fail(err, "--backend %s has no weights: --%s needs cpu or cuda", device->name,
                    a->from_hf ? "from-hf" : "to-hf");
    return !a->logits || (device == &device_cpu && start == START_THREADS) ||
           fail(err, "--logits: expected --backend cpu and --transport threads, which have all of them in one process");
}

static bool check_rates(const struct run_arguments *a, struct error *err)
{
    if (a->decay_steps && a->decay_steps <= a->warmup)
        return fail(err, "--decay-steps %lld: expected a step after the warm-up: more than --warmup %lld",
                    (long long)a->decay_steps, (long long)a->warmup);
    if (a->floor_rate >= 0 && !a->decay_steps)
        return fail(err, "--floor-rate %g: without --decay-steps the rate does not fall: give that, too",
                    a->floor_rate);
    return a->floor_rate <= a->learning_rate ||
           fail(err, "--floor-rate %g: expected at most the rate that it falls from, --learning-rate %g", a->floor_rate,
                a->learning_rate);
}

/* On real hosts a rank's place within its host must be the one that the cluster gives it. */
static bool check_placement(const struct launch *launch, const struct run_arguments *a, const struct inputs *in,
                            struct error *err)
{
    if (!launch->launcher || launch->local_rank < 0 || imitates(a) || launch->rank >= in->cluster->device_count)
        return true;
    int place = cluster_place(in->cluster, launch->rank, 0);
    int fanout = in->cluster->types[cluster_type(in->cluster, launch->rank)].levels[0].fanout;
    if (place == launch->local_rank)
        return true;
    return fail(err,
                "%s made rank %d process %d of its host, but the plan's cluster %s has %d devices in a host, where it "
                "is process %d: start %d processes per host, in order, or imitate the cluster here with --shape",
                launch->launcher, launch->rank, launch->local_rank, in->cluster->name, fanout, place, fanout);
}

/* The system ends a process that fills more memory than the host has, late and without a word of ours. Devices with
 * memory of their own say so themselves. */
static bool check_memory(const struct launch *launch, const struct device *device, const struct program *program,
                         struct error *err)
{
    const struct plan *plan = program->plan;
    const int64_t memory_bytes = host_memory_bytes();
    char needed[TEXT_NUMBER_BYTES], there[TEXT_NUMBER_BYTES];
    int first = launch->local_count > 0 ? launch->rank - launch->local_rank : launch->rank;
    int end = !launch->launcher ? plan->rank_count : first + (launch->local_count > 0 ? launch->local_count : 1);
    double needed_bytes = 0;
    if (!device->computes || device->transfer)
        return true;
    for (int s = 0; s < plan->stage_count; s++) {
        int from = max_int(plan->stages[s].first_rank, first);
        int to = min_int(plan->stages[s].first_rank + plan_stage_rank_count(plan, s), end);
        needed_bytes += (double)max_int(to - from, 0) *
                        ((double)program->stages[s].arena_bytes + (double)program->stages[s].host_bytes);
    }
    return memory_bytes == 0 || needed_bytes <= (double)memory_bytes ||
           fail_kind(err, ERROR_ENVIRONMENT,
                     "the plan's ranks on this host hold %s, and it has %s of memory: plan for smaller devices, as in "
                     "--cluster 1x4:cpu@memory=2GiB, or run on more hosts",
                     text_bytes_enough(needed, needed_bytes < 9e18 ? (int64_t)needed_bytes : INT64_MAX),
                     text_bytes(there, memory_bytes));
}

/* Rank 0 meets every other one. Without a descriptor for each, all would wait until --timeout. */
static bool check_descriptors(const struct launch *launch, enum transport_start start, const struct program *program,
                              struct error *err)
{
    enum { OWN = 12 }; /* its streams, files and listeners */
    const int64_t needed = program->plan->rank_count + OWN;
    const int64_t allowed = start == START_MEETING && launch->rank <= 0 ? host_claim_descriptors() : needed;
    return allowed >= needed ||
           fail_kind(err, ERROR_ENVIRONMENT,
                     "expected to be allowed %lld open files at least, for %d ranks that meet, found a limit of %lld: "
                     "raise it by ulimit -n",
                     (long long)needed, program->plan->rank_count, (long long)allowed);
}

/* Before hours of work, whose result would be lost. Rank 0 writes the timeline, every rank its part of a checkpoint,
 * for which *made_folder says whether the folder is new. */
static bool check_outputs(const struct launch *launch, const struct run_arguments *a, const struct program *program,
                          bool *made_folder, bool *made_hf_folder, struct error *err)
{
    struct run_options o = run_options_default();
    o.step_count = a->steps;
    o.seed = (uint64_t)a->seed;
    return saving_set(&o, &a->saving, err) &&
           (launch->rank > 0 || (inputs_can_write(a->timeline, err) && inputs_can_write(a->logits, err) &&
                                 (!a->to_hf || file_check_folder(a->to_hf, made_hf_folder, err)))) &&
           saving_check(&a->saving, &o, program, launch->rank == 0, made_folder, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct run_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct program *program = NULL;
    struct hf_weights weights = { 0 };
    struct launch launch;
    bool made_folder = false, made_hf_folder = false;
    int code = ERROR_NONE;
    (void)operand_count;
    if (saving_graces(&a->saving))
        saving_catch_signals(); /* before all that takes time: what is asked then is done after the first step */
    launch_follow(cli->environment);
    enum transport_start start;
    const struct device *device = check_rates(a, err) ? device_find(a->backend, err) : NULL;
    in.runs = device && device->computes;
    if (!device || !transport_start(a->transport, &start, err) || !check_weights(a, device, start, err) ||
        !launch_detect(&launch, cli->environment, err) ||
        !inputs_plan(&in, operands[0], a->source.model, a->source.cluster, &a->source.profiles, err))
        goto cleanup;
    const struct plan *plan = in.plan_file->plan;
    if (a->ranks && a->ranks != plan->rank_count) {
        fail(err, "-n %lld: the plan %s is for %d ranks", (long long)a->ranks, operands[0], plan->rank_count);
        goto cleanup;
    }
    if (launch.launcher && launch.rank_count > 1 && start == START_THREADS) {
        fail(err, "%s started %d processes, but --transport threads runs all ranks in one: give --transport tcp or mpi",
             launch.launcher, launch.rank_count);
        goto cleanup;
    }
    if (!saving_check_restarts(&a->saving, &launch, start, cli->environment(LAUNCH_STATUS_VARIABLE) != NULL, &in,
                               &a->source, err))
        goto cleanup;
    if (!check_nccl(a, device, err) || !check_kernels(a, device, err) || !check_placement(&launch, a, &in, err) ||
        !launch_check(&launch, plan->rank_count, err) || !inputs_program(&program, plan, in.graph, err) ||
        (device->check && !device->check(program, err)) || !check_memory(&launch, device, program, err) ||
        !check_descriptors(&launch, start, program, err))
        goto cleanup;
    const struct hf_request request = { .from = a->from_hf,
                                        .to = a->to_hf,
                                        .model = a->source.model,
                                        .overwrite = a->overwrite_hf,
                                        .writes = launch.rank == 0,
                                        .speaks = launch.rank == 0 && !is_launcher(&launch, start),
                                        .begins = saving_begins(&a->saving) };
    if (a->saving.resume && request.begins && request.speaks)
        fprintf(cli->talk, "note: %s holds no checkpoint yet: the run begins at step 1\n", a->saving.resume);
    if (!check_outputs(&launch, a, program, &made_folder, &made_hf_folder, err) ||
        !hf_weights_open(&weights, &in, &request, err))
        goto cleanup;
    const struct saved_job job = { .plan_path = operands[0],
                                   .transport = a->transport,
                                   .source = &a->source,
                                   .inputs = &in,
                                   .program = program,
                                   .timeout_s = a->timeout_s };
    if (made_folder)
        file_remove_empty_folder_at_signal(a->saving.checkpoint);
    code = is_launcher(&launch, start) ? saving_launch(cli, &a->saving, &job, err)
                                       : run_here(cli, a, &in, &launch, device, program, &weights, err);
cleanup:
    if (err->kind != ERROR_NONE && made_folder)
        checkpoint_folder_forget(a->saving.checkpoint);
    if (err->kind != ERROR_NONE && made_hf_folder)
        file_remove_empty_folder(a->to_hf);
    hf_weights_close(&weights);
    program_free(program);
    inputs_free(&in);
    return code;
}

const struct verb verb_run = {
    .name = "run",
    .summary = "executes a plan: real training steps, prediction beside measurement",
    .usage = "PLAN [--data FILE] [--steps N] [options]",
    .examples =
        "  cleave run plan.json --data text.txt --steps 20\n"
        "  cleave run plan.json --data text.txt --from-hf in --to-hf out   goes on from a Hugging Face checkpoint\n"
        "  cleave run plan.json --backend timed --shape          imitates the plan's own cluster on this machine\n"
        "  cleave run plan.json --checkpoint out/ckpt --every 5; cleave run plan.json --resume out/ckpt --steps 40\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct run_arguments),
    .defaults = &defaults,
    .run = run,
};
