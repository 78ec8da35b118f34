/* The weights of all ranks, on their way into a Hugging Face checkpoint. */
#ifndef CLEAVE_EXECUTOR_HF_EXPORT_H
#define CLEAVE_EXECUTOR_HF_EXPORT_H
#include "base/error.h"

struct rank;
/* Called by the issuing threads of all ranks after the same step, as run_options.hf_export says. Rank 0 hears what the
 * others have, so that it alone writes. Weights of 16 bits come from what they are rounded from. */
bool hf_export_weights(struct rank *rank, struct error *err);
#endif
