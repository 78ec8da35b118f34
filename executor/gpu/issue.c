/* Each function here does what the function of the same name in executor/kernels does, by launches. */
#include "executor/gpu/issue.h"
#include "base/num.h"
#include "executor/gpu/kinds.h"
#include <string.h>

/* ---- the parts ---- */
int64_t gpu_type_bytes(int type)
{
    return type == GPU_BF16 ? 2 : type == GPU_INDEX ? (int64_t)sizeof(int32_t) : (int64_t)sizeof(real);
}

struct spot gpu_spot_of(const struct gpu_call *g, enum role role, int index)
{
    return spot_locate(g->call, role, index, gpu_type_bytes(g->type[role][index]));
}

struct gpu_spot gpu_operand(const struct gpu_call *g, enum role role, int index)
{
    struct spot spot = gpu_spot_of(g, role, index);
    return (struct gpu_spot){ .data = spot.data, .type = g->type[role][index], .begin = begins(g->call, role, index) };
}

bool gpu_wanted(const struct gpu_call *g, enum role role, int index)
{
    return g->call->operand[role][index].data != NULL;
}

static void set_loops(struct gpu_work *work, const struct loop *loops, int count, int first, int spot_count)
{
    for (int l = 0; l < count; l++) {
        work->extent[first + l] = loops[l].extent;
        for (int i = 0; i < spot_count; i++)
            work->spot[i].stride[first + l] = loops[l].stride[i];
    }
}

static int64_t product_of(const struct loop *loops, int count)
{
    int64_t product = 1;
    for (int l = 0; l < count; l++)
        product *= max_i64(loops[l].extent, 0);
    return product;
}

void gpu_loops(const struct gpu_call *g, struct gpu_work *work, const struct operand *order, int dim_count, bool rows,
               const struct spot *spots, int count)
{
    struct loop loops[MAX_DIMS];
    int all = loops_make(g->call, order, dim_count, !rows, spots, count, loops);
    work->inner_loops = rows && all > 0 ? 1 : 0;
    work->outer_loops = all - work->inner_loops;
    set_loops(work, loops, all, 0, count);
    work->outer = product_of(loops, work->outer_loops);
    work->inner = product_of(loops + work->outer_loops, work->inner_loops);
}

int gpu_kernel_threads(enum gpu_kernel kernel)
{
    static const int threads[] = {
#define GPU_KERNEL(id, function, thread_count) thread_count,
#include "executor/gpu/kernels.def"
    };
    return threads[kernel];
}

enum { PARTS_OF_A_TEAM = 2048, REALS_OF_A_PART = sizeof(double) / sizeof(real) };

int64_t gpu_part_count(const struct gpu *gpu)
{
    return (int64_t)gpu->team_count * PARTS_OF_A_TEAM;
}

int64_t gpu_overflow_counts(const struct gpu *gpu)
{
    return gpu_most_teams(gpu, GPU_ROUTE_SLOTS);
}

int64_t gpu_most_teams(const struct gpu *gpu, enum gpu_kernel kernel)
{
    return gpu->live[kernel] > 0 ? gpu->live[kernel] : gpu->team_count;
}

bool gpu_start(const struct gpu *gpu, void *stream, enum gpu_kernel kernel, const struct gpu_work *work, int64_t teams,
               struct error *err)
{
    if (teams <= 0)
        return true;
    return gpu->launch(gpu->self, stream, kernel, min_i64(teams, gpu_most_teams(gpu, kernel)), work, err);
}

bool gpu_start_elements(const struct gpu *gpu, void *stream, enum gpu_kernel kernel, const struct gpu_work *work,
                        int64_t elements, struct error *err)
{
    return gpu_start(gpu, stream, kernel, work, ceil_div(elements, gpu_kernel_threads(kernel)), err);
}

/* ---- a launch from a list of operands ---- */
void gpu_launch_add(const struct gpu_call *g, struct gpu_launch *p, enum role role, int index)
{
    p->spots[p->count] = gpu_spot_of(g, role, index);
    p->work.spot[p->count++] = gpu_operand(g, role, index);
}

struct gpu_launch gpu_launch_of(const struct gpu_call *g, const struct gpu_named *names, int count)
{
    struct gpu_launch p = { 0 };
    for (int i = 0; i < count; i++)
        if (names[i].index < 0)
            p.count++; /* absent */
        else
            gpu_launch_add(g, &p, names[i].role, names[i].index);
    return p;
}

