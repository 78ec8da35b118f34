#include "tests/cuda_double.h"
#include "executor/gpu/cuda_kernels.h"
#include <stdlib.h>
#include <string.h>

struct cuda_double cuda_double;

void cuda_double_reset(void)
{
    cuda_double = (struct cuda_double){
        .device_count = cuda_double.device_count + 1, .free_bytes = 1 << 30, .algorithms = 1, .algorithm_ms = { 1 }
    };
}

static cudaError_t result(cudaError_t error)
{
    if (error != cudaSuccess)
        cuda_double.last = error;
    return error;
}

/* ---- memory: each block is behind its size ---- */
enum { HEADER_BYTES = 256 };

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    unsigned char *block;
    cuda_double.asked = bytes;
    if (bytes > cuda_double.free_bytes ||
        !(block = aligned_alloc(HEADER_BYTES, HEADER_BYTES * (bytes / HEADER_BYTES + 2))))
        return result(cudaErrorMemoryAllocation);
    memcpy(block, &bytes, sizeof bytes);
    memset(block + HEADER_BYTES, 0xff, bytes);
    cuda_double.free_bytes -= bytes, cuda_double.allocated += bytes;
    if (cuda_double.allocated > cuda_double.most_allocated)
        cuda_double.most_allocated = cuda_double.allocated;
    *out = block + HEADER_BYTES;
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    size_t bytes = 0;
    if (!memory)
        return cudaSuccess;
    memcpy(&bytes, (unsigned char *)memory - HEADER_BYTES, sizeof bytes);
    cuda_double.free_bytes += bytes, cuda_double.allocated -= bytes, cuda_double.frees++;
    free((unsigned char *)memory - HEADER_BYTES);
    return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    return (*out = malloc(bytes)) ? cudaSuccess : result(cudaErrorMemoryAllocation);
}

cudaError_t cudaFreeHost(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    *available = cuda_double.free_bytes, *total = cuda_double.free_bytes + cuda_double.allocated;
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    (void)kind, (void)stream;
    memcpy(to, from, bytes);
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t bytes, cudaStream_t stream)
{
    (void)stream;
    memset(to, byte, bytes);
    cuda_double.filled += bytes;
    return cudaSuccess;
}

/* ---- the device, its streams and events ---- */
cudaError_t cudaGetDeviceCount(int *count)
{
    *count = cuda_double.device_count;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    return device < cuda_double.device_count ? cudaSuccess : result(cudaErrorInvalidDevice);
}

cudaError_t cudaGetDevice(int *device)
{
    *device = 0;
    return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    (void)device;
    *value = attribute == cudaDevAttrL2CacheSize           ? cuda_double.cache_bytes
             : attribute == cudaDevAttrMultiProcessorCount ? DOUBLE_MULTIPROCESSORS
                                                           : 0;
    return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device)
{
    (void)device;
    *out = (struct cudaDeviceProp){
        .name = "double", .totalGlobalMem = 1 << 30, .l2CacheSize = DOUBLE_CACHE_BYTES, .multiProcessorCount = 1
    };
    return cudaSuccess;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
    *least = 0, *greatest = DOUBLE_GREATEST_PRIORITY;
    return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *out, unsigned flags, int priority)
{
    (void)flags;
    cuda_double.priority = priority;
    *out = malloc(1);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    free(stream);
    return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    (void)stream;
    return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    *out = calloc(1, sizeof(double));
    return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    cuda_double.event_flags = flags;
    return cudaEventCreate(out);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    free(event);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    (void)stream;
    *(double *)(void *)event = cuda_double.now_ms;
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    (void)event;
    return result(cuda_double.busy ? cudaErrorNotReady : cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    (void)event;
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
    *ms = (float)(*(double *)(void *)to - *(double *)(void *)from);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    cudaError_t last = cuda_double.last;
    cuda_double.last = cudaSuccess;
    return last;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "an error";
}

const char *cudaGetErrorName(cudaError_t error)
{
    return cudaGetErrorString(error);
}

/* It keeps no graphs. */
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    (void)stream, (void)mode;
    return result(cudaErrorNotSupported);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    (void)stream;
    *out = cuda_double.capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
    return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    (void)stream, (void)out;
    return result(cudaErrorNotSupported);
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags)
{
    (void)out, (void)graph, (void)flags;
    return result(cudaErrorNotSupported);
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph)
{
    (void)graph;
    return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
    (void)graph, (void)stream;
    return result(cudaErrorNotSupported);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graph)
{
    (void)graph;
    return cudaSuccess;
}

/* ---- kernels ---- */
int cuda_hold(const int32_t *gate, int32_t number, int64_t most_ns, void *stream)
{
    (void)gate, (void)number, (void)most_ns, (void)stream;
    cuda_double.holds++;
    return cudaGetLastError();
}

int cuda_load_kernels(int live[GPU_KERNEL_COUNT])
{
    for (int i = 0; i < GPU_KERNEL_COUNT; i++)
        live[i] = 1;
    return cudaSuccess;
}

