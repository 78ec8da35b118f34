/* What a framework changes: the clock against sums over the list, bytes and operations against closed forms. */
#include "planner/cost/cost_group.h"
#include "tests/fixed_choices.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/program/access.h"
#include "planner/sim/simulate.h"
#include "tests/toy_world.h"

static struct framework framework_of(const char *members)
{
    struct framework out = { 0 };
    struct error err = { 0 };
    static struct arena arena; /* of static texts */
    char text[512];
    snprintf(text, sizeof text, "{\"description\": \"d\", \"source\": \"s\"%s}", members);
    ck_assert_msg(framework_read(&out, &arena, "toy", text, strlen(text), NULL, &err), "%s", err.message);
    return out;
}

struct job {
    struct world world;
    struct plan *plan;
    struct graph *graph;
    struct program *program;
};

/* A plan of micro-batches of one sequence, of the model of the text; NULL: of a toy transformer. */
static struct job job_of(const char *text, const struct framework *framework, union fixed u, enum dtype dtype)
{
    struct job job = { .world = world_open("1x2:toy", 80000000000, 3) };
    struct error err = { 0 };
    struct space space = space_default(8, 0, dtype);
    if (text) {
        model_free(job.world.model);
        ck_assert_msg(model_read(&job.world.model, "experts", text, strlen(text), NULL, &err), "%s", err.message);
    }
    if (framework) {
        job.world.facts.framework = framework;
        ck_assert(model_keep(job.world.model, framework->stores_scores, framework->loss_keeps_fp32));
        job.world.model->keeping = framework->keeping;
    }
    u.micro = 1;
    ck_assert_msg(fixed_choices_plan(&job.plan, &u, &space, job.world.model, &job.world.facts, &err) &&
                      plan_graph(&job.graph, job.world.model, job.plan, &err) &&
                      lower_program(&job.program, job.graph, job.plan, &err) && layout_program(job.program, &err),
                  "%s", err.message);
    return job;
}

static struct job job_open(const struct framework *framework, int stages, int recompute, enum dtype dtype)
{
    union fixed u = fixed_none();
    u.stages = stages;
    u.recompute = recompute;
    return job_of(NULL, framework, u, dtype);
}

static void job_close(struct job *job)
{
    program_free(job->program);
    graph_free(job->graph);
    plan_free(job->plan);
    world_close(&job->world);
}

static int64_t step_ns(const struct job *job, int64_t kinds[TIME_KIND_COUNT])
{
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate(&timeline, &job->world.facts, job->program, &err), "%s", err.message);
    int64_t ns = timeline->step_ns;
    if (kinds)
        timeline_breakdown(job->program, timeline, timeline_last_rank(timeline), kinds);
    timeline_free(timeline);
    return ns;
}

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

#define EXPERTS(members)                                                                                               \
    "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"experts\", \"sequence\": 64, \"hidden\": 64, "         \
    "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 3, \"layers\": [{\"kind\": "            \
    "\"attention\", "                                                                                                  \
    "\"heads\": 4, \"norm\": \"rms_norm\"}, {\"kind\": \"moe\", \"experts\": 8, \"choices\": 3, \"inner\": 64, "       \
    "\"activation\": \"swiglu\", \"norm\": \"rms_norm\"" members "}]}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, " \
    "{\"kind\": \"loss\"}]}"

/* A host that lists the parts of a collective takes time for each rank, and one that waits before gathers issues none
 * before all that comes earlier in its list has ended. */