/* A thread per element of the operand (role, index). */
static bool each(const struct gpu_call *g, struct gpu_launch *p, enum gpu_kernel kernel, enum role role,
                 struct error *err)
{
    gpu_loops(g, &p->work, operand_of_role(g->call->segment, role, 0), g->call->operand[role][0].dim_count, false,
              p->spots, p->count);
    return gpu_start_elements(g->gpu, g->stream, kernel, &p->work, p->work.outer, err);
}

bool gpu_rows(const struct gpu_call *g, struct gpu_launch *p, enum gpu_kernel kernel, enum role role, struct error *err)
{
    gpu_loops(g, &p->work, operand_of_role(g->call->segment, role, 0), g->call->operand[role][0].dim_count, true,
              p->spots, p->count);
    return p->work.inner <= 0 || gpu_start(g->gpu, g->stream, kernel, &p->work, p->work.outer, err);
}

enum { ROWS_WORTH_A_TEAM = 32 };

/* Returns into how many shares the rows are cut, so that few columns occupy the whole device, too. */
static int64_t column_splits_of(const struct gpu_call *g, const struct gpu_work *work, enum gpu_kernel kernel,
                                int64_t blocks)
{
    if (!g->parts || work->outer <= 0)
        return 1;
    int64_t splits = min_i64(gpu_most_teams(g->gpu, kernel) / max_i64(blocks, 1), work->inner / ROWS_WORTH_A_TEAM);
    return max_i64(min_i64(splits, gpu_part_count(g->gpu) * REALS_OF_A_PART / work->outer), 1);
}

/* Columns that a thread takes side by side; 0: rows do not lie in one loop, or elements are not of one type. Operands
 * that are the same for all columns have reals. spots: the result, then what is read */
static int columns_at_once(const struct gpu_work *work, int spots)
{
    const int inner = work->outer_loops;
    int wide = work->outer_loops == 1 && work->extent[0] % GPU_QUAD == 0 ? GPU_QUAD : 1;
    if (work->inner_loops != 1)
        return 0;
    for (int i = 1; i < spots; i++) {
        const struct gpu_spot *spot = &work->spot[i];
        const bool of_rows = work->outer_loops == 1 && spot->stride[0] == 0;
        if (spot->data && spot->type != (of_rows ? GPU_REAL : work->spot[1].type))
            return 0;
        if (spot->data && !of_rows &&
            (spot->stride[0] != 1 || spot->stride[inner] % GPU_QUAD != 0 ||
             (uintptr_t)spot->data % (size_t)min_i64(GPU_QUAD * gpu_type_bytes(spot->type), 16) != 0))
            wide = 1;
    }
    return wide;
}

bool gpu_columns(const struct gpu_call *g, struct gpu_launch *p, enum gpu_kernel kernel, enum role role,
                 struct error *err)
{
    const struct operand *operand = operand_of_role(g->call->segment, role, 0);
    struct operand kept = { 0 }, summed = { 0 };
    int kept_count = 0, summed_count = 0;
    for (int dim = 0; dim < g->call->operand[role][0].dim_count; dim++) {
        int axis = operand->axis[dim];
        if (axis >= 0 && p->spots[0].stride[axis])
            kept.axis[kept_count++] = (int8_t)axis;
        else if (axis >= 0)
            summed.axis[summed_count++] = (int8_t)axis;
    }
    struct loop loops[MAX_DIMS];
    struct gpu_work *work = &p->work;
    work->outer_loops = loops_make(g->call, &kept, kept_count, true, p->spots, p->count, loops);
    set_loops(work, loops, work->outer_loops, 0, p->count);
    work->outer = product_of(loops, work->outer_loops);
    work->inner_loops = loops_make(g->call, &summed, summed_count, true, p->spots, p->count, loops);
    set_loops(work, loops, work->inner_loops, work->outer_loops, p->count);
    work->inner = product_of(loops, work->inner_loops);
    work->integer[1] = columns_at_once(work, p->count);
    const int64_t blocks = ceil_div(work->outer, GPU_COLUMN_LANES * max_i64(work->integer[1], 1)),
                  splits = column_splits_of(g, work, kernel, blocks);
    work->integer[0] = splits;
    work->shared_reals = (int64_t)gpu_kernel_threads(kernel) * GPU_COLUMN_SHARED;
    work->spot[GPU_COLUMN_PARTS].data = g->parts;
    return gpu_start(g->gpu, g->stream, kernel, work, blocks * splits, err) &&
           (splits <= 1 ||
            gpu_start(g->gpu, g->stream, GPU_COLUMN_FINISH, work, ceil_div(work->outer, GPU_FINISH_LANES), err));
}

