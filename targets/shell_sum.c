/* What stands between (( and )): whole numbers, with C's operators of the kinds that scripts use. */
#include "targets/shell_expand.h"
#include <ctype.h>
#include <string.h>

struct sum {
    const char *p, *end;
    int depth;
    bool bad;    /* a unit is missing, a bracket open, or a number one that bash reads otherwise */
    bool beyond; /* a number is none that bash or anybody has */
};

/* By level, the weakest first; of two that begin alike the longer. */
enum { LEVELS = 8, POWERS = LEVELS - 1, MOST_OPERATORS = 4 };
static const char *const operators[LEVELS][MOST_OPERATORS] = {
    { "||" },       { "&&" },     { "==", "!=" },    { "<=", ">=", "<", ">" },
    { "<<", ">>" }, { "+", "-" }, { "*", "/", "%" }, { "**" },
};

static int64_t sum_of(struct sum *e, int level);

static void sum_blank(struct sum *e)
{
    while (e->p < e->end && isspace((unsigned char)*e->p))
        e->p++;
}

/* Numbers beyond 2^40 are nobody's. */
static int64_t bounded(struct sum *e, int64_t value)
{
    int64_t most = INT64_C(1) << 40;
    e->beyond = e->beyond || value > most || value < -most;
    return e->beyond ? 0 : value;
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
        e->bad = e->bad || e->p == e->end || *e->p != ')';
        e->p += !e->bad;
        return value;
    }
    const char *first = e->p;
    while (e->p < e->end && isdigit((unsigned char)*e->p))
        value = bounded(e, value * 10 + (*e->p++ - '0'));
    e->bad = e->bad || e->p == first || (*first == '0' && e->p - first > 1); /* which bash has for eights */
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

static int64_t power(struct sum *e, int64_t base, int64_t exponent)
{
    int64_t value = 1;
    e->beyond = e->beyond || exponent < 0 || exponent > 1 << 16;
    for (int64_t i = 0; !e->beyond && i < exponent; i++)
        value = bounded(e, __builtin_mul_overflow(value, base, &value) ? INT64_MAX : value);
    return value;
}

static int64_t applied(struct sum *e, const char *op, int64_t a, int64_t b)
{
    int64_t product;
    e->beyond =
        e->beyond || (strchr("/%", op[0]) && b == 0) || ((op[1] == op[0] && strchr("<>", op[0])) && (b < 0 || b > 40));
    if (e->beyond)
        return 0;
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
        if (op[1] == '<')
            return __builtin_mul_overflow(a, INT64_C(1) << b, &product) ? INT64_MAX : product;
        return op[1] ? a <= b : a < b;
    case '>':
        return op[1] == '>' ? a >> b : op[1] ? a >= b : a > b;
    case '+':
        return a + b;
    case '-':
        return a - b;
    case '*':
        return op[1] ? power(e, a, b) : __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
    case '/':
        return a / b;
    default:
        return a % b;
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
        bool again = level == POWERS; /* of powers the last is the first */
        e->depth += again;
        e->bad = e->bad || e->depth > SHELL_DEPTH;
        bool decided = level < 2 && (value != 0) == (level == 0), beyond = e->beyond;
        int64_t right = e->bad ? 0 : sum_of(e, again ? level : level + 1);
        e->depth -= again;
        e->beyond = decided ? beyond : e->beyond; /* behind what decides || or && bash works nothing out */
        value = bounded(e, applied(e, op, value, right));
    }
    return value;
}

bool shell_sum(int64_t *value, const char *text)
{
    struct sum sum = { .p = text, .end = text + strlen(text) };
    sum_blank(&sum);
    *value = sum.p < sum.end ? sum_of(&sum, 0) : 0;
    return sum.p == sum.end && !sum.bad && !sum.beyond;
}
