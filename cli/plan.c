#include "cli/accuracy_note.h"
#include "cli/aim.h"
#include "cli/batches.h"
#include "cli/certificate_text.h"
#include "cli/explanation.h"
#include "cli/memory_account.h"
#include "cli/objective.h"
#include "cli/pareto.h"
#include "cli/print.h"
#include "cli/progress.h"
#include "cli/remarks.h"
#include "cli/space_options.h"
#include "cli/widening.h"
#include "formats/certificate_write.h"
#include "host/clock.h"
#include "host/file.h"
#include "host/heap.h"
#include "planner/explain/explain_facts.h"
#include "planner/explain/explain_several.h"
#include "planner/space/wider.h"
#include "planner/sim/timeline.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_SEQUENCES = 1 << 17, MOST_BATCH = 1000000000 }; /* that --batch auto tries; that may be given */

struct plan_arguments {
    struct space_options space;
    const char *output, *launch, *pareto, *batch, *objective;
    struct text_list skip, prices;
    int64_t top;
    bool json, timings;
};

/* Adds the names of the heuristics that --skip takes. */
static void list_heuristics(struct text *out)
{
    for (int i = 0, met = 0; i < SEARCH_PARTS; i++)
        if (search_part_facts[i].heuristic)
            text_printf(out, "%s%s", met++ > 0 ? ", " : "", search_part_facts[i].name);
}

static const struct plan_arguments defaults = { .space.gap = DEFAULT_GAP, .top = 1 };
static const struct option options[] = {
    TEXT_OPTION("batch", offsetof(struct plan_arguments, batch), "SEQUENCES",
                "sequences per step over all devices; auto: those that give the most sequences per second; auto:MOST: "
                "of at most so many"),
    FACT_OPTIONS(struct plan_arguments, space),
    SEARCH_OPTIONS(struct plan_arguments, space),
    TARGET_OPTION(struct plan_arguments, space),
    OBJECTIVE_OPTION(offsetof(struct plan_arguments, objective)),
    PRICE_OPTION(offsetof(struct plan_arguments, prices)),
    OUTPUT_OPTION(offsetof(struct plan_arguments, output), "the plan file"),
    TEXT_OPTION("launch", offsetof(struct plan_arguments, launch), "DIR",
                "with --target: the folder for its launch, as cleave export writes it"),
    INT_OPTION("top", offsetof(struct plan_arguments, top), "K", 1, 64,
               "shows the K best plans that differ in more than trifles (1)"),
    TEXT_OPTION("pareto", offsetof(struct plan_arguments, pareto), "RESOURCE",
                "step against memory or devices: solves again with ever less of it"),
    FLAG_OPTION("json", offsetof(struct plan_arguments, json),
                "the plan file on standard output, with its certificate; where nothing fits, what would"),
    FLAG_OPTION("timings", offsetof(struct plan_arguments, timings),
                "says on standard error what each part of the search took and found"),
    { .name = "skip",
      .type = OPTION_LIST,
      .offset = offsetof(struct plan_arguments, skip),
      .value_name = "HEURISTIC",
      .doc = "leaves a heuristic of the search out, to measure what it is worth; may be repeated: ",
      .end_doc = list_heuristics },
};

/* What a search came to, and what else was asked. */
struct answer {
    const struct plan_arguments *a;
    struct inputs *in;
    const struct space *space;
    int64_t most_batch;          /* of the batches to choose from the largest; 0: the batch was given */
    struct batch_choice batches; /* of those tried else */
    const struct prices *prices;
    const struct objective *objective;
    const struct target *target; /* NULL: none; else what it was asked */
    struct aim aim;              /* with one */
    struct uniform_choice choice;
    struct free_look look;
    struct widening widening; /* of the space, where nothing fitted in the usual one */
    struct certificate certificate;
    struct ranking ranking;
    struct explainer explainer; /* owns the plans of pareto */
    struct pareto pareto;
};

static bool write_top(struct json_writer *w, const struct answer *answer, struct error *err)
{
    json_write_key(w, "top");
    json_begin_array(w);
    for (int i = 0; i < answer->ranking.count; i++) {
        const struct search_plan *plan = &answer->ranking.plans[i];
        struct graph *graph = NULL;
        if (!plan_graph(&graph, answer->in->model, plan->plan, err))
            return false;
        json_begin_object(w);
        json_put_double(w, "step_s", (double)plan->estimate->prediction.step_ns / 1e9);
        json_put_int(w, "peak_bytes", estimate_peak_bytes(&plan->estimate->prediction));
        json_write_key(w, "plan");
        write_choice(w, plan->plan, graph);
        json_end_object(w);
        graph_free(graph);
    }
    json_end_array(w);
    return true;
}

