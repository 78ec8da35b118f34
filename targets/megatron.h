/* What Megatron-LM and Megatron-Bridge are told, by either's names: one struct of settings between launches and text.
 * Names, defaults and rules are those of the release (Megatron-Core 0.19: megatron/training/arguments.py,
 * megatron/core/transformer/transformer_config.py, megatron/core/model_parallel_config.py). */
#ifndef CLEAVE_TARGETS_MEGATRON_H
#define CLEAVE_TARGETS_MEGATRON_H
#include "targets/target.h"

enum megatron_kind {
    MEGATRON_INT,
    MEGATRON_NUMBER,
    MEGATRON_FLAG, /* true where it is given */
    MEGATRON_NOT,  /* false where it is given */
    MEGATRON_WORD,
    MEGATRON_WORDS /* several, joined by a blank */
};
/* Settings that somebody left out have their default: sizes 0 and words NULL where nothing follows from it. */
struct megatron_args {
#define MEGATRON_OPTION_INT int64_t
#define MEGATRON_OPTION_NUMBER double
#define MEGATRON_OPTION_FLAG bool
#define MEGATRON_OPTION_NOT bool
#define MEGATRON_OPTION_WORD const char *
#define MEGATRON_OPTION_WORDS const char *
#define OPTION(section, kind, member, flag, path, value) MEGATRON_OPTION_##kind member;
#include "targets/megatron_options.def"
#undef OPTION
};
extern const struct megatron_args megatron_defaults;
#define MEGATRON_UNFUSED "megatron-lm-unfused" /* the facts of attention that keeps its scores */

/* The copy of a weight that the precision-aware optimizer keeps unless it is told another. */
static inline int megatron_kept_master(enum dtype dtype)
{
    return dtype == DTYPE_BF16 || dtype == DTYPE_NVFP4 ? MASTER_REMAINDER : MASTER_KEPT;
}
/* Whether it takes --use-precision-aware-optimizer. */
static inline bool megatron_is_precision_aware(const struct optimizer *optimizer)
{
    return optimizer->moments != MOMENTS_FULL || optimizer->master != MASTER_KEPT;
}

enum megatron_section {
#define SECTION(id, name) SECTION_##id,
#define OPTION(section, kind, member, flag, path, value)
#include "targets/megatron_options.def"
#undef SECTION
#undef OPTION
    SECTION_COUNT
};
extern const char *const megatron_section_names[SECTION_COUNT]; /* "MODEL" */
struct megatron_option {
    enum megatron_section section;
    enum megatron_kind kind;
    const char *flag; /* "--hidden-size" */
    const char *path; /* Megatron-Bridge's, behind cfg: "model.hidden_size"; NULL: it has none */
    size_t offset;
};
extern const struct megatron_option megatron_options[]; /* the last has no flag */
/* Whether it says something that its default does not. */
bool megatron_says(const struct megatron_args *args, const struct megatron_option *option);
/* Adds the value as a shell's word, or as Python writes it. */
void megatron_put_value(struct text *out, const struct megatron_args *args, const struct megatron_option *option,
                        bool python);
/* Sets it from a word; `at` says where the word stands. */
bool megatron_set(struct megatron_args *args, const struct megatron_option *option, struct arena *arena,
                  const char *word, const char *at, struct error *err);

/* Back to its default. */
void megatron_unset(struct megatron_args *args, const struct megatron_option *option);

/* Command line: the words behind a program, or with it. Options that are not understood go to `out`. */
bool megatron_parse(struct megatron_args *args, struct launch_read *out, struct arena *arena, const char *name,
                    const char *const *words, int count, struct error *err);
/* Fails, and names what stands in the script where the option's value is to be. word: the value, or the option with it.
 */
bool megatron_fail_without_value(const char *name, const char *option, const char *word, struct error *err);
/* Options of Megatron-LM that change neither time nor memory to speak of. */
bool megatron_is_idle(const char *flag);

/* How long the name that begins here is, with those of what it is a member of: cfg.model.hidden_size. */
size_t megatron_path_length(const char *p, const char *end);
/* Whether recipes are called so: llama3_70b_pretrain_config, qwen3_8b_sft_config, my_peft_128gpu_config. */
bool megatron_is_recipe_name(const char *name, size_t length);
/* Fails where the text has several recipes that none of it calls: read as one they would be a job that nobody has. */
bool megatron_check_single(const char *name, const char *text, const char *end, struct error *err);
/* Says that there is no recipe, and in which program it may be that a command starts. Returns false. */
bool megatron_fail_recipe(const char *name, const char *text, size_t length, struct error *err);
/* Megatron-Bridge's: a file or a command line of it. */
bool megatron_read_recipe(struct launch_read *out, struct arena *arena, const char *name, const char *text,
                          size_t length, struct error *err);
/* The provider's own specification is one layer without latent attention, repeated: whether the model is another. */
bool megatron_has_specs(const struct megatron_args *args);

/* ---- the model ---- */
/* Settings that describe the model, in the arena. False: something of it has no setting; `why` says what, and has
 * failed where memory was lacking to tell. */
bool megatron_of_model(struct megatron_args *args, struct arena *arena, struct text *why, const struct model *model);
/* The model that the settings describe; NULL: they lack its sizes, which is no failure unless err is filled. */
struct model *megatron_model(const struct megatron_args *args, const char *name, struct error *err);
struct json_field;
/* Whether the field is the same in both fields of a layer. */
bool megatron_same_field(const struct json_field *field, const void *a, const void *b);
/* Blocks of a model that the arguments describe, without those that predict further tokens. */
int64_t megatron_blocks(const struct model *model);

