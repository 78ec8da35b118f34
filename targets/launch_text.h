/* What the files of all targets say alike: what was decided and predicted, and scripts for torchrun and Slurm. */
#ifndef CLEAVE_TARGETS_LAUNCH_TEXT_H
#define CLEAVE_TARGETS_LAUNCH_TEXT_H
#include "targets/target.h"

static inline int64_t launch_devices(const struct launch *launch)
{
    return launch->tensor * launch->context * launch->pipeline * launch->data;
}
/* Micro-batches of a step. */
static inline int64_t launch_micro_batches(const struct launch *launch)
{
    return launch->batch / (launch->micro_batch * launch->data);
}
/* Of the devices, with as many on each as the cluster's nodes have, or the most below that with which all nodes have as
 * many; all on one where the cluster is unknown. */
int64_t launch_nodes(const struct launch *launch, const struct launch_context *context);
int64_t launch_devices_per_node(const struct launch *launch, const struct launch_context *context);
/* Every target's rule: the scripts have one number for all nodes, though torchrun sums up what each one has
 * (torch/distributed/elastic/agent/server/api.py, _assign_worker_ranks). */
bool launch_nodes_are_alike(const struct launch *launch, const struct launch_context *context);
#define LAUNCH_RULE_NODES                                                                                              \
    {                                                                                                                  \
        "nodes", "all nodes have as many devices",                                                                     \
            "the scripts that are written start as many processes on each; torchrun could start others",               \
            launch_nodes_are_alike, NULL                                                                               \
    }
/* The rule that encoders, those with a decoder, classifiers and images break, which have no launch. source: of what the
 * target's script builds. */
#define LAUNCH_RULE_CAUSAL(source)                                                                                     \
    {                                                                                                                  \
        "model", "the model is a causal decoder of tokens, which launches are of (--framework prices others)", source, \
            launch_is_causal, launch_causal_detail                                                                     \
    }
/* A name that a file says, in files that are run: what a shell, Python or YAML might take for more than a word is '_',
 * and what is over 80 bytes is cut off. */
void launch_text_name(struct text *out, const char *name);
/* Of the model, as launch_text_name; instead: where there is none. */
void launch_text_model(struct text *out, const struct launch_context *context, const char *instead);
/* "llama-3-70b on 64 h100-sxm". */
void launch_text_title(struct text *out, const struct launch *launch, const struct launch_context *context);
/* Names the framework by whose facts the step of the context is predicted. */
const char *launch_text_priced_by(const struct target *target, const struct launch_context *context);
/* README: title, release, the decisions, the predicted step and memory by stage. */
void launch_text_readme(struct text *out, const struct target *target, const struct launch *launch,
                        const struct launch_context *context);
/* README: how the measured step corrects later predictions. file: of the launch, with what else the target's reader
 * wants to know the model. */
void launch_text_calibrate(struct text *out, const struct target *target, const struct launch *launch,
                           const struct launch_context *context, const char *file);
/* The command of that alone. log: what the run prints, a file's name. */
void launch_text_calibrate_command(struct text *out, const struct target *target, const struct launch *launch,
                                   const struct launch_context *context, const char *file, const char *log);
/* A batch script that runs ./train.sh once on each node, which finds NODE_RANK, MASTER_ADDR and MASTER_PORT set. */
void launch_text_sbatch(struct text *out, const struct launch *launch, const struct launch_context *context);
/* For several nodes without Slurm: a hostfile, as DeepSpeed's launcher reads it too, which says whose ranks each line
 * has, start.sh, which runs ./train.sh on each of its nodes, and what README.md says of them. One node: nothing. False:
 * no room for them. */
bool launch_text_hosts(struct launch_files *out, const struct launch *launch, const struct launch_context *context);
/* Whether the model's configuration says what the launch does not. Says it in README.md and, a line for each, in words
 * (struct model_left_out). False: out of memory. */
bool launch_text_left_out(struct launch_files *files, struct text *words, const struct target *target,
                          const struct model *model);
/* The beginning of train.sh, up to what is run. */
void launch_text_shell(struct text *out, const struct target *target, const struct launch *launch,
                       const struct launch_context *context);
#endif
