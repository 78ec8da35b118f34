#include "base/num.h"
#include "planner/layout/lives.h"
#include "planner/program/access.h"
#include "planner/program/pairing.h"
#include <stdlib.h>
#include <string.h>

struct split {
    struct program *program;
    int old_count;
    int *now;     /* (old buffers) the buffer that stands for it at this place of the list */
    bool *read;   /* (old buffers) read since its last renewal */
    bool *ahead;  /* (old buffers) renewed for the next step */
    int *copy_of; /* (copies) growing */
    int copy_count, copy_capacity;
};

static bool own_pairs(struct program *program)
{
    int count = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++)
            if (program->stages[s].instrs[i].op != OP_COMPUTE)
                count += program->stages[s].instrs[i].pair_count;
    struct pair *pairs = calloc((size_t)count + 1, sizeof *pairs);
    if (!pairs)
        return false;
    int at = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            struct instr *instr = &program->stages[s].instrs[i];
            if (instr->op == OP_COMPUTE || !instr->pair_count)
                continue;
            memcpy(&pairs[at], &program->pairs[instr->pair_first], (size_t)instr->pair_count * sizeof *pairs);
            instr->pair_first = at;
            at += instr->pair_count;
        }
    free(program->pairs);
    program->pairs = pairs;
    program->pair_count = count;
    return true;
}

static bool reads_buffer(const struct program *program, const struct instr *instr, int buffer)
{
    struct access access;
    for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &access);)
        if (access.buffer == buffer && access.reads)
            return true;
    return false;
}

static bool add_copy(struct split *split, int buffer)
{
    if (split->copy_count == split->copy_capacity) {
        int capacity = split->copy_capacity ? 2 * split->copy_capacity : 64;
        int *grown = realloc(split->copy_of, (size_t)capacity * sizeof *grown);
        if (!grown)
            return false;
        split->copy_of = grown;
        split->copy_capacity = capacity;
    }
    split->now[buffer] = split->old_count + split->copy_count;
    split->copy_of[split->copy_count++] = buffer;
    return true;
}

/* Splits renewals first, by the old names, and then puts the new names into the slots. */
static bool split_instr(struct split *split, struct instr *instr)
{
    struct program *program = split->program;
    struct access access;
    for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &access);) {
        if (!access.starts || !access_renews(program, instr, &access))
            continue;
        int b = access.buffer;
        bool anew = split->read[b] || instr->part == STEP_AHEAD; /* the opening's, whether or not it was read */
        bool again = anew && !program->buffers[b].persistent && !reads_buffer(program, instr, b);
        if (again && !add_copy(split, b))
            return false;
        if (again)
            split->read[b] = false;
        split->ahead[b] |= again && instr->part == STEP_AHEAD;
    }
    for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &access);) {
        /* an accumulation goes on with the old content, which is a use of it only once somebody reads the sum */
        split->read[access.buffer] |= access.reads && !access.writes;
        if (split->now[access.buffer] != access.buffer)
            *access_place(program, instr, access.slot) = split->now[access.buffer];
    }
    return true;
}

static bool append_copies(struct split *split)
{
    struct program *program = split->program;
    size_t count = (size_t)split->old_count + (size_t)split->copy_count;
    struct buffer *buffers = realloc(program->buffers, (count + 1) * sizeof *buffers);
    if (!buffers)
        return false;
    program->buffers = buffers;
    program->buffer_count = (int)count;
    for (int i = 0; i < split->copy_count; i++) {
        buffers[split->old_count + i] = buffers[split->copy_of[i]];
        if (split->ahead[split->copy_of[i]] && split->now[split->copy_of[i]] == split->old_count + i)
            buffers[split->old_count + i].wraps = 1 + split->copy_of[i];
    }
    return true;
}

