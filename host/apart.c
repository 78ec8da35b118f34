#define _GNU_SOURCE
#include "base/num.h"
#include "host/apart.h"
#include "host/clock.h"
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_CHILDREN = 256 };
struct child {
    pid_t process; /* 0: there is none */
    int pipe, index;
    int64_t ends_ns; /* when it is late */
};

static bool start(struct child *child, int index, int64_t limit_ns,
                  void (*body)(void *context, int index, void *answer), void *context, size_t answer_bytes,
                  struct error *err)
{
    int ends[2];
    if (pipe(ends) != 0)
        return fail_kind(err, ERROR_ENVIRONMENT, "cannot make a pipe: %s", strerror(errno));
    pid_t process = fork();
    if (process == 0) {
        char answer[APART_MOST_BYTES] __attribute__((aligned(16))) = { 0 };
        close(ends[0]);
        body(context, index, answer);
        _exit(write(ends[1], answer, answer_bytes) == (ssize_t)answer_bytes ? 0 : 1);
    }
    close(ends[1]);
    if (process < 0) {
        close(ends[0]);
        return fail_kind(err, ERROR_ENVIRONMENT, "cannot start a process: %s", strerror(errno));
    }
    *child = (struct child){ process, ends[0], index, clock_now_ns() + limit_ns };
    return true;
}

static void end(struct child *child)
{
    kill(child->process, SIGKILL);
    while (waitpid(child->process, NULL, 0) < 0 && errno == EINTR)
        ;
    close(child->pipe);
    child->process = 0;
}

/* Takes the answer of one that has written it, or notes how else it ended; false: it is still at work. */
static bool finish(struct child *child, bool readable, void *answers, size_t answer_bytes, enum apart_end *ends)
{
    if (!readable && clock_now_ns() < child->ends_ns)
        return false;
    ends[child->index] = APART_LATE;
    if (readable) { /* a pipe takes so few bytes whole or not at all */
        ssize_t got = read(child->pipe, (char *)answers + (size_t)child->index * answer_bytes, answer_bytes);
        ends[child->index] = got == (ssize_t)answer_bytes ? APART_ANSWERED : APART_DIED;
    }
    end(child);
    return true;
}

bool apart_for(int jobs, double limit_s, int count, void (*body)(void *context, int index, void *answer), void *context,
               void *answers, size_t answer_bytes, enum apart_end *ends, struct error *err)
{
    struct child children[MOST_CHILDREN] = { 0 };
    struct pollfd polls[MOST_CHILDREN];
    int64_t limit_ns = (int64_t)(limit_s * 1e9);
    int places = min_int(jobs, MOST_CHILDREN), next = 0, done = 0;
    bool good = true;
    while (good && done < count) {
        int64_t first_ns = INT64_MAX;
        for (int i = 0; i < places; i++) {
            if (children[i].process == 0 && next < count && good)
                good = start(&children[i], next++, limit_ns, body, context, answer_bytes, err);
            bool works = children[i].process != 0;
            polls[i] = (struct pollfd){ .fd = works ? children[i].pipe : -1, .events = POLLIN };
            first_ns = works && children[i].ends_ns < first_ns ? children[i].ends_ns : first_ns;
        }
        int64_t wait_ms = (first_ns - clock_now_ns()) / 1000000 + 1;
        poll(polls, (nfds_t)places, (int)(max_i64(0, min_i64(wait_ms, 1000))));
        for (int i = 0; i < places; i++)
            if (children[i].process != 0)
                done += finish(&children[i], polls[i].revents != 0, answers, answer_bytes, ends);
    }
    for (int i = 0; i < places; i++)
        if (children[i].process != 0)
            end(&children[i]);
    return good;
}
