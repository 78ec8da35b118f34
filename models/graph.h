/* The algebra that all floors share: a model unfolded into segments over iteration axes.
 *
 * A segment computes without communicating. It lists iteration axes as an einsum does; each operand (input, weight,
 * output) says which axis each of its dims follows. A strategy splits AXES; all layouts and collectives follow
 * (planner/program). Kernels compute a range of each axis in global coordinates on blocks that cover it, so a shard, a
 * slice and a ring block are one call. Plain data; built once by graph_build(), then const. */
#ifndef CLEAVE_MODELS_GRAPH_H
#define CLEAVE_MODELS_GRAPH_H
#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdint.h>

enum { MAX_DIMS = 5, MAX_AXES = 8, MAX_OPERANDS = 5, MAX_LAYER_INPUTS = 4 };

/* What an axis means. Dimensions of parallelism speak of tags, never of layer kinds. */
enum axis_tag {
    TAG_NONE,
    TAG_BATCH,
    TAG_SEQUENCE,
    TAG_KEY,
    TAG_HEAD,
    TAG_HEAD_DIM,
    TAG_HIDDEN,
    TAG_FFN,
    TAG_VOCAB,
    TAG_EXPERT,
    TAG_ROUTE,
    TAG_CAPACITY,
    TAG_COUNT
};
/* How an output that lacks an axis combines over it. */
enum fold { FOLD_NONE, FOLD_SUM, FOLD_MAX, FOLD_LSE };

/* What one element of a value is; element_bytes() turns it into bytes. */
enum element {
    ELEMENT_ACTIVATION, /* the plan's dtype */
    ELEMENT_STATISTIC,  /* fp32 (fp64 under fp64): norms' statistics, log-sum-exp, losses */
    ELEMENT_INDEX,      /* int32: tokens, labels */
    ELEMENT_OPERAND,    /* the same, of products alone: one byte where these compute in fp8 or nvfp4 */
    ELEMENT_SCORES, /* of attention that keeps its scores: softmax, the same with dropout, and the dropout's mask in a
                       byte (Korthikanti et al. 2022, section 4.1) */
    /* The same as transformers' modules leave it to PyTorch, function by function, which no dropout is among. */
    ELEMENT_CAPPED_SCORES, /* tanh; softmax in fp32, and in the plan's dtype (models/gemma2/modeling_gemma2.py) */
    ELEMENT_SINK_SCORES,   /* softmax (models/gpt_oss/modeling_gpt_oss.py) */
    ELEMENT_ALIBI_SCORES,  /* softmax in fp32, and in the plan's dtype (models/bloom/modeling_bloom.py) */
    ELEMENT_DROPPED,       /* what is left of an activation, and in a byte of dropout's mask whether that is anything */
    ELEMENT_CLAMPED_GATES  /* the clamped gate, its sigmoid, their product and the value plus one (gpt_oss) */
};

enum kernel {
#define KERNEL(id, name, doc) KERNEL_##id,
#include "models/kernels.def"
#undef KERNEL
    KERNEL_COUNT
};

/* Facts about a kernel that lowering, memory and cost need. Bit i of a mask speaks of operand i; bits beyond a
 * segment's operands mean nothing (an opaque segment may save nothing). */
