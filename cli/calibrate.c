/* Makes a small file of corrections of measured runs, which --profile takes. */
#include "cli/calibrated.h"
#include "cli/calibrate_fit.h"
#include "cli/logged_job.h"
#include "cli/measured_rows.h"
#include "cli/progress.h"
#include "base/num.h"
#include "host/heap.h"
#include "host/machine.h"
#include "host/parallel.h"
#include "planner/estimate/estimate.h"
#include <math.h>
#include <string.h>

struct calibrate_arguments {
    struct given_options given;
    struct text_list logs;
    struct text_list held_out;
    const char *output, *from, *model;
    int64_t jobs; /* 0: one per core */
    bool json;
};
static const struct calibrate_arguments defaults = {
    .given.space.gap = DEFAULT_GAP,
    .given.number = {
#define CHOICE(id, ...) [CHOICE_##id] = GIVEN_UNSAID,
#include "planner/space/choices.def"
#undef CHOICE
    },
};
#define AT(field) offsetof(struct calibrate_arguments, field)
#define GIVEN_AT(member) AT(given.member)
static const struct option options[] = {
    OUTPUT_OPTION(AT(output), "the corrections, for --profile"),
    LIST_OPTION("log", AT(logs), "FILE",
                "what a run of the job printed: lines of Megatron-LM, torchtitan, DeepSpeed or transformers' Trainer; "
                "may be repeated"),
    TEXT_OPTION(
        "from", AT(from), "TARGET",
        "with --log: the operand is the launch that ran, of megatron-lm, torchtitan, ...: a file, or its arguments"),
    TEXT_OPTION("model", AT(model), "MODEL", "with --from: the model, where the launch does not describe it"),
    INT_OPTION("vocab-size", GIVEN_AT(otherwise.vocabulary), "N", 1, 1 << 28,
               "with --from: words of the vocabulary, where the launch leaves them to its tokenizer"),
    LIST_OPTION("hold-out", AT(held_out), "COLUMN",
                "tells also how far off rows are by corrections fitted to all rows that say another of this column, a "
                "text such as source_key, gpu, family or id; may be repeated"),
    INT_OPTION("jobs", AT(jobs), "N", 0, PARALLEL_MOST_JOBS,
               "threads (0: one per core); the answer is the same for any number"),
    FLAG_OPTION("json", AT(json), "one JSON object"),
#include "cli/given_options.def"
    JOB_OPTIONS(struct calibrate_arguments, given.space),
};

enum { ROUNDS = 2, MOST_ROUNDS = 6, MOST_HOLDERS = 64 };
#define SETTLED .01     /* logs of speeds that moved less are not told anew */
#define FAR .1          /* steps are not linear over more: then they are told further times */
#define TRIAL_SPEED 1.1 /* a slope is what a speed so much higher makes of a step */

/* Runs of which one thing is asked have one price and one slope; each is a sample of its own. */
struct question {
    const struct validated_row *row;    /* NULL: the job that the options name */
    double step_s[MECHANISM_COUNT + 1]; /* the last: as it is */
    int64_t peak_bytes;
    struct run_shape shape;
    bool failed;
    struct error why;
};
struct measured_step {
    const struct validated_row *row; /* NULL: a log's */
    int question;
    double measured_s;
};
struct calibrating {
    const struct cli *cli;
    const struct calibrate_arguments *a;
    const char *job;          /* that was logged: a model, or with --from a launch; NULL: rows name theirs */
    struct logged_job logged; /* that is it, with the options */
    struct measured_rows rows;
    struct arena arena;
    struct question *questions; /* (question_count) */
    int question_count, count;
    struct fit_sample *samples;   /* (count) */
    struct measured_step *places; /* (count) */
    /* What speeds are of: first devices, then frameworks. */
    int device_count, holder_count;
    const char *holders[MOST_HOLDERS];
    struct calibration trials[MECHANISM_COUNT + 1];
    struct fit at;                      /* what slopes are told about */
    bool slopes;                        /* are asked for, beside the steps */
    int64_t memory_bytes[MOST_HOLDERS]; /* by device: what most runs needed beside what was predicted */
};

/* ---- what is fitted to ---- */

