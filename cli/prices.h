/* What devices cost by the hour, and what a step then costs: in dollars by the user's prices, in energy by the
 * catalogue's watts. */
#ifndef CLEAVE_CLI_PRICES_H
#define CLEAVE_CLI_PRICES_H
#include "cli/verb.h"
#include "planner/facts/cluster.h"

enum { MAX_PRICES = 64 };
struct prices {
    int count;
    struct {
        const char *device;
        double dollars_per_hour; /* of one device */
    } of[MAX_PRICES];
};
#define PRICE_OPTION(at)                                                                                               \
    LIST_OPTION("price", at, "TYPE=DOLLARS",                                                                           \
                "of a device for an hour, as in h100-sxm=2.5: what steps and tokens cost; may be repeated")

/* "h100-sxm=2.5", several joined by commas or in several options. Devices are those of the cluster, unless it is NULL,
 * and of the catalogue. The names live in the arena. */
bool prices_read(struct prices *out, struct arena *arena, const struct text_list *given, const struct cluster *cluster,
                 const struct catalogue_entry *catalogue, int catalogue_count, struct error *err);
/* The dollars of the device's hour; negative: nobody says. */
double prices_of(const struct prices *prices, const char *device);
/* Of all devices of the cluster; negative: some type has no price. */
double prices_of_cluster(const struct prices *prices, const struct cluster *cluster);
/* Fails where some type of the cluster has none, and says what to type. what: who needs it. */
bool prices_need(const struct prices *prices, const struct cluster *cluster, const char *what, struct error *err);

/* What one step takes of money and energy. */
struct spending {
    double dollars_per_hour; /* of all devices; negative: not known */
    double watts;            /* of all devices, as their makers rate them; 0: not known */
    double step_s, tokens;   /* of a step; images where the model reads these */
};
struct spending spending_of(const struct prices *prices, const struct cluster *cluster, int64_t step_ns,
                            int64_t tokens);
double spending_dollars(const struct spending *s);                       /* of a step */
double spending_kwh(const struct spending *s);                           /* of a step */
double spending_per_billion(const struct spending *s, double of_a_step); /* of 1e9 tokens */
/* Dollars and the like: "1234", "12.34", "0.001234". */
char *spending_number(char out[TEXT_NUMBER_BYTES], double value);
/* A line for people, of what is known. unit: "tokens". */
void spending_print(const struct cli *cli, const struct spending *s, const char *unit);
/* The members of an object, of what is known. */
void spending_put(struct json_writer *w, const struct spending *s);
#endif
