/* What a search has to say beside its plans: the certificate, and why nothing fits. */
#include "base/num.h"
#include "planner/plan/plan_json.h"
#include "planner/search/narrower.h"
#include "planner/space/choice.h"
#include <stdlib.h>

/* The cluster's short form with `times` as many nodes, or in words where it came from a file. */
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
    const int *atom = plan->stages[0].atom;
    int middle = plan->layer_count / 2; /* the ends differ from the rest */
    text_printf(out, "pp %d, tp %d, dp %d, micro-batch %lld, ZeRO %d, recompute %s", plan->stage_count, atom[1],
                atom[0], (long long)(plan->batch / plan->micro_batch_count / atom[0]),
                plan_zero_on(plan, &plan->stages[plan_stage_of_layer(plan, middle)], middle),
                recompute_names[plan->layers[middle].recompute]);
}

/* What to type, or to have. */
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
    case ADVICE_MEMORY:
    case ADVICE_COUNT:
        text_printf(out, "devices of %s (cleave devices lists what there is)",
                    text_bytes_enough(memory, advice->value));
    }
}

/* A line for each change that does, and one that names those that do not. */
static void write_advice(struct text *out, const struct search_result *result)
{
    static const char *const words[ADVICE_MEMORY] = { [ADVICE_BATCH] = "a smaller batch",
                                                      [ADVICE_MICRO] = "a smaller micro-batch",
                                                      [ADVICE_SEQUENCE] = "a shorter sequence",
                                                      [ADVICE_DEVICES] = "up to 64 times the nodes" };
    bool ended = false, none = false;
    text_add(out, "\nwhat fits, each change alone:");
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
    return max_i64(0, result->nearest.needed_bytes - result->nearest.available_bytes);
}

/* Names what the nearest plan needs on each type of devices in turn. */
static void write_needs(struct text *out, const struct search_result *result)
{
    char needed[TEXT_NUMBER_BYTES], available[TEXT_NUMBER_BYTES], missing[TEXT_NUMBER_BYTES];
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
                         "nothing fits: no configuration of the space can be lowered, or memory is short where "
                         "stages have several meshes; allow turns=1 too");
    write_degrees(&degrees, plan);
    write_needs(&needs, result);
    write_advice(&advice, result);
    fail_kind(err, ERROR_INFEASIBLE,
              "nothing fits: memory per device. The thriftiest plan for a batch of %lld (%s) needs %s%s",
              (long long)space->batch, degrees.data ? degrees.data : "", needs.data ? needs.data : "",
              advice.data ? advice.data : "");
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

static void write_allowed(struct json_writer *w, enum space_choice choice, const struct allowed *allowed)
{
    json_write_key(w, choice_facts[choice].name);
    json_begin_array(w);
    for (int i = 0; i < allowed->count; i++) {
        char text[CHOICE_VALUE_BYTES];
        const char *name = choice_value_name(text, choice, allowed->values[i]);
        if (name)
            json_write_string(w, name);
        else
            json_write_int(w, allowed->values[i]);
    }
    json_end_array(w);
}

