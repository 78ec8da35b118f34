/* Files that a launch names: its settings, and scripts that it takes in. */
#ifndef CLEAVE_CLI_BESIDE_H
#define CLEAVE_CLI_BESIDE_H
#include "cli/inputs.h"
#include "targets/target.h"

/* What was met where files were asked for; NULL: nothing of the kind. In the arena. */
struct beside_seen {
    const char *elsewhere;    /* the first file of settings that does not lie in the launch's folder */
    const char *unread, *why; /* the first script that another takes in, and that is not read */
    bool unread_is_absolute;  /* as the system's are: one that is not goes before it */
};
/* They lie where the launch does, or where it is started from, here; what was typed names them from here. */
struct beside {
    struct launch_beside way;
    struct inputs *in;
    const char *launch; /* its path; NULL: it was typed */
    struct beside_seen *seen;
};
struct beside beside_of(struct inputs *in, const char *launch, struct beside_seen *seen);
/* A launch, or what it names: of the words of a long one several copies would be made. */
bool beside_text(struct inputs *in, const char *path, const char **text, size_t *length, struct error *err);
#endif
