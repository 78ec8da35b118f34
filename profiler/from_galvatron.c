#include "planner/cost/cost.h"
#include "planner/facts/profile.h"
#include "planner/lower/lower.h"
#include "planner/lower/lower_parts.h"
#include "planner/space/space.h"
#include "profiler/from_galvatron.h"
#include "profiler/harvest.h"
#include "profiler/shorten.h"
#include <math.h>
#include <string.h>

/* ---- what our formulas say of one step on one device ---- */

struct step { /* borrowed from one another */
    struct graph *graph;
    struct plan *plan;
    struct program *program;
};

static void step_close(struct step *step)
{
    program_free(step->program);
    plan_free(step->plan);
    graph_free(step->graph);
}

static struct plan *whole_plan(const struct graph *graph)
{
    struct plan *plan = plan_new(1, graph->layer_count);
    if (!plan)
        return NULL;
    plan->batch = graph->batch;
    plan->sequence = graph->sequence;
    plan->vocab_multiple = space_vocab_multiple(graph, 1);
    plan->dtype = DTYPE_BF16;
    plan->micro_batch_count = plan->atom_count = plan->rank_count = 1;
    plan->stages[0].layer_count = graph->layer_count;
    return plan;
}

/* All samples in one micro-batch. */
static bool step_open(struct step *out, const struct model *model, int64_t samples, int64_t sequence, struct error *err)
{
    struct graph vocabulary = { .vocab_size = model->vocab_size };
    *out = (struct step){ 0 };
    if (!graph_build(&out->graph, model, samples, sequence, space_vocab_multiple(&vocabulary, 1), err))
        return false;
    out->plan = whole_plan(out->graph);
    if (out->plan && plan_check(out->plan, out->graph, err) && lower_program(&out->program, out->graph, out->plan, err))
        return true;
    step_close(out);
    return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for a step of %lld sequences", (long long)samples);
}

/* ---- computations ---- */

enum part { PART_LAYER, PART_OTHER, PART_COUNT };
struct work {
    char name[WORK_NAME_BYTES];
    enum part part; /* of the first that bears the name: layers come before what is left to the others */
    bool backward;
    double ns; /* by our formulas */
    int64_t fitted_ns;
};
struct spread {
    const struct model *model;
    const struct facts *facts; /* without a profile */
    struct arena *arena;
    struct error *err;
    struct work *works;
    int work_count;
    double sum_ns[PART_COUNT][2];    /* of all calls, by whether backward, of works that are the part's own */
    double shared_ns[PART_COUNT][2]; /* of calls of the others whose works the layers have too, as fitted there */
};

/* Which folded layer: shortened models have each once. */
static bool is_repeated(const struct model *model, int layer)
{
    for (int b = 0; b < model->block_count; b++) {
        const struct model_block *block = &model->blocks[b];
        if (layer >= block->first_layer && layer < block->first_layer + block->layer_count)
            return block->count > 1;
    }
    return false;
}

static struct work *find_work(struct spread *s, const char *name)
{
    for (int i = 0; i < s->work_count; i++)
        if (strcmp(s->works[i].name, name) == 0)
            return &s->works[i];
    return NULL;
}

/* The calls of one part: new works get its number, known ones are counted. */
static void add_part(struct spread *s, const struct program *program, enum part part)
{
    const struct stage_program *stage = &program->stages[0];
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        char name[WORK_NAME_BYTES];
        if (instr->op != OP_COMPUTE ||
            (part == PART_LAYER) != is_repeated(s->model, program->graph->segments[instr->segment].layer))
            continue;
        harvest_work_name(program, 0, instr, name);
        struct work *work = find_work(s, name);
        bool backward = instr->phase != PHASE_FORWARD;
        if (!work) {
            work = &s->works[s->work_count++];
            *work = (struct work){ .part = part,
                                   .backward = backward,
                                   .ns = (double)cost_instr_ns(s->facts, program, 0, instr) };
            memcpy(work->name, name, sizeof name);
        }
        if (work->part == part)
            s->sum_ns[part][backward] += work->ns;
        else
            s->shared_ns[part][backward] += (double)work->fitted_ns;
    }
}

