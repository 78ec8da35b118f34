/* A target: a framework at one release, as somebody who launches it sees it. It knows three things, each in its own
 * words and with its source: which launches it can be told (rules), how a launch is written for it (files), and how its
 * files and arguments are read. What it costs to run a plan under it is the framework's fact
 * (planner/facts/framework.h), not the target's.
 *
 * One file, or one folder, and one line of targets.def for each. It uses models/ and planner/ (plan, space, program),
 * and neither prices nor searches. Tested by tests/test_target_*.c (every launch that the rules allow is written, read
 * back and equal) and, where the target's Python package is installed, by its own parser (tests/targets_accept.py). */
#ifndef CLEAVE_TARGETS_TARGET_H
#define CLEAVE_TARGETS_TARGET_H
#include "base/text.h"
#include "targets/decoder.h"
#include "targets/launch.h"
#include "targets/shell.h"

struct space;
/* What a launch is about beside itself. */
struct launch_context {
    const struct model *model;
    const struct graph *graph;          /* of the model, its blocks whole */
    int devices_per_node, device_count; /* of the cluster; 0: unknown */
    bool nodes_differ;                  /* not all of its nodes have as many */
    const char *device_name;            /* "h100-sxm"; NULL: unknown, or they are of several types */
    const char *const *node_devices;    /* (nodes) those of each in the order of ranks; NULL: all are device_name's */
    const char *const *beyond;          /* (NULL-terminated) names of rules that are not asked; NULL: all are */
    /* For a reader of what is written; 0 and NULL where nobody has predicted. */
    int64_t step_ns;
    const char *framework; /* whose facts that is predicted by; NULL: the target's own */
    int stage_count;
    const int64_t *peak_bytes, *available_bytes; /* (stage_count) of one device by stage */
};

/* A launch that breaks it is refused by its name. */
struct target_rule {
    const char *name;   /* "sp-needs-tp" */
    const char *text;   /* what is wanted, in a sentence without its full stop */
    const char *source; /* the target's file and function, or its documentation */
    bool (*holds)(const struct launch *launch, const struct launch_context *context);
    /* Of one that does not hold: adds what breaks it, "field sliding_window of layer 3.attention". NULL: nothing more
     * is to be said. */
    void (*detail)(struct text *out, const struct launch *launch, const struct launch_context *context);
};

/* Files of one launch, in the order in which they were added. */
struct launch_file {
    const char *name; /* "train.sh", "README.md" */
    struct text text;
    bool executable;
};
enum { LAUNCH_FILES = 8 };
#define LAUNCH_HOSTFILE "hostfile" /* the names in it are the user's */
struct launch_files {
    int count;
    struct launch_file list[LAUNCH_FILES];
};
/* Begins a file; its text is filled by the caller. NULL: there are too many. */
struct text *launch_files_add(struct launch_files *files, const char *name, bool executable);
/* What fills a file. */
struct launch_part {
    const char *name;
    bool executable;
    void (*add)(struct text *out, const struct launch *launch, const struct launch_context *context);
};
/* Adds one file for each part. False: there are too many, or memory is short. */
bool launch_files_fill(struct launch_files *files, const struct launch_part *parts, size_t count,
                       const struct launch *launch, const struct launch_context *context);
void launch_files_free(struct launch_files *files);

/* What one block of a launch has to itself, where they are not all alike. */
struct block_launch {
    int8_t zero, recompute; /* as struct launch's */
};

/* Who opens files that a launch names, such as a script its configuration. */
struct launch_beside {
    /* The file's text, in the arena; false, with a message, where it cannot be read. *elsewhere: it does not lie in the
     * launch's folder, and what is not understood of it is not shown: a stranger's launch may name any file. */
    bool (*read)(const struct launch_beside *beside, struct arena *arena, const char *name, const char **text,
                 size_t *length, bool *elsewhere, struct error *err);
    /* Likewise of a script that one takes in by source, which is only read where it lies in the launch's folder, or
     * with it in the one that the command runs in. *path: its name as scripts then have it, from the launch's folder or
     * from the root; *why, else NULL, in words: it is not read. False: out of memory. May be NULL: none is read. */
    bool (*source)(const struct launch_beside *beside, struct arena *arena, const char *name, const char **path,
                   const char **text, size_t *length, const char **why, struct error *err);
    /* Told of each of these that is not read, whoever knows why: its name, or how the script spells that. Copies what
     * it keeps. May be NULL. */
    void (*unread)(const struct launch_beside *beside, const char *name, const char *why);
};

