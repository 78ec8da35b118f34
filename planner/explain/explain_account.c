#include "planner/explain/explain_account.h"
#include "base/num.h"
#include "models/model.h"
#include "planner/program/access.h"
#include "planner/program/by_stage.h"
#include "planner/layout/lives.h"
#include "planner/cost/cost.h"
#include "planner/estimate/estimate.h"
#include <stdlib.h>

const char *const memory_kind_names[MEMORY_KIND_COUNT + 1] = {
    [MEMORY_WEIGHTS] = "weights",         [MEMORY_OPTIMIZER] = "optimizer", [MEMORY_GRADIENTS] = "gradients",
    [MEMORY_ACTIVATIONS] = "activations", [MEMORY_LOGITS] = "logits",       [MEMORY_GATHERED] = "gathered",
    [MEMORY_TRANSIENT] = "transient",     [MEMORY_WORKSPACE] = "workspace", [MEMORY_GAPS] = "gaps",
};

static bool is_of_vocabulary(const struct program *program, const struct buffer *buffer)
{
    const struct value *value = buffer->is_weight || buffer->id < 0 ? NULL : &program->graph->values[buffer->id];
    for (int i = 0; value && i < value->dim_count; i++)
        if (value->tag[i] == TAG_VOCAB)
            return true;
    return false;
}

/* gathered: whether ranks gathered it. */
static enum memory_kind kind_of(const struct program *program, const struct buffer *buffer, bool gathered)
{
    if (is_of_vocabulary(program, buffer))
        return MEMORY_LOGITS;
    if (gathered && buffer->kind == BUFFER_VALUE)
        return MEMORY_GATHERED;
    switch (buffer->kind) {
    case BUFFER_WEIGHT:
        return MEMORY_WEIGHTS;
    case BUFFER_STATE:
    case BUFFER_STATE_USE:
    case BUFFER_SCALAR:
        return MEMORY_OPTIMIZER;
    case BUFFER_WEIGHT_GRADIENT:
    case BUFFER_GRADIENT:
        return MEMORY_GRADIENTS;
    case BUFFER_VALUE:
        return MEMORY_ACTIVATIONS;
    case BUFFER_WEIGHT_USE:
        return MEMORY_GATHERED;
    case BUFFER_VALUE_GRADIENT:
    case BUFFER_TEMPORARY:
    case BUFFER_KIND_COUNT:
        break;
    }
    return MEMORY_TRANSIENT;
}

/* Bytes that a buffer takes in its arena: up to where the next one may begin. */
static int64_t taken_bytes(const struct buffer *buffer)
{
    return round_up(buffer->bytes, ARENA_ALIGNMENT_BYTES);
}

/* ---- when each buffer has its bytes to itself ---- */

/* What works in place hands bytes over: the source has them until just before, the destination from there on. */
static void hand_over(const struct program *program, int stage, struct life *lives)
{
    const struct stage_program *list = &program->stages[stage];
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        for (int slot = 0; slot < access_slots(instr); slot++) {
            int from = lives_taken_over(program, lives, stage, i, slot);
            struct access into;
            if (from < 0 || !access_at(program, instr, slot, &into) ||
                program->buffers[from].offset != program->buffers[into.buffer].offset)
                continue;
            struct life *source = &lives[from], *destination = &lives[into.buffer];
            destination->held = source->held > destination->held ? source->held : destination->held;
            source->held = i - 1;
        }
    }
}

/* What nobody touches has a place at the first moment. */
static struct life alive(const struct life *life)
{
    return life->first < 0 ? (struct life){ 0, 0, 0, 0 } : *life;
}

