/* The certificates from which the fuzzer begins are of these prices, so that it gets beyond the first hash.
 *
 *   test_corpus FOLDER
 *
 * writes them anew into the folder. */
#include "formats/certificate_write.h"
#include "formats/claim_read.h"
#include "host/file.h"
#include "planner/check/check.h"
#include "formats/plan_json.h"
#include "planner/tables/certificate_hash.h"
#include "tests/check.h"
#include "tests/fuzz/claim_world.h"
#include <stdio.h>
#include <stdlib.h>

#define CORPUS SOURCE_ROOT "/tests/fuzz/corpus/"
/* The second shows the formula's best plan, as one does whose plan is another. */
static const char *const names[] = { "certificate.json", "certificate_best.json" };
enum { NAMES = sizeof names / sizeof *names };

struct corpus {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct search_options options;
    struct search_result *result;
};

static bool corpus_open(struct corpus *c, struct error *err)
{
    *c = (struct corpus){ .options = claim_options() };
    if (!claim_world(&c->model, &c->cluster, err))
        return false;
    c->facts = (struct facts){ .cluster = c->cluster };
    return search_run(&c->result, c->model, &c->facts, &c->options, err);
}

static void corpus_close(struct corpus *c)
{
    search_result_free(c->result);
    cluster_free(c->cluster);
    model_free(c->model);
}

START_TEST(certificates_are_of_these_prices)
{
    struct corpus c;
    struct json_doc *doc = NULL;
    struct claim claim;
    struct check_report report;
    struct error err = { 0 };
    char *data = NULL, path[512];
    size_t length = 0;
    snprintf(path, sizeof path, CORPUS "%s", names[_i]);
    ck_assert_msg(corpus_open(&c, &err) && file_read(&data, &length, path, &err) &&
                      json_parse(&doc, path, data, length, &err),
                  "%s", err.message);
    bool holds = claim_read(&claim, json_root(doc), &c.options.space, &err) &&
                 check_certificate(&report, &claim, c.model, &c.facts, c.result->plans[0].plan, NULL, NULL, &err);
    ck_assert_msg(holds, "%s: %s; renew it with `build/tests/test_corpus tests/fuzz/corpus`", path, err.message);
    ck_assert_int_eq(claim.best_plan != NULL, _i == 1);
    claim_free(&claim);
    json_free(doc);
    free(data);
    corpus_close(&c);
}
END_TEST

static Suite *corpus_suite(void)
{
    Suite *suite = suite_create("corpus");
    CHECK_ADD_LOOP(suite, certificates_are_of_these_prices, NAMES);
    return suite;
}

/* ---- by hand ---- */

/* The certificate as the file has it: an object by itself. */
static char *write_certificate(const struct corpus *c, bool best, size_t *length)
{
    struct json_writer w = { 0 }, own = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    size_t whole_length = 0;
    c->result->certificate.best_plan = best ? plan_copy(c->result->plans[0].plan) : NULL;
    json_begin_object(&w);
    certificate_write(&w, c->result, &c->options.space);
    json_end_object(&w);
    char *whole = json_finish(&w, &whole_length), *text = NULL;
    if (whole && json_parse(&doc, "certificate", whole, whole_length, &err)) {
        json_write_value(&own, json_member(json_root(doc), "certificate"));
        text = json_finish(&own, length);
    }
    json_free(doc);
    free(whole);
    return text;
}

static bool renew(const char *folder, int which, struct error *err)
{
    struct corpus c;
    char path[512], *text = NULL;
    size_t length = 0;
    snprintf(path, sizeof path, "%s/%s", folder, names[which]);
    bool good = corpus_open(&c, err) && (text = write_certificate(&c, which == 1, &length)) &&
                file_write(path, text, length, err);
    free(text);
    corpus_close(&c);
    return good;
}

int main(int argc, char **argv)
{
    struct error err = { 0 };
    for (int i = 0; argc > 1 && i < NAMES; i++)
        if (!renew(argv[1], i, &err)) {
            fprintf(stderr, "%s\n", err.message);
            return EXIT_FAILURE;
        }
    if (argc > 1)
        return EXIT_SUCCESS;
    SRunner *runner = srunner_create(corpus_suite());
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
