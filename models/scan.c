/* Work of kernels that carry a state along the sequence. */
#include "base/num.h"
#include "models/graph.h"

static int64_t product(int64_t a, int64_t b)
{
    int64_t result = INT64_MAX;
    mul_i64(&result, a, b);
    return result;
}

static int64_t sum(int64_t a, int64_t b)
{
    int64_t result = INT64_MAX;
    add_i64(&result, a, b);
    return result;
}

/* Of the axes that an operand follows. */
static int64_t points(const struct operand *operand, const int64_t extents[MAX_AXES])
{
    int64_t result = 1;
    for (int dim = 0; dim < MAX_DIMS; dim++)
        if (operand->axis[dim] >= 0)
            result = product(result, extents[operand->axis[dim]]);
    return result;
}

/* Forward per channel and token: a product per tap, the bias, and silu. Backward the same again, its slope, and a
 * product per tap. */
static int64_t conv_flops(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES])
{
    const int64_t taps = 2 * segment->arguments.taps, each[PHASE_COUNT] = { taps + 5, 2 * taps + 9, taps, 0 };
    return product(points(&segment->out[0], extents), each[phase]);
}

/* Nine operations per token, channel and element of its state, as the authors count them
 * (github.com/state-spaces/mamba, issue 110): the step's size into both factors, the state's decay and what is added to
 * it, and the product with C; then D and the gate. */
static int64_t selective_flops(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    return product(points(&segment->out[0], extents), 9 * segment->arguments.state + 6);
}

/* Dao & Gu 2024, section 6, per token in a chunk of Q: C B^T, of each group's state N, and that times x, of each head's
 * width P; what a chunk adds to the state, and what the state gives to each token. */
static int64_t chunk_flops(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    const struct kernel_arguments *a = &segment->arguments;
    const struct operand *x = &segment->in[0], *heads = &segment->in[2];
    int64_t tokens = points(heads, extents), width = extents[x->axis[3]],
            all_heads = segment->axes[heads->axis[2]].size, groups = product(tokens, a->state_groups) / all_heads;
    return sum(product(groups, 2 * a->chunk * a->state), product(tokens, product(width, 2 * a->chunk + 4 * a->state)));
}

/* Yang et al. 2024 (parallelized over the sequence length, section 3.2) and 2025, per token in a chunk of C, key width
 * K, value width V: k k^T and its triangular inverse, that times k and v, q k^T and that times the new values, and
 * three products with the state. */
static int64_t delta_flops(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    const int64_t chunk = segment->arguments.chunk, key = extents[segment->in[0].axis[3]],
                  value = extents[segment->in[2].axis[3]];
    const int64_t each = chunk * (6 * key + 4 * value + chunk / 3);
    return product(points(&segment->out[1], extents), sum(each, 6 * key * value));
}

/* Backward twice as much as forward, and forward again: states and what leads to them are not kept (Gu & Dao 2023,
 * section 3.3.2; the public kernels of the others do alike). Gradients of weights come on the way. */
int64_t scan_flops(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES])
{
    if (segment->kernel == KERNEL_SHORT_CONV)
        return conv_flops(segment, phase, extents);
    int64_t forward = segment->kernel == KERNEL_SELECTIVE_SCAN ? selective_flops(segment, extents)
                      : segment->kernel == KERNEL_CHUNK_SCAN   ? chunk_flops(segment, extents)
                                                               : delta_flops(segment, extents);
    return phase == PHASE_FORWARD ? forward : phase == PHASE_BACKWARD_INPUT ? product(3, forward) : 0;
}
