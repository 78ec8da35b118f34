#define _GNU_SOURCE
#include "cli/aim.h"
#include "cli/stages.h"
#include "host/clock.h"
#include "host/machine.h"
#include "host/parallel.h"
#include "planner/program/schedule.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void list_names(struct text *out, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        text_printf(out, "%s%s", i ? ", " : "", names[i]);
}

/* The first goes without saying. */
static void list_values(struct text *out, const char *const *names)
{
    list_names(out, names);
    text_printf(out, " (%s)", names[0]);
}

#define OPTIMIZER_LISTER(a, b, member, key, option, names, ...)                                                        \
    void space_list_##member(struct text *out)                                                                         \
    {                                                                                                                  \
        list_values(out, names);                                                                                       \
    }
OPTIMIZER_PARTS_OF(OPTIMIZER_LISTER, , )
#undef OPTIMIZER_LISTER

static bool unknown_value(const char *where, enum space_choice choice, const char *word, struct error *err)
{
    struct text list = { 0 };
    char text[CHOICE_VALUE_BYTES];
    bool is_set = choice_facts[choice].kind == KIND_OPERATORS;
    for (int64_t value = choice_facts[choice].least; value <= choice_facts[choice].most && !is_set; value++) {
        const char *name = choice_value_name(text, choice, value);
        if (name)
            text_printf(&list, "%s%s", list.length ? ", " : "", name);
    }
    if (is_set) {
        text_add(&list, "none or, joined by +, some of ");
        list_names(&list, operator_names);
    }
    fail(err, "%s: expected one of %s; found '%s'", where, list.data ? list.data : "", word);
    text_free(&list);
    return false;
}

bool space_value(const char *where, enum space_choice choice, const char *word, int64_t *out, struct error *err)
{
    const struct choice_facts *facts = &choice_facts[choice];
    char *end;
    if (facts->kind == KIND_NAME || facts->kind == KIND_OPERATORS)
        return choice_value_named(out, choice, word) || unknown_value(where, choice, word, err);
    if (facts->kind == KIND_FLAG || facts->kind == KIND_TRUTH)
        return choice_value_named(out, choice, word) ||
               fail(err, "%s: expected true or false, or 1 or 0; found '%s'", where, word);
    if (facts->kind == KIND_BYTES)
        return (text_read_bytes(word, out) && *out >= facts->least && *out <= facts->most) ||
               fail(err, "%s: expected bytes, such as 4MiB, found '%s'", where, word);
    long long number = strtoll(word, &end, 10);
    *out = number;
    return (end != word && !*end && number >= facts->least && number <= facts->most) ||
           fail(err, "%s: expected a number from %lld to %lld, found '%s'", where, (long long)facts->least,
                (long long)facts->most, word);
}

static bool add_value(const char *what, struct allowed *allowed, int key, const char *word, struct error *err)
{
    int64_t value = 0;
    char where[64];
    snprintf(where, sizeof where, "%s: %s", what, choice_facts[key].name);
    if (allowed->count == SPACE_VALUES)
        return fail(err, "%s: more than %d values of %s", what, SPACE_VALUES, choice_facts[key].name);
    if (!space_value(where, (enum space_choice)key, word, &value, err))
        return false;
    if (allowed->count == 0 || !allowed_has(allowed, value)) /* twice is once */
        allowed->values[allowed->count++] = value;
    return true;
}

/* rules: of those alone for which layers may have rules. */
static void list_keys(struct text *out, bool rules)
{
    const char *comma = "";
    for (int i = 0; i < CHOICE_COUNT; i++)
        if (!rules || choice_has_rules((enum space_choice)i)) {
            text_printf(out, "%s%s", comma, choice_facts[i].name);
            comma = ", ";
        }
}

void space_list_keys(struct text *out)
{
    list_keys(out, false);
    text_add(out, "; of some layers, as layer[0-11].zero=3: ");
    list_keys(out, true);
}

static bool unknown_key(const char *what, const char *word, struct error *err)
{
    for (const struct retired_choice *r = retired_choices; r->name; r++)
        if (strcmp(r->name, word) == 0)
            return fail(err, "%s: %s is not searched any more: %s", what, word, r->instead);
    const char *names[CHOICE_COUNT];
    struct text list = { 0 };
    for (int i = 0; i < CHOICE_COUNT; i++)
        names[i] = choice_facts[i].name;
    const char *near = text_nearest(word, names, CHOICE_COUNT);
    if (near)
        return fail(err, "%s: unknown key '%s'; did you mean %s?", what, word, near);
    space_list_keys(&list);
    fail(err, "%s: unknown key '%s'; known: %s", what, word, list.data ? list.data : "");
    text_free(&list);
    return false;
}

