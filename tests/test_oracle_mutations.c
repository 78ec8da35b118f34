/* Silenced transfers are noticed, or there is a reason why not, and it holds (tests/unnoticeable.h). All transfers of
 * some plans of a GPT-like and a Llama-like model; and of all models' random plans one transfer of each kind: of those
 * plans that have one of a kind that none before has.
 * CLEAVE_ORACLE_PLANS: random plans of each model that are looked at (40, 20 in fp32; half as many of all schedules and
 * shapes). CLEAVE_ORACLE_STRIDE: instead of one of each kind all transfers of these plans, one in so many (1: all, 0:
 * one of each kind; 0, in fp32 101). CLEAVE_ORACLE_SAMPLE: of all these one in so many (1). */
#include "tests/oracle_reference.h"
#include "base/num.h"
#include "planner/program/geometry.h"
#include "tests/random_plans.h"
#include "tests/unnoticeable.h"
#include <stdio.h>

enum { DEFAULT_PLANS = PRECISE ? 40 : 20, DEFAULT_STRIDE = PRECISE ? 0 : 101 };
enum { TRIES = 3 }; /* of a kind, where the first that are silenced may be unnoticed */

static int number_from(const char *variable, int usual)
{
    const char *number = getenv(variable);
    return number ? atoi(number) : usual;
}

/* ---- which transfers are silenced ---- */
struct transfer {
    const struct program *program;
    int stage, index;
    uint64_t kind;
};
/* Of one model's plans, which are borrowed by the programs. */
struct transfers {
    struct transfer *list;
    int count, room;
    bool zeros_too; /* else none that moves nothing but zeros */
    struct program **programs;
    struct plan **plans;
    int program_count;
};

/* The dimensions, as a mask, of the atoms that the transfer spans. */
static int64_t spanned_dimensions(const struct program *program, int stage, const struct instr *instr)
{
    int64_t mask = 0;
    for (int a = 0; instr->layer >= 0 && a < MAX_ATOMS; a++)
        if (instr->atoms >> a & 1 && program->plan->stages[stage].atom[a] > 1)
            mask |= INT64_C(1) << program->plan->layers[instr->layer].dim[a];
    return mask;
}

/* Transfers of one kind do the same to the same content over equal dimensions: they differ in the plan, the layer, the
 * micro-batch, the round and the stage. */
static uint64_t transfer_kind(const struct program *program, int stage, const struct instr *instr)
{
    const struct pair *pair = &program->pairs[instr->pair_first];
    const struct buffer *moved = &program->buffers[pair->source >= 0 ? pair->source : pair->destination];
    const int64_t key[] = { instr->op,
                            instr->lane,
                            instr->phase,
                            instr->again,
                            instr->accumulate,
                            instr->fold,
                            instr->pair_count > 1,
                            moved->kind,
                            spanned_dimensions(program, stage, instr) };
    return hash_bytes(0, key, sizeof key);
}

static bool is_transfer(const struct program *program, int stage, int index)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    bool group = op_info[instr->op].collective &&
                 (instr->op == OP_NORM_REDUCE ? program->plan->rank_count
                                              : geometry_group_size(program->plan, stage, instr->atoms)) > 1;
    return group || instr->op == OP_SEND;
}

static bool knows_kind(const struct transfers *all, int count, uint64_t kind)
{
    for (int t = 0; t < count; t++)
        if (all->list[t].kind == kind)
            return true;
    return false;
}

static void add_transfer(struct transfers *all, const struct transfer *transfer)
{
    if (all->count == all->room)
        all->list = realloc(all->list, (size_t)(all->room = 2 * all->room + 64) * sizeof *all->list);
    ck_assert_ptr_nonnull(all->list);
    all->list[all->count++] = *transfer;
}

