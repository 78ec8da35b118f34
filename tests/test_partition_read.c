/* The readers of other planners' formats: every refusal says where. */
#include "peers/dnn.h"
#include "peers/pipedream.h"
#include "peers/piper.h"
#include "tests/check.h"
#include <stdio.h>
#include <string.h>

enum { FORMAT_PIPEDREAM, FORMAT_PIPER, FORMAT_DNN };

/* The text, in which '@' stands before what is at fault, is refused there with a message that begins so. */
static void check_refused(int format, const char *marked, int line, const char *message)
{
    char text[2048], expected[512];
    const char *mark = strchr(marked, '@'), *start = marked;
    ck_assert_msg(mark != NULL && strlen(marked) < sizeof text, "%s", marked);
    for (const char *p = marked; p < mark; p++)
        start = *p == '\n' ? p + 1 : start;
    snprintf(text, sizeof text, "%.*s%s", (int)(mark - marked), marked, mark + 1);
    snprintf(expected, sizeof expected, "f:%d:%d: %s", line, (int)(mark - start) + 1, message);
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph pipedream;
    struct piper_graph piper;
    struct dnn_graph dnn;
    bool read = format == FORMAT_PIPEDREAM ? pipedream_read(&pipedream, "f", text, strlen(text), &arena, &err)
                : format == FORMAT_PIPER   ? piper_read(&piper, "f", text, strlen(text), &arena, &err)
                                           : dnn_read(&dnn, "f", text, strlen(text), &arena, &err);
    ck_assert_msg(!read && err.kind == ERROR_INPUT, "accepted: %s", text);
    ck_assert_msg(strncmp(err.message, expected, strlen(expected)) == 0, "%s\n  says      %s\n  expected  %s", text,
                  err.message, expected);
    arena_free(&arena);
}

#define NUMBERS "forward_compute_time=1, backward_compute_time=2, activation_size=3, parameter_size=4"
START_TEST(graph_txt_is_refused_with_its_place)
{
    enum { LINES = 1000000 };
    char *lines = malloc(LINES);
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph graph;
    memset(lines, '\n', LINES);
    ck_assert(!pipedream_read(&graph, "f", lines, LINES, &arena, &err));
    ck_assert_str_eq(err.message, "f: expected at most 1000000 lines, found 1000001");
    free(lines);
    check_refused(FORMAT_PIPEDREAM, "@node1\n", 1, "expected 'id -- description");
    check_refused(FORMAT_PIPEDREAM, "a -- @b\n", 1, "expected 'description -- forward_compute_time=...', found 'b'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- " NUMBERS "\n@a -- c -- " NUMBERS "\n", 2,
                  "expected a name that no other node has, found 'a'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- " NUMBERS "\n\ta -- @c\n", 2, "expected the name of a node, found 'c'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- " NUMBERS "\n\t@a\n", 2, "expected TAB 'id -- id', found 'a'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- " NUMBERS ", @speed=1\n", 1, "expected forward_compute_time=");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- " NUMBERS ", @parameter_size=1\n", 1, "expected each value once");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- forward_compute_time=@-1\n", 1,
                  "expected a number of 0 to 1e18, found '-1'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- activation_size=@[1; 2\n", 1, "expected a list that ends with ']'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- activation_size=[1; @x]\n", 1,
                  "expected a number of 0 to 1e18, found 'x'");
    check_refused(FORMAT_PIPEDREAM, "a -- b -- @forward_compute_time=1\n", 1, "expected backward_compute_time, found");
}
END_TEST

START_TEST(graph_txt_is_read_whole)
{
    static const char text[] = "b -- Conv(1, k=(2 -- 2)) -- " NUMBERS " -- stage_id=3\r\n"
                               "\ta -- b\n\n"
                               "a -- LSTM -- activation_size=[1.5; 2; 3], parameter_size=0, backward_compute_time=2, "
                               "forward_compute_time=1";
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct pipedream_graph graph;
    ck_assert_msg(pipedream_read(&graph, "f", text, sizeof text - 1, &arena, &err), "%s", err.message);
    ck_assert(graph.node_count == 2 && graph.edge_count == 1);
    ck_assert(graph.edges[0].from == 1 && graph.edges[0].to == 0);
    ck_assert_str_eq(graph.nodes[0].description, "Conv(1, k=(2 -- 2))");
    CHECK_NEAR(graph.nodes[0].parameter_bytes, 4, 0);
    CHECK_NEAR(graph.nodes[1].activation_bytes, 6.5, 0);
    arena_free(&arena);
}
END_TEST

#define PIPER(nodes, edges)                                                                                            \
    "{\"maxDevices\":2,\"maxMemoryPerDevice\":9,\"bandwidth\":1,\"mbsInBatch\":2,\"nodes\":[" nodes                    \
    "],\"edges\":[" edges "]}"
#define VARIANT(in, out, w)                                                                                            \
    "{\"id\":\"v\",\"timePerSample\":1,\"parameterSize\":" w ",\"memoryUsageA\":1,\"memoryUsageB\":1,"                 \
    "\"syncTimeFw\":" in ",\"syncTimeBw\":" out "}"