/* All rows of the block of a table (rows, columns) become 0, in the range of the columns' axis. */
static bool clear_rows(const struct gpu_call *g, enum role role, int index, struct error *err)
{
    const struct view *view = &g->call->operand[role][index];
    int axis = operand_of_role(g->call->segment, role, index)->axis[1];
    struct gpu_work work = { .outer_loops = 2,
                             .extent = { view->count[0], g->call->high[axis] - g->call->low[axis] },
                             .spot[0] = gpu_operand(g, role, index) };
    work.spot[0].stride[0] = view->count[1], work.spot[0].stride[1] = 1;
    work.outer = work.extent[0] * work.extent[1], work.inner = 1;
    return gpu_start_elements(g->gpu, g->stream, GPU_SET, &work, work.outer, err);
}

bool gpu_bias_gradient(const struct gpu_call *g, int index, struct error *err)
{
    if (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, index))
        return true;
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_WEIGHT, index }, { ROLE_GRADIENT_OUT, 0 });
    return gpu_columns(g, &p, GPU_COLUMN_SUM, ROLE_GRADIENT_OUT, err);
}

/* Hands the gradient of out[0] on to input `index`, times the scale, or, where that is 0, unchanged. */
static bool pass_gradient(const struct gpu_call *g, int index, double scale, struct error *err)
{
    if (!gpu_wanted(g, ROLE_GRADIENT_IN, index))
        return true;
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_IN, index }, { ROLE_GRADIENT_OUT, 0 });
    p.work.integer[0] = 1;
    p.work.integer[1] = scale > 0;
    p.work.number[0] = scale;
    return each(g, &p, GPU_SUM_TERMS, ROLE_GRADIENT_OUT, err);
}

/* ---- elementwise kernels ---- */
static bool residual(const struct gpu_call *g, enum phase phase, struct error *err)
{
    const struct segment *segment = g->call->segment;
    if (phase == PHASE_BACKWARD_WEIGHT)
        return segment->weight_count == 0 || gpu_bias_gradient(g, 0, err);
    if (phase == PHASE_BACKWARD_INPUT) {
        for (int i = 0; i < segment->in_count; i++)
            if (!pass_gradient(g, i, i > 0 ? segment->arguments.scale : 0, err))
                return false;
        return true;
    }
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_OUT, 0 });
    for (int i = 0; i < segment->in_count; i++)
        gpu_launch_add(g, &p, ROLE_IN, i);
    if (segment->weight_count > 0)
        gpu_launch_add(g, &p, ROLE_WEIGHT, 0);
    p.work.spot[0].begin = true;
    p.work.integer[0] = p.count - 1;
    p.work.integer[1] = segment->arguments.scale > 0;
    p.work.number[0] = 1, p.work.number[1] = segment->arguments.scale;
    return each(g, &p, GPU_SUM_TERMS, ROLE_OUT, err);
}

static bool unary(const struct gpu_call *g, enum phase phase, enum gpu_unary function, struct error *err)
{
    if (phase == PHASE_FORWARD) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_OUT, 0 }, { ROLE_IN, 0 });
        p.work.spot[0].begin = true;
        p.work.integer[0] = function;
        return each(g, &p, GPU_UNARY, ROLE_OUT, err);
    }
    if (!gpu_wanted(g, ROLE_GRADIENT_IN, 0))
        return true;
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_IN, 0 }, { ROLE_IN, 0 }, { ROLE_GRADIENT_OUT, 0 });
    p.work.integer[0] = function;
    return each(g, &p, GPU_UNARY_GRADIENT, ROLE_GRADIENT_OUT, err);
}

