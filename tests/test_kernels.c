/* Every kernel and phase, on every instruction set the processor has, against naive loops in double: ranges inside
 * larger blocks, overwrite and accumulate, one call and two rounds. A backward phase is held against differences of the
 * naive forward. Built for float and for double; on a GPU float is followed by bf16. Small blocks are compared element
 * by element, large ones by norms as well: |found - expected| / |expected|. */
#include "executor/kernels/bf16.h"
#include "tests/naive_kernels.h"
#ifdef CLEAVE_TEST_GPU
#include "tests/gpu_module.h"
#include "tests/gpu_primitives.h"
#define primitives_at gpu_primitives_at
enum { FORWARD_SEEDS = 18, BACKWARD_SEEDS = 12, LONG_SEEDS = 3 }; /* each call starts threads */
#else
enum { FORWARD_SEEDS = 60, BACKWARD_SEEDS = 40, LONG_SEEDS = 8 };
#endif

#ifdef CLEAVE_REAL_DOUBLE
static const double forward_tolerance = 1e-11, backward_tolerance = 1e-6, norm_tolerance = 1e-8;
#else
static const double forward_tolerance = 2e-5, backward_tolerance = 1e-4, norm_tolerance = 1e-5;
#endif
static const double half_tolerance = 1e-2;

static bool on_real_gpu(void)
{
#ifdef CLEAVE_TEST_GPU
    return gpu_module_path() != NULL;
#else
    return false;
#endif
}

/* The distance between seeds that are tried: an emulated GPU has few in bf16. */
static uint64_t seed_stride(bool half)
{
    return (uint64_t)share_stride() * (half && !on_real_gpu() ? 6 : 1);
}

/* The next set: those in full precision, then, with *half, those in bf16. */
static const struct primitives *set_at(int index, bool *half)
{
    int full = 0;
    *half = false;
    for (const struct primitives *set; (set = primitives_at(full)); full++)
        if (full == index)
            return set;
#if defined CLEAVE_TEST_GPU && !defined CLEAVE_REAL_DOUBLE
    *half = true;
    return gpu_primitives_half_at(index - full);
#else
    return NULL;
#endif
}

/* sum over the range of out[0] * gradient */
static double objective(struct fixture *f, const struct kernel_case *c)
{
    struct tensor *out = &f->tensor[ROLE_OUT][0], *gradient = &f->tensor[ROLE_GRADIENT_OUT][0];
    double sum = 0;
    int64_t at[MAX_DIMS];
    c->forward(f);
    for (int64_t i = 0; i < out->elements; i++) {
        coordinates(out, i, at);
        if (in_range(f, out, at))
            sum += out->data[i] * gradient->data[i];
    }
    return sum;
}

static void expect_backward(struct fixture *f, const struct kernel_case *c, enum role source, enum role written,
                            bool define)
{
    const double step = 1e-3;
    int64_t at[MAX_DIMS];
    for (int i = 0; i < MAX_OPERANDS; i++) {
        struct tensor *gradient = &f->tensor[written][i], *x = &f->tensor[source][i];
        for (int64_t j = 0; gradient->used && j < gradient->elements; j++) {
            coordinates(gradient, j, at);
            if (!in_range(f, gradient, at))
                continue;
            double was = x->data[j], slope = 0;
            for (int k = 0; k < 4; k++) { /* fourth order: (f(-2) - 8 f(-1) + 8 f(1) - f(2)) / 12 */
                static const double place[] = { -2, -1, 1, 2 }, weight[] = { 1, -8, 8, -1 };
                x->data[j] = was + place[k] * step;
                slope += weight[k] * objective(f, c) / (12 * step);
            }
            x->data[j] = was;
            gradient->data[j] = (define ? 0 : gradient->data[j]) + slope;
        }
    }
    c->forward(f);
}

