#include "host/csv.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    struct csv *csv;
    const char *at, *end;
    int line, column;
    char *put; /* Behind the texts so far: each is shorter than what it is read from, the byte behind it included. */
    int count, capacity;
};

static bool fail_here(const struct reader *r, struct error *err, const char *expected)
{
    const char *name = r->csv->name;
    if (r->at == r->end)
        return fail(err, "%s:%d:%d: expected %s, found the end of the file", name, r->line, r->column, expected);
    unsigned char byte = (unsigned char)*r->at;
    if (byte > ' ' && byte < 0x7f)
        return fail(err, "%s:%d:%d: expected %s, found '%c'", name, r->line, r->column, expected, byte);
    return fail(err, "%s:%d:%d: expected %s, found byte 0x%02x", name, r->line, r->column, expected, byte);
}

/* Of LF or CRLF; 0: the line goes on. */
static int line_end_bytes(const struct reader *r)
{
    if (r->at < r->end && *r->at == '\n')
        return 1;
    return r->end - r->at >= 2 && r->at[0] == '\r' && r->at[1] == '\n' ? 2 : 0;
}

static void pass_line_end(struct reader *r)
{
    r->at += line_end_bytes(r);
    r->line++;
    r->column = 1;
}

/* One character of a field. */
static bool take(struct reader *r, struct error *err)
{
    uint32_t character;
    size_t bytes = text_utf8(r->at, (size_t)(r->end - r->at), &character);
    if (bytes == 0)
        return fail_here(r, err, "text in UTF-8");
    if (character == 0)
        return fail_here(r, err, "text without zero bytes");
    memcpy(r->put, r->at, bytes);
    r->put += bytes;
    r->at += bytes;
    r->line += character == '\n';
    r->column = character == '\n' ? 1 : r->column + 1;
    return true;
}

static bool at_end_of_field(const struct reader *r)
{
    return r->at == r->end || *r->at == ',' || line_end_bytes(r) > 0;
}

static bool read_quoted(struct reader *r, struct error *err)
{
    const int line = r->line, column = r->column;
    r->at++, r->column++;
    for (;;) {
        if (r->at == r->end)
            return fail(err, "%s:%d:%d: expected a quote that closes this one, found the end of the file", r->csv->name,
                        line, column);
        if (*r->at == '"') {
            r->at++, r->column++;
            if (r->at == r->end || *r->at != '"')
                return at_end_of_field(r) ||
                       fail_here(r, err,
                                 "a comma or the end of the line behind a closing quote (quotes inside are "
                                 "doubled)");
        }
        if (!take(r, err))
            return false;
    }
}

static bool read_plain(struct reader *r, struct error *err)
{
    while (!at_end_of_field(r)) {
        if (*r->at == '"')
            return fail_here(r, err, "quotes around the whole field or none");
        if (*r->at == '\r')
            return fail_here(r, err, "a line feed behind the carriage return");
        if (!take(r, err))
            return false;
    }
    return true;
}

static bool read_field(struct reader *r, struct error *err)
{
    struct csv_field *fields =
        arena_more(&r->csv->arena, r->csv->fields, r->count, &r->capacity, sizeof *r->csv->fields);
    if (!fields)
        return fail_memory(err);
    r->csv->fields = fields;
    fields[r->count++] = (struct csv_field){ .text = r->put, .line = r->line, .column = r->column };
    if (!(r->at < r->end && *r->at == '"' ? read_quoted(r, err) : read_plain(r, err)))
        return false;
    *r->put++ = 0;
    return true;
}

/* The fields of one line; *count: how many. */
static bool read_record(struct reader *r, int *count, struct error *err)
{
    *count = 0;
    for (;;) {
        if (++*count > CSV_MOST_COLUMNS)
            return fail(err, "%s:%d:%d: expected at most %d columns, found more", r->csv->name, r->line, r->column,
                        CSV_MOST_COLUMNS);
        if (!read_field(r, err))
            return false;
        if (r->at == r->end || *r->at != ',')
            break;
        r->at++, r->column++;
    }
    if (r->at < r->end)
        pass_line_end(r);
    return true;
}

