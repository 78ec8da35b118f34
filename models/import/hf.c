/* Hugging Face config.json, dispatched on model_type, else on the class, else on the file's name. Key names and their
 * defaults are those of the transformers library's configuration classes. What would change the mathematics and cannot
 * be said here is refused or named in a note, never dropped in silence; dropout alone is ignored, since it changes
 * neither shapes nor costs to speak of. */
#include "models/import/hf_facts.h"
#include "base/text.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct hf_family *const *const groups[] = { hf_llamas,  hf_gpts,    hf_experts,    hf_encoders,
                                                         hf_hybrids, hf_states,  hf_linears,    hf_seq2seqs,
                                                         hf_images,  hf_gemmas,  hf_recurrents, hf_sounds,
                                                         hf_latents, hf_sparses, hf_originals };
enum { GROUPS = sizeof groups / sizeof *groups, MOST_FURTHER = 16 };

/* ---- which family ---- */

static bool has_word(const char *words, const char *word)
{
    size_t length = strlen(word);
    for (const char *at = words; at && length && (at = strstr(at, word)); at++)
        if (at > words && at[-1] == ' ' && at[length] == ' ')
            return true;
    return false;
}

static const struct hf_family *find_type(const char *type)
{
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g][i]; i++)
            if (strcmp(groups[g][i]->type, type) == 0 || has_word(groups[g][i]->others, type))
                return groups[g][i];
    return NULL;
}

/* How much of a class's name is the family's: what stands before the first word that says what the class does. */
static size_t family_length(const char *name)
{
    static const char *const words[] = { "For", "LMHead", "DoubleHeads", "With", "Model", "Encoder", "PreTrained" };
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *at = strstr(name, words[i]);
        length = at && (size_t)(at - name) < length ? (size_t)(at - name) : length;
    }
    return length;
}

/* Without regard to case: the first Llamas call themselves LLaMAForCausalLM. */
static bool is_of_family(const char *class_name, const struct hf_family *family)
{
    size_t length = family_length(class_name);
    return length == family_length(family->class_name) && strncasecmp(class_name, family->class_name, length) == 0;
}

static const struct hf_family *find_class(const char *class_name)
{
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g][i]; i++)
            if (is_of_family(class_name, groups[g][i]))
                return groups[g][i];
    return NULL;
}

/* As the library does where nothing else says it: the longest model_type that the path holds. */
static const struct hf_family *find_in_name(const char *name)
{
    const struct hf_family *found = NULL;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g][i]; i++)
            if (strstr(name, groups[g][i]->type) && (!found || strlen(groups[g][i]->type) > strlen(found->type)))
                found = groups[g][i];
    return found;
}

/* The classes, where the file lists any, must be the family's; a type that stands for another family's class (kimi_k2)
 * has that one's. */
static bool check_classes(struct hf_reader *r, const char *type)
{
    const struct json *list = hf_given(r->top, "architectures");
    const char *found;
    int line, column;
    if (list && json_type(list) != JSON_ARRAY)
        return json_fail(list, r->err, "expected an array of names of classes, found %s",
                         json_type_name(json_type(list)));
    json_position(json_at_key(r->top, "model_type"), &line, &column);
    for (int i = 0; list && i < json_count(list); i++) {
        if (!json_string(json_at(list, i), &found, r->err))
            return false;
        const struct hf_family *other = find_class(found);
        if (!r->nested && other && other != r->family && !is_of_family(found, r->family) &&
            strcmp(r->family->type, type) == 0)
            return json_fail(json_at(list, i), r->err,
                             "expected a class of the model_type (\"%s\" at line %d, column %d) such as %s, found "
                             "\"%.64s\": correct the one that is wrong",
                             type, line, column, r->family->class_name, found);
    }
    return true;
}

/* True when the words differ in numbers alone, of which *version is the second's first. */
static bool is_other_version(const char *a, const char *b, int64_t *version)
{
    *version = -1;
    for (; *a || *b; a++, b++) {
        if (isdigit((unsigned char)*a) && isdigit((unsigned char)*b)) {
            int64_t own = 0;
            for (; isdigit((unsigned char)*b) && own < 100000; b++)
                own = 10 * own + (*b - '0');
            a += strspn(a, "0123456789");
            *version = *version < 0 ? own : *version;
        }
        if (*a != *b)
            return false;
        if (!*a)
            break;
    }
    return *version >= 0;
}

