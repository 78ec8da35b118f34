/* PEFT's adapter_config.json (Hu et al. 2021): which matrices of a frozen model have low-rank adapters. */
#include "models/import/hf_facts.h"
#include "models/import/hf_tensors.h"
#include "models/kinds/lora.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { Q = 1, K = 2, V = 4, O = 8, GATE = 1, UP = 2, DOWN = 4 };

/* Names of matrices in the libraries' models, and the bits of the kinds' lists that they are. */
static const struct {
    const char *name;
    int attention, mlp;
    bool fused; /* one adapter there, several here */
} modules[] = {
    { "q_proj", Q, 0, false },
    { "k_proj", K, 0, false },
    { "v_proj", V, 0, false },
    { "o_proj", O, 0, false },
    { "out_proj", O, 0, false },
    { "query", Q, 0, false },
    { "key", K, 0, false },
    { "value", V, 0, false },
    { "dense", O, 0, false },
    { "query_key_value", Q | K | V, 0, true },
    { "qkv_proj", Q | K | V, 0, true },
    { "c_attn", Q | K | V, 0, true },
    { "W_pack", Q | K | V, 0, true },
    { "Wqkv", Q | K | V, 0, true },
    { "c_proj", O, DOWN, false },
    { "gate_proj", 0, GATE, false },
    { "up_proj", 0, UP, false },
    { "down_proj", 0, DOWN, false },
    { "gate_up_proj", 0, GATE | UP, true },
    { "fc1", 0, UP, false },
    { "fc2", 0, DOWN, false },
    { "fc_in", 0, UP, false },
    { "fc_out", 0, DOWN, false },
    { "c_fc", 0, UP, false },
    { "dense_h_to_4h", 0, UP, false },
    { "dense_4h_to_h", 0, DOWN, false },
    { "all-linear", Q | K | V | O, GATE | UP | DOWN, false },
};

enum { MODULES = sizeof modules / sizeof *modules, ALL_LINEAR = MODULES - 1 };

/* What has adapters: bits of the kinds' lists, and names as the file has them, between commas. */
struct adapted {
    int attention, mlp, count;
    struct text names;
    struct text of_attention, of_mlp; /* those among them that have bits of each */
    bool renamed;                     /* a name is none of the kinds' own */
};

/* The bits of a name that a matrix of the model has. Of families without a table of tensors any is taken for one. */
static void find_module(const struct hf_reader *r, size_t module, int *attention, int *mlp)
{
    const char *type = NULL;
    const struct json *at = hf_given(r->root, "model_type");
    bool named = at && json_type(at) == JSON_STRING && json_string(at, &type, r->err);
    const struct hf_tensor_names *family = named ? hf_tensor_names_of(type) : NULL;
    char inside[64];
    snprintf(inside, sizeof inside, ".%s.weight", modules[module].name);
    *attention = family ? 0 : modules[module].attention;
    *mlp = family ? 0 : modules[module].mlp;
    for (int g = 0; family && g < HF_ROW_GROUPS && family->groups[g]; g++)
        for (const struct hf_tensor_row *row = family->groups[g]; row->kind; row++)
            if (strstr(row->name, inside)) {
                *attention |= strcmp(row->kind, "attention") == 0 ? modules[module].attention : 0;
                *mlp |= strcmp(row->kind, "attention") == 0 ? 0 : modules[module].mlp;
            }
}

/* Keeps the names that notes have of what gets no adapter. */
static void add_names(struct adapted *out, const char *name, int attention, int mlp)
{
    if (attention)
        text_printf(&out->of_attention, "%s%s", out->of_attention.length > 0 ? ", " : "", name);
    if (mlp)
        text_printf(&out->of_mlp, "%s%s", out->of_mlp.length > 0 ? ", " : "", name);
}

static void add_module(struct hf_reader *r, struct adapted *out, size_t module, int attention, int mlp)
{
    static const char own[] = " q_proj k_proj v_proj o_proj gate_proj up_proj down_proj ";
    char between[64];
    snprintf(between, sizeof between, " %s ", modules[module].name);
    out->renamed = out->renamed || !strstr(own, between);
    text_printf(&out->names, "%s%s", out->count++ ? "," : "", modules[module].name);
    out->attention |= attention;
    out->mlp |= mlp;
    add_names(out, modules[module].name, attention, mlp);
    if (modules[module].fused)
        hf_note(r, "%s is several matrices here, with an adapter each", modules[module].name);
}

