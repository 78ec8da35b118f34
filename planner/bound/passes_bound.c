#include "planner/bound/passes_bound.h"
#include "base/num.h"
#include "planner/bound/lanes_bound.h"
#include "planner/bound/passes_choices.h"
#include <string.h>

enum { FINE = 1 << 16, MOST_SHARE = 4 };
/* What may be lost of all layers of a pass, in place of the largest once. */
enum { LOSE_GAPS = 1, LOSE_AGAIN = 2, LOSE_WEIGHTS = 4, LOSSES = 8 };
/* Moments' weights are tried in so many quarters of what is proposed. */
static const int quarters[] = { 4, 0, 2, 3, 5, 6, 8 };
enum { QUARTERS = sizeof quarters / sizeof *quarters, WHOLE = 4 };

/* What all inequalities together ask of a layer in a piece. */
struct piece_asks {
    int64_t forwards, inputs, weights;        /* passes */
    int64_t adds;                             /* of weights, behind the first micro-batch of a stage */
    int64_t arrivals, departures;             /* of inputs that wait for a message; of weights behind one */
    int64_t ends;                             /* paths that end on a stage that has it */
    int64_t resident_ns, kept_ns, put_off_ns; /* for all of a device's memory */
};
/* What a layer of a class takes under a strategy. */
struct take {
    struct least_price least;
    int64_t lane_ns;
    int64_t resident, kept, put_off; /* of a device's memory, in FINE */
};
struct bound {
    const struct busy_problem *p;
    const struct config *config;
    struct passes_entry *entry;
    struct passes_book *book;
    int *count;         /* (classes) layers */
    struct take *takes; /* (classes, strategies) */
    struct piece_asks *asks;
    bool *here; /* (stages, pieces) */
    struct least_price most;
    int64_t weight, lane_weight, stay_ns, memory_ns, capacity_bytes;
    double unit_ns; /* of judge() */
    int64_t best_ns, below_ns;
    bool kept, failed; /* kept: the entry's mix is the best one's */
};

/* ---- what is asked ---- */

static void ask_path(struct bound *b, const struct mix_path *path)
{
    const struct passes *p = &b->entry->passes;
    int copies = b->p->copies ? 2 : 1, last = p->pass[path->pass[path->count - 1]].stage;
    for (int i = 0; i < path->count; i++) {
        const struct pass *pass = &p->pass[path->pass[i]], *from = i > 0 ? &p->pass[path->pass[i - 1]] : pass;
        struct piece_asks *asks = &b->asks[pass->piece];
        bool arrives = from->stage != pass->stage;
        asks->forwards += path->weight * (pass->kind == ACTION_FORWARD);
        asks->inputs += path->weight * pass_is_input(pass);
        asks->weights += path->weight * pass_is_weight(pass);
        asks->adds += path->weight * (pass_is_weight(pass) && pass->micro >= copies);
        asks->arrivals += path->weight * (arrives && pass_is_input(pass));
        b->asks[from->piece].departures += path->weight * (arrives && from->kind == ACTION_BACKWARD);
    }
    for (int q = 0; q < p->pieces; q++)
        b->asks[q].ends += b->here[last * p->pieces + q] ? path->weight : 0;
    b->weight += path->weight;
}

static void ask_moment(struct bound *b, const struct mix_moment *moment)
{
    const struct passes *p = &b->entry->passes;
    int64_t ns = moment->weight_ns;
    for (int q = 0; q < p->pieces; q++)
        b->asks[q].resident_ns += b->here[moment->stage * p->pieces + q] ? ns : 0;
    for (int i = p->first[moment->stage]; i < p->first[moment->stage] + moment->done; i++) {
        const struct pass *pass = &p->pass[i];
        struct piece_asks *asks = &b->asks[pass->piece];
        asks->kept_ns += ((pass->kind == ACTION_FORWARD) - pass_is_input(pass)) * ns;
        asks->put_off_ns += ((pass->kind == ACTION_BACKWARD_INPUT) - (pass->kind == ACTION_BACKWARD_WEIGHT)) * ns;
    }
    b->memory_ns += ns;
}

static void ask(struct bound *b, const struct passes_mix *mix)
{
    memset(b->asks, 0, (size_t)b->entry->passes.pieces * sizeof *b->asks);
    b->weight = b->lane_weight = mix->lane_weight;
    b->memory_ns = 0;
    for (int i = 0; i < mix->path_count; i++)
        if (mix->paths[i].weight > 0)
            ask_path(b, &mix->paths[i]);
    for (int i = 0; i < mix->moment_count; i++)
        if (mix->moments[i].weight_ns > 0)
            ask_moment(b, &mix->moments[i]);
}

