/* A device is meant by its name in the catalogue, however its words are parted and whatever its maker is called, by
 * what its driver calls it, by a spelling of published tables, or by the first word of its name where no other device's
 * begins so. */
#include "cli/measured_device.h"
#include "profiler/discover.h"
#include <ctype.h>
#include <string.h>
#include <strings.h>

/* Spellings that say less than a name of the catalogue, or say it in another order: the first that a row's words begin
 * with. */
static const struct {
    const char *words, *device;
} spellings[] = {
    { "A100-40GB-PCIe", "a100-pcie-40" },
    { "A100-80GB-PCIe", "a100-pcie-80" },
    { "A100-PCIe", "a100-pcie-80" },
    { "A100-40GB", "a100-sxm-40" },
    { "A100-SXM (DGX-A100)", "a100-sxm-40" }, /* as first sold: devices of 80 GB came in November 2020 */
    { "A100", "a100-sxm-80" },
    { "A6000", "rtx-a6000" },
    { "H100-96GB", "h100-grand-teton" },
    { "H100-94/95GB", "h100-grand-teton" },
    { "H100-80GB-PCIe", "h100-pcie" },
    { "H100", "h100-sxm" },
    { "V100-16GB", "v100-sxm2-16" },
    { "V100-32GB-SXM3", "v100-sxm3-32" },
    { "V100-32GB", "v100-sxm2-32" },
};

/* Tells how far of the text the words are its beginning, letters and digits alone and of any case; 0: they are not. */
static size_t begins_so(const char *text, const char *words)
{
    size_t at = 0;
    for (; *words; words++) {
        if (!isalnum((unsigned char)*words))
            continue;
        while (text[at] && !isalnum((unsigned char)text[at]))
            at++;
        if (tolower((unsigned char)text[at]) != tolower((unsigned char)*words))
            return 0;
        at++;
    }
    return at;
}

/* True when nothing stands there, or what does not belong to the word before it: "GB" belongs to its number. */
static bool word_ends(const char *at)
{
    return !isalnum((unsigned char)*at) || (tolower((unsigned char)*at) == 'g' && tolower((unsigned char)at[1]) == 'b');
}

/* alone: the words are no more than the name. */
static const char *find_named(const char *words, const struct catalogue_entry *catalogue, int count, bool alone)
{
    for (int i = 0; i < count; i++) {
        size_t length = begins_so(words, catalogue[i].name);
        if (length > 0 && (alone ? words[length] == '\0' : word_ends(words + length)))
            return catalogue[i].name;
    }
    return NULL;
}

static const char *find_spelled(const char *words)
{
    for (size_t i = 0; i < sizeof spellings / sizeof *spellings; i++) {
        size_t length = begins_so(words, spellings[i].words);
        if (length > 0 && word_ends(words + length))
            return spellings[i].device;
    }
    return NULL;
}

/* True when a word says that it is another device than the one of that name: slower, or of another memory. */
static bool is_another(const char *words)
{
    static const char *const kinds[] = { "laptop", "mobile", "max-q", "maxq", "nvl" };
    for (const char *at = words; *at; at++)
        for (size_t i = 0; (at == words || !isalnum((unsigned char)at[-1])) && i < sizeof kinds / sizeof *kinds; i++)
            if (strncasecmp(at, kinds[i], strlen(kinds[i])) == 0 && !isalnum((unsigned char)at[strlen(kinds[i])]))
                return true;
    return false;
}

/* Finds the only device whose name begins with the first of the words. */
static const char *find_first_word(const char *words, const struct catalogue_entry *catalogue, int count)
{
    const char *found = NULL;
    for (int i = 0; i < count; i++) {
        size_t length = strcspn(catalogue[i].name, "-");
        if (strncasecmp(words, catalogue[i].name, length) != 0 || !word_ends(words + length))
            continue;
        if (found)
            return NULL;
        found = catalogue[i].name;
    }
    return found;
}

/* Words without a digit are skipped until something is known: makers and their brands stand before a device's name. */
const char *measured_device(const char *words, const struct catalogue_entry *catalogue, int count)
{
    const char *found = discover_device(words);
    found = found ? found : find_named(words, catalogue, count, true);
    if (!found && is_another(words))
        return NULL;
    while (!found && *words) {
        size_t length = strcspn(words, " -_");
        found = find_named(words, catalogue, count, false);
        found = found ? found : find_spelled(words);
        found = found ? found : find_first_word(words, catalogue, count);
        if (strcspn(words, "0123456789") < length)
            break;
        words += length;
        words += strspn(words, " -_");
    }
    return found;
}
