#include "host/words.h"

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Past an escape sequence "ESC [ ... letter", if one begins here. */
static const char *skip_escape(const char *at, const char *end)
{
    if (end - at < 2 || at[0] != '\x1b' || at[1] != '[')
        return at;
    const char *c = at + 2;
    while (c < end && ((*c >= '0' && *c <= '9') || *c == ';'))
        c++;
    return c < end && *c != '\n' ? c + 1 : c;
}

bool words_next_word(struct words *r, char word[WORD_BYTES])
{
    int length = 0;
    while (r->at < r->end && *r->at != '\n') {
        const char *behind = skip_escape(r->at, r->end);
        if (behind > r->at) {
            r->at = behind;
            continue;
        }
        if (is_space(*r->at) && length > 0)
            break;
        if (!is_space(*r->at) && length < WORD_BYTES - 1)
            word[length++] = *r->at >= ' ' && *r->at <= '~' ? *r->at : '?';
        r->at++;
    }
    word[length] = '\0';
    return length > 0;
}

bool words_next_line(struct words *r)
{
    while (r->at < r->end && *r->at != '\n')
        r->at++;
    if (r->at == r->end)
        return false;
    r->at++;
    r->line++;
    return true;
}

bool words_next_row(struct words *r, char word[WORD_BYTES])
{
    do
        if (words_next_word(r, word))
            return true;
    while (words_next_line(r));
    return false;
}
