/* The file of `cleave run --tuned`: which algorithms were found fastest for the shapes of matrix products, so that the
 * next run need not time them again. */
#ifndef CLEAVE_EXECUTOR_GPU_CHOICES_H
#define CLEAVE_EXECUTOR_GPU_CHOICES_H
#include "executor/gpu/gpu.h"
#include "executor/gpu/learned.h"
#include "planner/facts/profile.h"

/* device: description of the one at hand, which must be the file's. name: of the file, for messages. */
bool gpu_choices_read(struct gpu_choices *out, const char *name, const char *text, size_t length, const char *device,
                      struct error *err);
/* The text of such a file; the caller frees it. NULL: no memory. */
char *gpu_choices_write(const struct gpu_choices *choices, const char *device, size_t *length);
void gpu_choices_free(struct gpu_choices *choices); /* of a zeroed one: nothing */

/* What the file knows to the GPU, where there is such a file; and what the GPU knows to the file. */
bool gpu_choices_load(const struct gpu *gpu, const char *path, struct error *err);
bool gpu_choices_save(const struct gpu *gpu, const char *path, struct error *err);

/* Tells the GPU what profiles, and runs before in this process, know of such a device; learned: NULL, there were none.
 */
bool gpu_choices_recall(const struct gpu *gpu, const struct facts *facts, struct gpu_learned *learned,
                        struct error *err);
/* What the GPU knows, for the next run; learned NULL, or no memory: nothing. */
void gpu_choices_keep(const struct gpu *gpu, struct gpu_learned *learned);
#endif
