/* A page is mapped, and cleared, when it is first touched: 4 KiB at a time that costs more than the use that is made of
 * it. So the heap is asked for ahead, which takes addresses and no memory, and that range for large pages. */
#include "host/heap.h"
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#if defined(__GLIBC__) && defined(MADV_HUGEPAGE)
enum { AHEAD_BYTES = 192 << 20, LATER_BYTES = 1 << 20, KEPT_BYTES = 192 << 20 };

void heap_expect_much(void)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), begin = ((uintptr_t)sbrk(0) + page - 1) / page * page;
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    mallopt(M_MMAP_MAX, 0); /* what is mapped for itself comes in small pages */
    mallopt(M_TOP_PAD, AHEAD_BYTES);
    void *volatile grown = malloc(LATER_BYTES); /* volatile: else the compiler may leave out both calls */
    free(grown);
    mallopt(M_TOP_PAD, LATER_BYTES);
    uintptr_t end = (uintptr_t)sbrk(0) / page * page;
    if (end > begin)
        madvise((void *)begin, end - begin, MADV_HUGEPAGE); /* who does not take the advice loses nothing */
}
#else
void heap_expect_much(void) {}
#endif
