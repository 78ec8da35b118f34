/* Any bytes as the XML that hwloc writes of a machine. What is accepted is the same both ways, and its rates are those
 * of links that are there. */
#include "profiler/hwloc_topology.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_host(const struct hwloc_machine *m)
{
    must(m->topology.device_count > 0 || m->core_count > 0);
    must(m->core_count >= 0 && m->package_count >= 0 && m->numa_count >= 0 && m->memory_bytes >= 0);
    must(!m->packages_are_alike || (m->package_count > 0 && m->core_count % m->package_count == 0));
    must(memchr(m->model, '\0', sizeof m->model) != NULL);
}

static void check_rates(const struct topology *t)
{
    const struct topology_rates *r = &t->rates;
    const double rates[] = { r->nvlinks, r->pcie, r->host, r->slots };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        must(isfinite(rates[i]) && rates[i] >= 0);
    must(r->host == 0 || r->pcie == 0 || r->host <= r->pcie);
    must(r->network == 0 && (r->slots == 0 || t->nic_count > 0));
    must(!r->nvswitch || r->nvlinks > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct hwloc_machine found;
    struct error err = { 0 };
    const struct topology *t = &found.topology;
    if (!hwloc_machine_read(&found, "fuzz", (const char *)data, size, &err)) {
        must(err.kind == ERROR_INPUT && err.message[0] != '\0');
        return 0;
    }
    must(t->device_count >= 0 && t->device_count <= TOPOLOGY_DEVICES && t->nic_count <= TOPOLOGY_NICS);
    for (int i = 0; i < t->device_count; i++)
        for (int j = 0; j < i; j++) {
            must(t->pair[i][j].tier == t->pair[j][i].tier && t->pair[i][j].links == 0);
            must(t->pair[i][j].tier != TIER_NVLINK || t->rates.nvlinks > 0);
        }
    check_host(&found);
    check_rates(t);
    return 0;
}
