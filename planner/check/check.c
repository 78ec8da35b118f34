#include "base/num.h"
#include "planner/check/check_busy.h"
#include "planner/check/check_parts.h"
#include "planner/program/schedule.h"
#include "planner/space/config_name.h"
#include <math.h>
#include <string.h>

/* ---- one configuration's problem ---- */

/* Gives the orders of layers; NULL where the certificate is about cuts of the file's order. */
static const struct orders *orders_of(const struct checker *c)
{
    return c->claim->ideals > 0 ? &c->orders : NULL;
}

/* Gives what of each micro-batch's round trip to the next stage n in flight do not hide. */
static int64_t waiting_ns(const struct price_table *table, int64_t in_flight, int64_t micro_batches)
{
    return in_flight < 1 || in_flight >= micro_batches ? 0 : ceil_div(2 * table->send_ns * (in_flight - 1), in_flight);
}

/* True when all forward passes of a stage come before its backward ones. */
static bool in_phases(const struct config *config)
{
    return config->stages != 1 && schedules[config->schedule]->phases;
}

static struct stage_kind kind_of(const struct checker *c, const struct config *config, const struct price_table *own,
                                 int in_flight, int64_t micro_batches)
{
    return (struct stage_kind){ .table = own,
                                .capacity_bytes = c->claim->memory_bytes / config_chunks(config),
                                .in_flight = in_flight,
                                .micro_batches = micro_batches,
                                .waiting_ns = waiting_ns(own, in_flight, micro_batches),
                                .apart = in_phases(config),
                                .patient = c->patient };
}

static bool make_problem_with_meshes(struct checker *c, const struct config *config, const struct price_table *table,
                                     struct arena *arena, struct cut_problem *out)
{
    const struct chain *chain = &c->bench.chain;
    int turns = config->shape_count, rows = config->meshes + 1, *in_flight = workbench_in_flight(arena, config);
    struct stage_kind *stages = arena_alloc(arena, (size_t)rows * (size_t)turns, sizeof *stages);
    if (!stages || !in_flight)
        return fail_memory(c->err);
    for (int left = 1; left < rows; left++)
        for (int shape = 0; shape < turns && (!price_is_by_place(table) || config->turns[shape] <= left); shape++)
            /* bounds of replicas that take turns have one table, without exchange */
            stages[left * turns + shape] =
                kind_of(c, config, price_of_meshes(table, config->meshes - left, shape),
                        in_flight[left * turns + shape], ceil_div(config->micro_batch_count, config->turns[shape]));
    *out = (struct cut_problem){ .layer_count = chain->layer_count,
                                 .stage_count = config->stages,
                                 .class_count = chain->class_count,
                                 .micro_batch_count = config->micro_batch_count,
                                 .class_of = chain->class_of,
                                 .orders = orders_of(c),
                                 .tied_first = chain->tied_first,
                                 .tied_second = chain->tied_second,
                                 .stages = stages,
                                 .mesh_count = config->meshes,
                                 .shape_count = turns,
                                 .turns = config->turns,
                                 .phases = in_phases(config),
                                 .once_ns = table->norm_exchange_ns };
    return true;
}

bool check_problem(struct checker *c, const struct config *config, const struct price_table *table, struct arena *arena,
                   struct cut_problem *out)
{
    const struct chain *chain = &c->bench.chain;
    if (config->meshes > 0)
        return make_problem_with_meshes(c, config, table, arena, out);
    int *in_flight = workbench_in_flight(arena, config), pieces = config_pieces(config);
    struct stage_kind *stages = arena_alloc(arena, (size_t)pieces, sizeof *stages);
    if (!stages || !in_flight)
        return fail_memory(c->err);
    int64_t micro_batches = workbench_problem(&c->bench, config, table, in_flight).micro_batch_count;
    *out = (struct cut_problem){ .layer_count = chain->layer_count,
                                 .stage_count = pieces,
                                 .class_count = chain->class_count,
                                 .class_of = chain->class_of,
                                 .cut = chain->cut,
                                 .orders = orders_of(c),
                                 .tied_first = chain->tied_first,
                                 .tied_second = chain->tied_second,
                                 .stages = stages,
                                 .phases = in_phases(config),
                                 .once_ns = table->norm_exchange_ns };
    for (int k = 0; k < pieces; k++) {
        stages[k] = kind_of(c, config, price_of_stage(table, k), in_flight[k], micro_batches);
        if (k + 1 < pieces)
            out->once_ns += 2 * price_send_ns(table, k);
    }
    return true;
}

