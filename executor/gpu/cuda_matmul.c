/* cuBLASLt has columns contiguous; ours are rows. A product of row-major matrices is the product of their transposes in
 * the other order: c' = b' a', where a row-major matrix read as a column-major one is its transpose. */
#include "executor/gpu/cuda_matmul.h"
#include "executor/kernels/product.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ALIGNMENT = 16, EPILOGUE_ALIGNMENT = 16, AUX_LEAD_UNIT = 8 };

struct cuda_matmuls {
    cublasLtHandle_t handle;
    pthread_mutex_t mutex;
    struct shape *shapes;    /* only added to; all of these under the mutex, which what is timed takes again */
    int32_t multiprocessors; /* to lay out for; 0: all that there are */
    struct gpu_choice *known;
    int known_count;
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

static int64_t type_bytes(int type)
{
    return type == GPU_BF16 ? 2 : (int64_t)sizeof(float);
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

/* Returns the alignment of all matrices of all products; what an epilogue has beside them lies well enough or is
 * refused. More than MOST_ALIGNMENT, the widest access of a kernel (16 bytes by vectors, and by the engines that copy
 * tiles), gains nothing, and would make several shapes of one by where its operands happen to lie. */
static int64_t alignment_of(const struct gpu_matmul *m)
{
    const uintptr_t next = (uintptr_t)(m->a_next * type_bytes(m->a_type)) |
                           (uintptr_t)(m->b_next * type_bytes(m->b_type)) |
                           (uintptr_t)(m->c_next * type_bytes(m->c_type)),
                    all = (uintptr_t)m->a | (uintptr_t)m->b | (uintptr_t)m->c | (m->count > 1 ? next : 0);
    int64_t alignment = MOST_ALIGNMENT;
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
    key.count = m->count;
    if (m->count > 1) {
        key.left.next = *swapped ? m->a_next : m->b_next;
        key.right.next = *swapped ? m->b_next : m->a_next;
        key.out.next = m->c_next;
    }
    key.alignment = alignment_of(m);
    key.epilogue = m->epilogue;
    if (m->bias)
        key.bias_type = type_of(m->bias_type);
    key.beside = m->aux ? m->aux_m : m->bias && m->count > 1 ? m->bias_next : 0;
    return key;
}

_Static_assert(sizeof(struct matrix) == 4 * 8 + 2 * 4 && sizeof(struct key) == 8 * 8 + 3 * sizeof(struct matrix),
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

static bool make_layout(cublasLtMatrixLayout_t *out, const struct matrix *m, int64_t count, struct error *err)
{
    const int32_t batch = (int32_t)count;
    return check(cublasLtMatrixLayoutCreate(out, m->type, (uint64_t)m->rows, (uint64_t)m->columns, m->lead),
                 "describing a matrix", err) &&
           (count == 1 ||
            (check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof batch),
                   "describing matrices", err) &&
             check(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &m->next,
                                                    sizeof m->next),
                   "describing matrices", err)));
}

static bool set(struct shape *s, cublasLtMatmulDescAttributes_t which, const void *value, size_t bytes,
                struct error *err)
{
    return check(cublasLtMatmulDescSetAttribute(s->operation, which, value, bytes), "describing a product", err);
}

static cublasLtEpilogue_t epilogue_of(int64_t epilogue)
{
    switch ((enum gpu_epilogue)epilogue) {
    case GPU_PLAIN:
        break;
    case GPU_BIAS:
        return CUBLASLT_EPILOGUE_BIAS;
    case GPU_GELU:
        return CUBLASLT_EPILOGUE_GELU_AUX;
    case GPU_GELU_BIAS:
        return CUBLASLT_EPILOGUE_GELU_AUX_BIAS;
    case GPU_GELU_SLOPE:
        return CUBLASLT_EPILOGUE_DGELU;
    case GPU_BIAS_GRADIENT: /* our b is the library's first matrix */
        return CUBLASLT_EPILOGUE_BGRADA;
    }
    return CUBLASLT_EPILOGUE_DEFAULT;
}

static bool has_aux(const struct shape *s)
{
    return s->key.epilogue == GPU_GELU || s->key.epilogue == GPU_GELU_BIAS || s->key.epilogue == GPU_GELU_SLOPE;
}

/* The ranking takes alignments from the pointers' values and reads nothing there: it is told of the least that calls
 * may have. */
