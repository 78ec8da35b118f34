/* Holds predictions against training runs that were measured. */
#include "cli/accuracy.h"
#include "cli/measured_rows.h"
#include "base/num.h"
#include "benchmarks/chart.h"
#include "host/heap.h"
#include "host/parallel.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct validate_arguments {
    const char *output, *by, *svg, *framework, *accuracy;
    struct text_list profiles;
    double limit_s;
    int64_t jobs; /* 0: one per core */
    bool json;
};
static const struct validate_arguments defaults = { .by = "source_key" };
#define AT(field) offsetof(struct validate_arguments, field)
static const struct option options[] = {
    OUTPUT_OPTION(AT(output), "a CSV file of the predictions, one line a row, each with the command that makes it"),
    TEXT_OPTION("by", AT(by), "COLUMN", "tells errors by this column of the files (source_key)"),
    TEXT_OPTION("framework", AT(framework), "NAME", "predicts all rows as run by this one (the one that a row names)"),
    LIST_OPTION("profile", AT(profiles), "FILE",
                "corrections (cleave calibrate) of the rows that they speak of, or measurements; may be repeated"),
    TEXT_OPTION("svg", AT(svg), "FILE", "draws predicted against measured steps"),
    TEXT_OPTION("accuracy", AT(accuracy), "FILE",
                "writes errors by framework, device and dtype as planner/facts/accuracy.json has them"),
    INT_OPTION("jobs", AT(jobs), "N", 0, PARALLEL_MOST_JOBS,
               "threads (0: one per core); the answer is the same for any number"),
    DOUBLE_OPTION("time-limit", AT(limit_s), "SECONDS", 0, 1e9,
                  "skips rows whose prediction takes longer, each; which these are depends on the machine (0: none)"),
    FLAG_OPTION("json", AT(json), "one JSON object"),
};

struct job {
    struct measured_rows rows;
    const struct validate_arguments *a;
    struct validation found;
};

/* ---- telling ---- */

static void print_errors(FILE *out, const char *name, const struct error_summary *s)
{
    if (s->rows > 0)
        fprintf(out, "%-40s %6d %8.1f %8.1f %+8.1f %8.1f\n", name, s->rows, 100 * s->mean, 100 * s->median,
                100 * s->signed_median, 100 * s->most);
}

/* Nothing, where no row says what the table is about. */
static void print_table(FILE *out, const char *head, const struct validation *v, size_t member)
{
    const struct error_summary *all = (const void *)((const char *)&v->all + member);
    if (all->rows == 0)
        return;
    fprintf(out, "%-40s %6s %8s %8s %8s %8s\n", head, "rows", "MAPE", "median", "signed", "max");
    for (int i = 0; i < v->group_count; i++)
        print_errors(out, v->groups[i].name, (const void *)((const char *)&v->groups[i] + member));
    print_errors(out, "all", all);
    fprintf(out, "\n");
}

static void print_report(const struct job *job)
{
    const struct validation *v = &job->found;
    FILE *out = job->rows.cli->out;
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
    fprintf(out, "skipped: %d of %d rows\n", v->skipped_rows, job->rows.count);
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
    for (int i = 0; i < job->rows.count; i++)
        put_row(&w, &job->rows.rows[i]);
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
    return inputs_hand_out_json(job->rows.cli, NULL, &w, err);
}

static bool write_table(const struct job *job, struct error *err)
{
    struct text out = { 0 };
    csv_put_row(&out, columns, COLUMNS);
    for (int i = 0; i < job->rows.count; i++) {
        const struct validated_row *r = &job->rows.rows[i];
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
    return inputs_hand_out_text(job->rows.cli, job->a->output, &out, err);
}

static bool draw(struct job *job, struct error *err)
{
    const struct validation *v = &job->found;
    struct text out = { 0 };
    struct arena *arena = &job->rows.in.arena;
    struct chart_point *points = arena_alloc(arena, (size_t)job->rows.count, sizeof *points);
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
    for (int i = 0; i < job->rows.count; i++) {
        const struct validated_row *row = &job->rows.rows[i];
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
    return inputs_hand_out_text(job->rows.cli, job->a->svg, &out, err);
}

/* What the catalogue says of how far prices are off; the sources stand for the files, which lie anywhere. */
static bool write_accuracy(struct job *job, struct error *err)
{
    struct arena *arena = &job->rows.in.arena;
    struct accuracy accuracy;
    struct text source = { 0 };
    size_t length = 0;
    if (!accuracy_of_rows(&accuracy, arena, job->rows.rows, job->rows.count, err))
        return false;
    text_printf(&source, "cleave validate --accuracy: published runs");
    for (int i = 0, named = 0; i < job->found.group_count; i++)
        if (job->found.groups[i].step.rows > 0)
            text_printf(&source, "%s%s", named++ ? ", " : " of ", job->found.groups[i].name);
    accuracy.source = source.failed ? NULL : arena_strdup(arena, source.data);
    text_free(&source);
    if (!accuracy.source)
        return fail_memory(err);
    char *text = accuracy_write(&accuracy, &length);
    return inputs_hand_out(job->rows.cli, job->a->accuracy, text, length, err);
}

/* Whether there is such a framework: of a model that is at hand, since its numbers are read for one. */
static bool know_framework(const struct cli *cli, const char *name, struct error *err)
{
    struct inputs in = { .cli = cli };
    bool good = !name || (inputs_model(&in, "gpt2", err) && inputs_framework(&in, name, err));
    inputs_free(&in);
    return good;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct validate_arguments *a = given;
    struct job job = { .a = a, .rows = MEASURED_ROWS(cli, a->by, (int)a->jobs) };
    job.rows.framework = a->framework;
    job.rows.profiles = &a->profiles;
    job.rows.limit_s = a->limit_s;
    bool silent = inputs_is_stdout(a->output) || inputs_is_stdout(a->svg) || inputs_is_stdout(a->accuracy);
    heap_expect_much();
    bool good = inputs_can_write(a->output, err) && inputs_can_write(a->svg, err) &&
                inputs_can_write(a->accuracy, err) && know_framework(cli, a->framework, err);
    for (int i = 0; i < operand_count && good; i++)
        good = measured_rows_read(&job.rows, operands[i], err);
    good = good && measured_rows_ask(&job.rows, err) && measured_rows_predict(&job.rows, "validate", err) &&
           validation_of(&job.found, job.rows.rows, job.rows.count, err) && (!a->output || write_table(&job, err)) &&
           (!a->svg || draw(&job, err)) && (!a->accuracy || write_accuracy(&job, err)) &&
           (!a->json || write_json(&job, err));
    if (good && !a->json && !silent)
        print_report(&job);
    validation_free(&job.found);
    measured_rows_free(&job.rows);
    return ERROR_NONE;
}

const struct verb verb_validate = {
    .name = "validate",
    .summary = "holds predictions against training runs that were measured",
    .usage = "MEASUREMENTS.csv... [-o predictions.csv] [--by COLUMN] [--framework NAME] [--profile FILE]... [--svg "
             "FILE] [--time-limit SECONDS] [--json] [--jobs N]",
    .examples = "  cleave validate runs.csv\n"
                "  cleave validate runs.csv -o predictions.csv --svg errors.svg --by framework\n",
    .min_operands = 1,
    .max_operands = MEASURED_MOST_FILES,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct validate_arguments),
    .defaults = &defaults,
    .run = run,
};
