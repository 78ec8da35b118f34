/* Texts that a script makes words of: plain files beside it, by $(cat FILE) and readarray, and here documents, which may
 * be scripts themselves. Files are had as those are that a script takes in by source. */
#include "base/num.h"
#include "targets/target.h"
#include "targets/shell_expand.h"
#include <string.h>

enum { MOST_TEXT_BYTES = 1 << 16 }; /* of a file of words: more of them is no launch */

/* Notes that a file is not read whose text the script makes words of. */
static bool note_unread(struct shell *s, const char *name, const char *why)
{
    if (s->beside && s->beside->unread)
        s->beside->unread(s->beside, name, why);
    return shell_note(s, "%.80s (line %d: not read, since %.90s, and words that it holds are unknown)", name, s->line,
                      why);
}

/* The file's text, in the arena; NULL: it is not read, which is noted. False: a failure. */
static bool file_text(struct shell *s, const char *word, const struct shell_operand *operand, const char **out)
{
    const char *path = shell_place_of(s, word, operand, s->folder), *why = NULL, *text = "", *found;
    size_t length = 0;
    *out = NULL;
    if (s->err->message[0])
        return false;
    why = path ? shell_why_written(s, path) : "its path is not known";
    if (!why && !(s->beside && s->beside->source))
        why = "files that a script reads are not at hand here";
    else if (!why && !shell_count_file(s, &why))
        return true;
    if (!why && !s->beside->source(s->beside, s->arena, path, &found, &text, &length, &why, s->err))
        return false;
    if (!why && length > MOST_TEXT_BYTES)
        why = "it is larger than 64 KiB";
    if (!why && memchr(text, 0, length))
        why = "it is no text";
    if (why)
        return note_unread(s, path ? path : operand->length > 0 ? shell_copy(s, operand->at, operand->length) : word,
                           why);
    *out = shell_copy(s, text, length);
    return *out != NULL;
}

/* The document that the line announces, without the line that ends it: p stands in the line. *hidden: what is missing of
 * it. */
static bool here_text(struct shell *s, const char **out, const char **hidden)
{
    const char *begin = memchr(s->p, '\n', (size_t)(s->end - s->p)), *end = s->end;
    begin = begin ? begin + 1 : s->end;
    for (const char *p = begin; p < s->end && end == s->end;) {
        const char *stop = memchr(p, '\n', (size_t)(s->end - p)), *word = p;
        stop = stop ? stop : s->end;
        while (s->here_strips && word < stop && *word == '\t')
            word++;
        if ((size_t)(stop - word) == s->here_length && memcmp(word, s->here, s->here_length) == 0)
            end = p;
        p = stop + (stop < s->end);
    }
    *hidden = NULL;
    if (s->here_literal)
        return (*out = shell_copy(s, begin, (size_t)(end - begin))) != NULL;
    return shell_expand_text(s, begin, (size_t)(end - begin), out, hidden);
}

/* ---- commands that print texts ---- */

/* A character of tr's sets, behind which *p is then. */
static char set_character(const char **p)
{
    static const char letters[] = "nrt", meant[] = "\n\r\t";
    const char *letter = **p == '\\' && (*p)[1] ? strchr(letters, (*p)[1]) : NULL;
    char c = letter ? meant[letter - letters] : **p == '\\' && (*p)[1] ? (*p)[1] : **p;
    *p += **p == '\\' && (*p)[1] ? 2 : 1;
    return c;
}

/* tr FROM TO of one character each, and tr -d FROM. False: others are not understood. */
static bool translate(char *text, const struct shell_words *words)
{
    if (words->count != 3 || !words->words[1][0] || !words->words[2][0])
        return false;
    bool deletes = strcmp(words->words[1], "-d") == 0;
    const char *from = words->words[deletes ? 2 : 1], *to = words->words[2];
    char old = set_character(&from), new = deletes ? 0 : set_character(&to), *end = text;
    if (*from || (!deletes && *to))
        return false;
    for (const char *p = text; *p; p++)
        if (*p != old || !deletes)
            *end++ = *p == old ? new : *p;
    *end = 0;
    return true;
}

