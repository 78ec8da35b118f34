#include "executor/gpu/channels.h"
#include "planner/program/geometry.h"
#include <stdlib.h>
#include <string.h>

/* ---- members ---- */
static int ranks_of_stage(const struct plan *plan, int stage, int *members)
{
    int count = plan_stage_rank_count(plan, stage);
    for (int r = 0; r < count; r++)
        members[r] = plan->stages[stage].first_rank + r;
    return count;
}

/* The members of the instruction's channel as the local rank sees it; members has room for all ranks. */
static struct channel describe(const struct program *program, int stage, int local_rank, const struct instr *instr,
                               int *members)
{
    const struct plan *plan = program->plan;
    struct channel c = { .purpose = (int)instr->lane, .members = members };
    if (instr->op == OP_NORM_REDUCE) {
        c.purpose = CHANNEL_NORM, c.count = plan->rank_count;
        for (int r = 0; r < plan->rank_count; r++)
            members[r] = r;
    } else if (op_info[instr->op].collective) {
        int place;
        c.count = geometry_group_members(plan, stage, instr->atoms, local_rank, members, &place);
        for (int i = 0; i < c.count; i++)
            members[i] += plan->stages[stage].first_rank;
    } else if (instr->op == OP_SEND || instr->op == OP_RECEIVE) {
        int from = instr->op == OP_SEND ? stage : instr->peer_stage,
            to = instr->op == OP_SEND ? instr->peer_stage : stage;
        c.purpose = CHANNEL_MESSAGES;
        c.sender_count = ranks_of_stage(plan, from, members);
        c.count = c.sender_count + ranks_of_stage(plan, to, members + c.sender_count);
    }
    return c;
}

static int find(const struct channels *channels, const struct channel *wanted)
{
    for (int i = 0; i < channels->count; i++) {
        const struct channel *c = &channels->list[i];
        if (c->purpose == wanted->purpose && c->count == wanted->count && c->sender_count == wanted->sender_count &&
            memcmp(c->members, wanted->members, (size_t)c->count * sizeof *c->members) == 0)
            return i;
    }
    return -1;
}

int channels_find(const struct channels *channels, const struct program *program, int rank, const struct instr *instr)
{
    int stage = plan_stage_of_rank(program->plan, rank), found = -1;
    int *members = calloc((size_t)program->plan->rank_count, sizeof *members);
    if (members) {
        struct channel c = describe(program, stage, rank - program->plan->stages[stage].first_rank, instr, members);
        found = find(channels, &c);
    }
    free(members);
    return found;
}

int channel_place(const struct channel *channel, int rank)
{
    for (int i = 0; i < channel->count; i++)
        if (channel->members[i] == rank)
            return i;
    return -1;
}

/* ---- the list ---- */
static bool add(struct channels *channels, const struct channel *c)
{
    if (c->count < 2 || find(channels, c) >= 0)
        return true;
    if (channels->count == channels->capacity) {
        int capacity = channels->capacity ? 2 * channels->capacity : 16;
        struct channel *list = realloc(channels->list, (size_t)capacity * sizeof *list);
        if (!list)
            return false;
        channels->list = list, channels->capacity = capacity;
    }
    struct channel own = *c;
    if (!(own.members = malloc((size_t)c->count * sizeof *own.members)))
        return false;
    memcpy(own.members, c->members, (size_t)c->count * sizeof *own.members);
    channels->list[channels->count++] = own;
    return true;
}

/* Each kind of transfer of a stage once, for all its ranks. */
static bool add_stage(struct channels *channels, const struct program *program, int stage, int *members)
{
    bool group_seen[LANE_COUNT][1 << MAX_ATOMS] = { { false } };
    const struct stage_program *list = &program->stages[stage];
    bool ok = true;
    for (int i = 0; ok && i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        bool group = op_info[instr->op].collective && instr->op != OP_NORM_REDUCE;
        if (group && group_seen[instr->lane][instr->atoms])
            continue;
        if (group)
            group_seen[instr->lane][instr->atoms] = true;
        for (int r = 0; ok && r < (group ? plan_stage_rank_count(program->plan, stage) : 1); r++) {
            struct channel c = describe(program, stage, r, instr, members);
            ok = add(channels, &c);
        }
    }
    return ok;
}

/* The first round after those of the members' earlier channels. */
static bool set_rounds(struct channels *channels, int rank_count)
{
    int *free_from = calloc((size_t)rank_count, sizeof *free_from);
    if (!free_from)
        return false;
    for (int i = 0; i < channels->count; i++) {
        struct channel *c = &channels->list[i];
        for (int m = 0; m < c->count; m++)
            if (free_from[c->members[m]] > c->round)
                c->round = free_from[c->members[m]];
        for (int m = 0; m < c->count; m++)
            free_from[c->members[m]] = c->round + 1;
        if (c->round + 1 > channels->round_count)
            channels->round_count = c->round + 1;
    }
    free(free_from);
    return true;
}

bool channels_of(struct channels *out, const struct program *program, struct error *err)
{
    struct channels channels = { 0 };
    int *members = calloc((size_t)program->plan->rank_count, sizeof *members);
    bool ok = members != NULL;
    for (int s = 0; ok && s < program->stage_count; s++)
        ok = add_stage(&channels, program, s, members);
    ok = ok && set_rounds(&channels, program->plan->rank_count);
    free(members);
    if (!ok) {
        channels_free(&channels);
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for the communicators of %d ranks",
                         program->plan->rank_count);
    }
    *out = channels;
    return true;
}

void channels_free(struct channels *channels)
{
    for (int i = 0; i < channels->count; i++)
        free(channels->list[i].members);
    free(channels->list);
    *channels = (struct channels){ 0 };
}
