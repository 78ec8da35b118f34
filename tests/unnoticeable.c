#include "tests/unnoticeable.h"
#include "planner/program/access.h"
#include "planner/program/recipe.h"

/* Below this share of the whole gradient a tensor's is zero, but for rounding. */
static const double ZERO_NORM = PRECISE ? 1e-12 : 1e-6;

/* Where the content of a buffer is, from behind an instruction of a stage on. */
struct spot {
    const struct program *program;
    int stage, after, buffer;
};

static const struct instr *instr_at(const struct program *program, int stage, int index)
{
    return &program->stages[stage].instrs[index];
}

static const struct buffer *moved_buffer(const struct program *program, const struct instr *instr, int p)
{
    const struct pair *pair = &program->pairs[instr->pair_first + p];
    return &program->buffers[pair->source >= 0 ? pair->source : pair->destination];
}

static int destination_at(const struct program *program, const struct instr *instr, int p)
{
    return program->pairs[instr->pair_first + p].destination;
}

/* The next instruction that reads the content, -1: none does. */
static int next_reader(const struct spot *spot)
{
    const struct stage_program *list = &spot->program->stages[spot->stage];
    struct access access;
    for (int i = spot->after + 1; i < list->instr_count; i++)
        for (int slot = 0; slot < access_slots(&list->instrs[i]); slot++)
            if (access_at(spot->program, &list->instrs[i], slot, &access) && access.buffer == spot->buffer &&
                access.reads)
                return i;
    return -1;
}

/* A key bias shifts all scores of a row alike: its gradient is 0 on every rank, it stays 0, and moving it cannot be
 * noticed. */
bool moves_nothing_but_zeros(const struct reference *r, const struct program *program, const struct instr *instr)
{
    for (int p = 0; p < instr->pair_count; p++) {
        const struct buffer *b = moved_buffer(program, instr, p);
        if (!b->is_weight || b->id < 0 || r->norm[STEPS - 1][b->id] > ZERO_NORM * r->all[STEPS - 1])
            return false;
    }
    return true;
}

/* ---- a difference below the tolerance ---- */
static bool is_pick(const struct program *program, const struct buffer *b)
{
    int producer = b->kind == BUFFER_VALUE ? program->graph->values[b->id].producer : -1;
    return producer >= 0 && program->graph->segments[producer].kernel == KERNEL_PICK;
}

/* In fp32 what only an update makes different can matter less than the second step's tolerance: the weights that it
 * hands out, those that begin as zero, what adapters compute, which such weights multiply, and the length of the
 * gradient, of which AdamW sees no more than how it changes. So can the logits of the targets, which fresh weights
 * leave near 0. */
static bool is_too_fine(const struct program *program, const struct instr *instr, const struct buffer *b)
{
    const struct graph *graph = program->graph;
    bool handed_out = instr->phase == PHASE_STEP && (instr->op == OP_ALL_GATHER || instr->op == OP_BROADCAST),
         zero = b->id >= 0 && b->is_weight && graph->weights[b->id].init == INIT_ZERO;
    const char *name = b->id < 0 ? "" : b->is_weight ? graph->weights[b->id].name : graph->values[b->id].name;
    return !PRECISE &&
           (handed_out || zero || strstr(name, "_lora_") || instr->op == OP_NORM_REDUCE || is_pick(program, b));
}

/* ---- no difference: what members have for each other is not needed ---- */
/* The p-th pair of a transfer. */
struct moved {
    const struct program *program;
    const struct instr *instr;
    const struct buffer *buffer;
    int stage, index, source, destination;
};

/* Of few images all labels may lie in one rank's part of the vocabulary, that of the rank whose loss counts. */
static bool is_of_labels(const struct moved *m)
{
    return m->program->graph->image_value >= 0 && is_pick(m->program, m->buffer);
}

/* All members have tokens of their own. */
static bool shares_out_tokens(const struct moved *m, int segment)
{
    int shared = 0;
    for (int a = 0; a < MAX_ATOMS; a++) {
        int axis = m->program->assignments[segment].axis[a];
        if (!(m->instr->atoms >> a & 1) || m->program->plan->stages[m->stage].atom[a] == 1)
            continue;
        if (axis < 0 || m->program->graph->segments[segment].axes[axis].tag != TAG_SEQUENCE)
            return false;
        shared++;
    }
    return shared > 0;
}

/* A rank that has some of the tokens asks for the positions of these alone. The table is sharded without regard to
 * that, but where it is as long as the sequence its pieces may be just those. */
