/* Proposals by the formula: every configuration gets a bound that costs almost nothing, then they are solved best
 * first, in waves. What a wave prunes by is what the waves before it found, so the answer does not depend on how many
 * of its members are solved at once. */
#include "base/num.h"
#include "planner/search/busy_bound.h"
#include "planner/search/config_name.h"
#include "planner/search/search_parts.h"
#include <stdlib.h>
#include <string.h>

/* SLACK_PERMILLE: plans this much longer than the best by the formula are candidates too: the judge sees what the
 * formula does not. FAMILY_*: so does the best of each (stages, tensor degree) whose bound is not too far away. */
enum {
    SLACK_PERMILLE = 10,
    SCOUTS = 3,
    WAVE = 4,
    FAMILY_PERMILLE = 300, /* families whose bound is more than this above the best are left out */
    FAMILY_GAP_PPM = 10000,
    CLOSE_PERMILLE = 50, /* so are configurations that are further away than this */
    CLOSE_SOLVES = 4,    /* in all */
    FAMILY_TRIES = 2,    /* configurations solved for a family, until one has a plan */
    FAMILY_SOLVES = 12,  /* in all */
    FAMILY_LOOKS = 8,    /* relaxations for each of these, where families are solved closely */
    SMALL_MORE = 4,      /* small models, of which all are: so many times as often */
    FAMILY_CLOSE = 4     /* configurations solved closely for the family that leads by the pipeline */
};

/* Into the certificate, which has room for every configuration. */
static bool record(struct run *run, int config, enum config_fate fate, int64_t bound_ns)
{
    struct certificate *certificate = &run->result->certificate;
    char name[CONFIG_NAME_BYTES];
    struct config_record *record = &certificate->records[certificate->record_count++];
    bound_ns = min_i64(bound_ns, CERTIFICATE_NO_PLAN_NS);
    *record =
        (struct config_record){ .name = arena_strdup(&run->result->arena, config_name(name, &run->configs[config])),
                                .config = config,
                                .fate = fate,
                                .first_ns = run->first_ns[config],
                                .bound_ns = bound_ns };
    return record->name != NULL || search_out_of_memory(run->err);
}

/* ---- bounds ---- */

static int compare_ordered(const void *a, const void *b)
{
    const struct ordered *x = a, *y = b;
    if (x->layouts != y->layouts)
        return x->layouts ? 1 : -1;
    if (x->bound_ns != y->bound_ns)
        return x->bound_ns < y->bound_ns ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* No plan of any configuration is simulated shorter. */
static bool bound_simulation(struct run *run, const struct config *config, const struct price_table *table)
{
    int64_t *least_ns = &run->result->certificate.simulated_bound_ns, bound_ns = 0;
    struct busy_problem problem = busy_problem_of(&run->bench.chain, config, table);
    if (!busy_bound(&bound_ns, &problem, *least_ns, run->err))
        return false;
    *least_ns = min_i64(*least_ns, bound_ns);
    return true;
}

bool search_order(struct run *run)
{
    struct certificate *certificate = &run->result->certificate;
    run->order = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *run->order);
    certificate->records = arena_alloc(&run->result->arena, (size_t)run->config_count, sizeof *certificate->records);
    run->first_ns = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *run->first_ns);
    if (!run->order || !run->first_ns || !certificate->records)
        return search_out_of_memory(run->err);
    certificate->simulated_bound_ns = INT64_MAX;
    certificate->ideals = chain_ideals(&run->bench.chain);
    certificate->hash = certificate_hash_start(&run->options->space);
    certificate_hash_orders(&certificate->hash, certificate->ideals);
    for (int i = 0; i < run->config_count; i++) {
        const struct config *config = &run->configs[i];
        const struct price_table *table = NULL;
        if (search_stops(run)) { /* nothing is known of the rest */
            for (int left = i; left < run->config_count; left++)
                if (!record(run, left, FATE_LEFT, 0))
                    return false;
            run->config_count = i;
            run->open_bound_ns = certificate->simulated_bound_ns = 0;
            break;
        }
        if (!workbench_table(&run->bench, config, true, &table, run->err))
            return false;
        struct partition_problem problem = workbench_problem(&run->bench, config, table, NULL);
        run->order[i] = (struct ordered){ table ? partition_quick_bound(&problem) : INT64_MAX, i, config->runs > 1 };
        run->first_ns[i] = run->order[i].bound_ns;
        certificate->refused += table == NULL;
        certificate_hash_add(&certificate->hash, config, table);
        if (table ? !bound_simulation(run, config, table) : !record(run, i, FATE_REFUSED, 0))
            return false;
    }
    qsort(run->order, (size_t)run->config_count, sizeof *run->order, compare_ordered);
    return true;
}

