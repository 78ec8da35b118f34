/* Reports: every value is escaped, the order is by time, the page is whole. */
#include "tests/check.h"
#include "tests/lowered_program.h"
#include "benchmarks/chart.h"
#include "benchmarks/compare.h"

static const char *const hostile = "<script>alert('x')</script>&\"|`\x1b[2J\x07\x7f\xc2\x9b\xff";

static struct report_plan plan_of(const char *name, int64_t predicted, int64_t measured)
{
    static const int64_t bytes[2] = { 1 << 30, 1 << 29 };
    struct report_plan plan = { .name = name,
                                .description = hostile,
                                .predicted_step_ns = predicted,
                                .measured_step_ns = measured,
                                .rank_count = 2,
                                .predicted_peak_bytes = bytes,
                                .measured_peak_bytes = measured ? bytes : NULL,
                                .tokens_per_step = 512 };
    plan.predicted_breakdown_ns[TIME_COMPUTE] = predicted;
    plan.measured_breakdown_ns[TIME_COMPUTE] = measured;
    return plan;
}

static struct report report_of(const struct report_plan *plans, int count)
{
    static const char *const provenance[][2] = { { "command", "</script><b>" }, { NULL, NULL } };
    static const char *const notes[] = { "a note with <tags>", NULL };
    return (struct report){ .title = hostile,
                            .model = "m",
                            .cluster = "c",
                            .memory_limit_bytes = (int64_t)2 << 30,
                            .provenance = provenance,
                            .notes = notes,
                            .plan_count = count,
                            .plans = plans };
}

START_TEST(order_and_error)
{
    struct report_plan plans[4] = { plan_of("slow", 300, 310), plan_of("fast", 100, 110), plan_of("not run", 200, 0),
                                    plan_of("failed", 1, 0) };
    plans[3].failure = "does not fit";
    struct report report = report_of(plans, 4);
    int order[REPORT_MAX_PLANS];
    report_order(&report, order);
    ck_assert_int_eq(order[0], 1);
    ck_assert_int_eq(order[1], 2);
    ck_assert_int_eq(order[2], 0);
    ck_assert_int_eq(order[3], 3);
    CHECK_NEAR(report_error(&plans[1]), -10.0 / 110, 1e-12);
    ck_assert(isnan(report_error(&plans[2])));
    CHECK_NEAR(report_mean_error(&report), (10.0 / 110 + 10.0 / 310) / 2, 1e-12);
}
END_TEST

START_TEST(exposed_communication_is_what_is_not_work_or_idleness)
{
    struct timeline timeline = { 0 };
    struct report_plan plan = plan_of("a", 100, 110);
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        plan.predicted_breakdown_ns[k] = 1, plan.measured_breakdown_ns[k] = 3;
    ck_assert_int_eq(report_exposed_ns(plan.predicted_breakdown_ns),
                     TIME_KIND_COUNT - 5); /* waiting for the host is idleness */
    ck_assert(isnan(report_exposed_error(&plan)));
    plan.measured = &timeline;
    CHECK_NEAR(report_exposed_error(&plan), -2.0 * (TIME_KIND_COUNT - 5) / 110, 1e-12);
}
END_TEST

START_TEST(everything_is_escaped)
{
    struct report_plan plans[2] = { plan_of(hostile, 100, 90), plan_of("b", 200, 0) };
    plans[1].failure = hostile;
    plans[0].file = "{\"x-note\": \"</script><b>\"}";
    struct report report = report_of(plans, 2);
    struct text html = { 0 }, markdown = { 0 };
    report_html(&report, &html);
    report_markdown(&report, &markdown);
    ck_assert(!html.failed && !markdown.failed);
    ck_assert_ptr_null(strstr(html.data, "<script>alert"));
    ck_assert_ptr_null(strstr(html.data, "</script><b>"));
    ck_assert_ptr_nonnull(strstr(html.data, "&lt;script&gt;alert"));
    ck_assert_ptr_nonnull(strstr(html.data, "</html>"));
    ck_assert_ptr_null(strstr(html.data, " src=")); /* nothing is fetched */
    for (const char *p = html.data; (p = strstr(p, " href=\"")); p++)
        ck_assert_int_eq(p[strlen(" href=\"")], '#');
    ck_assert_ptr_null(strstr(html.data, "url("));
    ck_assert_ptr_null(strstr(markdown.data, "|`"));
    ck_assert_ptr_nonnull(strstr(html.data, "\\x1B[2J\\x07\\x7F\\xC2\\x9B\\xFF"));
    ck_assert_ptr_nonnull(strstr(markdown.data, "\\x1B[2J\\x07\\x7F\\xC2\\x9B\\xFF"));
    ck_assert_ptr_null(strpbrk(html.data, "\x1b\x07\x7f\xff"));
    ck_assert_ptr_null(strpbrk(markdown.data, "\x1b\x07\x7f\xff"));
    text_free(&html);
    text_free(&markdown);
}
END_TEST

