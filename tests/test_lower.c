/* Lowering: over a list of strategies the properties that every program must have; buckets, prefetch, layers alone. */
#include "planner/layout/layout.h"
#include "planner/lower/lower.h"
#include "tests/check.h"
#include "tests/lowered_program.h"
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include "planner/program/recipe.h"
#include "planner/verify/verify.h"

/* ---- properties of every program ---- */
static void check_waits(const struct strategy *s, const struct program *program)
{
    for (int k = 0; k < program->stage_count; k++) {
        const struct stage_program *stage = &program->stages[k];
        for (int i = 0; i < stage->instr_count; i++) {
            const struct instr *instr = &stage->instrs[i];
            ck_assert_int_le(instr->wait_first + instr->wait_count, stage->wait_count);
            for (int w = 0; w < instr->wait_count; w++) {
                int on = stage->waits[instr->wait_first + w];
                ck_assert_msg(on >= 0 && on < i, "%s: stage %d instruction %d waits for %d", s->name, k, i, on);
                ck_assert_msg(stage->instrs[on].lane != instr->lane,
                              "%s: stage %d instruction %d waits in its own lane", s->name, k, i);
            }
        }
    }
}

/* (n, words) bits: bit j of row i says that instruction j has finished when i starts. A closure over lanes and waits.
 */
static uint64_t *finished_before(const struct stage_program *stage, size_t words)
{
    uint64_t *before = calloc((size_t)stage->instr_count * words + 1, sizeof *before);
    int last[LANE_COUNT];
    memset(last, -1, sizeof last);
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        uint64_t *row = before + (size_t)i * words;
        for (int w = -1; w < instr->wait_count; w++) {
            int on = w < 0 ? last[instr->lane] : stage->waits[instr->wait_first + w];
            for (size_t j = 0; on >= 0 && j < words; j++)
                row[j] |= before[(size_t)on * words + j];
            if (on >= 0)
                row[on / 64] |= UINT64_C(1) << on % 64;
        }
        last[instr->lane] = i;
    }
    return before;
}

/* What a stage's instructions touch, in their order. */
struct touch {
    int instr;
    struct access access;
};
static struct touch *touches_of(const struct program *program, const struct stage_program *stage, int *count)
{
    int capacity = 0;
    *count = 0;
    for (int i = 0; i < stage->instr_count; i++)
        capacity += access_slots(&stage->instrs[i]);
    struct touch *list = calloc((size_t)capacity + 1, sizeof *list);
    for (int i = 0; i < stage->instr_count; i++)
        for (int slot = 0; slot < access_slots(&stage->instrs[i]); slot++)
            if (access_at(program, &stage->instrs[i], slot, &list[*count].access))
                list[(*count)++].instr = i;
    return list;
}

/* Brute force: all pairs of accesses that must not swap are ordered by lanes and waits. */
static void check_order(const struct strategy *s, const struct program *program, int k)
{
    const struct stage_program *stage = &program->stages[k];
    size_t words = (size_t)stage->instr_count / 64 + 1;
    uint64_t *before = finished_before(stage, words);
    int count;
    struct touch *list = touches_of(program, stage, &count);
    for (int x = 0; x < count; x++) {
        for (int y = 0; y < x; y++) {
            const struct touch *a = &list[x], *b = &list[y];
            if (a->access.buffer != b->access.buffer || a->instr == b->instr)
                continue;
            bool ordered = before[(size_t)a->instr * words + (size_t)b->instr / 64] >> b->instr % 64 & 1;
            ck_assert_msg(ordered || !(a->access.writes || b->access.writes),
                          "%s: stage %d: %d and %d both touch buffer %d in no order", s->name, k, b->instr, a->instr,
                          a->access.buffer);
        }
    }
    free(list);
    free(before);
}

/* Read only after a definition; one life per buffer, but for what the next step reads and for
 * sums and weights of which there are several updates. */
