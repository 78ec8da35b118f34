/* What explains a plan: items that add up, facts that vary, answers that agree with each other. */
#include "base/num.h"
#include "models/model.h"
#include "planner/layout/place.h"
#include "planner/program/schedule.h"
#include "tests/fixed_choices.h"
#include "planner/explain/explain.h"
#include "tests/toy_world.h"

/* Explains what the search finds in this world. */
static const struct explained *best_plan(struct explainer *e)
{
    struct solution best;
    struct error err = { 0 };
    ck_assert_msg(explainer_solve(e, &e->options.space, e->facts, &best, &err), "%s", err.message);
    ck_assert_int_eq(best.kind, SOLUTION_PLAN);
    return best.explained;
}

/* ---- items ---- */

/* The most bytes alive at once, counted another way: instruction by instruction, bytes by their offsets. */
static int64_t occupied(const struct program *program, int stage, int instr, bool *byte_used, int64_t grain)
{
    const struct stage_program *list = &program->stages[stage];
    int64_t sum = 0;
    memset(byte_used, 0, (size_t)(list->arena_bytes / grain));
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->stage != stage || buffer->persistent)
            continue;
        bool before = false, after = false;
        for (int i = 0; i < list->instr_count; i++) {
            const struct instr *at = &list->instrs[i];
            bool touches = false;
            for (int k = 0; at->op == OP_COMPUTE && k < ROLE_COUNT * MAX_OPERANDS; k++)
                touches |= instr_operand(program, at, (enum role)(k / MAX_OPERANDS), k % MAX_OPERANDS) == b;
            for (int k = 0; at->op != OP_COMPUTE && k < at->pair_count; k++) {
                const struct pair *pair = &program->pairs[at->pair_first + k];
                touches |= (at->op != OP_RECEIVE && pair->source == b) || (at->op != OP_SEND && pair->destination == b);
            }
            before |= touches && i <= instr;
            after |= touches && i >= instr;
        }
        if (!before || !after)
            continue;
        for (int64_t at = buffer->offset; at < buffer->offset + round_up(buffer->bytes, grain); at += grain) {
            sum += byte_used[at / grain] ? 0 : grain;
            byte_used[at / grain] = true;
        }
    }
    return sum;
}

static union fixed drawn_uniform(uint64_t *seed)
{
    union fixed u = fixed_none();
    const int degrees[][3] = { { 1, 1, 4 }, { 2, 1, 2 }, { 2, 2, 1 }, { 4, 1, 1 }, { 1, 2, 2 }, { 1, 4, 1 } };
    const int *d = degrees[mix64((*seed)++) % 6];
    u.stages = d[0], u.tensor = d[1], u.data = d[2];
    u.zero = (int)(mix64((*seed)++) % 4);
    u.recompute = mix64((*seed)++) % 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    u.schedule = (int)(mix64((*seed)++) % 2);
    u.prefetch = (int)(mix64((*seed)++) % 2);
    u.sequence_parallel = mix64((*seed)++) % 2;
    u.micro = 1;
    return u;
}

/* Time adds up to the step on every stage, memory to the arena; no kind is negative; and what is called occupied at the
 * fullest moment covers at least the bytes that instructions really touch around it. */
