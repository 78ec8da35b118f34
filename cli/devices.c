#include "cli/inputs.h"
#include "base/text.h"
#include <stdlib.h>
#include <string.h>

struct devices_options {
    const char *cluster;
    bool json;
};
static const struct option options[] = {
    TEXT_OPTION("cluster", offsetof(struct devices_options, cluster), "CLUSTER",
                "instead: the devices and links of this cluster, by rank"),
    FLAG_OPTION("json", offsetof(struct devices_options, json), "one JSON object"),
};

/* Of the sources the first, which most numbers are from: the others are for who asks. */
static void print_row(const struct cli *cli, const struct device_type *d)
{
    char memory[TEXT_NUMBER_BYTES], matmul[TEXT_NUMBER_BYTES], link[TEXT_NUMBER_BYTES], nic[TEXT_NUMBER_BYTES];
    enum dtype dtype = d->matmul_flops_per_s[DTYPE_BF16] > 0   ? DTYPE_BF16
                       : d->matmul_flops_per_s[DTYPE_FP16] > 0 ? DTYPE_FP16
                                                               : DTYPE_FP32;
    int first = (int)strcspn(d->source, ";");
    fprintf(cli->out, "%-16s %10s  %16s %-4s  %12s  %12s  %.*s%s%s\n", d->name, text_bytes(memory, d->memory_bytes),
            text_rate(matmul, d->matmul_flops_per_s[dtype], "FLOP/s"), dtype_names[dtype],
            text_rate(link, d->link_bytes_per_s, "B/s"), text_rate(nic, d->nic_bytes_per_s, "B/s"), first, d->source,
            d->source[first] ? "; ..." : "", d->from_memory ? " (some numbers unconfirmed)" : "");
}

static void write_row(struct json_writer *w, const struct device_type *d)
{
    json_begin_object(w);
    json_put_string(w, "name", d->name);
    json_put_string(w, "description", d->description);
    json_put_int(w, "memory_bytes", d->memory_bytes);
    json_write_key(w, "matmul_flops_per_s");
    json_begin_object(w);
    for (int i = 0; i < DTYPE_COUNT; i++)
        if (d->matmul_flops_per_s[i] > 0) {
            json_put_double(w, dtype_names[i], d->matmul_flops_per_s[i]);
        }
    json_end_object(w);
    json_put_double(w, "memory_bytes_per_s", d->memory_bytes_per_s);
    json_put_double(w, "link_bytes_per_s", d->link_bytes_per_s);
    json_put_double(w, "nic_bytes_per_s", d->nic_bytes_per_s);
    json_put_string(w, "source", d->source);
    json_put_string(w, "from_memory", d->from_memory);
    json_end_object(w);
}

/* ---- one cluster ---- */

static void print_links(const struct cli *cli, const struct cluster *cluster, const struct node_type *type)
{
    char rate[TEXT_NUMBER_BYTES], latency[TEXT_NUMBER_BYTES];
    for (int i = 0; i < cluster->level_count; i++) {
        const struct link_level *l = &type->levels[i];
        fprintf(cli->out, "    %-10s %4d x  %s%s at %.0f %%, %s\n", l->name ? l->name : "", l->fanout,
                text_rate(rate, l->bytes_per_s, "B/s"), l->shared ? " shared" : "", 100 * l->efficiency,
                text_duration_ns(latency, l->latency_ns));
    }
}

static void print_host(const struct cli *cli, const struct device_type *d)
{
    char rate[TEXT_NUMBER_BYTES], bytes[TEXT_NUMBER_BYTES];
    if (d->host_bytes_per_s <= 0)
        return;
    fprintf(cli->out, "    host memory: %s each way", text_rate(rate, d->host_bytes_per_s, "B/s"));
    if (d->host_memory_bytes > 0)
        fprintf(cli->out, ", %s for each device", text_bytes(bytes, d->host_memory_bytes));
    fprintf(cli->out, "\n");
}

static void print_cluster(const struct cli *cli, const struct cluster *cluster)
{
    char memory[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "%s: %d devices\n", cluster->name, cluster->device_count);
    for (int g = 0; g < cluster->group_count; g++) {
        const struct node_group *group = &cluster->groups[g];
        fprintf(cli->out, "  ranks %d to %d: %s\n", group->first_rank, group->first_rank + group->device_count - 1,
                cluster->types[group->type].device.name);
    }
    for (int t = 0; t < cluster->type_count; t++) {
        const struct node_type *type = &cluster->types[t];
        fprintf(cli->out, "  %s: %d devices, %s usable of each\n", type->device.name, type->device_count,
                text_bytes(memory, type->memory_bytes));
        print_links(cli, cluster, type);
        print_host(cli, &type->device);
    }
}

