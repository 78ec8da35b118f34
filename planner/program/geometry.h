/* Where things are: blocks, ranges, groups, pieces. All in global coordinates; pure functions of (program, buffer,
 * local rank). */
#ifndef CLEAVE_PROGRAM_GEOMETRY_H
#define CLEAVE_PROGRAM_GEOMETRY_H
#include "planner/program/program.h"

struct block {
    int dim_count;
    int64_t low[MAX_DIMS], count[MAX_DIMS];
};

/* Gives the block that the local rank's buffer covers; FLAT is ignored: the flat shard is a piece of this block. */
struct block buffer_block(const struct program *program, const struct buffer *buffer, int local_rank);
int64_t block_elements(const struct block *block);
/* Counts elements of the buffer on one rank: of its block, or of a padded flat piece of it; a whole copy of a sharded
 * weight is padded. */
int64_t buffer_elements(const struct program *program, const struct buffer *buffer);
/* Gives what so many of its elements take. */
int64_t buffer_bytes_of(const struct program *program, const struct buffer *buffer, int64_t elements);
/* Gives the flat piece that this rank holds, of how many (0 of 1 when the layout has no FLAT atom). */
void geometry_flat_piece(const struct program *program, const struct buffer *buffer, int local_rank, int *index,
                         int *count);
/* Gives [low, high) of each axis of a COMPUTE on this rank, in this micro-batch and round. */
void instr_range(const struct program *program, int stage, const struct instr *instr, int local_rank,
                 int64_t low[MAX_AXES], int64_t high[MAX_AXES]);
/* Gives high - low of them, the same on all ranks; 0 for axes that the segment does not have. */
void instr_extents(const struct program *program, int stage, const struct instr *instr, int64_t extents[MAX_AXES]);
/* Lists local ranks of the group of local_rank over the atoms in mask, in coordinate order; returns the count and this
 * rank's place. */
int geometry_group_members(const struct plan *plan, int stage, unsigned atoms, int local_rank, int *members,
                           int *place);
int geometry_group_size(const struct plan *plan, int stage, unsigned atoms);
/* Gives the part of `want` that lies in `have`, in global coordinates; false when empty. */
bool block_intersect(const struct block *want, const struct block *have, struct block *out);
/**
 * SEND / RECEIVE between stages: the sender that serves receiver's piece. Of several ranks that hold the same data, the
 * one is chosen that spreads the load (same rule on both sides). Writes the block to move from sender to receiver;
 * false: nothing. Flat shards are sent to equal layouts on equal meshes alone: the block is then that of which both
 * hold pieces, and what moves is where their pieces meet.
 */
bool geometry_transfer_block(const struct program *program, const struct pair *pair, int sender_local_rank,
                             int receiver_local_rank, struct block *out);
/* Gives the bytes that one rank moves over the wire for a buffer of so many bytes (the larger of both sides) in a group
 * of n ranks: all-reduce 2 (n-1)/n of it, gather, scatter and exchange (n-1)/n, shift and message the whole (Patarasuk
 * & Yuan 2009, section 3), the first rank of a reduce or broadcast n-1 times the whole; 0 for what stays on the rank.
 * It is the only such formula. */
int64_t op_wire_bytes(enum op op, int64_t bytes, int64_t ranks);
/* Gives op_wire_bytes() of all pairs of an instruction; a send moves the pieces that this rank's copy serves. */
int64_t instr_wire_bytes(const struct program *program, int stage, const struct instr *instr);

/* True when the rank counts: of ranks that hold the same data one does, with coordinate 0 on every REPLICATED atom; and
 * of ROOT ones it alone holds. Sums over ranks (the loss from its PARTIAL buffers, norms) take these alone. */
bool geometry_rank_counts(const struct program *program, const struct buffer *buffer, int local_rank);
/* True when the rank does the UPDATE: it has the gradient. */
bool geometry_rank_updates(const struct program *program, const struct instr *instr, int local_rank);
/* True when this rank adds its elements in a NORM. Of a weight's copies on several stages only the first has one. */
bool geometry_norm_counts(const struct program *program, int stage, const struct pair *pair, int local_rank);
/* Gives the optimizer state beside a BUFFER_GRADIENT, always the next buffer; -1 for any other buffer. */
int geometry_state_buffer(const struct program *program, int gradient_buffer);
/* Gives the buffer that has the place of this version of a weight after so many updates: versions, which are
 * neighbouring buffers, change places with each. Any other buffer has its own. */
const struct buffer *buffer_version_at(const struct buffer *buffer, int64_t updates);
#endif
