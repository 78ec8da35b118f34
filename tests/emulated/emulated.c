#define _POSIX_C_SOURCE 200809L
#include "tests/emulated/emulated.h"
#include "host/clock.h"
#include "tests/emulated/emulated_library.h"
#include "tests/emulated/emulated_parts.h"
#include "tests/emulated/emulated_watch.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- events ---- */
static void *open_event(void *self, bool timed, struct error *err)
{
    struct event *event = calloc(1, sizeof *event);
    (void)self;
    if (!event) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for an event");
        return NULL;
    }
    event->timed = timed;
    pthread_mutex_init(&event->mutex, NULL);
    pthread_cond_init(&event->done_changed, NULL);
    return event;
}

static void close_event(void *self, void *which)
{
    struct event *event = which;
    (void)self;
    if (!event)
        return;
    pthread_mutex_destroy(&event->mutex);
    pthread_cond_destroy(&event->done_changed);
    free(event);
}

static void event_reach(struct event *event, int64_t number)
{
    pthread_mutex_lock(&event->mutex);
    event->done = number;
    event->time_ns = clock_now_ns();
    pthread_cond_broadcast(&event->done_changed);
    pthread_mutex_unlock(&event->mutex);
}

static void event_await(struct event *event, int64_t number)
{
    pthread_mutex_lock(&event->mutex);
    while (event->done < number)
        pthread_cond_wait(&event->done_changed, &event->mutex);
    pthread_mutex_unlock(&event->mutex);
}

/* ---- streams ---- */
static void do_task(const struct stream *stream, const struct task *task)
{
    switch (task->kind) {
    case TASK_COPY:
        memcpy(task->to, task->from, task->bytes);
        break;
    case TASK_FILL:
        memset(task->to, task->byte, task->bytes);
        break;
    case TASK_LAUNCH:
        emulated_teams(task->kernel, stream->gpu->threads, task->teams, &task->work);
        break;
    case TASK_RECORD:
        event_reach(task->event, task->number);
        break;
    case TASK_WAIT:
        event_await(task->event, task->number);
        break;
    case TASK_CALL:
        task->function(task->context);
        break;
    case TASK_GRAPH:
        emulated_graph_run(task->graph);
        break;
    }
}

void emulated_run_task(const struct stream *stream, const struct task *task)
{
    struct emulated_watch *watch = &stream->gpu->watch;
    const int64_t start_ns = emulated_watch_time(watch);
    do_task(stream, task);
    switch (task->kind) {
    case TASK_COPY:
        emulated_watch_note(watch, stream, ACTIVITY_COPY, "copy", start_ns);
        break;
    case TASK_FILL:
        emulated_watch_note(watch, stream, ACTIVITY_FILL, "fill", start_ns);
        break;
    case TASK_LAUNCH:
        emulated_watch_note(watch, stream, ACTIVITY_KERNEL, "kernel", start_ns);
        break;
    case TASK_CALL:
        emulated_watch_note(watch, stream, ACTIVITY_KERNEL, "call", start_ns);
        break;
    case TASK_RECORD:
    case TASK_WAIT:
    case TASK_GRAPH: /* its tasks are noted */
        break;
    }
}

static void *stream_main(void *argument)
{
    struct stream *stream = argument;
    pthread_mutex_lock(&stream->mutex);
    for (;;) {
        while (!stream->first && !stream->closing)
            pthread_cond_wait(&stream->changed, &stream->mutex);
        struct task *task = stream->first;
        if (!task)
            break;
        stream->first = task->next;
        stream->waiting--;
        if (!stream->first)
            stream->end = &stream->first;
        stream->busy = true;
        pthread_cond_broadcast(&stream->changed);
        pthread_mutex_unlock(&stream->mutex);
        emulated_run_task(stream, task);
        if (task->forget)
            task->forget(task->context);
        free(task);
        pthread_mutex_lock(&stream->mutex);
        stream->busy = false;
        pthread_cond_broadcast(&stream->changed);
    }
    pthread_mutex_unlock(&stream->mutex);
    return NULL;
}

static void *open_stream(void *self, bool urgent, struct error *err)
{
    (void)urgent;
    struct stream *stream = calloc(1, sizeof *stream);
    if (stream) {
        stream->end = &stream->first;
        stream->gpu = self;
        pthread_mutex_init(&stream->mutex, NULL);
        pthread_cond_init(&stream->changed, NULL);
    }
    if (!stream || pthread_create(&stream->thread, NULL, stream_main, stream) != 0) {
        free(stream);
        fail_kind(err, ERROR_ENVIRONMENT, "cannot start the thread of a stream");
        return NULL;
    }
    return stream;
}

