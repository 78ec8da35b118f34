/* The canonical description of a Hugging Face model: what its keys say, whatever each family calls them. A family is
 * the facts that its configuration class has by default, its own names of keys, and a function only where its
 * mathematics differ. One reader fills the facts in; one writer makes blocks and layers of them (hf_blocks.c). */
#ifndef CLEAVE_MODELS_IMPORT_HF_FACTS_H
#define CLEAVE_MODELS_IMPORT_HF_FACTS_H
#include "models/import/hf_keys.h"

enum hf_positions { HF_ROTARY, HF_LEARNED, HF_ALIBI, HF_NO_POSITIONS };
/* How attention and feed-forward network meet the residual stream. */
enum hf_stream {
    HF_SERIAL,      /* one after the other */
    HF_SHARED_NORM, /* side by side, behind one norm (Wang & Komatsuzaki 2021) */
    HF_OWN_NORMS    /* side by side, each behind a norm of its own */
};

/* Sizes of 0 are those that follow from others or do not apply. */
struct hf_facts {
    int64_t hidden, blocks, heads, kv_heads, head_dim, inner, inner_factor, vocab, positions, position_offset;
    int64_t token_types, embedding_width, head_width, classes;
    int64_t second_width;            /* of a second table of tokens, whose rows are added to the first's; 0: none */
    int64_t first_inner, last_inner; /* of bare networks before and behind the blocks; 0: none */
    int norm;                        /* enum norm */
    int stream;                      /* enum hf_stream */
    int place;                       /* enum hf_positions */
    int qk_norm;                     /* enum qk_norm */
    int qk_kind;                     /* enum norm */
    double epsilon, init_std;
    const char *activation;
    bool gated, encoder, post_norm, output_norms, no_input_norms, embedding_norm, no_last_norm, tied;
    bool embedding_bias, wide_positions, encoder_only, pooled, no_heads, no_required, normed_queries, qkv_bias,
        bare_keys, output_bias, mlp_bias, head_bias, transform, transform_bias, sinks, output_gate, router_logits;
    double rope_base, rope_part, score_scale, query_scalar, score_cap, logit_cap, logit_scale, embedding_scale,
        residual_scale;
    int64_t rope_dim, rope_original;
    double rope_factor, rope_low, rope_high;
    /* Every full_every-th block (0: none) and the first full_blocks see all tokens, the others a window of the latest.
     */
    int64_t window, full_every, full_blocks, chunk;
    bool windows;
    /* Experts. */
    int64_t experts, choices, expert_inner, shared_experts, shared_inner, expert_width, dense_blocks, sparse_step,
        sparse_offset, sparse_last;
    int gates; /* enum gates */
    double gate_scale, balance;
    bool renormalised, balance_by_sequence, router_correction, router_bias, expert_bias, shared_gate;
    int64_t expert_groups, chosen_groups;
    /* Latent attention; kv_rank 0: none. */
    int64_t query_rank, kv_rank, plain_dim, turned_dim, value_dim;
    /* Linear attention and state spaces. */
    int64_t key_heads, value_heads, key_width, value_width, conv;
    int64_t state, state_heads, state_head_dim, state_groups, state_inner, state_expand, step_rank;
    bool state_bias, conv_bias, state_norms;
    int64_t decoder_blocks, decoder_inner, source_positions,
        mel_bins;                                /* of an encoder-decoder; blocks are the encoder's */
    int64_t relative_buckets, relative_distance; /* biases by relative position (Raffel et al. 2020) */
    int64_t image_size, image_channels, patch;
    bool no_class_token, no_places, bare_patches, attention_pool; /* of a model of images; places: learned positions */
    bool whole_patches;                                           /* images whose size no patches fill are refused */
    struct model_left_out left_out;
    int64_t token_blocks; /* that predict further tokens (DeepSeek-AI 2024) */
};

