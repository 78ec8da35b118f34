/* The simulation with what the cost functions say. */
#include "base/arena.h"
#include "planner/program/pairing.h"
#include "planner/sim/simulate.h"
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct work {
    int64_t ns;
    struct link_uses *uses; /* NULL: none */
};
/* A program and what its instructions cost, which do the same work again and again. */
struct priced {
    const struct facts *facts;
    struct arena arena;
    struct pairing pairing;
    int **kind;          /* by stage and instruction: into works[stage] */
    struct work **works; /* by stage */
};

/* What decides which links a transfer of a stage uses, and these, which are found once for all that agree in it. */
struct link_kind {
    int64_t by[4];
    struct link_uses *uses; /* NULL: none */
};
struct link_kinds {
    struct link_kind *list;
    int count, capacity;
};

static bool price_links(struct priced *priced, const struct program *program, int stage, const struct instr *instr,
                        struct link_kinds *kinds, struct link_uses **out)
{
    const int64_t by[] = { instr->op, instr->atoms, instr->peer_stage,
                           cost_dispatch_choices(priced->facts, program, instr) };
    if (instr->op != OP_SEND && !op_info[instr->op].collective)
        return true;
    for (int i = 0; i < kinds->count; i++)
        if (!memcmp(kinds->list[i].by, by, sizeof by)) {
            *out = kinds->list[i].uses;
            return true;
        }
    struct link_uses found = cost_links(priced->facts, program, stage, instr);
    size_t bytes = offsetof(struct link_uses, use) + (size_t)found.count * sizeof found.use[0]; /* few of the most */
    kinds->list = arena_more(&priced->arena, kinds->list, kinds->count, &kinds->capacity, sizeof *kinds->list);
    if (!kinds->list || (found.count > 0 && !(*out = arena_alloc(&priced->arena, 1, bytes))))
        return false;
    if (found.count > 0)
        memcpy(*out, &found, bytes);
    struct link_kind *own = &kinds->list[kinds->count++];
    memcpy(own->by, by, sizeof by);
    own->uses = *out;
    return true;
}

static bool price_stage(struct priced *priced, const struct program *program, int stage)
{
    const struct stage_program *list = &program->stages[stage];
    size_t count = (size_t)list->instr_count;
    int *like = calloc(count + 1, sizeof *like), *kind = arena_alloc(&priced->arena, count, sizeof *kind);
    int64_t *ns = calloc(count + 1, sizeof *ns);
    bool good = like && kind && ns && cost_stage_ns(ns, like, priced->facts, program, stage);
    struct link_kinds links = { 0 };
    int kinds = 0; /* instructions that are the first of their kind are numbered */
    for (int i = 0; good && i < list->instr_count; i++)
        kind[i] = like[i] == i ? kinds++ : kind[like[i]];
    struct work *works = arena_alloc(&priced->arena, (size_t)kinds, sizeof *works);
    good = good && works;
    for (int i = 0; good && i < list->instr_count; i++)
        if (like[i] == i) {
            works[kind[i]].ns = ns[i];
            good = price_links(priced, program, stage, &list->instrs[i], &links, &works[kind[i]].uses);
        }
    free(like);
    free(ns);
    priced->kind[stage] = kind;
    priced->works[stage] = works;
    return good;
}

static bool price_all(struct priced *priced, const struct program *program, struct error *err)
{
    priced->kind = arena_alloc(&priced->arena, (size_t)program->stage_count, sizeof *priced->kind);
    priced->works = arena_alloc(&priced->arena, (size_t)program->stage_count, sizeof *priced->works);
    bool good = priced->kind && priced->works;
    for (int s = 0; good && s < program->stage_count; s++)
        good = price_stage(priced, program, s);
    return good || fail_memory(err);
}

static const struct work *work_of(const struct priced *priced, const struct program *program, int stage,
                                  const struct instr *instr)
{
    return &priced->works[stage][priced->kind[stage][instr - program->stages[stage].instrs]];
}

static int64_t cost_duration(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    return work_of(self, program, stage, instr)->ns;
}

static const struct link_uses *cost_uses(const void *self, const struct program *program, int stage,
                                         const struct instr *instr)
{
    return work_of(self, program, stage, instr)->uses;
}

static struct host_issue issue_of(const void *self, const struct program *program, int stage, const struct instr *instr)
{
    return cost_issue(((const struct priced *)self)->facts, program, stage, instr);
}

static void cost_slow_down(const void *self, const struct program *program, int stage, double *compute,
                           double *communication)
{
    const struct facts *facts = ((const struct priced *)self)->facts;
    facts_slow_down(facts, cost_stage_types(facts, program->plan, stage), compute, communication);
}

bool durations_open(struct durations *out, const struct facts *facts, const struct program *program, struct error *err)
{
    struct priced *priced = calloc(1, sizeof *priced);
    if (!priced)
        return fail_memory(err);
    priced->facts = facts;
    *out = (struct durations){ .ns = cost_duration,
                               .self = priced,
                               .pairing = &priced->pairing,
                               .links = cost_uses,
                               .link_count = cost_link_count(facts->cluster, program->plan->rank_count),
                               .slow_down = cost_slow_down,
                               .issue = facts->framework ? issue_of : NULL };
    if (cost_check_host(facts->cluster, program->plan, err) && price_all(priced, program, err) &&
        pairing_build(&priced->pairing, program, err))
        return true;
    durations_close(out);
    return false;
}

void durations_close(struct durations *durations)
{
    struct priced *priced = (struct priced *)durations->self;
    arena_free(&priced->arena);
    pairing_free(&priced->pairing);
    free(priced);
}

bool simulate(struct timeline **out, const struct facts *facts, const struct program *program, struct error *err)
{
    struct durations durations;
    if (!durations_open(&durations, facts, program, err))
        return false;
    bool good = simulate_with(out, &durations, program, err);
    durations_close(&durations);
    return good;
}
