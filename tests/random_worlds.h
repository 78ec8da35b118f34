/* Small random questions for the search: a model of at most six layers (chains and branches, layers of given times and
 * real ones), a cluster of at most eight devices of one to three types, and a space of at most four strategies. */
#ifndef CLEAVE_TESTS_RANDOM_WORLDS_H
#define CLEAVE_TESTS_RANDOM_WORLDS_H
#include "base/num.h"
#include "base/text.h"
#include "tests/toy_world.h"

enum { WORLD_LAYERS = 6, WORLD_STRATEGIES = 4 };
/* Of what there is more than was drawn, twice as much each. */
enum world_more { MORE_OF_NOTHING, MORE_MEMORY, MORE_BANDWIDTH, MORE_SPEED, MORE_CHOICES, WORLD_MORE };
struct random_world {
    struct world world;
    struct space space;
    struct text model_text;
    const char *cluster_form;
    int64_t memory_bytes[3];
    uint64_t state;
    enum world_more more;
    bool full; /* as large as they get: six layers, eight devices, all schedules that the layers have room for */
};

static inline int64_t world_draw(struct random_world *w, int64_t below)
{
    return (int64_t)(mix64(w->state++) % (uint64_t)below);
}

static inline long long world_times(const struct random_world *w, enum world_more what, int64_t value)
{
    return (long long)(w->more == what ? 2 * value : value);
}

/* From least upwards, each factor of two as likely as the other. */
static inline int64_t world_draw_scale(struct random_world *w, int64_t least, int doublings)
{
    int64_t low = least << world_draw(w, doublings);
    return low + world_draw(w, low);
}

/* ---- models ---- */

/* Layers of given times, of up to three kinds; each reads one or two of those before it. */
static inline void draw_opaque_layers(struct random_world *w)
{
    int layers = w->full ? WORLD_LAYERS : 2 + (int)world_draw(w, WORLD_LAYERS - 1);
    int64_t kinds[3][4], branches = world_draw(w, 3);
    for (int k = 0; k < 3; k++) {
        kinds[k][0] = 1 + world_draw_scale(w, 1, 9);
        kinds[k][1] = 2 * kinds[k][0] + world_draw(w, kinds[k][0]);
        kinds[k][2] = world_draw(w, 3) ? world_draw_scale(w, 64, 14) : 0;
        kinds[k][3] = world_draw_scale(w, 16, 10);
    }
    for (int l = 0; l < layers; l++) {
        const int64_t *kind = kinds[world_draw(w, 3)];
        text_printf(&w->model_text,
                    "%s{\"kind\": \"opaque\", \"name\": \"l%d\", \"forward_us\": %lld, \"backward_us\": %lld, "
                    "\"parameters\": %lld, \"activation_elements\": 512, \"saved_elements\": %lld",
                    l > 0 ? ", " : "", l, (long long)kind[0], (long long)kind[1], (long long)kind[2],
                    (long long)kind[3]);
        if (l > 1 && branches == 0)
            text_printf(&w->model_text, ", \"inputs\": [\"previous\", \"l%d\"]", (int)world_draw(w, l - 1));
        text_printf(&w->model_text, "}");
    }
}

/* A decoder that attends to an encoder, a long skip, two towers, a plain chain. */
static inline void draw_real_layers(struct random_world *w)
{
    static const char *const shapes[] = {
        "{\"kind\": \"embedding\", \"name\": \"source\", \"stream\": \"source\"}, {\"kind\": \"attention\", \"name\": "
        "\"encoder\", \"heads\": 4, \"causal\": false, \"norm\": \"rms_norm\"}, {\"kind\": \"embedding\", "
        "\"shared_table\": true}, {\"kind\": \"cross_attention\", \"inputs\": [\"previous\", \"encoder\"], \"heads\": "
        "4, \"norm\": \"rms_norm\"}, {\"kind\": \"head\", \"norm\": \"rms_norm\"}, {\"kind\": \"loss\"}",
        "{\"kind\": \"embedding\"}, {\"kind\": \"attention\", \"name\": \"down\", \"heads\": 4, \"norm\": "
        "\"layer_norm\"}, {\"kind\": \"mlp\", \"inner\": %d, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, "
        "{\"kind\": \"concat\", \"inputs\": [\"previous\", \"down\"]}, {\"kind\": \"head\", \"norm\": "
        "\"layer_norm\"}, {\"kind\": \"loss\"}",
        "{\"kind\": \"embedding\", \"name\": \"left\", \"stream\": \"source\"}, {\"kind\": \"embedding\", \"name\": "
        "\"right\"}, {\"kind\": \"mlp\", \"name\": \"side\", \"inner\": %d, \"activation\": \"gelu\", \"norm\": "
        "\"layer_norm\"}, {\"kind\": \"add\", \"inputs\": [\"left\", \"side\"]}, {\"kind\": \"head\", \"norm\": "
        "\"layer_norm\"}, {\"kind\": \"loss\"}",
        "{\"kind\": \"embedding\"}, {\"kind\": \"attention\", \"heads\": 4, \"norm\": \"layer_norm\"}, {\"kind\": "
        "\"mlp\", \"inner\": %d, \"activation\": \"gelu\", \"norm\": \"layer_norm\"}, {\"kind\": \"head\", \"norm\": "
        "\"layer_norm\"}, {\"kind\": \"loss\"}",
    };
    int64_t shape = world_draw(w, w->full ? 3 : 4);
    const char *text = shapes[shape], *inner = strstr(text, "%d");
    if (!inner)
        text_printf(&w->model_text, "%s", text);
    else
        text_printf(&w->model_text, "%.*s%d%s", (int)(inner - text), text, 32 << world_draw(w, 4), inner + 2);
}

