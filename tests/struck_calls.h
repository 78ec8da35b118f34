/* A child that is traced, and what befalls it at one of its calls of files: it is killed, or a call fails. */
#ifndef CLEAVE_TESTS_STRUCK_CALLS_H
#define CLEAVE_TESTS_STRUCK_CALLS_H
#include "tests/check.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call that no program makes: the child says by it that a save is about to begin, or is over. */
#define MARK "\x01 cleave: a save"
#define LAST_MARK "\x01 cleave: at end"

enum { MOST_FAILING = 64 };

static inline bool is_of_files(long call)
{
    static const long calls[] = { SYS_openat,   SYS_read,      SYS_write,    SYS_close,     SYS_fsync,      SYS_mkdirat,
                                  SYS_renameat, SYS_renameat2, SYS_unlinkat, SYS_ftruncate, SYS_getdents64, SYS_flock };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == call)
            return true;
    return false;
}

static inline bool is_mark(pid_t thread, const struct __ptrace_syscall_info *info, const char mark[sizeof MARK])
{
    char text[sizeof MARK] = "";
    struct iovec to = { text, sizeof text }, from = { (void *)(uintptr_t)info->entry.args[1], sizeof text };
    return info->entry.nr == SYS_faccessat && process_vm_readv(thread, &to, 1, &from, 1, 0) == sizeof text &&
           strcmp(text, mark) == 0;
}

/* What befalls the child at a call of files: it is killed, or the disk is full, for that call or from it on; or from
 * the begin of the run the disk fails, for that call or for all of its kind from it on, or a signal comes between; or
 * a call by which processes talk fails so, as where descriptors are few, or is interrupted. */
enum fault { KILLED, FULL_ONCE, FULL_ON, BROKEN_ONCE, BROKEN_ON, INTERRUPTED, CUT_ONCE, CUT_ON, TALK_INTERRUPTED };

/* Whether the call is one that needs room. */
static inline bool needs_room(const struct __ptrace_syscall_info *info)
{
    static const long calls[] = { SYS_write,    SYS_fsync,     SYS_fdatasync, SYS_mkdirat,
                                  SYS_renameat, SYS_renameat2, SYS_ftruncate, SYS_pwrite64 };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == (long)info->entry.nr)
            return true;
    return info->entry.nr == SYS_openat && (info->entry.args[2] & O_CREAT);
}

static inline bool can_break(const struct __ptrace_syscall_info *info)
{
    static const long calls[] = { SYS_pread64, SYS_fstat, SYS_newfstatat, SYS_faccessat, SYS_mkdir };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == (long)info->entry.nr)
            return true;
    return is_of_files((long)info->entry.nr) || needs_room(info);
}

static inline bool is_of_talk(long call)
{
    static const long calls[] = { SYS_socket,     SYS_bind,     SYS_listen,   SYS_accept4, SYS_connect, SYS_getsockname,
                                  SYS_getsockopt, SYS_recvfrom, SYS_sendto,   SYS_sendmsg, SYS_poll,    SYS_getrandom,
                                  SYS_eventfd2,   SYS_openat,   SYS_renameat, SYS_rename };
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == call)
            return true;
    return false;
}

static inline bool counts_for(enum fault fault, const struct __ptrace_syscall_info *info)
{
    const long call = (long)info->entry.nr;
    switch (fault) {
    case KILLED:
        return is_of_files(call);
    case FULL_ONCE:
    case FULL_ON:
        return needs_room(info);
    case BROKEN_ONCE:
    case BROKEN_ON:
        return can_break(info);
    case INTERRUPTED:
        return call == SYS_read || call == SYS_write || call == SYS_pread64 || call == SYS_pwrite64;
    case CUT_ONCE:
    case CUT_ON:
        return is_of_talk(call);
    case TALK_INTERRUPTED:
        return call == SYS_recvfrom || call == SYS_sendto || call == SYS_poll || call == SYS_accept4;
    }
    return false;
}

