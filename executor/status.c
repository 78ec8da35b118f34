#define _GNU_SOURCE
#include "base/num.h"
#include "executor/status.h"
#include "base/text.h"
#include "host/clock.h"
#include "host/file.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIBE_MAX = 8 };
enum { STAT_PATH_BYTES = 32, STAT_BYTES = 256, CALLS = (LIBRARY_LEAVE + 1) * CALL_STATE_COUNT };
enum host_state { HOST_UNKNOWN, HOST_WRITING, HOST_KNOWN };
struct rank_status {              /* whole cache lines */
    atomic_int state, pid, instr; /* pid 0: another host says so */
    atomic_int host_state;
    atomic_llong step;
    atomic_ullong progress, told; /* told: its progress as another host counts it */
    atomic_llong moved_ns;        /* when it made progress last */
    atomic_int works;             /* the instruction, plus 1, that waits for no other rank; 0: none */
    atomic_int gave_up;           /* it ends by itself, because the run has failed */
    atomic_int call, call_instr;  /* of a library: what, times CALL_STATE_COUNT, plus its state; of which instruction */
    atomic_llong disk_ns;         /* since when it waits for its disk; 0: it does not */
    char host[STATUS_HOST_BYTES];
    atomic_int signalled; /* it was sent the page's signal */
    char padding_too[4];
};
/* What was seen of the rank that is to blame. */
enum accusation {
    ACCUSED_WAITS,
    ACCUSED_CALLS,
    ACCUSED_WORKS,
    ACCUSED_DISK,
    ACCUSED_STOPPED,
    ACCUSED_GONE,
    ACCUSATION_COUNT
};
struct page {
    atomic_int failed;  /* rank + 1; 0: none */
    atomic_int accused; /* (rank + 1) * ACCUSATION_COUNT + accusation; 0: nobody */
    atomic_ullong progress_elsewhere;
    atomic_int signal; /* that all ranks get, who join later, too; 0: none */
    char padding[44];
    struct rank_status ranks[];
};
struct status {
    struct page *page;
    size_t bytes;
    int rank_count, file; /* file: -1: none */
};

/* Takes the file's descriptor over, below 0: in this process alone. */
static bool map_page(struct status **out, int file, const char *name, int rank_count, struct error *err)
{
    size_t bytes = sizeof(struct page) + (size_t)rank_count * sizeof(struct rank_status);
    struct status *status = calloc(1, sizeof *status);
    struct stat old;
    bool ok =
        file < 0 || (fstat(file, &old) == 0 && (old.st_size >= (off_t)bytes || ftruncate(file, (off_t)bytes) == 0));
    void *page = !ok || !status ? MAP_FAILED
                                : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                                       file >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS, file, 0);
    int cause = errno;
    if (page == MAP_FAILED) {
        if (file >= 0)
            close(file);
        free(status);
        return fail_kind(err, ERROR_ENVIRONMENT, "status page %s: %s%s", name, strerror(cause), file_write_hint(cause));
    }
    *status = (struct status){ .page = page, .bytes = bytes, .rank_count = rank_count, .file = file };
    *out = status;
    return true;
}

bool status_open(struct status **out, const char *path, int rank_count, struct error *err)
{
    int file = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (path && file < 0)
        return fail_kind(err, ERROR_ENVIRONMENT, "status page %s: %s%s", path, strerror(errno), file_write_hint(errno));
    return map_page(out, file, path ? path : "in memory", rank_count, err);
}

bool status_share(struct status **out, char path[STATUS_PATH_BYTES], int rank_count, struct error *err)
{
    int file = memfd_create("cleave-status", MFD_CLOEXEC);
    if (file < 0)
        return fail_kind(err, ERROR_ENVIRONMENT, "cannot create the status page: %s", strerror(errno));
    snprintf(path, STATUS_PATH_BYTES, "/proc/%ld/fd/%d", (long)getpid(), file);
    return map_page(out, file, path, rank_count, err);
}

