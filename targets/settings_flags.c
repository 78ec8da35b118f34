/* Command lines, alone or in a script: what the shell's reader makes of them, of whose words those that begin with "--"
 * are options. */
#include "targets/settings_scan.h"
#include "targets/shell.h"
#include <stdio.h>
#include <string.h>

/* Whether the word is an option's value: numbers may be negative. */
static bool is_value(const char *word)
{
    return word[0] != '-' || (word[1] >= '0' && word[1] <= '9') || word[1] == '\0';
}

/* Puts the scan where the word is spelled, behind the one before if it is spelled there, else at its first place; of a
 * word that is spelled nowhere, as values of variables make some, it stays. text: all of it, which ends with a zero. */
static void go_to(struct scan *scan, const char *text, const char *word)
{
    const char *found = strstr(scan->at, word);
    if (!found) {
        found = strstr(text, word);
        scan->at = scan->line_start = found ? text : scan->at;
        scan->line = found ? 1 : scan->line;
    }
    while (found && scan->at < found)
        scan_next(scan);
}

static bool add_option(struct scan *scan, const char *key, size_t length, const char *value)
{
    struct settings *settings = scan->settings;
    bool unset;
    scan->buffer.length = 0;
    bool empty = shell_unmark(&scan->buffer, value, &unset);
    if (scan->buffer.failed)
        return fail_memory(scan->err);
    if (!settings_add(settings, key, length, empty ? scan->buffer.data : value,
                      empty ? scan->buffer.length : strlen(value), scan->line, scan_column(scan), scan->err))
        return false;
    struct setting *one = &settings->list[settings->count - 1];
    one->empty = empty;
    one->unset = unset;
    one->partly = empty && !shell_is_marked(value + strlen(value) - 1);
    return true;
}

static bool add_command(struct scan *scan, const char *text, const struct shell_command *command)
{
    struct settings *settings = scan->settings;
    for (int i = 0; i < command->count; i++) {
        const char *word = command->words[i], *name = word + 2;
        char key[256], spelled[256];
        size_t length = strcspn(word, "=");
        bool option = strncmp(word, "--", 2) == 0 && word[2] != '\0';
        snprintf(spelled, sizeof spelled, "%.*s", (int)length, word);
        go_to(scan, text, spelled);
        if (!option) {
            if (!settings_add(settings, "", 0, word, strlen(word), scan->line, scan_column(scan), scan->err))
                return false;
            settings->list[settings->count - 1].word = true;
            continue;
        }
        length -= 2;
        if (length >= sizeof key)
            return scan_fail(scan, "expected an option of less than %d bytes, found more", (int)sizeof key);
        for (size_t c = 0; c < length; c++)
            key[c] = name[c] == '-' ? '_' : name[c];
        const char *value = name[length] ? name + length + 1 : "true";
        if (!name[length] && i + 1 < command->count && is_value(command->words[i + 1]))
            value = command->words[++i];
        if (!add_option(scan, key, length, value))
            return false;
    }
    return true;
}

/* LLaMA-Factory starts torchrun by itself, with what these variables say (launcher.py). */
static bool add_started(struct scan *scan, const struct shell_script *script, const struct shell_command *command)
{
    static const char *const variables[][2] = { { "NNODES", "nnodes" }, { "NPROC_PER_NODE", "nproc_per_node" } };
    if (strcmp(command->words[0], "llamafactory-cli") != 0)
        return true;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++) {
        const char *value = shell_value(script, variables[i][0]);
        if (value && *value && !add_option(scan, variables[i][1], strlen(variables[i][1]), value))
            return false;
    }
    return true;
}

static bool has_options(const struct shell_command *command)
{
    for (int i = 0; i < command->count; i++)
        if (strncmp(command->words[i], "--", 2) == 0)
            return true;
    return false;
}

bool settings_read_flags(struct settings *settings, const char *text, size_t length, struct error *err)
{
    struct scan scan;
    struct shell_script script;
    bool good =
        scan_begin(&scan, settings, text, length, err) &&
        shell_read(&script, settings->arena, settings->name, text, length, settings->place, settings->beside, err);
    const char *copy = good ? arena_strndup(settings->arena, text, length) : NULL;
    good = good && (copy || fail_memory(err));
    scan.at = scan.line_start = copy;
    scan.end = good ? copy + length : NULL;
    for (int c = 0; good && c < script.count; c++)
        if (strcmp(script.commands[c].words[0], SHELL_BATCH) != 0) {
            bool first = !settings->hidden && has_options(&script.commands[c]);
            settings->hidden = first ? script.commands[c].hidden : settings->hidden;
            good = add_started(&scan, &script, &script.commands[c]) && add_command(&scan, copy, &script.commands[c]);
        }
    if (good) {
        settings->notes = script.notes;
        settings->note_count = script.note_count;
    }
    text_free(&scan.buffer);
    return good;
}
