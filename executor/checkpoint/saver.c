#define _POSIX_C_SOURCE 200809L
#include "executor/checkpoint/saver.h"
#include "executor/checkpoint/folder.h"
#include "executor/checkpoint/rank_file.h"
#include "host/clock.h"
#include "planner/program/access.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the thread of a saver does. */
enum errand { ERRAND_NONE, ERRAND_WRITE, ERRAND_COMMIT };
struct saver {
    struct rank *rank;
    struct checkpoint_folder *folder; /* on rank 0; else NULL */
    struct checkpoint_label label;    /* of the save that is under way */
    struct rank_file file;
    unsigned char *room; /* of the copy; stays for the next one */
    int64_t room_bytes;

    bool last;      /* no step follows it, and so none waits */
    bool under_way; /* from its order until all ranks' files are whole, on rank 0 until it is committed */
    enum errand errand;
    pthread_t thread;
    bool has_thread;       /* of the errand; without one it was done at once */
    pthread_mutex_t mutex; /* of what follows, while there is a thread */
    pthread_cond_t changed;
    atomic_bool copying;
    bool errand_done, errand_well;
    struct error error;
    struct file_record record; /* own */
    bool record_told;

    /* rank 0 */
    struct file_record *records; /* (rank_count) */
    bool *has_record;
    int missing;
    bool asked_to_end;
    int64_t ordered_step;                    /* of the latest order */
    int64_t last_ns, begun_ns, committed_ns; /* the latest order; the save that is under way; its end, if known */
    struct save_times times;
    atomic_llong guarded_ns; /* what instructions waited for the copy */
};

bool saver_new(struct saver **out, struct rank *rank, struct checkpoint_folder *folder, struct error *err)
{
    const int count = rank->transport->rank_count;
    struct saver *s = calloc(1, sizeof *s);
    if (!s)
        return fail_memory(err);
    s->rank = rank;
    s->folder = rank->rank == 0 ? folder : NULL;
    s->label = (struct checkpoint_label){ .seed = rank->options->seed,
                                          .model_hash = rank->program->graph->model_hash,
                                          .plan_hash = plan_hash(rank->program->plan),
                                          .file_count = count };
    s->records = calloc((size_t)count, sizeof *s->records);
    s->has_record = calloc((size_t)count, sizeof *s->has_record);
    s->last_ns = clock_now_ns();
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    *out = s;
    return (s->records && s->has_record) || fail_memory(err);
}

static bool join(struct saver *s, struct error *err)
{
    if (s->errand == ERRAND_NONE)
        return true;
    if (s->has_thread)
        pthread_join(s->thread, NULL);
    s->errand = ERRAND_NONE;
    return s->errand_well || fail_with(err, &s->error);
}

void saver_free(struct saver *s)
{
    struct error ignored = { 0 };
    if (!s)
        return;
    join(s, &ignored);
    rank_file_free(&s->file);
    pthread_mutex_destroy(&s->mutex);
    pthread_cond_destroy(&s->changed);
    free(s->room);
    free(s->records);
    free(s->has_record);
    free(s);
}

