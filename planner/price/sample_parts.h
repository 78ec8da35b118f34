/* What the sample*.c share: a lowered sample and what is kept of it. */
#ifndef CLEAVE_PRICE_SAMPLE_PARTS_H
#define CLEAVE_PRICE_SAMPLE_PARTS_H
#include "planner/layout/lives.h"
#include "planner/price/sample.h"

struct tie {
    int buffer, layer;
}; /* the layer uses a weight that an earlier one holds, or keeps gathered for both */

/* What the host does for a pass: issuing instructions, and copies on the lanes to and from its memory. */
struct issued {
    int64_t ns, waited_ns; /* of it, while the device idles, since the host waited for it */
    int64_t out_ns, in_ns; /* of copies to its memory and from it */
};

/* One layer's pass: its gathers, as far as the list has come, and what the path sends. */
struct layer_pass {
    int64_t issued_ns; /* of the lane */
    int64_t passed_ns; /* of the path */
    int64_t lag_ns;    /* the most that is issued by a moment when the path needs it, without what has passed */
    /* the path's transfers and the lane's lose this to each other while the lane is busy */
    int64_t path_loss_ns, lane_loss_ns;
};

struct sample {
    struct arena arena;
    struct sample_shape shape;
    const struct graph *graph; /* borrowed */
    struct plan *plan;
    struct program *program;
    int *weight_layer;        /* (weights) first layer that uses it */
    int *listed, list_count;  /* instructions of the first micro-batch and of the step, ascending */
    int *sized, sized_count;  /* buffers that these touch or that live beside them */
    int *release, *releasing; /* (list_count) reductions in the dp lane: from which instruction on bytes may wait for
                                 it, ascending */
    int release_count;
    bool *alone;        /* (layers) nothing is like it, where others have their like */
    bool reduces;       /* there are reductions in each micro-batch */
    int *behind;        /* (instructions) of those off the path: the last such reduction of its lane up to it, or -1 */
    struct life *lives; /* (buffers) */
    int *like; /* (instructions) of a kernel: the first one that costs as much, whatever the sizes; else itself */
    uint64_t *kernel;   /* (instructions) which kernel it is, whatever the sizes; of what costs as much as another: 0 */
    int turn, end;      /* first instruction of the first backward; the first behind the first micro-batch */
    int *kept_layer;    /* (buffers) of weights that stay gathered: the layer that uses them first; else -1 */
    bool *within_saved; /* (buffers) lies in bytes that count as saved */
    int *deferred_for;  /* (buffers) first layer whose weights' gradients read it, made before them; else -1 */
    struct tie *ties;
    int tie_count;
    /* these are filled anew for each size */
    int64_t *duration, *finish;   /* (instructions) */
    int64_t *alike_finish;        /* (instructions) the same if reductions of layers that stand alone took no time */
    struct layer_pass *passes;    /* (layers, 2): backward, forward */
    int64_t *change;              /* (instructions + 2) of gathers: all of the layer and pass up to it; then bytes that
                                     come and go */
    struct layer_price *by_layer; /* (layers) */
    struct issued *issued;        /* (layers, 3): backward, forward, the step */
};

static inline bool sample_on_path(const struct instr *instr)
{
    return instr->lane == LANE_COMPUTE || instr_serves_layer(instr);
}
static inline int sample_layer_of(const struct sample *s, const struct instr *instr)
{
    return instr->layer >= 0 && instr->layer < s->graph->layer_count ? instr->layer : 0;
}

static inline struct layer_pass *sample_pass_of(const struct sample *s, const struct instr *instr)
{
    return &s->passes[2 * sample_layer_of(s, instr) + instr_is_forward(instr)];
}

/* Lists layers that nothing is like, where others have their like, which stand for many. False: out of memory. */
bool sample_list_alone(struct sample *sample);
/* Lists which kernels are which, and which cost the same. False: out of memory. */
bool sample_list_alike(struct sample *sample);
/* Fills in durations; path_only: of what does not stand on the path 0, and of the step what it takes however many ranks
 * share it. known: as for sample_prices(). */
void sample_price_instrs(struct sample *sample, const struct facts *facts, struct kernel_costs *known, bool path_only);
/* Makes them those of the micro-batches after the first, which add to the gradients that it left. */
void sample_price_adding(struct sample *sample, const struct facts *facts, struct kernel_costs *known);
/* Adds to by_layer the kernels of struct least_price. */
void sample_price_kernels(struct sample *sample);
/* Gives the layer whose path the instruction is, and whose is what it leaves. Where the reader wants another layout,
 * partial sums are added up for it, but by their maker: behind an embedding that is split by vocabulary, not in every
 * layer like the one that stands there. */
int sample_path_layer_of(const struct sample *s, const struct instr *instr);
/* True when the buffer, not of a weight, lives when the first micro-batch turns around. */
bool sample_keeps(const struct sample *s, int buffer);
/* True when such a buffer is one of the model's last layers', head and loss, whose backward passes are the first: no
 * other one finds it of its own micro-batch. Where other layers are priced with these, their last is no longer left. */
bool sample_frees_first(const struct sample *s, int buffer);
/* Lists the weights that stay gathered, and those that later layers use too; lives are known. False: out of memory. */
bool sample_list_kept(struct sample *sample);
/* Lists what waits for the gradients of weights, where these come later than those of inputs; lives are known. */
void sample_list_deferred(struct sample *sample);
/* Adds the bytes of each layer to by_layer, or only what stays and is kept (path_only); returns the largest
 * workspace's.
 */
int64_t sample_price_memory(struct sample *sample, bool path_only);
/* Fills in what transfers of path and data-parallel lane lose to each other where they share links. */
void sample_price_links(struct sample *sample, const struct facts *facts);
#endif
