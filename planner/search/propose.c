/* Proposals by the formula: every configuration gets a bound that costs almost nothing, then they are solved best
 * first, in waves. What a wave prunes by is what the waves before it found, so the answer does not depend on how many
 * of its members are solved at once. */
#include "base/num.h"
#include "planner/estimate/effort.h"
#include "planner/search/propose_parts.h"
#include "planner/tables/least.h"
#include <string.h>

/* ---- one wave ---- */

static void solve_job(void *context, int index)
{
    struct job *job = &((struct job *)context)[index];
    job->good = job->done || job->like >= 0 || !job->table ||
                partition_solve(&job->problem, job->arena, &job->result, &job->err);
}

/* Chooses the table of what strategies cost at least, before they are priced, for as long as more has become known of
 * it since the job was bounded by it; else the table of all prices. */
static bool choose_table(struct run *run, struct job *job)
{
    const struct config *config = &run->configs[job->config];
    const struct price_table *before = job->least;
    if (job->by_least && !least_table(&run->bench, config, &job->least, run->err))
        return false;
    job->whole = job->least == before || !job->least;
    job->table = job->least;
    return !job->whole || workbench_table(&run->bench, config, false, &job->table, run->err);
}

/* Prices at once what choose_table() is going to ask for. */
static void price_wave(struct run *run, const struct job *jobs, int count)
{
    struct ahead ahead;
    if (!ahead_open(&ahead, &run->bench))
        return;
    for (int i = 0; i < count; i++)
        if (!jobs[i].done && jobs[i].by_least && !jobs[i].least)
            least_ahead(&ahead, &run->configs[jobs[i].config]);
        else if (!jobs[i].done)
            ahead_table(&ahead, &run->configs[jobs[i].config], false);
    ahead_price(&ahead);
}

/* Gives the index of an earlier job of the wave that differs in its prefetch alone, which is the same problem by what
 * strategies cost at least; -1 where there is none. */
static int find_like(const struct run *run, const struct job *jobs, int index)
{
    const struct job *job = &jobs[index];
    int like = job->whole ? -1 : index - 1;
    while (like >= 0 && (jobs[like].done || jobs[like].table != job->table ||
                         !config_equal_but(&run->configs[jobs[like].config], &run->configs[job->config], BUT_PREFETCH)))
        like--;
    return like;
}

static bool prepare_job(struct run *run, struct job *job, int64_t below_ns, int64_t gap_ppm)
{
    if (!choose_table(run, job))
        return false;
    if (!job->table)
        return true;
    if (!job->arena && !(job->arena = run_arena(run)))
        return fail_memory(run->err);
    if (!run_problem(run, job->config, job->table, run->capacity_bytes, &job->problem))
        return false;
    job->problem.chain = job->files_order ? &run->bench.line : &run->bench.chain;
    job->problem.below_ns = job->below_ns > 0 ? job->below_ns : below_ns;
    if (job->to_the_end)
        job->problem.below_ns = min_i64(below_ns, run->best_ns);
    if (job->to_the_end || run->options->keep_all) {
        int64_t left = PROOF_NODES - run->result->certificate.nodes;
        job->problem.node_limit = MANY_NODES;
        job->problem.most_nodes = run->options->keep_all ? 0 : max_i64(left, 1);
    }
    job->problem.enough_ns = job->enough_ns;
    job->problem.bound_only = job->bound_only;
    job->problem.halves = job->halves;
    job->problem.gap_ppm = max_i64(job->problem.gap_ppm, gap_ppm);
    if (job->unstoppable)
        job->problem.stops = NULL;
    return true;
}

/* Sets job->done when the whole table was used, or when the least prices rule out all wanted plans and it is known
 * whether that is for want of memory: it is not where one strategy of all layers has room. */
static bool look_at(struct run *run, struct job *job)
{
    struct partition_problem problem = job->problem;
    job->done = job->whole || job->result.no_memory;
    if (job->done || !job->result.ruled_out)
        return true;
    if (!least_thrifty(&run->bench, &run->configs[job->config], job->least, &problem.table, run->err))
        return false;
    job->done = problem.table && !partition_lacks_memory(&problem);
    return true;
}

static void count_work(struct run *run, const struct partition_result *result)
{
    struct certificate *certificate = &run->result->certificate;
    certificate->knapsacks += result->knapsacks;
    certificate->nodes += result->nodes;
    certificate->passes += result->passes;
}

