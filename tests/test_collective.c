/* Collectives over random meshes and layouts, held against what the layouts say each rank must have. */
#define _POSIX_C_SOURCE 200809L
#include "base/num.h"
#include "executor/collective.h"
#include "executor/kernel.h"
#include "planner/program/geometry.h"
#include "tests/parties.h"
#include "tests/random_numbers.h"
#include <string.h>

struct world {
    struct graph graph;
    struct value value;
    struct plan plan;
    struct plan_stage stage;
    struct program program;
    struct buffer buffers[2];
    struct pair pair;
    struct stage_program list;
    struct instr instr;
    unsigned char *arenas[MAX_RANKS];
    bool muted;
};

static int64_t flat_index(const struct value *value, const int64_t at[MAX_DIMS])
{
    int64_t index = 0;
    for (int d = 0; d < value->dim_count; d++)
        index = index * value->size[d] + at[d];
    return index;
}

/* A small whole number: sums are exact in any order. `partial` names which addend. */
static real addend(int64_t index, unsigned partial)
{
    return (real)((int)(mix64((uint64_t)index * 97 + partial) % 17) - 8);
}

static unsigned partial_of(const struct world *w, const struct layout *layout, int rank)
{
    unsigned name = 0;
    for (int a = 0; a < w->plan.atom_count; a++)
        name = name * 16 +
               (layout->kind[a] == LAYOUT_PARTIAL ? (unsigned)plan_atom_coordinate(&w->plan, 0, rank, a) + 1 : 0);
    return name;
}

static void next_in(const struct block *block, int64_t at[MAX_DIMS])
{
    for (int d = block->dim_count - 1; d >= 0; d--) {
        if (++at[d] < block->low[d] + block->count[d])
            return;
        at[d] = block->low[d];
    }
}

/* What lies with one rank of a group lies with its first. */
static bool holds(const struct world *w, int buffer, int rank)
{
    for (int a = 0; a < w->plan.atom_count; a++)
        if (w->buffers[buffer].layout.kind[a] == LAYOUT_ROOT && plan_atom_coordinate(&w->plan, 0, rank, a) > 0)
            return false;
    return true;
}

/* The ranks whose addends end on one rank, by the names of their addends. */
struct terms {
    int count;
    unsigned name[MAX_RANKS];
};

static struct terms terms_of(const struct world *w, int rank)
{
    const struct layout *from = &w->buffers[0].layout, *to = &w->buffers[1].layout;
    struct terms terms = { 0 };
    for (int other = 0; other < w->plan.rank_count; other++) {
        bool counts = true;
        for (int a = 0; a < w->plan.atom_count; a++)
            counts &= (from->kind[a] == LAYOUT_PARTIAL && to->kind[a] != LAYOUT_PARTIAL && !w->muted) ||
                      plan_atom_coordinate(&w->plan, 0, other, a) ==
                          (from->kind[a] == LAYOUT_ROOT ? 0 : plan_atom_coordinate(&w->plan, 0, rank, a));
        if (counts)
            terms.name[terms.count++] = partial_of(w, from, other);
    }
    return terms;
}

/* Their sum (or maximum) of one element. */
static real expected(const struct world *w, const struct terms *terms, int64_t index)
{
    bool maximum = w->instr.fold == FOLD_MAX;
    real result = maximum ? -(real)INFINITY : 0;
    for (int t = 0; t < terms->count; t++) {
        real part = addend(index, terms->name[t]);
        if (maximum)
            result = part > result ? part : result;
        else
            result += part;
    }
    return result;
}

static real *data_of(const struct world *w, int rank, int buffer)
{
    return (real *)(void *)(w->arenas[rank] + w->buffers[buffer].offset);
}

static void piece_range(const struct world *w, int buffer, int rank, int64_t *first, int64_t *count)
{
    struct block block = buffer_block(&w->program, &w->buffers[buffer], rank);
    int index, pieces;
    geometry_flat_piece(&w->program, &w->buffers[buffer], rank, &index, &pieces);
    int64_t whole = block_elements(&block);
    *first = pieces > 1 ? min_i64(whole, index * buffer_holds(&w->buffers[buffer])) : 0;
    *count = pieces > 1 ? min_i64(buffer_holds(&w->buffers[buffer]), whole - *first) : whole;
}

