/* Any bytes as the index of a checkpoint: refused with a reason, or every tensor has a file that lies beside it. */
#include "executor/hf_index.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct hf_index *index = NULL;
    struct error err = { 0 };
    if (!hf_index_parse(&index, "fuzz", (const char *)data, size, &err)) {
        must(index == NULL && strlen(err.message) > 0);
        return 0;
    }
    must(index->count > 0 && index->file_count > 0 && index->file_count <= index->count);
    for (int i = 0; i < index->file_count; i++)
        must(index->files[i][0] != '.' && !strchr(index->files[i], '/') && strstr(index->files[i], ".safetensors"));
    for (int i = 0; i < index->count; i++) {
        must(index->entries[i].file >= 0 && index->entries[i].file < index->file_count);
        must(hf_index_file(index, index->entries[i].tensor) == index->entries[i].file);
    }
    must(hf_index_file(index, "") < 0 || index->entries[0].tensor[0] == '\0');
    hf_index_free(index);
    return 0;
}
