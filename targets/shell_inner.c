/* What a script runs inside of itself: words that another shell is told, those of eval, and files that it takes in by
 * source. */
#include "targets/target.h"
#include "targets/shell_expand.h"
#include <string.h>

/* What a script was before a text of which nothing may stay. */
struct point {
    struct shell_memory memory;
    struct shell_command last; /* which the text's options may continue */
    const struct shell_function *functions;
    struct shell_words arguments, own_arguments; /* which set -- and shift change in place */
    int commands, variables, notes;
    size_t grown;
};

static bool keep(struct shell *s, struct point *out)
{
    const struct shell_script *script = s->script;
    *out = (struct point){ .functions = *s->functions,
                           .own_arguments = *s->own_arguments,
                           .commands = script->count,
                           .variables = script->variable_count,
                           .notes = script->note_count,
                           .grown = s->grown };
    if (script->count > 0)
        out->last = script->commands[script->count - 1];
    if (s->arguments)
        out->arguments = *s->arguments;
    return shell_remember(s, &out->memory);
}

static void go_back(struct shell *s, const struct point *point)
{
    struct shell_script *script = s->script;
    shell_recall(s, &point->memory);
    script->count = point->commands;
    if (script->count > 0)
        script->commands[script->count - 1] = point->last;
    script->variable_count = point->variables;
    script->note_count = point->notes;
    *s->functions = point->functions;
    *s->own_arguments = point->own_arguments;
    if (s->arguments)
        *s->arguments = point->arguments;
}

bool shell_is_shell(const char *word)
{
    static const char *const shells[] = { "bash", "sh", "dash", "ksh", "zsh" };
    const char *slash = strrchr(word, '/'), *name = slash ? slash + 1 : word;
    bool named = false;
    for (size_t k = 0; k < sizeof shells / sizeof *shells; k++)
        named = named || strcmp(name, shells[k]) == 0;
    return named;
}

/* Whether the word is what another shell is told to run: it stands behind -c and the name of a shell. */
static bool is_told(const struct shell_words *words, int index)
{
    const char *before = index > 0 ? words->words[index - 1] : "";
    bool told = before[0] == '-' && before[1] != '-' && before[strlen(before) - 1] == 'c', named = false;
    for (int i = 0; told && i < index - 1; i++)
        named = named || shell_is_shell(words->words[i]);
    return named;
}

bool shell_run_text(struct shell *s, const char *text, int line, const char *hidden, bool told, bool evaluated)
{
    struct error why = { 0 };
    struct point before;
    if (!keep(s, &before))
        return false;
    struct shell inner = *s;
    inner.depth++;
    inner.err = &why;
    inner.line = line;
    inner.outside = hidden ? hidden : s->outside;
    bool ok = shell_run(&inner, text, strlen(text));
    s->grown = inner.grown;
    if (ok && evaluated)
        s->folder = inner.folder;
    else if (ok)
        shell_recall(s, &before.memory);
    if (ok)
        return true;
    if (told || why.kind == ERROR_ENVIRONMENT) {
        *s->err = why;
        return false;
    }
    go_back(s, &before);
    return true;
}

bool shell_run_word(struct shell *s, const struct shell_words *words, int index)
{
    bool evaluated = index > 0 && strcmp(words->words[index - 1], "eval") == 0;
    enum shell_from spelled = s->spelled;
    s->spelled = SHELL_FROM_EITHER; /* its variables have values already */
    bool good = shell_run_text(s, words->words[index], s->line, words->hidden, evaluated || is_told(words, index),
                               evaluated);
    s->spelled = spelled;
    return good;
}

bool shell_join_evaluated(struct shell *s, struct shell_words *words)
{
    struct text all = { 0 };
    for (int i = 1; i < words->count; i++)
        text_printf(&all, "%s%s", i > 1 ? " " : "", words->words[i]);
    words->count = 2;
    return shell_take(s, &all, &words->words[1]);
}

/* Notes that the command which is read takes in a file that is not read. path: NULL, nobody knows it. */
static bool note_unread(struct shell *s, const struct shell_words *words, const char *path, const char *why)
{
    const struct shell_operand *operand = &s->operand;
    int length = words->count > 1 ? (int)(operand->length < 80 ? operand->length : 80) : 0;
    if (length > 0 && s->beside && s->beside->unread) {
        const char *name = path ? path : shell_copy(s, operand->at, (size_t)length);
        if (!name)
            return false;
        s->beside->unread(s->beside, name, why);
    }
    return shell_note(s, "%s%s%.*s (line %d: not read, since %.90s, and variables that it sets are unknown)",
                      words->words[0], length > 0 ? " " : "", length, length > 0 ? operand->at : "", s->line, why);
}