START_TEST(hosts_list_ranks_and_wait_before_gathers)
{
    struct framework lists = framework_of(", \"issue_kernel_ns\": 10, \"issue_transfer_ns\": 100, "
                                          "\"issue_rank_ns\": 1000, \"host_waits_for\": \"gathers\"");
    union fixed u = fixed_none();
    u.stages = 1;
    u.zero = 3;
    struct job job = job_of(NULL, &lists, u, DTYPE_BF16);
    const struct stage_program *list = &job.program->stages[0];
    struct timeline *timeline = NULL;
    struct error err = { 0 };
    ck_assert_msg(simulate(&timeline, &job.world.facts, job.program, &err), "%s", err.message);
    int gathers = 0, reductions = 0;
    for (int i = 0; i < list->instr_count; i++) {
        enum op op = list->instrs[i].op;
        struct host_issue issue = cost_issue(&job.world.facts, job.program, 0, &list->instrs[i]);
        ck_assert_int_eq(issue.waits, op == OP_ALL_GATHER ? HOST_WAITS_FOR_ALL : HOST_WAITS_FOR_NOTHING);
        if (op == OP_ALL_GATHER || op == OP_REDUCE_SCATTER)
            ck_assert_int_eq(issue.ns, 100 + 2 * 1000);
        else if (op == OP_COMPUTE)
            ck_assert_int_eq(issue.ns, 10);
        if (op == OP_ALL_GATHER && i > 0)
            ck_assert_int_ge(timeline->ranks[0].spans[i].start_ns, timeline->ranks[0].spans[i - 1].finish_ns + 2100);
        gathers += op == OP_ALL_GATHER;
        reductions += op == OP_REDUCE_SCATTER;
    }
    ck_assert_int_gt(gathers, 0);
    ck_assert_int_gt(reductions, 0);
    timeline_free(timeline);
    job_close(&job);
}
END_TEST

static struct job expert_job(const char *text, const struct framework *framework)
{
    union fixed u = fixed_none();
    u.expert = 2;
    u.recompute = RECOMPUTE_NONE;
    return job_of(text, framework, u, DTYPE_BF16);
}

/* A host that reads how many tokens each expert gets lets the device idle while it issues what depends on it, once in
 * each forward pass of such a layer: backward it knows, and is far ahead. Where tokens are dropped it need not know. */
START_TEST(hosts_wait_for_routings)
{
    const int64_t issue_ns = 1000;
    struct framework waits = framework_of(", \"issue_experts_ns\": 1000");
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

static int64_t value_bytes(const struct job *job, const char *ending, int micro)
{
    int64_t sum = 0;
    for (int b = 0; b < job->program->buffer_count; b++) {
        const struct buffer *buffer = &job->program->buffers[b];
        if (buffer->kind != BUFFER_VALUE || buffer->is_weight || buffer->micro != micro)
            continue;
        const char *name = job->graph->values[buffer->id].name, *at = strstr(name, ending);
        sum += at && strlen(at) == strlen(ending) ? buffer->bytes : 0;
    }
    return sum;
}

/* Korthikanti et al. 2022, equation 2: 5 a s^2 b bytes of a layer in 16 bit; and 4 bytes for a logit. */
START_TEST(scores_and_probabilities_are_kept)
{
    struct framework keeps = framework_of(", \"stores_scores\": true, \"loss_keeps_fp32\": true");
    struct job plain = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16),
               job = job_open(&keeps, 1, RECOMPUTE_NONE, DTYPE_BF16);
    const int64_t heads = 4, tokens = 64, blocks = 3, vocabulary = job.graph->vocab_padded;
    ck_assert_int_eq(value_bytes(&plain, ".core_scores", 0), 0);
    ck_assert_int_eq(value_bytes(&job, ".core_scores", 0), blocks * 5 * heads * tokens * tokens);
    ck_assert_int_eq(value_bytes(&job, ".probabilities", 0), 4 * tokens * vocabulary);
    ck_assert_int_gt(job.program->stages[0].arena_bytes, plain.program->stages[0].arena_bytes);
    ck_assert_int_gt(step_ns(&job, NULL), step_ns(&plain, NULL));
    job_close(&plain);
    job_close(&job);
}
END_TEST

/* Calls of one micro-batch, forward or again, of the layers of repeated blocks. */
static int calls(const struct job *job, bool again)
{
    int count = 0;
    for (int i = 0; i < job->program->stages[0].instr_count; i++) {
        const struct instr *instr = &job->program->stages[0].instrs[i];
        count += instr->op == OP_COMPUTE && instr->phase == PHASE_FORWARD && instr->micro == 0 &&
                 instr->again == again && job->graph->layers[instr->layer].block >= 0;
    }
    return count;
}

