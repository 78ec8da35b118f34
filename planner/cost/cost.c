/* What one instruction costs: which formula prices which op, and the bytes of those that only touch memory. */
#include "planner/cost/cost.h"
#include "base/num.h"
#include "planner/cost/cost_group.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include <math.h>
#include <string.h>

/* ---- COMPUTE: bytes of its operands ---- */

/* Counts the elements of an operand that a call of these extents touches: a dim follows an axis in its proportion,
 * others are whole. */
static int64_t touched(const struct segment *segment, const struct operand *operand, int dim_count, const int64_t *size,
                       const int64_t extents[MAX_AXES])
{
    int64_t elements = 1;
    for (int dim = 0; dim < dim_count; dim++) {
        int axis = operand->axis[dim];
        int64_t count = size[dim];
        if (axis >= 0 && mul_i64(&count, size[dim], extents[axis]))
            count = ceil_div(count, max_i64(1, segment->axes[axis].size));
        if (!mul_i64(&elements, elements, count))
            return INT64_MAX;
    }
    return elements;
}

static int64_t operand_bytes(const struct graph *graph, const struct plan *plan, const struct segment *segment,
                             enum role role, int index, const int64_t extents[MAX_AXES])
{
    int64_t elements, each = 0;
    bool weight = role == ROLE_WEIGHT || role == ROLE_GRADIENT_WEIGHT;
    bool out = role == ROLE_OUT || role == ROLE_GRADIENT_OUT;
    bool gradient = role == ROLE_GRADIENT_OUT || role == ROLE_GRADIENT_IN;
    if (weight) {
        const struct operand *operand = &segment->weight[index];
        const struct weight *w = &graph->weights[operand->id];
        elements = touched(segment, operand, w->dim_count, w->size, extents);
        if (kernel_facts[segment->kernel].picks_rows) {
            const struct value *made = &graph->values[segment->out[0].id];
            elements = min_i64(elements, touched(segment, &segment->out[0], made->dim_count, made->size, extents));
        }
        each = role == ROLE_WEIGHT
                   ? weight_bytes_per_element(plan->dtype)
                   : optimizer_gradient_bytes(&plan->optimizer, graph->keeping.narrow_gradients, plan->dtype);
    } else {
        const struct operand *operand = out ? &segment->out[index] : &segment->in[index];
        const struct value *value = &graph->values[operand->id];
        elements = touched(segment, operand, value->dim_count, value->size, extents);
        each = value_bytes_per_element(graph, operand->id, plan->dtype, gradient);
    }
    int64_t bytes = INT64_MAX;
    mul_i64(&bytes, elements, each);
    return bytes;
}

/* True of kept scores and probabilities, which cost_compute() counts, and what eager norms and gates keep: passes. */
static bool passes_often(const struct segment *segment, enum role role, int index)
{
    return role == ROLE_OUT &&
           ((index == 2 && (segment_keeps_scores(segment) || segment->kernel == KERNEL_RMS_NORM)) ||
            (index == 1 && (segment->kernel == KERNEL_SUM_EXP || kernel_facts[segment->kernel].gates)));
}

int64_t cost_moved_bytes(const struct graph *graph, const struct plan *plan, const struct instr *instr,
                         const int64_t extents[MAX_AXES])
{
    const struct segment *segment = &graph->segments[instr->segment];
    int64_t sum = 0;
    for (int role = 0; role < ROLE_COUNT; role++) {
        for (int i = 0; i < MAX_OPERANDS; i++) {
            if (!instr_has(instr, (enum role)role, i) || passes_often(segment, (enum role)role, i))
                continue;
            bool added = role_written(instr->phase, (enum role)role) && !(instr->define >> i & 1);
            int64_t bytes = operand_bytes(graph, plan, segment, (enum role)role, i, extents);
            if (!add_i64(&sum, sum, bytes) || (added && !add_i64(&sum, sum, bytes)))
                return INT64_MAX;
        }
    }
    return sum;
}

