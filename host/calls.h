/* Calls of a library that is opened while running. */
#ifndef CLEAVE_HOST_CALLS_H
#define CLEAVE_HOST_CALLS_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>

/* A call by its name, and the address of the pointer that shall hold it. */
struct library_call_of {
    const char *name;
    void *at;
};
/* Finds all of them in what dlopen() gave. library: its name, for the message of the first that is not there. */
bool calls_find(void *opened, const char *library, const struct library_call_of *calls, size_t count,
                struct error *err);
#endif
