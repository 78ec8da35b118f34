#include "formats/plan_difference.h"
#include "base/json.h"
#include "formats/plan_json.h"
#include "planner/space/choice.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct comparing {
    struct differences *out;
    struct error *err;
};

static bool add(struct comparing *c, const char *where, const char *what, const char *a, const char *b)
{
    struct differences *out = c->out;
    struct difference *list = arena_more(&out->arena, out->list, out->count, &out->capacity, sizeof *list);
    if (!list)
        return fail_memory(c->err);
    out->list = list;
    struct difference *d = &out->list[out->count++];
    *d = (struct difference){ arena_strdup(&out->arena, where), arena_strdup(&out->arena, what),
                              arena_strdup(&out->arena, a), arena_strdup(&out->arena, b) };
    return (d->where && d->what && d->a && d->b) || fail_memory(c->err);
}

/* A value in a line: lists with commas. */
static void describe(struct text *text, const struct json *value)
{
    const char *string = NULL;
    double number = 0;
    bool truth = false;
    char digits[TEXT_NUMBER_BYTES];
    switch (json_type(value)) {
    case JSON_BOOL:
        json_bool(value, &truth, NULL);
        text_add(text, truth ? "true" : "false");
        return;
    case JSON_NUMBER:
        json_double(value, -1e300, 1e300, &number, NULL);
        text_add(text, text_double(digits, number));
        return;
    case JSON_STRING:
        json_string(value, &string, NULL);
        text_add(text, string ? string : "");
        return;
    case JSON_ARRAY:
    case JSON_NULL: /* of these two a decision has none */
    case JSON_OBJECT:
        break;
    }
    for (int i = 0; i < json_count(value); i++) {
        text_add(text, i ? "," : "");
        describe(text, json_at(value, i));
    }
}

/* What a member of a plan means that is not written: of a choice what is usual. */
static void describe_unsaid(struct text *text, const char *what)
{
    char key[64], name[CHOICE_VALUE_BYTES];
    snprintf(key, sizeof key, "%s", what);
    for (char *at = strchr(key, '_'); at; at = strchr(at, '_'))
        *at = '-';
    enum space_choice choice = choice_named(key);
    for (int i = 0; i < OPTIMIZER_PARTS; i++)
        if (!strcmp(what, optimizer_parts[i].key)) {
            text_add(text, optimizer_parts[i].names[0]);
            return;
        }
    if (choice == CHOICE_COUNT) {
        text_add(text, !strcmp(what, "clock") ? "even" : !strcmp(what, "chunk_group") ? "the least" : "none");
        return;
    }
    long long usual = choice_unsaid(choice);
    const char *word = choice_value_name(name, choice, usual);
    if (word)
        text_add(text, word);
    else
        text_printf(text, "%lld", usual);
}

static void describe_member(struct text *text, const char *what, const struct json *value)
{
    if (value)
        describe(text, value);
    else
        describe_unsaid(text, what);
}

/* One member of both sides; adds it when the words differ. */
static bool compare_value(struct comparing *c, const char *where, const char *what, const struct json *a,
                          const struct json *b)
{
    struct text left = { 0 }, right = { 0 };
    describe_member(&left, what, a);
    describe_member(&right, what, b);
    bool good = (!left.failed && !right.failed) || fail_memory(c->err);
    const char *x = left.data ? left.data : "", *y = right.data ? right.data : "";
    if (good && strcmp(x, y) != 0)
        good = add(c, where, what, x, y);
    text_free(&left);
    text_free(&right);
    return good;
}

/* Whether a member is in the list of those that are compared elsewhere. */
static bool is_one_of(const char *key, const char *const *keys)
{
    for (; *keys; keys++)
        if (!strcmp(key, *keys))
            return true;
    return false;
}

/* All members of two objects (either may be NULL), but those named in `without`. */
static bool compare_members(struct comparing *c, const char *where, const struct json *a, const struct json *b,
                            const char *const *without)
{
    for (int i = 0; a && i < json_count(a); i++)
        if (!is_one_of(json_key(a, i), without) &&
            !compare_value(c, where, json_key(a, i), json_member_at(a, i), b ? json_member(b, json_key(a, i)) : NULL))
            return false;
    for (int i = 0; b && i < json_count(b); i++)
        if (!is_one_of(json_key(b, i), without) && !(a && json_member(a, json_key(b, i))) &&
            !compare_value(c, where, json_key(b, i), NULL, json_member_at(b, i)))
            return false;
    return true;
}

