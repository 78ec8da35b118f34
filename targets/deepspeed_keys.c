/* Which of DeepSpeed's keys say nothing that is priced. */
#include "targets/deepspeed.h"
#include "targets/trainer.h"

/* Keys with the values that are priced: what says others is told. Master weights, gradients and states of 16 bits are
 * DeepSpeed's precision_config.py; the rest is its runtime/zero/config.py and offload_config.py. */
#define VALUES(...) (const char *const[]) { __VA_ARGS__, NULL }
static const struct {
    const char *key;
    const char *const *values;
    int from_stage;
} priced[] = {
    { "bf16.bf16_master_weights_and_grads", VALUES("false"), 0 },
    { "bf16.bf16_optimizer_states", VALUES("false"), 0 },
    { "optimizer.type", VALUES("adam", "adamw", "fusedadam", "deepspeedcpuadam"), 0 },
    { "zero_optimization.overlap_comm", VALUES("true"), 1 },
    { "zero_optimization.reduce_scatter", VALUES("true"), 1 },
    { "zero_optimization.allgather_partitions", VALUES("true"), 1 },
    { "zero_optimization.reduce_bucket_size", VALUES("5e8"), 0 },
    { "zero_optimization.allgather_bucket_size", VALUES("5e8"), 0 },
    { "zero_optimization.offload_optimizer.ratio", VALUES("1"), 1 },
    { "zero_optimization.stage3_module_granularity_threshold", VALUES("0"), 3 },
    { "zero_optimization.stage3_param_persistence_threshold", VALUES("<=10000000"), 3 }, /* larger weights stay whole */
};

int deepspeed_take_ignored(struct settings *settings, int zero)
{
    static const char *const ignored[] = { "zero_optimization.overlap_comm",
                                           "zero_optimization.contiguous_gradients",
                                           "zero_optimization.reduce_",
                                           "zero_optimization.allgather_",
                                           "zero_optimization.stage3_",
                                           "zero_optimization.sub_group_size",
                                           "zero_optimization.round_robin",
                                           "zero_optimization.offload_optimizer.",
                                           "zero_optimization.offload_param.",
                                           "zero_optimization.mics_",
                                           "fp16.",
                                           "optimizer.",
                                           "scheduler.",
                                           "wall_clock_breakdown",
                                           "steps_per_print",
                                           "zero_allow_untested_optimizer",
                                           "deepspeed_config.zero3_",
                                           "deepspeed_config.deepspeed_multinode_launcher",
                                           "zero3_",
                                           "use_deepspeed",
                                           "downcast_bf16",
                                           "parallelism_config.",
                                           "tensorboard.",
                                           "wandb.",
                                           "flops_profiler.",
                                           NULL };
    for (size_t i = 0; i < sizeof priced / sizeof *priced; i++)
        if (zero >= priced[i].from_stage)
            settings_keep_unusual(settings, priced[i].key, priced[i].values);
    return settings_take_all(settings, ignored) + trainer_take_ignored(settings);
}
