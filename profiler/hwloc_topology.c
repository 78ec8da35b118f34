#include "base/num.h"
#include "profiler/hwloc_topology.h"
#include "host/xml.h"
#include "profiler/bus.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH = BUS_DEPTH, /* elements inside each other */
    PARTIES = 512,     /* objects of the NVLink distances: GPUs, NVSwitches, processors */
    SWITCHES = 256,
    PACKAGES = 4096,
    WORD = 32, /* bytes of a bus id */
    TEXT = 4096,
    VENDOR_NVIDIA = 0x10de,
    VENDOR_AMD = 0x1002,
    CLASS_NETWORK = 0x02, /* of PCI, its upper byte */
    CLASS_DISPLAY = 0x03,
    CLASS_BRIDGE = 0x06,
    CLASS_ACCELERATOR = 0x12,
    CLASS_VGA = 0x0300, /* in full */
};

/* Elements that mean something. PART: any other object, which may hold some. */
enum kind { OTHER, TOPOLOGY, PART, PACKAGE, NUMA, CORE, BRIDGE, PCI, OS, DISTANCES, INDEXES, VALUES };

/* An element that is open. */
struct open_element {
    enum kind kind;
    int id;      /* no two elements have the same */
    int gpu;     /* of a PCI: its index + 1; 0: none */
    int nic;     /* likewise */
    bool is_bus; /* a BRIDGE of PCI Express on both sides, or a PCI */
    double link; /* the rate of its link; 0: unknown */
};

struct found_gpu {
    struct bus_place place;
    char busid[WORD];
    int number, line; /* of the driver; -1: it said none */
    int64_t nvml_key; /* hwloc's gp_index of what NVML calls it; 0: none */
    unsigned vendor, device;
    char model[HWLOC_MODEL_BYTES];
};
struct found_nic {
    struct bus_place place;
    char slot[WORD]; /* bus id without the function */
    bool has_name, is_fabric;
    char name[WORD]; /* of the system's first device on it */
};

struct reading {
    const char *name;
    int depth, next_id, line;
    double version;
    struct open_element open[DEPTH];
    int gpu_count, nic_count, switch_count, package_count, numa_count, core_count;
    int64_t memory_bytes;
    int package_cores[PACKAGES];
    bool bare_pus; /* counted as cores */
    int unknown_count;
    unsigned unknown[3]; /* class, vendor and device of the first */
    struct found_gpu gpu[TOPOLOGY_DEVICES];
    struct found_nic nic[TOPOLOGY_NICS];
    int64_t switch_key[SWITCHES];
    /* The NVLink distances. */
    int party_count, indexes_read, values_read;
    int64_t party[PARTIES];
    double rate[PARTIES][PARTIES]; /* bytes per second */
    size_t text_length;
    char text[TEXT];
};

/* ---- attributes ---- */

/* An absent one is 0. */
static bool read_integer(const struct reading *r, const struct xml_element *e, const char *attribute, int64_t most,
                         int64_t *out, struct error *err)
{
    *out = 0;
    return !*xml_value(e, attribute) || xml_integer(out, r->name, e, attribute, most, err);
}

/* Gigabytes per second each way. */
static bool read_link(const struct reading *r, const struct xml_element *e, double *out, struct error *err)
{
    const char *value = xml_value(e, "pci_link_speed");
    char *end;
    double number = strtod(value, &end);
    *out = number * 1e9;
    return !*value || (end > value && !*end && number >= 0 && number <= 1e4) ||
           xml_fail(r->name, e, "pci_link_speed", "GB/s from 0 to 10000", err);
}

/* "0302 [10de:2330] [10de:16c1] a1": class, vendor and device. */
static bool read_pci_type(const struct reading *r, const struct xml_element *e, unsigned out[3], struct error *err)
{
    const char *value = xml_value(e, "pci_type");
    char class[5], vendor[5], device[5];
    if (sscanf(value, "%4[0-9a-fA-F] [%4[0-9a-fA-F]:%4[0-9a-fA-F]]", class, vendor, device) != 3)
        return xml_fail(r->name, e, "pci_type", "class, vendor and device as \"0302 [10de:2330]\"", err);
    out[0] = (unsigned)strtoul(class, NULL, 16);
    out[1] = (unsigned)strtoul(vendor, NULL, 16);
    out[2] = (unsigned)strtoul(device, NULL, 16);
    return true;
}

