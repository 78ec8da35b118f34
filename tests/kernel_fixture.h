/* Random segments with random blocks for the tests of kernels: whole tensors in double beside the blocks that a kernel
 * sees. */
#ifndef CLEAVE_TESTS_KERNEL_FIXTURE_H
#define CLEAVE_TESTS_KERNEL_FIXTURE_H
#include "base/num.h"
#include "executor/kernels/primitives.h"
#include "tests/check.h"
#include <stdlib.h>
#include <string.h>

static uint64_t draw(uint64_t *state)
{
    return mix64(++*state);
}
static int64_t draw_in(uint64_t *state, int64_t low, int64_t high) /* both inclusive */
{
    return low + (int64_t)(draw(state) % (uint64_t)(high - low + 1));
}
static double draw_real(uint64_t *state) /* in [-1, 1), representable in both precisions */
{
    return (double)(int64_t)(draw(state) >> 44) / (1 << 19) - 1;
}

/* ---- global tensors and the blocks that kernels see ---- */
struct tensor {
    bool used, index;
    int dim_count;
    int8_t axis[MAX_DIMS];
    int64_t size[MAX_DIMS], low[MAX_DIMS], count[MAX_DIMS];
    int64_t elements;
    double *data; /* the whole; written operands: what is expected */
    void *block;  /* count[] elements at low[] */
};

struct fixture {
    uint64_t random;
    struct segment segment;
    int64_t size[128];
    int64_t low[MAX_AXES], high[MAX_AXES];
    struct tensor tensor[ROLE_COUNT][MAX_OPERANDS];
    real *scratch;
    double tolerance; /* set by the test; relative to a tensor's largest element, at least 1 */
};

/* One case: letters as in models/builder.h; '#' before an operand marks indices, '+' positive values, '~' values away
 * from 0, where a slope jumps, '=' values that differ from each other. */
struct kernel_case {
    const char *name;
    enum kernel kernel;
    const char *axes;
    const char *in[MAX_OPERANDS], *weight[MAX_OPERANDS], *out[MAX_OPERANDS];
    unsigned differentiable; /* inputs */
    void (*forward)(struct fixture *f);
    int in_most; /* residual: number of inputs varies up to this */
};

static int64_t tensor_offset(const struct tensor *t, const int64_t *at)
{
    int64_t offset = 0;
    for (int dim = 0; dim < t->dim_count; dim++)
        offset = offset * t->size[dim] + at[dim];
    return offset;
}
#define AT(role, index, ...)                                                                                           \
    (f->tensor[role][index].data[tensor_offset(&f->tensor[role][index], (const int64_t[]){ __VA_ARGS__, 0 })])
#define IN(i, ...) AT(ROLE_IN, i, __VA_ARGS__)
#define WEIGHT(i, ...) AT(ROLE_WEIGHT, i, __VA_ARGS__)
#define OUT(i, ...) AT(ROLE_OUT, i, __VA_ARGS__)
#define EACH(i, a) for (int64_t i = f->low[a]; i < f->high[a]; i++)

/* ---- building a fixture ---- */
/* Heads are split in whole key-value groups, channels in those of a group norm. */
static int64_t grain_of(const struct kernel_arguments *a, enum axis_tag tag, int64_t size)
{
    if (tag == TAG_HEAD && a->kv_heads)
        return size / a->kv_heads;
    return tag == TAG_FFN && a->channels_per_group ? a->channels_per_group : 1;
}

static void make_axes(struct fixture *f, const char *text, char letters[MAX_AXES])
{
    static const enum axis_tag tags[128] = {
        ['b'] = TAG_BATCH,    ['t'] = TAG_SEQUENCE, ['s'] = TAG_KEY,    ['n'] = TAG_HEAD,
        ['d'] = TAG_HEAD_DIM, ['w'] = TAG_HEAD_DIM, ['h'] = TAG_HIDDEN, ['f'] = TAG_FFN,
        ['v'] = TAG_VOCAB,    ['e'] = TAG_EXPERT,   ['g'] = TAG_FFN
    };
    struct segment *segment = &f->segment;
    for (; *text; text++) {
        struct axis *last = &segment->axes[segment->axis_count ? segment->axis_count - 1 : 0];
        switch (*text) {
        case '+':
            last->fold = FOLD_SUM;
            break;
        case '^':
            last->fold = FOLD_MAX;
            break;
        case '~':
            last->fold = FOLD_LSE;
            break;
        case '!':
            last->fixed = true;
            break;
        default:
            letters[segment->axis_count] = *text;
            segment->axes[segment->axis_count++] =
                (struct axis){ .tag = tags[(int)*text],
                               .size = f->size[(int)*text],
                               .grain = grain_of(&segment->arguments, tags[(int)*text], f->size[(int)*text]) };
        }
    }
}

