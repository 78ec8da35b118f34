/* Any bytes as a checkpoint's manifest, as they are and with a checksum that fits, so that they get behind it; and as a
 * tensor's place. Refused with a message, or values within their limits. */
#include "base/num.h"
#include "executor/checkpoint/manifest.h"
#include "executor/checkpoint/parts.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SEAL_ROOM = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void read_manifest(const char *text, size_t length)
{
    struct manifest manifest;
    struct error err = { 0 };
    if (!manifest_parse(&manifest, "fuzz", text, length, &err)) {
        must(err.kind == ERROR_INPUT && strncmp(err.message, "fuzz:", 5) == 0);
        return;
    }
    must(manifest.label.step > 0 && manifest.label.save > 0 && manifest.label.file_count > 0 && manifest.model);
    for (int i = 0; i < manifest.label.file_count; i++)
        must(manifest.records[i].bytes >= 0);
    manifest_free(&manifest);
}

static void read_place(const char *text)
{
    struct place place;
    const char *sums;
    if (!place_parse(text, &place, &sums))
        return;
    must(place.first >= 0 && place.count >= 0 && place.block.dim_count <= MAX_DIMS &&
         place.first + place.count <= block_elements(&place.block));
    if (place.count < INT64_MAX / 8 && place_has_sums(sums, place.count * 4))
        for (int64_t block = 0; block < ceil_div(place.count * 4, CHECKPOINT_BLOCK_BYTES); block++)
            place_block_is_whole(sums, block, text, 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char end[] = "\n}\n";
    const size_t end_bytes = sizeof end - 1;
    char *text = malloc(size + SEAL_ROOM);
    must(text != NULL);
    memcpy(text, data, size);
    text[size] = '\0';
    read_manifest(text, size);
    read_place(text);
    if (size > end_bytes && memcmp(text + size - end_bytes, end, end_bytes) == 0) {
        size_t kept = size - end_bytes;
        int seal = snprintf(text + kept, SEAL_ROOM, ",\n  \"checksum\": \"%016" PRIx64 "\"%s",
                            hash_bytes(HASH_START, text, kept), end);
        read_manifest(text, kept + (size_t)seal);
    }
    free(text);
    return 0;
}
