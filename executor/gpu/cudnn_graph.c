/* The graphs are those for which cuDNN has fused engines; an operation more, less or in another order and it has none.
 *
 * forward:  S = scale Q K^T, masked; m = max S; e = exp(S - m); s = sum e; LSE = m + log s; O = (e / s) V
 * backward: r = sum dO O; P = exp(scale Q K^T - LSE), masked; dV = P^T dO; dP = dO V^T; dS = (dP - r) P scale;
 *           dK = dS^T Q; dQ = dS K
 *
 * P and dS are rounded to bf16 before they are multiplied. Where heads share keys, gradients of keys are made for each
 * head and summed. */
#include "executor/gpu/cudnn_graph.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { OLDEST_VERSION = 91100, FIRST_VIRTUAL_TENSOR = 1000 };
/* Going back, older versions need a mask behind keys that end within a tile (cudnn-frontend, issue 160: NaN). */
enum { FIRST_WITH_ANY_KEYS_BACKWARD = 91501, KEYS_OF_A_TILE = 128 };
static const cudnnDataType_t HALF = CUDNN_DATA_BFLOAT16, FULL = CUDNN_DATA_FLOAT, INDEX = CUDNN_DATA_INT32,
                             BOOL = CUDNN_DATA_BOOLEAN;
typedef cudnnBackendDescriptor_t descriptor;

/* ---- the library ---- */
static bool find(void *module, const char *name, void *function, struct error *err)
{
    void *symbol = dlsym(module, name);
    if (!symbol)
        return fail_kind(err, ERROR_ENVIRONMENT, "cuDNN: libcudnn.so.9 lacks %s", name);
    memcpy(function, &symbol, sizeof symbol); /* ISO C has no conversion to function pointers */
    return true;
}

bool cudnn_library_open(struct cudnn_library *out, struct error *err)
{
    struct cudnn_library l = { .module = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_LOCAL) };
    size_t (*version)(void) = NULL;
    if (!l.module)
        return fail_kind(err, ERROR_ENVIRONMENT, "cuDNN: %s", dlerror());
    bool ok = find(l.module, "cudnnGetVersion", &version, err) && find(l.module, "cudnnCreate", &l.create, err) &&
              find(l.module, "cudnnDestroy", &l.destroy, err) && find(l.module, "cudnnSetStream", &l.set_stream, err) &&
              find(l.module, "cudnnBackendCreateDescriptor", &l.create_descriptor, err) &&
              find(l.module, "cudnnBackendDestroyDescriptor", &l.destroy_descriptor, err) &&
              find(l.module, "cudnnBackendFinalize", &l.finalize, err) &&
              find(l.module, "cudnnBackendSetAttribute", &l.set, err) &&
              find(l.module, "cudnnBackendGetAttribute", &l.get, err) &&
              find(l.module, "cudnnBackendExecute", &l.execute, err) &&
              find(l.module, "cudnnGetErrorString", &l.error_name, err) &&
              find(l.module, "cudnnGetLastErrorString", &l.last_error, err);
    if (ok && (l.version = version()) < OLDEST_VERSION)
        ok = fail_kind(err, ERROR_ENVIRONMENT, "cuDNN: version %zu is older than %d, the first whose graphs are used",
                       l.version, (int)OLDEST_VERSION);
    if (ok)
        *out = l;
    else
        cudnn_library_close(&l);
    return ok;
}

void cudnn_library_close(struct cudnn_library *library)
{
    if (library->module)
        dlclose(library->module);
    *library = (struct cudnn_library){ 0 };
}

/* ---- descriptors ---- */
/* Later calls do nothing once one has failed. */
static bool note(struct cudnn_graph *g, cudnnStatus_t status, const char *what)
{
    if (g->status == CUDNN_STATUS_SUCCESS && status != CUDNN_STATUS_SUCCESS) {
        char last[160] = "";
        g->library->last_error(last, sizeof last);
        g->status = status;
        snprintf(g->failure, sizeof g->failure, "%s: %s; %s", what, g->library->error_name(status), last);
    }
    return g->status == CUDNN_STATUS_SUCCESS;
}

static descriptor make(struct cudnn_graph *g, cudnnBackendDescriptorType_t type)
{
    descriptor d = NULL;
    if (g->status != CUDNN_STATUS_SUCCESS)
        return NULL;
    if (g->count == GRAPH_DESCRIPTORS) {
        note(g, CUDNN_STATUS_INTERNAL_ERROR, "more descriptors than any graph here has");
        return NULL;
    }
    if (note(g, g->library->create_descriptor(type, &d), "creating a descriptor"))
        g->all[g->count++] = d;
    return d;
}

