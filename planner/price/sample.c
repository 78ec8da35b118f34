/* Compute path: instructions of the compute, tp, cp and ep lanes on a clock of their own; a layer's price is by how
 * much it moves the clock forward in the first micro-batch, with what later ones add to gradients. dp lane: sums; a
 * bucket is shared out over its weights by bytes.
 *
 * What backward may have to wait for in the dp lane follows from lifetimes and not from one placement of bytes: a
 * reduction's source keeps its bytes until the compute lane has left the next layer (lives.h), so from then on the
 * compute lane waits for it. No placement waits for more. */
#include "planner/price/sample_parts.h"
#include "planner/program/access.h"
#include "planner/program/loss_walk.h"
#include "base/num.h"
#include "planner/lower/lower.h"
#include <stdlib.h>
#include <string.h>

/* ---- lowering ---- */

static void set_sizes(struct sample *s, const struct graph *graph, const struct mesh *mesh)
{
    s->graph = graph;
    s->plan->batch = graph->batch;
    mesh_set_stages(mesh, 0, s->plan);
}

static bool make_plan(struct sample *s, const struct graph *graph)
{
    const struct sample_shape *shape = &s->shape;
    struct plan *plan = s->plan = plan_new(shape->stages, graph->layer_count);
    if (!plan)
        return false;
    plan->sequence = graph->sequence;
    plan->vocab_multiple = shape->vocab_multiple;
    plan->dtype = shape->dtype;
    plan->optimizer = shape->optimizer;
    plan->micro_batch_count = shape->micro_batches;
    plan->prefetch = shape->prefetch;
    plan->loss_chunks = shape->loss_chunks;
    plan->bucket_bytes = shape->bucket_bytes;
    plan->clip_norm = shape->clips;
    for (int k = 0, behind = 1 + price_sent_layer(graph); k < shape->stages; k++) {
        plan->stages[k].first_layer = k * behind;
        plan->stages[k].layer_count = k + 1 < shape->stages ? behind : graph->layer_count - k * behind;
    }
    for (int l = 0; l < graph->layer_count; l++)
        plan->layers[l] = shape->layer;
    set_sizes(s, graph, &shape->mesh);
    return true;
}

/* Hands out weights, whole or in shards. */
static bool hands_out(const struct instr *instr)
{
    return instr->op == OP_ALL_GATHER || instr->op == OP_BROADCAST;
}

static bool reduces_each_time(const struct instr *instr)
{
    return instr->lane == LANE_DP && !hands_out(instr) && instr->micro >= 0 && instr->phase != PHASE_STEP;
}

int sample_path_layer_of(const struct sample *s, const struct instr *instr)
{
    bool adds_up = instr->op == OP_REDUCE_SCATTER || instr->op == OP_ALL_REDUCE;
    if (!adds_up || !instr_is_forward(instr) || instr->pair_count == 0)
        return sample_layer_of(s, instr);
    const struct buffer *source = &s->program->buffers[s->program->pairs[instr->pair_first].source];
    int maker = source->kind == BUFFER_VALUE ? s->graph->values[source->id].producer : -1;
    return maker >= 0 ? s->graph->segments[maker].layer : sample_layer_of(s, instr);
}

bool sample_keeps(const struct sample *s, int buffer)
{
    const struct life *life = &s->lives[buffer];
    return !s->program->buffers[buffer].is_weight && life->first < s->turn && life->last >= s->turn;
}

bool sample_frees_first(const struct sample *s, int buffer)
{
    int last = s->graph->layer_count - 1;
    bool first = sample_keeps(s, buffer) && s->deferred_for[buffer] < 0;
    int maker = first ? sample_path_layer_of(s, &s->program->stages[0].instrs[s->lives[buffer].first]) : 0;
    for (int m = maker; first && m <= last; m++)
        for (int l = 0; first && l <= last; l++)
            first = l == m || s->graph->layers[l].class_index != s->graph->layers[m].class_index;
    return first;
}

