/* What lowering stands on: groups and blocks in space, conversions between layouts, bytes. */
#include "planner/lower/convert.h"
#include "planner/lower/lower.h"
#include "planner/program/geometry.h"
#include "tests/check.h"
#include "tests/lowered_program.h"

/* ---- closed forms in bytes ---- */
static int64_t wire_bytes(const struct program *program, enum op op, enum phase phase)
{
    int64_t bytes = 0;
    for (int s = 0; s < program->stage_count; s++) {
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            if (instr->op == op && (phase == PHASE_COUNT || instr->phase == phase))
                bytes += instr_wire_bytes(program, s, instr);
        }
    }
    return bytes;
}

static int64_t padded(int64_t elements, int64_t ranks)
{
    return (elements + ranks - 1) / ranks * ranks;
}

START_TEST(data_parallel_bytes)
{
    enum { RANKS = 4, MICROS = 3 };
    for (int zero = 0; zero <= 3; zero++) {
        struct strategy s = {
            "dp", "tiny-llama", "1f1b", 1, { RANKS, 1 }, { "dp", "none" }, MICROS, zero, 0, 1, 0, 0, 0
        };
        struct lowered l = lowered_program(&s);
        int64_t reduced = 0, sharded = 0;
        for (int i = 0; i < l.graph->weight_count; i++) {
            int64_t elements = weight_elements(&l.graph->weights[i]);
            reduced += 2 * (RANKS - 1) * elements * 4 / RANKS;
            sharded += (RANKS - 1) * padded(elements, RANKS) * 4 / RANKS;
        }
        ck_assert_int_eq(wire_bytes(l.program, OP_ALL_REDUCE, PHASE_COUNT), zero == 0 ? reduced : 0);
        ck_assert_int_eq(wire_bytes(l.program, OP_REDUCE_SCATTER, PHASE_COUNT), zero == 0   ? 0
                                                                                : zero == 1 ? sharded
                                                                                            : MICROS * sharded);
        ck_assert_int_eq(wire_bytes(l.program, OP_ALL_GATHER, PHASE_STEP), zero == 1 || zero == 2 ? sharded : 0);
        if (zero < 3)
            ck_assert_int_eq(wire_bytes(l.program, OP_ALL_GATHER, PHASE_COUNT),
                             wire_bytes(l.program, OP_ALL_GATHER, PHASE_STEP));
        lowered_free(&l);
    }
}
END_TEST

/* Through the first rank's link go n - 1 gradients and n - 1 copies of the weights, once a step (Li et al. 2014). */
START_TEST(parameter_server_bytes)
{
    enum { RANKS = 4, MICROS = 3 };
    struct strategy s = { "ps", "tiny-llama", "1f1b", 1, { RANKS, 1 }, { "ps", "none" }, MICROS, 0, 0, 1, 0, 0, 1 };
    struct lowered l = lowered_program(&s);
    int64_t bytes = 0;
    for (int i = 0; i < l.graph->weight_count; i++)
        bytes += (RANKS - 1) * weight_elements(&l.graph->weights[i]) * 4;
    ck_assert_int_eq(wire_bytes(l.program, OP_REDUCE, PHASE_STEP), bytes);
    ck_assert_int_eq(wire_bytes(l.program, OP_BROADCAST, PHASE_STEP), bytes);
    for (enum op op = OP_ALL_REDUCE; op <= OP_SHIFT; op++)
        if (op != OP_REDUCE && op != OP_BROADCAST)
            ck_assert_int_eq(wire_bytes(l.program, op, PHASE_COUNT), 0);
    for (int rank = 0; rank < RANKS; rank++)
        for (int i = 0; i < l.program->stages[0].instr_count; i++)
            if (l.program->stages[0].instrs[i].op == OP_UPDATE)
                ck_assert_int_eq(geometry_rank_updates(l.program, &l.program->stages[0].instrs[i], rank), rank == 0);
    lowered_free(&l);
}
END_TEST

/* The output of a stage crosses once per micro-batch and comes back as a gradient; sequence shards cross as shards. */
START_TEST(pipeline_bytes)
{
    for (int k = 0; k < 2; k++) {
        struct strategy s = { "pp", "tiny-llama", "1f1b", 2, { 2, 1 }, { k ? "tp+sp" : "tp", "none" }, 4, 0, 0, 1, 0, 0,
                              0 };
        struct lowered l = lowered_program(&s);
        int value = l.graph->layers[l.plan->stages[1].first_layer - 1].output_value;
        int64_t bytes = 4;
        for (int i = 0; i < l.graph->values[value].dim_count; i++)
            bytes *= recipe_value_extent(l.plan, &l.graph->values[value], i);
        ck_assert_int_eq(wire_bytes(l.program, OP_SEND, PHASE_COUNT), 2 * 4 * bytes / (k ? 2 : 1));
        ck_assert_int_eq(wire_bytes(l.program, OP_SEND, PHASE_COUNT), wire_bytes(l.program, OP_RECEIVE, PHASE_COUNT));
        lowered_free(&l);
    }
}
END_TEST

