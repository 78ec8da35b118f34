/* What libraries keep of a device: handles, the algorithm of each shape of products, the plan of each shape of
 * attention. To find these takes seconds, so all ranks and runs of a process share them, and they last as long as it.
 */
#ifndef CLEAVE_EXECUTOR_GPU_CUDA_LIBRARIES_H
#define CLEAVE_EXECUTOR_GPU_CUDA_LIBRARIES_H
#include "base/error.h"

struct cuda_libraries {
    int device;
    struct cuda_matmuls *matmuls;
    struct cuda_attention *attention; /* NULL: there is no library for it */
    struct error no_attention;        /* why */
    struct cuda_libraries *next;
};
/* Those of the device, which is the calling thread's. NULL: err says why. */
const struct cuda_libraries *cuda_libraries_of(int device, struct error *err);
#endif
