/* Differences between two plans, listed where they are and by their names. */
#include "formats/plan_difference.h"
#include "base/num.h"
#include "tests/fixed_choices.h"
#include "tests/toy_world.h"
#include <stdio.h>

static bool covers(const struct difference *d, int layer)
{
    int first = -1, last = -1;
    if (sscanf(d->where, "layers %d-%d", &first, &last) == 2)
        return layer >= first && layer <= last;
    return sscanf(d->where, "layer %d", &first) == 1 && layer == first;
}

static int mentions(const struct differences *d, int layer, const char *what)
{
    int count = 0;
    for (int i = 0; i < d->count; i++)
        count += covers(&d->list[i], layer) && !strcmp(d->list[i].what, what);
    return count;
}

/* A layer's decision is listed once exactly where it differs; what is the same is not listed. */
START_TEST(differences_are_where_they_are)
{
    struct world world = world_open("1x4:toy", 80000000000, 6);
    struct space space = space_default(8, 0, DTYPE_BF16);
    union fixed u = fixed_none();
    struct plan *a = NULL;
    struct error err = { 0 };
    uint64_t seed = 3;
    u.stages = 2, u.tensor = 1, u.data = 2, u.micro = 1;
    ck_assert(fixed_choices_plan(&a, &u, &space, world.model, &world.facts, &err));
    for (int n = 0; n < 200; n++) {
        struct plan *b = plan_copy(a);
        struct differences d;
        int changes = (int)(mix64(seed++) % 6), differing = 0, listed = 0;
        for (int i = 0; i < changes; i++) {
            struct plan_layer *layer = &b->layers[mix64(seed++) % (uint64_t)b->layer_count];
            layer->zero = (int8_t)(mix64(seed++) % 4);
            layer->recompute = (int8_t)(mix64(seed++) % RECOMPUTE_COUNT);
            layer->slices = (int16_t)(1 + mix64(seed++) % 2);
        }
        b->prefetch = n % 2 ? a->prefetch : a->prefetch + 1;
        ck_assert_msg(diff_plans(&d, a, b, &err), "%s", err.message);
        for (int l = 0; l < a->layer_count; l++) {
            ck_assert_int_eq(mentions(&d, l, "zero"), a->layers[l].zero != b->layers[l].zero);
            ck_assert_int_eq(mentions(&d, l, "recompute"), a->layers[l].recompute != b->layers[l].recompute);
            ck_assert_int_eq(mentions(&d, l, "slices"), a->layers[l].slices != b->layers[l].slices);
            ck_assert_int_eq(mentions(&d, l, "dims"), 0);
            differing += !plan_layer_equal(&a->layers[l], &b->layers[l]);
        }
        for (int i = 0; i < d.count; i++)
            listed += !strcmp(d.list[i].where, "plan");
        ck_assert_int_eq(listed, n % 2 == 0);
        ck_assert_int_eq(d.count == 0, differing == 0 && n % 2);
        differences_free(&d);
        plan_free(b);
    }
    plan_free(a);
    world_close(&world);
}
END_TEST

/* What is not written has its usual value. */
START_TEST(differences_name_what_is_unsaid)
{
    struct world world = world_open("1x4:toy", 80000000000, 6);
    struct space space = space_default(8, 0, DTYPE_BF16);
    union fixed u = fixed_none();
    struct plan *a = NULL;
    struct differences d;
    struct error err = { 0 };
    u.stages = 2, u.tensor = 1, u.data = 2, u.micro = 1;
    ck_assert(fixed_choices_plan(&a, &u, &space, world.model, &world.facts, &err));
    struct plan *b = plan_copy(a);
    b->clock = CLOCK_WORK, b->loss_chunks = 2;
    ck_assert_msg(diff_plans(&d, a, b, &err), "%s", err.message);
    ck_assert_int_eq(d.count, 2);
    for (int i = 0; i < d.count; i++) {
        bool clock = !strcmp(d.list[i].what, "clock");
        ck_assert_str_eq(d.list[i].a, clock ? "even" : "1");
        ck_assert_str_eq(d.list[i].b, clock ? "work" : "2");
    }
    differences_free(&d);
    /* Layers that differ alike are one range, whatever else they have. */
    b->clock = a->clock, b->loss_chunks = a->loss_chunks;
    b->whole_blocks = true, b->chunk_group = 3, b->optimizer.part[0] = 1;
    for (int l = 0; l < a->layer_count; l++) {
        a->layers[l].slices = b->layers[l].slices = (int16_t)(1 + l % 2);
        b->layers[l].zero = (int8_t)(a->layers[l].zero + 1);
    }
    b->layers[0].reshard = a->layers[0].reshard == RESHARD_EACH_PASS ? RESHARD_EACH_STEP : RESHARD_EACH_PASS;
    ck_assert_msg(diff_plans(&d, a, b, &err), "%s", err.message);
    static const char *const words[][4] = {
        { "plan", "whole_blocks", "none", "true" }, { "plan", "chunk_group", "the least", "3" },
        { "plan", "optimizer", "adamw", "sgd" },    { "layer 0", "zero", "0", "1" },
        { "layer 0", "reshard", "true", "false" },
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        bool found = false;
        for (int k = 0; k < d.count; k++)
            found |= !strcmp(d.list[k].where, words[i][0]) && !strcmp(d.list[k].what, words[i][1]) &&
                     !strcmp(d.list[k].a, words[i][2]) && !strcmp(d.list[k].b, words[i][3]);
        ck_assert_msg(found, "%s %s", words[i][0], words[i][1]);
    }
    ck_assert_int_eq(mentions(&d, 1, "zero"), 1);
    ck_assert_int_eq(d.count, 6);
    differences_free(&d);
    plan_free(b);
    plan_free(a);
    world_close(&world);
}
END_TEST

static Suite *plan_difference_suite(void)
{
    Suite *suite = suite_create("plan_difference");
    CHECK_ADD(suite, differences_are_where_they_are);
    CHECK_ADD(suite, differences_name_what_is_unsaid);
    return suite;
}

CHECK_MAIN(plan_difference_suite)
