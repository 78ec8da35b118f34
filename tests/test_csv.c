/* CSV: what RFC 4180 says, what it is refused for and where, and that what is written reads back. */
#include "host/csv.h"
#include "tests/check.h"
#include <string.h>

static struct csv *must_read(const char *text)
{
    struct csv *csv = NULL;
    struct error err = { 0 };
    ck_assert_msg(csv_read(&csv, "t.csv", text, strlen(text), &err), "%s", err.message);
    return csv;
}

static void must_be(const struct csv *csv, int row, int column, const char *text, int line, int at)
{
    const struct csv_field *field = csv_at(csv, row, column);
    ck_assert_str_eq(field->text, text);
    ck_assert_int_eq(field->line, line);
    ck_assert_int_eq(field->column, at);
}

START_TEST(fields_are_what_the_text_means)
{
    struct csv *csv = must_read("\xEF\xBB\xBFid,\"a, \"\"b\"\"\",c\r\n1,\"x\r\ny\",\n\n\xC3\xA9,\"\",\"3\"");
    ck_assert_int_eq(csv->row_count, 2);
    ck_assert_int_eq(csv->column_count, 3);
    ck_assert_int_eq(csv_column(csv, "a, \"b\""), 1);
    ck_assert_int_eq(csv_column(csv, "b"), -1);
    ck_assert_str_eq(csv_nearest(csv, "ids"), "id");
    ck_assert_ptr_null(csv_nearest(csv, "sequence"));
    must_be(csv, -1, 0, "id", 1, 1);
    must_be(csv, 0, 1, "x\r\ny", 2, 3);
    must_be(csv, 0, 2, "", 3, 4);
    must_be(csv, 1, 0, "\xC3\xA9", 5, 1);
    must_be(csv, 1, 1, "", 5, 3); /* a character is one column, whatever its bytes */
    must_be(csv, 1, 2, "3", 5, 6);
    struct error err = { 0 };
    ck_assert(!csv_fail(csv, 1, 2, &err, "expected %d, found %s", 4, "3"));
    ck_assert_str_eq(err.message, "t.csv:5:6: c: expected 4, found 3");
    csv_free(csv);
    csv = must_read("a\n\"\"\n");
    ck_assert_int_eq(csv->row_count, 1);
    csv_free(csv);
}
END_TEST

START_TEST(what_is_refused_is_named_with_its_place)
{
    struct csv *none = NULL;
    struct error long_one = { 0 };
    ck_assert(!csv_read(&none, "t.csv", "", INT32_MAX, &long_one));
    ck_assert_str_eq(long_one.message, "t.csv: expected less than 2 GiB, found 2147483647 bytes");
    static const struct {
        const char *text, *message;
    } cases[] = {
        { "", "t.csv:1:1: expected a line with the names of the columns, found the end of the file" },
        { "\r\n\n", "t.csv:3:1: expected a line with the names of the columns, found the end of the file" },
        { "a,b\n1\n", "t.csv:2: expected 2 fields, as many as the first line names, found 1" },
        { "a,b\n1,2\n\n3,4,5\n", "t.csv:4: expected 2 fields, as many as the first line names, found 3" },
        { "a,b\n1,\"2\n3", "t.csv:2:3: expected a quote that closes this one, found the end of the file" },
        { "a,b\n1,2\"3\n", "t.csv:2:4: expected quotes around the whole field or none, found '\"'" },
        { "a,b\n\"\"\"1\" ,2\n", "t.csv:2:6: expected a comma or the end of the line behind a closing quote (quotes "
                                 "inside are doubled), found byte 0x20" },
        { "a,b\n1,2\r3,4\n", "t.csv:2:4: expected a line feed behind the carriage return, found byte 0x0d" },
        { "a,b\n\xC3\xA9\xFF,2\n", "t.csv:2:2: expected text in UTF-8, found byte 0xff" },
        { "a,b,a\n1,2,3\n", "t.csv:1:5: expected names of columns that differ, found 'a' again" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct csv *csv = NULL;
        struct error err = { 0 };
        ck_assert_msg(!csv_read(&csv, "t.csv", cases[i].text, strlen(cases[i].text), &err), "%s", cases[i].text);
        ck_assert_str_eq(err.message, cases[i].message);
        ck_assert_int_eq(err.kind, ERROR_INPUT);
        ck_assert_ptr_null(csv);
    }
    struct csv *csv = NULL;
    struct error err = { 0 };
    ck_assert(!csv_read(&csv, "t.csv", "a\n\0\n", 4, &err));
    ck_assert_str_eq(err.message, "t.csv:2:1: expected text without zero bytes, found byte 0x00");
    struct text many = { 0 };
    for (int i = 0; i <= CSV_MOST_COLUMNS; i++)
        text_printf(&many, "%s%d", i ? "," : "", i);
    ck_assert(!csv_read(&csv, "t.csv", many.data, many.length, &(struct error){ 0 }));
    text_free(&many);
}
END_TEST

START_TEST(what_is_written_reads_back)
{
    static const char *const rows[][3] = { { "a", "b", "c" }, { "", "1,2", "say \"x\"" }, { "two\nlines", "\r", " " } };
    struct text out = { 0 };
    for (int i = 0; i < 3; i++)
        csv_put_row(&out, rows[i], 3);
    csv_put_row(&out, (const char *const[]){ "", "", "" }, 3);
    ck_assert_str_eq(out.data, "a,b,c\n,\"1,2\",\"say \"\"x\"\"\"\n\"two\nlines\",\"\r\", \n,,\n");
    struct csv *csv = must_read(out.data);
    ck_assert_int_eq(csv->row_count, 3);
    for (int i = 0; i < 3; i++)
        for (int j = 0; j < 3; j++)
            ck_assert_str_eq(csv_at(csv, i - 1, j)->text, rows[i][j]);
    csv_free(csv);
    text_free(&out);
    csv_put_row(&out, (const char *const[]){ "" }, 1);
    ck_assert_str_eq(out.data, "\"\"\n");
    text_free(&out);
}
END_TEST

static Suite *csv_suite(void)
{
    Suite *suite = suite_create("csv");
    CHECK_ADD(suite, fields_are_what_the_text_means);
    CHECK_ADD(suite, what_is_refused_is_named_with_its_place);
    CHECK_ADD(suite, what_is_written_reads_back);
    return suite;
}

CHECK_MAIN(csv_suite)
