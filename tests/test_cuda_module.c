/* The host code of the CUDA module over doubles of what it calls: what it asks for, keeps and says. No GPU is needed,
 * and nothing is computed. */
#include "tests/cuda_fixture.h"
#include <string.h>

enum {
    M = 64,
    N = 96,
    K = 32,
    REPEATS = 8
}; /* of each algorithm: one to warm up and seven of which the median counts */

static unsigned char memory[4][(1 << 15) + 512] __attribute__((aligned(256))); /* operands of products */

/* Row-major in bf16, c in fp32, all `offset` bytes behind an alignment of 256. */
static struct gpu_matmul product(size_t offset, bool accumulate)
{
    return (struct gpu_matmul){ .m = M,
                                .n = N,
                                .k = K,
                                .count = 1,
                                .a = memory[0] + offset,
                                .b = memory[1] + offset,
                                .c = memory[2] + offset,
                                .a_m = K,
                                .a_k = 1,
                                .b_k = N,
                                .b_n = 1,
                                .c_m = N,
                                .c_n = 1,
                                .a_type = GPU_BF16,
                                .b_type = GPU_BF16,
                                .c_type = GPU_REAL,
                                .alpha = 1,
                                .accumulate = accumulate };
}

/* Returns whether it was taken; *declined: why not. */
static bool ask(const struct gpu_matmul *m, struct error *declined)
{
    struct error error = { 0 };
    bool taken = true;
    *declined = (struct error){ 0 };
    ck_assert_msg(gpu.matmul(gpu.self, stream, m, &taken, declined, &error), "%s", error.message);
    return taken;
}

static void multiply(size_t offset, bool accumulate)
{
    struct error declined;
    const struct gpu_matmul m = product(offset, accumulate);
    ck_assert_msg(ask(&m, &declined), "%s", declined.message);
}

/* The ranking's third is the fastest. */
static void rank_three(void)
{
    cuda_double.algorithms = 3;
    cuda_double.algorithm_ms[0] = 5, cuda_double.algorithm_ms[1] = 4, cuda_double.algorithm_ms[2] = 3;
}

static int runs_into(const void *out)
{
    int count = 0;
    for (int i = 0; i < cuda_double.run_count; i++)
        count += cuda_double.run[i].out == out;
    return count;
}

START_TEST(the_fastest_algorithm_is_kept)
{
    struct gpu_choice known[4];
    open_module();
    rank_three();
    multiply(0, _i);
    multiply(0, _i);
    ck_assert_int_eq(cuda_double.run_count, 3 * REPEATS + 2);
    ck_assert_int_eq(cuda_double.run[cuda_double.run_count - 1].algorithm, 2);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1);
    ck_assert_int_eq(known[0].setting[0], 2);
    close_module();
}
END_TEST

/* A result that is only written serves itself: there may be no room for another one like it. */
START_TEST(timing_takes_no_memory_for_results_that_are_written)
{
    open_module();
    rank_three();
    multiply(0, true);
    size_t workspace = cuda_double.allocated;
    ck_assert_int_eq(runs_into(memory[2]), 1);
    ck_assert_int_eq(cuda_double.most_allocated - workspace, M * N * sizeof(float));
    multiply(16, false); /* of its shape the algorithm is known */
    ck_assert_int_eq(runs_into(memory[2] + 16), 1);
    close_module();
    open_module();
    rank_three();
    multiply(0, false);
    ck_assert_int_eq(runs_into(memory[2]), 3 * REPEATS + 1);
    ck_assert_int_eq(cuda_double.most_allocated, cuda_double.allocated);
    close_module();
}
END_TEST

/* Wherever in an arena a shape's operands lie, it is timed once and found again in the next run. */
START_TEST(places_make_no_shapes)
{
    struct gpu_choice known[4];
    open_module();
    rank_three();
    multiply(0, false);
    ck_assert_uint_eq(cuda_double.alignment, 16);
    for (size_t offset = 16; offset <= 128; offset *= 2)
        multiply(offset, false);
    ck_assert_int_eq(cuda_double.run_count, 3 * REPEATS + 5);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1);
    multiply(8, false);
    ck_assert_uint_eq(cuda_double.alignment, 8);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 2);
    close_module();
}
END_TEST