static int holder_of(struct calibrating *c, int first, int *count, const char *name)
{
    for (int i = first; i < first + *count; i++)
        if (!strcmp(c->holders[i], name))
            return i;
    if (first + *count == MOST_HOLDERS)
        return -1;
    c->holders[first + (*count)++] = name;
    return first + *count - 1;
}

/* What devices cannot have done would make them as fast as that for all plans. */
static bool check_row(const struct validated_row *row, struct error *err)
{
    char name[512];
    snprintf(name, sizeof name, "%.300s: row %.200s", row->file, row->run.id);
    return measured_step_possible(name, row->measured_s, row->least_s, row->run.n_gpus, row->asked.device, err);
}

static bool is_sample(const struct validated_row *row)
{
    return validated_step(row) && strcmp(row->asked.framework, "cleave") != 0;
}

static bool take_rows(struct calibrating *c, const char *const *paths, int path_count, struct error *err)
{
    struct measured_rows *m = &c->rows;
    for (int i = 0; i < path_count; i++)
        if (!measured_rows_read(m, paths[i], err))
            return false;
    if (!measured_rows_ask(m, err) || !measured_rows_predict(m, "calibrate", err))
        return false;
    c->questions = arena_alloc(&c->arena, (size_t)m->count + 1, sizeof *c->questions);
    c->samples = arena_alloc(&c->arena, (size_t)m->count + 1, sizeof *c->samples);
    c->places = arena_alloc(&c->arena, (size_t)m->count + 1, sizeof *c->places);
    int *question_of = arena_alloc(&c->arena, (size_t)m->count + 1, sizeof *question_of), frameworks = 0;
    if (arena_failed(&c->arena))
        return fail_memory(err);
    for (int i = 0; i < m->count; i++)
        if (is_sample(&m->rows[i]) && !check_row(&m->rows[i], err))
            return false;
    for (int i = 0; i < m->count; i++)
        if (is_sample(&m->rows[i]) && holder_of(c, 0, &c->device_count, m->rows[i].asked.device) < 0)
            return fail(err, "calibrate: expected at most %d devices, found more", MOST_HOLDERS);
    for (int i = 0; i < m->count; i++) {
        const struct validated_row *row = &m->rows[i], *first = row->alike ? row->alike : row;
        if (!is_sample(row))
            continue;
        int *question = &question_of[first - m->rows];
        if (*question == 0) {
            c->questions[c->question_count++].row = first;
            *question = c->question_count;
        }
        int device = holder_of(c, 0, &c->device_count, row->asked.device),
            framework = holder_of(c, c->device_count, &frameworks, row->asked.framework);
        if (framework < 0)
            return fail(err, "calibrate: expected at most %d devices and frameworks, found more", MOST_HOLDERS);
        c->places[c->count] = (struct measured_step){ row, *question - 1, row->measured_s };
        c->samples[c->count++] = (struct fit_sample){ .holder = { device, framework } };
    }
    c->holder_count = c->device_count + frameworks;
    return c->count > 0 || fail(err,
                                "%s: expected rows with a step that a framework took and estimate can predict, "
                                "found none of %d; cleave validate says why each is skipped",
                                paths[0], m->count);
}

/* As often as the job was logged. */
static bool take_logs(struct calibrating *c, struct error *err)
{
    struct logged_run runs[MAX_LIST];
    c->logged = (struct logged_job){ c->cli, &c->a->given, c->job, c->a->from, c->a->model };
    c->questions = arena_alloc(&c->arena, 1, sizeof *c->questions);
    c->samples = arena_alloc(&c->arena, MAX_LIST, sizeof *c->samples);
    c->places = arena_alloc(&c->arena, MAX_LIST, sizeof *c->places);
    c->question_count = c->device_count = 1;
    c->holder_count = 2;
    if (arena_failed(&c->arena))
        return fail_memory(err);
    if (!logged_job_read(runs, &c->holders[0], &c->holders[1], &c->logged, &c->a->logs, &c->arena, err))
        return false;
    for (; c->count < c->a->logs.count; c->count++) {
        c->memory_bytes[0] = max_i64(c->memory_bytes[0], runs[c->count].beside_bytes);
        c->places[c->count] = (struct measured_step){ NULL, 0, runs[c->count].step_s };
        c->samples[c->count] = (struct fit_sample){ .holder = { 0, 1 } };
    }
    return true;
}

