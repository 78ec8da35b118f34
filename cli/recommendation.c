#include "cli/recommendation.h"
#include "cli/amounts.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROWS = 12 };

static const char *const verdict_names[] = {
    [VERDICT_MEETS] = "meets it",        [VERDICT_SLOW] = "too slow",         [VERDICT_DEAR] = "too dear",
    [VERDICT_NO_PLAN] = "nothing fits",  [VERDICT_HOPELESS] = "hopeless",     [VERDICT_WORSE] = "no better",
    [VERDICT_UNTRIED] = "time was over", [VERDICT_LEFT_OUT] = "not possible",
};
static const char *const goal_names[] = {
    [GOAL_SMALLEST] = "smallest", [GOAL_CHEAPEST] = "cheapest", [GOAL_FASTEST] = "fastest"
};

double recommendation_steps(const struct recommendation *r)
{
    return r->tokens > 0 ? ceil(r->tokens / ((double)r->batch * (double)r->sequence)) : 1;
}

bool recommendation_is_better(const struct recommendation *r, const struct offer *a, const struct offer *b)
{
    double x = r->goal == GOAL_CHEAPEST ? spending_dollars(&a->spending) : a->devices,
           y = r->goal == GOAL_CHEAPEST ? spending_dollars(&b->spending) : b->devices;
    if (r->goal == GOAL_FASTEST || x == y)
        return a->step_ns < b->step_ns;
    return x < y;
}

/* By how many times the offer misses what is asked; by its bound where it was not searched. */
static double missed_by(const struct recommendation *r, const struct offer *o)
{
    double steps = recommendation_steps(r), worst = 1;
    if (o->verdict == VERDICT_NO_PLAN || o->verdict == VERDICT_LEFT_OUT)
        return INFINITY;
    if (r->target_s > 0)
        worst = fmax(worst, o->spending.step_s * steps / r->target_s);
    if (r->budget_dollars > 0 && o->spending.dollars_per_hour >= 0)
        worst = fmax(worst, spending_dollars(&o->spending) * steps / r->budget_dollars);
    return worst;
}

static int compare(const struct recommendation *r, const struct offer *a, const struct offer *b)
{
    bool first = a->verdict == VERDICT_MEETS, second = b->verdict == VERDICT_MEETS;
    if (first != second)
        return first ? -1 : 1;
    if (first)
        return recommendation_is_better(r, a, b) ? -1 : recommendation_is_better(r, b, a);
    if ((a->step_ns > 0) != (b->step_ns > 0))
        return a->step_ns > 0 ? -1 : 1;
    double x = missed_by(r, a), y = missed_by(r, b);
    return x < y ? -1 : x > y;
}

/* By insertion: equal ones stay in the order in which they were looked at; what was looked at twice is once in the
 * list. */
void recommendation_sort(struct recommendation *r)
{
    int count = r->count;
    r->count = 0;
    for (int i = 0; i < count; i++) {
        struct offer moved = r->offers[i];
        bool listed = false;
        for (int k = 0; k < r->count; k++)
            listed = listed || strcmp(r->offers[k].cluster, moved.cluster) == 0;
        if (listed)
            continue;
        int at = r->count++;
        for (; at > 0 && compare(r, &moved, &r->offers[at - 1]) < 0; at--)
            r->offers[at] = r->offers[at - 1];
        r->offers[at] = moved;
    }
    r->best = r->count > 0 && r->offers[0].verdict == VERDICT_MEETS ? 0 : -1;
}

static bool has_prices(const struct recommendation *r)
{
    for (int i = 0; i < r->count; i++)
        if (r->offers[i].spending.dollars_per_hour >= 0)
            return true;
    return false;
}

