/* Holds predictions against training runs that were measured. */
#include "cli/given.h"
#include "cli/progress.h"
#include "cli/validation.h"
#include "base/num.h"
#include "benchmarks/chart.h"
#include "host/heap.h"
#include "host/machine.h"
#include "host/parallel.h"
#include "planner/estimate/estimate.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_FILES = 64 };
struct validate_arguments {
    const char *output, *by, *svg;
    int64_t jobs; /* 0: one per core */
    bool json;
};
static const struct validate_arguments defaults = { .by = "source_key" };
#define AT(field) offsetof(struct validate_arguments, field)
static const struct option options[] = {
    OUTPUT_OPTION(AT(output), "a CSV file of the predictions, one line a row, each with the command that makes it"),
    TEXT_OPTION("by", AT(by), "COLUMN", "tells errors by this column of the files (source_key)"),
    TEXT_OPTION("svg", AT(svg), "FILE", "draws predicted against measured steps"),
    INT_OPTION("jobs", AT(jobs), "N", 0, PARALLEL_MOST_JOBS,
               "threads (0: one per core); the answer is the same for any number"),
    FLAG_OPTION("json", AT(json), "one JSON object"),
};

struct job {
    const struct cli *cli;
    const struct validate_arguments *a;
    struct inputs in; /* its catalogue is that of all rows */
    struct csv *files[MOST_FILES];
    int file_count, row_count, capacity;
    struct validated_row *rows;      /* (row_count) */
    struct validated_row **distinct; /* (distinct_count) of which different things are asked */
    int distinct_count;
    struct validation found;
    pthread_mutex_t *reading; /* cJSON has one place for all threads where it notes errors */
};

static void job_free(struct job *job)
{
    for (int i = 0; i < job->row_count; i++)
        arena_free(&job->rows[i].arena);
    for (int i = 0; i < job->file_count; i++)
        csv_free(job->files[i]);
    validation_free(&job->found);
    inputs_free(&job->in);
}

/* ---- reading ---- */

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
        row->measured_peak_bytes = (int64_t)(run->peak_mem_gib * (1 << 30));
    if (row->skipped)
        return;
    if (!strncmp(run->quality, "check", 5) || !strncmp(run->quality, "BAD", 3))
        row->skipped = "quality check or BAD";
    else if (row->measured_s == 0 && row->measured_peak_bytes == 0 && !row->out_of_memory)
        row->skipped = "row lacks a measurement";
}

/* by: the file's column of that name; -1: it has none, but rows know what it would say. */
static bool read_row(struct job *job, const struct csv *csv, int index, int format, int by, struct error *err)
{
    struct validated_row *rows =
        arena_more(&job->in.arena, job->rows, job->row_count, &job->capacity, sizeof *job->rows);
    if (!rows)
        return fail_memory(err);
    job->rows = rows;
    struct validated_row *row = &rows[job->row_count++];
    *row = (struct validated_row){ .file = csv->name };
    if (!measured_run_read(&row->run, &row->skipped, csv, index, format, &row->arena, err))
        return false;
    row->group =
        measured_run_has_text(job->a->by) ? measured_run_text(&row->run, job->a->by) : csv_at(csv, index, by)->text;
    if (!*row->group)
        row->group = "(blank)";
    take_measurement(row);
    return true;
}

