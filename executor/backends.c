#define _POSIX_C_SOURCE 200809L
#include "executor/backends.h"
#include "base/text.h"
#include "executor/comm_shaped.h"
#include "executor/comm_tcp.h"
#include "executor/comm_threads.h"
#include "executor/comm_watched.h"
#include "executor/gpu/gpu.h"
#include "executor/gpu/nccl.h"
#include "host/blas.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MODULE_PATH_BYTES = 4096 };

static const struct device *const devices[] = {
#define DEVICE(symbol, name, doc) &symbol,
#include "executor/backends.def"
};
const char *const device_names[] = {
#define DEVICE(symbol, name, doc) name,
#include "executor/backends.def"
    NULL
};
const char *const transport_names[] = {
#define TRANSPORT(name, start, module, of_devices, doc) name,
#include "executor/backends.def"
    NULL
};
static const char *const transport_modules[] = {
#define TRANSPORT(name, start, module, of_devices, doc) module,
#include "executor/backends.def"
};
static const enum transport_start transport_starts[] = {
#define TRANSPORT(name, start, module, of_devices, doc) start,
#include "executor/backends.def"
};
static const bool transports_of_devices[] = {
#define TRANSPORT(name, start, module, of_devices, doc) of_devices,
#include "executor/backends.def"
};

static int find(const char *const *names, const char *what, const char *name, struct error *err)
{
    int count = 0;
    struct text list = { 0 };
    for (; names[count]; count++) {
        if (strcmp(names[count], name) == 0) {
            text_free(&list);
            return count;
        }
        text_printf(&list, "%s%s", count ? ", " : "", names[count]);
    }
    const char *nearest = text_nearest(name, names, (size_t)count);
    fail_kind(err, ERROR_INPUT, "%s: expected one of %s; found '%s'%s%s%s", what, list.data ? list.data : "(none)",
              name, nearest ? "; did you mean " : "", nearest ? nearest : "", nearest ? "?" : "");
    text_free(&list);
    return -1;
}

const struct device *device_find(const char *name, struct error *err)
{
    int index = find(device_names, "backend", name, err);
    if (index >= 0 && devices[index] == &device_cpu)
        blas_open();
    return index >= 0 ? devices[index] : NULL;
}

static void *open_file(const char *module_dir, const char *file, struct error *err)
{
    char path[MODULE_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", module_dir ? module_dir : ".", file) >= (int)sizeof path) {
        fail_kind(err, ERROR_ENVIRONMENT, "the module directory's name is too long");
        return NULL;
    }
    /* stays in memory when it is closed: what Open MPI 4.1 hooks into the allocator's calls it never takes out again */
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    if (!module)
        fail_kind(err, ERROR_ENVIRONMENT, "%s", dlerror());
    return module;
}

static void *find_symbol(void *module, const char *file, const char *name, struct error *err)
{
    void *symbol = dlsym(module, name);
    if (!symbol)
        fail_kind(err, ERROR_ENVIRONMENT, "%s is no module of this program: %s", file, dlerror());
    return symbol;
}

void *module_symbol(const char *module_dir, const char *file, const char *symbol, struct error *err)
{
    void *module = open_file(module_dir, file, err);
    return module ? find_symbol(module, file, symbol, err) : NULL;
}

static void *open_module(const char *transport, const char *file, const char *module_dir, transport_module_open **open,
                         struct error *err)
{
    void *module = open_file(module_dir, file, err);
    void *symbol = module ? find_symbol(module, file, TRANSPORT_MODULE_SYMBOL, err) : NULL;
    if (!symbol) {
        error_within(err, "transport %s is absent", transport);
        if (module)
            dlclose(module);
        return NULL;
    }
    memcpy(open, &symbol, sizeof *open); /* ISO C has no conversion from object to function pointers */
    return module;
}

bool transport_available(const char *name, const char *module_dir, struct error *err)
{
    int index = find(transport_names, "transport", name, err);
    transport_module_open *open;
    if (index < 0)
        return false;
    if (transports_of_devices[index])
        return module_symbol(module_dir, GPU_MODULE_FILE, NCCL_MODULE_SYMBOL, err) != NULL ||
               error_within(err, "transport %s is absent", name);
    if (!transport_modules[index])
        return true;
    void *module = open_module(name, transport_modules[index], module_dir, &open, err);
    if (module)
        dlclose(module);
    return module != NULL;
}

bool transport_of_devices(const char *name)
{
    int index = find(transport_names, "transport", name, &(struct error){ 0 });
    return index >= 0 && transports_of_devices[index];
}

bool transport_start(const char *name, enum transport_start *out, struct error *err)
{
    int index = find(transport_names, "transport", name, err);
    if (index >= 0)
        *out = transport_starts[index];
    return index >= 0;
}

static bool open_one(struct transport_set *set, int index, const struct transport_options *options, struct error *err)
{
    const char *name = transport_names[index], *module = transport_modules[index];
    transport_module_open *open;
    if (module) {
        set->module = open_module(name, module, options->module_dir, &open, err);
        return set->module && open(set->transports, err);
    }
    if (!options->meeting)
        return fail_kind(err, ERROR_INPUT,
                         "transport %s: nobody started the other ranks: give -n RANKS, or start all by a launcher",
                         name);
    if (!comm_tcp_open(set->transports, options->meeting, err))
        return false;
    set->transports->name = name;
    set->transports->of_devices = transports_of_devices[index];
    return true;
}

static bool open_ends(struct transport_set *set, int index, int rank_count, const struct transport_options *options,
                      struct error *err)
{
    int here = transport_starts[index] == START_THREADS ? rank_count : 1;
    if (!blas_reserve(here, err)) /* before the transport has threads */
        return false;
    set->transports = calloc((size_t)here, sizeof *set->transports);
    if (!set->transports)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d ranks", here);
    if (!(transport_starts[index] == START_THREADS ? comm_threads_open(set->transports, rank_count, err)
                                                   : open_one(set, index, options, err)))
        return false;
    set->count = here;
    int found = set->transports->rank_count;
    return found == rank_count ||
           fail_kind(err, ERROR_INPUT, "the plan is for %d ranks, transport %s found %d: start it with -n %d",
                     rank_count, transport_names[index], found, rank_count);
}

bool transports_open(struct transport_set *out, const char *name, int rank_count,
                     const struct transport_options *options, struct error *err)
{
    struct transport_set set = { 0 };
    int index = find(transport_names, "transport", name, err);
    if (index >= 0 && transports_of_devices[index] && options->shape)
        return fail_kind(err, ERROR_INPUT, "--shape delays what hosts send, and not what GPUs send by --transport %s",
                         name);
    bool ok = index >= 0 && open_ends(&set, index, rank_count, options, err) &&
              (!options->watch || transport_starts[index] != START_LIBRARY || rank_count == 1 ||
               comm_watched_wrap(set.transports, options->watch, &set.unwatched, err)) &&
              (!options->shape || comm_shaped_wrap(set.transports, set.count, options->shape, err));
    if (!ok) {
        transports_close(&set);
        return false;
    }
    *out = set;
    return true;
}

void transports_close(struct transport_set *set)
{
    for (int i = set->count - 1; i >= 0; i--)
        set->transports[i].close(set->transports[i].self);
    free(set->transports);
    /* the module stays open: MPI libraries do not bear being unloaded */
    *set = (struct transport_set){ 0 };
}
