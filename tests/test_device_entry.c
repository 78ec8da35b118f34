/* Devices with measured products: the file, what lies between the products, the fit, and a device measured here. */
#include "base/text.h"
#include "executor/comm_threads.h"
#include "host/catalogue.h"
#include "planner/cost/cost.h"
#include "profiler/device_entry.h"
#include "profiler/device_fit.h"
#include "profiler/resident.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/random_numbers.h"

enum { PHASES = 3 };

static double uniform(uint64_t *state, double low, double high)
{
    return low + (high - low) * (double)random_below(state, 1 << 20) / (1 << 20);
}

static struct device_type device_named(const char *name, struct cluster **cluster)
{
    char text[64];
    snprintf(text, sizeof text, "1x1:%s", name);
    *cluster = cluster_open(text);
    return (*cluster)->types[0].device;
}

/* ---- the file ---- */

static char *written(const struct device_type *device)
{
    struct json_writer w = { 0 };
    size_t length;
    device_type_write(&w, device);
    char *text = json_finish(&w, &length);
    ck_assert(text != NULL);
    return text;
}

static struct device_type read_back(const char *text, struct arena *arena)
{
    struct device_type device;
    struct error err = { 0 };
    ck_assert_msg(device_type_read(&device, arena, "x", text, strlen(text), &err), "%s\n%s", err.message, text);
    return device;
}

/* Two by three by one products of a device of the catalogue, and what is known of how they came about. */
#define SURFACE                                                                                                        \
    "{\"dtype\": \"fp32\", \"phase\": \"forward\", \"m\": [8, 64], \"n\": [4, 16, 256], \"k\": [32], "                 \
    "\"ns\": [1000, 2000, 9000, 3000, 7000, 50000], \"spread\": [0.5, 0, 0, 0, 0, 0.125], \"repeats\": 9, "            \
    "\"origin\": \"measured\"}"
#define DEVICE_WITH(more)                                                                                              \
    "{\"description\": \"d\", \"source\": \"s\", \"matmul_flops_per_s\": {\"fp32\": 1e12}, \"matmul_efficiency\": "    \
    "0.5, \"attention_forward_efficiency\": 0.5, \"attention_backward_efficiency\": 0.5, "                             \
    "\"vector_flops_per_s\": 1e11, \"memory_bytes_per_s\": 1e10, \"memory_bytes\": 1000000000, \"launch_ns\": 1, "     \
    "\"link_bytes_per_s\": 1e9, \"link_latency_ns\": 1, \"nic_bytes_per_s\": 1e8, \"nic_latency_ns\": 1, " more "}"

START_TEST(a_device_is_read_as_it_was_written)
{
    struct catalogue *catalogue = NULL;
    struct error err = { 0 };
    struct arena arena = { 0 };
    ck_assert(catalogue_read(&catalogue, SOURCE_ROOT "/planner/facts/devices", &err));
    for (int i = 0; i <= catalogue->count; i++) {
        bool last = i == catalogue->count;
        struct device_type first = read_back(last ? DEVICE_WITH("\"measured\": {\"machine\": \"here\", \"created\": "
                                                                "\"today\", \"ranks\": 2, \"launch_spread\": 0.25}, "
                                                                "\"matmul_surfaces\": [" SURFACE "]")
                                                  : catalogue->entries[i].json,
                                             &arena);
        char *text = written(&first), *again;
        struct device_type second = read_back(text, &arena);
        again = written(&second);
        ck_assert_str_eq(text, again);
        ck_assert_int_eq(second.surface_count, last);
        ck_assert_int_eq(second.launch_ns, first.launch_ns);
        CHECK_NEAR(second.nic_efficiency, first.nic_efficiency, 0);
        free(text);
        free(again);
        if (!last)
            continue;
        const struct matmul_surface *s = &second.surfaces[0];
        ck_assert(s->dtype == DTYPE_FP32 && s->phase == PHASE_FORWARD && s->repeats == 9);
        ck_assert_int_eq(s->ns[matmul_surface_index(s, 1, 2, 0)], 50000);
        CHECK_NEAR(s->spread[matmul_surface_index(s, 1, 2, 0)], 0.125, 0);
        ck_assert_str_eq(second.measured.machine, "here");
        CHECK_NEAR(second.measured.launch_spread, 0.25, 0);
    }
    catalogue_free(catalogue);
    arena_free(&arena);
}
END_TEST

