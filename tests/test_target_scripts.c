/* Scripts of a shell, of which the arguments of a launch are read: functions, choices, and forms of commands. */
#include "targets/settings.h"
#include "targets/shell.h"
#include "tests/as_bash.h"
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
        "function   unused ( )\n{\n  NODES=64\n}\n"
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
        { "A=\" --micro-batch-size '1' \"\neval python p.py $A --tensor-model-parallel-size \"'2'\"", 2, 0 },
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
        { "T=4\n)\n", 4 }, /* behind which all is read */
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
        { "case a in a b) T=2;; esac\n", "args:1: case: expected ) behind a pattern" },
        { "case a in a) case a in a) case a in a) case a in a) case a in a) case a in a) case a in a) case a in a) "
          "case a in a) T=2;; esac;; esac;; esac;; esac;; esac;; esac;; esac;; esac;; esac\n",
          "args:1: more than 8 choices inside each other" },
        { "T=${A:-${A:-${A:-${A:-${A:-${A:-${A:-${A:-${A:-2}}}}}}}}}\n",
          "args:1: more than 8 expansions inside each other" },
        { "for a in 'b\n", "args:1: a quote ' that ends nowhere" },
        { "(( a = ${b )) --bf16\n", "args:1: ${ that ends nowhere" },
        { "(( ${b )) --bf16\n", "args:1: ${ that ends nowhere" },
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
        "read -r A B <<< \"x y\"\nT=4; cat <<< EOF >/dev/null\nT=$((T + 1))",
        "T=$((1<<12)); T=$((T + (256 >> 4) + 2**3**2 - (5 < 1 << 3) + -2**2))",
        "T=$(( )); N=; T=$((T + 15 / 2 + N - (N < 1)))",
        "N=3; (( N = N * 2 )); (( N += 4 )); ((N++)); (( N<<=1 )); T=$N; (( N -= 22 )) || T=$((T + 1))",
        "T=2; (( T-- )) && (( T *= 5 )) && ! (( T == 4 )) && T=$((T + 1))",
        "T=1; [[ a == a || a == a && a == b ]] && T=2; [[ ( a == a || a == a ) && a == b ]] || T=$((T + 4))",
        "T=1; [ a = a -o a = a -a a = b ] && T=2; [ \"(\" a = b \")\" -o -n x ] && T=$((T + 1)); test a -a \"\" || "
        "T=${T}0",
        "T=1; [[ $1 == a ]] && T=2; [[ -n $1 ]] && T=4; [[ -z $1 && $1 != a ]] && T=${T}5",
        "T=1; [[ a < b && ! b < a && b > a ]] && T=2; [[ -z \"\" && ! -z x ]] && T=${T}1; ! [[ a == b && x ]] && "
        "T=${T}2",
        "T=; for n in 1 2; do :; done; for n in \"-eq 1\" \"-ge 2\"; do :; done; N=2; [[ $N -gt 1 && $N -ge 2 && $N "
        "-lt 3 && "
        "$N -le 2 && $N -ne 1 && $N -eq 2 ]] && T=5; [[ x -eq 5 ]] || T=${T}6; [ ] || T=${T}7; [ ! ] && T=${T}8",
        "A=(a bb ccc); N=four; T=${#A[@]}${#N}${#A}${A[2]}${A[1]:-x}${A[7]:-y}${#A[*]}; T=$T$((${#A[@]} * 8))",
        "T=; for n in 8; do T=$T$n; done; f() { for n; do T=$T$n; break; done; T=$T$#; }; f a b; false; T=$T$?; true; "
        "T=$T$?",
        "(T=$((1 + 1)))\nT=$((3))",
        "T=; for ((i = 0; i < 1; i++)); do T=${T}1; done; for n in $T; do T=$T$n; done",
        "IFS=, read -r A B <<< \"x,y,z\"; read -r C D <<< \"1 2\"; read E F <<< 7; read <<< q; T=$A-$B-$C-$D-$E-$F",
        "IFS=, read -ra A <<< \"0,1,,3,\"; read -e B <<< x; read -r -a C <<< \" 4  5 \"; "
        "T=${#A[@]}${A[3]}$B${#C[@]}${C[1]}",
        "IFS=:; read A B <<< \"1:2:\"; IFS=\"/;\"; IFS=,: read C D <<< \"1, :2,,\"; read E F <<< \"3;4\"; "
        "T=$A-$B-$C-$D-$E-$F",
        "read A B <<< \"  1   2 3  \"; IFS= read C <<< \" 4 \"; read D E <<< \"5\n\"; read F G <<< \"6 \n7\"; "
        "T=$A-$B-$C-$D-$E-$F-$G",
        "T=1; A=1; B=3; if [[ \"$A\" == 1 &&\n\"$B\" == 2 ]]; then T=8; else T=2; fi; [[ $A == 1\n&& $B == 3 ]] && "
        "T=$((T + 1))",
        "T=1; [[ $RANKS -eq 0 ]] && T=4; [[ 2+2 -gt 3 && $RANKS -lt 1 ]] && T=${T}5; [ 2 -gt 1 ] && T=${T}6; [ \"\" "
        "-eq 0 ] "
        "2>/dev/null || T=${T}7",
        "E=(); T=1; for a in \"${E[@]}\"; do T=9; done && T=$((T + 1)); for a in; do T=9; done; for a in $T ${E[@]}; "
        "do T=${T}3; "
        "done",
        "T=1; set --; for a; do T=9; done; for a in \"$@\"; do T=9; done; f() { for a in $*; do T=9; done; }; f",
        "f() { T=$#$1; }; f \"${@}\"; g() { f \"${@}\"; T=$T${#}${#@}${?}${*}; }; set -- 1 2 3; g x \"y z\"; f "
        "\"${@}\" 5; T=$T-${*}",
        ": ${N:=8} ${M=4} ${N:=5}; if false; then : ${K:=2}; fi; f() { : ${L:=2}; }; A=(); : ${A[3]:-1}; "
        "T=$N$M${K:-6}${L:-7}",
        "T=`echo`1; T=\"$T`echo`2\"; N=a/b.c/d.e.f; "
        "T=$T-${N##*/}-${N#*/}-${N%.*}-${N%%.*}-${N##x}-${N%}-${X##*/}-${N:-x}",
        "A=(x.y z); T=${A[0]%.*}${A[1]#z}${A[4]#z}; N=\"a b\"; T=$T-${N# }-${N% *}; B=*; T=$T-${N%% $B}",
        "T=; f() { T=$T$#$1; }; f x 2>&1; f 2>/dev/null 1>&2; f 3 2 >/dev/null; [[ a<b ]] && f 12>/dev/null 4",
        "f() { shift 2; T=$1$#; shift 9; T=$T$#; shift 0; }; f 1 2 3 4; set -- 5 6 7; shift 2; T=$T$1",
        "N=3; T=; (( ++N )) && T=$N; (( --N )); (( -- N )); T=$T$N; Z=0; (( ++ Z )) || T=9; (( --Z )) || T=$T$Z; (( - "
        "-N )) "
        "&& T=${T}4",
        "T=1; N=0; (( N > 0 && 8 % N == 0 )) && T=2; (( N == 0 || 8 / N > 1 )) && T=${T}3; (( 1 && N || 0 && 1 / 0 )) "
        "|| T=${T}4",
        "T=$(( 1 || 1 / 0 ))$(( 0 && 3 ** 99 ))$(( 0 && (1 / 0) + 1 || 1 ))",
        "T=1; M=qwen3; if [[ \"$M\" == *3 && $M != llama* ]]; then T=2; fi",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        check_as_bash(scripts[i]);
}
END_TEST

