/* A stage's zone is the longest part of its list in which every instruction has a successor: the same work for
 * micro-batches one period later, `length` places on and `ns` later. All stages are cut at one moment that lies in all
 * zones. The longer step is then
 *
 *     what is before the cut | the period before the cut, again, `ns` later | the rest, `ns` later
 *
 * and it remains to show that everything in it waits for what it waited for, or for what is over anyway. */
#include "planner/sim/period.h"
#include "base/num.h"
#include "planner/layout/layout.h"
#include "planner/layout/lives.h"
#include "planner/program/pairing.h"
#include <stdlib.h>
#include <string.h>

enum { SEVERAL = -1 };

struct zone {
    int low, high; /* [low, high) have successors */
    int length;    /* instructions of a period */
    int cut;       /* of [cut, cut + length) and their successors the first end before, the second behind the cut */
};

struct search {
    const struct program *program;
    const struct timeline *timeline;
    const struct pairing *pairing;
    struct zone *zones; /* (stages) */
    int micro_batches;
    int64_t ns;
};

/* Waits for what is near are at the same distance; the others are looked at where the cut is known. */
static bool succeeds(const struct search *s, int stage, int index, int length)
{
    const struct stage_program *list = &s->program->stages[stage];
    const struct instr *a = &list->instrs[index], *b = &list->instrs[index + length];
    const struct span *before = &s->timeline->ranks[stage].spans[index], *after = before + length;
    if (!instr_alike(a, b) || b->micro != (a->micro < 0 ? a->micro : a->micro + s->micro_batches) ||
        a->layer != b->layer || a->wait_count != b->wait_count || after->start_ns - before->start_ns != s->ns ||
        after->finish_ns - before->finish_ns != s->ns)
        return false;
    for (int k = 0; k < a->wait_count; k++)
        if (list->waits[b->wait_first + k] != list->waits[a->wait_first + k] + length)
            return false;
    return true;
}

/* Gives the first instruction of the last micro-batch's forward pass, and its predecessor a period earlier: there the
 * stage that holds most micro-batches is as full as it gets. -1: there are none. */
static int last_forward(const struct stage_program *list, int micro, int from)
{
    for (int i = from; i < list->instr_count; i++)
        if (list->instrs[i].op == OP_COMPUTE && list->instrs[i].micro == micro && instr_is_forward(&list->instrs[i]))
            return i;
    return -1;
}

/* True when a period has its share of all the stage's computation: no pass of its micro-batches stands elsewhere. */
static bool has_its_share(const struct search *s, const struct stage_program *list, int first, int length)
{
    int64_t all = 0, part = 0;
    for (int i = 0; i < list->instr_count; i++) {
        bool counts = list->instrs[i].op == OP_COMPUTE && list->instrs[i].micro >= 0;
        all += counts;
        part += counts && i >= first && i < first + length;
    }
    return part * s->program->plan->micro_batch_count == all * s->micro_batches;
}

static bool find_zone(struct search *s, int stage)
{
    const struct stage_program *list = &s->program->stages[stage];
    const struct span *spans = s->timeline->ranks[stage].spans;
    struct zone *z = &s->zones[stage];
    int micro = -1; /* the last */
    for (int i = 0; i < list->instr_count; i++)
        micro = max_int(micro, list->instrs[i].micro);
    int before = last_forward(list, micro - s->micro_batches, 0),
        after = before < 0 ? -1 : last_forward(list, micro, before);
    if (after < 0)
        return false;
    z->length = after - before;
    if (stage == 0)
        s->ns = spans[after].start_ns - spans[before].start_ns;
    if (s->ns <= 0 || !has_its_share(s, list, before, z->length) || !succeeds(s, stage, before, z->length))
        return false;
    for (z->low = before; z->low > 0 && succeeds(s, stage, z->low - 1, z->length);)
        z->low--;
    for (z->high = before + 1; z->high + z->length < list->instr_count && succeeds(s, stage, z->high, z->length);)
        z->high++;
    return true;
}