/* The last version of such a family, which a newer one most likely goes on from; NULL: none is. */
static const struct hf_family *last_version(const char *type)
{
    const struct hf_family *found = NULL;
    int64_t version, last = -1;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g][i]; i++)
            if (is_other_version(type, groups[g][i]->type, &version) && version > last) {
                last = version;
                found = groups[g][i];
            }
    return found;
}

/* The family whose model_type is spelled most alike; of equally alike ones the first. */
static const struct hf_family *nearest(const char *type)
{
    const char *names[256];
    size_t count = 0;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g][i] && count < 256; i++)
            names[count++] = groups[g][i]->type;
    if (last_version(type))
        return last_version(type);
    const char *near = text_nearest(type, names, count);
    if (near)
        return find_type(near);
    /* Words that begin alike are of one maker. */
    const struct hf_family *found = NULL;
    size_t longest = 3;
    for (int g = 0; g < GROUPS; g++)
        for (int i = 0; groups[g][i]; i++) {
            size_t same = 0;
            while (type[same] && type[same] == groups[g][i]->type[same])
                same++;
            if (same > longest) {
                longest = same;
                found = groups[g][i];
            }
        }
    return found;
}

/* Files of the makers' own, which say neither model_type nor architectures: their keys tell more than their names. */
static const struct hf_family *by_keys_of_makers(const struct json *root)
{
    if (hf_given(root, "ssm_cfg"))
        return find_type("mamba_ssm");
    if (hf_given(root, "dim") && hf_given(root, "n_layers"))
        return find_type(hf_given(root, "activation") ? "distilbert" : "llama_params");
    return NULL;
}

/* What the keys that are there look like. */
static const struct hf_family *by_keys(const struct json *root)
{
    if (by_keys_of_makers(root))
        return by_keys_of_makers(root);
    if (hf_given(root, "kv_lora_rank"))
        return find_type("deepseek_v3");
    if (hf_given(root, "num_local_experts"))
        return find_type("mixtral");
    if (hf_given(root, "num_experts") || hf_given(root, "n_routed_experts"))
        return find_type("qwen3_moe");
    if (hf_given(root, "type_vocab_size")) {
        int64_t types = 0;
        return find_type(json_int(hf_given(root, "type_vocab_size"), 0, 1 << 20, &types, NULL) && types == 1 ? "roberta"
                                                                                                             : "bert");
    }
    if (hf_given(root, "n_embd"))
        return find_type("gpt2");
    return find_type("llama");
}

