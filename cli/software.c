#include "cli/software.h"
#include "executor/backends.h"
#include "host/blas.h"
#include <string.h>

const char *software_compiler(void)
{
#if defined(__clang__)
    return "clang " __clang_version__;
#elif defined(__GNUC__)
    return "gcc " __VERSION__;
#else
    return "unknown";
#endif
}

void software_matmuls(struct text *out)
{
    const struct blas *blas = blas_open();
    if (blas)
        text_printf(out, "%s; kernels for %s", blas->config(), blas->core());
    else
        text_printf(out, "own code, slower: %s", blas_absence());
}

/* By name, through the module that links the library: mpi.h is not needed here. Its text has at most 8192 bytes with
 * the libraries that there are (MPI_MAX_LIBRARY_VERSION_STRING; MPICH's). */
void software_mpi(struct text *out, const char *module_dir)
{
    enum { VERSION_BYTES = 8192 + 1 };
    char version[VERSION_BYTES] = "";
    int length = 0;
    struct error error = { 0 };
    int (*library_version)(char *version, int *length);
    void *symbol = module_symbol(module_dir, "cleave-mpi.so", "MPI_Get_library_version", &error);
    if (!symbol) {
        text_printf(out, "unknown: %s", error.message);
        return;
    }
    memcpy(&library_version, &symbol, sizeof library_version);
    library_version(version, &length);
    version[VERSION_BYTES - 1] = '\0';
    version[strcspn(version, "\r\n")] = '\0'; /* the lines behind it say how it was built */
    text_add(out, version);
}
