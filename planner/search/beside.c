/* Schedules beside those that the closed form bounds (space_configs_beside()). What they have to do at least belongs to
 * the bound of the simulated step; and what the judge found best is tried with them too: most differ from others in how
 * long stages idle, little in which degrees and strategies are good. */
#include "base/num.h"
#include "planner/program/schedule.h"
#include "planner/search/propose_parts.h"
#include <string.h>

/* LEADERS: so many configurations of those that lead, each of another (stages, tensor degree). Of a small model
 * MANY_LEADERS: MANY_OF_FAMILY, and more while fewer than MANY_ALIKE have the micro-batch too. BLIND: where no plan
 * fits, so many configurations are tried without any. JOINED: of a small model so many with joined
 * ends are tried besides. WALK_VISITS: of layers by the walk that ranks what comes of it.
 */
enum {
    LEADERS = 6,
    MANY_LEADERS = 48,
    MANY_OF_FAMILY = 8,
    MANY_ALIKE = 3,
    BLIND = 16,
    JOINED = 32,
    DOUBT_SHARE = 10, /* one part in so many the walk may be too long */
    WALK_VISITS = 1 << 23
};

bool search_list_beside(struct run *run)
{
    struct config *beside = NULL;
    int count = 0, own = run->config_count;
    run->beside_first = own;
    if (own == 0 || !space_configs_beside(&beside, &count, &run->arena, run->space, run->bench.graph,
                                          run->bench.facts->cluster, run->err))
        return own == 0;
    if (count == 0)
        return true;
    struct config *all = arena_alloc(&run->arena, (size_t)(own + count), sizeof *all);
    int64_t *busy_ns = arena_alloc(&run->arena, (size_t)(own + count), sizeof *busy_ns);
    if (!all || !busy_ns)
        return search_out_of_memory(run->err);
    memcpy(all, run->configs, (size_t)own * sizeof *all);
    memcpy(all + own, beside, (size_t)count * sizeof *all);
    memcpy(busy_ns, run->busy_ns, (size_t)own * sizeof *busy_ns);
    run->configs = all;
    run->busy_ns = busy_ns;
    run->beside_count = count;
    return true;
}

/* Neither prefetch nor how much more is in flight decides anything here. */
static bool works_alike(const struct config *a, const struct config *b)
{
    const struct schedule *x = schedules[a->schedule], *y = schedules[b->schedule];
    return config_equal_but(a, b, BUT_PREFETCH | BUT_EXTRA | BUT_SCHEDULE) && x->splits == y->splits &&
           x->copies == y->copies;
}

static bool bound_one(struct run *run, int index)
{
    const struct config *config = &run->configs[index];
    const struct price_table *table = NULL;
    run->busy_ns[index] = INT64_MAX;
    if (!workbench_table(&run->bench, config, true, &table, run->err))
        return false;
    if (!table)
        return true;
    if (index > run->beside_first && works_alike(config, config - 1)) {
        run->busy_ns[index] = run->busy_ns[index - 1];
        return true;
    }
    return propose_bound_simulation(run, index, table, INT64_MAX);
}

bool search_bound_beside(struct run *run)
{
    if (search_stops(run) && run->beside_count > 0) { /* then nothing is known of them */
        run->beside_count = 0;
        run->beside_unseen = true;
    }
    for (int i = 0; i < run->beside_count; i++)
        if (!bound_one(run, run->beside_first + i))
            return false;
    run->beside_bounded = true;
    return true;
}

/* Behind what the certificate says of the others, as whoever checks it lists them. */
bool search_enter_beside(struct run *run)
{
    struct certificate *c = &run->result->certificate;
    if (!run->beside_bounded)
        return true;
    c->beside = run->beside_count;
    if (run->beside_unseen)
        c->simulated_bound_ns = 0;
    for (int i = run->beside_first; i < run->beside_first + run->beside_count; i++) {
        const struct price_table *table = NULL;
        if (!workbench_table(&run->bench, &run->configs[i], true, &table, run->err))
            return false;
        certificate_hash_add(&c->hash, &run->configs[i], table);
        c->simulated_bound_ns = min_i64(c->simulated_bound_ns, run->busy_ns[i]);
    }
    return true;
}

