#include "formats/certificate_write.h"
#include "formats/plan_json.h"
#include "planner/search/narrower.h"
#include "planner/space/choice.h"
#include <stdlib.h>

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
    if (space->cut.count > 0) {
        json_write_key(w, "stages");
        json_begin_array(w);
        for (int k = 0; k < space->cut.count; k++)
            json_write_int(w, space->cut.first[k]);
        json_end_array(w);
    }
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
    json_put_int(w, "asked_gap_ppm", c->asked_gap_ppm);
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
    bool well =
        text && json_parse(&doc, "certificate", text, length, &err) && certificate_digest(digest, json_root(doc));
    json_put_string(w, "digest", digest);
    w->text.failed |= !well; /* out of memory */
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
    if (c->widened) {
        json_write_key(w, "widened");
        json_begin_array(w);
        for (int choice = 0; choice < CHOICE_COUNT; choice++)
            if (c->widened >> choice & 1)
                json_write_string(w, choice_facts[choice].name);
        json_end_array(w);
    }
    json_end_object(w);
}

void certificate_write(struct json_writer *w, const struct search_result *result, const struct space *space)
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
