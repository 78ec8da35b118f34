/* Megatron-Bridge's recipes: lines that set members of cfg, the same without "cfg." as its command line has them,
 * members that a constructor is given, and recipes that it has by name. */
#include "base/num.h"
#include "base/text.h"
#include "targets/megatron.h"
#include "targets/megatron_recipes.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

struct recipe {
    struct megatron_args *args;
    struct launch_read *out;
    struct arena *arena;
    const char *name;
    int line;
    bool gated, named;        /* named: what is read now is what a recipe sets that was named */
    bool reduces;             /* the precision says in which type gradients are reduced, whatever ddp says */
    bool renames;             /* a recipe may be imported by another name */
    bool provides, specifies; /* the text makes its own provider; what a layer of it is made of is said */
    int64_t lengths[2];       /* of sequences as the model and as the data have them, beside a recipe; 0: not said */
    const char *text, *end;   /* all that is read */
    struct error *err;
};

/* What is switched off changes nothing. */
static bool is_off(const char *value)
{
    return strcmp(value, "False") == 0 || strcmp(value, "false") == 0 || strcmp(value, "None") == 0 ||
           strcmp(value, "null") == 0;
}

static bool add_unknown(struct recipe *r, const char *path)
{
    return launch_read_add_unknown(r->out, r->arena, path, strlen(path), r->err) &&
           (r->out->unknown_count <= 1000 ||
            fail(r->err, "%s: more than 1000 settings that are not understood", r->name));
}

/* Precision by name: bf16_mixed, fp8_cs, bf16-with-mxfp8-mixed and the like. */
static bool set_precision(struct recipe *r, const char *value)
{
    struct megatron_args *a = r->args;
    static const char *const widths[] = { "bf16", "fp16", "fp32", "fp8", "nvfp4" };
    bool named = is_off(value);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        named = named || strstr(value, widths[i]);
    if (!named) {
        char words[128];
        snprintf(words, sizeof words, "mixed_precision = %.64s", value);
        return strcmp(value, "mixed_precision") == 0 || add_unknown(r, words); /* a variable was read as such */
    }
    a->bf16 = strstr(value, "bf16") || strstr(value, "fp8") || strstr(value, "nvfp4");
    a->fp16 = !a->bf16 && strstr(value, "fp16");
    a->fp8 = strstr(value, "fp8") ? "hybrid" : NULL;
    a->fp8_recipe = strstr(value, "mxfp8") || strstr(value, "fp8_mx") ? "mxfp8" : "tensorwise";
    a->fp4 = strstr(value, "nvfp4") ? "e2m1" : NULL;
    a->narrow_gradients = a->narrow_gradients || strstr(value, "_perf_precision"); /* of recipes for speed */
    return true;
}

/* torch.bfloat16 as Megatron-LM's command line has it. */
static const char *width_of(const char *value)
{
    return strstr(value, "bfloat16")  ? "bf16"
           : strstr(value, "float16") ? "fp16"
           : strstr(value, "uint8")   ? "fp8"
                                      : "fp32";
}

/* A specification made of what the other settings say, with Transformer Engine's layers. */
static bool is_priced_spec(const char *value)
{
    return strstr(value, "get_gpt_decoder_block_spec") && !strstr(value, "use_transformer_engine=False");
}