/* Numbers that bf16 has, so that what differs is the kernels' doing. */
static void round_tensors(struct fixture *f)
{
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            struct tensor *t = &f->tensor[role][i];
            for (int64_t j = 0; t->used && !t->index && j < t->elements; j++)
                t->data[j] = (double)real_of_bf16(bf16_of_real((real)t->data[j]));
        }
}

static void load_blocks(struct fixture *f)
{
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++)
            load_block(&f->tensor[role][i]);
}

/* An axis for two rounds, or -1. */
static int draw_split(struct fixture *f)
{
    int split = (int)draw_in(&f->random, -1, f->segment.axis_count - 1);
    return split >= 0 && f->segment.axes[split].fixed ? -1 : split;
}

/* ---- norms ---- */
struct difference {
    double error, norm; /* squared */
};

static void add_difference(struct difference *d, double got, double want)
{
    if (got == want && isinf(want)) /* the largest of none */
        return;
    d->error += (got - want) * (got - want);
    d->norm += want * want;
}

static void check_difference(const struct difference *d, const struct fixture *f, enum phase phase, bool half,
                             const char *isa, enum role role, int index)
{
    ck_assert_msg(sqrt(d->error) <= (half ? half_tolerance : norm_tolerance) * sqrt(d->norm),
                  "%s phase %d (%s%s): role %d operand %d differs by %.3g of its norm", f->segment.name, (int)phase,
                  isa, half ? ", bf16" : "", (int)role, index, sqrt(d->error / d->norm));
}

static void check_norm(const struct fixture *f, const struct tensor *t, enum phase phase, bool half, const char *isa,
                       enum role role, int index)
{
    struct difference d = { 0 };
    int64_t at[MAX_DIMS];
    for (int64_t i = 0; i < t->elements; i++) {
        coordinates(t, i, at);
        if (in_range(f, t, at) && block_place(t, at) >= 0) /* a table of positions may hold more than its block */
            add_difference(&d, (double)((real *)t->block)[block_place(t, at)], t->data[i]);
    }
    check_difference(&d, f, phase, half, isa, role, index);
}

static void test_forward(const struct kernel_case *c, uint64_t seed, bool large, const struct primitives *set,
                         bool half)
{
    struct fixture f;
    fixture_make(&f, c, seed, large, seed % 5 == 0);
    f.tolerance = half ? half_tolerance : forward_tolerance;
    if (half)
        round_tensors(&f);
    load_blocks(&f);
    int split = draw_split(&f);
    run_phase(&f, PHASE_FORWARD, set->kernel[c->kernel][PHASE_FORWARD], ROLE_OUT, true, split);
    c->forward(&f);
    for (int i = 0; i < f.segment.out_count; i++) {
        check_block(&f, &f.tensor[ROLE_OUT][i], PHASE_FORWARD, set->isa, ROLE_OUT, i);
        if (large)
            check_norm(&f, &f.tensor[ROLE_OUT][i], PHASE_FORWARD, half, set->isa, ROLE_OUT, i);
    }
    fixture_free(&f);
}

static void test_backward(const struct kernel_case *c, uint64_t seed, enum phase phase, const struct primitives *set,
                          bool half)
{
    enum role source = phase == PHASE_BACKWARD_INPUT ? ROLE_IN : ROLE_WEIGHT;
    enum role written = phase == PHASE_BACKWARD_INPUT ? ROLE_GRADIENT_IN : ROLE_GRADIENT_WEIGHT;
    struct fixture f;
    /* attention whole: the log-sum-exp that is saved is that of all keys */
    fixture_make(&f, c, seed, false, kernel_facts[c->kernel].attends || seed % 5 == 0);
    f.tolerance = half ? half_tolerance : backward_tolerance;
    bool define = draw(&f.random) % 2;
    copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
    int count = phase == PHASE_BACKWARD_INPUT ? f.segment.in_count : f.segment.weight_count;
    for (int i = 0; i < count; i++)
        if ((source == ROLE_WEIGHT || c->differentiable >> i & 1) &&
            draw(&f.random) % 8) /* now and then one is not asked for */
            copy_tensor(&f, written, i, &f.tensor[source][i]);
    if (half)
        round_tensors(&f);
    c->forward(&f); /* backward may read outputs */
    load_blocks(&f);
    int split = draw_split(&f);
    run_phase(&f, phase, set->kernel[c->kernel][phase], written, define, split);
    expect_backward(&f, c, source, written, define);
    for (int i = 0; i < count; i++)
        if (f.tensor[written][i].used)
            check_block(&f, &f.tensor[written][i], phase, set->isa, written, i);
    fixture_free(&f);
}

