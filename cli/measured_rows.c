#include "cli/measured_rows.h"
#include "base/num.h"
#include "cli/given.h"
#include "cli/progress.h"
#include "host/apart.h"
#include "host/machine.h"
#include "host/parallel.h"
#include "planner/estimate/estimate.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

void measured_rows_free(struct measured_rows *m)
{
    for (int i = 0; i < m->count; i++)
        arena_free(&m->rows[i].arena);
    for (int i = 0; i < m->file_count; i++)
        csv_free(m->files[i]);
    inputs_free(&m->in);
}
/* ---- reading ---- */

/* nvidia-smi shows MiB, of which whole GB are the thousands that somebody read off: 16 GB were in use on devices that
 * show 16160 MiB in all, and 80 GB on such of 81251 MiB (bigscience-workshop/bigscience, experiments/tr3m-1B3.md and
 * train/tr11-176B-ml/chronicles-prequel.md). */
static double unit_bytes(const struct measured_run *run)
{
    bool thousands = !strncmp(run->mem_kind, MEASURED_SOMEWHERE, strlen(MEASURED_SOMEWHERE));
    return thousands ? 1000. * (1 << 20) : (double)(1 << 30);
}

/* What the row says was measured. */
static void take_measurement(struct validated_row *row)
{
    const struct measured_run *run = &row->run;
    double tokens = (double)run->global_batch * (double)run->seq_len;
    row->out_of_memory = !strcmp(run->mem_kind, "OOM");
    row->counts = !*run->complete || !strcmp(run->complete, "yes") || !strcmp(run->complete, "near");
    if (run->step_time_s > 0)
        row->measured_s = run->step_time_s;
    else if (run->tokens_per_s_per_gpu > 0 && run->global_batch != BLANK && run->seq_len != BLANK && run->n_gpus > 0)
        row->measured_s = tokens / run->tokens_per_s_per_gpu / (double)run->n_gpus;
    if (!row->out_of_memory && run->peak_mem_gib > 0)
        row->measured_peak_bytes = (int64_t)(run->peak_mem_gib * unit_bytes(run));
    if (row->skipped)
        return;
    if (!strncmp(run->quality, "check", 5) || !strncmp(run->quality, "BAD", 3))
        row->skipped = "quality check or BAD";
    else if (row->measured_s == 0 && row->measured_peak_bytes == 0 && !row->out_of_memory)
        row->skipped = "row lacks a measurement";
}

/* by: the file's column of that name; -1: it has none, but rows know what it would say. */
static bool read_row(struct measured_rows *m, const struct csv *csv, int index, int format, int by, struct error *err)
{
    struct validated_row *rows = arena_more(&m->in.arena, m->rows, m->count, &m->capacity, sizeof *m->rows);
    if (!rows)
        return fail_memory(err);
    m->rows = rows;
    struct validated_row *row = &rows[m->count++];
    *row = (struct validated_row){ .file = csv->name };
    if (!measured_run_read(&row->run, &row->skipped, csv, index, format, &row->arena, err))
        return false;
    row->group = measured_run_has_text(m->by) ? measured_run_text(&row->run, m->by) : csv_at(csv, index, by)->text;
    if (!*row->group)
        row->group = "(blank)";
    take_measurement(row);
    return true;
}

bool measured_rows_read(struct measured_rows *m, const char *path, struct error *err)
{
    const char *text;
    size_t length;
    int format;
    struct csv **csv = &m->files[m->file_count];
    if (!inputs_catalogue(&m->in, err) || !inputs_text(&m->in, path, &text, &length, err) ||
        !csv_read(csv, path, text, length, err))
        return false;
    m->file_count++;
    int by = csv_column(*csv, m->by);
    if (!measured_format_of(&format, *csv, err))
        return false;
    if (by < 0 && !measured_run_has_text(m->by)) {
        const char *near = csv_nearest(*csv, m->by);
        return fail(err, "--by: expected a column of %s, found '%s'%s%s%s", path, m->by, near ? "; did you mean " : "",
                    near ? near : "", near ? "?" : "");
    }
    for (int i = 0; i < (*csv)->row_count; i++)
        if (!read_row(m, *csv, i, format, by, err))
            return false;
    return true;
}

