/* How a framework changes the clock and prices: against sums over the list and closed forms. */
#include "planner/cost/cost_group.h"
#include "planner/layout/contents.h"
#include "planner/program/access.h"
#include "planner/verify/verify.h"
#include "tests/framework_job.h"

/* What is done to all tensors at once costs the host nothing. */
static bool takes_all(const struct instr *instr)
{
    return instr->op == OP_UPDATE || instr->op == OP_NORM || instr->op == OP_ZERO;
}

/* Sums over the list of the only stage. */
static int64_t issue_count(const struct job *job, bool transfers)
{
    int64_t count = 0;
    for (int i = 0; i < job->program->stages[0].instr_count; i++) {
        const struct instr *instr = &job->program->stages[0].instrs[i];
        count += (instr->lane != LANE_COMPUTE) == transfers && !takes_all(instr);
    }
    return count;
}

static int64_t issue_sum_ns(const struct job *job)
{
    int64_t sum = 0;
    for (int i = 0; i < job->program->stages[0].instr_count; i++)
        sum += cost_issue(&job->world.facts, job->program, 0, &job->program->stages[0].instrs[i]).ns;
    return sum;
}

/* One stage, two ranks: the compute lane waits for a host that is slow, which does not wait for it; for one that is
 * fast never; where launches block both take turns. */
START_TEST(host_issues_one_after_another)
{
    struct framework slow = framework_of(", \"issue_kernel_ns\": 50000000, \"issue_transfer_ns\": 20000000");
    struct framework fast = framework_of(", \"issue_kernel_ns\": 0, \"issue_transfer_ns\": 0");
    struct framework blocking = framework_of(", \"issue_kernel_ns\": 40000, \"issue_transfer_ns\": 0, "
                                             "\"host_waits_for\": \"all\"");
    struct job plain = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16),
               job = job_open(&slow, 1, RECOMPUTE_NONE, DTYPE_BF16);
    int64_t kinds[TIME_KIND_COUNT], alone_ns = step_ns(&plain, NULL), ns = step_ns(&job, kinds), last_ns = 0;
    const struct stage_program *list = &job.program->stages[0];
    for (int i = 0; i < list->instr_count; i++) {
        int64_t own_ns = cost_instr_ns(&job.world.facts, job.program, 0, &list->instrs[i]);
        last_ns = takes_all(&list->instrs[i]) ? last_ns + own_ns : own_ns > last_ns ? own_ns : last_ns;
    }
    ck_assert_int_eq(issue_sum_ns(&job), 50000000 * issue_count(&job, false) + 20000000 * issue_count(&job, true));
    ck_assert_int_ge(ns, issue_sum_ns(&job));
    ck_assert_int_le(ns, issue_sum_ns(&job) + last_ns);
    ck_assert_int_gt(kinds[TIME_ISSUE], ns / 2);
    job_close(&job);

    job = job_open(&fast, 1, RECOMPUTE_NONE, DTYPE_BF16);
    ck_assert_int_eq(step_ns(&job, kinds), alone_ns);
    ck_assert_int_eq(kinds[TIME_ISSUE], 0);
    job_close(&job);

    job = job_open(&blocking, 1, RECOMPUTE_NONE, DTYPE_BF16);
    int64_t expected_ns = issue_sum_ns(&job);
    for (int i = 0; i < job.program->stages[0].instr_count; i++)
        expected_ns += cost_instr_ns(&job.world.facts, job.program, 0, &job.program->stages[0].instrs[i]);
    ck_assert_int_eq(step_ns(&job, NULL), expected_ns);
    job_close(&job);
    job_close(&plain);
}
END_TEST

