/* The one way to fail: a bool result plus a message that says where, what was expected, what was
 * found. */
#ifndef CLEAVE_BASE_ERROR_H
#define CLEAVE_BASE_ERROR_H
#include <stdbool.h>

/* The value is the exit code of the program. */
enum error_kind {
    ERROR_NONE = 0,
    ERROR_ENVIRONMENT = 1, /* a runtime failure: no memory, no GPU, a rank died, a full disk */
    ERROR_INPUT = 2,       /* bad input or usage */
    ERROR_INFEASIBLE = 3,  /* nothing fits */
    ERROR_GATE = 4,        /* a check or gate did not hold */
    ERROR_BUG = 70         /* ours */
};

enum { ERROR_MESSAGE_BYTES = 2048 };

struct error {
    enum error_kind kind;
    bool ended; /* of ERROR_ENVIRONMENT: time was over, or somebody cancelled, before there was an answer */
    char message[ERROR_MESSAGE_BYTES];
};

/* All always return false and keep the FIRST cause: a later call on a filled error changes
 * nothing. err may be NULL. */
bool fail(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool fail_kind(struct error *err, enum error_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));
bool fail_memory(struct error *err); /* there is none left: an error of the environment */
/* An error of the environment, too, but an end that was asked for. */
bool fail_ended(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
bool fail_with(struct error *err, const struct error *cause); /* the cause, of whom err has not heard */

/* Notes that a text or an arena of this process has asked in vain, and says whether any has: what was then put together
 * may be cut, however far the one who asked is from who writes it. So no file is written from there on, and the program
 * ends with ERROR_ENVIRONMENT. From any thread. */
void memory_fell_short(void);
bool memory_has_fallen_short(void);

/* Puts "prefix: " before the message of a filled error (which file, which layer). Returns false. */
bool error_within(struct error *err, const char *format, ...) __attribute__((format(printf, 2, 3)));
#endif
