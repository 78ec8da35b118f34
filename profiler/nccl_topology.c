#include "base/num.h"
#include "profiler/nccl_topology.h"
#include "host/xml.h"
#include "profiler/bus.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    DEPTH = BUS_DEPTH,             /* elements inside each other; a bus has a handful of switches */
    LINKS = TOPOLOGY_DEVICES * 32, /* <nvlink>s of all GPUs */
    HOSTS = TOPOLOGY_DEVICES,
    WORD = 32,                 /* bytes of a bus id, a host's hash */
    CLASS_GPU = 0x03,          /* of PCI: any display controller */
    CLASS_NVSWITCH = 0x068000, /* in full */
};

/* Elements that mean something, each inside those that may hold it. */
enum kind { OTHER, SYSTEM, CPU, PCI, GPU, NIC, NVLINK, NET };

/* An element that is open. */
struct open_element {
    enum kind kind;
    int id;           /* no two elements have the same */
    int host;         /* of a <cpu> */
    double link;      /* of a <pci>: its link's rate; 0: unknown */
    unsigned device;  /* of a <pci> of NVIDIA */
    char busid[WORD]; /* of a <pci> */
};

struct found_gpu {
    struct bus_place place;
    char busid[WORD];
    int id, host, dev, sm, line; /* id: of its <pci>, whose links these are */
    unsigned device;
};
struct found_link {
    int id, count; /* id: of its GPU */
    bool to_switch;
    char target[WORD]; /* bus id of the other end */
};
struct found_nic {
    struct bus_place place;
    int nets;              /* ports with a speed */
    double speed, fastest; /* bytes per second of all its ports and of one */
};

struct reading {
    const char *name;
    int depth, next_id;
    struct open_element open[DEPTH];
    int host_count;
    char host[HOSTS][WORD]; /* host_hash; empty: the file has none, and one host */
    int gpu_count, link_count, nic_count;
    struct found_gpu gpu[TOPOLOGY_DEVICES];
    struct found_link link[LINKS];
    struct found_nic nic[TOPOLOGY_NICS];
};

/* ---- attributes ---- */

static bool read_integer(const struct reading *r, const struct xml_element *e, const char *attribute, int most,
                         int *out, struct error *err)
{
    int64_t number;
    bool ok = xml_integer(&number, r->name, e, attribute, most, err);
    *out = ok ? (int)number : 0;
    return ok;
}

static bool read_word(const struct reading *r, const struct xml_element *e, const char *attribute, char out[WORD],
                      struct error *err)
{
    const char *value = xml_value(e, attribute);
    if (!*value || strlen(value) >= WORD)
        return xml_fail(r->name, e, attribute, "1 to 31 characters", err);
    for (int i = 0; i == 0 || value[i - 1]; i++) /* hexadecimal digits, in either case */
        out[i] = (char)(value[i] >= 'A' && value[i] <= 'F' ? value[i] - 'A' + 'a' : value[i]);
    return true;
}

/* Bytes per second of one lane, each way: the transfers less 8b/10b, 128b/130b or, from 6.0 on, 242 of 256 bytes. 0:
 * the system did not know it. */
static bool read_lane(const struct reading *r, const struct xml_element *e, double *out, struct error *err)
{
    static const struct {
        double transfers;
        double bytes_per_s;
    } lanes[] = { { 2.5, 2.5e9 / 10 },          { 5, 5e9 / 10 },
                  { 8, 8e9 / 8 * 128 / 130 },   { 16, 16e9 / 8 * 128 / 130 },
                  { 32, 32e9 / 8 * 128 / 130 }, { 64, 64e9 / 8 * 242 / 256 } };
    const char *value = xml_value(e, "link_speed");
    char *end;
    double transfers = strtod(value, &end);
    *out = 0;
    if (!*value || strncmp(value, "Unknown", 7) == 0)
        return true;
    for (size_t i = 0; end > value && strncmp(end, " GT/s", 5) == 0 && i < sizeof lanes / sizeof *lanes; i++)
        if (transfers == lanes[i].transfers) {
            *out = lanes[i].bytes_per_s;
            return true;
        }
    return xml_fail(r->name, e, "link_speed", "2.5, 5, 8, 16, 32 or 64 \"GT/s\"", err);
}

/* Widths that no link has are how systems say that they do not know: 0, 63 and 255. */
static bool read_pcie(const struct reading *r, const struct xml_element *e, double *out, struct error *err)
{
    int lanes = 0;
    double lane;
    if (!read_lane(r, e, &lane, err) ||
        (*xml_value(e, "link_width") && !read_integer(r, e, "link_width", 255, &lanes, err)))
        return false;
    *out = lanes <= 32 ? lanes * lane : 0;
    return true;
}

/* ---- elements ---- */

