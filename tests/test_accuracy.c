/* What is known of predictions' errors: from rows to the file, strictly back, and what is said of a job. */
#include "cli/accuracy.h"
#include "cli/validation.h"
#include "tests/check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char known[] =
    "{\"format\": \"cleave-accuracy\", \"version\": 1, \"source\": \"s\", \"entries\": ["
    "{\"framework\": \"torchtitan\", \"device\": \"h100-sxm\", \"dtype\": \"bf16\", \"experts\": false, \"rows\": 61,"
    " \"most_devices\": 512, \"median\": -0.012, \"low\": -0.12, \"high\": 0.09},"
    "{\"framework\": \"torchtitan\", \"device\": \"a100-sxm-80\", \"dtype\": \"bf16\", \"experts\": true, \"rows\": 1,"
    " \"most_devices\": 8, \"median\": 0.031, \"low\": 0.031, \"high\": 0.031}]}";

static void must_say(const char *words, bool found, struct accuracy_question question)
{
    struct accuracy accuracy = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct text text = { 0 };
    const struct accuracy_entry *entry;
    ck_assert_msg(accuracy_read(&accuracy, &arena, "k", known, strlen(known), &err), "%s", err.message);
    accuracy_tell(&text, &entry, &accuracy, &question);
    ck_assert_str_eq(text.data, words);
    ck_assert_int_eq(entry != NULL, found);
    text_free(&text);
    arena_free(&arena);
}

START_TEST(sentences_say_what_is_known)
{
    must_say("61 runs of torchtitan on h100-sxm in bf16 were predicted with -12 to +9 % (80 % of them)", true,
             (struct accuracy_question){ "torchtitan", "h100-sxm", "bf16", false, 512 });
    must_say("61 runs of torchtitan on h100-sxm in bf16 were predicted with -12 to +9 % (80 % of them), none of them "
             "on more than 512 devices",
             true, (struct accuracy_question){ "torchtitan", "h100-sxm", "bf16", false, 520 });
    must_say("1 run of mixtures of experts by torchtitan on a100-sxm-80 in bf16 was predicted with +3 %", true,
             (struct accuracy_question){ "torchtitan", "a100-sxm-80", "bf16", true, 8 });
}
END_TEST

START_TEST(sentences_say_what_is_not)
{
    must_say("no published run of torchtitan on gb200 in bf16 was held against this price; covered are h100-sxm in "
             "bf16, a100-sxm-80 in bf16 (mixtures of experts)",
             false, (struct accuracy_question){ "torchtitan", "gb200", "bf16", false, 8 });
    must_say("no published run of mixtures of experts by torchtitan on h100-sxm in bf16 was held against this price; "
             "covered are h100-sxm in bf16, a100-sxm-80 in bf16 (mixtures of experts)",
             false, (struct accuracy_question){ "torchtitan", "h100-sxm", "bf16", true, 8 });
    must_say("no published run of own on several types of devices in fp8 was held against this price, nor any other of "
             "it",
             false, (struct accuracy_question){ "own", "", "fp8", false, 8 });
}
END_TEST

static void must_refuse(const char *from, const char *to, const char *why)
{
    struct accuracy accuracy = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    char text[2048];
    const char *at = strstr(known, from);
    ck_assert_ptr_nonnull(at);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(at - known), known, to, at + strlen(from));
    ck_assert(!accuracy_read(&accuracy, &arena, "k", text, strlen(text), &err));
    ck_assert_msg(strstr(err.message, why) != NULL, "%s", err.message);
    ck_assert_int_eq(err.kind, ERROR_INPUT);
    arena_free(&arena);
}

START_TEST(files_are_read_strictly)
{
    must_refuse("cleave-accuracy", "cleave-plan", "cleave-accuracy");
    must_refuse("\"version\": 1", "\"version\": 2", "version");
    must_refuse("\"rows\": 61", "\"rows\": 0", "rows");
    must_refuse("\"rows\": 61", "\"row\": 61", "did you mean");
    must_refuse("\"low\": -0.12", "\"low\": 0", "expected low <= median <= high, found 0, -0.012 and 0.09");
    must_refuse("a100-sxm-80\", \"dtype\": \"bf16\", \"experts\": true",
                "h100-sxm\", \"dtype\": \"bf16\", \"experts\": false", "expected one entry of torchtitan on h100-sxm");
    must_refuse("[{", "{", "expected");
}
END_TEST

/* Rows of errors that are known: 0 to 10 %, of ten more than one entry's all; others must not count. */
START_TEST(rows_become_quantiles)
{
    enum { ROWS = 15 };
    struct validated_row rows[ROWS];
    struct accuracy accuracy = { 0 }, again = { 0 };
    struct arena arena = { 0 };
    struct error err = { 0 };
    size_t length = 0;
    for (int i = 0; i < ROWS; i++) {
        rows[i] = (struct validated_row){ .measured_s = 1, .counts = true, .predicted_ns = 1000000000 + i * 10000000 };
        rows[i].asked = (struct measured_case){ .framework = "f", .device = "d", .dtype = "bf16" };
        rows[i].run.n_experts = BLANK;
        rows[i].run.n_gpus = 8 + i;
    }
    rows[11].skipped = "why";
    rows[12].counts = false;
    rows[13].asked.framework = "cleave";
    rows[14].run.n_experts = 8;
    ck_assert_msg(accuracy_of_rows(&accuracy, &arena, rows, ROWS, &err), "%s", err.message);
    ck_assert_int_eq(accuracy.count, 2);
    const struct accuracy_entry *dense = &accuracy.entries[0], *mixture = &accuracy.entries[1];
    ck_assert_int_eq(dense->rows, 11);
    ck_assert_int_eq(dense->most_devices, 18);
    ck_assert(dense->low == .01 && dense->median == .05 && dense->high == .09);
    ck_assert(mixture->rows == 1 && mixture->experts && mixture->low == .14 && mixture->high == .14);
    char *text = accuracy_write(&accuracy, &length);
    ck_assert_msg(accuracy_read(&again, &arena, "w", text, length, &err), "%s", err.message);
    ck_assert(again.count == 2 && again.entries[0].high == dense->high && again.entries[1].experts);
    free(text);
    arena_free(&arena);
}
END_TEST

static Suite *accuracy_suite(void)
{
    Suite *suite = suite_create("accuracy");
    CHECK_ADD(suite, sentences_say_what_is_known);
    CHECK_ADD(suite, sentences_say_what_is_not);
    CHECK_ADD(suite, files_are_read_strictly);
    CHECK_ADD(suite, rows_become_quantiles);
    return suite;
}

CHECK_MAIN(accuracy_suite)
