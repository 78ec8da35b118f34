/* Attention of the CUDA module by cuDNN. A plan belongs to a shape and is made once, or found not to exist. */
#include "executor/gpu/attention_lse.h"
#include "executor/gpu/cuda.h"
#include "executor/gpu/cuda_kernels.h"
#include "executor/gpu/cudnn_graph.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NARROWEST_HEAD = 32, POINTER_ALIGNMENT = 16, PART_ALIGNMENT = 256, COPY_THREADS = 256, MOST_TEAMS = 1024 };

struct plan {
    struct attention_shape shape;
    struct cudnn_graph graph;
    cudnnBackendDescriptor_t plan; /* NULL: cuDNN has none for the shape */
    struct error declined;         /* why it has none */
    int64_t plan_bytes;
    int64_t lse, row_sum, q_sum, own, bytes; /* places in the workspace, and its size */
    struct plan *next;
};
struct cuda_attention {
    struct cudnn_library library;
    cudnnHandle_t handle;
    pthread_mutex_t mutex; /* of all below, and of the handle's stream */
    struct plan *plans;
};

#define VERSION_PARTS(library) (library).version / 10000, (library).version / 100 % 100, (library).version % 100

void cuda_attention_describe(char *out, size_t bytes)
{
    struct cudnn_library library = { 0 };
    struct error error = { 0 };
    if (cudnn_library_open(&library, &error))
        snprintf(out, bytes, "attention in bf16 by cuDNN %zu.%zu.%zu", VERSION_PARTS(library));
    else
        snprintf(out, bytes, GPU_OWN_ATTENTION "%s", error.message);
    cudnn_library_close(&library);
}

/* ---- plans ---- */
static void set_strides(int64_t out[3], const struct gpu_spot *spot)
{
    memcpy(out, spot->stride, 3 * sizeof *out);
}

static struct attention_shape shape_of(const struct gpu_attention *call)
{
    const struct gpu_work *w = call->work;
    struct attention_shape s = { .batches = w->integer[ATTENTION_BATCHES],
                                 .rows = w->integer[ATTENTION_ROWS],
                                 .keys = w->integer[ATTENTION_KEYS],
                                 .heads = w->integer[ATTENTION_HEADS],
                                 .kv_heads = (int64_t)w->number[1],
                                 .width = w->integer[ATTENTION_WIDTH],
                                 .causal = w->integer[ATTENTION_CAUSAL],
                                 .backward = call->backward,
                                 .deterministic = call->deterministic };
    set_strides(s.q, &w->spot[ATTENTION_Q]);
    set_strides(s.k, &w->spot[ATTENTION_K]);
    set_strides(s.v, &w->spot[ATTENTION_V]);
    set_strides(s.out, &w->spot[ATTENTION_OUT]);
    if (!call->backward)
        return s;
    set_strides(s.out_gradient, &w->spot[ATTENTION_OUT_GRADIENT]);
    set_strides(s.q_gradient, &w->spot[ATTENTION_Q_GRADIENT]);
    set_strides(s.k_gradient, &w->spot[ATTENTION_K_GRADIENT]);
    set_strides(s.v_gradient, &w->spot[ATTENTION_V_GRADIENT]);
    return s;
}

static int64_t place(int64_t *end, int64_t bytes)
{
    int64_t at = *end;
    *end += (bytes + PART_ALIGNMENT - 1) / PART_ALIGNMENT * PART_ALIGNMENT;
    return at;
}

static void lay_out(struct plan *p)
{
    const struct attention_shape *s = &p->shape;
    const int64_t row_bytes = s->batches * s->heads * s->rows * (int64_t)sizeof(float);
    p->lse = place(&p->bytes, row_bytes);
    p->row_sum = place(&p->bytes, s->backward ? row_bytes : 0);
    p->q_sum = place(&p->bytes, s->backward && !s->deterministic ? row_bytes * s->width : 0);
    p->own = place(&p->bytes, p->plan_bytes);
}