/* An empty list: everything legal. */
static void write_space(struct json_writer *w, const struct space *space)
{
    struct space copy = *space;
    json_write_key(w, "space");
    json_begin_object(w);
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        write_allowed(w, (enum space_choice)choice, &copy.range[choice]);
    json_write_key(w, "layers");
    json_begin_array(w);
    for (int i = 0; i < space->rule_count; i++) {
        const struct layer_rule *rule = &space->rules[i];
        json_begin_object(w);
        json_put_int(w, "first", rule->first);
        json_put_int(w, "last", rule->last);
        write_allowed(w, rule->choice, &rule->allowed);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

/* "0-11,14": the first and last of each range; nothing where there is none. */
static void write_ranges(struct json_writer *w, const struct certificate *c, enum config_fate fate)
{
    struct text text = { 0 };
    for (int i = 0; i < c->range_count; i++) {
        const struct config_range *range = &c->ranges[i];
        if (range->fate != fate)
            continue;
        text_printf(&text, "%s%d", text.length > 0 ? "," : "", range->first);
        if (range->last > range->first)
            text_printf(&text, "-%d", range->last);
    }
    if (text.length > 0)
        json_write_string(w, text.failed ? NULL : text.data); /* out of memory: a reader refuses the null */
    text_free(&text);
}

/* By fate; what is nowhere was ruled out by a bound that anyone can work out again. */
static void write_records(struct json_writer *w, const struct certificate *c)
{
    for (int fate = 0; fate < FATE_COUNT; fate++) {
        struct text key = { 0 };
        text_printf(&key, "configurations_%s", config_fate_names[fate]);
        json_write_key(w, key.data ? key.data : "configurations");
        text_free(&key);
        json_begin_array(w);
        write_ranges(w, c, (enum config_fate)fate);
        json_end_array(w);
    }
}

static void write_hash(struct json_writer *w, const char *key, uint64_t hash)
{
    char text[CERTIFICATE_DIGEST_BYTES];
    certificate_hash_text(text, hash);
    json_put_string(w, key, text);
}

/* No gap to a bound of 0, which would read as an optimum. */
static void write_members(struct json_writer *w, const struct certificate *c, const struct space *space)
{
    json_put_int(w, "version", CERTIFICATE_VERSION);
    json_put_double(w, "bound_s", (double)c->bound_ns / 1e9);
    json_put_double(w, "formula_s", (double)c->formula_ns / 1e9);
    if (c->bound_ns > 0) {
        json_put_double(w, "gap", c->gap);
        json_put_double(w, "formula_gap", c->formula_gap);
        json_put_double(w, "proof_gap", c->proof_gap);
    }
    json_put_double(w, "simulated_bound_s", (double)c->simulated_bound_ns / 1e9);
    if (c->simulated_bound_ns > 0)
        json_put_double(w, "simulated_gap", c->simulated_gap);
    json_put_int(w, "bound_ns", c->bound_ns);
    json_put_int(w, "simulated_bound_ns", c->simulated_bound_ns);
    json_put_int(w, "formula_ns", c->formula_ns);
    json_put_int(w, "best_ns", c->best_ns);
    json_put_string(w, "best", c->best);
    if (c->best_plan) {
        json_write_key(w, "best_plan");
        plan_json_decisions(w, c->best_plan);
    }
    json_put_int(w, "memory_bytes", c->memory_bytes);
    json_write_key(w, "complete");
    json_write_bool(w, c->complete);
    if (c->coarse)
        json_put_bool(w, "coarse", true);
    json_put_int(w, "configurations", c->configurations);
    json_put_int(w, "pruned_memory", c->pruned_memory);
    json_put_int(w, "pruned_bound", c->pruned_bound);
    json_put_int(w, "solved", c->solved);
    json_put_int(w, "refused", c->refused);
    json_put_int(w, "left", c->left);
    json_put_int(w, "unseen", c->unseen);
    json_put_int(w, "beside", c->unbounded);
    if (c->ideals >= 0)
        json_put_int(w, "ideals", c->ideals);
    if (c->ideals == 0)
        json_put_int(w, "orders_bound_ns", c->orders_bound_ns);
    write_hash(w, "space_hash", c->hash.space);
    write_hash(w, "prices_hash", c->hash.prices);
    write_space(w, space);
    write_records(w, c);
}

/* As a reader works it out. */
static void write_digest(struct json_writer *w, const struct certificate *c, const struct space *space)
{
    struct json_writer copy = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    char digest[CERTIFICATE_DIGEST_BYTES] = "";
    size_t length = 0;
    json_begin_object(&copy);
    write_members(&copy, c, space);
    json_end_object(&copy);
    char *text = json_finish(&copy, &length);
    if (text && json_parse(&doc, "certificate", text, length, &err) && certificate_digest(digest, json_root(doc)))
        json_put_string(w, "digest", digest); /* out of memory: there is none, which a reader says */
    json_free(doc);
    free(text);
}

/* How the search went about it: of this a certificate claims nothing. */
static void write_search(struct json_writer *w, const struct certificate *c)
{
    json_write_key(w, "search");
    json_begin_object(w);
    json_put_bool(w, "ended", c->ended);
    json_put_int(w, "candidates", c->candidates);
    json_put_int(w, "ranked", c->ranked);
    json_put_int(w, "judged", c->judged);
    json_put_int(w, "rejected", c->rejected);
    json_end_object(w);
}

void search_report_certificate(struct json_writer *w, const struct search_result *result, const struct space *space)
{
    struct space about = *space;
    if (result->certificate.narrower_only)
        narrower_space(&about);
    write_search(w, &result->certificate);
    json_write_key(w, "certificate");
    json_begin_object(w);
    write_members(w, &result->certificate, &about);
    write_digest(w, &result->certificate, &about);
    json_end_object(w);
}
