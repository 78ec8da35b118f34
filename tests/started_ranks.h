/* For tests that start themselves again as ranks of a run of a tiny model. */
#ifndef CLEAVE_TESTS_STARTED_RANKS_H
#define CLEAVE_TESTS_STARTED_RANKS_H
#include "executor/backends.h"
#include "executor/run.h"
#include "planner/program/program.h"
#include "tests/tiny_models.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SELF_PATH_BYTES = 4096 };
static char self[SELF_PATH_BYTES], module_dir[SELF_PATH_BYTES + 32];

/* The build keeps modules in a folder beside that of the tests. */
static inline void find_self(void)
{
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 1);
    self[length > 0 ? length : 0] = '\0';
    const char *slash = strrchr(self, '/');
    snprintf(module_dir, sizeof module_dir, "%.*s/../executor", slash ? (int)(slash - self) : 0, self);
}

static inline const char *environment(const char *name)
{
    return getenv(name);
}

/* What this process has to run of `program`, on made-up tokens. `options` get their data here. */
static inline bool run_started(const struct program *program, int rank_count, const char *transport,
                               const struct transport_options *how, struct run_options options, struct error *err)
{
    struct transport_set set;
    struct data data;
    struct run_summary summary;
    if (!transports_open(&set, transport, rank_count, how, err))
        return false;
    bool ok = data_synthetic(&data, sample_shape_of(program->graph), 7, err);
    if (ok) {
        options.seed = 3, options.data = &data;
        ok = run_program(&summary, program, set.transports, set.count, &options, err);
        if (ok)
            run_summary_free(&summary);
        data_free(&data);
    }
    transports_close(&set);
    return ok;
}

#endif
