/* Models whose layers have very many orders: their certificates, of all of them or with a bound of the others. */
#include "planner/check/check.h"
#include "models/model.h"
#include "tests/check.h"
#include "tests/fact_files.h"
#include "tests/written_claim.h"
#include <stdio.h>
#include <string.h>

struct towers {
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct space space;
    struct search_result *result;
};

/* Towers of so many layers of unlike times between a first and a last one. */
static struct model *model_of_towers(int towers, int layers)
{
    struct text text = { 0 };
    struct error err = { 0 };
    struct model *model = NULL;
    const char *rest = "\"parameters\": 1000, \"activation_elements\": 1000}";
    text_printf(&text,
                "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"towers\", \"sequence\": 16, \"layers\": "
                "[{\"kind\": \"opaque\", \"name\": \"in\", \"forward_us\": 50, \"backward_us\": 100, %s",
                rest);
    for (int tower = 0; tower < towers; tower++)
        for (int i = 0; i < layers; i++) {
            char before[32] = "in";
            if (i > 0)
                snprintf(before, sizeof before, "%d_%d", tower, i - 1);
            text_printf(&text,
                        ", {\"kind\": \"opaque\", \"name\": \"%d_%d\", \"inputs\": [\"%s\"], \"forward_us\": %d, "
                        "\"backward_us\": %d, %s",
                        tower, i, before, 100 + 37 * (i % 3) + 400 * tower, 200, rest);
        }
    text_printf(&text, ", {\"kind\": \"opaque\", \"name\": \"out\", \"inputs\": [");
    for (int tower = 0; tower < towers; tower++)
        text_printf(&text, "%s\"%d_%d\"", tower > 0 ? ", " : "", tower, layers - 1);
    text_printf(&text, "], \"forward_us\": 50, \"backward_us\": 100, %s]}", rest);
    ck_assert_msg(model_read(&model, "towers", text.data, text.length, NULL, &err), "%s", err.message);
    text_free(&text);
    return model;
}

static void towers_open(struct towers *towers, int count, int layers)
{
    struct search_options options = { .space = space_default(16, 0, DTYPE_BF16), .top = 1, .no_advice = true };
    struct error err = { 0 };
    options.space.stages = (struct allowed){ 1, { 4 } };
    *towers = (struct towers){ .model = model_of_towers(count, layers),
                               .cluster = cluster_open("1x4:a100-sxm-80"),
                               .space = options.space };
    towers->facts.cluster = towers->cluster;
    ck_assert_msg(search_run(&towers->result, towers->model, &towers->facts, &options, &err), "%s", err.message);
}

static void towers_close(struct towers *towers)
{
    search_result_free(towers->result);
    cluster_free(towers->cluster);
    model_free(towers->model);
}

/* False with a message that has `what`. */
static bool accepts(const struct towers *towers, const struct claim *claim, int64_t *undecided, const char *what)
{
    struct check_report report = { 0 };
    struct error err = { 0 };
    bool good = check_certificate(&report, claim, towers->model, &towers->facts, towers->result->plans[0].plan, NULL,
                                  NULL, &err);
    ck_assert_msg(good || strstr(err.message, what), "%s", err.message);
    *undecided = report.undecided;
    return good;
}

static bool accepts_bound(const struct towers *towers, struct claim *claim, int64_t orders_bound_ns, const char *what)
{
    int64_t undecided;
    claim->orders_bound_ns = orders_bound_ns;
    return accepts(towers, claim, &undecided, what);
}

/* Too many ideals to try: then there is a bound of all orders besides, which is not taken on trust. */
START_TEST(other_orders_have_a_bound)
{
    struct towers towers;
    towers_open(&towers, 4, 35);
    const struct certificate *c = &towers.result->certificate;
    ck_assert_int_eq(c->ideals, 0);
    ck_assert_int_gt(c->orders_bound_ns, c->best_ns * 9 / 10);
    ck_assert_int_lt(c->orders_bound_ns, c->bound_ns);
    struct written_claim read = written_claim_open(towers.result, &towers.space);
    ck_assert_int_eq(read.claim.orders_bound_ns, c->orders_bound_ns);
    ck_assert(accepts_bound(&towers, &read.claim, c->orders_bound_ns, "-"));
    ck_assert(accepts_bound(&towers, &read.claim, 0, "-"));
    ck_assert(!accepts_bound(&towers, &read.claim, c->orders_bound_ns + 1, "its bound of all orders"));
    ck_assert(!accepts_bound(&towers, &read.claim, c->bound_ns + 1, "is above that of those that were searched"));
    written_claim_close(&read);
    towers_close(&towers);
}
END_TEST

/* Very many orders, all of them searched: nothing above the bound that is claimed would be accepted. Shares have lower
 * towers. */
START_TEST(many_orders_are_searched)
{
    static const struct {
        int towers, layers, share_layers;
    } models[] = { { 2, 100, 100 }, { 3, 45, 25 }, { 4, 17, 11 } };
    const int layers = share_stride() > 1 ? models[_i].share_layers : models[_i].layers;
    int64_t ideals = 1;
    struct towers towers;
    int64_t undecided;
    if (small_share() && _i > 0)
        return;
    towers_open(&towers, models[_i].towers, layers);
    for (int tower = 0; tower < models[_i].towers; tower++)
        ideals *= layers + 1;
    const struct certificate *c = &towers.result->certificate;
    ck_assert_int_eq(c->ideals, ideals + 2);
    ck_assert_int_le(c->best_ns - c->bound_ns, c->bound_ns / 1000);
    struct written_claim read = written_claim_open(towers.result, &towers.space);
    ck_assert(accepts(&towers, &read.claim, &undecided, "nothing: it holds"));
    ck_assert_int_eq(undecided, 0);
    for (int i = 0; i < read.claim.config_count; i++)
        read.claim.configs[i].bound_ns += read.claim.configs[i].bound_ns / 200;
    ck_assert(!accepts(&towers, &read.claim, &undecided, "the certificate does not hold"));
    written_claim_close(&read);
    towers_close(&towers);
}
END_TEST

static Suite *certificate_orders_suite(void)
{
    Suite *suite = suite_create("certificate_orders");
    CHECK_ADD(suite, other_orders_have_a_bound);
    CHECK_ADD_LOOP(suite, many_orders_are_searched, 3);
    return suite;
}

CHECK_MAIN(certificate_orders_suite)