static bool gated(const struct gpu_call *g, enum phase phase, enum gpu_gate gate, struct error *err)
{
    if (phase == PHASE_FORWARD) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_OUT, 0 }, { ROLE_IN, 0 }, { ROLE_IN, 1 });
        p.work.spot[0].begin = true;
        p.work.integer[0] = gate;
        return each(g, &p, GPU_GATED, ROLE_OUT, err);
    }
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_IN, 0 }, { ROLE_GRADIENT_IN, 1 }, { ROLE_IN, 0 },
                                     { ROLE_IN, 1 }, { ROLE_GRADIENT_OUT, 0 });
    p.work.integer[0] = gate;
    return each(g, &p, GPU_GATED_GRADIENT, ROLE_GRADIENT_OUT, err);
}

static bool rope(const struct gpu_call *g, enum phase phase, struct error *err)
{
    const struct kernel_call *call = g->call;
    const struct operand *operand = &call->segment->out[0];
    bool forward = phase == PHASE_FORWARD;
    if (!forward && !gpu_wanted(g, ROLE_GRADIENT_IN, 0))
        return true;
    struct gpu_launch p = forward ? GPU_LAUNCH(g, { ROLE_OUT, 0 }, { ROLE_IN, 0 })
                                  : GPU_LAUNCH(g, { ROLE_GRADIENT_IN, 0 }, { ROLE_GRADIENT_OUT, 0 });
    int t_axis = operand->axis[1], d_axis = operand->axis[3];
    int64_t width = call->high[d_axis] - call->low[d_axis], turning = call->segment->arguments.rope_dim;
    int64_t half = (turning ? turning : width) / 2;
    struct spot *angles = &p.spots[p.count];
    angles->stride[t_axis] = 2 * half;
    p.work.spot[p.count++] =
        (struct gpu_spot){ .data = (real *)(uintptr_t)g->table + (call->low[t_axis] + call->shift[t_axis]) * 2 * half,
                           .type = GPU_REAL };
    p.work.integer[0] = half;
    p.work.number[0] = forward ? 1 : -1; /* the inverse of a rotation is its transpose */
    if (forward)
        p.work.spot[0].begin = true;
    gpu_loops(g, &p.work, operand, call->operand[forward ? ROLE_OUT : ROLE_GRADIENT_OUT][0].dim_count, true, p.spots,
              p.count);
    return gpu_start_elements(g->gpu, g->stream, GPU_ROTATE, &p.work,
                              p.work.outer * ceil_div(max_i64(p.work.inner - half, 0), GPU_QUAD), err);
}

/* ---- embeddings ---- */
static void set_table(const struct gpu_call *g, struct gpu_work *work, const struct spot *table, int first)
{
    int axis = g->call->segment->weight[0].axis[0];
    work->integer[first] = g->call->low[axis];
    work->integer[first + 1] = max_i64(g->call->high[axis] - g->call->low[axis], 0);
    work->integer[first + 2] = table->stride[axis];
    work->integer[first + 3] = g->call->segment->arguments.scale > 0;
    work->number[0] = g->call->segment->arguments.scale;
}

static bool embed(const struct gpu_call *g, enum phase phase, struct error *err)
{
    if (phase == PHASE_FORWARD) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_OUT, 0 }, { ROLE_IN, 0 }, { ROLE_WEIGHT, 0 });
        set_table(g, &p.work, &p.spots[2], 0);
        gpu_loops(g, &p.work, &g->call->segment->out[0], g->call->operand[ROLE_OUT][0].dim_count, true, p.spots,
                  p.count);
        return gpu_start_elements(g->gpu, g->stream, GPU_EMBED, &p.work,
                                  p.work.outer * ceil_div(max_i64(p.work.inner, 0), GPU_QUAD), err);
    }
    if (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0))
        return true;
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_WEIGHT, 0 }, { ROLE_GRADIENT_OUT, 0 }, { ROLE_IN, 0 });
    set_table(g, &p.work, &p.spots[0], 0);
    p.work.shared_reals = gpu_kernel_threads(GPU_EMBED_GRADIENT);
    gpu_loops(g, &p.work, &g->call->segment->out[0], g->call->operand[ROLE_GRADIENT_OUT][0].dim_count, true, p.spots,
              p.count);
    return gpu_start(g->gpu, g->stream, GPU_EMBED_GRADIENT, &p.work, p.work.integer[1], err);
}

