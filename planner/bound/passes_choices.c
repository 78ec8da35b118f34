#include "planner/bound/passes_choices.h"
#include "base/num.h"
#include <string.h>

enum { MOST_ROWS = 450 }; /* of the program */

struct chooser {
    const struct config *config;
    const struct price_table *table;
    int *count, *kind; /* (classes) layers; 0 to MIX_KINDS - 1 */
    double unit_ns, capacity_bytes;
};

static double kernels_of(const struct mix_choice *c)
{
    return c->forward + c->input + c->weight;
}

static void add_choice(struct mix_choice *sum, const struct mix_choice *c)
{
    sum->forward += c->forward;
    sum->input += c->input;
    sum->weight += c->weight;
    sum->lane += c->lane;
    sum->resident += c->resident;
    sum->kept += c->kept;
    sum->put_off += c->put_off;
}

/* So many layers of a price. Waiting inside a layer is shared out over its passes, adding to gradients over all
 * micro-batches. */
static struct mix_choice choice_of_layers(const struct chooser *c, double layers, const struct least_price *least)
{
    double m = (double)c->config->micro_batch_count, firsts = schedules[c->config->schedule]->copies ? 2 : 1;
    double time = layers / c->unit_ns, memory = layers / c->capacity_bytes, gap = (double)least->gap_ns / 3;
    double lane_ns = (double)least_lane_ns(least, c->config->micro_batch_count, (int)firsts);
    return (struct mix_choice){
        .forward = time * ((double)(least->forward_ns + least->enter_gap_ns) + gap),
        .input = time * ((double)(least->input_ns + least->again_ns + least->return_gap_ns) + gap),
        .weight = time * ((double)least->weight_ns + (m - firsts) / m * (double)least->adding_ns + gap),
        .lane = time * lane_ns / (double)c->config->stages,
        .resident = memory * (double)least->resident_bytes,
        .kept = memory * (double)price_kept_bytes(least, price_offloads(c->table)),
        .put_off = memory * (double)least->put_off_bytes,
    };
}

/* All layers of a kind under a strategy. */
static struct mix_choice choice_of(const struct chooser *c, int kind, int strategy)
{
    struct mix_choice sum = { 0 };
    for (int class_index = 0; class_index < c->table->class_count; class_index++) {
        const struct least_price *least = &price_at(c->table, class_index, strategy)->least;
        struct mix_choice of = choice_of_layers(c, c->count[class_index], least);
        if (c->kind[class_index] == kind)
            add_choice(&sum, &of);
    }
    return sum;
}

static bool undercuts(const struct mix_choice *a, const struct mix_choice *b)
{
    return a->forward <= b->forward && a->input <= b->input && a->weight <= b->weight && a->lane <= b->lane &&
           a->resident <= b->resident && a->kept <= b->kept && a->put_off <= b->put_off;
}

/* Those of a kind that no other undercuts, the shortest first, at most MIX_CHOICES. */
static int list_choices(const struct chooser *c, int kind, struct mix_choice *choices)
{
    int count = 0;
    for (int s = 0; s < c->table->strategy_count; s++) {
        struct mix_choice choice = choice_of(c, kind, s);
        bool undercut = false;
        int kept = 0, at = 0;
        for (int i = 0; i < count; i++)
            undercut = undercut || undercuts(&choices[i], &choice);
        for (int i = 0; i < count && !undercut; i++)
            if (!undercuts(&choice, &choices[i]))
                choices[kept++] = choices[i];
        if (undercut || (kept == MIX_CHOICES && kernels_of(&choices[kept - 1]) <= kernels_of(&choice)))
            continue;
        count = kept < MIX_CHOICES ? kept : MIX_CHOICES - 1;
        while (at < count && kernels_of(&choices[at]) <= kernels_of(&choice))
            at++;
        memmove(&choices[at + 1], &choices[at], (size_t)(count - at) * sizeof *choices);
        choices[at] = choice;
        count++;
    }
    return count;
}

/* The classes that take most are a kind each, all others one. */
static void sort_kinds(struct chooser *c)
{
    for (int class_index = 0; class_index < c->table->class_count; class_index++)
        c->kind[class_index] = MIX_KINDS - 1;
    for (int kind = 0; kind + 1 < MIX_KINDS; kind++) {
        int longest = -1;
        int64_t most_ns = 0;
        for (int class_index = 0; class_index < c->table->class_count; class_index++) {
            int64_t ns = c->count[class_index] * least_kernels_ns(&price_at(c->table, class_index, 0)->least);
            if (c->kind[class_index] == MIX_KINDS - 1 && ns > most_ns) {
                most_ns = ns;
                longest = class_index;
            }
        }
        if (longest >= 0)
            c->kind[longest] = kind;
    }
}

/* Of many pieces one choice for all layers, without memory: so the program stays small. */
static void choose(const struct chooser *c, struct mix_problem *problem, struct mix_choice *choice)
{
    struct mix_choice own[MIX_KINDS][MIX_CHOICES] = { 0 };
    int count[MIX_KINDS], most = 1;
    for (int kind = 0; kind < MIX_KINDS; kind++) {
        count[kind] = list_choices(c, kind, own[kind]);
        most = count[kind] > most ? count[kind] : most;
    }
    problem->kinds = MIX_KINDS;
    problem->choices = most;
    for (int i = 0; i < MIX_KINDS * most; i++)
        choice[i] = own[i / most][i % most < count[i / most] ? i % most : 0];
    if (problem->passes->pieces * MIX_KINDS * most <= MOST_ROWS)
        return;
    problem->kinds = problem->choices = 1;
    choice[0] = own[0][0];
    for (int kind = 1; kind < MIX_KINDS; kind++)
        add_choice(&choice[0], &own[kind][0]);
}

static int64_t longest_weight_ns(const struct chooser *c)
{
    int64_t most_ns = 0;
    for (int i = 0; i < c->table->class_count * c->table->strategy_count; i++) {
        const struct least_price *least = &c->table->prices[i].least;
        if (c->count[i / c->table->strategy_count] > 0)
            most_ns = max_i64(most_ns, least->weight_ns + least->adding_ns);
    }
    return most_ns;
}

bool passes_choose(struct mix_problem *problem, struct mix_choice *choice, const struct chain *chain,
                   const struct config *config, const struct price_table *table, int64_t capacity_bytes,
                   struct arena *arena)
{
    struct chooser c = { .config = config, .table = table, .capacity_bytes = (double)capacity_bytes };
    int64_t all_ns = 0;
    c.count = arena_alloc(arena, (size_t)table->class_count, sizeof *c.count);
    c.kind = arena_alloc(arena, (size_t)table->class_count, sizeof *c.kind);
    if (!c.count || !c.kind)
        return false;
    for (int l = 0; l < chain->layer_count; l++) {
        c.count[chain->class_of[l]]++;
        all_ns += least_kernels_ns(&price_at(table, chain->class_of[l], 0)->least);
    }
    c.unit_ns = (double)max_i64(all_ns * config->micro_batch_count / config->stages, 1);
    sort_kinds(&c);
    choose(&c, problem, choice);
    problem->choice = choice;
    problem->unit_ns = c.unit_ns;
    problem->lost = (double)longest_weight_ns(&c) / c.unit_ns;
    return true;
}