struct kernel_facts {
    const char *name;
    uint8_t input_reads_in, input_reads_out, input_reads_weight; /* what BWD_INPUT reads besides the output gradients */
    uint8_t weight_reads_in, weight_reads_out,
        weight_reads_weight; /* what BWD_WEIGHT reads besides the output gradients */
    bool has_backward_input, has_backward_weight;
    bool cheap;      /* selective recomputation forgets its outputs */
    bool gates;      /* by a function of in[0] in[1]: what that function gives may be kept, out[1] */
    bool multiplies; /* a product of matrices: in[0] and weight[0], whose folded axes out lacks */
    bool attends;    /* softmax attention: in q, k, v; out the mix and the log-sum-exp */
    bool places;     /* what it computes depends on where tokens stand in their sequence */
    bool scans;   /* carries a state along the sequence, which is never split: ranks may share out heads or channels */
    bool planned; /* there is no mathematics for it: plans are made and priced, and no device computes it */
    bool picks_rows; /* of its weight, a table, only those that the inputs name: the others' gradient is 0 */
    /* Inputs whose gradients BWD_INPUT may write over them: it reads an element before it writes to its place, on every
     * device. GELU's is none: on GPUs it is an epilogue of the product behind it, which reads and writes in no such
     * order. */
    uint8_t overwrites_in;
    uint8_t linear; /* inputs in which it is linear: a partial sum may pass through (a matmul only while it has no fused
                       bias) */
};
/* Indexed by enum kernel; models/kernel.c. */
extern const struct kernel_facts kernel_facts[KERNEL_COUNT];

enum phase { PHASE_FORWARD, PHASE_BACKWARD_INPUT, PHASE_BACKWARD_WEIGHT, PHASE_STEP, PHASE_COUNT };
extern const char *const phase_names[PHASE_COUNT + 1]; /* "forward", ...; NULL-terminated */

struct axis {
    enum axis_tag tag;
    int64_t size;   /* global extent; BATCH: sequences of the whole step */
    int64_t grain;  /* splits are multiples of it; at least 1 */
    enum fold fold; /* for outputs that lack the axis */
    bool fixed;     /* must not be split (a norm's hidden axis) */
};

struct operand {
    int id;                /* value or weight */
    int8_t axis[MAX_DIMS]; /* axis of each dim; -1: the whole dim is used however the segment is split. A dim whose size
                              differs from its axis is scaled (KV heads follow the query-head axis) */
};

/* Windows over an image: position (y, x) of the output looks at `height` rows of the input from y * stride - padding
 * on, and at `width` columns alike. A sequence is an image of one column. */
struct window {
    int64_t rows, columns; /* of the input */
    int64_t height, width, stride, padding;
    int64_t out_columns;
};

/* What the elements of a frozen matrix are stored in: models/quantized.h. */
enum quantized {
    QUANTIZED_NONE, /* the plan's dtype, as all others are */
#define QUANTIZED(id, name, bits, scale_elements, scale_bytes, second_elements, flops) QUANTIZED_##id,
#include "models/quantized.def"
#undef QUANTIZED
    QUANTIZED_COUNT
};
extern const char *const quantized_names[QUANTIZED_COUNT + 1]; /* "none", ...; NULL-terminated */

