#include "base/num.h"
#include "planner/program/by_stage.h"
#include "planner/layout/lives.h"
#include "planner/layout/order.h"
#include "planner/verify/verify_parts.h"
#include "planner/program/rendezvous.h"
#include "planner/verify/verify.h"
#include <stdlib.h>
#include <string.h>

/* ---- the arena ---- */
struct extent {
    int64_t low, high;
    int buffer;
};

static int compare_extents(const void *left, const void *right)
{
    const struct extent *a = left, *b = right;
    if (a->low != b->low)
        return a->low < b->low ? -1 : 1;
    return a->high != b->high ? (a->high < b->high ? -1 : 1) : a->buffer - b->buffer;
}

static bool check_extents(const struct program *program, int stage, const struct by_stage *by_stage,
                          struct extent *extents, struct error *err)
{
    const struct stage_program *list = &program->stages[stage];
    int count = 0;
    extents[count++] = (struct extent){ list->scratch_offset, list->scratch_offset + list->scratch_bytes, -1 };
    for (int k = by_stage->first[stage]; k < by_stage->first[stage + 1]; k++) {
        int b = by_stage->buffer[k];
        const struct buffer *buffer = &program->buffers[b];
        int64_t low = buffer_address(list, buffer), room = buffer->host ? list->host_bytes : list->arena_bytes;
        if (buffer->offset < 0 || buffer->offset > room - buffer->bytes)
            return fail_kind(err, ERROR_BUG,
                             "stage %d: buffer %d, %lld bytes at %lld, lies outside the %s of %lld bytes", stage, b,
                             (long long)buffer->bytes, (long long)buffer->offset,
                             buffer->host ? "host's arena" : "arena", (long long)room);
        if (buffer->persistent && buffer->bytes)
            extents[count++] = (struct extent){ low, low + buffer->bytes, b };
    }
    qsort(extents, (size_t)count, sizeof *extents, compare_extents);
    for (int i = 1; i < count; i++)
        if (extents[i].low < extents[i - 1].high)
            return fail_kind(
                err, ERROR_BUG,
                "stage %d: buffers %d and %d (-1: the workspace) overlap at %lld, but both last the whole step", stage,
                extents[i - 1].buffer, extents[i].buffer, (long long)extents[i].low);
    return true;
}

static bool has_offsets(const struct program *program)
{
    for (int b = 0; b < program->buffer_count; b++)
        if (program->buffers[b].offset >= 0)
            return true;
    return false;
}

/* Checks that offsets lie in the arena, and what persists apart from each other and from the workspace. */
static bool verify_arena(const struct program *program, struct error *err)
{
    for (int s = 0; s < program->stage_count; s++) {
        const struct stage_program *list = &program->stages[s];
        if (list->arena_bytes < 0 || list->host_bytes < 0 || list->scratch_bytes < 0 || list->scratch_offset < 0 ||
            list->scratch_offset > list->arena_bytes - list->scratch_bytes)
            return fail_kind(err, ERROR_BUG, "stage %d: the workspace lies outside the arena", s);
    }
    if (!has_offsets(program))
        return true;
    struct arena arena = { 0 };
    struct by_stage by_stage;
    struct extent *extents = arena_alloc(&arena, (size_t)program->buffer_count + 1, sizeof *extents);
    bool ok = (extents && by_stage_build(&by_stage, &arena, program)) || fail_memory(err);
    for (int s = 0; ok && s < program->stage_count; s++)
        ok = check_extents(program, s, &by_stage, extents, err);
    arena_free(&arena);
    return ok;
}

/* ---- reads, writes and reuse of bytes are ordered, and every read finds its own content ---- */
struct order_check {
    const struct program *program;
    struct error *err;
};

static enum order_answer refuse(void *self, const struct hazard *h)
{
    struct order_check *check = self;
    const struct program *p = check->program;
    char name[INSTR_NAME_BYTES] = "";
    if (h->earlier >= 0)
        instr_name(name, p, h->stage, h->earlier);
    switch (h->kind) {
    case HAZARD_READ_EARLY:
        verify_fail(p, h->stage, h->later, check->err,
                    "reads buffer %d without waiting for %s, which writes it on another lane", h->buffer, name);
        break;
    case HAZARD_WRITE_EARLY:
        verify_fail(p, h->stage, h->later, check->err,
                    "writes buffer %d without waiting for %s, which uses it on another lane", h->buffer, name);
        break;
    case HAZARD_REUSE_EARLY:
        verify_fail(p, h->stage, h->later, check->err,
                    "buffer %d takes bytes of buffer %d without waiting for %s, which uses them on another lane",
                    h->buffer, h->other, name);
        break;
    case HAZARD_UNDEFINED:
        verify_fail(p, h->stage, h->later, check->err, "reads buffer %d before anything defines it", h->buffer);
        break;
    case HAZARD_OVERWRITTEN:
        verify_fail(p, h->stage, h->later, check->err, "reads buffer %d, whose bytes buffer %d took at %s", h->buffer,
                    h->other, name);
        break;
    case HAZARD_PERSISTENT:
        verify_fail(p, h->stage, h->later, check->err,
                    "buffer %d lies over bytes of buffer %d (-1: the workspace), which lasts the whole step", h->buffer,
                    h->other);
        break;
    }
    return ORDER_STOP;
}

