#include "peers/node_ids.h"
#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
    const struct node_id *x = a, *y = b;
    return (x->id > y->id) - (x->id < y->id);
}

bool node_ids_sort(struct node_ids *ids, const struct json *list, struct error *err)
{
    qsort(ids->sorted, (size_t)ids->count, sizeof *ids->sorted, by_id);
    for (int v = 1; v < ids->count; v++)
        if (ids->sorted[v].id == ids->sorted[v - 1].id)
            return json_fail(json_at(list, ids->sorted[v].index), err, "expected an id of its own, found %lld twice",
                             (long long)ids->sorted[v].id);
    return true;
}

static int find(const struct node_ids *ids, int64_t id)
{
    struct node_id key = { id, 0 };
    const struct node_id *found = bsearch(&key, ids->sorted, (size_t)ids->count, sizeof key, by_id);
    return found ? found->index : -1;
}

bool node_ids_edge(const struct node_ids *ids, const struct json *edge, int64_t from_id, int64_t to_id, int *from,
                   int *to, struct error *err)
{
    *from = find(ids, from_id);
    *to = find(ids, to_id);
    return (*from >= 0 && *to >= 0) ||
           json_fail(edge, err, "expected the id of a node, found %lld", (long long)(*from < 0 ? from_id : to_id));
}
