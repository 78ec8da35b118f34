/* Prices by device, and what a step takes of them. */
#define _GNU_SOURCE
#include "cli/prices.h"
#include "planner/facts/cluster_hint.h"
#include <stdlib.h>
#include <string.h>

struct reading {
    const struct cluster *cluster; /* may be NULL: none */
    const struct catalogue_entry *catalogue;
    int catalogue_count;
};

static bool is_device(const struct reading *r, const char *name)
{
    for (int t = 0; r->cluster && t < r->cluster->type_count; t++)
        if (strcmp(r->cluster->types[t].device.name, name) == 0)
            return true;
    return cluster_catalogue_find(r->catalogue, r->catalogue_count, name) != NULL;
}

static bool fail_device(const struct reading *r, const char *name, struct error *err)
{
    struct text hint = { 0 };
    cluster_catalogue_hint(&hint, r->catalogue, r->catalogue_count, name);
    fail(err, "--price: expected a device of the cluster or of `cleave devices`, found \"%s\"%s", name,
         hint.data ? hint.data : "");
    text_free(&hint);
    return false;
}

/* One "h100-sxm=2.5"; the text is cut in place. */
static bool read_price(struct prices *out, const struct reading *r, char *item, struct error *err)
{
    char *equals = strchr(item, '=');
    double value = 0;
    if (!equals || equals == item)
        return fail(err, "--price: expected TYPE=DOLLARS, such as h100-sxm=2.5, found '%s'", item);
    *equals = 0;
    const char *number = equals + 1 + (equals[1] == '$');
    if (!text_read_double(number, strlen(number), &value) || !(value > 0 && value <= 1e6))
        return fail(err, "--price: %s: expected dollars of one device for an hour, such as 2.5, found '%s'", item,
                    equals + 1);
    if (!is_device(r, item))
        return fail_device(r, item, err);
    double known = prices_of(out, item);
    if (known >= 0)
        return known == value ||
               fail(err, "--price: %s is given twice, %g and %g; leave one of them out", item, known, value);
    if (out->count == MAX_PRICES)
        return fail(err, "--price: expected at most %d devices, found more", MAX_PRICES);
    out->of[out->count].device = item;
    out->of[out->count++].dollars_per_hour = value;
    return true;
}

bool prices_read(struct prices *out, struct arena *arena, const struct text_list *given, const struct cluster *cluster,
                 const struct catalogue_entry *catalogue, int catalogue_count, struct error *err)
{
    struct reading r = { cluster, catalogue, catalogue_count };
    *out = (struct prices){ 0 };
    for (int i = 0; i < given->count; i++) {
        char *copy = arena_strdup(arena, given->item[i]), *rest = NULL, *item;
        if (!copy)
            return fail_memory(err);
        if (!copy[strspn(copy, ",")])
            return fail(err, "--price: expected TYPE=DOLLARS, such as h100-sxm=2.5, found '%s'", copy);
        for (item = strtok_r(copy, ",", &rest); item; item = strtok_r(NULL, ",", &rest))
            if (!read_price(out, &r, item, err))
                return false;
    }
    return true;
}

double prices_of(const struct prices *prices, const char *device)
{
    for (int i = 0; i < prices->count; i++)
        if (strcmp(prices->of[i].device, device) == 0)
            return prices->of[i].dollars_per_hour;
    return -1;
}

double prices_of_cluster(const struct prices *prices, const struct cluster *cluster)
{
    double dollars = 0;
    for (int t = 0; t < cluster->type_count; t++) {
        double own = prices_of(prices, cluster->types[t].device.name);
        if (own < 0)
            return -1;
        dollars += own * cluster->types[t].device_count;
    }
    return dollars;
}

bool prices_need(const struct prices *prices, const struct cluster *cluster, const char *what, struct error *err)
{
    struct text missing = { 0 };
    for (int t = 0; t < cluster->type_count; t++) {
        const char *name = cluster->types[t].device.name;
        if (prices_of(prices, name) < 0)
            text_printf(&missing, " --price %s=DOLLARS", name);
    }
    bool known = missing.length == 0;
    if (!known)
        fail(err, "%s needs what a device costs for an hour: give%s", what, missing.data ? missing.data : "");
    text_free(&missing);
    return known;
}

struct spending spending_of(const struct prices *prices, const struct cluster *cluster, int64_t step_ns, int64_t tokens)
{
    struct spending s = { .dollars_per_hour = prices_of_cluster(prices, cluster),
                          .step_s = (double)step_ns / 1e9,
                          .tokens = (double)tokens };
    for (int t = 0; t < cluster->type_count; t++) {
        double watts = cluster->types[t].device.watts;
        if (!(watts > 0)) {
            s.watts = 0;
            return s;
        }
        s.watts += watts * cluster->types[t].device_count;
    }
    return s;
}

double spending_dollars(const struct spending *s)
{
    return s->dollars_per_hour * s->step_s / 3600;
}

double spending_kwh(const struct spending *s)
{
    return s->watts * s->step_s / 3.6e6;
}

double spending_per_billion(const struct spending *s, double of_a_step)
{
    return of_a_step * 1e9 / s->tokens;
}

char *spending_number(char out[TEXT_NUMBER_BYTES], double value)
{
    snprintf(out, TEXT_NUMBER_BYTES, value >= 1000 ? "%.0f" : "%.4g", value);
    return out;
}

void spending_print(const struct cli *cli, const struct spending *s, const char *unit)
{
    char step[TEXT_NUMBER_BYTES], billion[TEXT_NUMBER_BYTES], hour[TEXT_NUMBER_BYTES];
    double dollars = spending_dollars(s), kwh = spending_kwh(s);
    if (s->dollars_per_hour >= 0)
        fprintf(cli->out, "cost: $%s a step, $%s per 1e9 %s, at $%s an hour for all devices\n",
                spending_number(step, dollars), spending_number(billion, spending_per_billion(s, dollars)), unit,
                spending_number(hour, s->dollars_per_hour));
    if (s->watts > 0)
        fprintf(cli->out, "energy: %s kWh a step, %s kWh per 1e9 %s, at the %s kW that the devices are rated for\n",
                spending_number(step, kwh), spending_number(billion, spending_per_billion(s, kwh)), unit,
                spending_number(hour, s->watts / 1000));
}

void spending_put(struct json_writer *w, const struct spending *s)
{
    if (s->dollars_per_hour >= 0) {
        json_put_double(w, "dollars_per_hour", s->dollars_per_hour);
        json_put_double(w, "dollars_per_step", spending_dollars(s));
        json_put_double(w, "dollars_per_1e9_tokens", spending_per_billion(s, spending_dollars(s)));
    }
    if (s->watts > 0) {
        json_put_double(w, "watts", s->watts);
        json_put_double(w, "kwh_per_step", spending_kwh(s));
        json_put_double(w, "kwh_per_1e9_tokens", spending_per_billion(s, spending_kwh(s)));
    }
}
