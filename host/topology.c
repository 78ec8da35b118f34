#include "host/topology.h"
#include "host/words.h"
#include <stdlib.h>
#include <string.h>

/* ---- the table ---- */

enum { COLUMNS = TOPOLOGY_DEVICES + TOPOLOGY_NICS };
struct topology_table {
    int count;
    char column[COLUMNS][WORD_BYTES];
    struct topology_pair cell[COLUMNS][COLUMNS];
    signed char distance[COLUMNS][COLUMNS]; /* from near to far, as the words say; NVLink is nearest */
};

/* The number behind a prefix: "GPU12"; -1: another word. */
static int number_behind(const char *word, const char *prefix)
{
    size_t length = strlen(prefix), digits = strspn(word + (strncmp(word, prefix, length) ? 0 : length), "0123456789");
    if (strncmp(word, prefix, length) != 0 || digits < 1 || digits > 4 || word[length + digits])
        return -1;
    return (int)strtol(word + length, NULL, 10);
}

static bool read_header(struct words *r, struct topology *out, struct topology_table *t)
{
    char word[WORD_BYTES];
    bool any = words_next_row(r, word);
    for (; any && strcmp(word, "CPU") != 0 && strcmp(word, "NUMA") != 0 && strcmp(word, "GPU") != 0;
         any = words_next_word(r, word)) {
        bool device = out->nic_count == 0 && number_behind(word, "GPU") == out->device_count;
        if (!device && (out->device_count == 0 || strncmp(word, "GPU", 3) == 0))
            return fail(r->err, "%s:%d: expected the column GPU%d of the table of `nvidia-smi topo -m`, found \"%s\"",
                        r->name, r->line, out->device_count, word);
        int *count = device ? &out->device_count : &out->nic_count;
        if (*count == (device ? TOPOLOGY_DEVICES : TOPOLOGY_NICS))
            return fail(r->err, "%s:%d: expected at most %d %s, found more", r->name, r->line, *count,
                        device ? "GPUs" : "network cards");
        ++*count;
        memcpy(t->column[t->count++], word, sizeof word);
    }
    return out->device_count > 0 ||
           fail(r->err, "%s:%d: expected the table of `nvidia-smi topo -m`, whose first line names GPU0, found none",
                r->name, r->line);
}

static bool read_cell(struct words *r, struct topology_pair *out, signed char *distance, const char *word,
                      bool diagonal)
{
    static const struct {
        const char *word;
        enum link_tier tier;
    } words[] = { { "PIX", TIER_SWITCH }, { "PXB", TIER_SWITCH }, { "PHB", TIER_HOST },
                  { "NODE", TIER_HOST },  { "SYS", TIER_HOST },   { "SOC", TIER_HOST } };
    int links = number_behind(word, "NV");
    *out = (struct topology_pair){ TIER_NVLINK, links };
    if (diagonal)
        return strcmp(word, "X") == 0 ||
               fail(r->err, "%s:%d: expected X on the diagonal, found \"%s\"", r->name, r->line, word);
    if (links > TOPOLOGY_LINKS)
        return fail(r->err, "%s:%d: expected at most %d NVLinks of a GPU, found \"%s\"", r->name, r->line,
                    TOPOLOGY_LINKS, word);
    if (links > 0)
        return true;
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i].word) == 0) {
            *out = (struct topology_pair){ words[i].tier, 0 };
            *distance = (signed char)(i + 1);
            return true;
        }
    return fail(r->err, "%s:%d: expected one of NV1, NV2, ..., PIX, PXB, PHB, NODE, SYS, found \"%s\"", r->name,
                r->line, word);
}

