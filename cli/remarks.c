#include "cli/remarks.h"
#include "base/num.h"
#include "planner/plan/dim.h"
#include "targets/decoder.h"
#include "targets/target.h"
#include <stdarg.h>
#include <stdlib.h>

/* Where remarks go: lines for people, or objects of an array for programs. */
struct remarks {
    FILE *out; /* NULL: to the writer */
    struct json_writer *w;
};

static void remark(const struct remarks *to, const char *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void remark(const struct remarks *to, const char *kind, const char *format, ...)
{
    char text[512];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    if (to->out) {
        fprintf(to->out, "note: %s\n", text);
        return;
    }
    json_begin_object(to->w);
    json_put_string(to->w, "kind", kind);
    json_put_string(to->w, "text", text);
    json_end_object(to->w);
}

/* Ranks that share out the layer's heads. */
static int tensor_ranks(const struct plan *plan, int layer)
{
    const struct plan_stage *stage = &plan->stages[plan_stage_of_layer(plan, layer)];
    int ranks = 1;
    for (int a = 0; a < plan->atom_count; a++)
        if (dimensions[plan->layers[layer].dim[a]]->lane == LANE_TP)
            ranks *= stage->atom[a];
    return ranks;
}

/* Also of a block that began on the stage before. */
static bool has_part(const struct graph *graph, const struct plan *plan, int stage)
{
    for (int l = 0; l < plan->layer_count; l++)
        if (graph->layers[plan_layer_at(plan, l)].block >= 0 && plan_stage_holds(plan, stage, l))
            return true;
    return false;
}

static void remark_heads(const struct remarks *to, const struct model *model, const struct graph *graph,
                         const struct plan *plan)
{
    int64_t heads = decoder_of(model).kv_heads;
    int most = 1;
    for (int l = 0; l < graph->layer_count; l++)
        most = tensor_ranks(plan, l) > most && graph->layers[l].block >= 0 ? tensor_ranks(plan, l) : most;
    if (heads > 0 && most > heads)
        remark(to, "heads_held_twice",
               "%d tensor ranks have %lld key and value heads among them: %lld ranks hold each alike", most,
               (long long)heads, (long long)(most / heads));
}

/* Blocks of the model that begin on each stage, into (stages). */
static int count_blocks(int *out, const struct graph *graph, const struct plan *plan)
{
    int all = 0, before = -1;
    for (int l = 0; l < plan->layer_count; l++) {
        int block = graph->layers[plan_layer_at(plan, l)].block;
        for (int s = 0; s < plan->stage_count && block >= 0 && block != before; s++)
            out[s] += plan_stage_holds(plan, s, l);
        all += block >= 0 && block != before;
        before = block;
    }
    return all;
}

/* Of models without blocks nothing is said; nor of stages that are as even as their number lets them be. */
static bool remark_stages(const struct remarks *to, const struct graph *graph, const struct plan *plan,
                          struct error *err)
{
    int *blocks = calloc((size_t)plan->stage_count, sizeof *blocks), most = 0, least = 0;
    if (!blocks)
        return fail_memory(err);
    int all = count_blocks(blocks, graph, plan);
    bool empty = false;
    for (int s = 0; s < plan->stage_count && all > 0; s++) {
        most = blocks[s] > blocks[most] ? s : most;
        least = blocks[s] < blocks[least] ? s : least;
        if (blocks[s] == 0 && !has_part(graph, plan, s)) {
            remark(to, "stage_without_block", "stage %d has no block of the model, only what stands beside them", s);
            empty = true;
        }
    }
    if (!empty && blocks[most] - blocks[least] > (all % plan->stage_count != 0))
        remark(to, "uneven_stages", "stages are uneven: stage %d has %d blocks, %d more than stage %d", most,
               blocks[most], blocks[most] - blocks[least], least);
    free(blocks);
    return true;
}

/* Of what runs by an allocator, which takes more than is in use. */
static void remark_room(const struct remarks *to, const struct inputs *in, const struct prediction *p)
{
    const int64_t gib = INT64_C(1) << 30;
    const char *framework = in->facts.framework ? in->facts.framework->name : NULL;
    const struct target *target = framework ? target_of_framework(framework) : NULL;
    char left[TEXT_NUMBER_BYTES], wanted[TEXT_NUMBER_BYTES];
    int s = p->fullest_stage;
    int64_t reserve_bytes = 0; /* what is left free already, in whose place --reserve comes */
    if (!target || !p->fits || in->withholds)
        return;
    for (int t = 0; t < in->cluster->type_count; t++)
        reserve_bytes =
            max_i64(reserve_bytes, in->cluster->types[t].device.memory_bytes - in->cluster->types[t].memory_bytes);
    int64_t left_bytes = p->available_bytes[s] - p->peak_bytes[s];
    int64_t slack_bytes = (int64_t)(target->slack * (double)p->peak_bytes[s]);
    if (left_bytes < slack_bytes)
        remark(to, "fuller_than_slack",
               "cards of stage %d are fuller than the slack of %s's allocator: %s are left, and it may take %s (%s); "
               "with --reserve %lldGiB a plan keeps room",
               s, target->name, text_bytes(left, left_bytes), text_bytes(wanted, slack_bytes), target->slack_source,
               (long long)ceil_div(reserve_bytes + slack_bytes, gib));
}

/* Of a head whose products are slow for want of a few rows. */
static void remark_vocabulary(const struct remarks *to, const struct inputs *in, const struct plan *plan)
{
    const struct framework *framework = in->facts.framework;
    int64_t words = in->graph->vocab_size;
    double stretch = framework_unpadded(framework, words, plan->dtype);
    if (stretch > 1)
        remark(to, "unaligned_vocabulary",
               "a vocabulary of %lld is no multiple of %lld, and %s does not pad it: products of the head take %.2g "
               "times as long as with %lld",
               (long long)words, (long long)framework_aligned_vocabulary(plan->dtype), framework->name, stretch,
               (long long)round_up(words, 128));
}

/* A reserve that was asked for may be less than what the device's facts keep from every plan. */
static void remark_reserve(const struct remarks *to, const struct inputs *in)
{
    char own[TEXT_NUMBER_BYTES], usual[TEXT_NUMBER_BYTES];
    for (int t = 0; t < in->cluster->type_count; t++) {
        const struct node_type *type = &in->cluster->types[t];
        if (type->device.reserve_bytes < type->replaced_bytes)
            remark(
                to, "small_reserve",
                "--reserve leaves %s free on each %s: less than the %s that its context, libraries and fragments are "
                "taken to need; a plan that uses the rest may end for want of memory",
                text_bytes(own, type->device.reserve_bytes), type->device.name,
                text_bytes(usual, type->replaced_bytes));
    }
}

/* Says why a default is not bf16, where a device has faster products than those in fp32: it is another computation. */
static void remark_dtype(const struct remarks *to, const struct inputs *in, const struct plan *plan)
{
    bool half = false;
    for (int type = 0; type < in->cluster->type_count; type++)
        half = half || in->cluster->types[type].device.matmul_flops_per_s[DTYPE_BF16] > 0 ||
               in->cluster->types[type].device.matmul_flops_per_s[DTYPE_FP16] > 0;
    if (!in->lacks_bf16 || !half)
        return;
    remark(to, "default_dtype", "the dtype is %s: %s has no bf16 products; --dtype says another%s",
           dtype_names[plan->dtype], in->lacks_bf16,
           plan->dtype == DTYPE_FP16 ? " (fp16 needs loss scaling, which is not priced; cleave run has none)" : "");
}

/* All streams are planned with one length, and an encoder of sound reads more positions than its decoder writes. */
static void remark_source(const struct remarks *to, const struct inputs *in)
{
    const struct decoder decoder = decoder_of(in->model);
    if (decoder.positions > 0 && decoder.source_positions > decoder.positions)
        remark(to, "source_positions",
               "the encoder is planned with %lld positions, as the decoder, and has up to %lld: with all of them "
               "its work and its activations are at least %.1f times what is predicted",
               (long long)in->graph->sequence, (long long)decoder.source_positions,
               (double)decoder.source_positions / (double)in->graph->sequence);
}

/* Where the optimizer's states lie with the host, frameworks update them there, as fast as the host can. */
static void remark_updates(const struct remarks *to, const struct inputs *in, const struct plan *plan)
{
    bool offloads = false;
    for (int l = 0; l < plan->layer_count; l++)
        offloads = offloads || plan_layer_offloads(&plan->layers[l], OFFLOAD_OPTIMIZER);
    if (offloads && in->facts.framework && in->facts.framework->host_updates_per_s > 0)
        remark(to, "host_updates",
               "%s updates the optimizer's states that are offloaded on the host's processors, of which it is priced "
               "with %.3g elements a second (docs/measured.md, \"States on hosts\": published ones differ by a factor "
               "of 5)",
               in->facts.framework->name, in->facts.framework->host_updates_per_s);
}

/* A name alone does not tell the years that its facts are of. */
static void remark_framework(const struct remarks *to, const struct framework *framework)
{
    if (framework && framework->superseded_by)
        remark(to, "old_framework", "these are prices of %s: what is released today is --framework %s",
               framework->description, framework->superseded_by);
}

static bool has_experts(const struct graph *graph)
{
    int s = 0;
    while (s < graph->segment_count && graph->segments[s].kernel != KERNEL_DISPATCH)
        s++;
    return s < graph->segment_count;
}

/* Says what waits for the host, where that is much of the step. */
static void remark_issue(const struct remarks *to, const struct graph *graph, const struct prediction *p)
{
    enum { MUCH_SHARE = 5 };
    char time[TEXT_NUMBER_BYTES];
    if (p->breakdown_ns[TIME_ISSUE] * MUCH_SHARE > p->step_ns)
        remark(to, "issue",
               "for %s of the step devices wait until their host has issued the next kernels (issue): larger "
               "micro-batches%s and CUDA graphs shorten that",
               text_duration_ns(time, p->breakdown_ns[TIME_ISSUE]),
               has_experts(graph) ? ", fewer experts on a rank" : "");
}

/* Says what the runs of calibrations that are like the job tell of its step. */
static void remark_like_runs(const struct remarks *to, const struct inputs *in, const struct plan *plan,
                             const struct prediction *p)
{
    int alike = 0;
    char step[TEXT_NUMBER_BYTES];
    if (in->calibration_count == 0 || in->cluster->type_count > 1)
        return;
    struct run_shape shape = run_shape_of(plan, graph_parameter_count(in->graph), in->cluster->types[0].device.name,
                                          in->facts.framework ? in->facts.framework->name : "cleave");
    int64_t step_ns = calibration_step_ns(in->calibrations, in->calibration_count, &shape, p->step_ns, &alike);
    if (alike > 0)
        remark(to, "like_runs", "%d measured run%s like it say%s that the step takes %s (%+.1f %%)", alike,
               alike == 1 ? "" : "s", alike == 1 ? "s" : "", text_duration_ns(step, step_ns),
               100 * ((double)step_ns / (double)p->step_ns - 1));
}

static bool say_all(const struct remarks *to, const struct inputs *in, const struct plan *plan,
                    const struct prediction *prediction, struct error *err)
{
    remark_framework(to, in->facts.framework);
    remark_dtype(to, in, plan);
    remark_issue(to, in->graph, prediction);
    remark_heads(to, in->model, in->graph, plan);
    remark_vocabulary(to, in, plan);
    remark_reserve(to, in);
    remark_room(to, in, prediction);
    remark_source(to, in);
    remark_updates(to, in, plan);
    remark_like_runs(to, in, plan, prediction);
    return remark_stages(to, in->graph, plan, err);
}

bool remarks_print(FILE *out, const struct inputs *in, const struct plan *plan, const struct prediction *prediction,
                   struct error *err)
{
    return say_all(&(struct remarks){ .out = out }, in, plan, prediction, err);
}

bool remarks_put(struct json_writer *w, const struct inputs *in, const struct plan *plan,
                 const struct prediction *prediction, struct error *err)
{
    json_write_key(w, "remarks");
    json_begin_array(w);
    bool good = say_all(&(struct remarks){ .w = w }, in, plan, prediction, err);
    json_end_array(w);
    return good;
}
