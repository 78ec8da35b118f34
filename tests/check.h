/* The main() that all unit tests share, and comparisons that print both values. */
#ifndef CLEAVE_TESTS_CHECK_H
#define CLEAVE_TESTS_CHECK_H
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* CLEAVE_TEST_SHARE=8: of the long lists of cases one in 8 runs, for sanitizers, once more have run without them. */
static inline int share_stride(void)
{
    const char *stride = getenv("CLEAVE_TEST_SHARE");
    return stride && atoi(stride) > 1 ? atoi(stride) : 1;
}

static inline bool in_share(uint64_t number)
{
    return number % (uint64_t)share_stride() == 0;
}

/* Whether so few cases are wanted, as under sanitizers, that even what every change must pass whole is thinned out, and
 * that single long cases are left out. */
static inline bool small_share(void)
{
    return share_stride() > 8;
}

/* Whether all cases are wanted, also those that take long for what they find beyond the others (./run-tests --all). */
static inline bool all_cases(void)
{
    return share_stride() == 1;
}

/* Of cases that each cost several searches a share has one in so many, a whole run all. */
static inline bool in_turn(int number, int every)
{
    return all_cases() || number % every == 0;
}

/* Before a process ends by _exit(), which leaves what gcov has counted unwritten. */
static inline void count_lines(void)
{
#ifdef CLEAVE_COUNTS_LINES
    void __gcov_dump(void);
    __gcov_dump();
#endif
}

/* Check notes each comparison that held in a file, which takes longer than most comparisons. After a crash it names the
 * test all the same, and a sanitizer the line. */
#define _mark_point(file, line) ((void)0)

#undef fail /* an old name of ck_abort_msg; here it is the function of base/error.h */

#define CHECK_NEAR(got, want, tolerance)                                                                               \
    do {                                                                                                               \
        double got_ = (got), want_ = (want), tolerance_ = (tolerance);                                                 \
        ck_assert_msg(fabs(got_ - want_) <= tolerance_, "%s: got %.17g, expected %.17g within %g", #got, got_, want_,  \
                      tolerance_);                                                                                     \
    } while (0)

/* CHECK_ADD(suite, test): the test as a case of its own, without a time limit: a slow machine is not a wrong program.
 */
#define CHECK_ADD(suite, test)                                                                                         \
    do {                                                                                                               \
        TCase *case_ = tcase_create(#test);                                                                            \
        tcase_set_timeout(case_, 0);                                                                                   \
        tcase_add_test(case_, test);                                                                                   \
        suite_add_tcase(suite, case_);                                                                                 \
    } while (0)

/* The same for each number from 0 to below count, which the test finds in _i. */
#define CHECK_ADD_LOOP(suite, test, count)                                                                             \
    do {                                                                                                               \
        TCase *case_ = tcase_create(#test);                                                                            \
        tcase_set_timeout(case_, 0);                                                                                   \
        tcase_add_loop_test(case_, test, 0, count);                                                                    \
        suite_add_tcase(suite, case_);                                                                                 \
    } while (0)

/* CHECK_MAIN(suite_a, suite_b): runs the suites that these functions make. CK_FORK=no is for
 * debuggers and sanitizers. */
#define CHECK_MAIN(...)                                                                                                \
    int main(void)                                                                                                     \
    {                                                                                                                  \
        Suite *(*const suites_[])(void) = { __VA_ARGS__ };                                                             \
        SRunner *runner_ = srunner_create(suites_[0]());                                                               \
        for (size_t i_ = 1; i_ < sizeof suites_ / sizeof *suites_; i_++)                                               \
            srunner_add_suite(runner_, suites_[i_]());                                                                 \
        srunner_run_all(runner_, CK_NORMAL);                                                                           \
        int failed_ = srunner_ntests_failed(runner_);                                                                  \
        srunner_free(runner_);                                                                                         \
        return failed_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;                                                             \
    }
#endif