static void set(struct cudnn_graph *g, descriptor d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t count, const void *elements)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        note(g, g->library->set(d, name, type, count, elements), "setting an attribute");
}

static void set_part(struct cudnn_graph *g, descriptor d, cudnnBackendAttributeName_t name, descriptor part)
{
    set(g, d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &part);
}

static descriptor finish(struct cudnn_graph *g, descriptor d)
{
    if (g->status == CUDNN_STATUS_SUCCESS)
        note(g, g->library->finalize(d), "finalizing a descriptor");
    return d;
}

/* ---- tensors ---- */
/* (batch, head, line, column), the order of cuDNN's extents and strides. */
struct tensor_shape {
    int64_t extent[4], stride[4];
};

static descriptor tensor(struct cudnn_graph *g, int64_t number, cudnnDataType_t type, const struct tensor_shape *shape,
                         bool by_value)
{
    descriptor d = make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    const int64_t alignment = 16;
    const bool is_virtual = number >= FIRST_VIRTUAL_TENSOR;
    set(g, d, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
    set(g, d, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, shape->extent);
    set(g, d, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, shape->stride);
    set(g, d, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &number);
    set(g, d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &alignment);
    set(g, d, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &is_virtual);
    if (by_value)
        set(g, d, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &by_value);
    return finish(g, d);
}

static descriptor between(struct cudnn_graph *g, cudnnDataType_t type, const struct tensor_shape *shape)
{
    return tensor(g, FIRST_VIRTUAL_TENSOR + g->count, type, shape, false);
}

static descriptor scalar(struct cudnn_graph *g, enum attention_tensor number)
{
    static const struct tensor_shape one = { { 1, 1, 1, 1 }, { 1, 1, 1, 1 } };
    return tensor(g, number, FULL, &one, true);
}

static struct tensor_shape dense(int64_t batches, int64_t heads, int64_t lines, int64_t columns)
{
    return (struct tensor_shape){ { batches, heads, lines, columns },
                                  { heads * lines * columns, lines * columns, columns, 1 } };
}

static struct tensor_shape strided(const struct attention_shape *s, int64_t heads, int64_t lines,
                                   const int64_t strides[3])
{
    return (struct tensor_shape){ { s->batches, heads, lines, s->width }, { strides[0], strides[2], strides[1], 1 } };
}

static struct tensor_shape transposed(const struct tensor_shape *s)
{
    return (struct tensor_shape){ { s->extent[0], s->extent[1], s->extent[3], s->extent[2] },
                                  { s->stride[0], s->stride[1], s->stride[3], s->stride[2] } };
}

/* ---- operations ---- */
static void add(struct cudnn_graph *g, descriptor operation)
{
    if (g->operation_count == GRAPH_OPERATIONS)
        note(g, CUDNN_STATUS_INTERNAL_ERROR, "more operations than any graph here has");
    else
        g->operations[g->operation_count++] = finish(g, operation);
}

/* y = mode(x, b), for a choice: t ? x : b. axis: of indices, else -1. */
struct pointwise {
    cudnnPointwiseMode_t mode;
    cudnnDataType_t type; /* computed in */
    descriptor x, b, t, y;
    int64_t axis;
};

static void pointwise(struct cudnn_graph *g, const struct pointwise *p)
{
    descriptor how = make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    set(g, how, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &p->mode);
    set(g, how, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &p->type);
    if (p->axis > 0)
        set(g, how, CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, 1, &p->axis);
    finish(g, how);
    descriptor o = make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, p->x);
    if (p->b)
        set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, p->b);
    if (p->t)
        set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, p->t);
    set_part(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, p->y);
    add(g, o);
}

/* The result, a new fp32 tensor of the shape. */
static descriptor compute(struct cudnn_graph *g, cudnnPointwiseMode_t mode, descriptor x, descriptor b,
                          const struct tensor_shape *shape)
{
    descriptor y = between(g, FULL, shape);
    pointwise(g, &(struct pointwise){ mode, FULL, x, b, NULL, y, 0 });
    return y;
}

