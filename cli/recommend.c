/* The smallest or cheapest cluster that trains a model in time, or the fastest that money buys: the nodes of each
 * device type are doubled, then halved between what misses it and what meets it, and what cannot serve by its peak
 * alone is not searched. */
#include "cli/amounts.h"
#include "cli/candidate.h"
#include "cli/progress.h"
#include "cli/recommendation.h"
#include "cli/widening.h"
#include "base/num.h"
#include "host/clock.h"
#include "host/heap.h"
#include "planner/estimate/estimate.h"
#include "planner/facts/cluster_hint.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct recommend_arguments {
    struct space_options space;
    const char *tokens, *target_time, *budget;
    struct text_list prices, among;
    int64_t most_devices;
    bool json;
};
enum { MOST_LADDERS = 128, MOST_DEVICES = 1 << 15, MUCH_SMALLER = 2, MOST_STATED = 256 };
static const struct recommend_arguments defaults = { .space.gap = DEFAULT_GAP, .most_devices = MOST_DEVICES };
#define AT(field) offsetof(struct recommend_arguments, field)
static const struct option options[] = {
    TEXT_OPTION("target-time", AT(target_time), "TIME",
                "at most so long for --tokens, or for one step where none are given: seconds, or 90m, 12h, 30d"),
    TEXT_OPTION("budget", AT(budget), "DOLLARS", "at most so much, likewise: 5000, 50k, 2M"),
    TEXT_OPTION("tokens", AT(tokens), "N", "to train on in all: 1e12, 300B, 1.5T"),
    PRICE_OPTION(AT(prices)),
    LIST_OPTION(
        "among", AT(among), "CLUSTER,...",
        "clusters, or device types of which 1, 2, 4, ... usual nodes are looked at, and with --target-time numbers "
        "between (the types that have a price, else all of the catalogue)"),
    INT_OPTION("most-devices", AT(most_devices), "N", 1, MOST_DEVICES,
               "of a type no more nodes than have so many devices (32768)"),
    INT_OPTION("batch", AT(space.batch), "SEQUENCES", 1, 1e9, "sequences per step over all devices"),
    ELSEWHERE_OPTIONS(struct recommend_arguments, space),
    SEARCH_OPTIONS(struct recommend_arguments, space),
    TARGET_OPTION(struct recommend_arguments, space),
    FLAG_OPTION("json", AT(json), "all that was looked at, as one object"),
};

/* Clusters that are looked at one after another: a type's nodes, doubled, or one cluster. */
struct ladder {
    const char *type;    /* NULL: one cluster */
    const char *stated;  /* of its devices, as "@memory=94GiB"; "": nothing */
    const char *cluster; /* of one */
    int per_node;
    double order; /* ladders with less come first */
};
struct asking {
    const struct cli *cli;
    const struct recommend_arguments *a;
    struct inputs in; /* model and catalogue */
    const char *model;
    struct prices prices;
    double flops, tokens_of_step;
    struct recommendation r;
    int ladder_count;
    struct ladder ladders[MOST_LADDERS];
    int64_t begun_ns;
    struct progress progress;
    bool over;          /* time, or patience */
    struct error first; /* why the first that was left out was */
};

/* ---- what is looked at ---- */
static bool add_ladder(struct asking *q, struct ladder ladder, struct error *err)
{
    if (q->ladder_count == MOST_LADDERS)
        return fail(err, "--among: expected at most %d clusters and devices, found more", MOST_LADDERS);
    q->ladders[q->ladder_count++] = ladder;
    return true;
}

/* stated: of its devices otherwise than in the catalogue, as "@memory=94GiB"; "": nothing. */
static bool add_type(struct asking *q, const struct catalogue_entry *entry, const char *stated, struct error *err)
{
    struct device_type device;
    return device_type_read(&device, &q->in.arena, entry->name, entry->json, entry->length, err) &&
           add_ladder(q, (struct ladder){ entry->name, stated, .per_node = device.devices_per_node }, err);
}

