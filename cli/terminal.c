#define _GNU_SOURCE /* fopencookie */
#include "cli/terminal.h"
#include "base/text.h"
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A buffer may end within a character: its first bytes wait for the rest. */
enum { CHARACTER_BYTES = 4 };
struct terminal {
    int descriptor;
    char begun[CHARACTER_BYTES];
    size_t begun_count;
};

/* No string holds a zero byte, so that nothing printed from a file can stand for it. */
enum { CLEAR_LINE = '\0' };
static const char clear_line[] = "\r\033[K";

static bool write_all(int descriptor, const char *bytes, size_t length)
{
    while (length > 0) {
        ssize_t put = write(descriptor, bytes, length);
        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0)
            return false;
        bytes += put;
        length -= (size_t)put;
    }
    return true;
}

/* Whether the bytes are the beginning of a longer character. */
static bool is_begun(const char *bytes, size_t length)
{
    unsigned char first = (unsigned char)bytes[0];
    size_t whole = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : first >= 0xC2 ? 2 : 1;
    for (size_t i = 1; i < length; i++)
        if (((unsigned char)bytes[i] & 0xC0) != 0x80)
            return false;
    return length < whole;
}

static void show(struct terminal *t, struct text *out, const char *bytes, size_t length)
{
    for (size_t i = 0, step; i < length; i += step) {
        size_t plain = text_shown(bytes + i, length - i);
        step = plain ? plain : 1;
        if (!plain && is_begun(bytes + i, length - i)) {
            t->begun_count = length - i;
            memcpy(t->begun, bytes + i, t->begun_count);
            return;
        }
        if (bytes[i] == CLEAR_LINE && t->descriptor == STDERR_FILENO)
            text_add(out, clear_line);
        else
            text_add_shown(out, bytes + i, step);
    }
}

/* Returns 0 for an error, as stdio expects of a stream. */
static ssize_t pass_on(void *self, const char *bytes, size_t length)
{
    struct terminal *t = self;
    size_t plain = 0;
    while (plain < length && ((bytes[plain] >= ' ' && bytes[plain] <= '~') || bytes[plain] == '\n'))
        plain++;
    if (plain == length && t->begun_count == 0) /* nearly all: not even memory is needed */
        return write_all(t->descriptor, bytes, length) ? (ssize_t)length : 0;
    struct text all = { 0 }, out = { 0 };
    text_add_bytes(&all, t->begun, t->begun_count);
    text_add_bytes(&all, bytes, length);
    t->begun_count = 0;
    if (!all.failed)
        show(t, &out, all.data, all.length);
    bool done = !all.failed && !out.failed && write_all(t->descriptor, out.data ? out.data : "", out.length);
    text_free(&all);
    text_free(&out);
    return done ? (ssize_t)length : 0;
}

FILE *terminal_open(int descriptor)
{
    static struct terminal terminals[STDERR_FILENO + 1];
    static char lines[BUFSIZ]; /* where memory is short a stream would get no buffer of its own */
    struct terminal *t = &terminals[descriptor];
    t->descriptor = descriptor;
    FILE *stream = fopencookie(t, "w", (cookie_io_functions_t){ .write = pass_on });
    if (stream && descriptor == STDERR_FILENO)
        setvbuf(stream, NULL, _IONBF, 0);
    else if (stream) /* in one file with what is said to people, lines stay in order and whole */
        setvbuf(stream, lines, _IOLBF, sizeof lines);
    return stream;
}

void terminal_clear_line(FILE *stream)
{
    fputc(CLEAR_LINE, stream);
}
