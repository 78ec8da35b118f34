/* Tables as text: CSV as RFC 4180 has it, strictly, with the place of every field. */
#ifndef CLEAVE_HOST_CSV_H
#define CLEAVE_HOST_CSV_H
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"

enum { CSV_MOST_COLUMNS = 1024 };
struct csv_field {
    const char *text; /* what the file means: without quotes, doubled ones once */
    int line, column; /* where it begins, from 1; columns count characters */
};
struct csv {
    struct arena arena;
    const char *name; /* of the file, for messages */
    int column_count, row_count;
    struct csv_field *fields; /* (row_count + 1, column_count): first the names of the columns */
};

/**
 * Reads a table whose first line names its columns. A field in quotes may hold commas, line breaks and doubled quotes;
 * lines end in LF or CRLF; a byte order mark before the text and lines without anything are passed over. Refused with
 * line and column: quotes elsewhere, text behind a closing quote, a carriage return alone, malformed UTF-8, zero bytes,
 * rows of another length than the first, two columns of one name. The caller owns *out: csv_free().
 */
bool csv_read(struct csv **out, const char *name, const char *text, size_t length, struct error *err);
void csv_free(struct csv *csv); /* accepts NULL */
/* The field of a row, from 0, in a column. */
const struct csv_field *csv_at(const struct csv *csv, int row, int column);
/* The column of that name; -1: there is none. */
int csv_column(const struct csv *csv, const char *name);
/* The column's name that is nearest, or NULL when none is near: for "did you mean". */
const char *csv_nearest(const struct csv *csv, const char *name);
/* A failure at a field: "file:line:column: name of the column: " and the message. Always returns false. */
bool csv_fail(const struct csv *csv, int row, int column, struct error *err, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* Adds one row, fields in quotes where they need them. */
void csv_put_row(struct text *out, const char *const *fields, int count);
#endif
