/* The heap of a process that makes and frees much small data. */
#ifndef CLEAVE_HOST_HEAP_H
#define CLEAVE_HOST_HEAP_H
/* The program calls this once, before that: from here on the heap lies in large pages where the system has them, and
 * keeps what is freed. Searches want it: lowering one program after the other, they would spend a fifth of their time
 * on getting pages. It does nothing where the system knows no such pages. */
void heap_expect_much(void);
#endif
