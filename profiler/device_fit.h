/* From times of products to the numbers by which costs predict others. */
#ifndef CLEAVE_PROFILER_DEVICE_FIT_H
#define CLEAVE_PROFILER_DEVICE_FIT_H
#include "planner/facts/cluster.h"
#include "profiler/device_times.h"

struct timed_product {
    struct product product;
    double ns; /* above 0 */
};
/* Mean over the products of |predicted / measured - 1|, by cost_product_ns(). 0 without products. */
double device_fit_error(const struct device_type *device, enum dtype dtype, const struct timed_product *timed,
                        int count);
/**
 * Sets the peak of the dtype, matmul_efficiency and matmul_tile so that cost_product_formula_ns() is near the measured
 * times: least squares of the errors' logarithms. The peak stays, unless a product was faster; tiles are powers of two.
 * Launch and memory must be as they are to be. Fails where no product has a time.
 */
bool device_fit_matmul(struct device_type *device, enum dtype dtype, const struct timed_product *timed, int count,
                       struct error *err);
/**
 * Of a device with surfaces of the grid's times: the tile, with its efficiency, by which cost_product_ns() is nearest
 * to the products between them (the least device_fit_error()). Tiles that the device does not have make the formula
 * bend between the points; a tile of 1 leaves it to the surface alone. The peak must be as device_fit_matmul() has it.
 */
void device_fit_under_surfaces(struct device_type *device, enum dtype dtype, const struct timed_product *grid,
                               int grid_count, const struct timed_product *between, int between_count);
#endif
