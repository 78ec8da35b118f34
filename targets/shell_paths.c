/* Places of files as a script says them: its own, its folder, and where cd went. All are from the launch's folder,
 * since scripts run where they lie. */
#include "targets/shell_expand.h"
#include <string.h>

bool shell_path_variable(struct shell *s, const char *name, size_t length, struct shell_variable *out)
{
    const struct {
        const char *name, **value;
    } known[] = {
        { "0", &s->launch }, { "BASH_SOURCE", &s->file->path }, { "PWD", &s->folder }, { "SLURM_SUBMIT_DIR", &s->start }
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strlen(known[i].name) == length && memcmp(known[i].name, name, length) == 0 && *known[i].value) {
            *out = (struct shell_variable){
                .name = known[i].name, .from = SHELL_FROM_LAUNCH, .count = 1, .values = known[i].value
            };
            return true;
        }
    return false;
}

/* The path as somebody in the folder means it. */
static const char *join(struct shell *s, const char *folder, const char *path)
{
    struct text text = { 0 };
    const char *joined;
    if (*path == '/' || strcmp(folder, ".") == 0)
        return *path ? path : folder;
    if (!*path || strcmp(path, ".") == 0)
        return folder;
    text_printf(&text, "%s/%s", folder, path);
    return shell_take(s, &text, &joined) ? joined : NULL;
}

/* The folder that has the file or folder; that of ".", which a script's absolute path would say, is "..". */
static const char *parent(struct shell *s, const char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] == '/')
        length--;
    size_t last = length;
    while (last > 0 && path[last - 1] != '/')
        last--;
    bool up = (length - last == 1 && path[last] == '.') || (length - last == 2 && memcmp(path + last, "..", 2) == 0);
    if (length == 1 && *path == '.')
        return "..";
    if (up)
        return join(s, path, "..");
    while (last > 1 && path[last - 1] == '/')
        last--;
    return last == 0 ? "." : shell_copy(s, path, last);
}

const char *shell_place_of(struct shell *s, const char *word, const struct shell_operand *operand, const char *folder)
{
    if (operand->unknown || !*word || *word == '-' || (operand->length > 0 && *operand->at == '~'))
        return NULL;
    bool moved = !folder || strcmp(folder, ".") != 0;
    if (*word == '/' || operand->from == SHELL_FROM_LAUNCH || !moved)
        return word;
    return folder && operand->from == SHELL_FROM_HERE ? join(s, folder, word) : NULL;
}

/* Reads one command that asks for places. *known: it is one, and all in it is known. */
static bool read_command(struct shell *s, const char **folder, const char **printed, bool *known)
{
    static const char *const commands[] = { "pwd", "cd", "dirname", "realpath", "readlink", "unset" };
    struct shell_words words = { 0 };
    struct shell_operand operand = { 0 };
    size_t which = 0;
    int operands = 0;
    bool taken = false;
    while (which < sizeof commands / sizeof *commands && !shell_says(s, commands[which]))
        which++;
    *known = which < sizeof commands / sizeof *commands;
    while (*known) {
        shell_skip_blank(s, false);
        s->p += s->end - s->p >= 2 && s->p[0] == '&' && s->p[1] == '>';
        if (s->p == s->end || strchr("\n;&|()", *s->p))
            break;
        if (!shell_redirection(s, &taken))
            return false;
        if (taken)
            continue;
        const char *at = s->p;
        if (!shell_word(s, &words, true))
            return false;
        const char *word = words.words[words.count - 1];
        if (words.count == 1 || (*word == '-' && operands == 0 && (word[1] != '-' || !word[2])))
            continue;
        operand = (struct shell_operand){ at, (size_t)(s->p - at), s->unknown, s->from };
        operands++;
    }
    if (!*known || which == 5)
        return true;
    const char *path = operands == 1 ? shell_place_of(s, words.words[words.count - 1], &operand, *folder) : NULL;
    *known = which == 0 ? operands == 0 : path != NULL;
    if (*known && which == 1)
        *folder = path;
    else if (*known)
        *printed = which == 0 ? *folder : which == 2 ? parent(s, path) : path;
    return true;
}

bool shell_printed_path(struct shell *s, const char *command, size_t length, const char **out)
{
    struct shell inner = *s;
    struct error why = { 0 };
    const char *folder = s->folder ? s->folder : ".", *printed = NULL;
    bool known = s->depth < SHELL_DEPTH, good = true;
    inner.p = command;
    inner.end = command + length;
    inner.depth++;
    inner.err = &why;
    while (known && good) {
        while (inner.p < inner.end && strchr(" \t\r\n;", *inner.p))
            inner.p++;
        if (inner.p == inner.end)
            break;
        bool assigned = true; /* CDPATH= */
        while (good && assigned) {
            good = shell_assignment(&inner, false, &assigned);
            shell_skip_blank(&inner, false);
        }
        good = good && read_command(&inner, &folder, &printed, &known);
        shell_skip_blank(&inner, false);
        size_t left = (size_t)(inner.end - inner.p);
        bool both = left >= 2 && memcmp(inner.p, "&&", 2) == 0;
        inner.p += both ? 2 : 0;
        known = known && (left == 0 || both || strchr(";\n", *inner.p));
    }
    s->grown = inner.grown;
    good = good && !why.message[0];
    *out = good && known ? printed : NULL;
    if (!good && why.kind == ERROR_ENVIRONMENT) {
        *s->err = why;
        return false;
    }
    return true;
}

bool shell_operand_path(struct shell *s, const struct shell_words *words, const char **out)
{
    bool marked = words->count > 2 && words->words[1][0] == '-';
    *out = words->count > 1 ? shell_place_of(s, words->words[marked ? 2 : 1], &s->operand, s->folder) : NULL;
    return !s->err->message[0];
}

/* Without what says the folder that it is in already. */
static const char *plain_path(const char *path)
{
    while (path[0] == '.' && path[1] == '/')
        path += 2 + strspn(path + 2, "/");
    return path;
}

bool shell_keep_written(struct shell *s, const struct shell_words *words)
{
    bool tee = words->count > 1 && strcmp(words->words[0], "tee") == 0;
    const char *path = s->output ? shell_place_of(s, s->output, &s->output_operand, s->folder) : NULL;
    const char *copy = tee ? shell_place_of(s, words->words[words->count - 1], &s->operand, s->folder) : NULL;
    return !s->err->message[0] && (!path || shell_why_written(s, path) || shell_add_word(s, s->written, path)) &&
           (!copy || shell_why_written(s, copy) || shell_add_word(s, s->written, copy));
}

const char *shell_why_written(const struct shell *s, const char *path)
{
    for (int i = 0; i < s->written->count; i++)
        if (strcmp(plain_path(s->written->words[i]), plain_path(path)) == 0)
            return "the script writes it itself";
    return NULL;
}

bool shell_change_folder(struct shell *s, const struct shell_words *words)
{
    const char *command = words->count > 0 ? words->words[0] : "";
    if (strcmp(command, "pushd") == 0 || strcmp(command, "popd") == 0)
        s->folder = NULL;
    return strcmp(command, "cd") != 0 || shell_operand_path(s, words, &s->folder);
}
