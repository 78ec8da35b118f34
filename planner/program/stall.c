#include "planner/program/stall.h"
#include <stdio.h>

struct node {
    int stage, index;
};
struct stall_search {
    const struct program *program;
    const struct pairing *pairing;
    bool (*finished)(const void *self, int stage, int index);
    const void *self;
};

/* Finds what the instruction waits for inside its stage: its lane, then its waits. False: it is ready. */
static bool blocker_inside(const struct stall_search *s, struct node at, struct node *next)
{
    const struct stage_program *list = &s->program->stages[at.stage];
    const struct instr *instr = &list->instrs[at.index];
    for (int i = 0; i < at.index; i++)
        if (list->instrs[i].lane == instr->lane && !s->finished(s->self, at.stage, i)) {
            *next = (struct node){ at.stage, i };
            return true;
        }
    for (int k = 0; k < instr->wait_count; k++) {
        int wait = list->waits[instr->wait_first + k];
        if (!s->finished(s->self, at.stage, wait)) {
            *next = (struct node){ at.stage, wait };
            return true;
        }
    }
    return false;
}

static bool blocker_outside(const struct stall_search *s, struct node at, struct node *next)
{
    const struct instr *instr = &s->program->stages[at.stage].instrs[at.index];
    struct node inside;
    if (instr_is_message(instr)) {
        *next = (struct node){ instr->peer_stage, s->pairing->partner[at.stage][at.index] };
        return next->index >= 0 && !s->finished(s->self, next->stage, next->index);
    }
    if (instr->op == OP_NORM_REDUCE)
        for (int stage = 0; stage < s->program->stage_count; stage++) {
            struct node other = { stage, s->pairing->norm[stage][s->pairing->partner[at.stage][at.index]] };
            if (blocker_inside(s, other, &inside)) {
                *next = other;
                return true;
            }
        }
    return false;
}

static struct node step(const struct stall_search *s, struct node at)
{
    struct node next = at;
    return blocker_inside(s, at, &next) || blocker_outside(s, at, &next) ? next : at;
}

static bool same(struct node a, struct node b)
{
    return a.stage == b.stage && a.index == b.index;
}

enum { STALL_SHOWN = 8 };

bool stall_fail(const struct program *program, const struct pairing *pairing,
                bool (*finished)(const void *self, int stage, int index), const void *self, struct error *err)
{
    const struct stall_search s = { program, pairing, finished, self };
    struct node start = { -1, -1 };
    for (int stage = 0; start.stage < 0 && stage < program->stage_count; stage++)
        for (int i = 0; start.stage < 0 && i < program->stages[stage].instr_count; i++)
            if (!finished(self, stage, i))
                start = (struct node){ stage, i };
    if (start.stage < 0)
        return fail_kind(err, ERROR_BUG, "program: reported as stalled, but everything finished");
    /* Floyd's two runners find the circle: each unfinished instruction has a blocker, so the walk must come around. */
    struct node slow = step(&s, start), fast = step(&s, slow);
    while (!same(slow, fast)) {
        slow = step(&s, slow);
        fast = step(&s, step(&s, fast));
    }
    start = slow;
    char message[ERROR_MESSAGE_BYTES - 64], name[INSTR_NAME_BYTES];
    size_t at = 0;
    struct node node = start;
    for (int shown = 0; shown < STALL_SHOWN; shown++) {
        at += (size_t)snprintf(message + at, sizeof message - at, "%s%s", shown ? " waits for " : "",
                               instr_name(name, program, node.stage, node.index));
        node = step(&s, node);
        if (same(node, start))
            break;
    }
    return fail_kind(err, ERROR_BUG, "the program stalls: %s waits for %s", message,
                     same(node, start) ? instr_name(name, program, node.stage, node.index) : "others");
}
