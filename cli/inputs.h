/* What verbs read: models by file or zoo name, clusters, profiles, plan files with everything that they were made from.
 */
#ifndef CLEAVE_CLI_INPUTS_H
#define CLEAVE_CLI_INPUTS_H
#include "cli/calibration.h"
#include "cli/verb.h"
#include "host/catalogue.h"
#include "models/model.h"
#include "planner/facts/profile.h"
#include "formats/plan_file.h"
#include "planner/program/program.h"

enum { MAX_CALIBRATIONS = 8 };
struct timeline;
struct inputs_text;
struct inputs {
    const struct cli *cli;
    struct arena arena;
    struct inputs_text *texts; /* of the files that were read */
    struct catalogue *catalogue;
    struct model *model;
    struct json_doc *description; /* the model's own, native */
    struct model_reading reading; /* how a foreign model is to be read; notes about it are said */
    struct cluster *cluster;
    struct profile *profile;             /* NULL: none; else the first of profiles */
    struct profile *profiles[MAX_TYPES]; /* one per device that was measured, in a list by `next` */
    int profile_count;
    struct calibration calibrations[MAX_CALIBRATIONS]; /* (calibration_count) that were among the profiles */
    int calibration_count;
    const char *lacks_bf16;     /* a device for which the dtype is not bf16 by default; NULL: it is, or was stated */
    bool corrects_some;         /* what no calibration speaks of is priced as without: where many jobs are asked of */
    bool silent;                /* notes about the model were said when it was read before */
    bool runs;                  /* cleave runs the plan itself, whatever framework it was made for */
    bool withholds;             /* memory that plans could have was kept from them, so that they take little of it */
    struct framework framework; /* read if facts.framework points to it */
    struct graph *graph;
    const struct space *given; /* that left one plan, which has the graph (given_plan()); NULL: there is none */
    struct plan_file *plan_file;
    struct facts facts;          /* of the above */
    struct plan_context context; /* what was read, for plan files */
};

void inputs_free(struct inputs *in);
/* Folders of descriptions that have names, below the data's. */
#define INPUTS_MODELS "models/zoo"
#define INPUTS_FRAMEWORKS "planner/facts/frameworks"
/* What stands in such a folder, sorted, in the arena; at most `most`. */
size_t inputs_names(struct inputs *in, const char *folder, const char **names, size_t most);
/* A whole file ("-": standard input), kept as long as the inputs. */
bool inputs_text(struct inputs *in, const char *path, const char **text, size_t *length, struct error *err);
/* Whether the path, or one of several with commas between, is a file that lies neither beside that file nor deeper:
 * where a stranger's file names it, no message quotes it. */
bool inputs_are_elsewhere(const char *paths, const char *file);
/* Gives the config.json of a folder that has one, else the name; NULL: it is that of a model on a hub, which is said. */
const char *inputs_model_path(struct inputs *in, const char *name, struct error *err);
/* A file ("-": standard input; else a '/', an ending in .json or a file of that name), a folder with a config.json, the
 * name of a model of the zoo, or the JSON itself. */
bool inputs_model(struct inputs *in, const char *name, struct error *err);
/* What is to run plans of the model that was read: a file, or the name of one of the catalogue; "cleave": itself, as
 * where nobody asks. */
bool inputs_framework(struct inputs *in, const char *name, struct error *err);
/* The device catalogue of the installation. */
bool inputs_catalogue(struct inputs *in, struct error *err);
/* A cluster file, the short form, or the JSON itself. */
bool inputs_cluster(struct inputs *in, const char *text, struct error *err);
/* Memory of each device that plans must leave free, as --reserve has it; noted in the context of plans. */
bool inputs_reserve(struct inputs *in, const char *text, struct error *err);
/* Profiles and calibrations. Later profiles win over earlier ones of the same device; none: in->profile stays NULL. A
 * profile that says nothing of the cluster, if one was read, is refused. */
bool inputs_profiles(struct inputs *in, const struct text_list *paths, struct error *err);
/* Corrects cluster and framework by the calibrations, once all are read and before anything is priced. One that speaks
 * of neither is refused. */
bool inputs_correct(struct inputs *in, struct error *err);
/* The same for paths in one text, separated by commas; those that cannot be read are left out. For a plan's context. */
bool inputs_profiles_named(struct inputs *in, const char *paths, struct error *err);
/* A plan file, then its model, by the description that it holds, and the cluster that it names (or the ones given, if
 * not NULL), the graph, and all checks. Of a file without description the model is looked for where it says, but not in
 * other folders than its own and the current one. The profile is read from the file's context when none is given and it
 * still exists. */
bool inputs_plan(struct inputs *in, const char *path, const char *model, const char *cluster,
                 const struct text_list *profiles, struct error *err);
/* Whether the operand is a plan file that can be read, and no model. */
bool inputs_names_plan(struct inputs *in, const char *path);
/* Fails when the plan at `path` was made with a profile and none was read: neither given nor found where it was. */
bool inputs_has_profile(const struct inputs *in, const char *path, struct error *err);
/* Index of the word in a NULL-terminated list, else a failure that lists what is valid. what: "--dtype". */
bool inputs_word(const char *what, const char *word, const char *const *words, int *out, struct error *err);
/* Data to -o FILE (or standard output for "-" and NULL), written whole or not at all. */
bool inputs_write(const struct cli *cli, const char *path, const char *data, size_t length, struct error *err);
/* Before long work: whether the file can be written when it is done. NULL and "-": yes. */
bool inputs_can_write(const char *path, struct error *err);
/* Whether FILE of -o names standard output: nothing else is then written there. NULL: no. */
bool inputs_is_stdout(const char *path);
/* The same for bytes that json_finish() and its like hand out (NULL: memory ran out): frees them. */
bool inputs_hand_out(const struct cli *cli, const char *path, char *data, size_t length, struct error *err);
/* What the writer has written, which ends with it. */
bool inputs_hand_out_json(const struct cli *cli, const char *path, struct json_writer *w, struct error *err);
/* The text, which ends with it. */
bool inputs_hand_out_text(const struct cli *cli, const char *path, struct text *text, struct error *err);
/* A timeline as Chrome trace JSON. */
bool inputs_write_trace(const struct cli *cli, const char *path, const struct program *program,
                        const struct timeline *timeline, struct error *err);
/* Whether lowering and verifying the plan take less than about 50 ms. */
bool inputs_soon_verified(const struct plan *plan);
/* Lowers and verifies a plan that was just chosen, where that is soon done; *verified: whether. Fails only when the
 * program is wrong. */
bool inputs_verify(bool *verified, const struct plan *plan, const struct graph *graph, struct error *err);
/* Says on cli->talk that a plan was not verified, and what does it. path: of its file, or NULL. */
void inputs_say_unverified(const struct cli *cli, const char *path);
/* Program of the plan: lowered, verified, laid out. */
bool inputs_program(struct program **out, const struct plan *plan, const struct graph *graph, struct error *err);
#endif