/* The number behind a prefix: "nvml3"; -1: another name. */
static int number_behind(const char *name, const char *prefix)
{
    size_t length = strlen(prefix), digits = strncmp(name, prefix, length) ? 0 : strspn(name + length, "0123456789");
    return digits < 1 || digits > 4 || name[length + digits] ? -1 : (int)strtol(name + length, NULL, 10);
}

/* ---- elements ---- */

static void find_place(const struct reading *r, struct bus_place *out)
{
    *out = (struct bus_place){ 0 };
    for (int i = 1; i < r->depth; i++)
        bus_enter(out, r->open[i].id, r->open[i].is_bus, r->open[i].link);
}

/* Where an element of the kind is open; NULL: nowhere. */
static struct open_element *around(struct reading *r, enum kind kind)
{
    for (int i = r->depth - 2; i >= 0; i--)
        if (r->open[i].kind == kind)
            return &r->open[i];
    return NULL;
}

static bool add_gpu(struct reading *r, const struct xml_element *e, const unsigned type[3], struct error *err)
{
    struct found_gpu *gpu = &r->gpu[r->gpu_count];
    const char *busid = xml_value(e, "pci_busid");
    if (r->gpu_count == TOPOLOGY_DEVICES)
        return fail(err, "%s:%d: expected at most %d GPUs, found more", r->name, e->line, (int)TOPOLOGY_DEVICES);
    if (!*busid || strlen(busid) >= WORD)
        return xml_fail(r->name, e, "pci_busid", "1 to 31 characters", err);
    *gpu = (struct found_gpu){ .number = -1, .line = e->line, .vendor = type[1], .device = type[2] };
    snprintf(gpu->busid, sizeof gpu->busid, "%s", busid);
    for (int i = 0; i < r->gpu_count; i++)
        if (strcmp(r->gpu[i].busid, busid) == 0)
            return fail(err, "%s:%d: expected every GPU once, found %s, which is in line %d too", r->name, e->line,
                        busid, r->gpu[i].line);
    find_place(r, &gpu->place);
    r->open[r->depth - 1].gpu = ++r->gpu_count;
    return true;
}

static bool add_nic(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct found_nic *nic = &r->nic[r->nic_count];
    const char *busid = xml_value(e, "pci_busid");
    if (r->nic_count == TOPOLOGY_NICS)
        return fail(err, "%s:%d: expected at most %d network cards, found more", r->name, e->line, (int)TOPOLOGY_NICS);
    *nic = (struct found_nic){ 0 };
    snprintf(nic->slot, sizeof nic->slot, "%.*s", (int)strcspn(busid, "."), busid);
    find_place(r, &nic->place);
    r->open[r->depth - 1].nic = ++r->nic_count;
    return true;
}

/* No adapter that only draws. */
static bool computes(const unsigned type[3])
{
    return type[0] != CLASS_VGA && (type[0] >> 8 == CLASS_DISPLAY || type[0] >> 8 == CLASS_ACCELERATOR);
}

/* A compute device of NVIDIA's or AMD's. */
static bool is_gpu(const unsigned type[3])
{
    return type[1] == VENDOR_NVIDIA ? type[0] >> 8 == CLASS_DISPLAY : type[1] == VENDOR_AMD && computes(type);
}

/* To be named where no GPU is found. */
static void count_unknown(struct reading *r, const unsigned type[3])
{
    if (r->unknown_count == 0)
        memcpy(r->unknown, type, sizeof r->unknown);
    r->unknown_count += memcmp(r->unknown, type, sizeof r->unknown) == 0;
}

/* NVSwitches have the name where NVML has told hwloc of them; one may have lost its ids. */
static bool add_switch(struct reading *r, const struct xml_element *e, struct error *err)
{
    if (r->switch_count == SWITCHES)
        return fail(err, "%s:%d: expected at most %d NVSwitches, found more", r->name, e->line, (int)SWITCHES);
    return read_integer(r, e, "gp_index", INT64_MAX, &r->switch_key[r->switch_count++], err);
}

