#include "profiler/memory_work.h"
#include "profiler/rig.h"

enum { LINEAR_SIZES = 7, LINEAR_FIRST = 1 << 10, LINEAR_REACH = 1 << 20, WARM_UP_STEPS = 1, STEPS = 4 };
enum { CACHED = 1 << 18 }; /* elements: larger buffers were last touched too long ago in a real step to be in a cache */
struct in_memory {
    struct harvest *harvest;
    struct rig *rig;
    struct error error;
};

static bool on_linear(void *context, int64_t step, const struct timeline *timeline)
{
    struct in_memory *m = context;
    return step <= WARM_UP_STEPS ||
           (harvest_timeline(m->harvest, m->rig->program, timeline, &m->error) && step < WARM_UP_STEPS + STEPS);
}

static const struct {
    const char *work;
    enum op op;
    bool accumulate;
} local_ops[] = {
    { "zero", OP_ZERO, false },
    { "add", OP_ADD, true },
    { "copy", OP_ADD, false },
    { "norm", OP_NORM, false },
};
enum { LOCAL_OPS = sizeof local_ops / sizeof *local_ops };

/* Each rank its own elements: of copies only one rank's would count in a norm. */
static void add_op(struct rig *rig, int tensor, int number, bool apart, int scalar)
{
    enum op op = local_ops[number].op;
    int source = -1, destination = scalar;
    if (op != OP_ZERO)
        source = rig_buffer(rig, 0, tensor, LAYOUT_SHARDED, 0, apart ? RIG_APART : RIG_SOURCE);
    if (op != OP_NORM)
        destination = rig_buffer(rig, 0, tensor, LAYOUT_SHARDED, 0, apart ? RIG_APART : RIG_DESTINATION);
    struct instr *instr = rig_instr(rig, 0, op, LANE_COMPUTE, -1, source, destination);
    instr->accumulate = local_ops[number].accumulate;
}

static void add_sizes(struct rig *rig, const int missing[LOCAL_OPS], int64_t cache_bytes)
{
    int scalar = rig_buffer(rig, 0, rig_tensor(rig, 1, 1), LAYOUT_REPLICATED, 0, RIG_APART);
    int64_t elements = LINEAR_FIRST;
    rig_empty_caches(rig, 0, -1, cache_bytes);
    for (int size = 0; size < LINEAR_SIZES; size++, elements *= 4) {
        int tensor = rig_tensor(rig, rig->plan->rank_count, elements);
        for (int i = 0; i < LOCAL_OPS; i++)
            if (missing[i])
                add_op(rig, tensor, i, elements >= CACHED, scalar);
    }
    rig_finish(rig);
}

bool memory_work_measure(struct harvest *harvest, const struct crew *crew, const struct profile *existing,
                         struct error *err)
{
    struct in_memory m = { .harvest = harvest };
    int missing[LOCAL_OPS], any = 0;
    for (int i = 0; i < LOCAL_OPS; i++)
        missing[i] = harvest_linear_reach(&harvest->linear, local_ops[i].work) < LINEAR_REACH &&
                     !(existing && profile_linear(existing, local_ops[i].work, crew->rank_count));
    if (!crew_agree(crew, missing, sizeof missing, err))
        return false;
    for (int i = 0; i < LOCAL_OPS; i++)
        any |= missing[i];
    if (!any)
        return true;
    if (!rig_new(&m.rig, crew->rank_count, 1, 1, crew->rank_count, LINEAR_SIZES * LOCAL_OPS + 2,
                 LINEAR_SIZES * LOCAL_OPS + 1, err))
        return false;
    add_sizes(m.rig, missing, crew_cache_bytes(crew));
    bool ok = crew_run(crew, m.rig->program, NULL, WARM_UP_STEPS + STEPS, on_linear, &m, err);
    rig_free(m.rig);
    return ok && (!m.error.kind || fail_kind(err, m.error.kind, "%s", m.error.message));
}
