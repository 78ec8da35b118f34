/* Attention of the CUDA module over a double of cuDNN: what is taken, what is queued for it, and what is said where it
 * is not taken. No GPU is needed, and nothing is computed. */
#include "executor/gpu/cudnn_graph.h"
#include "executor/gpu/kinds.h"
#include "tests/cuda_fixture.h"
#include <stdio.h>
#include <string.h>

enum { BATCHES = 2, ROWS = 4, HEADS = 3, WIDTH = 32, PLAN_BYTES = 1000 };

/* ---- the double ---- */
static struct {
    bool refuses_graph, has_no_handle;
    int engines, good_engine; /* the good one makes a plan; -1: none does */
    int executions, described;
} cudnn;

static cudnnStatus_t create(cudnnHandle_t *handle)
{
    *handle = NULL;
    return cudnn.has_no_handle ? CUDNN_STATUS_NOT_INITIALIZED : CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set_stream(cudnnHandle_t handle, cudaStream_t on)
{
    (void)handle, (void)on;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t create_descriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out)
{
    (void)type;
    *out = NULL;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t set(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
    (void)descriptor, (void)name, (void)type, (void)count, (void)elements;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t finalize(cudnnBackendDescriptor_t descriptor)
{
    (void)descriptor;
    return CUDNN_STATUS_SUCCESS;
}

static cudnnStatus_t execute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack)
{
    (void)handle, (void)plan, (void)pack;
    cudnn.executions++;
    return CUDNN_STATUS_SUCCESS;
}

static const char *error_name(cudnnStatus_t status)
{
    return status == CUDNN_STATUS_SUCCESS ? "success" : "failure";
}

static void last_error(char *out, size_t bytes)
{
    snprintf(out, bytes, "what the library said last");
}

bool cudnn_library_open(struct cudnn_library *out, struct error *err)
{
    (void)err;
    *out = (struct cudnn_library){ .version = 91900,
                                   .create = create,
                                   .set_stream = set_stream,
                                   .create_descriptor = create_descriptor,
                                   .set = set,
                                   .finalize = finalize,
                                   .execute = execute,
                                   .error_name = error_name,
                                   .last_error = last_error };
    return true;
}

void cudnn_library_close(struct cudnn_library *library)
{
    (void)library;
}

bool cudnn_graph_attention(struct cudnn_graph *out, const struct cudnn_library *library,
                           const struct attention_shape *shape, cudnnHandle_t handle, struct error *err)
{
    (void)library, (void)shape, (void)handle;
    *out = (struct cudnn_graph){ .count = 0 };
    cudnn.described++;
    return !cudnn.refuses_graph || fail_kind(err, ERROR_ENVIRONMENT, "cuDNN: the graph is refused");
}

bool cudnn_graph_engines(struct cudnn_graph *graph, const struct cudnn_target *target,
                         cudnnBackendDescriptor_t engines[GRAPH_ENGINES], int *count, struct error *err)
{
    static char places[GRAPH_ENGINES];
    (void)graph, (void)target, (void)err;
    for (*count = 0; *count < cudnn.engines; ++*count)
        engines[*count] = places + *count;
    return true;
}

cudnnBackendDescriptor_t cudnn_graph_plan(struct cudnn_graph *graph, cudnnHandle_t handle,
                                          cudnnBackendDescriptor_t engine, int64_t *workspace_bytes)
{
    cudnnBackendDescriptor_t engines[GRAPH_ENGINES];
    int count;
    (void)handle;
    cudnn_graph_engines(graph, NULL, engines, &count, NULL);
    *workspace_bytes = PLAN_BYTES;
    return cudnn.good_engine >= 0 && engine == engines[cudnn.good_engine] ? engine : NULL;
}

void cudnn_graph_free(struct cudnn_graph *graph)
{
    (void)graph;
}

/* ---- calls ---- */
static unsigned char memory[ATTENTION_V_GRADIENT + 1][4096] __attribute__((aligned(256)));

static void close_both(void)
{
    close_module();
    memset(&cudnn, 0, sizeof cudnn);
}

/* Returns whether it was taken; *declined: why not. */
static bool attend(bool backward, size_t offset, int64_t rows, struct error *declined)
{
    struct error error = { 0 };
    struct gpu_work work = { .number = { 1, HEADS } };
    work.integer[ATTENTION_BATCHES] = BATCHES, work.integer[ATTENTION_ROWS] = work.integer[ATTENTION_KEYS] = rows;
    work.integer[ATTENTION_HEADS] = HEADS, work.integer[ATTENTION_WIDTH] = WIDTH;
    for (int spot = ATTENTION_Q; spot <= ATTENTION_V_GRADIENT; spot++)
        work.spot[spot] = (struct gpu_spot){ .data = memory[spot] + offset,
                                             .type = spot == ATTENTION_LSE ? GPU_REAL : GPU_BF16,
                                             .begin = true,
                                             .stride = { rows * HEADS * WIDTH, HEADS * WIDTH, WIDTH } };
    bool taken = true;
    *declined = (struct error){ 0 };
    ck_assert_msg(
        gpu.attend(gpu.self, stream, &(struct gpu_attention){ &work, backward, false }, &taken, declined, &error), "%s",
        error.message);
    return taken;
}

START_TEST(the_first_engine_that_makes_a_plan_serves)
{
    struct error declined;
    cudnn.engines = 3, cudnn.good_engine = 1;
    open_module();
    for (int time = 0; time < 2; time++)
        for (int backward = 0; backward < 2; backward++)
            ck_assert_msg(attend(backward, 0, ROWS, &declined), "%s", declined.message);
    ck_assert_int_eq(cudnn.executions, 4);
    ck_assert_int_eq(cudnn.described, 2); /* once for each shape */
    int64_t products = -1, attention = -1;
    gpu.workspaces(gpu.self, &products, &attention);
    ck_assert_int_eq(products, 0);
    ck_assert_int_ge(attention, PLAN_BYTES + 2 * (int64_t)sizeof(float) * BATCHES * ROWS * HEADS);
    ck_assert_int_eq(cuda_double.launches, 4); /* each has statistics copied */
    /* A longer call finds room, and what was there before it is still the other calls'. */
    ck_assert(attend(true, 0, 4 * ROWS, &declined));
    ck_assert_int_eq(cuda_double.frees, 0);
    gpu.workspaces(gpu.self, &products, &attention);
    for (int backward = 0; backward < 2; backward++)
        ck_assert(attend(backward, 0, ROWS, &declined));
    int64_t later = -1;
    gpu.workspaces(gpu.self, &products, &later);
    ck_assert_int_eq(later, attention);
    close_module();
    ck_assert_int_eq(cuda_double.allocated, 0);
    open_again(); /* the next rank finds the plans */
    ck_assert(attend(false, 0, ROWS, &declined));
    ck_assert_int_eq(cudnn.described, 3);
    close_both();
}
END_TEST

/* Nothing is queued, and each time the reason is told. */
static void declines(const char *why, size_t offset)
{
    struct error declined;
    open_module();
    for (int time = 0; time < 2; time++) {
        ck_assert(!attend(false, offset, ROWS, &declined));
        ck_assert_msg(strstr(declined.message, why) != NULL, "got %s, expected %s", declined.message, why);
    }
    ck_assert_int_eq(cudnn.executions + cuda_double.launches, 0);
    close_both();
}

START_TEST(who_is_not_taken_hears_why)
{
    cudnn.engines = 2, cudnn.refuses_graph = true;
    declines("the graph is refused", 0);
    cudnn.engines = 0;
    declines("cuDNN 9.19.0 has no engine for it", 0);
    cudnn.engines = 2, cudnn.good_engine = -1;
    declines("could prepare none of its 2 engines for it: what the library said last", 0);
    cudnn.engines = 2;
    declines("multiples of 16 bytes", 8);
}
END_TEST

START_TEST(a_library_that_does_not_work_is_absent)
{
    cudnn.has_no_handle = true;
    open_module();
    ck_assert(!gpu.attend);
    ck_assert_msg(strstr(gpu.libraries, "slow: cuDNN: opening the library: failure; what the library said last"), "%s",
                  gpu.libraries);
    close_both();
}
END_TEST

static Suite *cuda_attention_suite(void)
{
    Suite *suite = suite_create("cuda_attention");
    CHECK_ADD(suite, the_first_engine_that_makes_a_plan_serves);
    CHECK_ADD(suite, who_is_not_taken_hears_why);
    CHECK_ADD(suite, a_library_that_does_not_work_is_absent);
    return suite;
}

CHECK_MAIN(cuda_attention_suite)
