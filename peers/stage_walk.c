/* One pass: ideals in order of size, so that the labels of an ideal are final when its turn comes. From each that has
 * labels the walk goes up through its supersets, depth first, as long as the stage may grow.
 *
 * With potentials, pairs with a pinch between them are not walked: stage_far.c. */
#include "base/num.h"
#include "peers/stage_walk.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ASK_EVERY = 1 << 16, FEW_SHARE = 8 };

void stage_walk_stop_with(struct stage_walk *walk, const struct stage_limits *limits)
{
    walk->stops = limits ? limits->stops : NULL;
    walk->stops_self = limits ? limits->self : NULL;
    walk->stopped = false;
}

const int64_t *stage_walk_work(const struct stage_walk *walk)
{
    return &walk->work;
}

/* ---- one stage ---- */

/* What is used behind label and choice; false if that is too much. */
static bool may_use(const struct stage_walk *walk, int label, int choice, int used[STAGE_AXES])
{
    const struct stage_model *model = walk->model;
    bool within = true;
    for (int axis = 0; axis < STAGE_AXES; axis++) {
        used[axis] = walk->labels[label].used[axis] + model->choices[choice].use[axis];
        within = within && used[axis] <= model->axis_limit[axis];
    }
    return within;
}

/* The largest load must be below this: -INFINITY if that is too little at the end, or if what is left cannot hold the
 * rest. */
static double finish_below(const struct stage_walk *walk, int above, const int used[STAGE_AXES])
{
    const struct stage_model *model = walk->model;
    if (above < walk->ideals->count - 1)
        return model->finish_below ? model->finish_below(model->self, above, used, walk->limit) : walk->limit;
    for (int axis = 0; axis < STAGE_AXES; axis++)
        if (model->axis_exact[axis] && used[axis] < model->axis_limit[axis])
            return -INFINITY;
    return walk->limit;
}

static bool may_leave(struct stage_walk *walk, int above, const int used[STAGE_AXES])
{
    if (!walk->uses || above == walk->ideals->count - 1)
        return finish_below(walk, above, used) > -INFINITY;
    struct stage_use *use = stage_labels_use(walk, above, used[1]);
    if (used[0] > use->fits && used[0] < use->fails)
        *(finish_below(walk, above, used) > -INFINITY ? &use->fits : &use->fails) = used[0];
    return used[0] <= use->fits;
}

static inline double larger(double a, double b)
{
    return a > b ? a : b;
}

static double value_behind(const struct stage_walk *walk, int label, double load)
{
    double value = walk->labels[label].value;
    return walk->objective == VALUE_SUM ? value + load : larger(value, load);
}

/* The stage with this load behind the label. */
static bool add_stage(struct stage_walk *walk, int label_index, int above, int choice, const int used[STAGE_AXES],
                      double load)
{
    struct stage_label fresh = { .value = value_behind(walk, label_index, load),
                                 .load = load,
                                 .ideal = above,
                                 .previous = label_index,
                                 .used = { (int16_t)used[0], (int16_t)used[1] },
                                 .choice = choice };
    return stage_labels_insert(walk, fresh);
}

/* A slot is asked about once: what stands in it is below. */
bool stage_walk_extend(struct stage_walk *walk, int label, int above, int choice, double load)
{
    int used[STAGE_AXES];
    if (!may_use(walk, label, choice, used))
        return true;
    double bound, *held = walk->slot ? &walk->slot_value[stage_labels_slot(walk, above, used[0])] : &bound;
    if (!walk->slot || isinf(*held))
        *held = finish_below(walk, above, used);
    return !(larger(walk->labels[label].value, load) < *held) || add_stage(walk, label, above, choice, used, load);
}

/* Of what a choice costs nobody knows how it came about. */
static double plain_load(struct stage_walk *walk, int below, int above, int choice)
{
    const int nothing[STAGE_AXES] = { 0 };
    return walk->model->load(walk->model->self, below, above, choice, nothing, walk->limit);
}

