#include "planner/space/config_name.h"
#include <stdio.h>

static int write_bytes(char *out, int room, int64_t bytes)
{
    int64_t mib = bytes >> 20, kib = bytes >> 10;
    if (mib > 0 && mib << 20 == bytes)
        return snprintf(out, (size_t)room, "%lldMiB", (long long)mib);
    if (kib > 0 && kib << 10 == bytes)
        return snprintf(out, (size_t)room, "%lldKiB", (long long)kib);
    return snprintf(out, (size_t)room, "%lld", (long long)bytes);
}

/* Writes the choice and its value, but nothing where the value goes without saying. */
static int add_choice(char *out, int room, enum space_choice choice, int64_t value)
{
    const struct choice_facts *facts = &choice_facts[choice];
    int64_t unsaid = choice_unsaid(choice);
    char text[CHOICE_VALUE_BYTES];
    const char *word = choice_value_name(text, choice, value);
    if (value == unsaid || (facts->kind == KIND_NUMBER && value < unsaid))
        return 0;
    int length = snprintf(out, (size_t)room, " %s=", facts->name);
    if (facts->kind == KIND_BYTES)
        return length + write_bytes(out + length, room - length, value);
    return length + (word ? snprintf(out + length, (size_t)(room - length), "%s", word)
                          : snprintf(out + length, (size_t)(room - length), "%lld", (long long)value));
}

const char *config_name(char out[CONFIG_NAME_BYTES], const struct config *config)
{
    int length = config->stages > 0 ? snprintf(out, CONFIG_NAME_BYTES, "pp=%d", config->stages)
                                    : snprintf(out, CONFIG_NAME_BYTES, "pp=any");
    if (config->meshes > 0)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " meshes=%d", config->meshes);
    for (int a = 0; a < config->mesh.atom_count; a++)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " %s=%d",
                           dimensions[config->mesh.dim[a]]->name, config->mesh.size[a]);
    length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " micro-batch=%d schedule=%s prefetch=%d",
                       config->micro, schedules[config->schedule]->name, config->prefetch);
    for (int i = 0; i < LISTED_CHOICES; i++) {
        enum space_choice choice = (enum space_choice)i;
        bool said = choice_facts[i].scope != SCOPE_PLAN || choice == CHOICE_PP || choice == CHOICE_MICRO ||
                    choice == CHOICE_SCHEDULE || choice == CHOICE_PREFETCH;
        if (!said)
            length += add_choice(out + length, CONFIG_NAME_BYTES - length, choice, config_value(config, choice));
    }
    if (config->order.index == REVERSED_ORDER)
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), " reversed");
    for (int i = 0; i < config->order.group_count; i++) /* nothing for the cluster's own */
        length += snprintf(out + length, (size_t)(CONFIG_NAME_BYTES - length), "%s%d",
                           i > 0 ? "." : " groups=", config->order.group[i]);
    return out;
}