/* Tells how many times as long a product takes since its vocabulary stays unaligned. */
static double unpadded_stretch(const struct facts *facts, const struct graph *graph, const struct segment *segment,
                               enum dtype dtype)
{
    double stretch = framework_unpadded(facts->framework, graph->vocab_size, dtype);
    bool head = false;
    for (int i = 0; i < segment->weight_count && stretch > 1 && segment->kernel == KERNEL_MATMUL; i++)
        head = head || graph->weights[segment->weight[i].id].valid_rows == graph->vocab_size;
    return head ? stretch : 1;
}

static struct cost compute_cost(const struct facts *facts, const struct program *program, int stage,
                                const struct instr *instr, unsigned types)
{
    const struct segment *segment = &program->graph->segments[instr->segment];
    int64_t extents[MAX_AXES];
    instr_extents(program, stage, instr, extents);
    int64_t moved = cost_moved_bytes(program->graph, program->plan, instr, extents);
    bool product = segment->kernel == KERNEL_MATMUL && program->graph->layers[segment->layer].block >= 0;
    enum dtype own = program->plan->dtype, dtype = dtype_is_of_products(own) && !product ? DTYPE_BF16 : own;
    struct cost slowest = { 0, ORIGIN_ANALYTIC, false };
    for (int type = 0; types >> type; type++) {
        if (!(types >> type & 1))
            continue;
        struct cost cost = cost_compute(facts, type, segment, instr->phase, dtype, extents, moved);
        slowest = cost.ns >= slowest.ns ? cost : slowest;
    }
    if (slowest.origin != ORIGIN_MEASURED)
        slowest.ns = cost_round_ns(unpadded_stretch(facts, program->graph, segment, own) * (double)slowest.ns);
    return slowest;
}

/* ---- what only touches this rank's memory ---- */

static const struct buffer *pair_buffer(const struct program *program, int buffer)
{
    return buffer >= 0 ? &program->buffers[buffer] : NULL;
}

/* Gives the profile's name of the work, and bytes of memory traffic of one pair: each buffer is read or written once,
 * an accumulated destination both; an update reads the gradient and reads and writes weight and state. */
const char *cost_local_work(const struct program *program, const struct instr *instr, const struct pair *pair,
                            int64_t *elements, int64_t *bytes)
{
    const struct buffer *from = pair_buffer(program, pair->source), *to = pair_buffer(program, pair->destination);
    int64_t from_bytes = from ? from->bytes : 0, to_bytes = to ? to->bytes : 0;
    const char *update = access_update_source(program, instr) < 0 ? WORK_UPDATE : WORK_UPDATE_APART;
    *elements = to ? buffer_holds(to) : 0;
    *bytes = to_bytes;
    switch (instr->op) {
    case OP_ZERO:
    case OP_SEED:
        return "zero";
    case OP_LOAD:
        *bytes = 2 * to_bytes;
        return "load";
    case OP_SLICE:
        *bytes = (instr->accumulate ? 3 : 2) * to_bytes;
        return instr->accumulate ? "add" : "copy";
    case OP_ADD:
        *bytes = from_bytes + (instr->accumulate ? 2 : 1) * to_bytes;
        return instr->accumulate ? "add" : "copy";
    case OP_NORM:
        *elements = from ? buffer_holds(from) : 0;
        *bytes = from_bytes;
        return "norm";
    case OP_UPDATE:
        if (from && from->kind == BUFFER_STATE_USE) { /* beside its gradient: counted there */
            *elements = *bytes = 0;
            return update;
        }
        if (!to && from && from->is_weight) { /* the version that the first pair's weight is made from */
            *elements = 0;
            return update;
        }
        *elements = from ? buffer_holds(from) : 0;
        *bytes = from_bytes + 2 * (*elements * weight_bytes_per_element(program->plan->dtype) +
                                   optimizer_state_bytes(&program->plan->optimizer, program->plan->dtype,
                                                         &program->graph->weights[from->id], *elements));
        return update;
    case OP_COMPUTE:
#include "planner/program/ops_that_move.def"
    case OP_OFFLOAD:
    case OP_FETCH:
    case OP_COUNT:
        break;
    }
    return "";
}

