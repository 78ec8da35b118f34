#include "cli/objective.h"
#include "base/num.h"
#include "cli/certificate_text.h"
#include "cli/progress.h"
#include "host/clock.h"
#include "planner/space/wider.h"
#include <stdlib.h>
#include <string.h>

/* MEMORY_STEP: the next search has so much less than the plan before takes. */
enum { MEMORY_STEP = 32, MEMORY_FINE = 24 };

static const char *const names[] = {
    [OBJECTIVE_TIME] = "time", [OBJECTIVE_COST] = "cost", [OBJECTIVE_MEMORY] = "memory", NULL
};

bool objective_named(enum objective_kind *out, const char *word, struct error *err)
{
    int index = OBJECTIVE_TIME;
    if (word && !inputs_word("--objective", word, names, &index, err))
        return false;
    *out = (enum objective_kind)index;
    return true;
}

/* One search after another, in what is left of the time. */
struct looking {
    struct objective *o;
    struct inputs *in; /* of the whole cluster */
    const struct space_options *job;
    const struct prices *prices;
    const char *model;
    int64_t begun_ns;
    struct progress progress;
};

static bool time_left(const struct looking *l, double *seconds)
{
    *seconds = l->job->time_limit_s;
    if (*seconds > 0)
        *seconds -= (double)(clock_now_ns() - l->begun_ns) / 1e9;
    return !(l->job->time_limit_s > 0) || *seconds > 0;
}

static int64_t least_usable(const struct cluster *cluster)
{
    int64_t least = INT64_MAX;
    for (int t = 0; t < cluster->type_count; t++)
        least = min_i64(least, cluster->types[t].memory_bytes);
    return least;
}

static bool note_try(struct looking *l, const struct candidate *c, struct error *err)
{
    struct objective *o = l->o;
    const struct search_plan *plan = candidate_plan(c);
    if (o->try_count == MOST_PARTS)
        return true;
    struct objective_try *tried = &o->tries[o->try_count++];
    *tried = (struct objective_try){ .cluster = arena_strdup(&o->arena, c->job.cluster),
                                     .devices = c->in.cluster->device_count,
                                     .usable_bytes = least_usable(c->in.cluster),
                                     .step_ns = plan ? plan->estimate->prediction.step_ns : 0,
                                     .bound_ns = plan ? c->result->certificate.bound_ns : 0 };
    struct spending s = spending_of(l->prices, c->in.cluster, tried->step_ns, candidate_tokens(c));
    tried->dollars = spending_dollars(&s);
    o->unbounded += plan ? c->result->certificate.unbounded : 0;
    return tried->cluster || fail_memory(err);
}

/* *fits: whether there is a plan. The end of time is no failure once there is one. */
static bool look_at(struct looking *l, struct candidate *c, bool nearest_only, bool *fits, struct error *err)
{
    const bool cost = l->o->kind == OBJECTIVE_COST; /* the least memory is asked of plans with nothing on hosts */
    double seconds;
    struct error cause = { 0 };
    *fits = false;
    if (!time_left(l, &seconds)) {
        l->o->ended = true;
        return l->o->found ||
               fail_kind(err, ERROR_ENVIRONMENT, "the time limit ended the search before any plan was found");
    }
    if (nearest_only) {
        struct search_options options = space_search_options(&c->job, &c->space);
        options.nearest_only = options.no_advice = true;
        return search_run(&c->result, c->in.model, &c->in.facts, &options, err);
    }
    progress_say(&l->progress, "search %d: %s", l->o->try_count + 1, c->job.cluster);
    if (!candidate_search(c, seconds, cost ? CANDIDATE_LIGHTER : CANDIDATE_AS_GIVEN, &cause)) {
        if (cause.kind == ERROR_INFEASIBLE) /* a target's rules leave nothing */
            return note_try(l, c, err);
        l->o->ended = cause.ended && l->o->found;
        return l->o->ended || fail_with(err, &cause);
    }
    l->o->ended = l->o->ended || c->result->certificate.ended;
    *fits = c->result->feasible;
    return note_try(l, c, err);
}

static void keep(struct objective *o, struct candidate *c)
{
    candidate_free(o->found);
    o->found = c;
    o->best = o->try_count - 1;
}

/* ---- cost: the parts of the cluster ---- */
/* The cluster's short form, whose parts have names. *same: it says all that the cluster's file says. Out of memory is
 * the only failure; *out is NULL where a device is none of the catalogue. */
