/* The options of AdamW as each element needs them. */
#ifndef CLEAVE_EXECUTOR_KERNELS_RATES_H
#define CLEAVE_EXECUTOR_KERNELS_RATES_H
#include "executor/kernel.h"
#include "executor/kernels/elements.h"

static inline struct adamw_rates adamw_rates_of(const struct adamw *options)
{
    double correction1 = 1 - pow(options->beta1, (double)options->step),
           correction2 = 1 - pow(options->beta2, (double)options->step);
    return (struct adamw_rates){ .beta1 = (real)options->beta1,
                                 .beta2 = (real)options->beta2,
                                 .rest1 = (real)(1 - options->beta1),
                                 .rest2 = (real)(1 - options->beta2),
                                 .rate = (real)(options->learning_rate / correction1),
                                 .root = (real)(1 / sqrt(correction2)),
                                 .keep = (real)(1 - options->learning_rate * options->weight_decay),
                                 .epsilon = (real)options->epsilon,
                                 .scale = (real)options->gradient_scale };
}
#endif
