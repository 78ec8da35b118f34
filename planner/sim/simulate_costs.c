/* The simulation with what the cost functions say. */
#include "base/arena.h"
#include "planner/sim/simulate.h"
#include <stdlib.h>

/* A program and what its instructions cost. */
struct priced {
    const struct facts *facts;
    struct arena arena;
    int64_t **ns;             /* by stage and instruction */
    struct link_uses ***uses; /* likewise, borrowed from the first instruction that does the same work; NULL none */
};

static bool price_links(struct priced *priced, const struct program *program, int stage, const int *like)
{
    const struct stage_program *list = &program->stages[stage];
    struct link_uses **uses = priced->uses[stage];
    for (int i = 0; i < list->instr_count; i++) {
        if (like[i] != i) {
            uses[i] = uses[like[i]];
            continue;
        }
        struct link_uses found = cost_links(priced->facts, program, stage, &list->instrs[i]);
        if (found.count == 0)
            continue;
        if (!(uses[i] = arena_alloc(&priced->arena, 1, sizeof **uses)))
            return false;
        *uses[i] = found;
    }
    return true;
}

static bool price_stage(struct priced *priced, const struct program *program, int stage)
{
    size_t count = (size_t)program->stages[stage].instr_count + 1;
    int *like = calloc(count, sizeof *like);
    priced->ns[stage] = arena_alloc(&priced->arena, count, sizeof **priced->ns);
    priced->uses[stage] = arena_alloc(&priced->arena, count, sizeof **priced->uses);
    bool good = like && priced->ns[stage] && priced->uses[stage] &&
                cost_stage_ns(priced->ns[stage], like, priced->facts, program, stage) &&
                price_links(priced, program, stage, like);
    free(like);
    return good;
}

static bool price_all(struct priced *priced, const struct program *program, struct error *err)
{
    priced->ns = arena_alloc(&priced->arena, (size_t)program->stage_count, sizeof *priced->ns);
    priced->uses = arena_alloc(&priced->arena, (size_t)program->stage_count, sizeof *priced->uses);
    bool good = priced->ns && priced->uses;
    for (int s = 0; good && s < program->stage_count; s++)
        good = price_stage(priced, program, s);
    return good || fail_kind(err, ERROR_ENVIRONMENT, "simulate: out of memory");
}

static int64_t cost_duration(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    const struct priced *priced = self;
    return priced->ns[stage][instr - program->stages[stage].instrs];
}

static const struct link_uses *cost_uses(const void *self, const struct program *program, int stage,
                                         const struct instr *instr)
{
    const struct priced *priced = self;
    return priced->uses[stage][instr - program->stages[stage].instrs];
}

/* Of the types that the stage lives on, the slowest decides. */
static void cost_slow_down(const void *self, const struct program *program, int stage, double *compute,
                           double *communication)
{
    const struct facts *facts = ((const struct priced *)self)->facts;
    unsigned types = cost_stage_types(facts, program->plan, stage);
    *compute = *communication = 1;
    for (int type = 0; types >> type; type++) {
        const struct profile *profile = types >> type & 1 ? facts_profile(facts, type) : NULL;
        if (profile && profile->compute_under_communication > *compute)
            *compute = profile->compute_under_communication;
        if (profile && profile->communication_under_compute > *communication)
            *communication = profile->communication_under_compute;
    }
}

bool simulate(struct timeline **out, const struct facts *facts, const struct program *program, struct error *err)
{
    struct priced priced = { .facts = facts };
    struct durations durations = { .ns = cost_duration,
                                   .self = &priced,
                                   .links = cost_uses,
                                   .link_count = cost_link_count(facts->cluster, program->plan->rank_count),
                                   .slow_down = cost_slow_down };
    bool good = cost_check_host(facts->cluster, program->plan, err) && price_all(&priced, program, err) &&
                simulate_with(out, &durations, program, err);
    arena_free(&priced.arena);
    return good;
}