static bool begin_pci(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct open_element *o = &r->open[r->depth - 1];
    unsigned type[3] = { 0 };
    o->kind = PCI, o->is_bus = true;
    if (!read_link(r, e, &o->link, err) || !read_pci_type(r, e, type, err))
        return false;
    if (strcmp(xml_value(e, "subtype"), "NVSwitch") == 0 || (type[1] == VENDOR_NVIDIA && type[0] >> 8 == CLASS_BRIDGE))
        return add_switch(r, e, err);
    if (is_gpu(type))
        return add_gpu(r, e, type, err);
    if (computes(type))
        count_unknown(r, type);
    return type[0] >> 8 != CLASS_NETWORK || add_nic(r, e, err);
}

/* What the system calls the device that it is in. Kinds of network: hwloc 2 counts them, 3 has a bit each. */
static bool begin_os(struct reading *r, const struct xml_element *e, struct error *err)
{
    const struct open_element *pci = around(r, PCI);
    const char *name = xml_value(e, "name");
    int64_t type, nvml = number_behind(name, "nvml"), rsmi = number_behind(name, "rsmi");
    r->open[r->depth - 1].kind = OS;
    if (!read_integer(r, e, "osdev_type", INT32_MAX, &type, err))
        return false;
    if (pci && pci->gpu > 0 && (nvml >= 0 || rsmi >= 0)) {
        struct found_gpu *gpu = &r->gpu[pci->gpu - 1];
        gpu->number = (int)(nvml >= 0 ? nvml : rsmi);
        return nvml < 0 || read_integer(r, e, "gp_index", INT64_MAX, &gpu->nvml_key, err);
    }
    if (pci && pci->nic > 0) {
        struct found_nic *nic = &r->nic[pci->nic - 1];
        bool fabric = r->version < 3 ? type == 3 : (type >> 5 & 1) != 0;
        if (!*nic->name)
            snprintf(nic->name, sizeof nic->name, "%s", name);
        nic->is_fabric = nic->is_fabric || fabric;
        nic->has_name = nic->has_name || fabric || (r->version < 3 ? type == 2 : (type >> 4 & 1) != 0);
    }
    return true;
}

static bool begin_numa(struct reading *r, const struct xml_element *e, struct error *err)
{
    const int64_t most = (int64_t)1 << 50; /* a pebibyte in one node */
    int64_t bytes = 0;
    r->open[r->depth - 1].kind = NUMA;
    if (strcmp(xml_value(e, "subtype"), "GPUMemory") == 0)
        return true;
    if (r->numa_count == PACKAGES)
        return fail(err, "%s:%d: expected at most %d NUMA nodes, found more", r->name, e->line, (int)PACKAGES);
    r->numa_count++;
    if (!read_integer(r, e, "local_memory", most, &bytes, err))
        return false;
    r->memory_bytes += bytes;
    return true;
}

static bool begin_object(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct open_element *o = &r->open[r->depth - 1];
    const char *type = xml_value(e, "type");
    o->kind = PART;
    if (!*type)
        return xml_fail(r->name, e, "type", "the kind of an object", err);
    if (strcmp(type, "PCIDev") == 0)
        return begin_pci(r, e, err);
    if (strcmp(type, "OSDev") == 0)
        return begin_os(r, e, err);
    if (strcmp(type, "NUMANode") == 0)
        return begin_numa(r, e, err);
    if (strcmp(type, "Bridge") == 0) {
        o->kind = BRIDGE, o->is_bus = strcmp(xml_value(e, "bridge_type"), "1-1") == 0; /* "0-1": of the host */
        return !o->is_bus || read_link(r, e, &o->link, err);
    }
    if (strcmp(type, "Package") == 0) {
        o->kind = PACKAGE;
        if (r->package_count == PACKAGES)
            return fail(err, "%s:%d: expected at most %d packages, found more", r->name, e->line, (int)PACKAGES);
        r->package_cores[r->package_count++] = 0;
    } else if (strcmp(type, "Core") == 0 || (strcmp(type, "PU") == 0 && !around(r, CORE))) {
        r->bare_pus = r->bare_pus || *type == 'P';
        o->kind = CORE;
        r->core_count++;
        if (around(r, PACKAGE))
            r->package_cores[r->package_count - 1]++;
    }
    return true;
}