/* ---- the sum ---- */

static int64_t layer_asks(const struct bound *b, const struct take *take, const struct piece_asks *a, int lose,
                          int part)
{
    const struct least_price *least = &take->least;
    int64_t again = a->inputs - (lose & LOSE_AGAIN ? a->arrivals : 0);
    int64_t gone = lose & LOSE_WEIGHTS ? a->departures : 0, adds = max_i64(0, a->adds - gone);
    int64_t time = a->forwards * least->forward_ns + a->inputs * least->input_ns + again * least->again_ns +
                   (a->weights - gone) * least->weight_ns + adds * least->adding_ns +
                   min_i64(a->forwards, min_i64(a->inputs, a->weights)) * least->gap_ns + a->ends * least->update_ns +
                   b->lane_weight * take->lane_ns;
    if (!(lose & LOSE_GAPS))
        time += a->forwards * least->enter_gap_ns + a->inputs * least->return_gap_ns;
    int64_t memory =
        a->resident_ns / FINE * take->resident + a->kept_ns / FINE * take->kept + a->put_off_ns / FINE * take->put_off;
    return time + b->weight * (memory * part / WHOLE);
}

static int64_t lost_ns(const struct bound *b, int lose)
{
    int64_t lost = b->lane_weight * b->stay_ns;
    for (int q = 0; q < b->entry->passes.pieces; q++) {
        const struct piece_asks *a = &b->asks[q];
        lost += lose & LOSE_GAPS ? 0 : a->forwards * b->most.enter_gap_ns + a->inputs * b->most.return_gap_ns;
        lost += lose & LOSE_AGAIN ? 0 : a->arrivals * b->most.again_ns;
        lost += lose & LOSE_WEIGHTS ? 0 : a->departures * (b->most.weight_ns + b->most.adding_ns);
    }
    return lost;
}

static int64_t value(const struct bound *b, int lose, int part)
{
    int strategies = b->p->table->strategy_count, pieces = b->entry->passes.pieces;
    int64_t total = -lost_ns(b, lose) - b->weight * ceil_div(b->memory_ns * part, WHOLE);
    for (int c = 0; c < b->p->table->class_count; c++) {
        int64_t least = b->count[c] > 0 ? INT64_MAX : 0;
        for (int i = 0; i < strategies * pieces && b->count[c] > 0; i++)
            least =
                min_i64(least, layer_asks(b, &b->takes[c * strategies + i / pieces], &b->asks[i % pieces], lose, part));
        total += b->count[c] * least;
    }
    return total <= 0 || b->weight <= 0 ? 0 : ceil_div(total, b->weight);
}

/* Of the losses each that lengthens the bound, one after the other. *lose: which. */
static int64_t best_loss(const struct bound *b, int *lose)
{
    int64_t best = value(b, *lose = 0, WHOLE);
    for (int bit = 1; bit < LOSSES; bit *= 2) {
        int64_t other = value(b, *lose | bit, WHOLE);
        if (other > best) {
            best = other;
            *lose |= bit;
        }
    }
    return best;
}

/* With its moments in these parts of their weights. */
static bool keep(struct bound *b, const struct passes_mix *mix, int part)
{
    if (mix == &b->entry->mix && part == WHOLE)
        return true;
    if (!passes_keep(b->book, b->entry, mix))
        return false;
    for (int i = 0; i < b->entry->mix.moment_count; i++)
        b->entry->mix.moments[i].weight_ns = b->entry->mix.moments[i].weight_ns * part / WHOLE;
    return true;
}

/* By the mix, with the weights of its moments as they are and in other parts. */
static double judge(void *self, const struct passes_mix *mix)
{
    struct bound *b = self;
    int lose = 0, part = WHOLE;
    ask(b, mix);
    int64_t best = best_loss(b, &lose);
    for (int i = 1; i < QUARTERS && best < b->below_ns && b->memory_ns > 0; i++) {
        int64_t other = value(b, lose, quarters[i]);
        if (other > best) {
            best = other;
            part = quarters[i];
        }
    }
    if (best > b->best_ns) {
        b->failed = b->failed || !keep(b, mix, part);
        ask(b, &b->entry->mix);
        b->best_ns = best = value(b, lose, WHOLE); /* of the weights as they were rounded */
        b->kept = true;
    }
    return (double)best / b->unit_ns;
}

