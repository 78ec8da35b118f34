/* What `cleave explain` found, as the verb prints it: for people (explain_text.c) and as JSON (explain_json.c). */
#ifndef CLEAVE_CLI_EXPLANATION_H
#define CLEAVE_CLI_EXPLANATION_H
#include "base/json.h"
#include "cli/inputs.h"
#include "planner/explain/explain_conflict.h"

enum { MAX_NOISES = 2, MAX_VERSUS = MAX_LIST };
enum explain_part { PART_VERSUS, PART_ALTERNATIVES, PART_WHAT_IF, PART_ROBUSTNESS, PART_COUNT };
extern const char *const explain_parts[PART_COUNT + 1]; /* explain_text.c */

struct target;
struct explanation {
    const struct target *target; /* other plans are such that it can be told; NULL: any */
    const struct explained *plan;
    struct account account; /* as the plan is told everywhere, and */
    struct account alike;   /* as those are that it is compared with: many micro-batches by few */
    struct choice choice;
    bool asked[PART_COUNT];
    int versus_count;
    struct alternative versus[MAX_VERSUS]; /* kind: what the user typed */
    struct alternatives alternatives;
    struct what_ifs what_ifs;
    int regret_count;
    struct regret regrets[MAX_NOISES];
    bool complete; /* neither time limit nor Ctrl-C ended it */
};

/* For people, in this order and as soon as each is known. What the plan is, where its time and memory go, and the room
 * that is left: */
void explanation_print_items(const struct cli *cli, const struct explanation *x);
void explanation_print_versus(const struct cli *cli, const struct explanation *x, int index);
void explanation_print_alternatives(const struct cli *cli, const struct explanation *x);
void explanation_print_what_if(const struct cli *cli, const struct what_ifs *w, int index);
void explanation_print_binding(const struct cli *cli, const struct explanation *x); /* after all of these */
void explanation_print_regret(const struct cli *cli, const struct explanation *x, int index);
void explanation_print_end(const struct cli *cli, const struct explanation *x);
bool explanation_write(const struct cli *cli, const struct explanation *x, struct error *err);
/* Why nothing fits: text and JSON. */
void conflict_print(FILE *out, const struct explainer *e, const struct conflict *conflict);
bool conflict_write(const struct cli *cli, const struct conflict *conflict, struct error *err);
/* The same JSON of what a search that found nothing has to say, without looking for more. */
bool infeasible_write(const struct cli *cli, const struct search_result *result, const struct model *model,
                      struct error *err);
/* The index-th field table of the reports of explain and diff, and its name; NULL past the last. For `cleave schema`.
 */
extern const struct json_format report_formats[];
/* "none: found nothing": solution kinds as reports spell them. */
extern const char *const solution_names[];
/* The members of one plan as reports name them: its degrees, and the line that print_plan_line() makes. */
void write_choice(struct json_writer *w, const struct plan *plan, const struct graph *graph);
/* An object of seconds by kind of time. */
void write_times(struct json_writer *w, const char *key, const int64_t ns[TIME_KIND_COUNT]);
/* An object of bytes by kind of memory. */
void write_memory(struct json_writer *w, const char *key, const int64_t bytes[MEMORY_KIND_COUNT]);
#endif
