/* The vocabulary of lowering: buffers, versions, instructions and messages as they grow (lower_emit.c). */
#ifndef CLEAVE_LOWER_LOWER_EMIT_H
#define CLEAVE_LOWER_LOWER_EMIT_H
#include "planner/lower/convert.h"
#include "planner/lower/lower_parts.h"

bool lower_memory(struct lowering *l); /* notes that memory is short; false */
/* Makes room for one more in an array of the arena; false after a failure. */
bool lower_grow(struct lowering *l, struct arena *arena, void **array, int count, int *capacity, size_t size);
struct instr *emit(struct lowering *l, enum op op, enum lane lane, const struct site *site);
struct instr *emit_pair(struct lowering *l, enum op op, enum lane lane, const struct site *site, int source,
                        int destination);
int lower_add_pair(struct lowering *l, int source, int destination);
/* Makes room for so many of the stage more; false after a failure. */
bool lower_room(struct lowering *l, int64_t instrs, int64_t buffers, int64_t pairs, int64_t operands);
/* Makes room likewise for what stays in the program. */
bool lower_lasting_room(struct lowering *l, int64_t buffers, int64_t pairs, int64_t operands);
void lower_set_operands(struct lowering *l, struct instr *instr, const struct operand_table *table);
/* Adds a buffer; sizes follow from it. */
int lower_add_buffer(struct lowering *l, struct buffer buffer);
/* Adds a buffer with the source's tensor and data type in another layout, of the given kind; its first version. */
int lower_add_buffer_like(struct lowering *l, int source, const struct layout *layout, enum buffer_kind kind);
/* Forgets all versions of values, since the stage is done. */
void lower_forget_versions(struct lowering *l);
/* Versions of values: this adds a new one (not live yet); the next gives the live one of a layout, or -1. */
int lower_add_version(struct lowering *l, bool gradient, int value, int micro, const struct layout *layout);
int lower_find_version(const struct lowering *l, bool gradient, int value, int micro, const struct layout *layout);
int *lower_version_head(const struct lowering *l, bool gradient, int value, int micro);
static inline int lower_first_version(const struct lowering *l, bool gradient, int value, int micro)
{
    return *lower_version_head(l, gradient, value, micro); /* live or not; walk on by note_of()->next */
}
void lower_set_live(struct lowering *l, int buffer, bool live);
/* Gives the lane of collectives over the atoms in a layer. Weights and their gradients travel on the data-parallel lane
 * where a dimension shards, whatever it does to values: nothing that computes waits for them in order. */
enum lane lower_atom_lane(const struct lowering *l, int layer, unsigned atoms, bool weight);
/* Steps on the way to a layout; returns the buffer that holds it, of the kind. consume: an all-reduce may happen in the
 * source. */
int lower_convert_buffer(struct lowering *l, int source, const struct layout *to, enum buffer_kind kind, bool consume,
                         const struct site *site);
int lower_path_between(const struct lowering *l, int source, const struct layout *to,
                       struct conversion path[MAX_CONVERSIONS]);
/* Both ends of a message meet by what it carries (number: the micro-batch). Sends wait in a queue until the receives
 * that may be posted beside them are emitted: a receive later in the list could be given the bytes of what is being
 * sent, and two stages that exchange messages would then wait for each other. */
void lower_queue_send(struct lowering *l, enum message_kind kind, int id, int number, int peer, int buffer,
                      const struct site *site);
void emit_receive(struct lowering *l, enum message_kind kind, int id, int number, int peer, int buffer,
                  const struct site *site);
void emit_sends(struct lowering *l);
/* Emits, where messages are ordered, those that are read before the action at `place`. */
void emit_sends_before(struct lowering *l, int place);
bool messages_close(struct lowering *l);
#endif
