/* Kernel calls become launches: what the table executor/kernels/primitives.def is to the processor. */
#ifndef CLEAVE_EXECUTOR_GPU_ISSUE_H
#define CLEAVE_EXECUTOR_GPU_ISSUE_H
#include "executor/gpu/gpu.h"
#include "executor/kernels/loops.h"

/* A call whose views lie in device memory; scratch is not used. */
struct gpu_call {
    const struct gpu *gpu;
    void *stream;
    const struct kernel_call *call;
    uint8_t type[ROLE_COUNT][MAX_OPERANDS]; /* enum gpu_type of each operand */
    const void *table;                      /* the segment's gpu_table_fill() in device memory */
    double *parts;     /* device memory, gpu_part_count() of them, or NULL: for sums that several teams share */
    int32_t *overflow; /* device memory, gpu_overflow_counts() of them, or NULL: choices that found no slot are added */
    bool deterministic; /* the same bits every time, also where that is slower */
    /* Is told, each time, what goes another way than a user would think, in one line; NULL: nobody listens. */
    void (*note)(void *context, const char *text);
    void *note_context;
};
int64_t gpu_part_count(const struct gpu *gpu);
/* Numbers for each team of a launch: at most this many on a device. */
int64_t gpu_overflow_counts(const struct gpu *gpu);
/* Queues the call. Fails where the device does. */
bool gpu_issue(const struct gpu_call *call, struct error *err);
/* Tells whether the phase of the kernel has math: as kernel_find(). */
bool gpu_computes(enum kernel kernel, enum phase phase);
/* Names what of a segment, whose kernel it has, it does not compute; NULL: nothing. */
const char *gpu_lacks(const struct segment *segment);

/* Numbers that depend on the segment alone: rotary angles (cosine and sine by position and pair), buckets of relative
 * positions. 0 bytes: it needs none. The same for equal arguments and sizes. */
int64_t gpu_table_bytes(const struct segment *segment);
void gpu_table_fill(const struct segment *segment, void *out);

/* ---- the parts ---- */
bool gpu_issue_matmul(const struct gpu_call *g, enum phase phase, struct error *err);
/* A product, forward or of its input's gradient, and the GELU behind it in that direction as one; *done false: nothing
 * was queued, both are to be issued as usual. Between them only the result of the first may be lost. */
bool gpu_issue_with_gelu(const struct gpu_call *matmul, const struct gpu_call *gelu, bool *done, struct error *err);
/* Products of one phase, forward or of gradients of weights, that read the same input: in one call as many as lie at
 * even distances, with all their operands, and as the library takes. */
enum { GPU_MOST_TOGETHER = 4 };
bool gpu_issue_together(const struct gpu_call *const *calls, int count, struct error *err);
/* A residual sum and the norm of it, forward, as one; *done false: nothing was queued. */
bool gpu_issue_with_norm(const struct gpu_call *residual, const struct gpu_call *norm, bool *done, struct error *err);
/* The gradient of a norm's input, and with it at once, each of which may be NULL: those of the norm's weights; its
 * passing on to the terms of the residual sum that the norm is of; that of this sum's bias. unread: nobody else reads
 * the gradient of the input. done: what was queued; where none is but the first, that was not either. The weights' may
 * be queued apart, before the others. */
enum { GPU_NORM_INPUT, GPU_NORM_WEIGHTS, GPU_NORM_RESIDUAL, GPU_NORM_BIAS, GPU_NORM_CALLS };
bool gpu_issue_norm_backward(const struct gpu_call *const call[GPU_NORM_CALLS], bool unread, bool done[GPU_NORM_CALLS],
                             struct error *err);
/* The maximum over the vocabulary and the sum behind it, as one; *done false: nothing was queued. */
bool gpu_issue_with_sum(const struct gpu_call *max, const struct gpu_call *sum, bool *done, struct error *err);
bool gpu_issue_norm(const struct gpu_call *g, enum phase phase, bool layer, struct error *err);
bool gpu_issue_route(const struct gpu_call *g, enum phase phase, struct error *err);
bool gpu_issue_dispatch(const struct gpu_call *g, enum phase phase, struct error *err);
bool gpu_issue_combine(const struct gpu_call *g, enum phase phase, struct error *err);
bool gpu_issue_attention(const struct gpu_call *g, enum phase phase, struct error *err);

int64_t gpu_type_bytes(int type);
struct spot gpu_spot_of(const struct gpu_call *g, enum role role, int index);
/* The operand, as a launch sees it; its strides are set by the loops. */
struct gpu_spot gpu_operand(const struct gpu_call *g, enum role role, int index);
bool gpu_wanted(const struct gpu_call *g, enum role role, int index);
/* Loops over the axes of `order`: all outer, or the last axis inner. spots: work->spot[0 .. count) */
void gpu_loops(const struct gpu_call *g, struct gpu_work *work, const struct operand *order, int dim_count, bool rows,
               const struct spot *spots, int count);
/* Teams of the kernel that a launch has at most. */
int64_t gpu_most_teams(const struct gpu *gpu, enum gpu_kernel kernel);
/* Starts as many teams as there is work for and the device has use for. */
bool gpu_start(const struct gpu *gpu, void *stream, enum gpu_kernel kernel, const struct gpu_work *work, int64_t teams,
               struct error *err);
/* A thread per point of the loops. */
bool gpu_start_elements(const struct gpu *gpu, void *stream, enum gpu_kernel kernel, const struct gpu_work *work,
                        int64_t elements, struct error *err);
int gpu_kernel_threads(enum gpu_kernel kernel);

/* ---- a launch from a list of operands ---- */
struct gpu_named {
    enum role role;
    int index; /* -1: absent */
};
struct gpu_launch {
    struct gpu_work work;
    struct spot spots[WALK_SPOTS];
    int count;
};
struct gpu_launch gpu_launch_of(const struct gpu_call *g, const struct gpu_named *names, int count);
#define GPU_LAUNCH(g, ...)                                                                                             \
    gpu_launch_of(g, (const struct gpu_named[]){ __VA_ARGS__ },                                                        \
                  (int)(sizeof((const struct gpu_named[]){ __VA_ARGS__ }) / sizeof(struct gpu_named)))
void gpu_launch_add(const struct gpu_call *g, struct gpu_launch *p, enum role role, int index);
/* A team per row of the operand (role, 0). */
bool gpu_rows(const struct gpu_call *g, struct gpu_launch *p, enum gpu_kernel kernel, enum role role,
              struct error *err);
/* A sum for each element that spot 0 has of the operand (role, 0), over all axes that it lacks. */
bool gpu_columns(const struct gpu_call *g, struct gpu_launch *p, enum gpu_kernel kernel, enum role role,
                 struct error *err);

/* Adds the gradient of out[0] over all axes that the weight lacks. */
bool gpu_bias_gradient(const struct gpu_call *g, int index, struct error *err);
#endif
