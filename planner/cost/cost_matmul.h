/* The time of a matrix product on a device without a profile. */
#ifndef CLEAVE_COST_COST_MATMUL_H
#define CLEAVE_COST_COST_MATMUL_H
#include "planner/facts/cluster.h"

/**
 * Gives the share of the device's matmul peak that a product of these sizes reaches: matmul_efficiency x tile fill x
 * wave fill x k / (k + half a tile). m, n: the output; k: the folded extent; batch: independent products. At most
 * matmul_efficiency.
 */
double cost_matmul_efficiency(const struct device_type *device, double m, double n, double k, double batch);
/* Gives max(flops / rate, bytes / bandwidth) + launch (Williams, Waterman & Patterson 2009). */
double cost_roofline_ns(const struct device_type *device, double flops, double flops_per_s, double bytes);
/* Prices one product alone, its operands read and its result written once: by the formula, and corrected where the
 * device's products were measured. phase: which of a layer's three products (m, n, k as in struct matmul_surface); the
 * device must compute in the dtype. */
double cost_product_formula_ns(const struct device_type *device, enum dtype dtype, enum phase phase, double m, double n,
                               double k);
double cost_product_ns(const struct device_type *device, enum dtype dtype, enum phase phase, double m, double n,
                       double k);
/**
 * Gives how much longer than by the formula a product takes: at the points of the device's surface what was measured
 * over cost_product_formula_ns(); between them the mean of their logarithms, weighed by place in log m, log n, log k;
 * beyond as on the rim. Multiplying keeps what the formula says of tiles and waves between the points. False: no
 * surface of the dtype and phase, *stretch as it was. outside: beyond the grid.
 */
bool cost_matmul_stretch(double *stretch, bool *outside, const struct device_type *device, enum dtype dtype,
                         enum phase phase, double m, double n, double k);
#endif
