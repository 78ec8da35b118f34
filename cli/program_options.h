/* What the verbs that take a plan file share: where its model, cluster and profile are found. */
#ifndef CLEAVE_CLI_PROGRAM_OPTIONS_H
#define CLEAVE_CLI_PROGRAM_OPTIONS_H
#include "cli/verb.h"

struct source_options { const char *model, *cluster; struct text_list profiles; };
#define SOURCE_OPTIONS(holder, part)                                                                                                      \
    { .name = "model", .type = OPTION_TEXT, .offset = offsetof(holder, part) + offsetof(struct source_options, model),                    \
      .value_name = "MODEL", .doc = "the model, if it is no longer where the plan file says" },                                          \
    { .name = "cluster", .type = OPTION_TEXT, .offset = offsetof(holder, part) + offsetof(struct source_options, cluster),                \
      .value_name = "CLUSTER", .doc = "the cluster, likewise" },                                                                         \
    { .name = "profile", .type = OPTION_LIST, .offset = offsetof(holder, part) + offsetof(struct source_options, profiles),               \
      .value_name = "FILE", .doc = "measurements; may be repeated, later ones win" }
#endif
