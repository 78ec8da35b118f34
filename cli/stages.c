#include "cli/stages.h"
#include "base/text.h"
#include "planner/program/schedule.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PIECES = 1 << 16, MOST_LETTERS = 1 << 20 };

static bool no_cuts(const char *text, const char *found, struct error *err)
{
    return fail(err,
                "--stages: expected blocks by stage, such as 5,6,6,4, or a layout of E, t, L and '|', such as "
                "'Et*3|(tt|)*29L', found '%.60s' in '%.200s'",
                found, text);
}

/* How often what stands before it comes: the number behind '*', 1 where there is none. */
static bool read_times(long *times, const char **at)
{
    char *end = NULL;
    *times = 1;
    if (**at != '*')
        return true;
    if (!isdigit((unsigned char)(*at)[1]))
        return false;
    *times = strtol(*at + 1, &end, 10);
    *at = end;
    return *times >= 1 && *times <= MOST_LETTERS;
}

static bool unroll(struct text *out, const char *text, const char *at, const char *end, struct error *err);

/* The letters of the item that begins at *at, a letter or a group of items without groups, and how often they come. */
static bool read_item(struct text *letters, long *times, const char *text, const char **at, const char *end,
                      struct error *err)
{
    const char *item = *at, *last = item;
    bool good = strchr("EtL|", *item) != NULL;
    if (*item == '(') {
        last += strcspn(item, ")");
        good = last < end && last > item + 1;
        if (good && !unroll(letters, text, item + 1, last, err))
            return false;
    } else {
        text_add_bytes(letters, item, 1);
    }
    *at = last + 1;
    return (good && read_times(times, at) && *at <= end && (double)*times * (double)letters->length <= MOST_LETTERS) ||
           no_cuts(text, item, err);
}

/* Writes the letters of a part of a layout out, each as often as it is meant. */
static bool unroll(struct text *out, const char *text, const char *at, const char *end, struct error *err)
{
    bool good = true;
    while (good && at < end) {
        struct text letters = { 0 };
        long times = 0;
        good = read_item(&letters, &times, text, &at, end, err) &&
               (out->length <= MOST_LETTERS || fail(err, "--stages: more than %d letters", MOST_LETTERS));
        for (long i = 0; good && i < times; i++)
            text_add_bytes(out, letters.data, letters.length);
        good = good && ((!letters.failed && !out->failed) || fail_memory(err));
        text_free(&letters);
    }
    return good;
}

static bool read_letters(struct stage_cuts *out, int *blocks, const char *letters, const char *text, struct error *err)
{
    int piece = 0, embeddings = 0, losses = 0, here = 0;
    for (const char *at = letters;; at++) {
        if (!*at || *at == '|') {
            if (!here)
                return fail(err, "--stages: stage %d of '%.200s' is empty; give it a block", piece, text);
            here = 0;
            piece++;
        } else if (losses || (*at == 'E' && at != letters)) {
            return fail(err, "--stages: expected E first and L last in '%.200s'", text);
        }
        if (!*at)
            break;
        here += *at != '|';
        blocks[piece] += *at == 't';
        embeddings += *at == 'E';
        losses += *at == 'L';
    }
    out->count = piece;
    return (embeddings == 1 && losses == 1) ||
           fail(err, "--stages: expected one E and one L in '%.200s', found %d and %d", text, embeddings, losses);
}

static bool read_numbers(struct stage_cuts *out, int *blocks, const char *text, struct error *err)
{
    for (const char *at = text;; at++) {
        char *end = NULL;
        long number = isdigit((unsigned char)*at) ? strtol(at, &end, 10) : 0;
        if (number < 1 || number > MOST_LETTERS || (*end && *end != ','))
            return no_cuts(text, at, err);
        blocks[out->count++] = (int)number;
        at = end;
        if (!*at)
            break;
    }
    return true;
}

