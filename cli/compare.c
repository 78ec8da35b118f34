/* Runs and ranks plans: cleave's choice and its rivals, predicted beside measured, as a table, HTML and Markdown. */
#include "base/num.h"
#include "cli/print.h"
#include "cli/software.h"
#include "cli/space_options.h"
#include "benchmarks/compare.h"
#include "executor/backends.h"
#include "formats/certificate_write.h"
#include "formats/plan_file.h"
#include "host/machine.h"
#include "profiler/resident.h"
#include <stdlib.h>
#include <string.h>

struct compare_arguments {
    struct space_options space;
    const char *automatic, *report, *markdown, *data, *backend, *transport;
    int64_t steps, rounds, seed;
    double steady_percent;
    bool run, json, shape, historical;
};
static const struct compare_arguments defaults = {
    .space.gap = DEFAULT_GAP, .steps = 6, .rounds = 2, .seed = 1, .backend = "cpu", .transport = "threads"
};
#define AT(field) offsetof(struct compare_arguments, field)
static const struct option options[] = {
    TEXT_OPTION("auto", AT(automatic), "MODEL", "compares cleave's choice with the best plans of one kind each"),
    FLAG_OPTION(
        "historical", AT(historical),
        "with --auto, adds what came before: a parameter server, and layers on several devices without micro-batches"),
    FLAG_OPTION("run", AT(run), "runs the plans on this machine"),
    TEXT_OPTION("report", AT(report), "FILE.html", "one offline HTML file"),
    TEXT_OPTION("markdown", AT(markdown), "FILE.md", "the same as text"),
    TEXT_OPTION("data", AT(data), "FILE", "training text or images, as cleave run has it; without it: synthetic"),
    INT_OPTION("steps", AT(steps), "N", 2, REPORT_MAX_STEPS, "steps of one run; the first is not timed (6)"),
    INT_OPTION("rounds", AT(rounds), "N", 1, 60, "runs of every plan, interleaved (2)"),
    DOUBLE_OPTION("steady", AT(steady_percent), "PERCENT", 0, 1000,
                  "only runs count beside which the machine's speed was within this, the others are repeated (0: all)"),
    INT_OPTION("seed", AT(seed), "N", 0, NO_LIMIT, "of weights and data (1)"),
    TEXT_OPTION("backend", AT(backend), "NAME", "cpu (default), cuda or timed"),
    TEXT_OPTION("transport", AT(transport), "NAME", "threads"),
    FLAG_OPTION("shape", AT(shape), "delays transfers to the cluster's latency and bandwidth"),
    FLAG_OPTION("json", AT(json), "one JSON object"),
    JOB_OPTIONS(struct compare_arguments, space),
    SEARCH_OPTIONS(struct compare_arguments, space),
};

struct job {
    const struct cli *cli;
    const struct compare_arguments *a;
    struct inputs in;
    struct space space;
    struct comparison comparison;
};

/* ---- plans of one kind each: the search, restricted ---- */
struct rival {
    const char *name, *restriction;
};

/* file: the plan's, which is handed over; NULL: memory ran out. */
static bool keep_file(struct job *job, char *file, struct error *err)
{
    if (!file)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
    job->comparison.entries[job->comparison.count - 1].file = file;
    return true;
}

/* As `cleave plan` writes it. space: that was searched. */
static char *found_file(struct job *job, const struct search_result *result, const struct space *space)
{
    struct json_writer w = { 0 };
    const struct search_plan *found = &result->plans[0];
    size_t length;
    job->in.context.cleave = CLEAVE_VERSION;
    json_begin_object(&w);
    plan_json_members(&w, found->plan, &found->estimate->prediction, &job->in.context);
    certificate_write(&w, result, space);
    json_end_object(&w);
    return json_finish(&w, &length);
}

