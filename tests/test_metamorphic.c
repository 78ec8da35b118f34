/* Questions whose answers must be each other's, asked of whole searches: a world in which everything takes so many
 * times as long, layers of the same kind under each other's names, and branches that stand elsewhere in the file. */
#include "base/num.h"
#include "base/text.h"
#include "planner/search/search.h"
#include "tests/check.h"
#include "tests/toy_world.h"

/* GRAIN: of sizes; times per byte and operation are powers of two in nanoseconds, so that shares of up to 6 are whole.
 */
enum { LAYERS = 6, KINDS = 3, GRAIN = 15 << 10 };
struct question {
    uint64_t state;
    int layers, kind_of[LAYERS], name_of[LAYERS];
    int inputs[LAYERS][2]; /* layers that it reads, -1: none; by their place */
    int64_t forward_us[KINDS], parameters[KINDS], saved[KINDS];
    int64_t memory_bytes, byte_ns[4], latency_ns[4]; /* memory, link, network, host */
    const char *form;
    struct space space;
};

static int64_t draw(struct question *q, int64_t below)
{
    return (int64_t)(mix64(q->state++) % (uint64_t)below);
}

/* From the first layer on two towers, side by side, up to the last one. */
static void draw_towers(struct question *q)
{
    int top[2] = { 0, 0 }, last = q->layers - 1;
    for (int l = 1; l < last; l++) {
        int *own = &top[draw(q, 2)];
        q->inputs[l][0] = *own;
        *own = l;
    }
    q->inputs[last][0] = top[0] > 0 ? top[0] : top[1];
    q->inputs[last][1] = top[0] > 0 && top[1] > 0 ? top[1] : -1;
}

static struct question question_draw(uint64_t seed, bool branches)
{
    static const char *const forms[] = { "1x1:a", "1x2:a", "1x4:a", "2x2:a", "1x8:a", "2x4:a" };
    struct question q = { .state = mix64(seed) << 8 };
    q.layers = 2 + (int)draw(&q, LAYERS - 1);
    for (int k = 0; k < KINDS; k++) {
        q.forward_us[k] = 1 + draw(&q, INT64_C(1) << draw(&q, 10));
        q.parameters[k] = draw(&q, 3) ? (1 + draw(&q, 16)) * GRAIN : 0;
        q.saved[k] = (1 + draw(&q, 8)) * GRAIN;
    }
    for (int l = 0; l < q.layers; l++) {
        q.kind_of[l] = (int)draw(&q, KINDS);
        q.name_of[l] = l;
        q.inputs[l][0] = l - 1;
        q.inputs[l][1] = -1;
    }
    if (branches)
        draw_towers(&q);
    for (int i = 0; i < 4; i++) {
        q.byte_ns[i] = INT64_C(1) << draw(&q, 4);
        q.latency_ns[i] = 480 << draw(&q, 4);
    }
    q.memory_bytes = INT64_C(1) << (20 + draw(&q, 6));
    q.form = forms[draw(&q, sizeof forms / sizeof *forms)];
    q.space = space_default(INT64_C(1) << draw(&q, 5), 0, DTYPE_BF16);
    q.space.zero = (struct allowed){ 2, { draw(&q, 2), 2 + draw(&q, 2) } };
    q.space.clip_norm = (double)draw(&q, 2);
    return q;
}

static struct model *model_of(const struct question *q, int64_t times)
{
    struct text text = { 0 };
    struct model *model = NULL;
    struct error err = { 0 };
    text_printf(&text,
                "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"m\", \"sequence\": 16, \"layers\": [");
    for (int l = 0; l < q->layers; l++) {
        int k = q->kind_of[l];
        text_printf(&text,
                    "%s{\"kind\": \"opaque\", \"name\": \"l%d\", \"forward_us\": %lld, \"backward_us\": %lld, "
                    "\"parameters\": %lld, \"activation_elements\": %d, \"saved_elements\": %lld",
                    l > 0 ? ", " : "", q->name_of[l], (long long)(times * q->forward_us[k]),
                    (long long)(2 * times * q->forward_us[k]), (long long)q->parameters[k], GRAIN,
                    (long long)q->saved[k]);
        for (int i = 0; i < 2 && l > 0; i++)
            if (q->inputs[l][i] >= 0)
                text_printf(&text, "%s\"l%d\"", i == 0 ? ", \"inputs\": [" : ", ", q->name_of[q->inputs[l][i]]);
        text_printf(&text, "%s}", l > 0 ? "]" : "");
    }
    text_printf(&text, "]}");
    ck_assert_msg(!text.failed && model_read(&model, "m", text.data, strlen(text.data), NULL, &err), "%s in %s",
                  err.message, text.data);
    text_free(&text);
    return model;
}