/* Of two stages: a host that waits for messages is never earlier than one that runs ahead. */
START_TEST(hosts_that_wait_for_messages_are_later)
{
    struct framework ahead = framework_of(", \"issue_kernel_ns\": 30000");
    struct framework waits = framework_of(", \"issue_kernel_ns\": 30000, \"host_waits_for\": \"messages\"");
    struct job a = job_open(&ahead, 2, RECOMPUTE_NONE, DTYPE_BF16), w = job_open(&waits, 2, RECOMPUTE_NONE, DTYPE_BF16);
    int64_t kinds[TIME_KIND_COUNT], ahead_ns = step_ns(&a, NULL), waits_ns = step_ns(&w, kinds);
    ck_assert_int_gt(waits_ns, ahead_ns);
    ck_assert_int_gt(kinds[TIME_BUBBLE], 0); /* until a message is there it is not the host that is waited for */
    ck_assert_int_gt(kinds[TIME_ISSUE], 0);
    /* One behind the other: no host works more than all of both would. */
    ck_assert_int_le(waits_ns, 2 * ahead_ns);
    job_close(&a);
    job_close(&w);
}
END_TEST

/* A host that reads how many tokens each expert gets lets the device idle while it issues what depends on it, once in
 * each forward pass of such a layer: backward it knows, and is far ahead. Where tokens are dropped it need not know. */
START_TEST(hosts_wait_for_routings)
{
    const int64_t issue_ns = 1000 + 8 / 2 * 10; /* of 8 experts each of 2 ranks has 4 */
    struct framework waits = framework_of(", \"issue_experts_ns\": 1000, \"issue_expert_ns\": 10");
    static const char *const models[] = { EXPERTS(", \"dropless\": true"), EXPERTS(", \"dropless\": false") };
    for (int drops = 0; drops < 2; drops++) {
        struct job plain = expert_job(models[drops], NULL), job = expert_job(models[drops], &waits);
        int routings = 0;
        for (int i = 0; i < job.program->stages[0].instr_count; i++) {
            const struct instr *instr = &job.program->stages[0].instrs[i];
            routings += instr->op == OP_COMPUTE && instr->phase == PHASE_FORWARD &&
                        job.graph->segments[instr->segment].kernel == KERNEL_ROUTE;
        }
        ck_assert_int_eq(routings, 3 * job.plan->micro_batch_count);
        ck_assert_int_eq(step_ns(&job, NULL) - step_ns(&plain, NULL), drops ? 0 : routings * issue_ns);
        job_close(&plain);
        job_close(&job);
    }
}
END_TEST

static int64_t lane_ns(const struct job *job, enum lane lane)
{
    int64_t sum = 0;
    for (int i = 0; i < job->program->stages[0].instr_count; i++) {
        const struct instr *instr = &job->program->stages[0].instrs[i];
        sum += instr->lane == lane ? cost_instr_ns(&job->world.facts, job->program, 0, instr) : 0;
    }
    return sum;
}

/* Of m micro-batches the first forward and the last backward pass are alone; of the others what is exposed of each
 * exchange is hidden by the other pass, where what that computes meanwhile takes longer, as it does here. */
START_TEST(exchanges_are_beside_the_other_pass)
{
    struct framework overlaps = framework_of(", \"overlaps_experts\": true");
    union fixed u = fixed_none();
    u.expert = 2;
    u.recompute = RECOMPUTE_NONE;
    u.extra = 1;
    struct job apart = job_of(EXPERTS(""), NULL, u, DTYPE_BF16), job = job_of(EXPERTS(""), &overlaps, u, DTYPE_BF16);
    job.world.cluster->types[0].levels[0].latency_ns = apart.world.cluster->types[0].levels[0].latency_ns = 100;
    job.world.cluster->types[0].levels[0].bytes_per_s = apart.world.cluster->types[0].levels[0].bytes_per_s = 1e15;
    int64_t kinds[TIME_KIND_COUNT], m = job.plan->micro_batch_count, apart_ns = step_ns(&apart, kinds);
    ck_assert_int_gt(m, 2);
    ck_assert_int_gt(kinds[TIME_EP], 0);
    ck_assert_int_eq(lane_ns(&job, LANE_EP), lane_ns(&apart, LANE_EP));
    ck_assert_int_eq(lane_ns(&job, LANE_COMPUTE), lane_ns(&apart, LANE_COMPUTE));
    ck_assert_int_eq(apart_ns - step_ns(&job, NULL), kinds[TIME_EP] * (m - 1) / m);
    job_close(&apart);
    job_close(&job);
}
END_TEST

