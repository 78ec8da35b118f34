#include "cli/called_script.h"
#include "base/text.h"
#include "targets/shell.h"
#include <string.h>
#include <unistd.h>

static bool is_word(const char *at, size_t length, const char *const *words)
{
    for (; *words; words++)
        if (strlen(*words) == length && strncmp(at, *words, length) == 0)
            return true;
    return false;
}

/* Where the next word of a command begins: behind blanks, and line ends with a backslash before them. */
static const char *next_word(const char *at)
{
    while (*at == ' ' || *at == '\t' || (*at == '\\' && (at[1] == '\n' || at[1] == '\0')))
        at += *at == '\\' && at[1] ? 2 : 1;
    return at;
}

/* The bytes of the word that begins here, with its quotes; 0: the command ends. */
static size_t word_length(const char *at)
{
    const char *p = at;
    for (char quote = 0; *p && (quote || !strchr(" \t\n;|&<>", *p)); p++) {
        if (*p == '\\' && quote != '\'' && p[1])
            p++;
        else if (*p == quote)
            quote = 0;
        else if (!quote && (*p == '"' || *p == '\''))
            quote = *p;
    }
    return *at == '#' ? 0 : (size_t)(p - at);
}

/* By its name: other words are options of who starts it, and their values. */
static bool is_script(const char *word)
{
    size_t length = strlen(word);
    return (length > 3 && strcmp(word + length - 3, ".sh") == 0) || strstr(word, ".slurm") || strstr(word, ".sbatch");
}

static bool is_variable(const char *at, size_t length)
{
    const char *equals = memchr(at, '=', length);
    for (const char *p = at; equals && p < equals; p++)
        equals = (*p >= 'a' && *p <= 'z') || (*p >= 'A' && *p <= 'Z') || *p == '_' || (p > at && *p >= '0' && *p <= '9')
                     ? equals
                     : NULL;
    return equals > at;
}

bool called_script(const char **path, const char **before, const char *launch, struct arena *arena, struct error *err)
{
    static const char *const shells[] = { "bash", "sh", "sbatch", "zsh", "dash", NULL }, *const wrappers[] = {
        "env", "exec", "nohup", "time", "command", NULL
    };
    struct text words = { 0 }, options = { 0 };
    const char *at = next_word(launch), *slash, *script = NULL, *missing = NULL;
    size_t length = word_length(at), folder = 0;
    for (; length > 0; at = next_word(at + length), length = word_length(at)) {
        bool variable = is_variable(at, length); /* of its environment */
        if (!variable && !is_word(at, length, wrappers))
            break;
        if (variable)
            text_printf(&words, "%.*s; ", (int)length, at);
    }
    while ((slash = memchr(at + folder, '/', length - folder)) != NULL)
        folder = (size_t)(slash - at) + 1;
    static const char *const batch[] = { "sbatch", NULL };
    bool shell = is_word(at + folder, length - folder, shells), good = true;
    bool submits = is_word(at + folder, length - folder, batch);
    *path = NULL;
    for (int i = shell ? 0 : 1; good && i < 16 && length > 0 && !script; i++) { /* its own options come first */
        if (shell) {
            at = next_word(at + length);
            length = word_length(at);
            if (!submits && length > 1 && at[0] == '-' && at[1] != '-' && memchr(at, 'c', length))
                break; /* what follows -c is no script */
        }
        bool quoted = length > 2 && (*at == '"' || *at == '\'') && at[length - 1] == *at;
        const char *word = arena_strndup(arena, at + quoted, length - 2 * (size_t)quoted);
        good = word != NULL;
        bool named = good && is_script(word);
        if (!good || (!shell && !named))
            break;
        script = word[0] && access(word, R_OK) == 0 ? word : NULL;
        missing = named || (!missing && word[0] && word[0] != '-') ? word : missing;
        if (!shell || named)
            break;
        if (submits && !script && !is_variable(at, length))
            text_printf(&options, " %.*s", (int)length, at);
    }
    if (options.length > 0)
        text_printf(&words, "\"" SHELL_BATCH "\"%.*s; ", (int)options.length, options.data);
    text_add(&words, "set --");
    for (at = next_word(at + length), length = word_length(at); length > 0;
         at = next_word(at + length), length = word_length(at)) {
        bool descriptor = strspn(at, "0123456789") == length && (at[length] == '<' || at[length] == '>');
        if (!descriptor) /* of 2>&1 */
            text_printf(&words, " %.*s", (int)length, at);
    }
    text_add(&words, "; ");
    *before = words.failed || options.failed ? NULL : arena_strndup(arena, words.data, words.length);
    text_free(&words);
    text_free(&options);
    *path = script;
    if (!good || !*before)
        return fail_memory(err);
    return script || !shell || !missing || fail(err, "%.300s: cannot read this script (check the path)", missing);
}
