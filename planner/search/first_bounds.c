/* First bounds of all configurations, what of them is known when time is over, and what they say for the certificate.
 */
#include "base/num.h"
#include "planner/search/propose_parts.h"
#include "planner/tables/ahead.h"
#include <stdlib.h>

void first_bounds_record(struct run *run, int config, enum config_fate fate)
{
    struct certificate *certificate = &run->result->certificate;
    certificate->records[certificate->record_count++] =
        (struct config_record){ .config = config, .fate = fate, .first_ns = run->first_ns[config] };
}

int first_bounds_compare(const void *a, const void *b)
{
    const struct waiting_config *x = a, *y = b;
    bool late_x = x->known == TRIED, late_y = y->known == TRIED;
    return late_x == late_y ? ordered_compare(&x->at, &y->at) : late_x ? 1 : -1;
}

void first_bounds_sort(struct queue *queue)
{
    qsort(queue->list, (size_t)queue->count, sizeof *queue->list, first_bounds_compare);
}

/* True when the one before has the same bounds: prefetch decides neither the first one nor that of the kernels. */
static bool is_like_last(const struct run *run, int index)
{
    return index > 0 && run->bound_table[index - 1] &&
           config_equal_but(&run->configs[index], &run->configs[index - 1], BUT_PREFETCH);
}

static bool bound_config(struct run *run, int index)
{
    const struct config *config = &run->configs[index];
    if (!workbench_table(&run->bench, config, true, &run->bound_table[index], run->err))
        return false;
    run->is_bounded[index] = true;
    run->path_ns[index] = run->first_ns[index] = run->orders_ns[index] = INT64_MAX;
    if (!run->bound_table[index])
        return true;
    if (is_like_last(run, index)) {
        run->path_ns[index] = run->path_ns[index - 1];
        run->first_ns[index] = run->first_ns[index - 1];
        run->orders_ns[index] = run->orders_ns[index - 1];
        return true;
    }
    struct partition_problem problem = workbench_problem(&run->bench, config, run->bound_table[index], NULL);
    run->path_ns[index] = partition_path_bound(&problem);
    run->first_ns[index] = partition_quick_bound(&problem);
    if (config->stages != 1 && run->result->certificate.ideals == 0) /* cuts of some orders only; one stage has none */
        run->orders_ns[index] = partition_orders_bound(&problem);
    return true;
}

static bool open_lists(struct run *run)
{
    struct certificate *certificate = &run->result->certificate;
    size_t count = (size_t)run->config_count;
    run->order = arena_alloc(&run->arena, count, sizeof *run->order);
    certificate->records = arena_alloc(&run->result->arena, count, sizeof *certificate->records);
    run->is_bounded = arena_alloc(&run->arena, count, sizeof *run->is_bounded);
    run->bound_table = arena_alloc(&run->arena, count, sizeof *run->bound_table);
    run->path_ns = arena_alloc(&run->arena, count, sizeof *run->path_ns);
    run->first_ns = arena_alloc(&run->arena, count, sizeof *run->first_ns);
    run->orders_ns = arena_alloc(&run->arena, count, sizeof *run->orders_ns);
    run->busy_ns = arena_alloc(&run->arena, count, sizeof *run->busy_ns);
    run->tried = arena_alloc(&run->arena, count, sizeof *run->tried);
    return (certificate->records && !arena_failed(&run->arena)) || fail_memory(run->err);
}

/* Prices at once what the next configurations are bounded by: enough to keep threads busy for tens of milliseconds. */
static void price_next(struct run *run, int first)
{
    enum { NEXT = AHEAD_MOST / 2 };
    struct ahead ahead;
    if (first % NEXT != 0 || !ahead_open(&ahead, &run->bench))
        return;
    for (int i = first; i < min_int(run->config_count, first + NEXT); i++)
        ahead_table(&ahead, &run->configs[i], true);
    ahead_price(&ahead);
}

bool first_bounds_all(struct run *run)
{
    run->result->certificate.ideals = chain_ideals(&run->bench.chain);
    if (!open_lists(run))
        return false;
    /* With a limit chance says which are seen; 17,640 take 0.3 s. Of large spaces the narrower part was searched. */
    bool is_large = run->config_count > LARGE_SPACE;
    for (int i = 0; i < run->config_count && !(is_large ? run_stops(run) : run_is_cancelled(run)); i++) {
        price_next(run, i);
        if (!bound_config(run, i))
            return false;
    }
    return true;
}

bool first_bounds_open_queue(struct run *run, struct queue *queue)
{
    *queue = (struct queue){ .list = arena_alloc(&run->arena, (size_t)run->config_count + 1, sizeof *queue->list) };
    if (!queue->list)
        return fail_memory(run->err);
    for (int i = 0; i < run->config_count; i++) {
        if (!run->is_bounded[i] || run->path_ns[i] == INT64_MAX)
            continue;
        queue->list[queue->count++] = (struct waiting_config){ { run->path_ns[i], i }, FIRST };
        queue->early_count++;
    }
    first_bounds_sort(queue);
    return true;
}

void first_bounds_list(struct run *run)
{
    for (int i = 0; i < run->config_count; i++) { /* when time is over, behind all others what has no bound */
        int64_t path_ns = run->path_ns[i], known_ns = run->stopped ? max_i64(path_ns, run->first_ns[i]) : path_ns;
        run->order[i] = (struct ordered){ run->is_bounded[i] ? known_ns : INT64_MAX, i };
    }
    qsort(run->order, (size_t)run->config_count, sizeof *run->order, ordered_compare);
}

bool first_bounds_simulation(struct run *run, int index, const struct price_table *table, int64_t below_ns,
                             struct busy *known)
{
    int64_t *least_ns = &run->result->certificate.simulated_bound_ns;
    struct busy_problem problem = busy_problem_of(&run->bench.chain, &run->configs[index], table);
    if (!busy_bound(&run->busy_ns[index], &problem, below_ns, known, run->err))
        return false;
    *least_ns = min_i64(*least_ns, run->busy_ns[index]);
    return true;
}

/* Enters into the certificate what a configuration's first bound says of it. */
static bool enter_known(struct run *run, int index, struct busy *busy)
{
    struct certificate *certificate = &run->result->certificate;
    const struct price_table *table = run->bound_table[index];
    certificate_hash_add(&certificate->hash, &run->configs[index], table);
    run->busy_ns[index] = INT64_MAX;
    if (!table) {
        first_bounds_record(run, index, FATE_REFUSED);
        return true;
    }
    if (is_like_last(run, index)) {
        run->busy_ns[index] = run->busy_ns[index - 1];
        return true;
    }
    return first_bounds_simulation(run, index, table, certificate->simulated_bound_ns, busy);
}

bool first_bounds_enter(struct run *run)
{
    struct certificate *certificate = &run->result->certificate;
    struct busy *busy = busy_new();
    bool unseen = false, good = busy != NULL || fail_memory(run->err);
    certificate->simulated_bound_ns = INT64_MAX;
    certificate->hash = certificate_hash_start(&run->options->space);
    certificate_hash_orders(&certificate->hash, certificate->ideals);
    for (int i = 0; i < run->config_count && good; i++) {
        if (run->is_bounded[i]) {
            good = enter_known(run, i, busy);
            continue;
        }
        unseen = true;
        run->busy_ns[i] = INT64_MAX;
        first_bounds_record(run, i, FATE_UNSEEN);
    }
    if (unseen) /* nothing is known of them */
        certificate->simulated_bound_ns = run->open_bound_ns = 0;
    busy_free(busy);
    return good;
}