/* The table of learned positions as if its rows followed the sequence axis. */
static void follow_sequence(const struct gpu_call *g, struct gpu_launch *p, int place, enum role role)
{
    const struct view *view = &g->call->operand[role][0];
    int sequence = g->call->segment->in[0].axis[1];
    struct spot *spot = &p->spots[place];
    if (g->call->segment->arguments.one_row) {
        p->work.spot[place].data = spot->data;
        return;
    }
    spot->stride[sequence] = view->count[1];
    p->work.spot[place].data = spot->data + (g->call->low[sequence] + g->call->shift[sequence] - view->low[0]) *
                                                view->count[1] * spot->element_bytes;
}

/* All rows of the table's block begin where the gradient does: those of later positions are 0. */
static bool add_position(const struct gpu_call *g, enum phase phase, struct error *err)
{
    if (phase == PHASE_BACKWARD_INPUT)
        return pass_gradient(g, 0, 0, err);
    if (phase == PHASE_FORWARD) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_OUT, 0 }, { ROLE_IN, 0 }, { ROLE_WEIGHT, 0 });
        follow_sequence(g, &p, 2, ROLE_WEIGHT);
        p.work.spot[0].begin = true;
        p.work.integer[0] = 2;
        return each(g, &p, GPU_SUM_TERMS, ROLE_OUT, err);
    }
    if (!gpu_wanted(g, ROLE_GRADIENT_WEIGHT, 0))
        return true;
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_GRADIENT_WEIGHT, 0 }, { ROLE_GRADIENT_OUT, 0 });
    if (p.work.spot[0].begin && !clear_rows(g, ROLE_GRADIENT_WEIGHT, 0, err))
        return false;
    p.work.spot[0].begin = false;
    follow_sequence(g, &p, 0, ROLE_GRADIENT_WEIGHT);
    return gpu_columns(g, &p, GPU_COLUMN_SUM, ROLE_GRADIENT_OUT, err);
}

/* ---- cross-entropy ---- */
enum { VOCABULARY_DIM = 2 }; /* logits are (b,t,v) */

/* Columns of the range that are vocabulary. */
static int64_t valid_columns(const struct kernel_call *call)
{
    int axis = call->segment->in[0].axis[VOCABULARY_DIM];
    int64_t high = call->high[axis], valid = call->segment->arguments.valid;
    high = valid > 0 ? min_i64(high, valid) : high;
    return max_i64(high - call->low[axis], 0);
}

static bool logit_max(const struct gpu_call *g, struct error *err)
{
    struct gpu_launch p = GPU_LAUNCH(g, { ROLE_IN, 0 }, { ROLE_OUT, 0 });
    p.work.integer[0] = valid_columns(g->call);
    return gpu_rows(g, &p, GPU_LOGIT_MAX, ROLE_IN, err);
}

static bool sum_exp(const struct gpu_call *g, enum phase phase, struct error *err)
{
    if (phase == PHASE_FORWARD) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_IN, 0 }, { ROLE_IN, 1 }, { ROLE_OUT, 0 });
        p.work.integer[0] = valid_columns(g->call);
        return gpu_rows(g, &p, GPU_SUM_EXP, ROLE_IN, err);
    }
    if (!gpu_wanted(g, ROLE_GRADIENT_IN, 0))
        return true;
    struct gpu_launch p =
        GPU_LAUNCH(g, { ROLE_IN, 0 }, { ROLE_IN, 1 }, { ROLE_GRADIENT_OUT, 0 }, { ROLE_GRADIENT_IN, 0 });
    p.work.integer[0] = valid_columns(g->call);
    return gpu_rows(g, &p, GPU_SUM_EXP_GRADIENT, ROLE_IN, err);
}

bool gpu_issue_with_sum(const struct gpu_call *max, const struct gpu_call *sum, bool *done, struct error *err)
{
    const struct kernel_call *a = max->call, *b = sum->call;
    struct gpu_launch p = GPU_LAUNCH(max, { ROLE_IN, 0 }, { ROLE_OUT, 0 });
    gpu_launch_add(sum, &p, ROLE_OUT, 0);
    p.work.integer[0] = valid_columns(a);
    *done = p.work.spot[1].begin && p.work.spot[2].begin && valid_columns(b) == p.work.integer[0] &&
            memcmp(a->low, b->low, sizeof a->low) == 0 && memcmp(a->high, b->high, sizeof a->high) == 0 &&
            memcmp(&a->segment->in[0], &b->segment->in[0], sizeof a->segment->in[0]) == 0 &&
            memcmp(a->segment->out[0].axis, b->segment->out[0].axis, sizeof a->segment->out[0].axis) == 0;
    return !*done || gpu_rows(max, &p, GPU_MAX_SUM_EXP, ROLE_IN, err);
}

