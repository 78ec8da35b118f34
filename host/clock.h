/* Time that only goes forward. */
#ifndef CLEAVE_HOST_CLOCK_H
#define CLEAVE_HOST_CLOCK_H
#include <stdint.h>

/* Nanoseconds since some moment before the process began; never set back. The processes of one host share it. */
int64_t clock_now_ns(void);
/* Processor time of all threads of this process. */
int64_t clock_processor_ns(void);
/* Sleeps until clock_now_ns() is at least deadline_ns; returns at once when it already is. Signals do not cut it short.
 */
void clock_sleep_until_ns(int64_t deadline_ns);
#endif