/* Every matrix that the family's table names; without a table PEFT finds them, but not among experts. */
static void add_all(struct hf_reader *r, struct adapted *out)
{
    int attention, mlp;
    find_module(r, ALL_LINEAR, &attention, &mlp);
    if (attention | mlp) {
        if (r->facts.experts) {
            out->attention |= attention, out->mlp |= mlp, out->count++;
            add_names(out, modules[ALL_LINEAR].name, attention, mlp);
        } else {
            add_module(r, out, ALL_LINEAR, attention, mlp);
        }
        return;
    }
    for (size_t i = 0; i < ALL_LINEAR; i++) {
        find_module(r, i, &attention, &mlp);
        if (attention | mlp)
            add_module(r, out, i, attention, mlp);
    }
}

static bool read_module(struct hf_reader *r, const struct json *at, struct adapted *out)
{
    const char *name;
    size_t i = 0;
    int attention, mlp;
    if (!json_string(at, &name, r->err))
        return false;
    while (i < MODULES && strcmp(modules[i].name, name) != 0)
        i++;
    if (i == MODULES)
        return json_fail(at, r->err,
                         "expected the name of a matrix of attention or of a dense network such as \"q_proj\", or "
                         "\"all-linear\", found \"%.64s\": no other matrix can have an adapter",
                         name);
    if (i == ALL_LINEAR) {
        add_all(r, out);
        return true;
    }
    find_module(r, i, &attention, &mlp);
    if (attention | mlp)
        add_module(r, out, i, attention, mlp);
    else
        hf_note(r, "%s is no matrix of the model: PEFT passes over it", name);
    return true;
}

static bool read_modules(struct hf_reader *r, const struct json *root, struct adapted *out)
{
    const struct json *list;
    if (!json_require(root, "target_modules", &list, r->err))
        return false;
    bool whole = json_type(list) != JSON_ARRAY;
    int count = whole ? 1 : json_count(list);
    for (int i = 0; i < count; i++)
        if (!read_module(r, whole ? list : json_at(list, i), out))
            return false;
    if (count == 0)
        return json_fail(list, r->err, "expected at least one matrix, found none");
    return out->count > 0 ||
           json_fail(list, r->err, "expected the name of a matrix that the model has: PEFT refuses others");
}

/* What an adapter begins with and drops changes no shape: launches say it, and frameworks that drop have a price of it.
 */
static bool read_beside(struct hf_reader *r, const struct json *root, struct lora *lora)
{
    static const char *const inits[] = { "gaussian", "orthogonal", NULL };
    struct model_left_out *left = &r->facts.left_out;
    const struct json *init = hf_given(root, "init_lora_weights");
    bool scaled, random = true;
    if (!hf_get_bool(root, "use_rslora", false, &scaled, r->err) ||
        !hf_get_double(root, "lora_dropout", 1, 0, &left->adapter_dropout, r->err))
        return false;
    if (scaled) { /* peft/tuners/lora/layer.py: alpha over the root of the rank */
        lora->alpha *= sqrt((double)lora->rank);
        hf_note(r, "use_rslora is planned and written as the lora_alpha that scales alike, %g", lora->alpha);
    }
    if (left->adapter_dropout > 0)
        hf_note(r,
                "lora_dropout %g is written into launches, and its time and memory are predicted for accelerate and "
                "DeepSpeed; cleave run drops nothing",
                left->adapter_dropout);
    if (!init || json_type(init) != JSON_STRING)
        return !init ||
               (json_bool(init, &random, r->err) &&
                (random || json_fail(init, r->err, "only true, \"gaussian\" and \"orthogonal\" are supported")));
    const char *word;
    if (!hf_need_word(root, "init_lora_weights", inits[0], inits, r->err) || !json_string(init, &word, r->err))
        return false; /* others change the frozen weights */
    for (int i = 0; inits[i]; i++)
        if (strcmp(inits[i], word) == 0)
            left->adapter_init = inits[i];
    return true;
}

/* What would train more than the adapters, or others. */
static bool check_rest(struct hf_reader *r, const struct json *root)
{
    static const char *const types[] = { "LORA", NULL }, *const biases[] = { "none", NULL };
    static const char *const lists[] = { "modules_to_save",        "layers_to_transform", "rank_pattern",
                                         "alpha_pattern",          "target_parameters",   "exclude_modules",
                                         "trainable_token_indices" };
    if (!hf_need_word(root, "peft_type", "LORA", types, r->err) ||
        !hf_need_word(root, "bias", "none", biases, r->err) || !hf_need_bool(root, "use_dora", false, r->err) ||
        !hf_need_bool(root, "lora_bias", false, r->err) || !hf_need_bool(root, "use_qalora", false, r->err))
        return false;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        const struct json *at = hf_given(root, lists[i]);
        if (at && (json_count(at) > 0 || json_type(at) == JSON_STRING))
            return json_fail(at, r->err,
                             "expected none: adapters are the same in all blocks, and nothing else is trained");
    }
    return true;
}

