/* From a plan to one instruction list per stage: walks the schedule's order layer by layer. */
#include "planner/program/lower.h"
#include "planner/program/geometry.h"
#include <stdlib.h>
#include <string.h>

/* ---- crossings ---- */
static void add_crossing(struct crossing *list, int *count, int value, int stage)
{
    int at = *count;
    for (int i = 0; i < *count; i++) {
        if (list[i].value == value && list[i].stage == stage)
            return;
    }
    for (; at > 0 && (list[at - 1].value > value || (list[at - 1].value == value && list[at - 1].stage > stage)); at--)
        list[at] = list[at - 1];
    list[at] = (struct crossing){ value, stage };
    ++*count;
}

static int producer_stage(const struct lowering *l, int value)
{
    return l->alone ? -1 : stage_of_layer(l->plan, l->graph->segments[l->graph->values[value].producer].layer);
}

/* The backward pass starts at the loss; a model without one is pulled at every output that nobody reads. */
static bool pulled(const struct lowering *l, int value)
{
    if (value == l->graph->loss_value)
        return true;
    return l->graph->loss_value < 0 && l->reader_head[value] < 0 && l->graph->values[value].differentiable;
}

/* Crossings to stage -1 are seeded here. */
static void leaving_value(struct lowering *l, int value)
{
    if (pulled(l, value) || (l->alone && value_leaves(l, value))) {
        add_crossing(l->leaving, &l->leaving_count, value, -1);
        return;
    }
    for (int slot = l->reader_head[value]; slot >= 0; slot = l->reader_next[slot]) {
        int stage = stage_of_layer(l->plan, l->graph->segments[l->scan_first + slot / MAX_OPERANDS].layer);
        if (stage != l->stage)
            add_crossing(l->leaving, &l->leaving_count, value, stage);
    }
}

/* What crosses, in the same order on both sides: by value. */
static void collect_crossings(struct lowering *l)
{
    l->entering_count = l->leaving_count = 0;
    for (int segment = l->first_segment; segment < l->end_segment; segment++) {
        const struct segment *s = &l->graph->segments[segment];
        for (int i = 0; i < s->in_count; i++) {
            if (!l->graph->values[s->in[i].id].input && !made_here(l, s->in[i].id))
                add_crossing(l->entering, &l->entering_count, s->in[i].id, producer_stage(l, s->in[i].id));
        }
        for (int i = 0; i < s->out_count; i++)
            leaving_value(l, s->out[i].id);
    }
}

/* ---- actions ---- */
static void close_forward(struct lowering *l, const struct action *action)
{
    struct site site = { .phase = PHASE_FORWARD, .layer = l->visits[l->visit].layer, .micro = action->micro };
    int loss = l->graph->loss_value;
    if (loss >= 0 && made_here(l, loss)) {
        struct layout layout = base_layouts(l, loss).forward;
        int buffer = materialize(l, loss, &layout, &site);
        if (!l->failed)
            buffer_at(l, buffer)->persistent = true;
    }
    for (int i = 0; i < l->leaving_count && !l->failed; i++) {
        int value = l->leaving[i].value;
        if (l->leaving[i].stage < 0)
            continue;
        struct layout layout = sent_layouts(l, value).forward;
        queue_send(l, MESSAGE_VALUE, value, action->micro, l->leaving[i].stage, materialize(l, value, &layout, &site),
                   &site);
    }
    forget_values(l, action->micro);
}

static void open_forward(struct lowering *l, const struct action *action)
{
    struct site site = { .phase = PHASE_FORWARD, .layer = l->visits[l->visit].layer, .micro = action->micro };
    for (int i = 0; i < l->entering_count && !l->alone && !l->failed; i++) {
        struct layout layout = base_layouts(l, l->entering[i].value).forward;
        int buffer = add_version(l, false, l->entering[i].value, action->micro, &layout);
        emit_receive(l, MESSAGE_VALUE, l->entering[i].value, action->micro, l->entering[i].stage, buffer, &site);
        set_live(l, buffer, true);
    }
}

static int open_gradient(struct lowering *l, int value, int micro)
{
    struct layout layout = base_layouts(l, value).gradient;
    int buffer = add_version(l, true, value, micro, &layout);
    set_live(l, buffer, true);
    return buffer;
}