static struct cost stream_cost(const struct facts *facts, int type, enum dtype dtype, const char *work,
                               int64_t elements, int64_t bytes)
{
    const struct device_type *device = &facts->cluster->types[type].device;
    const struct profile *profile = facts_profile(facts, type);
    if (profile && profile->dtype != dtype)
        profile = NULL;
    int loaded = cost_loaded(facts->cluster, type);
    const struct linear_entry *exact = profile ? profile_linear(profile, work, loaded) : NULL;
    const struct linear_entry *entry = exact || !profile ? exact : profile_linear_nearest(profile, work, loaded);
    if (!entry && profile && strcmp(work, WORK_UPDATE_APART) == 0)
        entry = profile_linear_nearest(profile, WORK_UPDATE, loaded);
    if (!entry) {
        double ns =
            (double)device->launch_ns + (double)bytes / (device->memory_bytes_per_s * device->memory_efficiency) * 1e9;
        return (struct cost){ cost_round_ns(ns), ORIGIN_ANALYTIC, false };
    }
    bool outside = elements < entry->min_units || elements > entry->max_units;
    return (struct cost){ cost_round_ns(entry->fixed_ns + entry->ns_per_unit * (double)elements), entry->origin,
                          !exact || outside };
}

/* Counts as many as AdamW would update with all in 32 bit while it moves so many bytes. */
static int64_t adamw_elements(const struct program *program, int64_t bytes, int64_t elements)
{
    const struct optimizer usual = { 0 };
    enum dtype dtype = program->plan->dtype;
    int64_t each = optimizer_gradient_bytes(&usual, program->graph->keeping.narrow_gradients, dtype) +
                   2 * (weight_bytes_per_element(dtype) + optimizer_bytes_per_element(&usual, dtype, NULL));
    return optimizer_is_usual(&program->plan->optimizer) ? elements : bytes / each;
}

/* Times making the update of a matrix orthogonal: optimizer_rounds() of three products, in bf16 where the device has it
 * (Jordan et al. 2024). A tensor-parallel rank takes its piece of a matrix for one; ranks that share out state each
 * take their part of all matrices. */
static int64_t orthogonal_ns(const struct facts *facts, const struct program *program, int buffer, int type)
{
    const struct buffer *gradient = &program->buffers[buffer];
    const struct weight *weight = &program->graph->weights[gradient->id];
    const struct device_type *device = &facts->cluster->types[type].device;
    int rounds = optimizer_rounds(&program->plan->optimizer, weight);
    if (rounds == 0)
        return 0;
    struct block block = buffer_block(program, gradient, 0);
    double rows = 1, columns = 1;
    for (int dim = 0; dim < block.dim_count; dim++) {
        rows *= weight->row_dims >> dim & 1 ? (double)block.count[dim] : 1;
        columns *= weight->column_dims >> dim & 1 ? (double)block.count[dim] : 1;
    }
    double n = fmin(rows, columns), m = fmax(rows, columns), matrices = (double)buffer_holds(gradient) / (n * m);
    enum dtype dtype = device->matmul_flops_per_s[DTYPE_BF16] > 0 ? DTYPE_BF16 : program->plan->dtype;
    double ns = cost_product_ns(device, dtype, PHASE_FORWARD, n, n, m) +
                cost_product_ns(device, dtype, PHASE_FORWARD, n, n, n) +
                cost_product_ns(device, dtype, PHASE_FORWARD, n, m, n);
    return cost_round_ns(matrices * rounds * ns);
}

/* True when the framework has hosts update what they keep of the optimizer's state. */
static bool has_hosts_update(const struct facts *facts)
{
    return facts->framework && facts->framework->host_updates_per_s > 0;
}

/* Times a host's update of so many elements as if all its devices had as many at once: more than it takes where some
 * have less. */
static int64_t host_update_ns(const struct facts *facts, int type, int64_t elements)
{
    enum { MOST_OF_A_HOST = 8 }; /* devices: nodes of more are several hosts behind one switch */
    double devices = min_int(facts->cluster->types[type].levels[0].fanout, MOST_OF_A_HOST);
    return cost_round_ns((double)elements * devices / facts->framework->host_updates_per_s * 1e9);
}