static bool pick(const struct gpu_call *g, enum phase phase, struct error *err)
{
    const int axis = g->call->segment->in[0].axis[VOCABULARY_DIM];
    const enum role logits = phase == PHASE_FORWARD ? ROLE_IN : ROLE_GRADIENT_IN;
    if (phase == PHASE_BACKWARD_INPUT && !gpu_wanted(g, ROLE_GRADIENT_IN, 0))
        return true;
    struct gpu_launch p = phase == PHASE_FORWARD
                              ? GPU_LAUNCH(g, { ROLE_IN, 0 }, { ROLE_IN, 1 }, { ROLE_OUT, 0 })
                              : GPU_LAUNCH(g, { ROLE_IN, 1 }, { ROLE_GRADIENT_OUT, 0 }, { ROLE_GRADIENT_IN, 0 });
    p.work.integer[0] = valid_columns(g->call);
    p.work.integer[1] = g->call->low[axis];
    p.work.integer[2] = p.spots[phase == PHASE_FORWARD ? 0 : 2].stride[axis];
    if (phase == PHASE_BACKWARD_INPUT && begins(g->call, ROLE_GRADIENT_IN, 0))
        return gpu_rows(g, &p, GPU_PICK_GRADIENT, ROLE_GRADIENT_IN, err);
    gpu_loops(g, &p.work, &g->call->segment->in[0], g->call->operand[logits][0].dim_count, true, p.spots, p.count);
    return p.work.inner <= 0 ||
           gpu_start_elements(g->gpu, g->stream, phase == PHASE_FORWARD ? GPU_PICK : GPU_PICK_ADD, &p.work,
                              p.work.outer, err); /* of a gradient that others began one column alone changes */
}

enum { TOKENS_WORTH_A_THREAD = 4 };

/* The gradients are those of sum and pick; the one of the maximum cancels against sum's and is never asked for. */
static bool nll(const struct gpu_call *g, enum phase phase, struct error *err)
{
    if (phase == PHASE_BACKWARD_INPUT) {
        struct gpu_launch p = GPU_LAUNCH(g, { ROLE_IN, 0 }, { ROLE_IN, 3 }, { ROLE_GRADIENT_IN, 0 },
                                         { ROLE_GRADIENT_IN, 2 }, { ROLE_IN, 4 }, { ROLE_GRADIENT_OUT, 0 });
        return each(g, &p, GPU_NLL_GRADIENT, ROLE_IN, err);
    }
    struct gpu_launch p =
        GPU_LAUNCH(g, { ROLE_IN, 0 }, { ROLE_IN, 1 }, { ROLE_IN, 2 }, { ROLE_IN, 3 }, { ROLE_IN, 4 }, { ROLE_OUT, 0 });
    gpu_loops(g, &p.work, &g->call->segment->in[0], g->call->operand[ROLE_IN][0].dim_count, false, p.spots, p.count);
    const int64_t worth = ceil_div(p.work.outer, TOKENS_WORTH_A_THREAD * gpu_kernel_threads(GPU_NLL)),
                  teams = g->parts ? min_i64(worth, gpu_most_teams(g->gpu, GPU_NLL)) : 1;
    p.work.spot[GPU_NLL_PARTS].data = g->parts;
    p.work.integer[0] = teams; /* and parts */
    return gpu_start(g->gpu, g->stream, GPU_NLL, &p.work, max_i64(teams, 1), err) &&
           (teams <= 1 || gpu_start(g->gpu, g->stream, GPU_NLL_FINISH, &p.work, 1, err));
}

/* ---- the table ---- */
bool gpu_computes(enum kernel kernel, enum phase phase)
{
    bool of_images = kernel == KERNEL_CONV || kernel == KERNEL_GROUP_NORM || kernel == KERNEL_MAX_POOL ||
                     kernel == KERNEL_AVERAGE_POOL || kernel == KERNEL_CLASS_TOKEN,
         other = kernel == KERNEL_JOIN || kernel == KERNEL_SINK_ATTENTION || kernel == KERNEL_SOFT_CAP ||
                 kernel == KERNEL_SIGMOID_GATE || kernel == KERNEL_CLAMPED || kernel == KERNEL_TOKEN_GATE;
    return !of_images && !other && kernel_find(kernel, phase) != NULL;
}