/* Settings that are not one of Megatron-LM's. True: it is one of them. */
static bool set_own(struct recipe *r, const char *path, const char *value)
{
    struct megatron_args *a = r->args;
    bool yes = strcmp(value, "True") == 0 || strcmp(value, "true") == 0;
    if (strcmp(path, "model.transformer_layer_spec") == 0)
        r->specifies = !is_off(value);
    if (strcmp(path, "model.gated_linear_unit") == 0)
        r->gated = yes;
    else if (strcmp(path, "model.activation_func") == 0)
        a->swiglu = strstr(value, "silu") != NULL, a->squared_relu = strstr(value, "squared_relu") != NULL;
    else if (strcmp(path, "model.share_embeddings_and_output_weights") == 0)
        a->untied = !yes;
    else if (strcmp(path, "mixed_precision.grad_reduce_in_fp32") ==
             0) /* goes over ddp's (MixedPrecisionConfig.setup) */
        a->narrow_gradients = !yes, r->reduces = true;
    else if (strcmp(path, "ddp.grad_reduce_in_fp32") == 0)
        a->narrow_gradients = r->reduces ? a->narrow_gradients : !yes;
    else if (strcmp(path, "optimizer.main_grads_dtype") == 0)
        a->main_gradients = width_of(value);
    else if (strcmp(path, "optimizer.main_params_dtype") == 0)
        a->main_weights = width_of(value);
    else if (strcmp(path, "optimizer.exp_avg_dtype") == 0)
        a->first_moment = width_of(value);
    else if (strcmp(path, "optimizer.exp_avg_sq_dtype") == 0)
        a->second_moment = width_of(value);
    else if (strcmp(path, "model.transformer_layer_spec") == 0 && is_priced_spec(value))
        r->out->ignored_count++;
    else if (strcmp(path, "model.window_size") == 0)
        a->window = strcmp(value, "None") == 0 ? NULL : arena_strdup(r->arena, value);
    else
        return false;
    return true;
}

/* "[a, b]" as "a b", and words without their quotes. */
static const char *bare_value(struct recipe *r, const struct megatron_option *option, const char *value)
{
    struct text bare = { 0 };
    bool listed = option->kind == MEGATRON_WORDS;
    for (const char *p = value; *p; p++) {
        bool dropped = strchr("\"'", *p) || (listed && strchr("[] ", *p));
        if (listed && *p == ',')
            text_add(&bare, " ");
        else if (!dropped)
            text_add_bytes(&bare, p, 1);
    }
    const char *kept = bare.failed ? NULL : arena_strdup(r->arena, bare.data ? bare.data : "");
    text_free(&bare);
    return kept;
}

static const char of_recipe[] = " (the recipe sets it; it is not priced)";

/* A line after the recipe says it, too. */
static void forget_unknown(struct recipe *r, const char *path)
{
    struct launch_read *out = r->out;
    size_t length = strlen(path);
    int kept = 0;
    for (int i = 0; i < out->unknown_count; i++)
        if (!begins(out->unknown[i], path) || strcmp(out->unknown[i] + length, of_recipe) != 0)
            out->unknown[kept++] = out->unknown[i];
    out->unknown_count = kept;
}

static bool set_path(struct recipe *r, const char *path, const char *value)
{
    char at[256];
    const struct megatron_option *option = megatron_path_option(path);
    snprintf(at, sizeof at, r->line > 0 ? "%.200s:%d" : "%.200s", r->name, r->line);
    if (strcmp(path, "mixed_precision") == 0)
        return set_precision(r, value);
    if (set_own(r, path, value))
        return true;
    const char *meant = option || r->named ? NULL : megatron_path_slip(path);
    if (meant)
        return fail(r->err, "%s: %s is no setting of Megatron-Bridge: did you mean %s?", at, path, meant);
    bool of_model = strcmp(path, "model.seq_length") == 0, of_data = option && begins(path, "dataset.seq");
    if ((of_model || of_data) && !r->named)
        r->lengths[of_data] = strtoll(value, NULL, 10);
    if (!option && !megatron_path_is_idle(path)) {
        forget_unknown(r, path);
        snprintf(at, sizeof at, "%.160s%s", path, r->named ? of_recipe : "");
        return is_off(value) ? ++r->out->ignored_count > 0 : add_unknown(r, at);
    }
    if (!option)
        return ++r->out->ignored_count > 0;
    if (strcmp(value, "None") == 0 || strcmp(value, "null") == 0) { /* also where the recipe before said another */
        megatron_unset(r->args, option);
        return true;
    }
    const char *bare = bare_value(r, option, value);
    if (!bare)
        return fail_memory(r->err);
    if (strcmp(option->flag, "--num-query-groups") == 0)
        r->args->grouped_query = true;
    if (option->kind == MEGATRON_FLAG || option->kind == MEGATRON_NOT) {
        bool yes = strcmp(bare, "True") == 0 || strcmp(bare, "true") == 0;
        if (!yes && strcmp(bare, "False") != 0 && strcmp(bare, "false") != 0)
            return fail(r->err, "%s: %s: expected True or False, found \"%.64s\"", at, path, bare);
        *(bool *)((char *)r->args + option->offset) = yes;
        return true;
    }
    return megatron_set(r->args, option, r->arena, bare, at, r->err);
}

