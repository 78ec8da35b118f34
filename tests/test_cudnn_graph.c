/* cuDNN's heuristics offer fused engines for our attention graphs on three generations of GPUs, asked by the devices'
 * properties alone: no GPU is needed. A graph with one other operation is offered none, so the question is a real one.
 *
 * The library wants a libcuda to load; where there is no driver, the toolkit's stub serves (CLEAVE_CUDA_STUB names it).
 * Exit 77 where either is missing. */
#include "check.h"
#include "executor/gpu/cudnn_graph.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PROPERTIES(name, version, processors, shared_optin, l2, memory)                                                \
    "{\"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, 1024, 64], \"regsPerBlock\": 65536, "      \
    "\"multiProcessorCount\": " processors ", \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "                  \
    "\"maxSharedMemoryPerBlockOptin\": " shared_optin ", \"reservedSharedMemoryPerBlock\": 1024, "                     \
    "\"maxRegistersPerSM\": 65536, \"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, "    \
    "\"pciDeviceId\": 1, \"isTccDriver\": 1, \"supportCoopLaunch\": 1, \"totalGlobalMem\": " memory                    \
    ", \"smClockRateKHz\": 1, \"memClockRateKHz\": 1, \"l2CacheSize\": " l2                                            \
    ", \"cudaDeviceId\": 1, \"deviceVer\": " version ", \"driverVer\": 13000, \"deviceName\": \"" name "\"}"

/* Sizes from NVIDIA's architecture papers; clocks play no part. */
static const struct {
    int version;
    const char *json;
} devices[] = {
    { 80, PROPERTIES("NVIDIA A100", "800", "108", "166912", "41943040", "85000000000") },
    { 90, PROPERTIES("NVIDIA H200", "900", "132", "232448", "62914560", "150000000000") },
    { 100, PROPERTIES("NVIDIA B200", "1000", "148", "232448", "132644864", "190000000000") },
};
enum { DEVICES = sizeof devices / sizeof *devices };

static struct cudnn_library library; /* opened once */

static struct attention_shape shape_of(int64_t heads, int64_t kv_heads, int64_t width, bool causal, bool backward,
                                       bool deterministic)
{
    const int64_t batches = 4, rows = 2048;
    struct attention_shape s = { batches,
                                 rows,
                                 rows,
                                 heads,
                                 kv_heads,
                                 width,
                                 .causal = causal,
                                 .backward = backward,
                                 .deterministic = deterministic };
    int64_t *const by_query[] = { s.q, s.out, s.out_gradient, s.q_gradient }, *const by_key[] = { s.k, s.v,
                                                                                                  s.k_gradient,
                                                                                                  s.v_gradient };
    for (int i = 0; i < 4; i++) { /* (batch, line, head, width), dense: as values of a program lie */
        by_query[i][0] = rows * heads * width, by_query[i][1] = heads * width, by_query[i][2] = width;
        by_key[i][0] = rows * kv_heads * width, by_key[i][1] = kv_heads * width, by_key[i][2] = width;
    }
    return s;
}

static int engines_of(const struct cudnn_library *with, const struct attention_shape *shape, const char *json)
{
    struct cudnn_graph graph;
    struct error error = { 0 };
    cudnnBackendDescriptor_t engines[GRAPH_ENGINES];
    const struct cudnn_target target = { .properties_json = json };
    int count = -1;
    ck_assert_msg(cudnn_graph_attention(&graph, with, shape, NULL, &error), "%s", error.message);
    ck_assert_msg(cudnn_graph_engines(&graph, &target, engines, &count, &error), "%s", error.message);
    cudnn_graph_free(&graph);
    return count;
}

struct head_case {
    int64_t width;
    bool backward_everywhere; /* else backward on sm_90 alone */
};
static const struct head_case head_cases[] = {
    { 64, true }, { 128, true }, { 96, true }, { 160, false }, { 256, false }
};
enum { HEAD_CASES = sizeof head_cases / sizeof *head_cases };

/* Causal and not, each head with keys of its own and four to a key head; forward, backward, and in a fixed order. */
START_TEST(fused_engines_take_attention)
{
    const int device = _i / HEAD_CASES;
    const struct head_case *c = &head_cases[_i % HEAD_CASES];
    for (int way = 0; way < 3; way++)
        for (int causal = 0; causal < 2; causal++)
            for (int64_t kv_heads = 4; kv_heads <= 16; kv_heads *= 4) {
                struct attention_shape shape = shape_of(16, kv_heads, c->width, causal, way > 0, way == 2);
                int engines = engines_of(&library, &shape, devices[device].json);
                bool expected = way == 0 || c->backward_everywhere || devices[device].version == 90;
                ck_assert_msg((engines > 0) == expected,
                              "sm_%d, way %d, causal %d, %lld key heads, width %lld: %d engines, expected %s",
                              devices[device].version, way, causal, (long long)kv_heads, (long long)c->width, engines,
                              expected ? "some" : "none");
            }
}
END_TEST

/* Other numbers of keys than of queries, and lengths that are no power of two. */
START_TEST(lengths_are_free)
{
    for (int backward = 0; backward < 2; backward++) {
        struct attention_shape shape = shape_of(16, 16, 64, false, backward, false);
        shape.keys = 1000;
        ck_assert_int_gt(engines_of(&library, &shape, devices[1].json), 0);
        shape.rows = shape.keys, shape.causal = true;
        ck_assert_int_gt(engines_of(&library, &shape, devices[1].json), 0);
    }
}
END_TEST

