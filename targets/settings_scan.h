/* Characters of a configuration with their place. Private to the readers of settings. */
#ifndef CLEAVE_TARGETS_SETTINGS_SCAN_H
#define CLEAVE_TARGETS_SETTINGS_SCAN_H
#include "base/text.h"
#include "targets/settings.h"

struct scan {
    struct settings *settings;
    const char *at, *end;
    int line;
    const char *line_start;
    struct text buffer; /* of the value that is being read */
    struct error *err;
};
/* Refuses zeros and texts that are not UTF-8. */
bool scan_begin(struct scan *scan, struct settings *settings, const char *text, size_t length, struct error *err);
/* "name:line:column: message" here. Returns false. */
bool scan_fail(const struct scan *scan, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline int scan_column(const struct scan *scan)
{
    return (int)(scan->at - scan->line_start) + 1;
}
/* '\0' at the end. */
static inline char scan_peek(const struct scan *scan)
{
    return scan->at < scan->end ? *scan->at : '\0';
}
char scan_next(struct scan *scan);
bool scan_takes(struct scan *scan, const char *word); /* only if it stands here */
void scan_blanks(struct scan *scan);                  /* spaces and tabs */
void scan_line_end(struct scan *scan);                /* up to the end of the line, not over it */
/* A quoted string, which begins here, into the buffer, behind what is there. escapes: whether a backslash means
 * something. triple: three quotes, which go over lines. */
bool scan_string(struct scan *scan, bool escapes);
/* An expression up to one of the stops or the end of the line outside of all brackets, trimmed, without comments and
 * line breaks, into the buffer. A string that is all of it is unquoted. */
bool scan_expression(struct scan *scan, const char *stops);

/* A key with those of the sections around it, joined by dots. */
enum { SCAN_KEY_BYTES = 512 };
struct scan_path {
    char name[SCAN_KEY_BYTES];
    size_t length;
};
bool scan_path_add(struct scan_path *path, const char *name, size_t length); /* false: it has not so much room */
/* Bare or quoted names joined by dots, which stand here, and blanks behind them; adds them to the path. */
bool scan_key(struct scan *scan, struct scan_path *path);
/* Goes over the end of the line, before which is nothing but a comment. */
bool scan_ends_line(struct scan *scan);
/* Adds what is in the buffer, unless the key stands there already, from setting `first` on. */
bool scan_add_new(struct scan *scan, int first, const struct scan_path *path, int line, int column);
#endif
