#include "base/error.h"
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A message that was cut ends in "..." and never in half a UTF-8 character. */
static void mark_cut(char *message)
{
    size_t end = ERROR_MESSAGE_BYTES - 4;
    while (end > 0 && ((unsigned char)message[end] & 0xC0) == 0x80)
        end--;
    memcpy(message + end, "...", 4);
}

static void print_message(char *message, const char *format, va_list arguments)
{
    int length = vsnprintf(message, ERROR_MESSAGE_BYTES, format, arguments);
    if (length < 0)
        memcpy(message, "message could not be formatted", 31);
    else if (length >= ERROR_MESSAGE_BYTES)
        mark_cut(message);
}

bool fail(struct error *err, const char *format, ...)
{
    if (!err || err->kind != ERROR_NONE)
        return false;
    err->kind = ERROR_INPUT;
    va_list arguments;
    va_start(arguments, format);
    print_message(err->message, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_kind(struct error *err, enum error_kind kind, const char *format, ...)
{
    if (!err || err->kind != ERROR_NONE)
        return false;
    err->kind = kind == ERROR_NONE ? ERROR_BUG : kind;
    va_list arguments;
    va_start(arguments, format);
    print_message(err->message, format, arguments);
    va_end(arguments);
    return false;
}

bool fail_memory(struct error *err)
{
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
