/* Strict JSON over cJSON: positions for every value, duplicate keys refused, depth limit 512, UTF-8
 * checked, numbers checked against the grammar. cJSON builds the tree; this file decides what is
 * accepted and says where.
 *
 * Reading a struct: one field table per format is the format: the reader, the unknown-key check,
 * "did you mean" and `cleave schema` all come from it. */
#ifndef CLEAVE_BASE_JSON_H
#define CLEAVE_BASE_JSON_H
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include <stddef.h>
#include <stdint.h>

struct json_doc;
struct json; /* one value inside a document; borrowed from it */
enum json_type { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };
enum { JSON_MAX_DEPTH = 512, JSON_MOST_TIMES = 20, JSON_SHORT_BYTES = 1 << 20 };

/* name appears in messages ("gpt.json"). Text after the value is an error. Messages read
 * "name:line:column: path: expected ..., found ..."; lines and columns count from 1, columns in
 * characters. The document copies what it needs. Refused: text that is not the grammar of RFC 8259,
 * malformed UTF-8, lone surrogates, a byte order mark, duplicate keys (after escapes are undone),
 * numbers beyond a double, nesting beyond JSON_MAX_DEPTH, texts of 2 GiB, and above JSON_SHORT_BYTES those that would
 * take more than JSON_MOST_TIMES their bytes of memory. */
bool json_parse(struct json_doc **out, const char *name, const char *text, size_t length, struct error *err);
void json_free(struct json_doc *doc); /* accepts NULL */
const struct json *json_root(const struct json_doc *doc);
/* Parses, hands the root to read() and frees the document: read() copies what it keeps. False if either fails. */
bool json_parse_with(const char *name, const char *text, size_t length,
                     bool (*read)(void *self, const struct json *root, struct error *err), void *self,
                     struct error *err);

enum json_type json_type(const struct json *value);
const char *json_type_name(enum json_type type);
int json_count(const struct json *value); /* elements of an array or members of an object, else 0 */
const struct json *json_at(const struct json *array, int index);            /* NULL when out of range */
const struct json *json_member(const struct json *object, const char *key); /* NULL when absent */
/* Name of the index-th member; NULL when out of range. A name with an embedded zero is given as the
 * file spells it (a\u0000b), and json_member never finds it. */
const char *json_key(const struct json *object, int index);
const struct json *json_member_at(const struct json *object, int index);

