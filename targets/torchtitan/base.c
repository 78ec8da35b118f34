/* The configuration that a launch names, and what it says where the launch does not: torchtitan's own functions of
 * config_registry. */
#include "targets/torchtitan/torchtitan.h"
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* What the shape says of the launch; of llamas the model too. */
static bool use_model(struct titan_reading *r, const struct titan_model *m, double theta, bool tied)
{
    struct text text = { 0 };
    char base[TEXT_NUMBER_BYTES];
    r->blocks = m->blocks;
    r->kv_heads = m->kv_heads;
    r->has_experts = m->experts > 0;
    r->out->zoo = m->zoo;
    r->out->hub = m->hub;
    if (!titan_describes(m))
        return true;
    text_printf(&text,
                "{\"architectures\":[\"LlamaForCausalLM\"],\"model_type\":\"llama\",\"hidden_size\":%lld,"
                "\"num_hidden_layers\":%lld,\"num_attention_heads\":%lld,\"num_key_value_heads\":%lld,"
                "\"intermediate_size\":%lld,\"vocab_size\":%lld,\"max_position_embeddings\":131072,"
                "\"rope_theta\":%s,\"rms_norm_eps\":1e-05,\"hidden_act\":\"silu\",\"tie_word_embeddings\":%s}",
                (long long)m->hidden, (long long)m->blocks, (long long)m->heads, (long long)m->kv_heads,
                (long long)m->inner, (long long)m->vocab_size, text_double(base, theta), tied ? "true" : "false");
    bool good = text.failed ? fail_memory(r->err)
                            : model_read(&r->out->model, "config.json", text.data, text.length, NULL, r->err);
    text_free(&text);
    return good || error_within(r->err, "%s: its model", r->settings.name);
}

/* A llama of another shape, as our own recipes build it. */
static bool read_shape(struct titan_reading *r)
{
    struct titan_model m = { .module = "llama3" };
    double theta = 10000;
    bool tied = false;
    struct {
        const char *key;
        int64_t *out;
    } sizes[] = {
        { "model_spec.model.dim", &m.hidden },
        { "model_spec.model.vocab_size", &m.vocab_size },
        { "model_spec.model.layers.n_layers", &m.blocks },
        { "model_spec.model.layers.n_heads", &m.heads },
        { "model_spec.model.layers.n_kv_heads", &m.kv_heads },
        { "model_spec.model.layers.hidden_dim", &m.inner },
    };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        bool said;
        if (!settings_int(&r->settings, sizes[i].key, 1, MOST_DEGREE, sizes[i].out, &said, r->err))
            return false;
        if (!said)
            return true; /* somebody's own: he gives the model beside it */
    }
    return settings_double(&r->settings, "model_spec.model.layers.rope.theta", 1, &theta, NULL, r->err) &&
           settings_bool(&r->settings, "model_spec.model.enable_weight_tying", &tied, NULL, r->err) &&
           use_model(r, &m, theta, tied);
}

/* What functions of config_registry.py set (torchtitan 0.3.0, models/MODULE/config_registry.py), as options say it:
 * those of debugmodels, of images and of other optimizers are left out. */
#define ONE_OF_8192 "--training.local_batch_size 1 --training.seq_len 8192 "
#define FOUR_OF_4096 "--training.local_batch_size 4 --training.seq_len 4096 "
#define TWO_OF_4096 "--training.local_batch_size 2 --training.seq_len 4096 "
#define SELECTIVE "--activation_checkpoint SelectiveAC "
#define FULL "--activation_checkpoint FullAC "
#define DEEPSEEK                                                                                                       \
    FOUR_OF_4096 SELECTIVE "--training.disable_cuda_graphs --parallelism.pipeline_parallel_schedule Interleaved1F1B "
