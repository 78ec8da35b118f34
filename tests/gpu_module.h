/* The GPU behind a module of the program, for tests that CLEAVE_GPU_MODULE sends to a real one. */
#ifndef CLEAVE_TESTS_GPU_MODULE_H
#define CLEAVE_TESTS_GPU_MODULE_H
#include "executor/gpu/gpu.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL: the test is for emulated GPUs. */
static inline const char *gpu_module_path(void)
{
    return getenv("CLEAVE_GPU_MODULE");
}

/* The process ends with status 77 and one line where there is no GPU. */
static inline void gpu_module_open_or_skip(struct gpu *out, int place)
{
    struct error error = { 0 };
    void *module = dlopen(gpu_module_path(), RTLD_NOW | RTLD_LOCAL);
    void *symbol = module ? dlsym(module, GPU_MODULE_SYMBOL) : NULL;
    gpu_module_open *open;
    if (!symbol)
        fail_kind(&error, ERROR_ENVIRONMENT, "%s", dlerror());
    memcpy(&open, &symbol, sizeof open);
    if (symbol && open(out, GPU_MODULE_VERSION, place, &error))
        return;
    printf("skipped: %s\n", error.message);
    exit(77);
}
#endif