/* The end of a value: at a line's end or a comma, outside of brackets and quotes, or at the bracket that closes what is
 * around. */
static const char *value_end(const char *p, const char *end, bool inside)
{
    int depth = 0;
    char quote = 0;
    for (; p < end; p++) {
        if (quote) {
            if (*p == '\\' && p + 1 < end)
                p++;
            else if (*p == quote)
                quote = 0;
            continue;
        }
        if (*p == '"' || *p == '\'')
            quote = *p;
        else if (strchr("([{", *p) && *p)
            depth++;
        else if (strchr(")]}", *p) && *p) {
            if (depth-- == 0)
                return p;
        } else if (depth == 0 && (*p == '#' || *p == '\n' || *p == ';' || (inside && *p == ',')))
            return p;
    }
    return p;
}

static bool read_settings(struct recipe *r, const char *p, const char *end, const char *around);
static bool read_call(struct recipe *r, const char *value, const char *end);

/* A recipe's name says for how many devices it is, the text's own before those that it is made of:
 * llama3_70b_pretrain_64gpu_h100_bf16_config. */
static void find_devices(struct recipe *r, const char *name, const char *end)
{
    const char *last = name + megatron_path_length(name, end);
    for (const char *p = name; p + 3 <= last; p++)
        if (memcmp(p, "gpu", 3) == 0 && p > name && isdigit((unsigned char)p[-1])) {
            int64_t devices = 0, unit = 1;
            for (const char *d = p; d > name && isdigit((unsigned char)d[-1]) && unit <= 10000000; d--, unit *= 10)
                devices += unit * (d[-1] - '0');
            if (r->out->devices == 0 && devices > 0 && devices <= 1 << 24)
                r->out->devices = devices;
        }
}

/* One "path = value"; a constructor's members count as the path's. */
static bool read_setting(struct recipe *r, const char *path, size_t length, const char *value, const char *end,
                         const char *around)
{
    char full[256], word[4096];
    bool own = length > 4 && memcmp(path, "cfg.", 4) == 0;
    path += own ? 4 : 0;
    length -= own ? 4 : 0;
    while (value < end && isspace((unsigned char)*value))
        value++;
    while (end > value && isspace((unsigned char)end[-1]))
        end--;
    if (end - value >= (ptrdiff_t)sizeof word || length + strlen(around) + 2 > sizeof full)
        return true; /* none of ours is so long */
    snprintf(full, sizeof full, "%s%s%.*s", around, *around ? "." : "", (int)length, path);
    snprintf(word, sizeof word, "%.*s", (int)(end - value), value);
    bool known = own || *around || memchr(path, '.', length) || strcmp(full, "mixed_precision") == 0;
    bool latent = begins(word, "MLAModelProvider("), provides = latent || begins(word, "GPTModelProvider(");
    r->args->latent = r->args->latent || latent;
    r->provides = r->provides || provides;
    const char *call = strchr(word, '(');
    if (!known)
        return read_call(r, value, end); /* a variable of the recipe's own */
    if (call && call > word && isalnum((unsigned char)call[-1]) && strchr(full, '.') == NULL && !*around &&
        strcmp(full, "mixed_precision") != 0)
        return read_settings(r, value + (call - word) + 1, end, full);
    return set_path(r, full, word);
}

/* Everything that the recipe says, as if it stood here. */
static bool apply_recipe(struct recipe *r, const struct megatron_recipe *recipe)
{
    struct megatron_args *a = r->args;
    int line = r->line;
    a->sequence = recipe->sequence, a->global_batch = recipe->batch, a->micro_batch = recipe->micro_batch;
    a->tensor = recipe->tensor, a->pipeline = recipe->pipeline, a->chunks = recipe->chunks;
    a->context = recipe->context, a->expert = recipe->expert;
    a->sequence_parallel = recipe->tensor > 1;
    if (recipe->expert > 1)
        a->expert_tensor = 1;
    find_devices(r, recipe->name, recipe->name + strlen(recipe->name));
    r->named = true;
    bool good = read_settings(r, recipe->model, recipe->model + strlen(recipe->model), "") &&
                read_settings(r, recipe->more, recipe->more + strlen(recipe->more), "");
    r->named = false;
    r->line = line;
    return good;
}