/* Of 3 random experts on 2 ranks, both have one but where all are on one rank: 2 (1 - 1/8) of 3 copies are sent. */
START_TEST(tokens_are_sent_once_to_a_rank)
{
    struct framework once = framework_of(", \"dispatches_once\": true");
    struct job plain = expert_job(EXPERTS(""), NULL), job = expert_job(EXPERTS(""), &once);
    int exchanges = 0;
    ck_assert_int_eq(job.program->stages[0].instr_count, plain.program->stages[0].instr_count);
    for (int i = 0; i < job.program->stages[0].instr_count; i++) {
        const struct instr *instr = &job.program->stages[0].instrs[i];
        int64_t latency_ns = cost_latency_ns(&job.world.facts, job.program, 0, instr),
                ns = cost_instr_ns(&job.world.facts, job.program, 0, instr),
                plain_ns = cost_instr_ns(&plain.world.facts, plain.program, 0, &plain.program->stages[0].instrs[i]);
        if (instr->op != OP_ALL_TO_ALL) {
            ck_assert_int_eq(ns, plain_ns);
            continue;
        }
        double expected_ns = (double)(plain_ns - latency_ns) * 2 * (1 - 1.0 / 8) / 3;
        ck_assert_double_eq_tol((double)(ns - latency_ns), expected_ns, 2);
        exchanges++;
    }
    ck_assert_int_gt(exchanges, 0);
    job_close(&plain);
    job_close(&job);
}
END_TEST

/* Of 3 random experts on 2 nodes of 2 ranks a token goes to 2 (1 - 1/8) nodes, half of which are other ones, and to
 * 4 (1 - (3/4)^3) ranks, half of which are others than the one that has it on that node. */
START_TEST(tokens_are_sent_once_to_a_node)
{
    struct link_level levels[] = { { .fanout = 2, .bytes_per_s = 4e9, .efficiency = 1 },
                                   { .fanout = 2, .bytes_per_s = 1e9, .efficiency = 1 } };
    struct node_type type = { .levels = levels };
    struct cluster cluster = { .device_count = 4, .type_count = 1, .types = &type, .level_count = 2 };
    struct group group = { .ranks = 4, .level = 1, .part_count = 1, .choices = 3 };
    group.part[0] = (struct group_part){ .ranks = 4, .units = { 2, 1 }, .concurrent = 1 };
    const double token_bytes = 1e6, wire_bytes = 3 * token_bytes * 3 / 4; /* all copies but those to itself */
    double nodes = 2 * (1 - 1.0 / 8), ranks = 4 * (1 - 27.0 / 64);
    ck_assert_double_eq_tol(group_level_ns(&cluster, OP_ALL_TO_ALL, wire_bytes, &group, &group.part[0], 1),
                            token_bytes * nodes / 2 / 1e9 * 1e9, 1e-6);
    ck_assert_double_eq_tol(group_level_ns(&cluster, OP_ALL_TO_ALL, wire_bytes, &group, &group.part[0], 0),
                            token_bytes * ranks / 2 / 4e9 * 1e9, 1e-6);
    group.choices = 0;
    ck_assert_double_eq_tol(group_level_ns(&cluster, OP_ALL_TO_ALL, wire_bytes, &group, &group.part[0], 1),
                            wire_bytes * 2 / 3 / 1e9 * 1e9, 1e-6);
}
END_TEST

/* What a file does not say is as of the one that it names, and what nobody says is nothing. */
START_TEST(files_take_numbers_of_another)
{
    static const char text[] =
        "{\"description\": \"d\", \"source\": \"s\", \"like\": \"base\", \"issue_kernel_ns\": 0}";
    struct framework base = framework_of(", \"issue_kernel_ns\": 7, \"issue_transfer_ns\": 8, \"passes\": 3, "
                                         "\"from_memory\": \"m\", \"host_waits_for\": \"all\""),
                     out = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    ck_assert(framework_read(&out, &arena, "derived", text, strlen(text), &base, &err));
    ck_assert_str_eq(out.name, "derived");
    ck_assert_str_eq(out.like, "base");
    ck_assert_ptr_null(out.from_memory); /* another file's numbers */
    ck_assert_int_eq(out.issue_kernel_ns, 0);
    ck_assert_int_eq(out.issue_transfer_ns, 8);
    ck_assert_int_eq(out.host_waits, HOST_WAITS_FOR_ALL);
    ck_assert_double_eq(out.passes, 3);
    ck_assert_uint_ne(out.hash, base.hash);
    base.hash++; /* its numbers decide, too */
    struct framework again = { 0 };
    ck_assert(framework_read(&again, &arena, "derived", text, strlen(text), &base, &err));
    ck_assert_uint_ne(out.hash, again.hash);
    arena_free(&arena);
}
END_TEST

