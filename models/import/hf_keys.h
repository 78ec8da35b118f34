/* What the families of Hugging Face configurations share: keys with their defaults, and the layers that a family fills
 * in. Everything that reads returns false after a message at the key. */
#ifndef CLEAVE_MODELS_IMPORT_HF_KEYS_H
#define CLEAVE_MODELS_IMPORT_HF_KEYS_H
#include "models/import/importer.h"
#include "models/kinds/layers.h"

enum { HF_REQUIRED = -1 };
/* NULL when the key is absent or null: configs write null for "the default". */
const struct json *hf_given(const struct json *root, const char *key);
/* fallback HF_REQUIRED: the key must be there. */
bool hf_get_size(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err);
/* Reads the same where 0 is allowed. */
bool hf_get_count(const struct json *root, const char *key, int64_t fallback, int64_t *out, struct error *err);
bool hf_get_double(const struct json *root, const char *key, double max, double fallback, double *out,
                   struct error *err);
bool hf_get_bool(const struct json *root, const char *key, bool fallback, bool *out, struct error *err);
bool hf_get_string(const struct json *root, const char *key, const char *fallback, const char **out, struct error *err);
/* A number of repeated blocks. */
bool hf_get_blocks(const struct json *root, const char *key, int64_t *out, struct error *err);
/* Refuses a switch whose other position is not supported. */
bool hf_need_bool(const struct json *root, const char *key, bool wanted, struct error *err);
/* words: NULL-terminated; the first is the one to suggest. */
bool hf_need_word(const struct json *root, const char *key, const char *fallback, const char *const *words,
                  struct error *err);

/* Another name of one of the family's keys: attribute_map of its configuration class, or a key of older files. */
struct hf_alias {
    const char *name, *key;
    bool ignored_alone; /* the library does not read it; beside the key it must say the same */
};
/* The name under which the file gives the key: its own or another one; its own if there is none. aliases: ends with a
 * name of NULL, or is NULL. */
const char *hf_key(const struct json *root, const struct hf_alias *aliases, const char *key);
/* Refuses two names of a key with different values. */
bool hf_check_aliases(const struct json *root, const struct hf_alias *aliases, struct error *err);

struct hf_parts {
    struct model_head head;
    int64_t blocks, decoder_blocks; /* a decoder beside an encoder has its own number */
    struct embedding_layer embedding;
    struct patches_layer patches;
    struct attention_layer attention;
    struct mlp_layer mlp;
    struct moe_layer moe;
    int64_t dense_blocks; /* the first blocks, which have no experts */
    struct head_layer last;
};
void hf_set_defaults(struct hf_parts *p);
void hf_set_norms(struct hf_parts *p, int norm, double epsilon);
/* Reports at the foreign key what the attention kind would report at its own. */
bool hf_check_heads(const struct json *root, const char *key, const char *kv_key, int64_t hidden,
                    const struct attention_layer *f, struct error *err);
/* What "hidden_act" means to an mlp without a gate; "gelu" is the exact form. */
bool hf_read_activation(const struct json *root, int *activation, struct error *err);
/* Base, stretching and share of rotary positions, from rope_theta, rope_scaling or rope_parameters. partial: whether
 * only a part of the head may turn. */
bool hf_read_rope(const struct json *root, const char *base_key, const char *part_key, double part, bool partial,
                  struct attention_layer *f, struct error *err);

/* One family: reads the keys, and adds the layers (NULL: a decoder of attention and mlp). */
struct hf_family {
    const char *type;               /* model_type */
    const char *class_name;         /* one of "architectures", which begin alike */
    const struct hf_alias *aliases; /* as hf_key() has them */
    bool (*read)(const struct json *root, struct hf_parts *p, struct error *err);
    bool (*add)(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err);
};
/* Refuses "architectures" of another family. */
bool hf_check_classes(const struct json *root, const struct hf_family *family, struct error *err);
/* Touvron et al. 2023 and its relatives: fills in all but biases. kv_default: key and value heads; 0: as many as heads.
 */
bool hf_read_llama(const struct json *root, struct hf_parts *p, int64_t kv_default, struct error *err);
extern const struct hf_family hf_t5, hf_gpt_neox, hf_mixtral, hf_deepseek, hf_vit;
bool hf_add_decoder(struct model *model, const struct hf_parts *p, const struct json *root, struct error *err);
#endif
