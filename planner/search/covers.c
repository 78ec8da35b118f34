/* What one relaxation says of others: configurations that differ in their schedule alone have one problem but for what
 * is in flight, and where a relaxation leaves no plan, it leaves none to those that hold at least as much and wait at
 * least as long. */
#include "planner/cut/partition_parts.h"
#include "planner/search/propose_parts.h"
#include <string.h>

struct cover {
    struct cover *next;
    struct partition_problem problem;
    struct partition_result result;
};

static size_t in_flight_count(const struct partition_problem *p)
{
    return p->mesh_count > 0 ? ((size_t)p->mesh_count + 1) * (size_t)p->turn_count : (size_t)p->stage_count;
}

/* What a stage waits for its sends in each micro-batch behind the first: the more in flight the longer, but not at all
 * with all of them. */
static int64_t waiting_ns(const struct partition_problem *p, size_t i)
{
    const struct price_table *table = p->table;
    if (p->mesh_count == 0)
        return stage_period_ns(price_of_stage(table, (int)i), p->in_flight[i], p->micro_batch_count);
    size_t shape = i % (size_t)p->turn_count;
    return stage_period_ns(table->by_turns[shape], p->in_flight[i],
                           micro_batches_in_turn((int)p->micro_batch_count, p->turns[shape]));
}

/* And waits at least as long for it. */
static bool holds_as_much(const struct partition_problem *p, const struct partition_problem *than)
{
    bool by_place =
        p->mesh_count > 0 && p->table->by_place; /* these have prices of their own: only the same is alike */
    size_t i = 0, count = in_flight_count(p);
    while (i < count && p->in_flight[i] >= than->in_flight[i] &&
           (by_place ? p->in_flight[i] == than->in_flight[i] : waiting_ns(p, i) >= waiting_ns(than, i)))
        i++;
    return i == count;
}

/* phases: without them the bound is of either. */
static bool covers(const struct partition_problem *cover, const struct partition_problem *p)
{
    return cover->table == p->table && cover->chain == p->chain && cover->stage_count == p->stage_count &&
           cover->micro_batch_count == p->micro_batch_count && cover->mesh_count == p->mesh_count &&
           cover->turn_count == p->turn_count &&
           (p->mesh_count == 0 || !memcmp(cover->turns, p->turns, (size_t)p->turn_count * sizeof *p->turns)) &&
           (!cover->phases || p->phases) && cover->capacity_bytes == p->capacity_bytes && holds_as_much(p, cover);
}

bool propose_may_cover(const struct piece *piece, const struct piece *other)
{
    return piece->table && other->table && other->bound_only && covers(&other->problem, &piece->problem);
}

bool propose_find_cover(const struct queue *queue, struct piece *piece)
{
    const struct cover *cover = piece->table ? queue->covers : NULL;
    while (cover && !covers(&cover->problem, &piece->problem))
        cover = cover->next;
    if (!cover)
        return false;
    piece->result = cover->result;
    piece->result.no_memory = piece->result.no_memory || partition_lacks_memory(&piece->problem);
    return true;
}

bool propose_add_cover(struct run *run, const struct piece *piece)
{
    const struct partition_result *result = &piece->result;
    if (!piece->table || !piece->bound_only || propose_is_open(piece))
        return true;
    struct cover *cover = arena_alloc(&run->arena, 1, sizeof *cover);
    if (!cover)
        return search_out_of_memory(run->err);
    *cover = (struct cover){
        .next = piece->queue->covers,
        .problem = piece->problem,
        .result = { .no_memory = result->no_memory, .ruled_out = result->ruled_out, .bound_ns = result->bound_ns }
    };
    piece->queue->covers = cover;
    return true;
}
