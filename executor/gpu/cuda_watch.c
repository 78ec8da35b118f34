/* Records of what the device really runs, by CUPTI's activity interface. CUPTI hands out buffers of records of the
 * whole process, on whichever thread it likes, to functions that are told nothing else: so the recorder is one for the
 * process, and ranks that share it wait at the end until all of them have ended, whereupon one of them asks for what is
 * left and deals it out by stream. Records name no instruction: NCCL launches from threads of its own, so that ids that
 * a thread pushes would not be on its kernels; streams are lanes, and times say the rest (activity_attribute()). */
#include "executor/gpu/cuda.h"
#include "executor/gpu/cupti_library.h"
#include "planner/sim/activity.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BUFFER_BYTES = 1 << 20, BUFFER_ALIGNMENT = 64, MOST_TIES = 3, FIRST_NUMBERED_BY_TOOLKIT = 100000 };
static const CUpti_ActivityKind kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,
                                            CUPTI_ACTIVITY_KIND_MEMSET };
enum { KIND_COUNT = sizeof kinds / sizeof *kinds };

struct record {
    struct activity what; /* by CUPTI's clock */
    uint32_t device, stream;
};
struct watch {
    struct watch *next;
    uint32_t device, stream[LANE_COUNT];
    bool used[LANE_COUNT];
    int64_t (*now_ns)(void);
    int64_t offset_ns, error_ns; /* what its clock is ahead of CUPTI's, within the error */
    int64_t begin_ns;            /* by its clock */
    bool ended, dealt;
    struct rank_activity out;
    struct error failure;
};

/* Mutable state of the module: see above. */
static struct recorder {
    pthread_mutex_t mutex; /* of these; held while CUPTI is asked for anything, which may call back */
    pthread_cond_t changed;
    struct cupti_library library;
    bool open;
    struct watch *first;           /* those whose records were not dealt out */
    pthread_mutex_t records_mutex; /* of what callbacks add to; never held while CUPTI is asked */
    struct record *records;
    size_t count, room;
    int64_t dropped, untimed;
} recorder = { .mutex = PTHREAD_MUTEX_INITIALIZER,
               .changed = PTHREAD_COND_INITIALIZER,
               .records_mutex = PTHREAD_MUTEX_INITIALIZER };

static bool check(CUptiResult result, const char *what, struct error *err)
{
    const char *text = NULL;
    if (result == CUPTI_SUCCESS)
        return true;
    recorder.library.cuptiGetResultString(result, &text);
    return fail_kind(err, ERROR_ENVIRONMENT, "CUPTI: %s: %s%s", what, text ? text : "unknown error",
                     result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES
                         ? ": the driver keeps its counters for administrators (NVreg_RestrictProfilingToAdminUsers)"
                         : "");
}

/* ---- records, on CUPTI's threads ---- */
/* Under records_mutex. NULL: no memory. */
static struct record *next_record(void)
{
    if (recorder.count == recorder.room) {
        size_t room = 2 * recorder.room + 1024;
        struct record *more = realloc(recorder.records, room * sizeof *more);
        if (!more)
            return NULL;
        recorder.records = more, recorder.room = room;
    }
    return &recorder.records[recorder.count++];
}

static void add_record(enum activity_kind kind, uint64_t start, uint64_t end, uint32_t device, uint32_t stream,
                       const char *name)
{
    const bool timed = start > 0 && end >= start;
    pthread_mutex_lock(&recorder.records_mutex);
    struct record *r = timed ? next_record() : NULL;
    if (r) {
        *r =
            (struct record){ .device = device,
                             .stream = stream,
                             .what = { .start_ns = (int64_t)start, .finish_ns = (int64_t)end, .kind = (int32_t)kind } };
        snprintf(r->what.name, sizeof r->what.name, "%s", name ? name : "a kernel without a name");
    }
    recorder.untimed += !timed;
    recorder.dropped += timed && !r;
    pthread_mutex_unlock(&recorder.records_mutex);
}

static const char *copy_name(uint8_t kind)
{
    return kind == CUPTI_ACTIVITY_MEMCPY_KIND_HTOD   ? "copy to the device"
           : kind == CUPTI_ACTIVITY_MEMCPY_KIND_DTOH ? "copy to the host"
                                                     : "copy";
}

/* What is read of a record lies at the same place in all of CUPTI's versions of it, of which these are old ones. */
static void read_record(const CUpti_Activity *record)
{
    const void *at = record;
    if (record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || record->kind == CUPTI_ACTIVITY_KIND_KERNEL) {
        const CUpti_ActivityKernel9 *k = at;
        add_record(ACTIVITY_KERNEL, k->start, k->end, k->deviceId, k->streamId, k->name);
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
        const CUpti_ActivityMemcpy5 *c = at;
        add_record(ACTIVITY_COPY, c->start, c->end, c->deviceId, c->streamId, copy_name(c->copyKind));
    } else if (record->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
        const CUpti_ActivityMemset4 *f = at;
        add_record(ACTIVITY_FILL, f->start, f->end, f->deviceId, f->streamId, "fill");
    }
}

