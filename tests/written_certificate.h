/* Certificates of random searches, written, read and checked. */
#ifndef CLEAVE_TESTS_WRITTEN_CERTIFICATE_H
#define CLEAVE_TESTS_WRITTEN_CERTIFICATE_H
#include "formats/claim_read.h"
#include "planner/check/check.h"
#include "planner/tables/certificate_hash.h"
#include "planner/tables/workbench.h"
#include "tests/fact_files.h"
#include "tests/random_worlds.h"
#include "tests/written_claim.h"

struct written {
    struct random_world w;
    struct search_result *result;
    char *text; /* the certificate, an object */
};

/* False: nothing fits. */
static inline bool written_open(struct written *out, uint64_t seed)
{
    struct search_options options = { .top = 1, .rank_count = 1, .no_advice = true };
    struct error err = { 0 };
    size_t length = 0;
    *out = (struct written){ .w = random_world(seed, false) };
    options.space = out->w.space;
    if (!search_run(&out->result, out->w.world.model, &out->w.world.facts, &options, &err) || !out->result->feasible)
        return false;
    out->text = certificate_text(out->result, &out->w.space, &length);
    return true;
}

/* Of a search in the world that is cut short by a clock that ticks when it is asked. */
static inline struct written written_cut_short(struct world world, const struct search_options *options, int64_t limit)
{
    struct written out = { .w.world = world, .w.space = options->space };
    struct search_options own = *options;
    struct error err = { 0 };
    struct toy_asked asked = { 0, limit };
    size_t length = 0;
    own.calls = (struct search_calls){ .self = &asked, .cancelled = toy_cancelled };
    ck_assert_msg(search_run(&out.result, world.model, &world.facts, &own, &err), "limit %lld: %s", (long long)limit,
                  err.message);
    out.text = certificate_text(out.result, &out.w.space, &length);
    return out;
}

static inline void written_close(struct written *written)
{
    search_result_free(written->result);
    random_world_close(&written->w);
    free(written->text);
}

/* Reads and checks; *undecided: configurations of which nothing was found out. */
static inline bool holds_as(const struct written *written, const struct json *certificate, struct check_report *report,
                            struct error *err)
{
    struct claim claim;
    const struct plan *plan = written->result->plans[0].plan;
    bool good =
        claim_read(&claim, certificate, &written->w.space, err) &&
        check_certificate(report, &claim, written->w.world.model, &written->w.world.facts, plan, NULL, NULL, err);
    claim_free(&claim);
    return good;
}

static inline bool holds(const struct written *written, const struct json *certificate, int64_t *undecided,
                         struct error *err)
{
    struct check_report report = { 0 };
    bool good = holds_as(written, certificate, &report, err);
    *undecided = report.undecided;
    return good;
}

/* The same with the digest that it then has. */
static inline struct json_doc *signed_again(const struct json *certificate)
{
    struct json_writer w = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    char digest[CERTIFICATE_DIGEST_BYTES];
    size_t length = 0;
    ck_assert(certificate_digest(digest, certificate));
    json_begin_object(&w);
    for (int i = 0; i < json_count(certificate); i++) {
        json_write_key(&w, json_key(certificate, i));
        if (strcmp(json_key(certificate, i), "digest") == 0)
            json_write_string(&w, digest);
        else
            json_write_value(&w, json_member_at(certificate, i));
    }
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    ck_assert(json_parse(&doc, "signed", text, length, &err));
    free(text);
    return doc;
}

/* The configurations of the space that the certificate is of, in their order. */
static inline struct config *configs_of(const struct written *written, struct arena *arena, int *count)
{
    struct workbench bench;
    struct config *configs = NULL;
    struct error err = { 0 };
    ck_assert(workbench_open(&bench, written->w.world.model, &written->w.world.facts, &written->w.space, &err));
    ck_assert(space_configs(&configs, count, arena, &written->w.space, bench.graph, written->w.world.cluster, &err));
    workbench_close(&bench);
    return configs;
}
#endif
