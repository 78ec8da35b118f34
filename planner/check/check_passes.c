#include "planner/check/check_passes.h"
#include "base/num.h"
#include "planner/check/check_flight.h"
#include "planner/bound/passes_choices.h"
#include <string.h>

enum { ROUNDS = 1500, MISSING_PPM = 100, FINE = 65536, MOST_SHARE = 4, MOMENTS = 2048 };
/* Where two passes meet, what may overlap is left out: of the largest layer once, or of each of them. */
enum overlap { WAITS, RECOMPUTED, LATE_WEIGHTS, OVERLAPS };

struct done {
    enum action_kind kind;
    int stage, piece, micro;
};
/* How often all paths together meet a piece, by weight. */
struct meets {
    int64_t forward, input, weight, adding, after_message, before_message, last;
    int64_t resident_ns, kept_ns, put_off_ns;
};
struct passes_check {
    const struct chain *chain;
    const struct config *config;
    const struct price_table *table;
    const struct passes_mix *mix;
    int64_t capacity_bytes, all, memory_ns; /* all: what paths and lane weigh */
    int pieces, count, *first;              /* (stages + 1) */
    struct done *done;                      /* (count) stage by stage */
    struct meets *meets;                    /* (pieces) */
    int *layers;                            /* (classes) */
};

static bool goes_back(enum action_kind kind)
{
    return kind == ACTION_BACKWARD || kind == ACTION_BACKWARD_INPUT;
}

static bool goes_late(enum action_kind kind)
{
    return kind == ACTION_BACKWARD || kind == ACTION_BACKWARD_WEIGHT;
}

static struct schedule_place place_of(const struct config *config, int stage)
{
    struct schedule_place place = schedule_place_even(config->stages, stage, config->micro_batch_count, config->extra);
    place.chunks = config_chunks(config);
    return place;
}

static bool list_order(struct passes_check *c, int stage, struct arena *arena)
{
    const struct schedule *schedule = schedules[c->config->schedule];
    struct schedule_place place = place_of(c->config, stage);
    int count = c->first[stage + 1] - c->first[stage];
    struct action *actions = arena_alloc(arena, (size_t)count, sizeof *actions);
    if (!actions)
        return false;
    schedule->order(&place, actions);
    for (int i = 0; i < count; i++) {
        int piece = schedule_piece(schedule, c->config->stages, stage, actions[i].chunk);
        c->done[c->first[stage] + i] = (struct done){ actions[i].kind, stage, piece % c->pieces, actions[i].micro };
    }
    return true;
}

static bool passes_open(struct passes_check *c, struct arena *arena)
{
    c->pieces = config_pieces(c->config);
    c->first = arena_alloc(arena, (size_t)c->config->stages + 1, sizeof *c->first);
    for (int k = 0; c->first && k < c->config->stages; k++) {
        struct schedule_place place = place_of(c->config, k);
        c->first[k + 1] = c->first[k] + schedules[c->config->schedule]->order(&place, NULL);
    }
    c->count = c->first ? c->first[c->config->stages] : 0;
    c->done = arena_alloc(arena, (size_t)c->count, sizeof *c->done);
    c->meets = arena_alloc(arena, (size_t)c->pieces, sizeof *c->meets);
    c->layers = arena_alloc(arena, (size_t)c->table->class_count, sizeof *c->layers);
    for (int k = 0; c->first && c->done && k < c->config->stages; k++)
        if (!list_order(c, k, arena))
            return false;
    for (int l = 0; c->layers && l < c->chain->layer_count; l++)
        c->layers[c->chain->class_of[l]]++;
    return c->first && c->done && c->meets && c->layers;
}

/* ---- whether it is true ---- */

static bool waits_for(const struct passes_check *c, int later, int earlier)
{
    const struct done *a = &c->done[earlier], *b = &c->done[later];
    bool next = later == earlier + 1 && a->stage == b->stage;
    bool up = a->kind == ACTION_FORWARD && b->kind == ACTION_FORWARD && b->piece == a->piece + 1;
    bool down = goes_back(a->kind) && goes_back(b->kind) && b->piece == a->piece - 1;
    return next || (a->micro == b->micro && (up || down));
}