static bool add_listed(struct asking *q, const char *name, struct error *err)
{
    const struct catalogue *known = q->in.catalogue;
    const size_t length = strcspn(name, "@");
    const char *type = arena_strndup(&q->in.arena, name, length), *stated = name + length;
    if (!type)
        return fail_memory(err);
    const struct catalogue_entry *entry = cluster_catalogue_find(known->entries, known->count, type);
    struct text hint = { 0 };
    if (entry && strlen(stated) < MOST_STATED)
        return add_type(q, entry, stated, err);
    if (strpbrk(name, ":/{") || strstr(name, ".json"))
        return add_ladder(q, (struct ladder){ .cluster = name }, err);
    cluster_catalogue_hint(&hint, known->entries, known->count, name);
    fail(err, "--among: expected a cluster, such as 2x8:h100-sxm, or a device of `cleave devices`, found \"%s\"%s",
         name, hint.data ? hint.data : "");
    text_free(&hint);
    return false;
}

static bool list_ladders(struct asking *q, struct error *err)
{
    const struct catalogue *known = q->in.catalogue;
    for (int i = 0; i < q->a->among.count; i++) {
        const char *rest = q->a->among.item[i], *name;
        while ((name = amount_next_cluster(&rest, &q->in.arena)))
            if (!add_listed(q, name, err))
                return false;
        if (*rest)
            return fail_memory(err);
    }
    for (int i = 0; i < known->count && q->a->among.count == 0; i++) {
        const char *name = known->entries[i].name;
        bool wanted = q->prices.count > 0 ? prices_of(&q->prices, name) >= 0 : strcmp(name, "cpu") != 0;
        if (wanted && !add_type(q, &known->entries[i], "", err))
            return false;
    }
    return q->ladder_count > 0 || fail(err, "--among: expected a cluster or a device, found nothing");
}

/* ---- one cluster ---- */
/* By the peak of all devices, which processor cores have not got. */
static double bound_of(const struct asking *q, const struct cluster *cluster, enum dtype dtype)
{
    double peak = 0;
    for (int t = 0; t < cluster->type_count; t++) {
        const struct node_type *type = &cluster->types[t];
        if (type->device.shared_host)
            return 0;
        peak += type->device.matmul_flops_per_s[dtype] * type->device_count;
    }
    return peak > 0 ? q->flops / peak : 0;
}

static enum verdict judge(const struct asking *q, const struct spending *s)
{
    double steps = recommendation_steps(&q->r);
    if (q->r.target_s > 0 && s->step_s * steps > q->r.target_s)
        return VERDICT_SLOW;
    if (q->r.budget_dollars > 0 && spending_dollars(s) * steps > q->r.budget_dollars)
        return VERDICT_DEAR;
    return VERDICT_MEETS;
}

/* The best so far; NULL: none meets it yet. */
static const struct offer *best_of(const struct recommendation *r)
{
    const struct offer *best = NULL;
    for (int i = 0; i < r->count; i++)
        if (r->offers[i].verdict == VERDICT_MEETS && (!best || recommendation_is_better(r, &r->offers[i], best)))
            best = &r->offers[i];
    return best;
}

/* Whether no plan on it can serve better than what is known: of devices alone, only what needs many more is left out,
 * so that other types are seen beside the best. */
static bool is_worse(const struct asking *q, const struct offer *o)
{
    const struct offer *best = best_of(&q->r);
    if (!best || o->bound_s <= 0)
        return false;
    if (q->r.goal == GOAL_CHEAPEST)
        return spending_dollars(&o->spending) >= spending_dollars(&best->spending);
    if (q->r.goal == GOAL_SMALLEST)
        return o->devices > MUCH_SMALLER * best->devices;
    return o->bound_s * 1e9 >= (double)best->step_ns;
}

static bool leave_out(struct asking *q, struct offer *o, const struct error *why, struct error *err)
{
    if (why->kind == ERROR_BUG || (why->kind == ERROR_ENVIRONMENT && !q->over))
        return fail_with(err, why);
    o->verdict = VERDICT_LEFT_OUT;
    o->why = arena_strdup(&q->r.arena, why->message);
    if (q->first.kind == ERROR_NONE)
        q->first = *why;
    return o->why || fail_memory(err);
}