/* The gradient of GELU may take the place of what it was taken of: then it is no part of the product. */
START_TEST(no_epilogue_works_in_place)
{
    open_module();
    struct gpu_matmul m = product(0, false);
    m.epilogue = GPU_GELU_SLOPE, m.aux = memory[3], m.aux_m = N;
    ck_assert(gpu.fuses(gpu.self, &m));
    m.aux = m.c;
    ck_assert(!gpu.fuses(gpu.self, &m));
    close_module();
}
END_TEST

/* Biases of several products lie evenly, as far from each other as the library's loads are wide. */
START_TEST(several_products_have_biases)
{
    struct error declined;
    struct gpu_matmul m = product(0, false);
    open_module();
    m.count = 2, m.a_next = 0, m.b_next = K * N, m.c_next = M * N;
    m.epilogue = _i ? GPU_BIAS_GRADIENT : GPU_BIAS, m.bias = memory[3], m.bias_type = GPU_REAL, m.bias_next = N;
    ck_assert(gpu.fuses(gpu.self, &m) && ask(&m, &declined));
    ck_assert_int_eq(cuda_double.bias_next, N);
    m.bias_next = N + 1;
    ck_assert(!gpu.fuses(gpu.self, &m));
    m.epilogue = GPU_GELU_BIAS, m.aux = memory[3], m.aux_m = N, m.bias_next = N;
    ck_assert(!gpu.fuses(gpu.self, &m));
    close_module();
}
END_TEST

/* Parts of a long sum are never added in bf16, whatever an earlier run chose. */
START_TEST(parts_are_added_in_full)
{
    struct gpu_choice known;
    struct error declined, error = { 0 };
    struct gpu_matmul m = product(0, false);
    if (_i == 1)
        m.c_type = GPU_BF16;
    open_module();
    rank_three();
    ck_assert(ask(&m, &declined));
    ck_assert_uint_eq(cuda_double.schemes,
                      CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | (_i == 1 ? 0 : CUBLASLT_REDUCTION_SCHEME_INPLACE));
    ck_assert_int_eq(gpu.learned(gpu.self, &known, 1), 1);
    close_module();
    for (int scheme = 0; scheme <= CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE; scheme = scheme ? 2 * scheme : 1) {
        open_module();
        rank_three();
        known.setting[3] = scheme;
        ck_assert(gpu.learn(gpu.self, &known, 1, &error));
        ck_assert(ask(&m, &declined));
        const bool full = (scheme & ~(int)cuda_double.schemes) == 0;
        ck_assert_int_eq(cuda_double.run_count, full ? 1 : 3 * REPEATS + 1);
        close_module();
    }
}
END_TEST

struct apart {
    int calls;
    bool fails;
};

/* A plain product and a kernel behind it. */
static bool go_apart(void *context, void *c, struct error *err)
{
    struct apart *apart = context;
    struct gpu_matmul m = product(0, false);
    struct error declined;
    m.c = c;
    apart->calls++;
    return !apart->fails && ask(&m, &declined) &&
           gpu.launch(gpu.self, stream, GPU_SET, 1, &(struct gpu_work){ .inner = 1 }, err);
}

/* Where what follows a product is faster by a kernel of its own the product is not taken, in this run and in later ones
 * that are told; runs with fixed bits, for which nothing is timed, take it all the same. */
START_TEST(epilogues_are_taken_where_they_are_faster)
{
    static const struct {
        double epilogue_ms;
        bool fails, taken;
    } cases[] = { { 0.4, false, true }, { 0.6, true, true }, { 0.6, false, false } };
    struct apart apart = { .fails = cases[_i].fails };
    struct gpu_choice known[4];
    struct error declined, error = { 0 };
    struct gpu_matmul m = product(0, false);
    const bool taken = cases[_i].taken;
    m.epilogue = GPU_BIAS, m.bias = memory[3], m.bias_type = GPU_BF16;
    m.apart = go_apart, m.apart_context = &apart;
    open_module();
    rank_three();
    cuda_double.kernel_ms = 0.5, cuda_double.epilogue_ms = cases[_i].epilogue_ms;
    ck_assert(gpu.fuses(gpu.self, &m));
    ck_assert_int_eq(ask(&m, &declined), taken);
    ck_assert(taken || strstr(declined.message, "faster"));
    ck_assert_int_eq(apart.calls, apart.fails ? 1 : REPEATS);
    const int runs = cuda_double.run_count;
    ck_assert_int_eq(gpu.fuses(gpu.self, &m), taken);
    ck_assert_int_eq(ask(&m, &declined), taken);
    ck_assert_int_eq(cuda_double.run_count, runs + taken);
    m.deterministic = true;
    ck_assert(gpu.fuses(gpu.self, &m) && ask(&m, &declined));
    m.deterministic = false;
    const int count = gpu.learned(gpu.self, known, 4);
    ck_assert_int_eq(count, apart.fails ? 1 : 2);
    close_module();
    open_module();
    rank_three();
    ck_assert(gpu.learn(gpu.self, known, count, &error));
    ck_assert_int_eq(gpu.fuses(gpu.self, &m), taken);
    ck_assert_int_eq(ask(&m, &declined), taken);
    ck_assert_int_eq(cuda_double.run_count, taken);
    close_module();
}
END_TEST