static struct cost local_cost_on(const struct facts *facts, const struct program *program, const struct instr *instr,
                                 int type)
{
    bool there = instr->op == OP_UPDATE && has_hosts_update(facts) && access_update_state(program, instr) >= 0;
    struct cost sum = { 0, ORIGIN_MEASURED, false };
    for (int i = 0; i < instr->pair_count; i++) {
        int64_t elements, bytes;
        const char *work = cost_local_work(program, instr, &program->pairs[instr->pair_first + i], &elements, &bytes);
        if (instr->op == OP_UPDATE && ((elements == 0 && bytes == 0) || (there && i > 0)))
            continue;
        if (instr->op == OP_UPDATE) /* profiles have measured AdamW */
            elements = adamw_elements(program, bytes, elements);
        struct cost own = stream_cost(facts, type, program->plan->dtype, work, there ? 0 : elements, there ? 0 : bytes);
        if (there) /* which no profile has measured */
            own = (struct cost){ min_i64(MAX_TIME_NS, own.ns + host_update_ns(facts, type, elements)), ORIGIN_ANALYTIC,
                                 false };
        if (instr->op == OP_UPDATE && i == 0)
            own.ns = min_i64(MAX_TIME_NS,
                             own.ns + orthogonal_ns(facts, program, program->pairs[instr->pair_first].source, type));
        sum = (struct cost){ min_i64(MAX_TIME_NS, sum.ns + own.ns), min_int(sum.origin, own.origin),
                             sum.extrapolated || own.extrapolated }; /* the weaker origin of two */
    }
    if (sum.origin != ORIGIN_ANALYTIC)
        sum.ns = max_i64(0, sum.ns - facts_timing_ns(facts, type));
    return sum;
}

static struct cost local_cost(const struct facts *facts, const struct program *program, const struct instr *instr,
                              unsigned types)
{
    struct cost slowest = { 0, ORIGIN_MEASURED, false };
    for (int type = 0; types >> type; type++) {
        if (!(types >> type & 1))
            continue;
        struct cost cost = local_cost_on(facts, program, instr, type);
        slowest = cost.ns >= slowest.ns ? cost : slowest;
    }
    return slowest;
}

/* ---- communication ---- */

/* Counts the bytes of the larger buffer of each pair, under which curves hold a collective. */
static int64_t curve_bytes(const struct program *program, const struct instr *instr)
{
    int64_t sum = 0;
    for (int i = 0; i < instr->pair_count; i++) {
        const struct pair *pair = &program->pairs[instr->pair_first + i];
        const struct buffer *from = pair_buffer(program, pair->source), *to = pair_buffer(program, pair->destination);
        sum += max_i64(from ? from->bytes : 0, to ? to->bytes : 0);
    }
    return sum;
}

/* What one rank moves, under which bytes curves hold it, and the group's choices. */
struct load {
    int64_t wire_bytes, curve_bytes;
    int choices;
};

int cost_dispatch_choices(const struct facts *facts, const struct program *program, const struct instr *instr)
{
    const struct graph *graph = program->graph;
    bool once =
        facts->framework && facts->framework->dispatches_once && instr->op == OP_ALL_TO_ALL && instr->layer >= 0;
    const struct graph_layer *layer = once ? &graph->layers[instr->layer] : NULL;
    for (int s = 0; once && s < layer->segment_count; s++) {
        const struct segment *segment = &graph->segments[layer->first_segment + s];
        if (segment->kernel == KERNEL_DISPATCH)
            return (int)segment->arguments.choices;
    }
    return 0;
}

static struct load load_of(const struct facts *facts, const struct program *program, int stage,
                           const struct instr *instr)
{
    struct load load = { instr_wire_bytes(program, stage, instr), curve_bytes(program, instr),
                         cost_dispatch_choices(facts, program, instr) };
    double ranks = load.choices > 0 ? geometry_group_size(program->plan, stage, instr->atoms) : 1;
    if (load.choices > 0)
        load.curve_bytes = (int64_t)((double)load.curve_bytes * cost_units_chosen(ranks, load.choices) / load.choices);
    return load;
}

