/* Plans: questions about meshes, what plan_check refuses, the plan file there and back, hostile files. */
#include "base/num.h"
#include "models/model.h"
#include "planner/plan/plan_json.h"
#include "tests/pipeline_shape.h"
#include "planner/program/schedule.h"
#include "tests/check.h"
#include <limits.h>
#include <stdio.h>
#include <string.h>

static struct graph *small_graph(int64_t batch, int64_t vocab_multiple)
{
    static const char text[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"small\", \"sequence\": 16, \"hidden\": 16, "
        "\"vocab_size\": 60, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 2, \"layers\": ["
        "{\"kind\": \"attention\", \"heads\": 4, \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"mlp\", \"inner\": 64, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}]}, {\"kind\": "
        "\"head\", \"norm\": \"layer_norm\"}, {\"kind\": \"loss\"}]}";
    struct model *model = NULL;
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert_msg(model_read(&model, "small", text, sizeof text - 1, NULL, &err), "%s", err.message);
    ck_assert_msg(graph_build(&graph, model, batch, 0, vocab_multiple, &err), "%s", err.message);
    model_free(model);
    return graph;
}

/* Two stages of data 2 x tensor 2; 7 layers. */
static struct plan *small_plan(int64_t batch)
{
    struct plan *plan = plan_new(2, 7);
    ck_assert_ptr_nonnull(plan);
    plan->batch = batch;
    plan->sequence = 16;
    plan->vocab_multiple = 4;
    plan->dtype = DTYPE_BF16;
    plan->micro_batch_count = 4;
    plan->atom_count = 2;
    plan->prefetch = 1;
    plan->bucket_bytes = 1 << 20;
    plan->rank_count = 8;
    plan->stages[0] = (struct plan_stage){ 0, 3, 0, { 2, 2, 1, 1 }, 0 };
    plan->stages[1] = (struct plan_stage){ 3, 4, 4, { 2, 2, 1, 1 }, 0 };
    for (int l = 0; l < 7; l++) {
        plan->layers[l].dim[0] = DIM_dp;
        plan->layers[l].dim[1] = DIM_tp;
        plan->layers[l].zero = (int8_t)(l < 4 ? 1 : 3);
        plan->layers[l].recompute = l == 2 ? RECOMPUTE_FULL : RECOMPUTE_NONE;
    }
    return plan;
}

START_TEST(mesh_questions)
{
    struct plan *plan = small_plan(8);
    ck_assert_int_eq(stage_rank_count(plan, 0), 4);
    for (int r = 0; r < 8; r++)
        ck_assert_int_eq(stage_of_rank(plan, r), r / 4);
    for (int l = 0; l < 7; l++)
        ck_assert_int_eq(stage_of_layer(plan, l), l < 3 ? 0 : 1);
    for (int r = 0; r < 4; r++) { /* the last atom is the innermost */
        ck_assert_int_eq(atom_coordinate(plan, 0, r, 0), r / 2);
        ck_assert_int_eq(atom_coordinate(plan, 0, r, 1), r % 2);
        ck_assert_int_eq(atom_coordinate(plan, 0, r, 2), 0);
    }
    struct plan *copy = plan_copy(plan);
    ck_assert(plan_hash(copy) == plan_hash(plan));
    copy->layers[6].slices = 2;
    ck_assert(plan_hash(copy) != plan_hash(plan));
    plan_free(copy);
    plan_free(plan);
}
END_TEST

static void expect_refusal(const struct plan *plan, const struct graph *graph, const char *part)
{
    struct error err = { 0 };
    ck_assert_msg(!plan_check(plan, graph, &err), "accepted, expected: %s", part);
    ck_assert_msg(strstr(err.message, part) != NULL, "message \"%s\" lacks \"%s\"", err.message, part);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
}

/* Which decision plan_check_at() names for a plan that it refuses. */
static void expect_key(struct plan *plan, const struct graph *graph, const char *key)
{
    const char *found = NULL;
    struct error err = { 0 };
    ck_assert(!plan_check_at(&found, plan, graph, &err));
    ck_assert_msg(strcmp(found, key) == 0, "%s is said to be about \"%s\", expected \"%s\"", err.message, found, key);
    plan_free(plan);
}

START_TEST(refusals_name_the_decision)
{
    struct graph *graph = small_graph(8, 4);
#define CONCERNS(change, key)                                                                                          \
    do {                                                                                                               \
        struct plan *bad = small_plan(8);                                                                              \
        bad->change;                                                                                                   \
        expect_key(bad, graph, key);                                                                                   \
    } while (0)
    CONCERNS(layer_count = 6, "layers");
    CONCERNS(stages[1].first_rank = 3, "stages");
    CONCERNS(layers[3].zero = 4, "layers");
    CONCERNS(micro_batch_count = 3, "batch");
    CONCERNS(schedule = schedule_find("interleaved"), "schedule");
    CONCERNS(schedule = schedule_find("pipedream"), "schedule");
    struct plan *clipped = small_plan(8);
    clipped->schedule = schedule_find("pipedream"), clipped->clip_norm = 1;
    expect_key(clipped, graph, "clip_norm");
    graph_free(graph);
}
END_TEST

START_TEST(check_refuses)
{
    struct graph *graph = small_graph(8, 4);
    struct plan *plan = small_plan(8);
    struct error err = { 0 };
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
#define REFUSED(field, value, part)                                                                                    \
    do {                                                                                                               \
        struct plan *bad = small_plan(8);                                                                              \
        bad->field = value;                                                                                            \
        expect_refusal(bad, graph, part);                                                                              \
        plan_free(bad);                                                                                                \
    } while (0)
    REFUSED(stages[1].first_layer, 2, "stage 1");
    REFUSED(stages[1].layer_count, 5, "stage 1");
    REFUSED(stages[1].layer_count, 3, "hold 6 layers");
    REFUSED(stages[0].layer_count, 0, "stage 0");
    REFUSED(stages[1].first_rank, 5, "stage 1: expected its ranks to begin at 0 to 4, found 5");
    REFUSED(stages[0].first_rank, -1, "stage 0: expected its ranks to begin at 0 to 4, found -1");
    REFUSED(stages[1].first_rank, 3, "stage 0: expected ranks of its own, found rank 0 on, which stage 1 has too");
    REFUSED(stages[1].first_rank, 0, "stage 0: expected ranks of its own");
    REFUSED(stages[0].atom[1], 0, "atom 1");
    REFUSED(stages[0].atom[2], 2, "atom 2");
    REFUSED(rank_count, 9, "8 ranks");
    REFUSED(atom_count, 0, "mesh atoms");
    REFUSED(micro_batch_count, 0, "micro-batch");
    REFUSED(micro_batch_count, PLAN_MAX_MICRO_BATCHES + 1, "larger micro-batches make fewer");
    REFUSED(extra_in_flight, -1, "extra_in_flight");
    REFUSED(extra_in_flight, INT_MAX, "extra_in_flight");
    REFUSED(bucket_bytes, -1, "bucket_bytes");
    REFUSED(prefetch, -1, "prefetch");
    REFUSED(prefetch, INT_MAX, "prefetch");
    REFUSED(clip_norm, NAN, "clip_norm");
    REFUSED(schedule, 99, "schedule");
    REFUSED(dtype, DTYPE_COUNT, "dtype");
    REFUSED(layers[3].dim[0], DIM_COUNT, "layer 3");
    REFUSED(layers[3].dim[3], DIM_dp, "layer 3");
    REFUSED(layers[3].zero, 4, "zero");
    REFUSED(layers[3].recompute, -1, "recompute");
    REFUSED(layers[3].reshard, RESHARD_COUNT, "reshard");
    REFUSED(layers[3].slices, 0, "slices");
    REFUSED(batch, 16, "batch of 16");
    REFUSED(vocab_multiple, 128, "vocabulary");
    REFUSED(layer_count, 6, "6 layers");
    plan_free(plan);
    graph_free(graph);
}
END_TEST

START_TEST(check_names_the_nearest_batches)
{
    struct graph *graph = small_graph(20, 4), *tiny = small_graph(3, 4);
    struct plan *plan = small_plan(20);
    expect_refusal(plan, graph, "sizes are 16 and 24");
    plan->batch = 3;
    expect_refusal(plan, tiny, "size is 8");
    plan_free(plan);
    graph_free(graph);
    graph_free(tiny);
}
END_TEST

/* ---- the file ---- */

static struct plan_context full_context(void)
{
    return (struct plan_context){ .model = { "zoo/small.json", "small", 0x123456789abcdef0u },
                                  .cluster = { "1x8:cpu", "1x8:cpu", 7 },
                                  .options = { "--batch 8", NULL, 9 },
                                  .cleave = "0.1.0" };
}

START_TEST(file_round_trip)
{
    struct plan *plan = small_plan(8);
    plan->clip_norm = 1.5;
    int64_t peaks[2] = { 100, 200 }, available[2] = { 300, 400 }, parts[2] = { 1000000000, 500000000 };
    static const char *const names[] = { "compute", "bubble" };
    struct prediction prediction = { .step_ns = 1500000000,
                                     .tokens_per_s_per_device = 12.5,
                                     .mfu = 0.25,
                                     .fits = true,
                                     .stage_count = 2,
                                     .peak_bytes = peaks,
                                     .available_bytes = available,
                                     .breakdown_count = 2,
                                     .breakdown_names = names,
                                     .breakdown_ns = parts,
                                     .analytic = true };
    struct plan_context context = full_context();
    size_t length = 0, again_length = 0;
    char *text = plan_json_write(plan, &prediction, &context, &length);
    struct plan_file *file = NULL;
    struct error err = { 0 };
    ck_assert_ptr_nonnull(text);
    ck_assert_msg(plan_json_read(&file, "plan.json", text, length, &err), "%s", err.message);
    ck_assert(plan_hash(file->plan) == plan_hash(plan));
    ck_assert_int_eq(file->predicted_step_ns, prediction.step_ns);
    ck_assert_int_eq(file->predicted_stages, 2);
    ck_assert_int_eq(file->predicted_peak_bytes[1], 200);
    ck_assert_str_eq(file->context.model.source, "zoo/small.json");
    ck_assert(file->context.model.hash == context.model.hash);
    ck_assert_ptr_null(file->context.profile.source);
    char *again = plan_json_write(file->plan, &prediction, &file->context, &again_length);
    ck_assert_uint_eq(length, again_length);
    ck_assert_int_eq(memcmp(text, again, length), 0);
    ck_assert_ptr_nonnull(strstr(text, "\"available_bytes\": 300")); /* the least; and one by one, since they differ */
    ck_assert_ptr_nonnull(strstr(text, "\"stage_available_bytes\": ["));
    ck_assert_msg(strstr(text, "\"layers\": \"4-6\"") != NULL, "equal layers are not folded:\n%s", text);
    free(again);
    free(text);
    plan_file_free(file);
    plan_free(plan);
}
END_TEST

/* Where others may write, what they wrote stays. */
START_TEST(file_keeps_what_others_added)
{
    struct plan *plan = small_plan(8);
    struct plan_context context = full_context();
    size_t length = 0, again_length = 0;
    char *text = plan_json_write(plan, NULL, &context, &length), with[1 << 14];
    const char *decisions = strstr(text, "\"decisions\": {") + strlen("\"decisions\": {"),
               *origin = strstr(text, "\"context\": {") + strlen("\"context\": {");
    snprintf(with, sizeof with, "{\"comment\": \"mine\", %.*s\"x-a\": {\"b\": [1, null]},%.*s\"x-c\": 2.5,%s",
             (int)(decisions - text - 1), text + 1, (int)(origin - decisions), decisions, origin);
    struct plan_file *file = NULL, *second = NULL;
    struct error err = { 0 };
    ck_assert_msg(plan_json_read(&file, "plan.json", with, strlen(with), &err), "%s\n%s", err.message, with);
    char *again = plan_file_write(file, &again_length);
    ck_assert_msg(plan_json_read(&second, "again.json", again, again_length, &err), "%s\n%s", err.message, again);
    const struct json *root = json_root(second->document), *added = json_member(json_member(root, "decisions"), "x-a");
    ck_assert_ptr_nonnull(json_member(root, "comment"));
    ck_assert_int_eq(json_count(json_member(added, "b")), 2);
    ck_assert_ptr_nonnull(json_member(json_member(root, "context"), "x-c"));
    ck_assert(plan_hash(second->plan) == plan_hash(plan));
    free(text);
    free(again);
    plan_file_free(file);
    plan_file_free(second);
    plan_free(plan);
}
END_TEST

static struct plan *shaped_plan(const struct shape *shape, const char *schedule)
{
    struct plan *plan = shape_plan(shape, 7);
    plan->batch = 8;
    plan->sequence = 16;
    plan->vocab_multiple = 1;
    plan->schedule = schedule_find(schedule);
    plan->micro_batch_count = 4;
    for (int l = 0; l < 7; l++)
        plan->layers[l].dim[0] = DIM_dp;
    return plan;
}

static const struct shape turning = { .stages = 2, .turns = { 3, 2 } };
static const struct shape interleaving = { .stages = 2, .chunks = 3 };
static const struct shape folded = { .stages = 2, .chunks = 2, .folded = true };
static const struct shape copied = { .stages = 4, .chunks = 2, .folded = true, .copies = true };

START_TEST(shapes_answer_questions)
{
    struct plan *plan = shaped_plan(&turning, "1f1b"); /* layers 0-2 on stages 0, 1, 2; 3-6 on 3, 4 */
    for (int s = 0; s < 5; s++) {
        ck_assert_int_eq(stage_turns(plan, s), s < 3 ? 3 : 2);
        ck_assert_int_eq(stage_of_rank(plan, s), s);
    }
    for (int l = 0; l < 7; l++) {
        ck_assert_int_eq(stage_of_layer(plan, l), l < 3 ? 0 : 3);
        for (int micro = 0; micro < 6; micro++)
            ck_assert_int_eq(stage_of_work(plan, l, micro), l < 3 ? micro % 3 : 3 + micro % 2);
    }
    ck_assert_int_eq(stage_micro_batches(plan, 0), 2);
    ck_assert_int_eq(stage_micro_batches(plan, 1), 1);
    ck_assert_int_eq(stage_micro_batches(plan, 4), 2);
    plan_free(plan);
    plan = shaped_plan(&interleaving, "interleaved");
    for (int l = 0, last = 0; l < 7; l++) { /* 0, 1, 2, 3, 4, 5-6 */
        last = l < 6 ? l % 2 : 1;
        ck_assert_int_eq(stage_of_layer(plan, l), last);
        ck_assert(stage_holds(plan, last, l) && !stage_holds(plan, 1 - last, l));
    }
    struct plan *copy = plan_copy(plan);
    ck_assert(plan_hash(copy) == plan_hash(plan));
    plan_set_chunk(copy, 0, 2, (struct layer_range){ 4, 2 });
    ck_assert(plan_hash(copy) != plan_hash(plan));
    plan_free(copy);
    plan_free(plan);
    plan = shaped_plan(&copied, "chimera"); /* 0, 1-2, 3-4, 5-6, and the other way round */
    ck_assert_int_eq(plan_copies(plan), 2);
    for (int l = 0; l < 7; l++)
        for (int micro = 0; micro < 4; micro++) {
            int first = (l + 1) / 2, here = micro % 2 ? 3 - first : first;
            ck_assert_int_eq(stage_of_layer(plan, l), first);
            ck_assert_int_eq(stage_of_work(plan, l, micro), here);
            for (int stage = 0; stage < 4; stage++)
                ck_assert_int_eq(stage_holds(plan, stage, l), stage == first || stage == 3 - first);
        }
    plan_free(plan);
}
END_TEST

START_TEST(shapes_are_checked)
{
    struct graph *graph = small_graph(8, 4);
    struct error err = { 0 };
    struct plan *plan = shaped_plan(&turning, "1f1b");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 2;
    expect_refusal(plan, graph, "3 replicas take turns over 2 micro-batches; expected at most 2 turns");
    plan->micro_batch_count = 4;
    plan->stages[1].turn = 2;
    expect_refusal(plan, graph, "stage 1: expected replica 2");
    plan->stages[1].turn = 1;
    plan->stages[2].atom[0] = 2;
    expect_refusal(plan, graph, "stage 2: expected replica 2");
    plan->stages[2].atom[0] = 1;
    for (int s = 0; s < 5; s++) /* the second stage's replicas first: legal; a replica away from its like: not */
        plan->stages[s].first_rank = s < 3 ? s + 2 : s - 3;
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->stages[1].first_rank = 4, plan->stages[2].first_rank = 3;
    expect_refusal(plan, graph,
                   "stage 1: expected replica 1 to follow its like with equal layers and atoms, on the next ranks");
    plan->stages[0].turn = 1;
    expect_refusal(plan, graph, "stage 0: expected replica 1");
    plan_free(plan);
    plan = shaped_plan(&turning, "interleaved");
    expect_refusal(plan, graph, "interleave 1; give 2 or more");
    plan_free(plan);
    plan = shaped_plan(&interleaving, "interleaved");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 1;
    expect_refusal(plan, graph, "multiple of the 2 stages, found 1; the nearest valid numbers are 2 and 2");
    plan->micro_batch_count = 4;
    plan->schedule = schedule_find("1f1b");
    expect_refusal(plan, graph, "one chunk per stage, found interleave 3");
    plan_set_chunk(plan, 1, 1, (struct layer_range){ 4, 1 });
    expect_refusal(plan, graph, "stage 1: expected chunk 1 of it to begin at layer 3");
    plan_free(plan);
    graph_free(graph);
}
END_TEST

/* Both copies are cut alike and lie on equal meshes. */
START_TEST(copies_are_checked)
{
    struct graph *graph = small_graph(8, 4);
    struct error err = { 0 };
    struct plan *plan = shaped_plan(&copied, "chimera");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 2;
    expect_refusal(plan, graph, "multiple of the 4 stages, found 2");
    plan->schedule = schedule_find("dualpipe");
    ck_assert_msg(plan_check(plan, graph, &err), "%s", err.message);
    plan->micro_batch_count = 1;
    expect_refusal(plan, graph, "multiple of the 2 copies of the model, found 1");
    plan->micro_batch_count = 4;
    plan->extra_in_flight = 1;
    expect_refusal(plan, graph, "knows no extra_in_flight");
    plan->extra_in_flight = 0;
    plan_set_chunk(plan, 3, 1, (struct layer_range){ 0, 2 });
    plan_set_chunk(plan, 2, 1, (struct layer_range){ 2, 1 });
    expect_refusal(plan, graph, "stage 3: schedule dualpipe runs on it what stage 0 runs: expected equal layers");
    plan_set_chunk(plan, 3, 1, (struct layer_range){ 0, 1 });
    plan_set_chunk(plan, 2, 1, (struct layer_range){ 1, 2 });
    plan_set_chunk(plan, 0, 1, (struct layer_range){ 5, 1 });
    expect_refusal(plan, graph, "the stages hold 6 layers, but there are 7");
    plan_free(plan);
    struct shape odd = copied;
    odd.stages = 3;
    plan = shaped_plan(&odd, "dualpipe");
    expect_refusal(plan, graph, "even number of stages of 2 chunks each, found 3 of 2");
    plan_free(plan);
    graph_free(graph);
}
END_TEST

START_TEST(shapes_come_back_from_files)
{
    static const struct {
        const struct shape *shape;
        const char *schedule, *shows;
    } cases[] = {
        { &turning, "1f1b", "\"turns\": 3" },
        { &interleaving, "interleaved", "\"layers\": \"1,3,5-6\"" },
        { &folded, "zb-v", "\"layers\": \"0,5-6\"" }, /* down and back up */
        { &copied, "chimera", "\"layers\": \"1-2,3-4\"" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct plan *plan = shaped_plan(cases[i].shape, cases[i].schedule);
        struct plan_file *file = NULL;
        struct error err = { 0 };
        size_t length = 0;
        char *text = plan_json_write(plan, NULL, NULL, &length);
        ck_assert_msg(strstr(text, cases[i].shows) != NULL, "the file lacks %s:\n%s", cases[i].shows, text);
        ck_assert_msg(plan_json_read(&file, "shape", text, length, &err), "%s\n%s", err.message, text);
        ck_assert(plan_hash(file->plan) == plan_hash(plan));
        ck_assert_int_eq(file->plan->rank_count, plan->rank_count);
        struct graph *graph = small_graph(8, 4);
        ck_assert_msg(plan_check(file->plan, graph, &err), "%s", err.message);
        graph_free(graph);
        free(text);
        plan_file_free(file);
        plan_free(plan);
    }
}
END_TEST

/* Random legal plans come back as they were. */
START_TEST(file_round_trip_random)
{
    uint64_t seed = 3;
    for (int n = 0; n < 300; n++) {
        int layers = 1 + (int)(mix64(seed++) % 40), stages = 1 + (int)(mix64(seed++) % (uint64_t)layers),
            atoms = 1 + (int)(mix64(seed++) % MAX_ATOMS), rank = 0;
        struct plan *plan = plan_new(stages, layers);
        plan->batch = 1 + (int64_t)(mix64(seed++) % 1000);
        plan->sequence = 1 + (int64_t)(mix64(seed++) % 1000);
        plan->vocab_multiple = 1 + (int64_t)(mix64(seed++) % 10);
        plan->dtype = (enum dtype)(mix64(seed++) % DTYPE_COUNT);
        plan->schedule = (int)(mix64(seed++) % 2);
        plan->micro_batch_count = 1 + (int)(mix64(seed++) % 9);
        plan->extra_in_flight = (int)(mix64(seed++) % 3);
        plan->bucket_bytes = (int64_t)(mix64(seed++) % 1000000);
        plan->clip_norm = (double)(mix64(seed++) % 1000) / 7;
        plan->atom_count = atoms;
        for (int s = 0; s < stages; s++) {
            struct plan_stage *stage = &plan->stages[s];
            stage->first_layer = (int)((int64_t)layers * s / stages);
            stage->layer_count = (int)((int64_t)layers * (s + 1) / stages) - stage->first_layer;
            stage->first_rank = rank;
            for (int i = 0; i < atoms; i++)
                stage->atom[i] = 1 + (int)(mix64(seed++) % 4);
            rank += stage_rank_count(plan, s);
        }
        plan->rank_count = rank;
        turn_stages(plan, (int)(mix64(seed++) % (uint64_t)stages));
        for (int r = 0; r < rank; r++) {
            const struct plan_stage *stage = &plan->stages[stage_of_rank(plan, r)];
            ck_assert(stage->first_rank <= r && r < stage->first_rank + stage_rank_count(plan, stage_of_rank(plan, r)));
        }
        for (int l = 0; l < layers; l++) {
            for (int i = 0; i < atoms; i++)
                plan->layers[l].dim[i] = (int8_t)(mix64(seed++) % DIM_COUNT);
            plan->layers[l].zero = (int8_t)(mix64(seed++) % 4);
            plan->layers[l].recompute = (int8_t)(mix64(seed++) % RECOMPUTE_COUNT);
            plan->layers[l].slices = (int16_t)(1 + mix64(seed++) % 3);
            plan->layers[l].reshard = (int8_t)(mix64(seed++) % RESHARD_COUNT);
            plan->layers[l].replicate = (uint32_t)mix64(seed++) & OPERATORS_ALL;
        }
        size_t length = 0;
        struct error err = { 0 };
        struct plan_file *file = NULL;
        char *text = plan_json_write(plan, NULL, NULL, &length);
        ck_assert_msg(plan_json_read(&file, "random", text, length, &err), "%s\n%s", err.message, text);
        ck_assert(plan_hash(file->plan) == plan_hash(plan));
        free(text);
        plan_file_free(file);
        plan_free(plan);
    }
}
END_TEST

static void expect_bad_file(const char *text, const char *part)
{
    struct plan_file *file = NULL;
    struct error err = { 0 };
    ck_assert_msg(!plan_json_read(&file, "bad.json", text, strlen(text), &err), "accepted: %s", text);
    ck_assert_ptr_null(file);
    ck_assert_msg(strstr(err.message, part) != NULL, "\"%s\" lacks \"%s\"", err.message, part);
}

/* A good file with one text replaced by another. */
static void expect_bad_edit_of(struct plan *plan, const char *from, const char *to, const char *part)
{
    struct plan_context context = full_context();
    size_t length = 0;
    char *text = plan_json_write(plan, NULL, &context, &length), *at = strstr(text, from),
         *edited = malloc(length + strlen(to) + 1);
    ck_assert_msg(at != NULL, "the file lacks %s:\n%s", from, text);
    memcpy(edited, text, (size_t)(at - text));
    strcpy(edited + (at - text), to);
    strcat(edited, at + strlen(from));
    expect_bad_file(edited, part);
    free(edited);
    free(text);
    plan_free(plan);
}

static void expect_bad_edit(const char *from, const char *to, const char *part)
{
    expect_bad_edit_of(small_plan(8), from, to, part);
}

START_TEST(file_refuses_shapes)
{
    expect_bad_edit_of(shaped_plan(&turning, "1f1b"), "\"turns\": 3", "\"turns\": 0", "from 1 to 1024, found 0");
    expect_bad_edit_of(shaped_plan(&turning, "1f1b"), "\"turns\": 3", "\"turns\": 1025", "from 1 to 1024");
    expect_bad_edit_of(shaped_plan(&turning, "1f1b"), "\"0-2\"", "\"0-1,2\"", "expected 1 ranges");
    expect_bad_edit_of(shaped_plan(&interleaving, "interleaved"), "\"1,3,5-6\"", "\"1,3\"", "expected 3 ranges");
    expect_bad_edit_of(shaped_plan(&interleaving, "interleaved"), "\"1,3,5-6\"", "\"1,3,\"", "range of layers");
    expect_bad_edit_of(shaped_plan(&interleaving, "interleaved"), "\"1,3,5-6\"", "\"1,4,5-6\"", "begins at layer 3");
    expect_bad_edit_of(shaped_plan(&interleaving, "interleaved"), "\"interleave\": 3", "\"interleave\": 65",
                       "interleave");
    expect_bad_edit_of(shaped_plan(&interleaving, "interleaved"), "\"interleave\": 3", "\"interleave\": 0",
                       "interleave");
    expect_bad_edit("\"layers\": \"4-6\"", "\"layers\": \"4-6,\"",
                    "range of layers"); /* no list where layers are decided */
}
END_TEST

START_TEST(file_refuses)
{
    expect_bad_file("", "expected");
    expect_bad_file("[]", "object");
    expect_bad_file("{\"format\": \"cleave-plan\", \"version\": 1}", "decisions");
    expect_bad_edit("\"cleave-plan\"", "\"cleave-plane\"", "expected \"cleave-plan\"");
    expect_bad_edit("\"version\": 1", "\"version\": 2", "version 1");
    expect_bad_edit("\"micro_batches\"", "\"micro_batch\"", "micro_batch");
    expect_bad_edit("\"micro_batches\": 4", "\"micro_batches\": 0", "micro_batches");
    expect_bad_edit("\"batch\": 8", "\"batch\": 8.5", "batch");
    expect_bad_edit("\"1f1b\"", "\"1f2b\"", "did you mean \"1f1b\"");
    expect_bad_edit("\"tp\"", "\"tq\"", "parallel dimension");
    expect_bad_edit("\"layers\": \"0-2\"", "\"layers\": \"0-9999999\"", "range");
    expect_bad_edit("\"layers\": \"0-2\"", "\"layers\": \"1-2\"", "begins at layer 0");
    expect_bad_edit("\"layers\": \"3-6\"", "\"layers\": \"3-5\"", "all 7 layers");
    expect_bad_edit("\"layers\": \"3-6\"", "\"layers\": \"6-3\"", "range");
    expect_bad_edit("\"layers\": \"3-6\"", "\"layers\": \"3-\"", "range");
    expect_bad_edit("\"atoms\": [\n          2,", "\"atoms\": [\n          16000000,", "ranks");
    expect_bad_edit("\"atoms\": [\n          2,", "\"atoms\": [\n          0,", "atoms");
    expect_bad_edit("\"zero\": 3", "\"zero\": 4", "zero");
    expect_bad_edit("\"full\"", "\"fully\"", "recompute");
    expect_bad_edit("\"hash\": \"1", "\"hash\": \"g", "hexadecimal");
}
END_TEST

START_TEST(context_is_held_against_the_present)
{
    struct plan_context file = full_context(), now = full_context();
    struct error err = { 0 };
    ck_assert(plan_context_check(&file, NULL, &now, &err));
    now.model.hash++;
    ck_assert(!plan_context_check(&file, NULL, &now, &err));
    ck_assert_msg(strstr(err.message, "model zoo/small.json") != NULL && strstr(err.message, "cleave plan") != NULL,
                  "%s", err.message);
    now = full_context();
    now.cluster = (struct plan_origin){ "2x8:cpu", "2x8:cpu", 8 };
    err = (struct error){ 0 };
    ck_assert(!plan_context_check(&file, NULL, &now, &err));
    ck_assert_msg(strstr(err.message, "1x8:cpu") != NULL && strstr(err.message, "2x8:cpu") != NULL, "%s", err.message);
    now.cluster.source = NULL; /* not given: the plan's own */
    err = (struct error){ 0 };
    ck_assert(plan_context_check(&file, NULL, &now, &err));
}
END_TEST

static Suite *plan_suite(void)
{
    Suite *suite = suite_create("plan");
    CHECK_ADD(suite, mesh_questions);
    CHECK_ADD(suite, check_refuses);
    CHECK_ADD(suite, refusals_name_the_decision);
    CHECK_ADD(suite, check_names_the_nearest_batches);
    return suite;
}

static Suite *plan_file_suite(void)
{
    Suite *suite = suite_create("plan_file");
    CHECK_ADD(suite, file_round_trip);
    CHECK_ADD(suite, file_keeps_what_others_added);
    CHECK_ADD(suite, file_round_trip_random);
    CHECK_ADD(suite, file_refuses);
    CHECK_ADD(suite, file_refuses_shapes);
    CHECK_ADD(suite, shapes_answer_questions);
    CHECK_ADD(suite, shapes_are_checked);
    CHECK_ADD(suite, copies_are_checked);
    CHECK_ADD(suite, shapes_come_back_from_files);
    CHECK_ADD(suite, context_is_held_against_the_present);
    return suite;
}

CHECK_MAIN(plan_suite, plan_file_suite)