/* What NVML or CUDA call the GPU around: <object "PCIDev"><object "OSDev"><info>. */
static bool begin_info(struct reading *r, const struct xml_element *e)
{
    const struct open_element *pci = around(r, PCI);
    if (pci && pci->gpu > 0 && strcmp(xml_value(e, "name"), "GPUModel") == 0)
        snprintf(r->gpu[pci->gpu - 1].model, HWLOC_MODEL_BYTES, "%s", xml_value(e, "value"));
    return true;
}

static bool begin_distances(struct reading *r, const struct xml_element *e, struct error *err)
{
    int64_t count;
    if (strcmp(xml_value(e, "name"), "NVLinkBandwidth") != 0)
        return true;
    if (r->party_count > 0)
        return fail(err, "%s:%d: expected one NVLinkBandwidth, found another", r->name, e->line);
    if (!read_integer(r, e, "nbobjs", PARTIES, &count, err))
        return false;
    if (count < 1)
        return xml_fail(r->name, e, "nbobjs", "how many objects there are", err);
    r->open[r->depth - 1].kind = DISTANCES;
    r->party_count = (int)count;
    return true;
}

static bool begin_root(struct reading *r, const struct xml_element *e, struct error *err)
{
    const char *version = xml_value(e, "version");
    char *end;
    if (strcmp(e->name, "topology") != 0)
        return fail(err, "%s:%d: expected <topology>, found <%s>: name the file that `lstopo --of xml` wrote", r->name,
                    e->line, e->name);
    r->open[0].kind = TOPOLOGY;
    r->version = strtod(version, &end);
    return (end > version && !*end && r->version >= 2 && r->version < 4) ||
           xml_fail(r->name, e, "version", "2.0 to 3.x, as hwloc writes it since 2018", err);
}

static bool begin(void *self, const struct xml_element *e, struct error *err)
{
    struct reading *r = self;
    enum kind parent = r->depth > 0 ? r->open[r->depth - 1].kind : OTHER;
    if (r->depth == DEPTH)
        return fail(err, "%s:%d: expected at most %d elements inside each other, found more", r->name, e->line,
                    (int)DEPTH);
    r->open[r->depth++] = (struct open_element){ .kind = OTHER, .id = r->next_id++ };
    r->line = e->line, r->text_length = 0;
    if (r->depth == 1)
        return begin_root(r, e, err);
    if (strcmp(e->name, "object") == 0)
        return parent == OTHER || parent >= DISTANCES || begin_object(r, e, err);
    if (strcmp(e->name, "info") == 0)
        return parent != OS || begin_info(r, e);
    if (parent == TOPOLOGY && (strcmp(e->name, "distances2") == 0 || strcmp(e->name, "distances2hetero") == 0))
        return begin_distances(r, e, err);
    if (parent == DISTANCES)
        r->open[r->depth - 1].kind = strcmp(e->name, "indexes") == 0     ? INDEXES
                                     : strcmp(e->name, "u64values") == 0 ? VALUES
                                                                         : OTHER;
    return true;
}

/* ---- the distances ---- */

static bool take_text(void *self, const char *piece, size_t length, struct error *err)
{
    struct reading *r = self;
    enum kind kind = r->open[r->depth - 1].kind;
    if (kind != INDEXES && kind != VALUES)
        return true;
    if (length >= TEXT - r->text_length)
        return fail(err, "%s:%d: expected at most %d bytes of numbers in one element, found more", r->name, r->line,
                    TEXT - 1);
    memcpy(r->text + r->text_length, piece, length);
    r->text_length += length;
    return true;
}

/* An object by hwloc's gp_index: "OSDev:802", or "802" where all are of one type. */
static bool take_index(struct reading *r, const char *word, struct error *err)
{
    const char *colon = strchr(word, ':'), *digits = colon ? colon + 1 : word;
    char *end;
    long long key = strtoll(digits, &end, 10);
    if (end == digits || *end || key < 0 || r->indexes_read == r->party_count)
        return fail(err, "%s:%d: <indexes>: expected %d objects as \"OSDev:802\", found \"%s\"%s", r->name, r->line,
                    r->party_count, word, r->indexes_read == r->party_count ? " too" : "");
    r->party[r->indexes_read++] = key;
    return true;
}