/* Stored and sent bytes are those of bf16; products of blocks are faster, all else takes as long. */
START_TEST(fp8_is_of_the_products_of_blocks)
{
    struct job wide = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16),
               job = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16);
    double *peak = job.world.cluster->types[0].device.matmul_flops_per_s,
           *wide_peak = wide.world.cluster->types[0].device.matmul_flops_per_s;
    peak[DTYPE_BF16] = wide_peak[DTYPE_BF16] = 1e10; /* so slow that products are no matter of memory */
    peak[DTYPE_FP8] = 2e10;
    job.plan->dtype = DTYPE_FP8;
    ck_assert_int_eq(weight_bytes_per_element(DTYPE_FP8), weight_bytes_per_element(DTYPE_BF16));
    const struct optimizer usual = { 0 };
    ck_assert_int_eq(optimizer_bytes_per_element(&usual, DTYPE_FP8, NULL),
                     optimizer_bytes_per_element(&usual, DTYPE_BF16, NULL));
    int faster = 0;
    for (int i = 0; i < job.program->stages[0].instr_count; i++) {
        const struct instr *instr = &job.program->stages[0].instrs[i];
        int64_t ns = cost_instr_ns(&job.world.facts, job.program, 0, instr),
                wide_ns = cost_instr_ns(&wide.world.facts, wide.program, 0, &wide.program->stages[0].instrs[i]);
        const struct segment *segment = instr->op == OP_COMPUTE ? &job.graph->segments[instr->segment] : NULL;
        bool product = segment && segment->kernel == KERNEL_MATMUL && job.graph->layers[segment->layer].block >= 0;
        if (!product)
            ck_assert_int_eq(ns, wide_ns);
        faster += product && ns < wide_ns;
    }
    ck_assert_int_gt(faster, 0);
    job_close(&wide);
    job_close(&job);
}
END_TEST

