/* The text form: what is printed is read back exactly, and what is not the form is refused with its place. */
#include "formats/program_text.h"
#include "tests/check.h"
#include "base/num.h"
#include "planner/layout/layout.h"
#include "planner/verify/verify.h"
#include "tests/hand_program.h"
#include "tests/lowered_program.h"
#include "tests/program_parse.h"

static bool same_operands(const struct program *a, const struct instr *x, const struct program *b,
                          const struct instr *y)
{
    bool same = x->operands == y->operands;
    for (int k = 0; same && k < OPERAND_SLOTS; k++)
        same = instr_operand(a, x, (enum role)(k / MAX_OPERANDS), k % MAX_OPERANDS) ==
               instr_operand(b, y, (enum role)(k / MAX_OPERANDS), k % MAX_OPERANDS);
    return same;
}

static bool same_instr(const struct program *a, const struct program *b, int stage, int index)
{
    struct instr x = a->stages[stage].instrs[index], y = b->stages[stage].instrs[index];
    bool lists = x.pair_count == y.pair_count && x.wait_count == y.wait_count;
    for (int k = 0; lists && k < x.pair_count; k++)
        lists = !memcmp(&a->pairs[x.pair_first + k], &b->pairs[y.pair_first + k], sizeof(struct pair));
    for (int k = 0; lists && k < x.wait_count; k++)
        lists = a->stages[stage].waits[x.wait_first + k] == b->stages[stage].waits[y.wait_first + k];
    return lists && x.op == y.op && x.phase == y.phase && x.lane == y.lane && x.again == y.again &&
           x.first == y.first && x.define == y.define && x.accumulate == y.accumulate && x.fold == y.fold &&
           x.segment == y.segment && x.micro == y.micro && x.round == y.round && same_operands(a, &x, b, &y) &&
           x.atoms == y.atoms && x.peer_stage == y.peer_stage && x.tag == y.tag && x.layer == y.layer;
}

static bool same_buffer(const struct buffer *x, const struct buffer *y)
{
    return x->kind == y->kind && x->is_weight == y->is_weight && x->persistent == y->persistent &&
           x->stage == y->stage && x->id == y->id && x->micro == y->micro && x->ring_round == y->ring_round &&
           x->ring_atom == y->ring_atom && x->part == y->part && x->part_count == y->part_count &&
           x->part_dim == y->part_dim && x->version == y->version &&
           !memcmp(&x->layout, &y->layout, sizeof x->layout) && x->element_bytes == y->element_bytes &&
           x->bytes == y->bytes && x->offset == y->offset;
}

static void check_same(const struct program *a, const struct program *b)
{
    ck_assert_int_eq(a->stage_count, b->stage_count);
    ck_assert_int_eq(a->buffer_count, b->buffer_count);
    for (int i = 0; i < a->buffer_count; i++)
        ck_assert_msg(same_buffer(&a->buffers[i], &b->buffers[i]), "buffer %d differs", i);
    for (int i = 0; i < a->graph->segment_count; i++)
        ck_assert_mem_eq(&a->assignments[i], &b->assignments[i], sizeof a->assignments[i]);
    for (int s = 0; s < a->stage_count; s++)
        for (int m = 0; m < a->plan->micro_batch_count; m++)
            ck_assert_int_eq(program_loss(a, s, m), program_loss(b, s, m));
    for (int s = 0; s < a->stage_count; s++) {
        const struct stage_program *x = &a->stages[s], *y = &b->stages[s];
        ck_assert_int_eq(x->instr_count, y->instr_count);
        ck_assert_int_eq(x->arena_bytes, y->arena_bytes);
        ck_assert_int_eq(x->persistent_bytes, y->persistent_bytes);
        ck_assert_int_eq(x->scratch_offset, y->scratch_offset);
        ck_assert_int_eq(x->scratch_bytes, y->scratch_bytes);
        for (int i = 0; i < x->instr_count; i++)
            ck_assert_msg(same_instr(a, b, s, i), "stage %d instr %d differs", s, i);
    }
}

