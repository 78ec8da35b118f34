/* The safetensors container: a length, a JSON header, dense data. Strict: holes, overlaps, unknown types and sizes that
 * do not match are refused. Format: https://github.com/huggingface/safetensors (README, "Format"). */
#ifndef CLEAVE_EXECUTOR_SAFETENSORS_H
#define CLEAVE_EXECUTOR_SAFETENSORS_H
#include "base/arena.h"
#include "base/error.h"
#include <stddef.h>
#include <stdint.h>

enum { SAFETENSORS_MAX_DIMS = 8, SAFETENSORS_LENGTH_BYTES = 8 };
enum tensor_type {
    TENSOR_F64,
    TENSOR_F32,
    TENSOR_F16,
    TENSOR_BF16,
    TENSOR_I64,
    TENSOR_I32,
    TENSOR_I16,
    TENSOR_I8,
    TENSOR_U8,
    TENSOR_BOOL,
    TENSOR_TYPE_COUNT
};
extern const char *const tensor_type_names[TENSOR_TYPE_COUNT + 1];
int64_t tensor_type_bytes(enum tensor_type type);

struct tensor {
    const char *name;
    enum tensor_type type;
    int dim_count;
    int64_t shape[SAFETENSORS_MAX_DIMS];
    int64_t offset, bytes; /* in the data, which starts at data_start */
};
struct tensor_note {
    const char *key, *value;
}; /* __metadata__ */
struct safetensors {
    struct arena arena;
    int count, note_count;
    struct tensor *tensors; /* by offset, without holes */
    struct tensor_note *notes;
    int64_t data_start; /* in the file */
};

/* The header's length from the first 8 bytes of a file of file_bytes. */
bool safetensors_header_bytes(size_t *out, const char *name, const unsigned char start[SAFETENSORS_LENGTH_BYTES],
                              int64_t file_bytes, struct error *err);
/* Reads the JSON header; name appears in messages. The caller frees *out. */
bool safetensors_parse(struct safetensors **out, const char *name, const char *header, size_t header_bytes,
                       int64_t file_bytes, struct error *err);
void safetensors_free(struct safetensors *file);                               /* accepts NULL */
const char *safetensors_note(const struct safetensors *file, const char *key); /* NULL when absent */
/* The bytes that stand before the data: length and header, padded with spaces to 8. Offsets are set from bytes, in
 * order. The caller frees; NULL when memory is short. */
char *safetensors_write(struct tensor *tensors, int count, const struct tensor_note *notes, int note_count,
                        size_t *length);
#endif