/* The <cpu> and the <pci>s around it. Every value in *out is set. */
static void find_place(const struct reading *r, struct bus_place *out)
{
    *out = (struct bus_place){ 0 };
    for (int i = 0; i < r->depth; i++) {
        const struct open_element *o = &r->open[i];
        if (o->kind == CPU || o->kind == PCI)
            bus_enter(out, o->id, o->kind == PCI, o->link);
    }
}

static bool begin_system(struct reading *r, const struct xml_element *e, struct error *err)
{
    return strcmp(xml_value(e, "version"), "1") == 0 ||
           xml_fail(r->name, e, "version", "1, as NVIDIA's NCCL writes it", err);
}

static bool begin_cpu(struct reading *r, const struct xml_element *e, struct error *err)
{
    char host[WORD] = "";
    int *found = &r->open[r->depth - 1].host;
    if (xml_attribute(e, "host_hash") && !read_word(r, e, "host_hash", host, err))
        return false;
    for (*found = 0; *found < r->host_count; ++*found)
        if (strcmp(r->host[*found], host) == 0)
            return true;
    if (r->host_count == HOSTS)
        return fail(err, "%s:%d: expected at most %d hosts, found more", r->name, e->line, (int)HOSTS);
    memcpy(r->host[r->host_count++], host, sizeof host);
    return true;
}

static bool begin_pci(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct open_element *o = &r->open[r->depth - 1];
    if (strtol(xml_value(e, "vendor"), NULL, 16) == 0x10de)
        o->device = (unsigned)(strtoul(xml_value(e, "device"), NULL, 16) & 0xffff);
    return read_word(r, e, "busid", o->busid, err) && read_pcie(r, e, &o->link, err);
}

static bool is_same_gpu(const struct found_gpu *a, const struct found_gpu *b)
{
    return a->host == b->host && (a->dev == b->dev || strcmp(a->busid, b->busid) == 0);
}

static bool begin_gpu(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct found_gpu *gpu = &r->gpu[r->gpu_count];
    const struct open_element *pci = &r->open[r->depth - 2];
    if (r->gpu_count == TOPOLOGY_DEVICES)
        return fail(err, "%s:%d: expected at most %d GPUs, found more", r->name, e->line, (int)TOPOLOGY_DEVICES);
    if (!read_integer(r, e, "dev", 1023, &gpu->dev, err) || !read_integer(r, e, "sm", 999, &gpu->sm, err))
        return false;
    gpu->id = pci->id, gpu->line = e->line, gpu->device = pci->device, gpu->host = r->open[1].host;
    memcpy(gpu->busid, pci->busid, sizeof gpu->busid);
    for (int i = 0; i < r->gpu_count; i++)
        if (is_same_gpu(&r->gpu[i], gpu))
            return fail(err, "%s:%d: expected every GPU once, found dev %d, which is in line %d too", r->name, e->line,
                        gpu->dev, r->gpu[i].line);
    find_place(r, &gpu->place);
    r->gpu_count++;
    return true;
}

static bool begin_nvlink(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct found_link *link = &r->link[r->link_count];
    char *end;
    long class = strtol(xml_value(e, "tclass"), &end, 16);
    if (r->link_count == LINKS)
        return fail(err, "%s:%d: expected at most %d <nvlink>, found more", r->name, e->line, (int)LINKS);
    if (end == xml_value(e, "tclass") || *end)
        return xml_fail(r->name, e, "tclass", "a class of PCI as \"0x068000\"", err);
    if (!read_integer(r, e, "count", 1024, &link->count, err) || !read_word(r, e, "target", link->target, err))
        return false;
    link->id = r->gpu[r->gpu_count - 1].id, link->to_switch = class == CLASS_NVSWITCH;
    r->link_count += link->to_switch || class >> 16 == CLASS_GPU; /* not those to a processor */
    return true;
}

static bool begin_nic(struct reading *r, const struct xml_element *e, struct error *err)
{
    if (r->nic_count == TOPOLOGY_NICS)
        return fail(err, "%s:%d: expected at most %d network cards, found more", r->name, e->line, (int)TOPOLOGY_NICS);
    r->nic[r->nic_count] = (struct found_nic){ 0 };
    find_place(r, &r->nic[r->nic_count++].place);
    return true;
}

/* Cards say 0 or -1 where they do not know, and net="0" marks one whose ports are part of another entry. */
static bool begin_net(struct reading *r, const struct xml_element *e, struct error *err)
{
    struct found_nic *nic = &r->nic[r->nic_count - 1];
    int megabits = 0;
    if (strcmp(xml_value(e, "net"), "0") == 0 || strcmp(xml_value(e, "speed"), "-1") == 0)
        return true;
    if (!read_integer(r, e, "speed", 100000000, &megabits, err))
        return false;
    nic->nets += megabits > 0;
    nic->speed += megabits * 1e6 / 8;
    nic->fastest = fmax(nic->fastest, megabits * 1e6 / 8);
    return true;
}

