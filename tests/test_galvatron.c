/* Galvatron's published answers are the prices of its plans; our optimum of its problem is never above them, and is
 * that of enumeration where that is possible. */
#include "peers/galvatron.h"
#include "base/num.h"
#include "tests/galvatron_files.h"
#include <stdio.h>
#include <string.h>

static struct galvatron_problem llama(const struct galvatron_profile *profile, double memory_gb)
{
    return (struct galvatron_problem){ profile, 8, 4096, memory_gb, 32, 16 };
}

START_TEST(the_profile_is_read)
{
    struct arena arena = { 0 };
    struct galvatron_profile p;
    galvatron_open_profile(&p, &arena);
    ck_assert_int_eq(p.sequence, 2048);
    ck_assert_int_eq(p.layer.count, 12);
    CHECK_NEAR(p.layer.ms[0], 4.396252679824831, 1e-12); /* sizes are put in order */
    CHECK_NEAR(p.layer.ms[11], 12 * 3.9181755065917976, 1e-9);
    CHECK_NEAR(p.layer.ms_per_unit, 3.8590169, 1e-7); /* numpy's least squares */
    CHECK_NEAR(p.layer.fixed_ms, 0.8329851, 1e-7);
    CHECK_NEAR(p.other.ms_per_unit, 2.6803283, 1e-7);
    CHECK_NEAR(p.other.fixed_ms, 2.3548992, 1e-7);
    CHECK_NEAR(p.gb_per_s[1][3], 154.203, 0);
    CHECK_NEAR(p.gb_per_s[0][1], 151.344, 0);
    CHECK_NEAR(p.whole.states_mb[1], 2321.640625, 0);
    CHECK_NEAR(p.checkpoint_mb, 32, 0);
    CHECK_NEAR(p.all_to_all[3].ms[10], 4.8151, 0);
    arena_free(&arena);
}
END_TEST

/* Of the 36 GB answer the configuration was published, and lies beside the profile; of the others, which layers do
 * what. The one for 80 GB is what its search says: nothing is sharded but what ZeRO-2 shards. */
static const struct {
    double memory_gb, step_s;
    int tensor, checkpointed, chunks, vocabulary_tensor;
    bool zero3, embedding_zero3;
} published[] = { { 80, .844044, 1, 0, 1, 1, false, false },
                  { 36, 1.08605, 1, 20, 1, 2, true, true },
                  { 24, 1.17156, 1, 30, 1, 8, true, true },
                  { 16, 1.60141, 8, 32, 2, 8, false, true } };
enum { OF_36_GB = 1 };

static void make_plan(int answer, struct galvatron_plan *out, struct arena *arena)
{
    *out = (struct galvatron_plan){ .stage_count = 1,
                                    .layer_count = 32,
                                    .chunks = published[answer].chunks,
                                    .batch = 16,
                                    .vocabulary_tensor = published[answer].vocabulary_tensor,
                                    .vocabulary_sequence = true,
                                    .embedding_zero3 = published[answer].embedding_zero3 };
    out->layers = arena_alloc(arena, 32, sizeof *out->layers);
    out->stage_layers = arena_alloc(arena, 1, sizeof *out->stage_layers);
    ck_assert(out->layers && out->stage_layers);
    out->stage_layers[0] = 32;
    for (int l = 0; l < 32; l++)
        out->layers[l] = (struct galvatron_layer){ published[answer].tensor, published[answer].zero3,
                                                   l < published[answer].checkpointed };
}

START_TEST(published_answers_are_the_prices_of_their_plans)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_profile profile;
    struct galvatron_plan plan;
    struct galvatron_price price;
    galvatron_open_profile(&profile, &arena);
    struct galvatron_problem problem = llama(&profile, published[_i].memory_gb);
    make_plan(_i, &plan, &arena);
    ck_assert_msg(galvatron_evaluate(&problem, &plan, &price, &err), "%s", err.message);
    CHECK_NEAR(price.step_s, published[_i].step_s, 1e-5 * published[_i].step_s);
    ck_assert_msg(price.memory_mb <= price.limit_mb, "%g GB: %g MB, limit %g", problem.memory_gb, price.memory_mb,
                  price.limit_mb);
    arena_free(&arena);
}
END_TEST

