#include "cli/memory_account.h"
#include "base/text.h"
#include "planner/cost/cost.h"

/* The devices' memory that plans have to leave free: of the type with which the stage's usable memory is that of. */
static int64_t reserve_of(const struct inputs *in, const struct memory_account *account)
{
    const struct facts *facts = &in->facts;
    for (int type = 0; type < facts->cluster->type_count; type++)
        if (facts_available_bytes(facts, type) == account->usable_bytes)
            return facts->cluster->types[type].device.memory_bytes - account->usable_bytes - account->buffers_bytes;
    return 0;
}

static int fullest_stage(const struct prediction *p)
{
    int full = 0;
    for (int s = 1; s < p->stage_count; s++)
        if (p->available_bytes[s] - p->peak_bytes[s] < p->available_bytes[full] - p->peak_bytes[full])
            full = s;
    return full;
}

bool memory_account_of(struct memory_account *out, const struct inputs *in, const struct plan *plan,
                       const struct prediction *p, struct error *err)
{
    struct explained *explained = NULL;
    int stage = fullest_stage(p);
    bool good = explained_open(&explained, in->model, plan, err) && explained_lower(explained, NULL, err);
    if (good) {
        *out = (struct memory_account){ .memory = explained->memory[stage],
                                        .stage = stage,
                                        .usable_bytes = p->available_bytes[stage],
                                        .buffers_bytes = facts_buffers_bytes(&in->facts) };
        /* The prediction may be of more micro-batches, which pack otherwise. */
        out->memory.bytes[MEMORY_GAPS] += p->peak_bytes[stage] - out->memory.peak_bytes;
        out->memory.peak_bytes = p->peak_bytes[stage];
        out->reserve_bytes = reserve_of(in, out);
    }
    explained_free(explained);
    return good;
}

/* Kinds by their bytes, the largest first; without those that have none. */
static int sort_kinds(int order[MEMORY_KIND_COUNT], const struct stage_memory *memory)
{
    int count = 0;
    for (int k = 0; k < MEMORY_KIND_COUNT; k++) {
        int at = count;
        if (memory->bytes[k] == 0)
            continue;
        for (; at > 0 && memory->bytes[order[at - 1]] < memory->bytes[k]; at--)
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

void memory_account_print(const struct cli *cli, const struct memory_account *account, bool whole)
{
    enum { FEW = 3 };
    const struct stage_memory *memory = &account->memory;
    char number[TEXT_NUMBER_BYTES], usable[TEXT_NUMBER_BYTES];
    int order[MEMORY_KIND_COUNT], count = sort_kinds(order, memory);
    if (!whole) {
        fprintf(cli->out, "  stage %d, which has least room:", account->stage);
        for (int i = 0; i < count && i < FEW; i++)
            fprintf(cli->out, "%s %s %s", i ? "," : "", memory_kind_names[order[i]],
                    text_bytes(number, memory->bytes[order[i]]));
        fprintf(cli->out, "; %s of each device are not for plans\n",
                text_bytes(number, account->buffers_bytes + account->reserve_bytes));
        return;
    }
    fprintf(cli->out, "  memory of stage %d, which has least room:\n", account->stage);
    for (int i = 0; i < count; i++)
        print_line(cli->out, memory_kind_names[order[i]], memory->bytes[order[i]], explanations[order[i]]);
    fprintf(cli->out, "    %-12s %9s  of %s\n", "together", text_bytes(number, memory->peak_bytes),
            text_bytes(usable, account->usable_bytes));
    if (account->buffers_bytes > 0)
        print_line(cli->out, "framework", account->buffers_bytes, "its buffers, beside that");
    if (account->reserve_bytes > 0)
        print_line(cli->out, "reserve", account->reserve_bytes, "for context, libraries and fragments, beside that");
}

bool memory_account_fail(const struct memory_account *account, struct error *err)
{
    const struct stage_memory *memory = &account->memory;
    int order[MEMORY_KIND_COUNT], most = sort_kinds(order, memory) > 0 ? order[0] : MEMORY_GAPS;
    char need[TEXT_NUMBER_BYTES], usable[TEXT_NUMBER_BYTES], lacks[TEXT_NUMBER_BYTES], largest[TEXT_NUMBER_BYTES];
    return fail_kind(err, ERROR_INFEASIBLE,
                     "does not fit: stage %d needs %s of %s, %s too much; most of it are %s (%s)", account->stage,
                     text_bytes(need, memory->peak_bytes), text_bytes(usable, account->usable_bytes),
                     text_bytes(lacks, memory->peak_bytes - account->usable_bytes), memory_kind_names[most],
                     text_bytes(largest, memory->bytes[most]));
}
