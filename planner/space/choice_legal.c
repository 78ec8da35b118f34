/* What is legal: of each choice of a configuration whether its value goes with those before it, and why not. The
 * listing asks it without reasons; a configuration that somebody names is refused with them. */
#include "planner/space/choice_legal.h"
#include "base/num.h"
#include <stdio.h>

struct making making_of(const struct space *space, const struct graph *graph, const struct cluster *cluster)
{
    return (
        struct making){ .space = space, .graph = graph, .cluster = cluster, .expert_most = legal_most_experts(graph) };
}

int making_ranks(const struct making *m)
{
    return (int)(m->cluster->device_count / m->value[CHOICE_TP] / m->value[CHOICE_CP]);
}

struct degrees making_degrees(const struct making *m)
{
    return (struct degrees){ .tensor = (int)m->value[CHOICE_TP],
                             .context = (int)m->value[CHOICE_CP],
                             .data = (int)m->value[CHOICE_DP],
                             .expert = (int)m->value[CHOICE_EP],
                             .experts_over = (enum experts_over)m->value[CHOICE_EP_OVER],
                             .tensor_dimension = (enum dimension_index)m->value[CHOICE_TP_DIMENSION],
                             .context_dimension = (enum dimension_index)m->value[CHOICE_CP_DIMENSION],
                             .data_dimension = (enum dimension_index)m->value[CHOICE_DP_DIMENSION] };
}

/* True when the ranks that the degrees so far multiply to divide the devices; all degrees together must use all. */
static bool degrees_legal(const struct making *m, int64_t ranks, bool all, struct error *why)
{
    int devices = m->cluster->device_count;
    if (ranks <= devices && devices % ranks == 0 && (!all || ranks == devices))
        return true;
    return fail(
        why,
        "plan: the degrees%s multiply to %lld, which is not%s the cluster's %d devices; expected pp x tp x cp x "
        "dp = %d",
        all ? "" : " so far", (long long)ranks, all ? "" : " a divisor of", devices, devices);
}

static bool tensor_degree_legal(struct making *m, struct error *why)
{
    int tensor = (int)m->value[CHOICE_TP];
    return degrees_legal(m, tensor, false, why) &&
           (legal_tensor(m->graph, tensor) ||
            fail(why,
                 "plan: %d tensor-parallel ranks cannot share model %s: heads and feed-forward width must be multiples "
                 "of the degree",
                 tensor, m->graph->model_name));
}

static bool context_degree_legal(struct making *m, struct error *why)
{
    return degrees_legal(m, m->value[CHOICE_TP] * m->value[CHOICE_CP], false, why);
}

static bool stages_legal(struct making *m, struct error *why)
{
    int64_t stages = m->value[CHOICE_PP];
    if (stages > m->graph->layer_count)
        return fail(why, "plan: %lld stages, but model %s has %d layers", (long long)stages, m->graph->model_name,
                    m->graph->layer_count);
    return m->value[CHOICE_TURNS] != 1 ||
           degrees_legal(m, m->value[CHOICE_TP] * m->value[CHOICE_CP] * stages, false, why);
}

static bool wrong_batch(const struct making *m, int64_t micro, struct error *why)
{
    int64_t data = m->value[CHOICE_DP], unit = data * micro, batch = m->space->batch, below = batch / unit * unit;
    char nearest[128];
    if (below > 0)
        snprintf(nearest, sizeof nearest, "the nearest valid sizes are %lld and %lld", (long long)below,
                 (long long)round_up(batch, unit));
    else
        snprintf(nearest, sizeof nearest, "the smallest valid size is %lld", (long long)round_up(batch, unit));
    return fail(why,
                "plan: batch %lld: expected a multiple of %lld (data-parallel degree %lld times micro-batch %lld); %s",
                (long long)batch, (long long)unit, (long long)data, (long long)micro, nearest);
}

/* With one mesh for each stage the data degree must be what the other degrees leave; else it leaves meshes, of which
 * there are more than stages. */
static bool data_legal(struct making *m, struct error *why)
{
    int64_t ranks = making_ranks(m), data = m->value[CHOICE_DP], stages = m->value[CHOICE_PP];
    bool turns = m->value[CHOICE_TURNS] != 1;
    if (!degrees_legal(m, m->value[CHOICE_TP] * m->value[CHOICE_CP] * data * (turns ? 1 : stages), !turns, why))
        return false;
    m->config.meshes = turns ? (int)(ranks / data) : 0;
    return m->space->batch % data == 0 || (why && wrong_batch(m, max_i64(1, m->value[CHOICE_MICRO]), why));
}

