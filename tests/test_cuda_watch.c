/* Records of what ran, by the CUDA module over a double of CUPTI: buffers that come late, in parts or from other
 * threads are all read, what is dropped or has no times is counted, ranks of one process wait for each other, and
 * without the library there is one reason. No GPU is needed. */
#include "executor/gpu/cupti_library.h"
#include "planner/sim/activity.h"
#include "tests/cuda_fixture.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { MOST_HELD = 64, RECORDS_PER_BUFFER = 3, AHEAD_NS = 5000000, ASKING_NS = 10, MOST_STREAMS = 4, KIND_COUNT = 3 };
/* Kernels of the toolkit at hand, so that the module's older names for records are held against them. */
#if CUPTI_API_VERSION >= 130000
typedef CUpti_ActivityKernel10 kernel_record;
typedef CUpti_ActivityMemcpy6 copy_record;
#else
typedef CUpti_ActivityKernel9 kernel_record;
typedef CUpti_ActivityMemcpy5 copy_record;
#endif
typedef CUpti_ActivityMemset4 fill_record;

/* ---- the double ---- */
static struct {
    bool absent, registered;
    CUptiResult refuses_callbacks, refuses_kind[KIND_COUNT], refuses_flush;
    bool enabled[KIND_COUNT];
    int enables, disables, flushes[2]; /* flushes: of what is whole, and forced */
    CUpti_BuffersCallbackRequestFunc request;
    CUpti_BuffersCallbackCompleteFunc complete;
    size_t dropped, dropped_late; /* since it was last asked; when all buffers were handed out */
    int64_t now_ns;               /* of the host; the library's is ahead by AHEAD_NS and by jump_ns */
    int64_t jump_ns;
    /* The buffer that is being filled. */
    uint8_t *buffer;
    size_t bytes, used;
    int in_buffer, buffers;
    /* Buffers that are full and were not handed out yet; held back until a flush, or a forced one. */
    struct held {
        uint8_t *buffer;
        size_t bytes, used;
        bool forced;
    } held[MOST_HELD];
    int held_count;
} cupti;

static int64_t now_ns(void)
{
    return cupti.now_ns += ASKING_NS;
}

static int kind_index(CUpti_ActivityKind kind)
{
    return kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ? 0 : kind == CUPTI_ACTIVITY_KIND_MEMCPY ? 1 : 2;
}

static size_t record_bytes(CUpti_ActivityKind kind)
{
    static const size_t bytes[] = { sizeof(kernel_record), sizeof(copy_record), sizeof(fill_record) };
    return bytes[kind_index(kind)];
}

static CUptiResult get_version(uint32_t *version)
{
    *version = 130001;
    return CUPTI_SUCCESS;
}

static CUptiResult result_string(CUptiResult result, const char **text)
{
    *text = result == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES ? "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES" : "CUPTI_ERROR_OTHER";
    return CUPTI_SUCCESS;
}

static CUptiResult timestamp(uint64_t *now)
{
    *now = (uint64_t)(now_ns() + AHEAD_NS + cupti.jump_ns);
    return CUPTI_SUCCESS;
}

static CUptiResult device_id(CUcontext context, uint32_t *device)
{
    (void)context;
    *device = 3; /* of the library's own counting */
    return CUPTI_SUCCESS;
}

/* Streams are their numbers. */
static CUptiResult stream_id(CUcontext context, CUstream which, uint8_t per_thread, uint32_t *number)
{
    (void)context, (void)per_thread;
    *number = (uint32_t)(uintptr_t)which;
    return CUPTI_SUCCESS;
}

static CUptiResult register_callbacks(CUpti_BuffersCallbackRequestFunc request,
                                      CUpti_BuffersCallbackCompleteFunc complete)
{
    cupti.request = request, cupti.complete = complete;
    cupti.registered = cupti.refuses_callbacks == CUPTI_SUCCESS;
    return cupti.refuses_callbacks;
}

static CUptiResult enable(CUpti_ActivityKind kind)
{
    CUptiResult refused = cupti.refuses_kind[kind_index(kind)];
    cupti.enabled[kind_index(kind)] = refused == CUPTI_SUCCESS;
    cupti.enables += refused == CUPTI_SUCCESS;
    return cupti.registered ? refused : CUPTI_ERROR_NOT_INITIALIZED;
}

static CUptiResult disable(CUpti_ActivityKind kind)
{
    cupti.enabled[kind_index(kind)] = false;
    cupti.disables++;
    return CUPTI_SUCCESS;
}

