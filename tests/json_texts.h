/* Texts of JSON that must be accepted. */
#ifndef CLEAVE_TESTS_JSON_TEXTS_H
#define CLEAVE_TESTS_JSON_TEXTS_H
#include "base/json.h"
#include "tests/check.h"
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof *(array))

static inline struct json_doc *parse(const char *text)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    bool accepted = json_parse(&doc, "FILE", text, strlen(text), &err);
    ck_assert_msg(accepted, "%s: %s", text, err.message);
    ck_assert_int_eq(err.kind, ERROR_NONE);
    return doc;
}

static const char model_text[] = "{\n"                             /* 1 */
                                 "  \"name\": \"gpt\",\n"          /* 2 */
                                 "  \"layers\": [\n"               /* 3 */
                                 "    {\"kind\": \"embed\"},\n"    /* 4 */
                                 "    {\"kind\": \"attention\",\n" /* 5 */
                                 "     \"gr\xC3\xB6\xC3\x9F"
                                 "e\": 3, \"heads\": 33}\n"      /* 6 */
                                 "  ],\r\n"                      /* 7 */
                                 "\t\"a.b\": [[1, -2.50e1]],\n"  /* 8 */
                                 "  \"\": {\"line\\n\": null}\n" /* 9 */
                                 "}\n";
#endif
