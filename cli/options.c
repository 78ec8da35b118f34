#include "cli/verb.h"
#include "base/text.h"
#include "planner/space/choice.h"
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const struct option *find_long(const struct verb *verb, const char *name, size_t length)
{
    for (size_t i = 0; i < verb->option_count; i++)
        if (strlen(verb->options[i].name) == length && !strncmp(verb->options[i].name, name, length))
            return &verb->options[i];
    return NULL;
}

static const struct option *find_letter(const struct verb *verb, char letter)
{
    for (size_t i = 0; i < verb->option_count; i++)
        if (verb->options[i].letter == letter)
            return &verb->options[i];
    return NULL;
}

/* The longest name with which a part of the word begins: batch in global-batch-size, seq in sequence. NULL: none. */
static const char *name_within(const char *word, const char *const *names, size_t count)
{
    enum { LEAST = 3 };
    const char *best = NULL;
    for (const char *part = word; part; part = strchr(part, '-') ? strchr(part, '-') + 1 : NULL)
        for (size_t i = 0; i < count; i++)
            if (strncmp(part, names[i], strlen(names[i])) == 0 && strlen(names[i]) >= (best ? strlen(best) + 1 : LEAST))
                best = names[i];
    return best;
}

/* Whether the word is one of those that blanks part; "_" is "-". */
static bool is_among(const char *word, size_t length, const char *all)
{
    for (const char *p = all; *p; p += strspn(p, " ")) {
        size_t here = strcspn(p, " "), same = 0;
        while (same < length && same < here && p[same] == (word[same] == '_' ? '-' : word[same]))
            same++;
        if (same == length && same == here)
            return true;
        p += here;
    }
    return false;
}

/* Our name of what frameworks spell so, if it is one of the names; NULL: none. By whole words: of others that only
 * begin so, such as --context-length and --tensorboard-dir, most mean something else. */
static const char *name_elsewhere(const char *word, const char *const *names, size_t count)
{
    static const struct {
        const char *ours, *spelled;
    } rows[] = {
        { "cluster",
          "gpu gpus num-gpu num-gpus n-gpu n-gpus ngpu ngpus gpus-per-node num-gpus-per-node n-gpus-per-node "
          "gpu-count gpu-type device devices num-devices n-devices device-count node nodes num-node num-nodes "
          "n-nodes nnode nnodes nproc nproc-per-node nprocs num-processes world world-size" },
        { "micro-batch", "mbs" },
        { "batch", "gbs" },
        { "seq", "context-length context-len context-window context-size max-context-length ctx-len ctx-length n-ctx "
                 "max-seq-len max-seq-length max-sequence-length max-length" },
        { "tp", "tp tensor tensors tensor-parallel tensor-parallelism tensor-model-parallel" },
        { "pp", "pp pipeline pipeline-parallel pipeline-parallelism pipeline-model-parallel" },
        { "cp", "cp context context-parallel context-parallelism" },
        { "ep", "ep expert experts expert-parallel expert-parallelism expert-model-parallel" },
        { "dp", "dp data-parallel data-parallelism" },
        { "dtype", "precision mixed-precision torch-dtype" },
    };
    static const char *const endings[] = { "", "size", "degree", "world-size" };
    size_t all = strlen(word);
    for (size_t e = 0; e < sizeof endings / sizeof *endings; e++) {
        size_t more = *endings[e] ? strlen(endings[e]) + 1 : 0, left = all > more ? all - more : 0;
        if (more > 0 && (!strchr("-_", word[left]) || !is_among(word + left + 1, more - 1, endings[e])))
            continue;
        for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
            for (size_t i = 0; i < count && is_among(word, left, rows[r].spelled); i++)
                if (strcmp(names[i], rows[r].ours) == 0)
                    return names[i];
    }
    return NULL;
}