/* Gradients where the inputs are, as many of them as may be; elements out of range stay those of the inputs. */
static void write_over_inputs(struct fixture *f)
{
    int count = 0;
    for (int i = 0; i < f->segment.in_count; i++) {
        struct tensor *gradient = &f->tensor[ROLE_GRADIENT_IN][i];
        const struct tensor *input = &f->tensor[ROLE_IN][i];
        if (!gradient->used || !(kernel_facts[f->segment.kernel].overwrites_in >> i & 1))
            continue;
        free(gradient->block);
        gradient->block = input->block;
        memcpy(gradient->data, input->data, (size_t)input->elements * sizeof *input->data);
        count++;
    }
    ck_assert_int_gt(count, 0);
}

static void test_in_place(const struct kernel_case *c, uint64_t seed, const struct primitives *set, bool half)
{
    struct fixture f;
    fixture_make(&f, c, seed, false, seed % 5 == 0);
    f.tolerance = half ? half_tolerance : backward_tolerance;
    copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
    int unwanted = c->differentiable == 3 ? (int)draw_in(&f.random, -1, 1) : -1; /* of two, one or none */
    for (int i = 0; i < f.segment.in_count; i++)
        if ((c->differentiable >> i & 1) && i != unwanted)
            copy_tensor(&f, ROLE_GRADIENT_IN, i, &f.tensor[ROLE_IN][i]);
    if (half)
        round_tensors(&f);
    write_over_inputs(&f);
    c->forward(&f);
    load_blocks(&f);
    run_phase(&f, PHASE_BACKWARD_INPUT, set->kernel[c->kernel][PHASE_BACKWARD_INPUT], ROLE_GRADIENT_IN, true,
              draw_split(&f));
    expect_backward(&f, c, ROLE_IN, ROLE_GRADIENT_IN, true);
    for (int i = 0; i < f.segment.in_count; i++) {
        struct tensor *gradient = &f.tensor[ROLE_GRADIENT_IN][i];
        if (gradient->used)
            check_block(&f, gradient, PHASE_BACKWARD_INPUT, set->isa, ROLE_GRADIENT_IN, i);
        if (gradient->block == f.tensor[ROLE_IN][i].block)
            gradient->block = NULL;
    }
    fixture_free(&f);
}

/* Where the facts say so, the plan's layout does it (planner/layout/layout.c). */
START_TEST(gradients_may_lie_where_inputs_do)
{
    const struct primitives *set;
    bool half;
    for (int isa = 0; kernel_facts[cases[_i].kernel].overwrites_in && (set = set_at(isa, &half)) &&
                      set->kernel[cases[_i].kernel][PHASE_BACKWARD_INPUT]; /* else no plan runs there */
         isa++)
        for (uint64_t seed = 0; seed < BACKWARD_SEEDS; seed += seed_stride(half))
            test_in_place(&cases[_i], seed, set, half);
}
END_TEST

START_TEST(forward_matches_naive_loops)
{
    const struct primitives *set;
    bool half;
    for (int isa = 0; (set = set_at(isa, &half)); isa++)
        for (uint64_t seed = 0; seed < FORWARD_SEEDS; seed += seed_stride(half)) {
            if (!set->kernel[cases[_i].kernel][PHASE_FORWARD]) /* a GPU says so by gpu_computes(); no plan runs there */
                break;
            test_forward(&cases[_i], seed, false, set, half);
            if (seed % 6 == 0)
                test_forward(&cases[_i], 1000 + seed, true, set, half);
        }
}
END_TEST

