/* Which of cuBLASLt's algorithms a shape gets: the library ranks them by a model of the device; a few are run and the
 * fastest stays. Where own kernels behind a plain product are faster than the library's epilogue, these stay. */
#include "executor/gpu/cuda_matmul.h"
#include <cuda_runtime_api.h>
#include <stdlib.h>
#include <string.h>

enum { CANDIDATES = 16, ENTRANTS = CANDIDATES + 1, ROUNDS = 7 };

static bool check(cublasStatus_t status, const char *what, struct error *err)
{
    return status == CUBLAS_STATUS_SUCCESS ||
           fail_kind(err, ERROR_ENVIRONMENT, "cuBLASLt: %s: %s", what, cublasLtGetStatusName(status));
}

static bool set_limit(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, uint32_t value,
                      struct error *err)
{
    return check(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value), "setting limits", err);
}

/* A long sum may be cut, its parts being added where the result lies, in the result's type, or in fp32 beside it. */
static uint32_t schemes_of(const struct shape *s)
{
    return s->key.out.type == CUDA_R_32F ? CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE
                                         : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
}

/* The best of the ranking, at most `most`; *count 0: there is none. */
static bool rank_algorithms(cublasLtHandle_t handle, const struct shape *s, cublasLtMatmulHeuristicResult_t *found,
                            int most, int *count, struct error *err)
{
    cublasLtMatmulPreference_t preference = NULL;
    uint64_t workspace = WORKSPACE_BYTES;
    uint32_t alignment = (uint32_t)s->key.alignment;
    *count = 0;
    if (!check(cublasLtMatmulPreferenceCreate(&preference), "setting limits", err))
        return false;
    bool ok = check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &workspace, sizeof workspace),
                    "setting limits", err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes_of(s), err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment, err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment, err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment, err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment, err);
    if (ok && cublasLtMatmulAlgoGetHeuristic(handle, s->operation, s->left, s->right, s->out, s->out, preference, most,
                                             found, count) != CUBLAS_STATUS_SUCCESS)
        *count = 0; /* what it does not take it calls not supported */
    cublasLtMatmulPreferenceDestroy(preference);
    return ok;
}

bool cuda_tune_first(cublasLtHandle_t handle, struct shape *s, struct error *err)
{
    cublasLtMatmulHeuristicResult_t found;
    int count;
    if (!rank_algorithms(handle, s, &found, 1, &count, err))
        return false;
    if (count < 1)
        return fail_kind(err, ERROR_ENVIRONMENT, "cuBLASLt has no algorithm for it");
    s->first = s->algorithm = found.algo;
    return true;
}

/* ---- timing ---- */
struct contest {
    cublasLtHandle_t handle;
    const struct shape *shape;
    const struct operands *operands;
    void *scratch; /* for the result, NULL: it goes where the caller's goes */
    void *swept;   /* memory that pushes all else out of the cache, NULL: there is no room for it */
    size_t swept_bytes;
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    int count, entrants; /* algorithms, and those with what goes apart, behind them */
    bool fails[ENTRANTS];
    cudaEvent_t from[ENTRANTS], to[ENTRANTS];
    float ms[ENTRANTS][ROUNDS];
};

static bool start(const struct contest *t, int entrant)
{
    const struct shape *s = t->shape;
    const struct operands *o = t->operands;
    const float alpha = 1, beta = o->accumulate ? 1 : 0;
    void *out = t->scratch ? t->scratch : o->out;
    if (entrant == t->count)
        return o->apart(o->apart_context, out, NULL);
    return cublasLtMatmul(t->handle, s->operation, &alpha, o->left, s->left, o->right, s->right, &beta, out, s->out,
                          out, s->out, &t->found[entrant].algo, o->workspace, WORKSPACE_BYTES,
                          o->stream) == CUBLAS_STATUS_SUCCESS;
}

/* In a step operands come from memory, and kernels stand in a queue: writing what fills the cache sees to the one, and
 * while that takes its time the host queues what is timed. */