/* Takes lines out that are comments, or with `empty` those without a word. */
static void drop_lines(char *text, bool empty)
{
    char *end = text;
    for (const char *p = text; *p;) {
        size_t length = strcspn(p, "\n"), blank = strspn(p, " \t\r");
        bool drops = empty ? blank == length || (blank == length + 1 && p[length]) : p[blank] == '#';
        length += p[length] == '\n';
        if (!drops)
            end = (char *)memmove(end, p, length) + length;
        p += length;
    }
    *end = 0;
}

static bool is_one_of(const char *word, const char *const *words)
{
    while (*words && strcmp(*words, word) != 0)
        words++;
    return *words != NULL;
}

/* grep -v and sed, as people take comments and empty lines out by them. False: they do something else. */
static bool strip(char *text, const struct shell_words *words)
{
    static const char *const comments[] = { "^#", "^\\s*#", "^[[:space:]]*#", "^ *#", NULL },
                            *const blanks[] = { "^$", "^\\s*$", "^[[:space:]]*$", NULL },
                            *const deletes_comments[] = { "/^#/d", "/^\\s*#/d", NULL },
                            *const deletes_blanks[] = { "/^$/d", "/^\\s*$/d", NULL };
    bool greps = strcmp(words->words[0], "grep") == 0, inverts = false;
    const char *pattern = words->words[words->count - 1];
    for (int i = 1; i + 1 < words->count; i++) {
        const char *word = words->words[i];
        if (word[0] != '-' || word[1 + strspn(word + 1, "vEeh")])
            return false;
        inverts = inverts || strchr(word, 'v');
    }
    bool comment = is_one_of(pattern, greps ? comments : deletes_comments),
         blank = is_one_of(pattern, greps ? blanks : deletes_blanks);
    if (words->count < 2 || inverts != greps || !(comment || blank))
        return false;
    drop_lines(text, blank);
    return true;
}

/* What one command makes of the text that it is fed. False: nobody knows. */
static bool filter(char *text, const struct shell_words *words)
{
    const char *command = words->words[0];
    bool plain = words->count == 1;
    if (strcmp(command, "tr") == 0)
        return translate(text, words);
    if (strcmp(command, "grep") == 0 || strcmp(command, "sed") == 0)
        return strip(text, words);
    if (strcmp(command, "xargs") == 0)
        return (plain || (words->count == 2 && strcmp(words->words[1], "echo") == 0)) && !strpbrk(text, "\"'\\");
    return strcmp(command, "cat") == 0 && plain;
}

/* How many words of the command are its own, behind which files stand that it reads. */
static int own_words(const struct shell_words *words)
{
    const char *command = words->count > 0 ? words->words[0] : "";
    bool strips = strcmp(command, "grep") == 0 || strcmp(command, "sed") == 0;
    if (!strips && strcmp(command, "cat") != 0)
        return words->count;
    int own = 1;
    while (own < words->count && words->words[own][0] == '-' && words->words[own][1])
        own++;
    return min_int(words->count, own + strips);
}

/* What the commands of a pipe made of files so far. */
struct pipe {
    struct text text;
    const char *hidden; /* what is missing of it */
    bool fed, known;    /* it was fed something; all of it was understood */
};

static bool add_file(struct shell *s, struct pipe *pipe, const char *word, const struct shell_operand *operand)
{
    const char *text;
    if (!file_text(s, word, operand, &text))
        return false;
    pipe->known = pipe->known && text;
    pipe->fed = true;
    text_add(&pipe->text, text ? text : "");
    return true;
}

/* Reads one command of a pipe, and what its files and its here document hold where it is the first. */
static bool read_command(struct shell *s, struct pipe *pipe, struct shell_words *words)
{
    bool first = !pipe->fed;
    s->fed = s->input = s->feeder = s->output = NULL;
    s->documents = false;
    while (shell_skip_blank(s, false), s->p < s->end && !strchr("\n|;&()", *s->p)) {
        bool taken = false;
        if (!shell_redirection(s, &taken))
            return false;
        const char *at = s->p;
        if (taken)
            continue;
        if (!shell_word(s, words, true))
            return false;
        const struct shell_operand operand = { at, (size_t)(s->p - at), s->unknown, s->from };
        if (own_words(words) == words->count)
            continue;
        if (!add_file(s, pipe, words->words[--words->count], &operand))
            return false;
        pipe->known = pipe->known && first;
    }
    bool redirected = s->input && s->input_operand.length > 0, fed = s->fed && !s->fed_unknown;
    bool other = s->feeder || s->output || (s->fed && !fed);
    pipe->known = pipe->known && !other && (first || !(redirected || s->documents || fed));
    if (pipe->known && redirected && !add_file(s, pipe, s->input, &s->input_operand))
        return false;
    if (pipe->known && fed) {
        text_printf(&pipe->text, "%s\n", s->fed);
        pipe->fed = true;
    }
    if (pipe->known && s->documents) {
        const char *text;
        if (!here_text(s, &text, &s->printed))
            return false;
        text_add(&pipe->text, text);
        pipe->hidden = s->printed;
        pipe->fed = true;
    }
    return true;
}