/* To a rank that joined on this host, once: a second one of a kind would end it. */
static void signal_rank(struct page *page, struct rank_status *r)
{
    int signal = atomic_load(&page->signal), pid = atomic_load(&r->pid);
    if (signal && pid > 0 && atomic_load(&r->state) == RANK_LIVES && !atomic_exchange(&r->signalled, 1))
        kill(pid, signal);
}

void status_signal(struct status *status, int signal)
{
    atomic_store(&status->page->signal, signal);
    for (int r = 0; r < status->rank_count; r++)
        signal_rank(status->page, &status->page->ranks[r]);
}

void status_close(struct status *status)
{
    if (!status)
        return;
    munmap(status->page, status->bytes);
    if (status->file >= 0)
        close(status->file);
    free(status);
}

static void move(struct rank_status *r)
{
    atomic_store_explicit(&r->moved_ns, clock_now_ns(), memory_order_relaxed);
    atomic_fetch_add_explicit(&r->progress, 1, memory_order_relaxed);
}

void status_join(struct status *status, int rank)
{
    struct rank_status *r = &status->page->ranks[rank];
    atomic_store(&r->pid, (int)getpid());
    atomic_store(&r->instr, -1);
    atomic_store(&r->gave_up, 0);
    atomic_store(&r->state, RANK_LIVES);
    move(r);
    signal_rank(status->page, r);
}

void status_note(struct status *status, int rank, int64_t step, int instr)
{
    struct rank_status *r = &status->page->ranks[rank];
    atomic_store_explicit(&r->step, step, memory_order_relaxed);
    atomic_store_explicit(&r->instr, instr, memory_order_relaxed);
    move(r);
}

void status_begin_work(struct status *status, int rank, int instr)
{
    atomic_store_explicit(&status->page->ranks[rank].works, instr + 1, memory_order_relaxed);
}

void status_end_work(struct status *status, int rank, int instr)
{
    int own = instr + 1; /* another lane may have begun a later one */
    atomic_compare_exchange_strong(&status->page->ranks[rank].works, &own, 0);
}

void status_note_call(struct status *status, int rank, int instr, enum library_call call, enum call_state state)
{
    struct rank_status *r = &status->page->ranks[rank];
    atomic_store_explicit(&r->call_instr, instr, memory_order_relaxed);
    atomic_store_explicit(&r->call, (int)call * CALL_STATE_COUNT + (int)state, memory_order_relaxed);
}

/* Only while it waits: the wait may be over on another thread. */
static void restart_disk(struct rank_status *r)
{
    long long since_ns = atomic_load(&r->disk_ns);
    if (since_ns > 0)
        atomic_compare_exchange_strong(&r->disk_ns, &since_ns, clock_now_ns());
}

void status_beat(struct status *status, int rank)
{
    struct rank_status *r = &status->page->ranks[rank];
    restart_disk(r);
    move(r);
}

void status_begin_disk(struct status *status, int rank)
{
    atomic_store(&status->page->ranks[rank].disk_ns, clock_now_ns());
}

void status_end_disk(struct status *status, int rank)
{
    atomic_store(&status->page->ranks[rank].disk_ns, 0);
    status_beat(status, rank);
}

void status_tend_disks(struct status *status, double most_s)
{
    for (int i = 0; i < status->rank_count; i++) {
        struct rank_status *r = &status->page->ranks[i];
        int64_t since_ns = atomic_load(&r->disk_ns);
        if (since_ns > 0 && atomic_load(&r->pid) == (int)getpid() && (double)(clock_now_ns() - since_ns) < 1e9 * most_s)
            move(r);
    }
}

void status_give_up(struct status *status, int rank)
{
    atomic_store(&status->page->ranks[rank].gave_up, 1);
}

void status_leave(struct status *status, int rank)
{
    atomic_store(&status->page->ranks[rank].state, RANK_LEFT);
    status_beat(status, rank);
}

