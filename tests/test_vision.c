/* Models that see: published sizes and work, shapes from layer to layer, and what is refused. */
#include "tests/model_files.h"

/* Parameters and billions of multiplications of one image's forward pass as torchvision's documentation of the weights
 * vit_b_16, vit_l_16, vgg16 and resnet50 (IMAGENET1K_V1) gives them; group norms have as many as batch norms. */
static const struct published {
    const char *name;
    int64_t parameters;
    double billions;
} published[] = {
    { "vit-base-16", 86567656, 17.56 },
    { "vit-large-16", 304326632, 61.55 },
    { "vgg-16", 138357544, 15.47 },
    { "resnet-50", 25557032, 4.09 },
};
enum { PUBLISHED = sizeof published / sizeof *published };

static double forward_products(const struct graph *graph)
{
    double products = 0;
    for (int s = 0; s < graph->segment_count; s++) {
        const struct segment *segment = &graph->segments[s];
        int64_t extents[MAX_AXES];
        for (int i = 0; i < segment->axis_count; i++)
            extents[i] = segment->axes[i].size;
        if (kernel_facts[segment->kernel].multiplies || kernel_facts[segment->kernel].attends)
            products += (double)segment_flops(segment, PHASE_FORWARD, extents) / 2;
    }
    return products;
}

START_TEST(sizes_and_work_are_the_published_ones)
{
    struct model *model = model_of_zoo(published[_i].name);
    struct graph *graph = graph_of(model, 1, 0, 1);
    ck_assert_int_eq(graph_parameter_count(graph), published[_i].parameters);
    CHECK_NEAR(forward_products(graph) / 1e9, published[_i].billions, 0.005 * published[_i].billions);
    graph_free(graph);
    model_free(model);
}
END_TEST

/* ---- shapes ---- */
#define IMAGES(layers)                                                                                                 \
    "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"image_size\":13,\"image_channels\":2,\"vocab_size\":" \
    "10,\"layers\":[" layers "]}"
#define TAIL ",{\"kind\":\"pool\",\"pool\":\"average\"},{\"kind\":\"head\",\"norm\":\"none\"},{\"kind\":\"loss\"}"
#define WIDE(channels, window, more) "{\"kind\":\"conv\",\"channels\":" channels ",\"window\":" window more "}"
#define CONV(more) WIDE("6", "3", more)

/* Behind layer `layer` of a batch of 4. */
static void check_shape(const struct graph *graph, int layer, int64_t rows, int64_t columns, int64_t channels)
{
    const struct graph_layer *l = &graph->layers[layer];
    const struct value *value = &graph->values[l->output_value];
    ck_assert_int_eq(value->size[0], 4);
    ck_assert_int_eq(value->size[1], rows * columns);
    ck_assert_int_eq(value->size[2], channels);
    ck_assert_int_eq(l->columns, columns);
}

/* (size + 2 padding - window) / stride + 1, rounded down. */
START_TEST(shapes_follow_windows)
{
    struct model *model = model_of_text(IMAGES(
        CONV("") "," WIDE("8", "3", ",\"padding\":1,\"stride\":2") ",{\"kind\":\"pool\",\"pool\":\"max\",\"window\":2},"
                                                                   "{\"kind\":\"pool\",\"pool\":\"average\",\"window\":"
                                                                   "3,\"stride\":1,\"padding\":1}" TAIL));
    struct graph *graph = graph_of(model, 4, 0, 1);
    check_shape(graph, 0, 11, 11, 6);
    check_shape(graph, 1, 6, 6, 8);
    check_shape(graph, 2, 3, 3, 8);
    check_shape(graph, 3, 3, 3, 8);
    check_shape(graph, 4, 1, 1, 8);
    ck_assert_int_eq(graph->tokens_value, -1);
    ck_assert_int_eq(graph->values[graph->labels_value].size[1], 1);
    ck_assert(!graph_needs_gradient(graph, graph->image_value));
    graph_free(graph);
    model_free(model);
}
END_TEST

/* A conv over 8 x 2 is not one over 4 x 4, though both have 16 pixels. */
START_TEST(the_shape_of_an_image_is_part_of_a_class)
{
    struct model *model = model_of_text(IMAGES(CONV(",\"padding\":1") "," CONV(",\"padding\":1") "," CONV(
        ",\"padding\":1") "," CONV(",\"padding\":1,\"stride\":2") "," CONV(",\"padding\":1") TAIL));
    struct graph *graph = graph_of(model, 1, 0, 1);
    const struct graph_layer *l = graph->layers;
    ck_assert_int_ne(l[0].class_index, l[1].class_index); /* 2 channels enter, then 6 */
    ck_assert_int_eq(l[1].class_index, l[2].class_index);
    ck_assert_int_ne(l[2].class_index, l[4].class_index); /* 13 x 13, then 7 x 7 */
    graph_free(graph);
    model_free(model);
}
END_TEST

