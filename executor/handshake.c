#define _GNU_SOURCE
#include "executor/handshake.h"
#include "base/sha256.h"
#include "executor/socket.h"
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* The magic holds the version and shows another byte order: numbers and tensors travel as they lie in memory. */
enum { MAGIC_BYTES = 8, NONCE_BYTES = 16, FIELDS_BYTES = sizeof(struct hello) };
_Static_assert(GREETING_BYTES == MAGIC_BYTES + NONCE_BYTES, "greeting");
_Static_assert(HELLO_BYTES == 4 + MAGIC_BYTES + FIELDS_BYTES + NONCE_BYTES + SHA256_BYTES, "hello");
_Static_assert(VERDICT_BYTES == 4 + SHA256_BYTES, "verdict");
static const uint32_t byte_order = 0x01020304;
static const char magic[MAGIC_BYTES] = { 'c', 'l', 'e', 'a', 'v', 'e', '0', '1' };
enum { SIGNED_BYTES = HELLO_BYTES - SHA256_BYTES };

static void sign(unsigned char out[SHA256_BYTES], const char *token, const char *side,
                 const unsigned char greeting[GREETING_BYTES], const unsigned char *hello, uint32_t verdict)
{
    struct hmac hmac;
    hmac_begin(&hmac, token, strlen(token));
    hmac_add(&hmac, side, strlen(side) + 1);
    hmac_add(&hmac, greeting, GREETING_BYTES);
    hmac_add(&hmac, hello, SIGNED_BYTES);
    hmac_add(&hmac, &verdict, sizeof verdict);
    hmac_end(&hmac, out);
}

static bool nonce(unsigned char *out)
{
    return getrandom(out, NONCE_BYTES, 0) == NONCE_BYTES;
}

bool token_make(char out[TOKEN_BYTES], struct error *err)
{
    unsigned char secret[NONCE_BYTES];
    if (!nonce(secret))
        return fail_kind(err, ERROR_ENVIRONMENT, "the system gives no random bytes for the job's token");
    for (int i = 0; i < NONCE_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", secret[i]);
    return true;
}

bool greeting_make(unsigned char out[GREETING_BYTES])
{
    memcpy(out, magic, MAGIC_BYTES);
    return nonce(out + MAGIC_BYTES);
}

bool hello_make(unsigned char out[HELLO_BYTES], const unsigned char greeting[GREETING_BYTES], const struct hello *hello,
                const char *token)
{
    unsigned char *at = out;
    memcpy(at, magic, MAGIC_BYTES);
    memcpy(at += MAGIC_BYTES, &byte_order, sizeof byte_order);
    memcpy(at += sizeof byte_order, hello, FIELDS_BYTES);
    bool ok = nonce(at += FIELDS_BYTES);
    sign(out + SIGNED_BYTES, token, "join", greeting, out, 0);
    return ok;
}

enum verdict hello_check(struct hello *out, const unsigned char bytes[HELLO_BYTES],
                         const unsigned char greeting[GREETING_BYTES], const char *token)
{
    unsigned char expected[SHA256_BYTES];
    if (memcmp(bytes, magic, MAGIC_BYTES) != 0 || memcmp(bytes + MAGIC_BYTES, &byte_order, sizeof byte_order) != 0)
        return VERDICT_PROTOCOL;
    sign(expected, token, "join", greeting, bytes, 0);
    if (!hmac_equal(expected, bytes + SIGNED_BYTES))
        return VERDICT_TOKEN;
    memcpy(out, bytes + MAGIC_BYTES + sizeof byte_order, FIELDS_BYTES);
    return VERDICT_WELCOME;
}

void verdict_make(unsigned char out[VERDICT_BYTES], enum verdict verdict, const unsigned char hello[HELLO_BYTES],
                  const unsigned char greeting[GREETING_BYTES], const char *token)
{
    uint32_t code = (uint32_t)verdict;
    memcpy(out, &code, sizeof code);
    sign(out + sizeof code, token, "answer", greeting, hello, code);
}

static bool explain(uint32_t code, bool is_signed, const struct hello *hello, const char *who, struct error *err)
{
    if (code == VERDICT_TOKEN || (code == VERDICT_WELCOME && !is_signed))
        return fail_kind(err, ERROR_INPUT,
                         "%s has another job token: set CLEAVE_JOB_TOKEN to the same text for all processes of a job",
                         who);
    if (code == VERDICT_COUNT)
        return fail_kind(err, ERROR_INPUT, "%s is of a job with another number of ranks than %u", who,
                         hello->rank_count);
    if (code == VERDICT_RANK && hello->rank >= hello->rank_count)
        return fail_kind(err, ERROR_INPUT, "%s knows no rank %u: its job has the ranks 0 to %u", who, hello->rank,
                         hello->rank_count - 1);
    if (code == VERDICT_RANK)
        return fail_kind(err, ERROR_INPUT, "%s has a rank %u already: two processes were started with one rank", who,
                         hello->rank);
    if (code == VERDICT_MEMORY)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s has no memory for rank %u", who, hello->rank);
    return fail_kind(err, ERROR_INPUT, "%s speaks another protocol: is it the same version of this program?", who);
}

bool handshake_join(int fd, const struct hello *hello, const char *token, int64_t deadline_ns, int wake,
                    const char *who, bool *turned_away, struct error *err)
{
    unsigned char greeting[GREETING_BYTES], bytes[HELLO_BYTES], verdict[VERDICT_BYTES], expected[VERDICT_BYTES];
    enum socket_end end = socket_read(fd, greeting, sizeof greeting, deadline_ns, wake);
    if (turned_away)
        *turned_away = end == SOCKET_CLOSED;
    if (end != SOCKET_DONE)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: %s before it greeted", who, socket_end_text(end));
    if (memcmp(greeting, magic, MAGIC_BYTES) != 0)
        return explain(VERDICT_PROTOCOL, false, hello, who, err);
    if (!hello_make(bytes, greeting, hello, token))
        return fail_kind(err, ERROR_ENVIRONMENT, "the system gives no random bytes");
    end = socket_write(fd, bytes, sizeof bytes, deadline_ns, wake);
    if (end == SOCKET_DONE)
        end = socket_read(fd, verdict, sizeof verdict, deadline_ns, wake);
    if (turned_away)
        *turned_away = end == SOCKET_CLOSED;
    if (end != SOCKET_DONE)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: %s before it answered", who, socket_end_text(end));
    uint32_t code;
    memcpy(&code, verdict, sizeof code);
    verdict_make(expected, (enum verdict)code, bytes, greeting, token);
    bool is_signed = hmac_equal(expected + sizeof code, verdict + sizeof code);
    return (code == VERDICT_WELCOME && is_signed) || explain(code, is_signed, hello, who, err);
}

int handshake_meet(const char *host, int port, const struct hello *hello, const char *token, int64_t deadline_ns,
                   int wake, const char *who, struct error *err)
{
    for (;;) {
        struct error why = { 0 };
        bool turned_away = false;
        int fd = socket_connect(host, port, deadline_ns, wake, &why);
        if (fd >= 0 && handshake_join(fd, hello, token, deadline_ns, wake, who, &turned_away, &why))
            return fd;
        if (fd >= 0)
            close(fd);
        if (!turned_away || !socket_rest(deadline_ns, wake)) {
            fail_with(err, &why);
            return -1;
        }
    }
}
