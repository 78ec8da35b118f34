/* What verbs that search share: batch, sequence, dtype, restrictions. */
#ifndef CLEAVE_CLI_SPACE_OPTIONS_H
#define CLEAVE_CLI_SPACE_OPTIONS_H
#include "cli/inputs.h"
#include "planner/search/search.h"
#include "planner/space/choice.h"

struct space_options {
    const char *cluster, *dtype, *schedule, *framework, *target, *stages; /* stages: cuts by hand; NULL: none */
    struct text_list profiles, fix, space;
    int64_t batch, sequence, jobs; /* jobs 0: one per core */
    double time_limit_s, gap;
    const char *reserve, *clip, *optimizer[OPTIMIZER_PARTS];
};
#define OPTIMIZER_OPTION(holder, part, member, key, option, names, doc_)                                               \
    { .name = option,                                                                                                  \
      .type = OPTION_TEXT,                                                                                             \
      .offset = offsetof(holder, part.optimizer[OPTIMIZER_PART_##member]),                                             \
      .value_name = "NAME",                                                                                            \
      .doc = doc_ ": ",                                                                                                \
      .end_doc = space_list_##member },
#define OPTIMIZER_LISTER(a, b, member, ...) void space_list_##member(struct text *out);
OPTIMIZER_PARTS_OF(OPTIMIZER_LISTER, , )
#undef OPTIMIZER_LISTER
/* What every verb needs that prices a model on a cluster: the facts, and the batch. */
#define FACT_OPTIONS(holder, part)                                                                                     \
    TEXT_OPTION("cluster", offsetof(holder, part.cluster), "CLUSTER",                                                  \
                "a file, or NODESxDEVICES:TYPE such as 128x8:a100-sxm-80 or 1x2:cpu (cleave devices)"),                \
        ELSEWHERE_OPTIONS(holder, part)
/* The same of any cluster. */
#define ELSEWHERE_OPTIONS(holder, part)                                                                                \
    LIST_OPTION("profile", offsetof(holder, part.profiles), "FILE",                                                    \
                "measurements (cleave profile) or corrections (cleave calibrate); may be repeated, later "             \
                "measurements win; "                                                                                   \
                "without any: analytic numbers"),                                                                      \
        TEXT_OPTION(                                                                                                   \
            "framework", offsetof(holder, part.framework), "NAME",                                                     \
            "whose facts price the plan: a file, or megatron-lm-te, torchtitan, ... (cleave); a --target names its own"), \
        INT_OPTION("seq", offsetof(holder, part.sequence), "TOKENS", 1, 1e9, "tokens per sequence (the model's own)"), \
        TEXT_OPTION("dtype", offsetof(holder, part.dtype), "NAME",                                                     \
                    "fp32, fp64, bf16, fp16, fp8 or nvfp4 (bf16 where all devices have it, else fp16, else fp32)"),    \
        OPTIMIZER_PARTS_OF(OPTIMIZER_OPTION, holder, part)                                                             \
            TEXT_OPTION("clip", offsetof(holder, part.clip), "NORM",                                                   \
                        "gradients are scaled down to this global norm; 0: not (1; 0 where --schedule names one that " \
                        "updates after each micro-batch)"),                                                            \
        TEXT_OPTION("reserve", offsetof(holder, part.reserve), "BYTES|PERCENT",                                        \
                    "memory of each device that plans must leave free, such as 2GiB or 5%")
#define JOB_OPTIONS(holder, part)                                                                                      \
    INT_OPTION("batch", offsetof(holder, part.batch), "SEQUENCES", 1, 1e9, "sequences per step over all devices"),     \
        FACT_OPTIONS(holder, part)
#define FIX_OPTION(at)                                                                                                 \
    {                                                                                                                  \
        .name = "fix", .type = OPTION_LIST, .offset = at, .value_name = "KEY=VALUE,...",                               \
        .doc = "fixes choices, as in tp=2,sp=true,bucket=4MiB: ", .end_doc = space_list_keys                           \
    }
#define STAGES_OPTION(at)                                                                                              \
    TEXT_OPTION("stages", at, "CUTS",                                                                                  \
                "blocks by stage, such as 5,6,6,4, or a layout of E, t, L and '|' as Megatron-LM has it: those "       \
                "alone, in that order (estimate: as many each; else any cut)")
/* What restricts a search. */
#define SEARCH_OPTIONS(holder, part)                                                                                   \
    FIX_OPTION(offsetof(holder, part.fix)), STAGES_OPTION(offsetof(holder, part.stages)),                              \
        LIST_OPTION("space", offsetof(holder, part.space), "KEY=A:B,...",                                              \
                    "allows only these values of a choice: tp=1:2:4,zero=0:3"),                                        \
        TEXT_OPTION("schedule", offsetof(holder, part.schedule), "NAME,...",                                           \
                    "allows only these schedules (cleave schedules)"),                                                 \
        INT_OPTION("jobs", offsetof(holder, part.jobs), "N", 0, 256,                                                   \
                   "threads of the search (0: one per core); the answer is the same for any number"),                  \
        DOUBLE_OPTION("gap", offsetof(holder, part.gap), "SHARE", 0, 1,                                                \
                      "proves the optimum of the formula to within this share of it (0.001; 0: to the end)"),          \
        DOUBLE_OPTION("time-limit", offsetof(holder, part.time_limit_s), "SECONDS", 0, 1e9,                            \
                      "then the best plan so far, with its gap (0: none)")

#define TARGET_OPTION(holder, part)                                                                                    \
    TEXT_OPTION("target", offsetof(holder, part.target), "TARGET",                                                     \
                "megatron-lm, torchtitan, ...: plans that its release can be told alone, at its prices")

#define DEFAULT_GAP 0.001
/* Reads cluster, profiles and the model, and fills the space. */
bool space_inputs(struct inputs *in, struct space *out, const char *model, const struct space_options *options,
                  struct error *err);
/* Whether nothing is said that a plan has of its own. instead: what gives the option its effect. */
bool space_beside_plan(const struct space_options *options, const char *path, const char *instead, struct error *err);
/* What the options say of the optimizer, over what *out says already; fails where there is no such one. */
bool space_optimizer(struct optimizer *out, const struct space_options *options, enum dtype dtype, struct error *err);
/* The framework's bucket, where it has one of its own; what the user says goes over it. */
void space_usual_bucket(struct space *space, const struct inputs *in);
/* Choices as the framework understands them, if one runs the plan. */
void space_as_run(struct space *space, const struct inputs *in);
/* The part of it that does not name inputs: reserve and restrictions, on inputs that were read and a space that was
 * filled. */
bool space_apply(struct inputs *in, struct space *out, const struct space_options *options, struct error *err);
/* Cuts the model so in all plans of the space; in the inputs' arena. */
struct stage_cuts;
bool space_cut_by_hand(struct space *space, struct inputs *in, const struct stage_cuts *cuts, struct error *err);
/* Restricts by "tp=2,zero=0:3", in which no key has two values that differ; what: the option, for messages. */
bool space_restrict(struct space *space, const char *what, const char *text, struct error *err);
/* Restricts by an option that was given several times, all of which are one such list. */
bool space_restrict_all(struct space *space, const char *what, const struct text_list *list, struct error *err);
/* Adds "zero=0:3", as --space takes it, behind a comma where there is something. */
void space_write_values(struct text *out, enum space_choice choice, const struct allowed *values);
/* Adds the keys of --fix. */
void space_list_keys(struct text *out);
/* The choice's value of that name or number, else a failure that says what was expected. where: for its message. */
bool space_value(const char *where, enum space_choice choice, const char *word, int64_t *out, struct error *err);
/* A search of this space as the options say: its gap, its time limit, and callbacks for the clock, threads, and Ctrl-C,
 * which ends it with the best so far. options is borrowed as long as the answer is used. */
struct search_options space_search_options(const struct space_options *options, const struct space *space);
#endif
