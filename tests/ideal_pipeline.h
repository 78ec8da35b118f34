/* Pipelines of layers of given times on a machine on which nothing else takes time: lowered, laid out, verified and
 * simulated. */
#ifndef CLEAVE_TESTS_IDEAL_PIPELINE_H
#define CLEAVE_TESTS_IDEAL_PIPELINE_H
#include "base/text.h"
#include "models/model.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/program/program.h"
#include "planner/sim/simulate.h"
#include "planner/verify/verify.h"
#include "tests/check.h"
#include "tests/pipeline_shape.h"
#include <stdio.h>
#include <string.h>

/* Times and bytes are those of one piece of the model and one micro-batch; a stage has as many pieces as chunks. */
struct ideal_draw {
    int schedule, stages, chunks, micros;
    int64_t forward_ns, input_ns, weight_ns; /* input_ns: at least weight_ns */
    int64_t input_bytes;                     /* kept of a forward pass until the input half of backward is done */
    int64_t weight_bytes;                    /* until the weight half is */
    int plain; /* so many equal layers make a piece, all with weights (input_ns is weight_ns, and no input_bytes); 0:
                  its gradient leaves when its whole backward pass is done */
};
struct ideal_run {
    struct ideal_draw draw;
    struct model *model;
    struct cluster *cluster;
    struct facts facts;
    struct graph *graph;
    struct plan *plan;
    struct program *program;
    struct timeline *timeline;
};

static inline int ideal_pieces(const struct ideal_draw *d)
{
    return schedule_pieces(schedules[d->schedule], d->stages, d->chunks);
}

static inline int ideal_layers(const struct ideal_draw *d)
{
    return d->plain ? d->plain : 3;
}

static inline void ideal_layer(struct text *text, int64_t forward_ns, int64_t backward_ns, int parameters,
                               int64_t saved_bytes)
{
    text_printf(text,
                "%s{\"kind\": \"opaque\", \"forward_us\": %.3f, \"backward_us\": %.3f, \"parameters\": %d, "
                "\"activation_elements\": 1, \"saved_elements\": %lld}",
                text->data[text->length - 1] == '}' ? ", " : "", 1e-3 * (double)forward_ns, 1e-3 * (double)backward_ns,
                parameters, (long long)(saved_bytes / 2));
}

/* Of the three layers of a piece the first takes no time. It has a weight, so that on the first stage, too, gradients
 * of inputs are wanted, and it is the last to be visited backward. The second has no weights, the third all else. */
static inline void ideal_model(struct ideal_run *run)
{
    const struct ideal_draw *d = &run->draw;
    struct text text = { 0 };
    struct error err = { 0 };
    text_printf(&text,
                "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"ideal\", \"sequence\": 1, \"layers\": "
                "[{\"repeat\": %d, \"layers\": [",
                ideal_pieces(d));
    for (int l = 0; l < d->plain; l++)
        ideal_layer(&text, d->forward_ns / d->plain, 2 * d->weight_ns / d->plain, 1, d->weight_bytes / d->plain);
    if (!d->plain) {
        ideal_layer(&text, 0, 0, 1, 0);
        ideal_layer(&text, 0, d->input_ns - d->weight_ns, 0, d->input_bytes);
        ideal_layer(&text, d->forward_ns, 2 * d->weight_ns, 1, d->weight_bytes);
    }
    text_printf(&text, "]}]}");
    ck_assert_msg(model_read(&run->model, "ideal", text.data, text.length, NULL, &err), "%s", err.message);
    text_free(&text);
}

static inline void ideal_cluster(struct ideal_run *run)
{
    static const char device[] =
        "{\"description\": \"ideal\", \"source\": \"this test\", \"matmul_flops_per_s\": {\"bf16\": 1e24}, "
        "\"matmul_efficiency\": 1, \"attention_forward_efficiency\": 1, \"attention_backward_efficiency\": 1, "
        "\"vector_flops_per_s\": 1e24, \"memory_bytes_per_s\": 1e24, \"memory_bytes\": 1000000000000, \"launch_ns\": "
        "0, \"link_bytes_per_s\": 1e24, \"link_latency_ns\": 0, \"nic_bytes_per_s\": 1e24, \"nic_latency_ns\": 0}";
    struct catalogue_entry entry = { "ideal", device, sizeof device - 1 };
    struct error err = { 0 };
    char form[32];
    snprintf(form, sizeof form, "1x%d:ideal", run->draw.stages);
    ck_assert_msg(cluster_read(&run->cluster, form, form, strlen(form), &entry, 1, &err), "%s", err.message);
    run->facts = (struct facts){ .cluster = run->cluster };
}

static inline void ideal_plan(struct ideal_run *run)
{
    const struct ideal_draw *d = &run->draw;
    struct shape shape = { .stages = d->stages,
                           .chunks = d->chunks,
                           .folded = schedules[d->schedule]->folded,
                           .copies = schedules[d->schedule]->copies };
    run->plan = shape_plan(&shape, ideal_layers(d) * ideal_pieces(d));
    run->plan->batch = d->micros, run->plan->sequence = 1, run->plan->vocab_multiple = 1;
    run->plan->dtype = DTYPE_BF16;
    run->plan->schedule = d->schedule, run->plan->micro_batch_count = d->micros;
}

static inline void ideal_open(struct ideal_run *run, const struct ideal_draw *draw)
{
    struct error err = { 0 };
    *run = (struct ideal_run){ .draw = *draw };
    ideal_model(run);
    ideal_cluster(run);
    ideal_plan(run);
    ck_assert_msg(plan_graph(&run->graph, run->model, run->plan, &err) && plan_check(run->plan, run->graph, &err) &&
                      lower_program(&run->program, run->graph, run->plan, &err) && layout_program(run->program, &err) &&
                      verify_program(run->program, &err) && simulate(&run->timeline, &run->facts, run->program, &err),
                  "%s, %d stages, %d chunks, %d micro-batches: %s", schedules[draw->schedule]->name, draw->stages,
                  draw->chunks, draw->micros, err.message);
}

static inline void ideal_close(struct ideal_run *run)
{
    timeline_free(run->timeline);
    program_free(run->program);
    plan_free(run->plan);
    graph_free(run->graph);
    cluster_free(run->cluster);
    model_free(run->model);
}

/* What one stage computes in a step. */
static inline int64_t ideal_work_ns(const struct ideal_draw *d)
{
    int passes = d->micros * (schedules[d->schedule]->copies ? 1 : d->chunks);
    return passes * (d->forward_ns + d->input_ns + d->weight_ns);
}

/* Whether this is the work of a piece: of its layers that which runs forward. */
static inline bool ideal_is_work(const struct ideal_run *run, const struct instr *instr)
{
    int layers = ideal_layers(&run->draw);
    return instr->op == OP_COMPUTE && instr->layer % layers == layers - 1;
}

/* From the stage's first work to its last. */
static inline int64_t ideal_span_ns(const struct ideal_run *run, int stage)
{
    const struct rank_timeline *rank = &run->timeline->ranks[stage];
    int64_t first = INT64_MAX, last = 0;
    for (int i = 0; i < rank->span_count; i++) {
        const struct span *span = &rank->spans[i];
        if (run->program->stages[stage].instrs[i].op != OP_COMPUTE || span->finish_ns == span->start_ns)
            continue;
        first = span->start_ns < first ? span->start_ns : first;
        last = span->finish_ns > last ? span->finish_ns : last;
    }
    return last - first;
}
#endif
