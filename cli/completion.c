/* What shells offer while somebody types: verbs, options, and the values of those that have names. All of it comes from
 * the option tables; a shell asks nothing of the program while it completes. */
#include "cli/inputs.h"
#include "planner/space/choice.h"
#include "targets/target.h"
#include <string.h>

/* Words after which any file may stand, and those after which a value stands that nobody can guess, such as a number.
 */
enum offer { OFFER_NOTHING, OFFER_FILES, OFFER_WORDS };
enum { MOST_NAMES = 256 };

static void add_word(struct text *words, const char *word)
{
    text_printf(words, "%s%s", words->length ? " " : "", word);
}

static void add_names(struct text *words, struct inputs *in, const char *folder)
{
    const char *names[MOST_NAMES];
    size_t count = inputs_names(in, folder, names, MOST_NAMES);
    for (size_t i = 0; i < count; i++)
        add_word(words, names[i]);
}

/* The values of a choice that have names, or are few. */
static void add_choice(struct text *words, enum space_choice choice)
{
    enum { FEW = 8 };
    const struct choice_facts *facts = &choice_facts[choice];
    char name[CHOICE_VALUE_BYTES];
    bool few = facts->kind == KIND_NUMBER && facts->most - facts->least < FEW;
    for (int64_t value = facts->least; (facts->kind == KIND_NAME || few) && value <= facts->most; value++)
        if (few)
            text_printf(words, "%s%lld", words->length ? " " : "", (long long)value);
        else
            add_word(words, choice_value_name(name, choice, value));
    if (facts->kind == KIND_TRUTH)
        text_add(words, "true false");
}

static bool begins(const char *text, const char *with)
{
    return text && !strncmp(text, with, strlen(with));
}

/* What may stand behind an option, or, of a usage in place of a value's name, behind a verb. */
static enum offer offer_of(struct text *words, struct inputs *in, const char *option, const char *value)
{
    enum space_choice choice = choice_named(option);
    if (begins(value, "FILE") || begins(value, "DIR") || begins(value, "PLAN") || begins(value, "MEASUREMENTS"))
        return OFFER_FILES;
    if (begins(value, "MODEL"))
        add_names(words, in, INPUTS_MODELS);
    else if (!strcmp(option, "framework"))
        add_names(words, in, INPUTS_FRAMEWORKS);
    else if (begins(value, "TARGET"))
        for (int i = 0; targets[i]; i++)
            add_word(words, targets[i]->name);
    else if (!strcmp(option, "dtype"))
        for (int i = 0; i < DTYPE_COUNT; i++)
            add_word(words, dtype_names[i]);
    else if (choice < CHOICE_COUNT)
        add_choice(words, choice);
    return words->length > 0 ? OFFER_WORDS : OFFER_NOTHING;
}

/* A value that may also be a file of one's own. */
static bool may_be_file(const char *option, const char *value)
{
    return begins(value, "MODEL") || !strcmp(option, "framework") || !strcmp(option, "cluster");
}

/* As the shell reads them between apostrophes; what `marks` has gets a backslash besides. */
static void quote(FILE *out, const char *text, const char *marks)
{
    for (const char *p = text; *p; p++)
        if (*p == '\'')
            fputs("'\\''", out);
        else
            fprintf(out, "%s%c", strchr(marks, *p) ? "\\" : "", *p);
}

/* ---- bash ---- */