/* All of a block's forward pass again, once, and nothing of what does not repeat; between the passes only what enters a
 * block is kept, 2 bytes for each of its elements. */
START_TEST(blocks_are_recomputed_whole)
{
    struct job job = job_open(NULL, 1, RECOMPUTE_BLOCK, DTYPE_BF16);
    int all_again = 0, kept = 0, turn = -1;
    const struct stage_program *list = &job.program->stages[0];
    ck_assert_int_gt(calls(&job, false), 0);
    ck_assert_int_eq(calls(&job, true), calls(&job, false));
    for (int i = 0; i < list->instr_count; i++) {
        all_again += list->instrs[i].micro == 0 && list->instrs[i].op == OP_COMPUTE && list->instrs[i].again;
        if (turn < 0 && list->instrs[i].micro == 0 && list->instrs[i].phase == PHASE_BACKWARD_INPUT)
            turn = i;
    }
    ck_assert_int_eq(all_again, calls(&job, true));
    for (int b = 0; b < job.program->buffer_count; b++) {
        const struct buffer *buffer = &job.program->buffers[b];
        if (buffer->kind != BUFFER_VALUE || buffer->is_weight || buffer->micro != 0)
            continue;
        int producer = job.graph->values[buffer->id].producer, first = -1, last = -1;
        for (int i = 0; i < list->instr_count; i++)
            for (int role = 0; role < ROLE_COUNT; role++)
                for (int k = 0; k < MAX_OPERANDS && list->instrs[i].op == OP_COMPUTE; k++)
                    if (instr_operand(job.program, &list->instrs[i], (enum role)role, k) == b) {
                        first = first < 0 ? i : first;
                        last = i;
                    }
        bool of_block = producer >= 0 && job.graph->layers[job.graph->segments[producer].layer].block >= 0;
        if (of_block && first < turn && last > turn) {
            ck_assert_int_eq(buffer->bytes, 2 * 64 * 64);
            kept++;
        }
    }
    ck_assert_int_eq(kept, 3); /* two blocks' inputs that blocks made, and the head's */
    job_close(&job);
}
END_TEST

/* A forward pass that stops once all is there that is read backward: of each of the three blocks the last product and
 * the sum behind it are not computed again. */
START_TEST(recomputation_stops_at_what_is_read)
{
    struct framework stops = framework_of(", \"repeats_what_is_read\": true");
    struct job job = job_open(&stops, 1, RECOMPUTE_BLOCK, DTYPE_BF16),
               whole = job_open(NULL, 1, RECOMPUTE_BLOCK, DTYPE_BF16);
    ck_assert_int_eq(calls(&job, false), calls(&whole, false));
    ck_assert_int_eq(calls(&job, true), calls(&whole, true) - 3 * 2);
    ck_assert_int_lt(step_ns(&job, NULL), step_ns(&whole, NULL));
    job_close(&job);
    job_close(&whole);
}
END_TEST

/* Bytes of 16-bit values that lie between both passes of the first micro-batch for the backward pass of blocks. */
static int64_t kept_bytes(const struct job *job)
{
    const struct stage_program *list = &job->program->stages[0];
    int64_t bytes = 0;
    int turn = 0;
    while (list->instrs[turn].micro != 0 || list->instrs[turn].phase != PHASE_BACKWARD_INPUT)
        turn++;
    for (int b = 0; b < job->program->buffer_count; b++) {
        const struct buffer *buffer = &job->program->buffers[b];
        bool made = false, wanted = false;
        for (int i = 0; i < list->instr_count; i++) {
            bool in_block = list->instrs[i].layer >= 0 && job->graph->layers[list->instrs[i].layer].block >= 0;
            struct access access;
            for (int slot = 0; slot < access_slots(&list->instrs[i]); slot++)
                if (access_at(job->program, &list->instrs[i], slot, &access) && access.buffer == b) {
                    made = made || (i < turn && access.writes);
                    wanted = wanted || (i >= turn && access.reads && in_block);
                }
        }
        bool value = buffer->kind == BUFFER_VALUE && !buffer->is_weight && buffer->micro == 0;
        enum element element = value ? job->graph->values[buffer->id].element : ELEMENT_INDEX;
        if (made && wanted && (element == ELEMENT_ACTIVATION || element == ELEMENT_OPERAND))
            bytes += buffer->bytes;
    }
    return bytes;
}

