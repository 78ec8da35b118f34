/* How two processes of a job prove to each other that they know its token, without sending it. Three fixed messages:
 * the listening side's greeting (a nonce), the other's hello (who it is, a nonce, an HMAC over both nonces), and the
 * verdict (a code, an HMAC by the listening side). Until then nothing else that a stranger sends is looked at. */
#ifndef CLEAVE_EXECUTOR_HANDSHAKE_H
#define CLEAVE_EXECUTOR_HANDSHAKE_H
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { GREETING_BYTES = 24, HELLO_BYTES = 76, VERDICT_BYTES = 36, TOKEN_BYTES = 256 };
enum purpose { PURPOSE_RENDEZVOUS = 1, PURPOSE_CHANNEL };
struct hello {
    uint32_t purpose, rank, rank_count;
    uint32_t lane; /* of a channel */
};
enum verdict { VERDICT_WELCOME, VERDICT_PROTOCOL, VERDICT_TOKEN, VERDICT_COUNT, VERDICT_RANK, VERDICT_MEMORY };

/* A token that nobody guesses, in printable characters. */
bool token_make(char out[TOKEN_BYTES], struct error *err);
/* Fails when the system has no random bytes. */
bool greeting_make(unsigned char out[GREETING_BYTES]);
bool hello_make(unsigned char out[HELLO_BYTES], const unsigned char greeting[GREETING_BYTES], const struct hello *hello,
                const char *token);
/* *out is set when the verdict is WELCOME. */
enum verdict hello_check(struct hello *out, const unsigned char bytes[HELLO_BYTES],
                         const unsigned char greeting[GREETING_BYTES], const char *token);
void verdict_make(unsigned char out[VERDICT_BYTES], enum verdict verdict, const unsigned char hello[HELLO_BYTES],
                  const unsigned char greeting[GREETING_BYTES], const char *token);

/* The connecting side, to its end. who: "rank 0 at host:port", for messages. *turned_away (NULL: not asked): the other
 * side hung up before it said anything of this process. */
bool handshake_join(int fd, const struct hello *hello, const char *token, int64_t deadline_ns, int wake,
                    const char *who, bool *turned_away, struct error *err);
/* Connects and joins; knocks again where nobody listens, or where a crowd at the door took this process' place before
 * it was answered. Returns the descriptor; -1: err says why. */
int handshake_meet(const char *host, int port, const struct hello *hello, const char *token, int64_t deadline_ns,
                   int wake, const char *who, struct error *err);
#endif
