/* The short form: NODESxDEVICES:TYPE[@key=value,...], several joined by '+'. */
#include "base/text.h"
#include "planner/facts/cluster_hint.h"
#include "planner/facts/cluster_parts.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scan {
    const char *name, *text;
    size_t length, at;
    int group_count;
    struct arena *arena;
    const struct catalogue_entry *catalogue;
    int catalogue_count;
};

enum { WORD_BYTES = 64 };

/* Fails at byte `at` of the text, in the form of JSON's messages; hint: "" for what the whole text may mean. */
static bool fail_at(const struct scan *scan, size_t at, struct error *err, const char *expected, const char *hint)
{
    char found[WORD_BYTES];
    size_t used = 0;
    while (at + used < scan->length && used < 24 && scan->text[at + used] > ' ' && scan->text[at + used] < 127)
        used++;
    memcpy(found, scan->text + at, used);
    found[used] = '\0';
    const char *what = at >= scan->length ? "the end" : used > 0 ? found : "an unprintable character";
    struct text own = { 0 };
    if (!*hint)
        cluster_hint(&own, scan->text, scan->length, scan->catalogue, scan->catalogue_count);
    fail_kind(err, ERROR_INPUT, "%s:1:%zu: expected %s, found %s%s%s%s", scan->name, at + 1, expected,
              used > 0 ? "\"" : "", what, used > 0 ? "\"" : "", own.data ? own.data : hint);
    text_free(&own);
    return false;
}

static bool scan_count(struct scan *scan, int limit, int *out, const char *expected, struct error *err)
{
    size_t start = scan->at;
    int64_t value = 0;
    while (scan->at < scan->length && scan->text[scan->at] >= '0' && scan->text[scan->at] <= '9' && value <= limit)
        value = value * 10 + (scan->text[scan->at++] - '0');
    if (scan->at == start || value < 1 || value > limit)
        return fail_at(scan, start, err, expected, "");
    *out = (int)value;
    return true;
}

static bool scan_character(struct scan *scan, char want, const char *expected, struct error *err)
{
    if (scan->at >= scan->length || scan->text[scan->at] != want)
        return fail_at(scan, scan->at, err, expected, "");
    scan->at++;
    return true;
}

/* Counts digits at the place, when an 'x' follows them; else 0. */
static size_t count_digits(const char *text, size_t length, size_t at)
{
    size_t i = at;
    while (i < length && text[i] >= '0' && text[i] <= '9')
        i++;
    return i < length && text[i] == 'x' ? i - at : 0;
}

/* True when a '+' joins another group here and is not the sign of an exponent: digits and an 'x' follow. */
static bool begins_group(const struct scan *scan, size_t at)
{
    return at < scan->length && scan->text[at] == '+' && count_digits(scan->text, scan->length, at + 1) > 0;
}

static bool is_short_form(const char *name)
{
    return count_digits(name, strlen(name), 0) > 0 && strchr(name, ':'); /* a file may be called 2x4.json */
}

bool cluster_scaled_name(struct text *out, const char *name, int times)
{
    size_t length = strlen(name), at = 0;
    if (!is_short_form(name))
        return false;
    while (at < length) {
        text_printf(out, "%lld", strtoll(name + at, NULL, 10) * times);
        at += count_digits(name, length, at);
        do
            text_add_bytes(out, &name[at++], 1);
        while (at < length && !(name[at - 1] == '+' && count_digits(name, length, at) > 0));
    }
    return true;
}

/* Scans a word up to one of the stop characters, the next group or the end. */
static bool scan_word(struct scan *scan, const char *stops, char out[WORD_BYTES], const char *expected,
                      struct error *err)
{
    size_t start = scan->at, used = 0;
    while (scan->at < scan->length && scan->text[scan->at] != '\0' && !strchr(stops, scan->text[scan->at]) &&
           !begins_group(scan, scan->at)) {
        if (used + 1 >= WORD_BYTES)
            return fail_at(scan, start, err, expected, "");
        out[used++] = scan->text[scan->at++];
    }
    out[used] = '\0';
    return used > 0 || fail_at(scan, start, err, expected, "");
}