static bool search_offer(struct asking *q, struct candidate *c, struct offer *o, struct error *err)
{
    struct error why = { 0 };
    double left = q->a->space.time_limit_s - (double)(clock_now_ns() - q->begun_ns) / 1e9;
    const struct offer *best = best_of(&q->r);
    bool widens = q->r.goal != GOAL_SMALLEST || !best || o->devices < best->devices ||
                  (o->devices == best->devices && o->bound_s * 1e9 < (double)best->step_ns);
    progress_say(&q->progress, "search %d: %s", q->r.searched + 1, o->cluster);
    if (!candidate_search(c, q->a->space.time_limit_s > 0 ? fmax(left, 1e-3) : 0,
                          widens ? CANDIDATE_WIDER : CANDIDATE_AS_GIVEN, &why)) {
        if (why.kind == ERROR_INFEASIBLE) {
            o->verdict = VERDICT_NO_PLAN;
            o->narrow = !widens;
            return true;
        }
        q->over = why.ended;
        o->verdict = VERDICT_UNTRIED;
        return q->over || leave_out(q, o, &why, err);
    }
    const struct search_plan *plan = candidate_plan(c);
    q->r.searched++;
    q->over = c->result->certificate.ended;
    o->verdict = VERDICT_NO_PLAN;
    o->narrow = !plan && !widens;
    if (!plan)
        return true;
    struct text widened = { 0 };
    widening_list(&widened, c->widening.taken);
    o->widened = widened.data ? arena_strdup(&q->r.arena, widened.data) : NULL;
    bool noted = !widened.data || o->widened;
    text_free(&widened);
    if (!noted)
        return fail_memory(err);
    o->step_ns = plan->estimate->prediction.step_ns;
    o->peak_bytes = estimate_peak_bytes(&plan->estimate->prediction);
    o->spending = spending_of(&q->prices, c->in.cluster, o->step_ns, (int64_t)q->tokens_of_step);
    o->verdict = judge(q, &o->spending);
    if (q->over && o->verdict != VERDICT_MEETS)
        o->verdict = VERDICT_UNTRIED; /* not to the end: there may be a shorter plan */
    return true;
}

/* *out: what became of it, in the list. */
static bool look_at(struct asking *q, const char *cluster, struct offer **out, struct error *err)
{
    struct candidate *c = NULL;
    struct error why = { 0 };
    if (q->r.count == MOST_OFFERS)
        return fail(err, "--among: more than %d clusters", MOST_OFFERS);
    struct offer *o = *out = &q->r.offers[q->r.count++];
    for (int i = 0; i < q->r.count - 1; i++)
        if (strcmp(q->r.offers[i].cluster, cluster) == 0) { /* by its name, and again among the nodes of its type */
            *o = q->r.offers[i];
            return true;
        }
    *o = (struct offer){ .cluster = arena_strdup(&q->r.arena, cluster),
                         .verdict = VERDICT_UNTRIED,
                         .spending.dollars_per_hour = -1 };
    if (!o->cluster)
        return fail_memory(err);
    if (!candidate_open(&c, q->cli, q->model, &q->a->space, cluster, NULL, &why))
        return leave_out(q, o, &why, err);
    bool good = true;
    o->devices = c->in.cluster->device_count;
    o->bound_s = bound_of(q, c->in.cluster, c->space.dtype);
    o->spending = spending_of(&q->prices, c->in.cluster, (int64_t)(o->bound_s * 1e9), (int64_t)q->tokens_of_step);
    if (q->r.goal != GOAL_SMALLEST && o->spending.dollars_per_hour < 0)
        good = prices_need(&q->prices, c->in.cluster, cluster, err);
    else if (o->bound_s > 0 && judge(q, &o->spending) != VERDICT_MEETS)
        o->verdict = VERDICT_HOPELESS;
    else if (is_worse(q, o))
        o->verdict = VERDICT_WORSE;
    else if (!q->over)
        good = search_offer(q, c, o, err);
    candidate_free(c);
    return good;
}

