/* Every schedule of the list, so that a new one is tested the moment it exists: its order is complete and legal, what
 * it holds is what its closed form says, its program does not stall where a send ends only together with its receive,
 * and changes of the order are refused. */
#include "tests/check.h"
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "tests/in_flight.h"
#include "tests/pipeline_shape.h"
#include "planner/program/clock.h"
#include "planner/program/program.h"
#include "planner/program/schedule.h"
#include "planner/verify/verify.h"
#include <string.h>

enum { MAX_ACTIONS = 1024 };

/* ---- orders ---- */
/* Calls `check` for every place that the schedule takes. */
static void for_places(const struct schedule *schedule,
                       void (*check)(const struct schedule *schedule, const struct schedule_place *place))
{
    for (int stages = 1; stages <= 6; stages++)
        for (int stage = 0; stage < stages; stage++)
            for (int micros = 1; micros <= 13; micros++)
                for (int chunks = 1; chunks <= 4; chunks++)
                    for (int extra = 0; extra <= 2; extra++) {
                        struct schedule_place place = schedule_place_even(stages, stage, micros, extra);
                        place.chunks = chunks;
                        if (schedule_takes(schedule, stages, chunks, micros) && (!schedule->asynchronous || extra == 0))
                            check(schedule, &place);
                    }
}

/* What belongs to the step. The opening comes first and is done again, in its order, for the next step, each pass after
 * the step's own backward pass of that micro-batch. Returns how many actions are left. */
static int own_actions(const struct schedule *schedule, const struct schedule_place *place, struct action *actions,
                       int count)
{
    int opening = 0, ahead = 0, own = 0;
    bool back[64] = { false };
    while (opening < count && actions[opening].part == STEP_OPENING)
        opening++;
    for (int i = 0; i < count; i++) {
        const struct action *a = &actions[i];
        ck_assert_int_eq(i < opening, a->part == STEP_OPENING);
        ck_assert(a->part == STEP_OWN || (schedule->asynchronous && a->kind == ACTION_FORWARD));
        back[a->micro] |= a->kind == ACTION_BACKWARD;
        if (a->part == STEP_AHEAD) {
            ck_assert_int_eq(a->micro, ahead++);
            ck_assert(back[a->micro]);
        } else {
            ck_assert(i >= opening || a->micro == i);
            actions[own++] = *a;
        }
    }
    ck_assert_int_eq(opening, ahead);
    ck_assert_int_eq(opening, schedule->asynchronous ? place->stages - place->stage - 1 : 0);
    return own;
}

/* The passes that a stage runs of (micro-batch, chunk): copies of the model take micro-batches in turn. */
static int passes_due(const struct schedule *schedule, const struct schedule_place *place, int unit)
{
    int chunk = unit / place->micro_count, micro = unit % place->micro_count;
    return !schedule->copies || micro % place->chunks == chunk;
}