/* What estimate takes as options of their own are keys of --fix where there is a search. */
static bool unknown(const struct verb *verb, const char *word, struct error *err)
{
    enum { MOST = 64 };
    const char *names[MOST + CHOICE_COUNT];
    size_t count = 0;
    for (; count < verb->option_count && count < MOST; count++)
        names[count] = verb->options[count].name;
    for (size_t i = 0; find_long(verb, "fix", 3) && i < CHOICE_COUNT; i++)
        names[count++] = choice_facts[i].name;
    const char *near = text_nearest(word, names, count);
    near = near ? near : name_elsewhere(word, names, count);
    near = near ? near : name_within(word, names, count);
    if (near && !find_long(verb, near, strlen(near)))
        return fail(err, "cleave %s: unknown option --%s; did you mean --fix %s=VALUE?", verb->name, word, near);
    if (near)
        return fail(err, "cleave %s: unknown option --%s; did you mean --%s?", verb->name, word, near);
    return fail(err, "cleave %s: unknown option --%s; see cleave %s --help", verb->name, word, verb->name);
}

static bool number(const struct verb *verb, const struct option *option, const char *value, double *out,
                   struct error *err)
{
    char *end;
    errno = 0;
    double parsed = strtod(value, &end);
    if (end > value && (!strcmp(end, "k") || !strcmp(end, "K")) && option->type == OPTION_INT)
        return fail(err, "cleave %s: --%s: expected a whole number, found '%s': type %.15g (times 1024) or %.15g",
                    verb->name, option->name, value, 1024 * parsed, 1000 * parsed);
    if (end == value || *end || errno == ERANGE || !isfinite(parsed) ||
        (option->type == OPTION_INT && parsed != floor(parsed)))
        return fail(err, "cleave %s: --%s: expected %s, found '%s'", verb->name, option->name,
                    option->type == OPTION_INT ? "a whole number" : "a number", value);
    if ((parsed < option->min || parsed > option->max) && option->type == OPTION_INT)
        return fail(err, "cleave %s: --%s: expected %.0f to %.0f, found %s", verb->name, option->name, option->min,
                    option->max, value);
    if (parsed < option->min || parsed > option->max)
        return fail(err, "cleave %s: --%s: expected %.15g to %.15g, found %s", verb->name, option->name, option->min,
                    option->max, value);
    *out = parsed;
    return true;
}

/* "html" of r.html and of FILE.html; NULL: the name has no ending. */
static const char *ending_of(const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && dot > name && dot[1] ? dot + 1 : NULL;
}

/* The option whose files end as the path does, FILE.html; NULL: none. */
static const struct option *find_ending(const struct verb *verb, const char *path)
{
    const char *ending = ending_of(path);
    for (size_t i = 0; ending && i < verb->option_count; i++) {
        const char *own = verb->options[i].value_name ? ending_of(verb->options[i].value_name) : NULL;
        if (own && strcasecmp(own, ending) == 0)
            return &verb->options[i];
    }
    return NULL;
}

/* An option of FILE.html writes that, whatever the file is called: another ending means another form. */
static bool check_ending(const struct verb *verb, const struct option *option, const char *path, struct error *err)
{
    const char *own = option->value_name ? ending_of(option->value_name) : NULL, *found = ending_of(path);
    const struct option *other = find_ending(verb, path);
    if (!own || !found || strcasecmp(own, found) == 0 || (strcasecmp(found, "htm") == 0 && strcmp(own, "html") == 0))
        return true;
    if (other)
        return fail(err, "cleave %s: --%s: expected %s, found '%s'; did you mean --%s %s?", verb->name, option->name,
                    option->value_name, path, other->name, path);
    return fail(err, "cleave %s: --%s: expected %s, found '%s'; type --%s %.*s%s", verb->name, option->name,
                option->value_name, path, option->name, (int)(found - path), path, own);
}