static bool describe_epilogue(struct shape *s, struct error *err)
{
    const uintptr_t least = EPILOGUE_ALIGNMENT;
    const cublasLtEpilogue_t epilogue = epilogue_of(s->key.epilogue);
    const cudaDataType_t bias_type = (cudaDataType_t)s->key.bias_type;
    const bool biased =
        s->key.epilogue == GPU_BIAS || s->key.epilogue == GPU_GELU_BIAS || s->key.epilogue == GPU_BIAS_GRADIENT;
    return (s->key.epilogue == GPU_PLAIN || set(s, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue, err)) &&
           (!biased || (set(s, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &bias_type, sizeof bias_type, err) &&
                        set(s, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &least, sizeof least, err))) &&
           (!biased || s->key.count == 1 ||
            set(s, CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE, &s->key.beside, sizeof s->key.beside, err)) &&
           (!has_aux(s) || (set(s, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &s->key.beside, sizeof s->key.beside, err) &&
                            set(s, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &least, sizeof least, err)));
}

/* The descriptor is the shape's: where the epilogue's operands lie is set for each call. Under the mutex. */
static bool place_epilogue(struct shape *s, const struct gpu_matmul *m, struct error *err)
{
    return (!m->bias || set(s, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &m->bias, sizeof m->bias, err)) &&
           (!m->aux || set(s, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &m->aux, sizeof m->aux, err));
}

static bool describe(struct shape *s, int32_t multiprocessors, struct error *err)
{
    cublasOperation_t left = s->key.left.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
                      right = s->key.right.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    return check(cublasLtMatmulDescCreate(&s->operation, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product",
                 err) &&
           check(cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left),
                 "describing a product", err) &&
           check(cublasLtMatmulDescSetAttribute(s->operation, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right),
                 "describing a product", err) &&
           (multiprocessors == 0 ||
            set(s, CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET, &multiprocessors, sizeof multiprocessors, err)) &&
           make_layout(&s->left, &s->key.left, s->key.count, err) &&
           make_layout(&s->right, &s->key.right, s->key.count, err) &&
           make_layout(&s->out, &s->key.out, s->key.count, err) && describe_epilogue(s, err);
}

/* What is known of the shape from an earlier run. */
static void recall(const struct cuda_matmuls *c, struct shape *s)
{
    struct gpu_choice own;
    cuda_tune_describe(s, &own);
    for (int i = 0; i < c->known_count && c->multiprocessors == 0 && !s->refused && !s->tuned; i++)
        if (memcmp(c->known[i].key, own.key, sizeof own.key) == 0)
            s->tuned = cuda_tune_take(c->handle, s, &c->known[i]);
}

/* What the library cannot describe, or has no algorithm for, is a shape that it does not take. Under the mutex. */
static struct shape *shape_of(struct cuda_matmuls *c, const struct key *key, struct error *err)
{
    for (struct shape *s = c->shapes; s; s = s->next)
        if (memcmp(&s->key, key, sizeof *key) == 0)
            return s;
    struct shape *s = calloc(1, sizeof *s);
    if (!s) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for a shape of matrices");
        return NULL;
    }
    memcpy(&s->key, key, sizeof *key);
    s->refused = !describe(s, c->multiprocessors, &s->declined) || !cuda_tune_first(c->handle, s, &s->declined);
    recall(c, s);
    s->next = c->shapes;
    return c->shapes = s;
}

/* Some shapes are refused when they are to run, before anything is queued. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

static bool goes_apart(const struct shape *s, const struct gpu_matmul *m)
{
    return s->apart && !m->deterministic;
}

/* Queues the product, or finds that the shape is refused or goes apart. */
static bool multiply(struct cuda_matmuls *c, struct shape *s, const struct gpu_matmul *m, bool swapped, void *workspace,
                     void *stream, struct error *err)
{
    const float alpha = (float)m->alpha, beta = m->accumulate ? 1 : 0;
    const struct operands operands = { .left = swapped ? m->a : m->b,
                                       .right = swapped ? m->b : m->a,
                                       .out = m->c,
                                       .workspace = workspace,
                                       .stream = stream,
                                       .accumulate = m->accumulate,
                                       .apart = m->apart,
                                       .apart_context = m->apart_context };
    if (!place_epilogue(s, m, err))
        return false;
    if (!s->tuned && !s->tried && !m->deterministic)
        cuda_tune(c->handle, s, &operands);
    if (goes_apart(s, m))
        return true;
    const cublasStatus_t status = cublasLtMatmul(
        c->handle, s->operation, &alpha, operands.left, s->left, operands.right, s->right, &beta, m->c, s->out, m->c,
        s->out, m->deterministic ? &s->first : &s->algorithm, workspace, WORKSPACE_BYTES, stream);
    s->refused = is_refusal(status);
    return check(status, "a product", s->refused ? &s->declined : err) || s->refused;
}