static const struct config {
    const char *module, *name, *flavor, *options;
} configs[] = {
    { "llama3", "llama3_8b", "8B", ONE_OF_8192 SELECTIVE },
    { "llama3", "llama3_8b_mxfp8", "8B",
      ONE_OF_8192 SELECTIVE "--compile.enable --model.converters MXFP8LinearConverter" },
    { "llama3", "llama3_8b_first_85_pct_layers_nvfp4", "8B",
      ONE_OF_8192 SELECTIVE "--compile.enable --model.converters NVFP4LinearConverter" },
    { "llama3", "llama3_70b", "70B",
      "--training.local_batch_size 8 --training.seq_len 8192 --parallelism.tensor_parallel_degree 8 " FULL },
    { "llama3", "llama3_405b", "405B",
      "--training.local_batch_size 2 --training.seq_len 8192 --parallelism.tensor_parallel_degree 8 " FULL
      "--compile.enable --model.converters 'Float8LinearConverter(filter_fqns=lm_head)'" },
    { "qwen3", "qwen3_0_6b", "0.6B", FOUR_OF_4096 SELECTIVE },
    { "qwen3", "qwen3_1_7b", "1.7B", FOUR_OF_4096 SELECTIVE },
    { "qwen3", "sft_qwen3_8b_math", "8B", "--training.local_batch_size 1 --training.seq_len 2048 " SELECTIVE },
    { "qwen3", "qwen3_14b", "14B", FOUR_OF_4096 FULL },
    { "qwen3", "qwen3_32b", "32B", TWO_OF_4096 FULL },
    { "qwen3", "qwen3_30b_a3b", "30B-A3B", TWO_OF_4096 FULL },
    { "deepseek_v3", "deepseek_v3_16b", "16B", DEEPSEEK "--parallelism.expert_parallel_degree 8" },
    { "deepseek_v3", "deepseek_v3_671b", "671B", DEEPSEEK "--parallelism.expert_parallel_degree 2" },
    { "deepseek_v3", "deepseek_v3_671b_float8", "671B",
      DEEPSEEK "--parallelism.expert_parallel_degree 2 --model.converters "
               "'Float8LinearConverter(filter_fqns=lm_head),Float8GroupedExpertsConverter'" },
    { "gpt_oss", "gpt_oss_20b", "20b", ONE_OF_8192 FULL },
    { "gpt_oss", "gpt_oss_120b", "120b", ONE_OF_8192 FULL },
};

static const struct config *config_named(const char *name)
{
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
        if (strcmp(configs[c].name, name) == 0)
            return &configs[c];
    return NULL;
}

/* The module of the release that the launch names or imports from. */
static const char *module_of(struct titan_reading *r, const struct setting *module)
{
    const char *family = module ? module->value : NULL;
    for (int i = 0; i < r->settings.count; i++) {
        struct setting *one = &r->settings.list[i];
        if (strcmp(one->key, "import") != 0)
            continue;
        one->taken = true;
        const char *models = strstr(one->value, "torchtitan.models.");
        for (const struct titan_model *m = titan_models; m->module && models; m++) {
            size_t length = strlen(m->module);
            const char *after = models + strlen("torchtitan.models.");
            if (strncmp(after, m->module, length) == 0 && (after[length] == '.' || after[length] == ' '))
                family = m->module;
        }
    }
    return family;
}

/* The function that makes the configuration: that of --config, or one of the release that a recipe calls. */
static bool read_config(struct titan_reading *r, const char *family, const struct config **out)
{
    struct setting *named = NULL;
    for (int i = 0; i < r->settings.count; i++) {
        struct setting *one = &r->settings.list[i];
        bool here = strcmp(one->key, "config") == 0 && !one->taken;
        const struct config *config = here || r->form == TITAN_RECIPE ? config_named(one->value) : NULL;
        if (config && family && strcmp(config->module, family) == 0) {
            *out = config;
            one->taken = true;
            here = false;
        }
        named = here ? one : named;
    }
    if (*out) {
        struct settings own = { .arena = r->arena, .name = (*out)->name };
        bool good = settings_read_flags(&own, (*out)->options, strlen((*out)->options), r->err);
        own.name = r->settings.name;
        return good && settings_put_over(&own, &r->settings, r->err);
    }
    if (named) {
        struct text text = { 0 };
        text_printf(&text,
                    "%.200s, whose own settings are unknown: what the launch leaves open is assumed to be "
                    "torchtitan's own, 8 sequences of 2048 tokens on each rank, SelectiveAC, and degrees of 1",
                    named->value);
        named->value = text.failed ? NULL : arena_strdup(r->arena, text.data);
        named->unusual = true;
        text_free(&text);
    }
    return !named || named->value || fail_memory(r->err);
}

