/* Any bytes as a plan's certificate: never crashes; one that is read is held against the plan of a small search, and
 * holds only when it says what that search's own certificate says. */
#include "formats/claim_read.h"
#include "planner/check/check.h"
#include "tests/fuzz/claim_world.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void hold_against(const struct claim *claim, const struct model *model, const struct facts *facts,
                         const struct search_result *result)
{
    struct check_report report;
    struct error err = { 0 };
    if (!check_certificate(&report, claim, model, facts, result->plans[0].plan, NULL, NULL, &err))
        must(err.kind == ERROR_GATE || err.kind == ERROR_INPUT);
    else if (report.undecided == 0)
        must(claim->bound_ns <= result->certificate.best_ns &&
             claim->simulated_bound_ns <= result->plans[0].estimate->prediction.step_ns);
}

static void read_and_hold(const struct json *certificate, const struct model *model, const struct facts *facts)
{
    struct search_options options = claim_options();
    struct search_result *result = NULL;
    struct error err = { 0 };
    struct claim claim;
    if (!claim_read(&claim, certificate, &options.space, &err)) {
        must(err.kind == ERROR_INPUT);
    } else {
        must(search_run(&result, model, facts, &options, &err) && result->feasible);
        hold_against(&claim, model, facts, result);
    }
    search_result_free(result);
    claim_free(&claim);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cluster *cluster = NULL;
    struct model *model = NULL;
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    if (!json_parse(&doc, "fuzz", (const char *)data, size, &err))
        return 0;
    must(claim_world(&model, &cluster, &err));
    struct facts facts = { .cluster = cluster };
    read_and_hold(json_root(doc), model, &facts);
    cluster_free(cluster);
    model_free(model);
    json_free(doc);
    return 0;
}