START_TEST(wrong_surfaces_are_refused_where_they_stand)
{
    static const struct {
        const char *from, *to, *message;
    } cases[] = {
        { "[8, 64]", "[64, 8]", "matmul_surfaces[0].m[1]: expected more than the m before (64), found 8" },
        { "[8, 64]", "[]", "matmul_surfaces[0].m: expected an array of 1 to 16 sizes, found an array of 0" },
        { "[32]", "[0]", "matmul_surfaces[0].k[0]: expected" },
        { "50000]", "50000, 1]",
          "matmul_surfaces[0].ns: expected an array of 6 numbers (2 x 3 x 1 products), found an array of 7" },
        { "50000", "0", "matmul_surfaces[0].ns[5]: expected" },
        { "0.125", "-1", "matmul_surfaces[0].spread[5]: expected" },
        { "[0.5, 0, 0, 0, 0, 0.125]", "[0.5]", "matmul_surfaces[0].spread: expected an array of 6 numbers" },
        { "\"forward\"", "\"step\"", "matmul_surfaces[0].phase: expected" },
        { "\"ns\"", "\"nss\"", "did you mean" },
        { "{\"dtype\"", SURFACE ", {\"dtype\"",
          "matmul_surfaces[1]: expected one surface of a dtype and phase, found a second of fp32, forward" },
    };
    const char *good = DEVICE_WITH("\"matmul_surfaces\": [" SURFACE "]");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096];
        const char *at = strstr(good, cases[i].from);
        ck_assert(at != NULL);
        snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, cases[i].to, at + strlen(cases[i].from));
        struct device_type device;
        struct arena arena = { 0 };
        struct error err = { 0 };
        ck_assert(!device_type_read(&device, &arena, "x.json", text, strlen(text), &err));
        ck_assert_msg(strstr(err.message, cases[i].message) && strstr(err.message, "x.json:1:"), "case %zu: %s", i,
                      err.message);
        arena_free(&arena);
    }
}
END_TEST

START_TEST(times_of_products_are_part_of_the_hash)
{
    const char *plain = "{\"levels\": [{\"fanout\": 2}], \"device\": " DEVICE_WITH("\"x-a\": 1") "}",
               *with =
                   "{\"levels\": [{\"fanout\": 2}], \"device\": " DEVICE_WITH("\"matmul_surfaces\": [" SURFACE "]") "}";
    char other[4096];
    snprintf(other, sizeof other, "%s", with);
    memcpy(strstr(other, "50000"), "50001", 5);
    struct cluster *a = cluster_open(plain), *b = cluster_open(with), *c = cluster_open(other);
    ck_assert(a->hash != b->hash && b->hash != c->hash && a->hash != c->hash);
    cluster_free(a);
    cluster_free(b);
    cluster_free(c);
}
END_TEST

/* ---- between the products ---- */

/* Whose times are the formula's times e^(a + b log m + c log n + d log k). */
static struct matmul_surface bent(const struct device_type *device, const double bend[4], int64_t *ns)
{
    struct matmul_surface s = { .dtype = DTYPE_FP32,
                                .phase = PHASE_BACKWARD_INPUT,
                                .count = { 4, 3, 5 },
                                .size = { { 16, 100, 512, 3000 }, { 32, 700, 5000 }, { 8, 64, 300, 1000, 9000 } },
                                .ns = ns };
    for (int m = 0; m < s.count[0]; m++)
        for (int n = 0; n < s.count[1]; n++)
            for (int k = 0; k < s.count[2]; k++) {
                double x = (double)s.size[0][m], y = (double)s.size[1][n], z = (double)s.size[2][k];
                double stretch = exp(bend[0] + bend[1] * log(x) + bend[2] * log(y) + bend[3] * log(z));
                ns[matmul_surface_index(&s, m, n, k)] =
                    llround(stretch * cost_product_formula_ns(device, DTYPE_FP32, PHASE_BACKWARD_INPUT, x, y, z));
            }
    return s;
}

