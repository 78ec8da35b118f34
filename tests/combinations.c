/* Whether two rows go together is asked of plan_check(): of a plain plan with both, of such that differ from it in one
 * column, and of some random ones. The array is built as by Cohen et al. 1997 (AETG): each next combination is the best
 * of several that were completed greedily around a pair not yet covered. */
#include "tests/combinations.h"
#include "tests/random_numbers.h"
#include <stdio.h>

enum { LEAST_RANKS = 2, MOST_RANKS = 8, ATOM_RANKS = 2, MOST_MICROS = 4, LOSS_CHUNKS = 4 };
enum { EVERY_OTHER = OPERATORS_ALL & 0x55555555 };
#define EXCEPTED ((uint64_t)OPERATORS_EVERY & UINT64_C(0xcccccccccccccccc))
enum { RANDOM_TRIES = 4000, CANDIDATES = 12 };
enum replicas { REPLICAS_EQUAL, REPLICAS_TURNS, REPLICAS_UNEVEN, REPLICAS_COUNT };
static const int stage_counts[] = { 1, 2, 4 };
static const char *const replica_names[REPLICAS_COUNT] = { "equal stages", "replicas in turn", "uneven meshes" };

/* ---- rows ---- */
/* `says`: what a message that refuses a row of the column must hold; %s: the row's name. Others are not refused. */
static const struct {
    const char *name, *says;
} columns[COLUMN_COUNT] = {
    [COLUMN_DIMENSION] = { "dimension", "dimension %s" },
    [COLUMN_INNER] = { "inner dimension", "dimension %s" },
    [COLUMN_OTHER] = { "inner dimension of every other layer", "dimension %s" },
    [COLUMN_SCHEDULE] = { "schedule", "schedule %s" },
    [COLUMN_MODEL] = { "model", "%s" },
    [COLUMN_ZERO] = { "ZeRO", "%s" },
    [COLUMN_RECOMPUTE] = { "recomputation", "recompute" },
    [COLUMN_OFFLOAD] = { "offload", "offload" },
    [COLUMN_RESHARD] = { "resharding", "reshard" },
    [COLUMN_REPLICATE] = { "replicated operators", "replicate" },
    [COLUMN_EXCEPT] = { "exceptions", "recompute_except" },
    [COLUMN_STAGES] = { "stages", "stages" },
    [COLUMN_REPLICAS] = { "replicas", "replicas" },
    [COLUMN_SLICES] = { "slices", "slices" },
    [COLUMN_BUCKETS] = { "buckets", "bucket_bytes" },
    [COLUMN_PREFETCH] = { "prefetch", "prefetch" },
    [COLUMN_CLIPPING] = { "clipping", "clip_norm" },
    [COLUMN_EXTRA] = { "extra in flight", "extra_in_flight" },
    [COLUMN_LOSS] = { "loss", "loss_chunks" },
};

const char *column_name(enum column column)
{
    return columns[column].name;
}

int row_count(enum column column)
{
    int count = 0;
    switch (column) {
    case COLUMN_DIMENSION:
    case COLUMN_INNER:
    case COLUMN_OTHER:
        return DIM_COUNT + 1;
    case COLUMN_SCHEDULE:
        while (schedules[count])
            count++;
        return count;
    case COLUMN_MODEL:
        return COMBINATION_MODELS;
    case COLUMN_ZERO:
        return 4;
    case COLUMN_RECOMPUTE:
        return RECOMPUTE_COUNT;
    case COLUMN_OFFLOAD:
        return OFFLOAD_COUNT;
    case COLUMN_RESHARD:
        return RESHARD_COUNT;
    case COLUMN_STAGES:
        return (int)(sizeof stage_counts / sizeof *stage_counts);
    case COLUMN_REPLICAS:
        return REPLICAS_COUNT;
    case COLUMN_REPLICATE:
    case COLUMN_EXCEPT:
    case COLUMN_SLICES:
    case COLUMN_BUCKETS:
    case COLUMN_PREFETCH:
    case COLUMN_CLIPPING:
    case COLUMN_EXTRA:
    case COLUMN_LOSS:
        return 2;
    case COLUMN_COUNT:
        break;
    }
    return 0;
}

