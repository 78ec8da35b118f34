/* How many devices a launch is for: what torchrun, srun and a batch job's head lines say. */
#include "targets/megatron.h"
#include "base/num.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 1 << 24 };

static bool is_called(const char *name, const char *word, int length)
{
    return strncmp(name, word, (size_t)length) == 0 && !name[length];
}

/* A count as "8", "8:" and what follows, "gpu:8" or "gpu:h100:8", also among other resources; 0: none of these. */
static int64_t count_in(const char *value)
{
    char *end;
    const char *digits = value, *gpu = value ? strstr(value, "gpu:") : NULL;
    size_t length = gpu ? strcspn(gpu, ",(") : 0;
    for (size_t i = 0; i < length; i++)
        digits = gpu[i] == ':' ? gpu + i + 1 : digits;
    long long count = value ? strtoll(digits, &end, 10) : 0;
    bool ends = value && end != digits && (!*end || *end == ':' || (gpu && (*end == ',' || *end == '(')));
    return ends && count > 0 && count <= MOST_DEVICES ? count : 0;
}

bool megatron_launcher_option(struct megatron_launcher *l, const char *word, int length, const char *value)
{
    static const struct {
        const char *name;
        size_t offset;
    } names[] = { { "--nproc_per_node", offsetof(struct megatron_launcher, per_node) },
                  { "--nproc-per-node", offsetof(struct megatron_launcher, per_node) },
                  { "--gpus-per-node", offsetof(struct megatron_launcher, per_node) },
                  { "--gres", offsetof(struct megatron_launcher, per_node) },
                  { "--nnodes", offsetof(struct megatron_launcher, nodes) },
                  { "--nodes", offsetof(struct megatron_launcher, nodes) },
                  { "-N", offsetof(struct megatron_launcher, nodes) },
                  { "--ntasks", offsetof(struct megatron_launcher, tasks) },
                  { "-n", offsetof(struct megatron_launcher, tasks) },
                  { "--ntasks-per-node", offsetof(struct megatron_launcher, tasks_per_node) } };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (is_called(names[i].name, word, length)) {
            int64_t count = count_in(value);
            if (count > 0)
                *(int64_t *)(void *)((char *)l + names[i].offset) = count;
            return true;
        }
    return false;
}

int64_t megatron_launcher_devices(const struct megatron_launcher *l)
{
    int64_t per_node = max_i64(l->per_node, l->tasks_per_node);
    if (l->tasks > 1 && l->tasks >= l->nodes)
        return l->tasks;
    if (per_node > 0)
        return per_node * max_i64(1, l->nodes);
    return 0;
}

/* Reads the launcher's options, and not those behind the program that it starts. */
static void read_options(struct megatron_launcher *l, const struct shell_command *command)
{
    for (int w = 0; w < command->count; w++) {
        const char *word = command->words[w], *equals = strchr(word, '='), *dot = strrchr(word, '.');
        if (dot && strcmp(dot, ".py") == 0)
            return;
        if (*word == '-')
            megatron_launcher_option(l, word, (int)(equals ? equals - word : (ptrdiff_t)strlen(word)),
                                     equals                   ? equals + 1
                                     : w + 1 < command->count ? command->words[w + 1]
                                                              : NULL);
    }
}

int64_t megatron_script_devices(const struct shell_script *script, const struct shell_command *command)
{
    struct megatron_launcher asked = { 0 };
    for (int i = 0; i < script->count; i++)
        if (script->commands[i].count > 0 && strcmp(script->commands[i].words[0], SHELL_BATCH) == 0)
            read_options(&asked, &script->commands[i]);
    if (command) /* what it does not say, srun has of the batch job */
        read_options(&asked, command);
    int64_t devices = megatron_launcher_devices(&asked);
    return devices > 0 ? devices : count_in(shell_value(script, "WORLD_SIZE"));
}
