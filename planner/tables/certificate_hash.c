#include "planner/tables/certificate_hash.h"
#include "base/num.h"
#include "planner/space/config_name.h"
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
    struct space usual = space_default(space->batch, space->sequence, space->dtype);
    uint64_t hash = hash_allowed(hash_allowed(HASH_START, &space->shard_group), &space->slices);
    hash = hash_allowed(hash, &space->turns);
    if (space->bucket.count != 1 || space_bucket_bytes(space) != space_bucket_bytes(&usual))
        hash = hash_allowed(hash, &space->bucket);
    for (int zero = 0; zero <= 3; zero++)
        hash = hash_i64(hash, allows(&space->zero, zero));
    for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++)
        hash = hash_i64(hash, allows(&space->recompute, recompute));
    for (int offload = OFFLOAD_NONE + 1; offload < OFFLOAD_COUNT; offload++)
        if (allows(&space->offload, offload))
            hash = hash_i64(hash, offload);
    if (!allows(&space->offload, OFFLOAD_NONE))
        hash = hash_i64(hash, OFFLOAD_NONE);
    for (int reshard = 0; reshard < RESHARD_COUNT; reshard++)
        if (allows(&space->reshard, reshard) != (reshard == RESHARD_EACH_PASS)) /* unlike the default */
            hash = hash_i64(hash_string(hash, reshard_names[reshard]), allows(&space->reshard, reshard));
    if (space->replicate.count != 1 || space->replicate.values[0] != 0)
        hash = hash_allowed(hash_string(hash, "replicate"), &space->replicate);
    for (int i = 0; i < space->rule_count; i++) {
        const struct layer_rule *rule = &space->rules[i];
        hash = hash_i64(hash_i64(hash_i64(hash, rule->first), rule->last), rule->choice);
        hash = hash_allowed(hash, &rule->allowed);
    }
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
    /* a price is nothing but int64_t */
    hash->last_prices =
        hash_words(hash->last_prices, (const int64_t *)table->prices, count * sizeof *table->prices / sizeof(int64_t));
    return hash->last_prices;
}

void certificate_hash_add(struct certificate_hash *hash, const struct config *config, const struct price_table *table)
{
    char name[CONFIG_NAME_BYTES];
    hash->space = hash_string(hash->space, config_name(name, config));
    hash->prices = hash_i64(hash->prices, table != NULL);
    for (int k = 0; table && k < (table->by_stage ? config_pieces(config) : 1); k++)
        hash->prices = hash_i64(hash->prices, (int64_t)hash_table(hash, price_of_stage(table, k)));
    /* replicas on one type add their exchange alone */
    for (int i = 0; table && table->by_place && i < table->mesh_count * table->turn_count; i++)
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