/* The plan file with its certificate, but for the brace that ends it. */
static void begin_plan_file(struct json_writer *w, const struct answer *answer)
{
    const struct search_plan *best = &answer->ranking.plans[0];
    const struct search_result result = { .certificate = answer->certificate };
    json_begin_object(w);
    plan_json_members(w, best->plan, &best->estimate->prediction, &answer->in->context);
    certificate_write(w, &result, answer->space);
}

static struct spending spending_of_answer(const struct answer *answer)
{
    const struct graph *graph = answer->in->graph;
    return spending_of(answer->prices, answer->in->cluster, answer->ranking.plans[0].estimate->prediction.step_ns,
                       graph->batch * graph->sequence);
}

static bool write_json(const struct cli *cli, const struct answer *answer, struct error *err)
{
    struct json_writer w = { 0 };
    size_t length = 0;
    begin_plan_file(&w, answer);
    const struct search_plan *best = &answer->ranking.plans[0];
    bool good = (answer->a->top == 1 || write_top(&w, answer, err)) &&
                remarks_put(&w, answer->in, best->plan, &best->estimate->prediction, err);
    if (answer->a->pareto)
        pareto_put(&w, &answer->pareto);
    if (answer->most_batch > 0)
        batches_put(&w, &answer->batches);
    if (answer->prices->count > 0) {
        struct spending spending = spending_of_answer(answer);
        json_write_key(&w, "cost");
        json_begin_object(&w);
        spending_put(&w, &spending);
        json_end_object(&w);
    }
    if (answer->objective->found)
        objective_put(&w, answer->objective);
    json_end_object(&w);
    char *text = json_finish(&w, &length);
    if (good)
        return inputs_hand_out(cli, NULL, text, length, err);
    free(text);
    return false;
}

static bool write_file(const struct cli *cli, const struct answer *answer, struct error *err)
{
    struct json_writer w = { 0 };
    begin_plan_file(&w, answer);
    json_end_object(&w);
    return inputs_hand_out_json(cli, answer->a->output, &w, err);
}

static bool same_cuts(const struct plan *a, const struct plan *b)
{
    for (int s = 0; s < a->stage_count; s++)
        for (int c = 0; c < a->chunk_count; c++) {
            struct layer_range x = plan_stage_chunk(a, s, c), y = plan_stage_chunk(b, s, c);
            if (x.first != y.first || x.count != y.count)
                return false;
        }
    return true;
}

/* How plans differ whose lines are alike: the first of the better ones whose is. */
static void print_difference(const struct cli *cli, const struct ranking *r, int at, char (*lines)[PRINT_LINE_BYTES])
{
    const struct plan *own = r->plans[at].plan;
    int like = 0, changed = 0;
    while (like < at && strcmp(lines[like], lines[at]) != 0)
        like++;
    const struct plan *other = r->plans[like].plan;
    if (like == at || other->stage_count != own->stage_count || other->chunk_count != own->chunk_count)
        return;
    for (int l = 0; l < own->layer_count; l++)
        changed += !plan_layer_equal(&own->layers[l], &other->layers[l]);
    bool cuts = !same_cuts(own, other);
    fprintf(cli->out, " (than %d: %s%s", like + 1, cuts ? "other cuts" : "", cuts && changed ? ", " : "");
    if (changed)
        fprintf(cli->out, "%d layers decided otherwise", changed);
    fprintf(cli->out, ")");
}

static bool print_others(const struct cli *cli, const struct answer *answer, struct error *err)
{
    char number[TEXT_NUMBER_BYTES], peak[TEXT_NUMBER_BYTES];
    const struct ranking *r = &answer->ranking;
    struct arena arena = { 0 };
    char(*lines)[PRINT_LINE_BYTES] = arena_alloc(&arena, (size_t)r->count, sizeof *lines);
    bool good = lines || fail_kind(err, ERROR_ENVIRONMENT, "plan: out of memory");
    for (int i = 0; good && i < r->count; i++) {
        struct graph *graph = NULL;
        int64_t best = r->plans[0].estimate->prediction.step_ns, step = r->plans[i].estimate->prediction.step_ns;
        good = plan_graph(&graph, answer->in->model, r->plans[i].plan, err);
        if (good)
            print_plan_line(r->plans[i].plan, graph, lines[i]);
        graph_free(graph);
        if (!good || i == 0)
            continue;
        fprintf(cli->out, "%2d. %s (%+.1f %%), %s: %s", i + 1, text_duration_ns(number, step),
                100 * ((double)step / (double)best - 1),
                text_bytes(peak, estimate_peak_bytes(&r->plans[i].estimate->prediction)), lines[i]);
        print_difference(cli, r, i, lines);
        fprintf(cli->out, "\n");
    }
    if (good && r->count < answer->a->top)
        fprintf(cli->out, "%s %d plans that differ in more than trifles\n",
                r->complete ? "there are no more than" : "ended early with", r->count);
    arena_free(&arena);
    return good;
}