/* Gives the first instruction of the compute lane, from `from` on, that starts at the moment or later. */
static int computes_since(const struct search *s, int stage, int from, int64_t moment_ns)
{
    const struct stage_program *list = &s->program->stages[stage];
    while (from < list->instr_count &&
           (list->instrs[from].lane != LANE_COMPUTE || s->timeline->ranks[stage].spans[from].start_ns < moment_ns))
        from++;
    return from;
}

/* Cuts all stages at the moment at which the last one has repeated itself once. */
static bool cut(struct search *s)
{
    int64_t moment_ns = 0;
    for (int stage = 0; stage < s->program->stage_count; stage++) {
        const struct zone *z = &s->zones[stage];
        int first = computes_since(s, stage, z->low + z->length, 0);
        if (first >= z->high)
            return false;
        moment_ns = max_i64(moment_ns, s->timeline->ranks[stage].spans[first].start_ns);
    }
    for (int stage = 0; stage < s->program->stage_count; stage++) {
        struct zone *z = &s->zones[stage];
        z->cut = computes_since(s, stage, z->low, moment_ns);
        if (z->cut + z->length > z->high)
            return false;
    }
    return true;
}

/* True when partners agree: a transfer behind the one cut is behind the other, or repeats with its partner. */
static bool partners_agree(const struct search *s, int stage, int index)
{
    const struct instr *instr = &s->program->stages[stage].instrs[index];
    const struct zone *own = &s->zones[stage], *peer = &s->zones[instr->peer_stage];
    const int *partner = s->pairing->partner[stage];
    if (index < own->cut)
        return true;
    if (partner[index] < peer->low)
        return false;
    return index >= own->cut + own->length || partner[index + own->length] == partner[index] + peer->length;
}

/* True when waits agree. What is waited for in the zone repeats. Anything before it was over when the wait began, and
 * so is what stands at its distance in the longer step: as many periods before the cut as bring it back there. */
static bool waits_agree(const struct search *s, int stage, int index)
{
    const struct stage_program *list = &s->program->stages[stage];
    const struct instr *instr = &list->instrs[index];
    const struct span *spans = s->timeline->ranks[stage].spans;
    const struct zone *z = &s->zones[stage];
    for (int k = 0; k < instr->wait_count; k++) {
        int wait = list->waits[instr->wait_first + k];
        if (wait >= z->low)
            continue;
        int64_t periods = ceil_div(z->cut - wait, z->length);
        if (spans[wait].finish_ns >= spans[index].start_ns ||
            spans[wait + periods * z->length].finish_ns - periods * s->ns > spans[index].start_ns)
            return false;
    }
    return true;
}

static bool rest_follows(const struct search *s, int stage)
{
    const struct stage_program *list = &s->program->stages[stage];
    const struct zone *z = &s->zones[stage];
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        if ((instr_is_message(instr) && !partners_agree(s, stage, i)) ||
            (instr->op == OP_NORM_REDUCE && i < z->cut + z->length) || (i >= z->cut && !waits_agree(s, stage, i)))
            return false;
    }
    return true;
}

/* True when the host issues a period in no more time than it lasts. Where it takes less it is further ahead in the
 * longer step, so nothing from the cut on may wait for it, nor the compute lane while it is free. */
static bool issue_agrees(const struct search *s, int stage)
{
    const struct rank_timeline *rank = &s->timeline->ranks[stage];
    const struct zone *z = &s->zones[stage];
    const struct span *issued = rank->issued;
    int64_t free_ns = 0,
            ahead_ns = issued ? s->ns - issued[z->cut + z->length].finish_ns + issued[z->cut].finish_ns : 0;
    bool agrees = ahead_ns >= 0;
    for (int i = 0; agrees && ahead_ns > 0 && i < rank->span_count; i++) {
        bool computes = s->program->stages[stage].instrs[i].lane == LANE_COMPUTE;
        agrees = i < z->cut || issued[i].finish_ns < (computes ? free_ns + 1 : rank->spans[i].start_ns);
        free_ns = computes ? rank->spans[i].finish_ns : free_ns;
    }
    return agrees;
}

