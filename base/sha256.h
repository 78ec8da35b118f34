/* SHA-256 (FIPS 180-4) and HMAC-SHA-256 (RFC 2104): how the processes of a job prove that they know its token. */
#ifndef CLEAVE_BASE_SHA256_H
#define CLEAVE_BASE_SHA256_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SHA256_BYTES = 32, SHA256_BLOCK_BYTES = 64 };
struct sha256 {
    uint32_t state[8];
    uint64_t length; /* bytes so far */
    unsigned char block[SHA256_BLOCK_BYTES];
};
void sha256_begin(struct sha256 *hash);
void sha256_add(struct sha256 *hash, const void *data, size_t bytes);
void sha256_end(struct sha256 *hash, unsigned char out[SHA256_BYTES]);

struct hmac {
    struct sha256 inner, outer;
};
void hmac_begin(struct hmac *hmac, const void *key, size_t key_bytes);
void hmac_add(struct hmac *hmac, const void *data, size_t bytes);
void hmac_end(struct hmac *hmac, unsigned char out[SHA256_BYTES]);
/* In time that does not depend on where they differ. */
bool hmac_equal(const unsigned char a[SHA256_BYTES], const unsigned char b[SHA256_BYTES]);
#endif
