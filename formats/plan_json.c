/* Writing the plan file; reading it as a whole: formats/plan_file.c. */
#include "formats/plan_json_parts.h"
#include "base/num.h"
#include "planner/program/schedule.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void append_range(struct text *out, struct layer_range range)
{
    const char *comma = out->length ? "," : "";
    if (range.count == 1)
        text_printf(out, "%s%d", comma, range.first);
    else
        text_printf(out, "%s%d-%d", comma, range.first, range.first + range.count - 1);
}

/* Replicas that take turns are one entry. */
static void write_stages(struct json_writer *w, const struct plan *plan)
{
    json_begin_array_at(w, "stages");
    for (int s = 0; s < plan->stage_count; s += plan_stage_turns(plan, s)) {
        const struct plan_stage *stage = &plan->stages[s];
        json_begin_object(w);
        struct text ranges = { 0 };
        for (int c = 0; c < plan->chunk_count; c++)
            append_range(&ranges, plan_stage_chunk(plan, s, c));
        json_put_string(w, "layers", ranges.data);
        text_free(&ranges);
        json_begin_array_at(w, "atoms");
        for (int i = 0; i < plan->atom_count; i++)
            json_write_int(w, stage->atom[i]);
        json_end_array(w);
        if (stage->first_rank != plan_stage_next_rank(plan, s))
            json_put_int(w, "first_rank", stage->first_rank);
        if (plan_stage_turns(plan, s) > 1)
            json_put_int(w, "turns", plan_stage_turns(plan, s));
        json_end_object(w);
    }
    json_end_array(w);
}

/* Equal consecutive layers are one entry: the file says what was decided, not how long the model is. */
static void write_layers(struct json_writer *w, const struct plan *plan)
{
    json_begin_array_at(w, "layers");
    for (int first = 0, count; first < plan->layer_count; first += count) {
        const struct plan_layer *layer = &plan->layers[first];
        for (count = 1; first + count < plan->layer_count && plan_layer_equal(layer, &plan->layers[first + count]);)
            count++;
        json_begin_object(w);
        struct text range = { 0 };
        append_range(&range, (struct layer_range){ first, count });
        json_put_string(w, "layers", range.data);
        text_free(&range);
        json_begin_array_at(w, "dims");
        for (int i = 0; i < plan->atom_count; i++)
            json_write_string(w, dimensions[layer->dim[i]]->name);
        json_end_array(w);
        json_put_int(w, "zero", layer->zero);
        json_put_string(w, "recompute", recompute_names[layer->recompute]);
        if (layer->excepted != 0)
            json_put_string(w, "recompute_except", operators_text((char[OPERATORS_TEXT_BYTES]){ 0 }, layer->excepted));
        if (layer->offload != OFFLOAD_NONE)
            json_put_string(w, "offload", offload_names[layer->offload]);
        if (layer->reshard != RESHARD_EACH_PASS)
            json_put_bool(w, "reshard", false);
        if (layer->replicate != 0)
            json_put_string(w, "replicate", operators_text((char[OPERATORS_TEXT_BYTES]){ 0 }, layer->replicate));
        json_put_int(w, "slices", layer->slices);
        json_end_object(w);
    }
    json_end_array(w);
}

void plan_order_text(struct text *out, const struct plan *plan)
{
    for (int p = 0, count; plan->order && p < plan->layer_count; p += count) {
        int first = plan->order[p];
        for (count = 1; p + count < plan->layer_count && plan->order[p + count] == first + count;)
            count++;
        text_printf(out, "%s%d", p > 0 ? "," : "", first);
        if (count > 1)
            text_printf(out, "-%d", first + count - 1);
    }
}