/* Each pass of each micro-batch and chunk once, backward after forward, for weights after that for inputs. */
static void check_complete(const struct schedule *schedule, const struct schedule_place *place)
{
    struct action actions[MAX_ACTIONS];
    int seen[4][64] = { 0 }, count = schedule->order(place, actions), units = place->micro_count * place->chunks,
        due = 0;
    ck_assert_int_le(count, MAX_ACTIONS);
    ck_assert_int_eq(count, schedule->order(place, NULL));
    count = own_actions(schedule, place, actions, count);
    for (int unit = 0; unit < units; unit++)
        due += passes_due(schedule, place, unit);
    ck_assert_int_eq(count, due * (schedule->splits ? 3 : 2));
    for (int i = 0; i < count; i++) {
        int unit = actions[i].chunk * place->micro_count + actions[i].micro;
        ck_assert(actions[i].chunk >= 0 && actions[i].chunk < place->chunks);
        ck_assert(actions[i].micro >= 0 && actions[i].micro < place->micro_count);
        ck_assert_msg(++seen[actions[i].kind][unit] == 1, "%s: action %d is there twice", schedule->name, i);
        ck_assert_int_eq(actions[i].kind != ACTION_FORWARD, seen[ACTION_FORWARD][unit] && actions[i].kind);
        if (actions[i].kind == ACTION_BACKWARD_WEIGHT)
            ck_assert_int_eq(seen[ACTION_BACKWARD_INPUT][unit], 1);
        if (schedule->splits)
            ck_assert_int_ne(actions[i].kind, ACTION_BACKWARD);
    }
    for (int unit = 0; unit < units; unit++) { /* nothing is left out */
        int once = passes_due(schedule, place, unit);
        ck_assert_int_eq(seen[ACTION_FORWARD][unit], once);
        ck_assert_int_eq(seen[ACTION_BACKWARD][unit] + seen[ACTION_BACKWARD_INPUT][unit], once);
        ck_assert_int_eq(seen[ACTION_BACKWARD_WEIGHT][unit], once && schedule->splits);
    }
}

START_TEST(orders_are_complete)
{
    for_places(schedules[_i], check_complete);
}
END_TEST

/* Some forward pass comes after a backward one, but where these are in phases. */
START_TEST(phases_are_as_said)
{
    const struct schedule *schedule = schedules[_i];
    struct action actions[MAX_ACTIONS];
    struct schedule_place place = schedule_place_even(4, 1, 16, 0);
    place.chunks = schedule_least_chunks(schedule);
    int count = schedule->order(&place, actions), backward = 0;
    bool mixed = false;
    for (int i = 0; i < count; i++) {
        backward += actions[i].kind != ACTION_FORWARD;
        mixed = mixed || (backward > 0 && actions[i].kind == ACTION_FORWARD);
    }
    ck_assert_int_eq(mixed, !schedule->phases);
}
END_TEST

static void check_closed_form(const struct schedule *schedule, const struct schedule_place *place)
{
    if (schedule->in_flight)
        ck_assert_int_eq(in_flight_by_order(schedule, place), schedule->in_flight(place));
    ck_assert_int_ge(schedule_held(schedule, place), in_flight_by_order(schedule, place));
    if (!schedule->splits && !schedule->asynchronous)
        ck_assert_int_eq(schedule_held(schedule, place), in_flight_by_order(schedule, place));
}

START_TEST(in_flight_is_the_closed_form)
{
    for_places(schedules[_i], check_closed_form);
}
END_TEST

static bool accepts_extra(int schedule, int chunks, struct error *err)
{
    struct plan *plan = plan_new(4, 8);
    ck_assert(plan && plan_set_chunks(plan, chunks));
    plan->schedule = schedule;
    plan->micro_batch_count = 16;
    plan->extra_in_flight = 1;
    bool accepted = !schedules[schedule]->legal || schedules[schedule]->legal(plan, err);
    plan_free(plan);
    return accepted;
}

/* One more in flight than the schedule's own changes the order of a schedule that takes it; others refuse it, or do the
 * same. */
START_TEST(extra_is_taken_as_said)
{
    const struct schedule *schedule = schedules[_i];
    struct action plain[MAX_ACTIONS], more[MAX_ACTIONS];
    struct schedule_place place = schedule_place_even(4, 1, 16, 0);
    place.chunks = schedule_least_chunks(schedule);
    int count = schedule->order(&place, plain);
    bool changed = false;
    struct error err = { 0 };
    place.extra_in_flight = 1;
    if (!accepts_extra(_i, place.chunks, &err)) {
        ck_assert(!schedule->takes_extra);
        ck_assert_msg(strstr(err.message, "extra_in_flight") != NULL, "%s", err.message);
        return;
    }
    ck_assert_int_eq(schedule->order(&place, more), count);
    for (int i = 0; i < count; i++)
        changed = changed || plain[i].kind != more[i].kind || plain[i].micro != more[i].micro;
    ck_assert_int_eq(changed, schedule->takes_extra);
}
END_TEST

