#include "cli/widening.h"
#include "cli/aim.h"
#include "models/model.h"
#include "planner/space/wider.h"
#include <string.h>

/* All values that are tried in turn: those of the space first, in its order. */
static void add_values(struct allowed *into, const struct allowed *wide)
{
    if (into->count == 0) {
        *into = *wide;
        return;
    }
    for (int i = 0; i < wide->count && into->count < SPACE_VALUES; i++)
        if (!allowed_has(into, wide->values[i]))
            into->values[into->count++] = wide->values[i];
}

bool widening_widest(struct space *widest, struct inputs *in, const struct space *space,
                     const struct space_options *options, struct error *err)
{
    struct space named = { 0 }, wide = space_default(space->batch, space->sequence, space->dtype);
    const struct target *target = NULL;
    struct graph *graph = NULL;
    if (!space_restrict_all(&named, "--space", &options->space, err) ||
        !space_restrict_all(&named, "--fix", &options->fix, err) ||
        (options->target && !aim_target(&target, "--target", options->target, err)) ||
        !graph_take(&graph, in->model, space->batch, space->sequence, 1, err))
        return false;
    space_widen(&wide, in->cluster, graph->sequence);
    if (target)
        target->allow(&wide, graph);
    if (space_asynchronous(space, false))
        space_keep_weights(&wide);
    space_as_run(&wide, in);
    graph_free(graph);
    *widest = *space;
    for (int i = 0; i < WIDER_CHOICES; i++)
        if (named.range[wider_choices[i]].count == 0 && !in->withholds) /* which asks for plans with little of it */
            add_values(&widest->range[wider_choices[i]], &wide.range[wider_choices[i]]);
    return true;
}

void widening_list(struct text *out, uint64_t choices)
{
    for (int i = 0; i < WIDER_CHOICES; i++)
        if (choices >> wider_choices[i] & 1)
            text_printf(out, "%s%s", out->length > 0 ? ", " : "", choice_facts[wider_choices[i]].name);
}

void widening_print(FILE *out, const struct widening *widening, bool fits)
{
    struct text names = { 0 }, values = { 0 };
    char without[TEXT_NUMBER_BYTES];
    widening_list(&names, widening->taken);
    for (int i = 0; i < WIDER_CHOICES; i++)
        if (widening->taken >> wider_choices[i] & 1)
            space_write_values(&values, wider_choices[i], &widening->space.range[wider_choices[i]]);
    if (names.data && values.data && widening->without_ns > 0)
        fprintf(out, "widened by %s: the shortest plan without takes %s; the same search: --space %s\n", names.data,
                text_duration_ns(without, widening->without_ns), values.data);
    else if (names.data && values.data && fits)
        fprintf(out, "widened: nothing fits without %s; the same search: --space %s\n", names.data, values.data);
    else if (names.data)
        fprintf(out, "widened by %s: nothing fits with all of these\n", names.data);
    text_free(&names);
    text_free(&values);
}

uint64_t widening_read(const struct json *search)
{
    const struct json *list = search ? json_member(search, "widened") : NULL;
    uint64_t choices = 0;
    for (int i = 0; list && i < json_count(list); i++) {
        const struct json *at = json_at(list, i);
        const char *name = NULL;
        enum space_choice choice = at && json_string(at, &name, NULL) ? choice_named(name) : CHOICE_COUNT;
        choices |= choice < CHOICE_COUNT ? UINT64_C(1) << choice : 0;
    }
    return choices;
}