/* read: the decisions that the plan was read from, or NULL. */
static void write_decisions(struct json_writer *w, const struct plan *plan, const struct json *read)
{
    json_begin_object(w);
    json_put_int(w, "batch", plan->batch);
    json_put_int(w, "sequence", plan->sequence);
    json_put_int(w, "vocab_multiple", plan->vocab_multiple);
    json_put_string(w, "dtype", dtype_names[plan->dtype]);
    for (int i = 0; i < OPTIMIZER_PARTS; i++)
        if (plan->optimizer.part[i] != 0)
            json_put_string(w, optimizer_parts[i].key, optimizer_parts[i].names[plan->optimizer.part[i]]);
    json_put_string(w, "schedule", schedules[plan->schedule]->name);
    if (plan->chunk_count > 1)
        json_put_int(w, "interleave", plan->chunk_count);
    if (plan->chunk_group > 0)
        json_put_int(w, "chunk_group", plan->chunk_group);
    json_put_int(w, "micro_batches", plan->micro_batch_count);
    if (plan_micro_batch_size(plan) > 0)
        json_put_int(w, "micro_batch_size", plan_micro_batch_size(plan));
    json_put_int(w, "extra_in_flight", plan->extra_in_flight);
    json_put_int(w, "bucket_bytes", plan->bucket_bytes);
    json_put_int(w, "prefetch", plan->prefetch);
    if (plan->loss_chunks > 1)
        json_put_int(w, "loss_chunks", plan->loss_chunks);
    if (plan->clock != CLOCK_EVEN)
        json_put_string(w, "clock", plan_clock_names[plan->clock]);
    json_put_double(w, "clip_norm", plan->clip_norm);
    if (plan->whole_blocks)
        json_put_bool(w, "whole_blocks", true);
    if (plan->order) {
        struct text order = { 0 };
        plan_order_text(&order, plan);
        json_put_string(w, "order", order.data);
        text_free(&order);
    }
    write_stages(w, plan);
    write_layers(w, plan);
    json_write_free_members(w, read);
    json_end_object(w);
}

/* Seconds are written from whole nanoseconds, so equal predictions give equal bytes. */
static void write_seconds(struct json_writer *w, const char *key, int64_t ns)
{
    json_put_double(w, key, (double)ns / 1e9);
}

/* The least of all stages; where they differ, because their devices do, also one by one. */
static void write_available(struct json_writer *w, const struct prediction *p)
{
    int64_t least = INT64_MAX, most = 0;
    for (int s = 0; s < p->stage_count; s++) {
        least = min_i64(least, p->available_bytes[s]);
        most = max_i64(most, p->available_bytes[s]);
    }
    json_put_int(w, "available_bytes", least);
    if (least == most)
        return;
    json_put_ints(w, "stage_available_bytes", p->available_bytes, p->stage_count);
}

/* Where something is kept there. */
static void write_host(struct json_writer *w, const struct prediction *p)
{
    if (!p->host_bytes)
        return;
    json_put_ints(w, "host_bytes", p->host_bytes, p->stage_count);
    if (p->host_available_bytes < INT64_MAX)
        json_put_int(w, "host_available_bytes", p->host_available_bytes);
}

/* What the bytes of the fullest stage are. */
static void write_memory(struct json_writer *w, const struct prediction *p)
{
    if (!p->memory_bytes)
        return;
    json_put_int(w, "fullest_stage", p->fullest_stage);
    json_begin_object_at(w, "fullest_stage_bytes");
    for (int i = 0; i < p->memory_count; i++)
        json_put_int(w, p->memory_names[i], p->memory_bytes[i]);
    json_end_object(w);
}

static void write_accuracy(struct json_writer *w, const struct prediction *p)
{
    if (!p->accuracy.words)
        return;
    json_begin_object_at(w, "accuracy");
    json_put_string(w, "words", p->accuracy.words);
    json_put_int(w, "runs", p->accuracy.runs);
    if (p->accuracy.runs > 0) {
        json_put_double(w, "median", p->accuracy.median);
        json_put_double(w, "low", p->accuracy.low);
        json_put_double(w, "high", p->accuracy.high);
    }
    json_end_object(w);
}

