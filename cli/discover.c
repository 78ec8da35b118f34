/* Writes a cluster file of what a tool says of a machine. */
#include "cli/inputs.h"
#include "profiler/discover.h"
#include <stdlib.h>
#include <string.h>

struct discover_options {
    const char *output, *topology, *device;
    int64_t nodes;
};
static const struct option options[] = {
    TEXT_OPTION("nvidia-smi-topo", offsetof(struct discover_options, topology), "FILE",
                "what `nvidia-smi topo -m` printed on one node (\"-\": standard input)"),
    TEXT_OPTION("device", offsetof(struct discover_options, device), "NAME",
                "what the GPUs are: a name of `cleave devices`"),
    INT_OPTION("nodes", offsetof(struct discover_options, nodes), "N", 1, MAX_DEVICES, "nodes that are alike (1)"),
    OUTPUT_OPTION(offsetof(struct discover_options, output), "the cluster file; standard output when absent"),
};

static bool find_device(struct inputs *in, const char *name, struct device_type *out, struct error *err)
{
    const char **names = arena_alloc(&in->arena, (size_t)in->catalogue->count, sizeof *names);
    if (!names)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    for (int i = 0; i < in->catalogue->count; i++) {
        const struct catalogue_entry *entry = &in->catalogue->entries[i];
        if (strcmp(entry->name, name) == 0)
            return device_type_read(out, &in->arena, entry->name, entry->json, entry->length, err);
        names[i] = entry->name;
    }
    const char *near = text_nearest(name, names, (size_t)in->catalogue->count);
    return fail(err, "--device: expected a device of `cleave devices`, found \"%s\"%s%s%s", name,
                near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* To people: what was found, and what to do with it. */
static void say_found(const struct inputs *in, const struct discover_options *o, const struct discovery *found)
{
    char rate[TEXT_NUMBER_BYTES], latency[TEXT_NUMBER_BYTES];
    FILE *talk = in->cli->talk;
    fprintf(talk, "%s; device %s\n", found->comment, found->device);
    for (int i = 0; i < found->level_count; i++) {
        const struct link_level *l = &found->level[i].link;
        fprintf(talk, "  %-8s %4d x  %s%s at %.0f %%, %s: %s\n", l->name, l->fanout,
                text_rate(rate, l->bytes_per_s, "B/s"), l->shared ? " shared" : "", 100 * l->efficiency,
                text_duration_ns(latency, l->latency_ns), found->level[i].comment);
    }
    if (o->output && !inputs_is_stdout(o->output))
        fprintf(talk, "to plan with it: cleave plan MODEL --cluster %s\n", o->output);
}

static bool look(struct inputs *in, const struct discover_options *o, struct discovery *found, struct error *err)
{
    struct device_type device;
    const char *text;
    size_t length;
    if (!o->topology || !o->device)
        return fail(err,
                    "cleave discover: expected --nvidia-smi-topo FILE and --device NAME (cleave devices), found "
                    "no %s",
                    o->topology ? "--device" : "--nvidia-smi-topo");
    struct topology *topology = arena_alloc(&in->arena, 1, sizeof *topology);
    if (!topology)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!find_device(in, o->device, &device, err) || !inputs_text(in, o->topology, &text, &length, err) ||
        !topology_read(topology, o->topology, text, length, err))
        return false;
    discover_topology(found, topology, &device, (int)o->nodes, "nvidia-smi topo -m");
    return true;
}

/* What was written must be a cluster: fails with the reader's message. */
static bool check(const struct inputs *in, const char *text, size_t length, struct error *err)
{
    struct cluster *cluster = NULL;
    if (!cluster_read(&cluster, "the cluster found", text, length, in->catalogue->entries, in->catalogue->count, err))
        return false;
    cluster_free(cluster);
    return true;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct discover_options *o = given;
    struct inputs in = { .cli = cli };
    struct json_writer w = { 0 };
    struct discovery *found = arena_alloc(&in.arena, 1, sizeof *found);
    (void)operands, (void)operand_count;
    if (!found)
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    else if (inputs_catalogue(&in, err) && inputs_can_write(o->output, err) && look(&in, o, found, err)) {
        size_t length = 0;
        discovery_write(&w, found);
        char *text = json_finish(&w, &length);
        if (text && !check(&in, text, length, err))
            free(text);
        else if (inputs_hand_out(cli, o->output, text, length, err))
            say_found(&in, o, found);
    }
    inputs_free(&in);
    return ERROR_NONE;
}

static const struct discover_options defaults = { .nodes = 1 };
const struct verb verb_discover = {
    .name = "discover",
    .summary = "writes a cluster file of how a machine's GPUs are connected",
    .usage = "--nvidia-smi-topo FILE --device NAME [--nodes N] [-o FILE]",
    .examples = "  nvidia-smi topo -m > topo.txt\n  cleave discover --nvidia-smi-topo topo.txt --device h100-sxm "
                "--nodes 4 -o cluster.json\n",
    OPTIONS_OF(options),
    .defaults = &defaults,
    .options_bytes = sizeof(struct discover_options),
    .run = run,
};