static bool is_path(const struct passes_check *c, const struct mix_path *path)
{
    bool good = path->weight >= 0 && path->weight <= MIX_WEIGHT && path->count > 0 && path->count <= c->count;
    for (int i = 0; good && i < path->count; i++)
        good = path->pass[i] >= 0 && path->pass[i] < c->count &&
               (i == 0 || waits_for(c, path->pass[i], path->pass[i - 1]));
    return good;
}

static bool is_true(const struct passes_check *c)
{
    bool good = c->mix->lane_weight >= 0 && c->mix->lane_weight <= MIX_WEIGHT;
    for (int i = 0; good && i < c->mix->path_count; i++)
        good = is_path(c, &c->mix->paths[i]);
    for (int i = 0; good && i < c->mix->moment_count; i++) {
        const struct mix_moment *moment = &c->mix->moments[i];
        good = moment->weight_ns >= 0 && moment->stage >= 0 && moment->stage < c->config->stages && moment->done >= 0 &&
               moment->done <= c->first[moment->stage + 1] - c->first[moment->stage];
    }
    return good;
}

/* ---- what it says ---- */

static bool lies_on(const struct passes_check *c, int piece, int stage)
{
    for (int i = c->first[stage]; i < c->first[stage + 1]; i++)
        if (c->done[i].piece == piece)
            return true;
    return false;
}

static void meet_path(struct passes_check *c, const struct mix_path *path)
{
    int firsts = schedules[c->config->schedule]->copies ? 2 : 1;
    for (int i = 0; i < path->count; i++) {
        const struct done *now = &c->done[path->pass[i]],
                          *next = i + 1 < path->count ? &c->done[path->pass[i + 1]] : now;
        struct meets *meets = &c->meets[now->piece];
        bool leaves = next->stage != now->stage;
        meets->forward += now->kind == ACTION_FORWARD ? path->weight : 0;
        meets->input += goes_back(now->kind) ? path->weight : 0;
        meets->weight += goes_late(now->kind) ? path->weight : 0;
        meets->adding += goes_late(now->kind) && now->micro >= firsts ? path->weight : 0;
        meets->before_message += leaves && now->kind == ACTION_BACKWARD ? path->weight : 0;
        c->meets[next->piece].after_message += leaves && goes_back(next->kind) ? path->weight : 0;
    }
    int stage = c->done[path->pass[path->count - 1]].stage;
    for (int q = 0; q < c->pieces; q++)
        if (lies_on(c, q, stage))
            c->meets[q].last += path->weight;
    c->all += path->weight;
}

static void meet_moment(struct passes_check *c, const struct mix_moment *moment)
{
    for (int q = 0; q < c->pieces; q++) {
        struct meets *meets = &c->meets[q];
        if (!lies_on(c, q, moment->stage))
            continue;
        meets->resident_ns += moment->weight_ns;
        for (int i = c->first[moment->stage]; i < c->first[moment->stage] + moment->done; i++) {
            enum action_kind kind = c->done[i].kind;
            if (c->done[i].piece != q)
                continue;
            meets->kept_ns += kind == ACTION_FORWARD ? moment->weight_ns : goes_back(kind) ? -moment->weight_ns : 0;
            meets->put_off_ns += kind == ACTION_BACKWARD_INPUT    ? moment->weight_ns
                                 : kind == ACTION_BACKWARD_WEIGHT ? -moment->weight_ns
                                                                  : 0;
        }
    }
    c->memory_ns += moment->weight_ns;
}

static int64_t held_ns(const struct passes_check *c, int64_t ns, int64_t bytes)
{
    double share = (double)bytes / (double)c->capacity_bytes;
    return ns / FINE * (share < MOST_SHARE ? (int64_t)(share * FINE) : (int64_t)MOST_SHARE * FINE);
}

static int64_t layer_takes(const struct passes_check *c, int class_index, int strategy, const struct meets *at,
                           const bool *each)
{
    const struct least_price *p = &price_at(c->table, class_index, strategy)->least;
    bool own = !flight_shares_weight(c->chain, c->config, class_index);
    int64_t late = each[LATE_WEIGHTS] ? at->before_message : 0, m = c->config->micro_batch_count;
    int copies = schedules[c->config->schedule]->copies ? 2 : 1;
    int64_t inner = min_i64(min_i64(at->forward, at->input), at->weight);
    int64_t path = at->forward * p->forward_ns + at->input * p->input_ns + (at->weight - late) * p->weight_ns +
                   max_i64(0, at->adding - late) * p->adding_ns + inner * p->gap_ns +
                   (at->input - (each[RECOMPUTED] ? at->after_message : 0)) * p->again_ns;
    if (!each[WAITS])
        path += at->forward * p->enter_gap_ns + at->input * p->return_gap_ns;
    int64_t held = held_ns(c, at->kept_ns, price_kept_bytes(p, price_offloads(c->table))) +
                   held_ns(c, at->put_off_ns, p->put_off_bytes);
    if (own) {
        path += at->last * p->update_ns;
        path += c->mix->lane_weight * (least_lane_ns(p, m, copies) / c->config->stages);
        held += held_ns(c, at->resident_ns, p->resident_bytes);
    }
    return path + c->all * held;
}

