/* Graphs that somebody holds, so that who asks for an equal one gets the same: a search asks for hundreds of a few. */
#include "models/graph_shelf.h"
#include "models/model.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct graph_shelf {
    atomic_flag busy; /* somebody reads or changes what follows, for a few instructions */
    int users;        /* the model and each graph */
    struct graph *first;
};

static void lock(struct graph_shelf *shelf)
{
    while (atomic_flag_test_and_set(&shelf->busy))
        ;
}

static void unlock(struct graph_shelf *shelf)
{
    atomic_flag_clear(&shelf->busy);
}

struct graph_shelf *graph_shelf_new(void)
{
    struct graph_shelf *shelf = malloc(sizeof *shelf);
    if (shelf)
        *shelf = (struct graph_shelf){ .busy = ATOMIC_FLAG_INIT, .users = 1 };
    return shelf;
}

/* Behind lock(): whoever leaves last frees it. */
static void leave(struct graph_shelf *shelf)
{
    bool last = --shelf->users == 0;
    unlock(shelf);
    if (last)
        free(shelf);
}

void graph_shelf_free(struct graph_shelf *shelf)
{
    if (!shelf)
        return;
    lock(shelf);
    leave(shelf);
}

/* Behind lock(). NULL: nobody holds such a one. */
static struct graph *take_held(struct graph_shelf *shelf, const struct graph *wanted)
{
    struct graph *graph = shelf->first;
    while (graph && (graph->batch != wanted->batch || graph->sequence != wanted->sequence ||
                     graph->vocab_multiple != wanted->vocab_multiple || graph->whole_blocks != wanted->whole_blocks ||
                     memcmp(&graph->keeping, &wanted->keeping, sizeof graph->keeping) != 0))
        graph = graph->next;
    if (graph)
        graph->holders++;
    return graph;
}

bool graph_take(struct graph **out, const struct model *model, int64_t batch, int64_t sequence, int64_t vocab_multiple,
                struct error *err)
{
    struct graph_shelf *shelf = model->shelf;
    struct graph wanted;
    if (!graph_size_up(&wanted, model, batch, sequence, vocab_multiple, err))
        return false;
    lock(shelf);
    *out = take_held(shelf, &wanted);
    unlock(shelf);
    if (*out)
        return true;
    struct graph *built = NULL, *meanwhile;
    if (!graph_build(&built, model, batch, sequence, vocab_multiple, err))
        return false;
    lock(shelf);
    meanwhile = take_held(shelf, built);
    if (!meanwhile) {
        built->shelf = shelf;
        built->holders = 1;
        built->next = shelf->first;
        shelf->first = built;
        shelf->users++;
    }
    unlock(shelf);
    if (meanwhile)
        graph_free(built);
    *out = meanwhile ? meanwhile : built;
    return true;
}

bool graph_give_back(struct graph *graph)
{
    struct graph_shelf *shelf = graph->shelf;
    if (!shelf)
        return true;
    lock(shelf);
    if (--graph->holders > 0) {
        unlock(shelf);
        return false;
    }
    struct graph **link = &shelf->first;
    while (*link != graph)
        link = &(*link)->next;
    *link = graph->next;
    leave(shelf);
    return true;
}