static bool add_found(struct job *job, const char *name, bool chosen, const struct space *space, struct error *err)
{
    struct search_options o = space_search_options(&job->a->space, space);
    o.no_advice = !chosen;
    struct search_result *result = NULL;
    struct error cause = { 0 };
    char line[PRINT_LINE_BYTES] = "";
    bool found = search_run(&result, job->in.model, &job->in.facts, &o, &cause) && result->feasible;
    if (!found && chosen) {
        if (result)
            search_infeasible(result, space, err);
        else
            fail_kind(err, cause.kind, "%s", cause.message);
    }
    bool ok = found || !chosen;
    if (found) {
        struct plan *plan = plan_copy(result->plans[0].plan);
        ok = (plan || fail_kind(err, ERROR_ENVIRONMENT, "out of memory")) &&
             plan_graph(&job->in.graph, job->in.model, plan, err);
        if (ok)
            print_plan_line(plan, job->in.graph, line);
        graph_free(job->in.graph);
        job->in.graph = NULL;
        if (!ok)
            plan_free(plan);
        ok = ok && comparison_add(&job->comparison, name, line, chosen, job->in.model, plan, &job->in.facts, err) &&
             keep_file(job, found_file(job, result, space), err);
    } else if (!chosen)
        fprintf(job->cli->talk, "left out: %s (%s)\n", name, cause.kind ? cause.message : "nothing of this kind fits");
    search_result_free(result);
    return ok;
}

static bool same_plan(const struct comparison *c, int index)
{
    for (int i = 0; i < index; i++)
        if (plan_hash(c->entries[i].plan) == plan_hash(c->entries[index].plan))
            return true;
    return false;
}

static bool add_rival(struct job *job, const struct rival *rival, struct error *err)
{
    struct space space = job->space;
    if (!space_restrict(&space, "rival", rival->restriction, err) || !add_found(job, rival->name, false, &space, err))
        return false;
    struct comparison *c = &job->comparison;
    if (c->count > 1 && same_plan(c, c->count - 1)) /* the choice itself, under another name */
        snprintf(c->entries[c->count - 1].name, sizeof c->entries[0].name, "%s (same plan)", rival->name);
    return true;
}

/* A parameter server on the first rank; and layers dealt out over devices of which one at a time computes, as a model
 * too large for one device is often run (the whole batch is one micro-batch). */
static bool add_historical(struct job *job, struct error *err)
{
    char layers[128];
    snprintf(layers, sizeof layers, "pp=%d,tp=1,dp=1,recompute=none,schedule=gpipe,micro-batch=%lld",
             job->in.cluster->device_count, (long long)job->space.batch);
    const struct rival server = { "parameter server", "pp=1,tp=1,dp-by=ps,recompute=none" };
    const struct rival naive = { "layers on devices", layers };
    return add_rival(job, &server, err) && add_rival(job, &naive, err);
}

static bool add_rivals(struct job *job, struct error *err)
{
    char tensor[64], pipeline[64], gpipe[80];
    int devices = job->in.cluster->device_count;
    snprintf(tensor, sizeof tensor, "pp=1,tp=%d,dp=1,recompute=none", devices);
    snprintf(pipeline, sizeof pipeline, "pp=%d,tp=1,dp=1,recompute=none", devices);
    snprintf(gpipe, sizeof gpipe, "%s,schedule=gpipe", pipeline);
    const struct rival rivals[] = { { "data parallel", "pp=1,tp=1,zero=0,recompute=none" },
                                    { "ZeRO-3", "pp=1,tp=1,zero=3" },
                                    { "tensor parallel", tensor },
                                    { "pipeline", pipeline },
                                    { "pipeline, GPipe", gpipe } };
    for (size_t i = 0; i < sizeof rivals / sizeof *rivals; i++)
        if (!add_rival(job, &rivals[i], err))
            return false;
    return !job->a->historical || add_historical(job, err);
}

static bool add_files(struct job *job, const char *const *paths, int count, struct error *err)
{
    for (int i = 0; i < count; i++) {
        struct inputs in = { .cli = job->cli };
        char line[PRINT_LINE_BYTES];
        bool ok = inputs_plan(&in, paths[i], NULL, job->a->space.cluster, &job->a->space.profiles, err);
        struct plan *plan = ok ? plan_copy(in.plan_file->plan) : NULL;
        ok = ok && (plan || fail_kind(err, ERROR_ENVIRONMENT, "out of memory"));
        if (ok) {
            print_plan_line(plan, in.graph, line);
            size_t length;
            ok = comparison_add(&job->comparison, paths[i], line, i == 0, in.model, plan, &in.facts, err) &&
                 keep_file(job, plan_file_write(in.plan_file, &length), err);
        }
        if (ok && i == 0) { /* the first one's model and cluster head the report */
            job->in = in;
            in = (struct inputs){ 0 };
        }
        inputs_free(&in);
        if (!ok)
            return false;
    }
    return true;
}

