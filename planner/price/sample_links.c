/* Where tensor-, context- or expert-parallel transfers go over links of the data-parallel lane, each takes from the
 * other while both run. The simulator shares links moment by moment (planner/sim/fluid.h); here each transfer of the
 * lane meets as much of the path's as there is in its layer's pass on average. The link is then busy for the sum of
 * both: so much the path loses. The lane loses what it needs beyond half of the link. */
#include "base/num.h"
#include "planner/cost/cost_links.h"
#include "planner/price/sample_parts.h"

enum { MOST_LANE_LINKS = 16, MOST_KNOWN = 16 };

struct lane_links {
    struct link_use use[MOST_LANE_LINKS]; /* busy: at most */
    int count;
};

/* Remembers what collectives use, whatever their bytes: it is found once for each kind and group. */
struct known_uses {
    const struct facts *facts;
    int count;
    struct {
        enum op op;
        unsigned atoms;
        struct link_uses uses;
    } of[MOST_KNOWN];
};

static struct link_uses uses_of(struct known_uses *known, const struct sample *s, const struct instr *instr)
{
    int i = 0;
    while (i < known->count && (known->of[i].op != instr->op || known->of[i].atoms != instr->atoms))
        i++;
    if (i < known->count)
        return known->of[i].uses;
    struct link_uses uses = cost_links(known->facts, s->program, 0, instr);
    if (!op_info[instr->op].collective || i == MOST_KNOWN)
        return uses;
    known->of[known->count].op = instr->op;
    known->of[known->count].atoms = instr->atoms;
    known->of[known->count++].uses = uses;
    return uses;
}

static struct link_use *find_link(struct lane_links *links, int link)
{
    int i = 0;
    while (i < links->count && links->use[i].link != link)
        i++;
    return i < links->count ? &links->use[i] : NULL;
}

/* Adds what the transfer and one of the lane as long would take from each other, on the link where it is most. */
static void add_loss(struct layer_pass *pass, struct lane_links *links, const struct link_uses *uses,
                     int64_t duration_ns)
{
    double moving_ns = (double)max_i64(0, duration_ns - uses->latency_ns), path = 0, lane = 0;
    for (int i = 0; i < uses->count; i++) {
        const struct link_use *other = find_link(links, uses->use[i].link);
        double own = (double)uses->use[i].busy / LINK_WHOLE, others = other ? (double)other->busy / LINK_WHOLE : 0;
        if (own * others > path)
            path = own * others;
        if (own * (2 * others - 1) > lane)
            lane = own * (2 * others - 1);
    }
    pass->path_loss_ns += (int64_t)(moving_ns * path);
    pass->lane_loss_ns += (int64_t)(moving_ns * lane);
}

static int64_t share_ppm(int64_t loss_ns, int64_t pass_ns)
{
    return pass_ns > 0 ? (int64_t)(1e6 * (double)min_i64(loss_ns, pass_ns) / (double)pass_ns) : 0;
}

void sample_price_links(struct sample *s, const struct facts *facts)
{
    const struct stage_program *list = &s->program->stages[0];
    struct lane_links links = { .count = 0 };
    struct known_uses known = { .facts = facts };
    for (int k = 0; k < s->list_count; k++) {
        const struct instr *instr = &list->instrs[s->listed[k]];
        if (instr->lane != LANE_DP || instr->phase == PHASE_STEP)
            continue;
        struct link_uses uses = uses_of(&known, s, instr);
        for (int i = 0; i < uses.count; i++) {
            struct link_use *same = find_link(&links, uses.use[i].link);
            if (same)
                same->busy = max_int(same->busy, uses.use[i].busy);
            else if (links.count < MOST_LANE_LINKS)
                links.use[links.count++] = uses.use[i];
        }
    }
    for (int k = 0; k < s->list_count && links.count > 0; k++) {
        const struct instr *instr = &list->instrs[s->listed[k]];
        if (!instr_serves_layer(instr) || instr->phase == PHASE_STEP)
            continue;
        struct link_uses uses = uses_of(&known, s, instr);
        add_loss(sample_pass_of(s, instr), &links, &uses, s->duration[s->listed[k]]);
    }
    for (int l = 0; l < s->graph->layer_count; l++) {
        struct layer_price *price = &s->by_layer[l];
        const struct layer_pass *backward = &s->passes[2 * l], *forward = &s->passes[2 * l + 1];
        int64_t backward_ns = price->backward_ns - price->wait_ns;
        price->path_loss_forward_ppm = share_ppm(forward->path_loss_ns, price->forward_ns);
        price->path_loss_backward_ppm = share_ppm(backward->path_loss_ns, backward_ns);
        price->lane_loss_forward_ppm = share_ppm(forward->lane_loss_ns, price->forward_ns);
        price->lane_loss_backward_ppm = share_ppm(backward->lane_loss_ns, backward_ns);
    }
}
