/* One issuing thread per rank runs machine_step() with a device that queues; lanes do the rest. A watchdog looks at the
 * status page, so that a dead or stuck rank ends the run of all with a message. */
#define _POSIX_C_SOURCE 200809L
#include "executor/run.h"
#include "base/text.h"
#include "executor/checkpoint/folder.h"
#include "executor/checkpoint/read.h"
#include "executor/device.h"
#include "executor/hf_export.h"
#include "executor/run_parts.h"
#include "host/clock.h"
#include "planner/program/machine.h"
#include <stdlib.h>

enum { WATCH_NS = 100000000, DISK_TIMEOUTS = 10 }; /* so many timeouts a disk may take for one call of the system */

/* ---- failing together ---- */
/* The first cause stands; then every wait of this process ends, and the page tells the other processes. rank -1:
 * nobody's fault here. */
static void run_fail(void *self, int rank, const struct error *error)
{
    struct run *run = self;
    pthread_mutex_lock(&run->mutex);
    bool first = !run->failed;
    if (first) {
        run->failed = true;
        run->error = *error;
        if (rank >= 0) {
            error_within(&run->error, "rank %d", rank);
            status_set_failed(run->options.status, rank);
        }
        for (int i = 0; i < run->local_count; i++) {
            status_give_up(run->options.status, run->threads[i].transport->rank);
            if (run->threads[i].lanes)
                lanes_abort(run->threads[i].lanes);
        }
    }
    pthread_mutex_unlock(&run->mutex);
    if (first)
        for (int i = 0; i < run->local_count; i++)
            run->threads[i].transport->abort(run->threads[i].transport->self);
}

static void lane_failed(void *context, const struct error *error)
{
    struct rank_thread *thread = context;
    run_fail(thread->run, thread->transport->rank, error);
}

/* What the page says that must end the run; false: all is well. */
static bool trouble(struct run *run, uint64_t *progress, int64_t *since_ns, struct error *err)
{
    struct status *status = run->options.status;
    int64_t now = clock_now_ns();
    status_tend_disks(status, DISK_TIMEOUTS * run->options.timeout_s);
    uint64_t current = status_progress(status);
    if (current != *progress)
        *progress = current, *since_ns = now;
    int failed = status_failed_rank(status), dead = status_dead_rank(status);
    bool stuck = run->options.timeout_s > 0 && (double)(now - *since_ns) > run->options.timeout_s * 1e9;
    if (failed < 0 && dead < 0 && !stuck)
        return false;
    if (dead >= 0 || failed < 0)
        status_accuse(status, dead);
    struct text text = { 0 }, who = { 0 };
    status_describe(status, run->program, &text);
    status_describe_dead(status, &who);
    const char *where = text.data ? text.data : "";
    if (dead >= 0)
        fail_kind(err, ERROR_ENVIRONMENT, "%s; last seen: %s", who.data ? who.data : "a rank died", where);
    else if (failed >= 0)
        fail_kind(err, ERROR_ENVIRONMENT, "rank %d failed (its own message says why); last seen: %s", failed, where);
    else
        fail_kind(err, ERROR_ENVIRONMENT, "no rank made progress for %g s (--timeout): %s", run->options.timeout_s,
                  where);
    text_free(&text);
    text_free(&who);
    return true;
}

/* Whether the run was asked to end and did not manage to in time. *asked_ns: since when; 0: not yet. */
static bool is_late(const struct run *run, int64_t *asked_ns, struct error *err)
{
    const struct run_options *o = &run->options;
    if (!o->asked_to_end || atomic_load(o->asked_to_end) == 0 || o->grace_s <= 0)
        return false;
    *asked_ns = *asked_ns > 0 ? *asked_ns : clock_now_ns();
    return (double)(clock_now_ns() - *asked_ns) > o->grace_s * 1e9 &&
           !fail_kind(err, ERROR_ENVIRONMENT,
                      "asked to end by a signal: the step and its save took longer than --grace %g s: the checkpoint "
                      "before is the newest one",
                      o->grace_s);
}

/* Sleeps for a while or until the run has ended; true: it has. Under the mutex. */
static bool nap(struct run *run)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += WATCH_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    if (!run->finished)
        pthread_cond_timedwait(&run->ended, &run->mutex, &until);
    return run->finished;
}

/* Gives ranks of a failed run a timeout to come back. Under the mutex. */
static void wait_for_ranks(struct run *run)
{
    int64_t since_ns = clock_now_ns();
    while (!nap(run))
        if (run->options.timeout_s > 0 && (double)(clock_now_ns() - since_ns) > run->options.timeout_s * 1e9 &&
            run->options.on_stuck) {
            run->options.on_stuck(run->options.context, &run->error);
            return;
        }
}