static void close_stream(void *self, void *which)
{
    struct stream *stream = which;
    (void)self;
    if (!stream)
        return;
    pthread_mutex_lock(&stream->mutex);
    stream->closing = true;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    pthread_join(stream->thread, NULL);
    pthread_mutex_destroy(&stream->mutex);
    pthread_cond_destroy(&stream->changed);
    free(stream);
}

bool emulated_queue(void *which, const struct task *task, struct error *err)
{
    struct stream *stream = which;
    struct task *own = malloc(sizeof *own);
    if (!own)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a task");
    *own = *task;
    own->next = NULL;
    if (emulated_capture(stream, own))
        return true;
    pthread_mutex_lock(&stream->mutex);
    while (stream->gpu->most_waiting > 0 && stream->waiting >= stream->gpu->most_waiting && task->kind != TASK_CALL)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    *stream->end = own;
    stream->end = &own->next;
    stream->waiting++;
    pthread_cond_broadcast(&stream->changed);
    pthread_mutex_unlock(&stream->mutex);
    return true;
}

static bool copy(void *self, void *stream, void *to, const void *from, size_t bytes, struct error *err)
{
    (void)self;
    return bytes == 0 ||
           emulated_queue(stream, &(struct task){ .kind = TASK_COPY, .to = to, .from = from, .bytes = bytes }, err);
}

static bool fill(void *self, void *stream, void *to, int byte, size_t bytes, struct error *err)
{
    (void)self;
    return bytes == 0 ||
           emulated_queue(stream, &(struct task){ .kind = TASK_FILL, .to = to, .byte = byte, .bytes = bytes }, err);
}

bool emulated_launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                     struct error *err)
{
    (void)self;
    return emulated_queue(stream,
                          &(struct task){ .kind = TASK_LAUNCH, .kernel = kernel, .teams = teams, .work = *work }, err);
}

void *emulated_keep(void *which, size_t bytes)
{
    struct emulated *self = which;
    struct kept *kept = malloc(sizeof *kept + bytes);
    if (!kept)
        abort();
    pthread_mutex_lock(&self->mutex);
    kept->next = self->kept;
    self->kept = kept;
    self->used_bytes += (int64_t)bytes, self->kept_bytes += (int64_t)bytes;
    pthread_mutex_unlock(&self->mutex);
    return kept + 1;
}

/* Which record of an event a task means is known when it is queued; of a kept one, what is kept says. */
static int64_t event_number(struct event *event, bool again)
{
    pthread_mutex_lock(&event->mutex);
    int64_t number = event->recorded += again;
    if (again)
        event->capture = 0;
    else if (event->capture > 0)
        number = -1;
    pthread_mutex_unlock(&event->mutex);
    return number;
}

static bool record(void *self, void *stream, void *event, struct error *err)
{
    struct task task = { .kind = TASK_RECORD, .event = event };
    if (!emulated_is_capturing(self))
        task.number = event_number(event, true);
    return emulated_queue(stream, &task, err);
}

static bool await(void *self, void *stream, void *event, struct error *err)
{
    struct task task = { .kind = TASK_WAIT, .event = event };
    if (!emulated_is_capturing(self) && (task.number = event_number(event, false)) < 0)
        return fail_kind(err, ERROR_BUG, "an event of a capture is waited for outside of it");
    return emulated_queue(stream, &task, err);
}

bool gpu_emulated_call(void *stream, void (*function)(void *context), void (*forget)(void *context), void *context,
                       struct error *err)
{
    const struct task task = { .kind = TASK_CALL, .function = function, .forget = forget, .context = context };
    return emulated_queue(stream, &task, err);
}

bool gpu_emulated_captures(void *stream)
{
    return emulated_is_capturing(((struct stream *)stream)->gpu);
}

static bool reached(void *self, void *which)
{
    struct event *event = which;
    pthread_mutex_lock(&event->mutex);
    const uint64_t capture = event->capture;
    bool is = capture == 0 && event->done == event->recorded;
    pthread_mutex_unlock(&event->mutex);
    emulated_capture_spoil(self, capture, "an event of a capture is asked for");
    return is;
}

static bool finish(void *self, void *which, struct error *err)
{
    struct stream *stream = which;
    (void)err;
    emulated_capture_spoil(self, stream->capture, "a stream that is captured is waited for");
    pthread_mutex_lock(&stream->mutex);
    while (stream->first || stream->busy)
        pthread_cond_wait(&stream->changed, &stream->mutex);
    pthread_mutex_unlock(&stream->mutex);
    return true;
}

static bool elapsed(void *self, void *from, void *to, int64_t *ns, struct error *err)
{
    (void)self;
    if (!((struct event *)from)->timed || !((struct event *)to)->timed)
        return fail_kind(err, ERROR_BUG, "an event without a clock is asked for its time");
    *ns = ((struct event *)to)->time_ns - ((struct event *)from)->time_ns;
    return true;
}