static void write_predicted(struct json_writer *w, const struct prediction *p)
{
    json_begin_object_at(w, "predicted");
    write_seconds(w, "step_s", p->step_ns);
    json_put_double(w, "tokens_per_s_per_device", p->tokens_per_s_per_device);
    json_put_double(w, "mfu", p->mfu);
    json_put_bool(w, "fits", p->fits);
    json_put_ints(w, "peak_bytes", p->peak_bytes, p->stage_count);
    write_available(w, p);
    write_host(w, p);
    write_memory(w, p);
    if (p->micro_batches_simulated > 0)
        json_put_int(w, "micro_batches_simulated", p->micro_batches_simulated);
    json_begin_object_at(w, "breakdown_s");
    for (int i = 0; i < p->breakdown_count; i++)
        write_seconds(w, p->breakdown_names[i], p->breakdown_ns[i]);
    json_end_object(w);
    json_begin_object_at(w, "durations");
    json_put_bool(w, "analytic", p->analytic);
    json_put_bool(w, "measured", p->measured);
    json_put_bool(w, "extrapolated", p->extrapolated);
    json_end_object(w);
    write_accuracy(w, p);
    json_end_object(w);
}

static void write_origin(struct json_writer *w, const char *key, const struct plan_origin *origin)
{
    char hash[TEXT_NUMBER_BYTES];
    json_write_key(w, key);
    if (!origin->source) {
        json_write_string(w, NULL);
        return;
    }
    snprintf(hash, sizeof hash, "%016" PRIx64, origin->hash);
    json_begin_object(w);
    json_put_string(w, "source", origin->source);
    if (origin->name)
        json_put_string(w, "name", origin->name);
    json_put_string(w, "hash", hash);
    if (origin->description) {
        json_write_key(w, "description");
        json_write_value(w, origin->description);
    }
    json_end_object(w);
}

static void write_context(struct json_writer *w, const struct plan_context *context, const struct json *read)
{
    json_begin_object_at(w, "context");
    write_origin(w, "model", &context->model);
    write_origin(w, "cluster", &context->cluster);
    write_origin(w, "profile", &context->profile);
    if (context->framework.source)
        write_origin(w, "framework", &context->framework);
    if (context->target)
        json_put_string(w, "target", context->target);
    write_origin(w, "options", &context->options);
    if (context->reserve)
        json_put_string(w, "reserve", context->reserve);
    if (context->cleave)
        json_put_string(w, "cleave", context->cleave);
    json_write_free_members(w, read);
    json_end_object(w);
}

void plan_json_put(struct json_writer *w, const struct plan *plan, const struct prediction *prediction,
                   const struct json *file, const struct plan_context *context)
{
    const struct json *predicted = file ? json_member(file, "predicted") : NULL;
    json_put_string(w, "format", PLAN_FORMAT);
    json_put_int(w, "version", PLAN_FORMAT_VERSION);
    json_write_key(w, "decisions");
    write_decisions(w, plan, file ? json_member(file, "decisions") : NULL);
    if (prediction)
        write_predicted(w, prediction);
    if (predicted) {
        json_write_key(w, "predicted");
        json_write_value(w, predicted);
    }
    if (context)
        write_context(w, context, file ? json_member(file, "context") : NULL);
}

void plan_json_decisions(struct json_writer *w, const struct plan *plan)
{
    write_decisions(w, plan, NULL);
}

void plan_json_members(struct json_writer *w, const struct plan *plan, const struct prediction *prediction,
                       const struct plan_context *context)
{
    plan_json_put(w, plan, prediction, NULL, context);
}

char *plan_json_write(const struct plan *plan, const struct prediction *prediction, const struct plan_context *context,
                      size_t *length)
{
    struct json_writer w = { 0 };
    json_begin_object(&w);
    plan_json_members(&w, plan, prediction, context);
    json_end_object(&w);
    return json_finish(&w, length);
}
