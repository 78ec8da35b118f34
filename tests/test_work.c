/* What segments compute: operations, scratch, and the names by which measured times are kept. */
#include "models/builder.h"
#include "models/kinds/layers.h"
#include "models/layer_kind.h"
#include "tests/model_files.h"
#include "tests/zoo_models.h"

/* Halves of an axis do the work of the whole, whatever the kernel; a causal core excepted, whose halves are not told
 * apart. */
START_TEST(work_is_conserved_by_splits)
{
    static const char *const names[] = { "tiny-gpt", "tiny-llama", "bert-large" };
    for (int m = 0; m < 3; m++) {
        struct model *model = model_of_zoo(names[m]);
        struct graph *graph = graph_of(model, 4, 0, 256);
        for (int i = 0; i < graph->segment_count; i++) {
            const struct segment *segment = &graph->segments[i];
            for (int axis = 0; axis < segment->axis_count; axis++) {
                bool causal = segment->arguments.causal &&
                              (segment->axes[axis].tag == TAG_SEQUENCE || segment->axes[axis].tag == TAG_KEY);
                for (int phase = 0; phase < PHASE_COUNT && !causal; phase++) {
                    int64_t all[MAX_AXES], half[MAX_AXES];
                    whole(segment, all);
                    whole(segment, half);
                    ck_assert_int_eq(half[axis] % 2, 0);
                    half[axis] /= 2;
                    ck_assert_int_eq(segment_flops(segment, (enum phase)phase, all),
                                     2 * segment_flops(segment, (enum phase)phase, half));
                }
            }
        }
        graph_free(graph);
        model_free(model);
    }
}
END_TEST

struct work {
    char name[WORK_NAME_BYTES];
    int64_t flops, scratch;
};

START_TEST(equal_work_names_cost_the_same)
{
    static const char *const names[] = { "tiny-gpt", "tiny-llama", "gpt2", "llama-2-7b", "llama-3-8b", "bert-large" };
    struct work *works = calloc(4096, sizeof *works);
    int count = 0;
    for (int m = 0; m < 6; m++) {
        struct model *model = model_of_zoo(names[m]);
        struct graph *graph = graph_of(model, 2, m < 2 ? 32 : 512, 128);
        for (int i = 0; i < graph->segment_count && count < 4000; i++)
            for (int phase = 0; phase < PHASE_STEP; phase++) {
                int64_t extents[MAX_AXES];
                struct work *work = &works[count];
                whole(&graph->segments[i], extents);
                segment_work_name(&graph->segments[i], (enum phase)phase, extents, work->name);
                work->flops = segment_flops(&graph->segments[i], (enum phase)phase, extents);
                work->scratch = segment_scratch_elements(graph, &graph->segments[i], (enum phase)phase, extents);
                int k = 0;
                while (strcmp(works[k].name, work->name) != 0)
                    k++;
                ck_assert_msg(works[k].flops == work->flops && works[k].scratch == work->scratch, "%s", work->name);
                count += k == count;
            }
        graph_free(graph);
        model_free(model);
    }
    ck_assert_int_gt(count, 100);
    ck_assert_int_lt(count, 1000);
    free(works);
}
END_TEST

START_TEST(work_names_are_canonical)
{
    struct model *model = model_of_zoo("tiny-llama");
    struct graph *graph = graph_of(model, 2, 0, 1);
    char name[WORK_NAME_BYTES];
    int64_t extents[MAX_AXES];
    const struct segment *layer = &graph->segments[graph->layers[1].first_segment];
    whole(&layer[1], extents);
    segment_work_name(&layer[1], PHASE_FORWARD, extents, name);
    ck_assert_str_eq(name, "matmul.forward b2 t32 h64+ n4 d16");
    whole(&layer[6], extents);
    segment_work_name(&layer[6], PHASE_BACKWARD_INPUT, extents, name);
    ck_assert_str_eq(name, "attention.backward_input b2 t32 s32~ n4 d16 kv2 causal");
    extents[1] = 16; /* half the queries: no triangle any more; one query head: one key head */
    extents[3] = 1;
    segment_work_name(&layer[6], PHASE_BACKWARD_INPUT, extents, name);
    ck_assert_str_eq(name, "attention.backward_input b2 t16 s32~ n1 d16 kv1 halved");
    ck_assert_int_eq(segment_flops(&layer[6], PHASE_FORWARD, extents), 4 * 2 * 16 * 32 * 1 * 16 / 2);
    ck_assert_int_eq(segment_scratch_elements(graph, &layer[6], PHASE_FORWARD, extents),
                     2 * ATTENTION_TILE_ROWS * (32 + 16));
    ck_assert_int_eq(segment_scratch_elements(graph, &layer[1], PHASE_FORWARD, extents), 0);
    graph_free(graph);
    model_free(model);
}
END_TEST

