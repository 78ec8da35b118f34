/* Writes a cluster file of what a tool says of a machine. */
#include "cli/discover_measure.h"
#include "cli/inputs.h"
#include "cli/slurm.h"
#include "host/hwloc.h"
#include "host/machine.h"
#include "host/nvml.h"
#include "planner/facts/cluster_hint.h"
#include "profiler/discover.h"
#include "profiler/nccl_topology.h"
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct discover_options {
    const char *output, *topology, *nccl_topology, *hwloc, *device;
    struct text_list measured;
    int64_t nodes; /* 0: as many as the measurements have hosts, else 1 */
    bool measure, slurm;
    struct discover_measure_options times;
};
static const struct discover_options defaults = { .times.time_limit_s = 30 };
#define TIMES(field) offsetof(struct discover_options, times.field)
static const char this_machine[] = ""; /* by its address: an empty FILE may be typed */
static const struct option options[] = {
    TEXT_OPTION(
        "nvidia-smi-topo", offsetof(struct discover_options, topology), "FILE",
        "what `nvidia-smi topo -m` printed on one node (\"-\": standard input), instead of asking this machine"),
    TEXT_OPTION("nccl-topo", offsetof(struct discover_options, nccl_topology), "FILE",
                "the same from the XML that NCCL wrote on one node with NCCL_TOPO_DUMP_FILE=FILE, with rates"),
    { .name = "hwloc",
      .type = OPTION_TEXT,
      .offset = offsetof(struct discover_options, hwloc),
      .value_name = "FILE",
      .if_absent = this_machine,
      .doc = "the same from the XML that `lstopo --of xml` wrote on one node, with rates of PCI Express and of NVLink, "
             "and the host's cores and memory; without FILE hwloc's library is asked about this machine" },
    LIST_OPTION("nccl-tests", offsetof(struct discover_options, measured), "FILE",
                "text or JSON of an all_reduce, all_gather, reduce_scatter or alltoall run; may be repeated"),
    TEXT_OPTION("device", offsetof(struct discover_options, device), "NAME",
                "what the GPUs are: a name of `cleave devices`"),
    INT_OPTION("nodes", offsetof(struct discover_options, nodes), "N", 1, MAX_DEVICES,
               "nodes that are alike (1, or the hosts that were measured)"),
    FLAG_OPTION("slurm", offsetof(struct discover_options, slurm),
                "nodes and GPUs are those of the Slurm job around it, by its environment; links by the device, or by a "
                "topology given beside it"),
    FLAG_OPTION("measure", offsetof(struct discover_options, measure),
                "times matrix products, copies and launches here and writes the device out with them"),
    TEXT_OPTION("backend", TIMES(backend), "NAME", "with --measure: what computes, cpu or cuda; found out if absent"),
    TEXT_OPTION("dtype", TIMES(dtype), "NAME", "with --measure: of the products, fp32, or bf16 on a GPU (its default)"),
    TEXT_OPTION("sizes", TIMES(sizes), "N,N,...",
                "with --measure: of the products, for rows, columns and sums alike (16,64,256,1024; larger on a GPU)"),
    DOUBLE_OPTION("time-limit", TIMES(time_limit_s), "SECONDS", 1, 1e6, "with --measure: aimed at (30)"),
    TEXT_OPTION("device-entry", TIMES(entry), "FILE",
                "with --measure: also the device alone, as a file of the catalogue"),
    OUTPUT_OPTION(offsetof(struct discover_options, output), "the cluster file; standard output when absent"),
};

/* What is looked at; everything lives in the inputs' arena. */
struct view {
    struct inputs *in;
    const struct discover_options *options;
    struct nccl_tests *runs[MAX_LIST]; /* by discover_order() */
    int hosts;                         /* most of any run; at least 1 */
    struct slurm_job job;              /* with --slurm */
    const char *known;                 /* the catalogue's name of the GPUs where their ids say it; NULL: they do not */
    struct device_type device;
};

static bool find_device(struct inputs *in, const char *name, struct device_type *out, struct error *err)
{
    const struct catalogue *catalogue = in->catalogue;
    const struct catalogue_entry *entry = cluster_catalogue_find(catalogue->entries, catalogue->count, name);
    struct text hint = { 0 };
    if (entry)
        return device_type_read(out, &in->arena, entry->name, entry->json, entry->length, err);
    cluster_catalogue_hint(&hint, catalogue->entries, catalogue->count, name);
    fail(err, "--device: expected a device of `cleave devices`, found \"%s\"%s", name, hint.data ? hint.data : "");
    text_free(&hint);
    return false;
}

