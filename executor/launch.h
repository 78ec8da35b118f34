/* Which rank this process is, and starting all ranks of a run on this machine. */
#ifndef CLEAVE_EXECUTOR_LAUNCH_H
#define CLEAVE_EXECUTOR_LAUNCH_H
#include "planner/program/program.h"

struct launch {
    const char *launcher; /* "torchrun", "Open MPI", "Slurm", "PMI"; NULL: the process was started alone */
    int rank, rank_count;
    int local_rank; /* among the processes of this host; -1: the launcher does not say */
};
/**
 * Reads the variables that launchers set, in this order: RANK, WORLD_SIZE, LOCAL_RANK (torchrun); OMPI_COMM_WORLD_*;
 * SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; PMI_RANK, PMI_SIZE. environment looks one up (NULL: not set). Half a set,
 * or a rank outside the count, is refused.
 */
bool launch_detect(struct launch *out, const char *(*environment)(const char *name), struct error *err);
/* Refuses a number of processes that is not the plan's. Alone is fine. */
bool launch_check(const struct launch *launch, int plan_ranks, struct error *err);

/* The variable by which a local launch names the run's status page (status_open) to its processes. */
#define LAUNCH_STATUS_VARIABLE "CLEAVE_STATUS_PAGE"

struct launch_local {
    const char *const *arguments;  /* the program and its arguments, NULL-terminated: what every rank runs */
    const struct program *program; /* for the message: what a rank did last */
    const char *page_dir;          /* where the status page lives meanwhile; NULL: /dev/shm */
    double timeout_s;              /* after this long without progress the launcher ends all; 0: never */
};
/**
 * Runs `mpirun -n RANKS arguments...` and waits. The calling process has one thread. Ranks may outnumber cores and are
 * bound to none. True when all ended well. Else the error says which ranks had not finished and what each did last;
 * processes that are left have been ended.
 */
bool launch_run(const struct launch_local *launch, struct error *err);
#endif