/* Of products that were faster one by one than as one call a later run knows that, too. */
START_TEST(products_apart_are_known_again)
{
    struct apart apart = { 0 };
    struct gpu_choice known[4];
    struct error declined, error = { 0 };
    struct gpu_matmul m = product(0, false);
    m.count = 2, m.a_next = M * K, m.b_next = K * N, m.c_next = M * N;
    open_module();
    rank_three();
    ck_assert(ask(&m, &declined));
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1);
    known[0].setting[0] = UINT32_MAX; /* in the place of an algorithm */
    close_module();
    open_module();
    rank_three();
    m.apart = go_apart, m.apart_context = &apart;
    ck_assert(gpu.learn(gpu.self, known, 1, &error));
    ck_assert(!ask(&m, &declined));
    ck_assert(cuda_double.run_count == 0 && apart.calls == 0);
    close_module();
}
END_TEST

/* Before each run that counts as much is written as the cache holds, and more; on a full card the workspace. */
START_TEST(nothing_is_timed_from_the_cache)
{
    enum { CACHE_BYTES = 40 << 20 };
    open_module();
    rank_three();
    cuda_double.cache_bytes = CACHE_BYTES;
    multiply(0, false);
    ck_assert_uint_eq(cuda_double.filled, (size_t)3 * (REPEATS - 1) * 2 * CACHE_BYTES);
    ck_assert_uint_eq(cuda_double.allocated, 32 << 20);
    cuda_double.filled = cuda_double.free_bytes = 0;
    multiply(8, false);
    ck_assert_uint_eq(cuda_double.filled, (size_t)3 * (REPEATS - 1) * (32 << 20));
    ck_assert_uint_eq(cuda_double.allocated, 32 << 20);
    close_module();
}
END_TEST

/* Ranks and runs of a process share what was found for a device; one whose bits are fixed asks for none of it. */
START_TEST(ranks_share_what_was_found)
{
    struct error declined;
    struct gpu_choice known[4];
    struct gpu_matmul m = product(0, false);
    open_module();
    rank_three();
    multiply(0, false);
    close_module();
    open_again();
    cuda_double.run_count = 0;
    multiply(0, false);
    ck_assert_int_eq(cuda_double.run_count, 1);
    ck_assert_int_eq(cuda_double.run[0].algorithm, 2);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1);
    m.deterministic = true;
    ck_assert(ask(&m, &declined));
    ck_assert_int_eq(cuda_double.run[1].algorithm, 0);
    close_module();
}
END_TEST

/* A shape that was met before anything was known of it is looked up when something is. */
START_TEST(known_shapes_learn)
{
    struct error declined, error = { 0 };
    struct gpu_choice known;
    struct gpu_matmul m = product(0, false);
    open_module();
    rank_three();
    multiply(0, false);
    ck_assert_int_eq(gpu.learned(gpu.self, &known, 1), 1);
    close_module();
    open_module();
    rank_three();
    m.deterministic = true;
    ck_assert(ask(&m, &declined));
    for (int time = 0; time < 2; time++)
        ck_assert(gpu.learn(gpu.self, &known, 1, &error));
    multiply(0, false);
    ck_assert_int_eq(cuda_double.run_count, 2);
    ck_assert_int_eq(cuda_double.run[1].algorithm, 2);
    close_module();
}
END_TEST

/* A shape without an algorithm, that cannot be described, or that is refused when it is to run: the run goes on without
 * the library, and is told why each time. What fails otherwise ends it. */