/* Where steps run into each other: a place serves at most so many micro-batches of a step as whole rounds of those held
 * fit into it, and there is no place too many. */
START_TEST(places_serve_a_step)
{
    const struct schedule *stash = schedules[schedule_find("pipedream")];
    for (int stages = 1; stages <= 8; stages++)
        for (int stage = 0; stage < stages; stage++)
            for (int micros = stages; micros <= 24; micros++) {
                struct schedule_place place = schedule_place_even(stages, stage, micros, 0);
                int rounds = micros / (stages - stage), places = schedule_held(stash, &place);
                ck_assert_int_ge(places * rounds, micros);
                ck_assert_int_lt((places - 1) * rounds, micros);
            }
}
END_TEST

/* Replicas see their own share: in flight is the ceiling of the replicas from here on over the stage's own. */
START_TEST(turns_count_in_their_own_micro_batches)
{
    static const int turns[][4] = { { 1, 1, 1, 1 }, { 2, 1, 1, 1 }, { 1, 3, 2, 1 }, { 3, 1, 1, 2 }, { 4, 2, 1, 1 } };
    const struct schedule *plain = schedules[schedule_find("1f1b")];
    for (size_t t = 0; t < sizeof turns / sizeof *turns; t++) {
        struct shape shape = { .stages = 4 };
        memcpy(shape.turns, turns[t], sizeof turns[t]);
        struct plan *plan = shape_plan(&shape, 8);
        plan->micro_batch_count = 64;
        for (int s = 0, at = 0; s < 4; at += turns[t][s++]) {
            int after = 0;
            for (int later = s; later < 4; later++)
                after += turns[t][later];
            for (int turn = 0; turn < turns[t][s]; turn++) {
                struct schedule_place place = schedule_place_of(plan, at + turn);
                ck_assert_int_eq(place.stages, 4);
                ck_assert_int_eq(place.stage, s);
                ck_assert_int_eq(place.micro_count, (64 - turn + turns[t][s] - 1) / turns[t][s]);
                ck_assert_int_eq(in_flight_by_order(plain, &place), (after + turns[t][s] - 1) / turns[t][s]);
            }
        }
        plan_free(plan);
    }
}
END_TEST

/* ---- programs ---- */
#define DEEP                                                                                                           \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"deep\", \"sequence\": 4, \"hidden\": 8, "              \
    "\"vocab_size\": 16, \"tied_embedding\": true, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 7, "           \
    "\"layers\": [{\"kind\": \"mlp\", \"inner\": 16, \"activation\": \"gelu\", \"bias\": true, \"norm\": "             \
    "\"layer_norm\"}]}, {\"kind\": \"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}"

static struct graph *deep_graph(int batch)
{
    struct model *model;
    struct graph *graph;
    struct error error = { 0 };
    ck_assert_msg(model_read(&model, "deep", DEEP, strlen(DEEP), NULL, &error), "%s", error.message);
    ck_assert_msg(graph_build(&graph, model, batch, 0, 1, &error), "%s", error.message);
    model_free(model);
    return graph;
}