uint64_t status_progress(const struct status *status)
{
    uint64_t sum = atomic_load_explicit(&status->page->progress_elsewhere, memory_order_relaxed);
    for (int r = 0; r < status->rank_count; r++)
        sum += atomic_load_explicit(&status->page->ranks[r].progress, memory_order_relaxed);
    return sum;
}

static bool is_loss(int state)
{
    return state == RANK_LOST || state == RANK_SILENT || state == RANK_LYING;
}

static bool is_dead(const struct status *status, int rank)
{
    struct rank_status *r = &status->page->ranks[rank];
    int state = atomic_load(&r->state), pid = atomic_load(&r->pid);
    return is_loss(state) ||
           (state == RANK_LIVES && pid > 0 && !atomic_load(&r->gave_up) && kill(pid, 0) != 0 && errno == ESRCH);
}

static int accused_rank(const struct status *status, enum accusation *accusation)
{
    int accused = atomic_load(&status->page->accused);
    *accusation = (enum accusation)(accused % ACCUSATION_COUNT);
    return accused / ACCUSATION_COUNT - 1;
}

int status_dead_rank(const struct status *status)
{
    enum accusation accusation;
    int accused = accused_rank(status, &accusation);
    if (accused >= 0) /* who goes after that goes because of it */
        return accusation == ACCUSED_GONE || is_loss(atomic_load(&status->page->ranks[accused].state)) ? accused : -1;
    for (int r = 0; r < status->rank_count; r++)
        if (is_dead(status, r))
            return r;
    return -1;
}

void status_describe_dead(const struct status *status, struct text *out)
{
    int shown = 0, more = 0;
    for (int r = 0; r < status->rank_count; r++) {
        if (!is_dead(status, r))
            continue;
        if (shown == DESCRIBE_MAX) {
            more++;
            continue;
        }
        const char *host = status_host(status, r);
        int state = atomic_load(&status->page->ranks[r].state);
        text_printf(out, "%srank %d%s%s %s", shown++ > 0 ? ", " : "", r, host[0] ? " on host " : "", host,
                    state == RANK_SILENT  ? "was not heard of for too long (--timeout)"
                    : state == RANK_LYING ? "sent what no rank of this job sends, and was refused"
                                          : "died");
    }
    if (more > 0)
        text_printf(out, ", and %d more", more);
}

/* ---- other hosts ---- */
void status_export(const struct status *status, int rank, struct status_line *line)
{
    struct rank_status *r = &status->page->ranks[rank];
    *line = (struct status_line){ .rank = rank,
                                  .state = atomic_load(&r->state),
                                  .instr = atomic_load(&r->instr),
                                  .works = atomic_load(&r->works),
                                  .call = atomic_load(&r->call),
                                  .call_instr = atomic_load(&r->call_instr),
                                  .disk = atomic_load(&r->disk_ns) > 0,
                                  .step = atomic_load(&r->step),
                                  .progress = atomic_load(&r->progress) };
}

static void import_host(struct rank_status *r, const char host[STATUS_HOST_BYTES])
{
    int unknown = HOST_UNKNOWN;
    if (!host[0] || !atomic_compare_exchange_strong(&r->host_state, &unknown, HOST_WRITING))
        return;
    memcpy(r->host, host, STATUS_HOST_BYTES);
    r->host[STATUS_HOST_BYTES - 1] = '\0';
    atomic_store(&r->host_state, HOST_KNOWN);
}

void status_import(struct status *status, const struct status_line *line)
{
    struct rank_status *r = &status->page->ranks[line->rank];
    import_host(r, line->host);
    if (atomic_exchange(&r->told, line->progress) != line->progress && atomic_load(&r->pid) == 0)
        atomic_store(&r->moved_ns, clock_now_ns());
    if (atomic_load(&r->pid) == 0 && line->state != RANK_ABSENT) {
        atomic_store(&r->step, line->step);
        atomic_store(&r->instr, line->instr);
        atomic_store(&r->works, line->works);
        atomic_store(&r->call, is_index(line->call, CALLS) ? line->call : 0); /* a rank may lie */
        atomic_store(&r->call_instr, line->call_instr);
        atomic_store(&r->disk_ns, line->disk > 0);
        if (!is_loss(line->state))
            atomic_store(&r->state, line->state);
    }
    if (is_loss(line->state) && atomic_load(&r->state) != RANK_LEFT)
        atomic_store(&r->state, line->state);
}

