/* Names of Megatron-Bridge's settings, by their path behind cfg: which are Megatron-LM's, and which change no price. */
#include "targets/megatron.h"
#include <string.h>

const struct megatron_option *megatron_path_option(const char *path)
{
    static const char *const others[][2] = { { "ddp.overlap_grad_reduce", "comm_overlap.overlap_grad_reduce" },
                                             { "ddp.overlap_param_gather", "comm_overlap.overlap_param_gather" },
                                             { "ddp.bucket_size", "comm_overlap.bucket_size" },
                                             { "optimizer.use_distributed_optimizer", "ddp.use_distributed_optimizer" },
                                             { "dataset.seq_length", "model.seq_length" },
                                             { "dataset.sequence_length", "model.seq_length" },
                                             { "tokenizer.vocab_size", "model.vocab_size" } };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(path, others[i][0]) == 0)
            path = others[i][1];
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (option->path && strcmp(option->path, path) == 0)
            return option;
    return NULL;
}

bool megatron_path_is_idle(const char *path)
{
    static const char *const idle[] = { "train.",
                                        "validation.",
                                        "optimizer.",
                                        "scheduler.",
                                        "dataset.",
                                        "logger.",
                                        "tokenizer.",
                                        "checkpoint.",
                                        "rng.",
                                        "dist.",
                                        "env_vars",
                                        "profiling.",
                                        "peft",
                                        "model.should_pad_vocab",
                                        "model.hidden_dropout",
                                        "model.attention_dropout",
                                        "comm_overlap",
                                        "ddp.check_for_nan_in_grad",
                                        "ddp.average_in_collective",
                                        "model.attention_softmax_in_fp32",
                                        "model.rotary_scaling_factor", /* of YaRN, with those that follow */
                                        "model.original_max_position_embeddings",
                                        "model.beta_fast",
                                        "model.beta_slow",
                                        "model.mscale",
                                        "model.mscale_all_dim",
                                        "rerun_state_machine.",
                                        "model",
                                        "ddp",
                                        "train",
                                        "optimizer" };
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++)
        if (strcmp(path, idle[i]) == 0 || strncmp(path, "model.yarn_", 11) == 0 ||
            (idle[i][strlen(idle[i]) - 1] == '.' && strncmp(path, idle[i], strlen(idle[i])) == 0))
            return true;
    return false;
}

const char *megatron_path_slip(const char *path)
{
    const char *dot = strrchr(path, '.');
    for (const struct megatron_option *option = megatron_options; option->flag && dot && strlen(dot) > 8; option++)
        if (option->path && megatron_is_slip(path, (int)strlen(path), option->path))
            return option->path;
    return NULL;
}