static void fill_source(const struct world *w, int rank)
{
    struct block block = buffer_block(&w->program, &w->buffers[0], rank);
    unsigned name = partial_of(w, &w->buffers[0].layout, rank);
    int64_t at[MAX_DIMS], first, count;
    piece_range(w, 0, rank, &first, &count);
    memcpy(at, block.low, sizeof at);
    for (int64_t i = 0; i < block_elements(&block); i++, next_in(&block, at))
        if (i >= first && i < first + count)
            data_of(w, rank, 0)[i - first] = holds(w, 0, rank) ? addend(flat_index(&w->value, at), name) : (real)NAN;
}

static int wrong_elements(const struct world *w, int rank, real before)
{
    struct block block = buffer_block(&w->program, &w->buffers[1], rank);
    struct terms terms = terms_of(w, rank);
    int64_t at[MAX_DIMS], first, count;
    int wrong = 0;
    if (!holds(w, 1, rank))
        return 0;
    piece_range(w, 1, rank, &first, &count);
    memcpy(at, block.low, sizeof at);
    for (int64_t i = 0; i < block_elements(&block); i++, next_in(&block, at))
        if (i >= first && i < first + count)
            wrong += data_of(w, rank, 1)[i - first] !=
                     expected(w, &terms, flat_index(&w->value, at)) + (w->instr.accumulate ? before : 0);
    return wrong;
}

static void convert(struct party *party)
{
    const struct world *w = party->shared;
    struct collective *c;
    int rank = party->transport->rank;
    if (!collective_new(&c, &w->program, rank, w->arenas[rank], party->transport, &party->error))
        return;
    party->ok = collective_run(c, &w->instr, w->muted, &party->error);
    collective_free(c);
}

static int64_t elements_of(const struct world *w, const struct buffer *buffer)
{
    struct block block = buffer_block(&w->program, buffer, 0);
    int index, pieces;
    geometry_flat_piece(&w->program, buffer, 0, &index, &pieces);
    return ceil_div(block_elements(&block), pieces);
}

/* Mesh and value; the layouts are set by the caller. */
static void world_init(struct world *w, const int atoms[MAX_ATOMS])
{
    memset(w, 0, sizeof *w);
    w->value = (struct value){
        .name = "value", .dim_count = 3, .size = { 24, 48, 24 }, .tag = { TAG_HIDDEN, TAG_FFN, TAG_HEAD }
    };
    w->graph = (struct graph){ .value_count = 1, .values = &w->value };
    w->plan = (struct plan){ .dtype = sizeof(real) == 8 ? DTYPE_FP64 : DTYPE_FP32,
                             .atom_count = 3,
                             .stage_count = 1,
                             .stages = &w->stage,
                             .rank_count = atoms[0] * atoms[1] * atoms[2],
                             .micro_batch_count = 1 };
    memcpy(w->stage.atom, atoms, sizeof w->stage.atom);
    w->pair = (struct pair){ 0, 1 };
    w->program = (struct program){ .graph = &w->graph,
                                   .plan = &w->plan,
                                   .stage_count = 1,
                                   .buffer_count = 2,
                                   .pair_count = 1,
                                   .stages = &w->list,
                                   .buffers = w->buffers,
                                   .pairs = &w->pair };
    w->list = (struct stage_program){ .instr_count = 1, .instrs = &w->instr };
    w->instr = (struct instr){
        .op = OP_REDISTRIBUTE, .lane = LANE_TP, .segment = -1, .pair_count = 1, .atoms = 7, .fold = FOLD_SUM, .tag = -1
    };
    for (int b = 0; b < 2; b++)
        w->buffers[b] = (struct buffer){ .kind = BUFFER_VALUE, .micro = 0, .ring_atom = -1, .part_count = 1 };
}