static bool unknown_layer_key(const char *what, const char *word, struct error *err)
{
    struct text list = { 0 };
    list_keys(&list, true);
    fail(err, "%s: layers have no key '%s'; known: %s", what, word, list.data ? list.data : "");
    text_free(&list);
    return false;
}

/* The key allows exactly the values of a list such as "1:2:4"; the text is cut in place. */
static bool set_values(struct space *space, const char *what, int key, char *list, const char *separator,
                       struct error *err)
{
    struct allowed *allowed = &space->range[key];
    char *rest = NULL;
    allowed->count = 0;
    for (char *word = strtok_r(list, separator, &rest); word; word = strtok_r(NULL, separator, &rest))
        if (!add_value(what, allowed, key, word, err))
            return false;
    return allowed->count > 0 || fail(err, "%s: %s needs a value", what, choice_facts[key].name);
}

void space_write_values(struct text *out, enum space_choice choice, const struct allowed *values)
{
    text_printf(out, "%s%s=", out->length > 0 ? "," : "", choice_facts[choice].name);
    for (int i = 0; i < values->count; i++) {
        char own[CHOICE_VALUE_BYTES];
        const char *name = choice_value_name(own, choice, values->values[i]);
        text_add(out, i > 0 ? ":" : "");
        if (name)
            text_add(out, name);
        else
            text_printf(out, "%lld", (long long)values->values[i]);
    }
}

/* One "layer[0-11].zero=2:3", whose value begins behind equals; the text is cut in place. */
static bool restrict_layers(struct space *space, const char *what, char *item, char *values, struct error *err)
{
    struct layer_rule rule = { 0 };
    int read = 0;
    if (sscanf(item, "layer[%9d-%9d].%n", &rule.first, &rule.last, &read) == 2 && read > 0) {
    } else if (sscanf(item, "layer[%9d].%n", &rule.first, &read) == 1 && read > 0) {
        rule.last = rule.first;
    }
    if (read == 0 || rule.first < 0 || rule.last < rule.first)
        return fail(err, "%s: expected layer[FIRST-LAST].KEY=VALUE or layer[NUMBER].KEY=VALUE, found '%s'", what, item);
    rule.choice = choice_named(item + read);
    if (rule.choice == CHOICE_COUNT || !choice_has_rules(rule.choice))
        return unknown_layer_key(what, item + read, err);
    if (space->rule_count == SPACE_RULES)
        return fail(err, "%s: more than %d rules for layers", what, SPACE_RULES);
    char *rest = NULL;
    for (char *word = strtok_r(values, ":", &rest); word; word = strtok_r(NULL, ":", &rest))
        if (!add_value(what, &rule.allowed, rule.choice, word, err))
            return false;
    if (rule.allowed.count == 0)
        return fail(err, "%s: %s needs a value", what, item);
    space->rules[space->rule_count++] = rule;
    return true;
}

/* One "tp=1:2:4"; the text is cut in place. */
static bool restrict_one(struct space *space, const char *what, char *item, struct error *err)
{
    char *equals = strchr(item, '=');
    if (!equals)
        return fail(err, "%s: expected KEY=VALUE, found '%s'", what, item);
    *equals = 0;
    if (!strncmp(item, "layer", 5))
        return restrict_layers(space, what, item, equals + 1, err);
    enum space_choice key = choice_named(item);
    return key < CHOICE_COUNT ? set_values(space, what, key, equals + 1, ":", err) : unknown_key(what, item, err);
}

/* The item before the next comma, without it. */
static size_t item_length(const char *item)
{
    return strcspn(item, ",");
}

/* Of two values in one option none is meant more than the other. Rules for layers may overlap: the last counts. */
static bool check_repeated(const char *what, const char *text, struct error *err)
{
    for (const char *item = text; *item; item += item_length(item), item += *item == ',') {
        size_t length = item_length(item), key = strcspn(item, "=,");
        if (!strncmp(item, "layer[", 6) || item[key] != '=')
            continue;
        for (const char *other = item + length; *other; other += item_length(other)) {
            other++;
            size_t other_length = item_length(other);
            if (strncmp(other, item, key + 1) == 0 && (other_length != length || strncmp(other, item, length) != 0))
                return fail(err, "%s: %.*s is given twice, %.*s and %.*s; leave one of them out", what, (int)key, item,
                            (int)length, item, (int)other_length, other);
        }
    }
    return true;
}

bool space_restrict(struct space *space, const char *what, const char *text, struct error *err)
{
    if (!check_repeated(what, text, err))
        return false;
    char *copy = strdup(text), *rest = NULL;
    bool ok = copy != NULL || fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    for (char *item = copy ? strtok_r(copy, ",", &rest) : NULL; ok && item; item = strtok_r(NULL, ",", &rest))
        ok = restrict_one(space, what, item, err);
    free(copy);
    return ok;
}

