#include "planner/bound/passes_book.h"
#include <string.h>

enum { MOST_PASSES = 1 << 17, BOOK_BYTES = 48 << 20 };

bool passes_alike(const struct config *a, const struct config *b)
{
    return a->schedule == b->schedule && a->stages == b->stages && config_chunks(a) == config_chunks(b) &&
           a->micro_batch_count == b->micro_batch_count && a->extra == b->extra;
}

struct passes_entry *passes_entry(struct passes_book *book, const struct config *config)
{
    for (struct passes_entry *entry = book->entries; entry; entry = entry->next)
        if (passes_alike(&entry->config, config))
            return entry;
    if (arena_bytes(&book->arena) > BOOK_BYTES)
        passes_book_close(book);
    struct passes_entry *entry = arena_alloc(&book->arena, 1, sizeof *entry);
    if (!entry || !passes_list(&entry->passes, config, &book->arena))
        return NULL;
    entry->config = *config;
    entry->next = book->entries;
    return book->entries = entry;
}

bool passes_keep(struct passes_book *book, struct passes_entry *entry, const struct passes_mix *mix)
{
    struct passes_mix copy = { .lane_weight = mix->lane_weight };
    copy.paths = arena_alloc(&book->arena, (size_t)mix->path_count, sizeof *copy.paths);
    copy.moments = arena_alloc(&book->arena, (size_t)mix->moment_count, sizeof *copy.moments);
    if (!copy.paths || !copy.moments)
        return false;
    for (int i = 0; i < mix->path_count; i++) {
        const struct mix_path *path = &mix->paths[i];
        if (path->weight == 0)
            continue;
        int *pass = arena_alloc(&book->arena, (size_t)path->count, sizeof *pass);
        if (!pass)
            return false;
        memcpy(pass, path->pass, (size_t)path->count * sizeof *pass);
        copy.paths[copy.path_count++] = (struct mix_path){ path->weight, path->count, pass };
    }
    for (int i = 0; i < mix->moment_count; i++)
        if (mix->moments[i].weight_ns > 0)
            copy.moments[copy.moment_count++] = mix->moments[i];
    entry->mix = copy;
    return true;
}

void passes_book_close(struct passes_book *book)
{
    arena_free(&book->arena);
    book->entries = NULL;
}

bool passes_are_few(const struct chain *chain, const struct config *config)
{
    return !chain->branches && (!chain->graph || graph_is_chain(chain->graph)) && passes_count(config) <= MOST_PASSES;
}
