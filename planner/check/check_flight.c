#include "planner/check/check_flight.h"
#include "base/climb.h"
#include "base/num.h"

enum { PATH, UPDATES, MEMORY, FREE, AXES }; /* FREE: levels, from the fewest in flight on, whose memory is free */
enum { LEVELS = 8, WEIGHT = 1024, FINE = 65536, MOST_SHARE = 4, MEMORY_UNITS = 16 };
static const int whole[] = { 16, 4, 128 };

/* What of one layer under one strategy is the same on all stages, and its share of what a device has. */
struct need {
    int64_t kernels_ns, updates_ns, shared_ns, moved_ns, held[LEVELS];
};
struct flight_check {
    const struct chain *chain;
    const struct config *config;
    const struct price_table *table;
    int copies, levels;
    bool offloads;
    int in_flight[LEVELS], groups[LEVELS];
    int64_t before_ns[LEVELS];
    struct need *needs;                /* (classes, strategies) */
    int *layers;                       /* (classes) */
    int64_t memory_unit_ns, reused_ns; /* reused: gathers of as many layers as run ahead */
    int64_t hidden_ns; /* gaps before the first kernels of layers, there and back: perhaps none where stages meet */
};

/* By piece of the model, over both copies; where there is one, by stage: of the chunk that has fewest. */
static bool count_held(const struct config *config, int *held, struct arena *arena)
{
    const struct schedule *schedule = schedules[config->schedule];
    int chunks = config_chunks(config), *now = arena_alloc(arena, (size_t)chunks, sizeof *now);
    for (int k = 0; now && k < config->stages; k++) {
        struct schedule_place place = schedule_place_even(config->stages, k, config->micro_batch_count, config->extra);
        place.chunks = chunks;
        if (!schedule_flight(now, schedule, &place))
            return false;
        int fewest = now[0];
        for (int c = 0; c < chunks; c++) {
            fewest = now[c] < fewest ? now[c] : fewest;
            if (schedule->copies)
                held[schedule_piece(schedule, config->stages, k, c) % config->stages] += now[c];
        }
        if (!schedule->copies)
            held[k] = fewest;
    }
    return now != NULL;
}

static int level_of(const struct flight_check *f, int held)
{
    int level = 0;
    while (level + 1 < f->levels && f->in_flight[level + 1] <= held)
        level++;
    return level;
}

static void sort_stages(struct flight_check *f, const int *held, int groups, const int64_t *before_ns)
{
    int most = 0;
    for (int g = 0; g < groups; g++)
        most = held[g] > most ? held[g] : most;
    for (int share = 0; share < LEVELS; share++) {
        int next = 0, last = f->levels > 0 ? f->in_flight[f->levels - 1] : -1;
        for (int g = 0; g < groups; g++) {
            bool above = held[g] > last && held[g] >= share * most / LEVELS;
            next = above && (next == 0 || held[g] < next) ? held[g] : next;
        }
        if (next > 0)
            f->in_flight[f->levels++] = next;
    }
    for (int g = 0; g < groups; g++) {
        int level = level_of(f, held[g]);
        f->groups[level]++;
        f->before_ns[level] += before_ns[g] + (f->copies == 2 ? before_ns[f->config->stages - 1 - g] : 0);
    }
}

static int64_t all_kernels(const struct least_price *least)
{
    return least->forward_ns + least->input_ns + least->weight_ns + least->again_ns + least->enter_gap_ns +
           least->gap_ns + least->return_gap_ns;
}

bool flight_shares_weight(const struct chain *chain, const struct config *config, int class_index)
{
    int tied = schedules[config->schedule]->copies ? chain->tied_first : -1;
    return tied >= 0 && chain->class_of[tied] == class_index;
}

static struct need need_of(const struct flight_check *f, int class_index, const struct least_price *least,
                           int64_t capacity_bytes)
{
    int64_t m = f->config->micro_batch_count, kept_bytes = price_kept_bytes(least, f->offloads);
    bool own = !flight_shares_weight(f->chain, f->config, class_index);
    struct need need = { .kernels_ns = m * all_kernels(least) };
    if (own) {
        need.updates_ns = least->update_ns;
        need.shared_ns = least->refresh_ns;
        need.moved_ns = least_lane_ns(least, m, f->copies);
    }
    for (int n = 0; n < f->levels; n++) {
        int64_t weights = own ? f->copies * least->resident_bytes : 0, one = own ? least->held_bytes : 0;
        int64_t bytes = f->in_flight[n] > 1 ? weights + f->in_flight[n] * kept_bytes : one;
        double share = (double)bytes / (double)capacity_bytes;
        need.held[n] = share < MOST_SHARE ? (int64_t)(share * FINE) : (int64_t)MOST_SHARE * FINE;
    }
    return need;
}

static bool list_needs(struct flight_check *f, int64_t capacity_bytes, struct arena *arena)
{
    const struct price_table *table = f->table;
    int64_t m = f->config->micro_batch_count, there_ns = 0, back_ns = 0, gathers_ns = 0;
    f->needs = arena_alloc(arena, (size_t)(table->class_count * table->strategy_count), sizeof *f->needs);
    f->layers = arena_alloc(arena, (size_t)table->class_count, sizeof *f->layers);
    if (!f->needs || !f->layers)
        return false;
    for (int l = 0; l < f->chain->layer_count; l++) {
        f->layers[f->chain->class_of[l]]++;
        f->memory_unit_ns += all_kernels(&price_at(table, f->chain->class_of[l], 0)->least);
    }
    f->memory_unit_ns = f->memory_unit_ns * m / f->config->stages / MEMORY_UNITS;
    for (int c = 0; c < table->class_count; c++)
        for (int i = 0; i < table->strategy_count; i++) {
            const struct layer_price *price = price_at(table, c, i);
            f->needs[c * table->strategy_count + i] = need_of(f, c, &price->least, capacity_bytes);
            if (f->layers[c] == 0)
                continue;
            there_ns = max_i64(there_ns, price->least.enter_gap_ns);
            back_ns = max_i64(back_ns, price->least.return_gap_ns);
            gathers_ns = max_i64(gathers_ns, price->gather_forward_ns + price->gather_backward_ns);
        }
    bool is_cut = f->config->stages * config_chunks(f->config) > 1;
    if (is_cut || f->chain->layer_count <= f->config->prefetch)
        f->reused_ns = f->config->prefetch * m * gathers_ns;
    f->hidden_ns = is_cut ? m * (there_ns + back_ns) : 0;
    return true;
}