void status_import_progress(struct status *status, uint64_t progress)
{
    atomic_store(&status->page->progress_elsewhere, progress);
}

const char *status_host(const struct status *status, int rank)
{
    const struct rank_status *r = &status->page->ranks[rank];
    return atomic_load(&r->host_state) == HOST_KNOWN ? r->host : "";
}

/* ---- what is wrong ---- */
void status_set_failed(struct status *status, int rank)
{
    int none = 0;
    atomic_compare_exchange_strong(&status->page->failed, &none, rank + 1);
}

int status_failed_rank(const struct status *status)
{
    return atomic_load(&status->page->failed) - 1;
}

/* Tells whether the rank is a process of this host that a signal or a debugger has stopped. */
static bool is_stopped(const struct status *status, int rank)
{
    int pid = atomic_load(&status->page->ranks[rank].pid);
    char path[STAT_PATH_BYTES], text[STAT_BYTES];
    snprintf(path, sizeof path, "/proc/%d/stat", pid);
    FILE *file = pid > 0 && pid != (int)getpid() ? fopen(path, "r") : NULL;
    if (!file)
        return false;
    text[fread(text, 1, sizeof text - 1, file)] = '\0';
    fclose(file);
    const char *name_end = strrchr(text, ')'); /* the program's name may hold anything */
    return name_end && (strncmp(name_end, ") T", 3) == 0 || strncmp(name_end, ") t", 3) == 0);
}

static bool is_here(const struct status *status, int rank)
{
    int state = atomic_load(&status->page->ranks[rank].state);
    return state == RANK_LIVES || is_loss(state);
}

static enum call_state call_state_of(const struct status *status, int rank)
{
    return (enum call_state)(atomic_load(&status->page->ranks[rank].call) % CALL_STATE_COUNT);
}

static enum accusation accusation_of(const struct status *status, int rank)
{
    const bool calls = call_state_of(status, rank) == CALL_MADE &&
                       atomic_load(&status->page->ranks[rank].call) / CALL_STATE_COUNT != LIBRARY_LEAVE;
    return is_stopped(status, rank)                              ? ACCUSED_STOPPED
           : is_dead(status, rank)                               ? ACCUSED_GONE
           : atomic_load(&status->page->ranks[rank].disk_ns) > 0 ? ACCUSED_DISK
           : atomic_load(&status->page->ranks[rank].works) > 0   ? ACCUSED_WORKS
           : calls                                               ? ACCUSED_CALLS
                                                                 : ACCUSED_WAITS;
}

/* The rank of which most is seen; of equals the one that made progress longest ago. -1: no rank is there. */
static int find_suspect(const struct status *status, enum accusation *accusation)
{
    int suspect = -1;
    for (int r = 0; r < status->rank_count; r++) {
        if (!is_here(status, r))
            continue;
        enum accusation seen = accusation_of(status, r);
        if (suspect >= 0 &&
            (seen < *accusation || (seen == *accusation && atomic_load(&status->page->ranks[r].moved_ns) >=
                                                               atomic_load(&status->page->ranks[suspect].moved_ns))))
            continue;
        suspect = r;
        *accusation = seen;
    }
    return suspect;
}

void status_accuse(struct status *status, int rank)
{
    enum accusation accusation = ACCUSED_WAITS;
    int nobody = 0;
    if (rank >= 0)
        accusation = accusation_of(status, rank);
    else if (status_failed_rank(status) < 0)
        rank = find_suspect(status, &accusation);
    if (rank >= 0)
        atomic_compare_exchange_strong(&status->page->accused, &nobody,
                                       (rank + 1) * ACCUSATION_COUNT + (int)accusation);
}

