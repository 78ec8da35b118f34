/* The JSON forms: a device of the catalogue, and a cluster with its levels. */
#include "planner/facts/cluster_hint.h"
#include "planner/facts/cluster_parts.h"
#include "base/text.h"
#include <string.h>

/* The tables fill this: the struct's small integers are 64 bits wide in a file. */
struct device_text {
    struct device_type device;
    int64_t tile, units, per_node;
    const struct json *peaks, *surfaces, *measured;
};
struct level_text {
    struct link_level level;
    int64_t fanout;
};

#define DEVICE_AT(member) offsetof(struct device_text, device.member)
#define RATE .min = 1, .max = 1e24
#define FRACTION .min = 1e-6, .max = 1
#define STEP_NS .min = 0, .max = 1e12

static const struct json_field device_table[] = {
    { "name", FIELD_STRING, DEVICE_AT(name), .doc = "the device's name; the file's name when absent" },
    { "description", FIELD_STRING, DEVICE_AT(description), .required = true, .doc = "what it is, for people" },
    { "source", FIELD_STRING, DEVICE_AT(source), .required = true, .doc = "where each number comes from" },
    { "from_memory", FIELD_STRING, DEVICE_AT(from_memory), .doc = "the numbers that were not seen in a source" },
    { "matmul_flops_per_s", FIELD_NODE, offsetof(struct device_text, peaks), .required = true,
      .doc = "dense peak by dtype; a dtype that is absent is not supported" },
    { "matmul_efficiency", FIELD_DOUBLE, DEVICE_AT(matmul_efficiency), .required = true, FRACTION,
      .doc = "share of the peak that large matmuls reach" },
    { "fp8_matmul_efficiency", FIELD_DOUBLE, DEVICE_AT(fp8_matmul_efficiency), FRACTION,
      .doc = "the same of products in fp8; absent: as of all" },
    { "nvfp4_matmul_efficiency", FIELD_DOUBLE, DEVICE_AT(nvfp4_matmul_efficiency), FRACTION,
      .doc = "likewise, of products in nvfp4" },
    { "attention_forward_efficiency", FIELD_DOUBLE, DEVICE_AT(attention_forward_efficiency), .required = true, FRACTION,
      .doc = "share of the peak that attention reaches forward" },
    { "attention_backward_efficiency", FIELD_DOUBLE, DEVICE_AT(attention_backward_efficiency), .required = true,
      FRACTION, .doc = "share of the peak that attention reaches backward" },
    { "flash2_flops_per_s", FIELD_DOUBLE, DEVICE_AT(flash2_flops_per_s), RATE,
      .doc =
          "the most that FlashAttention-2 reaches, where other kernels do better; absent: it is what attention has" },
    { "matmul_tile", FIELD_INT, offsetof(struct device_text, tile), .min = 1, .max = 4096,
      .doc = "edge of a matmul's output tile" },
    { "compute_units", FIELD_INT, offsetof(struct device_text, units), .min = 0, .max = 1e6,
      .doc = "units that each work on one tile; 0: unknown" },
    { "vector_flops_per_s", FIELD_DOUBLE, DEVICE_AT(vector_flops_per_s), .required = true, RATE,
      .doc = "rate outside matmuls" },
    { "memory_bytes_per_s", FIELD_DOUBLE, DEVICE_AT(memory_bytes_per_s), .required = true, RATE,
      .doc = "peak rate of the memory" },
    { "memory_efficiency", FIELD_DOUBLE, DEVICE_AT(memory_efficiency), FRACTION,
      .doc = "share of it that streaming kernels reach" },
    { "memory_bytes", FIELD_INT, DEVICE_AT(memory_bytes), .required = true, .min = 1, .max = 1e15,
      .doc = "memory of one device, as its driver states the total: ECC's share of GDDR6 is not in it" },
    { "reserve_bytes", FIELD_INT, DEVICE_AT(reserve_bytes), .min = 0, .max = 1e15,
      .doc = "memory that a process cannot use: context, libraries, fragmentation" },
    { "launch_ns", FIELD_INT, DEVICE_AT(launch_ns), .required = true, STEP_NS, .doc = "time to start a kernel" },
    { "collective_launch_ns", FIELD_INT, DEVICE_AT(collective_launch_ns), STEP_NS,
      .doc = "time to start a collective" },
    { "devices_per_node", FIELD_INT, offsetof(struct device_text, per_node), .min = 1, .max = 1e4,
      .doc = "usual number in a node" },
    { "shared_host", FIELD_BOOL, DEVICE_AT(shared_host),
      .doc = "devices are cores of one host, which load each other" },
    { "link_bytes_per_s", FIELD_DOUBLE, DEVICE_AT(link_bytes_per_s), .required = true, RATE,
      .doc = "inside a node, per device and direction" },
    { "link_efficiency", FIELD_DOUBLE, DEVICE_AT(link_efficiency), FRACTION,
      .doc = "share of it that large collectives reach" },
    { "link_pass_bytes_per_s", FIELD_DOUBLE, DEVICE_AT(link_pass_bytes_per_s), RATE,
      .doc = "at which what collectives move inside a node passes each device's memory, beside its links; absent: that "
             "takes no time of its own" },
    { "link_mesh_devices", FIELD_INT, DEVICE_AT(link_mesh_devices), .min = 0, .max = MAX_DEVICES,
      .doc = "of a node that have links each to each instead of a switch, so that a group of fewer uses fewer of them; "
             "0: a switch" },
    { "link_latency_ns", FIELD_INT, DEVICE_AT(link_latency_ns), .required = true, STEP_NS,
      .doc = "of one step inside a node" },
    { "link_shared", FIELD_BOOL, DEVICE_AT(link_shared),
      .doc = "the rate is that of a node's bus, shared by its devices" },
    { "switch_reduce_factor", FIELD_DOUBLE, DEVICE_AT(switch_reduce_factor), .min = 0, .max = 100,
      .doc = "speed of all-reduces that a node's switch adds up, over the ring's; 0: it does not" },
    { "switch_reduce_latency_ns", FIELD_INT, DEVICE_AT(switch_reduce_latency_ns), STEP_NS,
      .doc = "of such an all-reduce" },
    { "nic_bytes_per_s", FIELD_DOUBLE, DEVICE_AT(nic_bytes_per_s), .required = true, RATE,
      .doc = "between nodes, per device and direction" },
    { "nic_efficiency", FIELD_DOUBLE, DEVICE_AT(nic_efficiency), FRACTION,
      .doc = "share of it that large collectives reach" },
    { "nic_latency_ns", FIELD_INT, DEVICE_AT(nic_latency_ns), .required = true, STEP_NS,
      .doc = "of one step between nodes" },
    { "nic_shared", FIELD_BOOL, DEVICE_AT(nic_shared),
      .doc = "the rate is that of a node's link, shared by its devices" },
    { "host_bytes_per_s", FIELD_DOUBLE, DEVICE_AT(host_bytes_per_s), RATE,
      .doc = "to and from host memory, per device and direction; absent: nothing can be offloaded" },
    { "host_latency_ns", FIELD_INT, DEVICE_AT(host_latency_ns), STEP_NS, .doc = "of one such copy" },
    { "host_memory_bytes", FIELD_INT, DEVICE_AT(host_memory_bytes), .min = 1, .max = 1e15,
      .doc = "memory of the host that plans may use: the share of one device" },
    { "watts", FIELD_DOUBLE, DEVICE_AT(watts), .min = 1, .max = 1e6,
      .doc = "of one device under load, as its maker rates it (TDP): what energy is reckoned by, and nothing else" },
    { "matmul_surfaces", FIELD_NODE, offsetof(struct device_text, surfaces),
      .doc =
          "array: measured times of matrix products over sizes, one for each dtype and phase; what is between them is "
          "interpolated" },
    { "measured", FIELD_NODE, offsetof(struct device_text, measured),
      .doc = "object: where, when and how well launch_ns, memory_efficiency, matmul_efficiency, matmul_tile and "
             "matmul_surfaces were measured" },
};