/* Looks for a period of so many micro-batches; out->ns stays 0 where there is none. */
static bool find_period(struct period *out, const struct program *program, const struct pairing *pairing,
                        const struct timeline *timeline, int micro_batches, struct error *err)
{
    struct search s = { .program = program, .timeline = timeline, .pairing = pairing, .micro_batches = micro_batches };
    *out = (struct period){ .micro_batches = micro_batches };
    s.zones = calloc((size_t)program->stage_count + 1, sizeof *s.zones);
    if (!s.zones)
        return fail_memory(err);
    bool found = true;
    for (int stage = 0; found && stage < program->stage_count; stage++)
        found = program_opening_count(&program->stages[stage]) == 0 && find_zone(&s, stage);
    found = found && cut(&s);
    for (int stage = 0; found && stage < program->stage_count; stage++)
        found = rest_follows(&s, stage) && issue_agrees(&s, stage);
    if (found) {
        int last = timeline_last_rank(timeline);
        const struct zone *z = &s.zones[timeline->ranks[last].stage];
        int64_t from_ns = timeline->ranks[last].spans[z->cut].start_ns;
        out->ns = s.ns;
        timeline_breakdown_between(program, timeline, last, from_ns, from_ns + s.ns, out->breakdown_ns);
    }
    free(s.zones);
    return true;
}

/* ---- of whatever layout ---- */
/* A transfer's passage of a link: no earlier than in the one timeline, no later than in the other. */
struct passage {
    int link, slot;
    int64_t first_ns, last_ns;
    bool moves; /* the two differ */
};

/* Keeps the passage that leaves the link last so far, and the last of another slot than that one's. */
struct leaving {
    struct passage last, other;
};

static void leave(struct leaving *l, const struct passage *at)
{
    if (at->last_ns >= l->last.last_ns) {
        l->other = at->slot != l->last.slot ? l->last : l->other;
        l->last = *at;
    } else if (at->slot != l->last.slot && at->last_ns > l->other.last_ns) {
        l->other = *at;
    }
}

static int compare_passages(const void *left, const void *right)
{
    const struct passage *a = left, *b = right;
    if (a->link != b->link)
        return a->link < b->link ? -1 : 1;
    return a->first_ns < b->first_ns ? -1 : a->first_ns > b->first_ns;
}

static const struct link_uses *uses_of(const struct durations *d, const struct program *program, int stage, int index)
{
    return d->links ? d->links(d->self, program, stage, &program->stages[stage].instrs[index]) : NULL;
}

/* Lists the passages over links that several lanes use; passages: NULL, to count them. users: (links) */
static int list_passages(const struct durations *d, const struct program *program, const struct timeline *early,
                         const struct timeline *late, const int *users, struct passage *passages)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct link_uses *uses = uses_of(d, program, s, i);
            for (int k = 0; uses && k < uses->count; k++) {
                int link = uses->use[k].link, slot = s * LANE_COUNT + (int)program->stages[s].instrs[i].lane;
                if (users[link] != SEVERAL)
                    continue;
                const struct span *first = &early->ranks[s].spans[i], *last = &late->ranks[s].spans[i];
                bool moves = first->start_ns != last->start_ns || first->finish_ns != last->finish_ns;
                if (passages)
                    passages[count] = (struct passage){ link, slot, first->start_ns, last->finish_ns, moves };
                count++;
            }
        }
    return count;
}