static void check_definitions(const struct strategy *s, const struct program *program)
{
    int *defined = calloc((size_t)program->buffer_count, sizeof *defined);
    for (int b = 0; b < program->buffer_count; b++)
        defined[b] = buffer_outlives_step(&program->buffers[b]);
    for (int k = 0; k < program->stage_count; k++) {
        for (int i = 0; i < program->stages[k].instr_count; i++) {
            const struct instr *instr = &program->stages[k].instrs[i];
            struct access access;
            for (int slot = 0; slot < access_slots(instr); slot++) {
                if (!access_at(program, instr, slot, &access))
                    continue;
                ck_assert_int_eq(program->buffers[access.buffer].stage, k);
                ck_assert_msg(!access.reads || defined[access.buffer],
                              "%s: stage %d instruction %d (%s) reads buffer %d, which nothing defined", s->name, k, i,
                              op_info[instr->op].name, access.buffer);
            }
            for (int slot = 0; slot < access_slots(instr); slot++) {
                if (!access_at(program, instr, slot, &access) || !access_renews(program, instr, &access))
                    continue;
                bool again =
                    instr->part == STEP_AHEAD ||
                    (program->buffers[access.buffer].persistent &&
                     (program->buffers[access.buffer].host || schedules[program->plan->schedule]->asynchronous));
                ck_assert_msg(++defined[access.buffer] == 1 || again,
                              "%s: stage %d instruction %d begins buffer %d anew", s->name, k, i, access.buffer);
            }
        }
    }
    free(defined);
}

/* The n-th message from one stage to another has the same tag on both sides. */
static void check_messages(const struct strategy *s, const struct program *program)
{
    for (int from = 0; from < program->stage_count; from++) {
        for (int to = 0; to < program->stage_count; to++) {
            const struct stage_program *a = &program->stages[from], *b = &program->stages[to];
            for (int i = 0, j = 0;; i++, j++) {
                while (i < a->instr_count && !(a->instrs[i].op == OP_SEND && a->instrs[i].peer_stage == to))
                    i++;
                while (j < b->instr_count && !(b->instrs[j].op == OP_RECEIVE && b->instrs[j].peer_stage == from))
                    j++;
                ck_assert_int_eq(i == a->instr_count, j == b->instr_count);
                if (i == a->instr_count)
                    break;
                ck_assert_msg(a->instrs[i].tag == b->instrs[j].tag, "%s: tag %d meets %d", s->name, a->instrs[i].tag,
                              b->instrs[j].tag);
                const struct pair *p = &program->pairs[a->instrs[i].pair_first],
                                  *q = &program->pairs[b->instrs[j].pair_first];
                ck_assert_int_eq(p->source, q->source);
                ck_assert_int_eq(p->destination, q->destination);
            }
        }
    }
}

/* Every trainable weight is updated as often as the schedule says on each stage that holds it and counted in one norm.
 */
static void check_step(const struct strategy *s, const struct lowered *l)
{
    int gradients = 0, updates = count_pairs(l->program, OP_UPDATE, PHASE_STEP, -1), parts = 0;
    for (int b = 0; b < l->program->buffer_count; b++) {
        const struct buffer *buffer = &l->program->buffers[b];
        if (buffer->kind != BUFFER_GRADIENT)
            continue;
        gradients++;
        int state = geometry_state_buffer(l->program, b);
        ck_assert_int_eq(state, b + 1);
        ck_assert_int_eq(buffer_holds(&l->program->buffers[state]), buffer_holds(buffer));
        bool first = true;
        for (int c = 0; c < b; c++)
            first &= !(l->program->buffers[c].kind == BUFFER_GRADIENT && l->program->buffers[c].id == buffer->id &&
                       l->program->buffers[c].stage != buffer->stage);
        parts += first;
    }
    int each = schedule_updates(l->plan), versions = 0, fetched = 0; /* pairs that name the version before, the state */
    for (int b = 0; b < l->program->buffer_count; b++) {
        versions += l->program->buffers[b].version == 1 && l->program->buffers[b].version_count > 1;
        fetched += l->program->buffers[b].kind == BUFFER_STATE && l->program->buffers[b].host;
    }
    ck_assert_int_eq(updates, each * ((s->clip_norm > 0 ? 2 : 1) * gradients + versions + fetched));
    ck_assert_int_eq(count_pairs(l->program, OP_NORM, PHASE_STEP, -1), s->clip_norm > 0 ? parts : 0);
}

