/* What a plan needs: the bytes of its program's layout, or what those of few micro-batches promise. */
#include "planner/estimate/effort.h"
#include "planner/cut/partition.h"
#include "planner/estimate/estimate_parts.h"
#include "base/num.h"
#include "planner/layout/contents.h"
#include "planner/layout/layout.h"
#include "planner/layout/lives.h"
#include "planner/program/clock.h"
#include "planner/program/schedule.h"
#include <string.h>

/* Gives more rooms where places repeat with every step, since what a round leaves over moves the rest about. */
static int usual_rooms(const struct plan *plan)
{
    return schedules[plan->schedule]->asynchronous ? 3 : 1;
}

/* Gives the most bytes b for which b and its rooms are no more than these, whatever persists. */
static int64_t without_rooms(int64_t bytes, int rooms)
{
    return bytes - ceil_div(bytes, ROOM_SHARE + rooms) * rooms;
}

int64_t estimate_promised_bytes(int64_t bytes, const struct plan *plan)
{
    return without_rooms(bytes, usual_rooms(plan));
}

int64_t estimate_doubtful_bytes(int64_t bytes)
{
    return bytes + bytes / NEAREST_DOUBT_SHARE;
}

static int64_t with_rooms(int64_t bytes, int64_t persistent_bytes, int rooms)
{
    int64_t room = min_i64(bytes / ROOM_SHARE, (bytes - persistent_bytes) / MOVING_SHARE) * rooms;
    return room > 0 ? round_up(bytes + room, ARENA_ALIGNMENT_BYTES) : bytes;
}

/* Counts the bytes that persist of further micro-batches: a loss each. */
static int64_t losses_bytes(const struct program *program, int stage, int further)
{
    int micros = program->plan->micro_batch_count;
    int64_t bytes = 0;
    for (int m = 0; m < micros; m++) {
        int loss = program_loss(program, stage, m);
        bytes += loss < 0 ? 0 : round_up(program->buffers[loss].bytes, ARENA_ALIGNMENT_BYTES);
    }
    return bytes / micros * further;
}

int64_t estimate_stage_bytes(const struct program *program, int stage, const struct judging *judging)
{
    const struct stage_program *list = &program->stages[stage];
    return with_rooms(list->arena_bytes, list->persistent_bytes, judging->rooms) +
           losses_bytes(program, stage, judging->left_out);
}

int64_t estimate_enough_bytes(const struct program *program, int stage, const struct facts *facts,
                              const struct judging *judging)
{
    int64_t available = cost_stage_available_bytes(facts, program->plan, stage);
    return without_rooms(available - losses_bytes(program, stage, judging->left_out), judging->rooms);
}

/* Fills in the host's memory likewise; there is none where nobody offloads. */
static void fill_host(struct prediction *p, const struct program *program, const struct facts *facts, int rooms)
{
    int64_t most = 0;
    p->host_available_bytes = INT64_MAX;
    if (!p->host_bytes)
        return; /* none with fewer micro-batches either */
    for (int s = 0; s < p->stage_count; s++) {
        int64_t available = cost_stage_host_bytes(facts, program->plan, s);
        p->host_bytes[s] = with_rooms(program->stages[s].host_bytes, program->stages[s].host_persistent_bytes, rooms);
        p->host_available_bytes = min_i64(p->host_available_bytes, available);
        p->fits = p->fits && p->host_bytes[s] <= available;
        most = max_i64(most, p->host_bytes[s]);
    }
    p->host_bytes = most > 0 ? p->host_bytes : NULL;
}

void estimate_fill_bytes(struct prediction *p, const struct program *program, const struct facts *facts,
                         const struct judging *judging)
{
    p->fits = true;
    for (int s = 0; s < program->stage_count; s++) {
        p->available_bytes[s] = cost_stage_available_bytes(facts, program->plan, s);
        p->peak_bytes[s] = estimate_stage_bytes(program, s, judging);
        p->fits = p->fits && p->peak_bytes[s] <= p->available_bytes[s];
    }
    fill_host(p, program, facts, judging->rooms);
}