/* Takes the plan, and keeps it only if it has a transfer of a kind that none before has. */
static void add_plan(struct transfers *all, const struct reference *r, struct plan *plan)
{
    struct error error = { 0 };
    struct program *program = tiny_lower(r->graph, plan, &error);
    int before = all->count;
    bool brings = false;
    ck_assert_msg(program != NULL, "%s", error.message);
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            struct transfer t = { program, s, i, 0 };
            if (!is_transfer(program, s, i) ||
                (!all->zeros_too && moves_nothing_but_zeros(r, program, &program->stages[s].instrs[i])))
                continue;
            t.kind = transfer_kind(program, s, &program->stages[s].instrs[i]);
            brings = brings || !knows_kind(all, before, t.kind);
            add_transfer(all, &t);
        }
    if (brings) {
        int n = all->program_count++;
        all->programs = realloc(all->programs, (size_t)(n + 1) * sizeof(struct program *));
        all->plans = realloc(all->plans, (size_t)(n + 1) * sizeof(struct plan *));
        all->programs[n] = program, all->plans[n] = plan;
        return;
    }
    all->count = before;
    program_free(program);
    plan_free(plan);
}

static void free_transfers(struct transfers *all)
{
    for (int p = 0; p < all->program_count; p++) {
        program_free(all->programs[p]);
        plan_free(all->plans[p]);
    }
    free(all->programs);
    free(all->plans);
    free(all->list);
}

/* ---- silence ---- */
struct tally {
    int silenced, unnoticed[REASON_COUNT];
};

static const char *layer_name(const struct reference *r, const struct instr *instr)
{
    return instr->layer >= 0 ? r->graph->layers[instr->layer].name : "-";
}

/* True: it was noticed. */
static bool silence(const struct reference *r, const struct transfer *t, struct tally *tally)
{
    const struct instr *instr = &t->program->stages[t->stage].instrs[t->index];
    char why[4096];
    tally->silenced++;
    if (!run_and_compare(r, t->program, t->stage, t->index, why, sizeof why))
        return true;
    enum reason reason = unnoticed_reason(r, t->program, t->stage, t->index);
    tally->unnoticed[reason]++;
    if (reason == REASON_UNKNOWN)
        fprintf(stderr, "%s: silencing stage %d instruction %d %s (layer %s) is not noticed\n", r->graph->model_name,
                t->stage, t->index, op_info[instr->op].name, layer_name(r, instr));
    return false;
}

static void check_tally(const struct reference *r, const struct tally *tally)
{
    ck_assert_msg(tally->unnoticed[REASON_UNKNOWN] == 0, "%s: %d of %d silenced transfers were not noticed",
                  r->graph->model_name, tally->unnoticed[REASON_UNKNOWN], tally->silenced);
}

/* Of the kind of transfer t the turn-th that may stand for it, counted around; others where that is not noticed. True:
 * one was. */
static bool silence_kind(const struct reference *r, const struct transfers *all, int t, int turn, struct tally *tally)
{
    int members = 0, *member = malloc((size_t)all->count * sizeof *member);
    ck_assert_ptr_nonnull(member);
    for (int i = t; i < all->count; i++)
        if (all->list[i].kind == all->list[t].kind)
            member[members++] = i;
    bool noticed = false;
    for (int k = 0, stride = 1 + members / TRIES; k < TRIES && k < members && !noticed; k++)
        noticed = silence(r, &all->list[member[(turn + k * stride) % members]], tally);
    free(member);
    return noticed;
}

static void silence_kinds(const struct reference *r, const struct transfers *all, int turn, struct tally *tally)
{
    int met = 0, kinds = 0, unnoticed = 0, sample = number_from("CLEAVE_ORACLE_SAMPLE", 1);
    for (int t = 0; t < all->count; t++)
        if (!knows_kind(all, t, all->list[t].kind) && (turn + met++) % sample == 0) {
            kinds++;
            unnoticed += !silence_kind(r, all, t, turn, tally);
        }
    ck_assert_msg(unnoticed * 20 <= kinds || sample > 1, "%s: of %d kinds of transfers %d were never noticed",
                  r->graph->model_name, kinds, unnoticed);
}

/* turn: which of a kind, and where a stride begins. */
static void check_mutations(const struct reference *r, const struct transfers *all, int turn)
{
    struct tally tally = { 0 };
    int stride = number_from("CLEAVE_ORACLE_STRIDE", DEFAULT_STRIDE);
    stride = stride < all->count ? stride : all->count; /* one at least */
    if (stride == 0)
        silence_kinds(r, all, turn, &tally);
    for (int t = 0, met = 0; stride > 0 && t < all->count; t++)
        if ((turn + t + 1) % stride == 0 && is_drawn(met++))
            silence(r, &all->list[t], &tally);
    check_tally(r, &tally);
}