const struct ends *stage_walk_ends(struct stage_walk *walk, int ideal)
{
    const struct stage_model *model = walk->model;
    const struct potentials *potentials = &walk->potentials[(size_t)ideal * (size_t)model->choice_count];
    struct ends *ends = &walk->ends[ideal];
    if (ends->fits >= 0)
        return ends;
    *ends = (struct ends){ model->axis_limit[0], model->axis_limit[0] + 1, model->axis_limit[0] + 1 };
    for (int c = 0; c < model->choice_count; c++) {
        int use = model->choices[c].use[0];
        if (potentials[c].entry < walk->limit && use < ends->begins)
            ends->begins = use;
        if (potentials[c].exit < walk->limit && use < ends->leaves)
            ends->leaves = use;
    }
    while (ideal < walk->ideals->count - 1 && ends->fits > 0 &&
           !(finish_below(walk, ideal, (int[STAGE_AXES]){ ends->fits }) > -INFINITY))
        ends->fits--;
    return ends;
}

/* The innermost loop of what has one exact axis: what stage_walk_extend() writes cannot change what stands in locals.
 */
static bool relax_slots(struct stage_walk *walk, int below, int above)
{
    const struct stage_model *model = walk->model;
    const size_t choices = (size_t)model->choice_count;
    const bool far = walk->potentials && below != walk->start;
    const struct potentials *low = far ? &walk->potentials[(size_t)below * choices] : NULL,
                            *high = far ? &walk->potentials[(size_t)above * choices] : NULL;
    const struct own_label *first = walk->own, *end = first + walk->own_count;
    const double *held = &walk->slot_value[stage_labels_slot(walk, above, 0)], limit = walk->own_limit;
    int fits = model->axis_limit[0], least = 0;
    if (walk->ends) {
        const struct ends *ends = stage_walk_ends(walk, above);
        fits = ends->fits;
        if (far) {
            least = stage_walk_ends(walk, below)->begins;
            least = max_int(least, ends->leaves);
        }
        if (least > fits - first->used)
            return true;
    }
    for (size_t c = 0; c < choices; c++) {
        int use = model->choices[c].use[0], most = fits - use;
        if (use < least || first->used > most)
            continue;
        double load = far ? larger(high[c].key - low[c].key, larger(low[c].entry, high[c].exit))
                          : plain_load(walk, below, above, (int)c);
        if (!(load < limit))
            continue;
        for (const struct own_label *own = first; own < end && own->used <= most; own++)
            if (larger(own->value, load) < held[own->used + use] &&
                !stage_walk_extend(walk, own->label, above, (int)c, load))
                return false;
    }
    return true;
}

/* Whether a label makes any other of this use superfluous. */
static bool is_beaten(const struct stage_walk *walk, int above, const int used[STAGE_AXES])
{
    if (!walk->by_use || !walk->uses)
        return walk->by_use && stage_labels_beat(walk, above, used);
    const struct stage_use *use = stage_labels_use(walk, above, used[1]);
    return use->held < used[0] + walk->decides || (used[1] > 0 && use[-1].held <= used[0]);
}

/* The ways of a choice to place above \ below. Its load is asked for last: most stages are too small for the rest to
 * fit. It is the same behind all labels, or not smaller behind those that follow. */
static bool relax_choice(struct stage_walk *walk, int below, int above, int choice)
{
    const struct stage_model *model = walk->model;
    const struct stage_way *way = &walk->ways[choice > 0 ? walk->way_end[choice - 1] : 0],
                           *end = &walk->ways[walk->way_end[choice]];
    double load = NAN;
    for (; way < end && !(load >= walk->limit); way++) {
        if (is_beaten(walk, above, way->used) || !may_leave(walk, above, way->used))
            continue;
        const int16_t *before = walk->labels[way->label].used;
        if (model->context || isnan(load))
            load =
                model->load(model->self, below, above, choice, (int[STAGE_AXES]){ before[0], before[1] }, walk->limit);
        if (load < walk->limit && !add_stage(walk, way->label, above, choice, way->used, load))
            return false;
    }
    return true;
}

