/* A run that begins with a Hugging Face checkpoint, or ends with one. */
#ifndef CLEAVE_CLI_HF_WEIGHTS_H
#define CLEAVE_CLI_HF_WEIGHTS_H
#include "cli/inputs.h"
#include "executor/hf_output.h"

struct hf_weights {
    struct hf_folder *from;  /* NULL: weights are drawn, or a checkpoint's of ours */
    struct hf_folder *blank; /* what is written where none was read; else NULL */
    struct hf_export export; /* like NULL: nothing is written */
};
struct hf_request {
    const char *from, *to; /* folders; either may be NULL */
    const char *model;     /* where the plan's model came from */
    bool overwrite;
    bool writes; /* this process does: it looks whether it can */
    bool speaks; /* it says what the folder's config.json has otherwise than the plan's model */
    bool begins; /* the run does with these weights */
};
/* The family is that of the config.json in `from`, or without it of the plan's model file. */
bool hf_weights_open(struct hf_weights *out, struct inputs *in, const struct hf_request *request, struct error *err);
void hf_weights_close(struct hf_weights *weights);
#endif