/* ---- one configuration ---- */

static bool wrong_fate(struct checker *c, const struct claimed_config *claimed, const char *name, const char *found)
{
    return claimed
               ? fail_kind(c->err, ERROR_GATE, "the certificate does not hold: it says that %s was %s, but %s", name,
                           config_fate_names[claimed->fate], found)
               : fail_kind(c->err, ERROR_GATE,
                           "the certificate does not hold: it says that %s was ruled out by its first bound, but %s",
                           name, found);
}

/* True when the certificate tells each fate from the others. */
static bool is_exact(const struct checker *c)
{
    return !c->claim->older && !c->claim->coarse;
}

/* Checks once more, with more time for each stage. */
static bool check_patiently(struct checker *c, const struct config *config, const struct price_table *table,
                            int64_t bound_ns, enum cut_verdict *verdict, int64_t *witness_ns)
{
    struct cut_problem problem;
    struct arena arena = { 0 };
    c->patient = true;
    bool good = check_problem(c, config, table, &arena, &problem) &&
                phases_check(&problem, bound_ns - bound_ns / TOLERANCE_PARTS, verdict, witness_ns, c->err);
    c->patient = false;
    arena_free(&arena);
    return good;
}

/* Checks what is out by memory. With several types of devices the search does not add up stages' rooms as done here. */
static bool check_memory(struct checker *c, const struct config *config, const char *name,
                         const struct claimed_config *claimed, const struct price_table *table)
{
    struct arena arena = { 0 };
    struct cut_problem problem;
    bool good = !table || check_problem(c, config, table, &arena, &problem),
         lacks = table && good && value_lacks_memory(&problem); /* all stages together; not without prices */
    arena_free(&arena);
    if (!good)
        return false;
    if (claimed->fate == FATE_MEMORY)
        return lacks || (!table && !is_exact(c)) ||
               wrong_fate(c, claimed, name, "all its stages together have memory enough");
    return !lacks || !is_exact(c) || c->claim->multiplied || c->facts->cluster->type_count > 1 ||
           wrong_fate(c, claimed, name, "all its stages together lack memory");
}

/* Checks that no plan of the configuration is shorter than bound_ns. */
static bool check_bound(struct checker *c, const struct config *config, const char *name,
                        const struct claimed_config *claimed, int64_t bound_ns)
{
    const struct price_table *table = NULL;
    struct cut_problem problem;
    struct arena arena = { 0 };
    enum cut_verdict verdict = CUT_HOLDS;
    int64_t witness_ns = 0;
    if (!workbench_table(&c->bench, config, false, &table, c->err))
        return false;
    bool by_memory = claimed && claimed->fate == FATE_MEMORY;
    if (claimed && (by_memory || claimed->fate == FATE_SOLVED) && !check_memory(c, config, name, claimed, table))
        return false;
    c->report->by_memory += by_memory;
    c->report->refused += !by_memory && !table;
    if (by_memory || !table) /* what is claimed of its plans holds of none */
        return true;
    bool good = check_problem(c, config, table, &arena, &problem);
    if (good) {
        c->report->by_cut++;
        good = value_lacks_memory(&problem) ||
               phases_check(&problem, bound_ns - bound_ns / TOLERANCE_PARTS, &verdict, &witness_ns, c->err);
        if (good && verdict == CUT_UNDECIDED)
            good = check_patiently(c, config, table, bound_ns, &verdict, &witness_ns);
    }
    arena_free(&arena);
    if (good && verdict == CUT_REFUTED)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: no plan of %s should be shorter than %lld ns by the formula, "
                         "but one takes %lld ns",
                         name, (long long)bound_ns, (long long)witness_ns);
    c->report->undecided += verdict == CUT_UNDECIDED;
    return good;
}

