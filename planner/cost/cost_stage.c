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

/* Gives the place of a kernel among its layer's; of layers of one class they do the same. */
static int place_of(const struct program *program, const struct instr *instr, int *class_index)
{
    const struct graph_layer *layer = &program->graph->layers[program->graph->segments[instr->segment].layer];
    *class_index = layer->class_index;
    return instr->segment - layer->first_segment;
}

bool cost_same_kernel(const struct program *program, const struct instr *a, const struct instr *b)
{
    int class_a, class_b;
    return a->op == b->op && a->phase == b->phase && a->define == b->define && a->operands == b->operands &&
           place_of(program, a, &class_a) == place_of(program, b, &class_b) && class_a == class_b &&
           !memcmp(&program->assignments[a->segment], &program->assignments[b->segment], sizeof *program->assignments);
}

/* True when the two do the same work: all but the micro-batch and the moment counts. */
static bool same_work(const struct program *program, const struct instr *a, const struct instr *b)
{
    if (a->op == OP_COMPUTE)
        return cost_same_kernel(program, a, b);
    bool same = instr_alike(a, b);
    for (int i = 0; same && i < a->pair_count; i++) {
        const struct pair *x = &program->pairs[a->pair_first + i], *y = &program->pairs[b->pair_first + i];
        same = same_buffer(program, x->source, y->source) && same_buffer(program, x->destination, y->destination);
    }
    return same;
}

static uint64_t hash_work(const struct program *program, const struct instr *instr)
{
    int64_t parts[] = { instr->op, (int64_t)instr->phase, instr->segment, instr->round, instr->layer, -1 };
    if (instr->op == OP_COMPUTE) {
        int class_index;
        parts[2] = place_of(program, instr, &class_index);
        parts[3] = class_index;
        parts[4] = instr->operands;
    } else if (instr->pair_count > 0) {
        const struct pair *pair = &program->pairs[instr->pair_first];
        parts[5] = program->buffers[pair->source >= 0 ? pair->source : pair->destination].id;
    }
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