static void check_loss(const struct lowered *l)
{
    for (int m = 0; m < l->plan->micro_batch_count && l->graph->loss_value >= 0; m++) {
        int stage = plan_stage_of_work(l->plan, l->graph->layer_count - 1, m);
        for (int s = 0; s < l->plan->stage_count; s++)
            ck_assert_int_eq(program_loss(l->program, s, m) >= 0, s == stage);
        int buffer = program_loss(l->program, stage, m);
        ck_assert_int_eq(l->program->buffers[buffer].micro, m);
        ck_assert_int_eq(buffer_holds(&l->program->buffers[buffer]), 1);
    }
}

static void check_properties(const struct strategy *s)
{
    struct lowered l = lower_one(s);
    struct error err = { 0 };
    check_waits(s, l.program);
    check_definitions(s, l.program);
    check_messages(s, l.program);
    check_step(s, &l);
    check_loss(&l);
    ck_assert_msg(layout_program(l.program, &err), "%s: %s", s->name, err.message);
    ck_assert_msg(verify_program(l.program, &err), "%s: %s", s->name, err.message);
    lowered_free(&l);
}

START_TEST(listed_strategies_hold)
{
    for (int i = 0; i < STRATEGY_COUNT; i++) {
        check_properties(&strategies[i]);
        struct lowered l = lower_one(&strategies[i]);
        for (int k = 0; k < l.program->stage_count; k++)
            check_order(&strategies[i], l.program, k);
        lowered_free(&l);
    }
}
END_TEST

/* All pairs of dimensions on a mesh of 2 x 2, by ZeRO stage; the other switches take turns. */
START_TEST(all_dimensions_hold)
{
    static const int stage_counts[] = { 1, 2, 3 };
    int turn = 0;
    for (int a = 0; a < DIM_COUNT; a++) {
        for (int b = 0; b < DIM_COUNT; b++) {
            for (int zero = 0; zero <= 3; zero++) {
                int recompute = turn / 4 % RECOMPUTE_COUNT;
                char name[96];
                snprintf(name, sizeof name, "%s x %s, zero %d, %s recomputation, turn %d", dimensions[a]->name,
                         dimensions[b]->name, zero, recompute_names[recompute], turn);
                struct strategy s = { name,
                                      turn % 5 < 2 ? "tiny-llama" : "tiny-gpt",
                                      turn % 2 ? "gpipe" : "1f1b",
                                      stage_counts[turn % 3],
                                      { 2, 2 },
                                      { dimensions[a]->name, dimensions[b]->name },
                                      1 + turn / 2 % 4,
                                      zero,
                                      recompute,
                                      1 + (turn % 7 == 0),
                                      turn % 4 == 3 ? 2 : 0,
                                      turn % 3 ? 0 : 50000,
                                      turn % 2 };
                if (in_share((uint64_t)turn++))
                    check_properties(&s);
            }
        }
    }
}
END_TEST

/* Neighbouring layers of other dimensions: what lies between is derived too. */
START_TEST(changing_dimensions_hold)
{
    struct strategy s = { "layers in turn", "tiny-gpt", "1f1b", 2, { 2, 2 }, { "dp", "tp" }, 2, 0, 0, 1, 1, 0, 1 };
    for (int shift = 0; shift < DIM_COUNT * DIM_COUNT * 4; shift += share_stride()) {
        struct lowered l = lowered_open(&s);
        struct error err = { 0 };
        for (int i = 0; i < l.graph->layer_count; i++) {
            int draw = shift + i * (1 + shift % 5);
            l.plan->layers[i] =
                (struct plan_layer){ .dim = { (int8_t)(draw % DIM_COUNT), (int8_t)(draw / DIM_COUNT % DIM_COUNT) },
                                     .zero = (int8_t)(draw / 3 % 4),
                                     .recompute = (int8_t)(draw / 5 % 3),
                                     .slices = 1 };
        }
        ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "turn %d: %s", shift, err.message);
        check_waits(&s, l.program);
        check_definitions(&s, l.program);
        check_messages(&s, l.program);
        ck_assert_msg(layout_program(l.program, &err) && verify_program(l.program, &err), "turn %d: %s", shift,
                      err.message);
        lowered_free(&l);
    }
}
END_TEST

