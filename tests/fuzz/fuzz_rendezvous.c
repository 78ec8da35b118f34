/* Any bytes to the rendezvous: from a stranger (first byte even) or from a process that knows the token. It never
 * crashes, and rank 0 can still store and read. */
#include "executor/rendezvous_wire.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds, const char *what, const struct error *err)
{
    if (holds)
        return;
    fprintf(stderr, "fuzz_rendezvous: %s: %s\n", what, err->kind == ERROR_NONE ? "another answer" : err->message);
    abort();
}

static int visit(const struct meeting *m, bool knows_token)
{
    struct error err = { 0 };
    const struct hello hello = { .purpose = PURPOSE_RENDEZVOUS, .rank = 1, .rank_count = (uint32_t)m->rank_count };
    int fd = socket_connect(m->host, m->port, INT64_MAX, -1, &err);
    must(fd >= 0, "a visitor", &err);
    must(!knows_token || handshake_join(fd, &hello, m->token, INT64_MAX, -1, "rank 0", NULL, &err), "its hello", &err);
    return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    /* without a time limit: a machine that stands still for ten seconds is no bug */
    struct meeting m = { .rank_count = 2, .host = "127.0.0.1", .token = "fuzz" };
    struct rendezvous *rendezvous = NULL;
    struct error err = { 0 };
    char got[4];
    size_t bytes = 0;
    if (size == 0)
        return 0;
    m.listener = socket_listen(m.host, 0, &err);
    must(m.listener >= 0 && socket_own_address(m.listener, m.host, &m.port) &&
             rendezvous_open(&rendezvous, &m, NULL, NULL, &err),
         "the meeting", &err);
    int fd = visit(&m, data[0] & 1);
    socket_write(fd, data + 1, size - 1, 0, -1);
    bool stored = rendezvous_put(rendezvous, "a key of rank 0", "abcd", 4, &err);
    /* the visitor may have ended the job, which is its right once it is one of the ranks */
    must((data[0] & 1) || (stored && rendezvous_get(rendezvous, "a key of rank 0", got, sizeof got, &bytes, &err) &&
                           bytes == 4 && memcmp(got, "abcd", 4) == 0),
         "rank 0's key", &err);
    close(fd);
    rendezvous_close(rendezvous);
    return 0;
}