/* Takes bytes over that must not count twice; those of what is saved count as saved from beginning to end. */
static void take_over(struct sample *s, int index, int from, int into)
{
    struct life *source = &s->lives[from], *taker = &s->lives[into];
    if (s->program->buffers[from].persistent || (sample_keeps(s, from) && !sample_frees_first(s, from)) ||
        s->within_saved[from]) {
        s->within_saved[into] = true;
    } else if (taker->last > index) {
        taker->first = taker->since = index + 1;
        taker->held = max_int(taker->held, source->held);
        source->held = index;
    }
}

static void skip_taken_over(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    struct access into;
    for (int i = 0; i < list->instr_count; i++)
        for (struct access_walk walk = access_walk(s->program, &list->instrs[i]); access_next(&walk, &into);) {
            int from = into.writes ? lives_taken_over(s->program, s->lives, 0, i, into.slot) : -1;
            if (from >= 0)
                take_over(s, i, from, into.buffer);
        }
}

/* Of one micro-batch, transfers of the step stand between those of the pass, which they are to leave alone. */
static void list_instructions(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        int release = -1;
        if (instr->phase == PHASE_STEP ? s->shape.micro_batches == 1 && instr->lane != LANE_COMPUTE : instr->micro > 0)
            continue;
        s->listed[s->list_count++] = i;
        if (instr->micro == 0 && instr->phase != PHASE_STEP)
            s->end = i + 1;
        for (int k = 0; reduces_each_time(instr) && k < instr->pair_count; k++) {
            int source = s->program->pairs[instr->pair_first + k].source;
            if (source >= 0 && !s->program->buffers[source].persistent)
                release = s->lives[source].held + 1;
        }
        if (release < 0)
            continue;
        s->release[s->release_count] = release;
        s->releasing[s->release_count++] = i;
    }
}

static void list_buffers(struct sample *s)
{
    const struct stage_program *list = &s->program->stages[0];
    int step = list->instr_count;
    while (step > 0 && list->instrs[step - 1].phase == PHASE_STEP)
        step--;
    for (int b = 0; b < s->program->buffer_count; b++) {
        const struct buffer *buffer = &s->program->buffers[b];
        bool early = is_index(s->lives[b].first, s->end);
        if (buffer->persistent || early || s->lives[b].last >= step || s->plan->stage_count > 1)
            s->sized[s->sized_count++] = b;
    }
}

static bool open_arrays(struct sample *s)
{
    size_t instrs = (size_t)s->program->stages[0].instr_count, buffers = (size_t)s->program->buffer_count;
    struct arena *a = &s->arena;
    s->weight_layer = arena_alloc(a, (size_t)s->graph->weight_count, sizeof *s->weight_layer);
    s->listed = arena_alloc(a, instrs, sizeof *s->listed);
    s->release = arena_alloc(a, instrs, sizeof *s->release);
    s->releasing = arena_alloc(a, instrs, sizeof *s->releasing);
    s->behind = arena_alloc(a, instrs, sizeof *s->behind);
    s->sized = arena_alloc(a, buffers, sizeof *s->sized);
    s->lives = arena_alloc(a, buffers, sizeof *s->lives);
    s->kept_layer = arena_alloc(a, buffers, sizeof *s->kept_layer);
    s->within_saved = arena_alloc(a, buffers, sizeof *s->within_saved);
    s->deferred_for = arena_alloc(a, buffers, sizeof *s->deferred_for);
    s->duration = arena_alloc(a, instrs, sizeof *s->duration);
    s->finish = arena_alloc(a, instrs, sizeof *s->finish);
    s->alike_finish = arena_alloc(a, instrs, sizeof *s->alike_finish);
    s->change = arena_alloc(a, instrs + 2, sizeof *s->change);
    s->passes = arena_alloc(a, 2 * (size_t)s->graph->layer_count, sizeof *s->passes);
    s->by_layer = arena_alloc(a, (size_t)s->graph->layer_count, sizeof *s->by_layer);
    s->issued = arena_alloc(a, 3 * (size_t)s->graph->layer_count, sizeof *s->issued);
    return sample_list_alone(s);
}

