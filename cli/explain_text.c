/* An explanation for people. */
#include "cli/explanation.h"
#include "cli/print.h"
#include "planner/program/schedule.h"
#include "targets/target.h"
#include <string.h>

const char *const explain_parts[PART_COUNT + 1] = {
    [PART_VERSUS] = "versus",
    [PART_ALTERNATIVES] = "alternatives",
    [PART_WHAT_IF] = "what-if",
    [PART_ROBUSTNESS] = "robustness",
};

static double percent(double now, double before)
{
    return 100 * (now / before - 1);
}

/* ---- room ---- */

static void print_room(const struct cli *cli, const struct explanation *x)
{
    const struct account *a = &x->account;
    const struct choice *c = &x->choice;
    char left[TEXT_NUMBER_BYTES], usable[TEXT_NUMBER_BYTES], text[3][TEXT_NUMBER_BYTES];
    int64_t left_bytes = account_left_bytes(a, a->full_stage), all_bytes = a->available_bytes[a->full_stage];
    fprintf(cli->out, "\nroom that is left\n");
    text_bytes(left, left_bytes < 0 ? -left_bytes : left_bytes);
    text_bytes(usable, all_bytes);
    fprintf(cli->out, "  memory   stage %d: %s %s of %s (%.1f %%)\n", a->full_stage, left,
            left_bytes < 0 ? "missing" : "left", usable, 100 * (double)left_bytes / (double)all_bytes);
    fprintf(cli->out, "  batch    %lld = %s x %s x %s\n", (long long)x->plan->plan->batch,
            text_number_of(text[0], c->data, "data rank"), text_number_of(text[1], c->micro, "sequence"),
            text_number_of(text[2], x->plan->plan->micro_batch_count, "micro-batch"));
    fprintf(cli->out, "  devices  %d: %s (at most %d, the layers), of %d data x %d context x %d tensor ranks\n",
            x->plan->plan->rank_count, text_number_of(text[0], c->pipeline, "stage"), c->layers, c->data, c->context,
            c->tensor);
    fprintf(cli->out, "  bubble   %.1f %% of the step on stage %d, which ends last\n",
            100 * (double)a->time_ns[a->last_stage][TIME_BUBBLE] / (double)a->step_ns, a->last_stage);
}

/* ---- items ---- */

static void print_row(const struct cli *cli, const char *const *cells, int count, int width)
{
    for (int i = 0; i < count; i++)
        fprintf(cli->out, i ? " %*s" : "  %-*s", i ? width : 6, cells[i]);
    fprintf(cli->out, "\n");
}

enum { TABLE_COLUMNS = 16 };
struct table_row {
    char text[TABLE_COLUMNS][TEXT_NUMBER_BYTES];
    const char *cells[TABLE_COLUMNS];
    int count;
};

static char *next_cell(struct table_row *row)
{
    row->cells[row->count] = row->text[row->count];
    return row->text[row->count++];
}

/* Kinds that are zero on all stages have no column. */
static bool used_time(const struct account *a, int kind)
{
    for (int s = 0; s < a->stage_count; s++)
        if (a->time_ns[s][kind] > 0)
            return true;
    return false;
}

static bool used_memory(const struct account *a, int kind)
{
    for (int s = 0; s < a->stage_count; s++)
        if (a->memory[s].bytes[kind] > 0)
            return true;
    return false;
}