static void hold_buffer(bool forced)
{
    if (!cupti.buffer)
        return;
    ck_assert_int_lt(cupti.held_count, MOST_HELD);
    cupti.held[cupti.held_count++] = (struct held){ cupti.buffer, cupti.bytes, cupti.used, forced };
    cupti.buffer = NULL;
}

static CUptiResult flush(uint32_t flag)
{
    const bool forced = flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED;
    int kept = 0;
    cupti.flushes[forced]++;
    hold_buffer(false);
    for (int i = 0; i < cupti.held_count; i++) {
        struct held held = cupti.held[i];
        if (held.forced && !forced)
            cupti.held[kept++] = held;
        else
            cupti.complete(NULL, 0, held.buffer, held.bytes, held.used);
    }
    cupti.held_count = kept;
    cupti.dropped += cupti.dropped_late, cupti.dropped_late = 0;
    return cupti.refuses_flush;
}

/* A kind of 0 is a record that is not whole. */
static CUptiResult next_record(uint8_t *buffer, size_t valid, CUpti_Activity **record)
{
    uint8_t *at = *record ? (uint8_t *)*record + record_bytes((*record)->kind) : buffer;
    if (at >= buffer + valid)
        return CUPTI_ERROR_MAX_LIMIT_REACHED;
    *record = (CUpti_Activity *)(void *)at;
    return (*record)->kind == CUPTI_ACTIVITY_KIND_INVALID ? CUPTI_ERROR_INVALID_KIND : CUPTI_SUCCESS;
}

static CUptiResult dropped_records(CUcontext context, uint32_t which, size_t *dropped)
{
    (void)context, (void)which;
    *dropped = cupti.dropped;
    cupti.dropped = 0;
    return CUPTI_SUCCESS;
}

bool cupti_library_open(struct cupti_library *out, struct error *err)
{
    if (cupti.absent)
        return fail_kind(err, ERROR_ENVIRONMENT, "CUPTI is absent: libcupti.so.13: cannot open shared object file");
    *out = (struct cupti_library){ .cuptiGetVersion = get_version,
                                   .cuptiGetResultString = result_string,
                                   .cuptiGetTimestamp = timestamp,
                                   .cuptiGetDeviceId = device_id,
                                   .cuptiGetStreamIdEx = stream_id,
                                   .cuptiActivityRegisterCallbacks = register_callbacks,
                                   .cuptiActivityEnable = enable,
                                   .cuptiActivityDisable = disable,
                                   .cuptiActivityFlushAll = flush,
                                   .cuptiActivityGetNextRecord = next_record,
                                   .cuptiActivityGetNumDroppedRecords = dropped_records };
    return true;
}

/* ---- what the device does ---- */
static void put(const void *record, size_t bytes)
{
    if (!cupti.buffer) {
        size_t most = 1;
        cupti.request(&cupti.buffer, &cupti.bytes, &most);
        ck_assert(cupti.buffer && cupti.bytes > RECORDS_PER_BUFFER * sizeof(kernel_record) && most == 0);
        ck_assert_uint_eq((uintptr_t)cupti.buffer % 8, 0);
        memset(cupti.buffer, 0, cupti.bytes);
        cupti.used = 0, cupti.in_buffer = 0, cupti.buffers++;
    }
    memcpy(cupti.buffer + cupti.used, record, bytes);
    cupti.used += bytes, cupti.in_buffer++;
}

/* Times by the host's clock; 0 and 0: the library could not take them. */
static uint64_t there(int64_t ns)
{
    return ns > 0 ? (uint64_t)(ns + AHEAD_NS) : 0;
}

static void run_kernel(uint32_t device, uint32_t on, int64_t from_ns, int64_t to_ns, const char *name)
{
    const kernel_record k = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                              .deviceId = device,
                              .streamId = on,
                              .start = there(from_ns),
                              .end = there(to_ns),
                              .name = name };
    if (cupti.enabled[0])
        put(&k, sizeof k);
}

static void run_copy(uint32_t on, int64_t from_ns, int64_t to_ns)
{
    const copy_record c = { .kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                            .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH,
                            .deviceId = 3,
                            .streamId = on,
                            .start = there(from_ns),
                            .end = there(to_ns) };
    if (cupti.enabled[1])
        put(&c, sizeof c);
}

static void run_fill(uint32_t on, int64_t from_ns, int64_t to_ns)
{
    const fill_record f = {
        .kind = CUPTI_ACTIVITY_KIND_MEMSET, .deviceId = 3, .streamId = on, .start = there(from_ns), .end = there(to_ns)
    };
    if (cupti.enabled[2])
        put(&f, sizeof f);
}