bool space_restrict_all(struct space *space, const char *what, const struct text_list *list, struct error *err)
{
    struct text all = { 0 };
    for (int i = 0; i < list->count; i++)
        text_printf(&all, "%s%s", i > 0 ? "," : "", list->item[i]);
    bool good = !all.failed || fail_memory(err);
    good = good && (list->count == 0 || space_restrict(space, what, all.data, err));
    text_free(&all);
    return good;
}

/* What --fix says of a choice has to be among what --space does. */
static bool agree(const struct space_options *o, struct error *err)
{
    struct space space = { 0 }, fixed = { 0 };
    char name[CHOICE_VALUE_BYTES];
    if (!space_restrict_all(&space, "--space", &o->space, err) || !space_restrict_all(&fixed, "--fix", &o->fix, err))
        return false;
    for (enum space_choice c = 0; c < CHOICE_COUNT; c++) {
        const struct allowed *all = &space.range[c], *own = &fixed.range[c];
        if (all->count > 0 && own->count > 0 && !allowed_has(all, own->values[0])) {
            const char *word = choice_value_name(name, c, own->values[0]);
            return word ? fail(err, "--fix %s=%s: --space does not have it", choice_facts[c].name, word)
                        : fail(err, "--fix %s=%lld: --space does not have it", choice_facts[c].name,
                               (long long)own->values[0]);
        }
    }
    return true;
}

static bool restrict_schedules(struct space *space, const char *text, struct error *err)
{
    char *copy = strdup(text);
    bool ok = copy ? set_values(space, "--schedule", CHOICE_SCHEDULE, copy, ",", err)
                   : fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    free(copy);
    return ok;
}

/* The default is bf16 where all devices have it, else fp16, which takes as little memory and time, where it is faster
 * than fp32 on all and the target can be told it, else fp32. */
static bool dtype_of(struct inputs *in, const char *word, const struct target *target, enum dtype *out,
                     struct error *err)
{
    const struct device_type *lacking = NULL;
    bool half = !target || aim_takes_dtype(target, DTYPE_FP16);
    for (int type = 0; type < in->cluster->type_count; type++) {
        const struct device_type *device = &in->cluster->types[type].device;
        lacking = device->matmul_flops_per_s[DTYPE_BF16] > 0 ? lacking : device;
        half = half && device->matmul_flops_per_s[DTYPE_FP16] > device->matmul_flops_per_s[DTYPE_FP32];
    }
    int index = !lacking ? DTYPE_BF16 : half ? DTYPE_FP16 : DTYPE_FP32;
    if (word && !inputs_word("--dtype", word, dtype_names, &index, err))
        return false;
    in->lacks_bf16 = lacking && !word ? lacking->name : NULL;
    *out = (enum dtype)index;
    return cluster_check_dtype(in->cluster, *out, err);
}

bool space_optimizer(struct optimizer *out, const struct space_options *o, enum dtype dtype, struct error *err)
{
    const char *key;
    for (int i = 0; i < OPTIMIZER_PARTS; i++) {
        char what[64];
        snprintf(what, sizeof what, "--%s", optimizer_parts[i].option);
        if (o->optimizer[i] && !inputs_word(what, o->optimizer[i], optimizer_parts[i].names, &out->part[i], err))
            return false;
    }
    return optimizer_check(&key, out, dtype, err);
}

bool space_beside_plan(const struct space_options *o, const char *path, const char *instead, struct error *err)
{
    const char *said = o->sequence ? "seq" : o->dtype ? "dtype" : o->framework ? "framework" : o->clip ? "clip" : NULL;
    for (int i = 0; i < OPTIMIZER_PARTS; i++)
        said = o->optimizer[i] ? optimizer_parts[i].option : said;
    return !said || fail(err, "--%s belongs to a model; %s is a plan, which has its own (%s)", said, path, instead);
}

static bool set_clip(struct space *space, const char *text, struct error *err)
{
    char *end;
    const struct schedule *without = space_asynchronous(space, true);
    double norm = strtod(text, &end);
    if (end == text || *end || !(norm >= 0) || norm > 1e300)
        return fail(err, "--clip: expected a norm of 0 (gradients are not clipped) or more, found '%s'", text);
    if (norm > 0 && without)
        return fail(err,
                    "--clip %s: schedule %s updates after each micro-batch, before the norm is known; give --clip 0, "
                    "or another --schedule",
                    text, without->name);
    space->clip_norm = norm;
    return true;
}

bool space_cut_by_hand(struct space *space, struct inputs *in, const struct stage_cuts *cuts, struct error *err)
{
    struct graph *graph = NULL;
    if (!graph_take(&graph, in->model, space->batch, space->sequence, 1, err))
        return false;
    bool good = stage_cuts_place(&space->cut, &in->arena, cuts, graph, err);
    graph_free(graph);
    return good;
}

