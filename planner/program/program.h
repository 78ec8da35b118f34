/* The room of programs: the meaning of a plan.
 *
 * It answers what a program is and what it means: per stage one instruction list, as data, from one table of
 * instructions (ops.def) and one of lanes (lanes.def); the order in which a stage runs its micro-batches (schedule.h);
 * the layouts that a strategy gives (recipe.h); and one interpreter without semantics (machine.h). The ranks of a stage
 * differ only in coordinates; what block a buffer holds on a rank and what range an instruction computes are functions
 * (geometry.h). Pure; indices, not pointers.
 *
 * It uses plan/ and facts/. What makes programs (lower/), places them (layout/) and refuses them (verify/) stands
 * above. Tested by tests/test_program_text.c, test_recipe.c, test_schedules.c. */
#ifndef CLEAVE_PROGRAM_PROGRAM_H
#define CLEAVE_PROGRAM_PROGRAM_H
#include "base/num.h"
#include "planner/program/schedule.h"

/* ---- layouts ---- */
enum layout_kind { LAYOUT_REPLICATED, LAYOUT_SHARDED, LAYOUT_PARTIAL, LAYOUT_FLAT, LAYOUT_ROOT };
/* Per mesh atom. SHARDED splits dim; when two atoms split one dim, the smaller order is the outer one. FLAT: an equal,
 * padded piece of the flattened local block (ZeRO). ROOT: coordinate 0 holds the whole; on others the bytes mean
 * nothing (a parameter server's gradients). */
struct layout {
    uint8_t kind[MAX_ATOMS], dim[MAX_ATOMS], order[MAX_ATOMS];
};

/* ---- buffers ---- */
enum buffer_kind {
#define BUFFER(id, name, holds) BUFFER_##id,
#include "planner/program/buffers.def"
#undef BUFFER
    BUFFER_KIND_COUNT
};
/* The words of a program's text are NULL-terminated; likewise those below. */
extern const char *const buffer_kind_names[BUFFER_KIND_COUNT + 1];
struct buffer {
    enum buffer_kind kind : 8;
    /* weights, while lowering, note atoms over which ZeRO shards; whole copies are padded to their product */
    uint8_t padded : 4;
    bool host : 1;      /* lies in the host's arena: OFFLOAD and FETCH alone touch it */
    bool is_weight : 1; /* id names a weight, else a value; SCALAR: id is -1 */
    bool
        persistent : 1; /* lives over the whole step (weights, state, accumulators); STATE and WEIGHT also over steps */
    bool in_place : 1;  /* reduced to a part of what it is reduced from, whose bytes it has (struct keeping) */
    int8_t ring_atom : 4, part_dim : 4;
    uint8_t element_bytes; /* in the plan's dtype and this kind's precision */
    int stage, id, micro;  /* micro -1: not of one micro-batch */
    int ring_round;        /* block of the neighbour ring_round steps back along ring_atom; 0: own block */
    /* Time split: the part-th of part_count pieces along part_dim, of a weight's slices or a value's chunks; part_count
     * 1: whole. */
    int16_t part, part_count;
    /* Asynchronous schedules: which of a weight's versions it holds, and of how many; 0 of 1 otherwise. Versions are
     * counted from the newest at the beginning of a step, modulo their number; after a step the executor renumbers the
     * buffers by as many places as there were updates. The buffers of a weight's versions are neighbours. */
    int version, version_count;
    int wraps; /* 1 + the buffer as which the next step reads its content, whose bytes it gets; 0: none does */
    struct layout layout;
    int64_t bytes;  /* of one rank, padding of flat shards included: equal on all ranks of the stage */
    int64_t offset; /* in the stage's arena, or the host's; -1 before layout_program() */
};
_Static_assert(MAX_ATOMS <= 4 && MAX_DIMS <= 7, "struct buffer has four bits for each");
_Static_assert(PLAN_MAX_SLICES <= INT16_MAX, "parts of a buffer are numbered in 16 bits");
_Static_assert(sizeof(struct buffer) == 64, "a program has as many buffers as instructions");
/* True when both are of one form and hold the same thing, perhaps of other micro-batches and in other places. */
bool buffer_alike(const struct buffer *a, const struct buffer *b);
/* Gives the elements that the buffer holds on one rank. */
static inline int64_t buffer_holds(const struct buffer *buffer)
{
    return buffer->bytes / buffer->element_bytes;
}

/* ---- instructions ---- */
enum op {
#define OP(id, name, reads, writes, traffic) OP_##id,
#include "planner/program/ops.def"
#undef OP
    OP_COUNT
};
/* Tells how an op's bytes travel: from it follow how many there are on the wire, and what prices them. Collectives are
 * those from TRAFFIC_REDUCE on. */
