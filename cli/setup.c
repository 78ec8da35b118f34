#define _GNU_SOURCE
#include "cli/setup.h"
#include "host/blas.h"
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_dir(const char *path)
{
    struct stat status;
    return stat(path, &status) == 0 && S_ISDIR(status.st_mode);
}

static char *join(const char *a, const char *b)
{
    char *path = malloc(strlen(a) + strlen(b) + 2);
    if (path)
        sprintf(path, "%s/%s", a, b);
    return path;
}

/* The folder of the executable's folder: PREFIX of PREFIX/bin/cleave, BUILD of BUILD/cli/cleave. */
static char *prefix_of(const char *program)
{
    char *path = strdup(program);
    for (int i = 0; path && i < 2; i++) {
        char *slash = strrchr(path, '/');
        if (slash)
            *slash = 0;
    }
    return path;
}

static char *data_of(const char *prefix)
{
    char *installed = join(prefix, CLEAVE_DATA_SUBDIR);
    if (!installed || is_dir(installed))
        return installed;
    free(installed);
    return strdup(CLEAVE_SOURCE_ROOT); /* a build tree: models/zoo and planner/facts/devices lie in the sources */
}

static char *modules_of(const char *prefix)
{
    char *installed = join(prefix, CLEAVE_MODULE_SUBDIR);
    if (!installed || is_dir(installed))
        return installed;
    free(installed);
    return join(prefix, "executor");
}

bool setup_find(struct setup *setup, struct cli *cli)
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    setup->program = strdup(length > 0 ? path : cli->arguments[0]);
    char *prefix = setup->program ? prefix_of(setup->program) : NULL;
    const char *data = cli->environment("CLEAVE_DATA_DIR"), *modules = cli->environment("CLEAVE_MODULE_DIR");
    setup->data_dir = !prefix ? NULL : data ? strdup(data) : data_of(prefix);
    setup->module_dir = !prefix ? NULL : modules ? strdup(modules) : modules_of(prefix);
    free(prefix);
    cli->program = setup->program;
    cli->data_dir = setup->data_dir;
    cli->module_dir = setup->module_dir;
    return setup->data_dir && setup->module_dir;
}

void setup_free(struct setup *setup)
{
    free(setup->program);
    free(setup->data_dir);
    free(setup->module_dir);
}

void setup_print_version(FILE *out)
{
    fprintf(out, "cleave %s\n", CLEAVE_VERSION);
    fprintf(out, "CPU matmuls: %s%s%s\n", blas_open() ? "OpenBLAS" : "own", blas_open() ? "" : ": ",
            blas_open() ? "" : blas_absence());
}