/* Whether the driver's "NVIDIA H100 96GB" has the catalogue's "h100" of h100-sxm in it. */
static bool is_family(const char *driver_name, const char *name)
{
    size_t length = strcspn(name, "-");
    for (const char *at = driver_name; *at; at++)
        if (strncasecmp(at, name, length) == 0)
            return true;
    return false;
}

static bool fail_device(const struct view *v, const char *driver_name, struct error *err)
{
    struct text near = { 0 };
    const struct catalogue *catalogue = v->in->catalogue;
    for (int i = 0; driver_name && i < catalogue->count; i++)
        if (is_family(driver_name, catalogue->entries[i].name))
            text_printf(&near, "%s%s", near.length ? ", " : "; nearest: ", catalogue->entries[i].name);
    fail(err, "cleave discover: expected --device NAME (cleave devices) for %s, found none%s",
         driver_name ? driver_name : "these GPUs", near.length ? near.data : "");
    text_free(&near);
    return false;
}

/* Whether the cores of the processor are asked for. */
static bool wants_cores(const struct view *v)
{
    return v->options->device && strcmp(v->options->device, "cpu") == 0;
}

/* Of a source that knows GPUs and no cores. */
static bool check_gpus_wanted(const struct view *v, const char *file, struct error *err)
{
    return !wants_cores(v) || fail(err,
                                   "--device cpu: expected what the GPUs in %s are (cleave devices), found the cores "
                                   "of a processor: for those type cleave discover --hwloc, or --cluster 1xCORES:cpu",
                                   file);
}

/* driver_name: what the driver calls the GPUs, or NULL. */
static bool choose_device(struct view *v, const char *driver_name, struct error *err)
{
    const char *name = v->options->device ? v->options->device : v->known;
    const char *said = v->known ? v->known : driver_name ? discover_device(driver_name) : NULL;
    if (!name)
        name = said;
    else if (said && strcmp(name, said) != 0)
        fprintf(v->in->cli->talk, "note: --device %s, although the GPUs say that they are %s\n", name, said);
    return name ? find_device(v->in, name, &v->device, err) : fail_device(v, driver_name, err);
}

static bool read_runs(struct view *v, struct error *err)
{
    const struct text_list *files = &v->options->measured;
    v->hosts = 1;
    for (int i = 0; i < files->count; i++) {
        const char *text;
        size_t length;
        v->runs[i] = arena_alloc(&v->in->arena, 1, sizeof *v->runs[i]);
        if (!v->runs[i])
            return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
        if (!inputs_text(v->in, files->item[i], &text, &length, err) ||
            !nccl_tests_read(v->runs[i], files->item[i], text, length, err))
            return false;
        if (v->runs[i]->hosts > v->hosts)
            v->hosts = v->runs[i]->hosts;
    }
    qsort(v->runs, (size_t)files->count, sizeof *v->runs, discover_order);
    return true;
}

static int nodes_of(const struct view *v)
{
    return v->options->nodes > 0 ? (int)v->options->nodes : v->hosts;
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
    for (int i = 0; i < found->note_count; i++)
        fprintf(talk, "note: %s\n", found->note[i]);
    if (found->measured)
        discover_say_measured(in->cli, found->measured, &o->times);
    if (o->output && !inputs_is_stdout(o->output))
        fprintf(talk, "to plan with it: cleave plan MODEL --cluster %s\n", o->output);
}

/* What the driver called the GPUs of the first run that says it; NULL: none does. */
static const char *measured_device(const struct view *v)
{
    for (int i = 0; i < v->options->measured.count; i++)
        if (*v->runs[i]->device)
            return v->runs[i]->device;
    return NULL;
}

static bool look_at_topology(struct view *v, struct discovery *found, struct error *err)
{
    const char *text;
    size_t length;
    struct topology *topology = arena_alloc(&v->in->arena, 1, sizeof *topology);
    if (!topology)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!inputs_text(v->in, v->options->topology, &text, &length, err) ||
        !topology_read(topology, v->options->topology, text, length, err) ||
        !check_gpus_wanted(v, v->options->topology, err) || !choose_device(v, measured_device(v), err))
        return false;
    discover_topology(found, topology, &v->device, nodes_of(v), "nvidia-smi topo -m");
    return true;
}

static bool look_at_nccl_topology(struct view *v, struct discovery *found, struct error *err)
{
    const char *text;
    size_t length;
    struct nccl_topology *t = arena_alloc(&v->in->arena, 1, sizeof *t);
    if (!t)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!inputs_text(v->in, v->options->nccl_topology, &text, &length, err) ||
        !nccl_topology_read(t, v->options->nccl_topology, text, length, err) ||
        !check_gpus_wanted(v, v->options->nccl_topology, err))
        return false;
    v->known = discover_pci_device(t->pci_device);
    if (!choose_device(v, measured_device(v), err))
        return false;
    discover_topology(found, &t->topology, &v->device, nodes_of(v), "NCCL's topology");
    return true;
}

