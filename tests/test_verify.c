/* What verify_program() accepts and refuses: every lowered program as it is, and mutants of it. A mutant is one change;
 * those that change the meaning must be noticed. Each class of mutants says which of its members may pass. */
#include "tests/check.h"
#include "base/num.h"
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "planner/program/access.h"
#include "planner/verify/verify.h"
#include "tests/hand_program.h"
#include "tests/lowered_program.h"

enum { RANDOM_PLANS = 200 };

/* A program that may be changed and put back. */
struct patient {
    struct program *program, copy;
    struct stage_program stages[HAND_STAGES], original[HAND_STAGES];
    struct pair *pairs;
    int *operands;
    struct arena arena;
};

static void *twin(struct arena *arena, const void *data, int count, size_t size, int more)
{
    void *copy = arena_alloc(arena, (size_t)(count + more), size);
    if (count)
        memcpy(copy, data, (size_t)count * size);
    return copy;
}

/* Room for one more instruction and pair in each list. */
static void open_patient(struct patient *p, struct program *program)
{
    *p = (struct patient){ .program = program, .copy = *program };
    p->copy.stages = p->stages;
    p->pairs = program->pairs;
    p->operands = program->operands;
    for (int s = 0; s < program->stage_count; s++) {
        p->original[s] = program->stages[s];
        p->stages[s] = program->stages[s];
        p->stages[s].instrs =
            twin(&p->arena, program->stages[s].instrs, program->stages[s].instr_count, sizeof(struct instr), 1);
        p->stages[s].waits = twin(&p->arena, program->stages[s].waits, program->stages[s].wait_count, sizeof(int), 1);
    }
    p->copy.pairs = twin(&p->arena, program->pairs, program->pair_count, sizeof(struct pair), 1);
    p->copy.operands = twin(&p->arena, program->operands, program->operand_count, sizeof(int), 1);
}

static void heal(struct patient *p)
{
    for (int s = 0; s < p->program->stage_count; s++) {
        struct stage_program *list = &p->stages[s];
        memcpy(list->instrs, p->original[s].instrs, (size_t)p->original[s].instr_count * sizeof(struct instr));
        if (p->original[s].wait_count)
            memcpy(list->waits, p->original[s].waits, (size_t)p->original[s].wait_count * sizeof(int));
        list->instr_count = p->original[s].instr_count;
    }
    if (p->program->pair_count)
        memcpy(p->copy.pairs, p->pairs, (size_t)p->program->pair_count * sizeof(struct pair));
    if (p->program->operand_count)
        memcpy(p->copy.operands, p->operands, (size_t)p->program->operand_count * sizeof(int));
}

static bool accepted(const struct patient *p, struct error *err)
{
    *err = (struct error){ 0 };
    return verify_program(&p->copy, err);
}

/* Waits name indices: what moves takes its number along. */
static void renumber(struct stage_program *list, const int *now)
{
    for (int i = 0; i < list->wait_count; i++)
        list->waits[i] = now[list->waits[i]];
}

static void swap_instrs(struct patient *p, int s, int at)
{
    struct stage_program *list = &p->stages[s];
    int *now = calloc((size_t)list->instr_count, sizeof *now);
    for (int i = 0; i < list->instr_count; i++)
        now[i] = i == at ? at + 1 : i == at + 1 ? at : i;
    struct instr held = list->instrs[at];
    list->instrs[at] = list->instrs[at + 1];
    list->instrs[at + 1] = held;
    renumber(list, now);
    free(now);
}

/* Waits for the dropped instruction go to what it waited for on its own lane: the one before it there. */
static void drop_instr(struct patient *p, int s, int at)
{
    struct stage_program *list = &p->stages[s];
    enum lane lane = list->instrs[at].lane;
    int before = at - 1;
    while (before >= 0 && list->instrs[before].lane != lane)
        before--;
    for (int i = 0; i < list->instr_count; i++) {
        struct instr *instr = &list->instrs[i];
        int kept = 0;
        for (int k = 0; k < instr->wait_count; k++) {
            int wait = list->waits[instr->wait_first + k];
            wait = wait == at ? before : wait;
            if (wait >= 0)
                list->waits[instr->wait_first + kept++] = wait > at ? wait - 1 : wait;
        }
        instr->wait_count = kept;
    }
    memmove(&list->instrs[at], &list->instrs[at + 1], (size_t)(list->instr_count - at - 1) * sizeof *list->instrs);
    list->instr_count--;
}

