/* What a search has to say beside its plans: the certificate, and why nothing fits. */
#include "base/num.h"
#include "planner/search/search.h"
#include <stdio.h>

bool search_infeasible(const struct search_result *result, const struct space *space, struct error *err)
{
    const struct plan *plan = result->nearest.plan;
    char needed[TEXT_NUMBER_BYTES], available[TEXT_NUMBER_BYTES], missing[TEXT_NUMBER_BYTES];
    if (!plan)
        return fail_kind(err, ERROR_INFEASIBLE, "nothing fits: no configuration of the space can be lowered");
    const int *atom = plan->stages[0].atom;
    text_bytes(needed, result->nearest.needed_bytes);
    text_bytes(available, result->nearest.available_bytes);
    text_bytes(missing, max_i64(0, result->nearest.needed_bytes - result->nearest.available_bytes));
    return fail_kind(err, ERROR_INFEASIBLE,
                     "nothing fits: the thriftiest plan found (pp %d, tp %d, dp %d, micro-batch %lld, ZeRO %d, "
                     "recompute %s) needs %s on each "
                     "device of stage %d, but %s are usable: %s are missing; it would fit with that much more memory "
                     "per device, with more "
                     "devices, or with a wider space (batch %lld, --fix, --space)",
                     plan->stage_count, atom[1], atom[0], (long long)(plan->batch / plan->micro_batch_count / atom[0]),
                     plan->layers[0].zero, recompute_names[plan->layers[0].recompute], needed, result->nearest.stage,
                     available, missing, (long long)space->batch);
}

static void write_int(struct json_writer *w, const char *key, int64_t value)
{
    json_write_key(w, key);
    json_write_int(w, value);
}

static void write_number(struct json_writer *w, const char *key, double value)
{
    json_write_key(w, key);
    json_write_double(w, value);
}

static void write_allowed(struct json_writer *w, const char *key, const struct allowed *allowed)
{
    json_write_key(w, key);
    json_begin_array(w);
    for (int i = 0; i < allowed->count; i++)
        json_write_int(w, allowed->values[i]);
    json_end_array(w);
}

/* An empty list: everything legal. */
static void write_space(struct json_writer *w, const struct space *space)
{
    json_write_key(w, "space");
    json_begin_object(w);
    write_allowed(w, "pp", &space->pipeline);
    write_allowed(w, "tp", &space->tensor);
    write_allowed(w, "dp", &space->data);
    write_allowed(w, "micro_batch", &space->micro);
    write_allowed(w, "zero", &space->zero);
    write_allowed(w, "recompute", &space->recompute);
    write_allowed(w, "schedule", &space->schedule);
    write_allowed(w, "prefetch", &space->prefetch);
    write_allowed(w, "sp", &space->sequence_parallel);
    json_end_object(w);
}

void certificate_json(struct json_writer *w, const struct search_result *result, const struct space *space)
{
    const struct certificate *c = &result->certificate;
    json_write_key(w, "certificate");
    json_begin_object(w);
    write_number(w, "bound_s", (double)c->bound_ns / 1e9);
    write_number(w, "formula_s", (double)c->formula_ns / 1e9);
    write_number(w, "gap", c->gap);
    write_number(w, "formula_gap", c->formula_gap);
    json_write_key(w, "complete");
    json_write_bool(w, c->complete);
    write_int(w, "configurations", c->configurations);
    write_int(w, "pruned_memory", c->pruned_memory);
    write_int(w, "pruned_bound", c->pruned_bound);
    write_int(w, "solved", c->solved);
    write_int(w, "refused", c->refused);
    write_int(w, "candidates", c->candidates);
    write_int(w, "ranked", c->ranked);
    write_int(w, "judged", c->judged);
    write_int(w, "rejected", c->rejected);
    write_space(w, space);
    json_end_object(w);
}