/* What is linear in the logarithms comes back at every point; beyond the grid the stretch is that of the rim. */
START_TEST(logarithms_are_interpolated)
{
    uint64_t state = 7;
    for (int round = 0; round < 200; round++) {
        struct cluster *cluster;
        struct device_type device = device_named(round % 2 ? "cpu" : "a100-sxm-80", &cluster);
        int64_t ns[4 * 3 * 5];
        const double bend[] = { uniform(&state, 3, 4), uniform(&state, -0.3, 0.3), uniform(&state, -0.3, 0.3),
                                uniform(&state, -0.3, 0.3) };
        const struct matmul_surface surface = bent(&device, bend, ns);
        device.surfaces = &surface, device.surface_count = 1;
        double size[3], inside[3];
        for (int axis = 0; axis < 3; axis++) {
            double last = (double)surface.size[axis][surface.count[axis] - 1], first = (double)surface.size[axis][0];
            size[axis] = floor(exp(uniform(&state, log(first / 4), log(last * 4))));
            inside[axis] = fmin(last, fmax(first, size[axis]));
        }
        double stretch = 0,
               want = exp(bend[0] + bend[1] * log(inside[0]) + bend[2] * log(inside[1]) + bend[3] * log(inside[2]));
        bool outside, is_outside = memcmp(size, inside, sizeof size) != 0;
        ck_assert(cost_matmul_stretch(&stretch, &outside, &device, DTYPE_FP32, PHASE_BACKWARD_INPUT, size[0], size[1],
                                      size[2]));
        CHECK_NEAR(stretch, want, 2e-3 * want); /* whole nanoseconds of the smallest product, of some hundreds */
        ck_assert_int_eq(outside, is_outside);
        CHECK_NEAR(cost_product_ns(&device, DTYPE_FP32, PHASE_BACKWARD_INPUT, 512, 700, 300),
                   (double)ns[matmul_surface_index(&surface, 2, 1, 2)], 1e-6 * (double)ns[0] + 0.5);
        ck_assert(!cost_matmul_stretch(&stretch, &outside, &device, DTYPE_FP32, PHASE_FORWARD, 64, 64, 64));
        ck_assert(!cost_matmul_stretch(&stretch, &outside, &device, DTYPE_FP64, PHASE_BACKWARD_INPUT, 64, 64, 64));
        cluster_free(cluster);
    }
}
END_TEST

/* A segment's product of a measured shape costs what was measured, by the origin that says so. */
START_TEST(costs_take_the_measured_time)
{
    struct cluster *cluster = cluster_open(
        "{\"levels\": [{\"fanout\": 1}], \"device\": " DEVICE_WITH("\"matmul_surfaces\": [" SURFACE "]") "}");
    struct facts facts = { .cluster = cluster };
    struct segment segment = square_product(1); /* row, k, column */
    const int64_t extents[MAX_AXES] = { 64, 32, 16 }, half[MAX_AXES] = { 64, 32, 400 };
    for (int axis = 0; axis < 3; axis++)
        segment.axes[axis].size = extents[axis];
    int64_t bytes = 4 * (64 * 32 + 32 * 16 + 64 * 16);
    struct cost cost = cost_compute(&facts, 0, &segment, PHASE_FORWARD, DTYPE_FP32, extents, bytes);
    ck_assert_int_eq(cost.ns, 7000);
    ck_assert(cost.origin == ORIGIN_FITTED && !cost.extrapolated);
    cost = cost_compute(&facts, 0, &segment, PHASE_FORWARD, DTYPE_FP32, half, bytes);
    ck_assert(cost.origin == ORIGIN_FITTED && cost.extrapolated);
    cost = cost_compute(&facts, 0, &segment, PHASE_BACKWARD_WEIGHT, DTYPE_FP32, extents, bytes);
    ck_assert(cost.origin == ORIGIN_ANALYTIC && !cost.extrapolated);
    cluster_free(cluster);
}
END_TEST

/* ---- the fit ---- */

