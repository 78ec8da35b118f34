/* A model as its description says: named layers, repeated blocks folded. graph_build() unfolds it. */
#ifndef CLEAVE_MODELS_MODEL_H
#define CLEAVE_MODELS_MODEL_H
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "base/text.h"
#include "models/graph.h"

struct layer_kind;

/* Which copy of a layer an edge means; a layer that is not repeated has one. */
enum copy_rule {
    COPY_PREVIOUS, /* the layer before, whatever it is */
    COPY_ENTRY,    /* what enters the reader's copy of its repeat: the layer before that copy */
    COPY_OWN,      /* the reader's own copy: both stand in one repeat */
    COPY_LAST,
    COPY_ALIKE,    /* the copy whose number is the reader's */
    COPY_MIRRORED, /* counted from the other end: the reader's copy i takes copy last - i */
    COPY_NUMBER
};
struct layer_edge {
    enum copy_rule rule;
    int layer, copy; /* folded index; COPY_NUMBER: which copy, from 0 */
};

struct layer {
    const char *name; /* "attention"; unfolded layers are "<index>.<name>" */
    const struct layer_kind *kind;
    const void *fields; /* the kind's own struct */
    int input_count;
    struct layer_edge inputs[MAX_LAYER_INPUTS]; /* whose outputs it reads, in the order that its kind says */
};
struct model_block { /* `count` copies of `layer_count` layers, one after another */
    int first_layer, layer_count, count;
};

#define MODEL_MAX_LEFT_OUT 1e6
/* What the configuration of a model says and its layers do not: it changes neither shapes nor work, and whoever trains
 * the model by another program has to say it there. */
struct model_left_out {
    const char *positions; /* type of rotary positions: "yarn", "linear"; NULL: they are the layers' */
    double factor;         /* by which they are stretched; 0: not said */
    int64_t original;      /* tokens that the model was first trained with; 0: not said */
    /* YaRN's (Peng et al. 2023), as transformers has them */
    double beta_fast, beta_slow;
    double mscale, mscale_all_dim; /* a given attention_factor is an mscale, which may be negative */
    bool exact;                    /* the bounds between waves are not rounded */
    int64_t further_blocks;        /* that predict further tokens */
    /* of adapters, as PEFT has them: what it drops of their input; what they begin with, NULL: its own; the names of
     * their matrices between commas, or "all-linear", NULL: the layers' */
    double adapter_dropout;
    const char *adapter_init, *adapter_modules;
};
extern const struct model_left_out model_left_out_defaults;

struct model {
    struct arena arena;
    const char *name;
    int64_t sequence; /* tokens per sequence by default; 1 of images */
    int64_t hidden, vocab_size;
    int64_t image_size, image_channels; /* pixels of a row and of a column; 0: it reads tokens */
    bool tied_embedding;                /* the head uses the embedding's table */
    bool opaque;                        /* all layers are opaque: no vocabulary, no loss */
    struct keeping keeping;             /* of what runs it; none: as cleave does */
    bool whole_blocks;                  /* layers of its graphs are whole blocks */
    double init_std;                    /* of the initial matrices */
    struct model_left_out left_out;
    int layer_count; /* folded */
    struct layer *layers;
    int block_count;
    struct model_block *blocks; /* in order; cover all layers */
    int entry_layer;            /* while layers are added: the last one before the open copy, -1 none */
    uint64_t hash;              /* of the canonical JSON */
    struct graph_shelf *shelf;  /* of graphs that graph_take() gave */
};

/* How a foreign file is to be read, and what is to be said about it. */
struct model_reading {
    const char *as;      /* the family that it is read as; NULL: what it says it is */
    int64_t sequence;    /* tokens per sequence; 0: as the file says */
    bool length_given;   /* whoever asks gives another length: that the file says none is not noted */
    bool multi_token;    /* with the blocks that predict further tokens, which the file names */
    const char *adapter; /* text of PEFT's adapter_config.json; NULL: none */
    size_t adapter_length;
    const char *adapter_name; /* in messages */
    int quantized;            /* 1 + enum quantized: what frozen matrices are stored in; 0: as the file says */
    bool quantizes_experts;   /* experts' matrices, too */
    struct text *notes;  /* gets a line "note: ..." for each thing that was assumed or left out; NULL: nobody listens */
    const char *foreign; /* gets the importer's name; NULL: the file is native */
};
/* The same with a say in how; reading may be NULL. */
bool model_read_as(struct model **out, const char *name, const char *text, size_t length, struct model_reading *reading,
                   struct error *err);
/* Reads native JSON or, when it is one, a Hugging Face config.json (models/import, importers.def). name appears in
 * messages. *foreign, if not NULL, gets the importer's name or NULL for native. */
bool model_read(struct model **out, const char *name, const char *text, size_t length, const char **foreign,
                struct error *err);
/* The native description as a value that stands in another file. */
bool model_read_value(struct model **out, const struct json *description, struct error *err);
/* Canonical native JSON, deterministic; caller frees. NULL when memory is short. */
char *model_write(const struct model *model, size_t *length);
/* The same as a value, for files that hold it among others. *out: json_free(). */
bool model_document(struct json_doc **out, const struct model *model, struct error *err);
/* Lets all attention without biases keep its scores, and the loss its probabilities in fp32, until backward: what was
 * before fused kernels. The hash stays the description's. False: out of memory. */
bool model_keep(struct model *model, bool scores, bool probabilities);
/* Whether what the layer has frozen is quantized where that is asked for: since transformers 5 experts are no linear
 * layers, which alone bitsandbytes replaces (axolotl, docs/expert_quantization.qmd). */
bool model_layer_quantizes(const struct layer *layer, bool experts);
/* Stores what is frozen of such layers so, before graphs of the model are made. *some: whether anything was otherwise.
 * False: out of memory. */
bool model_quantize(struct model *model, enum quantized form, bool experts, bool *some);
/* One that borrows from the other, which has to outlive it: model_free(). */
bool model_copy(struct model **out, const struct model *model, struct error *err);
void model_free(struct model *model);
/* The top-level keys of the native format, for `cleave schema`. */
extern const struct json_format model_formats[];
/* Number of layers after unfolding, and the folded layer behind an unfolded index. */
int model_unfolded_count(const struct model *model);
const struct layer *model_unfolded_layer(const struct model *model, int index);
/* The unfolded indices of the layers that it reads, each smaller than index; returns their number. Where a block was
 * folded to fewer copies, the nearest copy speaks for one that is gone. */
int model_unfolded_inputs(const struct model *model, int index, int inputs[MAX_LAYER_INPUTS]);
#endif