static bool time_once(const struct contest *t, int entrant)
{
    void *stream = t->operands->stream;
    return (!t->swept || cudaMemsetAsync(t->swept, 0, t->swept_bytes, stream) == cudaSuccess) &&
           cudaEventRecord(t->from[entrant], stream) == cudaSuccess && start(t, entrant) &&
           cudaEventRecord(t->to[entrant], stream) == cudaSuccess;
}

/* All in turn, so that the device's clocks are the same for each. */
static bool run_round(struct contest *t, int round)
{
    bool ok = true;
    for (int e = 0; ok && e < t->entrants; e++)
        ok = t->fails[e] || time_once(t, e);
    ok = ok && cudaStreamSynchronize(t->operands->stream) == cudaSuccess;
    for (int e = 0; ok && e < t->entrants; e++)
        ok = t->fails[e] || cudaEventElapsedTime(&t->ms[e][round], t->from[e], t->to[e]) == cudaSuccess;
    return ok;
}

static int by_size(const void *a, const void *b)
{
    const float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Whom it takes for the first time may be loaded, or be timed itself, before. Returns the one of the least median, -1:
 * none could be timed. */
static int winner_of(struct contest *t)
{
    int best = -1;
    for (int e = 0; e < t->entrants; e++)
        t->fails[e] = !start(t, e);
    for (int round = 0; round < ROUNDS; round++)
        if (!run_round(t, round))
            return -1;
    for (int e = 0; e < t->entrants; e++) {
        qsort(t->ms[e], ROUNDS, sizeof *t->ms[e], by_size);
        if (!t->fails[e] && (best < 0 || t->ms[e][ROUNDS / 2] < t->ms[best][ROUNDS / 2]))
            best = e;
    }
    return best;
}

static size_t out_bytes(const struct shape *s)
{
    const size_t elements =
        (size_t)(s->key.count - 1) * (size_t)s->key.out.next + (size_t)s->key.out.columns * (size_t)s->key.out.lead;
    return elements * (s->key.out.type == CUDA_R_16BF ? 2 : sizeof(float));
}

/* The product's own bytes serve a result that is only written: a second copy of the logits may not find room. Where
 * there is none for what fills the cache, the workspace is better than nothing. */
static bool open_contest(struct contest *t)
{
    int device = 0, cache_bytes = 0;
    if (t->operands->accumulate && cudaMalloc(&t->scratch, out_bytes(t->shape)) != cudaSuccess)
        return false;
    if (cudaGetDevice(&device) == cudaSuccess &&
        cudaDeviceGetAttribute(&cache_bytes, cudaDevAttrL2CacheSize, device) == cudaSuccess && cache_bytes > 0) {
        t->swept_bytes = 2 * (size_t)cache_bytes;
        if (cudaMalloc(&t->swept, t->swept_bytes) != cudaSuccess)
            t->swept = t->operands->workspace, t->swept_bytes = WORKSPACE_BYTES;
    }
    for (int e = 0; e < t->entrants; e++)
        if (cudaEventCreate(&t->from[e]) != cudaSuccess || cudaEventCreate(&t->to[e]) != cudaSuccess)
            return false;
    return true;
}

static void close_contest(struct contest *t)
{
    for (int e = 0; e < t->entrants; e++) {
        if (t->from[e])
            cudaEventDestroy(t->from[e]);
        if (t->to[e])
            cudaEventDestroy(t->to[e]);
    }
    cudaFree(t->scratch);
    if (t->swept != t->operands->workspace)
        cudaFree(t->swept);
    cudaGetLastError(); /* memory that was not to be had is no error of the program */
}

void cuda_tune(cublasLtHandle_t handle, struct shape *s, const struct operands *operands)
{
    struct contest t = { .handle = handle, .shape = s, .operands = operands };
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    if (cudaStreamIsCapturing(operands->stream, &capture) != cudaSuccess || capture != cudaStreamCaptureStatusNone)
        return; /* what is only noted down takes no time: a later step's product is timed */
    s->tried = true;
    if (!rank_algorithms(handle, s, t.found, CANDIDATES, &t.count, NULL))
        return;
    t.entrants = t.count + (operands->apart != NULL);
    if (t.entrants < 2)
        return;
    const int winner = open_contest(&t) ? winner_of(&t) : -1;
    close_contest(&t);
    s->tuned = winner >= 0;
    s->apart = winner == t.count;
    if (winner >= 0 && winner < t.count)
        s->algorithm = t.found[winner].algo;
}

/* ---- what is kept over runs ---- */
enum { ALGORITHM_PLACE = 0, SCHEME_PLACE = 3 };
static const int64_t NO_ALGORITHM = UINT32_MAX; /* in the place of one: it goes apart */
static const struct {
    cublasLtMatmulAlgoConfigAttributes_t which;
    size_t bytes;
} settings[GPU_CHOICE_SETTINGS] = {
    { CUBLASLT_ALGO_CONFIG_ID, 4 }, /* ALGORITHM_PLACE */
    { CUBLASLT_ALGO_CONFIG_TILE_ID, 4 },
    { CUBLASLT_ALGO_CONFIG_SPLITK_NUM, 4 },
    { CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME, 4 }, /* SCHEME_PLACE */
    { CUBLASLT_ALGO_CONFIG_CTA_SWIZZLING, 4 },
    { CUBLASLT_ALGO_CONFIG_CUSTOM_OPTION, 4 },
    { CUBLASLT_ALGO_CONFIG_STAGES_ID, 4 },
    { CUBLASLT_ALGO_CONFIG_INNER_SHAPE_ID, 2 },
    { CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID, 2 },
};

void cuda_tune_describe(const struct shape *s, struct gpu_choice *out)
{
    const struct key *k = &s->key;
    const int64_t key[GPU_CHOICE_KEY] = { k->m,          k->n,          k->k,
                                          k->left.lead,  k->left.type,  k->left.transposed,
                                          k->right.lead, k->right.type, k->right.transposed,
                                          k->out.lead,   k->out.type,   k->alignment,
                                          k->epilogue,   k->bias_type,  k->beside,
                                          k->count,      k->left.next,  k->right.next,
                                          k->out.next };
    memset(out, 0, sizeof *out);
    memcpy(out->key, key, sizeof key);
    for (int i = 0; i < GPU_CHOICE_SETTINGS; i++) { /* little endian: a shorter number is the low bytes */
        size_t written = 0;
        uint32_t value = 0;
        if (cublasLtMatmulAlgoConfigGetAttribute(&s->algorithm, settings[i].which, &value, settings[i].bytes,
                                                 &written) == CUBLAS_STATUS_SUCCESS)
            out->setting[i] = value;
    }
    if (s->apart)
        out->setting[ALGORITHM_PLACE] = NO_ALGORITHM;
}

bool cuda_tune_take(cublasLtHandle_t handle, struct shape *s, const struct gpu_choice *choice)
{
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulHeuristicResult_t result;
    const struct key *k = &s->key;
    if (choice->setting[ALGORITHM_PLACE] == NO_ALGORITHM)
        return s->apart = s->key.epilogue != GPU_PLAIN || s->key.count > 1;
    bool ok =
        (choice->setting[SCHEME_PLACE] & ~(int64_t)schemes_of(s)) == 0 &&
        cublasLtMatmulAlgoInit(handle, CUBLAS_COMPUTE_32F, CUDA_R_32F, k->left.type, k->right.type, k->out.type,
                               k->out.type, (int)choice->setting[ALGORITHM_PLACE], &algorithm) == CUBLAS_STATUS_SUCCESS;
    for (int i = 1; ok && i < GPU_CHOICE_SETTINGS; i++) {
        uint32_t value = (uint32_t)choice->setting[i];
        ok = cublasLtMatmulAlgoConfigSetAttribute(&algorithm, settings[i].which, &value, settings[i].bytes) ==
             CUBLAS_STATUS_SUCCESS;
    }
    ok = ok &&
         cublasLtMatmulAlgoCheck(handle, s->operation, s->left, s->right, s->out, s->out, &algorithm, &result) ==
             CUBLAS_STATUS_SUCCESS &&
         result.workspaceSize <= WORKSPACE_BYTES;
    if (ok)
        s->algorithm = algorithm;
    return ok;
}
