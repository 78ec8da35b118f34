/* What this machine is, for the provenance of measurements. */
#ifndef CLEAVE_HOST_MACHINE_H
#define CLEAVE_HOST_MACHINE_H
#include <stddef.h>
#include <stdint.h>

enum { HOST_TEXT_BYTES = 256 };
struct host_machine {
    char processor[HOST_TEXT_BYTES]; /* "AMD EPYC 9B14", or the architecture where the system names no model */
    char system[HOST_TEXT_BYTES];    /* "Linux 6.1.0 x86_64, Debian GNU/Linux 12 (bookworm)" */
    char host[HOST_TEXT_BYTES];      /* its name */
    int cores;                       /* that this process may use, at least 1 */
    int64_t memory_bytes;            /* 0: unknown */
};
/* Never fails: what cannot be learnt stays general. */
void host_machine_read(struct host_machine *machine);
/* Of the machine's memory; 0: unknown. */
int64_t host_memory_bytes(void);
/* Asks the system to let this process have as many files and connections open as it may, and gives that number. */
int64_t host_claim_descriptors(void);
/* One line without the host's name: processor, cores, memory, system. */
void host_machine_text(const struct host_machine *machine, char *out, size_t size);
/* Cores that this process may use, at least 1. */
int host_core_count(void);
/* Bytes of the largest cache that the system names, other machines' share included; 32 MiB where it names none. */
int64_t host_cache_bytes(void);
/* The present moment as ISO 8601 in UTC, "2025-01-31T12:00:00Z". */
enum { HOST_TIME_BYTES = 32 };
void host_time_text(char out[HOST_TIME_BYTES]);
#endif
