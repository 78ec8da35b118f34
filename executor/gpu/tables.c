#include "executor/gpu/issue.h"
#include "executor/kernels/frequency.h"

static int64_t positions_of(const struct segment *segment, const struct operand *operand)
{
    return segment->axes[operand->axis[1]].size;
}

static int64_t rope_half(const struct segment *segment)
{
    int64_t turning = segment->arguments.rope_dim;
    return (turning ? turning : segment->axes[segment->out[0].axis[3]].size) / 2;
}

int64_t gpu_table_bytes(const struct segment *segment)
{
    if (segment->kernel == KERNEL_ROPE)
        return positions_of(segment, &segment->out[0]) * rope_half(segment) * 2 * (int64_t)sizeof(real);
    if (segment->kernel == KERNEL_BIASED_ATTENTION)
        return (positions_of(segment, &segment->in[0]) + positions_of(segment, &segment->in[1]) - 1) *
               (int64_t)sizeof(int32_t);
    return 0;
}

/* Computed in double, so that far positions are exact. */
static void fill_angles(const struct segment *segment, real *out)
{
    int64_t half = rope_half(segment);
    for (int64_t t = 0; t < positions_of(segment, &segment->out[0]); t++)
        for (int64_t pair = 0; pair < half; pair++) {
            double angle = (double)t * rope_frequency(&segment->arguments, pair, half);
            out[2 * (t * half + pair)] = (real)cos(angle);
            out[2 * (t * half + pair) + 1] = (real)sin(angle);
        }
}

static void fill_buckets(const struct segment *segment, int32_t *out)
{
    int64_t queries = positions_of(segment, &segment->in[0]), keys = positions_of(segment, &segment->in[1]);
    for (int64_t i = 0; i < queries + keys - 1; i++)
        out[i] = (int32_t)relative_bucket(&segment->arguments, queries - 1, i);
}

void gpu_table_fill(const struct segment *segment, void *out)
{
    if (segment->kernel == KERNEL_ROPE)
        fill_angles(segment, out);
    else if (segment->kernel == KERNEL_BIASED_ATTENTION)
        fill_buckets(segment, out);
}
