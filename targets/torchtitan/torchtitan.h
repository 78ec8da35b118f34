/* torchtitan 0.3.0: recipes are functions in Python that return a configuration, named by --module and --config, with
 * options --section.option behind them; releases up to 0.2 read TOML. Private to its files. */
#ifndef CLEAVE_TARGETS_TORCHTITAN_H
#define CLEAVE_TARGETS_TORCHTITAN_H
#include "targets/decoder.h"
#include "targets/settings.h"
#include "targets/target.h"

/* FSDP2 gathers and reduces a block at once, whatever its size. */
#define TITAN_BUCKET_BYTES (INT64_C(1) << 40)
enum { TITAN_LOSS_CHUNKS = 8 }; /* ChunkedLossWrapper's own number */
/* What training.dtype bfloat16 makes of AdamW: all in 16 bit. */
extern const struct optimizer titan_narrow;
/* (NULL-terminated) rules of what is written that launches without torch.compile are read beyond. */
extern const char *const titan_uncompiled[];
/* What SelectiveAC keeps of a block: attention, and of the products in their order every other one, the first
 * included: queries, keys and values are one product (fuse_qkv). exchanged: of experts that ranks exchange tokens with,
 * what these bring, too, and of shared ones every other product; grouped products are computed again, as is the
 * router's (distributed/activation_checkpoint.py, _get_default_save_ops). What the exchange brings back is no operator
 * here: the experts' last product, which is as large, stands for it. */
uint64_t titan_kept(bool exchanged);

/* Shapes that the release has configurations for (models/MODULE/__init__.py). */
struct titan_model {
    const char *module, *flavor, *base; /* base: a function of config_registry of the module */
    int64_t hidden, blocks, heads, kv_heads, inner, experts, vocab_size;
    const char *zoo, *hub; /* the zoo's model that it is, or the hub's; NULL: none */
};
extern const struct titan_model titan_models[]; /* the last has no module */
/* The one of that shape; NULL: none. */
const struct titan_model *titan_model_of(const struct decoder *decoder);

/* Whether a launch that names it describes the model: of others the reader has no configuration. NULL: a shape of our
 * own recipe, which does. */
bool titan_describes(const struct titan_model *model);

/* The schedule of that name in torch.distributed.pipelining; NULL: none. */
const char *titan_schedule(int schedule);
/* The number of that name, whatever the case; -1: torch has it, and cleave has not; -2: nobody has. */
int titan_schedule_named(const char *name);

/* A launch while it is read. */
enum titan_form { TITAN_TOML, TITAN_RECIPE, TITAN_OPTIONS };
enum titan_fp8 { TITAN_FP8_NONE, TITAN_FP8_BY_ROW, TITAN_FP8_BY_TENSOR };
struct titan_reading {
    struct settings settings;
    enum titan_form form;
    struct launch_read *out;
    struct arena *arena;
    struct error *err;
    int64_t blocks; /* 0: unknown */
    int64_t kv_heads;
    int64_t fills; /* how often the pipeline fills in a step; 0: it is not known, or there is none */
    bool has_experts; /* of a shape that is known */
    enum titan_fp8 fp8;
    struct setting *converters; /* the list that counts; NULL: none */
};
/* Sections in which releases have had the degrees, the newest last (NULL-terminated). */
extern const char *const titan_sections[];
/* The model of the configuration that is named, and before all settings those that it brings itself; of a name that the
 * release has not it is told what is assumed, among what is not understood. */
bool titan_read_base(struct titan_reading *r);
/* Behind it, the converters: what of them has no price is among what is not understood, with the reason. */
bool titan_read_converters(struct titan_reading *r);
/* Refuses, of what nobody took, names that are slips, and those of batches and lengths that are not read. */
bool titan_refuse_slips(struct titan_reading *r);
/* Fails for a file in TOML that is not behind the option by which torchtitan takes it. */
bool titan_refuse_unnamed(const struct titan_reading *r);
/* Puts the list among what is not understood, with the reason. */
bool titan_leave_converters(struct titan_reading *r, const char *why);
/* The list of them, in the body of a recipe's function, of a launch in fp8. */
void titan_add_converters(struct text *out, bool experts);

bool titan_write(struct launch_files *out, const struct launch *launch, const struct launch_context *context);
bool titan_read(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                struct error *err);
#endif