static const struct meaning {
    const char *name;
    enum kind kind;
    unsigned inside; /* bit k: of kind k */
    const char *holder;
    bool (*begin)(struct reading *r, const struct xml_element *e, struct error *err);
} meanings[] = {
    { "cpu", CPU, 1u << SYSTEM, "<system>", begin_cpu },
    { "pci", PCI, 1u << CPU | 1u << PCI, "<cpu> or <pci>", begin_pci },
    { "gpu", GPU, 1u << PCI, "<pci>", begin_gpu },
    { "nvlink", NVLINK, 1u << GPU, "<gpu>", begin_nvlink },
    { "nic", NIC, 1u << CPU | 1u << PCI, "<cpu> or <pci>", begin_nic },
    { "net", NET, 1u << NIC, "<nic>", begin_net },
};

static bool begin_known(struct reading *r, const struct xml_element *e, enum kind parent, struct error *err)
{
    for (size_t i = 0; i < sizeof meanings / sizeof *meanings; i++) {
        const struct meaning *m = &meanings[i];
        if (strcmp(e->name, m->name) != 0)
            continue;
        r->open[r->depth - 1].kind = m->kind;
        return (m->inside >> parent & 1) ? m->begin(r, e, err)
                                         : fail(err, "%s:%d: expected <%s> inside %s, found it elsewhere", r->name,
                                                e->line, e->name, m->holder);
    }
    return true;
}

static bool begin(void *self, const struct xml_element *e, struct error *err)
{
    struct reading *r = self;
    enum kind parent = r->depth > 0 ? r->open[r->depth - 1].kind : OTHER;
    if (r->depth == DEPTH)
        return fail(err, "%s:%d: expected at most %d elements inside each other, found more", r->name, e->line,
                    (int)DEPTH);
    r->open[r->depth++] = (struct open_element){ .kind = OTHER, .id = r->next_id++ };
    if (r->depth > 1)
        return parent == OTHER || begin_known(r, e, parent, err);
    r->open[0].kind = SYSTEM;
    return strcmp(e->name, "system") == 0
               ? begin_system(r, e, err)
               : fail(err, "%s:%d: expected <system>, found <%s>: name the file of NCCL_TOPO_DUMP_FILE", r->name,
                      e->line, e->name);
}

static bool end(void *self, struct error *err)
{
    struct reading *r = self;
    (void)err;
    r->depth--;
    return true;
}

/* ---- what it means ---- */

static int by_host_and_dev(const void *a, const void *b)
{
    const struct found_gpu *x = a, *y = b;
    return x->host != y->host ? x->host - y->host : x->dev - y->dev;
}

/* Of one NVLink each way, by what NVIDIA states of the generations; 0: unknown. */
static double nvlink_bytes_per_s(int sm)
{
    switch (sm) {
    case 60:
        return 20e9; /* NVLink 1: P100 */
    case 70:
    case 75:
    case 80:
    case 90:
        return 25e9; /* 2 to 4: V100, Turing, A100, H100 */
    case 86:
        return 14.0625e9; /* 3 of the smaller chips: A40, RTX 3090 */
    case 100:
    case 103:
        return 50e9; /* 5: B200, B300 */
    default:
        return 0;
    }
}

/* NVLinks of a GPU to another; to == from: to switches. */
static int links_from(const struct reading *r, int from, int to)
{
    int count = 0;
    for (int i = 0; i < r->link_count; i++) {
        const struct found_link *l = &r->link[i];
        if (l->id == r->gpu[from].id && (to == from ? l->to_switch
                                                    : !l->to_switch && r->gpu[from].host == r->gpu[to].host &&
                                                          !strcmp(l->target, r->gpu[to].busid)))
            count += l->count;
    }
    return count;
}

/* As far as both ends have them. */
static int direct_links(const struct reading *r, int a, int b)
{
    int there = links_from(r, a, b), back = links_from(r, b, a);
    return min_int(there, back);
}

static struct topology_pair pair_of(const struct reading *r, int a, int b)
{
    int up = links_from(r, a, a), down = links_from(r, b, b), links = direct_links(r, a, b) + min_int(up, down);
    enum link_tier tier = links > 0 ? TIER_NVLINK : bus_tier(&r->gpu[a].place, &r->gpu[b].place);
    return (struct topology_pair){ tier, links };
}

static void find_nvlinks(const struct reading *r, struct nccl_topology *out)
{
    struct topology_rates *rates = &out->topology.rates;
    double each = nvlink_bytes_per_s(out->sm);
    for (int i = 0; i < r->gpu_count; i++) {
        int up = links_from(r, i, i), links = up;
        for (int j = 0; j < r->gpu_count; j++)
            links += j != i ? direct_links(r, i, j) : 0;
        rates->nvlinks = i == 0 ? links * each : fmin(rates->nvlinks, links * each);
        rates->nvswitch = up > 0 && (i == 0 || rates->nvswitch);
    }
}

