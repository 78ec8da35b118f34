/* cuBLASLt has columns contiguous; ours are rows. A product of row-major matrices is the product of their transposes in
 * the other order: c' = b' a', where a row-major matrix read as a column-major one is its transpose. */
#include "executor/gpu/cuda.h"
#include "executor/kernels/product.h"
#include <cublasLt.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { WORKSPACE_BYTES = 32 << 20, MOST_STREAMS = 32 };

/* One matrix as cuBLASLt wants it: column-major (rows, columns) with a leading dimension, perhaps to be transposed. */
struct matrix {
    int64_t rows, columns, lead;
    cudaDataType_t type;
    int transposed; /* as wide as the type: keys are compared as bytes and have no padding */
};
struct key {
    int64_t m, n, k;
    struct matrix left, right, out;
    int64_t alignment; /* of all pointers: a power of two up to 256 */
};
struct shape {
    struct key key;
    cublasLtMatmulDesc_t operation;
    cublasLtMatrixLayout_t left, right, out;
    cublasLtMatmulAlgo_t algorithm;
    struct shape *next;
};
struct workspace {
    void *stream, *memory;
};
struct cuda_matmuls {
    cublasLtHandle_t handle;
    pthread_mutex_t mutex;
    struct shape *shapes; /* only added to; under the mutex */
    struct workspace workspaces[MOST_STREAMS];
    int workspace_count;
};

static bool check(cublasStatus_t status, const char *what, struct error *err)
{
    return status == CUBLAS_STATUS_SUCCESS ||
           fail_kind(err, ERROR_ENVIRONMENT, "cuBLASLt: %s: %s", what, cublasLtGetStatusName(status));
}

static cudaDataType_t type_of(int type)
{
    return type == GPU_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Ours, (lines, width) with the given strides, as the transpose that cuBLASLt sees: (width, lines). */
static struct matrix transpose_of(int64_t lines, int64_t line_stride, int64_t width, int64_t width_stride, int type)
{
    struct matrix m = { .type = type_of(type) };
    if (matrix_lead(lines, line_stride, width, width_stride, &m.lead)) {
        m.rows = width, m.columns = lines; /* rows of ours are its columns */
        return m;
    }
    matrix_lead(width, width_stride, lines, line_stride, &m.lead);
    m.rows = lines, m.columns = width, m.transposed = 1;
    return m;
}

static int64_t alignment_of(const void *a, const void *b, const void *c)
{
    uintptr_t all = (uintptr_t)a | (uintptr_t)b | (uintptr_t)c;
    int64_t alignment = 256;
    while (alignment > 1 && all % (uintptr_t)alignment != 0)
        alignment /= 2;
    return alignment;
}

/* c' (n,m) = b' (n,k) a' (k,m). If c is had by columns only, the operands change places: c (m,n) = a (m,k) b (k,n). */
static struct key key_of(const struct gpu_matmul *m, bool *swapped)
{
    int64_t lead;
    struct key key = { 0 };
    *swapped = !matrix_lead(m->m, m->c_m, m->n, m->c_n, &lead);
    if (!*swapped) {
        key.m = m->n, key.n = m->m;
        key.left = transpose_of(m->k, m->b_k, m->n, m->b_n, m->b_type);
        key.right = transpose_of(m->m, m->a_m, m->k, m->a_k, m->a_type);
        key.out = transpose_of(m->m, m->c_m, m->n, m->c_n, m->c_type);
    } else {
        key.m = m->m, key.n = m->n;
        key.left = transpose_of(m->k, m->a_k, m->m, m->a_m, m->a_type);
        key.right = transpose_of(m->n, m->b_n, m->k, m->b_k, m->b_type);
        key.out = transpose_of(m->n, m->c_n, m->m, m->c_m, m->c_type);
    }
    key.k = m->k;
    key.alignment = alignment_of(m->a, m->b, m->c);
    return key;
}

_Static_assert(sizeof(struct matrix) == 3 * 8 + 2 * 4 && sizeof(struct key) == 4 * 8 + 3 * sizeof(struct matrix),
               "keys have no padding");

/* ---- shapes ---- */
static void shape_free(struct shape *shape)
{
    if (!shape)
        return;
    if (shape->operation)
        cublasLtMatmulDescDestroy(shape->operation);
    if (shape->left)
        cublasLtMatrixLayoutDestroy(shape->left);
    if (shape->right)
        cublasLtMatrixLayoutDestroy(shape->right);
    if (shape->out)
        cublasLtMatrixLayoutDestroy(shape->out);
    free(shape);
}

static bool make_layout(cublasLtMatrixLayout_t *out, const struct matrix *m, struct error *err)
{
    return check(cublasLtMatrixLayoutCreate(out, m->type, (uint64_t)m->rows, (uint64_t)m->columns, m->lead),
                 "describing a matrix", err);
}

static bool describe(struct shape *s, struct error *err)
{
    cublasOperation_t left = s->key.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      right = s->key.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return check(cublasLtMatmulDescCreate(&s->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product",
                 err) &&
           check(cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
                 "describing a product", err) &&
           check(cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right),
                 "describing a product", err) &&
           make_layout(&s->left, &s->key.left, err) && make_layout(&s->right, &s->key.right, err) &&
           make_layout(&s->out, &s->key.out, err);
}

static bool set_limit(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which, uint32_t value,
                      struct error *err)
{
    return check(cublasLtMatmulPreferenceSetAttribute(preference, which, &value, sizeof value), "setting limits", err);
}

/* The first algorithm of the library's own ranking. */
static bool choose(const struct cuda_matmuls *c, struct shape *s, struct error *err)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found;
    uint64_t workspace = WORKSPACE_BYTES;
    uint32_t alignment = (uint32_t)s->key.alignment;
    int count = 0;
    if (!check(cublasLtMatmulPreferenceCreate(&preference), "setting limits", err))
        return false;
    bool ok = check(cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                         &workspace, sizeof workspace),
                    "setting limits", err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignment, err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignment, err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignment, err) &&
              set_limit(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignment, err) &&
              check(cublasLtMatmulAlgoGetHeuristic(c->handle, s->operation, s->left, s->right, s->out, s->out,
                                                   preference, 1, &found, &count),
                    "choosing an algorithm", err);
    cublasLtMatmulPreferenceDestroy(preference);
    if (ok && count < 1)
        ok = fail_kind(err, ERROR_ENVIRONMENT, "cuBLASLt: no algorithm for a product of %lld x %lld x %lld",
                       (long long)s->key.m, (long long)s->key.n, (long long)s->key.k);
    if (ok)
        s->algorithm = found.algo;
    return ok;
}