static void check_round_trip(const struct program *program)
{
    struct text first = { 0 }, second = { 0 };
    struct program *again = NULL;
    struct error err = { 0 };
    program_print(program, &first);
    ck_assert_msg(program_parse(&again, program->graph, program->plan, "first", first.data, first.length, &err), "%s",
                  err.message);
    check_same(program, again);
    program_print(again, &second);
    ck_assert(!first.failed && !second.failed);
    ck_assert_str_eq(first.data, second.data);
    program_free(again);
    text_free(&first);
    text_free(&second);
}

START_TEST(lowered_programs_come_back)
{
    struct lowered l = lowered_program(&strategies[_i]);
    check_round_trip(l.program);
    ck_assert(layout_program(l.program, NULL));
    check_round_trip(l.program);
    lowered_free(&l);
}
END_TEST

/* A pipeline of one stage is short enough to be read. */
START_TEST(the_form_is_this)
{
    struct hand *h = hand_pipeline("1f1b", 1, 1);
    struct text text = { 0 }, want = { 0 };
    program_print(h->program, &text);
    text_printf(&want,
                "program model %016llx plan %016llx stages 1 buffers 6 assignments 1\n"
                "assignment 0 axis -1 -1 -1 -1 ring -1 slice -1 slices 1\n"
                "buffer 0 weight stage 0 id 0 weight persistent micro -1 ring 0 0 part 0 1 0 version 0 layout R R R R "
                "elements 100 bytes 400 offset -1\n",
                (unsigned long long)h->graph.model_hash, (unsigned long long)plan_hash(h->plan));
    ck_assert_msg(!strncmp(text.data, want.data, want.length), "%s", text.data);
    static const char tail[] = "stage 0 instrs 6 arena 0 persistent 0 scratch 0 0\n"
                               "instr 0 load forward on compute fold none layer 0 segment -1 micro 0 round 0 atoms 0 "
                               "peer -1 tag -1 pairs -1 2\n"
                               "instr 1 compute forward on compute fold none layer 0 segment 0 micro 0 round 0 atoms 0 "
                               "peer -1 tag -1 in 2 out 4= weight 0\n"
                               "instr 2 seed forward on compute fold none layer 0 segment -1 micro 0 round 0 atoms 0 "
                               "peer -1 tag -1 pairs -1 5\n"
                               "instr 3 compute backward_input on compute fold none layer 0 segment 0 micro 0 round 0 "
                               "atoms 0 peer -1 tag -1 in 2 weight 0 "
                               "gradient-in 3= gradient-out 5\n"
                               "instr 4 compute backward_weight on compute fold none layer 0 segment 0 micro 0 round 0 "
                               "atoms 0 peer -1 tag -1 in 2 weight 0 "
                               "gradient-out 5 gradient-weight 1=\n"
                               "instr 5 update step on compute fold none layer 0 segment -1 micro -1 round 0 atoms 0 "
                               "peer -1 tag -1 pairs 1 0\n";
    ck_assert_uint_gt(text.length, sizeof tail);
    ck_assert_str_eq(text.data + text.length - strlen(tail), tail);
    text_free(&text);
    text_free(&want);
    hand_free(h);
}
END_TEST

/* The text with the first `from` replaced by `to` is refused with a message that begins with `message`. */
static void refused(const struct hand *h, const char *from, const char *to, const char *message)
{
    struct text text = { 0 }, changed = { 0 };
    struct program *out = NULL;
    struct error err = { 0 };
    program_print(h->program, &text);
    const char *at = strstr(text.data, from);
    ck_assert_msg(at != NULL, "no \"%s\"", from);
    text_add_bytes(&changed, text.data, (size_t)(at - text.data));
    text_add(&changed, to);
    text_add(&changed, at + strlen(from));
    ck_assert_msg(!program_parse(&out, &h->graph, h->plan, "p", changed.data, changed.length, &err), "accepted \"%s\"",
                  to);
    ck_assert_ptr_null(out);
    ck_assert_msg(!strncmp(err.message, message, strlen(message)), "%s\nexpected %s", err.message, message);
    text_free(&text);
    text_free(&changed);
}