static bool dissect(struct sample *s, struct error *err)
{
    if (!open_arrays(s))
        return fail_memory(err);
    for (int i = s->graph->segment_count - 1; i >= 0; i--)
        for (int k = 0; k < s->graph->segments[i].weight_count; k++)
            s->weight_layer[s->graph->segments[i].weight[k].id] = s->graph->segments[i].layer;
    if (!lives_find(s->program, s->lives, err))
        return false;
    sample_list_deferred(s);
    const struct stage_program *list = &s->program->stages[0];
    s->turn = list->instr_count;
    for (int i = list->instr_count - 1; i >= 0; i--)
        if (list->instrs[i].micro == 0 && !instr_is_forward(&list->instrs[i]))
            s->turn = i;
    skip_taken_over(s);
    list_instructions(s);
    /* A lane runs in order, so what hands out weights comes when the reductions before it are done. */
    int last[LANE_COUNT];
    for (int lane = 0; lane < LANE_COUNT; lane++)
        last[lane] = -1;
    for (int i = 0; i < list->instr_count; i++) {
        if (reduces_each_time(&list->instrs[i])) {
            last[list->instrs[i].lane] = i;
            s->reduces = true;
        }
        s->behind[i] = last[list->instrs[i].lane];
    }
    list_buffers(s);
    return (sample_list_kept(s) && sample_list_alike(s)) || fail_memory(err);
}

bool sample_open(struct sample **out, const struct graph *graph, const struct sample_shape *shape, struct error *err)
{
    struct sample *s = calloc(1, sizeof *s);
    if (!s)
        return fail_memory(err);
    s->shape = *shape;
    bool good = make_plan(s, graph) || fail_memory(err);
    good = good && plan_check(s->plan, graph, err) && lower_program(&s->program, graph, s->plan, err) &&
           lives_split(s->program, err) && dissect(s, err);
    if (good)
        *out = s;
    else
        sample_free(s);
    return good;
}

size_t sample_bytes(const struct sample *s)
{
    return program_bytes(s->program) + arena_bytes(&s->arena);
}

void sample_free(struct sample *s)
{
    if (!s)
        return;
    program_free(s->program);
    plan_free(s->plan);
    arena_free(&s->arena);
    free(s);
}

int sample_shape_words(const struct sample_shape *shape, int64_t out[SAMPLE_SHAPE_WORDS])
{
    _Static_assert(sizeof shape->layer % sizeof *out == 0, "a layer's decisions are whole words");
    int count = sizeof shape->layer / sizeof *out;
    memcpy(out, &shape->layer, sizeof shape->layer);
    out[count++] = shape->vocab_multiple;
    out[count++] = shape->bucket_bytes;
    out[count++] = (int64_t)shape->stages << 32 | shape->micro_batches;
    out[count++] = (int64_t)shape->prefetch << 32 | shape->loss_chunks;
    out[count++] = (int64_t)shape->dtype << 1 | shape->clips;
    for (int i = 0; i < shape->mesh.atom_count; i++) {
        bool deals = dimension_deals_batch(dimensions[shape->layer.dim[i]]);
        out[count++] = deals ? -(shape->mesh.size[i] > 1) : shape->mesh.size[i];
    }
    return count;
}

bool sample_resize(struct sample *s, const struct graph *graph, const struct mesh *mesh)
{
    bool same = s->plan->batch == graph->batch && !memcmp(s->plan->stages[0].atom, mesh->size, sizeof mesh->size);
    set_sizes(s, graph, mesh);
    if (same) { /* without it `explain` of a 70B plan takes 3 % longer */
        s->program->graph = graph;
        return true;
    }
    bool good = resize_program(s->program, graph, s->plan, s->sized, s->sized_count);
    s->plan->batch = good ? graph->batch : 0; /* else some buffers have other sizes */
    return good;
}

/* ---- time ---- */

