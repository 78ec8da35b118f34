/* Asks for the best plan again under other facts: how sensitive it is to them, and how robust to noise. */
#include "base/num.h"
#include "planner/explain/explain.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

const char *const resource_names[RESOURCE_COUNT + 1] = {
    [RESOURCE_MEMORY] = "memory",     [RESOURCE_COMPUTE] = "compute", [RESOURCE_LINKS] = "links",
    [RESOURCE_NODE] = "node",         [RESOURCE_BATCH] = "batch",     [RESOURCE_DEVICES] = "devices",
    [RESOURCE_MICRO] = "micro-batch",
};

#define BINDING_SHARE 1e-3 /* a constraint binds when lifting it buys so much of the step */

/* Lets a plan already known take the place of the best so far where it fits and is shorter. */
static void compete(const struct explained *plan, const struct account *account, const struct explained **best,
                    struct account *of_best)
{
    if (!account->fits || (*best && account->step_ns >= of_best->step_ns))
        return;
    *of_best = *account;
    *best = plan;
}

/* ---- sensitivities ---- */

/* A question under other facts. known: the best known plan, where devices and batch are the same; NULL: none fits. */
struct asked {
    struct what_if what_if;
    struct varied varied;
    bool same_job;
    const struct explained *known;
    struct account account; /* of it */
};
struct asking {
    struct explainer *e;
    const struct explained *plan;
    struct what_ifs *out;
    void (*report)(void *self, const struct what_ifs *so_far); /* may be NULL */
    void *self;
    struct error *err;
    int count;
    struct asked *list; /* (MAX_WHAT_IFS) */
    struct query *queries;
};

static const char *name_of(struct explainer *e, const char *format, ...) __attribute__((format(printf, 2, 3)));
static const char *name_of(struct explainer *e, const char *format, ...)
{
    char line[160];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    return arena_strdup(&e->arena, line);
}

/* Asks what is solved with the others, and leaves out what such facts cannot be. */
static bool ask(struct asking *a, struct what_if what_if, const struct space *space, const struct variation *variation,
                bool same_job)
{
    struct error why = { 0 };
    if (a->count == MAX_WHAT_IFS)
        return true;
    if (!what_if.name)
        return fail_memory(a->err);
    struct asked *asked = &a->list[a->count];
    struct query *query = &a->queries[a->count];
    *asked = (struct asked){ .what_if = what_if, .same_job = same_job };
    if (!varied_open(&asked->varied, a->e->facts, variation, &why))
        return why.kind == ERROR_INPUT || fail_with(a->err, &why);
    a->count++;
    *query = (struct query){ .space = *space,
                             .facts = &asked->varied.facts,
                             .same_prices = variation_keeps_prices(a->e->facts->cluster, variation),
                             .near = same_job && what_if.resource != RESOURCE_LINKS,
                             .light = explainer_is_dear(a->plan) };
    return true;
}

/* Times the plan itself and the whole space's under each of the facts that leave the job as it is. */
static bool time_known_plans(struct asking *a)
{
    const struct explained *known[] = { a->plan, a->out->base.explained };
    const struct facts *facts[MAX_WHAT_IFS] = { NULL };
    struct account *accounts = arena_alloc(&a->e->arena, MAX_WHAT_IFS, sizeof *accounts);
    struct asked *same[MAX_WHAT_IFS] = { NULL };
    int count = 0;
    if (!accounts)
        return fail_memory(a->err);
    for (int i = 0; i < a->count; i++)
        if (a->list[i].same_job) {
            facts[count] = a->queries[i].facts;
            same[count++] = &a->list[i];
        }
    for (int k = 0; k < 2 && count > 0; k++) {
        if (!known[k] || (k > 0 && known[k] == known[0]))
            continue;
        if (!explainer_accounts(a->e, known[k], facts, count, accounts, a->err))
            return false;
        for (int i = 0; i < count; i++)
            compete(known[k], &accounts[i], &same[i]->known, &same[i]->account);
    }
    for (int i = 0; i < a->count; i++)
        if (a->list[i].known) {
            a->queries[i].rival = a->list[i].known->plan;
            a->queries[i].worth_ns = a->list[i].account.step_ns;
        }
    return true;
}