/* ---- trying them ---- */

struct trial {
    struct run *run;
    struct candidate leaders[MANY_LEADERS];
    int leader_count, first; /* first: of the candidates that are added */
    int64_t below_ns, visits_left;
};

/* By the judge, else by rank. */
static int64_t step_of(const struct candidate *c)
{
    return c->simulated_ns > 0 ? c->simulated_ns : c->ranked_ns;
}

static bool is_plain(const struct config *config)
{
    return config->stages > 1 && config->meshes == 0;
}

static bool takes_others(const struct config *config)
{
    return is_plain(config) || config->meshes > 0;
}

/* Stages may have the same meshes. */
static bool same_meshes(const struct config *a, const struct config *b)
{
    size_t bytes = (size_t)a->turn_count * sizeof *a->turns;
    return a->meshes == b->meshes && a->turn_count == b->turn_count &&
           (a->turn_count == 0 || !memcmp(a->turns, b->turns, bytes));
}

static bool may_lead(const struct run *run, const struct trial *t, const struct candidate *c, bool small)
{
    const struct config *config = &run->configs[c->config];
    int family = 0, alike = 0;
    if (!takes_others(config) || step_of(c) >= search_with_idle_ns(config, t->below_ns))
        return false;
    for (int i = 0; i < t->leader_count; i++) {
        if (t->leaders[i].config == c->config)
            return false;
        bool akin = search_same_family(run, t->leaders[i].config, c->config);
        family += akin;
        alike += akin && run->configs[t->leaders[i].config].micro == config->micro;
    }
    return family == 0 || (small && (family < MANY_OF_FAMILY || alike < MANY_ALIKE));
}

/* Of the configurations of several stages that could win, those of the least step, and not too many of a family. */
static void find_leaders(const struct run *run, struct trial *t)
{
    bool small = search_is_small(run);
    int most = small ? MANY_LEADERS : LEADERS;
    while (t->leader_count < most) {
        const struct candidate *next = NULL;
        for (int i = 0; i < run->result->certificate.ranked; i++) {
            const struct candidate *c = &run->candidates[i];
            if ((!next || step_of(c) < step_of(next)) && may_lead(run, t, c, small))
                next = c;
        }
        if (!next)
            return;
        t->leaders[t->leader_count++] = *next;
    }
}

/* Whether first and last layer lie on one stage, so that a weight which both use is exchanged with nobody: then what
 * leads under other schedules says little. */
static bool joins_ends(const struct config *config)
{
    const struct schedule *schedule = schedules[config->schedule];
    return is_plain(config) && !schedule->copies && config_pieces(config) > 1 &&
           config_stage(config, config_pieces(config) - 1) == config_stage(config, 0);
}

/* The same but for the schedule, or with micro-batches of twice the size: who idles less needs fewer. */
static bool is_akin(const struct config *config, const struct config *leader)
{
    return config->stages == leader->stages && mesh_equal(&config->mesh, &leader->mesh) &&
           same_meshes(config, leader) && config->prefetch == leader->prefetch &&
           config->bucket_bytes == leader->bucket_bytes &&
           (config->order.index == leader->order.index || joins_ends(config)) &&
           (config->micro == leader->micro || config->micro == 2 * leader->micro);
}

/* The other's plan under the schedule; *fits: it has room for it. */
static bool adopt(struct run *run, const struct candidate *from, struct candidate *c, bool *fits)
{
    *fits = false;
    if (c->table != from->table ||
        config_pieces(&run->configs[c->config]) != config_pieces(&run->configs[from->config]))
        return true;
    c->solution = from->solution;
    if (!search_evaluate(run, c, c->capacity_bytes, &c->solution.step_ns))
        return false;
    *fits = c->solution.step_ns < INT64_MAX;
    return !*fits || search_add_candidate(run, c);
}