/* Under the mutex. */
static const struct shape *shape_of(struct cuda_matmuls *c, const struct key *key, struct error *err)
{
    for (const struct shape *s = c->shapes; s; s = s->next)
        if (memcmp(&s->key, key, sizeof *key) == 0)
            return s;
    struct shape *s = calloc(1, sizeof *s);
    if (!s) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for a shape of matrices");
        return NULL;
    }
    memcpy(&s->key, key, sizeof *key);
    if (!describe(s, err) || !choose(c, s, err)) {
        shape_free(s);
        return NULL;
    }
    s->next = c->shapes;
    return c->shapes = s;
}

/* Products of one stream follow each other and may share a workspace. Under the mutex. */
static void *workspace_of(struct cuda_matmuls *c, void *stream, struct error *err)
{
    for (int i = 0; i < c->workspace_count; i++)
        if (c->workspaces[i].stream == stream)
            return c->workspaces[i].memory;
    struct workspace *w = &c->workspaces[c->workspace_count];
    if (c->workspace_count == MOST_STREAMS || cudaMalloc(&w->memory, WORKSPACE_BYTES) != cudaSuccess) {
        fail_kind(err, ERROR_ENVIRONMENT, "CUDA: no memory for a workspace of %d bytes for matrix products",
                  (int)WORKSPACE_BYTES);
        return NULL;
    }
    w->stream = stream;
    c->workspace_count++;
    return w->memory;
}

bool cuda_matmul_run(struct cuda_matmuls *c, void *stream, const struct gpu_matmul *m, struct error *err)
{
    bool swapped;
    const struct key key = key_of(m, &swapped);
    const float alpha = (float)m->alpha, beta = m->accumulate ? 1 : 0;
    pthread_mutex_lock(&c->mutex);
    const struct shape *s = shape_of(c, &key, err);
    void *workspace = s ? workspace_of(c, stream, err) : NULL;
    pthread_mutex_unlock(&c->mutex);
    return workspace && check(cublasLtMatmul(c->handle, s->operation, &alpha, swapped ? m->a : m->b, s->left,
                                             swapped ? m->b : m->a, s->right, &beta, m->c, s->out, m->c, s->out,
                                             &s->algorithm, workspace, WORKSPACE_BYTES, stream),
                              "a product", err);
}

/* ---- life ---- */
bool cuda_matmuls_new(struct cuda_matmuls **out, struct error *err)
{
    struct cuda_matmuls *c = calloc(1, sizeof *c);
    if (!c)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for matrix products");
    pthread_mutex_init(&c->mutex, NULL);
    if (!check(cublasLtCreate(&c->handle), "opening the library", err)) {
        cuda_matmuls_free(c);
        return false;
    }
    *out = c;
    return true;
}

void cuda_matmuls_free(struct cuda_matmuls *c)
{
    if (!c)
        return;
    while (c->shapes) {
        struct shape *next = c->shapes->next;
        shape_free(c->shapes);
        c->shapes = next;
    }
    for (int i = 0; i < c->workspace_count; i++)
        cudaFree(c->workspaces[i].memory);
    if (c->handle)
        cublasLtDestroy(c->handle);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