enum traffic {
    TRAFFIC_KERNEL,   /* a kernel's */
    TRAFFIC_LOCAL,    /* in the rank's memory */
    TRAFFIC_HOST,     /* between the rank and its host */
    TRAFFIC_MESSAGE,  /* from one stage to another */
    TRAFFIC_REDUCE,   /* twice around the group, or up and down a tree */
    TRAFFIC_RING,     /* once around it */
    TRAFFIC_EXCHANGE, /* between any two members, a share each */
    TRAFFIC_ROOT,     /* all of it between the first member and each other */
    TRAFFIC_SHIFT     /* all of it to the next member */
};
struct op_info {
    const char *name;
    bool reads_source, writes_destination, collective;
    enum traffic traffic;
};
extern const struct op_info op_info[OP_COUNT];

enum role {
#define ROLE(id, name, list, holds, weight) ROLE_##id,
#include "planner/program/roles.def"
#undef ROLE
    ROLE_COUNT
};
extern const char *const role_names[ROLE_COUNT + 1];
extern const char *const program_fold_names[FOLD_LSE + 2]; /* of enum fold */
/* Gives the role that a COMPUTE writes, ROLE_COUNT: none. The rest it reads. */
static inline enum role phase_writes(enum phase phase)
{
    switch (phase) {
    case PHASE_FORWARD:
        return ROLE_OUT;
    case PHASE_BACKWARD_INPUT:
        return ROLE_GRADIENT_IN;
    case PHASE_BACKWARD_WEIGHT:
        return ROLE_GRADIENT_WEIGHT;
    case PHASE_STEP:
    case PHASE_COUNT:
        break;
    }
    return ROLE_COUNT;
}
static inline bool role_written(enum phase phase, enum role role)
{
    return role == phase_writes(phase);
}

/* UPDATE: (gradient, stored weight). With several versions of the weight the destination is the next version, and a
 * further pair (present version, -1) is what it is made from; else the weight is updated in place. Where the gradient
 * is a flat shard of a whole stored weight (ZeRO 1 and 2), the update works on its piece of the weight in place, and an
 * ALL_GATHER with equal source and destination completes it: the member at place p holds elements [p * n, p * n + n) of
 * the flattened block, n the elements of the shard; stored weights are padded for it. Where the gradient is ROOT the
 * ranks that hold it update alone, and a BROADCAST with equal source and destination hands the weight out. With
 * clipping a second pair (scalar, -1) reads the norm. Where the optimizer's state is offloaded a pair (fetched state,
 * the same) names what is used in its place. WEIGHT_GRADIENT sources of REDUCE_SCATTER are padded alike; padding is
 * never read. */
struct pair {
    int source, destination; /* buffers; -1: none. SEND: destination is the peer's buffer; RECEIVE: source is */
};

struct instr {
    enum op op : 8;
    enum phase phase : 4;
    enum lane lane : 4;
    enum step_part part : 4; /* other than STEP_OWN: asynchronous schedules only */
    enum fold fold : 4;      /* reductions: SUM or MAX */
    bool again : 1;          /* recomputation */
    bool late : 1;           /* of the forward phase, but a part of backward: loss_walk.h */
    bool first : 1;          /* COMPUTE: the first round of a fold: outputs start anew */
    bool accumulate : 1;     /* others: destination += (else overwritten) */
    unsigned spare : 4;      /* 0: instructions are compared by their bytes, of which no bit is padding */
    uint8_t define;          /* COMPUTE: bit i: operand i of the role that it writes is overwritten, not accumulated */
    uint8_t atoms;           /* collectives inside a stage: mask of the mesh atoms that span the group */
    uint16_t wait_count;     /* see wait_first */
    int segment, micro, round; /* COMPUTE; segment -1 otherwise */
    uint32_t operands;         /* COMPUTE: bit role * MAX_OPERANDS + i: operand i of the role is there; others: 0 */
    union {
        int operand_first; /* COMPUTE: into program->operands, of which it has one for each bit, in their order */
        int pair_first;    /* others: into program->pairs; several pairs are one fused transfer (a gradient bucket) */
    };
    int pair_count; /* COMPUTE: 0 */
    int peer_stage; /* SEND, RECEIVE; else -1 */
    int tag;        /* SEND, RECEIVE: equal numbers pair; else -1 */
    int layer;      /* graph layer that it serves, -1 none: reports */
    int wait_first; /* into the stage's waits: indices of earlier instructions of OTHER lanes that must have finished */
};
_Static_assert(MAX_ATOMS <= 8 && MAX_OPERANDS <= 8, "struct instr has a bit for each");
_Static_assert(sizeof(struct instr) == 48, "lists of instructions take most of a program's memory");
/* True when both do the same, perhaps for other micro-batches, layers and peers' tags: what their waits, pairs and
 * operands are is another question. */
bool instr_alike(const struct instr *a, const struct instr *b);

enum { OPERAND_SLOTS = ROLE_COUNT * MAX_OPERANDS };
_Static_assert(OPERAND_SLOTS <= 32, "struct instr has a bit for each");
struct operand_table {
    int buffer[ROLE_COUNT][MAX_OPERANDS]; /* -1: absent */
};
extern const struct operand_table program_no_operands;
/* Gives the instruction its operands. Those that are there go to `out`, place `first` of program->operands, which needs
 * room for OPERAND_SLOTS; returns how many. */
