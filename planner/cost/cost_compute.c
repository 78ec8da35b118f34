/* The time of computations: the profile's number, else a number scaled from the nearest measured shape, else the
 * roofline, corrected by the device's own measured products where it has them. */
#include "planner/cost/cost_group.h"
#include "planner/cost/cost_matmul.h"
#include "base/num.h"
#include "models/quantized.h"
#include <math.h>
#include <string.h>

static bool follows(const struct operand *operand, int axis)
{
    return operand_dim(operand, MAX_DIMS, axis) >= 0;
}

struct shape {
    double rows, columns, fold, batch;
};

/* Tells which axes are rows (output, not weight), columns (weight and output, not input), folded (weight, not output)
 * or independent (all three). */
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

/* Gives the product of queries and keys, of each head by itself. */
static struct shape score_shape(const struct segment *segment, const int64_t extents[MAX_AXES])
{
    struct shape s = { 1, 1, 1, 1 };
    for (int axis = 0; axis < segment->axis_count; axis++) {
        enum axis_tag tag = segment->axes[axis].tag;
        *(tag == TAG_SEQUENCE   ? &s.rows
          : tag == TAG_KEY      ? &s.columns
          : tag == TAG_HEAD_DIM ? &s.fold
                                : &s.batch) *= (double)extents[axis];
    }
    return s;
}

/* Gives the rate of products of kept scores, as a share of that of aligned ones. Libraries load operands of 16 bit in
 * pieces of 16 bytes, and where a head's rows do not begin at such they have slower kernels (NVIDIA, Matrix
 * Multiplication Background User's Guide, 2023, section 2.2). The share is that of the products with 50257, 12564 and
 * 6282 words in the layers that vTrain published of the A100 (78 to 104 TFLOP/s), beside those with 25128. Products
 * with the vocabulary go without: frameworks that keep scores pad it. */
static double alignment_rate(enum dtype dtype, double head_width)
{
    enum { PIECE_BYTES = 16 };
    int64_t bytes = element_bytes(dtype, ELEMENT_ACTIVATION);
    return bytes == 2 && (int64_t)head_width * bytes % PIECE_BYTES ? .4 : 1;
}

/* How often a kept score passes in the plan's dtype, how often in fp32, and how often its byte of a mask does. */
struct score_passes {
    double narrow, fp32, mask;
};
/* Kept scores pass through memory between the products. Forward the first product writes them, scale with mask and
 * softmax reads and writes them, dropout reads them and writes the result with its mask, the second product reads it.
 * Backward the gradient of the dropped ones is written, dropout and softmax read it with what they kept and write it,
 * and three products read. Of transformers' modules each operation on scores is a kernel: counted in
 * eager_attention_forward() of gemma2 (scale, over the cap, tanh, times the cap, mask, to fp32, softmax, back) and
 * gpt_oss (scale, mask, sink put behind, maximum, difference, softmax), and in BloomAttention. */
static const struct score_passes score_passes[][2] = {
    /* forward, backward */
    [ELEMENT_SCORES] = { { 6, 0, 1 }, { 9, 0, 1 } },
    [ELEMENT_CAPPED_SCORES] = { { 14, 4, 0 }, { 15, 5, 0 } },
    [ELEMENT_SINK_SCORES] = { { 13, 0, 0 }, { 19, 0, 0 } },
    [ELEMENT_ALIBI_SCORES] = { { 8, 4, 0 }, { 6, 5, 0 } },
};

static double score_bytes(const struct segment *segment, enum phase phase, enum dtype dtype,
                          const int64_t extents[MAX_AXES])
{
    if (!segment_keeps_scores(segment) || phase == PHASE_BACKWARD_WEIGHT)
        return 0;
    struct shape s = score_shape(segment, extents);
    struct score_passes passes = score_passes[segment->arguments.kept_scores][phase != PHASE_FORWARD];
    return s.rows * s.columns * s.batch *
           (passes.narrow * (double)weight_bytes_per_element(dtype) + passes.fp32 * 4 + passes.mask);
}

/* Gives the rate of floating-point operations of one call; 0 where the device does not compute in this dtype. */
static double flops_rate(const struct device_type *device, const struct segment *segment, enum phase phase,
                         enum dtype dtype, const int64_t extents[MAX_AXES])
{
    double peak = device->matmul_flops_per_s[dtype], own = dtype == DTYPE_FP8     ? device->fp8_matmul_efficiency
                                                           : dtype == DTYPE_NVFP4 ? device->nvfp4_matmul_efficiency
                                                                                  : 0;
    if (own > 0) /* products alone come here in these dtypes */
        peak *= own / device->matmul_efficiency;
    if (kernel_facts[segment->kernel].multiplies) {
        struct shape s = matmul_shape(segment, phase, extents);
        return peak * cost_matmul_efficiency(device, s.rows, s.columns, s.fold, s.batch);
    }
    if (segment_keeps_scores(segment)) {
        struct shape s = score_shape(segment, extents);
        return peak * cost_matmul_efficiency(device, s.rows, s.columns, s.fold, s.batch) *
               alignment_rate(dtype, s.fold);
    }
    /* Scans in chunks are products of matrices between exponentials, as attention is. */
    if (kernel_facts[segment->kernel].attends || (kernel_facts[segment->kernel].scans && segment->arguments.chunk > 0))
        return peak *
               (phase == PHASE_FORWARD ? device->attention_forward_efficiency : device->attention_backward_efficiency);
    return device->vector_flops_per_s;
}

