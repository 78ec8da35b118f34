/* The arithmetic type of kernels: float, or double where CLEAVE_REAL_DOUBLE is defined (oracle builds). */
#ifndef CLEAVE_EXECUTOR_REAL_H
#define CLEAVE_EXECUTOR_REAL_H

#ifdef CLEAVE_REAL_DOUBLE
typedef double real;
#else
typedef float real;
#endif
#endif