/* Of a product of (b, t, h) with (h, f): bytes of b t h, h f and b t f elements over the memory's rate, 1 byte a ns. */
START_TEST(operands_are_converted_as_the_framework_does)
{
    struct framework casts = framework_of(", \"cast_input_forward_bytes\": 5, \"cast_weight_forward_bytes\": 7, "
                                          "\"cast_weight_backward_bytes\": 2, \"cast_input_backward_bytes\": 3, "
                                          "\"cast_gradient_bytes\": 6"),
                     none = framework_of(", \"cast_gradient_bytes\": 0");
    struct job job = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16);
    struct device_type *device = &job.world.cluster->types[0].device;
    device->matmul_flops_per_s[DTYPE_FP8] = device->matmul_flops_per_s[DTYPE_BF16] = 1e12;
    device->memory_bytes_per_s = 1e9;
    device->memory_efficiency = 1;
    const struct segment *product = NULL;
    for (int i = 0; i < job.graph->segment_count; i++)
        if (job.graph->segments[i].kernel == KERNEL_MATMUL &&
            job.graph->layers[job.graph->segments[i].layer].block >= 0)
            product = &job.graph->segments[i];
    ck_assert_ptr_nonnull(product);
    int converted = 0, blocks = 3; /* inputs of q, k and v; of the output; of both products of the mlp */
    for (int i = 0; i < job.graph->segment_count; i++)
        converted +=
            job.graph->segments[i].converts_input && job.graph->layers[job.graph->segments[i].layer].block >= 0;
    ck_assert_int_eq(converted, blocks * 4);
    int64_t extents[MAX_AXES], input = 1, weight = 1, output = 1;
    for (int a = 0; a < product->axis_count; a++) {
        extents[a] = product->axes[a].size;
        for (int d = 0; d < MAX_DIMS; d++) {
            input *= product->in[0].axis[d] == a ? extents[a] : 1;
            weight *= product->weight[0].axis[d] == a ? extents[a] : 1;
            output *= product->out[0].axis[d] == a ? extents[a] : 1;
        }
    }
    const struct framework *by[] = { &casts, &none, NULL };
    int64_t ns[3][PHASE_COUNT];
    for (int k = 0; k < 3; k++)
        for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_WEIGHT; phase++) {
            job.world.facts.framework = by[k];
            ns[k][phase] = cost_compute(&job.world.facts, 0, product, (enum phase)phase, DTYPE_FP8, extents, 1000).ns;
        }
    ck_assert_int_eq(ns[0][PHASE_FORWARD] - ns[1][PHASE_FORWARD], 5 * input + 7 * weight);
    ck_assert_int_eq(ns[0][PHASE_BACKWARD_INPUT] - ns[1][PHASE_BACKWARD_INPUT], 6 * output + 2 * weight);
    ck_assert_int_eq(ns[0][PHASE_BACKWARD_WEIGHT] - ns[1][PHASE_BACKWARD_WEIGHT], 3 * input);
    ck_assert_int_eq(ns[2][PHASE_FORWARD], ns[1][PHASE_FORWARD]);
    ck_assert_int_eq(ns[2][PHASE_BACKWARD_INPUT] - ns[1][PHASE_BACKWARD_INPUT], 4 * output);
    ck_assert_int_eq(ns[2][PHASE_BACKWARD_WEIGHT], ns[1][PHASE_BACKWARD_WEIGHT]);
    job_close(&job);
}
END_TEST

/* The slow-downs are the framework's; attention stays below the share of the peak and below the rate, whichever is
 * less. */
START_TEST(rates_are_those_of_the_framework)
{
    struct framework slow = framework_of(", \"compute_beside_transfers\": 2, \"transfers_beside_compute\": 1.5"),
                     share = framework_of(", \"attention_efficiency\": 0.2, \"attention_flops_per_s\": 3e9"),
                     both = framework_of(", \"attention_efficiency\": 0.2, \"attention_flops_per_s\": 1e9"),
                     flash2 = framework_of(", \"attends_by_flash2\": true");
    struct job job = job_open(&slow, 1, RECOMPUTE_NONE, DTYPE_BF16);
    struct durations durations;
    struct error err = { 0 };
    double compute, communication;
    ck_assert(durations_open(&durations, &job.world.facts, job.program, &err));
    durations.slow_down(durations.self, job.program, 0, &compute, &communication);
    ck_assert_double_eq(compute, 2);
    ck_assert_double_eq(communication, 1.5);
    durations_close(&durations);
    struct device_type *device = &job.world.cluster->types[0].device;
    device->matmul_flops_per_s[DTYPE_BF16] = 1e10;
    device->attention_forward_efficiency = 0.5;
    int seen = 0;
    for (int i = 0; i < job.program->stages[0].instr_count; i++) {
        const struct instr *instr = &job.program->stages[0].instrs[i];
        if (instr->op != OP_COMPUTE || instr->phase != PHASE_FORWARD ||
            job.graph->segments[instr->segment].kernel != KERNEL_ATTENTION)
            continue;
        job.world.facts.framework = NULL;
        double best = (double)cost_instr_ns(&job.world.facts, job.program, 0, instr);
        job.world.facts.framework = &share;
        ck_assert_double_eq_tol((double)cost_instr_ns(&job.world.facts, job.program, 0, instr), best * 5 / 2, 3);
        job.world.facts.framework = &both;
        ck_assert_double_eq_tol((double)cost_instr_ns(&job.world.facts, job.program, 0, instr), best * 5, 3);
        job.world.facts.framework = &flash2; /* which the device runs as fast as anything, and then at a tenth */
        device->flash2_flops_per_s = 0;
        ck_assert_double_eq_tol((double)cost_instr_ns(&job.world.facts, job.program, 0, instr), best, 3);
        device->flash2_flops_per_s = 5e8;
        ck_assert_double_eq_tol((double)cost_instr_ns(&job.world.facts, job.program, 0, instr), best * 10, 3);
        seen++;
    }
    ck_assert_int_gt(seen, 0);
    job_close(&job);
}
END_TEST