static void write_levels(struct json_writer *w, const struct cluster *cluster, const struct node_type *type)
{
    json_write_key(w, "levels");
    json_begin_array(w);
    for (int i = 0; i < cluster->level_count; i++) {
        json_begin_object(w);
        link_level_put(w, &type->levels[i]);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_host(struct json_writer *w, const struct device_type *d)
{
    if (d->host_bytes_per_s <= 0)
        return;
    json_put_double(w, "host_bytes_per_s", d->host_bytes_per_s);
    json_put_int(w, "host_latency_ns", d->host_latency_ns);
    if (d->host_memory_bytes > 0)
        json_put_int(w, "host_memory_bytes", d->host_memory_bytes);
}

/* Of equal clusters equal bytes, whichever form they were given in. */
static void write_cluster(struct json_writer *w, const struct cluster *cluster)
{
    json_put_int(w, "device_count", cluster->device_count);
    json_write_key(w, "groups");
    json_begin_array(w);
    for (int g = 0; g < cluster->group_count; g++) {
        json_begin_object(w);
        json_put_int(w, "type", cluster->groups[g].type);
        json_put_int(w, "first_rank", cluster->groups[g].first_rank);
        json_put_int(w, "device_count", cluster->groups[g].device_count);
        json_end_object(w);
    }
    json_end_array(w);
    json_write_key(w, "types");
    json_begin_array(w);
    for (int t = 0; t < cluster->type_count; t++) {
        json_begin_object(w);
        json_put_string(w, "device", cluster->types[t].device.name);
        json_put_int(w, "device_count", cluster->types[t].device_count);
        json_put_int(w, "memory_bytes", cluster->types[t].device.memory_bytes);
        json_put_int(w, "reserve_bytes", cluster->types[t].device.reserve_bytes);
        write_host(w, &cluster->types[t].device);
        write_levels(w, cluster, &cluster->types[t]);
        json_end_object(w);
    }
    json_end_array(w);
}

static bool show_cluster(const struct cli *cli, const struct devices_options *o, struct inputs *in, struct error *err)
{
    struct json_writer w = { 0 };
    if (!inputs_cluster(in, o->cluster, err))
        return false;
    if (!o->json) {
        print_cluster(cli, in->cluster);
        return true;
    }
    json_begin_format(&w, "cleave-cluster-summary", 1);
    write_cluster(&w, in->cluster);
    json_end_object(&w);
    return inputs_hand_out_json(cli, NULL, &w, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct devices_options *o = given;
    struct inputs in = { .cli = cli };
    struct json_writer w = { 0 };
    (void)operands, (void)operand_count;
    if (!inputs_catalogue(&in, err))
        goto cleanup;
    if (o->cluster) {
        show_cluster(cli, o, &in, err);
        goto cleanup;
    }
    if (o->json) {
        json_begin_format(&w, "cleave-devices", 1);
        json_write_key(&w, "devices");
        json_begin_array(&w);
    } else
        fprintf(cli->out, "%-16s %10s  %21s  %12s  %12s  %s\n", "device", "memory", "dense matmul peak", "link/dir",
                "network/dir", "source");
    for (int i = 0; i < in.catalogue->count; i++) {
        struct device_type device = { 0 };
        const struct catalogue_entry *entry = &in.catalogue->entries[i];
        if (!device_type_read(&device, &in.arena, entry->name, entry->json, entry->length, err))
            goto cleanup;
        if (o->json)
            write_row(&w, &device);
        else
            print_row(cli, &device);
    }
    if (o->json) {
        json_end_array(&w);
        json_end_object(&w);
        inputs_hand_out_json(cli, NULL, &w, err);
    } else {
        fprintf(cli->talk, "all numbers and sources: cleave devices --json\n");
    }
cleanup:
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_devices = {
    .name = "devices",
    .summary = "lists the device types that clusters can name, with their sources",
    .usage = "[--cluster CLUSTER] [--json]",
    .examples = "  cleave devices\n  cleave devices --cluster 2x8:h100-sxm+4x8:a100-sxm-80\n",
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct devices_options),
    .run = run,
};