static void bash_verb(FILE *out, struct inputs *in, const struct verb *verb)
{
    struct text words = { 0 };
    fprintf(out, "    %s)\n        options='", verb->name);
    for (size_t i = 0; i < verb->option_count; i++)
        fprintf(out, "--%s ", verb->options[i].name);
    enum offer operands = verb->max_operands > 0 ? offer_of(&words, in, "", verb->usage) : OFFER_NOTHING;
    fprintf(out, "--help'\n        operands='%s' files=%d\n        case $before in\n", words.data ? words.data : "",
            operands == OFFER_FILES || (verb->max_operands > 0 && may_be_file("", verb->usage)));
    for (size_t i = 0; i < verb->option_count; i++) {
        const struct option *o = &verb->options[i];
        if (o->type == OPTION_FLAG)
            continue;
        text_free(&words);
        words = (struct text){ 0 };
        enum offer offer = offer_of(&words, in, o->name, o->value_name);
        fprintf(out, "        --%s", o->name);
        if (o->letter)
            fprintf(out, "|-%c", o->letter);
        fprintf(out, ")%s operands='%s' files=%d ;;\n",
                o->if_absent ? "" : " options=", offer == OFFER_WORDS ? words.data : "",
                offer == OFFER_FILES || may_be_file(o->name, o->value_name));
    }
    text_free(&words);
    fprintf(out, "        esac ;;\n");
}

static void bash(FILE *out, struct inputs *in)
{
    fprintf(out, "# bash completion for cleave, written by `cleave --completion bash`\n"
                 "_cleave() {\n"
                 "    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}\n"
                 "    local options= operands= files=0\n"
                 "    COMPREPLY=()\n"
                 "    # bash parts --option=value at the sign\n"
                 "    if [ \"$word\" = = ]; then word=\n"
                 "    elif [ \"$before\" = = ]; then before=${COMP_WORDS[COMP_CWORD-2]}; fi\n"
                 "    [ \"$COMP_CWORD\" -gt 1 ] || verb=\n"
                 "    case $verb in\n"
                 "    ''|help) operands='");
    for (int v = 0; verbs[v]; v++)
        fprintf(out, "%s ", verbs[v]->name);
    fprintf(out, "'; [ -n \"$verb\" ] || options='--help --version --completion --man-page' ;;\n");
    for (int v = 0; verbs[v]; v++)
        bash_verb(out, in, verbs[v]);
    fprintf(out, "    esac\n"
                 "    case $word in\n"
                 "    -*) COMPREPLY=($(compgen -W \"$options\" -- \"$word\")) ;;\n"
                 "    *) COMPREPLY=($(compgen -W \"$operands\" -- \"$word\"))\n"
                 "        [ \"$files\" = 0 ] || COMPREPLY+=($(compgen -f -- \"$word\")) ;;\n"
                 "    esac\n"
                 "}\n"
                 "complete -o filenames -F _cleave cleave\n");
}

/* ---- zsh ---- */

static void zsh_action(FILE *out, struct inputs *in, const char *option, const char *value)
{
    struct text words = { 0 };
    enum offer offer = offer_of(&words, in, option, value);
    bool files = offer == OFFER_FILES || may_be_file(option, value);
    if (offer == OFFER_WORDS && files)
        fprintf(out, " _cleave_name_or_file %s", words.data);
    else if (offer == OFFER_WORDS)
        fprintf(out, "(%s)", words.data);
    else
        fputs(files ? "_files" : " ", out);
    text_free(&words);
}

static void zsh_option(FILE *out, struct inputs *in, const struct option *o)
{
    const char *value_end = o->type == OPTION_FLAG ? "" : "=";
    fprintf(out, " \\\n            %s", o->type == OPTION_LIST ? "'*" : "'");
    if (o->letter)
        fprintf(out, "(-%c --%s)'{-%c,--%s%s}'", o->letter, o->name, o->letter, o->name, value_end);
    else
        fprintf(out, "--%s%s", o->name, value_end);
    fputc('[', out);
    quote(out, o->doc, "\\[]:");
    fputc(']', out);
    if (o->type != OPTION_FLAG) {
        fputs(o->if_absent ? "::" : ":", out);
        quote(out, o->value_name, "\\[]:");
        fputc(':', out);
        zsh_action(out, in, o->name, o->value_name);
    }
    fputc('\'', out);
}