void row_name(const struct combination_graphs *graphs, enum column column, int row, char name[ROW_NAME_BYTES])
{
    static const char *const atom_names[] = { "no atom", "no second atom", "no second atom" };
    switch (column) {
    case COLUMN_DIMENSION:
    case COLUMN_INNER:
    case COLUMN_OTHER:
        snprintf(name, ROW_NAME_BYTES, "%s", row < DIM_COUNT ? dimensions[row]->name : atom_names[column]);
        break;
    case COLUMN_SCHEDULE:
        snprintf(name, ROW_NAME_BYTES, "%s", schedules[row]->name);
        break;
    case COLUMN_MODEL:
        snprintf(name, ROW_NAME_BYTES, "%s", graphs->of[row]->model_name);
        break;
    case COLUMN_ZERO:
        snprintf(name, ROW_NAME_BYTES, "zero %d", row);
        break;
    case COLUMN_RECOMPUTE:
        snprintf(name, ROW_NAME_BYTES, "recompute %s", recompute_names[row]);
        break;
    case COLUMN_OFFLOAD:
        snprintf(name, ROW_NAME_BYTES, "offload %s", offload_names[row]);
        break;
    case COLUMN_RESHARD:
        snprintf(name, ROW_NAME_BYTES, "reshard %s", reshard_names[row]);
        break;
    case COLUMN_REPLICATE:
        snprintf(name, ROW_NAME_BYTES, row ? "operators apart" : "operators alike");
        break;
    case COLUMN_EXCEPT:
        snprintf(name, ROW_NAME_BYTES, row ? "operators recomputed otherwise" : "operators recomputed alike");
        break;
    case COLUMN_STAGES:
        snprintf(name, ROW_NAME_BYTES, "%d stage%s", stage_counts[row], row > 0 ? "s" : "");
        break;
    case COLUMN_REPLICAS:
        snprintf(name, ROW_NAME_BYTES, "%s", replica_names[row]);
        break;
    case COLUMN_SLICES:
        snprintf(name, ROW_NAME_BYTES, row ? "2 slices" : "whole layers");
        break;
    case COLUMN_BUCKETS:
        snprintf(name, ROW_NAME_BYTES, row ? "buckets" : "no buckets");
        break;
    case COLUMN_PREFETCH:
        snprintf(name, ROW_NAME_BYTES, row ? "prefetch" : "no prefetch");
        break;
    case COLUMN_CLIPPING:
        snprintf(name, ROW_NAME_BYTES, row ? "clipping" : "no clipping");
        break;
    case COLUMN_EXTRA:
        snprintf(name, ROW_NAME_BYTES, row ? "extra in flight" : "none extra");
        break;
    case COLUMN_LOSS:
        snprintf(name, ROW_NAME_BYTES, row ? "loss in chunks" : "whole loss");
        break;
    case COLUMN_COUNT:
        break;
    }
}

const char *combination_name(const struct combination_graphs *graphs, const struct combination *c)
{
    static char text[COLUMN_COUNT * (ROW_NAME_BYTES + 2)];
    size_t used = 0;
    for (int column = 0; column < COLUMN_COUNT; column++) {
        char name[ROW_NAME_BYTES];
        row_name(graphs, (enum column)column, c->row[column], name);
        used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", column > 0 ? ", " : "", name);
    }
    return text;
}

/* Whether the message refuses this row. */
static bool names_row(const struct combination_graphs *graphs, const char *message, enum column column, int row)
{
    char name[ROW_NAME_BYTES], said[2 * ROW_NAME_BYTES];
    if (column == COLUMN_REPLICAS && row == REPLICAS_UNEVEN)
        return strstr(message, "atoms") != NULL;
    const char *mark = strstr(columns[column].says, "%s");
    row_name(graphs, column, row, name);
    snprintf(said, sizeof said, "%.*s%s", mark ? (int)(mark - columns[column].says) : ROW_NAME_BYTES,
             columns[column].says, mark ? name : "");
    return strstr(message, said) != NULL;
}

/* ---- plans ---- */
const char *combination_model(int row)
{
    static const char opaque[] =
        "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"opaque\", \"sequence\": 8, \"layers\": "
        "[{\"repeat\": 8, \"layers\": [{\"kind\": \"opaque\", \"forward_us\": 5, \"backward_us\": 10, "
        "\"parameters\": 1000, \"activation_elements\": 512}]}]}";
    return row < TINY_MODELS            ? tiny_models[row]
           : row == COMBINATION_OPAQUE  ? opaque
           : row == COMBINATION_PLANNED ? TINY_PLANNED
                                        : TINY_DROPLESS;
}