START_TEST(backward_matches_central_differences)
{
    const struct primitives *set;
    bool half;
    for (int isa = 0; (set = set_at(isa, &half)); isa++)
        for (int phase = PHASE_BACKWARD_INPUT; phase <= PHASE_BACKWARD_WEIGHT; phase++) {
            if (!set->kernel[cases[_i].kernel][phase])
                continue;
            for (uint64_t seed = 0; seed < BACKWARD_SEEDS; seed += seed_stride(half))
                test_backward(&cases[_i], seed, (enum phase)phase, set, half);
        }
}
END_TEST

/* ---- rows longer than a team of threads, vocabularies of thousands ---- */
/* Sizes by letter, hardly any a power of two. Elsewhere than on a real GPU just enough for a loop's second round. */
static void draw_wide_sizes(struct fixture *f, const struct kernel_case *c)
{
    const bool real_gpu = on_real_gpu();
    const bool attends = kernel_facts[c->kernel].attends;
    f->size['b'] = draw_in(&f->random, 1, 2);
    f->size['t'] = f->size['s'] =
        attends ? draw_in(&f->random, 130, real_gpu ? 300 : 140) : draw_in(&f->random, 2, real_gpu ? 12 : 3);
    f->size['p'] = f->size['t'] + draw_in(&f->random, 0, 3);
    f->size['h'] = draw_in(&f->random, 257, real_gpu ? 1100 : 280);
    f->size['f'] = draw_in(&f->random, 257, real_gpu ? 1100 : 280);
    f->size['v'] = draw_in(&f->random, real_gpu ? 6000 : 2049, real_gpu ? 12000 : 2100);
    f->size['e'] = draw_in(&f->random, 2, 3);
    f->size['m'] = draw_in(&f->random, 1, 2);
    f->size['n'] = f->size['m'] * (attends ? 2 : draw_in(&f->random, 3, 6));
    f->size['d'] = attends ? 8 * draw_in(&f->random, 1, real_gpu ? 4 : 2) : 2 * draw_in(&f->random, 33, 64);
    f->size['w'] = f->size['d'] + 4;
    f->size['y'] = f->size['d'] / 2;
    f->size['x'] = f->size['d'] - f->size['y'];
    f->size['r'] = 32;
}

static void add_operands(struct fixture *f, enum role role, const char *const *text, struct operand *operands,
                         int *count, const char *letters)
{
    for (*count = 0; *count < MAX_OPERANDS && text[*count]; (*count)++)
        make_tensor(f, &f->tensor[role][*count], &operands[*count], text[*count], letters);
}

/* As fixture_make() but for the sizes. */
static void wide_make(struct fixture *f, const struct kernel_case *c, uint64_t seed, bool whole)
{
    char letters[MAX_AXES];
    int64_t extents[MAX_AXES], scratch = 1;
    struct segment *s = &f->segment;
    *f = (struct fixture){ .random = mix64(seed) };
    draw_wide_sizes(f, c);
    s->name = c->name, s->kernel = c->kernel;
    s->arguments = (struct kernel_arguments){ .epsilon = 1e-3,
                                              .rope_base = 10000,
                                              .scale = 0.3,
                                              .limit = 6.5 / 64,
                                              .causal = draw(&f->random) % 2,
                                              .relative_buckets = f->size['r'],
                                              .relative_distance = 100,
                                              .kv_heads = kernel_facts[c->kernel].attends ? f->size['m'] : 0,
                                              .valid = f->size['v'] - draw_in(&f->random, 0, 50) };
    if (!strcmp(c->name, "sliding_attention"))
        s->arguments.sliding_window = f->size['t'] / 3;
    vary_arguments(f);
    make_axes(f, c->axes, letters);
    make_ranges(f, whole);
    add_operands(f, ROLE_IN, c->in, s->in, &s->in_count, letters);
    add_operands(f, ROLE_WEIGHT, c->weight, s->weight, &s->weight_count, letters);
    add_operands(f, ROLE_OUT, c->out, s->out, &s->out_count, letters);
    for (int i = 0; i < MAX_AXES; i++)
        extents[i] = f->high[i] - f->low[i];
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_WEIGHT; phase++)
        scratch = max_i64(scratch, segment_scratch_elements(NULL, s, (enum phase)phase, extents));
    f->scratch = calloc((size_t)scratch, sizeof *f->scratch);
}