START_TEST(old_versions_go_back_over_whole_tiles_of_keys)
{
    struct cudnn_library old = library;
    struct cudnn_graph graph;
    for (int backward = 0; backward < 2; backward++)
        for (int64_t keys = 1000; keys <= 1024; keys += 24)
            for (old.version = 91500; old.version <= 91501; old.version++) {
                struct error error = { 0 };
                struct attention_shape shape = shape_of(16, 16, 64, false, backward, false);
                shape.keys = keys;
                bool wrong = backward && keys == 1000 && old.version == 91500;
                ck_assert_int_eq(cudnn_graph_attention(&graph, &old, &shape, NULL, &error), !wrong);
                ck_assert(!wrong || strstr(error.message, "any number of keys"));
                cudnn_graph_free(&graph);
            }
}
END_TEST

/* Every exponential becomes a hyperbolic tangent. */
static cudnnStatus_t set_otherwise(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                   cudnnBackendAttributeType_t type, int64_t count, const void *elements)
{
    static const cudnnPointwiseMode_t tanh_mode = CUDNN_POINTWISE_TANH_FWD;
    bool changed = name == CUDNN_ATTR_POINTWISE_MODE && *(const cudnnPointwiseMode_t *)elements == CUDNN_POINTWISE_EXP;
    return library.set(descriptor, name, type, count, changed ? &tanh_mode : elements);
}

START_TEST(other_graphs_are_not_taken)
{
    struct cudnn_library otherwise = library;
    otherwise.set = set_otherwise;
    for (int backward = 0; backward < 2; backward++) {
        struct attention_shape shape = shape_of(16, 16, 64, true, backward, false);
        ck_assert_int_eq(engines_of(&otherwise, &shape, devices[_i].json), 0);
    }
}
END_TEST

/* A library with more engines than are asked for fills as many and tells the number of all. */
static cudnnStatus_t get_of_many(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                 cudnnBackendAttributeType_t type, int64_t asked, int64_t *count, void *elements)
{
    cudnnStatus_t status = library.get(descriptor, name, type, asked, count, elements);
    *count += name == CUDNN_ATTR_ENGINEHEUR_RESULTS ? 100 : 0;
    return status;
}

START_TEST(no_more_engines_than_there_is_room_for)
{
    struct cudnn_library many = library;
    many.get = get_of_many;
    struct attention_shape shape = shape_of(16, 16, 64, true, false, false);
    ck_assert_int_eq(engines_of(&many, &shape, devices[1].json), GRAPH_ENGINES);
}
END_TEST

/* Every second engine says that its sums have no fixed order. */
static int asked_engines;

static cudnnStatus_t get_doubtful(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                  cudnnBackendAttributeType_t type, int64_t asked, int64_t *count, void *elements)
{
    cudnnStatus_t status = library.get(descriptor, name, type, asked, count, elements);
    if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && status == CUDNN_STATUS_SUCCESS) {
        ck_assert_int_lt(*count, asked);
        if (asked_engines++ % 2 == 0)
            ((cudnnBackendNumericalNote_t *)elements)[(*count)++] = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    }
    return status;
}

START_TEST(engines_that_do_not_repeat_bits_are_left_out)
{
    struct cudnn_library doubtful = library;
    doubtful.get = get_doubtful;
    for (int backward = 0; backward < 2; backward++) {
        struct attention_shape shape = shape_of(16, 16, 64, true, backward, true);
        int all = engines_of(&library, &shape, devices[_i].json);
        asked_engines = 0;
        ck_assert_int_gt(all, 0);
        ck_assert_int_eq(engines_of(&doubtful, &shape, devices[_i].json), all / 2);
        ck_assert_int_eq(asked_engines, all);
        shape.deterministic = false;
        engines_of(&doubtful, &shape, devices[_i].json);
        ck_assert_int_eq(asked_engines, all);
    }
}
END_TEST

static Suite *cudnn_graph_suite(void)
{
    Suite *suite = suite_create("cudnn_graph");
    TCase *graphs = tcase_create("graphs");
    tcase_set_timeout(graphs, 0);
    tcase_add_loop_test(graphs, fused_engines_take_attention, 0, DEVICES * HEAD_CASES);
    tcase_add_loop_test(graphs, other_graphs_are_not_taken, 0, DEVICES);
    tcase_add_loop_test(graphs, engines_that_do_not_repeat_bits_are_left_out, 0, DEVICES);
    tcase_add_test(graphs, lengths_are_free);
    tcase_add_test(graphs, old_versions_go_back_over_whole_tiles_of_keys);
    tcase_add_test(graphs, no_more_engines_than_there_is_room_for);
    suite_add_tcase(suite, graphs);
    return suite;
}

/* The stub is opened before the library, which then finds a libcuda.so.1; another one, of a driver, will do as well. */
int main(void)
{
    struct error error = { 0 };
    const char *stub = getenv("CLEAVE_CUDA_STUB");
    if (!dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL) && !(stub && dlopen(stub, RTLD_NOW | RTLD_GLOBAL))) {
        printf("skipped: no libcuda and no stub of it: %s\n", dlerror());
        return 77;
    }
    if (!cudnn_library_open(&library, &error)) {
        printf("skipped: %s\n", error.message);
        return 77;
    }
    SRunner *runner = srunner_create(cudnn_graph_suite());
    srunner_set_fork_status(runner, CK_NOFORK); /* the library stays open */
    srunner_run_all(runner, CK_NORMAL);
    int failures = srunner_ntests_failed(runner);
    srunner_free(runner);
    cudnn_library_close(&library);
    return failures > 0;
}
