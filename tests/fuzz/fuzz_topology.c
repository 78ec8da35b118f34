/* Any bytes as what `nvidia-smi topo -m` prints. What is accepted is the same both ways and has levels that hold all
 * its GPUs. */
#include "host/topology.h"
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool holds)
{
    if (!holds)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct topology topology;
    struct topology_levels levels;
    struct error err = { 0 };
    if (!topology_read(&topology, "fuzz", (const char *)data, size, &err)) {
        must(err.kind == ERROR_INPUT);
        return 0;
    }
    int devices = 1, tier = -1;
    topology_find_levels(&levels, &topology);
    for (int i = 0; i < levels.count; i++) {
        must((int)levels.level[i].tier > tier);
        tier = (int)levels.level[i].tier;
        devices *= levels.level[i].fanout;
    }
    must(devices == topology.device_count);
    for (int i = 0; i < topology.device_count; i++)
        for (int j = 0; j < i; j++)
            must(topology.pair[i][j].tier == topology.pair[j][i].tier &&
                 topology.pair[i][j].links == topology.pair[j][i].links);
    return 0;
}
