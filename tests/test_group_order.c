/* In which order the pipeline goes through the groups of a cluster: against all permutations of the groups, and
 * searches of the same devices written in all orders. */
#include "base/num.h"
#include "planner/space/config_name.h"
#include "planner/space/group_order.h"
#include "tests/toy_world.h"

enum { MOST_GROUPS = 4, MOST_RANKS = 32 };

static int64_t draw(uint64_t *state, int64_t below)
{
    return (int64_t)(mix64((*state)++) % (uint64_t)below);
}

static struct catalogue_entry device_of(char name, double speed, char text[1024])
{
    static const char *const names[] = { "a", "b", "c", "d" };
    int length = snprintf(
        text, 1024,
        "{\"name\": \"%c\", \"description\": \"toy\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": "
        "%g, \"fp32\": 1e13}, \"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, "
        "\"attention_backward_efficiency\": 0.5, \"vector_flops_per_s\": %g, \"memory_bytes_per_s\": %g, "
        "\"memory_bytes\": 80000000000, \"launch_ns\": 1000, \"link_bytes_per_s\": 1e11, \"link_latency_ns\": 2000, "
        "\"nic_bytes_per_s\": 1e10, \"nic_latency_ns\": 5000}",
        name, 1e12 * speed, 1e11 * speed, 1e10 * speed);
    return (struct catalogue_entry){ names[name - 'a'], text, (size_t)length };
}

static struct cluster *cluster_of(const char *form)
{
    static const double speeds[MOST_GROUPS] = { 1, 3, 1.7, 0.6 };
    char text[MOST_GROUPS][1024];
    struct catalogue_entry entries[MOST_GROUPS];
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    for (int i = 0; i < MOST_GROUPS; i++)
        entries[i] = device_of((char)('a' + i), speeds[i], text[i]);
    ck_assert_msg(cluster_read(&cluster, form, form, strlen(form), entries, MOST_GROUPS, &err), "%s", err.message);
    return cluster;
}

/* ---- against all permutations ---- */

/* The types of all ranks, in the pipeline's order. */
struct sequence {
    char type[MOST_RANKS + 1];
};

static bool is_known(const struct sequence *known, int count, const struct sequence *s)
{
    for (int i = 0; i < count; i++)
        if (strcmp(known[i].type, s->type) == 0)
            return true;
    return false;
}

/* All ranks with the groups one after the other, each upwards or, by its bit, downwards. */
static void walk(const struct cluster *cluster, const int *group, unsigned down, int *rank, struct sequence *types)
{
    int count = 0;
    for (int i = 0; i < cluster->group_count; i++) {
        const struct node_group *g = &cluster->groups[group[i]];
        for (int r = 0; r < g->device_count; r++) {
            types->type[count] = (char)('a' + g->type);
            rank[count++] = g->first_rank + (down >> i & 1 ? g->device_count - 1 - r : r);
        }
    }
    types->type[count] = '\0';
}

/* Whether each stage's ranks are neighbours. */
static bool are_stages(const int *rank, int count, int ranks)
{
    for (int first = 0; first < count; first += ranks) {
        int least = rank[first], most = rank[first];
        for (int r = first; r < first + ranks; r++) {
            least = (int)min_i64(least, rank[r]);
            most = (int)max_i64(most, rank[r]);
        }
        if (most - least != ranks - 1)
            return false;
    }
    return true;
}

/* Every sequence of types that stages of so many ranks can meet; the number of them. */
static int enumerate(const struct cluster *cluster, int ranks, struct sequence *out)
{
    int n = cluster->group_count, count = 0;
    for (int code = 0; code < 256; code++) {
        int group[MOST_GROUPS], rank[MOST_RANKS];
        unsigned met = 0;
        for (int i = 0; i < n; i++)
            met |= 1u << (group[i] = code >> 2 * i & 3);
        if (met != (1u << n) - 1 || code >> 2 * n > 0)
            continue;
        for (unsigned down = 0; down < 1u << n; down++) {
            struct sequence types;
            walk(cluster, group, down, rank, &types);
            if (are_stages(rank, cluster->device_count, ranks) && !is_known(out, count, &types))
                out[count++] = types;
        }
    }
    return count;
}

