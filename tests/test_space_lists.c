/* The search's configurations against a naive list of them (naive_space.h): random models and clusters, and models of
 * the zoo on a few devices, each with a random part of every choice allowed. Equal name by name. */
#include "planner/space/config_name.h"
#include "planner/tables/certificate_hash.h"
#include "tests/fact_files.h"
#include "tests/model_files.h"
#include "tests/naive_space.h"
#include "tests/random_worlds.h"

/* ---- names ---- */

static void keep_config(struct naive_names *list, const struct config *config)
{
    ck_assert_int_lt(list->count, list->capacity);
    char *out = list->names[list->count++];
    int at = (int)strlen(config_name(out, config));
    for (int i = 0; i < config->shape_count; i++)
        at += sprintf(out + at, "%s%d", i > 0 ? "," : "; stages of ", config->turns[i]);
}

static struct naive_names names_of(const struct config *configs, int count)
{
    struct naive_names list = { .capacity = count, .names = malloc(((size_t)count + 1) * NAIVE_NAME_BYTES) };
    ck_assert_ptr_nonnull(list.names);
    for (int i = 0; i < count; i++)
        keep_config(&list, &configs[i]);
    return list;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void sort_names(struct naive_names *list)
{
    if (list->count > 0)
        qsort(list->names, (size_t)list->count, sizeof *list->names, by_name);
}

static void check_equal(struct naive_names *search, struct naive_names *naive, const char *what)
{
    sort_names(search);
    sort_names(naive);
    for (int i = 0; i < search->count || i < naive->count; i++) {
        const char *a = i < search->count ? search->names[i] : "~", *b = i < naive->count ? naive->names[i] : "~";
        int order = strcmp(a, b);
        ck_assert_msg(order == 0, "%s: only %s lists %s (%d and %d)", what, order < 0 ? "the search" : "the naive list",
                      order < 0 ? a : b, search->count, naive->count);
    }
    free(search->names);
    free(naive->names);
}

/* ---- spaces ---- */

static struct allowed draw_of(struct random_world *w, const int64_t *values, int count)
{
    struct allowed allowed = { 0 };
    while (allowed.count == 0)
        for (int i = 0; i < count; i++)
            if (world_draw(w, 2))
                allowed.values[allowed.count++] = values[i];
    return allowed;
}

#define DRAW(allowed, ...)                                                                                             \
    do {                                                                                                               \
        static const int64_t values_[] = { __VA_ARGS__ };                                                              \
        if (world_draw(w, 3) == 0)                                                                                     \
            (allowed) = draw_of(w, values_, (int)(sizeof values_ / sizeof *values_));                                  \
    } while (0)

/* Of every choice now and then a part. */
static void draw_choices(struct random_world *w, struct space *space)
{
    int all = 0;
    while (schedules[all])
        all++;
    DRAW(space->stages, 1, 2, 3, 4, 5, 6);
    DRAW(space->tensor, 1, 2, 3, 4, 8);
    DRAW(space->data, 1, 2, 3, 4, 6, 8);
    DRAW(space->micro, 1, 2, 3, 4, 8);
    DRAW(space->zero, 0, 1, 2, 3);
    DRAW(space->prefetch, 2, 0, 1);
    DRAW(space->sequence_parallel, 0, 1);
    DRAW(space->context, 1, 2, 3, 4);
    DRAW(space->context_dimension, DIM_cp_gather, DIM_cp_ring, DIM_cp_ulysses);
    DRAW(space->data_dimension, DIM_dp, DIM_ps);
    DRAW(space->tensor_dimension, DIM_tp, DIM_tp_deferred);
    DRAW(space->expert, 1, 2, 4, 8);
    DRAW(space->shard_group, 0, 2, 3, 4);
    DRAW(space->mesh_order, ORDER_TENSOR_INSIDE, ORDER_DATA_INSIDE);
    DRAW(space->chunks, 1, 2, 3, 4);
    DRAW(space->extra, 0, 1, 2, 3);
    DRAW(space->bucket_bytes, USUAL_BUCKET_BYTES, 0, 4 << 20, 3 << 10, 777);
    DRAW(space->loss_chunks, 1, 2, 8);
    DRAW(space->turns, 1, 2, 3, 4, 6);
    if (world_draw(w, 2))
        space->schedule = (struct allowed){ 0 };
    for (int s = 0; s < all && world_draw(w, 2); s++)
        if (world_draw(w, 3) == 0 && !allowed_has(&space->schedule, s))
            space->schedule.values[space->schedule.count++] = s;
}

/* ---- comparing ---- */

enum family { TURNS, CONTEXT, EXPERTS, GROUPS, SERVERS, FAMILIES };
static const char *const family_names[FAMILIES] = { "turns", "context", "experts", "groups", "servers" };
struct tally {
    int64_t proven, unbounded, by_family[FAMILIES];
};

static void count_families(struct tally *tally, const struct config *configs, int count)
{
    for (int i = 0; i < count; i++) {
        const struct config *c = &configs[i];
        int data_atoms = 0;
        bool server = false;
        for (int a = 0; a < c->mesh.atom_count; a++) {
            data_atoms += c->mesh.dim[a] == DIM_dp;
            server = server || c->mesh.dim[a] == DIM_ps;
        }
        tally->by_family[TURNS] += c->meshes > 0;
        tally->by_family[CONTEXT] += mesh_ranks(&c->mesh) > mesh_tensor(&c->mesh) * mesh_data(&c->mesh);
        tally->by_family[EXPERTS] += mesh_expert(&c->mesh) > 1;
        tally->by_family[GROUPS] += data_atoms > 1;
        tally->by_family[SERVERS] += server;
    }
}

static int by_hash(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A certificate tells apart what has different names. */
static void check_hashes(const struct space *space, const struct config *configs, int count)
{
    char(*names)[CONFIG_NAME_BYTES] = calloc((size_t)count + 1, sizeof *names);
    uint64_t *hashes = calloc((size_t)count + 1, sizeof *hashes);
    int different_names = 0, different_hashes = 0;
    ck_assert(names && hashes);
    for (int i = 0; i < count; i++) {
        struct certificate_hash hash = certificate_hash_start(space);
        certificate_hash_add(&hash, &configs[i], NULL);
        hashes[i] = hash.space;
        config_name(names[i], &configs[i]);
    }
    qsort(hashes, (size_t)count, sizeof *hashes, by_hash);
    qsort(names, (size_t)count, sizeof *names, by_name);
    for (int i = 0; i < count; i++) {
        different_hashes += i == 0 || hashes[i] != hashes[i - 1];
        different_names += i == 0 || strcmp(names[i], names[i - 1]) != 0;
    }
    ck_assert_int_eq(different_hashes, different_names);
    free(names);
    free(hashes);
}

static void compare(const struct space *space, const struct model *model, const struct cluster *cluster,
                    const char *what, struct tally *tally)
{
    struct config *configs = NULL, *unbounded = NULL;
    struct naive_names naive = { 0 }, naive_beside = { 0 };
    struct arena arena = { 0 };
    struct graph *graph = NULL;
    struct error err = { 0 };
    int count = 0, unbounded_count = 0;
    ck_assert_msg(graph_build(&graph, model, space->batch, 0, 1, &err), "%s", err.message);
    if (space_configs(&configs, &count, &arena, space, graph, cluster, &err)) { /* else no schedule has such meshes */
        ck_assert(space_configs_unbounded(&unbounded, &unbounded_count, &arena, space, graph, cluster, &err));
        struct naive_names own = names_of(configs, count), own_unbounded = names_of(unbounded, unbounded_count);
        naive_space(space, graph, cluster, &naive, &naive_beside);
        check_equal(&own, &naive, what);
        check_equal(&own_unbounded, &naive_beside, what);
        check_hashes(space, configs, count);
        check_hashes(space, unbounded, unbounded_count);
        count_families(tally, configs, count);
        tally->proven += count;
        tally->unbounded += unbounded_count;
    }
    arena_free(&arena);
    graph_free(graph);
}

/* Enough of all families but one, which these models do not have. */
static void check_tally(const struct tally *tally, enum family none, int64_t many)
{
    ck_assert_int_gt(tally->proven, many / (2 * share_stride()));
    ck_assert_int_gt(tally->unbounded, many / (2 * share_stride()));
    for (int f = 0; f < FAMILIES && !small_share(); f++)
        ck_assert_msg((f == (int)none) == (tally->by_family[f] == 0), "%s: %lld configurations", family_names[f],
                      (long long)tally->by_family[f]);
}

START_TEST(random_worlds_have_the_same)
{
    struct tally tally = { 0 };
    for (uint64_t seed = 1; seed <= 3000; seed += (uint64_t)share_stride()) {
        struct random_world w = random_world(seed, seed % 3 == 0);
        char what[64];
        snprintf(what, sizeof what, "seed %llu on %s", (unsigned long long)seed, w.cluster_form);
        draw_choices(&w, &w.space);
        compare(&w.space, w.world.model, w.world.cluster, what, &tally);
        random_world_close(&w);
    }
    check_tally(&tally, EXPERTS, 100000);
}
END_TEST

START_TEST(models_of_the_zoo_have_the_same)
{
    static const char *const models[] = { "tiny-gpt", "tiny-llama", "tiny-moe", "tiny-encdec", "tiny-vit", "gpt2" };
    static const char *const clusters[] = { "1x8:a100-sxm-80", "2x4:a100-sxm-80",       "1x12:rtx4090",
                                            "3x2:l40s",        "1x4:h100-sxm+1x4:l40s", "1x16:a100-sxm-80" };
    struct tally tally = { 0 };
    for (uint64_t seed = 1; seed <= 1200; seed += (uint64_t)share_stride()) {
        struct random_world w = { .state = mix64(seed) << 8 };
        const char *model_name = models[world_draw(&w, 6)], *cluster_text = clusters[world_draw(&w, 6)];
        struct model *model = model_of_zoo(model_name);
        struct cluster *cluster = cluster_open(cluster_text);
        struct space space = space_default(1 + world_draw(&w, 48), 0, DTYPE_BF16);
        char what[128];
        snprintf(what, sizeof what, "seed %llu: %s on %s", (unsigned long long)seed, model_name, cluster_text);
        draw_choices(&w, &space);
        compare(&space, model, cluster, what, &tally);
        model_free(model);
        cluster_free(cluster);
    }
    check_tally(&tally, FAMILIES, 50000);
}
END_TEST

static Suite *space_lists_suite(void)
{
    Suite *suite = suite_create("space_lists");
    CHECK_ADD(suite, random_worlds_have_the_same);
    CHECK_ADD(suite, models_of_the_zoo_have_the_same);
    return suite;
}

CHECK_MAIN(space_lists_suite)
