/* What a verb provides. Its option table is the one source of parsing, help, the man page and shell completion. */
#ifndef CLEAVE_CLI_VERB_H
#define CLEAVE_CLI_VERB_H
#include "base/error.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum option_type { OPTION_FLAG, OPTION_TEXT, OPTION_INT, OPTION_DOUBLE, OPTION_LIST };
enum { MAX_LIST = 32 };
struct text_list { const char *item[MAX_LIST]; int count; };
struct option {
    const char *name;       /* without "--" */
    char letter;            /* 0: none */
    enum option_type type;  /* FLAG bool; TEXT const char *; INT int64_t; DOUBLE double; LIST struct text_list (may be repeated) */
    size_t offset;
    const char *value_name; /* "FILE"; NULL for flags */
    const char *doc;
    double min, max;        /* INT, DOUBLE; both 0: any non-negative */
};

/* What a verb may see of the world: handed down, since only cli/ reads argv, environment and tty. */
struct cli {
    FILE *out, *talk;       /* data; everything said to people */
    bool out_is_tty, talk_is_tty, color;
    const char *program;    /* path of the executable */
    const char *data_dir;   /* models/, devices/ */
    const char *module_dir; /* cleave-*.so */
    int argument_count;
    char **arguments;       /* as typed: provenance */
    const char *(*environment)(const char *name);
};

struct verb {
    const char *name, *summary;
    const char *usage;      /* after "cleave NAME" */
    const char *examples;   /* shown first */
    const struct option *options;
    size_t option_count, options_bytes;
    int min_operands, max_operands;
    /* options: options_bytes of zeroes with `defaults` copied in first if not NULL. Returns the exit code. */
    const void *defaults; /* options_bytes of them, or NULL */
    int (*run)(const struct cli *cli, const void *options, const char *const *operands, int operand_count, struct error *err);
};
extern const struct verb *const verbs[]; /* from verbs.def, NULL-terminated */

/* Parses what stands behind the verb. operands has room for argc. Unknown options name the nearest valid one. */
bool options_parse(const struct verb *verb, int argc, char **argv, void *options, const char **operands, int *operand_count, struct error *err);
void options_help(const struct verb *verb, FILE *out);
/* bash completion for all verbs, and a man page, from the tables. */
void options_completion(FILE *out);
void options_man_page(FILE *out);
/* In a verb: its option table. */
#define OPTIONS_OF(array) .options = (array), .option_count = sizeof(array) / sizeof *(array)
#endif
