/* Any bytes as a safetensors file: refused with a reason, or its tensors lie inside the data without holes. */
#include "executor/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_file(const struct safetensors *file, int64_t file_bytes)
{
    int64_t at = 0;
    for (int i = 0; i < file->count; i++) {
        const struct tensor *tensor = &file->tensors[i];
        int64_t elements = 1;
        for (int d = 0; d < tensor->dim_count; d++)
            elements *= tensor->shape[d];
        must(tensor->offset == at && tensor->bytes == elements * tensor_type_bytes(tensor->type) && tensor->name);
        at += tensor->bytes;
    }
    must(file->data_start + at == file_bytes);
    for (int i = 0; i < file->note_count; i++)
        must(safetensors_note(file, file->notes[i].key) != NULL);
}

/* Seeds are JSON texts: without a length in front they are tried as headers alone. */
static void try_header(const uint8_t *header, size_t bytes, int64_t file_bytes)
{
    struct safetensors *file = NULL;
    struct error err = { 0 };
    if (!safetensors_parse(&file, "fuzz", (const char *)header, bytes, file_bytes, &err)) {
        must(file == NULL && strlen(err.message) > 0);
        return;
    }
    check_file(file, file_bytes);
    safetensors_free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t header;
    struct error err = { 0 };
    for (int64_t tail = 0; tail <= 64; tail += 16)
        try_header(data, size, SAFETENSORS_LENGTH_BYTES + (int64_t)size + tail);
    if (size >= SAFETENSORS_LENGTH_BYTES && safetensors_header_bytes(&header, "fuzz", data, (int64_t)size, &err))
        try_header(data + SAFETENSORS_LENGTH_BYTES, header, (int64_t)size);
    return 0;
}