/* What was asked: "1e+12 tokens in at most 30 d for at most $50000". */
static void print_asked(const struct cli *cli, const struct recommendation *r)
{
    char time[TEXT_NUMBER_BYTES], money[TEXT_NUMBER_BYTES];
    const char *unit = r->model->image_size > 0 ? "images" : "tokens";
    if (r->model->image_size > 0)
        fprintf(cli->out, "%s, %lld images a step: ", r->model->name, (long long)r->batch);
    else
        fprintf(cli->out, "%s, %lld sequences of %lld tokens a step: ", r->model->name, (long long)r->batch,
                (long long)r->sequence);
    if (r->tokens > 0)
        fprintf(cli->out, "%g %s (%.0f steps)", r->tokens, unit, recommendation_steps(r));
    else
        fprintf(cli->out, "a step");
    if (r->target_s > 0)
        fprintf(cli->out, " in at most %s", amount_duration_text(time, r->target_s));
    if (r->budget_dollars > 0)
        fprintf(cli->out, " for at most $%s", spending_number(money, r->budget_dollars));
    fprintf(cli->out, "; the %s is sought\n", goal_names[r->goal]);
}

/* Writes a sum, or what it is more than where the step is bounded alone. */
static void write_sum(char out[TEXT_NUMBER_BYTES], const char *least, double value)
{
    char number[TEXT_NUMBER_BYTES];
    snprintf(out, TEXT_NUMBER_BYTES, "%s%s", least, spending_number(number, value));
}

static void print_offer(const struct cli *cli, const struct recommendation *r, const struct offer *o, int width,
                        bool best)
{
    char step[TEXT_NUMBER_BYTES], all[TEXT_NUMBER_BYTES], money[TEXT_NUMBER_BYTES] = "", each[TEXT_NUMBER_BYTES] = "",
                                                          energy[TEXT_NUMBER_BYTES] = "", rate[TEXT_NUMBER_BYTES];
    const struct spending *s = &o->spending;
    bool known = o->step_ns > 0, bound = !known && o->bound_s > 0, priced = has_prices(r);
    const char *least = bound ? ">" : "";
    double steps = recommendation_steps(r);
    fprintf(cli->out, "%c %-*s %7d", best ? '*' : ' ', width, o->cluster, o->devices);
    const char *more = o->widened ? " with " : o->narrow ? " without more choices" : "";
    if (!known && !bound) {
        fprintf(cli->out, "  %s%s%s%s\n", verdict_names[o->verdict], more, o->why ? ": " : "", o->why ? o->why : "");
        return;
    }
    if (s->dollars_per_hour >= 0) {
        write_sum(money, least, spending_dollars(s) * steps);
        write_sum(each, least, spending_per_billion(s, spending_dollars(s)));
    }
    if (s->watts > 0)
        write_sum(energy, least, spending_per_billion(s, spending_kwh(s)));
    fprintf(cli->out, " %1s%9s ", least, text_duration_ns(step, (int64_t)(s->step_s * 1e9)));
    if (known)
        fprintf(cli->out, "%10s", spending_number(rate, s->tokens / s->step_s));
    else
        fprintf(cli->out, "%10s", "");
    fprintf(cli->out, " %1s%9s", least, amount_duration_text(all, s->step_s * steps));
    if (priced)
        fprintf(cli->out, " %9s %9s", money, each);
    fprintf(cli->out, " %9s  %s%s%s\n", energy, verdict_names[o->verdict], more, o->widened ? o->widened : "");
}

