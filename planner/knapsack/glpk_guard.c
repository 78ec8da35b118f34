#include "planner/knapsack/glpk_guard.h"
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

struct stopper {
    bool (*stops)(void *self);
    void *self;
};

static void at_node(glp_tree *tree, void *info)
{
    const struct stopper *stopper = info;
    if (stopper->stops(stopper->self))
        glp_ios_terminate(tree);
}

int glpk_branch_and_cut(glp_prob *program, int time_limit_ms, bool (*stops)(void *self), void *self)
{
    struct stopper stopper = { stops, self };
    glp_iocp options;
    glp_init_iocp(&options);
    options.presolve = GLP_ON;
    options.msg_lev = GLP_MSG_OFF;
    options.tol_obj = 1e-9;
    options.mip_gap = 0;
    options.tm_lim = time_limit_ms;
    if (stops) {
        options.cb_func = at_node;
        options.cb_info = &stopper;
    }
    return stops && stops(self) ? GLP_ESTOP : glp_intopt(program, &options);
}

bool glpk_ended(int code)
{
    return code == GLP_ETMLIM || code == GLP_EMIPGAP || code == GLP_ESTOP;
}