START_TEST(our_optimum_is_never_above)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_profile profile;
    struct galvatron_answer answer;
    struct galvatron_price price;
    galvatron_open_profile(&profile, &arena);
    struct galvatron_problem problem = llama(&profile, published[_i].memory_gb);
    ck_assert_msg(galvatron_solve(&problem, &arena, &answer, &err), "%s", err.message);
    ck_assert(answer.feasible && answer.optimal);
    ck_assert_msg(galvatron_evaluate(&problem, &answer.plan, &price, &err), "%s", err.message);
    ck_assert_msg(price.memory_mb <= price.limit_mb, "%g MB, limit %g", price.memory_mb, price.limit_mb);
    ck_assert_msg(price.step_s <= published[_i].step_s + 5e-6, "%g GB: %.9g s, published %.9g", problem.memory_gb,
                  price.step_s, published[_i].step_s);
    CHECK_NEAR(price.step_s, answer.step_s, 0);
    arena_free(&arena);
}
END_TEST

/* ---- enumeration ---- */

struct enumeration {
    struct galvatron_problem problem;
    struct galvatron_plan plan;
    double best_s;
};

static void try_layers(struct enumeration *e, int layer)
{
    struct galvatron_price price;
    struct error ignored = { 0 };
    if (layer == e->plan.layer_count) {
        if (galvatron_evaluate(&e->problem, &e->plan, &price, &ignored) && price.memory_mb <= price.limit_mb)
            e->best_s = fmin(e->best_s, price.step_s);
        return;
    }
    for (int tensor = 1; tensor <= e->problem.device_count / e->plan.stage_count; tensor *= 2)
        for (int way = 0; way < 4; way++) {
            e->plan.layers[layer] = (struct galvatron_layer){ tensor, way & 1, way & 2 };
            try_layers(e, layer + 1);
        }
}

static double enumerate(const struct galvatron_problem *problem)
{
    struct galvatron_layer layers[8];
    int stage_layers[8];
    struct enumeration e = { *problem, .best_s = INFINITY };
    for (int stages = 1; stages <= problem->device_count; stages *= 2)
        for (int chunks = 1; chunks <= problem->batch && problem->layer_count % stages == 0; chunks++)
            for (int tensor = 1; tensor <= problem->device_count / stages; tensor *= 2)
                for (int way = 0; way < 4; way++) {
                    e.plan = (struct galvatron_plan){ stages,       problem->layer_count, chunks, problem->batch,
                                                      layers,       stage_layers,         tensor, way & 1,
                                                      (way & 2) > 0 };
                    for (int s = 0; s < stages; s++)
                        stage_layers[s] = problem->layer_count / stages;
                    try_layers(&e, 0);
                }
    return e.best_s;
}

static double draw(uint64_t *state, double low, double high) /* evenly in the logarithm */
{
    *state = mix64(*state + 1);
    return low * pow(high / low, (double)(*state >> 11) * 0x1p-53);
}

/* Slow links and small memories, so that every term decides somewhere. */
static void check_drawn(int seed, int devices, int layers, int64_t batch, int *proven)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_profile p;
    struct galvatron_answer answer;
    uint64_t state = (uint64_t)seed;
    galvatron_open_profile(&p, &arena);
    for (int d = 0; d < GALVATRON_DEGREES; d++)
        for (int c = 0; c < 2; c++)
            p.gb_per_s[c][d] *= draw(&state, .01, 1);
    p.parameter_mb *= draw(&state, .2, 5);
    p.overlap = draw(&state, 1, 2);
    p.other.ms_per_unit *= draw(&state, .01, 2);
    p.other.fixed_ms *= draw(&state, .01, 2);
    struct galvatron_problem problem = { &p, devices, 4096, draw(&state, 4, 30), layers, batch };
    double best_s = enumerate(&problem);
    ck_assert_msg(galvatron_solve(&problem, &arena, &answer, &err), "%s", err.message);
    ck_assert_msg(answer.feasible == isfinite(best_s), "seed %d: feasible %d, enumeration %g", seed, answer.feasible,
                  best_s);
    if (answer.feasible) {
        CHECK_NEAR(answer.step_s, best_s, 1e-7 * best_s);
        ck_assert_msg(answer.bound_s <= best_s * (1 + 1e-7), "seed %d: bound %.17g", seed, answer.bound_s);
        *proven += answer.optimal;
    }
    arena_free(&arena);
}

START_TEST(the_optimum_is_that_of_enumeration)
{
    int proven = 0;
    for (int seed = 0; seed < 20; seed++)
        check_drawn(seed, 2, 4, 4, &proven);
    for (int seed = 20; seed < 60; seed++)
        check_drawn(seed, 8, 2, 8, &proven);
    check_drawn(60, 4, 4, 4, &proven);
    ck_assert_int_ge(proven, 40); /* the others did not fit, or have a bound below the optimum */
}
END_TEST

/* ---- refusals ---- */