static bool micro_legal(struct making *m, struct error *why)
{
    int64_t share = m->space->batch / m->value[CHOICE_DP], micro = m->value[CHOICE_MICRO];
    if (share % micro != 0)
        return why && wrong_batch(m, micro, why);
    if (share / micro > PLAN_MAX_MICRO_BATCHES)
        return fail(why, "plan: %lld micro-batches, but at most %d can be run; give larger ones",
                    (long long)(share / micro), PLAN_MAX_MICRO_BATCHES);
    m->config.micro_batch_count = (int)(share / micro);
    return true;
}

/* Tensor-parallel ranks go by a dimension of theirs; with sequence parallelism by one that shares out the sequence. */
static bool tensor_dimension_legal(struct making *m, struct error *why)
{
    const struct dimension *by = dimensions[m->value[CHOICE_TP_DIMENSION]];
    bool sequence = by->lane == LANE_TP && !dimension_is_tensor(by) && !dimension_is_over_experts(by);
    return (m->value[CHOICE_SP] ? sequence : dimension_is_tensor(by)) ||
           fail(why, "plan: tensor-parallel ranks%s cannot go by %s", m->value[CHOICE_SP] ? " with sp" : "", by->name);
}

/* Context-parallel ranks go by a dimension of theirs; one rank has nothing to go by. */
static bool context_dimension_legal(struct making *m, struct error *why)
{
    const struct dimension *by = dimensions[m->value[CHOICE_CP_DIMENSION]];
    return m->value[CHOICE_CP] == 1 || (by->lane == LANE_CP && !dimension_is_over_experts(by)) ||
           fail(why, "plan: context-parallel ranks cannot go by %s", by->name);
}

static bool data_dimension_legal(struct making *m, struct error *why)
{
    const struct dimension *by = dimensions[m->value[CHOICE_DP_DIMENSION]];
    return dimension_is_data(by) || fail(why, "plan: data-parallel ranks cannot go by %s", by->name);
}

/* Tensor-parallel ranks share out experts only if they share out the sequence, so that each has tokens of its own. */
static bool experts_over_legal(struct making *m, struct error *why)
{
    return m->value[CHOICE_EP_OVER] != EXPERTS_OVER_TENSOR || m->value[CHOICE_TP] == 1 || m->value[CHOICE_SP] ||
           fail(why,
                "plan: tensor-parallel ranks share out experts (ep-over=tensor) with sequence parallelism; give sp");
}

static bool expert_legal(struct making *m, struct error *why)
{
    struct degrees degrees = making_degrees(m);
    int64_t expert = degrees.expert, inside = degrees_inside(&degrees);
    if (expert > 1 && expert % inside != 0)
        return fail(why,
                    "plan: %lld expert-parallel ranks (ep) over %s ranks: expected a multiple of %lld, which they are",
                    (long long)expert, experts_over_names[degrees.experts_over], (long long)inside);
    return expert <= 1 || (degrees.data % (expert / inside) == 0 && m->expert_most % expert == 0) ||
           fail(why,
                "plan: %lld expert-parallel ranks (ep), but %lld ranks may share out experts (%s), and layers of model "
                "%s have "
                "%lld in common; expected a divisor of both",
                (long long)expert, (long long)(degrees.data * inside), experts_over_names[degrees.experts_over],
                m->graph->model_name, (long long)m->expert_most);
}

static bool cannot_share(struct making *m, struct error *why)
{
    const char *by = dimensions[m->value[CHOICE_CP_DIMENSION]]->name;
    long long context = m->value[CHOICE_CP];
    if (m->graph->image_value >= 0)
        return fail(why,
                    "plan: %lld context-parallel ranks by %s cannot share model %s: the positions of every layer's "
                    "image or patches, or the heads that are left, must be multiples of the degree",
                    context, by, m->graph->model_name);
    return fail(why,
                "plan: %lld context-parallel ranks by %s cannot share model %s: the sequence of %lld tokens, or the "
                "heads that are left, must be multiples of the degree",
                context, by, m->graph->model_name, (long long)m->graph->sequence);
}