static void print_time(const struct cli *cli, const struct account *a)
{
    struct table_row head = { .count = 0 };
    char number[TEXT_NUMBER_BYTES];
    fprintf(cli->out, "\ntime of one step by stage, communication as far as nothing hides it (step %s)\n",
            text_duration_ns(number, a->step_ns));
    strcpy(next_cell(&head), "stage");
    for (int k = 0; k < TIME_KIND_COUNT; k++)
        if (used_time(a, k))
            head.cells[head.count++] = time_kind_names[k];
    print_row(cli, head.cells, head.count, 9);
    for (int s = 0; s < a->stage_count; s++) {
        struct table_row row = { .count = 0 };
        snprintf(next_cell(&row), TEXT_NUMBER_BYTES, "%d%s", s, s == a->last_stage ? " *" : "");
        for (int k = 0; k < TIME_KIND_COUNT; k++)
            if (used_time(a, k))
                text_duration_ns(next_cell(&row), a->time_ns[s][k]);
        print_row(cli, row.cells, row.count, 9);
    }
    fprintf(cli->out, "  * ends last: its items are those of the step\n");
}

static void print_memory(const struct cli *cli, const struct account *a)
{
    struct table_row head = { .count = 0 };
    bool hosts = false;
    fprintf(cli->out, "\nmemory of one device by stage, when most of it is in use\n");
    strcpy(next_cell(&head), "stage");
    for (int k = 0; k < MEMORY_KIND_COUNT; k++)
        if (used_memory(a, k))
            head.cells[head.count++] = memory_kind_names[k];
    strcpy(next_cell(&head), "sum");
    strcpy(next_cell(&head), "left");
    for (int s = 0; s < a->stage_count; s++)
        hosts = hosts || a->host_bytes[s] > 0;
    if (hosts)
        strcpy(next_cell(&head), "on host");
    print_row(cli, head.cells, head.count, 11);
    for (int s = 0; s < a->stage_count; s++) {
        struct table_row row = { .count = 0 };
        int64_t left = account_left_bytes(a, s);
        snprintf(next_cell(&row), TEXT_NUMBER_BYTES, "%d", s);
        for (int k = 0; k < MEMORY_KIND_COUNT; k++)
            if (used_memory(a, k))
                text_bytes(next_cell(&row), a->memory[s].bytes[k]);
        text_bytes(next_cell(&row), a->memory[s].peak_bytes);
        text_bytes(next_cell(&row), left < 0 ? -left : left);
        if (hosts)
            text_bytes(next_cell(&row), a->host_bytes[s]);
        print_row(cli, row.cells, row.count, 11);
        if (left < 0)
            fprintf(cli->out, "         DOES NOT FIT: what stands under left is missing\n");
    }
    if (!a->fits && account_left_bytes(a, a->full_stage) >= 0)
        fprintf(cli->out, "         DOES NOT FIT: hosts have less memory than that\n");
}

/* ---- others ---- */

static void print_difference(const struct cli *cli, const struct solution *s, const struct account *own)
{
    char number[TEXT_NUMBER_BYTES];
    bool differs = false;
    fprintf(cli->out, "     ");
    for (int k = 0; k < TIME_KIND_COUNT; k++) {
        int64_t ns = s->time_ns[k] - own->time_ns[own->last_stage][k];
        differs = differs || ns != 0;
        if (ns != 0)
            fprintf(cli->out, " %s %c%s", time_kind_names[k], ns < 0 ? '-' : '+',
                    text_duration_ns(number, ns < 0 ? -ns : ns));
    }
    fprintf(cli->out, "%s; peak %s\n", differs ? "" : " as long in each item", text_bytes(number, s->peak_bytes));
}

/* The kind under which the same plan was listed before; NULL: none. */
static const char *listed_before(const struct alternatives *list, int index)
{
    for (int i = 0; i < index; i++)
        if (list->list[index].solution.explained &&
            list->list[i].solution.explained == list->list[index].solution.explained)
            return list->list[i].kind;
    return NULL;
}