/* The published texts, of one of which `from`, marked by its place in `to` with '@', is replaced. */
static void check_refused(int file, const char *from, const char *to, const char *message)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_text texts[GALVATRON_FILES];
    struct galvatron_profile profile;
    for (int f = 0; f < GALVATRON_FILES; f++)
        texts[f] = galvatron_open(galvatron_names[f], &arena);
    struct galvatron_text text = texts[file];
    const char *at = strstr(text.text, from);
    ck_assert_msg(at != NULL, "%s", from);
    size_t room = text.length + strlen(to) + 1;
    char *changed = arena_alloc(&arena, room, 1);
    ck_assert(changed != NULL);
    snprintf(changed, room, "%.*s%s%s", (int)(at - text.text), text.text, to, at + strlen(from));
    texts[file] = (struct galvatron_text){ "f", changed, strlen(changed) };
    ck_assert_msg(!galvatron_read_profile(&profile, texts, 0, &err) && err.kind == ERROR_INPUT, "accepted: %s", to);
    ck_assert_msg(strncmp(err.message, message, strlen(message)) == 0, "%s\n  expected  %s", err.message, message);
    arena_free(&arena);
}

START_TEST(files_are_refused_with_their_place)
{
    check_refused(GALVATRON_COMPUTATION, "4.396252679824831", "-1", "f:26:33: layertype_0_bsz1_seq2048: expected");
    check_refused(GALVATRON_COMPUTATION, "layertype_0_bsz2_seq2048", "layertype_0_bsz2_seq1024",
                  "f:28:33: layertype_0_bsz2_seq1024: expected one sequence length, found 2048 and 1024: say which "
                  "with --seq");
    check_refused(GALVATRON_COMPUTATION, "layertype_0_bsz2_seq2048", "layertype_0_bsz01_seq2048",
                  "f:28:34: layertype_0_bsz01_seq2048: expected each size once, found 1 twice");
    check_refused(GALVATRON_COMPUTATION, "layertype_0_bsz2_seq2048", "layertype_1_bsz2_seq2048",
                  "f:28:33: layertype_1_bsz2_seq2048: expected layers of one type, found a second");
    check_refused(GALVATRON_MEMORY, "parameter_size", "parameters", "f:");
    check_refused(GALVATRON_ALLREDUCE, "154.203", "0", "f:2:34: allreduce_size_8_consec_1: expected");
    check_refused(GALVATRON_OVERLAP, "1.12", "0.12", "f:2:20: overlap_coe: expected");
    check_refused(GALVATRON_SP_TIME, "0.0703,", "\"x\",", "f:24:34: allreduce_size_2_1MB_time: expected");
}
END_TEST

START_TEST(what_was_not_measured_is_said)
{
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct galvatron_profile profile;
    struct galvatron_plan plan;
    struct galvatron_price price;
    galvatron_open_profile(&profile, &arena);
    struct galvatron_problem problem = llama(&profile, 36);
    make_plan(OF_36_GB, &plan, &arena);
    profile.gb_per_s[1][3] = -1;
    ck_assert(!galvatron_evaluate(&problem, &plan, &price, &err));
    ck_assert_str_eq(err.message, "galvatron: no all-reduce bandwidth of 8 neighbouring devices was measured");
    err = (struct error){ 0 };
    plan.chunks = 3;
    ck_assert(!galvatron_evaluate(&problem, &plan, &price, &err));
    ck_assert_str_eq(err.message, "galvatron: 16 samples do not divide into 3 micro-batches on 4 data ranks");
    err = (struct error){ 0 };
    problem.device_count = 6;
    struct galvatron_answer answer;
    ck_assert(!galvatron_solve(&problem, &arena, &answer, &err));
    ck_assert_str_eq(err.message, "galvatron: expected a power of two of at most 128 devices, found 6");
    problem = llama(&profile, 2);
    ck_assert_msg(galvatron_solve(&problem, &arena, &answer, &err), "%s", err.message);
    ck_assert(!answer.feasible);
    arena_free(&arena);
}
END_TEST

enum { ANSWERS = (int)(sizeof published / sizeof *published) };

static Suite *galvatron(void)
{
    Suite *s = suite_create("galvatron");
    CHECK_ADD(s, the_profile_is_read);
    CHECK_ADD_LOOP(s, published_answers_are_the_prices_of_their_plans, ANSWERS);
    CHECK_ADD_LOOP(s, our_optimum_is_never_above, ANSWERS);
    CHECK_ADD(s, the_optimum_is_that_of_enumeration);
    CHECK_ADD(s, files_are_refused_with_their_place);
    CHECK_ADD(s, what_was_not_measured_is_said);
    return s;
}

CHECK_MAIN(galvatron)