/* Whether a command that may print a file begins here, also without a word: < FILE. */
static bool begins_pipe(const struct shell *s)
{
    static const char *const commands[] = { "cat", "grep", "sed", "tr", "xargs" };
    bool begins = s->p < s->end && *s->p == '<';
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        begins = begins || shell_says(s, commands[i]);
    return begins;
}

/* Reads the pipe; behind it there may be the here document alone. */
static bool read_pipe(struct shell *s, struct pipe *pipe)
{
    for (pipe->known = true; pipe->known;) {
        struct shell_words words = { 0 };
        pipe->known = begins_pipe(s);
        if (pipe->known && !read_command(s, pipe, &words))
            return false;
        pipe->known = pipe->known && pipe->fed && !pipe->text.failed;
        if (pipe->known && words.count > 0 && pipe->text.data) {
            pipe->known = filter(pipe->text.data, &words);
            pipe->text.length = strlen(pipe->text.data);
        }
        if (!pipe->known || s->p == s->end || *s->p != '|')
            break;
        s->p++;
        shell_skip_blank(s, false);
    }
    if (!s->here)
        shell_skip_blank(s, true);
    pipe->known = pipe->known && (s->p == s->end || (s->here && *s->p == '\n'));
    return true;
}

bool shell_printed_text(struct shell *s, const char *command, size_t length, const char **out)
{
    struct shell inner = *s;
    struct error why = { 0 };
    struct pipe pipe = { 0 };
    *out = NULL;
    inner.p = command;
    inner.end = command + length;
    inner.depth++;
    inner.err = &why;
    inner.here = NULL;
    shell_skip_blank(&inner, true);
    bool good = s->depth >= SHELL_DEPTH || read_pipe(&inner, &pipe);
    s->grown = inner.grown;
    s->printed = s->printed ? s->printed : pipe.hidden;
    while (pipe.text.length > 0 && pipe.text.data[pipe.text.length - 1] == '\n')
        pipe.text.length--;
    if (!good && why.kind == ERROR_ENVIRONMENT)
        *s->err = why;
    else
        good = !good || !pipe.known || shell_take(s, &pipe.text, out);
    text_free(&pipe.text);
    return good;
}

/* ---- commands that read texts ---- */

/* What the command is fed: a word, a document, a file, or what another prints. NULL: nothing, or what is not known. */
static bool fed_text(struct shell *s, const char **out)
{
    *out = s->fed_unknown ? NULL : s->fed;
    if (s->fed)
        return true;
    if (s->documents)
        return here_text(s, out, &s->printed);
    if (s->feeder)
        return shell_printed_text(s, s->feeder, s->feeder_length, out);
    return !s->input || file_text(s, s->input, &s->input_operand, out);
}

/* Each line is an element. */
static bool read_lines(struct shell *s, const struct shell_words *words, const char *text)
{
    struct shell_words lines = { 0 };
    struct text what = { 0 };
    const char *name = "MAPFILE";
    bool understood = text != NULL;
    for (int i = 1; i < words->count; i++)
        if (words->words[i][0] != '-')
            name = words->words[i];
        else
            understood = understood && strcmp(words->words[i], "-t") == 0;
    for (const char *p = text; understood && *p;) {
        size_t length = strcspn(p, "\n");
        if (!shell_add_word(s, &lines, shell_copy(s, p, length)))
            return false;
        p += length + (p[length] == '\n');
    }
    text_printf(&what, "%.20s %.40s (%.80s:%d)", words->words[0], name,
                s->file->before ? s->file->path : s->file->name, s->line);
    s->from = SHELL_FROM_EITHER;
    return shell_take(s, &what, &s->printed) && shell_set_list(s, name, &lines, !understood);
}

