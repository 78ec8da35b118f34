#include "benchmarks/report.h"
#include "base/json.h"
#include "base/num.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

int64_t report_step_ns(const struct report_plan *plan)
{
    return plan->measured_step_ns ? plan->measured_step_ns : plan->predicted_step_ns;
}

bool report_fits(const struct report_plan *plan)
{
    return !plan->prediction || plan->prediction->fits || plan->measured_step_ns > 0;
}

bool report_is_same_work(const struct report *report)
{
    const struct report_plan *first = report->plans;
    bool same = true;
    for (int i = 1; i < report->plan_count; i++) {
        const struct report_plan *plan = &report->plans[i];
        same = same && fabs(plan->tokens_per_step - first->tokens_per_step) < .5 &&
               fabs(plan->parameters - first->parameters) <= .01 * first->parameters;
    }
    return same;
}

double report_times_as_long(const struct report_plan *plan, const struct report_plan *other)
{
    double own = (double)report_step_ns(plan) * fmax(1, other->tokens_per_step),
           others = (double)report_step_ns(other) * fmax(1, plan->tokens_per_step);
    return own / fmax(1, others);
}

/* Whether a comes before b. */
static bool is_before(const struct report_plan *a, const struct report_plan *b)
{
    int out_a = a->failure ? 2 : !report_fits(a), out_b = b->failure ? 2 : !report_fits(b);
    return out_a != out_b ? out_a < out_b : out_a < 2 && report_times_as_long(a, b) < 1;
}