START_TEST(raw_data_reads_back)
{
    static const int64_t kept_ns[] = { 1300000000, 1400000000, 1500000000 }, left_ns[] = { 9000000000 };
    const struct report_run runs[] = {
        { .counts = true,
          .first_ns = 2000000000,
          .step_count = 3,
          .steps_ns = kept_ns,
          .before_ns = 50,
          .after_ns = 60 },
        { .step_count = 1, .steps_ns = left_ns },
    };
    struct report_plan plans[1] = { plan_of("a", 1500000000, 1400000000) };
    plans[0].run_count = plans[0].left_out_count = 1;
    plans[0].runs = runs;
    plans[0].file = "{\"format\": \"cleave-plan\", \"version\": 1}";
    struct report report = report_of(plans, 1);
    struct text json = { 0 };
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    report_json(&report, 1, &json);
    ck_assert_msg(json_parse(&doc, "report", json.data, json.length, &err), "%s", err.message);
    const struct json *plan = json_at(json_member(json_root(doc), "plans"), 0);
    double step = 0;
    ck_assert(json_double(json_member(plan, "measured_step_s"), 0, 10, &step, &err));
    CHECK_NEAR(step, 1.4, 1e-12);
    const struct json *rounds = json_member(plan, "rounds");
    for (int i = 0; i < 3; i++) {
        ck_assert(json_double(json_at(json_member(json_at(rounds, 0), "step_s"), i), 0, 10, &step, &err));
        CHECK_NEAR(step, (double)kept_ns[i] / 1e9, 0);
    }
    bool counts = true;
    ck_assert(json_bool(json_member(json_at(rounds, 1), "counts"), &counts, &err) && !counts);
    ck_assert(json_double(json_at(json_member(json_at(rounds, 1), "step_s"), 0), 0, 10, &step, &err));
    CHECK_NEAR(step, 9, 0);
    ck_assert_ptr_null(json_at(rounds, 2));
    const char *format = NULL;
    ck_assert(json_string(json_member(json_member(plan, "plan_file"), "format"), &format, &err));
    ck_assert_str_eq(format, "cleave-plan");
    json_free(doc);
    text_free(&json);
}
END_TEST

START_TEST(statistics)
{
    const int64_t samples[] = { 50, 10, 40, 20, 30 };
    ck_assert_int_eq(compare_median(samples, 5), 30);
    ck_assert_int_eq(compare_median(samples, 4), 30);
    CHECK_NEAR(compare_spread(samples, 5), 20.0 / 30, 1e-12);
    ck_assert_int_eq(compare_median(NULL, 0), 0);
}
END_TEST

/* The bar of one step does not pass for the median, which the table has. */
START_TEST(a_bar_says_of_what_it_is)
{
    struct timeline timeline = { .step_ns = 1750000000 };
    struct report_plan plan = plan_of("a", 1500000000, 1400000000);
    struct report report = report_of(&plan, 1);
    struct text svg = { 0 };
    const int order[] = { 0 };
    plan.measured = &timeline;
    plan.measured_breakdown_ns[TIME_COMPUTE] = timeline.step_ns;
    chart_breakdown(&svg, &report, order);
    ck_assert_ptr_nonnull(strstr(svg.data, ">predicted: 1.50 s<"));
    ck_assert_ptr_nonnull(strstr(svg.data, ">one step&#39;s timeline: 1.75 s<"));
    text_free(&svg);
}
END_TEST

/* A plan that does not fit comes after those that do, however fast it would be. */
START_TEST(what_does_not_fit_comes_last)
{
    struct report_plan plans[3] = { plan_of("too large", 100, 0), plan_of("fits", 300, 0), plan_of("failed", 1, 0) };
    int64_t available[1] = { 1 };
    const struct prediction small = { .stage_count = 1, .available_bytes = available, .fits = false };
    plans[0].prediction = &small;
    plans[2].failure = "not lowered";
    struct report report = report_of(plans, 3);
    struct text html = { 0 };
    int order[REPORT_MAX_PLANS];
    report_order(&report, order);
    ck_assert_int_eq(order[0], 1);
    ck_assert_int_eq(order[1], 0);
    ck_assert_int_eq(order[2], 2);
    report_html(&report, &html);
    ck_assert_ptr_nonnull(strstr(html.data, "does not fit"));
    text_free(&html);
}
END_TEST

