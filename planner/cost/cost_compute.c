/* The time of computations: the profile's number, else a number scaled from the nearest measured shape, else the
 * roofline (Williams, Waterman & Patterson 2009): max(flops / (peak x efficiency), bytes / bandwidth) + launch. */
#include "planner/cost/cost_group.h"
#include "base/num.h"
#include <math.h>
#include <string.h>

/* ---- matmul: how much of the peak a shape can reach ---- */
/* Tiles at the rim and the last wave that are not full: NVIDIA, Matrix Multiplication Background User's Guide (2023),
 * sections 3.1 and 3.2; that libraries choose among tiles: section 2.3. */

/* Output tiles that libraries choose from, in units of the device's tile, with the share of the full rate that a
 * smaller tile keeps, since it reuses each loaded element less. The shares are assumptions; a profile replaces them. */
static const struct tile_choice {
    double rows, columns, rate;
} tile_choices[] = {
    { 2, 1, 1 }, { 1, 2, 1 }, { 1, 1, 1 }, { 1, 0.5, 0.9 }, { 0.5, 1, 0.9 }, { 0.5, 0.5, 0.75 },
};
#define SPLIT_FOLD_RATE 0.9 /* a folded extent cut among units must be added up again; assumption */

/* As the library's, of what is not negative; without a call, of which there are dozens for each product. */
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

static double smaller(double a, double b)
{
    return a < b ? a : b;
}

/* Units without a tile in the last wave wait; when tiles are fewer than units, the folded extent is cut (in pieces of
 * at least two tiles) to give all of them work. */