static struct cost group_cost(const struct facts *facts, const struct program *program, int stage,
                              const struct instr *instr, struct load load)
{
    const struct plan *plan = program->plan;
    struct group group = instr->op == OP_NORM_REDUCE ? group_regular(facts->cluster, plan->rank_count, 0, 1, 1)
                                                     : group_of_stage(facts->cluster, plan, stage, instr->atoms);
    group.choices = load.choices;
    return cost_of_group(facts, instr->op, load.curve_bytes, load.wire_bytes, &group);
}

uint64_t cost_collective_key(const struct facts *facts, const struct program *program, int stage,
                             const struct instr *instr)
{
    if (!op_info[instr->op].collective || instr->op == OP_NORM_REDUCE)
        return 0;
    struct load load = load_of(facts, program, stage, instr);
    const int64_t words[] = { instr->op, instr->atoms, load.wire_bytes, load.curve_bytes, load.choices };
    return hash_words(HASH_START, words, sizeof words / sizeof *words) | 1;
}

/* Prices one message between a rank of each stage; each end's link is shared by its own stage's ranks. */
static struct cost pair_cost(const struct facts *facts, const struct plan *plan, int stage, int peer_stage, int local,
                             int64_t wire_bytes)
{
    int here = plan->stages[stage].first_rank + local, there = plan->stages[peer_stage].first_rank + local;
    int level = cluster_level(facts->cluster, here, there);
    int own = cluster_type(facts->cluster, here), other = cluster_type(facts->cluster, there);
    int sharers = group_sharers(facts->cluster, own, level, plan, stage);
    int others = group_sharers(facts->cluster, other, level, plan, peer_stage);
    return cost_message(facts, wire_bytes, here, there, sharers, own == other ? sharers : others);
}

struct cost cost_between_stages(const struct facts *facts, const struct plan *plan, int stage, int peer_stage,
                                int64_t bytes)
{
    return pair_cost(facts, plan, stage, peer_stage, 0, bytes);
}

/* Takes local rank 0 of both stages for all, since neighbours in the pipeline are laid out alike; and the first rank of
 * each further type that a stage lives on, for its like. */
static struct cost transfer_cost(const struct facts *facts, const struct program *program, int stage,
                                 const struct instr *instr, int64_t wire_bytes)
{
    const struct plan *plan = program->plan;
    const struct cluster *cluster = facts->cluster;
    struct cost slowest = pair_cost(facts, plan, stage, instr->peer_stage, 0, wire_bytes);
    int ranks = (int)min_i64(plan_stage_rank_count(plan, stage), plan_stage_rank_count(plan, instr->peer_stage));
    const int ends[] = { plan->stages[stage].first_rank, plan->stages[instr->peer_stage].first_rank };
    for (int g = 0; cluster->group_count > 1 && g < cluster->group_count; g++)
        for (int end = 0; end < 2; end++) {
            int local = cluster->groups[g].first_rank - ends[end];
            if (local <= 0 || local >= ranks)
                continue;
            struct cost cost = pair_cost(facts, plan, stage, instr->peer_stage, local, wire_bytes);
            slowest = cost.ns > slowest.ns ? cost : slowest;
        }
    return slowest;
}

/* ---- host memory ---- */

/* Counts what travels of the optimizer's state: where the host updates it, gradients go there, unless it has them, and
 * weights come back. */
static int64_t state_bytes(const struct facts *facts, const struct program *program, const struct instr *instr)
{
    const struct pair *pair = &program->pairs[instr->pair_first];
    int state = instr->op == OP_FETCH ? pair->source : pair->destination;
    if (!has_hosts_update(facts) || program->buffers[state].kind != BUFFER_STATE)
        return curve_bytes(program, instr);
    const struct buffer *gradient = &program->buffers[state - 1]; /* geometry_state_buffer() */
    int64_t each = instr->op == OP_FETCH ? weight_bytes_per_element(program->plan->dtype)
                   : gradient->host      ? 0
                                         : gradient->element_bytes;
    return buffer_holds(&program->buffers[state]) * each;
}