static bool scan_device(struct scan *scan, struct device_type *device, struct error *err)
{
    char word[WORD_BYTES];
    struct text hint = { 0 };
    size_t start = scan->at;
    if (!scan_word(scan, "@+", word, "a device of `cleave devices`", err))
        return false;
    const struct catalogue_entry *entry = cluster_catalogue_find(scan->catalogue, scan->catalogue_count, word);
    if (entry)
        return device_type_read(device, scan->arena, entry->name, entry->json, entry->length, err);
    if (word[strcspn(word, ",; ")])
        text_add(&hint, "; several types are joined by +, such as 1x8:a100-sxm-80+1x8:h100-sxm");
    else
        cluster_catalogue_hint(&hint, scan->catalogue, scan->catalogue_count, word);
    fail_at(scan, start, err, "a device of `cleave devices`", hint.data ? hint.data : "");
    text_free(&hint);
    return false;
}

enum short_option {
    OPTION_INTER,
    OPTION_INTRA,
    OPTION_LATENCY,
    OPTION_INTRA_LATENCY,
    OPTION_MEMORY,
    OPTION_RESERVE,
    OPTION_HOST,
    OPTION_HOST_LATENCY,
    OPTION_HOST_MEMORY,
    OPTION_COUNT
};
struct option_facts {
    const char *key, *expected;
    double min, max;
    bool outer; /* speaks of the links between nodes */
    bool bytes; /* may have a unit, such as GiB */
};
static const struct option_facts option_table[OPTION_COUNT] = {
    [OPTION_INTER] = { "inter", "bytes per second as a number like 50e9", 1, 1e24, true },
    [OPTION_INTRA] = { "intra", "bytes per second as a number like 300e9", 1, 1e24, false },
    [OPTION_LATENCY] = { "latency", "seconds as a number like 5e-6", 0, 1e3, true },
    [OPTION_INTRA_LATENCY] = { "intra-latency", "seconds as a number like 2e-6", 0, 1e3, false },
    [OPTION_MEMORY] = { "memory", "bytes like 80e9 or 80GiB", 1, 1e15, false, true },
    [OPTION_RESERVE] = { "reserve", "bytes like 4e9 or 4GiB, or a share like 5%", 0, 1e15, false, true },
    [OPTION_HOST] = { "host", "bytes per second as a number like 30e9", 1, 1e24, false },
    [OPTION_HOST_LATENCY] = { "host-latency", "seconds as a number like 1e-5", 0, 1e3, false },
    [OPTION_HOST_MEMORY] = { "host-memory", "bytes like 250e9 or 250GiB", 1, 1e15, false, true },
};

/* Reads a number; where it may have one, with a unit. */
static bool read_value(const struct option_facts *facts, const char *word, size_t length, double *value)
{
    int64_t bytes = 0;
    if (text_read_double(word, length, value))
        return true;
    bool good = facts->bytes && word[length] == '\0' && text_read_bytes(word, &bytes);
    *value = (double)bytes;
    return good;
}

static bool scan_number(struct scan *scan, const struct option_facts *facts, double *out, bool *percent,
                        struct error *err)
{
    char word[WORD_BYTES];
    size_t start = scan->at;
    if (!scan_word(scan, ",", word, facts->expected, err))
        return false;
    size_t length = strlen(word);
    *percent = length > 1 && word[length - 1] == '%';
    double value;
    if (!read_value(facts, word, length - (*percent ? 1 : 0), &value) || value < facts->min || value > facts->max)
        return fail_at(scan, start, err, facts->expected, "");
    *out = value;
    return true;
}

