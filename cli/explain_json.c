/* An explanation as JSON, and what its fields mean. */
#include "cli/explanation.h"
#include "cli/printed_fields.h"
#include "cli/print.h"
#include "planner/program/schedule.h"
#include "targets/target.h"

const char *const solution_names[] = { "plan", "no memory", "impossible", "ended", NULL };

static const struct json_field explanation_fields[] = {
    TEXT("format", "\"cleave-explanation\"."),
    WHOLE("version", "1."),
    NODE("plan", "The plan explained: explanation.plan."),
    TEXT("target", "What all other plans can be told, as --target has it; null: they need not be."),
    NUMBER("step_s", "Simulated step, all micro-batches."),
    TRUTH("fits", "Whether every stage fits."),
    WHOLE("last_stage", "The stage that ends last: its times are the step's."),
    NODE("stages", "One explanation.stage per stage."),
    NODE("binding",
         "The what-if of memory, node or batch that buys most; null: none does, or not all was tried (complete)."),
    NODE("versus", "What --versus named: explanation.alternative."),
    NODE("alternatives", "The best plan of each kind that this one is not: explanation.alternative."),
    NODE("what_if", "Re-solved under other facts: explanation.what_if."),
    NODE("robustness", "Per amount of noise: explanation.robustness."),
    TRUTH("complete", "False: --time-limit or Ctrl-C ended it early."),
};
static const struct json_field plan_fields[] = {
    WHOLE("pp", "Stages."),
    WHOLE("tp", "Tensor degree."),
    WHOLE("cp", "Context degree."),
    WHOLE("dp", "Data degree."),
    WHOLE("ep", "Of the data ranks those that share out the experts."),
    TRUTH("sp", "Sequence parallelism beside the tensor degree."),
    WHOLE("micro_batch", "Sequences of one micro-batch on one data-parallel rank."),
    WHOLE("micro_batches", "Micro-batches of one step."),
    TEXT("schedule", "Name of the schedule."),
    WHOLE("prefetch", "Layers that ZeRO-3 gathers run ahead."),
    NODE("zero", "Layers with weights by ZeRO stage in effect, 0 where no ranks share shards: four numbers."),
    NODE("recompute", "Layers by recomputation: none, selective, full."),
    TEXT("line", "The same for people."),
};
static const struct json_field stage_fields[] = {
    WHOLE("stage", "Its number."),
    NODE("time_s", "Seconds by kind; they add up to step_s."),
    NODE("memory_bytes", "Bytes of one device by kind when most is in use; they add up to peak_bytes."),
    WHOLE("peak_bytes", "The arena of one device."),
    WHOLE("available_bytes", "Usable memory of one device of the stage."),
    WHOLE("left_bytes", "Of the usable memory; negative: missing."),
    WHOLE("host_bytes", "Of host memory for one device of the stage: what is offloaded."),
    WHOLE("in_flight", "Micro-batches that hold activations at that moment."),
    WHOLE("peak_layer", "Graph layer at work at that moment, -1: none."),
};
static const struct json_field alternative_fields[] = {
    TEXT("kind", "What was excluded or fixed."),
    TEXT("result", "plan, no memory, impossible or ended."),
    NODE("plan", "explanation.plan, or null."),
    NUMBER("step_s", "Its step, or null."),
    NUMBER("change", "Of the step against the plan explained: 0.05 is 5 % slower; or null."),
    NODE("difference_s", "Change of each item of time; they add up to the change of the step; or null."),
    WHOLE("peak_bytes", "Of its fullest stage, or null."),
    WHOLE("missing_bytes", "What the thriftiest plan of the kind lacks on a device, or null."),
    TEXT("why", "Why there is no configuration, or null."),
};
static const struct json_field what_if_fields[] = {
    TEXT("resource", "memory, compute, links, node, batch, devices or micro-batch."),
    TEXT("name", "For people."),
    NUMBER("factor", "Of the resource."),
    WHOLE("value", "Devices, or sequences of batch or micro-batch; 0: none."),
    TEXT("cluster", "Of fewer devices, as --cluster takes them; or null."),
    TEXT("result", "Of the search: plan, no memory, impossible or ended."),
    NUMBER("step_s", "Of the best plan then; of a larger batch, per the plan's own batch; or null."),
    NUMBER("change", "Of the step; or null."),
    NODE("plan", "explanation.plan of the best plan known then, or null."),
};
static const struct json_field robustness_fields[] = {
    NUMBER("noise", "0.05: every rate and the usable memory drawn from 95 to 105 %."),
    WHOLE("draws", "Draws made."),
    WHOLE("unfit", "In which the plan does not fit."),
    WHOLE("unsolved", "In which no plan was found that fits."),
    WHOLE("changed", "In which another plan is better."),
    NUMBER("regret_mean", "(Step of the plan - step of the best) / step of the best, over the draws in which it fits."),
    NUMBER("regret_max", "The largest of them."),
};

