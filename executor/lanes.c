/* An instruction is done when its flag holds the number of the step, so nothing is reset between steps. Flags are
 * atomics: a wait that is fulfilled costs one load, and a completion that nobody sleeps on one store and one load. */
#define _POSIX_C_SOURCE 200809L
#include "executor/lanes.h"
#include "host/clock.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

struct lane_thread {
    struct lanes *lanes;
    pthread_t thread;
    bool started;
    int count;        /* instructions of this lane */
    int *instrs;      /* (count) in program order */
    int issued, done; /* of this step; guarded by mutex */
    pthread_mutex_t mutex;
    pthread_cond_t woken;
};
struct lanes {
    const struct stage_program *stage;
    lane_run_function *run;
    void (*on_failure)(void *context, const struct error *error);
    void *context;
    struct lane_thread lane[LANE_COUNT];
    int left; /* issued and not done; guarded by mutex */
    unsigned step;
    int64_t begin_ns;  /* of the step */
    atomic_uint *flag; /* (instr_count) */
    struct span *spans;
    atomic_int sleepers;
    atomic_bool failed, stopping;
    pthread_mutex_t mutex;
    pthread_cond_t completed, drained;
    struct error error; /* the first; guarded by mutex */
};

/* ---- completion ---- */
static void wake_sleepers(struct lanes *lanes)
{
    if (atomic_load(&lanes->sleepers) == 0)
        return;
    pthread_mutex_lock(&lanes->mutex);
    pthread_cond_broadcast(&lanes->completed);
    pthread_mutex_unlock(&lanes->mutex);
}

/* The sleeper counts itself before it looks again, the completer stores before it counts: one of the two sees the
 * other. */
static bool wait_done(struct lanes *lanes, int index)
{
    if (atomic_load(&lanes->flag[index]) == lanes->step)
        return true;
    pthread_mutex_lock(&lanes->mutex);
    atomic_fetch_add(&lanes->sleepers, 1);
    while (atomic_load(&lanes->flag[index]) != lanes->step && !atomic_load(&lanes->failed))
        pthread_cond_wait(&lanes->completed, &lanes->mutex);
    atomic_fetch_sub(&lanes->sleepers, 1);
    pthread_mutex_unlock(&lanes->mutex);
    return atomic_load(&lanes->flag[index]) == lanes->step;
}

static void set_failed(struct lanes *lanes, const struct error *error)
{
    pthread_mutex_lock(&lanes->mutex);
    bool first = !atomic_exchange(&lanes->failed, true);
    if (first && error)
        lanes->error = *error;
    pthread_cond_broadcast(&lanes->completed);
    pthread_mutex_unlock(&lanes->mutex);
    if (first && error && lanes->on_failure)
        lanes->on_failure(lanes->context, error);
}

void lanes_abort(struct lanes *lanes)
{
    set_failed(lanes, NULL);
}

/* ---- a lane's thread ---- */
/* *free_ns: when the lane's last instruction finished. */
static bool run_one(struct lanes *lanes, int index, int64_t *free_ns, struct error *err)
{
    const struct instr *instr = &lanes->stage->instrs[index];
    struct span span = { .instr = index, .start_ns = *free_ns > lanes->begin_ns ? *free_ns : lanes->begin_ns };
    for (int w = 0; w < instr->wait_count; w++) {
        int before = lanes->stage->waits[instr->wait_first + w];
        if (!wait_done(lanes, before))
            return false;
        if (lanes->spans[before].finish_ns > span.start_ns)
            span.start_ns = lanes->spans[before].finish_ns;
    }
    if (atomic_load(&lanes->failed))
        return false;
    int64_t start_ns = clock_now_ns();
    if (!lanes->run(lanes->context, index, instr, &span, err))
        return false;
    if (span.finish_ns == 0) {
        span.start_ns = start_ns;
        span.finish_ns = clock_now_ns();
    }
    lanes->spans[index] = span;
    *free_ns = span.finish_ns;
    atomic_store(&lanes->flag[index], lanes->step);
    wake_sleepers(lanes);
    return true;
}

static int next_instr(struct lane_thread *lane)
{
    int index = -1;
    pthread_mutex_lock(&lane->mutex);
    while (lane->done == lane->issued && !atomic_load(&lane->lanes->stopping))
        pthread_cond_wait(&lane->woken, &lane->mutex);
    if (lane->done < lane->issued)
        index = lane->instrs[lane->done++];
    pthread_mutex_unlock(&lane->mutex);
    return index;
}

static void count_done(struct lanes *lanes)
{
    pthread_mutex_lock(&lanes->mutex);
    if (--lanes->left == 0)
        pthread_cond_broadcast(&lanes->drained);
    pthread_mutex_unlock(&lanes->mutex);
}

/* Sleeps of this thread end when they should: the usual slack of 50 us is as long as many messages. */
static void sleep_precisely(void)
{
#ifdef __linux__
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
#endif
}

static void *lane_main(void *argument)
{
    struct lane_thread *lane = argument;
    struct lanes *lanes = lane->lanes;
    int64_t free_ns = 0;
    sleep_precisely();
    for (int index; (index = next_instr(lane)) >= 0;) {
        struct error error = { 0 };
        if (!atomic_load(&lanes->failed) && !run_one(lanes, index, &free_ns, &error))
            set_failed(lanes, error.kind != ERROR_NONE ? &error : NULL);
        count_done(lanes); /* of a failed step the rest is only counted */
    }
    return NULL;
}