void combination_graphs_open(struct combination_graphs *graphs)
{
    for (int m = 0; m < COMBINATION_MODELS; m++)
        graphs->of[m] = tiny_graph(combination_model(m));
}

void combination_graphs_close(struct combination_graphs *graphs)
{
    for (int m = 0; m < COMBINATION_MODELS; m++)
        graph_free(graphs->of[m]);
}

static bool splits_batch(int dimension)
{
    return dimension < DIM_COUNT && dimensions[dimension]->splits_batch;
}

/* As many micro-batches as the batch has room for. */
static int micro_batches(const struct combination *c)
{
    int split = (splits_batch(c->row[COLUMN_DIMENSION]) ? ATOM_RANKS : 1) *
                (splits_batch(c->row[COLUMN_INNER]) || splits_batch(c->row[COLUMN_OTHER]) ? ATOM_RANKS : 1);
    return TINY_BATCH / split < MOST_MICROS ? TINY_BATCH / split : MOST_MICROS;
}

static int8_t dimension_of(int row)
{
    return (int8_t)(row < DIM_COUNT ? row : DIM_none);
}

struct plan *combination_plan(const struct combination_graphs *graphs, const struct combination *c)
{
    const int *row = c->row, outer = row[COLUMN_DIMENSION] < DIM_COUNT ? ATOM_RANKS : 1;
    struct tiny_choice choice = { .dp = outer,
                                  .tp = row[COLUMN_INNER] < DIM_COUNT ? ATOM_RANKS : 1,
                                  .pp = stage_counts[row[COLUMN_STAGES]],
                                  .zero = row[COLUMN_ZERO],
                                  .recompute = row[COLUMN_RECOMPUTE],
                                  .offload = row[COLUMN_OFFLOAD],
                                  .reshard = row[COLUMN_RESHARD],
                                  .replicate = row[COLUMN_REPLICATE] ? EVERY_OTHER : 0,
                                  .excepted = row[COLUMN_EXCEPT] ? EXCEPTED : 0,
                                  .schedule = row[COLUMN_SCHEDULE],
                                  .micro = micro_batches(c),
                                  .bucket = row[COLUMN_BUCKETS] ? 4096 : 0,
                                  .prefetch = row[COLUMN_PREFETCH],
                                  .slices = 1 + row[COLUMN_SLICES],
                                  .clip = row[COLUMN_CLIPPING],
                                  .chunks = schedules[row[COLUMN_SCHEDULE]]->interleaves ? 2 : 1 };
    for (int s = 0; s < choice.pp; s++) {
        choice.turns[s] = row[COLUMN_REPLICAS] == REPLICAS_TURNS && s == 0 ? 2 : 1;
        choice.outer[s] = row[COLUMN_REPLICAS] == REPLICAS_UNEVEN && s % 2 == 0 ? 1 : outer;
    }
    struct plan *plan = tiny_plan(graphs->of[row[COLUMN_MODEL]], &choice);
    plan->extra_in_flight = row[COLUMN_EXTRA];
    plan->loss_chunks = row[COLUMN_LOSS] ? LOSS_CHUNKS : 1;
    for (int l = 0; l < plan->layer_count; l++) {
        plan->layers[l].dim[0] = dimension_of(row[COLUMN_DIMENSION]);
        plan->layers[l].dim[1] = dimension_of(row[l % 2 ? COLUMN_OTHER : COLUMN_INNER]);
    }
    return plan;
}

static bool is_made(const struct combination *c)
{
    bool outer = c->row[COLUMN_DIMENSION] < DIM_COUNT;
    return (c->row[COLUMN_INNER] < DIM_COUNT) == (c->row[COLUMN_OTHER] < DIM_COUNT) &&
           (c->row[COLUMN_REPLICAS] != REPLICAS_UNEVEN || (outer && stage_counts[c->row[COLUMN_STAGES]] > 1));
}

