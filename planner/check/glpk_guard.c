#include "planner/check/glpk_guard.h"
#include <glpk.h>
#include <setjmp.h>
#include <stddef.h>

static void on_error(void *where)
{
    longjmp(*(jmp_buf *)where, 1);
}

bool glpk_guard(bool (*body)(void *context, struct error *err), void *context, struct error *err)
{
    jmp_buf where;
    volatile bool good = false;
    glp_term_out(GLP_OFF); /* per thread: GLPK's environment is */
    if (setjmp(where) != 0) {
        glp_free_env(); /* what it had allocated is dead */
        return fail_kind(err, ERROR_BUG, "GLPK met an error of its own");
    }
    glp_error_hook(on_error, &where);
    good = body(context, err);
    glp_error_hook(NULL, NULL);
    return good;
}