static bool compare_stages(struct comparing *c, const struct json *a, const struct json *b)
{
    static const char *const all[] = { NULL };
    int count = json_count(a) > json_count(b) ? json_count(a) : json_count(b);
    for (int s = 0; s < count; s++) {
        char where[32];
        snprintf(where, sizeof where, "stage %d", s);
        if (!compare_members(c, where, json_at(a, s), json_at(b, s), all))
            return false;
    }
    return true;
}

/* ---- layers, which the file lists in runs ---- */

/* One past the last layer of a run "0-11" or "12". */
static int run_end(const struct json *run)
{
    const char *text = "", *dash;
    json_string(json_member(run, "layers"), &text, NULL);
    dash = strchr(text, '-');
    return (int)strtol(dash ? dash + 1 : text, NULL, 10) + 1;
}

static bool same_since(const struct differences *d, int first, int then)
{
    if (d->count - then != then - first || then == first)
        return false;
    for (int i = 0; i < then - first; i++) {
        const struct difference *x = &d->list[first + i], *y = &d->list[then + i];
        if (strcmp(x->what, y->what) != 0 || strcmp(x->a, y->a) != 0 || strcmp(x->b, y->b) != 0)
            return false;
    }
    return true;
}

static bool name_range(struct comparing *c, int first_difference, int first, int end)
{
    char where[48];
    if (end - first == 1)
        snprintf(where, sizeof where, "layer %d", first);
    else
        snprintf(where, sizeof where, "layers %d-%d", first, end - 1);
    const char *kept = arena_strdup(&c->out->arena, where);
    for (int i = first_difference; i < c->out->count; i++)
        c->out->list[i].where = kept;
    return kept || fail_memory(c->err);
}

/* Walks both lists of runs at once; a piece that differs as the one before it does prolongs that one. */
static bool compare_layers(struct comparing *c, const struct json *a, const struct json *b)
{
    static const char *const without[] = { "layers", NULL };
    struct differences *out = c->out;
    int i = 0, k = 0, at = 0, before = out->count, before_at = -1; /* where the piece before began; -1: it was equal */
    while (i < json_count(a) || k < json_count(b)) {
        const struct json *x = json_at(a, i), *y = json_at(b, k);
        int x_end = x ? run_end(x) : INT32_MAX, y_end = y ? run_end(y) : INT32_MAX;
        int end = x_end < y_end ? x_end : y_end, first = out->count;
        if (!compare_members(c, "", x, y, without))
            return false;
        if (before_at >= 0 && same_since(out, before, first)) {
            out->count = first;
            first = before;
        } else {
            before = first;
            before_at = out->count > first ? at : -1;
        }
        if (before_at >= 0 && !name_range(c, first, before_at, end))
            return false;
        at = end;
        i += x_end == end;
        k += y_end == end;
    }
    return true;
}

static bool compare_decisions(struct comparing *c, const struct json *a, const struct json *b)
{
    static const char *const lists[] = { "stages", "layers", NULL };
    return compare_members(c, "plan", a, b, lists) &&
           compare_stages(c, json_member(a, "stages"), json_member(b, "stages")) &&
           compare_layers(c, json_member(a, "layers"), json_member(b, "layers"));
}

static bool parse_plan(const struct plan *plan, struct json_doc **doc, struct error *err)
{
    size_t length = 0;
    char *text = plan_json_write(plan, NULL, NULL, &length);
    bool good = text ? json_parse(doc, "plan", text, length, err) : fail_memory(err);
    free(text);
    return good;
}

bool diff_plans(struct differences *out, const struct plan *a, const struct plan *b, struct error *err)
{
    struct json_doc *left = NULL, *right = NULL;
    struct comparing c = { out, err };
    *out = (struct differences){ 0 };
    bool good =
        parse_plan(a, &left, err) && parse_plan(b, &right, err) &&
        compare_decisions(&c, json_member(json_root(left), "decisions"), json_member(json_root(right), "decisions"));
    json_free(left);
    json_free(right);
    if (!good)
        differences_free(out);
    return good;
}

void differences_free(struct differences *differences)
{
    arena_free(&differences->arena);
    *differences = (struct differences){ 0 };
}