#define MEASURED_AT(member) offsetof(struct device_measured, member)
#define ERROR_LIMITS .min = 0, .max = 1e9
static const struct json_field measured_table[] = {
    { "machine", FIELD_STRING, MEASURED_AT(machine), .required = true, .doc = "what was measured" },
    { "backend", FIELD_STRING, MEASURED_AT(backend), .doc = "\"cpu\" or \"cuda\"" },
    { "software", FIELD_STRING, MEASURED_AT(software), .doc = "versions of what computed" },
    { "created", FIELD_STRING, MEASURED_AT(created), .doc = "when" },
    { "ranks", FIELD_INT, MEASURED_AT(ranks), .min = 1, .max = 1e6, .doc = "that ran at once" },
    { "repeats", FIELD_INT, MEASURED_AT(repeats), .min = 0, .max = 1e9, .doc = "steps that were timed" },
    { "instruction_ns", FIELD_INT, MEASURED_AT(instruction_ns), STEP_NS,
      .doc = "span of an instruction that does nothing, which was taken off" },
    { "launch_spread", FIELD_DOUBLE, MEASURED_AT(launch_spread), ERROR_LIMITS,
      .doc = "of launch_ns: interquartile range over median" },
    { "memory_spread", FIELD_DOUBLE, MEASURED_AT(memory_spread), ERROR_LIMITS,
      .doc = "likewise, of memory_bytes_per_s" },
    { "catalogue_error", FIELD_DOUBLE, MEASURED_AT(catalogue_error), ERROR_LIMITS,
      .doc = "mean relative error of products off the grid with the numbers before" },
    { "formula_error", FIELD_DOUBLE, MEASURED_AT(formula_error), ERROR_LIMITS,
      .doc = "likewise, with the fitted numbers and no surfaces" },
    { "surface_error", FIELD_DOUBLE, MEASURED_AT(surface_error), ERROR_LIMITS, .doc = "likewise, with surfaces" },
};