/* Gives the number that counts a weight's transfer, by what it serves; of a bucket each weight pays its share. */
static int64_t *share_of(const struct sample *s, struct layer_price *price, const struct instr *instr)
{
    if (!hands_out(instr))
        return instr->phase == PHASE_STEP ? &price->reduce_last_ns : &price->reduce_ns;
    if (instr->phase == PHASE_STEP)
        return &price->step_ns;
    if (s->kept_layer[s->program->pairs[instr->pair_first].destination] >= 0)
        return &price->gather_once_ns;
    return instr_is_forward(instr) ? &price->gather_forward_ns : &price->gather_backward_ns;
}

static int pair_layer(const struct sample *s, const struct instr *instr, int pair, int64_t *bytes)
{
    const struct pair *p = &s->program->pairs[instr->pair_first + pair];
    int number = p->destination >= 0 ? p->destination : p->source;
    const struct buffer *buffer = &s->program->buffers[number];
    *bytes = max_i64(buffer->bytes, 1);
    if (s->kept_layer[number] >= 0)
        return s->kept_layer[number];
    return buffer->is_weight ? s->weight_layer[buffer->id] : sample_layer_of(s, instr);
}

/* Gives the number that counts what serves another layer than that, which uses one of its weights; else NULL. Once
 * gathered it serves both. */
static int64_t *tied_share_of(struct sample *s, const struct instr *instr, int pair, int layer)
{
    struct layer_price *price = &s->by_layer[layer];
    int buffer = s->program->pairs[instr->pair_first + pair].destination;
    bool tied = false, shared = false;
    for (int k = 0; k < s->tie_count; k++) {
        tied = tied || s->ties[k].layer == instr->layer;
        shared = shared || s->ties[k].buffer == buffer;
    }
    if (buffer >= 0 && s->kept_layer[buffer] >= 0)
        return shared && hands_out(instr) ? &price->tied_gather_once_ns : NULL;
    if (!tied || instr->layer == layer || instr->phase == PHASE_STEP)
        return NULL;
    if (!hands_out(instr))
        return &price->tied_reduce_ns;
    return instr_is_forward(instr) ? &price->tied_gather_forward_ns : &price->tied_gather_backward_ns;
}

static void share_out(struct sample *s, const struct instr *instr, int64_t ns)
{
    int64_t total = 0, bytes = 0;
    for (int i = 0; i < instr->pair_count; i++) {
        pair_layer(s, instr, i, &bytes);
        total += bytes;
    }
    for (int i = 0; i < instr->pair_count; i++) {
        int layer = pair_layer(s, instr, i, &bytes);
        struct layer_price *price = &s->by_layer[layer];
        int64_t *tied = tied_share_of(s, instr, i, layer);
        int64_t share = instr->pair_count == 1 ? ns : (int64_t)((double)ns * (double)bytes / (double)total + 0.5);
        *share_of(s, price, instr) += share;
        if (tied)
            *tied += share;
        if (!hands_out(instr))
            price->reduce_tail_ns = max_i64(price->reduce_tail_ns, share);
    }
}

/* Charges what an instruction moved to its layer. parts: WALK_FORWARD also of the step, WALK_BACKWARD. */
enum { WALK_FORWARD = 1, WALK_BACKWARD = 2 };
static void move_layer(struct sample *s, const struct instr *instr, int64_t moved, unsigned parts)
{
    struct layer_price *price = &s->by_layer[sample_path_layer_of(s, instr)];
    bool step = instr->phase == PHASE_STEP || instr->micro < 0, forward = step || instr_is_forward(instr);
    if (!(parts & (forward ? WALK_FORWARD : WALK_BACKWARD)))
        return;
    if (!step) {
        *(forward ? &price->forward_ns : &price->backward_ns) += moved;
        return;
    }
    price->step_ns += moved;
    price->norm_ns += instr->op == OP_NORM ? moved : 0;
}

/* Notes that the first weight's gradient is there at `now`, of a layer whose backward began at `began`. One that chunks
 * of the loss add up is there with the last, and between them another layer has run. */
static void note_gradient(struct sample *s, const struct instr *instr, int64_t began, int64_t now)
{
    struct layer_price *price = &s->by_layer[sample_layer_of(s, instr)];
    if (instr->op != OP_COMPUTE || instr->phase != PHASE_BACKWARD_WEIGHT)
        return;
    if (segment_is_walked(&s->graph->segments[instr->segment], &s->program->assignments[instr->segment]))
        price->gradient_ns = sample_pass_of(s, instr)->passed_ns;
    else if (price->gradient_ns == 0)
        price->gradient_ns = now - began;
}