/* A random range of every axis that may be split, in whole grains. */
static void make_ranges(struct fixture *f, bool whole)
{
    for (int i = 0; i < f->segment.axis_count; i++) {
        const struct axis *axis = &f->segment.axes[i];
        int64_t grain = axis->grain, parts = axis->size / grain;
        f->low[i] = axis->fixed || whole ? 0 : draw_in(&f->random, 0, parts - 1);
        f->high[i] = axis->fixed || whole ? axis->size : draw_in(&f->random, f->low[i] + 1, parts) * grain;
        f->low[i] *= axis->fixed || whole ? 1 : grain;
    }
}

static int axis_of(const char *letters, int count, char letter)
{
    for (int i = 0; i < count; i++)
        if (letters[i] == letter)
            return i;
    return -1;
}

static void fill_tensor(struct fixture *f, struct tensor *t, char mark)
{
    bool positive = mark == '+';
    for (int64_t i = 0; i < t->elements; i++) {
        double x = 2 * draw_real(&f->random);
        if (t->index)
            x = draw(&f->random) % 4 == 0 ? -1 : (double)draw_in(&f->random, 0, f->segment.arguments.valid - 1);
        if (mark == '=') /* a permutation of multiples of 1/64: 7919 is prime */
            x = (double)(i * 7919 % t->elements - t->elements / 2) / 64;
        t->data[i] = positive ? fabs(x) + 0.5 : mark == '~' ? x + copysign(0.1, x) : x;
    }
}

/* A tensor for an operand's text, with a random block that covers the range. */
static void make_tensor(struct fixture *f, struct tensor *t, struct operand *operand, const char *text,
                        const char *letters)
{
    char mark = *text;
    *t = (struct tensor){ .used = true, .index = *text == '#', .elements = 1 };
    text += t->index || mark == '+' || mark == '~' || mark == '=';
    for (; *text; text++) {
        int dim = t->dim_count++;
        bool part = *text == 'x' || *text == 'y', scaled = *text == 'm' || *text == 'j' || part;
        int axis = axis_of(letters, f->segment.axis_count,
                           *text == 'm'   ? 'n'
                           : *text == 'j' ? 'g'
                           : part         ? 'd'
                                          : *text);
        int cover = *text == 'p' && !f->segment.arguments.one_row ? axis_of(letters, f->segment.axis_count, 't')
                    : scaled                                      ? -1
                                                                  : axis;
        t->axis[dim] = operand->axis[dim] = (int8_t)axis;
        t->size[dim] = *text == '1' ? 1 : f->size[(int)*text];
        int64_t low = cover < 0 ? 0 : draw_in(&f->random, 0, f->low[cover]);
        int64_t high = cover < 0 ? t->size[dim] : draw_in(&f->random, f->high[cover], t->size[dim]);
        t->low[dim] = low, t->count[dim] = high - low;
        t->elements *= t->size[dim];
    }
    t->data = calloc((size_t)t->elements, sizeof *t->data);
    t->block = calloc((size_t)t->elements, sizeof(double));
    fill_tensor(f, t, mark);
}

static void copy_tensor(struct fixture *f, enum role to, int index, const struct tensor *from)
{
    struct tensor *t = &f->tensor[to][index];
    *t = *from;
    t->data = calloc((size_t)t->elements, sizeof *t->data);
    t->block = calloc((size_t)t->elements, sizeof(double));
    fill_tensor(f, t, ' ');
}

