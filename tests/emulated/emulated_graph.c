/* Graphs of an emulated GPU. What CUDA promises is kept and nothing else: a graph's tasks run in some order that has
 * the waits and the streams of its capture, another one in each run, and one at a time, as if all were in one queue. */
#include "tests/emulated/emulated_parts.h"
#include "tests/random_numbers.h"
#include <stdlib.h>

struct node {
    struct task *task;
    int record;                           /* of a WAIT: the node that it waits for; -1 */
    int next, first_waiter, other_waiter; /* on its stream; of those that wait for it; of those that wait as it does */
    int before;                           /* how many it waits for */
};
struct emulated_graph {
    struct emulated *gpu;
    uint64_t number; /* from 1 */
    const struct stream *origin;
    struct node *nodes;
    int count, room;
    const char *broken; /* a rule of CUDA's; NULL: none */
    uint64_t chance;
    int *ready, *left; /* (count) of a run */
    int runs;          /* queued and not over; under the GPU's mutex, as what follows */
    bool closed;
};

/* ---- capture ---- */
bool emulated_is_capturing(struct emulated *gpu)
{
    pthread_mutex_lock(&gpu->mutex);
    bool capturing = gpu->capture != NULL;
    pthread_mutex_unlock(&gpu->mutex);
    return capturing;
}

void emulated_capture_spoil(struct emulated *gpu, uint64_t which, const char *what)
{
    pthread_mutex_lock(&gpu->mutex);
    if (which > 0 && gpu->capture && gpu->capture->number == which && !gpu->capture->broken)
        gpu->capture->broken = what;
    pthread_mutex_unlock(&gpu->mutex);
}

static int add_node(struct emulated_graph *graph, struct task *task)
{
    if (graph->count == graph->room) {
        graph->room = 2 * graph->room + 64;
        graph->nodes = realloc(graph->nodes, (size_t)graph->room * sizeof *graph->nodes);
        if (!graph->nodes)
            abort(); /* a test without memory */
    }
    graph->nodes[graph->count] =
        (struct node){ .task = task, .record = -1, .next = -1, .first_waiter = -1, .other_waiter = -1 };
    return graph->count++;
}

/* The rules of CUDA: a wait is for an event of this capture, another stream begins by such a wait. */
static const char *join_node(struct emulated_graph *graph, struct stream *stream, int index)
{
    struct node *node = &graph->nodes[index];
    struct event *event = node->task->event;
    const bool waits = node->task->kind == TASK_WAIT, begins = stream->capture != graph->number;
    const char *broken =
        begins && !waits && stream != graph->origin ? "a stream joins a capture without waiting for it" : NULL;
    if (!begins)
        graph->nodes[stream->node].next = index, node->before++;
    stream->capture = graph->number, stream->node = index;
    if (!event)
        return broken;
    pthread_mutex_lock(&event->mutex);
    if (node->task->kind == TASK_RECORD)
        event->capture = graph->number, event->node = index;
    else if (event->capture == graph->number)
        node->record = event->node;
    pthread_mutex_unlock(&event->mutex);
    if (waits && node->record < 0)
        return "a wait in a capture is for an event from before it";
    if (waits) {
        node->other_waiter = graph->nodes[node->record].first_waiter;
        graph->nodes[node->record].first_waiter = index;
        node->before++;
    }
    return broken;
}

bool emulated_capture(struct stream *stream, struct task *task)
{
    struct emulated *gpu = stream->gpu;
    pthread_mutex_lock(&gpu->mutex);
    struct emulated_graph *graph = gpu->capture;
    if (graph) {
        task->stream = stream;
        const char *broken = join_node(graph, stream, add_node(graph, task));
        graph->broken = graph->broken ? graph->broken : broken;
    }
    pthread_mutex_unlock(&gpu->mutex);
    return graph != NULL;
}

bool emulated_begin_capture(void *self, void *stream, struct error *err)
{
    struct emulated *gpu = self;
    struct emulated_graph *graph = calloc(1, sizeof *graph);
    if (!graph)
        return fail_kind(err, ERROR_ENVIRONMENT, "no memory for a graph");
    pthread_mutex_lock(&gpu->mutex);
    bool ok = gpu->capture == NULL;
    if (ok) {
        *graph = (struct emulated_graph){ .gpu = gpu, .number = ++gpu->graphs, .origin = stream };
        graph->chance = (uint64_t)(uintptr_t)gpu;
        gpu->capture = graph;
    }
    pthread_mutex_unlock(&gpu->mutex);
    if (!ok)
        free(graph);
    return ok || fail_kind(err, ERROR_BUG, "a capture begins inside another");
}

