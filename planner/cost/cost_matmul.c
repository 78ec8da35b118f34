/* The time of a matrix product: how much of the peak a shape can reach, and where the device's products were measured,
 * how far it stays from that. */
#include "planner/cost/cost_matmul.h"
#include <math.h>

/* ---- the formula ---- */
/* Tiles at the rim and a last wave that is not full slow products: NVIDIA, Matrix Multiplication Background User's
 * Guide (2023), sections 3.1 and 3.2; that libraries choose among tiles: section 2.3. */

/* Lists output tiles that libraries choose from, in units of the device's tile, with the share of the full rate that a
 * smaller tile keeps, since it reuses each loaded element less. The shares are assumptions; a profile replaces them. */
static const struct tile_choice {
    double rows, columns, rate;
} tile_choices[] = {
    { 2, 1, 1 }, { 1, 2, 1 }, { 1, 1, 1 }, { 1, 0.5, 0.9 }, { 0.5, 1, 0.9 }, { 0.5, 0.5, 0.75 },
};
#define SPLIT_FOLD_RATE 0.9 /* a folded extent cut among units must be added up again; assumption */

/* Rounds as the library does what is not negative, but without a call, of which each product has dozens. */
static double rounded_down(double x)
{
    return x < 0x1p52 ? (double)(int64_t)x : x;
}

static double rounded_up(double x)
{
    double down = rounded_down(x);
    return down < x ? down + 1 : down;
}

static double larger(double a, double b)
{
    return a > b ? a : b;
}

/* Units without a tile in the last wave wait; when tiles are fewer than units, the folded extent is cut (in pieces of
 * at least two tiles) to give all of them work. */
static double wave_fill(const struct device_type *device, double tiles, double k)
{
    double units = device->compute_units;
    if (units < 1)
        return 1;
    double cuts = tiles < units ? fmin(rounded_down(units / tiles), rounded_down(k / (2 * device->matmul_tile))) : 1;
    if (cuts > 1)
        return SPLIT_FOLD_RATE * tiles * cuts / units;
    return tiles / (rounded_up(tiles / units) * units);
}

double cost_matmul_efficiency(const struct device_type *device, double m, double n, double k, double batch)
{
    double best = 0, tile = device->matmul_tile;
    if (!(m >= 1 && n >= 1 && k >= 1 && batch >= 1))
        return device->matmul_efficiency;
    for (size_t i = 0; i < sizeof tile_choices / sizeof tile_choices[0]; i++) {
        double rows = larger(1, rounded_down(tile * tile_choices[i].rows)),
               columns = larger(1, rounded_down(tile * tile_choices[i].columns));
        double down = rounded_up(m / rows), across = rounded_up(n / columns);
        double fill =
            m / (down * rows) * (n / (across * columns)); /* the rim of the last tiles is computed for nothing */
        best = larger(best, tile_choices[i].rate * fill * wave_fill(device, down * across * batch, k));
    }
    return device->matmul_efficiency * best * k / (k + tile / 2); /* filling and draining each tile's pipeline */
}

double cost_roofline_ns(const struct device_type *device, double flops, double flops_per_s, double bytes)
{
    double compute = flops > 0 ? flops / flops_per_s * 1e9 : 0;
    double memory = bytes / (device->memory_bytes_per_s * device->memory_efficiency) * 1e9;
    return fmax(compute, memory) + (double)device->launch_ns;
}

double cost_product_formula_ns(const struct device_type *device, enum dtype dtype, enum phase phase, double m, double n,
                               double k)
{
    double rate = device->matmul_flops_per_s[dtype] * cost_matmul_efficiency(device, m, n, k, 1);
    double value = (double)element_bytes(dtype, ELEMENT_ACTIVATION), weight = (double)weight_bytes_per_element(dtype),
           gradient = (double)gradient_bytes_per_element(dtype);
    double bytes = phase == PHASE_BACKWARD_WEIGHT ? (m + n) * k * value + m * n * gradient
                                                  : (m * k + m * n) * value + k * n * weight;
    return cost_roofline_ns(device, 2 * m * n * k, rate, bytes);
}

/* ---- the measured surface ---- */

bool cost_matmul_stretch(double *stretch, bool *outside, const struct device_type *device, enum dtype dtype,
                         enum phase phase, double m, double n, double k)
{
    const struct matmul_surface *s = NULL;
    for (int i = 0; i < device->surface_count && !s; i++)
        if (device->surfaces[i].dtype == (int)dtype && device->surfaces[i].phase == (int)phase)
            s = &device->surfaces[i];
    if (!s || !(m >= 1 && n >= 1 && k >= 1) || !(device->matmul_flops_per_s[dtype] > 0))
        return false;
    struct surface_place place = matmul_surface_place(s, (const double[]){ m, n, k });
    double sum = 0;
    for (int corner = 0; corner < 1 << SURFACE_AXES; corner++) {
        int at[SURFACE_AXES];
        double weight = 1;
        for (int axis = 0; axis < SURFACE_AXES; axis++) {
            int next = corner >> axis & 1;
            at[axis] = place.low[axis] + next;
            weight *= next ? place.part[axis] : 1 - place.part[axis];
        }
        if (weight > 0) {
            double formula_ns = cost_product_formula_ns(device, dtype, phase, (double)s->size[0][at[0]],
                                                        (double)s->size[1][at[1]], (double)s->size[2][at[2]]);
            sum += weight * log((double)s->ns[matmul_surface_index(s, at[0], at[1], at[2])] / formula_ns);
        }
    }
    *stretch = exp(sum);
    *outside = place.outside;
    return true;
}

double cost_product_ns(const struct device_type *device, enum dtype dtype, enum phase phase, double m, double n,
                       double k)
{
    double stretch = 1;
    bool outside;
    cost_matmul_stretch(&stretch, &outside, device, dtype, phase, m, n, k);
    return stretch * cost_product_formula_ns(device, dtype, phase, m, n, k);
}
