/* Scripts of a shell, of which the arguments of a launch are read: functions, choices, and forms of commands. */
#include "targets/shell.h"
#include "tests/megatron_launches.h"
#include "tests/target_launches.h"

/* A function runs where it is called, with what it is given then, and not at all where nobody calls it. */
START_TEST(test_functions)
{
    static const char script[] =
        "usage() { echo 'train.sh'; torchrun pretrain_gpt.py --tensor-model-parallel-size 16; exit 1; }\n"
        "function train {\n  local tp=$1; shift\n  if [[ $# -gt 5 ]]; then return; fi\n"
        "  torchrun --nproc_per_node 8 --nnodes ${NODES} pretrain_gpt.py \\\n    --tensor-model-parallel-size ${tp} "
        "\\\n"
        "    \"$@\" --bf16\n}\n"
        "function unused ()\n{\n  NODES=64\n}\n"
        "main() {\n  NODES=2\n  train 4 --sequence-parallel --global-batch-size \"$1\"\n}\n"
        "NODES=1\n[ -z \"$1\" ] || usage\nmain 64\n";
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct launch_read read = read_text(megatron(), &arena, "train.sh", script);
    ck_assert_int_eq(read.devices, 16);
    ck_assert_int_eq(read.launch.tensor, 4);
    ck_assert(read.launch.sequence_parallel);
    ck_assert_int_eq(read.launch.batch, 64);
    ck_assert_int_eq(read.launch.dtype, DTYPE_BF16);
    static const char *const refused[][2] = {
        { "train() ( torchrun a.py --bf16 )\n", "train.sh:1: function train: expected { and its commands" },
        { "a=1\ntrain() {\n torchrun a.py --bf16\n", "function train of line 2: expected } at its end" },
        { "train() { train; }\ntrain\n", "function train: more than 8 calls inside each other" },
    };
    for (int i = 0; i < 3; i++) {
        err = (struct error){ 0 };
        ck_assert(!megatron()->read(&read, &arena, "train.sh", refused[i][0], strlen(refused[i][0]), &err));
        ck_assert_msg(strstr(err.message, refused[i][1]), "%s", err.message);
    }
    arena_free(&arena);
}
END_TEST