/* ---- running ---- */
static void on_progress(void *context, const char *what, int done, int count)
{
    const struct cli *cli = ((const struct job *)context)->cli;
    if (cli->talk_is_tty)
        fprintf(cli->talk, "\r\033[Krunning %s (%d of %d)%s", what, done + 1, count, done + 1 == count ? "\n" : "");
    else
        fprintf(cli->talk, "running %s (%d of %d)\n", what, done + 1, count);
}

/* What the predictions' profile says of the processor's speed; 0: nothing, or they are of a GPU. */
static int64_t profile_reference_ns(const struct job *job)
{
    bool speaks = job->in.profile && !strcmp(job->a->backend, device_cpu.name);
    return speaks ? job->in.profile->reference_ns : 0;
}

/* As many as the profile's, whose time is compared with, else as the plans'. */
static int reference_ranks(const struct job *job)
{
    int ranks = 0;
    if (profile_reference_ns(job) > 0)
        return job->in.profile->reference_ranks;
    for (int i = 0; i < job->comparison.count; i++)
        if (job->comparison.entries[i].plan)
            ranks = (int)max_i64(ranks, job->comparison.entries[i].plan->rank_count);
    return ranks;
}

/* For longer where runs are judged by it. */
static bool time_reference(void *context, int64_t *out_ns, struct error *err)
{
    const struct job *job = context;
    struct reference product;
    if (!reference_measure(&product, reference_ranks(job), job->a->steady_percent > 0 ? REFERENCE_S : REFERENCE_SHORT_S,
                           err))
        return false;
    *out_ns = product.ns;
    return true;
}

static bool check_steady(const struct compare_arguments *a, struct error *err)
{
    if (a->steady_percent <= 0)
        return true;
    if (!a->run)
        return fail(err, "--steady %g: no plan is run: give --run, too", a->steady_percent);
    return !strcmp(a->backend, device_cpu.name) ||
           fail(err,
                "--steady %g: it is the processor's speed that is timed, and --backend %s does not depend on it: "
                "leave --steady out",
                a->steady_percent, a->backend);
}

/* What all plans train on. */
static bool open_data(const struct job *job, struct data *data, struct error *err)
{
    const struct compare_arguments *a = job->a;
    const struct plan *plan = job->comparison.entries[0].plan;
    struct graph *graph = NULL;
    if (!plan_graph(&graph, job->in.model, plan, err))
        return false;
    struct sample_shape shape = sample_shape_of(graph);
    graph_free(graph);
    return a->data ? data_from_file(data, a->data, shape, (uint64_t)a->seed, err)
                   : data_synthetic(data, shape, (uint64_t)a->seed, err);
}

static bool run_all(struct job *job, struct error *err)
{
    const struct compare_arguments *a = job->a;
    const struct device *device = device_find(a->backend, err);
    struct data data = { 0 };
    if (!device || (device->computes && !open_data(job, &data, err)))
        return false;
    struct run_options run = run_options_default();
    run.step_count = a->steps;
    run.seed = (uint64_t)a->seed;
    run.device = device;
    run.data = device->computes ? &data : NULL;
    run.facts = &job->in.facts;
    struct compare_options o = { .run = &run,
                                 .rounds = (int)a->rounds,
                                 .steady = a->steady_percent / 100,
                                 .known_reference_ns = profile_reference_ns(job),
                                 .transport = a->transport,
                                 .module_dir = job->cli->module_dir,
                                 .shape = a->shape ? job->in.cluster : NULL,
                                 .reference = device->computes ? time_reference : NULL,
                                 .context = job,
                                 .on_progress = on_progress };
    bool ok = comparison_run(&job->comparison, &o, err);
    data_free(&data);
    return ok;
}