static void zsh(FILE *out, struct inputs *in)
{
    fprintf(out, "#compdef cleave\n# zsh completion for cleave, written by `cleave --completion zsh`\n"
                 "_cleave_name_or_file() {\n"
                 "    _alternative \"names:name:($*)\" 'files:file:_files'\n"
                 "}\n"
                 "_cleave() {\n"
                 "    local -a verbs=(");
    for (int v = 0; verbs[v]; v++) {
        fprintf(out, "\n        '%s:", verbs[v]->name);
        quote(out, verbs[v]->summary, "\\:");
        fputc('\'', out);
    }
    fprintf(out, ")\n"
                 "    if (( CURRENT == 2 )); then\n"
                 "        _describe verb verbs\n"
                 "        return\n"
                 "    fi\n"
                 "    shift words\n"
                 "    (( CURRENT-- ))\n"
                 "    case $words[1] in\n"
                 "    help) _describe verb verbs ;;\n");
    for (int v = 0; verbs[v]; v++) {
        const struct verb *verb = verbs[v];
        fprintf(out, "    %s)\n        _arguments -s", verb->name);
        for (size_t i = 0; i < verb->option_count; i++)
            zsh_option(out, in, &verb->options[i]);
        fprintf(out, " \\\n            '--help[options and examples]'");
        if (verb->max_operands > 0) {
            fprintf(out, " \\\n            '*:operand:");
            zsh_action(out, in, "", verb->usage);
            fputc('\'', out);
        }
        fprintf(out, " ;;\n");
    }
    fprintf(out, "    esac\n}\n_cleave \"$@\"\n");
}

/* ---- fish ---- */

static void fish_values(FILE *out, struct inputs *in, const char *option, const char *value)
{
    struct text words = { 0 };
    enum offer offer = offer_of(&words, in, option, value);
    bool files = offer == OFFER_FILES || may_be_file(option, value);
    fputs(files ? " -F" : " -f", out);
    if (offer == OFFER_WORDS)
        fprintf(out, " -a '%s'", words.data);
    text_free(&words);
}

static void fish(FILE *out, struct inputs *in)
{
    fprintf(out, "# fish completion for cleave, written by `cleave --completion fish`\n"
                 "function __cleave_verb\n"
                 "    set -l words (commandline -opc)\n"
                 "    if test (count $argv) -eq 0\n"
                 "        test (count $words) -eq 1\n"
                 "    else\n"
                 "        test (count $words) -ge 2; and test $words[2] = $argv[1]\n"
                 "    end\n"
                 "end\n"
                 "complete -c cleave -f\n");
    for (int v = 0; verbs[v]; v++) {
        const struct verb *verb = verbs[v];
        fprintf(out, "complete -c cleave -n __cleave_verb -a %s -d '", verb->name);
        quote(out, verb->summary, "");
        fprintf(out, "'\n");
        if (verb->max_operands > 0) {
            fprintf(out, "complete -c cleave -n '__cleave_verb %s'", verb->name);
            fish_values(out, in, "", verb->usage);
            fputc('\n', out);
        }
        for (size_t i = 0; i < verb->option_count; i++) {
            const struct option *o = &verb->options[i];
            fprintf(out, "complete -c cleave -n '__cleave_verb %s' -l %s", verb->name, o->name);
            if (o->letter)
                fprintf(out, " -s %c", o->letter);
            if (o->type != OPTION_FLAG) {
                fputs(o->if_absent ? "" : " -r", out);
                fish_values(out, in, o->name, o->value_name);
            }
            fputs(" -d '", out);
            quote(out, o->doc, "");
            fputs("'\n", out);
        }
    }
}

static const struct shell {
    const char *name;
    void (*write)(FILE *out, struct inputs *in);
} shells[] = { { "bash", bash }, { "zsh", zsh }, { "fish", fish } };

bool completion_write(const struct cli *cli, const char *name, struct error *err)
{
    for (size_t i = 0; i < sizeof shells / sizeof *shells; i++)
        if (!strcmp(shells[i].name, name)) {
            struct inputs in = { .cli = cli };
            shells[i].write(cli->out, &in);
            inputs_free(&in);
            return true;
        }
    return fail(err, "cleave --completion: expected bash, zsh or fish, found '%s'", name);
}
