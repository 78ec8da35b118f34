/* Training by the Trainer of Hugging Face's transformers: the script that launches of DeepSpeed and accelerate run, and
 * the arguments by which it is told what these do not know. */
#ifndef CLEAVE_TARGETS_TRAINER_H
#define CLEAVE_TARGETS_TRAINER_H
#include "targets/settings.h"
#include "targets/target.h"

/* train.py: trains a model of a configuration on random tokens, for so many steps as it is told. */
void trainer_script(struct text *out, const struct launch *launch, const struct launch_context *context);
/* "train.py --per_device_train_batch_size 1 ...", on lines of their own behind a backslash; ends without a line break.
 * checkpoints: whether it computes blocks again by itself. */
void trainer_arguments(struct text *out, const struct launch *launch, bool checkpoints);

struct trainer_said {
    int64_t micro, accumulation; /* 1 each where nobody says it: the Trainer's own are 8 and 1 */
    bool micro_said, accumulation_said, sequence_said, clip_said, recompute_said, recompute;
    int64_t sequence;
    double clip;
    struct optimizer optimizer;
};
/* The same arguments of whoever gives them, and likewise named ones of other scripts. */
bool trainer_read(struct trainer_said *out, struct settings *settings, struct error *err);
/* What it computes in, by bf16 and fp16 of the Trainer, of axolotl, which chooses by the device where nobody says it, and
 * of LLaMA-Factory, or else by accelerate's mixed_precision; *overruled: that says another. */
bool trainer_read_precision(struct launch_read *out, bool *overruled, struct settings *settings, struct error *err);
/* Puts what axolotl makes of its "bf16: auto" on the device (NULL: one that is not known) in that setting's place. */
void trainer_resolve_auto(const struct settings *settings, struct setting *one, const char *device);
/* Takes accelerate's distributed_type, which is to be `own`; of `other` it says which target reads it. *alone: whether
 * it is one that shards nothing; NULL: that is refused. */
bool trainer_read_type(struct settings *settings, const char *own, const char *other, const char *target, bool *alone,
                       struct error *err);
/* Nodes times processes of torchrun, accelerate, deepspeed and Slurm; 0: nobody says it. */
bool trainer_read_devices(int64_t *out, struct settings *settings, struct error *err);
/* Of what nobody took, and before what is ignored: refuses batches and lengths where no other is said, and degrees, by
 * names that are not read; degrees: those that are. Notes the first setting that says that adapters are trained. */
bool trainer_refuse_left(struct launch_read *out, struct settings *settings, const char *degrees, struct error *err);
/* Fails, with the place, where a launch trains by preferences, rewards or a teacher: "stage: dpo" of LLaMA-Factory,
 * "rl: dpo" of axolotl, `trl dpo`, dpo.py. */
bool trainer_refuse_methods(const struct settings *settings, struct error *err);
#define TRAINER_METHODS                                                                                                \
    "cleave prices pre-training and supervised fine-tuning; training by preferences, rewards or a teacher runs "       \
    "further models, or pairs and groups of sequences"
/* What a launch's README says of adapters, where they alone are trained. */
void trainer_readme(struct text *out, const struct launch_context *context);
/* Makes settings of key=value behind a word that names a file in YAML. */
bool trainer_split_words(struct settings *settings, struct error *err);
/* Whether a trainer's settings name neither DeepSpeed nor FSDP: each rank has all weights (DistributedDataParallel). */
bool trainer_shards_nothing(const struct settings *settings);
/* Whether the value is a number above the least, or one that the script does not say. */
bool trainer_is_above(const struct setting *one, double least);
/* Notes the first setting that says that adapters are trained, and which they are. */
bool trainer_note_adapters(struct launch_read *out, struct settings *settings, struct error *err);
/* Whether it is a configuration of LLaMA-Factory, by words that stand together nowhere else. */
bool trainer_names_llama_factory(const struct settings *settings);
/* What a command line starts to train: the last script or module in front of the batch of a step, or the command of
 * trl. NULL: there is none. */
const struct setting *trainer_program(const struct settings *settings);
/* Says how long the sequences of the trainer are that the launch is for, where it is one that is known. */
void trainer_usual_length(struct launch_read *out, const struct settings *settings);
/* Where the Trainer, or accelerate's launcher, is told to use DeepSpeed; NULL: nowhere. */
const struct setting *trainer_says_deepspeed(const struct settings *settings);
/* Whether a command line, or a configuration of a trainer, has to do with DeepSpeed: what starts it, its settings, or
 * those of accelerate for it. */
bool trainer_names_deepspeed(const struct settings *settings);
/* Takes what has no effect on time and memory; returns how many. */
int trainer_take_ignored(struct settings *settings);
/* Their rules of models: what AutoModelForCausalLM builds of the configuration is what was planned. */
#define TRAINER_RULES_OF_MODELS                                                                                        \
    LAUNCH_RULE_CAUSAL("transformers/models/auto/modeling_auto.py, MODEL_FOR_CAUSAL_LM_MAPPING_NAMES"),                \
        { "model",                                                                                                     \
          "the model predicts one token: its further blocks are left out there (cleave import without --mtp)",         \
          "transformers/models/deepseek_v3/modeling_deepseek_v3.py, _keys_to_ignore_on_load_unexpected",               \
          trainer_one_token, NULL },                                                                                   \
        { "model", "all weights are trained, or adapters alone that are alike in all blocks",                          \
          "peft/tuners/lora/config.py, LoraConfig", trainer_adapters_are_alike, NULL },                                \
    {                                                                                                                  \
        "quantized",                                                                                                   \
            "quantized matrices are none of experts, and go without tensor parallelism, integers without ZeRO 3",      \
            "bitsandbytes/nn/modules.py, Params4bit and Int8Params", trainer_quantized_is_known, NULL                  \
    }
/* Rules of whatever runs by it: what its models, and the layers of transformers, can be told. */
bool trainer_no_pipeline(const struct launch *launch, const struct launch_context *context);
bool trainer_no_experts(const struct launch *launch, const struct launch_context *context);
/* Models of transformers leave out the blocks that predict further tokens. */
bool trainer_one_token(const struct launch *launch, const struct launch_context *context);
/* All weights are trained, or adapters alone that a LoraConfig of PEFT describes. */
bool trainer_adapters_are_alike(const struct launch *launch, const struct launch_context *context);
/* bitsandbytes stores 4 bits in numbers that ranks can share out; integers are none. */
bool trainer_quantized_is_known(const struct launch *launch, const struct launch_context *context);
/* Functions that share out the sequence stand in for fused attention alone. */
bool trainer_attention_is_fused(const struct launch *launch, const struct launch_context *context);
/* Narrows the space to what that rule leaves. */
void trainer_allow_context(struct space *space, const struct graph *graph);
bool trainer_no_sequence_parallel(const struct launch *launch, const struct launch_context *context);
bool trainer_recompute_is_known(const struct launch *launch, const struct launch_context *context);
bool trainer_kv_heads_divide(const struct launch *launch, const struct launch_context *context);
/* Optimizers that train with FSDP2, as the Trainer's --optim has them. */
bool trainer_optimizer_is_known(const struct launch *launch, const struct launch_context *context);
bool trainer_dtype_is_known(const struct launch *launch, const struct launch_context *context);
#endif
