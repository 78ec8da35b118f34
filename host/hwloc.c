#include "host/hwloc.h"
#include "host/calls.h"
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

/* What is called of the library, in hwloc 2's C interface as documented: a topology is a pointer, filters are ints. */
typedef void *hwloc_topology;
struct hwloc {
    void *library;
    int (*init)(hwloc_topology *topology);
    int (*filter_devices)(hwloc_topology topology, int filter);
    int (*load)(hwloc_topology topology);
    int (*write)(hwloc_topology topology, char **xml, int *bytes, unsigned long flags);
    void (*free_text)(hwloc_topology topology, char *xml);
    void (*destroy)(hwloc_topology topology);
};
enum { KEEP_IMPORTANT = 3 /* GPUs, network cards and the bridges above them */ };

static bool find_calls(struct hwloc *h, struct error *err)
{
    const struct library_call_of calls[] = {
        { "hwloc_topology_init", &h->init },       { "hwloc_topology_set_io_types_filter", &h->filter_devices },
        { "hwloc_topology_load", &h->load },       { "hwloc_topology_export_xmlbuffer", &h->write },
        { "hwloc_free_xmlbuffer", &h->free_text }, { "hwloc_topology_destroy", &h->destroy },
    };
    return calls_find(h->library, "libhwloc.so.15", calls, sizeof calls / sizeof *calls, err);
}

static char *written(const struct hwloc *h, hwloc_topology topology, size_t *length, struct error *err)
{
    char *xml = NULL, *text = NULL;
    int bytes = 0;
    if (h->filter_devices(topology, KEEP_IMPORTANT) != 0 || h->load(topology) != 0 ||
        h->write(topology, &xml, &bytes, 0) != 0 || bytes < 1) {
        fail_kind(err, ERROR_ENVIRONMENT, "libhwloc.so.15: cannot read this machine");
        return NULL;
    }
    *length = strnlen(xml, (size_t)bytes); /* the library counts the zero at the end */
    text = malloc(*length + 1);
    if (text)
        memcpy(text, xml, *length), text[*length] = '\0';
    else
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    h->free_text(topology, xml);
    return text;
}

char *hwloc_xml_here(size_t *length, struct error *err)
{
    struct hwloc h = { .library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL) };
    hwloc_topology topology = NULL;
    char *text = NULL;
    if (!h.library)
        return NULL;
    if (find_calls(&h, err) && h.init(&topology) == 0) {
        text = written(&h, topology, length, err);
        h.destroy(topology);
    } else if (!err->kind) {
        fail_kind(err, ERROR_ENVIRONMENT, "libhwloc.so.15: cannot begin");
    }
    dlclose(h.library);
    return text;
}
