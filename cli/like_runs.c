#include "cli/like_runs.h"
#include "base/num.h"
#include "cli/cholesky.h"
#include <math.h>
#include <string.h>

/* Of logs of steps: how much jobs leave, and how much runs of one job differ. */
#define SPREAD .08
#define NOISE .01
/* A size that differs by so many powers of two counts as much as another dtype, recomputation or ZeRO stage. */
#define REACH 4.0

#define AT(member) offsetof(struct like_run, shape.member)
#define SIZE_AT(index) (AT(size) + (size_t)(index) * sizeof(int64_t))
#define MOST_SIZE 9007199254740992.0 /* 2^53 */
static const struct json_field like_run_fields[] = {
    { "device", FIELD_STRING, AT(device), .required = true, .doc = "of the catalogue" },
    { "framework", FIELD_STRING, AT(framework), .required = true, .doc = "that ran it" },
    { "dtype", FIELD_ENUM, AT(dtype), .required = true, .names = dtype_names, .doc = "of products" },
    { "recompute", FIELD_ENUM, AT(recompute), .names = recompute_names, .doc = "of the middle layer; absent: none" },
    { "zero", FIELD_INT, AT(zero), .max = 3, .doc = "ZeRO stage of the middle layer; absent: 0" },
#define SIZE(member, doc_)                                                                                             \
    { #member, FIELD_INT, SIZE_AT(RUN_SIZE_##member), .required = true, .min = 1, .max = MOST_SIZE, .doc = doc_ },
    RUN_SIZES
#undef SIZE
#define DIMENSION(symbol)                                                                                              \
    { #symbol,  FIELD_INT,        SIZE_AT(RUN_SIZE_DIM + DIM_##symbol),                                                \
      .min = 1, .max = MOST_SIZE, .doc = "degree of this dimension in the middle layer; absent: 1" },
#include "planner/plan/dims/dims.def"
#undef DIMENSION
    { "left", FIELD_DOUBLE, offsetof(struct like_run, left), .required = true, .min = -3, .max = 3,
      .doc = "log of the measured step over the one predicted with the corrections" },
};
enum { LIKE_RUN_FIELDS = sizeof like_run_fields / sizeof *like_run_fields };

const struct json_format like_run_formats[] = {
    JSON_FORMAT("calibration.run", like_run_fields,
                "Part of what `cleave calibrate` writes, and `--profile` takes beside profiles."),
    { 0 },
};

struct run_shape run_shape_of(const struct plan *plan, int64_t parameters, const char *device, const char *framework)
{
    int middle = plan->layer_count / 2;
    const struct plan_layer *layer = &plan->layers[middle];
    const struct plan_stage *stage = &plan->stages[plan_stage_of_layer(plan, middle)];
    struct run_shape shape = { .device = device,
                               .framework = framework,
                               .dtype = (int)plan->dtype,
                               .recompute = layer->recompute,
                               .zero = layer->zero,
                               .size = { [RUN_SIZE_parameters] = parameters,
                                         [RUN_SIZE_layers] = plan->layer_count,
                                         [RUN_SIZE_sequence] = plan->sequence,
                                         [RUN_SIZE_batch] = plan->batch,
                                         [RUN_SIZE_micro_batch] = plan_micro_batch_size(plan),
                                         [RUN_SIZE_devices] = plan->rank_count,
                                         [RUN_SIZE_stages] = plan->stage_count,
                                         [RUN_SIZE_chunks] = plan->chunk_count } };
    for (int i = 0; i < RUN_SIZE_COUNT; i++)
        shape.size[i] = max_i64(shape.size[i], 1);
    for (int a = 0; a < plan->atom_count; a++)
        shape.size[RUN_SIZE_DIM + layer->dim[a]] *= stage->atom[a];
    return shape;
}

void like_run_write(struct json_writer *w, const struct like_run *run)
{
    json_begin_object(w);
    json_put_string(w, "device", run->shape.device);
    json_put_string(w, "framework", run->shape.framework);
    json_put_string(w, "dtype", dtype_names[run->shape.dtype]);
    json_put_string(w, "recompute", recompute_names[run->shape.recompute]);
    json_put_int(w, "zero", run->shape.zero);
    for (int i = 0, first = LIKE_RUN_FIELDS - 1 - RUN_SIZE_COUNT; i < RUN_SIZE_COUNT; i++)
        if (i < RUN_SIZE_DIM || run->shape.size[i] != 1)
            json_put_int(w, like_run_fields[first + i].key, run->shape.size[i]);
    json_put_double(w, "left", run->left);
    json_end_object(w);
}

/* Gives how alike two jobs are: 1 the same, 0 of another device or framework. */
static double likeness(const struct run_shape *a, const struct run_shape *b)
{
    if (strcmp(a->device, b->device) != 0 || strcmp(a->framework, b->framework) != 0)
        return 0;
    double apart = (a->dtype != b->dtype) + (a->recompute != b->recompute) + (a->zero != b->zero);
    for (int i = 0; i < RUN_SIZE_COUNT; i++) {
        double powers = log2((double)a->size[i] / (double)b->size[i]) / REACH;
        apart += powers * powers;
    }
    return exp(-apart / 2);
}

bool like_runs_solve(struct like_run *runs, int count, double *others_leave, struct error *err)
{
    struct arena room = { 0 };
    double *m = arena_alloc(&room, (size_t)count * (size_t)count, sizeof *m),
           *x = arena_alloc(&room, (size_t)count, sizeof *x);
    bool good = !arena_failed(&room) || fail_memory(err);
    for (int i = 0; good && i < count; i++) {
        for (int k = 0; k < count; k++)
            m[i * count + k] = SPREAD * SPREAD * likeness(&runs[i].shape, &runs[k].shape) + (i == k) * NOISE * NOISE;
        x[i] = runs[i].left;
    }
    if (good) {
        cholesky_factor(m, count);
        cholesky_solve(m, x, count);
    }
    for (int i = 0; good && i < count; i++)
        runs[i].weight = SPREAD * SPREAD * x[i];
    for (int i = 0; good && others_leave && i < count; i++) { /* by the inverse's diagonal: their equation 5.12 */
        memset(x, 0, (size_t)count * sizeof *x);
        x[i] = 1;
        cholesky_solve(m, x, count);
        others_leave[i] = runs[i].weight / (SPREAD * SPREAD) / x[i];
    }
    arena_free(&room);
    return good;
}

double like_runs_say(const struct like_run *runs, int count, const struct run_shape *job, int *alike)
{
    double left = 0;
    *alike = 0;
    for (int i = 0; i < count; i++) {
        double like = likeness(&runs[i].shape, job);
        left += like * runs[i].weight;
        *alike += like > .5;
    }
    return left;
}