/* ---- geometry ---- */
START_TEST(groups_are_products_of_coordinates)
{
    struct plan *plan = plan_new(1, 1);
    int sizes[MAX_ATOMS] = { 2, 3, 1, 4 }, members[24], place;
    memcpy(plan->stages[0].atom, sizes, sizeof sizes);
    for (unsigned atoms = 0; atoms < 1u << MAX_ATOMS; atoms++) {
        for (int rank = 0; rank < 24; rank++) {
            int count = geometry_group_members(plan, 0, atoms, rank, members, &place), found = 0;
            ck_assert_int_eq(count, geometry_group_size(plan, 0, atoms));
            ck_assert_int_eq(members[place], rank);
            for (int other = 0; other < 24; other++) {
                bool same = true;
                for (int a = 0; a < MAX_ATOMS; a++)
                    same &= (atoms >> a & 1) ||
                            plan_atom_coordinate(plan, 0, other, a) == plan_atom_coordinate(plan, 0, rank, a);
                if (same)
                    ck_assert_int_eq(members[found++], other); /* ascending ranks are ascending coordinates */
            }
            ck_assert_int_eq(found, count);
        }
    }
    plan_free(plan);
}
END_TEST

/* Each receiver gets each element of its block once, whatever the two meshes; equal copies share the sending. */
START_TEST(transfers_cover_blocks_once)
{
    static const int meshes[][2] = { { 1, 1 }, { 2, 1 }, { 1, 2 }, { 2, 2 }, { 4, 1 }, { 1, 4 }, { 4, 2 } };
    enum { MESHES = sizeof meshes / sizeof *meshes };
    for (int a = 0; a < MESHES; a++) {
        for (int b = 0; b < MESHES; b++) {
            struct strategy s = { "meshes", "tiny-llama", "1f1b", 2, { 1, 1 }, { "dp", "tp+sp" }, 8, 0, 0, 1, 0, 0, 0 };
            s.dim[1] = (a + b) % 2 ? "tp" : "tp+sp";
            struct lowered l = lowered_open(&s);
            struct error err = { 0 };
            l.plan->micro_batch_count = 2; /* 8 sequences each */
            memcpy(l.plan->stages[0].atom, meshes[a], sizeof meshes[a]);
            memcpy(l.plan->stages[1].atom, meshes[b], sizeof meshes[b]);
            l.plan->stages[1].first_rank = meshes[a][0] * meshes[a][1];
            l.plan->rank_count = l.plan->stages[1].first_rank + meshes[b][0] * meshes[b][1];
            ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s", err.message);
            for (int i = 0; i < l.program->stages[0].instr_count; i++) {
                const struct instr *instr = &l.program->stages[0].instrs[i];
                if (instr->op != OP_SEND)
                    continue;
                const struct pair *pair = &l.program->pairs[instr->pair_first];
                int64_t first_sends = 0, most_sends = 0;
                for (int r = 0; r < plan_stage_rank_count(l.plan, 1); r++) {
                    struct block want = buffer_block(l.program, &l.program->buffers[pair->destination], r), got;
                    int64_t sum = 0;
                    for (int t = 0; t < plan_stage_rank_count(l.plan, 0); t++)
                        sum += geometry_transfer_block(l.program, pair, t, r, &got) ? block_elements(&got) : 0;
                    ck_assert_int_eq(sum, block_elements(&want));
                }
                for (int t = 0; t < plan_stage_rank_count(l.plan, 0); t++) {
                    int64_t sends = 0;
                    struct block got;
                    for (int r = 0; r < plan_stage_rank_count(l.plan, 1); r++)
                        sends += geometry_transfer_block(l.program, pair, t, r, &got) ? block_elements(&got) : 0;
                    first_sends = t == 0 ? sends : first_sends;
                    most_sends = sends > most_sends ? sends : most_sends;
                }
                ck_assert_int_eq(first_sends, most_sends); /* local rank 0 stands for the busiest */
                ck_assert_int_eq(instr_wire_bytes(l.program, 0, instr), first_sends * 4);
            }
            lowered_free(&l);
        }
    }
}
END_TEST

/* ---- conversions ---- */
static struct layout
layout_of(const char *text) /* "R S0 P Z O": one word per atom, S with its dim; order is the atom's number */
{
    struct layout layout;
    memset(&layout, 0, sizeof layout);
    for (int atom = 0; *text; atom++) {
        layout.kind[atom] = *text == 'S'   ? LAYOUT_SHARDED
                            : *text == 'P' ? LAYOUT_PARTIAL
                            : *text == 'Z' ? LAYOUT_FLAT
                            : *text == 'O' ? LAYOUT_ROOT
                                           : LAYOUT_REPLICATED;
        if (*text == 'S') {
            layout.dim[atom] = (uint8_t)(text[1] - '0');
            layout.order[atom] = (uint8_t)atom;
        }
        text += strcspn(text, " ");
        text += strspn(text, " ");
    }
    return layout;
}