/* Without a buffer CUPTI drops records, and counts them. */
static void CUPTIAPI give_buffer(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    *buffer = aligned_alloc(BUFFER_ALIGNMENT, BUFFER_BYTES);
    *bytes = *buffer ? BUFFER_BYTES : 0;
    *most_records = 0; /* as many as find room */
}

/* Asking sets the library's count to 0. */
static void count_dropped(bool whole_buffer)
{
    size_t dropped = 0;
    if (recorder.library.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped) != CUPTI_SUCCESS)
        dropped = 0;
    pthread_mutex_lock(&recorder.records_mutex);
    recorder.dropped += (int64_t)dropped;
    recorder.untimed += !whole_buffer;
    pthread_mutex_unlock(&recorder.records_mutex);
}

static void CUPTIAPI take_buffer(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    CUptiResult result;
    (void)context, (void)stream, (void)bytes;
    while ((result = recorder.library.cuptiActivityGetNextRecord(buffer, valid_bytes, &record)) == CUPTI_SUCCESS)
        read_record(record);
    count_dropped(result == CUPTI_ERROR_MAX_LIMIT_REACHED); /* a record that is not whole ends the buffer */
    free(buffer);
}

/* ---- the library ---- */
/* Under the mutex, as all below but the entries. */
static bool open_library(struct error *err)
{
    if (recorder.open)
        return true;
    return (recorder.open =
                cupti_library_open(&recorder.library, err) &&
                check(recorder.library.cuptiActivityRegisterCallbacks(give_buffer, take_buffer), "registering", err));
}

static void forget_records(void)
{
    count_dropped(true);
    pthread_mutex_lock(&recorder.records_mutex);
    free(recorder.records);
    recorder.records = NULL;
    recorder.count = recorder.room = 0;
    recorder.dropped = recorder.untimed = 0;
    pthread_mutex_unlock(&recorder.records_mutex);
}

static void stop_recording(int enabled)
{
    while (enabled > 0)
        recorder.library.cuptiActivityDisable(kinds[--enabled]);
}

static bool start_recording(struct error *err)
{
    forget_records();
    for (int i = 0; i < KIND_COUNT; i++)
        if (!check(recorder.library.cuptiActivityEnable(kinds[i]), "recording", err)) {
            stop_recording(i);
            return false;
        }
    return true;
}

/* ---- whose they are ---- */
/* The tightest of some tries: a thread that is woken late says little. */
static bool tie_clocks(const struct watch *w, int64_t *offset_ns, int64_t *error_ns, struct error *err)
{
    int64_t tightest_ns = INT64_MAX;
    for (int i = 0; i < MOST_TIES; i++) {
        uint64_t there = 0;
        const int64_t before_ns = w->now_ns();
        if (!check(recorder.library.cuptiGetTimestamp(&there), "asking for the time", err))
            return false;
        const int64_t bracket_ns = w->now_ns() - before_ns;
        if (bracket_ns >= tightest_ns)
            continue;
        tightest_ns = bracket_ns;
        *offset_ns = before_ns + bracket_ns / 2 - (int64_t)there;
        *error_ns = bracket_ns - bracket_ns / 2;
    }
    return true;
}

static bool name_streams(struct watch *w, void *const *streams, struct error *err)
{
    if (!check(recorder.library.cuptiGetDeviceId(NULL, &w->device), "asking for the device's number", err))
        return false;
    for (int lane = 0; lane < LANE_COUNT; lane++) {
        w->used[lane] = streams[lane] != NULL;
        if (streams[lane] && !check(recorder.library.cuptiGetStreamIdEx(NULL, streams[lane], 0, &w->stream[lane]),
                                    "asking for a stream's number", err))
            return false;
    }
    return true;
}

static int lane_of(const struct watch *w, const struct record *r)
{
    for (int lane = 0; w->device == r->device && lane < LANE_COUNT; lane++)
        if (w->used[lane] && w->stream[lane] == r->stream)
            return lane;
    return ACTIVITY_ELSEWHERE;
}

/* A stream that is nobody's belongs to the first who watches that device. NULL: nobody does. */
static struct watch *owner_of(const struct record *r)
{
    struct watch *of_device = NULL;
    for (struct watch *w = recorder.first; w; w = w->next) {
        if (lane_of(w, r) != ACTIVITY_ELSEWHERE)
            return w;
        if (w->device == r->device && !of_device)
            of_device = w;
    }
    return of_device;
}

static int by_start(const void *a, const void *b)
{
    const struct activity *x = a, *y = b;
    return (x->start_ns > y->start_ns) - (x->start_ns < y->start_ns);
}

/* What ran before it watched, while another rank of the process did, is of the step before. */
static bool is_of(const struct watch *w, const struct record *r)
{
    return owner_of(r) == w && r->what.start_ns + w->offset_ns >= w->begin_ns - w->error_ns;
}