/* The name gets the text without the blanks around it. */
static bool read_whole(struct shell *s, const char *name, const char *text)
{
    const char *begin = text ? text + strspn(text, " \t\n") : "";
    size_t length = strlen(begin);
    while (length > 0 && strchr(" \t\n", begin[length - 1]))
        length--;
    const char *value = shell_copy(s, begin, length);
    return value && shell_set(s, name, strlen(name), value, !text);
}

/* What is read is not known: the names get nothing, and whoever misses it is told. */
static bool read_unknown(struct shell *s, const struct shell_words *words)
{
    int i = 1, named = 0;
    for (; i < words->count && words->words[i][0] == '-'; i++) {
        const char *word = words->words[i];
        i += word[1] && strchr("pdnNtui", word[strlen(word) - 1]); /* whose value is the next word */
    }
    for (; i < words->count || named == 0; i++, named++) {
        const char *name = i < words->count ? words->words[i] : "REPLY";
        struct text what = { 0 };
        text_printf(&what, "read %.40s (%.80s:%d)", name, s->file->before ? s->file->path : s->file->name, s->line);
        s->from = SHELL_FROM_EITHER;
        if (!shell_take(s, &what, &s->printed) || !shell_set(s, name, strlen(name), "", true))
            return false;
    }
    return true;
}

bool shell_reads(struct shell *s, const struct shell_words *words, const char *between, bool *found)
{
    const char *command = words->count > 0 ? words->words[0] : "", *text;
    bool reads = strcmp(command, "read") == 0, lists = !strcmp(command, "readarray") || !strcmp(command, "mapfile");
    *found = reads || lists;
    if (!*found)
        return true;
    if (!(s->fed || s->documents || s->feeder || s->input)) /* of a loop, of a pipe, or what somebody types */
        return lists ? read_lines(s, words, NULL) : read_unknown(s, words);
    if (!fed_text(s, &text))
        return false;
    if (lists)
        return read_lines(s, words, text);
    for (int i = 1; i + 2 < words->count; i++) /* -d '': the name gets all of it */
        if (words->words[i][0] == '-' && strchr(words->words[i], 'd') && !words->words[i + 1][0])
            return read_whole(s, words->words[i + 2], text);
    s->fed_unknown = !text;
    s->fed = text ? text : "";
    return shell_read_names(s, words, between);
}

/* ---- here documents that are scripts ---- */

static bool ends_in(const char *name, const char *end)
{
    size_t length = strlen(name), of_end = strlen(end);
    return length > of_end && strcmp(name + length - of_end, end) == 0;
}

static bool names_script(const char *name)
{
    return ends_in(name, ".sh") || ends_in(name, ".bash") || ends_in(name, ".sbatch") || ends_in(name, ".slurm");
}

/* Whether who runs the words reads commands from what it is fed: a shell without a script, sbatch, or ssh. */
static bool runs_input(const struct shell_words *words)
{
    bool shell = false, script = false;
    for (int i = 0; i < words->count; i++) {
        const char *word = words->words[i];
        script = script || names_script(word) || (shell && word[0] != '-') || (shell && strcmp(word, "-c") == 0);
        shell = shell || shell_is_shell(word);
    }
    bool remote = words->count > 0 && (strcmp(words->words[0], "ssh") == 0 || strcmp(words->words[0], "sbatch") == 0);
    return (shell || remote) && !script;
}

bool shell_run_here(struct shell *s, const struct shell_words *words)
{
    const char *text, *command = words->count > 0 ? words->words[0] : "", *hidden;
    const char *file = strcmp(command, "tee") == 0 && words->count > 1 ? words->words[words->count - 1] : s->output;
    bool told = s->documents && runs_input(words), writes = !strcmp(command, "cat") || !strcmp(command, "tee");
    if (!s->documents || (!told && !(writes && file)))
        return true;
    if (s->depth >= SHELL_DEPTH)
        return told ? shell_fail(s, "a here document: more than %d scripts or functions inside each other", SHELL_DEPTH)
                    : shell_note_command(s, words, "its here document is not read, inside of 8 scripts or functions");
    if (!here_text(s, &text, &hidden))
        return false;
    bool is_script = told || names_script(file) || strncmp(text, "#!/bin/", 7) == 0 || strstr(text, "\n#SBATCH") ||
                     strncmp(text, "#!/usr/bin/env bash", 19) == 0;
    return !is_script || shell_run_text(s, text, s->line + 1, hidden, told, false);
}