static void reduce(struct cudnn_graph *g, cudnnReduceTensorOp_t how, descriptor x, descriptor y)
{
    descriptor d = make(g, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, 1, &how);
    set(g, d, CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &FULL);
    finish(g, d);
    descriptor o = make(g, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_DESC, d);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    set_part(g, o, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    add(g, o);
}

static void multiply(struct cudnn_graph *g, descriptor a, descriptor b, descriptor c)
{
    descriptor d = make(g, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    set(g, d, CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &FULL);
    finish(g, d);
    descriptor o = make(g, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_DESC, d);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    set_part(g, o, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    add(g, o);
}

static descriptor reshape(struct cudnn_graph *g, descriptor x, const struct tensor_shape *shape)
{
    descriptor o = make(g, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR), y = between(g, HALF, shape);
    set_part(g, o, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    set_part(g, o, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    add(g, o);
    return y;
}

/* ---- attention ---- */
struct parts { /* what both directions have */
    struct tensor_shape queries, keys, scores, row;
    descriptor q, k, scale, minus_infinity, lse;
};

static struct parts parts_of(struct cudnn_graph *g, const struct attention_shape *s)
{
    struct parts p = { .queries = strided(s, s->heads, s->rows, s->q),
                       .keys = strided(s, s->kv_heads, s->keys, s->k),
                       .scores = dense(s->batches, s->heads, s->rows, s->keys),
                       .row = dense(s->batches, s->heads, s->rows, 1) };
    struct tensor_shape turned = transposed(&p.keys);
    p.q = tensor(g, ATTENTION_TENSOR_Q, HALF, &p.queries, false);
    p.k = tensor(g, ATTENTION_TENSOR_K, HALF, &turned, false);
    p.lse = tensor(g, ATTENTION_TENSOR_LSE, FULL, &p.row, false);
    p.scale = scalar(g, ATTENTION_TENSOR_SCALE);
    p.minus_infinity = s->causal ? scalar(g, ATTENTION_TENSOR_MINUS_INFINITY) : NULL;
    return p;
}

/* Scores of keys behind the query stay; of those ahead they become minus infinity. */
static descriptor mask(struct cudnn_graph *g, const struct parts *p, descriptor scores, cudnnDataType_t index)
{
    descriptor row = between(g, INDEX, &p->scores), column = between(g, INDEX, &p->scores),
               seen = between(g, BOOL, &p->scores), out = between(g, FULL, &p->scores);
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_GEN_INDEX, index, scores, NULL, NULL, row, 2 });
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_GEN_INDEX, index, scores, NULL, NULL, column, 3 });
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_CMP_GE, BOOL, row, column, NULL, seen, 0 });
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_BINARY_SELECT, FULL, scores, p->minus_infinity, seen, out, 0 });
    return out;
}

static void forward(struct cudnn_graph *g, const struct attention_shape *s)
{
    const struct parts p = parts_of(g, s);
    const struct tensor_shape values = strided(s, s->kv_heads, s->keys, s->v),
                              outs = strided(s, s->heads, s->rows, s->out);
    descriptor v = tensor(g, ATTENTION_TENSOR_V, HALF, &values, false),
               out = tensor(g, ATTENTION_TENSOR_OUT, HALF, &outs, false);
    descriptor raw = between(g, FULL, &p.scores);
    multiply(g, p.q, p.k, raw);
    descriptor scores = compute(g, CUDNN_POINTWISE_MUL, raw, p.scale, &p.scores);
    if (s->causal)
        scores = mask(g, &p, scores, INDEX);
    descriptor max = between(g, FULL, &p.row), sum = between(g, FULL, &p.row);
    reduce(g, CUDNN_REDUCE_TENSOR_MAX, scores, max);
    descriptor below = compute(g, CUDNN_POINTWISE_SUB, scores, max, &p.scores);
    descriptor exponentials = compute(g, CUDNN_POINTWISE_EXP, below, NULL, &p.scores);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, exponentials, sum);
    descriptor logarithm = compute(g, CUDNN_POINTWISE_LOG, sum, NULL, &p.row);
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_ADD, FULL, max, logarithm, NULL, p.lse, 0 });
    descriptor probabilities = between(g, HALF, &p.scores);
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_DIV, FULL, exponentials, sum, NULL, probabilities, 0 });
    multiply(g, probabilities, v, out);
}

