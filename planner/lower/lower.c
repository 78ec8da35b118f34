/* From a plan to one instruction list per stage: walks the schedule's order layer by layer. */
#include "planner/lower/lower.h"
#include "planner/lower/lower_emit.h"
#include "planner/lower/lower_values.h"
#include "planner/lower/lower_weights.h"
#include <stdlib.h>
#include <string.h>

/* ---- crossings ---- */
static void add_crossing(struct crossing *list, int *count, int value, int stage, int chunk)
{
    int at = *count;
    for (int i = 0; i < *count; i++) {
        if (list[i].value == value && list[i].stage == stage)
            return;
    }
    for (; at > 0 && (list[at - 1].value > value || (list[at - 1].value == value && list[at - 1].stage > stage)); at--)
        list[at] = list[at - 1];
    list[at] = (struct crossing){ value, stage, chunk, -1 };
    ++*count;
}

/* The backward pass starts at the loss; a model without one is pulled at every output that nobody reads. Crossings to
 * stage -1 are seeded here. */
static void leaving_value(struct lowering *l, int value, int chunk)
{
    int loss = l->graph->loss_value;
    if (value == loss || (loss < 0 && l->known.reader_head[value] < 0 && l->graph->values[value].differentiable)) {
        add_crossing(l->crossings.leaving, &l->crossings.leaving_count, value, -1, chunk);
        return;
    }
    for (int slot = l->known.reader_head[value]; slot >= 0; slot = l->known.reader_next[slot]) {
        int stage = lower_stage_at_hand(l, l->graph->segments[slot / MAX_OPERANDS].layer);
        if (stage != l->here.position)
            add_crossing(l->crossings.leaving, &l->crossings.leaving_count, value, stage, chunk);
    }
}

/* Collects what crosses, in the same order on both sides: by value. */
static void collect_crossings(struct lowering *l)
{
    l->crossings.entering_count = l->crossings.leaving_count = 0;
    for (int c = 0; c < l->here.chunk_count; c++) {
        l->here.copy = c % l->here.copies;
        for (int segment = l->here.chunks[c].first; segment < l->here.chunks[c].end; segment++) {
            const struct segment *s = &l->graph->segments[segment];
            for (int i = 0; i < s->in_count; i++) {
                int value = s->in[i].id;
                if (!l->graph->values[value].input && !lower_made_here(l, value))
                    add_crossing(l->crossings.entering, &l->crossings.entering_count, value,
                                 lower_stage_at_hand(l, l->graph->segments[l->graph->values[value].producer].layer), c);
            }
            for (int i = 0; i < s->out_count; i++)
                leaving_value(l, s->out[i].id, c);
        }
    }
}

/* ---- actions ---- */
static void close_forward(struct lowering *l, const struct action *action, const struct site *site)
{
    int loss = l->graph->loss_value;
    if (loss >= 0 && lower_chunk_of(l, l->graph->values[loss].producer) == action->chunk &&
        !lower_is_walked(l, l->graph->values[loss].producer)) {
        struct layout layout = lower_base_layouts(l, loss).forward;
        int buffer = lower_materialize(l, loss, &layout, site);
        if (!l->failed)
            buffer_at(l, buffer)->persistent = true;
    }
    for (int i = 0; i < l->crossings.leaving_count && !l->failed; i++) {
        const struct crossing *c = &l->crossings.leaving[i];
        if (c->stage < 0 || c->chunk != action->chunk)
            continue;
        struct layout layout = lower_sent_layouts(l, c->value).forward;
        lower_queue_send(l, MESSAGE_VALUE, c->value, action->micro, lower_peer_of(l, c->stage, action->micro),
                         lower_materialize(l, c->value, &layout, site), site);
    }
    lower_forget_values(l, action);
}

static void open_forward(struct lowering *l, const struct action *action)
{
    for (int i = 0; i < l->crossings.entering_count && !l->failed; i++)
        if (l->crossings.entering[i].chunk == action->chunk)
            lower_set_live(l, lower_arrived(l, false, i, action->micro), true);
}