/* ---- the module ---- */
/* The library stays open from test to test, as in a process, so each runs in one of its own. */
static void open_over(void)
{
    memset(&cupti, 0, sizeof cupti);
    cupti.now_ns = 1000;
    open_module();
}

/* Streams 7 and 8 are those of computing and of data parallelism. */
static void *begin(void)
{
    struct error error = { 0 };
    void *const streams[LANE_COUNT] = { [LANE_COMPUTE] = (void *)7, [LANE_DP] = (void *)8 };
    void *watch = gpu.watch_begin(gpu.self, streams, now_ns, &error);
    ck_assert_msg(watch != NULL, "%s", error.message);
    return watch;
}

static struct rank_activity end(void *watch)
{
    struct error error = { 0 };
    struct rank_activity out;
    ck_assert_msg(gpu.watch_end(gpu.self, watch, &out, &error), "%s", error.message);
    ck_assert_int_eq(out.counts.recorded, 1);
    return out;
}

static void expect(const struct activity *a, int kind, int lane, int64_t from_ns, int64_t to_ns, const char *name)
{
    ck_assert_msg(a->kind == kind && a->lane == lane && a->instr == -1 && a->start_ns == from_ns &&
                      a->finish_ns == to_ns && !strcmp(a->name, name),
                  "%s (%d) on lane %d from %lld to %lld, expected %s (%d) on %d from %lld to %lld", a->name, a->kind,
                  a->lane, (long long)a->start_ns, (long long)a->finish_ns, name, kind, lane, (long long)from_ns,
                  (long long)to_ns);
}

/* In order, on the host's clock; names that are too long are cut. */
START_TEST(records_have_lanes_and_the_hosts_time)
{
    char long_name[3 * ACTIVITY_NAME_BYTES];
    memset(long_name, 'k', sizeof long_name);
    long_name[sizeof long_name - 1] = '\0';
    open_over();
    void *watch = begin();
    run_copy(8, 5000, 5600);
    run_kernel(3, 7, 4000, 4900, "gemm");
    run_fill(7, 4950, 4960);
    run_kernel(3, 99, 4100, 4200, NULL);
    run_kernel(2, 7, 4100, 4300, "another device's");
    run_kernel(3, 8, 6000, 6100, long_name);
    struct rank_activity a = end(watch);
    ck_assert_int_eq(a.counts.count, 5);
    long_name[ACTIVITY_NAME_BYTES - 1] = '\0';
    expect(&a.list[0], ACTIVITY_KERNEL, LANE_COMPUTE, 4000, 4900, "gemm");
    expect(&a.list[1], ACTIVITY_KERNEL, ACTIVITY_ELSEWHERE, 4100, 4200, "a kernel without a name");
    expect(&a.list[2], ACTIVITY_FILL, LANE_COMPUTE, 4950, 4960, "fill");
    expect(&a.list[3], ACTIVITY_COPY, LANE_DP, 5000, 5600, "copy to the host");
    expect(&a.list[4], ACTIVITY_KERNEL, LANE_DP, 6000, 6100, long_name);
    ck_assert_int_eq(a.counts.dropped, 0);
    ck_assert_int_eq(a.counts.untimed, 0);
    ck_assert_int_eq(a.counts.clock_error_ns, ASKING_NS); /* it is asked between two looks at the host's clock */
    free(a.list);
    close_module();
}
END_TEST

/* A clock that was set while it was used is off by as much. */
START_TEST(a_clock_that_jumps_is_told)
{
    open_over();
    void *watch = begin();
    cupti.jump_ns = _i == 0 ? 70000 : -70000;
    struct rank_activity a = end(watch);
    ck_assert_int_eq(a.counts.clock_error_ns, 70000 + ASKING_NS);
    free(a.list);
    close_module();
}
END_TEST

static void *hand_out(void *unused)
{
    (void)unused;
    flush(0);
    return NULL;
}

/* Some buffers the library hands out from its own thread at some time, some when it is asked for what is whole, some
 * when it is asked for everything, and some are not full. */
