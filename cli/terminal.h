/* What the program says, on its way out: bytes that came from files never command the terminal. */
#ifndef CLEAVE_CLI_TERMINAL_H
#define CLEAVE_CLI_TERMINAL_H
#include <stdio.h>

/* A stream to the descriptor (standard output or error) that shows control characters and what is no UTF-8 as \xNN.
 * NULL: out of memory. It is open until the program ends. */
FILE *terminal_open(int descriptor);
/* Back to the beginning of the line, which becomes empty. */
void terminal_clear_line(FILE *stream);
#endif
