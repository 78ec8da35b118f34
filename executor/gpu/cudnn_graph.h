/* Softmax attention as graphs of cuDNN's backend API, of which the library has fused engines: the scores never reach
 * memory. The library is opened when it is asked for. Nothing here needs a GPU: what engines a device would have can be
 * asked of its properties alone. */
#ifndef CLEAVE_EXECUTOR_GPU_CUDNN_GRAPH_H
#define CLEAVE_EXECUTOR_GPU_CUDNN_GRAPH_H
#include "base/error.h"
#include <cudnn.h>
#include <stdbool.h>
#include <stdint.h>

struct cudnn_library {
    void *module;
    size_t version; /* 91900 is 9.19.0 */
    cudnnStatus_t (*create)(cudnnHandle_t *handle);
    cudnnStatus_t (*destroy)(cudnnHandle_t handle);
    cudnnStatus_t (*set_stream)(cudnnHandle_t handle, cudaStream_t stream);
    cudnnStatus_t (*create_descriptor)(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out);
    cudnnStatus_t (*destroy_descriptor)(cudnnBackendDescriptor_t descriptor);
    cudnnStatus_t (*finalize)(cudnnBackendDescriptor_t descriptor);
    cudnnStatus_t (*set)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t count, const void *elements);
    cudnnStatus_t (*get)(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, int64_t asked, int64_t *count, void *elements);
    cudnnStatus_t (*execute)(cudnnHandle_t handle, cudnnBackendDescriptor_t plan, cudnnBackendDescriptor_t pack);
    const char *(*error_name)(cudnnStatus_t status);
    void (*last_error)(char *out, size_t bytes);
};
/* Fails where the library is absent or too old for these graphs; the message says which. */
bool cudnn_library_open(struct cudnn_library *out, struct error *err);
void cudnn_library_close(struct cudnn_library *library); /* of a zeroed one: nothing */

/* All matrices are bf16, (batch, line, head) with the given strides in elements and heads of `width` contiguous ones.
 * Compared as bytes: no padding. */
struct attention_shape {
    int64_t batches, rows, keys, heads, kv_heads, width;
    int64_t q[3], k[3], v[3], out[3];                                     /* strides of a batch, a line, a head */
    int64_t out_gradient[3], q_gradient[3], k_gradient[3], v_gradient[3]; /* backward alone */
    int64_t causal;        /* the query at t sees keys up to t; rows == keys */
    int64_t backward;      /* else forward */
    int64_t deterministic; /* the same bits every time; backward for a workspace of all scores */
};
/* What a graph reads and writes: by these numbers of its tensors. SCALE, MINUS_INFINITY and ONE are floats in the
 * memory of the host. */
enum attention_tensor {
    ATTENTION_TENSOR_Q = 1,
    ATTENTION_TENSOR_K,
    ATTENTION_TENSOR_V,
    ATTENTION_TENSOR_OUT,
    ATTENTION_TENSOR_LSE, /* fp32 (batch, head, row), dense */
    ATTENTION_TENSOR_SCALE,
    ATTENTION_TENSOR_MINUS_INFINITY,
    ATTENTION_TENSOR_OUT_GRADIENT,
    ATTENTION_TENSOR_ONE,
    ATTENTION_TENSOR_Q_GRADIENT,
    ATTENTION_TENSOR_K_GRADIENT,
    ATTENTION_TENSOR_V_GRADIENT,
    ATTENTION_TENSOR_ROW_SUM, /* workspace, fp32 (batch, head, row), dense */
    ATTENTION_TENSOR_Q_SUM,   /* workspace unless deterministic, fp32 (batch, head, row, width), dense; sums are added
                                 there, and from 9.6 on the library clears it first (cudnn-frontend: before that the
                                 caller did) */
    ATTENTION_TENSOR_COUNT
};

enum { GRAPH_DESCRIPTORS = 128, GRAPH_OPERATIONS = 32, GRAPH_ENGINES = 8 };
struct cudnn_graph {
    const struct cudnn_library *library;
    cudnnBackendDescriptor_t all[GRAPH_DESCRIPTORS]; /* what is destroyed with the graph */
    int count;
    cudnnBackendDescriptor_t operations[GRAPH_OPERATIONS];
    int operation_count;
    cudnnBackendDescriptor_t graph;
    bool deterministic;
    cudnnStatus_t status; /* of the first call that failed */
    char failure[256];
};
/* Device: of the heuristics and plans, either a handle or, where there is no GPU, its properties as JSON
 * (tests/test_cudnn_graph.c has examples). */
struct cudnn_target {
    cudnnHandle_t handle;        /* NULL: by properties */
    const char *properties_json; /* used where handle is NULL */
};

/* Describes the graph; out is to be freed in any case. Fails for shapes that the library's version gets wrong. */
bool cudnn_graph_attention(struct cudnn_graph *out, const struct cudnn_library *library,
                           const struct attention_shape *shape, cudnnHandle_t handle, struct error *err);
/* The engines' configurations that the library's heuristics offer, best first; they belong to the graph. false: the
 * library failed; *count 0: it has none for this graph on this device. Of a deterministic shape those alone that do not
 * say otherwise. */
bool cudnn_graph_engines(struct cudnn_graph *graph, const struct cudnn_target *target,
                         cudnnBackendDescriptor_t engines[GRAPH_ENGINES], int *count, struct error *err);
/* A plan from an engine's configuration, and the workspace it needs; NULL: this engine will not do. */
cudnnBackendDescriptor_t cudnn_graph_plan(struct cudnn_graph *graph, cudnnHandle_t handle,
                                          cudnnBackendDescriptor_t engine, int64_t *workspace_bytes);
void cudnn_graph_free(struct cudnn_graph *graph);
#endif
