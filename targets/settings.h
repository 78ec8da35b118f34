/* What users wrote for a framework, as a list of settings: "section.option" and a value, wherever it stood. TOML, JSON,
 * YAML, recipes in Python, and command lines, alone or in a script of the shell; of each the part that configurations
 * are written in, and what lies outside is refused with its place.
 *
 * Strings are unquoted; other values are as they were written, arrays on one line and without comments. Keys of command
 * lines have "_" for "-". */
#ifndef CLEAVE_TARGETS_SETTINGS_H
#define CLEAVE_TARGETS_SETTINGS_H
#include "base/arena.h"
#include "base/error.h"
#include "targets/shell.h"
#include <stddef.h>
#include <stdint.h>

/* Each key is looked for among all; no launch that was seen has a tenth of these. */
enum { SETTINGS_MOST = 1 << 12, SETTINGS_DEPTH = 32 };
/* What numbers of a launch are at most: degrees and devices, and all others. */
enum { MOST_DEGREE = 1 << 20, MOST_COUNT = 1 << 30 };
struct setting {
    const char *key, *value;
    const char *file; /* where it stood */
    int line, column; /* of the key, from 1 */
    bool taken;
    bool unusual;   /* settings_keep_unusual() */
    bool empty;     /* what the value is spelled with comes to nothing: a variable, or another command */
    bool unset;     /* and the script does not say that it is empty */
    bool quoted;    /* of TOML: a text, and neither a number nor true or false */
    bool partly;    /* something more stands behind it */
    bool word;      /* of a command line: neither an option nor its value; its key is "" */
    bool elsewhere; /* in a file outside of the launch's folder: neither key nor value is shown */
};
struct launch_beside;
struct settings {
    struct arena *arena;
    const char *name;                   /* in messages */
    const struct shell_place *place;    /* that command lines are for; NULL: unknown */
    const struct launch_beside *beside; /* of scripts among them: gives files that they take in; NULL: none */
    struct setting *list;
    int count, capacity;
    int note_count; /* what a script says that was not understood, in words for a user */
    const char *const *notes;
    const char *hidden; /* what a script's command hides of its options, as struct shell_command has it */
};

/* Each adds to the list, which begins as { .arena = arena, .name = name }; false after a message with the place. */
bool settings_read_toml(struct settings *settings, const char *text, size_t length, struct error *err);
bool settings_read_yaml(struct settings *settings, const char *text, size_t length, struct error *err);
bool settings_read_json(struct settings *settings, const char *text, size_t length, struct error *err);
/* Assignments to attributes, "config.section.option = value", and arguments of calls by their names, as deep as they
 * stand: Config(section=Section(option=value)). A call is a setting too, whose value is the name of what is called.
 * Imports are settings "import", and before those of a function stands one "def", its name, which is taken. */
bool settings_read_python(struct settings *settings, const char *text, size_t length, struct error *err);
/* Options "--section.option value", "--section.option=value", and options without a value, which are "true"; other
 * words. Variables of the shell that were set before, also arrays, are put in; a value that comes to nothing stays as
 * it is spelled. */
bool settings_read_flags(struct settings *settings, const char *text, size_t length, struct error *err);
/* One more; false: out of memory, or there are too many. Copies both. */
bool settings_add(struct settings *settings, const char *key, size_t key_length, const char *value, size_t value_length,
                  int line, int column, struct error *err);

/* Files with settings that a setting of one of the keys names, those in YAML that a program is given as train.py X.yaml
 * or --config X.yaml, and files that these name, are read as well; what names a file goes over what it says. Without
 * `beside`, and of other kinds than .json, .yaml, .toml and .py, it fails, and says where the settings are. */
bool settings_follow(struct settings *settings, const char *const *keys, const struct launch_beside *beside,
                     struct error *err);
/* The same of one setting, which names a file. */
bool settings_read_beside(struct settings *settings, const struct setting *named, const struct launch_beside *beside,
                          struct error *err);

/* Whether the value is one of the words (NULL-terminated), whatever the case. */
bool settings_is_one_of(const char *value, const char *const *words);
/* Whether the text begins as one of the words (NULL-terminated) does. */
bool settings_begins_as(const char *text, const char *const *words);

/* Whether the value is true or false, or another word of the formats for it. */
bool settings_truth(bool *out, const char *value);
/* Whether both are one word, whatever the case, one number, or true or false alike. */
bool settings_same_value(const char *a, const char *b);
/* Whether the value says that nothing is there, in YAML, Python or on a command line: null, [], false and the like. */
bool settings_is_nothing(const char *value);
/* Whether it is true, or another word for it. */
bool settings_is_true(const char *value);

/* Puts those of settings behind those of under, so that they go over them; settings has all of them then. */
bool settings_put_over(struct settings *under, struct settings *settings, struct error *err);

/* The last one with that key, all of which are then taken; NULL: there is none. */
const struct setting *settings_take(struct settings *settings, const char *key);
/* A failure at the setting: "name:line:column: key: " and the message. Returns false. */
bool setting_fail(const struct settings *settings, const struct setting *setting, struct error *err, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
/* Each takes the setting of that key; without one *out stays as it is. *said: whether there is one; may be NULL. */
bool settings_int(struct settings *settings, const char *key, int64_t least, int64_t most, int64_t *out, bool *said,
                  struct error *err);
bool settings_double(struct settings *settings, const char *key, double least, double *out, bool *said,
                     struct error *err);
/* true, false, and what else the formats call so; of command lines also "--section.no_option". Behind one that needs no
 * value a variable that is not set leaves it alone: it is true, and what was assumed is listed as not understood. */
bool settings_bool(struct settings *settings, const char *key, bool *out, bool *said, struct error *err);
/* *out: which of the words it is, (NULL-terminated), whatever the case. */
bool settings_word(struct settings *settings, const char *key, const char *const *words, int *out, bool *said,
                   struct error *err);
/* An option, of the kind for whose value it has a place. */
struct settings_option {
    const char *key;
    int64_t *integer; /* from least to most */
    double *real;     /* from least on */
    bool *flag;
    int *word; /* which of words (NULL-terminated) */
    int64_t least, most;
    const char *const *words;
    const char *const *sections; /* (NULL-terminated) that may have it, "" none, the last goes over others; NULL: key
                                    has its section */
    bool *said;                  /* whether any has it, and any of several options with this place; may be NULL */
};
/* Takes all of them, in their order; without its setting an option's value stays as it is. */
bool settings_read(struct settings *settings, const struct settings_option *options, size_t count, struct error *err);
/* Takes all whose keys begin as one of them (NULL-terminated); their number. */
int settings_take_all(struct settings *settings, const char *const *prefixes);
/* A list of values or keys, as functions here take it. */
#define SETTING_WORDS(...)                                                                                             \
    (const char *const[])                                                                                              \
    {                                                                                                                  \
        __VA_ARGS__, NULL                                                                                              \
    }
/* Of the setting of that key a value other than these, whatever the case or the form of a number, would change what is
 * predicted: settings_take_all() leaves it, so that it is not understood. "<=N" stands for all numbers up to N. values:
 * NULL-terminated. */
void settings_keep_unusual(struct settings *settings, const char *key, const char *const *values);
/* Fails where nobody took any: what was read is no launch. expected: "settings of DeepSpeed, such as bf16.enabled". */
bool settings_say_something(const struct settings *settings, const char *expected, struct error *err);
/* Those that nobody took, as "key = value", in the arena; words are not among them, and of those that stand elsewhere
 * there is the number. False: out of memory. */
bool settings_left(const struct settings *settings, int *count, const char ***out);
#endif