/* All works of the part stretched alike, so that forward and backward take these times. */
static bool stretch(struct spread *s, enum part part, double forward_ns)
{
    for (int b = 0; b < 2; b++) {
        double wanted_ns = forward_ns * (b ? 2 : 1) - s->shared_ns[part][b], known_ns = s->sum_ns[part][b];
        if (!(known_ns > 0 && wanted_ns > 0))
            return fail(s->err, "galvatron: the measured %s leave no time for the model's %s",
                        part == PART_LAYER ? "layers" : "embedding and head", b ? "backward" : "forward");
        for (int i = 0; i < s->work_count; i++)
            if (s->works[i].part == part && s->works[i].backward == b)
                s->works[i].fitted_ns = llround(s->works[i].ns * wanted_ns / known_ns);
    }
    return true;
}

/* A measured time where there is one at this size, else the fitted line's. */
static double series_ns(const struct galvatron_series *s, double size)
{
    double ms = s->ms_per_unit * size + s->fixed_ms;
    for (int i = 0; i < s->count; i++)
        if (s->size[i] >= size && s->size[i] <= size)
            ms = s->ms[i];
    return ms * 1e6;
}

static bool keep_works(struct spread *s, struct profile *out)
{
    int loaded = cost_loaded(s->facts->cluster, 0);
    struct compute_entry *all = arena_alloc(&out->arena, (size_t)(out->compute_count + s->work_count), sizeof *all);
    if (!all)
        return fail_kind(s->err, ERROR_ENVIRONMENT, "out of memory for a profile");
    if (out->compute_count)
        memcpy(all, out->compute, (size_t)out->compute_count * sizeof *all);
    for (int i = 0; i < s->work_count; i++) {
        struct measurement m = { s->works[i].fitted_ns, 0, 1, ORIGIN_FITTED };
        const char *name = arena_strdup(&out->arena, s->works[i].name);
        if (!name)
            return fail_kind(s->err, ERROR_ENVIRONMENT, "out of memory for a profile");
        all[out->compute_count + i] = (struct compute_entry){ name, loaded, m };
    }
    out->compute = all;
    out->compute_count += s->work_count;
    return true;
}

/* One number of samples. */
static bool spread_step(struct spread *s, const struct model *shortened, const struct galvatron_profile *peer,
                        double samples, struct profile *out)
{
    struct step step;
    if (!step_open(&step, shortened, (int64_t)samples, peer->sequence, s->err))
        return false;
    s->works = arena_alloc(s->arena, (size_t)step.program->stages[0].instr_count, sizeof *s->works);
    s->work_count = 0;
    memset(s->sum_ns, 0, sizeof s->sum_ns);
    memset(s->shared_ns, 0, sizeof s->shared_ns);
    bool ok = s->works || fail_kind(s->err, ERROR_ENVIRONMENT, "out of memory for a profile");
    if (ok) {
        add_part(s, step.program, PART_LAYER);
        ok = stretch(s, PART_LAYER, series_ns(&peer->layer, samples));
    }
    if (ok) {
        add_part(s, step.program, PART_OTHER);
        ok = stretch(s, PART_OTHER, series_ns(&peer->other, samples)) && keep_works(s, out);
    }
    step_close(&step);
    return ok;
}

static bool spread_computations(struct profile *out, const struct galvatron_profile *peer, const struct model *model,
                                const struct cluster *cluster, struct error *err)
{
    struct facts facts = { .cluster = cluster };
    struct arena arena = { 0 };
    struct model shortened;
    struct spread s = { .model = model, .facts = &facts, .arena = &arena, .err = err };
    if (!model_shorten(&shortened, model, 0, err))
        return false;
    bool ok = model_unfolded_count(&shortened) == model->layer_count ||
              fail(err, "galvatron: model %s: expected no frozen layers, found some", model->name);
    for (int i = 0; ok && i < peer->layer.count; i++)
        ok = spread_step(&s, &shortened, peer, peer->layer.size[i], out);
    arena_free(&shortened.arena);
    arena_free(&arena);
    return ok;
}

/* ---- collectives ---- */

enum { CURVES = 4 * GALVATRON_DEGREES * GALVATRON_DEGREES };
static const double mb = 0x1p20;