static void receive_gradient(struct lowering *l, const struct crossing *crossing, const struct site *site)
{
    struct layout layout = base_layouts(l, crossing->value).gradient;
    int base = find_version(l, true, crossing->value, site->micro, &layout);
    if (base < 0) {
        emit_receive(l, MESSAGE_GRADIENT, crossing->value, site->micro, crossing->stage,
                     open_gradient(l, crossing->value, site->micro), site);
        return;
    }
    struct buffer another = *buffer_at(l, base);
    another.kind = BUFFER_TEMPORARY;
    int buffer = add_buffer(l, another);
    emit_receive(l, MESSAGE_GRADIENT, crossing->value, site->micro, crossing->stage, buffer, site);
    emit_pair(l, OP_ADD, LANE_COMPUTE, site, buffer, base)->accumulate = true;
}

static void open_backward(struct lowering *l, const struct action *action)
{
    struct site site = { .phase = PHASE_BACKWARD_INPUT, .layer = l->visits[l->visit].layer, .micro = action->micro };
    for (int i = 0; i < l->leaving_count && !l->failed; i++) {
        int value = l->leaving[i].value;
        if (!graph_needs_gradient(l->graph, value))
            continue;
        if (l->leaving[i].stage >= 0)
            receive_gradient(l, &l->leaving[i], &site);
        else
            emit_pair(l, OP_SEED, LANE_COMPUTE, &site, -1, open_gradient(l, value, action->micro));
    }
}

static void close_backward(struct lowering *l, const struct action *action)
{
    struct site site = { .phase = PHASE_BACKWARD_INPUT, .layer = l->visits[l->visit].layer, .micro = action->micro };
    for (int i = 0; i < l->entering_count && !l->failed; i++) {
        int value = l->entering[i].value;
        if (!graph_needs_gradient(l->graph, value))
            continue;
        int gradient = settle(l, value, &site);
        if (!l->alone)
            queue_send(l, MESSAGE_GRADIENT, value, action->micro, l->entering[i].stage, gradient, &site);
    }
}

static void visit_layer(struct lowering *l, const struct visit *visit)
{
    const struct graph_layer *layer = &l->graph->layers[visit->layer];
    enum action_kind kind = visit->action.kind;
    for (int i = 0; i < layer->segment_count && !l->failed; i++) {
        if (kind == ACTION_FORWARD) {
            struct site site = { .phase = PHASE_FORWARD, .layer = visit->layer, .micro = visit->action.micro };
            forward_segment(l, layer->first_segment + i, &site);
        } else {
            backward_segment(l, layer->first_segment + layer->segment_count - 1 - i, visit->action.micro,
                             kind != ACTION_BACKWARD_WEIGHT, kind != ACTION_BACKWARD_INPUT);
        }
    }
}

static void run_visits(struct lowering *l)
{
    for (l->visit = l->gathered = 0; l->visit < l->visit_count && !l->failed; l->visit++) {
        const struct visit *visit = &l->visits[l->visit];
        bool forward = visit->action.kind == ACTION_FORWARD, input = visit->action.kind != ACTION_BACKWARD_WEIGHT;
        gather_ahead(l);
        if (l->ordered && visit->opens && input)
            emit_sends_before(
                l, message_place(l, forward ? MESSAGE_VALUE : MESSAGE_GRADIENT, l->stage, visit->action.micro));
        if (visit->opens && forward)
            open_forward(l, &visit->action);
        else if (visit->opens && input)
            open_backward(l, &visit->action);
        if (!l->ordered)
            emit_sends(l);
        visit_layer(l, visit);
        bucket_flush(l, false);
        release_visit(l);
        if (visit->closes && forward)
            close_forward(l, &visit->action);
        else if (visit->closes && input)
            close_backward(l, &visit->action);
    }
    emit_sends(l);
}

