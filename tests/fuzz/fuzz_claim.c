/* Any bytes as a plan's certificate: never crashes; one that is read is held against the plan of a small search, and
 * holds only when it says what that search's own certificate says. */
#include "models/model.h"
#include "planner/check/check.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The model, device and space of corpus/certificate.json. */
static const char model_text[] =
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"tiny\", \"sequence\": 16, \"layers\": [{\"kind\": "
    "\"opaque\", \"forward_us\": 100, \"backward_us\": 200, \"parameters\": 1000, \"activation_elements\": 64}, "
    "{\"kind\": \"opaque\", \"forward_us\": 300, \"backward_us\": 500, \"parameters\": 2000, \"activation_elements\": "
    "64}, {\"kind\": \"opaque\", \"forward_us\": 100, \"backward_us\": 200, \"activation_elements\": 64}]}";
static const char device_text[] =
    "{\"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": 1e14, \"fp32\": 1e13}, "
    "\"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, "
    "\"vector_flops_per_s\": 1e13, \"memory_bytes_per_s\": 1e12, \"memory_bytes\": 1000000000, \"launch_ns\": 1000, "
    "\"link_bytes_per_s\": 1e11, \"link_latency_ns\": 2000, \"nic_bytes_per_s\": 1e10, \"nic_latency_ns\": 5000}";
static const char cluster_text[] = "1x2:toy";

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
    if (!certificate_check(&report, claim, model, facts, result->plans[0].plan, NULL, NULL, &err))
        must(err.kind == ERROR_GATE || err.kind == ERROR_INPUT);
    else if (report.undecided == 0)
        must(claim->bound_ns <= result->certificate.best_ns &&
             claim->simulated_bound_ns <= result->plans[0].estimate->prediction.step_ns);
}

static void read_and_hold(const struct json *certificate, const struct model *model, const struct facts *facts)
{
    struct search_options options = { .space = space_default(4, 0, DTYPE_BF16), .top = 1, .no_advice = true };
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
    struct catalogue_entry device = { "toy", device_text, sizeof device_text - 1 };
    struct cluster *cluster = NULL;
    struct model *model = NULL;
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    if (!json_parse(&doc, "fuzz", (const char *)data, size, &err))
        return 0;
    must(model_read(&model, "tiny", model_text, sizeof model_text - 1, NULL, &err) &&
         cluster_read(&cluster, cluster_text, cluster_text, sizeof cluster_text - 1, &device, 1, &err));
    struct facts facts = { cluster, NULL };
    read_and_hold(json_root(doc), model, &facts);
    cluster_free(cluster);
    model_free(model);
    json_free(doc);
    return 0;
}