/* What the order's stages meet; each rank belongs to one. */
static struct sequence met_by(const struct group_order *order, const struct cluster *cluster, int ranks)
{
    struct sequence types = { { 0 } };
    bool taken[MOST_RANKS] = { false };
    for (int before = 0; before < cluster->device_count; before += ranks) {
        int first = group_order_rank(order, before, ranks);
        ck_assert(first >= 0 && first + ranks <= cluster->device_count);
        /* a stage on several types meets them from the side on which the stage before it lies */
        bool down = before > 0 ? group_order_rank(order, before - ranks, ranks) > first
                               : before + ranks < cluster->device_count &&
                                     group_order_rank(order, before + ranks, ranks) < first;
        for (int r = 0; r < ranks; r++) {
            int rank = down ? first + ranks - 1 - r : first + r;
            ck_assert(!taken[rank]);
            taken[rank] = true;
            types.type[before + r] = (char)('a' + cluster_type(cluster, rank));
        }
    }
    return types;
}

/* How many devices of each type each stage has is what it costs. */
static void sort_stages(struct sequence *s, int ranks)
{
    for (int first = 0; s->type[first]; first += ranks)
        for (int i = first; i < first + ranks; i++)
            for (int k = first; k + 1 < first + ranks; k++)
                if (s->type[k] > s->type[k + 1]) {
                    char other = s->type[k];
                    s->type[k] = s->type[k + 1];
                    s->type[k + 1] = other;
                }
}

static int keep_different(struct sequence *s, int count, int ranks)
{
    int kept = 0;
    for (int i = 0; i < count; i++) {
        struct sequence own = s[i];
        sort_stages(&own, ranks);
        if (!is_known(s, kept, &own))
            s[kept++] = own;
    }
    return kept;
}

static void draw_form(uint64_t *state, char out[64])
{
    int groups = 1 + (int)draw(state, MOST_GROUPS), length = 0;
    for (int g = 0; g < groups; g++)
        length += snprintf(out + length, (size_t)(64 - length), "%s1x%d:%c", g > 0 ? "+" : "", 1 << draw(state, 3),
                           (int)('a' + draw(state, MOST_GROUPS)));
}

START_TEST(orders_are_all_that_tear_no_stage)
{
    static struct sequence wanted[256];
    uint64_t state = 1;
    int several = 0, torn = 0;
    for (int n = 0; n < 400; n++) {
        char form[64];
        draw_form(&state, form);
        struct cluster *cluster = cluster_of(form);
        for (int ranks = 1; ranks <= cluster->device_count; ranks++) {
            struct group_order orders[MOST_GROUP_ORDERS];
            struct sequence met[MOST_GROUP_ORDERS];
            if (cluster->device_count % ranks != 0)
                continue;
            int count = group_orders(orders, cluster, ranks),
                all = keep_different(wanted, enumerate(cluster, ranks, wanted), ranks);
            bool own = false;
            for (int i = 0; i < count; i++) {
                own |= orders[i].index == OWN_ORDER;
                met[i] = met_by(&orders[i], cluster, ranks);
                sort_stages(&met[i], ranks);
                ck_assert_msg(is_known(wanted, all, &met[i]), "%s in stages of %d: %s", form, ranks, met[i].type);
                for (int k = 0; k < i; k++)
                    ck_assert_int_ne(orders[i].index, orders[k].index);
            }
            ck_assert(own);
            ck_assert_msg(keep_different(met, count, ranks) == all, "%s in stages of %d: %d of %d", form, ranks, count,
                          all);
            several += all > 2;
            torn += cluster->type_count > 2 && ranks > 1 && all <= 2 && ranks < cluster->device_count;
        }
        cluster_free(cluster);
    }
    ck_assert_int_gt(several, 100);
    ck_assert_int_gt(torn, 20);
}
END_TEST

/* ---- searches ---- */

struct answer {
    int64_t bound_ns, best_ns, step_ns;
    int configurations;
};