static void repeat_instr(struct patient *p, int s, int at)
{
    struct stage_program *list = &p->stages[s];
    for (int i = 0; i < list->wait_count; i++)
        list->waits[i] += list->waits[i] > at;
    memmove(&list->instrs[at + 1], &list->instrs[at], (size_t)(list->instr_count - at) * sizeof *list->instrs);
    list->instr_count++;
}

/* Would the two, next to each other, conflict? One lane or the other way round does not matter: they touch the same
 * buffer. */
static bool dependent(const struct program *p, const struct instr *a, const struct instr *b)
{
    struct access x, y;
    for (int i = 0; i < access_slots(a); i++)
        for (int k = 0; k < access_slots(b); k++)
            if (access_at(p, a, i, &x) && access_at(p, b, k, &y) && x.buffer == y.buffer && (x.writes || y.writes))
                return true;
    return false;
}

/* Sums may be taken in any order, and so may the parts that later rounds write: swapping two accumulations of one
 * buffer, of which neither reads what the other writes, keeps the meaning. */
static bool commute(const struct program *p, const struct instr *a, const struct instr *b)
{
    struct access x, y;
    for (int i = 0; i < access_slots(a); i++)
        for (int k = 0; k < access_slots(b); k++) {
            if (!access_at(p, a, i, &x) || !access_at(p, b, k, &y) || x.buffer != y.buffer || (!x.writes && !y.writes))
                continue;
            if (!x.writes || !y.writes || x.starts || y.starts)
                return false;
        }
    return a->op != OP_ALL_REDUCE && b->op != OP_ALL_REDUCE && a->op != OP_ALL_GATHER && b->op != OP_ALL_GATHER;
}

/* Doing it twice in a row gives the same: it overwrites, from sources that it leaves alone; a gather or a broadcast in
 * place, what a rank sends among them. */
static bool idempotent(const struct program *p, const struct instr *instr)
{
    struct access access;
    if (instr->op == OP_ALL_GATHER || instr->op == OP_BROADCAST)
        return true;
    for (int slot = 0; slot < access_slots(instr); slot++)
        if (access_at(p, instr, slot, &access) && access.writes && access.reads)
            return false;
    return instr->op != OP_SEND && instr->op != OP_RECEIVE;
}

struct tally {
    int mutants, passed;
};

static void count_mutant(struct patient *p, struct tally *tally, bool must, const char *what, const char *strategy,
                         int s, int i)
{
    struct error err;
    bool passes = accepted(p, &err);
    const struct instr *was = &p->original[s].instrs[i];
    char name[160];
    snprintf(name, sizeof name, "%s %s %s micro %d round %d%s", op_info[was->op].name, phase_names[was->phase],
             was->segment < 0 ? "" : p->program->graph->segments[was->segment].name, was->micro, was->round,
             was->again ? " again" : "");
    tally->mutants++;
    tally->passed += passes;
    ck_assert_msg(!passes || !must, "%s: %s of stage %d instr %d (%s) passes", strategy, what, s, i, name);
    ck_assert_msg(passes || strlen(err.message) > 20, "%s: %s: the message says nothing: %s", strategy, what,
                  err.message);
    heal(p);
}

static void report(const char *strategy, const char *what, const struct tally *tally)
{
    printf("%-26s %-28s %5d mutants, %5d noticed\n", strategy, what, tally->mutants, tally->mutants - tally->passed);
}

/* Every step-th mutant, so that long lists stay affordable. */
static int stride_of(const struct program *p)
{
    int count = 0;
    for (int s = 0; s < p->stage_count; s++)
        count += p->stages[s].instr_count;
    return (1 + count / 400) * share_stride();
}