/* A graph that the library cannot describe, or has no working engine for, is one that it does not take. */
static void find_plan(const struct cuda_attention *c, struct plan *p)
{
    cudnnBackendDescriptor_t engines[GRAPH_ENGINES];
    const struct cudnn_target target = { .handle = c->handle };
    char last[160] = "";
    int count = 0;
    if (!cudnn_graph_attention(&p->graph, &c->library, &p->shape, c->handle, &p->declined) ||
        !cudnn_graph_engines(&p->graph, &target, engines, &count, &p->declined))
        return;
    for (int i = 0; i < count && !p->plan; i++)
        p->plan = cudnn_graph_plan(&p->graph, c->handle, engines[i], &p->plan_bytes);
    if (count == 0)
        fail_kind(&p->declined, ERROR_ENVIRONMENT, "cuDNN %zu.%zu.%zu has no engine for it on this GPU",
                  VERSION_PARTS(c->library));
    else if (!p->plan) {
        c->library.last_error(last, sizeof last);
        fail_kind(&p->declined, ERROR_ENVIRONMENT, "cuDNN %zu.%zu.%zu could prepare none of its %d engines for it: %s",
                  VERSION_PARTS(c->library), count, last);
    }
}

static const struct plan *plan_of(struct cuda_attention *c, const struct attention_shape *shape, struct error *err)
{
    for (const struct plan *p = c->plans; p; p = p->next)
        if (memcmp(&p->shape, shape, sizeof *shape) == 0)
            return p;
    struct plan *p = calloc(1, sizeof *p);
    if (!p) {
        fail_kind(err, ERROR_ENVIRONMENT, "no memory for a plan of attention");
        return NULL;
    }
    p->shape = *shape;
    find_plan(c, p);
    lay_out(p);
    p->next = c->plans;
    return c->plans = p;
}

/* ---- running ---- */
static bool check(const struct cuda_attention *c, cudnnStatus_t status, const char *what, struct error *err)
{
    char last[160] = "";
    if (status == CUDNN_STATUS_SUCCESS)
        return true;
    c->library.last_error(last, sizeof last);
    return fail_kind(err, ERROR_ENVIRONMENT, "cuDNN: %s: %s; %s", what, c->library.error_name(status), last);
}

struct pack {
    int64_t number[ATTENTION_TENSOR_COUNT];
    void *data[ATTENTION_TENSOR_COUNT];
    int64_t count;
};

static void add(struct pack *pack, enum attention_tensor number, void *data)
{
    pack->number[pack->count] = number;
    pack->data[pack->count++] = data;
}

/* scalars: scale, minus infinity, one. */
static struct pack pack_of(const struct gpu_work *w, const struct plan *p, unsigned char *workspace, float scalars[3])
{
    struct pack pack = { .count = 0 };
    add(&pack, ATTENTION_TENSOR_Q, w->spot[ATTENTION_Q].data);
    add(&pack, ATTENTION_TENSOR_K, w->spot[ATTENTION_K].data);
    add(&pack, ATTENTION_TENSOR_V, w->spot[ATTENTION_V].data);
    add(&pack, ATTENTION_TENSOR_OUT, w->spot[ATTENTION_OUT].data);
    add(&pack, ATTENTION_TENSOR_LSE, workspace + p->lse);
    add(&pack, ATTENTION_TENSOR_SCALE, &scalars[0]);
    if (p->shape.causal)
        add(&pack, ATTENTION_TENSOR_MINUS_INFINITY, &scalars[1]);
    if (!p->shape.backward)
        return pack;
    add(&pack, ATTENTION_TENSOR_ONE, &scalars[2]);
    add(&pack, ATTENTION_TENSOR_OUT_GRADIENT, w->spot[ATTENTION_OUT_GRADIENT].data);
    add(&pack, ATTENTION_TENSOR_Q_GRADIENT, w->spot[ATTENTION_Q_GRADIENT].data);
    add(&pack, ATTENTION_TENSOR_K_GRADIENT, w->spot[ATTENTION_K_GRADIENT].data);
    add(&pack, ATTENTION_TENSOR_V_GRADIENT, w->spot[ATTENTION_V_GRADIENT].data);
    add(&pack, ATTENTION_TENSOR_ROW_SUM, workspace + p->row_sum);
    if (!p->shape.deterministic)
        add(&pack, ATTENTION_TENSOR_Q_SUM, workspace + p->q_sum);
    return pack;
}