/* ---- the nodes of a type, doubled ---- */
/* What was met on the way up. */
struct climbing {
    const struct offer *before; /* the last that has a plan; NULL: none */
    double least_dollars;       /* of a step of those; 0: none */
};

/* Whether twice as many nodes may serve better. Costs of a step rise with the nodes, but for trifles and where little
 * memory makes few of them slow: DEARER ends the climb. */
static bool goes_on(const struct asking *q, const struct offer *o, const struct climbing *c)
{
    static const double DEARER = 1.02;
    bool dearer = c->before && o->step_ns > 0 && spending_dollars(&o->spending) > DEARER * c->least_dollars;
    bool shorter = !c->before || o->step_ns == 0 || o->step_ns + o->step_ns / 50 < c->before->step_ns;
    switch (o->verdict) {
    case VERDICT_MEETS:
        return q->r.goal == GOAL_FASTEST ? shorter : q->r.goal == GOAL_CHEAPEST && !dearer && shorter;
    case VERDICT_SLOW:
        return shorter;
    case VERDICT_DEAR:
        return !dearer && shorter;
    case VERDICT_NO_PLAN:
        return !c->before; /* where fewer had a plan, the batch cannot be shared out among more */
    case VERDICT_HOPELESS:
        return q->r.target_s > 0 && o->spending.step_s * recommendation_steps(&q->r) > q->r.target_s;
    case VERDICT_WORSE:
        return q->r.goal == GOAL_FASTEST;
    case VERDICT_UNTRIED:
    case VERDICT_LEFT_OUT:
        return false;
    }
    return false;
}

static bool look_at_nodes(struct asking *q, const struct ladder *ladder, int nodes, struct offer **out,
                          struct error *err)
{
    char text[256 + MOST_STATED];
    snprintf(text, sizeof text, "%dx%d:%s%s", nodes, ladder->per_node, ladder->type, ladder->stated);
    return look_at(q, text, out, err);
}

/* Whether fewer nodes than the first that meet it may serve better than all that is known: where costs are asked about,
 * those first ones are the cheapest so far. */
static bool may_halve(const struct asking *q, const struct ladder *ladder, int missed, int met)
{
    const struct offer *best = best_of(&q->r);
    if (q->r.goal == GOAL_SMALLEST)
        return best && best->devices > missed * ladder->per_node;
    const char *type = best ? strchr(best->cluster, ':') : NULL;
    size_t length = strlen(ladder->type);
    return q->r.goal == GOAL_CHEAPEST && type && best->devices == met * ladder->per_node &&
           !strncmp(type + 1, ladder->type, length) && (!type[1 + length] || type[1 + length] == '@');
}

/* Halves the numbers of nodes between the last that misses what is asked and the first that meets it. What the peak
 * alone rules out costs no search. */
static bool halve(struct asking *q, const struct ladder *ladder, int missed, int met, struct error *err)
{
    enum { MOST_HALVINGS = 5 }; /* up to 64 nodes the numbers are told apart, beyond that by a thirty-second */
    struct offer *o = NULL;
    int searched = 0;
    while (met - missed > 1 && searched < MOST_HALVINGS && !q->over && may_halve(q, ladder, missed, met)) {
        const int nodes = missed + (met - missed) / 2;
        if (!look_at_nodes(q, ladder, nodes, &o, err))
            return false;
        *(o->verdict == VERDICT_MEETS ? &met : &missed) = nodes;
        searched += o->verdict != VERDICT_HOPELESS;
        q->r.count -= o->verdict == VERDICT_HOPELESS; /* one of those below is in the list */
    }
    return true;
}

