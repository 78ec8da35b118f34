/* libcleave from outside: texts in, texts out. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include "cleave.h"

/* What programs were compiled with that find libcleave.so.0: another offset wants another soname (docs/library.md). */
#if UINTPTR_MAX == UINT64_MAX
_Static_assert(sizeof(struct cleave_device) == 24, "cleave_device");
_Static_assert(offsetof(struct cleave_device, json) == 8 && offsetof(struct cleave_device, length) == 16,
               "cleave_device");
_Static_assert(sizeof(struct cleave_request) == 88, "cleave_request");
_Static_assert(offsetof(struct cleave_request, model_length) == 16 && offsetof(struct cleave_request, cluster) == 24 &&
                   offsetof(struct cleave_request, device_count) == 40 &&
                   offsetof(struct cleave_request, profile) == 48 && offsetof(struct cleave_request, batch) == 64 &&
                   offsetof(struct cleave_request, sequence) == 72 && offsetof(struct cleave_request, dtype) == 80,
               "cleave_request");
_Static_assert(sizeof(struct cleave_answer) == 24 + 2048, "cleave_answer");
_Static_assert(offsetof(struct cleave_answer, step_s) == 16 && offsetof(struct cleave_answer, message) == 24,
               "cleave_answer");
#endif

static char *text_of(const char *path, size_t *length)
{
    char full[512];
    snprintf(full, sizeof full, "%s/%s", SOURCE_ROOT, path);
    FILE *file = fopen(full, "rb");
    ck_assert_msg(file != NULL, "cannot open %s", full);
    char *text = malloc(1 << 20);
    *length = fread(text, 1, 1 << 20, file);
    fclose(file);
    return text;
}

static struct cleave_request request_of(struct cleave_device *device, char **model, char **json)
{
    struct cleave_request r = {
        .model_name = "tiny-gpt", .cluster = "1x4:a100-sxm-80", .devices = device, .device_count = 1, .batch = 8
    };
    *model = text_of("models/zoo/tiny-gpt.json", &r.model_length);
    *json = text_of("planner/facts/devices/a100-sxm-80.json", &device->length);
    device->name = "a100-sxm-80";
    device->json = *json;
    r.model = *model;
    return r;
}

START_TEST(plans)
{
    struct cleave_device device;
    struct cleave_answer answer, again;
    char *model, *json;
    struct cleave_request request = request_of(&device, &model, &json);
    ck_assert_msg(cleave_plan(&request, &answer) == 0, "%s", answer.message);
    ck_assert_ptr_nonnull(strstr(answer.plan, "\"cleave-plan\""));
    ck_assert(answer.step_s > 0 && answer.step_s < 1);
    ck_assert_uint_eq(strlen(answer.plan), answer.plan_length);
    ck_assert_int_eq(cleave_plan(&request, &again), 0);
    ck_assert_str_eq(answer.plan, again.plan);
    cleave_answer_free(&answer);
    cleave_answer_free(&again);
    ck_assert_ptr_null(answer.plan);
    free(model), free(json);
}
END_TEST

START_TEST(says_why_not)
{
    struct cleave_device device;
    struct cleave_answer answer;
    char *model, *json;
    struct cleave_request request = request_of(&device, &model, &json);
    request.cluster = "1x4:a100-sxm-8";
    ck_assert_int_eq(cleave_plan(&request, &answer), 2);
    ck_assert_ptr_nonnull(strstr(answer.message, "did you mean"));
    request.cluster = "1x4:a100-sxm-80";
    request.batch = 0;
    ck_assert_int_eq(cleave_plan(&request, &answer), 2);
    request.batch = 8;
    request.model_length = 10;
    ck_assert_int_eq(cleave_plan(&request, &answer), 2);
    ck_assert_ptr_null(answer.plan);
    free(model), free(json);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("embed");
    TCase *tests = tcase_create("embed");
    tcase_add_test(tests, plans);
    tcase_add_test(tests, says_why_not);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