static void *watch(void *argument)
{
    struct run *run = argument;
    uint64_t progress = 0;
    int64_t since_ns = clock_now_ns(), looked_ns = since_ns, asked_ns = 0;
    pthread_mutex_lock(&run->mutex);
    while (!nap(run) && !run->failed) {
        pthread_mutex_unlock(&run->mutex);
        struct error error = { 0 };
        int64_t now_ns = clock_now_ns();
        if (now_ns - looked_ns > ASLEEP_NS) /* all were suspended, or this one was, and saw no progress */
            since_ns = now_ns;
        looked_ns = now_ns;
        if (trouble(run, &progress, &since_ns, &error) || is_late(run, &asked_ns, &error))
            run_fail(run, -1, &error);
        else if (run->options.on_wait)
            run->options.on_wait(run->options.context);
        pthread_mutex_lock(&run->mutex);
    }
    wait_for_ranks(run);
    pthread_mutex_unlock(&run->mutex);
    return NULL;
}

/* ---- a step ---- */
static bool is_muted(const struct run *run, int stage, int index, const struct instr *instr)
{
    const struct run_options *o = &run->options;
    if (o->mute_instr < 0)
        return false;
    if (run->muted_op == OP_NORM_REDUCE) /* one collective over all stages */
        return instr->op == OP_NORM_REDUCE;
    bool pairs = run->mute_tag >= 0 && instr->tag == run->mute_tag && (instr->op == OP_SEND || instr->op == OP_RECEIVE);
    return pairs || (stage == o->mute_stage && index == o->mute_instr);
}

/* The time that a device takes to start a transfer is imitated where computing is; the transport adds that of the
 * links. Measured curves hold both. */
static void start_transfer(const struct run_options *o, int rank, const struct span *span)
{
    if (!o->device->computes && o->facts && !facts_profile(o->facts, cluster_type(o->facts->cluster, rank)))
        clock_sleep_until_ns(span->start_ns + cluster_device(o->facts->cluster, rank)->collective_launch_ns);
}

/* Of all that reads logits the loss's maximum comes first. */
static void show_logits(const struct rank *rank, const struct instr *instr)
{
    const struct program *program = rank->program;
    const struct segment *segment = &program->graph->segments[instr->segment];
    if (segment->kernel != KERNEL_LOGIT_MAX)
        return;
    const int b = instr_operand(program, instr, ROLE_IN, 0);
    const struct block block = buffer_block(program, &program->buffers[b], rank->local_rank);
    rank->options->on_logits(rank->options->context, &block, rank->token_parts, rank_data(rank, b));
}

static bool run_instr(void *context, int index, const struct instr *instr, struct span *span, struct error *err)
{
    struct rank_thread *thread = context;
    struct rank *rank = thread->rank;
    status_note(thread->run->options.status, rank->rank, rank->step, index);
    const struct run_options *o = &thread->run->options;
    enum instr_fate fate = o->on_instr ? o->on_instr(o->context, rank->step, rank->rank, index, err) : INSTR_RUNS;
    bool moves = instr_moves_data(instr);
    saver_guard(thread->saver, instr);
    if (fate == INSTR_LOST)
        return true;
    if (moves)
        start_transfer(o, rank->rank, span);
    if (!moves)
        status_begin_work(o->status, rank->rank, index);
    if (o->on_logits && instr->op == OP_COMPUTE && instr->phase == PHASE_FORWARD)
        show_logits(rank, instr);
    const struct device *device = o->device;
    bool muted = moves && is_muted(thread->run, rank->stage, index, instr);
    bool ok = fate == INSTR_FAILS ? false
              : !moves            ? device->execute(rank, instr, span, err)
              : device->transfer  ? device->transfer(rank, instr, muted, span, err)
                                  : collective_run(rank->collectives[instr->lane], instr, muted, err);
    if (!moves)
        status_end_work(o->status, rank->rank, index);
    return ok ||
           error_within(err, "step %lld, instruction %d %s", (long long)rank->step + 1, index, op_info[instr->op].name);
}

static enum issue issue(void *self, int rank, int index, const struct instr *instr)
{
    (void)rank, (void)instr;
    lanes_issue(((struct rank_thread *)self)->lanes, index);
    return ISSUE_TAKEN;
}

static const struct machine_device queue = { .name = "lanes", .issue = issue };

static bool one_step(struct rank_thread *thread, int64_t step, bool first, struct error *err)
{
    const struct program *program = thread->run->program;
    const struct device *device = thread->run->options.device;
    int opening = program_opening_count(&program->stages[thread->rank->stage]);
    rank_begin_step(thread->rank, step);
    lanes_begin_step(thread->lanes, first ? 0 : opening);
    thread->step_start_ns = clock_now_ns();
    if (device->begin_step && !device->begin_step(thread->rank, err))
        return false;
    struct machine machine;
    machine_init(&machine, program, thread->transport->rank, &queue, thread);
    if (!first)
        machine_skip_opening(&machine);
    enum step result;
    while ((result = machine_step(&machine)) == STEP_RAN)
        continue;
    bool paid = run_pay_words(thread, err), done = lanes_finish(thread->lanes, paid ? err : &(struct error){ 0 });
    done = done && (!device->finish_step || device->finish_step(thread->rank, lanes_spans(thread->lanes), err));
    thread->rank->updates += schedule_updates(program->plan);
    return paid && done &&
           (result == STEP_DONE || fail_kind(err, ERROR_BUG, "the machine stopped before the end of the program"));
}