/* ---- predicting ---- */

/* What was measured beside tensors: what the framework holds, and where nvidia-smi was asked, or nothing but whole GB
 * is printed, the context and libraries, for which the reserve is. */
static int64_t beside_bytes(const struct facts *facts, const struct measured_run *run)
{
    int64_t all = facts->cluster->types[0].device.memory_bytes - facts_available_bytes(facts, 0);
    bool device =
        strstr(run->mem_kind, "nvidia-smi") || !strncmp(run->mem_kind, MEASURED_SOMEWHERE, strlen(MEASURED_SOMEWHERE));
    return device ? all : facts_buffers_bytes(facts);
}

/* Of the fullest stage, or of the one whose memory was measured. What is printed without a word of whose it is was read
 * where one is logged in, on the first node: BigScience's runs of 1.3B by four stages show 13 GB at a micro-batch of
 * eight on devices of 32 GB and end for want of memory on those of 16 GB (experiments/tr3m-1B3.md). */
static int64_t measured_peak_bytes(const struct prediction *prediction, const struct measured_run *run)
{
    if (!strcmp(run->mem_kind, MEASURED_ON_LAST_RANK))
        return prediction->peak_bytes[prediction->stage_count - 1];
    return !strcmp(run->mem_kind, MEASURED_SOMEWHERE) ? prediction->peak_bytes[0] : estimate_peak_bytes(prediction);
}

double measured_least_s(const struct prediction *prediction)
{
    return prediction->mfu * (double)prediction->step_ns / 1e9;
}

bool measured_step_possible(const char *name, double step_s, double least_s, int64_t device_count, const char *device,
                            struct error *err)
{
    char found[TEXT_NUMBER_BYTES], least[TEXT_NUMBER_BYTES];
    return step_s >= least_s ||
           fail(err,
                "%s: expected a step of at least %s, what the model's products take at the peak of %lld x %s, found %s "
                "(%.0f %% of that peak): is it of this model, batch, sequence, dtype and cluster, and a whole step?",
                name, text_duration_ns(least, llround(least_s * 1e9)), (long long)device_count, device,
                text_duration_ns(found, llround(step_s * 1e9)), 100 * least_s / step_s);
}

bool measured_row_price(struct row_price *out, struct measured_rows *m, const struct validated_row *row,
                        const struct calibration *trial, struct error *err)
{
    const struct measured_case *asked = &row->asked;
    struct space_options o = { .cluster = asked->cluster,
                               .dtype = asked->dtype,
                               .framework = asked->framework,
                               .optimizer = { [OPTIMIZER_PART_rule] = asked->optimizer,
                                              [OPTIMIZER_PART_moments] = asked->narrow_states ? "bf16" : NULL,
                                              [OPTIMIZER_PART_master] = asked->narrow_states ? "none" : NULL,
                                              [OPTIMIZER_PART_gradients] = asked->narrow_states ? asked->dtype : NULL },
                               .batch = asked->batch,
                               .sequence = asked->sequence,
                               .fix = { { asked->fix }, 1 },
                               .gap = DEFAULT_GAP };
    struct inputs in = { .cli = m->cli, .catalogue = m->in.catalogue, .corrects_some = true };
    struct search_options search = { .top = 1 };
    struct space said;
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    if (m->profiles)
        o.profiles = *m->profiles;
    if (trial)
        in.calibrations[in.calibration_count++] = *trial;
    pthread_mutex_lock(&m->reading);
    bool good = space_inputs(&in, &search.space, asked->model, &o, err);
    pthread_mutex_unlock(&m->reading);
    good = good && given_fixed(&said, &o.fix, err) && given_plan(&plan, &in, &search, &said, 0, false, false, err) &&
           given_estimate(&estimate, &in, plan, err);
    if (good) {
        int alike;
        *out = (struct row_price){
            .peak_bytes = measured_peak_bytes(&estimate->prediction, &row->run) + beside_bytes(&in.facts, &row->run),
            .fits = estimate->prediction.fits,
            .shape = run_shape_of(plan, graph_parameter_count(in.graph), asked->device, asked->framework),
            .least_s = measured_least_s(&estimate->prediction)
        };
        out->step_ns = calibration_step_ns(in.calibrations, in.calibration_count, &out->shape,
                                           estimate->prediction.step_ns, &alike);
    }
    estimate_free(estimate);
    plan_free(plan);
    in.catalogue = NULL; /* that of all rows */
    inputs_free(&in);
    return good || error_within(err, "estimate refused");
}