START_TEST(late_and_partial_buffers_are_read)
{
    enum { RECORDS = 100 };
    pthread_t own;
    open_over();
    void *watch = begin();
    for (int i = 0; i < RECORDS; i++) {
        run_kernel(3, i % 2 ? 7 : 8, 10000 + 100 * i, 10050 + 100 * i, "gemm");
        if (cupti.in_buffer == RECORDS_PER_BUFFER)
            hold_buffer(cupti.buffers % 3 == 0);
        if (i == RECORDS / 2) {
            ck_assert_int_eq(pthread_create(&own, NULL, hand_out, NULL), 0);
            pthread_join(own, NULL);
        }
    }
    ck_assert_int_gt(cupti.held_count, 3);
    struct rank_activity a = end(watch);
    ck_assert_int_eq(a.counts.count, RECORDS);
    for (int i = 0; i < RECORDS; i++)
        expect(&a.list[i], ACTIVITY_KERNEL, i % 2 ? LANE_COMPUTE : LANE_DP, 10000 + 100 * i, 10050 + 100 * i, "gemm");
    ck_assert(cupti.held_count == 0 && !cupti.buffer && cupti.flushes[1] == 1);
    free(a.list);
    close_module();
}
END_TEST

/* What was dropped before it began is not its; what has no times, or is not whole, is in no list. */
START_TEST(what_is_missing_is_counted)
{
    const kernel_record broken = { .kind = CUPTI_ACTIVITY_KIND_INVALID };
    open_over();
    cupti.dropped = 5;
    void *watch = begin();
    run_kernel(3, 7, 4000, 4100, "gemm");
    run_kernel(3, 7, 0, 0, "gemm");
    run_kernel(3, 8, 5000, 4000, "gemm");
    cupti.dropped += 7;
    flush(0);
    run_copy(8, 6000, 6001);
    put(&broken, sizeof broken);
    hold_buffer(true);
    cupti.dropped += 2, cupti.dropped_late = 4;
    struct rank_activity a = end(watch);
    ck_assert_int_eq(a.counts.count, 2);
    ck_assert_int_eq(a.counts.dropped, 13);
    ck_assert_int_eq(a.counts.untimed, 3);
    free(a.list);
    close_module();
}
END_TEST

/* Nothing is recorded before, after and between; what comes late of one is not the next one's. */
START_TEST(each_has_its_own)
{
    open_over();
    run_kernel(3, 7, 1000, 1100, "before");
    void *watch = begin();
    ck_assert(cupti.enabled[0] && cupti.enabled[1] && cupti.enabled[2]);
    run_kernel(3, 7, 2000, 2100, "first");
    struct rank_activity first = end(watch);
    ck_assert(!cupti.enabled[0] && !cupti.enabled[1] && !cupti.enabled[2]);
    run_kernel(3, 7, 3000, 3100, "between");
    watch = begin();
    run_kernel(3, 7, 4000, 4100, "second");
    struct rank_activity second = end(watch);
    ck_assert(first.counts.count == 1 && second.counts.count == 1);
    ck_assert_str_eq(first.list[0].name, "first");
    ck_assert_str_eq(second.list[0].name, "second");
    free(first.list);
    free(second.list);
    watch = begin();
    run_kernel(3, 7, 5000, 5100, "forgotten");
    ck_assert(gpu.watch_end(gpu.self, watch, NULL, NULL));
    ck_assert(!cupti.enabled[0]);
    cupti.now_ns = 6000;
    watch = begin();
    struct rank_activity last = end(watch);
    ck_assert_int_eq(last.counts.count, 0); /* though it comes only now, and on its stream */
    free(last.list);
    close_module();
}
END_TEST

/* ---- ranks of one process ---- */
struct party {
    void *watch;
    struct rank_activity out;
    pthread_mutex_t mutex;
    bool ended;
};

static void *end_party(void *argument)
{
    struct party *party = argument;
    party->out = end(party->watch);
    pthread_mutex_lock(&party->mutex);
    party->ended = true;
    pthread_mutex_unlock(&party->mutex);
    return NULL;
}