static bool is_of_pass(const struct lowering *l, const struct crossing *crossing, const struct action *action)
{
    return crossing->chunk == action->chunk && graph_needs_gradient(l->graph, crossing->value);
}

static void open_backward(struct lowering *l, const struct action *action, const struct site *site)
{
    for (int i = 0; i < l->crossings.leaving_count && !l->failed; i++) {
        struct crossing *c = &l->crossings.leaving[i];
        if (c->stage >= 0 && is_of_pass(l, c, action))
            c->arrived = lower_arrived(l, true, i, action->micro);
    }
    for (int i = 0; i < l->crossings.leaving_count && !l->failed; i++) {
        const struct crossing *c = &l->crossings.leaving[i];
        if (!is_of_pass(l, c, action))
            continue;
        struct layout layout = lower_base_layouts(l, c->value).gradient;
        int base = lower_find_version(l, true, c->value, action->micro, &layout), buffer;
        if (c->stage < 0) {
            buffer = lower_add_version(l, true, c->value, action->micro, &layout);
            emit_pair(l, OP_SEED, LANE_COMPUTE, site, -1, buffer);
        } else {
            if (!l->messages.ordered &&
                (l->graph->keeping.scatters_messages || (base >= 0 && l->crossings.clock.stages)))
                emit_sends(l); /* a host that waits for messages would issue them late, and who sends wait for them */
            buffer = lower_convert_buffer(l, c->arrived, &layout, BUFFER_VALUE_GRADIENT, false, site);
        }
        if (c->stage < 0 || base < 0)
            lower_set_live(l, buffer, true);
        else /* beside a gradient that another chunk of this stage has left there it is a summand */
            emit_pair(l, OP_ADD, LANE_COMPUTE, site, buffer, base)->accumulate = true;
    }
}

static void close_backward(struct lowering *l, const struct action *action, const struct site *site)
{
    for (int i = 0; i < l->crossings.entering_count && !l->failed; i++) {
        const struct crossing *c = &l->crossings.entering[i];
        if (!is_of_pass(l, c, action))
            continue;
        struct layout layout = lower_sent_layouts(l, c->value).gradient;
        int whole = lower_settle(l, c->value, site);
        lower_queue_send(l, MESSAGE_GRADIENT, c->value, action->micro, lower_peer_of(l, c->stage, action->micro),
                         lower_convert_buffer(l, whole, &layout, BUFFER_VALUE_GRADIENT, false, site), site);
    }
}

static void visit_layer(struct lowering *l, const struct visit *visit)
{
    const struct graph_layer *layer = &l->graph->layers[visit->layer];
    enum action_kind kind = visit->action.kind;
    if (kind != ACTION_FORWARD && kind != ACTION_BACKWARD_WEIGHT)
        lower_forward_again(l, visit->layer, visit->action.micro);
    for (int i = 0; i < layer->segment_count && !l->failed; i++) {
        int segment = layer->first_segment + (kind == ACTION_FORWARD ? i : layer->segment_count - 1 - i);
        if (lower_is_walked(l, segment)) {
            if (segment == l->walk.first && kind != ACTION_FORWARD && kind != ACTION_BACKWARD_WEIGHT)
                walk_loss(l, visit->action.micro);
        } else if (kind == ACTION_FORWARD) {
            if (lower_is_put_off(l, segment))
                continue;
            struct site site = { .phase = PHASE_FORWARD, .layer = visit->layer, .micro = visit->action.micro };
            lower_forward_segment(l, segment, &site);
        } else {
            backward_segment(l, segment, visit->action.micro, kind != ACTION_BACKWARD_WEIGHT,
                             kind != ACTION_BACKWARD_INPUT);
        }
    }
}

