#include "base/num.h"
#include "cli/print.h"
#include "base/text.h"
#include "planner/program/schedule.h"
#include <limits.h>
#include <stdarg.h>
#include <string.h>

/* Degree of a dimension on the stage, as most of its layers use it. Of dp all data ranks, those included that share
 * out experts or hold groups of shards, as --fix and launches count them. */
static int degree(const struct plan *plan, const struct plan_stage *stage, int layer, int dim)
{
    int product = 1;
    for (int a = 0; a < plan->atom_count; a++) {
        int own = plan->layers[layer].dim[a];
        if (own == dim || (dim == DIM_dp && (own == DIM_ep || own == DIM_rp)))
            product *= stage->atom[a];
    }
    return product;
}

/* Whether the layer gathers weights that stay. */
static bool keeps_gathered(const struct plan *plan, const struct plan_stage *stage, int layer)
{
    return plan_zero_on(plan, stage, layer) > 0 && plan_layer_keeps_gathered(&plan->layers[layer]);
}

/* ZeRO stages of the layers that have weights; how many layers are recomputed. */
static void zero_range(const struct plan *plan, const struct graph *graph, int *low, int *high, int *recomputed)
{
    *low = 3, *high = 0, *recomputed = 0;
    for (int i = 0; i < plan->layer_count; i++) {
        int zero = plan_zero_on(plan, &plan->stages[plan_stage_of_layer(plan, i)], i);
        *recomputed += plan->layers[i].recompute != RECOMPUTE_NONE;
        if (!graph_layer_has_weights(graph, i))
            continue;
        *low = min_int(*low, zero);
        *high = max_int(*high, zero);
    }
}

static void append(char out[PRINT_LINE_BYTES], const char *format, ...) __attribute__((format(printf, 2, 3)));
static void append(char out[PRINT_LINE_BYTES], const char *format, ...)
{
    size_t used = strlen(out);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(out + used, PRINT_LINE_BYTES - used, format, arguments);
    va_end(arguments);
}

/* The layer's degree of a dimension, the least and the most of all stages' meshes. */
static void append_degree(char out[PRINT_LINE_BYTES], const struct plan *plan, int layer, int dim)
{
    int low = INT_MAX, high = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        int own = degree(plan, &plan->stages[s], layer, dim);
        low = min_int(low, own);
        high = max_int(high, own);
    }
    if (high > low)
        append(out, ", %s %d-%d", dimensions[dim]->name, low, high);
    else if (high > 1)
        append(out, ", %s %d", dimensions[dim]->name, high);
}

void print_plan_line(const struct plan *plan, const struct graph *graph, char out[PRINT_LINE_BYTES])
{
    int low, high, recomputed, offloaded = 0, kept = 0;
    const struct plan_stage *stage = &plan->stages[0];
    int middle = stage->first_layer + stage->layer_count / 2;
    out[0] = 0;
    append(out, "pp %d", schedule_place_of(plan, 0).stages);
    if (plan->chunk_count > 1)
        append(out, " x %d %s", plan->chunk_count, plan_copies(plan) > 1 ? "copies" : "chunks");
    for (int d = 1; d < DIM_COUNT; d++)
        append_degree(out, plan, middle, d);
    zero_range(plan, graph, &low, &high, &recomputed);
    for (int i = 0; i < plan->layer_count; i++) {
        offloaded += plan->layers[i].offload != OFFLOAD_NONE;
        kept +=
            graph_layer_has_weights(graph, i) && keeps_gathered(plan, &plan->stages[plan_stage_of_layer(plan, i)], i);
    }
    if (high == 0)
        append(out, ", no ZeRO");
    else if (low == high)
        append(out, ", ZeRO %d", low);
    else
        append(out, ", ZeRO %d-%d", low, high);
    append(out, ", %s", text_number_of((char[TEXT_NUMBER_BYTES]){ 0 }, plan->micro_batch_count, "micro-batch"));
    int64_t each = plan_micro_batch_size(plan);
    if (each > 0)
        append(out, " of %lld%s", (long long)each, each * plan->micro_batch_count < plan->batch ? " per replica" : "");
    bool asynchronous = schedules[plan->schedule]->asynchronous;
    if (plan->stage_count > 1 || asynchronous)
        append(out, ", %s%s", schedules[plan->schedule]->name,
               asynchronous ? " (asynchronous: other mathematics)" : "");
    if (recomputed)
        append(out, ", %d of %d layers recomputed", recomputed, plan->layer_count);
    if (kept)
        append(out, ", %d of %d layers stay gathered", kept, plan->layer_count);
    if (offloaded)
        append(out, ", %d of %d layers offloaded", offloaded, plan->layer_count);
}