static bool read_hwloc(struct view *v, struct hwloc_machine *machine, struct error *err)
{
    const char *file = v->options->hwloc, *text;
    size_t length;
    if (!*file && file != this_machine)
        return fail(err, "--hwloc: expected a FILE, found \"\" (--hwloc alone asks this machine)");
    if (file != this_machine)
        return inputs_text(v->in, file, &text, &length, err) && hwloc_machine_read(machine, file, text, length, err);
    char *here = hwloc_xml_here(&length, err);
    if (!here)
        return fail_kind(err, ERROR_ENVIRONMENT,
                         "cleave discover: --hwloc: no libhwloc.so.15 here: install hwloc (libhwloc15), or name the "
                         "FILE that `lstopo --of xml` wrote elsewhere");
    bool ok = hwloc_machine_read(machine, "what hwloc says here", here, length, err);
    free(here);
    return ok;
}

/* Without GPUs, or where they are not wanted, the cores are the devices. */
static bool take_cores(struct view *v, struct hwloc_machine *m, struct error *err)
{
    char why[128] = "hwloc saw no GPU";
    if (m->topology.device_count > 0)
        snprintf(why, sizeof why, "--device cpu, although hwloc saw %d GPU%s", m->topology.device_count,
                 m->topology.device_count == 1 ? "" : "s");
    else if (m->unknown_count > 0)
        snprintf(why, sizeof why, "hwloc saw %d device%s %04x:%04x that cleave does not know, and no GPU that it does",
                 m->unknown_count, m->unknown_count == 1 ? "" : "s", m->unknown_vendor, m->unknown_device);
    if (v->options->device && !wants_cores(v))
        return fail(
            err,
            "--device %s: %s: expected a machine with GPUs of the catalogue, looked at with its devices (no --no-io)",
            v->options->device, why);
    if (m->core_count < 1)
        return fail(err, "%s: expected cores beside the GPUs, found none",
                    v->options->hwloc == this_machine ? "what hwloc says here" : v->options->hwloc);
    m->topology.device_count = 0;
    fprintf(v->in->cli->talk, "%s: the %s of the processor are the devices\n", why,
            m->cores_are_pus ? "processing units (PU; hwloc names no cores)" : "cores");
    return find_device(v->in, "cpu", &v->device, err);
}

static bool look_at_hwloc(struct view *v, struct discovery *found, struct error *err)
{
    struct hwloc_machine *machine = arena_alloc(&v->in->arena, 1, sizeof *machine);
    if (!machine)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!read_hwloc(v, machine, err))
        return false;
    v->known = discover_pci_device(machine->pci_device);
    if (!(machine->topology.device_count < 1 || wants_cores(v)
              ? take_cores(v, machine, err)
              : choose_device(v, *machine->model ? machine->model : measured_device(v), err)))
        return false;
    discover_hwloc(found, machine, &v->device, nodes_of(v));
    return true;
}

/* The ranks of the measurements are all that is known of the devices. */
static bool look_at_runs(struct view *v, struct discovery *found, struct error *err)
{
    int each = 1;
    for (int i = 0; i < v->options->measured.count; i++) {
        int ranks = v->runs[i]->ranks / v->runs[i]->hosts;
        each = max_int(each, ranks);
    }
    if (!choose_device(v, measured_device(v), err))
        return false;
    discover_plain(found, &v->device, nodes_of(v), each, "the ranks of nccl-tests");
    return true;
}

/* What the job asked for may be a name of the catalogue. */
static bool look_at_job(struct view *v, struct discovery *found, struct error *err)
{
    const struct catalogue *known = v->in->catalogue;
    if (cluster_catalogue_find(known->entries, known->count, v->job.gpu))
        v->known = v->job.gpu;
    if (!choose_device(v, *v->job.gpu ? v->job.gpu : NULL, err))
        return false;
    discover_plain(found, &v->device, nodes_of(v), v->job.gpus_per_node, "the environment of a Slurm job");
    return true;
}

static bool look_here(struct view *v, struct discovery *found, struct error *err)
{
    bool present;
    struct nvml_machine *machine = arena_alloc(&v->in->arena, 1, sizeof *machine);
    if (!machine)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    if (!nvml_read(machine, &present, err))
        return false;
    bool has_gpus = present && machine->topology.device_count > 0;
    if (has_gpus && !wants_cores(v)) {
        if (!choose_device(v, machine->name, err))
            return false;
        discover_topology(found, &machine->topology, &v->device, nodes_of(v), "the driver of this machine (NVML)");
        return true;
    }
    const char *why = has_gpus  ? "--device cpu, although there are GPUs"
                      : present ? "no GPU was found (NVIDIA's driver names none)"
                                : "no GPU was found (no libnvidia-ml.so.1)";
    if (!find_device(v->in, v->options->device ? v->options->device : "cpu", &v->device, err))
        return false;
    if (v->options->device && !wants_cores(v) && !v->options->measure)
        return fail(err,
                    "--device %s: %s: expected a node with its GPUs; without one type --cluster 1x8:%s where that is "
                    "planned for",
                    v->options->device, why, v->options->device);
    fprintf(v->in->cli->talk, "%s: the cores of the processor are the devices\n", why);
    discover_plain(found, &v->device, nodes_of(v), host_core_count(), "the cores of this machine");
    return true;
}

