/* What a search has to say beside its plans: how far they are from what is proven, and why nothing fits. */
#include "base/num.h"
#include "planner/search/narrower.h"

/* Writes the cluster's short form with `times` as many nodes, or in words where it came from a file. */
static void write_cluster(struct text *out, const char *cluster, int times)
{
    struct text name = { 0 };
    if (cluster_scaled_name(&name, cluster, times) && !name.failed)
        text_printf(out, "--cluster %s", name.data);
    else
        text_printf(out, "%d times the nodes of %s", times, cluster);
    text_free(&name);
}

static void write_degrees(struct text *out, const struct plan *plan)
{
    int middle = plan->layer_count / 2; /* the ends differ from the rest */
    const struct plan_layer *layer = &plan->layers[middle];
    const struct plan_stage *stage = &plan->stages[plan_stage_of_layer(plan, middle)];
    int tensor = 1, context = 1, data = 1;
    const char *by = "";
    for (int a = 0; a < plan->atom_count; a++) {
        const struct dimension *dimension = dimensions[layer->dim[a]];
        bool is_context = dimension->lane == LANE_CP, is_none = layer->dim[a] == DIM_none;
        *(dimension->splits_batch ? &data : is_context ? &context : &tensor) *= is_none ? 1 : stage->atom[a];
        by = is_context ? dimension->name : by;
    }
    text_printf(out, "pp %d, tp %d, ", plan->stage_count, tensor);
    if (context > 1)
        text_printf(out, "%s %d, ", by, context);
    text_printf(out, "dp %d, micro-batch %lld, ZeRO %d, recompute %s", data,
                (long long)(plan->batch / plan->micro_batch_count / data), plan_zero_on(plan, stage, middle),
                recompute_names[layer->recompute]);
    if (layer->offload != OFFLOAD_NONE)
        text_printf(out, ", offload %s", offload_names[layer->offload]);
}

/* Writes what to type, or what hardware to have, for a change of this kind. */
static void write_change(struct text *out, const struct search_result *result, enum advice_kind kind)
{
    const struct advice *advice = &result->nearest.advice[kind];
    char memory[TEXT_NUMBER_BYTES];
    switch (kind) {
    case ADVICE_BATCH:
        text_printf(out, "--batch %lld", (long long)advice->value);
        return;
    case ADVICE_MICRO:
        text_printf(out, "--fix micro-batch=%lld", (long long)advice->value);
        return;
    case ADVICE_SEQUENCE:
        text_printf(out, "--seq %lld", (long long)advice->value);
        return;
    case ADVICE_DEVICES:
        write_cluster(out, result->nearest.cluster, (int)(advice->value / advice->now));
        return;
    case ADVICE_BITS:
        text_printf(out, "frozen matrices in %lld bits (cleave import --quantized %s)", (long long)advice->value,
                    quantized_names[QUANTIZED_NF4_DOUBLE]);
        return;
    case ADVICE_MEMORY:
    case ADVICE_COUNT:
        text_bytes_enough(memory, advice->value);
        if (result->nearest.host_needed_bytes > 0)
            text_printf(out, "hosts of %s for each device (host-memory=%lld behind the device in --cluster)", memory,
                        (long long)advice->value);
        else
            text_printf(out, "devices of %s (cleave devices lists what there is)", memory);
    }
}

/* Writes a line for each change that makes a plan fit, and one that names those that do not. */
static void write_advice(struct text *out, const struct search_result *result)
{
    static const char *const words[ADVICE_MEMORY] = { [ADVICE_BATCH] = "a smaller batch",
                                                      [ADVICE_MICRO] = "a smaller micro-batch",
                                                      [ADVICE_SEQUENCE] = "a shorter sequence",
                                                      [ADVICE_DEVICES] = "up to 64 times the nodes",
                                                      [ADVICE_BITS] = "frozen matrices in few bits" };
    bool ended = false, none = false;
    for (int kind = 0; kind < ADVICE_COUNT; kind++) {
        const struct advice *advice = &result->nearest.advice[kind];
        ended |= advice->ended;
        if (!advice->plan)
            continue;
        text_add(out, "\n  ");
        write_change(out, result, (enum advice_kind)kind);
        text_add(out, ": ");
        write_degrees(out, advice->plan);
    }
    for (int kind = 0; kind < ADVICE_MEMORY; kind++) {
        const struct advice *advice = &result->nearest.advice[kind];
        if (advice->plan || advice->now == 0)
            continue;
        text_printf(out, "%s%s", none ? ", " : ended ? "\nnot found in the time: " : "\nnot enough: ", words[kind]);
        none = true;
    }
}