/* Whether the setting begins a configuration: Trainer.Config(...), config = base(), or return llama3_8b(). */
static bool begins_config(const struct setting *one)
{
    bool nameless = one->key[0] == '\0';
    return (strcmp(one->key, "config") == 0 && !one->taken) ||
           (nameless &&
            (strstr(one->value, "Trainer.Config") || strstr(one->value, "TrainerConfig") || config_named(one->value)));
}

/* Functions of one text that each make a configuration are several jobs, unless one calls the other and changes what it
 * gives. */
static bool refuse_several(const struct titan_reading *r)
{
    const struct setting *list = r->settings.list;
    struct text names = { 0 };
    int count = 0;
    for (int i = 0, next; i < r->settings.count; i = next) {
        bool makes = false, called = false;
        for (next = i + 1; next < r->settings.count && strcmp(list[next].key, "def") != 0; next++)
            makes = makes || begins_config(&list[next]);
        makes = makes && strcmp(list[i].key, "def") == 0;
        for (int s = 0; makes && s < r->settings.count; s++)
            called = called || (strcmp(list[s].value, list[i].value) == 0 && (s < i || s >= next));
        if (makes)
            text_printf(&names, "%s%.100s", names.length > 0 ? ", " : "", list[i].value);
        count += makes && !called;
    }
    bool good = names.failed ? fail_memory(r->err)
                             : count < 2 || fail(r->err, "%s: several configurations: %.600s; give one of them alone",
                                                 r->settings.name, names.data);
    text_free(&names);
    return good;
}

/* A flavor that the release spells otherwise is refused, as there; of one that nobody here knows the sizes of, that is
 * among what is not understood. */
static bool refuse_flavor(struct titan_reading *r, const char *family, const struct setting *flavor)
{
    struct setting *mine = r->settings.list + (flavor - r->settings.list);
    struct text known = { 0 };
    const char *meant = NULL;
    for (const struct titan_model *m = titan_models; m->module; m++)
        if (strcmp(family, m->module) == 0) {
            text_printf(&known, "%s%s", known.length > 0 ? ", " : "", m->flavor);
            meant = strcasecmp(flavor->value, m->flavor) == 0 ? m->flavor : meant;
        }
    bool good = known.length == 0 || !meant ||
                setting_fail(&r->settings, flavor, r->err, "found %.80s, did you mean %s; known are %s", flavor->value,
                             meant, known.data);
    if (good && known.length > 0) {
        struct text text = { 0 };
        text_printf(&text, "%.80s, whose sizes are not known: of %s those of %s are", flavor->value, family,
                    known.data);
        mine->value = text.failed ? NULL : arena_strdup(r->arena, text.data);
        mine->unusual = true;
        mine->taken = false;
        text_free(&text);
    }
    text_free(&known);
    return good && (mine->value || fail_memory(r->err));
}

bool titan_read_base(struct titan_reading *r)
{
    const struct config *config = NULL;
    const struct setting *module = settings_take(&r->settings, "module");
    if (r->form == TITAN_OPTIONS && module && strcmp(module->value, "cleave_recipe") == 0)
        return setting_fail(&r->settings, module, r->err,
                            "the settings are in the recipe: read cleave_recipe.py in place of this script");
    const char *family = module_of(r, module);
    if (r->form == TITAN_RECIPE && !refuse_several(r))
        return false;
    if (!read_config(r, family, &config))
        return false;
    bool own = settings_take(&r->settings, "model_spec.model") != NULL;
    if (own && !read_shape(r))
        return false;
    const struct setting *name = settings_take(&r->settings, "model.name");
    const struct setting *flavor = settings_take(&r->settings, "model.flavor");
    const struct setting *registry = settings_take(&r->settings, "model_spec.flavor");
    const char *kind = registry ? registry->value : flavor ? flavor->value : config ? config->flavor : NULL;
    family = name ? name->value : family;
    settings_take_all(&r->settings, (const char *const[]){ "model_spec", "model.", NULL });
    for (const struct titan_model *m = titan_models; m->module && family && kind && !own; m++)
        if (strcmp(family, m->module) == 0 && strcmp(kind, m->flavor) == 0)
            return use_model(r, m, 500000, false);
    const struct setting *said = registry ? registry : flavor;
    return !family || !said || own || refuse_flavor(r, family, said);
}