/* Checks a configuration that has a program, and whose first bound is known. */
static bool check_priced(struct checker *c, const struct config *config, const char *name,
                         const struct claimed_config *claimed, int64_t first_bound_ns)
{
    const struct claim *claim = c->claim;
    bool one_type = c->facts->cluster->type_count == 1;
    /* a whole search lists nothing that its first bound rules out */
    if (claimed && is_exact(c) && claim->complete && claim->bound_ns > 0 && one_type &&
        first_bound_ns >= claim->bound_ns)
        return wrong_fate(c, claimed, name, "its first bound rules it out");
    if (claimed && claimed->fate == FATE_MEMORY)
        return check_bound(c, config, name, claimed, 0);
    if (claimed && claimed->bound_ns < c->claim->bound_ns)
        return wrong_fate(c, claimed, name, "its own bound is below that of the whole");
    if (claimed && !c->claim->older && claimed->bound_ns > c->claim->bound_ns)
        return wrong_fate(c, claimed, name, "its own bound is above that of the whole");
    /* What the certificate does not list has a first bound no less than the whole's. Where some are left, the others
     * are those that the best plan rules out. */
    int64_t wanted_ns = claimed ? claimed->bound_ns : claim->bound_ns;
    if (!claimed && claim->left > 0 && one_type)
        wanted_ns = max_i64(wanted_ns, claim->best_ns);
    if (first_bound_ns >= wanted_ns) {
        c->report->by_bound++;
        return true;
    }
    bool by_types = !claimed && c->facts->cluster->type_count > 1; /* the search's first bound weighs their speeds */
    if (!claimed && !by_types)
        return wrong_fate(c, claimed, name, "its first bound is lower");
    return check_bound(c, config, name, claimed, wanted_ns);
}

/* Checks that no plan of the configuration is simulated shorter than the certificate says. Certificates of version 1
 * may claim more than kernels prove: of these the report says that it was not checked. */
static bool check_simulated(struct checker *c, const struct config *config, const char *name,
                            const struct price_table *table)
{
    int64_t bound_ns = c->claim->simulated_bound_ns;
    bool holds = false;
    if (!busy_holds(&holds, &c->bench.chain, orders_of(c), config, table, bound_ns, c->err))
        return false;
    if (!holds && c->claim->version == 1)
        c->report->unchecked_simulated_ns = bound_ns;
    return holds || c->claim->version == 1 ||
           fail_kind(c->err, ERROR_GATE,
                     "the certificate does not hold: kernels do not keep every plan of %s from being simulated shorter "
                     "than %lld ns",
                     name, (long long)bound_ns);
}

/* Checks what is claimed of plans whose orders were not searched: one stage has no cut, and else neither a sum nor a
 * mean over all layers depends on their order. */
static bool check_other_orders(struct checker *c, const struct config *config, const char *name,
                               const struct cut_problem *problem, int64_t first_bound_ns)
{
    return config->stages == 1 || c->claim->orders_bound_ns <= first_bound_ns || value_lacks_memory(problem) ||
           fail_kind(c->err, ERROR_GATE,
                     "the certificate does not hold: its bound of all orders, %lld ns, is not one of %s",
                     (long long)c->claim->orders_bound_ns, name);
}

/* Checks a configuration of which the search knew only enough for the whole's bound, if any; no hash has its prices. */
static bool check_unseen(struct checker *c, const struct config *config, const struct claimed_config *claimed,
                         const char *name)
{
    struct arena arena = { 0 };
    const struct price_table *table = NULL;
    struct cut_problem problem;
    c->report->left++;
    if (c->claim->simulated_bound_ns > 0)
        return wrong_fate(c, claimed, name, "then nothing is proven of any simulated step");
    if (c->claim->bound_ns == 0)
        return true;
    if (!workbench_table(&c->bench, config, true, &table, c->err))
        return false;
    bool good = !table || check_problem(c, config, table, &arena, &problem);
    if (good && table && value_quick_bound(&problem) < c->claim->bound_ns)
        good = check_bound(c, config, name, claimed, c->claim->bound_ns);
    arena_free(&arena);
    return good;
}

static bool check_config(struct checker *c, const struct config *config, const struct claimed_config *claimed)
{
    char name[CONFIG_NAME_BYTES];
    struct arena arena = { 0 };
    const struct price_table *table = NULL;
    struct cut_problem problem;
    bool refused = claimed && claimed->fate == FATE_REFUSED;
    config_name(name, config);
    if (claimed && claimed->fate == FATE_UNSEEN)
        return check_unseen(c, config, claimed, name);
    if (!workbench_table(&c->bench, config, true, &table, c->err))
        return false;
    certificate_hash_add(&c->hash, config, table);
    if (refused && table && !workbench_table(&c->bench, config, false, &table, c->err))
        return false;
    if (!table) {
        c->report->refused++;
        return (claimed && claimed->fate == FATE_REFUSED) || wrong_fate(c, claimed, name, "it has no program");
    }
    if (refused)
        return wrong_fate(c, claimed, name, "it has a program");
    bool good = check_simulated(c, config, name, table) && check_problem(c, config, table, &arena, &problem);
    int64_t first_bound_ns = good ? value_quick_bound(&problem) : 0;
    good = good && check_other_orders(c, config, name, &problem, first_bound_ns) &&
           check_priced(c, config, name, claimed, first_bound_ns);
    arena_free(&arena);
    return good;
}