/* Of a verb without such a letter. value: what was typed behind it, or NULL. */
static bool unknown_letter(const struct verb *verb, const char *word, const char *value, struct error *err)
{
    struct text near = { 0 };
    const struct option *meant = value && word[1] == 'o' ? find_ending(verb, value) : NULL;
    for (size_t i = 0; !meant && word[1] == 'o' && i < verb->option_count; i++)
        if (verb->options[i].value_name && ending_of(verb->options[i].value_name))
            text_printf(&near, "%s--%s %s", near.length > 0 ? " or " : "", verb->options[i].name,
                        verb->options[i].value_name);
    if (meant)
        fail(err, "cleave %s: unknown option %.2s; did you mean --%s %s?", verb->name, word, meant->name, value);
    else if (near.length > 0 && !near.failed)
        fail(err, "cleave %s: unknown option %.2s; did you mean %s?", verb->name, word, near.data);
    else
        fail(err, "cleave %s: unknown option %s; see cleave %s --help", verb->name, word, verb->name);
    text_free(&near);
    return false;
}

static bool store(const struct verb *verb, const struct option *option, const char *value, void *options,
                  struct error *err)
{
    char *field = (char *)options + option->offset;
    double parsed = 0;
    switch (option->type) {
    case OPTION_FLAG:
        *(bool *)(void *)field = true;
        return true;
    case OPTION_TEXT:
        *(const char **)(void *)field = value;
        return check_ending(verb, option, value, err);
    case OPTION_LIST: {
        struct text_list *list = (struct text_list *)(void *)field;
        if (list->count == MAX_LIST)
            return fail(err, "cleave %s: --%s given more than %d times", verb->name, option->name, MAX_LIST);
        list->item[list->count++] = value;
        return true;
    }
    case OPTION_INT:
        if (!number(verb, option, value, &parsed, err))
            return false;
        *(int64_t *)(void *)field = (int64_t)parsed;
        return true;
    case OPTION_DOUBLE:
        if (!number(verb, option, value, &parsed, err))
            return false;
        *(double *)(void *)field = parsed;
        return true;
    }
    return false;
}

/* One option at argv[*i]; steps over its value. */
static bool take(const struct verb *verb, int argc, char **argv, int *i, void *options, struct error *err)
{
    const char *word = argv[*i], *value = NULL;
    const struct option *option;
    if (word[1] == '-') {
        const char *equals = strchr(word, '=');
        size_t length = equals ? (size_t)(equals - word - 2) : strlen(word) - 2;
        option = find_long(verb, word + 2, length);
        value = equals ? equals + 1 : NULL;
        if (!option) {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)(length < 63 ? length : 63), word + 2);
            return unknown(verb, name, err);
        }
        if (value && option->type == OPTION_FLAG)
            return fail(err, "cleave %s: --%s takes no value", verb->name, option->name);
    } else {
        option = find_letter(verb, word[1]);
        value = word[2] ? word + 2 : NULL;
        if (!option)
            return unknown_letter(verb, word, value ? value : *i + 1 < argc ? argv[*i + 1] : NULL, err);
    }
    bool follows = *i + 1 < argc && (argv[*i + 1][0] != '-' || !argv[*i + 1][1]);
    if (!value && option->if_absent && !follows)
        value = option->if_absent;
    if (!value && option->type != OPTION_FLAG) {
        if (*i + 1 >= argc)
            return fail(err, "cleave %s: --%s needs a value: --%s %s", verb->name, option->name, option->name,
                        option->value_name);
        value = argv[++*i];
    }
    return store(verb, option, value, options, err);
}

/* No option has a blank in its name, nor another one in its value: that is somebody else's arguments in one word. */
static bool is_option(const char *word)
{
    return word[0] == '-' && word[1] && word[strcspn(word, "= \n\t")] != ' ' && !strpbrk(word, "\n") &&
           !strstr(word, " --");
}

