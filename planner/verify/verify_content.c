/* Over which atoms the content of each buffer is still a partial sum. Kernels write partial sums where their assignment
 * splits an axis that the output lacks; reductions complete them; whoever reads must find what it asks for. So a
 * reduction left out, done twice or too early is seen although all buffers and waits are in order. Likewise the copies
 * of a weight on several stages: a gradient that is used must be the sum of theirs. Program order is one of the orders
 * that waits allow. */
#include "planner/program/access.h"
#include "planner/program/by_stage.h"
#include "planner/program/recipe.h"
#include "planner/verify/verify_parts.h"

enum {
    CONTENT_ZERO = -1,            /* fits every sum */
    CONTENT_OWN = 1 << MAX_ATOMS, /* a norm of this rank's own elements only */
};

struct content {
    struct arena arena;
    const struct program *program;
    struct error *err;
    struct by_stage by_stage;
    int stage, index;
    int *partial; /* (buffers) mask of atoms, or CONTENT_ZERO */
    unsigned
        *stale; /* (buffers) of weights: atoms over which each rank has updated a piece only, or the first rank alone */
    unsigned real;    /* atoms of the stage that have more than one rank */
    uint64_t *copies; /* (buffers) of weights' gradients: the stages whose copies are in it, modulo 64 */
    uint64_t *held;   /* (weights) the stages that hold it, modulo 64 */
    struct segment_masks {
        bool known;
        uint8_t over[ROLE_COUNT][MAX_OPERANDS];
    } * masks; /* (segments) atoms over which the recipe has each operand as a partial sum */
};

static unsigned declared(const struct content *c, int buffer)
{
    return layout_atoms(&c->program->buffers[buffer].layout, LAYOUT_PARTIAL) & c->real;
}

static bool expect(struct content *c, int buffer, unsigned wanted)
{
    int found = c->partial[buffer];
    if (found == CONTENT_ZERO || (unsigned)found == wanted)
        return true;
    return verify_fail(c->program, c->stage, c->index, c->err,
                       "expects buffer %d to be a partial sum over the atoms %#x, found %#x", buffer, wanted,
                       (unsigned)found);
}

/* Puts content; a summand must be partial over the same atoms as the sum. */
static bool put(struct content *c, int buffer, unsigned mask, bool adds)
{
    if (adds && !expect(c, buffer, mask))
        return false;
    c->partial[buffer] = (int)mask;
    return true;
}

/* ---- copies of a weight ---- */
static uint64_t copy_of(int stage)
{
    return UINT64_C(1) << stage % 64;
}

static bool expect_copies(struct content *c, int buffer, uint64_t wanted)
{
    return c->copies[buffer] == wanted ||
           verify_fail(c->program, c->stage, c->index, c->err,
                       "expects buffer %d to be the sum of the copies on the stages %#llx (modulo 64), found %#llx",
                       buffer, (unsigned long long)wanted, (unsigned long long)c->copies[buffer]);
}

/* Follows what a transfer or a local step does to the set; a use wants all, a message one's own. */
static bool check_copies(struct content *c, const struct instr *instr, const struct pair *pair)
{
    const struct buffer *source = pair->source >= 0 ? &c->program->buffers[pair->source] : NULL;
    if (!source || !source->is_weight ||
        (source->kind != BUFFER_WEIGHT_GRADIENT && source->kind != BUFFER_GRADIENT && source->kind != BUFFER_TEMPORARY))
        return true;
    if (instr->op == OP_SEND)
        return expect_copies(c, pair->source, copy_of(c->stage));
    if (instr->op == OP_UPDATE || instr->op == OP_NORM)
        return expect_copies(c, pair->source, c->held[source->id]);
    uint64_t moved = instr->op == OP_RECEIVE ? copy_of(source->stage) : c->copies[pair->source];
    c->copies[pair->destination] = moved | (instr->accumulate ? c->copies[pair->destination] : 0);
    return true;
}