/* A script whose T bash would say only where more is known than the script: it is empty here, which is said where it is
 * an option's value. */
START_TEST(test_what_comes_to_nothing)
{
    static const char *const cases[][2] = {
        { "T=$1", "$T (the script's 1st argument)" },
        { "N=${3}; T=\"$N\"", "$T (the script's 3rd argument)" },
        { "T=${13}", "$T (the script's 13th argument)" },
        { "T=${22}", "$T (the script's 22nd argument)" },
        { "T=${N:-$2}", "$T (the script's 2nd argument)" },
        { "T=$(nproc)", "$T" },
        { "T=`nproc`", "$T" },
        { "N=(a $(nproc)); T=${#N[@]}", "$T" },
        { "T=$((8 * NODES))", "$T" },
        { "T=$((1 + ))", "$T" },
        { "T=$((1 / 0))", "$T" },
        { "T=$((010))", "$T" },
        { "T=$((1 << 41))", "$T" },
        { "T=$((1 << 40 << 40))", "$T" },
        { "T=$((1 * 1099511627776 * 1099511627776))", "$T" },
        { "T=$((2 ** -1))", "$T" },
        { "T=$((2 ** 62 ** 3))", "$T" },
        { "T=$((3 ** 40))", "$T" },
        { "T=$((2**1**1**1**1**1**1**1**1**1**1))", "$T" },
        { "T=$(("
          "((((((((("
          "1"
          ")))))))))"
          "))",
          "$T" },
        { "T=$((1 ? 2 : 3))", "$T" },
        { "T=$(( (1 2) ))", "$T" },
        { "for T in $(seq 8); do :; done", "$T" },
        { "for T; do :; done", "$T" },
        { "N=(2 4); T=${N[$1]}", "$T" },
        { "(( T = NODES ))", "$T" },
        { "N=1; T=$((++N))", "$T" },
        { "read T <<< \"$(nproc)\"", "$T" },
        { "read -ra N <<< \"$(nproc)\"; T=${#N[@]}", "$T" },
        { "read T U <<< $1", "$T" },
        { "N=\"$@\"; T=$N", "$T" },
        { "N=($(nproc)); for T in \"${N[@]}\"; do :; done", "$T" },
        { "for T in \"$@\"; do :; done", "$T" },
        { "for T in $(seq 8) \"\"; do :; done", "$T" },
        { ": ${T:=$(nproc)}", "$T" },
        { "T=\"\"", "$T" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        static const char *const forms[] = { "--training.seq_len $T", "--training.seq_len=$T",
                                             "--training.seq_len \"$T\"",
                                             "--training.seq_len \\\n  ${T} --training.steps 4" };
        for (size_t k = 0; k < sizeof forms / sizeof *forms; k++) {
            char text[256], says[256];
            snprintf(text, sizeof text, "%s\ntorchrun --module torchtitan.train %s\n", cases[i][0], forms[k]);
            snprintf(says, sizeof says,
                     "training.seq_len (%s expands to nothing here: write the value in its place, or set it before): "
                     "expected a whole number from 1 to 1073741824, found %s",
                     cases[i][1], cases[i][1]);
            check_refusal(target_find("torchtitan"), "run.sh", text, says);
        }
    }
    /* in a string of arguments, as a function's argument, with more behind it, and in Megatron-LM's reader */
    static const char *const refused[][3] = {
        { "torchtitan", "A=\"--training.seq_len $T --training.steps 4\"\ntorchrun --module torchtitan.train $A\n",
          "($T expands to nothing" },
        { "torchtitan", "C=\"torchrun --training.seq_len \\\"$T\\\" --training.steps 4\"\neval \"$C\"\n",
          "($T expands to nothing" },
        { "torchtitan", "f() { torchrun \"$@\"; }\nf --training.seq_len $(nproc) --training.steps 4\n",
          "($(nproc ...) expands" },
        { "torchtitan", "torchrun --training.seq_len $((8 * N))\n", "($((8 ...)) expands" },
        { "torchtitan", "torchrun --training.seq_len ${!N}\n", "($N expands" },
        { "torchtitan", "torchrun --training.seq_len $!\n", "(${...} expands" },
        { "torchtitan", "torchrun --training.seq_len ${N:-$M}\n", "($N expands" },
        { "torchtitan", "torchrun --training.enable_cpu_offload $N/x\n", "($N/x expands" },
        { "torchtitan", "torchrun --module torchtitan.train --job.config_file $CONFIG --training.seq_len 4096\n",
          "run.sh:1:36: job.config_file ($CONFIG expands" },
        { "deepspeed", "CONFIG=$1\ndeepspeed train.py --deepspeed $CONFIG --bf16\n",
          "run.sh:2:20: deepspeed ($CONFIG (the script's 1st argument) expands to nothing here" },
        { "accelerate-fsdp2", "accelerate launch --config_file $DIR/fsdp.yaml train.py --bf16\n",
          "config_file ($DIR/fsdp.yaml expands" },
        { "megatron-lm", "torchrun p.py --micro-batch-size 1 --tensor-model-parallel-size $TP --bf16\n",
          "--tensor-model-parallel-size: expected a value behind it, found $TP: write it there, set it before" },
        { "megatron-lm", "torchrun p.py --micro-batch-size 1 --tensor-model-parallel-size $4 --bf16\n",
          "found $4 (the script's 4th argument): write it there" },
        { "megatron-lm", "torchrun p.py --micro-batch-size 1 --tensor-model-parallel-size=$TP --bf16\n",
          "--tensor-model-parallel-size: expected a value behind it, found $TP" },
        { "megatron-lm", "torchrun p.py --micro-batch-size 1 --tensor-model-parallel-size --bf16\n",
          "found none (a variable that is not set?)" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        check_refusal(target_find(refused[i][0]), "run.sh", refused[i][1], refused[i][2]);
}
END_TEST

/* What need not have a value has none, which is listed unless the script says that it is empty. */
START_TEST(test_what_may_come_to_nothing)
{
    static const char begin[] =
        "torchrun --module torchtitan.train --training.seq_len 512 --training.enable_cpu_offload ";
    static const struct {
        const char *before, *behind, *listed;
    } cases[] = {
        { "", "$EXTRA", "training.enable_cpu_offload = $EXTRA (which is not set: read as if it were not there)" },
        { "EXTRA=\n", "$EXTRA", NULL },
        { "", "${EXTRA:-}", NULL },
        { "EXTRA=--training.steps\n", "${NONE:+x} $EXTRA 4", NULL },
        { "", "\"$@\"", NULL },
        { "", "$*", NULL },
        { "", "${@:2}", NULL },
        { "EXTRA=()\n", "${EXTRA[@]}", NULL },
        { "A=\n", "$A$(nproc)", "training.enable_cpu_offload = $(nproc ...) (which is not set: read as if" },
        { "", "--metrics.log_freq $FREQ", NULL }, /* without effect */
        { "", "\x01 --training.steps 4", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        char text[512];
        snprintf(text, sizeof text, "%s%s%s\n", cases[i].before, begin, cases[i].behind);
        bool broken = cases[i].behind[0] == 1;
        if (broken) {
            check_refusal(target_find("torchtitan"), "run.sh", text, "expected true or false");
            continue;
        }
        struct launch_read read = read_text(target_find("torchtitan"), &arena, "run.sh", text);
        ck_assert_msg(read.launch.offload == (OFFLOAD_OPTIMIZER | OFFLOAD_PARAMETERS), "%s", text);
        ck_assert_msg(read.unknown_count == (cases[i].listed != NULL), "%s: %d, %s", text, read.unknown_count,
                      read.unknown_count ? read.unknown[0] : "");
        if (cases[i].listed)
            ck_assert_msg(strncmp(read.unknown[0], cases[i].listed, strlen(cases[i].listed)) == 0, "%s",
                          read.unknown[0]);
        arena_free(&arena);
    }
}
END_TEST

/* What scripts ask of where they run is the cluster's, or what their lines for Slurm say; arguments are set by set --.
 */
START_TEST(test_places)
{
    static const struct {
        const char *text;
        struct shell_place place;
        const char *value; /* of T; "": it is not known */
    } cases[] = {
        { "T=$SLURM_NNODES-$SLURM_GPUS_PER_NODE-$SLURM_NTASKS\n", { 32, 4 }, "32-4-128" },
        { "T=$SLURM_JOB_NUM_NODES-${SLURM_GPUS_ON_NODE}-$SLURM_NPROCS\n", { 2, 8 }, "2-8-16" },
        { "T=$SLURM_NNODES\n", { 0, 0 }, "" },
        { "#SBATCH --nodes=4 --ntasks-per-node 1\n#SBATCH --gpus-per-node=h100:8\n"
          "T=$SLURM_NNODES-$SLURM_GPUS_PER_NODE-$SLURM_NTASKS-$SLURM_NTASKS_PER_NODE\n",
          { 0, 0 },
          "4-8-4-1" },
        { "#SBATCH -N 4\n#SBATCH --ntasks-per-node=8\n#SBATCH -n 6 --gpus-per-node 2\n"
          "T=$SLURM_NNODES-$SLURM_NTASKS-$SLURM_GPUS_PER_NODE\n",
          { 0, 0 },
          "4-6-2" },
        { "#SBATCH --nodes=4 --ntasks-per-node=1 --gpus-per-node=2\n"
          "T=$SLURM_NNODES-$SLURM_NTASKS-$SLURM_GPUS_PER_NODE\n",
          { 16, 8 },
          "16-16-8" },
        { "#SBATCH --nodes=2 --ntasks=64 --ntasks-per-node=1 "
          "--gres=gpu:2\nT=$SLURM_NNODES-$SLURM_NTASKS-$SLURM_GPUS_ON_NODE\n",
          { 1, 8 },
          "1-1-8" },
        { "#SBATCH --ntasks=64 -N4\nT=$SLURM_NNODES-$SLURM_NTASKS\n", { 1, 8 }, "1-8" },
        { "#SBATCH -N4 -n8\n#SBATCH --gres=nvme:1,gpu:h100:6,fpga:9\n"
          "T=$SLURM_NNODES-$SLURM_NTASKS-$SLURM_GPUS_ON_NODE-$SLURM_GPUS_PER_NODE\n",
          { 0, 0 },
          "4-8-6-" },
        { "#SBATCH --gres=nvme:1 --gres gpu -N\nT=$SLURM_GPUS_ON_NODE$SLURM_NNODES\n", { 0, 0 }, "" },
        { "SLURM_NNODES=4611686018427387904; SLURM_NTASKS_PER_NODE=4\n#SBATCH --x\nT=$SLURM_NTASKS\n", { 0, 0 }, "" },
        { "T=$(( $(nvidia-smi -L | wc -l) * 2 + ${N:-1} ))\n", { 1, 8 }, "17" },
        { "T=$((2 * $(python -c \"import torch; print(torch.cuda.device_count())\")))\n", { 1, 4 }, "8" },
        { "T=\"a`nvidia-smi -L | wc -l`\"\n", { 1, 4 }, "a4" },
        { "#SBATCH --nodes=none --gpus-per-node\nT=$SLURM_NNODES$SLURM_GPUS_PER_NODE\n", { 0, 0 }, "" },
        { "T=$(nvidia-smi -L | wc -l)\n", { 1, 8 }, "8" },
        { "T=`python -c \"import torch; print(torch.cuda.device_count())\"`\n", { 1, 4 }, "4" },
        { "T=$(nvidia-smi -L | wc -l)\n", { 0, 0 }, "" },
        { "T=$(nvidia-smi)\n", { 1, 8 }, "" },
        { "set -- 1 2 3\nT=$3-$#-$*; shift; T=$T-$1\n", { 0, 0 }, "3-3-1 2 3-2" },
        { "set -- 1 2 3 4 5 6 7 8 9 ten 11 12\nT=${10}-$10-${12}\n", { 0, 0 }, "ten-10-12" },
        { "f() { set -- 5 6; T=$2$1; }; f 1\n", { 0, 0 }, "65" },
        { "set -- $X; set -e; T=$1\n", { 0, 0 }, "" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct shell_script script;
        struct error err = { 0 };
        bool ok = shell_read(&script, &arena, "", cases[i].text, strlen(cases[i].text), &cases[i].place, NULL, &err);
        ck_assert_msg(ok, "%s", err.message);
        ck_assert_str_eq(shell_value(&script, "T"), cases[i].value);
        arena_free(&arena);
    }
}
END_TEST

/* A script that starts a recipe of Megatron-Bridge, as its examples for Slurm do. */
START_TEST(test_recipes_of_scripts)
{
    static const char begin[] = "#!/bin/bash\nCONFIGS=(\"2,1,1\" \"1,1,1\")\nfor CONFIG in \"${CONFIGS[@]}\"; do\n",
                      body[] = "  IFS=',' read -r TP PP CP <<< \"$CONFIG\"\n  A=(model.seq_length=$SEQ "
                               "train.global_batch_size=128)\n  O=\" \\\n model.tensor_model_parallel_size=$TP \\\n"
                               "  model.pipeline_model_parallel_size=$PP model.context_parallel_size=$CP\n\"\n"
                               "  C=\"uv run --no-sync run_recipe.py --recipe llama3_8b_pretrain_config\"\n"
                               "  srun bash -c \"$C ${A[*]} $O\"\ndone\n";
    const struct target *bridge = target_find("megatron-bridge");
    struct arena arena = { 0 };
    char text[1024];
    for (int i = 0; i < 2; i++) {
        snprintf(text, sizeof text, "%sSEQ=4096\n%s", begin, body);
        struct launch_read read = read_text(bridge, &arena, i ? "launch" : "a.sh", text);
        ck_assert(read.launch.tensor == 2 && read.launch.pipeline == 1);
        ck_assert(read.launch.sequence == 4096 && read.launch.batch == 128);
        ck_assert_ptr_nonnull(read.model);
        ck_assert_int_eq(read.unknown_count, 1);
        ck_assert_str_eq(read.unknown[0], "for CONFIG in 2,1,1 1,1,1 (line 3: read once, with 2,1,1)");
        model_free(read.model);
    }
    static const char *const words[] = {
        "torchrun run.py --recipe llama3_8b_pretrain_config logger.wandb_name=\"run #1\" =",
        "run.py --config=llama3_8b_pretrain_config logger.wandb_name=\"Bob's run; train.global_batch_size=8\"",
        "A=llama3_8b; run.py --config ${A}_pretrain_config +logger.wandb_name='a \"b' --logger.x=\"4#\n(\"",
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        snprintf(text, sizeof text,
                 "run.py --recipe x\n%s ++model.tensor_model_parallel_size=2 model.context_parallel_size=1 "
                 "\"cfg.train.x=a b\"\npython evaluate.py --config eval.yaml --config\n",
                 words[i]);
        struct launch_read read = read_text(bridge, &arena, "a.sh", text);
        ck_assert_int_eq(read.launch.tensor, 2);
        ck_assert_int_eq(read.launch.context, 1);
        ck_assert_int_eq(read.launch.batch, 512);
        ck_assert_int_eq(read.unknown_count, 0);
        model_free(read.model);
    }
    ck_assert_int_eq(read_text(bridge, &arena, "a.sh", "run.py train.x=1 --recipe\n").unknown_count, 1);
    snprintf(text, sizeof text, "%s%s", begin, body);
    check_refusal(bridge, "a.sh", text, "a.sh: model.seq_length: expected a value behind it, found none");
    check_refusal(bridge, "a.sh", "run.py --recipe x --train.global_batch_size=$GBS\n",
                  "a.sh: train.global_batch_size: expected a value behind it, found $GBS");
    check_refusal(bridge, "a.sh", "run.py --recipe x model.seq_length=x\n",
                  "a.sh: --seq-length: expected a whole number, found \"x\"");
    check_refusal(bridge, "a.sbatch", "echo 'x\n", "a.sbatch:1: a quote ' that ends nowhere");
    check_refusal(bridge, "a.slurm", "echo x\n", "expected a recipe of Megatron-Bridge");
    arena_free(&arena);
}
END_TEST

/* What Megatron-LM refuses of numbers says them, and what would do. */
START_TEST(test_numbers_of_refusals)
{
    static const char *const refused[][2] = {
        { "--num-layers 12 --pipeline-model-parallel-size 8", "found: 12 layers and 8 stages (layout)" },
        { "--num-layers 32 --pipeline-model-parallel-size 4 --expert-model-parallel-size 8 --num-experts 8",
          "found: 8 over 2 of data; it takes a multiple of 32 devices (ep-divides-data; " },
    };
    for (int i = 0; i < 2; i++) {
        char text[512];
        snprintf(text, sizeof text, "torchrun --nproc_per_node 8 p.py --micro-batch-size 1 %s\n", refused[i][0]);
        check_refusal(megatron(), "a.sh", text, refused[i][1]);
    }
}
END_TEST

START_TEST(test_too_many_options)
{
    struct text text = { 0 };
    text_add(&text, "torchrun");
    for (int i = 0; i <= SETTINGS_MOST; i++)
        text_add(&text, " --a 1");
    check_refusal(target_find("torchtitan"), "run.sh", text.data, "expected at most 4096 settings, found more");
    text_free(&text);
}
END_TEST

/* Conditions that are not understood are false, loops run once: both are listed. */
START_TEST(test_what_is_listed)
{
    static const struct {
        const char *text, *listed;
        int tensor;
    } cases[] = {
        { "T=2; [[ $MODE =~ ^(a|b c)$ ]] && T=4\n", "[[  =~ ^(a|b c ) $ ]] (line 1: taken as false)", 2 },
        { "T=2; [[ a =~ ^(a|b)$ || a == a ]] && T=4\n", NULL, 4 },
        { "T=2; [[ a =~ ^(a|b)$ && a == a ]] && T=4\n", "[[ a =~ ^(a|b)$ && a == a ]] (line 1: taken as false)", 2 },
        { "T=2; f() { [ -v X ] && T=4; }; f; f\n", "[ -v X ] (line 1: taken as false)", 2 },
        { "T=2\n! [[ -v X ]] && T=4\n", "! [[ -v X ]] (line 2: taken as false)", 2 },
        { "T=2; [ a b ] && T=4\n", "[ a b ] (line 1: taken as false)", 2 },
        { "T=2; [ $X = a ] && T=4; [ a = $X ] && T=8\n", NULL, 2 },
        { "T=2; if (( N ? 1 : 0 )); then T=4; fi\n", "(( N ? 1 : 0 )) (line 1: taken as false)", 2 },
        { "T=2; N=1; ! (( ++N > 1 )) || T=4\n", "! (( ++N > 1 )) (line 1: taken as false)", 4 },
        { "T=2; false && (( N ? 1 : 0 )); [[ N -gt 1 ]] && T=4\n", "[[ N -gt 1 ]] (line 1: taken as false)", 2 },
        { "T=2; read -d : T <<< 4; T=${T:-8}\n", "read -d : T (line 1: taken to read nothing)", 8 },
        { "T=2; f() { N=${@:1}; T=${N}4; }; f 8\n", "${@:1} (line 1: taken as empty)", 4 },
        { "T=2; N=ab; [[ ${N:0:1} == a ]] && T=4\n", "${N:0:1} (line 1: taken as empty)", 2 },
        { "T=2; N=ab; false && M=${N:0:1}; M=${M/a/b}\n", NULL, 2 },
        { "T=2; [ a -nt b ] && T=4\n", "[ a -nt b ] (line 1: taken as false)", 2 },
        { "for T in 2 4; do\n", "for T in 2 4 (line 1: read once, with 2)", 2 },
        { "for T in 4 $X; do\n", NULL, 4 },
        { "for i in 2 4; do T=8\n", NULL, 8 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int k = 0; k < 2; k++) {
            struct arena arena = { 0 };
            char text[512];
            bool loops = strncmp(cases[i].text, "for", 3) == 0;
            snprintf(text, sizeof text, "%storchrun p.py %s $T %s 1\n%s", cases[i].text,
                     k ? "--tensor-model-parallel-size" : "--parallelism.tensor_parallel_degree",
                     k ? "--micro-batch-size" : "--training.local_batch_size", loops ? "done\n" : "");
            struct launch_read read = read_text(k ? megatron() : target_find("torchtitan"), &arena, "run.sh", text);
            ck_assert_msg(read.launch.tensor == cases[i].tensor, "%s: %d", text, (int)read.launch.tensor);
            ck_assert_msg(read.unknown_count == (cases[i].listed != NULL), "%s: %d, %s", text, read.unknown_count,
                          read.unknown_count ? read.unknown[0] : "");
            if (cases[i].listed)
                ck_assert_str_eq(read.unknown[0], cases[i].listed);
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
    CHECK_ADD(suite, test_what_comes_to_nothing);
    CHECK_ADD(suite, test_what_may_come_to_nothing);
    CHECK_ADD(suite, test_places);
    CHECK_ADD(suite, test_recipes_of_scripts);
    CHECK_ADD(suite, test_numbers_of_refusals);
    CHECK_ADD(suite, test_too_many_options);
    CHECK_ADD(suite, test_what_is_listed);
    return suite;
}

CHECK_MAIN(target_scripts_suite)