bool stage_cuts_read(struct stage_cuts *out, struct arena *arena, const char *text, struct error *err)
{
    bool layout = strpbrk(text, "EtL|m") != NULL;
    struct text plain = { 0 }, letters = { 0 };
    text_add(&plain, "");
    *out = (struct stage_cuts){ 0 };
    for (const char *at = text; *at; at++)
        if (*at != ',' || !layout)
            text_add_bytes(&plain, at, 1);
    bool good = !plain.failed || fail_memory(err);
    good = good && (!layout || unroll(&letters, plain.data, plain.data, plain.data + plain.length, err));
    size_t pieces = 1;
    for (const char *at = layout ? letters.data : plain.data; good && at && *at; at++)
        pieces += *at == '|' || *at == ',';
    int *blocks = good ? arena_alloc(arena, pieces, sizeof *blocks) : NULL;
    good = good && (blocks || fail_memory(err)) &&
           (pieces <= MOST_PIECES || fail(err, "--stages: more than %d stages", MOST_PIECES)) &&
           (layout ? read_letters(out, blocks, letters.data ? letters.data : "", text, err)
                   : read_numbers(out, blocks, text, err));
    out->blocks = blocks;
    text_free(&plain);
    text_free(&letters);
    return good;
}

bool stage_cuts_restrict(int count, struct space *said, struct error *err)
{
    int64_t chunks = said->chunks.count == 1 ? said->chunks.values[0] : 1, stages = count / chunks;
    if (said->stages.count == 0)
        said->stages = allowed_only(stages);
    else if (said->chunks.count == 0 && said->stages.count == 1 && count > said->stages.values[0] &&
             count % said->stages.values[0] == 0 && said->schedule.count == 0)
        said->chunks = allowed_only(count / said->stages.values[0]);
    if (said->turns.count > 0 && !allowed_has(&said->turns, 1))
        return fail(err, "--stages goes without replicas in turn, which turns=%lld asks for; leave one of them out",
                    (long long)said->turns.values[0]);
    return said->stages.count > 1 || said->stages.values[0] <= count ||
           fail(err,
                "--stages: %d are cut, but pp is %lld; cut as many, or a multiple of it for chunks that are dealt out",
                count, (long long)said->stages.values[0]);
}

/* Where a cut may be: before copies of repeated blocks and the layers beside them, the loss not apart from its head.
 * Returns how many parts that makes; start: (layers + 1) of each, and of what is behind the last. */
static int list_parts(int *start, const struct graph *graph)
{
    const struct graph_layer *layers = graph->layers;
    int count = 0, last = graph->layer_count - 1;
    for (int l = 0; l <= last; l++) {
        bool within = l > 0 && layers[l].block >= 0 && layers[l].block == layers[l - 1].block;
        bool loss = l > 0 && l == last && graph->loss_value >= 0 && layers[l - 1].block < 0;
        if (!within && !loss)
            start[count++] = l;
    }
    start[count] = graph->layer_count;
    return count;
}

/* Where each piece begins; the parts from `from` to `to` are the blocks, and what lies between them. */
struct parts {
    int count, from, to;
    int *start, *first; /* (count + 1), (pieces + 1) */
};

static bool make_parts(struct parts *out, struct arena *arena, const struct graph *graph, int pieces, struct error *err)
{
    *out = (struct parts){ .start = arena_alloc(arena, (size_t)graph->layer_count + 1, sizeof(int)),
                           .first = arena_alloc(arena, (size_t)pieces + 1, sizeof(int)) };
    if (!out->start || !out->first)
        return fail_memory(err);
    out->to = out->count = list_parts(out->start, graph);
    while (out->from < out->to && graph->layers[out->start[out->from]].block < 0)
        out->from++;
    while (out->to > out->from && graph->layers[out->start[out->to - 1]].block < 0)
        out->to--;
    return true;
}

static void cut(struct plan *plan, const struct parts *parts, int pieces)
{
    parts->first[pieces] = parts->count;
    for (int k = 0; k < pieces; k++) {
        int begin = parts->start[parts->first[k]], end = parts->start[parts->first[k + 1]];
        schedule_set_piece(plan, k, (struct layer_range){ begin, end - begin });
    }
}

