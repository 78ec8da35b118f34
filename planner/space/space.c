#include "planner/space/space.h"
#include <string.h>

enum { VOCABULARY_GRAIN = 128 }; /* rows per tensor rank come in multiples of it, as in Megatron-LM */

struct space space_default(int64_t batch, int64_t sequence, enum dtype dtype)
{
    struct space space = { .batch = batch, .sequence = sequence, .dtype = dtype, .clip_norm = 1 };
    for (int choice = 0; choice < CHOICE_COUNT; choice++)
        space_lift(&space, (enum space_choice)choice);
    return space;
}

bool space_is_default(const struct space *space, enum space_choice choice)
{
    const struct allowed *own = &space->range[choice], *all = &choice_facts[choice].by_default;
    return own->count == all->count && !memcmp(own->values, all->values, (size_t)all->count * sizeof all->values[0]);
}

void space_lift(struct space *space, enum space_choice choice)
{
    space->range[choice] = choice_facts[choice].by_default;
}

const struct schedule *space_asynchronous(const struct space *space, bool updates_each)
{
    for (int i = 0; i < space->schedule.count; i++)
        if (updates_each ? schedules[space->schedule.values[i]]->updates_each
                         : schedules[space->schedule.values[i]]->asynchronous)
            return schedules[space->schedule.values[i]];
    return NULL;
}

int64_t config_value(const struct config *config, enum space_choice choice)
{
    switch ((int)choice) {
#define CHOICE(id, member, name, scope, ...) OF_PLAN_##scope(case CHOICE_##id : return config->member;)
#include "planner/space/choices.def"
#undef CHOICE
    }
    return 0;
}

bool config_equal_but(const struct config *a, const struct config *b, int but)
{
    struct config like = *a;
    if (but & BUT_PREFETCH)
        like.prefetch = b->prefetch;
    if (but & BUT_EXTRA)
        like.extra = b->extra;
    if (but & BUT_SCHEDULE)
        like.schedule = b->schedule;
    if (but & BUT_MICRO) {
        like.micro = b->micro;
        like.micro_batch_count = b->micro_batch_count;
    }
    return memcmp(&like, b, sizeof like) == 0;
}

bool config_shares_devices(const struct config *config)
{
    return config_chunks(config) > 1 && !schedules[config->schedule]->copies;
}

int64_t space_vocab_multiple(const struct graph *graph, int tensor)
{
    return graph->vocab_size > 0 ? (int64_t)VOCABULARY_GRAIN * tensor : 1;
}

int64_t config_vocab_multiple(const struct config *config, const struct graph *graph)
{
    return space_vocab_multiple(graph, config_tensor(config));
}

int degrees_inside(const struct degrees *d)
{
    return (d->experts_over >= EXPERTS_OVER_CONTEXT ? d->context : 1) *
           (d->experts_over >= EXPERTS_OVER_TENSOR ? d->tensor : 1);
}

/* Gives how many of the data-parallel ranks share out the experts. */
static int expert_ranks(const struct degrees *d)
{
    return d->expert > 1 ? d->expert / degrees_inside(d) : 1;
}

/* Gives what stands for these ranks: a dimension that shares out experts where they do that, else their own. */
static enum dimension_index over_experts(const struct degrees *d, enum experts_over reach, enum dimension_index by)
{
    int over = d->expert > 1 && d->experts_over >= reach ? dimension_over_experts((int)by) : -1;
    return over >= 0 ? (enum dimension_index)over : by;
}

static void add_data_atoms(struct mesh *mesh, const struct degrees *d, int group)
{
    int expert = expert_ranks(d);
    if (group < d->data)
        mesh_add(mesh, d->data / group, d->data_dimension);
    if (group > expert || expert == 1)
        mesh_add(mesh, group / expert, d->data_dimension);
    if (expert > 1)
        mesh_add(mesh, expert, DIM_ep);
}

bool mesh_legal(const struct degrees *d, int group)
{
    int expert = expert_ranks(d);
    int atoms = (group < d->data) + (group > expert || expert == 1) + (expert > 1) + (d->context > 1) + 1;
    return d->data % group == 0 && group % expert == 0 && atoms <= MAX_ATOMS;
}

struct mesh space_mesh(const struct degrees *d, enum mesh_order order, int group)
{
    struct mesh mesh = mesh_none();
    enum dimension_index tensor = over_experts(d, EXPERTS_OVER_TENSOR, d->tensor_dimension);
    if (order == ORDER_DATA_INSIDE)
        mesh_add(&mesh, d->tensor, tensor);
    else
        add_data_atoms(&mesh, d, group);
    if (d->context > 1)
        mesh_add(&mesh, d->context, over_experts(d, EXPERTS_OVER_CONTEXT, d->context_dimension));
    if (order == ORDER_DATA_INSIDE)
        add_data_atoms(&mesh, d, group);
    else
        mesh_add(&mesh, d->tensor, tensor);
    return mesh;
}