/* Prices all pairs as one copy between a device and its host's memory: the link's latency and its rate, either way
 * alone (PCIe is full duplex). */
static struct cost host_cost(const struct facts *facts, const struct program *program, const struct instr *instr,
                             unsigned types)
{
    struct cost slowest = { 0, ORIGIN_ANALYTIC, false };
    int64_t bytes = state_bytes(facts, program, instr);
    for (int type = 0; types >> type; type++) {
        if (!(types >> type & 1))
            continue;
        const struct device_type *device = &facts->cluster->types[type].device;
        double copy_ns = bytes > 0 ? (double)bytes / device->host_bytes_per_s * 1e9 : 0;
        slowest.ns = max_i64(slowest.ns, cost_round_ns((double)device->host_latency_ns + copy_ns));
    }
    return slowest;
}

bool cost_host_link(const struct cluster *cluster, enum offload offload, struct error *err)
{
    for (int t = 0; offload != OFFLOAD_NONE && t < cluster->type_count; t++) {
        const struct device_type *device = &cluster->types[t].device;
        if (device->host_bytes_per_s <= 0)
            return fail(err,
                        "offload %s needs a link to host memory, and of %s in cluster %s none is known: write "
                        "%s@host=30e9,host-memory=250e9, or give the device \"host_bytes_per_s\" and "
                        "\"host_memory_bytes\"",
                        offload_names[offload], device->name, cluster->name, device->name);
    }
    return true;
}

bool cost_check_host(const struct cluster *cluster, const struct plan *plan, struct error *err)
{
    bool good = true;
    for (int l = 0; l < plan->layer_count && good; l++)
        good = cost_host_link(cluster, (enum offload)plan->layers[l].offload, err);
    return good;
}

/* Prices the instruction; types: of the devices that do local work. */
static struct cost cost_on(const struct facts *facts, const struct program *program, int stage,
                           const struct instr *instr, unsigned types)
{
    switch (op_info[instr->op].traffic) {
    case TRAFFIC_KERNEL:
        return compute_cost(facts, program, stage, instr, types);
    case TRAFFIC_LOCAL:
        return local_cost(facts, program, instr, types);
    case TRAFFIC_HOST:
        return host_cost(facts, program, instr, types);
    case TRAFFIC_MESSAGE:
        return transfer_cost(facts, program, stage, instr, instr_wire_bytes(program, stage, instr));
    case TRAFFIC_REDUCE:
    case TRAFFIC_RING:
    case TRAFFIC_EXCHANGE:
    case TRAFFIC_ROOT:
    case TRAFFIC_SHIFT:
        break;
    }
    return group_cost(facts, program, stage, instr, load_of(facts, program, stage, instr));
}

unsigned cost_stage_types(const struct facts *facts, const struct plan *plan, int stage)
{
    if (facts->cluster->group_count == 1)
        return 1;
    return cluster_types(facts->cluster, plan->stages[stage].first_rank, plan_stage_rank_count(plan, stage));
}

int64_t cost_stage_available_bytes(const struct facts *facts, const struct plan *plan, int stage)
{
    unsigned types = cost_stage_types(facts, plan, stage);
    int64_t least = INT64_MAX;
    for (int type = 0; types >> type; type++)
        if (types >> type & 1)
            least = min_i64(least, facts_available_bytes(facts, type));
    return least;
}

int64_t cost_stage_host_bytes(const struct facts *facts, const struct plan *plan, int stage)
{
    unsigned types = cost_stage_types(facts, plan, stage);
    int64_t least = INT64_MAX;
    for (int type = 0; types >> type; type++) {
        int64_t bytes = types >> type & 1 ? facts->cluster->types[type].device.host_memory_bytes : 0;
        least = bytes > 0 ? min_i64(least, bytes) : least;
    }
    return least;
}