/* ---- kernels ---- */
/* Gives a segment's masks, read once, as micro-batches follow one recipe. ROLE_OUT is what the kernel writes. */
static const struct segment_masks *masks_of(struct content *c, int segment)
{
    const struct program *p = c->program;
    struct segment_masks *masks = &c->masks[segment];
    if (masks->known)
        return masks;
    const struct segment *s = &p->graph->segments[segment];
    struct segment_recipe recipe;
    recipe_layouts(p->graph, p->plan, p->assignments, segment, &recipe);
    for (int i = 0; i < s->in_count; i++) {
        masks->over[ROLE_IN][i] = (uint8_t)layout_atoms(&recipe.in[i].forward, LAYOUT_PARTIAL);
        masks->over[ROLE_GRADIENT_IN][i] = (uint8_t)layout_atoms(&recipe.in[i].gradient, LAYOUT_PARTIAL);
    }
    for (int i = 0; i < s->out_count; i++) {
        masks->over[ROLE_OUT][i] = (uint8_t)layout_atoms(&recipe.out[i].forward, LAYOUT_PARTIAL);
        masks->over[ROLE_GRADIENT_OUT][i] = (uint8_t)layout_atoms(&recipe.out[i].gradient, LAYOUT_PARTIAL);
    }
    for (int i = 0; i < s->weight_count; i++)
        masks->over[ROLE_GRADIENT_WEIGHT][i] = (uint8_t)layout_atoms(&recipe.weight[i].gradient, LAYOUT_PARTIAL);
    masks->known = true;
    return masks;
}

static bool check_compute(struct content *c, const struct instr *instr)
{
    const struct program *p = c->program;
    const struct segment_masks *masks = masks_of(c, instr->segment);
    struct access access;
    for (struct access_walk walk = access_walk(p, instr); access_next(&walk, &access);) {
        enum role role = (enum role)(access.slot / MAX_OPERANDS);
        unsigned mask = masks->over[role][access.slot % MAX_OPERANDS] & c->real;
        if (role == ROLE_WEIGHT || (role == ROLE_OUT && !access.writes))
            mask = declared(
                c, access.buffer); /* backward reads what a kernel made after its fold, whatever became of it */
        if (access.writes && role == ROLE_GRADIENT_WEIGHT)
            c->copies[access.buffer] = copy_of(c->stage);
        bool later = access.starts && !access_renews(p, instr, &access); /* a part beside those of earlier rounds */
        if (access.writes ? !put(c, access.buffer, mask, access.reads || later) : !expect(c, access.buffer, mask))
            return false;
    }
    return true;
}

/* ---- everything else ---- */
static bool check_reduction(struct content *c, const struct instr *instr, const struct pair *pair)
{
    unsigned atoms = instr->atoms & c->real;
    int found = c->partial[pair->source];
    if (found == CONTENT_ZERO)
        found = (int)atoms;
    if (atoms & ~(unsigned)found)
        return verify_fail(c->program, c->stage, c->index, c->err,
                           "reduces buffer %d over the atoms %#x, but it is a partial sum over %#x only", pair->source,
                           atoms, (unsigned)found);
    return put(c, pair->destination, (unsigned)found & ~atoms, instr->accumulate);
}

static bool check_update(struct content *c, const struct pair *pair)
{
    const struct buffer *gradient = &c->program->buffers[pair->source];
    if (!expect(c, pair->source, 0))
        return false;
    if (pair->destination >= 0 && pair->destination != pair->source) { /* the same: fetched state */
        const struct buffer *weight = &c->program->buffers[pair->destination];
        unsigned pieces = layout_atoms(&gradient->layout, LAYOUT_FLAT) & ~layout_atoms(&weight->layout, LAYOUT_FLAT);
        c->stale[pair->destination] |= (pieces | layout_atoms(&gradient->layout, LAYOUT_ROOT)) & c->real;
    }
    return true;
}

static bool check_move(struct content *c, const struct instr *instr, const struct pair *pair)
{
    int found = c->partial[pair->source];
    if ((instr->op == OP_ALL_GATHER || instr->op == OP_BROADCAST) && pair->source == pair->destination)
        c->stale[pair->source] &= ~instr->atoms;
    if (op_info[instr->op].traffic == TRAFFIC_HOST)
        c->stale[pair->destination] = c->stale[pair->source];
    if (instr->op == OP_REDISTRIBUTE)
        return expect(c, pair->source, declared(c, pair->source)) &&
               put(c, pair->destination, declared(c, pair->destination), instr->accumulate);
    return found == CONTENT_ZERO || put(c, pair->destination, (unsigned)found, instr->accumulate);
}

