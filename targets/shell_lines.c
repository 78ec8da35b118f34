/* What lies between the words of a shell script: blanks, lines, here documents and redirections. Here are also failures
 * and notes, which say the line. */
#include "base/num.h"
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

bool shell_fail(struct shell *s, const char *format, ...)
{
    char message[256];
    va_list list;
    va_start(list, format);
    vsnprintf(message, sizeof message, format, list);
    va_end(list);
    return fail(s->err, "%s:%d: %s", s->file->name, s->line, message);
}

bool shell_grow(struct shell *s, size_t bytes)
{
    s->grown += bytes;
    return s->grown <= SHELL_MOST_BYTES || shell_fail(s, "the script's words grow beyond %d bytes", SHELL_MOST_BYTES);
}

void *shell_room(struct shell *s, int count, size_t size)
{
    void *room = arena_alloc(s->arena, (size_t)max_int(count, 1), size);
    bool good = room ? shell_grow(s, (size_t)count * size) : fail_memory(s->err);
    return good ? room : NULL;
}

const char *shell_copy(struct shell *s, const char *text, size_t length)
{
    char *copy = shell_room(s, (int)length + 1, sizeof *copy);
    return copy ? memcpy(copy, text, length) : NULL;
}

bool shell_take(struct shell *s, struct text *text, const char **out)
{
    *out = text->failed ? NULL : shell_copy(s, text->data ? text->data : "", text->length);
    bool good = !text->failed || fail_memory(s->err);
    text_free(text);
    *text = (struct text){ 0 };
    return good && *out;
}

bool shell_add_word(struct shell *s, struct shell_words *words, const char *word)
{
    if (!word)
        return false;
    if (words->count == words->capacity) {
        const char **more = arena_more(s->arena, words->words, words->count, &words->capacity, sizeof *more);
        if (!more)
            return fail_memory(s->err);
        words->words = more;
    }
    words->words[words->count++] = word;
    return shell_grow(s, sizeof word);
}

bool shell_note(struct shell *s, const char *format, ...)
{
    struct shell_script *script = s->script;
    char message[320];
    va_list list;
    int begun = s->file->before ? snprintf(message, sizeof message, "%.60s: ", s->file->path) : 0;
    va_start(list, format);
    vsnprintf(message + begun, sizeof message - (size_t)begun, format, list);
    va_end(list);
    for (int i = 0; i < script->note_count; i++)
        if (strcmp(script->notes[i], message) == 0)
            return true;
    script->notes =
        arena_more(s->arena, script->notes, script->note_count, &script->note_capacity, sizeof *script->notes);
    const char *kept = script->notes ? arena_strdup(s->arena, message) : NULL;
    if (!kept)
        return fail_memory(s->err);
    script->notes[script->note_count++] = kept;
    return shell_grow(s, strlen(kept));
}

/* ---- what lies between words ---- */

static void skip_here(struct shell *s)
{
    const char *word = s->here;
    s->here = NULL;
    while (s->p < s->end) {
        const char *line = s->p;
        shell_skip_line(s);
        const char *stop = s->p;
        if (s->p < s->end) {
            s->p++;
            s->line++;
        }
        while (s->here_strips && line < stop && *line == '\t')
            line++;
        if ((size_t)(stop - line) == s->here_length && memcmp(line, word, s->here_length) == 0)
            return;
    }
}

static void end_line(struct shell *s)
{
    s->p++;
    s->line++;
    if (s->here)
        skip_here(s);
}

void shell_skip_line(struct shell *s)
{
    while (s->p < s->end && *s->p != '\n')
        s->p++;
}

bool shell_continues(const struct shell *s)
{
    return s->end - s->p >= 2 && s->p[0] == '\\' && (s->p[1] == '\n' || s->p[1] == '\r');
}

static void skip(struct shell *s, bool lines, const char *also)
{
    while (s->p < s->end) {
        if (*s->p == ' ' || *s->p == '\t' || *s->p == '\r' || (*s->p && strchr(also, *s->p))) {
            s->p++;
        } else if (shell_continues(s)) {
            s->p += s->p[1] == '\r' && s->end - s->p >= 3 && s->p[2] == '\n' ? 3 : 2;
            s->line++;
        } else if (lines && *s->p == '\n') {
            end_line(s);
        } else if (lines && !*also && *s->p == '#') {
            shell_skip_line(s);
        } else {
            if (!lines && *s->p == '#')
                shell_skip_line(s);
            return;
        }
    }
}

void shell_skip_blank(struct shell *s, bool lines)
{
    skip(s, lines, "");
}

bool shell_says(const struct shell *s, const char *word)
{
    size_t length = strlen(word), left = (size_t)(s->end - s->p);
    return left >= length && memcmp(s->p, word, length) == 0 &&
           (left == length || strchr(" \t\r\n;&|()", s->p[length]) != NULL);
}

void shell_skip_separators(struct shell *s)
{
    skip(s, true, ";");
}

bool shell_redirection(struct shell *s, bool *found)
{
    const char *sign = s->p;
    while (sign < s->end && isdigit((unsigned char)*sign))
        sign++;
    *found = sign < s->end && (*sign == '<' || *sign == '>');
    if (!*found)
        return true;
    bool in = *sign == '<', out = *sign == '>' && (sign == s->p || *s->p == '1');
    s->p = sign;
    size_t left = (size_t)(s->end - s->p);
    bool here = left >= 2 && s->p[0] == '<' && s->p[1] == '<' && (left < 3 || s->p[2] != '<');
    bool strips = here && left >= 3 && s->p[2] == '-';
    bool fed = left >= 3 && memcmp(s->p, "<<<", 3) == 0;
    bool from_file = in && !here && !fed && (left < 2 || !strchr(">&(", s->p[1]));
    out = out && (left < 2 || s->p[1] != '&');
    while (s->p < s->end && strchr("<>&-", *s->p))
        s->p++;
    shell_skip_blank(s, false);
    struct shell_words words = { 0 };
    const char *dropped = s->dropped, *at = s->p;
    const char *stop = from_file && s->end - s->p > 2 && at[0] == '<' && at[1] == '('
                           ? shell_closed(at + 2, s->end, '(', ')')
                           : NULL;
    if (stop) {
        s->feeder = at + 2;
        s->feeder_length = (size_t)(stop - 1 - s->feeder);
        s->p = stop;
        return true;
    }
    if (s->p < s->end && *s->p != '\n' && !shell_word(s, &words, true))
        return false;
    s->dropped = dropped; /* where output goes says nothing of options */
    if (fed) {
        s->fed = words.count > 0 ? words.words[0] : "";
        s->fed_unknown = words.count > 0 && s->unknown;
    }
    if (from_file && words.count > 0) {
        s->input = words.words[0];
        s->input_operand = (struct shell_operand){ at, (size_t)(s->p - at), s->unknown, s->from };
    }
    if (out && words.count > 0) {
        s->output = words.words[0];
        s->output_operand = (struct shell_operand){ at, (size_t)(s->p - at), s->unknown, s->from };
    }
    if (here && words.count > 0) {
        s->here = words.words[0];
        s->documents = true;
        s->here_strips = strips;
        s->here_literal = false; /* the text may end with the word, without a zero behind it */
        for (const char *p = at; p < s->p && !s->here_literal; p++)
            s->here_literal = *p == '"' || *p == '\'' || *p == '\\';
        s->here_length = strlen(s->here);
    }
    return true;
}
