/* Recipes of one text: which of its functions are jobs of their own. */
#include "base/text.h"
#include "targets/megatron.h"
#include "targets/shell.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

struct recipes {
    const char *text, *end;
};

size_t megatron_path_length(const char *p, const char *end)
{
    const char *q = p;
    while (q < end && (isalnum((unsigned char)*q) || *q == '_' || *q == '.'))
        q++;
    return (size_t)(q - p);
}

bool megatron_is_recipe_name(const char *name, size_t length)
{
    static const char *const kinds[] = { "pretrain", "finetune", "_sft", "_peft" };
    char word[128];
    if (length >= sizeof word || *name == '_')
        return false;
    snprintf(word, sizeof word, "%.*s", (int)length, name);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strstr(word, kinds[i]) && strstr(word, "_config"))
            return true;
    return false;
}

/* Whether the text has it with "(" behind it where it does not define it. */
static bool is_called(const struct recipes *r, const char *name, size_t length)
{
    for (const char *p = r->text + 4; p + length < r->end; p++)
        if (memcmp(p, name, length) == 0 && p[length] == '(' && p[-1] != '_' && !isalnum((unsigned char)p[-1]) &&
            memcmp(p - 4, "def ", 4) != 0)
            return true;
    return false;
}

/* Whether the line ends here and the next begins a statement of the text, outside of functions. */
static bool next_statement(const struct recipes *r, const char *p)
{
    return *p == '\n' && p + 1 < r->end && !strchr(" \t\r\n#)", p[1]);
}

/* Behind the parameters of the function whose name stands here; *given: one of them is cfg. */
static const char *body_of(const struct recipes *r, const char *name, bool *given)
{
    const char *p = name + megatron_path_length(name, r->end);
    *given = false;
    for (int depth = 0; p < r->end && !next_statement(r, p); p++) {
        depth += (*p == '(') - (*p == ')');
        if (depth == 0)
            return p;
        size_t length = megatron_path_length(p, r->end);
        *given = *given || (length == 3 && memcmp(p, "cfg", 3) == 0);
        p += length > 0 ? length - 1 : 0;
    }
    return p;
}

/* Whether a function of the text itself, whose name stands here, is a recipe by what it does: it sets members of a cfg
 * that it is not given, or calls a recipe. */
static bool makes_config(const struct recipes *r, const char *name)
{
    bool given;
    const char *p = body_of(r, name, &given);
    if (given)
        return false;
    for (const char *end = r->end; p < end;) {
        size_t length = megatron_path_length(p, end);
        if (next_statement(r, p))
            return false;
        if (length > 4 && memcmp(p, "cfg.", 4) == 0)
            return true;
        const char *last = p + length, *own = last; /* of a module's member the last name */
        while (own > p && own[-1] != '.')
            own--;
        if (last < end && *last == '(' && own < last && megatron_is_recipe_name(own, (size_t)(last - own)))
            return true;
        p += length > 0 ? length : 1;
    }
    return false;
}

bool megatron_check_single(const char *name, const char *text, const char *end, struct error *err)
{
    const struct recipes all = { text, end }, *r = &all;
    enum { SHOWN = 4, LOOKED_AT = 64 };
    struct text names = { 0 };
    int count = 0, seen = 0;
    for (const char *p = r->text; p + 4 < r->end && count < SHOWN && seen < LOOKED_AT; p++) {
        size_t length = memcmp(p, "def ", 4) == 0 ? megatron_path_length(p + 4, r->end) : 0;
        const char *line = p; /* of which nothing but blanks stands before a definition */
        while (length > 0 && line > r->text && strchr(" \t", line[-1]))
            line--;
        bool begins = length > 0 && (line == r->text || line[-1] == '\n');
        bool outside = begins && line == p && p[4] != '_';
        if (!begins || !(megatron_is_recipe_name(p + 4, length) || (outside && makes_config(r, p + 4))))
            continue;
        seen++;
        if (!is_called(r, p + 4, length))
            text_printf(&names, "%s%.*s", count++ > 0 ? ", " : "", (int)length, p + 4);
    }
    bool single = count < 2 || fail(err, "%s: expected one recipe, found several: %s%s: give one of them alone", name,
                                    names.data ? names.data : "", count == SHOWN ? ", ..." : "");
    text_free(&names);
    return single;
}

/* The program in Python that the last command of a script, or of a command line, starts; NULL: none. */
static const char *started(struct arena *arena, const char *name, const char *text, size_t length)
{
    struct shell_script script;
    struct error ignored = { 0 };
    const char *found = NULL;
    if (!shell_read(&script, arena, name, text, length, NULL, NULL, &ignored))
        return NULL;
    for (int i = 0; i < script.count; i++)
        for (int w = 1; w < script.commands[i].count; w++) {
            const char *word = script.commands[i].words[w], *dot = strrchr(word, '.');
            if (!dot || strcmp(dot, ".py") != 0 || shell_is_marked(word))
                continue;
            found = word;
            break; /* further ones are its arguments */
        }
    return found;
}

bool megatron_fail_recipe(const char *name, const char *text, size_t length, struct error *err)
{
    struct arena arena = { 0 };
    const char *dot = strrchr(name, '.');
    const char *program = dot && strcmp(dot, ".py") == 0 ? NULL : started(&arena, name, text, length);
    fail(err,
         "%s: expected a recipe of Megatron-Bridge, with lines such as cfg.model.tensor_model_parallel_size = 4, or a "
         "command that names one, --recipe llama3_8b_pretrain_config; found none%s%.200s",
         name, program ? ": what it starts may have it, cleave estimate --from megatron-bridge " : "",
         program ? program : "");
    arena_free(&arena);
    return false;
}
