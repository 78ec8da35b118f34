/* What a verb provides. Its option table is the one source of parsing, help, the man page and shell completion. */
#ifndef CLEAVE_CLI_VERB_H
#define CLEAVE_CLI_VERB_H
#include "base/error.h"
#include "base/text.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_DOUBLE, OPTION_LIST };
enum { MAX_LIST = 32 };
struct text_list {
    const char *item[MAX_LIST];
    int count;
};
struct option {
    const char *name; /* without "--" */
    char letter;      /* 0: none */
    enum option_type type;
    size_t offset;          /* of a bool (FLAG), const char * (TEXT), int64_t (INT), double or struct text_list */
    const char *value_name; /* "FILE"; NULL for flags */
    const char *doc;
    double min, max;                   /* INT, DOUBLE */
    const char *if_absent;             /* TEXT: what it is where no value follows; NULL: one must */
    void (*end_doc)(struct text *doc); /* adds to doc what stands in a table; may be NULL: nothing */
};

/* What a verb may see of the world: handed down, since only cli/ reads argv, environment and tty. */
struct cli {
    FILE *out, *talk; /* data; everything said to people */
    bool out_is_tty, talk_is_tty;
    const char *program;    /* path of the executable */
    const char *data_dir;   /* below it models/zoo and planner/facts/devices */
    const char *module_dir; /* cleave-*.so */
    int argument_count;
    char **arguments; /* as typed: provenance */
    const char *(*environment)(const char *name);
};

struct verb {
    const char *name, *summary;
    const char *usage;    /* after "cleave NAME" */
    const char *examples; /* shown first */
    const struct option *options;
    size_t option_count, options_bytes;
    int min_operands, max_operands;
    /* options: options_bytes of zeroes with `defaults` copied in first if not NULL. Returns the exit code. */
    const void *defaults; /* options_bytes of them, or NULL */
    int (*run)(const struct cli *cli, const void *options, const char *const *operands, int operand_count,
               struct error *err);
};
extern const struct verb *const verbs[]; /* from verbs.def, NULL-terminated */

/* Parses what stands behind the verb. operands has room for argc. Unknown options name the nearest valid one. */
bool options_parse(const struct verb *verb, int argc, char **argv, void *options, const char **operands,
                   int *operand_count, struct error *err);
void options_help(const struct verb *verb, FILE *out);
/* Adds what was given, other than the defaults, as one would type it to the other verb: what that has an option for. */
void options_put_given(struct text *out, const struct verb *verb, const void *options, const char *other);
/* From the tables: what a shell (bash, zsh, fish) offers while somebody types, and the manual page of a verb, or of the
 * program where it is NULL. */
bool completion_write(const struct cli *cli, const char *shell, struct error *err);
void man_page_write(FILE *out, const struct verb *verb);
/* In a verb: its option table. */
#define OPTIONS_OF(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)

/* Rows of option tables; at: offset in the verb's struct of options. */
#define NO_LIMIT 9007199254740992.0 /* 2^53: up to here a double holds every whole number */
#define FLAG_OPTION(name_, at, doc_)                                                                                   \
    {                                                                                                                  \
        .name = name_, .type = OPTION_FLAG, .offset = at, .doc = doc_                                                  \
    }
#define TEXT_OPTION(name_, at, value, doc_)                                                                            \
    {                                                                                                                  \
        .name = name_, .type = OPTION_TEXT, .offset = at, .value_name = value, .doc = doc_                             \
    }
#define LIST_OPTION(name_, at, value, doc_)                                                                            \
    {                                                                                                                  \
        .name = name_, .type = OPTION_LIST, .offset = at, .value_name = value, .doc = doc_                             \
    }
#define INT_OPTION(name_, at, value, min_, max_, doc_)                                                                 \
    {                                                                                                                  \
        .name = name_, .type = OPTION_INT, .offset = at, .value_name = value, .min = min_, .max = max_, .doc = doc_    \
    }
#define DOUBLE_OPTION(name_, at, value, min_, max_, doc_)                                                              \
    {                                                                                                                  \
        .name = name_, .type = OPTION_DOUBLE, .offset = at, .value_name = value, .min = min_, .max = max_, .doc = doc_ \
    }
#define OUTPUT_OPTION(at, doc_)                                                                                        \
    {                                                                                                                  \
        .name = "output", .letter = 'o', .type = OPTION_TEXT, .offset = at, .value_name = "FILE", .doc = doc_          \
    }
#define RANKS_OPTION(at, max_, doc_)                                                                                   \
    {                                                                                                                  \
        .name = "ranks", .letter = 'n', .type = OPTION_INT, .offset = at, .value_name = "RANKS", .min = 1,             \
        .max = max_, .doc = doc_                                                                                       \
    }
#endif
