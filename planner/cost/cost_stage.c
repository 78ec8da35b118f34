/* The durations of a whole stage. Instructions of different micro-batches do the same work again and again: each kind
 * of work is priced once. Of passes that lowering copied that is known; what others do is compared. */
#include "base/num.h"
#include "planner/cost/cost.h"
#include <stdlib.h>
#include <string.h>

static bool same_buffer(const struct program *program, int left, int right)
{
    return left == right ||
           (min_int(left, right) >= 0 && buffer_alike(&program->buffers[left], &program->buffers[right]));
}

/* True when the two do the same work: all but the micro-batch and the moment counts. */
static bool same_work(const struct program *program, const struct instr *a, const struct instr *b)
{
    bool same = instr_alike(a, b);
    for (int i = 0; same && i < a->pair_count; i++) {
        const struct pair *x = &program->pairs[a->pair_first + i], *y = &program->pairs[b->pair_first + i];
        same = same_buffer(program, x->source, y->source) && same_buffer(program, x->destination, y->destination);
    }
    for (int i = 0, count = count_bits(a->operands); same && i < count; i++)
        same = same_buffer(program, program->operands[a->operand_first + i], program->operands[b->operand_first + i]);
    return same;
}

static uint64_t hash_work(const struct program *program, const struct instr *instr)
{
    const struct pair *pair = instr->pair_count > 0 ? &program->pairs[instr->pair_first] : NULL;
    int buffer = !pair               ? instr_operand(program, instr, ROLE_OUT, 0)
                 : pair->source >= 0 ? pair->source
                                     : pair->destination;
    const int64_t parts[] = { instr->op,    (int64_t)instr->phase, instr->segment,
                              instr->round, instr->layer,          buffer < 0 ? -1 : program->buffers[buffer].id };
    return mix64(hash_words(0, parts, sizeof parts / sizeof *parts));
}

bool cost_stage_ns(int64_t *ns, int *like, const struct facts *facts, const struct program *program, int stage)
{
    const struct stage_program *list = &program->stages[stage];
    size_t slots = 16, others = (size_t)list->instr_count;
    for (int i = 0; i < list->repeated_count; i++)
        others -= (size_t)list->repeated[i].count;
    while (slots < 2 * others)
        slots *= 2;
    int *slot = calloc(slots, sizeof *slot); /* 1 + the first instruction that does this work */
    for (int i = 0, next = 0; slot && i < list->instr_count; i++) {
        const struct instr *instr = &list->instrs[i];
        const struct repeated *repeated = next < list->repeated_count ? &list->repeated[next] : NULL;
        if (repeated && repeated->first == i) {
            size_t count = (size_t)repeated->count;
            memcpy(&ns[i], &ns[repeated->as], count * sizeof *ns);
            if (like)
                memcpy(&like[i], &like[repeated->as], count * sizeof *like);
            i += repeated->count - 1;
            next++;
            continue;
        }
        size_t at = hash_work(program, instr) & (slots - 1);
        while (slot[at] && !same_work(program, instr, &list->instrs[slot[at] - 1]))
            at = (at + 1) & (slots - 1);
        ns[i] = slot[at] ? ns[slot[at] - 1] : cost_instr_ns(facts, program, stage, instr);
        slot[at] = slot[at] ? slot[at] : i + 1;
        if (like)
            like[i] = slot[at] - 1;
    }
    bool good = slot != NULL;
    free(slot);
    return good;
}