/* Renames the partner's buffers in sends, since each side has renamed its own alone. */
static void rename_peers(struct program *program, const struct pairing *pairing)
{
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *send = &program->stages[s].instrs[i];
            if (send->op != OP_SEND)
                continue;
            const struct instr *receive = &program->stages[send->peer_stage].instrs[pairing->partner[s][i]];
            for (int k = 0; k < send->pair_count; k++) {
                struct pair *out = &program->pairs[send->pair_first + k],
                            *in = &program->pairs[receive->pair_first + k];
                out->destination = in->destination;
                in->source = out->source;
            }
        }
}

bool lives_split(struct program *program, struct error *err)
{
    struct pairing pairing;
    if (!pairing_build(&pairing, program, err))
        return false;
    struct split split = { .program = program, .old_count = program->buffer_count };
    split.now = calloc((size_t)program->buffer_count + 1, sizeof *split.now);
    split.read = calloc((size_t)program->buffer_count + 1, sizeof *split.read);
    split.ahead = calloc((size_t)program->buffer_count + 1, sizeof *split.ahead);
    for (int b = 0; split.now && b < program->buffer_count; b++)
        split.now[b] = b;
    bool ok = split.now && split.read && split.ahead && own_pairs(program);
    for (int s = 0; ok && s < program->stage_count; s++)
        for (int i = 0; ok && i < program->stages[s].instr_count; i++)
            ok = split_instr(&split, &program->stages[s].instrs[i]);
    ok = ok && append_copies(&split);
    if (ok)
        rename_peers(program, &pairing);
    else
        fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for the lifetimes of %d buffers",
                  program->buffer_count);
    free(split.now);
    free(split.read);
    free(split.ahead);
    free(split.copy_of);
    pairing_free(&pairing);
    return ok;
}

/* ---- lifetimes in program order ---- */
static bool same_pass(const struct instr *a, const struct instr *b)
{
    return a->micro == b->micro && instr_is_forward(a) == instr_is_forward(b);
}

bool lives_same_visit(const struct instr *a, const struct instr *b)
{
    return a->layer == b->layer && same_pass(a, b);
}

/* Sets end[i]: the last instruction before the compute lane enters the visit after the next, or else the pass after the
 * next, seen from instruction i. */
static void find_ends(const struct stage_program *list, bool visits, int *end)
{
    int later = list->instr_count, next = list->instr_count; /* where the one after the next begins, and the next */
    const struct instr *inside = NULL;
    for (int i = list->instr_count - 1; i >= 0; i--) {
        const struct instr *instr = &list->instrs[i];
        if (instr->lane == LANE_COMPUTE) {
            if (inside && !(same_pass(inside, instr) && (!visits || inside->layer == instr->layer))) {
                later = next;
                next = (int)(inside - list->instrs);
                for (int k = i + 1; k < next; k++) /* between two: of the one just left */
                    end[k] = later - 1;
            }
            inside = instr;
        }
        end[i] = later - 1;
    }
}

/* Sets begin[i]: where in the list instruction i may begin to run, at worst at its place. */
static void find_begins(const struct stage_program *list, int *begin)
{
    int done[LANE_COUNT] = { 0 }, pass = 0; /* behind the last of each lane; where the compute lane's pass began */
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        if (instr->lane == LANE_COMPUTE && !same_pass(&list->instrs[pass], instr))
            pass = i;
        bool receives = instr->lane == LANE_RECEIVE;
        begin[i] = !receives && !instr_serves_layer(instr) ? i : done[instr->lane];
        if (receives && pass > begin[i])
            begin[i] = pass;
        for (int k = 0; k < instr->wait_count; k++) {
            int behind = list->waits[instr->wait_first + k] + 1;
            begin[i] = max_int(begin[i], behind);
        }
        done[instr->lane] = i + 1;
    }
}

/* Sets waited[i]: where the list first waits for an exchange of tokens that is i or behind it. */
static void find_waited(const struct stage_program *list, int *waited)
{
    int done = 0;
    for (int i = 0; i < list->instr_count; i++)
        for (int k = 0; k < list->instrs[i].wait_count; k++) {
            int other = list->waits[list->instrs[i].wait_first + k];
            for (; list->instrs[other].lane == LANE_EP && done <= other; done++)
                waited[done] = i;
        }
    for (; done < list->instr_count; done++)
        waited[done] = list->instr_count - 1;
}