/* Appends what was found. */
static bool answer(void *self, int index, const struct solution *solution, struct error *err)
{
    struct asking *a = self;
    const struct asked *asked = &a->list[index];
    const struct query *query = &a->queries[index];
    struct what_if *w = &a->out->list[a->out->count];
    int64_t step_ns = INT64_MAX;
    (void)err;
    if (solution->kind == SOLUTION_ENDED)
        return true;
    *w = asked->what_if;
    w->solution = *solution;
    if (asked->known && w->solution.kind != SOLUTION_PLAN) /* nothing that is worth it */
        w->solution = explainer_timed(asked->known, &asked->account);
    if (w->solution.kind == SOLUTION_PLAN) {
        step_ns = w->solution.step_ns;
        w->best = w->solution.explained;
    }
    if (asked->known && asked->account.step_ns < step_ns) {
        step_ns = asked->account.step_ns;
        w->best = asked->known;
    }
    if (step_ns < INT64_MAX) {
        int64_t times = query->space.batch / a->plan->plan->batch;
        w->step_ns = times > 1 ? step_ns / times : step_ns;
        w->change = (double)w->step_ns / (double)a->out->base_ns - 1;
    }
    a->out->count++;
    if (a->report)
        a->report(a->self, a->out);
    return true;
}

static bool ask_rates(struct asking *a)
{
    const struct space *space = &a->e->options.space;
    const struct cluster *cluster = a->e->facts->cluster;
    struct variation v = variation_none();
    for (int more = 1; more >= 0; more--) {
        v.memory = more ? 1.1 : 0.9;
        struct what_if w = { .resource = RESOURCE_MEMORY,
                             .name = name_of(a->e, "10 %% %s memory", more ? "more" : "less"),
                             .factor = v.memory };
        if (!ask(a, w, space, &v, true))
            return false;
    }
    v = variation_none();
    v.matmul = v.attention = v.vector = 1.1;
    if (!ask(a, (struct what_if){ RESOURCE_COMPUTE, name_of(a->e, "10 %% faster computation"), .factor = 1.1 }, space,
             &v, true))
        return false;
    for (int i = 0; i < cluster->level_count; i++) {
        if (i > 0 && cluster->type_count == 1 && cluster->types[0].levels[i].fanout == 1)
            continue;
        v = variation_none();
        v.bandwidth[i] = 2;
        struct what_if w = { .resource = RESOURCE_LINKS,
                             .name = name_of(a->e, "links of level %s twice as fast", cluster->types[0].levels[i].name),
                             .factor = 2 };
        if (!ask(a, w, space, &v, true))
            return false;
    }
    return true;
}

static bool ask_structure(struct asking *a)
{
    struct variation v = variation_none();
    v.widen = 2;
    if (!ask(a,
             (struct what_if){ RESOURCE_NODE, name_of(a->e, "nodes of twice the devices, half as many"), .factor = 2 },
             &a->e->options.space, &v, false))
        return false;
    struct space space = a->e->options.space;
    space.batch *= 2;
    v = variation_none();
    return ask(a,
               (struct what_if){ RESOURCE_BATCH, name_of(a->e, "twice the batch, per half"), .factor = 2,
                                 .value = space.batch },
               &space, &v, false);
}

static bool ask_devices(struct asking *a, const struct variation *v)
{
    const struct cluster *cluster = a->e->facts->cluster;
    struct space space = a->e->options.space;
    space.data.count = 0; /* degrees that name the number of devices cannot be kept with more or fewer of them */
    struct varied varied;
    struct error why = { 0 };
    if (!varied_open(&varied, a->e->facts, v, &why))
        return why.kind == ERROR_INPUT || fail_with(a->err, &why);
    int devices = varied.cluster->device_count;
    struct what_if w = { .resource = RESOURCE_DEVICES,
                         .name = cluster->type_count > 1
                                     ? name_of(a->e, "%s", varied.words)
                                     : name_of(a->e, "%d device%s", devices, devices == 1 ? "" : "s"),
                         .cluster = varied.typed ? arena_strdup(&a->e->arena, varied.typed) : NULL,
                         .factor = (double)devices / cluster->device_count,
                         .value = devices };
    bool good = w.cluster || !varied.typed || fail_memory(a->err);
    varied_free(&varied);
    return good && ask(a, w, &space, v, false);
}

static bool ask_size(struct asking *a, int units, int times)
{
    struct variation v = variation_none();
    v.units = units;
    v.times = times;
    return ask_devices(a, &v);
}

/* Asks for the first half, quarter and eighth, of the devices of one node where that is less; of several types for each
 * alone, and of three for each two. */