static const struct json_field conflict_fields[] = {
    TEXT("format", "\"cleave-infeasible\"."),
    WHOLE("version", "1."),
    NODE("constraints",
         "Names of those that exclude each other: memory, devices, batch, node, or a choice of --fix and "
         "--space; without any one of them there is a plan. Of cleave plan the one that binds: memory, or none."),
    { .key = "irreducible",
      .type = FIELD_BOOL,
      .doc =
          "False: there may be too many, since the filter ended early; or too few, since cleave plan does not look." },
    WHOLE("available_bytes", "Usable memory of one device, of the stage that lacks most; or null."),
    WHOLE("needed_bytes", "What the thriftiest plan needs there; or null."),
    WHOLE("stage", "That stage; or null."),
    NODE("types", "What that plan needs on each type of devices, where it is known: infeasible.type."),
    NODE("nearest", "explanation.plan of that plan, or null."),
    TEXT("why", "Of cleave plan: what does not divide, where the space has no configuration; or null."),
    NODE("infeasible", "What binds, in short: infeasible.short."),
    NODE("changes", "The smallest change of each kind: infeasible.change."),
};
static const struct json_field type_fields[] = {
    TEXT("device", "The type's name."),
    WHOLE("available_bytes", "Usable memory of one."),
    WHOLE("needed_bytes", "What the thriftiest plan needs on it; or null."),
    WHOLE("stage", "Of the plan's stages there the one that needs most; null: none lies there."),
};
static const struct json_field short_fields[] = {
    TEXT("constraint", "The names in constraints, separated by commas; degrees: none divides, as why says; space: no "
                       "configuration of it can be lowered, or memory is short where stages have several meshes."),
    WHOLE("needed_bytes", "As in infeasible."),
    WHOLE("available_bytes", "As in infeasible."),
    NODE("nearest", "As in infeasible."),
};
static const struct json_field change_fields[] = {
    TEXT("name", "memory per device, devices, batch, sequence, or the choice whose restriction is lifted (cleave plan: "
                 "micro-batch, to a smaller one)."),
    TRUTH("found", "Whether this change alone makes a plan fit."),
    WHOLE("now", "Bytes of a device of the type that lacks most, devices, sequences or tokens as they are; of a choice "
                 "that is lifted null."),
    WHOLE("value", "As they would do; or null."),
    NODE("plan", "explanation.plan of a plan that fits then, or null."),
};

static const struct json_field diff_fields[] = {
    TEXT("format", "\"cleave-diff\"."),
    WHOLE("version", "1."),
    TRUTH("same", "Whether all decisions are the same."),
    NODE("context", "What the plans are for (cluster, framework, profile), where that differs: as diff.decision."),
    NODE("decisions", "Those that differ: diff.decision."),
    NODE("predicted", "Both plans (a, b: step_s, time_s, peak_bytes, memory_bytes, fits) and difference_s by item, "
                      "which adds up to the difference of the steps; or null."),
    TEXT("why_not", "Why nothing is predicted, or null."),
};
static const struct json_field decision_fields[] = {
    TEXT("where", "plan, stage N, or layers FIRST-LAST; of a context file."),
    TEXT("what", "The plan file's key."),
    TEXT("a", "Its value in the first plan; none: it has no such stage, layer or key."),
    TEXT("b", "In the second."),
};

#define DOC "Part of what `cleave explain --json` or `cleave diff --json` writes."
const struct json_format report_formats[] = {
    JSON_FORMAT("explanation", explanation_fields, DOC),
    JSON_FORMAT("explanation.plan", plan_fields, DOC),
    JSON_FORMAT("explanation.stage", stage_fields, DOC),
    JSON_FORMAT("explanation.alternative", alternative_fields, DOC),
    JSON_FORMAT("explanation.what_if", what_if_fields, DOC),
    JSON_FORMAT("explanation.robustness", robustness_fields, DOC),
    JSON_FORMAT("infeasible", conflict_fields, DOC),
    JSON_FORMAT("infeasible.type", type_fields, DOC),
    JSON_FORMAT("infeasible.short", short_fields, DOC),
    JSON_FORMAT("infeasible.change", change_fields, DOC),
    JSON_FORMAT("diff", diff_fields, DOC),
    JSON_FORMAT("diff.decision", decision_fields, DOC),
    { 0 },
};
#undef DOC

