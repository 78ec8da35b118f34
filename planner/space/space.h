/* The room of the space: what may be chosen.
 *
 * It answers which values a choice may take (choices.def, struct space), which outer configurations are legal for a
 * model on a cluster and in which order they are listed (space_configs()), which strategies a layer may have on a mesh
 * (space_strategies()), and what is wrong where there are none (space_explain_empty()). A configuration is a mesh, a
 * number of stages, the size of micro-batches, a schedule and what goes with it; its name is config_name().
 *
 * It uses plan/, program/ (schedules) and facts/, and knows nothing of prices.
 * Tested by tests/test_space_lists.c and test_space.c, which enumerate small spaces by rules of their own
 * (tests/naive_space.h), and by test_rules.c and test_cli_choices.py. */
#ifndef CLEAVE_SPACE_SPACE_H
#define CLEAVE_SPACE_SPACE_H
#include "planner/facts/profile.h"
#include "planner/space/choice.h"
#include "planner/space/group_order.h"
#include "planner/space/mesh.h"

/* A rule says what some layers may choose from, instead of what all others may. */
struct layer_rule {
    int first, last;          /* layers of the graph, both included */
    enum space_choice choice; /* choice_has_rules(); the ranks of all layers are what all rules allow */
    struct allowed allowed;   /* at least one value */
};
enum { SPACE_RULES = 16 };
/* Says by hand where the pieces of the model begin: all plans have these, in the file's order of layers. */
struct space_cut {
    int count;        /* 0: anywhere */
    const int *first; /* (count) ascending from 0; borrowed */
};

struct space {
    int64_t batch, sequence; /* sequences per step; tokens, 0: the model's own */
    struct space_cut cut;
    enum dtype dtype;
    struct optimizer optimizer;
    double clip_norm; /* gradients are scaled down to this global norm; 0: not */
    union {           /* of each choice the values that it may take (choices.def) */
        struct allowed range[CHOICE_COUNT];
        struct {
#define CHOICE(id, member, ...) struct allowed member;
#include "planner/space/choices.def"
#undef CHOICE
        };
    };
    int rule_count;
    struct layer_rule rules[SPACE_RULES]; /* of several for a layer and choice the last counts */
};
/* Gives the space that has what choices.def says that a search tries of every choice, and clips gradients to the norm
 * 1, as common trainers do. */
struct space space_default(int64_t batch, int64_t sequence, enum dtype dtype);
/* space_is_default() is true when the choice is as free as there; space_lift() makes it so. */
bool space_is_default(const struct space *space, enum space_choice choice);
void space_lift(struct space *space, enum space_choice choice);
/* Gives the size of buckets that is tried first. */
static inline int64_t space_bucket_bytes(const struct space *space)
{
    return space->bucket_bytes.values[0];
}
static inline void space_set_bucket_bytes(struct space *space, int64_t bytes)
{
    space->bucket_bytes = allowed_only(bytes);
}
/* Gives the asynchronous schedule that was named, whose versions of weights stay on the device; updates_each: one that
 * cannot clip, since it updates after each micro-batch. NULL: there is none. */
const struct schedule *space_asynchronous(const struct space *space, bool updates_each);

/* One outer configuration: stages x the ranks of the mesh = devices. Where stages may have several meshes, meshes x the
 * ranks of the mesh, and how stages share out the meshes is decided with the cut: each of a stage's takes whole
 * micro-batches in turn. */