/* A failure at this value: "name:line:column: path: " and the message. Always returns false. */
bool json_fail(const struct json *value, struct error *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts the same place before the message of a filled error: of what was found out after reading. Returns false. */
bool json_error_within(const struct json *value, struct error *err);

/* Where the value begins, from 1; the column counts characters. */
void json_position(const struct json *value, int *line, int *column);

/* Typed access; each fails with a position when the value is of another type or out of range. */
/* Whole numbers, decided from the digits and not from a double: 12, 12.0 and 1.2e1 are the same
 * number, 1.5 is refused, and so is anything beyond 2^53. INT64_MIN and INT64_MAX as limits mean
 * none. */
bool json_int(const struct json *value, int64_t min, int64_t max, int64_t *out, struct error *err);
/* Infinite limits mean none. */
bool json_double(const struct json *value, double min, double max, double *out, struct error *err);
bool json_bool(const struct json *value, bool *out, struct error *err);
bool json_string(const struct json *value, const char **out,
                 struct error *err); /* borrowed from the document; refuses embedded zeros */
/* The required member, or a failure at the object that names the key. */
bool json_require(const struct json *object, const char *key, const struct json **out, struct error *err);

/* Fails when the object has a "format" that is another one: asked before a table is read, so that the wrong file is
 * told by its format and not by its first unknown key. Whether the member must be there is the table's business. */
bool json_check_format(const struct json *root, const char *format, struct error *err);

/* ---- field tables ---- */
enum field_type { FIELD_INT, FIELD_DOUBLE, FIELD_BOOL, FIELD_STRING, FIELD_ENUM, FIELD_NODE, FIELD_WORDS };
struct json_field {
    const char *key;
    enum field_type type;
    size_t offset; /* FIELD_INT int64_t; FIELD_DOUBLE double; FIELD_BOOL bool; FIELD_STRING const
                      char *; FIELD_ENUM int; FIELD_NODE const struct json * (read on by hand); FIELD_WORDS int, bit i
                      for word i of an array */
    bool required;
    double min, max;          /* numbers; both 0: any non-negative value; max below min: no upper limit
                                 ({.min = 1}) */
    const char *const *names; /* FIELD_ENUM, FIELD_WORDS: the words, NULL-terminated; the index is stored */
    const char *doc;          /* one sentence with the unit; `cleave schema` and docs/formats.md print it */
};
/* What `cleave schema` and docs/formats.md print of one table. Each file that reads a format has a list of them, ended
 * by one without a name. */
struct json_format {
    const char *name, *doc;
    const struct json_field *fields;
    size_t count;
};
#define JSON_FORMAT(name, table, doc)                                                                                  \
    {                                                                                                                  \
        name, doc, table, sizeof(table) / sizeof *(table)                                                              \
    }
/* Fills out from an object by the table. Absent optional fields leave out as it is. An unknown key
 * is an error with the nearest known key, unless its name starts with "x-" or is "comment". Strings
 * are copied into arena (which may be NULL when the table has none). out changes only on success.
 * At most JSON_MAX_FIELDS fields. */
enum { JSON_MAX_FIELDS = 96 };
bool json_read_fields(const struct json *object, const struct json_field *fields, size_t count, void *out,
                      struct arena *arena, struct error *err);
/* Fails where a number of a structure that was filled in otherwise is above its field's limit; at may be NULL. */
bool json_check_limits(const struct json *at, const struct json_field *fields, size_t count, const void *structure,
                       struct error *err);

/* ---- writing: deterministic bytes, two-space indentation, keys in the order written; start from
 * struct json_writer w = {0} ---- */
struct json_writer {
    struct text text;
    int depth;
    bool first, after_key;
};
void json_begin_object(struct json_writer *w);
void json_end_object(struct json_writer *w);
void json_begin_array(struct json_writer *w);
void json_end_array(struct json_writer *w);
void json_write_key(struct json_writer *w, const char *key);
void json_write_string(struct json_writer *w, const char *value); /* NULL writes null; malformed UTF-8 becomes U+FFFD */
void json_write_int(struct json_writer *w, int64_t value);
void json_write_double(struct json_writer *w,
                       double value); /* shortest that reads back; a non-finite value writes null */
void json_write_bool(struct json_writer *w, bool value);
/* A value that was read, with all that it holds; numbers as the nearest double or, if whole, as they were. */
void json_write_value(struct json_writer *w, const struct json *value);
/* Writes those members of an object that was read which no table names ("x-...", "comment"): other people's, to be
 * kept. object may be NULL. */
void json_write_free_members(struct json_writer *w, const struct json *object);
/* A member: key and value. */
void json_put_string(struct json_writer *w, const char *key, const char *value);
void json_put_int(struct json_writer *w, const char *key, int64_t value);
void json_put_double(struct json_writer *w, const char *key, double value);
void json_put_bool(struct json_writer *w, const char *key, bool value);
void json_put_ints(struct json_writer *w, const char *key, const int64_t *values, int count); /* an array */
/* A member whose object, or array, is open now. */
void json_begin_object_at(struct json_writer *w, const char *key);
void json_begin_array_at(struct json_writer *w, const char *key);
/* Begins the object of a file or report: its "format" and "version". */
void json_begin_format(struct json_writer *w, const char *format, int version);
/* Ends the document with a newline and hands out the bytes (caller frees with free()); NULL when
 * memory ran out. */
char *json_finish(struct json_writer *w, size_t *length);
#endif
