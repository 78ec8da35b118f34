#include "cli/pareto.h"
#include "cli/explanation.h"
#include "cli/print.h"
#include "cli/widening.h"
#include <string.h>

/* ---- searches ---- */
/* Stands between the explainer and whoever searches for it. */
struct widener {
    struct explainer *e;
    struct space widest;
    /* the explainer's own; NULL: search_run() */
    bool (*search)(void *self, struct search_result **out, const struct facts *facts,
                   const struct search_options *options, struct error *err);
    void *searcher;
};
struct asked {
    struct widener *w;
    const struct facts *facts;
};

static bool search_once(void *self, struct search_options *options, struct search_result **out, struct error *err)
{
    const struct asked *a = self;
    const struct widener *w = a->w;
    return w->search ? w->search(w->searcher, out, a->facts, options, err)
                     : search_run(out, w->e->model, a->facts, options, err);
}

/* Under the whole cluster's facts plans of one kind each are asked for, several at once, and none of another. */
static bool search_wider(void *self, struct search_result **out, const struct facts *facts,
                         const struct search_options *options, struct error *err)
{
    struct widener *w = self;
    struct asked asked = { w, facts };
    struct search_options own = *options;
    struct widening widening;
    if (facts == w->e->facts)
        return search_once(&asked, &own, out, err);
    return search_widened(out, &widening, w->e->model, facts, &own, &w->widest, search_once, &asked, err);
}

/* Of the point's devices by the hour; negative: some type has no price. */
static double rate_of(const struct pareto *p, const struct point *at)
{
    double dollars = 0;
    for (int t = 0; t < p->cluster->type_count; t++) {
        double own = at->of_type[t] > 0 ? prices_of(p->prices, p->cluster->types[t].device.name) : 0;
        if (own < 0)
            return -1;
        dollars += own * at->of_type[t];
    }
    return dollars;
}

static bool has_prices(const struct pareto *p)
{
    return prices_of_cluster(p->prices, p->cluster) >= 0;
}

/* Drops points that a shorter one with no dearer devices beats. */
static void drop_dear(struct pareto *p)
{
    struct frontier *f = &p->frontier;
    int kept = 0;
    for (int i = 0; i < f->count; i++)
        if (kept == 0 || rate_of(p, &f->points[i]) < rate_of(p, &f->points[kept - 1]))
            f->points[kept++] = f->points[i];
    f->count = kept;
}

bool pareto_named(enum pareto_resource *out, const char *word, struct error *err)
{
    static const char *const names[] = { [PARETO_MEMORY] = "memory", [PARETO_DEVICES] = "devices", NULL };
    int index = PARETO_MEMORY;
    if (word && !inputs_word("--pareto", word, names, &index, err))
        return false;
    *out = (enum pareto_resource)index;
    return true;
}

bool pareto_find(struct pareto *out, struct explainer *e, struct inputs *in, const struct space_options *job,
                 const struct prices *prices, struct error *err)
{
    const bool devices = out->resource == PARETO_DEVICES;
    struct widener w = { .e = e, .search = e->search, .searcher = e->searcher };
    out->cluster = in->cluster;
    out->prices = prices;
    if (!widening_widest(&w.widest, in, &e->options.space, job, err))
        return false;
    if (devices) {
        e->search = search_wider;
        e->searcher = &w;
    }
    bool good = (devices ? explain_device_frontier : explain_memory_frontier)(e, &out->frontier, err);
    e->search = w.search;
    e->searcher = w.searcher;
    out->complete = !e->ended;
    if (devices && has_prices(out))
        drop_dear(out);
    return good;
}

/* ---- what they came to ---- */
static double dollars_of(const struct pareto *p, const struct point *at)
{
    return rate_of(p, at) * (double)at->step_ns / 3600e9;
}

void pareto_put(struct json_writer *w, const struct pareto *p)
{
    json_write_key(w, "frontier");
    json_begin_array(w);
    for (int i = 0; i < p->frontier.count; i++) {
        const struct point *at = &p->frontier.points[i];
        json_begin_object(w);
        json_put_double(w, "step_s", (double)at->step_ns / 1e9);
        json_put_int(w, "peak_bytes", at->peak_bytes);
        json_put_int(w, "devices", at->devices);
        json_put_string(w, "cluster", at->cluster);
        if (rate_of(p, at) >= 0)
            json_put_double(w, "dollars_per_step", dollars_of(p, at));
        json_write_key(w, "plan");
        write_choice(w, at->solution.explained->plan, at->solution.explained->graph);
        json_end_object(w);
    }
    json_end_array(w);
}

/* The shortest point of fewer devices than the whole cluster's best, which is the first known of it; NULL: none is
 * shorter. */
static const struct point *fewer_devices(const struct frontier *f, int devices, int64_t step_ns)
{
    const struct point *first = &f->points[0];
    return f->count > 0 && first->devices < devices && first->step_ns < step_ns ? first : NULL;
}

static const char *beaten_in(const struct pareto *p)
{
    if (p->resource == PARETO_MEMORY || p->cluster->type_count == 1)
        return "both";
    return has_prices(p) ? "step and $ an hour" : "step and devices of each type (--price compares types)";
}

void pareto_print(const struct cli *cli, const struct pareto *p, int64_t step_ns)
{
    char line[PRINT_LINE_BYTES], number[TEXT_NUMBER_BYTES], peak[TEXT_NUMBER_BYTES], dollars[TEXT_NUMBER_BYTES];
    const struct frontier *f = &p->frontier;
    const bool on = p->resource == PARETO_DEVICES; /* what they are of is said, too */
    size_t width = 0;
    for (int i = 0; i < f->count && on; i++)
        width = strlen(f->points[i].cluster) > width ? strlen(f->points[i].cluster) : width;
    fprintf(cli->out, "%8s %9s %8s  %s%-*s%snone of these is beaten in %s%s\n", "step", "memory", "devices",
            has_prices(p) ? "  $ a step  " : "", (int)width, on ? "cluster" : "", on ? "  " : "", beaten_in(p),
            p->complete ? "" : " (ended early)");
    for (int i = 0; i < f->count; i++) {
        const struct point *at = &f->points[i];
        print_plan_line(at->solution.explained->plan, at->solution.explained->graph, line);
        fprintf(cli->out, "%8s %9s %8d  ", text_duration_ns(number, at->step_ns), text_bytes(peak, at->peak_bytes),
                at->devices);
        if (has_prices(p))
            fprintf(cli->out, "%10s  ", spending_number(dollars, dollars_of(p, at)));
        fprintf(cli->out, "%-*s%s%s\n", (int)width, on ? at->cluster : "", on ? "  " : "", line);
    }
    const struct point *fewer = on ? fewer_devices(f, p->cluster->device_count, step_ns) : NULL;
    if (fewer)
        print_fewer(cli->out, fewer->step_ns, step_ns, p->cluster->device_count, fewer->cluster);
}