enum legality combination_verdict(const struct combination_graphs *graphs, const struct combination *c,
                                  struct error *err)
{
    if (!is_made(c))
        return PLAN_NOT_MADE;
    struct plan *plan = combination_plan(graphs, c);
    enum legality verdict = plan->rank_count < LEAST_RANKS || plan->rank_count > MOST_RANKS ? PLAN_NOT_MADE
                            : plan_check(plan, graphs->of[c->row[COLUMN_MODEL]], err)       ? PLAN_LEGAL
                                                                                            : PLAN_REFUSED;
    plan_free(plan);
    return verdict;
}

/* ---- pairs ---- */
struct asking {
    const struct combination_graphs *graphs;
    enum column a, b;
    int row_a, row_b;
    struct pair_verdict *out;
};

/* Asks for the combination with the pair put in; true: it is legal, so that no more need be asked. */
static bool ask(const struct asking *q, struct combination c)
{
    struct pair_verdict *out = q->out;
    struct error error = { 0 };
    c.row[q->a] = q->row_a;
    c.row[q->b] = q->row_b;
    enum legality verdict = combination_verdict(q->graphs, &c, &error);
    bool names_both = verdict == PLAN_REFUSED && names_row(q->graphs, error.message, q->a, q->row_a) &&
                      names_row(q->graphs, error.message, q->b, q->row_b);
    bool better = verdict < out->verdict || (verdict == out->verdict && names_both && !out->names_both);
    if (better) {
        *out = (struct pair_verdict){ .verdict = verdict, .names_both = names_both, .example = c };
        out->error = error;
    }
    return out->verdict == PLAN_LEGAL;
}

/* Plain: data parallel over two ranks, two stages. */
static struct combination plain_combination(void)
{
    struct combination c = { { 0 } };
    c.row[COLUMN_DIMENSION] = DIM_dp;
    c.row[COLUMN_INNER] = c.row[COLUMN_OTHER] = DIM_COUNT;
    c.row[COLUMN_STAGES] = 1;
    return c;
}

/* Each column plain, or with a random row. */
static struct combination random_combination(uint64_t *state)
{
    struct combination c = plain_combination();
    for (int column = 0; column < COLUMN_COUNT; column++)
        if (draw(state, 2))
            c.row[column] = (int)draw(state, (uint64_t)row_count((enum column)column));
    return c;
}

static void judge_pair(const struct asking *q)
{
    uint64_t state = (uint64_t)(((q->a * 100 + q->row_a) * 100 + q->b) * 100 + q->row_b);
    q->out->verdict = PLAN_NOT_MADE;
    if (ask(q, plain_combination()))
        return;
    for (int column = 0; column < COLUMN_COUNT; column++)
        for (int row = 0; row < row_count((enum column)column); row++) {
            struct combination c = plain_combination();
            c.row[column] = row;
            if (ask(q, c))
                return;
        }
    for (int i = 0; i < RANDOM_TRIES; i++)
        if (ask(q, random_combination(&state)))
            return;
}

static int pair_index(const struct combination_pairs *pairs, enum column a, int row_a, enum column b, int row_b)
{
    return (pairs->first[a] + row_a) * pairs->first[COLUMN_COUNT] + pairs->first[b] + row_b;
}

const struct pair_verdict *pair_of(const struct combination_pairs *pairs, enum column a, int row_a, enum column b,
                                   int row_b)
{
    return &pairs->of[pair_index(pairs, a, row_a, b, row_b)];
}

void combination_pairs_open(struct combination_pairs *pairs, const struct combination_graphs *graphs)
{
    pairs->first[0] = 0;
    for (int a = 0; a < COLUMN_COUNT; a++)
        pairs->first[a + 1] = pairs->first[a] + row_count((enum column)a);
    size_t all = (size_t)pairs->first[COLUMN_COUNT];
    pairs->of = calloc(all * all, sizeof *pairs->of);
    for (int a = 0; a < COLUMN_COUNT; a++)
        for (int b = a + 1; b < COLUMN_COUNT; b++)
            for (int i = 0; i < row_count((enum column)a); i++)
                for (int j = 0; j < row_count((enum column)b); j++)
                    judge_pair(&(struct asking){ graphs, (enum column)a, (enum column)b, i, j,
                                                 &pairs->of[pair_index(pairs, (enum column)a, i, (enum column)b, j)] });
}

void combination_pairs_close(struct combination_pairs *pairs)
{
    free(pairs->of);
}