/* Tells whether in all timelines between the two the same transfers meet on links, at the same moments. */
static bool meet_alike(bool *alike, const struct durations *d, const struct program *program,
                       const struct timeline *early, const struct timeline *late, struct error *err)
{
    struct arena arena = { 0 };
    int *users = arena_alloc(&arena, (size_t)d->link_count, sizeof *users); /* 1 + the slot */
    for (int s = 0; users && s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct link_uses *uses = uses_of(d, program, s, i);
            int slot = s * LANE_COUNT + (int)program->stages[s].instrs[i].lane;
            for (int k = 0; uses && k < uses->count; k++) {
                int *user = &users[uses->use[k].link];
                *user = *user == 0 || *user == slot + 1 ? slot + 1 : SEVERAL;
            }
        }
    int count = users ? list_passages(d, program, early, late, users, NULL) : 0;
    struct passage *passages = arena_alloc(&arena, (size_t)count + 1, sizeof *passages);
    bool good = (users && passages) || fail_memory(err);
    if (good) {
        list_passages(d, program, early, late, users, passages);
        qsort(passages, (size_t)count, sizeof *passages, compare_passages);
    }
    *alike = good;
    static const struct leaving nobody = { { .slot = -1 }, { .slot = -1 } };
    struct leaving any = nobody, moving = nobody;
    for (int i = 0; i < count && *alike; i++) {
        const struct passage *at = &passages[i];
        if (i > 0 && at->link != passages[i - 1].link)
            any = moving = nobody;
        const struct leaving *l = at->moves ? &any : &moving;
        *alike = at->first_ns >= (at->slot == l->last.slot ? l->other.last_ns : l->last.last_ns);
        leave(&any, at);
        if (at->moves)
            leave(&moving, at);
    }
    arena_free(&arena);
    return good;
}

static bool same_spans(const struct timeline *a, const struct timeline *b)
{
    bool same = true;
    for (int r = 0; same && r < a->rank_count; r++)
        same = memcmp(a->ranks[r].spans, b->ranks[r].spans,
                      (size_t)a->ranks[r].span_count * sizeof *a->ranks[r].spans) == 0;
    return same;
}

/* Tells whether the step lasts as long with the waits of any layout. With none of them it is `early`, with all `late`.
 * Where durations stand by themselves each further wait only makes the step longer, so two ends that agree are enough;
 * else nothing may move. */
static bool layouts_agree(bool *agree, const struct durations *d, const struct program *program,
                          const struct timeline *early, const struct timeline *late, struct error *err)
{
    *agree = late->step_ns == early->step_ns;
    if (!*agree || (!early->slows && !early->shares) || same_spans(early, late))
        return true;
    if (!early->slows)
        return meet_alike(agree, d, program, early, late, err);
    *agree = false;
    return true;
}

bool period_prove(struct period *out, struct timeline **timeline, const struct durations *durations,
                  struct program *program, int left_out, int unit, struct error *err)
{
    struct timeline *apart = NULL, *most = NULL;
    struct period late = { 0 };
    struct pairing pairing = { 0 };
    struct durations paired = *durations;
    struct error stall = { 0 }; /* all those waits at once may never end */
    *out = late;
    bool good = lives_split(program, err) && (paired.pairing || pairing_build(&pairing, program, err));
    paired.pairing = paired.pairing ? paired.pairing : &pairing;
    good = good && simulate_with(&apart, &paired, program, err);
    for (int units = 1; good && units <= PERIOD_LONGEST && out->ns == 0; units++)
        if (left_out % (units * unit) == 0)
            good = find_period(out, program, paired.pairing, apart, units * unit, err);
    if (out->ns == 0)
        out->micro_batches = 0;
    if (good && out->ns > 0) {
        good = layout_wait_for_bytes(program, err);
        if (good && simulate_with(&most, &paired, program, &stall)) {
            out->step_slack_ns = most->step_ns - apart->step_ns;
            good = find_period(&late, program, paired.pairing, most, out->micro_batches, err) &&
                   layouts_agree(&out->exact, durations, program, apart, most, err);
        }
        out->slack_ns = late.ns - out->ns;
        out->exact = out->exact && out->slack_ns == 0;
        out->ns = late.ns > 0 ? out->ns : 0;
    }
    pairing_free(&pairing);
    timeline_free(most);
    if (good)
        *timeline = apart;
    else
        timeline_free(apart);
    return good;
}
