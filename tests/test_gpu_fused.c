/* What programs on GPUs leave to one call, and that the numbers are the processor's all the same: products with what
 * follows them, sums with norms, the loss, experts. Of a real GPU (CLEAVE_GPU_MODULE) the numbers. */
#include "executor/gpu/kinds.h"
#include "tests/gpu_runs.h"

/* A model with biases and GELU: products take what follows them, in every plan, and the numbers are those of the
 * processor, which has no such products. A real library may refuse what is as small as here. */
START_TEST(products_take_what_follows_them)
{
    struct outcome want = gpu_run(tiny_models[0], &gpu_single, &device_cpu, NULL, NULL);
    for (int c = -1; c < GPU_TRIED; c += 2) {
        for (int e = 0; e <= GPU_BIAS_GRADIENT; e++)
            counted.granted[e] = 0;
        struct outcome got =
            gpu_run(tiny_models[0], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
        if (gpu_module_path())
            continue;
        ck_assert_msg(counted.granted[GPU_BIAS] > 0, "choice %d: no bias went with a product", c);
        ck_assert_msg(c >= 0 || (counted.granted[GPU_GELU_BIAS] > 0 && counted.granted[GPU_GELU_SLOPE] > 0 &&
                                 counted.granted[GPU_BIAS_GRADIENT] > 0),
                      "choice %d: %d, %d and %d epilogues", c, counted.granted[GPU_GELU_BIAS],
                      counted.granted[GPU_GELU_SLOPE], counted.granted[GPU_BIAS_GRADIENT]);
    }
}
END_TEST

/* Every norm but the first stands behind a residual sum, in whatever layout: both run as one, and what the sum leaves
 * for later layers is there. */
START_TEST(sums_take_the_norm_behind_them)
{
    for (int c = -1; c < GPU_TRIED; c++) {
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want =
            gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_cpu, NULL, NULL);
        counted.launches[GPU_NORM] = counted.launches[GPU_ADD_NORM] = 0;
        struct outcome got =
            gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_single, NULL, NULL);
        gpu_expect_same(&got, &want);
        if (c < 0)
            ck_assert_msg(counted.launches[GPU_ADD_NORM] > counted.launches[GPU_NORM],
                          "model %d: %lld norms of their own, %lld others", _i, (long long)counted.launches[GPU_NORM],
                          (long long)counted.launches[GPU_ADD_NORM]);
    }
}
END_TEST

/* The logits are read once for their maximum and the sum of their exponentials, where the vocabulary is not split. */
START_TEST(the_loss_reads_logits_once)
{
    for (int c = -1; c < GPU_TRIED; c += 2) {
        if (!in_share((uint64_t)c + 1))
            continue;
        struct outcome want =
            gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c], &device_cpu, NULL, NULL);
        for (int d = 0; d < 2; d++) {
            counted.launches[GPU_LOGIT_MAX] = counted.launches[GPU_SUM_EXP] = counted.launches[GPU_MAX_SUM_EXP] = 0;
            struct outcome got = gpu_run(tiny_models[_i], c < 0 ? &gpu_single : &gpu_choices_tried[c],
                                         d ? &device_teams : &device_single, NULL, NULL);
            gpu_expect_same(&got, &want);
            ck_assert_int_eq(counted.launches[GPU_LOGIT_MAX], counted.launches[GPU_SUM_EXP]);
            ck_assert(c >= 0 || (counted.launches[GPU_MAX_SUM_EXP] > 0 && counted.launches[GPU_SUM_EXP] == 0));
        }
    }
}
END_TEST

/* Two layers of four experts with two matrices each: every matrix is one call for all experts, forward and both ways
 * back. A real library may have reasons of its own. */
START_TEST(experts_are_multiplied_together)
{
    const int64_t calls = 2 * 2 * 3 * STEPS;
    struct outcome want = gpu_run(TINY_DROPLESS, &gpu_single, &device_cpu, NULL, NULL);
    counted.calls_of_several = counted.products_in_several = 0;
    struct outcome got = gpu_run(TINY_DROPLESS, &gpu_single, &device_single, NULL, NULL);
    gpu_expect_same(&got, &want);
    if (gpu_module_path())
        return;
    ck_assert_int_eq(counted.calls_of_several, calls);
    ck_assert_int_eq(counted.products_in_several, 4 * calls);
}
END_TEST

/* What is timed differs from run to run: a library must know of every product that none of its choices may. */
START_TEST(no_product_with_fixed_bits_is_timed)
{
    for (int fixed = 0; fixed < 2; fixed++) {
        counted.products = counted.products_with_fixed_bits = 0;
        settings.fixed_bits = fixed;
        gpu_run(tiny_models[0], &gpu_single, &device_single, NULL, NULL);
        ck_assert_int_gt(counted.products, 0);
        ck_assert_int_eq(counted.products_with_fixed_bits, fixed ? counted.products : 0);
    }
    settings.fixed_bits = false;
}
END_TEST

static Suite *gpu_fused_suite(void)
{
    Suite *suite = suite_create("gpu_fused");
    CHECK_ADD(suite, products_take_what_follows_them);
    CHECK_ADD_LOOP(suite, sums_take_the_norm_behind_them, 2);
    CHECK_ADD_LOOP(suite, the_loss_reads_logits_once, 2);
    CHECK_ADD(suite, experts_are_multiplied_together);
    CHECK_ADD(suite, no_product_with_fixed_bits_is_timed);
    return suite;
}

CHECK_MAIN(gpu_fused_suite)