static void run_visits(struct lowering *l)
{
    bool steady = schedules[l->plan->schedule]->asynchronous,
         each = steady && schedules[l->plan->schedule]->updates_each, opening = steady;
    for (l->visits.at = l->visits.gathered = 0; l->visits.at < l->visits.count && !l->failed; l->visits.at++) {
        const struct visit *visit = &l->visits.list[l->visits.at];
        bool forward = visit->action.kind == ACTION_FORWARD, input = visit->action.kind != ACTION_BACKWARD_WEIGHT;
        if (opening && visit->action.part != STEP_OPENING) {
            steady_receive(l, STEP_OPENING);
            emit_sends(l);
            opening = false;
        }
        if (visit->opens) {
            l->here.copy = visit->action.micro % l->here.copies;
            steady_begin(l, &visit->action);
        }
        lower_gather_ahead(l);
        if (visit->opens)
            lower_post_arrivals(l, visit->number);
        if (l->messages.ordered && visit->opens && input)
            emit_sends_before(
                l, message_place(l, forward ? MESSAGE_VALUE : MESSAGE_GRADIENT, l->stage, visit->action.micro));
        struct site site = { .phase = forward ? PHASE_FORWARD : PHASE_BACKWARD_INPUT,
                             .layer = visit->layer,
                             .micro = visit->action.micro };
        if (visit->opens && forward)
            open_forward(l, &visit->action);
        else if (visit->opens && input)
            open_backward(l, &visit->action, &site);
        if (!l->messages.ordered)
            emit_sends(l);
        int first = l->program->stages[l->stage].instr_count;
        if (visit->opens)
            l->visits.made[l->visits.made_count++] = (struct pass_made){ visit->action, first, first };
        if (visit->opens && repeat_pass(l, &visit->action)) {
            while (!l->visits.list[l->visits.at].closes)
                l->visits.at++;
            visit = &l->visits.list[l->visits.at];
        } else {
            if (visit->opens)
                repeat_note(l, &visit->action);
            visit_layer(l, visit);
            bucket_flush(l, false);
            lower_release(l, false);
            if (visit->closes)
                repeat_end(l, &visit->action);
        }
        l->visits.made[l->visits.made_count - 1].end = l->program->stages[l->stage].instr_count;
        site.layer = visit->layer;
        if (visit->closes && forward)
            close_forward(l, &visit->action, &site);
        else if (visit->closes && input)
            close_backward(l, &visit->action, &site);
        if (each && visit->closes && !forward) {
            lower_step(l, visit->action.micro);
            lower_renew_gradients(l);
        }
    }
    if (steady)
        steady_receive(l, STEP_AHEAD);
    emit_sends(l);
    l->steady.part = STEP_OWN;
    if (!each)
        lower_step(l, -1);
}

/* ---- stages ---- */
static bool list_visits(struct lowering *l, const struct layer_range *layers)
{
    bool timed = l->crossings.clock.stages;
    int count = timed ? l->crossings.clock.stages[l->stage].count : 0, most = 0;
    const struct action *actions =
        timed ? l->crossings.clock.stages[l->stage].actions : clock_actions(l->plan, l->stage, &count, &l->scratch);
    if (!actions)
        return lower_memory(l);
    l->visits.count = 0;
    for (int c = 0; c < l->here.chunk_count; c++)
        most = max_int(most, layers[c].count);
    l->visits.list = arena_alloc(&l->growing, (size_t)count * (size_t)most, sizeof *l->visits.list);
    l->visits.made = arena_alloc(&l->growing, (size_t)count, sizeof *l->visits.made);
    l->visits.made_count = 0;
    if (!l->visits.list || !l->visits.made)
        return lower_memory(l);
    for (int i = 0; i < count; i++) {
        const struct layer_range *range = &layers[actions[i].chunk];
        for (int k = 0; k < range->count; k++) {
            int layer = actions[i].kind == ACTION_FORWARD ? k : range->count - 1 - k;
            l->visits.list[l->visits.count++] =
                (struct visit){ actions[i], range->first + layer, k == 0, k == range->count - 1, i };
        }
    }
    return true;
}