static bool shorten(struct looking *l, struct cluster **out, bool *same, struct error *err)
{
    const struct cluster *whole = l->in->cluster;
    const struct catalogue *catalogue = l->in->catalogue;
    struct text typed = { 0 };
    struct error why = { 0 };
    *out = NULL;
    for (int g = 0; g < whole->group_count; g++) {
        const struct node_group *own = &whole->groups[g];
        int node = whole->level_count > 1 ? cluster_unit(whole, own->type, 0) : own->device_count;
        text_printf(&typed, "%s%dx%d:%s", g > 0 ? "+" : "", own->device_count / node, node,
                    whole->types[own->type].device.name);
    }
    bool good = !typed.failed &&
                (cluster_read(out, typed.data, typed.data, typed.length, catalogue->entries, catalogue->count, &why) ||
                 why.kind == ERROR_INPUT);
    *same = good && *out && (*out)->hash == whole->hash;
    text_free(&typed);
    return good || fail_memory(err);
}

static void say_no_parts(const struct cli *cli, const struct cluster *typed)
{
    fprintf(cli->talk,
            "note: smaller parts of the cluster were not searched, as the file says more than --cluster can; ");
    if (typed)
        fprintf(cli->talk, "--cluster %s, as the catalogue has its devices and links, is searched with them\n",
                typed->name);
    else
        fprintf(cli->talk, "give --cluster a file of the part\n");
}

/* The text of --cluster for the part, as `named` calls it; NULL: it has none. */
static bool part_text(struct looking *l, const struct cluster *named, const struct variation *part, const char **out,
                      struct error *err)
{
    struct varied varied;
    struct error why = { 0 };
    struct facts facts = { .cluster = named };
    *out = NULL;
    if (!varied_open(&varied, &facts, part, &why))
        return why.kind == ERROR_INPUT || fail_with(err, &why);
    bool whole = varied.cluster->device_count == l->in->cluster->device_count, good = true;
    if (whole || varied.typed)
        good = (*out = arena_strdup(&l->o->arena, whole ? l->job->cluster : varied.typed)) != NULL;
    varied_free(&varied);
    return good || fail_memory(err);
}

/* Lacks memory, and does not just have a number of devices that the job cannot be dealt to. */
static bool lacks_memory(const struct candidate *c)
{
    return c->result && !c->result->feasible && !c->result->why;
}

/* Parts that fall are left out once one lacks memory, as less of the same has less. */
static bool search_parts(struct looking *l, const struct cluster *named, const struct variation *parts, int count,
                         struct error *err)
{
    bool fits, lacks = false;
    double least = 0;
    for (int i = 0; i < count && !l->o->ended; i++) {
        struct candidate *c = NULL;
        const char *cluster;
        lacks = lacks && parts[i].types == parts[i - 1].types;
        if (lacks)
            continue;
        if (!part_text(l, named, &parts[i], &cluster, err))
            return false;
        if (!cluster)
            continue;
        if (!candidate_open(&c, l->in->cli, l->model, l->job, cluster, NULL, err))
            return false;
        if (!look_at(l, c, false, &fits, err)) {
            candidate_free(c);
            return false;
        }
        lacks = lacks_memory(c);
        double dollars = fits ? l->o->tries[l->o->try_count - 1].dollars : 0;
        if (fits && (!l->o->found || dollars < least)) {
            least = dollars;
            keep(l->o, c);
        } else {
            candidate_free(c);
        }
    }
    return true;
}

static bool choose_part(struct looking *l, struct error *err)
{
    struct variation parts[MOST_PARTS];
    struct cluster *typed = NULL;
    struct text name = { 0 };
    const struct cluster *whole = l->in->cluster;
    int types[MAX_TYPES], count = parts_of_cluster(whole, parts);
    for (int t = 0; t < whole->type_count; t++)
        types[t] = t;
    bool same = cluster_part_name(&name, whole, whole, types); /* it has a short form itself */
    text_free(&name);
    if (!same && !shorten(l, &typed, &same, err))
        return false;
    bool good = search_parts(l, same && typed ? typed : whole, parts, count, err);
    progress_clear(&l->progress);
    if (good && !same && count > 1)
        say_no_parts(l->in->cli, typed);
    cluster_free(typed);
    return good;
}

/* ---- memory: ever more of it stays free ---- */
/* The job where each device keeps so many bytes free. */
static bool open_reserved(struct looking *l, int64_t reserve_bytes, struct candidate **out, struct error *err)
{
    char text[TEXT_NUMBER_BYTES];
    snprintf(text, sizeof text, "%lld", (long long)reserve_bytes);
    return candidate_open(out, l->in->cli, l->model, l->job, l->job->cluster, text, err);
}