static bool take_value(struct reading *r, const char *word, struct error *err)
{
    int count = r->party_count, at = r->values_read;
    char *end;
    double megabytes = strtod(word, &end);
    if (*end || strspn(word, "0123456789") != strlen(word) || megabytes > 1e9 || at == count * count)
        return fail(err, "%s:%d: <u64values>: expected %d times %d rates in MB/s, found \"%s\"%s", r->name, r->line,
                    count, count, word, at == count * count ? " too" : "");
    r->rate[at / count][at % count] = megabytes * 1e6;
    r->values_read++;
    return true;
}

static bool end(void *self, struct error *err)
{
    struct reading *r = self;
    enum kind kind = r->open[--r->depth].kind;
    char *rest, *word;
    if (kind == DISTANCES && (r->indexes_read < r->party_count || r->values_read < r->party_count * r->party_count))
        return fail(err, "%s:%d: NVLinkBandwidth: expected %d objects and the square of that rates, found %d and %d",
                    r->name, r->line, r->party_count, r->indexes_read, r->values_read);
    if (kind != INDEXES && kind != VALUES)
        return true;
    r->text[r->text_length] = '\0';
    for (word = strtok_r(r->text, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest))
        if (!(kind == INDEXES ? take_index(r, word, err) : take_value(r, word, err)))
            return false;
    r->text_length = 0;
    return true;
}

/* ---- what it means ---- */

static int by_number_and_bus(const void *a, const void *b)
{
    const struct found_gpu *x = a, *y = b;
    return x->number != y->number ? x->number - y->number : strcmp(x->busid, y->busid);
}

/* The GPU's row of the distances; -1: none. */
static int party_of(const struct reading *r, const struct found_gpu *gpu)
{
    for (int i = 0; i < r->party_count; i++)
        if (gpu->nvml_key > 0 && r->party[i] == gpu->nvml_key)
            return i;
    return -1;
}

static bool is_switch(const struct reading *r, int64_t key)
{
    for (int i = 0; i < r->switch_count; i++)
        if (key > 0 && r->switch_key[i] == key)
            return true;
    return false;
}

/* From a party to all NVSwitches together. */
static double rate_to_switches(const struct reading *r, int party)
{
    double rate = 0;
    for (int i = 0; party >= 0 && i < r->party_count; i++)
        rate += is_switch(r, r->party[i]) ? r->rate[party][i] : 0;
    return rate;
}

/* Between two parties, as far as both ways have it. */
static double direct_rate(const struct reading *r, int a, int b)
{
    return a < 0 || b < 0 || a == b ? 0 : fmin(r->rate[a][b], r->rate[b][a]);
}

static void find_links(const struct reading *r, struct topology *t)
{
    struct topology_rates *rates = &t->rates;
    for (int i = 0; i < t->device_count; i++) {
        int party = party_of(r, &r->gpu[i]);
        double up = rate_to_switches(r, party), all = up;
        for (int j = 0; j < t->device_count; j++) {
            int other = party_of(r, &r->gpu[j]);
            double direct = direct_rate(r, party, other);
            bool joined = direct > 0 || (up > 0 && rate_to_switches(r, other) > 0);
            all += direct;
            if (i != j)
                t->pair[i][j].tier = joined ? TIER_NVLINK : bus_tier(&r->gpu[i].place, &r->gpu[j].place);
        }
        rates->nvlinks = bus_slower(rates->nvlinks, all);
        rates->nvswitch = up > 0 && (i == 0 || rates->nvswitch);
        rates->pcie = bus_slower(rates->pcie, r->gpu[i].place.own_link);
        rates->host = bus_slower(rates->host, r->gpu[i].place.slowest_link);
    }
}

/* Whether a card that counts shares no less of the bus with some GPU than all others do. */
static bool is_nearest(const struct reading *r, const struct found_nic *nic, const bool counts[TOPOLOGY_NICS])
{
    for (int i = 0; i < r->gpu_count; i++) {
        int deepest = 0;
        for (int j = 0; j < r->nic_count; j++) {
            int shared = counts[j] ? bus_shared_depth(&r->gpu[i].place, &r->nic[j].place) : 0;
            deepest = max_int(deepest, shared);
        }
        if (bus_shared_depth(&r->gpu[i].place, &nic->place) == deepest)
            return true;
    }
    return false;
}