/* What known models have that no kind of layer is. */
static const char *lacking(const char *type)
{
    static const struct {
        const char *types, *lacks;
    } known[] = {
        { " hymba ", "attention and a state space side by side" },
        { " kimi_k3 inkling2 inkling2_text inkling2_loop inkling2_loop_text ",
          "sums of the stream over blocks by attention" },
        { " blt ", "patches of bytes, whose lengths another model chooses" },
        { " xlstm ", "recurrences of matrices with exponential gates" },
        { " rwkv5 rwkv6 rwkv7 ", "RWKV's later time mixing" },
        { " reformer ", "its form of attention" },
        { " vision-encoder-decoder speech-encoder-decoder encoder-decoder ",
          "an encoder and a decoder of other families" },
        { " swin swinv2 convnext convnextv2 resnet ", "blocks of images other than ViT's" },
        { " clap blip ", "two towers whose outputs are held against each other" },
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (has_word(known[i].types, type))
            return known[i].lacks;
    return NULL;
}

static bool unknown(struct hf_reader *r, const struct json *at, const char *type)
{
    const char *lacks = lacking(type);
    if (lacks)
        return json_fail(at, r->err,
                         "%.64s has %s, which cannot be planned: no kind of layer is that; describe what is "
                         "near it in the native format, or read it as another family with --as",
                         type, lacks);
    const struct hf_family *spelled = nearest(type), *shaped = by_keys(r->root), *like = spelled ? spelled : shaped;
    return json_fail(at, r->err,
                     "no family of this importer has the model_type \"%.64s\"; the nearest is %s: cleave import FILE "
                     "--as %s reads it "
                     "as a %s, that is with %s norms, %s network and %s positions; or describe the model in the native "
                     "format",
                     type, like->type, like->type, like->class_name, like->facts.norm == NORM_RMS ? "RMS" : "layer",
                     like->facts.gated ? "a gated" : "an ungated",
                     like->facts.place == HF_ROTARY    ? "rotary"
                     : like->facts.place == HF_LEARNED ? "learned"
                                                       : "no learned");
}

static bool find_family(struct hf_reader *r, const char *name)
{
    const struct json *at = hf_given(r->root, "model_type"), *list = hf_given(r->root, "architectures");
    const char *type = "", *class_name = "";
    if (at && !json_string(at, &type, r->err))
        return false;
    if (list && json_type(list) == JSON_ARRAY && json_count(list) > 0 &&
        !json_string(json_at(list, 0), &class_name, r->err))
        return false;
    if (r->reading && r->reading->as) {
        r->family = find_type(r->reading->as);
        if (!r->family)
            return unknown(r, r->root, r->reading->as);
        hf_note(r, "read as %s, as --as says: what this family has and the file does not name is assumed",
                r->family->type);
        return true;
    }
    if (!at && r->nested && hf_given(r->top, "model_type")) /* of the larger model, then */
        if (!json_string(at = hf_given(r->top, "model_type"), &type, r->err))
            return false;
    r->family = find_type(type);
    if (!r->family && *class_name)
        r->family = find_class(class_name);
    if (r->family)
        return check_classes(r, type);
    if (r->nested && at && !hf_given(r->root, "model_type")) { /* many such models are around a Llama */
        r->family = by_keys(r->root);
        hf_note(r, "the text part says no model_type: read as %s, after its keys", r->family->type);
        return true;
    }
    if (at || *class_name)
        return unknown(r, at ? at : json_at(list, 0), at ? type : class_name);
    const struct hf_family *named = by_keys_of_makers(r->root) ? NULL : find_in_name(name);
    r->family = named ? named : by_keys(r->root);
    hf_note(r, "the file has neither model_type nor architectures: read as %s, after its %s", r->family->type,
            named ? "name" : "keys");
    return true;
}

/* ---- the whole ---- */

static bool hf_detect(const struct json *root)
{
    static const char *const keys[] = { "model_type", "architectures", "num_hidden_layers", "n_layer", "n_layers" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (json_member(root, keys[i]))
            return true;
    return false;
}

/* A class without a head: one of the vocabulary that shares the table of tokens adds none. Encoders like BERT pass the
 * first token through a square matrix in its place. */
static void without_head(struct hf_reader *r, const char *name)
{
    struct hf_facts *f = &r->facts;
    if (f->image_size) {
        f->pooled = f->transform = f->transform_bias = has_word(" vit deit ", r->family->type);
        hf_note(r, "%s has no classes: planned with those of the file, or two", name);
        return;
    }
    f->tied = true;
    f->head_bias = false;
    f->pooled = f->transform = has_word(" bert roberta roberta-prelayernorm mpnet rembert ", r->family->type);
    hf_note(r, "%s has no head: planned with logits of the vocabulary, by the table of tokens", name);
}

/* A head of classes instead of the vocabulary, where the first class says so. */
static bool read_classes(struct hf_reader *r)
{
    const struct json *list = hf_given(r->top, "architectures"), *labels = hf_given(r->top, "id2label");
    struct hf_facts *f = &r->facts;
    const char *name = "";
    if (!list || json_type(list) != JSON_ARRAY || json_count(list) < 1)
        return true;
    if (!json_string(json_at(list, 0), &name, r->err))
        return false;
    if (f->decoder_blocks) {
        f->encoder_only = f->relative_buckets && strstr(name, "EncoderModel");
        if (f->encoder_only) {
            f->tied = f->encoder = true;
            f->logit_scale = 0;
            hf_note(r, "%s has no decoder and no head: planned with logits of the vocabulary, by the table of tokens",
                    name);
        }
        return true;
    }
    size_t length = strlen(name);
    bool sequence = strstr(name, "ForSequenceClassification") != NULL;
    if ((!r->nested || f->image_size) && length > 5 && strcmp(name + length - 5, "Model") == 0 &&
        !strstr(name, "HeadModel") && !strstr(name, "For") && strcmp(name, r->family->class_name) != 0)
        without_head(r, name);
    if (f->image_size)
        return true;
    if (strcmp(name, "BertForPreTraining") == 0)
        hf_note(r, "%s: left out: what tells whether sentences follow each other, %lld weights", name,
                (long long)(f->hidden * f->hidden + 3 * f->hidden + 2));
    if (strcmp(name, "ElectraForPreTraining") == 0) { /* whether a token was replaced */
        f->classes = 1;
        f->tied = false;
        hf_note(r, "%s: the head tells replaced tokens", name);
        return true;
    }
    bool span = strstr(name, "ForQuestionAnswering") != NULL; /* whether a token begins or ends the answer */
    if (!sequence && !span && !strstr(name, "ForTokenClassification"))
        return true;
    if (!hf_get_size(r->top, "num_labels", 2, &f->classes, r->err))
        return false;
    if (span)
        f->classes = 2;
    else if (labels && json_type(labels) == JSON_OBJECT && json_count(labels) > 0)
        f->classes = json_count(labels);
    if (f->classes > f->vocab)
        return json_fail(labels ? labels : r->top, r->err,
                         "expected at most as many classes as tokens (%lld), found %lld", (long long)f->vocab,
                         (long long)f->classes);
    f->tied = false;
    f->transform = sequence && f->encoder;
    hf_note(r, "%s: the head gives %lld classes%s", name, (long long)f->classes,
            sequence ? ", planned at every token instead of one of each sequence" : "");
    return true;
}

static bool set_sequence(struct hf_reader *r, struct model_head *head)
{
    const struct hf_facts *f = &r->facts;
    head->sequence = f->positions;
    if (r->reading && r->reading->sequence) {
        if (f->place == HF_LEARNED && r->reading->sequence > f->positions)
            return json_fail(hf_place_of(r, HF_FACT(positions)), r->err,
                             "expected a sequence of at most the file's %lld learned positions, found --seq %lld",
                             (long long)f->positions, (long long)r->reading->sequence);
        head->sequence = r->reading->sequence;
    } else if (!hf_is_given(r, HF_FACT(positions)) && !f->image_size && !(r->reading && r->reading->length_given)) {
        hf_note(r, "the file says no %s: sequences of %lld tokens are assumed; --seq says another length",
                hf_name_of(r, HF_FACT(positions)), (long long)f->positions);
    }
    return true;
}

static bool read_head(struct hf_reader *r, struct model_head *head)
{
    *head = model_head_defaults;
    if (!hf_get_string(r->top, "_name_or_path", r->family->type, &head->name, r->err) || !hf_read_facts(r) ||
        !read_classes(r))
        return false;
    if (!*head->name)
        head->name = "model";
    head->hidden = r->facts.hidden;
    head->vocab_size = r->facts.classes ? r->facts.classes : r->facts.vocab;
    head->tied_embedding = r->facts.tied;
    head->init_std = r->facts.init_std;
    return set_sequence(r, head);
}

/* Whatever came of the keys must be a description in the native format, whose tables have the ranges. */
static bool check_ranges(struct hf_reader *r, const struct model *model)
{
    struct model *copy = NULL;
    struct error err = { 0 };
    size_t length;
    char *text = model_write(model, &length);
    if (!text)
        return fail_memory(r->err);
    bool ok = model_read(&copy, "as native JSON", text, length, NULL, &err);
    free(text);
    model_free(copy);
    if (err.kind == ERROR_ENVIRONMENT)
        return fail_kind(r->err, err.kind, "%s", err.message);
    return ok || json_fail(r->root, r->err, "expected sizes that a model can have: %s", err.message);
}

static bool adapt(void *self, const struct json *root, struct error *err)
{
    (void)err; /* the reader's own */
    return hf_adapt(self, root);
}

static bool read_adapter(struct hf_reader *r)
{
    const struct model_reading *how = r->reading;
    return !how || !how->adapter ||
           json_parse_with(how->adapter_name, how->adapter, how->adapter_length, adapt, r, r->err);
}

/* Bits of a weight in none of these forms: GPTQ and AWQ say a number, others the name of their method
 * (transformers/utils/quantization_config.py); 0: it does not say. */
static int64_t quantized_bits(const struct json *config)
{
    int64_t bits = 0;
    const char *method = "";
    hf_get_count(config, "bits", 0, &bits, NULL);
    hf_get_string(config, "quant_method", "", &method, NULL);
    return strstr(method, "fp4") ? 4 : strstr(method, "fp8") ? 8 : bits <= 8 ? bits : 0;
}

/* The form that words of bitsandbytes, GPTQ and AWQ say; QUANTIZED_NONE: others', whose weights have the plan's dtype.
 */
static enum quantized quantized_form(const struct json *config)
{
    bool four = false, eight = false, twice = false;
    int64_t bits = 0, group = 0;
    const char *method = "";
    hf_get_count(config, "bits", 0, &bits, NULL);
    hf_get_count(config, "group_size", 128, &group, NULL);
    hf_get_string(config, "quant_method", "", &method, NULL);
    if ((strcmp(method, "gptq") == 0 || strcmp(method, "awq") == 0) && bits == 4 && group == 128)
        return QUANTIZED_INT4;
    hf_get_bool(config, "load_in_4bit", false, &four, NULL);
    hf_get_bool(config, "load_in_8bit", false, &eight, NULL);
    hf_get_bool(config, "bnb_4bit_use_double_quant", false, &twice, NULL);
    return four ? (twice ? QUANTIZED_NF4_DOUBLE : QUANTIZED_NF4) : eight ? QUANTIZED_INT8 : QUANTIZED_NONE;
}

/* Whether other matrices than the head are left as they are. */
static bool skips_some(const struct json *config)
{
    const struct json *skipped = hf_given(config, "llm_int8_skip_modules");
    for (int i = 0; skipped && i < json_count(skipped); i++) {
        const char *name = "";
        if (!json_string(json_at(skipped, i), &name, NULL) || strcmp(name, "lm_head") != 0)
            return true;
    }
    return false;
}

/* Frozen matrices are stored as the file says, unless whoever reads it says otherwise. What is trained has the plan's
 * dtype, whatever the file has it in. */
static void read_quantization(struct hf_reader *r)
{
    const struct json *config = hf_given(r->top, "quantization_config");
    config = config ? config : hf_given(r->root, "quantization_config");
    if (!config || json_type(config) != JSON_OBJECT || (r->reading && r->reading->quantized))
        return;
    r->quantized = r->adapted ? quantized_form(config) : QUANTIZED_NONE;
    int64_t bits = quantized_bits(config);
    if (!r->adapted)
        hf_note(r, "quantization_config: weights are planned as trained in the plan's dtype, not as the file has them");
    else if (r->quantized && skips_some(config))
        hf_note(r,
                "quantization_config: frozen matrices are planned in %s, also those that llm_int8_skip_modules names",
                quantized_names[r->quantized]);
    else if (r->quantized)
        hf_note(r, "quantization_config: frozen matrices are stored in %s, and expanded for each product",
                quantized_names[r->quantized]);
    else if (bits > 0)
        hf_note(r,
                "quantization_config: frozen weights are planned in the plan's dtype: in 16 bits they take %.3g times "
                "the memory of the file's %lld bits; unpacking is not priced",
                16. / (double)bits, (long long)bits);
    else
        hf_note(r, "quantization_config: frozen weights are planned in the plan's dtype, which takes more memory than "
                   "the file's; unpacking is not priced");
}

static bool make(struct hf_reader *r, struct model **out)
{
    struct model_head head;
    if (!read_head(r, &head))
        return false;
    if (r->family->head && !r->family->head(r, &head))
        return false;
    if (!hf_fill_blocks(r))
        return false;
    if (!read_adapter(r))
        return false;
    r->further = r->reading && r->reading->multi_token;
    if (r->further && (!r->facts.token_blocks || r->family->add))
        return json_fail(r->root, r->err,
                         "expected a file that names blocks for further tokens (%s), found none: leave out --mtp",
                         hf_name_of(r, HF_FACT(token_blocks)));
    if (r->further && r->facts.token_blocks > MOST_FURTHER)
        return json_fail(hf_place_of(r, HF_FACT(token_blocks)), r->err,
                         "expected at most %d blocks for further tokens, found %lld", MOST_FURTHER,
                         (long long)r->facts.token_blocks);
    hf_note_left_out(r);
    read_quantization(r);
    if (r->facts.left_out.positions)
        head.left_out = r->facts.left_out;
    head.left_out.adapter_dropout = r->facts.left_out.adapter_dropout;
    head.left_out.adapter_init = r->facts.left_out.adapter_init;
    head.left_out.adapter_modules = r->facts.left_out.adapter_modules;
    head.left_out.further_blocks = r->further ? 0 : r->facts.token_blocks;
    struct model *model = model_new(&head);
    if (!model)
        return fail_memory(r->err);
    if ((r->family->add ? r->family->add : hf_add_chain)(r, model) && check_ranges(r, model)) {
        *out = model;
        return true;
    }
    model_free(model);
    return false;
}

static bool hf_read(struct model **out, const struct json *root, const char *name, struct model_reading *reading,
                    struct error *err)
{
    struct hf_reader *r = calloc(1, sizeof *r);
    if (!r)
        return fail_memory(err);
    *r = (struct hf_reader){ .top = root, .root = root, .reading = reading, .err = err };
    bool ok = hf_enter_text(r) && find_family(r, name) && make(r, out);
    arena_free(&r->arena);
    free(r);
    return ok;
}

extern const struct importer hf_importer;
const struct importer hf_importer = {
    .name = "huggingface",
    .doc = "Hugging Face config.json",
    .detect = hf_detect,
    .read = hf_read,
};