static void apply_option(struct group_text *group, enum short_option option, double value, bool percent)
{
    struct device_type *device = &group->device;
    struct link_level *inner = &group->level[0], *outer = &group->level[group->level_count - 1];
    double *const rates[OPTION_COUNT] = { [OPTION_INTER] = &outer->bytes_per_s,
                                          [OPTION_INTRA] = &inner->bytes_per_s,
                                          [OPTION_HOST] = &device->host_bytes_per_s };
    int64_t *const latencies[OPTION_COUNT] = { [OPTION_LATENCY] = &outer->latency_ns,
                                               [OPTION_INTRA_LATENCY] = &inner->latency_ns,
                                               [OPTION_HOST_LATENCY] = &device->host_latency_ns };
    int64_t *const bytes[OPTION_COUNT] = { [OPTION_MEMORY] = &device->memory_bytes,
                                           [OPTION_RESERVE] = &device->reserve_bytes,
                                           [OPTION_HOST_MEMORY] = &device->host_memory_bytes };
    if (rates[option])
        *rates[option] = value;
    else if (latencies[option])
        *latencies[option] = llround(value * 1e9);
    else
        *bytes[option] = llround(percent ? value / 100 * (double)device->memory_bytes : value);
}

static enum short_option find_option(const char *word)
{
    int i = 0;
    while (i < OPTION_COUNT && strcmp(option_table[i].key, word) != 0)
        i++;
    return (enum short_option)i;
}

/* memory= is applied before reserve=, whatever their order, since a share is of the memory. */
static bool scan_options(struct scan *scan, struct group_text *group, struct error *err)
{
    static const char *const keys = "one of inter, intra, latency, intra-latency, memory, reserve, host, "
                                    "host-latency, host-memory";
    double values[OPTION_COUNT];
    bool given[OPTION_COUNT] = { false }, percents[OPTION_COUNT] = { false };
    size_t reserve_at = scan->at, memory_at = scan->at;
    do {
        char word[WORD_BYTES];
        size_t start = scan->at;
        if (!scan_word(scan, "=,", word, keys, err))
            return false;
        enum short_option option = find_option(word);
        if (option == OPTION_COUNT)
            return fail_at(scan, start, err, keys, "");
        if (given[option])
            return fail_at(scan, start, err, "each key once", "");
        if (option_table[option].outer && group->level_count == 1)
            return fail_at(scan, start, err,
                           "a key of one node (intra, intra-latency, memory, reserve, host, host-latency, "
                           "host-memory)",
                           "");
        if (!scan_character(scan, '=', "'='", err))
            return false;
        size_t value_at = scan->at;
        if (!scan_number(scan, &option_table[option], &values[option], &percents[option], err))
            return false;
        if (percents[option] && (option != OPTION_RESERVE || values[option] >= 100))
            return fail_at(scan, value_at, err,
                           option == OPTION_RESERVE ? "a share below 100%" : option_table[option].expected, "");
        if (option == OPTION_RESERVE)
            reserve_at = value_at;
        if (option == OPTION_MEMORY)
            memory_at = value_at;
        given[option] = true;
    } while (scan->at < scan->length && scan->text[scan->at] == ',' && scan->at++ < scan->length);
    for (int i = 0; i < OPTION_COUNT; i++)
        if (given[i])
            apply_option(group, (enum short_option)i, values[i], percents[i]);
    if (group->device.reserve_bytes < group->device.memory_bytes)
        return true;
    return given[OPTION_RESERVE]
               ? fail_at(scan, reserve_at, err, "a reserve below the device's memory", "")
               : fail_at(scan, memory_at, err, "more memory than the device keeps back, such as 80GiB", "");
}

static bool scan_group(struct scan *scan, struct group_text *group, int64_t *devices, struct error *err)
{
    int nodes, per_node;
    if (!scan_count(scan, MAX_DEVICES, &nodes,
                    "a number of nodes from 1 to 1048576, as in \"16x8:a100-sxm-80\" or a JSON file", err) ||
        !scan_character(scan, 'x', "'x'", err))
        return false;
    size_t per_node_at = scan->at;
    if (!scan_count(scan, MAX_DEVICES, &per_node, "a number of devices per node from 1 to 1048576", err))
        return false;
    *devices += (int64_t)nodes * per_node;
    if (*devices > MAX_DEVICES)
        return fail_at(scan, per_node_at, err, "at most 1048576 devices in all", "");
    if (!scan_character(scan, ':', "':' and a device", err) || !scan_device(scan, &group->device, err))
        return false;
    group->level[group->level_count++] = device_type_link(&group->device);
    group->level[0].fanout = per_node;
    if (nodes > 1 || scan->group_count > 1) { /* a lone node has no network, unless there are others of another kind */
        group->level[group->level_count++] = device_type_nic(&group->device);
        group->level[1].fanout = nodes;
    }
    if (scan->at == scan->length || scan->text[scan->at] == '+')
        return true;
    return scan_character(scan, '@', "'@', '+' or the end", err) && scan_options(scan, group, err);
}

