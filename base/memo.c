#include "base/memo.h"
#include "base/num.h"
#include <string.h>

struct memo_entry {
    struct memo_entry *next; /* of its bucket */
    uint64_t hash;
    size_t words;
    int64_t key[]; /* then the value */
};

static uint64_t hash_of(const int64_t *key, size_t words)
{
    return mix64(hash_words(HASH_START, key, words));
}

static void *find(const struct memo *memo, const int64_t *key, size_t words, uint64_t hash)
{
    struct memo_entry *entry = memo->count > 0 ? memo->bucket[hash % memo->bucket_count] : NULL;
    while (entry && (entry->hash != hash || entry->words != words || memcmp(entry->key, key, words * sizeof *key) != 0))
        entry = entry->next;
    return entry ? entry->key + words : NULL;
}

void *memo_find(const struct memo *memo, const int64_t *key, size_t words)
{
    return find(memo, key, words, hash_of(key, words));
}

static void insert(struct memo *memo, struct memo_entry *entry)
{
    struct memo_entry **bucket = &memo->bucket[entry->hash % memo->bucket_count];
    entry->next = *bucket;
    *bucket = entry;
}

/* Twice as many buckets, so that each has one entry in the mean. */
static bool grow(struct memo *memo)
{
    enum { FIRST = 64 };
    struct memo old = *memo;
    size_t wanted = old.bucket_count > 0 ? 2 * old.bucket_count : FIRST;
    struct memo_entry **bucket = arena_alloc(&memo->arena, wanted, sizeof *bucket);
    if (!bucket)
        return false;
    memo->bucket = bucket;
    memo->bucket_count = wanted;
    for (size_t i = 0; i < old.bucket_count; i++)
        for (struct memo_entry *entry = old.bucket[i], *next; entry; entry = next) {
            next = entry->next;
            insert(memo, entry);
        }
    return true;
}

void *memo_place(struct memo *memo, const int64_t *key, size_t words, size_t value_bytes, bool *known)
{
    uint64_t hash = hash_of(key, words);
    void *value = find(memo, key, words, hash);
    *known = value != NULL;
    if (value)
        return value;
    if (memo->count == memo->bucket_count && !grow(memo))
        return NULL;
    struct memo_entry *entry = arena_alloc(&memo->arena, 1, sizeof *entry + words * sizeof *key + value_bytes);
    if (!entry)
        return NULL;
    entry->hash = hash;
    entry->words = words;
    memcpy(entry->key, key, words * sizeof *key);
    insert(memo, entry);
    memo->count++;
    return entry->key + words;
}

void memo_free(struct memo *memo)
{
    arena_free(&memo->arena);
    *memo = (struct memo){ 0 };
}