/* The tensor ranks of all layers are what all rules allow. */
static void note_rules(const struct cli *cli, const struct space *space)
{
    for (int i = 0; i < space->rule_count; i++) {
        const struct layer_rule *rule = &space->rules[i];
        if (rule->choice == CHOICE_TP || rule->choice == CHOICE_SP)
            fprintf(cli->talk, "note: layer[%d-%d].%s holds for all layers, which have one layout\n", rule->first,
                    rule->last, choice_facts[rule->choice].name);
    }
}

/* The space of the proof is not all that there is. */
static void suggest_more(const struct cli *cli, const struct space *space)
{
    struct space all = space_default(space->batch, space->sequence, space->dtype);
    struct text names = { 0 };
    for (int i = 0; i < CHOICE_COUNT; i++)
        if (all.range[i].count > 0 && space_is_default(space, (enum space_choice)i) && i != CHOICE_PREFETCH)
            text_printf(&names, "%s%s", names.length > 0 ? ", " : "", choice_facts[i].name);
    if (names.length > 0 && !names.failed)
        fprintf(cli->talk, "the space has more values when --space names them, in more time, of: %s\n", names.data);
    text_free(&names);
}

static bool hand_out(const struct cli *cli, const struct answer *answer, struct error *err)
{
    const struct plan_arguments *a = answer->a;
    const struct search_plan *best = &answer->ranking.plans[0];
    struct inputs *in = answer->in;
    bool verified;
    if (!plan_graph(&in->graph, in->model, best->plan, err) || !inputs_verify(&verified, best->plan, in->graph, err) ||
        !accuracy_note(&best->estimate->prediction, in, best->plan->dtype, err))
        return false;
    in->context.cleave = CLEAVE_VERSION;
    if (a->output && !write_file(cli, answer, err))
        return false;
    if (a->json)
        return write_json(cli, answer, err);
    if (inputs_is_stdout(a->output))
        return true; /* the plan file is the answer */
    print_plan(cli, best->plan, in->graph);
    print_placement(cli, best->plan, in->cluster);
    print_prediction(cli, &best->estimate->prediction, in->graph);
    memory_account_print(in, &best->estimate->prediction, false);
    if (!remarks_print(cli->out, in, best->plan, &best->estimate->prediction, err))
        return false;
    widening_print(cli->out, &answer->widening, true);
    if (answer->prices->count > 0) {
        struct spending spending = spending_of_answer(answer);
        spending_print(cli, &spending, print_unit(in->graph));
    }
    print_certificate(cli, &answer->certificate);
    if (answer->objective->found)
        objective_print(cli, answer->objective, &answer->certificate);
    if (!print_others(cli, answer, err))
        return false;
    if (a->pareto)
        pareto_print(cli, &answer->pareto, best->estimate->prediction.step_ns);
    if (!verified)
        inputs_say_unverified(cli, a->output);
    note_rules(cli, answer->space);
    if (!answer->target)
        suggest_more(cli, answer->space);
    if (a->output && answer->target)
        fprintf(cli->talk, "wrote %s\n", a->output);
    else if (a->output)
        fprintf(cli->talk, "wrote %s; next: cleave show %s, cleave run %s\n", a->output, a->output, a->output);
    return true;
}

/* The certificate is of the whole space; its gaps are of the plan chosen, which a wider look may have replaced. */
static void certify(struct answer *answer)
{
    const struct search_plan *best = &answer->ranking.plans[0];
    search_report_measure(&answer->certificate, best->formula_ns, best->estimate->prediction.step_ns);
}

static bool find_frontier(struct answer *answer, struct error *err)
{
    return pareto_find(&answer->pareto, &answer->explainer, answer->in, &answer->a->space, answer->prices, err);
}