/* As many stages, or chunks of them, as are cut. */
static bool set_stages(struct space *space, struct inputs *in, const char *text, struct error *err)
{
    struct stage_cuts cuts;
    return stage_cuts_read(&cuts, &in->arena, text, err) && space_cut_by_hand(space, in, &cuts, err) &&
           stage_cuts_restrict(cuts.count, space, err);
}

bool space_apply(struct inputs *in, struct space *out, const struct space_options *o, struct error *err)
{
    if (o->reserve && !inputs_reserve(in, o->reserve, err))
        return false;
    return agree(o, err) && space_restrict_all(out, "--space", &o->space, err) &&
           space_restrict_all(out, "--fix", &o->fix, err) &&
           (!o->schedule || restrict_schedules(out, o->schedule, err)) &&
           (!o->stages || set_stages(out, in, o->stages, err)) && (!o->clip || set_clip(out, o->clip, err));
}

void space_usual_bucket(struct space *space, const struct inputs *in)
{
    if (in->facts.framework && in->facts.framework->bucket_bytes > 0)
        space_set_bucket_bytes(space, in->facts.framework->bucket_bytes);
}

void space_as_run(struct space *space, const struct inputs *in)
{
    const struct framework *framework = in->facts.framework;
    if (framework && framework->recomputes_blocks)
        space_recompute_blocks(space);
    if (framework && framework->kept_operators)
        space_keep_operators(space, framework->kept_operators);
}

bool space_inputs(struct inputs *in, struct space *out, const char *model, const struct space_options *o,
                  struct error *err)
{
    enum dtype dtype;
    if (!o->cluster)
        return fail(err,
                    "--cluster is missing: for example --cluster 1x8:a100-sxm-80 (cleave devices lists the types)");
    if (!o->batch)
        return fail(err, "--batch is missing: the sequences of one step over all devices, for example --batch 64");
    const struct target *target = NULL;
    if (o->target && !aim_target(&target, "--target", o->target, err))
        return false;
    const char *framework = o->framework || !target ? o->framework : target->framework;
    if (target && strcmp(framework, target->framework) != 0)
        fprintf(in->cli->talk, "note: priced as run by %s, as --framework says; what runs it is %s\n", framework,
                target->framework);
    in->reading.length_given = o->sequence > 0;
    if (!inputs_model(in, model, err) || !inputs_cluster(in, o->cluster, err) ||
        !inputs_profiles(in, &o->profiles, err) || (framework && !inputs_framework(in, framework, err)) ||
        !inputs_correct(in, err) || !dtype_of(in, o->dtype, target, &dtype, err))
        return false;
    *out = space_default(o->batch, o->sequence, dtype);
    if (!space_optimizer(&out->optimizer, o, dtype, err))
        return false;
    space_usual_bucket(out, in);
    if (target && !aim_restrict(out, in, target, err))
        return false;
    in->context.target = target ? target->name : NULL;
    if (!space_apply(in, out, o, err) || !space_leaves_zero(out, err))
        return false;
    space_as_run(out, in);
    if (!o->clip && space_asynchronous(out, true))
        out->clip_norm = 0;
    return true;
}

static volatile sig_atomic_t interrupted; /* set by Ctrl-C: a signal handler has no other way to speak */

static void on_interrupt(int signal)
{
    (void)signal;
    interrupted = 1;
}

static bool cancelled(void *self)
{
    (void)self;
    return interrupted;
}

static int64_t now(void *self)
{
    (void)self;
    return clock_now_ns();
}

static int64_t spent(void *self)
{
    (void)self;
    return clock_processor_ns();
}

static int thread_count(const struct space_options *options)
{
    return options->jobs > 0 ? (int)options->jobs : host_core_count();
}

static void on_threads(void *self, int count, void (*body)(void *context, int index), void *context)
{
    parallel_for(thread_count(self), count, body, context);
}

struct search_options space_search_options(const struct space_options *options, const struct space *space)
{
    struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };
    if (!interrupted)
        sigaction(SIGINT, &action, NULL); /* the second Ctrl-C ends the program, whatever is still searched for */
    return (struct search_options){
        .space = *space,
        .top = 1,
        .gap_ppm = (int64_t)(options->gap * 1e6),
        .time_limit_ns = (int64_t)(options->time_limit_s * 1e9),
        .calls = { .self = (void *)(uintptr_t)options,
                   .now_ns = now,
                   .spent_ns = spent,
                   .cancelled = cancelled,
                   .workers = { (void *)(uintptr_t)options, on_threads, thread_count(options) } },
    };
}
