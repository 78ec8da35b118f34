/* Comparisons of real runs on a machine whose speed is written down here: what counts, what is repeated, what is said.
 */
#include "tests/check.h"
#include "tests/lowered_program.h"
#include "benchmarks/compare.h"
#include "executor/device.h"
#include "executor/data.h"
#include "host/catalogue.h"

enum { STEPS = 3, ROUNDS = 2, MOST_REFERENCES = 64 };

/* What the reference takes, one time after the other; the last one goes on. */
static int64_t script[MOST_REFERENCES];
static int script_length, script_at;

static bool scripted(void *context, int64_t *out_ns, struct error *err)
{
    (void)context, (void)err;
    *out_ns = script[script_at < script_length ? script_at : script_length - 1];
    script_at++;
    return true;
}

struct job {
    struct lowered one, two;
    struct catalogue *catalogue;
    struct cluster *cluster;
    struct data data;
    struct comparison comparison;
    struct run_options run;
    struct compare_options options;
};

static void add(struct job *job, const struct lowered *from, const char *name, int micros)
{
    struct error err = { 0 };
    struct plan *plan = plan_copy(from->plan);
    const struct facts facts = { .cluster = job->cluster };
    plan->micro_batch_count = micros;
    ck_assert_msg(comparison_add(&job->comparison, name, "", false, from->model, plan, &facts, &err), "%s",
                  err.message);
}

static void job_open(struct job *job)
{
    struct error err = { 0 };
    *job = (struct job){ .one = lowered_open(&strategies[0]), .two = lowered_open(&strategies[1]) };
    ck_assert(catalogue_read(&job->catalogue, SOURCE_ROOT "/planner/facts/devices", &err));
    ck_assert_msg(cluster_read(&job->cluster, "1x2:cpu", "1x2:cpu", strlen("1x2:cpu"), job->catalogue->entries,
                               job->catalogue->count, &err),
                  "%s", err.message);
    ck_assert(data_synthetic(&job->data, sample_shape_of(job->one.graph), 7, &err));
    add(job, &job->one, "one rank", job->one.plan->micro_batch_count);
    add(job, &job->two, "two ranks", job->two.plan->micro_batch_count);
    job->run = run_options_default();
    job->run.step_count = STEPS;
    job->run.data = &job->data;
    job->options = (struct compare_options){
        .run = &job->run, .rounds = ROUNDS, .steady = 0.05, .transport = "threads", .reference = scripted
    };
}

static void job_close(struct job *job)
{
    comparison_free(&job->comparison);
    data_free(&job->data);
    cluster_free(job->cluster);
    catalogue_free(job->catalogue);
    lowered_free(&job->one);
    lowered_free(&job->two);
}