/* What was read of somebody's launch. What he says of the model and of the devices stands beside it. */
struct launch_read {
    /* Given by whoever reads: of the cluster that it shall run on; 0: unknown. Counts of nodes and devices of a
     * launcher that make fewer are taken for a script's own, which its user changes. */
    int64_t cluster_devices;
    const char *device_name;            /* given likewise: of the cluster's first type; NULL: unknown */
    int64_t vocabulary;                 /* given likewise: words of its tokenizer, where it does not say; 0: unknown */
    struct shell_place place;           /* the same by nodes, for what scripts ask; 0: unknown */
    const struct launch_beside *beside; /* given likewise; NULL: a launch whose settings stand elsewhere is refused */
    struct launch launch;
    bool says_data, says_batch, says_sequence, says_dtype; /* else the launch's are unknown: 0, or the plain one's */
    int64_t usual_sequence;           /* where it says none: the trainer's own; 0: it has none */
    const char *usual_sequence_words; /* with it: whose that is */
    bool recompute_is_open;   /* likewise: the script may say it, and no setting that was read does */
    bool micro_batch_is_open; /* it is the plain one's, or micro_batches', until a user says it */
    int64_t
        rank_batch; /* sequences of a data rank in a step, from which the batch follows; 0: it is said, or unknown */
    struct model *model;   /* of the arguments; NULL: they do not describe it. The caller owns it */
    const char *zoo, *hub; /* without a model: the zoo's that it names, or the Hugging Face hub's; NULL: none */
    bool other_model;      /* words that are not understood make another model of the sizes, which then describe none */
    struct decoder sizes;  /* without a model: what it says of one all the same; 0: not said */
    const char *lacks;     /* the only thing that these do not say of it: "--vocab-size, ..."; NULL: more, or none */
    int64_t devices;       /* 0: not said */
    int64_t accumulation;  /* micro-batches of a data rank in a step, as the launch states them; 0: it does not */
    int64_t micro_batches; /* of a data rank in a step, from which the launch's micro_batch follows; 0: it says that */
    int block_count;       /* 0: all are as the launch says */
    const struct block_launch *blocks; /* (block_count) the model's, in their order */
    int ends_zero;                     /* with blocks: ZeRO of what stands before and behind them */
    const char *framework;             /* whose facts price it; NULL: the target's */
    const char *const *beyond;  /* (NULL-terminated) rules that it need not keep: it says what none is written with.
                                   NULL: it keeps them all */
    const char *adapters;       /* where it says that adapters alone are trained: "a.sh:3:9: lora_dim"; NULL: nowhere */
    const char *adapter_config; /* which these are, as PEFT's adapter_config.json; NULL: it does not say */
    enum quantized quantized;   /* what frozen matrices are stored in, as far as it says */
    bool quantizes_experts;     /* experts' matrices, too */
    const char *hidden;         /* what a script's command prints that is not known would be words of it; NULL: none */
    int unknown_count;          /* arguments that were not understood, in the order in which they came */
    const char **unknown;
    int ignored_count; /* understood, and without effect on time or memory */
    const char *uncarried; /* of these what a plan does not have and a launch of it needs: "--lr 1e-4, ..."; NULL */
};

/* A launch of which nothing was read yet: all but what was given. */
void launch_read_begin(struct launch_read *read);
/* One more argument that was not understood, unless it is there already; copies it. */
bool launch_read_add_unknown(struct launch_read *read, struct arena *arena, const char *words, size_t length,
                             struct error *err);

struct target {
    const char *name, *short_name; /* "megatron-lm", "megatron" */
    const char *framework;         /* whose facts price it where nobody says otherwise */
    const char *release;           /* "Megatron-Core 0.19" */
    /* What its allocator takes beside what is in use, of that; and who says so. Plans that leave less are marked. */
    double slack;
    const char *slack_source;
    const char *doc;
    const struct target_rule *rules; /* the last has no name */
    /* README: what a user puts where so that rotary positions are what the model's left_out says; NULL: nothing does.
     */
    void (*say_positions)(struct text *out, const struct model *model);
    bool trains_configuration; /* the model's own config.json, which says these */
    /* What goes with the optimizer in host memory, whose states are in 32 bits then: it is told beside it. NULL:
     * nothing does, and the states stay as they are. */
    const char *offload_needs;
    /* Narrows the space to values of choices that some launch has: degrees, schedules, dimensions; ZeRO and
     * recomputation to all that it knows, of which a plan then has one for all layers. */
    void (*allow)(struct space *space, const struct graph *graph);
    /* Of a space with one ZeRO stage and one way to recompute: to what goes with them. NULL: all does. */
    void (*narrow)(struct space *space);
    /* Adds the files; the launch keeps all rules. False: out of memory. */
    bool (*write)(struct launch_files *out, const struct launch *launch, const struct launch_context *context);
    /* Reads what users have: a command line, a script that holds one, or a configuration. In the arena but for the
     * model. Fails with where, what was expected, and what was found. NULL: it reads nothing. */
    bool (*read)(struct launch_read *out, struct arena *arena, const char *name, const char *text, size_t length,
                 struct error *err);
};
/* Fails for a script in Python that the target does not read, with what to type; true: it is none. */
bool launch_refuse_python(const struct target *target, const char *name, const char *text, size_t length,
                          struct error *err);
extern const struct target *const targets[]; /* NULL-terminated */
/* What may be kept in host memory, of what the target knows: nothing, unless the space was widened by it, which asks
 * for links to hosts. */
struct allowed target_offloads(const struct space *space, struct allowed known);

/* What others' tools decided, which is read and neither searched for nor written: these have no allow and no write. */
extern const struct target *const launch_sources[];              /* NULL-terminated */
const struct target *launch_source_find(const char *name);       /* a target, or one of them; NULL */
const struct target *target_find(const char *name);              /* by name or short name; NULL */
const struct target *target_of_framework(const char *framework); /* the first that it prices; NULL */
/* Whether the rule is none of these (NULL-terminated, or NULL). */
bool target_asks(const struct target_rule *rule, const char *const *beyond);
/* The first rule that the launch breaks; NULL: it keeps them all. */
const struct target_rule *target_broken_rule(const struct target *target, const struct launch *launch,
                                             const struct launch_context *context);
/* Whether it can be told to treat blocks as the space's first values of the choices of layers say, whatever else a
 * launch says. */
bool target_treats(const struct target *target, const struct space *space, const struct launch_context *context);
#endif
