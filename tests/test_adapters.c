/* Low-rank adapters against the plain model, which knows nothing of them: at the same weights W + s A B both compute
 * the same loss, and the chain rule gives the gradients of A and B from the plain model's gradient of W: dA = s dW B^T,
 * dB = s A^T dW. In double precision, at the start, where B is zero, and after an update. The plain model gets the
 * merged weights through a checkpoint. */
#define _POSIX_C_SOURCE 200809L
#include "tests/check.h"
#include "host/crc32c.h"
#include "base/num.h"
#include "executor/backends.h"
#include "executor/comm_threads.h"
#include "executor/run.h"
#include "executor/safetensors.h"
#include "host/file.h"
#include "tests/checkpoint_files.h"
#include "tests/tiny_models.h"
#include <stdio.h>

enum { STEPS = 2, SUM_DIGITS = 8 };
static const double TOLERANCE = 1e-10;
/* lora_alpha / lora_r of TINY_LORA's layers */
static const double scales[] = { 0, 90. / 3, 90. / 3, 8. / 4, 8. / 3, 0, 0 };

/* ---- one rank's run ---- */
struct outcome {
    struct graph *graph;
    const struct program *program;
    real **weight, **gradient[STEPS]; /* after the last step; (step, weight), NULL where there is none */
    double loss[STEPS];
};

static real *copy_of(const struct outcome *o, int buffer, const void *data)
{
    size_t bytes = (size_t)weight_elements(&o->graph->weights[o->program->buffers[buffer].id]) * sizeof(real);
    real *copy = malloc(bytes);
    memcpy(copy, data, bytes);
    return copy;
}

static void on_gradient(void *context, int64_t step, int rank, int buffer, const void *data)
{
    struct outcome *o = context;
    (void)rank;
    o->gradient[step][o->program->buffers[buffer].id] = copy_of(o, buffer, data);
}

static void on_weight(void *context, int rank, int buffer, const void *data)
{
    struct outcome *o = context;
    (void)rank;
    o->weight[o->program->buffers[buffer].id] = copy_of(o, buffer, data);
}

static void on_step(void *context, const struct run_step *step)
{
    ((struct outcome *)context)->loss[step->step - 1] = step->loss;
}

static struct outcome run_model(const char *json, int steps, double rate, const char *save, const char *resume)
{
    struct outcome o = { .graph = tiny_graph(json) };
    struct plan *plan = tiny_plan(o.graph, &(struct tiny_choice){ .dp = 1, .tp = 1, .pp = 1, .micro = 1 });
    struct error error = { 0 };
    struct program *program = tiny_lower(o.graph, plan, &error);
    struct transport transport;
    struct data data;
    struct run_summary summary;
    struct run_options options = run_options_default();
    ck_assert_msg(program != NULL, "%s", error.message);
    ck_assert(comm_threads_open(&transport, 1, &error) && data_synthetic(&data, sample_shape_of(o.graph), 7, &error));
    o.program = program;
    o.weight = calloc((size_t)o.graph->weight_count, sizeof *o.weight);
    for (int s = 0; s < STEPS; s++)
        o.gradient[s] = calloc((size_t)o.graph->weight_count, sizeof *o.gradient[s]);
    options.step_count = steps, options.seed = 3, options.learning_rate = rate, options.data = &data;
    options.context = &o, options.on_step = on_step, options.on_weight = on_weight, options.on_gradient = on_gradient;
    options.checkpoint_dir = save, options.resume_dir = resume;
    ck_assert_msg(run_program(&summary, program, &transport, 1, &options, &error), "%s", error.message);
    run_summary_free(&summary);
    transport.close(transport.self);
    data_free(&data);
    program_free(program);
    plan_free(plan);
    return o;
}

static void free_outcome(struct outcome *o)
{
    for (int i = 0; i < o->graph->weight_count; i++) {
        free(o->weight[i]);
        for (int s = 0; s < STEPS; s++)
            free(o->gradient[s][i]);
    }
    free(o->weight);
    for (int s = 0; s < STEPS; s++)
        free(o->gradient[s]);
    graph_free(o->graph);
}

/* ---- the plain model: the same description without "frozen", "lora_r" and what follows it ---- */
static void cut(char *text, const char *from, const char *to)
{
    for (char *at; (at = strstr(text, from));) {
        const char *end = strstr(at, to) + strlen(to);
        memmove(at, end, strlen(end) + 1);
    }
}

static const char *plain_model(void)
{
    static char text[sizeof TINY_LORA] = TINY_LORA;
    cut(text, ", \"frozen\"", "true");
    cut(text, ", \"lora_r\"", "]");
    return text;
}

