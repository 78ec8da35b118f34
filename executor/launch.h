/* Which rank this process is, where it meets the others, and starting all ranks of a run on this machine. */
#ifndef CLEAVE_EXECUTOR_LAUNCH_H
#define CLEAVE_EXECUTOR_LAUNCH_H
#include "executor/backends.h"
#include "executor/rendezvous.h"
#include "planner/facts/cluster.h"
#include "planner/program/program.h"

/* Looks a variable up; NULL: not set. */
typedef const char *launch_environment(const char *name);

struct launch {
    const char *launcher; /* "torchrun", "Open MPI", "Slurm", "PMI"; NULL: the process was started alone */
    int rank, rank_count;
    int local_rank, local_count; /* among the processes of this host; -1: the launcher does not say */
};
/**
 * Reads the variables that launchers set, in this order: RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE (torchrun, and
 * whoever sets them by hand); OMPI_COMM_WORLD_*; SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID; PMI_RANK, PMI_SIZE. Half a
 * set, or a rank outside the count, is refused.
 */
bool launch_detect(struct launch *out, launch_environment *environment, struct error *err);
/* Refuses a number of processes that is not the plan's. Alone is fine. */
bool launch_check(const struct launch *launch, int plan_ranks, struct error *err);

/**
 * Where the ranks of a launcher meet. The host: MASTER_ADDR, or the first of Slurm's nodes, or this one if the launcher
 * says that all are here. The port: CLEAVE_MASTER_PORT, or MASTER_PORT (the next one while torchrun's agent listens
 * there itself), or one that follows from the job's number. Instead of both CLEAVE_MEETING_FOLDER, unless
 * CLEAVE_MASTER_PORT is set: executor/meeting_file.h; the call then waits for rank 0. The token: CLEAVE_JOB_TOKEN, or
 * the first line of CLEAVE_JOB_TOKEN_FILE, or the job's name as torchrun, Slurm or PMIx say it. What is missing is
 * refused with what to set.
 */
bool launch_meeting(struct meeting *out, const struct launch *launch, double timeout_s, launch_environment *environment,
                    struct error *err);
/* What comm_watched_wrap() takes of a meeting; for launchers whose library brings the ranks together. The host:
 * MASTER_ADDR, or this one if the launcher says that all are here, or empty. */
bool launch_watch(struct meeting *out, const struct launch *launch, double timeout_s, launch_environment *environment,
                  struct error *err);
/* The first host of a list as Slurm writes it: "gpu[07-09,12],login" gives "gpu07". False: it is malformed. */
bool launch_first_host(char out[SOCKET_HOST_BYTES], const char *list);
/* All ranks tell each other their hosts; on every rank: whether ranks share a host as devices share a node of the
 * cluster. */
bool launch_check_hosts(struct rendezvous *rendezvous, const struct cluster *cluster, struct error *err);

/* The variable by which a local launch names the run's status page (status_open) to its processes. */
#define LAUNCH_STATUS_VARIABLE "CLEAVE_STATUS_PAGE"
/* Takes the end of the launcher that started this process, if one of ours did, for a SIGTERM. */
void launch_follow(launch_environment *environment);
/* Signals within this time are one request to end. */
enum { ONE_REQUEST_NS = 1000000000 };

struct launch_local {
    const char *const *arguments; /* the program and its arguments, NULL-terminated: what every rank runs */
    int rank_count;
    enum transport_start start;    /* LIBRARY: by mpirun; MEETING: by this process */
    const struct program *program; /* for the message: what a rank did last; NULL: the ranks keep no status page */
    double timeout_s;              /* after this long without progress the launcher ends all; 0: never */
    double grace_s;                /* a request to end is passed on to the ranks, which save, and after this long the
                                      launcher ends them; 0: at once */
    struct launch_end *end;        /* how it ended; may be NULL */
};
/* Rank 0's process ends with this code when the run saved and ended because it was asked to: the job may be queued
 * again (sysexits.h, EX_TEMPFAIL). */
enum { LAUNCH_CODE_REQUEUE = 75 };
struct launch_end {
    int code;   /* of the first process that did not end well; 0: all did, or one died */
    int signal; /* that asked the launcher to end; 0: none */
    int dead;   /* the rank that died first, -1: none */
};
/**
 * Starts all ranks on this host and waits. The calling process has one thread. Ranks may outnumber cores and are bound
 * to none. True when all ended well. Else the error says which ranks had not finished and what each did last; processes
 * that are left have been ended.
 */
bool launch_run(const struct launch_local *launch, struct error *err);
#endif