/* A stream's last work is a record that the capturing stream waits for. */
static const char *unjoined(const struct emulated_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        const struct node *node = &graph->nodes[i];
        bool joined = node->next >= 0 || node->task->stream == graph->origin;
        for (int w = node->first_waiter; w >= 0; w = graph->nodes[w].other_waiter)
            joined = joined || graph->nodes[w].task->stream == graph->origin;
        if (!joined)
            return "a stream ends in a capture and is not waited for";
    }
    return NULL;
}

static void free_graph(struct emulated_graph *graph)
{
    for (int i = 0; i < graph->count; i++) {
        struct task *task = graph->nodes[i].task;
        if (task->forget)
            task->forget(task->context);
        free(task);
    }
    free(graph->nodes);
    free(graph->ready);
    free(graph->left);
    free(graph);
}

bool emulated_end_capture(void *self, void *stream, void **out, struct error *err)
{
    struct emulated *gpu = self;
    pthread_mutex_lock(&gpu->mutex);
    struct emulated_graph *graph = gpu->capture && gpu->capture->origin == stream ? gpu->capture : NULL;
    gpu->capture = graph ? NULL : gpu->capture;
    pthread_mutex_unlock(&gpu->mutex);
    const char *broken = !graph || graph->count == 0 ? "nothing was captured"
                         : graph->broken             ? graph->broken
                                                     : unjoined(graph);
    if (broken) {
        if (graph)
            free_graph(graph);
        return fail_kind(err, ERROR_BUG, "%s", broken);
    }
    graph->ready = malloc((size_t)graph->count * sizeof *graph->ready);
    graph->left = malloc((size_t)graph->count * sizeof *graph->left);
    if (!graph->ready || !graph->left)
        abort(); /* a test without memory */
    *out = graph;
    return true;
}

/* ---- runs ---- */
bool emulated_replay(void *self, void *stream, void *which, struct error *err)
{
    struct emulated *gpu = self;
    struct emulated_graph *graph = which;
    pthread_mutex_lock(&gpu->mutex);
    graph->runs++;
    pthread_mutex_unlock(&gpu->mutex);
    return emulated_queue(stream, &(struct task){ .kind = TASK_GRAPH, .graph = graph }, err);
}

/* Of one that runs what it holds is given up when the run is over. */
static void release_graph(struct emulated_graph *graph, bool closes)
{
    pthread_mutex_lock(&graph->gpu->mutex);
    graph->closed = graph->closed || closes;
    graph->runs -= !closes;
    const bool over = graph->closed && graph->runs == 0;
    pthread_mutex_unlock(&graph->gpu->mutex);
    if (over)
        free_graph(graph);
}

void emulated_close_graph(void *self, void *graph)
{
    (void)self;
    release_graph(graph, true);
}

static void lessen(struct emulated_graph *graph, int index, int *ready_count)
{
    if (--graph->left[index] == 0)
        graph->ready[(*ready_count)++] = index;
}

void emulated_graph_run(struct emulated_graph *graph)
{
    int ready_count = 0;
    for (int i = 0; i < graph->count; i++)
        if ((graph->left[i] = graph->nodes[i].before) == 0)
            graph->ready[ready_count++] = i;
    while (ready_count > 0) {
        const int chosen = (int)draw(&graph->chance, ready_count), index = graph->ready[chosen];
        const struct node *node = &graph->nodes[index];
        graph->ready[chosen] = graph->ready[--ready_count];
        if (node->task->kind != TASK_RECORD && node->task->kind != TASK_WAIT)
            emulated_run_task(node->task->stream, node->task);
        if (node->next >= 0)
            lessen(graph, node->next, &ready_count);
        for (int w = node->first_waiter; w >= 0; w = graph->nodes[w].other_waiter)
            lessen(graph, w, &ready_count);
    }
    release_graph(graph, false);
}