/* A layer of the class on a stage of the level. */
static int64_t layer_asks(const struct flight_check *f, int class_index, int level, const int *share)
{
    int64_t least = INT64_MAX, memory = level < share[FREE] ? 0 : share[MEMORY];
    for (int i = 0; i < f->table->strategy_count; i++) {
        const struct need *need = &f->needs[class_index * f->table->strategy_count + i];
        int64_t lane = whole[UPDATES] * need->kernels_ns + share[UPDATES] * need->updates_ns +
                       (whole[UPDATES] - share[UPDATES]) * need->shared_ns;
        int64_t held = f->memory_unit_ns * need->held[level] / FINE;
        least = min_i64(least, share[PATH] * lane + (whole[PATH] - share[PATH]) * whole[UPDATES] * need->moved_ns +
                                   whole[PATH] * whole[UPDATES] * memory * held);
    }
    return least / (whole[PATH] * whole[UPDATES]);
}

/* What each stage of a level asks beyond its layers, at least: for its first kernel, without what it need not wait for,
 * and without its memory. */
static int64_t stages_ask(const struct flight_check *f, int level, const int *share)
{
    int64_t parts = (int64_t)whole[PATH] * whole[UPDATES], path = share[PATH] * whole[UPDATES];
    int64_t memory = level < share[FREE] ? 0 : share[MEMORY], stages = f->groups[level] * f->copies;
    int64_t hidden = config_chunks(f->config) * ceil_div(path * f->hidden_ns + (parts - path) * f->reused_ns, parts);
    return path * f->before_ns[level] / parts - stages * (hidden + memory * f->memory_unit_ns);
}

static int64_t bound_in_flight(const void *self, const int *share)
{
    const struct flight_check *f = self;
    int64_t whole_model[LEVELS] = { 0 }, weight[LEVELS], lightest = INT64_MAX, asked = 0, stages = 0;
    for (int n = 0; n < f->levels; n++) {
        for (int c = 0; c < f->table->class_count; c++)
            whole_model[n] += f->layers[c] > 0 ? f->layers[c] * layer_asks(f, c, n, share) : 0;
        whole_model[n] = max_i64(whole_model[n], 1);
        lightest = min_i64(lightest, whole_model[n]);
    }
    if (lightest > INT64_MAX / WEIGHT / 4)
        return 0;
    for (int n = 0; n < f->levels; n++) {
        weight[n] = (int64_t)((double)lightest / (double)whole_model[n] * WEIGHT);
        asked += weight[n] * stages_ask(f, n, share);
        stages += weight[n] * f->groups[n] * f->copies;
    }
    for (int c = 0; c < f->table->class_count; c++) {
        int64_t least = INT64_MAX;
        for (int n = 0; n < f->levels && f->layers[c] > 0; n++)
            least = min_i64(least, weight[n] * layer_asks(f, c, n, share));
        asked += f->layers[c] > 0 ? f->layers[c] * least : 0;
    }
    return asked <= 0 || stages <= 0 ? 0 : ceil_div(asked, stages);
}

/* Whether sums stay within 63 bits. */
static bool is_countable(const struct flight_check *f)
{
    int64_t pieces = (int64_t)f->config->stages * config_chunks(f->config), most = INT64_MAX / WEIGHT / MOST_SHARE;
    return f->memory_unit_ns < most / whole[MEMORY] / (pieces + f->chain->layer_count) &&
           max_i64(f->hidden_ns, f->reused_ns) < most / pieces;
}

bool flight_holds(bool *holds, const struct chain *chain, const struct config *config, const struct price_table *table,
                  const int64_t *before_ns, int64_t capacity_bytes, int64_t bound_ns, struct error *err)
{
    struct arena arena = { 0 };
    struct flight_check f = {
        .chain = chain, .config = config, .table = table, .copies = schedules[config->schedule]->copies ? 2 : 1
    };
    int *held = arena_alloc(&arena, (size_t)config->stages, sizeof *held);
    bool good = held && count_held(config, held, &arena);
    *holds = false;
    for (int k = 0; good && f.copies == 2 && k < config->stages / 2; k++)
        held[k] = (int)min_i64(held[k], held[config->stages - 1 - k]);
    if (good)
        sort_stages(&f, held, config->stages / f.copies, before_ns);
    good =
        (good && list_needs(&f, capacity_bytes, &arena)) || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    for (int from = 0; good && is_countable(&f) && !*holds && from < 2; from++) {
        struct climb climb = { .axes = AXES,
                               .most = { whole[PATH], whole[UPDATES], whole[MEMORY], f.levels - 1 },
                               .at = { whole[PATH] >> from, whole[UPDATES] / 2, (MEMORY_UNITS / 2) << from, 0 },
                               .stride = { whole[PATH] / 4, 1, MEMORY_UNITS / 2, 2 },
                               .value = bound_in_flight,
                               .self = &f };
        *holds = climb_up(&climb) >= bound_ns;
    }
    arena_free(&arena);
    return good;
}
