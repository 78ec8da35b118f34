/* The devices, of one type or several, and the hierarchy of links between them. Read once, then const. */
#ifndef CLEAVE_FACTS_CLUSTER_H
#define CLEAVE_FACTS_CLUSTER_H
#include "base/arena.h"
#include "base/error.h"
#include "base/json.h"
#include "models/graph.h"
#include "planner/facts/matmul_surface.h"

enum origin { ORIGIN_ANALYTIC, ORIGIN_FITTED, ORIGIN_MEASURED };
extern const char *const origin_names[4];

enum { MAX_LEVELS = 8, MAX_DEVICES = 1 << 20, MAX_TYPES = 16, MAX_NODE_GROUPS = 64 };

/* Tells how the numbers of a device came about that were measured (`cleave discover --measure`). */
struct device_measured {
    const char *machine, *backend, *software, *created; /* machine NULL: nothing was measured */
    int64_t ranks, repeats;                             /* that ran at once; steps */
    int64_t instruction_ns; /* span of an instruction that does nothing: not in launch_ns nor in times of products */
    double launch_spread, memory_spread; /* interquartile range over median */
    /* mean relative error of products off the grid: as in the catalogue, with the fitted numbers, with surfaces */
    double catalogue_error, formula_error, surface_error;
};

/* A catalogue entry: planner/facts/devices/<name>.json, with its source. Efficiencies are fractions of the peak beside
 * them that large, friendly work reaches; they lie in (0, 1] and each file says where they come from. */
struct device_type {
    const char *name, *description, *source;
    const char *from_memory;                /* which of the numbers were not seen in a source; NULL: none */
    double matmul_flops_per_s[DTYPE_COUNT]; /* dense peak; 0: unsupported */
    double matmul_efficiency; /* of the peak that large matmuls reach without a profile; with its source */
    double fp8_matmul_efficiency, nvfp4_matmul_efficiency;              /* of their own peaks; 0: the same */
    double attention_forward_efficiency, attention_backward_efficiency; /* of the same peak */
    double flash2_flops_per_s; /* what kernels of FlashAttention-2 reach at most, where others do better; 0: none do */
    int matmul_tile, compute_units; /* output tile edge; units that each work on one tile (SMs). 0 units: unknown */
    double vector_flops_per_s;
    double memory_bytes_per_s, memory_efficiency;
    int64_t memory_bytes;
    int64_t reserve_bytes;        /* what a process cannot use: context, libraries, fragmentation */
    int64_t launch_ns;            /* per kernel */
    int64_t collective_launch_ns; /* per collective or transfer, beside the latency of its steps */
    int devices_per_node;         /* usual */
    bool shared_host;             /* devices are cores of one host: profiles know them by the ranks loaded at once */
    double link_bytes_per_s;
    int64_t link_latency_ns; /* per device and direction, inside a node */
    double nic_bytes_per_s;
    int64_t nic_latency_ns;                 /* per device and direction, between nodes */
    double link_efficiency, nic_efficiency; /* of the rates above that large collectives reach */
    double link_pass_bytes_per_s;           /* see cost_collective.c; 0: passes take no time of their own */
    int64_t link_mesh_devices;              /* of a node that are linked each to each; 0: by a switch */
    bool link_shared, nic_shared;           /* see struct link_level */
    double host_bytes_per_s;                /* to and from host memory, per device and direction; 0: unknown */
    int64_t host_latency_ns;                /* of one such copy */
    int64_t host_memory_bytes;              /* of the host, the share of one device; 0: unknown */
    double switch_reduce_factor;
    int64_t switch_reduce_latency_ns;      /* likewise, of the links inside a node */
    double watts;                          /* at most, as its maker rates it; decides nothing. 0: unknown */
    const struct matmul_surface *surfaces; /* (surface_count) measured products; they correct the formula */
    int surface_count;
    struct device_measured measured;
};
/* One level of the hierarchy: groups of `fanout` units of the level below (level 0: of devices). */
struct link_level {
    const char *name; /* "node", "cluster" */
    int fanout;
    double bytes_per_s; /* per device and direction */
    double efficiency;  /* of it that large transfers reach */
    int64_t latency_ns;
    double switch_reduce_factor; /* all-reduces by a whole unit run so much faster than a ring where the switch adds
                                    (NVLS); 0: it does not */
    int64_t switch_reduce_latency_ns; /* their latency */
    bool shared; /* bytes_per_s is of the whole unit, shared by its devices that talk at once: at level 0 the bus of
                    one unit, above the uplink of one unit of the level below */
};
/* Nodes that are alike: their device, with memory and reserve as this cluster has them, and the links from it outwards.
 * A cluster of one type has this much and no more. */
