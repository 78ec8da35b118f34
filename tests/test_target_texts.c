/* Texts that a script makes words of, or hands to another shell: files, here documents, and lists by name. */
#include "base/text.h"
#include "targets/shell.h"
#include "tests/as_bash.h"
#include "tests/megatron_launches.h"
#include "tests/target_launches.h"

/* Elements by name and by number, and what commands are fed, are as bash has them. */
START_TEST(test_as_bash)
{
    static const char *const scripts[] = {
        "declare -A C=([tp]=2 [\"pp\"]=4); T=${C[tp]}${C[\"pp\"]}${C[x]:-5}${#C[@]}",
        "declare -A C; K=tp; C[tp]=8; C[$K]+=1; C[pp]=3; T=${C[$K]}${C[pp]}$(( ${C[pp]} * 2 ))",
        "A=(1 2); A[1]=4; A[2]=5; i=2; T=${A[*]}-${A[$i]}-${A[i]}-${#A[@]}; T=${T// /.}; T=${A[1]}${A[$i]}${A[i]}",
        "A[0]=3; A[0]=4; T=${A[0]}${A}",
        "A=(1 2); A[0]+=3; A[-1]+=4; A[1]+=5; T=${A[0]}${A[1]}",
        "A=([0]=1); A=(2 3); A[1]=4; T=${A[0]}${A[1]}${#A[@]}",
        "A=([0]=1 [1]=2); A[1]+=4; T=${A[0]}${A[1]}${#A[@]}",
        "A=(1); A[5]=2; T=${A}${A[0]}${A[5]}${A[4]:-7}",
        "A=([1]=4 [0]=3); T=${A[0]}${A[1]}",
        "declare -A C=([a]=1 [b]=2); declare -A C=([b]=3); C+=([c]=4); T=${C[a]:-0}${C[b]}${C[c]}",
        "read -r -d \"\" A <<EOF\n 1\n2 \nEOF\nB=($A); T=${B[0]}${B[1]}${#B[@]}",
        "X=7; A=$(cat <<EOF\n$X \\$X\nEOF\n); T=${A% *}",
        "A=$(cat <<EOF | tr \"\\n\" \",\"\n1\n2\nEOF\n); T=$A",
        "A=$(cat <<EOF | grep -v \"^#\" | tr -d 2\n# a\n123\n\nEOF\n); T=$A",
        "readarray -t A <<< \"1 2\n3\"; T=${A[0]% *}${A[1]}${#A[@]}",
        "A=$(cat <<EOF | tr -d \"\\n\"\n\tEOF\n3\nEOF\n); T=${A#*F}",
        "mapfile -t A <<EOF\n1\n2\nEOF\nT=${A[1]}${#A[@]}",
        "readarray -t A < <(cat <<< 4); T=${#A[@]}",
        "T=1; bash <<EOF\nT=2\nEOF\nT=${T}3",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        check_as_bash(scripts[i]);
}
END_TEST

/* Here documents that are scripts are read where a shell gets them, or where they are written into a file. */
START_TEST(test_here_documents)
{
    static const struct {
        const char *begin, *end;
        int tensor;
    } cases[] = {
        { "bash <<EOF\n", "EOF\n", 4 },
        { "srun bash -s <<'EOF'\nD=4\n", "EOF\n", 4 },
        { "sbatch --nodes=1 <<-EOF\n#!/bin/bash\n", "\tEOF\n", 4 },
        { "ssh node0 << \"END\"\nD=4\n", "END\n", 4 },
        { "cat <<EOF > job.sh\n", "EOF\nsbatch job.sh\n", 4 },
        { "cat > \"$X/run.sbatch\" <<EOF\n", "EOF\n", 4 },
        { "cat > job <<EOF\n#!/bin/bash\n", "EOF\n", 4 },
        { "f() {\n tee job.sh <<EOF | cat\n", "EOF\n}\nf\n", 4 },
        { "bash <<EOF\n\tEOF\nD=4\n", "EOF\n", 4 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        char text[512];
        snprintf(text, sizeof text, "D=4\n%storchrun p.py --tensor-model-parallel-size $D --micro-batch-size 1 --bf16\n%s",
                 cases[i].begin, cases[i].end);
        struct launch_read read = read_text(megatron(), &arena, "run.sh", text);
        ck_assert_msg(read.launch.tensor == cases[i].tensor, "%s: %d", text, (int)read.launch.tensor);
        ck_assert_ptr_null(read.hidden);
        arena_free(&arena);
    }
    static const char launch[] = "torchrun p.py --tensor-model-parallel-size 2 --micro-batch-size 1\n";
    static const char *const others[] = { "cat <<EOF\n--tensor-model-parallel-size 8 --bf16 --fp16\nEOF\n",
                                          "cat > a.txt <<EOF\ntorchrun p.py --tensor-model-parallel-size 8 --bf16\nEOF\n",
                                          "python - <<EOF\ntorchrun p.py --tensor-model-parallel-size 8 --bf16\nEOF\n",
                                          "if false; then bash <<EOF\na --tensor-model-parallel-size 8 --bf16\nEOF\nfi\n" };
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        struct arena arena = { 0 };
        char text[512];
        snprintf(text, sizeof text, "%s%s", others[i], launch);
        ck_assert_int_eq(read_text(megatron(), &arena, "run.sh", text).launch.tensor, 2);
        arena_free(&arena);
    }
    check_refusal(megatron(), "run.sh", "\nbash <<EOF\ntrue\ncase a in a) T=2;& esac\nEOF\n", "run.sh:4: case: expected ;;");
    check_refusal(megatron(), "run.sh",
                  "f() { bash <<EOF\ntrue\nEOF\n}\ng() { f; }\nh() { g; }\ni() { h; }\nj() { i; }\nk() { j; }\nl() { k; }\n"
                  "m() { l; }\nm\ntorchrun p.py --bf16 --micro-batch-size 1\n",
                  "a here document: more than 8 scripts or functions inside each other");
    check_refusal(megatron(), "run.sh", "torchrun p.py --bf16 @par.txt\n", "@par.txt: Megatron-LM takes no arguments from");
}
END_TEST

/* What is missing of a launch's words is kept, however they come to it; what an option's value misses is not. */
START_TEST(test_what_is_hidden)
{
    static const struct {
        const char *text, *hidden;
    } cases[] = {
        { "torchrun p.py $(gen a) --bf16\n", "$(gen a) (run.sh:1)" },
        { "A=`gen`\n\ntorchrun p.py $A --bf16\n", "$(gen) (run.sh:1)" },
        { "A=(--swiglu)\nA+=($(gen))\ntorchrun p.py \"${A[@]}\" --bf16\n", "$(gen) (run.sh:2)" },
        { "A=$(gen)\ntorchrun p.py --bf16 $A --micro-batch-size 1\n", "$A (which a command of line 1 prints)" },
        { "A=\"--bf16 $(gen)\"\nbash -c \"torchrun p.py $A --micro-batch-size 1\"\n",
          "$(gen ...) (which a command of line 1 prints)" },
        { "f() { torchrun p.py --micro-batch-size 1 $@; }\nf $(gen) --bf16\n", "$(gen) (run.sh:2)" },
        { "mapfile -t A < gone.txt\ntorchrun p.py ${A[@]} --bf16\n", "mapfile A (run.sh:1)" },
        { "bash <<EOF\ntorchrun p.py $(gen) --bf16\nEOF\n", "$(gen) (run.sh:1)" },
        { "declare -A A=([a]=4)\nfor k in \"${!A[@]}\"; do P+=\" --$k ${A[$k]}\"; done\ntorchrun p.py $P --bf16\n",
          "${!A[@]} (run.sh:2)" },
        { "while read -r l; do P=\"$P $l\"; done < args\ntorchrun p.py --bf16 $P\n", "$P (which a command of line 1 prints)" },
        { "A=()\nwhile IFS= read -r l; do A+=(\"$l\"); done < args\ntorchrun p.py --bf16 ${A[@]}\n", "read l (run.sh:2)" },
        { "A=(--swiglu --swiglu)\nA[1]=$(gen)\ntorchrun p.py ${A[@]} --bf16\n", "$(gen) (run.sh:2)" },
        { "A=(--swiglu)\nA[5]=--x\ntorchrun p.py \"${A[@]}\" --bf16\n", "all of A with its A[5] (run.sh:2)" },
        { "A=(--swiglu)\nA[$(gen)]=--x\ntorchrun p.py ${A[0]} --bf16\n", "all of A with its A[$(gen)] (run.sh:2)" },
        { "declare -A A\nA[b]=--x\nB=\"${A[@]}\"\ntorchrun p.py $B --bf16\n", "all of A with its A[b] (run.sh:2)" },
        { "A=([1]=4 [0]=--x)\ntorchrun p.py --bf16 ${A[*]}\n", "all of A with its A[1] (run.sh:1)" },
        { "A=([a]=--x)\ntorchrun p.py --bf16 ${A[$(gen)]}\n", "$A (which a command of line 2 prints)" },
        { "A=$(gen)\ntorchrun --master_addr $A p.py ${A:-} $B --bf16 $C\n", NULL },
        { "A=$(gen):1\nrsync --delete $(gen) a\ntorchrun --rdzv_endpoint=$A p.py --bf16 --micro-batch-size 1\n", NULL },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct arena arena = { 0 };
        struct launch_read read = read_text(megatron(), &arena, "run.sh", cases[i].text);
        ck_assert_msg(!read.hidden == !cases[i].hidden && (!read.hidden || strcmp(read.hidden, cases[i].hidden) == 0),
                      "%s: %s", cases[i].text, read.hidden ? read.hidden : "nothing");
        arena_free(&arena);
    }
    struct arena arena = { 0 };
    struct launch_read read = read_text(target_find("torchtitan"), &arena, "run.sh",
                                        "torchrun -m torchtitan.train --training.seq_len 512 x $(gen)\n");
    ck_assert_str_eq(read.hidden, "$(gen) (run.sh:1)");
    arena_free(&arena);
}
END_TEST

/* Scripts that nobody wrote are refused at once. */
START_TEST(test_without_bound)
{
    struct text nested = { 0 }, keys = { 0 }, open = { 0 };
    text_add(&nested, "P=");
    for (int i = 0; i < 8000; i++)
        text_add(&nested, "${a[");
    text_add(&nested, "0");
    for (int i = 0; i < 8000; i++)
        text_add(&nested, "]}");
    for (int i = 0; i < 40000; i++) {
        text_printf(&keys, "a[k%d]=1\n", i);
        text_add(&open, "a[\n");
    }
    text_add(&open, "torchrun p.py --tensor-model-parallel-size 2 --micro-batch-size 1\n");
    check_refusal(megatron(), "run.sh", nested.data, "run.sh:1: more than 8 expansions inside each other");
    check_refusal(megatron(), "run.sh", keys.data, "the script sets more than 1024 variables");
    struct arena arena = { 0 };
    ck_assert_int_eq(read_text(megatron(), &arena, "run.sh", open.data).launch.tensor, 2);
    arena_free(&arena);
    text_free(&nested);
    text_free(&keys);
    text_free(&open);
}
END_TEST

static Suite *target_texts_suite(void)
{
    Suite *suite = suite_create("target_texts");
    CHECK_ADD(suite, test_as_bash);
    CHECK_ADD(suite, test_here_documents);
    CHECK_ADD(suite, test_what_is_hidden);
    CHECK_ADD(suite, test_without_bound);
    return suite;
}

CHECK_MAIN(target_texts_suite)