/* What the plan would let stay free on each device, and the next to ask for: *more. */
static int64_t free_bytes(const struct candidate *c, int64_t reserve_bytes, int64_t *more)
{
    const struct prediction *p = &candidate_plan(c)->estimate->prediction;
    int64_t left = INT64_MAX, step = 1;
    for (int s = 0; s < p->stage_count; s++)
        if (p->available_bytes[s] - p->peak_bytes[s] < left) {
            left = p->available_bytes[s] - p->peak_bytes[s];
            step = max_i64(1, p->peak_bytes[s] / MEMORY_STEP);
        }
    *more = reserve_bytes + left + step;
    return reserve_bytes + left;
}

static int64_t reserve_of(const struct inputs *in)
{
    const struct node_type *type = &in->cluster->types[0];
    return type->device.memory_bytes - type->memory_bytes;
}

static int64_t least_memory(const struct cluster *cluster)
{
    int64_t least = INT64_MAX;
    for (int t = 0; t < cluster->type_count; t++)
        least = min_i64(least, cluster->types[t].device.memory_bytes);
    return least;
}

/* Where almost nothing may be used: the plan that comes nearest says how much may stay free. */
static bool ask_nearest(struct looking *l, int64_t *reserve_bytes, struct error *err)
{
    struct candidate *c = NULL;
    bool fits;
    int64_t most = least_memory(l->in->cluster) - 1;
    if (most <= *reserve_bytes || !open_reserved(l, most, &c, err))
        return most <= *reserve_bytes;
    bool good = look_at(l, c, true, &fits, err);
    if (good && c->result && c->result->nearest.plan) {
        int64_t needed = max_i64(c->result->nearest.needed_bytes, c->result->nearest.promised_bytes);
        *reserve_bytes = max_i64(*reserve_bytes, most + c->result->nearest.available_bytes - needed);
    }
    candidate_free(c);
    return good;
}

/* Searches with so much free; a plan becomes the best, and *more what to ask for next. */
static bool look_reserved(struct looking *l, int64_t reserve_bytes, bool *fits, int64_t *more, struct error *err)
{
    struct candidate *c = NULL;
    if (!open_reserved(l, reserve_bytes, &c, err))
        return false;
    bool good = look_at(l, c, false, fits, err);
    if (good && *fits) {
        free_bytes(c, reserve_bytes, more);
        keep(l->o, c);
    } else {
        candidate_free(c);
    }
    return good;
}

static bool choose_memory(struct looking *l, struct error *err)
{
    int64_t reserve = reserve_of(l->in), first = reserve, more = 0;
    bool fits = false;
    if (!ask_nearest(l, &first, err))
        return false;
    /* What comes nearest needs a little more when it is laid out whole. */
    for (int i = 0; i < 4 && !fits && first > reserve && !l->o->ended;
         i++, first -= (least_memory(l->in->cluster) - first) / MEMORY_STEP)
        if (!look_reserved(l, first, &fits, &more, err))
            return false;
    if (!fits && !l->o->ended && !look_reserved(l, reserve, &fits, &more, err))
        return false;
    for (int i = 0; i < MEMORY_FINE && fits && !l->o->ended && more < least_memory(l->in->cluster); i++)
        if (!look_reserved(l, more, &fits, &more, err))
            return false;
    return true;
}

bool objective_choose(struct objective *o, struct inputs *in, const struct space_options *job,
                      const struct prices *prices, struct error *err)
{
    struct looking l = { .o = o, .in = in, .job = job, .prices = prices, .begun_ns = clock_now_ns() };
    if (o->kind == OBJECTIVE_TIME)
        return true;
    l.model = candidate_model(in);
    if (!l.model)
        return fail_memory(err);
    progress_begin(&l.progress, in->cli, "plan");
    bool good = o->kind == OBJECTIVE_COST ? choose_part(&l, err) : choose_memory(&l, err);
    progress_clear(&l.progress);
    if (o->found) {
        o->found->in.context.model.source = in->context.model.source;
        o->found->in.withholds = o->kind == OBJECTIVE_MEMORY;
    }
    return good;
}

/* No plan on any of the parts costs less by the formula; 0: nothing is proven of some. */
static double least_bound(const struct objective *o)
{
    double least = 0;
    for (int i = 0; i < o->try_count; i++) {
        const struct objective_try *t = &o->tries[i];
        if (t->step_ns == 0)
            continue;
        double own = t->dollars * (double)t->bound_ns / (double)t->step_ns;
        if (own <= 0)
            return 0;
        least = least > 0 && least < own ? least : own;
    }
    return o->ended ? 0 : least;
}

