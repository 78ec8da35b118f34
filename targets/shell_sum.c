/* What stands between (( and )): whole numbers, with C's operators of the kinds that scripts use. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <string.h>

struct sum {
    const char *p, *end;
    int depth;
};

/* By level, the weakest first; of two that begin alike the longer. */
enum { LEVELS = 6, MOST_OPERATORS = 4 };
static const char *const operators[LEVELS][MOST_OPERATORS] = {
    { "||" }, { "&&" }, { "==", "!=" }, { "<=", ">=", "<", ">" }, { "+", "-" }, { "*", "/", "%" },
};

static int64_t sum_of(struct sum *e, int level);

static void sum_blank(struct sum *e)
{
    while (e->p < e->end && isspace((unsigned char)*e->p))
        e->p++;
}

/* Numbers beyond 2^40 are nobody's. */
static int64_t bounded(int64_t value)
{
    int64_t most = INT64_C(1) << 40;
    return value > most ? most : value < -most ? -most : value;
}

static int64_t sum_unit(struct sum *e)
{
    int64_t value = 0;
    sum_blank(e);
    if (e->p < e->end && strchr("-+!", *e->p) && e->depth < SHELL_DEPTH) {
        char sign = *e->p++;
        e->depth++;
        value = sum_unit(e);
        e->depth--;
        return sign == '!' ? !value : sign == '-' ? -value : value;
    }
    if (e->p < e->end && *e->p == '(' && e->depth < SHELL_DEPTH) {
        e->p++;
        e->depth++;
        value = sum_of(e, 0);
        e->depth--;
        if (e->p < e->end && *e->p == ')')
            e->p++;
        return value;
    }
    while (e->p < e->end && isdigit((unsigned char)*e->p))
        value = bounded(value * 10 + (*e->p++ - '0'));
    return value;
}

/* The level's operator that stands there; NULL: none does. */
static const char *operator_at(const struct sum *e, int level)
{
    for (int i = 0; i < MOST_OPERATORS && operators[level][i]; i++) {
        size_t length = strlen(operators[level][i]);
        if ((size_t)(e->end - e->p) >= length && memcmp(e->p, operators[level][i], length) == 0)
            return operators[level][i];
    }
    return NULL;
}

/* Division by zero gives 0, and so does a product beyond 63 bits. */
static int64_t applied(const char *op, int64_t a, int64_t b)
{
    int64_t product;
    switch (op[0]) {
    case '|':
        return a || b;
    case '&':
        return a && b;
    case '=':
        return a == b;
    case '!':
        return a != b;
    case '<':
        return op[1] ? a <= b : a < b;
    case '>':
        return op[1] ? a >= b : a > b;
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return __builtin_mul_overflow(a, b, &product) ? 0 : product;
    case '/':
        return b ? a / b : 0;
    default:
        return b ? a % b : 0;
    }
}

static int64_t sum_of(struct sum *e, int level)
{
    if (level == LEVELS)
        return sum_unit(e);
    int64_t value = sum_of(e, level + 1);
    const char *op;
    for (sum_blank(e); (op = operator_at(e, level)) != NULL; sum_blank(e)) {
        e->p += strlen(op);
        value = bounded(applied(op, value, sum_of(e, level + 1)));
    }
    return value;
}

bool shell_sum(int64_t *value, const char *text)
{
    struct sum sum = { .p = text, .end = text + strlen(text) };
    *value = sum_of(&sum, 0);
    return sum.p == sum.end;
}