/* A step of half the tokens is not the faster for being shorter: what works off more tokens in a second is. */
START_TEST(other_work_is_ranked_by_its_rate)
{
    struct report_plan plans[2] = { plan_of("half", 100, 0), plan_of("full", 190, 0) };
    plans[1].tokens_per_step = 2 * plans[0].tokens_per_step;
    struct report report = report_of(plans, 2);
    struct text html = { 0 };
    int order[REPORT_MAX_PLANS];
    ck_assert(!report_is_same_work(&report));
    report_order(&report, order);
    ck_assert_int_eq(order[0], 1);
    CHECK_NEAR(report_times_as_long(&plans[0], &plans[1]), 200.0 / 190, 1e-12);
    report_html(&report, &html);
    ck_assert_ptr_nonnull(strstr(html.data, "</strong> has most tokens/s, "));
    ck_assert_ptr_nonnull(strstr(html.data, ", 5.3 % more than half (the plans&#39; steps are not of the same work)"));
    ck_assert_ptr_null(strstr(html.data, "fastest"));
    text_free(&html);
    plans[1].tokens_per_step = plans[0].tokens_per_step;
    ck_assert(report_is_same_work(&report));
    plans[0].parameters = 1e9;
    ck_assert(!report_is_same_work(&report));
}
END_TEST

/* ---- timelines ---- */
static double attribute(const char *element, const char *end, const char *name, const char **rest)
{
    const char *at = strstr(element, name);
    *rest = at && at < end ? at + strlen(name) : NULL;
    return *rest ? strtod(*rest, NULL) : 0;
}

/* What the paths of a figure cover of its time axis, as a browser draws them; *paths: their number. */
static double covered(const char *svg, int *paths)
{
    double all = 0;
    *paths = 0;
    for (const char *p = svg; (p = strstr(p, "<path d=\"M")); p++, (*paths)++) {
        const char *end = strstr(p, "/>"), *dashes, *d = p + strlen("<path d=\"M");
        double length = 0;
        for (; *d != '"'; d++)
            length += *d == 'h' ? strtod(d + 1, NULL) : 0;
        attribute(p, end, "stroke-dasharray=\"", &dashes);
        if (!dashes) {
            all += length;
            continue;
        }
        double list[256];
        int count = 0;
        for (char *next = (char *)dashes; *next != '"'; count++)
            list[count] = strtod(next, &next);
        ck_assert_int_eq(count % 2, 0);
        for (int i = 0; length > 1e-6; length -= list[i], i = (i + 1) % count)
            all += i % 2 ? 0 : fmin(list[i], length);
    }
    return all;
}

enum { PIPE_STAGES = 32, PIPE_MICROS = 384, PIPE_SPANS = 2 * PIPE_MICROS, FORWARD_NS = 20, BACKWARD_NS = 40 };
struct pipe {
    struct plan plan;
    struct program program;
    struct stage_program stages[PIPE_STAGES];
    struct timeline timeline;
    struct rank_timeline ranks[PIPE_STAGES];
    struct instr instrs[PIPE_STAGES][PIPE_SPANS];
    struct span spans[PIPE_STAGES][PIPE_SPANS];
};

