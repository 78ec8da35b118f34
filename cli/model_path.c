/* Where a model's description lies that people name as they do elsewhere: by its folder, or by its place on a hub. */
#include "base/text.h"
#include "cli/inputs.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

static bool exists(const char *path, bool folder)
{
    struct stat status;
    return stat(path, &status) == 0 && (folder ? S_ISDIR(status.st_mode) : S_ISREG(status.st_mode));
}

/* What is there and no file, or may not be looked at, is not meant as a name on a hub. */
static bool is_missing(const char *path)
{
    struct stat status;
    return stat(path, &status) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

const char *inputs_model_path(struct inputs *in, const char *name, struct error *err)
{
    struct text path = { 0 };
    const char *slash = strchr(name, '/'), *found = name;
    size_t length = strlen(name);
    bool hub = slash && slash > name && slash[1] && !strchr(slash + 1, '/') && name[0] != '.' &&
               !(length > 5 && strcmp(name + length - 5, ".json") == 0);
    if (exists(name, true)) {
        text_printf(&path, "%s%sconfig.json", name, name[length - 1] == '/' ? "" : "/");
        if (path.failed || exists(path.data, false))
            found = path.failed ? NULL : arena_strdup(&in->arena, path.data);
        text_free(&path);
        if (!found)
            fail_memory(err);
        return found;
    }
    if (hub && is_missing(name)) {
        fail(err,
             "%s: expected a file, found none; of a model on the Hugging Face hub its config.json is wanted: "
             "`hf download %s config.json --local-dir %s`, then give %s",
             name, name, slash + 1, slash + 1);
        return NULL;
    }
    return name;
}
