/* Teams of threads with real barriers, in place of the blocks of a grid. */
#define _POSIX_C_SOURCE 200809L
#include "executor/gpu/bodies/all.h"
#include "tests/emulated/emulated.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef void body_function(const struct team *team, const struct gpu_work *work);

static body_function *const bodies[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(id, function, threads) [GPU_##id] = function,
#include "executor/gpu/kernels.def"
};
static const int body_threads[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(id, function, threads) [GPU_##id] = threads,
#include "executor/gpu/kernels.def"
};

void team_meet(const struct team *team)
{
    if (team->barrier)
        pthread_barrier_wait(team->barrier);
}

struct member {
    struct team team;
    const struct gpu_work *work;
    body_function *body;
};

static void *member_main(void *argument)
{
    struct member *member = argument;
    for (int64_t place = 0; place < member->team.count; place++) {
        member->team.place = place;
        member->body(&member->team, member->work);
        team_meet(&member->team); /* the next team has the same fast memory */
    }
    return NULL;
}

void emulated_teams(enum gpu_kernel kernel, int threads, int64_t teams, const struct gpu_work *work)
{
    threads = threads < body_threads[kernel] ? threads : body_threads[kernel];
    struct member members[EMULATED_THREADS];
    pthread_t handles[EMULATED_THREADS];
    pthread_barrier_t barrier;
    double reduce[EMULATED_THREADS];
    real *shared = malloc((size_t)(work->shared_reals + 1) * sizeof *shared);
    if (!shared)
        abort();
    memset(shared, 0xff, (size_t)work->shared_reals * sizeof *shared);
    pthread_barrier_init(&barrier, NULL, (unsigned)threads);
    for (int i = 0; i < threads; i++) {
        members[i] = (struct member){ { .thread = i,
                                        .threads = threads,
                                        .count = teams,
                                        .reduce = reduce,
                                        .shared = shared,
                                        .barrier = threads > 1 ? &barrier : NULL },
                                      work,
                                      bodies[kernel] };
        if (i > 0 && pthread_create(&handles[i], NULL, member_main, &members[i]) != 0)
            abort(); /* the others would wait for it for ever */
    }
    member_main(&members[0]);
    for (int i = 1; i < threads; i++)
        pthread_join(handles[i], NULL);
    pthread_barrier_destroy(&barrier);
    free(shared);
}