static const struct device_entry_options grid = { .sizes = { 48, 256, 1100, 4096 }, .size_count = 4 };

/* Of the product's three sizes at a device: what it should be found to be. */
static int timed_by(const struct device_type *truth, double noise, uint64_t *state, struct timed_product *timed,
                    int most)
{
    int grid_count, count;
    struct product *products = device_entry_products(&grid, &grid_count, &count);
    ck_assert(products != NULL && grid_count <= most);
    for (int i = 0; i < grid_count; i++) {
        const struct product *p = &products[i];
        double ns = cost_product_formula_ns(truth, DTYPE_BF16, p->phase, (double)p->m, (double)p->n, (double)p->k);
        timed[i] = (struct timed_product){ *p, ns * exp(uniform(state, -noise, noise)) };
    }
    free(products);
    return grid_count;
}

START_TEST(the_fit_finds_what_made_the_times)
{
    enum { MOST = 200 };
    uint64_t state = 11;
    struct timed_product timed[MOST];
    for (int round = 0; round < 40; round++) {
        struct cluster *cluster;
        struct error err = { 0 };
        struct device_type truth = device_named(round % 2 ? "h100-sxm" : "a100-sxm-80", &cluster);
        double noise = round % 4 < 2 ? 0 : 0.03;
        truth.matmul_efficiency = uniform(&state, 0.2, 1);
        truth.matmul_tile = 32 << random_below(&state, 4);
        struct device_type found = truth;
        found.matmul_efficiency = 0.5, found.matmul_tile = 1;
        int count = timed_by(&truth, noise, &state, timed, MOST);
        ck_assert_msg(device_fit_matmul(&found, DTYPE_BF16, timed, count, &err), "%s", err.message);
        ck_assert_int_eq(found.matmul_tile, truth.matmul_tile);
        CHECK_NEAR(found.matmul_efficiency, truth.matmul_efficiency,
                   truth.matmul_efficiency * (noise > 0 ? 0.02 : 1e-5));
        CHECK_NEAR(found.matmul_flops_per_s[DTYPE_BF16], truth.matmul_flops_per_s[DTYPE_BF16],
                   truth.matmul_flops_per_s[DTYPE_BF16] * noise);
        CHECK_NEAR(device_fit_error(&found, DTYPE_BF16, timed, count), noise / 2, noise > 0 ? 0.01 : 1e-4);
        cluster_free(cluster);
    }
}
END_TEST

START_TEST(a_faster_product_than_the_peak_raises_it)
{
    struct cluster *cluster;
    struct error err = { 0 };
    struct device_type device = device_named("cpu", &cluster);
    device.launch_ns = 0;
    double before = device.matmul_flops_per_s[DTYPE_FP32];
    struct timed_product timed = { { PHASE_FORWARD, 1024, 1024, 1024 }, 2.0 * 1024 * 1024 * 1024 / (4 * before) * 1e9 };
    ck_assert(device_fit_matmul(&device, DTYPE_FP32, &timed, 1, &err));
    CHECK_NEAR(device.matmul_flops_per_s[DTYPE_FP32], 4 * before, before * 1e-9);
    ck_assert(device.matmul_efficiency > 0.99 && device.matmul_efficiency <= 1);
    timed.ns = 0;
    ck_assert(!device_fit_matmul(&device, DTYPE_FP32, &timed, 1, &err) && strstr(err.message, "took no time"));
    err = (struct error){ 0 };
    ck_assert(!device_fit_matmul(&device, DTYPE_FP32, NULL, 0, &err));
    cluster_free(cluster);
}
END_TEST

