/* Any bytes as a table. What is accepted has as many fields in every row, and reads back as it is when it is written.
 */
#include "host/csv.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct csv *csv = NULL, *again = NULL;
    struct error err = { 0 };
    struct text text = { 0 };
    if (!csv_read(&csv, "fuzz", (const char *)data, size, &err)) {
        must(err.kind == ERROR_INPUT && strncmp(err.message, "fuzz:", 5) == 0);
        return 0;
    }
    for (int row = -1; row < csv->row_count; row++) {
        const char *fields[CSV_MOST_COLUMNS];
        for (int i = 0; i < csv->column_count; i++) {
            const struct csv_field *field = csv_at(csv, row, i), *before = i ? csv_at(csv, row, i - 1) : NULL;
            must(field->line >= 1 && field->column >= 1);
            must(!before || before->line < field->line || before->column < field->column);
            fields[i] = field->text;
        }
        csv_put_row(&text, fields, csv->column_count);
    }
    /* the first field of all may begin with a byte order mark behind the one that was passed over */
    bool marked = text.length >= 3 && memcmp(text.data, "\xEF\xBB\xBF", 3) == 0;
    if (marked) {
        struct text more = { 0 };
        text_printf(&more, "\xEF\xBB\xBF%s", text.data);
        text_free(&text);
        text = more;
    }
    must(csv_read(&again, "fuzz", text.data, text.length, &err));
    must(again->row_count == csv->row_count && again->column_count == csv->column_count);
    for (int row = -1; row < csv->row_count; row++)
        for (int i = 0; i < csv->column_count; i++)
            must(strcmp(csv_at(csv, row, i)->text, csv_at(again, row, i)->text) == 0);
    csv_free(again);
    csv_free(csv);
    text_free(&text);
    return 0;
}