/* Extra facts a kernel needs; unused fields are 0. */
struct kernel_arguments {
    double epsilon;             /* norms */
    struct window window;       /* conv and pools */
    int64_t channels_per_group; /* group norm */
    double rope_base;           /* rotary embedding */
    int64_t rope_dim;           /* of the head dim the first rope_dim turn, the rest passes; 0: all */
    /* Stretched rotation (Llama 3.1): frequencies whose wave is longer than original / low are divided by the factor,
     * those of waves shorter than original / high stay, in between linearly in original / wave. factor 0: none. */
    double rope_factor, rope_low, rope_high, rope_original;
    /* attention: multiplies the scores. matmul: the product; embed: what is looked up; residual: all but the first
     * term; 0: not at all */
    double scale;
    double score_cap;         /* attention: scores become cap * tanh(score / cap); soft_cap: likewise; 0: they stay */
    bool alibi;               /* attention: scores lose alibi_slope() times the distance */
    enum element kept_scores; /* attention that keeps them: what one is */
    enum quantized quantized; /* matmul: what its matrix is stored in */
    bool scales;              /* matmul of an adapter whose output is scaled by itself */
    bool one_row;             /* add_position: every token takes the table's first row */
    bool causal;              /* attention */
    /* attention: keys that a query sees, itself and those right before it; where it is not causal itself and half as
     * many on each side; 0: all */
    int64_t sliding_window;
    /* attention: where ranks share out the sequence, each holds an early and a late part of it, so that all see as many
     * keys (executor/kernels/token_order.h) */
    bool balanced;
    int64_t relative_buckets, relative_distance; /* biased attention: relative_bucket() */
    int64_t valid;    /* loss kernels: vocabulary without padding; beyond it logits count as -inf, gradients are 0 */
    int64_t kv_heads; /* attention: global number of key and value heads; query head i uses i * kv_heads / heads */
    /* Mixture of experts. Each group of `group` tokens gives each expert at most `slots` of its choices. */
    int64_t group, slots, experts, choices; /* route, dispatch, combine; choices: experts per token */
    bool gates_of_all;                      /* route: gates are a softmax over all experts, else over the chosen ones */
    bool dropless;                          /* likewise: a choice that finds no slot is an error, else it is dropped */
    bool evenly;                            /* route: experts in turn, whatever the logits: so their work is measured */
    double gate_scale;                      /* route: multiplies the gates */
    double balance;                         /* route: weight of each group's auxiliary loss in the step's loss */
    double expected_fill;                   /* matmul with counts: expected share of the slots that count; 0: all */
    /* route: gates are made of sigmoids in place of exponentials; "of all" then leaves them as they are. Experts stand
     * in groups, of which a token takes some; 0: in none */
    bool gates_sigmoid;
    int64_t expert_groups, chosen_groups;
    /* short_conv: tokens that it looks at. scans: width of a state; tokens of a chunk within which it is a product of
     * matrices, 0: one by one; groups of heads that have B and C in common */
    int64_t taps, state, chunk, state_groups;
    double limit; /* swiglu_clamped: of what is multiplied */
    /* opaque: given costs, per sequence of the batch; no math. Read them through segment_opaque_ns() */
    int64_t opaque_forward_ns, opaque_backward_ns, opaque_weight_ns; /* forward, input gradient, weight gradient */
};

struct segment {
    const char *name; /* "q", "core"; unique inside its layer */
    enum kernel kernel;
    uint64_t operators; /* the set of itself, if it is one (models/operators.h); else empty */
    int layer;
    int axis_count, in_count, out_count, weight_count;
    struct axis axes[MAX_AXES];
    struct operand in[MAX_OPERANDS], out[MAX_OPERANDS], weight[MAX_OPERANDS];
    struct kernel_arguments arguments;
    bool converts_input; /* the first product of its layer that reads the input: a narrow operand is converted once for
                            all of them */
};

struct value {
    const char *name; /* "3.attention.q" */
    int dim_count;
    int64_t size[MAX_DIMS]; /* global; dim with TAG_BATCH: sequences of the whole step */
    enum axis_tag tag[MAX_DIMS];
    enum element element;
    enum fold partial; /* how partial copies combine: FOLD_SUM, FOLD_MAX for a running maximum, FOLD_LSE for the
                          attention core's two outputs. Gradients always combine by a sum */
    bool input;        /* comes from the loader: any rank can have any block for free */
    bool differentiable;
    int producer; /* segment, -1 for inputs */
};

enum init { INIT_ZERO, INIT_ONE, INIT_NORMAL };

struct weight {
    const char *name; /* "3.attention.q"; also the key of its initial values and of checkpoints */
    int dim_count;
    int64_t size[MAX_DIMS];
    int64_t valid_rows; /* of dim 0, without vocabulary padding; equals size[0] elsewhere. Padded rows are 0 for ever */
    enum init init;
    double init_std;
    bool decay;  /* takes weight decay (matrices do; biases and norms do not) */
    bool frozen; /* no gradient, no state */
    enum quantized quantized;
    /* Dims that are rows, what comes out, and columns, of a matrix between layers: neither looked up nor one of the
     * vocabulary. Along other dims there are several (experts). Both 0: it is no such matrix. */
    uint8_t row_dims, column_dims;
};