static void mutate_lists(struct patient *p, const char *name)
{
    struct tally dropped = { 0 }, repeated = { 0 }, swapped = { 0 };
    int stride = stride_of(p->program);
    for (int s = 0; s < p->program->stage_count; s++)
        for (int i = 0; i < p->original[s].instr_count; i += stride) {
            const struct instr *instr = &p->original[s].instrs[i], *next = instr + 1;
            drop_instr(p, s, i);
            count_mutant(p, &dropped, true, "the loss", name, s, i);
            repeat_instr(p, s, i);
            count_mutant(p, &repeated, !idempotent(p->program, instr), "the repetition", name, s, i);
            if (i + 1 == p->original[s].instr_count || !dependent(p->program, instr, next))
                continue;
            swap_instrs(p, s, i);
            count_mutant(p, &swapped, !commute(p->program, instr, next), "the swap", name, s, i);
        }
    report(name, "dropped", &dropped);
    report(name, "repeated", &repeated);
    report(name, "dependent ones swapped", &swapped);
}

/* The waits that lowering and layout give are each needed: none is implied by others. */
static void mutate_waits(struct patient *p, const char *name)
{
    struct tally removed = { 0 };
    for (int s = 0; s < p->program->stage_count; s++)
        for (int i = 0; i < p->original[s].instr_count; i++)
            for (int k = 0; k < p->original[s].instrs[i].wait_count; k++) {
                struct instr *instr = &p->stages[s].instrs[i];
                p->stages[s].waits[instr->wait_first + k] =
                    p->stages[s].waits[instr->wait_first + instr->wait_count - 1];
                instr->wait_count--;
                count_mutant(p, &removed, true, "the missing wait", name, s, i);
            }
    report(name, "waits removed", &removed);
}

/* One more or one less, of what an instruction names. */
static void mutate_names(struct patient *p, const char *name)
{
    struct tally tags = { 0 }, peers = { 0 }, sources = { 0 }, targets = { 0 }, operands = { 0 };
    int stride = stride_of(p->program);
    for (int s = 0; s < p->program->stage_count; s++)
        for (int i = 0; i < p->original[s].instr_count; i += stride) {
            struct instr *instr = &p->stages[s].instrs[i];
            if (instr->tag >= 0) {
                instr->tag++;
                count_mutant(p, &tags, true, "another tag", name, s, i);
                instr->peer_stage = (instr->peer_stage + 1) % (p->program->stage_count + 1);
                count_mutant(p, &peers, true, "another peer", name, s, i);
            }
            for (int k = 0; k < instr->pair_count; k++) {
                struct pair *pair = &p->copy.pairs[instr->pair_first + k];
                if (pair->source >= 0) {
                    pair->source = (pair->source + 1) % p->program->buffer_count;
                    count_mutant(p, &sources, true, "another source", name, s, i);
                }
                if (pair->destination >= 0) {
                    pair->destination = (pair->destination + 1) % p->program->buffer_count;
                    count_mutant(p, &targets, true, "another destination", name, s, i);
                }
            }
            for (int role = 0; role < ROLE_COUNT; role++)
                for (int k = 0; k < MAX_OPERANDS; k++)
                    if (instr_has(instr, (enum role)role, k)) {
                        int *operand = &p->copy.operands[instr_operand_place(instr, (enum role)role, k)];
                        *operand = (*operand + 1) % p->program->buffer_count;
                        count_mutant(p, &operands, true, "another operand", name, s, i);
                    }
        }
    report(name, "other tags and peers", &(struct tally){ tags.mutants + peers.mutants, tags.passed + peers.passed });
    report(name, "other sources", &sources);
    report(name, "other destinations", &targets);
    report(name, "other operands", &operands);
}

static void mutate(struct program *program, const char *name)
{
    struct patient p;
    struct error err;
    open_patient(&p, program);
    ck_assert_msg(accepted(&p, &err), "%s: %s", name, err.message);
    mutate_lists(&p, name);
    mutate_waits(&p, name);
    mutate_names(&p, name);
    ck_assert(accepted(&p, &err));
    arena_free(&p.arena);
}

START_TEST(mutants_are_noticed)
{
    struct lowered l = lowered_program(&strategies[_i]);
    struct error err = { 0 };
    ck_assert_msg(verify_program(l.program, &err), "%s, before layout: %s", strategies[_i].name, err.message);
    ck_assert_msg(layout_program(l.program, &err), "%s", err.message);
    mutate(l.program, strategies[_i].name);
    lowered_free(&l);
}
END_TEST

START_TEST(hand_made_mutants_are_noticed)
{
    struct hand *h = hand_pipeline(_i ? "gpipe" : "1f1b", 3, 4);
    ck_assert(layout_program(h->program, NULL));
    mutate(h->program, _i ? "by hand, gpipe" : "by hand, 1f1b");
    hand_free(h);
}
END_TEST

