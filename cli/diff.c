/* What two plans decided differently, and what that costs. */
#include "cli/explanation.h"
#include "cli/program_options.h"
#include "formats/plan_file.h"
#include "formats/plan_difference.h"
#include <stdlib.h>
#include <string.h>

struct diff_arguments {
    struct source_options source;
    bool json;
};
#define AT(field) offsetof(struct diff_arguments, field)
static const struct option options[] = {
    FLAG_OPTION("json", AT(json), "one JSON object (cleave schema diff)"),
    SOURCE_OPTIONS(struct diff_arguments, source),
};

/* One of the two plans: its decisions, and its account where its model and cluster are there. */
struct side {
    struct inputs in;
    struct plan_file *file;
    struct explained *explained;
    struct account account;
};

static bool read_side(struct side *side, const char *path, struct error *err)
{
    const char *text;
    size_t length;
    return inputs_text(&side->in, path, &text, &length, err) && plan_json_read(&side->file, path, text, length, err);
}

static void free_side(struct side *side)
{
    account_free(&side->account);
    explained_free(side->explained);
    plan_file_free(side->file);
    inputs_free(&side->in);
}

static bool price_side(struct side *side, const char *path, const struct source_options *source, struct error *err)
{
    return inputs_plan(&side->in, path, source->model, source->cluster, &source->profiles, err) &&
           explained_open(&side->explained, side->in.model, side->file->plan, err) &&
           (side->explained->whole = true, explained_lower(side->explained, NULL, err)) &&
           account_open(&side->account, side->explained, &side->in.facts, err);
}

/* Both, if they are of one model and can be priced; else why says why not. */
static bool price_both(struct side sides[2], const char *const *paths, const struct source_options *source,
                       struct error *why)
{
    const struct plan_origin *a = &sides[0].file->context.model, *b = &sides[1].file->context.model;
    if (!source->model && (!a->source || !b->source || a->hash != b->hash))
        return fail(why, "they are for different models (%s and %s)", a->source ? a->source : "unnamed",
                    b->source ? b->source : "unnamed");
    return price_side(&sides[0], paths[0], source, why) && price_side(&sides[1], paths[1], source, why);
}

/* ---- for people ---- */

/* How many differences of one place begin there. */
static int count_of_place(const struct differences *d, int first)
{
    int count = 1;
    while (first + count < d->count && strcmp(d->list[first + count].where, d->list[first].where) == 0)
        count++;
    return count;
}

static bool is_alike(const struct differences *d, int first, int other)
{
    int count = count_of_place(d, first);
    bool alike = count == count_of_place(d, other);
    for (int i = 0; i < count && alike; i++) {
        const struct difference *x = &d->list[first + i], *y = &d->list[other + i];
        alike = !strcmp(x->what, y->what) && !strcmp(x->a, y->a) && !strcmp(x->b, y->b);
    }
    return alike;
}

/* A line for all places that differ alike, of which the first are named: blocks alternate. */
static void print_decisions(const struct cli *cli, const struct differences *d)
{
    enum { NAMED = 4 };
    for (int i = 0; i < d->count; i += count_of_place(d, i)) {
        int before = 0, places = 1;
        while (before < i && !is_alike(d, before, i))
            before += count_of_place(d, before);
        if (before < i)
            continue;
        fprintf(cli->out, "%s", d->list[i].where);
        for (int j = i + count_of_place(d, i); j < d->count; j += count_of_place(d, j))
            if (is_alike(d, i, j) && places++ < NAMED)
                fprintf(cli->out, ", %s", d->list[j].where);
        if (places > NAMED)
            fprintf(cli->out, " and %d more", places - NAMED);
        for (int k = 0; k < count_of_place(d, i); k++) {
            const struct difference *at = &d->list[i + k];
            fprintf(cli->out, "%s%s %s -> %s", k > 0 ? ", " : ": ", at->what, at->a, at->b);
        }
        fprintf(cli->out, "\n");
    }
    if (d->count == 0)
        fprintf(cli->out, "the same decisions\n");
}

/* What the plans are for: predictions differ by it as well. */
static const struct {
    size_t at;
    const char *name, *text, *none;
} contexts[] = {
    { offsetof(struct plan_context, cluster), "cluster", "for cluster", "unnamed" },
    { offsetof(struct plan_context, framework), "framework", "run by", "cleave" },
    { offsetof(struct plan_context, profile), "profile", "priced by", "no profile" },
};
enum { CONTEXTS = sizeof contexts / sizeof *contexts };

/* Gives what the plans are for of the kind; false where it is the same. */
static bool context_differs(const struct side sides[2], int kind, const char *names[2])
{
    const struct plan_origin *origins[2];
    for (int i = 0; i < 2; i++) {
        origins[i] = (const struct plan_origin *)((const char *)&sides[i].file->context + contexts[kind].at);
        names[i] = origins[i]->source ? origins[i]->source : contexts[kind].none;
    }
    return origins[0]->hash != origins[1]->hash;
}

static void print_contexts(const struct cli *cli, const struct side sides[2])
{
    const char *names[2];
    for (int k = 0; k < CONTEXTS; k++)
        if (context_differs(sides, k, names))
            fprintf(cli->out, "%s %s -> %s\n", contexts[k].text, names[0], names[1]);
}

enum { MEASURE_NS, MEASURE_BYTES };

