/* An instruction is done when its flag holds the number of the step, so nothing is reset between steps. A lane that has
 * to sleep says for what and looks once more; who makes that come true looks who sleeps for it and wakes that lane
 * alone. Flags and counts are atomics, so that what need not sleep takes no lock. */
#define _POSIX_C_SOURCE 200809L
#include "executor/lanes.h"
#include "host/clock.h"
#include "host/parallel.h"
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __linux__
#include <sys/prctl.h>
#endif

enum { NOTHING = -1, MORE = -2 }; /* what a lane sleeps for, if no instruction: that more is issued */
struct lane_thread {
    struct lanes *lanes;
    pthread_t thread;
    bool started;
    int count;                /* instructions of this lane */
    int *queue;               /* (count) a ring; a step issues no more than that */
    atomic_ullong issued;     /* in all steps */
    unsigned long long taken; /* of these; the lane's own */
    atomic_int awaited;       /* an instruction, MORE or NOTHING */
    sem_t woken;              /* posted by whoever turned awaited into NOTHING, but the lane itself */
};
struct lanes {
    const struct stage_program *stage;
    lane_run_function *run;
    void (*on_failure)(void *context, const struct error *error);
    void *context;
    struct lane_thread lane[LANE_COUNT];
    atomic_int left; /* issued and not done, and one while the step is issued */
    sem_t drained;   /* posted by whoever takes the last of these, but lanes_finish */
    unsigned step;
    int64_t begin_ns;  /* of the step */
    atomic_uint *flag; /* (instr_count) */
    struct span *spans;
    atomic_bool failed, stopping;
    pthread_mutex_t mutex;
    struct error error; /* the first; guarded by mutex */
};

/* ---- sleeping ---- */
static void sleep_on(sem_t *semaphore)
{
    while (sem_wait(semaphore) != 0) /* a signal came */
        continue;
}

static bool is_done(const struct lanes *lanes, int index)
{
    return atomic_load(&lanes->flag[index]) == lanes->step;
}

static bool has_come(const struct lane_thread *lane, int what)
{
    return what == MORE ? atomic_load(&lane->issued) != lane->taken || atomic_load(&lane->lanes->stopping)
                        : is_done(lane->lanes, what) || atomic_load(&lane->lanes->failed);
}

/* True for one caller alone, the lane or who wakes it. */
static bool take_back(struct lane_thread *lane, int what)
{
    return atomic_compare_exchange_strong(&lane->awaited, &what, NOTHING);
}

static void wake_if(struct lane_thread *lane, int what)
{
    if (atomic_load(&lane->awaited) == what && take_back(lane, what))
        sem_post(&lane->woken);
}

static void wake_all(struct lanes *lanes)
{
    for (int l = 0; l < LANE_COUNT; l++)
        if (atomic_exchange(&lanes->lane[l].awaited, NOTHING) != NOTHING)
            sem_post(&lanes->lane[l].woken);
}

/* Woken for nothing, as by a step that failed, it looks again. */
static void await(struct lane_thread *lane, int what)
{
    while (!has_come(lane, what)) {
        atomic_store(&lane->awaited, what);
        if (!has_come(lane, what) || !take_back(lane, what))
            sleep_on(&lane->woken);
    }
}

/* ---- completion ---- */
static void complete(struct lanes *lanes, int index)
{
    atomic_store(&lanes->flag[index], lanes->step);
    for (int l = 0; l < LANE_COUNT; l++)
        wake_if(&lanes->lane[l], index);
}

static void set_failed(struct lanes *lanes, const struct error *error)
{
    pthread_mutex_lock(&lanes->mutex);
    bool first = !atomic_exchange(&lanes->failed, true);
    if (first && error)
        lanes->error = *error;
    pthread_mutex_unlock(&lanes->mutex);
    wake_all(lanes);
    if (first && error && lanes->on_failure)
        lanes->on_failure(lanes->context, error);
}

void lanes_abort(struct lanes *lanes)
{
    set_failed(lanes, NULL);
}