static bool climb(struct asking *q, const struct ladder *ladder, struct error *err)
{
    struct offer *o = NULL;
    int missed = 0, met = 0; /* nodes */
    struct climbing climbing = { 0 };
    if (!ladder->type)
        return look_at(q, ladder->cluster, &o, err);
    const int most = (int)q->a->most_devices / ladder->per_node;
    for (int nodes = 1; nodes <= most; nodes = nodes < most ? min_int(2 * nodes, most) : most + 1) {
        if (!look_at_nodes(q, ladder, nodes, &o, err))
            return false;
        met = met == 0 && o->verdict == VERDICT_MEETS ? nodes : met;
        missed = met == 0 ? nodes : missed;
        if (!goes_on(q, o, &climbing))
            break;
        if (o->step_ns > 0) {
            double dollars = spending_dollars(&o->spending);
            climbing.least_dollars = climbing.before ? fmin(climbing.least_dollars, dollars) : dollars;
            climbing.before = o;
        }
        if (o->verdict == VERDICT_HOPELESS && nodes > 1) { /* of those below the first that is not, one is enough */
            q->r.offers[q->r.count - 2] = q->r.offers[q->r.count - 1];
            q->r.count--;
        }
    }
    q->r.doubled = true;
    return met == 0 || halve(q, ladder, missed, met, err);
}

/* Devices of the first of a ladder that its peak does not rule out, or dollars by the peak: who leads is met first, and
 * rules out most. */
static bool order_ladders(struct asking *q, struct error *err)
{
    for (int i = 0; i < q->ladder_count; i++) {
        struct ladder *l = &q->ladders[i];
        struct device_type device;
        const struct catalogue *known = q->in.catalogue;
        const struct catalogue_entry *entry =
            l->type ? cluster_catalogue_find(known->entries, known->count, l->type) : NULL;
        l->order = 0;
        if (!entry)
            continue;
        if (!device_type_read(&device, &q->in.arena, entry->name, entry->json, entry->length, err))
            return false;
        const double *rate = device.matmul_flops_per_s;
        double peak = rate[DTYPE_BF16] > 0 ? rate[DTYPE_BF16] : fmax(rate[DTYPE_FP16], rate[DTYPE_FP32]);
        double price = prices_of(&q->prices, l->type), each = q->flops / peak;
        double needed = q->r.target_s > 0 ? each * recommendation_steps(&q->r) / q->r.target_s : 1;
        int devices = l->per_node;
        while (devices < needed && devices < q->a->most_devices)
            devices *= 2;
        l->order = q->r.goal == GOAL_SMALLEST || price < 0 ? devices : each * price;
    }
    for (int i = 1; i < q->ladder_count; i++) {
        struct ladder moved = q->ladders[i];
        int at = i;
        for (; at > 0 && moved.order < q->ladders[at - 1].order; at--)
            q->ladders[at] = q->ladders[at - 1];
        q->ladders[at] = moved;
    }
    return true;
}

/* ---- the question ---- */
enum { LONG_STEP_S = 3600 }; /* a longer step is hardly what was meant */

static bool read_question(struct asking *q, struct error *err)
{
    const struct recommend_arguments *a = q->a;
    struct recommendation *r = &q->r;
    if (!a->target_time && !a->budget)
        return fail(err,
                    "give --target-time TIME or --budget DOLLARS: at most so long, or so much, for the --tokens to "
                    "train on, such as --tokens 1e12 --target-time 30d");
    if (!a->space.batch)
        return fail(err, "--batch is missing: the sequences of one step over all devices, for example --batch 512");
    if ((a->tokens && !amount_count(&r->tokens, "--tokens", a->tokens, err)) ||
        (a->target_time && !amount_duration_s(&r->target_s, "--target-time", a->target_time, err)) ||
        (a->budget && !amount_dollars(&r->budget_dollars, "--budget", a->budget, err)))
        return false;
    if (!a->tokens && r->target_s > LONG_STEP_S)
        fprintf(q->cli->talk,
                "note: --target-time %s is taken for one step; with --tokens N it is for all of the training\n",
                a->target_time);
    r->goal = !a->target_time ? GOAL_FASTEST : q->prices.count > 0 || a->budget ? GOAL_CHEAPEST : GOAL_SMALLEST;
    return r->goal == GOAL_SMALLEST || q->prices.count > 0 ||
           fail(err, "--budget needs what devices cost for an hour: give --price TYPE=DOLLARS, for example --price "
                     "h100-sxm=2.5");
}

