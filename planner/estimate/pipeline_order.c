/* The order of a walk: the passes of all stages and the messages between them, as far as each stage comes. A stage has
 * one lane out and one in, and a message takes both. What comes in comes in the order in which its receives are posted:
 * those of an action when the one before it begins, or early, by a clock (planner/lower/lower_arrivals.c). */
#include "base/num.h"
#include "planner/program/clock.h"
#include "planner/estimate/pipeline_parts.h"
#include <stdlib.h>
#include <string.h>

/* SHELF_ROOM_BYTES limits all orders that are kept; one of 100 stages and 300 micro-batches takes 3 MB. */
enum { SHELF_ROOM_BYTES = 1 << 25 };
/* A message that a stage receives. A token is what is in flight between two pieces: above micro_bits 2 * link +
 * backward, below the micro-batch of the step. */
struct receive {
    struct clock_message sent; /* time: 0 where they are posted by the actions that read them */
    int token;
    int action;  /* before which it is posted */
    int towards; /* the piece that reads it, below 0 for gradients: one pass may send it to several */
};
/* A stage while its order is made. */
struct stage_order {
    struct action *actions;
    int action_count, next;
    int *queue, queued, sent; /* tokens in the order of sending */
    struct receive *receives; /* in the order in which they are posted */
    int receive_count, received;
};
struct ordering {
    const struct pipeline *p;
    struct pipeline_order *out;
    struct stage_order *stages;
    int *piece_of;       /* (stages, chunks) */
    int *backwards_left; /* (pieces) that make gradients of weights */
    bool *there;         /* (tokens) where it is read */
    int micro_bits;
    bool skips; /* some value goes to a stage that is not the next: its sends stand where they are read (lower_times.c)
                 */
    bool early; /* receives are posted in the order of a clock (planner/lower/lower_arrivals.c) */
    struct arena scratch;
};

static int token_of(const struct ordering *o, int link, bool backward, int micro)
{
    return ((2 * link + backward) << o->micro_bits) + micro;
}

static int number_of(const struct ordering *o, int token)
{
    return token >> o->micro_bits;
}

static int micro_of_token(const struct ordering *o, int token)
{
    return token & ((1 << o->micro_bits) - 1);
}

/* Gives the piece that sends, or that receives; of replicas it is the one whose turn it is. */
static int end_of(const struct ordering *o, int token, bool receives)
{
    int number = number_of(o, token);
    const struct link *link = &o->p->links[number / 2];
    int first = (number % 2 == 1) == receives ? link->maker : link->reader,
        replicas = o->p->plan->chunk_count > 1 ? 1 : o->p->turns[first];
    return replicas == 1 ? first : first + micro_of_token(o, token) % replicas;
}

static int stage_of(const struct ordering *o, int token, bool receives)
{
    return o->p->pieces[end_of(o, token, receives)].stage;
}

static int micro_of(const struct ordering *o, int stage, const struct action *action)
{
    return action->micro * o->p->turns[stage] + o->p->plan->stages[stage].turn;
}

static int piece_of(const struct ordering *o, int stage, const struct action *action)
{
    return o->piece_of[stage * o->p->plan->chunk_count + action->chunk];
}

static int rank_of(const struct link *link, bool backward)
{
    return backward ? link->read_rank : link->made_rank;
}

/* ---- receives ---- */

/* Adds what an action reads from other stages, in the order of layers. */
static void add_read(struct ordering *o, int stage, int at)
{
    struct stage_order *s = &o->stages[stage];
    const struct action *action = &s->actions[at];
    bool backward = action->kind != ACTION_FORWARD;
    int number = piece_of(o, stage, action), micro = micro_of(o, stage, action);
    const struct piece *piece = &o->p->pieces[number];
    int others = action->kind == ACTION_BACKWARD_WEIGHT ? 0 : piece->link_count[!backward];
    for (int k = 0; k < others; k++) {
        int link = piece->links[!backward][backward ? k : others - 1 - k];
        int token = token_of(o, link, backward, micro), sender = stage_of(o, token, false);
        if (sender == stage)
            continue;
        s->receives[s->receive_count++] =
            (struct receive){ .token = token,
                              .action = at,
                              .sent = { .from = sender, .rank = rank_of(&o->p->links[link], backward) },
                              .towards = backward ? -number : number };
    }
}

