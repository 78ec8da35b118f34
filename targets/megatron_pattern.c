/* Patterns of layers as Megatron-LM reads them (megatron/training/arguments.py, moe_freq_type): a number, or a sum of
 * lists of 0 and 1, each perhaps some times over. */
#include "targets/megatron.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool pattern_part(const char **p, bool *out, int *count, int depth);

static bool repeat_part(const char **p, bool *out, int *count, int first)
{
    int length = *count - first;
    while (isspace((unsigned char)**p))
        ++*p;
    if (**p != '*')
        return true;
    char *end;
    long times = strtol(*p + 1, &end, 10);
    if (end == *p + 1 || times < 0 || (length > 0 && times > MEGATRON_MOST_BLOCKS / length))
        return false;
    *p = end;
    if (first + length * times > MEGATRON_MOST_BLOCKS)
        return false;
    for (long i = 1; i < times; i++)
        memcpy(out + first + i * length, out + first, (size_t)length * sizeof *out);
    *count = first + (int)times * length;
    return true;
}

static bool pattern_unit(const char **p, bool *out, int *count, int depth)
{
    while (isspace((unsigned char)**p))
        ++*p;
    if (**p == '(') {
        ++*p;
        if (depth > 8 || !pattern_part(p, out, count, depth + 1) || **p != ')')
            return false;
        ++*p;
        return true;
    }
    if (**p != '[')
        return false;
    do {
        ++*p;
        while (isspace((unsigned char)**p))
            ++*p;
        if (**p == ']')
            break;
        if ((**p != '0' && **p != '1') || *count == MEGATRON_MOST_BLOCKS)
            return false;
        out[(*count)++] = **p == '1';
        ++*p;
        while (isspace((unsigned char)**p))
            ++*p;
    } while (**p == ',');
    if (**p != ']')
        return false;
    ++*p;
    return true;
}

/* A sum of lists, each perhaps some times over: "([0]*3+[1]*58)". */
static bool pattern_part(const char **p, bool *out, int *count, int depth)
{
    for (;;) {
        int first = *count;
        if (!pattern_unit(p, out, count, depth) || !repeat_part(p, out, count, first))
            return false;
        if (**p != '+')
            return true;
        ++*p;
    }
}

bool megatron_read_pattern(const char *text, enum megatron_every every, bool *out, int64_t blocks)
{
    int count = 0;
    char *end;
    if (blocks > MEGATRON_MOST_BLOCKS)
        return false;
    if (!strchr(text, '[')) {
        long long n = strtoll(text, &end, 10);
        for (int64_t i = 0; i < blocks; i++)
            out[i] = n > 0 && (every == MEGATRON_EVERY_EXPERT ? i % n == 0 : (i + 1) % n != 0);
        return end != text && !*end && n > 0;
    }
    return pattern_part(&text, out, &count, 0) && !*text && count == blocks;
}

const char *megatron_put_pattern(struct arena *arena, const bool *blocks, int64_t count)
{
    struct text text = { 0 };
    for (int64_t i = 0; i < count;) {
        int64_t same = 1;
        while (i + same < count && blocks[i + same] == blocks[i])
            same++;
        text_printf(&text, "%s[%d]*%lld", i ? "+" : "(", blocks[i], (long long)same);
        i += same;
    }
    text_add(&text, ")");
    const char *kept = text.failed ? NULL : arena_strdup(arena, text.data);
    text_free(&text);
    return kept;
}
