#include "tests/random_plans.h"
#include "planner/program/schedule.h"
#include "tests/check.h"
#include "tests/oracle_reference.h"
#include "tests/random_numbers.h"

static void draw_stages(struct plan *plan, uint64_t *state, int ranks)
{
    int layer = 0, rank = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        int left = plan->stage_count - s - 1, most = plan->layer_count - layer - left;
        struct plan_stage *stage = &plan->stages[s];
        *stage = (struct plan_stage){ .first_layer = layer, .first_rank = rank, .atom = { 1, 1, 1, 1 } };
        stage->layer_count = left == 0 ? most : 1 + (int)draw(state, (uint64_t)most);
        for (int rest = ranks; rest > 1; rest /= 2)
            stage->atom[draw(state, (uint64_t)plan->atom_count)] *= 2; /* meshes differ by stage */
        layer += stage->layer_count;
        rank += ranks;
    }
    plan->rank_count = rank;
    if (plan->stage_count > 2 && *state % 2) /* the pipeline need not follow the ranks: the last stage comes first */
        for (int s = 0; s < plan->stage_count; s++)
            plan->stages[s].first_rank = (s + 1) % plan->stage_count * ranks;
}

static void draw_choices(struct plan *plan, const struct graph *graph, uint64_t *state)
{
    plan->batch = TINY_BATCH, plan->sequence = graph->sequence, plan->vocab_multiple = TINY_VOCAB_MULTIPLE,
    plan->dtype = sizeof(real) == sizeof(double) ? DTYPE_FP64 : DTYPE_FP32;
    plan->extra_in_flight = (int)draw(state, 2);
    plan->bucket_bytes = draw(state, 2) ? 0 : 1 << (8 + draw(state, 12));
    plan->prefetch = (int)draw(state, 3);
    plan->clip_norm = 1;
    for (int l = 0; l < plan->layer_count; l++) {
        for (int a = 0; a < plan->atom_count; a++)
            plan->layers[l].dim[a] = (int8_t)draw(state, DIM_COUNT);
        plan->layers[l].zero = (int8_t)draw(state, 4);
        plan->layers[l].recompute = (int8_t)draw(state, RECOMPUTE_COUNT);
        plan->layers[l].slices = (int16_t)(draw(state, 3) == 0 ? 2 : 1);
    }
}

/* From numbers of its own, so that the other draws stay what they were. */
static void draw_further(struct plan *plan, uint64_t seed)
{
    plan->loss_chunks = 1 + (int)(mix64(seed * 4129) % 4);
    plan->clock = (int)(mix64(seed * 4133) % CLOCK_COUNT);
    for (int l = 0; l < plan->layer_count; l++) {
        plan->layers[l].offload = (int8_t)(mix64(seed * 4099 + (uint64_t)l) % OFFLOAD_COUNT);
        plan->layers[l].reshard = (int8_t)(mix64(seed * 4111 + (uint64_t)l) % RESHARD_COUNT);
        uint64_t apart = mix64(seed * 4127 + (uint64_t)l);
        uint64_t otherwise = mix64(seed * 4139 + (uint64_t)l);
        plan->layers[l].excepted = otherwise % 3 ? 0 : (otherwise >> 8) & (uint64_t)OPERATORS_EVERY;
        plan->layers[l].replicate = apart % 2 ? (uint32_t)(apart >> 8) & OPERATORS_ALL : 0;
    }
}

struct plan *random_plan(const struct graph *graph, uint64_t seed)
{
    uint64_t state = seed * 1000003;
    for (int attempt = 0;; attempt++) {
        ck_assert_int_lt(attempt, 1000);
        int stages = 1 << draw(&state, 3), ranks = 1 << draw(&state, stages == 4 ? 2 : stages == 2 ? 3 : 4);
        struct plan *plan = plan_new(stages, graph->layer_count);
        struct error error = { 0 };
        plan->atom_count = 1 + (int)draw(&state, 3);
        plan->schedule = (int)draw(&state, 2);
        plan->micro_batch_count = 1 << draw(&state, 3);
        ck_assert(!graph->order || plan_set_order(plan, graph->order));
        draw_stages(plan, &state, ranks);
        draw_choices(plan, graph, &state);
        draw_further(plan, seed);
        if (plan_check(plan, graph, &error))
            return plan;
        plan_free(plan);
    }
}

/* Any schedule with chunks, replicas in turn, meshes that differ by stage. */
static struct shape draw_shape(const struct schedule *schedule, uint64_t *state)
{
    struct shape shape = { .stages = 2 + (int)draw(state, 3), .atom = { 1, 1 << draw(state, 2) } };
    if (schedule->interleaves)
        shape.chunks = schedule->folded ? 2 : 2 + (int)draw(state, 2);
    shape.folded = schedule->folded, shape.copies = schedule->copies;
    bool unequal = draw(state, 2) == 0;
    for (int s = 0; s < shape.stages; s++) {
        shape.turns[s] = schedule->interleaves ? 1 : 1 + (int)draw(state, 3);
        shape.outer[s] = 1 << draw(state, 2);
        if (unequal)
            shape.inner[s] = 1 << draw(state, 2);
    }
    return shape;
}

struct plan *random_shape(const struct graph *graph, uint64_t seed)
{
    uint64_t state = seed * 1000003 + 17;
    int count = 0;
    while (schedules[count])
        count++;
    for (int attempt = 0;; attempt++) {
        ck_assert_int_lt(attempt, 10000);
        int schedule = (int)draw(&state, (uint64_t)count);
        struct shape shape = draw_shape(schedules[schedule], &state);
        struct error error = { 0 };
        struct plan *plan = shape_plan(&shape, graph->layer_count);
        ck_assert(!graph->order || plan_set_order(plan, graph->order));
        draw_choices(plan, graph, &state);
        draw_further(plan, seed);
        plan->schedule = schedule;
        plan->micro_batch_count = 1 + (int)draw(&state, 8);
        if (plan->rank_count <= MAX_RANKS && !schedules[schedule]->asynchronous && plan_check(plan, graph, &error))
            return plan;
        plan_free(plan);
    }
}
