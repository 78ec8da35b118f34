#include "planner/tables/certificate_hash.h"
#include "base/num.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t hash_allowed(uint64_t hash, const struct allowed *allowed)
{
    hash = hash_i64(hash, allowed->count);
    for (int i = 0; i < allowed->count; i++)
        hash = hash_i64(hash, allowed->values[i]);
    return hash;
}

struct certificate_hash certificate_hash_start(const struct space *space)
{
    uint64_t hash = HASH_START;
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        if (!space_is_default(space, (enum space_choice)choice))
            hash = hash_allowed(hash_string(hash, choice_facts[choice].name), &space->range[choice]);
    for (int i = 0; i < space->rule_count; i++) {
        const struct layer_rule *rule = &space->rules[i];
        hash = hash_i64(hash_i64(hash_string(hash, choice_facts[rule->choice].name), rule->first), rule->last);
        hash = hash_allowed(hash, &rule->allowed);
    }
    for (int k = 0; k < space->cut.count; k++)
        hash = hash_i64(hash, space->cut.first[k]);
    return (struct certificate_hash){ .space = hash, .prices = HASH_START };
}

void certificate_hash_orders(struct certificate_hash *hash, int64_t ideals)
{
    if (ideals >= 0)
        hash->space = hash_i64(hash->space, ideals);
}

static uint64_t hash_table(struct certificate_hash *hash, const struct price_table *table)
{
    size_t count = (size_t)table->class_count * (size_t)table->strategy_count;
    if (hash->last == table)
        return hash->last_prices;
    hash->last = table;
    hash->last_prices = hash_i64(hash_i64(HASH_START, table->class_count), table->strategy_count);
    for (size_t i = 0; i < count; i++)
        hash->last_prices = price_hash(hash->last_prices, &table->prices[i]);
    return hash->last_prices;
}

/* Numbers as they are, names by their words: where a list in the source grows, they stay what they are. */
static uint64_t hash_config(uint64_t hash, const struct config *config)
{
    int64_t words[3 + MAX_ATOMS + LISTED_CHOICES + MOST_ORDERED_GROUPS] = { config->stages, config->meshes,
                                                                            config->order.index };
    char text[CHOICE_VALUE_BYTES];
    size_t count = 3;
#define HASH_NUMBER(id, value) words[count++] = (value);
#define HASH_BYTES(id, value) words[count++] = (value);
#define HASH_NAME(id, value) hash = hash_string(hash, choice_value_name(text, CHOICE_##id, value));
#define CHOICE(id, member, name, scope, kind, ...) OF_PLAN_##scope(HASH_##kind(id, config->member))
#include "planner/space/choices.def"
#undef CHOICE
    for (int i = 0; i < config->mesh.atom_count; i++) {
        hash = hash_string(hash, dimensions[config->mesh.dim[i]]->name);
        words[count++] = config->mesh.size[i];
    }
    for (int i = 0; i < config->order.group_count; i++)
        words[count++] = config->order.group[i];
    return hash_words(hash, words, count);
}

void certificate_hash_add(struct certificate_hash *hash, const struct config *config, const struct price_table *table)
{
    hash->space = hash_config(hash->space, config);
    hash->prices = hash_i64(hash->prices, table != NULL);
    for (int k = 0; table && k < (table->by_stage ? config_pieces(config) : 1); k++)
        hash->prices = hash_i64(hash->prices, (int64_t)hash_table(hash, price_of_stage(table, k)));
    /* replicas on one type add their exchange alone */
    for (int i = 0; table && table->by_place && i < table->mesh_count * table->shape_count; i++)
        if (table->by_place[i])
            hash->prices = hash_i64(hash->prices, (int64_t)hash_table(hash, table->by_place[i]));
}

void certificate_hash_text(char out[CERTIFICATE_DIGEST_BYTES], uint64_t hash)
{
    snprintf(out, CERTIFICATE_DIGEST_BYTES, "%016" PRIx64, hash);
}

bool certificate_digest(char out[CERTIFICATE_DIGEST_BYTES], const struct json *certificate)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    json_begin_object(&w);
    for (int i = 0; i < json_count(certificate); i++)
        if (strcmp(json_key(certificate, i), "digest") != 0) {
            json_write_key(&w, json_key(certificate, i));
            json_write_value(&w, json_member_at(certificate, i));
        }
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    if (text)
        certificate_hash_text(out, hash_bytes(HASH_START, text, length));
    free(text);
    return text != NULL;
}

const char *const config_fate_names[FATE_COUNT + 1] = {
    [FATE_SOLVED] = "solved", [FATE_MEMORY] = "memory", [FATE_REFUSED] = "refused",
    [FATE_LEFT] = "left",     [FATE_UNSEEN] = "unseen", NULL
};
