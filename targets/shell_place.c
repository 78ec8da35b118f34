/* Where a script runs: what it asks of Slurm, whose lines it may state itself, and of the devices of a node. A cluster
 * that is known goes over the script's lines, which its user changes for it. */
#include "base/num.h"
#include "targets/shell_expand.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool set_number(struct shell *s, const char *name, int64_t number)
{
    char digits[24];
    snprintf(digits, sizeof digits, "%lld", (long long)number);
    const char *kept = arena_strdup(s->arena, digits);
    return kept ? shell_set(s, name, strlen(name), kept, false) : fail_memory(s->err);
}

static bool set_nodes(struct shell *s, int64_t nodes)
{
    return set_number(s, "SLURM_NNODES", nodes) && set_number(s, "SLURM_JOB_NUM_NODES", nodes);
}

static bool set_devices(struct shell *s, int64_t each)
{
    return set_number(s, "SLURM_GPUS_PER_NODE", each) && set_number(s, "SLURM_GPUS_ON_NODE", each);
}

static bool set_tasks(struct shell *s, int64_t tasks)
{
    return set_number(s, "SLURM_NTASKS", tasks) && set_number(s, "SLURM_NPROCS", tasks);
}

bool shell_place_begin(struct shell *s)
{
    int64_t nodes = s->place.nodes, each = s->place.node_devices;
    return nodes == 0 || (set_nodes(s, nodes) && set_devices(s, each) && set_tasks(s, nodes * each));
}

/* The number behind "=", in the next word, or behind one letter alone; of "a100:4" the last, and of "nvme:1,gpu:8" that
 * of what is counted, "gpu"; 0: there is none. */
static int64_t number_of(const struct shell_words *words, int index, const char *option, const char *counted)
{
    size_t length = strlen(option);
    const char *word = words->words[index], *value = NULL;
    if (strncmp(word, option, length) == 0)
        value = word[length] == '='                                   ? word + length + 1
                : length == 2 && isdigit((unsigned char)word[length]) ? word + length
                : word[length] == 0 && index + 1 < words->count       ? words->words[index + 1]
                                                                      : NULL;
    value = value ? strstr(value, counted) : NULL;
    size_t end = value ? strcspn(value, ",") : 0, begin = end;
    while (begin > 0 && value[begin - 1] != ':')
        begin--;
    long long number = value ? strtoll(value + begin, NULL, 10) : 0;
    return number > 0 && number <= 1 << 20 ? number : 0;
}

/* What options of Slurm count, as bits. */
enum { OF_NODES = 1, OF_DEVICES = 2, OF_TASKS = 4, OF_NODE_TASKS = 8, OF_NODE_DEVICES = 16 };
static const struct {
    const char *option, *counted;
    int bit;
} options[] = {
    { "--nodes", "", OF_NODES },
    { "-N", "", OF_NODES },
    { "--gpus-per-node", "", OF_DEVICES },
    { "--ntasks", "", OF_TASKS },
    { "-n", "", OF_TASKS },
    { "--gres", "gpu", OF_NODE_DEVICES },
    { "--ntasks-per-node", "", OF_NODE_TASKS },
};
enum { OPTIONS = sizeof options / sizeof *options };

/* Who starts the job as its lines, or options of sbatch, have it gets other nodes, and often another batch, than what
 * is priced. */
static bool say_other(struct shell *s, const char *option, int64_t asked, int64_t here, bool typed)
{
    if (here == 0 || asked == here)
        return true;
    return typed ? shell_note(s, "sbatch %s=%lld (the cluster that it is priced on has %lld)", option, (long long)asked,
                              (long long)here)
                 : shell_note(s, "#SBATCH %s=%lld (line %d: the cluster that it is priced on has %lld)", option,
                              (long long)asked, s->line, (long long)here);
}

static bool set_counted(struct shell *s, int bit, int64_t number, bool typed)
{
    bool known = s->place.nodes > 0;
    switch (bit) {
    case OF_NODES:
        return say_other(s, "--nodes", number, s->place.nodes, typed) && (known || set_nodes(s, number));
    case OF_DEVICES:
        return say_other(s, "--gpus-per-node", number, s->place.node_devices, typed) &&
               (known || set_devices(s, number));
    case OF_NODE_DEVICES:
        return known || set_number(s, "SLURM_GPUS_ON_NODE", number);
    case OF_NODE_TASKS:
        return set_number(s, "SLURM_NTASKS_PER_NODE", number);
    default:
        s->counts_tasks = s->counts_tasks || !known;
        return known || set_tasks(s, number);
    }
}

/* What stands behind sbatch goes over the script's lines (sbatch(1)), whose words are then empty. */
bool shell_place_line(struct shell *s, struct shell_words *words, bool typed)
{
    int before = typed ? 0 : s->typed;
    for (int i = 1; i < words->count; i++)
        for (int o = 0; o < OPTIONS; o++) {
            int64_t number = number_of(words, i, options[o].option, options[o].counted);
            if (number == 0)
                continue;
            if (before & options[o].bit) {
                bool apart = strcmp(words->words[i], options[o].option) == 0;
                words->words[i] = "";
                words->words[i + apart] = "";
                break;
            }
            s->typed |= typed ? options[o].bit : 0;
            if (!set_counted(s, options[o].bit, number, typed))
                return false;
        }
    int64_t all;
    const char *nodes = shell_value(s->script, "SLURM_NNODES"), *each = shell_value(s->script, "SLURM_NTASKS_PER_NODE");
    return s->counts_tasks || !nodes || !each || !mul_i64(&all, strtoll(nodes, NULL, 10), strtoll(each, NULL, 10)) ||
           set_tasks(s, all);
}

static bool holds(const char *text, size_t length, const char *word)
{
    size_t of_word = strlen(word);
    for (size_t i = 0; i + of_word <= length; i++)
        if (memcmp(text + i, word, of_word) == 0)
            return true;
    return false;
}

bool shell_counts_devices(const char *command, size_t length)
{
    static const char *const lists[] = { "nvidia-smi", "rocm-smi" };
    bool counts = holds(command, length, "cuda.device_count()");
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        counts = counts || (holds(command, length, lists[i]) && holds(command, length, "wc -l"));
    return counts;
}
