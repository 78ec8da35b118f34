#include "formats/claim_read.h"
#include "formats/plan_json.h"
#include "planner/space/choice.h"
#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct claim_fields {
    double bound_s, formula_s, gap, formula_gap, proof_gap, simulated_bound_s, simulated_gap;
    int64_t bound_ns, simulated_bound_ns, formula_ns, best_ns, memory_bytes, configurations, pruned_memory,
        pruned_bound, solved, refused, left, unseen, beside, asked_gap_ppm, candidates, ranked, judged, rejected,
        ideals, orders_bound_ns, version;
    const char *best, *space_hash, *prices_hash, *digest;
    bool complete, coarse;
    const struct json *space, *best_plan, *fates[FATE_COUNT];
};
#define CLAIM(name, type_, ...)                                                                                        \
    {                                                                                                                  \
        .key = #name, .type = type_, .offset = offsetof(struct claim_fields, name), .required = true, __VA_ARGS__      \
    }
#define GAP(name, doc_)                                                                                                \
    {                                                                                                                  \
        .key = #name, .type = FIELD_DOUBLE, .offset = offsetof(struct claim_fields, name), .min = -1, .max = 1e18,     \
        .doc = doc_                                                                                                    \
    }
#define FATE(name, fate, required_, doc_)                                                                              \
    {                                                                                                                  \
        .key = name, .type = FIELD_NODE, .offset = offsetof(struct claim_fields, fates) + sizeof(void *) * (fate),     \
        .required = required_, .doc = doc_                                                                             \
    }
/* A count that only older certificates have, or only newer ones. */
#define COUNT(name, doc_)                                                                                              \
    {                                                                                                                  \
        .key = #name, .type = FIELD_INT, .offset = offsetof(struct claim_fields, name), .min = 0, .max = 9e15,         \
        .doc = doc_                                                                                                    \
    }