/* As objective(), visiting what lies in the range alone. */
static double range_objective(struct fixture *f, const struct kernel_case *c)
{
    const struct tensor *out = &f->tensor[ROLE_OUT][0], *gradient = &f->tensor[ROLE_GRADIENT_OUT][0];
    int64_t low[MAX_DIMS], high[MAX_DIMS], at[MAX_DIMS];
    double sum = 0;
    int dim;
    for (dim = 0; dim < out->dim_count; dim++) {
        low[dim] = at[dim] = out->axis[dim] < 0 ? 0 : f->low[out->axis[dim]];
        high[dim] = out->axis[dim] < 0 ? out->size[dim] : f->high[out->axis[dim]];
    }
    c->forward(f);
    do {
        int64_t offset = tensor_offset(out, at);
        sum += out->data[offset] * gradient->data[offset];
        for (dim = out->dim_count - 1; dim >= 0 && ++at[dim] == high[dim]; dim--)
            at[dim] = low[dim];
    } while (dim >= 0);
    return sum;
}

/* The derivative by one element of x: along axes that out has, or sums over, nothing but the element's own place
 * depends on it. */
static double slope_at(struct fixture *f, const struct kernel_case *c, const struct tensor *x, int64_t element,
                       const int64_t at[MAX_DIMS])
{
    static const double place[] = { -2, -1, 1, 2 }, weight[] = { 1, -8, 8, -1 };
    const double step = 1e-3, was = x->data[element];
    int64_t low[MAX_AXES], high[MAX_AXES];
    double slope = 0;
    memcpy(low, f->low, sizeof low);
    memcpy(high, f->high, sizeof high);
    for (int dim = 0; dim < x->dim_count; dim++) {
        const int axis = x->axis[dim];
        if (axis < 0 || x->size[dim] != f->segment.axes[axis].size || f->segment.axes[axis].fixed ||
            !(f->segment.axes[axis].fold == FOLD_SUM || has_axis(&f->tensor[ROLE_OUT][0], axis)))
            continue;
        f->low[axis] = at[dim], f->high[axis] = at[dim] + 1;
    }
    for (int k = 0; k < 4; k++) {
        x->data[element] = was + place[k] * step;
        slope += weight[k] * range_objective(f, c) / (12 * step);
    }
    x->data[element] = was;
    memcpy(f->low, low, sizeof low);
    memcpy(f->high, high, sizeof high);
    return slope;
}

/* Some elements of a gradient: drawn ones, of which half are not 0 where the kernel was right to leave most so. */
static void check_some_slopes(struct fixture *f, const struct kernel_case *c, enum phase phase, bool half,
                              const char *isa, int index, bool define)
{
    const bool of_input = phase == PHASE_BACKWARD_INPUT;
    const enum role written = of_input ? ROLE_GRADIENT_IN : ROLE_GRADIENT_WEIGHT;
    enum { SAMPLES = 100 };
    const struct tensor *t = &f->tensor[written][index], *x = &f->tensor[of_input ? ROLE_IN : ROLE_WEIGHT][index];
    struct difference d = { 0 };
    int64_t at[MAX_DIMS];
    int taken = 0;
    for (int64_t tries = 0; taken < SAMPLES && tries < 100000; tries++) {
        int64_t element = draw_in(&f->random, 0, t->elements - 1);
        coordinates(t, element, at);
        if (!in_range(f, t, at) || block_place(t, at) < 0)
            continue;
        double got = (double)((real *)t->block)[block_place(t, at)], old = define ? 0 : t->data[element];
        if (taken >= SAMPLES / 2 && got == old)
            continue;
        add_difference(&d, got, old + slope_at(f, c, x, element, at));
        taken++;
    }
    ck_assert_int_gt(taken, 0);
    check_difference(&d, f, phase, half, isa, written, index);
}

