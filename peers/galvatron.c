/* Galvatron's formula. */
#include "base/num.h"
#include "peers/galvatron.h"
#include <math.h>

static const double longest_ms = 1e6; /* of a layer: 2^10 of them are summed in whole nanoseconds */

static int log2_of(int64_t degree)
{
    int index = 0;
    while ((int64_t)1 << index < degree)
        index++;
    return index;
}

static int stage_devices(const struct galvatron_problem *problem, const struct galvatron_plan *plan)
{
    return problem->device_count / plan->stage_count;
}

/* ---- time ---- */

static double line_ms(const struct galvatron_series *s, double size)
{
    return fmax(0, s->ms_per_unit * size + s->fixed_ms);
}

/* Half of a measured all-reduce, which is a gather: its search takes the line except at the measured sizes. */
static bool gather_ms(const struct galvatron_profile *p, int ranks, double mb, double *out, struct error *err)
{
    const struct galvatron_series *s = &p->allreduce[log2_of(ranks)];
    if (s->count == 0)
        return fail(err, "galvatron: no all-reduce time of %d devices was measured", ranks);
    *out = line_ms(s, mb) / 2;
    for (int i = 0; i < s->count; i++)
        if (s->size[i] >= mb && s->size[i] <= mb)
            *out = s->ms[i] / 2;
    return true;
}

/* Milliseconds per MB of an all-reduce. */
static bool reduce_rate(const struct galvatron_profile *p, int ranks, bool consecutive, double *out, struct error *err)
{
    double gb_per_s = ranks > 1 ? p->gb_per_s[consecutive][log2_of(ranks)] : INFINITY;
    if (!(gb_per_s > 0))
        return fail(err, "galvatron: no all-reduce bandwidth of %d %s devices was measured", ranks,
                    consecutive ? "neighbouring" : "distant");
    *out = 1 / gb_per_s;
    return true;
}

/* Computing and a message beside it, each slowed by the other while both go on. */
static double overlapped_ms(double message_ms, double compute_ms, double slow)
{
    return message_ms > compute_ms ? compute_ms * slow + (message_ms - compute_ms)
                                   : message_ms * slow + (compute_ms - message_ms);
}

static double samples_per_micro_batch(const struct galvatron_plan *plan, int data_ranks)
{
    return (double)plan->batch / plan->chunks / data_ranks;
}

static double boundary_mb(const struct galvatron_problem *problem, double samples)
{
    return samples * (double)problem->profile->sequence * (double)problem->hidden * 2 / 0x1p20;
}

/* What stages send, which its formula spreads over all layers. */
static bool message_ms(const struct galvatron_problem *problem, const struct galvatron_plan *plan, double samples,
                       double *out, struct error *err)
{
    double gb_per_s = problem->profile->p2p_gb_per_s[log2_of(plan->stage_count)];
    *out = 0;
    if (plan->stage_count == 1)
        return true;
    if (!(gb_per_s > 0))
        return fail(err, "galvatron: no bandwidth between %d stages was measured", plan->stage_count);
    *out = plan->stage_count * 2 * boundary_mb(problem, samples) / gb_per_s / plan->layer_count;
    return true;
}

static bool layer_time(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                       const struct galvatron_layer *layer, struct galvatron_cost *out, struct error *err)
{
    const struct galvatron_profile *p = problem->profile;
    int tensor = layer->tensor, data = stage_devices(problem, plan) / tensor;
    double samples = samples_per_micro_batch(plan, data), tensor_ms = 0, rate = 0, sent_ms = 0;
    if (!reduce_rate(p, data, tensor == 1, &rate, err) || !message_ms(problem, plan, samples, &sent_ms, err) ||
        (tensor > 1 && !gather_ms(p, tensor, boundary_mb(problem, samples), &tensor_ms, err)))
        return false;
    double forward_ms = line_ms(&p->layer, samples / tensor);
    double backward_ms = forward_ms * (layer->checkpoint ? 3 : 2);
    double gradient_ms = (double)(data - 1) / data * p->parameter_mb / tensor * rate; /* 2 (d-1)/d P/t, in bf16 */
    out->quiet_ms = forward_ms + backward_ms + tensor_ms * (layer->checkpoint ? 9 : 6) + sent_ms +
                    (layer->zero3 ? gradient_ms / 2 : 0);
    out->exposed_ms = overlapped_ms(gradient_ms, backward_ms, p->overlap) - backward_ms;
    if (out->quiet_ms + out->exposed_ms > longest_ms)
        return fail(err, "galvatron: a layer takes more than %g s", longest_ms / 1000);
    return true;
}