enum hf_type {
    HF_SIZE,
    HF_COUNT,
    HF_NUMBER,
    HF_SMALL /* up to 1 */,
    HF_BASE /* of rotation */,
    HF_FLAG,
    HF_NOT_FLAG,
    HF_WORD,
    HF_ONLY_TRUE,
    HF_ONLY_FALSE,
    HF_IGNORED
};
/* A name under which files give a fact. */
struct hf_name {
    const char *name;
    enum hf_type type;
    size_t offset; /* in struct hf_facts */
};
#define HF_FACT(fact) offsetof(struct hf_facts, fact)

enum hf_mixer { HF_ATTENTION, HF_LATENT, HF_STATE_SPACE, HF_LINEAR, HF_NO_MIXER };
enum hf_network { HF_MLP, HF_MOE, HF_NO_NETWORK };
/* One block of the file's model, as layers; what is not there is zero, so that equal blocks have equal bytes. */
struct hf_block {
    bool fixed;                 /* its window and type are said */
    bool both;                  /* a dense network stands before its experts */
    bool beside;                /* a state space stands beside its attention, behind the same norm */
    bool behind;                /* a state space stands behind its network */
    int mixer, network, stream; /* enums hf_mixer, hf_network, hf_stream */
    struct attention_layer attention;
    struct latent_attention_layer latent;
    struct state_space_layer state;
    struct linear_attention_layer linear;
    struct mlp_layer mlp, last; /* last: a further network at the block's end; inner 0: none */
    struct moe_layer moe;
};

struct hf_family;
struct hf_reader {
    const struct json *top, *root; /* the file, and what of it describes the model of tokens */
    bool nested;                   /* of a larger model: its class' defaults are left out of the file */
    const struct hf_family *family;
    struct model_reading *reading;
    struct arena arena;
    struct hf_facts facts;
    int64_t left_out;                           /* parameters of the file's model that the model has not */
    const char *given[sizeof(struct hf_facts)]; /* by offset: the name under which the file gives the fact */
    bool adapted;                               /* all but adapters is frozen */
    enum quantized quantized;                   /* what is frozen, if anything is */
    bool further;                               /* with the blocks that predict further tokens */
    struct hf_block *blocks;                    /* (facts.blocks) */
    struct error *err;
};

/* Rows of a family's names. */
#define HF_NAME(name_, type_, fact_)                                                                                   \
    {                                                                                                                  \
        name_, HF_##type_, HF_FACT(fact_)                                                                              \
    }
/* A row repeats its kind's facts and says its own behind them: the later one holds, and is meant to. */
#pragma GCC diagnostic ignored "-Woverride-init"
/* What most decoders of today have by default. */
#define HF_LLAMA_FACTS                                                                                                 \
    .norm = NORM_RMS, .epsilon = 1e-6, .init_std = 0.02, .activation = "silu", .gated = true, .rope_base = 10000,      \
    .rope_part = 1, .positions = 2048, .gate_scale = 1
/* And those before them: layer norms, biases, no gate. */
#define HF_GPT_FACTS                                                                                                   \
    .norm = NORM_LAYER, .epsilon = 1e-5, .init_std = 0.02, .activation = "gelu_new", .inner_factor = 4,                \
    .rope_base = 10000, .rope_part = 1, .positions = 2048, .gate_scale = 1
#define HF_BIASES .qkv_bias = true, .output_bias = true, .mlp_bias = true

struct hf_family {
    const char *type;            /* model_type */
    const char *class_name;      /* one of "architectures", which begin alike */
    const char *others;          /* further values of model_type that mean the same, each between spaces; or NULL */
    const struct hf_name *names; /* its own, before those that all families share; the last has none */
    struct hf_facts facts;       /* what the file does not say */
    bool (*read)(struct hf_reader *r);   /* after the keys: facts that follow from others. NULL: none */
    bool (*blocks)(struct hf_reader *r); /* after the blocks are filled in from the facts. NULL: none */
    bool (*head)(struct hf_reader *r, struct model_head *head); /* what of it does not follow from facts. NULL: all */
    bool (*add)(struct hf_reader *r, struct model *model);      /* adds all layers. NULL: a chain of blocks */
};
/* The families of each file, NULL-terminated. */
typedef const struct hf_family *const hf_family_list[];
extern hf_family_list hf_llamas, hf_gpts, hf_experts, hf_encoders, hf_hybrids, hf_states, hf_linears, hf_seq2seqs,
    hf_images, hf_gemmas, hf_recurrents, hf_sounds, hf_latents, hf_sparses, hf_originals;