static void test_wide(const struct kernel_case *c, uint64_t seed, enum phase phase, const struct primitives *set,
                      bool half)
{
    const enum role written = phase == PHASE_FORWARD          ? ROLE_OUT
                              : phase == PHASE_BACKWARD_INPUT ? ROLE_GRADIENT_IN
                                                              : ROLE_GRADIENT_WEIGHT;
    const bool backward = phase != PHASE_FORWARD, define = !backward || seed % 3 > 0;
    struct fixture f;
    wide_make(&f, c, seed, seed % 2 == 0);
    int count = phase == PHASE_FORWARD          ? f.segment.out_count
                : phase == PHASE_BACKWARD_INPUT ? f.segment.in_count
                                                : f.segment.weight_count;
    if (backward)
        copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
    for (int i = 0; backward && i < count; i++)
        if (written == ROLE_GRADIENT_WEIGHT || c->differentiable >> i & 1)
            copy_tensor(&f, written, i, &f.tensor[written == ROLE_GRADIENT_IN ? ROLE_IN : ROLE_WEIGHT][i]);
    if (half)
        round_tensors(&f);
    if (backward)
        c->forward(&f);
    load_blocks(&f);
    run_phase(&f, phase, set->kernel[c->kernel][phase], written, define, draw_split(&f));
    if (!backward)
        c->forward(&f);
    for (int i = 0; i < count; i++)
        if (!backward)
            check_norm(&f, &f.tensor[written][i], phase, half, set->isa, written, i);
        else if (f.tensor[written][i].used)
            check_some_slopes(&f, c, phase, half, set->isa, i, define);
    fixture_free(&f);
}

/* Attention backward has long_attention_gradients. */
START_TEST(wide_rows_match_by_norm)
{
    const struct kernel_case *c = &cases[_i];
    const struct primitives *set;
    bool half;
    if (!on_real_gpu() && !in_share((uint64_t)_i))
        return;
    for (int isa = 0; !sees(c->kernel) && (set = set_at(isa, &half)); isa++)
        for (int phase = PHASE_FORWARD;
             phase <= (kernel_facts[c->kernel].attends ? PHASE_FORWARD : PHASE_BACKWARD_WEIGHT); phase++)
            for (uint64_t seed = 0; set->kernel[c->kernel][phase] && seed < (on_real_gpu() ? 2 : 1); seed++)
                test_wide(c, 100 * (uint64_t)phase + 10 * (uint64_t)isa + seed, (enum phase)phase, set, half);
}
END_TEST

/* What models/kernel.c promises, the table holds, and nothing more. */
START_TEST(table_agrees_with_kernel_facts)
{
    for (int kernel = 0; kernel < KERNEL_COUNT; kernel++) {
        bool math = !kernel_facts[kernel].planned;
        ck_assert_int_eq(kernel_find((enum kernel)kernel, PHASE_FORWARD) != NULL, math);
        ck_assert_int_eq(kernel_find((enum kernel)kernel, PHASE_BACKWARD_INPUT) != NULL,
                         math && kernel_facts[kernel].has_backward_input);
        ck_assert_int_eq(kernel_find((enum kernel)kernel, PHASE_BACKWARD_WEIGHT) != NULL,
                         math && kernel_facts[kernel].has_backward_weight);
    }
}
END_TEST