static double seconds(int64_t ns)
{
    return (double)ns / 1e9;
}

static void put_null(struct json_writer *w, const char *key)
{
    json_put_string(w, key, NULL);
}

static void put_counts(struct json_writer *w, const char *key, const int *counts, int count)
{
    json_write_key(w, key);
    json_begin_array(w);
    for (int i = 0; i < count; i++)
        json_write_int(w, counts[i]);
    json_end_array(w);
}

void write_choice(struct json_writer *w, const struct plan *plan, const struct graph *graph)
{
    struct choice c = choice_of(plan, graph);
    char line[PRINT_LINE_BYTES];
    print_plan_line(plan, graph, line);
    json_begin_object(w);
    json_put_int(w, "pp", c.pipeline);
    json_put_int(w, "tp", c.tensor);
    json_put_int(w, "cp", c.context);
    json_put_int(w, "dp", c.data);
    json_put_int(w, "ep", c.expert);
    json_put_bool(w, "sp", c.sequence_parallel);
    json_put_int(w, "micro_batch", c.micro);
    json_put_int(w, "micro_batches", plan->micro_batch_count);
    json_put_string(w, "schedule", schedules[c.schedule]->name);
    json_put_int(w, "prefetch", c.prefetch);
    put_counts(w, "zero", c.zero, 4);
    put_counts(w, "recompute", c.recompute, RECOMPUTE_COUNT);
    json_put_string(w, "line", line);
    json_end_object(w);
}

void write_times(struct json_writer *w, const char *key, const int64_t ns[TIME_KIND_COUNT])
{
    json_write_key(w, key);
    json_begin_object(w);
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        json_put_double(w, time_kind_names[k], seconds(ns[k]));
    json_end_object(w);
}

void write_memory(struct json_writer *w, const char *key, const int64_t bytes[MEMORY_KIND_COUNT])
{
    json_write_key(w, key);
    json_begin_object(w);
    for (int k = 0; k < MEMORY_KIND_COUNT; k++)
        json_put_int(w, memory_kind_names[k], bytes[k]);
    json_end_object(w);
}

