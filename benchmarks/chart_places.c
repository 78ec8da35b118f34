/* Where a plan's stages are: nodes and devices, links, and what each stage holds and does. */
#include "benchmarks/chart_draw.h"
#include "base/num.h"
#include <stdio.h>
#include <string.h>

enum { MOST_BOXES = 256, MOST_STAGES = 64, FEW_STAGES = 32, NODE_RUNS = 64 };

/* Neighbouring devices of one node that are of one stage. */
struct run {
    int stage, devices;
};
/* What lies on a node; nodes that are alike and follow each other share one box where there are many. */
struct node {
    int count; /* runs */
    struct run runs[NODE_RUNS];
};

static bool same_node(const struct node *a, const struct node *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (a->runs[i].stage != b->runs[i].stage || a->runs[i].devices != b->runs[i].devices)
            return false;
    return true;
}

/* The node whose first rank is *rank, which moves on. Ranks beyond the plan's are idle: stage -1. */
static struct node node_at(const struct report_plan *plan, int *rank)
{
    struct node node = { 0 };
    int unit = cluster_unit_of(plan->cluster, *rank, 0);
    for (; *rank < plan->cluster->device_count && cluster_unit_of(plan->cluster, *rank, 0) == unit; (*rank)++) {
        int stage = *rank < plan->plan->rank_count ? plan_stage_of_rank(plan->plan, *rank) : -1;
        if (node.count > 0 && node.runs[node.count - 1].stage == stage)
            node.runs[node.count - 1].devices++;
        else if (node.count < NODE_RUNS)
            node.runs[node.count++] = (struct run){ stage, 1 };
    }
    return node;
}

static void draw_node(struct text *out, const struct report_plan *plan, const struct node *node, int first, int last,
                      bool many)
{
    char title[96];
    int devices = 0;
    for (int i = 0; i < node->count; i++)
        devices += node->runs[i].devices;
    if (first == last)
        snprintf(title, sizeof title, "node %d", first);
    else
        snprintf(title, sizeof title, "nodes %d to %d", first, last);
    text_printf(out, "<span class=\"node\" title=\"%s\"%s>", title, many ? " data-many" : "");
    for (int i = 0; i < node->count; i++) {
        const struct run *run = &node->runs[i];
        if (run->stage < 0)
            text_printf(out, "<b class=\"idle\" style=\"flex:%d;--n:%d\"></b>", run->devices, run->devices);
        else
            text_printf(out, "<b style=\"flex:%d;--n:%d;--h:%d;--l:%d%%\">%d</b>", run->devices, run->devices,
                        200 + 300 * run->stage / (int)max_i64(1, plan->plan->stage_count), run->stage % 2 ? 28 : 35,
                        run->stage);
    }
    if (many)
        text_printf(out, "<em>%s</em>", title);
    text_add(out, "</span>");
}

static void draw_map(struct text *out, const struct report_plan *plan)
{
    int nodes = 0, boxes = 0, rank = 0;
    char alt[256];
    while (rank < plan->cluster->device_count) {
        node_at(plan, &rank);
        nodes++;
    }
    bool many = nodes > MOST_BOXES;
    snprintf(alt, sizeof alt, "%d nodes with %d devices; the table of stages says which stage is on which", nodes,
             plan->cluster->device_count);
    text_add(out, "<div class=\"map\" role=\"img\"");
    draw_attribute(out, "aria-label", alt);
    text_add(out, ">");
    for (int at = 0, first = rank = 0; at < nodes && boxes < MOST_BOXES; boxes++) {
        struct node node = node_at(plan, &rank);
        first = at++;
        while (many && at < nodes) {
            int ahead = rank;
            struct node next = node_at(plan, &ahead);
            if (!same_node(&node, &next))
                break;
            rank = ahead;
            at++;
        }
        draw_node(out, plan, &node, first, at - 1, many);
    }
    text_add(out, "</div>\n");
}