#define OPEN_BLOCK                                                                                                     \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"open\", \"sequence\": 64, \"hidden\": 64, "            \
    "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"kind\": \"attention\", \"heads\": 4, "            \
    "\"norm\": \"rms_norm\", \"sinks\": true, \"sliding_window\": 8}, {\"kind\": \"moe\", \"experts\": 8, "            \
    "\"choices\": 3, \"inner\": 32, \"activation\": \"swiglu_clamped\", \"norm\": \"rms_norm\", \"expert_bias\": "     \
    "true}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}]}"

/* What is not fused passes over memory, 1 byte a ns: clamps of what a gate multiplies, the bias behind experts, which
 * gives no gradient but its own. A window of 8 keys in tiles of 24 is four windows; heads of 16 have a quarter of the
 * rate where w is 48, those of 128 would have 1 / 1.375. Nothing else changes. */
START_TEST(what_is_not_fused_moves_more)
{
    struct framework passes = framework_of(", \"clamp_forward_bytes\": 3, \"clamp_backward_bytes\": 5, "
                                           "\"expert_bias_forward_bytes\": 7, \"expert_bias_backward_bytes\": 11, "
                                           "\"attention_tile\": 24, \"attention_head_width\": 48");
    struct job job = expert_job(OPEN_BLOCK, NULL);
    struct device_type *device = &job.world.cluster->types[0].device;
    device->matmul_flops_per_s[DTYPE_BF16] = 1e12;
    device->memory_bytes_per_s = 1e9;
    device->memory_efficiency = 1;
    int seen[3] = { 0 };
    for (int i = 0; i < job.graph->segment_count; i++) {
        const struct segment *segment = &job.graph->segments[i];
        int64_t extents[MAX_AXES] = { 0 }, elements = 1;
        for (int a = 0; a < segment->axis_count; a++)
            extents[a] = segment->axes[a].size;
        for (int d = 0; d < MAX_DIMS; d++)
            elements *= segment->in[0].axis[d] >= 0 ? extents[segment->in[0].axis[d]] : 1;
        for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD_WEIGHT; phase++) {
            int64_t ns[2] = { 0 };
            for (int k = 0; k < 2; k++) {
                job.world.facts.framework = k > 0 ? &passes : NULL;
                ns[k] = cost_compute(&job.world.facts, 0, segment, (enum phase)phase, DTYPE_BF16, extents, 1000).ns;
            }
            bool forward = phase == PHASE_FORWARD, bias = !strcmp(segment->name, "expert_sum"),
                 attends = kernel_facts[segment->kernel].attends;
            int64_t more = segment->kernel == KERNEL_CLAMPED       ? elements * (forward ? 3 : 5)
                           : bias && phase != PHASE_BACKWARD_INPUT ? elements * (forward ? 7 : 11)
                                                                   : 0;
            if (attends)
                ck_assert_double_eq_tol((double)ns[1] / (double)ns[0], 4 * 4 / 1.375, 0.01);
            else
                ck_assert_int_eq(ns[1] - ns[0], more);
            seen[0] += segment->kernel == KERNEL_CLAMPED;
            seen[1] += bias;
            seen[2] += attends;
        }
    }
    for (int k = 0; k < 3; k++)
        ck_assert_int_gt(seen[k], 0);
    job_close(&job);
}
END_TEST

/* Products of kept scores, per operation: as fast in 16 as in 32 bit at one peak where rows of a head's 16 elements are
 * multiples of 16 bytes; those of 12 are not, in 16 bit. */