/* ---- stages ---- */
struct action *lower_actions(struct lowering *l, int stage, int *count)
{
    const struct schedule *schedule = schedules[l->plan->schedule];
    int stages = l->plan->stage_count;
    *count =
        l->alone ? 2 * l->micro_count : schedule->order(stages, stage, l->micro_count, l->plan->extra_in_flight, NULL);
    struct action *actions = arena_alloc(&l->scratch, (size_t)*count, sizeof *actions);
    if (!actions) {
        lower_memory(l);
        return NULL;
    }
    if (!l->alone)
        schedule->order(stages, stage, l->micro_count, l->plan->extra_in_flight, actions);
    for (int i = 0; i < *count && l->alone; i++)
        actions[i] = (struct action){ .kind = i % 2 ? ACTION_BACKWARD : ACTION_FORWARD, .micro = i / 2 };
    return actions;
}

static bool list_visits(struct lowering *l, int first_layer, int layer_count)
{
    int count;
    const struct action *actions = lower_actions(l, l->stage, &count);
    if (!actions)
        return false;
    l->visit_count = 0;
    l->visits = arena_alloc(&l->scratch, (size_t)count * (size_t)layer_count, sizeof *l->visits);
    if (!l->visits)
        return lower_memory(l);
    for (int i = 0; i < count; i++) {
        for (int k = 0; k < layer_count; k++) {
            int layer = actions[i].kind == ACTION_FORWARD ? k : layer_count - 1 - k;
            l->visits[l->visit_count++] =
                (struct visit){ actions[i], first_layer + layer, k == 0, k == layer_count - 1 };
        }
    }
    return true;
}

static bool lower_stage(struct lowering *l, int stage, int first_layer, int layer_count)
{
    const struct graph_layer *first = &l->graph->layers[first_layer], *last = first + layer_count - 1;
    size_t versions = (size_t)l->graph->value_count * (size_t)l->micro_count;
    l->stage = stage;
    l->first_segment = first->first_segment;
    l->end_segment = last->first_segment + last->segment_count;
    l->instr_capacity = 4 * (l->end_segment - l->first_segment) * l->micro_count + 64; /* most lists stay below it */
    l->program->stages[stage].instrs =
        arena_alloc(&l->program->arena, (size_t)l->instr_capacity, sizeof *l->program->stages[stage].instrs);
    if (!l->program->stages[stage].instrs)
        return lower_memory(l);
    memset(l->version_head[0], -1, versions * sizeof *l->version_head[0]);
    memset(l->version_head[1], -1, versions * sizeof *l->version_head[1]);
    collect_crossings(l);
    collect_weights(l);
    find_recomputed(l);
    if (l->failed || !list_visits(l, first_layer, layer_count))
        return false;
    run_visits(l);
    lower_step(l);
    return !l->failed;
}

/* ---- who reads what ---- */
static void link_slots(struct lowering *l, int *head, int *next, int segment, const struct operand *operands, int count)
{
    for (int i = count - 1; i >= 0; i--) {
        int slot = (segment - l->scan_first) * MAX_OPERANDS + i;
        next[slot] = head[operands[i].id];
        head[operands[i].id] = slot;
    }
}

static bool link_readers(struct lowering *l)
{
    const struct graph *graph = l->graph;
    memset(l->reader_head, -1, sizeof(int) * (size_t)graph->value_count);
    memset(l->use_head, -1, sizeof(int) * (size_t)graph->weight_count);
    for (int i = 0; i < graph->segment_count; i++) {
        for (int k = 0; k < graph->segments[i].weight_count; k++)
            l->use_count[graph->segments[i].weight[k].id]++;
    }
    for (int i = l->scan_end - 1; i >= l->scan_first; i--) {
        link_slots(l, l->reader_head, l->reader_next, i, graph->segments[i].in, graph->segments[i].in_count);
        link_slots(l, l->use_head, l->use_next, i, graph->segments[i].weight, graph->segments[i].weight_count);
        recipe_layouts(graph, l->plan, l->program->assignments, i, recipe_of(l, i));
    }
    return true;
}