struct peaks {
    double flops_per_s[DTYPE_COUNT];
};
#define PEAK_AT(dtype) offsetof(struct peaks, flops_per_s) + (dtype) * sizeof(double)
static const struct json_field peak_table[] = {
    { "fp32", FIELD_DOUBLE, PEAK_AT(DTYPE_FP32), RATE, .doc = "floating-point operations per second" },
    { "fp64", FIELD_DOUBLE, PEAK_AT(DTYPE_FP64), RATE, .doc = "floating-point operations per second" },
    { "bf16", FIELD_DOUBLE, PEAK_AT(DTYPE_BF16), RATE, .doc = "floating-point operations per second" },
    { "fp16", FIELD_DOUBLE, PEAK_AT(DTYPE_FP16), RATE, .doc = "floating-point operations per second" },
    { "fp8", FIELD_DOUBLE, PEAK_AT(DTYPE_FP8), RATE, .doc = "floating-point operations per second" },
    { "nvfp4", FIELD_DOUBLE, PEAK_AT(DTYPE_NVFP4), RATE, .doc = "floating-point operations per second" },
};

#define LEVEL_AT(member) offsetof(struct level_text, level.member)
static const struct json_field level_table[] = {
    { "name", FIELD_STRING, LEVEL_AT(name), .doc = "\"node\", \"rack\", \"cluster\"" },
    { "fanout", FIELD_INT, offsetof(struct level_text, fanout), .required = true, .min = 1, .max = MAX_DEVICES,
      .doc = "units of the level below; at the first level devices" },
    { "bytes_per_s", FIELD_DOUBLE, LEVEL_AT(bytes_per_s), RATE,
      .doc = "per device and direction; the device's own when absent" },
    { "efficiency", FIELD_DOUBLE, LEVEL_AT(efficiency), FRACTION, .doc = "share of it that large collectives reach" },
    { "latency_ns", FIELD_INT, LEVEL_AT(latency_ns), STEP_NS, .doc = "of one step at this level" },
    { "switch_reduce_factor", FIELD_DOUBLE, LEVEL_AT(switch_reduce_factor), .min = 0, .max = 100,
      .doc = "speed of all-reduces that this level's switch adds up, over the ring's; 0: it does not" },
    { "switch_reduce_latency_ns", FIELD_INT, LEVEL_AT(switch_reduce_latency_ns), STEP_NS,
      .doc = "of such an all-reduce" },
    { "shared", FIELD_BOOL, LEVEL_AT(shared),
      .doc = "the rate is of a whole unit, shared by its devices that talk at once" },
};

