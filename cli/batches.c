#include "cli/batches.h"
#include "base/json.h"
#include "base/text.h"

/* What time or cancellation kept from being tried; empty: nothing. */
static void write_missing(char *out, size_t size, const struct batch_choice *choice)
{
    int64_t most = 0;
    for (int i = 0; i < choice->try_count; i++)
        most = choice->tries[i].batch > most ? choice->tries[i].batch : most;
    if (!choice->ended)
        out[0] = '\0';
    else if (choice->settled)
        snprintf(out, size, " (ended early: not all were searched to the end)");
    else
        snprintf(out, size, " (ended early: batches above %lld were not tried in time)", (long long)most);
}

void batches_print(const struct cli *cli, const struct batch_choice *choice)
{
    char number[TEXT_NUMBER_BYTES], missing[96];
    write_missing(missing, sizeof missing, choice);
    if (choice->best >= 0)
        fprintf(cli->talk, "batch: %lld sequences of those tried%s%s\n", (long long)choice->batch,
                choice->settled ? "; doubling brought less than 0.5 % twice" : "", missing);
    else if (choice->try_count > 0)
        fprintf(cli->talk, "batch: none of those tried has a plan%s\n", missing);
    for (int i = 0; i < choice->try_count; i++) {
        const struct batch_try *tried = &choice->tries[i];
        if (tried->step_ns > 0)
            fprintf(cli->talk, "  %8lld: step %s, %.4g sequences/s\n", (long long)tried->batch,
                    text_duration_ns(number, tried->step_ns), batch_rate(tried));
        else
            fprintf(cli->talk, "  %8lld: no plan\n", (long long)tried->batch);
    }
}

void batches_put(struct json_writer *w, const struct batch_choice *choice)
{
    json_write_key(w, "batches");
    json_begin_array(w);
    for (int i = 0; i < choice->try_count; i++) {
        json_begin_object(w);
        json_put_int(w, "batch", choice->tries[i].batch);
        if (choice->tries[i].step_ns > 0)
            json_put_double(w, "step_s", (double)choice->tries[i].step_ns / 1e9);
        json_end_object(w);
    }
    json_end_array(w);
}