/* On a device without tiles and waves the fitted ones would bend what lies between the products. */
START_TEST(under_surfaces_tiles_are_chosen_by_what_lies_between)
{
    struct cluster *cluster;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct device_type base = device_named("a100-sxm-80", &cluster), truth = base, found;
    struct device_entry_options o = grid;
    o.base = &base, o.machine = "here", o.backend = "cuda", o.software = "this", o.dtype = DTYPE_BF16, o.ranks = 1;
    for (int tiled = 0; tiled < 2; tiled++) {
        int grid_count, count;
        truth.matmul_tile = tiled ? 128 : 1, truth.compute_units = base.compute_units = tiled ? 108 : 1;
        base.matmul_tile = tiled ? 1 : 128;
        struct product *products = device_entry_products(&o, &grid_count, &count);
        struct measurement *spans = calloc((size_t)count, sizeof *spans);
        for (int i = 0; i < count; i++) {
            const struct product *p = &products[i];
            double bend = tiled ? 1 : (double)(p->m * p->n) / ((double)(p->m * p->n) + 1e4);
            spans[i].ns = llround(
                cost_product_formula_ns(&truth, DTYPE_BF16, p->phase, (double)p->m, (double)p->n, (double)p->k) / bend);
        }
        struct device_times times = { .tiny.ns = truth.launch_ns,
                                      .copy.ns = truth.launch_ns + 1000000,
                                      .copy_elements =
                                          llround(1e-3 * truth.memory_bytes_per_s * truth.memory_efficiency / 8) };
        ck_assert_msg(device_entry_fit(&found, &arena, &o, &times, spans, &err), "%s", err.message);
        if (tiled) /* the formula is exact, and needs no times */
            CHECK_NEAR(found.measured.formula_error, 0, 1e-3);
        else
            ck_assert_msg(found.surface_count == PHASES && found.measured.surface_error < 0.1, "%d: %g, %g",
                          found.matmul_tile, found.measured.formula_error, found.measured.surface_error);
        ck_assert_msg(tiled ? found.matmul_tile == 128 : found.matmul_tile <= 8, "%d", found.matmul_tile);
        free(spans);
        free(products);
    }
    arena_free(&arena);
    cluster_free(cluster);
}
END_TEST

/* Times of a device whose products slow down with k as no tile explains: the surface is kept and predicts what lies
 * between; launch and memory are the differences of spans; what timing takes is in none of them. */
START_TEST(an_entry_is_made_of_times)
{
    enum { EMPTY_NS = 5000 };
    struct cluster *cluster;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct device_type base = device_named("a100-sxm-80", &cluster), truth = base, found;
    truth.launch_ns = 2200, truth.memory_efficiency = 0.6;
    struct device_entry_options o = grid;
    o.base = &base, o.machine = "here", o.backend = "cuda", o.software = "this", o.dtype = DTYPE_BF16, o.ranks = 1;
    int grid_count, count;
    struct product *products = device_entry_products(&o, &grid_count, &count);
    struct measurement *spans = calloc((size_t)count, sizeof *spans);
    ck_assert_int_eq(grid_count, PHASES * 4 * 4 * 4);
    ck_assert_int_eq(count - grid_count, PHASES * 3 * 3);
    for (int i = 0; i < count; i++) {
        const struct product *p = &products[i];
        double ns = cost_product_formula_ns(&truth, DTYPE_BF16, p->phase, (double)p->m, (double)p->n, (double)p->k);
        spans[i].ns = EMPTY_NS + llround(ns * pow((double)p->k / 256, 0.3));
        spans[i].spread = 0.01;
    }
    const int64_t elements = 1 << 26;
    struct device_times times = {
        .empty.ns = EMPTY_NS, .tiny.ns = EMPTY_NS + 2200, .copy_elements = elements, .steps = 7
    };
    times.copy.ns = times.tiny.ns + llround(2 * 4 * (double)elements / (truth.memory_bytes_per_s * 0.6) * 1e9);
    ck_assert_msg(device_entry_fit(&found, &arena, &o, &times, spans, &err), "%s", err.message);
    ck_assert_int_eq(found.launch_ns, 2200);
    CHECK_NEAR(found.memory_efficiency, 0.6, 1e-4);
    CHECK_NEAR(found.memory_bytes_per_s, base.memory_bytes_per_s, 0);
    ck_assert_int_eq(found.measured.instruction_ns, EMPTY_NS);
    ck_assert_int_eq(found.surface_count, PHASES);
    ck_assert_int_eq(found.surfaces[0].ns[0], spans[0].ns - EMPTY_NS);
    ck_assert_msg(found.measured.surface_error < found.measured.formula_error / 3 &&
                      found.measured.formula_error < found.measured.catalogue_error,
                  "%g, %g, %g", found.measured.catalogue_error, found.measured.formula_error,
                  found.measured.surface_error);
    ck_assert_str_eq(found.name, "a100-sxm-80-measured");
    ck_assert(strstr(found.source, "see `measured`") && strstr(found.source, base.source));
    char *text = written(&found);
    struct device_type again = read_back(text, &arena);
    ck_assert_int_eq(again.surface_count, PHASES);
    /* where only the products of the grid were disturbed, what lies between is better predicted without them */
    for (int i = 0; i < count; i++)
        spans[i].ns =
            EMPTY_NS + llround(cost_product_formula_ns(&truth, DTYPE_BF16, products[i].phase, (double)products[i].m,
                                                       (double)products[i].n, (double)products[i].k) *
                               (i < grid_count ? (i * 7 % 5 - 2) * 0.2 + 1 : 1));
    ck_assert_msg(device_entry_fit(&found, &arena, &o, &times, spans, &err), "%s", err.message);
    ck_assert_int_eq(found.surface_count, 0);
    free(text);
    free(spans);
    free(products);
    arena_free(&arena);
    cluster_free(cluster);
}
END_TEST