static void check_world(struct world *w, enum wire wire, bool accumulate)
{
    enum { BEFORE = 3 };
    struct transport transports[MAX_RANKS];
    struct party parties[MAX_RANKS];
    int ranks = w->plan.rank_count;
    w->instr.accumulate = accumulate;
    for (int b = 0; b < 2; b++) {
        w->buffers[b].element_bytes = sizeof(real);
        w->buffers[b].bytes = elements_of(w, &w->buffers[b]) * (int64_t)sizeof(real);
        w->buffers[b].offset = b > 0 ? w->buffers[0].bytes : 0;
    }
    for (int r = 0; r < ranks; r++) {
        w->arenas[r] = malloc((size_t)(w->buffers[0].bytes + w->buffers[1].bytes));
        fill_source(w, r);
        for (int64_t i = 0; i < buffer_holds(&w->buffers[1]); i++)
            data_of(w, r, 1)[i] = accumulate ? BEFORE : (real)NAN;
    }
    open_all(transports, wire, ranks, NULL);
    run_parties(transports, ranks, w, convert, parties);
    for (int r = 0; r < ranks; r++) {
        ck_assert_msg(parties[r].ok, "%s", parties[r].error.message);
        int wrong = wrong_elements(w, r, BEFORE);
        ck_assert_msg(wrong == 0,
                      "%s: mesh %dx%dx%d, from %d%d%d dims %d%d%d to %d%d%d dims %d%d%d, accumulate %d: rank %d has %d "
                      "wrong elements",
                      op_info[w->instr.op].name, w->stage.atom[0], w->stage.atom[1], w->stage.atom[2],
                      w->buffers[0].layout.kind[0], w->buffers[0].layout.kind[1], w->buffers[0].layout.kind[2],
                      w->buffers[0].layout.dim[0], w->buffers[0].layout.dim[1], w->buffers[0].layout.dim[2],
                      w->buffers[1].layout.kind[0], w->buffers[1].layout.kind[1], w->buffers[1].layout.kind[2],
                      w->buffers[1].layout.dim[0], w->buffers[1].layout.dim[1], w->buffers[1].layout.dim[2], accumulate,
                      r, wrong);
        free(w->arenas[r]);
    }
    close_all(transports, ranks);
}

static void random_mesh(uint64_t *seed, int atoms[MAX_ATOMS])
{
    static const int meshes[][3] = { { 1, 1, 1 }, { 1, 1, 2 }, { 1, 1, 3 }, { 2, 2, 1 }, { 2, 1, 2 },
                                     { 1, 4, 1 }, { 2, 2, 2 }, { 1, 2, 3 }, { 1, 2, 4 } };
    const int *mesh = meshes[draw(seed, sizeof meshes / sizeof *meshes)];
    for (int a = 0; a < 3; a++)
        atoms[a] = mesh[a];
    atoms[3] = 1;
}

START_TEST(any_layout_becomes_any_other)
{
    uint64_t seed = 1;
    for (int trial = 0; trial < (_i == TCP ? 60 : 400) / share_stride(); trial++) {
        struct world w;
        int atoms[MAX_ATOMS];
        random_mesh(&seed, atoms);
        world_init(&w, atoms);
        for (int a = 0; a < 3; a++) {
            struct layout *from = &w.buffers[0].layout, *to = &w.buffers[1].layout;
            from->kind[a] = (uint8_t)draw(&seed, 3); /* replicated, sharded, partial */
            to->kind[a] = from->kind[a] == LAYOUT_PARTIAL ? (uint8_t)draw(&seed, 3) : (uint8_t)draw(&seed, 2);
            from->dim[a] = (uint8_t)draw(&seed, 3), to->dim[a] = (uint8_t)draw(&seed, 3);
            from->order[a] = (uint8_t)a, to->order[a] = (uint8_t)(2 - a);
        }
        w.instr.fold = draw(&seed, 4) == 0 ? FOLD_MAX : FOLD_SUM;
        check_world(&w, (enum wire)_i, w.instr.fold == FOLD_SUM && draw(&seed, 2) == 1);
    }
}
END_TEST

/* Partial to flat shards and back; the 24 x 48 x 12 elements do not divide by 5 or 7, so shards are padded. */
START_TEST(flat_shards_scatter_and_gather)
{
    static const int sizes[] = { 2, 3, 4, 5, 7 };
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int gather = 0; gather < 2; gather++)
            for (int accumulate = 0; accumulate < 2; accumulate++) {
                struct world w;
                world_init(&w, (int[MAX_ATOMS]){ 1, sizes[s], 2, 1 });
                struct layout *from = &w.buffers[0].layout, *to = &w.buffers[1].layout;
                from->kind[1] = gather ? LAYOUT_FLAT : LAYOUT_PARTIAL;
                to->kind[1] = gather ? LAYOUT_REPLICATED : LAYOUT_FLAT;
                from->kind[2] = to->kind[2] = LAYOUT_SHARDED;
                from->dim[2] = to->dim[2] = 2;
                w.instr.op = gather ? OP_ALL_GATHER : OP_REDUCE_SCATTER;
                w.instr.atoms = 2;
                check_world(&w, (enum wire)_i, accumulate == 1);
            }
}
END_TEST