static bool read_row(struct words *r, struct topology_table *t, int row)
{
    char word[WORD_BYTES] = "";
    bool any = row == 0 ? words_next_line(r) && words_next_row(r, word) : words_next_row(r, word);
    if (!any || strcmp(word, t->column[row]) != 0)
        return fail(r->err, "%s:%d: expected the row %s, found %s%s", r->name, r->line, t->column[row],
                    any ? "" : "the end", word);
    for (int i = 0; i < t->count; i++) {
        if (!words_next_word(r, word))
            return fail(r->err, "%s:%d: expected %d cells in the row %s, found %d", r->name, r->line, t->count,
                        t->column[row], i);
        if (!read_cell(r, &t->cell[row][i], &t->distance[row][i], word, i == row))
            return false;
        const struct topology_pair *a = &t->cell[row][i], *b = &t->cell[i][row];
        if (i < row && (a->tier != b->tier || a->links != b->links))
            return fail(r->err, "%s:%d: expected the same between %s and %s both ways, found \"%s\" here", r->name,
                        r->line, t->column[row], t->column[i], word);
    }
    words_next_line(r); /* what is left of it: affinities */
    return true;
}

/* How many cards some GPU has no nearer one than: its traffic goes by these. */
static int count_nearest(const struct topology *topology, const struct topology_table *t)
{
    int count = 0;
    for (int nic = topology->device_count; nic < t->count; nic++) {
        bool nearest = false;
        for (int gpu = 0; gpu < topology->device_count && !nearest; gpu++) {
            nearest = true;
            for (int other = topology->device_count; other < t->count; other++)
                nearest = nearest && t->distance[gpu][nic] <= t->distance[gpu][other];
        }
        count += nearest;
    }
    return count;
}

bool topology_read(struct topology *out, const char *name, const char *text, size_t length, struct error *err)
{
    struct words r = { .name = name, .at = text, .end = text + length, .line = 1, .err = err };
    struct topology_table *table = calloc(1, sizeof *table);
    struct topology *made = calloc(1, sizeof *made);
    bool ok = (table && made) || fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    ok = ok && read_header(&r, made, table);
    for (int row = 0; ok && row < table->count; row++)
        ok = read_row(&r, table, row);
    if (ok) {
        for (int i = 0; i < made->device_count; i++)
            memcpy(made->pair[i], table->cell[i], (size_t)made->device_count * sizeof *made->pair[i]);
        made->nearest_nics = count_nearest(made, table);
        *out = *made;
    }
    free(made);
    free(table);
    return ok;
}

/* ---- levels ---- */

/* Size of the blocks of neighbours within which no pair is farther than the tier and beyond which all are; 0: there are
 * no such blocks of equal size, and `pair` shows it. */
static int block_size(const struct topology *t, enum link_tier tier, int pair[2])
{
    int size = 1;
    while (size < t->device_count && t->pair[0][size].tier <= tier)
        size++;
    for (int i = 0; i < t->device_count; i++)
        for (int j = i + 1; j < t->device_count; j++)
            if ((t->pair[i][j].tier <= tier) != (i / size == j / size)) {
                pair[0] = i, pair[1] = j;
                return 0;
            }
    return t->device_count % size == 0 ? size : 0;
}

static int fewest_links(const struct topology *t, int size)
{
    int links = 0;
    for (int i = 0; i < t->device_count; i++)
        for (int j = i + 1; j < t->device_count; j++)
            if (i / size == j / size && t->pair[i][j].links > 0 && (links == 0 || t->pair[i][j].links < links))
                links = t->pair[i][j].links;
    return links;
}

void topology_find_levels(struct topology_levels *out, const struct topology *t)
{
    int below = 1;
    *out = (struct topology_levels){ .mixed = TIER_COUNT };
    for (int tier = 0; tier < TIER_COUNT && below < t->device_count; tier++) {
        int pair[2] = { 0, t->device_count - 1 }, size = block_size(t, (enum link_tier)tier, pair);
        if (size > below && size % below == 0) {
            out->level[out->count++] = (struct topology_level){ (enum link_tier)tier, size / below,
                                                                tier == TIER_NVLINK ? fewest_links(t, size) : 0 };
            below = size;
        } else if (size != below && out->mixed == TIER_COUNT) {
            out->mixed = (enum link_tier)tier;
            out->mixed_pair[0] = pair[0], out->mixed_pair[1] = pair[1];
        }
    }
    if (out->count == 0)
        out->level[out->count++] = (struct topology_level){ TIER_NVLINK, 1, 0 };
}