static bool is_of_positions(const struct moved *m)
{
    const struct graph *graph = m->program->graph;
    for (int s = 0; m->buffer->is_weight && s < graph->segment_count; s++)
        for (int w = 0; w < graph->segments[s].weight_count; w++)
            if (graph->segments[s].weight[w].id == m->buffer->id)
                return graph->segments[s].kernel == KERNEL_ADD_POSITION && shares_out_tokens(m, s);
    return false;
}

/* All that computes with the content are convolutions whose windows are points: these lie where their image does, and
 * so do the gradients of both. */
static bool is_of_points(const struct moved *m)
{
    int buffer = m->instr->op == OP_REDUCE_SCATTER ? m->source : m->destination;
    struct access access;
    bool any = false;
    for (int i = 0; i < m->program->stages[m->stage].instr_count; i++) {
        const struct instr *instr = instr_at(m->program, m->stage, i);
        for (int slot = 0; instr->op == OP_COMPUTE && slot < access_slots(instr); slot++) {
            if (!access_at(m->program, instr, slot, &access) || access.buffer != buffer)
                continue;
            const struct segment *s = &m->program->graph->segments[instr->segment];
            if (s->kernel != KERNEL_CONV || s->arguments.window.height * s->arguments.window.width != 1)
                return false;
            any = true;
        }
    }
    return any;
}

/* The others have nothing to clip. */
static bool is_norm_of_one_rank(const struct moved *m)
{
    int holder = -1;
    for (int b = 0; b < m->program->buffer_count; b++)
        if (m->program->buffers[b].kind == BUFFER_WEIGHT) {
            if (holder >= 0 && holder != m->program->buffers[b].stage)
                return false;
            holder = m->program->buffers[b].stage;
        }
    return m->instr->op == OP_NORM_REDUCE && holder >= 0 && plan_stage_rank_count(m->program->plan, holder) == 1;
}

static bool needs_own_part(const struct spot *spot, unsigned atoms);

static bool arrives_in_parts(const struct program *program, const struct instr *send)
{
    const struct stage_program *list = &program->stages[send->peer_stage];
    for (int i = 0; i < list->instr_count; i++) {
        if (list->instrs[i].op != OP_RECEIVE || list->instrs[i].tag != send->tag)
            continue;
        int buffer = destination_at(program, &list->instrs[i], 0);
        const struct layout *layout = &program->buffers[buffer].layout;
        return layout_atoms(layout, LAYOUT_SHARDED) || layout_atoms(layout, LAYOUT_FLAT) ||
               needs_own_part(&(struct spot){ program, send->peer_stage, i, buffer }, 0);
    }
    return false;
}

/* Part by part: it moves nothing over the atoms. */
static bool copies(const struct instr *instr, unsigned atoms)
{
    return instr->op == OP_ADD || instr->op == OP_SLICE || instr->op == OP_OFFLOAD || instr->op == OP_FETCH ||
           (op_info[instr->op].collective && (instr->atoms & atoms) == 0);
}

/* A norm's gain and bias make no difference to its statistics, for which alone it is computed again below frozen
 * matrices. */
static bool is_statistic(const struct program *program, const struct instr *instr, int slot, int from)
{
    return instr->op == OP_COMPUTE && program->buffers[from].is_weight && slot / MAX_OPERANDS == ROLE_OUT &&
           slot % MAX_OPERANDS > 0 && !kernel_facts[program->graph->segments[instr->segment].kernel].attends;
}

/* No more than a part is needed of anything that the instruction makes of what it reads. */
static bool passes_on(const struct spot *reader, unsigned atoms)
{
    const struct program *program = reader->program;
    const struct instr *instr = instr_at(program, reader->stage, reader->after);
    struct spot made = *reader;
    struct access access;
    bool ok = true;
    for (int slot = 0; ok && slot < access_slots(instr); slot++) {
        bool from = instr->op == OP_COMPUTE || program->pairs[instr->pair_first + slot / 2].source == reader->buffer;
        if (!from || !access_at(program, instr, slot, &access) || !access.writes || access.buffer == reader->buffer ||
            is_statistic(program, instr, slot, reader->buffer))
            continue;
        made.buffer = access.buffer;
        ok = needs_own_part(&made, atoms);
    }
    return ok;
}

/* Members gather what each then computes in whole, and of that each needs the part that it has made of its own: the
 * plan computes a layer on every rank between layers that split it, sums a table that one stage splits by rows and
 * another in pieces, or computes again what only the gradient of such a part needs. Or a rectifier asks for signs
 * alone, and a small bias or a channel of which the rank keeps no gradient changes none. Atoms: over which parts are
 * cut; 0: over any. */