/* The reductions whose bytes are free by now, of which the path waits for the one that ends last. */
struct freed {
    int next, last; /* last: -1: none */
};

static void later(const struct sample *s, int *last, int instr)
{
    if (*last < 0 || s->finish[instr] > s->finish[*last])
        *last = instr;
}

/* Gives when the instruction can begin for all that its lane and the path do; *reduction: the one for which it waits
 * longest, be it for its result or for what comes behind it in its lane; -1: none. */
static int64_t ready_ns(const struct sample *s, const struct instr *instr, int64_t lane_ns, int *reduction)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t ready = lane_ns;
    for (int w = 0; w < instr->wait_count; w++) {
        int other = list->waits[instr->wait_first + w], behind = sample_on_path(instr) ? s->behind[other] : -1;
        if (behind >= 0 && s->finish[other] == s->finish[behind])
            later(s, reduction, behind);
        else
            ready = max_i64(ready, s->finish[other]);
    }
    return ready;
}

/* Notes the gathers that the path instruction waits for, or the one issued. moved_ns: the path by the former. */
static void note_gathers(struct sample *s, int index, int64_t moved_ns)
{
    const struct stage_program *list = &s->program->stages[0];
    const struct instr *instr = &list->instrs[index];
    struct layer_pass *g = sample_pass_of(s, instr);
    if (instr->phase == PHASE_STEP)
        return;
    if (!sample_on_path(instr) && hands_out(instr))
        s->change[index] = g->issued_ns += s->duration[index];
    if (!sample_on_path(instr))
        return;
    for (int w = 0; w < instr->wait_count; w++) {
        int other = list->waits[instr->wait_first + w];
        if (!sample_on_path(&list->instrs[other]) && hands_out(&list->instrs[other]))
            g->lag_ns = max_i64(g->lag_ns, s->change[other] - g->passed_ns);
    }
    g->passed_ns += moved_ns;
}

/* Gives what is left of gathers: weights come one after another, each needed when the path has come to it. */
static int64_t rest_ns(const struct layer_pass *g)
{
    return g->issued_ns > 0 ? max_i64(0, g->passed_ns + g->lag_ns - g->issued_ns) : 0;
}

/* Charges a wait of the path from `clock` on to the layer whose reduction it waits for. Where that reduction is late
 * because the one of a layer that nothing is like, such as the head's, held the lane, that layer (once; -1: there is
 * none) is charged for the delay: it meets one block, and the price of a block is that of all blocks. */
static void charge_wait(struct sample *s, int reduction, int once, int64_t clock, int64_t waits)
{
    int layer = sample_layer_of(s, &s->program->stages[0].instrs[reduction]);
    int64_t own = once < 0 ? waits : min_i64(waits, max_i64(0, s->alike_finish[reduction] - clock));
    s->by_layer[layer].backward_ns += own;
    s->by_layer[layer].wait_ns += own;
    if (own < waits) {
        s->by_layer[once].backward_ns += waits - own;
        s->by_layer[once].wait_ns += waits - own;
    }
}

/* Walks the list on a clock on which only the path takes time, and reductions too if asked. Forward and step are read
 * off without, backward with them, since the path may wait for one. */
