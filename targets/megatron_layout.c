/* Layouts of pipelines as Megatron-Core writes them (megatron/core/transformer/pipeline_parallel_layer_layout.py):
 * stages between |, E the embedding, t a block, m one that predicts a further token, L the loss, x*n and (x)*n
 * repeated, commas for the eye. */
#include "targets/megatron.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void put_blocks(struct text *out, int count)
{
    if (count > 1)
        text_printf(out, "t*%d", count);
    else
        text_add(out, count ? "t" : "");
}

void megatron_put_layout(struct text *out, const struct megatron_layout *layout)
{
    const int *piece_blocks = layout->piece_blocks, piece_count = layout->piece_count;
    text_add(out, "E");
    for (int i = 0; i < piece_count;) {
        int same = 1, further = layout->further > 0 ? layout->further_piece : -1;
        while (i > 0 && i != further && i + same != further && i + same < piece_count - 1 &&
               piece_blocks[i + same] == piece_blocks[i])
            same++;
        if (i > 0 && i < piece_count - 1 && same > 1) {
            text_add(out, "(");
            put_blocks(out, piece_blocks[i]);
            text_printf(out, "|)*%d", same);
        } else {
            put_blocks(out, piece_blocks[i]);
            for (int k = 0; i == further && k < layout->further; k++)
                text_add(out, "m");
            text_add(out, i < piece_count - 1 ? "|" : "");
        }
        i += same;
    }
    text_add(out, "L");
}

enum { MOST_PIECES = 1 << 14, MOST_LETTERS = 1 << 20 };

/* Writes the layout out: without commas, every repetition done. False: it is none, or too long. */
static bool unfold(struct text *out, const char *layout)
{
    struct text group = { 0 };
    bool in_group = false, ok = true;
    for (const char *p = layout; *p && ok;) {
        char one[2] = { *p, 0 };
        struct text *into = in_group ? &group : out;
        const char *unit = one;
        bool repeats = true;
        if (*p == ',' || isspace((unsigned char)*p)) {
            p++;
            continue;
        }
        if (*p == '(') {
            ok = !in_group;
            in_group = true;
            group.length = 0;
            p++;
            continue;
        }
        if (*p == ')') {
            ok = in_group;
            in_group = false;
            into = out;
            unit = group.length > 0 ? group.data : "";
        } else {
            repeats = *p != '|' && strchr("EtLm", *p) != NULL;
            ok = repeats || *p == '|';
        }
        p++;
        long times = 1;
        if (ok && *p == '*') {
            char *end;
            times = isdigit((unsigned char)p[1]) ? strtol(p + 1, &end, 10) : -1;
            ok = times >= 0 && times <= MOST_LETTERS;
            p = ok ? end : p;
        }
        size_t length = strlen(unit);
        ok = ok && (length == 0 || (size_t)times <= (MOST_LETTERS - into->length) / length);
        for (long i = 0; ok && length > 0 && i < times; i++)
            text_add_bytes(into, unit, length);
    }
    ok = ok && !in_group && !group.failed && !out->failed;
    text_free(&group);
    return ok;
}

/* Those that predict further tokens stand together, none of the others behind them. */
static bool count_further(struct megatron_layout *out, const char *flat, struct error *err)
{
    int at = 0;
    for (const char *p = flat; *p; p++) {
        at += *p == '|';
        if (*p == 't' && out->further > 0)
            return fail(err, "expected every t before the m, which predict further tokens");
        if (*p != 'm')
            continue;
        if (out->further > 0 && out->further_piece != at)
            return fail(err, "expected every m, which predicts a further token, on one stage");
        out->further++;
        out->further_piece = at;
    }
    return true;
}

static bool count_pieces(const char *flat, struct megatron_layout *out, struct arena *arena, struct error *err)
{
    int pieces = 1, embeddings = 0, losses = 0, at = 0;
    const char *last = flat;
    for (const char *p = flat; *p; p++) {
        pieces += *p == '|';
        embeddings += *p == 'E';
        losses += *p == 'L';
        if (*p != '|')
            last = p;
    }
    const char *first = flat + strspn(flat, "|");
    if (embeddings != 1 || *first != 'E')
        return fail(err, "expected E, the embedding, first and once");
    if (losses != 1 || *last != 'L')
        return fail(err, "expected L, the loss, last and once");
    if (first != flat || flat[strlen(flat) - 1] != 'L')
        return fail(err, "expected the embedding on the first stage and the loss on the last one");
    if (pieces > MOST_PIECES)
        return fail(err, "expected at most %d stages, found %d", MOST_PIECES, pieces);
    int *blocks = arena_alloc(arena, (size_t)pieces, sizeof *blocks);
    if (!blocks)
        return fail_memory(err);
    for (const char *p = flat; *p; p++) {
        at += *p == '|';
        blocks[at] += *p == 't';
    }
    out->piece_blocks = blocks;
    out->piece_count = pieces;
    return count_further(out, flat, err);
}

bool megatron_read_layout(struct megatron_layout *out, struct arena *arena, const char *layout, struct error *err)
{
    struct text flat = { 0 };
    *out = (struct megatron_layout){ 0 };
    bool ok = unfold(&flat, layout) && flat.length > 0;
    if (!ok)
        fail(err, "expected a layout such as Et*2|(t*3|)*6t*2L, found \"%.64s\"", layout);
    ok = ok && count_pieces(flat.data, out, arena, err);
    text_free(&flat);
    return ok || error_within(err, "--pipeline-model-parallel-layout");
}