void link_level_put(struct json_writer *w, const struct link_level *level)
{
    json_put_string(w, "name", level->name);
    json_put_int(w, "fanout", level->fanout);
    json_put_double(w, "bytes_per_s", level->bytes_per_s);
    json_put_double(w, "efficiency", level->efficiency);
    json_put_int(w, "latency_ns", level->latency_ns);
    json_put_double(w, "switch_reduce_factor", level->switch_reduce_factor);
    json_put_int(w, "switch_reduce_latency_ns", level->switch_reduce_latency_ns);
    json_put_bool(w, "shared", level->shared);
}

/* What a file says of one group: the whole cluster's where there is only one. */
struct group_fields {
    int64_t memory_bytes, reserve_bytes;
    const struct json *device, *levels;
};
#define GROUP_AT(member) offsetof(struct group_fields, member)
#define MEMORY_DOC "memory of one device, when it differs from the catalogue's"
#define RESERVE_DOC "of it that a process cannot use"
static const struct json_field group_table[] = {
    { "device", FIELD_NODE, GROUP_AT(device), .required = true,
      .doc = "a name of `cleave devices`, or a device written out" },
    { "memory_bytes", FIELD_INT, GROUP_AT(memory_bytes), .min = 1, .max = 1e15, .doc = MEMORY_DOC },
    { "reserve_bytes", FIELD_INT, GROUP_AT(reserve_bytes), .min = 0, .max = 1e15, .doc = RESERVE_DOC },
    { "levels", FIELD_NODE, GROUP_AT(levels), .required = true,
      .doc = "the hierarchy, inner to outer; the outermost levels of all groups are one network, unless the file has "
             "`between`" },
};

/* This is for links between groups, where nothing has a fanout and no switch adds. */
static const struct json_field between_table[] = {
    { "name", FIELD_STRING, offsetof(struct link_level, name), .doc = "\"site\"" },
    { "bytes_per_s", FIELD_DOUBLE, offsetof(struct link_level, bytes_per_s), .required = true, RATE,
      .doc = "per device and direction" },
    { "efficiency", FIELD_DOUBLE, offsetof(struct link_level, efficiency), FRACTION,
      .doc = "share of it that large transfers reach; that of the device's network when absent" },
    { "latency_ns", FIELD_INT, offsetof(struct link_level, latency_ns), .required = true, STEP_NS,
      .doc = "of one step between groups" },
    { "shared", FIELD_BOOL, offsetof(struct link_level, shared),
      .doc = "the rate is of a whole group, shared by its devices that talk at once" },
};

/* The top level of a cluster file. */
struct cluster_text {
    const char *format, *name;
    int64_t version;
    struct group_fields only;
    const struct json *groups, *between;
};
#define CLUSTER_AT(member) offsetof(struct cluster_text, member)
enum { CLUSTER_VERSION = 2 };

static const struct json_field cluster_table[] = {
    { "format", FIELD_STRING, CLUSTER_AT(format), .doc = "\"cleave-cluster\"" },
    { "version", FIELD_INT, CLUSTER_AT(version), .min = 1, .max = CLUSTER_VERSION,
      .doc = "1, or 2 for a file with `groups`" },
    { "name", FIELD_STRING, CLUSTER_AT(name), .doc = "shown in reports; the file's name when absent" },
    { "device", FIELD_NODE, CLUSTER_AT(only.device),
      .doc = "a name of `cleave devices`, or a device written out; required unless there are `groups`" },
    { "memory_bytes", FIELD_INT, CLUSTER_AT(only.memory_bytes), .min = 1, .max = 1e15, .doc = MEMORY_DOC },
    { "reserve_bytes", FIELD_INT, CLUSTER_AT(only.reserve_bytes), .min = 0, .max = 1e15, .doc = RESERVE_DOC },
    { "levels", FIELD_NODE, CLUSTER_AT(only.levels),
      .doc = "the hierarchy, inner to outer; required unless there are `groups`" },
    { "groups", FIELD_NODE, CLUSTER_AT(groups),
      .doc = "array: groups of nodes with devices, memory or links of their own, in the order of their ranks; instead "
             "of `device`, `memory_bytes`, `reserve_bytes` and `levels`" },
    { "between", FIELD_NODE, CLUSTER_AT(between),
      .doc = "the network between groups, where it is not that of their outermost levels" },
};