/* ---- one configuration ---- */

static int64_t share_of(int64_t bytes, int64_t capacity_bytes)
{
    double share = (double)bytes / (double)capacity_bytes;
    return share >= MOST_SHARE ? (int64_t)MOST_SHARE * FINE : (int64_t)(share * FINE);
}

static void fill_takes(struct bound *b)
{
    const struct price_table *table = b->p->table;
    bool offloads = price_offloads(table);
    for (int i = 0; i < table->class_count * table->strategy_count; i++) {
        int class_index = i / table->strategy_count;
        struct take *take = &b->takes[i];
        struct least_price *least = &take->least, *most = &b->most;
        *least = lanes_least(b->p, class_index, i % table->strategy_count);
        take->lane_ns = least_lane_ns(least, b->p->micro_batches, b->p->copies ? 2 : 1) / b->p->stages;
        take->resident = share_of(least->resident_bytes, b->capacity_bytes);
        take->kept = share_of(price_kept_bytes(least, offloads), b->capacity_bytes);
        take->put_off = share_of(least->put_off_bytes, b->capacity_bytes);
        if (b->count[class_index] > 0)
            for (size_t k = 0; k < sizeof *most / sizeof(int64_t); k++)
                ((int64_t *)most)[k] = max_i64(((int64_t *)most)[k], ((const int64_t *)least)[k]);
    }
}

static void mark_here(struct bound *b)
{
    const struct passes *p = &b->entry->passes;
    for (int i = 0; i < p->count; i++)
        b->here[p->pass[i].stage * p->pieces + p->pass[i].piece] = true;
}

static bool bound_open(struct bound *b, struct arena *arena)
{
    const struct chain *chain = b->p->chain;
    const struct price_table *table = b->p->table;
    size_t pieces = (size_t)b->entry->passes.pieces, classes = (size_t)table->class_count;
    b->count = arena_alloc(arena, classes, sizeof *b->count);
    b->takes = arena_alloc(arena, classes * (size_t)table->strategy_count, sizeof *b->takes);
    b->asks = arena_alloc(arena, pieces, sizeof *b->asks);
    b->here = arena_alloc(arena, pieces * (size_t)b->p->stages, sizeof *b->here);
    if (!b->count || !b->takes || !b->asks || !b->here)
        return false;
    for (int l = 0; l < chain->layer_count; l++)
        b->count[chain->class_of[l]]++;
    b->stay_ns = b->p->chunks * lanes_stay_ns(b->p);
    fill_takes(b);
    mark_here(b);
    return true;
}

static bool find_mix(struct bound *b, struct mix_effort *effort, struct arena *arena, struct error *err)
{
    struct mix_choice choice[MIX_KINDS * MIX_CHOICES];
    struct mix_problem problem = { .passes = &b->entry->passes, .judge = judge, .self = b, .effort = effort };
    if (!passes_choose(&problem, choice, b->p->chain, b->config, b->p->table, b->capacity_bytes, arena))
        return fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    b->unit_ns = problem.unit_ns;
    problem.enough = (double)b->below_ns / problem.unit_ns;
    return passes_mix(&problem, arena, err);
}

bool passes_bound(int64_t *out, const struct passes_mix **mix, struct passes_book *book,
                  const struct busy_problem *problem, const struct config *config, int64_t capacity_bytes,
                  int64_t below_ns, struct mix_effort *effort, struct error *err)
{
    struct arena arena = { 0 };
    struct bound b = { .p = problem,
                       .config = config,
                       .book = book,
                       .entry = passes_entry(book, config),
                       .capacity_bytes = max_i64(capacity_bytes, 1),
                       .below_ns = below_ns,
                       .unit_ns = 1 };
    bool good = (b.entry && bound_open(&b, &arena)) || fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    if (good && b.entry->mix.path_count > 0)
        judge(&b, &b.entry->mix);
    if (good && b.best_ns < below_ns)
        good = find_mix(&b, effort, &arena, err);
    if (good && b.failed)
        good = fail_kind(err, ERROR_ENVIRONMENT, "search: out of memory");
    *out = b.best_ns;
    *mix = b.kept ? &b.entry->mix : NULL;
    arena_free(&arena);
    return good;
}