static bool is_defined(const struct recipe *r, const char *name, size_t length)
{
    for (const char *p = r->text; p + 4 + length < r->end; p++)
        if (memcmp(p, "def ", 4) == 0 && memcmp(p + 4, name, length) == 0 && p[4 + length] == '(')
            return true;
    return false;
}

/* The one whose name is spelled most alike; NULL: none is. */
static const char *nearest_recipe(const char *name, size_t length)
{
    const char *names[64];
    char word[128];
    size_t count = 0;
    for (const struct megatron_recipe *r = megatron_recipes; r->name && count + 2 <= 64; r++) {
        names[count++] = r->name;
        if (r->old_name)
            names[count++] = r->old_name;
    }
    snprintf(word, sizeof word, "%.*s", (int)min_i64(127, (int64_t)length), name);
    const char *near = text_nearest(word, names, count);
    return near && strncmp(near, word, 4) == 0 ? near : NULL; /* of the same family */
}

/* A recipe by name: what it sets, or that this is not known here. False: out of memory. */
static bool take_recipe(struct recipe *r, const char *name, size_t length)
{
    const struct megatron_recipe *known = megatron_recipe_find(name, length);
    char words[320];
    if (known)
        return apply_recipe(r, known);
    find_devices(r, name, name + length);
    const char *near = nearest_recipe(name, length);
    snprintf(
        words, sizeof words,
        "recipe %.*s (what it sets is not known here%s%s; in its place, as far as no line says otherwise: one rank "
        "of each kind, no recomputation, bf16)",
        (int)min_i64(64, (int64_t)length), name, near ? ": did you mean " : "", near ? near : "");
    return add_unknown(r, words);
}

/* The recipe that the text imports as this name; NULL: it imports none so. */
static const char *imported_as(const struct recipe *r, const char *name, size_t length, size_t *own_length)
{
    for (const char *p = r->text; p + 4 + length <= r->end; p++) {
        if (memcmp(p, " as ", 4) != 0 || megatron_path_length(p + 4, r->end) != length ||
            memcmp(p + 4, name, length) != 0)
            continue;
        const char *own = p;
        while (own > r->text && (isalnum((unsigned char)own[-1]) || own[-1] == '_'))
            own--;
        *own_length = (size_t)(p - own);
        if (*own_length > 0 && megatron_is_recipe_name(own, *own_length))
            return own;
    }
    return NULL;
}

/* "llama3_70b_pretrain_config()" as a value: a recipe that Megatron-Bridge has, and not one of the text itself. */
static bool read_call(struct recipe *r, const char *value, const char *end)
{
    const char *last = value + megatron_path_length(value, end);
    for (const char *p = value; p < last; p++) /* a module's member */
        value = *p == '.' ? p + 1 : value;
    size_t length = (size_t)(last - value);
    if (last == end || *last != '(' || length == 0)
        return true;
    size_t own_length = 0;
    const char *own = r->renames ? imported_as(r, value, length, &own_length) : NULL;
    if (!own && (!megatron_is_recipe_name(value, length) || is_defined(r, value, length)))
        return true;
    value = own ? own : value;
    length = own ? own_length : length;
    const char *argument = last + 1;
    while (argument < end && isspace((unsigned char)*argument))
        argument++;
    /* Sizes among the arguments would price another job. */
    for (const char *p = argument; p < end && *p != ')'; p++)
        if (end - p > 7 && (memcmp(p, "_size=", 6) == 0 || memcmp(p, "_length=", 8) == 0))
            return fail(r->err,
                        "%s:%d: expected sizes as settings of what %.*s() gives, found an argument, which is not "
                        "read: write config.model.tensor_model_parallel_size = 2, config.train.micro_batch_size = 1",
                        r->name, r->line, (int)min_i64(128, (int64_t)length), value);
    char words[192];
    snprintf(words, sizeof words, "arguments of %.*s", (int)min_i64(128, (int64_t)length), value);
    return take_recipe(r, value, length) && (argument == end || *argument == ')' || add_unknown(r, words));
}