/* On both streams with --json: for programs and for people. Always false. */
static bool say_infeasible(const struct cli *cli, const struct answer *answer, const struct search_result *result,
                           struct error *err)
{
    widening_print(cli->talk, &answer->widening, false);
    if (!result->why && !space_has_hosts(answer->in->cluster))
        fprintf(cli->talk,
                "not looked at: host memory (B/s, and bytes of each device: TYPE@host=25e9,host-memory=64e9)\n");
    fprintf(cli->talk, "cleave explain with the same words tells which constraints exclude each other\n");
    return (!answer->a->json || infeasible_write(cli, result, answer->in->model, err)) &&
           search_infeasible(result, answer->space, err);
}

/* Not in the plan file: the same search gives the same bytes. Parts are those of the search that answered. */
static void print_timings(const struct cli *cli, const struct search_result *result, int64_t before_ns, int64_t all_ns)
{
    fprintf(cli->talk, "%-12s %10s %10s %10s %6s\n", "part", "CPU ms", "candidates", "simulated", "led");
    fprintf(cli->talk, "%-12s %10.1f\n", "reading", (double)before_ns / 1e6);
    for (const struct part_statistics *part = result->parts; part < result->parts + SEARCH_PARTS; part++) {
        fprintf(cli->talk, "%-12s %10.1f %10lld %10lld %6lld\n", search_part_facts[part - result->parts].name,
                (double)part->spent_ns / 1e6, (long long)part->candidates, (long long)part->simulated,
                (long long)part->led);
        all_ns -= part->spent_ns;
    }
    fprintf(cli->talk, "%-12s %10.1f\n", "other", (double)all_ns / 1e6);
}

static bool options_of(const struct plan_arguments *a, const struct space *space, struct search_options *out,
                       struct error *err)
{
    const char *names[SEARCH_PARTS + 1] = { NULL };
    int part_of[SEARCH_PARTS], count = 0;
    for (int i = 0; i < SEARCH_PARTS; i++)
        if (search_part_facts[i].heuristic) {
            part_of[count] = i;
            names[count++] = search_part_facts[i].name;
        }
    *out = space_search_options(&a->space, space);
    out->top = (int)a->top;
    for (int i = 0, heuristic; i < a->skip.count; i++) {
        if (!inputs_word("--skip", a->skip.item[i], names, &heuristic, err))
            return false;
        out->skip |= 1u << part_of[heuristic];
    }
    return true;
}

/* There is less to exchange between fewer devices, and none wait for slower ones. They are searched only where a light
 * look finds a plan of at most 1.5 times the step: for t5-small on 2x8 rtx4090, batch 16, it finds 23.6 ms beside 16.5
 * on all devices, and the search then 15.8. */
static bool suggest_fewer(const struct cli *cli, struct answer *answer, struct error *err)
{
    const struct inputs *in = answer->in;
    const struct prediction *p = &answer->ranking.plans[0].estimate->prediction;
    struct variation part;
    struct varied varied;
    struct solution found = { 0 };
    if (answer->a->json || answer->a->space.time_limit_s > 0 ||
        (answer->a->pareto && answer->pareto.resource == PARETO_DEVICES))
        return true;
    int64_t compute_ns = p->breakdown_ns[TIME_COMPUTE] + p->breakdown_ns[TIME_RECOMPUTE];
    if (!parts_likely(in->cluster, answer->space->dtype, compute_ns, p->step_ns, &part))
        return true;
    if (!varied_open(&varied, &in->facts, &part, err))
        return false;
    struct explainer *e = &answer->explainer;
    bool good = explainer_look(e, answer->space, &varied.facts, &found, err);
    if (good && found.kind == SOLUTION_PLAN && found.step_ns <= p->step_ns + p->step_ns / 2)
        good = (in->cluster->type_count > 1 ? explainer_glance : explainer_solve)(e, answer->space, &varied.facts,
                                                                                  &found, err);
    if (good && found.kind == SOLUTION_PLAN && found.step_ns < p->step_ns)
        print_fewer(cli->talk, found.step_ns, p->step_ns, in->cluster->device_count,
                    varied.typed ? varied.typed : varied.words);
    varied_free(&varied);
    return good;
}

/* Not where the plan file is the answer. */
static bool say_target(const struct cli *cli, struct answer *answer, const struct search_options *o, struct error *err)
{
    const struct plan_arguments *a = answer->a;
    return a->json || inputs_is_stdout(a->output) ||
           aim_say(cli, answer->in, answer->target, &answer->choice, o, &answer->look, &answer->ranking.plans[0],
                   a->output, a->launch != NULL, err);
}