bool propose_solve(struct run *run, struct job *jobs, int count, int64_t below_ns, int64_t gap_ppm)
{
    for (int left = count; left > 0;) {
        price_wave(run, jobs, count);
        for (int i = 0; i < count; i++) {
            if (!jobs[i].done && !prepare_job(run, &jobs[i], below_ns, gap_ppm))
                return false;
            jobs[i].like = find_like(run, jobs, i);
        }
        workers_each(&run->options->calls.workers, count, solve_job, jobs);
        for (int i = 0; i < count; i++) {
            struct job *job = &jobs[i];
            if (!job->good)
                return fail_with(run->err, &job->err);
            if (job->done)
                continue;
            if (job->like >= 0) {
                job->result = jobs[job->like].result;
                job->result.knapsacks = job->result.passes = 0;
            }
            if (!look_at(run, job))
                return false;
            left -= job->done;
            if (!job->done)
                count_work(run, &job->result);
        }
    }
    for (int i = 0; i < count; i++) {
        struct job *job = &jobs[i];
        for (int p = 0; p < job->result.plan_count && job->files_order; p++) {
            /* Candidates are cut at places of the chain that has all orders, so these are translated. */
            struct partition_plan *plan = &job->result.plans[p];
            for (int k = 0; k < partition_stages(&job->problem, plan); k++)
                plan->first_layer[k] = chain_prefix(&run->bench.chain, plan->first_layer[k]);
        }
    }
    return true;
}

/* Drops what a scout found, since solving its configuration to the end finds it again. Ranked candidates stay. */
static void drop_rough(struct run *run, int config)
{
    int kept = 0;
    if (run->result->certificate.ranked > 0)
        return;
    for (int i = 0; i < run->candidate_count; i++)
        if (!run->candidates[i].rough || run->candidates[i].config != config)
            run->candidates[kept++] = run->candidates[i];
    run->candidate_count = kept;
}

bool propose_keep(struct run *run, const struct job *job, bool rough)
{
    for (int i = 0; i < job->result.plan_count; i++) {
        struct candidate candidate = {
            .config = job->config,
            .table = job->table,
            .solution = job->result.plans[i],
            .capacity_bytes = run->capacity_bytes,
            .rough = rough,
        };
        if (job->result.plans[i].step_ns < run->best_ns) {
            run->best_ns = job->result.plans[i].step_ns;
            run->best_config = job->config;
            run->best_table = job->table;
            run->best_solution = job->result.plans[i];
        }
        if (!run_add_candidate(run, &candidate))
            return false;
    }
    return true;
}

/* ---- best first ---- */

/* Gives the length below which plans are of interest, a little beyond the best: the judge may prefer such. */
static int64_t reach(const struct run *run)
{
    return run->best_ns == INT64_MAX ? INT64_MAX : run->best_ns + run->best_ns / 1000 * SLACK_PERMILLE + 1;
}

/* Raises the bounds of what waits to all that first bounds know. Scouts and whoever looks at other families go by
 * compute paths; what is proven first, and what is looked at when time is over, goes by these. */
static void raise_bounds(const struct run *run, struct queue *queue)
{
    for (int i = 0; i < queue->count; i++) {
        struct ordered *at = &queue->list[i].at;
        at->bound_ns = max_i64(at->bound_ns, run->first_ns[at->index]);
    }
    first_bounds_sort(queue);
}

struct waiting_config propose_take_out(struct queue *queue, int place)
{
    struct waiting_config taken = queue->list[place];
    queue->early_count -= taken.known != TRIED;
    queue->count--;
    memmove(&queue->list[1], &queue->list[0], (size_t)place * sizeof taken);
    queue->list++;
    return taken;
}

void propose_put_back(const struct job *job, enum knowledge known)
{
    struct queue *queue = job->queue;
    struct waiting_config back = { { max_i64(job->bound_ns, job->result.bound_ns), job->config }, known };
    int place = 0;
    while (place < queue->count && first_bounds_compare(&queue->list[place], &back) < 0)
        place++;
    queue->list--; /* it was taken out before */
    memmove(&queue->list[0], &queue->list[1], (size_t)place * sizeof *queue->list);
    queue->count++;
    queue->early_count += known != TRIED;
    queue->list[place] = back;
}

/* True when the bound may still matter. What was tried has given its plan, and is solved again for the proof alone. */
static bool worth_solving(const struct run *run, const struct waiting_config *waiting)
{
    int64_t below_ns = reach(run);
    if (waiting->known == TRIED)
        below_ns = run->best_ns - partition_gap_ns(run->options->gap_ppm, run->best_ns);
    return run->options->keep_all || waiting->at.bound_ns < below_ns;
}