static bool take_modules(struct hf_reader *r, const struct json *root, struct adapted *out)
{
    bool good = read_modules(r, root, out);
    if (good && out->renamed)
        r->facts.left_out.adapter_modules =
            out->names.failed ? NULL : arena_strdup(&r->arena, out->names.data ? out->names.data : "");
    bool lost =
        (good && out->renamed && !r->facts.left_out.adapter_modules) || out->of_attention.failed || out->of_mlp.failed;
    text_free(&out->names);
    return lost ? fail_memory(r->err) : good;
}

static void note_blocks(struct hf_reader *r, const struct text *names, int64_t count, const char *what)
{
    if (count > 0 && names->length > 0)
        hf_note(r,
                "%.200s: %s of %lld blocks have no adapters here; PEFT gives one to each of their matrices that is "
                "called so",
                names->data, what, (long long)count);
}

/* Adapters are planned in softmax attention and in dense networks alone; PEFT goes by names. */
static void note_frozen(struct hf_reader *r, const struct adapted *adapted)
{
    int64_t latent = 0, states = 0, linear = 0, shared = 0, further = 0;
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        const struct hf_block *b = &r->blocks[i];
        latent += b->mixer == HF_LATENT;
        linear += b->mixer == HF_LINEAR;
        states += b->mixer == HF_STATE_SPACE || b->beside || b->behind;
        shared += b->network == HF_MOE && b->moe.shared_inner > 0;
        further += b->both || b->last.inner > 0;
    }
    note_blocks(r, &adapted->of_attention, latent, "the latent attention");
    note_blocks(r, &adapted->of_attention, linear, "the linear attention");
    note_blocks(r, &adapted->of_attention, states, "the state spaces");
    note_blocks(r, &adapted->of_mlp, shared, "the shared experts");
    note_blocks(r, &adapted->of_mlp, further, "the second networks");
    if (r->facts.experts && adapted->mlp)
        hf_note(r, "experts have no adapters: the networks of blocks with experts are frozen as they are");
}

static bool adapt(struct hf_reader *r, const struct json *root, struct adapted *adapted)
{
    struct lora lora = { 0 };
    bool some = false;
    if (!hf_expect_object(root, r->err) || !check_rest(r, root) || !hf_get_size(root, "r", 8, &lora.rank, r->err) ||
        !hf_get_double(root, "lora_alpha", 1e6, LORA_ALPHA, &lora.alpha, r->err) || !read_beside(r, root, &lora) ||
        !take_modules(r, root, adapted))
        return false;
    const int attention = adapted->attention, mlp = adapted->mlp;
    if (lora.rank > 1 << 20 || lora.alpha < 1e-6)
        return json_fail(root, r->err, "expected a rank r up to %d and a positive lora_alpha, found %lld and %g",
                         1 << 20, (long long)lora.rank, lora.alpha);
    for (int64_t i = 0; i < r->facts.blocks; i++) {
        struct hf_block *b = &r->blocks[i];
        const int gates = b->mlp.activation == ACTIVATION_SWIGLU || b->mlp.activation == ACTIVATION_GEGLU ||
                                  b->mlp.activation == ACTIVATION_GEGLU_ERF
                              ? GATE
                              : 0;
        if (b->mixer == HF_ATTENTION && attention) {
            b->attention.lora = lora;
            b->attention.lora.targets = attention;
        }
        if (b->network == HF_MLP && mlp & (gates | UP | DOWN)) {
            b->mlp.lora = lora;
            b->mlp.lora.targets = mlp & (gates | UP | DOWN);
        }
        some |= b->attention.lora.targets || b->mlp.lora.targets;
    }
    note_frozen(r, adapted);
    r->adapted = true;
    return some || json_fail(root, r->err,
                             "expected a matrix of softmax attention or of a dense network among target_modules, "
                             "which alone have adapters here: the model has none of them");
}

bool hf_adapt(struct hf_reader *r, const struct json *root)
{
    struct adapted adapted = { 0 };
    bool good = adapt(r, root, &adapted);
    text_free(&adapted.of_attention);
    text_free(&adapted.of_mlp);
    return good;
}