/* ---- a lane's thread ---- */
/* *free_ns: when the lane's last instruction finished. */
static bool run_one(struct lane_thread *lane, int index, int64_t *free_ns, struct error *err)
{
    struct lanes *lanes = lane->lanes;
    const struct instr *instr = &lanes->stage->instrs[index];
    struct span span = { .start_ns = max_i64(*free_ns, lanes->begin_ns) };
    for (int w = 0; w < instr->wait_count; w++) {
        int before = lanes->stage->waits[instr->wait_first + w];
        await(lane, before);
        if (!is_done(lanes, before))
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
    complete(lanes, index);
    return true;
}

/* NOTHING: the lane ends. */
static int next_instr(struct lane_thread *lane)
{
    await(lane, MORE);
    if (atomic_load(&lane->issued) == lane->taken)
        return NOTHING;
    return lane->queue[lane->taken++ % (unsigned long long)lane->count];
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
    for (int index; (index = next_instr(lane)) != NOTHING;) {
        struct error error = { 0 };
        if (!atomic_load(&lanes->failed) && !run_one(lane, index, &free_ns, &error))
            set_failed(lanes, error.kind != ERROR_NONE ? &error : NULL);
        if (atomic_fetch_sub(&lanes->left, 1) == 1) /* the rest of a failed step is only counted */
            sem_post(&lanes->drained);
    }
    return NULL;
}

/* ---- the issuing side ---- */
void lanes_begin_step(struct lanes *lanes, int done)
{
    lanes->step++;
    lanes->begin_ns = clock_now_ns();
    for (int i = 0; i < done; i++) {
        atomic_store(&lanes->flag[i], lanes->step);
        lanes->spans[i].start_ns = lanes->spans[i].finish_ns = lanes->begin_ns;
    }
}

void lanes_issue(struct lanes *lanes, int index)
{
    struct lane_thread *lane = &lanes->lane[lanes->stage->instrs[index].lane];
    atomic_fetch_add(&lanes->left, 1);
    lane->queue[atomic_load(&lane->issued) % (unsigned long long)lane->count] = index;
    atomic_fetch_add(&lane->issued, 1);
    wake_if(lane, MORE);
}

bool lanes_finish(struct lanes *lanes, struct error *err)
{
    if (atomic_fetch_sub(&lanes->left, 1) != 1)
        sleep_on(&lanes->drained);
    atomic_store(&lanes->left, 1); /* of the next step */
    pthread_mutex_lock(&lanes->mutex);
    bool failed = atomic_load(&lanes->failed);
    if (failed && lanes->error.kind != ERROR_NONE)
        fail_with(err, &lanes->error);
    else if (failed)
        fail_kind(err, ERROR_ENVIRONMENT, "the step was aborted");
    pthread_mutex_unlock(&lanes->mutex);
    return !failed;
}

struct span *lanes_spans(struct lanes *lanes)
{
    return lanes->spans;
}

/* ---- life ---- */
static bool start_lane(struct lane_thread *lane, struct error *err)
{
    enum lane which = (enum lane)(lane - lane->lanes->lane);
    lane->queue = malloc((size_t)lane->count * sizeof *lane->queue);
    if (!lane->queue)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for lane %s", lane_names[which]);
    char work[32];
    snprintf(work, sizeof work, "lane %s", lane_names[which]);
    return lane->started = thread_start(&lane->thread, lane_main, lane, work, err);
}

bool lanes_new(struct lanes **out, const struct stage_program *stage, lane_run_function *run,
               void (*on_failure)(void *context, const struct error *error), void *context, struct error *err)
{
    struct lanes *lanes = calloc(1, sizeof *lanes);
    if (!lanes)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the lanes of a rank");
    lanes->stage = stage, lanes->run = run, lanes->on_failure = on_failure, lanes->context = context;
    pthread_mutex_init(&lanes->mutex, NULL);
    sem_init(&lanes->drained, 0, 0);
    atomic_init(&lanes->left, 1);
    size_t count = stage->instr_count > 0 ? (size_t)stage->instr_count : 1;
    lanes->flag = calloc(count, sizeof *lanes->flag);
    lanes->spans = calloc(count, sizeof *lanes->spans);
    for (int l = 0; l < LANE_COUNT; l++) {
        lanes->lane[l].lanes = lanes;
        atomic_init(&lanes->lane[l].awaited, NOTHING);
        sem_init(&lanes->lane[l].woken, 0, 0);
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
    wake_all(lanes);
    for (int l = 0; l < LANE_COUNT; l++) {
        struct lane_thread *lane = &lanes->lane[l];
        if (lane->started)
            pthread_join(lane->thread, NULL);
        sem_destroy(&lane->woken);
        free(lane->queue);
    }
    sem_destroy(&lanes->drained);
    pthread_mutex_destroy(&lanes->mutex);
    free(lanes->flag);
    free(lanes->spans);
    free(lanes);
}
