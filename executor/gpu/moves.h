/* What a transfer between ranks is on a GPU, worked out before the first step: kernels that pack or begin a sum, calls
 * of NCCL, kernels that unpack or add. Contiguous pieces go from where they lie to where they belong. */
#ifndef CLEAVE_EXECUTOR_GPU_MOVES_H
#define CLEAVE_EXECUTOR_GPU_MOVES_H
#include "executor/collective_piece.h"
#include "executor/gpu/channels.h"
#include "executor/gpu/nccl.h"

struct local_move {
    bool clear; /* to starts anew, as for a sum of kind `how`; from means nothing */
    struct piece to, from;
    enum combine how;
};
struct local_moves {
    int count, capacity;
    struct local_move *list;
};
struct moves {
    int channel; /* index, -1: no calls */
    struct local_moves before, after;
    int call_count, call_capacity;
    struct comm_call *calls;
    size_t staging_bytes; /* of device memory for what is packed */
};
/**
 * The moves of one transfer instruction of the rank whose arena and place the collective knows. staging: device memory,
 * of at least *staging_bytes, which a first call with any address tells. alone: as if the rank were alone in its group,
 * a SEND sends nothing, a RECEIVE leaves zeros. The caller frees.
 */
bool moves_of(struct moves *out, const struct collective *geometry, const struct channels *channels,
              const struct instr *instr, unsigned char *staging, bool alone, struct error *err);
void moves_free(struct moves *moves);

/* Tells whether the piece is one run of bytes, and where it begins behind piece->data. */
bool piece_is_dense(const struct piece *piece, size_t *offset_bytes);
#endif