static const struct json_field claim_fields[] = {
    { .key = "version",
      .type = FIELD_INT,
      .offset = offsetof(struct claim_fields, version),
      .min = 2,
      .max = CERTIFICATE_VERSION,
      .doc = "4; 3 and 2 in older certificates, whose space_hash is of other words and is not checked; absent in "
             "still older ones, whose simulated_bound may claim more than kernels prove, and whose prices_hash is of "
             "more than prices have now: these two are not checked either." },
    CLAIM(bound_s, FIELD_DOUBLE,
          .doc = "Seconds: no plan of the space is shorter by the formula; 0: nothing is proven."),
    CLAIM(formula_s, FIELD_DOUBLE, .doc = "Seconds of this plan by the formula."),
    GAP(gap, "(simulated step - bound) / bound; absent where the bound is 0."),
    GAP(formula_gap, "(formula's value of this plan - bound) / bound; absent where the bound is 0."),
    GAP(proof_gap, "(formula's value of its best plan - bound) / bound; absent where the bound is 0."),
    CLAIM(simulated_bound_s, FIELD_DOUBLE,
          .doc = "Seconds: no plan of the space is simulated shorter; 0: nothing is proven."),
    GAP(simulated_gap, "(simulated step - simulated_bound) / simulated_bound; absent where that bound is 0."),
    CLAIM(bound_ns, FIELD_INT, .min = 0, .max = 9e15, .doc = "The bound in nanoseconds; 0: none."),
    CLAIM(simulated_bound_ns, FIELD_INT, .min = 0, .max = 9e15,
          .doc = "The bound of the simulated step in nanoseconds; 0: none."),
    CLAIM(formula_ns, FIELD_INT, .min = 0, .max = 9e15, .doc = "The formula's value of this plan in nanoseconds."),
    CLAIM(best_ns, FIELD_INT, .min = 0, .max = 9e15, .doc = "The formula's value of its best plan in nanoseconds."),
    CLAIM(best, FIELD_STRING, .doc = "Configuration of the formula's best plan."),
    { .key = "best_plan",
      .type = FIELD_NODE,
      .offset = offsetof(struct claim_fields, best_plan),
      .doc = "That plan, as plan.decisions; absent where this plan is as short by the formula." },
    CLAIM(memory_bytes, FIELD_INT, .min = 1, .max = 9e15, .doc = "Bytes of a device that plans may use."),
    CLAIM(complete, FIELD_BOOL,
          .doc = "Nothing is left or unseen, and the proof gap is within asked_gap_ppm. In older certificates: "
                 "neither a time limit nor an interruption ended the "
                 "search."),
    COUNT(asked_gap_ppm,
          "Millionths of the bound within which the proof gap was asked for; absent in older certificates."),
    { .key = "coarse",
      .type = FIELD_BOOL,
      .offset = offsetof(struct claim_fields, coarse),
      .doc = "True: there were too many ranges of configurations to list; some hold what lies between, too, which its "
             "first bound rules out, or what had another fate." },
    CLAIM(configurations, FIELD_INT, .doc = "Configurations of the space: the sum of the six counts that follow."),
    CLAIM(pruned_memory, FIELD_INT,
          .doc = "Of them, those whose stages together lack memory. In older certificates also those solved that have "
                 "no plan."),
    CLAIM(pruned_bound, FIELD_INT, .doc = "Of them, ruled out by their first bound."),
    CLAIM(solved, FIELD_INT, .doc = "Of them, solved."),
    CLAIM(refused, FIELD_INT, .doc = "Of them, without a program."),
    COUNT(left, "Of them, not settled when time was over. Older certificates say neither this nor the next."),
    COUNT(unseen, "Of them, without a first bound then."),
    CLAIM(beside, FIELD_INT,
          .doc = "Further ones, of synchronous schedules that the formula does not bound: bound_s is not about them, "
                 "simulated_bound_s is."),
    COUNT(candidates, "Of older certificates; now in the plan file's search."),
    COUNT(ranked, "The same."),
    COUNT(judged, "The same."),
    COUNT(rejected, "The same."),
    { .key = "ideals",
      .type = FIELD_INT,
      .offset = offsetof(struct claim_fields, ideals),
      .min = 0,
      .max = INT32_MAX - 1,
      .doc = "Of a model with branches: sets of layers that hold, with each, all that it reads (order ideals). Stages "
             "that lead from one to the next, in whatever order of the layers, are the cuts that the certificate "
             "covers; 0: only those of the file's order." },
    { .key = "orders_bound_ns",
      .type = FIELD_INT,
      .offset = offsetof(struct claim_fields, orders_bound_ns),
      .min = 0,
      .max = 9e15,
      .doc = "With ideals 0: in any order of the layers no plan of the space is shorter by the formula; 0: nothing is "
             "proven of other orders." },
    CLAIM(space_hash, FIELD_STRING, .doc = "Of all configurations."),
    CLAIM(prices_hash, FIELD_STRING, .doc = "Of the prices of their layers by which bounds are made."),
    CLAIM(digest, FIELD_STRING, .doc = "Of all other members: against damage."),
    CLAIM(space, FIELD_NODE,
          .doc = "Allowed values of each choice; an empty list: all that are legal, of prefetch 1. stages, where they "
                 "were cut "
                 "by hand: the layer at which each begins."),
    FATE(
        "configurations_solved", FATE_SOLVED, true,
        "Of those that were solved or relaxed, one string: their places in the space's enumeration, as \"0-11,14\". In "
        "older certificates [name, bound] of some or all, and multipliers behind these, which are not read."),
    FATE("configurations_memory", FATE_MEMORY, true, "The places of those whose stages together lack memory."),
    FATE("configurations_refused", FATE_REFUSED, true, "Of those without a program."),
    FATE("configurations_left", FATE_LEFT, true,
         "Of those that were not settled when time was over; in older certificates also of those that were not even "
         "looked at, with the bound 0."),
    FATE("configurations_unseen", FATE_UNSEEN, false, "Of those that were not looked at."),
};
enum { CLAIM_FIELDS = sizeof claim_fields / sizeof *claim_fields };