static inline void draw_model(struct random_world *w)
{
    bool opaque = world_draw(w, 2);
    struct error err = { 0 };
    text_printf(&w->model_text, "{\"format\": \"cleave-model\", \"version\": 1, \"name\": \"random\", \"sequence\": %d",
                16 << world_draw(w, 3));
    if (!opaque)
        text_printf(&w->model_text, ", \"hidden\": %d, \"vocab_size\": %d, \"tied_embedding\": %s",
                    32 << world_draw(w, 3), 100 << world_draw(w, 5), world_draw(w, 2) ? "true" : "false");
    text_printf(&w->model_text, ", \"layers\": [");
    if (opaque)
        draw_opaque_layers(w);
    else
        draw_real_layers(w);
    text_printf(&w->model_text, "]}");
    ck_assert(!w->model_text.failed);
    ck_assert_msg(model_read(&w->world.model, "random", w->model_text.data, strlen(w->model_text.data), NULL, &err),
                  "%s in %s", err.message, w->model_text.data);
}

/* ---- clusters ---- */

static inline struct catalogue_entry draw_device(struct random_world *w, const char *name, int64_t memory_bytes,
                                                 char text[1024])
{
    int length = snprintf(
        text, 1024,
        "{\"name\": \"%s\", \"description\": \"random\", \"source\": \"this test\", \"matmul_flops_per_s\": "
        "{\"bf16\": %lld, \"fp32\": 1e12}, \"matmul_efficiency\": 0.5, \"attention_forward_efficiency\": "
        "0.5, \"attention_backward_efficiency\": 0.4, \"vector_flops_per_s\": %lld, \"memory_bytes_per_s\": "
        "%lld, \"memory_bytes\": %lld, \"launch_ns\": %d, \"link_bytes_per_s\": %lld, \"link_latency_ns\": "
        "%d, \"nic_bytes_per_s\": %lld, \"nic_latency_ns\": 5000, \"host_bytes_per_s\": 3e8, "
        "\"host_latency_ns\": 700}",
        name, world_times(w, MORE_SPEED, world_draw_scale(w, 1000000000, 10)),
        world_times(w, MORE_SPEED, world_draw_scale(w, 1000000000, 6)),
        world_times(w, MORE_SPEED, world_draw_scale(w, 1000000000, 8)), world_times(w, MORE_MEMORY, memory_bytes),
        100 << world_draw(w, 5), world_times(w, MORE_BANDWIDTH, world_draw_scale(w, 50000000, 10)),
        100 << world_draw(w, 6), world_times(w, MORE_BANDWIDTH, world_draw_scale(w, 10000000, 10)));
    return (struct catalogue_entry){ name, text, (size_t)length };
}

/* Every sixth world of two types has three groups instead; from numbers of its own, so that the other draws stay what
 * they were. */
static inline struct catalogue_entry draw_third(struct random_world *w, char text[1024])
{
    static const char *const forms[] = { "1x1:a+1x1:b+1x1:c", "1x2:a+1x1:b+1x1:c", "1x1:c+1x2:b+1x1:a",
                                         "1x1:a+1x1:b+1x1:a" };
    struct random_world own = { .state = mix64(w->state + 10), .full = w->full, .more = w->more };
    if (!w->full && strchr(w->cluster_form, '+') && world_draw(&own, 6) == 0)
        w->cluster_form = forms[world_draw(&own, sizeof forms / sizeof *forms)];
    w->memory_bytes[2] = world_draw_scale(&own, 40000, w->full ? 16 : 10);
    return draw_device(&own, "c", w->memory_bytes[2], text);
}

