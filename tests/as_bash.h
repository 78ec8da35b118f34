/* Scripts whose variable T is to be read as bash leaves it. */
#ifndef CLEAVE_TESTS_AS_BASH_H
#define CLEAVE_TESTS_AS_BASH_H
#include "targets/shell.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

/* What T is at the end of a script, as bash says it. False: there is no bash. */
static inline bool ask_bash(const char *script, char *out, size_t room)
{
    char command[1024];
    snprintf(command, sizeof command, "bash -c '%s\necho $T' 2>&1", script);
    FILE *bash = popen(command, "r");
    ck_assert_ptr_nonnull(bash);
    size_t length = fread(out, 1, room - 1, bash);
    out[length] = 0;
    out[strcspn(out, "\n")] = 0;
    return pclose(bash) != 127 << 8;
}

static inline void check_as_bash(const char *text)
{
    struct arena arena = { 0 };
    struct shell_script script;
    struct error err = { 0 };
    char said[256];
    ck_assert_msg(shell_read(&script, &arena, "args", text, strlen(text), NULL, NULL, &err), "%s", err.message);
    if (ask_bash(text, said, sizeof said))
        ck_assert_msg(strcmp(said, shell_value(&script, "T")) == 0, "%s: bash says %s, read as %s", text, said,
                      shell_value(&script, "T"));
    arena_free(&arena);
}
#endif