/* Gives the first place worth solving, among all or among those that were tried; the queue's length where none is. */
static int next_worth(const struct run *run, const struct queue *queue)
{
    int64_t below_ns = run->options->keep_all ? INT64_MAX : reach(run);
    for (int place = 0; place < queue->count; place++) {
        if (place < queue->early_count && queue->list[place].at.bound_ns >= below_ns)
            place = queue->early_count;
        if (place < queue->count && worth_solving(run, &queue->list[place]))
            return place;
    }
    return queue->count;
}

static bool count_job(struct run *run, const struct job *job)
{
    struct certificate *certificate = &run->result->certificate;
    const struct partition_result *result = &job->result;
    if (!job->table) {
        first_bounds_record(run, job->config, FATE_REFUSED);
        return true;
    }
    certificate->solved += !result->no_memory && !result->beyond;
    run->beyond = run->beyond || result->beyond;
    run->open_bound_ns = min_i64(run->open_bound_ns, max_i64(job->bound_ns, result->bound_ns));
    run->tried[job->config] = !run->stopped || result->plan_count > 0; /* else it may have been cut short */
    if (run->tried[job->config])
        drop_rough(run, job->config);
    first_bounds_record(run, job->config, result->no_memory ? FATE_MEMORY : result->beyond ? FATE_LEFT : FATE_SOLVED);
    return propose_keep(run, job, false);
}

bool propose_is_open(const struct job *job)
{
    return job->table && job->bound_only && !job->result.no_memory && !job->result.ruled_out;
}

/* True when the job was solved with few nodes, and they did not suffice for the proof. */
static bool is_short(const struct job *job)
{
    const struct partition_result *result = &job->result;
    if (!job->table || job->bound_only || result->no_memory || result->beyond || job->problem.node_limit > FEW_NODES)
        return false;
    int64_t found_ns = result->plan_count > 0 ? result->plans[0].step_ns : job->problem.below_ns;
    return result->bound_ns < found_ns - partition_gap_ns(job->problem.gap_ppm, found_ns);
}

/* Notes the job's result: a relaxation settles what it rules out, and the rest waits its turn with the new bound. */
static bool settle(struct run *run, const struct job *job)
{
    count_work(run, &job->result);
    if (propose_is_open(job)) {
        propose_put_back(job, job->halves == 0 ? RELAXED : SHARPENED);
        return true;
    }
    if (!is_short(job))
        return count_job(run, job);
    run->tried[job->config] |= job->result.plan_count > 0;
    propose_put_back(job, TRIED);
    return propose_keep(run, job, false);
}

/* Solves the job with the least bound at once and not in its turn, if that lies so far below the incumbent that a plan
 * near it would rule out much. */
static bool dive(struct run *run, const struct job *jobs, int count)
{
    const struct job *least = NULL;
    int64_t below_ns = run->best_ns - run->best_ns / DIVE_SHARE;
    for (int i = 0; i < count; i++) {
        if (propose_is_open(&jobs[i]) && jobs[i].result.bound_ns < (least ? least->result.bound_ns : below_ns))
            least = &jobs[i];
    }
    if (!least)
        return true;
    struct job job = { .config = least->config,
                       .bound_ns = least->result.bound_ns,
                       .enough_ns = least->enough_ns,
                       .queue = least->queue };
    int place = 0;
    while (job.queue->list[place].at.index != job.config)
        place++;
    propose_take_out(job.queue, place);
    return propose_solve(run, &job, 1, reach(run), 0) && settle(run, &job);
}

static bool solve_wave(struct run *run, struct job *jobs, int count)
{
    const struct search_calls *calls = &run->options->calls;
    if (!propose_solve(run, jobs, count, run->options->keep_all ? INT64_MAX : reach(run), 0))
        return false;
    for (int i = 0; i < count; i++)
        if (!settle(run, &jobs[i]))
            return false;
    if (!dive(run, jobs, count))
        return false;
    if (calls->progress)
        calls->progress(calls->watcher, (int)run->result->certificate.solved, run->config_count, run->best_ns);
    return true;
}

/* Tells whether weights and what goes with them leave a third of a device's memory, when each rank holds `share` of
 * what the bound's mesh says; of stages with several meshes they do not. */
static bool leaves_room(struct run *run, const struct config *config, double share, bool *out)
{
    const struct price_table *table = NULL;
    int64_t bytes = 0;
    *out = false;
    if (config->meshes > 0)
        return true;
    if (!workbench_table(&run->bench, config, true, &table, run->err))
        return false;
    for (int l = 0; table && l < run->bench.chain.layer_count; l++) {
        int64_t least = INT64_MAX;
        for (int i = 0; i < table->strategy_count; i++)
            least = min_i64(least, price_at(table, run->bench.chain.class_of[l], i)->weight_bytes);
        bytes += least;
    }
    *out = table && (double)(bytes / config->stages) * share < (double)(run->capacity_bytes / 3 * 2);
    return true;
}