/* Layers are shown by kind and strategy: runs of the repeating block fold, so that 96 alike blocks take one line. */
static bool alike(const struct plan *plan, const struct graph *graph, int a, int b)
{
    return graph->layers[a].class_index == graph->layers[b].class_index &&
           plan_layer_equal(&plan->layers[a], &plan->layers[b]);
}

static void describe_layer(struct text *out, const struct plan *plan, const struct plan_stage *stage,
                           const struct graph *graph, int layer, int count)
{
    const struct plan_layer *l = &plan->layers[layer];
    text_printf(out, "    %3d x %-12s", count, graph->layers[layer].kind);
    for (int a = 0; a < plan->atom_count; a++)
        if (stage->atom[a] > 1)
            text_printf(out, " %s %d", dimensions[l->dim[a]]->name, stage->atom[a]);
    int zero = plan_zero_on(plan, stage, layer);
    text_printf(out, "  ZeRO %d  recompute %s", zero, recompute_names[l->recompute]);
    uint64_t operators = graph_layer_operators(graph, layer);
    if (l->excepted & operators)
        text_printf(out, " except %s", operators_text((char[OPERATORS_TEXT_BYTES]){ 0 }, l->excepted & operators));
    if (keeps_gathered(plan, stage, layer))
        text_printf(out, "  reshard false");
    uint64_t replicated = zero > 0 ? l->replicate & operators : 0;
    if (replicated)
        text_printf(out, "  replicate %s", operators_text((char[OPERATORS_TEXT_BYTES]){ 0 }, replicated));
    if (l->offload != OFFLOAD_NONE)
        text_printf(out, "  offload %s", offload_names[l->offload]);
    if (l->slices > 1)
        text_printf(out, "  %d slices", l->slices);
    text_printf(out, "\n");
}

/* Layers of the stage like this one: before it, and from it on. */
static void count_alike(const struct plan *plan, const struct graph *graph, int stage, int layer, int *before,
                        int *after)
{
    *before = *after = 0;
    for (int c = 0; c < plan->chunk_count; c++) {
        struct layer_range range = plan_stage_chunk(plan, stage, c);
        for (int i = range.first; i < range.first + range.count; i++)
            *(i < layer ? before : after) += alike(plan, graph, i, layer);
    }
}

/* Layers that follow each other in the file are one stretch: several where the plan's order is another. */
static void print_layers(const struct cli *cli, const struct plan *plan, const struct graph *graph,
                         struct layer_range range, bool more)
{
    for (int first = range.first, end, last = range.first + range.count; first < last; first = end, more = true) {
        for (end = first + 1; end < last && plan_layer_at(plan, end) == plan_layer_at(plan, end - 1) + 1;)
            end++;
        fprintf(cli->out, "%s %s to %s", more ? "," : "", graph->layers[first].name, graph->layers[end - 1].name);
    }
}

/* What the layers of a stage are and decide, a line for each kind. */
static void describe_stage(struct text *out, const struct plan *plan, const struct graph *graph, int index)
{
    for (int i = 0; i < plan->layer_count; i++) {
        int before, after;
        if (!plan_stage_holds(plan, index, i))
            continue;
        count_alike(plan, graph, index, i, &before, &after);
        if (before == 0)
            describe_layer(out, plan, &plan->stages[index], graph, i, after);
    }
}

