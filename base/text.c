#include "base/text.h"
#include "base/error.h"
#include <ctype.h>
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool text_is(const char *string, const char *word)
{
    return string && strcmp(string, word) == 0;
}

/* ---- growing text ---- */

/* Room for extra more bytes and the terminator. */
static bool text_reserve(struct text *text, size_t extra)
{
    if (text->failed)
        return false;
    if (extra >= SIZE_MAX / 2 - text->length) {
        text->failed = true;
        return false;
    }
    size_t needed = text->length + extra + 1;
    if (needed <= text->capacity)
        return true;
    size_t capacity = text->capacity ? text->capacity * 2 : 64;
    if (capacity < needed)
        capacity = needed;
    char *data = realloc(text->data, capacity);
    if (!data) {
        text->failed = true;
        memory_fell_short();
        return false;
    }
    text->data = data;
    text->capacity = capacity;
    return true;
}

void text_add_bytes(struct text *text, const char *bytes, size_t count)
{
    if (!text_reserve(text, count))
        return;
    if (count > 0)
        memcpy(text->data + text->length, bytes, count);
    text->length += count;
    text->data[text->length] = '\0';
}

void text_add(struct text *text, const char *string)
{
    text_add_bytes(text, string, strlen(string));
}

void text_add_quoted(struct text *text, const char *word)
{
    text_add(text, "'");
    for (const char *p = word; *p; p++)
        text_add_bytes(text, *p == '\'' ? "'\\''" : p, *p == '\'' ? 4 : 1);
    text_add(text, "'");
}

void text_add_argument(struct text *text, const char *word)
{
    size_t plain = strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:=,+@%");
    if (*word && !word[plain])
        text_add(text, word);
    else
        text_add_quoted(text, word);
}