static int compare_receives(const void *left, const void *right)
{
    const struct receive *a = left, *b = right;
    int order = clock_compare_messages(&a->sent, &b->sent);
    return order != 0 ? order : (a->towards > b->towards) - (a->towards < b->towards);
}

/* Sorts by insertion, since clocks tell about what the order of actions does: a receive moves by a place or none. */
static void sort_receives(struct receive *receives, int count)
{
    enum { MOVES = 8 };
    int64_t most = (int64_t)MOVES * count, moves = 0;
    for (int i = 1; i < count && moves <= most; i++) {
        struct receive own = receives[i];
        int at = i;
        for (; at > 0 && compare_receives(&receives[at - 1], &own) > 0; at--)
            receives[at] = receives[at - 1];
        receives[at] = own;
        moves += i - at;
    }
    if (moves > most)
        qsort(receives, (size_t)count, sizeof *receives, compare_receives);
}

/* Sorts the receives of a stage by when the clock of the plan `walked` says that they are sent. */
static void sort_by_clock(const struct ordering *o, int stage, const struct clock *clock, const struct plan *walked)
{
    struct stage_order *s = &o->stages[stage];
    for (int i = 0; i < s->receive_count; i++) {
        int token = s->receives[i].token, from = end_of(o, token, false);
        s->receives[i].sent.time = clock_end(clock, walked, s->receives[i].sent.from, from / walked->stage_count,
                                             micro_of_token(o, token), number_of(o, token) % 2);
    }
    sort_receives(s->receives, s->receive_count);
    for (int i = 0, action = 0; i < s->receive_count; i++) {
        while (action < clock->stages[stage].count && !clock_posts_before(clock, stage, action, &s->receives[i].sent))
            action++;
        s->receives[i].action = action;
    }
}

/* Lists the receives of each stage. work: of each layer by place, where the clock is by work. */
static bool list_receives(struct ordering *o, const int *work, struct error *err)
{
    struct clock clock = { 0 };
    struct plan walked = *o->p->plan;
    walked.micro_batch_count = o->p->micro_batches;
    walked.chunk_group = schedules[walked.schedule]->grouped ? schedule_group(o->p->plan) : 0;
    if (o->early && !clock_run(&clock, &walked, false, work, &o->scratch, err))
        return false;
    for (int k = 0; k < walked.stage_count; k++) {
        struct stage_order *s = &o->stages[k];
        for (int at = 0; at < s->action_count; at++)
            add_read(o, k, at);
        if (o->early)
            sort_by_clock(o, k, &clock, &walked);
    }
    return true;
}

/* ---- passes and messages ---- */

static void arrive(struct ordering *o, const struct receive *receive)
{
    int token = receive->token, stage = stage_of(o, token, true);
    struct stage_order *from = &o->stages[receive->sent.from], *to = &o->stages[stage];
    /* a receive begins beside the action before its own, of which the weights' gradients may be one by themselves */
    int before = (int)min_i64(receive->action, to->next) - (schedules[o->p->plan->schedule]->splits ? 3 : 2);
    o->out->events[o->out->event_count++] = (struct event){ .number = number_of(o, token),
                                                            .at = before >= 0 ? o->out->first_end[stage] + before : 0,
                                                            .stage = receive->sent.from,
                                                            .to = stage,
                                                            .micro = (unsigned)micro_of_token(o, token) };
    o->there[token] = true;
    while (from->sent < from->queued && o->there[from->queue[from->sent]])
        from->sent++;
    while (to->received < to->receive_count && o->there[to->receives[to->received].token])
        to->received++;
}

/* True when the receiver would take it next. */
static bool is_awaited(const struct ordering *o, int token)
{
    const struct stage_order *to = &o->stages[stage_of(o, token, true)];
    const struct receive *next = &to->receives[to->received];
    return to->received < to->receive_count && to->next >= next->action && next->token == token;
}

/* True when the message is at the head of the sender's lane. Where values skip stages, sends stand in the order in
 * which they are read: others that nobody awaits yet stand behind it. */
static bool is_sent(const struct ordering *o, const struct stage_order *from, int token)
{
    for (int i = from->sent; i < from->queued; i++) {
        if (from->queue[i] == token)
            return true;
        if (!o->there[from->queue[i]] && (!o->skips || o->early || is_awaited(o, from->queue[i])))
            return false;
    }
    return false;
}

