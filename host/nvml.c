#include "host/nvml.h"
#include "host/calls.h"
#include <dlfcn.h>
#include <string.h>

/* What is called of the library, in its C interface as documented: nvmlReturn_t and enums are ints, a device is a
 * pointer. */
typedef void *nvml_device;
struct nvml {
    void *library;
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_string)(int result);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, nvml_device *device);
    int (*name)(nvml_device device, char *name, unsigned length);
    int (*ancestor)(nvml_device a, nvml_device b, int *level);
    int (*p2p)(nvml_device a, nvml_device b, int capability, int *status);
    int (*link_state)(nvml_device device, unsigned link, int *active);
};
enum { P2P_NVLINK = 2, P2P_OK = 0, ANCESTOR_SWITCHES = 20 /* at most so far: one or several bridges */, NVLINKS = 18 };

static bool open_library(struct nvml *n, struct error *err)
{
    const struct library_call_of calls[] = {
        { "nvmlInit_v2", &n->init },
        { "nvmlShutdown", &n->shutdown },
        { "nvmlErrorString", &n->error_string },
        { "nvmlDeviceGetCount_v2", &n->count },
        { "nvmlDeviceGetHandleByIndex_v2", &n->handle },
        { "nvmlDeviceGetName", &n->name },
        { "nvmlDeviceGetTopologyCommonAncestor", &n->ancestor },
        { "nvmlDeviceGetP2PStatus", &n->p2p },
        { "nvmlDeviceGetNvLinkState", &n->link_state },
    };
    return calls_find(n->library, "libnvidia-ml.so.1", calls, sizeof calls / sizeof *calls, err);
}

static bool ask(const struct nvml *n, int result, const char *what, struct error *err)
{
    return result == 0 ||
           fail_kind(err, ERROR_ENVIRONMENT, "libnvidia-ml.so.1: cannot read %s: %s", what, n->error_string(result));
}

static int active_links(const struct nvml *n, nvml_device device)
{
    int active, count = 0;
    for (unsigned link = 0; link < NVLINKS; link++)
        count += n->link_state(device, link, &active) == 0 && active == 1;
    return count;
}

static bool read_pair(const struct nvml *n, struct topology_pair *out, nvml_device a, nvml_device b, struct error *err)
{
    int status = -1, level, links = active_links(n, a);
    if (links > 0 && n->p2p(a, b, P2P_NVLINK, &status) == 0 && status == P2P_OK) {
        *out = (struct topology_pair){ TIER_NVLINK, links };
        return true;
    }
    if (!ask(n, n->ancestor(a, b, &level), "how two GPUs are connected", err))
        return false;
    *out = (struct topology_pair){ level <= ANCESTOR_SWITCHES ? TIER_SWITCH : TIER_HOST, 0 };
    return true;
}

static bool read_devices(const struct nvml *n, struct nvml_machine *out, struct error *err)
{
    nvml_device device[TOPOLOGY_DEVICES];
    struct topology *t = &out->topology;
    unsigned count;
    if (!ask(n, n->count(&count), "the number of GPUs", err))
        return false;
    if (count > TOPOLOGY_DEVICES)
        return fail_kind(err, ERROR_ENVIRONMENT, "expected at most %d GPUs, found %u", (int)TOPOLOGY_DEVICES, count);
    for (unsigned i = 0; i < count; i++) {
        char name[NVML_NAME_BYTES] = "";
        if (!ask(n, n->handle(i, &device[i]), "a GPU", err) ||
            !ask(n, n->name(device[i], name, sizeof name), "a GPU's name", err))
            return false;
        if (i > 0 && strcmp(name, out->name) != 0)
            return fail(err, "expected GPUs of one kind, found %s and %s: write a cluster file with groups", out->name,
                        name);
        memcpy(out->name, name, sizeof name);
    }
    t->device_count = (int)count;
    for (int i = 0; i < t->device_count; i++)
        for (int j = i + 1; j < t->device_count; j++) {
            if (!read_pair(n, &t->pair[i][j], device[i], device[j], err))
                return false;
            t->pair[j][i] = t->pair[i][j];
        }
    return true;
}

bool nvml_read(struct nvml_machine *out, bool *present, struct error *err)
{
    struct nvml n = { .library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL) };
    *present = n.library != NULL;
    *out = (struct nvml_machine){ .name = "" };
    if (!n.library)
        return true;
    bool ok = open_library(&n, err) && ask(&n, n.init(), "the driver", err);
    if (ok) {
        ok = read_devices(&n, out, err);
        n.shutdown();
    }
    dlclose(n.library);
    return ok;
}
