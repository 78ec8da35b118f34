/* Values and bounds a configuration by formulas alone, without a search. */
#include "base/num.h"
#include "planner/check/check_cut_parts.h"

/* What the layers of a stage take so far. */
struct stage_use {
    int64_t total[LIMIT_COUNT], peak, path_ns;
};

static struct stage_use sum_stage(const struct cut_problem *p, const struct stage_kind *kind, int first, int end,
                                  const int *strategy)
{
    struct stage_use use = { .total = { kind->table->base_bytes } };
    bool both = cut_holds_both(p, first, end);
    for (int l = first; l < end; l++) {
        const struct layer_price *price = price_at(kind->table, p->class_of[l], strategy[l]);
        int64_t own[LIMIT_COUNT];
        stage_layer_use(kind, price, both, own);
        for (int r = 0; r < LIMIT_COUNT; r++)
            use.total[r] += own[r];
        use.peak = max_i64(use.peak, price->transient_bytes);
        use.path_ns += stage_layer_path_ns(price);
    }
    return use;
}

void value_set_order(struct cut_problem *p, const int *order, int *class_of)
{
    int first = -1, second = -1;
    for (int place = 0; place < p->layer_count; place++) {
        int layer = order ? order[place] : place;
        class_of[place] = p->class_of[layer];
        first = layer == p->tied_first ? place : first;
        second = layer == p->tied_second ? place : second;
    }
    p->class_of = class_of;
    p->tied_first = first;
    p->tied_second = second;
    p->orders = NULL;
}

/* True when the stage has room beside what its device holds of those before. */
static bool has_room(const struct cut_problem *p, int stage, const struct stage_kind *kind, int64_t bytes)
{
    if (!p->device_of)
        return bytes <= kind->capacity_bytes;
    p->held_bytes[p->device_of[stage]] += bytes;
    return p->held_bytes[p->device_of[stage]] <= p->device_bytes;
}

int64_t value_of_cut(const struct cut_problem *p, int stage_count, const int *first_layer, const int *shape,
                     const int *strategy)
{
    int64_t sum = p->once_ns;
    struct stage_ends ends = no_ends;
    int left = p->mesh_count;
    for (int k = 0; k < stage_count; k++) {
        const struct stage_kind *kind = &p->stages[cut_kind(p, k, left, shape ? shape[k] : 0)];
        int first = first_layer[k], end = k + 1 < stage_count ? first_layer[k + 1] : p->layer_count;
        struct stage_use use = sum_stage(p, kind, first, end, strategy);
        if (!has_room(p, k, kind, use.total[LIMIT_BYTES] + use.peak))
            return INT64_MAX;
        sum += use.path_ns + cut_ends_ns(p, kind, k == 0, k + 1 == stage_count);
        ends = stage_longer(ends, stage_ends_of(kind, use.total));
        left -= shape ? p->turns[shape[k]] : 0;
    }
    return sum + stage_longest_ns(ends, ends.forward_ns);
}

/* Bounds stages of r replicas, one of which has at least m/r micro-batches and takes (m/r - 1) times its path beyond
 * the first one, and its update: taken r times, and over all G meshes together, that is at least the sum of (m - r)
 * paths and the updates. */
static int64_t turns_bound(const struct cut_problem *p, int64_t sum, int64_t steps, int64_t micro_batches)
{
    int most = 1;
    for (int i = 0; i < p->shape_count; i++)
        most = max_int(most, p->turns[i]);
    return sum + ceil_div(max_i64(0, micro_batches - most) * sum + steps, p->mesh_count);
}

static int layers_of(const struct cut_problem *p, int class_index)
{
    int count = 0;
    for (int l = 0; l < p->layer_count; l++)
        count += p->class_of[l] == class_index;
    return count;
}

/* True when the kind's prices are those of the stage before. */
static bool as_before(const struct cut_problem *p, int kind)
{
    return p->mesh_count == 0 && kind > 0 && p->stages[kind].table == p->stages[kind - 1].table;
}

/* Gives what all layers take of a limit, or of USE_, by the kind of stage that is best for each; each_mesh: what that
 * takes of all its meshes together. */
static int64_t least_of_all(const struct cut_problem *p, int what, bool each_mesh)
{
    int64_t sum = 0;
    int kinds = p->mesh_count > 0 ? (p->mesh_count + 1) * p->shape_count : p->stage_count; /* the first stage's */
    for (int class_index = 0; class_index < p->class_count; class_index++) {
        int64_t least = INT64_MAX;
        int layers = layers_of(p, class_index);
        for (int k = 0; k < kinds && layers > 0; k++) {
            bool is_first =
                p->mesh_count == 0 || k < p->shape_count; /* else its prices may be those with a mesh less */
            if (p->stages[k].table && !as_before(p, k) &&
                (is_first || p->stages[k].table != p->stages[k - p->shape_count].table))
                least = min_i64(least, (each_mesh ? p->turns[k % p->shape_count] : 1) *
                                           stage_layer_least(&p->stages[k], class_index, what));
        }
        sum += layers > 0 ? layers * least : 0;
    }
    return sum;
}

