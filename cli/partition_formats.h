/* The formats of `cleave partition`: each reads a file, solves it under its own objective and writes its stages. */
#ifndef CLEAVE_CLI_PARTITION_FORMATS_H
#define CLEAVE_CLI_PARTITION_FORMATS_H
#include "base/json.h"
#include "peers/stages.h"

struct partition_request {
    const char *name, *text; /* of the file */
    size_t length;
    const char *machines, *bandwidth;        /* as given, or NULL */
    double memory_bytes;                     /* 0: the file's own */
    int64_t devices, cpus, micro_batches;    /* -1: the file's own */
    int64_t layers, hidden, batch, sequence; /* galvatron; 0: not given */
    const char *const *folders;              /* galvatron: its operands */
    int folder_count;
    bool milliseconds, exact_transfers;
    struct stage_limits limits;
};
/* What a format makes of a request; everything in the arena. */
struct partition_answer {
    struct stage_plan *found;
    double objective; /* computed anew from the nodes of the plan; NAN: the plan is wrong, our bug; INFINITY: so it is,
                         or what was summed up says nothing */
    struct graph_sums sums; /* zeroes: loads are no differences of sums */
    double room_bytes;      /* of a device, which sums.bytes are held against */
    const char *unit;       /* of the objective */
    const void *plan, *graph;
};
struct partition_format {
    const char *name;
    bool (*solve)(const struct partition_request *request, struct arena *arena, struct partition_answer *out,
                  struct error *err);
    void (*write_stage)(struct json_writer *w, const struct partition_answer *answer, int stage);
    void (*print_stage)(struct text *out, const struct partition_answer *answer, int stage);
    const char *lack;      /* what is short when nothing fits */
    bool may_lack_devices; /* of the kind that --devices counts */
    bool reads_folders;    /* the operands are folders; else one file, whose text the request has */
};
extern const struct partition_format partition_galvatron;
extern const struct partition_format *const partition_formats[]; /* NULL-terminated */
extern const char *const partition_format_names[];               /* likewise */
#endif