/* ---- fitting ---- */

static bool price_job(struct row_price *out, struct calibrating *c, const struct calibration *trial, struct error *err)
{
    struct inputs in = { .cli = c->cli, .silent = true };
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    int64_t batch;
    in.calibrations[in.calibration_count++] = *trial;
    bool good = logged_job_price(&plan, &estimate, &batch, &in, &c->logged, err);
    if (good)
        *out = (struct row_price){ estimate->prediction.step_ns, estimate_peak_bytes(&estimate->prediction), true,
                                   run_shape_of(plan, graph_parameter_count(in.graph), c->holders[0], c->holders[1]),
                                   measured_least_s(&estimate->prediction) };
    estimate_free(estimate);
    plan_free(plan);
    inputs_free(&in);
    return good;
}

/* Whether the row's step is the same whatever the mechanism's speed. */
static bool is_idle(const struct validated_row *row, int mechanism)
{
    return row && ((mechanism == MECHANISM_FP8_PRODUCTS && strcmp(row->asked.dtype, "fp8") != 0) ||
                   (mechanism == MECHANISM_NETWORK && row->run.n_gpus <= row->run.gpus_per_node));
}

/* One question under all trials: they differ little, so a thread that takes them all is not longer than others. */
static void ask(void *context, int index)
{
    struct calibrating *c = context;
    struct question *q = &c->questions[index];
    for (int k = MECHANISM_COUNT; k >= (c->slopes ? 0 : MECHANISM_COUNT); k--) {
        struct row_price price;
        if (k < MECHANISM_COUNT && is_idle(q->row, k)) {
            q->step_s[k] = q->step_s[MECHANISM_COUNT];
            continue;
        }
        if (q->row ? !measured_row_price(&price, &c->rows, q->row, &c->trials[k], &q->why)
                   : !price_job(&price, c, &c->trials[k], &q->why)) {
            q->failed = true;
            return;
        }
        q->step_s[k] = (double)price.step_ns / 1e9;
        q->peak_bytes = price.peak_bytes;
        q->shape = price.shape;
    }
}

/* Whether all samples of the device are of one framework, and which. */
static int only_framework(const struct calibrating *c, int device)
{
    int only = -1;
    for (int i = 0; i < c->count; i++)
        if (c->samples[i].holder[0] == device) {
            if (only >= 0 && only != c->samples[i].holder[1])
                return -1;
            only = c->samples[i].holder[1];
        }
    return only;
}

/* The speeds as a file has them. A device under one framework alone is not told from it: nothing is said of others. */
static bool corrections_of(struct calibration *out, const struct calibrating *c, const struct fit *speeds,
                           struct arena *arena, struct error *err)
{
    struct correction *list = arena_alloc(arena, MOST_HOLDERS + 1, sizeof *list);
    if (!list)
        return fail_memory(err);
    *out = (struct calibration){ .source = "", .corrections = list, .count = 0 };
    bool alone = c->holder_count == 2;
    for (int h = 0; h < c->holder_count - alone; h++) {
        bool device = h < c->device_count;
        int framework = device ? only_framework(c, h) : h;
        struct correction *own = &list[out->count++];
        *own = (struct correction){ .device = device ? c->holders[h] : "",
                                    .framework = framework < 0 ? "" : c->holders[framework],
                                    .memory_bytes = device ? c->memory_bytes[h] : 0 };
        for (int i = 0; i < c->count; i++)
            own->rows += c->samples[i].holder[!device] == h;
        for (int k = 0; k < MECHANISM_COUNT; k++) {
            double sum = speeds->log_speed[h * MECHANISM_COUNT + k];
            if (alone)
                sum += speeds->log_speed[(h + 1) * MECHANISM_COUNT + k];
            own->speed[k] = fmin(MOST_SPEED, fmax(LEAST_SPEED, exp(sum)));
        }
    }
    return true;
}