void report_order(const struct report *report, int order[REPORT_MAX_PLANS])
{
    for (int i = 0; i < report->plan_count; i++) { /* insertion keeps equal plans in the order given */
        int at = i;
        while (at > 0 && is_before(&report->plans[i], &report->plans[order[at - 1]])) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

double report_error(const struct report_plan *plan)
{
    if (!plan->measured_step_ns || plan->failure)
        return NAN;
    return (double)(plan->predicted_step_ns - plan->measured_step_ns) / (double)plan->measured_step_ns;
}

int64_t report_exposed_ns(const int64_t breakdown_ns[TIME_KIND_COUNT])
{
    static const enum time_kind kinds[] = { TIME_TP, TIME_DP, TIME_CP, TIME_EP, TIME_PP, TIME_HOST };
    int64_t ns = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        ns += breakdown_ns[kinds[i]];
    return ns;
}

double report_exposed_error(const struct report_plan *plan)
{
    if (!plan->measured || plan->measured_step_ns <= 0)
        return NAN;
    int64_t away_ns = report_exposed_ns(plan->predicted_breakdown_ns) - report_exposed_ns(plan->measured_breakdown_ns);
    return (double)away_ns / (double)plan->measured_step_ns;
}

double report_mean_error(const struct report *report)
{
    double sum = 0;
    int count = 0;
    for (int i = 0; i < report->plan_count; i++) {
        double error = report_error(&report->plans[i]);
        if (!isnan(error)) {
            sum += fabs(error);
            count++;
        }
    }
    return count ? sum / count : NAN;
}

static const char *name_of(const struct program *program, const struct instr *instr)
{
    return instr->op == OP_COMPUTE ? kernel_facts[program->graph->segments[instr->segment].kernel].name
                                   : op_info[instr->op].name;
}

static void add_spans(const struct program *program, const struct timeline *timeline, bool measured,
                      struct report_op *ops, int *count)
{
    for (int r = 0; timeline && r < timeline->rank_count; r++) {
        const struct rank_timeline *rank = &timeline->ranks[r];
        for (int s = 0; s < rank->span_count; s++) {
            const char *name = name_of(program, &program->stages[rank->stage].instrs[s]);
            int at = 0;
            while (at < *count && strcmp(ops[at].name, name))
                at++;
            if (at == REPORT_MAX_OPS)
                continue;
            if (at == *count)
                ops[(*count)++] = (struct report_op){ .name = name };
            int64_t ns = rank->spans[s].finish_ns - rank->spans[s].start_ns;
            *(measured ? &ops[at].measured_ns : &ops[at].predicted_ns) += ns / timeline->rank_count;
            ops[at].count += !measured;
        }
    }
}

static int by_time(const void *a, const void *b)
{
    const struct report_op *x = a, *y = b;
    int64_t left = max_i64(x->predicted_ns, x->measured_ns), right = max_i64(y->predicted_ns, y->measured_ns);
    return left != right ? (left < right) - (left > right) : strcmp(x->name, y->name);
}

int report_join(const struct report_plan *plan, struct report_op ops[REPORT_MAX_OPS])
{
    int count = 0;
    add_spans(plan->program, plan->predicted, false, ops, &count);
    add_spans(plan->program, plan->measured, true, ops, &count);
    qsort(ops, (size_t)count, sizeof *ops, by_time);
    return count;
}

static void write_breakdown(struct json_writer *w, const char *key, const int64_t ns[TIME_KIND_COUNT])
{
    json_write_key(w, key);
    json_begin_object(w);
    for (int k = 0; k < TIME_KIND_COUNT; k++) {
        json_put_double(w, time_kind_names[k], (double)ns[k] * 1e-9);
    }
    json_end_object(w);
}

static void write_bytes(struct json_writer *w, const char *key, const int64_t *bytes, int count)
{
    json_write_key(w, key);
    json_begin_array(w);
    for (int i = 0; i < count && bytes; i++)
        json_write_int(w, bytes[i]);
    json_end_array(w);
}

static void put_time(struct json_writer *w, const char *key, int64_t ns)
{
    json_put_double(w, key, ns ? (double)ns / 1e9 : NAN);
}

/* Every step that was timed. */
static void write_rounds(struct json_writer *w, const struct report_plan *plan)
{
    json_write_key(w, "rounds");
    json_begin_array(w);
    for (int i = 0; plan->runs && i < plan->run_count + plan->left_out_count; i++) {
        const struct report_run *run = &plan->runs[i];
        json_begin_object(w);
        json_put_bool(w, "counts", run->counts);
        put_time(w, "first_step_s", run->first_ns);
        json_write_key(w, "step_s");
        json_begin_array(w);
        for (int s = 0; s < run->step_count; s++)
            json_write_double(w, (double)run->steps_ns[s] / 1e9);
        json_end_array(w);
        put_time(w, "reference_before_s", run->before_ns);
        put_time(w, "reference_after_s", run->after_ns);
        json_end_object(w);
    }
    json_end_array(w);
}

/* The plan file as a member of this object, so that it can be taken out and run. */
static void write_file(struct json_writer *w, const char *file)
{
    struct json_doc *doc = NULL;
    struct error err = { 0 };
    json_write_key(w, "plan_file");
    if (file && json_parse(&doc, "plan", file, strlen(file), &err))
        json_write_value(w, json_root(doc));
    else
        json_write_string(w, NULL);
    json_free(doc);
}

/* By rank; where `most` is fewer than there are, by stage, of whose ranks all are alike. */
static void write_predicted_bytes(struct json_writer *w, const struct report_plan *plan, int most)
{
    if (plan->rank_count <= most || !plan->memory || !plan->plan) {
        write_bytes(w, "predicted_peak_bytes", plan->predicted_peak_bytes, plan->rank_count);
        return;
    }
    json_write_key(w, "predicted_peak_bytes_by_stage");
    json_begin_array(w);
    for (int s = 0; s < plan->plan->stage_count; s++)
        json_write_int(w, plan->memory[s].peak_bytes);
    json_end_array(w);
}

static void write_points(struct json_writer *w, const char *key, const struct report_point *points, int count)
{
    if (count == 0)
        return;
    json_write_key(w, key);
    json_begin_array(w);
    for (int i = 0; i < count; i++) {
        json_begin_object(w);
        json_put_int(w, "devices", points[i].devices);
        json_put_double(w, "step_s", points[i].words ? (double)points[i].step_ns * 1e-9 : NAN);
        json_put_double(w, "peak_bytes", points[i].words ? (double)points[i].peak_bytes : NAN);
        json_put_string(w, "plan", points[i].words);
        json_end_object(w);
    }
    json_end_array(w);
}

static void write_plan(struct json_writer *w, const struct report_plan *plan, int most_ranks)
{
    json_begin_object(w);
    json_put_string(w, "name", plan->name);
    json_put_string(w, "description", plan->description);
    json_put_bool(w, "chosen", plan->chosen);
    json_put_string(w, "failure", plan->failure);
    json_put_double(w, "predicted_step_s", (double)plan->predicted_step_ns * 1e-9);
    put_time(w, "measured_step_s", plan->measured_step_ns);
    json_put_double(w, "measured_spread", plan->measured_step_ns ? plan->measured_spread : NAN);
    json_put_int(w, "steps", plan->step_count);
    json_put_int(w, "timed_steps", plan->timed_step_count);
    json_put_int(w, "runs", plan->run_count);
    json_put_int(w, "runs_left_out", plan->left_out_count);
    json_put_double(w, "error", report_error(plan));
    json_put_double(w, "tokens_per_step", plan->tokens_per_step);
    write_bytes(w, "peak_bytes", plan->measured_peak_bytes, plan->rank_count);
    write_predicted_bytes(w, plan, most_ranks);
    json_put_bool(w, "fits", report_fits(plan));
    json_put_double(w, "mfu", plan->prediction && plan->prediction->mfu > 0 ? plan->prediction->mfu : NAN);
    write_breakdown(w, "predicted_breakdown_s", plan->predicted_breakdown_ns);
    if (plan->measured)
        write_breakdown(w, "measured_breakdown_s", plan->measured_breakdown_ns);
    if (plan->losses) {
        json_write_key(w, "losses");
        json_begin_array(w);
        for (int i = 0; i < plan->step_count; i++)
            json_write_double(w, plan->losses[i]);
        json_end_array(w);
    }
    write_rounds(w, plan);
    write_file(w, plan->file);
    json_end_object(w);
}

static void write_speed(struct json_writer *w, const struct report *report)
{
    const struct report_speed *speed = &report->speed;
    put_time(w, "reference_product_s", speed->reference_ns);
    json_put_double(w, "reference_drift", speed->reference_ns ? speed->drift : NAN);
    put_time(w, "profile_reference_product_s", report->profile_reference_ns);
}

void report_json(const struct report *report, int most_ranks, struct text *out)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    json_begin_format(&w, "cleave-comparison", 1);
    json_put_string(&w, "model", report->model);
    json_put_string(&w, "cluster", report->cluster);
    json_put_double(&w, "mean_error", report_mean_error(report));
    write_speed(&w, report);
    json_write_key(&w, "plans");
    json_begin_array(&w);
    for (int i = 0; i < report->plan_count; i++)
        write_plan(&w, &report->plans[i], most_ranks);
    json_end_array(&w);
    write_points(&w, "frontier", report->frontier, report->frontier_count);
    write_points(&w, "scaling", report->scaling, report->scaling_count);
    json_write_key(&w, "provenance");
    json_begin_object(&w);
    for (int i = 0; report->provenance && report->provenance[i][0]; i++) {
        json_put_string(&w, report->provenance[i][0], report->provenance[i][1]);
    }
    json_end_object(&w);
    json_end_object(&w);
    char *json = json_finish(&w, &length);
    if (json)
        text_add_bytes(out, json, length);
    else
        out->failed = true;
    free(json);
}
