#include "base/arena.h"
#include "base/error.h"
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_ALIGNMENT = 16, FIRST_BLOCK_BYTES = 8 << 10, LARGEST_BLOCK_BYTES = 1 << 20 };

struct arena_block {
    struct arena_block *next;
    size_t used, capacity;
    bool is_zero; /* what is not used yet */
    _Alignas(ARENA_ALIGNMENT) unsigned char data[];
};

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ARENA_UNDER_SANITIZER 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define ARENA_UNDER_SANITIZER 1
#endif

/* Blocks double, so that n bytes cost O(log n) calls. Under the address sanitizer every allocation
 * has a block of its own and exactly its own size: a step over the end of one array is then seen.
 */
static size_t block_capacity(const struct arena *arena, size_t bytes)
{
#ifdef ARENA_UNDER_SANITIZER
    (void)arena;
    return bytes;
#else
    size_t capacity = arena->head ? arena->head->capacity * 2 : FIRST_BLOCK_BYTES;
    if (capacity > LARGEST_BLOCK_BYTES)
        capacity = LARGEST_BLOCK_BYTES;
    return bytes > capacity ? bytes : capacity;
#endif
}

static struct arena_block *arena_grow(struct arena *arena, size_t bytes)
{
    size_t capacity = block_capacity(arena, bytes);
    if (capacity > SIZE_MAX - sizeof(struct arena_block))
        return NULL;
    bool guest = bytes > capacity / 4; /* such large ones come as fresh pages, of which a table may touch few */
    capacity = guest ? bytes : capacity;
    struct arena_block *block = guest ? calloc(1, sizeof *block + capacity) : malloc(sizeof *block + capacity);
    if (!block) {
        memory_fell_short();
        return NULL;
    }
    *block = (struct arena_block){ .capacity = capacity, .is_zero = guest };
    /* a large guest goes behind the head, so that the room left in the head stays in use */
    if (arena->head && guest) {
        block->next = arena->head->next;
        arena->head->next = block;
    } else {
        block->next = arena->head;
        arena->head = block;
    }
    return block;
}

static bool must_fail(struct arena *arena)
{
    if (arena->fail_after > 0 && --arena->fail_after == 0)
        arena->fail_after = -1;
    return arena->fail_after < 0;
}

static void *take(struct arena *arena, size_t count, size_t size)
{
    if (must_fail(arena) || (size != 0 && count > (SIZE_MAX - ARENA_ALIGNMENT) / size))
        return NULL;
    size_t bytes = count * size;
    if (bytes == 0)
        bytes = 1;
#ifndef ARENA_UNDER_SANITIZER
    bytes = (bytes + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
#endif
    struct arena_block *block = arena->head;
    if (!block || block->capacity - block->used < bytes)
        block = arena_grow(arena, bytes);
    if (!block)
        return NULL;
    void *memory = block->data + block->used;
    block->used += bytes;
    return block->is_zero ? memory : memset(memory, 0, bytes);
}

void *arena_alloc(struct arena *arena, size_t count, size_t size)
{
    void *memory = take(arena, count, size);
    arena->failed |= !memory;
    return memory;
}

char *arena_strndup(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length == SIZE_MAX ? length : length + 1, 1);
    if (copy && length > 0)
        memcpy(copy, text, length);
    return copy;
}

void *arena_more(struct arena *arena, void *array, int count, int *capacity, size_t size)
{
    enum { FIRST = 64 };
    if (count < *capacity)
        return array;
    int wanted = *capacity > 0 ? 2 * *capacity : FIRST;
    void *larger = arena_alloc(arena, (size_t)wanted, size);
    if (!larger)
        return NULL;
    if (count > 0)
        memcpy(larger, array, (size_t)count * size);
    *capacity = wanted;
    return larger;
}

char *arena_strdup(struct arena *arena, const char *text)
{
    return arena_strndup(arena, text, strlen(text));
}

size_t arena_bytes(const struct arena *arena)
{
    size_t bytes = 0;
    for (const struct arena_block *block = arena->head; block; block = block->next)
        bytes += sizeof *block + block->capacity;
    return bytes;
}

void arena_free(struct arena *arena)
{
    struct arena_block *block = arena->head;
    while (block) {
        struct arena_block *next = block->next;
        free(block);
        block = next;
    }
    *arena = (struct arena){ 0 };
}