/* Steps with the speeds as they are, and what each mechanism's would make of them. */
static bool linearise(struct calibrating *c, const struct fit *at, bool slopes, struct error *err)
{
    enum { WAVE = 4 }; /* questions of a thread between two words of progress */
    int jobs = c->rows.jobs;
    struct progress progress;
    c->at = *at;
    c->slopes = slopes;
    for (int k = 0; k <= MECHANISM_COUNT; k++) {
        if (!corrections_of(&c->trials[k], c, &c->at, &c->arena, err))
            return false;
        if (k == MECHANISM_COUNT)
            continue;
        struct correction *more = &c->trials[k].corrections[c->trials[k].count++];
        *more = (struct correction){ .device = "", .framework = "" };
        for (int i = 0; i < MECHANISM_COUNT; i++)
            more->speed[i] = i == k ? TRIAL_SPEED : 1;
    }
    progress_begin(&progress, c->cli, "calibrate");
    for (int first = 0; first < c->question_count; first += WAVE * jobs) {
        struct calibrating part = *c;
        part.questions += first;
        progress_say(&progress, "%d of %d runs", first, c->question_count);
        parallel_for(jobs, (int)min_i64(WAVE * jobs, c->question_count - first), ask, &part);
    }
    progress_clear(&progress);
    for (int i = 0; i < c->question_count; i++)
        if (c->questions[i].failed)
            return fail_with(err, &c->questions[i].why);
    for (int i = 0; i < c->count; i++) {
        const struct question *q = &c->questions[c->places[i].question];
        double now_s = q->step_s[MECHANISM_COUNT];
        c->samples[i].log_ratio = log(c->places[i].measured_s / now_s);
        for (int k = 0; k < MECHANISM_COUNT && slopes; k++)
            c->samples[i].slope[k] = log(q->step_s[k] / now_s) / log(TRIAL_SPEED);
    }
    return true;
}

static struct fit_errors errors_of(double *values, int count)
{
    struct fit_errors e = { 0 };
    for (int i = 0; i < count; i++) {
        values[i] = fabs(values[i]);
        e.mean += values[i] / count;
    }
    e.median = median_of(values, count);
    return e;
}

static bool errors_now(struct fit_errors *out, struct calibrating *c, struct error *err)
{
    double *values = arena_alloc(&c->arena, (size_t)c->count, sizeof *values);
    if (!values)
        return fail_memory(err);
    for (int i = 0; i < c->count; i++)
        values[i] = expm1(-c->samples[i].log_ratio);
    *out = errors_of(values, c->count);
    return true;
}

/* ---- what was found ---- */
/* Whether an earlier sample is of this one's group. */
static bool is_known(const struct calibrating *c, int sample)
{
    for (int i = 0; i < sample; i++)
        if (!strcmp(c->samples[i].group, c->samples[sample].group))
            return true;
    return false;
}

/* The speeds of one group left out, as they stand in a file: those of a device under one framework are one number. */
static double told_speed(const struct calibrating *c, const struct fit *speeds, size_t place)
{
    bool alone = c->holder_count == 2 && place < MECHANISM_COUNT;
    return exp(speeds->log_speed[place] + (alone ? speeds->log_speed[place + MECHANISM_COUNT] : 0));
}

/* Each group's errors with the speeds that all others say: rows are grouped by the column of that number. */
static bool hold_out(struct calibrated *found, int column, struct calibrating *c, const struct fit *all,
                     struct error *err)
{
    size_t room = (size_t)c->holder_count * MECHANISM_COUNT;
    double *values = arena_alloc(&c->arena, (size_t)c->count, sizeof *values);
    if (column == 0) {
        found->least = arena_alloc(&c->arena, room, sizeof *found->least);
        found->most = arena_alloc(&c->arena, room, sizeof *found->most);
    }
    if (arena_failed(&c->arena))
        return fail_memory(err);
    for (size_t k = 0; k < room && column == 0; k++)
        found->least[k] = found->most[k] = told_speed(c, all, k);
    for (int i = 0; i < c->count; i++)
        c->samples[i].group = measured_run_text(&c->places[i].row->run, c->a->held_out.item[column]);
    for (int i = 0; i < c->count; i++) {
        struct fit others;
        if (is_known(c, i))
            continue;
        if (!fit_solve(&others, &c->at, c->samples, c->count, c->samples[i].group, &c->arena, err))
            return false;
        for (int k = i; k < c->count; k++)
            if (!strcmp(c->samples[k].group, c->samples[i].group))
                values[k] = fit_error(&others, &c->at, &c->samples[k]);
        for (size_t k = 0; k < room && column == 0; k++) {
            found->least[k] = fmin(found->least[k], told_speed(c, &others, k));
            found->most[k] = fmax(found->most[k], told_speed(c, &others, k));
        }
        found->group_count[column]++;
    }
    found->held_out[column] = errors_of(values, c->count);
    return true;
}