const char *gpu_lacks(const struct segment *segment)
{
    const struct kernel_arguments *a = &segment->arguments;
    const bool norm = segment->kernel == KERNEL_LAYER_NORM || segment->kernel == KERNEL_RMS_NORM;
    const bool many_gains = norm && segment->weight[0].axis[1] >= 0;
    if (a->sliding_window > 0)
        return "sliding windows";
    if (kernel_facts[segment->kernel].attends && (a->score_cap > 0 || a->alibi))
        return a->alibi ? "scores that lose by distance" : "capped scores";
    if (segment_ranks_experts(segment))
        return "experts chosen by anything but their logits";
    if (segment->kernel == KERNEL_MATMUL && segment->in_count > 1 && segment->weight_count > 1)
        return "biases of experts";
    return many_gains ? "norms with gains for each head" : NULL;
}

bool gpu_issue(const struct gpu_call *g, struct error *err)
{
    enum phase phase = g->call->phase;
    switch (g->call->segment->kernel) {
    case KERNEL_MATMUL:
        return gpu_issue_matmul(g, phase, err);
    case KERNEL_EMBED:
        return embed(g, phase, err);
    case KERNEL_ADD_POSITION:
        return add_position(g, phase, err);
    case KERNEL_LAYER_NORM:
        return gpu_issue_norm(g, phase, true, err);
    case KERNEL_RMS_NORM:
        return gpu_issue_norm(g, phase, false, err);
    case KERNEL_ROPE:
        return rope(g, phase, err);
    case KERNEL_ATTENTION:
    case KERNEL_BIASED_ATTENTION:
        return gpu_issue_attention(g, phase, err);
    case KERNEL_RESIDUAL:
        return residual(g, phase, err);
    case KERNEL_GELU:
        return unary(g, phase, GPU_UNARY_GELU, err);
    case KERNEL_GELU_ERF:
        return unary(g, phase, GPU_UNARY_GELU_ERF, err);
    case KERNEL_RELU:
        return unary(g, phase, GPU_UNARY_RELU, err);
    case KERNEL_GEGLU:
        return gated(g, phase, GPU_GATE_GELU, err);
    case KERNEL_GEGLU_ERF:
        return gated(g, phase, GPU_GATE_GELU_ERF, err);
    case KERNEL_SWIGLU:
        return gated(g, phase, GPU_GATE_SILU, err);
    case KERNEL_SQUARED_RELU:
        return unary(g, phase, GPU_UNARY_SQUARED_RELU, err);
    case KERNEL_QUICK_GELU:
        return unary(g, phase, GPU_UNARY_QUICK_GELU, err);
    case KERNEL_SILU:
        return unary(g, phase, GPU_UNARY_SILU, err);
    case KERNEL_LOGIT_MAX:
        return logit_max(g, err);
    case KERNEL_SUM_EXP:
        return sum_exp(g, phase, err);
    case KERNEL_PICK:
        return pick(g, phase, err);
    case KERNEL_NLL:
        return nll(g, phase, err);
    case KERNEL_ROUTE:
        return gpu_issue_route(g, phase, err);
    case KERNEL_DISPATCH:
        return gpu_issue_dispatch(g, phase, err);
    case KERNEL_COMBINE:
        return gpu_issue_combine(g, phase, err);
    case KERNEL_SINK_ATTENTION:
    case KERNEL_SOFT_CAP:
    case KERNEL_SIGMOID_GATE:
    case KERNEL_CLAMPED:
    case KERNEL_TOKEN_GATE:
    case KERNEL_JOIN:
    case KERNEL_CONV:
    case KERNEL_GROUP_NORM:
    case KERNEL_MAX_POOL:
    case KERNEL_AVERAGE_POOL:
    case KERNEL_CLASS_TOKEN:
    case KERNEL_SHORT_CONV:
    case KERNEL_PASS_WITH_LOSS:
    case KERNEL_GATED_NORM:
    case KERNEL_SELECTIVE_SCAN:
    case KERNEL_CHUNK_SCAN:
    case KERNEL_DELTA_SCAN:
    case KERNEL_OPAQUE:
    case KERNEL_COUNT:
        break;
    }
    return fail_kind(err, ERROR_BUG, "segment %s has no mathematics here", g->call->segment->name);
}
