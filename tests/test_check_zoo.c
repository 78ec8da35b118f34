/* Who checks a plan of a real model proves what its search claims: the bound of simulated steps comes from inequalities
 * that both look for, each in its own order. */
#include "tests/random_numbers.h"
#include "tests/written_claim.h"
#include "tests/zoo_search.h"

enum { DRAWS = 60 };

struct job {
    const char *model, *cluster;
    int64_t batch;
    int stages, tensor, zero; /* 0, 0, -1: any */
    int turns;                /* above 1: 1 and so many are allowed */
};
/* Of the first six the inequalities of one configuration come from another, or nothing fits into memory. */
static const struct job known_jobs[] = {
    { "gpt2", "2x4:rtx4090", 16, .zero = -1 },
    { "llama-2-70b", "16x8:h100-sxm", 24, .zero = 0 },
    { "mixtral-8x7b", "8x8:a100-sxm-80", 24, .tensor = 2, .zero = -1 },
    { "vgg-16", "4x8:h100-sxm", 16, .stages = 8, .zero = -1 },
    { "vit-base-16", "2x4:rtx4090", 256, .zero = -1 },
    { "gpt2-large", "7x1:l40s", 256, .zero = -1 },
    { "gpt2-large", "8x8:a100-sxm-80", 8, .zero = -1 }, /* many caps */
    { "bert-large", "6x1:a10g", 24, .zero = -1, .turns = 2 },
};
enum { KNOWN_JOBS = sizeof known_jobs / sizeof *known_jobs };

static struct job draw_job(uint64_t seed)
{
    static const char *const models[] = { "gpt2",        "gpt2-large",   "bert-large",  "pythia-410m",
                                          "vit-base-16", "vit-large-16", "vgg-16",      "llama-2-7b",
                                          "llama-2-13b", "llama-2-70b",  "mixtral-8x7b" };
    static const char *const clusters[] = { "2x4:rtx4090",     "4x4:rtx4090",     "8x1:rtx4090",
                                            "6x1:a10g",        "2x8:l40s",        "7x1:l40s",
                                            "1x5:a100-sxm-80", "8x8:a100-sxm-80", "4x8:h100-sxm" };
    static const int64_t batches[] = { 8, 16, 24, 32, 64, 128, 256 };
    struct job job = { .model = models[random_below(&seed, sizeof models / sizeof *models)],
                       .cluster = clusters[random_below(&seed, sizeof clusters / sizeof *clusters)],
                       .batch = batches[random_below(&seed, sizeof batches / sizeof *batches)],
                       .zero = -1 };
    switch (random_below(&seed, 6)) {
    case 0:
        job.stages = 2 << random_below(&seed, 3);
        break;
    case 1:
        job.tensor = 1 << random_below(&seed, 2);
        break;
    case 2:
        job.zero = (int)random_below(&seed, 4);
        break;
    case 3:
        job.turns = 2;
        break;
    }
    return job;
}

static void allow_more(struct allowed *out, int most)
{
    if (most > 1)
        *out = (struct allowed){ 2, { 1, most } };
}

/* False: it has no plan. */
static bool check_job(const struct job *job)
{
    struct space space = space_default(job->batch, 0, DTYPE_BF16);
    struct error err = { 0 };
    struct check_report report;
    if (job->stages)
        space.stages = (struct allowed){ 1, { job->stages } };
    if (job->tensor)
        space.tensor = (struct allowed){ 1, { job->tensor } };
    if (job->zero >= 0)
        space.zero = (struct allowed){ 1, { job->zero } };
    allow_more(&space.turns, job->turns);
    struct search_result *result = search_zoo(job->model, job->cluster, &space);
    bool found = result && result->feasible;
    if (found) {
        struct model *model = model_of_zoo(job->model);
        struct cluster *cluster = cluster_open(job->cluster);
        struct facts facts = { .cluster = cluster };
        struct written_claim written = written_claim_open(result, &space);
        ck_assert_msg(
            check_certificate(&report, &written.claim, model, &facts, result->plans[0].plan, NULL, NULL, &err),
            "%s on %s, %lld sequences, pp %d tp %d zero %d, turns %d: %s", job->model, job->cluster,
            (long long)job->batch, job->stages, job->tensor, job->zero, job->turns, err.message);
        ck_assert_int_le(result->certificate.simulated_bound_ns, result->plans[0].estimate->prediction.step_ns);
        written_claim_close(&written);
        cluster_free(cluster);
        model_free(model);
    }
    if (result)
        search_result_free(result);
    return found;
}

/* A share begins with the third, the one with many caps is for whole runs: that search takes longest. */
START_TEST(known_certificates_hold)
{
    if (in_share((uint64_t)_i + (small_share() ? 0 : 1)))
        ck_assert(check_job(&known_jobs[_i]));
}
END_TEST

/* A small share has the first of those that are known, and the random worlds of tests/test_certificate.c. */
START_TEST(certificates_hold)
{
    int found = 0;
    if (small_share())
        return;
    for (uint64_t n = 0; n < DRAWS; n += (uint64_t)share_stride() * (share_stride() > 1 ? 5 : 1)) {
        struct job job = draw_job(mix64(n));
        found += check_job(&job);
    }
    ck_assert_int_gt(found, 0);
}
END_TEST

static Suite *check_zoo_suite(void)
{
    Suite *suite = suite_create("check_zoo");
    CHECK_ADD_LOOP(suite, known_certificates_hold, KNOWN_JOBS);
    CHECK_ADD(suite, certificates_hold);
    return suite;
}

CHECK_MAIN(check_zoo_suite)