/* Each layer draws its own dimensions, ZeRO stage, recomputation and slices. Nothing that lowering makes may be
 * refused. */
START_TEST(random_plans_are_accepted)
{
    static const char *const models[] = { "tiny-gpt", "tiny-llama", "tiny-opaque" }, *const orders[] = { "1f1b",
                                                                                                         "gpipe" };
    uint64_t state = mix64((uint64_t)_i + 1);
    int draw[16];
    for (int i = 0; i < 16; i++)
        draw[i] = (int)((state = mix64(state)) % 1000);
    struct strategy s = { "random",
                          models[draw[0] % 3],
                          orders[draw[1] % 2],
                          1 + draw[2] % 3,
                          { 1 + draw[3] % 2, 2 },
                          { "none", "none" },
                          1 + draw[4] % 4,
                          0,
                          0,
                          1,
                          draw[5] % 3,
                          draw[6] % 2 ? 50000 : 0,
                          draw[7] % 2 };
    struct lowered l = lowered_open(&s);
    struct error err = { 0 };
    for (int i = 0; i < l.plan->layer_count; i++) {
        struct plan_layer *layer = &l.plan->layers[i];
        for (int atom = 0; atom < 2; atom++)
            layer->dim[atom] = (int8_t)((state = mix64(state)) % DIM_COUNT);
        layer->zero = (int8_t)((state = mix64(state)) % 4);
        layer->recompute = (int8_t)((state = mix64(state)) % RECOMPUTE_COUNT);
        layer->slices = (int16_t)(1 + (state = mix64(state)) % 2);
        layer->offload = (int8_t)(mix64(state + 1) % OFFLOAD_COUNT);
        layer->reshard = (int8_t)(mix64(state + 2) % RESHARD_COUNT);
        layer->replicate = (uint32_t)mix64(state + 3) & OPERATORS_ALL;
        layer->excepted = mix64(state + 4) & (uint64_t)OPERATORS_EVERY;
    }
    if (plan_check(l.plan, l.graph, &err)) {
        ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%d: %s", _i, err.message);
        ck_assert_msg(verify_program(l.program, &err), "%d, before layout: %s", _i, err.message);
        ck_assert_msg(layout_program(l.program, &err), "%d: %s", _i, err.message);
        ck_assert_msg(verify_program(l.program, &err), "%d: %s", _i, err.message);
    } else {
        ck_assert_msg(strstr(err.message, "plan") != NULL, "%s", err.message);
    }
    lowered_free(&l);
}
END_TEST

/* ---- single facts ---- */
static void refused(struct program *p, const char *part)
{
    struct error err = { 0 };
    ck_assert(!verify_program(p, &err));
    ck_assert_msg(strstr(err.message, part) != NULL, "expected \"%s\" in: %s", part, err.message);
    ck_assert_int_eq(err.kind, ERROR_BUG);
}

/* Stage 0 sends micro-batch 1 only after the gradient of 0 came back; stage 1 computes that after it received 1. */
/* Replicas that take turns each have a gradient: one that is put in place of another's instead of added to it. */
START_TEST(copies_of_weights_are_summed)
{
    int tried = 0;
    for (int k = 0; k < STRATEGY_COUNT; k++) {
        struct lowered l;
        struct error err = { 0 };
        if (strcmp(strategies[k].name, "turns") != 0)
            continue;
        l = lowered_program(&strategies[k]);
        ck_assert_msg(layout_program(l.program, &err) && verify_program(l.program, &err), "%s", err.message);
        for (int s = 0; s < l.program->stage_count; s++)
            for (int i = 0; i < l.program->stages[s].instr_count; i++) {
                struct instr *instr = &l.program->stages[s].instrs[i];
                if (instr->op != OP_ADD || instr->phase != PHASE_STEP)
                    continue;
                instr->accumulate = false;
                err = (struct error){ 0 };
                ck_assert_msg(!verify_program(l.program, &err), "stage %d instr %d", s, i);
                instr->accumulate = true;
                tried++;
            }
        ck_assert(verify_program(l.program, &err));
        lowered_free(&l);
    }
    ck_assert_int_gt(tried, 10);
}
END_TEST