/* ---- one wave ---- */

/* One configuration's problem, solved beside the others of its wave. */
struct piece {
    int config; /* index */
    int64_t bound_ns;
    struct queue *queue;             /* that it was taken from */
    bool bound_only;                 /* relaxed, not solved */
    bool files_order;                /* cut in no other order of the layers */
    int halves;                      /* then the bound is sharpened so often */
    const struct price_table *table; /* NULL: lowering has no program for it */
    struct partition_problem problem;
    struct partition_result result;
    struct arena *arena; /* of the run: candidates keep what lies in it */
    struct error err;
    bool good;
};

static void solve_piece(void *context, int index)
{
    struct piece *piece = &((struct piece *)context)[index];
    piece->good = !piece->table || partition_solve(&piece->problem, piece->arena, &piece->result, &piece->err);
}

static bool prepare_piece(struct run *run, struct piece *piece, int64_t below_ns, int64_t gap_ppm)
{
    if (!workbench_table(&run->bench, &run->configs[piece->config], false, &piece->table, run->err))
        return false;
    if (!piece->table)
        return true;
    piece->arena = search_arena(run);
    if (!piece->arena || !search_problem(run, piece->config, piece->table, run->capacity_bytes, &piece->problem))
        return piece->arena || search_out_of_memory(run->err);
    piece->problem.chain = piece->files_order ? &run->bench.line : &run->bench.chain;
    piece->problem.below_ns = below_ns;
    piece->problem.bound_only = piece->bound_only;
    piece->problem.halves = piece->halves;
    piece->problem.gap_ppm = max_i64(piece->problem.gap_ppm, gap_ppm);
    if (run->stopped) { /* for a first plan, since without it there would be no answer at all */
        piece->problem.gap_ppm = max_i64(piece->problem.gap_ppm, FAMILY_GAP_PPM);
        piece->problem.stops = NULL;
    }
    return true;
}

/* Candidates are cut at places of the chain that has all orders. */
static void take_places(const struct run *run, struct piece *piece)
{
    for (int i = 0; i < piece->result.plan_count && piece->files_order; i++) {
        struct partition_plan *plan = &piece->result.plans[i];
        for (int k = 0; k < partition_stages(&piece->problem, plan); k++)
            plan->first_layer[k] = chain_prefix(&run->bench.chain, plan->first_layer[k]);
    }
}

static bool solve_pieces(struct run *run, struct piece *pieces, int count, int64_t below_ns, int64_t gap_ppm)
{
    for (int i = 0; i < count; i++)
        if (!prepare_piece(run, &pieces[i], below_ns, gap_ppm))
            return false;
    search_parallel(run, count, solve_piece, pieces);
    for (int i = 0; i < count; i++) {
        if (!pieces[i].good)
            return fail_kind(run->err, pieces[i].err.kind, "%s", pieces[i].err.message);
        take_places(run, &pieces[i]);
    }
    return true;
}

/* What a scout found is found again when its configuration is solved. */
static void drop_rough(struct run *run, int config)
{
    int kept = 0;
    for (int i = 0; i < run->candidate_count; i++)
        if (!run->candidates[i].rough || run->candidates[i].config != config)
            run->candidates[kept++] = run->candidates[i];
    run->candidate_count = kept;
}

static bool keep_plans(struct run *run, const struct piece *piece, bool rough)
{
    for (int i = 0; i < piece->result.plan_count; i++) {
        struct candidate candidate = {
            .config = piece->config,
            .table = piece->table,
            .solution = piece->result.plans[i],
            .capacity_bytes = run->capacity_bytes,
            .rough = rough,
        };
        if (piece->result.plans[i].step_ns < run->best_ns) {
            run->best_ns = piece->result.plans[i].step_ns;
            run->best_config = piece->config;
        }
        if (!search_add_candidate(run, &candidate))
            return false;
    }
    return true;
}

/* ---- best first ---- */

