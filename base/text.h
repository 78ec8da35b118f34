/* Growing text, and numbers printed for people (the only place where GB, ms and TFLOP/s appear). */
#ifndef CLEAVE_BASE_TEXT_H
#define CLEAVE_BASE_TEXT_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *data; /* always terminated once anything was added; NULL when empty */
    size_t length, capacity;
    bool failed; /* memory ran out: everything after is dropped; check once at the end */
};

/* Whether it is that word; NULL is none. */
bool text_is(const char *string, const char *word);
void text_add(struct text *text, const char *string);
void text_add_bytes(struct text *text, const char *bytes, size_t count);
void text_add_quoted(struct text *text, const char *word);   /* in single quotes, as one word of a shell */
void text_add_argument(struct text *text, const char *word); /* likewise, but without quotes where it needs none */
void text_printf(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_free(struct text *text);

/* Each writes into out (32 bytes are enough) and returns out. */
enum { TEXT_NUMBER_BYTES = 48 };
char *text_bytes(char out[TEXT_NUMBER_BYTES], int64_t bytes);        /* "13.4 GiB" */
char *text_bytes_enough(char out[TEXT_NUMBER_BYTES], int64_t bytes); /* so written no fewer: "13.5 GiB" */
char *text_duration_ns(char out[TEXT_NUMBER_BYTES], int64_t ns);     /* "12.3 ms" */
char *text_count(char out[TEXT_NUMBER_BYTES], int64_t count);        /* "124,439,808" */
char *text_number_of(char out[TEXT_NUMBER_BYTES], int64_t count, const char *noun); /* "1 batch", "2 batches" */
char *text_rate(char out[TEXT_NUMBER_BYTES], double per_s, const char *unit);       /* "312 TFLOP/s" */
/* The shortest decimal that reads back as the same double: same value, same bytes, everywhere. */
char *text_double(char out[TEXT_NUMBER_BYTES], double value);
/* Reads a whole decimal number ("-1.5e3") with '.' as its point, whatever the locale. False, *out
 * unchanged, when the bytes are not exactly one finite number, when it overflows, or when memory is
 * short. A number too small for a double reads as zero. */
bool text_read_double(const char *bytes, size_t length, double *out);
/* Reads a size as text_bytes() writes it, or in decimal units: "4194304", "4MiB", "1.5 GiB", "2e9", "80GB", which is
 * 80e9; what is left of a byte is dropped.
 * False, *out unchanged, when the word is something else, or negative, or beyond 63 bits. */
bool text_read_bytes(const char *word, int64_t *out);
/* Length in bytes (1 to 4) of the UTF-8 character that starts at bytes, *character its code point;
 * 0 when it is malformed: cut, overlong, a surrogate, or above U+10FFFF. */
size_t text_utf8(const char *bytes, size_t length, uint32_t *character);
/* Length in bytes of the character that starts at bytes and may be shown to somebody as it is; 0 where it is a control
 * character (a new line and a tab are none here), C1 ones included, or no UTF-8: such a byte is shown as \xNN, so that
 * nothing that stands in a file commands a terminal or breaks a page. */
size_t text_shown(const char *bytes, size_t length);
void text_add_shown(struct text *text, const char *bytes,
                    size_t length); /* such bytes as \xNN, all others as they are */
/* The candidate nearest to word by edit distance, or NULL when none is near: for "did you mean". */
const char *text_nearest(const char *word, const char *const *candidates, size_t count);
#endif
