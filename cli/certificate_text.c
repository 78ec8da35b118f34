#include "cli/certificate_text.h"
#include "planner/program/schedule.h"

static void print_simulated_bound(const struct cli *cli, const struct certificate *c)
{
    char bound[TEXT_NUMBER_BYTES];
    if (c->simulated_bound_ns > 0)
        fprintf(cli->out,
                "       none is simulated shorter than %s, by its kernels alone: this one is at most %.1f %% longer\n",
                text_duration_ns(bound, c->simulated_bound_ns), 100 * c->simulated_gap);
}

/* Of a model whose layers have several. */
static void print_orders(const struct cli *cli, const struct certificate *c)
{
    char bound[TEXT_NUMBER_BYTES], own[TEXT_NUMBER_BYTES];
    if (c->ideals > 0)
        fprintf(cli->out, "       this is about all orders of the layers: %lld order ideals\n", (long long)c->ideals);
    if (c->ideals == 0)
        fprintf(cli->out, "       this is about cuts of the file's order of the layers: other orders were not tried\n");
    if (c->orders_bound_ns > 0)
        fprintf(cli->out,
                "       in whatever order no plan takes less than %s by the formula, where this one takes %s: at most "
                "%.1f %% more\n",
                text_duration_ns(bound, c->orders_bound_ns), text_duration_ns(own, c->formula_ns),
                100 * (double)(c->formula_ns - c->orders_bound_ns) / (double)c->orders_bound_ns);
}

/* What was searched where not all could be listed. */
static void print_narrowed(const struct cli *cli, const struct certificate *c)
{
    const char *about = "       this is about plans with one mesh for each stage";
    if (c->narrower_only && c->crowded)
        fprintf(cli->out, "%s: there are more than %d configurations; --space with fewer values has all of them\n",
                about, SPACE_MOST_LISTED);
    else if (c->narrower_only)
        fprintf(cli->out, "%s: time was over before all configurations were listed\n", about);
}

void certificate_bounded(struct text *out, int64_t unbounded)
{
    for (int i = 0; schedules[i] && unbounded > 0; i++)
        if (schedules[i]->bounded)
            text_printf(out, "%s%s", out->length > 0 ? " and " : "", schedules[i]->name);
}

/* What the formula is not about. */
static void print_beside(const struct cli *cli, const struct certificate *c)
{
    struct text bounded = { 0 };
    certificate_bounded(&bounded, c->unbounded);
    if (c->unbounded > 0 && !bounded.failed)
        fprintf(cli->out,
                "       this is about %s; the best was tried with other schedules and more micro-batches in flight, "
                "too: %s more configurations\n",
                bounded.data, text_count((char[TEXT_NUMBER_BYTES]){ 0 }, c->unbounded));
    text_free(&bounded);
}

void print_certificate(const struct cli *cli, const struct certificate *c)
{
    char number[TEXT_NUMBER_BYTES], bound[TEXT_NUMBER_BYTES];
    if (c->bound_ns <= 0) {
        fprintf(cli->out, "no proof: %s; %s configurations, %lld solved\n",
                !c->ended || c->simulated_bound_ns > 0 ? "the formula does not bound this space"
                                                       : "the search ended before every configuration had a bound",
                text_count((char[TEXT_NUMBER_BYTES]){ 0 }, c->configurations), (long long)c->solved);
        print_narrowed(cli, c);
        print_simulated_bound(cli, c);
        print_orders(cli, c);
        return;
    }
    struct text left = { 0 }; /* of which only a bound is known */
    if (c->left + c->unseen > 0)
        text_printf(&left, ", %lld left", (long long)(c->left + c->unseen));
    fprintf(cli->out,
            "proof: no plan of the space is shorter than %s by the formula (this one: %s%s); %s configurations, %lld "
            "out by memory, %lld by bound, %lld solved%s\n",
            text_duration_ns(bound, c->bound_ns), text_duration_ns(number, c->formula_ns),
            c->ended ? "; the search was cut short" : "", text_count((char[TEXT_NUMBER_BYTES]){ 0 }, c->configurations),
            (long long)c->pruned_memory, (long long)c->pruned_bound, (long long)c->solved, left.data ? left.data : "");
    text_free(&left);
    print_beside(cli, c);
    print_narrowed(cli, c);
    print_simulated_bound(cli, c);
    print_orders(cli, c);
}