/* Fills in what the fullest stage holds, by its layout's contents. */
static bool fill_contents(struct prediction *p, struct arena *arena, const struct program *program, struct error *err)
{
    struct stage_memory memory;
    struct contents contents;
    int full = 0;
    for (int s = 1; s < p->stage_count; s++)
        if (p->available_bytes[s] - p->peak_bytes[s] < p->available_bytes[full] - p->peak_bytes[full])
            full = s;
    p->memory_bytes = arena_alloc(arena, MEMORY_KIND_COUNT, sizeof *p->memory_bytes);
    bool good = contents_open(&contents, program, err) && (p->memory_bytes || fail_memory(err)) &&
                contents_find(&memory, &contents, full, err);
    contents_close(&contents);
    if (!good)
        return false;
    contents_promise(&memory, p->peak_bytes[full]);
    memcpy(p->memory_bytes, memory.bytes, sizeof memory.bytes);
    p->memory_names = memory_kind_names;
    p->memory_count = MEMORY_KIND_COUNT;
    p->fullest_stage = full;
    return true;
}

bool estimate_fill_memory(struct estimate *estimate, const struct program *program, const struct facts *facts,
                          const struct judging *judging, struct error *err)
{
    estimate_fill_bytes(&estimate->prediction, program, facts, judging);
    return fill_contents(&estimate->prediction, &estimate->arena, program, err);
}

static struct judging judging_of(const struct plan *plan, int micro_batches)
{
    return (struct judging){ .shortened = true,
                             .rooms = usual_rooms(plan),
                             .left_out = plan->micro_batch_count - micro_batches };
}

struct judging estimate_judging_shortened(const struct plan *plan)
{
    return judging_of(plan, estimate_settled_micro_batches(plan));
}

struct judging estimate_judging_paced(const struct pace *pace)
{
    return pace->further > 0 ? estimate_judging_shortened(pace->plan) : (struct judging){ 0 };
}

/* Gives after how many micro-batches, which take turns in a stage's places, all stages are where they were. Of many
 * places, most are. */
static int64_t turns_in_places(const struct plan *plan)
{
    enum { MOST_TURNS = 64 };
    int64_t turns = estimate_micro_batch_unit(plan);
    for (int s = 0; s < plan->stage_count; s++) {
        struct schedule_place place = schedule_place_of(plan, s);
        int64_t held = schedule_held(schedules[plan->schedule], &place);
        int64_t both = turns / common_divisor(turns, held) * held;
        turns = both <= MOST_TURNS ? both : turns;
    }
    return turns;
}

/* Gives how many micro-batches the second look is at, after one at few that took so many instructions; 0 where none is
 * worth it. The last ones find the places that those of the whole step find. */
static int settling_micro_batches(const struct plan *plan, int64_t few_instrs, int few)
{
    int64_t all = plan->micro_batch_count, most = SETTLE_INSTRS * (int64_t)few / max_i64(few_instrs, 1);
    if (few == all || most >= all)
        return few == all ? 0 : (int)all;
    int64_t turns = turns_in_places(plan), more = all - ceil_div(all - most, turns) * turns;
    return more < 2 * few ? 0 : (int)more;
}

/* A plan's program, or that of fewer micro-batches, with its offsets. */
struct layouts {
    struct shortened of;
    struct judging judging;
};

static bool lay_out(struct layouts *l, const struct model *model, const struct plan *plan, int micro_batches,
                    struct error *err)
{
    *l = (struct layouts){ 0 };
    if (micro_batches < plan->micro_batch_count)
        l->judging = judging_of(plan, micro_batches);
    return estimate_lower(&l->of, model, plan, micro_batches, err) && lives_split(l->of.program, err) &&
           layout_place(l->of.program, NULL, NULL, err);
}

bool estimate_settle(struct estimate *estimate, const struct model *model, const struct plan *plan,
                     const struct facts *facts, struct error *err)
{
    struct layouts l;
    int more = settling_micro_batches(plan, estimate->program_instrs, estimate->micro_batches_simulated);
    if (more == 0)
        return true;
    bool good =
        lay_out(&l, model, plan, more, err) && estimate_fill_memory(estimate, l.of.program, facts, &l.judging, err);
    estimate_shortened_free(&l.of);
    return good;
}

/* Raises *arena_bytes to what a search for a layout is content with; false where the layout was not that good. */
static bool promise_good(int64_t *arena_bytes, int64_t good_bytes)
{
    int64_t most = round_up(good_bytes, ARENA_ALIGNMENT_BYTES);
    bool good = *arena_bytes <= most;
    *arena_bytes = max_i64(*arena_bytes, most);
    return good;
}