/* Sizes of an image and its windows; the letter i counts pixels. */
static void make_window(struct fixture *f, const struct kernel_case *c, bool large)
{
    struct window *w = &f->segment.arguments.window;
    w->rows = draw_in(&f->random, large ? 14 : 1, large ? 18 : 4);
    w->columns = draw_in(&f->random, large ? 14 : 1, large ? 18 : 4);
    w->height = draw_in(&f->random, 1, 3), w->width = draw_in(&f->random, 1, 3);
    int64_t least = min_i64(w->height, w->width), needed = 0;
    while (w->rows + 2 * needed < w->height || w->columns + 2 * needed < w->width)
        needed++;
    w->padding = max_i64(needed, draw_in(&f->random, 0, c->kernel == KERNEL_CONV ? 2 : least / 2));
    if (2 * w->padding > least && c->kernel != KERNEL_CONV) { /* a pool's window always meets the image */
        w->height = w->width = 1, w->padding = 0;
    }
    w->stride = draw_in(&f->random, 1, large ? 2 : 3);
    w->out_columns = (w->columns + 2 * w->padding - w->width) / w->stride + 1;
    f->size['i'] = w->rows * w->columns;
    f->size['t'] = ((w->rows + 2 * w->padding - w->height) / w->stride + 1) * w->out_columns;
    f->size['k'] = w->height * w->width;
}

/* Sizes of what reads images, which are many numbers even if they are small. */
static void make_image(struct fixture *f, const struct kernel_case *c, bool large)
{
    f->size['h'] = draw_in(&f->random, large ? 3 : 1, large ? 9 : 3);
    f->size['j'] = draw_in(&f->random, 1, 3);
    f->size['g'] = f->size['j'] * draw_in(&f->random, 1, 3);
    if (c->kernel == KERNEL_CONV || c->kernel == KERNEL_MAX_POOL || c->kernel == KERNEL_AVERAGE_POOL)
        make_window(f, c, large);
    if (c->kernel == KERNEL_GROUP_NORM)
        f->segment.arguments.channels_per_group = f->size['g'] / f->size['j'];
    if (c->kernel == KERNEL_GROUP_NORM || c->kernel == KERNEL_CLASS_TOKEN)
        f->size['t']++; /* the norm of one element has no gradient to speak of */
    if (c->kernel == KERNEL_CLASS_TOKEN)
        f->size['i'] = f->size['t'] - 1;
}

static bool sees(enum kernel kernel)
{
    return kernel == KERNEL_CONV || kernel == KERNEL_MAX_POOL || kernel == KERNEL_AVERAGE_POOL ||
           kernel == KERNEL_GROUP_NORM || kernel == KERNEL_CLASS_TOKEN;
}

/* What a case is named after. The scale is of products and scores, and elsewhere not usual. */
static void vary_arguments(struct fixture *f)
{
    struct segment *s = &f->segment;
    const bool scaled = !strncmp(s->name, "scaled", 6);
    if ((s->kernel == KERNEL_EMBED || s->kernel == KERNEL_RESIDUAL) && !scaled)
        s->arguments.scale = 0;
    s->arguments.one_row = !strcmp(s->name, "add_type");
    s->arguments.alibi = !strcmp(s->name, "alibi_attention");
    if (!strcmp(s->name, "capped_attention") || s->kernel == KERNEL_SOFT_CAP)
        s->arguments.score_cap = 1.5;
}

