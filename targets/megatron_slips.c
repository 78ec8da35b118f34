/* Words that are no option of Megatron-LM's, and the one that is meant: it takes no abbreviations either
 * (megatron/training/arguments.py, parse_args: allow_abbrev=False). */
#include "targets/megatron.h"
#include <string.h>

bool megatron_is_slip(const char *word, int length, const char *name)
{
    int own = (int)strlen(name), same = 0, behind = 0, longer = own > length ? own : length;
    while (same < own && same < length && name[same] == word[same])
        same++;
    while (behind < own - same && behind < length - same && name[own - 1 - behind] == word[length - 1 - behind])
        behind++;
    bool swapped =
        own == length && same + behind == own - 2 && name[same] == word[same + 1] && name[same + 1] == word[same];
    return swapped || same + behind == longer - 1;
}

/* How degrees are called elsewhere. */
static const char *const elsewhere[][2] = {
    { "--tp", "--tensor-model-parallel-size" },   { "--tp-size", "--tensor-model-parallel-size" },
    { "--pp", "--pipeline-model-parallel-size" }, { "--pp-size", "--pipeline-model-parallel-size" },
    { "--cp", "--context-parallel-size" },        { "--cp-size", "--context-parallel-size" },
    { "--ep", "--expert-model-parallel-size" },   { "--ep-size", "--expert-model-parallel-size" },
    { "--etp", "--expert-tensor-parallel-size" }, { "--mbs", "--micro-batch-size" },
    { "--gbs", "--global-batch-size" },           { "--seq-len", "--seq-length" },
    { "--sequence-length", "--seq-length" },
};

/* The letters of the part that begins here; of "--use-flash" those of "use". */
static int part_length(const char *at, const char *end)
{
    int length = 0;
    while (at + length < end && at[length] != '-')
        length++;
    return length;
}

/* Whether the word is the name without one part in its middle, or without its end, of which it may have some letters:
 * the first part is there, and one more. */
static bool lacks_parts(const char *word, int length, const char *name)
{
    const char *end = word + length, *stop = name + strlen(name), *w = word + 2, *n = name + 2;
    int parts = 0, missing = 0;
    while (w < end && n < stop) {
        int own = part_length(w, end), other = part_length(n, stop);
        bool last = w + own == end, begins = own <= other && strncmp(w, n, (size_t)own) == 0;
        if (begins && (own == other || (last && own > 2))) {
            parts++;
            w += own + 1;
        } else if (parts == 0 || ++missing > 1) {
            return false;
        }
        n += other + 1;
    }
    return w >= end && parts > 1;
}

const char *megatron_meant(const char *word, int length)
{
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (megatron_is_slip(word, length, option->flag))
            return option->flag;
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        if ((int)strlen(elsewhere[i][0]) == length && strncmp(elsewhere[i][0], word, (size_t)length) == 0)
            return elsewhere[i][1];
    for (const struct megatron_option *option = megatron_options; option->flag; option++)
        if (lacks_parts(word, length, option->flag))
            return option->flag;
    return NULL;
}