START_TEST(who_is_not_taken_hears_why)
{
    static const char *const why[] = { "cuBLASLt has no algorithm for it", "cuBLASLt: describing a matrix: failure",
                                       "cuBLASLt: a product: failure" };
    struct error declined, error = { 0 };
    const struct gpu_matmul m = product(0, _i == 0);
    bool taken;
    open_module();
    rank_three();
    cuda_double.algorithms = _i == 0 ? 0 : 3;
    cuda_double.layout_status = _i == 1 ? CUBLAS_STATUS_INVALID_VALUE : CUBLAS_STATUS_SUCCESS;
    cuda_double.product_status = _i == 2 ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_SUCCESS;
    for (int time = 0; time < 2; time++) {
        ck_assert(!gpu.fuses(gpu.self, &m) || (_i == 2 && time == 0));
        ck_assert(!ask(&m, &declined));
        ck_assert_str_eq(declined.message, why[_i]);
    }
    ck_assert_int_eq(cuda_double.run_count, 0);
    ck_assert_int_eq(gpu.learned(gpu.self, &(struct gpu_choice){ 0 }, 1), 0);
    cuda_double.layout_status = CUBLAS_STATUS_SUCCESS, cuda_double.algorithms = 3;
    cuda_double.product_status = CUBLAS_STATUS_EXECUTION_FAILED;
    const struct gpu_matmul other = product(8, false);
    ck_assert(!gpu.matmul(gpu.self, stream, &other, &taken, &declined, &error));
    close_module();
}
END_TEST

/* A product of a graph that is being kept is only noted down: the first of the ranking serves, and the next one that
 * runs is timed. */
START_TEST(nothing_is_timed_while_a_graph_is_kept)
{
    struct gpu_choice known[4];
    open_module();
    rank_three();
    cuda_double.capturing = true;
    multiply(0, false);
    ck_assert_int_eq(cuda_double.run_count, 1);
    ck_assert_int_eq(cuda_double.run[0].algorithm, 0);
    cuda_double.capturing = false;
    multiply(0, false);
    ck_assert_int_eq(cuda_double.run[cuda_double.run_count - 1].algorithm, 2);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1);
    close_module();
}
END_TEST

/* Streams come and go: those that are open have a workspace each, and no others. */
START_TEST(workspaces_outlive_their_streams)
{
    struct gpu_matmul m = product(0, false);
    open_module();
    rank_three();
    for (int i = 0; i < 100; i++) {
        struct error error = { 0 }, declined;
        bool taken;
        void *opened = gpu.open_stream(gpu.self, false, &error);
        ck_assert_ptr_nonnull(opened);
        ck_assert(gpu.matmul(gpu.self, opened, &m, &taken, &declined, &error));
        gpu.close_stream(gpu.self, opened);
    }
    ck_assert_uint_eq(cuda_double.allocated, 32 << 20);
    close_module();
}
END_TEST

/* On a full card the first of the ranking serves; it was not timed, so no later run is told that it was. */
START_TEST(what_was_not_timed_is_not_kept)
{
    struct gpu_choice known[4];
    open_module();
    rank_three();
    multiply(8, false); /* the stream has its workspace now */
    cuda_double.free_bytes = cuda_double.run_count = 0;
    multiply(0, true);
    ck_assert_int_eq(cuda_double.asked, M * N * sizeof(float));
    multiply(0, true);
    ck_assert_int_eq(cuda_double.run_count, 2);
    ck_assert_int_eq(cuda_double.run[1].algorithm, 0);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1); /* the one of other alignment */
    ck_assert_int_eq(cuda_double.last, cudaSuccess);
    close_module();
}
END_TEST

/* The answer "not yet" is no failure of the launch behind it. */
START_TEST(workspaces_are_told)
{
    struct error error = { 0 };
    int64_t products = -1, attention = -1;
    open_module();
    gpu.workspaces(gpu.self, &products, &attention);
    ck_assert(products == 0 && attention == 0);
    multiply(0, false);
    multiply(16, false);
    gpu.workspaces(gpu.self, &products, &attention);
    ck_assert_int_eq(products, 32 << 20);
    void *first = stream;
    stream = gpu.open_stream(gpu.self, false, &error);
    multiply(0, false);
    gpu.workspaces(gpu.self, &products, &attention);
    ck_assert_int_eq(products, 2 * (32 << 20));
    gpu.close_stream(gpu.self, first);
    close_module();
}
END_TEST