/* Plans shorter than this are of interest: a little beyond the best. */
static int64_t reach(const struct run *run)
{
    return run->best_ns == INT64_MAX ? INT64_MAX : run->best_ns + run->best_ns / 1000 * SLACK_PERMILLE + 1;
}

/* What is not settled yet, by what is proven of it. */
struct waiting {
    struct ordered at;
    enum { FIRST, RELAXED, SHARPENED } known; /* what that bound is */
};
struct queue {
    int count, plain_count; /* plain_count: those of one layout */
    struct waiting *list;   /* ascending; those with several layouts behind all others */
};

static bool open_queue(struct run *run, struct queue *queue)
{
    *queue = (struct queue){ .list = arena_alloc(&run->arena, (size_t)run->config_count + 1, sizeof *queue->list) };
    run->close = arena_alloc(&run->arena, (size_t)run->config_count + 1, sizeof *run->close);
    if (!queue->list || !run->close)
        return search_out_of_memory(run->err);
    for (int i = 0; i < run->config_count && run->order[i].bound_ns < INT64_MAX; i++) {
        queue->list[queue->count++].at = run->order[i];
        queue->plain_count += !run->order[i].layouts;
    }
    return true;
}

static struct waiting take_out(struct queue *queue, int place)
{
    struct waiting taken = queue->list[place];
    queue->plain_count -= !taken.at.layouts;
    memmove(&queue->list[place], &queue->list[place + 1], (size_t)(--queue->count - place) * sizeof taken);
    return taken;
}

static void put_back(const struct run *run, const struct piece *piece)
{
    struct queue *queue = piece->queue;
    struct ordered at = { max_i64(piece->bound_ns, piece->result.bound_ns), piece->config,
                          run->configs[piece->config].runs > 1 };
    int place = 0;
    while (place < queue->count && compare_ordered(&queue->list[place].at, &at) < 0)
        place++;
    memmove(&queue->list[place + 1], &queue->list[place], (size_t)(queue->count++ - place) * sizeof *queue->list);
    queue->plain_count += !at.layouts;
    queue->list[place] = (struct waiting){ at, piece->bound_only && piece->halves == 0 ? RELAXED : SHARPENED };
}

static bool worth_solving(const struct run *run, const struct waiting *waiting)
{
    return run->options->keep_all || waiting->at.bound_ns < reach(run);
}

/* The place of the first that is, or their number: the first of all, or the first with several layouts. */
static int next_worth(const struct run *run, const struct queue *queue)
{
    if (queue->plain_count > 0 && worth_solving(run, &queue->list[0]))
        return 0;
    int layered = queue->plain_count;
    return layered < queue->count && worth_solving(run, &queue->list[layered]) ? layered : queue->count;
}

static void count_work(struct run *run, const struct partition_result *result)
{
    struct certificate *certificate = &run->result->certificate;
    certificate->knapsacks += result->knapsacks;
    certificate->nodes += result->nodes;
    certificate->passes += result->passes;
}

static bool count_piece(struct run *run, const struct piece *piece)
{
    struct certificate *certificate = &run->result->certificate;
    const struct partition_result *result = &piece->result;
    if (!piece->table) {
        certificate->refused++;
        return record(run, piece->config, FATE_REFUSED, 0);
    }
    certificate->pruned_memory +=
        result->no_memory || (!result->feasible && !run->stopped && piece->problem.below_ns == INT64_MAX);
    certificate->solved += !result->no_memory;
    int64_t bound_ns = max_i64(piece->bound_ns, result->bound_ns);
    drop_rough(run, piece->config);
    run->open_bound_ns = min_i64(run->open_bound_ns, bound_ns);
    return record(run, piece->config, result->no_memory ? FATE_MEMORY : FATE_SOLVED, bound_ns) &&
           keep_plans(run, piece, false);
}

/* Relaxed, which did not rule it out. */
static bool is_open(const struct piece *piece)
{
    return piece->table && piece->bound_only && !piece->result.no_memory && !piece->result.ruled_out;
}

/* A relaxation settles what it rules out; the rest waits for its turn with the new bound. */
static bool settle(struct run *run, const struct piece *piece)
{
    count_work(run, &piece->result);
    if (!is_open(piece))
        return count_piece(run, piece);
    put_back(run, piece);
    return true;
}

