/* Any bytes as all of Galvatron's files at once, for each ignores what it does not know. What is accepted is solved for
 * few layers, and the plan priced anew must be what the search says and fit. */
#include "peers/galvatron.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void try_profile(const uint8_t *data, size_t size)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_text texts[GALVATRON_FILES];
    struct galvatron_profile profile;
    struct galvatron_answer answer;
    struct galvatron_price price;
    for (int f = 0; f < GALVATRON_FILES; f++)
        texts[f] = (struct galvatron_text){ "fuzz", (const char *)data, size };
    if (!galvatron_read_profile(&profile, texts, 0, &err)) {
        must(err.kind != ERROR_NONE);
        return;
    }
    struct galvatron_problem problem = {
        &profile,           1 << size % 4, 1 + (int)(size % 5000), 1 + (double)(size % 60), 1 + (int)(size % 5),
        1 + (int)(size % 9)
    };
    if (!galvatron_solve(&problem, &arena, &answer, &err)) {
        must(err.kind == ERROR_INPUT);
    } else if (answer.feasible) {
        must(galvatron_evaluate(&problem, &answer.plan, &price, &err));
        must(answer.bound_s <= price.step_s && price.memory_mb <= price.limit_mb * (1 + 1e-6) + 1);
    }
    arena_free(&arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    try_profile(data, size);
    return 0;
}