static bool look(struct view *v, struct discovery *found, struct error *err)
{
    const struct discover_options *o = v->options;
    if ((o->topology != NULL) + (o->nccl_topology != NULL) + (o->hwloc != NULL) > 1)
        return fail(err, "cleave discover: expected one of --nvidia-smi-topo, --nccl-topo and --hwloc, found several");
    if (!read_runs(v, err) || (o->slurm && !slurm_read(&v->job, v->in->cli->environment, err)))
        return false;
    v->hosts = max_int(v->hosts, v->job.nodes);
    if (!(o->topology         ? look_at_topology(v, found, err)
          : o->nccl_topology  ? look_at_nccl_topology(v, found, err)
          : o->hwloc          ? look_at_hwloc(v, found, err)
          : o->slurm          ? look_at_job(v, found, err)
          : o->measured.count ? look_at_runs(v, found, err)
                              : look_here(v, found, err)))
        return false;
    for (int i = 0; i < o->measured.count; i++)
        if (!discover_measured(found, v->runs[i], &v->device, v->runs[i]->name, err))
            return false;
    if (!o->measure)
        return true;
    struct device_type base = v->device;
    found->measured = &v->device;
    return discover_measure(&v->device, &v->in->arena, v->in->cli, &o->times, &base, err);
}

/* What goes with --measure alone, and whether its file can be written when it is done. */
static bool check_options(const struct discover_options *o, struct error *err)
{
    const char *alone = o->times.entry     ? "--device-entry"
                        : o->times.sizes   ? "--sizes"
                        : o->times.dtype   ? "--dtype"
                        : o->times.backend ? "--backend"
                                           : NULL;
    if (!o->measure && alone)
        return fail(err, "%s: expected --measure beside it, found none", alone);
    return inputs_can_write(o->times.entry, err);
}

static bool check_nodes(const struct discovery *found, int nodes, struct error *err)
{
    int64_t devices = 1;
    for (int i = 0; i < found->node_levels; i++)
        devices *= found->level[i].link.fanout;
    return devices * nodes <= MAX_DEVICES ||
           fail(err, "--nodes: expected at most %lld nodes of %lld devices, which is a cluster of %d, found %d",
                (long long)(MAX_DEVICES / devices), (long long)devices, MAX_DEVICES, nodes);
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
    struct view view = { .in = &in, .options = o };
    struct json_writer w = { 0 };
    struct discovery *found = arena_alloc(&in.arena, 1, sizeof *found);
    (void)operands, (void)operand_count;
    if (!found)
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    else if (check_options(o, err) && inputs_catalogue(&in, err) && inputs_can_write(o->output, err) &&
             look(&view, found, err) && check_nodes(found, nodes_of(&view), err)) {
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

const struct verb verb_discover = {
    .name = "discover",
    .summary = "writes a cluster file of how a machine's GPUs are connected",
    .usage = "[--nvidia-smi-topo FILE | --nccl-topo FILE | --hwloc [FILE]] [--nccl-tests FILE]... [--slurm] [--device "
             "NAME] [--nodes N] "
             "[--measure] "
             "[-o FILE]",
    .examples = "  cleave discover -o cluster.json\n"
                "  cleave discover --measure -o cluster.json\n"
                "  nvidia-smi topo -m > topo.txt\n  cleave discover --nvidia-smi-topo topo.txt --device h100-sxm "
                "--nodes 4 -o cluster.json\n"
                "  NCCL_TOPO_DUMP_FILE=topo.xml all_reduce_perf -g 8\n  cleave discover --nccl-topo topo.xml --nodes 4 "
                "-o cluster.json\n"
                "  lstopo --of xml > machine.xml\n  cleave discover --hwloc machine.xml --nodes 4 -o cluster.json\n"
                "  salloc -N 4 --gpus-per-node=8 cleave discover --slurm --device h100-sxm -o cluster.json\n"
                "  cleave discover --nccl-tests all_reduce_16_ranks.txt --device h100-sxm -o cluster.json\n",
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct discover_options),
    .defaults = &defaults,
    .run = run,
};