/* ---- what is shown ---- */
static void print_table(const struct cli *cli, const struct report *report)
{
    int order[REPORT_MAX_PLANS];
    char predicted[TEXT_NUMBER_BYTES], measured[TEXT_NUMBER_BYTES];
    report_order(report, order);
    fprintf(cli->out, "%-28s %12s %12s %8s  %s\n", "plan", "predicted", "measured", "error", "what");
    for (int i = 0; i < report->plan_count; i++) {
        const struct report_plan *p = &report->plans[order[i]];
        if (p->failure) {
            fprintf(cli->out, "%-28s %s\n", p->name, p->failure);
            continue;
        }
        fprintf(cli->out, "%c %-26s %12s", p->chosen ? '*' : ' ', p->name,
                text_duration_ns(predicted, p->predicted_step_ns));
        if (p->measured_step_ns)
            fprintf(cli->out, " %12s %+7.1f%%", text_duration_ns(measured, p->measured_step_ns), 100 * report_error(p));
        else
            fprintf(cli->out, " %12s %8s", "-", "-");
        fprintf(cli->out, "  %s\n", p->description);
    }
}

static bool write_reports(const struct job *job, const struct report *report, struct error *err)
{
    struct text html = { 0 }, markdown = { 0 }, json = { 0 };
    if (job->a->report) {
        report_html(report, &html);
        if (!inputs_hand_out_text(job->cli, job->a->report, &html, err))
            return false;
    }
    if (job->a->markdown) {
        report_markdown(report, &markdown);
        if (!inputs_hand_out_text(job->cli, job->a->markdown, &markdown, err))
            return false;
    }
    if (!job->a->json) {
        print_table(job->cli, report);
        return true;
    }
    report_json(report, &json);
    return inputs_hand_out_text(job->cli, NULL, &json, err);
}

static void command_line(const struct cli *cli, struct text *out)
{
    for (int i = 0; i < cli->argument_count; i++)
        text_printf(out, "%s%s", i ? " " : "", i ? cli->arguments[i] : "cleave");
}

/* Of the device that has least. */
static int64_t least_memory(const struct cluster *cluster)
{
    int64_t bytes = INT64_MAX;
    for (int type = 0; type < cluster->type_count; type++)
        bytes = cluster->types[type].memory_bytes < bytes ? cluster->types[type].memory_bytes : bytes;
    return bytes;
}

/* Whether the machine was too unsteady to compare times on it; then says so. */
static bool warn_of_drift(const struct report_speed *speed, bool steady, char *out, size_t size)
{
    static const double STEADY = 0.05;
    if (steady || speed->drift <= STEADY)
        return false;
    snprintf(
        out, size,
        "the machine's speed changed by %.0f %% meanwhile, so the times say little: run it again when nothing else "
        "runs, or with --steady 5",
        100 * speed->drift);
    return true;
}

enum { MAX_NOTES = 2, NOTE_BYTES = 320 };
struct notes {
    char text[MAX_NOTES][NOTE_BYTES];
    const char *list[MAX_NOTES + 1]; /* NULL-terminated */
};

/* What readers must know of the machine; said on the terminal, too. */
static void note_speed(struct notes *notes, const struct job *job, const struct report_speed *speed)
{
    int count = 0;
    *notes = (struct notes){ 0 };
    if (warn_of_drift(speed, job->a->steady_percent > 0, notes->text[count], NOTE_BYTES))
        notes->list[count] = notes->text[count], count++;
    if (print_speed_change(notes->text[count], NOTE_BYTES, speed->reference_ns, profile_reference_ns(job)))
        notes->list[count] = notes->text[count], count++;
    for (int i = 0; i < count; i++)
        fprintf(job->cli->talk, "note: %s\n", notes->list[i]);
}