static inline void draw_cluster(struct random_world *w)
{
    static const char *const forms[] = { "1x1:a",       "1x2:a",       "1x3:a",       "1x4:a",       "2x2:a",
                                         "3x2:a",       "1x1:a+1x1:b", "1x2:a+1x2:b", "1x2:a+1x1:b", "1x2:a+2x1:b",
                                         "1x4:a+1x2:b", "1x8:a",       "2x4:a",       "1x4:a+1x4:b", "1x4:a+2x2:b" };
    enum { FORMS = sizeof forms / sizeof *forms, LARGE = 4 };
    char text[3][1024];
    struct error err = { 0 };
    struct catalogue_entry devices[3];
    w->cluster_form = forms[w->full ? FORMS - LARGE + world_draw(w, LARGE) : world_draw(w, FORMS)];
    for (int i = 0; i < 2; i++) {
        w->memory_bytes[i] = world_draw_scale(w, 40000, w->full ? 16 : 10);
        devices[i] = draw_device(w, i ? "b" : "a", w->memory_bytes[i], text[i]);
    }
    devices[2] = draw_third(w, text[2]);
    ck_assert_msg(
        cluster_read(&w->world.cluster, "--cluster", w->cluster_form, strlen(w->cluster_form), devices, 3, &err), "%s",
        err.message);
    w->world.facts = (struct facts){ .cluster = w->world.cluster };
}

/* ---- spaces ---- */

/* One or two of the values from 0 to below count. */
static inline struct allowed draw_allowed(struct random_world *w, int count, int most)
{
    int64_t first = world_draw(w, count), second = world_draw(w, count);
    bool two = most > 1 && (w->full || world_draw(w, 2));
    if (two && second == first)
        second = (first + 1) % count;
    return (struct allowed){ two ? 2 : 1, { min_i64(first, two ? second : first), max_i64(first, second) } };
}

static inline void draw_schedules(struct random_world *w)
{
    int64_t list[32];
    int count = 0;
    for (int s = 0; schedules[s]; s++)
        if (!schedules[s]->asynchronous) /* other mathematics, which takes whole weights only */
            list[count++] = s;
    if (!w->full && world_draw(w, 2))
        return; /* those that are searched unless others are named */
    w->space.schedule = (struct allowed){ 0 };
    w->space.chunks = (struct allowed){ 3, { 1, 2, 3 } };
    for (int s = 0; s < count; s++)
        if (w->full || world_draw(w, 3) == 0)
            w->space.schedule.values[w->space.schedule.count++] = list[s];
    if (w->space.schedule.count == 0)
        w->space.schedule = (struct allowed){ 1, { list[world_draw(w, count)] } };
}

/* In a third of the worlds, instead of several recomputations; from numbers of its own, so that the other draws stay
 * what they were. */
static inline void draw_offloads(struct random_world *w)
{
    struct random_world own = { .state = mix64(w->state), .full = w->full };
    if (world_draw(&own, 3) > 0)
        return;
    w->space.offload = draw_allowed(&own, OFFLOAD_COUNT, 2);
    w->space.recompute.count = w->space.offload.count > 1 ? 1 : w->space.recompute.count;
}

/* Of half of the worlds with ZeRO-3; likewise. */
static inline void draw_reshards(struct random_world *w)
{
    struct random_world own = { .state = mix64(w->state + 3), .full = w->full };
    if (!allowed_has(&w->space.zero, 3) || world_draw(&own, 2))
        return;
    w->space.reshard = draw_allowed(&own, RESHARD_COUNT, 2);
    if (w->space.reshard.count > 1)
        w->space.recompute.count = w->space.offload.count = 1;
}

/* Of a third of the worlds with ZeRO some operators decided apart; likewise. */
static inline void draw_replicates(struct random_world *w)
{
    struct random_world own = { .state = mix64(w->state + 5), .full = w->full };
    if (w->space.reshard.count > 1 || world_draw(&own, 3) > 0)
        return;
    int64_t some = (int64_t)(mix64(own.state) & OPERATORS_ALL);
    w->space.replicate = world_draw(&own, 3) ? (struct allowed){ 2, { 0, some } } : (struct allowed){ 1, { some } };
    if (w->space.replicate.count > 1)
        w->space.recompute.count = w->space.offload.count = 1;
}