bool status_has_accused(const struct status *status)
{
    return atomic_load(&status->page->accused) > 0;
}

static void describe_rank(const struct status *status, const struct program *program, int rank, bool works,
                          struct text *out)
{
    static const char *const called[] = { [LIBRARY_JOIN] = "joining the communicator of all ranks",
                                          [LIBRARY_SPLIT] = "splitting off a communicator",
                                          [LIBRARY_CONNECT] = "connecting to other ranks",
                                          [LIBRARY_LEAVE] = "leaving a communicator" };
    struct rank_status *r = &status->page->ranks[rank];
    int stage = plan_stage_of_rank(program->plan, rank), index = atomic_load(&r->instr), work = atomic_load(&r->works);
    const bool calls = call_state_of(status, rank) != CALL_OVER;
    const int call = atomic_load(&r->call) / CALL_STATE_COUNT;
    const char *host = status_host(status, rank);
    if (works && work > 0) /* other lanes may have begun later ones */
        index = work - 1;
    else if (calls)
        index = atomic_load(&r->call_instr);
    text_printf(out, "rank %d (stage %d%s%s): step %lld, ", rank, stage, host[0] ? ", host " : "", host,
                (long long)atomic_load(&r->step) + 1);
    if (index < 0 || index >= program->stages[stage].instr_count) {
        const bool named = calls && call != LIBRARY_TRANSFER;
        text_printf(out, "%s",
                    named                      ? called[call]
                    : index == STATUS_IN_GRAPH ? "in the graph of the step"
                                               : "no instruction yet");
        return;
    }
    const struct instr *instr = &program->stages[stage].instrs[index];
    text_printf(out, "instruction %d %s", index, op_info[instr->op].name);
    if (instr->layer >= 0)
        text_printf(out, " (layer %s)", program->graph->layers[instr->layer].name);
}

static const char *const seen_of[] = {
    [ACCUSED_WAITS] = ", longest without progress", [ACCUSED_CALLS] = ", a call that does not return",
    [ACCUSED_WORKS] = ", which does not end",       [ACCUSED_DISK] = ", its disk does not answer",
    [ACCUSED_STOPPED] = ", its process is stopped", [ACCUSED_GONE] = ""
};

/* NCCL connects ranks as they come: who has such a call waits for others, or it is the broken one. */
static void describe_pending(const struct status *status, int rank, struct text *out)
{
    if (call_state_of(status, rank) == CALL_PENDING)
        text_printf(out, ", a call that stays in progress");
}

/* Returns who is to blame, or else who failed, and describes what was seen of it; -1: nobody. */
static int describe_first(const struct status *status, const struct program *program, struct text *out)
{
    enum accusation accusation;
    int accused = accused_rank(status, &accusation), first = accused >= 0 ? accused : status_failed_rank(status);
    if (!is_index(first, status->rank_count) || !is_here(status, first))
        return -1;
    describe_rank(status, program, first, accused >= 0 && accusation == ACCUSED_WORKS, out);
    if (accused >= 0)
        text_printf(out, "%s", seen_of[accusation]);
    describe_pending(status, first, out);
    return first;
}

void status_describe(const struct status *status, const struct program *program, struct text *out)
{
    int first = describe_first(status, program, out), shown = first >= 0, more = 0;
    for (int pass = 0; pass < 2; pass++) /* the dead come before those that live */
        for (int r = 0; r < status->rank_count; r++) {
            if (r == first || !is_here(status, r) || is_dead(status, r) != (pass == 0))
                continue;
            if (shown == DESCRIBE_MAX) {
                more++;
                continue;
            }
            text_printf(out, "%s", shown++ > 0 ? "; " : "");
            describe_rank(status, program, r, false, out);
            describe_pending(status, r, out);
        }
    if (more > 0)
        text_printf(out, "; and %d more", more);
}
