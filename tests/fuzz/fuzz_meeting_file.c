/* Any bytes as a meeting file: as they are, and sealed with the token, so that they get behind the seal. Refused with a
 * message, or a place with a host's name that ends and a port. */
#include "executor/meeting_file.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void read_one(const void *bytes, size_t size)
{
    struct meeting_place place;
    struct error err = { 0 };
    if (meeting_file_read(&place, bytes, size, "fuzz", &err))
        must(place.host[0] && memchr(place.host, '\0', sizeof place.host) && place.port > 0 && place.port < 65536 &&
             place.rank_count > 0);
    else
        must(err.kind == ERROR_INPUT && err.message[0] != '\0');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct meeting_place place = { .port = 1, .rank_count = 1 };
    unsigned char sealed[MEETING_FILE_BYTES];
    read_one(data, size);
    memcpy(&place, data, size < sizeof place ? size : sizeof place);
    meeting_file_make(sealed, &place, "fuzz");
    read_one(sealed, sizeof sealed);
    return 0;
}