/* ---- adapters by their matrices ---- */
struct adapter {
    int base, a, b; /* weights; base of the plain model */
    int64_t in, out, rank;
    double scale;
};

static int find_weight(const struct graph *graph, const char *name)
{
    int i = 0;
    while (i < graph->weight_count && strcmp(graph->weights[i].name, name) != 0)
        i++;
    ck_assert_msg(i < graph->weight_count, "no weight %s", name);
    return i;
}

/* True for a weight "<layer>.<matrix>_lora_a". */
static bool find_adapter(const struct graph *graph, const struct graph *plain, int weight, struct adapter *out)
{
    char name[96];
    snprintf(name, sizeof name, "%s", graph->weights[weight].name);
    char *suffix = strstr(name, "_lora_a");
    if (!suffix)
        return false;
    const struct weight *a = &graph->weights[weight];
    out->a = weight;
    out->rank = a->size[a->dim_count - 1];
    out->in = weight_elements(a) / out->rank;
    suffix[strlen("_lora_")] = 'b';
    out->b = find_weight(graph, name);
    out->out = weight_elements(&graph->weights[out->b]) / out->rank;
    *suffix = '\0';
    out->base = find_weight(plain, name);
    out->scale = scales[atoi(name)];
    ck_assert_int_eq(weight_elements(&plain->weights[out->base]), out->in * out->out);
    return true;
}

/* Of what the chain rule makes of the plain model's gradient. */
static void check_chain_rule(const struct outcome *o, const struct outcome *plain, const struct adapter *x, real **at,
                             int step)
{
    const real *dw = plain->gradient[step][x->base], *da = o->gradient[step][x->a], *db = o->gradient[step][x->b],
               *a = at[x->a], *b = at[x->b];
    double error = 0, norm = 0;
    for (int64_t l = 0; l < x->rank; l++) {
        for (int64_t i = 0; i < x->in; i++) {
            double want = 0;
            for (int64_t k = 0; k < x->out; k++)
                want += x->scale * dw[i * x->out + k] * b[l * x->out + k];
            error += pow(da[i * x->rank + l] - want, 2), norm += want * want;
        }
        for (int64_t k = 0; k < x->out; k++) {
            double want = 0;
            for (int64_t i = 0; i < x->in; i++)
                want += x->scale * a[i * x->rank + l] * dw[i * x->out + k];
            error += pow(db[l * x->out + k] - want, 2), norm += want * want;
        }
    }
    ck_assert_double_gt(norm, 0);
    ck_assert_msg(sqrt(error) <= TOLERANCE * sqrt(norm), "step %d: gradients of %s: error %g of %g", step + 1,
                  o->graph->weights[x->a].name, sqrt(error), sqrt(norm));
}

static int check_adapters(const struct outcome *o, const struct outcome *plain, real **at, int step)
{
    int count = 0;
    for (int i = 0; i < o->graph->weight_count; i++) {
        struct adapter x;
        ck_assert_int_eq(o->gradient[step][i] == NULL, o->graph->weights[i].frozen);
        if (!find_adapter(o->graph, plain->graph, i, &x))
            continue;
        check_chain_rule(o, plain, &x, at, step);
        count++;
    }
    return count;
}

/* B is zero: the model is the plain one. What is frozen stays as it is. */
START_TEST(at_first_adapters_add_nothing)
{
    struct outcome o = run_model(TINY_LORA, 1, 0, NULL, NULL), plain = run_model(plain_model(), 1, 0, NULL, NULL);
    struct outcome trained = run_model(TINY_LORA, STEPS, 1e-2, NULL, NULL);
    CHECK_NEAR(o.loss[0], plain.loss[0], 1e-14 * plain.loss[0]);
    ck_assert_int_eq(check_adapters(&o, &plain, o.weight, 0), 10);
    for (int i = 0; i < o.graph->weight_count; i++) {
        const struct weight *weight = &o.graph->weights[i];
        bool same = memcmp(o.weight[i], trained.weight[i], (size_t)weight_elements(weight) * sizeof(real)) == 0;
        ck_assert_msg(same == weight->frozen, "%s", weight->name);
    }
    free_outcome(&o);
    free_outcome(&plain);
    free_outcome(&trained);
}
END_TEST