static bool read_file(struct job *job, const char *path, struct error *err)
{
    const char *text;
    size_t length;
    int format;
    struct csv **csv = &job->files[job->file_count];
    if (!inputs_text(&job->in, path, &text, &length, err) || !csv_read(csv, path, text, length, err))
        return false;
    job->file_count++;
    int by = csv_column(*csv, job->a->by);
    if (!measured_format_of(&format, *csv, err))
        return false;
    if (by < 0 && !measured_run_has_text(job->a->by)) {
        const char *near = csv_nearest(*csv, job->a->by);
        return fail(err, "--by: expected a column of %s, found '%s'%s%s%s", path, job->a->by,
                    near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
    }
    for (int i = 0; i < (*csv)->row_count; i++)
        if (!read_row(job, *csv, i, format, by, err))
            return false;
    return true;
}

/* ---- predicting ---- */

/* As `estimate` does it of the same words. */
static bool price(struct validated_row *row, struct inputs *in, pthread_mutex_t *reading, struct error *why)
{
    const struct measured_case *asked = &row->asked;
    struct space_options o = { .cluster = asked->cluster,
                               .dtype = asked->dtype,
                               .framework = asked->framework,
                               .batch = asked->batch,
                               .sequence = asked->sequence,
                               .fix = { { asked->fix }, 1 },
                               .gap = DEFAULT_GAP };
    struct search_options search = { .top = 1 };
    struct space said;
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    pthread_mutex_lock(reading);
    bool good = space_inputs(in, &search.space, asked->model, &o, why);
    pthread_mutex_unlock(reading);
    good = good && given_fixed(&said, &o.fix, why) && given_plan(&plan, in, &search, &said, false, false, why) &&
           given_estimate(&estimate, in, plan, why);
    if (good) {
        row->predicted_ns = estimate->prediction.step_ns;
        row->predicted_peak_bytes = estimate_peak_bytes(&estimate->prediction);
        row->fits = estimate->prediction.fits;
    }
    estimate_free(estimate);
    plan_free(plan);
    return good || error_within(why, "estimate refused");
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

static void predict(void *context, int index)
{
    struct job *job = context;
    struct validated_row *row = job->distinct[index];
    struct inputs in = { .cli = job->cli, .catalogue = job->in.catalogue };
    struct error why = { 0 };
    if (!price(row, &in, job->reading, &why))
        skip(row, &why);
    in.catalogue = NULL; /* the job's */
    inputs_free(&in);
}

/* In the order of what is asked, else that of the files. */
static int by_question(const void *a, const void *b)
{
    const struct validated_row *x = *(struct validated_row *const *)a, *y = *(struct validated_row *const *)b;
    int order = strcmp(x->asked.command, y->asked.command);
    return order ? order : (x > y) - (x < y);
}

/* What is asked of the rows: of those of which the same is asked one is to be predicted. */
static bool ask(struct job *job, struct error *err)
{
    struct validated_row **rows = arena_alloc(&job->in.arena, (size_t)job->row_count, sizeof(void *));
    int asked = 0;
    if (!rows)
        return fail_memory(err);
    for (int i = 0; i < job->row_count; i++) {
        struct validated_row *row = &job->rows[i];
        struct error why = { 0 };
        if (row->skipped)
            continue;
        if (measured_case_of(&row->asked, &row->run, &row->arena, &why))
            rows[asked++] = row;
        else
            skip(row, &why);
    }
    if (asked > 0)
        qsort(rows, (size_t)asked, sizeof(void *), by_question);
    for (int i = 0; i < asked; i++) {
        struct validated_row *last = job->distinct_count > 0 ? rows[job->distinct_count - 1] : NULL;
        if (last && !strcmp(last->asked.command, rows[i]->asked.command))
            rows[i]->alike = last;
        else
            rows[job->distinct_count++] = rows[i];
    }
    job->distinct = rows;
    return true;
}

static bool predict_all(struct job *job, struct error *err)
{
    enum { WAVE = 16 }; /* rows of a thread between two words of progress */
    int jobs = job->a->jobs > 0 ? (int)job->a->jobs : host_core_count();
    struct progress progress;
    if (!ask(job, err))
        return false;
    progress_begin(&progress, job->cli, "validate");
    for (int first = 0; first < job->distinct_count; first += WAVE * jobs) {
        struct job part = *job;
        part.distinct += first;
        progress_say(&progress, "%d of %d predictions", first, job->distinct_count);
        parallel_for(jobs, (int)min_i64(WAVE * jobs, job->distinct_count - first), predict, &part);
    }
    progress_clear(&progress);
    for (int i = 0; i < job->row_count; i++) {
        struct validated_row *row = &job->rows[i];
        if (row->failure != ERROR_NONE)
            return fail_kind(err, row->failure, "%s: row %s: %s", row->file, row->run.id, row->skipped);
        if (!row->alike)
            continue;
        row->skipped = row->alike->skipped;
        row->predicted_ns = row->alike->predicted_ns;
        row->predicted_peak_bytes = row->alike->predicted_peak_bytes;
        row->fits = row->alike->fits;
    }
    return true;
}

/* ---- telling ---- */

static void print_errors(FILE *out, const char *name, const struct error_summary *s)
{
    if (s->rows > 0)
        fprintf(out, "%-40s %6d %8.1f %8.1f %+8.1f %8.1f\n", name, s->rows, 100 * s->mean, 100 * s->median,
                100 * s->signed_median, 100 * s->most);
}

static void print_table(FILE *out, const char *head, const struct validation *v, size_t member)
{
    fprintf(out, "%-40s %6s %8s %8s %8s %8s\n", head, "rows", "MAPE", "median", "signed", "max");
    for (int i = 0; i < v->group_count; i++)
        print_errors(out, v->groups[i].name, (const void *)((const char *)&v->groups[i] + member));
    print_errors(out, "all", (const void *)((const char *)&v->all + member));
    fprintf(out, "\n");
}

static void print_report(const struct job *job)
{
    const struct validation *v = &job->found;
    FILE *out = job->cli->out;
    print_table(out, "step time, error in %", v, offsetof(struct validation_group, step));
    print_table(out, "peak memory, error in %", v, offsetof(struct validation_group, memory));
    fprintf(out, "out of memory: %d of %d runs that were, and %d of %d that ran, are predicted not to fit\n",
            v->oom_seen, v->oom_count, v->ran_refused, v->ran_count);
    if (v->rank_groups > 0)
        fprintf(
            out,
            "rank: in %d of %d groups of at least %d configurations of one job (%.0f %%) the predicted best took at "
            "most %d %% longer than the measured best; %.1f %% in the mean of all\n",
            v->rank_agreed, v->rank_groups, VALIDATION_LEAST_RANKED, 100.0 * v->rank_agreed / v->rank_groups,
            VALIDATION_AGREED_PERCENT, 100 * v->rank_regret);
    fprintf(out, "skipped: %d of %d rows\n", v->skipped_rows, job->row_count);
    for (int i = 0; i < v->skip_count; i++)
        fprintf(out, "  %4d %s: %s\n", v->skips[i].count, v->skips[i].group, v->skips[i].reason);
}

static void put_summary(struct json_writer *w, const struct validation_group *group)
{
    json_write_key(w, group->name ? group->name : "total");
    json_begin_object(w);
    json_put_int(w, "rows", group->step.rows);
    json_put_double(w, "mape", group->step.mean);
    json_put_double(w, "median_error", group->step.median);
    json_put_double(w, "signed_median_error", group->step.signed_median);
    json_put_double(w, "max_error", group->step.most);
    json_put_int(w, "memory_rows", group->memory.rows);
    json_put_double(w, "memory_mape", group->memory.mean);
    json_put_double(w, "memory_median_error", group->memory.median);
    json_put_double(w, "memory_signed_median_error", group->memory.signed_median);
    json_put_double(w, "memory_max_error", group->memory.most);
    json_end_object(w);
}

/* The columns of -o; of a row in JSON the numbers are members, too. */
static const char *const columns[] = { "file",
                                       "id",
                                       "source_key",
                                       "predicted_step_s",
                                       "measured_step_s",
                                       "error",
                                       "predicted_peak_bytes",
                                       "measured_peak_bytes",
                                       "counts",
                                       "out_of_memory",
                                       "fits",
                                       "standin",
                                       "skipped",
                                       "command" };
enum { COLUMNS = sizeof columns / sizeof *columns, FIRST_NUMBER = 3, NUMBERS = 5 };

/* In the order of their columns; NAN: not known. */
static void find_numbers(double out[NUMBERS], const struct validated_row *row)
{
    bool told = !row->skipped, timed = row->measured_s > 0;
    out[0] = told ? (double)row->predicted_ns / 1e9 : NAN;
    out[1] = timed ? row->measured_s : NAN;
    out[2] = told && timed ? validated_step_error(row) : NAN;
    out[3] = told ? (double)row->predicted_peak_bytes : NAN;
    out[4] = row->measured_peak_bytes > 0 ? (double)row->measured_peak_bytes : NAN;
}

static void put_row(struct json_writer *w, const struct validated_row *row)
{
    double numbers[NUMBERS];
    find_numbers(numbers, row);
    json_begin_object(w);
    json_put_string(w, "id", row->run.id);
    json_put_string(w, "by", row->group);
    for (int i = 0; i < NUMBERS; i++)
        json_put_double(w, columns[FIRST_NUMBER + i], numbers[i]);
    json_put_bool(w, "counts", row->counts);
    json_put_bool(w, "out_of_memory", row->out_of_memory);
    if (row->skipped)
        json_put_string(w, "fits", NULL);
    else
        json_put_bool(w, "fits", row->fits);
    json_put_string(w, "standin", row->asked.standin && *row->asked.standin ? row->asked.standin : NULL);
    json_put_string(w, "skipped", row->skipped);
    json_end_object(w);
}

static bool write_json(const struct job *job, struct error *err)
{
    const struct validation *v = &job->found;
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-validation", 1);
    json_put_string(&w, "by", job->a->by);
    json_write_key(&w, "rows");
    json_begin_array(&w);
    for (int i = 0; i < job->row_count; i++)
        put_row(&w, &job->rows[i]);
    json_end_array(&w);
    json_write_key(&w, "summary");
    json_begin_object(&w);
    for (int i = 0; i < v->group_count; i++)
        put_summary(&w, &v->groups[i]);
    json_end_object(&w);
    put_summary(&w, &v->all);
    json_write_key(&w, "out_of_memory");
    json_begin_object(&w);
    json_put_int(&w, "rows", v->oom_count);
    json_put_int(&w, "predicted", v->oom_seen);
    json_put_int(&w, "ran", v->ran_count);
    json_put_int(&w, "ran_predicted", v->ran_refused);
    json_end_object(&w);
    json_write_key(&w, "rank");
    json_begin_object(&w);
    json_put_int(&w, "groups", v->rank_groups);
    json_put_int(&w, "agreed", v->rank_agreed);
    json_put_double(&w, "mean_regret", v->rank_regret);
    json_end_object(&w);
    json_write_key(&w, "skipped");
    json_begin_array(&w);
    for (int i = 0; i < v->skip_count; i++) {
        json_begin_object(&w);
        json_put_string(&w, "by", v->skips[i].group);
        json_put_string(&w, "reason", v->skips[i].reason);
        json_put_int(&w, "rows", v->skips[i].count);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    return inputs_hand_out_json(job->cli, NULL, &w, err);
}

static bool write_table(const struct job *job, struct error *err)
{
    struct text out = { 0 };
    csv_put_row(&out, columns, COLUMNS);
    for (int i = 0; i < job->row_count; i++) {
        const struct validated_row *r = &job->rows[i];
        double numbers[NUMBERS];
        char words[NUMBERS][TEXT_NUMBER_BYTES];
        const char *fields[COLUMNS] = {
            r->file,
            r->run.id,
            r->run.source_key,
            [FIRST_NUMBER + NUMBERS] = r->counts ? "yes" : "no",
            r->out_of_memory ? "yes" : "no",
            r->skipped ? "" : (r->fits ? "yes" : "no"),
            r->asked.standin ? r->asked.standin : "",
            r->skipped ? r->skipped : "",
            r->asked.command ? r->asked.command : "",
        };
        find_numbers(numbers, r);
        for (int k = 0; k < NUMBERS; k++)
            fields[FIRST_NUMBER + k] = isnan(numbers[k]) ? "" : text_double(words[k], numbers[k]);
        csv_put_row(&out, fields, COLUMNS);
    }
    return inputs_hand_out_text(job->cli, job->a->output, &out, err);
}

static bool draw(struct job *job, struct error *err)
{
    const struct validation *v = &job->found;
    struct text out = { 0 };
    struct arena *arena = &job->in.arena;
    struct chart_point *points = arena_alloc(arena, (size_t)job->row_count, sizeof *points);
    const char **series = arena_alloc(arena, (size_t)v->group_count, sizeof *series);
    int *series_of = arena_alloc(arena, (size_t)v->group_count, sizeof *series_of), series_count = 0, count = 0;
    char words[256];
    if (arena_failed(arena))
        return fail_memory(err);
    for (int i = 0; i < v->group_count; i++) {
        const struct error_summary *s = &v->groups[i].step;
        if (s->rows == 0)
            continue;
        snprintf(words, sizeof words, "%.32s: %d, %.1f %%", v->groups[i].name, s->rows, 100 * s->mean);
        series_of[i] = series_count;
        series[series_count++] = arena_strdup(arena, words);
    }
    for (int i = 0; i < job->row_count; i++) {
        const struct validated_row *row = &job->rows[i];
        int group = 0;
        if (!validated_step(row))
            continue;
        while (strcmp(v->groups[group].name, row->group))
            group++;
        snprintf(words, sizeof words, "%.100s %.60s: %+.1f %%", row->run.id, row->run.model,
                 100 * validated_step_error(row));
        points[count++] = (struct chart_point){ row->measured_s, (double)row->predicted_ns / 1e9, series_of[group],
                                                arena_strdup(arena, words) };
    }
    if (arena_failed(arena))
        return fail_memory(err);
    chart_log_scatter(&out, points, count, series, series_count);
    return inputs_hand_out_text(job->cli, job->a->svg, &out, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct validate_arguments *a = given;
    pthread_mutex_t reading = PTHREAD_MUTEX_INITIALIZER;
    struct job job = { .cli = cli, .a = a, .in = { .cli = cli }, .reading = &reading };
    bool silent = inputs_is_stdout(a->output) || inputs_is_stdout(a->svg);
    heap_expect_much();
    bool good = inputs_can_write(a->output, err) && inputs_can_write(a->svg, err) && inputs_catalogue(&job.in, err);
    for (int i = 0; i < operand_count && good; i++)
        good = read_file(&job, operands[i], err);
    good = good && predict_all(&job, err) && validation_of(&job.found, job.rows, job.row_count, err) &&
           (!a->output || write_table(&job, err)) && (!a->svg || draw(&job, err)) &&
           (!a->json || write_json(&job, err));
    if (good && !a->json && !silent)
        print_report(&job);
    job_free(&job);
    return ERROR_NONE;
}

const struct verb verb_validate = {
    .name = "validate",
    .summary = "holds predictions against training runs that were measured",
    .usage = "MEASUREMENTS.csv... [-o predictions.csv] [--by COLUMN] [--svg FILE] [--json] [--jobs N]",
    .examples = "  cleave validate runs.csv\n"
                "  cleave validate runs.csv -o predictions.csv --svg errors.svg --by framework\n",
    .min_operands = 1,
    .max_operands = MOST_FILES,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct validate_arguments),
    .defaults = &defaults,
    .run = run,
};