/* Tells whether the device's measured products have a say, and which. */
static bool corrects(double *stretch, bool *outside, const struct device_type *device, const struct segment *segment,
                     enum phase phase, enum dtype dtype, const int64_t extents[MAX_AXES])
{
    if (device->surface_count == 0 || segment->kernel != KERNEL_MATMUL)
        return false;
    struct shape s = matmul_shape(segment, phase, extents);
    return cost_matmul_stretch(stretch, outside, device, dtype, phase, s.rows, s.columns, s.fold);
}

/* A product in such a dtype wants its operands as such, by rows and by columns. An input that several products of a
 * layer read is converted once. */
static double cast_bytes(const struct framework *framework, const struct segment *segment, enum phase phase,
                         enum dtype dtype, const int64_t extents[MAX_AXES])
{
    if (!dtype_is_of_products(dtype) || segment->kernel != KERNEL_MATMUL)
        return 0;
    const struct cast_bytes *cast = framework ? &framework->cast : &framework_own.cast;
    struct shape s = matmul_shape(segment, PHASE_FORWARD, extents);
    double input = segment->converts_input ? s.batch * s.rows * s.fold : 0, weight = s.batch * s.columns * s.fold,
           gradient = s.batch * s.rows * s.columns;
    if (phase == PHASE_FORWARD)
        return input * (double)cast->input_forward + weight * (double)cast->weight_forward;
    if (phase == PHASE_BACKWARD_INPUT)
        return gradient * (double)cast->gradient + weight * (double)cast->weight_backward;
    return input * (double)cast->input_backward;
}

static double roofline_ns(const struct framework *framework, const struct device_type *device,
                          const struct segment *segment, enum phase phase, enum dtype dtype,
                          const int64_t extents[MAX_AXES], double moved_bytes)
{
    double stretch = 1, flops = (double)segment_flops(segment, phase, extents),
           rate = flops_rate(device, segment, phase, dtype, extents);
    bool outside;
    corrects(&stretch, &outside, device, segment, phase, dtype, extents);
    return stretch * cost_roofline_ns(device, flops, rate, moved_bytes) +
           (score_bytes(segment, phase, dtype, extents) + cast_bytes(framework, segment, phase, dtype, extents)) /
               (device->memory_bytes_per_s * device->memory_efficiency) * 1e9;
}

/* ---- from a measured shape to another ---- */

/* Gives the segment as if these extents were all of it, so that "whole" means the same for both shapes; of halved
 * attention (segment_work_name()), as if the sequence were longer. */
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

/* Gives a number proportional to the bytes that a call moves, for two extents of one segment. */
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
static bool scaled(const struct framework *framework, const struct profile *profile, const struct device_type *device,
                   const struct segment *segment, enum phase phase, enum dtype dtype, const int64_t extents[MAX_AXES],
                   int64_t moved_bytes, const char *work, int loaded, int64_t timing_ns, struct cost *out)
{
    int64_t near[MAX_AXES];
    const struct compute_entry *entry = profile_compute_nearest(profile, work, loaded, near);
    if (!entry)
        return false;
    struct segment here = whole_segment(segment, extents, work), there = whole_segment(segment, near, work);
    double scale = traffic(segment, extents) > 0 ? traffic(segment, near) / traffic(segment, extents) : 1;
    double wanted = roofline_ns(framework, device, &here, phase, dtype, extents, (double)moved_bytes);
    double known = roofline_ns(framework, device, &there, phase, dtype, near, (double)moved_bytes * scale);
    double measured = (double)max_i64(0, entry->m.ns - timing_ns);
    double ns = known > 0 && isfinite(known) ? measured * wanted / known : measured;
    *out = (struct cost){ cost_round_ns(ns), ORIGIN_FITTED, true };
    return true;
}

/* Gives what a window's pairs cost more, since whole tiles are computed: the tokens of one see all keys from the first
 * one's window on; and those of narrow heads, which have as many exponentials for fewer multiplications. */
