/* The status page: of many ranks the one that is to blame comes first, with what was seen of it. */
#define _POSIX_C_SOURCE 200809L
#include "tests/check.h"
#include "base/text.h"
#include "executor/status.h"
#include "host/clock.h"
#include "tests/tiny_models.h"
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

enum { RANKS = 12, STEP = 6, INSTR = 3, WORKING_INSTR = 5, LOOKS = 1000, LOOK_NS = 10000000 };

/* Twelve ranks, each in its seventh step; the last one moved longest ago. */
struct page {
    struct graph *graph;
    struct plan *plan;
    struct program *program;
    struct status *status;
    struct text text;
};

static void page_open(struct page *p)
{
    const struct tiny_choice choice = { .dp = 4, .tp = 1, .pp = 3, .micro = 2, .tp_dim = DIM_tp, .clip = 1 };
    struct error error = { 0 };
    *p = (struct page){ .graph = tiny_graph(tiny_models[0]) };
    p->plan = tiny_plan(p->graph, &choice);
    p->program = tiny_lower(p->graph, p->plan, &error);
    ck_assert_msg(p->program != NULL, "%s", error.message);
    ck_assert_int_eq(p->plan->rank_count, RANKS);
    char path[] = "/tmp/cleave-status-test-XXXXXX";
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
    ck_assert(status_open(&p->status, path, RANKS, &error));
    unlink(path);
    for (int r = RANKS - 1; r >= 0; r--) {
        status_join(p->status, r);
        status_note(p->status, r, STEP, INSTR);
        clock_sleep_until_ns(clock_now_ns() + 1000);
    }
}

static void page_close(struct page *p)
{
    text_free(&p->text);
    status_close(p->status);
    program_free(p->program);
    plan_free(p->plan);
    graph_free(p->graph);
}

/* Whether the description begins so: "rank 11 (stage 2): step 7, instruction 3", and somewhere goes on so. */
static void expect_first(struct page *p, int rank, int instr, const char *seen)
{
    char first[64];
    text_free(&p->text);
    status_describe(p->status, p->program, &p->text);
    snprintf(first, sizeof first, "rank %d (stage %d): step %d, instruction %d ", rank,
             plan_stage_of_rank(p->plan, rank), STEP + 1, instr);
    const char *end = strchr(p->text.data, ';'), *found = strstr(p->text.data, seen);
    ck_assert_msg(strncmp(p->text.data, first, strlen(first)) == 0 && found && found < end,
                  "expected %s...%s, found %s", first, seen, p->text.data);
    ck_assert_msg(strstr(p->text.data, "; and 4 more") != NULL, "%s", p->text.data);
}

START_TEST(of_ranks_that_wait_the_slowest_is_first)
{
    struct page p;
    page_open(&p);
    status_accuse(p.status, -1);
    expect_first(&p, RANKS - 1, INSTR, ", longest without progress");
    status_note(p.status, RANKS - 1, STEP, INSTR);
    status_accuse(p.status, -1);
    expect_first(&p, RANKS - 1, INSTR, ", longest without progress"); /* the first word stands */
    page_close(&p);
}
END_TEST

START_TEST(one_that_works_comes_before_those_that_wait)
{
    struct page p;
    page_open(&p);
    status_begin_work(p.status, 10, WORKING_INSTR);
    status_begin_work(p.status, 9, WORKING_INSTR);
    status_end_work(p.status, 9, WORKING_INSTR);
    status_note(p.status, 10, STEP, INSTR); /* on another lane */
    status_accuse(p.status, -1);
    expect_first(&p, 10, WORKING_INSTR, ", which does not end");
    page_close(&p);
}
END_TEST

START_TEST(one_that_failed_is_first)
{
    struct page p;
    page_open(&p);
    status_set_failed(p.status, 9);
    expect_first(&p, 9, INSTR, "");
    status_accuse(p.status, -1); /* the others wait for it */
    ck_assert(!status_has_accused(p.status));
    expect_first(&p, 9, INSTR, "");
    page_close(&p);
}
END_TEST

/* A process for rank 10. */
static pid_t start_rank(struct page *p)
{
    uint64_t before = status_progress(p->status);
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        status_join(p->status, 10);
        status_note(p->status, 10, STEP, INSTR);
        for (;;)
            pause();
    }
    for (int i = 0; i < LOOKS && status_progress(p->status) < before + 2; i++)
        clock_sleep_until_ns(clock_now_ns() + LOOK_NS);
    return child;
}

static void end_rank(pid_t child)
{
    int result;
    kill(child, SIGKILL);
    ck_assert_int_eq(waitpid(child, &result, 0), child);
}