static bool execute(struct cuda_attention *c, void *stream, const struct plan *p, const struct gpu_work *work,
                    unsigned char *workspace, struct error *err)
{
    const struct cudnn_library *l = &c->library;
    float scalars[3] = { (float)work->number[0], -INFINITY, 1 };
    const struct pack pack = pack_of(work, p, workspace, scalars);
    void *own = workspace + p->own;
    cudnnBackendDescriptor_t d = NULL;
    bool ok =
        check(c, l->set_stream(c->handle, stream), "choosing a stream", err) &&
        check(c, l->create_descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &d), "naming operands", err) &&
        check(c, l->set(d, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, pack.count, pack.number),
              "naming operands", err) &&
        check(c, l->set(d, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pack.count, pack.data),
              "naming operands", err) &&
        check(c, l->set(d, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &own), "naming operands", err) &&
        check(c, l->finalize(d), "naming operands", err) &&
        check(c, l->execute(c->handle, p->plan, d), "attention", err);
    if (d)
        l->destroy_descriptor(d);
    return ok;
}

static bool copy_lse(void *stream, const struct gpu_work *work, void *dense, bool to_dense, struct error *err)
{
    const struct gpu_work copy = attention_lse_copy(work, dense, to_dense);
    int64_t teams = (copy.outer + COPY_THREADS - 1) / COPY_THREADS;
    int result = cuda_launch(GPU_SUM_TERMS, teams < MOST_TEAMS ? teams : MOST_TEAMS, &copy, stream);
    return result == cudaSuccess ||
           fail_kind(err, ERROR_ENVIRONMENT, "CUDA: copying statistics: %s", cudaGetErrorString((cudaError_t)result));
}

static bool aligned(const struct gpu_work *w)
{
    uintptr_t all = 0;
    for (int spot = ATTENTION_Q; spot <= ATTENTION_V_GRADIENT; spot++)
        if (spot != ATTENTION_LSE)
            all |= (uintptr_t)w->spot[spot].data;
    return all % POINTER_ALIGNMENT == 0;
}

bool cuda_attention_run(struct cuda_attention *c, struct cuda_workspaces *memory, void *stream,
                        const struct gpu_attention *call, bool *taken, struct error *declined, struct error *err)
{
    const struct attention_shape shape = shape_of(call);
    *taken = false;
    if (shape.width < NARROWEST_HEAD) { /* of small models: a plan takes longer to make than they take to run */
        fail_kind(declined, ERROR_ENVIRONMENT, "its heads are narrower than %d", (int)NARROWEST_HEAD);
        return true;
    }
    if (!aligned(call->work)) {
        fail_kind(declined, ERROR_ENVIRONMENT, "its operands do not lie at multiples of %d bytes",
                  (int)POINTER_ALIGNMENT);
        return true;
    }
    pthread_mutex_lock(&c->mutex);
    const struct plan *p = plan_of(c, &shape, err);
    bool ok = p != NULL;
    if (ok && p->plan) {
        unsigned char *workspace = cuda_workspace_of(memory, stream, p->bytes, "attention", err);
        ok = workspace && (!call->backward || copy_lse(stream, call->work, workspace + p->lse, true, err)) &&
             execute(c, stream, p, call->work, workspace, err) &&
             (call->backward || copy_lse(stream, call->work, workspace + p->lse, false, err));
        *taken = ok;
    } else if (ok)
        *declined = p->declined;
    pthread_mutex_unlock(&c->mutex);
    return ok;
}

/* ---- life ---- */
bool cuda_attention_new(struct cuda_attention **out, struct error *absent, struct error *err)
{
    struct cuda_attention *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for attention");
    pthread_mutex_init(&c->mutex, NULL);
    if (cudnn_library_open(&c->library, absent) &&
        check(c, c->library.create(&c->handle), "opening the library", absent))
        *out = c;
    else
        cuda_attention_free(c);
    return true;
}

void cuda_attention_free(struct cuda_attention *c)
{
    if (!c)
        return;
    while (c->plans) {
        struct plan *next = c->plans->next;
        cudnn_graph_free(&c->plans->graph);
        free(c->plans);
        c->plans = next;
    }
    if (c->handle)
        c->library.destroy(c->handle);
    cudnn_library_close(&c->library);
    pthread_mutex_destroy(&c->mutex);
    free(c);
}