/* Remembers what legal_context() says of a mesh: many configurations have the same one but for how they deal out the
 * batch, which context parallelism does not share in, and each call walks the whole model. */
static bool context_shares(struct making *m, struct mesh mesh)
{
    uint64_t hash = 0;
    for (int atom = 0; atom < mesh.atom_count; atom++) {
        mesh.size[atom] = dimension_deals_batch(dimensions[mesh.dim[atom]]) ? 1 : mesh.size[atom];
        hash = mix64(hash ^ ((uint64_t)mesh.size[atom] << 8 | (uint64_t)mesh.dim[atom]));
    }
    struct known_context *known = &m->context[hash % SPACE_MEMO];
    if (!mesh_equal(&known->mesh, &mesh))
        *known = (struct known_context){ mesh, legal_context(m->graph, &mesh) };
    return known->legal;
}

/* Makes the mesh, of which this is the last choice. */
static bool group_legal(struct making *m, struct error *why)
{
    struct degrees degrees = making_degrees(m);
    int group = m->value[CHOICE_HSDP] > 0 ? (int)m->value[CHOICE_HSDP] : degrees.data;
    if (degrees.data % group != 0)
        return fail(why,
                    "plan: groups of %d ranks that hold all shards (hsdp), but there are %d data-parallel ranks; "
                    "expected a divisor of them",
                    group, degrees.data);
    if (!mesh_legal(&degrees, group))
        return fail(why,
                    "plan: groups of %d ranks that hold all shards (hsdp) and %d expert-parallel ranks (ep): expected "
                    "groups that are a multiple of ep, and not both beside context parallelism",
                    group, degrees.expert);
    m->config.mesh = space_mesh(&degrees, (enum mesh_order)m->value[CHOICE_ORDER], group);
    return degrees.context == 1 || context_shares(m, m->config.mesh) || cannot_share(m, why);
}

static bool chunks_legal(struct making *m, struct error *why)
{
    const struct schedule *schedule = schedules[m->value[CHOICE_SCHEDULE]];
    int stages = (int)m->value[CHOICE_PP], chunks = (int)m->value[CHOICE_INTERLEAVE];
    if (schedule_pieces(schedule, stages, chunks) > m->graph->layer_count)
        return fail(why, "plan: %d stages of %d chunks, but model %s has %d layers", stages, chunks,
                    m->graph->model_name, m->graph->layer_count);
    int cut = m->space->cut.count;
    if (cut > 0 && (m->value[CHOICE_TURNS] != 1 || schedule_pieces(schedule, stages, chunks) != cut))
        return fail(why, "plan: --stages: %d are cut, but pp is %d%s", cut, stages,
                    m->value[CHOICE_TURNS] != 1 ? ", with replicas in turn"
                    : chunks > 1                ? ", of several chunks each"
                                                : "");
    return m->config.micro_batch_count <= PLAN_MAX_MICRO_BATCHES / chunks ||
           fail(why, "plan: %d micro-batches of %d chunks, but at most %d can be run", m->config.micro_batch_count,
                chunks, PLAN_MAX_MICRO_BATCHES);
}

bool choice_legal(struct making *m, enum space_choice choice, struct error *why)
{
    static bool (*const rules[CHOICE_COUNT])(struct making * m, struct error * why) = {
        [CHOICE_TP] = tensor_degree_legal,
        [CHOICE_CP] = context_degree_legal,
        [CHOICE_PP] = stages_legal,
        [CHOICE_DP] = data_legal,
        [CHOICE_MICRO] = micro_legal,
        [CHOICE_TP_DIMENSION] = tensor_dimension_legal,
        [CHOICE_CP_DIMENSION] = context_dimension_legal,
        [CHOICE_DP_DIMENSION] = data_dimension_legal,
        [CHOICE_EP_OVER] = experts_over_legal,
        [CHOICE_EP] = expert_legal,
        [CHOICE_HSDP] = group_legal,
        [CHOICE_INTERLEAVE] = chunks_legal,
    }; /* others go with any before them */
    return !rules[choice] || rules[choice](m, why);
}

void making_settle(struct making *m)
{
#define CHOICE(id, member, name, scope, ...) OF_PLAN_##scope(m->config.member = m->value[CHOICE_##id];)
#include "planner/space/choices.def"
#undef CHOICE
}