START_TEST(a_stopped_process_is_to_blame_whatever_becomes_of_it)
{
    struct page p;
    int result;
    page_open(&p);
    status_begin_work(p.status, 9, WORKING_INSTR);
    pid_t child = start_rank(&p);
    ck_assert(!status_has_accused(p.status));
    kill(child, SIGSTOP);
    ck_assert_int_eq(waitpid(child, &result, WUNTRACED), child);
    status_accuse(p.status, -1);
    ck_assert(status_has_accused(p.status));
    expect_first(&p, 10, INSTR, ", its process is stopped");
    end_rank(child);
    ck_assert_int_eq(status_dead_rank(p.status), -1); /* it was ended because of that */
    expect_first(&p, 10, INSTR, ", its process is stopped");
    page_close(&p);
}
END_TEST

START_TEST(only_who_did_not_give_up_is_dead)
{
    struct page p;
    page_open(&p);
    end_rank(start_rank(&p));
    ck_assert_int_eq(status_dead_rank(p.status), 10);
    status_give_up(p.status, 10);
    ck_assert_int_eq(status_dead_rank(p.status), -1);
    page_close(&p);
    page_open(&p);
    end_rank(start_rank(&p));
    status_accuse(p.status, -1);
    ck_assert_int_eq(status_dead_rank(p.status), 10);
    expect_first(&p, 10, INSTR, "");
    page_close(&p);
}
END_TEST

START_TEST(a_disk_may_take_long_but_not_for_ever)
{
    struct page p;
    page_open(&p);
    status_begin_work(p.status, 7, WORKING_INSTR);
    status_begin_disk(p.status, 4);
    uint64_t before = status_progress(p.status);
    status_tend_disks(p.status, 1e9);
    ck_assert_uint_eq(status_progress(p.status), before + 1);
    status_tend_disks(p.status, 0);
    ck_assert_uint_eq(status_progress(p.status), before + 1);
    status_accuse(p.status, -1);
    expect_first(&p, 4, INSTR, ", its disk does not answer");
    status_end_disk(p.status, 4);
    before = status_progress(p.status);
    status_tend_disks(p.status, 1e9);
    ck_assert_uint_eq(status_progress(p.status), before);
    page_close(&p);
}
END_TEST

/* What a host says of its rank is what another one would say of it. */
START_TEST(other_hosts_see_calls_work_and_disks)
{
    static const char *const seen[] = { ", a call that does not return", ", which does not end",
                                        ", its disk does not answer" };
    for (int what = 0; what < 3; what++) {
        struct page there, here;
        struct status_line line;
        struct error error = { 0 };
        page_open(&there);
        page_open(&here);
        status_close(here.status);
        ck_assert(status_open(&here.status, NULL, RANKS, &error));
        if (what == 0)
            status_note_call(there.status, 3, WORKING_INSTR, LIBRARY_TRANSFER, CALL_MADE);
        else if (what == 1)
            status_begin_work(there.status, 3, WORKING_INSTR);
        else
            status_begin_disk(there.status, 3);
        for (int r = 0; r < RANKS; r++) {
            status_export(there.status, r, &line);
            status_import(here.status, &line);
        }
        status_accuse(here.status, -1);
        expect_first(&here, 3, what == 2 ? INSTR : WORKING_INSTR, seen[what]);
        line.rank = 3, line.call = INT32_MAX; /* a lie */
        status_import(here.status, &line);
        line.call = -1;
        status_import(here.status, &line);
        text_free(&here.text);
        status_describe(here.status, here.program, &here.text);
        page_close(&there);
        page_close(&here);
    }
}
END_TEST

static volatile sig_atomic_t heard;

static void hear(int signal)
{
    (void)signal;
    heard++;
}

START_TEST(a_signal_reaches_who_joins_later_once)
{
    char path[STATUS_PATH_BYTES];
    struct error error = { 0 };
    struct status *status;
    const struct sigaction action = { .sa_handler = hear };
    ck_assert(status_share(&status, path, 2, &error));
    sigaction(SIGUSR1, &action, NULL);
    status_signal(status, SIGUSR1);
    ck_assert_int_eq(heard, 0);
    status_join(status, 1);
    ck_assert_int_eq(heard, 1);
    status_signal(status, SIGUSR1);
    status_join(status, 1);
    ck_assert_int_eq(heard, 1);
    status_close(status);
}
END_TEST

static Suite *status_suite(void)
{
    Suite *suite = suite_create("status");
    CHECK_ADD(suite, of_ranks_that_wait_the_slowest_is_first);
    CHECK_ADD(suite, one_that_works_comes_before_those_that_wait);
    CHECK_ADD(suite, one_that_failed_is_first);
    CHECK_ADD(suite, a_stopped_process_is_to_blame_whatever_becomes_of_it);
    CHECK_ADD(suite, only_who_did_not_give_up_is_dead);
    CHECK_ADD(suite, a_disk_may_take_long_but_not_for_ever);
    CHECK_ADD(suite, other_hosts_see_calls_work_and_disks);
    CHECK_ADD(suite, a_signal_reaches_who_joins_later_once);
    return suite;
}

CHECK_MAIN(status_suite)
