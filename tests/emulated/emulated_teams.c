/* Teams in place of the blocks of a grid. Under sanitizers their threads are the system's, with real barriers. Else one
 * system thread runs them all in turns, from barrier to barrier, since nearly all of the time would go to waking who
 * waits; the turns go up and down alternately, so that a missing barrier lets a thread see what another one has not
 * written yet, whichever of the two comes first. */
#define _GNU_SOURCE
#include "executor/gpu/bodies/all.h"
#include "tests/emulated/emulated.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SYSTEM_THREADS 1
#else
#define SYSTEM_THREADS 0
#endif

typedef void body_function(const struct team *team, const struct gpu_work *work);

static body_function *const bodies[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(id, function, threads) [GPU_##id] = function,
#include "executor/gpu/kernels.def"
};
static const int body_threads[GPU_KERNEL_COUNT] = {
#define GPU_KERNEL(id, function, threads) [GPU_##id] = threads,
#include "executor/gpu/kernels.def"
};

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

#if SYSTEM_THREADS
void team_meet(const struct team *team)
{
    if (team->barrier)
        pthread_barrier_wait(team->barrier);
}

static void run_members(struct member *members, int count)
{
    pthread_t handles[EMULATED_THREADS];
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, (unsigned)count);
    for (int i = 0; i < count; i++) {
        members[i].team.barrier = &barrier;
        if (i > 0 && pthread_create(&handles[i], NULL, member_main, &members[i]) != 0)
            abort(); /* the others would wait for it for ever */
    }
    member_main(&members[0]);
    for (int i = 1; i < count; i++)
        pthread_join(handles[i], NULL);
    pthread_barrier_destroy(&barrier);
}
#else
enum { STACK_BYTES = 1 << 17 };

struct turns {
    struct member *members;
    ucontext_t caller, own[EMULATED_THREADS];
    int at, ended; /* whose turn it is; how many have no more */
};

void team_meet(const struct team *team)
{
    struct turns *turns = team->barrier;
    if (turns)
        swapcontext(&turns->own[team->thread], &turns->caller);
}

/* makecontext() passes numbers alone: the two halves of the address. */
static void turn_main(unsigned high, unsigned low)
{
    struct turns *turns = (struct turns *)(uintptr_t)((uint64_t)high << 32 | low);
    member_main(&turns->members[turns->at]);
    turns->ended++;
}

static void run_members(struct member *members, int count)
{
    static const int protection = PROT_READ | PROT_WRITE, kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    struct turns turns = { .members = members };
    char *stacks = mmap(NULL, (size_t)count * STACK_BYTES, protection, kind, -1, 0);
    if (stacks == MAP_FAILED)
        abort();
    for (int i = 0; i < count; i++) {
        members[i].team.barrier = &turns;
        getcontext(&turns.own[i]);
        turns.own[i].uc_stack.ss_sp = stacks + (size_t)i * STACK_BYTES;
        turns.own[i].uc_stack.ss_size = STACK_BYTES;
        turns.own[i].uc_link = &turns.caller;
        makecontext(&turns.own[i], (void (*)(void))turn_main, 2, (unsigned)((uint64_t)(uintptr_t)&turns >> 32),
                    (unsigned)(uintptr_t)&turns);
    }
    for (int turn = 0; turns.ended == 0; turn++) {
        for (int i = 0; i < count; i++) {
            turns.at = turn % 2 ? count - 1 - i : i;
            swapcontext(&turns.caller, &turns.own[turns.at]);
        }
        if (turns.ended % count != 0)
            abort(); /* some wait for ever at a barrier to which the others do not come */
    }
    munmap(stacks, (size_t)count * STACK_BYTES);
}
#endif

void emulated_teams(enum gpu_kernel kernel, int threads, int64_t teams, const struct gpu_work *work)
{
    threads = threads < body_threads[kernel] ? threads : body_threads[kernel];
    struct member members[EMULATED_THREADS];
    double reduce[EMULATED_THREADS];
    real *shared = malloc((size_t)(work->shared_reals + 1) * sizeof *shared);
    if (!shared)
        abort();
    memset(shared, 0xff, (size_t)work->shared_reals * sizeof *shared);
    for (int i = 0; i < threads; i++)
        members[i] =
            (struct member){ { .thread = i, .threads = threads, .count = teams, .reduce = reduce, .shared = shared },
                             work,
                             bodies[kernel] };
    if (threads > 1)
        run_members(members, threads);
    else
        member_main(&members[0]);
    free(shared);
}
