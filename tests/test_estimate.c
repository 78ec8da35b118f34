/* What a plan costs, held against closed forms. */
#include "planner/search/estimate.h"
#include "tests/model_files.h"

/* Narayanan et al. 2021, section 5.1, without recomputation: F = 72 B s l h^2 (1 + s / (6 h) + V / (12 l h)); of the
 * scores, the term in s / (6 h), a causal model needs (s + 1) / (2 s). */
static double published_flops(double batch, double s, double l, double h, double vocabulary)
{
    return 72 * batch * s * l * h * h * (1 + (s + 1) / (12 * h) + vocabulary / (12 * l * h));
}

START_TEST(model_flops_are_the_published_ones)
{
    static const struct {
        const char *name;
        double layers, hidden, vocabulary;
    } models[] = { { "gpt3-175b", 96, 12288, 50257 },
                   { "gpt-530b", 105, 20480, 51200 },
                   { "gpt-1t", 128, 25600, 51200 } };
    for (int i = 0; i < 3; i++)
        for (int64_t batch = 1; batch <= 16384; batch *= 128) {
            struct model *model = model_of_zoo(models[i].name);
            struct graph *graph = graph_of(model, batch, 0, 1024);
            double expected =
                published_flops((double)batch, 2048, models[i].layers, models[i].hidden, models[i].vocabulary);
            double found = graph_model_flops(graph);
            ck_assert_msg(found > 0.9999 * expected && found < 1.0001 * expected, "%s, batch %lld: %g, published %g",
                          models[i].name, (long long)batch, found, expected);
            graph_free(graph);
            model_free(model);
        }
}
END_TEST

static Suite *estimate_suite(void)
{
    Suite *suite = suite_create("estimate");
    CHECK_ADD(suite, model_flops_are_the_published_ones);
    return suite;
}

CHECK_MAIN(estimate_suite)