static void walk(struct sample *s, bool reductions, unsigned parts)
{
    const struct stage_program *list = &s->program->stages[0];
    int64_t lane[LANE_COUNT] = { 0 }, alike[LANE_COUNT] = { 0 }, clock = 0, began = 0;
    struct freed freed = { .last = -1 };
    int once = -1, ignored = -1; /* the last layer that nothing is like of which a reduction was met */
    for (int k = 0, layer = -1; k < s->list_count; k++) {
        int i = s->listed[k], reduction = -1;
        const struct instr *instr = &list->instrs[i];
        if (reductions && instr->phase != PHASE_STEP) {
            for (; freed.next < s->release_count && s->release[freed.next] <= i; freed.next++)
                later(s, &freed.last, s->releasing[freed.next]);
        }
        reduction = freed.last;
        int64_t start = ready_ns(s, instr, lane[instr->lane], &reduction);
        if (!sample_on_path(instr)) {
            if (!reductions)
                note_gathers(s, i, 0);
            int64_t takes_ns = reductions && reduces_each_time(instr) ? s->duration[i] : 0;
            bool alone = s->alone[sample_layer_of(s, instr)];
            once = takes_ns > 0 && alone ? sample_layer_of(s, instr) : once;
            s->finish[i] = lane[instr->lane] = start + takes_ns;
            s->alike_finish[i] = alike[instr->lane] =
                ready_ns(s, instr, alike[instr->lane], &ignored) + (alone ? 0 : takes_ns);
            continue;
        }
        int64_t begins = max_i64(start, clock), waits = reduction < 0 ? 0 : max_i64(0, s->finish[reduction] - begins);
        if (waits > 0) {
            start = s->finish[reduction];
            charge_wait(s, reduction, once, begins, waits);
        }
        s->finish[i] = lane[instr->lane] = start + s->duration[i];
        int64_t moved = max_i64(0, s->finish[i] - clock - waits);
        if (!instr_is_forward(instr) && instr->layer != layer) {
            layer = instr->layer;
            began = clock;
        }
        clock += waits + moved;
        move_layer(s, instr, moved, parts);
        if (!reductions) {
            note_gathers(s, i, moved);
            note_gradient(s, instr, began, clock);
        }
    }
}

/* Lets the device wait for the host where that is slower: a pass takes at least as long as its instructions are issued,
 * and what is issued behind a wait for the device comes on top. Copies run both ways at once and hide behind the
 * layer's own pass: what its neighbours leave for them, these decide. What a stage would win since layers differ is
 * left to the simulator. */
static int64_t beside_host(int64_t device_ns, const struct issued *host)
{
    int64_t copies_ns = max_i64(host->out_ns, host->in_ns);
    return host->waited_ns + max_i64(max_i64(device_ns, copies_ns), host->ns - host->waited_ns);
}

/* Prices the path. path_only: reductions take no time, so that one walk tells all, as it does where all come in the
 * step. */
static void price_path(struct sample *s, bool path_only)
{
    bool apart = !path_only && s->reduces;
    walk(s, false, apart ? WALK_FORWARD : WALK_FORWARD | WALK_BACKWARD);
    if (apart)
        walk(s, true, WALK_BACKWARD);
    for (int l = 0; l < s->graph->layer_count; l++) {
        s->by_layer[l].rest_backward_ns = rest_ns(&s->passes[2 * l]);
        s->by_layer[l].rest_forward_ns = rest_ns(&s->passes[2 * l + 1]);
    }
}

static void price_times(struct sample *s, const struct facts *facts, struct kernel_costs *known, bool accumulates,
                        bool path_only)
{
    const struct stage_program *list = &s->program->stages[0];
    sample_price_instrs(s, facts, known, path_only);
    for (int k = 0; !path_only && k < s->list_count; k++) {
        int i = s->listed[k];
        const struct instr *instr = &list->instrs[i];
        int pass = instr->phase == PHASE_STEP || instr->micro < 0 ? 2 : instr_is_forward(instr);
        struct issued *issued = &s->issued[3 * sample_layer_of(s, instr) + pass];
        struct host_issue host = cost_issue(facts, s->program, 0, instr);
        issued->ns += host.ns;
        issued->waited_ns += host.waits == HOST_WAITS_FOR_ALL ? host.ns : 0;
        if (op_info[instr->op].traffic == TRAFFIC_HOST)
            *(instr->op == OP_FETCH ? &issued->in_ns : &issued->out_ns) += s->duration[i];
        else if (!sample_on_path(instr) && instr->op != OP_NORM_REDUCE)
            share_out(s, instr, s->duration[i]);
    }
    sample_price_kernels(s);
    if (accumulates)
        sample_price_adding(s, facts, known);
    price_path(s, path_only);
    if (path_only)
        return;
    for (int l = 0; l < s->graph->layer_count; l++) {
        struct layer_price *price = &s->by_layer[l];
        price->backward_ns = beside_host(price->backward_ns, &s->issued[3 * l]);
        price->forward_ns = beside_host(price->forward_ns, &s->issued[3 * l + 1]);
        price->step_ns = beside_host(price->step_ns, &s->issued[3 * l + 2]);
    }
    sample_price_links(s, facts);
}