/* Stages that follow each other and whose layers are and decide the same are shown once: `last` is the last of them. */
static void print_stages(const struct cli *cli, const struct plan *plan, const struct graph *graph, int first, int last,
                         const char *layers)
{
    const struct plan_stage *stage = &plan->stages[first];
    int turns = plan_stage_turns(plan, first), ranks = turns * plan_stage_rank_count(plan, first);
    int end_rank = plan->stages[last].first_rank + plan_stage_turns(plan, last) * plan_stage_rank_count(plan, last) - 1;
    int first_number = schedule_place_of(plan, first).stage, last_number = schedule_place_of(plan, last).stage;
    if (first == last)
        fprintf(cli->out, "  stage %d: layers", first_number);
    else
        fprintf(cli->out, "  stages %d to %d: layers", first_number, last_number);
    for (int c = 0; c < plan->chunk_count; c++) {
        struct layer_range range = plan_stage_chunk(plan, first, c), end = plan_stage_chunk(plan, last, c);
        if (first == last) {
            print_layers(cli, plan, graph, range, c > 0);
        } else { /* chunks may run backwards through the stages */
            struct layer_range low = range.first < end.first ? range : end,
                               high = range.first < end.first ? end : range;
            fprintf(cli->out, "%s %s to %s", c > 0 ? "," : "", graph->layers[low.first].name,
                    graph->layers[high.first + high.count - 1].name);
        }
    }
    fprintf(cli->out, ", ranks %d to %d", stage->first_rank, end_rank);
    if (turns > 1)
        fprintf(cli->out, ": %d replicas take micro-batches in turn", turns);
    if (first != last)
        fprintf(cli->out, "; on each %d ranks with", ranks);
    fprintf(cli->out, "\n%s", layers);
}

/* As Hugging Face PEFT says it. */
static void print_parameters(const struct cli *cli, const struct graph *graph)
{
    int64_t all = graph_parameter_count(graph), trained = graph_trainable_count(graph);
    fprintf(cli->out, "  %lld parameters", (long long)all);
    if (trained < all)
        fprintf(cli->out, ", %lld of them trainable (%.4g %%)", (long long)trained,
                100.0 * (double)trained / (double)all);
    enum quantized form = graph_quantized(graph);
    if (form)
        fprintf(cli->out, ", frozen matrices in %s", quantized_names[form]);
    fprintf(cli->out, "\n");
}

const char *print_unit(const struct graph *graph)
{
    return graph->image_value >= 0 ? "images" : "tokens";
}

static const char *sample_noun(const struct graph *graph)
{
    return graph->image_value >= 0 ? "image" : "sequence";
}

/* "64 sequences of 1024 tokens" or "64 images". */
static void print_batch(const struct cli *cli, const struct plan *plan, const struct graph *graph)
{
    char samples[TEXT_NUMBER_BYTES], tokens[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "%s", text_number_of(samples, plan->batch, sample_noun(graph)));
    if (graph->image_value < 0)
        fprintf(cli->out, " of %s", text_number_of(tokens, plan->sequence, "token"));
}

void print_order(const struct cli *cli, const struct plan *plan)
{
    struct text order = { 0 };
    plan_order_text(&order, plan);
    if (order.data)
        fprintf(cli->out, "  layers in the order %s\n", order.data);
    text_free(&order);
}

