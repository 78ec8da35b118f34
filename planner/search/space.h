/* What the search may choose from: restrictions by the user, and the outer configurations that are legal for model and
 * cluster. */
#ifndef CLEAVE_SEARCH_SPACE_H
#define CLEAVE_SEARCH_SPACE_H
#include "planner/facts/profile.h"
#include "planner/search/mesh.h"

enum { SPACE_VALUES = 24 };
/* Allowed values of one choice; count 0: all legal ones. */
struct allowed {
    int count;
    int64_t values[SPACE_VALUES];
};
bool allows(const struct allowed *allowed, int64_t value);

struct space {
    int64_t batch, sequence; /* sequences per step; tokens, 0: the model's own */
    enum dtype dtype;
    double clip_norm;
    int64_t bucket_bytes;
    struct allowed pipeline, tensor, data, micro; /* degrees; sequences of one micro-batch per data-parallel rank */
    struct allowed zero, recompute;               /* 0..3; enum recompute */
    struct allowed schedule, prefetch;            /* index into schedules; layers ahead */
    struct allowed sequence_parallel;             /* 0, 1 */
};
/* All of it: bucket_bytes 25 MiB (as common trainers), recompute none and full, prefetch 0 and 1, synchronous
 * schedules. */
struct space space_default(int64_t batch, int64_t sequence, enum dtype dtype);

/* One outer configuration: stages x the ranks of the mesh = devices. */
struct config {
    struct mesh mesh;
    int stages, schedule, prefetch, micro_batch_count;
    int64_t micro;
    bool reversed; /* the first stage takes the cluster's last ranks: the other order of its types of devices */
};
static inline int config_tensor(const struct config *config)
{
    return mesh_tensor(&config->mesh);
}
static inline int config_data(const struct config *config)
{
    return mesh_data(&config->mesh);
}
/* Where the ranks of a stage begin. */
int config_first_rank(const struct config *config, int stage);
/* To what the vocabulary is padded, so that so many tensor-parallel ranks share it. */
int64_t vocab_multiple_of(const struct graph *graph, int tensor);

/* True when `tensor` ranks can share the work of every heavy operator: heads, feed-forward columns and vocabulary rows
 * divide; key and value heads may be fewer and are then replicated. */
bool tensor_legal(const struct graph *graph, int tensor);

/* All configurations that the space, the graph and the cluster allow, in a fixed order; in the arena. None is no
 * failure. */
bool space_configs(struct config **out, int *count, struct arena *arena, const struct space *space,
                   const struct graph *graph, const struct cluster *cluster, struct error *err);
/* Why there was none: which restriction to lift. Always false. */
bool space_explain_empty(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                         struct error *err);
#endif