/* Of the leader, or of what was found for another schedule. */
static bool adopt_any(struct run *run, const struct candidate *leader, int first, struct candidate *c, bool *fits)
{
    if (!adopt(run, leader, c, fits))
        return false;
    for (int i = first, count = run->candidate_count; i < count && !*fits; i++)
        if (!adopt(run, &run->candidates[i], c, fits))
            return false;
    return true;
}

/* Of small models all plans that are found; those that fit. */
static bool add_found(struct run *run, struct candidate *c, const struct partition_result *result)
{
    int plans = search_is_small(run) ? result->plan_count : (int)min_i64(result->plan_count, 1);
    for (int i = 0; i < plans; i++) {
        int64_t step_ns = 0;
        c->solution = result->plans[i];
        if (!search_evaluate(run, c, c->capacity_bytes, &step_ns) ||
            (step_ns < INT64_MAX && !search_add_candidate(run, c)))
            return false;
    }
    return true;
}

/* What the closed form finds best for the schedule; below_ns: longer steps are of no use. Where chunks do not fit that
 * each have their share of the memory, of a small model some may that share it out otherwise. */
static bool solve(struct run *run, struct candidate *c, int64_t below_ns)
{
    struct partition_problem problem;
    struct partition_result result;
    if (!search_promised(run, c, c->capacity_bytes, &problem))
        return false;
    problem.gap_ppm = max_i64(problem.gap_ppm, FAMILY_GAP_PPM);
    problem.below_ns = search_with_idle_ns(&run->configs[c->config], below_ns);
    if (!partition_solve(&problem, &run->arena, &result, run->err))
        return false;
    if (result.plan_count == 0 && search_is_small(run) && config_shares_devices(&run->configs[c->config])) {
        problem.capacity_bytes = c->capacity_bytes;
        if (!partition_solve(&problem, &run->arena, &result, run->err))
            return false;
    }
    return add_found(run, c, &result);
}

/* The table without the strategies whose weights are gathered for each pass. *out NULL: all or none are such, or there
 * is more than one mesh. */
static bool without_gathers(struct run *run, const struct price_table *table, const struct price_table **out)
{
    int all = table->strategy_count, count = 0;
    *out = NULL;
    if (table->by_stage || table->by_turns || table->by_place)
        return true;
    for (int i = 0; i < all; i++)
        count += table->strategies[i].layer.zero < 3;
    if (count == 0 || count == all)
        return true;
    struct price_table *own = arena_alloc(&run->arena, 1, sizeof *own);
    struct strategy *strategies = arena_alloc(&run->arena, (size_t)count, sizeof *strategies);
    int classes = table->class_count;
    struct layer_price *prices = arena_alloc(&run->arena, (size_t)(count * classes), sizeof *prices);
    if (!own || !strategies || !prices)
        return search_out_of_memory(run->err);
    for (int i = 0, at = 0; i < all; i++) {
        if (table->strategies[i].layer.zero >= 3)
            continue;
        strategies[at] = table->strategies[i];
        for (int c = 0; c < classes; c++)
            prices[c * count + at] = *price_at(table, c, i);
        at++;
    }
    *own = *table;
    own->strategy_count = count;
    own->strategies = strategies;
    own->prices = prices;
    own->workspace_bytes = NULL; /* base_bytes has the largest */
    *out = own;
    return true;
}

/* The closed form lets gathers hide behind whatever else is computed, which the walk and the judge do not: so small
 * models are also solved without. */
static bool solve_gatherless(struct run *run, const struct candidate *like, int64_t below_ns)
{
    struct candidate c = *like;
    if (!search_is_small(run))
        return true;
    if (!without_gathers(run, like->table, &c.table))
        return false;
    return !c.table || (search_tighten(run, &c, like->kept_bytes) && solve(run, &c, below_ns));
}