int64_t search_missing_bytes(const struct search_result *result)
{
    if (result->nearest.host_needed_bytes > 0)
        return result->nearest.host_needed_bytes - result->nearest.host_available_bytes;
    return max_i64(0, result->nearest.needed_bytes - result->nearest.available_bytes);
}

/* Names what the nearest plan needs on each type of devices in turn. */
static void write_needs(struct text *out, const struct search_result *result)
{
    char needed[TEXT_NUMBER_BYTES], available[TEXT_NUMBER_BYTES], missing[TEXT_NUMBER_BYTES];
    if (result->nearest.host_needed_bytes > 0)
        text_printf(out, "%s of its host's memory for each device, but %s are usable: %s are missing",
                    text_bytes(needed, result->nearest.host_needed_bytes),
                    text_bytes(available, result->nearest.host_available_bytes),
                    text_bytes(missing, search_missing_bytes(result)));
    for (int t = 0; t < result->nearest.type_count; t++) {
        const struct shortage *own = &result->nearest.types[t];
        int64_t missing_bytes = own->needed_bytes - own->available_bytes;
        if (own->stage < 0)
            continue;
        text_printf(out, "%s%s on each %s of stage %d, ", out->length > 0 ? "; " : "",
                    text_bytes(needed, own->needed_bytes), result->nearest.type_count > 1 ? own->device : "device",
                    own->stage);
        text_bytes(available, own->available_bytes);
        if (missing_bytes > 0)
            text_printf(out, "but %s are usable: %s are missing", available, text_bytes(missing, missing_bytes));
        else
            text_printf(out, "of %s usable", available);
    }
}

bool search_infeasible(const struct search_result *result, const struct space *space, struct error *err)
{
    const struct plan *plan = result->nearest.plan;
    struct text degrees = { 0 }, needs = { 0 }, advice = { 0 };
    if (result->why)
        return fail_kind(err, ERROR_INFEASIBLE, "%s", result->why);
    if (!plan && space->rule_count > 0)
        return fail_kind(
            err, ERROR_INFEASIBLE,
            "nothing fits: no configuration of the space can be lowered, or has something to choose from "
            "for every layer that has a rule of its own; allow more, and in tp and sp the same to all layers");
    if (!plan)
        return fail_kind(err, ERROR_INFEASIBLE,
                         "nothing fits: all configurations lack memory, or none can be lowered; more devices, a "
                         "smaller batch, or turns=1 where it was left out may help");
    write_degrees(&degrees, plan);
    write_needs(&needs, result);
    write_advice(&advice, result);
    fail_kind(err, ERROR_INFEASIBLE,
              "nothing fits: memory %s. The thriftiest plan for a batch of %lld (%s) needs %s\nwhat fits, each change "
              "alone:%s",
              result->nearest.host_needed_bytes > 0 ? "of hosts" : "per device", (long long)space->batch,
              degrees.data ? degrees.data : "", needs.data ? needs.data : "", advice.data ? advice.data : "");
    text_free(&degrees);
    text_free(&needs);
    text_free(&advice);
    return false;
}

void search_report_measure(struct certificate *c, int64_t formula_ns, int64_t step_ns)
{
    c->formula_ns = formula_ns;
    if (c->bound_ns > 0) {
        c->formula_gap = (double)(formula_ns - c->bound_ns) / (double)c->bound_ns;
        c->gap = (double)(step_ns - c->bound_ns) / (double)c->bound_ns;
    }
    if (c->simulated_bound_ns > 0)
        c->simulated_gap = (double)(step_ns - c->simulated_bound_ns) / (double)c->simulated_bound_ns;
}
