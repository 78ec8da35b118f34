#include "cli/beside.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

bool beside_text(struct inputs *in, const char *path, const char **text, size_t *length, struct error *err)
{
    enum { MOST_BYTES = 8 << 20 }; /* nobody wrote one of a hundredth of these */
    return inputs_text(in, path, text, length, err) &&
           (*length <= MOST_BYTES ||
            fail(err, "%s: expected a launch or settings of at most %d bytes, found %zu", path, MOST_BYTES, *length));
}

/* Whether both lie below the folder that the command runs in, as in the project's that has the launch; nothing hidden
 * does, since a stranger's launch must not show what is private there. */
static bool are_both_here(const char *one, const char *other)
{
    char *here = realpath(".", NULL), *first = realpath(one, NULL), *second = realpath(other, NULL);
    size_t length = here ? strlen(here) : 0;
    bool good = here && first && second && strncmp(first, here, length) == 0 && strncmp(second, here, length) == 0 &&
                first[length] == '/' && second[length] == '/' && !strstr(first + length, "/.");
    free(here);
    free(first);
    free(second);
    return good;
}

/* The file's path from here, in the arena: beside the launch, or else as whoever starts it from here finds it, which is
 * the name itself then. NULL: out of memory. */
static const char *find(const struct beside *beside, struct arena *arena, const char *name)
{
    struct text path = { 0 };
    const char *slash = beside->launch && name[0] != '/' ? strrchr(beside->launch, '/') : NULL;
    if (slash)
        text_printf(&path, "%.*s", (int)(slash + 1 - beside->launch), beside->launch);
    text_printf(&path, "%s", name);
    const char *kept = path.failed ? NULL : arena_strndup(arena, path.data, path.length);
    text_free(&path);
    return kept && slash && access(kept, F_OK) != 0 && access(name, R_OK) == 0 ? name : kept;
}

static bool read_beside(const struct launch_beside *way, struct arena *arena, const char *name, const char **text,
                        size_t *length, bool *elsewhere, struct error *err)
{
    const struct beside *beside = (const struct beside *)way;
    const char *path = find(beside, arena, name);
    *elsewhere = path && beside->launch && inputs_are_elsewhere(path, beside->launch) &&
                 !(path == name && are_both_here(name, beside->launch));
    if (*elsewhere && !beside->seen->elsewhere) /* the next may be named by what stands there */
        beside->seen->elsewhere = path;
    return path ? beside_text(beside->in, path, text, length, err) : fail_memory(err);
}

/* Scripts that a script in the launch's folder takes in are named from there; others, which those that they take in
 * themselves lie beside, by where they are. */
static bool source_beside(const struct launch_beside *way, struct arena *arena, const char *name, const char **path,
                          const char **text, size_t *length, const char **why, struct error *err)
{
    const struct beside *beside = (const struct beside *)way;
    struct error unread = { 0 };
    struct stat facts;
    const char *found = find(beside, arena, name);
    if (!found)
        return fail_memory(err);
    *path = name;
    *why = NULL;
    if (stat(found, &facts) != 0)
        *why = "no such file is there";
    else if (!S_ISREG(facts.st_mode))
        *why = "it is no plain file";
    else if (beside->launch && inputs_are_elsewhere(found, beside->launch) && !are_both_here(found, beside->launch))
        *why = name[0] == '/' ? "it is outside of the script's folder and of this one"
                              : "it is outside of the script's folder: start this in one that holds both";
    else if (!beside_text(beside->in, found, text, length, &unread))
        *why = "it cannot be read";
    if (unread.kind == ERROR_ENVIRONMENT && memory_has_fallen_short())
        return fail_memory(err);
    if (*why && !beside->seen->unread && name[0] != '/') { /* others are the system's */
        beside->seen->unread = found;
        beside->seen->why = *why;
    }
    if (*why || found != name || !beside->launch || !strchr(beside->launch, '/'))
        return true;
    char *whole = realpath(found, NULL);
    *path = whole ? arena_strdup(arena, whole) : NULL;
    free(whole);
    return *path || fail_memory(err);
}

struct beside beside_of(struct inputs *in, const char *launch, struct beside_seen *seen)
{
    return (struct beside){ { read_beside, source_beside }, in, launch, seen };
}