START_TEST(mistakes_have_a_place)
{
    struct hand *h = hand_pipeline("1f1b", 1, 1);
    refused(h, "program", "progam", "p:1:1: expected 'program', found 'progam'");
    refused(h, "buffers 6", "buffers 5", "p:8:1: expected 'stage', found 'buffer'");
    refused(h, "buffers 6", "buffers 2000000000", "p:1:1: expected counts that the text can hold");
    refused(h, "buffers 6", "buffers -6", "p:1:1: expected counts");
    refused(h, "stages 1", "stages 2", "p:1:1: expected 1 stages");
    refused(h, "instr 0 load", "instr 0 lode", "p:10:9: expected a known word, found 'lode'");
    refused(h, "instr 1 ", "instr 2 ", "p:11:7: expected the next index, found '2'");
    refused(h, "layout R", "layout Q", "p:3:94: expected a layout");
    refused(h, "layout R", "layout S1", "p:3:94: expected a layout such as S1.0");
    refused(h, "layout R", "layout R0.0", "p:3:94: expected a layout such as S1.0");
    refused(h, "elements 100", "elements 0100", "p:3:111: expected a whole number");
    refused(h, "elements 100", "elements 9223372036854775808", "p:3:111: expected a smaller number");
    refused(h, "bytes 400", "bytes 401", "p:3:121: expected the bytes of so many elements, found '401'");
    refused(h, "bytes 400", "bytes 0", "p:3:121: expected the bytes of so many elements");
    refused(h, "id 0", "id 4294967296", "p:3:28: expected a number of 31 bits");
    refused(h, "stage 0 id", "stage 1 id", "p:3:1: expected a stage below 1, found 1");
    refused(h, "out 4=", "out 4=,,", "p:11:");
    refused(h, "out 4=", "out 4=,-,-,-,-,-", "p:11:");
    refused(h, " in 2 ", " in 2= ", "p:11:106: expected operands that the phase does not overwrite");
    refused(h, "pairs 1 0\n", "pairs 1 0", "p:15:");
    refused(h, "pairs 1 0\n", "pairs 1\n", "p:15:");
    refused(h, "pairs 1 0\n", "pairs 1 0\n\n", "p:16:1: expected the end of the text");
    refused(h, "plan ", "plan 0", "p:1:37: expected the hash");
    hand_free(h);
}
END_TEST

/* Every prefix and every changed byte is either refused or read as a program that prints itself. */
START_TEST(hostile_texts_do_no_harm)
{
    struct hand *h = hand_pipeline("1f1b", 2, 1);
    struct text text = { 0 };
    program_print(h->program, &text);
    for (uint64_t i = 0; i < 4000; i++) {
        char *copy = malloc(text.length);
        size_t length = i % 4 ? text.length : (size_t)(mix64(i) % text.length);
        struct program *out = NULL;
        memcpy(copy, text.data, text.length);
        if (i % 4)
            copy[mix64(i) % length] = "0123456789 -=\nRSabc,."[mix64(i + 77) % 21];
        if (program_parse(&out, &h->graph, h->plan, "hostile", copy, length, NULL)) {
            struct text again = { 0 };
            program_print(out, &again);
            ck_assert_uint_eq(again.length, length);
            ck_assert_mem_eq(again.data, copy, length);
            verify_program(out, NULL);
            text_free(&again);
        }
        program_free(out);
        free(copy);
    }
    text_free(&text);
    hand_free(h);
}
END_TEST

static Suite *text_suite(void)
{
    Suite *suite = suite_create("program_text");
    CHECK_ADD(suite, the_form_is_this);
    CHECK_ADD(suite, mistakes_have_a_place);
    CHECK_ADD(suite, hostile_texts_do_no_harm);
    TCase *lowered = tcase_create("lowered");
    tcase_set_timeout(lowered, 0);
    tcase_add_loop_test(lowered, lowered_programs_come_back, 0, STRATEGY_COUNT);
    suite_add_tcase(suite, lowered);
    return suite;
}

CHECK_MAIN(text_suite)