/* ---- buckets and prefetch ---- */
START_TEST(buckets_fill_up)
{
    struct strategy s = { "buckets", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 0, 0, 1, 0, 0, 0 };
    struct lowered plain = lower_one(&s);
    s.bucket_bytes = 60000;
    struct lowered fused = lower_one(&s);
    int pairs = 0, below = 0;
    const struct program *program = fused.program;
    for (int i = 0; i < program->stages[0].instr_count; i++) {
        const struct instr *instr = &program->stages[0].instrs[i];
        if (instr->op != OP_ALL_REDUCE)
            continue;
        int64_t bytes = 0, last = 0;
        for (int p = 0; p < instr->pair_count; p++)
            bytes += last = program->buffers[program->pairs[instr->pair_first + p].source].bytes;
        ck_assert_int_lt(bytes - last, s.bucket_bytes);
        below += bytes < s.bucket_bytes;
        pairs += instr->pair_count;
    }
    ck_assert_int_le(below, 1); /* what was left at the end */
    ck_assert_int_eq(pairs, count_pairs(plain.program, OP_ALL_REDUCE, PHASE_COUNT, -1));
    ck_assert_int_eq(pairs, plain.graph->weight_count);
    lowered_free(&plain);
    lowered_free(&fused);
}
END_TEST

/* Reductions overlap the backward pass: some are issued before its last instruction, none before its weight's last
 * contribution. */
START_TEST(reductions_start_early)
{
    struct strategy s = { "overlap", "tiny-llama", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 0, 0, 1, 0, 0, 0 };
    struct lowered l = lower_one(&s);
    const struct stage_program *stage = &l.program->stages[0];
    int last_backward = 0, early = 0;
    for (int i = 0; i < stage->instr_count; i++) {
        if (stage->instrs[i].op == OP_COMPUTE)
            last_backward = i;
    }
    for (int i = 0; i < stage->instr_count; i++) {
        early += stage->instrs[i].op == OP_ALL_REDUCE && i < last_backward;
        if (stage->instrs[i].op != OP_ALL_REDUCE)
            continue;
        int gradient = l.program->pairs[stage->instrs[i].pair_first].source;
        for (int j = i + 1; j < stage->instr_count; j++) {
            for (int k = 0; k < MAX_OPERANDS; k++)
                ck_assert_int_ne(instr_operand(l.program, &stage->instrs[j], ROLE_GRADIENT_WEIGHT, k), gradient);
        }
    }
    ck_assert_int_eq(early, l.graph->weight_count - 1); /* all but that of the embedding, which is the last */
    lowered_free(&l);
}
END_TEST

START_TEST(gathers_are_hoisted)
{
    struct strategy s = { "prefetch", "tiny-llama", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 3, 0, 1, 1, 0, 0 };
    struct lowered l = lower_one(&s);
    const struct stage_program *stage = &l.program->stages[0];
    int seen = 0, layer = -1, opened = 0,
        before = 0; /* where the layer at hand and the one before it began to compute */
    for (int i = 0; i < stage->instr_count; i++) {
        const struct instr *instr = &stage->instrs[i];
        if (instr->op != OP_COMPUTE)
            continue;
        if (instr->layer != layer) {
            before = opened;
            opened = i;
            layer = instr->layer;
        }
        for (int k = 0; k < MAX_OPERANDS && seen >= 0; k++) {
            int weight = instr_operand(l.program, instr, ROLE_WEIGHT, k), at = 0;
            if (weight < 0 || l.program->buffers[weight].kind != BUFFER_WEIGHT_USE || before == 0)
                continue;
            for (int j = 0; j < i; j++) {
                if (stage->instrs[j].op == OP_ALL_GATHER &&
                    l.program->pairs[stage->instrs[j].pair_first].destination == weight)
                    at = j;
            }
            ck_assert_int_lt(at, opened);
            seen += at < before;
        }
    }
    ck_assert_int_gt(seen, 2 * l.graph->weight_count);
    lowered_free(&l);
}
END_TEST

/* ---- one micro-batch is like the other ---- */
/* The next COMPUTE of the micro-batch like that one: of its phase and layer. */
static int next_of_micro(const struct stage_program *stage, int from, int micro, const struct instr *like)
{
    while (from < stage->instr_count &&
           (stage->instrs[from].op != OP_COMPUTE || stage->instrs[from].micro != micro ||
            stage->instrs[from].phase != like->phase || stage->instrs[from].layer != like->layer))
        from++;
    return from;
}