/* Adds a line about the file to what is said to the user. */
void hf_note(struct hf_reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The name under which the file gives a fact, or the first under which it may. */
const char *hf_name_of(const struct hf_reader *r, size_t offset);
/* Where messages about the fact point. */
const struct json *hf_place_of(const struct hf_reader *r, size_t offset);
bool hf_is_given(const struct hf_reader *r, size_t offset);
/* That the file says how wide latent attention's narrow vector of keys and values is. */
bool hf_require_latent(const struct hf_reader *r);
/* Plans weights of all blocks together, which no kind of layer has, as neurons of the networks that all tokens pass.
 * Gives how many each network gets. */
int64_t hf_add_neurons(struct hf_reader *r, double weights);
/* Weights of what chooses the tokens that are attended to, in all blocks. Where the file says neither: heads of it, and
 * that the first block and each so many-th from the second have one. */
bool hf_count_indexers(struct hf_reader *r, int64_t heads, int64_t every, double *weights);
/* Fills in the facts from the file. */
bool hf_read_facts(struct hf_reader *r);
/* Rotary positions from the file's boxes of them: base, part and stretching. */
bool hf_read_rotation(struct hf_reader *r);
/* A list of the file with an entry per block; NULL: none. */
bool hf_get_list(struct hf_reader *r, const char *key, int64_t count, const struct json **out);
/* Numbers of blocks, however many; *out NULL: not given. */
bool hf_get_numbers(struct hf_reader *r, const char *key, const struct json **out);
/* Whether the block is among such numbers; list NULL: it is not. */
bool hf_is_listed(const struct json *list, int64_t block);
/* That the file says of each block which layer it has, for families whose pattern has no period. */
bool hf_require_types(struct hf_reader *r);
/* A dense network as the facts say it. */
bool hf_fill_mlp(struct hf_reader *r, struct mlp_layer *m);
/* The rank of a state space's steps: a number or "auto"; and a state space as the facts say it. */
bool hf_read_rank(struct hf_reader *r, const char *key);
bool hf_fill_state(struct hf_reader *r, int64_t version, struct state_space_layer *s);
/* Gives the blocks experts or a dense network as a list of 1 and 0 under the key says; no list: as they are. */
bool hf_set_sparse(struct hf_reader *r, const char *key);
/* Fills in the blocks from the facts. */
bool hf_fill_blocks(struct hf_reader *r);
/* Enters the part of the file that describes the model of tokens. */
bool hf_enter_text(struct hf_reader *r);
/* Adds the adapters of PEFT's file to the blocks. */
bool hf_adapt(struct hf_reader *r, const struct json *root);
/* Says that the tower of text beside one of images is left out, where the file has one. */
void hf_note_text_tower(struct hf_reader *r);
/* Says which parts of the file's model are not of the model. */
void hf_note_left_out(struct hf_reader *r);
/* Freezes a layer of a model that has adapters. */
void hf_freeze(const struct hf_reader *r, struct layer_head *head);
/* Adds a layer of the kind. */
bool hf_add(struct hf_reader *r, struct model *model, const char *kind, const void *fields);
/* Fills in what reads tokens and what ends the model. */
void hf_fill_embedding(const struct hf_reader *r, struct embedding_layer *embedding);
bool hf_fill_head(struct hf_reader *r, struct head_layer *head);
/* Embedding, blocks folded where they repeat, head and loss. */
bool hf_add_chain(struct hf_reader *r, struct model *model);
/* The blocks alone, under these names' prefix (NULL: the kinds' own names). */
bool hf_add_blocks(struct hf_reader *r, struct model *model);
/* The activation that the word means, with or without a gate. */
bool hf_activation_of(struct hf_reader *r, bool gated, int *out);
#endif