/* ---- the border between steps ---- */
/* Checks that nothing else begins in the bytes once they hold what the next step reads. */
static bool check_kept(const struct program *program, const struct life *lives, int b, struct error *err)
{
    const struct buffer *kept = &program->buffers[b];
    for (int other = 0; other < program->buffer_count; other++) {
        const struct buffer *o = &program->buffers[other];
        bool apart =
            o->host != kept->host || o->offset >= kept->offset + kept->bytes || kept->offset >= o->offset + o->bytes;
        if (other != b && o->stage == kept->stage && !o->persistent && !apart && lives[other].first > lives[b].first)
            return verify_fail(program, kept->stage, lives[other].first, err,
                               "buffer %d takes bytes of buffer %d, which the next step reads", other, b);
    }
    return true;
}

/* Checks that what the first step reads of the opening a later one reads of the step before, in the same bytes. */
static bool check_border(const struct program *program, const struct life *lives, struct error *err)
{
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        int opening = program_opening_count(&program->stages[buffer->stage]);
        if (buffer->persistent || !is_index(lives[b].first, opening) || lives[b].last < opening)
            continue;
        int ahead = 0; /* the buffer whose bytes the next step reads as this one */
        while (ahead < program->buffer_count && program->buffers[ahead].wraps != b + 1)
            ahead++;
        if (ahead == program->buffer_count || lives[ahead].first < opening ||
            program->buffers[ahead].offset != buffer->offset)
            return fail_kind(
                err, ERROR_BUG,
                "stage %d: buffer %d crosses the border of a step, but no buffer at its offset is made for "
                "the next step",
                buffer->stage, b);
        if (!check_kept(program, lives, ahead, err))
            return false;
    }
    return true;
}

/* Checks openings, which exist only after lifetimes were split, as the layout does. */
static bool verify_border(const struct program *program, struct error *err)
{
    bool any = false;
    for (int s = 0; s < program->stage_count; s++) {
        const struct stage_program *list = &program->stages[s];
        int opening = program_opening_count(list);
        any |= opening > 0;
        for (int i = opening; i < list->instr_count; i++)
            if (list->instrs[i].part == STEP_OPENING)
                return verify_fail(program, s, i, err, "belongs to the opening, but stands behind it");
    }
    if (!any || !has_offsets(program))
        return true;
    struct life *lives = malloc(((size_t)program->buffer_count + 1) * sizeof *lives);
    bool ok = lives || fail_memory(err);
    ok = ok && lives_find(program, lives, err) && check_border(program, lives, err);
    free(lives);
    return ok;
}

/* ---- progress ---- */
/* Groups over several stages are issued in one order: two stages see the transfers of a channel in the same order, and
 * no transfer passes a norm-reduce, which all ranks enter. */
struct channel {
    int send, receive;
};

static bool check_channels(const struct program *program, const struct pairing *pairing, struct channel *last,
                           struct error *err)
{
    int stages = program->stage_count;
    for (int s = 0; s < stages; s++) {
        for (int peer = 0; peer < stages; peer++)
            last[peer].receive = -1;
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            if (instr->op != OP_SEND)
                continue;
            int partner = pairing->partner[s][i];
            struct channel *channel = &last[instr->peer_stage];
            if (partner < channel->receive)
                return verify_fail(program, s, i, err,
                                   "comes after the send instr %d, but stage %d receives it first (instr %d before %d)",
                                   channel->send, instr->peer_stage, partner, channel->receive);
            channel->send = i;
            channel->receive = partner;
        }
    }
    return true;
}

static bool check_norms(const struct program *program, const struct pairing *pairing, struct error *err)
{
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; pairing->norm_count && i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            if (instr->op != OP_SEND)
                continue;
            for (int k = 0; k < pairing->norm_count; k++)
                if ((pairing->norm[s][k] < i) != (pairing->norm[instr->peer_stage][k] < pairing->partner[s][i]))
                    return verify_fail(
                        program, s, i, err,
                        "is issued on the other side of norm-reduce %d than its receive, stage %d instr %d", k,
                        instr->peer_stage, pairing->partner[s][i]);
        }
    return true;
}

/* Checks that one issue order serves all groups, without stalls where a send ends only together with its receive. */
static bool verify_progress(const struct program *program, const struct pairing *pairing, struct error *err)
{
    struct arena arena = { 0 };
    struct channel *last = arena_alloc(&arena, (size_t)program->stage_count, sizeof *last);
    bool steady = false;
    for (int s = 0; s < program->stage_count; s++)
        steady |= program_opening_count(&program->stages[s]) > 0;
    bool ok = (last || fail_memory(err)) && check_channels(program, pairing, last, err) &&
              check_norms(program, pairing, err) && rendezvous_run(program, pairing, false, NULL, err) &&
              (!steady || rendezvous_run(program, pairing, true, NULL, err));
    arena_free(&arena);
    return ok;
}

bool verify_program(const struct program *program, struct error *err)
{
    struct pairing pairing;
    struct order_check check = { program, err };
    if (!verify_structure(program, err) || !verify_arena(program, err) || !pairing_build(&pairing, program, err))
        return false;
    bool ok = order_walk(program, refuse, &check, err) && verify_border(program, err) && verify_flow(program, err) &&
              verify_content(program, err) && verify_progress(program, &pairing, err);
    pairing_free(&pairing);
    return ok;
}