/* The first to end waits: what it asked for would tear apart what the other has under way. _i 1: the other gives up. */
START_TEST(ranks_of_a_process_wait_for_each_other)
{
    struct party first = { .mutex = PTHREAD_MUTEX_INITIALIZER };
    struct error error = { 0 };
    pthread_t thread;
    void *const streams[LANE_COUNT] = { [LANE_COMPUTE] = (void *)17 };
    open_over();
    first.watch = begin();
    run_kernel(3, 17, cupti.now_ns, cupti.now_ns + 5000, "of the second's step before");
    cupti.now_ns += 100;
    void *second = gpu.watch_begin(gpu.self, streams, now_ns, &error);
    ck_assert(second && cupti.enables == KIND_COUNT);
    run_kernel(3, 7, 4000, 4100, "first");
    ck_assert_int_eq(pthread_create(&thread, NULL, end_party, &first), 0);
    nanosleep(&(struct timespec){ 0, 30000000 }, NULL);
    pthread_mutex_lock(&first.mutex);
    ck_assert(!first.ended);
    pthread_mutex_unlock(&first.mutex);
    ck_assert_int_eq(cupti.flushes[0] + cupti.flushes[1], 0);
    run_kernel(3, 17, 4050, 4300, "second");
    if (_i == 0) {
        struct rank_activity a = end(second);
        ck_assert_int_eq(a.counts.count, 1);
        expect(&a.list[0], ACTIVITY_KERNEL, LANE_COMPUTE, 4050, 4300, "second");
        free(a.list);
    } else {
        ck_assert(gpu.watch_end(gpu.self, second, NULL, NULL));
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(first.out.counts.count, _i == 0 ? 1 : 3); /* of a rank that gave up: on a stream of no lane */
    expect(&first.out.list[_i], ACTIVITY_KERNEL, LANE_COMPUTE, 4000, 4100, "first");
    ck_assert_int_eq(cupti.disables, KIND_COUNT);
    free(first.out.list);
    close_module();
}
END_TEST

/* ---- refusals ---- */
START_TEST(without_the_library_there_is_one_reason)
{
    struct error error = { 0 }, again = { 0 };
    void *const streams[LANE_COUNT] = { NULL };
    open_over();
    cupti.absent = true;
    ck_assert(!gpu.watch_ready(gpu.self, &error));
    ck_assert_msg(strstr(error.message, "CUPTI is absent: libcupti.so"), "%s", error.message);
    ck_assert_ptr_null(gpu.watch_begin(gpu.self, streams, now_ns, &again));
    ck_assert_str_eq(error.message, again.message);
    close_module();
}
END_TEST

START_TEST(who_may_not_look_is_told_why)
{
    struct error error = { 0 };
    void *const streams[LANE_COUNT] = { NULL };
    open_over();
    ck_assert(gpu.watch_ready(gpu.self, &error));
    cupti.refuses_kind[_i] = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    ck_assert_ptr_null(gpu.watch_begin(gpu.self, streams, now_ns, &error));
    ck_assert_msg(strstr(error.message, "INSUFFICIENT_PRIVILEGES") && strstr(error.message, "administrators"), "%s",
                  error.message);
    ck_assert_int_eq(cupti.enables, cupti.disables);
    close_module();
}
END_TEST

START_TEST(another_tool_in_the_process_is_told)
{
    struct error error = { 0 };
    open_over();
    cupti.refuses_callbacks = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    ck_assert(!gpu.watch_ready(gpu.self, &error));
    ck_assert_msg(strstr(error.message, "CUPTI: registering: CUPTI_ERROR_OTHER"), "%s", error.message);
    close_module();
}
END_TEST

START_TEST(records_that_cannot_be_read_fail_all_who_wait)
{
    struct error error = { 0 };
    struct rank_activity out;
    open_over();
    void *watch = begin();
    cupti.refuses_flush = CUPTI_ERROR_UNKNOWN;
    ck_assert(!gpu.watch_end(gpu.self, watch, &out, &error));
    ck_assert_msg(strstr(error.message, "CUPTI: reading: CUPTI_ERROR_OTHER"), "%s", error.message);
    ck_assert(!cupti.enabled[0]);
    close_module();
}
END_TEST

static Suite *cuda_watch_suite(void)
{
    Suite *suite = suite_create("cuda_watch");
    CHECK_ADD(suite, records_have_lanes_and_the_hosts_time);
    CHECK_ADD_LOOP(suite, a_clock_that_jumps_is_told, 2);
    CHECK_ADD(suite, late_and_partial_buffers_are_read);
    CHECK_ADD(suite, what_is_missing_is_counted);
    CHECK_ADD(suite, each_has_its_own);
    CHECK_ADD_LOOP(suite, ranks_of_a_process_wait_for_each_other, 2);
    CHECK_ADD(suite, without_the_library_there_is_one_reason);
    CHECK_ADD_LOOP(suite, who_may_not_look_is_told_why, KIND_COUNT);
    CHECK_ADD(suite, another_tool_in_the_process_is_told);
    CHECK_ADD(suite, records_that_cannot_be_read_fail_all_who_wait);
    return suite;
}

CHECK_MAIN(cuda_watch_suite)
