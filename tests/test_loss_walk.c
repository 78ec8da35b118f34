/* The loss in chunks of tokens, as a program: how many there are, what lives at a time, what is computed. That
 * gradients stay what they were is asked by the oracle's tests, of the search by its own. */
#include "planner/program/access.h"
#include "planner/program/geometry.h"
#include "planner/layout/lives.h"
#include "planner/lower/lower.h"
#include "planner/program/loss_walk.h"
#include "planner/verify/verify.h"
#include "tests/check.h"
#include "tests/lowered_program.h"

static struct lowered lower_in(const struct strategy *s, int chunks)
{
    struct lowered l = lowered_open(s);
    struct error err = { 0 };
    l.plan->loss_chunks = chunks;
    ck_assert_msg(plan_check(l.plan, l.graph, &err), "%s: %s", s->name, err.message);
    ck_assert_msg(lower_program(&l.program, l.graph, l.plan, &err), "%s: %s", s->name, err.message);
    ck_assert_msg(verify_program(l.program, &err), "%s: %s", s->name, err.message);
    return l;
}

/* The chunks of the program as it is, and what they are of. */
static int chunks_of(const struct lowered *l, enum axis_tag *tag)
{
    const struct segment *loss = &l->graph->segments[l->graph->segment_count - 1];
    const struct assignment *assignment = &l->program->assignments[l->graph->segment_count - 1];
    bool walked = segment_is_walked(loss, assignment);
    *tag = walked ? loss->axes[assignment->slice_axis].tag : TAG_NONE;
    return walked ? assignment->slices : 1;
}

/* ---- how many ---- */

/* From the definition. */
static int most_that_divide(int most, int64_t sequences, int64_t tokens, enum axis_tag *tag)
{
    int best = 1;
    *tag = TAG_NONE;
    for (int n = 2; n <= most; n++)
        if (sequences % n == 0 || tokens % n == 0) {
            best = n;
            *tag = sequences % n == 0 ? TAG_BATCH : TAG_SEQUENCE;
        }
    return best;
}

/* Of the two micro-batches a rank has so many sequences, of so many of their 32 tokens. */
static const struct shared {
    struct strategy s;
    int64_t sequences, tokens;
} shared[] = {
    { { "one rank", "tiny-gpt", "1f1b", 1, { 1, 1 }, { "none", "none" }, 2, 0, 0, 1, 0, 0, 0 }, 2, 32 },
    { { "dp", "tiny-llama", "gpipe", 1, { 3, 1 }, { "dp", "none" }, 2, 1, 0, 1, 0, 0, 0 }, 2, 32 },
    { { "tp", "tiny-gpt", "1f1b", 1, { 3, 2 }, { "none", "tp" }, 2, 0, 0, 1, 0, 0, 0 }, 12, 32 },
    { { "tp+sp", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "tp+sp", "none" }, 2, 0, 0, 1, 0, 0, 0 }, 4, 32 },
    { { "cp-gather", "tiny-gpt", "1f1b", 1, { 4, 1 }, { "cp-gather", "none" }, 2, 0, 0, 1, 0, 0, 0 }, 8, 8 },
    { { "cp-ring", "tiny-llama", "zb-h1", 1, { 2, 2 }, { "dp", "cp-ring" }, 2, 3, 2, 1, 0, 0, 0 }, 4, 16 },
    { { "sliced", "tiny-gpt", "1f1b", 1, { 2, 1 }, { "dp", "none" }, 2, 3, 0, 4, 1, 0, 1 }, 2, 32 },
};
enum { SHARED = sizeof shared / sizeof *shared };

START_TEST(chunks_are_the_most_that_divide)
{
    for (int most = 1; most <= 33; most += most < 9 ? 1 : 4) {
        struct lowered l = lower_in(&shared[_i].s, most);
        enum axis_tag tag, wanted_tag;
        int count = chunks_of(&l, &tag),
            wanted = most_that_divide(most, shared[_i].sequences, shared[_i].tokens, &wanted_tag);
        ck_assert_msg(count == wanted && tag == wanted_tag, "%s, at most %d: %d chunks of tag %d, expected %d of %d",
                      shared[_i].s.name, most, count, (int)tag, wanted, (int)wanted_tag);
        lowered_free(&l);
    }
}
END_TEST

/* ---- where there are none ---- */

/* Two layers that are apart, weights that may be others backward, no loss at all: the program is the same, but for its
 * name. */
