/* Frequencies of rotary positions, on any device. */
#ifndef CLEAVE_EXECUTOR_KERNELS_FREQUENCY_H
#define CLEAVE_EXECUTOR_KERNELS_FREQUENCY_H
#include "models/graph.h"
#include <math.h>

/* Waves that turn less than low times in the original length are slowed by the factor, those that turn more than high
 * times are not; in between a mean of both, linear in the number of turns (Llama 3.1). */
static inline double rope_stretched(double frequency, const struct kernel_arguments *arguments)
{
    if (!(arguments->rope_factor > 0))
        return frequency;
    double turns = arguments->rope_original * frequency / (2 * 3.14159265358979323846);
    double keep = (turns - arguments->rope_low) / (arguments->rope_high - arguments->rope_low);
    keep = keep < 0 ? 0 : keep > 1 ? 1 : keep;
    return (1 - keep) * frequency / arguments->rope_factor + keep * frequency;
}

/* Returns the frequency of one of `half` pairs, in radians per position. */
static inline double rope_frequency(const struct kernel_arguments *arguments, int64_t pair, int64_t half)
{
    return rope_stretched(pow(arguments->rope_base, -(double)pair / (double)half), arguments);
}
#endif