/* Moves the stage's list to the program, without the room that it did not need. */
static bool keep_instrs(struct lowering *l)
{
    struct stage_program *stage = &l->program->stages[l->stage];
    size_t count = (size_t)stage->instr_count;
    struct instr *instrs = arena_alloc(&l->program->arena, count, sizeof *instrs);
    if (!instrs)
        return lower_memory(l);
    if (count > 0)
        memcpy(instrs, stage->instrs, count * sizeof *instrs);
    stage->instrs = instrs;
    arena_free(&l->growing);
    return true;
}

/* Makes room for further stages, which take about what the first took: arrays that double would leave behind what they
 * were, which is memory that has been touched. */
static bool expect_like_first(struct lowering *l)
{
    const struct program *program = l->program;
    int64_t more = program->stage_count - 1;
    return lower_lasting_room(l, more * program->buffer_count / 16 * 17, more * program->pair_count / 16 * 17,
                              more * program->operand_count / 16 * 17);
}

static bool lower_stage(struct lowering *l, int stage)
{
    struct layer_range layers[PLAN_MAX_CHUNKS];
    l->stage = stage;
    l->made.first_buffer = l->program->buffer_count;
    l->made.repeated_capacity = 0;
    l->steady.part = STEP_OWN;
    l->steady.opened_count = l->steady.reopened = 0;
    l->here.position = stage - l->plan->stages[stage].turn;
    l->here.copies = plan_copies(l->plan);
    l->here.copy = 0;
    l->here.micro_count = plan_stage_micro_batches(l->plan, stage);
    l->program->stages[stage].instrs = l->made.instrs;
    l->here.chunk_count = l->plan->chunk_count;
    for (int c = 0; c < l->plan->chunk_count; c++) {
        layers[c] = plan_stage_chunk(l->plan, stage, c);
        const struct graph_layer *first = &l->graph->layers[layers[c].first], *last = first + layers[c].count - 1;
        l->here.chunks[c] = (struct segment_range){ first->first_segment, last->first_segment + last->segment_count };
    }
    collect_crossings(l);
    lower_collect_weights(l);
    lower_find_recomputed(l);
    if (l->failed || !lower_list_arrivals(l) || !list_visits(l, layers) || !repeat_open(l) ||
        (stage == 1 && !expect_like_first(l)))
        return false;
    run_visits(l);
    overlap_experts(l);
    offload_between_uses(l);
    lower_forget_versions(l);
    return !l->failed && keep_instrs(l) && waits_find(l);
}

/* ---- who reads what ---- */
static void link_slots(int *head, int *next, int segment, const struct operand *operands, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        int slot = segment * MAX_OPERANDS + i;
        next[slot] = head[operands[i].id];
        head[operands[i].id] = slot;
    }
}