/* ---- memory ---- */

/* Which share of its states (weights, gradient, optimizer: 16 bytes per parameter) a rank of d keeps. Its search adds
 * .003 for what lies whole for a moment; asynchronous reduction keeps an eighth more over several micro-batches. */
static double states_ratio(const struct galvatron_plan *plan, bool zero3, int ranks)
{
    double part = 1.0 / ranks + .003;
    int whole_eighths = (zero3 ? 0 : 1) + (plan->chunks > 1 ? 1 : 0);
    return (8 - whole_eighths) / 8.0 * part + whole_eighths / 8.0;
}

int galvatron_in_flight(const struct galvatron_plan *plan, int stage)
{
    int behind = plan->stage_count - stage;
    return min_int(behind, plan->chunks);
}

static bool layer_memory(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                         const struct galvatron_layer *layer, struct galvatron_cost *out, struct error *err)
{
    const struct galvatron_profile *p = problem->profile;
    int tensor = layer->tensor, data = stage_devices(problem, plan) / tensor;
    double per_sample_mb = layer->checkpoint ? p->checkpoint_mb / tensor : p->activation_mb[log2_of(tensor)];
    if (!(per_sample_mb > 0))
        return fail(err, "galvatron: no activations of tensor degree %d were measured", tensor);
    out->states_mb = 4 * p->parameter_mb / tensor * states_ratio(plan, layer->zero3, data);
    out->activation_mb = per_sample_mb * samples_per_micro_batch(plan, data);
    return true;
}

double galvatron_limit_mb(const struct galvatron_problem *problem)
{
    return problem->memory_gb * 1024 * (problem->memory_gb > 20 ? .8 : 1);
}

/* ---- a layer, the others ---- */

static bool check_degree(const struct galvatron_problem *problem, const struct galvatron_plan *plan, int tensor,
                         struct error *err)
{
    int devices = stage_devices(problem, plan);
    if (devices < 1 || tensor > devices)
        return fail(err, "galvatron: %d stages of tensor degree %d do not fit %d devices", plan->stage_count, tensor,
                    problem->device_count);
    if (plan->batch % ((int64_t)plan->chunks * (devices / tensor)))
        return fail(err, "galvatron: %lld samples do not divide into %d micro-batches on %d data ranks",
                    (long long)plan->batch, plan->chunks, devices / tensor);
    return true;
}

bool galvatron_layer_cost(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                          const struct galvatron_layer *layer, struct galvatron_cost *out, struct error *err)
{
    return check_degree(problem, plan, layer->tensor, err) && layer_time(problem, plan, layer, out, err) &&
           layer_memory(problem, plan, layer, out, err);
}

/* Computing beside a gather, which is not slowed: so its search has it of embedding and head. */
static double gathered_ms(double gather_ms, double compute_ms, double slow)
{
    return fmax(gather_ms, compute_ms + gather_ms * (1 - 1 / slow));
}

/* The gradients of embedding and head are no part of its step; where they are sharded the gathers of their weights are,
 * a quarter of the message beside the forward pass and one beside the backward pass. */
static bool others_time(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                        const struct galvatron_others *others, double share, struct galvatron_cost *out,
                        struct error *err)
{
    const struct galvatron_profile *p = problem->profile;
    int devices = stage_devices(problem, plan), tensor = plan->vocabulary_sequence ? 1 : plan->vocabulary_tensor;
    int data = devices / tensor;
    double samples = samples_per_micro_batch(plan, devices), rate = 0, tensor_ms = 0;
    if (!reduce_rate(p, data, tensor == 1, &rate, err) ||
        (tensor > 1 && !gather_ms(p, tensor, boundary_mb(problem, samples * tensor), &tensor_ms, err)))
        return false;
    double forward_ms = line_ms(&p->other, samples) * share;
    double message_ms = plan->embedding_zero3 ? others->states_mb[log2_of(tensor)] / 4 * (data - 1) / data * rate : 0;
    out->quiet_ms = gathered_ms(message_ms / 4, forward_ms, p->overlap) +
                    gathered_ms(message_ms / 4, 2 * forward_ms, p->overlap) + tensor_ms * 2 * share;
    return out->quiet_ms <= longest_ms ||
           fail(err, "galvatron: embedding and head take more than %g s", longest_ms / 1000);
}