/* Lets what the stage waits for and others have ready arrive; true when something did. */
static bool receive(struct ordering *o, int stage)
{
    struct stage_order *s = &o->stages[stage];
    bool moved = false;
    while (s->received < s->receive_count && s->next >= s->receives[s->received].action) {
        const struct receive *next = &s->receives[s->received];
        if (!is_sent(o, &o->stages[next->sent.from], next->token))
            return moved;
        arrive(o, next);
        moved = true;
    }
    return moved;
}

/* Lets what the stage would send first arrive where stages wait for each other; lowering has another order there. */
static bool send_anyhow(struct ordering *o, int stage)
{
    struct stage_order *from = &o->stages[stage];
    if (from->sent == from->queued)
        return false;
    struct stage_order *to = &o->stages[stage_of(o, from->queue[from->sent], true)];
    for (int i = to->received; i < to->receive_count; i++)
        if (to->receives[i].token == from->queue[from->sent]) {
            arrive(o, &to->receives[i]);
            return true;
        }
    return false;
}

/* Hands on what the pass makes for other pieces, by messages unless both are on one stage. */
static void hand_on(struct ordering *o, struct stage_order *s, const struct event *pass)
{
    bool backward = pass->kind != ACTION_FORWARD;
    const struct piece *piece = &o->p->pieces[pass->number];
    int count = pass->kind == ACTION_BACKWARD_WEIGHT ? 0 : piece->link_count[backward];
    for (int rank = 0; rank < count; rank++)
        for (int i = 0; i < count; i++) {
            int link = piece->links[backward][i], token = token_of(o, link, backward, (int)pass->micro);
            if (rank_of(&o->p->links[link], backward) != rank)
                continue;
            if (stage_of(o, token, true) == pass->stage)
                o->there[token] = true;
            else
                s->queue[s->queued++] = token;
        }
}

static bool may_run(const struct ordering *o, const struct event *pass)
{
    bool backward = pass->kind != ACTION_FORWARD;
    const struct piece *piece = &o->p->pieces[pass->number];
    for (int i = 0; i < piece->link_count[!backward]; i++)
        if (!o->there[token_of(o, piece->links[!backward][i], backward, (int)pass->micro)])
            return false;
    return true;
}

/* Runs a stage's passes as far as what they need has arrived; false when nothing moved. */
static bool run_stage(struct ordering *o, int stage)
{
    struct stage_order *s = &o->stages[stage];
    int start = s->next;
    for (; s->next < s->action_count; s->next++) {
        const struct action *action = &s->actions[s->next];
        struct event pass = { .number = piece_of(o, stage, action),
                              .at = o->out->first_end[stage] + s->next,
                              .stage = stage,
                              .to = -1,
                              .micro = (unsigned)micro_of(o, stage, action),
                              .kind = action->kind };
        if (!may_run(o, &pass))
            break;
        if (action->kind == ACTION_BACKWARD || action->kind == ACTION_BACKWARD_WEIGHT)
            pass.last = --o->backwards_left[pass.number] == 0;
        o->out->passes[pass.number * PASS_KINDS + action->kind]++;
        o->out->events[o->out->event_count++] = pass;
        hand_on(o, s, &pass);
    }
    return s->next > start;
}

static bool run_stages(struct ordering *o, struct error *err)
{
    int stages = o->p->plan->stage_count;
    for (bool moved = true; moved;) {
        moved = false;
        for (int k = 0; k < stages; k++)
            moved |= run_stage(o, k);
        for (int k = 0; k < stages; k++)
            moved |= receive(o, k);
        for (int k = 0; !moved && k < stages; k++)
            moved = send_anyhow(o, k);
    }
    for (int k = 0; k < stages; k++)
        if (o->stages[k].next < o->stages[k].action_count)
            return fail(err, "search: schedule %s stalls at stage %d", schedules[o->p->plan->schedule]->name, k);
    return true;
}

/* ---- one order ---- */

