#include "base/error.h"
#include "base/text.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A message that was cut ends in "..." and never in half a UTF-8 character. */
static void mark_cut_at(char *message, size_t length)
{
    size_t end = length < ERROR_MESSAGE_BYTES - 4 ? length : ERROR_MESSAGE_BYTES - 4;
    while (end > 0 && ((unsigned char)message[end] & 0xC0) == 0x80)
        end--;
    memcpy(message + end, "...", 4);
}

static void mark_cut(char *message)
{
    mark_cut_at(message, ERROR_MESSAGE_BYTES);
}

/* Names and values in messages come from files: what would command a terminal, or begin a line that looks like one of
 * ours, is shown as \xNN. */
static void show(char *message, const char *raw, bool has_lines)
{
    size_t used = 0, left = strlen(raw);
    for (size_t step; left > 0; raw += step, left -= step) {
        size_t plain = *raw == '\n' && !has_lines ? 0 : text_shown(raw, left), needed = plain ? plain : 4;
        step = plain ? plain : 1;
        if (used + needed >= ERROR_MESSAGE_BYTES) {
            mark_cut_at(message, used);
            return;
        }
        if (plain)
            memcpy(message + used, raw, plain);
        else
            snprintf(message + used, needed + 1, "\\x%02X", (unsigned char)*raw);
        used += needed;
    }
    message[used] = '\0';
}

static void print_message(char *message, const char *format, va_list arguments)
{
    char raw[ERROR_MESSAGE_BYTES];
    int length = vsnprintf(raw, sizeof raw, format, arguments);
    if (length < 0)
        memcpy(raw, "message could not be formatted", 31);
    else if (length >= ERROR_MESSAGE_BYTES)
        mark_cut(raw);
    show(message, raw, strchr(format, '\n') != NULL);
}

static void fill(struct error *err, enum error_kind kind, bool ended, const char *format, va_list arguments)
{
    if (!err || err->kind != ERROR_NONE)
        return;
    err->kind = kind == ERROR_NONE ? ERROR_BUG : kind;
    err->ended = ended;
    print_message(err->message, format, arguments);
}

bool fail(struct error *err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(err, ERROR_INPUT, false, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_kind(struct error *err, enum error_kind kind, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(err, kind, false, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_ended(struct error *err, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fill(err, ERROR_ENVIRONMENT, true, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_with(struct error *err, const struct error *cause)
{
    if (err && err->kind == ERROR_NONE) {
        *err = *cause;
        err->kind = cause->kind == ERROR_NONE ? ERROR_BUG : cause->kind;
    }
    return false;
}

static atomic_bool short_of_memory;

void memory_fell_short(void)
{
    atomic_store(&short_of_memory, true);
}

bool memory_has_fallen_short(void)
{
    return atomic_load(&short_of_memory);
}

bool fail_memory(struct error *err)
{
    memory_fell_short();
    return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
}

bool error_within(struct error *err, const char *format, ...)
{
    if (!err || err->kind == ERROR_NONE)
        return false;
    char prefix[ERROR_MESSAGE_BYTES], cause[ERROR_MESSAGE_BYTES];
    va_list arguments;
    va_start(arguments, format);
    print_message(prefix, format, arguments);
    va_end(arguments);
    memcpy(cause, err->message, sizeof cause);
    int length = snprintf(err->message, sizeof err->message, "%s: %s", prefix, cause);
    if (length >= ERROR_MESSAGE_BYTES)
        mark_cut(err->message);
    return false;
}