/* Beside a plan file on standard output nothing else is written there. */
static bool write_launch(const struct cli *cli, const struct answer *answer, struct error *err)
{
    const struct plan_arguments *a = answer->a;
    const struct search_plan *best = &answer->ranking.plans[0];
    const struct prediction *p = &best->estimate->prediction;
    struct launch_context context = aim_context(answer->in);
    context.step_ns = p->step_ns;
    context.stage_count = p->stage_count;
    context.peak_bytes = p->peak_bytes;
    context.available_bytes = p->available_bytes;
    return !a->launch || aim_export(a->json || inputs_is_stdout(a->output) ? cli->talk : cli->out, answer->in,
                                    answer->target, best->plan, &context, a->launch, err);
}

/* Before a search whose launch would be lost; a folder that was made for the look is taken away again. */
static bool can_launch(const struct plan_arguments *a, struct error *err)
{
    bool made = false;
    if (a->launch && !a->space.target)
        return fail(err, "--launch %s: --target is missing: what it is for, for example --target megatron", a->launch);
    bool ok = !a->launch || file_check_folder(a->launch, &made, err);
    if (made)
        file_remove_empty_folder(a->launch);
    return ok;
}

/* The search for a target, of batches where none was given, or of one. */
static bool find_answer(void *self, struct search_options *o, struct search_result **out, struct error *err)
{
    struct answer *answer = self;
    struct inputs *in = answer->in;
    *out = NULL;
    if (answer->most_batch > 0 &&
        !search_batch(out, &answer->batches, in->model, &in->facts, o, answer->most_batch, err))
        return false;
    if (answer->most_batch > 0)
        o->space.batch = answer->batches.batch;
    if (answer->target) {
        search_result_free(*out);
        *out = NULL;
        struct uniform_choice choice;
        bool looks = !answer->a->json && !inputs_is_stdout(answer->a->output);
        if (!aim_search(out, &choice, in, answer->target, o, looks ? &answer->look : NULL, err))
            return false;
        if ((*out)->feasible || answer->choice.best < 0) /* else the answer is that of a search before */
            answer->choice = choice;
        return true;
    }
    return *out || search_run(out, in->model, &in->facts, o, err);
}

/* The best plan of the space, which becomes wider where nothing fits. *out: what was found already, or NULL. */
static bool find(struct answer *answer, struct search_options *o, struct search_result **out, struct error *err)
{
    const struct space_options *given = &answer->a->space;
    struct inputs *in = answer->in;
    struct space widest;
    if (!*out && ((given->target && !aim_target(&answer->target, "--target", given->target, err)) ||
                  !widening_widest(&widest, in, &o->space, given, err) ||
                  !search_widened(out, &answer->widening, in->model, &in->facts, o, &widest, find_answer, answer, err)))
        return false;
    (*out)->certificate.widened = (*out)->feasible ? answer->widening.taken : 0;
    answer->certificate = (*out)->certificate;
    answer->space = answer->target ? &answer->choice.space : &answer->widening.space;
    answer->explainer.options.space = o->space = answer->widening.space;
    answer->aim.in = in;
    answer->aim.target = answer->target;
    answer->explainer.search = answer->target ? aim_explain : NULL;
    answer->explainer.searcher = &answer->aim;
    return true;
}

/* result: what a search has found already, which passes to this; NULL: none was made. */
static bool search_and_answer(const struct cli *cli, struct answer *answer, struct search_result *result,
                              struct error *err)
{
    const struct plan_arguments *a = answer->a;
    struct inputs *in = answer->in;
    struct search_options o;
    struct progress progress;
    if (!options_of(a, answer->space, &o, err)) {
        search_result_free(result);
        return false;
    }
    bool good = pareto_named(&answer->pareto.resource, a->pareto, err);
    progress_begin(&progress, cli, "plan");
    progress_watch(&progress, &o);
    explainer_open(&answer->explainer, in->model, &in->facts, &o);
    int64_t before_ns = clock_processor_ns();
    good = good && find(answer, &o, &result, err);
    progress_clear(&progress);
    if (good && answer->most_batch > 0)
        batches_print(cli, &answer->batches);
    if (good && a->timings)
        print_timings(cli, result, before_ns, clock_processor_ns() - before_ns);
    good = good && (result->feasible || say_infeasible(cli, answer, result, err));
    good = good && ((a->top == 1 && !a->pareto) || explainer_start(&answer->explainer, result, err)) &&
           ranking_build(&answer->ranking, result, &answer->explainer, (int)a->top, err);
    if (good) {
        certify(answer);
        good = !a->pareto || find_frontier(answer, err);
        progress_clear(&progress);
        answer->explainer.options.calls.progress = NULL; /* the plan is there */
        good = good && hand_out(cli, answer, err) &&
               (answer->target             ? say_target(cli, answer, &o, err) && write_launch(cli, answer, err)
                : answer->objective->found ? true /* parts were looked at, or are not asked for */
                                           : suggest_fewer(cli, answer, err));
    }
    progress_clear(&progress);
    free_look_free(&answer->look);
    ranking_free(&answer->ranking);
    explainer_close(&answer->explainer);
    search_result_free(result);
    return good;
}