/* Tells for each instruction of a stage which spans it is in. */
struct spans {
    int *begin, *visit_end, *pass_end;
    int *waited; /* NULL: exchanges of tokens run beside nothing */
};

/* Gives until when the bytes that the instruction reads are its own. */
static int held_until(const struct instr *instr, int index, const struct spans *spans)
{
    if (instr->lane == LANE_SEND)
        return spans->pass_end[index];
    if (instr->lane == LANE_EP && spans->waited)
        return spans->waited[index];
    bool beside = instr->lane == LANE_DP || (instr->lane == LANE_COPY_OUT && instr->phase != PHASE_STEP);
    return beside ? spans->visit_end[index] : index;
}

static void stage_lives(const struct program *program, int stage, const struct spans *spans, struct life *lives)
{
    const struct stage_program *list = &program->stages[stage];
    struct access access;
    for (int i = 0; i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        for (struct access_walk walk = access_walk(program, instr); access_next(&walk, &access);) {
            struct life *life = &lives[access.buffer];
            if (life->first < 0) {
                life->first = i;
                life->since = access_over(program, instr, access.slot) >= 0 ? i : spans->begin[i];
            }
            life->last = i;
            int held = access.reads && !access.writes ? held_until(instr, i, spans) : i;
            life->held = max_int(life->held, held);
        }
    }
}

/* Finds the lives of a stage's buffers, which are -1 in `lives` before. */
static bool find_stage(const struct program *program, int stage, struct life *lives, struct error *err)
{
    const struct stage_program *list = &program->stages[stage];
    size_t instrs = (size_t)list->instr_count + 1;
    int *room = malloc(4 * instrs * sizeof *room);
    if (!room)
        return fail_kind(err, ERROR_ENVIRONMENT, "layout: out of memory for the lifetimes of %d buffers",
                         program->buffer_count);
    struct spans spans = { room, &room[instrs], &room[2 * instrs],
                           program->graph->keeping.overlaps_experts ? &room[3 * instrs] : NULL };
    find_begins(list, spans.begin);
    find_ends(list, true, spans.visit_end);
    find_ends(list, false, spans.pass_end);
    if (spans.waited)
        find_waited(list, spans.waited);
    stage_lives(program, stage, &spans, lives);
    free(room);
    return true;
}

static const struct life never = { -1, -1, -1, -1 };

bool lives_find(const struct program *program, struct life *lives, struct error *err)
{
    bool good = true;
    for (int b = 0; b < program->buffer_count; b++)
        lives[b] = never;
    for (int s = 0; s < program->stage_count && good; s++)
        good = find_stage(program, s, lives, err);
    return good;
}

bool lives_find_stage(const struct program *program, int stage, const struct by_stage *of, struct life *lives,
                      struct error *err)
{
    for (int at = of->first[stage]; at < of->first[stage + 1]; at++)
        lives[of->buffer[at]] = never;
    return find_stage(program, stage, lives, err);
}

bool lives_wrap(const struct program *program, const struct life *lives, int buffer)
{
    int as = program->buffers[buffer].wraps - 1;
    int opening = program_opening_count(&program->stages[program->buffers[buffer].stage]);
    return as >= 0 && is_index(lives[as].first, opening) && lives[as].last >= opening;
}

int lives_taken_over(const struct program *program, const struct life *lives, int stage, int index, int slot)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    int over = access_over(program, instr, slot);
    struct access from, into;
    if (over < 0 || !access_at(program, instr, slot, &into) || !access_at(program, instr, over, &from) ||
        from.buffer == into.buffer)
        return -1;
    const struct buffer *a = &program->buffers[from.buffer], *b = &program->buffers[into.buffer];
    bool meet = lives[from.buffer].last == index && lives[into.buffer].first == index;
    if (b->in_place)
        return meet && a->persistent ? from.buffer : -1;
    bool ends = meet && !a->persistent && !b->persistent && !lives_wrap(program, lives, from.buffer);
    return ends && a->bytes == b->bytes ? from.buffer : -1;
}