START_TEST(unaligned_heads_are_slower)
{
    struct framework keeps = framework_of(", \"stores_scores\": true");
    struct job job = job_open(&keeps, 1, RECOMPUTE_NONE, DTYPE_BF16);
    struct device_type *device = &job.world.cluster->types[0].device;
    device->matmul_flops_per_s[DTYPE_BF16] = device->matmul_flops_per_s[DTYPE_FP32] = 1e9;
    device->memory_bytes_per_s = 1e18;
    device->launch_ns = 0;
    for (int i = 0, seen = 0; i < job.graph->segment_count && !seen; i++) {
        const struct segment *segment = &job.graph->segments[i];
        ck_assert(i + 1 < job.graph->segment_count);
        for (int width = 12; width <= 16 && kernel_facts[segment->kernel].attends; width += 4) {
            int64_t extents[MAX_AXES] = { 0 };
            for (int a = 0; a < segment->axis_count; a++)
                extents[a] = segment->axes[a].tag == TAG_HEAD_DIM ? width : segment->axes[a].size;
            double half = (double)cost_compute(&job.world.facts, 0, segment, PHASE_FORWARD, DTYPE_BF16, extents, 0).ns;
            double full = (double)cost_compute(&job.world.facts, 0, segment, PHASE_FORWARD, DTYPE_FP32, extents, 0).ns;
            ck_assert_double_eq_tol(full / half, width % 8 ? 0.4 : 1, 1e-3);
            seen++;
        }
    }
    job_close(&job);
}
END_TEST

/* What transformers' functions move of each score in bf16, one by one. gemma2 forward: product 2, scale 4, over the cap
 * 4, tanh 4, times the cap 4, mask 4, to fp32 6, softmax 8, back 6, product 2; backward: product 2, to fp32 6, softmax
 * 12, back 6, cap 4, tanh 6, cap 4, scale 4, products 6. */
START_TEST(scores_that_are_not_fused_pass_often)
{
    static const struct {
        const char *member, *field;
        double bytes[2];
    } rows[] = {
        { "eager_caps", "\"score_cap\": 50", { 44, 50 } },
        { "eager_sinks", "\"sinks\": true", { 26, 38 } },
        { "eager_alibi", "\"alibi\": true", { 32, 32 } },
    };
    char members[64];
    snprintf(members, sizeof members, ", \"%s\": true", rows[_i].member);
    struct framework keeps = framework_of(members);
    struct job job = job_of(toy_with_attention(rows[_i].field), &keeps, fixed_none(), DTYPE_BF16);
    struct device_type *device = &job.world.cluster->types[0].device;
    int seen = 0;
    device->matmul_flops_per_s[DTYPE_BF16] = device->vector_flops_per_s = 1e24;
    device->memory_bytes_per_s = 1e6;
    device->memory_efficiency = 1;
    device->launch_ns = 0;
    for (int i = 0; i < job.graph->segment_count; i++) {
        const struct segment *segment = &job.graph->segments[i];
        int64_t extents[MAX_AXES] = { 0 };
        for (int a = 0; a < segment->axis_count; a++)
            extents[a] = segment->axes[a].tag == TAG_BATCH ? 1 : segment->axes[a].size;
        for (int k = 0; segment_keeps_scores(segment) && k < 2; k++, seen++) {
            enum phase phase = k ? PHASE_BACKWARD_INPUT : PHASE_FORWARD;
            int64_t ns = cost_compute(&job.world.facts, 0, segment, phase, DTYPE_BF16, extents, 0).ns;
            ck_assert_double_eq_tol((double)ns / 1e3 / (4 * 64 * 64), rows[_i].bytes[k], 1e-3);
        }
    }
    ck_assert_int_eq(seen, 3 * 2);
    job_close(&job);
}
END_TEST

/* Counts the bytes of weights' gradients where the rank has most, by what its layout holds. */
static int64_t gradient_bytes(const struct job *job)
{
    struct contents contents;
    struct stage_memory memory;
    struct error err = { 0 };
    ck_assert_msg(contents_open(&contents, job->program, &err) && contents_find(&memory, &contents, 0, &err), "%s",
                  err.message);
    contents_close(&contents);
    return memory.bytes[MEMORY_GRADIENTS];
}

/* Ranks that share out state alone reduce fp32 gradients in place where the framework does: 4 bytes for each element of
 * a weight, and not half as many again for the shard of one of two ranks. Gradients in 16 bit become others, and what
 * cleave runs itself has buffers for them. */