/* *most: of the batches to choose from the largest; 0: the batch is given. */
static bool read_batch(const struct plan_arguments *a, struct space_options *out, int64_t *most, struct error *err)
{
    static const char automatic[] = "auto";
    size_t length = strlen(automatic);
    bool chosen =
        a->batch && strncmp(a->batch, automatic, length) == 0 && (a->batch[length] == ':' || a->batch[length] == '\0');
    const char *number = !chosen ? a->batch : a->batch[length] ? a->batch + length + 1 : NULL;
    char *end = NULL;
    long long value = number ? strtoll(number, &end, 10) : chosen ? MOST_SEQUENCES : 0;
    *out = a->space;
    *most = chosen ? value : 0;
    if (number && (end == number || *end || value < 1 || value > MOST_BATCH))
        return fail(err, "--batch: expected a number from 1 to %d, auto, or auto:MOST with such a number, found '%s'",
                    MOST_BATCH, a->batch);
    out->batch = chosen ? 1 : value;
    return true;
}

static bool read_objective(const struct plan_arguments *a, struct inputs *in, struct prices *prices,
                           struct objective *out, bool batches, struct error *err)
{
    if (!objective_named(&out->kind, a->objective, err) ||
        !prices_read(prices, &in->arena, &a->prices, in->cluster, in->catalogue->entries, in->catalogue->count, err))
        return false;
    if (out->kind != OBJECTIVE_TIME && (a->pareto || batches))
        return fail(err, "--objective %s: give it without %s, which chooses by time", a->objective,
                    batches ? "--batch auto" : "--pareto");
    return (out->kind != OBJECTIVE_COST && !prices->count) || prices_need(prices, in->cluster, "a step's cost", err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct plan_arguments *a = given;
    struct inputs in = { .cli = cli };
    struct space_options job;
    struct space space;
    struct search_result *found = NULL;
    struct prices prices = { 0 };
    struct objective objective = { 0 };
    int64_t most = 0;
    (void)operand_count;
    heap_expect_much();
    if (can_launch(a, err) && inputs_can_write(a->output, err) && read_batch(a, &job, &most, err) &&
        space_inputs(&in, &space, operands[0], &job, err) &&
        read_objective(a, &in, &prices, &objective, most > 0, err) &&
        objective_choose(&objective, &in, &job, &prices, err)) {
        struct candidate *c = objective.found;
        if (c && !job.target) {
            found = c->result;
            c->result = NULL;
        }
        struct answer answer = { .a = a,
                                 .in = c ? &c->in : &in,
                                 .space = c ? &c->space : &space,
                                 .widening = found ? c->widening : (struct widening){ .space = space },
                                 .most_batch = most,
                                 .batches.best = -1,
                                 .choice.best = -1,
                                 .look.timed = a->timings,
                                 .prices = &prices,
                                 .objective = &objective };
        search_and_answer(cli, &answer, found, err);
    }
    objective_close(&objective);
    inputs_free(&in);
    return ERROR_NONE;
}

const struct verb verb_plan = {
    .name = "plan",
    .summary = "chooses the best plan for a model on a cluster",
    .usage = "MODEL --cluster CLUSTER --batch SEQUENCES [-o plan.json] [options]",
    .examples = "  cleave plan gpt3-175b --cluster 128x8:a100-sxm-80 --batch 1536\n"
                "  cleave plan config.json --cluster 1x8:h100-sxm --batch 64 --seq 4096 -o plan.json\n"
                "  cleave plan gpt2 --cluster 1x2:cpu --profile profile.json --batch 8 --seq 64 --fix zero=0\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct plan_arguments),
    .defaults = &defaults,
    .run = run,
};
