/* What a certificate is about, as two numbers: which configurations its space has, and what they cost. */
#ifndef CLEAVE_TABLES_CERTIFICATE_HASH_H
#define CLEAVE_TABLES_CERTIFICATE_HASH_H
#include "planner/price/price.h"
#include "planner/space/space.h"

struct certificate_hash {
    uint64_t space, prices;
    /* The last table is hashed once, since neighbours in the space often share their prices. */
    const struct price_table *last; /* NULL: none yet */
    uint64_t last_prices;
};
/* Starts with what the space allows beside the default. */
struct certificate_hash certificate_hash_start(const struct space *space);
/* Adds of how many order ideals of the layers it speaks, as in struct certificate; -1 changes nothing. */
void certificate_hash_orders(struct certificate_hash *hash, int64_t ideals);
/* Must be called for each configuration, in the space's order. table: prices for bounds; NULL: it has no program. */
void certificate_hash_add(struct certificate_hash *hash, const struct config *config, const struct price_table *table);

enum { CERTIFICATE_DIGEST_BYTES = 17 };
/* Gives the digest of all other members of a certificate, against damage, not forgery. False: no memory. */
bool certificate_digest(char out[CERTIFICATE_DIGEST_BYTES], const struct json *certificate);
/* Writes the number as certificates write it. */
void certificate_hash_text(char out[CERTIFICATE_DIGEST_BYTES], uint64_t hash);
enum config_fate { FATE_SOLVED, FATE_MEMORY, FATE_REFUSED, FATE_LEFT, FATE_UNSEEN, FATE_COUNT };
extern const char *const config_fate_names[FATE_COUNT + 1]; /* "solved", "memory", "refused", "left", "unseen" */
#endif
