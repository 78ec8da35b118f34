/* What stands in a script where an option's value is to be and comes to nothing: a mark with its name takes the value's
 * place, so that who reads the words can say what is missing. Without it the option would lack its value silently, or
 * would take the word that follows. A mark lies between two bytes of one: its kind, and a name without signs, which a
 * string of words keeps when it is read as words again. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MARK = 1 };
static const char of_unset = 'v', of_empty = 'e', of_command = 'c', of_sum = 's', of_printed = 'p';

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n';
}

static bool is_quote(char c)
{
    return c == '"' || c == '\'';
}

bool shell_awaits_value(const char *text, size_t length, bool word)
{
    while (length > 0 && is_quote(text[length - 1]))
        length--;
    bool sign = !word && length > 0 && text[length - 1] == '=';
    size_t end = length - sign;
    while (!word && !sign && end > 0 && is_blank(text[end - 1]))
        end--;
    if (!word && end == length)
        return false;
    size_t begin = end;
    while (begin > 0 && (isalnum((unsigned char)text[begin - 1]) || strchr("-_.", text[begin - 1])))
        begin--;
    bool alone = begin == 0 || (!word && (is_blank(text[begin - 1]) || is_quote(text[begin - 1])));
    return alone && end - begin > 2 && memcmp(text + begin, "--", 2) == 0 && isalpha((unsigned char)text[begin + 2]);
}

bool shell_awaits_name(const char *text, size_t length)
{
    return length >= 2 && memcmp(text + length - 2, "--", 2) == 0 && (length == 2 || is_blank(text[length - 3]));
}

void shell_mark(struct text *out, const char *piece, size_t length, bool known, int argument, int line)
{
    const char *end = piece + length;
    bool command = *piece == '`' || (length > 1 && piece[1] == '(');
    bool sum = command && length > 2 && piece[2] == '(';
    while (piece < end && strchr("`$({#!\" \t\n", *piece))
        piece++;
    const char *last = piece;
    while (last < end && (isalnum((unsigned char)*last) || *last == '_'))
        last++;
    char of_script[16] = "";
    if (argument > 0 || line > 0)
        snprintf(of_script, sizeof of_script, ":%d", line > 0 ? line : argument);
    text_printf(out, "%c%c%.*s%s%c", MARK,
                sum       ? of_sum
                : command ? of_command
                : line    ? of_printed
                : known   ? of_empty
                          : of_unset,
                (int)(last - piece), piece, of_script, MARK);
}

bool shell_is_marked(const char *word)
{
    return *word == MARK;
}

const char *shell_mark_in(const char *word)
{
    static const char mark[] = { MARK, 0 };
    return word + strcspn(word, mark);
}

int shell_mark_line(const char *word)
{
    const char *stop = word[0] == MARK && strchr("cps", word[1]) ? strchr(word + 2, MARK) : NULL;
    const char *colon = stop ? memchr(word, ':', (size_t)(stop - word)) : NULL;
    return colon ? (int)strtol(colon + 1, NULL, 10) : 0;
}

bool shell_unmark(struct text *out, const char *word, bool *unset)
{
    bool marked = false;
    *unset = false;
    while (*word) {
        const char *stop = *word == MARK && word[1] ? strchr(word + 2, MARK) : NULL;
        if (!stop) {
            text_add_bytes(out, word++, 1);
            continue;
        }
        static const char *const endings[] = { "th", "st", "nd", "rd" };
        const char *colon = memchr(word, ':', (size_t)(stop - word));
        int length = (int)((colon ? colon : stop) - word - 2), number = colon ? (int)strtol(colon + 1, NULL, 10) : 0;
        char kind = word[1];
        int argument = kind == of_unset || kind == of_empty ? number : 0;
        text_printf(out,
                    kind == of_sum       ? "$((%.*s ...))"
                    : kind == of_command ? "$(%.*s ...)"
                    : length == 0        ? "${%.*s...}"
                                         : "$%.*s",
                    length, word + 2);
        if (argument > 0)
            text_printf(out, " (the script's %d%s argument)", argument,
                        endings[argument % 10 < 4 && argument / 10 % 10 != 1 ? argument % 10 : 0]);
        marked = true;
        *unset = *unset || kind != of_empty;
        word = stop + 1;
    }
    return marked;
}