struct cost cost_instr(const struct facts *facts, const struct program *program, int stage, const struct instr *instr)
{
    return cost_on(facts, program, stage, instr, cost_stage_types(facts, program->plan, stage));
}

int64_t cost_instr_ns(const struct facts *facts, const struct program *program, int stage, const struct instr *instr)
{
    return cost_instr(facts, program, stage, instr).ns;
}

/* Counts the experts of the layer that lie on a rank; 0 where it has none. */
static int64_t experts_of_rank(const struct program *program, int stage, const struct segment *segment)
{
    unsigned sharing = 0;
    if (!segment || segment->kernel != KERNEL_DISPATCH)
        return 0;
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        sharing |=
            dimension_prefers(dimensions[program->plan->layers[segment->layer].dim[atom]], TAG_EXPERT) ? 1u << atom : 0;
    return ceil_div(segment->arguments.experts, geometry_group_size(program->plan, stage, sharing));
}

struct host_issue cost_issue(const struct facts *facts, const struct program *program, int stage,
                             const struct instr *instr)
{
    const struct framework *framework = facts->framework;
    if (!framework)
        return (struct host_issue){ 0, HOST_WAITS_FOR_NOTHING };
    struct host_issue issue = { instr->lane == LANE_COMPUTE ? framework->issue_kernel_ns : framework->issue_transfer_ns,
                                framework->host_waits };
    /* these come in a few kernels over all tensors: apex's multi_tensor_apply, PyTorch's foreach, flat buffers */
    if (instr->op == OP_UPDATE || instr->op == OP_NORM || instr->op == OP_ZERO)
        issue.ns = 0;
    const struct segment *segment = instr->segment >= 0 ? &program->graph->segments[instr->segment] : NULL;
    if (issue.waits == HOST_WAITS_BEFORE_GATHERS)
        issue.waits = instr->op == OP_ALL_GATHER ? HOST_WAITS_FOR_ALL : HOST_WAITS_FOR_NOTHING;
    if (framework->issue_rank_ns > 0 && op_info[instr->op].collective)
        issue.ns += framework->issue_rank_ns * geometry_group_size(program->plan, stage, instr->atoms);
    int64_t experts_ns =
        framework->issue_experts_ns + framework->issue_expert_ns * experts_of_rank(program, stage, segment);
    if (experts_ns > 0 && segment && segment->kernel == KERNEL_DISPATCH && segment->arguments.dropless)
        issue = (struct host_issue){ experts_ns, instr->phase == PHASE_FORWARD ? HOST_WAITS_FOR_ALL : issue.waits };
    return issue;
}

int64_t cost_latency_ns(const struct facts *facts, const struct program *program, int stage, const struct instr *instr)
{
    const struct load nothing = { 0 };
    if (op_info[instr->op].traffic == TRAFFIC_MESSAGE)
        return transfer_cost(facts, program, stage, instr, 0).ns;
    return op_info[instr->op].collective ? group_cost(facts, program, stage, instr, nothing).ns : 0;
}

int64_t cost_launch_ns(const struct facts *facts, const struct program *program, int stage, const struct instr *instr)
{
    int64_t slowest = 0;
    unsigned types = cost_stage_types(facts, program->plan, stage);
    if (instr->op != OP_NORM && instr->op != OP_UPDATE)
        return 0;
    for (int type = 0; types >> type; type++) {
        enum dtype dtype = program->plan->dtype;
        if (types >> type & 1)
            slowest = max_i64(slowest, instr->op == OP_NORM
                                           ? stream_cost(facts, type, dtype, "norm", 0, 0).ns
                                           : min_i64(stream_cost(facts, type, dtype, WORK_UPDATE, 0, 0).ns,
                                                     stream_cost(facts, type, dtype, WORK_UPDATE_APART, 0, 0).ns));
    }
    return slowest;
}

int64_t cost_instr_rank_ns(const struct facts *facts, const struct program *program, int stage,
                           const struct instr *instr, int rank)
{
    return cost_on(facts, program, stage, instr, 1u << cluster_type(facts->cluster, rank)).ns;
}
