/* The variables are those of sbatch's manual, under OUTPUT ENVIRONMENT VARIABLES. */
#include "cli/slurm.h"
#include "planner/facts/cluster.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool read_count(int *out, const char *name, const char *text, struct error *err)
{
    char *end;
    long value = strtol(text, &end, 10);
    *out = (int)value;
    return (end != text && !*end && value >= 1 && value <= MAX_DEVICES) ||
           fail(err, "%s: expected a number from 1 to %d, found '%s'", name, MAX_DEVICES, text);
}

/* "8", "h100:8" or "gpu:h100:8": the type stands before the last colon. */
static bool read_gpus(struct slurm_job *out, int *count, const char *name, const char *text, struct error *err)
{
    const char *number = strrchr(text, ':'), *type = strncmp(text, "gpu:", 4) == 0 ? text + 4 : text;
    if (number && number > type)
        snprintf(out->gpu, sizeof out->gpu, "%.*s", (int)(number - type), type);
    return read_count(count, name, number ? number + 1 : text, err);
}

/* An empty variable says nothing. */
static const char *said(const char *(*environment)(const char *name), const char *name)
{
    const char *value = environment(name);
    return value && *value ? value : NULL;
}

bool slurm_read(struct slurm_job *out, const char *(*environment)(const char *name), struct error *err)
{
    static const char *const of_nodes[] = { "SLURM_JOB_NUM_NODES", "SLURM_NNODES" };
    static const char *const of_gpus[] = { "SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE" };
    const char *nodes = said(environment, of_nodes[0]), *gpus = said(environment, of_gpus[0]),
               *all = said(environment, "SLURM_GPUS");
    int first = nodes == NULL, which = gpus == NULL, total;
    *out = (struct slurm_job){ .nodes = 1 };
    nodes = nodes ? nodes : said(environment, of_nodes[1]);
    gpus = gpus ? gpus : said(environment, of_gpus[1]);
    if (!nodes)
        return fail(err, "--slurm: expected the environment of a job (SLURM_JOB_NUM_NODES), found none; say it inside "
                         "of salloc, sbatch or srun");
    if (!read_count(&out->nodes, of_nodes[first], nodes, err))
        return false;
    if (gpus)
        return read_gpus(out, &out->gpus_per_node, of_gpus[which], gpus, err);
    if (!all)
        return fail(err,
                    "--slurm: the job has no GPUs (none of SLURM_GPUS_PER_NODE, SLURM_GPUS_ON_NODE and SLURM_GPUS)");
    if (!read_gpus(out, &total, "SLURM_GPUS", all, err))
        return false;
    out->gpus_per_node = total / out->nodes;
    return total % out->nodes == 0 ||
           fail(err, "SLURM_GPUS: expected a multiple of %d nodes, found %d", out->nodes, total);
}