/* Only what is wrong with the row is a reason to skip it. */
static void skip(struct validated_row *row, struct error *why)
{
    if (why->kind != ERROR_INPUT && why->kind != ERROR_INFEASIBLE)
        row->failure = why->kind;
    why->message[strcspn(why->message, "\n")] = 0;
    row->skipped = arena_strdup(&row->arena, why->message);
    if (row->skipped)
        return;
    row->failure = ERROR_ENVIRONMENT;
    row->skipped = "out of memory";
}

/* Rows that are predicted between two words of progress. */
struct wave {
    struct measured_rows *rows;
    int first;
};

/* What comes of a row, without pointers: it may pass from one process to another. */
struct row_answer {
    struct row_price price;
    struct error why; /* ERROR_NONE: it has a price */
};
_Static_assert(sizeof(struct row_answer) <= APART_MOST_BYTES, "answers go through pipes in one piece");

static void answer(void *context, int index, void *out)
{
    struct wave *wave = context;
    struct row_answer *answer = out;
    if (!measured_row_price(&answer->price, wave->rows, wave->rows->distinct[wave->first + index], NULL,
                            &answer->why) &&
        answer->why.kind == ERROR_NONE)
        fail_kind(&answer->why, ERROR_BUG, "a price was refused without a reason");
}

static void take(struct validated_row *row, struct row_answer *answer)
{
    if (answer->why.kind != ERROR_NONE) {
        skip(row, &answer->why);
        return;
    }
    row->predicted_ns = answer->price.step_ns;
    row->least_s = answer->price.least_s;
    row->predicted_peak_bytes = answer->price.peak_bytes;
    row->fits = answer->price.fits;
}

static void predict(void *context, int index)
{
    struct wave *wave = context;
    struct row_answer own = { 0 };
    answer(context, index, &own);
    take(wave->rows->distinct[wave->first + index], &own);
}

/* The same in processes, of which those that take too long are ended. */
static bool predict_apart(struct wave *wave, int jobs, int count, struct error *err)
{
    struct measured_rows *m = wave->rows;
    struct arena room = { 0 };
    struct row_answer *answers = arena_alloc(&room, (size_t)count, sizeof *answers);
    enum apart_end *ends = arena_alloc(&room, (size_t)count, sizeof *ends);
    bool good = !arena_failed(&room) || fail_memory(err);
    good = good && apart_for(jobs, m->limit_s, count, answer, wave, answers, sizeof *answers, ends, err);
    for (int i = 0; good && i < count; i++) {
        if (ends[i] == APART_LATE)
            fail(&answers[i].why, "its prediction took longer than the time limit");
        if (ends[i] == APART_DIED)
            fail_kind(&answers[i].why, ERROR_ENVIRONMENT, "the process that predicted it died");
        take(m->distinct[wave->first + i], &answers[i]);
    }
    arena_free(&room);
    return good;
}

/* In the order of what is asked, else that of the files. */
static int by_question(const void *a, const void *b)
{
    const struct validated_row *x = *(struct validated_row *const *)a, *y = *(struct validated_row *const *)b;
    int order = strcmp(x->asked.command, y->asked.command);
    return order ? order : (x > y) - (x < y);
}

/* What runs the row's plan: a row may have a name that --framework takes. NULL: what its words say. */
static const char *framework_of(const struct measured_rows *m, const struct validated_row *row,
                                const char *const *names, size_t count)
{
    const char *found = m->framework;
    for (size_t i = 0; i < count && !found; i++)
        found = !strcmp(names[i], row->run.framework) ? names[i] : NULL;
    return found;
}