const struct json_format claim_formats[] = {
    JSON_FORMAT("plan.certificate", claim_fields, "A plan file's `certificate`, which `cleave check` works out anew."),
    { 0 },
};

/* ---- the space ---- */

static bool read_value(const struct json *at, enum space_choice choice, int64_t *out, struct error *err)
{
    const char *word = NULL;
    if (choice_is_number(choice))
        return json_int(at, choice_facts[choice].least, choice_facts[choice].most, out, err);
    if (!json_string(at, &word, err))
        return false;
    return choice_value_named(out, choice, word) ||
           json_fail(at, err, "expected a value of %s, found \"%s\"", choice_facts[choice].name, word);
}

static bool read_choice(const struct json *at, enum space_choice choice, struct allowed *out, struct error *err)
{
    if (json_type(at) != JSON_ARRAY || json_count(at) > SPACE_VALUES)
        return json_fail(at, err, "expected a list of at most %d values", SPACE_VALUES);
    out->count = json_count(at);
    for (int i = 0; i < out->count; i++)
        if (!read_value(json_at(at, i), choice, &out->values[i], err))
            return false;
    return true;
}

static bool read_rule(const struct json *at, struct layer_rule *out, struct error *err)
{
    int64_t first = 0, last = 0;
    const struct json *part, *values = NULL;
    if (!json_require(at, "first", &part, err) || !json_int(part, 0, INT32_MAX, &first, err) ||
        !json_require(at, "last", &part, err) || !json_int(part, first, INT32_MAX, &last, err))
        return false;
    *out = (struct layer_rule){ .first = (int)first, .last = (int)last };
    for (int choice = 0; choice < CHOICE_COUNT && !values; choice++) {
        out->choice = (enum space_choice)choice;
        values = choice_has_rules(out->choice) ? json_member(at, choice_facts[choice].name) : NULL;
    }
    if (!values || json_count(at) != 3)
        return json_fail(at, err, "expected \"first\", \"last\" and one choice of those layers");
    return read_choice(values, out->choice, &out->allowed, err) &&
           (out->allowed.count > 0 || json_fail(values, err, "expected at least one value"));
}

static bool read_rules(const struct json *at, struct space *out, struct error *err)
{
    if (json_type(at) != JSON_ARRAY || json_count(at) > SPACE_RULES)
        return json_fail(at, err, "expected a list of at most %d rules", SPACE_RULES);
    out->rule_count = json_count(at);
    for (int i = 0; i < out->rule_count; i++)
        if (!read_rule(json_at(at, i), &out->rules[i], err))
            return false;
    return true;
}

/* Certificates of earlier versions name these, too: where with no more than what all plans have now, they are of a
 * space that is still searched. */
static bool read_retired(const struct json *at, int *count, struct error *err)
{
    for (const struct retired_choice *r = retired_choices; r->name; r++) {
        const struct json *values = json_member(at, r->name);
        int64_t value = 0;
        if (!values)
            continue;
        ++*count;
        if (json_type(values) != JSON_ARRAY || json_count(values) != 1 ||
            !json_int(json_at(values, 0), 1, 1, &value, NULL))
            return json_fail(values, err,
                             "the certificate is of a space that this version does not search, with several values of "
                             "%s; its plan is read, estimated, simulated and run as any other",
                             r->name);
    }
    return true;
}

/* Places of layers, which the graph's are held against when its chain is made. */
static bool read_cut(const struct json *at, struct space *out, struct arena *arena, struct error *err)
{
    if (json_type(at) != JSON_ARRAY || json_count(at) < 1)
        return json_fail(at, err, "expected the layer at which each stage begins");
    int *first = arena_alloc(arena, (size_t)json_count(at), sizeof *first);
    if (!first)
        return fail_memory(err);
    for (int k = 0; k < json_count(at); k++) {
        int64_t layer = 0;
        if (!json_int(json_at(at, k), 0, INT32_MAX, &layer, err))
            return false;
        first[k] = (int)layer;
    }
    out->cut = (struct space_cut){ json_count(at), first };
    return true;
}