/* The gradient of keys or values: P^T dO or dS^T Q, by key head. */
static void key_gradient(struct cudnn_graph *g, const struct attention_shape *s, descriptor scores, descriptor by,
                         enum attention_tensor number, const int64_t strides[3])
{
    const struct tensor_shape shape = strided(s, s->kv_heads, s->keys, strides),
                              each = dense(s->batches, s->heads, s->keys, s->width);
    descriptor out = tensor(g, number, HALF, &shape, false);
    if (s->heads == s->kv_heads) {
        multiply(g, scores, by, out);
        return;
    }
    descriptor by_head = between(g, HALF, &each);
    multiply(g, scores, by, by_head);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, by_head, out);
}

/* r = sum of dO O along the head. */
static descriptor row_sum(struct cudnn_graph *g, const struct attention_shape *s, const struct parts *p,
                          descriptor pull, descriptor out)
{
    const struct tensor_shape product = {
        { s->batches, s->heads, s->rows, s->width },
        { s->heads * s->rows * s->width, s->rows * s->width, s->heads * s->width,
          1 } /* as the engines' pattern has it */
    };
    descriptor both = compute(g, CUDNN_POINTWISE_MUL, pull, out, &product), sum = between(g, FULL, &p->row),
               scaled = tensor(g, ATTENTION_TENSOR_ROW_SUM, FULL, &p->row, false);
    reduce(g, CUDNN_REDUCE_TENSOR_ADD, both, sum);
    pointwise(g,
              &(struct pointwise){ CUDNN_POINTWISE_MUL, FULL, sum, scalar(g, ATTENTION_TENSOR_ONE), NULL, scaled, 0 });
    return scaled;
}

static void query_gradient(struct cudnn_graph *g, const struct attention_shape *s, const struct parts *p,
                           descriptor slopes)
{
    const struct tensor_shape shape = strided(s, s->heads, s->rows, s->q_gradient),
                              sums = dense(s->batches, s->heads, s->rows, s->width);
    descriptor keys = reshape(g, p->k, &p->keys), out = tensor(g, ATTENTION_TENSOR_Q_GRADIENT, HALF, &shape, false);
    if (s->deterministic) {
        multiply(g, slopes, keys, out);
        return;
    }
    descriptor sum = tensor(g, ATTENTION_TENSOR_Q_SUM, FULL, &sums, false);
    multiply(g, slopes, keys, sum);
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_IDENTITY, FULL, sum, NULL, NULL, out, 0 });
}

static void backward(struct cudnn_graph *g, const struct attention_shape *s)
{
    const struct parts p = parts_of(g, s);
    const struct tensor_shape outs = strided(s, s->heads, s->rows, s->out),
                              pulls = strided(s, s->heads, s->rows, s->out_gradient),
                              values = strided(s, s->kv_heads, s->keys, s->v), values_turned = transposed(&values),
                              scores_turned = { { s->batches, s->heads, s->keys, s->rows },
                                                { s->heads * s->rows * s->keys, s->rows * s->keys, 1, s->keys } };
    descriptor v = tensor(g, ATTENTION_TENSOR_V, HALF, &values_turned, false),
               out = tensor(g, ATTENTION_TENSOR_OUT, HALF, &outs, false),
               pull = tensor(g, ATTENTION_TENSOR_OUT_GRADIENT, HALF, &pulls, false);
    descriptor rows = row_sum(g, s, &p, pull, out), raw = between(g, FULL, &p.scores);
    multiply(g, p.q, p.k, raw);
    descriptor scores = compute(g, CUDNN_POINTWISE_MUL, raw, p.scale, &p.scores);
    scores = compute(g, CUDNN_POINTWISE_SUB, scores, p.lse, &p.scores);
    if (s->causal) /* after the subtraction: minus infinity stays what it is */
        scores = mask(g, &p, scores, FULL);
    descriptor probabilities = compute(g, CUDNN_POINTWISE_EXP, scores, NULL, &p.scores);
    key_gradient(g, s, reshape(g, probabilities, &scores_turned), pull, ATTENTION_TENSOR_V_GRADIENT, s->v_gradient);
    descriptor rates = between(g, FULL, &p.scores), slopes = between(g, HALF, &p.scores);
    multiply(g, pull, v, rates);
    descriptor away = compute(g, CUDNN_POINTWISE_SUB, rates, rows, &p.scores),
               weighted = compute(g, CUDNN_POINTWISE_MUL, away, probabilities, &p.scores);
    pointwise(g, &(struct pointwise){ CUDNN_POINTWISE_MUL, FULL, weighted, p.scale, NULL, slopes, 0 });
    key_gradient(g, s, reshape(g, slopes, &scores_turned), p.q, ATTENTION_TENSOR_K_GRADIENT, s->k_gradient);
    query_gradient(g, s, &p, slopes);
}