START_TEST(items_add_up)
{
    struct world world = world_open("1x4:toy", 80000000000, 2);
    struct space space = space_default(8, 0, DTYPE_BF16);
    uint64_t seed = 11;
    int in_flight = 0;
    for (int n = 0; n < 24; n++) {
        union fixed u = drawn_uniform(&seed);
        struct plan *plan = NULL;
        struct explained *explained = NULL;
        struct account account;
        struct error err = { 0 };
        ck_assert_msg(fixed_choices_plan(&plan, &u, &space, world.model, &world.facts, &err), "%s", err.message);
        ck_assert_msg(explained_open(&explained, world.model, plan, &err) && explained_lower(explained, NULL, &err),
                      "%s", err.message);
        ck_assert_msg(account_open(&account, explained, &world.facts, &err), "%s", err.message);
        for (int s = 0; s < account.stage_count; s++) {
            const struct stage_memory *m = &account.memory[s];
            const struct stage_program *list = &explained->program->stages[s];
            int64_t time = 0, bytes = 0, moving = 0;
            for (int k = 0; k < TIME_KIND_COUNT; k++) {
                ck_assert_int_ge(account.time_ns[s][k], 0);
                time += account.time_ns[s][k];
            }
            for (int k = 0; k < MEMORY_KIND_COUNT; k++) {
                ck_assert_int_ge(m->bytes[k], 0);
                bytes += m->bytes[k];
            }
            ck_assert_int_eq(time, account.step_ns);
            ck_assert_int_eq(bytes, m->peak_bytes);
            ck_assert_int_eq(m->peak_bytes, list->arena_bytes);
            bool *used = calloc((size_t)(list->arena_bytes / ARENA_ALIGNMENT_BYTES) + 1, sizeof *used);
            int64_t touched = occupied(explained->program, s, m->peak_instr, used, ARENA_ALIGNMENT_BYTES);
            moving = m->peak_bytes - list->persistent_bytes - round_up(list->scratch_bytes, ARENA_ALIGNMENT_BYTES) -
                     m->bytes[MEMORY_GAPS];
            ck_assert_msg(touched <= moving, "stage %d: touched %lld, said %lld", s, (long long)touched,
                          (long long)moving);
            ck_assert_msg(moving - touched <= moving * 3 / 5, "stage %d: touched %lld, said %lld", s,
                          (long long)touched, (long long)moving);
            in_flight = m->in_flight > in_flight ? m->in_flight : in_flight;
            free(used);
        }
        account_free(&account);
        explained_free(explained);
        plan_free(plan);
    }
    ck_assert_int_gt(in_flight, 2);
    world_close(&world);
}
END_TEST