START_TEST(piper_json_is_refused_with_its_place)
{
    check_refused(
        FORMAT_PIPER,
        "{\"maxDevices\":@0,\"maxMemoryPerDevice\":9,\"bandwidth\":1,\"mbsInBatch\":2,\"nodes\":[],\"edges\":[]}", 1,
        "maxDevices: expected");
    check_refused(FORMAT_PIPER,
                  PIPER("{\"id\":1,\"TMPCs\":{\"1\":[" VARIANT("@{}", "{}", "1") "]}},{\"id\":2,\"TMPCs\":{}}",
                        "{\"sourceId\":2,\"destId\":1,\"communicationCost\":1}"),
                  1, "nodes[0].TMPCs.1[0].syncTimeFw: expected the bytes for node 2, found none");
    check_refused(FORMAT_PIPER, PIPER("{\"id\":1,\"TMPCs\":{\"1\":[" VARIANT("{}", "@{\"7\":1}", "1") "]}}", ""), 1,
                  "nodes[0].TMPCs.1[0].syncTimeBw: expected 0 nodes, one per edge, found 1");
    check_refused(
        FORMAT_PIPER,
        PIPER("{\"id\":1,\"TMPCs\":{\"1\":[" VARIANT("{}", "{}", "1") ",@" VARIANT("{}", "{}", "2") "]}}", ""), 1,
        "nodes[0].TMPCs.1[1]: expected parameterSize, syncTimeFw and syncTimeBw of the degree's first variant");
    check_refused(FORMAT_PIPER, PIPER("{\"id\":1,\"TMPCs\":{\"x\":@[]}}", ""), 1,
                  "nodes[0].TMPCs.x: expected a tensor degree");
    check_refused(FORMAT_PIPER, PIPER("{\"id\":1,\"TMPCs\":{}},@{\"id\":1,\"TMPCs\":{}}", ""), 1,
                  "nodes[1]: expected an id of its own, found 1 twice");
    check_refused(FORMAT_PIPER,
                  PIPER("{\"id\":1,\"TMPCs\":{}}", "@{\"sourceId\":5,\"destId\":1,\"communicationCost\":1}"), 1,
                  "edges[0]: expected the id of a node, found 5");
}
END_TEST

#define DNN_NODE(id) "{\"id\":" id ",\"supportedOnFpga\":1,\"cpuLatency\":1,\"fpgaLatency\":1,\"isBackwardNode\":0}"
#define DNN(nodes, edges)                                                                                              \
    "{\"maxSizePerFPGA\":9,\"maxFPGAs\":2,\"maxCPUs\":1,\"nodes\":[" nodes "],\"edges\":[" edges "]}"
START_TEST(dnn_json_is_refused_with_its_place)
{
    check_refused(FORMAT_DNN,
                  DNN("{\"id\":1,\"supportedOnFpga\":@2,\"cpuLatency\":1,\"fpgaLatency\":1,\"isBackwardNode\":0}", ""),
                  1, "nodes[0].supportedOnFpga: expected");
    check_refused(FORMAT_DNN, DNN(DNN_NODE("1") ",@" DNN_NODE("1"), ""), 1,
                  "nodes[1]: expected an id of its own, found 1 twice");
    check_refused(FORMAT_DNN, DNN(DNN_NODE("1"), "@{\"sourceId\":1,\"destId\":4,\"cost\":1}"), 1,
                  "edges[0]: expected the id of a node, found 4");
    check_refused(FORMAT_DNN,
                  DNN(DNN_NODE("1") "," DNN_NODE("2"), "{\"sourceId\":1,\"destId\":2,\"cost\":1},"
                                                       "{\"sourceId\":1,\"destId\":2,\"cost\":@2}"),
                  1, "edges[1].cost: expected 1 as on the other edges of node 1, which is sent once, found 2");
}
END_TEST

/* What the peer's files say of a node and nobody needs. */
START_TEST(dnn_json_may_name_layers)
{
    static const char text[] = DNN("{\"id\":1,\"supportedOnFpga\":1,\"cpuLatency\":1,\"fpgaLatency\":1,"
                                   "\"isBackwardNode\":0,\"layerId\":7}",
                                   "");
    struct arena arena = { 0 };
    struct error err = { 0 };
    struct dnn_graph graph;
    ck_assert_msg(dnn_read(&graph, "f", text, sizeof text - 1, &arena, &err), "%s", err.message);
    ck_assert_int_eq(graph.node_count, 1);
    arena_free(&arena);
}
END_TEST

static Suite *partition_read(void)
{
    Suite *s = suite_create("partition_read");
    CHECK_ADD(s, graph_txt_is_refused_with_its_place);
    CHECK_ADD(s, graph_txt_is_read_whole);
    CHECK_ADD(s, piper_json_is_refused_with_its_place);
    CHECK_ADD(s, dnn_json_is_refused_with_its_place);
    CHECK_ADD(s, dnn_json_may_name_layers);
    return s;
}

CHECK_MAIN(partition_read)