/* All ways to place above \ below behind the labels of `below`. */
static bool relax(struct stage_walk *walk, int below, int above)
{
    const struct stage_model *model = walk->model;
    bool ok = true;
    if (walk->slot)
        return relax_slots(walk, below, above);
    const double *least = model->least_loads ? model->least_loads(model->self, below, above) : NULL;
    for (int c = 0; ok && c < model->choice_count; c++)
        ok = (least && least[c] >= walk->limit) || relax_choice(walk, below, above, c);
    return ok;
}

/* ---- from below upwards ---- */

static void room_of(const struct stage_walk *walk, int ideal, int room[STAGE_AXES])
{
    memset(room, 0, STAGE_AXES * sizeof *room);
    for (int l = walk->head[ideal]; l >= 0; l = walk->labels[l].next)
        for (int axis = 0; axis < STAGE_AXES; axis++) {
            int left = walk->model->axis_limit[axis] - walk->labels[l].used[axis];
            room[axis] = max_int(room[axis], left);
        }
}

/* Whether a stage behind the label that ends at or below `end` can leave a rest that fits. */
static bool leaves_hope(const struct stage_walk *walk, int label, int end)
{
    const struct stage_model *model = walk->model;
    int below = walk->labels[label].ideal;
    const struct potentials *low = walk->potentials && below != walk->start
                                       ? &walk->potentials[(size_t)below * (size_t)model->choice_count]
                                       : NULL;
    for (int c = 0; c < model->choice_count; c++) {
        int used[STAGE_AXES];
        if ((!low || low[c].entry < walk->limit) && may_use(walk, label, c, used) &&
            walk->labels[label].value < model->finish_below(model->self, end, used, walk->limit))
            return true;
    }
    return false;
}

/* Those that use least of axis 1 first. */
static void sort_labels(struct stage_walk *walk, int ideal)
{
    int sorted = -1;
    for (int l = walk->head[ideal], next; l >= 0; l = next) {
        int *link = &sorted;
        while (*link >= 0 && walk->labels[*link].used[1] <= walk->labels[l].used[1])
            link = &walk->labels[*link].next;
        next = walk->labels[l].next;
        walk->labels[l].next = *link;
        *link = l;
    }
    walk->head[ideal] = sorted;
}

/* All choices behind all labels of the ideal: neither change while stages begin there. */
static bool list_ways(struct stage_walk *walk, int ideal)
{
    walk->way_count = 0;
    sort_labels(walk, ideal);
    for (int c = 0; c < walk->model->choice_count; c++) {
        for (int l = walk->head[ideal]; l >= 0; l = walk->labels[l].next) {
            struct stage_way way = { .label = l, .choice = c };
            if (!may_use(walk, l, c, way.used))
                continue;
            if (walk->way_count == walk->way_capacity) {
                int capacity = walk->way_capacity ? 2 * walk->way_capacity : 256;
                struct stage_way *grown = reallocarray(walk->ways, (size_t)capacity, sizeof *grown);
                if (!grown)
                    return fail_memory(walk->err);
                walk->ways = grown;
                walk->way_capacity = capacity;
            }
            walk->ways[walk->way_count++] = way;
        }
        walk->way_end[c] = walk->way_count;
    }
    return true;
}

/* The labels of the ideal side by side, by what they use: they do not change while stages begin there. Those that leave
 * nothing are of no use. end: an ideal that holds all that they can end at, or count. */