static bool read_model(struct asking *q, const char *model, struct error *err)
{
    struct graph *graph = NULL;
    q->in.reading.length_given = q->a->space.sequence > 0;
    if (!inputs_model(&q->in, model, err))
        return false;
    q->model = candidate_model(&q->in);
    if (!q->model)
        return fail_memory(err);
    if (!graph_take(&graph, q->in.model, q->a->space.batch, q->a->space.sequence, 1, err))
        return false;
    q->flops = estimate_model_flops(graph);
    q->r.model = q->in.model;
    q->r.own_prices = !q->a->space.target && !q->a->space.framework;
    q->r.batch = graph->batch;
    q->r.sequence = graph->sequence;
    q->tokens_of_step = (double)graph->batch * (double)graph->sequence;
    graph_free(graph);
    return true;
}

extern const struct verb verb_recommend;

static void tell(struct asking *q, const char *model, struct error *err)
{
    const struct recommend_arguments *a = q->a;
    struct json_writer w = { 0 };
    struct text job = { 0 };
    recommendation_sort(&q->r);
    if (a->json) {
        recommendation_write(&w, &q->r);
        inputs_hand_out_json(q->cli, NULL, &w, err);
    } else {
        text_add_argument(&job, model);
        options_put_given(&job, &verb_recommend, a, "plan");
        recommendation_print(q->cli, &q->r, job.data ? job.data : "MODEL");
        text_free(&job);
    }
    if (q->r.best < 0 && q->over)
        fail_kind(err, ERROR_ENVIRONMENT,
                  "time was over before a cluster was found that meets it; give more --time-limit, or fewer --among");
    else if (q->r.best < 0)
        fail_kind(err, ERROR_INFEASIBLE, "none of the %d clusters that were looked at meets it%s", q->r.count,
                  q->r.tokens > 0 ? "; give more time or money, or --among others" : "");
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    struct asking *q = calloc(1, sizeof *q);
    (void)operand_count;
    heap_expect_much();
    if (!q) {
        fail_memory(err);
        return ERROR_NONE;
    }
    q->cli = q->in.cli = cli;
    q->a = given;
    q->begun_ns = clock_now_ns();
    bool good = inputs_catalogue(&q->in, err) &&
                prices_read(&q->prices, &q->in.arena, &q->a->prices, NULL, q->in.catalogue->entries,
                            q->in.catalogue->count, err) &&
                read_question(q, err) && read_model(q, operands[0], err) && list_ladders(q, err) &&
                order_ladders(q, err);
    progress_begin(&q->progress, cli, "recommend");
    for (int i = 0; good && i < q->ladder_count; i++)
        good = climb(q, &q->ladders[i], err);
    progress_clear(&q->progress);
    if (good && q->r.count == 0)
        good = fail(err, "--most-devices: expected at least %d, the devices of a node of %s, found %lld",
                    q->ladders[0].per_node, q->ladders[0].type, (long long)q->a->most_devices);
    int possible = 0;
    for (int i = 0; i < q->r.count; i++)
        possible += q->r.offers[i].verdict != VERDICT_LEFT_OUT;
    if (good && possible == 0)
        fail_with(err, &q->first);
    else if (good)
        tell(q, operands[0], err);
    arena_free(&q->r.arena);
    inputs_free(&q->in);
    free(q);
    return ERROR_NONE;
}

const struct verb verb_recommend = {
    .name = "recommend",
    .summary = "finds the smallest or cheapest cluster that trains a model in time, or the fastest within a budget",
    .usage = "MODEL --batch SEQUENCES (--target-time TIME | --budget DOLLARS) [--tokens N] [--price TYPE=DOLLARS]... "
             "[--among CLUSTER,...]",
    .examples = "  cleave recommend llama-3-8b --batch 512 --seq 8192 --tokens 1e12 --target-time 30d\n"
                "  cleave recommend config.json --batch 512 --tokens 300B --target-time 2w --price "
                "h100-sxm=2.5,a100-sxm-80=1.3\n"
                "  cleave recommend gpt2 --batch 64 --tokens 10B --budget 200 --among 1x8:l40s,1x4:h100-sxm --price "
                "l40s=0.9,h100-sxm=2.5\n",
    .min_operands = 1,
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct recommend_arguments),
    .defaults = &defaults,
    .run = run,
};