/* An op of which no plan has a transfer; NULL: there is none. */
static const char *missing_op(const struct transfers *all)
{
    bool met[OP_COUNT] = { 0 };
    for (int t = 0; t < all->count; t++)
        met[all->list[t].program->stages[all->list[t].stage].instrs[all->list[t].index].op] = true;
    for (int op = 0; op < OP_COUNT; op++)
        if (!met[op] && (op_info[op].collective || op == OP_SEND))
            return op_info[op].name;
    return NULL;
}

START_TEST(silenced_transfers_are_noticed)
{
    struct reference r = make_reference(tiny_models[_i], 1);
    struct transfers all = { 0 };
    int plans = number_from("CLEAVE_ORACLE_PLANS", DEFAULT_PLANS);
    bool wants_all = _i < TINY_CHAINS && plans >= DEFAULT_PLANS; /* models like GPT and Llama have plans with each op */
    for (int n = 0; n < plans || (wants_all && missing_op(&all) && n < 4 * plans); n++) {
        uint64_t seed = (uint64_t)(n * TINY_MODELS + _i);
        add_plan(&all, &r, random_plan(r.graph, seed));
        if (n % 2)
            add_plan(&all, &r, random_shape(r.graph, seed));
    }
    ck_assert_msg(!wants_all || !missing_op(&all), "no plan has op %s", missing_op(&all));
    check_mutations(&r, &all, _i); /* models silence different ones */
    free_transfers(&all);
    free_reference(&r);
}
END_TEST

/* Of a mixture of experts: tokens that are sent, their counts, what comes back, and what the other data-parallel ranks
 * sum. */
START_TEST(silenced_expert_transfers_are_noticed)
{
    struct reference r = make_reference(TINY_DROPLESS, 1);
    struct transfers all = { 0 };
    add_plan(&all, &r, mixture_plan(r.graph, 4 + _i));
    check_mutations(&r, &all, _i);
    free_transfers(&all);
    free_reference(&r);
}
END_TEST

/* ---- all transfers of some plans ---- */
static const struct tiny_choice small_choices[] = {
    { .dp = 4, .tp = 1, .pp = 1, .micro = 1, .zero = 0, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 2, .tp = 1, .pp = 1, .micro = 2, .zero = 1, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 1, .zero = 2, .tp_dim = DIM_tp_sp, .clip = 1, .bucket = 4096 },
    { .dp = 2, .tp = 2, .pp = 1, .micro = 1, .zero = 3, .tp_dim = DIM_tp, .clip = 1, .recompute = RECOMPUTE_FULL },
    { .dp = 1, .tp = 2, .pp = 2, .micro = 2, .zero = 0, .tp_dim = DIM_tp, .clip = 1 },
    { .dp = 2, .tp = 1, .pp = 3, .micro = 2, .zero = 3, .tp_dim = DIM_tp, .clip = 1, .prefetch = 1 },
    { .dp = 1, .tp = 1, .pp = 2, .micro = 4, .tp_dim = DIM_tp, .clip = 1, .turns = { 1, 3 } },
    { .dp = 1, .tp = 2, .pp = 2, .micro = 2, .tp_dim = DIM_tp, .clip = 1, .named = "interleaved", .chunks = 2 },
    { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .zero = 2, .tp_dim = DIM_cp_ring, .clip = 1 },
    { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .zero = 1, .tp_dim = DIM_cp_ulysses, .clip = 1 },
};
enum { SMALL_CHOICES = sizeof small_choices / sizeof *small_choices, MOST_TRANSFERS = 1009 };

/* Takes the plan. number: of its first transfer among those that are drawn. */
static struct tally silence_all(const struct reference *r, struct plan *plan, bool whole, int number)
{
    struct transfers all = { .zeros_too = true };
    struct tally tally = { 0 };
    add_plan(&all, r, plan);
    for (int t = 0; t < all.count; t++)
        if (whole || is_drawn(number + t))
            silence(r, &all.list[t], &tally);
    free_transfers(&all);
    return tally;
}