/* "Nodes 0 to 1: 16 h100-sxm; nodes 2 to 5: 32 a100-sxm-80." */
static void draw_types(struct text *out, const struct cluster *cluster)
{
    char number[TEXT_NUMBER_BYTES];
    text_add(out, "<p class=\"soft\">A box is a node; numbers are stages. ");
    for (int g = 0; g < cluster->group_count; g++) {
        const struct node_group *group = &cluster->groups[g];
        int first = cluster_unit_of(cluster, group->first_rank, 0),
            last = cluster_unit_of(cluster, group->first_rank + group->device_count - 1, 0);
        text_printf(out, last > first ? "%s %d to %d: " : "%s %d: ",
                    last > first ? (g ? "; nodes" : "Nodes") : (g ? "; node" : "Node"), first, last);
        draw_words(out, "%s %s", text_count(number, group->device_count), cluster->types[group->type].device.name);
    }
    text_add(out, ".</p>\n");
}

/* ---- links ---- */
static void level_words(struct text *out, const struct cluster *cluster, int type, int level)
{
    const struct link_level *l = &cluster->types[type].levels[level];
    if (level == 0 && cluster->level_count > 1)
        text_add(out, "within a node");
    else if (level == 0)
        text_add(out, "between devices");
    else if (level == cluster->level_count - 1)
        text_add(out, "between nodes");
    else
        draw_words(out, "within a %s", l->name ? l->name : "group");
    text_printf(out, ", %.4g GB/s per device%s", l->bytes_per_s / 1e9, l->shared ? ", shared" : "");
}

static void link_row(struct text *out, const struct cluster *cluster, int type, const char *name, int size, int level)
{
    text_add(out, "<tr><th scope=\"row\">");
    draw_words(out, "%s", name);
    text_printf(out, "</th><td>%d</td><td>", size);
    level_words(out, cluster, type, level);
    text_add(out, "</td></tr>\n");
}

