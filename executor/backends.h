/* The devices and transports that this program has, and why one is absent. */
#ifndef CLEAVE_EXECUTOR_BACKENDS_H
#define CLEAVE_EXECUTOR_BACKENDS_H
#include "executor/device.h"
#include "executor/transport.h"

struct cluster;
struct transport_set {
    int count;                    /* ranks that live in this process */
    struct transport *transports; /* (count) */
    void *module;                 /* of dlopen, or NULL */
};

/* NULL when the name is unknown: err then names the nearest. */
const struct device *device_find(const char *name, struct error *err);
/**
 * Opens this process's ends of a transport by name. rank_count: of the plan; a transport that finds another number of
 * processes fails. module_dir: where cleave-*.so lie. shape: transfers are delayed to the latency and bandwidth of this
 * cluster, which must outlive the set; NULL: as fast as they go. The caller closes the set.
 */
bool transports_open(struct transport_set *out, const char *name, int rank_count, const char *module_dir,
                     const struct cluster *shape, struct error *err);
void transports_close(struct transport_set *set);
/* Whether the transport could be opened here; err says why not. Starts nothing. */
bool transport_available(const char *name, const char *module_dir, struct error *err);
/* NULL-terminated. */
extern const char *const device_names[], *const transport_names[];

/* What a module exports under TRANSPORT_MODULE_SYMBOL. */
#define TRANSPORT_MODULE_SYMBOL "cleave_transport_open"
typedef bool transport_module_open(struct transport *out, struct error *err);
#endif