#define COUNT(table) (sizeof(table) / sizeof(table)[0])

const struct json_format cluster_formats[] = {
    JSON_FORMAT("cluster", cluster_table, "A cluster file: top level."),
    JSON_FORMAT("cluster.group", group_table, "One group of nodes in a cluster file that has several."),
    JSON_FORMAT("cluster.level", level_table, "One level of links in a cluster file."),
    JSON_FORMAT("cluster.between", between_table, "The network between groups in a cluster file."),
    JSON_FORMAT("device", device_table, "A device of the catalogue, or inside a cluster file."),
    JSON_FORMAT("device.measured", measured_table, "How a device's measured numbers came about."),
    { 0 },
};

static bool device_type_read_value(struct device_type *out, struct arena *arena, const char *name,
                                   const struct json *value, struct error *err)
{
    struct device_text text = {
        .device = { .name = name, .memory_efficiency = 1, .link_efficiency = 1, .nic_efficiency = 1 },
        .tile = 1,
        .per_node = 1
    };
    struct peaks peaks = { { 0 } };
    if (!json_read_fields(value, device_table, COUNT(device_table), &text, arena, err) ||
        !json_read_fields(text.peaks, peak_table, COUNT(peak_table), &peaks, NULL, err) ||
        !matmul_surfaces_read(&text.device.surfaces, &text.device.surface_count, arena, text.surfaces, err) ||
        (text.measured &&
         !json_read_fields(text.measured, measured_table, COUNT(measured_table), &text.device.measured, arena, err)))
        return false;
    struct device_type *device = &text.device;
    if (device->reserve_bytes >= device->memory_bytes)
        return json_fail(json_member(value, "reserve_bytes"), err, "expected less than memory_bytes (%lld), found %lld",
                         (long long)device->memory_bytes, (long long)device->reserve_bytes);
    if (json_count(text.peaks) == 0)
        return json_fail(text.peaks, err, "expected the peak of at least one dtype, found none");
    memcpy(device->matmul_flops_per_s, peaks.flops_per_s, sizeof peaks.flops_per_s);
    device->matmul_tile = (int)text.tile;
    device->compute_units = (int)text.units;
    device->devices_per_node = (int)text.per_node;
    device->name = arena_strdup(arena, device->name);
    if (!device->name)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    *out = *device;
    return true;
}

bool device_type_read(struct device_type *out, struct arena *arena, const char *name, const char *json, size_t length,
                      struct error *err)
{
    struct json_doc *doc;
    if (!json_parse(&doc, name, json, length, err))
        return false;
    bool read = device_type_read_value(out, arena, name, json_root(doc), err);
    json_free(doc);
    return read;
}

/* Writes members by a table, of values that lie where it says. Nodes, absent texts and numbers that a reader would
 * refuse as "not there" (0 below the least) are left out. */
static void put_fields(struct json_writer *w, const struct json_field *fields, size_t count, const void *values)
{
    for (size_t i = 0; i < count; i++) {
        const struct json_field *f = &fields[i];
        const char *at = (const char *)values + f->offset, *text;
        int64_t whole;
        double number;
        switch (f->type) {
        case FIELD_STRING:
            memcpy(&text, at, sizeof text);
            if (text)
                json_put_string(w, f->key, text);
            break;
        case FIELD_INT:
            memcpy(&whole, at, sizeof whole);
            if ((double)whole >= f->min)
                json_put_int(w, f->key, whole);
            break;
        case FIELD_DOUBLE:
            memcpy(&number, at, sizeof number);
            if (number >= f->min)
                json_put_double(w, f->key, number);
            break;
        case FIELD_BOOL:
            json_put_bool(w, f->key, *(const bool *)at);
            break;
        case FIELD_ENUM:
        case FIELD_NODE:
        case FIELD_WORDS:
            break;
        }
    }
}