struct graph_layer {
    const char *name; /* "3.attention" */
    const char *kind;
    int class_index; /* layers of one class are identical: same kind, fields, shapes (position in the chain aside) */
    int first_segment, segment_count;
    int block; /* which copy of which repeat it belongs to, a number of theirs alone; -1: it does not repeat */
    int input_count;
    int input_layers[MAX_LAYER_INPUTS]; /* whose outputs it reads, all before it in order */
    int output_value;                   /* what leaves it (-1: nothing, the last one): all that other layers read */
    int64_t columns; /* of an image that leaves it: positions are its pixels, row by row; 0: a sequence */
};

/* In which dtypes weights' gradients are added up in 16 bit; in others that are narrow it is in fp32. */
enum narrow_gradients { NARROW_NONE, NARROW_FP16, NARROW_ALL };
/* What a framework keeps otherwise than cleave. */
struct keeping {
    bool gathers_again; /* what ranks gathered of a value is dropped after forward, and gathered again backward */
    bool keeps_fp8;     /* what products alone read is written, gathered and kept in fp8, where they are in fp8 */
    bool repeats_what_is_read; /* of a block that is computed again, only what its backward pass reads */
    bool loss_copies_logits;   /* the loss has an fp32 copy of the logits beside it forward */
    /* And so many while it goes backward; where ranks share out the vocabulary, so many more. */
    int64_t loss_backward_copies, loss_sharded_copies;
    bool overlaps_experts; /* exchanges of experts' tokens run beside another micro-batch's computations */
    /* experts that drop none get what was chosen, and no empty slots: those of a sequence may be shared out before */
    bool routes_tokens;
    bool takes_any_load; /* it is cleave that runs the program: they have slots for all of a group's tokens each */
    bool gates_inside;   /* gates multiply what experts' last product reads: what it makes is not read backward */
    bool state_takes_gradients; /* to host memory, even where the weights stay on the device */
    bool scatters_messages;     /* to other stages what ranks hold alike goes in parts, which the receivers gather */
    bool reduces_in_place;      /* gradients of the type of their sums, to ranks that share out state alone (ZeRO 1) */
    bool eager_caps, eager_sinks, eager_alibi; /* attention whose scores are so changed keeps them until backward */
    bool drops_adapters;  /* each adapter reads a copy of its own, of which some is dropped (lora_dropout) */
    bool eager_norms;     /* RMS norms keep their input in fp32, and what they scale, beside what they give */
    bool eager_gates;     /* gated activations keep the activated gate beside both that they read */
    int narrow_gradients; /* enum narrow_gradients */
    /* Under bf16 for each element of a weight its gradient in 16 bit, beside the accumulator; under fp16 for each
     * element of a shard of state the copies of gradients that a step makes; under bf16 for each element of state its
     * gradient in 32 bit, which the optimizer keeps with or without ZeRO. */
    int64_t bf16_gradient_bytes, fp16_step_bytes, bf16_state_gradient_bytes;
};

/* True when experts that drop none get the tokens that chose them, each by itself, and nothing else. */
static inline bool keeping_sends_choices(const struct keeping *keeping)
{
    return keeping->routes_tokens && !keeping->takes_any_load;
}

/* True when ranks that share out state read reduced gradients where they were; cleave's own have a buffer for them. */
static inline bool keeping_reduces_in_place(const struct keeping *keeping)
{
    return keeping->reduces_in_place && !keeping->takes_any_load;
}