static void print_item(const struct cli *cli, const char *name, int measure, int64_t a, int64_t b)
{
    char left[TEXT_NUMBER_BYTES], right[TEXT_NUMBER_BYTES], change[TEXT_NUMBER_BYTES];
    int64_t difference = b > a ? b - a : a - b;
    if (a == 0 && b == 0)
        return;
    char *(*write)(char *, int64_t) = measure == MEASURE_NS ? text_duration_ns : text_bytes;
    write(left, a);
    write(right, b);
    write(change, difference);
    fprintf(cli->out, "  %-12s %10s %10s %c%s\n", name, left, right, b > a ? '+' : b < a ? '-' : ' ', change);
}

static void print_prices(const struct cli *cli, const struct side sides[2])
{
    const struct account *a = &sides[0].account, *b = &sides[1].account;
    fprintf(cli->out, "predicted, of the stage that ends last\n");
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        print_item(cli, time_kind_names[k], MEASURE_NS, a->time_ns[a->last_stage][k], b->time_ns[b->last_stage][k]);
    print_item(cli, "step", MEASURE_NS, a->step_ns, b->step_ns);
    fprintf(cli->out, "memory of a device of the stage with least left (%d and %d)\n", a->full_stage, b->full_stage);
    for (int k = 0; k < MEMORY_KIND_COUNT; k++)
        print_item(cli, memory_kind_names[k], MEASURE_BYTES, a->memory[a->full_stage].bytes[k],
                   b->memory[b->full_stage].bytes[k]);
    print_item(cli, "sum", MEASURE_BYTES, a->memory[a->full_stage].peak_bytes, b->memory[b->full_stage].peak_bytes);
}

/* ---- JSON ---- */

static void write_side(struct json_writer *w, const char *key, const struct account *a)
{
    const struct stage_memory *memory = &a->memory[a->full_stage];
    json_write_key(w, key);
    json_begin_object(w);
    json_put_double(w, "step_s", (double)a->step_ns / 1e9);
    write_times(w, "time_s", a->time_ns[a->last_stage]);
    json_put_int(w, "peak_bytes", memory->peak_bytes);
    write_memory(w, "memory_bytes", memory->bytes);
    json_put_bool(w, "fits", a->fits);
    json_end_object(w);
}

static void write_difference(struct json_writer *w, const char *where, const char *what, const char *a, const char *b)
{
    json_begin_object(w);
    json_put_string(w, "where", where);
    json_put_string(w, "what", what);
    json_put_string(w, "a", a);
    json_put_string(w, "b", b);
    json_end_object(w);
}

static void write_differences(struct json_writer *w, const struct differences *d, const struct side sides[2])
{
    const char *names[2];
    json_put_bool(w, "same", d->count == 0);
    json_write_key(w, "context");
    json_begin_array(w);
    for (int k = 0; k < CONTEXTS; k++)
        if (context_differs(sides, k, names))
            write_difference(w, "file", contexts[k].name, names[0], names[1]);
    json_end_array(w);
    json_write_key(w, "decisions");
    json_begin_array(w);
    for (int i = 0; i < d->count; i++)
        write_difference(w, d->list[i].where, d->list[i].what, d->list[i].a, d->list[i].b);
    json_end_array(w);
}

static bool write_json(const struct cli *cli, const struct differences *d, const struct side sides[2],
                       const struct error *why, struct error *err)
{
    struct json_writer w = { 0 };
    const struct account *a = &sides[0].account, *b = &sides[1].account;
    int64_t difference[TIME_KIND_COUNT];
    json_begin_format(&w, "cleave-diff", 1);
    write_differences(&w, d, sides);
    json_write_key(&w, "predicted");
    if (why->kind == ERROR_NONE) {
        for (int k = 0; k < TIME_KIND_COUNT; k++)
            difference[k] = b->time_ns[b->last_stage][k] - a->time_ns[a->last_stage][k];
        json_begin_object(&w);
        write_side(&w, "a", a);
        write_side(&w, "b", b);
        write_times(&w, "difference_s", difference);
        json_end_object(&w);
    } else {
        json_write_string(&w, NULL);
    }
    json_put_string(&w, "why_not", why->kind == ERROR_NONE ? NULL : why->message);
    json_end_object(&w);
    return inputs_hand_out_json(cli, NULL, &w, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct diff_arguments *o = given;
    struct side sides[2] = { { .in = { .cli = cli } }, { .in = { .cli = cli } } };
    struct differences differences = { 0 };
    struct error why = { 0 };
    (void)operand_count;
    if (read_side(&sides[0], operands[0], err) && read_side(&sides[1], operands[1], err) &&
        diff_plans(&differences, sides[0].file->plan, sides[1].file->plan, err)) {
        bool priced = price_both(sides, operands, &o->source, &why);
        if (why.kind == ERROR_ENVIRONMENT) { /* not the plans' fault */
            *err = why;
        } else if (o->json) {
            write_json(cli, &differences, sides, &why, err);
        } else {
            print_contexts(cli, sides);
            print_decisions(cli, &differences);
            if (priced)
                print_prices(cli, sides);
            else
                fprintf(cli->out, "no predictions: %s\n", why.message);
        }
    }
    differences_free(&differences);
    free_side(&sides[0]);
    free_side(&sides[1]);
    return ERROR_NONE;
}

const struct verb verb_diff = {
    .name = "diff",
    .summary = "what two plans decided differently, and its price",
    .usage = "PLAN PLAN [--json]   exit code 0 whether they are the same or not",
    .examples = "  cleave diff old.json new.json\n",
    .min_operands = 2,
    .max_operands = 2,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct diff_arguments),
    .run = run,
};