/* The instruction at which most bytes of the stage's temporary buffers live. change: (instructions + 1), zeroes. */
static int fullest_moment(const struct program *program, int stage, const struct by_stage *of, const struct life *lives,
                          int64_t *change)
{
    int64_t now = 0, most = -1;
    int moment = 0;
    for (int at = of->first[stage]; at < of->first[stage + 1]; at++) {
        int b = of->buffer[at];
        const struct buffer *buffer = &program->buffers[b];
        if (buffer->persistent || buffer->host)
            continue;
        struct life life = alive(&lives[b]);
        if (life.held < life.since)
            continue; /* handed over where it began */
        change[life.since] += taken_bytes(buffer);
        change[life.held + 1] -= taken_bytes(buffer);
    }
    for (int i = 0; i < program->stages[stage].instr_count; i++) {
        now += change[i];
        if (now > most) {
            most = now;
            moment = i;
        }
    }
    return moment;
}

/* The number of different micro-batches among the activations of the moment; seen: (micro-batches), zeroes. */
static bool count_micro(const struct buffer *buffer, bool *seen)
{
    if (buffer->kind != BUFFER_VALUE || buffer->persistent || buffer->micro < 0 || seen[buffer->micro])
        return false;
    return seen[buffer->micro] = true;
}

/* gathered: (buffers), false. */
static void mark_gathered(const struct program *program, bool *gathered)
{
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            for (int k = 0; instr->op == OP_ALL_GATHER && k < instr->pair_count; k++)
                gathered[program->pairs[instr->pair_first + k].destination] = true;
        }
}

static void fill_stage(const struct program *program, int stage, const struct by_stage *of, const struct life *lives,
                       int moment, bool *seen, const bool *gathered, struct stage_memory *out)
{
    const struct stage_program *list = &program->stages[stage];
    int64_t sum = round_up(list->scratch_bytes, ARENA_ALIGNMENT_BYTES);
    *out = (struct stage_memory){ .peak_bytes = list->arena_bytes, .peak_instr = moment, .peak_layer = -1 };
    out->bytes[MEMORY_WORKSPACE] = sum;
    if (list->instr_count > 0)
        out->peak_layer = list->instrs[moment].layer;
    for (int at = of->first[stage]; at < of->first[stage + 1]; at++) {
        int b = of->buffer[at];
        const struct buffer *buffer = &program->buffers[b];
        struct life life = alive(&lives[b]);
        if (buffer->host || (!buffer->persistent && (moment < life.since || moment > life.held)))
            continue;
        out->bytes[kind_of(program, buffer, gathered[b])] += taken_bytes(buffer);
        sum += taken_bytes(buffer);
        out->in_flight += count_micro(buffer, seen);
    }
    out->bytes[MEMORY_GAPS] = list->arena_bytes - sum;
}

static bool stage_memory(const struct program *program, int stage, const struct by_stage *of, const struct life *lives,
                         const bool *gathered, struct stage_memory *out)
{
    int64_t *change = calloc((size_t)program->stages[stage].instr_count + 2, sizeof *change);
    bool *seen = calloc((size_t)program->plan->micro_batch_count + 1, sizeof *seen);
    bool ok = change && seen;
    if (ok)
        fill_stage(program, stage, of, lives, fullest_moment(program, stage, of, lives, change), seen, gathered, out);
    free(change);
    free(seen);
    return ok;
}

bool account_program_memory(const struct program *program, struct stage_memory *stages, struct error *err)
{
    struct life *lives = malloc(((size_t)program->buffer_count + 1) * sizeof *lives);
    bool *gathered = calloc((size_t)program->buffer_count + 1, sizeof *gathered);
    struct arena scratch = { 0 };
    struct by_stage of;
    bool enough = lives && gathered && by_stage_build(&of, &scratch, program);
    bool ok = enough && lives_find(program, lives, err);
    if (!enough)
        fail_kind(err, ERROR_ENVIRONMENT, "explain: out of memory for %d buffers", program->buffer_count);
    if (ok)
        mark_gathered(program, gathered);
    for (int s = 0; ok && s < program->stage_count; s++) {
        hand_over(program, s, lives);
        ok = stage_memory(program, s, &of, lives, gathered, &stages[s]) || fail_memory(err);
    }
    arena_free(&scratch);
    free(lives);
    free(gathered);
    return ok;
}

/* ---- one plan ---- */

