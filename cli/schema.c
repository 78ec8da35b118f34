/* The formats, from the field tables that read them. */
#include "cli/accuracy.h"
#include "cli/explanation.h"
#include "cli/inputs.h"
#include "cli/measured_run.h"
#include "cli/outputs.h"
#include "models/layer_kind.h"
#include "models/model.h"
#include "formats/claim_read.h"
#include "planner/facts/profile.h"
#include "formats/plan_file.h"
#include "formats/plan_json.h"
#include <stdlib.h>
#include <string.h>

struct schema_options {
    bool json, markdown;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct schema_options, json), "a JSON object"),
    FLAG_OPTION("markdown", offsetof(struct schema_options, markdown), "Markdown tables: docs/formats.md"),
};

/* All formats, in the order in which they are printed; kinds of layers stand behind the first. */
static const struct json_format *const lists[] = {
    model_formats,       cluster_formats,  matmul_surface_formats, framework_formats, profile_formats,
    calibration_formats, like_run_formats, accuracy_formats,       plan_formats,      plan_decision_formats,
    claim_formats,       measured_formats, report_formats, output_formats,
};
enum { MAX_TABLES = 128 };

static void add(struct json_format *tables, int *count, const struct json_format *table)
{
    if (*count < MAX_TABLES)
        tables[(*count)++] = *table;
}

static int collect(struct json_format tables[MAX_TABLES])
{
    int count = 0;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        for (const struct json_format *table = lists[i]; table->name; table++)
            add(tables, &count, table);
        for (const struct layer_kind *const *kind = layer_kinds; i == 0 && *kind; kind++)
            add(tables, &count,
                &(struct json_format){ (*kind)->name, (*kind)->doc, (*kind)->fields, (*kind)->field_count });
    }
    return count;
}

static const char *const type_names[] = { "integer", "number",          "true or false", "text",
                                          "one of",  "object or array", "list of" };
static const char *const json_types[] = { "integer", "number", "boolean", "string", "string", NULL, "array" };

static bool has_words(const struct json_field *field)
{
    return field->type == FIELD_ENUM || field->type == FIELD_WORDS;
}

static void print_table(const struct cli *cli, const struct json_format *t, bool markdown)
{
    fprintf(cli->out,
            markdown ? "\n## `%s`\n\n%s\n\n| field | type | required | meaning |\n|---|---|---|---|\n" : "\n%s: %s\n",
            t->name, t->doc);
    for (size_t i = 0; i < t->count; i++) {
        const struct json_field *f = &t->fields[i];
        char type[256];
        snprintf(type, sizeof type, "%s", type_names[f->type]);
        for (int w = 0; has_words(f) && f->names[w]; w++)
            snprintf(type + strlen(type), sizeof type - strlen(type), "%s %s", w ? "," : "", f->names[w]);
        if (markdown)
            fprintf(cli->out, "| `%s` | %s | %s | %s |\n", f->key, type, f->required ? "yes" : "",
                    f->doc ? f->doc : "");
        else
            fprintf(cli->out, "  %-28s %-16s %s%s\n", f->key, type, f->required ? "required; " : "",
                    f->doc ? f->doc : "");
    }
}

static void write_words(struct json_writer *w, const struct json_field *f)
{
    json_write_key(w, "enum");
    json_begin_array(w);
    for (int i = 0; f->names[i]; i++)
        json_write_string(w, f->names[i]);
    json_end_array(w);
}

static void write_field(struct json_writer *w, const struct json_field *f)
{
    json_write_key(w, f->key);
    json_begin_object(w);
    if (json_types[f->type]) {
        json_put_string(w, "type", json_types[f->type]);
    }
    if (f->type == FIELD_WORDS) {
        json_write_key(w, "items");
        json_begin_object(w);
        write_words(w, f);
        json_end_object(w);
    } else if (f->type == FIELD_ENUM) {
        write_words(w, f);
    }
    if (f->type == FIELD_INT || f->type == FIELD_DOUBLE) {
        json_put_double(w, "minimum", f->min);
        if (f->max != 0) {
            json_put_double(w, "maximum", f->max);
        }
    }
    json_put_string(w, "description", f->doc ? f->doc : "");
    json_end_object(w);
}

/* A JSON Schema (draft 2020-12) of one table. */
static void write_table(struct json_writer *w, const struct json_format *t)
{
    json_begin_object(w);
    json_put_string(w, "title", t->name);
    json_put_string(w, "description", t->doc);
    json_put_string(w, "type", "object");
    json_write_key(w, "properties");
    json_begin_object(w);
    for (size_t i = 0; i < t->count; i++)
        write_field(w, &t->fields[i]);
    json_end_object(w);
    json_write_key(w, "required");
    json_begin_array(w);
    for (size_t i = 0; i < t->count; i++)
        if (t->fields[i].required)
            json_write_string(w, t->fields[i].key);
    json_end_array(w);
    json_end_object(w);
}

static bool write_all(const struct cli *cli, const struct json_format *tables, int count, struct error *err)
{
    struct json_writer w = { 0 };
    json_begin_format(&w, "cleave-schema", 1);
    json_write_key(&w, "schemas");
    json_begin_array(&w);
    for (int i = 0; i < count; i++)
        write_table(&w, &tables[i]);
    json_end_array(&w);
    json_end_object(&w);
    return inputs_hand_out_json(cli, NULL, &w, err);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct schema_options *o = given;
    struct json_format tables[MAX_TABLES], chosen[MAX_TABLES];
    int count = collect(tables), chosen_count = 0;
    if (o->json && o->markdown) {
        fail(err, "cleave schema: expected --json or --markdown, found both");
        return ERROR_INPUT;
    }
    for (int i = 0; i < count; i++)
        if (operand_count == 0 || !strcmp(operands[0], tables[i].name))
            chosen[chosen_count++] = tables[i];
    if (chosen_count == 0) {
        const char *names[MAX_TABLES];
        for (int i = 0; i < count; i++)
            names[i] = tables[i].name;
        const char *near = text_nearest(operands[0], names, (size_t)count);
        fail(err, "cleave schema: no format named '%s'%s%s%s", operands[0],
             near ? "; did you mean " : "; cleave schema lists them", near ? near : "", near ? "?" : "");
        return ERROR_INPUT;
    }
    if (o->json) {
        write_all(cli, chosen, chosen_count, err);
        return ERROR_NONE;
    }
    if (o->markdown)
        fprintf(cli->out, "# Formats\n\nWritten by `cleave schema --markdown` from the field tables that read the "
                          "files. Unknown fields are errors, "
                          "except `comment` and those that begin with `x-`.\n");
    for (int i = 0; i < chosen_count; i++)
        print_table(cli, &chosen[i], o->markdown);
    return ERROR_NONE;
}

const struct verb verb_schema = {
    .name = "schema",
    .summary = "describes the file formats",
    .usage = "[NAME] [--json | --markdown]",
    .examples = "  cleave schema            all formats\n  cleave schema attention  the fields of one layer kind\n",
    .max_operands = 1,
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct schema_options),
    .run = run,
};