START_TEST(test_forms)
{
    /* a variable of arguments, a command for another shell, a list of lines, batch lines */
    static const struct {
        const char *text;
        int tensor, devices;
    } cases[] = {
        { "A=\"--tensor-model-parallel-size 4 \\\n --micro-batch-size 1\"\ntorchrun --nproc-per-node 8 p.py $A", 4, 8 },
        { "cmd=\"python p.py --tensor-model-parallel-size 2 --micro-batch-size 1\"\nsrun -N 2 --ntasks-per-node=4 bash "
          "-c \"$cmd\"",
          2, 0 },
        { "--tensor-model-parallel-size 8\n--micro-batch-size 2\n", 8, 0 },
        { "#!/bin/bash\n#SBATCH --nodes=4 --ntasks-per-node=8\nsrun python p.py --tensor-model-parallel-size 4 "
          "--micro-batch-size 1",
          4, 32 },
        { "export WORLD_SIZE=16\ncat <<EOF\n--tensor-model-parallel-size 3\nEOF\npython p.py "
          "--tensor-model-parallel-size=4 --micro-batch-size=1 > log 2>&1 &",
          4, 16 },
        { "A=()\npython p.py --tensor-model-parallel-size 2 --cp-comm-type a2a \"${A[@]}\"", 2, 0 },
        { "for i in 1 2; do\n true && python p.py --tensor-model-parallel-size $((1 + 1)) --micro-batch-size 1; done",
          2, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read read = read_text(megatron(), &arena, "args", cases[i].text);
        ck_assert_msg(read.launch.tensor == cases[i].tensor && read.devices == cases[i].devices, "%s: %d, %d",
                      cases[i].text, (int)read.launch.tensor, (int)read.devices);
        ck_assert_ptr_null(read.model);
        arena_free(&arena);
    }
}
END_TEST

/* case takes the first item whose pattern fits, up to its ;;, which may stand on a line of its own. */
START_TEST(test_choices)
{
    static const struct {
        const char *text;
        int tensor;
    } cases[] = {
        { "N=2\ncase $N in\n 2) T=4;\n ;;\n 4) T=8;;\nesac\n", 4 },
        { "N=4\ncase $N in\n 2) T=4;\n ;;\n 4) T=8; ;;\nesac\n", 8 },
        { "N=4\r\ncase $N in\r\n 2|4) T=4\r\n ;;\r\nesac\r\n", 4 },
        { "N=7b\ncase $N in [0-6]b) T=2;; [!0-6]b) T=4;; *) T=8;; esac\n", 4 },
        { "N=3b\ncase $N in [0-6]b) T=2;; [^0-6]b) T=4;; *) T=8;; esac\n", 2 },
        { "f() {\n case $1 in a) T=4; return;; *) T=2;; esac\n T=8\n}\nf a\n", 4 },
        { "f() {\n case $1 in a) T=4; return;; *) T=2;; esac\n T=8\n}\nf b\n", 8 },
        { "T=1\n[[ a == b ]] && case a in a) T=2;; esac\nT=$((T + 3))\n", 4 },
        { "T=1\n[[ a == b ]] && { T=2; T=8; }\n[[ a == a ]] && { T=$((T + 2)); T=$((T + 1)); }\n", 4 },
        { "T=4\necho \"case sensitive --tp\"\n", 4 },
        { "T=4\necho \"T=8; case sensitive --tp\"\n", 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        char text[512];
        snprintf(text, sizeof text, "%spython p.py --tensor-model-parallel-size $T --micro-batch-size 1\n",
                 cases[i].text);
        struct launch_read read = read_text(megatron(), &arena, "args", text);
        ck_assert_msg(read.launch.tensor == cases[i].tensor, "%s: %d", text, (int)read.launch.tensor);
        arena_free(&arena);
    }
    static const char *const refused[][2] = {
        { "case a in a) T=2;& b) T=4;; esac\n",
          "args:1: case: expected ;; behind an item, found ;&, which is not read" },
        { "case a in a) T=2;;& esac\n", "found ;;&, which is not read" },
        { "case a in a) T=2;;\n", "case of line 1: expected esac at its end" },
        { "srun bash -lc 'case a in a) T=2;& esac; p.py --bf16'\n", "args:1: case: expected ;; behind an item" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        struct arena arena = { 0 };
        struct launch_read read;
        struct error err = { 0 };
        ck_assert(!megatron()->read(&read, &arena, "args", refused[i][0], strlen(refused[i][0]), &err));
        ck_assert_msg(strstr(err.message, refused[i][1]), "%s", err.message);
        arena_free(&arena);
    }
}
END_TEST

/* What T is at the end of a script, as bash says it. False: there is no bash. */
static bool ask_bash(const char *script, char *out, size_t room)
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

/* Lists of && and ||, compound commands within them, subshells and patterns do as bash does. */
START_TEST(test_as_bash)
{
    static const char *const scripts[] = {
        "T=1; [[ a == b ]] && { T=2; } || T=8",
        "T=1; [[ a == b ]] && { T=2; } && T=4",
        "T=1; [[ a == a ]] && { T=2; } || T=8",
        "T=1; [[ a == a ]] && { T=2; false; } || T=8",
        "T=1; [[ a == a ]] || { T=2; } && T=4",
        "T=1; [[ a == a ]] || { T=2; } || T=4",
        "T=1; [[ a == b ]] && if true; then T=2; fi || T=4",
        "T=1; [[ a == b ]] && { true && T=2 || T=3; { T=5; }; } || T=8",
        "T=1; if false; then T=2; fi && T=4",
        "T=1; if false; then T=2; elif false; then T=3; fi && T=4",
        "T=1; if true; then false; elif true; then T=3; fi || T=4",
        "T=1; if false; then T=2; elif [[ a == a ]]; then T=3; else T=5; fi && T=$((T + 4))",
        "T=1; if false; then T=2; else false; fi || T=4",
        "T=1; if true; then if false; then T=2; else T=3; fi; else T=4; fi",
        "T=1; if [[ a == a ]] && { false || true; }; then T=2; fi",
        "T=1; [[ a == b ]] && for i in 1; do T=8; done",
        "T=1; [[ a == b ]] && for i in 1; do T=8; done || T=3",
        "T=1; for i in 1; do T=8; done && T=$((T + 1))",
        "T=1; while false; do T=8; done && T=$((T + 1))",
        "T=1; until true; do T=8; done",
        "T=1; [[ a == b ]] && while true; do T=8; break; done",
        "T=1; [[ a == b ]] && ( T=4; T=8 )",
        "T=1; [[ a == b ]] && ( T=4; T=8 ) || T=2",
        "T=1; ( T=4; T=8 ); T=$((T + 1))",
        "T=1; (( 1 )) && T=2; echo <(true) >/dev/null; ( T=3; (T=4); T=$((T + 1)); false ) || T=$((T + 6))",
        "T=1; f() { [[ a == b ]]; }; f && T=2",
        "T=1; f() { return 1; T=8; }; f || T=$((T + 2))",
        "T=1; false; case a in b) T=2;; esac && T=4",
        "T=1; case a in a) false;; esac || T=4",
        "T=1; [[ a == b ]] && case a in a) T=2;; esac || T=$((T + 4))",
        "T=1; [[ a == b ]] && echo x | grep -q x && T=2; [[ a == b ]] || export T=$((T + 4))",
        "T=1; case 7b in [[:digit:]]b) T=2;; *) T=4;; esac",
        "T=1; case xb in [[:digit:]_]b) T=2;; [![:digit:]]b) T=4;; esac",
        "T=; for c in x; do for p in 1; do case _ in [[:punct:]]) T=${T}1;; esac; case ! in [[:graph:]]) T=${T}2;; "
        "esac; case A in [[:lower:]]) T=${T}3;; [[:xdigit:]]) T=${T}4;; esac; case 1 in [[:alpha:][:space:]]) T=5;; "
        "[^[:upper:]]) T=${T}6;; esac; done; done",
        "T=1; case ]b in []a]b) T=2;; *) T=4;; esac",
        "T=1; case bb in [!]a]b) T=2;; *) T=4;; esac",
        "T=1; bash -c \"T=4; true --x\"; T=$((T + 1))",
        "T=1; echo \"T=4; a --x\" >/dev/null; T=$((T + 1))",
        "T=1; eval \"T=4; true --x\"; T=$((T + 1))",
        "T=1; N=4; (( N > 4 )) && T=2 || T=3",
        "T=1; N=2; if (( N * 2 >= 4 && N != 3 )); then T=5; fi",
        "T=1; (( 0 )) || T=7; (( $T == 7 )) && T=$((T + 1))",
        "T=1; [[ a == b ]] && (( 1 )) && T=4; [[ a == b ]] || (( T )) && T=$((T + 1))",
        "T=1; (( 1 )) && echo a | cat >/dev/null && T=2; if ! (( 2 < 1 )); then T=$((T + 4)); fi",
        "T=$(( (1 + 2) * 3 == 9 )); T=$((T + 7 % 4 - -2 + !0 + (3 <= 2 || 1)))",
        "T=1; while (( T > 8 )); do T=2; done; for i in 1; do (( T )) && T=3; done",
        "T=1; [[ llama-3 == llama* ]] && T=2; [[ abc != a?c ]] && T=4; [ abc = 'a*' ] && T=8",
        "T=1; M=qwen3; if [[ \"$M\" == *3 && $M != llama* ]]; then T=2; fi",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++) {
        struct arena arena = { 0 };
        struct shell_script script;
        struct error err = { 0 };
        char said[256];
        ck_assert_msg(shell_read(&script, &arena, "args", scripts[i], strlen(scripts[i]), &err), "%s", err.message);
        if (ask_bash(scripts[i], said, sizeof said))
            ck_assert_msg(strcmp(said, shell_value(&script, "T")) == 0, "%s: bash says %s, read as %s", scripts[i],
                          said, shell_value(&script, "T"));
        arena_free(&arena);
    }
}
END_TEST

static Suite *target_scripts_suite(void)
{
    Suite *suite = suite_create("target_scripts");
    CHECK_ADD(suite, test_functions);
    CHECK_ADD(suite, test_forms);
    CHECK_ADD(suite, test_choices);
    CHECK_ADD(suite, test_as_bash);
    return suite;
}

CHECK_MAIN(target_scripts_suite)
