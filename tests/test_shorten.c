/* Models shortened for the profiler: they do the work of the whole ones, and weigh as much as they were asked to. */
#include "profiler/shorten.h"
#include "profiler/samples.h"
#include "tests/model_files.h"
#include <dirent.h>

static void collect_names(struct samples *names, const struct graph *graph)
{
    struct error err = { 0 };
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        int64_t extents[MAX_AXES] = { 0 };
        for (int i = 0; i < segment->axis_count; i++)
            extents[i] = segment->axes[i].size;
        for (int phase = 0; phase < PHASE_STEP; phase++) {
            char name[WORK_NAME_BYTES];
            segment_work_name(segment, (enum phase)phase, extents, name);
            ck_assert(samples_add(names, name, 1, &err));
        }
    }
}

START_TEST(short_models_do_the_same_work)
{
    DIR *dir = opendir(SOURCE_ROOT "/models/zoo");
    int seen = 0;
    ck_assert_ptr_nonnull(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
        char name[256];
        size_t length = strlen(entry->d_name);
        if (length <= 5 || strcmp(entry->d_name + length - 5, ".json") != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(length - 5), entry->d_name);
        struct model *model = model_of_zoo(name), shortened;
        struct error err = { 0 };
        ck_assert(model_shorten(&shortened, model, 0, &err));
        struct graph *whole = graph_of(model, 2, 0, 128), *part = graph_of(&shortened, 2, 0, 128);
        struct samples a = { 0 }, b = { 0 };
        collect_names(&a, whole);
        collect_names(&b, part);
        ck_assert_int_eq(a.count, b.count);
        for (int i = 0; i < a.count; i++)
            ck_assert_msg(samples_peek(&b, a.series[i].name) != NULL, "%s: %s", name, a.series[i].name);
        ck_assert(part->layer_count <= whole->layer_count);
        seen++;
        samples_free(&a);
        samples_free(&b);
        graph_free(whole);
        graph_free(part);
        arena_free(&shortened.arena);
        model_free(model);
    }
    closedir(dir);
    ck_assert_int_gt(seen, 5);
}
END_TEST

static int64_t parameters_of(const struct model *model)
{
    struct graph *graph = graph_of(model, 2, 0, 128);
    int64_t count = graph_parameter_count(graph);
    graph_free(graph);
    return count;
}

/* Blocks are repeated until there are enough parameters, and no further; never more often than in the model. */
START_TEST(shortened_models_are_long_enough)
{
    struct model *model = model_of_zoo("gpt2"), shortened, shorter;
    struct error err = { 0 };
    int64_t once = 0, before = 0, whole = parameters_of(model);
    for (int blocks = 1; blocks <= 12; blocks++) {
        ck_assert(model_shorten(&shortened, model, before + 1, &err));
        int64_t count = parameters_of(&shortened), block = count - before;
        ck_assert(count > before && (blocks == 12) == (count == whole));
        once = blocks == 2 ? block : once;
        ck_assert(blocks < 2 || block == once);
        ck_assert(model_shorten(&shorter, model, count, &err));
        ck_assert_int_eq(parameters_of(&shorter), count);
        before = count;
        arena_free(&shorter.arena);
        arena_free(&shortened.arena);
    }
    ck_assert(model_shorten(&shortened, model, 2 * whole, &err));
    ck_assert_int_eq(parameters_of(&shortened), whole);
    arena_free(&shortened.arena);
    model_free(model);
}
END_TEST

static Suite *shorten_suite(void)
{
    Suite *suite = suite_create("shorten");
    CHECK_ADD(suite, short_models_do_the_same_work);
    CHECK_ADD(suite, shortened_models_are_long_enough);
    return suite;
}
CHECK_MAIN(shorten_suite)
