/* What the verbs that take a plan file share: where its model, cluster and profile are found. */
#ifndef CLEAVE_CLI_PROGRAM_OPTIONS_H
#define CLEAVE_CLI_PROGRAM_OPTIONS_H
#include "cli/verb.h"

struct source_options {
    const char *model, *cluster;
    struct text_list profiles;
};
#define SOURCE_OPTIONS(holder, part)                                                                                   \
    TEXT_OPTION("model", offsetof(holder, part) + offsetof(struct source_options, model), "MODEL",                     \
                "the model, if it is no longer where the plan file says"),                                             \
        TEXT_OPTION("cluster", offsetof(holder, part) + offsetof(struct source_options, cluster), "CLUSTER",           \
                    "the cluster, likewise"),                                                                          \
        LIST_OPTION("profile", offsetof(holder, part) + offsetof(struct source_options, profiles), "FILE",             \
                    "measurements; may be repeated, later ones win")
#endif
