/* Words of a shell script (targets/shell.h): quotes, variables and sums. */
#ifndef CLEAVE_TARGETS_SHELL_EXPAND_H
#define CLEAVE_TARGETS_SHELL_EXPAND_H
#include "base/text.h"
#include "targets/shell.h"

enum { SHELL_DEPTH = 8, SHELL_MOST_BYTES = 1 << 23 }; /* of one script's words: more is none that anybody wrote */
enum { SHELL_MOST_VARIABLES = 1024 }; /* likewise, elements of lists among them: each is looked for by its name */

struct shell_words {
    int count, capacity;
    const char **words;
    const char *hidden; /* as struct shell_command has it */
};
/* A file that is read: the launch, or what is taken in by source. */
struct shell_file {
    const char *path;          /* from the launch's folder, or from the root: what BASH_SOURCE is in it */
    const char *name;          /* in messages */
    struct shell_file *before; /* which takes it in; NULL: it is the launch */
    int taken;                 /* of the launch: how many files it took in, or was to */
    bool full;                 /* likewise: one of them was too much */
};
/* The first word behind a command and its options, as it is spelled. */
struct shell_operand {
    const char *at;
    size_t length;
    bool unknown; /* something in it comes to nothing, and nobody says so */
    enum shell_from from;
};
/* A function: its body between the braces, which runs where it is called. */
struct shell_function {
    const char *name, *body;
    size_t name_length, body_length;
    int line;
    struct shell_file *file;
    const struct shell_function *before; /* the last of a name holds */
};
struct shell {
    struct shell_script *script;
    const struct shell_function **functions; /* the last */
    struct shell_words *arguments; /* of the function that runs, or of set --; NULL: the script's, which are unknown */
    struct shell_words *own_arguments; /* room for those that the script sets */
    struct shell_place place;
    const struct launch_beside *beside; /* gives files that are taken in by source; NULL: none */
    struct shell_file *file;
    const char *launch, *start;   /* what $0 and SLURM_SUBMIT_DIR are: scripts run where they lie */
    const char *folder;           /* where cd went, from the launch's folder; NULL: nobody knows */
    struct shell_operand operand; /* of the command that is read */
    struct arena *arena;
    const char *p, *end;
    const char *here; /* the word that ends a here document which begins with the next line; NULL: none */
    size_t here_length;
    bool here_strips;  /* <<- : tabs may stand before that word */
    bool here_literal; /* it stands in quotes: nothing in the document is expanded */
    bool documents;    /* the command that is read announces it */
    const char *fed;   /* the word behind <<< of the command that is read, or what a file has; NULL: none */
    const char *input; /* likewise the file behind <; NULL: none */
    struct shell_operand input_operand;
    const char *feeder; /* likewise the command within < <( ); NULL: none */
    size_t feeder_length;
    const char *output;  /* likewise the file behind >; NULL: none */
    struct shell_operand output_operand;
    struct shell_words *written; /* paths of files that commands so far wrote, which are other ones than now lie there */
    const char *printed; /* of the word that was read last: what a command prints that is not known; NULL: nothing */
    const char *outside; /* words of the text that runs miss this, as struct shell_command has it; NULL: nothing */
    int line, depth;
    bool fed_unknown;        /* which comes to nothing, and nobody says so */
    bool runs;               /* the command that is read; else it is skipped, and assigns nothing */
    bool sum;                /* what is read stands between (( and )), where nothing is 0 */
    bool unknown;            /* something of the word that was read last comes to nothing, and nobody says so */
    const char *dropped;     /* the first value of the command or assignment that comes to nothing likewise, as it is
                                spelled; NULL: none */
    enum shell_from from;    /* if the word that was read last is a path */
    enum shell_from spelled; /* if one is without a variable: of eval that may have been one */
    int argument;            /* of the script, from 1, of which the word that was read last is empty; 0: of none */
    int typed;               /* bits of what sbatch was told, which goes over lines for Slurm (shell_place.c) */
    bool counts_tasks;       /* a line for Slurm says how many there are */
    bool success;            /* of the command that ran last */
    bool returned;           /* the function is over */
    size_t grown;
    struct error *err;
};
/* Returns false, with the name and the line before the message. */
bool shell_fail(struct shell *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Counts bytes; fails where they are too many. */
bool shell_grow(struct shell *s, size_t bytes);
/* Give room for so many in the arena, or a copy in it, and count them; NULL after a failure. */
void *shell_room(struct shell *s, int count, size_t size);
const char *shell_copy(struct shell *s, const char *text, size_t length);
/* Moves the text into the arena, and frees it. */
bool shell_take(struct shell *s, struct text *text, const char **out);
bool shell_add_word(struct shell *s, struct shell_words *words, const char *word);
/* Adds what was not understood, with the line, unless it is there already. */
bool shell_note(struct shell *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Notes what came to nothing among options, without anybody having been told. */
bool shell_note_dropped(struct shell *s, const struct shell_words *words);
/* NULL: there is none of that name. */
struct shell_variable *shell_variable(const struct shell_script *script, const char *name, size_t length);
/* Sets the variable, which is no array, to a value of what was read last; unknown: as struct shell_variable has it. */
bool shell_set(struct shell *s, const char *name, size_t length, const char *value, bool unknown);
/* ${NAME[KEY]}: *variable: what holds it, that of NAME before; *value: NULL: it is not set. *unknown: nor is it known. */
bool shell_element(struct shell *s, const char *name, size_t name_length, const char *key, size_t key_length,
                   const struct shell_variable **variable, const char **value, bool *unknown);
/* Sets NAME[KEY], of which a list has those that numbers name in order. */
bool shell_set_element(struct shell *s, const char *name, size_t name_length, const char *key, size_t key_length,
                       bool append, const struct shell_words *value);
/* Makes the words the list NAME, or more of it; those of "[KEY]=VALUE" are the elements that they name. */
bool shell_assign_list(struct shell *s, const char *name, size_t length, bool append, const struct shell_words *values);
/* What a command would print that a variable lacks which gets these values; NULL: nothing. */
const char *shell_missing(const struct shell *s, const struct shell_words *values);
/* Adds words to the variable, or puts them in its place. */
bool shell_assign(struct shell *s, const char *name, size_t length, bool append, const struct shell_words *values,
                  bool is_array);
/* Of two paths, or of a list and what it gets besides. */
enum shell_from shell_from_both(enum shell_from one, enum shell_from other);
size_t shell_name_length(const char *p, const char *end);
/* Reads NAME=, NAME+= and what stands behind; *found: one begins here. It holds where active. */
bool shell_assignment(struct shell *s, bool active, bool *found);
/* read NAME ... <<< WORD: each name gets a part between characters of IFS, and the last all that is left; with -a the
 * name gets all parts as a list. between: what IFS is behind it; NULL: not set. */
bool shell_read_names(struct shell *s, const struct shell_words *words, const char *between);
/* What variables, and the folder, were before a subshell, or before another shell's words. */
struct shell_memory {
    int count;
    struct shell_variable *variables; /* NULL: nothing was remembered */
    const char *folder;
};
bool shell_remember(struct shell *s, struct shell_memory *out);
/* Gives variables the values that they had. Those that were not there stay: a launch's
 * WORLD_SIZE is asked for at the end. */
void shell_recall(struct shell *s, const struct shell_memory *memory);

/* Blanks and continued lines; with lines also line ends and comments. */
void shell_skip_blank(struct shell *s, bool lines);
/* Likewise, and semicolons. */
void shell_skip_separators(struct shell *s);
void shell_skip_line(struct shell *s);
/* Whether the line goes on with the next: a backslash ends it here. */
bool shell_continues(const struct shell *s);
/* Whether the word stands here, and ends. */
bool shell_says(const struct shell *s, const char *word);
/* <, >, <<, <<< and the like, the number before them, and what they name. *found: one of them stands here. */
bool shell_redirection(struct shell *s, bool *found);
/* Adds the words that one word of the script stands for: none, one, or several where it is a list or is not quoted.
 * whole: one, an assignment's value. */
bool shell_word(struct shell *s, struct shell_words *words, bool whole);
/* The end of what began with one of `open` before p: behind its `close`. NULL: there is none. */
const char *shell_closed(const char *p, const char *end, char open, char close);
/* What stands between (( and )), at the first of which p is; behind them it is then. *whole: all of it was understood.
 */
bool shell_arithmetic(struct shell *s, int64_t *value, bool *whole);
/* Likewise of the text alone, whose names have been replaced by their values. */
bool shell_sum(int64_t *value, const char *text);
/* (( ... )), before which ! may stand: holds where it is not zero; one that assigns does. What is not understood is
 * false, which is noted. *found: it is one. */
bool shell_arithmetic_command(struct shell *s, bool runs, bool *found);
/* What stands behind for and select: NAME in words, of which the body gets the first, NAME alone, which takes the
 * arguments, or a sum. *never: it is known that there are no words. */
bool shell_loop(struct shell *s, bool runs, bool *never);
/* What the command would say: a test what it finds, all others success. *understood: else it is false. */
bool shell_succeeds(const char *const *words, int count, bool *understood);
/* Words that stand before a command, and leave it what it is: !, time, command and builtin, with their options. */
struct shell_prefix {
    int count;
    bool inverted, no_function; /* ! makes it fail where it succeeds; builtin and command pass functions by */
};
struct shell_prefix shell_prefix(const struct shell_words *words);
/* Whether the condition that begins here counts arguments, $#, before the line ends. */
bool shell_counts_arguments(const struct shell *s);
/* Says of the command that it was not understood, and what stands in its place: "taken as false". */
bool shell_note_command(struct shell *s, const struct shell_words *words, const char *instead);
/* Whether [[ is open, in which signs are words, as a regular expression is; reads one of these. */
bool shell_in_test(const struct shell_words *words);
bool shell_test_sign(struct shell *s, struct shell_words *words);
/* Whether the text, or the one word of it, ends with an option, "--option " or "--option=", whose value comes next. */
bool shell_awaits_value(const char *text, size_t length, bool word);
/* Whether the text ends with the signs of an option alone, whose name comes next. */
bool shell_awaits_name(const char *text, size_t length);
/* Adds the mark of a value that came to nothing: how the script spells it, whether it is known to be empty, which of the
 * script's arguments it is, and in which line stands the command that would print it; 0: none. */
void shell_mark(struct text *out, const char *piece, size_t length, bool known, int argument, int line);
/* Sets what Slurm would of the cluster that is known, and what the words of a line "#SBATCH" say of it; typed: that
 * stand behind sbatch. */
bool shell_place_begin(struct shell *s);
bool shell_place_line(struct shell *s, struct shell_words *words, bool typed);
/* Whether the command prints how many devices a node has. */
bool shell_counts_devices(const char *command, size_t length);
/* What the command between $( and ) prints, if that is a place which is known: pwd, dirname, realpath, or cd before
 * pwd. *out: NULL: it is none. False: out of memory. */
bool shell_printed_path(struct shell *s, const char *command, size_t length, const char **out);
/* $0, BASH_SOURCE, PWD and SLURM_SUBMIT_DIR as a variable, which goes on to point into *s; false: the name is none of
 * them, or it is not known. */
bool shell_path_variable(struct shell *s, const char *name, size_t length, struct shell_variable *out);
/* Keeps where cd, pushd and popd go. */
bool shell_change_folder(struct shell *s, const struct shell_words *words);
/* The path that the operand of the command stands for, from the launch's folder; NULL: it is not known. */
bool shell_operand_path(struct shell *s, const struct shell_words *words, const char **out);
/* Runs all commands of the text. */
bool shell_run(struct shell *s, const char *text, size_t length);
/* Makes one of the words behind eval, which runs them joined by blanks, so that quotes in them are read. */
bool shell_join_evaluated(struct shell *s, struct shell_words *words);
/* Reads a word of several, options among them, as a script. Where it is none it was a message, of which nothing stays,
 * unless a shell is told to run it. What another shell assigns does not change this one's variables. */
bool shell_run_word(struct shell *s, const struct shell_words *words, int index);
/* source FILE and . FILE: reads it in place; where it is not read, that is noted. *found: it is one of them. inverted:
 * it succeeds where the file fails. */
bool shell_source(struct shell *s, const struct shell_words *words, bool inverted, bool *found);
/* Runs the text, of which nothing stays where it is no script, unless a shell is told to run it; line: its first.
 * hidden: what its words miss. evaluated: in this shell, whose variables it changes. */
bool shell_run_text(struct shell *s, const char *text, int line, const char *hidden, bool told, bool evaluated);
/* Whether the word names a shell, with its path or without. */
bool shell_is_shell(const char *word);
/* Whether the text begins with one of them. */
bool shell_begins_source(const char *text);
/* Counts one more file that is taken in; *why: it is too much; false: that was said. */
bool shell_count_file(struct shell *s, const char **why);
/* What the command between $( and ) prints, if it is a file's text: of cat FILE and < FILE, of a here document, also
 * through tr, grep -v and xargs. *out: NULL: it is none, or could not be read, which is noted. False: a failure. */
bool shell_printed_text(struct shell *s, const char *command, size_t length, const char **out);
/* Keeps the path of the file that the command writes by > or tee, if that is known. */
bool shell_keep_written(struct shell *s, const struct shell_words *words);
/* Why the file is not to be read, which the script writes before; NULL: it may be. */
const char *shell_why_written(const struct shell *s, const char *path);
/* The text as it stands between double quotes, but that these are plain there. *hidden: what is missing of it, as struct
 * shell_command has it. */
bool shell_expand_text(struct shell *s, const char *text, size_t length, const char **out, const char **hidden);
/* The path that the word stands for, from the launch's folder; NULL: it is not known. */
const char *shell_place_of(struct shell *s, const char *word, const struct shell_operand *operand, const char *folder);
/* read, readarray and mapfile: fills their variables with what they are fed. *found: it is one of them. */
bool shell_reads(struct shell *s, const struct shell_words *words, const char *between, bool *found);
/* Runs a here document that is a script: one that a shell or sbatch is fed, or that is written into a file. */
bool shell_run_here(struct shell *s, const struct shell_words *words);
/* Sets the variable to a list; unknown: as struct shell_variable has it. */
bool shell_set_list(struct shell *s, const char *name, const struct shell_words *values, bool unknown);
/* Whether the pattern of case fits: "*", "?", and characters in brackets, also from one to another, of a class, or all
 * others. */
bool shell_matches(const char *pattern, const char *value);
#endif