static bool ask_parts(struct asking *a)
{
    const struct cluster *cluster = a->e->facts->cluster;
    struct variation parts[MOST_PARTS];
    int units = variation_units(cluster), size = variation_unit_devices(cluster, 0), count = 0;
    bool mixed = cluster->type_count > 1;
    int first = a->count;
    for (int u = units / 2; u >= 1 && u >= units / 8 && !mixed; u /= 2)
        if (!ask_size(a, u, 1))
            return false;
    for (int d = size / 2; d >= 1 && d >= cluster->device_count / 8 && !mixed; d /= 2) {
        struct variation v = variation_none();
        v.units = 1;
        v.devices = d;
        if (!ask_devices(a, &v))
            return false;
    }
    for (int i = first + 1; i < a->count; i++)
        a->queries[i].larger = &a->queries[i - 1];
    count = mixed ? parts_of_cluster(cluster, parts) : 0;
    for (int i = 1; i < count; i++)
        if (parts[i].types != parts[i - 1].types && !ask_devices(a, &parts[i]))
            return false;
    return true;
}

/* Asks for one node more, twice as many, and parts. */
static bool ask_frontier(struct asking *a)
{
    const struct cluster *cluster = a->e->facts->cluster;
    if (cluster->level_count > 1 && !ask_size(a, variation_units(cluster) + 1, 1))
        return false;
    return (cluster->device_count > MAX_DEVICES / 2 || ask_size(a, 0, 2)) && ask_parts(a);
}

static bool ask_micro(struct asking *a, const struct choice *c)
{
    const int64_t near[] = { c->micro % 2 ? 0 : c->micro / 2, c->micro * 2, c->micro * 4 };
    for (size_t i = 0; i < sizeof near / sizeof *near; i++) {
        struct space space = a->e->options.space;
        struct variation v = variation_none();
        if (near[i] < 1 || space.batch % near[i] != 0 || !allowed_has(&space.micro, near[i]))
            continue;
        space.micro = (struct allowed){ 1, { near[i] } };
        struct what_if w = { .resource = RESOURCE_MICRO,
                             .name = name_of(a->e, "micro-batches of %lld per data rank", (long long)near[i]),
                             .factor = (double)near[i] / (double)c->micro,
                             .value = near[i] };
        if (!ask(a, w, &space, &v, false))
            return false;
    }
    return true;
}

bool explain_what_ifs(struct explainer *e, const struct explained *plan, struct what_ifs *out,
                      void (*report)(void *self, const struct what_ifs *so_far), void *self, struct error *err)
{
    struct choice choice = choice_of(plan->plan, plan->graph);
    struct asking asking = { .e = e,
                             .plan = plan,
                             .out = out,
                             .report = report,
                             .self = self,
                             .err = err,
                             .list = arena_alloc(&e->arena, MAX_WHAT_IFS, sizeof *asking.list),
                             .queries = arena_alloc(&e->arena, MAX_WHAT_IFS, sizeof *asking.queries) };
    struct account own;
    *out = (struct what_ifs){ 0 };
    if (!asking.list || !asking.queries)
        return fail_memory(err);
    if (!explainer_account(e, plan, e->facts, &own, err) || !explainer_base(e, &out->base, err))
        return false;
    out->base_ns = own.step_ns;
    if (out->base.kind == SOLUTION_PLAN && (out->base.step_ns < out->base_ns || !own.fits))
        out->base_ns = out->base.step_ns;
    bool good = ask_rates(&asking) && ask_structure(&asking) && ask_micro(&asking, &choice) && ask_frontier(&asking) &&
                time_known_plans(&asking);
    out->asked = asking.count;
    good = good && explainer_solve_all(e, asking.queries, asking.count, answer, &asking, err);
    for (int i = 0; i < asking.count; i++)
        varied_free(&asking.list[i].varied);
    return good;
}

const struct what_if *explain_binding(const struct what_ifs *what_ifs)
{
    const struct what_if *best = NULL;
    for (int i = 0; i < what_ifs->count; i++) {
        const struct what_if *w = &what_ifs->list[i];
        bool constraint =
            w->resource == RESOURCE_MEMORY || w->resource == RESOURCE_NODE || w->resource == RESOURCE_BATCH;
        if (constraint && w->factor > 1 && w->step_ns > 0 && w->change <= -BINDING_SHARE &&
            (!best || w->change < best->change))
            best = w;
    }
    return best;
}

const struct what_if *explain_fewer(const struct what_ifs *what_ifs)
{
    const struct what_if *best = NULL;
    for (int i = 0; i < what_ifs->count; i++) {
        const struct what_if *w = &what_ifs->list[i];
        if (w->resource == RESOURCE_DEVICES && w->factor < 1 && w->step_ns > 0 && w->change < 0 &&
            (!best || w->step_ns < best->step_ns))
            best = w;
    }
    return best;
}

/* ---- robustness ---- */

/* owns: the plan under the facts of each draw; best_ns: of it and of what is known besides the shortest that fits, else
 * INT64_MAX. All draws of an amount come before those of the next; `done` of them were asked in waves before. */
