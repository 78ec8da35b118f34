#define _POSIX_C_SOURCE 200809L
#include "host/blas.h"
#include <stddef.h>
#ifdef HAVE_OPENBLAS
#include "host/blas_core.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static struct blas blas;
static bool is_open;

static void *load(void)
{
    static const char *const names[] = { "libopenblas.so.0", OPENBLAS_FOLDER "/libopenblas.so.0",
                                         OPENBLAS_FOLDER "/libopenblas.so" };
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    return library;
}

/* A function's address as POSIX gives it: in a pointer to data. */
static bool find(void *library, const char *name, void *function)
{
    void *at = dlsym(library, name);
    memcpy(function, &at, sizeof at);
    return at != NULL;
}

static bool take(void *library)
{
    return library && find(library, "cblas_sgemm", &blas.sgemm) && find(library, "cblas_dgemm", &blas.dgemm) &&
           find(library, "openblas_get_config", &blas.config) && find(library, "openblas_get_corename", &blas.core);
}

static void open_once(void)
{
    bool avx2, avx512;
    setenv("OPENBLAS_NUM_THREADS", "1", 0);
    setenv("OMP_NUM_THREADS", "1", 0);
    void *library = load();
    is_open = take(library);
    blas_core_extensions(&avx2, &avx512);
    const char *core = is_open && !getenv("OPENBLAS_CORETYPE") ? blas_core_instead(blas.core(), avx2, avx512) : NULL;
    if (!core)
        return;
    setenv("OPENBLAS_CORETYPE", core, 1); /* which is read when the library is loaded */
    dlclose(library);
    is_open = take(load());
}

const struct blas *blas_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return is_open ? &blas : NULL;
}

const char *blas_absence(void)
{
    return "libopenblas.so.0 is not found or not OpenBLAS's: install libopenblas0";
}
#else
const struct blas *blas_open(void)
{
    return NULL;
}

const char *blas_absence(void)
{
    return "OpenBLAS was absent at build time";
}
#endif