/* The candidate gets the memory that the leader has, which says nothing of micro-batches of another size. */
static bool promise_as(struct run *run, const struct candidate *leader, struct candidate *c)
{
    if (run->configs[c->config].micro != run->configs[leader->config].micro)
        return true;
    c->capacity_bytes = leader->capacity_bytes;
    return search_tighten(run, c, leader->kept_bytes);
}

/* leader: NULL, there is none. */
static bool try_config(const struct trial *t, int config, const struct candidate *leader)
{
    struct run *run = t->run;
    struct candidate c = { .config = config, .capacity_bytes = run->capacity_bytes };
    bool fits = false;
    if (!workbench_table(&run->bench, &run->configs[config], false, &c.table, run->err))
        return false;
    if (!c.table)
        return true;
    if (leader && !promise_as(run, leader, &c))
        return false;
    if (leader && !adopt_any(run, leader, t->first, &c, &fits))
        return false;
    int64_t below_ns = leader ? t->below_ns : INT64_MAX;
    return fits || (solve(run, &c, below_ns) && solve_gatherless(run, &c, below_ns));
}

static bool try_akin(struct trial *t, const struct candidate *leader)
{
    struct run *run = t->run;
    for (int i = 0; i < run->beside_count && t->visits_left > 0 && !search_stops(run); i++) {
        int config = run->beside_first + i;
        if (run->busy_ns[config] >= t->below_ns || !is_akin(&run->configs[config], &run->configs[leader->config]))
            continue;
        t->visits_left -= (int64_t)run->configs[config].micro_batch_count * run->bench.chain.layer_count;
        if (!try_config(t, config, leader))
            return false;
    }
    return true;
}

/* Of those with joined ends that could win the one with the least to do, were it to fill and drain like others; -1:
 * none is left that was not passed. */
static int next_joined(const struct trial *t, const bool *passed)
{
    const struct run *run = t->run;
    int next = -1;
    int64_t least_ns = INT64_MAX;
    for (int i = run->beside_first; i < run->beside_first + run->beside_count; i++) {
        if (passed[i - run->beside_first] || run->busy_ns[i] >= t->below_ns || !joins_ends(&run->configs[i]))
            continue;
        int64_t ns = search_with_idle_ns(&run->configs[i], run->busy_ns[i]);
        if (ns < least_ns) {
            least_ns = ns;
            next = i;
        }
    }
    return next;
}

static bool try_joined(struct trial *t)
{
    struct run *run = t->run;
    bool *passed = arena_alloc(&run->arena, (size_t)run->beside_count, sizeof *passed);
    if (!passed)
        return search_out_of_memory(run->err);
    for (int tried = 0, next; tried < JOINED && (next = next_joined(t, passed)) >= 0 && !search_stops(run); tried++) {
        for (int i = 0; i < run->beside_count; i++)
            passed[i] |= works_alike(&run->configs[run->beside_first + i], &run->configs[next]);
        if (!try_config(t, next, NULL))
            return false;
    }
    return true;
}

static bool try_blindly(const struct trial *t)
{
    struct run *run = t->run;
    for (int i = 0; i < run->beside_count && i < BLIND && !search_stops(run); i++)
        if (!try_config(t, run->beside_first + i, NULL))
            return false;
    return true;
}

/* The last piece takes one layer more, of the nearest piece that has one to spare; those between hand theirs on.
 * moved->plan NULL: none has, or it does not fit. */
static bool lengthen_last(struct run *run, const struct candidate *c, int kept, struct candidate *moved)
{
    int last = config_pieces(&run->configs[c->config]) - 1;
    moved->plan = NULL;
    for (struct cut_move move = { last, last, -1 }; move.first > 0 && !moved->plan; move.first--)
        if (!search_move_cuts(run, c, &move, kept, moved))
            return false;
    return !moved->plan || search_rank_moved(run, moved, 1);
}

/* The last piece takes the layers from the tied one on: the closed form does not know that one stage has both ends, so
 * that the weight would be exchanged with nobody. */