bool galvatron_others_cost(const struct galvatron_problem *problem, const struct galvatron_plan *plan, int stage,
                           struct galvatron_cost *out, struct error *err)
{
    enum { CONTEXT_MB = 1024 };
    const struct galvatron_profile *p = problem->profile;
    bool pipelined = plan->stage_count > 1;
    *out = (struct galvatron_cost){ .states_mb = CONTEXT_MB };
    if (!check_degree(problem, plan, plan->vocabulary_tensor, err))
        return false;
    if (stage > 0 && stage < plan->stage_count - 1)
        return true;
    const struct galvatron_others *others = !pipelined ? &p->whole : stage == 0 ? &p->first : &p->last;
    int index = log2_of(plan->vocabulary_tensor), held = plan->vocabulary_sequence ? 0 : index;
    if (!(others->states_mb[held] > 0 && others->activation_mb[index] > 0))
        return fail(err, "galvatron: no memory of embedding and head at tensor degree %d was measured",
                    plan->vocabulary_tensor);
    int devices = stage_devices(problem, plan);
    double samples = samples_per_micro_batch(plan, devices / plan->vocabulary_tensor);
    out->states_mb += others->states_mb[held] * states_ratio(plan, plan->embedding_zero3, devices >> held);
    out->activation_mb = others->activation_mb[index] * samples * galvatron_in_flight(plan, stage);
    return others_time(problem, plan, others, pipelined ? .5 : 1, out, err);
}

/* ---- a plan ---- */

double galvatron_step(const double *quiet, const double *exposed, const double *others, int stage_count, int chunks,
                      double *floor)
{
    double sum = 0, reduce = -INFINITY;
    for (int i = 0; i < stage_count; i++) {
        sum += quiet[i];
        reduce = fmax(reduce, exposed[i] + (quiet[i] - others[i]) - sum);
    }
    double first = quiet[0], last = quiet[stage_count - 1];
    int overlap = stage_count < chunks ? stage_count - 1 : chunks - 1;
    double drained = sum + last * (chunks - 1);
    double filled =
        fmax(overlap * first, sum - first) + (chunks + 1 > stage_count ? chunks + 1 - stage_count : 0) * first;
    /* After `drained` only what follows the reducing stage remains of the sum: that grows in every time. */
    *floor = fmax(filled, drained + fmax(0, reduce));
    return fmax(filled, drained) + fmax(0, reduce);
}

static bool price_stage(const struct galvatron_problem *problem, const struct galvatron_plan *plan, int stage,
                        int first_layer, struct galvatron_cost *sum, double *others_ms, struct error *err)
{
    if (!galvatron_others_cost(problem, plan, stage, sum, err))
        return false;
    *others_ms = sum->quiet_ms;
    for (int l = 0; l < plan->stage_layers[stage]; l++) {
        struct galvatron_cost cost;
        if (!galvatron_layer_cost(problem, plan, &plan->layers[first_layer + l], &cost, err))
            return error_within(err, "layer %d", first_layer + l);
        sum->quiet_ms += cost.quiet_ms;
        sum->exposed_ms += cost.exposed_ms;
        sum->states_mb += cost.states_mb;
        sum->activation_mb += cost.activation_mb * galvatron_in_flight(plan, stage);
    }
    return true;
}

bool galvatron_evaluate(const struct galvatron_problem *problem, const struct galvatron_plan *plan,
                        struct galvatron_price *out, struct error *err)
{
    double quiet[GALVATRON_STAGES], exposed[GALVATRON_STAGES], others[GALVATRON_STAGES], floor, memory_mb = 0;
    for (int s = 0, layer = 0; s < plan->stage_count; layer += plan->stage_layers[s++]) {
        struct galvatron_cost sum;
        if (!price_stage(problem, plan, s, layer, &sum, &others[s], err))
            return false;
        quiet[s] = sum.quiet_ms;
        exposed[s] = sum.exposed_ms;
        memory_mb = fmax(memory_mb, sum.states_mb + sum.activation_mb);
    }
    *out = (struct galvatron_price){ galvatron_step(quiet, exposed, others, plan->stage_count, plan->chunks, &floor) /
                                         1000,
                                     memory_mb, galvatron_limit_mb(problem) };
    return true;
}
