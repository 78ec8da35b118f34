/* What a framework keeps, gathers and computes again: bytes and instructions against closed forms. */
#include "planner/program/access.h"
#include "tests/framework_job.h"
#include <math.h>

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

/* What transformers 5.24 saves for backward of one layer's scores, by torch's saved_tensors_hooks: gemma2 tanh, softmax
 * in fp32 and in 16 bit, 8 bytes; gpt_oss softmax, 2; bloom and mpt softmax twice, 6. In fp32 8, 4 and 4. */
static const struct {
    const char *member, *field;
    int bytes_16, bytes_32;
} eager[] = {
    { "eager_caps", "\"score_cap\": 50", 8, 8 },
    { "eager_sinks", "\"sinks\": true", 2, 4 },
    { "eager_alibi", "\"alibi\": true", 6, 4 },
};
START_TEST(scores_of_attention_that_is_not_fused_are_kept)
{
    char members[64];
    snprintf(members, sizeof members, ", \"%s\": true", eager[_i].member);
    struct framework keeps = framework_of(members), fuses = framework_of("");
    const char *text = toy_with_attention(eager[_i].field), *other = eager[(_i + 1) % 3].field;
    struct job fused = job_of(text, &fuses, fixed_none(), DTYPE_BF16),
               half = job_of(text, &keeps, fixed_none(), DTYPE_BF16),
               full = job_of(text, &keeps, fixed_none(), DTYPE_FP32);
    const int64_t scores = (int64_t)3 * 4 * 64 * 64;
    ck_assert_int_eq(value_bytes(&fused, ".core_scores", 0), 0);
    ck_assert_int_eq(value_bytes(&half, ".core_scores", 0), eager[_i].bytes_16 * scores);
    ck_assert_int_eq(value_bytes(&full, ".core_scores", 0), eager[_i].bytes_32 * scores);
    ck_assert_int_gt(half.program->stages[0].arena_bytes, fused.program->stages[0].arena_bytes);
    ck_assert_int_gt(step_ns(&half, NULL), step_ns(&fused, NULL));
    job_close(&fused);
    job_close(&half);
    job_close(&full);
    struct job unlike = job_of(toy_with_attention(other), &keeps, fixed_none(), DTYPE_BF16);
    ck_assert_int_eq(value_bytes(&unlike, ".core_scores", 0), 0);
    job_close(&unlike);
}
END_TEST

/* What transformers' LlamaRMSNorm and LlamaMLP save beside what fused kernels do (torch's saved_tensors_hooks): of a
 * norm's input 4 bytes more for each element in 16 bit, of a gated activation 2 more for each that it gives. In time
 * they are among the framework's passes. */