const struct layer_price *sample_prices(struct sample *s, const struct facts *facts, struct kernel_costs *known,
                                        int first_rank, bool accumulates, enum sample_part part,
                                        int64_t *workspace_bytes)
{
    s->plan->stages[0].first_rank = first_rank;
    memset(s->by_layer, 0, (size_t)s->graph->layer_count * sizeof *s->by_layer);
    memset(s->passes, 0, 2 * (size_t)s->graph->layer_count * sizeof *s->passes);
    memset(s->issued, 0, 3 * (size_t)s->graph->layer_count * sizeof *s->issued);
    if (part != SAMPLE_BYTES)
        price_times(s, facts, known, accumulates, part != SAMPLE_WHOLE);
    *workspace_bytes = sample_price_memory(s, part == SAMPLE_PATH);
    return s->by_layer;
}

void sample_join_shards(struct sample *s)
{
    for (int k = 0; k < s->sized_count; k++) {
        const struct buffer *buffer = &s->program->buffers[s->sized[k]];
        int sharers = 1;
        if (!buffer->persistent || !buffer->is_weight || buffer->host)
            continue;
        for (int i = 0; i < s->plan->atom_count; i++)
            if (buffer->layout.kind[i] == LAYOUT_SHARDED && dimensions[s->shape.layer.dim[i]]->shard)
                sharers *= s->plan->stages[0].atom[i];
        s->by_layer[s->weight_layer[buffer->id]].weight_bytes += (sharers - 1) * buffer->bytes;
    }
}

/* Times the conversion that ends (OP_SLICE) or begins (OP_ALL_GATHER) with the buffer; 0: there is none. */
static int64_t conversion_ns(const struct sample *s, const struct facts *facts, int stage, enum op op, int buffer)
{
    for (int i = 0; i < s->program->stages[stage].instr_count; i++) {
        const struct instr *instr = &s->program->stages[stage].instrs[i];
        const struct pair *pair = &s->program->pairs[instr->pair_first];
        if (instr->op == op && buffer == (op == OP_SLICE ? pair->destination : pair->source))
            return cost_instr_ns(facts, s->program, stage, instr);
    }
    return 0;
}

int64_t sample_send_ns(const struct sample *s, const struct facts *facts, int64_t *ends_ns, int64_t *bytes)
{
    int64_t ns = 0;
    *ends_ns = *bytes = 0;
    for (int stage = 0; stage < 2; stage++)
        for (int i = 0; i < s->program->stages[stage].instr_count; i++) {
            const struct instr *instr = &s->program->stages[stage].instrs[i];
            if (instr->op != OP_SEND || instr->micro != 0)
                continue;
            const struct pair *pair = &s->program->pairs[instr->pair_first];
            const struct buffer *value = &s->program->buffers[pair->source];
            int maker = stage == 0 ? s->graph->values[value->id].producer : -1;
            if (maker >= 0 && s->graph->segments[maker].layer != price_sent_layer(s->graph))
                continue; /* an earlier layer's, which skips this one */
            int64_t cut_ns = conversion_ns(s, facts, stage, OP_SLICE, pair->source),
                    gather_ns = conversion_ns(s, facts, 1 - stage, OP_ALL_GATHER, pair->destination);
            *ends_ns = max_i64(*ends_ns, cut_ns > 0 ? cut_ns + gather_ns : 0); /* forward, it may come as a sum */
            ns += stage == 0 ? cost_instr_ns(facts, s->program, stage, instr) : 0;
            *bytes += stage == 0 ? value->bytes : 0;
        }
    return ns + *ends_ns;
}
