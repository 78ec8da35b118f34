#define _POSIX_C_SOURCE 200809L
#include "executor/backends.h"
#include "base/text.h"
#include "executor/comm_shaped.h"
#include "executor/comm_threads.h"
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
#define TRANSPORT(name, module, doc) name,
#include "executor/backends.def"
    NULL
};
static const char *const transport_modules[] = {
#define TRANSPORT(name, module, doc) module,
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
    return index >= 0 ? devices[index] : NULL;
}

static void *open_module(const char *transport, const char *file, const char *module_dir, transport_module_open **open,
                         struct error *err)
{
    char path[MODULE_PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", module_dir ? module_dir : ".", file) >= (int)sizeof path) {
        fail_kind(err, ERROR_ENVIRONMENT, "transport %s: the module directory's name is too long", transport);
        return NULL;
    }
    void *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module) {
        fail_kind(err, ERROR_ENVIRONMENT, "transport %s is absent: %s", transport, dlerror());
        return NULL;
    }
    void *symbol = dlsym(module, TRANSPORT_MODULE_SYMBOL);
    if (!symbol) {
        fail_kind(err, ERROR_ENVIRONMENT, "transport %s: %s is no module of this program: %s", transport, path,
                  dlerror());
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
    if (!transport_modules[index])
        return true;
    void *module = open_module(name, transport_modules[index], module_dir, &open, err);
    if (module)
        dlclose(module);
    return module != NULL;
}

static bool open_ends(struct transport_set *set, int index, int rank_count, const char *module_dir, struct error *err)
{
    transport_module_open *open;
    if (!transport_modules[index]) {
        set->transports = calloc((size_t)rank_count, sizeof *set->transports);
        if (!set->transports)
            return fail_kind(err, ERROR_ENVIRONMENT, "no memory for %d ranks", rank_count);
        if (!comm_threads_open(set->transports, rank_count, err))
            return false;
        set->count = rank_count;
        return true;
    }
    set->transports = calloc(1, sizeof *set->transports);
    if (!set->transports)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a rank");
    set->module = open_module(transport_names[index], transport_modules[index], module_dir, &open, err);
    if (!set->module || !open(set->transports, err))
        return false;
    set->count = 1;
    int found = set->transports->rank_count;
    return found == rank_count ||
           fail_kind(err, ERROR_INPUT, "the plan is for %d ranks, transport %s found %d: start it with -n %d",
                     rank_count, transport_names[index], found, rank_count);
}

bool transports_open(struct transport_set *out, const char *name, int rank_count, const char *module_dir,
                     const struct cluster *shape, struct error *err)
{
    struct transport_set set = { 0 };
    int index = find(transport_names, "transport", name, err);
    bool ok = index >= 0 && open_ends(&set, index, rank_count, module_dir, err) &&
              (!shape || comm_shaped_wrap(set.transports, set.count, shape, err));
    if (!ok) {
        transports_close(&set);
        return false;
    }
    *out = set;
    return true;
}

void transports_close(struct transport_set *set)
{
    for (int i = 0; i < set->count; i++)
        set->transports[i].close(set->transports[i].self);
    free(set->transports);
    /* the module stays open: MPI libraries do not bear being unloaded */
    *set = (struct transport_set){ 0 };
}