START_TEST(a_stall_names_its_cycle)
{
    struct hand *h = hand_pipeline("gpipe", 2, 2);
    struct stage_program *list = &h->program->stages[0];
    int send = -1, receive = -1;
    for (int i = 0; i < list->instr_count; i++) {
        send = list->instrs[i].op == OP_SEND ? i : send;
        receive = receive < 0 && list->instrs[i].op == OP_RECEIVE ? i : receive;
    }
    struct instr held = list->instrs[send];
    memmove(&list->instrs[send], &list->instrs[send + 1], (size_t)(receive - send) * sizeof held);
    for (int i = 0; i < list->wait_count; i++)
        list->waits[i] -= list->waits[i] > send && list->waits[i] <= receive;
    list->instrs[receive] = held;
    list->waits[list->wait_count] = list->waits[held.wait_first];
    list->waits[list->wait_count + 1] = receive - 1;
    list->instrs[receive].wait_first = list->wait_count;
    list->instrs[receive].wait_count = 2;
    list->wait_count += 2;
    refused(h->program, "the program stalls: stage ");
    refused(h->program, "waits for stage 1 instr");
    hand_free(h);
}
END_TEST

START_TEST(overlap_is_refused)
{
    struct hand *h = hand_pipeline("gpipe", 1, 2);
    ck_assert(layout_program(h->program, NULL));
    int a = *hand_value(h, 0, 0, 0), b = *hand_value(h, 0, 0, 1);
    h->program->buffers[b].offset = h->program->buffers[a].offset;
    refused(h->program, "whose bytes buffer");
    hand_free(h);
}
END_TEST

START_TEST(persistent_bytes_are_not_reused)
{
    struct hand *h = hand_pipeline("gpipe", 1, 2);
    ck_assert(layout_program(h->program, NULL));
    h->program->buffers[*hand_value(h, 0, 0, 0)].offset = h->program->buffers[h->weight[0]].offset;
    refused(h->program, "lasts the whole step");
    h->program->buffers[*hand_value(h, 0, 0, 0)].offset = h->program->stages[0].arena_bytes;
    refused(h->program, "outside the arena");
    h->program->buffers[h->weight_gradient[0]].offset = h->program->buffers[h->weight[0]].offset;
    h->program->buffers[*hand_value(h, 0, 0, 0)].offset = 0;
    refused(h->program, "both last the whole step");
    hand_free(h);
}
END_TEST

/* Puts an input and its gradient above all else, the gradient so many bytes higher. */
static void put_above(struct program *p, int64_t top, const struct instr *instr, int64_t higher)
{
    struct buffer *input = &p->buffers[instr_operand(p, instr, ROLE_IN, 0)],
                  *gradient = &p->buffers[instr_operand(p, instr, ROLE_GRADIENT_IN, 0)];
    input->offset = top;
    gradient->offset = top + higher;
    p->stages[0].arena_bytes = top + higher + round_up(gradient->bytes, ARENA_ALIGNMENT_BYTES);
}

/* The gradient of logits may lie byte for byte where they do, but not askew; that of queries must not, of which each is
 * read for gradients of many keys. Neither input is read later. */
START_TEST(gradients_lie_over_inputs_where_kernels_allow_it)
{
    struct strategy strategy = strategies[0];
    strategy.model = "tiny-llama";
    struct lowered l = lowered_program(&strategy);
    struct error err = { 0 };
    ck_assert(layout_program(l.program, &err));
    struct stage_program *list = &l.program->stages[0];
    const int64_t top = list->arena_bytes;
    int tried = 0;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        bool back = instr->op == OP_COMPUTE && instr->phase == PHASE_BACKWARD_INPUT;
        enum kernel kernel = back ? l.graph->segments[instr->segment].kernel : KERNEL_COUNT;
        if (kernel != KERNEL_SUM_EXP && kernel != KERNEL_ATTENTION)
            continue;
        int64_t bytes = l.program->buffers[instr_operand(l.program, instr, ROLE_IN, 0)].bytes, was[2];
        struct buffer *input = &l.program->buffers[instr_operand(l.program, instr, ROLE_IN, 0)],
                      *gradient = &l.program->buffers[instr_operand(l.program, instr, ROLE_GRADIENT_IN, 0)];
        was[0] = input->offset, was[1] = gradient->offset;
        put_above(l.program, top, instr, round_up(bytes, ARENA_ALIGNMENT_BYTES));
        ck_assert_msg(verify_program(l.program, &err), "%s", err.message);
        put_above(l.program, top, instr, ARENA_ALIGNMENT_BYTES);
        refused(l.program, "whose bytes buffer");
        put_above(l.program, top, instr, 0);
        if (kernel == KERNEL_ATTENTION)
            refused(l.program, "whose bytes buffer");
        else
            ck_assert_msg(verify_program(l.program, &err), "%s", err.message);
        input->offset = was[0], gradient->offset = was[1];
        tried++;
    }
    ck_assert_int_eq(tried, strategy.micros * 3); /* two layers of attention and the loss */
    lowered_free(&l);
}
END_TEST