/* Attention backward over several tiles of rows against one built from whole score matrices. */
static void attention_gradients(struct fixture *f)
{
    const int values = f->segment.in[2].axis[3];
    double *gradient[3];
    for (int i = 0; i < 3; i++) {
        gradient[i] = f->tensor[ROLE_GRADIENT_IN][i].data;
        memset(gradient[i], 0, (size_t)f->tensor[ROLE_GRADIENT_IN][i].elements * sizeof(double));
    }
    EACH(b, 0) EACH(t, 1) EACH(n, 3)
    {
        int64_t m = n * f->segment.arguments.kv_heads / f->size['n'];
        double dot = 0;
        EACH(d, values) dot += AT(ROLE_GRADIENT_OUT, 0, b, t, n, d) * OUT(0, b, t, n, d);
        EACH(s, 2) if (attends_to(f, t, s))
        {
            double p = exp(score(f, b, t, s, n, m) - OUT(1, b, t, n)), dp = 0;
            EACH(d, values) dp += AT(ROLE_GRADIENT_OUT, 0, b, t, n, d) * IN(2, b, s, m, d);
            double cap = f->segment.arguments.score_cap, part = cap > 0 ? score(f, b, t, s, n, m) / cap : 0;
            double ds = p * (dp - dot) * f->segment.arguments.scale * (1 - part * part);
            EACH(d, 4)
            {
                AT(ROLE_GRADIENT_IN, 0, b, t, n, d) += ds * IN(1, b, s, m, d);
                AT(ROLE_GRADIENT_IN, 1, b, s, m, d) += ds * IN(0, b, t, n, d);
            }
            EACH(d, values) AT(ROLE_GRADIENT_IN, 2, b, s, m, d) += p * AT(ROLE_GRADIENT_OUT, 0, b, t, n, d);
        }
    }
}

START_TEST(long_attention_gradients)
{
    const struct kernel_case *c = &cases[_i];
    const struct primitives *set;
    bool half;
    for (int isa = 0; c->kernel == KERNEL_ATTENTION && (set = set_at(isa, &half)); isa++)
        for (uint64_t seed = 0; seed < LONG_SEEDS; seed++) {
            struct fixture f;
            fixture_make(&f, c, seed, true, true);
            f.tolerance = half ? half_tolerance : forward_tolerance;
            copy_tensor(&f, ROLE_GRADIENT_OUT, 0, &f.tensor[ROLE_OUT][0]);
            for (int i = 0; i < 3; i++)
                copy_tensor(&f, ROLE_GRADIENT_IN, i, &f.tensor[ROLE_IN][i]);
            if (half)
                round_tensors(&f);
            c->forward(&f);
            load_blocks(&f);
            run_phase(&f, PHASE_BACKWARD_INPUT, set->kernel[KERNEL_ATTENTION][PHASE_BACKWARD_INPUT], ROLE_GRADIENT_IN,
                      true, (int)(seed % 4));
            attention_gradients(&f);
            for (int i = 0; i < 3; i++) {
                const struct tensor *t = &f.tensor[ROLE_GRADIENT_IN][i];
                check_block(&f, t, PHASE_BACKWARD_INPUT, set->isa, ROLE_GRADIENT_IN, i);
                check_norm(&f, t, PHASE_BACKWARD_INPUT, half, set->isa, ROLE_GRADIENT_IN, i);
            }
            fixture_free(&f);
        }
}
END_TEST

static Suite *kernels_suite(void)
{
    Suite *suite = suite_create("kernels");
    TCase *cases_of_all = tcase_create("all kernels");
    tcase_set_timeout(cases_of_all, 0);
    tcase_add_loop_test(cases_of_all, forward_matches_naive_loops, 0, CASE_COUNT);
    tcase_add_loop_test(cases_of_all, backward_matches_central_differences, 0, CASE_COUNT);
    tcase_add_loop_test(cases_of_all, gradients_may_lie_where_inputs_do, 0, CASE_COUNT);
    tcase_add_loop_test(cases_of_all, wide_rows_match_by_norm, 0, CASE_COUNT);
    suite_add_tcase(suite, cases_of_all);
    CHECK_ADD(suite, table_agrees_with_kernel_facts);
    CHECK_ADD_LOOP(suite, long_attention_gradients, CASE_COUNT);
    return suite;
}

CHECK_MAIN(kernels_suite)
