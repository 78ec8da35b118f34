/* NVIDIA's own library, of which opening works without a GPU: it has all that is asked of it, and says its version
 * (exit 77: skipped where it is absent). */
#include "check.h"
#include "executor/gpu/cuda.h"
#include "executor/gpu/cupti_library.h"
#include <stdio.h>
#include <string.h>

START_TEST(it_has_all_that_is_asked)
{
    struct error error = { 0 };
    struct cupti_library library;
    uint32_t version = 0;
    char text[64] = "";
    ck_assert_msg(cupti_library_open(&library, &error), "%s", error.message);
    ck_assert_int_eq(library.cuptiGetVersion(&version), CUPTI_SUCCESS);
    ck_assert_uint_gt(version, 17); /* CUDA 12.0 */
    ck_assert(cuda_watch_describe(text, sizeof text, &error));
    ck_assert_msg(strncmp(text, "CUPTI", 5) == 0 && strpbrk(text, "123456789"), "%s", text);
}
END_TEST

static Suite *cupti_library_suite(void)
{
    Suite *suite = suite_create("cupti_library");
    struct cupti_library library;
    struct error error = { 0 };
    if (!cupti_library_open(&library, &error) && strstr(error.message, "absent")) {
        printf("skipped: %s\n", error.message);
        exit(77);
    }
    CHECK_ADD(suite, it_has_all_that_is_asked);
    return suite;
}

CHECK_MAIN(cupti_library_suite)