static void find_network(const struct reading *r, struct hwloc_machine *out)
{
    struct topology *t = &out->topology;
    double slowest = INFINITY;
    bool counts[TOPOLOGY_NICS] = { 0 }, any_fabric = false, known = true;
    for (int i = 0; i < r->nic_count; i++)
        any_fabric = any_fabric || r->nic[i].is_fabric;
    for (int i = 0; i < r->nic_count; i++)
        counts[i] = any_fabric ? r->nic[i].is_fabric : r->nic[i].has_name;
    for (int i = 0; i < r->nic_count; i++) {
        const struct found_nic *nic = &r->nic[i];
        bool same_slot = false;
        if (!counts[i] || !is_nearest(r, nic, counts))
            continue;
        for (int j = 0; j < i; j++)
            same_slot = same_slot || (counts[j] && strcmp(r->nic[j].slot, nic->slot) == 0);
        t->nic_count++;
        t->rates.slots += same_slot ? 0 : nic->place.own_link;
        known = known && nic->place.own_link > 0;
        if (nic->place.own_link >= slowest)
            continue;
        slowest = nic->place.own_link;
        snprintf(out->slowest_card, sizeof out->slowest_card, "%s in %s", *nic->name ? nic->name : "a card",
                 *nic->slot ? nic->slot : "an unknown slot");
    }
    if (!known)
        t->rates.slots = 0;
}

static bool check_kind(const struct reading *r, struct error *err)
{
    const struct found_gpu *first = &r->gpu[0];
    for (int i = 1; i < r->gpu_count; i++) {
        const struct found_gpu *g = &r->gpu[i];
        if (g->vendor != first->vendor || g->device != first->device)
            return fail(err,
                        "%s:%d: expected GPUs of one kind, found %04x:%04x and %04x:%04x: write a cluster file with "
                        "groups",
                        r->name, g->line, first->vendor, first->device, g->vendor, g->device);
    }
    return r->gpu_count > 0 || r->core_count > 0 ||
           fail(err, "%s: expected GPUs or cores, found neither: name the file that `lstopo --of xml` wrote", r->name);
}

static void find_machine(struct reading *r, struct hwloc_machine *out)
{
    struct topology *t = &out->topology;
    *out = (struct hwloc_machine){ .package_count = r->package_count,
                                   .numa_count = r->numa_count,
                                   .core_count = r->core_count,
                                   .memory_bytes = r->memory_bytes,
                                   .cores_are_pus = r->bare_pus,
                                   .unknown_count = r->unknown_count,
                                   .unknown_vendor = r->unknown[1],
                                   .unknown_device = r->unknown[2],
                                   .packages_are_alike = r->package_count > 0 };
    for (int i = 0; i < r->package_count; i++)
        out->packages_are_alike =
            out->packages_are_alike && (int64_t)r->package_cores[i] * r->package_count == r->core_count;
    qsort(r->gpu, (size_t)r->gpu_count, sizeof *r->gpu, by_number_and_bus);
    t->device_count = r->gpu_count;
    t->rates.finder = "hwloc";
    t->rates.as_it_ran = true;
    if (r->gpu_count > 0) {
        out->pci_device = r->gpu[0].vendor == VENDOR_NVIDIA ? r->gpu[0].device : 0;
        memcpy(out->model, r->gpu[0].model, sizeof out->model);
        out->is_amd = r->gpu[0].vendor == VENDOR_AMD;
        find_links(r, t);
        find_network(r, out);
        out->knows_nvlink = t->rates.nvlinks > 0;
        for (int i = 0; i < r->gpu_count; i++)
            out->knows_nvlink = out->knows_nvlink && r->gpu[i].nvml_key > 0;
    }
}

bool hwloc_machine_read(struct hwloc_machine *out, const char *name, const char *text, size_t length, struct error *err)
{
    struct reading *r = calloc(1, sizeof *r);
    const struct xml_handler handler = { r, begin, end, take_text, "topology" };
    if (!r)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    r->name = name;
    bool ok = xml_read(&handler, name, text, length, err) && check_kind(r, err);
    if (ok)
        find_machine(r, out);
    free(r);
    return ok;
}