/* Shards of more than a message: blocks, whose pieces do not lie together, and flat ones, of which the last is padded.
 */
START_TEST(long_shards_scatter_and_gather)
{
    for (int gather = 0; gather < 2; gather++)
        for (int flat = 0; flat < 2; flat++) {
            struct world w;
            if (small_share() && (gather ^ flat) != _i % 2)
                continue;
            world_init(&w, (int[MAX_ATOMS]){ 1, flat ? 5 : 4, 1, 1 });
            w.value.size[0] = 1201;
            int64_t elements = 1201 * w.value.size[1] * w.value.size[2];
            ck_assert_int_gt(elements * (int64_t)sizeof(real), 5 * COLLECTIVE_MESSAGE_BYTES);
            struct layout *whole = &w.buffers[gather].layout, *shard = &w.buffers[!gather].layout;
            whole->kind[1] = gather ? LAYOUT_REPLICATED : LAYOUT_PARTIAL;
            shard->kind[1] = flat ? LAYOUT_FLAT : LAYOUT_SHARDED;
            shard->dim[1] = 1;
            w.instr.op = gather ? OP_ALL_GATHER : OP_REDUCE_SCATTER;
            w.instr.atoms = 2;
            for (int accumulate = 0; accumulate < 2; accumulate++)
                if (!small_share() || accumulate == gather)
                    check_world(&w, (enum wire)_i, accumulate == 1);
        }
}
END_TEST

/* Beside another atom, over one and over two; longer than a message. */
START_TEST(one_rank_gathers_and_hands_out)
{
    for (int broadcast = 0; broadcast < 2; broadcast++)
        for (int trial = 0; trial < 8; trial += small_share() ? 2 : 1) {
            struct world w;
            world_init(&w, trial < 7 ? (int[MAX_ATOMS]){ 2, trial + 1, 1, 1 } : (int[MAX_ATOMS]){ 2, 2, 2, 1 });
            w.value.size[0] = trial == 2 ? 480 : 24;
            w.instr.atoms = trial < 7 ? 2 : 6;
            for (int a = 1; a < 3; a++) {
                w.buffers[0].layout.kind[a] = broadcast ? LAYOUT_ROOT : LAYOUT_PARTIAL;
                w.buffers[1].layout.kind[a] = broadcast ? LAYOUT_REPLICATED : LAYOUT_ROOT;
            }
            w.instr.op = broadcast ? OP_BROADCAST : OP_REDUCE;
            check_world(&w, (enum wire)_i, false);
        }
}
END_TEST

START_TEST(all_reduce_in_its_own_buffer)
{
    for (int ranks = 1; ranks <= 8; ranks++) {
        struct world w;
        world_init(&w, (int[MAX_ATOMS]){ 1, ranks, 1, 1 });
        w.buffers[0].layout.kind[1] = LAYOUT_PARTIAL;
        w.instr.op = OP_ALL_REDUCE;
        w.instr.atoms = 2;
        check_world(&w, (enum wire)_i, false);
        check_world(&w, (enum wire)_i, true);
    }
}
END_TEST

START_TEST(muted_ranks_act_alone)
{
    struct world w;
    world_init(&w, (int[MAX_ATOMS]){ 1, 4, 1, 1 });
    w.buffers[0].layout.kind[1] = LAYOUT_PARTIAL;
    w.instr.op = OP_ALL_REDUCE;
    w.instr.atoms = 2;
    w.muted = true;
    check_world(&w, THREADS, false);
}
END_TEST

static Suite *collective_suite(void)
{
    Suite *suite = suite_create("collective");
    add_for_each_wire(suite, any_layout_becomes_any_other);
    add_for_each_wire(suite, flat_shards_scatter_and_gather);
    add_for_each_wire(suite, long_shards_scatter_and_gather);
    add_for_each_wire(suite, one_rank_gathers_and_hands_out);
    add_for_each_wire(suite, all_reduce_in_its_own_buffer);
    CHECK_ADD(suite, muted_ranks_act_alone);
    return suite;
}

CHECK_MAIN(collective_suite)