/* ---- schedules that the formula does not bound ---- */

/* Checks how many these are, as the certificate says, and below what none is simulated. */
static bool check_unbounded(struct checker *c)
{
    char name[CONFIG_NAME_BYTES];
    const struct claim *claim = c->claim;
    if (claim->unbounded == 0 && !claim->complete && claim->simulated_bound_ns == 0)
        return true; /* the search ended before them */
    if (claim->unbounded != c->unbounded_count)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it counts %lld configurations of schedules that the formula "
                         "does not bound, but there are %d",
                         (long long)claim->unbounded, c->unbounded_count);
    for (int i = 0; i < c->unbounded_count; i++) {
        const struct price_table *table = NULL;
        if (!workbench_table(&c->bench, &c->unbounded[i], true, &table, c->err))
            return false;
        certificate_hash_add(&c->hash, &c->unbounded[i], table);
        if (table && !check_simulated(c, &c->unbounded[i], config_name(name, &c->unbounded[i]), table))
            return false;
    }
    return true;
}

/* ---- the whole ---- */

static bool same_gap(struct checker *c, const char *what, double claimed, double found)
{
    return fabs(claimed - found) <= 1e-12 * fmax(1, fabs(found)) ||
           fail_kind(c->err, ERROR_GATE, "the certificate does not hold: %s is %.9g, found %.9g", what, claimed, found);
}

/* Checks a gap; where there is no bound there is none, or 0. */
static bool check_gap(struct checker *c, const char *what, double claimed, int64_t value_ns, int64_t bound_ns)
{
    double found = bound_ns > 0 ? (double)(value_ns - bound_ns) / (double)bound_ns : 0;
    if (isnan(claimed))
        return bound_ns <= 0 ||
               fail_kind(c->err, ERROR_GATE, "the certificate does not hold: it has no %s, found %.9g", what, found);
    return same_gap(c, what, claimed, found);
}

static bool same_text(struct checker *c, const char *claimed, const char *found, const char *what)
{
    return strcmp(claimed, found) == 0 || fail_kind(c->err, ERROR_GATE, "the certificate does not hold: %s", what);
}

/* Checks hashes of what it is about. Certificates before version 4 hash the space otherwise; what those of version 1
 * hash of prices, no table has any more. */
static bool check_hashes(struct checker *c)
{
    char space[CERTIFICATE_DIGEST_BYTES], prices[CERTIFICATE_DIGEST_BYTES];
    certificate_hash_text(space, c->hash.space);
    certificate_hash_text(prices, c->hash.prices);
    return (c->claim->version < 4 || same_text(c, c->claim->space_hash, space,
                                               "space_hash is of other configurations than its space has here")) &&
           (c->claim->version == 1 ||
            same_text(c, c->claim->prices_hash, prices,
                      "prices_hash is of other prices: of another model, cluster, profile or version of cleave"));
}

static bool check_gaps(struct checker *c, int64_t step_ns)
{
    const struct claim *claim = c->claim;
    return check_gap(c, "proof_gap", claim->proof_gap, claim->best_ns, claim->bound_ns) &&
           check_gap(c, "formula_gap", claim->formula_gap, claim->formula_ns, claim->bound_ns) &&
           check_gap(c, "gap", claim->gap, step_ns, claim->bound_ns) &&
           check_gap(c, "simulated_gap", claim->simulated_gap, step_ns, claim->simulated_bound_ns) &&
           (claim->simulated_bound_ns <= step_ns ||
            fail_kind(c->err, ERROR_GATE,
                      "the certificate does not hold: its plan is simulated to take %lld ns, less than its bound, %lld "
                      "ns",
                      (long long)step_ns, (long long)claim->simulated_bound_ns)) &&
           (claim->best_ns >= claim->bound_ns ||
            fail_kind(c->err, ERROR_GATE,
                      "the certificate does not hold: its best plan, %lld ns, is below its bound, %lld ns",
                      (long long)claim->best_ns, (long long)claim->bound_ns));
}

