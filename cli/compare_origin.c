/* Where the numbers of a comparison come from: of the whole, and of each plan. */
#include "benchmarks/compare.h"
#include "cli/accuracy_note.h"
#include "cli/compare_job.h"
#include "cli/software.h"
#include "executor/backends.h"
#include "host/machine.h"
#include <stdio.h>
#include <string.h>

/* ---- of the whole ---- */
static void command_line(const struct cli *cli, struct text *out)
{
    for (int i = 0; i < cli->argument_count; i++)
        text_printf(out, "%s%s", i ? " " : "", i ? cli->arguments[i] : "cleave");
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
    int64_t profile_ns = compare_reference_ns(job);
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
    for (const struct profile *p = job->inputs[0]->profile; p; p = p->next) {
        const char *between = p == job->inputs[0]->profile ? "" : "; ";
        text_printf(where, "%s%s", between, p->machine);
        text_printf(software, "%s%s", between, p->software[0] ? p->software : "not said");
        text_printf(when, "%s%s", between, p->created);
    }
    if (!job->inputs[0]->profile) {
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
_Static_assert((int)FROM_COUNT == (int)COMPARE_SOURCES, "each has a text");

void provenance_describe(struct provenance *p, const struct job *job, const struct report_speed *speed,
                         const char *when)
{
    struct host_machine machine;
    char where[HOST_TEXT_BYTES * 2];
    *p = (struct provenance){ 0 };
    host_machine_read(&machine);
    host_machine_text(&machine, where, sizeof where);
    command_line(job->cli, &p->text[FROM_COMMAND]);
    text_add(&p->text[FROM_MACHINE], job->a->run ? where : "none: not run");
    text_add(&p->text[FROM_CLEAVE], CLEAVE_VERSION);
    text_add(&p->text[FROM_COMPILER], software_compiler());
    describe_software(job, &p->text[FROM_MATMULS], &p->text[FROM_TRANSPORT]);
    text_add(&p->text[FROM_TIME], job->a->run ? when : "none: not run");
    describe_runs(job, &p->text[FROM_RUNS]);
    describe_speed(job, speed, &p->text[FROM_DRIFT]);
    describe_profiles(job, &p->text[FROM_PROFILE], &p->text[FROM_PROFILE_SOFTWARE], &p->text[FROM_PROFILE_TIME]);
    for (int i = 0; i < FROM_COUNT; i++) {
        p->pairs[i][0] = source_names[i];
        p->pairs[i][1] = p->text[i].data;
    }
}

void provenance_free(struct provenance *p)
{
    for (int i = 0; i < FROM_COUNT; i++)
        text_free(&p->text[i]);
}

/* ---- of one plan ---- */
enum { MOST_PAIRS = 24 };
struct pairs {
    struct arena *arena;
    const char *(*list)[2];
    int count;
};

/* Takes the text over; nothing where it is empty. */
static void add_text(struct pairs *p, const char *name, struct text *text)
{
    if (text->length > 0 && !text->failed && p->count < MOST_PAIRS) {
        p->list[p->count][0] = arena_strdup(p->arena, name);
        p->list[p->count++][1] = arena_strdup(p->arena, text->data);
    }
    text_free(text);
}

static void add_origin(struct pairs *p, const char *name, const struct plan_origin *origin)
{
    struct text text = { 0 };
    if (!origin->source)
        return;
    text_add(&text, origin->name ? origin->name : origin->source);
    if (origin->name && strcmp(origin->source, origin->name) != 0 && strlen(origin->source) < 200)
        text_printf(&text, ", read from %s", origin->source);
    if (origin->hash)
        text_printf(&text, " (hash %016llx)", (unsigned long long)origin->hash);
    add_text(p, name, &text);
}

static void add_devices(struct pairs *p, const struct cluster *cluster)
{
    for (int t = 0; t < cluster->type_count; t++) {
        const struct device_type *d = &cluster->types[t].device;
        struct text text = { 0 }, name = { 0 };
        text_printf(&name, "device %s", d->name);
        text_printf(&text, "%s%s%s", d->description ? d->description : "", d->source ? "; numbers: " : "",
                    d->source ? d->source : "");
        if (d->from_memory)
            text_printf(&text, "; not seen in a source: %s", d->from_memory);
        add_text(p, name.data ? name.data : "device", &text);
        text_free(&name);
    }
}

static void add_framework(struct pairs *p, const struct framework *f)
{
    struct text text = { 0 };
    if (!f) {
        text_add(&text, "cleave itself, by cleave run");
    } else {
        text_printf(&text, "%s: %s%s%s", f->name, f->description ? f->description : "", f->source ? "; numbers: " : "",
                    f->source ? f->source : "");
        if (f->from_memory)
            text_printf(&text, "; not seen in a source: %s", f->from_memory);
    }
    add_text(p, "framework", &text);
}

static void add_prediction(struct pairs *p, const struct prediction *prediction)
{
    struct text text = { 0 };
    if (!prediction)
        return;
    text_printf(&text, "%s%s%s: the whole step simulated, instruction by instruction",
                prediction->measured ? "measured" : "", prediction->measured && prediction->analytic ? " and " : "",
                prediction->analytic ? "analytic, by the catalogue" : "");
    if (prediction->extrapolated)
        text_add(&text, "; some are beyond what was measured");
    add_text(p, "durations", &text);
    if (prediction->accuracy.words)
        text_add(&text, prediction->accuracy.words);
    add_text(p, "accuracy", &text);
}

bool compare_note_origin(struct job *job, struct inputs *in, const char *launch, struct error *err)
{
    struct compare_entry *e = &job->comparison.entries[job->comparison.count - 1];
    const struct plan_context *context = in->plan_file ? &in->plan_file->context : &in->context;
    struct pairs p = { .arena = &in->arena };
    struct text text = { 0 };
    p.list = arena_alloc(&in->arena, MOST_PAIRS + 1, sizeof *p.list);
    if (!p.list)
        return fail_memory(err);
    if (e->estimate && !accuracy_note(&e->estimate->prediction, in, e->plan->dtype, err))
        return false;
    if (launch)
        text_add(&text, launch);
    add_text(&p, "launch", &text);
    text_printf(&text, "%016llx", (unsigned long long)plan_hash(e->plan));
    if (context->cleave)
        text_printf(&text, ", %s cleave %s", launch || !in->plan_file ? "of" : "written by", context->cleave);
    add_text(&p, "plan's hash", &text);
    add_origin(&p, "model", &in->context.model);
    add_origin(&p, "cluster", &in->context.cluster);
    add_devices(&p, in->cluster);
    add_framework(&p, in->facts.framework);
    add_origin(&p, "profile read", &in->context.profile);
    if (in->context.reserve)
        text_add(&text, in->context.reserve);
    add_text(&p, "reserve", &text);
    add_prediction(&p, e->estimate ? &e->estimate->prediction : NULL);
    e->origin = (const char *const(*)[2])p.list;
    return !arena_failed(&in->arena) || fail_memory(err);
}