/* How the plans ran, and with --steady how many runs were left out. */
static void describe_runs(const struct job *job, struct text *out)
{
    const struct compare_arguments *a = job->a;
    int all = job->comparison.run_count, left_out = 0;
    for (int i = 0; i < job->comparison.count; i++)
        left_out += job->comparison.entries[i].left_out_count;
    if (!a->run)
        text_add(out, "not run");
    else
        text_printf(out, "%s%lld rounds of %lld steps per plan, interleaved; the first step of a run is not counted",
                    a->steady_percent > 0 ? "at least " : "", (long long)a->rounds, (long long)a->steps);
    if (a->steady_percent <= 0)
        return;
    text_printf(out, "; %d of %d runs left out: beside them the machine's speed was not within %g %% of the others'",
                left_out, all, a->steady_percent);
    fprintf(job->cli->talk, "%d of %d runs left out: the machine's speed was not within %g %% of the others'\n",
            left_out, all, a->steady_percent);
}

static void describe_speed(const struct job *job, const struct report_speed *speed, struct text *out)
{
    char now[TEXT_NUMBER_BYTES], then[TEXT_NUMBER_BYTES];
    int64_t profile_ns = profile_reference_ns(job);
    if (!speed->reference_count) {
        text_add(out, "not measured");
        return;
    }
    text_printf(
        out, "%.1f %% over %d products of two 1024 x 1024 matrices, before and after each run that counts; median %s",
        100 * speed->drift, speed->reference_count, text_duration_ns(now, speed->reference_ns));
    if (profile_ns)
        text_printf(out, ", %s when the profile was made", text_duration_ns(then, profile_ns));
}

/* What of it depends on the machine is said only of what was used. */
static void describe_software(const struct job *job, struct text *matmuls, struct text *transport)
{
    const struct compare_arguments *a = job->a;
    if (!a->run)
        text_add(matmuls, "none: not run");
    else if (!strcmp(a->backend, device_cpu.name))
        software_matmuls(matmuls);
    else if (!strcmp(a->backend, device_cuda.name))
        device_cuda_libraries(job->cli->module_dir, matmuls);
    else
        text_printf(matmuls, "none: --backend %s computes nothing", a->backend);
    text_add(transport, a->run ? a->transport : "none: not run");
    if (a->run && !strcmp(a->transport, "mpi")) {
        text_add(transport, ", ");
        software_mpi(transport, job->cli->module_dir);
    }
}

/* Of each profile, one per device that was measured. */
static void describe_profiles(const struct job *job, struct text *where, struct text *software, struct text *when)
{
    for (const struct profile *p = job->in.profile; p; p = p->next) {
        const char *between = p == job->in.profile ? "" : "; ";
        text_printf(where, "%s%s", between, p->machine);
        text_printf(software, "%s%s", between, p->software[0] ? p->software : "not said");
        text_printf(when, "%s%s", between, p->created);
    }
    if (!job->in.profile) {
        text_add(where, "none: analytic numbers");
        text_add(software, "-");
        text_add(when, "-");
    }
}

enum source {
    FROM_COMMAND,
    FROM_MACHINE,
    FROM_CLEAVE,
    FROM_COMPILER,
    FROM_MATMULS,
    FROM_TRANSPORT,
    FROM_TIME,
    FROM_RUNS,
    FROM_DRIFT,
    FROM_PROFILE,
    FROM_PROFILE_SOFTWARE,
    FROM_PROFILE_TIME,
    FROM_COUNT
};
static const char *const source_names[FROM_COUNT] = {
    [FROM_COMMAND] = "command",
    [FROM_MACHINE] = "machine",
    [FROM_CLEAVE] = "cleave",
    [FROM_COMPILER] = "compiler",
    [FROM_MATMULS] = "matmuls",
    [FROM_TRANSPORT] = "transport",
    [FROM_TIME] = "time",
    [FROM_RUNS] = "runs",
    [FROM_DRIFT] = "drift of the machine",
    [FROM_PROFILE] = "profile",
    [FROM_PROFILE_SOFTWARE] = "software of the profile",
    [FROM_PROFILE_TIME] = "profile made",
};
struct provenance {
    struct text text[FROM_COUNT];
    const char *pairs[FROM_COUNT + 1][2]; /* names and texts; ends with a NULL name */
};

