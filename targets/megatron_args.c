/* The settings by their names: what is written of them, and what is read. */
#include "base/num.h"
#include "targets/megatron.h"
#include "targets/shell.h"
#include <ctype.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const struct megatron_args megatron_defaults = {
#define OPTION(section, kind, member, flag, path, value) .member = value,
#include "targets/megatron_options.def"
#undef OPTION
};

const struct megatron_option megatron_options[] = {
#define OPTION(section, kind, member, flag, path, value)                                                               \
    { SECTION_##section, MEGATRON_##kind, flag, path, offsetof(struct megatron_args, member) },
#include "targets/megatron_options.def"
#undef OPTION
    { 0 }
};

const char *const megatron_section_names[SECTION_COUNT] = {
#define SECTION(id, name) [SECTION_##id] = name,
#define OPTION(section, kind, member, flag, path, value)
#include "targets/megatron_options.def"
#undef SECTION
#undef OPTION
};

static const void *member_of(const struct megatron_args *args, const struct megatron_option *option)
{
    return (const char *)args + option->offset;
}

static const char *word_of(const struct megatron_args *args, const struct megatron_option *option)
{
    return *(const char *const *)member_of(args, option);
}

bool megatron_says(const struct megatron_args *args, const struct megatron_option *option)
{
    const char *word, *usual;
    switch (option->kind) {
    case MEGATRON_INT:
        return *(const int64_t *)member_of(args, option) != *(const int64_t *)member_of(&megatron_defaults, option);
    case MEGATRON_NUMBER:
        return *(const double *)member_of(args, option) < *(const double *)member_of(&megatron_defaults, option) ||
               *(const double *)member_of(args, option) > *(const double *)member_of(&megatron_defaults, option);
    case MEGATRON_FLAG:
    case MEGATRON_NOT:
        return *(const bool *)member_of(args, option) != *(const bool *)member_of(&megatron_defaults, option);
    case MEGATRON_WORD:
    case MEGATRON_WORDS:
        word = word_of(args, option);
        usual = word_of(&megatron_defaults, option);
        return word && (!usual || strcmp(word, usual) != 0);
    }
    return false;
}

/* A word with nothing that a shell would read otherwise stays bare. */
static void put_quoted(struct text *out, const char *word)
{
    bool plain = *word != 0;
    for (const char *p = word; *p; p++)
        plain = plain && (isalnum((unsigned char)*p) || strchr("-_.,/:=+@%", *p));
    if (plain) {
        text_add(out, word);
        return;
    }
    text_add(out, "'");
    for (const char *p = word; *p; p++)
        text_add_bytes(out, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
    text_add(out, "'");
}

static void put_words(struct text *out, const char *words, bool python)
{
    const char *between = "";
    for (const char *p = words; *p;) {
        int length = (int)strcspn(p, " ");
        text_printf(out, python ? "%s\"%.*s\"" : "%s%.*s", between, length, p);
        p += length + (p[length] == ' ');
        between = python ? ", " : " ";
    }
}

/* As TransformerEngine's optimizer takes them: fp8 is bytes with a scale. */
static void put_torch_dtype(struct text *out, const char *word)
{
    static const char *const names[][2] = { { "bf16", "bfloat16" }, { "fp16", "float16" }, { "fp8", "uint8" } };
    const char *name = "float32";
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        name = strcmp(word, names[i][0]) == 0 ? names[i][1] : name;
    text_printf(out, "torch.%s", name);
}

void megatron_put_value(struct text *out, const struct megatron_args *args, const struct megatron_option *option,
                        bool python)
{
    char number[TEXT_NUMBER_BYTES];
    switch (option->kind) {
    case MEGATRON_INT:
        text_printf(out, "%lld", (long long)*(const int64_t *)member_of(args, option));
        break;
    case MEGATRON_NUMBER:
        text_double(number, *(const double *)member_of(args, option));
        text_printf(out, "%s%s", number, python && !strpbrk(number, ".e") ? ".0" : "");
        break;
    case MEGATRON_FLAG:
    case MEGATRON_NOT:
        if (python)
            text_add(out, *(const bool *)member_of(args, option) ? "True" : "False");
        break;
    case MEGATRON_WORD:
        if (python && option->path && strstr(option->path, "_dtype"))
            put_torch_dtype(out, word_of(args, option));
        else if (python)
            text_printf(out, "\"%s\"", word_of(args, option));
        else
            put_quoted(out, word_of(args, option));
        break;
    case MEGATRON_WORDS:
        text_add(out, python ? "[" : "");
        put_words(out, word_of(args, option), python);
        text_add(out, python ? "]" : "");
        break;
    }
}

static bool set_int(int64_t *out, const char *word, const char *at, const char *name, struct error *err)
{
    char *end;
    errno = 0;
    long long value = strtoll(word, &end, 10);
    if (end == word || *end || errno)
        return fail(err, "%s: %s: expected a whole number, found \"%.64s\"", at, name, word);
    if (value < 0 || value > INT64_C(1) << 50)
        return fail(err, "%s: %s: expected at least 0 and at most 2^50, found %.64s", at, name, word);
    *out = value;
    return true;
}

bool megatron_set(struct megatron_args *args, const struct megatron_option *option, struct arena *arena,
                  const char *word, const char *at, struct error *err)
{
    void *member = (char *)args + option->offset;
    double number;
    switch (option->kind) {
    case MEGATRON_INT:
        return set_int(member, word, at, option->flag, err);
    case MEGATRON_NUMBER:
        if (!text_read_double(word, strlen(word), &number))
            return fail(err, "%s: %s: expected a number, found \"%.64s\"", at, option->flag, word);
        *(double *)member = number;
        return true;
    case MEGATRON_FLAG:
    case MEGATRON_NOT:
        *(bool *)member = option->kind == MEGATRON_FLAG;
        return true;
    case MEGATRON_WORD:
    case MEGATRON_WORDS:
        if (strlen(word) > 1 << 16)
            return fail(err, "%s: %s: expected at most 65536 letters", at, option->flag);
        *(const char **)member = arena_strdup(arena, word);
        return *(const char **)member || fail_memory(err);
    }
    return true;
}

void megatron_unset(struct megatron_args *args, const struct megatron_option *option)
{
    static const size_t bytes[] = {
        [MEGATRON_INT] = sizeof(int64_t), [MEGATRON_NUMBER] = sizeof(double), [MEGATRON_FLAG] = sizeof(bool),
        [MEGATRON_NOT] = sizeof(bool),    [MEGATRON_WORD] = sizeof(char *),   [MEGATRON_WORDS] = sizeof(char *)
    };
    memcpy((char *)args + option->offset, (const char *)&megatron_defaults + option->offset, bytes[option->kind]);
}

/* ---- command lines ---- */

/* What neither steers how a step runs nor what it keeps: data, tokenizers, learning rates, checkpoints, logs, checks.
 */
static const char *const idle_prefixes[] = {
    "--adam-",
    "--adlr-",
    "--apply-wd",
    "--async-",
    "--auto-detect",
    "--check-",
    "--ckpt-",
    "--config-logger",
    "--consumed-",
    "--data-",
    "--dataloader-",
    "--decoupled-",
    "--deterministic",
    "--disable-straggler",
    "--dist-ckpt",
    "--distributed-timeout",
    "--distributed-backend",
    "--dump-",
    "--end-weight",
    "--error-injection",
    "--eval-",
    "--exit-",
    "--finetune",
    "--ft-",
    "--full-validation",
    "--hysteresis",
    "--ignore-unknown",
    "--initial-loss-scale",
    "--iterations-to-skip",
    "--legacy-tokenizer",
    "--lion-",
    "--load",
    "--log-",
    "--loss-scale",
    "--lr",
    "--manual-gc",
    "--max-tokens-to-oom",
    "--merge-file",
    "--merges-file",
    "--min-loss-scale",
    "--min-lr",
    "--mock-data",
    "--moe-per-layer-logging",
    "--moe-z-loss-coeff",
    "--mmap-",
    "--mscale",
    "--multiple-validation",
    "--no-check-for-nan",
    "--no-ckpt-",
    "--no-create-attention-mask",
    "--no-data-sharding",
    "--no-initialization",
    "--no-load-",
    "--no-log-",
    "--no-mmap",
    "--no-one-logger",
    "--no-save-",
    "--no-weight-decay",
    "--no-yarn-",
    "--non-persistent-",
    "--null-tokenizer",
    "--num-dataset-builder",
    "--num-workers",
    "--nvtx-ranges",
    "--object-storage",
    "--one-logger",
    "--onelogger",
    "--override-",
    "--path-to-cache",
    "--per-split-data",
    "--profile",
    "--pytorch-profiler",
    "--record-memory",
    "--replication",
    "--reset-",
    "--result-rejected",
    "--retro-",
    "--rotary-scaling-factor",
    "--save",
    "--seed",
    "--sgd-momentum",
    "--skip-train",
    "--special-tokens",
    "--split",
    "--start-weight",
    "--tensorboard-",
    "--test-",
    "--tiktoken-",
    "--timing-log",
    "--tokenizer-",
    "--train-",
    "--trust-remote",
    "--use-checkpoint",
    "--use-dist-ckpt",
    "--use-persistent-ckpt",
    "--use-mcore-models",
    "--valid-",
    "--vocab-file",
    "--vocab-extra",
    "--wandb-",
    "--warmup",
    "--weight-decay",
    "--world-size",
    "--local-rank",
    "--rampup",
    "--logging-level",
    "--logits-",
    "--empty-unused-memory-level",
    "--memory-snapshot",
    "--use-pytorch-profiler",
    "--step-batch-size",
    "--phase-transition",
    "--fake-process-group",
    "--rerun-",
    "--no-one",
    "--create-attention-mask",
    "--clone-scatter",
    "--moe-router-dtype",
    "--attention-softmax-in-fp32",
    "--use-flash-attn",
    "--cross-entropy-",
    "--calculate-per-token-loss",
    "--no-masked-softmax-fusion",
    "--no-bias-dropout-fusion",
    "--no-persist-layer-norm",
    "--apply-layernorm-1p",
    "--openai-gelu",
    "--fp8-amax",
    "--fp8-margin",
    "--fp8-interval",
    "--fp4-recipe",
    "--overlap-cpu-optimizer-d2h-h2d",
    "--tp-comm-bootstrap",
    "--moe-permute-fusion",
    "--use-rotary-position-embeddings",
    "--ddp-average-in-collective",
    "--high-priority-stream-groups",
    "--nccl-communicator-config-path",
    "--use-gloo",
    "--disable-gloo",
    "--enable-gloo",
    "--no-align-param-gather",
    "--optimizer-cuda",
    "--use-torch-optimizer",
    "--tiktoken",
    "--legacy-",
    "--enable-experimental",
    "--enable-one-logger",
    "--enable-ft",
    "--disable-bf16-reduced",
    "--yarn-",
};

bool megatron_is_idle(const char *flag)
{
    for (size_t i = 0; i < sizeof idle_prefixes / sizeof *idle_prefixes; i++)
        if (strncmp(flag, idle_prefixes[i], strlen(idle_prefixes[i])) == 0)
            return true;
    return false;
}

/* Whether the word, which has so many letters before "=", is the flag. */
static bool is_called(const char *flag, const char *word, int length)
{
    return (int)strlen(flag) == length && strncmp(flag, word, (size_t)length) == 0;
}

static const struct megatron_option *find_option(const char *word, int length)
{
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (is_called(option->flag, word, length))
            return option;
    return NULL;
}

static bool is_flag(const char *word)
{
    return word[0] == '-' && word[1] == '-' && isalpha((unsigned char)word[2]);
}

static bool add_unknown(struct launch_read *out, struct arena *arena, const char *word, int length, struct error *err)
{
    return launch_read_add_unknown(out, arena, word, (size_t)length, err) &&
           (out->unknown_count <= 1000 || fail(err, "more than 1000 arguments that Megatron-LM does not have"));
}

/* What stands between options and comes to nothing, since a script does not say it, may have been some. */
static bool add_unsaid(struct launch_read *out, struct arena *arena, const char *word, struct error *err)
{
    struct text spelled = { 0 };
    bool unset, marked = shell_unmark(&spelled, word, &unset);
    if (shell_mark_line(word) > 0 && !out->hidden && !spelled.failed) {
        struct text name = { 0 };
        text_printf(&name, "%s (which a command of line %d prints)", spelled.data, shell_mark_line(word));
        out->hidden = name.failed ? NULL : arena_strdup(arena, name.data);
        text_free(&name);
        if (!out->hidden) {
            text_free(&spelled);
            return fail_memory(err);
        }
    }
    text_add(&spelled, " (what it stands for is not known, and nothing was put in its place)");
    bool ok = !marked || !unset || (!spelled.failed && add_unknown(out, arena, spelled.data, (int)spelled.length, err));
    ok = (ok && !spelled.failed) || fail_memory(err);
    text_free(&spelled);
    return ok;
}

/* The value of the option at words[*i], whose name has so many letters: behind "=", or the next word. NULL: none. */
static const char *value_at(const char *const *words, int count, int *i, int length)
{
    const char *value = words[*i][length] == '='                    ? words[*i] + length + 1
                        : *i + 1 < count && !is_flag(words[*i + 1]) ? words[++*i]
                                                                    : NULL;
    return value && !shell_is_marked(value) ? value : NULL;
}

bool megatron_fail_without_value(const char *name, const char *option, const char *word, struct error *err)
{
    struct text spelled = { 0 };
    bool unset, marked = shell_unmark(&spelled, shell_mark_in(word), &unset);
    fail(err, "%s: %.200s: expected a value behind it, found %s%s", name, option,
         !marked          ? "none (a variable that is not set?)"
         : spelled.failed ? "a variable that is not set"
                          : spelled.data,
         marked ? ": write it there, set it before with NAME=VALUE or set -- ARGUMENTS, or give the script "
                  "with its arguments, \"bash SCRIPT ARGUMENTS\""
                : "");
    text_free(&spelled);
    return false;
}

static bool set_option(struct megatron_args *args, const struct megatron_option *option, struct arena *arena,
                       const char *name, const char *const *words, int count, int *i, int length, struct error *err)
{
    if (option->kind == MEGATRON_FLAG || option->kind == MEGATRON_NOT)
        return megatron_set(args, option, arena, "", name, err);
    const char *value = value_at(words, count, i, length);
    if (!value)
        return megatron_fail_without_value(name, option->flag, words[*i], err);
    if (option->kind != MEGATRON_WORDS)
        return megatron_set(args, option, arena, value, name, err);
    struct text all = { 0 };
    text_add(&all, value);
    while (*i + 1 < count && !is_flag(words[*i + 1]) && all.length < 1 << 16)
        text_printf(&all, " %s", words[++*i]);
    bool ok = all.failed ? fail_memory(err) : megatron_set(args, option, arena, all.data, name, err);
    text_free(&all);
    return ok;
}

/* Options of which these values are what the facts were measured with, or others were; the rest would change the
 * price. */
static const struct {
    const char *flag, *values[4], *unfused[3];
} valued[] = { { "--attention-dropout", { "0", "0.0" }, { NULL } }, /* masks are not counted */
               { "--hidden-dropout", { "0", "0.0" }, { NULL } },
               { "--transformer-impl", { "transformer_engine" }, { "local" } },
               { "--attention-backend", { "auto", "flash", "fused" }, { "unfused", "local" } } };

/* Reads words[*i] if it is one of them: of another value flag and value are not understood. */
static bool read_valued(bool *is_one, struct launch_read *out, struct arena *arena, const char *const *words, int count,
                        int *i, struct error *err)
{
    int length = (int)strcspn(words[*i], "="), v = 0;
    while (v < (int)(sizeof valued / sizeof *valued) && !is_called(valued[v].flag, words[*i], length))
        v++;
    *is_one = v < (int)(sizeof valued / sizeof *valued);
    if (!*is_one)
        return true;
    const char *value = value_at(words, count, i, length);
    for (const char *const *usual = valued[v].values; value && *usual; usual++)
        if (strcmp(value, *usual) == 0) {
            out->ignored_count++;
            return true;
        }
    for (const char *const *unfused = valued[v].unfused; value && *unfused; unfused++)
        if (strcmp(value, *unfused) == 0) {
            out->framework = MEGATRON_UNFUSED;
            return true;
        }
    struct text both = { 0 };
    text_printf(&both, "%s %s", valued[v].flag, value ? value : "");
    bool ok = both.failed ? fail_memory(err) : add_unknown(out, arena, both.data, (int)both.length, err);
    text_free(&both);
    return ok;
}

/* True of an option that has no value: a flag that is known, or one that is called like one. */
static bool takes_none(const char *word)
{
    static const char *const begins[] = { "--no-", "--disable-", "--use-" };
    bool called = find_option(word, (int)strlen(word)) != NULL;
    for (size_t i = 0; i < sizeof begins / sizeof *begins; i++)
        called = called || strncmp(word, begins[i], strlen(begins[i])) == 0;
    return called;
}

bool megatron_parse(struct megatron_args *args, struct launch_read *out, struct arena *arena, const char *name,
                    const char *const *words, int count, struct error *err)
{
    static const char *const gone[][2] = {
        { "--batch-size", "--micro-batch-size" },
        { "--model-parallel-size", "--tensor-model-parallel-size" },
        { "--checkpoint-activations", "--recompute-granularity full --recompute-method uniform, "
                                      "which is what it did" },
        { "--activations-checkpoint-method", "--recompute-granularity full --recompute-method" }
    };
    /* State-space and other hybrid layers; language models with an encoder of images. */
    static const char *const others[] = { "--is-hybrid-model", "--hybrid-", "--language-model-type",
                                          "--vision-model-type" };
    struct megatron_launcher launcher = { 0 };
    bool inside = false; /* behind the program that takes Megatron-LM's own */
    for (int i = 0; i < count; i++) {
        int length = (int)strcspn(words[i], "=");
        const struct megatron_option *option = is_flag(words[i]) ? find_option(words[i], length) : NULL;
        for (size_t g = 0; g < sizeof gone / sizeof *gone; g++)
            if (strcmp(words[i], gone[g][0]) == 0)
                return fail(err, "%s: %s is no longer an argument of Megatron-LM: use %s", name, gone[g][0],
                            gone[g][1]);
        if (option) {
            inside = true;
            if (!set_option(args, option, arena, name, words, count, &i, length, err))
                return false;
            continue;
        }
        if (words[i][0] == '-' && megatron_launcher_option(&launcher, words[i], length,
                                                           words[i][length] == '=' ? words[i] + length + 1
                                                           : i + 1 < count         ? words[i + 1]
                                                                                   : NULL))
            continue;
        size_t letters = strlen(words[i]);
        if (letters > 3 && strcmp(words[i] + letters - 3, ".py") == 0)
            inside = true;
        bool behind_value = i == 0 || !is_flag(words[i - 1]) || takes_none(words[i - 1]);
        if (inside && behind_value && shell_is_marked(words[i]) && !add_unsaid(out, arena, words[i], err))
            return error_within(err, "%s", name);
        if (inside && words[i][0] == '@' && words[i][1])
            return fail(err, "%s: %.80s: Megatron-LM takes no arguments from files: write them in its place, as $(cat FILE)",
                        name, words[i]);
        if (!is_flag(words[i]))
            continue;
        bool is_valued;
        if (!read_valued(&is_valued, out, arena, words, count, &i, err))
            return error_within(err, "%s", name);
        if (is_valued)
            continue;
        bool own = inside || words[0][0] == '-'; /* and not the launcher's */
        const char *meant = megatron_is_idle(words[i]) || !own ? NULL : megatron_meant(words[i], length);
        if (meant)
            return fail(err, "%s: %.*s is no argument of Megatron-LM: did you mean %s?", name, length, words[i], meant);
        if (megatron_is_idle(words[i]))
            out->ignored_count++;
        else if (own && !add_unknown(out, arena, words[i], length, err))
            return error_within(err, "%s", name);
        if (strcmp(words[i], "--use-rotary-position-embeddings") == 0)
            args->position = "rope";
        for (size_t o = 0; o < sizeof others / sizeof *others; o++)
            out->other_model = out->other_model || strncmp(words[i], others[o], strlen(others[o])) == 0;
    }
    if (args->decoder_sequence > 0) /* --seq-length is the encoder's then */
        args->sequence = args->decoder_sequence;
    if (args->padded_vocabulary > 0) /* the model's, whatever is said beside it (argument_utils.py) */
        args->vocabulary = args->padded_vocabulary;
    if (megatron_launcher_devices(&launcher) > 0)
        out->devices = megatron_launcher_devices(&launcher);
    else if (launcher.nodes > 0 && out->place.nodes > 0 && launcher.nodes != out->place.nodes) {
        char nodes[160];
        int letters =
            snprintf(nodes, sizeof nodes, "%lld nodes for the launch (the cluster that it is priced on has %lld)",
                     (long long)launcher.nodes, (long long)out->place.nodes);
        return launch_read_add_unknown(out, arena, nodes, (size_t)letters, err);
    }
    return true;
}
