/* The status page: what each rank did last. It lives in memory that the processes of one host share, and is told to
 * other hosts (rendezvous.h), so that when a rank dies or hangs the others end and the message says who and where. */
#ifndef CLEAVE_EXECUTOR_STATUS_H
#define CLEAVE_EXECUTOR_STATUS_H
#include "planner/program/program.h"

struct status;
/* A page for rank_count ranks: in the file (made if absent; all processes of the host name the same one) or, with path
 * NULL, in this process alone. */
bool status_open(struct status **out, const char *path, int rank_count, struct error *err);
void status_close(struct status *status); /* accepts NULL; the file stays */
/* A page in a file without a name, which goes with the last process that has it; others of this host open *path while
 * this one lives. */
enum { STATUS_PATH_BYTES = 64 };
bool status_share(struct status **out, char path[STATUS_PATH_BYTES], int rank_count, struct error *err);
/* Sends a signal, once, to the process of each rank that joined on this host and lives, or joins later. */
void status_signal(struct status *status, int signal);

/* The rank begins to live in this process. */
void status_join(struct status *status, int rank);
/* The rank starts an instruction, or STATUS_IN_GRAPH: all of the step at once; cheap, from any lane. */
enum { STATUS_IN_GRAPH = -2 };
void status_note(struct status *status, int rank, int64_t step, int instr);
/* Around an instruction that waits for no other rank: one that does not come back hangs by itself. */
void status_begin_work(struct status *status, int rank, int instr);
void status_end_work(struct status *status, int rank, int instr);
/* Around a call of a library that waits for no other rank, from one lane at a time: CALL_MADE before it, CALL_PENDING
 * where it came back and the library says that it is in progress, CALL_OVER. instr: -1 before the first step. */
enum library_call { LIBRARY_JOIN, LIBRARY_SPLIT, LIBRARY_CONNECT, LIBRARY_TRANSFER, LIBRARY_LEAVE };
enum call_state { CALL_OVER, CALL_MADE, CALL_PENDING, CALL_STATE_COUNT };
void status_note_call(struct status *status, int rank, int instr, enum library_call call, enum call_state state);
/* The rank waits on purpose (a long imitated computation): it is not stuck. */
void status_beat(struct status *status, int rank);
/* Around what waits for a disk or a network's file system, on one thread of the rank at a time: a single call of the
 * system may take longer than anything else that makes no progress. status_tend_disks() lives in its place, for ranks
 * of this process, but for most_s of one wait at most; status_beat() begins another. */
void status_begin_disk(struct status *status, int rank);
void status_end_disk(struct status *status, int rank);
void status_tend_disks(struct status *status, double most_s);
void status_leave(struct status *status, int rank);
/* The rank will end by itself, because the run has failed: its process is missed by nobody. */
void status_give_up(struct status *status, int rank);
/* A number that changes whenever any rank makes progress. */
uint64_t status_progress(const struct status *status);
/* A rank that has not left and whose process is gone or, on another host, silent; -1: none. Once a rank was accused,
 * only that one. */
int status_dead_rank(const struct status *status);
/* "rank 1 on host a died, rank 3 on host b died": all dead ranks, at most eight by name, since some go because of
 * others and nobody knows who was first. */
struct text;
void status_describe_dead(const struct status *status, struct text *out);
/* What other hosts say of a rank, or this one to them; as it travels. */
/* Who looks at the page that long after its last look was suspended, and has seen no progress for that reason. */
enum { ASLEEP_NS = 1000000000 };
enum { STATUS_HOST_BYTES = 48 };
enum rank_state { RANK_ABSENT, RANK_LIVES, RANK_LEFT, RANK_LOST, RANK_SILENT, RANK_LYING };
struct status_line {
    int32_t rank, state, instr, works;
    int32_t call, call_instr, disk, reserved;
    int64_t step;
    uint64_t progress;
    char host[STATUS_HOST_BYTES]; /* terminated */
};
/* *line: of a rank that joined this page; the host is the caller's to say. */
void status_export(const struct status *status, int rank, struct status_line *line);
/* Ignores a rank that joined this page itself, but for its loss. The line's rank is valid. */
void status_import(struct status *status, const struct status_line *line);
/* The progress of all ranks, as another host counts it. */
void status_import_progress(struct status *status, uint64_t progress);
/* Returns where the rank is, if another host said so; else "". */
const char *status_host(const struct status *status, int rank);

/* The first failure of the host; later ones are ignored. All processes look at it. */
void status_set_failed(struct status *status, int rank);
int status_failed_rank(const struct status *status); /* -1: none */
/* Names the rank that is to blame, before anything is done about it; the first word stands, for all processes. rank -1:
 * one whose process is gone; or stopped; or whose disk does not answer; or that is in an instruction, or a library's
 * call, that waits for no others;
 * else, and among equals, the one that made progress longest ago; nobody where a rank
 * has failed, which says why itself. */
void status_accuse(struct status *status, int rank);
bool status_has_accused(const struct status *status);
/* "rank 3 (stage 1): step 7, instruction 120 all-reduce (layer 2.mlp), its process is stopped; rank 0 ...": the ranks
 * that have not left, at most eight: first the accused one, or else the one that failed, then the dead. */
void status_describe(const struct status *status, const struct program *program, struct text *out);
#endif