/* Opens orders: the certificate says in how many ways layers can come first, and covers the plan's own order. */
static bool open_orders(struct checker *c)
{
    int64_t claimed = c->claim->ideals, only = c->bench.graph->layer_count + 1;
    if (!orders_list(&c->orders, &c->arena, c->bench.graph, (int)max_i64(claimed, only), c->err))
        return false;
    if (claimed < 0 && c->orders.count > only)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it does not say of which orders of the layers it speaks, "
                         "and the model has several");
    if (claimed > 0 && (c->orders.count != claimed || claimed == only))
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it speaks of %lld order ideals of the layers, but there are "
                         "%s%d",
                         (long long)claimed, c->orders.count > claimed ? "at least " : "", c->orders.count);
    if (c->claim->orders_bound_ns > (claimed == 0 ? c->claim->bound_ns : 0))
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: its bound of all orders, %lld ns, is above that of those that "
                         "were searched",
                         (long long)c->claim->orders_bound_ns);
    if (claimed <= 0 && c->plan->order)
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it is about the file's order of the layers, but the plan has "
                         "another one");
    certificate_hash_orders(&c->hash, claimed);
    return true;
}

static bool checker_open(struct checker *c, const struct model *model)
{
    int64_t usable = facts_most_bytes(c->facts);
    if (c->claim->memory_bytes != usable && c->claim->memory_bytes != estimate_doubtful_bytes(usable))
        return fail_kind(c->err, ERROR_GATE,
                         "the certificate does not hold: it is for %lld usable bytes per device, but there are %lld",
                         (long long)c->claim->memory_bytes, (long long)usable);
    if (!allowed_has(&c->claim->space.bucket_bytes, c->plan->bucket_bytes))
        return fail_kind(
            c->err, ERROR_GATE,
            "the certificate does not hold: it is not about gradient buckets of %lld bytes, which the plan "
            "has",
            (long long)c->plan->bucket_bytes);
    if (!workbench_open(&c->bench, model, c->facts, &c->claim->space, c->err) ||
        !space_configs(&c->configs, &c->config_count, &c->arena, &c->claim->space, c->bench.graph, c->facts->cluster,
                       c->err) ||
        !space_configs_unbounded(&c->unbounded, &c->unbounded_count, &c->arena, &c->claim->space, c->bench.graph,
                                 c->facts->cluster, c->err))
        return false;
    return check_fates(c) && open_orders(c);
}

bool check_certificate(struct check_report *out, const struct claim *claim, const struct model *model,
                       const struct facts *facts, const struct plan *plan,
                       void (*progress)(void *self, int done, int total), void *self, struct error *err)
{
    struct checker c = { .claim = claim, .facts = facts, .plan = plan, .report = out, .err = err };
    *out = (struct check_report){ .bound_ns = claim->bound_ns,
                                  .version = claim->version,
                                  .formula_ns = claim->formula_ns,
                                  .ideals = claim->ideals,
                                  .orders_bound_ns = claim->orders_bound_ns };
    c.hash = certificate_hash_start(&claim->space);
    char digest[CERTIFICATE_DIGEST_BYTES];
    bool good = (certificate_digest(digest, claim->at) || fail_memory(err)) &&
                same_text(&c, claim->digest, digest, "its digest says that it was changed after it was written") &&
                same_gap(&c, "bound_s", claim->bound_s, (double)claim->bound_ns / 1e9) &&
                same_gap(&c, "simulated_bound_s", claim->simulated_bound_s, (double)claim->simulated_bound_ns / 1e9) &&
                same_gap(&c, "formula_s", claim->formula_s, (double)claim->formula_ns / 1e9) && checker_open(&c, model);
    out->configurations = c.config_count;
    for (int i = 0; good && i < c.config_count; i++) {
        good = check_config(&c, &c.configs[i], c.claimed[i]);
        if (progress)
            progress(self, i + 1, c.config_count);
    }
    out->unbounded = c.unbounded_count;
    good = good && check_unbounded(&c) && check_hashes(&c) && check_counts(&c) && check_best(&c, model) &&
           check_plan(&c, model, &out->step_ns) && check_gaps(&c, out->step_ns);
    out->simulated_bound_ns = out->unchecked_simulated_ns > 0 ? 0 : claim->simulated_bound_ns;
    workbench_close(&c.bench);
    arena_free(&c.arena);
    return good;
}