/* Korthikanti et al. 2022, table 2, without dropout: 32 bytes of each element that a layer takes in, over the tensor
 * degree; where the gathered outputs of both norms stay, these two are whole. The same bytes are sent again. */
START_TEST(gathered_inputs_are_gathered_again)
{
    struct framework again = framework_of(", \"gathers_again\": true");
    union fixed u = fixed_none();
    const int64_t elements = 64 * 64, blocks = 3, degree = 2;
    int64_t gathers[2] = { 0 };
    u.tensor = (int)degree;
    u.sequence_parallel = 1;
    struct job jobs[2] = { job_of(NULL, NULL, u, DTYPE_BF16), job_of(NULL, &again, u, DTYPE_BF16) };
    ck_assert_int_eq(kept_bytes(&jobs[0]), blocks * elements * (28 / degree + 2 * 2));
    ck_assert_int_eq(kept_bytes(&jobs[1]), blocks * elements * 32 / degree);
    ck_assert_int_lt(jobs[1].program->stages[0].arena_bytes, jobs[0].program->stages[0].arena_bytes);
    for (int j = 0; j < 2; j++)
        for (int i = 0; i < jobs[j].program->stages[0].instr_count; i++) {
            const struct instr *instr = &jobs[j].program->stages[0].instrs[i];
            gathers[j] += instr->op == OP_ALL_GATHER && instr->micro == 0 && instr->again;
        }
    ck_assert_int_eq(gathers[0], 0);
    ck_assert_int_eq(gathers[1], 2 * blocks + 1); /* before both products of a block, and before the head's */
    ck_assert_int_ge(step_ns(&jobs[1], NULL), step_ns(&jobs[0], NULL));
    job_close(&jobs[0]);
    job_close(&jobs[1]);
}
END_TEST

static struct job job_except(int recompute, int excepted)
{
    union fixed u = fixed_none();
    u.recompute = recompute;
    u.excepted = excepted;
    return job_of(NULL, NULL, u, DTYPE_BF16);
}

/* Of the 32 bytes of an element above both norms make 2 each and the activation 8. Of a block that runs again its
 * input is kept, 2 bytes, and what is excepted: queries and what attention makes 2 each, what the first product of the
 * feed-forward network makes 8 and the second, which is added to the block's sum again, 2; none of these is computed
 * again. */
START_TEST(operators_are_recomputed_apart)
{
    enum { NORM = 1 << OPERATOR_norm, ACT = 1 << OPERATOR_act, SOME = 1 << OPERATOR_core | 1 << OPERATOR_q };
    enum { UP = 1 << OPERATOR_up, OUT = 1 << OPERATOR_down };
    static const struct {
        int recompute, excepted, bytes, again; /* of an element; calls of a block */
    } cases[] = { { RECOMPUTE_NONE, 0, 32, 0 },
                  { RECOMPUTE_NONE, NORM, 28, 2 },
                  { RECOMPUTE_NONE, NORM | ACT, 20, 3 },
                  { RECOMPUTE_NONE, OUT, 32, 0 },
                  { RECOMPUTE_BLOCK, 0, 2, 12 },
                  { RECOMPUTE_BLOCK, SOME, 6, 10 },
                  { RECOMPUTE_BLOCK, SOME | UP | OUT, 16, 8 } };
    const int64_t elements = 64 * 64, blocks = 3;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job = job_except(cases[i].recompute, cases[i].excepted);
        ck_assert_int_eq(kept_bytes(&job), blocks * elements * cases[i].bytes);
        ck_assert_int_eq(calls(&job, true), blocks * cases[i].again);
        job_close(&job);
    }
}
END_TEST

/* What the experts' last product makes is not kept where gates multiply what it reads: 2 bytes for each element of
 * the slots, 1.25 times as many as there are choices. */
