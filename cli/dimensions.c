#include "cli/inputs.h"
#include "planner/plan/dim.h"
#include <stdlib.h>

struct dimensions_options {
    bool json;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct dimensions_options, json), "one JSON object"),
};

static void write_dimension(struct json_writer *w, const struct dimension *dimension)
{
    json_begin_object(w);
    json_put_string(w, "name", dimension->name);
    json_put_string(w, "doc", dimension->doc);
    json_put_string(w, "lane", lane_names[dimension->lane]);
    json_put_bool(w, "splits_batch", dimension->splits_batch);
    json_put_bool(w, "shards", dimension->shard);
    json_end_object(w);
}

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct dimensions_options *o = given;
    struct json_writer w = { 0 };
    (void)operands, (void)operand_count;
    for (int i = 0; dimensions[i] && !o->json; i++)
        fprintf(cli->out, "%-12s %s\n", dimensions[i]->name, dimensions[i]->doc);
    if (!o->json)
        return ERROR_NONE;
    json_begin_format(&w, "cleave-dimensions", 1);
    json_write_key(&w, "dimensions");
    json_begin_array(&w);
    for (int i = 0; dimensions[i]; i++)
        write_dimension(&w, dimensions[i]);
    json_end_array(&w);
    json_end_object(&w);
    inputs_hand_out_json(cli, NULL, &w, err);
    return ERROR_NONE;
}

const struct verb verb_dimensions = {
    .name = "dimensions",
    .summary = "lists the parallel dimensions that plan files name",
    .usage = "[--json]",
    .examples = "  cleave dimensions\n",
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct dimensions_options),
    .run = run,
};
