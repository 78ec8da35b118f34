#include "models/operators.h"
#include <stdio.h>
#include <string.h>

const char *const operator_names[OPERATOR_NAMES + 1] = {
#define OPERATOR(name) [OPERATOR_##name] = #name,
#define WEIGHTLESS(name) OPERATOR(name)
#include "models/operators.def"
#undef OPERATOR
#undef WEIGHTLESS
};

uint64_t operator_set(const char *name, int length)
{
    for (int i = 0; i < OPERATOR_NAMES; i++)
        if ((int)strlen(operator_names[i]) == length && strncmp(operator_names[i], name, (size_t)length) == 0)
            return UINT64_C(1) << i;
    return 0;
}

bool operators_read(uint64_t *out, const char *text)
{
    *out = 0;
    if (strcmp(text, "none") == 0)
        return true;
    for (;;) {
        int length = (int)strcspn(text, "+");
        uint64_t one = operator_set(text, length);
        if (!one || *out & one)
            return false;
        *out |= one;
        if (!text[length])
            return true;
        text += length + 1;
    }
}

const char *operators_text(char out[OPERATORS_TEXT_BYTES], uint64_t set)
{
    size_t length = 0;
    out[0] = 0;
    for (int i = 0; i < OPERATOR_NAMES; i++)
        if (set >> i & 1)
            length += (size_t)snprintf(out + length, OPERATORS_TEXT_BYTES - length, "%s%s", length ? "+" : "",
                                       operator_names[i]);
    return length ? out : "none";
}