struct config {
    struct mesh mesh;
    int meshes; /* 0: one for each stage; else of all stages together, and stages 0: any number */
#define CONFIG_NUMBER int
#define CONFIG_NAME int
#define CONFIG_FLAG bool
#define CONFIG_BYTES int64_t
#define CHOICE(id, member, name, scope, kind, ...) OF_PLAN_##scope(CONFIG_##kind member;)
#include "planner/space/choices.def"
#undef CHOICE
    int micro_batch_count;
    int shape_count;          /* with meshes: */
    const int *turns;         /* (shape_count) meshes that a stage may have, ascending; in the arena of the list */
    struct group_order order; /* of the cluster's groups, and so of its types of devices, in the pipeline */
};
/* Gives the configuration's value of a choice of scope PLAN. */
int64_t config_value(const struct config *config, enum space_choice choice);
/* Says what a comparison of configurations leaves out. */
enum { BUT_PREFETCH = 1, BUT_EXTRA = 2, BUT_SCHEDULE = 4, BUT_MICRO = 8 };
/* True when two configurations of one list are equal but for that, a sum of BUT_. */
bool config_equal_but(const struct config *a, const struct config *b, int but);
static inline int config_chunks(const struct config *config)
{
    return config->chunks > 1 ? config->chunks : 1;
}
/* True when the stages have several parts of one model, which have a device's memory in common. */
bool config_shares_devices(const struct config *config);
static inline int config_loss_chunks(const struct config *config)
{
    return config->loss_chunks > 1 ? config->loss_chunks : 1;
}
/* Gives the number of stages of the plan's file, each replica counted. */
static inline int config_meshes(const struct config *config)
{
    return config->meshes > 0 ? config->meshes : config->stages;
}
/* Gives the number of pieces into which the layers are cut; config_stage() gives the stage that has one. */
static inline int config_pieces(const struct config *config)
{
    return schedule_pieces(schedules[config->schedule], config->stages, config_chunks(config));
}
static inline int config_stage(const struct config *config, int piece)
{
    return schedule_stage(schedules[config->schedule], config->stages, piece);
}
static inline int config_tensor(const struct config *config)
{
    return mesh_tensor(&config->mesh);
}
static inline int config_data(const struct config *config)
{
    return mesh_data(&config->mesh);
}
/* Gives one padding of the vocabulary for all layers of the plan. */
int64_t config_vocab_multiple(const struct config *config, const struct graph *graph);
/* Gives where the ranks of a stage begin: of so many meshes, with `before` meshes before them in the pipeline; of the
 * stage with that number, where each has one. */
static inline int config_rank_at(const struct config *config, int before, int meshes)
{
    int ranks = mesh_ranks(&config->mesh);
    return group_order_rank(&config->order, before * ranks, meshes * ranks);
}
static inline int config_first_rank(const struct config *config, int stage)
{
    return config_rank_at(config, stage, 1);
}
/* Gives to what the vocabulary is padded, so that so many tensor-parallel ranks share it. */
int64_t space_vocab_multiple(const struct graph *graph, int tensor);

/* True when `tensor` ranks can share the work of every heavy operator: heads, feed-forward columns and vocabulary rows
 * divide; key and value heads may be fewer and are then replicated. */
bool legal_tensor(const struct graph *graph, int tensor);
/* An obstacle is what they would share, and do not divide. */
struct obstacle {
    int layer;
    enum axis_tag tag; /* TAG_HEAD, or TAG_FFN */
    int64_t size;
};
/* Finds where so many tensor ranks fail; false: they do not, or there is nothing at all to share. */
bool legal_tensor_obstacle(const struct graph *graph, int tensor, struct obstacle *out);

/* Degrees of a mesh, and the dimensions that stand for them. */
struct degrees {
    int tensor, context, data;
    int expert; /* below 2: experts are not shared out */
    enum experts_over experts_over;
    enum dimension_index tensor_dimension, context_dimension, data_dimension;
};
/* Makes the mesh. group: data-parallel ranks of one atom; the others make an atom outside of it. Context-parallel ranks
 * lie between data- and tensor-parallel ones, expert-parallel ones are the innermost data-parallel ones, and what
 * experts_over says beside them. It must be mesh_legal(). */
struct mesh space_mesh(const struct degrees *degrees, enum mesh_order order, int group);
/* Gives the ranks other than data-parallel ones that share out experts where any do. */
int degrees_inside(const struct degrees *degrees);
/* True when degrees divide and the mesh has no more than MAX_ATOMS. */
bool mesh_legal(const struct degrees *degrees, int group);
/* Gives the most ranks that can share out the experts of every layer: all degrees divide it; 1 without experts. */
int64_t legal_most_experts(const struct graph *graph);
/* True when context-parallel atoms find something to split in every heavy operator: else all ranks do the same. */
bool legal_context(const struct graph *graph, const struct mesh *mesh);

/* True when the layer may decide so on the mesh; where nothing can be sharded, any ZeRO stage will do, and where
 * nothing is gathered, any resharding. */