static bool needs_own_part(const struct spot *spot, unsigned atoms)
{
    struct spot reader = *spot;
    while ((reader.after = next_reader(&reader)) >= 0) {
        const struct instr *instr = instr_at(reader.program, reader.stage, reader.after);
        bool computes = instr->op == OP_COMPUTE, cut = instr->op == OP_SLICE && (instr->atoms & atoms) == atoms,
             signs = computes && instr->phase == PHASE_BACKWARD_INPUT &&
                     reader.program->graph->segments[instr->segment].kernel == KERNEL_RELU,
             sent = instr->op == OP_SEND && arrives_in_parts(reader.program, instr);
        if (!cut && !signs && !sent && !((computes || copies(instr, atoms)) && passes_on(&reader, atoms)))
            return false;
    }
    return true;
}

static bool is_of_own_part(const struct moved *m)
{
    const struct spot spot = { m->program, m->stage, m->index, m->destination };
    return m->instr->op == OP_ALL_GATHER && m->destination >= 0 && next_reader(&spot) >= 0 &&
           needs_own_part(&spot, m->instr->atoms);
}

/* A block's forward pass runs again to its end, of which backward reads nothing. */
static bool is_read_by_nobody(const struct spot *spot)
{
    struct spot reader = *spot;
    bool nobody = true;
    while (nobody && (reader.after = next_reader(&reader)) >= 0) {
        const struct instr *instr = instr_at(reader.program, reader.stage, reader.after);
        struct access access;
        struct spot made = reader;
        nobody = instr->again;
        for (struct access_walk walk = access_walk(reader.program, instr); nobody && access_next(&walk, &access);) {
            made.buffer = access.buffer;
            nobody = !access.writes || is_read_by_nobody(&made);
        }
    }
    return nobody;
}

static bool is_of_what_runs_again(const struct moved *m)
{
    const struct spot spot = { m->program, m->stage, m->index, m->destination };
    return m->instr->again && m->destination >= 0 && is_read_by_nobody(&spot);
}

/* ---- the reason ---- */
static const struct {
    enum reason reason;
    bool (*holds)(const struct moved *moved);
} needless[] = {
    { REASON_ONE_RANK, is_norm_of_one_rank }, { REASON_POSITIONS, is_of_positions },
    { REASON_LABELS, is_of_labels },          { REASON_POINTS, is_of_points },
    { REASON_OWN_PART, is_of_own_part },      { REASON_AGAIN, is_of_what_runs_again },
};

const char *const reason_names[REASON_COUNT] = {
    [REASON_UNKNOWN] = "unknown",
    [REASON_ZEROS] = "what it moves is zero but for rounding",
    [REASON_TOO_FINE] = "what it changes is below the tolerance of fp32",
    [REASON_ONE_RANK] = "one rank has all weights, and the norm of their gradient",
    [REASON_POSITIONS] = "each rank has the positions of its own tokens",
    [REASON_LABELS] = "all labels lie in that rank's part of the vocabulary whose loss counts",
    [REASON_POINTS] = "each rank has the pixels that its windows of one pixel see",
    [REASON_AGAIN] = "it is at the end of what runs again, which backward does not read",
    [REASON_OWN_PART] = "of what is made of it each rank needs the part that it had",
};

static enum reason needless_reason(const struct moved *m)
{
    for (size_t i = 0; i < sizeof needless / sizeof *needless; i++)
        if (needless[i].holds(m))
            return needless[i].reason;
    return REASON_UNKNOWN;
}

enum reason unnoticed_reason(const struct reference *r, const struct program *program, int stage, int index)
{
    const struct instr *instr = instr_at(program, stage, index);
    if (moves_nothing_but_zeros(r, program, instr))
        return REASON_ZEROS;
    struct bits moved = run_bits(r, program, false, 0, -1), silenced = run_bits(r, program, false, stage, index);
    bool same = memcmp(moved.loss, silenced.loss, sizeof moved.loss) == 0 && moved.gradients == silenced.gradients;
    enum reason reason = REASON_UNKNOWN;
    for (int p = 0; p < instr->pair_count; p++) {
        const struct pair pair = program->pairs[instr->pair_first + p];
        const struct moved m = { program,     instr,           moved_buffer(program, instr, p), stage, index,
                                 pair.source, pair.destination };
        reason = same ? needless_reason(&m) : is_too_fine(program, instr, m.buffer) ? REASON_TOO_FINE : REASON_UNKNOWN;
        if (reason == REASON_UNKNOWN)
            return reason;
    }
    return reason;
}