/* ---- a rank ---- */
/* Makes the host's copy of what stays over the steps a true one, for whoever looks at it after the run. */
static bool fetch(struct rank *rank, struct error *err)
{
    return !rank->options->device->download || rank->options->device->download(rank, err);
}

static bool resume(struct rank *rank, const char *dir, struct error *err)
{
    status_begin_disk(rank->options->status, rank->rank);
    bool ok = checkpoint_read(rank, dir, err);
    status_end_disk(rank->options->status, rank->rank);
    return ok && (rank->step == 0 || !rank->options->device->upload || rank->options->device->upload(rank, err));
}

static bool all_steps(struct rank_thread *thread, struct error *err)
{
    const struct run_options *o = &thread->run->options;
    int64_t first = thread->rank->step, before_ns = clock_now_ns();
    if (thread->transport->rank == 0) {
        thread->run->summary->first_step = first + 1;
        thread->run->summary->last_step = first;
    }
    bool go_on = true;
    for (int64_t step = first; step < o->step_count && go_on; step++) {
        if (!one_step(thread, step, step == first, err))
            return false;
        struct save_order order = thread->order; /* of the step before, which may be for this one */
        if (!run_report_step(thread, step, &before_ns, err))
            return false;
        bool due = thread->saver && (order.step == step + 1 || saver_is_due(thread->saver, step + 1));
        if ((due || step + 1 == o->step_count || o->on_timeline) && !run_pay_words(thread, err))
            return false;
        if ((o->on_timeline && !run_show_timeline(thread, step, &go_on, err)))
            return false;
        if (thread->order.step == step + 1)
            order = thread->order;
        if (order.step != step + 1)
            continue;
        bool last = order.ends || step + 1 == o->step_count;
        if (!saver_save(thread->saver, &order, last, err))
            return false;
        before_ns = clock_now_ns();
        if (order.ends && step + 1 < o->step_count) {
            thread->run->asked_to_end = true;
            go_on = false;
        }
    }
    if (thread->saver && !saver_finish(thread->saver, err))
        return false;
    if (thread->saver && thread->transport->rank == 0)
        thread->run->summary->saves = saver_times(thread->saver);
    return true;
}

static void show_weights(const struct rank *rank)
{
    for (int b = 0; b < rank->program->buffer_count; b++)
        if (rank_holds(rank, b) && rank->program->buffers[b].kind == BUFFER_WEIGHT)
            rank->options->on_weight(rank->options->context, rank->rank, b, rank_data(rank, b));
}

static void set_lanes(struct rank_thread *thread, struct lanes *lanes)
{
    pthread_mutex_lock(&thread->run->mutex);
    thread->lanes = lanes;
    if (lanes && thread->run->failed)
        lanes_abort(lanes);
    pthread_mutex_unlock(&thread->run->mutex);
}

static void *rank_main(void *argument)
{
    struct rank_thread *thread = argument;
    struct run *run = thread->run;
    const struct run_options *o = &run->options;
    int me = thread->transport->rank, stage = plan_stage_of_rank(run->program->plan, me);
    struct error error = { 0 };
    struct lanes *lanes = NULL;
    status_join(o->status, me);
    bool ok = rank_new(&thread->rank, run->program, thread->transport, o, &error) &&
              (!o->resume_dir || resume(thread->rank, o->resume_dir, &error)) &&
              (!o->checkpoint_dir || saver_new(&thread->saver, thread->rank, run->folder, &error)) &&
              lanes_new(&lanes, &run->program->stages[stage], run_instr, lane_failed, thread, &error);
    set_lanes(thread, lanes);
    ok = ok && all_steps(thread, &error) &&
         (!(o->poison || o->on_weight || o->hf_export) || fetch(thread->rank, &error)) &&
         (!o->hf_export || run->asked_to_end ||
          (run_pay_words(thread, &error) && hf_export_weights(thread->rank, &error))) &&
         (o->on_timeline || run_collect(thread, &error));
    if (!ok)
        run_fail(run, me, &error);
    else if (o->on_weight)
        show_weights(thread->rank);
    set_lanes(thread, NULL);
    lanes_free(lanes);
    saver_free(thread->saver);
    rank_free(thread->rank);
    if (ok)
        status_leave(o->status, me);
    return NULL;
}