void print_plan(const struct cli *cli, const struct plan *plan, const struct graph *graph)
{
    char line[PRINT_LINE_BYTES], number[TEXT_NUMBER_BYTES], each[TEXT_NUMBER_BYTES];
    print_plan_line(plan, graph, line);
    fprintf(cli->out, "%s on %s: %s\n", graph->model_name, text_number_of(number, plan->rank_count, "device"), line);
    print_parameters(cli, graph);
    fprintf(cli->out, "  batch ");
    print_batch(cli, plan, graph);
    fprintf(cli->out, ", %s, %s of %s", dtype_names[plan->dtype],
            text_number_of(number, plan->micro_batch_count, "micro-batch"),
            text_number_of(each, plan->batch / plan->micro_batch_count, sample_noun(graph)));
    if (plan->bucket_bytes >= INT64_C(1) << 40) /* more than any device has: a framework's way to say so */
        fprintf(cli->out, ", gradient buckets without a limit");
    else if (plan->bucket_bytes)
        fprintf(cli->out, ", gradient buckets of %s", text_bytes(number, plan->bucket_bytes));
    if (plan->chunk_group > 0)
        fprintf(cli->out, ", through a chunk in groups of %d", plan->chunk_group);
    if (plan->loss_chunks > 1)
        fprintf(cli->out, ", the loss in %d chunks", plan->loss_chunks);
    if (plan->clock == CLOCK_WORK)
        fprintf(cli->out, ", receives by the work of passes");
    if (!optimizer_is_usual(&plan->optimizer)) {
        struct text words = { 0 };
        optimizer_describe(&words, &plan->optimizer);
        fprintf(cli->out, ", %s", words.data ? words.data : "");
        text_free(&words);
    }
    if (plan->clip_norm > 0)
        fprintf(cli->out, ", gradients clipped to norm %g", plan->clip_norm);
    fprintf(cli->out, "\n");
    print_order(cli, plan);
    for (int s = 0, next; s < plan->stage_count; s = next) {
        struct text own = { 0 }, other = { 0 };
        int last = s;
        describe_stage(&own, plan, graph, s);
        for (next = s + plan_stage_turns(plan, s); next < plan->stage_count; next += plan_stage_turns(plan, next)) {
            describe_stage(&other, plan, graph, next);
            bool same = own.data && other.data && !strcmp(own.data, other.data) && !plan->order &&
                        plan_stage_turns(plan, s) == plan_stage_turns(plan, next);
            text_free(&other);
            if (!same)
                break;
            last = next;
        }
        print_stages(cli, plan, graph, s, last, own.data ? own.data : "");
        text_free(&own);
    }
}

void print_devices_line(const struct cluster *cluster, int first_rank, int count, char out[PRINT_LINE_BYTES])
{
    out[0] = 0;
    for (int t = 0; t < cluster->type_count; t++) {
        int ranks = cluster_ranks_of(cluster, t, first_rank, count);
        if (ranks > 0)
            append(out, "%s%d %s", out[0] ? " + " : "", ranks, cluster->types[t].device.name);
    }
}

void print_placement(const struct cli *cli, const struct plan *plan, const struct cluster *cluster)
{
    char line[PRINT_LINE_BYTES], before[PRINT_LINE_BYTES] = "";
    for (int s = 0, first = 0; cluster->type_count > 1 && s < plan->stage_count; s++) {
        bool last = s + 1 == plan->stage_count;
        print_devices_line(cluster, plan->stages[s].first_rank, plan_stage_rank_count(plan, s), before);
        if (!last)
            print_devices_line(cluster, plan->stages[s + 1].first_rank, plan_stage_rank_count(plan, s + 1), line);
        if (!last && !strcmp(line, before))
            continue;
        if (first < s)
            fprintf(cli->out, "  stages %d to %d on %s each\n", first, s, before);
        else
            fprintf(cli->out, "  stage %d on %s\n", s, before);
        first = s + 1;
    }
}

void print_fewer(FILE *out, int64_t step_ns, int64_t all_ns, int devices, const char *on)
{
    char number[TEXT_NUMBER_BYTES];
    fprintf(out, "fewer devices take less time: %s, %.1f %% less than all %d: %s%s\n",
            text_duration_ns(number, step_ns), 100 * (1 - (double)step_ns / (double)all_ns), devices,
            strchr(on, ':') ? "--cluster " : "", on);
}

/* Bytes by stage, of neighbours that need as much once; of more than a line takes, the stage that needs most and the
 * one that needs least. */