/* A launch has no result of its own: CUDA tells the thread's last error. */
int cuda_launch(enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work, void *stream)
{
    (void)kernel, (void)teams, (void)work, (void)stream;
    cuda_double.launches++;
    cuda_double.now_ms += cuda_double.kernel_ms;
    return cudaGetLastError();
}

/* ---- cuBLASLt: descriptors are bytes; the first number of an algorithm is its place in the ranking ---- */
const char *cublasLtGetStatusName(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "success" : "failure";
}

static cublasStatus_t make(void *out)
{
    void *bytes = calloc(1, sizeof(cublasLtMatmulDescOpaque_t));
    memcpy(out, &bytes, sizeof bytes);
    return bytes ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

static cublasStatus_t drop(void *descriptor)
{
    free(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    return make(out);
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    return drop(handle);
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out, cublasComputeType_t compute, cudaDataType_t scale)
{
    (void)compute, (void)scale;
    return make(out);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation)
{
    return drop(operation);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t operation, cublasLtMatmulDescAttributes_t which,
                                              const void *value, size_t bytes)
{
    if (which == CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE && bytes == sizeof cuda_double.bias_next)
        memcpy(&cuda_double.bias_next, value, bytes);
    if (which == CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET && bytes == sizeof cuda_double.aimed)
        memcpy(&cuda_double.aimed, value, bytes);
    if (which == CUBLASLT_MATMUL_DESC_EPILOGUE)
        memset(operation, 1, 1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t lead)
{
    (void)type, (void)rows, (void)columns, (void)lead;
    return cuda_double.layout_status == CUBLAS_STATUS_SUCCESS ? make(out) : cuda_double.layout_status;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout)
{
    return drop(layout);
}

cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t which,
                                                const void *value, size_t bytes)
{
    (void)layout, (void)which, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    return make(out);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    return drop(preference);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t which, const void *value,
                                                    size_t bytes)
{
    (void)preference;
    if (which == CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES && bytes == sizeof cuda_double.alignment)
        memcpy(&cuda_double.alignment, value, bytes);
    if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == sizeof cuda_double.schemes)
        memcpy(&cuda_double.schemes, value, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int asked,
                                              cublasLtMatmulHeuristicResult_t *out, int *count)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *count = asked < cuda_double.algorithms ? asked : cuda_double.algorithms;
    for (int i = 0; i < *count; i++)
        out[i] = (cublasLtMatmulHeuristicResult_t){ .algo.data = { (uint64_t)i } };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoInit(cublasLtHandle_t handle, cublasComputeType_t compute, cudaDataType_t scale,
                                      cudaDataType_t a, cudaDataType_t b, cudaDataType_t c, cudaDataType_t d, int id,
                                      cublasLtMatmulAlgo_t *out)
{
    (void)handle, (void)compute, (void)scale, (void)a, (void)b, (void)c, (void)d;
    *out = (cublasLtMatmulAlgo_t){ { (uint64_t)id } };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                       cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
                                       cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algorithm,
                                       cublasLtMatmulHeuristicResult_t *out)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d;
    *out = (cublasLtMatmulHeuristicResult_t){ .algo = *algorithm };
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigSetAttribute(cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which, const void *value,
                                                    size_t bytes)
{
    (void)algorithm, (void)which, (void)value, (void)bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoConfigGetAttribute(const cublasLtMatmulAlgo_t *algorithm,
                                                    cublasLtMatmulAlgoConfigAttributes_t which, void *value,
                                                    size_t bytes, size_t *written)
{
    uint64_t number = which == CUBLASLT_ALGO_CONFIG_ID ? algorithm->data[0] : 0;
    memcpy(value, &number, bytes);
    *written = bytes;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void *alpha, const void *a,
                              cublasLtMatrixLayout_t a_layout, const void *b, cublasLtMatrixLayout_t b_layout,
                              const void *beta, const void *c, cublasLtMatrixLayout_t c_layout, void *d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm, void *workspace,
                              size_t workspace_bytes, cudaStream_t stream)
{
    const int place = (int)algorithm->data[0];
    const bool has_epilogue = *(const unsigned char *)operation != 0;
    (void)handle, (void)alpha, (void)a, (void)a_layout, (void)b, (void)b_layout, (void)c;
    (void)c_layout, (void)d_layout, (void)workspace, (void)workspace_bytes, (void)stream;
    if (cuda_double.product_status != CUBLAS_STATUS_SUCCESS)
        return cuda_double.product_status;
    const double ms = cuda_double.algorithm_ms[place] + (has_epilogue ? cuda_double.epilogue_ms : 0);
    cuda_double.now_ms += ++cuda_double.products % 5 == 0 ? 10 * ms : ms; /* one in five is disturbed */
    if (cuda_double.run_count < DOUBLE_MOST_RUNS)
        cuda_double.run[cuda_double.run_count++] =
            (struct double_run){ .algorithm = place, .beta = *(const float *)beta, .out = d };
    return CUBLAS_STATUS_SUCCESS;
}