bool estimate_fill_repeating(struct estimate *estimate, struct program *program, const struct model *model,
                             const struct plan *plan, const struct facts *facts, bool whole, struct error *err)
{
    int micro_batches = program->plan->micro_batch_count;
    bool few = program_instrs(program) * plan->micro_batch_count / micro_batches <= FEW_INSTRS, content = !few;
    if ((content || !whole) && !layout_place(program, NULL, NULL, err))
        return false;
    for (int s = 0; s < program->stage_count && content; s++) {
        struct stage_program *stage = &program->stages[s];
        content = promise_good(&stage->arena_bytes, stage->good_bytes) &&
                  promise_good(&stage->host_bytes, stage->good_host_bytes);
    }
    struct judging judging = { .left_out = plan->micro_batch_count - micro_batches };
    if (!content && !whole)
        judging = judging_of(plan, micro_batches);
    if (content || !whole) {
        return estimate_fill_memory(estimate, program, facts, &judging, err) &&
               (content || estimate_settle(estimate, model, plan, facts, err));
    }
    struct layouts l;
    bool good = lay_out(&l, model, plan, plan->micro_batch_count, err) &&
                estimate_fill_memory(estimate, l.of.program, facts, &l.judging, err);
    estimate_shortened_free(&l.of);
    return good;
}

bool estimate_program_bytes(int64_t *bytes, const struct program *program, const struct model *model,
                            const struct plan *plan, struct error *err)
{
    struct layouts l = { 0 };
    int few = program->plan->micro_batch_count;
    struct judging judging = few < plan->micro_batch_count ? judging_of(plan, few) : (struct judging){ 0 };
    int more = settling_micro_batches(plan, program_instrs(program), few);
    bool good = more == 0 || lay_out(&l, model, plan, more, err);
    for (int s = 0; s < plan->stage_count && good; s++)
        bytes[s] =
            more > 0 ? estimate_stage_bytes(l.of.program, s, &l.judging) : estimate_stage_bytes(program, s, &judging);
    estimate_shortened_free(&l.of);
    return good;
}

bool estimate_plan_bytes(int64_t *bytes, const struct model *model, const struct plan *plan, struct error *err)
{
    struct layouts l;
    int few = estimate_shortens(plan) ? estimate_settled_micro_batches(plan) : plan->micro_batch_count;
    bool good = lay_out(&l, model, plan, few, err) && estimate_program_bytes(bytes, l.of.program, model, plan, err);
    estimate_shortened_free(&l.of);
    return good;
}

/* Bytes that layers of one piece hold: at all times, of each micro-batch between forward and backward, and of each
 * whose weights' gradients alone are still to come. */
struct held {
    int64_t always, saved, deferred;
};

static struct held held_by(const struct plan *plan, const struct chain *chain, const struct price_table *table,
                           struct layer_range layers)
{
    struct held held = { 0 };
    for (int l = layers.first; l < layers.first + layers.count; l++) {
        int strategy = price_strategy(table, &plan->layers[l]);
        if (strategy < 0)
            continue;
        const struct layer_price *price = price_at(table, chain->class_of[plan_layer_at(plan, l)], strategy);
        held.always += price->weight_bytes;
        held.saved += price->saved_bytes;
        held.deferred += price->deferred_bytes;
    }
    return held;
}

bool estimate_held_bytes(int64_t *bytes, const struct plan *plan, const struct chain *chain,
                         const struct price_table *table, struct error *err)
{
    struct arena arena = { 0 };
    bool good = true;
    for (int k = 0; k < plan->stage_count && good; k++) {
        struct held *held = arena_alloc(&arena, (size_t)plan->chunk_count, sizeof *held);
        int count = 0;
        const struct action *actions = clock_actions(plan, k, &count, &arena);
        int64_t always = 0, now = 0, most = 0;
        good = (held && actions) || fail_memory(err);
        for (int c = 0; c < plan->chunk_count && good; c++) {
            held[c] = held_by(plan, chain, price_of_plan_stage(table, plan, k), plan_stage_chunk(plan, k, c));
            always += held[c].always;
        }
        for (int i = 0; i < count && good; i++) {
            const struct held *own = &held[actions[i].chunk];
            switch (actions[i].kind) {
            case ACTION_FORWARD:
                now += own->saved;
                break;
            case ACTION_BACKWARD:
                now -= own->saved;
                break;
            case ACTION_BACKWARD_INPUT:
                now += own->deferred - own->saved;
                break;
            case ACTION_BACKWARD_WEIGHT:
                now -= own->deferred;
                break;
            }
            most = max_i64(most, now);
        }
        bytes[k] = always + most;
        arena_free(&arena);
    }
    return good;
}