/* ---- here ---- */

START_TEST(the_cores_of_this_machine_are_measured)
{
    enum { RANKS = 2 };
    struct cluster *cluster, *read;
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct transport transports[RANKS];
    struct device_type base = device_named("cpu", &cluster), found;
    const struct device_entry_options o = { .base = &base,
                                            .machine = "here",
                                            .backend = "cpu",
                                            .software = "this",
                                            .sizes = { 8, 24, 96 },
                                            .size_count = 3,
                                            .copy_elements = 1 << 16,
                                            .dtype = DTYPE_FP32,
                                            .ranks = RANKS,
                                            .time_limit_s = 0.5 };
    ck_assert(comm_threads_open(transports, RANKS, &err));
    const struct crew crew = {
        .transports = transports, .local_count = RANKS, .rank_count = RANKS, .dtype = DTYPE_FP32, .cache_bytes = 1 << 16
    };
    ck_assert_msg(device_entry_measure(&found, &arena, &crew, &o, &err), "%s", err.message);
    for (int i = 0; i < RANKS; i++)
        transports[i].close(transports[i].self);
    ck_assert(found.measured.repeats >= 3 && found.measured.ranks == RANKS);
    ck_assert(found.matmul_efficiency > 0 && found.matmul_efficiency <= 1 && found.memory_efficiency <= 1);
    for (int s = 0; s < found.surface_count; s++) /* 1700 times the work takes longer, however busy the host */
        ck_assert_int_gt(found.surfaces[s].ns[26], found.surfaces[s].ns[0]);
    struct text text = { 0 };
    char *device = written(&found);
    text_printf(&text, "{\"device\": %s, \"levels\": [{\"fanout\": 2}]}", device);
    ck_assert(cluster_read(&read, "made", text.data, text.length, NULL, 0, &err));
    cluster_free(read);
    cluster_free(cluster);
    text_free(&text);
    free(device);
    arena_free(&arena);
}
END_TEST

static Suite *device_entry_suite(void)
{
    Suite *suite = suite_create("device_entry");
    CHECK_ADD(suite, a_device_is_read_as_it_was_written);
    CHECK_ADD(suite, wrong_surfaces_are_refused_where_they_stand);
    CHECK_ADD(suite, times_of_products_are_part_of_the_hash);
    CHECK_ADD(suite, logarithms_are_interpolated);
    CHECK_ADD(suite, costs_take_the_measured_time);
    CHECK_ADD(suite, the_fit_finds_what_made_the_times);
    CHECK_ADD(suite, a_faster_product_than_the_peak_raises_it);
    CHECK_ADD(suite, under_surfaces_tiles_are_chosen_by_what_lies_between);
    CHECK_ADD(suite, an_entry_is_made_of_times);
    CHECK_ADD(suite, the_cores_of_this_machine_are_measured);
    return suite;
}

CHECK_MAIN(device_entry_suite)
