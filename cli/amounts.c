#include "cli/amounts.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

struct unit {
    const char *name;
    double value;
};

/* A number with one of the units behind it, blanks between them. */
static bool read_amount(double *out, const char *text, const struct unit *units)
{
    size_t length = strlen(text), end = length;
    double value;
    for (const struct unit *u = units; u->name; u++) {
        size_t size = strlen(u->name);
        if (size > length || strcmp(text + length - size, u->name) != 0)
            continue;
        for (end = length - size; end > 0 && text[end - 1] == ' ';)
            end--;
        if (!text_read_double(text, end, &value) || !(value > 0) || !isfinite(value * u->value))
            continue;
        *out = value * u->value;
        return *out > 0;
    }
    return false;
}

bool amount_count(double *out, const char *what, const char *text, struct error *err)
{
    static const struct unit units[] = { { "k", 1e3 }, { "K", 1e3 },  { "M", 1e6 }, { "B", 1e9 },
                                         { "G", 1e9 }, { "T", 1e12 }, { "", 1 },    { NULL, 0 } };
    return (read_amount(out, text, units) && *out >= 1 && *out <= 1e18) ||
           fail(err, "%s: expected a number of tokens, such as 1e12, 300B or 1.5T, found '%s'", what, text);
}

bool amount_dollars(double *out, const char *what, const char *text, struct error *err)
{
    static const struct unit units[] = { { "k", 1e3 }, { "K", 1e3 }, { "M", 1e6 }, { "", 1 }, { NULL, 0 } };
    return (read_amount(out, text + (text[0] == '$'), units) && *out <= 1e15) ||
           fail(err, "%s: expected dollars, such as 5000, 50k or 2M, found '%s'", what, text);
}

bool amount_duration_s(double *out, const char *what, const char *text, struct error *err)
{
    static const struct unit units[] = {
        { "ms", 1e-3 }, { "seconds", 1 }, { "second", 1 }, { "sec", 1 },
        { "minutes", 60 }, { "minute", 60 }, { "mins", 60 }, { "min", 60 },
        { "hours", 3600 }, { "hour", 3600 }, { "hrs", 3600 }, { "hr", 3600 },
        { "days", 86400 }, { "day", 86400 }, { "weeks", 604800 }, { "week", 604800 },
        { "s", 1 }, { "m", 60 }, { "h", 3600 }, { "d", 86400 },
        { "w", 604800 }, { "", 1 },
        { NULL, 0 }
    };
    return (read_amount(out, text, units) && *out <= 1e12) ||
           fail(err, "%s: expected a time, such as 2.5 (seconds), 90m, 12h or 30d, found '%s'", what, text);
}

char *amount_duration_text(char out[TEXT_NUMBER_BYTES], double seconds)
{
    if (seconds < 600)
        return text_duration_ns(out, (int64_t)(seconds * 1e9 + 0.5));
    if (seconds < 2 * 3600.0)
        snprintf(out, TEXT_NUMBER_BYTES, "%.0f min", seconds / 60);
    else if (seconds < 2 * 86400.0)
        snprintf(out, TEXT_NUMBER_BYTES, "%.1f h", seconds / 3600);
    else
        snprintf(out, TEXT_NUMBER_BYTES, seconds < 1e8 ? "%.1f d" : "%.4g d", seconds / 86400);
    return out;
}

const char *amount_next_cluster(const char **rest, struct arena *arena)
{
    const char *from = *rest;
    size_t length = strcspn(from, ",");
    if (*from == 0)
        return NULL;
    while (from[length] == ',') {
        size_t next = strcspn(from + length + 1, ",");
        bool is_option = memchr(from, '@', length) != NULL && memchr(from + length + 1, '=', next) != NULL &&
                         memchr(from + length + 1, ':', next) == NULL;
        if (!is_option)
            break;
        length += 1 + next;
    }
    *rest = from + length + (from[length] == ',');
    return arena_strndup(arena, from, length);
}