static bool read_space(const struct json *at, struct space *out, struct arena *arena, struct error *err)
{
    const struct json *rules, *cut = json_type(at) == JSON_OBJECT ? json_member(at, "stages") : NULL;
    int retired = 0, unsaid = 0;
    for (int choice = 0; choice < CHOICE_COUNT; choice++) {
        const struct json *values;
        bool later = choice == CHOICE_EXCEPT || choice == CHOICE_EP_OVER; /* certificates were made before it */
        if (later && json_type(at) == JSON_OBJECT && !json_member(at, choice_facts[choice].name)) {
            out->range[choice] = choice_facts[choice].by_default;
            unsaid++;
            continue;
        }
        if (!json_require(at, choice_facts[choice].name, &values, err) ||
            !read_choice(values, (enum space_choice)choice, &out->range[choice], err))
            return false;
    }
    if (!read_retired(at, &retired, err))
        return false;
    if (json_count(at) != CHOICE_COUNT + 1 - unsaid + retired + (cut != NULL))
        return json_fail(at, err, "expected %d choices, found %d", CHOICE_COUNT + 1, json_count(at) - retired);
    out->cut = (struct space_cut){ 0 };
    return json_require(at, "layers", &rules, err) && read_rules(rules, out, err) &&
           (!cut || read_cut(cut, out, arena, err));
}

/* ---- configurations ---- */

static bool read_config(const struct json *at, enum config_fate fate, struct claimed_config *out, struct error *err)
{
    *out = (struct claimed_config){ .fate = fate };
    if (json_type(at) != JSON_ARRAY || (json_count(at) != 2 && (json_count(at) != 5 || fate != FATE_SOLVED)))
        return json_fail(at, err,
                         "expected places of configurations, or of an older cleave a name and its bound, and of one "
                         "that was solved perhaps thresholds, vectors and a cap, which are not read");
    bool good = json_string(json_at(at, 0), &out->name, err) &&
                json_int(json_at(at, 1), 0, INT64_C(9000000000000000), &out->bound_ns, err);
    if (good && fate == FATE_LEFT && out->bound_ns == 0)
        out->fate = FATE_UNSEEN;
    return good;
}

/* The places of one range, which *text is moved behind. */
static bool read_range(const char **text, struct claimed_config *out)
{
    int *const ends[] = { &out->first, &out->last };
    for (int i = 0; i < 2; i++) {
        char *behind = NULL;
        errno = 0;
        long long place = **text >= '0' && **text <= '9' ? strtoll(*text, &behind, 10) : -1;
        if (place < 0 || place >= INT32_MAX || errno)
            return false;
        *text = behind;
        *ends[i] = (int)place;
        if (i == 0 && *behind != '-') {
            out->last = out->first;
            return true;
        }
        *text += i == 0;
    }
    return out->first < out->last;
}

static bool read_ranges(const struct json *at, enum config_fate fate, struct claim *claim, struct error *err)
{
    const char *text = NULL;
    if (!json_string(at, &text, err))
        return false;
    for (bool more = true; more; text++) {
        struct claimed_config *out = &claim->configs[claim->config_count++];
        *out = (struct claimed_config){ .fate = fate, .bound_ns = claim->bound_ns };
        if (!read_range(&text, out) || (*text && *text != ','))
            return json_fail(at, err, "expected places of configurations, as \"0-11,14\"");
        more = *text == ',';
    }
    return true;
}

static bool read_list(const struct json *list, enum config_fate fate, struct claim *claim, struct error *err)
{
    for (int i = 0; i < json_count(list); i++) {
        claim->multiplied |= json_type(json_at(list, i)) == JSON_ARRAY && json_count(json_at(list, i)) > 2;
        if (json_type(json_at(list, i)) == JSON_STRING
                ? !read_ranges(json_at(list, i), fate, claim, err)
                : !read_config(json_at(list, i), fate, &claim->configs[claim->config_count++], err))
            return false;
    }
    return true;
}