START_TEST(opaque_times_are_shared_out_whole)
{
    struct model *model = model_of_zoo("tiny-opaque");
    struct graph *graph = graph_of(model, 8, 0, 1);
    const int64_t want[5][3] = {
        { 100, 0, 200 }, { 100, 100, 100 }, { 100, 100, 100 }, { 400, 400, 400 }, { 50, 100, 0 }
    };
    for (int i = 0; i < 5; i++) {
        const struct segment *segment = &graph->segments[i];
        int64_t extents[MAX_AXES];
        whole(segment, extents);
        for (int phase = 0; phase < 3; phase++) {
            ck_assert_int_eq(segment_opaque_ns(segment, (enum phase)phase, extents), 8000 * want[i][phase]);
            ck_assert_int_eq(segment_flops(segment, (enum phase)phase, extents), 0);
        }
    }
    ck_assert_int_eq(graph->class_count, 4);
    ck_assert(!graph_needs_gradient(graph, graph->tokens_value));
    graph_free(graph);
    model_free(model);
}
END_TEST

/* Of 100 queries each sees itself and up to 29 keys before it, or 15 on each side; keys are 24 wide, values 16. */
START_TEST(windows_and_narrow_values_take_what_is_seen)
{
    struct segment s = { .kernel = KERNEL_ATTENTION, .axis_count = 6, .in_count = 3, .out_count = 2 };
    static const enum axis_tag tags[] = { TAG_BATCH, TAG_SEQUENCE, TAG_KEY, TAG_HEAD, TAG_HEAD_DIM, TAG_HEAD_DIM };
    const int64_t extents[MAX_AXES] = { 2, 100, 100, 3, 24, 16 };
    int64_t pairs = 0;
    for (int i = 0; i < 6; i++)
        s.axes[i] = (struct axis){ .tag = tags[i], .size = extents[i], .grain = 1 };
    s.in[0] = s.out[0] = (struct operand){ .axis = { 0, 1, 3, 4, -1 } };
    s.in[1] = (struct operand){ .axis = { 0, 2, 3, 4, -1 } };
    s.in[2] = (struct operand){ .axis = { 0, 2, 3, 5, -1 } };
    for (int i = 0; i < 10; i++) {
        const int64_t window = s.arguments.sliding_window = 30 * (i / 2);
        const bool causal = s.arguments.causal = i % 2;
        pairs = 0;
        for (int t = 0; t < 100; t++)
            for (int k = 0; k < 100; k++)
                pairs += causal ? k <= t && (!window || t - k < window) : !window || abs(t - k) <= window / 2;
        ck_assert_int_eq(segment_flops(&s, PHASE_FORWARD, extents), 2 * 3 * pairs * 2 * (24 + 16));
        ck_assert_int_eq(segment_flops(&s, PHASE_BACKWARD_INPUT, extents), 2 * 3 * pairs * 2 * (3 * 24 + 2 * 16));
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("work");
    CHECK_ADD(s, work_is_conserved_by_splits);
    CHECK_ADD(s, equal_work_names_cost_the_same);
    CHECK_ADD(s, work_names_are_canonical);
    CHECK_ADD(s, opaque_times_are_shared_out_whole);
    CHECK_ADD(s, windows_and_narrow_values_take_what_is_seen);
    return s;
}

CHECK_MAIN(suite)