int instr_pack(struct instr *instr, const struct operand_table *table, int first, int *out);
static inline bool instr_has(const struct instr *instr, enum role role, int i)
{
    return instr->operands >> ((int)role * MAX_OPERANDS + i) & 1;
}
/* True when the operand is overwritten, not accumulated. */
static inline bool instr_defines(const struct instr *instr, enum role role, int i)
{
    return role_written(instr->phase, role) && (instr->define >> i & 1);
}
/* Gives the place in program->operands, where it must be. */
static inline int instr_operand_place(const struct instr *instr, enum role role, int i)
{
    uint32_t before = instr->operands & ((UINT32_C(1) << ((int)role * MAX_OPERANDS + i)) - 1);
    return instr->operand_first + count_bits(before);
}

/* True when the instruction moves data between ranks, or would in a larger group. */
static inline bool instr_moves_data(const struct instr *instr)
{
    return op_info[instr->op].traffic >= TRAFFIC_MESSAGE;
}

static inline bool instr_is_message(const struct instr *instr)
{
    return op_info[instr->op].traffic == TRAFFIC_MESSAGE;
}

/* True when the instruction is forward; recomputation and the loss in chunks belong to backward. */
static inline bool instr_is_forward(const struct instr *instr)
{
    return instr->phase == PHASE_FORWARD && !instr->again && !instr->late;
}
/* True in a lane whose transfers the layer's own computation waits for: tensor, context and expert parallelism. */
static inline bool instr_serves_layer(const struct instr *instr)
{
    return instr->lane == LANE_TP || instr->lane == LANE_CP || instr->lane == LANE_EP;
}

enum { ARENA_ALIGNMENT_BYTES = 64 }; /* of every buffer's offset: a cache line, and enough for vector loads */

/* [first, first + count) of a stage's instructions do what as many from `as` on did before, for another micro-batch. */
struct repeated {
    int first, count, as;
};
struct stage_program {
    int instr_count, wait_count, repeated_count;
    struct instr *instrs;
    int *waits;
    struct repeated *repeated; /* (repeated_count) in the order of instructions: of these lowering knows */
    int64_t arena_bytes;       /* set by layout_program(); the same on all ranks of the stage */
    int64_t host_bytes;        /* the host's arena, likewise */
    int64_t persistent_bytes, host_persistent_bytes; /* of either arena weights, accumulators, state */
    int64_t good_bytes, good_host_bytes;   /* of either arena the most with which the search for a layout is content */
    int64_t scratch_offset, scratch_bytes; /* workspace of COMPUTE, inside the arena */
};

/* Counts instructions that only the first step of a run executes: they stand first. What they leave is what every later
 * step finds from the step before, whose instructions of STEP_AHEAD did the same work. */
int program_opening_count(const struct stage_program *stage);

/* Gives one number for an address in either arena: the host's lies behind the device's. */
static inline int64_t buffer_address(const struct stage_program *stage, const struct buffer *buffer)
{
    return buffer->offset + (buffer->host ? stage->arena_bytes : 0);
}

struct program {
    struct arena arena;
    const struct graph *graph; /* borrowed */
    const struct plan *plan;   /* borrowed */
    int stage_count, buffer_count, pair_count, operand_count;
    struct stage_program *stages;
    struct buffer *buffers; /* these three on the heap, owned: they grow and are replaced */
    struct pair *pairs;
    int *operands; /* buffers */
    /* strategy, by segment: the axis of each atom (or AXIS_UNSPLIT / AXIS_PASS), the ring's atom (-1), the sliced axis
     * and count: of slices, or of the loss's chunks */
    struct assignment {
        int8_t axis[MAX_ATOMS];
        int8_t ring_atom, slice_axis;
        int16_t slices;
    } * assignments;
    /* By stage, NULL where it has none: by micro-batch the buffer that holds the loss, -1 none. Its PARTIAL atoms are
     * never reduced: the loss is the sum over micro-batches and over the ranks that count (geometry_rank_counts()). */
    int **loss_buffers;
};
/* Gives the buffer, -1: absent. */
static inline int instr_operand(const struct program *program, const struct instr *instr, enum role role, int i)
{
    return instr_has(instr, role, i) ? program->operands[instr_operand_place(instr, role, i)] : -1;
}
/* Gives the buffer that holds the loss, -1: the stage has none. */
static inline int program_loss(const struct program *program, int stage, int micro)
{
    return program->loss_buffers[stage] ? program->loss_buffers[stage][micro] : -1;
}
/* Fills loss_buffers from the buffers (persistent ones of the loss value); for whoever builds a program by other means
 * than lower_program(). */
bool program_index(struct program *program, struct error *err);
void program_free(struct program *program);          /* accepts NULL */
size_t program_bytes(const struct program *program); /* that it takes in memory */
int64_t program_instrs(const struct program *program);
#endif