static bool read_configs(struct claim *claim, const struct claim_fields *f, struct error *err)
{
    int count = 0;
    for (int fate = 0; fate < FATE_COUNT; fate++) {
        if (!f->fates[fate])
            continue; /* an older certificate */
        if (json_type(f->fates[fate]) != JSON_ARRAY)
            return json_fail(f->fates[fate], err, "expected a list of configurations");
        for (int i = 0; i < json_count(f->fates[fate]); i++) {
            const struct json *at = json_at(f->fates[fate], i);
            const char *text = NULL;
            count++;
            if (json_type(at) == JSON_STRING && json_string(at, &text, NULL))
                for (; *text; text++)
                    count += *text == ',';
        }
    }
    claim->configs = arena_alloc(&claim->arena, (size_t)count + 1, sizeof *claim->configs);
    if (!claim->configs)
        return fail_memory(err);
    for (int fate = 0; fate < FATE_COUNT; fate++)
        if (f->fates[fate] && !read_list(f->fates[fate], (enum config_fate)fate, claim, err))
            return false;
    return true;
}

/* Older certificates have all that says how the search went, newer ones all that it left. */
static bool check_age(const struct json *certificate, const struct claim_fields *f, struct error *err)
{
    bool left = f->left >= 0, unseen = f->unseen >= 0, listed = f->fates[FATE_UNSEEN] != NULL,
         effort = f->candidates >= 0 && f->ranked >= 0 && f->judged >= 0 && f->rejected >= 0,
         any_effort = f->candidates >= 0 || f->ranked >= 0 || f->judged >= 0 || f->rejected >= 0;
    return (left ? unseen && listed && !any_effort : !unseen && !listed && effort) ||
           json_fail(certificate, err,
                     "expected left, unseen and configurations_unseen, or of an older cleave candidates, ranked, "
                     "judged and rejected");
}

bool claim_read(struct claim *out, const struct json *certificate, const struct space *space, struct error *err)
{
    struct claim_fields f = {
        .version = 1, .ideals = -1, .gap = NAN, .formula_gap = NAN, .proof_gap = NAN, .simulated_gap = NAN
    };
    f.asked_gap_ppm = f.left = f.unseen = f.candidates = f.ranked = f.judged = f.rejected = -1;
    *out = (struct claim){ .space = *space, .at = certificate };
    if (!json_read_fields(certificate, claim_fields, CLAIM_FIELDS, &f, &out->arena, err) ||
        !check_age(certificate, &f, err) || !read_space(f.space, &out->space, &out->arena, err))
        return false;
    out->version = f.version;
    out->bound_ns = f.bound_ns;
    out->simulated_bound_ns = f.simulated_bound_ns;
    out->formula_ns = f.formula_ns;
    out->best_ns = f.best_ns;
    out->best = f.best;
    out->space_hash = f.space_hash;
    out->prices_hash = f.prices_hash;
    out->digest = f.digest;
    out->bound_s = f.bound_s;
    out->simulated_bound_s = f.simulated_bound_s;
    out->formula_s = f.formula_s;
    out->memory_bytes = f.memory_bytes;
    out->complete = f.complete;
    out->asked_gap_ppm = f.asked_gap_ppm;
    out->coarse = f.coarse;
    out->configurations = f.configurations;
    out->pruned_memory = f.pruned_memory;
    out->pruned_bound = f.pruned_bound;
    out->solved = f.solved;
    out->refused = f.refused;
    out->older = f.left < 0;
    out->left = f.left;
    out->unseen = f.unseen;
    out->unbounded = f.beside;
    out->ideals = f.ideals;
    out->orders_bound_ns = f.orders_bound_ns;
    out->gap = f.gap;
    out->formula_gap = f.formula_gap;
    out->proof_gap = f.proof_gap;
    out->simulated_gap = f.simulated_gap;
    return (!f.best_plan || plan_json_read_decisions(&out->best_plan, f.best_plan, err)) && read_configs(out, &f, err);
}

void claim_free(struct claim *claim)
{
    plan_free(claim->best_plan);
    arena_free(&claim->arena);
}
