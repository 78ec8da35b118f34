/* What runs a plan: a training framework, as far as it decides what a step costs. A fact like a device, read once from
 * planner/facts/frameworks/NAME.json, then const. */
#ifndef CLEAVE_FACTS_FRAMEWORK_H
#define CLEAVE_FACTS_FRAMEWORK_H
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "models/graph.h"
#include <stdint.h>

/* Says what the host waits for before it goes on: nothing, a message before it issues what reads it, or also each
 * instruction but those of messages; or for the device before it issues a gather. */
enum host_waits { HOST_WAITS_FOR_NOTHING, HOST_WAITS_FOR_MESSAGES, HOST_WAITS_FOR_ALL, HOST_WAITS_BEFORE_GATHERS };
/* One instruction, as the host sees it. */
struct host_issue {
    int64_t ns;
    enum host_waits waits;
};

/* Says what converting an operand of a product in fp8 or nvfp4 moves for each of its elements: before the product that
 * is named. The input's come twice, by rows forward and by columns for the gradient of the weight. */
struct cast_bytes {
    int64_t input_forward, weight_forward, weight_backward, input_backward, gradient;
};

/* Says what passes over memory move for an element, beside what a fused kernel does. */
struct unfused_bytes {
    int64_t forward, backward;
};

struct framework {
    const char *name, *description, *source;
    const char *like;          /* the framework whose numbers hold where this one has none; NULL: none */
    const char *from_memory;   /* which of the numbers were not seen in a source; NULL: none */
    const char *superseded_by; /* the framework that has what is released today; NULL: this one */
    int64_t issue_kernel_ns;   /* of the host, to issue one instruction of the compute lane */
    int64_t issue_transfer_ns; /* and one of any other lane: a collective, a message, a copy */
    int64_t issue_rank_ns;     /* and for each rank of a collective's group, beside issue_transfer_ns */
    int64_t issue_experts_ns;  /* in place of issue_kernel_ns, for the dispatch of tokens to experts, with all that
                                  is issued anew for every routing; forward, the host waits for the routing */
    int64_t issue_expert_ns;   /* and, beside issue_experts_ns, for each expert that the rank has */
    bool dispatches_once; /* a token is sent once to a node and there once to a rank, however many of its experts live
                             there */
    int64_t exchanges_at_once;    /* other ranks of a level with which a rank exchanges at once; at least 1 */
    int host_waits;               /* enum host_waits */
    double attention_flops_per_s; /* the most that its attention kernels reach on any device; 0: what the device does */
    double attention_efficiency;  /* likewise, of the device's peak */
    bool attends_by_flash2;       /* its attention is FlashAttention-2: see struct device_type */
    int64_t attention_tile;       /* keys and queries that they compute at once; 0: windows cost what they count */
    int64_t attention_head_width; /* w, where heads of width d reach (d / (d + w)) / (128 / (128 + w)) of what heads of
                                     128 do; 0: as much */
    double compute_beside_transfers, transfers_beside_compute; /* slow-down of one by the other; at least 1 */
    struct cast_bytes cast;
    double passes;            /* over memory for one of a fused element-wise kernel; at least 1 */
    double unpadded_products; /* how many times as long products take whose vocabulary stays unaligned; at least 1 */
    int64_t loss_forward_bytes, loss_backward_bytes; /* that the loss moves for a logit, beside what a fused one does */
    bool loss_keeps_fp32;                            /* probabilities, until backward */
    struct unfused_bytes clamp, expert_bias; /* of an element that a clamped gate or an expert's last product gives */
    struct unfused_bytes adapter_scale;      /* of one that an adapter gives */
    bool recomputes_blocks;                  /* what it calls full recomputation is RECOMPUTE_BLOCK */
    const char *selective_keeps; /* of what it calls selective recomputation: the operators that are kept of a block
                                    that runs again; NULL: RECOMPUTE_SELECTIVE */
    uint64_t kept_operators;     /* the same, as models/operators.h has it */
    bool stores_scores;          /* attention keeps its matrix of scores until backward */
    struct keeping keeping;      /* what it keeps otherwise */
    int64_t bucket_bytes; /* of weights and gradients of a layer that it gathers or reduces at once; 0: no word on it */
    int64_t buffers_bytes;     /* of each device, that it keeps beside tensors: buckets, staging */
    double host_updates_per_s; /* elements whose state lies on a host, which it updates there for all its devices; 0:
                                  devices do, as they fetch it */
    uint64_t hash;
};
/* The planner's own executor: this holds where a file says nothing. */
extern const struct framework framework_own;
/* Gives the words to a multiple of which a vocabulary is to be padded so that its products are fast: rows of 16 bytes.
 */
int64_t framework_aligned_vocabulary(enum dtype dtype);
/* Tells how many times as long a product takes for the vocabulary that the framework leaves as it is. Few words, as
 * classes are, cost nothing either way. */
double framework_unpadded(const struct framework *framework, int64_t vocabulary, enum dtype dtype);
/* Reads a framework; strings are kept in the arena. The name is the file's without its ending. Members that the text
 * lacks are those of `like`, the framework that it names; NULL: as of one that names none. */
bool framework_read(struct framework *out, struct arena *arena, const char *name, const char *text, size_t length,
                    const struct framework *like, struct error *err);
/* This is the field table of such a file, for `cleave schema`. */
extern const struct json_format framework_formats[];
#endif
