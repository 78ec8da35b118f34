/* Any bytes as the XML that NCCL writes of a node. What is accepted is the same both ways, and its rates are those of
 * links that are there. */
#include "profiler/nccl_topology.h"
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

static void check_rates(const struct topology *t)
{
    const struct topology_rates *r = &t->rates;
    const double rates[] = { r->nvlinks, r->pcie, r->host, r->network };
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        must(isfinite(rates[i]) && rates[i] >= 0);
    must(r->host == 0 || r->pcie == 0 || r->host <= r->pcie);
    must((r->network > 0) == (t->nic_count > 0));
    must(!r->own_network || t->nic_count % t->device_count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct nccl_topology found;
    struct error err = { 0 };
    if (!nccl_topology_read(&found, "fuzz", (const char *)data, size, &err)) {
        must(err.kind == ERROR_INPUT && err.message[0] != '\0');
        return 0;
    }
    const struct topology *t = &found.topology;
    must(t->device_count >= 1 && t->device_count <= TOPOLOGY_DEVICES);
    for (int i = 0; i < t->device_count; i++)
        for (int j = 0; j < i; j++) {
            must(t->pair[i][j].tier == t->pair[j][i].tier && t->pair[i][j].links == t->pair[j][i].links);
            must((t->pair[i][j].tier == TIER_NVLINK) == (t->pair[i][j].links > 0));
        }
    check_rates(t);
    return 0;
}
