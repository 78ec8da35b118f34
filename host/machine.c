#define _GNU_SOURCE
#include "base/num.h"
#include "host/machine.h"
#include "base/error.h"
#include "base/text.h"
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The text behind `key` and its separator on the first line that begins with it, without quotes and the newline. */
static bool find_line(const char *path, const char *key, char out[HOST_TEXT_BYTES])
{
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOMEM)
        memory_fell_short();
    char line[512];
    bool found = false;
    while (file && !found && fgets(line, sizeof line, file)) {
        size_t length = strlen(key);
        if (strncmp(line, key, length) != 0)
            continue;
        const char *value = line + length + strspn(line + length, " \t:=\"");
        snprintf(out, HOST_TEXT_BYTES, "%.*s", (int)strcspn(value, "\"\n"), value);
        found = out[0] != '\0';
    }
    if (file)
        fclose(file);
    return found;
}

int host_core_count(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return CPU_COUNT(&set) > 0 ? CPU_COUNT(&set) : 1;
    long online = sysconf(_SC_NPROCESSORS_ONLN); /* more cores than the set holds */
    return online > 0 ? (int)online : 1;
}

int64_t host_cache_bytes(void)
{
    enum { UNNAMED = 32 << 20 };
    long second = sysconf(_SC_LEVEL2_CACHE_SIZE), third = sysconf(_SC_LEVEL3_CACHE_SIZE);
    long largest = max_i64(third, second);
    return largest > 0 ? largest : UNNAMED;
}

int64_t host_memory_bytes(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? (int64_t)pages * page : 0;
}

int64_t host_claim_descriptors(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return INT64_MAX;
    limit.rlim_cur = limit.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 && getrlimit(RLIMIT_NOFILE, &limit) != 0)
        return INT64_MAX;
    return limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur > INT64_MAX ? INT64_MAX : (int64_t)limit.rlim_cur;
}

void host_machine_read(struct host_machine *machine)
{
    *machine = (struct host_machine){ .cores = host_core_count() };
    struct utsname names = { .sysname = "unknown" };
    char release[HOST_TEXT_BYTES] = "";
    bool named = uname(&names) == 0;
    if (!find_line("/proc/cpuinfo", "model name", machine->processor) &&
        !find_line("/proc/cpuinfo", "cpu", machine->processor))
        snprintf(machine->processor, sizeof machine->processor, "%s processor", named ? names.machine : "unknown");
    find_line("/etc/os-release", "PRETTY_NAME", release);
    snprintf(machine->system, sizeof machine->system, "%.64s %.64s %.32s%s%.80s", names.sysname, names.release,
             names.machine, release[0] ? ", " : "", release);
    snprintf(machine->host, sizeof machine->host, "%.255s", names.nodename);
    machine->memory_bytes = host_memory_bytes();
}

void host_machine_text(const struct host_machine *machine, char *out, size_t size)
{
    char memory[TEXT_NUMBER_BYTES] = "unknown";
    if (machine->memory_bytes > 0)
        text_bytes(memory, machine->memory_bytes);
    snprintf(out, size, "%s, %d core%s, %s memory, %s", machine->processor, machine->cores,
             machine->cores == 1 ? "" : "s", memory, machine->system);
}

void host_time_text(char out[HOST_TIME_BYTES])
{
    time_t now = time(NULL);
    struct tm parts;
    if (!gmtime_r(&now, &parts) || strftime(out, HOST_TIME_BYTES, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
        snprintf(out, HOST_TIME_BYTES, "unknown");
}