static bool join_ends(struct run *run, const struct candidate *c, int *kept)
{
    const struct config *config = &run->configs[c->config];
    int last = config_pieces(config) - 1;
    struct candidate at = *c, moved;
    while (plan_layer_at(at.plan, search_piece(config, at.plan, last).first) > run->bench.chain.tied_second) {
        if (!lengthen_last(run, &at, *kept, &moved))
            return false;
        if (!moved.plan)
            return true;
        if (!search_keep(run, &moved, kept))
            return false;
        at = moved;
    }
    return true;
}

bool search_join_all_tied(struct run *run)
{
    const struct chain *chain = &run->bench.chain;
    int kept = (int)run->result->certificate.ranked, ranked = kept;
    for (int i = 0; i < ranked && chain->branches && chain->tied_first >= 0 && !search_stops(run); i++) {
        struct candidate c = run->candidates[i], joined;
        if (c.judged || !search_has_pieces(run, &c) || config_pieces(&run->configs[c.config]) < 2)
            continue;
        if (!search_join_tied(run, &c, kept, &joined) ||
            (joined.plan && !(search_rank_moved(run, &joined, 1) && search_keep(run, &joined, &kept))))
            return false;
    }
    search_sort_ranked(run, kept);
    return true;
}

static bool join_all(struct run *run)
{
    int kept = (int)run->result->certificate.ranked, ranked = kept;
    for (int i = 0; i < ranked && run->bench.chain.tied_first >= 0 && !search_stops(run); i++) {
        struct candidate c = run->candidates[i];
        if (!c.judged && joins_ends(&run->configs[c.config]) && !join_ends(run, &c, &kept))
            return false;
    }
    search_sort_ranked(run, kept);
    return true;
}

/* Of the candidates of this turn those of which the walk says more. */
static void pass_over(struct run *run, int64_t most_ns)
{
    for (int i = 0; i < run->result->certificate.ranked; i++)
        run->candidates[i].judged |= run->candidates[i].ranked_ns > most_ns;
}

/* The candidates from `before` on. most_ns: those of which the walk says more in the end are passed over, and so are
 * those that start more than one part in FAR_SHARE above it. */
static bool judge_new(struct run *run, int before, int64_t most_ns)
{
    enum { FAR_SHARE = 8 };
    if (run->candidate_count == before)
        return true;
    for (int i = 0; i < before; i++)
        run->candidates[i].judged = true; /* they had their turn */
    int first = run->beside_first;
    if (!search_rank_more(run, before) || !join_all(run) || !search_join_all_tied(run))
        return false;
    if (most_ns < INT64_MAX)
        pass_over(run, most_ns + most_ns / FAR_SHARE);
    if (!search_climb(run, first))
        return false;
    pass_over(run, most_ns);
    return search_judge_more(run);
}

bool search_try_beside(struct run *run)
{
    struct trial t = { .run = run, .below_ns = INT64_MAX, .visits_left = WALK_VISITS };
    t.first = run->candidate_count;
    if (run->beside_count == 0 || run->options->keep_all)
        return true;
    if (run->result->plan_count > 0) {
        t.below_ns = run->result->plans[0].estimate->prediction.step_ns;
        find_leaders(run, &t);
    } else if (!try_blindly(&t)) {
        return false;
    }
    for (int i = 0; i < t.leader_count; i++)
        if (!try_akin(&t, &t.leaders[i]))
            return false;
    return judge_new(run, t.first, t.below_ns < INT64_MAX ? t.below_ns + t.below_ns / DOUBT_SHARE : INT64_MAX);
}

bool search_try_joined(struct run *run)
{
    struct trial t = { .run = run, .first = run->candidate_count };
    if (run->beside_count == 0 || run->options->keep_all || run->result->plan_count == 0 ||
        run->bench.chain.tied_first < 0 || !search_is_small(run))
        return true;
    t.below_ns = run->result->plans[0].estimate->prediction.step_ns;
    return try_joined(&t) && judge_new(run, t.first, t.below_ns);
}