static bool solve_wave(struct run *run, struct piece *pieces, int count)
{
    const struct search_calls *calls = &run->options->calls;
    if (!solve_pieces(run, pieces, count, run->options->keep_all ? INT64_MAX : reach(run), 0))
        return false;
    for (int i = 0; i < count; i++)
        if (!settle(run, &pieces[i]))
            return false;
    if (calls->progress)
        calls->progress(calls->self, (int)run->result->certificate.solved, run->config_count, run->best_ns);
    return true;
}

/* A configuration that plainly fits: weights without sharding take less than two thirds, and the pipeline is mostly
 * full. Such a one gives a good incumbent at once, before those that only look fast are solved. */
static bool comfortable(struct run *run, const struct ordered *at, bool *out)
{
    const struct config *config = &run->configs[at->index];
    const struct price_table *table = NULL;
    int64_t bytes = 0;
    *out = false;
    if (config->meshes > 0)
        return true;
    if (!workbench_table(&run->bench, config, true, &table, run->err))
        return false;
    for (int l = 0; table && l < run->bench.chain.layer_count; l++)
        bytes += price_at(table, run->bench.chain.class_of[l], 0)->weight_bytes;
    *out = table && bytes / config->stages < run->capacity_bytes / 3 * 2 &&
           config->micro_batch_count >= 2 * config->stages;
    return true;
}

/* A scout with a plan is near its best: that it is not better can be proven later. */
static bool send_out(struct run *run, struct piece *piece)
{
    if (!solve_pieces(run, piece, 1, INT64_MAX, FAMILY_GAP_PPM))
        return false;
    if (!piece->table || !piece->result.feasible)
        return settle(run, piece);
    count_work(run, &piece->result);
    put_back(run, piece);
    return keep_plans(run, piece, true);
}

/* The first comfortable ones, each on its own, until there is a plan; when time is over, of however many. */
static bool scout(struct run *run, struct queue *queue)
{
    for (int i = 0, scouts = 0; i < queue->count && (scouts < SCOUTS || search_stops(run)); i++) {
        bool good = false;
        if (!comfortable(run, &queue->list[i].at, &good))
            return false;
        if (!good)
            continue;
        struct waiting taken = take_out(queue, i--);
        struct piece piece = { .config = taken.at.index, .bound_ns = taken.at.bound_ns, .queue = queue };
        if (!send_out(run, &piece))
            return false;
        scouts++;
        if (run->best_ns < INT64_MAX)
            return true;
    }
    return true;
}

/* What is still in the queue: relaxed, left when time is over, or ruled out by its first bound. */
static bool close_queue(struct run *run, const struct queue *queue)
{
    struct certificate *certificate = &run->result->certificate;
    for (int i = 0; i < queue->count; i++) {
        const struct waiting *waiting = &queue->list[i];
        bool left = worth_solving(run, waiting);
        bool relaxed = waiting->known > FIRST;
        run->open_bound_ns = min_i64(run->open_bound_ns, waiting->at.bound_ns);
        certificate->pruned_bound += !left && !relaxed;
        certificate->solved += !left && relaxed;
        if (!left && relaxed)
            run->close[run->close_count++] = waiting->at;
        if ((left || relaxed) && !record(run, waiting->at.index, left ? FATE_LEFT : FATE_SOLVED, waiting->at.bound_ns))
            return false;
    }
    return true;
}

/* Until no bound lies below what is already known. */
bool search_solve(struct run *run)
{
    struct queue queue;
    if (!open_queue(run, &queue) || (!run->options->keep_all && !scout(run, &queue)))
        return false;
    while (next_worth(run, &queue) < queue.count && !search_stops(run)) {
        struct piece pieces[WAVE] = { 0 };
        int count = 0;
        for (int place; count < WAVE && (place = next_worth(run, &queue)) < queue.count; count++) {
            struct waiting next = take_out(&queue, place);
            pieces[count] = (struct piece){ .config = next.at.index,
                                            .bound_ns = next.at.bound_ns,
                                            .queue = &queue,
                                            .halves = next.known == RELAXED ? PARTITION_HALVES : 0,
                                            .bound_only = next.known < SHARPENED && !next.at.layouts &&
                                                          run->best_ns < INT64_MAX && !run->options->keep_all };
        }
        if (!solve_wave(run, pieces, count))
            return false;
    }
    return close_queue(run, &queue);
}

/* ---- families ---- */