/* At the entry of a call: that it is none; at its exit: what came of it. */
static inline void fail_call(pid_t thread, bool at_exit, int why)
{
#ifdef __x86_64__
    struct user_regs_struct registers;
    ck_assert_int_eq(ptrace(PTRACE_GETREGS, thread, 0L, &registers), 0);
    if (at_exit)
        registers.rax = (unsigned long long)-why;
    else
        registers.orig_rax = (unsigned long long)-1;
    ck_assert_int_eq(ptrace(PTRACE_SETREGS, thread, 0L, &registers), 0);
#else
    (void)thread, (void)at_exit, (void)why;
#endif
}

/* Lets the child run until its at-th call of files, or call that needs room, after the first mark, where the fault
 * befalls it. Returns how many such calls it made; below `at`: it ended before. lock_is_file: the system
 * lets nobody lock the folder itself. *result: as waitpid() says it. */
static inline int run_until(pid_t child, int at, enum fault fault, bool lock_is_file, int *result_out)
{
    static const int reasons[] = {
        [FULL_ONCE] = ENOSPC,  [FULL_ON] = ENOSPC,  [BROKEN_ONCE] = EIO, [BROKEN_ON] = EIO,
        [INTERRUPTED] = EINTR, [CUT_ONCE] = EMFILE, [CUT_ON] = EMFILE,   [TALK_INTERRUPTED] = EINTR
    };
    int result, calls = 0, failing[MOST_FAILING] = { 0 }; /* threads whose calls return next */
    bool marked = fault > FULL_ON, over = false;
    bool locked = false;
    long broken = -1; /* the kind of call */
    ck_assert(waitpid(child, &result, 0) == child && WIFSTOPPED(result));
    ck_assert_int_eq(
        ptrace(PTRACE_SETOPTIONS, child, 0L, PTRACE_O_TRACECLONE | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL), 0);
    ptrace(PTRACE_SYSCALL, child, 0L, 0L);
    for (pid_t thread; (thread = waitpid(-1, &result, __WALL)) > 0;) {
        if (!WIFSTOPPED(result)) {
            if (thread == child)
                break;
            continue;
        }
        struct __ptrace_syscall_info info = { 0 };
        bool call =
            WSTOPSIG(result) == (SIGTRAP | 0x80) && ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof info, &info) > 0;
        if (call && info.op == PTRACE_SYSCALL_INFO_ENTRY) {
            marked = marked || is_mark(thread, &info, MARK);
            over = over || is_mark(thread, &info, LAST_MARK);
            bool first_lock = lock_is_file && !locked && info.entry.nr == SYS_flock;
            locked = locked || first_lock;
            bool counts = !first_lock && marked && !over && counts_for(fault, &info);
            calls += counts;
            bool strikes =
                counts && (calls == at || (calls > at && (fault == FULL_ON || (long)info.entry.nr == broken)));
            if (strikes && (fault == BROKEN_ON || fault == CUT_ON))
                broken = (long)info.entry.nr;
            if (strikes && fault == KILLED) {
                kill(child, SIGKILL);
            } else if (strikes || first_lock) {
                fail_call(thread, false, reasons[fault]);
                failing[thread % MOST_FAILING] = thread;
            }
        } else if (call && info.op == PTRACE_SYSCALL_INFO_EXIT && failing[thread % MOST_FAILING] == thread) {
            fail_call(thread, true, reasons[fault]);
            failing[thread % MOST_FAILING] = 0;
        }
        bool ours = WSTOPSIG(result) == (SIGTRAP | 0x80) || WSTOPSIG(result) == SIGTRAP || WSTOPSIG(result) == SIGSTOP;
        ptrace(PTRACE_SYSCALL, thread, 0L, ours ? 0L : (long)WSTOPSIG(result));
    }
    *result_out = result;
    return calls;
}

#endif