/* ---- the issuing side ---- */
/* Of the lane's instructions, how many are among the first `done` of all. */
static int done_on_lane(const struct lane_thread *lane, int done)
{
    int count = 0;
    while (count < lane->count && lane->instrs[count] < done)
        count++;
    return count;
}

void lanes_begin_step(struct lanes *lanes, int done)
{
    lanes->step++;
    lanes->begin_ns = clock_now_ns();
    for (int i = 0; i < done; i++) {
        atomic_store(&lanes->flag[i], lanes->step);
        lanes->spans[i].start_ns = lanes->spans[i].finish_ns = lanes->begin_ns;
    }
    for (int l = 0; l < LANE_COUNT; l++) {
        pthread_mutex_lock(&lanes->lane[l].mutex);
        lanes->lane[l].issued = lanes->lane[l].done = done_on_lane(&lanes->lane[l], done);
        pthread_mutex_unlock(&lanes->lane[l].mutex);
    }
}

void lanes_issue(struct lanes *lanes, int index)
{
    pthread_mutex_lock(&lanes->mutex);
    lanes->left++;
    pthread_mutex_unlock(&lanes->mutex);
    struct lane_thread *lane = &lanes->lane[lanes->stage->instrs[index].lane];
    pthread_mutex_lock(&lane->mutex);
    lane->issued++;
    pthread_cond_signal(&lane->woken);
    pthread_mutex_unlock(&lane->mutex);
}

bool lanes_finish(struct lanes *lanes, struct error *err)
{
    pthread_mutex_lock(&lanes->mutex);
    while (lanes->left > 0)
        pthread_cond_wait(&lanes->drained, &lanes->mutex);
    bool failed = atomic_load(&lanes->failed);
    if (failed && lanes->error.kind != ERROR_NONE)
        fail_kind(err, lanes->error.kind, "%s", lanes->error.message);
    else if (failed)
        fail_kind(err, ERROR_ENVIRONMENT, "the step was aborted");
    pthread_mutex_unlock(&lanes->mutex);
    return !failed;
}

const struct span *lanes_spans(const struct lanes *lanes)
{
    return lanes->spans;
}

/* ---- life ---- */
static bool start_lane(struct lane_thread *lane, struct error *err)
{
    const struct stage_program *stage = lane->lanes->stage;
    enum lane which = (enum lane)(lane - lane->lanes->lane);
    lane->instrs = malloc((size_t)lane->count * sizeof *lane->instrs);
    if (!lane->instrs)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for lane %s", lane_names[which]);
    for (int i = 0, n = 0; i < stage->instr_count; i++)
        if (stage->instrs[i].lane == which)
            lane->instrs[n++] = i;
    if (pthread_create(&lane->thread, NULL, lane_main, lane) != 0)
        return fail_kind(err, ERROR_ENVIRONMENT, "cannot start a thread for lane %s", lane_names[which]);
    lane->started = true;
    return true;
}

bool lanes_new(struct lanes **out, const struct stage_program *stage, lane_run_function *run,
               void (*on_failure)(void *context, const struct error *error), void *context, struct error *err)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the lanes of a rank");
    lanes->stage = stage, lanes->run = run, lanes->on_failure = on_failure, lanes->context = context;
    pthread_mutex_init(&lanes->mutex, NULL);
    pthread_cond_init(&lanes->completed, NULL);
    pthread_cond_init(&lanes->drained, NULL);
    size_t count = stage->instr_count > 0 ? (size_t)stage->instr_count : 1;
    lanes->flag = calloc(count, sizeof *lanes->flag);
    lanes->spans = calloc(count, sizeof *lanes->spans);
    for (int l = 0; l < LANE_COUNT; l++) {
        lanes->lane[l].lanes = lanes;
        pthread_mutex_init(&lanes->lane[l].mutex, NULL);
        pthread_cond_init(&lanes->lane[l].woken, NULL);
    }
    for (int i = 0; i < stage->instr_count; i++)
        lanes->lane[stage->instrs[i].lane].count++;
    bool ok =
        (lanes->flag && lanes->spans) || fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu instructions", count);
    for (int l = 0; ok && l < LANE_COUNT; l++)
        ok = lanes->lane[l].count == 0 || start_lane(&lanes->lane[l], err);
    if (!ok) {
        lanes_free(lanes);
        return false;
    }
    *out = lanes;
    return true;
}

void lanes_free(struct lanes *lanes)
{
    if (!lanes)
        return;
    atomic_store(&lanes->stopping, true);
    for (int l = 0; l < LANE_COUNT; l++) {
        struct lane_thread *lane = &lanes->lane[l];
        pthread_mutex_lock(&lane->mutex);
        pthread_cond_broadcast(&lane->woken);
        pthread_mutex_unlock(&lane->mutex);
        if (lane->started)
            pthread_join(lane->thread, NULL);
        pthread_mutex_destroy(&lane->mutex);
        pthread_cond_destroy(&lane->woken);
        free(lane->instrs);
    }
    pthread_mutex_destroy(&lanes->mutex);
    pthread_cond_destroy(&lanes->completed);
    pthread_cond_destroy(&lanes->drained);
    free(lanes->flag);
    free(lanes->spans);
    free(lanes);
}
