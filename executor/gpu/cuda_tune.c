/* Which of cuBLASLt's algorithms a shape gets: the library ranks them by a model of the device; a few are run and the
 * fastest stays. */
#include "executor/gpu/cuda_matmul.h"
#include <cuda_runtime_api.h>
#include <string.h>

enum { CANDIDATES = 8, REPEATS = 5 };

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
static bool run(cublasLtHandle_t handle, const struct shape *s, const cublasLtMatmulAlgo_t *algorithm,
                const struct operands *o, void *out)
{
    const float alpha = 1, beta = o->accumulate ? 1 : 0;
    return cublasLtMatmul(handle, s->operation, &alpha, o->left, s->left, o->right, s->right, &beta, out, s->out, out,
                          s->out, algorithm, o->workspace, WORKSPACE_BYTES, o->stream) == CUBLAS_STATUS_SUCCESS;
}

static bool time_of(cublasLtHandle_t handle, const struct shape *s, const cublasLtMatmulAlgo_t *algorithm,
                    const struct operands *o, void *out, cudaEvent_t from, cudaEvent_t to, float *ms)
{
    bool ok = run(handle, s, algorithm, o, out) && cudaEventRecord(from, o->stream) == cudaSuccess;
    for (int i = 0; ok && i < REPEATS; i++)
        ok = run(handle, s, algorithm, o, out);
    return ok && cudaEventRecord(to, o->stream) == cudaSuccess && cudaEventSynchronize(to) == cudaSuccess &&
           cudaEventElapsedTime(ms, from, to) == cudaSuccess;
}

static size_t out_bytes(const struct shape *s)
{
    const size_t elements =
        (size_t)(s->key.count - 1) * (size_t)s->key.out.next + (size_t)s->key.out.columns * (size_t)s->key.out.lead;
    return elements * (s->key.out.type == CUDA_R_16BF ? 2 : sizeof(float));
}

/* The product's own bytes serve a result that is only written: a second copy of the logits may not find room. */
static bool open_out(const struct shape *s, const struct operands *o, void **scratch)
{
    *scratch = NULL;
    return !o->accumulate || cudaMalloc(scratch, out_bytes(s)) == cudaSuccess;
}

void cuda_tune(cublasLtHandle_t handle, struct shape *s, const struct operands *operands)
{
    cublasLtMatmulHeuristicResult_t found[CANDIDATES];
    cudaEvent_t from = NULL, to = NULL;
    void *scratch = NULL;
    float best_ms = 0, ms;
    int count = 0;
    s->tried = true;
    if (!rank_algorithms(handle, s, found, CANDIDATES, &count, NULL) || count < 2)
        return;
    if (open_out(s, operands, &scratch) && cudaEventCreate(&from) == cudaSuccess && cudaEventCreate(&to) == cudaSuccess)
        for (int i = 0; i < count; i++)
            if (time_of(handle, s, &found[i].algo, operands, scratch ? scratch : operands->out, from, to, &ms) &&
                (!s->tuned || ms < best_ms))
                best_ms = ms, s->algorithm = found[i].algo, s->tuned = true;
    cudaGetLastError(); /* memory that was not to be had is no error of the program */
    if (from)
        cudaEventDestroy(from);
    if (to)
        cudaEventDestroy(to);
    cudaFree(scratch);
}

/* ---- what is kept over runs ---- */
enum { ALGORITHM_PLACE = 0, SCHEME_PLACE = 3 };
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
                                          k->epilogue,   k->bias_type,  k->aux_lead,
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
}

bool cuda_tune_take(cublasLtHandle_t handle, struct shape *s, const struct gpu_choice *choice)
{
    cublasLtMatmulAlgo_t algorithm;
    cublasLtMatmulHeuristicResult_t result;
    const struct key *k = &s->key;
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