/* Tells of rows whose family or framework nobody knows, with the first name. */
static void tell_unknown(const struct measured_rows *m, const char *const *names, size_t count)
{
    const char *first = NULL, *family = NULL;
    int rows = 0, families = 0;
    for (int i = 0; i < m->count; i++) {
        const struct validated_row *row = &m->rows[i];
        if (!row->skipped && row->asked.unknown_framework) {
            first = first ? first : row->run.framework;
            rows++;
        }
        if (!row->skipped && row->asked.unknown_family) {
            family = family ? family : row->run.family;
            families++;
        }
    }
    if (families > 0)
        fprintf(m->cli->talk,
                "note: %d %s a family that is not known, such as \"%s\": planned with layer norms and without rotary "
                "positions, as GPT\n",
                families, families == 1 ? "row names" : "rows name", family);
    if (rows == 0)
        return;
    fprintf(m->cli->talk,
            "note: %d %s a framework that is not known, such as \"%s\": priced as cleave would run them. Known are",
            rows, rows == 1 ? "row names" : "rows name", first);
    for (size_t i = 0; i < count; i++)
        fprintf(m->cli->talk, " %s%s", names[i], i + 1 < count ? "," : "\n");
}

bool measured_rows_ask(struct measured_rows *m, struct error *err)
{
    const char *names[64];
    size_t count = inputs_names(&m->in, INPUTS_FRAMEWORKS, names, sizeof names / sizeof *names);
    struct validated_row **rows = arena_alloc(&m->in.arena, (size_t)m->count, sizeof(void *));
    int asked = 0;
    if (!rows)
        return fail_memory(err);
    for (int i = 0; i < m->count; i++) {
        struct validated_row *row = &m->rows[i];
        struct error why = { 0 };
        if (row->skipped)
            continue;
        if (measured_case_of(&row->asked, &row->run, framework_of(m, row, names, count), m->in.catalogue, &row->arena,
                             &why))
            rows[asked++] = row;
        else
            skip(row, &why);
    }
    tell_unknown(m, names, count);
    if (asked > 0)
        qsort(rows, (size_t)asked, sizeof(void *), by_question);
    for (int i = 0; i < asked; i++) {
        struct validated_row *last = m->distinct_count > 0 ? rows[m->distinct_count - 1] : NULL;
        if (last && !strcmp(last->asked.command, rows[i]->asked.command))
            rows[i]->alike = last;
        else
            rows[m->distinct_count++] = rows[i];
    }
    m->distinct = rows;
    return true;
}

bool measured_rows_predict(struct measured_rows *m, const char *verb, struct error *err)
{
    enum { WAVE = 16 }; /* rows of a thread between two words of progress */
    int jobs = m->jobs > 0 ? m->jobs : host_core_count();
    struct progress progress;
    progress_begin(&progress, m->cli, verb);
    for (int first = 0; first < m->distinct_count; first += WAVE * jobs) {
        struct wave wave = { m, first };
        progress_say(&progress, "%d of %d predictions", first, m->distinct_count);
        int count = (int)min_i64(WAVE * jobs, m->distinct_count - first);
        if (m->limit_s <= 0)
            parallel_for(jobs, count, predict, &wave);
        else if (!predict_apart(&wave, jobs, count, err))
            return false;
    }
    progress_clear(&progress);
    for (int i = 0; i < m->count; i++) {
        struct validated_row *row = &m->rows[i];
        if (row->failure != ERROR_NONE)
            return fail_kind(err, row->failure, "%s: row %s: %s", row->file, row->run.id, row->skipped);
        if (!row->alike)
            continue;
        row->skipped = row->alike->skipped;
        row->predicted_ns = row->alike->predicted_ns;
        row->least_s = row->alike->least_s;
        row->predicted_peak_bytes = row->alike->predicted_peak_bytes;
        row->fits = row->alike->fits;
    }
    return true;
}
