#include "planner/search/narrower.h"
#include "planner/search/search_parts.h"
#include "planner/space/choice.h"

/* Takes back to its default what the space allows beyond it; false where there is nothing to take back. */
static bool narrow_to_default(struct space *space)
{
    bool more = false;
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        const struct allowed *own = &space->range[choice], *by_default = &choice_facts[choice].by_default;
        bool widened = by_default->count > 0 && own->count > by_default->count;
        for (int i = 0; i < by_default->count; i++)
            widened = widened && allowed_has(own, by_default->values[i]);
        if (widened)
            space_lift(space, choice);
        more = more || widened;
    }
    return more;
}

bool narrower_space(struct space *space)
{
    bool narrower = allowed_has(&space->turns, 1) && allowed_several(&space->turns);
    if (narrower)
        space->turns = (struct allowed){ 1, { 1 } };
    return narrower;
}

static void add_up(struct search_result *result, const struct search_result *narrower)
{
    struct certificate *all = &result->certificate;
    all->candidates += narrower->certificate.candidates;
    all->ranked += narrower->certificate.ranked;
    all->judged += narrower->certificate.judged;
    all->rejected += narrower->certificate.rejected;
    for (int part = 0; part < SEARCH_PARTS; part++) {
        struct part_statistics *into = &result->parts[part];
        const struct part_statistics *from = &narrower->parts[part];
        *into = (struct part_statistics){ into->spent_ns + from->spent_ns, into->candidates + from->candidates,
                                          into->simulated + from->simulated, into->led + from->led };
    }
}

bool narrower_find(struct search_result *result, const struct model *model, const struct facts *facts,
                   const struct search_options *options, int64_t start_ns, struct error *err)
{
    struct search_options narrower = *options;
    struct search_result *found = NULL;
    struct error why = { 0 };
    int64_t left_ns = search_time_left(options, start_ns);
    if (options->keep_all || left_ns == 0 || !(narrower_space(&narrower.space) || narrow_to_default(&narrower.space)))
        return true;
    narrower.time_limit_ns = options->time_limit_ns > 0 ? left_ns : 0;
    narrower.no_advice = narrower.thrifty = true;
    narrower.calls.progress = NULL;
    if (!search_run(&found, model, facts, &narrower,
                    &why)) /* no narrower configuration has such degrees, or time is over */
        return why.kind == ERROR_INPUT || search_time_left(options, start_ns) == 0 || fail_with(err, &why);
    for (int i = 0; i < found->plan_count; i++)
        if (judge_list_plan(result, &found->plans[i], options->top))
            found->plans[i] = (struct search_plan){ 0 }; /* handed over */
    add_up(result, found);
    search_result_free(found);
    return true;
}