void device_type_write(struct json_writer *w, const struct device_type *device)
{
    struct device_text text = { .device = *device,
                                .tile = device->matmul_tile,
                                .units = device->compute_units,
                                .per_node = device->devices_per_node };
    struct peaks peaks;
    memcpy(peaks.flops_per_s, device->matmul_flops_per_s, sizeof peaks.flops_per_s);
    json_begin_object(w);
    put_fields(w, device_table, COUNT(device_table), &text);
    json_write_key(w, "matmul_flops_per_s");
    json_begin_object(w);
    put_fields(w, peak_table, COUNT(peak_table), &peaks);
    json_end_object(w);
    if (device->measured.machine) {
        json_write_key(w, "measured");
        json_begin_object(w);
        put_fields(w, measured_table, COUNT(measured_table), &device->measured);
        json_end_object(w);
    }
    if (device->surface_count > 0) {
        json_write_key(w, "matmul_surfaces");
        matmul_surfaces_write(w, device->surfaces, device->surface_count);
    }
    json_end_object(w);
}

/* What reading a cluster file needs at every depth. */
struct reader {
    struct cluster *cluster;
    const struct catalogue_entry *catalogue;
    int catalogue_count, device_count; /* devices of the groups so far */
};

static bool read_levels(struct reader *reader, struct group_text *group, const struct json *levels, struct error *err)
{
    if (json_type(levels) != JSON_ARRAY)
        return json_fail(levels, err, "expected an array of levels, found %s", json_type_name(json_type(levels)));
    int count = json_count(levels), devices = 1;
    if (count < 1 || count > MAX_LEVELS)
        return json_fail(levels, err, "expected 1 to %d levels, found %d", (int)MAX_LEVELS, count);
    for (int i = 0; i < count; i++) {
        struct level_text text = { .fanout = 1 };
        /* the device's own links count where the file does not say otherwise */
        text.level = i == 0 ? device_type_link(&group->device) : device_type_nic(&group->device);
        const struct json *value = json_at(levels, i);
        if (!json_read_fields(value, level_table, COUNT(level_table), &text, &reader->cluster->arena, err))
            return false;
        if (text.fanout > MAX_DEVICES / devices)
            return json_fail(json_member(value, "fanout"), err,
                             "expected at most %d devices in all, found %lld times %d", (int)MAX_DEVICES,
                             (long long)text.fanout, devices);
        devices *= (int)text.fanout;
        group->level[i] = text.level;
        group->level[i].fanout = (int)text.fanout;
    }
    group->level_count = count;
    reader->device_count += devices;
    return reader->device_count <= MAX_DEVICES || json_fail(levels, err, "expected at most %d devices in all, found %d",
                                                            (int)MAX_DEVICES, reader->device_count);
}

static bool read_device(struct reader *reader, struct device_type *out, const struct json *device, struct error *err)
{
    struct arena *arena = &reader->cluster->arena;
    if (json_type(device) == JSON_OBJECT)
        return device_type_read_value(out, arena, "device", device, err);
    const char *name;
    if (!json_string(device, &name, err))
        return false;
    const struct catalogue_entry *entry = cluster_catalogue_find(reader->catalogue, reader->catalogue_count, name);
    if (entry)
        return device_type_read(out, arena, entry->name, entry->json, entry->length, err);
    struct text hint = { 0 };
    cluster_catalogue_hint(&hint, reader->catalogue, reader->catalogue_count, name);
    json_fail(device, err, "expected a device of `cleave devices`, found \"%s\"%s", name, hint.data ? hint.data : "");
    text_free(&hint);
    return false;
}

/* Reads one group; at: the object that the fields stand in. */
static bool read_group(struct reader *reader, struct group_text *group, const struct json *at,
                       const struct group_fields *fields, struct error *err)
{
    struct device_type *device = &group->device;
    if (!read_device(reader, device, fields->device, err) || !read_levels(reader, group, fields->levels, err))
        return false;
    if (fields->memory_bytes > 0)
        device->memory_bytes = fields->memory_bytes;
    if (fields->reserve_bytes >= 0)
        device->reserve_bytes = fields->reserve_bytes;
    return device->reserve_bytes < device->memory_bytes ||
           json_fail(fields->reserve_bytes >= 0 ? json_member(at, "reserve_bytes") : at, err,
                     "expected a reserve below the memory of %lld bytes, found %lld", (long long)device->memory_bytes,
                     (long long)device->reserve_bytes);
}