/* Whether the option, behind its "--", is one that has a recipe's name. */
static bool names_recipe(const char *option, size_t length)
{
    return length == 6 && (memcmp(option, "recipe", 6) == 0 || memcmp(option, "config", 6) == 0);
}

/* The name that stands behind such an option on a command line. False: out of memory. */
static bool note_recipe(struct recipe *r, const char *name, const char *end)
{
    while (name < end && strchr(" ='\"", *name))
        name++;
    size_t length = megatron_path_length(name, end);
    return length > 0 ? take_recipe(r, name, length)
                      : add_unknown(r, "--recipe (no name that can be read stands behind it)");
}

static bool read_settings(struct recipe *r, const char *p, const char *end, const char *around)
{
    const char *begin = p;
    while (p < end) {
        if (*p == '\n')
            r->line++;
        if (*p == '#') {
            while (p < end && *p != '\n')
                p++;
            continue;
        }
        if ((*p == '"' || *p == '\'')) {
            size_t marks = end - p >= 3 && p[1] == *p && p[2] == *p ? 3 : 1;
            const char *stop = p + marks;
            while (stop < end && memcmp(stop, p, min_i64((int64_t)marks, end - stop)) != 0)
                stop++;
            for (; p < stop && p < end; p++)
                r->line += *p == '\n';
            p = stop + marks < end ? stop + marks : end;
            continue;
        }
        size_t length = megatron_path_length(p, end);
        if (length == 0) {
            p++;
            continue;
        }
        const char *q = p + length;
        if (!*around && p - begin >= 2 && p[-1] == '-' && p[-2] == '-' && names_recipe(p, length) &&
            !note_recipe(r, q, end))
            return false;
        while (q < end && (*q == ' ' || *q == '\t'))
            q++;
        if (q + 1 < end && *q == '=' && q[1] != '=') {
            const char *stop = value_end(q + 1, end, *around != 0);
            int line = r->line;
            /* on a command line settings are separated by blanks */
            bool bare = q == p + length && q + 1 < end && q[1] != ' ' && !*around;
            if (bare)
                for (const char *s = q + 1; s < stop; s++)
                    if (*s == ' ' && s[-1] != ',') {
                        stop = s;
                        break;
                    }
            if (!read_setting(r, p, length, q + 1, stop, around))
                return false;
            r->line = line;
            for (const char *s = q; s < stop; s++)
                r->line += *s == '\n';
            p = stop;
            continue;
        }
        if (length == 3 && memcmp(p, "def", 3) == 0)
            find_devices(r, q, end);
        if (length == 6 && memcmp(p, "return", 6) == 0 && !*around && !read_call(r, q, value_end(q, end, false)))
            return false;
        p = q > p + length ? q : p + length;
    }
    return true;
}

/* Whether the text is a script of the shell, which starts a recipe. */
static bool is_script(const char *name, const char *text, size_t length)
{
    const char *dot = strrchr(name, '.'), *stop = memchr(text, '\n', length);
    bool named = dot && (strcmp(dot, ".sh") == 0 || strcmp(dot, ".sbatch") == 0 || strcmp(dot, ".slurm") == 0);
    size_t first = stop ? (size_t)(stop - text) : length;
    return named || (first > 4 && memcmp(text, "#!", 2) == 0 && memcmp(text + first - 2, "sh", 2) == 0);
}

/* The recipe that a word of the command names, with the one behind it; NULL: none. --config may name other things. */
static const char *recipe_of(const struct shell_command *command, int at)
{
    const char *option = command->words[at] + 2;
    size_t length = begins(command->words[at], "--") ? strcspn(option, "=") : 0;
    if (!names_recipe(option, length))
        return NULL;
    const char *value = option[length] ? option + length + 1 : at + 1 < command->count ? command->words[at + 1] : "";
    return *option == 'r' || megatron_is_recipe_name(value, strlen(value)) ? value : NULL;
}