void recommendation_print(const struct cli *cli, const struct recommendation *r, const char *job)
{
    int shown = 0, width = (int)strlen("cluster"), counts[VERDICT_LEFT_OUT + 1] = { 0 };
    bool narrow = false;
    print_asked(cli, r);
    for (int i = 0; i < r->count; i++) {
        counts[r->offers[i].verdict]++;
        narrow |= r->offers[i].narrow;
        if (i < MOST_ROWS && (int)strlen(r->offers[i].cluster) > width)
            width = (int)strlen(r->offers[i].cluster);
    }
    fprintf(cli->out, "  %-*s %7s %10s %10s %10s", width, "cluster", "devices", "step",
            r->model->image_size > 0 ? "images/s" : "tokens/s", r->tokens > 0 ? "in all" : "a step");
    fprintf(cli->out, has_prices(r) ? " %9s %9s %9s\n" : "%.0s%.0s %9s\n", "$", "$/1e9", "kWh/1e9");
    for (; shown < r->count && shown < MOST_ROWS; shown++)
        print_offer(cli, r, &r->offers[shown], width, shown == r->best);
    if (shown < r->count)
        fprintf(cli->out, "  and %d more (--json has all)\n", r->count - shown);
    fprintf(cli->out, "%d of %d clusters were searched, each as cleave plan does%s", r->searched, r->count,
            narrow ? ", but those without more choices" : "");
    if (counts[VERDICT_HOPELESS] > 0)
        fprintf(cli->out, "; %d cannot meet it even at their peak (>)", counts[VERDICT_HOPELESS]);
    if (counts[VERDICT_WORSE] > 0)
        fprintf(cli->out, "; %d cannot be %s than one that does", counts[VERDICT_WORSE],
                r->goal == GOAL_CHEAPEST   ? "cheaper"
                : r->goal == GOAL_SMALLEST ? "much smaller"
                                           : "faster");
    if (counts[VERDICT_UNTRIED] > 0)
        fprintf(cli->out, "; for %d there was no time left", counts[VERDICT_UNTRIED]);
    if (r->doubled)
        fprintf(cli->out, r->goal == GOAL_FASTEST
                              ? "; of a type 1, 2, 4, ... nodes, and no numbers between: --among 3x8:h100-sxm asks for "
                                "one"
                              : "; of a type 1, 2, 4, ... nodes, then by halves between the most that miss it and the "
                                "fewest that meet it, where those may be the answer");
    fprintf(cli->out, "\n");
    if (r->own_prices)
        fprintf(cli->talk, "prices are of plans that cleave run itself executes; --target NAME has a framework's, and "
                           "plans that it can be told\n");
    if (r->best >= 0)
        fprintf(cli->talk, "next: cleave plan %s --cluster %s -o plan.json\n", job, r->offers[r->best].cluster);
}

static void write_offer(struct json_writer *w, const struct recommendation *r, const struct offer *o)
{
    double steps = recommendation_steps(r);
    json_begin_object(w);
    json_put_string(w, "cluster", o->cluster);
    json_put_int(w, "devices", o->devices);
    json_put_string(w, "verdict", verdict_names[o->verdict]);
    if (o->why)
        json_put_string(w, "why", o->why);
    if (o->widened)
        json_put_string(w, "widened", o->widened);
    if (o->narrow)
        json_put_bool(w, "narrow", true);
    if (o->bound_s > 0)
        json_put_double(w, "bound_step_s", o->bound_s);
    if (o->step_ns > 0) {
        json_put_double(w, "step_s", o->spending.step_s);
        json_put_double(w, "tokens_per_s", o->spending.tokens / o->spending.step_s);
        json_put_int(w, "peak_bytes", o->peak_bytes);
        json_put_double(w, "total_s", o->spending.step_s * steps);
        if (o->spending.dollars_per_hour >= 0)
            json_put_double(w, "total_dollars", spending_dollars(&o->spending) * steps);
        if (o->spending.watts > 0)
            json_put_double(w, "total_kwh", spending_kwh(&o->spending) * steps);
        spending_put(w, &o->spending);
    }
    json_end_object(w);
}

void recommendation_write(struct json_writer *w, const struct recommendation *r)
{
    json_begin_format(w, "cleave-recommendation", 1);
    json_put_string(w, "model", r->model->name);
    json_put_int(w, "batch", r->batch);
    json_put_int(w, "sequence", r->sequence);
    json_put_double(w, "steps", recommendation_steps(r));
    if (r->tokens > 0)
        json_put_double(w, "tokens", r->tokens);
    if (r->target_s > 0)
        json_put_double(w, "target_s", r->target_s);
    if (r->budget_dollars > 0)
        json_put_double(w, "budget_dollars", r->budget_dollars);
    json_put_string(w, "goal", goal_names[r->goal]);
    json_put_string(w, "best", r->best >= 0 ? r->offers[r->best].cluster : NULL);
    json_put_int(w, "searched", r->searched);
    json_write_key(w, "candidates");
    json_begin_array(w);
    for (int i = 0; i < r->count; i++)
        write_offer(w, r, &r->offers[i]);
    json_end_array(w);
    json_end_object(w);
}
