/* Shell scripts as people keep their launches in: read, never run. Variables, arrays, defaults and sums are worked out,
 * conditions on strings and numbers decided, functions run where they are called; what a script would ask of the
 * machine (files, other commands' output) is taken as empty, and files as there; those that it takes in by source are
 * read in place where they can be had, and so are those of which words are made: $(cat FILE), readarray. */
#ifndef CLEAVE_TARGETS_SHELL_H
#define CLEAVE_TARGETS_SHELL_H
#include "base/arena.h"
#include "base/error.h"
#include "base/text.h"
#include <stdint.h>

/* How lines for Slurm begin; as a command, in quotes, it has options that sbatch was given. */
#define SHELL_BATCH "#SBATCH"
struct shell_command {
    int count;
    const char **words;
    const char *hidden; /* what a command prints that is not known would be words of it: "$(python3 gen.py) (run.sh:2)";
                           NULL: nothing is missing so */
};
struct launch_beside;
/* From where a path is meant: where the script is just now, since cd, or the launch's folder, as those of pwd, dirname
 * and $0 are. */
enum shell_from { SHELL_FROM_HERE, SHELL_FROM_LAUNCH, SHELL_FROM_EITHER };
/* The cluster that a script runs on; 0: unknown. */
struct shell_place {
    int64_t nodes, node_devices;
};
struct shell_variable {
    const char *name;
    int argument; /* of the script, from 1, from which it comes, where that is what it is empty of; 0: of none */
    bool is_array;
    bool keyed;        /* elements of it are variables of their own (shell_arrays.c) */
    const char *apart; /* of such a list: since when its elements, taken together, are not known; NULL: they are */
    size_t length;     /* of the name */
    bool unknown; /* where it is empty: another command, or whoever starts the script, fills it */
    const char *printed; /* what a command prints that is not known is missing here; NULL: nothing is */
    const char
        *several; /* of a loop: what a user is told who reads its first value; NULL: it has no other, or he was */
    enum shell_from from; /* if it is a path; a list's: if all are */
    int count, capacity;
    const char **values;
};
/* All in the arena that it was read into. */
struct shell_script {
    int count, capacity;
    struct shell_command *commands; /* in order; "#SBATCH" lines too; words that hold a command line are read as such */
    int variable_count, variable_capacity;
    struct shell_variable *variables;
    int note_count, note_capacity;
    const char **notes; /* what was not understood, each in words for a user, once */
};

/* place: what it asks of Slurm and of a node comes from there; NULL: unknown, so that it comes from #SBATCH lines.
 * beside: gives files that it takes in by source; NULL: none. Those that are not read are among the notes.
 *
 * Lines that begin with an option continue the command before that does so too: a list of arguments, one a line. Fails
 * for what is not closed, and for what grows without bound. */
bool shell_read(struct shell_script *out, struct arena *arena, const char *name, const char *text, size_t length,
                const struct shell_place *place, const struct launch_beside *beside, struct error *err);
/* The variable's value at the end; NULL: it has none. */
const char *shell_value(const struct shell_script *script, const char *variable);
/* Whether an option's value begins as one that the script does not say: a variable that is not set, or what another
 * command prints. */
bool shell_is_marked(const char *word);
/* The line of the command that would print it; 0: of none. */
int shell_mark_line(const char *word);
/* Where in the word such a value begins; its end: nowhere. */
const char *shell_mark_in(const char *word);
/* Adds the word as the script spells it; true: it has such a value. *unset: which is not merely empty. */
bool shell_unmark(struct text *out, const char *word, bool *unset);
#endif