/* ---- refusals ---- */
static const struct {
    const char *text, *message;
} hostile[] = {
    { "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"image_size\":8,\"sequence\":@8,\"layers\":[]}",
      "sequence: expected none beside \"image_size\": an image has one label, found 8" },
    { IMAGES("@{\"kind\":\"embedding\"}"), "layers[0]: expected the model's hidden beside its layers" },
    { IMAGES("@{\"kind\":\"patches\",\"patch\":1}"), "layers[0]: expected the model's hidden beside its layers" },
    { MODEL("@{\"kind\":\"patches\",\"patch\":4}"), "layers[0]: expected the model's \"image_size\"" },
    { MODEL("@" CONV("")), "layers[0]: expected the model's \"image_size\": a conv reads an image" },
    { IMAGES(CONV(",\"norm_groups\":@4")), "layers[0].norm_groups: expected a divisor of channels (6), found 4" },
    { IMAGES(CONV(",\"padding\":@3")), "layers[0].padding: expected less than the window (3), found 3" },
    { IMAGES(CONV("") ",@{\"kind\":\"pool\",\"pool\":\"max\",\"stride\":2}"),
      "layers[1]: expected a window beside its stride or padding" },
    { IMAGES(CONV("") ",{\"kind\":\"pool\",\"pool\":\"max\",\"window\":2,\"padding\":@2}"),
      "layers[1].padding: expected at most half of the window (2), found 2" },
    { IMAGES(CONV("") ",@{\"kind\":\"pool\",\"pool\":\"first\",\"window\":2}"),
      "layers[1]: expected no window, stride or padding beside \"first\"" },
};
enum { HOSTILE = sizeof hostile / sizeof *hostile };

START_TEST(contradictions_are_refused_where_they_stand)
{
    check_refused(hostile[_i].text, hostile[_i].message);
}
END_TEST

/* What is seen when shapes are known. */
static const struct {
    const char *text, *message;
} unfit[] = {
    { IMAGES(CONV(",\"name\":\"a\"") "," CONV(",\"name\":\"b\"") ",{\"kind\":\"add\",\"inputs\":[\"a\",\"b\"]}" TAIL),
      "layer 2.add: expected inputs of one shape: 0.a gives 6 x 11 x 11, 1.b gives 6 x 9 x 9" },
    { IMAGES(CONV("") "," WIDE("6", "12", "") TAIL),
      "layer 1.conv: expected a window within the image of 11 x 11 and its padding of 0, found 12 x 12" },
    { IMAGES(CONV("") ",{\"kind\":\"head\",\"norm\":\"none\"},{\"kind\":\"loss\"}"),
      "layer 2.loss: expected logits for the image's one label, found them at 121 positions: put a pool layer before "
      "the head" },
    { IMAGES(CONV("") ",{\"repeat\":2,\"layers\":[" CONV("") "]}" TAIL),
      "layer 2.conv: expected the copies of a repeat to be alike, but what enters it has another shape than what "
      "enters "
      "1.conv: write that copy outside of the repeat" },
    { "{\"format\":\"cleave-model\",\"version\":1,\"name\":\"t\",\"image_size\":8,\"hidden\":16,\"vocab_size\":10,"
      "\"layers\":[{\"kind\":\"patches\",\"patch\":4}," CONV("") TAIL "]}",
      "layer 1.conv: expected an image to enter, found a sequence: a conv cannot follow patches" },
};
enum { UNFIT = sizeof unfit / sizeof *unfit };

START_TEST(shapes_that_do_not_fit_are_refused)
{
    struct model *model = model_of_text(unfit[_i].text);
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert(!graph_build(&graph, model, 1, 0, 1, &err));
    ck_assert_ptr_null(graph);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    ck_assert_str_eq(err.message, unfit[_i].message);
    model_free(model);
}
END_TEST

START_TEST(images_take_no_sequence)
{
    struct model *model = model_of_zoo("tiny-vit");
    struct graph *graph = NULL;
    struct error err = { 0 };
    ck_assert(!graph_build(&graph, model, 1, 64, 1, &err));
    ck_assert_str_eq(err.message, "sequence: the model reads images, whose size is its own (32 x 32): expected none, "
                                  "found 64 tokens");
    model_free(model);
}
END_TEST

static Suite *vision_suite(void)
{
    Suite *suite = suite_create("vision");
    TCase *loops = tcase_create("lists");
    tcase_add_loop_test(loops, sizes_and_work_are_the_published_ones, 0, PUBLISHED);
    tcase_add_loop_test(loops, contradictions_are_refused_where_they_stand, 0, HOSTILE);
    tcase_add_loop_test(loops, shapes_that_do_not_fit_are_refused, 0, UNFIT);
    suite_add_tcase(suite, loops);
    CHECK_ADD(suite, shapes_follow_windows);
    CHECK_ADD(suite, the_shape_of_an_image_is_part_of_a_class);
    CHECK_ADD(suite, images_take_no_sequence);
    return suite;
}
CHECK_MAIN(vision_suite)