START_TEST(what_cannot_be_walked_is_left_whole)
{
    static const struct strategy rows[] = {
        { "apart", "tiny-gpt", "1f1b", 7, { 1, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 1 },
        { "two versions", "tiny-llama", "pipedream-2bw", 2, { 1, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 1 },
        { "opaque", "tiny-opaque", "1f1b", 2, { 1, 1 }, { "dp", "none" }, 4, 0, 0, 1, 0, 0, 0 },
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct lowered whole = lower_in(&rows[i], 1), asked = lower_in(&rows[i], 8);
        ck_assert_int_eq(whole.program->buffer_count, asked.program->buffer_count);
        for (int s = 0; s < whole.program->stage_count; s++) {
            const struct stage_program *a = &whole.program->stages[s], *b = &asked.program->stages[s];
            ck_assert_int_eq(a->instr_count, b->instr_count);
            ck_assert(!memcmp(a->instrs, b->instrs, (size_t)a->instr_count * sizeof *a->instrs));
        }
        lowered_free(&whole);
        lowered_free(&asked);
    }
}
END_TEST

/* ---- what lives ---- */

static bool holds_logits(const struct lowered *l, int buffer)
{
    const struct buffer *b = &l->program->buffers[buffer];
    int max = l->graph->segments[l->graph->segment_count - 4].in[0].id;
    return !b->is_weight && b->id == max;
}

/* The most bytes of logits and their gradients that live at one moment, what lies in place counted once. */
static int64_t most_logits(struct lowered *l)
{
    const struct stage_program *list = &l->program->stages[0];
    struct life *lives = calloc((size_t)l->program->buffer_count, sizeof *lives);
    int64_t most = 0;
    ck_assert(lives_split(l->program, NULL));
    lives = realloc(lives, (size_t)l->program->buffer_count * sizeof *lives);
    ck_assert(lives && lives_find(l->program, lives, NULL));
    for (int i = 0; i < list->instr_count; i++) {
        int64_t here = 0;
        for (int b = 0; b < l->program->buffer_count; b++)
            here += holds_logits(l, b) && lives[b].first <= i && lives[b].held >= i ? l->program->buffers[b].bytes : 0;
        for (int slot = 0; slot < access_slots(&list->instrs[i]); slot++) {
            int over = lives_taken_over(l->program, lives, 0, i, slot);
            here -= over >= 0 && holds_logits(l, over) ? l->program->buffers[over].bytes : 0;
        }
        most = here > most ? here : most;
    }
    free(lives);
    return most;
}

/* One chunk at a time, and none from the forward pass to the backward one. */
START_TEST(one_chunk_lives_at_a_time)
{
    for (int i = 0; i < SHARED; i++) {
        struct lowered whole = lower_in(&shared[i].s, 1), l = lower_in(&shared[i].s, 8);
        enum axis_tag tag;
        int chunks = chunks_of(&l, &tag);
        ck_assert_int_gt(chunks, 1);
        int64_t all = most_logits(&whole), one = most_logits(&l);
        ck_assert_msg(one * chunks == all || 2 * one * chunks == all, /* gpipe: of two micro-batches */
                      "%s: %lld bytes in %d chunks, %lld whole", shared[i].s.name, (long long)one, chunks,
                      (long long)all);
        lowered_free(&whole);
        lowered_free(&l);
    }
}
END_TEST

/* ---- what is computed ---- */

/* By segment and phase, recomputation apart: floating-point operations of the stage's lists. */
static void add_flops(const struct lowered *l, int64_t *flops)
{
    for (int s = 0; s < l->program->stage_count; s++)
        for (int i = 0; i < l->program->stages[s].instr_count; i++) {
            const struct instr *instr = &l->program->stages[s].instrs[i];
            int64_t extents[MAX_AXES];
            if (instr->op != OP_COMPUTE || instr->again)
                continue;
            instr_extents(l->program, s, instr, extents);
            flops[instr->segment * PHASE_COUNT + (int)instr->phase] +=
                segment_flops(&l->graph->segments[instr->segment], instr->phase, extents);
        }
}

static int64_t moved_bytes(const struct lowered *l)
{
    int64_t bytes = 0;
    for (int i = 0; i < l->program->stages[0].instr_count; i++)
        bytes += instr_moves_data(&l->program->stages[0].instrs[i])
                     ? instr_wire_bytes(l->program, 0, &l->program->stages[0].instrs[i])
                     : 0;
    return bytes;
}

/* As much as at once, nothing twice, and as many bytes between ranks; forward work of the backward action is marked.
 * Chunks of sequences where there are several, so that none shares out tokens for the loss alone. */
START_TEST(nothing_is_computed_twice)
{
    for (int i = 0; i < SHARED; i++) {
        struct lowered whole = lower_in(&shared[i].s, 1), l = lower_in(&shared[i].s, shared[i].sequences > 2 ? 4 : 8);
        size_t slots = (size_t)whole.graph->segment_count * PHASE_COUNT;
        int64_t *want = calloc(slots, sizeof *want), *got = calloc(slots, sizeof *got);
        int late = 0;
        add_flops(&whole, want);
        add_flops(&l, got);
        for (size_t k = 0; k < slots; k++)
            ck_assert_msg(got[k] == want[k], "%s: segment %d: %lld operations, whole %lld", shared[i].s.name,
                          (int)k / PHASE_COUNT, (long long)got[k], (long long)want[k]);
        if (shared[i].s.zero == 3) /* the product's weight is gathered once for both passes */
            ck_assert_int_lt(moved_bytes(&l), moved_bytes(&whole));
        else
            ck_assert_int_eq(moved_bytes(&l), moved_bytes(&whole));
        for (int k = 0; k < l.program->stages[0].instr_count; k++)
            late += l.program->stages[0].instrs[k].late && l.program->stages[0].instrs[k].op == OP_COMPUTE;
        enum axis_tag tag;
        int norms = shared[i].s.recompute == RECOMPUTE_FULL; /* which would be forgotten before the walk */
        /* micro-batches; product, max, pick, sum, loss */
        ck_assert_int_eq(late, 2 * (chunks_of(&l, &tag) * 5 + norms));
        free(want);
        free(got);
        lowered_free(&whole);
        lowered_free(&l);
    }
}
END_TEST

static Suite *loss_walk_suite(void)
{
    Suite *suite = suite_create("loss walk");
    CHECK_ADD_LOOP(suite, chunks_are_the_most_that_divide, SHARED);
    CHECK_ADD(suite, what_cannot_be_walked_is_left_whole);
    CHECK_ADD(suite, one_chunk_lives_at_a_time);
    CHECK_ADD(suite, nothing_is_computed_twice);
    return suite;
}

CHECK_MAIN(loss_walk_suite)