static bool same_but_micro(const struct program *program, int a, int b)
{
    if (a < 0 || b < 0)
        return a == b;
    struct buffer x = program->buffers[a], y = program->buffers[b];
    x.micro = y.micro = 0;
    return !memcmp(&x.layout, &y.layout, sizeof x.layout) && x.kind == y.kind && x.id == y.id && x.bytes == y.bytes &&
           x.stage == y.stage && x.part == y.part && x.ring_round == y.ring_round && x.persistent == y.persistent;
}

/* What a micro-batch computes on a stage is what the other does, with buffers of its own. The first one's gradients of
 * weights are defined, not added to. Phases and layers may come in another order. */
static void check_alike(const char *name, const struct program *program, int number, int one, int other, bool defines)
{
    const struct stage_program *stage = &program->stages[number];
    for (int a = 0, b; a < stage->instr_count; a++) {
        const struct instr *x = &stage->instrs[a];
        if (x->op != OP_COMPUTE || x->micro != one)
            continue;
        int place = 0;
        for (int k = next_of_micro(stage, 0, one, x); k < a; k = next_of_micro(stage, k + 1, one, x))
            place++;
        for (b = next_of_micro(stage, 0, other, x); place > 0 && b < stage->instr_count; place--)
            b = next_of_micro(stage, b + 1, other, x);
        ck_assert_msg(b < stage->instr_count, "%s: stage %d: micro-batch %d computes less than %d", name, number, other,
                      one);
        const struct instr *y = &stage->instrs[b];
        bool same = x->segment == y->segment && x->round == y->round && x->again == y->again && x->late == y->late &&
                    x->first == y->first && x->operands == y->operands && (!defines || x->define == y->define);
        ck_assert_msg(same, "%s: stage %d: instructions %d and %d of micro-batches %d and %d differ", name, number, a,
                      b, one, other);
        for (int k = 0; k < count_bits(x->operands); k++) {
            int first = program->operands[x->operand_first + k], second = program->operands[y->operand_first + k];
            int micro = program->buffers[first].micro;
            ck_assert_msg(same_but_micro(program, first, second), "%s: stage %d: operand %d of instructions %d and %d",
                          name, number, k, a, b);
            ck_assert_msg(micro < 0 || micro == one, "%s: stage %d instruction %d of micro-batch %d touches %d's", name,
                          number, a, one, micro);
            ck_assert_msg(micro < 0 || one == other || first != second,
                          "%s: stage %d: instructions %d and %d share buffer %d", name, number, a, b, first);
        }
    }
}

/* The first and the last one find what no other does: the gradients of the weights begin and end with them. */
START_TEST(micro_batches_are_alike)
{
    for (int i = 0; i < STRATEGY_COUNT; i++) {
        struct strategy s = strategies[i];
        s.micros = 6;
        struct lowered l = lower_one(&s);
        int period = plan_copies(l.plan);
        bool looks = !schedules[l.plan->schedule]->asynchronous;
        for (int k = 0; k < l.program->stage_count && looks; k++)
            for (int micro = 0; micro < s.micros && plan_stage_turns(l.plan, k - l.plan->stages[k].turn) == 1;
                 micro++) {
                check_alike(s.name, l.program, k, micro, micro % period, false);
                check_alike(s.name, l.program, k, micro, s.micros - period + micro % period, micro >= period);
            }
        lowered_free(&l);
    }
}
END_TEST

static Suite *lower_suite(void)
{
    Suite *suite = suite_create("lower");
    CHECK_ADD(suite, listed_strategies_hold);
    CHECK_ADD(suite, all_dimensions_hold);
    CHECK_ADD(suite, micro_batches_are_alike);
    CHECK_ADD(suite, changing_dimensions_hold);
    CHECK_ADD(suite, buckets_fill_up);
    CHECK_ADD(suite, reductions_start_early);
    CHECK_ADD(suite, gathers_are_hoisted);
    return suite;
}

CHECK_MAIN(lower_suite)
