/* At the end of a step the stages that hold one weight exchange its gradient: layers that share it on several of them,
 * and copies of the model all that they have (planner/lower/lower_step.c). Replicas that take turns have theirs in
 * their prices (turns.c). */
#include "base/num.h"
#include "planner/estimate/pipeline_parts.h"

enum { HOLDERS = 8 }; /* at most; more stages are not counted */
/* The stages that hold the weight, and what a rank of each has of its gradient. */
struct holders {
    int stage[HOLDERS], count;
    int64_t bytes;
};

static struct holders list_holders(const struct pipeline *p, const struct chain *chain)
{
    struct holders h = { .count = 0 };
    for (int l = 0; l < p->plan->layer_count && chain->tied_first >= 0; l++) {
        if (!chain_is_tied(chain, plan_layer_at(p->plan, l)))
            continue;
        h.bytes = max_i64(h.bytes, p->price[0][l]->tied_gradient_bytes);
        for (int copy = 0; copy < plan_copies(p->plan); copy++)
            plan_add_stages(h.stage, &h.count, HOLDERS, plan_stage_of_copy(p->plan, l, copy));
    }
    return h;
}

/* Lets each send to every other and get its part, in the order of stages, one message after the other either way. */
static void exchange_tied(const struct pipeline *p, const struct chain *chain, int64_t *end_ns)
{
    struct holders h = list_holders(p, chain);
    int64_t in_ns[HOLDERS], out_ns[HOLDERS], ready_ns[HOLDERS];
    for (int i = 0; i < h.count; i++)
        in_ns[i] = out_ns[i] = ready_ns[i] = end_ns[h.stage[i]];
    for (int sum = 1; h.bytes > 0 && sum < 2 * h.count - 2; sum++)
        for (int from = 0; from < h.count; from++) {
            int to = sum - from;
            if (!is_index(to, h.count) || to == from)
                continue;
            int64_t start = max_i64(max_i64(ready_ns[from], ready_ns[to]), max_i64(out_ns[from], in_ns[to]));
            out_ns[from] = in_ns[to] =
                start + cost_between_stages(p->facts, p->plan, h.stage[from], h.stage[to], h.bytes).ns;
        }
    for (int i = 0; i < h.count; i++)
        end_ns[h.stage[i]] = max_i64(in_ns[i], out_ns[i]);
}

/* Times what a layer and its copy exchange: the gradients that no other layer has. */
static int64_t copy_ns(const struct pipeline *p, const struct chain *chain, int stage, int other, int place)
{
    const struct layer_price *price = p->price[plan_stage_of_copy(p->plan, place, 0) != stage][place];
    bool shares = plan_layer_at(p->plan, place) == chain->tied_first && price->tied_gradient_bytes > 0;
    int64_t parts = price->exchange_parts - shares,
            bytes = price->exchange_bytes - (shares ? price->tied_gradient_bytes : 0);
    return parts > 0 ? parts * cost_between_stages(p->facts, p->plan, stage, other, ceil_div(bytes, parts)).ns : 0;
}

/* Lets each stage exchange with its copy: the second copy of the model lies on the stages from the last one back. */
static void exchange_copies(const struct pipeline *p, const struct chain *chain, int64_t *end_ns)
{
    for (int k = 0; k < p->plan->stage_count / 2; k++) {
        int other = p->plan->stage_count - 1 - k;
        int64_t ns = max_i64(end_ns[k], end_ns[other]);
        for (int l = 0; l < p->plan->layer_count; l++)
            if (plan_stage_holds(p->plan, k, l))
                ns += copy_ns(p, chain, k, other, l);
        end_ns[k] = end_ns[other] = ns;
    }
}

void pipeline_exchange(const struct pipeline *p, const struct chain *chain, int64_t *end_ns)
{
    if (!p->facts)
        return;
    if (plan_copies(p->plan) > 1)
        exchange_copies(p, chain, end_ns);
    exchange_tied(p, chain, end_ns);
}