START_TEST(gates_inside_keep_no_outputs_of_experts)
{
    struct framework inside = framework_of(", \"gates_inside\": true");
    struct job plain = expert_job(EXPERTS(""), NULL), job = expert_job(EXPERTS(""), &inside);
    const int64_t blocks = 3, slots = 64 * 3 * 5 / 4, hidden = 64;
    ck_assert_int_eq(kept_bytes(&plain) - kept_bytes(&job), blocks * slots * hidden * 2);
    job_close(&plain);
    job_close(&job);
}
END_TEST

/* Of the 32 bytes of an element above, what both norms (2 each) and the activation (8) make is read by products alone:
 * half of it is kept in fp8, and their gradients stay in 16 bit. In bf16 nothing changes. */
START_TEST(inputs_of_products_stay_in_fp8)
{
    struct framework keeps = framework_of(", \"keeps_fp8\": true");
    const int64_t elements = 64 * 64, blocks = 3;
    struct job plain = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16),
               wide = job_open(&keeps, 1, RECOMPUTE_NONE, DTYPE_BF16);
    ck_assert_int_eq(kept_bytes(&plain), blocks * elements * 32);
    ck_assert_int_eq(kept_bytes(&wide), blocks * elements * 32);
    ck_assert_int_eq(wide.program->stages[0].arena_bytes, plain.program->stages[0].arena_bytes);
    struct error err = { 0 };
    struct program *program = NULL;
    wide.plan->dtype = DTYPE_FP8;
    ck_assert_msg(lower_program(&program, wide.graph, wide.plan, &err), "%s", err.message);
    program_free(wide.program);
    wide.program = program;
    ck_assert_int_eq(kept_bytes(&wide), blocks * elements * (32 - 2 - 4));
    for (int b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].kind == BUFFER_VALUE_GRADIENT && !program->buffers[b].is_weight &&
            wide.graph->values[program->buffers[b].id].element == ELEMENT_OPERAND)
            ck_assert_int_eq(program->buffers[b].element_bytes, 2);
    job_close(&plain);
    job_close(&wide);
}
END_TEST

static int64_t gradient_bytes(const struct job *job)
{
    int64_t bytes = 0;
    for (int b = 0; b < job->program->buffer_count; b++)
        bytes += job->program->buffers[b].kind == BUFFER_GRADIENT ? job->program->buffers[b].bytes : 0;
    return bytes;
}

/* Accumulators are half as wide, and the loss has 4 bytes more for each logit and copy while it runs; what the
 * framework holds is not available. */
START_TEST(gradients_copies_and_buffers_are_as_the_framework_has_them)
{
    struct framework narrow = framework_of(", \"narrow_gradients\": \"all\", \"loss_copies_logits\": true, "
                                           "\"buffers_bytes\": 1000000"),
                     fp16 = framework_of(", \"narrow_gradients\": \"fp16\", \"loss_backward_copies\": 2");
    struct job plain = job_open(NULL, 1, RECOMPUTE_NONE, DTYPE_BF16),
               all = job_open(&narrow, 1, RECOMPUTE_NONE, DTYPE_BF16),
               some = job_open(&fp16, 1, RECOMPUTE_NONE, DTYPE_BF16);
    const int64_t logits = 64 * plain.graph->vocab_padded;
    ck_assert_int_gt(gradient_bytes(&all), 0);
    ck_assert_int_eq(2 * gradient_bytes(&all), gradient_bytes(&plain));
    ck_assert_int_eq(gradient_bytes(&some), gradient_bytes(&plain));
    ck_assert_int_eq(graph_gradient_bytes(some.graph, DTYPE_FP16), 2);
    ck_assert_int_eq(graph_gradient_bytes(all.graph, DTYPE_FP32), 4);
    ck_assert_int_lt(plain.program->stages[0].scratch_bytes, 4 * logits);
    ck_assert_int_eq(all.program->stages[0].scratch_bytes, 4 * logits);
    ck_assert_int_eq(some.program->stages[0].scratch_bytes, 2 * 4 * logits);
    union fixed u = fixed_none();
    u.tensor = 2;
    struct framework shared = framework_of(", \"loss_backward_copies\": 2, \"loss_sharded_copies\": 1");
    struct job halves = job_of(NULL, &shared, u, DTYPE_BF16);
    ck_assert_int_eq(halves.program->stages[0].scratch_bytes, 3 * 4 * 64 * halves.graph->vocab_padded / 2);
    job_close(&halves);
    ck_assert_int_eq(facts_available_bytes(&all.world.facts, 0) + 1000000,
                     facts_available_bytes(&plain.world.facts, 0));
    job_close(&plain);
    job_close(&all);
    job_close(&some);
}
END_TEST