bool cuda_matmul_run(struct cuda_matmuls *c, struct cuda_workspaces *memory, void *stream, const struct gpu_matmul *m,
                     bool *taken, struct error *declined, struct error *err)
{
    bool swapped;
    const struct key key = key_of(m, &swapped);
    pthread_mutex_lock(&c->mutex);
    struct shape *s = shape_of(c, &key, err);
    bool ok = s != NULL;
    if (ok && !s->refused) {
        void *workspace = cuda_workspace_of(memory, stream, WORKSPACE_BYTES, "matrix products", err);
        ok = workspace && multiply(c, s, m, swapped, workspace, stream, err);
    }
    *taken = ok && !s->refused && !goes_apart(s, m);
    if (ok && s->refused)
        *declined = s->declined;
    else if (ok && !*taken)
        fail_kind(declined, ERROR_ENVIRONMENT, "apart it is faster");
    pthread_mutex_unlock(&c->mutex);
    return ok;
}

/* Tells whether the epilogue's operands lie as the library wants it, and as its ranking was told. That it may read
 * them where it writes its result is nowhere written. */
static bool epilogue_fits(const struct gpu_matmul *m)
{
    return ((uintptr_t)m->aux | (uintptr_t)m->bias) % EPILOGUE_ALIGNMENT == 0 &&
           (!m->aux || (m->aux_m % AUX_LEAD_UNIT == 0 && m->aux != m->c && m->count == 1)) &&
           (!m->bias || m->count == 1 || m->bias_next * type_bytes(m->bias_type) % EPILOGUE_ALIGNMENT == 0);
}

bool cuda_matmul_fuses(struct cuda_matmuls *c, const struct gpu_matmul *m)
{
    bool swapped;
    const struct key key = key_of(m, &swapped);
    if ((swapped && m->epilogue != GPU_PLAIN) || !epilogue_fits(m) || m->count > INT32_MAX ||
        (m->epilogue == GPU_BIAS_GRADIENT && key.left.transposed)) /* a bias follows the lines of c */
        return false;
    pthread_mutex_lock(&c->mutex);
    const struct shape *s = shape_of(c, &key, NULL);
    bool fuses = s && !s->refused && !goes_apart(s, m);
    pthread_mutex_unlock(&c->mutex);
    return fuses;
}

/* ---- what is kept over runs ---- */
static bool knows(const struct cuda_matmuls *c, const struct gpu_choice *choice)
{
    for (int i = 0; i < c->known_count; i++)
        if (memcmp(&c->known[i], choice, sizeof *choice) == 0)
            return true;
    return false;
}

/* Earlier runs of the process may have told the same, and have met the shape. */
bool cuda_matmul_learn(struct cuda_matmuls *c, const struct gpu_choice *choices, int count, struct error *err)
{
    if (count <= 0)
        return true;
    pthread_mutex_lock(&c->mutex);
    struct gpu_choice *known = realloc(c->known, ((size_t)c->known_count + (size_t)count) * sizeof *known);
    if (known) {
        c->known = known;
        for (int i = 0; i < count; i++)
            if (!knows(c, &choices[i]))
                known[c->known_count++] = choices[i];
        for (struct shape *s = c->shapes; s; s = s->next)
            recall(c, s);
    }
    pthread_mutex_unlock(&c->mutex);
    return known || fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d chosen algorithms", count);
}

int cuda_matmul_learned(struct cuda_matmuls *c, struct gpu_choice *out, int most)
{
    int count = 0;
    pthread_mutex_lock(&c->mutex);
    for (const struct shape *s = c->shapes; s && c->multiprocessors == 0 && count < most; s = s->next)
        if (s->tuned)
            cuda_tune_describe(s, &out[count++]);
    pthread_mutex_unlock(&c->mutex);
    return count;
}

/* What is known was found with all of them. */
void cuda_matmul_aim(struct cuda_matmuls *c, int multiprocessors)
{
    pthread_mutex_lock(&c->mutex);
    c->multiprocessors = multiprocessors;
    pthread_mutex_unlock(&c->mutex);
}

/* ---- life ---- */
bool cuda_matmuls_new(struct cuda_matmuls **out, struct error *err)
{
    struct cuda_matmuls *c = calloc(1, sizeof *c);
    if (!c)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for matrix products");
    pthread_mutexattr_t again;
    pthread_mutexattr_init(&again);
    pthread_mutexattr_settype(&again, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&c->mutex, &again);
    pthread_mutexattr_destroy(&again);
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
    if (c->handle)
        cublasLtDestroy(c->handle);
    pthread_mutex_destroy(&c->mutex);
    free(c->known);
    free(c);
}