static bool job_run(struct job *job, const int64_t *reference_ns, int count, struct error *err)
{
    memcpy(script, reference_ns, (size_t)count * sizeof *script);
    script_length = count, script_at = 0;
    return comparison_run(&job->comparison, &job->options, err);
}
#define RUN(job, err, ...)                                                                                             \
    job_run(job, (const int64_t[]){ __VA_ARGS__ }, sizeof((const int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t), err)

/* The entries hold the samples of the runs named, and no others. */
static void check_counted(const struct comparison *c, const bool *counts)
{
    int next[2] = { 0 }, left_out[2] = { 0 }, listed[2] = { 0 }, taken = -1;
    for (int i = 0; i < c->run_count; i++) {
        int plan = c->runs[i].plan;
        const struct report_run *shown = &c->entries[plan].runs[listed[plan]++];
        ck_assert_int_eq(shown->counts, counts[i]);
        ck_assert_int_eq(shown->step_count, STEPS - 1);
        ck_assert_ptr_eq(shown->steps_ns, c->measured[i].samples_ns);
        ck_assert_int_gt(shown->first_ns, 0);
        ck_assert_int_eq(shown->before_ns, c->reference_ns[c->runs[i].reference]);
        ck_assert_int_eq(shown->after_ns, c->reference_ns[c->runs[i].reference + 1]);
        left_out[plan] += !counts[i];
        ck_assert_int_eq(c->measured[i].sample_count, STEPS - 1);
        for (int s = 0; counts[i] && s < STEPS - 1; s++)
            ck_assert_int_eq(c->entries[plan].samples_ns[next[plan]++], c->measured[i].samples_ns[s]);
        if (!c->measured[i].timeline && plan == 0)
            taken = i;
    }
    ck_assert(taken >= 0 && counts[taken]); /* the timeline that is shown */
    for (int plan = 0; plan < 2; plan++) {
        const struct compare_entry *e = &c->entries[plan];
        ck_assert_int_eq(e->sample_count, next[plan]);
        ck_assert_int_eq(e->run_count * (STEPS - 1), next[plan]);
        ck_assert_int_eq(e->left_out_count, left_out[plan]);
        ck_assert_int_eq(e->step_count, STEPS);
        ck_assert_ptr_nonnull(e->measured);
    }
}

START_TEST(runs_beside_a_change_are_repeated)
{
    struct job job;
    struct error err = { 0 };
    job_open(&job);
    /* Rounds begin with another plan each: 0 1, 1 0, 0 1, 1. The run of 120 to 121 is steady, but alone. */
    static const bool counts[] = { true, false, false, false, true, true, true };
    ck_assert_msg(RUN(&job, &err, 100, 100, 120, 121, 100, 101, 102, 103, 500), "%s", err.message);
    const struct comparison *c = &job.comparison;
    ck_assert_int_eq(c->run_count, 7);
    ck_assert_int_eq(script_at, 8); /* one reference between two runs serves both */
    check_counted(c, counts);
    struct report_speed speed = comparison_speed(c);
    ck_assert_int_eq(speed.reference_count, 6); /* 100 100 100 101 102 103 */
    ck_assert_int_eq(speed.reference_ns, 100);  /* 100.5 */
    CHECK_NEAR(speed.drift, 0.03, 1e-12);
    struct report_plan plans[REPORT_MAX_PLANS];
    comparison_report(c, plans);
    ck_assert_int_eq(plans[0].run_count, 2);
    ck_assert_int_eq(plans[0].left_out_count, 1);
    ck_assert_int_eq(plans[1].timed_step_count, 2 * (STEPS - 1));
    ck_assert_int_eq(plans[1].measured_step_ns, compare_median(c->entries[1].samples_ns, c->entries[1].sample_count));
    job_close(&job);
}
END_TEST

START_TEST(all_runs_count_unless_asked)
{
    static const bool counts[] = { true, true, true, true };
    struct job job;
    struct error err = { 0 };
    job_open(&job);
    job.options.steady = 0;
    ck_assert_msg(RUN(&job, &err, 100, 100, 120, 121, 100, 101), "%s", err.message);
    ck_assert_int_eq(job.comparison.run_count, 2 * ROUNDS);
    check_counted(&job.comparison, counts);
    CHECK_NEAR(comparison_speed(&job.comparison).drift, 0.21, 1e-12);
    job_close(&job);
}
END_TEST

START_TEST(a_machine_that_is_never_steady)
{
    struct job job;
    struct error err = { 0 };
    int64_t drifting[MOST_REFERENCES];
    job_open(&job);
    for (int i = 0; i < MOST_REFERENCES; i++)
        drifting[i] = i % 2 ? 1000000 : 2000000;
    ck_assert(!job_run(&job, drifting, MOST_REFERENCES, &err));
    ck_assert_int_eq(err.kind, ERROR_ENVIRONMENT);
    ck_assert_int_eq(job.comparison.run_count, ROUNDS * 2);
    ck_assert_msg(strstr(err.message, "--steady 5: the machine was not steady: in 2 rounds the reference product took "
                                      "1.00 ms to 2.00 ms, and the best band of 5 % holds 0 of 4 runs, 4 too few for 2 "
                                      "of each plan: run it again") != NULL,
                  "%s", err.message);
    job_close(&job);
}
END_TEST

/* Four runs are wanted in eight rounds. One that counts in two rounds might still do, one in five would not. */
START_TEST(a_machine_that_is_seldom_steady)
{
    struct job job;
    struct error err = { 0 };
    int64_t drifting[MOST_REFERENCES];
    job_open(&job);
    for (int i = 0; i < MOST_REFERENCES; i++)
        drifting[i] = i == 0 ? 1000000 : i % 2 ? 1000000 : 2000000;
    ck_assert(!job_run(&job, drifting, MOST_REFERENCES, &err));
    ck_assert_int_eq(job.comparison.run_count, 5 * 2);
    ck_assert_msg(strstr(err.message, "in 5 rounds") && strstr(err.message, "holds 1 of 10 runs, 3 too few"), "%s",
                  err.message);
    job_close(&job);
}
END_TEST

START_TEST(the_speed_of_the_profile)
{
    struct job job;
    struct error err = { 0 };
    job_open(&job);
    job.options.known_reference_ns = 104;
    ck_assert_msg(RUN(&job, &err, 100, 100, 99, 100, 100), "%s", err.message); /* 99 is too far from 104 */
    static const bool counts[] = { true, false, false, true, true, true, true };
    ck_assert_int_eq(job.comparison.run_count, 7);
    check_counted(&job.comparison, counts);
    job_close(&job);

    job_open(&job); /* steady at another speed: no more than the rounds asked for */
    job.options.known_reference_ns = 2000000;
    ck_assert(!RUN(&job, &err, 1000000));
    ck_assert_int_eq(err.kind, ERROR_ENVIRONMENT);
    ck_assert_int_eq(job.comparison.run_count, 2 * ROUNDS);
    ck_assert_msg(strstr(err.message, "took 2.00 ms then and takes 1.00 ms now; 0 of 4 runs agree with the profile, 4 "
                                      "with each other: profile again") != NULL,
                  "%s", err.message);
    job_close(&job);
}
END_TEST

START_TEST(a_plan_that_cannot_run_needs_no_runs)
{
    struct job job;
    struct error err = { 0 };
    job_open(&job);
    add(&job, &job.two, "three micro-batches", 3);
    ck_assert(job.comparison.entries[2].failure[0]);
    ck_assert_msg(RUN(&job, &err, 100), "%s", err.message);
    ck_assert_int_eq(job.comparison.run_count, 2 * ROUNDS);
    ck_assert_int_eq(job.comparison.entries[2].run_count, 0);
    job_close(&job);
}
END_TEST

static Suite *compare_suite(void)
{
    Suite *suite = suite_create("compare");
    CHECK_ADD(suite, runs_beside_a_change_are_repeated);
    CHECK_ADD(suite, all_runs_count_unless_asked);
    CHECK_ADD(suite, a_machine_that_is_never_steady);
    CHECK_ADD(suite, a_machine_that_is_seldom_steady);
    CHECK_ADD(suite, the_speed_of_the_profile);
    CHECK_ADD(suite, a_plan_that_cannot_run_needs_no_runs);
    return suite;
}
CHECK_MAIN(compare_suite)