START_TEST(conversions_are_the_table)
{
    static const struct {
        const char *from, *to;
        int count;
        enum op op[3];
    } rows[] = {
        { "R", "R", 0, { 0 } },
        { "P", "R", 1, { OP_ALL_REDUCE } },
        { "P", "S1", 1, { OP_REDUCE_SCATTER } },
        { "S0", "R", 1, { OP_ALL_GATHER } },
        { "S0", "S1", 1, { OP_ALL_TO_ALL } },
        { "R", "S0", 1, { OP_SLICE } },
        { "P", "Z", 1, { OP_REDUCE_SCATTER } },
        { "Z", "R", 1, { OP_ALL_GATHER } },
        { "R", "Z", 1, { OP_SLICE } },
        { "P P", "R R", 1, { OP_ALL_REDUCE } },
        { "P P", "Z R", 2, { OP_REDUCE_SCATTER, OP_ALL_REDUCE } },
        { "P S1", "S0 R", 2, { OP_REDUCE_SCATTER, OP_ALL_GATHER } },
        { "R S0", "S0 R", 1, { OP_REDISTRIBUTE } },  /* slicing would need rows that others have */
        { "S0 S0", "R S0", 1, { OP_REDISTRIBUTE } }, /* gathering the outer one alone leaves gaps */
        { "S0 S0", "S0 R", 1, { OP_ALL_GATHER } },
        { "S0 R", "S0 S0", 1, { OP_SLICE } },
        { "Z S0", "R R", 2, { OP_ALL_GATHER, OP_ALL_GATHER } },
        { "R P", "Z Z", 2, { OP_ALL_REDUCE, OP_SLICE } }, /* pieces are numbered over both atoms at once */
        { "Z Z", "R Z", 2, { OP_ALL_GATHER, OP_SLICE } },
        { "Z P", "Z R", 1, { OP_ALL_REDUCE } },
        { "P", "O", 1, { OP_REDUCE } },
        { "O", "R", 1, { OP_BROADCAST } },
        { "R", "O", 1, { OP_SLICE } },
        { "S0", "O", 2, { OP_ALL_GATHER, OP_SLICE } },
        { "P P", "Z O", 2, { OP_REDUCE_SCATTER, OP_REDUCE } },
        { "Z P", "Z O", 1, { OP_REDUCE } },
        { "O S0", "R S1", 2, { OP_BROADCAST, OP_ALL_TO_ALL } },
    };
    static const int sizes[MAX_ATOMS] = { 2, 4, 1, 1 };
    static const int64_t extent[MAX_DIMS] = { 16, 8 };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct layout from = layout_of(rows[i].from), to = layout_of(rows[i].to);
        struct conversion path[MAX_CONVERSIONS];
        int count = conversion_path(sizes, extent, &from, &to, path);
        ck_assert_msg(count == rows[i].count, "%s to %s: %d steps", rows[i].from, rows[i].to, count);
        for (int k = 0; k < count; k++)
            ck_assert_msg(path[k].op == rows[i].op[k], "%s to %s: step %d is %s", rows[i].from, rows[i].to, k,
                          op_info[path[k].op].name);
    }
    struct layout from = layout_of("R"), to = layout_of("P");
    struct conversion path[MAX_CONVERSIONS];
    ck_assert_int_eq(conversion_path(sizes, extent, &from, &to, path), -1);
}
END_TEST

/* From every layout of a 2 x 2 x 2 mesh to every other there is a way, and it ends there. */
START_TEST(every_conversion_arrives)
{
    static const int sizes[MAX_ATOMS] = { 2, 2, 2, 1 };
    static const int64_t extent[MAX_DIMS] = { 8, 8 };
    static const char *const words[] = { "R", "P", "Z", "S0", "S1", "O" };
    char text[2][16];
    for (int a = 0; a < 216; a++) {
        for (int b = 0; b < 216; b++) {
            snprintf(text[0], sizeof text[0], "%s %s %s", words[a % 6], words[a / 6 % 6], words[a / 36]);
            snprintf(text[1], sizeof text[1], "%s %s %s", words[b % 6], words[b / 6 % 6], words[b / 36]);
            struct layout from = layout_of(text[0]), to = layout_of(text[1]);
            struct conversion path[MAX_CONVERSIONS];
            int count = conversion_path(sizes, extent, &from, &to, path);
            bool possible = !(layout_atoms(&to, LAYOUT_PARTIAL) & ~layout_atoms(&from, LAYOUT_PARTIAL));
            ck_assert_msg((count >= 0) == possible, "%s to %s", text[0], text[1]);
            ck_assert(count <= 0 || layout_equal(&path[count - 1].to, &to));
            ck_assert_int_eq(count == 0, layout_equal(&from, &to));
        }
    }
}
END_TEST

static Suite *recipe_suite(void)
{
    Suite *suite = suite_create("recipe");
    CHECK_ADD(suite, data_parallel_bytes);
    CHECK_ADD(suite, parameter_server_bytes);
    CHECK_ADD(suite, pipeline_bytes);
    CHECK_ADD(suite, groups_are_products_of_coordinates);
    CHECK_ADD(suite, transfers_cover_blocks_once);
    CHECK_ADD(suite, conversions_are_the_table);
    CHECK_ADD(suite, every_conversion_arrives);
    return suite;
}

CHECK_MAIN(recipe_suite)
