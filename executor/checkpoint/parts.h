/* What writing and reading checkpoints share: names and places of tensors. */
#ifndef CLEAVE_EXECUTOR_CHECKPOINT_PARTS_H
#define CLEAVE_EXECUTOR_CHECKPOINT_PARTS_H
#include "base/text.h"
#include "executor/rank.h"
#include "executor/safetensors.h"

/* Data has a checksum (CRC-32C) for each so many bytes of a tensor. */
enum { CHECKPOINT_BLOCK_BYTES = 1 << 20 };

/* Each weight has three quantities of equal shape. */
enum quantity { QUANTITY_WEIGHT, QUANTITY_MOMENT1, QUANTITY_MOMENT2, QUANTITY_COUNT };
extern const char *const quantity_names[QUANTITY_COUNT + 1];

/* The range [first, first + count) of the flattened block. */
struct place {
    struct block block;
    int64_t first, count;
};
/* What the rank has of a buffer (WEIGHT or STATE), and where: count elements. */
struct place checkpoint_place(const struct rank *rank, int buffer);
/* Weights of 16 bits are written in full precision: from behind the moments where there is state, so that a checkpoint
 * does not depend on the precision that steps compute in; and rounded when they are read, as the update did. */
bool checkpoint_is_half(const struct rank *rank, int buffer);
/* Elements of a quantity in a buffer that is not of 16 bits. */
real *checkpoint_data(const struct rank *rank, int buffer, enum quantity quantity);
/* Rounds full precision to a WEIGHT of 16 bits after so many steps; the other function goes back. */
void checkpoint_round(const struct rank *rank, int buffer, const real *from, int64_t step);
void checkpoint_widen(const void *from, int64_t count, real *to);
/* Quantities of a buffer: [*first, *end). A weight that has state in a run of 16 bits has none of its own to write. */
void checkpoint_quantities(const struct rank *rank, int buffer, enum quantity *first, enum quantity *end);

/* "low 0,8 count 4,8 first 0 elements 32 blocks 1048576 crc32c 0123abcd,...": the place, and checksums of the data. */
void place_print(struct text *out, const struct place *place, const void *data, size_t bytes);
/* *sums: where the checksums begin in the text. */
bool place_parse(const char *text, struct place *out, const char **sums);
/* Holds bytes, which are those of a block, against its checksum. False: they differ, or there is none. */
bool place_block_is_whole(const char *sums, int64_t block, const void *data, size_t bytes);
/* Tells whether there is a checksum for each block of so many bytes, and no other. */
bool place_has_sums(const char *sums, int64_t bytes);
/* Copies what source has of destination's elements; covered[i] is set to 1 for those (indices from destination->first).
 * both: what the two blocks have in common, which is not empty. */
void place_copy(const struct place *destination, real *to, unsigned char *covered, const struct place *source,
                const real *from, const struct block *both);
#endif
