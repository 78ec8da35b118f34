/* How many devices a launch of transformers' Trainer states: the options of torchrun, of accelerate and of DeepSpeed's
 * launcher, and the variables that LLaMA-Factory starts torchrun with. */
#include "base/num.h"
#include "targets/settings.h"
#include "targets/trainer.h"
#include <string.h>

/* Counts devices of "NODE@NODE:SLOT,SLOT", as DeepSpeed's launcher includes them (launcher/runner.py,
 * parse_resource_filter()); a node without slots has all of its own. 0: that number is unknown. */
static int64_t count_included(const char *value, int64_t node_devices)
{
    int64_t all = 0;
    bool known = true;
    for (const char *node = value; *node;) {
        size_t length = strcspn(node, "@"), name = strcspn(node, ":@");
        int64_t slots = name < length ? 1 : node_devices;
        for (size_t i = name; i < length; i++)
            slots += node[i] == ',';
        known = known && slots > 0;
        all += slots;
        node += length + (node[length] == '@');
    }
    return known && all <= MOST_DEGREE ? all : 0;
}

bool trainer_read_devices(int64_t *out, struct settings *settings, struct error *err)
{
    int64_t nodes = 1, each = 0, all = 0, on_node = settings->place ? settings->place->node_devices : 0;
    bool nodes_said, each_said, all_said;
    const struct settings_option options[] = {
        { "nnodes", .integer = &nodes, .least = 1, .most = MOST_DEGREE, .said = &nodes_said },
        { "num_nodes", .integer = &nodes, .least = 1, .most = MOST_DEGREE, .said = &nodes_said },
        { "nodes", .integer = &nodes, .least = 1, .most = MOST_DEGREE, .said = &nodes_said },
        { "nproc_per_node", .integer = &each, .least = 1, .most = MOST_DEGREE, .said = &each_said },
        { "num_gpus", .integer = &each, .least = 1, .most = MOST_DEGREE, .said = &each_said },
        { "gpus_per_node", .integer = &each, .least = 1, .most = MOST_DEGREE, .said = &each_said },
        { "num_processes", .integer = &all, .least = 1, .most = MOST_DEGREE, .said = &all_said },
    };
    if (!settings_read(settings, options, sizeof options / sizeof *options, err))
        return false;
    const struct setting *included = settings_take(settings, "include");
    int64_t count = included ? count_included(included->value, on_node) : 0;
    *out = all_said ? all : count > 0 ? count : each_said ? nodes * each : nodes_said ? nodes * on_node : 0;
    return true;
}
