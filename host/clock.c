#define _POSIX_C_SOURCE 200809L
#include "host/clock.h"
#include <errno.h>
#include <time.h>

enum { NS_PER_S = 1000000000 };

int64_t clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * NS_PER_S + now.tv_nsec;
}

int64_t clock_processor_ns(void)
{
    struct timespec spent;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
    return (int64_t)spent.tv_sec * NS_PER_S + spent.tv_nsec;
}

void clock_sleep_until_ns(int64_t deadline_ns)
{
    if (deadline_ns <= 0)
        return;
    struct timespec deadline = { .tv_sec = (time_t)(deadline_ns / NS_PER_S),
                                 .tv_nsec = (long)(deadline_ns % NS_PER_S) };
    /* absolute: a signal or a busy machine does not add up to drift */
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &deadline, NULL) == EINTR)
        continue;
}