static bool has_candidate(const struct run *run, int config)
{
    for (int i = 0; i < run->candidate_count; i++)
        if (search_same_family(run, run->candidates[i].config, config))
            return true;
    return false;
}

/* These plans are not for the certificate but for the judge. */
static bool solve_for_families(struct run *run, struct piece *pieces, int count, int64_t below_ns, bool rough)
{
    if (!solve_pieces(run, pieces, count, below_ns, rough ? FAMILY_GAP_PPM : 0))
        return false;
    for (int i = 0; i < count; i++)
        if (!keep_plans(run, &pieces[i], rough))
            return false;
    return true;
}

/* Where solving in all orders takes long, it is for the proof and not for the sake of families. */
static bool has_many_orders(const struct run *run)
{
    return run->bench.chain.branches && !search_is_small(run);
}

/* Plans of the other comfortable configurations, whatever the best is: what no limit has cut off. */
static bool solve_comfortable(struct run *run)
{
    struct piece pieces[SCOUTS] = { 0 };
    int count = 0, met = 0;
    for (int i = 0; i < run->config_count && run->order[i].bound_ns < INT64_MAX && met < SCOUTS; i++) {
        bool good = false;
        if (!comfortable(run, &run->order[i], &good))
            return false;
        met += good;
        if (good && met > 1) /* the first one was the scout */
            pieces[count++] = (struct piece){ .config = run->order[i].index, .files_order = has_many_orders(run) };
    }
    return solve_for_families(run, pieces, count, INT64_MAX, true);
}

/* Plans of configurations that only their relaxation ruled out, and not by far. */
static bool solve_close(struct run *run)
{
    struct piece pieces[CLOSE_SOLVES] = { 0 };
    int count = 0;
    int64_t below_ns = run->best_ns + run->best_ns / 1000 * CLOSE_PERMILLE;
    for (; count < CLOSE_SOLVES && count < run->close_count && run->close[count].bound_ns < below_ns; count++)
        pieces[count] = (struct piece){ .config = run->close[count].index, .files_order = has_many_orders(run) };
    return solve_for_families(run, pieces, count, below_ns, true);
}

/* The formula does not see which values cross a cut and which stages stand side by side. So of the configurations that
 * have the best plans in any order, those in the file's order are candidates too. */
static bool solve_files_order(struct run *run)
{
    struct piece *pieces = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *pieces);
    bool *met = arena_alloc(&run->arena, (size_t)run->config_count, sizeof *met);
    int count = 0;
    if (!pieces || !met)
        return search_out_of_memory(run->err);
    for (int i = 0; i < run->candidate_count && run->bench.chain.branches; i++)
        met[run->candidates[i].config] = true;
    for (int i = 0; i < run->config_count; i++)
        if (met[i])
            pieces[count++] = (struct piece){ .config = i, .files_order = true };
    return solve_for_families(run, pieces, count, INT64_MAX, false);
}

/* What may still be tried for families, and how far that is. */
struct families {
    struct queue queue;
    int64_t below_ns; /* only shorter plans are of use */
    bool rough;       /* a plan near its family's best will do, and one */
    int *of;          /* (configurations) number of the family, ascending as they are met */
    int count;
    int *tries;                  /* (count) configurations solved for each family */
    bool *stepped;               /* (count) in this round */
    struct piece *pieces;        /* (count) of this round */
    int tries_each;              /* of a family at most */
    int solves_left, looks_left; /* looks: relaxations */
};

static void add_to_families(struct families *f, const struct run *run, int *first, const struct ordered *at)
{
    int family = 0;
    while (family < f->count && !search_same_family(run, first[family], at->index))
        family++;
    if (family == f->count)
        first[f->count++] = at->index;
    f->of[at->index] = family;
    f->queue.list[f->queue.count++] = (struct waiting){ .at = *at };
    f->queue.plain_count += !at->layouts;
}

/* The configurations whose first bounds are low enough. like: one of the only family that is wanted; -1: all, but for
 * those of several layouts, which take long, and near the best are candidates anyway. */