bool space_layer_allows(const struct space *space, int layer, const struct mesh *mesh, const struct plan_layer *choice);
/* True when one of these values is the group of data-parallel ranks over which the layer shards on the mesh: 0 is all
 * ranks that could. */
bool space_group_allowed(const struct allowed *groups, const struct mesh *mesh, const struct plan_layer *layer);
/* Makes full recomputation that of whole blocks, wherever it is allowed. */
void space_recompute_blocks(struct space *space);
/* Lets all layers be recomputed by blocks but for these operators, where they are to be recomputed selectively and
 * nothing was said of single operators. */
void space_keep_operators(struct space *space, uint64_t operators);
/* True when one of the values of a space with one for each choice of layers makes no difference, as how weights that
 * are not shards go back to shards, and is not the one that goes without saying. */
bool space_layers_idle(const struct space *space);
/* Gives the rules that count for the layer, as bits, by which layers with equal rules are told. */
unsigned space_rules_of(const struct space *space, int layer);
/* Gives what any layer may choose from; everything where count is 0. */
struct allowed space_any_layer(const struct space *space, enum space_choice choice);

/* Lists every strategy that the space allows some layer on the mesh in out (NULL: only counted), and gives their
 * number. What makes no difference is listed once: without sharding there are no groups of shards, without ZeRO-3
 * nothing is kept gathered, slices serve to gather and reduce less at a time. Dimensions take the place of others that
 * split alike (dimension_replica()). */
int space_strategies(const struct space *space, const struct mesh *mesh, struct strategy *out);
/* True when a stage of ZeRO is allowed that the optimizer goes with, in all layers. */
bool space_leaves_zero(const struct space *space, struct error *err);
/* Lists what shortens the compute path: sharding a little (accumulation in place or not), so a bound looks at both ends
 * of ZeRO, and slices, whose transfers run beside each other's computations. Unsharded ones come first, then as many
 * sharded ones where the mesh has ranks for it. */
int space_ends(const struct space *space, const struct mesh *mesh, struct strategy *out);

/* Lists all configurations that the space, the graph and the cluster allow, in a fixed order, in the arena. None is no
 * failure; several meshes of a stage are one without a bounded schedule. */
bool space_configs(struct config **out, int *count, struct arena *arena, const struct space *space,
                   const struct graph *graph, const struct cluster *cluster, struct error *err);
/* The closed form bounds the schedules that are `bounded`, with no more in flight than they say. Where a space has
 * such, configurations of several stages with other synchronous schedules, or with more in flight, stand beside them:
 * candidates for the judge, of which the closed form proves nothing. They are listed behind the *count that *out has
 * already, NULL and 0: none; then *out may be another array. */
bool config_is_bounded(const struct config *config);
bool space_configs_unbounded(struct config **out, int *count, struct arena *arena, const struct space *space,
                             const struct graph *graph, const struct cluster *cluster, struct error *err);
/* Says when to end a listing before it is whole: when it is time, or when there are more than so many. */
struct space_stop {
    bool (*stops)(void *self);
    void *self;
    int most;
};
enum { SPACE_MOST_LISTED = 400000 }; /* beyond which a narrower space is searched, where there is one */
/* Lists as space_configs() does; *ended: `stop` ended it before all were listed, and *out holds none. */
bool space_configs_until(struct config **out, int *count, struct arena *arena, const struct space *space,
                         const struct graph *graph, const struct cluster *cluster, const struct space_stop *stop,
                         bool *ended, struct error *err);
/* Counts how many there would be. */
int space_count(const struct space *space, const struct graph *graph, const struct cluster *cluster);
/* Gives the nearest batch below or above the space's that has a configuration; 0 if none is soon found. */
int64_t space_nearest_batch(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                            bool above);
/* True when any of the configurations has data-parallel ranks that make groups of shards as the space names them; the
 * failure says which there are. */
bool space_check_groups(const struct space *space, const struct config *configs, int count, struct error *err);
/* Explains why there was none: which restriction to lift. Always returns false. */
bool space_explain_empty(const struct space *space, const struct graph *graph, const struct cluster *cluster,
                         struct error *err);
#endif