static double wave_fill(const struct device_type *device, double tiles, double k)
{
    double units = device->compute_units;
    if (units < 1)
        return 1;
    double cuts = tiles < units ? smaller(rounded_down(units / tiles), rounded_down(k / (2 * device->matmul_tile))) : 1;
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

static bool follows(const struct operand *operand, int axis)
{
    return operand_dim(operand, MAX_DIMS, axis) >= 0;
}

struct shape {
    double rows, columns, fold, batch;
};

/* Which axes are rows (output, not weight), columns (weight and output, not input), folded (weight, not output) or
 * independent (all three). */
static struct shape matmul_shape(const struct segment *segment, enum phase phase, const int64_t extents[MAX_AXES])
{
    double rows = 1, columns = 1, fold = 1, batch = 1;
    for (int axis = 0; axis < segment->axis_count; axis++) {
        bool in = follows(&segment->in[0], axis), weight = follows(&segment->weight[0], axis),
             out = follows(&segment->out[0], axis);
        double extent = (double)extents[axis];
        *(out && !weight ? &rows : weight && out && !in ? &columns : weight && !out ? &fold : &batch) *= extent;
    }
    if (phase == PHASE_BACKWARD_INPUT)
        return (struct shape){ rows, fold, columns, batch };
    if (phase == PHASE_BACKWARD_WEIGHT)
        return (struct shape){ fold, columns, rows, batch };
    return (struct shape){ rows, columns, fold, batch };
}

/* Rate of the floating-point operations of one call; 0: the device does not compute in this dtype. */
static double flops_rate(const struct device_type *device, const struct segment *segment, enum phase phase,
                         enum dtype dtype, const int64_t extents[MAX_AXES])
{
    double peak = device->matmul_flops_per_s[dtype];
    if (kernel_facts[segment->kernel].multiplies) {
        struct shape s = matmul_shape(segment, phase, extents);
        return peak * cost_matmul_efficiency(device, s.rows, s.columns, s.fold, s.batch);
    }
    if (kernel_facts[segment->kernel].attends)
        return peak *
               (phase == PHASE_FORWARD ? device->attention_forward_efficiency : device->attention_backward_efficiency);
    return device->vector_flops_per_s;
}

static double roofline_ns(const struct device_type *device, const struct segment *segment, enum phase phase,
                          enum dtype dtype, const int64_t extents[MAX_AXES], double moved_bytes)
{
    double flops = (double)segment_flops(segment, phase, extents),
           rate = flops_rate(device, segment, phase, dtype, extents);
    double compute = flops > 0 ? flops / rate * 1e9 : 0;
    double memory = moved_bytes / (device->memory_bytes_per_s * device->memory_efficiency) * 1e9;
    return fmax(compute, memory) + (double)device->launch_ns;
}

/* ---- from a measured shape to another ---- */

/* The segment as if these extents were all of it, so that "whole" means the same for both shapes; of halved attention
 * (segment_work_name()), as if the sequence were longer. */
static struct segment whole_segment(const struct segment *segment, const int64_t extents[MAX_AXES], const char *work)
{
    struct segment copy = *segment;
    bool halved = strstr(work, " halved") != NULL;
    for (int i = 0; i < segment->axis_count; i++)
        copy.axes[i].size = halved && copy.axes[i].tag == TAG_SEQUENCE ? 2 * extents[i] : extents[i];
    copy.arguments.causal = halved || strstr(work, " causal") != NULL;
    return copy;
}

static double operand_points(const struct segment *segment, const struct operand *operand,
                             const int64_t extents[MAX_AXES])
{
    double points = 1;
    for (int axis = 0; axis < segment->axis_count; axis++)
        points *= follows(operand, axis) ? (double)extents[axis] : 1;
    return points;
}

/* Proportional to the bytes that a call moves, for two extents of one segment. */
static double traffic(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    double sum = 0;
    for (int i = 0; i < segment->in_count; i++)
        sum += operand_points(segment, &segment->in[i], extents);
    for (int i = 0; i < segment->out_count; i++)
        sum += operand_points(segment, &segment->out[i], extents);
    for (int i = 0; i < segment->weight_count && segment->kernel != KERNEL_EMBED; i++)
        sum += operand_points(segment, &segment->weight[i], extents);
    return sum;
}

/* The measured shape tells how far the device stays from its roofline; the wanted shape is taken to stay as far. */
static bool scaled(const struct profile *profile, const struct device_type *device, const struct segment *segment,
                   enum phase phase, enum dtype dtype, const int64_t extents[MAX_AXES], int64_t moved_bytes,
                   const char *work, int loaded, struct cost *out)
{
    int64_t near[MAX_AXES];
    const struct compute_entry *entry = profile_compute_nearest(profile, work, loaded, near);
    if (!entry)
        return false;
    struct segment here = whole_segment(segment, extents, work), there = whole_segment(segment, near, work);
    double scale = traffic(segment, extents) > 0 ? traffic(segment, near) / traffic(segment, extents) : 1;
    double wanted = roofline_ns(device, &here, phase, dtype, extents, (double)moved_bytes);
    double known = roofline_ns(device, &there, phase, dtype, near, (double)moved_bytes * scale);
    double ns = known > 0 && isfinite(known) ? (double)entry->m.ns * wanted / known : (double)entry->m.ns;
    *out = (struct cost){ cost_round_ns(ns), ORIGIN_FITTED, true };
    return true;
}

int cost_loaded(const struct cluster *cluster, int type)
{
    const struct node_type *node = &cluster->types[type];
    return node->device.shared_host ? node->levels[0].fanout : 1;
}

struct cost cost_compute(const struct facts *facts, int type, const struct segment *segment, enum phase phase,
                         enum dtype dtype, const int64_t extents[MAX_AXES], int64_t moved_bytes)
{
    struct cost cost = { 0, ORIGIN_ANALYTIC, false };
    if (segment->kernel == KERNEL_OPAQUE) {
        cost.ns = min_i64(segment_opaque_ns(segment, phase, extents), MAX_TIME_NS);
        return cost;
    }
    const struct device_type *device = &facts->cluster->types[type].device;
    const struct profile *profile = facts_profile(facts, type);
    if (profile && profile->dtype == dtype) {
        char work[WORK_NAME_BYTES];
        int loaded = cost_loaded(facts->cluster, type);
        segment_work_name(segment, phase, extents, work);
        const struct compute_entry *entry = profile_compute(profile, work, loaded);
        if (entry)
            return (struct cost){ entry->m.ns, entry->m.origin, false };
        if (scaled(profile, device, segment, phase, dtype, extents, moved_bytes, work, loaded, &cost))
            return cost;
    }
    cost.ns = cost_round_ns(roofline_ns(device, segment, phase, dtype, extents, (double)moved_bytes));
    return cost;
}
