/* SPDX-License-Identifier: Apache-2.0 */
/* The scenario as a picture: a band for each way, the request's lane above the best-effort one. */
#include <inttypes.h>

#include "preemption.h"

#define BEFORE_NS 600000u /* of the request's arrival */
#define AFTER_NS  1800000u
#define LEFT      160u
#define RIGHT     20u
#define TOP       64u
#define BAND      76u
#define LANE      22u
#define PX_PER_MS 380u

static const char style[] = "<style>\n"
			    "text { font: 13px sans-serif; fill: #222 }\n"
			    ".small { font-size: 11px }\n"
			    ".name { font-weight: bold }\n"
			    ".in { fill: #fff; text-anchor: middle }\n"
			    ".work { fill: #4a7ab0 }\n"
			    ".lost { fill: #c9a6a6 }\n"
			    ".again { fill: #c4472b }\n"
			    ".request { fill: #2f8f4e }\n"
			    ".wait { stroke: #2f8f4e; stroke-width: 2; stroke-dasharray: 3 3 }\n"
			    ".arrival { stroke: #222; stroke-dasharray: 2 4 }\n"
			    ".axis { stroke: #888 }\n"
			    "</style>\n";

static double x_of(const struct preemption_result *r, uint64_t ns)
{
	double from_start = (double)ns - ((double)r->arrival_ns - BEFORE_NS);
	double end = (double)(BEFORE_NS + AFTER_NS);

	from_start = from_start < 0 ? 0 : from_start > end ? end : from_start;
	return LEFT + from_start * PX_PER_MS / 1e6;
}

static const char *class_of(const struct preemption_span *s)
{
	if (s->urgent) {
		return "request";
	}
	return s->lost ? "lost" : s->again ? "again" : "work";
}

static void draw_span(
	FILE *out, const struct preemption_result *r, const struct preemption_span *s, unsigned top)
{
	double x = x_of(r, s->start_ns), end = x_of(r, s->end_ns);
	unsigned y = top + (s->urgent ? 0 : LANE + 4);

	if (end - x < 0.5) {
		return;
	}
	fprintf(out, "<rect class=\"%s\" x=\"%.1f\" y=\"%u\" width=\"%.1f\" height=\"%u\"/>\n",
		class_of(s), x, y, end - x - 1, LANE);
	if (!s->urgent && end - x > 18) {
		fprintf(out, "<text class=\"in\" x=\"%.1f\" y=\"%u\">%" PRIu32 "</text>\n",
			(x + end) / 2, y + 16, s->kernel);
	}
}

static void draw_way(FILE *out, const struct preemption_way *way, unsigned top)
{
	static struct preemption_result r;
	double arrived, started;

	preemption_run(way, PREEMPTION_MIDDLE, &r);
	arrived = x_of(&r, r.arrival_ns);
	started = x_of(&r, r.arrival_ns + r.detect_ns + r.preempt_ns);
	fprintf(out,
		"<text class=\"name\" x=\"10\" y=\"%u\">%s</text>\n"
		"<text class=\"small\" x=\"10\" y=\"%u\">request +%.0f µs</text>\n"
		"<text class=\"small\" x=\"10\" y=\"%u\">best-effort +%.0f µs</text>\n",
		top + 14, way->name, top + 30, (double)r.request_delay_ns / 1000, top + 45,
		(double)r.best_effort_delay_ns / 1000);
	fprintf(out, "<path class=\"wait\" d=\"M%.1f %u H%.1f\"/>\n", arrived, top + LANE / 2,
		started);
	for (uint32_t k = 0; k < r.n_spans; k++) {
		draw_span(out, &r, &r.spans[k], top);
	}
}

static void draw_axis(FILE *out, unsigned width, unsigned y)
{
	fprintf(out, "<path class=\"axis\" d=\"M%u %u H%u\"/>\n", LEFT, y, width - RIGHT);
	for (int us = -400; us <= 1600; us += 400) {
		double x = LEFT + (BEFORE_NS + us * 1e3) * PX_PER_MS / 1e6;

		fprintf(out,
			"<path class=\"axis\" d=\"M%.1f %u v5\"/>\n"
			"<text class=\"small\" text-anchor=\"middle\" x=\"%.1f\" y=\"%u\">%d%s</text>\n",
			x, y, x, y + 18, us, us == 0 ? " µs" : "");
	}
}

static void draw_legend(FILE *out)
{
	static const struct {
		const char *class, *text;
		unsigned x;
	} items[] = {
		{"request", "the request", 160},
		{"work", "best-effort kernels, by number", 265},
		{"lost", "work thrown away", 475},
		{"again", "done again", 610},
	};

	for (unsigned k = 0; k < sizeof(items) / sizeof(items[0]); k++) {
		fprintf(out,
			"<rect class=\"%s\" x=\"%u\" y=\"16\" width=\"12\" height=\"12\"/>\n"
			"<text class=\"small\" x=\"%u\" y=\"26\">%s</text>\n",
			items[k].class, items[k].x, items[k].x + 17, items[k].text);
	}
}

void preemption_figure(FILE *out)
{
	unsigned width = LEFT + (BEFORE_NS + AFTER_NS) / 1000u * PX_PER_MS / 1000u + RIGHT;
	double x = LEFT + BEFORE_NS * (double)PX_PER_MS / 1e6;
	unsigned n = 0, bottom;

	while (preemption_ways[n].name) {
		n++;
	}
	bottom = TOP + n * BAND;
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %u %u\" width=\"%u\">\n"
		"<title>An urgent request in the midst of the 25th of 100 kernels</title>\n"
		"%s<rect width=\"%u\" height=\"%u\" fill=\"#fff\"/>\n",
		width, bottom + 30, width, style, width, bottom + 30);
	draw_legend(out);
	fprintf(out,
		"<path class=\"arrival\" d=\"M%.1f 46 V%u\"/>\n"
		"<text class=\"small\" text-anchor=\"middle\" x=\"%.1f\" y=\"44\">the request arrives</text>\n",
		x, bottom, x);
	for (unsigned k = 0; k < n; k++) {
		draw_way(out, &preemption_ways[k], TOP + k * BAND);
	}
	draw_axis(out, width, bottom);
	fprintf(out, "</svg>\n");
}
