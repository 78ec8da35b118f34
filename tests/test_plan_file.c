/* The plan file there and back, what others added to it, hostile files, and the context that it was made in. */
#include "base/num.h"
#include "base/text.h"
#include "formats/plan_file.h"
#include "formats/plan_json.h"
#include "formats/predicted_check.h"
#include "tests/small_plans.h"
#include <stdio.h>
#include <string.h>

static struct plan_context full_context(void)
{
    return (struct plan_context){ .model = { "zoo/small.json", "small", 0x123456789abcdef0u, NULL },
                                  .cluster = { "1x8:cpu", "1x8:cpu", 7, NULL },
                                  .options = { "--batch 8", NULL, 9, NULL },
                                  .target = "megatron-lm",
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
    int64_t host[2] = { 5, 6 };
    prediction.host_bytes = host, prediction.host_available_bytes = 7, prediction.micro_batches_simulated = 3;
    prediction.accuracy.words = "as", prediction.accuracy.runs = 2, prediction.accuracy.median = 0.5;
    struct plan_context context = full_context();
    context.reserve = "auto";
    plan->layers[0].offload = OFFLOAD_BOTH;
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
    ck_assert_str_eq(file->context.target, "megatron-lm");
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

/* What a file predicts is held against what is found, value by value. */
START_TEST(predictions_hold_or_are_named)
{
    struct plan *plan = small_plan(8);
    int64_t peaks[2] = { 100, 200 }, available[2] = { 300, 300 };
    struct prediction prediction = { .step_ns = 1500000000,
                                     .fits = true,
                                     .stage_count = 2,
                                     .peak_bytes = peaks,
                                     .available_bytes = available,
                                     .analytic = true };
    static const struct {
        const char *from, *to, *message; /* of the text; NULL: it holds */
    } cases[] = {
        { "", "", NULL },
        { "\"step_s\": 1.5", "\"step_s\": 1.6", "the plan's program says 1.5, the file 1.6" },
        { "\"fits\": true", "\"fits\": false", "the plan's program says true, the file false" },
        { "\"fits\": true", "\"fits\": 3", "expected true or false, found a number" },
        { "100", "100, 2", "expected 2 values, found 3" },
        { "\"mfu\"", "\"x-mfu\"", "expected the key \"mfu\", found an object without it" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct json_doc *doc = NULL;
        struct error err = { 0 };
        size_t length = 0;
        char *text = plan_json_write(plan, &prediction, NULL, &length), changed[1 << 14];
        const char *at = strstr(strstr(text, "\"predicted\""), cases[i].from);
        snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, cases[i].to, at + strlen(cases[i].from));
        ck_assert_msg(json_parse(&doc, "f", changed, strlen(changed), &err), "%s", err.message);
        bool holds = predicted_holds(json_member(json_root(doc), "predicted"), plan, &prediction, &err);
        ck_assert_msg(holds == !cases[i].message &&
                          (holds || (err.kind == ERROR_GATE && strstr(err.message, cases[i].message))),
                      "%zu: %s", i, err.message);
        json_free(doc);
        free(text);
    }
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
        plan->bucket_bytes = (int64_t)(mix64(seed) % 1000000), plan->loss_chunks = 1 + (int)(mix64(seed++) % 3);
        plan->clock = (int)(mix64(seed++) % CLOCK_COUNT);
        plan->clip_norm = (double)(mix64(seed++) % 1000) / 7;
        plan->atom_count = atoms;
        for (int s = 0; s < stages; s++) {
            struct plan_stage *stage = &plan->stages[s];
            stage->first_layer = (int)((int64_t)layers * s / stages);
            stage->layer_count = (int)((int64_t)layers * (s + 1) / stages) - stage->first_layer;
            stage->first_rank = rank;
            for (int i = 0; i < atoms; i++)
                stage->atom[i] = 1 + (int)(mix64(seed++) % 4);
            rank += plan_stage_rank_count(plan, s);
        }
        plan->rank_count = rank;
        turn_stages(plan, (int)(mix64(seed++) % (uint64_t)stages));
        for (int r = 0; r < rank; r++) {
            const struct plan_stage *stage = &plan->stages[plan_stage_of_rank(plan, r)];
            ck_assert(stage->first_rank <= r &&
                      r < stage->first_rank + plan_stage_rank_count(plan, plan_stage_of_rank(plan, r)));
        }
        for (int l = 0; l < layers; l++) {
            for (int i = 0; i < atoms; i++)
                plan->layers[l].dim[i] = (int8_t)(mix64(seed++) % DIM_COUNT);
            plan->layers[l].zero = (int8_t)(mix64(seed++) % 4);
            plan->layers[l].recompute = (int8_t)(mix64(seed++) % RECOMPUTE_COUNT);
            plan->layers[l].slices = (int16_t)(1 + mix64(seed++) % 3);
            plan->layers[l].reshard = (int8_t)(mix64(seed++) % RESHARD_COUNT);
            plan->layers[l].replicate = (uint32_t)mix64(seed++) & OPERATORS_ALL;
            plan->layers[l].excepted = mix64(seed++) & (uint64_t)OPERATORS_EVERY;
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
    struct text many = { 0 };
    text_add(&many, "{\"format\":\"cleave-plan\",\"version\":1,\"decisions\":{\"batch\":8,\"sequence\":8,\"dtype\":"
                    "\"fp32\",\"schedule\":"
                    "\"1f1b\",\"micro_batches\":1,\"layers\":[{\"layers\":\"0-1024\",\"dims\":[\"dp\"]}],\"stages\":[");
    for (int s = 0; s <= 1024; s++)
        text_printf(&many, "%s{\"layers\":\"%d\",\"atoms\":[1],\"turns\":1024}", s > 0 ? "," : "", s);
    text_add(&many, "]}}");
    expect_bad_file(many.data, "expected at most 1048576 stages and replicas, found more");
    text_free(&many);
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
    now.cluster = (struct plan_origin){ "2x8:cpu", "2x8:cpu", 8, NULL };
    err = (struct error){ 0 };
    ck_assert(!plan_context_check(&file, NULL, &now, &err));
    ck_assert_msg(strstr(err.message, "1x8:cpu") != NULL && strstr(err.message, "2x8:cpu") != NULL, "%s", err.message);
    now.cluster.source = NULL; /* not given: the plan's own */
    err = (struct error){ 0 };
    ck_assert(plan_context_check(&file, NULL, &now, &err));
}
END_TEST

static Suite *plan_file_suite(void)
{
    Suite *suite = suite_create("plan_file");
    CHECK_ADD(suite, file_round_trip);
    CHECK_ADD(suite, predictions_hold_or_are_named);
    CHECK_ADD(suite, file_keeps_what_others_added);
    CHECK_ADD(suite, file_round_trip_random);
    CHECK_ADD(suite, file_refuses);
    CHECK_ADD(suite, file_refuses_shapes);
    CHECK_ADD(suite, shapes_come_back_from_files);
    CHECK_ADD(suite, context_is_held_against_the_present);
    return suite;
}

CHECK_MAIN(plan_file_suite)