START_TEST(gradients_are_reduced_in_place)
{
    struct framework places = framework_of(", \"reduces_in_place\": true"), beside = framework_of(""),
                     narrow = framework_of(", \"reduces_in_place\": true, \"narrow_gradients\": \"all\""),
                     runs = places;
    runs.keeping.takes_any_load = true;
    union fixed u = fixed_none();
    u.stages = 1;
    u.data = 2;
    u.zero = 1;
    struct job job = job_of(NULL, &places, u, DTYPE_BF16), plain = job_of(NULL, &beside, u, DTYPE_BF16),
               ours = job_of(NULL, &runs, u, DTYPE_BF16), half = job_of(NULL, &narrow, u, DTYPE_BF16);
    int64_t weights = gradient_bytes(&job);
    struct error err = { 0 };
    ck_assert_msg(verify_program(job.program, &err), "%s", err.message);
    ck_assert_int_le(llabs(2 * gradient_bytes(&plain) - 3 * weights), weights / 50); /* but for padding */
    ck_assert_int_eq(gradient_bytes(&ours), gradient_bytes(&plain));
    ck_assert_int_le(llabs(4 * gradient_bytes(&half) - 3 * weights), weights / 50);
    ck_assert_int_eq(plain.program->stages[0].arena_bytes - job.program->stages[0].arena_bytes,
                     gradient_bytes(&plain) - weights);
    ck_assert_int_eq(step_ns(&job, NULL), step_ns(&plain, NULL));
    job_close(&job);
    job_close(&plain);
    job_close(&ours);
    job_close(&half);
}
END_TEST

static int fetch_count(const struct job *job)
{
    int count = 0;
    for (int i = 0; i < job->program->stages[0].instr_count; i++)
        count += job->program->stages[0].instrs[i].op == OP_FETCH;
    return count;
}

/* Where a gradient lies does not change that its state is copied from the host and back, once each step. */
START_TEST(states_of_gradients_in_place_are_offloaded)
{
    struct framework places = framework_of(", \"reduces_in_place\": true"), beside = framework_of("");
    union fixed u = fixed_none();
    u.stages = 1;
    u.data = 2;
    u.zero = 1;
    u.offload = OFFLOAD_OPTIMIZER;
    struct job job = job_of(NULL, &places, u, DTYPE_BF16), plain = job_of(NULL, &beside, u, DTYPE_BF16);
    struct error err = { 0 };
    ck_assert_msg(verify_program(job.program, &err), "%s", err.message);
    ck_assert_int_gt(fetch_count(&job), 0);
    ck_assert_int_eq(fetch_count(&job), fetch_count(&plain));
    ck_assert_int_eq(step_ns(&job, NULL), step_ns(&plain, NULL));
    job_close(&job);
    job_close(&plain);
}
END_TEST

static Suite *framework_suite(void)
{
    Suite *suite = suite_create("framework");
    CHECK_ADD(suite, host_issues_one_after_another);
    CHECK_ADD(suite, hosts_that_wait_for_messages_are_later);
    CHECK_ADD(suite, hosts_wait_for_routings);
    CHECK_ADD(suite, gradients_are_reduced_in_place);
    CHECK_ADD(suite, states_of_gradients_in_place_are_offloaded);
    CHECK_ADD(suite, exchanges_are_beside_the_other_pass);
    CHECK_ADD(suite, tokens_are_sent_once_to_a_rank);
    CHECK_ADD(suite, tokens_are_sent_once_to_a_node);
    CHECK_ADD(suite, files_take_numbers_of_another);
    CHECK_ADD(suite, fp8_is_of_the_products_of_blocks);
    CHECK_ADD(suite, operands_are_converted_as_the_framework_does);
    CHECK_ADD(suite, rates_are_those_of_the_framework);
    CHECK_ADD(suite, what_is_not_fused_moves_more);
    CHECK_ADD(suite, unaligned_heads_are_slower);
    CHECK_ADD_LOOP(suite, scores_that_are_not_fused_pass_often, 3);
    return suite;
}

CHECK_MAIN(framework_suite)