static bool check_pair(struct content *c, const struct instr *instr, const struct pair *pair)
{
    switch (instr->op) {
    case OP_LOAD:
    case OP_SEED:
        return put(c, pair->destination, 0, instr->accumulate);
    case OP_ZERO:
        c->partial[pair->destination] =
            c->program->buffers[pair->destination].kind == BUFFER_SCALAR ? CONTENT_OWN : CONTENT_ZERO;
        return true;
    case OP_ALL_REDUCE:
    case OP_REDUCE:
    case OP_REDUCE_SCATTER:
        return check_reduction(c, instr, pair);
    case OP_SLICE:
    case OP_ADD:
    case OP_ALL_GATHER:
    case OP_BROADCAST:
    case OP_ALL_TO_ALL:
    case OP_REDISTRIBUTE:
    case OP_SHIFT:
    case OP_OFFLOAD:
    case OP_FETCH:
        return check_move(c, instr, pair);
    case OP_SEND:
        return expect(c, pair->source, declared(c, pair->source));
    case OP_RECEIVE:
        return put(c, pair->destination, declared(c, pair->destination), instr->accumulate);
    case OP_NORM:
        return expect(c, pair->source, 0) && expect(c, pair->destination, CONTENT_OWN);
    case OP_NORM_REDUCE:
        return expect(c, pair->source, CONTENT_OWN) && put(c, pair->destination, 0, false);
    case OP_UPDATE:
        return check_update(c, pair);
    case OP_COMPUTE:
    case OP_COUNT:
        break;
    }
    return true;
}

static bool check_stage(struct content *c, int stage)
{
    const struct program *p = c->program;
    c->stage = stage;
    c->real = 0;
    for (int atom = 0; atom < MAX_ATOMS; atom++)
        c->real |= (unsigned)(p->plan->stages[stage].atom[atom] > 1) << atom;
    for (c->index = 0; c->index < p->stages[stage].instr_count; c->index++) {
        const struct instr *instr = &p->stages[stage].instrs[c->index];
        if (instr->op == OP_COMPUTE && !check_compute(c, instr))
            return false;
        for (int k = 0; instr->op != OP_COMPUTE && k < instr->pair_count; k++) {
            const struct pair *pair = &p->pairs[instr->pair_first + k];
            if (!check_pair(c, instr, pair) || !check_copies(c, instr, pair))
                return false;
        }
    }
    for (int k = c->by_stage.first[stage]; k < c->by_stage.first[stage + 1]; k++) {
        int b = c->by_stage.buffer[k];
        if (c->stale[b])
            return fail_kind(
                c->err, ERROR_BUG,
                "stage %d: of the ranks over the atoms %#x each updates a piece of buffer %d, or one all of it, but "
                "the others never get it",
                stage, c->stale[b], b);
    }
    return true;
}

bool verify_content(const struct program *program, struct error *err)
{
    struct content c = { .program = program, .err = err };
    c.partial = arena_alloc(&c.arena, (size_t)program->buffer_count, sizeof *c.partial);
    c.stale = arena_alloc(&c.arena, (size_t)program->buffer_count, sizeof *c.stale);
    c.copies = arena_alloc(&c.arena, (size_t)program->buffer_count, sizeof *c.copies);
    c.held = arena_alloc(&c.arena, (size_t)program->graph->weight_count, sizeof *c.held);
    c.masks = arena_alloc(&c.arena, (size_t)program->graph->segment_count, sizeof *c.masks);
    bool ok = !arena_failed(&c.arena) && by_stage_build(&c.by_stage, &c.arena, program);
    for (int b = 0; ok && b < program->buffer_count; b++)
        if (program->buffers[b].kind == BUFFER_WEIGHT)
            c.held[program->buffers[b].id] |= copy_of(program->buffers[b].stage);
    if (!ok)
        fail_memory(err);
    for (int s = 0; ok && s < program->stage_count; s++)
        ok = check_stage(&c, s);
    arena_free(&c.arena);
    return ok;
}