static bool told(const struct cudnn_graph *g, struct error *err)
{
    return g->status == CUDNN_STATUS_SUCCESS || fail_kind(err, ERROR_ENVIRONMENT, "cuDNN: %s", g->failure);
}

bool cudnn_graph_attention(struct cudnn_graph *g, const struct cudnn_library *library,
                           const struct attention_shape *shape, cudnnHandle_t handle, struct error *err)
{
    *g = (struct cudnn_graph){ .library = library, .deterministic = shape->deterministic };
    if (shape->backward && shape->keys % KEYS_OF_A_TILE != 0 && library->version < FIRST_WITH_ANY_KEYS_BACKWARD)
        return fail_kind(err, ERROR_ENVIRONMENT,
                         "cuDNN: version %zu is older than %d, the first whose gradients hold for any number of keys",
                         library->version, (int)FIRST_WITH_ANY_KEYS_BACKWARD);
    if (shape->backward)
        backward(g, shape);
    else
        forward(g, shape);
    g->graph = make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
    if (handle)
        set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    set(g, g->graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->operation_count, g->operations);
    finish(g, g->graph);
    return told(g, err);
}

/* What the engine of a configuration says of itself; one that says nothing is not taken. */
static bool repeats_bits(const struct cudnn_library *l, descriptor configuration)
{
    cudnnBackendNumericalNote_t notes[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
    descriptor engine = NULL;
    int64_t count = 0;
    bool ok = l->create_descriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR, &engine) == CUDNN_STATUS_SUCCESS &&
              l->get(configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, &engine) ==
                  CUDNN_STATUS_SUCCESS &&
              l->get(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &count, notes) == CUDNN_STATUS_SUCCESS;
    for (int64_t i = 0; ok && i < count && i < CUDNN_NUMERICAL_NOTE_TYPE_COUNT; i++)
        ok = notes[i] != CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
    if (engine)
        l->destroy_descriptor(engine);
    return ok;
}

/* Returns how many stay, in their order. */
static int keep_repeatable(const struct cudnn_graph *g, descriptor engines[GRAPH_ENGINES], int count)
{
    int kept = 0;
    for (int i = 0; i < count; i++)
        if (repeats_bits(g->library, engines[i]))
            engines[kept++] = engines[i];
    return kept;
}

bool cudnn_graph_engines(struct cudnn_graph *g, const struct cudnn_target *target, descriptor engines[GRAPH_ENGINES],
                         int *count, struct error *err)
{
    const cudnnBackendHeurMode_t mode = CUDNN_HEUR_MODE_A;
    descriptor properties = NULL;
    if (!target->handle) {
        properties = make(g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
        set(g, properties, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
            (int64_t)strlen(target->properties_json) + 1, target->properties_json);
        finish(g, properties);
    }
    descriptor heuristics = make(g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
    set_part(g, heuristics, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, g->graph);
    set(g, heuristics, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
    if (properties)
        set_part(g, heuristics, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, properties);
    if (!told(g, err))
        return false;
    *count = 0;
    cudnnStatus_t status = g->library->finalize(heuristics);
    if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED)
        return true;
    int64_t found = 0;
    for (int i = 0; i < GRAPH_ENGINES; i++)
        engines[i] = make(g, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    if (note(g, status, "asking for engines"))
        note(g,
             g->library->get(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, GRAPH_ENGINES,
                             &found, engines),
             "reading the engines");
    *count = found < GRAPH_ENGINES ? (int)found : GRAPH_ENGINES; /* the library says how many there are in all */
    if (!told(g, err))
        return false;
    if (g->deterministic)
        *count = keep_repeatable(g, engines, *count);
    return true;
}

descriptor cudnn_graph_plan(struct cudnn_graph *g, cudnnHandle_t handle, descriptor engine, int64_t *workspace_bytes)
{
    int64_t count = 0;
    descriptor plan = make(g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    set_part(g, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, engine);
    set(g, plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &handle);
    bool ok = g->status == CUDNN_STATUS_SUCCESS && g->library->finalize(plan) == CUDNN_STATUS_SUCCESS &&
              g->library->get(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count,
                              workspace_bytes) == CUDNN_STATUS_SUCCESS;
    return ok ? plan : NULL;
}

void cudnn_graph_free(struct cudnn_graph *g)
{
    while (g->count > 0)
        g->library->destroy_descriptor(g->all[--g->count]);
}