/* The most that any layer has of what may overlap, and what ends of the lane's work two passes may share. */
struct largest {
    int64_t enter_ns, return_ns, again_ns, weight_ns, gathers_ns;
};

static struct largest find_largest(const struct passes_check *c)
{
    struct largest most = { 0 };
    for (int i = 0; i < c->table->class_count * c->table->strategy_count; i++) {
        const struct layer_price *p = &c->table->prices[i];
        if (c->layers[i / c->table->strategy_count] == 0)
            continue;
        most.enter_ns = max_i64(most.enter_ns, p->least.enter_gap_ns);
        most.return_ns = max_i64(most.return_ns, p->least.return_gap_ns);
        most.again_ns = max_i64(most.again_ns, p->least.again_ns);
        most.weight_ns = max_i64(most.weight_ns, p->least.weight_ns + p->least.adding_ns);
        most.gathers_ns = max_i64(most.gathers_ns, p->gather_forward_ns + p->gather_backward_ns);
    }
    return most;
}

static int64_t left_out_ns(const struct passes_check *c, const bool *each)
{
    struct largest most = find_largest(c);
    int64_t chunks = config_chunks(c->config), ahead = c->config->prefetch, sum = 0, shared_ns = 0;
    if (c->config->stages * chunks > 1 || c->chain->layer_count <= ahead)
        shared_ns = ahead * c->config->micro_batch_count * most.gathers_ns;
    for (int q = 0; q < c->pieces; q++) {
        const struct meets *at = &c->meets[q];
        if (!each[WAITS])
            sum += at->forward * most.enter_ns + at->input * most.return_ns;
        if (!each[RECOMPUTED])
            sum += at->after_message * most.again_ns;
        if (!each[LATE_WEIGHTS])
            sum += at->before_message * most.weight_ns;
    }
    return sum + c->mix->lane_weight * (chunks * shared_ns);
}

static int64_t said_ns(const struct passes_check *c, int overlaps)
{
    bool each[OVERLAPS];
    for (int i = 0; i < OVERLAPS; i++)
        each[i] = (overlaps >> i & 1) != 0;
    int64_t sum = -left_out_ns(c, each) - c->all * c->memory_ns;
    for (int class_index = 0; class_index < c->table->class_count; class_index++) {
        int64_t least = INT64_MAX;
        if (c->layers[class_index] == 0)
            continue;
        for (int q = 0; q < c->pieces; q++)
            for (int s = 0; s < c->table->strategy_count; s++)
                least = min_i64(least, layer_takes(c, class_index, s, &c->meets[q], each));
        sum += c->layers[class_index] * least;
    }
    return sum <= 0 || c->all <= 0 ? 0 : ceil_div(sum, c->all);
}

/* What the mix proves, up to enough_ns; 0: it is not of true inequalities. */
static int64_t proven_ns(struct passes_check *c, const struct passes_mix *mix, int64_t enough_ns)
{
    int64_t most_ns = 0;
    c->mix = mix;
    c->all = mix->lane_weight;
    c->memory_ns = 0;
    memset(c->meets, 0, (size_t)c->pieces * sizeof *c->meets);
    if (!is_true(c))
        return 0;
    for (int i = 0; i < mix->path_count; i++)
        meet_path(c, &mix->paths[i]);
    for (int i = 0; i < mix->moment_count; i++)
        meet_moment(c, &mix->moments[i]);
    for (int overlaps = 0; overlaps < 1 << OVERLAPS && most_ns < enough_ns; overlaps++)
        most_ns = max_i64(most_ns, said_ns(c, overlaps));
    return most_ns;
}