/* An arena gives a valid pointer for nothing, so only memory can fail here. */
static bool open_lowering(struct lowering *l)
{
    struct arena *a = &l->scratch;
    struct program *program = l->program;
    const struct graph *graph = l->graph;
    size_t segments = (size_t)(l->scan_end - l->scan_first), slots = segments * MAX_OPERANDS;
    size_t values = (size_t)graph->value_count, weights = (size_t)graph->weight_count,
           versions = values * (size_t)l->micro_count;
    program->graph = graph;
    program->plan = l->plan;
    program->stage_count = l->plan->stage_count;
    program->stages = arena_alloc(&program->arena, (size_t)program->stage_count, sizeof *program->stages);
    program->assignments = arena_alloc(&program->arena, (size_t)graph->segment_count, sizeof *program->assignments);
    l->recipes = arena_alloc(a, segments, sizeof *l->recipes);
    l->recomputed = arena_alloc(a, segments, sizeof *l->recomputed);
    l->reader_head = arena_alloc(a, values, sizeof(int));
    l->reader_next = arena_alloc(a, slots, sizeof(int));
    l->use_head = arena_alloc(a, weights, sizeof(int));
    l->use_next = arena_alloc(a, slots, sizeof(int));
    l->use_count = arena_alloc(a, weights, sizeof(int));
    l->version_head[0] = arena_alloc(a, versions, sizeof(int));
    l->version_head[1] = arena_alloc(a, versions, sizeof(int));
    l->weights = arena_alloc(a, weights, sizeof *l->weights);
    l->weight_list = arena_alloc(a, weights, sizeof(int));
    l->entering = arena_alloc(a, slots, sizeof *l->entering);
    l->leaving = arena_alloc(a, slots, sizeof *l->leaving);
    bool ok = program->stages && program->assignments && l->recipes && l->recomputed && l->reader_head &&
              l->reader_next && l->use_head && l->use_next && l->use_count && l->version_head[0] &&
              l->version_head[1] && l->weights && l->weight_list && l->entering && l->leaving;
    if (!ok)
        return lower_memory(l);
    recipe_assign(graph, l->plan, l->scan_first, l->scan_end, program->assignments);
    for (size_t i = 0; i < weights; i++)
        l->weights[i].segment = -1;
    l->in_place = true;
    for (int i = 0; i < l->plan->layer_count; i++) {
        for (int atom = 0; atom < MAX_ATOMS; atom++)
            l->in_place &= !dimensions[l->plan->layers[i].dim[atom]]->defer;
    }
    return link_readers(l);
}

static bool run(struct lowering *l, int first_layer, int layer_count)
{
    const struct graph_layer *first = &l->graph->layers[first_layer], *last = first + layer_count - 1;
    l->scan_first = first->first_segment;
    l->scan_end = last->first_segment + last->segment_count;
    if (!open_lowering(l) || !lower_times(l))
        return false;
    if (l->alone)
        return lower_stage(l, stage_of_layer(l->plan, first_layer), first_layer, layer_count);
    for (int i = 0; i < l->plan->stage_count; i++) {
        if (!lower_stage(l, i, l->plan->stages[i].first_layer, l->plan->stages[i].layer_count))
            return false;
    }
    return messages_close(l);
}

static bool finish(struct lowering *l, struct program **out, bool ok)
{
    ok = ok && program_waits(l->program, l->err) && program_index(l->program, l->err);
    arena_free(&l->scratch);
    if (ok)
        *out = l->program;
    else
        program_free(l->program);
    return ok;
}

static struct program *program_open(struct error *err)
{
    struct program *program = calloc(1, sizeof *program);
    if (!program)
        fail_kind(err, ERROR_ENVIRONMENT, "out of memory while lowering a plan");
    return program;
}

bool program_lower(struct program **out, const struct graph *graph, const struct plan *plan, struct error *err)
{
    struct lowering l = { .graph = graph, .plan = plan, .err = err, .micro_count = plan->micro_batch_count };
    l.program = program_open(err);
    if (!l.program)
        return false;
    return finish(&l, out, run(&l, 0, graph->layer_count));
}

bool program_lower_layers(struct program **out, const struct graph *graph, const struct plan *plan, int first_layer,
                          int layer_count, int micro_count, struct error *err)
{
    struct lowering l = { .graph = graph, .plan = plan, .err = err, .micro_count = micro_count, .alone = true };
    l.program = program_open(err);
    if (!l.program)
        return false;
    return finish(&l, out, run(&l, first_layer, layer_count));
}
