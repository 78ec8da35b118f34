#include "executor/launch.h"
#include <errno.h>
#include <limits.h>
#include <stdlib.h>

static const struct launcher {
    const char *name, *rank, *count, *local, *local_count;
} launchers[] = {
    { "torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE" },
    { "Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
      "OMPI_COMM_WORLD_LOCAL_SIZE" },
    { "Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL },
    { "PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS" },
};

static bool read_int(const char *name, const char *text, int *out, struct error *err)
{
    char *end;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : 0;
    if (!text || end == text || *end || errno || value < 0 || value > INT_MAX)
        return fail_kind(err, ERROR_INPUT, "the launcher's variable %s: expected a number, found %s", name,
                         text ? text : "none");
    *out = (int)value;
    return true;
}

bool launch_detect(struct launch *out, const char *(*environment)(const char *name), struct error *err)
{
    struct launch launch = { .rank_count = 1, .local_rank = -1, .local_count = -1 };
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && !launch.launcher; i++) {
        const struct launcher *l = &launchers[i];
        if (!environment(l->rank))
            continue;
        const char *local = environment(l->local), *count = l->local_count ? environment(l->local_count) : NULL;
        launch.launcher = l->name;
        if (!read_int(l->rank, environment(l->rank), &launch.rank, err) ||
            !read_int(l->count, environment(l->count), &launch.rank_count, err) ||
            (local && !read_int(l->local, local, &launch.local_rank, err)) ||
            (count && !read_int(l->local_count, count, &launch.local_count, err)))
            return false;
        if (launch.rank >= launch.rank_count)
            return fail_kind(err, ERROR_INPUT, "the launcher's variable %s: expected a rank below %s=%d, found %d",
                             l->rank, l->count, launch.rank_count, launch.rank);
    }
    *out = launch;
    return true;
}

bool launch_check(const struct launch *launch, int plan_ranks, struct error *err)
{
    return !launch->launcher || launch->rank_count == plan_ranks ||
           fail_kind(err, ERROR_INPUT, "the plan is for %d ranks, %s started %d processes: start %d", plan_ranks,
                     launch->launcher, launch->rank_count, plan_ranks);
}