static bool open_stage(struct ordering *o, int stage)
{
    const struct schedule *schedule = schedules[o->p->plan->schedule];
    struct stage_order *s = &o->stages[stage];
    struct schedule_place place = schedule_place_of(o->p->plan, stage);
    int chunks = o->p->plan->chunk_count;
    size_t messages = 0;            /* out, and as many in */
    int turns = o->p->turns[stage]; /* replicas that share the micro-batches */
    place.micro_count = (o->p->micro_batches - o->p->plan->stages[stage].turn + turns - 1) / turns;
    place.group = schedule_group(o->p->plan);
    int each = (chunks == 1 ? place.micro_count : o->p->micro_batches) / plan_copies(o->p->plan);
    s->action_count = schedule->order(&place, NULL);
    s->actions = arena_alloc(&o->scratch, (size_t)s->action_count, sizeof *s->actions);
    for (int chunk = 0; chunk < chunks; chunk++) {
        int number = schedule_piece(schedule, o->p->plan->stage_count, stage, chunk);
        o->piece_of[stage * chunks + chunk] = number;
        o->backwards_left[number] = each;
        messages += (size_t)each * (size_t)(o->p->pieces[number].link_count[0] + o->p->pieces[number].link_count[1]);
    }
    s->queue = arena_alloc(&o->scratch, messages, sizeof *s->queue);
    s->receives = arena_alloc(&o->scratch, messages, sizeof *s->receives);
    if (arena_failed(&o->scratch))
        return false;
    schedule->order(&place, s->actions);
    o->out->first_end[stage + 1] = o->out->first_end[stage] + s->action_count;
    return true;
}

static bool open_ordering(struct ordering *o)
{
    const struct pipeline *p = o->p;
    size_t stages = (size_t)p->plan->stage_count, pieces = (size_t)p->piece_count, tokens = 2 * (size_t)p->link_count;
    while (1 << o->micro_bits < p->micro_batches)
        o->micro_bits++;
    tokens <<= o->micro_bits;
    o->early = clock_posts_early(p->plan);
    for (int i = 0; i < p->link_count; i++)
        o->skips |= p->pieces[p->links[i].reader].stage > p->pieces[p->links[i].maker].stage + 1;
    o->early |= o->skips && clock_posts_skips(p->plan);
    o->stages = arena_alloc(&o->scratch, stages, sizeof *o->stages);
    o->piece_of = arena_alloc(&o->scratch, pieces, sizeof *o->piece_of);
    o->backwards_left = arena_alloc(&o->scratch, pieces, sizeof *o->backwards_left);
    o->there = arena_alloc(&o->scratch, tokens, sizeof *o->there);
    o->out->first_end = arena_alloc(&o->out->arena, stages + 1, sizeof *o->out->first_end);
    o->out->passes = arena_alloc(&o->out->arena, pieces * PASS_KINDS, sizeof *o->out->passes);
    if (arena_failed(&o->scratch) || arena_failed(&o->out->arena))
        return false;
    o->out->first_end[0] = 1;
    for (int k = 0; k < p->plan->stage_count; k++)
        if (!open_stage(o, k))
            return false;
    size_t events = (size_t)o->out->first_end[stages] + 2 * (size_t)p->link_count * (size_t)p->micro_batches;
    o->out->events = arena_alloc(&o->out->arena, events, sizeof *o->out->events);
    return o->out->events != NULL;
}

/* ---- orders that are kept ---- */

static void free_order(struct pipeline_order *order)
{
    arena_free(&order->arena);
    free(order);
}

void pipeline_shelf_close(struct pipeline_shelf *shelf)
{
    for (int i = 0; i < SHELF_LISTS; i++)
        for (struct pipeline_order *order = atomic_load(&shelf->orders[i]), *next; order; order = next) {
            next = order->next;
            free_order(order);
        }
    free(atomic_load(&shelf->work));
    *shelf = (struct pipeline_shelf){ 0 };
}

/* Gives clock_work() of the layers as the chain has them, which the shelf keeps, since they take longer to count than a
 * walk. *own: the caller frees it. NULL when out of memory. */
static const int *work_of(const struct chain *chain, struct pipeline_shelf *shelf, int **own)
{
    struct arena arena = { 0 };
    size_t bytes = (size_t)chain->layer_count * sizeof **own;
    int *none = NULL;
    *own = NULL;
    if (shelf && atomic_load(&shelf->work))
        return atomic_load(&shelf->work);
    const int *work = clock_work(chain->graph, NULL, &arena);
    int *kept = work ? malloc(bytes) : NULL;
    if (kept)
        memcpy(kept, work, bytes);
    arena_free(&arena);
    if (!shelf || !kept || !atomic_compare_exchange_strong(&shelf->work, &none, kept))
        *own = kept;
    return kept;
}