/* The estimate that plan files quote is the last stage's account. */
START_TEST(account_equals_the_estimate)
{
    struct world world = world_open("1x4:toy", 80000000000, 2);
    struct search_options options = options_of(8);
    struct explainer e;
    explainer_open(&e, world.model, &world.facts, &options);
    const struct explained *plan = best_plan(&e);
    struct estimate *estimate = NULL;
    struct account account;
    struct error err = { 0 };
    ck_assert(estimate_plan(&estimate, plan->graph, plan->plan, &world.facts, &err));
    ck_assert(explainer_account(&e, plan, &world.facts, &account, &err));
    ck_assert_int_eq(account.step_ns, estimate->prediction.step_ns);
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        ck_assert_int_eq(account.time_ns[account.last_stage][k], estimate->prediction.breakdown_ns[k]);
    for (int s = 0; s < account.stage_count; s++)
        ck_assert_int_eq(account.memory[s].peak_bytes, estimate->prediction.peak_bytes[s]);
    estimate_free(estimate);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* ---- facts that vary ---- */

START_TEST(no_variation_changes_nothing)
{
    static const char *const forms[] = { "1x4:toy", "2x2:toy" };
    for (int f = 0; f < 2; f++) {
        struct world world = world_open(forms[f], 80000000000, 2);
        struct variation none = variation_none(), still = variation_noise(7, 0);
        struct search_options options = options_of(8);
        struct explainer e;
        struct varied varied;
        struct account before, after;
        struct error err = { 0 };
        explainer_open(&e, world.model, &world.facts, &options);
        const struct explained *plan = best_plan(&e);
        ck_assert(explainer_account(&e, plan, &world.facts, &before, &err));
        for (int i = 0; i < 2; i++) {
            ck_assert(varied_open(&varied, &world.facts, i ? &still : &none, &err));
            ck_assert_int_eq(varied.cluster->level_count, world.cluster->level_count);
            ck_assert_int_eq(varied.cluster->device_count, world.cluster->device_count);
            ck_assert(explainer_account(&e, plan, &varied.facts, &after, &err));
            ck_assert_int_eq(before.step_ns, after.step_ns);
            ck_assert_int_eq(before.available_bytes[0], after.available_bytes[0]);
            varied_free(&varied);
        }
        explainer_close(&e);
        world_close(&world);
    }
}
END_TEST

/* ---- answers ---- */

/* What the plan chose is what the search fixed; ZeRO as far as there is somebody to share shards with. */
START_TEST(choice_is_the_configuration)
{
    struct world world = world_open("2x4:toy", 80000000000, 3);
    struct search_options options = options_of(small_share() ? 8 : 16);
    static const int fixed[][3] = { { 2, 2, 2 }, { 1, 4, 2 }, { 4, 1, 2 }, { 1, 1, 8 }, { 2, 4, 1 } };
    for (int i = 0; i < 5; i++) {
        struct explainer e;
        options.space.stages = (struct allowed){ 1, { fixed[i][0] } };
        options.space.tensor = (struct allowed){ 1, { fixed[i][1] } };
        options.space.micro = (struct allowed){ 1, { 1 } };
        options.space.zero = (struct allowed){ 1, { 2 } };
        explainer_open(&e, world.model, &world.facts, &options);
        const struct explained *plan = best_plan(&e);
        struct choice c = choice_of(plan->plan, plan->graph);
        ck_assert_int_eq(c.pipeline, fixed[i][0]);
        ck_assert_int_eq(c.tensor, fixed[i][1]);
        ck_assert_int_eq(c.data, fixed[i][2]);
        ck_assert_int_eq(c.micro, 1);
        ck_assert_int_eq(c.zero[c.data > 1 ? 2 : 0], c.weighted);
        ck_assert_int_eq(c.recompute[0] + c.recompute[1] + c.recompute[2], plan->plan->layer_count);
        explainer_close(&e);
    }
    world_close(&world);
}
END_TEST

static bool all_recompute(const struct plan *plan, int mode)
{
    for (int l = 0; l < plan->layer_count; l++)
        if (plan->layers[l].recompute != mode)
            return false;
    return true;
}

/* ZeRO-3 everywhere shards every layer, also where the shortest plans have one data rank and nothing to shard. */
START_TEST(zero_3_everywhere_shards)
{
    if (small_share()) /* the next test runs the same lines */
        return;
    struct world world = world_open("1x4:toy", 80000000000, 6);
    struct search_options options = options_of(8);
    struct explainer e;
    struct alternatives list;
    struct error err = { 0 };
    bool met = false;
    explainer_open(&e, world.model, &world.facts, &options);
    ck_assert_msg(explain_alternatives(&e, best_plan(&e), &list, &err), "%s", err.message);
    for (int i = 0; i < list.count; i++) {
        const struct solution *s = &list.list[i].solution;
        if (strcmp(list.list[i].kind, "ZeRO-3 everywhere") != 0)
            continue;
        met = true;
        ck_assert_int_eq(s->kind, SOLUTION_PLAN);
        struct choice c = choice_of(s->explained->plan, s->explained->graph);
        ck_assert_int_gt(c.data, 1);
        ck_assert_int_eq(c.zero[3], c.weighted);
    }
    ck_assert(met);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* Each alternative is of its kind, and its items' differences add up to the difference of the step. */
START_TEST(alternatives_are_of_their_kind)
{
    struct world world = world_open("2x2:toy", 3000000, 3);
    struct search_options options = options_of(small_share() ? 8 : 16);
    struct explainer e;
    struct alternatives list;
    struct account own;
    struct error err = { 0 };
    explainer_open(&e, world.model, &world.facts, &options);
    const struct explained *plan = best_plan(&e);
    struct choice mine = choice_of(plan->plan, plan->graph);
    ck_assert(explainer_account(&e, plan, &world.facts, &own, &err));
    ck_assert_msg(explain_alternatives(&e, plan, &list, &err), "%s", err.message);
    ck_assert_int_ge(list.count, 4);
    for (int i = 0; i < list.count; i++) {
        const struct alternative *a = &list.list[i];
        const struct solution *s = &a->solution;
        int64_t difference = 0;
        if (s->kind != SOLUTION_PLAN)
            continue;
        struct choice c = choice_of(s->explained->plan, s->explained->graph);
        if (!strcmp(a->kind, "other pipeline degree"))
            ck_assert_int_ne(c.pipeline, mine.pipeline);
        if (!strcmp(a->kind, "other tensor degree"))
            ck_assert_int_ne(c.tensor, mine.tensor);
        if (!strcmp(a->kind, "other micro-batch"))
            ck_assert_int_ne(c.micro, mine.micro);
        if (!strcmp(a->kind, "no pipeline"))
            ck_assert_int_eq(c.pipeline, 1);
        if (!strcmp(a->kind, "no ZeRO"))
            ck_assert_int_eq(c.data == 1 ? 0 : c.weighted - c.zero[0], 0);
        if (!strcmp(a->kind, "no recomputation"))
            ck_assert(all_recompute(s->explained->plan, RECOMPUTE_NONE));
        if (!strcmp(a->kind, "full recomputation"))
            ck_assert(all_recompute(s->explained->plan, RECOMPUTE_FULL));
        for (int k = 0; k < TIME_KIND_COUNT; k++)
            difference += s->time_ns[k] - own.time_ns[own.last_stage][k];
        ck_assert_int_eq(difference, s->step_ns - own.step_ns);
        ck_assert_int_le(s->peak_bytes, own.available_bytes[0]);
    }
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* What lacks memory says how much; with that much more the same space has a plan. */
START_TEST(missing_bytes_suffice)
{
    long long memory = 400000;
    struct world world = world_open("1x2:toy", memory, 2);
    struct search_options options = options_of(8);
    struct explainer e;
    struct solution none, some;
    struct varied varied;
    struct variation v = variation_none();
    struct error err = { 0 };
    int64_t missing = 0;
    options.space.zero = (struct allowed){ 1, { 0 } };
    explainer_open(&e, world.model, &world.facts, &options);
    ck_assert(explainer_solve(&e, &options.space, &world.facts, &none, &err));
    ck_assert_int_eq(none.kind, SOLUTION_NO_MEMORY);
    ck_assert(explain_missing(&e, &options.space, &world.facts, &missing, &err));
    ck_assert_int_gt(missing, 0);
    v.memory = 1 + 1.1 * (double)missing / (double)facts_most_bytes(&world.facts);
    ck_assert(varied_open(&varied, &world.facts, &v, &err));
    ck_assert(explainer_solve(&e, &options.space, &varied.facts, &some, &err));
    ck_assert_int_eq(some.kind, SOLUTION_PLAN);
    varied_free(&varied);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* More of a resource is never worse, less never better: memory, compute, links. */
START_TEST(more_is_never_worse)
{
    static const long long memories[] = { 2200000, 3000000, 80000000000 };
    for (int n = 0; n < 3; n += share_stride()) {
        struct world world = world_open(small_share() ? "1x2:toy" : "2x2:toy", memories[n + small_share()], 3);
        struct search_options options = options_of(small_share() ? 8 : 16);
        struct explainer e;
        struct what_ifs w;
        struct error err = { 0 };
        int looked = 0;
        explainer_open(&e, world.model, &world.facts, &options);
        const struct explained *plan = best_plan(&e);
        ck_assert_msg(explain_what_ifs(&e, plan, &w, NULL, NULL, &err), "%s", err.message);
        ck_assert_int_gt(w.count, 6);
        for (int i = 0; i < w.count; i++) {
            const struct what_if *at = &w.list[i];
            bool rate =
                at->resource == RESOURCE_MEMORY || at->resource == RESOURCE_COMPUTE || at->resource == RESOURCE_LINKS;
            if (!rate || at->step_ns == 0)
                continue;
            looked++;
            if (at->factor > 1)
                ck_assert_msg(at->step_ns <= w.base_ns, "%s: %lld after %lld", at->name, (long long)at->step_ns,
                              (long long)w.base_ns);
        }
        ck_assert_int_ge(looked, 4);
        const struct what_if *binding = explain_binding(&w);
        if (binding)
            ck_assert(binding->change < 0 && binding->factor > 1);
        explainer_close(&e);
        world_close(&world);
    }
}
END_TEST

static bool regret_of(struct explainer *e, const struct explained *plan, double amount, int draws, struct regret *out,
                      struct error *err)
{
    return explain_regrets(e, plan, &amount, 1, draws, 1, out, NULL, NULL, err);
}

/* Without noise the search's own plan has no regret; with noise it is never negative; the same seed, the same answer.
 */
START_TEST(regret_is_none_without_noise)
{
    struct world world = world_open("2x2:toy", 3000000, 3);
    struct search_options options = options_of(small_share() ? 8 : 16);
    struct explainer e;
    struct regret regret, again, wide;
    struct error err = { 0 };
    explainer_open(&e, world.model, &world.facts, &options);
    const struct explained *plan = best_plan(&e);
    ck_assert_msg(regret_of(&e, plan, 0, 3, &regret, &err), "%s", err.message);
    ck_assert_int_eq(regret.draws, 3);
    ck_assert_int_eq(regret.unfit + regret.changed, 0);
    ck_assert(regret.mean == 0 && regret.most == 0);
    const int draws = small_share() ? 3 : 6;
    ck_assert(regret_of(&e, plan, 0.2, draws, &wide, &err));
    ck_assert(regret_of(&e, plan, 0.2, draws, &again, &err));
    ck_assert_int_eq(wide.draws, draws);
    ck_assert(wide.mean >= 0 && wide.most >= wide.mean && wide.mean == again.mean && wide.most == again.most);
    /* On devices that the plan fills to the last byte, it fits in the draws that leave more. */
    struct variation v = variation_none();
    struct varied full;
    v.memory = (double)explained_peak_bytes(plan) / (double)facts_most_bytes(&world.facts);
    ck_assert(varied_open(&full, &world.facts, &v, &err));
    e.facts = &full.facts;
    ck_assert(regret_of(&e, plan, 0.2, draws, &wide, &err));
    ck_assert_int_gt(wide.unfit, 0);
    ck_assert_int_lt(wide.unfit, draws);
    e.facts = &world.facts;
    varied_free(&full);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

static bool note_step(void *self, int index, const struct solution *solution, struct error *err)
{
    (void)err;
    ((int64_t *)self)[index] = solution->kind == SOLUTION_PLAN ? solution->step_ns : INT64_MAX;
    return true;
}

/* Under drawn rates the plan found among the configurations near the best is as good as what all of them have. */
START_TEST(what_is_near_is_enough)
{
    struct world world = world_open("4x2:toy", 3000000, 3);
    struct search_options options = options_of(16);
    struct explainer e;
    struct solution base;
    struct error err = { 0 };
    options.gap_ppm = 1000;
    explainer_open(&e, world.model, &world.facts, &options);
    ck_assert_msg(explainer_base(&e, &base, &err), "%s", err.message);
    ck_assert_int_gt(e.near_count, 0);
    for (uint64_t seed = 1; seed <= (small_share() ? 3 : 8); seed++) {
        struct variation v = variation_noise(seed, 0.2);
        struct varied varied;
        struct query queries[2];
        int64_t step_ns[2];
        ck_assert(varied_open(&varied, &world.facts, &v, &err));
        for (int all = 0; all < 2; all++)
            queries[all] =
                (struct query){ .space = options.space, .facts = &varied.facts, .near = !all, .light = true };
        ck_assert_msg(explainer_solve_all(&e, queries, 2, note_step, step_ns, &err), "%s", err.message);
        ck_assert_msg(step_ns[0] <= step_ns[1] + step_ns[1] / 500, "seed %d: %lld ns near, %lld ns among all",
                      (int)seed, (long long)step_ns[0], (long long)step_ns[1]);
        varied_free(&varied);
    }
    explainer_close(&e);
    world_close(&world);
}
END_TEST

/* A plan that is not the optimum regrets: what the best of its time would have saved. */
START_TEST(a_worse_plan_regrets)
{
    struct world world = world_open("1x4:toy", 80000000000, 2);
    struct search_options options = options_of(8);
    union fixed u = fixed_none();
    struct plan *poor = NULL;
    struct explainer e;
    struct regret regret;
    struct error err = { 0 };
    const struct explained *plan = NULL;
    u.stages = 1, u.tensor = 4, u.data = 1, u.recompute = RECOMPUTE_FULL, u.micro = 1;
    ck_assert(fixed_choices_plan(&poor, &u, &options.space, world.model, &world.facts, &err));
    explainer_open(&e, world.model, &world.facts, &options);
    ck_assert(explainer_plan(&e, poor, &plan, &err));
    ck_assert(regret_of(&e, plan, 0, 1, &regret, &err));
    ck_assert_int_eq(regret.changed, 1);
    ck_assert(regret.mean > 0.05);
    plan_free(poor);
    explainer_close(&e);
    world_close(&world);
}
END_TEST

static int64_t tick(void *self)
{
    return ++*(int64_t *)self;
}

/* Wherever the time ends: shorter lists, never a failure. */
START_TEST(time_ends_anywhere)
{
    struct world world = world_open("2x2:toy", 3000000, 2);
    struct search_options options = options_of(8);
    struct explainer free_one;
    int shortened = 0;
    explainer_open(&free_one, world.model, &world.facts, &options);
    const struct explained *found = best_plan(&free_one);
    for (int64_t limit = 1; limit < 8000; limit *= 3) {
        struct explainer e;
        struct alternatives list;
        struct what_ifs w = { 0 };
        struct regret regret;
        struct error err = { 0 };
        const struct explained *plan = NULL;
        int64_t clock = 0;
        options.time_limit_ns = limit;
        options.calls = (struct search_calls){ .self = &clock, .now_ns = tick };
        explainer_open(&e, world.model, &world.facts, &options);
        ck_assert(explainer_plan(&e, found->plan, &plan, &err));
        ck_assert_msg(explain_alternatives(&e, plan, &list, &err), "%s", err.message);
        ck_assert_msg(explain_what_ifs(&e, plan, &w, NULL, NULL, &err), "%s", err.message);
        ck_assert_msg(regret_of(&e, plan, 0.1, 2, &regret, &err), "%s", err.message);
        shortened += e.ended;
        explainer_close(&e);
    }
    ck_assert_int_gt(shortened, 2);
    explainer_close(&free_one);
    world_close(&world);
}
END_TEST

static Suite *explain_suite(void)
{
    Suite *suite = suite_create("explain");
    CHECK_ADD(suite, items_add_up);
    CHECK_ADD(suite, account_equals_the_estimate);
    CHECK_ADD(suite, no_variation_changes_nothing);
    CHECK_ADD(suite, choice_is_the_configuration);
    CHECK_ADD(suite, zero_3_everywhere_shards);
    CHECK_ADD(suite, alternatives_are_of_their_kind);
    CHECK_ADD(suite, missing_bytes_suffice);
    CHECK_ADD(suite, more_is_never_worse);
    CHECK_ADD(suite, regret_is_none_without_noise);
    CHECK_ADD(suite, what_is_near_is_enough);
    CHECK_ADD(suite, a_worse_plan_regrets);
    CHECK_ADD(suite, time_ends_anywhere);
    return suite;
}

CHECK_MAIN(explain_suite)