enum { MOST_FILES = 64 };

static struct shell_file *launch_of(const struct shell *s)
{
    struct shell_file *launch = s->file;
    while (launch->before)
        launch = launch->before;
    return launch;
}

/* Files that take in each other would never end. */
bool shell_count_file(struct shell *s, const char **why)
{
    struct shell_file *launch = launch_of(s);
    if (launch->taken > MOST_FILES)
        return false;
    if (s->depth >= SHELL_DEPTH)
        *why = "more than 8 files or functions are inside each other";
    else if (launch->taken++ == MOST_FILES)
        *why = launch->full ? "a file before it grew too large" : "more than 64 files are taken in";
    return true;
}
_Static_assert(SHELL_DEPTH == 8 && MOST_FILES == 64, "shell_count_file() says them");

/* Runs the file in place, and leaves all as it was where that is not understood. */
static bool run_file(struct shell *s, const struct shell_words *words, const struct shell_file *found, const char *text,
                     size_t length, bool inverted)
{
    struct error why = { 0 };
    struct point before;
    int first = words->count > 2 && words->words[1][0] == '-' ? 3 : 2;
    struct shell_words given = { .count = words->count - first, .words = words->words + first };
    struct shell_file *file = shell_room(s, 1, sizeof *file);
    if (!file || !keep(s, &before))
        return false;
    *file = *found;
    struct shell inner = *s;
    inner.file = file;
    inner.line = 1;
    inner.spelled = SHELL_FROM_HERE;
    inner.depth++;
    inner.err = &why;
    inner.success = true;
    inner.arguments = given.count > 0 ? &given : s->arguments;
    bool ok = shell_grow(&inner, length + sizeof inner) && shell_run(&inner, text, length);
    s->grown = inner.grown;
    if (ok) {
        s->success = inner.success != inverted;
        s->folder = inner.folder;
        s->arguments = given.count > 0 ? s->arguments : inner.arguments;
        return true;
    }
    if (why.kind == ERROR_ENVIRONMENT) {
        *s->err = why;
        return false;
    }
    go_back(s, &before);
    struct shell_file *launch = launch_of(s);
    if (launch->taken > MOST_FILES) /* nor does it stay that this was said */
        launch->taken = MOST_FILES;
    if (s->grown > SHELL_MOST_BYTES) { /* it lies in the arena all the same, and so would others */
        launch->full = true;
        launch->taken = MOST_FILES;
        s->grown = before.grown;
    }
    return note_unread(s, words, found->path, why.message);
}

bool shell_begins_source(const char *text)
{
    text += strspn(text, " \t\n");
    size_t length = strcspn(text, " \t\n");
    return text[length] && ((length == 6 && memcmp(text, "source", 6) == 0) || (length == 1 && *text == '.'));
}

bool shell_source(struct shell *s, const struct shell_words *words, bool inverted, bool *found)
{
    const char *command = words->count > 0 ? words->words[0] : "", *path, *text = "", *why = NULL;
    struct shell_file file = { .before = s->file };
    size_t length = 0;
    *found = strcmp(command, "source") == 0 || strcmp(command, ".") == 0;
    if (!*found)
        return true;
    if (!shell_operand_path(s, words, &path))
        return false;
    why = path ? shell_why_written(s, path) : "its path is not known";
    if (!why && !(s->beside && s->beside->source))
        why = "files that a script takes in are not at hand here";
    else if (!why && !shell_count_file(s, &why))
        return true;
    if (!why && !s->beside->source(s->beside, s->arena, path, &file.path, &text, &length, &why, s->err))
        return false;
    for (const struct shell_file *outer = s->file; outer && !why; outer = outer->before)
        if (strcmp(outer->path, file.path) == 0)
            why = "it takes in itself";
    if (!why && memchr(text, 0, length))
        why = "it is no text";
    file.name = file.path;
    return why ? note_unread(s, words, path, why) : run_file(s, words, &file, text, length, inverted);
}