struct node_type {
    struct device_type device;
    int64_t memory_bytes;      /* usable per device: device.memory_bytes less device.reserve_bytes */
    int64_t replaced_bytes;    /* the reserve in whose place cluster_set_reserve() put another; 0: none */
    struct link_level *levels; /* (level_count) inner to outer. The outermost is the network on which all types meet:
                                  its fanout counts this type's units */
    int device_count;          /* in all groups */
};
/* Neighbouring nodes of one type have ranks first_rank to first_rank + device_count - 1. */
struct node_group {
    int type, first_rank, device_count;
    int first_unit[MAX_LEVELS]; /* units of each level in the groups before */
};
struct cluster {
    struct arena arena;
    const char *name; /* the short form or the file's name */
    int level_count;  /* of every type */
    int type_count, group_count;
    struct node_type *types;   /* (type_count) in the order of their first ranks */
    struct node_group *groups; /* (group_count) by first rank; neighbours differ in type */
    int device_count;
    uint64_t hash;
};
/* A catalogue is given as texts (name, JSON), since the core reads no files. */
struct catalogue_entry {
    const char *name, *json;
    size_t length;
};
const struct catalogue_entry *cluster_catalogue_find(const struct catalogue_entry *catalogue, int count,
                                                     const char *name);

/* Gives the links that a device brings, as levels of fanout 1. */
struct link_level device_type_link(const struct device_type *device);
struct link_level device_type_nic(const struct device_type *device);
/* Puts the level's members, as a cluster file has them, into the open object. */
struct json_writer;
void link_level_put(struct json_writer *w, const struct link_level *level);

/* Reads the short form `NODESxDEVICES:TYPE[@key=value,...]`, several joined by '+' (keys: inter, intra, host bytes/s;
 * latency, intra-latency, host-latency seconds; memory, reserve, host-memory bytes) or, when text begins with '{', a
 * cluster JSON. name appears in messages. reserve is bytes or, with a '%' behind it, a share of the memory. The
 * latencies are of one step of a collective. Groups of nodes that are alike in everything are one type. The caller owns
 * *out: cluster_free(). */
bool cluster_read(struct cluster **out, const char *name, const char *text, size_t length,
                  const struct catalogue_entry *catalogue, int catalogue_count, struct error *err);
void cluster_free(struct cluster *cluster); /* accepts NULL */
/* Makes the cluster with `times` as many units of the outermost level of every group; one node alone becomes nodes
 * behind the device's own network. Strings are borrowed from the original, its name too. Fails beyond MAX_DEVICES. */
bool cluster_scaled(struct cluster **out, const struct cluster *cluster, int times, struct error *err);
/* Fills in what follows from the types' inner levels and the groups' types and device counts, after these were changed:
 * ranks, units, the counts of types and of the whole. Not the hash. */
void cluster_number(struct cluster *cluster);
/* Writes the short form of cluster_scaled(), of a cluster's short form: every group's nodes times so many. False when
 * the name is not a short form. */
bool cluster_scaled_name(struct text *out, const char *name, int times);
/* Writes the short form of a part of a cluster with a short form, whose k-th type is types[k] of the whole. One node
 * alone has no keys of a network. False when the name is not a short form. */
bool cluster_part_name(struct text *out, const struct cluster *whole, const struct cluster *part, const int *types);
/* Makes a cluster of as many devices, or a few more that fill up a unit, all of one of the cluster's types: what a
 * stage costs that lives on it alone. Strings and levels below the outermost are borrowed from the original. */
bool cluster_of_type(struct cluster **out, const struct cluster *cluster, int type, struct error *err);
/* Keeps back `bytes` of every device, or `percent` of its memory where that is not negative. False, and nothing
 * changed, when that leaves a device nothing. Only before anybody has looked at the cluster. */
bool cluster_set_reserve(struct cluster *cluster, int64_t bytes, double percent);
/* Of a device file and of a cluster file, for `cleave schema`. */
extern const struct json_format cluster_formats[];

/* Gives the index of the rank's group, and of its type. */
int cluster_group(const struct cluster *cluster, int rank);
int cluster_type(const struct cluster *cluster, int rank);
const struct device_type *cluster_device(const struct cluster *cluster, int rank);
/* Hashes everything that decides a duration or a fit on the type, wherever that stands in the cluster. */
uint64_t cluster_type_hash(const struct cluster *cluster, int type);
/* Gives the types of count ranks from first_rank on: bit t for type t. */
unsigned cluster_types(const struct cluster *cluster, int first_rank, int count);
/* Counts those of count ranks from first_rank on that are of the type. */
int cluster_ranks_of(const struct cluster *cluster, int type, int first_rank, int count);
/* Gives the innermost level at which the ranks are in one unit: 0 inside a node, level_count-1 over everything. */
int cluster_level(const struct cluster *cluster, int rank_a, int rank_b);
/* Gives the number of devices in one unit of the level, where the type's devices live. */
int cluster_unit(const struct cluster *cluster, int type, int level);
/* Tells which unit of the level a rank is in, counted over the whole cluster; level 0: which node. */
int cluster_unit_of(const struct cluster *cluster, int rank, int level);
/* Gives the rank's place in its unit of the level. */
int cluster_place(const struct cluster *cluster, int rank, int level);
/* Counts the devices of the smallest node. */
int cluster_node_size(const struct cluster *cluster);
/* Fails when a device has no peak for the dtype; the message names those it has. Costs trust one that passed. */
bool cluster_check_dtype(const struct cluster *cluster, enum dtype dtype, struct error *err);
/* Reads a catalogue file. name is for messages and the device's unless the JSON has its own; strings live in arena. */
bool device_type_read(struct device_type *out, struct arena *arena, const char *name, const char *json, size_t length,
                      struct error *err);
/* Writes the device as an object that device_type_read() takes, all its fields. */
void device_type_write(struct json_writer *w, const struct device_type *device);
#endif