/* Tells whether the configuration fits easily: the least of its weights takes less than two thirds, and the pipeline is
 * mostly full. Such a one gives a good incumbent at once, before those that only look fast are solved. */
static bool comfortable(struct run *run, const struct config *config, bool *out)
{
    *out = false;
    return config->micro_batch_count < 2 * config->stages || leaves_room(run, config, 1, out);
}

/* Tells whether a configuration without stages has room with its weights in more shards than the bound's mesh has. */
static bool sharded_comfortable(struct run *run, const struct config *config, bool *out)
{
    struct price_key bound = workbench_key(&run->bench, config, 0, true);
    int shards = mesh_shards(&config->mesh);
    *out = false;
    return config->stages > 1 || shards < 2 || leaves_room(run, config, (double)mesh_shards(&bound.mesh) / shards, out);
}

/* Solves the job roughly, since a scout's plan is near its best: that it is no better can be proven later. */
static bool send_out(struct run *run, struct job *job)
{
    if (!propose_solve(run, job, 1, INT64_MAX, FAMILY_GAP_PPM))
        return false;
    if (!job->table || !job->result.feasible)
        return settle(run, job);
    count_work(run, &job->result);
    propose_put_back(job, SHARPENED);
    run->tried[job->config] = true;
    return propose_keep(run, job, true);
}

typedef bool comfort_function(struct run *run, const struct config *config, bool *out);

/* Solves the first comfortable configurations, each on its own, until one has a plan. It ignores the time, so that what
 * is found does not depend on it. */
static bool scout(struct run *run, struct queue *queue, comfort_function *is_comfortable)
{
    for (int i = 0, scouts = 0; i < queue->count; i++) {
        bool good = false;
        if (scouts == SCOUTS)
            return true;
        if (!is_comfortable(run, &run->configs[queue->list[i].at.index], &good))
            return false;
        if (!good)
            continue;
        struct waiting_config taken = propose_take_out(queue, i--);
        struct job job = {
            .config = taken.at.index, .bound_ns = taken.at.bound_ns, .queue = queue, .unstoppable = true
        };
        if (!send_out(run, &job))
            return false;
        scouts++;
        if (job.result.feasible)
            return true;
    }
    return true;
}

/* Tells whether sharding all weights leaves room without stages; in a small model, soon judged, with stages. */
static bool fits_easily(struct run *run, const struct config *config, bool *out)
{
    return sharded_comfortable(run, config, out) && (*out || !run_is_small(run) || leaves_room(run, config, 1, out));
}

/* Tells whether the configuration has room. It is asked where all are short of micro-batches. */
static bool has_room(struct run *run, const struct config *config, bool *out)
{
    return leaves_room(run, config, 1, out);
}

/* Accepts any configuration as a last resort: while there is time, or in a space without a narrower part. */
static bool is_all_there_is(struct run *run, const struct config *config, bool *out)
{
    (void)config;
    *out = !run->stopped || !allowed_has(&run->space->turns, 1);
    return true;
}

/* Solves a configuration that nobody has solved. Its plan becomes a candidate; nothing is proven of it. */
static bool scout_one(struct run *run, int config, bool *found)
{
    struct job job = { .config = config, .unstoppable = true };
    run->tried[config] = true;
    run->scouted++;
    if (!propose_solve(run, &job, 1, INT64_MAX, FAMILY_GAP_PPM) || !propose_keep(run, &job, true))
        return false;
    count_work(run, &job.result);
    *found = job.result.plan_count > 0;
    return true;
}

/* Scouts MOST_SCOUTED configurations while there is time, and when it is over as many as it takes to find a plan. */
bool propose_scout_on(struct run *run, bool *found)
{
    static comfort_function *const kinds[] = { fits_easily, comfortable, has_room, is_all_there_is };
    int count = sizeof kinds / sizeof *kinds;
    for (*found = false; run->scout_kind < count; run->scout_at = 0, run->scout_kind++)
        for (; run->scout_at < run->config_count && (run->stopped || run->scouted < MOST_SCOUTED); run->scout_at++) {
            int config = run->order[run->scout_at].index;
            bool good = false;
            if (!run->tried[config] && (!kinds[run->scout_kind](run, &run->configs[config], &good) ||
                                        (good && !scout_one(run, config, found))))
                return false;
            if (*found)
                return true;
        }
    return true;
}

