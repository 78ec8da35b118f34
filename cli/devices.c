#include "cli/inputs.h"
#include "base/text.h"
#include <stdlib.h>

struct devices_options {
    bool json;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct devices_options, json), "one JSON object"),
};

static void print_row(const struct cli *cli, const struct device_type *d)
{
    char memory[TEXT_NUMBER_BYTES], matmul[TEXT_NUMBER_BYTES], link[TEXT_NUMBER_BYTES], nic[TEXT_NUMBER_BYTES];
    enum dtype dtype = d->matmul_flops_per_s[DTYPE_BF16] > 0   ? DTYPE_BF16
                       : d->matmul_flops_per_s[DTYPE_FP16] > 0 ? DTYPE_FP16
                                                               : DTYPE_FP32;
    fprintf(cli->out, "%-16s %10s  %16s %-4s  %12s  %12s  %s%s\n", d->name, text_bytes(memory, d->memory_bytes),
            text_rate(matmul, d->matmul_flops_per_s[dtype], "FLOP/s"), dtype_names[dtype],
            text_rate(link, d->link_bytes_per_s, "B/s"), text_rate(nic, d->nic_bytes_per_s, "B/s"), d->source,
            d->from_memory ? " (some numbers unconfirmed)" : "");
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

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct devices_options *o = given;
    struct inputs in = { .cli = cli };
    struct json_writer w = { 0 };
    (void)operands, (void)operand_count;
    if (!inputs_catalogue(&in, err))
        goto cleanup;
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
        size_t length = 0;
        json_end_array(&w);
        json_end_object(&w);
        char *text = json_finish(&w, &length);
        inputs_hand_out(cli, NULL, text, length, err);
    }
cleanup:
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_devices = {
    .name = "devices",
    .summary = "lists the device types that clusters can name, with their sources",
    .usage = "[--json]",
    .examples = "  cleave devices\n",
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct devices_options),
    .run = run,
};
