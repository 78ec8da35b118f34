/* What the families of Hugging Face configurations share: keys with their defaults. Everything that reads returns false
 * after a message at the key. */
#ifndef CLEAVE_MODELS_IMPORT_HF_KEYS_H
#define CLEAVE_MODELS_IMPORT_HF_KEYS_H
#include "models/import/importer.h"
#include "models/kinds/layers.h"

enum { HF_REQUIRED = -1 };
/* NULL when the key is absent or null: configs write null for "the default". */
const struct json *hf_given(const struct json *root, const char *key);
/* That the key is given. */
bool hf_require(const struct json *root, const char *key, const struct json **out, struct error *err);
/* That what is given is an object; at NULL: nothing is. */
bool hf_expect_object(const struct json *at, struct error *err);
/* fallback HF_REQUIRED: the key must be there. */
bool hf_get_size(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err);
/* Reads the same where 0 is allowed. */
bool hf_get_count(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err);
bool hf_get_double(const struct json *root, const char *key, double max, double fallback, double *out,
                   struct error *err);
bool hf_get_bool(const struct json *root, const char *key, bool fallback, bool *out, struct error *err);
bool hf_get_string(const struct json *root, const char *key, const char *fallback, const char **out, struct error *err);
/* Refuses a switch whose other position is not supported. */
bool hf_need_bool(const struct json *root, const char *key, bool wanted, struct error *err);
/* words: NULL-terminated; the first is the one to suggest. */
bool hf_need_word(const struct json *root, const char *key, const char *fallback, const char *const *words,
                  struct error *err);

#endif