/* ---- errands ---- */
static void end_copying(struct saver *s)
{
    pthread_mutex_lock(&s->mutex);
    atomic_store(&s->copying, false);
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static bool write_own(struct saver *s, struct error *err)
{
    struct status *status = s->rank->options->status;
    status_begin_disk(status, s->rank->rank);
    int folder = checkpoint_save_open(s->rank->options->checkpoint_dir, s->label.step, s->label.save, err);
    bool ok = folder >= 0 && (rank_file_write(&s->file, folder, &s->label, &s->record, err) ||
                              error_within(err, "%s", s->rank->options->checkpoint_dir));
    if (folder >= 0)
        close(folder);
    status_end_disk(status, s->rank->rank);
    rank_file_free(&s->file);
    return ok;
}

static bool commit(struct saver *s, struct error *err)
{
    struct status *status = s->rank->options->status;
    status_begin_disk(status, s->rank->rank);
    bool ok = checkpoint_folder_commit(s->folder, &s->label, s->rank->program->graph->model_name, s->records, err);
    status_end_disk(status, s->rank->rank);
    return ok;
}

static void *run_errand(void *argument)
{
    struct saver *s = argument;
    struct error error = { 0 };
    if (atomic_load(&s->copying)) {
        rank_file_copy(&s->file, s->room);
        end_copying(s);
    }
    bool well = s->errand == ERRAND_WRITE ? write_own(s, &error) : commit(s, &error);
    pthread_mutex_lock(&s->mutex);
    s->error = error;
    s->errand_well = well;
    s->errand_done = true;
    s->committed_ns = clock_now_ns();
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

/* Where there is no thread to be had, now. */
static void start(struct saver *s, enum errand errand)
{
    s->errand = errand;
    s->errand_done = false;
    s->has_thread = pthread_create(&s->thread, NULL, run_errand, s) == 0;
    if (!s->has_thread)
        run_errand(s);
}

static bool is_done(struct saver *s)
{
    pthread_mutex_lock(&s->mutex);
    bool done = s->errand == ERRAND_NONE || s->errand_done;
    pthread_mutex_unlock(&s->mutex);
    return done;
}

/* ---- words ---- */
bool saver_word(struct saver *s, struct save_word *word, struct error *err)
{
    const atomic_int *asked = s->rank->options->asked_to_end;
    *word = (struct save_word){ .asked_to_end = asked && atomic_load(asked) > 0 };
    if (!s->under_way || s->record_told || !is_done(s))
        return true;
    if (!join(s, err))
        return false;
    word->record = s->record;
    word->has_record = s->record_told = true;
    s->under_way = s->folder != NULL;
    return true;
}

void saver_hear(struct saver *s, int r, const struct save_word *word)
{
    s->asked_to_end = s->asked_to_end || word->asked_to_end;
    if (!word->has_record || s->has_record[r])
        return;
    s->records[r] = word->record;
    s->has_record[r] = true;
    s->missing--;
}

static void end_save(struct saver *s, int64_t now_ns)
{
    s->under_way = false;
    s->times.count++;
    s->times.save_ns += now_ns - s->begun_ns;
}

/* ---- deciding ---- */
bool saver_is_due(const struct saver *s, int64_t steps_done)
{
    const struct run_options *o = s->rank->options;
    return steps_done == o->step_count || (o->checkpoint_every > 0 && steps_done % o->checkpoint_every == 0);
}

/* The commit begins with the last record and ends with its errand. */
static bool advance(struct saver *s, struct error *err)
{
    if (!s->under_way || s->missing > 0 || !is_done(s))
        return true;
    if (s->errand != ERRAND_COMMIT) {
        start(s, ERRAND_COMMIT);
        return true;
    }
    if (!join(s, err))
        return false;
    end_save(s, s->committed_ns);
    return true;
}

bool saver_decide(struct saver *s, int64_t steps_done, bool later, struct save_order *order, struct error *err)
{
    const struct run_options *o = s->rank->options;
    *order = (struct save_order){ .step = 0 };
    if (!advance(s, err))
        return false;
    bool timed = o->checkpoint_every_s > 0 && (double)(clock_now_ns() - s->last_ns) > o->checkpoint_every_s * 1e9;
    int64_t step = saver_is_due(s, steps_done) ? steps_done : timed || s->asked_to_end ? steps_done + later : 0;
    if (step == 0 || step <= s->ordered_step || (step > steps_done && saver_is_due(s, step)))
        return true; /* that step has its save anyway */
    *order = (struct save_order){ .step = step, .ends = s->asked_to_end };
    s->ordered_step = step;
    s->last_ns = clock_now_ns();
    return checkpoint_folder_begin(s->folder, step, &order->save, err);
}

/* ---- saving ---- */
static bool exchange_record(struct saver *s, int to, int from, struct file_record *record, struct error *err)
{
    const struct transport *t = s->rank->transport;
    return t->exchange(t->self, LANE_COMPUTE, to, record, to >= 0 ? sizeof *record : 0, from, record,
                       from >= 0 ? sizeof *record : 0, err);
}

/* Rank 0: waits for the files of all, and commits. */
static bool finish_all(struct saver *s, struct error *err)
{
    const struct transport *t = s->rank->transport;
    const bool committed = s->errand == ERRAND_COMMIT;
    bool well = join(s, err);
    if (committed && well)
        end_save(s, s->committed_ns);
    if (committed || !well)
        return well;
    saver_hear(s, 0, &(struct save_word){ .record = s->record, .has_record = true });
    for (int r = 1; r < t->rank_count; r++) {
        struct save_word word = { .has_record = true };
        if (s->has_record[r])
            continue;
        if (!exchange_record(s, -1, r, &word.record, err))
            return false;
        saver_hear(s, r, &word);
    }
    if (!commit(s, err))
        return false;
    end_save(s, clock_now_ns());
    return true;
}

bool saver_finish(struct saver *s, struct error *err)
{
    if (!s->under_way)
        return true;
    int64_t since_ns = clock_now_ns();
    bool ok;
    if (s->folder)
        ok = finish_all(s, err);
    else
        ok = join(s, err) && (s->record_told || exchange_record(s, 0, -1, &s->record, err));
    s->under_way = false;
    s->times.wait_ns += s->last ? 0 : clock_now_ns() - since_ns;
    return ok;
}

/* Nobody leaves before the checkpoint is one: a launcher may end the others with the first that goes. */
static bool await_commit(struct saver *s, struct error *err)
{
    const struct transport *t = s->rank->transport;
    unsigned char done = 1;
    if (t->rank > 0)
        return t->exchange(t->self, LANE_COMPUTE, -1, NULL, 0, 0, &done, sizeof done, err);
    bool well = true;
    for (int r = 1; well && r < t->rank_count; r++)
        well = t->exchange(t->self, LANE_COMPUTE, r, &done, sizeof done, -1, NULL, 0, err);
    return well;
}

/* A place for the copy; without one the steps wait for the disk. */
static bool make_room(struct saver *s)
{
    if (s->room_bytes >= s->file.bytes)
        return s->room != NULL;
    free(s->room);
    s->room = malloc((size_t)s->file.bytes);
    s->room_bytes = s->room ? s->file.bytes : 0;
    return s->room != NULL;
}

static bool save(struct saver *s, bool last, struct error *err)
{
    const struct device *device = s->rank->options->device;
    bool own_memory = device->download != NULL;
    if ((own_memory && !device->download(s->rank, err)) || !rank_file_collect(&s->file, s->rank, err))
        return false;
    if (last || s->rank->options->checkpoint_waits || !make_room(s))
        return write_own(s, err);
    if (own_memory) /* its steps are queued ahead, and nothing would hold them */
        rank_file_copy(&s->file, s->room);
    else
        atomic_store(&s->copying, true);
    start(s, ERRAND_WRITE);
    return true;
}

bool saver_save(struct saver *s, const struct save_order *order, bool last, struct error *err)
{
    if (!saver_finish(s, err)) /* of the save before */
        return false;
    int64_t since_ns = s->begun_ns = clock_now_ns();
    s->label.step = order->step;
    s->label.save = order->save;
    s->under_way = true;
    s->record_told = false;
    s->missing = s->rank->transport->rank_count;
    memset(s->has_record, 0, (size_t)s->missing * sizeof *s->has_record);
    s->last = last;
    bool ok = save(s, last, err);
    s->times.wait_ns += last ? 0 : clock_now_ns() - since_ns;
    if (ok && (last || s->rank->options->checkpoint_waits))
        ok = saver_finish(s, err) && (!last || await_commit(s, err));
    return ok;
}

/* ---- within a step ---- */
static bool changes_what_stays(const struct program *program, const struct instr *instr)
{
    bool changes = instr->op == OP_UPDATE;
    struct access access;
    for (struct access_walk walk = access_walk(program, instr); !changes && access_next(&walk, &access);)
        changes = access.writes && (program->buffers[access.buffer].kind == BUFFER_WEIGHT ||
                                    program->buffers[access.buffer].kind == BUFFER_STATE);
    return changes;
}

void saver_guard(struct saver *s, const struct instr *instr)
{
    if (!s || !atomic_load(&s->copying) || !changes_what_stays(s->rank->program, instr))
        return;
    int64_t since_ns = clock_now_ns();
    pthread_mutex_lock(&s->mutex);
    while (atomic_load(&s->copying))
        pthread_cond_wait(&s->changed, &s->mutex);
    pthread_mutex_unlock(&s->mutex);
    atomic_fetch_add(&s->guarded_ns, clock_now_ns() - since_ns);
}

struct save_times saver_times(const struct saver *s)
{
    struct save_times times = s->times;
    times.wait_ns += atomic_load(&s->guarded_ns);
    return times;
}
