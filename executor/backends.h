/* The devices and transports that this program has, and why one is absent. */
#ifndef CLEAVE_EXECUTOR_BACKENDS_H
#define CLEAVE_EXECUTOR_BACKENDS_H
#include "executor/device.h"
#include "executor/transport.h"

struct cluster;
struct meeting;
struct transport_options {
    const char *module_dir;        /* cleave-*.so */
    const struct cluster *shape;   /* transfers are delayed to its latency and bandwidth; it must outlive the set; NULL:
                                      as fast as they go */
    const struct meeting *meeting; /* for transports whose processes find each other by a rendezvous; NULL: nobody said
                                      where */
    const struct meeting *watch;   /* for transports that a library brings together: comm_watched_wrap(); NULL: not
                                      watched from other hosts */
};
struct transport_set {
    int count;                    /* ranks that live in this process */
    struct transport *transports; /* (count) */
    void *module;                 /* of dlopen, or NULL */
    struct error unwatched;       /* on rank 0: why options->watch came to nothing; kind NONE: it did not */
};

/* NULL when the name is unknown: err then names the nearest. Opens the processor's library of products, which is best
 * done before there are threads (host/blas.h). */
const struct device *device_find(const char *name, struct error *err);
/**
 * Opens this process's ends of a transport by name. rank_count: of the plan; a transport that finds another number of
 * processes fails, and so does one whose ranks OpenBLAS has no memory for, where device_find() opened that. The caller
 * closes the set. Only from a process of one thread.
 */
bool transports_open(struct transport_set *out, const char *name, int rank_count,
                     const struct transport_options *options, struct error *err);
void transports_close(struct transport_set *set);
/* Tells whether the transport could be opened here; err says why not. Starts nothing. */
bool transport_available(const char *name, const char *module_dir, struct error *err);
struct text;
/* What GPU `--backend cuda` would use for the first rank, and how much memory and cache it has (both may be NULL; a
 * cache of 0 bytes is an unknown one); false: none, err says why. */
bool device_cuda_describe(const char *module_dir, struct text *out, int64_t *memory_bytes, int64_t *cache_bytes,
                          struct error *err);
/* Which NCCL `--transport nccl` would use; false: none, err says why. */
bool device_cuda_describe_nccl(const char *module_dir, struct text *out, struct error *err);
/* What would keep records of what it runs (`run --kernels`); false: nothing, err says why. */
bool device_cuda_describe_records(const char *module_dir, struct text *out, struct error *err);
/* What libraries it would compute with; adds nothing where the module is absent. */
void device_cuda_libraries(const char *module_dir, struct text *out);
/* NULL-terminated. */
extern const char *const device_names[], *const transport_names[];
/* How its ranks come to be. */
enum transport_start {
    START_THREADS, /* as threads of one process */
    START_MEETING, /* as processes that meet at a rendezvous */
    START_LIBRARY  /* as processes that a library brings together, whose own launcher starts them */
};
/* Tells whether data of devices go by a library of theirs, which other devices do not have. */
bool transport_of_devices(const char *name);
/* False: unknown; err names the nearest. */
bool transport_start(const char *name, enum transport_start *out, struct error *err);

/* A symbol of a file of the module directory (NULL: the working folder). The module stays open: the libraries behind
 * some do not bear being unloaded. NULL: absent, err says why. */
void *module_symbol(const char *module_dir, const char *file, const char *symbol, struct error *err);

/* What a module exports under TRANSPORT_MODULE_SYMBOL. */
#define TRANSPORT_MODULE_SYMBOL "cleave_transport_open"
typedef bool transport_module_open(struct transport *out, struct error *err);
#endif