/* Of a quarter of the worlds in which nothing else was decided apart some operators recomputed otherwise; likewise. */
static inline void draw_exceptions(struct random_world *w)
{
    struct random_world own = { .state = mix64(w->state + 6), .full = w->full };
    if (w->space.reshard.count > 1 || w->space.replicate.count > 1 || world_draw(&own, 4) > 0)
        return;
    int64_t some = (int64_t)(mix64(own.state) & (uint64_t)OPERATORS_EVERY);
    w->space.excepted = world_draw(&own, 3) ? (struct allowed){ 2, { 0, some } } : (struct allowed){ 1, { some } };
    if (w->space.excepted.count > 1)
        w->space.recompute.count = w->space.offload.count = 1;
}

/* Of half of the worlds no buckets, or others than usual, of some those as well; and of every third deferred sums;
 * likewise. */
static inline void draw_unusual(struct random_world *w)
{
    static const struct allowed deferred[] = { { 1, { DIM_tp_deferred } }, { 2, { DIM_tp, DIM_tp_deferred } } };
    struct random_world own = { .state = mix64(w->state + 4) };
    if (world_draw(&own, 3) == 0)
        w->space.tensor_dimension = deferred[world_draw(&own, 2)];
    if (world_draw(&own, 2))
        w->space.bucket_bytes = (struct allowed){ 1, { world_draw(&own, 3) ? world_draw_scale(&own, 64, 16) : 0 } };
    if (world_draw(&own, 3) == 0)
        w->space.bucket_bytes.values[w->space.bucket_bytes.count++] = world_draw_scale(&own, 64, 16) + 1;
}

static inline void draw_space(struct random_world *w)
{
    static const int batches[] = { 1, 2, 3, 4, 6, 8, 12, 16 };
    w->space = space_default(batches[w->full ? 5 + world_draw(w, 3) : world_draw(w, 8)], 0, DTYPE_BF16);
    w->space.zero = draw_allowed(w, 4, 2);
    w->space.recompute = draw_allowed(w, RECOMPUTE_COUNT, 2);
    draw_offloads(w);
    draw_reshards(w);
    draw_replicates(w);
    draw_exceptions(w);
    if (!w->full && world_draw(w, 2))
        w->space.prefetch = draw_allowed(w, 2, 1);
    if (world_draw(w, 2))
        w->space.sequence_parallel = draw_allowed(w, 2, 1);
    w->space.clip_norm = (double)world_draw(w, 2);
    draw_unusual(w);
    draw_schedules(w);
    if (world_draw(w, 3) == 0)
        w->space.optimizer = (struct optimizer){ .rule = OPTIMIZER_MOMENTUM, .moments = MOMENTS_EIGHT };
    if (world_draw(w, 6) == 0)
        w->space.optimizer = (struct optimizer){ .rule = OPTIMIZER_SGD, .master = MASTER_NONE };
}

/* Whether the space has a schedule with which replicas can take turns. */
static inline bool has_bounded_schedule(const struct space *space)
{
    bool bounded = space->schedule.count == 0;
    for (int i = 0; i < space->schedule.count; i++)
        bounded |= schedules[space->schedule.values[i]]->bounded;
    return bounded;
}

/* Of every third world, stages of several replicas; now and then with a given number of stages. */
static inline void draw_turns(struct random_world *w)
{
    static const struct allowed lists[] = {
        { 2, { 1, 2 } }, { 3, { 3, 1, 2 } }, { 1, { 2 } }, { 2, { 1, 3 } }, { 3, { 1, 2, 4 } },
    };
    if (world_draw(w, 3) || !has_bounded_schedule(&w->space))
        return;
    w->space.turns = lists[world_draw(w, sizeof lists / sizeof *lists)];
    if (world_draw(w, 4) == 0)
        w->space.stages = (struct allowed){ 1, { 1 + world_draw(w, 4) } };
}

/* The same for equal seeds, but for what there is more of. */
static inline struct random_world random_world_with(uint64_t seed, bool full, enum world_more more)
{
    struct random_world w = { .state = mix64(seed) << 8, .full = full, .more = more };
    draw_model(&w);
    draw_cluster(&w);
    draw_space(&w);
    draw_turns(&w);
    if (more == MORE_CHOICES) {
        w.space.zero = w.space.recompute = w.space.sequence_parallel = (struct allowed){ 0 };
        w.space.prefetch = (struct allowed){ 2, { 1, 0 } };
        w.space.reshard = (struct allowed){ 0 };
    }
    return w;
}

static inline struct random_world random_world(uint64_t seed, bool full)
{
    return random_world_with(seed, full, MORE_OF_NOTHING);
}

static inline void random_world_close(struct random_world *w)
{
    world_close(&w->world);
    text_free(&w->model_text);
}
#endif