static bool check_names(const struct csv *csv, struct error *err)
{
    for (int i = 0; i < csv->column_count; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(csv->fields[i].text, csv->fields[j].text) == 0)
                return fail(err, "%s:%d:%d: expected names of columns that differ, found '%.80s' again", csv->name,
                            csv->fields[i].line, csv->fields[i].column, csv->fields[i].text);
    return true;
}

static bool read_all(struct reader *r, struct error *err)
{
    static const char mark[] = "\xEF\xBB\xBF";
    struct csv *csv = r->csv;
    if (r->end - r->at >= 3 && memcmp(r->at, mark, 3) == 0)
        r->at += 3;
    for (int records = 0;; records++) {
        while (line_end_bytes(r) > 0)
            pass_line_end(r);
        if (r->at == r->end)
            return records > 0 || fail_here(r, err, "a line with the names of the columns");
        int line = r->line, count;
        if (!read_record(r, &count, err))
            return false;
        if (records == 0) {
            csv->column_count = count;
            if (!check_names(csv, err))
                return false;
        } else if (count != csv->column_count)
            return fail(err, "%s:%d: expected %d fields, as many as the first line names, found %d", csv->name, line,
                        csv->column_count, count);
        csv->row_count = records;
    }
}

bool csv_read(struct csv **out, const char *name, const char *text, size_t length, struct error *err)
{
    struct csv *csv = calloc(1, sizeof *csv);
    if (!csv)
        return fail_memory(err);
    if (length >= INT32_MAX) {
        csv_free(csv);
        return fail(err, "%s: expected less than 2 GiB, found %zu bytes", name, length);
    }
    struct reader r = { .csv = csv, .at = text, .end = text + length, .line = 1, .column = 1 };
    csv->name = arena_strdup(&csv->arena, name);
    r.put = arena_alloc(&csv->arena, length + 1, 1);
    if (!(csv->name && r.put ? read_all(&r, err) : fail_memory(err))) {
        csv_free(csv);
        return false;
    }
    *out = csv;
    return true;
}

void csv_free(struct csv *csv)
{
    if (csv)
        arena_free(&csv->arena);
    free(csv);
}

const struct csv_field *csv_at(const struct csv *csv, int row, int column)
{
    return &csv->fields[(size_t)(row + 1) * (size_t)csv->column_count + (size_t)column];
}

int csv_column(const struct csv *csv, const char *name)
{
    for (int i = 0; i < csv->column_count; i++)
        if (strcmp(csv->fields[i].text, name) == 0)
            return i;
    return -1;
}

const char *csv_nearest(const struct csv *csv, const char *name)
{
    const char *names[CSV_MOST_COLUMNS];
    for (int i = 0; i < csv->column_count; i++)
        names[i] = csv->fields[i].text;
    return text_nearest(name, names, (size_t)csv->column_count);
}

bool csv_fail(const struct csv *csv, int row, int column, struct error *err, const char *format, ...)
{
    char message[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message, sizeof message, format, arguments);
    va_end(arguments);
    const struct csv_field *field = csv_at(csv, row, column);
    return fail(err, "%s:%d:%d: %s: %s", csv->name, field->line, field->column, csv->fields[column].text, message);
}

void csv_put_row(struct text *out, const char *const *fields, int count)
{
    for (int i = 0; i < count; i++) {
        if (i > 0)
            text_add(out, ",");
        /* a lone empty field would be a line without anything, which readers pass over */
        if (!strpbrk(fields[i], ",\"\r\n") && (count > 1 || fields[i][0])) {
            text_add(out, fields[i]);
            continue;
        }
        text_add(out, "\"");
        for (const char *p = fields[i]; *p; p++)
            text_add_bytes(out, *p == '"' ? "\"\"" : p, *p == '"' ? 2 : 1);
        text_add(out, "\"");
    }
    text_add(out, "\n");
}