/* The last command of a script that names a recipe; NULL: none does. */
static bool find_command(struct recipe *r, const struct shell_command **out)
{
    struct shell_script script;
    *out = NULL;
    size_t length = (size_t)(r->end - r->text);
    bool good = shell_read(&script, r->arena, r->name, r->text, length, &r->out->place, r->out->beside, r->err);
    for (int i = 0; good && i < script.count; i++)
        for (int w = 0; w < script.commands[i].count; w++)
            if (recipe_of(&script.commands[i], w))
                *out = &script.commands[i];
    if (*out) { /* the launch decides, and not for how many its recipe is */
        r->out->devices = megatron_script_devices(&script, *out);
        r->out->hidden = (*out)->hidden;
    }
    for (int i = 0; i < script.note_count && *out && good; i++)
        good = add_unknown(r, script.notes[i]);
    return good;
}

/* Each word of a command is a setting by itself, or an option: a "#" or a quote in its value hides none of the others.
 */
static bool read_command(struct recipe *r, const struct shell_command *command)
{
    bool good = true;
    for (int w = 0; w < command->count && good; w++) {
        const char *signs = command->words[w], *path = signs + strspn(signs, "+-"), *end = path + strlen(path);
        size_t length = megatron_path_length(path, end);
        const char *recipe = recipe_of(command, w), *value = path + length + 1;
        bool sets = length > 0 && path[length] == '=';
        if (sets && (!*value || *shell_mark_in(value)))
            return megatron_fail_without_value(r->name, arena_strndup(r->arena, path, length), value, r->err);
        if (recipe)
            good = note_recipe(r, recipe, recipe + strlen(recipe));
        else if (sets)
            good = read_setting(r, path, length, value, end, "");
    }
    return good;
}

bool megatron_read_recipe(struct launch_read *out, struct arena *arena, const char *name, const char *text,
                          size_t length, struct error *err)
{
    struct megatron_args args = megatron_defaults;
    struct recipe r = { .args = &args,
                        .out = out,
                        .arena = arena,
                        .name = name,
                        .line = 1,
                        .text = text,
                        .end = text + length,
                        .err = err };
    launch_read_begin(out);
    if (memchr(text, 0, length))
        return fail(err, "%s: expected text, found a byte of zero", name);
    const struct shell_command *command = NULL;
    if (is_script(name, text, length) && !find_command(&r, &command))
        return false;
    if (command) { /* whose words have no lines, and define no recipe */
        r.text = r.end = "";
        r.line = 0;
    }
    /* as _pretrain_common() begins */
    args.bf16 = args.sharded_optimizer = args.overlap_reduce = args.overlap_gather = true;
    args.fp8_recipe = "tensorwise";
    for (const char *p = r.text; !r.renames && p + 8 < r.end; p++)
        r.renames = memcmp(p, "_config as ", min_i64(11, r.end - p)) == 0;
    int before = out->unknown_count;
    if (command ? !read_command(&r, command)
                : !megatron_check_single(name, text, r.end, err) || !read_settings(&r, text, r.end, ""))
        return false;
    if (out->ignored_count == 0 && args.tensor == 1 && args.global_batch == 0 && args.micro_batch == 0 &&
        args.layers == 0 && args.pipeline == 1 && out->unknown_count == before)
        return megatron_fail_recipe(name, text, length, err);
    if (r.provides && !r.specifies && megatron_has_specs(&args) &&
        !add_unknown(&r, "model.transformer_layer_spec (absent: Megatron-Bridge's own is one layer without latent "
                         "attention, the same for every block; others are priced)"))
        return false;
    if (r.lengths[0] > 0 && r.lengths[1] > 0 && r.lengths[0] != r.lengths[1])
        return fail(err,
                    "%s: Megatron-Bridge refuses it: model.seq_length %lld is that of the dataset, found %lld "
                    "(megatron/bridge/training/config.py, ConfigContainer.validate)",
                    name, (long long)r.lengths[0], (long long)r.lengths[1]);
    args.swiglu = args.swiglu && r.gated;
    args.qk_norm = args.qk_norm || args.latent;
    args.overlap_gather = args.overlap_gather && args.overlap_reduce && args.sharded_optimizer;
    args.positions =
        strcmp(args.position, "learned_absolute") == 0 ? args.sequence : max_i64(args.positions, args.sequence);
    if (args.layout) /* which says it too */
        args.chunks = 0;
    return megatron_launch(out, arena, &args, true, name, err);
}