static struct cluster *cluster_of(const struct question *q, int64_t times)
{
    enum { PER_S = 1000000000 };
    struct text text = { 0 };
    struct cluster *cluster = NULL;
    struct error err = { 0 };
    static const char *const rates[] = { "memory", "link", "nic", "host" };
    text_printf(&text,
                "{\"description\": \"slower\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": %lld, "
                "\"fp32\": %lld}, \"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": 0.5, "
                "\"attention_backward_efficiency\": 0.5, \"vector_flops_per_s\": %lld, \"memory_bytes\": %lld, "
                "\"launch_ns\": %lld",
                (long long)(PER_S / times), (long long)(PER_S / times), (long long)(PER_S / times),
                (long long)q->memory_bytes, (long long)(times * q->latency_ns[0]));
    for (int i = 0; i < 4; i++) {
        text_printf(&text, ", \"%s_bytes_per_s\": %lld", rates[i], (long long)(PER_S / (times * q->byte_ns[i])));
        if (i > 0)
            text_printf(&text, ", \"%s_latency_ns\": %lld", rates[i], (long long)(times * q->latency_ns[i]));
    }
    text_printf(&text, "}");
    struct catalogue_entry entry = { "a", text.data, strlen(text.data) };
    ck_assert_msg(!text.failed && cluster_read(&cluster, "--cluster", q->form, strlen(q->form), &entry, 1, &err), "%s",
                  err.message);
    text_free(&text);
    return cluster;
}

struct reply {
    bool feasible;
    int64_t bound_ns, best_ns, step_ns, configurations, ideals;
};

static struct reply ask(const struct question *q, int64_t times)
{
    struct model *model = model_of(q, times);
    struct cluster *cluster = cluster_of(q, times);
    struct facts facts = { .cluster = cluster };
    struct search_options options = { .space = q->space, .top = 1, .no_advice = true };
    struct search_result *result = NULL;
    struct error err = { 0 };
    ck_assert_msg(search_run(&result, model, &facts, &options, &err), "%s", err.message);
    struct reply reply = { .feasible = result->feasible };
    if (result->feasible)
        reply = (struct reply){ true,
                                result->certificate.bound_ns,
                                result->certificate.best_ns,
                                result->plans[0].estimate->prediction.step_ns,
                                result->certificate.configurations,
                                result->certificate.ideals };
    search_result_free(result);
    cluster_free(cluster);
    model_free(model);
    return reply;
}

static bool is_near(int64_t a, int64_t b)
{
    enum { ROUNDINGS_NS = 16 }; /* of NCCL's trees and of shares of waits */
    return a - b <= ROUNDINGS_NS && b - a <= ROUNDINGS_NS;
}

/* Times and rates of layers, devices and links: so many times as long each, and so is the answer. Which of equally good
 * plans by the formula are simulated roundings may decide, so that now and then the step is another. */
START_TEST(slower_worlds_take_as_many_times_as_long)
{
    int feasible = 0, steps = 0;
    for (uint64_t seed = 1; seed <= 200; seed += (uint64_t)share_stride()) {
        struct question q = question_draw(seed, seed % 2);
        int64_t times = seed % 3 ? 2 : 5;
        struct reply before = ask(&q, 1), after = ask(&q, times);
        ck_assert_int_eq(before.feasible, after.feasible);
        ck_assert_int_eq(before.configurations, after.configurations);
        ck_assert_msg(is_near(after.bound_ns, times * before.bound_ns) &&
                          is_near(after.best_ns, times * before.best_ns),
                      "seed %llu on %s: bound %lld, best %lld, step %lld; %lld times as slow %lld, %lld, %lld",
                      (unsigned long long)seed, q.form, (long long)before.bound_ns, (long long)before.best_ns,
                      (long long)before.step_ns, (long long)times, (long long)after.bound_ns, (long long)after.best_ns,
                      (long long)after.step_ns);
        feasible += before.feasible;
        steps += before.feasible && is_near(after.step_ns, times * before.step_ns);
    }
    ck_assert_int_gt(feasible, 50 / share_stride());
    ck_assert(small_share() || 100 * steps >= 95 * feasible);
}
END_TEST

static void check_same(const struct reply *a, const struct reply *b, uint64_t seed)
{
    ck_assert_msg(a->feasible == b->feasible && a->bound_ns == b->bound_ns && a->best_ns == b->best_ns &&
                      a->configurations == b->configurations && a->ideals == b->ideals && a->step_ns == b->step_ns,
                  "seed %llu: bound %lld and %lld, best %lld and %lld, step %lld and %lld, ideals %lld and %lld",
                  (unsigned long long)seed, (long long)a->bound_ns, (long long)b->bound_ns, (long long)a->best_ns,
                  (long long)b->best_ns, (long long)a->step_ns, (long long)b->step_ns, (long long)a->ideals,
                  (long long)b->ideals);
}

/* Of two layers of a kind each may have the other's name. */
START_TEST(names_of_like_layers_decide_nothing)
{
    int feasible = 0, renamed = 0;
    for (uint64_t seed = 1001; seed <= 1200; seed += (uint64_t)share_stride()) {
        struct question q = question_draw(seed, seed % 2);
        struct reply before = ask(&q, 1);
        for (int l = 0; l < q.layers; l++) {
            int other = (int)draw(&q, q.layers), name = q.name_of[l];
            if (q.kind_of[other] != q.kind_of[l])
                continue;
            q.name_of[l] = q.name_of[other];
            q.name_of[other] = name;
            renamed += other != l;
        }
        struct reply after = ask(&q, 1);
        check_same(&before, &after, seed);
        feasible += before.feasible;
    }
    ck_assert_int_gt(feasible, 50 / share_stride());
    ck_assert_int_gt(renamed, 100 / share_stride());
}
END_TEST

static Suite *metamorphic_suite(void)
{
    Suite *suite = suite_create("metamorphic");
    CHECK_ADD(suite, slower_worlds_take_as_many_times_as_long);
    CHECK_ADD(suite, names_of_like_layers_decide_nothing);
    return suite;
}

CHECK_MAIN(metamorphic_suite)