/* ---- merged weights ---- */
/* The checksum of a tensor's only block, where it stands in the header. */
static void replace_sum(char *text, size_t length, uint32_t old, uint32_t new)
{
    char from[SUM_DIGITS + 1], to[SUM_DIGITS + 1];
    snprintf(from, sizeof from, "%08x", old);
    snprintf(to, sizeof to, "%08x", new);
    for (size_t i = 0; i + SUM_DIGITS <= length; i++)
        if (memcmp(text + i, from, SUM_DIGITS) == 0)
            memcpy(text + i, to, SUM_DIGITS);
}

/* W + s A B in the place of W, and its checksum in the header. */
static void merge(char *file, const struct safetensors *header, const struct outcome *o, const struct outcome *plain,
                  const struct adapter *x)
{
    char name[128];
    int t = 0;
    snprintf(name, sizeof name, "weight/%s/0", plain->graph->weights[x->base].name);
    while (strcmp(header->tensors[t].name, name) != 0)
        ck_assert_int_lt(++t, header->count);
    char *data = file + header->data_start + header->tensors[t].offset;
    size_t bytes = (size_t)header->tensors[t].bytes;
    uint32_t old = crc32c(0, data, bytes);
    real *w = malloc(bytes);
    memcpy(w, data, bytes);
    for (int64_t i = 0; i < x->in; i++)
        for (int64_t k = 0; k < x->out; k++)
            for (int64_t l = 0; l < x->rank; l++)
                w[i * x->out + k] +=
                    (real)x->scale * o->weight[x->a][i * x->rank + l] * o->weight[x->b][l * x->out + k];
    memcpy(data, w, bytes);
    replace_sum(file, (size_t)header->data_start, old, crc32c(0, w, bytes));
    free(w);
}

/* Changes the plain model's checkpoint of one rank. */
static void merge_checkpoint(const char *dir, const struct outcome *o, const struct outcome *plain)
{
    char save[PATH_BYTES], path[LONG_PATH_BYTES], *file = NULL;
    struct error error = { 0 };
    struct safetensors *header = NULL;
    struct manifest manifest;
    size_t length, header_bytes, manifest_length;
    newest_save(dir, save);
    snprintf(path, sizeof path, "%s/rank-0.safetensors", save);
    ck_assert(file_read(&file, &length, path, &error) && manifest_read(&manifest, save, &error));
    ck_assert(safetensors_header_bytes(&header_bytes, path, (const unsigned char *)file, (int64_t)length, &error) &&
              safetensors_parse(&header, path, file + SAFETENSORS_LENGTH_BYTES, header_bytes, (int64_t)length, &error));
    for (int i = 0; i < o->graph->weight_count; i++) {
        struct adapter x;
        if (find_adapter(o->graph, plain->graph, i, &x))
            merge(file, header, o, plain, &x);
    }
    manifest.records[0].header_hash = hash_bytes(HASH_START, file, (size_t)header->data_start);
    char *text = manifest_write(&manifest.label, manifest.model, manifest.records, &manifest_length);
    ck_assert(file_write(path, file, length, &error) && file_write(manifest.path, text, manifest_length, &error));
    manifest_free(&manifest);
    safetensors_free(header);
    free(file);
    free(text);
}

START_TEST(merged_weights_make_the_plain_model)
{
    char dir[PATH_BYTES];
    const char *base = getenv("TMPDIR");
    snprintf(dir, sizeof dir, "%s/cleave-adapters-XXXXXX", base ? base : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    struct outcome once = run_model(TINY_LORA, 1, 1e-2, NULL, NULL), o = run_model(TINY_LORA, STEPS, 1e-2, NULL, NULL);
    struct outcome plain = run_model(plain_model(), 1, 0, dir, NULL);
    merge_checkpoint(dir, &once, &plain);
    struct outcome merged = run_model(plain_model(), STEPS, 0, NULL, dir),
                   unmerged = run_model(plain_model(), STEPS, 0, NULL, NULL);
    CHECK_NEAR(o.loss[1], merged.loss[1], 1e-13 * merged.loss[1]);
    ck_assert_double_gt(fabs(o.loss[1] - unmerged.loss[1]), 1e-3);
    ck_assert_int_eq(check_adapters(&o, &merged, once.weight, 1), 10);
    struct outcome *all[] = { &once, &o, &plain, &merged, &unmerged };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free_outcome(all[i]);
    remove_any(dir);
}
END_TEST

static Suite *adapters_suite(void)
{
    Suite *suite = suite_create("adapters");
    CHECK_ADD(suite, at_first_adapters_add_nothing);
    CHECK_ADD(suite, merged_weights_make_the_plain_model);
    return suite;
}

CHECK_MAIN(adapters_suite)
