/* What Slurm says of a job in its environment: how many nodes, and GPUs on each. */
#ifndef CLEAVE_CLI_SLURM_H
#define CLEAVE_CLI_SLURM_H
#include "base/error.h"

struct slurm_job {
    int nodes, gpus_per_node;
    char gpu[64]; /* as the job asked for them, "h100" of --gpus-per-node=h100:8; "": it named none */
};
/* Fails where there is no job, or where it has no GPUs or what it says is no number. */
bool slurm_read(struct slurm_job *out, const char *(*environment)(const char *name), struct error *err);
#endif
