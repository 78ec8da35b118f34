#include "targets/target.h"
#include "planner/space/space.h"
#include <string.h>
#include <strings.h>

#define TARGET(symbol) extern const struct target target_##symbol;
#define SOURCE(symbol) TARGET(symbol)
#include "targets/targets.def"
#undef TARGET
#undef SOURCE

const struct target *const targets[] = {
#define TARGET(symbol) &target_##symbol,
#define SOURCE(symbol)
#include "targets/targets.def"
#undef TARGET
#undef SOURCE
    NULL
};
const struct target *const launch_sources[] = {
#define TARGET(symbol)
#define SOURCE(symbol) &target_##symbol,
#include "targets/targets.def"
#undef TARGET
#undef SOURCE
    NULL
};

void launch_read_begin(struct launch_read *read)
{
    *read = (struct launch_read){ .cluster_devices = read->cluster_devices,
                                  .device_name = read->device_name,
                                  .vocabulary = read->vocabulary,
                                  .place = read->place,
                                  .beside = read->beside,
                                  .launch = launch_plain };
}

bool launch_read_add_unknown(struct launch_read *read, struct arena *arena, const char *words, size_t length,
                             struct error *err)
{
    for (int i = 0; i < read->unknown_count; i++)
        if (strncmp(read->unknown[i], words, length) == 0 && !read->unknown[i][length])
            return true;
    const char **more = arena_alloc(arena, (size_t)read->unknown_count + 1, sizeof *more);
    if (!more || !(more[read->unknown_count] = arena_strndup(arena, words, length)))
        return fail_memory(err);
    for (int i = 0; i < read->unknown_count; i++)
        more[i] = read->unknown[i];
    read->unknown = more;
    read->unknown_count++;
    return true;
}

static const struct target *find(const struct target *const *list, const char *name)
{
    for (int i = 0; list[i]; i++)
        if (strcasecmp(list[i]->name, name) == 0 || strcasecmp(list[i]->short_name, name) == 0)
            return list[i];
    return NULL;
}

const struct target *target_find(const char *name)
{
    return find(targets, name);
}

const struct target *launch_source_find(const char *name)
{
    const struct target *target = find(targets, name);
    return target ? target : find(launch_sources, name);
}

const struct target *target_of_framework(const char *framework)
{
    for (int i = 0; targets[i]; i++)
        if (strcmp(targets[i]->framework, framework) == 0)
            return targets[i];
    return NULL;
}

bool target_asks(const struct target_rule *rule, const char *const *beyond)
{
    for (int i = 0; beyond && beyond[i]; i++)
        if (strcmp(beyond[i], rule->name) == 0)
            return false;
    return true;
}

const struct target_rule *target_broken_rule(const struct target *target, const struct launch *launch,
                                             const struct launch_context *context)
{
    for (const struct target_rule *rule = target->rules; rule->name; rule++)
        if (target_asks(rule, context->beyond) && !rule->holds(launch, context))
            return rule;
    return NULL;
}

/* What rules of other choices say of it depends on degrees, which a launch says later. */
bool target_treats(const struct target *target, const struct space *space, const struct launch_context *context)
{
    static const char about[] = "recompute";
    struct launch launch = launch_plain;
    launch.zero = space->zero.values[0];
    launch.recompute = space->recompute.values[0];
    launch.excepted = (uint64_t)space->excepted.values[0];
    for (const struct target_rule *rule = target->rules; rule->name; rule++)
        if (strncmp(rule->name, about, strlen(about)) == 0 && !rule->holds(&launch, context))
            return false;
    return true;
}

struct text *launch_files_add(struct launch_files *files, const char *name, bool executable)
{
    if (files->count == LAUNCH_FILES)
        return NULL;
    struct launch_file *file = &files->list[files->count++];
    *file = (struct launch_file){ .name = name, .executable = executable };
    return &file->text;
}

bool launch_files_fill(struct launch_files *files, const struct launch_part *parts, size_t count,
                       const struct launch *launch, const struct launch_context *context)
{
    for (size_t i = 0; i < count; i++) {
        struct text *text = launch_files_add(files, parts[i].name, parts[i].executable);
        if (text)
            parts[i].add(text, launch, context);
        if (!text || text->failed)
            return false;
    }
    return true;
}

void launch_files_free(struct launch_files *files)
{
    for (int i = 0; i < files->count; i++)
        text_free(&files->list[i].text);
    files->count = 0;
}

struct allowed target_offloads(const struct space *space, struct allowed known)
{
    return space_is_default(space, CHOICE_OFFLOAD) ? allowed_only(OFFLOAD_NONE) : known;
}
