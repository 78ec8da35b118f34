/* Typed access to one value: its type, its range, and a failure that says where. */
#include "base/json_tree.h"
#include <math.h>
#include <stdio.h>

static const int64_t MAX_EXACT_INT = INT64_C(1) << 53;

static bool expect_type(const struct json *value, enum json_type type, struct error *err)
{
    return value->type == type || json_fail_expected(value, err, json_type_name(type));
}

/* The number's digits without point, leading and trailing zeros: value = digits * 10^exponent. */
struct decimal {
    bool negative, beyond; /* beyond: more digits than fit, so not an integer up to 2^53 or not whole */
    int64_t digits, exponent;
};

static int64_t read_exponent(const char *at, const char *end)
{
    const int64_t far_away = INT64_C(1) << 40; /* more than any text is long */
    bool negative = at < end && *at == '-';
    int64_t exponent = 0;
    for (at += at < end && (*at == '-' || *at == '+'); at < end; at++)
        if (exponent < far_away)
            exponent = exponent * 10 + (*at - '0');
    return negative ? -exponent : exponent;
}

/* Appends zeros and a digit; false, leaving what fits, when the digits go far beyond 2^53. */
static bool append_digit(int64_t *digits, int64_t zeros, int digit)
{
    for (; zeros >= 0; zeros--) {
        if (*digits > MAX_EXACT_INT)
            return false;
        *digits *= 10;
    }
    *digits += digit;
    return true;
}

static struct decimal read_decimal(const char *at, size_t length)
{
    struct decimal number = { .negative = *at == '-' };
    const char *end = at + length;
    bool after_point = false;
    int64_t zeros = 0; /* seen since the last digit that is not one */
    for (at += number.negative; at < end && *at != 'e' && *at != 'E'; at++) {
        if (*at == '.') {
            after_point = true;
            continue;
        }
        number.exponent -= after_point;
        if (*at == '0') {
            zeros++;
            continue;
        }
        number.beyond |= !append_digit(&number.digits, zeros, *at - '0');
        zeros = 0;
    }
    number.exponent += zeros + (at < end ? read_exponent(at + 1, end) : 0);
    return number;
}

enum whole { WHOLE, FRACTION, TOO_LARGE };

static enum whole decimal_to_int(struct decimal number, int64_t *out)
{
    if (number.digits == 0) {
        *out = 0;
        return WHOLE;
    }
    if (number.exponent < 0)
        return FRACTION;
    for (; number.exponent > 0 && number.digits <= MAX_EXACT_INT; number.exponent--)
        number.digits *= 10;
    if (number.beyond || number.digits > MAX_EXACT_INT)
        return TOO_LARGE;
    *out = number.negative ? -number.digits : number.digits;
    return WHOLE;
}

static bool fail_int_range(const struct json *value, int64_t min, int64_t max, struct error *err)
{
    char expected[128];
    if (min <= -MAX_EXACT_INT && max >= MAX_EXACT_INT)
        snprintf(expected, sizeof expected, "an integer of at most 2^53 (%lld) in magnitude", (long long)MAX_EXACT_INT);
    else if (max >= MAX_EXACT_INT)
        snprintf(expected, sizeof expected, "an integer from %lld to 2^53 (%lld)", (long long)min,
                 (long long)MAX_EXACT_INT);
    else if (min <= -MAX_EXACT_INT)
        snprintf(expected, sizeof expected, "an integer of at most %lld", (long long)max);
    else
        snprintf(expected, sizeof expected, "an integer from %lld to %lld", (long long)min, (long long)max);
    return json_fail_expected(value, err, expected);
}

bool json_int(const struct json *value, int64_t min, int64_t max, int64_t *out, struct error *err)
{
    int64_t number = 0;
    if (value->type != JSON_NUMBER)
        return json_fail_expected(value, err, "an integer");
    switch (decimal_to_int(read_decimal(value->doc->text + value->offset, value->length), &number)) {
    case FRACTION:
        return json_fail_expected(value, err, "an integer");
    case TOO_LARGE:
        return fail_int_range(value, min, max, err);
    case WHOLE:
        break;
    }
    if (number < min || number > max)
        return fail_int_range(value, min, max, err);
    *out = number;
    return true;
}

bool json_double(const struct json *value, double min, double max, double *out, struct error *err)
{
    double number;
    char low[TEXT_NUMBER_BYTES], high[TEXT_NUMBER_BYTES], expected[160];
    if (!expect_type(value, JSON_NUMBER, err))
        return false;
    if (!text_read_double(value->doc->text + value->offset, value->length, &number))
        /* the scanner has read it before */
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", value->doc->name);
    if (number >= min && number <= max) {
        *out = number;
        return true;
    }
    text_double(low, min);
    text_double(high, max);
    if (isinf(max))
        snprintf(expected, sizeof expected, "a number of at least %s", low);
    else if (isinf(min))
        snprintf(expected, sizeof expected, "a number of at most %s", high);
    else
        snprintf(expected, sizeof expected, "a number from %s to %s", low, high);
    return json_fail_expected(value, err, expected);
}

bool json_bool(const struct json *value, bool *out, struct error *err)
{
    if (!expect_type(value, JSON_BOOL, err))
        return false;
    *out = value->doc->text[value->offset] == 't';
    return true;
}

bool json_string(const struct json *value, const char **out, struct error *err)
{
    if (!expect_type(value, JSON_STRING, err))
        return false;
    if (value->has_zero)
        return json_fail_expected(value, err, "a string without \\u0000");
    *out = value->item->valuestring;
    return true;
}

bool json_require(const struct json *object, const char *key, const struct json **out, struct error *err)
{
    if (!expect_type(object, JSON_OBJECT, err))
        return false;
    const struct json *member = json_member(object, key);
    if (!member)
        return json_fail(object, err, "expected the key \"%s\", found an object without it", key);
    *out = member;
    return true;
}