static void fixture_make(struct fixture *f, const struct kernel_case *c, uint64_t seed, bool large, bool whole)
{
    char letters[MAX_AXES];
    *f = (struct fixture){ .random = mix64(seed) };
    for (const char *letter = "btsndhfveo"; *letter; letter++)
        f->size[(int)*letter] = draw_in(&f->random, large ? 9 : 1, large ? 40 : 5);
    int64_t group = draw_in(&f->random, 1, 3);
    f->size['m'] = draw_in(&f->random, 1, 2);
    f->size['n'] = f->size['m'] * group;
    f->size['d'] = 2 * draw_in(&f->random, 1, large ? 9 : 3);
    f->size['b'] = draw_in(&f->random, 1, 3);
    if (c->kernel == KERNEL_JOIN)
        f->size['x'] = draw_in(&f->random, 1, f->size['d'] - 1);
    f->size['y'] = f->size['d'] - f->size['x'];
    f->size['w'] = kernel_facts[c->kernel].attends ? 2 * draw_in(&f->random, 1, large ? 9 : 3) : 0;
    if (large && kernel_facts[c->kernel].attends)
        f->size['t'] = draw_in(&f->random, 60, 150); /* several tiles of rows */
    f->size['s'] = f->size['t'];
    f->size['p'] = f->size['t'] + draw_in(&f->random, 0, 3);
    f->size['h'] += c->kernel == KERNEL_LAYER_NORM; /* the norm of one element has no gradient to speak of */
    f->size['v'] *= large ? 5 : 1;
    struct segment *s = &f->segment;
    s->name = c->name;
    s->kernel = c->kernel;
    s->arguments = (struct kernel_arguments){ .epsilon = 1e-3,
                                              .rope_base = 50,
                                              .scale = 0.4,
                                              .limit = 6.5 / 64, /* between numbers that differ from each other */
                                              .causal = draw(&f->random) % 2,
                                              .valid = draw_in(&f->random, (f->size['v'] + 1) / 2, f->size['v']) };
    if (c->kernel == KERNEL_ROPE && draw(&f->random) % 2)
        s->arguments.rope_dim = 2 * draw_in(&f->random, 1, f->size['d'] / 2);
    if (c->kernel == KERNEL_ROPE && draw(&f->random) % 2) { /* waves of 6 and more: all three cases occur */
        s->arguments.rope_factor = 8, s->arguments.rope_low = 1, s->arguments.rope_high = 4;
        s->arguments.rope_original = (double)draw_in(&f->random, 8, 60);
    }
    if (c->kernel == KERNEL_MATMUL && draw(&f->random) % 2)
        s->arguments.scale = 0;
    if (!strcmp(c->name, "sliding_attention"))
        s->arguments.sliding_window = draw_in(&f->random, 1, f->size['t'] + 1);
    vary_arguments(f);
    s->arguments.kv_heads = kernel_facts[c->kernel].attends ? f->size['m'] : 0;
    f->size['r'] = s->arguments.relative_buckets = 4 * draw_in(&f->random, 1, 8);
    s->arguments.relative_distance = s->arguments.relative_buckets + draw_in(&f->random, 0, 40);
    if (sees(c->kernel))
        make_image(f, c, large);
    make_axes(f, c->axes, letters);
    make_ranges(f, whole);
    int most = c->in_most ? (int)draw_in(&f->random, 1, c->in_most) : MAX_OPERANDS;
    for (; s->in_count < most && c->in[s->in_count]; s->in_count++)
        make_tensor(f, &f->tensor[ROLE_IN][s->in_count], &s->in[s->in_count], c->in[s->in_count], letters);
    for (; c->weight[s->weight_count]; s->weight_count++)
        make_tensor(f, &f->tensor[ROLE_WEIGHT][s->weight_count], &s->weight[s->weight_count],
                    c->weight[s->weight_count], letters);
    for (; c->out[s->out_count]; s->out_count++)
        make_tensor(f, &f->tensor[ROLE_OUT][s->out_count], &s->out[s->out_count], c->out[s->out_count], letters);
    int64_t extents[MAX_AXES];
    for (int i = 0; i < MAX_AXES; i++)
        extents[i] = f->high[i] - f->low[i];
    int64_t forward = segment_scratch_elements(NULL, s, PHASE_FORWARD, extents);
    int64_t backward = segment_scratch_elements(NULL, s, PHASE_BACKWARD_INPUT, extents);
    int64_t weight = segment_scratch_elements(NULL, s, PHASE_BACKWARD_WEIGHT, extents);
    f->scratch = calloc((size_t)max_i64(max_i64(forward, backward), max_i64(weight, 1)), sizeof *f->scratch);
}

static void fixture_free(struct fixture *f)
{
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            free(f->tensor[role][i].data);
            free(f->tensor[role][i].block);
        }
    free(f->scratch);
}

/* Visits the elements of a tensor: writes its coordinates, returns false beyond the last. */
static void coordinates(const struct tensor *t, int64_t element, int64_t at[MAX_DIMS])
{
    for (int dim = t->dim_count - 1; dim >= 0; dim--) {
        at[dim] = element % t->size[dim];
        element /= t->size[dim];
    }
}

/* Place in the block, or -1 outside it. */
static int64_t block_place(const struct tensor *t, const int64_t at[MAX_DIMS])
{
    int64_t place = 0;
    for (int dim = 0; dim < t->dim_count; dim++) {
        if (at[dim] < t->low[dim] || at[dim] >= t->low[dim] + t->count[dim])
            return -1;
        place = place * t->count[dim] + at[dim] - t->low[dim];
    }
    return place;
}

