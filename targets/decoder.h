/* The shape of a decoder as configurations of frameworks name it, taken from the model's description. */
#ifndef CLEAVE_TARGETS_DECODER_H
#define CLEAVE_TARGETS_DECODER_H
#include "base/text.h"
#include "models/model.h"

struct decoder {
    int64_t hidden, vocab_size;
    int64_t blocks;                         /* copies of all repeated blocks with attention */
    int64_t heads, kv_heads, head_dim;      /* 0: attention of another kind */
    int64_t inner;                          /* of the last block's feed-forward part; 0: it has none */
    int64_t experts, choices, expert_inner; /* 0: none */
    int64_t positions, source_positions;    /* of the learned tables of its tokens and of an encoder's; 0: none */
    double rope_base;
    bool tied;
    bool llama; /* RMS norm before attention and a gated feed-forward part, rotary positions, no biases, not stretched
                   rotation, heads of the usual width */
};
/* Also of models that are no decoders: then blocks is 0. */
struct decoder decoder_of(const struct model *model);
/* Adds the sizes that a launch says and that the model has otherwise: "hidden size expected 4096, found 8192". Sizes of
 * 0 are not said. Models that are no plain decoders are held by their width and vocabulary alone, since launches
 * describe the rest of them in other ways; vocabularies that differ by padding are the same. */
void decoder_put_differences(struct text *out, const struct decoder *said, const struct model *model);
/* NULL when the model reads one stream of tokens, looks only back, and says the next one, which is what transformers'
 * AutoModelForCausalLM builds of a configuration; else what it is: "an encoder", one with a decoder, a classifier. */
const char *decoder_other(const struct model *model);
/* Whether it has blocks that scan over the sequence: state spaces, linear attention. */
bool decoder_scans(const struct model *model);
/* Its blocks behind the trunk, which predict further tokens. */
int decoder_further(const struct model *model);

/* What of its weights a step trains: all, low-rank adapters that are alike in all blocks, or others. */
enum decoder_training { TRAINS_ALL, TRAINS_ADAPTERS, TRAINS_OTHERS };
struct decoder_adapters {
    int64_t rank; /* 0: there is none */
    double alpha;
    int quantized; /* enum quantized of the frozen matrices but experts' */
    bool quantized_experts;
    int module_count;
    const char *modules[16]; /* of the matrices that have one, as PEFT's target_modules names them */
};
/* out: filled in where there are adapters; NULL: not asked for. */
enum decoder_training decoder_trains(struct decoder_adapters *out, const struct model *model);
#endif