START_TEST(all_transfers_are_noticed)
{
    bool llama = _i >= SMALL_CHOICES; /* no bias, no table of positions: nothing goes unnoticed */
    struct reference r = make_reference(tiny_models[llama ? 2 : 0], 1);
    struct tally tally =
        silence_all(&r, tiny_plan(r.graph, &small_choices[_i % SMALL_CHOICES]), false, _i * MOST_TRANSFERS);
    check_tally(&r, &tally);
    for (int reason = 0; llama && PRECISE && reason < REASON_COUNT; reason++)
        ck_assert_msg(tally.unnoticed[reason] == 0, "%d of %d: %s", tally.unnoticed[reason], tally.silenced,
                      reason_names[reason]);
    free_reference(&r);
}
END_TEST

/* ---- what goes unnoticed ---- */
static const struct explained {
    enum reason reason;
    int model;
    struct tiny_choice choice;
    int other_layer, other_dim; /* where one layer chooses otherwise; 0: none does */
    bool loss_apart;            /* the last stage computes nothing else */
} explained[] = {
    { REASON_ZEROS, 0, { .dp = 2, .tp = 1, .pp = 1, .micro = 1, .clip = 1 }, 0, 0, false },
    { REASON_TOO_FINE, TINY_ADAPTED, { .dp = 2, .tp = 1, .pp = 1, .micro = 1, .zero = 3, .clip = 1 }, 0, 0, false },
    { REASON_ONE_RANK, 1, { .dp = 1, .tp = 1, .pp = 2, .micro = 1, .clip = 1 }, 0, 0, true },
    { REASON_POSITIONS,
      1,
      { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .zero = 1, .tp_dim = DIM_cp_ulysses, .clip = 1 },
      0,
      0,
      false },
    { REASON_LABELS, TINY_SEEING, { .dp = 1, .tp = 2, .pp = 1, .micro = 8, .tp_dim = DIM_tp, .clip = 1 }, 0, 0, false },
    { REASON_POINTS,
      TINY_SEEING + 1,
      { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_cp_gather, .clip = 1 },
      4,
      DIM_dp,
      false },
    { REASON_OWN_PART,
      1,
      { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_cp_gather, .clip = 1, .recompute = RECOMPUTE_FULL },
      6,
      DIM_none,
      false },
    { REASON_AGAIN,
      0,
      { .dp = 1, .tp = 2, .pp = 1, .micro = 1, .tp_dim = DIM_tp, .clip = 1, .recompute = RECOMPUTE_BLOCK },
      0,
      0,
      false },
};
enum { EXPLAINED = sizeof explained / sizeof *explained };

START_TEST(each_reason_is_met)
{
    const struct explained *e = &explained[_i];
    struct reference r = make_reference(tiny_models[e->model], 1);
    struct plan *plan = tiny_plan(r.graph, &e->choice);
    if (e->other_layer)
        plan->layers[e->other_layer].dim[1] = (int8_t)e->other_dim;
    if (e->loss_apart) {
        plan->stages[0].layer_count = plan->stages[1].first_layer = plan->layer_count - 1;
        plan->stages[1].layer_count = 1;
    }
    bool whole = !small_share() && PRECISE == (e->reason != REASON_TOO_FINE);
    struct tally tally = silence_all(&r, plan, whole, _i * MOST_TRANSFERS);
    check_tally(&r, &tally);
    ck_assert_msg(tally.unnoticed[e->reason] > 0 || !whole, "%s: of %d silenced transfers none says that %s",
                  r.graph->model_name, tally.silenced, reason_names[e->reason]);
    free_reference(&r);
}
END_TEST

static Suite *oracle_mutations_suite(void)
{
    Suite *suite = suite_create("oracle: silenced transfers");
    add_for_models(suite, "silenced_transfers_are_noticed", silenced_transfers_are_noticed);
    CHECK_ADD_LOOP(suite, all_transfers_are_noticed, 2 * SMALL_CHOICES);
    CHECK_ADD_LOOP(suite, each_reason_is_met, EXPLAINED);
    if (PRECISE)
        CHECK_ADD_LOOP(suite, silenced_expert_transfers_are_noticed, 3);
    return suite;
}

int main(void)
{
    return oracle_main(oracle_mutations_suite());
}