static bool read_between(struct group_text *group, const struct json *between, struct arena *arena, struct error *err)
{
    struct link_level level = device_type_nic(&group->device);
    level.name = "between";
    if (!json_read_fields(between, between_table, COUNT(between_table), &level, arena, err))
        return false;
    group->between = level;
    return group->level_count < MAX_LEVELS ||
           json_fail(between, err, "expected groups of at most %d levels below it, found %d", (int)MAX_LEVELS - 1,
                     group->level_count);
}

static bool check_version(const struct json *root, const struct cluster_text *text, struct error *err)
{
    static const char *const alone[] = { "device", "levels", "memory_bytes", "reserve_bytes" };
    for (size_t i = 0; text->groups && i < COUNT(alone); i++)
        if (json_member(root, alone[i]))
            return json_fail(json_member(root, alone[i]), err,
                             "expected it inside of each group, since there are \"groups\"");
    if (text->groups && json_member(root, "version") && text->version < 2)
        return json_fail(json_member(root, "version"), err, "expected 2 for a file with \"groups\", found %lld",
                         (long long)text->version);
    if (text->between && !text->groups)
        return json_fail(text->between, err, "expected it beside \"groups\", found none");
    for (size_t i = 0; !text->groups && i < 2; i++)
        if (!json_member(root, alone[i]))
            return json_fail(root, err, "expected the key \"%s\" (or \"groups\"), found an object without it",
                             alone[i]);
    return true;
}

static bool read_groups(struct reader *reader, const struct cluster_text *text, struct group_text *groups, int count,
                        struct error *err)
{
    for (int g = 0; g < count; g++) {
        struct group_fields fields = { .reserve_bytes = -1 };
        const struct json *at = json_at(text->groups, g);
        if (!json_read_fields(at, group_table, COUNT(group_table), &fields, &reader->cluster->arena, err) ||
            !read_group(reader, &groups[g], at, &fields, err))
            return false;
        if (text->between && !read_between(&groups[g], text->between, &reader->cluster->arena, err))
            return false;
    }
    return true;
}

static bool read_all(struct reader *reader, const struct json *root, const struct cluster_text *text, struct error *err)
{
    struct arena scratch = { 0 };
    int count = text->groups ? json_count(text->groups) : 1;
    if (text->groups && (json_type(text->groups) != JSON_ARRAY || count < 1 || count > MAX_NODE_GROUPS))
        return json_fail(text->groups, err, "expected an array of 1 to %d groups, found %s of %d", (int)MAX_NODE_GROUPS,
                         json_type_name(json_type(text->groups)), count);
    struct group_text *groups = arena_alloc(&scratch, (size_t)count, sizeof *groups);
    bool good = groups != NULL || fail_kind(err, ERROR_ENVIRONMENT, "out of memory for %d groups", count);
    if (good)
        good = text->groups ? read_groups(reader, text, groups, count, err)
                            : read_group(reader, groups, root, &text->only, err);
    good = good && cluster_build(reader->cluster, groups, count, text->between != NULL, err);
    arena_free(&scratch);
    return good;
}

static bool read_root(struct reader *reader, const struct json *root, struct error *err)
{
    struct cluster *cluster = reader->cluster;
    struct cluster_text text = { .name = cluster->name, .only.reserve_bytes = -1 };
    if (!json_check_format(root, "cleave-cluster", err) ||
        !json_read_fields(root, cluster_table, COUNT(cluster_table), &text, &cluster->arena, err) ||
        !check_version(root, &text, err) || !read_all(reader, root, &text, err))
        return false;
    cluster->name = text.name;
    return true;
}

bool cluster_read_json(struct cluster *cluster, const char *name, const char *text, size_t length,
                       const struct catalogue_entry *catalogue, int catalogue_count, struct error *err)
{
    struct json_doc *doc;
    struct reader reader = { .cluster = cluster, .catalogue = catalogue, .catalogue_count = catalogue_count };
    if (!json_parse(&doc, name, text, length, err))
        return false;
    bool read = read_root(&reader, json_root(doc), err);
    json_free(doc);
    return read;
}