static struct answer search_on(const char *form, struct allowed pipeline)
{
    struct world world = { .model = toy_model(4, true), .cluster = cluster_of(form) };
    struct search_options options = {
        .space = space_default(16, 0, DTYPE_BF16), .top = 1, .rank_count = 1, .no_advice = true
    };
    struct search_result *result = NULL;
    struct error err = { 0 };
    world.facts = (struct facts){ .cluster = world.cluster };
    options.space.stages = pipeline;
    ck_assert_msg(search_run(&result, world.model, &world.facts, &options, &err), "%s", err.message);
    ck_assert(result->feasible && result->certificate.complete);
    struct answer answer = { result->certificate.bound_ns, result->certificate.best_ns,
                             result->plans[0].estimate->prediction.step_ns, result->certificate.configurations };
    search_result_free(result);
    world_close(&world);
    return answer;
}

/* Where no stage lies on several types. */
START_TEST(the_files_order_decides_nothing)
{
    static const char *const forms[][6] = {
        { "1x2:a+1x2:b+1x2:c", "1x2:a+1x2:c+1x2:b", "1x2:b+1x2:a+1x2:c", "1x2:b+1x2:c+1x2:a", "1x2:c+1x2:a+1x2:b",
          "1x2:c+1x2:b+1x2:a" },
        { "1x1:a+1x1:b+1x1:c+1x1:d", "1x1:d+1x1:c+1x1:b+1x1:a", "1x1:b+1x1:d+1x1:a+1x1:c", "1x1:c+1x1:a+1x1:b+1x1:d",
          "1x1:a+1x1:d+1x1:b+1x1:c", "1x1:d+1x1:a+1x1:c+1x1:b" },
    };
    static const struct allowed pipelines[] = { { 3, { 1, 3, 6 } }, { 2, { 1, 4 } } };
    for (int f = small_share(); f < 2; f++) {
        struct answer first = search_on(forms[f][0], pipelines[f]);
        for (int i = 1; i < 6; i += all_cases() ? 1 : 4) {
            struct answer own = search_on(forms[f][i], pipelines[f]);
            ck_assert_int_eq(own.configurations, first.configurations);
            ck_assert_msg(own.bound_ns == first.bound_ns && own.best_ns == first.best_ns &&
                              own.step_ns == first.step_ns,
                          "%s: bound %lld, best %lld, step %lld; %s: %lld, %lld, %lld", forms[f][i],
                          (long long)own.bound_ns, (long long)own.best_ns, (long long)own.step_ns, forms[f][0],
                          (long long)first.bound_ns, (long long)first.best_ns, (long long)first.step_ns);
        }
    }
}
END_TEST

/* The reverse is called that wherever there are other orders. */
START_TEST(names_tell_orders_apart)
{
    struct cluster *cluster = cluster_of("1x2:a+1x2:b+1x2:c");
    struct group_order orders[MOST_GROUP_ORDERS];
    char names[MOST_GROUP_ORDERS][CONFIG_NAME_BYTES];
    int count = group_orders(orders, cluster, 2), own = 0, reversed = 0;
    ck_assert_int_eq(count, 6);
    for (int i = 0; i < count; i++) {
        struct config config = { .stages = 3, .micro = 1, .bucket_bytes = USUAL_BUCKET_BYTES, .order = orders[i] };
        config_name(names[i], &config);
        own += !strstr(names[i], "groups") && !strstr(names[i], "reversed");
        reversed += strstr(names[i], " reversed") != NULL;
        for (int k = 0; k < i; k++)
            ck_assert_str_ne(names[i], names[k]);
        if (strstr(names[i], "groups=2.0.1"))
            ck_assert(group_order_rank(&orders[i], 0, 2) == 4 && group_order_rank(&orders[i], 2, 2) == 0);
    }
    ck_assert(own == 1 && reversed == 1);
    cluster_free(cluster);
}
END_TEST

static Suite *group_order_suite(void)
{
    Suite *suite = suite_create("orders of groups");
    TCase *tcase = tcase_create("orders");
    tcase_add_test(tcase, orders_are_all_that_tear_no_stage);
    tcase_add_test(tcase, the_files_order_decides_nothing);
    tcase_add_test(tcase, names_tell_orders_apart);
    suite_add_tcase(suite, tcase);
    return suite;
}

CHECK_MAIN(group_order_suite)
