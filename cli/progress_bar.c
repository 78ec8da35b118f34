#include "cli/progress_bar.h"
#include "base/num.h"
#include <ctype.h>
#include <string.h>

/* Seconds between two counts, so that the whole seconds of both are a twentieth of it at most. */
enum { WINDOW_S = 40 };

/* A count of at most nine digits, behind which *text is left. */
static bool read_count(const char **text, int64_t *out)
{
    size_t digits = strspn(*text, "0123456789");
    *out = 0;
    for (size_t i = 0; i < digits && i < 9; i++)
        *out = 10 * *out + (*text)[i] - '0';
    *text += digits;
    return digits > 0 && digits <= 9;
}

/* Skips what a launcher puts before the lines of a process, such as "[default0]:", "0: " or "10.0.0.1: "; words
 * without a number are what a loop calls itself. */
static const char *behind_rank(const char *line)
{
    size_t length = strcspn(line, " \t:|");
    bool numbered = false;
    for (size_t i = 0; i < length; i++)
        numbered = numbered || isdigit((unsigned char)line[i]);
    return numbered && line[length] == ':' ? line + length + 1 : line;
}

bool progress_bars_read(struct progress_bars *bars, struct arena *arena, const char *line)
{
    struct progress_point point = { 0 };
    int64_t percent, part;
    const char *at = behind_rank(line);
    at += strspn(at, " \t");
    if (!read_count(&at, &percent) || strncmp(at, "%|", 2) != 0 || !(at = strchr(at + 2, '|')))
        return true;
    at += 1 + strspn(at + 1, " ");
    if (!read_count(&at, &point.done) || *at++ != '/' || !read_count(&at, &point.total) || strncmp(at, " [", 2) != 0)
        return true;
    at += 2;
    for (int parts = 0; parts < 3; parts++, at++) { /* [hours:]minutes:seconds */
        if (!read_count(&at, &part))
            return true;
        point.elapsed_s = 60 * point.elapsed_s + part;
        if (*at != ':')
            break;
    }
    if (*at != '<' || point.done > point.total)
        return true;
    struct progress_point *more = arena_more(arena, bars->points, bars->count, &bars->capacity, sizeof *more);
    if (!more)
        return false;
    bars->points = more;
    bars->points[bars->count++] = point;
    return true;
}

bool progress_bars_pace(struct progress_pace *out, const struct progress_bars *bars, struct arena *arena)
{
    const struct progress_point *longest = NULL, *from = NULL;
    double *steps_s = arena_alloc(arena, (size_t)bars->count + 1, sizeof *steps_s);
    int count = 0;
    *out = (struct progress_pace){ 0 };
    if (!steps_s)
        return false;
    for (int i = 0; i < bars->count; i++)
        if (bars->points[i].done > 0 && (!longest || bars->points[i].elapsed_s >= longest->elapsed_s))
            longest = &bars->points[i];
    if (!longest)
        return true;
    for (int i = 0; i < bars->count; i++) {
        const struct progress_point *point = &bars->points[i];
        if (point->total != longest->total || point->done == 0)
            continue;
        if (!from || point->done < from->done || point->elapsed_s < from->elapsed_s) {
            from = point; /* the first step's end, or that of a run that began anew */
        } else if (point->done > from->done && point->elapsed_s - from->elapsed_s >= WINDOW_S) {
            steps_s[count++] = (double)(point->elapsed_s - from->elapsed_s) / (double)(point->done - from->done);
            from = point;
        }
    }
    *out = (struct progress_pace){ (int)longest->done, count, (double)longest->elapsed_s / (double)longest->done };
    if (count > 0)
        out->step_s = median_of(steps_s, count);
    return true;
}