START_TEST(norms_and_gates_that_are_not_fused_keep_more)
{
    static const char text[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"toy\", \"sequence\": 64, \"hidden\": 64, "
        "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 3, \"layers\": [{\"kind\": "
        "\"attention\", \"heads\": 4, \"norm\": \"rms_norm\"}, {\"kind\": \"mlp\", \"inner\": 256, "
        "\"activation\": \"swiglu\", \"norm\": \"layer_norm\"}]}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, "
        "{\"kind\": \"loss\"}]}";
    struct framework apart = framework_of(", \"eager_norms\": true, \"eager_gates\": true"), fuses = framework_of("");
    struct job fused = job_of(text, &fuses, fixed_none(), DTYPE_BF16),
               job = job_of(text, &apart, fixed_none(), DTYPE_BF16);
    const int64_t tokens = 64, norms = 3 + 1, blocks = 3;
    ck_assert_int_eq(value_bytes(&fused, ".norm_fp32", 0) + value_bytes(&fused, ".act_gate", 0), 0);
    ck_assert_int_eq(value_bytes(&job, ".norm_fp32", 0), norms * tokens * 64 * 4);
    ck_assert_int_eq(value_bytes(&job, ".act_gate", 0), blocks * tokens * 256 * 2);
    ck_assert_int_ge(job.program->stages[0].arena_bytes - fused.program->stages[0].arena_bytes,
                     blocks * tokens * (64 * 4 + 256 * 2));
    ck_assert_int_eq(step_ns(&job, NULL), step_ns(&fused, NULL));
    job_close(&fused);
    job_close(&job);
}
END_TEST

/* The same of what experts of gpt-oss keep (GptOssExperts._apply_gate): beside both halves of their first product, and
 * what the gate gives, four values in 16 bit; and of the norms inside of latent attention. */
START_TEST(clamped_gates_and_latent_norms_keep_more)
{
    static const char text[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"toy\", \"sequence\": 64, \"hidden\": 64, "
        "\"vocab_size\": 500, \"layers\": [{\"kind\": \"embedding\"}, {\"repeat\": 3, \"layers\": [{\"kind\": "
        "\"latent_attention\", \"heads\": 4, \"query_rank\": 32, \"kv_rank\": 16, \"plain_dim\": 16, \"rope_dim\": 8, "
        "\"value_dim\": 16, \"norm\": \"layer_norm\"}, {\"kind\": \"mlp\", \"inner\": 256, \"activation\": "
        "\"swiglu_clamped\", \"norm\": \"layer_norm\"}]}, {\"kind\": \"head\", \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"loss\"}]}";
    struct framework apart = framework_of(", \"eager_norms\": true, \"eager_gates\": true");
    struct job job = job_of(text, &apart, fixed_none(), DTYPE_BF16);
    const int64_t tokens = 64, blocks = 3;
    ck_assert_int_eq(value_bytes(&job, ".act_gate", 0), blocks * tokens * 256 * 4 * 2);
    ck_assert_int_eq(value_bytes(&job, ".q_norm_fp32", 0) + value_bytes(&job, ".kv_norm_fp32", 0),
                     blocks * tokens * (32 + 16) * 4);
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

static struct job job_except(int recompute, int64_t excepted)
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
#define BIT(name) (INT64_C(1) << OPERATOR_##name)
    static const int64_t NORM = BIT(norm), ACT = BIT(act), SOME = BIT(core) | BIT(q), UP = BIT(up), OUT = BIT(down);
#undef BIT
    const struct {
        int recompute;
        int64_t excepted;
        int bytes, again; /* of an element; calls of a block */
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

/* Whether ranks that share a sequence have an early and a late piece of it each, so that none waits for another. */
static bool balances(const struct job *job)
{
    for (int s = 0; s < job->graph->segment_count; s++)
        if (kernel_facts[job->graph->segments[s].kernel].attends)
            return job->graph->segments[s].arguments.balanced;
    return false;
}

/* A framework that drops no token sends and keeps what was chosen: of slots, 1.25 times as many, the fifth that nobody
 * fills goes, of which dispatch, gate, up, activation and output keep 2 bytes for an element each. Who drops tokens has
 * the slots. Where cleave runs the program, all of a sequence's tokens find room at each of its 8 experts. */
START_TEST(frameworks_that_route_tokens_have_no_empty_slots)
{
    struct framework routes = framework_of(", \"routes_tokens\": true"), runs = routes;
    runs.keeping.takes_any_load = true;
    static const char dropless[] = EXPERTS(", \"dropless\": true"), drops[] = EXPERTS(", \"dropless\": false");
    struct job plain = expert_job(dropless, NULL), job = expert_job(dropless, &routes),
               ours = expert_job(dropless, &runs), dropped = expert_job(drops, &routes);
    const int64_t blocks = 3, choices = 64 * 3, any_load = 8 * 64, hidden = 64, inner = 64;
    ck_assert_int_eq(kept_bytes(&plain) - kept_bytes(&job), blocks * choices / 4 * (2 * hidden + 3 * inner) * 2);
    ck_assert_int_lt(step_ns(&job, NULL), step_ns(&plain, NULL));
    ck_assert(balances(&job) && !balances(&plain) && !balances(&ours) && !balances(&dropped));
    ck_assert_int_eq(kept_bytes(&ours) - kept_bytes(&job),
                     blocks * (any_load - choices) * (2 * hidden + 3 * inner) * 2);
    ck_assert_int_eq(kept_bytes(&dropped), kept_bytes(&plain));
    job_close(&plain);
    job_close(&job);
    job_close(&ours);
    job_close(&dropped);
}
END_TEST

/* Context-parallel ranks share out sequences of mixtures whose experts are no power of two, as GLM-4.5, DeepSeek-V2 and
 * Kimi K2 have, whose slots each rank rounds up by itself. */
START_TEST(context_ranks_share_mixtures_of_any_number_of_experts)
{
    static const struct {
        int experts, choices, sequence;
    } all[] = { { 160, 8, 4096 }, { 160, 6, 4096 }, { 384, 8, 8192 }, { 60, 4, 4096 } };
    struct framework routes = framework_of(", \"routes_tokens\": true");
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char text[1024];
        snprintf(
            text, sizeof text,
            "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"experts\", \"sequence\": %d, \"hidden\": 8, "
            "\"vocab_size\": 50, \"layers\": [{\"kind\": \"embedding\"}, {\"kind\": \"attention\", \"heads\": 2, "
            "\"norm\": \"rms_norm\"}, "
            "{\"kind\": \"moe\", \"experts\": %d, \"choices\": %d, \"inner\": 4, \"activation\": \"swiglu\", "
            "\"norm\": \"rms_norm\", \"dropless\": true}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": "
            "\"loss\"}]}",
            all[i].sequence, all[i].experts, all[i].choices);
        union fixed u = fixed_none();
        u.context = 2;
        u.recompute = RECOMPUTE_NONE;
        struct job job = job_of(text, &routes, u, DTYPE_BF16); /* which fails where it cannot be told */
        int64_t slots = 0, choices = (int64_t)all[i].choices * all[i].sequence;
        for (int s = 0; s < job.graph->segment_count; s++) {
            const struct kernel_arguments *a = &job.graph->segments[s].arguments;
            if (job.graph->segments[s].kernel == KERNEL_ROUTE)
                slots = a->slots * a->experts * (all[i].sequence / a->group);
        }
        ck_assert_msg(slots >= choices && slots <= choices + choices / 50, "%d experts: %lld slots for %lld choices",
                      all[i].experts, (long long)slots, (long long)choices);
        job_close(&job);
    }
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
    const struct optimizer usual = { 0 };
    ck_assert_int_eq(optimizer_gradient_bytes(&usual, some.graph->keeping.narrow_gradients, DTYPE_FP16), 2);
    ck_assert_int_eq(optimizer_gradient_bytes(&usual, all.graph->keeping.narrow_gradients, DTYPE_FP32), 4);
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
 * element of a weight under bf16, without ZeRO nothing; nothing else moves. What belongs to states under bf16 does so
 * without ZeRO, too. */
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
    struct framework wide = framework_of(", \"bf16_state_gradient_bytes\": 4");
    for (int zero = 0; zero < 2; zero++) {
        union fixed u = fixed_none();
        u.stages = 1;
        u.zero = zero;
        struct job plain = job_of(NULL, NULL, u, DTYPE_BF16), job = job_of(NULL, &wide, u, DTYPE_BF16);
        int64_t expected = 4 * graph_parameter_count(job.graph) / (zero ? ranks : 1);
        int64_t more = job.program->stages[0].arena_bytes - plain.program->stages[0].arena_bytes;
        ck_assert_int_ge(more, expected);
        ck_assert_int_le(more, expected + job.program->buffer_count * 64);
        job_close(&plain);
        job_close(&job);
    }
}
END_TEST

static int64_t state_bytes(const struct job *job)
{
    int64_t bytes = 0;
    for (int b = 0; b < job->program->buffer_count; b++)
        bytes += job->program->buffers[b].kind == BUFFER_STATE ? job->program->buffers[b].bytes : 0;
    return bytes;
}

/* Of each element of a shard 4 bytes of a copy and so many of moments, with a scale for each block; an update reads and
 * writes them. Offloaded states come and go by so many bytes, and where there are none nothing does. */
START_TEST(optimizers_keep_and_move_what_they_say)
{
    static const struct {
        struct optimizer optimizer;
        int64_t bytes;
    } cases[] = { { { .rule = OPTIMIZER_ADAMW }, 12 },
                  { { .moments = MOMENTS_BF16 }, 8 },
                  { { .moments = MOMENTS_EIGHT }, 6 },
                  { { .rule = OPTIMIZER_MOMENTUM }, 8 },
                  { { .rule = OPTIMIZER_SGD, .master = MASTER_NONE }, 0 } };
    for (int i = 0; i < 10; i++) {
        union fixed u = fixed_none();
        struct error err = { 0 };
        u.stages = 1, u.zero = 1;
        u.offload = i < 5 ? OFFLOAD_NONE : OFFLOAD_OPTIMIZER;
        const struct optimizer *optimizer = &cases[i % 5].optimizer;
        struct job job = job_of(NULL, NULL, u, DTYPE_BF16);
        program_free(job.program);
        job.plan->optimizer = *optimizer;
        ck_assert_msg(plan_check(job.plan, job.graph, &err) && lower_program(&job.program, job.graph, job.plan, &err) &&
                          layout_program(job.program, &err),
                      "%s", err.message);
        int64_t elements = gradient_bytes(&job) / 4, moved = 0, scales = 0, fetched = 0;
        for (int n = 0; n < job.program->stages[0].instr_count; n++) {
            const struct instr *instr = &job.program->stages[0].instrs[n];
            int64_t of_pair, bytes = 0;
            if (instr->op == OP_UPDATE)
                cost_local_work(job.program, instr, &job.program->pairs[instr->pair_first], &of_pair, &bytes);
            if (instr->op == OP_UPDATE && optimizer->moments == MOMENTS_EIGHT)
                scales += 2 * 4 * ((of_pair + 255) / 256);
            moved += bytes;
            if (instr->op == OP_FETCH)
                fetched += job.program->buffers[job.program->pairs[instr->pair_first].source].bytes;
        }
        ck_assert_int_gt(elements, 0);
        ck_assert_int_eq(state_bytes(&job), elements * cases[i % 5].bytes + scales);
        ck_assert_int_eq(moved, elements * (4 + 2 * 2 + 2 * cases[i % 5].bytes) + 2 * scales);
        ck_assert_int_eq(fetched, i < 5 ? 0 : state_bytes(&job));
        job_close(&job);
    }
}
END_TEST

/* Muon keeps one moment of a matrix and two of all else. Its five rounds add 2 (2 n n m + n n n) operations each for a
 * matrix of n x m, n at most m (Jordan et al. 2024), which no device does faster than its peak, and which ranks that
 * share out state divide. */
START_TEST(muon_takes_matrices_and_their_rounds)
{
    for (int zero = 0; zero < 2; zero++) {
        union fixed u = fixed_none();
        struct error err = { 0 };
        u.stages = 1, u.zero = zero;
        struct job adamw = job_of(NULL, NULL, u, DTYPE_BF16), muon = job_of(NULL, NULL, u, DTYPE_BF16);
        program_free(muon.program);
        muon.plan->optimizer.rule = OPTIMIZER_MUON;
        ck_assert_msg(plan_check(muon.plan, muon.graph, &err) &&
                          lower_program(&muon.program, muon.graph, muon.plan, &err),
                      "%s", err.message);
        const struct program *p = muon.program;
        int64_t of_matrices = 0;
        const struct device_type *device = &muon.world.cluster->types[0].device;
        for (int n = 0; n < p->stages[0].instr_count; n++) {
            const struct instr *instr = &p->stages[0].instrs[n], *like = &adamw.program->stages[0].instrs[n];
            if (instr->op != OP_UPDATE)
                continue;
            const struct buffer *gradient = &p->buffers[p->pairs[instr->pair_first].source];
            const struct weight *w = &muon.graph->weights[gradient->id];
            double more = (double)(cost_instr_ns(&muon.world.facts, p, 0, instr) -
                                   cost_instr_ns(&muon.world.facts, adamw.program, 0, like));
            bool named = strstr(w->name, "embedding") || strstr(w->name, "head") || w->dim_count < 2;
            ck_assert_msg(!(w->row_dims && w->column_dims) == named, "%s", w->name);
            int64_t held = buffer_holds(gradient);
            ck_assert_int_eq(p->buffers[p->pairs[instr->pair_first].source + 1].bytes, held * (named ? 12 : 8));
            if (named) {
                ck_assert(fabs(more) < 1);
                continue;
            }
            of_matrices += held;
            double rows = 1, columns = 1;
            for (int d = 0; d < w->dim_count; d++)
                *(w->row_dims >> d & 1 ? &rows : &columns) *= (double)w->size[d];
            double low = fmin(rows, columns), whole = rows * columns;
            double flops = 5 * 2 * (2 * low * whole + low * low * low) * (double)held / whole;
            double saved = 8 * (double)held / (device->memory_bytes_per_s * device->memory_efficiency) * 1e9;
            double least = flops / device->matmul_flops_per_s[DTYPE_BF16] * 1e9;
            ck_assert_msg(more + saved + 2 > least && more > 0, "%s: %g ns, expected %g or more", w->name, more, least);
        }
        ck_assert_int_gt(of_matrices, 0);
        muon.plan->layers[0].zero = 3;
        ck_assert(!plan_check(muon.plan, muon.graph, &err));
        ck_assert_msg(strstr(err.message, "optimizer muon takes whole matrices"), "%s", err.message);
        job_close(&adamw);
        job_close(&muon);
    }
}
END_TEST

static Suite *framework_memory_suite(void)
{
    Suite *suite = suite_create("framework_memory");
    CHECK_ADD(suite, scores_and_probabilities_are_kept);
    CHECK_ADD_LOOP(suite, scores_of_attention_that_is_not_fused_are_kept, (int)(sizeof eager / sizeof *eager));
    CHECK_ADD(suite, norms_and_gates_that_are_not_fused_keep_more);
    CHECK_ADD(suite, clamped_gates_and_latent_norms_keep_more);
    CHECK_ADD(suite, blocks_are_recomputed_whole);
    CHECK_ADD(suite, recomputation_stops_at_what_is_read);
    CHECK_ADD(suite, gathered_inputs_are_gathered_again);
    CHECK_ADD(suite, inputs_of_products_stay_in_fp8);
    CHECK_ADD(suite, operators_are_recomputed_apart);
    CHECK_ADD(suite, gates_inside_keep_no_outputs_of_experts);
    CHECK_ADD(suite, frameworks_that_route_tokens_have_no_empty_slots);
    CHECK_ADD(suite, context_ranks_share_mixtures_of_any_number_of_experts);
    CHECK_ADD(suite, gradients_copies_and_buffers_are_as_the_framework_has_them);
    CHECK_ADD(suite, copies_of_gradients_are_kept);
    CHECK_ADD(suite, optimizers_keep_and_move_what_they_say);
    CHECK_ADD(suite, muon_takes_matrices_and_their_rounds);
    return suite;
}

CHECK_MAIN(framework_memory_suite)
