/* In a measured timeline a transfer's span begins when its lane took it up, so that waiting for a partner looks like
 * moving bytes. Here each begins when the last of its partners came: what is left is the transfer, as the simulator has
 * it. */
#include "executor/settle.h"
#include "planner/program/geometry.h"
#include "planner/program/pairing.h"
#include "base/num.h"
#include <stdlib.h>

struct settle {
    const struct program *program;
    struct timeline *timeline;
    struct pairing pairing;
    int64_t **began; /* [rank][instr]: as measured, -1 where there is no span */
};

static int64_t began(const struct settle *s, int rank, int instr)
{
    return s->began[rank][instr];
}

static int64_t group_began(const struct settle *s, const struct rank_timeline *rank, const struct instr *instr,
                           int index)
{
    const struct plan *plan = s->program->plan;
    int first = plan->stages[rank->stage].first_rank, place, count = plan_stage_rank_count(plan, rank->stage);
    int64_t latest = began(s, rank->rank, index);
    int *members = malloc((size_t)count * sizeof *members);
    if (!members)
        return latest;
    count = geometry_group_members(plan, rank->stage, instr->atoms, rank->rank - first, members, &place);
    for (int i = 0; i < count; i++)
        latest = max_i64(latest, began(s, first + members[i], index));
    free(members);
    return latest;
}

static int64_t peer_began(const struct settle *s, const struct rank_timeline *rank, const struct instr *instr,
                          int index)
{
    const struct plan *plan = s->program->plan;
    const struct plan_stage *peer = &plan->stages[instr->peer_stage];
    int64_t latest = began(s, rank->rank, index);
    int own = rank->rank - plan->stages[rank->stage].first_rank, partner = s->pairing.partner[rank->stage][index];
    for (int p = 0; p < plan_stage_rank_count(plan, instr->peer_stage); p++)
        for (int k = 0; k < instr->pair_count; k++) {
            struct block block;
            bool send = instr->op == OP_SEND;
            const struct pair *pair = &s->program->pairs[instr->pair_first + k];
            if (geometry_transfer_block(s->program, pair, send ? own : p, send ? p : own, &block))
                latest = max_i64(latest, began(s, peer->first_rank + p, partner));
        }
    return latest;
}

static void settle_rank(const struct settle *s, struct rank_timeline *rank)
{
    for (int i = 0; i < rank->span_count; i++) {
        struct span *span = &rank->spans[i];
        const struct instr *instr = &s->program->stages[rank->stage].instrs[i];
        int64_t start = span->start_ns;
        if (instr->op == OP_NORM_REDUCE) {
            int which = s->pairing.partner[rank->stage][i];
            start = began(s, rank->rank, i);
            for (int r = 0; r < s->timeline->rank_count; r++) {
                const struct rank_timeline *other = &s->timeline->ranks[r];
                start = max_i64(start, began(s, other->rank, s->pairing.norm[other->stage][which]));
            }
        } else if (instr->op == OP_SEND || instr->op == OP_RECEIVE) {
            start = peer_began(s, rank, instr, i);
        } else if (op_info[instr->op].collective) {
            start = group_began(s, rank, instr, i);
        }
        span->start_ns = min_i64(start, span->finish_ns);
    }
}

static bool note_begins(struct settle *s)
{
    struct timeline *t = s->timeline;
    s->began = arena_alloc(&s->pairing.arena, (size_t)t->rank_count, sizeof *s->began);
    for (int r = 0; s->began && r < t->rank_count; r++) {
        int count = s->program->stages[t->ranks[r].stage].instr_count;
        int64_t *row = s->began[t->ranks[r].rank] = arena_alloc(&s->pairing.arena, (size_t)count, sizeof *row);
        if (!row)
            return false;
        for (int i = 0; i < count; i++)
            row[i] = -1;
        for (int i = 0; i < t->ranks[r].span_count; i++)
            row[i] = t->ranks[r].spans[i].start_ns;
    }
    return s->began != NULL;
}

bool timeline_settle(const struct program *program, struct timeline *timeline, struct error *err)
{
    struct settle s = { .program = program, .timeline = timeline };
    if (timeline->rank_count != program->plan->rank_count)
        return fail_kind(err, ERROR_BUG, "timeline_settle: %d of %d ranks", timeline->rank_count,
                         program->plan->rank_count);
    if (!pairing_build(&s.pairing, program, err))
        return false;
    bool ok = note_begins(&s) || fail_memory(err);
    for (int r = 0; ok && r < timeline->rank_count; r++)
        settle_rank(&s, &timeline->ranks[r]);
    pairing_free(&s.pairing);
    return ok;
}
