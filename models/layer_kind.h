/* What a layer kind provides: its fields and its segments. One file in models/kinds and one line in kinds.def each. */
#ifndef CLEAVE_MODELS_LAYER_KIND_H
#define CLEAVE_MODELS_LAYER_KIND_H
#include "base/json.h"
#include "models/graph.h"

struct graph_builder; /* models/builder.h */
struct model;

/* Every kind's own struct begins with it, and every field table with LAYER_HEAD_FIELDS. */
struct layer_head {
    const char *kind, *name;
    bool frozen;
    int quantized;             /* enum quantized */
    const char *shared;        /* NULL: its weights are its own */
    const struct json *inputs; /* while the description is read; NULL afterwards */
};
/* clang-format off */
#define LAYER_HEAD_FIELDS \
    {.key = "kind", .type = FIELD_STRING, .offset = offsetof(struct layer_head, kind), .required = true, \
     .doc = "Which kind of layer this is."}, \
    {.key = "name", .type = FIELD_STRING, .offset = offsetof(struct layer_head, name), \
     .doc = "Short name of letters, digits, '-' and '_'; the kind if absent."}, \
    {.key = "frozen", .type = FIELD_BOOL, .offset = offsetof(struct layer_head, frozen), \
     .doc = "The layer's weights are not trained: no gradient, no optimizer state; below the first layer that trains nothing " \
            "runs backward or is kept for it. A table that layers share is frozen as its first layer says."}, \
    {.key = "quantized", .type = FIELD_ENUM, .offset = offsetof(struct layer_head, quantized), .names = quantized_names, \
     .doc = "In layers of blocks: what their frozen matrices are stored in, to be expanded to the plan's dtype for each product: nf4 " \
            "(4 bits and an fp32 scale for each 64 elements; fp4 takes as much), nf4-double (the same with scales of 8 bits, " \
            "\"double quantization\"), int4 (GPTQ, AWQ: 4 bits, a scale and a zero for each 128), int8 (8 bits and an fp32 scale for each row) (Dettmers et al. 2022, 2023). For planning: " \
            "it cannot be run. The plan's dtype if absent."}, \
    {.key = "shared", .type = FIELD_STRING, .offset = offsetof(struct layer_head, shared), \
     .doc = "Layers of one kind that give the same name have one set of weights between them (Lan et al. 2020, ALBERT). For " \
            "planning: it cannot be run. None if absent."}, \
    {.key = "inputs", .type = FIELD_NODE, .offset = offsetof(struct layer_head, inputs), \
     .doc = "Names of the layers whose outputs it reads, all of them earlier: \"previous\", \"entry\" (what enters this copy " \
            "of a repeat) or a name, of a layer repeated elsewhere \"name\" (its last copy), \"name[2]\", " \
            "\"name[copy]\" (the copy of the same number) or \"name[last-copy]\" (from the other end); the layer " \
            "before if absent."}
/* clang-format on */

/* Where a kind may stand: first ones, bodies and joins in any order that begins with a first one, then one head and one
 * loss; or given ones only. What a first one, a body or a join gives is (batch, sequence, hidden), of an image (batch,
 * pixels row by row, channels). */
enum chain_place {
    CHAIN_FIRST,
    CHAIN_BODY, /* adds to the residual stream */
    CHAIN_JOIN, /* neither */
    CHAIN_HEAD,
    CHAIN_LOSS,
    CHAIN_GIVEN, /* costs are given: no math, no hidden width, no vocabulary */
    CHAIN_COUNT
};

struct layer_kind {
    const char *name, *doc;
    enum chain_place place;
    bool reads_image;           /* it may stand first, too: it then reads the model's image */
    bool planned;               /* no device computes all of its segments */
    bool mixes;                 /* tokens with one another: behind a layer that does not it begins a block */
    int min_inputs, max_inputs; /* layers that it reads, MAX_LAYER_INPUTS at most */
    const struct json_field *fields;
    size_t field_count, fields_bytes;
    const void *defaults; /* a fields struct: what absent optional keys mean */
    /* Fills in what follows from other fields and the model (kv_heads = heads). May be NULL: nothing follows. */
    void (*resolve)(const struct model *model, void *fields);
    /* Contradictions between fields and with the model (heads that do not divide hidden); reports at `at`.
     * May be NULL: every combination makes sense. */
    bool (*check)(const struct model *model, const void *fields, const struct json *at, struct error *err);
    /* Adds values, weights and segments of one layer. */
    bool (*build)(struct graph_builder *builder, const struct model *model, const void *fields, struct error *err);
};
extern const struct layer_kind *const layer_kinds[]; /* from kinds.def, NULL-terminated */
const struct layer_kind *layer_kind_find(const char *name);
/* True when two field structs of one kind say the same, names aside. */
bool layer_fields_equal(const struct layer_kind *kind, const void *a, const void *b);
/* Gives field structs that are equal the same hash. */
uint64_t layer_fields_hash(const struct layer_kind *kind, const void *fields);
/* Writes the members of a field table in order, without nodes; optional ones only where they differ from the defaults.
 */
void fields_write(struct json_writer *w, const struct json_field *fields, size_t count, const void *data,
                  const void *defaults);
/* The member that a message should point at: object's key, or object itself. */
const struct json *json_at_key(const struct json *object, const char *key);
#endif