/* The same curve for every number of groups side by side: its links are a switch's. share: of the series' times. */
static bool add_curve(struct profile *out, const char *op, int ranks, int node_ranks, const struct galvatron_series *s,
                      double share, enum origin origin, struct error *err)
{
    for (int concurrent = 1; concurrent * ranks <= node_ranks; concurrent *= 2) {
        struct collective_curve *curve = &out->curves[out->curve_count++];
        struct collective_point *points = arena_alloc(&out->arena, (size_t)s->count, sizeof *points);
        if (!points)
            return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for a profile");
        for (int i = 0; i < s->count; i++)
            points[i] = (struct collective_point){ (int64_t)(s->size[i] * mb),
                                                   { llround(s->ms[i] * share * 1e6), 0, 1, origin } };
        *curve = (struct collective_curve){ .op = op,
                                            .ranks = ranks,
                                            .concurrent = concurrent,
                                            .point_count = s->count,
                                            .points = points,
                                            .latency_ns = fmax(0, s->fixed_ms) * share * 1e6,
                                            .bytes_per_s = mb / (s->ms_per_unit * share) * 1e3 };
    }
    return true;
}

/* A curve that is a rate: what is known at two sizes is known at all. */
static struct galvatron_series rate_series(double gb_per_s, double wire_share)
{
    double ms_per_mb = wire_share / gb_per_s;
    return (struct galvatron_series){
        .count = 2, .size = { 1, 1024 }, .ms = { ms_per_mb, 1024 * ms_per_mb }, .ms_per_unit = ms_per_mb
    };
}

static bool add_degree(struct profile *out, const struct galvatron_profile *peer, int degree, int node_ranks,
                       struct error *err)
{
    int ranks = 1 << degree;
    double gb_per_s = peer->gb_per_s[1][degree];
    struct galvatron_series reduce = peer->allreduce[degree];
    enum origin origin = reduce.count ? ORIGIN_MEASURED : ORIGIN_FITTED;
    if (!reduce.count && gb_per_s > 0)
        reduce = rate_series(gb_per_s, 2.0 * (ranks - 1) / ranks);
    if (reduce.count &&
        !(add_curve(out, op_info[OP_ALL_REDUCE].name, ranks, node_ranks, &reduce, 1, origin, err) &&
          add_curve(out, op_info[OP_ALL_GATHER].name, ranks, node_ranks, &reduce, .5, ORIGIN_FITTED, err) &&
          add_curve(out, op_info[OP_REDUCE_SCATTER].name, ranks, node_ranks, &reduce, .5, ORIGIN_FITTED, err)))
        return false;
    const struct galvatron_series *all = &peer->all_to_all[degree];
    return !all->count || add_curve(out, op_info[OP_ALL_TO_ALL].name, ranks, node_ranks, all, 1, ORIGIN_MEASURED, err);
}

static bool add_collectives(struct profile *out, const struct galvatron_profile *peer, const struct cluster *cluster,
                            struct error *err)
{
    int node_ranks = cluster->types[0].levels[0].fanout;
    out->curves = arena_alloc(&out->arena, CURVES, sizeof *out->curves);
    if (!out->curves)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for a profile");
    for (int d = 1; d < GALVATRON_DEGREES && 1 << d <= node_ranks; d++)
        if (!add_degree(out, peer, d, node_ranks, err))
            return false;
    struct galvatron_series send = rate_series(peer->p2p_gb_per_s[1], 1);
    return peer->p2p_gb_per_s[1] <= 0 || add_curve(out, op_info[OP_SEND].name, 2, 2, &send, 1, ORIGIN_FITTED, err);
}

bool profile_from_galvatron(struct profile **out, const struct galvatron_profile *peer, const struct model *model,
                            const struct cluster *cluster, struct error *err)
{
    if (!(cluster->types[0].device.matmul_flops_per_s[DTYPE_BF16] > 0))
        return fail(err, "galvatron: expected a device that computes in bf16, found %s", cluster->types[0].device.name);
    struct profile *profile = profile_new();
    if (!profile)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory for a profile");
    profile->machine = "measured by Galvatron";
    profile->backend = "cuda";
    profile->transport = "nccl";
    profile->dtype = DTYPE_BF16;
    profile->compute_under_communication = profile->communication_under_compute = peer->overlap;
    profile->factors_origin = ORIGIN_MEASURED;
    profile->memory_outside_arena_bytes = (int64_t)1 << 30;
    if (spread_computations(profile, peer, model, cluster, err) && add_collectives(profile, peer, cluster, err) &&
        profile_finish(profile, err)) {
        *out = profile;
        return true;
    }
    profile_free(profile);
    return false;
}
