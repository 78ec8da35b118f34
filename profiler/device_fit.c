#include "profiler/device_fit.h"
#include "planner/cost/cost_matmul.h"
#include <math.h>

static const int tiles[] = { 1, 2, 4, 8, 16, 32, 64, 128, 256 };
static const double LEAST_EFFICIENCY = 1e-4;

double device_fit_error(const struct device_type *device, enum dtype dtype, const struct timed_product *timed,
                        int count)
{
    double sum = 0;
    for (int i = 0; i < count; i++) {
        const struct product *p = &timed[i].product;
        double ns = cost_product_ns(device, dtype, p->phase, (double)p->m, (double)p->n, (double)p->k);
        sum += fabs(ns / timed[i].ns - 1);
    }
    return count > 0 ? sum / count : 0;
}

/* Sum of the squared logarithms of predicted over measured. */
static double misfit(struct device_type device, enum dtype dtype, const struct timed_product *timed, int count,
                     double log_efficiency)
{
    double sum = 0;
    device.matmul_efficiency = exp(log_efficiency);
    for (int i = 0; i < count; i++) {
        const struct product *p = &timed[i].product;
        double ns = cost_product_formula_ns(&device, dtype, p->phase, (double)p->m, (double)p->n, (double)p->k);
        sum += pow(log(ns / timed[i].ns), 2);
    }
    return sum;
}

/* The efficiency of the least misfit. Each product's time falls with it down to what memory takes, so that the sum need
 * not have one valley: the best of a row of points is narrowed down between its neighbours. */
static double best_efficiency(const struct device_type *device, enum dtype dtype, const struct timed_product *timed,
                              int count, double *least)
{
    enum { POINTS = 64, NARROWINGS = 40 };
    const double low = log(LEAST_EFFICIENCY), step = -low / POINTS, golden = 0.6180339887498949;
    int best = POINTS;
    for (int i = 0; i <= POINTS; i++)
        if (misfit(*device, dtype, timed, count, low + i * step) <
            misfit(*device, dtype, timed, count, low + best * step))
            best = i;
    double a = low + fmax(0, best - 1) * step, b = fmin(0, low + (best + 1) * step);
    for (int i = 0; i < NARROWINGS; i++) {
        double x = b - golden * (b - a), y = a + golden * (b - a);
        if (misfit(*device, dtype, timed, count, x) < misfit(*device, dtype, timed, count, y))
            b = y;
        else
            a = x;
    }
    *least = misfit(*device, dtype, timed, count, (a + b) / 2);
    return fmin(1, exp((a + b) / 2));
}

bool device_fit_matmul(struct device_type *device, enum dtype dtype, const struct timed_product *timed, int count,
                       struct error *err)
{
    struct device_type fitted = *device;
    double fastest = 0, least = INFINITY;
    for (int i = 0; i < count; i++) {
        const struct product *p = &timed[i].product;
        double flops = 2 * (double)p->m * (double)p->n * (double)p->k;
        if (!(timed[i].ns > 0))
            return fail(err, "a product of %lld x %lld x %lld took no time: expected one that can be measured",
                        (long long)p->m, (long long)p->n, (long long)p->k);
        fastest = fmax(fastest, flops / timed[i].ns * 1e9);
    }
    if (count == 0)
        return fail(err, "expected products to fit, found none");
    fitted.matmul_flops_per_s[dtype] = fmax(fitted.matmul_flops_per_s[dtype], fastest);
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
        struct device_type tried = fitted;
        double found;
        tried.matmul_tile = tiles[t];
        double efficiency = best_efficiency(&tried, dtype, timed, count, &found);
        if (found >= least)
            continue;
        least = found;
        device->matmul_tile = tiles[t];
        device->matmul_efficiency = efficiency;
    }
    device->matmul_flops_per_s[dtype] = fitted.matmul_flops_per_s[dtype];
    return true;
}

void device_fit_under_surfaces(struct device_type *device, enum dtype dtype, const struct timed_product *grid,
                               int grid_count, const struct timed_product *between, int between_count)
{
    double least = device_fit_error(device, dtype, between, between_count), unused;
    for (size_t t = 0; t < sizeof tiles / sizeof *tiles; t++) {
        struct device_type tried = *device;
        tried.matmul_tile = tiles[t];
        tried.matmul_efficiency = best_efficiency(&tried, dtype, grid, grid_count, &unused);
        double error = device_fit_error(&tried, dtype, between, between_count);
        if (error >= least)
            continue;
        least = error;
        *device = tried;
    }
}
