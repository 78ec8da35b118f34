#include "base/sha256.h"
#include <string.h>

/* FIPS 180-4, section 4.2.2: the first 32 bits of the fractional parts of the cube roots of the first 64 primes. */
static const uint32_t K[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t rotate(uint32_t x, int n)
{
    return x >> n | x << (32 - n);
}

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Section 6.2.2; v: a to h. */
static void compress(uint32_t state[8], const unsigned char block[SHA256_BLOCK_BYTES])
{
    uint32_t w[64], v[8];
    for (int i = 0; i < 16; i++)
        w[i] = big_endian(block + 4 * i);
    for (int i = 16; i < 64; i++) {
        uint32_t s0 = rotate(w[i - 15], 7) ^ rotate(w[i - 15], 18) ^ w[i - 15] >> 3;
        uint32_t s1 = rotate(w[i - 2], 17) ^ rotate(w[i - 2], 19) ^ w[i - 2] >> 10;
        w[i] = w[i - 16] + s0 + w[i - 7] + s1;
    }
    memcpy(v, state, sizeof v);
    for (int i = 0; i < 64; i++) {
        uint32_t s1 = rotate(v[4], 6) ^ rotate(v[4], 11) ^ rotate(v[4], 25);
        uint32_t choice = (v[4] & v[5]) ^ (~v[4] & v[6]);
        uint32_t t1 = v[7] + s1 + choice + K[i] + w[i];
        uint32_t s0 = rotate(v[0], 2) ^ rotate(v[0], 13) ^ rotate(v[0], 22);
        uint32_t majority = (v[0] & v[1]) ^ (v[0] & v[2]) ^ (v[1] & v[2]);
        memmove(v + 1, v, 7 * sizeof *v);
        v[4] += t1;
        v[0] = t1 + s0 + majority;
    }
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

void sha256_begin(struct sha256 *hash)
{
    /* section 5.3.3 */
    *hash = (struct sha256){ .state = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c,
                                        0x1f83d9ab, 0x5be0cd19 } };
}

void sha256_add(struct sha256 *hash, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    while (bytes > 0) {
        size_t filled = hash->length % SHA256_BLOCK_BYTES, room = SHA256_BLOCK_BYTES - filled;
        size_t taken = bytes < room ? bytes : room;
        memcpy(hash->block + filled, at, taken);
        hash->length += taken;
        at += taken;
        bytes -= taken;
        if (taken == room)
            compress(hash->state, hash->block);
    }
}

void sha256_end(struct sha256 *hash, unsigned char out[SHA256_BYTES])
{
    static const unsigned char one = 0x80, zero = 0;
    uint64_t bits = hash->length * 8;
    unsigned char length[8];
    sha256_add(hash, &one, 1);
    while (hash->length % SHA256_BLOCK_BYTES != SHA256_BLOCK_BYTES - sizeof length)
        sha256_add(hash, &zero, 1);
    for (int i = 0; i < 8; i++)
        length[i] = (unsigned char)(bits >> (56 - 8 * i));
    sha256_add(hash, length, sizeof length);
    for (int i = 0; i < SHA256_BYTES; i++)
        out[i] = (unsigned char)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
}

void hmac_begin(struct hmac *hmac, const void *key, size_t key_bytes)
{
    unsigned char block[SHA256_BLOCK_BYTES] = { 0 };
    sha256_begin(&hmac->inner);
    sha256_begin(&hmac->outer);
    if (key_bytes > sizeof block) {
        struct sha256 long_key;
        sha256_begin(&long_key);
        sha256_add(&long_key, key, key_bytes);
        sha256_end(&long_key, block);
    } else if (key_bytes > 0) {
        memcpy(block, key, key_bytes);
    }
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36;
    sha256_add(&hmac->inner, block, sizeof block);
    for (size_t i = 0; i < sizeof block; i++)
        block[i] ^= 0x36 ^ 0x5c;
    sha256_add(&hmac->outer, block, sizeof block);
}

void hmac_add(struct hmac *hmac, const void *data, size_t bytes)
{
    sha256_add(&hmac->inner, data, bytes);
}

void hmac_end(struct hmac *hmac, unsigned char out[SHA256_BYTES])
{
    sha256_end(&hmac->inner, out);
    sha256_add(&hmac->outer, out, SHA256_BYTES);
    sha256_end(&hmac->outer, out);
}

bool hmac_equal(const unsigned char a[SHA256_BYTES], const unsigned char b[SHA256_BYTES])
{
    unsigned difference = 0;
    for (int i = 0; i < SHA256_BYTES; i++)
        difference |= (unsigned)(a[i] ^ b[i]);
    return difference == 0;
}
