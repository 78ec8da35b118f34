/* Text that other tools print for people, word by word. */
#ifndef CLEAVE_HOST_WORDS_H
#define CLEAVE_HOST_WORDS_H
#include "base/error.h"

struct words {
    const char *name;     /* of the file, for messages */
    const char *at, *end; /* what is left */
    int line;             /* of `at`, from 1 */
    struct error *err;
};
enum { WORD_BYTES = 64 };

/* The next word of the line, without what colours it, cut to WORD_BYTES, with ? for what is not printable ASCII; false
 * at the line's end. */
bool words_next_word(struct words *r, char word[WORD_BYTES]);
/* To the beginning of the next line; false at the end of the text. */
bool words_next_line(struct words *r);
/* The first word of this line or of the next one that has any. */
bool words_next_row(struct words *r, char word[WORD_BYTES]);
#endif
