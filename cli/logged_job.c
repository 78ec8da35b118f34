#include "cli/logged_job.h"
#include "base/num.h"
#include "base/text.h"
#include "cli/from.h"
#include "cli/measured_rows.h"
#include "cli/training_log.h"
#include "planner/estimate/estimate.h"
#include "targets/target.h"
#include <math.h>
#include <string.h>

bool logged_job_price(struct plan **plan, struct estimate **estimate, int64_t *batch, struct inputs *in,
                      const struct logged_job *job, struct error *err)
{
    *batch = job->given->space.batch;
    if (!job->from)
        return given_price(plan, estimate, in, job->given, job->operand, err);
    struct from from;
    bool good = from_price(&from, plan, estimate, in, job->given, job->from, job->model, job->operand, err);
    *batch = from.read.launch.batch;
    from_free(&from);
    return good;
}

/* Who printed the lines: of "elapsed time per iteration", which scripts of several targets print as Megatron-LM does,
 * the framework of the job. */
static const char *printed_by(const struct training_log *log, const struct inputs *in)
{
    const char *framework = in->facts.framework ? in->facts.framework->name : NULL;
    const struct target *target = framework ? target_of_framework(framework) : NULL;
    bool others = target && strncmp(target->name, "megatron", strlen("megatron")) != 0;
    return others && log->kind == TRAINING_LOG_MEGATRON ? target->name : training_log_names[log->kind];
}

/* A correction makes up for another model, too: that is no news of the devices. */
static void note_strangers(const struct cli *cli, const char *name, const struct prediction *prediction, double step_s,
                           int64_t peak_bytes)
{
    char step[TEXT_NUMBER_BYTES], peak[TEXT_NUMBER_BYTES];
    double slower = step_s * 1e9 / (double)prediction->step_ns,
           fuller = peak_bytes > 0 ? (double)peak_bytes / (double)estimate_peak_bytes(prediction) : 1;
    if (fmax(slower, 1 / slower) > 1.5 || fmax(fuller, 1 / fuller) > 3)
        fprintf(
            cli->talk,
            "note: %s: a step of %s and a peak of %s were predicted: are the model (its adapters, quantized matrices), "
            "the cluster and the batch those of the run?\n",
            name, text_duration_ns(step, prediction->step_ns), text_bytes(peak, estimate_peak_bytes(prediction)));
}

/* A log says of how many devices it is, and of how large batches; those of another job tell nothing of this one. */
static bool is_of_job(const struct training_log *log, const char *name, const struct logged_job *job, int64_t batch,
                      const struct cluster *cluster, struct error *err)
{
    int64_t devices = cluster->device_count, node = cluster_node_size(cluster);
    if (log->devices > 0 && log->devices != devices) {
        const char *type = cluster->types[0].device.name;
        int64_t nodes = max_i64(1, log->devices / node);
        bool whole = log->devices % nodes == 0;
        return fail(err,
                    "%s: expected a run on %lld devices, as --cluster has them, found a world size of %lld: give the "
                    "cluster that it ran on, --cluster %lldx%lld:%s",
                    name, (long long)devices, (long long)log->devices, (long long)(whole ? nodes : 1),
                    (long long)(log->devices / (whole ? nodes : 1)), type);
    }
    return log->batch == 0 || log->batch == batch ||
           fail(err, "%s: expected a global batch of %lld sequences, as %s has it, found %lld", name, (long long)batch,
                job->from ? "the launch" : "--batch", (long long)log->batch);
}

static bool read_log(struct logged_run *run, struct inputs *in, const struct prediction *prediction,
                     const struct logged_job *job, const char *name, int64_t batch, struct error *err)
{
    const char *text;
    size_t length;
    struct training_log log;
    char step[TEXT_NUMBER_BYTES], peak[TEXT_NUMBER_BYTES];
    if (!inputs_text(in, name, &text, &length, err) || !training_log_read(&log, name, text, length, err) ||
        !is_of_job(&log, name, job, batch, in->cluster, err))
        return false;
    run->step_s = training_log_step_s(&log, batch, in->graph->sequence, in->cluster->device_count);
    if (!measured_step_possible(name, run->step_s, measured_least_s(prediction), in->cluster->device_count,
                                in->cluster->types[0].device.name, err))
        return false;
    run->beside_bytes = log.peak_bytes > 0 ? max_i64(0, log.peak_bytes - estimate_peak_bytes(prediction)) : 0;
    fprintf(job->cli->talk, "%s: %d steps of %s%s, %s%s%s\n", name, log.step_count, printed_by(&log, in), log.how,
            text_duration_ns(step, (int64_t)(run->step_s * 1e9)), log.peak_bytes > 0 ? ", peak " : "",
            log.peak_bytes > 0 ? text_bytes(peak, log.peak_bytes) : "");
    note_strangers(job->cli, name, prediction, run->step_s, log.peak_bytes);
    return true;
}

bool logged_job_read(struct logged_run *runs, const char **device, const char **framework, const struct logged_job *job,
                     const struct text_list *logs, struct arena *arena, struct error *err)
{
    struct inputs in = { .cli = job->cli };
    struct plan *plan = NULL;
    struct estimate *estimate = NULL;
    int64_t batch;
    if (!job->given->space.framework && !job->from)
        return fail(err, "--framework is missing: what ran the job, for example --framework torchtitan");
    bool good = logged_job_price(&plan, &estimate, &batch, &in, job, err);
    if (good && in.cluster->type_count > 1)
        good = fail(err, "--cluster: expected devices of one type, whose speed a step tells, found %d types",
                    in.cluster->type_count);
    for (int i = 0; good && i < logs->count; i++)
        good = read_log(&runs[i], &in, &estimate->prediction, job, logs->item[i], batch, err);
    if (good) {
        *device = arena_strdup(arena, in.cluster->types[0].device.name);
        *framework = arena_strdup(arena, in.framework.name);
        good = (*device && *framework) || fail_memory(err);
    }
    estimate_free(estimate);
    plan_free(plan);
    inputs_free(&in);
    return good;
}