struct graph {
    struct arena arena;
    const char *model_name;
    uint64_t model_hash;
    int64_t batch;                    /* sequences or images of one step */
    int64_t sequence;                 /* tokens per sequence; 1: an image has one label */
    int64_t vocab_size, vocab_padded; /* of images: their classes */
    int64_t vocab_multiple;           /* to which vocabularies are padded */
    int64_t image_columns;            /* pixels of a row; 0: the model reads tokens */
    struct keeping keeping;
    bool whole_blocks; /* each block is one layer (models/whole_blocks.h) */
    int value_count, weight_count, segment_count, layer_count, class_count;
    struct value *values;
    struct weight *weights;
    struct segment *segments;   /* in layer order: a segment reads values of earlier ones only */
    struct graph_layer *layers; /* in a topological order of the DAG that their inputs make */
    const int *order;           /* (layer_count) which layer of the file stands where; NULL: the file's own order */
    int tokens_value,
        labels_value; /* ELEMENT_INDEX, (batch, sequence); label -1: no target. No tokens (-1) of images */
    int image_value;  /* ELEMENT_ACTIVATION, (batch, pixels, channels); -1: the model reads tokens */
    int source_value; /* a second stream of tokens, like tokens_value; -1: no embedding reads it */
    int count_value;  /* ELEMENT_STATISTIC, (1): number of target tokens of the whole step */
    /* labels_value and count_value are -1 too for opaque models */
    const char *planned_layer; /* the first layer whose work is planned and that nothing here runs; NULL: none */
    int loss_value;            /* ELEMENT_STATISTIC, (1), partial sum over batch and sequence; -1 for opaque models */
    bool *needs_gradient;      /* per value; read it through graph_needs_gradient() */
    /* Of one that was taken (graph_take()): where it stands, the next there, and how many hold it. */
    struct graph_shelf *shelf;
    struct graph *next;
    int holders;
};

struct model;
/**
 * Unfolds a model for one step.
 *
 * batch           sequences of the whole step
 * sequence        tokens per sequence; 0: the model's own, which is all that a model of images takes
 * vocab_multiple  the vocabulary is padded to a multiple of it (128 x the tensor degree)
 * The caller owns *out: graph_free(). Fails when a size does not fit in 63 bits, the sequence exceeds learned
 * positions, or layers do not fit each other's shapes.
 */
bool graph_build(struct graph **out, const struct model *model, int64_t batch, int64_t sequence, int64_t vocab_multiple,
                 struct error *err);
/* As graph_build(), but as long as somebody holds an equal one of the model, that is given: nobody may change it.
 * Several threads may ask at once. graph_free() gives it back. */
bool graph_take(struct graph **out, const struct model *model, int64_t batch, int64_t sequence, int64_t vocab_multiple,
                struct error *err);
/* Fills in what graph_build() knows before it unfolds the model: the sizes by which graphs of a model differ. Nothing
 * of it has to be freed. */
bool graph_size_up(struct graph *out, const struct model *model, int64_t batch, int64_t sequence,
                   int64_t vocab_multiple, struct error *err);
void graph_free(struct graph *graph);
/**
 * Puts the layers of a graph in the file's order into another one: order[place] is the layer that comes there, each
 * once, none before one that it reads. Names and the numbers of values and weights stay. Fails for a bad order, which
 * leaves the graph as it was, and for want of memory.
 */
bool graph_reorder(struct graph *graph, const int *order, struct error *err);

/* Tells whether it has parameters, shared ones included. */
bool graph_layer_has_weights(const struct graph *graph, int layer);
/* The set of its operators: models/operators.h. */
uint64_t graph_layer_operators(const struct graph *graph, int layer);

/* Tells whether each layer reads the one before it, and nothing else. */
bool graph_is_chain(const struct graph *graph);

/* Returns the product of all dimensions, vocabulary padding included, which fits for a built graph. */
int64_t weight_elements(const struct weight *weight);
/* Counts the elements of the value that the layer hands on; 1 where it hands on none. */
int64_t layer_elements(const struct graph *graph, int layer);

/* Parameters, padding excluded, each tied weight once; and those of them that are not frozen. */
int64_t graph_parameter_count(const struct graph *graph);
int64_t graph_trainable_count(const struct graph *graph);
/* What the first quantized matrix is stored in; QUANTIZED_NONE: there is none. */
enum quantized graph_quantized(const struct graph *graph);
/* The segment's first axis with that tag, or -1. */
int segment_axis(const struct segment *segment, enum axis_tag tag);
/* The dim of the operand that follows axis, or -1. */
int operand_dim(const struct operand *operand, int dim_count, int axis);
/* True when the gradient of the value is needed: some trainable weight lies at or before its producer. */
bool graph_needs_gradient(const struct graph *graph, int value);