/* ---- patterns of layers ---- */
enum { MEGATRON_MOST_BLOCKS = 5000 };
/* Which layers the number n means: every n-th from the first on has experts; all but every n-th have a window. */
enum megatron_every { MEGATRON_EVERY_EXPERT, MEGATRON_EVERY_WINDOW };
/* Fills in so many, of an array of MEGATRON_MOST_BLOCKS. False: the text is no pattern of so many. */
bool megatron_read_pattern(const char *text, enum megatron_every every, bool *out, int64_t blocks);
/* "([0]*3+[1]*58)", in the arena; NULL when memory is short. */
const char *megatron_put_pattern(struct arena *arena, const bool *blocks, int64_t count);

/* ---- layouts ---- */
struct megatron_layout {
    int piece_count, further, further_piece; /* as struct launch's */
    const int *piece_blocks;
};
/* "Et*2|(t*3|)*6t,mL" of so many pieces. */
void megatron_put_layout(struct text *out, const struct megatron_layout *layout);
/* Fails as Megatron-Core does (pipeline_parallel_layer_layout.py). */
bool megatron_read_layout(struct megatron_layout *out, struct arena *arena, const char *layout, struct error *err);

/* ---- launches ---- */
/* The launch keeps all rules of the target. The settings say already whether gradients are narrow. */
void megatron_of_launch(struct megatron_args *args, struct arena *arena, const struct launch *launch,
                        const struct launch_context *context);
/* What settings say, after the checks that Megatron-LM itself would make; devices 0: unknown. narrow: gradients of bf16
 * weights are in bf16 where nothing is said. */
bool megatron_launch(struct launch_read *out, struct arena *arena, const struct megatron_args *args, bool narrow,
                     const char *name, struct error *err);
/* Whether the word is the name but for one letter more, less or another, or two that changed places. */
bool megatron_is_slip(const char *word, int length, const char *name);
/* The option that the word, which is none and whose name has so many letters, is a slip or a part of, or is called
 * elsewhere; NULL: of none. */
const char *megatron_meant(const char *word, int length);
/* The setting of Megatron-LM that is Megatron-Bridge's of this path; NULL: none is. */
const struct megatron_option *megatron_path_option(const char *path);
/* Whether Megatron-Bridge's setting changes no price. */
bool megatron_path_is_idle(const char *path);
/* The path of a setting that this one is a slip of; NULL: of none. */
const char *megatron_path_slip(const char *path);
/* Fails as Megatron-LM would, with the rule's name. */
bool megatron_refuse(struct error *err, const char *name, const char *rule, const char *text);
/* What Megatron-LM asks of degrees before all else, so that it is the reason where others are broken, too. */
bool megatron_check_divisors(const struct launch_read *out, const struct megatron_args *args, const char *name,
                             struct error *err);
/* What --overlap-moe-expert-parallel-comm asks; chunks: virtual stages of each pipeline rank. */
bool megatron_check_overlap(const struct megatron_args *args, int64_t chunks, const char *name, struct error *err);
/* Notes what a command line says that has no price, in words that no setting has. */
bool megatron_say_words(struct launch_read *out, struct arena *arena, const char *const *words, int count,
                        struct error *err);
/* Says which words of a command line no plan has, though its launch would need them again. */
bool megatron_say_uncarried(struct launch_read *out, struct arena *arena, const struct megatron_args *args,
                            const char *const *words, int count, struct error *err);
/* Whether the settings contradict each other, whoever says them. */
bool megatron_check(const struct megatron_args *args, const char *name, struct error *err);
/* The same of a command line of Megatron-LM, with words that no setting has: they refuse more than they change. */
bool megatron_check_words(const struct megatron_args *args, const char *const *words, int count, const char *name,
                          struct error *err);
/* Adds to what was not understood what changes a step and has no price with the target's facts, with the facts that
 * have it. */
bool megatron_say_unpriced(struct launch_read *out, struct arena *arena, const struct megatron_args *a,
                           struct error *err);
extern const struct target_rule megatron_rules[], megatron_bridge_rules[];
void megatron_allow(struct space *space, const struct graph *graph);
/* Whether modules of --recompute-modules compute exactly these operators again; they come to `out` (NULL: not). */
bool megatron_modules(struct text *out, uint64_t operators, const struct launch_context *context);
uint64_t megatron_graph_operators(const struct graph *graph);

/* ---- files that both have ---- */
void megatron_put_readme(struct text *out, const struct target *target, const struct launch *launch,
                         const struct launch_context *context, const char *command);
/* As struct target's. */
void megatron_say_positions(struct text *out, const struct model *model);
void megatron_bridge_say_positions(struct text *out, const struct model *model);
void megatron_put_sbatch(struct text *out, const struct launch *launch, const struct launch_context *context,
                         const char *script);
/* torchrun's and srun's, as they count devices. */
struct megatron_launcher {
    int64_t nodes, per_node, tasks, tasks_per_node;
};
/* True where the word, whose name has so many letters, is such an option; value: behind it, or NULL. */
bool megatron_launcher_option(struct megatron_launcher *l, const char *word, int length, const char *value);
int64_t megatron_launcher_devices(const struct megatron_launcher *l); /* 0: it does not say */
/* Gives the devices that the command (or NULL), the batch lines of its script or its variables ask for; 0: none do. */
int64_t megatron_script_devices(const struct shell_script *script, const struct shell_command *command);
#endif