static void find_pcie(const struct reading *r, struct topology *out)
{
    for (int i = 0; i < r->gpu_count; i++) {
        out->rates.pcie = bus_slower(out->rates.pcie, r->gpu[i].place.own_link);
        out->rates.host = bus_slower(out->rates.host, r->gpu[i].place.slowest_link);
    }
}

/* Whether no other card shares more of the bus with some GPU. */
static bool is_nearest(const struct reading *r, const struct found_nic *nic)
{
    for (int i = 0; i < r->gpu_count; i++) {
        int depth = 0, deepest = 0;
        for (int j = 0; j < r->nic_count; j++) {
            int shared = bus_shared_depth(&r->gpu[i].place, &r->nic[j].place);
            if (r->nic[j].nets > 0 && shared > deepest)
                deepest = shared;
            if (&r->nic[j] == nic)
                depth = shared;
        }
        if (depth == deepest)
            return true;
    }
    return false;
}

static void find_network(const struct reading *r, struct topology *out)
{
    double slowest = 0, fastest = 0;
    for (int i = 0; i < r->nic_count; i++) {
        const struct found_nic *nic = &r->nic[i];
        if (nic->nets == 0 || !is_nearest(r, nic))
            continue;
        double rate = bus_slower(nic->speed, nic->place.own_link);
        out->nic_count += nic->nets;
        out->rates.network += rate;
        slowest = bus_slower(slowest, rate / nic->nets);
        fastest = fmax(fastest, nic->fastest * (rate / nic->speed));
    }
    out->rates.own_network =
        out->nic_count > 0 && out->nic_count % r->gpu_count == 0 && fastest < slowest * 1.001; /* all ports alike */
}

static bool check_kind(const struct reading *r, struct error *err)
{
    const struct found_gpu *first = &r->gpu[0];
    for (int i = 1; i < r->gpu_count; i++) {
        const struct found_gpu *g = &r->gpu[i];
        if (g->sm != first->sm || g->device != first->device)
            return fail(err,
                        "%s:%d: expected GPUs of one kind, found device 0x%04x of sm %d and 0x%04x of sm %d: write a "
                        "cluster file with groups",
                        r->name, g->line, first->device, first->sm, g->device, g->sm);
    }
    return r->gpu_count > 0 ||
           fail(err, "%s: expected <gpu>, found none: name the file that NCCL_TOPO_DUMP_FILE made in a run on GPUs",
                r->name);
}

/* Hosts are one node where NVLink joins all their GPUs. */
static bool check_hosts(const struct reading *r, const struct topology *t, struct error *err)
{
    for (int i = 0; i < t->device_count; i++)
        for (int j = 0; j < i; j++)
            if (r->gpu[i].host != r->gpu[j].host && t->pair[i][j].tier != TIER_NVLINK)
                return fail(err,
                            "%s:%d: expected one host, or hosts that NVLink joins, found no NVLink to the GPU of line "
                            "%d: run NCCL on one host alone",
                            r->name, r->gpu[i].line, r->gpu[j].line);
    return true;
}

static void find_topology(const struct reading *r, struct nccl_topology *out)
{
    struct topology *t = &out->topology;
    *out = (struct nccl_topology){ .sm = r->gpu[0].sm, .pci_device = r->gpu[0].device };
    t->device_count = r->gpu_count;
    t->rates.finder = "NCCL";
    for (int i = 0; i < r->gpu_count; i++)
        for (int j = 0; j < r->gpu_count; j++)
            if (i != j)
                t->pair[i][j] = pair_of(r, i, j);
    find_nvlinks(r, out);
    find_pcie(r, t);
    find_network(r, t);
}

bool nccl_topology_read(struct nccl_topology *out, const char *name, const char *text, size_t length, struct error *err)
{
    struct reading *r = calloc(1, sizeof *r);
    const struct xml_handler handler = { .self = r, .begin = begin, .end = end };
    if (!r)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    r->name = name;
    bool ok = xml_read(&handler, name, text, length, err) && check_kind(r, err);
    struct nccl_topology *made = ok ? calloc(1, sizeof *made) : NULL;
    if (made) {
        qsort(r->gpu, (size_t)r->gpu_count, sizeof *r->gpu, by_host_and_dev);
        find_topology(r, made);
        if ((ok = check_hosts(r, &made->topology, err)))
            *out = *made;
    } else if (ok) {
        ok = fail_kind(err, ERROR_ENVIRONMENT, "%s: out of memory", name);
    }
    free(made);
    free(r);
    return ok;
}
