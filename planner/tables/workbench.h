/* The room of tables: the prices of a whole configuration, made once.
 *
 * It answers with the table of a configuration (workbench_table()), whatever its stages are: alike, on several types of
 * devices (types.h), with replicas that take turns (turns.h), cut where links differ (cuts.h), or of an asynchronous
 * schedule (versions.c). It holds what all searches of one job share: the graph, the chain of layers, the prices by
 * key. The hash of what a certificate claims is made of these tables (certificate_hash.h).
 *
 * It uses space/, price/ and cut/ (chains), and decides nothing.
 * Tested by tests/test_types.c, test_turns.c, test_price.c and, through the checker, by test_certificate.c. */
#ifndef CLEAVE_TABLES_WORKBENCH_H
#define CLEAVE_TABLES_WORKBENCH_H
#include "planner/cut/partition.h"
#include "planner/price/shelf.h"
#include "planner/space/space.h"

struct model;

/* Says what a table was made for. */
enum made_table {
    MADE_PRICES, /* a key (workbench.c) */
    MADE_LEAST,  /* least.c: what configurations cost at least, by what is known of them */
    MADE_LEAST_LIKE,
    MADE_THRIFTY,
    MADE_STAGE_OF_TYPES, /* types.c: stages across several types of devices */
    MADE_LEAST_OF_TYPES,
    MADE_BY_STAGE, /* configurations over several types */
    MADE_VERSIONS, /* versions.c: asynchronous schedules */
    MADE_TURNS,    /* turns.c: stages whose replicas take turns */
    MADE_SENDS,    /* cuts.c: configurations whose cuts are not all alike */
};
struct workbench {
    struct arena arena;
    const struct model *model;
    const struct facts *facts;
    const struct space *space;
    struct graph *graph; /* of the whole batch */
    struct chain chain;  /* with all orders of the layers that there are */
    struct chain line;   /* the same cut in the file's order */
    int class_count;     /* of the chain: the graph's, told apart where the space has rules for layers */
    int *class_layer;    /* (class_count) where it has: a layer of each */
    struct price_book book;
    struct price_shelf *shelf; /* that the book is from; NULL: from none */
    struct facts *type_facts;  /* (types) as if the cluster had only the one; NULL where it has */
    struct memo made;          /* tables, by enum made_table and by what they were made from */
};
bool workbench_open(struct workbench *bench, const struct model *model, const struct facts *facts,
                    const struct space *space, struct error *err);
/* Opens a workbench with a book of the shelf, which it goes back to, and with what that knows of the facts: their rates
 * have the number, 0: none. shelf: may be NULL. */
bool workbench_open_from(struct workbench *bench, struct price_shelf *shelf, uint64_t rates, const struct model *model,
                         const struct facts *facts, const struct space *space, struct error *err);
void workbench_close(struct workbench *bench);
/* Prices for a configuration; *out NULL when lowering refuses it. bound_only: two strategies, for a bound. */
bool workbench_table(struct workbench *bench, const struct config *config, bool bound_only,
                     const struct price_table **out, struct error *err);
/* Gives the table for stages that live on one type of the cluster's, from that rank on; the tables of several have
 * equal strategies. */
bool workbench_type_table(struct workbench *bench, const struct config *config, int type, int first_rank,
                          bool bound_only, const struct price_table **out, struct error *err);
/* Gives the table as an asynchronous schedule sees it, one for each stage: further versions of the weights, updates
 * after each micro-batch; what such a schedule refuses (ZeRO, copies of a weight on several stages) does not fit. Made
 * once. */
bool workbench_versions(struct workbench *bench, const struct config *config, const struct price_table **table,
                        struct error *err);
/* Gives the table of a key, without cuts, if it was made; NULL where it was not, or is refused. */
const struct price_table *workbench_known(const struct workbench *bench, const struct price_key *key);
/* True when the table of a key was made, or refused. */
bool workbench_was_asked(const struct workbench *bench, const struct price_key *key);
/* Lists in the arena which strategies such a table has; false: out of memory. */
bool workbench_strategies(const struct workbench *bench, struct arena *arena, const struct price_key *key,
                          struct strategy **out, int *count);
/* Gives the facts as if the cluster had that type of its devices alone. */
const struct facts *workbench_type_facts(const struct workbench *bench, int type);
/* Gives what the configuration's prices depend on. */
struct price_key workbench_key(const struct workbench *bench, const struct config *config, int type, bool bound_only);
/* Gives in-flight micro-batches per stage, or of replicas that take turns (turns_in_flight()), in the arena; NULL when
 * out of memory. */
int *workbench_in_flight(struct arena *arena, const struct config *config);
struct partition_problem workbench_problem(const struct workbench *bench, const struct config *config,
                                           const struct price_table *table, const int *in_flight);
#endif