bool passes_mix_proves(bool *proves, const struct passes_mix *mix, const struct chain *chain,
                       const struct config *config, const struct price_table *table, int64_t capacity_bytes,
                       int64_t bound_ns, struct error *err)
{
    struct arena arena = { 0 };
    struct passes_check c = {
        .chain = chain, .config = config, .table = table, .capacity_bytes = max_i64(capacity_bytes, 1)
    };
    bool good = passes_open(&c, &arena) || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    *proves = good && proven_ns(&c, mix, bound_ns) >= max_i64(bound_ns, 1);
    arena_free(&arena);
    return good;
}

/* ---- what is proposed ---- */

/* Mixes for one configuration, and the best of them so far. */
struct judged {
    struct passes_check *check;
    struct passes_book *book;
    struct passes_entry *entry;
    int64_t bound_ns, most_ns;
    double unit_ns;
    bool failed;
};

/* With moments as they are proposed, and with other weights of theirs. */
static double judge(void *self, const struct passes_mix *mix)
{
    static const int quarters[] = { 4, 0, 2, 3, 5, 6, 8 };
    struct judged *j = self;
    struct passes_mix tried = *mix;
    struct mix_moment moments[MOMENTS];
    int64_t most_ns = proven_ns(j->check, mix, j->bound_ns);
    const struct passes_mix *best = mix;
    for (int k = 1; k < 7 && most_ns < j->bound_ns && mix->moment_count > 0 && mix->moment_count <= MOMENTS; k++) {
        struct mix_moment scaled[MOMENTS];
        struct passes_mix other = *mix;
        other.moments = scaled;
        for (int i = 0; i < mix->moment_count; i++) {
            scaled[i] = mix->moments[i];
            scaled[i].weight_ns = scaled[i].weight_ns * quarters[k] / 4;
        }
        int64_t ns = proven_ns(j->check, &other, j->bound_ns);
        if (ns <= most_ns)
            continue;
        most_ns = ns;
        memcpy(moments, scaled, sizeof moments);
        tried.moments = moments;
        best = &tried;
    }
    if (most_ns > j->most_ns) {
        j->most_ns = most_ns;
        j->failed = j->failed || (best != &j->entry->mix && !passes_keep(j->book, j->entry, best));
    }
    return (double)most_ns / j->unit_ns;
}

/* By what the layers take in `like`. */
static bool look_for_mix(struct judged *j, const struct passes_of *like, bool thorough, struct arena *arena,
                         struct error *err)
{
    const struct passes_check *c = j->check;
    struct mix_effort effort = {
        .rounds = ROUNDS, .missing_ppm = MISSING_PPM, .work = INT64_MAX, .thorough = thorough
    };
    struct mix_choice choice[MIX_KINDS * MIX_CHOICES];
    struct mix_problem problem = { .passes = &j->entry->passes, .judge = judge, .self = j, .effort = &effort };
    if (!passes_choose(&problem, choice, c->chain, like->config, like->table, c->capacity_bytes, arena))
        return fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    j->unit_ns = problem.unit_ns;
    problem.enough = (double)j->bound_ns / problem.unit_ns;
    return passes_mix(&problem, arena, err);
}

bool passes_hold(bool *holds, struct passes_book *book, const struct chain *chain, const struct passes_of *own,
                 const struct passes_of *like, int64_t capacity_bytes, int64_t bound_ns, struct error *err)
{
    const struct config *config = own->config;
    struct arena arena = { 0 };
    struct passes_check c = {
        .chain = chain, .config = config, .table = own->table, .capacity_bytes = max_i64(capacity_bytes, 1)
    };
    struct judged j = { .check = &c, .book = book, .bound_ns = bound_ns, .unit_ns = 1 };
    *holds = false;
    if (config->meshes > 0 || config->runs > 1 || schedules[config->schedule]->asynchronous ||
        !passes_are_few(chain, config))
        return true;
    j.entry = passes_entry(book, config);
    bool good = (j.entry && passes_open(&c, &arena)) || fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    if (good && j.entry->mix.path_count > 0)
        judge(&j, &j.entry->mix);
    for (int thorough = like != own; thorough < 2 && good && j.most_ns < bound_ns; thorough++)
        good = look_for_mix(&j, like, thorough, &arena, err);
    if (good && j.failed)
        good = fail_kind(err, ERROR_ENVIRONMENT, "check: out of memory");
    *holds = good && j.most_ns >= bound_ns;
    arena_free(&arena);
    return good;
}