/* One forward, one backward, as many in flight as stages follow; what its spans sum to. */
static int64_t fill_pipe(struct pipe *p)
{
    int64_t sum = 0;
    for (int s = 0; s < PIPE_STAGES; s++) {
        int ahead = PIPE_STAGES - s, forward = 0, backward = 0;
        int64_t now = (int64_t)s * FORWARD_NS;
        for (int i = 0; i < PIPE_SPANS; i++) {
            bool goes_back = forward == PIPE_MICROS || forward - backward == ahead;
            if (goes_back && backward == 0)
                now = (int64_t)PIPE_STAGES * FORWARD_NS + (int64_t)(PIPE_STAGES - 1 - s) * BACKWARD_NS;
            int64_t ns = goes_back ? BACKWARD_NS : FORWARD_NS;
            p->instrs[s][i] = (struct instr){ .op = OP_COMPUTE,
                                              .phase = goes_back ? PHASE_BACKWARD_INPUT : PHASE_FORWARD,
                                              .lane = LANE_COMPUTE,
                                              .layer = -1,
                                              .micro = goes_back ? backward++ : forward++ };
            p->spans[s][i] = (struct span){ now, now + ns };
            now += ns;
            sum += ns;
            p->timeline.step_ns = now > p->timeline.step_ns ? now : p->timeline.step_ns;
        }
        p->stages[s] = (struct stage_program){ .instrs = p->instrs[s], .instr_count = PIPE_SPANS };
        p->ranks[s] = (struct rank_timeline){ .rank = s, .stage = s, .span_count = PIPE_SPANS, .spans = p->spans[s] };
    }
    p->plan =
        (struct plan){ .rank_count = 8 * PIPE_STAGES, .stage_count = PIPE_STAGES, .micro_batch_count = PIPE_MICROS };
    p->program = (struct program){ .plan = &p->plan, .stages = p->stages, .stage_count = PIPE_STAGES };
    p->timeline.rank_count = PIPE_STAGES;
    p->timeline.ranks = p->ranks;
    return sum;
}

/* Bars that repeat are drawn as dashes: 24,576 bars in a few bytes each hundred, and none is lost. */
START_TEST(long_timelines_are_small_and_whole)
{
    struct pipe *p = calloc(1, sizeof *p);
    struct text svg = { 0 };
    int paths;
    ck_assert_ptr_nonnull(p);
    double sum = (double)fill_pipe(p);
    chart_gantt(&svg, &p->program, &p->timeline, p->timeline.step_ns, "title", 70000);
    ck_assert_uint_lt(svg.length, 70000);
    double share = covered(svg.data, &paths) / 100000;
    CHECK_NEAR(share, sum / (double)p->timeline.step_ns, 1e-3 * sum / (double)p->timeline.step_ns);
    ck_assert_int_lt(paths, 8 * PIPE_STAGES);
    ck_assert_ptr_nonnull(strstr(svg.data, ">stage 31<"));
    ck_assert_ptr_nonnull(strstr(svg.data, "data-m=\"0-31\"")); /* before the first backward pass of stage 0 */
    text_free(&svg);
    chart_gantt(&svg, &p->program, &p->timeline, p->timeline.step_ns, "title", 4000); /* fewer ranks */
    ck_assert_uint_lt(svg.length, 8000);
    ck_assert_ptr_nonnull(strstr(svg.data, "of 32 rows one in"));
    text_free(&svg);
    free(p);
}
END_TEST

/* Figures of a real program: each strategy draws well-formed SVG (tags balance). */
START_TEST(gantt_of_every_strategy)
{
    for (int i = 0; i < STRATEGY_COUNT; i++) {
        struct lowered l = lowered_program(&strategies[i]);
        struct span spans[1] = { { 0, 1000 } };
        struct rank_timeline rank = { .rank = 0, .stage = 0, .span_count = 1, .spans = spans };
        struct timeline t = { .step_ns = 1000, .rank_count = 1, .ranks = &rank };
        struct text svg = { 0 };
        chart_gantt(&svg, l.program, &t, 1000, "title", 10000);
        chart_closeup(&svg, l.program, &t);
        int open = 0, close = 0, paths;
        for (const char *p = svg.data; (p = strstr(p, "<div")); p++)
            open++;
        for (const char *p = svg.data; (p = strstr(p, "</div>")); p++)
            close++;
        ck_assert_int_eq(open, close);
        ck_assert_ptr_nonnull(strstr(svg.data, "</svg>"));
        CHECK_NEAR(covered(svg.data, &paths), 100000, 1);
        text_free(&svg);
        lowered_free(&l);
    }
}
END_TEST

static Suite *report_suite(void)
{
    Suite *suite = suite_create("report");
    TCase *tests = tcase_create("report");
    tcase_add_test(tests, order_and_error);
    tcase_add_test(tests, exposed_communication_is_what_is_not_work_or_idleness);
    tcase_add_test(tests, everything_is_escaped);
    tcase_add_test(tests, raw_data_reads_back);
    tcase_add_test(tests, statistics);
    tcase_add_test(tests, a_bar_says_of_what_it_is);
    tcase_add_test(tests, what_does_not_fit_comes_last);
    tcase_add_test(tests, other_work_is_ranked_by_its_rate);
    tcase_add_test(tests, long_timelines_are_small_and_whole);
    tcase_add_test(tests, gantt_of_every_strategy);
    suite_add_tcase(suite, tests);
    return suite;
}
CHECK_MAIN(report_suite)