/* ---- memory and life ---- */
static void *allocate_host(void *self, size_t bytes, struct error *err)
{
    void *memory = malloc(bytes + 1);
    (void)self;
    if (!memory) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes", bytes);
        return NULL;
    }
    return memset(memory, 0xff, bytes + 1);
}

static void release_host(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static void *allocate(void *which, size_t bytes, struct error *err)
{
    struct emulated *self = which;
    struct block_in_use *block = malloc(sizeof *block);
    void *memory = block ? allocate_host(self, bytes, err) : NULL;
    if (!memory) {
        free(block);
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for %zu bytes", bytes);
        return NULL;
    }
    pthread_mutex_lock(&self->mutex);
    *block = (struct block_in_use){ .next = self->blocks, .memory = memory, .bytes = bytes };
    self->blocks = block;
    self->used_bytes += (int64_t)bytes;
    pthread_mutex_unlock(&self->mutex);
    return memory;
}

static void release(void *which, void *memory)
{
    struct emulated *self = which;
    struct block_in_use **link = &self->blocks, *found;
    pthread_mutex_lock(&self->mutex);
    while (*link && (*link)->memory != memory)
        link = &(*link)->next;
    if ((found = *link)) {
        *link = found->next;
        self->used_bytes -= (int64_t)found->bytes;
    }
    pthread_mutex_unlock(&self->mutex);
    free(found);
    free(memory);
}

static bool memory_used(void *which, int64_t *bytes, struct error *err)
{
    struct emulated *self = which;
    (void)err;
    pthread_mutex_lock(&self->mutex);
    *bytes = self->used_bytes;
    pthread_mutex_unlock(&self->mutex);
    return true;
}

static bool watch_ready(void *self, struct error *err)
{
    (void)self, (void)err;
    return true;
}

static void *watch_begin(void *which, void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    struct emulated *self = which;
    (void)err;
    return emulated_watch_begin(&self->watch, streams, now_ns);
}

static bool watch_end(void *self, void *watch, struct rank_activity *out, struct error *err)
{
    (void)self, (void)err;
    emulated_watch_end(watch, out);
    return true;
}

/* Attention alone keeps memory. */
static void workspaces(void *which, int64_t *products_bytes, int64_t *attention_bytes)
{
    struct emulated *self = which;
    pthread_mutex_lock(&self->mutex);
    *products_bytes = 0, *attention_bytes = self->kept_bytes;
    pthread_mutex_unlock(&self->mutex);
}

static void close_gpu(void *which)
{
    struct emulated *self = which;
    while (self->kept) {
        struct kept *next = self->kept->next;
        free(self->kept);
        self->kept = next;
    }
    while (self->blocks) { /* memory that nobody released is a leak, for sanitizers to tell */
        struct block_in_use *next = self->blocks->next;
        free(self->blocks);
        self->blocks = next;
    }
    pthread_mutex_destroy(&self->watch.mutex);
    pthread_mutex_destroy(&self->mutex);
    free(self);
}

void gpu_emulated_bound(const struct gpu *gpu, int tasks)
{
    struct emulated *self = gpu->self;
    self->most_waiting = tasks;
}

bool gpu_emulated_open(struct gpu *out, int threads, int teams, bool with_library, struct error *err)
{
    struct emulated *self = calloc(1, sizeof *self);
    if (!self)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for an emulated GPU");
    self->threads = threads;
    pthread_mutex_init(&self->mutex, NULL);
    pthread_mutex_init(&self->watch.mutex, NULL);
    *out = (struct gpu){ .name = "emulated",
                         .description = "threads of this process",
                         .libraries = "attention by own kernels: the emulation was asked for none",
                         .self = self,
                         .memory_bytes = INT64_MAX,
                         .team_count = teams,
                         .allocate = allocate,
                         .release = release,
                         .allocate_host = allocate_host,
                         .release_host = release_host,
                         .memory_used = memory_used,
                         .workspaces = workspaces,
                         .open_stream = open_stream,
                         .close_stream = close_stream,
                         .open_event = open_event,
                         .close_event = close_event,
                         .copy = copy,
                         .fill = fill,
                         .launch = emulated_launch,
                         .matmul = with_library ? emulated_matmul : NULL,
                         .fuses = with_library ? emulated_fuses : NULL,
                         .attend = with_library ? emulated_attend : NULL,
                         .record = record,
                         .wait = await,
                         .hold = emulated_hold,
                         .begin_capture = emulated_begin_capture,
                         .end_capture = emulated_end_capture,
                         .replay = emulated_replay,
                         .close_graph = emulated_close_graph,
                         .watch_ready = watch_ready,
                         .watch_begin = watch_begin,
                         .watch_end = watch_end,
                         .finish = finish,
                         .elapsed = elapsed,
                         .close = close_gpu,
                         .reached = reached,
                         .device_count = 1 };
    return true;
}
