#include "base/num.h"
#include "planner/program/pairing.h"
#include <stdio.h>
#include <stdlib.h>

struct end {
    int tag, from, to;
    bool receives;
    int stage, index;
};

static int compare_ends(const void *left, const void *right)
{
    const struct end *a = left, *b = right;
    const int x[] = { a->tag, a->from, a->to, a->receives, a->stage, a->index };
    const int y[] = { b->tag, b->from, b->to, b->receives, b->stage, b->index };
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

const char *instr_name(char out[INSTR_NAME_BYTES], const struct program *program, int stage, int index)
{
    const struct instr *instr = &program->stages[stage].instrs[index];
    int n = snprintf(out, INSTR_NAME_BYTES, "stage %d instr %d (%s", stage, index, op_info[instr->op].name);
    size_t at = n > 0 ? (size_t)n : 0, left = INSTR_NAME_BYTES - at;
    if (instr->op == OP_COMPUTE && is_index(instr->segment, program->graph->segment_count))
        snprintf(out + at, left, " %s %.60s micro %d round %d)", phase_names[instr->phase],
                 program->graph->segments[instr->segment].name, instr->micro, instr->round);
    else if (instr_is_message(instr))
        snprintf(out + at, left, " tag %d %s stage %d)", instr->tag, instr->op == OP_SEND ? "to" : "from",
                 instr->peer_stage);
    else
        snprintf(out + at, left, ")");
    return out;
}

static struct end *collect_ends(const struct program *program, int *count)
{
    int n = 0;
    for (int s = 0; s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++)
            n += instr_is_message(&program->stages[s].instrs[i]);
    struct end *ends = calloc((size_t)n + 1, sizeof *ends);
    *count = 0;
    for (int s = 0; ends && s < program->stage_count; s++)
        for (int i = 0; i < program->stages[s].instr_count; i++) {
            const struct instr *instr = &program->stages[s].instrs[i];
            bool sends = instr->op == OP_SEND;
            if (instr_is_message(instr))
                ends[(*count)++] = (struct end){
                    instr->tag, sends ? s : instr->peer_stage, sends ? instr->peer_stage : s, !sends, s, i
                };
        }
    return ends;
}

/* Checks that both sides speak of the same buffers: then bytes and blocks agree, for both derive them from these. */
static bool check_same_pairs(const struct program *program, const struct end *send, const struct end *receive,
                             struct error *err)
{
    const struct instr *a = &program->stages[send->stage].instrs[send->index];
    const struct instr *b = &program->stages[receive->stage].instrs[receive->index];
    char first[INSTR_NAME_BYTES], second[INSTR_NAME_BYTES];
    if (a->pair_count != b->pair_count)
        return fail_kind(err, ERROR_BUG, "%s moves %d buffers, but %s expects %d",
                         instr_name(first, program, send->stage, send->index), a->pair_count,
                         instr_name(second, program, receive->stage, receive->index), b->pair_count);
    for (int k = 0; k < a->pair_count; k++) {
        const struct pair *p = &program->pairs[a->pair_first + k], *q = &program->pairs[b->pair_first + k];
        if (p->source != q->source || p->destination != q->destination)
            return fail_kind(err, ERROR_BUG, "%s moves buffer %d to %d, but %s moves %d to %d",
                             instr_name(first, program, send->stage, send->index), p->source, p->destination,
                             instr_name(second, program, receive->stage, receive->index), q->source, q->destination);
    }
    return true;
}

static void join(struct pairing *pairing, const struct end *a, const struct end *b)
{
    pairing->partner[a->stage][a->index] = b->index;
    pairing->partner[b->stage][b->index] = a->index;
}

/* Joins ends sorted, so that of ends that do not pair the same is told whatever the order of the stages. */
static bool join_sorted(struct pairing *pairing, const struct program *program, struct end *ends, int count,
                        struct error *err)
{
    char name[INSTR_NAME_BYTES], other[INSTR_NAME_BYTES];
    qsort(ends, (size_t)count, sizeof *ends, compare_ends);
    for (int i = 0; i < count; i += 2) {
        const struct end *a = &ends[i], *b = i + 1 < count ? &ends[i + 1] : NULL;
        bool same = b && a->tag == b->tag && a->from == b->from && a->to == b->to;
        if (same && a->receives == b->receives)
            return fail_kind(err, ERROR_BUG, "%s and %s have the same tag: the partner of neither is known",
                             instr_name(name, program, a->stage, a->index),
                             instr_name(other, program, b->stage, b->index));
        if (!same)
            return fail_kind(err, ERROR_BUG, "%s has no partner: stage %d has no %s with tag %d %s stage %d",
                             instr_name(name, program, a->stage, a->index), a->receives ? a->from : a->to,
                             a->receives ? "send" : "receive", a->tag, a->receives ? "to" : "from", a->stage);
        if (!check_same_pairs(program, a, b, err))
            return false;
        join(pairing, a, b);
    }
    return true;
}

/* Joins ends by tag: lowering numbers its transfers from 0 on, each with a tag of its own, so they meet in a table.
 * False where some do not; first: (count) by tag 1 + the end that came first, all 0. */
static bool join_by_tag(struct pairing *pairing, const struct program *program, const struct end *ends, int count,
                        int *first)
{
    int joined = 0;
    for (int i = 0; i < count; i++) {
        const struct end *end = &ends[i];
        if (!is_index(end->tag, count))
            return false;
        int *met = &first[end->tag];
        if (*met == 0) {
            *met = i + 1;
            continue;
        }
        const struct end *other = *met > 0 ? &ends[*met - 1] : NULL;
        if (!other || other->from != end->from || other->to != end->to || other->receives == end->receives ||
            !check_same_pairs(program, end->receives ? other : end, end->receives ? end : other, NULL))
            return false;
        join(pairing, other, end);
        joined += 2;
        *met = -1;
    }
    return joined == count;
}

static bool join_ends(struct pairing *pairing, const struct program *program, struct end *ends, int count,
                      struct error *err)
{
    int *first = calloc((size_t)count + 1, sizeof *first);
    if (!first)
        return fail_memory(err);
    bool joined = join_by_tag(pairing, program, ends, count, first);
    free(first);
    return joined || join_sorted(pairing, program, ends, count, err);
}

static bool number_norms(struct pairing *pairing, const struct program *program, struct error *err)
{
    for (int s = 0; s < program->stage_count; s++) {
        int count = 0;
        for (int i = 0; i < program->stages[s].instr_count; i++)
            if (program->stages[s].instrs[i].op == OP_NORM_REDUCE) {
                pairing->partner[s][i] = count;
                pairing->norm[s][count++] = i;
            }
        if (s && count != pairing->norm_count)
            return fail_kind(err, ERROR_BUG,
                             "stage %d has %d norm-reduce, but stage 0 has %d: all ranks of the program must take part",
                             s, count, pairing->norm_count);
        pairing->norm_count = count;
    }
    return true;
}

static bool pairing_alloc(struct pairing *pairing, const struct program *program)
{
    size_t stages = (size_t)program->stage_count;
    pairing->partner = arena_alloc(&pairing->arena, stages, sizeof *pairing->partner);
    pairing->norm = arena_alloc(&pairing->arena, stages, sizeof *pairing->norm);
    for (int s = 0; pairing->partner && pairing->norm && s < program->stage_count; s++) {
        size_t count = (size_t)program->stages[s].instr_count, norms = 0;
        pairing->partner[s] = arena_alloc(&pairing->arena, count, sizeof **pairing->partner);
        for (size_t i = 0; pairing->partner[s] && i < count; i++) {
            pairing->partner[s][i] = -1;
            norms += program->stages[s].instrs[i].op == OP_NORM_REDUCE;
        }
        pairing->norm[s] = arena_alloc(&pairing->arena, norms, sizeof **pairing->norm);
        if (!pairing->partner[s] || !pairing->norm[s])
            return false;
    }
    return pairing->partner && pairing->norm;
}

bool pairing_build(struct pairing *out, const struct program *program, struct error *err)
{
    struct pairing pairing = { 0 };
    int count = 0;
    struct end *ends = collect_ends(program, &count);
    bool ok = ends && pairing_alloc(&pairing, program);
    if (!ok)
        fail_memory(err);
    ok = ok && join_ends(&pairing, program, ends, count, err) && number_norms(&pairing, program, err);
    free(ends);
    if (!ok)
        arena_free(&pairing.arena);
    else
        *out = pairing;
    return ok;
}

void pairing_free(struct pairing *pairing)
{
    arena_free(&pairing->arena);
}
