#include "profiler/fit.h"
#include <math.h>

/* Solves min sum w (f c + p u - t)^2 with f, p >= 0; w is 1 / t^power. */
static bool solve(struct fit_line *out, const struct fit_point *points, int count, double power)
{
    double cc = 0, cu = 0, uu = 0, ct = 0, ut = 0;
    for (int i = 0; i < count; i++) {
        const struct fit_point *p = &points[i];
        if (p->ns <= 0)
            continue;
        double w = pow(p->ns, -power);
        cc += w * p->calls * p->calls, cu += w * p->calls * p->units, uu += w * p->units * p->units;
        ct += w * p->calls * p->ns, ut += w * p->units * p->ns;
    }
    if (cc <= 0 && uu <= 0)
        return false;
    double determinant = cc * uu - cu * cu;
    double fixed = -1, per = -1;
    if (determinant > 1e-12 * cc * uu) {
        fixed = (ct * uu - ut * cu) / determinant;
        per = (cc * ut - cu * ct) / determinant;
    }
    if (per < 0)
        per = 0, fixed = cc > 0 ? ct / cc : 0;
    if (fixed < 0 || (determinant <= 1e-12 * cc * uu && uu > 0))
        fixed = 0, per = uu > 0 ? ut / uu : 0;
    *out = (struct fit_line){ .fixed_ns = fixed, .ns_per_unit = per };
    return true;
}

/* Over points of at least `share` of the longest time. */
static void set_error(struct fit_line *line, const struct fit_point *points, int count, double share)
{
    double longest = 0;
    for (int i = 0; i < count; i++)
        longest = fmax(longest, points[i].ns);
    for (int i = 0; i < count; i++) {
        double ns = line->fixed_ns * points[i].calls + line->ns_per_unit * points[i].units;
        if (points[i].ns > 0 && points[i].ns >= share * longest)
            line->error = fmax(line->error, fabs(ns - points[i].ns) / points[i].ns);
    }
}

bool fit_line(struct fit_line *out, const struct fit_point *points, int count)
{
    if (!solve(out, points, count, 1))
        return false;
    set_error(out, points, count, FIT_COUNTS);
    return true;
}

bool fit_relative(struct fit_line *out, const struct fit_point *points, int count)
{
    if (!solve(out, points, count, 2))
        return false;
    set_error(out, points, count, 0);
    return true;
}