static void print_parts(const struct cli *cli, const struct objective *o, const struct certificate *proof)
{
    char step[TEXT_NUMBER_BYTES], dollars[TEXT_NUMBER_BYTES], own[TEXT_NUMBER_BYTES];
    const struct objective_try *best = &o->tries[o->best];
    size_t width = strlen("cluster");
    for (int i = 0; i < o->try_count; i++)
        width = strlen(o->tries[i].cluster) > width ? strlen(o->tries[i].cluster) : width;
    fprintf(cli->out,
            "the cheapest of %s of the cluster that %s searched%s; the proof above is about plans on that one\n",
            text_number_of(step, o->try_count, "part"), o->try_count == 1 ? "was" : "were",
            o->ended ? " before time was over" : "");
    fprintf(cli->out, "  %-*s %8s %10s %12s\n", (int)width, "cluster", "devices", "step", "$ a step");
    for (int i = 0; i < o->try_count; i++) {
        const struct objective_try *t = &o->tries[i];
        fprintf(cli->out, "%c %-*s %8d %10s %12s\n", i == o->best ? '*' : ' ', (int)width, t->cluster, t->devices,
                t->step_ns > 0 ? text_duration_ns(step, t->step_ns) : "no plan",
                t->step_ns > 0 ? spending_number(dollars, t->dollars) : "");
    }
    if (least_bound(o) <= 0)
        return;
    struct text bounded = { 0 };
    certificate_bounded(&bounded, o->unbounded);
    fprintf(cli->out, "no plan%s%s on any of these costs less than $%s a step by the formula (the one above: $%s)\n",
            bounded.length > 0 ? " with " : "", bounded.length > 0 ? bounded.data : "",
            spending_number(dollars, least_bound(o)),
            spending_number(own, best->dollars * (double)proof->formula_ns / (double)best->step_ns));
    text_free(&bounded);
}

/* Of the searches without a plan the one that had most memory. */
static int64_t refused_bytes(const struct objective *o)
{
    int64_t most = 0;
    for (int i = o->best + 1; i < o->try_count; i++)
        if (o->tries[i].step_ns == 0)
            most = max_i64(most, o->tries[i].usable_bytes);
    return most;
}

void objective_print(const struct cli *cli, const struct objective *o, const struct certificate *proof)
{
    char bytes[TEXT_NUMBER_BYTES], within[TEXT_NUMBER_BYTES];
    if (o->kind == OBJECTIVE_COST)
        print_parts(cli, o, proof);
    if (o->kind != OBJECTIVE_MEMORY)
        return;
    int64_t refused = refused_bytes(o);
    fprintf(cli->out, "least memory: the shortest plan within %s of each device, which the proof above is about; ",
            text_bytes(within, o->tries[o->best].usable_bytes));
    if (refused > 0 && !o->ended)
        fprintf(cli->out, "within %s (1/%d less than it takes) none was found\n", text_bytes(bytes, refused),
                MEMORY_STEP);
    else
        fprintf(cli->out, "whether less would do was not found out%s\n", o->ended ? ": time was over" : "");
    const struct space *own = &o->found->space, usual = space_default(own->batch, own->sequence, own->dtype);
    bool wider = false; /* by the user's own words */
    for (int i = 0; i < WIDER_CHOICES; i++)
        wider |= own->range[wider_choices[i]].count > usual.range[wider_choices[i]].count;
    if (!wider)
        fprintf(cli->out, "nothing was kept on hosts for it; less may do, in more time, with --space %s\n",
                o->found->job.target ? "offload=none:VALUE, as far as the target has one"
                                     : "offload=none:both,loss-chunks=1:16");
}

void objective_put(struct json_writer *w, const struct objective *o)
{
    json_write_key(w, "objective");
    json_begin_object(w);
    json_put_string(w, "name", names[o->kind]);
    json_put_bool(w, "ended", o->ended);
    json_write_key(w, "tried");
    json_begin_array(w);
    for (int i = 0; i < o->try_count; i++) {
        const struct objective_try *t = &o->tries[i];
        json_begin_object(w);
        json_put_string(w, "cluster", t->cluster);
        json_put_int(w, "devices", t->devices);
        json_put_int(w, "available_bytes", t->usable_bytes);
        if (t->step_ns > 0)
            json_put_double(w, "step_s", (double)t->step_ns / 1e9);
        if (t->bound_ns > 0)
            json_put_double(w, "bound_s", (double)t->bound_ns / 1e9);
        if (t->step_ns > 0 && t->dollars >= 0)
            json_put_double(w, "dollars_per_step", t->dollars);
        json_end_object(w);
    }
    json_end_array(w);
    json_end_object(w);
}

void objective_close(struct objective *o)
{
    candidate_free(o->found);
    arena_free(&o->arena);
}