static bool in_turns(const struct plan *plan)
{
    for (int s = 0; s < plan->stage_count; s++)
        if (plan_stage_turns(plan, s) > 1)
            return true;
    return false;
}

static int pieces_of(const struct plan *plan)
{
    return schedule_pieces(schedules[plan->schedule], plan->stage_count, plan->chunk_count);
}

bool stage_cuts_place(struct space_cut *out, struct arena *arena, const struct stage_cuts *cuts,
                      const struct graph *graph, struct error *err)
{
    struct parts parts;
    int wanted = 0;
    for (int k = 0; k < cuts->count; k++)
        wanted += cuts->blocks[k];
    if (!make_parts(&parts, arena, graph, cuts->count, err))
        return false;
    if (wanted != parts.to - parts.from)
        return fail(err, "--stages: %d blocks, but model %s has %d", wanted, graph->model_name, parts.to - parts.from);
    for (int k = 0, part = parts.from; k < cuts->count; k++) {
        if (k > 0 && part == parts.count)
            return fail(err, "--stages: nothing of model %s is left for stage %d; give it a block", graph->model_name,
                        k);
        parts.first[k] = k > 0 ? parts.start[part] : 0;
        part += cuts->blocks[k];
    }
    *out = (struct space_cut){ cuts->count, parts.first };
    return true;
}

void stage_cuts_write(struct text *out, const struct space_cut *cut, const struct graph *graph)
{
    struct arena scratch = { 0 };
    struct parts parts;
    struct text layout = { 0 };
    bool good = make_parts(&parts, &scratch, graph, cut->count, NULL);
    int piece = 1;
    for (int part = 0; good && part < parts.count; part++) {
        bool begins = piece < cut->count && cut->first[piece] == parts.start[part];
        piece += begins;
        good = piece == cut->count || cut->first[piece] > parts.start[part];
        text_add(&layout, begins ? "|" : "");
        text_add(&layout, part == parts.to     ? "L"
                          : part > parts.to    ? ""
                          : part >= parts.from ? "t"
                          : part == 0          ? "E"
                                               : "");
    }
    if (good && piece == cut->count && !layout.failed && layout.data)
        text_add(out, layout.data);
    text_free(&layout);
    arena_free(&scratch);
}

static bool alike(const struct graph *graph, const struct parts *parts)
{
    for (int i = parts->from; i < parts->to; i++) {
        const struct graph_layer *at = &graph->layers[parts->start[i]];
        if (at->block < 0 || at->class_index != graph->layers[parts->start[parts->from]].class_index)
            return false;
    }
    return parts->to > parts->from;
}

bool stage_cuts_usual(struct plan *plan, const struct graph *graph, int device_types, struct error *err)
{
    struct arena scratch = { 0 };
    struct parts parts;
    int pieces = pieces_of(plan);
    if (plan->order || in_turns(plan))
        return true;
    if (!make_parts(&parts, &scratch, graph, pieces, err))
        return false;
    int blocks = parts.to - parts.from;
    bool equal = device_types == 1 && alike(graph, &parts), divides = equal && blocks % pieces == 0;
    for (int k = 1; k < pieces && parts.count >= pieces; k++) {
        int least = parts.first[k - 1] + 1, most = parts.count - (pieces - k), at = least;
        int layer = plan_stage_chunk(plan, schedule_stage(schedules[plan->schedule], plan->stage_count, k),
                                     k / plan->stage_count)
                        .first;
        while (at < most && parts.start[at] + parts.start[at + 1] <= 2 * layer)
            at++;
        if (divides)
            at = parts.from + blocks / pieces * k;
        else if (equal && pieces > plan->stage_count)
            at = parts.count * k / pieces;
        parts.first[k] = at < least ? least : at > most ? most : at;
    }
    if (parts.count >= pieces)
        cut(plan, &parts, pieces);
    arena_free(&scratch);
    return true;
}