/* A sender that offers micro-batch 1 before 0 hangs a receiver that asks for 0 first. */
START_TEST(channels_keep_their_order)
{
    struct hand *h = hand_pipeline("gpipe", 2, 2);
    struct stage_program *list = &h->program->stages[1];
    int first = -1, second = -1;
    for (int i = 0; i < list->instr_count; i++) {
        if (list->instrs[i].op != OP_SEND)
            continue;
        second = first < 0 ? -1 : i;
        first = first < 0 ? i : first;
    }
    struct instr held =
        list->instrs[first]; /* the sends trade places at the end of the list, where both results are there */
    memmove(&list->instrs[first], &list->instrs[first + 1], (size_t)(second - first) * sizeof held);
    for (int i = 0; i < list->wait_count; i++)
        list->waits[i] -= list->waits[i] > first && list->waits[i] <= second;
    list->instrs[second] = held;
    refused(h->program, "receives it first");
    hand_free(h);
}
END_TEST

START_TEST(nobody_passes_a_norm_reduce)
{
    struct hand *h = hand_pipeline("gpipe", 2, 1);
    for (int s = 0; s < 2; s++) {
        int scalar = hand_buffer(h, BUFFER_SCALAR, s, -1, -1);
        h->program->buffers[scalar].is_weight = false;
        hand_pair(h, hand_instr(h, s, OP_ZERO, LANE_COMPUTE, -1), -1, scalar);
        struct instr *instr = hand_instr(h, s, OP_NORM_REDUCE, LANE_DP, -1);
        instr->atoms = 1;
        hand_pair(h, instr, scalar, scalar);
        hand_wait(h, s, scalar);
    }
    struct error err = { 0 };
    ck_assert_msg(verify_program(h->program, &err), "%s", err.message);
    struct stage_program *list = &h->program->stages[1]; /* stage 1 reduces before all else */
    struct instr zero = list->instrs[list->instr_count - 2], reduce = list->instrs[list->instr_count - 1];
    memmove(&list->instrs[2], &list->instrs[0], (size_t)(list->instr_count - 2) * sizeof zero);
    for (int i = 0; i < list->wait_count - 1; i++)
        list->waits[i] += 2;
    list->waits[list->wait_count - 1] = 0;
    list->instrs[0] = zero;
    list->instrs[1] = reduce;
    refused(h->program, "norm-reduce");
    hand_free(h);
}
END_TEST

static Suite *verify_suite(void)
{
    Suite *suite = suite_create("verify");
    CHECK_ADD(suite, overlap_is_refused);
    CHECK_ADD(suite, persistent_bytes_are_not_reused);
    CHECK_ADD(suite, gradients_lie_over_inputs_where_kernels_allow_it);
    CHECK_ADD(suite, channels_keep_their_order);
    CHECK_ADD(suite, nobody_passes_a_norm_reduce);
    CHECK_ADD(suite, copies_of_weights_are_summed);
    CHECK_ADD(suite, a_stall_names_its_cycle);
    TCase *mutants = tcase_create("mutants");
    tcase_set_timeout(mutants, 0);
    tcase_add_loop_test(mutants, hand_made_mutants_are_noticed, 0, 2);
    tcase_add_loop_test(mutants, mutants_are_noticed, 0, STRATEGY_COUNT);
    tcase_add_loop_test(mutants, random_plans_are_accepted, 0, RANDOM_PLANS);
    suite_add_tcase(suite, mutants);
    return suite;
}

CHECK_MAIN(verify_suite)