bool cluster_read_short(struct cluster *cluster, const char *name, const char *text, size_t length,
                        const struct catalogue_entry *catalogue, int catalogue_count, struct error *err)
{
    struct scan scan = { .name = name, .text = text, .length = length, .arena = &cluster->arena };
    int64_t devices = 0;
    scan.group_count = 1;
    for (size_t i = 0; i < length; i++)
        scan.group_count += begins_group(&scan, i) && scan.group_count <= MAX_NODE_GROUPS;
    scan.catalogue = catalogue;
    scan.catalogue_count = catalogue_count;
    struct arena scratch = { 0 };
    struct group_text *groups = arena_alloc(&scratch, MAX_NODE_GROUPS, sizeof *groups);
    bool good = groups != NULL || fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    int count = 0;
    for (bool more = true; good && more; count++) {
        good = count < MAX_NODE_GROUPS ? scan_group(&scan, &groups[count], &devices, err)
                                       : fail_at(&scan, scan.at, err, "at most 64 groups of nodes", "");
        more = scan.at < length;
        good = good && (!more || scan_character(&scan, '+', "'+' and another group of nodes, or the end", err));
    }
    good = good && cluster_build(cluster, groups, count, false, err);
    arena_free(&scratch);
    return good;
}

/* ---- parts ---- */

/* Measures a group as it is written: counts, the device, and its options behind '@'. */
static size_t group_length(const char *group)
{
    size_t length = strlen(group), at = 1;
    while (at < length && !(group[at - 1] == '+' && count_digits(group, length, at) > 0))
        at++;
    return at < length ? at - 1 : length;
}

/* Finds the first group of the type; NULL where the name speaks of another cluster. */
static const char *group_of_type(const struct cluster *whole, int type)
{
    const char *group = whole->name;
    int64_t rank = 0;
    while (*group && rank < whole->device_count && cluster_type(whole, (int)rank) != type) {
        int64_t nodes = strtoll(group, NULL, 10);
        rank += nodes * strtoll(strchr(group, 'x') + 1, NULL, 10);
        group += group_length(group);
        group += *group == '+';
    }
    return *group && rank < whole->device_count ? group : NULL;
}

/* Writes the device with its options, but those of a network where there is none. */
static void write_device(struct text *out, const char *group, bool alone)
{
    const char *end = group + group_length(group), *at = strchr(group, ':');
    bool first = true;
    size_t length = strcspn(at, "@+");
    text_add_bytes(out, at, length);
    for (at += length; at < end; at += length) {
        char key[WORD_BYTES] = "";
        length = 1 + strcspn(at + 1, ",");
        length = at + length > end ? (size_t)(end - at) : length;
        snprintf(key, sizeof key, "%.*s", (int)strcspn(at + 1, "="), at + 1);
        enum short_option option = find_option(key);
        if (alone && option != OPTION_COUNT && option_table[option].outer)
            continue;
        text_add(out, first ? "@" : ",");
        text_add_bytes(out, at + 1, length - 1);
        first = false;
    }
}

bool cluster_part_name(struct text *out, const struct cluster *whole, const struct cluster *part, const int *types)
{
    if (!whole->name || !is_short_form(whole->name))
        return false;
    for (int g = 0; g < part->group_count; g++) {
        const struct node_group *own = &part->groups[g];
        const char *group = group_of_type(whole, types[own->type]);
        int node = part->level_count > 1 ? cluster_unit(part, own->type, 0) : own->device_count;
        if (!group)
            return false;
        text_printf(out, "%s%dx%d", g > 0 ? "+" : "", own->device_count / node, node);
        write_device(out, group, part->device_count == node);
    }
    return true;
}
