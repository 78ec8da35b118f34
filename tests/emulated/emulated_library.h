/* What libraries compute on a real GPU, on an emulated one by kernels of ours: matrix products with what follows them,
 * attention. They refuse what a library would not take. The calls of struct gpu; self: its own. */
#ifndef CLEAVE_TESTS_EMULATED_LIBRARY_H
#define CLEAVE_TESTS_EMULATED_LIBRARY_H
#include "executor/gpu/gpu.h"

bool emulated_matmul(void *self, void *stream, const struct gpu_matmul *m, bool *taken, struct error *declined,
                     struct error *err);
bool emulated_fuses(void *self, const struct gpu_matmul *m);
bool emulated_attend(void *self, void *stream, const struct gpu_attention *a, bool *taken, struct error *declined,
                     struct error *err);

/* What these stand on, in emulated.c: a kernel on the stream, and memory that is kept until the GPU is closed, since
 * tasks that were queued may run at any time. */
bool emulated_launch(void *self, void *stream, enum gpu_kernel kernel, int64_t teams, const struct gpu_work *work,
                     struct error *err);
void *emulated_keep(void *self, size_t bytes);
#endif