static void list_own(struct stage_walk *walk, int ideal, int end)
{
    bool ask = walk->model->finish_below && end < walk->ideals->count - 1;
    const int *slot = walk->slot ? &walk->slot[stage_labels_slot(walk, ideal, 0)] : NULL;
    walk->own_count = 0;
    walk->own_limit = slot ? -INFINITY : walk->limit;
    for (int used = 0; slot && used < walk->model->axis_limit[0]; used++)
        if (slot[used] >= 0 && (!ask || leaves_hope(walk, slot[used], end))) {
            walk->own[walk->own_count++] = (struct own_label){ walk->labels[slot[used]].value, slot[used], used };
            walk->own_limit = larger(walk->own_limit, finish_below(walk, ideal, (int[STAGE_AXES]){ used }));
        }
}

/* Between two looks at the clock; each pair takes as long as there are choices. */
static int pairs_between_asks(const struct stage_walk *walk)
{
    int pairs = ASK_EVERY / walk->model->choice_count;
    return pairs > 0 ? pairs : 1;
}

bool stage_walk_must_stop(struct stage_walk *walk)
{
    int64_t work = ++walk->work + (walk->model->inner_work ? *walk->model->inner_work : 0);
    if (work >= walk->pass_limit)
        walk->given_up = true;
    if (work >= walk->work_limit)
        walk->stopped = true;
    if (walk->stops && walk->work - walk->asked >= pairs_between_asks(walk)) {
        walk->asked = walk->work;
        walk->stopped = walk->stopped || walk->stops(walk->stops_self);
    }
    return walk->stopped || walk->given_up;
}

/* Steps into `next` with one node more; *grown says whether the walk goes on from there. */
static bool step_up(struct stage_walk *walk, int below, int next, int node, const int room[STAGE_AXES], bool *grown)
{
    const struct stage_model *model = walk->model;
    *grown = !model->may_grow || model->may_grow(model->self, below, next, room, walk->own_limit);
    if (!*grown)
        return true;
    if (model->add)
        model->add(model->self, node);
    return relax(walk, below, next);
}

/* What may be used before a stage that ends at the ideal. */
static int room_before(struct stage_walk *walk, int ideal)
{
    const struct ends *ends = stage_walk_ends(walk, ideal);
    return ends->leaves < ends->fits ? ends->fits - ends->leaves : 0;
}

/* walk->leaving: the ideals from `first` on under the pinch, those with most room first. */
static void list_leaving(struct stage_walk *walk, int first, int pinch)
{
    int most = walk->model->axis_limit[0], *end = walk->leaving_end;
    memset(end, 0, ((size_t)most + 1) * sizeof *end);
    for (int i = first; i < pinch; i++)
        end[room_before(walk, i)]++;
    for (int room = most - 1; room >= 0; room--)
        end[room] += end[room + 1];
    for (int i = first; i < pinch; i++)
        walk->leaving[--end[room_before(walk, i)]] = i;
    /* Each end has moved down to its beginning, which is the end of the rooms above it. */
    for (int room = most; room > 0; room--)
        end[room] = end[room - 1];
    end[0] = pinch - first;
    walk->listed_pinch = pinch;
}

/* The supersets of `below` among the first `count` of walk->leaving. */
static bool scan_leaving(struct stage_walk *walk, int below, int count)
{
    int used = walk->own->used + stage_walk_ends(walk, below)->begins;
    for (int k = 0; k < count; k++) {
        int above = walk->leaving[k];
        if (above <= below || walk->ends[above].fits < used)
            continue;
        if (stage_walk_must_stop(walk))
            return true;
        if (stages_within(walk->ideals, below, above) && !relax_slots(walk, below, above))
            return false;
    }
    return true;
}

/* The supersets of `below` with an index under `end`, depth first unless those at which a stage may end are few.
 */
