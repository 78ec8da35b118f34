/* A search's certificate, written and read again, as who checks a plan meets it. */
#ifndef CLEAVE_TESTS_WRITTEN_CLAIM_H
#define CLEAVE_TESTS_WRITTEN_CLAIM_H
#include "formats/certificate_write.h"
#include "formats/claim_read.h"
#include "planner/check/check.h"
#include "tests/check.h"

/* An object with the certificate as its member; the caller's, with its length. */
static inline char *certificate_text(const struct search_result *result, const struct space *space, size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_object(&w);
    certificate_write(&w, result, space);
    json_end_object(&w);
    char *text = json_finish(&w, length);
    ck_assert_ptr_nonnull(text);
    return text;
}

struct written_claim {
    char *text;
    struct json_doc *doc;
    struct claim claim;
};

static inline struct written_claim written_claim_open(const struct search_result *result, const struct space *space)
{
    struct written_claim out = { 0 };
    struct error err = { 0 };
    size_t length = 0;
    out.text = certificate_text(result, space, &length);
    ck_assert_msg(json_parse(&out.doc, "certificate", out.text, length, &err), "%s", err.message);
    ck_assert_msg(claim_read(&out.claim, json_member(json_root(out.doc), "certificate"), space, &err), "%s",
                  err.message);
    return out;
}

static inline void written_claim_close(struct written_claim *written)
{
    claim_free(&written->claim);
    json_free(written->doc);
    free(written->text);
}
#endif
