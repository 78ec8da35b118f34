/* Manual pages in the words of man(7): one of the program, and one of each verb. */
#include "base/text.h"
#include "cli/verb.h"
#include <string.h>

/* Text as it stands: no hyphenation, no commands at the beginning of a line, no typographic marks for what is typed. */
static void add(FILE *out, const char *text)
{
    static const struct {
        char mark;
        const char *name;
    } marks[] = {
        { '\\', "\\e" }, { '-', "\\-" }, { '\'', "\\(aq" }, { '`', "\\(ga" }, { '^', "\\(ha" }, { '~', "\\(ti" },
    };
    for (const char *p = text; *p; p++) {
        const char *name = NULL;
        for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
            if (marks[i].mark == *p)
                name = marks[i].name;
        if (*p == '.' && (p == text || p[-1] == '\n'))
            fputs("\\&", out);
        if (name)
            fputs(name, out);
        else
            fputc(*p, out);
    }
}

/* .TH without a date: pages of one version are the same whenever they are made. */
static void begin(FILE *out, const char *title, const char *name, const char *summary)
{
    fprintf(out, ".TH %s 1 \"\" \"cleave %s\" \"cleave\"\n.SH NAME\n", title, CLEAVE_VERSION);
    add(out, name);
    fprintf(out, " \\- ");
    add(out, summary);
    fprintf(out, "\n.SH SYNOPSIS\n");
}

static void add_option(FILE *out, const struct option *o)
{
    struct text doc = { 0 };
    text_add(&doc, o->doc);
    if (o->end_doc)
        o->end_doc(&doc);
    fprintf(out, ".TP\n");
    if (o->letter)
        fprintf(out, "\\fB\\-%c\\fR, ", o->letter);
    fputs("\\fB\\-\\-", out);
    add(out, o->name);
    fputs("\\fR", out);
    if (o->value_name) {
        fputs(o->if_absent ? " [\\fI" : " \\fI", out);
        add(out, o->value_name);
        fputs(o->if_absent ? "\\fR]" : "\\fR", out);
    }
    fputc('\n', out);
    add(out, doc.data ? doc.data : o->doc);
    fputc('\n', out);
    text_free(&doc);
}

static void add_exit_status(FILE *out)
{
    fprintf(out, ".SH EXIT STATUS\n"
                 ".TP\n0\ndone\n"
                 ".TP\n1\na failure while it ran, or of its surroundings: a missing device, a rank that died\n"
                 ".TP\n2\nbad input or usage\n"
                 ".TP\n3\nnothing fits, or the configuration does not\n"
                 ".TP\n4\na check did not hold\n"
                 ".TP\n70\na bug of cleave\n");
}

static void write_verb(FILE *out, const struct verb *verb)
{
    char title[64], name[64];
    size_t length = (size_t)snprintf(name, sizeof name, "cleave-%s", verb->name);
    for (size_t i = 0; i <= length; i++)
        title[i] = (char)(name[i] >= 'a' && name[i] <= 'z' ? name[i] - 'a' + 'A' : name[i]);
    begin(out, title, name, verb->summary);
    fputs("\\fBcleave ", out);
    add(out, verb->name);
    fputs("\\fR ", out);
    add(out, verb->usage);
    fprintf(out, "\n.SH OPTIONS\n");
    for (size_t i = 0; i < verb->option_count; i++)
        add_option(out, &verb->options[i]);
    fprintf(out, ".TP\n\\fB\\-\\-help\\fR\nshows usage, examples and options\n");
    add_exit_status(out);
    if (verb->examples) {
        fprintf(out, ".SH EXAMPLES\n.nf\n");
        add(out, verb->examples);
        fprintf(out, ".fi\n");
    }
    fprintf(out, ".SH SEE ALSO\n.BR cleave (1)\n");
}

static void write_program(FILE *out)
{
    begin(out, "CLEAVE", "cleave", "plans how to train a neural network over many devices, and runs that very plan");
    fprintf(out, ".B cleave\n.I VERB\n[options]\n.SH DESCRIPTION\n"
                 "Give it a model (its own JSON or a Hugging Face config.json), a cluster and a batch: it chooses "
                 "data, tensor,\n"
                 "sequence, context, expert and pipeline parallelism, ZeRO stages and recomputation for each layer,\n"
                 "micro\\-batches and the schedule; says what a step costs in time and memory; and runs the plan,\n"
                 "or writes what another framework is launched with.\n"
                 ".SH VERBS\n");
    for (int v = 0; verbs[v]; v++) {
        fprintf(out, ".TP\n.BR cleave\\-%s (1)\n", verbs[v]->name);
        add(out, verbs[v]->summary);
        fputc('\n', out);
    }
    fprintf(out, ".SH OPTIONS\n"
                 ".TP\n\\fB\\-\\-help\\fR\nlists the verbs; behind a verb its options and examples\n"
                 ".TP\n\\fB\\-\\-version\\fR\nthe version, and what was found\n"
                 ".TP\n\\fB\\-\\-completion\\fR \\fIbash\\fR|\\fIzsh\\fR|\\fIfish\\fR\nthe shell's completion of "
                 "verbs, options and values\n"
                 ".TP\n\\fB\\-\\-man\\-page\\fR [\\fIVERB\\fR]\nthis page, or a verb's\n");
    add_exit_status(out);
    fprintf(out, ".SH ENVIRONMENT\n"
                 ".TP\n.B CLEAVE_DATA_DIR\nwhere the zoo of models and the catalogue of devices lie, in place of the "
                 "installed ones\n"
                 ".TP\n.B CLEAVE_MODULE_DIR\nwhere the modules of transports and devices lie, likewise\n"
                 ".SH EXAMPLES\n.nf\n");
    add(out, "cleave plan gpt2 --cluster 1x8:a100-sxm-80 --batch 64\n"
             "cleave plan config.json --cluster 8x8:h100-sxm --batch 512 --target megatron-lm -o plan.json\n"
             "cleave export plan.json --to megatron-lm -o launch\n");
    fprintf(out, ".fi\n");
}

void man_page_write(FILE *out, const struct verb *verb)
{
    if (verb)
        write_verb(out, verb);
    else
        write_program(out);
}
