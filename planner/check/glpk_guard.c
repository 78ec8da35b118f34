#include "planner/check/glpk_guard.h"
#include <glpk.h>
#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

static void on_error(void *where)
{
    longjmp(*(jmp_buf *)where, 1);
}

/* GLPK has no code for it, only words, which it says before it calls the hook above. */
static int listen_for_memory(void *is_short, const char *said)
{
    *(volatile bool *)is_short |= strstr(said, "memory") != NULL;
    return 1; /* nobody else hears them */
}

bool glpk_guard(bool (*body)(void *context, struct error *err), void *context, struct error *err)
{
    enum { NO_MEMORY = 2 }; /* of glp_init_env(), which ends the process when another call has to make it */
    jmp_buf where;
    volatile bool good = false, is_short = false;
    if (glp_init_env() == NO_MEMORY)
        return fail_memory(err);
    glp_term_out(GLP_OFF); /* per thread: GLPK's environment is */
    if (setjmp(where) != 0) {
        glp_free_env(); /* what it had allocated is dead */
        return is_short ? fail_memory(err) : fail_kind(err, ERROR_BUG, "GLPK met an error of its own");
    }
    glp_term_hook(listen_for_memory, (void *)(uintptr_t)&is_short);
    glp_error_hook(on_error, &where);
    good = body(context, err);
    glp_error_hook(NULL, NULL);
    glp_term_hook(NULL, NULL);
    return good;
}