static bool open_lowering(struct lowering *l)
{
    struct arena *a = &l->scratch;
    struct program *program = l->program;
    const struct graph *graph = l->graph;
    size_t segments = (size_t)graph->segment_count, slots = segments * MAX_OPERANDS;
    size_t values = (size_t)graph->value_count, weights = (size_t)graph->weight_count,
           versions = values * (size_t)l->micro_count;
    program->graph = graph;
    program->plan = l->plan;
    program->stage_count = l->plan->stage_count;
    program->stages = arena_alloc(&program->arena, (size_t)program->stage_count, sizeof *program->stages);
    program->assignments = arena_alloc(&program->arena, (size_t)graph->segment_count, sizeof *program->assignments);
    l->known.recipes = arena_alloc(a, segments, sizeof *l->known.recipes);
    l->known.recomputed = arena_alloc(a, segments, sizeof *l->known.recomputed);
    l->known.reader_head = arena_alloc(a, values, sizeof(int));
    l->known.reader_next = arena_alloc(a, slots, sizeof(int));
    l->known.use_head = arena_alloc(a, weights, sizeof(int));
    l->known.use_next = arena_alloc(a, slots, sizeof(int));
    l->known.use_count = arena_alloc(a, weights, sizeof(int));
    l->made.version_head[0] = arena_alloc(a, versions, sizeof(int));
    l->made.version_head[1] = arena_alloc(a, versions, sizeof(int));
    l->weights.of = arena_alloc(a, weights, sizeof *l->weights.of);
    l->weights.list = arena_alloc(a, weights, sizeof(int));
    l->crossings.entering = arena_alloc(a, slots, sizeof *l->crossings.entering);
    l->crossings.leaving = arena_alloc(a, slots, sizeof *l->crossings.leaving);
    if (arena_failed(a) || arena_failed(&program->arena))
        return lower_memory(l);
    memset(l->made.version_head[0], -1, versions * sizeof *l->made.version_head[0]);
    memset(l->made.version_head[1], -1, versions * sizeof *l->made.version_head[1]);
    recipe_assign(graph, l->plan, 0, graph->segment_count, program->assignments);
    lower_find_walk(l);
    for (size_t i = 0; i < weights; i++)
        l->weights.of[i].segment = -1;
    l->in_place = true;
    for (int i = 0; i < l->plan->layer_count; i++) {
        for (int atom = 0; atom < MAX_ATOMS; atom++)
            l->in_place &= !dimensions[l->plan->layers[i].dim[atom]]->defer;
    }
    memset(l->known.reader_head, -1, sizeof(int) * (size_t)graph->value_count);
    memset(l->known.use_head, -1, sizeof(int) * (size_t)graph->weight_count);
    for (int i = 0; i < graph->segment_count; i++) {
        for (int k = 0; k < graph->segments[i].weight_count; k++)
            l->known.use_count[graph->segments[i].weight[k].id]++;
    }
    for (int i = graph->segment_count - 1; i >= 0; i--) {
        link_slots(l->known.reader_head, l->known.reader_next, i, graph->segments[i].in, graph->segments[i].in_count);
        link_slots(l->known.use_head, l->known.use_next, i, graph->segments[i].weight, graph->segments[i].weight_count);
        recipe_layouts(graph, l->plan, l->program->assignments, i, recipe_of(l, i));
    }
    return true;
}

bool lower_run_clock(struct lowering *l)
{
    const int *work = NULL;
    if (l->plan->clock == CLOCK_WORK && !(work = clock_work(l->graph, NULL, &l->scratch)))
        return lower_memory(l);
    return clock_run(&l->crossings.clock, l->plan, l->graph->keeping.overlaps_experts, work, &l->scratch, l->err);
}

/* Frees what lowering alone needed. */
static void close_lowering(struct lowering *l)
{
    struct program *program = l->program;
    struct buffer *buffers = realloc(program->buffers, ((size_t)program->buffer_count + 1) * sizeof *buffers);
    struct pair *pairs = realloc(program->pairs, ((size_t)program->pair_count + 1) * sizeof *pairs);
    int *operands = realloc(program->operands, ((size_t)program->operand_count + 1) * sizeof *operands);
    program->buffers = buffers ? buffers : program->buffers;
    program->pairs = pairs ? pairs : program->pairs;
    program->operands = operands ? operands : program->operands;
    free(l->made.notes);
    free(l->made.instrs);
    free(l->messages.list);
    memo_free(&l->messages.tags);
    arena_free(&l->scratch);
    arena_free(&l->growing);
}

bool lower_program(struct program **out, const struct graph *graph, const struct plan *plan, struct error *err)
{
    struct lowering l = { .graph = graph, .plan = plan, .err = err, .micro_count = plan->micro_batch_count };
    l.program = calloc(1, sizeof *l.program);
    if (!l.program)
        return fail_kind(err, ERROR_ENVIRONMENT, "out of memory while lowering a plan");
    bool ok = open_lowering(&l) && lower_times(&l) && (!clock_posts_early(plan) || lower_run_clock(&l));
    for (int stage = 0; ok && stage < plan->stage_count; stage++)
        ok = lower_stage(&l, stage);
    ok = ok && messages_close(&l);
    close_lowering(&l);
    ok = ok && program_index(l.program, err);
    if (ok)
        *out = l.program;
    else
        program_free(l.program);
    return ok;
}
