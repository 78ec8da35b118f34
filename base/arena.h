/* Memory that is freed all at once: each top-level object owns one arena. */
#ifndef CLEAVE_BASE_ARENA_H
#define CLEAVE_BASE_ARENA_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena_block;
struct arena {
    struct arena_block *head;
    bool failed;        /* arena_failed() */
    int64_t fail_after; /* tests: > 0 counts down, the allocation that reaches 0 fails, as do all
                           after it */
};

/* count * size bytes, zeroed, aligned to 16; NULL when memory is short or the product overflows. A
 * zero product gives a valid pointer. The memory lives until arena_free. */
void *arena_alloc(struct arena *arena, size_t count, size_t size);
/* Whether memory has been short for it since it was empty: who allocates several arrays asks once. */
static inline bool arena_failed(const struct arena *arena)
{
    return arena->failed;
}
/* An array with room for more than `count` elements: itself, or a copy of twice the room. *capacity: of the array, 0
 * where there is none yet. NULL when memory is short; then nothing has changed. */
void *arena_more(struct arena *arena, void *array, int count, int *capacity, size_t size);
/* A copy of the string; NULL when memory is short. */
char *arena_strdup(struct arena *arena, const char *text);
char *arena_strndup(struct arena *arena, const char *text, size_t length);
/* What it holds of the heap. */
size_t arena_bytes(const struct arena *arena);
/* Frees everything; the arena is empty and usable again. */
void arena_free(struct arena *arena);
#endif
