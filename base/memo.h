/* What is made once is found again by what it was made from: a key of words, compared word by word. Keys of several
 * kinds may share a memo where their first words differ. */
#ifndef CLEAVE_BASE_MEMO_H
#define CLEAVE_BASE_MEMO_H
#include "base/arena.h"
#include <stdbool.h>

struct memo_entry;
struct memo {
    struct arena arena; /* of the entries, which stay where they are */
    struct memo_entry **bucket;
    size_t bucket_count, count;
};

/* The key's value, aligned to 8 bytes; NULL: there is none. */
void *memo_find(const struct memo *memo, const int64_t *key, size_t words);
/* The same, or else a new value of so many bytes, zeroed, which stays even if the caller fails to fill it in. *known:
 * it was there. NULL: out of memory. */
void *memo_place(struct memo *memo, const int64_t *key, size_t words, size_t value_bytes, bool *known);
/* Forgets everything; the memo is empty and usable again. */
void memo_free(struct memo *memo);
#endif
