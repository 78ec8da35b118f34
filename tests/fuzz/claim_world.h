/* The model, device, cluster and space of the certificates in corpus/. */
#ifndef CLEAVE_TESTS_CLAIM_WORLD_H
#define CLEAVE_TESTS_CLAIM_WORLD_H
#include "models/model.h"
#include "planner/search/search.h"

static const char claim_model[] =
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"tiny\", \"sequence\": 16, \"layers\": [{\"kind\": "
    "\"opaque\", \"forward_us\": 100, \"backward_us\": 200, \"parameters\": 1000, \"activation_elements\": 64}, "
    "{\"kind\": \"opaque\", \"forward_us\": 300, \"backward_us\": 500, \"parameters\": 2000, \"activation_elements\": "
    "64}, {\"kind\": \"opaque\", \"forward_us\": 100, \"backward_us\": 200, \"activation_elements\": 64}]}";
static const char claim_device[] =
    "{\"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": 1e14, \"fp32\": 1e13}, "
    "\"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, "
    "\"vector_flops_per_s\": 1e13, \"memory_bytes_per_s\": 1e12, \"memory_bytes\": 1000000000, \"launch_ns\": 1000, "
    "\"link_bytes_per_s\": 1e11, \"link_latency_ns\": 2000, \"nic_bytes_per_s\": 1e10, \"nic_latency_ns\": 5000}";
static const char claim_cluster[] = "1x2:toy";

static inline struct search_options claim_options(void)
{
    return (struct search_options){ .space = space_default(4, 0, DTYPE_BF16), .top = 1, .no_advice = true };
}

/* The caller frees both. */
static inline bool claim_world(struct model **model, struct cluster **cluster, struct error *err)
{
    struct catalogue_entry device = { "toy", claim_device, sizeof claim_device - 1 };
    return model_read(model, "tiny", claim_model, sizeof claim_model - 1, NULL, err) &&
           cluster_read(cluster, claim_cluster, claim_cluster, sizeof claim_cluster - 1, &device, 1, err);
}
#endif