/* Gives the mean over stages, or over meshes, than which the longest stage takes no less of a limit, since what a stage
 * of r meshes takes counts r times. */
static int64_t mean_of(const struct cut_problem *p, int what)
{
    return ceil_div(least_of_all(p, what, p->mesh_count > 0), p->mesh_count > 0 ? p->mesh_count : p->stage_count);
}

void value_forward_range(const struct cut_problem *p, int64_t bound_ns, int64_t *from_ns, int64_t *to_ns)
{
    *from_ns = mean_of(p, LIMIT_FORWARD);
    *to_ns = bound_ns - p->once_ns - 1 - least_of_all(p, USE_PATH, false) - mean_of(p, LIMIT_PATH);
}

/* Gives what all layers take of a limit on stages of that kind alone. */
static int64_t model_on(const struct cut_problem *p, const struct stage_kind *kind, int what)
{
    int64_t sum = 0;
    for (int class_index = 0; class_index < p->class_count; class_index++) {
        int layers = layers_of(p, class_index);
        sum += layers > 0 ? layers * stage_layer_least(kind, class_index, what) : 0;
    }
    return sum;
}

/* Stages of different speeds, one mesh each. For weights that sum up to one or less the longest stage is no shorter
 * than the weighted sum of all paths C, so
 *
 *   sum_k C_k + max_k ((m - 1) C_k + O_k)  >=  sum_l min_k ((1 + (m - 1) weight_k) c_k(l) + weight_k o_k(l))
 *
 * with the least path c_k(l) of layer l there, and its least update o_k(l). Weights in proportion to speed, in
 * 2^-WEIGHT_BITS, rounded down. */
static int64_t mixed_bound(const struct cut_problem *p, int64_t micro_batches)
{
    enum { WEIGHT_BITS = 40 };
    __extension__ typedef __int128 wide;
    double speeds = 0;
    wide sum = 0;
    for (int k = 0; k < p->stage_count; k++)
        speeds += 1 / (double)max_i64(1, model_on(p, &p->stages[k], USE_PATH));
    for (int class_index = 0; class_index < p->class_count; class_index++) {
        wide least = 0;
        int layers = layers_of(p, class_index);
        for (int k = 0; k < p->stage_count && layers > 0; k++) {
            if (as_before(p, k))
                continue;
            double share = 1 / (double)max_i64(1, model_on(p, &p->stages[k], USE_PATH)) / speeds;
            int64_t weight = (int64_t)(share * (double)((int64_t)1 << WEIGHT_BITS) * (1 - 1e-12));
            wide own = (((wide)1 << WEIGHT_BITS) + (wide)(micro_batches - 1) * weight) *
                           stage_layer_least(&p->stages[k], class_index, USE_PATH) +
                       (wide)weight * stage_layer_least(&p->stages[k], class_index, USE_STEP);
            least = k == 0 || own < least ? own : least;
        }
        sum += layers * least;
    }
    return (int64_t)(sum >> WEIGHT_BITS);
}

int64_t value_quick_bound(const struct cut_problem *p)
{
    int64_t sum = least_of_all(p, USE_PATH, false), steps = least_of_all(p, USE_STEP, false), longest = 0,
            micro_batches = p->stages[0].micro_batches;
    if (p->mesh_count > 0)
        return turns_bound(p, sum, steps, p->micro_batch_count);
    for (int k = 1; k < p->stage_count; k++)
        if (!as_before(p, k))
            return mixed_bound(p, micro_batches) + p->once_ns;
    longest = ceil_div(sum, p->stage_count);
    return sum + p->once_ns +
           max_i64((micro_batches - 1) * longest, ceil_div((micro_batches - 1) * sum + steps, p->stage_count));
}

bool value_lacks_memory(const struct cut_problem *p)
{
    int64_t least = INT64_MAX, room = 0;
    int kinds = cut_kinds(p);
    int most = p->stage_count > 0 ? p->stage_count : (int)min_i64(p->mesh_count, p->layer_count);
    for (int k = 0; k < kinds; k++) {
        int64_t own = 0;
        if (!p->stages[k].table)
            continue;
        if (k == 0 ||
            !(p->stages[k].table == p->stages[k - 1].table && p->stages[k].in_flight == p->stages[k - 1].in_flight))
            least = min_i64(least, model_on(p, &p->stages[k], LIMIT_BYTES));
        own = max_i64(0, p->stages[k].capacity_bytes - p->stages[k].table->base_bytes);
        room = p->mesh_count > 0 ? max_i64(room, most * own) : room + own;
    }
    return least > room;
}
