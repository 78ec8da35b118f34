/* Nodes by the numbers that a JSON graph gives them. */
#ifndef CLEAVE_PEERS_NODE_IDS_H
#define CLEAVE_PEERS_NODE_IDS_H
#include "base/json.h"

struct node_id {
    int64_t id;
    int index;
};
struct node_ids {
    int count;
    struct node_id *sorted; /* (count) filled by the reader in the order of the nodes, then node_ids_sort() */
};
/* Refuses an id that two elements of the list have, at one of them. list: the nodes. */
bool node_ids_sort(struct node_ids *ids, const struct json *list, struct error *err);
/* Indices of an edge's ends; refuses numbers that no node has. edge: for the message. */
bool node_ids_edge(const struct node_ids *ids, const struct json *edge, int64_t from_id, int64_t to_id, int *from,
                   int *to, struct error *err);
#endif