static bool in_range(const struct fixture *f, const struct tensor *t, const int64_t at[MAX_DIMS])
{
    for (int dim = 0; dim < t->dim_count; dim++) {
        int axis = t->axis[dim];
        if (axis < 0)
            continue;
        int64_t size = f->segment.axes[axis].size; /* a scaled dim: heads come in whole groups */
        if (at[dim] < f->low[axis] * t->size[dim] / size || at[dim] >= f->high[axis] * t->size[dim] / size)
            return false;
    }
    return true;
}

static void load_block(struct tensor *t)
{
    int64_t at[MAX_DIMS];
    for (int64_t i = 0; t->used && i < t->elements; i++) {
        coordinates(t, i, at);
        int64_t place = block_place(t, at);
        if (place >= 0 && t->index)
            ((int32_t *)t->block)[place] = (int32_t)t->data[i];
        else if (place >= 0)
            ((real *)t->block)[place] = (real)t->data[i];
    }
}

static void check_block(const struct fixture *f, const struct tensor *t, enum phase phase, const char *isa,
                        enum role role, int index)
{
    double scale = 1;
    for (int64_t i = 0; i < t->elements; i++)
        scale = fmax(scale, isfinite(t->data[i]) ? fabs(t->data[i]) : 0);
    int64_t at[MAX_DIMS];
    for (int64_t i = 0; i < t->elements; i++) {
        coordinates(t, i, at);
        int64_t place = block_place(t, at);
        if (place < 0)
            continue;
        double got = (double)((real *)t->block)[place], want = t->data[i];
        bool same =
            in_range(f, t, at) ? got == want || fabs(got - want) <= f->tolerance * scale : (real)want == (real)got;
        ck_assert_msg(same, "%s phase %d (%s): role %d operand %d element %lld (%s range): expected %.17g, found %.17g",
                      f->segment.name, (int)phase, isa, (int)role, index, (long long)i,
                      in_range(f, t, at) ? "in" : "outside", want, got);
    }
}

/* ---- calls ---- */
static bool has_axis(const struct tensor *t, int axis)
{
    for (int dim = 0; dim < t->dim_count; dim++)
        if (t->axis[dim] == axis)
            return true;
    return false;
}

static struct kernel_call make_call(const struct fixture *f, enum phase phase)
{
    struct kernel_call call = {
        .segment = &f->segment, .phase = phase, .first = true, .scratch = f->scratch, .loss_scale = 1
    };
    memcpy(call.low, f->low, sizeof call.low);
    memcpy(call.high, f->high, sizeof call.high);
    for (int role = 0; role < ROLE_COUNT; role++)
        for (int i = 0; i < MAX_OPERANDS; i++) {
            const struct tensor *t = &f->tensor[role][i];
            struct view *view = &call.operand[role][i];
            if (!t->used)
                continue;
            *view = (struct view){ .data = t->block, .dim_count = t->dim_count };
            memcpy(view->low, t->low, sizeof view->low);
            memcpy(view->count, t->count, sizeof view->count);
        }
    return call;
}

/* Runs the phase in one call, or in two along an axis that is not fixed. define: the written operands' old values do
 * not count. */
static void run_phase(const struct fixture *f, enum phase phase, kernel_function *kernel, enum role written,
                      bool define, int split_axis)
{
    int rounds = split_axis >= 0 && f->high[split_axis] - f->low[split_axis] > 1 ? 2 : 1;
    for (int round = 0; round < rounds; round++) {
        struct kernel_call call = make_call(f, phase);
        if (rounds == 2) {
            int64_t grain = f->segment.axes[split_axis].grain;
            int64_t middle = f->low[split_axis] + (f->high[split_axis] - f->low[split_axis]) / 2 / grain * grain;
            if (round == 0)
                call.high[split_axis] = middle;
            else
                call.low[split_axis] = middle;
            if (call.low[split_axis] == call.high[split_axis])
                continue;
            bool empty_before = middle == f->low[split_axis];
            call.first = round == 0 || empty_before || has_axis(&f->tensor[ROLE_OUT][0], split_axis);
        }
        for (int i = 0; i < MAX_OPERANDS; i++)
            if (define && written != ROLE_OUT && f->tensor[written][i].used &&
                (round == 0 || call.low[split_axis] == f->low[split_axis] ||
                 has_axis(&f->tensor[written][i], split_axis)))
                call.define[written] = (uint8_t)(call.define[written] | 1 << i);
        kernel(&call);
    }
}
#endif
