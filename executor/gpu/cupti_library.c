#include "executor/gpu/cupti_library.h"
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

bool cupti_library_open(struct cupti_library *out, struct error *err)
{
    struct cupti_library library;
    char file[32];
    snprintf(file, sizeof file, "libcupti.so.%d", CUDART_VERSION / 1000); /* of the runtime that it is to watch */
    void *module = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!module)
        return fail_kind(err, ERROR_ENVIRONMENT, "CUPTI is absent: %s", dlerror());
#define FUNCTION(symbol)                                                                                               \
    {                                                                                                                  \
        void *found = dlsym(module, #symbol);                                                                          \
        if (!found)                                                                                                    \
            return fail_kind(err, ERROR_ENVIRONMENT, "CUPTI: %s has no %s", file, #symbol);                            \
        memcpy(&library.symbol, &found, sizeof found);                                                                 \
    }
    CUPTI_FUNCTIONS(FUNCTION)
#undef FUNCTION
    *out = library;
    return true;
}
