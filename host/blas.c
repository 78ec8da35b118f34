#define _XOPEN_SOURCE 700 /* putenv() */
#include "base/num.h"
#include "host/blas.h"
#include <stddef.h>
#ifdef HAVE_OPENBLAS
#include "host/apart.h"
#include "host/blas_core.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct blas blas;
static bool is_open, died; /* died: of what it did in a process apart */
static int reserved;
static void *(*take_buffer)(int of); /* not part of any interface, but what every build of 0.2 and 0.3 calls itself */
static void (*give_buffer)(void *buffer);
enum { LOAD_TRIAL_S = 60, BUFFER_TRIAL_S = 5, ALL_CALLERS = 0 }; /* far more than a loaded machine needs */

static void *load(void)
{
    static const char *const names[] = { "libopenblas.so.0", OPENBLAS_FOLDER "/libopenblas.so.0",
                                         OPENBLAS_FOLDER "/libopenblas.so" };
    void *library = NULL;
    for (size_t i = 0; !library && i < sizeof names / sizeof *names; i++) {
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
        const char *why = library ? NULL : dlerror();
        if (!library && (!why || strstr(why, "memory")))
            died = true;
    }
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
    if (library) {
        find(library, "blas_memory_alloc", &take_buffer);
        find(library, "blas_memory_free", &give_buffer);
    }
    return library && find(library, "cblas_sgemm", &blas.sgemm) && find(library, "cblas_dgemm", &blas.dgemm) &&
           find(library, "openblas_get_config", &blas.config) && find(library, "openblas_get_corename", &blas.core);
}

/* Whether it ends well when it is done in another process. Where memory is short OpenBLAS does not fail: loaded, it
 * dies; asked for a product, it asks for its buffer again and again. Where no process can be started nothing is known
 * against it. */
static bool ends_well(double limit_s, void (*body)(void *context, int index, void *answer), void *context, void *answer,
                      size_t answer_bytes)
{
    enum apart_end end = APART_DIED;
    struct error none = { 0 };
    return !apart_for(1, limit_s, 1, body, context, answer, answer_bytes, &end, &none) || end == APART_ANSWERED;
}

struct trial {
    bool died;
    char core[32]; /* that OpenBLAS takes this processor for */
};

static void try_to_load(void *context, int index, void *answer)
{
    (void)context, (void)index;
    struct trial *trial = answer;
    if (take(load()))
        snprintf(trial->core, sizeof trial->core, "%s", blas.core());
    trial->died = died;
}

/* Loads the library once, as the trial did: for its second time, or for another variable of the environment, it would
 * ask for memory that the trial has not found. So the variable is there before, under another name. */
static void open_once(void)
{
    static char setting[64] = "CLEAVE_CORETYPE=";
    bool avx2, avx512, chosen = getenv("OPENBLAS_CORETYPE");
    struct trial trial = { 0 };
    bool set = setenv("OPENBLAS_NUM_THREADS", "1", 0) == 0 && setenv("OMP_NUM_THREADS", "1", 0) == 0 &&
               putenv(setting) == 0; /* else its kernels would be another processor's, and nobody would say so */
    died = !set || !ends_well(LOAD_TRIAL_S, try_to_load, NULL, &trial, sizeof trial) || trial.died;
    blas_core_extensions(&avx2, &avx512);
    const char *core = chosen ? NULL : blas_core_instead(trial.core, avx2, avx512);
    if (core)
        snprintf(setting, sizeof setting, "OPENBLAS_CORETYPE=%s", core);
    is_open = !died && take(load());
}

const struct blas *blas_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, open_once);
    return is_open ? &blas : NULL;
}

/* It keeps buffers that are given back for the next callers. */
static void take_buffers(void *callers, int index, void *answer)
{
    void *buffers[BLAS_MOST_CALLERS];
    int count = *(const int *)callers;
    (void)index, (void)answer;
    for (int i = 0; i < count; i++)
        buffers[i] = take_buffer(ALL_CALLERS);
    for (int i = 0; i < count; i++)
        give_buffer(buffers[i]);
}

bool blas_reserve(int callers, struct error *err)
{
    int count = min_int(callers, BLAS_MOST_CALLERS);
    blas_open();
    if (died)
        return fail_kind(err, ERROR_ENVIRONMENT, "%s", blas_absence());
    if (!is_open || count <= reserved || !take_buffer || !give_buffer)
        return true;
    bool none;
    if (!ends_well(BUFFER_TRIAL_S, take_buffers, &count, &none, sizeof none))
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory: OpenBLAS needs a buffer for each of %d ranks", count);
    take_buffers(&count, 0, NULL);
    reserved = count;
    return true;
}

const char *blas_absence(void)
{
    return died ? "OpenBLAS dies or hangs when it is loaded: out of memory, or made for another processor"
                : "libopenblas.so.0 is not found or not OpenBLAS's: install libopenblas0";
}
#else
bool blas_reserve(int callers, struct error *err)
{
    (void)callers, (void)err;
    return true;
}

const struct blas *blas_open(void)
{
    return NULL;
}

const char *blas_absence(void)
{
    return "OpenBLAS was absent at build time";
}
#endif