/* A step's copies take 6 bytes for each element of the shards of state under fp16, gradients in 16 bit 2 for each
 * element of a weight under bf16, without ZeRO nothing; nothing else moves. */
START_TEST(copies_of_gradients_are_kept)
{
    struct framework copies = framework_of(", \"fp16_step_bytes\": 6, \"bf16_gradient_bytes\": 2");
    static const enum dtype dtypes[] = { DTYPE_FP16, DTYPE_BF16, DTYPE_FP32, DTYPE_FP16 };
    const int64_t ranks = 2;
    for (int i = 0; i < 4; i++) {
        union fixed u = fixed_none();
        u.stages = 1;
        u.zero = i < 3;
        struct job plain = job_of(NULL, NULL, u, dtypes[i]), job = job_of(NULL, &copies, u, dtypes[i]);
        const int64_t elements = graph_parameter_count(job.graph), slack = job.program->buffer_count * 64;
        int64_t expected = i == 0 ? 6 * elements / ranks : i == 1 ? 2 * elements : 0;
        int64_t more = job.program->stages[0].arena_bytes - plain.program->stages[0].arena_bytes;
        ck_assert_int_ge(more, expected);
        ck_assert_int_le(more, expected + (i < 2 ? slack : 0));
        ck_assert_int_eq(step_ns(&job, NULL), step_ns(&plain, NULL));
        job_close(&plain);
        job_close(&job);
    }
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
    ck_assert_int_eq(optimizer_bytes_per_element(DTYPE_FP8), optimizer_bytes_per_element(DTYPE_BF16));
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
                     both = framework_of(", \"attention_efficiency\": 0.2, \"attention_flops_per_s\": 1e9");
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
        seen++;
    }
    ck_assert_int_gt(seen, 0);
    job_close(&job);
}
END_TEST

static Suite *framework_suite(void)
{
    Suite *suite = suite_create("framework");
    CHECK_ADD(suite, host_issues_one_after_another);
    CHECK_ADD(suite, hosts_that_wait_for_messages_are_later);
    CHECK_ADD(suite, hosts_wait_for_routings);
    CHECK_ADD(suite, hosts_list_ranks_and_wait_before_gathers);
    CHECK_ADD(suite, tokens_are_sent_once_to_a_rank);
    CHECK_ADD(suite, tokens_are_sent_once_to_a_node);
    CHECK_ADD(suite, files_take_numbers_of_another);
    CHECK_ADD(suite, scores_and_probabilities_are_kept);
    CHECK_ADD(suite, blocks_are_recomputed_whole);
    CHECK_ADD(suite, recomputation_stops_at_what_is_read);
    CHECK_ADD(suite, gathered_inputs_are_gathered_again);
    CHECK_ADD(suite, inputs_of_products_stay_in_fp8);
    CHECK_ADD(suite, operators_are_recomputed_apart);
    CHECK_ADD(suite, gates_inside_keep_no_outputs_of_experts);
    CHECK_ADD(suite, gradients_copies_and_buffers_are_as_the_framework_has_them);
    CHECK_ADD(suite, copies_of_gradients_are_kept);
    CHECK_ADD(suite, fp8_is_of_the_products_of_blocks);
    CHECK_ADD(suite, operands_are_converted_as_the_framework_does);
    CHECK_ADD(suite, rates_are_those_of_the_framework);
    return suite;
}

CHECK_MAIN(framework_suite)