static void print_peaks(const struct cli *cli, const struct prediction *p)
{
    enum { FEW_STAGES = 8 };
    char number[TEXT_NUMBER_BYTES], least_bytes[TEXT_NUMBER_BYTES];
    int most = 0, least = 0;
    bool even = true; /* all stages have the same */
    for (int s = 1; s < p->stage_count; s++) {
        most = p->peak_bytes[s] > p->peak_bytes[most] ? s : most;
        least = p->peak_bytes[s] < p->peak_bytes[least] ? s : least;
        even = even && p->available_bytes[s] == p->available_bytes[0];
    }
    if (even && p->stage_count > FEW_STAGES && most != least) {
        fprintf(cli->out, " %s on stage %d to %s on stage %d of %s", text_bytes(number, p->peak_bytes[most]), most,
                text_bytes(least_bytes, p->peak_bytes[least]), least,
                text_bytes((char[TEXT_NUMBER_BYTES]){ 0 }, p->available_bytes[0]));
        return;
    }
    for (int s = 0, next; s < p->stage_count; s = next) {
        for (next = s + 1; next < p->stage_count && p->peak_bytes[next] == p->peak_bytes[s] &&
                           p->available_bytes[next] == p->available_bytes[s];)
            next++;
        fprintf(cli->out, "%s %s", s > 0 ? "," : "", text_bytes(number, p->peak_bytes[s]));
        if (next > s + 1)
            fprintf(cli->out, " on stages %d to %d", s, next - 1);
        if (next == p->stage_count || p->available_bytes[next] != p->available_bytes[s])
            fprintf(cli->out, " of %s", text_bytes(number, p->available_bytes[s]));
    }
}

void print_prediction(const struct cli *cli, const struct prediction *p, const struct graph *graph)
{
    char number[TEXT_NUMBER_BYTES], few[64] = "";
    if (p->micro_batches_simulated > 0)
        snprintf(few, sizeof few, ", %d micro-batches simulated", p->micro_batches_simulated);
    fprintf(cli->out, "predicted (%s%s%s): step %s, %.0f %s/s per device",
            p->measured ? p->analytic ? "partly measured" : "from measurements" : "analytic: no profile",
            p->extrapolated ? ", some extrapolated" : "", few, text_duration_ns(number, p->step_ns),
            p->tokens_per_s_per_device, print_unit(graph));
    if (p->mfu > 0)
        fprintf(cli->out, ", %.1f %% of the matmul peak (MFU)", 100 * p->mfu);
    fprintf(cli->out, "\n ");
    for (int i = 0; i < p->breakdown_count; i++)
        if (p->breakdown_ns[i] > 0)
            fprintf(cli->out, " %s %s", p->breakdown_names[i], text_duration_ns(number, p->breakdown_ns[i]));
    bool device_lacks = false, host_lacks = false;
    for (int s = 0; s < p->stage_count; s++) {
        device_lacks = device_lacks || p->peak_bytes[s] > p->available_bytes[s];
        host_lacks = host_lacks || (p->host_bytes && p->host_bytes[s] > p->host_available_bytes);
    }
    fprintf(cli->out, "\n  peak memory per device, by stage:");
    print_peaks(cli, p);
    fprintf(cli->out, "%s\n", p->fits || (host_lacks && !device_lacks) ? "" : ": DOES NOT FIT");
    if (p->host_bytes) {
        fprintf(cli->out, "  host memory per device, by stage:");
        for (int s = 0; s < p->stage_count; s++)
            fprintf(cli->out, "%s %s", s > 0 ? "," : "", text_bytes(number, p->host_bytes[s]));
        if (p->host_available_bytes < INT64_MAX)
            fprintf(cli->out, " of %s", text_bytes(number, p->host_available_bytes));
        fprintf(cli->out, "%s\n", host_lacks ? ": DOES NOT FIT" : "");
    }
    if (p->accuracy.words)
        fprintf(cli->out, "accuracy: %s\n", p->accuracy.words);
}

bool print_speed_change(char *out, size_t size, int64_t now_ns, int64_t profile_ns)
{
    static const double SAME = 0.05;
    char now[TEXT_NUMBER_BYTES], then[TEXT_NUMBER_BYTES];
    double change = now_ns > 0 && profile_ns > 0 ? (double)now_ns / (double)profile_ns - 1 : 0;
    if (change <= SAME && change >= 1 / (1 + SAME) - 1)
        return false;
    snprintf(out, size,
             "the machine is %s than when the profile was made: a product of two 1024 x 1024 matrices takes %s, then "
             "%s (%+.0f %%); the predictions speak of then: profile again (cleave profile)",
             change > 0 ? "slower" : "faster", text_duration_ns(now, now_ns), text_duration_ns(then, profile_ns),
             100 * change);
    return true;
}
