/* A file: eight bytes that name the format and its version, a number that shows another byte order, the place, an HMAC
 * over all of it. It is renamed into place whole. */
#include "executor/meeting_file.h"
#include "base/sha256.h"
#include "host/clock.h"
#include "host/file.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAGIC_BYTES = 8, PLACE_AT = MAGIC_BYTES + 4, SEALED_BYTES = PLACE_AT + (int)sizeof(struct meeting_place) };
_Static_assert(MEETING_FILE_BYTES == SEALED_BYTES + SHA256_BYTES, "a file of the meeting has no padding");
static const char magic[MAGIC_BYTES] = { 'c', 'l', 'e', 'a', 'v', 'e', 'm', '1' };
static const uint32_t byte_order = 0x01020304;
/* Rank 0 listens before it says where: who does not get through soon will not. */
static const int64_t probe_ns = 300000000, look_again_ns = 20000000;

/* ---- the format ---- */
static void seal(unsigned char out[SHA256_BYTES], const char *token, const char *what, const void *data, size_t bytes)
{
    struct hmac hmac;
    hmac_begin(&hmac, token, strlen(token));
    hmac_add(&hmac, what, strlen(what) + 1);
    hmac_add(&hmac, data, bytes);
    hmac_end(&hmac, out);
}

void meeting_file_make(unsigned char out[MEETING_FILE_BYTES], const struct meeting_place *place, const char *token)
{
    memcpy(out, magic, MAGIC_BYTES);
    memcpy(out + MAGIC_BYTES, &byte_order, sizeof byte_order);
    memcpy(out + PLACE_AT, place, sizeof *place);
    seal(out + SEALED_BYTES, token, "meeting", out, SEALED_BYTES);
}

bool meeting_file_read(struct meeting_place *out, const void *bytes, size_t length, const char *token,
                       struct error *err)
{
    const unsigned char *data = bytes;
    struct meeting_place place;
    unsigned char expected[SHA256_BYTES];
    if (length != MEETING_FILE_BYTES)
        return fail_kind(err, ERROR_INPUT, "expected %d bytes, found %zu", MEETING_FILE_BYTES, length);
    if (memcmp(data, magic, MAGIC_BYTES) != 0 || memcmp(data + MAGIC_BYTES, &byte_order, sizeof byte_order) != 0)
        return fail_kind(err, ERROR_INPUT, "it is no meeting file of this version and byte order");
    seal(expected, token, "meeting", data, SEALED_BYTES);
    if (!hmac_equal(expected, data + SEALED_BYTES))
        return fail_kind(err, ERROR_INPUT, "it is of another job: its token is not this one's");
    memcpy(&place, data + PLACE_AT, sizeof place);
    if (!memchr(place.host, '\0', sizeof place.host) || !place.host[0] || place.port < 1 || place.port > 65535 ||
        place.rank_count < 1)
        return fail_kind(err, ERROR_INPUT, "it names no host, or port %d of %d ranks", place.port, place.rank_count);
    *out = place;
    return true;
}

bool meeting_file_path(char out[MEETING_PATH_BYTES], const char *folder, const char *token, struct error *err)
{
    unsigned char name[SHA256_BYTES];
    char text[17];
    seal(name, token, "name", NULL, 0);
    for (int i = 0; i < 8; i++)
        snprintf(text + 2 * i, 3, "%02x", name[i]);
    return snprintf(out, MEETING_PATH_BYTES, "%s/cleave-meeting-%s", folder, text) < MEETING_PATH_BYTES ||
           fail_kind(err, ERROR_INPUT, "the folder of the meeting file: expected a name of less than %d bytes",
                     MEETING_PATH_BYTES - (int)sizeof "/cleave-meeting-" - 16);
}

/* ---- rank 0 ---- */
static bool tell(struct meeting *m, const char *path, struct error *err)
{
    struct meeting_place place = { .rank_count = m->rank_count };
    unsigned char bytes[MEETING_FILE_BYTES];
    int port;
    unlink(path); /* of an earlier run; it leads nobody astray while this one begins */
    if (!m->host[0])
        socket_network_address(0, m->host);
    m->listener = socket_listen(m->host, 0, err);
    if (m->listener < 0)
        return false;
    if (!socket_own_address(m->listener, place.host, &port)) {
        close(m->listener);
        return fail_kind(err, ERROR_ENVIRONMENT, "the system does not tell the port where the ranks meet");
    }
    place.port = m->port = port;
    meeting_file_make(bytes, &place, m->token);
    if (!file_write(path, bytes, sizeof bytes, err)) {
        close(m->listener);
        return error_within(err, "the folder where the ranks meet");
    }
    snprintf(m->file, sizeof m->file, "%s", path);
    return true;
}

/* ---- the others ---- */
static bool leads_somewhere(const struct meeting_place *place, struct error *why)
{
    struct error error = { 0 };
    int fd = socket_connect(place->host, place->port, clock_now_ns() + probe_ns, -1, &error);
    if (fd < 0)
        return fail_kind(why, ERROR_ENVIRONMENT, "nobody listens at %s port %d, which an earlier run may have left",
                         place->host, place->port);
    close(fd);
    return true;
}

static bool look(struct meeting *m, const char *path, struct error *why)
{
    struct meeting_place place;
    char *bytes;
    size_t length;
    if (!file_read_limited(&bytes, &length, path, MEETING_FILE_BYTES, why))
        return false;
    bool ok = meeting_file_read(&place, bytes, length, m->token, why);
    free(bytes);
    if (ok && place.rank_count != m->rank_count)
        ok = fail_kind(why, ERROR_INPUT, "it is of a run with %d ranks, this one has %d", place.rank_count,
                       m->rank_count);
    if (!ok || !leads_somewhere(&place, why))
        return false;
    memcpy(m->host, place.host, sizeof m->host);
    m->port = place.port;
    return true;
}

bool meeting_file_find(struct meeting *m, const char *folder, struct error *err)
{
    char path[MEETING_PATH_BYTES];
    struct error why = { 0 };
    if (!meeting_file_path(path, folder, m->token, err))
        return false;
    if (m->rank == 0)
        return tell(m, path, err);
    int64_t deadline_ns = m->timeout_s > 0 ? clock_now_ns() + (int64_t)(m->timeout_s * 1e9) : INT64_MAX;
    while (!look(m, path, &why)) {
        if (clock_now_ns() >= deadline_ns)
            return fail_kind(err, ERROR_ENVIRONMENT,
                             "rank %d has not found rank 0 within %g s by %s: %s; rank 0 must run, and see the same "
                             "folder and token",
                             m->rank, m->timeout_s, path, why.message);
        why = (struct error){ 0 };
        clock_sleep_until_ns(clock_now_ns() + look_again_ns);
    }
    return true;
}