/* By either clock in turn. */
static void verify_shape(int schedule, const struct shape *shape, int micros, int extra)
{
    struct graph *graph = deep_graph(12 * micros);
    struct plan *plan = shape_plan(shape, graph->layer_count);
    struct program *program = NULL;
    struct error error = { 0 };
    plan->batch = graph->batch, plan->sequence = graph->sequence, plan->vocab_multiple = 1;
    plan->schedule = schedule, plan->micro_batch_count = micros, plan->extra_in_flight = extra;
    if (schedules[schedule]->grouped && shape->stages > 1 && micros % 2)
        plan->chunk_group = micros - micros % 3; /* often none that may be */
    plan->clip_norm = schedules[schedule]->updates_each ? 0 : 1;
    plan->clock = (micros + shape->stages) % CLOCK_COUNT;
    for (int l = 0; l < plan->layer_count; l++)
        plan->layers[l].dim[0] = DIM_dp, plan->layers[l].recompute = (int8_t)(l % 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE);
    if (plan_check(plan, graph, &error)) {
        ck_assert_msg(lower_program(&program, graph, plan, &error) && layout_program(program, &error) &&
                          verify_program(program, &error),
                      "%s, %d stages, %d chunks, %d micro-batches, turns %d %d %d %d: %s", schedules[schedule]->name,
                      shape->stages, shape->chunks, micros, shape->turns[0], shape->turns[1], shape->turns[2],
                      shape->turns[3], error.message);
        program_free(program);
    } else {
        ck_assert_msg(schedules[schedule]->interleaves || schedules[schedule]->legal, "%s", error.message);
    }
    plan_free(plan);
    graph_free(graph);
}

/* Lowered, laid out and verified: complete work, sums, waits, and no stall by rendezvous. */
START_TEST(programs_do_not_stall)
{
    for (int stages = 1; stages <= 4; stages++)
        for (int micros = 1; micros <= 8; micros++)
            for (int chunks = 1; chunks <= 3 && chunks * stages <= 10; chunks++)
                for (int extra = 0; extra <= 1; extra++) {
                    struct shape shape = { .stages = stages,
                                           .chunks = chunks,
                                           .folded = schedules[_i]->folded,
                                           .copies = schedules[_i]->copies };
                    if ((chunks > 1) == schedules[_i]->interleaves && in_share((uint64_t)(micros * 5 + chunks)))
                        verify_shape(_i, &shape, micros, extra);
                }
}
END_TEST

/* Replicas in turn, whatever their numbers: also where they are of no common multiple. */
START_TEST(turns_do_not_stall)
{
    for (int code = 1; code < 64 && !schedules[_i]->interleaves; code += share_stride())
        for (int micros = 4; micros <= 7; micros += 3) {
            struct shape shape = { .stages = 3, .turns = { 1 + code % 4, 1 + code / 4 % 4, 1 + code / 16 } };
            verify_shape(_i, &shape, micros, code % 3);
        }
}
END_TEST

/* ---- the clock ---- */
/* Of even stages P - 1 forward and backward passes of one chunk are idle: of 1f1b and gpipe (m + P - 1) / m, of
 * interleaved chunks (m + (P - 1) / v) / m (Narayanan et al. 2021, section 2.2), however many micro-batches are run to
 * find it. Others never idle for less than nothing. */
START_TEST(stretches_are_those_of_the_closed_forms)
{
    for (int stages = 2; stages <= 8; stages *= 2)
        for (int chunks = 1; chunks <= 4; chunks++)
            for (int rounds = 1; rounds <= 64; rounds *= 4) {
                const struct schedule *schedule = schedules[_i];
                struct clock_shape shape = { _i, stages, chunks, rounds * stages, 0 };
                struct error err = { 0 };
                double stretch = 0, m = shape.micro_batches;
                if (schedule->asynchronous || !schedule_takes(schedule, stages, chunks, shape.micro_batches))
                    continue;
                ck_assert_msg(clock_stretch(&stretch, &shape, &err), "%s", err.message);
                if (strcmp(schedule->name, "1f1b") == 0 || strcmp(schedule->name, "gpipe") == 0)
                    CHECK_NEAR(stretch, (m + stages - 1) / m, 1e-12);
                if (strcmp(schedule->name, "interleaved") == 0)
                    CHECK_NEAR(stretch, (m + (stages - 1.0) / chunks) / m, 1e-12);
                ck_assert_double_ge(stretch, 1);
                ck_assert_double_le(stretch, (m + 2 * stages) / m);
            }
}
END_TEST