/* ---- the array ---- */
struct covering {
    const struct combination_graphs *graphs;
    const struct combination_pairs *pairs;
    bool *open; /* as pairs->of: legal, and not yet covered */
    uint64_t state;
};

/* How many open pairs the row closes with the columns in `fixed` (NULL: with all). */
static int closed_by_row(const struct covering *g, const struct combination *c, const bool *fixed, int column, int row)
{
    int closed = 0;
    for (int other = 0; other < COLUMN_COUNT; other++) {
        if ((fixed && !fixed[other]) || other == column)
            continue;
        int a = other < column ? other : column, b = other < column ? column : other,
            row_a = other < column ? c->row[other] : row, row_b = other < column ? row : c->row[other];
        closed += g->open[pair_index(g->pairs, (enum column)a, row_a, (enum column)b, row_b)];
    }
    return closed;
}

static int closed_by(const struct covering *g, const struct combination *c)
{
    int closed = 0;
    for (int column = 0; column < COLUMN_COUNT; column++)
        closed += closed_by_row(g, c, NULL, column, c->row[column]);
    return closed / 2; /* each pair from both sides */
}

/* Turns the legal combination, column by column in random order, to the row that closes most, but for the pair's. */
static void complete(struct covering *g, struct combination *c, int keep_a, int keep_b)
{
    bool fixed[COLUMN_COUNT] = { [0] = false };
    int start = (int)draw(&g->state, COLUMN_COUNT), stride = 1 + 2 * (int)draw(&g->state, 3);
    fixed[keep_a] = fixed[keep_b] = true;
    for (int i = 0; i < COLUMN_COUNT; i++) {
        int column = (start + i * stride) % COLUMN_COUNT, best = -1;
        if (fixed[column])
            continue;
        struct combination kept = *c;
        int rows = row_count((enum column)column), from = (int)draw(&g->state, (uint64_t)rows);
        for (int k = 0; k < rows; k++) {
            struct combination tried = *c;
            struct error error = { 0 };
            tried.row[column] = (from + k) % rows;
            int closed = closed_by_row(g, &tried, fixed, column, tried.row[column]);
            if (closed > best && combination_verdict(g->graphs, &tried, &error) == PLAN_LEGAL) {
                best = closed;
                kept = tried;
            }
        }
        *c = kept;
        fixed[column] = true;
    }
}

static void close_pairs(struct covering *g, const struct combination *c)
{
    for (int a = 0; a < COLUMN_COUNT; a++)
        for (int b = a + 1; b < COLUMN_COUNT; b++)
            g->open[pair_index(g->pairs, (enum column)a, c->row[a], (enum column)b, c->row[b])] = false;
}

/* The best of several around this open pair. */
static struct combination next_combination(struct covering *g, int a, int b, const struct pair_verdict *pair)
{
    struct combination best = pair->example;
    for (int i = 0; i < CANDIDATES; i++) {
        struct combination c = pair->example;
        complete(g, &c, a, b);
        if (closed_by(g, &c) > closed_by(g, &best))
            best = c;
    }
    return best;
}

struct combination *covering_array(const struct combination_graphs *graphs, const struct combination_pairs *pairs,
                                   int *count)
{
    size_t all = (size_t)pairs->first[COLUMN_COUNT];
    struct covering g = { .graphs = graphs, .pairs = pairs, .open = calloc(all * all, 1), .state = 1 };
    struct combination *array = calloc(all * all, sizeof *array);
    *count = 0;
    for (int a = 0; a < COLUMN_COUNT; a++)
        for (int i = pairs->first[a]; i < pairs->first[a + 1]; i++)
            for (int j = pairs->first[a + 1]; j < (int)all; j++)
                g.open[(size_t)i * all + (size_t)j] = pairs->of[(size_t)i * all + (size_t)j].verdict == PLAN_LEGAL;
    for (int a = 0; a < COLUMN_COUNT; a++)
        for (int b = a + 1; b < COLUMN_COUNT; b++)
            for (int i = 0; i < row_count((enum column)a); i++)
                for (int j = 0; j < row_count((enum column)b); j++)
                    if (g.open[pair_index(pairs, (enum column)a, i, (enum column)b, j)]) {
                        array[*count] =
                            next_combination(&g, a, b, pair_of(pairs, (enum column)a, i, (enum column)b, j));
                        close_pairs(&g, &array[(*count)++]);
                    }
    free(g.open);
    return array;
}