static double attention_stretch(const struct framework *framework, const struct segment *segment,
                                const int64_t extents[MAX_AXES])
{
    enum { WIDE = 128 };
    double stretch = 1, window = (double)segment->arguments.sliding_window,
           more = (double)framework->attention_head_width;
    for (int axis = 0; axis < segment->axis_count; axis++) {
        enum axis_tag tag = segment->axes[axis].tag;
        double extent = (double)extents[axis];
        if (tag == TAG_KEY && window > 0 && window < (double)segment->axes[axis].size)
            stretch *= (window + (double)framework->attention_tile) / window;
        if (tag == TAG_HEAD_DIM && follows(&segment->in[0], axis) && extent < WIDE)
            stretch *= (1 + more / extent) / (1 + more / WIDE);
    }
    return stretch;
}

/* Gives how much longer the framework's kernels take than the device's best. */
static double framework_stretch(const struct framework *framework, const struct device_type *device,
                                const struct segment *segment, enum phase phase, enum dtype dtype,
                                const int64_t extents[MAX_AXES])
{
    const struct kernel_facts *kernel = &kernel_facts[segment->kernel];
    if (!framework || kernel->multiplies || segment_keeps_scores(segment))
        return 1;
    if (!kernel->attends)
        return kernel->scans ? 1 : framework->passes;
    double rate = flops_rate(device, segment, phase, dtype, extents), most = rate;
    if (framework->attention_flops_per_s > 0)
        most = fmin(most, framework->attention_flops_per_s);
    if (framework->attends_by_flash2 && device->flash2_flops_per_s > 0)
        most = fmin(most, device->flash2_flops_per_s);
    if (framework->attention_efficiency > 0)
        most = fmin(most, framework->attention_efficiency * device->matmul_flops_per_s[dtype]);
    return fmax(rate / most, 1) * attention_stretch(framework, segment, extents);
}

int cost_loaded(const struct cluster *cluster, int type)
{
    const struct node_type *node = &cluster->types[type];
    return node->device.shared_host ? node->levels[0].fanout : 1;
}

/* Counts what a framework moves more where it does not fuse: a loss, the clamps before a gate, the bias behind experts,
 * whose gradient is the only thing that its backward pass makes, and the scale of what adapters give. */
static double unfused_bytes(const struct framework *framework, const struct segment *segment, enum phase phase,
                            const int64_t extents[MAX_AXES])
{
    struct unfused_bytes each = { 0, 0 };
    if (!framework)
        return 0;
    bool adds = segment->kernel == KERNEL_RESIDUAL && segment->weight_count == 1 && segment->weight[0].axis[0] >= 0,
         scales = segment->arguments.scales && phase != PHASE_BACKWARD_WEIGHT;
    if (segment->kernel == KERNEL_SUM_EXP)
        each = (struct unfused_bytes){ framework->loss_forward_bytes, framework->loss_backward_bytes };
    else if (segment->kernel == KERNEL_CLAMPED)
        each = framework->clamp;
    else if (adds && segment->axes[segment->weight[0].axis[0]].tag == TAG_EXPERT && phase != PHASE_BACKWARD_INPUT)
        each = framework->expert_bias;
    else if (scales)
        each = framework->adapter_scale;
    return operand_points(segment, scales ? &segment->out[0] : &segment->in[0], extents) *
           (double)(phase == PHASE_FORWARD ? each.forward : each.backward);
}

static struct cost kernel_cost(const struct facts *facts, int type, const struct segment *segment, enum phase phase,
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
        int64_t timing_ns = facts_timing_ns(facts, type);
        segment_work_name(segment, phase, extents, work);
        const struct compute_entry *entry = profile_compute(profile, work, loaded);
        if (entry)
            return (struct cost){ max_i64(0, entry->m.ns - timing_ns), entry->m.origin, false };
        if (scaled(facts->framework, profile, device, segment, phase, dtype, extents, moved_bytes, work, loaded,
                   timing_ns, &cost))
            return cost;
    }
    double stretch = 1;
    if (corrects(&stretch, &cost.extrapolated, device, segment, phase, dtype, extents))
        cost.origin = ORIGIN_FITTED;
    double bytes = (double)moved_bytes + unfused_bytes(facts->framework, segment, phase, extents);
    cost.ns = cost_round_ns(roofline_ns(facts->framework, device, segment, phase, dtype, extents, bytes) *
                            framework_stretch(facts->framework, device, segment, phase, dtype, extents));
    return cost;
}

/* A quantized matrix is expanded by a kernel of its own before the product, which is one as others are. */
struct cost cost_compute(const struct facts *facts, int type, const struct segment *segment, enum phase phase,
                         enum dtype dtype, const int64_t extents[MAX_AXES], int64_t moved_bytes)
{
    const struct device_type *device = &facts->cluster->types[type].device;
    struct cost cost = kernel_cost(facts, type, segment, phase, dtype, extents, moved_bytes);
    struct expansion e = segment_expansion(segment, phase, dtype, extents);
    if (e.bytes > 0)
        cost.ns = min_i64(MAX_TIME_NS, cost.ns + cost_round_ns(cost_roofline_ns(
                                                     device, e.flops, device->vector_flops_per_s, (double)e.bytes)));
    return cost;
}