struct drawing {
    struct explainer *e;
    const struct explained *plan;
    struct regret *out;
    int draws, done;
    void (*report)(void *self, int amount);
    void *self;
    double sum;
    struct varied varied[MOST_QUERIES];
    struct query queries[MOST_QUERIES];
    struct account owns[MOST_QUERIES];
    int64_t best_ns[MOST_QUERIES];
};

static bool answer_draw(void *self, int index, const struct solution *found, struct error *err)
{
    struct drawing *d = self;
    int amount = (d->done + index) / d->draws, last = (d->done + index + 1) % d->draws == 0;
    struct regret *out = &d->out[amount];
    const struct account *own = &d->owns[index];
    int64_t least_ns = d->best_ns[index];
    (void)err;
    if (found->kind == SOLUTION_ENDED)
        return true;
    if (found->kind == SOLUTION_PLAN)
        least_ns = min_i64(least_ns, found->step_ns);
    out->draws++;
    out->unsolved += least_ns == INT64_MAX;
    out->unfit += !own->fits;
    if (own->fits) {
        double regret = (double)(own->step_ns - least_ns) / (double)max_i64(1, least_ns);
        d->sum += regret;
        out->changed += regret > 0;
        out->most = fmax(out->most, regret);
        out->mean = d->sum / (out->draws - out->unfit);
    }
    if (last)
        d->sum = 0;
    if (last && d->report)
        d->report(d->self, amount);
    return true;
}

/* Times what is known of the job under the draws' facts, each plan lowered once for all of them. Of dear plans only the
 * explained one is timed again. */
static bool time_known(struct drawing *d, int count, struct error *err)
{
    struct explainer *e = d->e;
    const struct facts *facts[MOST_QUERIES] = { NULL };
    struct account others[MOST_QUERIES];
    for (int i = 0; i < count; i++) {
        facts[i] = d->queries[i].facts;
        d->best_ns[i] = INT64_MAX;
    }
    for (int k = 0; k < e->known_count; k++) {
        const struct known_plan *known = &e->known[k];
        const bool own = known->explained == d->plan;
        struct account *accounts = own ? d->owns : others;
        if (!own && (known->own.kind != SOLUTION_PLAN || explainer_is_dear(d->plan)))
            continue;
        if (!explainer_accounts(e, known->explained, facts, count, accounts, err))
            return false;
        for (int i = 0; i < count; i++)
            if (accounts[i].fits)
                d->best_ns[i] = min_i64(d->best_ns[i], accounts[i].step_ns);
    }
    for (int i = 0; i < count; i++) {
        d->queries[i].rival = d->plan->plan;
        d->queries[i].worth_ns = d->best_ns[i] < INT64_MAX ? d->best_ns[i] : 0;
    }
    return true;
}

/* Draws so many at once, from the first that was not asked on. */
static bool draw(struct drawing *d, const double *amounts, uint64_t seed, int count, struct error *err)
{
    int opened = 0;
    bool good = true;
    while (good && opened < count) {
        int at = d->done + opened;
        struct variation v = variation_noise(seed + (uint64_t)(at % d->draws), amounts[at / d->draws]);
        good = varied_open(&d->varied[opened], d->e->facts, &v, err);
        d->queries[opened] = (struct query){
            .space = d->e->options.space, .facts = &d->varied[opened].facts, .near = true, .light = true
        };
        opened += good;
    }
    good = good && time_known(d, count, err) && explainer_solve_all(d->e, d->queries, count, answer_draw, d, err);
    for (int i = 0; i < opened; i++)
        varied_free(&d->varied[i]);
    d->done += count;
    return good;
}

bool explain_regrets(struct explainer *e, const struct explained *plan, const double *amounts, int amount_count,
                     int draws, uint64_t seed, struct regret *out, void (*report)(void *self, int amount), void *self,
                     struct error *err)
{
    struct drawing *drawing = arena_alloc(&e->arena, 1, sizeof *drawing);
    struct solution base;
    if (!drawing)
        return fail_memory(err);
    *drawing = (struct drawing){ .e = e, .plan = plan, .out = out, .draws = draws, .report = report, .self = self };
    if (!explainer_base(e, &base, err))
        return false;
    for (int i = 0; i < amount_count; i++)
        out[i] = (struct regret){ .amount = amounts[i] };
    while (drawing->done < amount_count * draws && !explainer_ends(e)) {
        int left = amount_count * draws - drawing->done;
        if (!draw(drawing, amounts, seed, min_int(left, MOST_QUERIES), err))
            return false;
    }
    for (int i = 0; i < amount_count && report; i++) /* of which time has ended the draws */
        if (out[i].draws > 0 && out[i].draws < draws)
            report(self, i);
    return true;
}
