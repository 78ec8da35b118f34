/* Searches of the zoo's models on clusters of the catalogue's devices. */
#ifndef CLEAVE_TESTS_ZOO_SEARCH_H
#define CLEAVE_TESTS_ZOO_SEARCH_H
#include "models/model.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"

/* framework: what runs it; NULL: cleave. Returns NULL: no configuration has the restricted degrees. */
static inline struct search_result *search_zoo_by(const struct framework *framework, const char *model_name,
                                                  const char *cluster_text, const struct space *space, int64_t gap_ppm)
{
    struct error err = { 0 };
    struct model *model = model_of_zoo(model_name);
    struct cluster *cluster = cluster_open(cluster_text);
    struct facts facts = { .cluster = cluster, .framework = framework };
    struct search_options options = { .space = *space, .top = 1, .gap_ppm = gap_ppm, .no_advice = true };
    struct search_result *result = NULL;
    bool found = search_run(&result, model, &facts, &options, &err);
    ck_assert_msg(found, "%s on %s: %s", model_name, cluster_text, err.message);
    cluster_free(cluster);
    model_free(model);
    if (!result->why)
        return result;
    search_result_free(result);
    return NULL;
}
static inline struct search_result *search_zoo_to(const char *model_name, const char *cluster_text,
                                                  const struct space *space, int64_t gap_ppm)
{
    return search_zoo_by(NULL, model_name, cluster_text, space, gap_ppm);
}
/* To 0.1 %. */
static inline struct search_result *search_zoo(const char *model_name, const char *cluster_text,
                                               const struct space *space)
{
    return search_zoo_to(model_name, cluster_text, space, 1000);
}
#endif