START_TEST(questions_leave_no_error)
{
    struct error error = { 0 };
    const struct gpu_work work = { .inner = 1 };
    open_module();
    void *event = gpu.open_event(gpu.self, true, &error);
    cuda_double.busy = true;
    ck_assert(!gpu.reached(gpu.self, event));
    ck_assert_msg(gpu.launch(gpu.self, stream, GPU_SET, 1, &work, &error), "%s", error.message);
    cuda_double.busy = false;
    ck_assert(gpu.reached(gpu.self, event));
    gpu.close_event(gpu.self, event);
    close_module();
}
END_TEST

START_TEST(the_cache_is_the_devices)
{
    open_module();
    ck_assert_int_eq(gpu.cache_bytes, DOUBLE_CACHE_BYTES);
    close_module();
}
END_TEST

START_TEST(streams_have_priorities_and_events_clocks)
{
    struct error error = { 0 };
    open_module();
    ck_assert_int_eq(cuda_double.priority, 0);
    gpu.close_stream(gpu.self, gpu.open_stream(gpu.self, true, &error));
    ck_assert_int_eq(cuda_double.priority, DOUBLE_GREATEST_PRIORITY);
    gpu.close_event(gpu.self, gpu.open_event(gpu.self, true, &error));
    ck_assert_uint_eq(cuda_double.event_flags, cudaEventDefault);
    gpu.close_event(gpu.self, gpu.open_event(gpu.self, false, &error));
    ck_assert_uint_eq(cuda_double.event_flags, cudaEventDisableTiming);
    close_module();
}
END_TEST

/* Beside transfers; how fast algorithms are there says nothing of a device that products have for themselves. */
START_TEST(products_leave_multiprocessors)
{
    struct error error = { 0 };
    struct gpu_choice known[4];
    open_module();
    rank_three();
    multiply(0, false);
    ck_assert_int_eq(cuda_double.aimed, 0);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 1);
    ck_assert_msg(gpu.spare(gpu.self, 12, &error), "%s", error.message);
    multiply(8, false);
    ck_assert_int_eq(cuda_double.aimed, DOUBLE_MULTIPROCESSORS - 12);
    ck_assert_int_eq(gpu.learned(gpu.self, known, 4), 0);
    close_module();
}
END_TEST

START_TEST(a_stream_is_held_by_one_launch)
{
    struct error error = { 0 };
    open_module();
    gpu_gate *gate = gpu.allocate_host(gpu.self, sizeof *gate, &error);
    ck_assert_msg(gpu.hold(gpu.self, stream, gate, 1, 1, &error), "%s", error.message);
    ck_assert_int_eq(cuda_double.holds, 1);
    gpu.release_host(gpu.self, gate);
    close_module();
}
END_TEST

static Suite *cuda_module_suite(void)
{
    Suite *suite = suite_create("cuda_module");
    CHECK_ADD_LOOP(suite, the_fastest_algorithm_is_kept, 2);
    CHECK_ADD(suite, timing_takes_no_memory_for_results_that_are_written);
    CHECK_ADD(suite, no_epilogue_works_in_place);
    CHECK_ADD_LOOP(suite, several_products_have_biases, 2);
    CHECK_ADD_LOOP(suite, parts_are_added_in_full, 2);
    CHECK_ADD_LOOP(suite, epilogues_are_taken_where_they_are_faster, 3);
    CHECK_ADD(suite, products_apart_are_known_again);
    CHECK_ADD(suite, nothing_is_timed_from_the_cache);
    CHECK_ADD(suite, ranks_share_what_was_found);
    CHECK_ADD(suite, known_shapes_learn);
    CHECK_ADD(suite, places_make_no_shapes);
    CHECK_ADD_LOOP(suite, who_is_not_taken_hears_why, 3);
    CHECK_ADD(suite, nothing_is_timed_while_a_graph_is_kept);
    CHECK_ADD(suite, workspaces_outlive_their_streams);
    CHECK_ADD(suite, what_was_not_timed_is_not_kept);
    CHECK_ADD(suite, workspaces_are_told);
    CHECK_ADD(suite, questions_leave_no_error);
    CHECK_ADD(suite, the_cache_is_the_devices);
    CHECK_ADD(suite, streams_have_priorities_and_events_clocks);
    CHECK_ADD(suite, products_leave_multiprocessors);
    CHECK_ADD(suite, a_stream_is_held_by_one_launch);
    return suite;
}

CHECK_MAIN(cuda_module_suite)