/* asked: by --versus, so that what to type differently is of use. */
static void print_alternative(const struct cli *cli, const struct alternative *a, const struct explanation *x,
                              bool asked)
{
    char number[TEXT_NUMBER_BYTES], line[PRINT_LINE_BYTES];
    const struct solution *s = &a->solution;
    fprintf(cli->out, "  %s: ", a->kind);
    switch (s->kind) {
    case SOLUTION_PLAN:
        print_plan_line(s->explained->plan, s->explained->graph, line);
        fprintf(cli->out, "%s (%+.1f %%) with %s\n", text_duration_ns(number, s->step_ns),
                percent((double)s->step_ns, (double)x->alike.step_ns), line);
        print_difference(cli, s, &x->alike);
        return;
    case SOLUTION_NO_MEMORY:
        if (s->missing_bytes > 0)
            fprintf(cli->out, "does not fit: its thriftiest plan lacks %s on a device\n",
                    text_bytes(number, s->missing_bytes));
        else
            fprintf(cli->out, "does not fit\n");
        return;
    case SOLUTION_NONE:
        fprintf(cli->out, "%s%s\n", asked ? "impossible: " : "",
                asked ? s->why : "none: degrees, batch or restrictions exclude it");
        return;
    case SOLUTION_ENDED:
        fprintf(cli->out, "no time was left\n");
        return;
    }
}

void explanation_print_versus(const struct cli *cli, const struct explanation *x, int index)
{
    if (index == 0)
        fprintf(cli->out, "\nversus\n");
    print_alternative(cli, &x->versus[index], x, true);
}

/* Says that the plan is not the best that is known where another kind has a shorter one, and what to type for that. */
static void print_shorter(const struct cli *cli, const struct explanation *x)
{
    const struct alternative *best = NULL;
    char number[TEXT_NUMBER_BYTES];
    for (int i = 0; i < x->alternatives.count; i++) {
        const struct alternative *a = &x->alternatives.list[i];
        int64_t least_ns = best ? best->solution.step_ns : x->alike.step_ns - x->alike.step_ns / 1000;
        if (a->solution.kind == SOLUTION_PLAN && a->solution.step_ns < least_ns)
            best = a;
    }
    if (!best)
        return;
    const struct explained *other = best->solution.explained;
    struct choice c = choice_of(other->plan, other->graph);
    fprintf(
        cli->out,
        "  this plan is not the best one known: %s takes %s, %.1f %% less; for it add --fix pp=%d --fix tp=%d --fix "
        "cp=%d --fix micro-batch=%lld to cleave plan\n",
        best->kind, text_duration_ns(number, best->solution.step_ns),
        100 * (1 - (double)best->solution.step_ns / (double)x->alike.step_ns), c.pipeline, c.tensor, c.context,
        (long long)c.micro);
}

void explanation_print_alternatives(const struct cli *cli, const struct explanation *x)
{
    if (x->alternatives.count > 0)
        fprintf(cli->out, "\nwhy not another: the best found of each kind, and its difference by item\n");
    for (int i = 0; i < x->alternatives.count; i++) {
        const char *before = listed_before(&x->alternatives, i);
        if (before)
            fprintf(cli->out, "  %s: the same as %s\n", x->alternatives.list[i].kind, before);
        else
            print_alternative(cli, &x->alternatives.list[i], x, false);
    }
    print_shorter(cli, x);
}

void explanation_print_what_if(const struct cli *cli, const struct what_ifs *w, int index)
{
    char number[TEXT_NUMBER_BYTES], line[PRINT_LINE_BYTES];
    const struct what_if *at = &w->list[index];
    if (index == 0)
        fprintf(cli->out, "\nwhat if (each solved anew, against %s)\n", text_duration_ns(number, w->base_ns));
    if (at->step_ns == 0) {
        fprintf(cli->out, "  %-42s %s\n", at->name,
                at->solution.kind == SOLUTION_NONE ? "impossible: degrees or batch do not divide" : "nothing fits");
        return;
    }
    print_plan_line(at->best->plan, at->best->graph, line);
    fprintf(cli->out, "  %-42s %8s %+7.1f %%  %s\n", at->name, text_duration_ns(number, at->step_ns), 100 * at->change,
            line);
}