/* ---- the run ---- */
static bool check_run(const struct program *program, const struct transport *transports, const struct run_options *o,
                      struct error *err)
{
    if (transports[0].rank_count != program->plan->rank_count)
        return fail_kind(err, ERROR_INPUT, "the plan is for %d ranks, the run has %d: start it with -n %d",
                         program->plan->rank_count, transports[0].rank_count, program->plan->rank_count);
    if (transports[0].of_devices && !o->device->transfer)
        return fail_kind(err, ERROR_INPUT,
                         "transport %s moves what lies in GPUs, and backend %s has none: give --backend cuda",
                         transports[0].name, o->device->name);
    if (o->device->computes && !o->data)
        return fail_kind(err, ERROR_BUG, "device %s needs data", o->device->name);
    return (!o->facts || cost_check_host(o->facts->cluster, program->plan, err)) &&
           (!o->device->check || o->device->check(program, err));
}

static void find_muted(struct run *run)
{
    const struct run_options *o = &run->options;
    run->mute_tag = -1;
    run->muted_op = OP_COUNT;
    if (o->mute_instr < 0)
        return;
    const struct instr *instr = &run->program->stages[o->mute_stage].instrs[o->mute_instr];
    run->muted_op = instr->op;
    if (instr->op == OP_SEND || instr->op == OP_RECEIVE)
        run->mute_tag = instr->tag;
}

/* While the ranks run, other hosts hear of them. */
static void watch_from_afar(const struct run *run, struct status *status)
{
    for (int i = 0; i < run->local_count; i++) {
        const struct transport *t = run->threads[i].transport;
        if (t->watch)
            t->watch(t->self, status);
    }
}

/* Starts all, waits for all. A thread that cannot start fails the run, which ends those that did. */
static void run_threads(struct run *run)
{
    pthread_t watchdog;
    bool watched = pthread_create(&watchdog, NULL, watch, run) == 0;
    int started = 0;
    while (started < run->local_count &&
           pthread_create(&run->threads[started].thread, NULL, rank_main, &run->threads[started]) == 0)
        started++;
    if (!watched || started < run->local_count) {
        struct error error = { 0 };
        fail_kind(&error, ERROR_ENVIRONMENT, "cannot start the threads of %d ranks: out of memory, or of threads",
                  run->local_count);
        run_fail(run, -1, &error);
    }
    for (int i = 0; i < started; i++)
        pthread_join(run->threads[i].thread, NULL);
    pthread_mutex_lock(&run->mutex);
    run->finished = true;
    pthread_cond_broadcast(&run->ended);
    pthread_mutex_unlock(&run->mutex);
    if (watched)
        pthread_join(watchdog, NULL);
}

bool run_program(struct run_summary *out, const struct program *program, const struct transport *transports,
                 int local_count, const struct run_options *options, struct error *err)
{
    if (!check_run(program, transports, options, err))
        return false;
    struct run_summary summary = { 0 };
    struct run run = { .program = program, .options = *options, .local_count = local_count, .summary = &summary };
    run.options.fail = run_fail;
    run.options.run = &run;
    find_muted(&run);
    run.steady = schedules[program->plan->schedule]->asynchronous;
    if (!options->status && !status_open(&run.options.status, NULL, program->plan->rank_count, err))
        return false;
    pthread_mutex_init(&run.mutex, NULL);
    pthread_cond_init(&run.ended, NULL);
    run.threads = calloc((size_t)local_count, sizeof *run.threads);
    bool ok = run.threads != NULL || fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d ranks", local_count);
    for (int i = 0; ok && i < local_count; i++)
        run.threads[i] = (struct rank_thread){ .run = &run, .transport = &transports[i] };
    if (ok && options->checkpoint_dir && transports[0].rank == 0)
        ok = checkpoint_folder_open(&run.folder, program, options, err);
    if (ok) {
        watch_from_afar(&run, run.options.status);
        run_threads(&run);
        watch_from_afar(&run, NULL);
    }
    if (ok && run.failed)
        ok = fail_with(err, &run.error);
    checkpoint_folder_close(run.folder);
    summary.asked_to_end = run.asked_to_end;
    if (ok) {
        if (run.step_times.count > 0)
            summary.step_ns_median = step_times_median(&run.step_times);
        *out = summary;
        summary = (struct run_summary){ 0 };
    }
    run_summary_free(&summary);
    if (!options->status)
        status_close(run.options.status);
    pthread_mutex_destroy(&run.mutex);
    pthread_cond_destroy(&run.ended);
    free(run.threads);
    return ok;
}

void run_summary_free(struct run_summary *summary)
{
    timeline_free(summary->timeline);
    free(summary->peak_bytes);
    free(summary->host_peak_bytes);
    free(summary->outside);
    *summary = (struct run_summary){ 0 };
}