/* ---- work of a segment on a range: extents[i] is the number of points of axis i that one call covers ---- */
/* Row of the table of biases for a key at `key` and a query at `query` (Raffel et al. 2020, section 2.1, as their code
 * has it): half of the buckets for distances one by one, the rest in ever wider steps up to relative_distance; half of
 * all for keys behind the query where attention is not causal. */
int64_t relative_bucket(const struct kernel_arguments *arguments, int64_t query, int64_t key);
/* What a pair's score loses per token of distance (Press et al. 2022, section 3, as their code has it for heads that
 * are no power of two). */
double alibi_slope(int64_t head, int64_t heads);
/* Of the inputs those that BWD_INPUT reads: the kernel's, as far as what runs the model keeps them. */
uint8_t segment_input_reads_in(const struct graph *graph, const struct segment *segment);
/* Floating-point operations of one phase (multiply and add are two). A causal core counts the lower triangle when the
 * query and key extents are whole. Sources stand at each kernel in models/kernel.c. */
int64_t segment_flops(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES]);
/* Of kernels that scan, and their short convolutions: models/scan.c. */
int64_t scan_flops(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES]);
enum { ATTENTION_TILE_ROWS = 64 };  /* query rows that the attention kernels treat at a time */
enum { CONV_TILE_POSITIONS = 256 }; /* windows that the convolution kernels lay out as rows of a matrix at a time */
/* Whether it is attention that keeps a matrix of scores, its third output, in place of working through them in tiles.
 */
static inline bool segment_keeps_scores(const struct segment *segment)
{
    return kernel_facts[segment->kernel].attends && segment->out_count > 2;
}
/* Whether a route chooses by something else than its logits. */
static inline bool segment_ranks_experts(const struct segment *segment)
{
    return segment->arguments.gates_sigmoid || segment->arguments.expert_groups > 1;
}
/* Elements (of ELEMENT_STATISTIC) of workspace that one call of the phase needs beside its operands, 0 for most. The
 * device's kernels use exactly it. */
int64_t segment_scratch_elements(const struct graph *graph, const struct segment *segment, enum phase phase,
                                 const int64_t extents[MAX_AXES]);
/* Given time of an opaque segment's phase, 0 for other kernels. */
int64_t segment_opaque_ns(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES]);
/* The canonical name of the work, the key of profiles: "matmul.forward b2 t64 h768+ n12 d64". Equal names cost the
 * same. out has WORK_NAME_BYTES. */
enum { WORK_NAME_BYTES = 160 };
void segment_work_name(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES],
                       char out[WORK_NAME_BYTES]);

/* fp8 is the type of the products of repeated blocks alone: their operands are converted before they run. Attention,
 * the head, norms, and all that is stored or sent stay in 16 bit (Micikevicius et al. 2022; Transformer Engine). */
enum dtype { DTYPE_FP32, DTYPE_FP64, DTYPE_BF16, DTYPE_FP16, DTYPE_FP8, DTYPE_NVFP4, DTYPE_COUNT };
/* Whether only the products of blocks compute in it: what is stored and sent, and all else, stays in bf16. */
bool dtype_is_of_products(enum dtype dtype);
extern const char *const dtype_names[DTYPE_COUNT + 1]; /* NULL-terminated */
int64_t element_bytes(enum dtype dtype, enum element element);
/* Of a value, or of its gradient, which is as wide as what is stored. */
int64_t value_bytes_per_element(const struct graph *graph, int value, enum dtype dtype, bool gradient);
/* Bytes per element of a stored weight as kernels use it, and of an accumulator of gradients where nothing else is said
 * (models/optimizer.h). fp32: 4, 4. bf16: 2, 4. */
int64_t weight_bytes_per_element(enum dtype dtype);
int64_t gradient_bytes_per_element(enum dtype dtype);
#endif
