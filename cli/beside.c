#include "cli/beside.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_BYTES = 8 << 20 }; /* of a launch: nobody wrote one of a hundredth of these */

bool beside_text(struct inputs *in, const char *path, const char **text, size_t *length, struct error *err)
{
    return inputs_text(in, path, text, length, err) &&
           (*length <= MOST_BYTES ||
            fail(err, "%s: expected a launch or settings of at most %d bytes, found %zu", path, MOST_BYTES, *length));
}

/* Where two files lie: below the folder that the command runs in, as in the project's that has the launch, or not. What
 * is hidden there is told apart, since a stranger's launch must not show what is private, and so are .env files, which
 * are made for scripts. */
enum both { BOTH_HERE, BOTH_HERE_AS_ENV, BOTH_HERE_HIDDEN, NOT_BOTH_HERE };

static enum both where_are(const char *one, const char *other)
{
    char *here = realpath(".", NULL), *first = realpath(one, NULL), *second = realpath(other, NULL);
    size_t length = here ? strlen(here) : 0;
    bool good = here && first && second && strncmp(first, here, length) == 0 && strncmp(second, here, length) == 0 &&
                first[length] == '/' && second[length] == '/';
    const char *dot = good ? strstr(first + length, "/.") : NULL;
    enum both both = !good                                                           ? NOT_BOTH_HERE
                     : !dot                                                          ? BOTH_HERE
                     : strncmp(dot, "/.env", 5) == 0 && strchr(dot + 1, '/') == NULL ? BOTH_HERE_AS_ENV
                                                                                     : BOTH_HERE_HIDDEN;
    free(here);
    free(first);
    free(second);
    return both;
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
                 !(path == name && where_are(name, beside->launch) == BOTH_HERE);
    if (*elsewhere && !beside->seen->elsewhere) /* the next may be named by what stands there */
        beside->seen->elsewhere = path;
    return path ? beside_text(beside->in, path, text, length, err) : fail_memory(err);
}

/* Keeps the first that is not read. */
static void unread_beside(const struct launch_beside *way, const char *name, const char *why)
{
    const struct beside *beside = (const struct beside *)way;
    struct beside_seen *seen = beside->seen;
    if (seen->unread && (!seen->unread_is_absolute || name[0] == '/'))
        return;
    struct arena *arena = &beside->in->arena;
    const char *path = strpbrk(name, "$`\"'~") ? name : find(beside, arena, name); /* as the script spells it, or not */
    seen->unread = path ? arena_strdup(arena, path) : NULL;
    seen->why = arena_strdup(arena, why);
    seen->unread_is_absolute = name[0] == '/';
    if (!seen->unread || !seen->why)
        seen->unread = NULL;
}

/* Why the script is not read which another takes in; NULL: it is. */
static const char *reason_beside(const struct beside *beside, const char *name, const char *found)
{
    struct stat facts;
    if (stat(found, &facts) != 0)
        return "no such file is there";
    if (!S_ISREG(facts.st_mode))
        return "it is no plain file";
    enum both both =
        beside->launch && inputs_are_elsewhere(found, beside->launch) ? where_are(found, beside->launch) : BOTH_HERE;
    if (both == BOTH_HERE_HIDDEN)
        return "it is hidden, and outside of the script's folder, where only .env files are read";
    if (both == NOT_BOTH_HERE)
        return name[0] == '/' ? "it is outside of the script's folder and of this one"
                              : "it is outside of the script's folder: start this in one that holds both";
    return facts.st_size > MOST_BYTES ? "it is larger than 8 MiB" : NULL;
}

/* Scripts that a script in the launch's folder takes in are named from there; others, which those that they take in
 * themselves lie beside, by where they are. */
static bool source_beside(const struct launch_beside *way, struct arena *arena, const char *name, const char **path,
                          const char **text, size_t *length, const char **why, struct error *err)
{
    const struct beside *beside = (const struct beside *)way;
    struct error unread = { 0 };
    const char *found = find(beside, arena, name);
    if (!found)
        return fail_memory(err);
    *path = name;
    *why = reason_beside(beside, name, found);
    if (!*why && !beside_text(beside->in, found, text, length, &unread))
        *why = "it cannot be read";
    if (unread.kind == ERROR_ENVIRONMENT && memory_has_fallen_short())
        return fail_memory(err);
    if (*why || found != name || !beside->launch || !strchr(beside->launch, '/'))
        return true;
    char *whole = realpath(found, NULL);
    *path = whole ? arena_strdup(arena, whole) : NULL;
    free(whole);
    return *path || fail_memory(err);
}

struct beside beside_of(struct inputs *in, const char *launch, struct beside_seen *seen)
{
    return (struct beside){ { read_beside, source_beside, unread_beside }, in, launch, seen };
}