static const char *dimension_words(const char *name)
{
    static const char *const words[][2] = {
        { "dp", "data parallel" },   { "rp", "replicated data parallel" },         { "ps", "parameter server" },
        { "tp", "tensor parallel" }, { "tp+sp", "tensor parallel, sequence too" }, { "ep", "expert parallel" }
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (!strcmp(words[i][0], name))
            return words[i][1];
    return name;
}

/* The type of device whose links of the level are the slowest. */
static int slowest_type(const struct cluster *cluster, int level)
{
    int slowest = 0;
    for (int t = 1; t < cluster->type_count; t++)
        if (cluster->types[t].levels[level].bytes_per_s < cluster->types[slowest].levels[level].bytes_per_s)
            slowest = t;
    return slowest;
}

/* As the first stage's middle layer has them. */
static void links_table(struct text *out, const struct report_plan *plan)
{
    const struct plan *p = plan->plan;
    const struct plan_stage *stage = &p->stages[0];
    const struct plan_layer *layer = &p->layers[stage->first_layer + stage->layer_count / 2];
    text_add(out, "<div class=\"wide\"><table class=\"plain\"><thead><tr><th scope=\"col\">group</th><th "
                  "scope=\"col\">ranks</th><th scope=\"col\">its slowest link</th></tr></thead><tbody>\n");
    int stride = 1;
    for (int a = p->atom_count - 1; a >= 0; stride *= stage->atom[a], a--) {
        int size = stage->atom[a];
        if (size > 1 && layer->dim[a] >= 0)
            link_row(out, plan->cluster, cluster_type(plan->cluster, stage->first_rank),
                     dimension_words(dimensions[layer->dim[a]]->name), size,
                     cluster_level(plan->cluster, stage->first_rank, stage->first_rank + stride * (size - 1)));
    }
    int level = 0;
    for (int s = 0; s + 1 < p->stage_count; s++) {
        int next = cluster_level(plan->cluster, p->stages[s].first_rank, p->stages[s + 1].first_rank);
        level = next > level ? next : level;
    }
    if (p->stage_count > 1)
        link_row(out, plan->cluster, slowest_type(plan->cluster, level), "pipeline, from stage to stage",
                 p->stage_count, level);
    text_add(out, "</tbody></table></div>\n");
}

void chart_places(struct text *out, const struct report_plan *plan)
{
    if (!plan->plan || !plan->cluster)
        return;
    draw_types(out, plan->cluster);
    draw_map(out, plan);
    links_table(out, plan);
}

/* ---- stages ---- */
/* "3-7", or "3" where there is no more. */
static void range_words(struct text *out, int first, int last)
{
    text_printf(out, "%d", first);
    if (last > first)
        text_printf(out, "&ndash;%d", last);
}

static void ranges(struct text *out, const struct plan *p, int stage)
{
    for (int c = 0; c < p->chunk_count; c++) {
        struct layer_range range = plan_stage_chunk(p, stage, c);
        if (range.count > 0) {
            text_add(out, c ? ", " : "");
            range_words(out, range.first, range.first + range.count - 1);
        }
    }
}

static void stage_row(struct text *out, const struct report_plan *plan, int stage, int64_t most_bytes)
{
    const struct plan *p = plan->plan;
    const struct prediction *prediction = plan->prediction;
    char number[TEXT_NUMBER_BYTES];
    bool few = p->stage_count <= FEW_STAGES; /* titles take half of the bytes */
    int first = p->stages[stage].first_rank, last = first + plan_stage_rank_count(p, stage) - 1;
    text_printf(out, "<tr><th scope=\"row\">%d</th><td>", stage);
    range_words(out, first, last);
    if (plan->cluster) {
        text_add(out, "</td><td>");
        range_words(out, cluster_unit_of(plan->cluster, first, 0), cluster_unit_of(plan->cluster, last, 0));
    }
    text_add(out, "</td><td>");
    ranges(out, p, stage);
    text_add(out, "</td><td class=\"bar\">");
    for (int r = 0; plan->predicted && r < plan->predicted->rank_count; r++)
        if (plan->predicted->ranks[r].stage == stage) {
            int64_t ns[TIME_KIND_COUNT];
            timeline_breakdown(plan->program, plan->predicted, r, ns);
            chart_small_stack(out, ns, TIME_KIND_COUNT, plan->predicted_step_ns, 't', few ? time_kind_words : NULL,
                              text_duration_ns);
            text_printf(out, "</td><td>%.1f %%",
                        100 * (double)ns[TIME_BUBBLE] / (double)max_i64(1, plan->predicted_step_ns));
            break;
        }
    text_add(out, "</td><td class=\"bar\">");
    chart_small_stack(out, plan->memory[stage].bytes, MEMORY_KIND_COUNT, most_bytes, 'm',
                      few ? memory_kind_words : NULL, text_bytes);
    text_printf(out, "</td><td>%s</td><td>%s</td></tr>\n", text_bytes(number, plan->memory[stage].peak_bytes),
                text_bytes((char[TEXT_NUMBER_BYTES]){ 0 }, prediction->available_bytes[stage]));
}

void chart_stages(struct text *out, const struct report_plan *plan)
{
    if (!plan->plan || !plan->memory || !plan->prediction)
        return;
    int count = plan->plan->stage_count, shown = count < MOST_STAGES ? count : MOST_STAGES;
    int64_t most_bytes = chart_most_bytes(plan->prediction->available_bytes, count);
    for (int s = 0; s < count; s++)
        most_bytes = max_i64(most_bytes, plan->memory[s].peak_bytes);
    bool far = chart_most_bytes(plan->predicted_peak_bytes, plan->rank_count) * 3 < most_bytes;
    if (far)
        most_bytes = chart_most_bytes(plan->predicted_peak_bytes, plan->rank_count);
    text_printf(out,
                "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"stages\"><table "
                "class=\"stages\"><thead><tr><th scope=\"col\">stage</th><th scope=\"col\">ranks</th>%s<th "
                "scope=\"col\">layers</th><th scope=\"col\" class=\"bar\">its step</th><th scope=\"col\">idle</th><th "
                "scope=\"col\" class=\"bar\">its memory</th><th scope=\"col\">peak</th><th "
                "scope=\"col\">usable</th></tr></thead><tbody>\n",
                plan->cluster ? "<th scope=\"col\">nodes</th>" : "");
    for (int s = 0; s < shown; s++)
        stage_row(out, plan, s, most_bytes);
    text_add(out, "</tbody></table></div>\n");
    if (shown < count)
        text_printf(out, "<p class=\"soft\">The first %d of %d stages.</p>\n", shown, count);
}