void text_printf(struct text *text, const char *format, ...)
{
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    if (length < 0 || !text_reserve(text, (size_t)length)) {
        text->failed = true;
    } else {
        vsnprintf(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void text_free(struct text *text)
{
    free(text->data);
    *text = (struct text){ 0 };
}

/* ---- numbers ---- */

/* printf writes the locale's decimal point, of one byte or more, between the digits; ours is '.' everywhere. */
static void force_point(char *number)
{
    char *point = number + strspn(number, "-0123456789"), *rest = point + strcspn(point, "0123456789e");
    if (rest == point || !*rest) /* there is none, or it is no number */
        return;
    *point = '.';
    memmove(point + 1, rest, strlen(rest) + 1);
}

/* Three significant digits below 1000, whole numbers above: 1.23, 12.3, 123, 1023. */
static void print_short(char *out, size_t size, double value, const char *unit)
{
    double magnitude = fabs(value);
    int decimals = magnitude < 9.995 ? 2 : magnitude < 99.95 ? 1 : 0;
    char number[TEXT_NUMBER_BYTES];
    snprintf(number, sizeof number, "%.*f", decimals, value);
    force_point(number);
    snprintf(out, size, "%.24s %.20s", number, unit);
}

static const char *const byte_units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
enum { BYTE_UNITS = sizeof byte_units / sizeof *byte_units };

char *text_bytes(char out[TEXT_NUMBER_BYTES], int64_t bytes)
{
    double value = (double)bytes;
    size_t unit = 0;
    /* 1023.5 would be printed as 1024 */
    while (unit + 1 < BYTE_UNITS && fabs(value) >= (unit ? 1023.5 : 1024.0)) {
        value /= 1024;
        unit++;
    }
    if (unit == 0)
        snprintf(out, TEXT_NUMBER_BYTES, "%lld B", (long long)bytes);
    else
        print_short(out, TEXT_NUMBER_BYTES, value, byte_units[unit]);
    return out;
}

char *text_bytes_enough(char out[TEXT_NUMBER_BYTES], int64_t bytes)
{
    double unit = 1, value = (double)bytes;
    for (; value >= (unit > 1 ? 1022.5 : 1024.0); value /= 1024)
        unit *= 1024;
    double parts = unit == 1       ? 1
                   : value < 9.985 ? 100
                   : value < 99.85 ? 10
                                   : 1,
           up = ceil(value * parts) / parts * unit;
    return text_bytes(out, up < (double)INT64_MAX ? (int64_t)up : INT64_MAX);
}

char *text_duration_ns(char out[TEXT_NUMBER_BYTES], int64_t ns)
{
    static const struct {
        double limit_ns, unit_ns; /* this unit is used below limit_ns */
        const char *name;
    } units[] = {
        { 999.5e3, 1e3, "us" },  { 999.5e6, 1e6, "ms" },       { 120e9, 1e9, "s" },
        { 7200e9, 60e9, "min" }, { 48 * 3600e9, 3600e9, "h" }, { INFINITY, 24 * 3600e9, "d" },
    };
    double value = fabs((double)ns);
    if (value < 1000) {
        snprintf(out, TEXT_NUMBER_BYTES, "%lld ns", (long long)ns);
        return out;
    }
    size_t i = 0;
    while (value >= units[i].limit_ns)
        i++;
    print_short(out, TEXT_NUMBER_BYTES, (double)ns / units[i].unit_ns, units[i].name);
    return out;
}

char *text_count(char out[TEXT_NUMBER_BYTES], int64_t count)
{
    char digits[TEXT_NUMBER_BYTES];
    uint64_t magnitude = count < 0 ? -(uint64_t)count : (uint64_t)count;
    int length = snprintf(digits, sizeof digits, "%llu", (unsigned long long)magnitude);
    char *at = out;
    if (count < 0)
        *at++ = '-';
    for (int i = 0; i < length; i++) {
        if (i > 0 && (length - i) % 3 == 0)
            *at++ = ',';
        *at++ = digits[i];
    }
    *at = '\0';
    return out;
}

/* Regular plurals: of names that end in a hiss "es". */
char *text_number_of(char out[TEXT_NUMBER_BYTES], int64_t count, const char *noun)
{
    size_t length = strlen(noun);
    bool hisses =
        length > 1 && (noun[length - 1] == 's' || noun[length - 1] == 'x' || !strcmp(noun + length - 2, "ch"));
    snprintf(out, TEXT_NUMBER_BYTES, "%lld %.20s%s", (long long)count, noun, count == 1 ? "" : hisses ? "es" : "s");
    return out;
}

char *text_rate(char out[TEXT_NUMBER_BYTES], double per_s, const char *unit)
{
    static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
    if (!isfinite(per_s)) {
        snprintf(out, TEXT_NUMBER_BYTES, "%s %.20s", isnan(per_s) ? "nan" : per_s < 0 ? "-inf" : "inf", unit);
        return out;
    }
    size_t prefix = 0;
    while (prefix + 1 < sizeof prefixes / sizeof *prefixes && fabs(per_s) >= 999.5) {
        per_s /= 1000;
        prefix++;
    }
    char name[TEXT_NUMBER_BYTES];
    snprintf(name, sizeof name, "%s%.16s", prefixes[prefix], unit);
    if (fabs(per_s) >= 1e6) { /* beyond the largest prefix */
        char number[TEXT_NUMBER_BYTES];
        snprintf(number, sizeof number, "%.2e", per_s);
        force_point(number);
        snprintf(out, TEXT_NUMBER_BYTES, "%.20s %.20s", number, name);
    } else
        print_short(out, TEXT_NUMBER_BYTES, per_s, name);
    return out;
}

char *text_double(char out[TEXT_NUMBER_BYTES], double value)
{
    if (!isfinite(value)) {
        snprintf(out, TEXT_NUMBER_BYTES, "%s", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
        return out;
    }
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, TEXT_NUMBER_BYTES, "%.*g", digits, value);
        double back = strtod(out, NULL);
        if (!(back < value) && !(back > value))
            break;
    }
    force_point(out);
    return out;
}

/* strtod also takes blanks, signs, hexadecimal, "inf" and "nan"; a number here starts with a digit
 * after at most one minus. */
static bool decimal_start(const char *bytes, size_t length)
{
    size_t i = length > 0 && bytes[0] == '-' ? 1 : 0;
    return i < length && bytes[i] >= '0' && bytes[i] <= '9' &&
           !(i + 1 < length && (bytes[i + 1] == 'x' || bytes[i + 1] == 'X'));
}

/* Digits with or without a point, at most 15: they and the power of ten are doubles, so that the quotient is rounded
 * once. False: anything else, which strtod reads. */
static bool read_short_decimal(const char *bytes, size_t length, double *out)
{
    static const double powers[] = { 1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14 };
    bool minus = length > 0 && bytes[0] == '-';
    size_t first = minus, point = length;
    int64_t digits = 0;
    if (FLT_EVAL_METHOD != 0 || length - first > 16)
        return false;
    for (size_t i = first; i < length; i++) {
        if (bytes[i] == '.' && point == length && i > first)
            point = i;
        else if (bytes[i] >= '0' && bytes[i] <= '9')
            digits = digits * 10 + (bytes[i] - '0');
        else
            return false;
    }
    size_t behind = point < length ? length - point - 1 : 0;
    if (length - first - (point < length) > 15 || length == first || (point < length && behind == 0))
        return false;
    double value = (double)digits / powers[behind];
    *out = minus ? -value : value;
    return true;
}

bool text_read_double(const char *bytes, size_t length, double *out)
{
    if (read_short_decimal(bytes, length, out))
        return true;
    char small[128];
    const char *point = localeconv()->decimal_point;
    size_t width = strlen(point);
    if (!decimal_start(bytes, length) || length >= UINT32_MAX)
        return false;
    char *copy = length + width < sizeof small ? small : malloc(length + width + 1);
    if (!copy)
        return false;
    size_t used = 0;
    bool seen_point = false, foreign = false;
    for (size_t i = 0; i < length; i++) {
        if (bytes[i] == '.' && !seen_point) {
            memcpy(copy + used, point, width);
            used += width;
            seen_point = true;
            continue;
        }
        foreign |= !(isdigit((unsigned char)bytes[i]) || strchr("eE+-", bytes[i]) != NULL) || bytes[i] == '\0';
        copy[used++] = bytes[i];
    }
    copy[used] = '\0';
    char *end = NULL;
    double value = foreign ? 0.0 : strtod(copy, &end);
    bool whole = end == copy + used && isfinite(value);
    if (copy != small)
        free(copy);
    if (whole)
        *out = value;
    return whole;
}

bool text_read_bytes(const char *word, int64_t *out)
{
    static const char decimal_units[] = "KMGTPE"; /* before "B" */
    const char *decimal;
    size_t length = strlen(word);
    double scale = 1, value = 0;
    for (size_t unit = BYTE_UNITS; unit-- > 0;) {
        size_t own = strlen(byte_units[unit]);
        if (length < own || strcmp(word + length - own, byte_units[unit]) != 0)
            continue;
        scale = ldexp(1, 10 * (int)unit);
        length -= own;
        if (unit == 0 && length > 0 && (decimal = strchr(decimal_units, word[length - 1]))) {
            scale = pow(1000, (double)(decimal - decimal_units) + 1);
            length--;
        }
        length -= length > 0 && word[length - 1] == ' ';
        break;
    }
    if (!text_read_double(word, length, &value) || value < 0 || value * scale >= 0x1p63)
        return false;
    *out = (int64_t)(value * scale);
    return true;
}

/* ---- UTF-8 ---- */

size_t text_utf8(const char *bytes, size_t length, uint32_t *character)
{
    static const uint32_t smallest_of_length[] = { 0, 0, 0x80, 0x800, 0x10000 };
    if (length == 0)
        return 0;
    unsigned char lead = (unsigned char)bytes[0];
    if (lead < 0x80) {
        *character = lead;
        return 1;
    }
    size_t count = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
    if (lead < 0xC2 || lead > 0xF4 || count > length)
        return 0;
    uint32_t value = lead & (0x7Fu >> count);
    for (size_t i = 1; i < count; i++) {
        if (((unsigned char)bytes[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | ((unsigned char)bytes[i] & 0x3Fu);
    }
    if (value < smallest_of_length[count] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *character = value;
    return count;
}

size_t text_shown(const char *bytes, size_t length)
{
    enum { DELETE = 0x7F, LAST_C1 = 0x9F };
    uint32_t character = 0;
    size_t step = text_utf8(bytes, length, &character);
    bool control =
        (character < ' ' && character != '\n' && character != '\t') || (character >= DELETE && character <= LAST_C1);
    return control ? 0 : step;
}

void text_add_shown(struct text *text, const char *bytes, size_t length)
{
    for (size_t i = 0, step; i < length; i += step ? step : 1) {
        step = text_shown(bytes + i, length - i);
        if (step)
            text_add_bytes(text, bytes + i, step);
        else
            text_printf(text, "\\x%02X", (unsigned char)bytes[i]);
    }
}

/* ---- did you mean ---- */

enum { NEAREST_LONGEST_WORD = 63 };

static char fold(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static int smallest(int a, int b, int c)
{
    int ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edits (insert, drop, replace, swap two neighbours) that turn a into b; letter case and '-'
 * against '_' are free. */
static int edit_distance(const char *a, int a_length, const char *b, int b_length)
{
    int rows[3][NEAREST_LONGEST_WORD + 1]; /* rows[i % 3][j]: the first i of a against the first j of b */
    for (int j = 0; j <= b_length; j++)
        rows[0][j] = j;
    for (int i = 1; i <= a_length; i++) {
        int *row = rows[i % 3], *before = rows[(i + 2) % 3], *before_that = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= b_length; j++) {
            bool same = fold(a[i - 1]) == fold(b[j - 1]);
            row[j] = smallest(before[j] + 1, row[j - 1] + 1, before[j - 1] + !same);
            bool swapped = i > 1 && j > 1 && fold(a[i - 1]) == fold(b[j - 2]) && fold(a[i - 2]) == fold(b[j - 1]);
            if (swapped && before_that[j - 2] + 1 < row[j])
                row[j] = before_that[j - 2] + 1;
        }
    }
    return rows[a_length % 3][b_length];
}

/* Near: at most a third of the longer word is edited (one edit for short words, which must keep a
 * letter). Of equally near ones that with the same first letter. */
const char *text_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *best = NULL;
    int best_distance = NEAREST_LONGEST_WORD + 1;
    size_t word_length = strlen(word);
    if (word_length == 0 || word_length > NEAREST_LONGEST_WORD)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        size_t length = strlen(candidates[i]);
        if (length > NEAREST_LONGEST_WORD)
            continue;
        int longer = (int)(length > word_length ? length : word_length);
        int allowed = longer / 3 > 1 ? longer / 3 : longer > 1;
        int distance = edit_distance(word, (int)word_length, candidates[i], (int)length);
        bool first = best && fold(*best) != fold(*word) && fold(*candidates[i]) == fold(*word);
        if (distance <= allowed && (distance < best_distance || (distance == best_distance && first))) {
            best = candidates[i];
            best_distance = distance;
        }
    }
    return best;
}