static void write_stages(struct json_writer *w, const struct account *a)
{
    json_write_key(w, "stages");
    json_begin_array(w);
    for (int s = 0; s < a->stage_count; s++) {
        json_begin_object(w);
        json_put_int(w, "stage", s);
        write_times(w, "time_s", a->time_ns[s]);
        write_memory(w, "memory_bytes", a->memory[s].bytes);
        json_put_int(w, "peak_bytes", a->memory[s].peak_bytes);
        json_put_int(w, "available_bytes", a->available_bytes[s]);
        json_put_int(w, "left_bytes", account_left_bytes(a, s));
        json_put_int(w, "host_bytes", a->host_bytes[s]);
        json_put_int(w, "in_flight", a->memory[s].in_flight);
        json_put_int(w, "peak_layer", a->memory[s].peak_layer);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_plan(struct json_writer *w, const struct explained *explained)
{
    json_write_key(w, "plan");
    if (explained)
        write_choice(w, explained->plan, explained->graph);
    else
        json_write_string(w, NULL);
}

/* A plan that nobody has explained yet; plan may be NULL. */
static bool write_bare_plan(struct json_writer *w, const char *key, const struct plan *plan, const struct model *model,
                            struct error *err)
{
    struct graph *graph = NULL;
    if (plan && !plan_graph(&graph, model, plan, err))
        return false;
    json_write_key(w, key);
    if (plan)
        write_choice(w, plan, graph);
    else
        json_write_string(w, NULL);
    graph_free(graph);
    return true;
}

static void write_alternative(struct json_writer *w, const struct alternative *a, const struct account *own)
{
    const struct solution *s = &a->solution;
    bool found = s->kind == SOLUTION_PLAN;
    int64_t difference[TIME_KIND_COUNT];
    json_begin_object(w);
    json_put_string(w, "kind", a->kind);
    json_put_string(w, "result", solution_names[s->kind]);
    write_plan(w, s->explained);
    for (int k = 0; found && k < TIME_KIND_COUNT; k++)
        difference[k] = s->time_ns[k] - own->time_ns[own->last_stage][k];
    if (found) {
        json_put_double(w, "step_s", seconds(s->step_ns));
        json_put_double(w, "change", (double)s->step_ns / (double)own->step_ns - 1);
        write_times(w, "difference_s", difference);
        json_put_int(w, "peak_bytes", s->peak_bytes);
    } else {
        put_null(w, "step_s");
        put_null(w, "change");
        put_null(w, "difference_s");
        put_null(w, "peak_bytes");
    }
    if (s->missing_bytes > 0)
        json_put_int(w, "missing_bytes", s->missing_bytes);
    else
        put_null(w, "missing_bytes");
    json_put_string(w, "why", s->why);
    json_end_object(w);
}

static void write_what_if(struct json_writer *w, const struct what_if *at)
{
    json_begin_object(w);
    json_put_string(w, "resource", resource_names[at->resource]);
    json_put_string(w, "name", at->name);
    json_put_double(w, "factor", at->factor);
    json_put_int(w, "value", at->value);
    json_put_string(w, "cluster", at->cluster);
    json_put_string(w, "result", solution_names[at->solution.kind]);
    if (at->step_ns > 0) {
        json_put_double(w, "step_s", seconds(at->step_ns));
        json_put_double(w, "change", at->change);
    } else {
        put_null(w, "step_s");
        put_null(w, "change");
    }
    write_plan(w, at->best);
    json_end_object(w);
}

static void write_robustness(struct json_writer *w, const struct regret *r)
{
    json_begin_object(w);
    json_put_double(w, "noise", r->amount);
    json_put_int(w, "draws", r->draws);
    json_put_int(w, "unfit", r->unfit);
    json_put_int(w, "unsolved", r->unsolved);
    json_put_int(w, "changed", r->changed);
    json_put_double(w, "regret_mean", r->mean);
    json_put_double(w, "regret_max", r->most);
    json_end_object(w);
}

static void write_lists(struct json_writer *w, const struct explanation *x)
{
    const struct what_if *binding = explain_binding(&x->what_ifs);
    json_write_key(w, "binding");
    if (binding)
        write_what_if(w, binding);
    else
        json_write_string(w, NULL);
    json_write_key(w, "versus");
    json_begin_array(w);
    for (int i = 0; i < x->versus_count; i++)
        write_alternative(w, &x->versus[i], &x->alike);
    json_end_array(w);
    json_write_key(w, "alternatives");
    json_begin_array(w);
    for (int i = 0; i < x->alternatives.count; i++)
        write_alternative(w, &x->alternatives.list[i], &x->alike);
    json_end_array(w);
    json_write_key(w, "what_if");
    json_begin_array(w);
    for (int i = 0; i < x->what_ifs.count; i++)
        write_what_if(w, &x->what_ifs.list[i]);
    json_end_array(w);
    json_write_key(w, "robustness");
    json_begin_array(w);
    for (int i = 0; i < x->regret_count; i++)
        write_robustness(w, &x->regrets[i]);
    json_end_array(w);
}

bool explanation_write(const struct cli *cli, const struct explanation *x, struct error *err)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-explanation", 1);
    json_write_key(&w, "plan");
    write_choice(&w, x->plan->plan, x->plan->graph);
    json_put_string(&w, "target", x->target ? x->target->name : NULL);
    json_put_double(&w, "step_s", seconds(x->account.step_ns));
    json_put_bool(&w, "fits", x->account.fits);
    json_put_int(&w, "last_stage", x->account.last_stage);
    write_stages(&w, &x->account);
    write_lists(&w, x);
    json_put_bool(&w, "complete", x->complete);
    json_end_object(&w);
    return inputs_hand_out_json(cli, NULL, &w, err);
}

static void put_size(struct json_writer *w, const char *key, int64_t value, bool known)
{
    if (known)
        json_put_int(w, key, value);
    else
        put_null(w, key);
}

/* All of a change but its plan. */
static void begin_change(struct json_writer *w, const char *name, bool has_size, bool found, int64_t now, int64_t value)
{
    json_begin_object(w);
    json_put_string(w, "name", name);
    json_put_bool(w, "found", found);
    put_size(w, "now", now, has_size);
    put_size(w, "value", value, has_size && found);
}

static void write_shortage(struct json_writer *w, const struct shortage *shortage)
{
    json_begin_object(w);
    json_put_string(w, "device", shortage->device);
    json_put_int(w, "available_bytes", shortage->available_bytes);
    put_size(w, "needed_bytes", shortage->needed_bytes, shortage->stage >= 0);
    put_size(w, "stage", shortage->stage, shortage->stage >= 0);
    json_end_object(w);
}

/* The report up to its changes, but for the nearest plan. set: bit i is enum constraint i. */
static void begin_infeasible(struct json_writer *w, uint64_t set, bool irreducible, int64_t available_bytes,
                             int64_t needed_bytes, int stage, const struct shortage *types, int type_count)
{
    json_begin_format(w, "cleave-infeasible", 1);
    json_write_key(w, "constraints");
    json_begin_array(w);
    for (int i = 0; i < CONSTRAINT_COUNT; i++)
        if (set >> i & 1)
            json_write_string(w, constraint_name((enum constraint)i));
    json_end_array(w);
    json_put_bool(w, "irreducible", irreducible);
    put_size(w, "available_bytes", available_bytes, available_bytes > 0);
    put_size(w, "needed_bytes", needed_bytes, needed_bytes > 0);
    put_size(w, "stage", stage, stage >= 0);
    json_write_key(w, "types");
    json_begin_array(w);
    for (int t = 0; t < type_count; t++)
        write_shortage(w, &types[t]);
    json_end_array(w);
}

/* What scripts ask first, but for the nearest plan: the caller writes it and ends the object. */
static void begin_short(struct json_writer *w, const char *constraint, int64_t needed_bytes, int64_t available_bytes)
{
    json_write_key(w, "infeasible");
    json_begin_object(w);
    json_put_string(w, "constraint", constraint);
    put_size(w, "needed_bytes", needed_bytes, needed_bytes > 0);
    put_size(w, "available_bytes", available_bytes, available_bytes > 0);
}

/* "dp, batch". */
static void write_names(struct text *out, uint64_t set)
{
    for (int i = 0; i < CONSTRAINT_COUNT; i++)
        if (set >> i & 1)
            text_printf(out, "%s%s", out->length > 0 ? ", " : "", constraint_name((enum constraint)i));
}

static void begin_changes(struct json_writer *w)
{
    json_write_key(w, "changes");
    json_begin_array(w);
}

static bool end_infeasible(const struct cli *cli, struct json_writer *w, struct error *err)
{
    json_end_array(w);
    json_end_object(w);
    return inputs_hand_out_json(cli, NULL, w, err);
}

bool conflict_write(const struct cli *cli, const struct conflict *conflict, struct error *err)
{
    struct json_writer w = { 0 };
    struct text names = { 0 };
    int64_t needed = conflict->missing_bytes > 0 ? conflict->available_bytes + conflict->missing_bytes : 0;
    begin_infeasible(&w, conflict->set, conflict->irreducible, conflict->available_bytes, needed, conflict->stage,
                     conflict->types, conflict->type_count);
    put_null(&w, "nearest");
    put_null(&w, "why");
    write_names(&names, conflict->set);
    begin_short(&w, names.data, needed, conflict->available_bytes);
    put_null(&w, "nearest");
    json_end_object(&w);
    text_free(&names);
    begin_changes(&w);
    for (int i = 0; i < conflict->change_count; i++) {
        const struct change *c = &conflict->changes[i];
        begin_change(&w, c->name, c->constraint >= CONSTRAINT_NODE, c->found, c->now, c->value);
        write_plan(&w, c->plan);
        json_end_object(&w);
    }
    return end_infeasible(cli, &w, err);
}

bool infeasible_write(const struct cli *cli, const struct search_result *result, const struct model *model,
                      struct error *err)
{
    struct json_writer w = { 0 };
    const struct plan *nearest = result->nearest.plan;
    const char *constraint = nearest ? constraint_name(CONSTRAINT_MEMORY) : result->why ? "degrees" : "space";
    begin_infeasible(&w, nearest ? UINT64_C(1) << CONSTRAINT_MEMORY : 0, false, result->nearest.available_bytes,
                     result->nearest.needed_bytes, nearest ? result->nearest.stage : -1, result->nearest.types,
                     result->nearest.type_count);
    bool good = write_bare_plan(&w, "nearest", nearest, model, err);
    json_write_key(&w, "why");
    json_write_string(&w, result->why);
    begin_short(&w, constraint, result->nearest.needed_bytes, result->nearest.available_bytes);
    good = good && write_bare_plan(&w, "nearest", nearest, model, err);
    json_end_object(&w);
    begin_changes(&w);
    for (int kind = 0; good && kind < ADVICE_COUNT; kind++) {
        const struct advice *advice = &result->nearest.advice[kind];
        if (advice->now == 0)
            continue;
        begin_change(&w, advice_names[kind], true, advice->plan != NULL, advice->now, advice->value);
        good = write_bare_plan(&w, "plan", advice->plan, model, err);
        json_end_object(&w);
    }
    if (good)
        return end_infeasible(cli, &w, err);
    text_free(&w.text);
    return false;
}