bool options_parse(const struct verb *verb, int argc, char **argv, void *options, const char **operands,
                   int *operand_count, struct error *err)
{
    int count = 0;
    bool only_operands = false;
    if (verb->defaults)
        memcpy(options, verb->defaults, verb->options_bytes);
    for (int i = 0; i < argc; i++) {
        if (!only_operands && !strcmp(argv[i], "--"))
            only_operands = true;
        else if (!only_operands && is_option(argv[i])) {
            if (!take(verb, argc, argv, &i, options, err))
                return false;
        } else
            operands[count++] = argv[i];
    }
    if (count < verb->min_operands || count > verb->max_operands)
        return fail(err, "cleave %s: expected %s%d operand%s, found %d\nusage: cleave %s %s", verb->name,
                    verb->min_operands == verb->max_operands ? ""
                    : count < verb->min_operands             ? "at least "
                                                             : "at most ",
                    count < verb->min_operands ? verb->min_operands : verb->max_operands,
                    (count < verb->min_operands ? verb->min_operands : verb->max_operands) == 1 ? "" : "s", count,
                    verb->name, verb->usage);
    *operand_count = count;
    return true;
}

/* The caller frees it. */
static struct text doc_of(const struct option *option)
{
    struct text doc = { 0 };
    text_add(&doc, option->doc);
    if (option->end_doc)
        option->end_doc(&doc);
    return doc;
}

void options_help(const struct verb *verb, FILE *out)
{
    fprintf(out, "%s\n\nusage: cleave %s %s\n", verb->summary, verb->name, verb->usage);
    if (verb->examples)
        fprintf(out, "\nexamples:\n%s", verb->examples);
    fprintf(out, "\noptions:\n");
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct option *o = &verb->options[i];
        char head[64], letter[8] = "    ";
        if (o->letter)
            snprintf(letter, sizeof letter, "-%c, ", o->letter);
        snprintf(head, sizeof head, o->if_absent ? "%s--%s%s[%s]" : "%s--%s%s%s", letter, o->name,
                 o->value_name ? " " : "", o->value_name ? o->value_name : "");
        struct text doc = doc_of(o);
        fprintf(out, "  %-30s %s\n", head, doc.data ? doc.data : o->doc);
        text_free(&doc);
    }
    fprintf(out, "  %-30s %s\n", "    --help", "this text");
}

static void put_word(struct text *out, const char *name, const char *value)
{
    bool plain =
        value[strspn(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=:,./@%")] == '\0';
    text_printf(out, plain ? " --%s %s" : " --%s '%s'", name, value);
}

void options_put_given(struct text *out, const struct verb *verb, const void *options, const char *other)
{
    const struct verb *taker = NULL;
    for (int v = 0; verbs[v]; v++)
        taker = strcmp(verbs[v]->name, other) == 0 ? verbs[v] : taker;
    for (size_t i = 0; taker && i < verb->option_count; i++) {
        const struct option *o = &verb->options[i];
        const void *at = (const char *)options + o->offset;
        static const char zeroes[sizeof(struct text_list)];
        const void *usual = verb->defaults ? (const char *)verb->defaults + o->offset : zeroes;
        char number[TEXT_NUMBER_BYTES];
        bool has = false;
        for (size_t k = 0; k < taker->option_count; k++)
            has = has || strcmp(taker->options[k].name, o->name) == 0;
        if (!has)
            continue;
        switch (o->type) {
        case OPTION_FLAG:
            if (*(const bool *)at)
                text_printf(out, " --%s", o->name);
            break;
        case OPTION_TEXT:
            if (*(const char *const *)at && *(const char *const *)at != *(const char *const *)usual)
                put_word(out, o->name, *(const char *const *)at);
            break;
        case OPTION_LIST: {
            const struct text_list *list = at;
            for (int k = 0; k < list->count; k++)
                put_word(out, o->name, list->item[k]);
            break;
        }
        case OPTION_INT:
            if (*(const int64_t *)at != *(const int64_t *)usual)
                text_printf(out, " --%s %lld", o->name, (long long)*(const int64_t *)at);
            break;
        case OPTION_DOUBLE:
            snprintf(number, sizeof number, "%.15g", *(const double *)at);
            if (memcmp(at, usual, sizeof(double)) != 0)
                put_word(out, o->name, number);
            break;
        }
    }
}
