#include "cli/inputs.h"
#include "planner/program/schedule.h"
#include <stdlib.h>

struct schedules_options {
    bool json;
};
static const struct option options[] = {
    FLAG_OPTION("json", offsetof(struct schedules_options, json), "one JSON object"),
};

static int run(const struct cli *cli, const void *given, const char *const *operands, int operand_count,
               struct error *err)
{
    const struct schedules_options *o = given;
    struct json_writer w = { 0 };
    (void)operands, (void)operand_count;
    if (!o->json) {
        for (int i = 0; schedules[i]; i++)
            fprintf(cli->out,
                    "%-12s %s%s\n%-12s in flight at stage k of P, m micro-batches, v chunks: %s; staleness %s; %s\n",
                    schedules[i]->name, schedules[i]->doc,
                    schedules[i]->asynchronous ? " (asynchronous: other mathematics)" : "", "",
                    schedules[i]->in_flight_doc, schedules[i]->staleness_doc ? schedules[i]->staleness_doc : "none",
                    schedules[i]->bounded        ? "searched"
                    : schedules[i]->asynchronous ? "taken when named"
                                                 : "searched beside the proof");
        return ERROR_NONE;
    }
    json_begin_format(&w, "cleave-schedules", 1);
    json_write_key(&w, "schedules");
    json_begin_array(&w);
    for (int i = 0; schedules[i]; i++) {
        json_begin_object(&w);
        json_put_string(&w, "name", schedules[i]->name);
        json_put_string(&w, "doc", schedules[i]->doc);
        json_put_bool(&w, "asynchronous", schedules[i]->asynchronous);
        json_put_string(&w, "in_flight", schedules[i]->in_flight_doc);
        json_put_string(&w, "staleness", schedules[i]->staleness_doc ? schedules[i]->staleness_doc : "none");
        json_put_bool(&w, "searched", !schedules[i]->asynchronous);
        json_put_bool(&w, "proven", schedules[i]->bounded);
        json_put_bool(&w, "interleaves", schedules[i]->interleaves);
        json_end_object(&w);
    }
    json_end_array(&w);
    json_end_object(&w);
    inputs_hand_out_json(cli, NULL, &w, err);
    return ERROR_NONE;
}

const struct verb verb_schedules = {
    .name = "schedules",
    .summary = "lists the pipeline schedules",
    .usage = "[--json]",
    .examples = "  cleave schedules\n",
    OPTIONS_OF(options),
    .options_bytes = sizeof(struct schedules_options),
    .run = run,
};
