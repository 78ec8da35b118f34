/* Launches that users have, as plans of a comparison. */
#include "cli/compare_job.h"
#include "cli/candidate.h"
#include "cli/from.h"
#include "cli/print.h"
#include <stdlib.h>
#include <string.h>

/* What the launch leaves open is the first plan's. */
static void take_from_first(struct given_options *given, const struct job *job)
{
    for (int i = 0; i < CHOICE_COUNT; i++)
        given->number[i] = GIVEN_UNSAID;
    given->otherwise.vocabulary = job->a->vocabulary;
    struct inputs *first = job->inputs[0];
    if (job->comparison.count == 0)
        return;
    const struct plan *plan = job->comparison.entries[0].plan;
    const struct plan_context *context = first->plan_file ? &first->plan_file->context : &first->context;
    given->otherwise.model = candidate_model(first); /* its description: its file may be gone */
    given->otherwise.cluster = context->cluster.source;
    given->otherwise.dtype = dtype_names[plan->dtype];
    given->otherwise.batch = plan->batch;
    given->otherwise.sequence = plan->sequence;
}

static bool keep(struct job *job, struct inputs *in, const struct from *from, struct plan *plan,
                 const struct estimate *estimate, const char *file, struct error *err)
{
    const struct launch_read *read = &from->read;
    struct text origin = { 0 };
    char line[PRINT_LINE_BYTES];
    size_t length;
    print_plan_line(plan, in->graph, line);
    in->context.cleave = CLEAVE_VERSION;
    if (!comparison_add(&job->comparison, file, line, job->comparison.count == 0, in->model, plan, &in->facts, err))
        return false;
    char *text = plan_json_write(plan, &estimate->prediction, &in->context, &length);
    if (!text)
        return fail_memory(err);
    job->comparison.entries[job->comparison.count - 1].file = text;
    text_printf(&origin, "%s, of %s (%s)", file, from->target->name, from->target->release);
    for (int i = 0; i < read->unknown_count; i++)
        text_printf(&origin, "%s%s", i == 0 ? "; not understood: " : ", ", read->unknown[i]);
    if (read->unknown_count > 0)
        fprintf(job->cli->talk, "%s\n", origin.data ? origin.data : "");
    bool good = !origin.failed && compare_note_origin(job, in, origin.data, err);
    text_free(&origin);
    return good || (err->kind == ERROR_NONE && fail_memory(err));
}

bool compare_add_launch(struct job *job, const char *words, struct error *err)
{
    struct given_options given = { .space = job->a->space };
    struct from from = { 0 };
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    const char *file = strchr(words, '=');
    if (!file || file == words || !file[1])
        return fail(err, "--from: expected TARGET=FILE, for example megatron-lm=train.sh; found %s", words);
    take_from_first(&given, job);
    struct inputs *in = job_inputs(job, err);
    char *target = in ? arena_strndup(&in->arena, words, (size_t)(file - words)) : NULL;
    if (!target)
        return in ? fail_memory(err) : false;
    file++;
    bool good = from_price(&from, &plan, &estimate, in, &given, target, job->a->model, file, err);
    if (good) {
        good = keep(job, in, &from, plan, estimate, file, err); /* the plan is the comparison's now */
        plan = NULL;
    } else if (!strstr(err->message, file)) {
        error_within(err, "%s", file);
    }
    estimate_free(estimate);
    plan_free(plan);
    from_free(&from);
    return good;
}
