/* The closed form beside the simulator, for every schedule of the list. */
#include "tests/random_pipelines.h"
#include <stdio.h>

enum { DRAWS = 400, MOST_SEND_PERMILLE = 100 };

/* With at least as many micro-batches as stages and sends of at most a tenth of a stage's time, the closed form is
 * never more than 8 % below the simulator. Prints the least and the largest ratio, which docs/cost-model.md repeats. */
START_TEST(formula_is_hardly_below_the_simulator)
{
    const char *name = schedules[_i]->name;
    for (int uneven = 0; uneven < 2; uneven++) {
        double least = INFINITY, most = 0;
        for (uint64_t n = 0; n < DRAWS; n++) {
            uint64_t state = n * 4096;
            struct pipeline_draw draw = pipeline_draw(&state, _i, uneven ? 0.3 : 0, MOST_SEND_PERMILLE);
            struct pipeline_case *c = pipeline_open(&draw, &state);
            double ratio = (double)pipeline_formula_ns(c) / (double)pipeline_simulated_ns(c);
            ck_assert_msg(ratio >= 0.92, "%s, %d stages, %d chunks, %d layers, %d micro-batches, sends of %g: %.4f",
                          name, draw.stages, draw.chunks, draw.layers, draw.micros, draw.send_share, ratio);
            least = fmin(least, ratio);
            most = fmax(most, ratio);
            pipeline_close(c);
        }
        printf("%s, %s layers: closed form over simulation %.3f to %.3f\n", name, uneven ? "uneven" : "equal", least,
               most);
    }
}
END_TEST

static Suite *formula_suite(void)
{
    Suite *suite = suite_create("formula");
    int count = 0;
    while (schedules[count])
        count++;
    CHECK_ADD_LOOP(suite, formula_is_hardly_below_the_simulator, count);
    return suite;
}

CHECK_MAIN(formula_suite)
