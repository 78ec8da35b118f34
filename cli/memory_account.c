#include "cli/memory_account.h"
#include "base/text.h"
#include "planner/cost/cost.h"
#include "planner/layout/contents.h"

/* The devices' memory that plans have to leave free: of the type with which the fullest stage's usable memory is that
 * of. */
static int64_t reserve_of(const struct facts *facts, int64_t usable_bytes)
{
    for (int type = 0; type < facts->cluster->type_count; type++)
        if (facts_available_bytes(facts, type) == usable_bytes)
            return facts->cluster->types[type].device.memory_bytes - usable_bytes - facts_buffers_bytes(facts);
    return 0;
}

/* Kinds by their bytes, the largest first; without those that have none. */
static int sort_kinds(int order[MEMORY_KIND_COUNT], const struct prediction *p)
{
    int count = 0;
    for (int k = 0; k < p->memory_count; k++) {
        int at = count;
        if (p->memory_bytes[k] == 0)
            continue;
        for (; at > 0 && p->memory_bytes[order[at - 1]] < p->memory_bytes[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
        count++;
    }
    return count;
}

static const char *const explanations[MEMORY_KIND_COUNT] = {
    [MEMORY_WEIGHTS] = "stored weights",
    [MEMORY_OPTIMIZER] = "the optimizer's states",
    [MEMORY_GRADIENTS] = "of weights",
    [MEMORY_ACTIVATIONS] = "kept for backward passes, or in use",
    [MEMORY_LOGITS] = "with probabilities and their gradients",
    [MEMORY_GATHERED] = "weights and inputs that ranks gathered",
    [MEMORY_TRANSIENT] = "gradients of values, parts of transfers",
    [MEMORY_WORKSPACE] = "of kernels",
    [MEMORY_GAPS] = "that the layout leaves",
};

static void print_line(FILE *out, const char *name, int64_t bytes, const char *what)
{
    fprintf(out, "    %-12s %9s  %s\n", name, text_bytes((char[TEXT_NUMBER_BYTES]){ 0 }, bytes), what);
}

void memory_account_print(const struct inputs *in, const struct prediction *p, bool whole)
{
    enum { FEW = 3 };
    FILE *out = in->cli->out;
    int64_t usable_bytes = p->available_bytes[p->fullest_stage], buffers_bytes = facts_buffers_bytes(&in->facts);
    int64_t reserve_bytes = reserve_of(&in->facts, usable_bytes);
    char number[TEXT_NUMBER_BYTES];
    int order[MEMORY_KIND_COUNT], count = sort_kinds(order, p);
    if (!whole) {
        fprintf(out, "  stage %d, which has least room:", p->fullest_stage);
        for (int i = 0; i < count && i < FEW; i++)
            fprintf(out, "%s %s %s", i ? "," : "", p->memory_names[order[i]],
                    text_bytes(number, p->memory_bytes[order[i]]));
        if (!in->withholds)
            fprintf(out, "; %s of each device are not for plans", text_bytes(number, buffers_bytes + reserve_bytes));
        fputc('\n', out);
        return;
    }
    fprintf(out, "  memory of stage %d, which has least room:\n", p->fullest_stage);
    for (int i = 0; i < count; i++)
        print_line(out, p->memory_names[order[i]], p->memory_bytes[order[i]], explanations[order[i]]);
    fprintf(out, "    %-12s %9s  of %s\n", "together", text_bytes(number, p->peak_bytes[p->fullest_stage]),
            text_bytes((char[TEXT_NUMBER_BYTES]){ 0 }, usable_bytes));
    if (buffers_bytes > 0)
        print_line(out, "framework", buffers_bytes, "its buffers, beside that");
    if (reserve_bytes > 0)
        print_line(out, "reserve", reserve_bytes, "for context, libraries and fragments, beside that");
}

bool memory_account_fail(const struct prediction *p, struct error *err)
{
    int order[MEMORY_KIND_COUNT], most = sort_kinds(order, p) > 0 ? order[0] : MEMORY_GAPS;
    int64_t need_bytes = p->peak_bytes[p->fullest_stage], usable_bytes = p->available_bytes[p->fullest_stage];
    char need[TEXT_NUMBER_BYTES], usable[TEXT_NUMBER_BYTES], lacks[TEXT_NUMBER_BYTES], largest[TEXT_NUMBER_BYTES];
    int host = 0; /* the stage that takes most of its hosts */
    for (int s = 1; s < p->stage_count && p->host_bytes; s++)
        host = p->host_bytes[s] > p->host_bytes[host] ? s : host;
    if (need_bytes <= usable_bytes && p->host_bytes && p->host_bytes[host] > p->host_available_bytes)
        return fail_kind(err, ERROR_INFEASIBLE,
                         "does not fit: of host memory each device of stage %d needs %s of %s, %s too much", host,
                         text_bytes(need, p->host_bytes[host]), text_bytes(usable, p->host_available_bytes),
                         text_bytes(lacks, p->host_bytes[host] - p->host_available_bytes));
    return fail_kind(err, ERROR_INFEASIBLE,
                     "does not fit: stage %d needs %s of %s, %s too much; most of it are %s (%s)", p->fullest_stage,
                     text_bytes(need, need_bytes), text_bytes(usable, usable_bytes),
                     text_bytes(lacks, need_bytes - usable_bytes), p->memory_names[most],
                     text_bytes(largest, p->memory_bytes[most]));
}