static bool open_families(struct run *run, struct families *f, int like)
{
    size_t configs = (size_t)run->config_count + 1;
    int *first = arena_alloc(&run->arena, configs, sizeof *first); /* (families) a configuration of it */
    f->queue.list = arena_alloc(&run->arena, configs, sizeof *f->queue.list);
    f->of = arena_alloc(&run->arena, configs, sizeof *f->of);
    if (!first || !f->queue.list || !f->of)
        return search_out_of_memory(run->err);
    for (int i = 0; i < run->config_count; i++) {
        const struct ordered *at = &run->order[i];
        bool wanted = like < 0 ? !at->layouts : search_same_family(run, at->index, like);
        if (wanted && at->bound_ns < f->below_ns)
            add_to_families(f, run, first, at);
    }
    size_t count = (size_t)f->count + 1;
    f->tries = arena_alloc(&run->arena, count, sizeof *f->tries);
    f->stepped = arena_alloc(&run->arena, count, sizeof *f->stepped);
    f->pieces = arena_alloc(&run->arena, count, sizeof *f->pieces);
    return (f->tries && f->stepped && f->pieces) || search_out_of_memory(run->err);
}

static bool may_look(const struct families *f, const struct waiting *at)
{
    return at->known == FIRST && f->looks_left > 0;
}

static bool may_step(const struct run *run, const struct families *f, const struct waiting *at)
{
    int config = at->at.index, family = f->of[config];
    return !f->stepped[family] && f->tries[family] < f->tries_each && (may_look(f, at) || f->solves_left > 0) &&
           !(f->rough && has_candidate(run, config));
}

/* One step of every family that may go on: its configuration with the least bound is relaxed, or solved where that was
 * done or no more may be. Gives the number of steps. */
static int step_families(const struct run *run, struct families *f)
{
    int count = 0;
    memset(f->stepped, 0, (size_t)f->count * sizeof *f->stepped);
    for (int i = 0; i < f->queue.count;) {
        int family = f->of[f->queue.list[i].at.index];
        bool steps = may_step(run, f, &f->queue.list[i]);
        f->stepped[family] = true;
        if (!steps) {
            i++;
            continue;
        }
        struct waiting next = take_out(&f->queue, i);
        bool look = may_look(f, &next);
        f->pieces[count++] = (struct piece){ .config = next.at.index,
                                             .bound_ns = next.at.bound_ns,
                                             .queue = &f->queue,
                                             .bound_only = look,
                                             .files_order = !look && has_many_orders(run) };
        f->looks_left -= look;
        f->solves_left -= !look;
        f->tries[family] += !look;
    }
    return count;
}

/* First bounds know nothing of memory, and are equal where configurations differ in trifles: it is by their relaxations
 * that the best of a family are found, unless it is only about some plan. */
static bool solve_families(struct run *run, struct families *f, int like)
{
    if (!open_families(run, f, like))
        return false;
    for (int count; !search_stops(run) && (count = step_families(run, f)) > 0;) {
        if (!solve_for_families(run, f->pieces, count, f->below_ns, f->rough))
            return false;
        for (int i = 0; i < count; i++)
            if (is_open(&f->pieces[i]))
                put_back(run, &f->pieces[i]);
    }
    return true;
}

/* A family without a candidate gets one; of a small model, several. */
bool search_solve_families(struct run *run)
{
    struct families families = { .rough = !search_is_small(run),
                                 .tries_each = FAMILY_TRIES,
                                 .solves_left = FAMILY_SOLVES };
    if (run->options->keep_all || run->best_ns == INT64_MAX)
        return true;
    if (!search_stops(run) && (!solve_comfortable(run) || !solve_close(run)))
        return false;
    families.below_ns = run->best_ns + run->best_ns / 1000 * FAMILY_PERMILLE;
    if (!families.rough) {
        families.tries_each *= SMALL_MORE;
        families.solves_left *= SMALL_MORE;
        families.looks_left = families.solves_left * FAMILY_LOOKS;
    }
    return solve_families(run, &families, -1) && (search_stops(run) || solve_files_order(run));
}

bool search_solve_leader(struct run *run)
{
    const struct candidate leader = run->candidates[0];
    int before = run->candidate_count;
    struct families family = { .tries_each = FAMILY_CLOSE,
                               .solves_left = FAMILY_CLOSE,
                               .looks_left = FAMILY_CLOSE * FAMILY_LOOKS };
    if (!leader.rough)
        return true;
    family.below_ns = leader.solution.step_ns + leader.solution.step_ns / 1000 * SLACK_PERMILLE + 1;
    return solve_families(run, &family, leader.config) && search_rank_more(run, before);
}