/* Keeps what each job leaves, in the mean of its runs, if that tells the others: their errors with one left out are
 * less. Of more jobs than a file holds it keeps every second one, or every third, ... */
static bool find_like_runs(struct calibrated *found, struct calibrating *c, struct error *err)
{
    int stride = (int)ceil_div(c->question_count, LIKE_RUNS_MOST), count = 0;
    struct like_run *runs = arena_alloc(&c->arena, (size_t)c->question_count, sizeof *runs);
    double *values = arena_alloc(&c->arena, (size_t)c->question_count, sizeof *values);
    if (arena_failed(&c->arena))
        return fail_memory(err);
    for (int q = 0; q < c->question_count; q += stride, count++) {
        double sum = 0;
        int own = 0;
        for (int i = 0; i < c->count; i++)
            if (c->places[i].question == q) {
                sum += c->samples[i].log_ratio;
                own++;
            }
        runs[count] = (struct like_run){ .shape = c->questions[q].shape, .left = fmin(3, fmax(-3, sum / own)) };
    }
    if (!like_runs_solve(runs, count, values, err))
        return false;
    for (int i = 0; i < count; i++)
        values[i] = expm1(-values[i]);
    found->like = errors_of(values, count);
    if (found->like.mean < found->after.mean || count == 1) { /* one job, which nobody can tell, is told again */
        found->calibration.runs = runs;
        found->calibration.run_count = count;
    }
    return true;
}

/* Which run the corrections tell worst. */
static void find_worst(struct calibrated *found, const struct calibrating *c)
{
    double most = -1;
    for (int i = 0; i < c->count; i++) {
        const struct measured_step *place = &c->places[i];
        if (fabs(c->samples[i].log_ratio) <= most)
            continue;
        most = fabs(c->samples[i].log_ratio);
        found->worst.name = place->row ? place->row->run.id : c->a->logs.item[i];
        found->worst.measured_s = place->measured_s;
        found->worst.corrected_s = place->measured_s / exp(c->samples[i].log_ratio);
    }
}

static bool fit_all(struct calibrated *found, struct calibrating *c, struct error *err)
{
    size_t room = (size_t)c->holder_count * MECHANISM_COUNT;
    struct fit speeds = { c->holder_count, arena_alloc(&c->arena, room, sizeof *speeds.log_speed) };
    struct fit_errors least = { 0 };
    if (!speeds.log_speed)
        return fail_memory(err);
    struct fit best = speeds;
    double moved = 1;
    for (int round = 0; round < ROUNDS || (round < MOST_ROUNDS && moved > FAR); round++) {
        if (!linearise(c, &speeds, true, err) || !errors_now(&found->after, c, err))
            return false;
        if (round == 0)
            found->before = least = found->after;
        if (found->after.mean < least.mean) {
            least = found->after;
            best = speeds;
        }
        if (!fit_solve(&speeds, &c->at, c->samples, c->count, NULL, &c->arena, err))
            return false;
        moved = 0;
        for (size_t i = 0; i < room; i++)
            moved = fmax(moved, fabs(speeds.log_speed[i] - c->at.log_speed[i]));
        if (moved < SETTLED)
            break;
    }
    for (int i = 0; i < c->a->held_out.count; i++)
        if (!hold_out(found, i, c, &speeds, err))
            return false;
    if (!linearise(c, &speeds, false, err) || !errors_now(&found->after, c, err))
        return false;
    /* Steps are not linear in speeds: what is worse in truth than a point before is not taken. */
    if (found->after.mean > least.mean && (!linearise(c, &best, false, err) || !errors_now(&found->after, c, err)))
        return false;
    found->run_count = c->count;
    find_worst(found, c);
    found->calibration = c->trials[MECHANISM_COUNT];
    found->calibration.error_before = found->before.median;
    found->calibration.error_after = found->after.median;
    return find_like_runs(found, c, err);
}

