#include "planner/explain/explain_account.h"
#include "base/num.h"
#include "planner/cost/cost.h"
#include "planner/estimate/estimate.h"
#include <stdlib.h>

/* ---- one plan ---- */

void explained_free(struct explained *explained)
{
    if (!explained)
        return;
    pace_give(NULL, explained->pace);
    graph_free(explained->graph);
    plan_free(explained->plan);
    free(explained->memory);
    free(explained);
}

/* Measures what fills the laid out program's arenas, and what the plan's further micro-batches need. */
static bool measure(struct explained *e, struct error *err)
{
    struct contents contents;
    const struct program *program = e->pace->pace.few.program;
    bool good = contents_open(&contents, program, err);
    int64_t *bytes = good ? arena_alloc(&contents.arena, (size_t)e->plan->stage_count, sizeof *bytes) : NULL;
    good = good && (bytes || fail_memory(err)) && /* as it is predicted: of all micro-batches where they are not many */
           (e->pace->pace.whole || estimate_shortens(e->plan)
                ? estimate_program_bytes(bytes, program, e->model, e->plan, err)
                : estimate_plan_bytes(bytes, e->model, e->plan, err));
    for (int s = 0; good && s < e->plan->stage_count; s++) {
        good = contents_find(&e->memory[s], &contents, s, err);
        contents_promise(&e->memory[s], bytes[s]);
    }
    contents_close(&contents);
    e->measured = good;
    return good;
}

bool explained_lower(struct explained *e, struct pace_shelf *shelf, struct error *err)
{
    if (e->program)
        return true;
    if (!pace_take(&e->pace, shelf, e->model, e->plan, err))
        return false;
    if ((e->whole && !pace_look_at_all(&e->pace->pace, err)) || !pace_lay_out(&e->pace->pace, err) ||
        !(e->measured || measure(e, err))) {
        explained_drop(e, NULL);
        return false;
    }
    e->program = e->pace->pace.few.program;
    return true;
}

void explained_drop(struct explained *explained, struct pace_shelf *shelf)
{
    pace_give(shelf, explained->pace);
    explained->pace = NULL;
    explained->program = NULL;
}

static bool fill_explained(struct explained *e, const struct model *model, const struct plan *plan, struct error *err)
{
    e->model = model;
    e->plan = plan_copy(plan);
    e->memory = calloc((size_t)plan->stage_count, sizeof *e->memory);
    if (!e->plan || !e->memory)
        return fail_memory(err);
    return plan_graph(&e->graph, model, plan, err) && plan_check(e->plan, e->graph, err);
}

bool explained_open(struct explained **out, const struct model *model, const struct plan *plan, struct error *err)
{
    struct explained *explained = calloc(1, sizeof *explained);
    if (!explained)
        return fail_memory(err);
    if (!fill_explained(explained, model, plan, err)) {
        explained_free(explained);
        return false;
    }
    *out = explained;
    return true;
}

int64_t explained_peak_bytes(const struct explained *explained)
{
    int64_t peak = 0;
    for (int s = 0; s < explained->plan->stage_count; s++)
        peak = max_i64(peak, explained->memory[s].peak_bytes);
    return peak;
}

int64_t account_left_bytes(const struct account *account, int stage)
{
    return account->available_bytes[stage] - account->memory[stage].peak_bytes;
}

/* Times the step, *step in the arena. The first account of a plan is opened before several threads open others. */
static bool time_step(struct paced_step *step, struct arena *arena, struct explained *explained,
                      const struct facts *facts, struct error *err)
{
    struct pace *pace = &explained->pace->pace;
    struct paced_apart apart = { 0 };
    bool timed = (pace->further == 0 || pace_time_apart(pace, facts, arena, &apart, err)) &&
                 pace_time(pace, facts, &apart, arena, step, err);
    if (timed && !pace->shared)
        pace->shared = true;
    paced_apart_close(&apart);
    return timed;
}

bool account_open(struct account *out, struct explained *explained, const struct facts *facts, struct error *err)
{
    struct account account = { .stage_count = explained->plan->stage_count, .memory = explained->memory };
    struct paced_step step;
    account.available_bytes = arena_alloc(&account.arena, (size_t)account.stage_count, sizeof *account.available_bytes);
    account.host_bytes = arena_alloc(&account.arena, (size_t)account.stage_count, sizeof *account.host_bytes);
    if (!account.available_bytes || !account.host_bytes)
        return fail_memory(err);
    if (!time_step(&step, &account.arena, explained, facts, err)) {
        account_free(&account);
        return false;
    }
    account.step_ns = step.step_ns;
    account.last_stage = step.last_stage;
    account.time_ns = step.time_ns;
    account.fits = true;
    for (int s = 0; s < account.stage_count; s++) {
        account.host_bytes[s] = explained->program->stages[s].host_bytes;
        account.fits = account.fits && account.host_bytes[s] <= cost_stage_host_bytes(facts, explained->plan, s);
        account.available_bytes[s] = cost_stage_available_bytes(facts, explained->plan, s);
        if (account_left_bytes(&account, s) < account_left_bytes(&account, account.full_stage))
            account.full_stage = s;
    }
    account.fits = account.fits && account_left_bytes(&account, account.full_stage) >= 0;
    *out = account;
    return true;
}

void account_free(struct account *account)
{
    arena_free(&account->arena);
}