void explanation_print_binding(const struct cli *cli, const struct explanation *x)
{
    const struct what_ifs *w = &x->what_ifs;
    const struct what_if *binding = explain_binding(w), *fewer = explain_fewer(w);
    fprintf(cli->out, "what binds: ");
    if (binding)
        fprintf(cli->out, "%s (%s: %+.1f %% of the step)\n", resource_names[binding->resource], binding->name,
                100 * binding->change);
    else if (w->count < w->asked || w->asked == 0)
        fprintf(cli->out, "not known: time was over before all was tried\n");
    else
        fprintf(cli->out, "no constraint; memory, node size or batch would not buy a thousandth of the step\n");
    if (fewer) /* a part of the cluster that is better than all of it */
        print_fewer(cli->out, fewer->step_ns, w->base_ns, x->plan->plan->rank_count,
                    fewer->cluster ? fewer->cluster : fewer->name);
}

void explanation_print_regret(const struct cli *cli, const struct explanation *x, int index)
{
    const struct regret *r = &x->regrets[index];
    if (index == 0)
        fprintf(cli->out, "\nrobustness: every rate and the memory drawn anew, each time against the best plan then\n");
    fprintf(cli->out, "  +-%.0f %%: ", 100 * r->amount);
    if (r->draws == r->unfit)
        fprintf(cli->out, "%s %d draws\n", r->draws ? "does not fit in any of" : "no time for any draw, of", r->draws);
    else
        fprintf(
            cli->out,
            "regret %.2f %% in the mean, %.2f %% at most; another plan is better in %d of %d draws, does not fit in "
            "%d%s\n",
            100 * r->mean, 100 * r->most, r->changed, r->draws, r->unfit,
            r->unsolved ? " (nor does any other in some)" : "");
}

void explanation_print_items(const struct cli *cli, const struct explanation *x)
{
    char line[PRINT_LINE_BYTES];
    print_plan_line(x->plan->plan, x->plan->graph, line);
    fprintf(cli->out, "%s on %d devices: %s\n", x->plan->graph->model_name, x->plan->plan->rank_count, line);
    print_order(cli, x->plan->plan);
    print_time(cli, &x->account);
    print_memory(cli, &x->account);
    print_room(cli, x);
    if (x->target)
        fprintf(cli->out, "\nother plans are those that %s (%s) can be told; any others: --target none\n",
                x->target->name, x->target->release);
}

void explanation_print_end(const struct cli *cli, const struct explanation *x)
{
    if (!x->complete)
        fprintf(cli->out, "\nended early: what is missing above was not looked at\n");
}

/* ---- nothing fits ---- */

static void print_allowed(FILE *out, enum space_choice choice, struct space space)
{
    const struct allowed *allowed = &space.range[choice];
    fprintf(out, "%s=", choice_facts[choice].name);
    for (int i = 0; i < allowed->count; i++) {
        long long value = allowed->values[i];
        char text[CHOICE_VALUE_BYTES];
        const char *name = choice_value_name(text, choice, value);
        if (name)
            fprintf(out, "%s%s", i ? ":" : "", name);
        else
            fprintf(out, "%s%lld", i ? ":" : "", value);
    }
}

/* Where there are several types of devices, each one's. */
static void print_memories(FILE *out, const struct explainer *e, const struct conflict *conflict)
{
    char usable[TEXT_NUMBER_BYTES], missing[TEXT_NUMBER_BYTES];
    const char *lacks = "the thriftiest plan lacks";
    for (int t = 0; t < e->facts->cluster->type_count; t++) {
        fprintf(out, "%s%s usable on each %s", t ? ", " : "", text_bytes(usable, facts_available_bytes(e->facts, t)),
                e->facts->cluster->types[t].device.name);
        if (t >= conflict->type_count || conflict->types[t].needed_bytes <= conflict->types[t].available_bytes)
            continue;
        fprintf(out, " (%s %s on stage %d)", lacks,
                text_bytes(missing, conflict->types[t].needed_bytes - conflict->types[t].available_bytes),
                conflict->types[t].stage);
        lacks = "lacks";
    }
}