/* Which runs, for people. */
static bool name_source(struct calibrating *c, struct calibration *out, const char *const *operands, int count,
                        struct error *err)
{
    struct text text = { 0 };
    for (int i = 0; c->job && i < c->a->logs.count; i++)
        text_printf(&text, "%s%s", i ? ", " : "", c->a->logs.item[i]);
    for (int i = 0; !c->job && i < count; i++)
        text_printf(&text, "%s%s", i ? ", " : "", operands[i]);
    text_printf(&text, ": %d run%s", c->count, c->count == 1 ? "" : "s");
    out->source = text.failed ? NULL : arena_strdup(&c->arena, text.data);
    text_free(&text);
    return out->source || fail_memory(err);
}

static bool write_calibration(const struct calibrating *c, const struct calibrated *found, struct error *err)
{
    size_t length = 0;
    char *text = calibration_write(&found->calibration, &length);
    return inputs_hand_out(c->cli, c->a->output, text, length, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct calibrate_arguments *a = given;
    int64_t cores = a->jobs > 0 ? a->jobs : host_core_count();
    struct calibrating c = { .cli = cli,
                             .a = a,
                             .job = a->logs.count > 0 ? operands[0] : NULL,
                             .rows = MEASURED_ROWS(cli, "source_key", (int)cores) };
    struct calibrated found = { .held_by = &a->held_out };
    heap_expect_much();
    bool good = inputs_can_write(a->output, err);
    if (good && (a->from || a->model) && !(a->from && c.job))
        good = fail(err, a->from ? "--from belongs to --log, which says how long the launch's steps took"
                                 : "--model belongs to --from; the model is the operand");
    if (good && a->from && !strcmp(c.job, "-"))
        good = fail(err, "calibrate --from: expected a file or arguments, which are read several times, found '-'");
    if (good && c.job && (operand_count > 1 || a->held_out.count > 0))
        good =
            fail(err,
                 operand_count > 1 ? "calibrate --log: expected one model or launch, found %d operands"
                                   : "--hold-out: expected a table of runs, whose columns tell them apart, found --log",
                 operand_count);
    for (int i = 0; good && i < a->held_out.count; i++)
        if (!measured_run_has_text(a->held_out.item[i]))
            good =
                fail(err, "--hold-out: expected a column of texts, such as source_key, gpu, family or id, found '%s'",
                     a->held_out.item[i]);
    good = good && (c.job ? take_logs(&c, err) : take_rows(&c, operands, operand_count, err)) &&
           fit_all(&found, &c, err) && name_source(&c, &found.calibration, operands, operand_count, err) &&
           (!a->output || write_calibration(&c, &found, err)) && (!a->json || calibrated_write_json(cli, &found, err));
    if (good && !a->json && !inputs_is_stdout(a->output))
        calibrated_print(cli->out, &found);
    if (good)
        calibrated_note(cli->talk, &found);
    if (good && a->output && !inputs_is_stdout(a->output))
        fprintf(cli->talk, "wrote %s; next: cleave estimate or plan with --profile %s\n", a->output, a->output);
    measured_rows_free(&c.rows);
    arena_free(&c.arena);
    return ERROR_NONE;
}

const struct verb verb_calibrate = {
    .name = "calibrate",
    .summary = "corrects predictions by runs that were measured",
    .usage =
        "MEASUREMENTS.csv... | MODEL --cluster CLUSTER --framework NAME --batch N [choices as estimate] --log FILE... "
        "[-o FILE] [--hold-out COLUMN]... [--json] | --from TARGET LAUNCH --cluster CLUSTER --log FILE... [-o FILE]",
    .examples =
        "  cleave calibrate runs.csv -o calibration.json\n"
        "  cleave calibrate --from megatron-lm train.sh --cluster 8x8:h100-sxm --log log.txt -o calibration.json\n"
        "  cleave calibrate llama-3-8b --cluster 1x8:h100-sxm --framework torchtitan --batch 16 --micro-batch "
        "2 --zero 3 "
        "--log train.log -o calibration.json\n"
        "  cleave plan llama-3-8b --cluster 8x8:h100-sxm --framework torchtitan --batch 128 --profile "
        "calibration.json\n",
    .min_operands = 1,
    .max_operands = MEASURED_MOST_FILES,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct calibrate_arguments),
    .defaults = &defaults,
    .run = run,
};