/* The forward passes of a stage as Megatron-Core lists them (get_schedule_table(), megatron/core/pipeline_parallel/
 * schedules.py): group after group, of each group chunk after chunk. */
static void check_group(int schedule, int stages, int chunks, int micros, int group)
{
    struct arena arena = { 0 };
    struct clock clock = { 0 };
    struct error err = { 0 };
    struct plan_stage rows[4] = { 0 };
    struct layer_range later[16] = { 0 };
    struct plan plan = { .schedule = schedule,
                         .stage_count = stages,
                         .chunk_count = chunks,
                         .chunk_group = group,
                         .micro_batch_count = micros,
                         .stages = rows,
                         .later_chunks = later };
    int64_t end = 0;
    ck_assert_msg(clock_run(&clock, &plan, false, NULL, &arena, &err), "%s", err.message);
    for (int s = 0; s < stages; s++) {
        const struct stage_clock *stage = &clock.stages[s];
        struct schedule_place place = schedule_place_of(&plan, s);
        int at = 0;
        for (int first = 0; first < micros; first += group)
            for (int chunk = 0; chunk < chunks; chunk++)
                for (int micro = first; micro < first + group && micro < micros; micro++, at++) {
                    while (stage->actions[at].kind != ACTION_FORWARD)
                        at++;
                    ck_assert_int_eq(stage->actions[at].micro, micro);
                    ck_assert_int_eq(stage->actions[at].chunk, chunk);
                }
        int warm = 2 * (stages - s - 1) + (chunks - 1) * group + 1; /* its get_pp_rank_microbatches(), and one */
        ck_assert_int_eq(schedule_held(schedules[schedule], &place), warm < micros * chunks ? warm : micros * chunks);
        end = stage->end[stage->count - 1] > end ? stage->end[stage->count - 1] : end;
    }
    ck_assert_int_eq(end, 3 * (chunks * micros + stages - 1)); /* idle as long as where the stages divide */
    arena_free(&arena);
}

START_TEST(groups_are_those_of_megatron)
{
    int schedule = schedule_find("interleaved"), checked = 0;
    for (int stages = 2; stages <= 4; stages++)
        for (int chunks = 2; chunks <= 4; chunks++)
            for (int micros = 1; micros <= 4 * stages; micros++) {
                int least = schedule_least_group(stages, micros);
                ck_assert_int_eq(least > 0, micros >= stages);
                ck_assert(micros % stages != 0 || least == stages);
                for (int group = 1; group <= micros; group++)
                    if (schedule_group_legal(stages, micros, group)) {
                        ck_assert_int_ge(group, least);
                        check_group(schedule, stages, chunks, micros, group);
                        checked++;
                    }
            }
    ck_assert_int_eq(checked, 276);
}
END_TEST

static Suite *schedules_suite(void)
{
    Suite *suite = suite_create("schedules");
    TCase *each = tcase_create("each schedule");
    int count = 0;
    while (schedules[count])
        count++;
    tcase_set_timeout(each, 0);
    tcase_add_loop_test(each, orders_are_complete, 0, count);
    tcase_add_loop_test(each, phases_are_as_said, 0, count);
    tcase_add_loop_test(each, in_flight_is_the_closed_form, 0, count);
    tcase_add_loop_test(each, extra_is_taken_as_said, 0, count);
    tcase_add_loop_test(each, programs_do_not_stall, 0, count);
    tcase_add_loop_test(each, turns_do_not_stall, 0, count);
    tcase_add_loop_test(each, stretches_are_those_of_the_closed_forms, 0, count);
    suite_add_tcase(suite, each);
    CHECK_ADD(suite, groups_are_those_of_megatron);
    CHECK_ADD(suite, places_serve_a_step);
    CHECK_ADD(suite, turns_count_in_their_own_micro_batches);
    return suite;
}

int main(void)
{
    SRunner *runner = srunner_create(schedules_suite());
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