static bool climb(struct stage_walk *walk, int below, int end)
{
    const struct stage_model *model = walk->model;
    const struct ideals *ideals = walk->ideals;
    int depth = 0, room[STAGE_AXES];
    room_of(walk, below, room);
    list_own(walk, below, end < walk->end ? end : walk->ideals->count);
    if (walk->slot ? walk->own_count == 0 : !list_ways(walk, below))
        return walk->slot != NULL;
    if (walk->ends && below != walk->start) {
        if (walk->listed_pinch != end)
            list_leaving(walk, below + 1, end);
        int count = walk->leaving_end[walk->own->used];
        if (count < (end - below) / FEW_SHARE)
            return scan_leaving(walk, below, count);
    }
    walk->stamp++;
    walk->path[depth++] = (struct stage_frame){ below, -1, ideals->first_up[below] };
    while (depth > 0) {
        struct stage_frame *top = &walk->path[depth - 1];
        if (top->at == ideals->first_up[top->ideal + 1] || walk->stopped || walk->given_up) {
            if (top->node >= 0 && model->drop)
                model->drop(model->self, top->node);
            depth--;
            continue;
        }
        int next = ideals->up_ideal[top->at], node = ideals->up_node[top->at];
        top->at++;
        if (walk->seen[next] == walk->stamp || next >= end || stage_walk_must_stop(walk))
            continue;
        walk->seen[next] = walk->stamp;
        bool grown = false;
        if (!step_up(walk, below, next, node, room, &grown))
            return false;
        if (grown)
            walk->path[depth++] = (struct stage_frame){ next, node, ideals->first_up[next] };
    }
    return true;
}

/* ---- passes ---- */

/* Whether a stage behind any label may hold the pinch. Those made last reach farthest. */
static bool any_reaches(const struct stage_walk *walk, int pinch)
{
    const struct stage_model *model = walk->model;
    for (int l = walk->label_count - 1; l >= 0 && model->may_grow; l--) {
        const struct stage_label *label = &walk->labels[l];
        const int room[STAGE_AXES] = { model->axis_limit[0] - label->used[0] };
        if (label->ideal >= pinch || model->may_grow(model->self, label->ideal, pinch, room, walk->limit))
            return true;
    }
    return !model->may_grow;
}

static bool pass_far(struct stage_walk *walk)
{
    int shown = walk->start, end = walk->end;
    stage_far_forget(walk);
    if (!climb(walk, walk->start, end)) /* a stage that begins here has a load of its own kind */
        return false;
    for (int i = walk->start + 1; i < end && !stage_walk_must_stop(walk); i++) {
        bool pinched = walk->pinch[i - 1] == i;
        if (pinched && !any_reaches(walk, i))
            break;
        for (; pinched && shown < i; shown++)
            if (!stage_far_show(walk, shown))
                return false;
        if (!stage_far_relax(walk, i))
            return false;
        if (pinched && !stage_far_show(walk, shown++))
            return false;
        if (!pinched && walk->head[i] >= 0 && !climb(walk, i, min_int(walk->pinch[i], end)))
            return false;
    }
    return true;
}

static bool pass_near(struct stage_walk *walk)
{
    const struct stage_model *model = walk->model;
    for (int i = walk->start; i < walk->end - 1 && !walk->stopped && !walk->given_up; i++) {
        int room[STAGE_AXES];
        if (walk->head[i] < 0)
            continue;
        room_of(walk, i, room);
        if (model->enter) {
            if (!model->enter(model->self, i, room, walk->limit, walk->err))
                return false;
            walk->asked = walk->work - pairs_between_asks(walk); /* that may have taken long */
        }
        if (!climb(walk, i, walk->end))
            return false;
    }
    return true;
}

/* What is below the start, or from the end on, is not read. */
static void forget_labels(struct stage_walk *walk)
{
    size_t count = (size_t)walk->end, start = (size_t)walk->start;
    size_t uses = (size_t)walk->model->axis_limit[1] + 1;
    walk->label_count = 0;
    memset(walk->head + start, -1, (count - start) * sizeof *walk->head);
    for (size_t u = walk->uses ? start * uses : 0; walk->uses && u < count * uses; u++)
        walk->uses[u] = (struct stage_use){ -1, INT_MAX, INT_MAX };
    for (size_t i = start; walk->ends && i < count; i++)
        walk->ends[i].fits = -1;
    if (!walk->slot)
        return;
    size_t first = stage_labels_slot(walk, walk->start, 0), end = stage_labels_slot(walk, walk->end, 0);
    memset(walk->slot + first, -1, (end - first) * sizeof *walk->slot);
    for (size_t i = first; i < end; i++)
        walk->slot_value[i] = INFINITY;
}

