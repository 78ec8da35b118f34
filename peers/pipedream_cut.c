#include "peers/pipedream_cut.h"
#include <string.h>

static bool has(const uint64_t *set, int node)
{
    return set[node / 64] >> (node % 64) & 1;
}

bool pipedream_cuts_make(struct pipedream_cuts *cuts, struct arena *arena, struct error *err)
{
    const struct dag *dag = cuts->dag;
    uint64_t *ancestors;
    cuts->words = dag_words(dag->node_count);
    if (!dag_ancestors(dag, arena, &ancestors, err))
        return false;
    cuts->ancestors = ancestors;
    cuts->left_behind = arena_alloc(arena, (size_t)dag->node_count * (size_t)cuts->words, sizeof *cuts->left_behind);
    if (!cuts->left_behind)
        return fail_kind(err, ERROR_ENVIRONMENT, "partition: out of memory");
    for (int a = 0; a < dag->node_count; a++) {
        const uint64_t *before = ancestors + (size_t)a * (size_t)cuts->words;
        for (int p = 0; p < dag->node_count; p++)
            for (int e = dag->first_out[p]; has(before, p) && e < dag->first_out[p + 1]; e++)
                if (dag->out[e] != a && !has(before, dag->out[e]))
                    cuts->left_behind[(size_t)a * (size_t)cuts->words + (size_t)(p / 64)] |= UINT64_C(1) << (p % 64);
    }
    return true;
}

static double sum_activations(const struct pipedream_cuts *cuts, const uint64_t *set)
{
    double bytes = 0;
    for (int w = 0; w < cuts->words; w++)
        for (uint64_t rest = set[w]; rest; rest &= rest - 1)
            bytes += cuts->graph->nodes[64 * w + __builtin_ctzll(rest)].activation_bytes;
    return bytes;
}

static bool is_read_outside(const struct dag *dag, const uint64_t *set, int node)
{
    for (int e = dag->first_out[node]; e < dag->first_out[node + 1]; e++)
        if (!has(set, dag->out[e]))
            return true;
    return false;
}

static bool is_last(const struct dag *dag, const uint64_t *set, int node)
{
    for (int e = dag->first_out[node]; e < dag->first_out[node + 1]; e++)
        if (has(set, dag->out[e]))
            return false;
    return true;
}

double pipedream_cut_bytes(const struct pipedream_cuts *cuts, const uint64_t *ideal, uint64_t *scratch)
{
    memset(scratch, 0, (size_t)cuts->words * sizeof *scratch);
    for (int w = 0; w < cuts->words; w++)
        for (uint64_t rest = ideal[w]; rest; rest &= rest - 1) {
            int v = 64 * w + __builtin_ctzll(rest);
            if (cuts->exact ? !is_read_outside(cuts->dag, ideal, v) : !is_last(cuts->dag, ideal, v))
                continue;
            scratch[w] |= UINT64_C(1) << (v % 64);
            for (int k = 0; k < cuts->words && !cuts->exact; k++)
                scratch[k] |= cuts->left_behind[(size_t)v * (size_t)cuts->words + (size_t)k];
        }
    return sum_activations(cuts, scratch);
}