/* Under records_mutex, too. */
static bool deal_to(struct watch *w)
{
    int64_t count = 0;
    for (size_t i = 0; i < recorder.count; i++)
        count += is_of(w, &recorder.records[i]);
    struct activity *list = malloc((size_t)(count + 1) * sizeof *list);
    if (!list)
        return fail_kind(&w->failure, ERROR_ENVIRONMENT, "no memory for %lld records", (long long)count);
    w->out = (struct rank_activity){
        { .recorded = 1, .dropped = recorder.dropped, .untimed = recorder.untimed, .clock_error_ns = w->error_ns }, list
    };
    for (size_t i = 0; i < recorder.count; i++) {
        const struct record *r = &recorder.records[i];
        if (!is_of(w, r))
            continue;
        struct activity *a = &list[w->out.counts.count++];
        *a = r->what;
        a->start_ns += w->offset_ns, a->finish_ns += w->offset_ns;
        a->lane = lane_of(w, r);
        a->instr = -1;
    }
    qsort(list, (size_t)count, sizeof *list, by_start);
    return true;
}

/* All streams have ended, so whatever there is may be asked for by force: nothing more is to come of it. */
static void deal_out(void)
{
    struct error error = { 0 };
    check(recorder.library.cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED), "reading", &error);
    stop_recording(KIND_COUNT);
    count_dropped(true);
    pthread_mutex_lock(&recorder.records_mutex);
    for (struct watch *w = recorder.first; w; w = w->next) {
        if (error.kind != ERROR_NONE)
            w->failure = error;
        else if (w->failure.kind == ERROR_NONE)
            deal_to(w);
        w->dealt = true;
    }
    pthread_mutex_unlock(&recorder.records_mutex);
    recorder.first = NULL;
    forget_records();
    pthread_cond_broadcast(&recorder.changed);
}

static bool all_ended(void)
{
    bool all = true;
    for (const struct watch *w = recorder.first; w; w = w->next)
        all = all && w->ended;
    return all;
}

/* ---- entries ---- */
bool cuda_watch_describe(char *out, size_t bytes, struct error *err)
{
    struct cupti_library library;
    uint32_t version = 0;
    if (!cupti_library_open(&library, err))
        return false;
    if (library.cuptiGetVersion(&version) == CUPTI_SUCCESS && version >= FIRST_NUMBERED_BY_TOOLKIT)
        snprintf(out, bytes, "CUPTI %u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    else
        snprintf(out, bytes, "CUPTI, version %u of its interface", version);
    return true;
}

bool cuda_watch_ready(struct error *err)
{
    pthread_mutex_lock(&recorder.mutex);
    bool ok = open_library(err);
    pthread_mutex_unlock(&recorder.mutex);
    return ok;
}

void *cuda_watch_begin(void *const *streams, int64_t (*now_ns)(void), struct error *err)
{
    struct watch *w = calloc(1, sizeof *w);
    if (!w) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory to record what runs");
        return NULL;
    }
    w->now_ns = now_ns;
    pthread_mutex_lock(&recorder.mutex);
    bool ok = open_library(err) && (recorder.first || start_recording(err));
    if (ok && !(name_streams(w, streams, err) && tie_clocks(w, &w->offset_ns, &w->error_ns, err))) {
        stop_recording(recorder.first ? 0 : KIND_COUNT);
        ok = false;
    }
    if (ok) {
        w->begin_ns = now_ns();
        w->next = recorder.first;
        recorder.first = w;
    }
    pthread_mutex_unlock(&recorder.mutex);
    if (!ok)
        free(w);
    return ok ? w : NULL;
}

/* Both clocks may have been set while it watched: then they are off by that, too. */
static void end_watch(struct watch *w)
{
    int64_t offset_ns = 0, error_ns = 0;
    if (tie_clocks(w, &offset_ns, &error_ns, &w->failure)) {
        int64_t moved_ns = offset_ns > w->offset_ns ? offset_ns - w->offset_ns : w->offset_ns - offset_ns;
        w->error_ns = (error_ns > w->error_ns ? error_ns : w->error_ns) + moved_ns;
    }
    w->ended = true;
    while (!w->dealt)
        if (all_ended())
            deal_out();
        else
            pthread_cond_wait(&recorder.changed, &recorder.mutex);
}

static void drop_watch(struct watch *w)
{
    struct watch **at = &recorder.first;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    if (!recorder.first)
        stop_recording(KIND_COUNT);
    pthread_cond_broadcast(&recorder.changed); /* somebody may have waited for this one alone */
}

bool cuda_watch_end(void *watch, struct rank_activity *out, struct error *err)
{
    struct watch *w = watch;
    pthread_mutex_lock(&recorder.mutex);
    if (out)
        end_watch(w);
    else
        drop_watch(w);
    pthread_mutex_unlock(&recorder.mutex);
    bool ok = w->failure.kind == ERROR_NONE;
    if (!ok)
        fail_with(err, &w->failure);
    else if (out)
        *out = w->out;
    free(w);
    return ok;
}
