/* What verbs that search share: batch, sequence, dtype, restrictions. */
#ifndef CLEAVE_CLI_SPACE_OPTIONS_H
#define CLEAVE_CLI_SPACE_OPTIONS_H
#include "cli/inputs.h"
#include "planner/search/search.h"

struct space_options {
    const char *cluster, *dtype, *schedule;
    struct text_list profiles, fix, space;
    int64_t batch, sequence;
    double time_limit_s;
    const char *reserve;
};
#define SPACE_OPTIONS(holder, part)                                                                                                          \
    { .name = "cluster", .type = OPTION_TEXT, .offset = offsetof(holder, part.cluster), .value_name = "CLUSTER",                             \
      .doc = "a file, or NODESxDEVICES:TYPE such as 128x8:a100-sxm-80 or 1x2:cpu (cleave devices)" },                                        \
    { .name = "profile", .type = OPTION_LIST, .offset = offsetof(holder, part.profiles), .value_name = "FILE",                               \
      .doc = "measurements; may be repeated, later ones win; without any: analytic numbers" },                                               \
    { .name = "batch", .type = OPTION_INT, .offset = offsetof(holder, part.batch), .value_name = "SEQUENCES",                                \
      .doc = "sequences per step over all devices", .min = 1, .max = 1e9 },                                                                  \
    { .name = "seq", .type = OPTION_INT, .offset = offsetof(holder, part.sequence), .value_name = "TOKENS",                                  \
      .doc = "tokens per sequence (the model's own)", .min = 1, .max = 1e9 },                                                                \
    { .name = "dtype", .type = OPTION_TEXT, .offset = offsetof(holder, part.dtype), .value_name = "NAME",                                    \
      .doc = "fp32, bf16, fp16 or fp8 (bf16 where the device has it, else fp32)" },                                                          \
    { .name = "fix", .type = OPTION_LIST, .offset = offsetof(holder, part.fix), .value_name = "KEY=VALUE,...",                               \
      .doc = "fixes choices: pp, tp, dp, micro-batch, zero, recompute, schedule, prefetch, sp" },                                            \
    { .name = "space", .type = OPTION_LIST, .offset = offsetof(holder, part.space), .value_name = "KEY=A:B,...",                             \
      .doc = "allows only these values of a choice: tp=1:2:4,zero=0:3" },                                                                    \
    { .name = "schedule", .type = OPTION_TEXT, .offset = offsetof(holder, part.schedule), .value_name = "NAME,...",                          \
      .doc = "allows only these schedules (cleave schedules)" },                                                                             \
    { .name = "reserve", .type = OPTION_TEXT, .offset = offsetof(holder, part.reserve), .value_name = "BYTES|PERCENT",                       \
      .doc = "memory of each device that plans must leave free" },                                                                           \
    { .name = "time-limit", .type = OPTION_DOUBLE, .offset = offsetof(holder, part.time_limit_s), .value_name = "SECONDS",                   \
      .doc = "then the best plan so far, with its gap" }

/* Reads cluster, profiles and the model, and fills the space. */
bool space_inputs(struct inputs *in, struct space *out, const char *model, const struct space_options *options, struct error *err);
/* Restricts by "tp=2,zero=0:3"; what: the option, for messages. */
bool space_restrict(struct space *space, const char *what, const char *text, struct error *err);
/* Callbacks of the search: clock, Ctrl-C, a progress line on a terminal. */
struct search_calls space_calls(const struct cli *cli);
#endif