static void describe_provenance(struct provenance *p, const struct job *job, const struct report_speed *speed,
                                const char *when)
{
    struct host_machine machine;
    char where[HOST_TEXT_BYTES * 2];
    *p = (struct provenance){ 0 };
    host_machine_read(&machine);
    host_machine_text(&machine, where, sizeof where);
    command_line(job->cli, &p->text[FROM_COMMAND]);
    text_add(&p->text[FROM_MACHINE], where);
    text_add(&p->text[FROM_CLEAVE], CLEAVE_VERSION);
    text_add(&p->text[FROM_COMPILER], software_compiler());
    describe_software(job, &p->text[FROM_MATMULS], &p->text[FROM_TRANSPORT]);
    text_add(&p->text[FROM_TIME], when);
    describe_runs(job, &p->text[FROM_RUNS]);
    describe_speed(job, speed, &p->text[FROM_DRIFT]);
    describe_profiles(job, &p->text[FROM_PROFILE], &p->text[FROM_PROFILE_SOFTWARE], &p->text[FROM_PROFILE_TIME]);
    for (int i = 0; i < FROM_COUNT; i++) {
        p->pairs[i][0] = source_names[i];
        p->pairs[i][1] = p->text[i].data;
    }
}

static void provenance_free(struct provenance *p)
{
    for (int i = 0; i < FROM_COUNT; i++)
        text_free(&p->text[i]);
}

static bool show(struct job *job, struct error *err)
{
    struct report_plan plans[REPORT_MAX_PLANS];
    struct provenance provenance;
    struct notes notes;
    char when[HOST_TIME_BYTES], title[160];
    const struct comparison *c = &job->comparison;
    const struct report_speed speed = comparison_speed(c);
    host_time_text(when);
    describe_provenance(&provenance, job, &speed, when);
    note_speed(&notes, job, &speed);
    snprintf(title, sizeof title, "%s: %d plans compared", job->in.model->name, c->count);
    comparison_report(c, plans);
    struct report report = { .title = title,
                             .model = job->in.model->name,
                             .cluster = job->in.cluster->name,
                             .created = when,
                             .memory_limit_bytes = least_memory(job->in.cluster),
                             .notes = notes.list,
                             .provenance = (const char *const(*)[2])provenance.pairs,
                             .plan_count = c->count,
                             .plans = plans,
                             .speed = speed,
                             .profile_reference_ns = profile_reference_ns(job) };
    bool ok = write_reports(job, &report, err);
    provenance_free(&provenance);
    return ok;
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    struct job *job = calloc(1, sizeof *job);
    if (!job) {
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory");
        return ERROR_ENVIRONMENT;
    }
    *job = (struct job){ .cli = cli, .a = given, .in = { .cli = cli } };
    bool ok =
        check_steady(job->a, err) && inputs_can_write(job->a->report, err) && inputs_can_write(job->a->markdown, err);
    if (!ok)
        goto cleanup;
    if (job->a->automatic && operand_count > 0)
        ok = fail(err, "cleave compare: give plan files or --auto MODEL, not both; found --auto %s and %s",
                  job->a->automatic, operands[0]);
    else if (job->a->automatic)
        ok = space_inputs(&job->in, &job->space, job->a->automatic, &job->a->space, err) &&
             add_found(job, "cleave's choice", true, &job->space, err) && add_rivals(job, err);
    else
        ok = (operand_count > 0 ||
              fail(err, "cleave compare: give plan files, or --auto MODEL --cluster CLUSTER --batch N")) &&
             add_files(job, operands, operand_count, err);
    ok = ok && (!job->a->run || run_all(job, err)) && show(job, err);
cleanup:
    comparison_free(&job->comparison);
    inputs_free(&job->in);
    free(job);
    return ERROR_NONE;
}

const struct verb verb_compare = {
    .name = "compare",
    .summary = "runs and ranks plans, and writes a report",
    .usage = "PLAN... | --auto MODEL --cluster CLUSTER --batch N  [--run] [--report FILE.html]",
    .examples = "  cleave compare --auto gpt2 --cluster 1x2:cpu --profile profile.json --batch 8 --seq 64 --run "
                "--report report.html\n"
                "  cleave compare a.json b.json --report report.html --markdown report.md\n",
    .max_operands = REPORT_MAX_PLANS,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct compare_arguments),
    .defaults = &defaults,
    .run = run,
};