/* Lists what the order follows from, in the arena. */
static int64_t *key_of(const struct pipeline *p, const int *work, struct arena *arena, size_t *words)
{
    enum { LINK_WORDS = 4, COMMON = 7 };
    const struct plan *plan = p->plan;
    int64_t *key = arena_alloc(
        arena, COMMON + (size_t)(plan->stage_count + p->piece_count + LINK_WORDS * p->link_count), sizeof *key);
    size_t n = 0;
    if (!key)
        return NULL;
    const int64_t common[COMMON] = { plan->schedule,        plan->stage_count, plan->chunk_count,   p->micro_batches,
                                     plan->extra_in_flight, work != NULL,      schedule_group(plan) };
    for (int i = 0; i < COMMON; i++)
        key[n++] = common[i];
    for (int k = 0; k < plan->stage_count; k++)
        key[n++] = p->turns[k];
    for (int k = 0; work && k < p->piece_count; k++, n++)
        for (int l = 0; l < p->pieces[k].layers.count; l++)
            key[n] += work[p->pieces[k].layers.first + l];
    for (int i = 0; i < p->link_count; i++) {
        const struct link *link = &p->links[i];
        const int64_t own[LINK_WORDS] = { link->maker, link->reader, link->made_rank, link->read_rank };
        for (int k = 0; k < LINK_WORDS; k++)
            key[n++] = own[k];
    }
    *words = n;
    return key;
}

/* Keeps the order as long as there is room. Two threads may keep equal ones, which does no harm. */
static void keep(struct pipeline_shelf *shelf, struct pipeline_order *order)
{
    _Atomic(struct pipeline_order *) *place = &shelf->orders[order->hash % SHELF_LISTS];
    if (atomic_fetch_add(&shelf->bytes, arena_bytes(&order->arena)) > SHELF_ROOM_BYTES)
        return;
    order->kept = true;
    order->next = atomic_load(place);
    while (!atomic_compare_exchange_weak(place, &order->next, order))
        ;
}

/* Finds the key's order on the shelf or makes it, in the scratch. */
static bool find_or_make(struct pipeline_order **out, struct pipeline_shelf *shelf, const struct pipeline *p,
                         const int *work, struct arena *scratch, struct error *err)
{
    size_t words = 0;
    const int64_t *key = key_of(p, work, scratch, &words);
    if (!key)
        return fail_memory(err);
    uint64_t hash = mix64(hash_words(HASH_START, key, words));
    struct pipeline_order *known = shelf ? atomic_load(&shelf->orders[hash % SHELF_LISTS]) : NULL;
    while (known && (known->hash != hash || known->words != words || memcmp(known->key, key, words * sizeof *key) != 0))
        known = known->next;
    *out = known;
    if (known)
        return true;
    struct pipeline_order *made = calloc(1, sizeof *made);
    if (!made)
        return fail_memory(err);
    made->hash = hash;
    made->words = words;
    made->key = arena_alloc(&made->arena, words, sizeof *key);
    struct ordering o = { .p = p, .out = made };
    bool good =
        ((made->key && open_ordering(&o)) || fail_memory(err)) && list_receives(&o, work, err) && run_stages(&o, err);
    arena_free(&o.scratch);
    if (!good) {
        free_order(made);
        return false;
    }
    memcpy(made->key, key, words * sizeof *key);
    if (shelf)
        keep(shelf, made);
    *out = made;
    return true;
}

bool pipeline_order_take(struct pipeline_order **out, struct pipeline_shelf *shelf, const struct pipeline *p,
                         const struct chain *chain, struct error *err)
{
    struct arena scratch = { 0 };
    int *own = NULL, *work = NULL;
    bool good = true;
    if (p->plan->clock == CLOCK_WORK && clock_posts_early(p->plan)) {
        const int *by_layer = work_of(chain, shelf, &own);
        work = by_layer ? arena_alloc(&scratch, (size_t)p->plan->layer_count, sizeof *work) : NULL;
        good = work || fail_memory(err);
        for (int l = 0; work && l < p->plan->layer_count; l++)
            work[l] = by_layer[plan_layer_at(p->plan, l)];
    }
    good = good && find_or_make(out, shelf, p, work, &scratch, err);
    arena_free(&scratch);
    free(own);
    return good;
}

void pipeline_order_give(struct pipeline_order *order)
{
    if (order && !order->kept)
        free_order(order);
}