void explained_free(struct explained *explained)
{
    if (!explained)
        return;
    pace_give(NULL, explained->pace);
    graph_free(explained->graph);
    plan_free(explained->plan);
    free(explained->memory);
    free(explained);
}

/* What fills the laid out program's arenas, and what the plan's further micro-batches need. */
static bool measure(struct explained *e, struct error *err)
{
    struct arena scratch = { 0 };
    const struct program *program = e->pace->pace.few.program;
    int64_t *bytes = arena_alloc(&scratch, (size_t)e->plan->stage_count, sizeof *bytes);
    bool good = bytes || fail_memory(err);
    good = good && account_program_memory(program, e->memory, err) &&
           estimate_program_bytes(bytes, program, e->model, e->plan, err);
    for (int s = 0; good && s < e->plan->stage_count; s++) {
        e->memory[s].bytes[MEMORY_GAPS] += bytes[s] - e->memory[s].peak_bytes;
        e->memory[s].peak_bytes = bytes[s];
    }
    arena_free(&scratch);
    e->measured = good;
    return good;
}

bool explained_lower(struct explained *e, struct pace_shelf *shelf, struct error *err)
{
    if (e->program)
        return true;
    if (!pace_take(&e->pace, shelf, e->model, e->plan, err))
        return false;
    if (!pace_lay_out(&e->pace->pace, err) || !(e->measured || measure(e, err))) {
        explained_drop(e, NULL);
        return false;
    }
    e->program = e->pace->pace.few.program;
    return true;
}

void explained_drop(struct explained *explained, struct pace_shelf *shelf)
{
    pace_give(shelf, explained->pace);
    explained->pace = NULL;
    explained->program = NULL;
}

static bool fill_explained(struct explained *e, const struct model *model, const struct plan *plan, struct error *err)
{
    e->model = model;
    e->plan = plan_copy(plan);
    e->memory = calloc((size_t)plan->stage_count, sizeof *e->memory);
    if (!e->plan || !e->memory)
        return fail_memory(err);
    return plan_graph(&e->graph, model, plan, err) && plan_check(e->plan, e->graph, err);
}

bool explained_open(struct explained **out, const struct model *model, const struct plan *plan, struct error *err)
{
    struct explained *explained = calloc(1, sizeof *explained);
    if (!explained)
        return fail_memory(err);
    if (!fill_explained(explained, model, plan, err)) {
        explained_free(explained);
        return false;
    }
    *out = explained;
    return true;
}

int64_t explained_peak_bytes(const struct explained *explained)
{
    int64_t peak = 0;
    for (int s = 0; s < explained->plan->stage_count; s++)
        peak = max_i64(peak, explained->memory[s].peak_bytes);
    return peak;
}

int64_t account_left_bytes(const struct account *account, int stage)
{
    return account->available_bytes[stage] - account->memory[stage].peak_bytes;
}

bool account_open(struct account *out, struct explained *explained, const struct facts *facts, struct error *err)
{
    struct account account = { .stage_count = explained->plan->stage_count, .memory = explained->memory };
    struct paced_apart apart = { 0 };
    struct paced_step step;
    account.available_bytes = arena_alloc(&account.arena, (size_t)account.stage_count, sizeof *account.available_bytes);
    if (!account.available_bytes)
        return fail_memory(err);
    struct pace *pace = &explained->pace->pace;
    if ((pace->further > 0 && !pace_time_apart(pace, facts, &account.arena, &apart, err)) ||
        !pace_time(pace, facts, &apart, &account.arena, &step, err)) {
        account_free(&account);
        return false;
    }
    account.step_ns = step.step_ns;
    account.last_stage = step.last_stage;
    account.time_ns = step.time_ns;
    for (int s = 0; s < account.stage_count; s++) {
        account.available_bytes[s] = cost_stage_available_bytes(facts, explained->plan, s);
        if (account_left_bytes(&account, s) < account_left_bytes(&account, account.full_stage))
            account.full_stage = s;
    }
    account.fits = account_left_bytes(&account, account.full_stage) >= 0;
    *out = account;
    return true;
}

void account_free(struct account *account)
{
    arena_free(&account->arena);
}
