#include "host/calls.h"
#include <dlfcn.h>
#include <string.h>

bool calls_find(void *opened, const char *library, const struct library_call_of *calls, size_t count, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        void *call = dlsym(opened, calls[i].name);
        if (!call)
            return fail_kind(err, ERROR_ENVIRONMENT, "%s: expected %s, found none", library, calls[i].name);
        memcpy(calls[i].at, &call, sizeof call);
    }
    return true;
}