/* Ideals from `end` on are left out. */
static bool pass(struct stage_walk *walk, int start, int end, double limit, struct error *err)
{
    walk->limit = limit;
    walk->start = start;
    walk->end = end;
    walk->by_use = walk->objective == VALUE_MAX && (walk->model->context || walk->decides);
    walk->err = err;
    walk->given_up = false;
    walk->listed_pinch = -1;
    forget_labels(walk);
    if (!stage_labels_insert(walk, (struct stage_label){ .ideal = start, .previous = -1, .choice = -1 }))
        return false;
    bool far = walk->potentials && walk->objective == VALUE_MAX;
    return far ? pass_far(walk) : pass_near(walk);
}

bool stage_walk_pass(struct stage_walk *walk, int start, double limit, int *best, struct error *err)
{
    int last = walk->ideals->count - 1;
    *best = -1;
    if (!pass(walk, start, last + 1, limit, err))
        return false;
    for (int l = start < last ? walk->head[last] : -1; l >= 0; l = walk->labels[l].next)
        if (*best < 0 || walk->labels[l].value < walk->labels[*best].value)
            *best = l;
    return true;
}

static bool uses_all(const struct stage_walk *walk, const struct stage_label *label)
{
    for (int axis = 0; axis < STAGE_AXES; axis++)
        if (label->used[axis] < walk->model->axis_limit[axis])
            return false;
    return true;
}

int stage_walk_best(const struct stage_walk *walk, int above)
{
    int best = -1;
    for (int l = walk->head[above]; l >= 0; l = walk->labels[l].next)
        if (uses_all(walk, &walk->labels[l]) && (best < 0 || walk->labels[l].value < walk->labels[best].value))
            best = l;
    return best;
}

bool stage_walk_from(struct stage_walk *walk, int start, int end, double limit, double *value, struct error *err)
{
    if (!pass(walk, start, end, limit, err))
        return false;
    for (int i = 0; i < walk->ideals->count; i++) {
        int label = i > start && i < end ? stage_walk_best(walk, i) : -1;
        value[i] = label < 0 ? INFINITY : walk->labels[label].value;
    }
    return true;
}

bool stage_walk_stages(const struct stage_walk *walk, int label, struct arena *arena, struct stage **out, int *count,
                       struct error *err)
{
    const struct ideals *ideals = walk->ideals;
    int stages = 0;
    for (int l = label; walk->labels[l].previous >= 0; l = walk->labels[l].previous)
        stages++;
    struct stage *list = arena_alloc(arena, (size_t)stages, sizeof *list);
    if (!list)
        return fail_memory(err);
    for (int s = stages - 1, l = label; s >= 0; s--, l = walk->labels[l].previous) {
        const struct stage_label *top = &walk->labels[l], *under = &walk->labels[top->previous];
        list[s] =
            (struct stage){ .choice = top->choice, .load = top->load, .used = { under->used[0], under->used[1] } };
        list[s].nodes = arena_alloc(arena, (size_t)ideals->words, sizeof *list[s].nodes);
        if (!list[s].nodes)
            return fail_memory(err);
        for (int w = 0; w < ideals->words; w++)
            list[s].nodes[w] = ideal_bits(ideals, top->ideal)[w] & ~ideal_bits(ideals, under->ideal)[w];
        if (walk->model->detail && !walk->model->detail(walk->model->self, under->ideal, top->ideal, top->choice,
                                                        list[s].used, arena, &list[s].detail, &list[s].load, err))
            return false;
    }
    *out = list;
    *count = stages;
    return true;
}