/* Records what is still in the queue: relaxed, left when time is over, or ruled out by its first bound. */
static void close_queue(struct run *run, const struct queue *queue)
{
    for (int i = 0; i < queue->count; i++) {
        const struct waiting_config *waiting = &queue->list[i];
        bool left = worth_solving(run, waiting);
        bool relaxed = waiting->known > FIRST;
        run->open_bound_ns = min_i64(run->open_bound_ns, waiting->at.bound_ns);
        if (left || relaxed)
            first_bounds_record(run, waiting->at.index, left ? FATE_LEFT : FATE_SOLVED);
    }
}

/* Takes the one at the place out of the queue. */
static struct job take_job(const struct run *run, struct queue *queue, int place)
{
    struct waiting_config next = propose_take_out(queue, place);
    bool relaxed = next.known < SHARPENED && run->best_ns < INT64_MAX && !run->options->keep_all;
    return (struct job){ .config = next.at.index,
                         .bound_ns = next.at.bound_ns,
                         .enough_ns = run->best_ns < INT64_MAX ? run->best_ns : 0,
                         .queue = queue,
                         .halves = next.known == RELAXED || run_is_small(run) ? PARTITION_HALVES : 0,
                         .to_the_end = next.known == TRIED,
                         .bound_only = relaxed,
                         .by_least = relaxed && next.known == FIRST };
}

/* Solves WAVE at once at most of those that are worth it, until no bound lies below what is already known, or until the
 * proof has done so much and there is a plan. */
static bool solve_until(struct run *run, struct queue *queue, int64_t most_work)
{
    const struct certificate *c = &run->result->certificate;
    while (!run->proof_ended && !run_stops(run) &&
           (run->best_ns == INT64_MAX || c->knapsacks + c->passes < most_work)) {
        struct job jobs[WAVE];
        int count = 0;
        for (int place; count < WAVE && (place = next_worth(run, queue)) < queue->count; count++)
            jobs[count] = take_job(run, queue, place);
        if (count > 0 && !solve_wave(run, jobs, count))
            return false;
        run->proof_ended = count == 0;
        if (c->knapsacks + c->passes >= run->early_work) {
            run->early_work = EARLY_GROWTH * (c->knapsacks + c->passes);
            if (!run_pass(run, PART_EARLY, early_judge))
                return false;
        }
    }
    return true;
}

/* Opens the queue, and finds a first plan, unless one is known elsewhere, or time ended among the bounds and there is
 * an early one. In a large model scouts go by compute paths, in both ways to be comfortable; in a small one it takes
 * little time to raise the bounds before, and scouts begin near what is found in the end. */
static bool open_proof(struct run *run)
{
    run->queue = arena_alloc(&run->arena, 1, sizeof *run->queue);
    if (!run->queue)
        return fail_memory(run->err);
    if (!first_bounds_open_queue(run, run->queue))
        return false;
    if (run->stopped && run->early.plan)
        return true;
    bool scouts = run->options->below_ns == 0 && !run->options->keep_all, small = run_is_small(run);
    if (scouts && !small && (!scout(run, run->queue, sharded_comfortable) || !scout(run, run->queue, comfortable)))
        return false;
    raise_bounds(run, run->queue);
    return !scouts || !small || scout(run, run->queue, fits_easily);
}

/* Pauses after PROOF_WORK so that plans are judged, because who waits wants a good plan before a good bound. It counts
 * work and not time, so that who has more time gets what others get, and more. */
bool propose_first(struct run *run)
{
    int64_t given = run->options->proof_work > 0 ? run->options->proof_work : PROOF_WORK;
    int64_t most_work = run->options->keep_all ? INT64_MAX : given;
    bool found = false;
    if (!open_proof(run) || !run_pass(run, PART_EARLY, early_judge) || !solve_until(run, run->queue, most_work) ||
        !first_bounds_enter(run))
        return false;
    first_bounds_list(run);
    if (run->stopped && run->best_ns == INT64_MAX && !early_ends(run) && !propose_scout_on(run, &found))
        return false;
    if (run->proof_ended)
        close_queue(run, run->queue);
    return run_stops(run) || run_pass(run, PART_EARLY, early_judge);
}

void propose_leave(struct run *run)
{
    if (!run->proof_ended)
        close_queue(run, run->queue);
}

bool propose_rest(struct run *run)
{
    if (run->proof_ended)
        return true;
    if (!solve_until(run, run->queue, INT64_MAX))
        return false;
    close_queue(run, run->queue);
    return true;
}
