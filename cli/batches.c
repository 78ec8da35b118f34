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

/* Whether a larger one that was tried makes hardly more per second. */
static bool has_better(const struct batch_choice *choice)
{
    bool better = false;
    for (int i = 0; i < choice->try_count; i++)
        better = better || batch_rate(&choice->tries[i]) > batch_rate(&choice->tries[choice->best]);
    return better;
}

/* The smallest of those tried that is larger; NULL: there is none. */
static const struct batch_try *next_try(const struct batch_choice *choice, int64_t batch)
{
    const struct batch_try *next = NULL;
    for (const struct batch_try *tried = choice->tries; tried < choice->tries + choice->try_count; tried++)
        if (tried->batch > batch && (!next || tried->batch < next->batch))
            next = tried;
    return next;
}

void batches_print(const struct cli *cli, const struct batch_choice *choice)
{
    char number[TEXT_NUMBER_BYTES], missing[96];
    write_missing(missing, sizeof missing, choice);
    if (choice->best >= 0) {
        fprintf(cli->talk, "batch: %lld sequences of those tried", (long long)choice->batch);
        if (has_better(choice))
            fprintf(cli->talk, ", the smallest within %.1f %% of the most sequences/s", BATCH_BETTER_PPM / 1e4);
        fprintf(cli->talk, "%s%s\n", choice->settled ? "; doubling brought less than 0.5 % twice" : "", missing);
    } else if (choice->try_count > 0) {
        fprintf(cli->talk, "batch: none of those tried has a plan%s\n", missing);
    }
    for (const struct batch_try *tried = next_try(choice, 0); tried; tried = next_try(choice, tried->batch)) {
        char mark = choice->best >= 0 && tried->batch == choice->batch ? '*' : ' ';
        if (tried->step_ns > 0)
            fprintf(cli->talk, "%c %8lld: step %s, %.5g sequences/s\n", mark, (long long)tried->batch,
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