static void print_constraint(FILE *out, const struct explainer *e, const struct conflict *conflict, int i)
{
    const struct cluster *cluster = e->facts->cluster;
    char usable[TEXT_NUMBER_BYTES], missing[TEXT_NUMBER_BYTES];
    fprintf(out, "  %-12s ", constraint_name((enum constraint)i));
    if (i < CONSTRAINT_NODE) {
        print_allowed(out, (enum space_choice)(i - CONSTRAINT_CHOICE), e->options.space);
        fprintf(out, ", by --fix, --space or --schedule");
    } else if (i == CONSTRAINT_NODE) {
        fprintf(out, "tensor ranks stay in a node of %d devices", cluster_node_size(cluster));
    } else if (i == CONSTRAINT_BATCH) {
        fprintf(out, "%lld sequences, which data ranks and micro-batches divide", (long long)e->options.space.batch);
    } else if (i == CONSTRAINT_DEVICES) {
        fprintf(out, "%d, all used", cluster->device_count);
    } else if (cluster->type_count > 1) {
        print_memories(out, e, conflict);
    } else {
        fprintf(out, "%s usable on a device", text_bytes(usable, conflict->available_bytes));
        if (conflict->missing_bytes > 0)
            fprintf(out, "; the thriftiest plan lacks %s%s", text_bytes(missing, conflict->missing_bytes),
                    conflict->of_hosts ? " of its host's memory" : "");
    }
    fprintf(out, "\n");
}

/* Of each type: "946 GiB instead of 79.0 GiB on each h100-sxm". */
static void print_memory_change(FILE *out, const struct facts *facts, const struct change *c)
{
    char now[TEXT_NUMBER_BYTES], value[TEXT_NUMBER_BYTES];
    for (int t = 0; t < facts->cluster->type_count; t++) {
        const struct device_type *device = &facts->cluster->types[t].device;
        text_bytes_enough(value, change_bytes(c, device->memory_bytes, facts_available_bytes(facts, t)));
        fprintf(out, "%s%s instead of %s", t ? ", " : "", value, text_bytes(now, device->memory_bytes));
        if (facts->cluster->type_count > 1)
            fprintf(out, " on each %s", device->name);
    }
}

static void print_change(FILE *out, const struct facts *facts, const struct change *c)
{
    char now[TEXT_NUMBER_BYTES], value[TEXT_NUMBER_BYTES], line[PRINT_LINE_BYTES];
    fprintf(out, "  %-18s ", c->name);
    if (!c->found) {
        fprintf(out, "no such change alone does\n");
        return;
    }
    if (c->constraint < CONSTRAINT_NODE)
        fprintf(out, "free");
    else if (c->constraint == CONSTRAINT_MEMORY)
        print_memory_change(out, facts, c);
    else
        fprintf(out, "%s instead of %s", text_count(value, c->value), text_count(now, c->now));
    print_plan_line(c->plan->plan, c->plan->graph, line);
    fprintf(out, ": %s\n", line);
}

void conflict_print(FILE *out, const struct explainer *e, const struct conflict *conflict)
{
    int count = 0;
    for (int i = 0; i < CONSTRAINT_COUNT; i++)
        count += conflict->set >> i & 1;
    fprintf(out, "nothing fits; %s\n",
            !conflict->irreducible ? "among these are some that exclude each other (ended early)"
            : count == 1           ? "this alone excludes every plan, and without it there is one"
                                   : "these exclude each other, and without any one of them there is a plan");
    for (int i = 0; i < CONSTRAINT_COUNT; i++)
        if (conflict->set >> i & 1)
            print_constraint(out, e, conflict, i);
    fprintf(out, "the smallest change of each kind that does, all else as it is\n");
    for (int i = 0; i < conflict->change_count; i++)
        print_change(out, e->facts, &conflict->changes[i]);
}
